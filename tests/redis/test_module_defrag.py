#!/usr/bin/env python3
"""Tests the module's memory use in real servers: the memory that servers report for filters, and the memory that
remains in use after most filters have been deleted and the server has defragmented the rest. Servers from Linux
distributions often do not support defragmentation. On such servers, the defragmentation test is skipped;
tests/redis/unit/test_redis_memory.c tests defragmentation without a server.
usage: test_module_defrag.py PATH-OF-BLOOMGATE.SO [--server redis] [PART-OF-A-NAME...]"""

import random

import redis_host
from redis_host import Error, Skip, wait_for

FILTERS = 8000
KEPT = 4  # one filter in KEPT is not deleted


def make(h, names):
    """Creates Bloom and cuckoo filters with three items each, in a pipeline."""
    with h.connect() as c:
        for at in range(0, len(names), 1000):
            requests = []
            for i in names[at:at + 1000]:
                if i % 4 == 3:
                    requests.append(("CF.RESERVE", f"f{i}", 100))
                add = ("CF.INSERT", f"f{i}", "ITEMS") if i % 4 == 3 else ("BF.MADD", f"f{i}")
                requests.append((*add, f"a{i}", f"b{i}", f"c{i}"))
            assert not any(isinstance(reply, Error) for reply in c.pipeline(requests))


def all_there(h, names):
    with h.connect() as c:
        for at in range(0, len(names), 1000):
            asked = [("CF.MEXISTS" if i % 4 == 3 else "BF.MEXISTS", f"f{i}", f"a{i}", f"b{i}", f"c{i}")
                     for i in names[at:at + 1000]]
            if any(reply != [1, 1, 1] for reply in c.pipeline(asked)):
                return False
    return True


def used(h):
    return int(h.info("memory", "used_memory"))


def test_the_server_counts_all_of_a_filter(h):
    """used_memory, MEMORY USAGE and the module's own statistics roughly agree."""
    kinds = (("BF.RESERVE", 0.01, 100), ("CF.RESERVE", 100), ("BG.CREATE", "KIND", "blocked", "CAPACITY", 500),
             ("BG.CREATE", "CAPACITY", 500, "MANUAL"))
    for command, *how in kinds:
        h.ask("FLUSHALL", "SYNC")
        before, n = used(h), 2000
        with h.connect() as c:
            c.pipeline([(command, f"f{i}", *how) for i in range(n)])
        each = (used(h) - before) / n
        said = h.ask("MEMORY", "USAGE", "f7")
        assert 0.95 * each < said < 1.2 * each, (command, how, each, said)
        own = int(h.info("bloomgate_filters", "bloomgate_filter_bytes")) / n
        assert 0.6 * each < own < each, (command, how, each, own)


def test_a_dump_that_is_held_is_counted(h):
    h.ask("BF.RESERVE", "f", 0.01, 100000)
    before = h.ask("MEMORY", "USAGE", "f")
    h.ask("BG.DUMP", "f", 0, "SIZE", 1000)
    assert h.ask("MEMORY", "USAGE", "f") > 1.5 * before


def fragmented(h):
    return int(h.info("memory", "allocator_active")) - int(h.info("memory", "allocator_allocated"))


def test_defragmentation_keeps_all_and_frees_the_rest(h):
    answer = h.ask("CONFIG", "SET", "activedefrag", "yes")
    if isinstance(answer, Error):
        raise Skip("this server does not support defragmentation")
    h.ask("CONFIG", "SET", "activedefrag", "no")
    names = list(range(FILTERS))
    make(h, names)
    chance = random.Random(1)
    kept = sorted(chance.sample(names, FILTERS // KEPT))
    gone = [i for i in names if i not in set(kept)]
    with h.connect() as c:
        c.pipeline([("DEL", f"f{i}") for i in gone])
        digests = c.pipeline([("BG.DIGEST", f"f{i}") for i in kept])
    before = fragmented(h)
    assert before > 4 << 20, before
    for name, value in (("ignore-bytes", 100000), ("threshold-lower", 1), ("threshold-upper", 2),
                        ("cycle-min", 50), ("cycle-max", 75)):
        h.ask("CONFIG", "SET", f"active-defrag-{name}", value)
    h.ask("CONFIG", "SET", "activedefrag", "yes")
    wait_for(lambda: fragmented(h) < before // 4, what="the server to defragment")
    assert int(h.info("bloomgate_filters", "bloomgate_pieces_moved")) > len(kept)
    with h.connect() as c:
        assert c.pipeline([("BG.DIGEST", f"f{i}") for i in kept]) == digests
        assert all_there(h, kept)
        for turn in range(4):  # filters grow, are deleted and are created while the server defragments
            c.pipeline([("BF.MADD", f"f{i}", *range(turn * 400, turn * 400 + 400)) for i in kept[:200] if i % 4 != 3])
            c.pipeline([("CF.INSERT", f"f{i}", "ITEMS", *range(200)) for i in kept[:200] if i % 4 == 3])
            c.pipeline([("DEL", f"f{i}") for i in kept[-200:]])
            make(h, kept[-200:])
        grown = c.pipeline([("BF.MEXISTS", f"f{i}", *range(1600)) for i in kept[:200] if i % 4 != 3])
    assert all(sum(found) == 1600 for found in grown)
    assert all_there(h, kept)
    digest = h.ask("DEBUG", "DIGEST")
    h.ask("DEBUG", "RELOAD")
    assert h.ask("DEBUG", "DIGEST") == digest
    assert all_there(h, kept)
    h.ask("CONFIG", "SET", "activedefrag", "no")


redis_host.main(__doc__)
