#!/usr/bin/env python3
"""Modifies DUMP and BG.DUMP payloads in many ways, sends them with RESTORE, BG.LOAD,
BF.LOADCHUNK and BG.REPLAY, and then uses the server. The server must either reject a payload or create a working filter
from it, and must never crash or leak memory. The server is configured to ignore the RESTORE checksum, because an
attacker can compute a valid one.

    --payloads 1e6    number of random payloads per server (default: a few thousand)

usage: test_module_hostile.py PATH-OF-BLOOMGATE.SO [--server redis] [--payloads N] [PART-OF-A-NAME...]"""

import os
import random

import redis_host
from redis_host import Error, Skip, wait_for


def sealed(body):
    """Returns a DUMP payload with a dummy checksum, which servers can be configured to ignore."""
    return body + bytes(8)


# ---- Victims ---------------------------------------------------------------------------------------

MAKERS = {
    "scalable": (("BF.RESERVE", "v", 0.01, 20), ("BF.MADD", "v", *range(50))),
    "fixed": (("BF.RESERVE", "v", 0.01, 20, "NONSCALING"), ("BF.MADD", "v", *range(15))),
    "quotient": (("CF.RESERVE", "v", 32), ("CF.INSERT", "v", "ITEMS", *range(30))),
    "counting": (("BG.CREATE", "v", "KIND", "counting", "CAPACITY", 20, "ERROR", 0.05), ("BG.MADD", "v", *range(9))),
    "cuckoo": (("BG.CREATE", "v", "KIND", "cuckoo", "CAPACITY", 20, "ERROR", 0.05), ("BG.MADD", "v", *range(9))),
    "window": (("BG.CREATE", "v", "KIND", "window", "CAPACITY", 20, "MANUAL"), ("BG.MADD", "v", *range(9))),
    "classic": (("BG.CREATE", "v", "KIND", "classic", "CAPACITY", 20, "HASH", "fast"), ("BG.MADD", "v", *range(9))),
    "unknown": (),
}


def make(h, kind):
    h.ask("DEL", "v")
    for words in MAKERS[kind]:
        reply = h.ask(*words)
        assert not isinstance(reply, Error), (words, reply)
    if kind == "unknown":  # loads only one of several chunks, so the filter's content is unknown
        h.ask("BF.ADD", "w", "a")
        h.ask("BG.LOAD", "v", h.ask("BG.DUMP", "w", 0, "SIZE", 100)[1])
        h.ask("DEL", "w")


TRAFFIC = (("BF.ADD", "t", "a"), ("BF.EXISTS", "t", "a"), ("BF.MADD", "t", "b", "c"), ("CF.ADD", "t", "d"),
           ("CF.DEL", "t", "d"), ("BG.INFO", "t"), ("BF.INFO", "t"), ("CF.INFO", "t"), ("BG.DIGEST", "t"),
           ("BG.VERIFY", "t"), ("BG.ROTATE", "t"), ("BG.FOLD", "t"), ("BG.MERGE", "t2", "t"), ("BG.MERGE", "t", "t2"),
           ("CF.COMPACT", "t"), ("BF.CARD", "t"), ("MEMORY", "USAGE", "t"), ("BG.DUMP", "t", 0), ("COPY", "t", "t3"),
           ("DEBUG", "DIGEST-VALUE", "t"), ("BG.CLEAR", "t"), ("BG.ADD", "t", "x"), ("DEL", "t", "t2", "t3"))


def use(h):
    """Runs many commands on the filter "t", and then deletes it."""
    h.connection.pipeline(TRAFFIC)


def restore_all(h, bodies, accepted):
    """Sends payloads with RESTORE. Checks that filters loaded from accepted payloads contain their keys, then exercises
    these filters."""
    replies = h.connection.pipeline([("RESTORE", "t", 0, sealed(body)) if i % 2 == 0 else ("DEL", "t")
                                     for body in bodies for i in range(2)])[::2]
    for body, reply in zip(bodies, replies):
        if not isinstance(reply, Error):
            accepted.append(body)
            assert h.ask("RESTORE", "t", 0, sealed(body), "REPLACE") == "OK"
            found = h.ask("BG.MEXISTS", "t", *range(9))  # these keys were added to every filter
            assert found == [1] * 9 or str(found).startswith("WRONGTYPE"), f"false negative: {found} for the payload {body!r}"
            use(h)


def connect(h):
    h.forget()
    assert h.ask("DEBUG", "SET-SKIP-CHECKSUM-VALIDATION", 1) == "OK"


def test_every_byte(h):
    """Modifies each payload in several ways at many positions, and truncates it there. With --payloads, uses every
    position."""
    for kind in MAKERS:
        connect(h)
        make(h, kind)
        whole = h.ask("DUMP", "v")
        body = whole[:-8]
        step = 1 if redis_host.OPTIONS.payloads else max(1, len(body) // 120)
        bodies = []
        for i in range(0, len(body), step):
            for change in (0x01, 0x80, 0xff):
                bodies.append(body[:i] + bytes([body[i] ^ change]) + body[i + 1:])
            bodies.append(body[:i] + body[-2:])
        accepted = []
        for i in range(0, len(bodies), 200):
            restore_all(h, bodies[i:i + 200], accepted)
        print(f"  {kind}: {len(bodies)} payloads of {len(body)} bytes, {len(accepted)} were accepted", flush=True)
        assert h.ask("RESTORE", "again", 0, whole, "REPLACE") == "OK"
        assert h.ask("BG.DIGEST", "again") == h.ask("BG.DIGEST", "v")


def mutated(rng, data, pool):
    """Returns the data with bytes modified, removed, duplicated, or copied from another payload."""
    data = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        how, at = rng.randrange(7), rng.randrange(max(1, len(data)))
        if how == 0 and data:
            data[at] = rng.randrange(256)
        elif how == 1 and data:
            data[at] ^= 1 << rng.randrange(8)
        elif how == 2:
            data[at:at + 8] = rng.choice((0, 1, 2**31, 2**32, 2**63, 2**64 - 1, 2**40)).to_bytes(8, "little")
        elif how == 3:
            del data[at:at + rng.randrange(1, 64)]
        elif how == 4:
            data[at:at] = data[at:at + rng.randrange(1, 64)]
        elif how == 5:
            other = rng.choice(pool)
            start = rng.randrange(len(other))
            data[at:at + 32] = other[start:start + rng.randrange(1, 64)]
        else:
            data[at:at + 4] = bytes(rng.randrange(256) for _ in range(4))
    return bytes(data)


def mutated_value(rng, pool):
    """Mutates a random DUMP payload, except for its first byte, which marks it as a module value. The server itself
    loads values of other types, and some of those take a very long time."""
    data = rng.choice(pool)
    return data[:1] + mutated(rng, data[1:], pool)


def payloads(usual):
    return int(redis_host.OPTIONS.payloads or usual)


def test_random_restore(h):
    rng = random.Random(redis_host.OPTIONS.seed)
    connect(h)
    pool = []
    for kind in MAKERS:
        make(h, kind)
        pool.append(h.ask("DUMP", "v")[:-8])
    total, accepted = payloads(3000), []
    for _ in range(0, total, 500):
        restore_all(h, [mutated_value(rng, pool) for _ in range(500)], accepted)
        assert h.process.poll() is None
    print(f"  {total} payloads, {len(accepted)} were accepted", flush=True)
    assert h.ask("BF.ADD", "after", "a") == 1


def chunk_sealed(chunk):
    """Returns a BG.DUMP chunk with a correct checksum, if an XXH64 implementation is available."""
    try:
        import xxhash  # pylint: disable=import-outside-toplevel
    except ImportError:
        return chunk
    return chunk[:8] + xxhash.xxh64(chunk[16:]).intdigest().to_bytes(8, "little") + chunk[16:]


def redisbloom_header(links):
    import struct  # pylint: disable=import-outside-toplevel
    return struct.pack("<QIII", 5, len(links), 4, 2) + b"".join(
        struct.pack("<QQQddIQB", n, n * 8, 5, 0.01, 9.585, 7, 10, 0) for n in links)


def test_random_chunks(h):
    """BG.LOAD, BF.LOADCHUNK, CF.LOADCHUNK and BG.REPLAY."""
    rng = random.Random(redis_host.OPTIONS.seed + 1)
    connect(h)
    pool, states = [], []
    for kind in MAKERS:
        make(h, kind)
        if kind == "unknown":
            continue
        cursor = 0
        while True:
            cursor, chunk = h.ask("BG.DUMP", "v", cursor, "SIZE", rng.choice((200, 1000, 100000)))
            pool.append(chunk)
            if cursor == 0:
                break
    pool.append(redisbloom_header([16]))
    pool.append(redisbloom_header([16, 32]))
    states += [b"1 0 0 0 0 0 0;family=bf kind=scalable items=100 rate=0.01 width=2 hash=fast",
               b"1 9 9 9 9 9 1;family=bg kind=window items=100 rate=0.01 window_count=5 hash=fast",
               b"1 0 0 0 0 0 0;family=cf kind=quotient items=100 k=20 hash=fast expansion=1 imported=1"]
    total, good = payloads(3000), 0
    words = ("CREATE", "ADD", "KEYS", "REMOVE", "ROTATE", "PUT", "DONE", "NOSUCH")
    for _ in range(0, total, 500):
        requests = []
        for _ in range(500):
            data = mutated(rng, rng.choice(pool), pool) if rng.random() < 0.8 else rng.choice(pool)
            how = rng.randrange(8)
            if how < 3:
                requests.append(("BG.LOAD", "t", chunk_sealed(data)))
            elif how < 5:
                iterator = rng.choice((1, len(data) - 39, len(data) + 1, rng.randrange(1, 500)))
                requests.append((rng.choice(("BF.LOADCHUNK", "CF.LOADCHUNK")), "t", iterator, chunk_sealed(data)))
            elif how == 5:
                requests.append(("BG.REPLAY", "t", rng.choice(("CREATE", "DONE")),
                                 mutated(rng, rng.choice(states), states), b""))
            elif how == 6:
                requests.append(("BG.REPLAY", "t", "PUT", rng.choice((0, 0, 10, 2**40)), rng.choice((len(data), 99, 2**60)),
                                 data))
            else:
                requests.append(("BG.REPLAY", "t", rng.choice(words), data[:rng.choice((8, 16, 9))]))
            if rng.random() < 0.2:
                requests.append(("DEL", "t"))
        replies = h.connection.pipeline(requests)
        good += sum(not isinstance(reply, Error) for reply in replies)
        use(h)
        assert h.process.poll() is None
    print(f"  {total} payloads, {good} were accepted", flush=True)
    assert h.ask("BF.ADD", "after", "a") == 1


def test_nothing_leaks(h):
    """Memory usage does not grow when the same hostile payloads are sent repeatedly."""
    if os.environ.get("BG_PRELOAD"):
        raise Skip("sanitizers do not release freed memory")
    connect(h)
    rng = random.Random(5)
    pool = []
    for kind in MAKERS:
        make(h, kind)
        pool.append(h.ask("DUMP", "v")[:-8])
    bodies = [mutated_value(rng, pool) for _ in range(400)]

    def round_of(n):
        for _ in range(n):
            restore_all(h, bodies, [])
        h.ask("FLUSHALL")
        h.ask("MEMORY", "PURGE")
        wait_for(lambda: h.info("bloomgate", "bloomgate_filters") == "0", what="filters to be freed")
        return h.memory(), int(h.info("bloomgate", "bloomgate_filter_bytes"))
    round_of(3)
    before, zero = round_of(1)
    assert zero == 0, zero
    after, zero = round_of(8)
    assert zero == 0, zero
    assert after < before + (4 << 20), f"memory grew from {before} to {after} bytes"


redis_host.main(__doc__, arguments=["max-filter-memory", 64 << 20],
                rdbcompression="no")
