#!/usr/bin/env python3
"""Tests the module as a drop-in replacement for RedisBloom and valkey-bloom: their configuration
files, the replication stream and append-only files of a primary with valkey-bloom, and the replies
that their clients expect.
usage: test_module_dropin.py PATH-OF-BLOOMGATE.SO [--server redis] [PART-OF-A-NAME...]"""

import math
import os
import socket
import struct
import threading

import redis_host
from redis_host import Error, Host, alone, caught_up, replica_of, wait_for
from service import encode

# ---- Configuration -------------------------------------------------------------------------------

VALKEY_FILE = {"bf.bloom-capacity": "1000", "bf.bloom-fp-rate": "0.001", "bf.bloom-expansion": "4",
               "bf.bloom-memory-usage-limit": "134217728", "bf.bloom-tightening-ratio": "0.4",
               "bf.bloom-use-random-seed": "no", "bf.bloom-defrag-enabled": "no"}
REDIS_FILE = {"bf-error-rate": "0.002", "bf-initial-size": "321", "bf-expansion-factor": "4", "cf-bucket-size": "3",
              "cf-initial-size": "2048", "cf-max-iterations": "30", "cf-expansion-factor": "2", "cf-max-expansions": "9"}


def config(host, name):
    reply = host.ask("CONFIG", "GET", name)
    return reply[1].decode() if reply else None


def module_names(host):
    return [dict(zip(row[::2], row[1::2]))[b"name"] for row in host.ask("MODULE", "LIST")]


def check_values(host, values, prefix=""):
    for name, value in values.items():
        assert config(host, prefix + name) == value, name


@alone
def test_file_of_valkey_bloom(pattern):
    """If only the loadmodule line of a valkey-bloom configuration file is changed, the server starts with the same
    settings, even after CONFIG REWRITE. The type name does not depend on the module name."""
    with Host(pattern.program, pattern.module, ["name", "bf"], **VALKEY_FILE) as h:
        check_values(h, VALKEY_FILE)
        assert b"bf" in module_names(h) and b"bloomgate" not in module_names(h)
        assert h.ask("BF.ADD", "k", "a") == 1
        assert h.ask("BF.INFO", "k", "CAPACITY") == [1000] and h.ask("BF.INFO", "k", "EXPANSION") == [4]
        assert float(h.ask("BF.INFO", "k", "ERROR")[0]) == 0.001
        assert h.ask("BF.RESERVE", "large", 0.001, 10**9).startswith("ERR Insufficient memory")
        assert h.ask("TYPE", "k") == "bloomgate"
        assert h.info("bf", "bf_filters") == "1"
        assert dict(zip(*[iter(h.ask("COMMAND", "DOCS", "BF.ADD")[1])] * 2))[b"module"] == b"bf"
        for name, wrong in (("bloom-use-random-seed", "maybe"), ("bloom-tightening-ratio", "1"), ("bloom-fp-rate", "0"),
                            ("bloom-capacity", "0"), ("bloom-defrag-enabled", "2")):
            assert isinstance(h.ask("CONFIG", "SET", "bf." + name, wrong), Error), name
        h.ask("CONFIG", "SET", "bf.bloom-expansion", 4294967295, "bf.bloom-capacity", 2**40)
        assert h.ask("CONFIG", "REWRITE") == "OK" and h.ask("SAVE") == "OK"
        rewritten = os.path.join(h.folder, "server.conf")
        h.configure = lambda: rewritten  # starts from the rewritten file, with the same port
        h.restart()
        check_values(h, {**VALKEY_FILE, "bf.bloom-expansion": "4294967295", "bf.bloom-capacity": str(2**40)})
        assert h.ask("BF.EXISTS", "k", "a") == 1


@alone
def test_file_of_redisbloom(pattern):
    """RedisBloom's option names work without a prefix in Redis 8, with the module's prefix in all servers, and as
    module arguments."""
    with Host(pattern.program, pattern.module) as h:
        plain = config(h, "bf-error-rate") is not None
        assert plain == (is_redis(h) and version(h) >= (8,)), "expected names without a prefix only in Redis 8"
    for name, prefix in (("bf", "bf."), ("bloomgate", "bloomgate."), ("bf", "")):
        if prefix or plain:
            lines = {prefix + setting: value for setting, value in REDIS_FILE.items()}
            with Host(pattern.program, pattern.module, ["name", name], **lines) as h:
                check_values(h, REDIS_FILE, prefix)
                check_values(h, REDIS_FILE, name + ".")
                h.ask("BF.ADD", "k", "a")
                assert h.ask("BF.INFO", "k", "CAPACITY") == [321]
    with Host(pattern.program, pattern.module, ["NAME", "BF", "ERROR_RATE", 0.002, "INITIAL_SIZE", 321,
                                                "CF_MAX_EXPANSIONS", 9]) as h:
        check_values(h, {"bf-error-rate": "0.002", "bf-initial-size": "321", "cf-max-expansions": "9"}, "bf.")
        check_replica_of_another_name(h)


def check_replica_of_another_name(h):
    h.ask("BF.ADD", "before", "a")
    replica = replica_of(h)
    try:
        assert b"bloomgate" in module_names(replica)
        h.ask("BF.MADD", "after", "a", "b")
        caught_up(h, replica)
        for name in ("before", "after"):
            assert replica.ask("BG.DIGEST", name) == h.ask("BG.DIGEST", name), name
    finally:
        replica.kill()
        replica.remove()


@alone
def test_names_that_are_not(pattern):
    for wrong in (["name", "redisbloom"], ["name"]):
        h = Host(pattern.program, pattern.module, wrong)
        try:
            h.launch()
            assert h.wait() != 0
            assert "argument 'name'" in h.read_log(), h.read_log()
        finally:
            h.kill()
            h.remove()
    with Host(pattern.program, pattern.module, ["name", "bf"], enable_module_command="yes") as h:
        assert isinstance(h.ask("MODULE", "LOAD", h.module, "name", "bf"), Error)
        assert isinstance(h.ask("MODULE", "LOAD", h.module), Error)
        assert h.ask("BF.ADD", "k", "a") == 1 and module_names(h).count(b"bf") == 1


def is_redis(h):
    return "valkey_version" not in h.ask("INFO", "server").decode()


def version(h):
    return tuple(int(part) for part in h.info("server", "redis_version").split("."))


# ---- Streams of valkey-bloom ------------------------------------------------------------------------

SEED = bytes((11 * i + 5) & 255 for i in range(32))
FIXED_SEED = bytes((89, 15, 245, 34, 234, 120, 17, 218, 167, 20, 216, 9, 59, 62, 123, 217, 29, 137, 138, 115, 62, 152, 136,
                    135, 48, 127, 151, 205, 40, 7, 51, 131))


def empty_dump(capacity, rate, tightening, expansion, seed):
    """Returns an empty filter in the format that valkey-bloom writes for BF.LOAD."""
    n = math.ceil(capacity * math.log(rate) / (-8 * math.log(2) ** 2))
    k = max(1, round(8 * n / capacity * math.log(2)))
    bloom = b"\x01" + struct.pack("<QI", n, k) + seed + bytes(n)
    return (b"\x01" + struct.pack("<IddBQQ", expansion, rate, tightening, seed != FIXED_SEED, 1, len(bloom)) + bloom
            + struct.pack("<qq", 0, capacity))


FILTERS = {"plain": (100, 0.01, 0.5, 2, SEED), "wide": (10, 0.4, 0.9, 100000, SEED), "tight": (50, 0.001, 0.1, 3, FIXED_SEED),
           "full": (20, 0.01, 0.5, 0, SEED), "small": (1, 0.99, 0.5, 1, SEED)}


def items_of(name, n, word="item"):
    return [f"{name}:{word}:{i}" for i in range(n)]


def creation(name, items):
    """Returns the command that a valkey-bloom primary sends to replicate a new filter."""
    capacity, rate, tightening, expansion, seed = FILTERS[name]
    grows = ("EXPANSION", expansion) if expansion else ("NONSCALING",)
    return ("BF.INSERT", name, "CAPACITY", capacity, "ERROR", f"{rate:f}", "TIGHTENING", tightening, "SEED", seed, *grows,
            *(("ITEMS", *items) if items else ()))


def stream():
    """Yields the commands in a valkey-bloom primary's replication stream: new filters with and without items, and adds
    in the form in which clients sent them."""
    for number, name in enumerate(FILTERS):
        yield creation(name, items_of(name, 5) if number % 2 else ())
        yield ("BF.MADD", name, *items_of(name, 30))
        yield ("BF.ADD", name, f"{name}:one")
        yield ("BF.INSERT", name, "CAPACITY", 7, "ITEMS", *items_of(name, 250, "more"))


def expected_digests(h):
    """Loads empty filters with BF.LOAD, adds the items in the stream, and returns the digests."""
    h.ask("FLUSHALL")
    for number, (name, shape) in enumerate(FILTERS.items()):
        assert h.ask("BF.LOAD", name, empty_dump(*shape)) == "OK", name
        if number % 2:
            h.ask("BF.MADD", name, *items_of(name, 5))
        h.ask("BF.MADD", name, *items_of(name, 30))
        h.ask("BF.ADD", name, f"{name}:one")
        h.ask("BF.MADD", name, *items_of(name, 250, "more"))
    return digests(h)


def digests(h):
    return {name: (h.ask("BG.DIGEST", name), h.ask("BF.INFO", name)) for name in FILTERS}


class Primary:
    """A fake primary that handles a replica's handshake, sends an empty RDB file, and then sends a replication
    stream."""

    def __init__(self, commands):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.data = encode("SELECT", 0) + b"".join(encode(*words) for words in commands)
        self.wrong = None
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        try:
            link, _ = self.socket.accept()
            with link, link.makefile("rb") as file:
                while not self.greet(link, file):
                    pass
                while file.read(4096):  # reads the replica's acknowledgments until it disconnects
                    pass
        except OSError as error:
            self.wrong = error

    def greet(self, link, file):
        """Handles one command from the replica. Returns true once the stream has been sent."""
        count = int(file.readline()[1:])
        words = [file.read(int(file.readline()[1:]) + 2)[:-2] for _ in range(count)]
        if words[0].upper() != b"PSYNC":
            link.sendall(b"+PONG\r\n" if words[0].upper() == b"PING" else b"+OK\r\n")
            return False
        rdb = b"REDIS0009\xff" + bytes(8)
        link.sendall(b"+FULLRESYNC %s 0\r\n$%d\r\n%s" % (b"a" * 40, len(rdb), rdb) + self.data)
        return True

    def close(self):
        self.socket.close()


@alone
def test_follows_valkey_bloom(pattern):
    """If a primary uses valkey-bloom and its replica uses this module, the replica's filters are bit-for-bit identical
    to the primary's. The replica can take over as the primary."""
    with Host(pattern.program, pattern.module) as other:
        expected = expected_digests(other)
    primary = Primary([*stream(), ("SET", "done", "1")])
    try:
        with Host(pattern.program, pattern.module, ["max-filter-memory", 1], appendonly="yes",
                  replicaof=f"127.0.0.1 {primary.port}") as h:
            wait_for(lambda: h.ask("GET", "done") == b"1", what=f"the replication stream (primary's error: {primary.wrong})")
            assert digests(h) == expected
            for name in FILTERS:
                assert h.ask("BF.MEXISTS", name, *items_of(name, 5)) == [1] * 5
            assert h.ask("REPLICAOF", "NO", "ONE") == "OK"
            wait_for(lambda: h.info("persistence", "aof_rewrite_in_progress") == "0", what="its first AOF")
            del h.options["replicaof"]
            h.restart()
            assert digests(h) == expected, "the append-only file contains different filters"
            assert h.ask("BF.ADD", "tight", "later") == 1
    finally:
        primary.close()


@alone
def test_append_only_file_of_valkey_bloom(h):
    """Loads an append-only file from a server with valkey-bloom. The file starts with a BF.LOAD command, as after a
    rewrite, followed by the commands that valkey-bloom primaries replicate."""
    with Host(h.program, h.module) as other:
        expected = expected_digests(other)
        loaded = other.ask("BG.DIGEST", "plain")
        dump = empty_dump(*FILTERS["plain"])
    folder = os.path.join(h.folder, "appendonlydir")
    os.mkdir(folder)
    with open(os.path.join(folder, "appendonly.aof.manifest"), "w", encoding="utf-8") as file:
        file.write("file appendonly.aof.1.incr.aof seq 1 type i\n")
    with open(os.path.join(folder, "appendonly.aof.1.incr.aof"), "wb") as file:
        file.write(encode("SELECT", 0) + encode("BF.LOAD", "loaded", dump))
        for name, n, word in (("plain", 30, "item"), ("plain", 0, ""), ("plain", 250, "more")):
            file.write(encode("BF.MADD", "loaded", *items_of(name, n, word)) if n else encode("BF.ADD", "loaded", "plain:one"))
        file.write(b"".join(encode(*words) for words in stream()))
    h.options["appendonly"] = "yes"
    h.start()
    assert digests(h) == expected
    assert h.ask("BG.DIGEST", "loaded") == loaded
    h.stop()


# ---- Commands -------------------------------------------------------------------------------------------


def test_options_of_valkey_bloom(h):
    for words, reply in (
            (("k",), []), (("k", "CAPACITY", 1000), []), (("k", "ITEMS"), "ERR wrong number of arguments"),
            (("x", "NOCREATE"), "ERR not found"), (("x", "SEED", "short"), "ERR invalid seed"),
            (("x", "SEED"), "ERR wrong number of arguments"), (("x", "TIGHTENING", "x"), "ERR bad tightening ratio"),
            (("x", "TIGHTENING", 0), "ERR (0 < tightening ratio range < 1)"),
            (("x", "TIGHTENING", 1), "ERR (0 < tightening ratio range < 1)"),
            (("x", "VALIDATESCALETO", 0), "ERR bad capacity"), (("x", "VALIDATESCALETO"), "ERR wrong number of arguments"),
            (("x", "NONSCALING", "VALIDATESCALETO", 100),
             "ERR cannot use NONSCALING and VALIDATESCALETO options together"),
            (("x", "SEED", SEED, "VALIDATESCALETO", 100), "ERR cannot use SEED and VALIDATESCALETO options together"),
            (("x", "CAPACITY", 1000, "VALIDATESCALETO", 999999999999999999, "ITEMS", "a"),
             "ERR provided VALIDATESCALETO causes bloom object to exceed memory limit"),
            (("x", "EXPANSION", 32769), "ERR expansion must be in the range"),
            (("x", "EXPANSION", 1 << 32, "SEED", SEED), "ERR expansion must be in the range"),
            (("x", "ERROR", "1e-320", "SEED", SEED), "ERR")):
        answer = h.ask("BF.INSERT", *words)
        same = answer == reply if isinstance(reply, list) else isinstance(answer, Error) and answer.startswith(reply)
        assert same, (words, answer)
        assert h.ask("EXISTS", "x") == 0, words
    assert h.ask("BF.INSERT", "v", "CAPACITY", 100, "VALIDATESCALETO", 10**5, "ITEMS", "a") == [1]
    assert h.ask("CONFIG", "SET", "bloomgate.max-filter-memory", "100kb") == "OK"
    try:
        assert h.ask("BF.INSERT", "v", "CAPACITY", 100, "VALIDATESCALETO", 10**5, "ITEMS", "a").startswith("ERR provided")
        assert h.ask("BF.INSERT", "w", "CAPACITY", 100, "VALIDATESCALETO", 10**4, "ITEMS", "a") == [1]
        assert h.ask("BF.MADD", "w", *range(10**4)).count(1) > 9800, "the filter did not grow as configured"
        assert h.ask("BF.INSERT", "s", "CAPACITY", 10**7, "SEED", SEED).startswith("ERR Insufficient memory")
    finally:
        h.ask("CONFIG", "SET", "bloomgate.max-filter-memory", "0")


def test_limit_of_a_seeded_filter(h):
    """A filter keeps the memory limit that was set when it was created, even after it has been reloaded."""
    h.ask("CONFIG", "SET", "bloomgate.max-filter-memory", "20kb")
    assert h.ask("BF.INSERT", "k", "CAPACITY", 1000, "SEED", SEED) == []
    h.ask("CONFIG", "SET", "bloomgate.max-filter-memory", "0")
    assert h.ask("DEBUG", "RELOAD") == "OK"
    assert isinstance(h.ask("BF.MADD", "k", *range(50000))[-1], Error)
    assert h.ask("BF.INFO", "k", "SIZE")[0] <= 20480


def test_info_of_valkey_bloom(h):
    h.ask("BF.RESERVE", "k", 0.003, 100)
    with h.connect() as c:
        assert [float(value) for value in c.ask("BF.INFO", "k", "ERROR")] == [0.003]
        assert len(c.ask("BF.INFO", "k")) == 10, "expected five fields, which RedisBloom clients require"
        c.ask("HELLO", 3)
        assert c.ask("BF.INFO", "k", "error") == [("Error rate", 0.003)]


def test_events_of_a_seeded_filter(h):
    h.ask("CONFIG", "SET", "notify-keyspace-events", "KEA")
    with h.connect() as c:
        c.ask("PSUBSCRIBE", "__keyevent*")
        h.ask("BF.INSERT", "k", "SEED", SEED, "ITEMS", "a")
        h.ask("PUBLISH", "__keyevent@0__:end", "x")
        found = []
        while not found or found[-1] != "end":
            found.append(c.reply()[2].decode().split(":", 1)[1])
    h.ask("CONFIG", "SET", "notify-keyspace-events", "")
    assert [event for event in found if event != "new"] == ["bloom.reserve", "bloom.add", "end"], found


redis_host.main(__doc__)
