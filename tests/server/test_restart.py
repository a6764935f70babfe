#!/usr/bin/env python3
"""Tests that a restart preserves the replies, statistics, names and expiry times of filters of every family and kind,
after a clean shutdown, kill -9, snapshots, and combinations of these.
usage: test_restart.py PATH-OF-BLOOMGATED [PART-OF-A-NAME...]"""

import os
import random
import time

import service
from service import Error, Service, Status, alone, wait_for

OK = Status("OK")

# For each filter: its name, the command that creates it, and whether it can delete items.
MAKES = [
    ("bf", ("BF.RESERVE", "bf", "0.001", "100"), False),
    ("bf-fixed", ("BF.RESERVE", "bf-fixed", "0.001", "1000", "NONSCALING"), False),
    ("bf-slow", ("BF.RESERVE", "bf-slow", "0.01", "100", "EXPANSION", "1"), False),
    ("bf-valkey", ("BF.INSERT", "bf-valkey", "CAPACITY", "50", "TIGHTENING", "0.5", "SEED", "0123456789abcdef" * 2), False),
    ("cf", ("CF.RESERVE", "cf", "64"), True),
    ("cf-fixed", ("CF.RESERVE", "cf-fixed", "2000", "EXPANSION", "0"), True),
    ("cf-error", ("CF.RESERVE", "cf-error", "100", "ERROR", "0.0001"), True),
    ("auto", ("BG.CREATE", "auto", "CAPACITY", "1000"), False),
    ("classic", ("BG.CREATE", "classic", "KIND", "classic", "CAPACITY", "1000"), False),
    ("partitioned", ("BG.CREATE", "partitioned", "KIND", "partitioned", "CAPACITY", "1000"), False),
    ("blocked", ("BG.CREATE", "blocked", "KIND", "blocked", "CAPACITY", "1000", "FOLDS", "3"), False),
    ("split", ("BG.CREATE", "split", "KIND", "split", "CAPACITY", "1000"), False),
    ("register", ("BG.CREATE", "register", "KIND", "register", "CAPACITY", "1000"), False),
    ("winner", ("BG.CREATE", "winner", "CAPACITY", "1000", "ONEWINNER"), False),
    ("counting", ("BG.CREATE", "counting", "KIND", "counting", "CAPACITY", "1000"), True),
    ("cuckoo", ("BG.CREATE", "cuckoo", "KIND", "cuckoo", "CAPACITY", "2000", "K", "16"), True),
    ("quotient", ("BG.CREATE", "quotient", "KIND", "quotient", "CAPACITY", "2000"), True),
    ("shards", ("BG.CREATE", "shards", "KIND", "blocked", "CAPACITY", "1000", "SHARDS", "4"), False),
    ("fast", ("BG.CREATE", "fast", "KIND", "blocked", "CAPACITY", "1000", "HASH", "fast"), False),
    ("seeded", ("BG.CREATE", "seeded", "KIND", "blocked", "CAPACITY", "1000", "HASH", "xxh64",
                "SEED", "7"), False),
    ("window", ("BG.CREATE", "window", "WINDOW", "31536000000", "CAPACITY", "1000"), False),
    ("aged", ("BG.CREATE", "aged", "COUNT", "500", "CAPACITY", "1000", "AGED"), False),
    ("manual", ("BG.CREATE", "manual", "KIND", "window", "CAPACITY", "1000", "MANUAL",
                "GENERATIONS", "4"), False),
]
COUNTERS = {b"queries", b"maybes", b"adds", b"refused", b"measured_rate", b"observed_rate",
            b"window_moved", b"digest", b"generation"}
ITEMS = 400


def ask_all(c, requests):
    replies = c.pipeline(requests)
    for words, reply in zip(requests, replies):
        assert not isinstance(reply, Error), (words, reply)
    return replies


def fill(c):
    """Creates the filters, adds enough items to make some of them grow, and deletes some items."""
    dice = random.Random(1)
    ask_all(c, [make for _, make, _ in MAKES])
    requests = []
    for name, _, deletes in MAKES:
        requests += [("BG.ADD", name, f"{name}-{i}") for i in range(ITEMS)]
        if deletes:
            requests += [("BG.DEL", name, f"{name}-{i}") for i in dice.sample(range(ITEMS), 50)]
    ask_all(c, requests)
    ask_all(c, [("BG.ROTATE", "manual")])
    ask_all(c, [("BG.ADD", "manual", f"later-{i}") for i in range(50)])


def more(c):
    """Makes more changes. If a test takes an early snapshot, these changes follow it."""
    ask_all(c, [("BG.ADD", name, f"{name}-more-{i}") for name, _, _ in MAKES for i in range(100)])
    ask_all(c, [("BG.FOLD", "blocked"), ("COPY", "cf", "cf-copy"), ("COPY", "bf", "bf-copy"),
                ("RENAME", "split", "split-renamed"), ("DEL", "partitioned"),
                ("BG.CLEAR", "register"), ("CF.COMPACT", "cf-error")])
    ask_all(c, [("BG.ADD", "bf-copy", "x"), ("CF.ADD", "cf-copy", "x"), ("BG.DROP", "aged")])


def facts(reply):
    pairs = dict(zip(reply[::2], reply[1::2]))
    return {key: value for key, value in pairs.items() if key not in COUNTERS}


def state(c):
    """Returns the state that a restart must preserve."""
    names = sorted(c.ask("KEYS", "*"))
    seen = {"names": names}
    for name in names:
        keys = [f"{name.decode()}-{i}" for i in range(ITEMS + 200)] + [f"later-{i}" for i in range(50)]
        seen[name] = {
            "answers": c.ask("BG.MEXISTS", name, *keys),
            "counts": ask_all(c, [("BG.COUNT", name, key) for key in keys[:ITEMS:7]]),
            "type": c.ask("TYPE", name),
            "expires": c.ask("PEXPIRETIME", name),
            "digest": c.ask("BG.DIGEST", name),
            "facts": facts(c.ask("BG.INFO", name)),
        }
        if seen[name]["type"] == "MBbloom--":
            seen[name]["info"] = c.ask("BF.INFO", name)
            seen[name]["card"] = c.ask("BF.CARD", name)
        elif seen[name]["type"] == "MBbloomCF":
            seen[name]["info"] = c.ask("CF.INFO", name)
            seen[name]["debug"] = c.ask("CF.DEBUG", name)
    return seen


def compare(before, after, what):
    assert before["names"] == after["names"], (what, before["names"], after["names"])
    for name in before["names"]:
        for key, value in before[name].items():
            if key == "facts":
                for fact, told in value.items():
                    assert told == after[name][key][fact], (what, name, fact, told,
                                                            after[name][key][fact])
            else:
                assert value == after[name][key], (what, name, key)


def story(program, snapshots, ends):
    with Service(program) as s:
        fill(s.connect())
        if "early" in snapshots:
            assert s.ask("SAVE") == OK
        more(s.connect())
        s.ask("PEXPIREAT", "cf", "4000000000000")
        s.ask("PEXPIREAT", "bf", "4000000000001")
        s.ask("PERSIST", "bf")
        if "late" in snapshots:
            assert s.ask("SAVE") == OK
        before = state(s.connect())
        for i, end in enumerate(ends):
            if end == "kill":
                s.kill()
            else:
                s.stop()
            s.start()
            compare(before, state(s.connect()), (snapshots, ends[:i + 1]))
            if end == "stop":
                assert s.ask("SAVE") == OK


@alone
def test_everything_comes_back(program):
    story(program, (), ("kill", "stop", "kill"))


@alone
def test_everything_comes_back_with_a_snapshot(program):
    story(program, ("early",), ("kill", "kill", "stop"))


@alone
def test_everything_comes_back_from_a_snapshot(program):
    story(program, ("early", "late"), ("stop", "kill", "stop"))


@alone
def test_filters_go_on(program):
    """After a restart, filters grow, count and delete as if there had been no restart."""
    with Service(program) as never, Service(program) as often:
        keyring = os.path.join(never.folder, "keyring")
        often.stop()
        with open(keyring, "rb") as a, open(os.path.join(often.folder, "keyring"), "wb") as b:
            b.write(a.read())
        often.start()
        for s in (never, often):
            s.ask("BF.RESERVE", "bf", "0.001", "50")
            s.ask("CF.RESERVE", "cf", "32")
        dice = random.Random(5)
        for step in range(8):
            requests = [("BF.ADD", "bf", f"{step}-{i}") for i in range(200)]
            requests += [("CF.ADD", "cf", f"{step}-{i}") for i in range(200)]
            requests += [("CF.DEL", "cf", f"{step}-{i}") for i in dice.sample(range(200), 40)]
            told = [ask_all(s.connect(), requests) for s in (never, often)]
            assert told[0] == told[1], step
            for name, info in (("bf", "BF.INFO"), ("cf", "CF.INFO")):
                assert never.ask(info, name) == often.ask(info, name), (step, name)
                assert never.ask("BG.DIGEST", name) == often.ask("BG.DIGEST", name), (step, name)
            if step % 3 == 2:
                assert often.ask("SAVE") == OK
            if step % 2:
                often.kill()
            else:
                often.stop()
            often.start()


@alone
def test_names(program):
    names = [b"", b"\0", b"a\r\nb", bytes(range(256)), b"x" * 65536, "grüße".encode(), b"{tag}a", b"*"]
    with Service(program) as s:
        for i, name in enumerate(names):
            assert s.ask("BF.ADD", name, f"item{i}") == 1
        assert s.ask("BF.ADD", b"x" * 65537, "item").startswith("ERR")
        for end in (s.kill, s.stop, s.kill):
            end()
            s.start()
            assert sorted(s.ask("KEYS", "*")) == sorted(names)
            for i, name in enumerate(names):
                assert s.ask("BF.EXISTS", name, f"item{i}") == 1
            assert s.ask("SAVE") == OK


@alone
def test_expiry(program):
    with Service(program) as s:
        for name in ("soon", "late", "never", "replaced", "moved"):
            assert s.ask("BF.ADD", name, "x") == 1
        now = int(time.time() * 1000)
        assert s.ask("PEXPIREAT", "soon", now + 1500) == 1
        assert s.ask("PEXPIREAT", "late", now + 86400000) == 1
        assert s.ask("PEXPIREAT", "replaced", now + 86400000) == 1
        assert s.ask("PEXPIREAT", "moved", now + 86400000) == 1
        assert s.ask("BG.CLEAR", "replaced") == OK  # the cleared filter keeps its expiry time
        assert s.ask("RENAME", "moved", "there") == OK
        s.kill()
        s.start()
        for name in ("late", "replaced", "there"):
            assert s.ask("PEXPIRETIME", name) == now + 86400000, name
        assert s.ask("PEXPIRETIME", "never") == -1
        wait_for(lambda: s.ask("EXISTS", "soon") == 0, what="the name to expire")
        assert s.ask("BF.ADD", "soon", "y") == 1
        s.kill()
        s.start()
        assert s.ask("BF.MEXISTS", "soon", "x", "y") == [0, 1]
        assert s.ask("PEXPIRETIME", "soon") == -1
        assert s.ask("DBSIZE") == 5


@alone
def test_names_that_change_places(program):
    """Tests renames over existing names, drops and re-creation, with snapshots in between."""
    dice = random.Random(3)
    with Service(program) as s:
        model, c, number = {}, s.connect(), 0
        for step in range(400):
            a, b = dice.choice("abcdef"), dice.choice("abcdef")
            what = dice.random()
            if what < 0.4:
                number += 1
                if a not in model:
                    model[a] = set()
                assert c.ask("BF.ADD", a, number) == 1
                model[a].add(number)
            elif what < 0.7:
                reply = c.ask("RENAME", a, b)
                if a in model:
                    assert reply == OK
                    model[b] = model.pop(a)
                else:
                    assert reply == Error("ERR no such key")
            elif what < 0.85:
                assert c.ask("DEL", a) == (1 if model.pop(a, None) is not None else 0)
            elif what < 0.93:
                reply = c.ask("COPY", a, b, "REPLACE")
                if a in model and a != b:
                    assert reply == 1
                    model[b] = set(model[a])
            else:
                assert c.ask("SAVE") == OK
            if step % 20 == 19:
                s.kill()
                s.start()
                c = s.connect()
                assert {name.decode() for name in c.ask("KEYS", "*")} == set(model), step
                for name, keys in model.items():
                    if keys:
                        assert c.ask("BF.MEXISTS", name, *keys) == [1] * len(keys), (step, name)


@alone
def test_windows(program):
    with Service(program) as s:
        assert s.ask("BG.CREATE", "short", "WINDOW", "4000", "CAPACITY", "1000", "GENERATIONS", "3") == OK
        assert s.ask("BG.CREATE", "long", "WINDOW", "4000000", "CAPACITY", "1000", "GENERATIONS", "3") == OK
        assert s.ask("BG.ADD", "short", "old") == s.ask("BG.ADD", "long", "old") == 1
        s.kill()
        s.start()
        assert s.ask("BG.EXISTS", "long", "old") == 1
        wait_for(lambda: s.ask("BG.EXISTS", "short", "old") == 0, what="the window to forget the key")
        assert s.ask("BG.ADD", "long", "new") == 1
        s.kill()
        s.start()
        assert s.ask("BG.MEXISTS", "long", "old", "new") == [1, 1]
        assert s.ask("BG.EXISTS", "short", "old") == 0


@alone
def test_a_lower_limit_of_memory_is_reported(program):
    """A filter that exceeds a lowered memory limit is reported in the log. A filter that is merely full is not
    reported."""
    items = [f"item {i}" for i in range(60000)]
    with Service(program, "max-filter-memory 64Ki") as s:
        s.ask("BF.RESERVE", "full", "0.01", "100")
        assert any(isinstance(reply, Error) or isinstance(reply[-1], Error) for reply in s.connect().pipeline(
            [("BF.MADD", "full", *items[at:at + 1000]) for at in range(0, len(items), 1000)]))
        s.kill()
        s.lines = ("max-filter-memory 0",)
        s.start()
        s.ask("BF.RESERVE", "grown", "0.01", "100")
        for at in range(0, len(items), 1000):
            assert not isinstance(s.ask("BF.MADD", "grown", *items[at:at + 1000]), Error)
        for lines, named in (("max-filter-memory 0",), False), (("max-filter-memory 64Ki",), True):
            s.kill()
            s.lines = lines
            s.start()
            news = [line for line in s.read_log()[s.log_start:].splitlines() if "above its target" in line]
            assert len(news) == named and all("grown" in line and "max-filter-memory" in line for line in news), news
            assert all(s.ask("BF.MEXISTS", "grown", *items))


@alone
def test_unfinished_loads(program):
    """Until the last chunk of a dump has been loaded, the filter answers "maybe" for every key."""
    with Service(program) as s:
        for i in range(100):
            s.ask("BF.ADD", "from", i)
        chunks, cursor = [], 0
        while True:
            cursor, data = s.ask("BG.DUMP", "from", cursor, "SIZE", "1000")
            chunks.append(data)
            if cursor in (0, b"0"):
                break
        assert len(chunks) > 2
        assert isinstance(s.ask("BG.LOAD", "to", chunks[0]), list)
        s.kill()
        s.start()
        assert s.ask("BG.EXISTS", "to", "never added") == 1
        for chunk in chunks:
            assert isinstance(s.ask("BG.LOAD", "to", chunk), list)
        for end in (s.kill, s.stop):
            end()
            s.start()
            assert s.ask("BG.MEXISTS", "to", *range(100)) == [1] * 100
            assert s.ask("BG.DIGEST", "to") == s.ask("BG.DIGEST", "from")


service.main(__doc__)
