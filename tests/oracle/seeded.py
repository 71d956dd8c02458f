"""Seeded values, the same as engine/checkpoint.h defines: bit for bit, in numpy."""
import numpy as np


def mix(x):
    x = np.array(x, dtype=np.uint32)  # a copy
    x ^= x >> np.uint32(16)
    x *= np.uint32(0x7FEB352D)
    x ^= x >> np.uint32(15)
    x *= np.uint32(0x846CA68B)
    return x ^ (x >> np.uint32(16))


def key(name, seed):
    h = 0x811C9DC5  # 32-bit FNV-1a
    for byte in name.encode():
        h = (h ^ byte) * 0x01000193 & 0xFFFFFFFF
    return mix((h + seed) & 0xFFFFFFFF)


def hashes(name, seed, count):
    return mix(mix(np.arange(count, dtype=np.uint32)) ^ key(name, seed))


def uniform(name, seed, shape):
    """In [-1, 1), fp32, row-major; a matrix of a linear layer is [out, in]."""
    h = (hashes(name, seed, int(np.prod(shape))) >> np.uint32(8)).astype(np.int32)
    return ((h - 2**23).astype(np.float32) * np.float32(2.0**-23)).reshape(shape)


def prompt(count, seed, vocab):
    return (hashes("prompt", seed, count) % np.uint32(vocab)).astype(np.int64)
