#!/bin/sh
# Builds the simulated device for one virtual environment that holds PyTorch.
# usage: build.sh VENV OUT
# One library stands in for all of NVIDIA's: loaded before them, its functions are found first. Those
# that are not installed get an empty library under their name.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
site=$(cd "$1" && echo "$PWD"/lib/python3*/site-packages)
mkdir -p "$2"
out=$(cd "$2" && pwd)
cc=${CC:-gcc}
flags="-std=gnu11 -O2 -fPIC -Wall -Wextra -Werror -Wno-deprecated-declarations"

# CUDA's headers, of the release that PyTorch was built for; they are not held to our warnings.
includes=
for d in "$site"/nvidia/cu1*/include "$site"/nvidia/cuda_runtime/include; do
    [ -d "$d" ] && includes="-isystem $d"
done
objects=
for name in memory runtime libraries; do
    # shellcheck disable=SC2086
    $cc $flags $includes -c "$here/$name.c" -o "$out/$name.o"
    objects="$objects $out/$name.o"
done

# Whatever else PyTorch takes from these libraries is a function that returns 0, which is success;
# but cuDNN's fail.
nvidia='lib(cu[a-zA-Z]+|nv[a-z_]+|nccl)\.so\.[0-9]+'
for f in "$site"/torch/lib/*.so; do objdump -p "$f"; done |
    awk -v nvidia="^$nvidia$" '$1 == "NEEDED" && $2 ~ nvidia { print $2, "" }
        / required from / { sub(":", "", $3); from = $3; next }
        NF == 4 && from ~ nvidia { print from, $4 }
        NF != 4 { from = "" }' | sort -u >"$out/libraries"
# shellcheck disable=SC2086
nm --defined-only $objects | awk 'NF == 3 { print $3 }' | sort -u >"$out/written"
nm -D --undefined-only "$site"/torch/lib/*.so | awk 'NR == FNR { ours[$2] = 1; next }
        { n = split($2, s, /@+/) }
        n == 2 && s[2] in ours || n == 1 && s[1] ~ /^(cu[A-Z]|cusparse|nccl|nvshmem)/ { print s[1] }' \
    "$out/libraries" - | sort -u >"$out/needed"
comm -13 "$out/written" "$out/needed" |
    sed 's/.*/long &(void); long &(void) { return 0; }/; /cudnn/s/return 0/return 1/' >"$out/generated.c"
$cc -std=gnu11 -fPIC -c "$out/generated.c" -o "$out/generated.o"
# shellcheck disable=SC2086
$cc -shared -o "$out/libdevice.so" $objects "$out/generated.o" -lpthread -ldl
ln -sf libdevice.so "$out/libcuda.so.1"
ln -sf libdevice.so "$out/libnvidia-ml.so.1"

# The empty libraries, with the versions that are asked of them.
cut -d ' ' -f 1 "$out/libraries" | sort -u | grep -v '^libcuda\.so' | while read -r name; do
    awk -v name="$name" '$1 == name && $2 != "" { print $2 " { global: *; };" }' "$out/libraries" >"$out/$name.map"
    [ -s "$out/$name.map" ] || echo "{ global: *; };" >"$out/$name.map"
    $cc -shared -nostdlib -Wl,-soname,"$name" -Wl,--version-script,"$out/$name.map" -x c /dev/null -o "$out/$name"
done
cat >"$out/run" <<END
#!/bin/sh
# usage: run PROGRAM ARGUMENTS...   on the simulated device
LD_LIBRARY_PATH="$out" LD_PRELOAD="$out/libdevice.so" exec "\$@"
END
chmod +x "$out/run"
