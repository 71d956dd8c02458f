#!/usr/bin/env python3
"""How PyTorch reads allocator settings: which strings it refuses, and what it makes of the others.

    device/build.sh's run python settings.py OUT

Writes OUT: a row for each line of settings.txt, whose backslash sequences are Python's: the line,
then `refused`, or settings of the same meaning in the plainest form, or `-` where what they set is
not told (_snapshot shows four of them). Every string is read in a process of its own.
"""
import os
import sys
import tempfile

import torch

TOLD = ("max_split_size_mb", "garbage_collection_threshold", "expandable_segments",
        "roundup_power2_divisions")
CHANGE_NOTHING = ("pinned_", "release_lock_", "graph_capture_", "backend")


def plain(conf):
    """The settings in force, if what the string names is told."""
    keys = [part.split(":")[0] for part in "".join(conf.split()).split(",")]
    words = [k for k in keys if k and not k[0].isdigit() and k[0] not in "[>"]
    if not all(k in TOLD or k.startswith(CHANGE_NOTHING) for k in words):
        return "-"
    s = torch.cuda.memory._snapshot()["allocator_settings"]
    out = []
    if s["expandable_segments"]:
        out.append("expandable_segments:True")
    if s["max_split_size"] != -1:
        out.append(f"max_split_size_mb:{s['max_split_size'] >> 20}")
    if s["garbage_collection_threshold"] > 0:
        out.append(f"garbage_collection_threshold:{s['garbage_collection_threshold']!r}")
    divisions = s["roundup_power2_divisions"]
    if any(divisions.values()):
        pairs = ",".join(f"{k}:{v}" for k, v in divisions.items())
        out.append(f"roundup_power2_divisions:[{pairs}]")
    return ",".join(out) or "none"


def read(conf):
    """What happens, from a process of its own."""
    with tempfile.TemporaryFile() as f:
        if os.fork() == 0:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            os.environ["PYTORCH_CUDA_ALLOC_CONF"] = conf
            try:
                torch.cuda.init()
                torch.empty(512, device="cuda")
                answer = plain(conf)
            except torch.OutOfMemoryError:  # read, and a fraction of 0
                answer = plain(conf)
            except Exception:
                answer = "refused"
            os.write(f.fileno(), answer.encode())
            os._exit(0)
        os.wait()
        f.seek(0)
        return f.read().decode()


def main():
    os.environ.pop("PYTORCH_ALLOC_CONF", None)
    here = os.path.dirname(os.path.abspath(__file__))
    with open(f"{here}/settings.txt") as f, open(sys.argv[1], "w") as out:
        out.write(f"# torch {torch.__version__}\n")
        for line in f:
            line = line.rstrip("\n")
            if not line.startswith("# "):
                out.write(f"{line}\t{read(line.encode().decode('unicode_escape'))}\n")


main()
