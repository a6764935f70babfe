"""A reference implementation for testing the C code: computes shard names and routes based only on the description in
docs/cluster.md."""

import functools
import math

MASK = (1 << 64) - 1
P1, P2, P3, P4, P5 = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63,
                      0x27D4EB2F165667C5)
SEED = 0x5348415244


def rotate(x, n):
    return (x << n | x >> (64 - n)) & MASK


def step(accumulator, lane):
    return rotate((accumulator + lane * P2) & MASK, 31) * P1 & MASK


def xxh64(data, seed):
    n, at = len(data), 0
    if n >= 32:
        lanes = [(seed + P1 + P2) & MASK, (seed + P2) & MASK, seed, (seed - P1) & MASK]
        while at + 32 <= n:
            for i in range(4):
                lanes[i] = step(lanes[i], int.from_bytes(data[at + 8 * i:at + 8 * i + 8], "little"))
            at += 32
        h = sum(rotate(lane, turn) for lane, turn in zip(lanes, (1, 7, 12, 18))) & MASK
        for lane in lanes:
            h = ((h ^ step(0, lane)) * P1 + P4) & MASK
    else:
        h = (seed + P5) & MASK
    h = (h + n) & MASK
    while at + 8 <= n:
        h = (rotate(h ^ step(0, int.from_bytes(data[at:at + 8], "little")), 27) * P1 + P4) & MASK
        at += 8
    if at + 4 <= n:
        h = (rotate(h ^ int.from_bytes(data[at:at + 4], "little") * P1 & MASK, 23) * P2 + P3) & MASK
        at += 4
    for byte in data[at:]:
        h = rotate(h ^ byte * P5 & MASK, 11) * P1 & MASK
    h = (h ^ h >> 33) * P2 & MASK
    h = (h ^ h >> 29) * P3 & MASK
    return h ^ h >> 32


def crc16(data):
    crc = 0
    for byte in data:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ 0x1021 if crc & 0x8000 else crc << 1) & 0xFFFF
    return crc


def slot(key):
    """Returns the slot of a shard name. The name starts with a hash tag, which determines the slot."""
    return crc16(key[1:key.index("}")].encode()) % 16384


@functools.lru_cache
def tags(shards):
    found, number = {}, 0
    while len(found) < shards:
        found.setdefault(crc16(str(number).encode()) % 16384 * shards // 16384, number)
        number += 1
    return [found[i] for i in range(shards)]


def names(name, shards):
    return [f"{{{tag}}}{name}/{i}of{shards}" for i, tag in enumerate(tags(shards))]


def route(item, shards):
    return xxh64(item, SEED) * shards >> 64


def capacity(items, shards):
    log, mean = math.log(1e6 * shards), items / shards
    return min(items, math.ceil(mean + log / 3 + math.sqrt(log * log / 9 + 2 * mean * (1 - 1 / shards) * log)))
