#!/usr/bin/env python3
"""Tests consistency. After every write command, each filter has the same digest and the same statistics on the primary,
on a replica with a different configuration, on servers that load the primary's RDB and AOF files, and after DUMP and
RESTORE. Commands that change nothing are neither written to the AOF nor sent to replicas.
usage: test_module_same.py PATH-OF-BLOOMGATE.SO [--server redis] [PART-OF-A-NAME...]"""

import shlex
import struct
import time

import redis_host
from redis_host import Error, Host, alone, caught_up, replica_of, wait_for
from service import work

# The commands to run. After each line, every filter is compared across the servers. "LOAD:from:to" dumps a filter and
# loads it under another name; "BIG:n" stands for n items. A rebuild runs in one transaction, because it would not
# survive the reloads between lines.
STORIES = {
    "bloom": """
        BF.ADD default a
        BF.ADD default a
        BF.MADD default a b c
        BF.RESERVE grows 0.01 100
        BF.MADD grows BIG:50
        BF.MADD grows BIG:700
        BF.ADD grows x
        BF.INSERT inserted CAPACITY 50 ERROR 0.001 ITEMS a b c
        BF.INSERT inserted ITEMS BIG:300
        BF.INSERT inserted NOCREATE ITEMS d
        BF.RESERVE fixed 0.01 10 NONSCALING
        BF.MADD fixed BIG:30
        BF.ADD fixed y
        LOAD:grows:again
        BF.ADD again z
        LOAD:fixed:fixedtoo
        BF.MADD fixedtoo BIG:20
        EXPIRE again 1000
        BG.CLEAR again
        BF.ADD again a
        COPY grows grows2
        BF.ADD grows2 only-there
        RENAME grows2 grows3
        BF.ADD grows3 q""",
    "seeded": """
        BF.INSERT k CAPACITY 50 ERROR 0.01 TIGHTENING 0.5 SEED 0123456789abcdef0123456789abcdef EXPANSION 2 ITEMS a b
        BF.ADD k c
        BF.MADD k a BIG:400
        BF.INSERT k ITEMS d e
        BF.INSERT full CAPACITY 10 ERROR 0.4 TIGHTENING 0.5 SEED 0123456789abcdef0123456789abcdef NONSCALING
        BF.MADD full BIG:30
        BF.INSERT ours CAPACITY 10 TIGHTENING 0.3
        BF.MADD ours BIG:30
        COPY k copy
        BF.ADD copy f
        BG.CLEAR k
        BF.ADD k a""",
    "cuckoo": """
        CF.ADD default a
        CF.ADD default a
        CF.ADDNX default a
        CF.ADDNX default b
        CF.DEL default a
        CF.DEL default nosuch
        CF.RESERVE small 64 EXPANSION 1
        CF.INSERT small ITEMS BIG:500
        CF.INSERTNX small ITEMS BIG:600
        CF.DEL small 1
        CF.RESERVE strict 64 EXPANSION 0
        CF.INSERT strict ITEMS BIG:200
        CF.COMPACT small
        DEL small
        CF.RESERVE shrinks 64 EXPANSION 1
        CF.INSERT shrinks ITEMS BIG:300
        UNADD:shrinks:290
        CF.COMPACT shrinks
        CF.ADD shrinks z
        LOAD:default:again
        CF.ADD again c""",
    "gates": """
        BG.CREATE plain KIND blocked CAPACITY 1000 ERROR 0.01
        BG.MADD plain BIG:400
        BG.CREATE other KIND blocked CAPACITY 1000 ERROR 0.01
        BG.MADD other c d e
        BG.MERGE plain other
        BG.MERGE merged plain other
        BG.ADD merged f
        BG.CREATE folds KIND blocked CAPACITY 1000 ERROR 0.01 FOLDS 3
        BG.MADD folds BIG:400
        BG.FOLD folds
        BG.FOLD folds 2
        BG.ADD folds z
        BG.CLEAR folds
        BG.CREATE counts KIND counting CAPACITY 500 ERROR 0.01
        BG.MADD counts BIG:100
        BG.DEL counts 7
        BG.DEL counts nosuch
        BG.DEL counts 8 IF 1
        BG.CREATE cuckoo KIND cuckoo CAPACITY 500 ERROR 0.01
        BG.MADD cuckoo BIG:300
        BG.DEL cuckoo 3
        BG.CREATE seeded KIND split CAPACITY 500 ERROR 0.01 HASH fast SEED 7
        BG.MADD seeded BIG:300
        BG.CREATE sharded KIND blocked CAPACITY 5000 ERROR 0.01 SHARDS 4
        BG.MADD sharded BIG:1200
        MULTI
        BG.REBUILD plain BEGIN 5000
        BG.ADD plain meanwhile
        BG.REBUILD plain ADD BIG:400
        BG.REBUILD plain COMMIT
        EXEC
        BG.ADD plain after
        BG.REBUILD counts BEGIN 2000
        BG.REBUILD counts ABORT
        BG.MERGE counts plain
        BG.MERGE plain nosuch
        LOAD:counts:again
        BG.DEL again 9
        BG.DROP again
        BG.DROP again
        BG.CLEAR plain""",
    "windows": """
        BG.CREATE timed KIND window CAPACITY 1000 WINDOW 40000000000 GENERATIONS 4
        BG.ADD timed a
        BG.ROTATE timed
        BG.MADD timed c d
        BG.CREATE rebuilt KIND window CAPACITY 1000 WINDOW 400000000
        BG.MADD rebuilt a b
        MULTI
        BG.REBUILD rebuilt BEGIN 2000
        BG.ADD rebuilt meanwhile
        BG.REBUILD rebuilt ADD a b
        BG.REBUILD rebuilt COMMIT
        EXEC
        BG.ADD rebuilt after
        BG.CREATE counted KIND window CAPACITY 1000 COUNT 50
        BG.MADD counted BIG:120
        BG.ADD counted x
        BG.CREATE byhand KIND window CAPACITY 1000 MANUAL
        BG.ADD byhand a
        BG.ROTATE byhand
        BG.ADD byhand b
        BG.ROTATE byhand
        BG.CREATE aged KIND window CAPACITY 1000 COUNT 50 AGED
        BG.MADD aged BIG:120
        LOAD:timed:again
        BG.ADD again x""",
    "transactions": """
        MULTI
        BF.ADD k a
        BF.MADD k b c d
        CF.ADD c a
        EXEC
        MULTI
        BG.DROP k
        BF.ADD k z
        EXEC
        EVAL "redis.call('BF.ADD', KEYS[1], ARGV[1]); return redis.call('BF.MADD', KEYS[1], ARGV[1], ARGV[2])" 1 k x y
        DEL c
        FLUSHALL
        BF.ADD k a""",
}

FIGURES = (b"kind", b"family", b"capacity", b"items", b"deleted", b"layers", b"loading", b"window_moved")


def words_of(line):
    words = []
    for word in shlex.split(line):
        if word.startswith("BIG:"):
            words += [str(i) for i in range(int(word[4:]))]
        else:
            words.append(word)
    return words


def facts(host):
    """Returns the digest and statistics of every filter on a server, by name, without modifying the filters."""
    found = {}
    names = sorted(host.ask("KEYS", "*"))
    answers = host.connection.pipeline([words for name in names for words in
                                        (("BG.INFO", name), ("BG.DIGEST", name), ("TTL", name))])
    for i, name in enumerate(names):
        reply, digest, ttl = answers[3 * i:3 * i + 3]
        if isinstance(reply, Error):
            found[name] = str(reply)
            continue
        about = dict(zip(reply[::2], reply[1::2]))
        about[b"loading"] = max(about[b"loading"], about[b"lost"])  # only the primary reports a load in progress
        found[name] = [digest, *(about.get(figure) for figure in FIGURES), ttl > 0]
    return found


def dump(host, name):
    """Returns all chunks that BG.DUMP produces."""
    chunks, cursor = [], 0
    while True:
        reply = host.ask("BG.DUMP", name, cursor, "SIZE", 1000)
        assert not isinstance(reply, Error), reply
        cursor, chunk = reply
        chunks.append(chunk)
        if cursor == 0:
            return chunks


def load(host, origin, name, compare):
    for i, chunk in enumerate(dump(host, origin)):
        reply = host.ask("BG.LOAD", name, chunk)
        assert not isinstance(reply, Error), reply
        if i == 0:
            compare(f"the first chunk of {name}")


def step(host, line, compare):
    kind, *rest = line.split(":") if line[:4].isupper() else (line,)
    if kind == "LOAD":
        load(host, rest[0], rest[1], compare)
    elif kind == "UNADD":
        for i in range(int(rest[1])):
            assert host.ask("CF.DEL", rest[0], i) == 1
    else:
        host.ask(*words_of(line))


def restored(host, other):
    """Copies all filters from one server to another with DUMP and RESTORE, and returns facts() of the other server."""
    other.ask("FLUSHALL")
    for name in host.ask("KEYS", "*"):
        reply = other.ask("RESTORE", name, 0, host.ask("DUMP", name))
        assert reply == "OK", reply
        ttl = host.ask("TTL", name)
        if ttl > 0:
            other.ask("EXPIRE", name, ttl)
    return facts(other)


def tell(story, line, what, expected, found):
    differ = {name: (expected.get(name), found.get(name))
              for name in {*expected, *found} if expected.get(name) != found.get(name)}
    assert not differ, f"{story}, after '{line}': {what} has different filters: {differ}"


def check_story(pattern, story, preamble):
    options = {"appendonly": "yes", "appendfsync": "no", "aof_use_rdb_preamble": preamble}
    primary = Host(pattern.program, pattern.module, **options)
    other = Host(pattern.program, pattern.module, ["bf-initial-size", 999])
    try:
        primary.start()
        other.start()
        replica = replica_of(primary, "bf-error-rate", 0.2, "bf-initial-size", 7, "cf-initial-size", 4,
                             "cf-max-expansions", 1, "max-filter-memory", 100, "hash", "fast", **options)
        try:
            follow_story(story, primary, replica, other)
            primary.stop()
            replica.stop()
            other.stop()
        finally:
            replica.kill()
            replica.remove()
    finally:
        for host in (primary, other):
            host.kill()
            host.remove()


def follow_story(story, primary, replica, other):
    queued = False

    def compare(line):
        expected = facts(primary)
        caught_up(primary, replica)
        tell(story, line, "the replica", expected, facts(replica))
        tell(story, line, "DUMP and RESTORE", expected, restored(primary, other))
        return expected

    for number, line in enumerate(STORIES[story].strip().splitlines()):
        line = line.strip()
        step(primary, line, compare)
        queued = (queued or line == "MULTI") and line != "EXEC"
        if queued:
            continue
        expected = compare(line)
        hosts = [(primary, "primary"), (replica, "replica")]
        for command in (("DEBUG", "RELOAD"), ("DEBUG", "LOADAOF")):
            for host, name in hosts if number % 4 == 3 or work(1) > 1 else hosts[:1]:
                reply = host.ask(*command)
                assert reply == "OK", f"{line}: {command} {reply}"
                tell(story, line, f"the {name} after {' '.join(command)}", expected, facts(host))
    rewrite(primary)
    tell(story, "the end", "the rewritten AOF", facts(primary), restarted(primary))


def rewrite(host):
    assert not isinstance(host.ask("BGREWRITEAOF"), Error)
    wait_for(lambda: host.info("persistence", "aof_rewrite_in_progress") == "0"
             and host.info("persistence", "aof_rewrite_scheduled") == "0", what="the rewrite")
    assert host.info("persistence", "aof_last_bgrewrite_status") == "ok"


def restarted(host):
    """Kills the server, restarts it from its AOF, and returns its facts()."""
    host.kill()
    host.start()
    return facts(host)


@alone
def test_bloom(pattern):
    check_story(pattern, "bloom", "no")


@alone
def test_seeded(pattern):
    check_story(pattern, "seeded", "no")


@alone
def test_cuckoo(pattern):
    check_story(pattern, "cuckoo", "yes")


@alone
def test_gates(pattern):
    check_story(pattern, "gates", "no")


@alone
def test_windows(pattern):
    check_story(pattern, "windows", "yes")


@alone
def test_windows_move(pattern):
    """A query on the primary rotates a window on the primary and the replica. A query on the replica does not rotate
    the window."""
    with Host(pattern.program, pattern.module) as host:
        replica = replica_of(host)
        try:
            host.ask("BG.CREATE", "w", "KIND", "window", "CAPACITY", 1000, "WINDOW", 300, "GENERATIONS", 4)
            assert host.ask("BG.ADD", "w", "a") == 1
            caught_up(host, replica)
            start = facts(replica)
            wait_for(lambda: host.ask("BG.EXISTS", "w", "a") == 0, what="the window to forget the key")
            assert host.ask("BG.EXISTS", "w", "a") == 0
            caught_up(host, replica)
            assert replica.ask("BG.EXISTS", "w", "a") == 0
            moved = facts(replica)
            assert moved != start
            second = int(replica.ask("TIME")[0])
            wait_for(lambda: int(replica.ask("TIME")[0]) > second + 1, what="a second")
            assert facts(replica) == moved, "the replica rotated its window by itself"
        finally:
            replica.kill()
            replica.remove()


@alone
def test_windows_of_a_late_replica(pattern):
    """If a replica loads a window after some rotations, the replica's window then rotates together with the primary's,
    and the two stay identical."""
    with Host(pattern.program, pattern.module) as host:
        for kind in ((), ("AGED",)):
            host.ask("DEL", "w")
            host.ask("BG.CREATE", "w", "CAPACITY", 1000, "WINDOW", 1500, "GENERATIONS", 5, *kind)
            host.ask("BG.ADD", "w", "a")
            start = period(host)
            wait_for(lambda: period(host) > start, what="a period to end")
            replica = replica_of(host)
            try:
                caught_up(host, replica)
                for _ in range(6):
                    wait_for(lambda: is_same_in_period(host, replica), what="a comparison within one period")
            finally:
                replica.kill()
                replica.remove()


def is_same_in_period(host, replica):
    """Waits for the next period and compares the replica with its primary. Returns False if the period has ended
    before the comparison, which can happen on a busy machine."""
    last = period(host)
    wait_for(lambda: period(host) > last, what="a period to end")
    start = period(host)
    host.ask("BG.ADD", "w", start)
    expected = within_period(facts(host))
    caught_up(host, replica)
    found = within_period(facts(replica))
    if period(host) != start:
        return False
    tell("windows", f"period {start}", "the replica", expected, found)
    return True


def within_period(found):
    """Returns the digests and statistics without the time of the last rotation. This time can be later on a replica
    than on the primary, but is within the same period."""
    moved = FIGURES.index(b"window_moved") + 1
    return {name: fact[:moved] + fact[moved + 1:] for name, fact in found.items()}


def period(host):
    """Returns the index of the window's current period. Uses BG.ROTATE, which does not advance a window that rotates
    by the clock."""
    reply = host.ask("BG.ROTATE", "w")
    assert not isinstance(reply, Error), reply
    return reply


@alone
def test_windows_reloaded_often(pattern):
    """A window forgets keys even if it is reloaded several times in every period."""
    with Host(pattern.program, pattern.module) as host:
        host.ask("BG.CREATE", "w", "CAPACITY", 1000, "WINDOW", 1000, "GENERATIONS", 5)
        host.ask("BG.ADD", "w", "old")

        def forgotten():
            assert host.ask("DEBUG", "RELOAD") == "OK"
            for i in range(5):
                host.ask("BG.ADD", "w", i)
                time.sleep(0.02)
            return host.ask("BG.EXISTS", "w", "old") == 0

        wait_for(forgotten, what="the window to forget its keys")


@alone
def test_transactions(pattern):
    check_story(pattern, "transactions", "no")


@alone
def test_nothing_is_written_for_nothing(pattern):
    """Repeated adds of an existing key, queries, and refused commands are neither written to the AOF nor sent to
    replicas."""
    host = Host(pattern.program, pattern.module, appendonly="yes", appendfsync="always")
    with host:
        replica = replica_of(host, repl_ping_replica_period=3600)
        try:
            host.ask("CONFIG", "SET", "repl-ping-replica-period", 3600)
            for command in ("BF.ADD", "BF.RESERVE r 0.01 5 NONSCALING", "BG.CREATE g KIND blocked CAPACITY 100",
                            "BG.CREATE m KIND classic CAPACITY 100 ERROR 0.01 OVERFILL"):
                name = command.split()[1] if " " in command else "k"
                if " " in command:
                    assert host.ask(*command.split()) == "OK"
                assert host.ask("BF.ADD", name, "a") == 1
            host.ask("BF.MADD", "r", "a", "b", "c", "d", "e")
            assert host.ask("BF.LOADCHUNK", "f", 1, struct.pack("<QIIIQQQddIQB", 0, 1, 4, 2, 16, 128, 0, 0.01, 9.585, 7, 10,
                                                                0)) == "OK"
            assert host.ask("BF.LOADCHUNK", "f", 17, bytes(16)) == "OK"  # an empty RedisBloom filter
            assert host.ask("BF.ADD", "f", "a") == 1
            caught_up(host, replica)
            before = (int(host.info("persistence", "aof_current_size")),
                      int(host.info("replication", "master_repl_offset")))
            c = host.connect()
            for name in ("k", "r", "g", "m", "f"):
                assert c.pipeline([("BF.ADD", name, "a")] * 500) == [0] * 500
            for words in (("BF.MADD", "k", "a", "a"), ("BF.EXISTS", "k", "a"), ("BF.ADD", "r", "full"),
                          ("BG.INFO", "k"), ("BF.INSERT", "k", "ITEMS", "a"), ("CF.DEL", "nosuch", "a"),
                          ("BG.DROP", "nosuch"), ("BG.DUMP", "k", 0), ("BF.RESERVE", "k", "0.01", "10"),
                          ("BG.MERGE", "k", "nosuch"), ("BG.FOLD", "k", 21), ("BG.DIGEST", "k")):
                c.ask(*words)
            c.close()
            after = (int(host.info("persistence", "aof_current_size")),
                     int(host.info("replication", "master_repl_offset")))
            assert after == before, f"{before} -> {after}"
        finally:
            replica.kill()
            replica.remove()


redis_host.main(__doc__)
