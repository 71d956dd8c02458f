"""Random settings of the allocator and random operations for it.

An operation is a tuple, as the recordings' first columns: ("a", id, bytes, stream), ("f", id),
("rs", id, stream), ("ec",), ("hold",), ("go",), ("snap",).
"""
import math
import random

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


def log_uniform(r, low, high):
    return int(math.exp(r.uniform(math.log(low), math.log(high))))


# ---- settings -----------------------------------------------------------------------------------

def divisions(r):
    if r.random() < 0.5:
        return str(1 << r.randrange(7))
    shifts = sorted(r.sample(range(16), r.randint(1, 4)))
    pairs = [f"{1 << s}:{r.choice([0, 1, 2, 4, 8, 16])}" for s in shifts]
    if r.random() < 0.6:
        pairs.append(f">:{1 << r.randrange(5)}")
    return "[" + ",".join(pairs) + "]"


def reserve(r):
    """expandable_segments_reserve, in both its forms, and refused ones."""
    fraction = round(r.uniform(0.01, 1.2), 3)
    return r.choice([f"{fraction}", f"{fraction}", f"{round(r.uniform(0.05, 6), 2)}G", "2g", "64M"])


def settings(r, real=False, reserves=False):
    """options, bytes of the device, memory fraction (None: not called), order of addresses"""
    o = []
    expandable = r.random() < 0.35
    large = r.choice([12, 32, 48, 64, 100, 200]) if r.random() < 0.2 else 20
    if large == 12 and not expandable:
        large = 11  # with expandable segments the driver refuses what is no multiple of 2 MiB
    if large != 20:
        o.append(f"large_segment_size_mb:{large}")
    least = max(20, large)
    if r.random() < 0.4:
        o.append(f"max_split_size_mb:{least + r.choice([0, 1, 5, 30, 80, 108, 492])}")
        if r.random() < 0.5:
            o.append(f"max_non_split_rounding_mb:{least + r.choice([0, 3, 12, 44, 108])}")
    if r.random() < 0.3:
        o.append(f"roundup_power2_divisions:{divisions(r)}")
    if expandable:
        o.append("expandable_segments:True")
        if reserves and r.random() < 0.4:
            o.append(f"expandable_segments_reserve:{reserve(r)}")
    if r.random() < 0.05:
        o.append("release_lock_on_cudamalloc:True")
    if real:
        r.shuffle(o)
        return ",".join(o), None, None, None
    device = r.choice([2 * MIB * r.randint(200, 800), 2 * MIB * r.randint(400, 2500), 8 * GIB,
                       48 * GIB, 80 * GIB])
    fraction = None
    if r.random() < 0.3:
        kind = r.choice(["option", "call", "both"])
        if kind != "call":
            o.append(f"per_process_memory_fraction:{round(r.uniform(0.2, 1), 2)}")
        if kind != "option":
            fraction = round(r.uniform(0.2, 1), 2)
    if r.random() < (0.6 if fraction or device < 8 * GIB else 0.1):
        o.append(f"garbage_collection_threshold:{round(r.uniform(0.05, 0.95), 2)}")
    if r.random() < 0.2:
        o.append("throw_on_cudamalloc_oom:True")
    r.shuffle(o)
    return ",".join(o), device, fraction, r.choice(["up", "up", "down", "reuse"])


# ---- operations ---------------------------------------------------------------------------------

class Trace:
    def __init__(self, r, budget, holds):
        self.r, self.budget, self.holds = r, budget, holds
        self.ops, self.live, self.bytes, self.next = [], {}, 0, 0
        self.streams = r.choice([1, 1, 2, 3, 6])

    def alloc(self, size):
        stream = self.r.randrange(self.streams) if self.r.random() < 0.6 else 0
        self.ops.append(("a", self.next, max(1, size), stream))
        self.live[self.next] = size
        self.bytes += size
        self.next += 1
        return self.next - 1

    def free(self, i):
        self.ops.append(("f", i))
        self.bytes -= self.live.pop(i)

    def free_any(self):
        self.free(self.r.choice(list(self.live)))

    def make_room(self, size):
        while self.live and self.bytes + size > self.budget:
            self.free_any()

    def size(self, kind):
        r = self.r
        if kind == "small":
            return log_uniform(r, 1, 1.3 * MIB)
        if kind == "large":
            return log_uniform(r, MIB, max(2 * MIB, self.budget / 6))
        if kind == "edges":
            edge = r.choice([512, 64 * KIB, 512 * KIB] + [m * MIB for m in (
                1, 2, 4, 8, 10, 11, 12, 16, 19, 20, 22, 24, 32, 40, 63, 64, 65, 100, 128, 200)])
            return edge + r.choice([0, 0, 0, 1, -1, 511, 512, 513, -511, -512, MIB, 1 - MIB])
        if kind == "few":
            return r.choice([4 * KIB, 600 * KIB, 3 * MIB, 3 * MIB + 512, 14 * MIB, 30 * MIB])
        return log_uniform(r, 1, max(MIB, self.budget / 8))


def churn(t, n, kind):
    more = t.r.uniform(0.5, 0.62)
    for _ in range(n):
        if not t.live or (t.r.random() < more and t.bytes < t.budget):
            t.alloc(t.size(kind))
        else:
            t.free_any()


def grow(t, n):
    """Keys and values that grow by concatenation, with short-lived blocks between."""
    step = t.r.choice([1, 2, 3, 4]) * t.r.choice([512, 768, 1024, 4096, 65536])
    tensors = t.r.randint(2, 16)
    held, length = [None] * tensors, t.r.randrange(1, 600)
    for _ in range(max(2, n // (4 * tensors))):
        for i in range(tensors):
            t.make_room(step * length)
            for j in range(tensors):  # making room may have freed them
                held[j] = held[j] if held[j] in t.live else None
            scratch = t.alloc(t.r.choice([step, 3 * step, 4 * length]))
            new = t.alloc(step * length)
            if held[i] is not None:
                t.free(held[i])
            held[i] = new
            t.free(scratch)
        length += 1


def stack(t, n):
    """Activations: last in, mostly first out."""
    for _ in range(max(1, n // 16)):
        width, mine = log_uniform(t.r, 4 * KIB, max(MIB, t.budget / 60)), []
        for _ in range(8):
            mine.append(t.alloc(width * t.r.choice([1, 1, 3, 4]) + t.r.choice([0, 0, 100])))
            if t.r.random() < 0.3:
                t.free(mine.pop(t.r.randrange(len(mine))))
        for i in reversed(mine):
            t.free(i)


def use(t, n):
    """Blocks used on other streams, with events that stay open for a while."""
    for _ in range(n):
        x = t.r.random()
        if x < 0.06 and t.holds:
            t.ops.append((t.r.choice(["hold", "go"]),))
        elif x < 0.5 and t.bytes < t.budget or not t.live:
            t.alloc(t.size("any"))
        elif x < 0.7:
            t.ops.append(("rs", t.r.choice(list(t.live)), t.r.randrange(6)))
        else:
            t.free_any()


def flush(t, n):
    """Sizes of all kinds, and the cache emptied again and again."""
    for _ in range(max(1, n // 30)):
        churn(t, 28, t.r.choice(["few", "any", "edges"]))
        for _ in range(t.r.randint(0, len(t.live))):
            t.free_any()
        t.ops.append(("ec",))


def mixture(t, n):
    for _ in range(4):
        phase = t.r.choice(["edges", "few", "any", "grow", "stack", "use"])
        PROGRAMS[phase](t, n // 4)
        if t.r.random() < 0.4:
            t.ops.append(("ec",))


def churning(kind):
    return lambda t, n: churn(t, n, kind)


PROGRAMS = {"grow": grow, "stack": stack, "use": use, "flush": flush, "mixture": mixture} | {
    kind: churning(kind) for kind in ("small", "large", "edges", "few", "any")}


def program(name, seed, n, budget, streams):
    """About n operations of one program, which holds up to budget bytes."""
    t = Trace(random.Random(seed), budget, True)
    t.streams = streams
    for part in (n // 2, n - n // 2):
        PROGRAMS[name](t, part)
        t.ops.append(("snap",))
    if name in ("use", "mixture"):
        t.ops.append(("go",))
    while len(t.live) > 3:
        t.free_any()
    return t.ops


def operations(r, device, real=False):
    budget = min(device, 24 * GIB) * (r.uniform(0.05, 0.4) if real else r.uniform(0.1, 1.3))
    t = Trace(r, budget, not real)
    if r.random() < 0.5:
        t.streams = 1
    for _ in range(r.randint(2, 5)):
        n = r.randint(60, 350)
        phase = r.choice(["churn", "churn", "churn", "grow", "stack", "use"])
        if phase == "churn":
            churn(t, n, r.choice(["small", "large", "edges", "few", "any"]))
        else:
            {"grow": grow, "stack": stack, "use": use}[phase](t, n)
        if r.random() < 0.4:
            for _ in range(r.randint(0, len(t.live))):
                t.free_any()
        if r.random() < 0.4:
            t.ops.append(("ec",))
        t.ops.append(("snap",))
    if t.holds and r.random() < 0.7:
        t.ops.append(("go",))
    return t.ops
