#!/bin/sh
# What `make` says on machines that lack something, how it builds, and what `make install` brings.
#
# Environment: BUILD (the folder that the program under test was built in), and that of cli.shi.
. tests/cli.shi
build=${BUILD:-build}

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

planned() { # planned ARGUMENT...: what a build of everything would do, in $out
    command="make -n check $*"
    make --no-print-directory -n check BUILD="$dir/build" PROGRAM="$dir/memtrace" "$@" >"$out" 2>"$err"
    status=$?
}
begin "without a C++ compiler nothing needs one"
planned CXX=no-such-compiler
want ended 0
want empty "$err"
want no grep -q '^[^"]*no-such-compiler' "$out"
want has "$out" "emulated device and its tests are left out"
want has "$out" "-o $dir/memtrace "
want no has "$out" test_cuda_engine

# ---- how it builds ---------------------------------------------------------------------------------

begin "a warning is an error only with WERROR=1"
planned CUDA=0 WERROR=
want has "$out" " -Wall -Wextra "
want no has "$out" -Werror
planned CUDA=0 WERROR=0
want no has "$out" -Werror
planned CUDA=0 WERROR=1
want [ "$(grep -c -- ' -Wextra ' "$out")" = "$(grep -c -- ' -Wextra -Werror ' "$out")" ]
begin "every file is written under another name first"
planned CUDA=0
want [ "$(grep -c -- ' -o ' "$out")" -gt 100 ]
want no grep -qvE '^ *(sh tools/whole.sh |sh tests/run.sh |printf |echo |-)' "$out"
jobs_of() { # jobs_of ARGUMENT...: the -j that make gives itself
    make -pn deps "$@" 2>/dev/null | sed -n 's/^MAKEFLAGS = [^-]*\(-j[0-9]*\).*/\1/p'
}
begin "as many jobs as cores, or as -j says"
want is "$(jobs_of)" "-j$(nproc)"
want is "$(jobs_of -j1)" -j1
want is "$(jobs_of -j3)" -j3

whole() { # whole OUT COMMAND...
    command="tools/whole.sh $*"
    sh tools/whole.sh "$@" >"$out" 2>"$err"
    status=$?
}
begin "whole.sh: half of a file is never seen"
sh tools/whole.sh "$dir/w/a file" sh -c 'echo half; sleep 1; echo rest' &
sleep 0.5
want no test -e "$dir/w/a file"
wait
want is "$(cat "$dir/w/a file")" "half
rest"
want is "$(ls -A "$dir/w")" "a file"
begin "whole.sh: the file that the command names, and what it leaves beside it"
whole "$dir/w/a.o" sh -c 'echo object >"$1"; echo made >"${1%.o}.d"' sh "$dir/w/a.o"
want ended 0
want last "$dir/w/a.o" object
want last "$dir/w/a.d" made
begin "whole.sh: a command that fails leaves what was there"
whole "$dir/w/a.o" sh -c 'echo half >"$1"; exit 7' sh "$dir/w/a.o"
want ended 7
want last "$dir/w/a.o" object
want is "$(ls -A "$dir/w" | tr '\n' ' ')" "a file a.d a.o "
begin "two builds at once in one folder"
objects=
for source in base/*.c; do
    objects="$objects $dir/twice/${source%.c}.o"
done
for i in 1 2; do
    # shellcheck disable=SC2086
    make CUDA=0 OPT=-O0 BUILD="$dir/twice" $objects >"$dir/make$i" 2>&1 || echo "build $i failed" >>"$wrong" &
done
wait
for object in $objects; do
    want has "${object%.o}.d" "$object:"
    want test -s "$object"
done
want is "$(ls -A "$dir/twice/base" | grep -vc '[.][od]$')" 0
begin "two runs of the main job at once in one folder"
for i in 1 2 3; do
    sh tools/run.sh "$MEMTRACE" "$dir/main" --backend none --ctx 40 --quiet >"$dir/run$i" 2>&1 || {
        echo "run $i failed: $(cat "$dir/run$i")" >>"$wrong"
    } &
done
wait
for chart in reserved bumps segments compare blocks; do
    want [ "$(head -c 4 "$dir/main/$chart.png" | tail -c 3)" = PNG ]
done
want row_count 40 "$dir/main/mem.dat"
want is "$(ls -A "$dir/main" | grep -c '^[.]')" 0

mkdir -p "$dir/ci/.ci"
cp .ci/run "$dir/ci/.ci/run"
counted() { # counted TEST SANITIZE: what .ci/run says of two targets that run these
    printf 'test:\n\t@%s\nsanitize:\n\t@%s\n' "$1" "$2" >"$dir/ci/Makefile"
    command=".ci/run of $1; $2"
    "$dir/ci/.ci/run" >"$out" 2>"$err"
    status=$?
}
begin ".ci/run adds up both parts, and counts one that ends badly"
counted 'echo "7 passed, 0 failed"' 'echo "5 passed, 0 failed"'
want ended 0
want last "$out" "12 passed, 0 failed"
counted 'echo "7 passed, 2 failed"; exit 1' 'echo "5 passed, 0 failed"'
want ended 1
want last "$out" "12 passed, 2 failed"
counted 'echo "7 passed, 0 failed"' 'echo "does not build"; exit 1'
want ended 1
want last "$out" "7 passed, 1 failed"
counted 'echo "7 passed, 0 failed"; exit 1' 'echo "5 passed, 0 failed"'
want ended 1
want last "$out" "12 passed, 1 failed"

begin "run.sh says what was skipped and why, before the closing line"
cat >"$dir/cli_some.sh" <<'SH'
echo "ok one"
echo "skip two (there is no moon)"
SH
SCRIPTS="$dir/cli_some.sh" sh tests/run.sh "$dir" "$MEMTRACE" >"$out" 2>"$err"
status=$?
want ended 0
want is "$(tail -n 3 "$out")" "1 skipped:
  cli_some.sh: two (there is no moon)
1 passed, 0 failed"

# says NAME STATUS LINE...: a test program that prints the lines.
says() {
    printf '#!/bin/sh\ncat <<"END"\n' >"$dir/$1"
    ending=$2
    file=$dir/$1
    shift 2
    printf '%s\n' "$@" >>"$file"
    printf 'END\nexit %s\n' "$ending" >>"$file"
    chmod +x "$file"
}
begin "run.sh counts every test that failed, whatever the program says at its end"
says two_failed 2 "[ RUN      ] a" "[       OK ] a" "[ RUN      ] b" "[  FAILED  ] b" \
    "[ RUN      ] c" "[  FAILED  ] c" "[ RUN      ] d" "[  SKIPPED ] d" "[==========] 4 test(s) run." \
    "[  PASSED  ] 1 test(s)." "[  SKIPPED ] group: 1 test(s), listed below:" "[  SKIPPED ] d" \
    "[  FAILED  ] group: 2 test(s), listed below:" "[  FAILED  ] b" "[  FAILED  ] c" " 2 FAILED TEST(S)"
says two_groups 2 "[ RUN      ] a" "[  FAILED  ] a" "[==========] 1 test(s) run." "[  FAILED  ] a" \
    "[ RUN      ] b" "[  ERROR   ] b" "[ RUN      ] c" "[       OK ] c" "[==========] 2 test(s) run." \
    "[  PASSED  ] 1 test(s)."
says killed 139 "[ RUN      ] a" "[       OK ] a" "[ RUN      ] b"
says silent 0
says leaky 99 "[ RUN      ] a" "[       OK ] a" "[==========] 1 test(s) run." "[  PASSED  ] 1 test(s)."
for expected in "two_failed 1 passed, 2 failed" "two_groups 1 passed, 2 failed" "killed 1 passed, 1 failed" \
    "silent 0 passed, 1 failed" "leaky 1 passed, 1 failed"; do
    SCRIPTS="" sh tests/run.sh "$dir" "$MEMTRACE" "$dir/${expected%% *}" >"$out" 2>"$err"
    status=$?
    want ended 1
    want last "$out" "${expected#* }"
done

# ---- what is installed -----------------------------------------------------------------------------

cuda=CUDA=0
[ ! -f "${MEMTRACE%/*}/memtrace-cuda.so" ] || cuda=
begin "make install, as any user, and what it brings"
command="make install DESTDIR=$dir/dest PREFIX=/opt/memtrace"
# shellcheck disable=SC2086
make $cuda BUILD="$build" PROGRAM="${MEMTRACE#./}" install DESTDIR="$dir/dest" PREFIX=/opt/memtrace >"$out" 2>"$err"
status=$?
want ended 0
want empty "$err"
prefix=$dir/dest/opt/memtrace
want test -x "$prefix/bin/memtrace"
for file in plots/*.gp plots/*.awk; do
    want cmp "$file" "$prefix/share/memtrace/$file"
done
[ -n "$cuda" ] || want test -f "$prefix/lib/memtrace/memtrace-cuda.so"
manual=$prefix/share/man/man1/memtrace.1
completion=$prefix/share/bash-completion/completions/memtrace

# The commands, from the table in main.c.
commands=$(sed -n '/} commands\[\] = {/,/^};/p' cli/main.c | grep -o '{ "[a-z]*"' | tr -cd 'a-z\n')
begin "the man page has every command, every option and every chart"
want [ "$(echo "$commands" | wc -l)" -ge 9 ]
for c in $commands; do
    want has "$manual" ".SH \"memtrace $c\""
    want grep -qx ".B $c" "$manual"
    sed -n "/^.SH \"memtrace $c\"/,/^.SH/p" "$manual" | tr -d '\\' >"$dir/section"
    for option in $("$MEMTRACE" "$c" --help | grep -oE '^ +(-., )?--[a-z0-9-]+' | grep -o -- '--.*'); do
        want grep -qE "^[.]B (-., )?$option([=[]|\$)" "$dir/section"
    done
done
for kind in $("$MEMTRACE" plot --list | cut -d ' ' -f 1); do
    want has "$manual" ".B $(echo "$kind" | sed 's/-/\\-/g')"
done
want has "$manual" "$("$MEMTRACE" --version)"
if command -v groff >/dev/null; then
    want is "$(groff -man -Tutf8 -ww "$manual" 2>&1 >/dev/null)" ""
fi

completed() { # completed WORD...: what bash offers for the last of them
    bash -c '. "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _memtrace; echo "${COMPREPLY[*]}"' \
        bash "$completion" "$@" 2>&1
}
begin "bash completes commands, options, their values and charts"
want is "$(completed memtrace swe)" sweep
want is "$(completed memtrace --backe)" --backend
want is "$(completed memtrace --backend = c)" "cpu cuda"
want is "$(completed memtrace predict --attn ea)" eager
want is "$(completed memtrace sweep --opt)" --optimum
want is "$(completed memtrace --kv = pa)" paged
want is "$(completed memtrace replay x --policy b)" "block bfc"
want is "$(completed memtrace sweep mem)" ""
want is "$(PATH="$prefix/bin:$PATH" completed memtrace plot study-r)" "study-ratio study-roofline"
for c in $commands; do
    want is "$(completed memtrace "$c")" "$c"
    for option in $("$MEMTRACE" "$c" --help | grep -oE '^ +(-., )?--[a-z0-9-]+' | grep -o -- '--.*'); do
        case " $(completed memtrace "$c" "$option") " in
        *" $option "*) ;;
        *) echo "$c $option is not completed" >>"$wrong" ;;
        esac
    done
done

begin "make uninstall leaves nothing"
make $cuda BUILD="$build" PROGRAM="${MEMTRACE#./}" uninstall DESTDIR="$dir/dest" PREFIX=/opt/memtrace >"$out" 2>"$err"
want is "$(find "$dir/dest" ! -type d)" ""

begin "deps.sh: a group that is none"
command="tools/deps.sh games"
sh tools/deps.sh games >"$out" 2>"$err"
status=$?
want ended 2
want has "$err" "usage: tools/deps.sh"

# ---- the CUDA back end -------------------------------------------------------------------------------

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
