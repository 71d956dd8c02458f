#!/usr/bin/env python3
"""Decode and prefill speed of memtrace and of other CPU inference programs, measured in one run.

usage: python3 tests/peers/bench.py [--rounds N] [--threads N] [--contexts 16,512,1000] [--only NAME,...]
                                    [--full] [--compile] [--dat FILE]     (tests/peers/setup.sh first)

All programs have the same weights (export.py) and the same prompts, 2 threads, fp32, batch 1, greedy. A
round runs one program after the other, never two at a time, so that noise on the machine hits all
alike; within a round each task of a program is a process of its own:

    first    start of the process to its first token, of a prompt of 16 ids; files are in the page cache
    decode   around each context: a prompt of CTX - 12 ids, 4 steps that warm up, 16 that count
             (CTX - 7 to CTX + 8 tokens in the cache); the peak memory is the kernel's for this process
    long     1000 ids at once, into the cache and without one, after a pass that warms up; memtrace's
             prefill is the first pass of its process, without one
    full     with --full: each step from 1 to 1023 tokens in the cache

The time of a step in other programs is taken from outside, id to id (peers.py; peer_*.py say what is in
it); memtrace's is the column ms of its table, forward pass and choice of the token. Each decode's 21
ids are compared with memtrace's.

Between programs tests/bench_read.c reads 1 GiB. The bound of a step is what it must read at that rate,
the mean of the probes before and after: all weights but wpe, wte once as the head, and keys and
values of CTX tokens in the type the program keeps them in. The percentage is bound / time.

A figure is the median over rounds (of a round: the median of its steps); low and high are the rounds
that were fastest and slowest. The table goes to stdout, all figures to FILE (build/peers/peers.dat)
after every round; Ctrl-C keeps the rounds that are finished.
"""
import argparse
import os
import signal
import statistics
import subprocess
import sys
import time

sys.dont_write_bytecode = True
import peers

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
FOLDER = "build/peers"
PYTHON = FOLDER + "/venv/bin/python"

C, V, L = peers.WIDTH, peers.VOCAB, peers.LAYERS
WEIGHT_BYTES = 4 * (V * C + L * (12 * C * C + 13 * C) + 2 * C)  # all but wpe


def step_bytes(ctx, element):
    return WEIGHT_BYTES + 2 * L * C * element * ctx


class Failed(Exception):
    pass


def note(text):
    print(text, file=sys.stderr, flush=True)


class Child:
    """A process that ended: its lines, each with its time since the start in ms, and its peak memory."""

    def __init__(self, name, argv, env):
        os.makedirs(FOLDER + "/log", exist_ok=True)
        log = "%s/log/%s.err" % (FOLDER, name)
        with open(log, "w") as err:
            start = time.perf_counter()
            p = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=err, env=env)
            try:
                self.lines = []
                for line in p.stdout:
                    self.lines.append(((time.perf_counter() - start) * 1e3, line.decode().split()))
                _, status, used = os.wait4(p.pid, 0)
                p.returncode = os.waitstatus_to_exitcode(status)
            except BaseException:
                if p.returncode is None:
                    p.kill()
                    p.wait()
                raise
        self.rss = used.ru_maxrss * 1024
        if p.returncode != 0:
            with open(log) as f:
                said = [line.strip() for line in f if line.strip()]
            raise Failed("%s: status %d: %s" % (name, p.returncode, said[-1] if said else "said nothing"))

    def words(self, first):
        return [words[1:] for _, words in self.lines if words and words[0] == first]


# ---- programs ----------------------------------------------------------------------------------------


class Memtrace:
    element = 4  # bytes of a number in the cache

    def __init__(self, options, kv):
        self.name = "memtrace-" + kv
        self.kv = kv
        self.options = options
        self.common = ["--backend", "cpu", "--threads", str(options.threads), "--quiet"]
        if os.path.exists(FOLDER + "/hf"):
            self.common += ["--model", FOLDER + "/hf"]

    def child(self, task, *argv):
        return Child("%s.%s" % (self.name, task), [self.options.memtrace, *argv, *self.common], self.options.env)

    def table(self, task, kv, prompt, ctx):
        """ms of each step."""
        child = self.child(task, "run", "--kv", kv, "--prompt-tokens", str(prompt), "--ctx", str(ctx))
        columns = [w[1:] for _, w in child.lines if w[:2] == ["#", "step"]][-1]
        at = columns.index("ms")
        self.version = child.lines[0][1][-1]
        self.device = " ".join([w for _, w in child.lines if w[:2] == ["#", "device"]][0][2:])
        return child, [float(w[at]) for _, w in child.lines if w and w[0] != "#"]

    def ids(self, ctx):
        lines = self.child("ids", "generate", "--ids", "--kv", self.kv, "--prompt-tokens",
                           str(ctx - peers.BEFORE), "--ctx", str(ctx + peers.AFTER)).lines
        return [int(i) for i in lines[-1][1]]

    def start(self):
        self.first({})
        self.table("start", self.kv, 1, 1)

    def versions(self):
        return [("memtrace", self.version)]

    def first(self, out):
        child = self.child("first", "generate", "--ids", "--kv", self.kv, "--prompt-tokens",
                           str(peers.FIRST), "--ctx", str(peers.FIRST))
        out["first"] = [child.lines[0][0]]

    def measure(self, out):
        self.first(out)
        for ctx in self.options.contexts:
            child, ms = self.table("decode", self.kv, ctx - peers.BEFORE, ctx + peers.AFTER)
            out["decode", ctx] = ms[1 + peers.WARM:]
            out["rss"] = [max(child.rss, *out.get("rss", [0]))]
        out["prefill"] = self.table("prefill", self.kv, peers.LONG, peers.LONG + 1)[1][:1]
        if self.kv == "static":
            out["forward"] = self.table("forward", "none", peers.LONG - 1, peers.LONG)[1][1:]
        if self.options.full:
            out["full"] = self.table("full", self.kv, 1, peers.POSITIONS)[1][1:]


class Other:
    def __init__(self, options, name, script, needs, variant="", element=4, tasks=("first", "decode", "long")):
        self.name, self.script, self.variant, self.element = name, script, variant, element
        self.options, self.tasks = options, tasks
        self.files = [os.path.join(FOLDER, f) for f in needs]

    def child(self, task):
        return Child("%s.%s" % (self.name, task), [PYTHON, os.path.join(HERE, self.script), task, FOLDER,
                                                   str(self.options.threads), self.variant], self.options.env)

    def start(self):
        missing = [f for f in self.files if not os.path.exists(f)]
        if missing:
            raise Failed("%s: no %s" % (self.name, missing[0]))
        self.known = [tuple(w) for w in self.child("first").words("version")]

    def versions(self):
        return self.known

    def ids(self, ctx):
        return self.found[ctx]

    def measure(self, out):
        for task in self.tasks + (("full",) if self.options.full else ()):
            child = self.child(task)
            if task == "first":
                out["first"] = [at for at, w in child.lines if w[0] == "first"]
                out["imported"] = [float(w[0]) for w in child.words("imported")]
            if task == "decode":
                for ctx, *ms in child.words("decode"):
                    out["decode", int(ctx)] = [float(x) for x in ms]
                self.found = {int(w[0]): [int(i) for i in w[1:]] for w in child.words("ids")}
                out["rss"] = [child.rss]
            for what in ("prefill", "forward", "full"):
                for w in child.words(what):
                    out[what] = [float(x) for x in w]


def programs(options):
    made = [
        Memtrace(options, "static"),
        Memtrace(options, "concat"),
        Other(options, "torch", "peer_torch.py", ["hf"]),
        Other(options, "llama.cpp", "peer_llama.py", ["gpt2-f32.gguf"], element=2),
        Other(options, "llama.cpp-f32", "peer_llama.py", ["gpt2-f32.gguf"], "f32"),
        Other(options, "ctranslate2", "peer_ctranslate2.py", ["ctranslate2"]),
        Other(options, "openvino", "peer_openvino.py", ["openvino"]),
    ]
    if options.compile:
        made.insert(3, Other(options, "torch-compile", "peer_torch.py", ["hf"], "compile", tasks=("decode",)))
    if options.only:
        made = [p for p in made if p.name in options.only]
    return made


# ---- measuring ---------------------------------------------------------------------------------------


def read_rate(options):
    child = Child("bench_read", [options.build + "/tests/bench_read", str(options.threads)], options.env)
    return float(child.lines[0][1][0])


def compare(program, contexts, reference):
    """`same`, or where the ids first differ."""
    for ctx in contexts:
        mine = program.ids(ctx)
        if mine != reference[ctx]:
            same = [a == b for a, b in zip(mine, reference[ctx])] + [False]
            return "other ids at ctx %d from number %d on" % (ctx, same.index(False) + 1)
    return "same ids"


def one_round(options, running, reference, ids):
    """{name: {what: [ms...]}}; a program that fails is dropped from `running`."""
    done = {}
    before = read_rate(options)
    for program in list(running):
        out = {}
        note("  %s" % program.name)
        try:
            program.measure(out)
            verdict = compare(program, options.contexts, reference)
        except Failed as e:
            note("peers: %s: left out" % e)
            ids[program.name] = "failed"
            running.remove(program)
            before = read_rate(options)
            continue
        if ids.get(program.name, "same ids") == "same ids":
            ids[program.name] = verdict
        after = read_rate(options)
        out["rate"] = [(before + after) / 2]
        before = after
        done[program.name] = out
    return done


# ---- reporting ---------------------------------------------------------------------------------------


class Figure:
    """Median over rounds of the medians of their steps (of means for `full`), the least, the most."""

    def __init__(self, rounds, name, what, read=None):
        middle = statistics.mean if what == "full" else statistics.median
        have = [r[name] for r in rounds if name in r and r[name].get(what)]
        values = [middle(out[what]) for out in have]
        self.there = bool(values)
        if self.there:
            self.median, self.low, self.high = statistics.median(values), min(values), max(values)
            if read is not None:  # bytes a step must read
                bounds = [read / out["rate"][0] * 1e-6 for out in have]
                self.bound = statistics.median(bounds)
                self.percent = statistics.median(100 * b / v for b, v in zip(bounds, values))


def setting(options, rounds, running, ids):
    rates = [out["rate"][0] for r in rounds for out in r.values()]
    lines = ["memtrace peers 1", "model gpt2 small, fp32, batch 1, greedy, seeded weights",
             "threads %d" % options.threads, "rounds %d" % len(rounds), "device %s" % options.device,
             "weights_read %d" % WEIGHT_BYTES, "kv_read %d" % (step_bytes(1, 4) - WEIGHT_BYTES),
             "memory_rate %.2f %.2f %.2f" % (statistics.median(rates), min(rates), max(rates))]
    known = []
    for program in running:
        for name, version in program.versions():
            if (name, version) not in known:
                known.append((name, version))
    lines += ["version %s %s" % pair for pair in known]
    lines += ["ids %s %s" % pair for pair in ids.items()]
    return lines


COLUMNS = "program what ctx median low high per_s bound percent"


def dat_rows(options, rounds, running):
    rows = []

    def row(program, what, ctx, f, read=None, per_s=True):
        if f.there:
            rows.append("%s %s %s %.3f %.3f %.3f %s %s" % (
                program.name, what, ctx, f.median, f.low, f.high,
                "%.2f" % (1e3 / f.median) if per_s else "-",
                "%.3f %.3f" % (f.bound, f.percent) if read else "- -"))

    for p in running:
        for ctx in options.contexts:
            read = step_bytes(ctx, p.element)
            row(p, "decode", ctx, Figure(rounds, p.name, ("decode", ctx), read), read)
        half = peers.POSITIONS // 2
        row(p, "mean", "1..%d" % (peers.POSITIONS - 1),
            Figure(rounds, p.name, "full", step_bytes(half, p.element)), True)
        for what in ("prefill", "forward"):
            row(p, what, peers.LONG, Figure(rounds, p.name, what))
        for what in ("first", "imported"):
            row(p, what, peers.FIRST, Figure(rounds, p.name, what), per_s=False)
        f = Figure(rounds, p.name, "rss")
        if f.there:  # bytes
            rows.append("%s rss %d %d %d %d - - -" % (p.name, max(options.contexts), f.median, f.low, f.high))
    return rows


def write_dat(options, rounds, running, ids):
    part = "%s.%d" % (options.dat, os.getpid())
    with open(part, "w") as f:
        for line in setting(options, rounds, running, ids):
            f.write("# %s\n" % line)
        f.write("# units ms; rss bytes; memory_rate GB/s: median, least, most\n# %s\n" % COLUMNS)
        f.writelines(line + "\n" for line in dat_rows(options, rounds, running))
    os.rename(part, options.dat)


def cell(f, form="%.1f"):
    return form % f.median if f.there else "-"


def print_table(options, rounds, running, ids):
    name = "%-16s"
    rates = [out["rate"][0] for r in rounds for out in r.values()]
    rate = statistics.median(rates)
    for line in setting(options, rounds, running, ids)[1:4] + [" ".join(
            "%s %s" % v for v in dict.fromkeys(v for p in running for v in p.versions()))]:
        print("# " + line)
    print("# memory: read at %.2f GB/s (%.2f to %.2f) between the programs; a step reads %.1f MB of weights"
          % (rate, min(rates), max(rates), WEIGHT_BYTES * 1e-6))
    print("\n# decode: ms a token with CTX tokens in the cache, and percent of the memory bound")
    print(name % "# program" + "".join("%18d" % c for c in options.contexts)
          + "%12s" % "tokens/s" + ("%18s" % "mean 1..1023" if options.full else "") + "  ids")
    for p in running:
        text = name % p.name
        for ctx in options.contexts:
            f = Figure(rounds, p.name, ("decode", ctx), step_bytes(ctx, p.element))
            text += "%18s" % ("%.1f (%.0f %%)" % (f.median, f.percent) if f.there else "-")
        text += "%12s" % ("%.1f" % (1e3 / f.median) if f.there else "-")
        if options.full:
            f = Figure(rounds, p.name, "full", step_bytes(peers.POSITIONS // 2, p.element))
            text += "%18s" % ("%.1f (%.0f %%)" % (f.median, f.percent) if f.there else "-")
        print(text + "  " + ids[p.name])
    print(name % "bound, f32 cache" + "".join(
        "%18s" % ("%.1f" % (step_bytes(c, 4) / rate * 1e-6)) for c in options.contexts))
    print("\n# spread of the medians of the rounds, ms")
    for p in running:
        text = name % p.name
        for ctx in options.contexts:
            f = Figure(rounds, p.name, ("decode", ctx))
            text += "%18s" % ("%.1f to %.1f" % (f.low, f.high) if f.there else "-")
        print(text)
    print("\n# ms: %d tokens at once into the cache; the same without a cache; process start to first token,"
          "\n# of it until imports are done; MiB: peak memory of the decodes up to %d tokens"
          % (peers.LONG, max(options.contexts)))
    print(name % "# program" + "%12s%12s%12s%12s%12s" % ("prefill", "no cache", "first", "imports", "peak"))
    for p in running:
        rss = Figure(rounds, p.name, "rss")
        print(name % p.name + "".join("%12s" % cell(Figure(rounds, p.name, what))
                                      for what in ("prefill", "forward", "first", "imported"))
              + "%12s" % ("%.1f" % (rss.median / 2**20) if rss.there else "-"))
    if any(p.name == "ctranslate2" for p in running):
        print("# ctranslate2 without a cache computes the logits of all positions, the others of the last")
    for left, why in ids.items():
        if left not in [p.name for p in running]:
            print("# %s: %s" % (left, why))
    sys.stdout.flush()


# ---- the run -----------------------------------------------------------------------------------------


def arguments():
    env = os.environ
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=int(env.get("ROUNDS", 5)))
    parser.add_argument("--threads", type=int, default=int(env.get("THREADS", 2)))
    parser.add_argument("--contexts", default=env.get("PEERS_CONTEXTS", "16,256,512,768,1000"))
    parser.add_argument("--only", default=env.get("PEERS_ONLY"), help="names, with commas")
    parser.add_argument("--full", action="store_true", default=env.get("PEERS_FULL") == "1")
    parser.add_argument("--compile", action="store_true", default=env.get("PEERS_COMPILE") == "1")
    parser.add_argument("--dat", default=FOLDER + "/peers.dat")
    parser.add_argument("--build", default=env.get("BUILD", "build"))
    parser.add_argument("--memtrace", default=env.get("MEMTRACE", "./memtrace"))
    options = parser.parse_args()
    options.contexts = sorted({int(c) for c in options.contexts.split(",")})
    if options.contexts[0] <= peers.BEFORE or options.contexts[-1] + peers.AFTER > peers.POSITIONS:
        parser.error("contexts from %d to %d" % (peers.BEFORE + 1, peers.POSITIONS - peers.AFTER))
    options.only = options.only.split(",") if options.only else None
    options.env = dict(env, OMP_NUM_THREADS=str(options.threads), PYTHONDONTWRITEBYTECODE="1",
                       PEERS_CONTEXTS=",".join(map(str, options.contexts)))
    return options


def start(options, wanted, ids):
    """Programs that run; each has run once, so that its files are in the page cache."""
    running = []
    for program in wanted:
        try:
            program.start()
            running.append(program)
        except (Failed, OSError) as e:
            note("peers: %s: left out" % e)
            ids[program.name] = "left out: %s" % e
    return running


def main():
    os.chdir(ROOT)
    options = arguments()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    rounds, ids, running, status = [], {}, [], 0
    first = Memtrace(options, "static")
    try:
        note("peers: one run of each program to warm up")
        running = start(options, programs(options), ids)
        first.table("start", "static", 1, 1)
        options.device = first.device
        reference = {ctx: first.ids(ctx) for ctx in options.contexts}
        for r in range(options.rounds):
            note("peers: round %d of %d" % (r + 1, options.rounds))
            rounds.append(one_round(options, running, reference, ids))
            write_dat(options, rounds, running, ids)
    except KeyboardInterrupt:
        note("peers: interrupted; %d rounds are finished" % len(rounds))
        status = 130
    except (Failed, OSError) as e:
        note("peers: %s" % e)
        status = 1
    if rounds and rounds[0]:
        print_table(options, rounds, running, ids)
        note("peers: all figures are in %s" % options.dat)
    return status


if __name__ == "__main__":
    sys.exit(main())
