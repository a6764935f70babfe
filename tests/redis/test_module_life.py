#!/usr/bin/env python3
"""Tests the life cycle of filters as keys in the server: copying, renaming, migrating, expiring, unlinking large
filters, saving in a child process, and recovery after the server is killed.
usage: test_module_life.py PATH-OF-BLOOMGATE.SO [--server redis] [PART-OF-A-NAME...]
BG_TEST_SCALE=64 selects 1 GiB filters."""

import random
import signal

import redis_host
from redis_host import Error, Host, alone, replica_of, wait_for
from service import work

LARGE = work(16) << 20  # bytes


def large(h, name, items=2000):
    """Creates a filter of LARGE bytes with some items."""
    assert h.ask("BG.CREATE", name, "KIND", "blocked", "BYTES", LARGE, "K", 8) == "OK"
    assert h.ask("BG.MADD", name, *range(items)) == [1] * items


def freed(h):
    wait_for(lambda: h.info("bloomgate", "bloomgate_filter_bytes") == "0", what="memory to be freed")
    wait_for(lambda: h.info("bloomgate", "bloomgate_filters") == "0", what="filters to be freed")
    wait_for(lambda: h.info("bloomgate", "bloomgate_filters_being_freed") == "0", what="the thread")


def test_large_ones_go(h):
    """Deletes or overwrites large filters in every way that the server supports."""
    for words in (("UNLINK", "k"), ("DEL", "k"), ("BG.DROP", "k"), ("FLUSHALL", "SYNC"), ("FLUSHALL", "ASYNC"),
                  ("SET", "k", "x"), ("PEXPIRE", "k", 1), ("RENAME", "other", "k")):
        large(h, "k")
        if words[0] == "RENAME":
            h.ask("SET", "other", "x")
        before = int(h.info("memory", "used_memory"))
        assert before > LARGE, "used_memory does not include the filter"
        assert not isinstance(h.ask(*words), Error), words
        wait_for(lambda: int(h.info("memory", "used_memory")) < before - LARGE // 2, what="used_memory to fall")
        freed(h)
        h.ask("FLUSHALL")
        assert h.ask("BF.ADD", "after", "a") == 1
        h.ask("DEL", "after")
    large(h, "k")
    h.ask("SET", "small", "x")
    h.ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    h.ask("OBJECT", "FREQ", "k")
    assert h.ask("CONFIG", "SET", "maxmemory", LARGE // 2) == "OK"
    wait_for(lambda: h.ask("EXISTS", "k") == 0, what="eviction")
    h.ask("CONFIG", "SET", "maxmemory", 0)
    freed(h)


def test_copied(h):
    h.ask("BF.RESERVE", "k", 0.01, 100)
    h.ask("BF.MADD", "k", *range(300))
    h.ask("PEXPIRE", "k", 10**8)
    assert h.ask("COPY", "k", "l") == 1 and h.ask("COPY", "k", "l") == 0 and h.ask("COPY", "k", "m", "DB", 3) == 1
    assert h.ask("BG.DIGEST", "l") == h.ask("BG.DIGEST", "k") and h.ask("PTTL", "l") > 0
    h.ask("BF.ADD", "l", "only there")
    assert h.ask("BF.EXISTS", "k", "only there") == 0
    assert h.ask("BF.CARD", "k") + 1 == h.ask("BF.CARD", "l")
    h.ask("SELECT", 3)
    assert h.ask("BF.EXISTS", "m", "7") == 1
    assert h.ask("SWAPDB", 0, 3) == "OK"
    assert h.ask("BF.EXISTS", "k", "7") == 1
    h.forget()
    values = [h.ask("DEBUG", "DIGEST-VALUE", name) for name in ("m", "nosuch")]
    h.ask("COPY", "m", "n")
    assert h.ask("DEBUG", "DIGEST-VALUE", "n") == values[0] != values[1]
    h.ask("BF.ADD", "n", "x")
    assert h.ask("DEBUG", "DIGEST-VALUE", "n") != values[0], "the digest did not change with the content"


@alone
def test_the_generation_stays(pattern):
    """A filter loaded from a file that the service wrote keeps its generation, no matter how the filter is saved
    afterward."""
    state = "1 0 0 0 0 0 0;family=bg kind=blocked items=100 rate=0.01 hash=fast generation=9"

    def generation(h, name):
        facts = h.ask("BG.INFO", name)
        return facts[facts.index(b"generation") + 1]

    with Host(pattern.program, pattern.module, appendonly="yes") as h:
        assert h.ask("BG.REPLAY", "k", "CREATE", state, "") == "OK"
        assert h.ask("BG.ADD", "k", "x") == 1
        assert generation(h, "k") == 9
        assert h.ask("COPY", "k", "copied") == 1
        assert h.ask("RESTORE", "restored", 0, h.ask("DUMP", "k")) == "OK"
        cursor, chunk = h.ask("BG.DUMP", "k", 0)
        assert cursor == 0 and h.ask("BG.LOAD", "loaded", chunk)
        names = ("k", "copied", "restored", "loaded")
        assert [generation(h, name) for name in names] == [9] * 4
        with replica_of(h) as replica:
            assert [generation(replica, name) for name in names] == [9] * 4
        assert h.ask("BGREWRITEAOF")
        wait_for(lambda: h.info("persistence", "aof_rewrite_in_progress") == "0", what="the AOF")
        assert h.ask("DEBUG", "LOADAOF") == "OK"
        assert [generation(h, name) for name in names] == [9] * 4
        assert h.ask("DEBUG", "RELOAD") == "OK"
        assert [generation(h, name) for name in names] == [9] * 4
        assert h.ask("BG.EXISTS", "k", "x") == 1


@alone
def test_migrated(pattern):
    with Host(pattern.program, pattern.module) as a, Host(pattern.program, pattern.module, ["bf-initial-size", 7]) as b:
        a.ask("BF.MADD", "k", *range(500))
        a.ask("CF.ADD", "c", "x")
        a.ask("CF.ADD", "c", "x")
        a.ask("BG.CREATE", "w", "KIND", "window", "CAPACITY", 100, "WINDOW", 10**9)
        a.ask("BG.ADD", "w", "x")
        digests = [a.ask("BG.DIGEST", name) for name in "kcw"]
        assert a.ask("MIGRATE", "127.0.0.1", b.port, "", 0, 10000, "KEYS", "k", "c", "w") == "OK"
        assert a.ask("DBSIZE") == 0
        assert [b.ask("BG.DIGEST", name) for name in "kcw"] == digests
        assert b.ask("BF.MEXISTS", "k", *range(500)) == [1] * 500
        assert b.ask("CF.COUNT", "c", "x") == 2 and b.ask("BG.EXISTS", "w", "x") == 1
        assert b.ask("BF.ADD", "k", "more") == 1
        # a filter created on server b has a different secret, so the two filters cannot be merged by mistake
        b.ask("BF.RESERVE", "new", 0.01, 100)
        assert str(b.ask("BG.MERGE", "new", "k")).startswith("INCOMPATIBLE")


def dumped(h, name, command, at="SCANDUMP"):
    """Returns all chunks that BF.SCANDUMP or CF.SCANDUMP produces."""
    iterator, pieces = 0, []
    while True:
        iterator, data = h.ask(f"{command}.{at}", name, iterator)
        if iterator == 0:
            return pieces
        pieces.append((iterator, data))


def test_dumped_and_loaded(h):
    h.ask("BF.MADD", "k", *range(1000))
    h.ask("CF.RESERVE", "c", 100)
    h.ask("CF.INSERT", "c", "ITEMS", *range(300))
    for name, command in (("k", "BF"), ("c", "CF")):
        for iterator, data in dumped(h, name, command):
            assert h.ask(f"{command}.LOADCHUNK", name + "2", iterator, data) == "OK"
        assert h.ask("BG.DIGEST", name + "2") == h.ask("BG.DIGEST", name)
        assert h.ask(f"{command}.MEXISTS", name + "2", *range(300)) == [1] * 300


def test_loaded_in_pieces(h):
    """Loads a large filter in chunks while other commands query it, try to add keys to it, or reuse its name."""
    large(h, "k")
    digest, cursor, chunks = h.ask("BG.DIGEST", "k"), 0, []
    while True:
        cursor, chunk = h.ask("BG.DUMP", "k", cursor, "SIZE", 16 << 20)
        chunks.append(chunk)
        if cursor == 0:
            break
    for i, chunk in enumerate(chunks):
        if i:
            assert h.ask("BG.EXISTS", "l", "anything") == 1, "a filter that is still loading must answer 1"
            assert str(h.ask("BG.ADD", "l", "x")).startswith("ERR")
        assert h.ask("BG.LOAD", "l", chunk)[1] > LARGE
    wait_for(lambda: int(h.info("bloomgate", "bloomgate_background_loads")) > 0, what="the thread")
    assert h.ask("BG.DIGEST", "l") == digest
    assert h.ask("BG.EXISTS", "l", "nothing") == 0 and h.ask("BG.EXISTS", "l", "7") == 1
    for chunk in chunks[:-1]:
        h.ask("BG.LOAD", "m", chunk)
    with h.connect() as c:
        c.send(redis_host.service.encode("BG.LOAD", "m", chunks[-1]))
        h.ask("DEL", "m")
        h.ask("SET", "m", "x")
        answer = c.reply()
        assert isinstance(answer, (list, Error)), answer
    assert h.ask("GET", "m") == b"x"
    h.ask("FLUSHALL")
    freed(h)


def test_dropped_while_loading(h):
    """The client disconnects, or the key is deleted, while a dump is being loaded."""
    large(h, "k")
    cursor, chunks = 0, []
    while True:
        cursor, chunk = h.ask("BG.DUMP", "k", cursor, "SIZE", 64 << 20)
        chunks.append(chunk)
        if cursor == 0:
            break
    for end in ("close", "flush"):
        for chunk in chunks[:-1]:
            h.ask("BG.LOAD", "l", chunk)
        c = h.connect()
        c.send(redis_host.service.encode("BG.LOAD", "l", chunks[-1]))
        if end == "flush":
            h.ask("FLUSHALL")
        c.close()
        assert h.ask("PING") == "PONG"
        h.ask("BF.ADD", "x", "a")
    wait_for(lambda: h.ask("FLUSHALL") == "OK"  # repeated, because the server may still be reading chunks
             and h.info("bloomgate", "bloomgate_filter_bytes") == "0", what="memory to be freed")


@alone
def test_saved_by_a_child(pattern):
    """BGSAVE runs while adds continue; the file contains the keys that existed when BGSAVE
    started."""
    h = Host(pattern.program, pattern.module)
    with h:
        h.ask("BF.RESERVE", "k", 0.01, 10000)
        h.ask("CF.RESERVE", "c", 10000)
        h.ask("BF.MADD", "k", *range(5000))
        h.ask("CF.INSERT", "c", "ITEMS", *range(5000))
        assert not isinstance(h.ask("BGSAVE"), Error)
        with h.connect() as c:
            for i in range(5000, 9000, 100):
                c.ask("BF.MADD", "k", *range(i, i + 100))
                c.ask("CF.INSERT", "c", "ITEMS", *range(i, i + 100))
        wait_for(lambda: h.info("persistence", "rdb_bgsave_in_progress") == "0", what="BGSAVE")
        assert h.info("persistence", "rdb_last_bgsave_status") == "ok"
        h.kill()
        h.start()
        assert h.ask("BF.MEXISTS", "k", *range(5000)) == [1] * 5000
        assert h.ask("CF.MEXISTS", "c", *range(5000)) == [1] * 5000


def check_killed(pattern, fsync):
    """Kills the server during adds, and checks that every acknowledged add is recovered. Even without fsync, the
    written data survives in the OS page cache; only an OS crash or a power failure would lose it."""
    rng = random.Random(3)
    h = Host(pattern.program, pattern.module, appendonly="yes", appendfsync=fsync)
    with h:
        acknowledged = {"b": set(), "c": set(), "w": set()}
        h.ask("BF.RESERVE", "b", 0.01, 100)
        h.ask("CF.RESERVE", "c", 64)
        h.ask("BG.CREATE", "w", "KIND", "window", "CAPACITY", 10000, "MANUAL")
        for round_number in range(3):
            c = h.connect()
            rounds = rng.randrange(20, 60)
            for i in range(rounds):
                items = [f"{round_number}-{i}-{j}" for j in range(20)]
                for name, words in (("b", ("BF.MADD", "b")), ("c", ("CF.INSERT", "c", "ITEMS")), ("w", ("BG.MADD", "w"))):
                    c.ask(*words, *items)
                    acknowledged[name].update(items)
                c.ask("BF.ADD", "b", f"one-{round_number}-{i}")
                acknowledged["b"].add(f"one-{round_number}-{i}")
                if i == rounds // 2:
                    h.ask("BGREWRITEAOF")
            c.send(b"".join(redis_host.service.encode("BF.ADD", "b", f"unheard-{i}") for i in range(200)))
            h.process.send_signal(signal.SIGKILL)
            h.process.wait()
            c.close()
            h.start()
            for name, items in acknowledged.items():
                items = sorted(items)
                assert h.ask("BG.MEXISTS", name, *items) == [1] * len(items), f"{name}: lost"


@alone
def test_killed_always(pattern):
    check_killed(pattern, "always")


@alone
def test_killed_without_fsync(pattern):
    """Uses the policy "no" instead of "everysec", because with "everysec", the server may postpone writing acknowledged
    changes for up to 2 seconds during a long fsync."""
    check_killed(pattern, "no")


@alone
def test_failover(pattern):
    """When a replica becomes the primary, its filters accept adds and keep their secret and limits."""
    with Host(pattern.program, pattern.module) as a:
        b = replica_of(a, "max-filter-memory", 1 << 20)
        try:
            a.ask("BF.MADD", "k", *range(1000))
            a.ask("CF.RESERVE", "c", 64)
            a.ask("WAIT", 1, 10000)
            assert str(b.ask("BF.ADD", "k", "x")).startswith("READONLY")
            assert b.ask("BF.EXISTS", "k", 7) == 1
            assert b.ask("REPLICAOF", "NO", "ONE") == "OK"
            assert b.ask("BF.ADD", "k", "x") == 1
            assert b.ask("BF.ADD", "new", "x") == 1
            assert str(b.ask("BF.RESERVE", "large", 0.01, 10**8)).startswith("ERR Insufficient memory")
            assert b.ask("CF.INSERT", "c", "ITEMS", *range(500)) == [1] * 500
            assert b.ask("BG.MERGE", "merged", "k", "k") == "OK"
            b.stop()
        finally:
            b.kill()
            b.remove()


redis_host.main(__doc__)
