#!/bin/sh
# Builds the simulated device for one virtual environment that holds PyTorch.
# usage: build.sh VENV OUT
# One library stands in for all of NVIDIA's: loaded before them, its functions are found first.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
site=$(cd "$1" && echo "$PWD"/lib/python3*/site-packages)
mkdir -p "$2"
out=$(cd "$2" && pwd)
cc=${CC:-gcc}
flags="-std=gnu11 -O2 -fPIC -Wall -Wextra -Werror -Wno-deprecated-declarations"

# NVIDIA's headers come with PyTorch; they are not held to our warnings.
includes=
for d in "$site"/nvidia/cu1*/include "$site"/nvidia/*/include; do
    [ -d "$d" ] && includes="$includes -isystem $d"
done
objects=
for name in memory runtime libraries; do
    # shellcheck disable=SC2086
    $cc $flags $includes -c "$here/$name.c" -o "$out/$name.o"
    objects="$objects $out/$name.o"
done

# Whatever else PyTorch takes from these libraries is a function that returns 0, which is success.
# shellcheck disable=SC2086
nm --defined-only $objects | awk 'NF == 3 { print $3 }' | sort -u >"$out/written"
nm -D --undefined-only "$site"/torch/lib/*.so |
    sed -nE 's/^ +U (\w+)@+lib(cudart|cublas|cublasLt)\.so\..*/\1/p; s/^ +U (cu[A-Z]\w+)$/\1/p' |
    grep -vE '^cu(pti|fft|sparse|solver|File)' | sort -u >"$out/needed"
comm -13 "$out/written" "$out/needed" |
    sed 's/.*/long &(void); long &(void) { return 0; }/' >"$out/generated.c"
$cc -std=gnu11 -fPIC -c "$out/generated.c" -o "$out/generated.o"

# shellcheck disable=SC2086
$cc -shared -o "$out/libdevice.so" $objects "$out/generated.o" -lpthread -ldl
ln -sf libdevice.so "$out/libcuda.so.1"
ln -sf libdevice.so "$out/libnvidia-ml.so.1"
cat >"$out/run" <<END
#!/bin/sh
# usage: run PROGRAM ARGUMENTS...   on the simulated device
LD_LIBRARY_PATH="$out" LD_PRELOAD="$out/libdevice.so" exec "\$@"
END
chmod +x "$out/run"
