#!/bin/sh
# The CUDA back end from the command line: memtrace-emulated (the back end on the emulated device), and
# memtrace itself with the back end that nvcc built, on a device that only accounts for memory.
#
# Environment: MEMTRACE_STANDIN (the folder of that device's libraries, if built), and that of cli.shi.
. tests/cli.shi
real=$MEMTRACE
emulated=$MEMTRACE-emulated
small="--layers 2 --heads 2 --width 32 --vocab 50 --positions 64 --ctx 20"

# The table's rows are those of a dry run with the same options.
as_dry() {
    untimed "$out" >"$dir/got"
    "$real" --backend none --quiet "$@" >"$dir/dry" 2>&1 || return 1
    untimed "$dir/dry" >"$dir/expected"
    cmp "$dir/got" "$dir/expected"
}

# no_change FILE: between the warm-up and the end nothing was taken by a library.
no_change() {
    grep -qx '# library change +0' "$1"
}

header() { # header FILE NAME: the value
    sed -n "s/^# $2 //p" "$1"
}

# ---- the emulated device ----------------------------------------------------------------------------

if [ -x "$emulated" ]; then
    MEMTRACE=$emulated
    MT_EMULATION=leaks
    export MT_EMULATION

    begin "emulated: a device that is there is used"
    run $small --quiet
    want ended 0
    want is "$(header "$out" backend)" cuda
    want is "$(header "$out" workspace)" 4194304
    want is "$(header "$out" capacity)" 51539607552
    want awk -f tests/identity.awk "$out"
    want no_change "$out"
    want as_dry $small --workspace 4MiB

    for kv in concat concat-tuple static doubling:4 paged:4 none; do
        for activations in eager arena; do
            begin "emulated: $kv $activations as a dry run"
            run $small --quiet --kv $kv --activations $activations --prompt-tokens 3 --workspace 1MiB
            want ended 0
            want as_dry $small --kv $kv --activations $activations --prompt-tokens 3 --workspace 1MiB
        done
    done
    for kv in static doubling:4; do
        begin "emulated: --graph with $kv as a dry run"
        run $small --quiet --kv $kv --activations arena --graph --workspace 1MiB
        want ended 0
        want is "$(header "$out" graph)" on
        want has "$out" "# library graph "
        want as_dry $small --kv $kv --activations arena --workspace 1MiB
    done

    # A kernel that is loaded after the warm-up would show: each takes a page of the driver's.
    MT_EMULATION=leaks,kernel=2097152
    ctx=1024
    [ -z "$quick" ] || ctx=280
    for kv in concat concat-tuple static doubling paged:16; do
        begin "emulated: all kernels are loaded by the end of the warm-up: $kv"
        run --layers 1 --heads 1 --width 16 --vocab 50 --positions 1024 --ctx $ctx --quiet --kv $kv
        want ended 0
        want no_change "$out"
    done
    MT_EMULATION=leaks

    begin "emulated: the driver's pool"
    run $small --quiet --policy async
    want ended 0
    want awk -f tests/identity.awk "$out"

    begin "emulated: the library's own workspace is told"
    run $small --quiet --workspace library
    want ended 0
    want is "$(header "$out" workspace)" 0
    want has "$out" "# library cublasCreate +4194304"
    want has "$out" "# library workspace its own, CUBLAS_WORKSPACE_CONFIG not set"

    begin "emulated: JSON names each thing about libraries once"
    run $small --quiet --workspace library --json
    want ended 0
    want strict_json "$out"
    want has "$out" '"library_baseline": 268435456,'
    want has "$out" '"library_workspace": "its own'
    want has "$out" '"library_at_the_end": '
    run $small --width 512 --ctx 64 --capacity 12MiB --json
    want ended 3
    want strict_json "$out"

    begin "emulated: workspaces of sm_90"
    MT_EMULATION=leaks,capability=9.0
    run $small --quiet
    want is "$(header "$out" workspace)" 33554432
    run $small --quiet --workspace torch
    want is "$(header "$out" workspace)" 33554432
    MT_EMULATION=leaks
    run $small --quiet --workspace torch
    want is "$(header "$out" workspace)" 8519680

    begin "emulated: --tf32 is told"
    run $small --quiet --tf32
    want has "$out" ", TF32"

    begin "emulated: the same ids as the cpu"
    run generate --ids $small
    want ended 0
    "$real" generate --ids --backend cpu $small >"$dir/cpu" 2>/dev/null
    want cmp "$out" "$dir/cpu"

    begin "emulated: a small device runs out of memory"
    MT_EMULATION=leaks,capacity=300MiB,context=256MiB
    run $small --width 512 --ctx 64
    want ended 3
    want last "$out" "# out of memory"
    want has "$err" "it would fit with"
    want no has "$err" "it has more left"
    MT_EMULATION=leaks

    begin "emulated: a failed call is one line"
    MT_EMULATION=leaks,fail=cublasGemmEx:7
    run $small --quiet
    want ended 4
    want one_message
    want has "$err" "cublasGemmEx"
    want has "$err" "linear.cu"
    MT_EMULATION=leaks,fail=cudaStreamDestroy:1
    run $small --quiet
    want has "$err" "cudaStreamDestroy"

    MT_EMULATION=leaks,devices=0
    refused "emulated: no device" 4 cudaGetDeviceCount --backend cuda $small
    begin "emulated: no device, and the back end left open"
    run $small --quiet
    want ended 0
    want is "$(header "$out" backend)" cpu
    MT_EMULATION=leaks

    refused "emulated: --graph with a cache that moves" 2 "graph needs" --graph $small \
        --activations arena
    refused "emulated: other types than f32" 2 bf16 --dtype bf16 $small
    unset MT_EMULATION
else
    skip "emulated: all" "there is no $emulated: make emulated"
fi

# ---- nvcc's program, on a device that only accounts for memory ----------------------------------------

preload=${MEMTRACE_STANDIN:-}/preload
if [ -f "$preload" ] && [ -f "$(dirname "$real")/memtrace-cuda.so" ]; then
    MEMTRACE=$real
    standin=$(cat "$preload")

    # GPT-2 small at full size, 1,024 tokens.
    full() {
        command="$MEMTRACE $*"
        LD_PRELOAD=$standin timeout -k 5 300 "$MEMTRACE" "$@" >"$out" 2>"$err"
        status=$?
    }

    for kv in concat concat-tuple static doubling paged:16 none; do
        for policy in torch torch,expandable_segments:True block:2MiB; do
            begin "full size: $kv $policy"
            full --ctx 1024 --quiet --kv $kv --policy $policy
            want ended 0
            want is "$(header "$out" backend)" cuda
            want awk -f tests/identity.awk "$out"
            want no_change "$out"
            want row_count 1024 "$out"
            want as_dry --ctx 1024 --kv $kv --policy $policy --workspace 4MiB
        done
    done
    for kv in static doubling; do
        begin "full size: --graph with $kv"
        full --ctx 1024 --quiet --kv $kv --activations arena --graph
        want ended 0
        want no_change "$out"
        want as_dry --ctx 1024 --kv $kv --activations arena --workspace 4MiB
    done
    begin "full size: direct, whose segments share the driver's pages"
    full --ctx 1024 --quiet --policy direct
    want ended 0
    want awk -f tests/identity.awk "$out"
    want no_change "$out"
    want no is "$(header "$out" "driver rounding")" 0
    begin "full size: the driver's pool"
    full --ctx 1024 --quiet --policy async
    want ended 0
    want awk -f tests/identity.awk "$out"
    begin "full size: sm_90"
    STANDIN_MAJOR=9
    export STANDIN_MAJOR
    full --ctx 16 --quiet
    want is "$(header "$out" workspace)" 33554432
    unset STANDIN_MAJOR
    begin "full size: another program that uses the device"
    STANDIN_OTHER=moves
    export STANDIN_OTHER
    full --ctx 64
    want ended 0
    want row_count 64 "$out"
    want has "$out" "# library unknown: device shared"
    want no has "$out" "# library change"
    want has "$err" "library unknown: device shared"
    begin "full size: less is gone than we took"
    STANDIN_OTHER=leaves
    full --ctx 64 --quiet
    want ended 1
    want one_message
    want has "$err" "library bytes are negative"
    want last "$out" "# failed"
    unset STANDIN_OTHER
    begin "full size: what is 2 MiB and more has no rounding of the driver's"
    full --ctx 64 --quiet
    want is "$(header "$out" "driver rounding")" 0
    begin "full size: the library's own workspace against ours"
    full --ctx 64 --quiet --workspace library
    want ended 0
    want has "$out" "# library workspace its own"
    theirs=$(header "$out" "library at the end")
    full --ctx 64 --quiet --workspace 4MiB
    want no_change "$out"
    want is "$(header "$out" "library at the end")" "$theirs" # its pool is taken with the handle
    begin "full size: a device of 768 MiB runs out of memory"
    STANDIN_CAPACITY=805306368
    export STANDIN_CAPACITY
    full --ctx 1024
    want ended 3
    want last "$out" "# out of memory"
    unset STANDIN_CAPACITY
    begin "without the stand-in there is no device"
    run --quiet --ctx 1 $small --backend cpu
    want ended 0

    # The script for a machine with a GPU, as far as it goes without one.
    if [ -n "$quick" ]; then
        skip "gpu.sh, rehearsed" "less work was asked for"
    else
        begin "gpu.sh, rehearsed"
        command="tests/gpu.sh FOLDER rehearse"
        BUILD=$(dirname "$(dirname "$preload")") sh tests/gpu.sh "$dir/gpu" rehearse >"$out" 2>"$err"
        status=$?
        want ended 0
        want empty "$err"
        want is "$(grep FAILED "$out")" ""
        want grep -q '^test_cuda_kernels  *[1-9][0-9]* passed$' "$out"
        want grep -q '^test_cuda_engine  *[1-9][0-9]* passed$' "$out"
        want grep -q '^a small model against the cpu  *64 of 64 ids equal$' "$out"
        want is "$(grep -c '^1024 tokens, .*identity ok, rows as the dry run' "$out")" 5
        want grep -q '^0 library bytes with our workspace  *ok$' "$out"
        want grep -q '^decode, graph .*rows equal$' "$out"
    fi
else
    skip "full size: all" "no back end by nvcc, or no stand-in libraries: make standin"
fi
finish
