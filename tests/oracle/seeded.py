"""Seeded values as engine/checkpoint/checkpoint.h defines them, bit for bit."""
import numpy as np


def mix(x):
    x = np.array(x, dtype=np.uint32, ndmin=1)  # a copy; products wrap at 2^32
    x ^= x >> np.uint32(16)
    x *= np.uint32(0x7FEB352D)
    x ^= x >> np.uint32(15)
    x *= np.uint32(0x846CA68B)
    x ^= x >> np.uint32(16)
    return x


def hashes(name, seed, count):
    h = 0x811C9DC5  # 32-bit FNV-1a
    for byte in name.encode():
        h = (h ^ byte) * 0x01000193 % 2**32
    return mix(mix(np.arange(count)) ^ mix((h + seed) % 2**32))


def scale(name):
    if name in ("wte.weight", "wpe.weight"):
        return 0.5
    if name.endswith((".bias", ".attn.c_attn.weight")):
        return 0.125
    return 0.25


def weights(name, seed, shape):
    """The tensor `name` in fp32, a matrix of a linear layer as [out, in]."""
    u = (hashes(name, seed, np.prod(shape)) >> np.uint32(8)).astype(np.int32) - 2**23
    values = np.float32(scale(name)) * (u.astype(np.float32) * np.float32(2**-23))
    if "ln_" in name and name.endswith(".weight"):
        values += np.float32(1)
    return values.reshape(shape)


def prompt(count, seed, vocab):
    """The ids of `--prompt-tokens count --seed seed`:

    id[j] = mix(mix(j) ^ key) mod vocab,  key = mix(fnv1a("prompt") + seed)
    """
    return hashes("prompt", seed, count) % np.uint32(vocab)
