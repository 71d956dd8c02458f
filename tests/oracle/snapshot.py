#!/usr/bin/env python3
"""Writes a memory snapshot of PyTorch, and what its counters said at that moment.

    device/run bin/python tests/oracle/snapshot.py events OUT.pkl     allocations on two streams, all kinds of event
    device/run bin/python tests/oracle/snapshot.py decode OUT.pkl     a small GPT-2, twelve greedy steps with a cache

Settings come from PYTORCH_ALLOC_CONF. OUT.tsv gets the counters, one per line, read right before the
snapshot: those that `memtrace explain` must find in the file.
"""
import pickle
import sys

import torch

KEPT = ("reserved_bytes.all.current", "allocated_bytes.all.current", "active_bytes.all.current",
        "requested_bytes.all.current", "segment.all.current", "reserved_bytes.all.peak",
        "requested_bytes.all.peak")


def take(n):
    return torch.empty(n, dtype=torch.uint8, device="cuda")


def events():
    """Small and large blocks, a hole, a block that another stream uses, a refusal, empty_cache."""
    torch.cuda.set_per_process_memory_fraction(
        96 * 2**20 / torch.cuda.get_device_properties(0).total_memory)
    side = torch.cuda.Stream()
    kept = [take(700), take(150_001), take(3 * 2**20), take(11 * 2**20)]
    gone = [take(999_000), take(5 * 2**20 + 7)]
    kept[1].record_stream(side)
    with torch.cuda.stream(side):
        kept.append(take(2**20 + 1))
    del gone[0], kept[1]
    try:
        take(300 * 2**20)
    except torch.OutOfMemoryError:
        pass
    gone.append(take(12 * 2**20 + 5))
    gone.clear()
    torch.cuda.empty_cache()
    kept.append(take(4 * 2**20))
    return kept


def decode():
    from transformers import DynamicCache, GPT2Config, GPT2LMHeadModel
    config = GPT2Config(n_layer=3, n_head=4, n_embd=96, vocab_size=1000, n_positions=64)
    model = GPT2LMHeadModel(config).eval().to("cuda")
    ids = torch.zeros((1, 5), dtype=torch.long, device="cuda")
    cache = DynamicCache(config=config)
    with torch.no_grad():
        for _ in range(12):
            out = model(ids, past_key_values=cache, use_cache=True)
            ids = out.logits[:, -1:].argmax(-1)
    return model, cache, out, ids


def short(snapshot):
    """Names of files without the folders of the machine they lie on."""
    for trace in [s for s in snapshot["segments"]] + sum(snapshot["device_traces"], []):
        for frame in trace.get("frames", []) + [f for b in trace.get("blocks", []) for f in b.get("frames", [])]:
            frame["filename"] = frame["filename"].rsplit("site-packages/", 1)[-1].rsplit("tests/oracle/", 1)[-1]
    return snapshot


def main():
    what, path = sys.argv[1:]
    torch.cuda.memory._record_memory_history(max_entries=100_000, stacks="python")
    live = {"events": events, "decode": decode}[what]()
    torch.cuda.synchronize()
    stats = torch.cuda.memory_stats()
    with open(path, "wb") as out:
        pickle.dump(short(torch.cuda.memory._snapshot()), out)
    with open(path.rsplit(".pkl", 1)[0] + ".tsv", "w") as out:
        out.writelines(f"{key}\t{stats[key]}\n" for key in KEPT)
    return live


if __name__ == "__main__":
    main()
