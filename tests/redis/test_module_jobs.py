#!/usr/bin/env python3
"""Tests the background job that verifies and loads a large dump in a thread after its last chunk has been received.
While the job runs, the server's state changes: writes are paused, the server becomes a replica or shuts down, or the
key is modified.
usage: test_module_jobs.py PATH-OF-BLOOMGATE.SO [--server redis] [PART-OF-A-NAME...]"""

import os
import signal
import time

import redis_host
from redis_host import PATIENCE, Error, Host, alone, caught_up, free_port, replica_of, wait_for
from service import encode

LARGE = 8 << 20  # bytes; only dumps of at least 4 MiB are verified by the thread
PAUSE = 0.2      # how long to wait for something that must not happen, in seconds


def chunks_of(h, name="src"):
    """Returns a dump of a large filter. The last chunk is small enough for the server to read in one call."""
    assert h.ask("BG.CREATE", name, "KIND", "blocked", "BYTES", LARGE, "K", 8) == "OK"
    assert h.ask("BG.MADD", name, *range(1000)) == [1] * 1000
    cursor, chunks = 0, []
    while True:
        cursor, chunk = h.ask("BG.DUMP", name, cursor, "SIZE", LARGE)
        chunks.append(chunk)
        if cursor == 0:
            return chunks


def is_stopped(pid):
    """Returns whether all threads of a process are stopped by a signal."""
    states = []
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/stat", encoding="ascii") as file:
            states.append(file.read().rsplit(")", 1)[1].split()[0])
    return set(states) == {"T"}


class Race:
    """Loads all chunks except the last. The server then reads the last chunk and the given commands
    in the same iteration of its event loop, so the commands run after the verification thread has started, but before
    it can write its result. To make it read them together, the server is stopped while they are sent."""

    def __init__(self, h, chunks, *commands):
        for chunk in chunks[:-1]:
            assert isinstance(h.ask("BG.LOAD", "dst", chunk), list)
        self.loader, self.other = h.connect(), h.connect()
        # The connection served last can still be at the front of the server's ready list when the server stops. PINGing
        # the loader last therefore makes the server read it first after SIGCONT.
        for connection in self.other, self.loader:
            assert connection.ask("PING") == "PONG"
        h.process.send_signal(signal.SIGSTOP)
        try:
            wait_for(lambda: is_stopped(h.process.pid), what="the server to stop")
            self.loader.send(encode("BG.LOAD", "dst", chunks[-1]))
            self.other.send(b"".join(encode(*words) for words in commands))
        finally:
            h.process.send_signal(signal.SIGCONT)

    def replies(self, count):
        return [self.other.reply() for _ in range(count)]

    def loaded(self):
        return self.loader.reply()

    def close(self):
        for connection in (self.loader, self.other):
            connection.close()


def loads(h):
    return int(h.info("bloomgate", "bloomgate_background_loads"))


def is_unknown(h, name):
    """Returns whether the filter's content is unknown, in which case the filter answers "maybe" for every key."""
    return h.ask("BG.INFO", name)[1] == b"unknown" and h.ask("BG.EXISTS", name, "nothing") == 1


@alone
def test_the_secret_stays(pattern):
    """A loaded dump keeps its secret even if the last filter with that secret is deleted while the dump is being
    decoded."""
    with Host(pattern.program, pattern.module) as h:
        for i, delay in enumerate((0, 0.001, 0.002, 0.003, 0.005, 0.008, 0.012, 0.02)):
            h.ask("CONFIG", "SET", "bloomgate.secret", b"%032x" % (3 * i + 1))
            chunks = chunks_of(h)
            for more in (2, 3):  # two changes, because the server remembers the current and the previous secret
                h.ask("CONFIG", "SET", "bloomgate.secret", b"%032x" % (3 * i + more))
            race = Race(h, chunks, ("DEBUG", "SLEEP", delay), ("DEL", "src"))
            assert race.replies(2) == ["OK", 1]
            loaded = race.loaded()
            race.close()
            assert isinstance(loaded, list) or "secret" in str(loaded), loaded
            assert h.ask("DEBUG", "RELOAD") == "OK", delay
            assert h.ask("BG.MEXISTS", "dst", *range(1000)) == [1] * 1000
            h.ask("DEL", "dst")


@alone
def test_writes_are_paused(pattern):
    """Like a write command, the job waits until a pause (CLIENT PAUSE) ends, because the server aborts if data is
    replicated during a pause."""
    with Host(pattern.program, pattern.module, appendonly="yes") as h:
        chunks = chunks_of(h)
        race = Race(h, chunks, ("CLIENT", "PAUSE", 600000, "WRITE"))
        assert race.replies(1) == ["OK"]
        time.sleep(PAUSE)  # long enough to catch a job that ignores the pause
        assert h.ask("BG.EXISTS", "dst", "nothing") == 1, "the filter was written during the pause"
        assert h.ask("CLIENT", "UNPAUSE") == "OK"
        assert isinstance(race.loaded(), list)
        race.close()
        assert h.ask("BG.DIGEST", "dst") == h.ask("BG.DIGEST", "src")
        h.ask("DEL", "dst")
        race = Race(h, chunks, ("CLIENT", "PAUSE", 1000, "ALL"))
        assert isinstance(race.loaded(), list)
        race.close()
        digest = h.ask("BG.DIGEST", "src")
        assert h.ask("BG.DIGEST", "dst") == digest
        h.kill()
        h.start()
        assert h.ask("BG.DIGEST", "dst") == digest, "the AOF does not contain the filter"


@alone
def test_key_goes_during_the_pause(pattern):
    """If the key expires while the job is waiting for a pause to end, the load fails."""
    with Host(pattern.program, pattern.module, appendonly="yes") as h:
        race = Race(h, chunks_of(h), ("PEXPIRE", "dst", 50), ("CLIENT", "PAUSE", 600000, "WRITE"))
        assert race.replies(2) == [1, "OK"]
        wait_for(lambda: h.ask("EXISTS", "dst") == 0, what="the key to expire")
        assert isinstance(race.loaded(), Error)
        h.ask("CLIENT", "UNPAUSE")
        assert h.ask("EXISTS", "dst") == 0
        race.close()


@alone
def test_windows_stand_still_during_a_pause(pattern):
    """During a pause, a query that would otherwise rotate a window does not rotate it, whether it runs alone or in a
    script."""
    with Host(pattern.program, pattern.module, appendonly="yes") as h:
        assert h.ask("BG.CREATE", "w", "KIND", "window", "CAPACITY", 100, "WINDOW", 10) == "OK"
        h.ask("CLIENT", "PAUSE", 600000, "WRITE")
        for _ in range(5):
            time.sleep(0.005)
            assert not isinstance(h.ask("BG.EXISTS", "w", "a"), Error)
            assert not isinstance(h.ask("EVAL_RO", "return redis.call('BG.EXISTS', KEYS[1], 'a')", 1, "w"), Error)
        h.ask("CLIENT", "UNPAUSE")


@alone
def test_shutdown_while_loading(pattern):
    """A shutdown that waits for a replica freezes the dataset and then saves it, so the job cannot write its result."""
    with Host(pattern.program, pattern.module, save="3600 1000000", shutdown_timeout=1) as h:
        replica = replica_of(h)
        try:
            chunks = chunks_of(h)
            h.ask("SET", "precious", "x")
            caught_up(h, replica)
            replica.process.send_signal(signal.SIGSTOP)
            race = Race(h, chunks, ("SET", "more", "x"), ("SHUTDOWN", "SAVE"))
            assert h.process.wait(PATIENCE) == 0, h.read_log()[-5000:]
            race.close()
        finally:
            replica.process.send_signal(signal.SIGCONT)
            replica.kill()
            replica.remove()
        h.check_log()
        assert os.path.exists(os.path.join(h.folder, "dump.rdb"))
        h.start()
        assert h.ask("MGET", "precious", "more") == [b"x", b"x"]
        assert h.ask("BG.EXISTS", "src", 7) == 1 and is_unknown(h, "dst")


@alone
def test_becomes_a_replica(pattern):
    """If the primary becomes a replica during a job, the job's result is discarded, even if the server becomes a
    primary again."""
    with Host(pattern.program, pattern.module) as h:
        chunks = chunks_of(h)
        gone = ("REPLICAOF", "127.0.0.1", free_port())
        back = ("REPLICAOF", "NO", "ONE")
        for commands in ((gone,), (gone, back), (gone, back, gone, back)):
            before = loads(h)
            race = Race(h, chunks, *commands)
            assert race.replies(len(commands)) == ["OK"] * len(commands)
            wait_for(lambda n=before: loads(h) > n, what="the thread")
            assert is_unknown(h, "dst")
            assert isinstance(race.loaded(), Error)
            race.close()
            h.ask(*back)
            for chunk in chunks:
                answer = h.ask("BG.LOAD", "dst", chunk)
                assert isinstance(answer, list), answer
            assert h.ask("BG.DIGEST", "dst") == h.ask("BG.DIGEST", "src"), "the dump could not be loaded again"
            h.ask("DEL", "dst")


@alone
def test_failover_while_loading(pattern):
    """Checks that the old and the new primary have the same data after a failover during a load."""
    with Host(pattern.program, pattern.module, repl_backlog_size="64mb") as a:
        b = replica_of(a, repl_backlog_size="64mb")
        try:
            chunks = chunks_of(a)
            caught_up(a, b)
            before = loads(a)
            race = Race(a, chunks, ("FAILOVER", "TIMEOUT", 60000))
            assert race.replies(1) == ["OK"]
            wait_for(lambda: b.ask("ROLE")[0] == b"master", what="the failover")
            wait_for(lambda: a.info("replication", "master_link_status") == "up", what="the link")
            wait_for(lambda: loads(a) > before, what="the thread")
            race.close()
            caught_up(b, a)
            assert a.ask("BG.INFO", "dst") == b.ask("BG.INFO", "dst")
            assert is_unknown(a, "dst") and is_unknown(b, "dst")
            for chunk in chunks:
                assert isinstance(b.ask("BG.LOAD", "dst", chunk), list)
            caught_up(b, a)
            assert a.ask("BG.DIGEST", "dst") == b.ask("BG.DIGEST", "dst") == b.ask("BG.DIGEST", "src")
        finally:
            b.kill()
            b.remove()


def test_key_changes_while_loading(h):
    """If the key is deleted, replaced, renamed or moved during the job, or if it expires, the result is discarded."""
    chunks = chunks_of(h)
    digest = h.ask("BG.DIGEST", "src")
    expires = (("PEXPIRE", "dst", 1), ("DEBUG", "SLEEP", 0.01))
    changes = ((("DEL", "dst"),), (("UNLINK", "dst"),), (("SET", "dst", "x"),), (("RENAME", "dst", "other"),),
               (("SWAPDB", 0, 1),), (("MOVE", "dst", 1),), (("COPY", "src", "dst", "REPLACE"),), expires,
               (("DEL", "dst"), ("BF.RESERVE", "dst", 0.01, 100)), (("BG.DROP", "dst"),), (("FLUSHALL",),))
    for commands in changes:
        race = Race(h, chunks, *commands)
        answers = race.replies(len(commands))
        assert not any(isinstance(answer, Error) for answer in answers), (commands, answers)
        answer = race.loaded()
        assert isinstance(answer, Error) and "load it again" in str(answer), (commands, answer)
        race.close()
        name = commands[0][0]
        if name == "SET":
            assert h.ask("GET", "dst") == b"x"
        elif name == "COPY":
            assert h.ask("BG.DIGEST", "dst") == digest
        elif len(commands) == 2 and name == "DEL":
            assert h.ask("BF.INFO", "dst", "CAPACITY") in (100, [100])
        else:
            assert h.ask("EXISTS", "dst") == 0, commands
        if name == "RENAME":
            assert is_unknown(h, "other")
        if name == "SWAPDB":
            h.ask("SWAPDB", 0, 1)
            assert is_unknown(h, "dst")
        h.ask("DEL", "dst", "other")
        h.ask("SELECT", 1)
        h.ask("FLUSHDB")
        h.ask("SELECT", 0)


def test_last_chunk_where_clients_cannot_wait(h):
    """In MULTI and in scripts, the dump is loaded synchronously."""
    chunks = chunks_of(h)
    digest, before = h.ask("BG.DIGEST", "src"), loads(h)
    for way in ("MULTI", "EVAL"):
        for chunk in chunks[:-1]:
            h.ask("BG.LOAD", "dst", chunk)
        if way == "MULTI":
            h.ask("MULTI")
            h.ask("BG.LOAD", "dst", chunks[-1])
            assert isinstance(h.ask("EXEC")[0], list)
        else:
            assert isinstance(h.ask("EVAL", "return redis.call('BG.LOAD', KEYS[1], ARGV[1])", 1, "dst", chunks[-1]), list)
        assert h.ask("BG.DIGEST", "dst") == digest
        h.ask("DEL", "dst")
    assert loads(h) == before


redis_host.main(__doc__)
