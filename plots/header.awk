# header.awk - what the other scripts read from the # lines of a run; loaded before them.

# Whole numbers stay whole as words: mawk writes those above 2^31 with CONVFMT.
BEGIN { CONVFMT = OFMT = "%.16g" }

# file.gp's line after a file that could not be decompressed to its end.
$0 == "(damaged)" { bad = "cut short, or not compressed as its name says"; exit }

# Text from a file goes into gnuplot's single quotes: printable ASCII that means nothing there.
function safe(text, most) {
    gsub(/[^ -~]|['`\\]/, "?", text)
    return length(text) > most ? substr(text, 1, most - 3) "..." : text
}

function short_size(bytes) {
    if (bytes == 0 || bytes % 1024) return bytes
    if (bytes % 1073741824 == 0) return bytes / 1073741824 "GiB"
    return bytes % 1048576 ? bytes / 1024 "KiB" : bytes / 1048576 "MiB"
}

# block:2097152,round:512,fit:best,keep:all is block:2MiB: what is not said is as it is by default.
function short_policy(policy) {
    sub(/,round:512/, "", policy); sub(/,fit:best/, "", policy); sub(/,keep:all/, "", policy)
    sub(/^jemalloc,decay:-1$/, "jemalloc", policy); sub(/^direct:4096$/, "direct", policy)
    sub(/^bfc:1048576$/, "bfc", policy)
    if (match(policy, /^block:[0-9]+/))
        policy = "block:" short_size(substr(policy, 7, RLENGTH - 6)) substr(policy, RLENGTH + 1)
    return policy
}

# Keeps the line `# NAME VALUE...` when NAME is one of those shown, the first time it comes.
function read_option(    name, value) {
    if (!option_names) {
        option_names = split("model dtype policy kv activations workspace backend ctx batch " \
                             "prompt", option_name)
        for (name in option_name) is_shown[option_name[name]] = 1
        is_shown["layers"] = is_shown["width"] = is_shown["capacity"] = 1
    }
    if (!($2 in is_shown) || ($2 in option) || NF < 3) return
    value = $0
    sub(/^# *[^ ]+ +/, "", value)
    if ($2 == "model") { sub(/\/+$/, "", value); sub(/.*\//, "", value) }
    if ($2 == "policy") value = short_policy(value)
    if ($2 == "prompt") sub(/ 1 tokens$/, " 1 token", value)
    if ($2 ~ /^(workspace|capacity)$/ && value ~ /^[0-9]+$/) value = short_size(value)
    option[$2] = safe(value, 44)
}

# All of them in one line, but for those that are as usual.
function settings(    i, name, line) {
    for (i = 1; i <= option_names; i++) {
        name = option_name[i]
        if (name " " option[name] ~ /^(batch 1|workspace 0|activations eager)$/) continue
        if (name in option) line = line (line == "" ? "" : ",  ") name " " option[name]
    }
    return line
}

function model_name(    name, size, layers, width, preset, i) {
    name = option["model"]
    if (name == "") return "The run"
    if (name !~ /^gpt2(-medium|-large|-xl)?$/) return safe(name, 30)
    size = name == "gpt2" ? "small" : substr(name, 6)
    split("small 12 768 medium 24 1024 large 36 1280 xl 48 1600", preset)
    for (i = 1; preset[i] != size; i += 3) continue
    layers = preset[i + 1]; width = preset[i + 2]
    if (("layers" in option) && option["layers"] != layers)
        return "GPT-2 of " option["layers"] " layers"
    if (("width" in option) && option["width"] != width) return "GPT-2 of width " option["width"]
    return "GPT-2 " (size == "xl" ? "XL" : size)
}
