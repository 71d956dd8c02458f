#!/usr/bin/env python3
"""The memory counters of greedy decoding with Hugging Face's GPT2LMHeadModel, one row per step.

usage: decode.py OUT [--seed S] [--count N]      random models, options and devices
       decode.py OUT --case "WORDS"...           cases as below
       decode.py OUT --list FILE                the decodes that kept.txt lists for this release

A case is the arguments of `memtrace predict` (--layers --heads --width --vocab --positions --batch
--dtype --attn --cache --prompt-tokens --ctx --contexts --cc --sms --capacity) and environment
variables (NAME=VALUE), separated by blanks. Writes OUT/NAME.tsv: the case in the header ("# case"),
then the columns that `memtrace predict` prints; "# out of memory" where the run ended so. From the
list also OUT/schedule-NAME.txt, every request, free and driver call of the run in order, with the
rows, and OUT/placed-NAME.txt, with the place of every block. Every case runs in a process of its
own, under device/build.sh's `run`; MEMTRACE_REAL=1 runs on a real device. Weights are random: the
allocator's decisions depend on no value.
"""
import argparse
import os
import random
import sys

import torch
import transformers
from transformers import DynamicCache, GPT2Config, GPT2LMHeadModel, StaticCache

import random_traces
from oracle_device import Real, forked, is_real, kept_lines

COLUMNS = {
    "allocated": "allocated_bytes.all.current", "reserved": "reserved_bytes.all.current",
    "requested": "requested_bytes.all.current", "active": "active_bytes.all.current",
    "inactive_split": "inactive_split_bytes.all.current",
    "inactive_split_blocks": "inactive_split.all.current", "segments": "segment.all.current",
    "peak_allocated": "allocated_bytes.all.peak", "peak_reserved": "reserved_bytes.all.peak",
    "peak_requested": "requested_bytes.all.peak", "allocs": "allocation.all.allocated",
    "frees": "allocation.all.freed", "device_allocs": "num_device_alloc",
    "device_frees": "num_device_free"}
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
GIB = 1 << 30


class Schedule:
    """Requests, frees and driver calls as lines of text, from the memory history."""

    WORDS = {"segment_alloc": "S", "segment_map": "P", "segment_unmap": "U", "segment_free": "R"}

    def __init__(self, placed):
        self.history, self.placed = Real(), placed
        self.lines, self.live, self.allocs = [], {}, 0

    def add(self, action, segment, offset, size):
        if action == "alloc":
            self.live[segment, offset] = self.allocs
            self.allocs += 1
            self.lines.append(f"a {size}" + (f" {segment}+{offset}" if self.placed else ""))
        elif action == "free_requested":
            self.lines.append(f"f {self.allocs - 1 - self.live.pop((segment, offset))}")
        elif action in self.WORDS:
            what = {"S": f"{size}", "R": f"{segment}"}
            word = self.WORDS[action]
            self.lines.append(f"{word} " + what.get(word, f"{segment}+{offset} {size}"))

    def row(self, row):
        self.history.calls()
        for event in self.history.events:
            self.add(*event)
        self.history.events = []
        self.lines.append(" ".join(map(str, ["=", *row])))


schedule = None


def row(rows, step, tokens):
    torch.cuda.synchronize()
    s = torch.cuda.memory_stats()
    rows.append([step, tokens, *(s[key] for key in COLUMNS.values())])
    if schedule is not None:
        schedule.row(rows[-1])
    torch.cuda.reset_peak_memory_stats()


def decode(c, rows):
    """c: the case's arguments. What transformers does, with the last output kept until the next."""
    n = lambda name: int(c[name])
    config = GPT2Config(attn_implementation=c["attn"], n_layer=n("layers"), n_head=n("heads"),
                        n_embd=n("width"), vocab_size=n("vocab"), n_positions=n("positions"),
                        bos_token_id=0, eos_token_id=0)
    model = GPT2LMHeadModel(config).eval().to(DTYPES[c["dtype"]]).to("cuda")
    row(rows, "load", 0)
    prompt, ctx = n("prompt-tokens"), n("ctx")
    if c["cache"] == "none":
        lengths = map(int, c["contexts"].split(",")) if "contexts" in c else range(prompt, ctx + 1)
        for step, length in enumerate(lengths):
            ids = torch.zeros(n("batch"), length, dtype=torch.long, device="cuda")
            out = model(input_ids=ids, use_cache=False)
            ids = out.logits[:, -1:].argmax(-1)
            row(rows, step, length)
        return
    if c["cache"] == "static":
        past = StaticCache(config=config, max_cache_len=config.n_positions)
    else:
        past = DynamicCache(config=config)
    ids = torch.zeros(n("batch"), prompt, dtype=torch.long, device="cuda")
    for step in range(ctx - prompt + 1):
        out = model(input_ids=ids, past_key_values=past, use_cache=True)
        ids = out.logits[:, -1:].argmax(-1)
        row(rows, step, prompt + step)


# ---- cases --------------------------------------------------------------------------------------

DEFAULTS = {"layers": 12, "heads": 12, "width": 768, "vocab": 50257, "positions": 1024, "batch": 1,
            "dtype": "f32", "attn": "sdpa", "cache": "dynamic", "prompt-tokens": 1, "ctx": 1024,
            "cc": "8.6", "sms": 84, "capacity": 48 * GIB}


def random_case(seed):
    r = random.Random(seed)
    heads = r.randint(1, 16)
    positions = r.choice([64, 100, 256, 300, 512])
    prompt = min(positions, r.choice([1, 1, 2, 7, 30, r.randint(1, positions)]))
    ctx = min(positions, prompt + r.choice([3, 40, 150]))
    cc, sms = r.choice([("8.0", 108), ("8.6", 84), ("8.6", 28), ("8.9", 142), ("9.0", 132),
                        ("10.0", 148), ("12.0", 188)])
    c = {"layers": r.randint(1, 6), "heads": heads,
         "width": heads * r.choice([8, 16, 20, 32, 40, 64, 64, 72, 80, 96, 128, 160]),
         "vocab": r.choice([50257, 1000, r.randint(10, 60000)]), "positions": positions,
         "batch": r.choice([1, 1, 1, 2, 3, 8]), "dtype": r.choice(["f32", "f32", "bf16", "f16"]),
         "attn": r.choice(["sdpa", "eager"]),
         "cache": r.choice(["dynamic", "dynamic", "static", "none"])}
    if c["cache"] == "none" and r.random() < 0.5:
        lengths = sorted(r.sample(range(1, positions + 1), r.randint(2, 12)))
        c["contexts"] = ",".join(map(str, lengths))
    else:
        c |= {"prompt-tokens": prompt, "ctx": ctx}
    if cc in ("9.0", "10.0") and c["dtype"] != "f32":
        c["attn"] = "eager"  # sdpa may run in cuDNN there, which needs a GPU
    environment = {}
    options = random_traces.settings(r, True)[0] if r.random() < 0.6 else ""
    if options:
        environment[r.choice(["PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"])] = options
    if r.random() < 0.3:
        environment["CUBLAS_WORKSPACE_CONFIG"] = r.choice([":4096:8", ":16:8", ":0:0", ":4096:2:16:8"])
    if r.random() < 0.3:
        environment["TORCH_CUBLAS_WORKSPACE_CACHE"] = "1"
    if not is_real():
        c |= {"cc": cc, "sms": sms, "capacity": r.choice([GIB // 8, 24 * GIB, 80 * GIB, 80 * GIB])}
    return " ".join([*(f"{k}={v}" for k, v in environment.items()),
                     *(f"--{k} {v}" for k, v in c.items())])


VARIABLES = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "CUBLAS_WORKSPACE_CONFIG",
             "TORCH_CUBLAS_WORKSPACE_CACHE", "CUBLASLT_WORKSPACE_SIZE",
             "TORCH_CUBLASLT_UNIFIED_WORKSPACE")


def parse(text):
    """A case's variables and arguments."""
    words = text.split()
    variables = [w for w in words if w.split("=")[0] in VARIABLES]
    words = [w for w in words if w not in variables]
    given = {k[2:]: v for k, v in zip(words[::2], words[1::2])}
    if len(words) % 2 or set(given) - set(DEFAULTS) - {"contexts"}:
        raise SystemExit(f"not a case: {text}")
    return variables, given


def header(c, variables, given):
    """What was run: in words that readers of schedules know, and as a case."""
    where = "real" if is_real() else "simulated"
    arguments = " ".join(f"--{k} {v}" for k, v in given.items())
    dtype = str(DTYPES[c["dtype"]]).split(".")[1]
    lengths = f"lengths={c['contexts']}" if "contexts" in c else (
        f"prompt={c['prompt-tokens']} total={c['ctx']}")
    return [f"torch {torch.__version__}  transformers {transformers.__version__}",
            f"device {where}, {c['capacity']} bytes, compute capability {c['cc']}; "
            f"multiprocessors={c['sms']}",
            f"model n_layer={c['layers']}, n_head={c['heads']}, n_embd={c['width']}, "
            f"vocab_size={c['vocab']}, n_positions={c['positions']} {dtype}, batch {c['batch']}",
            f"attn_implementation={c['attn']} cache={c['cache']} {lengths}",
            " ".join(["environment", *variables]),
            "case " + " ".join([*variables, arguments])]


def write(path, head, lines):
    with open(path, "w") as f:
        f.writelines(f"# {h}\n" for h in head)
        f.writelines(line + "\n" for line in lines)


def run(job):
    global schedule
    out, name, text, kind = job
    variables, given = parse(text)
    for variable in VARIABLES:
        os.environ.pop(variable, None)
    os.environ.update(v.split("=", 1) for v in variables)
    if is_real():
        p = torch.cuda.get_device_properties(0)
        given |= {"cc": f"{p.major}.{p.minor}", "sms": p.multi_processor_count,
                  "capacity": p.total_memory}
    c = DEFAULTS | given
    if "ctx" not in given:
        c["ctx"] = min(1024, int(c["positions"]))
    if not is_real():
        os.environ.update(ORACLE_MEMORY=str(c["capacity"]), ORACLE_CC=str(c["cc"]),
                          ORACLE_SMS=str(c["sms"]))
    if kind != "decode":
        schedule = Schedule(kind == "placed")
    rows, end = [], []
    try:
        with torch.no_grad():
            decode(c, rows)
    except torch.OutOfMemoryError:
        end = ["# out of memory"]
    head = header(c, variables, given)
    if kind != "decode":
        write(f"{out}/{kind}-{name}.txt", head + [" ".join(["row: step tokens", *COLUMNS])],
              schedule.lines)
    if kind != "placed":
        write(f"{out}/{name}.tsv", head + ["\t".join(["step", "tokens", *COLUMNS])],
              ["\t".join(map(str, r)) for r in rows] + end)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("out")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--count", type=int, default=1)
    p.add_argument("--case", nargs="+", metavar="WORDS")
    p.add_argument("--list", metavar="FILE")
    a = p.parse_args()
    os.makedirs(a.out, exist_ok=True)
    if a.case:
        jobs = [(a.out, f"case-{i}", text, "decode") for i, text in enumerate(a.case, 1)]
    elif a.list:
        jobs = [(a.out, *line.split(" ", 1), kind) for kind in ("decode", "schedule", "placed")
                for line in kept_lines(a.list, kind)]
    else:
        jobs = [(a.out, f"decode-{s}", random_case(s), "decode")
                for s in range(a.seed, a.seed + a.count)]
    failed = forked(jobs, run, 1 if is_real() else len(os.sched_getaffinity(0)))
    for job in failed:
        print(f"{job[1]}: not recorded ({job[2]})", file=sys.stderr)
    sys.exit(1 if failed else 0)


main()
