#!/bin/sh
# Sets up what tests/peers/bench.py compares memtrace with: a virtual environment in build/peers/venv with
# PyTorch and transformers, llama.cpp, CTranslate2 and OpenVINO from PyPI, and the same seeded weights in
# the form that each of them reads (export.py). What is there already stays, so it can be run again.
#
# usage: sh tests/peers/setup.sh      some 8 GB in build/peers; llama.cpp is compiled (10 minutes on two cores)
#
# Each program is optional: what cannot be installed is left out, with one line saying why. JOBS: compilers
# at a time (2). PYTHON: the interpreter that makes the environment (python3). PEERS: which ones
# (torch llama ctranslate2 openvino).
set -eu
cd "$(dirname "$0")/../.."
out=build/peers
venv=$out/venv
python=$venv/bin/python
: "${JOBS:=2}" "${PYTHON:=python3}" "${PEERS:=torch llama ctranslate2 openvino}"
export PYTHONDONTWRITEBYTECODE=1
mkdir -p "$out/log"

if [ ! -x "$python" ]; then
    if ! "$PYTHON" -m venv "$venv" >"$out/log/venv" 2>&1; then
        echo "peers: no virtual environment: $(tail -n 1 "$out/log/venv") (Debian: python3-venv)" >&2
        rm -rf "$venv"
        exit 1
    fi
fi

# has MODULE: is it installed?
has() {
    "$python" -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec(sys.argv[1]) is None)' "$1"
}

# want MODULE ARGUMENT...: pip install, unless it is there.
want() {
    module=$1
    shift
    if has "$module"; then
        return 0
    fi
    echo "peers: installing $module"
    if ! "$python" -m pip install --quiet "$@" >"$out/log/$module" 2>&1 || ! has "$module"; then
        why=$(grep -i 'error' "$out/log/$module" | tail -n 1)
        echo "peers: $module left out: ${why:-see $out/log/$module}"
        return 1
    fi
}

want numpy numpy || exit 1
# shellcheck disable=SC2015 # `|| :` is for each of the commands before it
for peer in $PEERS; do
    case $peer in
    torch)
        # transformers also serves CTranslate2's converter.
        want torch torch && want transformers transformers && want safetensors safetensors || :
        ;;
    llama)
        # For this very processor: AVX2 or AVX-512, as it has them. No server, no tools.
        want gguf gguf &&
            CMAKE_ARGS="-DGGML_NATIVE=ON -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF \
-DLLAMA_BUILD_TOOLS=OFF -DLLAMA_BUILD_SERVER=OFF -DLLAVA_BUILD=OFF -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF" \
                CMAKE_BUILD_PARALLEL_LEVEL=$JOBS \
                want llama_cpp --no-binary llama-cpp-python llama-cpp-python || :
        ;;
    ctranslate2) want ctranslate2 ctranslate2 || : ;;
    openvino) want openvino openvino || : ;;
    *)
        echo "peers: no such program: $peer (torch llama ctranslate2 openvino)" >&2
        exit 2
        ;;
    esac
done

"$python" tests/peers/export.py "$out" 2>"$out/log/export" || {
    tail -n 1 "$out/log/export" >&2
    exit 1
}
"$python" -m pip list 2>/dev/null |
    awk '$1 ~ /^(torch|transformers|llama_cpp_python|llama-cpp-python|gguf|ctranslate2|openvino|numpy)$/ {
             line = line " " $1 " " $2 }
         END { print "peers: set up:" line }'
