#!/usr/bin/env python3
"""Reads filter files without the library. This reader is based only on docs/format.md, so it also tests that page. It
verifies every checksum, number and canary. It is slow, and it uses only Python's standard library.

usage: bgread.py [--secret HEX] FILE          verify FILE and print its header
       bgread.py [--secret HEX] FILE KEY...   print "no" or "maybe" for every key
Exits with status 1 if the file is refused."""

import math
import os
import struct
import sys

ALL = 2 ** 64 - 1
KINDS = ["", "classic", "partitioned", "blocked", "split", "register", "counting", "cuckoo",
         "quotient", "fuse", "ribbon", "scalable", "window"]
PROFILES = ["fast", "keyed", "keyed24", "keyed-int", "xxh64", "custom", "fast-int"]
BLOOM, STATIC = KINDS[1:6], ["fuse", "ribbon"]
ONE_WINNER, SCATTERED = 2, 8


class Refused(Exception):
    """The file is not a valid filter file."""


def need(condition, why):
    if not condition:
        raise Refused(why)


def mulhi(a, b):
    return a * b >> 64


def bits(string, first, count):
    """Returns `count` bits of a bit string, starting at bit `first`, as an integer."""
    piece = string[first // 8:(first + count + 7) // 8]
    return int.from_bytes(piece, "little") >> first % 8 & (1 << count) - 1


# ---- CRC-32C (section 3) -----------------------------------------------------------------


def crc_of_byte(byte):
    for _ in range(8):
        byte = byte >> 1 ^ (0x82f63b78 if byte & 1 else 0)
    return byte


CRC_TABLE = [crc_of_byte(byte) for byte in range(256)]


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc = crc >> 8 ^ CRC_TABLE[(crc ^ byte) & 0xff]
    return crc ^ 0xffffffff


# ---- xxHash: XXH64, and XXH3 of 64 and 128 bits ------------------------------------------

P32 = (0x9e3779b1, 0x85ebca77, 0xc2b2ae3d)
P64 = (0x9e3779b185ebca87, 0xc2b2ae3d27d4eb4f, 0x165667b19e3779f9, 0x85ebca77c2b2ae63,
       0x27d4eb2f165667c5)
XXH3_SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
    "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb"
    "170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e")


def u64(data, at):
    return int.from_bytes(data[at:at + 8], "little")


def u32(data, at):
    return int.from_bytes(data[at:at + 4], "little")


def swap(number, size):
    return int.from_bytes(number.to_bytes(size, "little"), "big")


def rotl(number, by):
    return (number << by | number >> 64 - by) & ALL


def fold(a, b):
    return a * b >> 64 ^ a * b & ALL


def xxh64_avalanche(h):
    h = (h ^ h >> 33) * P64[1] & ALL
    h = (h ^ h >> 29) * P64[2] & ALL
    return h ^ h >> 32


def xxh64_round(acc, value):
    return rotl((acc + value * P64[1]) & ALL, 31) * P64[0] & ALL


def xxh64(data, seed):
    at = 0
    if len(data) >= 32:
        lanes = [(seed + add) & ALL for add in (P64[0] + P64[1], P64[1], 0, -P64[0])]
        while at + 32 <= len(data):
            lanes = [xxh64_round(lane, u64(data, at + 8 * i)) for i, lane in enumerate(lanes)]
            at += 32
        h = sum(rotl(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18))) & ALL
        for lane in lanes:
            h = ((h ^ xxh64_round(0, lane)) * P64[0] + P64[3]) & ALL
    else:
        h = (seed + P64[4]) & ALL
    h = (h + len(data)) & ALL
    for at in range(at, len(data) - 7, 8):
        h = (rotl(h ^ xxh64_round(0, u64(data, at)), 27) * P64[0] + P64[3]) & ALL
    at = len(data) // 8 * 8
    if at + 4 <= len(data):
        h = (rotl(h ^ u32(data, at) * P64[0] & ALL, 23) * P64[1] + P64[2]) & ALL
        at += 4
    for byte in data[at:]:
        h = rotl(h ^ byte * P64[4] & ALL, 11) * P64[0] & ALL
    return xxh64_avalanche(h)


def xxh3_avalanche(h):
    h = (h ^ h >> 37) * 0x165667919e3779f9 & ALL
    return h ^ h >> 32


def xxh3_short(data, seed):
    """Returns the hash of up to 16 bytes."""
    n, s = len(data), XXH3_SECRET
    if n == 0:
        return xxh64_avalanche(seed ^ u64(s, 56) ^ u64(s, 64))
    if n <= 3:
        mixed = data[0] << 16 | data[n >> 1] << 24 | data[n - 1] | n << 8
        return xxh64_avalanche(mixed ^ (u32(s, 0) ^ u32(s, 4)) + seed & ALL)
    if n <= 8:
        seed ^= swap(seed & 0xffffffff, 4) << 32
        h = u32(data, n - 4) + (u32(data, 0) << 32) & ALL ^ (u64(s, 8) ^ u64(s, 16)) - seed & ALL
        h = (h ^ rotl(h, 49) ^ rotl(h, 24)) * 0x9fb21c651e98df25 & ALL
        h = (h ^ (h >> 35) + n) * 0x9fb21c651e98df25 & ALL
        return h ^ h >> 28
    low = u64(data, 0) ^ (u64(s, 24) ^ u64(s, 32)) + seed & ALL
    high = u64(data, n - 8) ^ (u64(s, 40) ^ u64(s, 48)) - seed & ALL
    return xxh3_avalanche(n + swap(low, 8) + high + fold(low, high) & ALL)


def xxh3_mix16(data, at, secret_at, seed):
    return fold(u64(data, at) ^ u64(XXH3_SECRET, secret_at) + seed & ALL,
                u64(data, at + 8) ^ u64(XXH3_SECRET, secret_at + 8) - seed & ALL)


def xxh3_middle(data, seed):
    """Hashes 17 to 240 bytes."""
    n = len(data)
    h = n * P64[0]
    if n <= 128:
        for i in range((n - 1) // 32, -1, -1):
            h += xxh3_mix16(data, 16 * i, 32 * i, seed)
            h += xxh3_mix16(data, n - 16 * (i + 1), 32 * i + 16, seed)
        return xxh3_avalanche(h & ALL)
    h = xxh3_avalanche(h + sum(xxh3_mix16(data, 16 * i, 16 * i, seed) for i in range(8)) & ALL)
    for i in range(8, n // 16):
        h += xxh3_mix16(data, 16 * i, 16 * (i - 8) + 3, seed)
    return xxh3_avalanche(h + xxh3_mix16(data, n - 16, 136 - 17, seed) & ALL)


def xxh3_accumulate(acc, data, at, secret, secret_at):
    values = struct.unpack_from("<8Q", data, at)
    keys = struct.unpack_from("<8Q", secret, secret_at)
    for i in range(8):
        key = values[i] ^ keys[i]
        acc[i ^ 1] += values[i]
        acc[i] += (key & 0xffffffff) * (key >> 32)


def xxh3_lanes(data, secret):
    """Computes XXH3's eight accumulators for an input of more than 240 bytes."""
    n, end = len(data), len(secret) - 64
    acc = [P32[2], P64[0], P64[1], P64[2], P64[3], P32[1], P64[4], P32[0]]
    for stripe in range((n - 1) // 64):
        xxh3_accumulate(acc, data, 64 * stripe, secret, 8 * (stripe % 16))
        if stripe % 16 == 15:
            keys = struct.unpack_from("<8Q", secret, end)
            acc = [((a & ALL) ^ (a & ALL) >> 47 ^ k) * P32[0] & ALL for a, k in zip(acc, keys)]
    xxh3_accumulate(acc, data, n - 64, secret, end - 7)
    return [a & ALL for a in acc]


def xxh3_merge(acc, secret, at, start):
    for i in range(4):
        start += fold(acc[2 * i] ^ u64(secret, at + 16 * i),
                      acc[2 * i + 1] ^ u64(secret, at + 16 * i + 8))
    return xxh3_avalanche(start & ALL)


def xxh3_64(data, seed):
    if len(data) <= 16:
        return xxh3_short(data, seed)
    if len(data) <= 240:
        return xxh3_middle(data, seed)
    own = b"".join(((u64(XXH3_SECRET, at) + (seed if at % 16 == 0 else -seed)) & ALL).to_bytes(8, "little")
                   for at in range(0, 192, 8))
    return xxh3_merge(xxh3_lanes(data, own), own, 11, len(data) * P64[0])


def xxh3_128(data):
    """Returns the unseeded hash of an input of more than 240 bytes, in big-endian byte order."""
    acc = xxh3_lanes(data, XXH3_SECRET)
    low = xxh3_merge(acc, XXH3_SECRET, 11, len(data) * P64[0])
    high = xxh3_merge(acc, XXH3_SECRET, 192 - 64 - 11, ~(len(data) * P64[1]) & ALL)
    return (high << 64 | low).to_bytes(16, "big")


# ---- Keyed functions -----------------------------------------------------------------------


def siphash(data, key, rounds, last_rounds):
    k0, k1 = u64(key, 0), u64(key, 8)
    v = [k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d, k0 ^ 0x6c7967656e657261,
         k1 ^ 0x7465646279746573]

    def turn(times):
        for _ in range(times):
            v[0] = v[0] + v[1] & ALL
            v[2] = v[2] + v[3] & ALL
            v[1], v[3] = rotl(v[1], 13) ^ v[0], rotl(v[3], 16) ^ v[2]
            v[0] = rotl(v[0], 32) + v[3] & ALL
            v[2] = v[2] + v[1] & ALL
            v[1], v[3] = rotl(v[1], 17) ^ v[2], rotl(v[3], 21) ^ v[0]
            v[2] = rotl(v[2], 32)

    padded = data + bytes(7 - len(data) % 8) + bytes([len(data) & 0xff])
    for at in range(0, len(padded), 8):
        v[3] ^= u64(padded, at)
        turn(rounds)
        v[0] ^= u64(padded, at)
    v[2] ^= 0xff
    turn(last_rounds)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def aes_double(x):
    return x << 1 ^ (0x11b if x & 0x80 else 0)


def aes_times(x, y):
    product = 0
    while y:
        product ^= x if y & 1 else 0
        x, y = aes_double(x), y >> 1
    return product


def aes_box(x):
    inverse = next((y for y in range(256) if aes_times(x, y) == 1), 0)
    box = 0x63 ^ inverse
    for by in range(1, 5):
        box ^= (inverse << by | inverse >> 8 - by) & 0xff
    return box


AES_BOX = []


def aes_keys(key):
    keys, round_constant = [list(key[at:at + 4]) for at in range(0, 16, 4)], 1
    while len(keys) < 44:
        word = list(keys[-1])
        if len(keys) % 4 == 0:
            word = [AES_BOX[b] for b in word[1:] + word[:1]]
            word[0] ^= round_constant
            round_constant = aes_double(round_constant)
        keys.append([a ^ b for a, b in zip(word, keys[-4])])
    return [sum(keys[at:at + 4], []) for at in range(0, 44, 4)]


def aes128(key, block):
    if not AES_BOX:
        AES_BOX.extend(aes_box(x) for x in range(256))
    keys = aes_keys(key)
    state = [a ^ b for a, b in zip(block, keys[0])]
    for number in range(1, 11):
        state = [AES_BOX[state[(i + 4 * (i % 4)) % 16]] for i in range(16)]
        if number < 10:
            mixed = []
            for at in range(0, 16, 4):
                c = state[at:at + 4]
                mixed += [aes_double(c[i]) ^ aes_double(c[(i + 1) % 4]) ^ c[(i + 1) % 4] ^
                          c[(i + 2) % 4] ^ c[(i + 3) % 4] for i in range(4)]
            state = mixed
        state = [a ^ b for a, b in zip(state, keys[number])]
    return bytes(state)


def keyed_int(secret):
    key16, key_sip = aes128(secret, b"bloomgate key 16"), aes128(secret, b"bloomgate sip 13")

    def hash_of(data):
        if len(data) == 8:
            return u64(aes128(secret, data + bytes(8)), 0)
        if len(data) == 16:
            return u64(aes128(key16, data), 0)
        return siphash(data, key_sip, 1, 3)
    return hash_of


def fast_int(seed):
    mask = (u64(XXH3_SECRET, 8) ^ u64(XXH3_SECRET, 16)) - (seed ^ swap(seed & 0xffffffff, 4) << 32) & ALL

    def hash_of(data):
        if len(data) != 8:
            return xxh3_64(data, seed)
        return fold(fold(u64(data, 0) ^ mask, 0x9fb21c651e98df25), 0x9e6c63d0876a9a47)
    return hash_of


def hash_function(profile, seed, secret):
    """Returns the hash function (section 5), or None if the secret or a custom function is missing."""
    if profile == "fast":
        return lambda key: xxh3_64(key, seed)
    if profile == "fast-int":
        return fast_int(seed)
    if profile == "xxh64":
        return lambda key: xxh64(key, seed)
    if profile == "custom" or secret is None:
        return None
    if profile == "keyed-int":
        return keyed_int(secret)
    rounds = (1, 3) if profile == "keyed" else (2, 4)
    return lambda key: siphash(key, secret, *rounds)


# ---- The header (sections 1 to 3) ----------------------------------------------------------

FIELDS = """major:8:2 minor:10:2 header_bytes:12:4 file_bytes:16:8 kind:24:4 flags:28:4 width:32:4 k:36:4
units:40:8 shards:48:4 window_mode:52:4 window_kind:56:4 generations:60:4 items:64:8 rate:72:8 max_bytes:80:8
period_items:88:8 length:96:8 count:104:8 numbers:112:8 word_bytes:120:8 profile:128:4 numbers_crc:132:4
seed:136:8 check:144:8 generation:152:8 created:160:8 present_canaries:168:4 absent_maybes:172:4
absent_answers:176:8 held:184:8 metadata_bytes:192:4 canaries:196:4 elapsed:200:8 moved:208:8 canary_age:280:8
crc:4092:4"""
LAYOUT = [(name, int(at), int(size)) for name, at, size in (f.split(":") for f in FIELDS.split())]


class Header:
    """The header fields by name, and the layout that they determine."""

    def __init__(self, data):
        need(len(data) >= 4096, "shorter than a header")
        need(data[:8] == b"\x89BGF\r\n\x1a\n", "magic")
        for name, at, size in LAYOUT:
            setattr(self, name, int.from_bytes(data[at:at + size], "little"))
        need(crc32c(data[:4092]) == self.crc, "the checksum of the header does not match")
        need(self.major == 1, f"unsupported version {self.major}.{self.minor}")
        need(self.header_bytes == 4096, "header_bytes")
        need(self.word_bytes % 64 == 0 and self.word_bytes > 0, "word_bytes")
        self.words_at = 4096 + -(-8 * self.numbers // 4096) * 4096
        self.table_at = self.words_at + self.word_bytes
        self.blocks = -(-self.word_bytes // 65536)
        need(self.table_at + 4 * self.blocks == self.file_bytes == len(data), "file_bytes")
        self.rate = struct.unpack_from("<d", data, 72)[0]
        self.digest = data[264:280]
        self.key_id = data[216:232]
        self.read_texts(data)
        need(self.profile < len(PROFILES), "profile")
        self.profile = PROFILES[self.profile]
        need(self.seed == 0 or self.profile in ("fast", "fast-int", "xxh64"), "seed")
        need(self.present_canaries <= 16, "present_canaries")

    def read_texts(self, data):
        end = 1020 + self.metadata_bytes
        need(self.metadata_bytes < 3072 and 0 not in data[1020:end], "metadata")
        self.metadata = data[1020:end].decode("utf-8", "replace")
        name = data[232:264]
        need(0 in name and (PROFILES[self.profile:self.profile + 1] == ["custom"] or not any(name)), "custom_name")
        self.custom_name = name.split(b"\0")[0].decode("utf-8", "replace")
        if self.minor <= 2:
            need(not any(data[288:1020]) and not any(data[end:4092]), "reserved")
        need(self.minor > 1 or self.canaries == self.canary_age == 0, "canaries")
        need(self.minor > 0 or self.elapsed == self.moved == 0, "elapsed, moved")


def check_sums(data, header):
    numbers = data[4096:header.words_at]
    need(crc32c(numbers) == header.numbers_crc, "numbers_crc")
    need(not any(numbers[8 * header.numbers:]), "the bytes after the numbers are not zero")
    blank = data[:264] + bytes(16) + data[280:4092] + bytes(4)
    need(xxh3_128(blank + numbers + data[header.table_at:]) == header.digest, "digest")
    for block in range(header.blocks):
        at = header.words_at + 65536 * block
        found = crc32c(data[at:min(at + 65536, header.table_at)])
        need(found == u32(data, header.table_at + 4 * block), f"the checksum of block {block} does not match")


# ---- Leaves (section 6): each function reads its part of the words and returns a lookup function ----

MULTIPLIER = 0xd1342543de82ef95
SPLIT_SALTS = [0x47b6137b, 0x44974d91, 0x8824ad5b, 0xa2b7289d, 0x705495c7, 0x2df1424b, 0x9efc4947, 0x5c6bfb31]
SALTS = [0x243f6a89, 0x85a308d3, 0x13198a2f, 0x03707345, 0xa4093823, 0x299f31d1, 0x082efa99, 0xec4e6c89,
         0x452821e7, 0x38d01377, 0xbe5466cf, 0x34e90c6d, 0xc0ac29b7, 0xc97c50dd, 0x3f84d5b5, 0xb5470917]
BLOCKED_PATTERNS = dict(zip(range(3, 17), [0x0b, 0x17, 0x2f, 0x3f, 0x7f, 0xff, 0x0b77, 0x77b1, 0x2e7f, 0x5cff,
                                           0xfd77, 0xfff9, 0xefff, 0xffff]))
COUNTING_PATTERNS = dict(zip(range(1, 9), [0x01, 0x03, 0x0b, 0x17, 0x2f, 0x3f, 0x7f, 0xff]))


class Source:
    """The numbers and words of a file that have not been read yet."""

    def __init__(self, numbers, words):
        self.all_numbers, self.words, self.at = numbers, words, 0

    def numbers(self):
        need(self.all_numbers and self.all_numbers[0] < len(self.all_numbers), "the numbers are truncated")
        n = self.all_numbers[0]
        taken, self.all_numbers = self.all_numbers[1:1 + n], self.all_numbers[1 + n:]
        return taken

    def take(self, count):
        taken, padding = self.words[self.at:self.at + count], -count % 64
        need(len(taken) == count, "the words are truncated")
        need(not any(self.words[self.at + count:self.at + count + padding]), "bytes between parts")
        self.at += count + padding
        return taken

    def leaf(self, count, numbers):
        """Returns the words and the numbers of a leaf."""
        found = self.numbers()
        need(len(found) == numbers, "numbers of a leaf")
        return self.take(count), found


def need_size(units, most):
    need(0 < units <= most, "units")


def walk(h, k, of):
    for _ in range(k):
        yield mulhi(h, of)
        h = h * MULTIPLIER & ALL


def classic(source, units, k):
    need(1 <= k <= 64, "k")
    need_size(units, 2 ** 55)
    words, _ = source.leaf(8 * units, 0)
    return lambda h: all(bits(words, b, 1) for b in walk(h, k, 64 * units))


def partitioned(source, units, k):
    need(1 <= k <= 64, "k")
    need_size(units, 2 ** 49)
    words, _ = source.leaf(8 * k * units, 0)
    return lambda h: all(bits(words, 64 * units * i + b, 1) for i, b in enumerate(walk(h, k, 64 * units)))


def rotation(x, lanes):
    return (x * 0x9216d5d9 & 0xffffffff) * lanes >> 32


def blocked(source, units, k):
    need(k in BLOCKED_PATTERNS, "k")
    need_size(units, 2 ** 52)
    words, _ = source.leaf(64 * units, 0)
    lanes, pattern = 8 if k <= 8 else 16, BLOCKED_PATTERNS[k]

    def has(h):
        x, line = h & 0xffffffff, 512 * mulhi(h & ~0xfff, units)
        r = rotation(x, lanes)
        for lane in range(lanes):
            product = x * SALTS[lane] & 0xffffffff
            word = lane + 8 * (product >> 31) if lanes == 8 else lane
            bit = 31 - (product >> 26) % 32 if lanes == 8 else 31 - (product >> 27)
            if pattern >> (lane + r) % lanes & 1 and not bits(words, line + 32 * word + bit, 1):
                return False
        return True
    return has


def split(source, units, k):
    need(k == 8, "k")
    need_size(units, 2 ** 31)
    words, _ = source.leaf(32 * units, 0)

    def has(h):
        block = 256 * ((h >> 32) * units >> 32)
        return all(bits(words, block + 32 * j + ((h * salt & 0xffffffff) >> 27), 1)
                   for j, salt in enumerate(SPLIT_SALTS))
    return has


def register(source, units, k):
    need(1 <= k <= 10, "k")
    need_size(units, 2 ** 55)
    words, _ = source.leaf(8 * units, 0)

    def has(h):
        product, taken = h * 0xa0761d6478bd642f & ALL, set()
        for i in range(k):
            bit = product >> 58 - 6 * i & 63
            while bit in taken:
                bit = (bit + 1) % 64
            taken.add(bit)
        word = u64(words, 8 * mulhi(h & ~0xfff, units))
        return all(word >> bit & 1 for bit in taken)
    return has


def counting(source, units, k, width, scattered):
    need(width in (4, 8, 16, 32), "width")
    need(1 <= k <= (32 if scattered else 8), "k")
    need_size(units, 2 ** 46)
    words, _ = source.leaf(16 * width * units, 0)

    def counters(h):
        if scattered:
            yield from walk(h, k, 128 * units)
            return
        x, unit = h & 0xffffffff, 128 * mulhi(h & ~0xfff, units)
        for j in range(8):
            if COUNTING_PATTERNS[k] >> j & 1:
                lane = (j + rotation(x, 8)) % 8
                yield unit + 16 * lane + ((x * SALTS[lane] & 0xffffffff) >> 28)
    return lambda h: all(bits(words, width * c, width) for c in counters(h))


def cuckoo(source, units, k):
    need(k in (8, 12, 16, 32), "k")
    need_size(units, 2 ** 32)
    words, (_, flags) = source.leaf({8: 8, 12: 24, 16: 8, 32: 16}[k] * units, 2)
    need(flags <= 3, "a cuckoo filter has invalid flags")
    buckets = {8: 2 * units, 12: 4 * units - 1, 16: units, 32: units}[k]
    need(k != 12 or not any(words[-6:]), "bits are set after the last bucket")

    def has(h):
        f = h % 2 ** k or 1
        first = mulhi(h, buckets)
        second = (mulhi(f * (f + 1) * 0xbf58476d1ce4e5b9 & ALL, buckets) - first) % buckets
        return flags & 2 or any(bits(words, k * (4 * b + s), k) == f for b in (first, second) for s in range(4))
    return has


class Quotient:
    """The runs of a quotient filter, in order."""

    def __init__(self, words, units, r):
        self.words, self.r, self.units, self.s = words, r, units, min(63, 504 // (r + 2))
        sizes = {-(-(2 ** q + min(2 ** q, 512)) // self.s): q for q in range(8, min(40, 64 - r) + 1)}
        need(units in sizes, "units")
        self.q = sizes[units]
        self.slots = units * self.s
        self.runs, self.used = {}, 0
        self.read_all()

    def field(self, slot, first, size):
        return bits(self.words, 512 * (slot // self.s) + first + size * (slot % self.s), size)

    def occupied(self, quotient):
        return self.field(quotient, 8, 1)

    def runend(self, slot):
        return self.field(slot, 8 + self.s, 1)

    def slot(self, slot):
        return self.field(slot, 8 + 2 * self.s, self.r)

    def read_all(self):
        stop = 0
        for quotient in range(self.slots):
            if quotient % self.s == 0:
                offset = bits(self.words, 512 * (quotient // self.s), 8)
                need(offset == min(255, max(0, stop - quotient)), "offset")
            if self.occupied(quotient):
                need(quotient < 2 ** self.q, "quotient")
                start = max(stop, quotient)
                self.need_empty(stop, start)
                stop = self.read_run(quotient, start)
                self.used += stop - start
        self.need_empty(stop, self.slots)
        need(self.used <= 2 ** self.q - 2 ** self.q // 32, "slots in use")
        end = 8 + 2 * self.s + self.s * self.r
        need(not any(bits(self.words, 512 * b + end, 512 - end) for b in range(self.units)), "end of a block")

    def need_empty(self, start, stop):
        need(not any(self.slot(i) or self.runend(i) for i in range(start, stop)), "unused slots are not empty")

    def read_run(self, quotient, start):
        stop = start
        while stop < self.slots and not self.runend(stop):
            stop += 1
        need(stop < self.slots, "a run has no end")
        values = [self.slot(i) for i in range(start, stop + 1)]
        entries, at = {}, 0
        while at < len(values):
            value, same = values[at], 1
            while same < 3 and values[at + same:at + same + 1] == [value]:
                same += 1
            need(not entries or value > max(entries), "order of a run")
            at += same
            entries[value] = same
            if same == 3:
                at, more = self.read_count(values, at)
                entries[value] = 3 + more
                need(entries[value] <= ALL, "count")
        self.runs[quotient] = entries
        return stop + 1

    def read_count(self, values, at):
        digits = []
        while not digits or digits[-1] >> self.r - 1:
            need(at < len(values), "a count has no end")
            digits.append(values[at])
            at += 1
        low = [digit % 2 ** (self.r - 1) for digit in digits]
        need(len(low) == 1 or low[-1], "a count has too many digits")
        return at, sum(digit << (self.r - 1) * i for i, digit in enumerate(low))

    def count(self, h):
        return self.runs.get(h >> 64 - self.q, {}).get(h >> 64 - self.q - self.r & 2 ** self.r - 1, 0)


def quotient(source, units, k):
    need(2 <= k <= 32, "k")
    words, (lost,) = source.leaf(64 * units, 1)
    table = Quotient(words, units, k)
    return lambda h: lost or table.count(h)


def mix(h, seed):
    return fold(h ^ seed, 0x9e6c63d0876a9a47)


def sealed(numbers, test):
    """Reads the first two numbers, which fuse and ribbon filters have in common, and returns a lookup function."""
    keys, lost = numbers[:2]
    need(lost <= 1, "the second number of a static filter is invalid")
    return lambda h: lost or (keys and test(h, numbers[2:]))


def fuse(source, units, k, arity):
    need(k in (8, 16, 32) and arity in (3, 4), "k, width")
    need_size(units, 2 ** 46)
    pieces = 8 * units // 2400000 + 1
    n = 8 * units // pieces
    log, following = 3, 26 if arity == 3 else 60
    while log < 13 and n >= following:
        log, following = log + 1, following * 10 // 3
    length, segments = 2 ** log, n >> log
    need(segments >= arity, "units")
    words, numbers = source.leaf(k * units, 2 + pieces)

    def test(h, seeds):
        piece, rest = mulhi(h, pieces), h * pieces & ALL
        m = mix(h, seeds[piece])
        start = piece * segments * length + mulhi(rest, (segments - arity + 1) * length)
        value = bits(words, k * start, k)
        for i in range(1, arity):
            value ^= bits(words, k * ((start + i * length) ^ (m >> 13 * (i - 1)) % length), k)
        return value == m >> 64 - k
    return sealed(numbers, test)


def ribbon(source, units, k):
    need(1 <= k <= 32, "k")
    need_size(units, 2 ** 46)
    pieces = units // 32768 + 1
    u = units // pieces
    b, f = u, 0
    if u >= 256:
        b = u - (u // (64 * k) + 1)
        f = b - (b * 9 // 250 + 2)
    need(b - f >= 2, "units")
    words, numbers = source.leaf(8 * k * units, 2 + pieces)

    def place(h, piece, seed):
        m = mix(h, seed)
        if f > 0:
            at = mulhi(h * pieces & ALL, 64 * (f - 1))
            limit = bits(words, 64 * k * (piece * u + b) + 4 * (at // 256), 4)
            if min(at % 256 // 16, 14) >= limit:
                return at, m | 1
        again = mix(m, 0x8ebc6af09c88c6e3)
        return 64 * f + mulhi(again, 64 * (b - f - 1)), mix(again, 0x589965cc75374cc3) | 1

    def test(h, seeds):
        piece = mulhi(h, pieces)
        at, band = place(h, piece, seeds[piece])
        block, value = piece * u + at // 64, 0
        for j in range(k):
            slots = u64(words, 8 * (block * k + j)) | u64(words, 8 * ((block + 1) * k + j)) << 64
            value |= bin(slots >> at % 64 & band).count("1") % 2 << j
        return value == (band * MULTIPLIER & ALL) >> 64 - k
    return sealed(numbers, test)


# ---- Kinds composed of other kinds (section 7) ----------------------------------------------


def scalable(source, header):
    need(header.width in (2, 4, 8), "width")
    need(0 < header.rate < 1, "rate")
    layers = len(source.numbers())
    need(1 <= layers <= 64, "layers")
    make = classic if header.flags & SCATTERED else blocked
    parts = [make(source, header.units * header.width ** i, header.k) for i in range(layers)]
    return lambda h: any(part(h) for part in parts)


def layers_of(header, rest):
    """Returns the position, units and k of the generations' additional layers."""
    g, share = header.generations, header.period_items
    most = next(n for n in range(8) if 2 ** (n + 1) >= g)
    by_count = header.count and -(-header.count // (g - 1)) <= share
    need(not rest or (len(rest) % 3 == 1 and most and share and not by_count), "layers")
    layers = [rest[i:i + 3] for i in range(1, len(rest), 3)]
    places = [place for place, _, _ in layers]
    need(places == sorted(set(places)) and all(place < most * (g + 1) for place in places), "places of layers")
    return layers


def generations(source, header, period, cleared, rest):
    g = header.generations
    need(1 <= header.window_kind <= 5, "window_kind")
    leaf, before = LEAVES[KINDS[header.window_kind]], source.at
    parts = [[leaf(source, header.units, header.k)] for _ in range(g + 1)]
    words = [(source.at - before) // (g + 1) // 8] * (g + 1)
    for place, units, k in layers_of(header, rest):
        before = source.at
        parts[place % (g + 1)].append(leaf(source, units, k))
        words[place % (g + 1)] += (source.at - before) // 8
    need(cleared <= words[(period + 1) % (g + 1)], "cleared")
    return lambda h: any(part(h) for p in range(period - g + 1, period + 1) for part in parts[p % (g + 1)])


def aged(source, header, period, cleared, rest):
    need(not rest, "an aged window has too many numbers")
    g, k, units = header.generations, header.k, header.units
    need(2 <= k <= 10 and header.window_kind == 0 and units > 0, "k, window_kind")
    slices = k * ((g + 2 * k - 1) // k)
    need(slices <= 64, "generations")
    row_bits = 16 if slices <= 16 else 32 if slices <= 32 else 64
    rows, block_bytes = (32 if row_bits == 16 else 16), (128 if row_bits == 64 else 64)
    words = source.take(block_bytes * units)
    need(cleared <= len(words) // 8, "cleared")

    def has(h):
        y = h * 0x9fb21c651e98df25 & ALL
        y = (y ^ y >> 32) * 0xd6e8feb86659fd93 & ALL
        y ^= y >> 29
        block = 8 * block_bytes * mulhi(h & ~0xfff, units)
        mine = [bits(words, block + row_bits * ((y >> 5 * j) % rows), row_bits) for j in range(k)]
        run = 0
        for number in range(period - g + 1, period + k):
            piece = number % slices
            run = run + 1 if mine[piece % k] >> piece & 1 else 0
            if run == k:
                return True
        return False
    return has


def window(source, header):
    need(2 <= header.generations <= 64 and header.window_mode <= 1, "generations, window_mode")
    need(not (header.length and header.count), "length, count")
    numbers = source.numbers()
    need(len(numbers) >= 3 and 128 <= numbers[0] < 2 ** 62, "period")
    need(header.elapsed < 2 ** 62, "elapsed")
    return (aged if header.window_mode else generations)(source, header, numbers[0], numbers[1], numbers[3:])


LEAVES = {"classic": classic, "partitioned": partitioned, "blocked": blocked, "split": split,
          "register": register, "cuckoo": cuckoo, "quotient": quotient, "ribbon": ribbon}


def one_filter(source, header):
    kind, units, k = KINDS[header.kind], header.units, header.k
    if kind == "scalable":
        return scalable(source, header)
    if kind == "window":
        return window(source, header)
    if kind == "counting":
        return counting(source, units, k, header.width, header.flags & SCATTERED)
    if kind == "fuse":
        return fuse(source, units, k, header.width)
    return LEAVES[kind](source, units, k)


def check_recipe(header):
    need(1 <= header.kind < len(KINDS), "kind")
    kind = KINDS[header.kind]
    scatters = SCATTERED if kind in ("counting", "scalable") else 0
    need(header.flags & ~(ONE_WINNER | scatters) == 0, "flags")
    need(0 <= header.rate <= 1 and not math.isnan(header.rate), "rate")
    need(kind in ("counting", "fuse", "scalable") or header.width == 0, "width")
    need(kind == "scalable" or header.max_bytes == 0, "max_bytes")
    need(kind == "window" or not any((header.window_mode, header.window_kind, header.generations,
                                      header.period_items, header.length, header.count)), "fields of a window")
    need(header.length or header.elapsed == header.moved == 0, "time of a window")
    need(header.shards != 1 and header.shards <= 65536, "shards")
    need(header.shards == 0 or kind not in STATIC + ["window"], "shards")


def read_filter(source, header):
    check_recipe(header)
    if header.shards:
        need(source.numbers() == [], "numbers of shards")
        shards = [one_filter(source, header) for _ in range(header.shards)]
        has = lambda h: shards[mulhi(h * 0xf1357aea2e62a9c5 & ALL, header.shards)](h)
    else:
        has = one_filter(source, header)
    need(not source.all_numbers and source.at == len(source.words), "some numbers or words are unused")
    return has


# ---- Files (sections 8 and 9) ---------------------------------------------------------------


class File:
    """A verified file. If `hash_of` is None, the hash function is unknown and `may_contain` cannot be called."""

    def __init__(self, data, secret=None, canaries=True):
        self.header = header = Header(data)
        check_sums(data, header)
        numbers = list(struct.unpack_from(f"<{header.numbers}Q", data, 4096))
        self.has = read_filter(Source(numbers, data[header.words_at:header.table_at]), header)
        self.hash_of = hash_function(header.profile, header.seed, secret)
        if self.hash_of:
            check = self.hash_of(b"bloomgate: which hasher is this?")
            if header.profile == "fast-int":
                check = self.hash_of(struct.pack("<Q", check))
            need(check == header.check,
                 "wrong secret or hash function")
            if canaries:
                self.check_canaries()

    def may_contain(self, key):
        return bool(self.has(self.hash_of(key)))

    def canary(self, letter, number, age=0):
        generation = (self.header.generation - age) % 2 ** 64
        return b"bloomgate:%c:" % letter + struct.pack("<QI", generation, number)

    def check_canaries(self):
        header = self.header
        if header.present_canaries or header.canary_age:
            present = (self.canary(b"p", i, header.canary_age) for i in range(16))
            need(all(map(self.may_contain, present)), "present canaries")
        if header.absent_maybes == 2 ** 32 - 1:
            return
        answers = sum(self.may_contain(self.canary(b"a", i)) << i for i in range(4096))
        need(bin(answers).count("1") == header.absent_maybes, "absent_maybes")
        need(xxh64(answers.to_bytes(512, "little"), 0) == header.absent_answers, "absent_answers")


def read_path(path):
    """Returns the bytes of a file, or of the file that a pointer file refers to."""
    with open(path, "rb") as f:
        data = f.read()
    lines = data.split(b"\n")
    if len(data) < 512 and len(lines) == 3 and lines[0] == b"bloomgate-pointer 1" and lines[2] == b"":
        need(lines[1] and b"/" not in lines[1], "pointer")
        with open(os.path.join(os.path.dirname(path), os.fsdecode(lines[1])), "rb") as f:
            data = f.read()
    return data


def print_header(file):
    header = file.header
    for name, _, _ in LAYOUT:
        print(f"{name:17} {getattr(header, name)}")
    print(f"{'':17} kind {KINDS[header.kind]}, {header.blocks} blocks, words at {header.words_at}")
    print(f"{'key_id':17} {header.key_id.hex()}")
    print(f"{'custom_name':17} {header.custom_name}")
    print(f"{'digest':17} {header.digest.hex()}")
    print(f"{'metadata':17} {header.metadata!r}")
    print("verified" if file.hash_of else "verified, except for the canaries, because the hash function is unknown")


def main(arguments):
    secret = None
    if arguments[:1] == ["--secret"] and len(arguments) > 1:
        secret, arguments = bytes.fromhex(arguments[1]), arguments[2:]
    if not arguments or arguments[0].startswith("--"):
        print(__doc__)
        return 2
    try:
        file = File(read_path(arguments[0]), secret)
        need(file.hash_of or len(arguments) == 1, "looking up keys requires the secret")
    except (OSError, Refused) as why:
        print(f"{arguments[0]}: refused: {why}", file=sys.stderr)
        return 1
    if len(arguments) == 1:
        print_header(file)
    for key in arguments[1:]:
        print(f"{'maybe' if file.may_contain(os.fsencode(key)) else 'no':6} {key}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
