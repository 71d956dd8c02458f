#!/bin/sh
# What `make` says on machines that lack something: which parts it leaves out, in one line each.
. tests/cli.shi

# says TEXT ARGUMENT...: make prints exactly this one line.
says() {
    text=$1
    shift
    begin "make $*: ${text#  }"
    command="make $*"
    make --no-print-directory "$@" >"$out" 2>"$err"
    status=$?
    want ended 0
    want is "$(cat "$out")" "$text"
    want empty "$err"
}
unset MAKEFLAGS MAKELEVEL MFLAGS
says "  the CUDA back end is left out: CUDA=0" cuda CUDA=0
says "  the CUDA back end is left out: no nvcc" cuda NVCC=
says "  the emulated device and its tests are left out: no C++ compiler (no-such-compiler)" no-emulation \
    CXX=no-such-compiler

begin "without a C++ compiler nothing needs one"
command="make -n check CXX=no-such-compiler"
make --no-print-directory -n check CXX=no-such-compiler BUILD="$dir/build" PROGRAM="$dir/memtrace" >"$out" 2>"$err"
status=$?
want ended 0
want empty "$err"
want no grep -q '^[^"]*no-such-compiler' "$out"
want has "$out" "emulated device and its tests are left out"
want has "$out" "-o $dir/memtrace "
want no has "$out" test_cuda_engine

if command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ]; then
    says "  the CUDA back end is left out: no C++ compiler, which nvcc needs" cuda CXX=no-such-compiler
    mkdir "$dir/old"
    cat >"$dir/old/nvcc" <<'SH'
#!/bin/sh
echo "Cuda compilation tools, release 12.4, V12.4.99"
SH
    chmod +x "$dir/old/nvcc"
    home=$(realpath "$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)" | sed 's#/bin/nvcc$##')
    says "  the CUDA back end is left out: nvcc 12.4 is older than 12.5" cuda NVCC="$dir/old/nvcc" \
        CUDA_HOME="$home"
    says "  the CUDA back end is left out: no cublas_v2.h" cuda NVCC="$dir/old/nvcc" CUDA_HOME="$dir"
else
    skip "make cuda, with an nvcc" "there is none"
fi
finish
