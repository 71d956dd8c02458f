#!/bin/sh
# PyTorch's allocator settings on the command line: torch:env means the same in run, predict, replay and
# sweep; what PyTorch ignores is a note.
. tests/cli.shi
unset PYTORCH_CUDA_ALLOC_CONF PYTORCH_HIP_ALLOC_CONF PYTORCH_ALLOC_CONF

"$MEMTRACE" --backend none --layers 1 --ctx 2 --quiet --trace "$dir/a.trace" >/dev/null || exit 1

# Runs a command on policy torch:env, or what else POLICY says.
policy_in() { # policy_in COMMAND POLICY
    case $1 in
    run) run --backend none --layers 1 --ctx 2 --policy "$2" ;;
    predict) run predict --ctx 2 --policy "$2" ;;
    replay) run replay "$dir/a.trace" --policy "$2" ;;
    sweep) run sweep --ctx 2 --policy "$2" ;;
    esac
}

# The figures: all but what is said of the policy and of time.
figures() {
    grep -v '^#' "$out" | sed 's/torch[^ ]* //'
}

long=$(printf '%5000s' '')
many=$(awk 'BEGIN { for (i = 0; i < 200; i++) printf "max_split_size_mb:%d,", 100 + i }')

for what in run predict replay sweep; do
    begin "$what: the settings of the environment"
    policy_in $what torch,max_split_size_mb:32,expandable_segments:True
    want [ "$status" = 0 ]
    figures >"$dir/expected"
    want [ -s "$dir/expected" ]
    for settings in "max_split_size_mb:32,expandable_segments:True" \
        " max_split_size_mb : 32 , expandable_segments: True ," \
        "max_split_size_mb:32,$long	expandable_segments:True" \
        "${many}max_split_size_mb:32,expandable_segments:True"; do
        for variable in PYTORCH_CUDA_ALLOC_CONF PYTORCH_HIP_ALLOC_CONF PYTORCH_ALLOC_CONF; do
            eval "export $variable=\$settings"
            policy_in $what torch:env
            unset $variable
            want [ "$status" = 0 ]
            figures >"$dir/got"
            want cmp -s "$dir/got" "$dir/expected"
        done
    done

    begin "$what: a variable that is set to nothing wins"
    policy_in $what torch
    figures >"$dir/expected"
    export PYTORCH_CUDA_ALLOC_CONF= PYTORCH_ALLOC_CONF=expandable_segments:True
    policy_in $what torch:env
    want [ "$status" = 0 ]
    figures >"$dir/got"
    want cmp -s "$dir/got" "$dir/expected"
    unset PYTORCH_CUDA_ALLOC_CONF PYTORCH_ALLOC_CONF

    begin "$what: more settings behind those of the environment"
    policy_in $what torch,expandable_segments:True
    figures >"$dir/expected"
    export PYTORCH_ALLOC_CONF=expandable_segments:False
    policy_in $what torch:env,expandable_segments:True
    want [ "$status" = 0 ]
    figures >"$dir/got"
    want cmp -s "$dir/got" "$dir/expected"
    unset PYTORCH_ALLOC_CONF

    begin "$what: what PyTorch ignores is one note"
    export PYTORCH_ALLOC_CONF=expandable_segments:True,expandable_segments_reserve:64M
    policy_in $what torch:env
    unset PYTORCH_ALLOC_CONF
    want [ "$status" = 0 ]
    want [ "$(grep -c '^memtrace: note: expandable_segments_reserve:64M is ignored' "$err")" = 1 ]

    begin "$what: the driver's pool is another policy"
    export PYTORCH_ALLOC_CONF=nonsense:1,backend:cudaMallocAsync
    policy_in $what torch:env
    unset PYTORCH_ALLOC_CONF
    want [ "$status" = 2 ]
    want [ ! -s "$out" ]
    want grep -q 'memtrace run --backend cuda --policy async' "$err"
    want [ "$(wc -l <"$err")" = 1 ]
done

begin "--quiet: no note"
run --backend none --layers 1 --ctx 2 --policy torch,garbage_collection_threshold:0.8
want grep -q '^memtrace: note: garbage_collection_threshold changes nothing' "$err"
run --backend none --layers 1 --ctx 2 --policy torch,garbage_collection_threshold:0.8 --quiet
want [ "$status" = 0 ]
want [ ! -s "$err" ]
run replay "$dir/a.trace" --policy torch,garbage_collection_threshold:0.8 --quiet
want [ ! -s "$err" ]
run sweep --ctx 2 --policy torch,garbage_collection_threshold:0.8 --quiet
want [ ! -s "$err" ]

begin "a note is printed once, however many policies have it"
run replay "$dir/a.trace" --policy torch,garbage_collection_threshold:0.8,torch,garbage_collection_threshold:0.5
want [ "$(grep -c 'note:' "$err")" = 1 ]

refused "an unknown policy names those that there are" 2 \
    "unknown policy 'nonsense'; known: torch, block, direct, bfc, jemalloc, async" \
    --backend none --policy nonsense
refused "an option of a later release" 2 "PyTorch 2.11 does not know it, 2.12 does" \
    predict --torch 2.11 --policy torch,throw_on_cudamalloc_oom:True
finish
