#!/usr/bin/env python3
"""Tests bloomgate migrate. The source is a server with the module, which keeps RedisBloom's and valkey-bloom's filters
in their own types and formats; the filters are those that RedisBloom itself created (tests/foreign/redisbloom). The
target is the service, or another server with the module.
usage: test_module_migrate.py MODULE --service BLOOMGATED [PART OF A NAME...]"""

import contextlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../cluster"))

import redis_host  # noqa: E402  pylint: disable=wrong-import-position
import cluster_world  # noqa: E402  pylint: disable=wrong-import-position
import service  # noqa: E402  pylint: disable=wrong-import-position

SAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../foreign/redisbloom/samples.json")


def crc64_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x95ac9329ac4bc9b5 if byte & 1 else 0)
        table.append(byte)
    return table


CRC64 = crc64_table()


def payload(value):
    """Returns a value in the format that DUMP and RESTORE use."""
    data = b"\x07" + value + struct.pack("<H", 9)
    crc = 0
    for byte in data:
        crc = CRC64[(crc ^ byte) & 255] ^ crc >> 8
    return data + struct.pack("<Q", crc)


def length(n):
    if n < 64:
        return bytes([n])
    return b"\x80" + struct.pack(">I", n) if n < 1 << 32 else b"\x81" + struct.pack(">Q", n)


def field(value):
    if isinstance(value, float):
        return length(4) + struct.pack("<d", value)
    if isinstance(value, bytes):
        return length(5) + length(len(value)) + value
    return length(2) + length(value)


def valkey_bloom(keys):
    """Returns the output of DUMP for a valkey-bloom filter."""
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "filter")
        subprocess.run([program("bloomgate"), "convert", "-q", "--from-keys", "-", "--items", str(len(keys)), "--to", "valkeybloom", path],
                       input="\n".join(keys), text=True, check=True)
        with open(path, "rb") as file:
            data = file.read()
    expansion, rate, tightening, is_random, count = struct.unpack_from("<IddBQ", data, 1)
    assert count == 1
    size, = struct.unpack_from("<Q", data, 30)
    items, capacity = struct.unpack_from("<qq", data, 38 + size)
    number = 0
    for letter in "bloomfltr":
        number = number << 6 | letters.index(letter)
    fields = [1, expansion, rate, tightening, is_random, capacity, items, data[38:38 + size]]
    return payload(length(number << 10 | 1) + b"".join(map(field, fields)) + length(0))


def samples():
    with open(SAMPLES, encoding="utf-8") as file:
        return [sample for sample in json.load(file) if sample["version"] == 4]


def program(name):
    return os.path.join(os.path.dirname(os.path.abspath(redis_host.OPTIONS.service)), name)


def start(source, target, *options, env=None):
    return subprocess.Popen([program("bloomgate"), "migrate", *options, source, target], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, env={**os.environ, **(env or {})})


def migrate(source, target, *options, expect=0, env=None):
    """Runs the command. Returns {name: result} and the messages."""
    source, target = (end if isinstance(end, str) else f"127.0.0.1:{end.port}" for end in (source, target))
    done = start(source, target, *options, env=env)
    out, messages = done.communicate(timeout=service.PATIENCE)
    assert done.returncode == expect, (done.returncode, out, messages)
    return {line.split("\t")[1]: line.split("\t")[0] for line in out.splitlines()}, messages


@contextlib.contextmanager
def targets(h):
    """Starts both kinds of targets."""
    with service.Service(redis_host.OPTIONS.service) as s, redis_host.Host(h.program, h.module) as module:
        yield s, module


def fill(h):
    """Restores all samples. Returns {name: sample}."""
    made = {}
    for sample in samples():
        name = f"{sample['name']}-{len(made)}"
        assert h.ask("RESTORE", name, 0, payload(bytes.fromhex(sample["value"]))) == "OK", name
        made[name] = sample
    return made


def scandump(h, name):
    family = "CF" if h.ask("TYPE", name) == "MBbloomCF" else "BF"
    chunks, iterator = [], 0
    while True:
        iterator, data = h.ask(f"{family}.SCANDUMP", name, iterator)
        if not iterator:
            return chunks
        chunks.append([iterator, data])


def check_members(target, name, sample):
    family = "CF" if sample["type"] == "MBbloomCF" else "BF"
    items = [f"item:{i}" for i in range(*sample["members"])]
    if items:
        assert target.ask(f"{family}.MEXISTS", name, *items) == [1] * len(items), name


def test_copies_all_samples(h):
    made = fill(h)
    h.ask("SET", "plain", "x")
    with targets(h) as both:
        for target in both:
            results, messages = migrate(h, target)
            assert results == {name: "copied" for name in made}, (results, messages)
            assert f"copied and verified: {len(made)}" in messages, messages
            assert "skipped: 1 key of type string (not a filter)" in messages, messages
            for name, sample in made.items():
                check_members(target, name, sample)
                family = "CF" if sample["type"] == "MBbloomCF" else "BF"
                absent = [f"nobody:{i}" for i in range(sample["absent"])]
                found = [i for i, maybe in enumerate(target.ask(f"{family}.MEXISTS", name, *absent)) if maybe]
                assert found == sample["found"], (name, "the filter's bits or hash have changed")
            names = target.ask("KEYS", "*")
            assert sorted(names) == sorted(name.encode() for name in made), "temporary keys remain"
            results, messages = migrate(h, target)
            assert set(results.values()) == {"same"}, (results, messages)


OWN = {"growing": ("BF.RESERVE", "0.01", "10"), "cuckoo": ("CF.RESERVE", "1000"), "large": ("BF.RESERVE", "0.001", "8000000"),
       **{kind: ("BG.CREATE", "KIND", kind, "CAPACITY", "1000", "ERROR", "0.01")
          for kind in ("classic", "partitioned", "blocked", "split", "register", "counting", "quotient")},
       "window": ("BG.CREATE", "COUNT", "1000", "CAPACITY", "1000", "ERROR", "0.01")}


def fill_own(h):
    """Creates Bloomgate filters of several kinds, one of which has several chunks. Returns {name: its items}."""
    made = {name: [f"{name}:{i}" for i in range(100)] for name in OWN}
    for name, (command, *arguments) in OWN.items():
        assert h.ask(command, name, *arguments) == "OK", name
        assert len(h.ask("BG.MADD", name, *made[name])) == 100, name
    return made


def check_own(target, made):
    for name, items in made.items():
        assert target.ask("BG.MEXISTS", name, *items) == [1] * len(items), name


def test_bloomgate_filters(h):
    """Filters of the module are copied to another server, and copied back from the service, if the target has their
    secret. Otherwise they are not copied, and the exit code shows it."""
    made = fill_own(h)
    h.ask("PEXPIRE", "cuckoo", 100000000)
    with targets(h) as (s, module):
        for target in s, module:
            results, messages = migrate(h, target, expect=3)
            assert set(results.values()) == {"failed"} and set(results) == set(made), results
            assert f"failed: {len(made)}" in messages and "secret" in messages, messages
            assert target.ask("KEYS", "*") == []
        key_id, secret = (part.decode() for part in h.ask("BG.SECRET", "blocked"))
        assert module.ask("CONFIG", "SET", "bloomgate.secret", secret) == "OK"
        with open(os.path.join(s.folder, "keyring"), "a", encoding="ascii") as file:
            file.write(f"{key_id} {secret} retired\n")
        s.process.send_signal(signal.SIGHUP)
        service.wait_for(lambda: "settings reloaded" in s.read_log(), what="the secret")
        with redis_host.Host(h.program, h.module) as last:
            last.ask("CONFIG", "SET", "bloomgate.secret", secret)
            for source, target in (h, s), (h, module), (s, last):
                results, messages = migrate(source, target)
                assert results == dict.fromkeys(made, "copied"), (results, messages)
                check_own(target, made)
                assert target.ask("PTTL", "cuckoo") > 90000000
                results, _ = migrate(source, target)
                assert results == dict.fromkeys(made, "same"), results


def test_service_to_module(h):
    """The module names secrets differently than the service. Filters are the same regardless of the name."""
    with targets(h) as (s, module), service.Service(redis_host.OPTIONS.service) as back:
        s.ask("BG.CREATE", "own", "CAPACITY", 1000, "ERROR", "0.01")
        s.ask("BG.ADD", "own", "key")
        s.ask("BG.CREATE", "new window", "WINDOW", "24h", "CAPACITY", 1000)
        key_id, secret = (part.decode() for part in s.ask("BG.SECRET", "own"))
        assert module.ask("CONFIG", "SET", "bloomgate.secret", secret) == "OK"
        results, messages = migrate(s, module)  # the window has not started, or started at most a second ago
        assert results == {"own": "copied", "new window": "copied"}, (results, messages)
        s.ask("DEL", "new window")
        results, messages = migrate(s, module)
        assert results == {"own": "same"}, (results, messages)
        assert module.ask("BG.EXISTS", "own", "key") == 1 and module.ask("BG.SECRET", "own")[0].decode() != key_id
        assert module.ask("BG.ADD", "own", "other") == 1
        results, messages = migrate(s, module, expect=1)
        assert results == {"own": "differs"}, (results, messages)
        with open(os.path.join(back.folder, "keyring"), "a", encoding="ascii") as file:
            file.write(f"{key_id} {secret} retired\n")  # the name differs from that of the other service's own secret
        back.process.send_signal(signal.SIGHUP)
        service.wait_for(lambda: "settings reloaded" in back.read_log(), what="the secret")
        assert "the keyring was not reloaded" not in back.read_log()
        results, messages = migrate(s, back)
        assert results == {"own": "copied"}, (results, messages)


def test_valkey_bloom_and_large_filters(h):
    keys = [f"item:{i}" for i in range(1000)]
    assert h.ask("RESTORE", "valkey", 0, valkey_bloom(keys)) == "OK" and h.ask("TYPE", "valkey") == "bloomfltr"
    sample = next(sample for sample in samples() if sample["type"] == "MBbloom--")
    assert h.ask("RESTORE", "grown", 0, payload(bytes.fromhex(sample["value"]))) == "OK"
    for i in range(0, 100000, 10000):  # some of the layers are almost empty, and are compressed by DUMP
        h.ask("BF.MADD", "grown", *(f"more:{j}" for j in range(i, i + 10000)))
    with targets(h) as both:
        for target in both:
            results, messages = migrate(h, target)
            assert results == {"grown": "copied", "valkey": "copied"}, (results, messages)
            assert all(target.ask("BF.MEXISTS", "grown", *(f"more:{i}" for i in range(100000))))
            assert target.ask("BF.MEXISTS", "valkey", *keys) == [1] * 1000
            assert sum(target.ask("BF.MEXISTS", "valkey", *(f"nobody:{i}" for i in range(1000)))) < 50
            target.ask("BF.ADD", "valkey", "one more")
            assert target.ask("BF.EXISTS", "valkey", "one more") == 1


def test_expiration(h):
    made = fill(h)
    short, long, *_ = made
    with targets(h) as both:
        for target in both:
            h.ask("PEXPIRE", short, 3600000)
            migrate(h, target)
            assert 3500000 < target.ask("PTTL", short) <= 3600000
            assert target.ask("PTTL", long) == -1
            h.ask("PEXPIRE", short, 7200000)  # changed since the first run
            target.ask("EXPIRE", long, 100)
            assert set(migrate(h, target)[0].values()) == {"same"}
            assert target.ask("PTTL", short) <= 3600000 and 0 < target.ask("PTTL", long) <= 100000  # existing filters are only compared
            assert set(migrate(h, target, "--replace")[0].values()) == {"same"}
            assert 7100000 < target.ask("PTTL", short) <= 7200000 and target.ask("PTTL", long) == -1


def test_never_overwrites(h):
    made = fill(h)
    changed, blocked, *_ = [name for name, sample in made.items() if sample["type"] == "MBbloom--"]
    with targets(h) as both:
        for target in both:
            migrate(h, target)
            h.ask("BF.ADD", changed, f"added to the source of {target.port}")
            assert target.ask("DEL", blocked) == 1
            target.ask("BF.ADD", blocked, "a key of the target")
            results, messages = migrate(h, target, expect=1)
            assert {name for name, result in results.items() if result == "differs"} == {changed, blocked}, results
            assert "use --replace" in messages and "the target has a different filter" in messages, messages
            assert target.ask("BF.EXISTS", blocked, "a key of the target") == 1
            results, _ = migrate(h, target, "--dry-run", "--replace")
            assert results.pop(changed) == "would replace" == results.pop(blocked) and set(results.values()) == {"same"}
            assert target.ask("BF.EXISTS", blocked, "a key of the target") == 1
            results, _ = migrate(h, target, "--replace")
            assert results.pop(changed) == "replaced" == results.pop(blocked) and set(results.values()) == {"same"}
            assert target.ask("BF.EXISTS", changed, f"added to the source of {target.port}") == 1
            check_members(target, blocked, made[blocked])
            migrate(h, target)


def test_dry_run_and_match(h):
    made = fill(h)
    one = next(iter(made))
    with targets(h) as both:
        for target in both:
            results, messages = migrate(h, target, "--dry-run")
            assert results == {name: "would copy" for name in made} and f"to copy: {len(made)}" in messages, messages
            assert target.ask("DBSIZE") == 0
            assert migrate(h, target, "--match", one[:-1] + "?")[0].get(one) == "copied"
            assert target.ask("DBSIZE") < len(made)


def test_resumes(h):
    """The target stops answering in the middle of the migration; the second run continues."""
    made = fill(h)
    with targets(h) as both:
        for target in both:
            gate = Relay(target.port, 3)
            running = start(f"127.0.0.1:{h.port}", f"127.0.0.1:{gate.port}", "--patience", "300ms", "--timeout", "1s")
            out, messages = running.communicate(timeout=service.PATIENCE)
            assert running.returncode == 4 and "run the same command again to resume" in messages, (running.returncode, messages)
            before = len(out.splitlines())
            assert before < len(made), out
            results, messages = migrate(h, target)
            assert list(results.values()).count("same") >= before and set(results.values()) == {"same", "copied"}, results
            for name, sample in made.items():
                check_members(target, name, sample)
            assert target.ask("DBSIZE") == len(made), target.ask("KEYS", "*")


def test_interrupted(h):
    fill(h)
    with targets(h) as (s, _):
        gate = Relay(s.port, 3)
        running = start(f"127.0.0.1:{h.port}", f"127.0.0.1:{gate.port}")
        service.wait_for(lambda: gate.stopped.is_set(), what="the migration")
        running.send_signal(signal.SIGINT)
        _, messages = running.communicate(timeout=service.PATIENCE)
        assert running.returncode == 130 and "run the same command again to resume" in messages, (running.returncode, messages)


def test_filters_in_use(h):
    """Keys that were added before the last run are on the target, although clients keep changing the source."""
    made = fill(h)
    name = next(name for name, sample in made.items() if sample["type"] == "MBbloom--")
    stop, added = threading.Event(), []

    def add():
        with h.connect() as c:
            while not stop.is_set():
                key = f"live:{len(added)}"
                c.ask("BF.ADD", name, key)
                added.append(key)

    with targets(h) as (s, _):
        writer = threading.Thread(target=add)
        writer.start()
        try:
            time.sleep(0.2)
            known = len(added)
            migrate(h, s)
            assert all(s.ask("BF.MEXISTS", name, *added[:known]))
        finally:
            stop.set()
            writer.join()
        results, _ = migrate(h, s, "--replace")
        assert results[name] == "replaced"
        assert all(s.ask("BF.MEXISTS", name, *added)), "a key was lost"


def test_errors(h):
    assert h.ask("RESTORE", "old", 0, payload(bytes.fromhex(samples()[0]["value"]))) == "OK"
    with targets(h) as (s, module):
        assert "the target does not support BG.LOAD" in migrate(h, Fake({}), expect=3)[1]
        assert "source: 127.0.0.1:1: " in migrate("127.0.0.1:1", s, expect=4)[1]
        assert "expected HOST:PORT" in migrate("nowhere", s, expect=2)[1]
        assert "the same server" in migrate(h, h, expect=2)[1]
        assert "require --target-tls" in migrate(h, s, "--target-tls-ca", "x", expect=2)[1]
        module.ask("SET", "old", "a string")  # not a filter
        results, messages = migrate(h, module, expect=1)
        assert results == {"old": "differs"} and "WRONGTYPE" in messages, messages
        module.ask("CONFIG", "SET", "requirepass", "secret-of-the-target")
        assert "NOAUTH" in migrate(h, module, expect=4)[1]
        results, _ = migrate(h, module, "--replace", env={"BLOOMGATE_TARGET_PASSWORD": "secret-of-the-target"})
        assert results == {"old": "replaced"}
        scan = [b"0", [b"key"]]
        results, messages = migrate(Fake({b"SCAN": scan, b"TYPE": "MBbloom--", b"PTTL": -1, b"DUMP": b"\x07damaged" + bytes(20)}), s, expect=3)
        assert results == {"key": "failed"} and "key: the value is damaged: its checksum does not match" in messages, messages
        results, messages = migrate(Fake({b"SCAN": scan, b"TYPE": "MBbloom--", b"PTTL": -2, b"DUMP": None}), s)
        assert results == {"key": "deleted"}, messages
        results, messages = migrate(Fake({b"SCAN": scan, b"TYPE": "TopK-TYPE", b"INFO": b"# Keyspace\r\ndb0:keys=1\r\ndb3:keys=7\r\n"}), s)
        assert "Bloomgate does not support this type" in messages and "in databases other than 0" in messages, messages
        two = [b"0", [b"large", b"key"]]  # the first filter is larger than 2 GiB
        value = payload(bytes.fromhex(samples()[0]["value"]))
        source = Fake({b"SCAN": two, b"TYPE": "MBbloom--", b"PTTL": -1, (b"DUMP", b"large"): Raw(b"$2147483648\r\n0123"), b"DUMP": value})
        results, messages = migrate(source, s, "--patience", "100s", expect=3)
        assert results == {"large": "failed", "key": "copied"} and "large: DUMP: the reply is larger than 2 GiB" in messages, messages
        for answer in redis_host.Error("NOPERM no"), b"MBbloom--", 1:
            results, messages = migrate(Fake({b"SCAN": scan, b"TYPE": answer}), s, expect=3)
            assert results == {"key": "failed"} and "did not report the type of this key" in messages, messages
        assert "SCAN: NOPERM" in migrate(Fake({b"SCAN": redis_host.Error("NOPERM no")}), s, expect=4)[1]


def one_key(**replies):
    """A source with the filter `key`, and the given replies."""
    value = payload(bytes.fromhex(next(sample["value"] for sample in samples() if sample["type"] == "MBbloom--")))
    return Fake({b"SCAN": [b"0", [b"key"]], b"TYPE": "MBbloom--", b"PTTL": -1, b"DUMP": value, b"PING": b"key",
                 **{name.encode(): reply for name, reply in replies.items()}})


def test_one_filter_does_not_block_others(h):
    """The source cannot send one filter: it is too large, or the connection breaks."""
    value = one_key().replies[b"DUMP"]
    with targets(h) as both:
        for target in both:
            for bad in Raw(b"$3000000000\r\nabc"), Cut(b""), Cut(b"$100\r\nabc"):
                source = one_key(SCAN=[b"0", [b"bad", b"good"]], DUMP=lambda words, bad=bad: bad if words[1] == b"bad" else value)
                results, messages = migrate(source, target, "--replace", "--patience", "300ms", expect=3)
                assert results["bad"] == "failed" and results["good"] in ("copied", "same"), (results, messages)
                assert "warning: bad: " in messages and "failed: 1" in messages, messages
                assert ("the reply is larger than 2 GiB" in messages) == (bad.count(b"3000000000") > 0), messages
            source = one_key(SCAN=[b"0", [b"bad", b"good"]], DUMP=Cut(b""), PING=Cut(b""))
            results, messages = migrate(source, target, "--patience", "300ms", expect=4)
            assert not results and "bad: gave up retrying: " in messages, messages


def test_lost_reply_to_rename(h):
    """The reply to RENAMENX or RENAME is lost. The repeated command fails, because the temporary key no longer
    exists."""
    sample = fill(h)
    with targets(h) as both:
        for target in both:
            for options, result in ((), "copied"), (("--replace",), "replaced"):
                gate = Relay(target.port, loads=None, deaf_to=b"RENAME")
                results, messages = migrate(h, gate, *options)
                assert list(results.values()).count(result) == (len(sample) if result == "copied" else 1), (results, messages)
                assert gate.stopped.is_set() and target.ask("DBSIZE") == len(sample)
                name = next(name for name in sample if sample[name]["type"] == "MBbloom--")
                target.ask("BF.ADD", name, "a key that differs")
            target.ask("DEL", name)
            gate = Relay(target.port, loads=None, deaf_to=b"RENAME", then=["DEL", name])
            results, messages = migrate(h, gate, expect=3)
            assert results.pop(name) == "failed" and set(results.values()) == {"same"}, (results, messages)
            assert "deleted or changed on the target" in messages or "BG.DUMP: " in messages, messages


def test_expiration_that_changes(h):
    """The key is created again, or its expiration time is changed, while it is being read."""
    with targets(h) as both:
        for target in both:
            for times, dumps, result in (([-1, 5000000], 2, "copied"), ([5000000, -1], 2, "copied"), ([-2, -1], 2, "copied"),
                                         ([5000000, 9000000], 2, "copied"), ([5000000], 1, "copied"), ([-1], 1, "copied"),
                                         ([1000000, 2000000, 3000000, 4000000, 5000000], 3, "copied"), ([-1, -2], 2, "deleted")):
                left, read = list(times), []
                value = one_key().replies[b"DUMP"]
                source = one_key(PTTL=lambda _, left=left: left.pop(0) if len(left) > 1 else left[0],
                                 DUMP=lambda _, times=times, read=read: read.append(1) or (None if times[-1] == -2 and len(read) > 1 else value))
                results, messages = migrate(source, target)
                assert results == {"key": result} and len(read) == dumps, (times, results, read, messages)
                if result == "copied":
                    last = target.ask("PTTL", "key")
                    wanted = times[min(dumps, len(times) - 1)]
                    assert last == -1 if wanted == -1 else wanted - 1000000 < last <= wanted, (times, last)
                    assert target.ask("DEL", "key") == 1


def test_invalid_replies(h):
    """Peers that violate the protocol end the command, or fail one filter."""
    with targets(h) as (s, _):
        empty = []
        for cursors in [b"7"], [b"1", b"2"], [b"1", b"2", b"3", b"2", b"4"]:
            turn = iter(range(1 << 30))
            scans = lambda _, cursors=cursors, turn=turn: [cursors[next(turn) % len(cursors)], empty]
            results, messages = migrate(one_key(SCAN=scans), s, expect=3)
            assert not results and "SCAN: the source never returns the cursor 0" in messages, messages
        for reply in [b"0\0x", empty], [b"", empty], [b"-1", empty], [b"1" * 24, empty], [b"0", [1]], [b"0", [None]], [b"0", None], [0, empty]:
            results, messages = migrate(one_key(SCAN=reply), s, expect=3)
            assert not results and "SCAN: invalid reply, expected a cursor and a list of keys" in messages, (reply, messages)
        results, messages = migrate(one_key(PTTL=b"x"), s, expect=3)
        assert results == {"key": "failed"} and "PTTL: invalid reply, expected a number" in messages, messages
        results, messages = migrate(one_key(SCAN=[b"0", [b"a\0b"]]), s)
        assert results == {"a?b": "copied"} and s.ask("EXISTS", b"a\0b") == 1, (results, messages)
        chunk = s.ask("BG.DUMP", b"a\0b", 0)[1]
        for dump in [1, b""], [1, chunk], [0, 0], [empty, chunk]:
            target = Fake({b"TYPE": "bloomgate", b"BG.LOAD": 0, b"BG.DUMP": dump})
            results, messages = migrate(one_key(), target, expect=3)
            assert results == {"key": "failed"} and ("BG.DUMP: " in messages or "not a chunk of a dump" in messages), (dump, results, messages)


def test_dumps_by_other_clients(h):
    """A server keeps one copy of a filter for BG.DUMP. Another client replaces this copy, or frees it by reading it to the
    end, while the filter is being copied. The chunks of two copies are never combined."""
    chunks = iter(range(1 << 20))
    with service.Service(redis_host.OPTIONS.service) as source, service.Service(redis_host.OPTIONS.service) as target:
        for rest in [], [1 << 20, 2 << 20]:
            source.ask("BG.CREATE", "key", "CAPACITY", 1000000, "ERROR", "0.0001", "HASH", "fast")
            source.ask("BG.ADD", "key", "old")

            def dump(words, rest=rest, source=source):
                if words[2] != b"0" and next(chunks) % 4 == 0:
                    source.ask("BG.ADD", "key", f"new{rest}")
                    for cursor in [0, *rest]:
                        source.ask("BG.DUMP", "key", cursor)
                return source.ask(*words)

            results, messages = migrate(one_key(TYPE="bloomgate", **{"BG.DUMP": dump}), target)
            assert results == {"key": "copied"}, (results, messages)
            assert target.ask("BG.DIGEST", "key") == source.ask("BG.DIGEST", "key")
            source.ask("DEL", "key")
            target.ask("DEL", "key")
        first, other = (filter_in_chunks(target, key) for key in ("a", "b"))
        results, messages = migrate(one_key(TYPE="bloomgate", **{"BG.DUMP": lambda words: other[1] if int(words[2]) else first[0]}), target, expect=3)
        assert results == {"key": "failed"} and "another client keeps starting dumps of the filter" in messages, (results, messages)


def filter_in_chunks(s, key):
    """Returns the replies to BG.DUMP for a filter with one key."""
    s.ask("BG.CREATE", "key", "CAPACITY", 1000, "ERROR", "0.01", "HASH", "fast")
    s.ask("BG.ADD", "key", key)
    replies = [s.ask("BG.DUMP", "key", 0, "SIZE", 2000)]
    while replies[-1][0]:
        replies.append(s.ask("BG.DUMP", "key", replies[-1][0], "SIZE", 2000))
    s.ask("DEL", "key")
    return replies


def test_dumps_that_end_early(h):
    with service.Service(redis_host.OPTIONS.service) as target:
        chunks = filter_in_chunks(target, "a")[:2]
        results, messages = migrate(one_key(TYPE="bloomgate", **{"BG.DUMP": lambda words: [0, chunks[1][1]] if int(words[2]) else chunks[0]}), target, expect=3)
        assert results == {"key": "failed"} and "BG.DUMP: the dump is incomplete or damaged" in messages, (results, messages)


def test_filters_that_the_user_may_not_read(h):
    """The service hides filters from users that may not read them. The command copies the others, and fails."""
    users = "user default on nopass +@all ~*", "user shop on >shop +@read +@connection +info +cluster ~shop:*"
    with service.Service(redis_host.OPTIONS.service, *users) as source, service.Service(redis_host.OPTIONS.service) as s:
        for name in "shop:1", "shop:2", "other":
            assert source.ask("BG.CREATE", name, "CAPACITY", 100, "HASH", "fast") == "OK"
        assert source.ask("BG.CREATE", "expired", "CAPACITY", 100, "HASH", "fast") == "OK" and source.ask("PEXPIRE", "expired", 1) == 1
        shop = {"BLOOMGATE_SOURCE_PASSWORD": "shop"}
        results, messages = migrate(source, s, "--source-user", "shop", env=shop, expect=3)
        assert results == {"shop:1": "copied", "shop:2": "copied"} and "because the user may not read them: 1" in messages, (results, messages)
        migrate(source, s, "--source-user", "shop", "--match", "shop:*", env=shop)
        results, messages = migrate(source, s)
        assert results == {"shop:1": "same", "shop:2": "same", "other": "copied"}, (results, messages)


def test_source_that_changes(h):
    """While the source is being scanned, it is restarted, or slots move between its nodes. The scan may have missed
    keys, so the migration is not complete."""
    scans = []

    def scan(_):
        scans.append(1)
        return [b"7", [b"key"]] if len(scans) == 1 else Cut(b"") if len(scans) == 2 else [b"0", []]

    with targets(h) as (s, _):
        source = one_key(SCAN=scan, INFO=lambda _: b"run_id:" + (b"2" if len(scans) > 1 else b"1") * 40 + b"\r\n")
        results, messages = migrate(source, s, expect=4)
        assert results == {"key": "copied"} and "the source was restarted during the migration; run the same" in messages, messages
        source = one_key(SCAN=lambda _: scans.clear() or [b"0", [b"key"]])
        slots = [[0, 9999, [b"127.0.0.1", source.port]], [10000, 16383, [b"127.0.0.1", source.port]]]
        moved = [slots[0], [10000, 16383, [b"127.0.0.1", one_key().port]]]
        source.replies[b"CLUSTER"] = lambda _: slots if scans else moved
        results, messages = migrate(source, s, expect=4)
        assert results == {"key": "same"} and "slots of the source have moved during the migration; run the same" in messages, messages


def test_password_options(h):
    with targets(h) as (s, module):
        assert "user u: no password is set: set --source-password-file" in migrate(h, s, "--source-user", "u", expect=2)[1]
        assert "user u: no password is set: set --target-password-file" in migrate(h, s, "--target-user", "u", expect=2)[1]
        module.ask("CONFIG", "SET", "requirepass", "secret-of-the-target")
        assert "requires a password: set --target-password-file" in migrate(h, module, expect=4)[1]


def test_clusters(h):
    """Filters are read from all nodes of a cluster, and written to the nodes that own their slots."""
    names = {f"filter:{i}" for i in range(20)} | {"{tag}a", "a}b", "{}c"}
    value = payload(bytes.fromhex(samples()[0]["value"]))
    for name in names:
        assert h.ask("RESTORE", name, 0, value) == "OK"
    with cluster_world.World(h.program, h.module, replicas=0) as world, service.Service(redis_host.OPTIONS.service) as s:
        results, messages = migrate(h, world.nodes[1].address())
        assert results == {name: "copied" for name in names}, (results, messages)
        assert sum(node.ask("DBSIZE") > 3 for node in world.nodes) == 3
        for node in world.nodes:  # the source's own types, so that the cluster can be a source, too
            for key in node.ask("KEYS", "*"):
                node.ask("RESTORE", key, 0, value, "REPLACE")
        results, messages = migrate(world.nodes[2].address(), s)
        assert results == {name: "copied" for name in names}, (results, messages)


class Relay:
    """Forwards connections to a server. Stops responding after `loads` BG.LOAD commands. If `deaf_to` is set, instead
    drops the connection before the first reply to that command, and then sends the command `then`."""

    def __init__(self, port, loads, deaf_to=None, then=None):
        self.to, self.left, self.stopped = port, loads, threading.Event()
        self.deaf_to, self.then, self.heard = deaf_to, then, False
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            near, _ = self.listener.accept()
            if self.stopped.is_set() and not self.deaf_to:
                near.close()
                continue
            far = socket.create_connection(("127.0.0.1", self.to))
            threading.Thread(target=self.pump, args=(near, far, True), daemon=True).start()
            threading.Thread(target=self.pump, args=(far, near, False), daemon=True).start()

    def pump(self, source, sink, requests):
        if self.deaf_to:
            self.drop_reply(source, sink, requests)
            return
        while not self.stopped.is_set():
            data = source.recv(65536)
            if not data:
                break
            if requests and b"BG.LOAD" in data:
                self.left -= 1
                if self.left < 0:
                    self.stopped.set()
                    return
            sink.sendall(data)


    def drop_reply(self, source, sink, requests):
        """Forwards one direction of a connection."""
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if not requests and self.heard and not self.stopped.is_set():
                    self.stopped.set()
                    if self.then:
                        with service.Connection(self.to) as c:
                            c.ask(*self.then)
                    break
                self.heard = self.heard or (requests and self.deaf_to in data)
                sink.sendall(data)
            source.shutdown(socket.SHUT_RDWR)
            sink.shutdown(socket.SHUT_RDWR)


class Fake:
    """A server that gives the same reply to every request of a command, or of a command with a key, or the result of a
    function of the request."""

    def __init__(self, replies):
        self.replies = replies
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            connection, _ = self.listener.accept()
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        stream = connection.makefile("rb")
        while True:
            line = stream.readline()
            if not line:
                return
            words = [stream.read(int(stream.readline()[1:]) + 2)[:-2] for _ in range(int(line[1:]))]
            reply = self.replies.get(words[0], redis_host.Error(f"ERR unknown command '{words[0].decode()}'"))
            reply = self.replies.get(tuple(words[:2]), reply)
            reply = reply(words) if callable(reply) else reply
            connection.sendall(encode(reply))
            if isinstance(reply, Cut):
                connection.shutdown(socket.SHUT_RDWR)
                return


class Raw(bytes):
    """The bytes of a reply."""


class Cut(Raw):
    """The bytes of a reply before the connection is closed."""


def encode(reply):
    if reply is None:
        return b"$-1\r\n"
    if isinstance(reply, redis_host.Error):
        return b"-" + reply.encode() + b"\r\n"
    if isinstance(reply, str):
        return b"+" + reply.encode() + b"\r\n"
    if isinstance(reply, int):
        return b":%d\r\n" % reply
    if isinstance(reply, Raw):
        return reply
    if isinstance(reply, bytes):
        return b"$%d\r\n%s\r\n" % (len(reply), reply)
    return b"*%d\r\n" % len(reply) + b"".join(map(encode, reply))


redis_host.main(__doc__)
