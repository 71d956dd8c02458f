#!/usr/bin/env python3
"""Records what PyTorch's allocator does with random traces, in the format of traces/read_recording.c.

usage: record.py OUT [--seed S] [--count N]     traces S, S+1, ..., S+N-1
       record.py OUT --again FILE...            the operations and settings of recordings
       record.py OUT --list FILE                the traces that kept.txt lists for this release

Writes OUT/NAME.tsv and OUT/NAME.summary (torch.cuda.memory_summary at the end). Every trace runs in
a process of its own, under device/build.sh's `run`; MEMTRACE_REAL=1 runs on a real device.
"""
import argparse
import gzip
import os
import random
import sys

import torch

import random_traces
from oracle_device import HISTORY, forked, is_real, kept_lines, open_device

COLUMNS = ("op id bytes stream segment offset block requested allocated active reserved "
           "inactive_split segments driver").split()
COUNTERS = ("requested_bytes", "allocated_bytes", "active_bytes", "reserved_bytes",
            "inactive_split_bytes", "segment")


def counters():
    s = torch.cuda.memory_stats_as_nested_dict()
    return [s[name]["all"]["current"] if name in s else 0 for name in COUNTERS]


class Recorder:
    def __init__(self, order):
        torch.cuda.init()
        self.device = open_device()
        self.streams = [torch.cuda.default_stream()] + sorted(
            (torch.cuda.Stream() for _ in range(5)), key=lambda s: s.cuda_stream)
        self.handles = [s.cuda_stream for s in self.streams]
        self.lines, self.live = [], {}
        self.order = order
        self.device.calls()
        self.now = counters()

    def row(self, *values):
        self.lines.append("\t".join(map(str, values)))

    def operate(self, op):
        """Carries an operation out. True if it was one: not on a block that was refused."""
        kind, live = op[0], self.live
        if kind == "a":
            with torch.cuda.stream(self.streams[op[3]]):
                try:
                    live[op[1]] = torch.empty(op[2], dtype=torch.uint8, device="cuda")
                except torch.OutOfMemoryError:
                    pass
        elif kind == "ec":
            torch.cuda.empty_cache()
        elif kind in ("hold", "go"):
            self.device.hold(kind == "hold")
        elif op[1] not in live:
            return False
        elif kind == "f":
            del live[op[1]]
        else:
            live[op[1]].record_stream(self.streams[op[2]])
        return True

    def step(self, op):
        if op[0] == "snap":
            return self.snapshot()
        self.device.settle()
        if not self.operate(op):
            return None
        kind, before = op[0], self.now
        self.now = counters()
        calls = self.device.calls()
        place = ["-", "-", "-"]
        if kind == "a":
            t = self.live.get(op[1])
            place = ["OOM"] * 3
            if t is not None:
                place = [*self.device.locate(t.data_ptr()), self.now[1] - before[1]]
        if kind == "rs":
            op = ("rs", op[1], "-", op[2])
        self.row(*(op + ("-",) * 4)[:4], *place, *self.now, calls)
        return None

    def snapshot(self):
        """The state of every block."""
        rows = []
        for s in torch.cuda.memory._snapshot()["segments"]:
            stream = self.handles.index(s["stream"])
            for b in s["blocks"]:
                rows.append([*self.device.locate(b["address"]), b["size"], b["requested_size"],
                             b["state"], s["segment_type"], stream])
        self.row("snap", len(rows))
        for r in sorted(rows):
            self.row("@", *r)

    def statistics(self):
        for key, value in sorted(torch.cuda.memory_stats().items()):
            self.lines.append(f"! {key} {value}")


class Places:
    """Segment and offset of the addresses in a history, in order, on the simulated device.

    Where a range's first page is refused, the range has a number and no event until a page of it is
    mapped; so the numbers come from the driver calls of the rows, in the order of the first event."""

    def __init__(self, rows):
        rows = [row for row in rows if not row.startswith(("snap", "@"))]
        calls = [c for row in rows for c in row.split("\t")[-1].split()]
        self.sizes, self.next = [], []
        for c in calls:
            if c[0] in "MR":
                if c[0] == "M":
                    self.next.append(len(self.sizes))
                self.sizes.append(int(c[1:]))
            elif c[0] == "P" and int(c[1:].split("+")[0]) not in self.next:
                self.next.append(int(c[1:].split("+")[0]))
        self.live = {}  # base: number

    def find(self, address):
        for base, number in self.live.items():
            if base <= address < base + self.sizes[number]:
                return number, address - base
        return None

    def of(self, action, address):
        place = self.find(address)
        if action in ("segment_alloc", "segment_map") and place is None:
            self.live[address] = self.next.pop(0)
            place = self.find(address)
        if action == "segment_free":
            del self.live[address]
        return place


def write_history(recorder):
    """The memory history, where the places of its events are certain."""
    if is_real():
        for e in recorder.device.events:
            recorder.lines.append("~ " + " ".join(map(str, e)))
        return
    rows = [line for line in recorder.lines if not line.startswith("!")]
    if recorder.order == "reuse" and any("\tR" in row or " R" in row for row in rows):
        return  # two ranges may have had the same address
    places = Places(rows)
    for e in torch.cuda.memory._snapshot()["device_traces"][0]:
        action, size = e["action"], e["size"]
        if action == "oom":
            recorder.lines.append(f"~ oom {e['device_free']} - {size}")
        elif action != "snapshot":
            number, offset = places.of(action, e["addr"])
            recorder.lines.append(f"~ {action} {number} {offset} {size}")


def run(job):
    out, name, options, device, fraction, order, operations = job
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = options  # the name that every release knows
    os.environ.pop("PYTORCH_ALLOC_CONF", None)
    if not is_real():
        os.environ["ORACLE_MEMORY"] = str(device)
        os.environ["ORACLE_ADDRESSES"] = order
        torch.cuda.memory._record_memory_history(**HISTORY)
    total = torch.cuda.get_device_properties(0).total_memory
    assert is_real() or total == device
    if fraction is not None:
        torch.cuda.set_per_process_memory_fraction(fraction)
    recorder = Recorder(order)
    for op in operations:
        recorder.step(op)
    recorder.snapshot()
    summary = torch.cuda.memory_summary()
    recorder.statistics()
    write_history(recorder)
    header = [f"torch {torch.__version__} {'real' if is_real() else 'simulated'} device",
              f"trace {name}", f"options {options or '-'}", f"device_bytes {total}",
              f"fraction {'-' if fraction is None else fraction}",
              f"addresses {recorder.device.order() if is_real() else order}", "\t".join(COLUMNS)]
    with open(f"{out}/{name}.tsv", "w") as f:
        f.writelines(f"# {h}\n" for h in header)
        f.writelines(line + "\n" for line in recorder.lines)
    with open(f"{out}/{name}.summary", "w") as f:
        f.write(summary)


def random_job(out, seed):
    r = random.Random(seed)
    reserves = not is_real() and tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 15)
    options, device, fraction, order = random_traces.settings(r, is_real(), reserves)
    operations = random_traces.operations(r, device or 24 << 30, is_real())
    return out, f"trace-{seed}", options, device, fraction, order, operations


def again_job(out, path):
    """The operations and settings of a recording."""
    head, operations = {}, []
    with (gzip.open if path.endswith(".gz") else open)(path, "rt") as f:
        for line in f:
            if line.startswith("# "):
                key, _, value = line[2:].rstrip("\n").partition(" ")
                head[key] = value
            elif line[0] not in "#@!~":
                w = line.rstrip("\n").split("\t")
                numbers = {"a": w[1:4], "f": w[1:2], "rs": [w[1], w[3]] if w[0] == "rs" else []}
                operations.append((w[0], *map(int, numbers.get(w[0], []))))
    if operations and operations[-1] == ("snap",):
        operations.pop()  # one is written at the end
    value = lambda key: None if head[key] == "-" else head[key]
    fraction = value("fraction")
    name = os.path.basename(path).split(".tsv")[0]
    return (out, name, value("options") or "", int(head["device_bytes"]),
            fraction and float(fraction), head["addresses"], operations)


def listed_job(out, line):
    name, program, seed, n, mib, fill, streams, order, fraction, options = line.split()
    device = int(mib) << 20
    operations = random_traces.program(program, int(seed), int(n), float(fill) * device,
                                       int(streams))
    return (out, name, "" if options == "-" else options, device,
            None if fraction == "-" else float(fraction), order, operations)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("out")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--count", type=int, default=1)
    p.add_argument("--again", nargs="+", metavar="FILE")
    p.add_argument("--list", metavar="FILE")
    a = p.parse_args()
    os.makedirs(a.out, exist_ok=True)
    if a.again:
        jobs = [again_job(a.out, path) for path in a.again]
    elif a.list:
        jobs = [listed_job(a.out, line) for line in kept_lines(a.list, "trace")]
    else:
        jobs = [random_job(a.out, seed) for seed in range(a.seed, a.seed + a.count)]
    failed = forked(jobs, run, 1 if is_real() else len(os.sched_getaffinity(0)))
    for job in failed:
        print(f"{job[1]}: not recorded (options {job[2] or '-'})", file=sys.stderr)
    sys.exit(1 if failed else 0)


main()
