"""Compares two files of gpt2_seeded.py row by row: python compare.py KEPT NEW."""
import sys

TOLERANCE = 1e-3  # of a logit; the sums of rows are shown, not judged


def rows(path):
    with open(path) as file:
        lines = [line.rstrip("\n").split("\t") for line in file]
    names = [line for line in lines if line[0] == "# row"][-1]
    return names, [line for line in lines if not line[0].startswith("#")]


(names, kept), (new_names, new) = rows(sys.argv[1]), rows(sys.argv[2])
if names != new_names or len(kept) != len(new):
    sys.exit("%s: other columns or rows than %s" % (sys.argv[2], sys.argv[1]))
largest = {"gap": 0.0, "max": 0.0, "sum": 0.0, "logit": 0.0}
failures = 0
for a, b in zip(kept, new):
    if a[:3] != b[:3]:
        print("%s %s: token %s, kept %s (gap %s)" % (*b[:3], a[2], a[3]))
        failures += 1
    for name, x, y in zip(names[3:], a[3:], b[3:]):
        kind = name if name in largest else "logit"
        largest[kind] = max(largest[kind], abs(float(x) - float(y)))
failures += max(largest["max"], largest["logit"]) > TOLERANCE
print("%s: %d rows, largest differences:" % (sys.argv[2], len(kept)),
      ", ".join("%s %.3g" % item for item in largest.items()))
sys.exit(failures > 0)
