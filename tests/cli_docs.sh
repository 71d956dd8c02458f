#!/bin/sh
# What the documents promise is there: links and their anchors, images, scripts that can be run, options,
# and the commands of their examples.
. tests/cli.shi

documents=$(find . -name '*.md' -not -path './build*' -not -path './.git/*' | sed 's#^\./##' | sort)

# text FILE: its text without blocks of code
text() {
    awk '/^```/ { code = !code; next } !code && !/^    /' "$1"
}
# anchors FILE: what a link may have after its #
anchors() {
    sed -n 's/^##* *//p' "$1" | tr 'A-Z ' 'a-z-' | tr -cd 'a-z0-9_\n-'
}

for document in $documents; do
    begin "$document: links and images"
    folder=$(dirname "$document")
    text "$document" | grep -oE '\]\([^) ]+\)' | sed 's/^](//; s/)$//' >"$dir/links"
    while read -r link; do
        case $link in
        http://* | https://*) continue ;;
        esac
        target=$folder/${link%%#*}
        [ "${link%%#*}" != "" ] || target=$document
        want test -e "$target"
        case $link in
        *#*) anchors "$target" >"$dir/anchors" && want grep -qxF "${link#*#}" "$dir/anchors" ;;
        esac
    done <"$dir/links"
    [ "$document" != CHANGELOG.md ] || continue # it names what is gone
    begin "$document: every file of this project that it names is there"
    grep -oE '(^|[^A-Za-z0-9_./-])(alloc|base|cli|docs|engine|kernels|plots|predict|reports|tests|tools|traces)/[A-Za-z0-9_/-]+\.(c|h|cu|cc|gp|awk|sh|py|md|png|tsv)($|[^A-Za-z0-9_])' \
        "$document" | grep -oE '[a-z]+/[A-Za-z0-9_./-]+[a-z]' | grep -v NAME | sort -u >"$dir/files"
    while read -r file; do
        want test -e "$file"
    done <"$dir/files"
done

begin "every script with a #! can be run"
find . -type f -not -path './build*' -not -path './.git/*' -not -path './.whole*' \
    \( -name '*.sh' -o -name '*.py' -o -path './.ci/*' \) >"$dir/scripts"
want [ "$(wc -l <"$dir/scripts")" -gt 30 ]
while read -r file; do
    [ "$(head -c 2 "$file")" = '#!' ] && want test -x "$file"
done <"$dir/scripts"

# The commands of examples, up to a pipe or a redirection: each option must be one of its command.
begin "every option of an example is one of its command"
for document in README.md plots/README.md docs/*.md; do
    sed -n 's/^    \(.*\)/\1/p' "$document" | grep -oE '(^|[ /])memtrace( [^|><;)]*)?' | sed 's/^[ /]*//' |
        sed "s#^#$document: #"
done >"$dir/examples"
want [ "$(wc -l <"$dir/examples")" -gt 15 ]
while read -r document _ command rest; do
    case $command in
    [a-z]*) ;;
    *)
        rest="$command $rest"
        command=run
        ;;
    esac
    [ "$command" != COMMAND ] || continue
    "$MEMTRACE" "$command" --help >"$dir/help" 2>&1 || echo "$document memtrace $command: no such command" >>"$wrong"
    for word in $rest; do
        case $word in
        --*) grep -qE -- " $(echo "${word%%=*}" | tr -d '`]')([=[ ]|\$)" "$dir/help" ||
            echo "$document memtrace $command $word: no such option" >>"$wrong" ;;
        esac
    done
done <"$dir/examples"
finish
