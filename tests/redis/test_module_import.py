#!/usr/bin/env python3
"""Tests that this module loads RedisBloom and valkey-bloom filters when the original module is not loaded. The tests
use RESTORE payloads, RDB files and dumps that contain values of the original types. Some values were created by
RedisBloom (tests/foreign/redisbloom), some are assembled here byte by byte, and some are forged.
usage: test_module_import.py PATH-OF-BLOOMGATE.SO [--server redis] [PART-OF-A-NAME...]"""

import hashlib
import json
import math
import os
import random
import struct

import redis_host
from redis_host import Error, alone, caught_up, replica_of, wait_for

MASK = (1 << 64) - 1

# ---- Module values in RDB files ------------------------------------------------------------------

NAME = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


def type_id(name, version):
    """Encodes a nine-character type name, with six bits per character, and a ten-bit version."""
    number = 0
    for letter in name:
        number = number << 6 | NAME.index(letter)
    return number << 10 | version


def length(n):
    if n < 1 << 6:
        return bytes([n])
    if n < 1 << 14:
        return bytes([0x40 | n >> 8, n & 255])
    return b"\x81" + struct.pack(">Q", n)


def field(value):
    if isinstance(value, float):
        return length(4) + struct.pack("<d", value)
    if isinstance(value, bytes):
        return length(5) + length(len(value)) + value
    return length(2) + length(value)


def module_value(name, version, fields):
    return length(type_id(name, version)) + b"".join(map(field, fields)) + length(0)


def crc64_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x95ac9329ac4bc9b5 if byte & 1 else 0)
        table.append(byte)
    return table


CRC64 = crc64_table()


def crc64(data):
    crc = 0
    for byte in data:
        crc = CRC64[(crc ^ byte) & 255] ^ crc >> 8
    return crc


def payload(value):
    """Returns a value in the format that DUMP and RESTORE use."""
    data = b"\x07" + value + struct.pack("<H", 9)
    return data + struct.pack("<Q", crc64(data))


def rdb_file(values):
    """Returns an RDB file that contains the values, without a checksum."""
    body = b"".join(b"\x07" + length(len(name)) + name + value for name, value in values.items())
    return b"REDIS0009\xfe\x00" + body + b"\xff" + bytes(8)


# ---- Filters of RedisBloom -----------------------------------------------------------------------


def murmur64a(key, seed):
    m = 0xc6a4a7935bd1e995
    h = seed ^ len(key) * m & MASK
    whole = len(key) // 8 * 8
    for i in range(0, whole, 8):
        k = int.from_bytes(key[i:i + 8], "little") * m & MASK
        h = (h ^ (k ^ k >> 47) * m & MASK) * m & MASK
    if len(key) > whole:
        h = (h ^ int.from_bytes(key[whole:], "little")) * m & MASK
    h = (h ^ h >> 47) * m & MASK
    return h ^ h >> 47


class Chain:
    """A RedisBloom Bloom filter, in which each link has twice the capacity and half the error rate of the previous
    link."""

    def __init__(self, entries, error, keys):
        self.links = []
        self.entries, self.error = entries, error / 2
        for key in keys:
            self.add(key)

    def grow(self):
        per_entry = -math.log(self.error) / 0.480453013918201
        bits = (int(self.entries * per_entry) + 63) // 64 * 64
        self.links.append({"entries": self.entries, "error": self.error, "per_entry": per_entry,
                           "hashes": math.ceil(0.693147180559945 * per_entry), "bits": bytearray(bits // 8),
                           "size": 0})
        self.entries, self.error = self.entries * 2, self.error / 2

    @staticmethod
    def places(link, key):
        a = murmur64a(key, 0xc6a4a7935bd1e995)
        b = murmur64a(key, a)
        return [(a + i * b & MASK) % (8 * len(link["bits"])) for i in range(link["hashes"])]

    def has(self, key):
        return any(all(link["bits"][p >> 3] >> (p & 7) & 1 for p in self.places(link, key)) for link in self.links)

    def add(self, key):
        if self.has(key):
            return
        if not self.links or self.links[-1]["size"] >= self.links[-1]["entries"]:
            self.grow()
        link = self.links[-1]
        for place in self.places(link, key):
            link["bits"][place >> 3] |= 1 << (place & 7)
        link["size"] += 1

    def fields(self):
        size = sum(link["size"] for link in self.links)
        out = [size, len(self.links), 5, 2]
        for link in self.links:
            out += [link["entries"], link["error"], link["hashes"], link["per_entry"], 8 * len(link["bits"]), 0,
                    bytes(link["bits"]), link["size"]]
        return out

    def value(self):
        return module_value("MBbloom--", 4, self.fields())


def cuckoo_slots(buckets, keys):
    """Returns the slots of a RedisBloom cuckoo filter with two slots per bucket."""
    slots = bytearray(2 * buckets)
    for key in keys:
        h = murmur64a(key, 0)
        print_ = h % 255 + 1
        for place in (h, h ^ print_ * 0x5bd1e995):
            at = 2 * (place % buckets)
            free = [i for i in (at, at + 1) if not slots[i]]
            if free:
                slots[free[0]] = print_
                break
        else:
            raise AssertionError("too many keys for this test")
    return bytes(slots)


def cuckoo_dump(buckets, keys):
    """Returns a cuckoo filter in the format that CF.SCANDUMP uses."""
    slots = cuckoo_slots(buckets, keys)
    return [(1, struct.pack("<QQQQHHH", len(keys), buckets, 0, 1, 2, 20, 1)), (1 + len(slots), slots)]


def cuckoo_fields(buckets, *keys):
    """Returns the fields of an RDB value: a chain of cuckoo filters, one for each list of keys."""
    out = [len(keys), buckets, sum(map(len, keys)), 0, 2, 20, 1]
    for those in keys:
        out += [buckets, cuckoo_slots(buckets, those)]
    return out


def cuckoo_value(*arguments):
    return module_value("MBbloomCF", 4, cuckoo_fields(*arguments))


# ---- Filters of valkey-bloom -----------------------------------------------------------------------

SEED = bytes((7 * i + 3) & 255 for i in range(32))


def siphash13(data, secret):
    k0, k1 = struct.unpack("<QQ", secret)
    v = [k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d, k0 ^ 0x6c7967656e657261, k1 ^ 0x7465646279746573]

    def turn(x, by):
        return (x << by | x >> (64 - by)) & MASK

    def rounds(n):
        for _ in range(n):
            v[0], v[2] = (v[0] + v[1]) & MASK, (v[2] + v[3]) & MASK
            v[1], v[3] = turn(v[1], 13) ^ v[0], turn(v[3], 16) ^ v[2]
            v[0] = turn(v[0], 32)
            v[2], v[0] = (v[2] + v[1]) & MASK, (v[0] + v[3]) & MASK
            v[1], v[3] = turn(v[1], 17) ^ v[2], turn(v[3], 21) ^ v[0]
            v[2] = turn(v[2], 32)

    whole = len(data) // 8 * 8
    words = [int.from_bytes(data[i:i + 8], "little") for i in range(0, whole, 8)]
    words.append(int.from_bytes(data[whole:], "little") | (len(data) & 255) << 56)
    for word in words:
        v[3] ^= word
        rounds(1)
        v[0] ^= word
    v[2] ^= 255
    rounds(3)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


class Valkey:
    """A valkey-bloom filter with a single subfilter."""

    def __init__(self, capacity, rate, keys):
        self.capacity, self.rate = capacity, rate
        n = math.ceil(capacity * math.log(rate) / (-8 * math.log(2) ** 2))
        self.k = max(1, round(8 * n / capacity * math.log(2)))
        self.bits = bytearray(n)
        for key in keys:
            message = struct.pack("<Q", len(key)) + key
            h = [siphash13(message, SEED[:16]), siphash13(message, SEED[16:])]
            h += [(h[0] + i * h[1] & MASK) % 0xffffffffffffffc5 for i in range(2, self.k)]
            for place in (x % (8 * n) for x in h[:self.k]):
                self.bits[place >> 3] |= 1 << (place & 7)
        self.items = len(keys)

    def bloom(self):
        return b"\x01" + struct.pack("<QI", len(self.bits), self.k) + SEED + bytes(self.bits)

    def dump(self):
        """Returns the filter as an argument for BF.LOAD."""
        bloom = self.bloom()
        return (b"\x01" + struct.pack("<IddBQ", 2, self.rate, 0.5, 1, 1) + struct.pack("<Q", len(bloom)) + bloom
                + struct.pack("<qq", self.items, self.capacity))

    def fields(self):
        return [1, 2, self.rate, 0.5, 1, self.capacity, self.items, self.bloom()]

    def value(self):
        return module_value("bloomfltr", 1, self.fields())


# ---- Tests ----------------------------------------------------------------------------------------


def keys_of(n, of="item"):
    return [b"%s:%d" % (of.encode(), i) for i in range(n)]


def check_has(host, name, keys, command="BF.MEXISTS"):
    assert host.ask(command, name, *keys) == [1] * len(keys), name


def check_rate(host, name, command="BF.MEXISTS", most=0.05):
    answers = host.ask(command, name, *keys_of(2000, "nobody"))
    assert sum(answers) <= most * 2000, sum(answers)


def test_restore_of_redisbloom(h):
    chain = Chain(100, 0.01, keys_of(500))
    assert h.ask("RESTORE", "k4", 0, payload(chain.value())) == "OK"
    check_has(h, "k4", keys_of(500))
    check_rate(h, "k4")
    assert h.ask("TYPE", "k4") == "MBbloom--"
    assert h.ask("BF.INFO", "k4", "FILTERS") == [3]
    assert h.ask("BF.INFO", "k4", "CAPACITY") == [700]
    # The filter accepts adds, and is saved in RedisBloom's format.
    assert h.ask("BF.ADD", "k4", "new") == 1
    assert h.ask("BF.ADD", "k4", "new") == 0
    chain.add(b"new")
    assert h.ask("DUMP", "k4")[:-10] == b"\x07" + chain.value()
    h.ask("BF.MADD", "k4", *keys_of(2000, "more"))
    check_has(h, "k4", keys_of(500) + keys_of(2000, "more"))
    assert h.ask("COPY", "k4", "copy") == 1
    check_has(h, "copy", keys_of(500) + keys_of(2000, "more"))
    assert h.ask("MEMORY", "USAGE", "k4") > 1000
    assert h.ask("UNLINK", "copy") == 1


def test_restore_of_valkey_bloom(h):
    valkey = Valkey(200, 0.01, keys_of(150))
    assert h.ask("RESTORE", "k", 0, payload(valkey.value())) == "OK"
    assert h.ask("TYPE", "k") == "bloomfltr"
    check_has(h, "k", keys_of(150))
    check_rate(h, "k")
    assert h.ask("DUMP", "k")[:-10] == b"\x07" + valkey.value()
    h.ask("BF.MADD", "k", *keys_of(1000, "more"))
    check_has(h, "k", keys_of(150) + keys_of(1000, "more"))
    dumped = h.ask("DUMP", "k")
    assert h.ask("RESTORE", "again", 0, dumped) == "OK"
    check_has(h, "again", keys_of(150) + keys_of(1000, "more"))


def test_bf_load(h):
    valkey = Valkey(200, 0.01, keys_of(150))
    assert h.ask("BF.LOAD", "k", valkey.dump()) == "OK"
    check_has(h, "k", keys_of(150))
    check_rate(h, "k")
    assert isinstance(h.ask("BF.LOAD", "k", valkey.dump()), Error)
    assert isinstance(h.ask("BF.LOAD", "other", valkey.dump()[:-1]), Error)
    assert h.ask("EXISTS", "other") == 0


def test_cuckoo_filters_come_by_scandump(h):
    for iterator, chunk in cuckoo_dump(256, keys_of(200)):
        assert h.ask("CF.LOADCHUNK", "k", iterator, chunk) == "OK"
    check_has(h, "k", keys_of(200), "CF.MEXISTS")
    check_rate(h, "k", "CF.MEXISTS")
    assert h.ask("CF.DEL", "k", "item:7") == 1
    assert h.ask("CF.ADD", "k", "another") == 1
    assert h.ask("CF.COUNT", "k", "another") >= 1
    assert h.ask("CF.SCANDUMP", "k", 0)[0] == 1


# ---- Samples created by RedisBloom ---------------------------------------------------------------


def samples():
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "foreign", "redisbloom", "samples.json")
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def value_of(sample):
    return bytes.fromhex(sample["value"])


def members_of(sample):
    return [b"item:%d" % i for i in range(*sample["members"])]


def scan(h, name, family):
    iterator, chunks = 0, []
    while True:
        iterator, data = h.ask(family + ".SCANDUMP", name, iterator)
        if iterator == 0:
            return chunks
        chunks.append((iterator, data))


def digest_of(h, name, family):
    digest = hashlib.sha256()
    for iterator, data in scan(h, name, family):
        digest.update(struct.pack("<QQ", iterator, len(data)) + data)
    return digest.hexdigest()


def check_sample(h, name, sample):
    """Checks that a filter gives the same answers and has the same statistics as in RedisBloom."""
    family = "CF" if sample["type"] == "MBbloomCF" else "BF"
    keys = [b"nobody:%d" % i for i in range(sample["absent"])]
    if members_of(sample):
        check_has(h, name, members_of(sample), family + ".MEXISTS")
    assert [i for i, found in enumerate(h.ask(family + ".MEXISTS", name, *keys)) if found] == sample["found"], name
    info = h.ask(family + ".INFO", name)[1::2]
    if sample["name"] == "bloom-expansion-0":  # the saved expansion is 0; in this module, 0 always means that the filter does not grow
        sample["info"][-1] = None
    assert (info[1:] if family == "CF" else info[:1] + info[2:]) == sample["info"], (name, info, sample["info"])
    counts = sample.get("counts", [])
    last = sample["members"][1]
    assert [h.ask("CF.COUNT", name, f"item:{i}") for i in range(last - len(counts), last)] == counts


def test_samples_by_restore(h):
    for sample in samples():
        name = sample["name"]
        answer = h.ask("RESTORE", name, 0, payload(value_of(sample)))
        if sample["version"] != 4:
            assert isinstance(answer, Error), name
            assert f"cannot load a value of type {sample['type']}: the value has version 3, expected 4" in h.read_log()
            continue
        assert answer == "OK", name
        assert h.ask("TYPE", name) == sample["type"]
        check_sample(h, name, sample)
        assert h.ask("DUMP", name)[1:-10] == value_of(sample), name  # saved again


def test_samples_by_loadchunk(h):
    for sample in samples():
        name, family = sample["name"], sample["type"] == "MBbloomCF" and "CF" or "BF"
        chunks = [(iterator, bytes.fromhex(data)) for iterator, data in sample["chunks"]]
        answers = [h.ask(family + ".LOADCHUNK", name, iterator, data) for iterator, data in chunks]
        if sample["version"] != 4:
            assert isinstance(answers[0], Error), name
            assert h.ask("EXISTS", name) == 0
        elif chunks:
            assert answers == ["OK"] * len(chunks), name
            check_sample(h, name, sample)


def test_samples_go_on(h):
    """Adding and deleting items produces the same bytes as in RedisBloom, even after the filter has been saved and
    reloaded."""
    for sample in samples():
        name, family = sample["name"], sample["type"] == "MBbloomCF" and "CF" or "BF"
        if not sample.get("more"):
            continue
        assert h.ask("RESTORE", name, 0, payload(value_of(sample))) == "OK"
        for i in range(sample["more"]):
            assert h.ask(family + ".ADD", name, f"more:{i}") in (0, 1)
            if i == 10:
                assert h.ask("DEBUG", "RELOAD") == "OK"
        assert digest_of(h, name, family) == sample["more_sha256"], name
        if "less_sha256" in sample:  # deleting items removes some filters from the chain
            for i in range(sample["more"]):
                assert h.ask("CF.DEL", name, f"more:{i}") == 1
                if i % 50 == 10:
                    assert h.ask("DEBUG", "RELOAD") == "OK"
            assert digest_of(h, name, family) == sample["less_sha256"], name
            assert h.ask("CF.COMPACT", name) == "OK"
            assert digest_of(h, name, family) == sample["compact_sha256"], name


def test_cuckoo_filters_by_restore(h):
    """Checks that no item is lost when others are deleted and added, and that all changes are saved."""
    assert h.ask("RESTORE", "k", 0, payload(cuckoo_value(256, keys_of(200), keys_of(150, "second")))) == "OK"
    keys = keys_of(200) + keys_of(150, "second")
    check_has(h, "k", keys, "CF.MEXISTS")
    check_rate(h, "k", "CF.MEXISTS")
    assert h.ask("CF.INFO", "k")[3:10:2] == [256, 2, 350, 0]
    for key in keys_of(200):
        assert h.ask("CF.DEL", "k", key) == 1
    assert h.ask("CF.DEL", "k", "nobody has added this") == 0
    check_has(h, "k", keys_of(150, "second"), "CF.MEXISTS")
    filters, items, deleted = h.ask("CF.INFO", "k")[5:10:2]  # the second filter was compacted into the first
    assert (filters, items) == (1, 150) and 0 < deleted < 200
    assert h.ask("CF.ADD", "k", "twice") == h.ask("CF.ADD", "k", "twice") == 1
    assert h.ask("CF.ADDNX", "k", "twice") == 0
    for _ in range(2):
        assert h.ask("CF.COUNT", "k", "twice") == 2
        assert h.ask("CF.INFO", "k")[5:10:2] == [1, 152, deleted]
        check_has(h, "k", keys_of(150, "second"), "CF.MEXISTS")
        assert h.ask("DEBUG", "RELOAD") == "OK"
    assert h.ask("COPY", "k", "copy") == 1
    assert h.ask("BG.DIGEST", "copy") == h.ask("BG.DIGEST", "k")
    assert h.ask("DUMP", "copy") == h.ask("DUMP", "k")
    for key in keys_of(150, "second") + [b"twice", b"twice"]:
        assert h.ask("CF.DEL", "k", key) == 1
    assert sum(h.ask("CF.MEXISTS", "k", *keys)) == 0
    assert h.ask("CF.SCANDUMP", "k", 0) == [0, None]  # SCANDUMP cannot dump an empty filter
    assert h.ask("RESTORE", "empty", 0, h.ask("DUMP", "k")) == "OK"
    assert h.ask("CF.ADD", "empty", "a") == 1


def test_cuckoo_filters_that_disagree(h):
    """If any of these fields in a value is wrong, the value is refused, and the log states which field is wrong."""
    fields = cuckoo_fields(256, keys_of(40), keys_of(40, "b"))
    buckets, size = "number of buckets in a filter", "number of bytes in a filter"
    names = ["number of filters", buckets, "items", None, size, None, buckets, buckets, size]
    for at, name in enumerate(names):
        if name:
            forged = list(fields)
            forged[at] = forged[at] + (b"\0" if isinstance(forged[at], bytes) else 65536 if at == 0 else 1)
            before = len(h.read_log())
            assert isinstance(h.ask("RESTORE", "k", 0, payload(module_value("MBbloomCF", 4, forged))), Error), name
            assert "cannot load a value of type MBbloomCF: " + name in h.read_log()[before:], name
    assert h.ask("EXISTS", "k") == 0


def test_what_is_cleared_is_ours(h):
    """After BG.CLEAR, an imported filter has the module's own type, and the key keeps its expiration time."""
    chain = Chain(100, 0.01, keys_of(50))
    assert h.ask("RESTORE", "k", 100000, payload(chain.value())) == "OK"
    assert h.ask("BG.CLEAR", "k") == "OK"
    assert h.ask("TYPE", "k") == "bloomgate"
    assert 0 < h.ask("PTTL", "k") <= 100000
    assert h.ask("BF.EXISTS", "k", "item:1") == 0
    assert h.ask("BF.ADD", "k", "item:1") == 1
    assert h.ask("DEL", "k") == 1


def forgeries(fields, rng):
    """Returns a copy of the fields in which one field is changed, missing, or of a different type."""
    which = rng.randrange(len(fields))
    out = list(fields)
    value = out[which]
    if rng.random() < 0.2:
        del out[which]
    elif rng.random() < 0.2:
        out[which] = rng.choice([b"", b"x" * 100, 1.5, 3])
    elif isinstance(value, float):
        out[which] = rng.choice([0.0, -1.0, 1.0, math.nan, math.inf, 1e308, 5e-324])
    elif isinstance(value, bytes):
        out[which] = rng.choice([b"", value[:-1], value + b"\0", bytes(rng.randrange(256) for _ in range(60))])
    else:
        out[which] = rng.choice([0, 1, value + 1, 255, 256, 65537, 1 << 32, 1 << 62, MASK])
    return out


def test_forged_values(h):
    """Forged values are either refused or harmless, and the server keeps responding."""
    rng = random.Random(redis_host.OPTIONS.seed)
    kinds = [("MBbloom--", 4, "BF", Chain(20, 0.01, keys_of(50)).fields()),
             ("bloomfltr", 1, "BF", Valkey(50, 0.01, keys_of(40)).fields()),
             ("MBbloomCF", 4, "CF", cuckoo_fields(256, keys_of(40), keys_of(30, "b")))]
    refused = 0
    runs = int(redis_host.OPTIONS.payloads or 1500)
    for run in range(runs):
        kind, version, family, fields = kinds[run % 3]
        value = module_value(kind, rng.choice([version] * 6 + [0, 2, 3, 5, 1023]), forgeries(fields, rng))
        if rng.random() < 0.1:
            value = value[:rng.randrange(len(value))]
        answer = h.ask("RESTORE", "k", 0, payload(value), "REPLACE")
        refused += isinstance(answer, Error)
        if not isinstance(answer, Error):
            assert isinstance(h.ask(family + ".MEXISTS", "k", "a", "b"), list)
            h.ask(family + ".INSERT", "k", "ITEMS", "a", "b")
            h.ask(family + ".INFO", "k")
            assert isinstance(h.ask("DUMP", "k"), bytes)
    assert refused > runs / 2
    assert h.ask("PING") == "PONG"


def test_cut_values(h):
    """A payload that is truncated at any position is refused."""
    for value in (Chain(5, 0.01, keys_of(8)).value(), cuckoo_value(16, keys_of(12), keys_of(9, "b"))):
        for n in range(len(value)):
            assert isinstance(h.ask("RESTORE", "k", 0, payload(value[:n]), "REPLACE"), Error), n
        assert h.ask("RESTORE", "k", 0, payload(value), "REPLACE") == "OK"


@alone
def test_rdb_file_of_the_other_module(h):
    """After only the loadmodule line of the configuration has been changed, the server can load an RDB file written by
    RedisBloom or valkey-bloom."""
    chain, valkey = Chain(1000, 0.001, keys_of(3000)), Valkey(500, 0.01, keys_of(400))
    with open(os.path.join(h.folder, "dump.rdb"), "wb") as file:
        file.write(rdb_file({b"bloom": chain.value(), b"cuckoo": cuckoo_value(4096, keys_of(800)),
                             b"valkey": valkey.value(), **{sample["name"].encode(): value_of(sample)
                                                           for sample in samples() if sample["version"] == 4}}))
    h.start()
    check_has(h, "bloom", keys_of(3000))
    check_has(h, "cuckoo", keys_of(800), "CF.MEXISTS")
    for sample in samples():
        if sample["version"] == 4:
            check_sample(h, sample["name"], sample)
    check_has(h, "valkey", keys_of(400))
    check_rate(h, "bloom", most=0.01)
    # The data survives replication and restarts.
    replica = replica_of(h)
    try:
        assert h.ask("BF.ADD", "bloom", "later") == 1
        assert h.ask("BF.MADD", "valkey", *keys_of(300, "later"))
        caught_up(h, replica)
        assert h.ask("CF.ADD", "cuckoo", "later") == h.ask("CF.DEL", "cuckoo", "item:0") == 1
        assert h.ask("CF.INSERT", "cuckoo-chain", "ITEMS", *keys_of(300, "later")) == [1] * 300
        assert h.ask("CF.DEL", "cuckoo-chain", "item:7") == 1
        assert h.ask("CF.COMPACT", "cuckoo-chain") == "OK"
        caught_up(h, replica)
        for name in ("bloom", "valkey", "cuckoo", "cuckoo-chain"):
            assert replica.ask("BG.DIGEST", name) == h.ask("BG.DIGEST", name)
            assert replica.ask("TYPE", name) == h.ask("TYPE", name)
    finally:
        replica.kill()
        replica.remove()
    before = h.ask("BG.DIGEST", "bloom")
    wait_for(lambda: h.info("persistence", "rdb_bgsave_in_progress") == "0", what="the replica's RDB")
    assert h.ask("SAVE") == "OK"
    h.kill()
    h.start()
    assert h.ask("BG.DIGEST", "bloom") == before
    check_has(h, "bloom", keys_of(3000) + [b"later"])
    check_has(h, "valkey", keys_of(400) + keys_of(300, "later"))
    check_has(h, "cuckoo", keys_of(800)[1:] + [b"later"], "CF.MEXISTS")
    check_has(h, "cuckoo-chain", keys_of(300, "later"), "CF.MEXISTS")
    # The data also survives in a rewritten append-only file.
    assert h.ask("CONFIG", "SET", "appendonly", "yes") == "OK"
    wait_for(lambda: h.info("persistence", "aof_rewrite_in_progress") == "0"
             and h.info("persistence", "aof_enabled") == "1", what="the AOF")
    assert h.ask("BF.ADD", "bloom", "last") == 1
    after = h.ask("BG.DIGEST", "bloom")
    assert h.ask("DEBUG", "LOADAOF") == "OK"
    assert h.ask("BG.DIGEST", "bloom") == after
    check_has(h, "valkey", keys_of(400) + keys_of(300, "later"))
    check_has(h, "cuckoo", keys_of(800)[1:] + [b"later"], "CF.MEXISTS")
    h.stop()


@alone
def test_repeated_adds_write_nothing(h):
    h.start()
    chain = Chain(100, 0.01, keys_of(50))
    assert h.ask("RESTORE", "k", 0, payload(chain.value())) == "OK"
    assert h.ask("CONFIG", "SET", "appendonly", "yes") == "OK"
    wait_for(lambda: h.info("persistence", "aof_rewrite_in_progress") == "0", what="the AOF")
    size = h.info("persistence", "aof_current_size")
    for _ in range(100):
        assert h.ask("BF.ADD", "k", "item:1") == 0
        assert h.ask("BF.MADD", "k", "item:1", "item:2") == [0, 0]
    assert h.info("persistence", "aof_current_size") == size
    h.stop()


redis_host.main(__doc__)
