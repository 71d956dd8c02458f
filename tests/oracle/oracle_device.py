"""The device PyTorch runs on here: the simulated one (device/), or a real one.

On the simulated device the driver calls and the places of blocks come from the device itself. A
real device tells neither: both are then put together from PyTorch's memory history, which does not
show refused calls, so runs on a real device are kept away from its limits.
"""
import ctypes
import os
import re

MIB = 1 << 20
HISTORY = dict(enabled="all", context=None, max_entries=1 << 20)


def is_real():
    return os.environ.get("MEMTRACE_REAL") == "1"


def kept_lines(path, kind):
    """The lines of a kind, without its word, that kept.txt has for this release of PyTorch."""
    import torch
    release, lines = torch.__version__.split("+")[0], []
    with open(path) as f:
        for line in f:
            word, _, rest = line.strip().partition(" ")
            if word == "release":
                ours = rest.split()[0] == release
            elif word == kind and ours:
                lines.append(rest)
    return lines


class Simulated:
    """Driver calls and places as the device saw them."""

    def __init__(self):
        self.library = ctypes.CDLL(os.environ["LD_PRELOAD"].split(":")[0])
        self.library.oracle_calls.restype = ctypes.c_long
        self.library.oracle_calls.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
        self.library.oracle_locate.restype = ctypes.c_long
        self.library.oracle_locate.argtypes = [ctypes.c_size_t, ctypes.POINTER(ctypes.c_uint64)]
        self.buffer = ctypes.create_string_buffer(1 << 20)
        self.events = []

    def settle(self):
        """Waits until the device is idle: it always is."""

    def hold(self, on):
        self.library.oracle_hold(int(on))

    def calls(self):
        """The driver calls since the last time, as a recording writes them."""
        n = self.library.oracle_calls(self.buffer, len(self.buffer))
        if n < 0:
            raise RuntimeError("too many driver calls in one operation")
        return self.buffer.raw[:n].decode() or "-"

    def locate(self, address):
        offset = ctypes.c_uint64()
        number = self.library.oracle_locate(address, ctypes.byref(offset))
        if number < 0:
            raise RuntimeError(f"{address:#x} lies in no segment")
        return number, offset.value


class Real:
    """The same from PyTorch's memory history, read and cleared after every operation."""

    def __init__(self):
        import torch
        self.torch = torch
        self.total = torch.cuda.get_device_properties(0).total_memory
        self.segments = {}  # base: [number, bytes, bytes mapped, is it a range]
        self.bases = []     # of all segments, in order of creation
        self.events = []    # of the whole run, with their places
        self.record()

    def record(self):
        self.torch.cuda.memory._record_memory_history(**HISTORY, clear_history=True)

    def settle(self):
        self.torch.cuda.synchronize()

    def hold(self, on):
        raise RuntimeError("a real device's events cannot be held")

    def locate(self, address):
        for base, (number, size, _, _) in self.segments.items():
            if base <= address < base + size:
                return number, address - base
        raise RuntimeError(f"{address:#x} lies in no segment")

    def create(self, address, size, is_range):
        self.segments[address] = [len(self.bases), size, 0, is_range]
        self.bases.append(address)

    def range_bytes(self, first):
        """What PyTorch reserves for an expandable segment whose first mapping has this size: 9/8 of
        the device in whole units, which are 2 MiB in the small pool."""
        names = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
        settings = next((os.environ[n] for n in names if n in os.environ), "")
        large = re.search(r"large_segment_size_mb:(\d+)", settings)
        unit = 2 * MIB if first == 2 * MIB else (int(large[1]) if large else 20) * MIB
        return -(-(self.total + self.total // 8) // unit) * unit

    def pages(self, op, address, size, calls):
        number, offset = self.locate(address)
        last = calls[-1] if calls else None
        if last and last[0] == op and last[1] == number and last[2] + last[3] == offset:
            last[3] += size
        else:
            calls.append([op, number, offset, size])

    def call(self, e, calls):
        """One event of the history as the driver calls that it stands for."""
        action, address, size = e["action"], e["addr"], e["size"]
        if action == "segment_alloc":
            self.create(address, size, False)
            calls.append(["M", size])
        elif action == "segment_free":
            calls.append(["F", self.segments[address][0]])
        elif action == "segment_map":
            if not any(b <= address < b + s[1] for b, s in self.segments.items()):
                self.create(address, self.range_bytes(size), True)
                calls.append(["R", self.segments[address][1]])
            self.pages("P", address, size, calls)
        elif action == "segment_unmap":
            self.pages("U", address, size, calls)

    def calls(self):
        calls = []
        for e in self.torch.cuda.memory._snapshot()["device_traces"][0]:
            if e["action"] in ("snapshot", "oom"):
                continue
            self.call(e, calls)
            number, offset = self.locate(e["addr"])
            self.events.append((e["action"], number, offset, e["size"]))
            base = e["addr"] - offset
            segment = self.segments[base]
            segment[2] += {"segment_map": 1, "segment_unmap": -1}.get(e["action"], 0) * e["size"]
            if e["action"] == "segment_free":
                del self.segments[base]
            elif e["action"] == "segment_unmap" and segment[2] == 0:
                calls.append(["A", number])
                del self.segments[base]
        self.record()
        return " ".join(f"{c[0]}{c[1]}+{c[2]}:{c[3]}" if len(c) == 4 else f"{c[0]}{c[1]}"
                        for c in calls) or "-"

    def order(self):
        """up, down or reuse: how the device chose addresses."""
        steps = list(zip(self.bases, self.bases[1:]))
        if all(a < b for a, b in steps):
            return "up"
        return "down" if all(a > b for a, b in steps) else "reuse"


def open_device():
    return Real() if is_real() else Simulated()


def forked(jobs, run, parallel=2):
    """Runs run(job) for every job, each in a process of its own, so that each has a fresh
    allocator with its own settings. Returns the jobs that failed."""
    import sys
    import traceback
    running, failed, jobs = {}, [], list(jobs)
    while jobs or running:
        if jobs and len(running) < parallel:
            job = jobs.pop(0)
            sys.stdout.flush()
            pid = os.fork()
            if pid == 0:
                code = 1
                try:
                    run(job)
                    code = 0
                except BaseException:
                    traceback.print_exc()
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
            running[pid] = job
        else:
            pid, status = os.wait()
            job = running.pop(pid)
            if status:
                failed.append(job)
    return failed
