"""What the programs to compare have in common: the shape, the prompt, the tasks, how a step is timed.

A peer is a class with load(folder, threads), prefill(ids) -> next id, with an empty cache before it,
and step(id) -> next id; forward(ids) -> next id, without a cache, where the program can do that. Its
file ends in `peers.main(Peer)` and is run by bench.py as

    python peer_NAME.py TASK FOLDER THREADS [VARIANT]

once for each task and round, in a process of its own. It prints lines, a word first:

    first   ID                    once the first token is there: bench.py looks at the clock then
    imported MS                   from the start of this interpreter to the end of its imports
    ids     CTX ID...             greedy ids of the decode that ends at CTX + AFTER, for comparison
    decode  CTX MS...             each timed step around CTX
    full    MS...                 each step from 1 to 1023 tokens in the cache
    prefill MS...                 LONG tokens at once, the last row's logits
    forward MS...                 the same without a cache
    version NAME VERSION

A step is timed by the wall clock from an id in Python to the next id in Python: the pass, the copy of the
logits where there is one, and argmax. What a program computes to choose the token is inside, Python's own
loop outside.
"""
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "oracle"))

LAYERS, HEADS, WIDTH, VOCAB, POSITIONS = 12, 12, 768, 50257, 1024  # GPT-2 small

# A decode around CTX: the prompt is CTX - BEFORE tokens, WARM steps only warm up, the others, up to
# CTX + AFTER, are timed: 16 of them.
BEFORE, WARM, AFTER = 12, 4, 8
LONG = 1000     # tokens of the prefill and of the pass without a cache
FIRST = 16      # tokens of the prompt behind `first`
REPEATS = 3     # of LONG passes, after one that warms up


try:
    import seeded  # tests/oracle/seeded.py; needs numpy, as all peers do
except ImportError:
    seeded = None  # bench.py needs only the numbers above


def prompt(count):
    return [int(i) for i in seeded.prompt(count, 0, VOCAB)]


def say(word, *values):
    print(word, *("%.4f" % v if isinstance(v, float) else v for v in values), flush=True)


def since(start):
    return (time.perf_counter() - start) * 1e3


class Peer:
    """The greedy loop; a program with a loop of its own (CTranslate2) has its own decode."""

    def decode(self, ids, steps):
        """Ids chosen (steps + 1) and ms of the prefill and of each step."""
        start = time.perf_counter()
        chosen = [self.prefill(ids)]
        ms = [since(start)]
        for _ in range(steps):
            start = time.perf_counter()
            token = self.step(chosen[-1])
            ms.append(since(start))
            chosen.append(token)
        return chosen, ms


def task_first(peer, _):
    say("first", peer.decode(prompt(FIRST), 0)[0][0])


def task_decode(peer, contexts):
    for ctx in contexts:
        chosen, ms = peer.decode(prompt(ctx - BEFORE), BEFORE + AFTER)
        say("ids", ctx, *chosen)
        say("decode", ctx, *ms[1 + WARM:])


def task_full(peer, _):
    say("full", *peer.decode(prompt(1), POSITIONS - 1)[1][1:])


def task_long(peer, _):
    ids = prompt(LONG)
    say("prefill", *[peer.decode(ids, 0)[1][0] for _ in range(1 + REPEATS)][1:])
    if getattr(peer, "forward", None):
        ms = []
        for _ in range(1 + REPEATS):
            start = time.perf_counter()
            peer.forward(ids)
            ms.append(since(start))
        say("forward", *ms[1:])


def started():
    """ms since this process began, from /proc; its clock ticks 100 times a second."""
    try:
        with open("/proc/self/stat") as f:
            ticks = int(f.read().rsplit(")", 1)[1].split()[19])
        with open("/proc/uptime") as f:
            return (float(f.read().split()[0]) - ticks / os.sysconf("SC_CLK_TCK")) * 1e3
    except (OSError, ValueError, IndexError):
        return -1.0


def main(kind):
    imported = started()
    task, folder, threads = sys.argv[1:4]
    variant = sys.argv[4] if len(sys.argv) > 4 else ""
    contexts = [int(c) for c in os.environ.get("PEERS_CONTEXTS", "16").split(",")]
    peer = kind(folder, int(threads), variant)
    for name, version in peer.versions():
        say("version", name, version)
    say("imported", imported)
    {"first": task_first, "decode": task_decode, "full": task_full, "long": task_long}[task](peer, contexts)
