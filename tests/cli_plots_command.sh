#!/bin/sh
# `memtrace plot` itself: the kinds it knows, what it refuses, that the picture appears whole, and that
# it finds the scripts from anywhere.
. tests/cli.shi
. tests/plots.shi

table=$dir/mem.dat
"$MEMTRACE" --quiet --backend none --ctx 20 >"$table"

# ---- kinds -----------------------------------------------------------------------------------------

begin "--list: every chart of plots, once, with a line of words"
run plot --list
want ended 0
want empty "$err"
for script in plots/*.gp; do
    sed -n '3s/^#     memtrace plot \([a-z-]*\) .*/\1/p' "$script"
done | sort >"$dir/kinds"
cut -d ' ' -f 1 "$out" | sort >"$dir/listed"
want cmp "$dir/kinds" "$dir/listed"
want [ "$(wc -l <"$dir/kinds")" -ge 17 ]
want no grep -qvE '^[a-z-]+ +[a-z].{10,90}$' "$out"
for kind in $(cat "$dir/kinds"); do
    want test -f "plots/$kind.gp"
    want has plots/README.md "$kind.gp"
done

refused "a kind that is none" 2 "unknown chart pie; known: bench, blocks, " plot pie "$table" "$dir/a.png"
refused "a kind with a slash" 2 "unknown chart ../plots/reserved" plot ../plots/reserved "$table" "$dir/a.png"
refused "a script that is no chart" 2 "unknown chart style" plot style "$table" "$dir/a.png"
refused "no words" 2 "expected KIND FILE... OUT" plot
refused "no file" 2 "expected KIND FILE... OUT" plot reserved "$dir/a.png"
refused "a file too many" 2 "reserved takes 1 file and the name of the chart: memtrace plot reserved RUN.dat OUT.png" \
    plot reserved "$table" "$table" "$dir/a.png"
refused "a file too few" 2 "compare takes 2 files and the name of the chart" plot compare "$table" "$dir/a.png"
refused "nine files" 2 "sawtooth takes 1 to 4 files" plot sawtooth 1 2 3 4 5 6 7 8 9 "$dir/a.png"
refused "forty files" 2 "40 files are more than any chart takes" plot sawtooth $(seq 40) "$dir/a.png"
refused "another ending" 2 "a.gif: the name of a chart ends in .png, .svg or .pdf" plot reserved "$table" "$dir/a.gif"
refused "no ending" 2 "ends in .png" plot reserved "$table" "$dir/a"
refused "a folder that is not there" 4 "cannot be written" plot reserved "$table" "$dir/none/a.png"
refused "a file that is not there" 2 "missing: no such file" plot reserved "$dir/missing" "$dir/a.png"
refused "a file of another kind" 2 "no per-step table of memtrace" plot reserved plots/style.gp "$dir/a.png"

refused "a name of two lines" 2 'nope\x0ax: no such file' plot reserved "$(printf 'nope\nx')" "$dir/a.png"
cp "$table" "$dir/same.png"
refused "its own file" 2 "same.png: the output is the same file as the input" plot reserved "$dir/same.png" "$dir/same.png"
want cmp "$table" "$dir/same.png"

# ---- the picture appears whole ---------------------------------------------------------------------

begin "what was there before stays when the chart is refused"
echo before >"$dir/kept.png"
run plot reserved "$dir/missing" "$dir/kept.png"
want ended 2
want last "$dir/kept.png" before
ln -s kept.png "$dir/link.png"
run plot reserved "$dir/missing" "$dir/link.png"
want ended 2
want last "$dir/kept.png" before
begin "a chart replaces what was there, and nothing else is left"
mkdir "$dir/clean"
echo before >"$dir/clean/a.png"
run plot reserved "$table" "$dir/clean/a.png"
want ended 0
want empty "$out"
want empty "$err"
want is_png "$dir/clean/a.png"
want is "$(ls -A "$dir/clean")" a.png
begin "a pipe takes it too"
mkfifo "$dir/pipe.png"
head -c 4 "$dir/pipe.png" >"$dir/head" &
run plot reserved "$table" "$dir/pipe.png"
wait
want has "$dir/head" PNG
for ending in svg pdf; do
    begin "a chart as $ending"
    run plot reserved "$table" "$dir/a.$ending"
    want ended 0
    want [ "$(wc -c <"$dir/a.$ending")" -gt 5000 ]
done
begin "each script runs alone, to the same bytes"
run plot reserved "$table" "$dir/a.svg"
gnuplot -c plots/reserved.gp "$table" "$dir/b.svg" >"$out" 2>"$err"
want empty "$err"
want cmp "$dir/a.svg" "$dir/b.svg"

# ---- without gnuplot, and with one that fails ------------------------------------------------------

begin "without gnuplot"
command="PATH=$dir memtrace plot"
PATH=$dir "$(realpath "$MEMTRACE")" plot reserved "$table" "$dir/none.png" >"$out" 2>"$err"
status=$?
want ended 4
want one_message
want has "$err" "gnuplot is not installed (Debian's package is gnuplot-nox)"
want no test -e "$dir/none.png"

begin "a file that zstd packed, without zstd"
mkdir "$dir/few"
for c in sh awk cat dirname basename gnuplot gzip; do
    ln -s "$(command -v $c)" "$dir/few/$c"
done
: >"$dir/run.trace.zst"
command="PATH=$dir/few memtrace plot segments"
PATH=$dir/few "$(realpath "$MEMTRACE")" plot segments "$dir/run.trace.zst" "$dir/none.png" >"$out" 2>"$err"
status=$?
want ended 4
want one_message
want has "$err" "run.trace.zst: zstd, which unpacks it, is not installed"

fake() { # fake SCRIPT: a gnuplot that does that
    mkdir -p "$dir/fake"
    printf '#!/bin/sh\n%s\n' "$1" >"$dir/fake/gnuplot"
    chmod +x "$dir/fake/gnuplot"
    command="a gnuplot: $1"
    PATH=$dir/fake:$PATH "$MEMTRACE" plot reserved "$table" "$dir/none.png" >"$out" 2>"$err"
    status=$?
    want one_message
    want no test -e "$dir/none.png"
}
begin "a gnuplot that fails in the middle"
fake 'echo half; echo; echo "plot (" >&2; echo "line 3: invalid expression" >&2; exit 1'
want ended 4
want has "$err" "gnuplot failed: line 3: invalid expression"
begin "a gnuplot that is killed"
fake 'echo half; kill -KILL $$'
want ended 4
want has "$err" "gnuplot failed: Killed"
begin "an interrupt ends gnuplot too"
mkdir -p "$dir/fake"
printf '#!/bin/sh\necho half\necho $$ >"%s"\nexec sleep 60\n' "$dir/pid" >"$dir/fake/gnuplot"
PATH=$dir/fake:$PATH timeout -s INT 1 "$MEMTRACE" plot reserved "$table" "$dir/none.png" >"$out" 2>"$err"
want has "$err" interrupted
want no test -e "$dir/none.png"
want no kill -0 "$(cat "$dir/pid")"

# ---- from anywhere ---------------------------------------------------------------------------------

begin "beside the program, installed, and by MEMTRACE_PLOTS"
root=$PWD
mkdir -p "$dir/tree" "$dir/usr/bin" "$dir/usr/share/memtrace" "$dir/else where"
cp "$MEMTRACE" "$dir/tree/memtrace"
cp "$MEMTRACE" "$dir/usr/bin/memtrace"
cp "$MEMTRACE" "$dir/alone"
cp -r plots "$dir/tree/plots"
cp -r plots "$dir/usr/share/memtrace/plots"
cp "$table" "$dir/else where/it's.dat"
cd "$dir/else where" || exit 1
for program in "$dir/tree/memtrace" "$dir/usr/bin/memtrace"; do
    rm -f a.png
    env -u MEMTRACE_PLOTS "$program" plot reserved "it's.dat" a.png 2>>"$err"
    want is_png a.png
done
env -u MEMTRACE_PLOTS PATH="$dir/usr/bin:$PATH" memtrace plot bumps "it's.dat" b.png 2>>"$err"
want is_png b.png
MEMTRACE_PLOTS=$root/plots "$dir/alone" plot reserved "it's.dat" c.png 2>>"$err"
want is_png c.png
want empty "$err"
env -u MEMTRACE_PLOTS "$dir/alone" plot reserved "it's.dat" d.png 2>"$err"
status=$?
want ended 4
want one_message
want has "$err" "neither in plots beside the program nor in ../share/memtrace/plots"
cd "$root" || exit 1
finish
