#!/bin/sh
# Makes a virtual environment with PyTorch and transformers; one that is there stays.
# usage: setup.sh VENV [TORCH [TRANSFORMERS]]   releases
#
# NVIDIA's libraries (several GB) are left out: the simulated device stands in for them and needs only
# CUDA's headers. MEMTRACE_REAL=1 installs them.
set -eu
venv=$1 torch=${2:-2.15.0} transformers=${3:-5.24.0}
python=$venv/bin/python
there='from importlib.metadata import version; version("torch"); version("transformers")'
[ "${MEMTRACE_REAL:-}" != 1 ] || there='import torch, transformers'
"$python" -c "$there" 2>/dev/null && exit 0
echo "# making $venv: torch $torch, transformers $transformers"
python3 -m venv "$venv"
if [ "${MEMTRACE_REAL:-}" = 1 ]; then
    "$python" -m pip install --quiet "torch==$torch" "transformers==$transformers" numpy==2.4.6
    exit
fi
"$python" -m pip install --quiet --no-deps "torch==$torch"
"$python" - >"$venv/requirements" <<'END'
import importlib.metadata
import re

for r in importlib.metadata.requires("torch"):
    name, _, version = re.match(r"([\w-]+)(\[.*?\])?(?:==)?([\d.]*)", r).groups()
    if name == "cuda-toolkit":  # from CUDA 13 on
        short = ".".join(version.split(".")[:2])
        print(f"nvidia-cuda-runtime=={short}.*\nnvidia-cuda-crt=={short}.*")
    elif name == "nvidia-cuda-runtime-cu12":
        print(f"{name}=={version}")
    elif not re.match("nvidia|cuda|triton", name) and "extra ==" not in r:
        print(r)
END
"$python" -m pip install --quiet -r "$venv/requirements" "transformers==$transformers" numpy==2.4.6 \
    2>"$venv/log" || { cat "$venv/log"; exit 1; } # it complains of what is left out
