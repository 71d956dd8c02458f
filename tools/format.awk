# format.awk - what clang-format leaves to be done in a source, for `make format`: headings of one form,
# and comments that end on their last line of text.

function heading(title) { # 100 columns
    return "/* ---- " title " " substr(dashes, 1, 88 - length(title)) " */"
}

BEGIN { dashes = sprintf("%100s", ""); gsub(/ /, "-", dashes) }
{ line[NR] = $0 }
END {
    for (i = 1; i <= NR; i++) {
        if (line[i] ~ /^ *\*\/$/ && n && out[n] !~ /\/\*$/ && out[n] !~ /^ *\*$/) { # an end alone
            if (out[n] ~ /^\/\* --/ || length(out[n]) + 3 <= 100) out[n] = out[n] " */"
            else {
                match(out[n], /[^ ]+$/); word = substr(out[n], RSTART)
                start = out[n]; out[n] = substr(out[n], 1, RSTART - 2)
                # under the text of the comment
                match(start, /\/?\*/)
                out[++n] = sprintf("%*s* %s */", RSTART - 1 + (substr(start, RSTART, 1) == "/"), "", word)
            }
        } else out[++n] = line[i]
        if (out[n] ~ /^\/\* -.*[^- ].* *\*\/$/) {
            title = out[n]
            sub(/^\/\* -+ */, "", title); sub(/ *-* *\*\/$/, "", title)
            out[n] = heading(title)
        }
    }
    for (i = 1; i <= n; i++) print out[i]
}
