#!/usr/bin/env python3
"""Tests the module's commands. With valid and invalid arguments, in RESP2 and RESP3, they must return the same replies
as the service's commands (--service PATH-OF-BLOOMGATED). Also tests the integration with the server: types,
transactions, scripts, ACLs, COMMAND DOCS, CONFIG, INFO, keyspace events and maxmemory.
usage: test_module_commands.py PATH-OF-BLOOMGATE.SO [--service PATH] [--server redis] [PART-OF-A-NAME...]"""

import os
import shlex
import subprocess

import redis_host
import service
from redis_host import Error, Host, Skip, alone, wait_for

STORIES = {
    "bloom": """
        BF.RESERVE | BF.RESERVE k | BF.RESERVE k 0.01 | BF.RESERVE k x 100 | BF.RESERVE k 0 100 | BF.RESERVE k 1 100
        BF.RESERVE k 0.01 x | BF.RESERVE k 0.01 0 | BF.RESERVE k 0.01 -1 | BF.RESERVE k 0.01 100 EXPANSION
        BF.RESERVE k 0.01 100 EXPANSION x | BF.RESERVE k 0.01 100 EXPANSION 40000 | BF.RESERVE k 0.01 100 FOO
        BF.RESERVE k 0.01 100 NONSCALING EXPANSION 2 | BF.RESERVE k 0.01 100 | BF.RESERVE k 0.01 100 | BF.INFO k
        BF.ADD k a | BF.ADD k a | BF.ADD k | BF.ADD | BF.ADD k a b | BF.EXISTS k a | BF.EXISTS k b | BF.EXISTS nosuch a
        BF.MADD k a b c | BF.MADD k | BF.MEXISTS k a b z | BF.MEXISTS nosuch a b | BF.MEXISTS k
        BF.CARD k | BF.CARD nosuch | BF.CARD | BF.INFO k CAPACITY | BF.INFO k SIZE | BF.INFO k ITEMS | BF.INFO k FILTERS
        BF.INFO k EXPANSION | BF.INFO k FOO | BF.INFO nosuch | BF.INFO k ITEMS x
        BF.INSERT i ITEMS a b | BF.INSERT i | BF.INSERT i ITEMS | BF.INSERT j NOCREATE ITEMS a | BF.INSERT j CAPACITY x ITEMS a
        BF.INSERT j CAPACITY 50 ERROR 0.001 EXPANSION 4 ITEMS a | BF.INFO j | BF.INSERT j ERROR 2 ITEMS a
        BF.INSERT j FOO ITEMS a | BF.INSERT n CAPACITY 3 NONSCALING ITEMS a b c d e | BF.ADD n f | BF.MADD n a f g | BF.INFO n
        BF.DEBUG k | BF.DEBUG nosuch | BF.SCANDUMP nosuch 0 | BF.SCANDUMP k x | BF.SCANDUMP k 77 | BF.LOADCHUNK k x y
        BF.LOADCHUNK nosuch 5 abc | BF.LOADCHUNK k 1 abc | BF.LOADCHUNK q 1 abc | BF.LOADCHUNK q 0 abc
        BF.LOAD k abc | BF.LOAD new abc | BF.LOAD | EXISTS new
        CF.ADD k a | CF.EXISTS k a | CF.INFO k | BF.ADD "" "" | BF.EXISTS "" ""
        bf.add k lower | Bf.Exists k lower""",
    "cuckoo": """
        CF.RESERVE | CF.RESERVE k | CF.RESERVE k x | CF.RESERVE k 0 | CF.RESERVE k 1 | CF.RESERVE k 1000 BUCKETSIZE 0
        CF.RESERVE k 1000 BUCKETSIZE x | CF.RESERVE k 1000 MAXITERATIONS 0 | CF.RESERVE k 1000 EXPANSION 99999
        CF.RESERVE k 1000 FOO | CF.RESERVE k 1000 ERROR 2 | CF.RESERVE k 1000 BUCKETSIZE 4 MAXITERATIONS 30 EXPANSION 2
        CF.RESERVE k 1000 | CF.INFO k | CF.ADD k a | CF.ADD k a | CF.ADDNX k a | CF.ADDNX k b | CF.COUNT k a | CF.COUNT k z
        CF.EXISTS k a | CF.EXISTS k z | CF.EXISTS nosuch a | CF.MEXISTS k a b z | CF.MEXISTS nosuch a | CF.COUNT nosuch a
        CF.DEL k a | CF.DEL k a | CF.DEL k a | CF.DEL k z | CF.DEL nosuch a | CF.INFO k | CF.INFO nosuch
        CF.INSERT i CAPACITY 100 ITEMS a b c | CF.INSERT i | CF.INSERT i ITEMS | CF.INSERT j NOCREATE ITEMS a
        CF.INSERT j CAPACITY x ITEMS a | CF.INSERT j CAPACITY 1 ITEMS a | CF.INSERTNX i ITEMS a d a | CF.INSERT i FOO ITEMS a
        CF.RESERVE s 32 EXPANSION 0 | CF.INSERT s ITEMS 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25
        CF.COMPACT k | CF.COMPACT nosuch | CF.DEBUG k | CF.DEBUG nosuch | CF.SCANDUMP nosuch 0 | CF.SCANDUMP k x
        CF.LOADCHUNK k 1 abc | CF.LOADCHUNK q 1 abc | CF.LOADCHUNK q x abc | BF.ADD k a | CF.RESERVE e 10 | CF.SCANDUMP e 0""",
    "gates": """
        BG.CREATE | BG.CREATE g KIND nosuch | BG.CREATE g KIND blocked | BG.CREATE g CAPACITY 0 | BG.CREATE g ERROR 2
        BG.CREATE g FOO | BG.CREATE g KIND fuse CAPACITY 10 | BG.CREATE g SEED 1 | BG.CREATE g WINDOW 10 COUNT 5
        BG.CREATE g KIND blocked CAPACITY 100 ERROR 0.01 FOLDS 2 | BG.CREATE g KIND blocked CAPACITY 100
        BG.ADD g a | BG.ADD g a | BG.ADD nosuch a | BG.MADD g a b c | BG.MADD nosuch a | BG.EXISTS g a | BG.EXISTS g z
        BG.EXISTS nosuch a | BG.MEXISTS g a z | BG.MEXISTS nosuch a | BG.COUNT g a | BG.COUNT nosuch a | BG.DEL g a
        BG.CREATE c KIND counting CAPACITY 100 ERROR 0.01 | BG.ADD c a | BG.ADD c a | BG.COUNT c a | BG.DEL c a IF 3
        BG.DEL c a IF 2 | BG.DEL c a IF x | BG.DEL c z | BG.COUNT c a | BG.DEL c a FOO 1
        BG.OBSERVE g a FALSEPOSITIVE | BG.OBSERVE g a FOO | BG.OBSERVE nosuch a PRESENT
        BG.CREATE h KIND blocked CAPACITY 100 ERROR 0.01 FOLDS 2 | BG.MADD h c d | BG.MERGE g h | BG.MEXISTS g a c d
        BG.MERGE g nosuch | BG.MERGE g c | BG.MERGE new g h | BG.MEXISTS new a c | BG.MERGE g
        BG.INTERSECTCARD g nosuch | BG.JACCARD g c | BG.FOLD g 0 | BG.FOLD g 21 | BG.FOLD g 1 | BG.FOLD nosuch | BG.MEXISTS g a c
        BG.CLEAR g | BG.EXISTS g a | BG.CLEAR nosuch | BG.DROP g | BG.DROP g | BG.EXISTS g a
        BG.ROTATE h | BG.ROTATE nosuch | BG.CREATE w CAPACITY 100 MANUAL | BG.ADD w a | BG.ROTATE w | BG.ROTATE w | BG.EXISTS w a
        BG.REBUILD h | BG.REBUILD h FOO | BG.REBUILD h BEGIN | BG.REBUILD h ADD a | BG.REBUILD h BEGIN 100 | BG.REBUILD h BEGIN 100
        BG.REBUILD h STATUS | BG.REBUILD h ADD c d | BG.REBUILD h COMMIT | BG.MEXISTS h c d z | BG.REBUILD h COMMIT
        BG.REBUILD h BEGIN 50 ERROR 0.1 | BG.REBUILD h ABORT | BG.REBUILD h ABORT | BG.REBUILD nosuch STATUS
        BG.INFO nosuch | BG.VERIFY nosuch | BG.VERIFY h | BG.DIGEST nosuch | BG.DUMP nosuch 0 | BG.DUMP h x | BG.DUMP h 999999
        BG.DUMP h 0 SIZE 0 | BG.LOAD nosuch | BG.LOAD x abc | BG.LOAD h abc | BG.PLAN 1000 0.01 | BG.PLAN x | BG.PLAN 1000 2
        BG.SHARDED KEYS big 4 | BG.SHARDED SHARD big 4 a b c | BG.SHARDED PLAN 1000000 0.01 4 | BG.SHARDED FOO | BG.SHARDED KEYS big 0
        BG.CREATE s HASH fast SEED 5 CAPACITY 100 KIND classic ERROR 0.01 | BG.MADD s a b | BG.DIGEST s
        BG.SECRET s | BG.SECRET nosuch | BG.SECRET""",
}


def lines_of(story):
    return [shlex.split(part) for line in story.strip().splitlines() for part in line.split("|")]


def close_enough(ours, theirs):
    """Compares replies. The service and the module may format numbers differently."""
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(close_enough, ours, theirs))
    if isinstance(ours, tuple) and isinstance(theirs, tuple):
        return all(map(close_enough, ours, theirs))
    if ours == theirs and type(ours) is type(theirs):
        return True
    try:
        return abs(float(ours) - float(theirs)) <= 1e-9 * abs(float(ours))
    except (TypeError, ValueError):
        return False


def test_as_the_service(h):
    program = redis_host.OPTIONS.service
    if not program:
        raise Skip("--service was not specified")
    asked = set()
    with service.Service(os.path.abspath(program), "appendonly no") as other:
        for protocol in (2, 3):
            for name, story in STORIES.items():
                h.ask("FLUSHALL")
                other.ask("FLUSHALL")
                with h.connect() as ours, other.connect() as theirs:
                    ours.ask("HELLO", protocol)
                    theirs.ask("HELLO", protocol)
                    for words in lines_of(story):
                        a, b = ours.ask(*words), theirs.ask(*words)
                        assert close_enough(a, b), f"{name}, RESP{protocol}, {words}: the module replies {a!r}, the service replies {b!r}"
                        asked.add(words[0].upper())
    known = {row[0].decode().upper() for row in h.ask("COMMAND") if b"." in row[0]}
    left = known - asked - {"BG.REPLAY", "BG.HELP"}
    assert not left, f"commands that were not tested: {left}"


def test_help(h):
    text = b"\n".join(h.ask("BG.HELP"))
    known = {row[0].decode().upper() for row in h.ask("COMMAND") if row[0].startswith(b"bg.")}
    for name in known - {"BG.REPLAY"}:
        assert name.encode() in text, name
    for name in (b"BG.PUBLISH", b"BG.RELOAD", b"BG.LOOKUP", b"BG.MLOOKUP", b"BG.WROTE"):
        assert name not in text, name


def test_other_types(h):
    h.ask("SET", "s", "x")
    for row in h.ask("COMMAND"):
        name, arity, flags = row[0].decode(), row[1], row[2]
        if "." not in name or row[3] == 0 or name == "bg.replay":
            continue
        words = {"bf.reserve": ("0.01", 10), "cf.reserve": (10,), "bf.insert": ("ITEMS", "a"), "cf.insert": ("ITEMS", "a"),
                 "cf.insertnx": ("ITEMS", "a"), "bg.rebuild": ("STATUS",)}.get(name, ("1",) * (abs(arity) - 2))
        reply = h.ask(name, "s", *words)
        assert isinstance(reply, Error) and reply.startswith("WRONGTYPE"), (name, words, reply, flags)
    assert h.ask("BG.REPLAY", "s", "CREATE", "1 0 0 0 0 0 0;family=bf kind=scalable items=5 rate=0.1 hash=fast",
                 "").startswith("WRONGTYPE")
    h.ask("BF.ADD", "k", "a")
    assert h.ask("GET", "k").startswith("WRONGTYPE")
    assert h.ask("TYPE", "k") == "bloomgate"
    assert h.ask("GET", "s") == b"x"


def test_transactions_and_scripts(h):
    with h.connect() as c:
        c.ask("WATCH", "k")
        h.ask("BF.ADD", "k", "a")
        c.ask("MULTI")
        c.ask("BF.ADD", "k", "b")
        assert c.ask("EXEC") is None, "a change that WATCH misses"
        c.ask("WATCH", "k")
        assert h.ask("BF.ADD", "k", "a") == 0
        c.ask("MULTI")
        c.ask("BF.ADD", "k", "b")
        assert c.ask("EXEC") == [1], "nothing had changed"
    assert h.ask("EVAL", "return redis.call('BF.EXISTS', KEYS[1], 'b')", 1, "k") == 1
    assert "unknown" in h.ask("EVAL", "return redis.call('BG.LOOKUP', KEYS[1], 'b')", 1, "k").lower()


def test_events(h):
    h.ask("CONFIG", "SET", "notify-keyspace-events", "KEA")
    with h.connect() as c:
        c.ask("PSUBSCRIBE", "__keyevent*")
        for words in (("BF.RESERVE", "b", 0.01, 10), ("BF.ADD", "b", "a"), ("BF.ADD", "b", "a"), ("CF.ADD", "c", "a"),
                      ("CF.DEL", "c", "a"), ("BG.CREATE", "g", "KIND", "blocked", "CAPACITY", 10), ("BG.ADD", "g", "a"),
                      ("BG.CLEAR", "g"), ("BG.MERGE", "g2", "g"), ("BG.DROP", "g"), ("COPY", "b", "d")):
            assert not isinstance(h.ask(*words), Error), words
        h.ask("PUBLISH", "__keyevent@0__:end", "x")
        found = []
        while not found or found[-1][0] != "end":
            message = c.reply()
            found.append((message[2].decode().split(":", 1)[1], message[3].decode()))
    expected = [("bloom.reserve", "b"), ("bloom.add", "b"), ("cuckoo.reserve", "c"), ("cuckoo.add", "c"), ("cuckoo.del", "c"),
                ("gate.reserve", "g"), ("gate.add", "g"), ("gate.clear", "g"), ("gate.merge", "g2"), ("del", "g"),
                ("copy_to", "d")]
    assert [f for f in found if f[0] not in ("end", "new")] == expected, found
    h.ask("CONFIG", "SET", "notify-keyspace-events", "")


def test_described(h):
    """Tests what COMMAND INFO and COMMAND DOCS report: arity, flags, keys and summaries."""
    rows = {row[0].decode(): row for row in h.ask("COMMAND") if b"." in row[0]}
    assert len(rows) >= 49, len(rows)
    assert rows["bf.add"][1] == 3 and {"write", "denyoom", "fast"} <= set(rows["bf.add"][2])
    assert {"readonly", "fast"} <= set(rows["bf.exists"][2])
    assert "write" in rows["cf.compact"][2] and "readonly" not in rows["cf.compact"][2]
    assert {"write", "admin"} <= set(rows["bg.replay"][2])
    assert h.ask("COMMAND", "GETKEYS", "BG.MERGE", "d", "a", "b") == [b"d", b"a", b"b"]
    assert h.ask("COMMAND", "GETKEYS", "BG.JACCARD", "a", "b") == [b"a", b"b"]
    assert isinstance(h.ask("COMMAND", "GETKEYS", "BG.PLAN", "10", "0.1"), Error)
    docs = h.ask("COMMAND", "DOCS", *rows)
    for name, about in zip(docs[::2], docs[1::2]):
        facts = dict(zip(about[::2], about[1::2]))
        assert facts[b"summary"] and facts[b"complexity"] and facts[b"since"], name
        assert facts[b"module"] == b"bloomgate", name
        assert facts.get(b"arguments") or name == b"bg.help", f"COMMAND DOCS lists no arguments for {name}"


def test_acl(h):
    categories = h.ask("ACL", "CAT")
    h.ask("ACL", "SETUSER", "reader", "on", "nopass", "~*", "-@all", "+@read")
    h.ask("ACL", "SETUSER", "adder", "on", "nopass", "~a*", "-@all", "+bf.add", "+bf.exists")
    h.ask("BF.ADD", "a", "x")
    with h.connect() as c:
        c.ask("AUTH", "adder", "x")
        assert c.ask("BF.ADD", "a1", "x") == 1
        assert c.ask("BF.ADD", "b1", "x").startswith("NOPERM")
        assert c.ask("BG.REPLAY", "a1", "ADD", b"12345678").startswith("NOPERM")
    if b"bloom" in categories:
        own = {name: {c for c in h.ask("COMMAND", "INFO", name)[0][6]} for name in ("bf.add", "cf.count", "bg.info")}
        assert own == {"bf.add": {"@write", "@fast", "@bloom"}, "cf.count": {"@read", "@fast", "@cuckoo"},
                       "bg.info": {"@read", "@slow", "@gate"}}, own
        assert {"@admin", "@dangerous"} <= set(h.ask("COMMAND", "INFO", "bg.replay")[0][6])
        with h.connect() as c:
            c.ask("AUTH", "reader", "x")
            assert c.ask("BF.EXISTS", "a", "x") == 1
            assert c.ask("BF.ADD", "a", "y").startswith("NOPERM")
    h.ask("ACL", "DELUSER", "reader", "adder")


def test_replay_is_for_admins(h):
    """BG.REPLAY requires admin permissions, even in scripts and transactions, and even on Redis 7.0, where modules have
    no ACL categories."""
    state = "1 0 0 0 0 0 0;family=bf kind=scalable items=100 rate=0.01"
    words = ("BG.REPLAY", "a", "CREATE", state, "")
    assert h.ask(*words) == "OK", "an admin was refused"
    for rules in (("+@all", "-@dangerous"), ("+@all", "-@admin"), ("+@all", "-@dangerous", "-@admin")):
        h.ask("ACL", "SETUSER", "user", "reset", "on", "nopass", "~a", *rules)
        with h.connect() as c:
            assert c.ask("AUTH", "user", "x") == "OK"
            assert str(c.ask(*words)).startswith("NOPERM"), rules
            answer = c.ask("EVAL", "return redis.call('BG.REPLAY', KEYS[1], 'CREATE', ARGV[1], '')", 1, "a", state)
            assert isinstance(answer, Error), rules
            c.ask("MULTI")
            queued = c.ask(*words)
            assert isinstance(queued, Error) or isinstance(c.ask("EXEC")[0], Error), rules
    h.ask("ACL", "DELUSER", "user")


def test_secret_is_for_admins(h):
    """BG.SECRET requires admin permissions and cannot be run in scripts. Each use is logged, and nothing is replicated."""
    assert h.ask("BF.ADD", "a", "x") == 1
    assert h.ask("BG.CREATE", "open", "HASH", "fast") == "OK"
    changes = h.info("persistence", "rdb_changes_since_last_save")
    key_id, secret = h.ask("BG.SECRET", "a")
    assert h.info("persistence", "rdb_changes_since_last_save") == changes, "BG.SECRET was replicated"
    facts = h.ask("BG.INFO", "a")
    assert dict(zip(facts[::2], facts[1::2]))[b"key_id"] == key_id and len(bytes.fromhex(secret.decode())) == 16
    assert bytes.fromhex(secret.decode()) in h.ask("DUMP", "a")
    assert "has no secret" in h.ask("BG.SECRET", "open") and "no such filter" in h.ask("BG.SECRET", "none")
    h.ask("SET", "text", "x")
    assert h.ask("BG.SECRET", "text").startswith("WRONGTYPE")
    assert isinstance(h.ask("EVAL", "return redis.call('BG.SECRET', KEYS[1])", 1, "a"), Error)
    for rules in (("+@read",), ("+@all", "-@dangerous"), ("+@all", "-@admin"), ("+@all", "-bg.secret")):
        h.ask("ACL", "SETUSER", "user", "reset", "on", "nopass", "~*", *rules)
        with h.connect() as c:
            assert c.ask("AUTH", "user", "x") == "OK"
            assert str(c.ask("BG.SECRET", "a")).startswith("NOPERM"), rules
            c.ask("MULTI")
            queued = c.ask("BG.SECRET", "a")
            assert isinstance(queued, Error) or isinstance(c.ask("EXEC")[0], Error), rules
    assert "user default at 127.0.0.1 port" in h.read_log() and "read the secret of filter 'a'" in h.read_log()
    h.ask("ACL", "SETUSER", "user", "reset", "on", "nopass", "~*", "+@all")
    with h.connect() as c:
        assert c.ask("AUTH", "user", "x") == "OK" and c.ask("BG.SECRET", "a") == [key_id, secret]
        c.ask("MULTI")
        c.ask("BG.SECRET", "a")
        assert c.ask("EXEC") == [[key_id, secret]]
    assert h.read_log().count("BG.SECRET: user user at 127.0.0.1 port") == 2
    assert secret.decode() not in h.read_log() + repr(h.ask("SLOWLOG", "GET", -1))
    h.ask("ACL", "DELUSER", "user")


def config_name(h, name):
    """Returns the option name, with the module's prefix unless the server is Redis 8."""
    return name if h.ask("CONFIG", "GET", name) else "bloomgate." + name


def test_config(h):
    names = {"bf-error-rate": ("0.01", "0.001"), "bf-initial-size": ("100", "5000"), "bf-expansion-factor": ("2", "4"),
             "cf-bucket-size": ("2", "4"), "cf-initial-size": ("1024", "4096"), "cf-max-iterations": ("20", "30"),
             "cf-expansion-factor": ("1", "2"), "cf-max-expansions": ("32", "16")}
    for name, (usual, other) in names.items():
        full = config_name(h, name)
        assert h.ask("CONFIG", "GET", full) == [full.encode(), usual.encode()], name
        assert h.ask("CONFIG", "SET", full, other) == "OK", name
        assert h.ask("CONFIG", "GET", full)[1] == other.encode(), name
    h.ask("BF.ADD", "k", "a")
    assert h.ask("BF.INFO", "k", "CAPACITY") == [5000] and h.ask("BF.INFO", "k", "EXPANSION") == [4]
    assert h.ask("CONFIG", "GET", "bloomgate.bloom-capacity")[1] == b"5000"
    assert h.ask("CONFIG", "SET", "bloomgate.bloom-capacity", "77") == "OK"
    assert h.ask("CONFIG", "GET", config_name(h, "bf-initial-size"))[1] == b"77"
    for name, wrong in (("bf-error-rate", "2"), ("bf-error-rate", "x"), ("bf-initial-size", "0"), ("cf-bucket-size", "256"),
                        ("bloomgate.secret", "xyz"), ("bloomgate.hash", "nosuch")):
        assert isinstance(h.ask("CONFIG", "SET", config_name(h, name), wrong), Error), name
    usual = h.ask("CONFIG", "GET", "bloomgate.hash")[1]
    assert h.ask("CONFIG", "SET", "bloomgate.hash", "fast-int") == "OK"
    assert h.ask("CONFIG", "GET", "bloomgate.hash")[1] == b"fast-int"
    assert isinstance(h.ask("CONFIG", "SET", "bloomgate.hash", "custom"), Error)
    assert h.ask("BG.CREATE", "integers", "CAPACITY", 100) == "OK"
    info = h.ask("BG.INFO", "integers")
    assert b"fast-int" in info, info
    assert h.ask("CONFIG", "SET", "bloomgate.hash", usual) == "OK"
    assert h.ask("CONFIG", "SET", "bloomgate.max-filter-memory", "1mb") == "OK"
    assert h.ask("BF.RESERVE", "large", 0.01, 10**8).startswith("ERR Insufficient memory")
    assert h.ask("BF.RESERVE", "small", 0.01, 10**4) == "OK"
    assert h.ask("CONFIG", "SET", "bloomgate.max-filter-memory", "0") == "OK"
    assert h.ask("BF.RESERVE", "huge", 0.01, 2**50).startswith("ERR Insufficient memory")
    for name, (usual, _) in names.items():
        h.ask("CONFIG", "SET", config_name(h, name), usual)


@alone
def test_arguments(pattern):
    """Arguments on the loadmodule line can use any of an option's names. Invalid arguments prevent the server from
    starting."""
    with Host(pattern.program, pattern.module, ["ERROR_RATE", 0.002, "initial_size", 321, "CF_MAX_EXPANSIONS", 9,
                                                "cf-bucket-size", 3, "bloom-expansion", 8]) as h:
        h.ask("BF.ADD", "k", "a")
        assert h.ask("BF.INFO", "k", "CAPACITY") == [321] and h.ask("BF.INFO", "k", "EXPANSION") == [8]
        assert h.ask("CONFIG", "GET", config_name(h, "bf-error-rate"))[1] == b"0.002"
        assert h.ask("CONFIG", "REWRITE") == "OK"
        h.restart()
        assert h.ask("PING") == "PONG"
    for wrong in (["nosuch", 1], ["bf-error-rate"], ["bf-initial-size", "x"], ["bf-initial-size", 0]):
        h = Host(pattern.program, pattern.module, wrong)
        try:
            h.launch()
            assert h.wait() != 0
            assert "argument" in h.read_log(), h.read_log()
        finally:
            h.kill()
            h.remove()


@alone
def test_secret(pattern):
    """Filters from servers with the same secret can be merged; filters with different secrets cannot. Only DUMP
    payloads and the loadmodule line reveal the secret."""
    secret = "00112233445566778899aabbccddeeff"
    with Host(pattern.program, pattern.module, ["secret", secret]) as a, \
            Host(pattern.program, pattern.module, ["secret", secret]) as b, Host(pattern.program, pattern.module) as c:
        for h in (a, b, c):
            h.ask("BF.RESERVE", "k", 0.01, 100)
            h.ask("BF.ADD", "k", "x")
        assert a.ask("BG.DIGEST", "k") == b.ask("BG.DIGEST", "k") != c.ask("BG.DIGEST", "k")
        assert b.ask("RESTORE", "other", 0, c.ask("DUMP", "k")) == "OK"
        assert b.ask("BF.EXISTS", "other", "x") == 1, "the payload did not include the secret"
        assert b.ask("BG.MERGE", "k", "other").startswith("INCOMPATIBLE")
        assert b.ask("RESTORE", "same", 0, a.ask("DUMP", "k")) == "OK" and b.ask("BG.MERGE", "k", "same") == "OK"
        text = repr([a.ask("BG.INFO", "k"), a.ask("INFO", "everything"), a.ask("BG.DUMP", "k", 0),
                     a.ask("CONFIG", "GET", "bloomgate.*")])
        assert secret not in text and repr(bytes.fromhex(secret))[2:-1] not in text


def digest_of_new(h):
    """Creates a filter, and returns its digests before and after an add. The digests depend only on the secret."""
    h.ask("DEL", "new")
    assert h.ask("BF.RESERVE", "new", 0.01, 100) == "OK"
    return h.ask("BG.DIGEST", "new"), h.ask("BF.ADD", "new", "x"), h.ask("BG.DIGEST", "new")


@alone
def test_replicated_secret_is_not_shown(pattern):
    """A replica receives a filter's secret together with the filter, but does not show the secret in SLOWLOG."""
    secret = bytes(range(16))
    with Host(pattern.program, pattern.module, ["secret", secret.hex()]) as h:
        replica = redis_host.replica_of(h, slowlog_log_slower_than=0)
        try:
            assert h.ask("BG.CREATE", "k", "CAPACITY", 100) == "OK"
            redis_host.caught_up(h, replica)
            words = [entry[3] for entry in replica.ask("SLOWLOG", "GET", -1)]
            assert any(b"CREATE" in line for line in words) and all(secret not in line for line in words), words
            assert replica.ask("BG.DIGEST", "k") == h.ask("BG.DIGEST", "k")
        finally:
            replica.kill()
            replica.remove()


@alone
def test_secret_is_not_shown(pattern):
    """CONFIG GET returns the ID of the secret, and CONFIG REWRITE writes only the ID to the configuration file. The ID
    alone is sufficient if a filter with the secret is already loaded."""
    first, second = "00112233445566778899aabbccddeeff", "ff" * 16
    name = "bloomgate.secret"
    with Host(pattern.program, pattern.module, save="3600 1000000") as h:
        assert h.ask("CONFIG", "GET", name) == [name.encode(), b""]
        assert h.ask("CONFIG", "SET", name, first) == "OK"
        shown = h.ask("CONFIG", "GET", name)[1].decode()
        assert shown.startswith("id:") and len(shown) == 19 and first not in shown
        digest = digest_of_new(h)
        assert isinstance(h.ask("CONFIG", "SET", name, second, "maxmemory-policy", "nosuch"), Error)
        assert h.ask("CONFIG", "GET", name)[1].decode() == shown and digest_of_new(h) == digest, "a failed CONFIG SET did not restore the secret"
        assert h.ask("CONFIG", "SET", name, second) == "OK"
        assert h.ask("CONFIG", "GET", name)[1].decode() != shown and digest_of_new(h) != digest
        assert h.ask("CONFIG", "SET", name, shown) == "OK" and digest_of_new(h) == digest, "a known ID was refused"
        assert isinstance(h.ask("CONFIG", "SET", name, "id:" + 16 * "A"), Error), "an unknown ID was accepted"
        # After a restart, the ID in the configuration file can be used as soon as a filter with the secret has been
        # loaded.
        assert h.ask("CONFIG", "REWRITE") == "OK"
        with open(h.folder + "/server.conf", encoding="utf-8") as file:
            assert first not in file.read()
        h.ask("RENAME", "new", "kept")
        h.options[name] = shown
        h.restart()
        assert h.ask("BF.EXISTS", "kept", "x") == 1
        assert h.ask("CONFIG", "GET", name)[1].decode() == shown and digest_of_new(h) == digest
        # Until a filter with the secret has been loaded, new filters that need the secret are refused.
        h.ask("FLUSHALL")
        h.restart()
        assert "bloomgate.secret" in str(h.ask("BF.RESERVE", "new", 0.01, 100))
        assert h.ask("BG.CREATE", "plain", "CAPACITY", 100, "HASH", "fast") == "OK"
        assert h.ask("CONFIG", "SET", name, first) == "OK" and digest_of_new(h) == digest


def test_info(h):
    wait_for(lambda: h.info("bloomgate", "bloomgate_filters") == "0", what="filters from other tests to be freed")
    wait_for(lambda: h.info("bloomgate", "bloomgate_filter_bytes") == "0", what="the memory of filters from other tests to be freed")
    before = int(h.info("memory", "used_memory"))
    h.ask("BF.RESERVE", "k", 0.01, 10**6)
    assert h.info("bloomgate", "bloomgate_filters") == "1"
    size = int(h.info("bloomgate", "bloomgate_filter_bytes"))
    assert size > 10**6, size
    grown = int(h.info("memory", "used_memory")) - before
    # The allocator rounds sizes up, and buffers of closed connections may be freed in the meantime.
    assert abs(grown - size) < 300000, f"the filters use {size} bytes, but used_memory has grown by {grown} bytes"
    assert size <= h.ask("MEMORY", "USAGE", "k") < size + 300000
    h.ask("DEL", "k")
    wait_for(lambda: h.info("bloomgate", "bloomgate_filter_bytes") == "0", what="memory to be freed")


def test_maxmemory(h):
    """If more memory than maxmemory is in use, adds are refused under the noeviction policy, and filters are evicted
    under allkeys-lru."""
    h.ask("BF.RESERVE", "k", 0.01, 10**6)
    h.ask("CONFIG", "SET", "maxmemory-policy", "noeviction")
    h.ask("CONFIG", "SET", "maxmemory", "1mb")
    try:
        assert h.ask("BF.ADD", "k", "a").startswith("OOM")
        assert h.ask("BF.EXISTS", "k", "a") == 0
        h.ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
        h.ask("SET", "s", "x")
        assert h.ask("EXISTS", "k") == 0, "the filter was not evicted"
    finally:
        h.ask("CONFIG", "SET", "maxmemory", "0")


def test_exports(h):
    """The module exports only the two functions that servers call."""
    names = subprocess.run(["nm", "-D", "--defined-only", h.module], capture_output=True, text=True, check=True).stdout
    assert {line.split()[-1] for line in names.splitlines()} == {"RedisModule_OnLoad", "RedisModule_OnUnload"}, names


redis_host.main(__doc__)
