#!/usr/bin/env python3
"""Nanoseconds per request and free of PyTorch's own allocator, for the patterns of tests/bench_alloc.c.

The loop is in C (pairs.c) and calls the allocator by its C entry points, so no Python is measured.
Columns as there: without its history, - (it has no listener that counts), with its history of
events in memory. Medians of five runs, each with a fresh cache. bench_torch.sh runs it.
"""
import ctypes
import os
import statistics
import sys

import torch

from oracle_device import is_real

RUNS = 5
PATTERNS = ("kv-growth", "2000-random", "one-4KiB")


def main():
    pairs = ctypes.CDLL(os.path.abspath(sys.argv[1])).oracle_pairs
    pairs.restype = ctypes.c_double
    pairs.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
    library = ctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cuda.so"))
    entry = lambda name: ctypes.cast(getattr(library, "aoti_torch_cuda_caching_allocator_" + name),
                                     ctypes.c_void_p)
    torch.cuda.init()
    torch.empty(1, device="cuda")

    def measure(pattern, record):
        ns = []
        for _ in range(RUNS):
            torch.cuda.empty_cache()
            if record:  # the length of bench_alloc.c's buffer
                torch.cuda.memory._record_memory_history("all", context=None, max_entries=1 << 16,
                                                         clear_history=True)
            ns.append(pairs(pattern, entry("raw_alloc"), entry("raw_delete")))
            torch.cuda.memory._record_memory_history(None)
        return statistics.median(ns)

    name = f"pytorch-{torch.__version__.split('+')[0]}" + (",real-device" if is_real() else "")
    if os.environ.get("PYTORCH_ALLOC_CONF"):
        name += "," + os.environ["PYTORCH_ALLOC_CONF"]
    for i, pattern in enumerate(PATTERNS):
        print(f"{name:<32} {pattern:<12} {measure(i, False):8.1f} {'-':>8} {measure(i, True):8.1f}",
              flush=True)


main()
