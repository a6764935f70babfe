#!/usr/bin/env python3
"""Backs up a running service with `bloomgate backup`, and restores the backup into another service: filters of every
kind, clients that write, rename and drop filters in the meantime, signals, a full disk, restarts, missing secrets and
missing permissions.

usage: test_backup.py BLOOMGATED [PARTS-OF-NAMES...]"""

import json
import os
import random
import shutil
import select
import signal
import socket
import sqlite3
import subprocess
import tempfile
import threading
import time

import service
from service import Service, alone
from machine import wait_for

PASSWORD = "correct-horse"
KINDS = ("classic", "partitioned", "blocked", "split", "register", "counting", "cuckoo", "quotient", "scalable")


class Place:
    """A temporary directory for backups, and the program `bloomgate`."""

    def __init__(self, program):
        self.cli = os.path.join(os.path.dirname(program), "bloomgate")
        self.folder = tempfile.mkdtemp(prefix="bloomgate-backup-")

    def path(self, name="b"):
        return os.path.join(self.folder, name)

    def start(self, *words, prefix=(), **env):
        return subprocess.Popen([*prefix, self.cli, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                env={**os.environ, **env})

    def run(self, *words, expect=0, prefix=(), **env):
        process = self.start(*words, prefix=prefix, **env)
        text = process.communicate(timeout=300)[0]
        assert process.returncode == expect, (words, process.returncode, text)
        return text

    def backup(self, s, name="b", *words, **how):
        return self.run("backup", "--service", f"127.0.0.1:{s.port}", self.path(name), *words, **how)

    def restore(self, s, *words, name="b", **how):
        return self.run("restore", "--service", f"127.0.0.1:{s.port}", self.path(name), *words, **how)

    def manifest(self, name="b"):
        with open(os.path.join(self.path(name), "manifest.jsonl"), encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        return lines[0], {line.get("name_hex", line["name"]): line for line in lines[1:-1]}, lines[-1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder)


def twin(program, s, *lines):
    """Returns a new service with the keyring of another."""
    other = Service(program, *lines)
    shutil.copy(os.path.join(s.folder, "keyring"), os.path.join(other.folder, "keyring"))
    return other.start()


def keys(s, prefix, n):
    return [f"{prefix}-{i}" for i in range(n)]


def fill(s):
    """Creates filters of every kind. Returns the keys of each filter."""
    filled = {}
    for kind in KINDS:
        assert s.ask("BG.CREATE", kind, "KIND", kind, "CAPACITY", 1000, "ERROR", "0.01") == "OK", kind
        filled[kind] = "BG.MADD"
    for name, words in {"sharded": ("KIND", "blocked", "CAPACITY", 4000, "SHARDS", 4),
                        "fast": ("KIND", "blocked", "CAPACITY", 1000, "HASH", "fast", "SEED", 7),
                        "time": ("WINDOW", 600000, "CAPACITY", 1000),
                        "count": ("COUNT", 100000, "CAPACITY", 100000),
                        "manual": ("MANUAL", "CAPACITY", 1000)}.items():
        assert s.ask("BG.CREATE", name, *words) == "OK", (name, s.ask("BG.CREATE", name, *words))
        filled[name] = "BG.MADD"
    assert s.ask("BF.RESERVE", "bf", "0.01", 50) == "OK"
    assert s.ask("BF.RESERVE", "fixed", "0.01", 1000, "NONSCALING") == "OK"
    assert s.ask("CF.RESERVE", "cf", 64) == "OK"
    assert s.ask("BF.INSERT", "valkey", "SEED", b"\x07" * 32, "ITEMS", "x") == [1]
    filled.update({"bf": "BF.MADD", "fixed": "BF.MADD", "cf": "CF.INSERT", "valkey": "BF.MADD", b"\xff\x00\n/..": "BF.MADD",
                   "": "BF.MADD", "with space \"quoted\"": "BF.MADD"})
    for name, command in filled.items():
        words = keys(s, "k", 300)
        reply = s.ask(command, name, *(("ITEMS",) if command == "CF.INSERT" else ()), *words)
        assert len(reply) == 300 and not any(isinstance(r, service.Error) for r in reply), (name, reply[:3])
    assert s.ask("CF.DEL", "cf", "k-0") == 1
    return filled


def same(a, b, names, fields=("kind", "items", "deleted", "capacity", "expansions", "bytes")):
    for name in names:
        assert a.ask("BG.DIGEST", name) == b.ask("BG.DIGEST", name), name
        assert a.ask("TYPE", name) == b.ask("TYPE", name), name
        for found, expected in zip(*(dict_of(x.ask("BG.INFO", name), fields) for x in (a, b))):
            assert found == expected, (name, found, expected)


def dict_of(info, fields):
    pairs = dict(zip(info[::2], info[1::2]))
    return [(field, pairs.get(field.encode())) for field in fields]


@alone
def test_every_kind(program):
    """Filters of all kinds are restored with the same digest and counters, and remain usable."""
    with Place(program) as p, Service(program).start() as a:
        filled = fill(a)
        assert a.ask("PEXPIREAT", "bf", int(time.time() * 1000) + 3600000) == 1
        text = p.backup(a)
        assert "filters" in text and "verified" in text, text
        assert not os.path.exists(p.path() + ".partial")
        head, filters, end = p.manifest()
        assert head["schema"] == "bloomgate.backup.1" and not head["names_in_doubt"], head
        assert len(filters) == len(filled) == end["filters"], (len(filters), end)
        assert "intact" in p.run("backup", "--verify", p.path())
        for line in filters.values():  # the files are filter files
            if line["file"].endswith(".bg"):
                p.run("verify", os.path.join(p.path(), line["file"]))
            assert a.ask("BG.DIGEST", bytes.fromhex(line["name_hex"]) if "name_hex" in line else line["name"]).decode() \
                == line["digest"], line
        secret = open(os.path.join(a.folder, "keyring"), encoding="utf-8").read().split()[-1]
        assert not any(secret[:16] in open(os.path.join(p.path(), f), "rb").read().decode("latin1")
                       for f in os.listdir(p.path())), "a secret is in the backup"
        with twin(program, a) as b:
            assert f"verified: {len(filled)} filters" in p.restore(b)
            same(a, b, filled)
            assert a.ask("PEXPIRETIME", "bf") == b.ask("PEXPIRETIME", "bf") > 0
            assert b.ask("TTL", "cf") == -1
            assert len(b.ask("KEYS", "*")) == len(filled)
            for name, command in filled.items():
                assert b.ask("BG.MEXISTS", name, *keys(b, "k", 300)[1:]) == [1] * 299, name
                more = b.ask(command, name, *(("ITEMS",) if command == "CF.INSERT" else ()), "new")
                assert more in ([0], [1]), (name, more)
            b.restart()
            for name in filled:
                assert b.ask("BG.MEXISTS", name, *keys(b, "k", 300)[1:], "new") == [1] * 300, name


@alone
def test_an_imported_filter(program):
    """A filter with valkey-bloom's hash (BF.INSERT ... SEED) keeps its format."""
    with Place(program) as p, Service(program).start() as a:
        assert a.ask("BF.INSERT", "v", "SEED", b"\x01" * 32, "ITEMS", "a", "b") == [1, 1]
        p.backup(a)
        assert p.manifest()[1]["v"]["file"].endswith(".foreign")
        with twin(program, a) as b:
            p.restore(b)
            same(a, b, ["v"])
            assert b.ask("BF.MEXISTS", "v", "a", "b") == [1, 1]


@alone
def test_concurrent_writers(program):
    """Every add acknowledged before the start is in the backup, while clients add, rename, replace and drop filters."""
    with Place(program) as p, Service(program).start() as a:
        names = [f"f{i}" for i in range(40)]
        for name in names:
            assert a.ask("BF.RESERVE", name, "0.001", 20000) == "OK"
            assert len(a.ask("BF.MADD", name, *(f"{name}:{i}" for i in range(500)))) == 500
        stop = threading.Event()
        errors = []

        def write(number):
            dice = random.Random(number)
            with a.connect() as c:
                while not stop.is_set():
                    c.ask("BG.ADD", dice.choice(names), f"late-{dice.random()}")

        def move():
            """Renames filters, and rotates pairs of filters so that a name refers to another filter."""
            dice = random.Random(7)
            with a.connect() as c:
                while not stop.is_set():
                    x, y = dice.sample(names, 2)
                    try:
                        c.ask("RENAMENX", x, "spare")
                        c.ask("RENAMENX", y, x)
                        c.ask("RENAMENX", "spare", y)
                    except OSError as error:
                        errors.append(error)
                    time.sleep(0.02)

        def churn():
            with a.connect() as c:
                while not stop.is_set():
                    c.ask("BF.ADD", "short", "x")
                    c.ask("DEL", "short")
                    c.ask("BG.CLEAR", "cleared")
                    time.sleep(0.005)

        a.ask("BF.ADD", "cleared", "x")
        threads = [threading.Thread(target=write, args=(i,)) for i in range(3)]
        threads += [threading.Thread(target=move), threading.Thread(target=churn)]
        for thread in threads:
            thread.start()
        try:
            p.backup(a)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        assert not errors
        with twin(program, a) as b:
            p.restore(b)
            found = {bytes(n) for n in b.ask("KEYS", "*")}
            filters = [n for n in found if n.startswith(b"f") or n == b"spare"]
            assert len(filters) == 40, sorted(found)
            # each filter still contains the 500 keys of the name it had at the start
            owners = set()
            for name in filters:
                owner = [n for n in names if b.ask("BF.EXISTS", name, f"{n}:0") and all(
                    b.ask("BF.MEXISTS", name, *(f"{n}:{i}" for i in range(500))))]
                assert len(owner) == 1, (name, owner)
                owners.add(owner[0])
            assert owners == set(names)


@alone
def test_a_failed_backup_leaves_nothing(program):
    """After a full disk, a signal or a stopped service, no directory remains, and the exit code shows the reason."""
    with Place(program) as p, Service(program).start() as a:
        for i in range(4):
            assert a.ask("BG.CREATE", f"big{i}", "KIND", "blocked", "CAPACITY", 20000000) == "OK"
        p.backup(a, expect=4, prefix=("prlimit", "--fsize=3000000"))
        assert os.listdir(p.folder) == []
        for number in signal.SIGINT, signal.SIGTERM:
            process = p.start("backup", "--service", f"127.0.0.1:{a.port}", p.path())
            wait_for(lambda: os.path.exists(p.path() + ".partial/000001.bg") or process.poll() is not None)
            process.send_signal(number)
            text = process.communicate()[0]
            assert process.returncode == 130, (process.returncode, text)
            assert os.listdir(p.folder) == [], os.listdir(p.folder)
        process = p.start("backup", "--service", f"127.0.0.1:{a.port}", p.path())
        wait_for(lambda: os.path.exists(p.path() + ".partial/000001.bg") or process.poll() is not None)
        process.kill()
        process.communicate()
        assert "000001.bg" in os.listdir(p.path() + ".partial")
        assert "not a complete backup" in p.run("backup", "--verify", p.path() + ".partial", expect=3)
        p.backup(a)  # replaces the remains
        assert os.listdir(p.folder) == ["b"]
        assert "already exists" in p.backup(a, expect=2)
        a.stop()
        p.backup(a, "c", "--patience", "1s", expect=4)
        assert os.listdir(p.folder) == ["b"]


@alone
def test_the_service_restarts(program):
    """Backup and restore continue after a restart of the service."""
    with Place(program) as p, Service(program).start() as a:
        for i in range(6):
            assert a.ask("BG.CREATE", f"big{i}", "KIND", "blocked", "CAPACITY", 20000000) == "OK"
            assert a.ask("BG.ADD", f"big{i}", "x") == 1
        process = p.start("backup", "--service", f"127.0.0.1:{a.port}", p.path())
        wait_for(lambda: os.path.exists(p.path() + ".partial/000001.bg") or process.poll() is not None)
        a.kill()
        a.start()
        text = process.communicate()[0]
        assert process.returncode == 0, text
        with twin(program, a) as b:
            process = p.start("restore", "--service", f"127.0.0.1:{b.port}", p.path())
            wait_for(lambda: b.ask("DBSIZE") > 1 or process.poll() is not None)
            b.kill()
            b.start()
            text = process.communicate()[0]
            assert process.returncode == 0, text
            assert sorted(b.ask("KEYS", "*")) == [f"big{i}".encode() for i in range(6)], b.ask("KEYS", "*")
            same(a, b, [f"big{i}" for i in range(6)], ())


class Proxy:
    """Forwards connections to a service. Calls `hook` before it forwards the first request that contains `needle`."""

    def __init__(self, s, needle, hook):
        self.service, self.needle, self.hook = s, needle, hook
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            client = self.listener.accept()[0]
            threading.Thread(target=self.forward, args=(client,), daemon=True).start()

    def forward(self, client):
        with client, socket.create_connection(("127.0.0.1", self.service.port)) as server:
            while True:
                for source in select.select([client, server], [], [])[0]:
                    try:
                        data = source.recv(65536)
                    except ConnectionError:
                        return
                    if not data:
                        return
                    if source is client and self.needle and self.needle in data:
                        self.needle = None
                        self.hook()
                    try:
                        (server if source is client else client).sendall(data)
                    except ConnectionError:
                        return


@alone
def test_ids_after_a_restart(program):
    """After a restart, a new filter can have the ID of a deleted filter. The backup does not confuse them."""
    with Place(program) as p, Service(program).start() as a:
        for name in ("first", "second", "third"):
            assert a.ask("BF.ADD", name, name) == 1
        paused, restarted = threading.Event(), threading.Event()
        proxy = Proxy(a, b"BG.DUMP\r\n$5\r\nthird", lambda: (paused.set(), restarted.wait()))
        process = p.start("backup", "--service", f"127.0.0.1:{proxy.port}", p.path())
        assert paused.wait(service.PATIENCE)
        assert a.ask("DEL", "second", "third") == 2 and a.ask("SAVE") == "OK"
        a.kill()
        a.start()
        assert a.ask("BF.MADD", "new", *range(10)) == [1] * 10
        restarted.set()
        text = process.communicate(timeout=service.PATIENCE)[0]
        assert process.returncode == 0, text
        with twin(program, a) as b:
            p.restore(b)
            assert b.ask("BF.MEXISTS", "new", *range(10)) == [1] * 10
            same(a, b, ["first", "new"], ())


def backup_through(p, proxy):
    process = p.start("backup", "--service", f"127.0.0.1:{proxy.port}", p.path())
    text = process.communicate(timeout=service.PATIENCE)[0]
    assert process.returncode == 0, text


@alone
def test_a_filter_expires_during_the_restore(program):
    """A filter that expires while other filters are restored is skipped, too."""
    with Place(program) as p, Service(program).start() as a, Service(program).start() as b:
        assert a.ask("BG.CREATE", "first", "CAPACITY", 100, "HASH", "fast") == "OK"
        assert a.ask("BG.CREATE", "second", "CAPACITY", 100, "HASH", "fast") == "OK"
        then = int(1000 * time.time()) + 4000
        assert a.ask("PEXPIREAT", "second", then) == 1
        p.backup(a)
        proxy = Proxy(b, b"BG.LOAD", lambda: time.sleep(max(0, then / 1000 - time.time() + 0.1)))
        text = p.restore(proxy)
        assert "second: skipped, because it has expired" in text and "verified: 1 filter;" in text and "expired: 1;" in text, text
        assert b.ask("KEYS", "*") == [b"first"]


@alone
def test_a_name_moves_between_pages(program):
    """A name is in the backup even if it moves to an older filter while the list is read: from a page that has not been
    read yet to a page that has."""
    with Place(program) as p, Service(program).start() as a, a.connect() as c:
        items = keys(a, "user", 100)
        pages = []

        def swap():
            pages.append("second")
            assert a.ask("RENAME", "live.next", "live") == "OK"

        def first_page():  # of the second round
            pages.append("first")
            proxy.needle, proxy.hook = b"BG.LIST", swap

        def start_second_round():
            assert a.ask("RENAME", "f1099", "g1099") == "OK"
            proxy.needle, proxy.hook = b"BG.LIST\r\n$1\r\n0\r\n", first_page

        names = ["live.next", *(f"f{i}" for i in range(1100)), "live"]
        for reply in c.pipeline([("BG.CREATE", name, "CAPACITY", 100, "HASH", "fast") for name in names]):
            assert reply == "OK", reply
        for name in "live", "live.next":
            assert len(c.ask("BG.MADD", name, *items)) == len(items)
        proxy = Proxy(a, b"BG.DUMP\r\n$4\r\nf700\r\n", start_second_round)
        backup_through(p, proxy)
        assert pages == ["first", "second"], pages
        filters = p.manifest()[1]
        assert len(filters) == 1101 and "live" in filters and "live.next" not in filters, len(filters)
        with Service(program).start() as b:
            p.restore(b, "live")
            assert b.ask("BF.MEXISTS", "live", *items) == [1] * len(items)


@alone
def test_filters_that_expire(program):
    """Filters that expire during the backup do not count as unreadable. Other users' filters do."""
    with Place(program) as p, Service(program, "user default on nopass +@all ~*", "user one on >one +@all ~one:*").start() as a:
        ended = threading.Event()

        def expire():
            with a.connect() as c:
                while not ended.wait(0.1):  # a round of the backup takes much less time than a filter exists
                    names = [f"one:{random.random()}" for _ in range(10)]
                    c.pipeline([words for name in names for words in (("BF.ADD", name, "x"), ("PEXPIRE", name, 1000))])

        clients = threading.Thread(target=expire)
        clients.start()
        try:
            time.sleep(1)  # until filters expire
            for i in range(30):
                text = p.backup(a, f"all{i}")
                assert "can read only" not in text, text
            a.ask("BF.ADD", "two:a", "x")
            a.ask("BF.ADD", "two:b", "x")
            text = p.backup(a, "one", "--user", "one", expect=1, BLOOMGATE_PASSWORD="one")
            filters = len(p.manifest("one")[1])
            assert f"can read only {filters} of {filters + 2} filters" in text, (filters, text)
        finally:
            ended.set()
            clients.join()


@alone
def test_a_list_while_a_filter_is_replaced(program):
    """A list contains a name even if its filter is replaced while the list is being written."""
    with Service(program).start() as a, a.connect() as c, a.connect() as d:
        c.pipeline([("BG.CREATE", f"f{i}", "CAPACITY", 100, "HASH", "fast") for i in range(900)])
        assert c.ask("COPY", "f0", "live") == 1
        replies = []
        replaces = threading.Thread(target=lambda: replies.extend(d.pipeline([("COPY", "f0", "live", "REPLACE")] * 300)))
        replaces.start()
        lists = 0
        while replaces.is_alive():
            assert b"live" in [line[1] for line in c.ask("BG.LIST", 0, "COUNT", 1000)[1]], lists
            assert b"live" in c.ask("SCAN", 0, "COUNT", 1000)[1], lists
            lists += 1
        replaces.join()
        assert replies == [1] * 300


@alone
def test_keys_after_a_dump(program):
    """A filter that takes a name after it was dumped is dumped again: the name had these keys at the start."""
    with Place(program) as p, Service(program).start() as a:
        items = keys(a, "user", 100)

        def fill_and_swap():
            assert len(a.ask("BF.MADD", "next", *items)) == len(items)
            assert a.ask("RENAME", "next", "live") == "OK"

        for name in "next", "live":
            assert a.ask("BF.RESERVE", name, "0.001", 1000) == "OK"
        assert len(a.ask("BF.MADD", "live", *items)) == len(items)
        backup_through(p, Proxy(a, b"BG.DUMP\r\n$4\r\nlive\r\n", fill_and_swap))
        with twin(program, a) as b:
            p.restore(b)
            assert b.ask("KEYS", "*") == [b"live"]
            assert b.ask("BF.MEXISTS", "live", *items) == [1] * len(items)


@alone
def test_files_of_others(program):
    """A backup removes nothing from DIR.partial if it contains files that no backup has written."""
    with Place(program) as p, Service(program).start() as a:
        partial = p.path() + ".partial"
        assert a.ask("BF.ADD", "one", "x") == 1
        for name in ("2024-photos.tar", "1", "000001.bg.old", "next.txt", "manifest.jsonl.old", "manifest.jsonl.1.tmp~", "0000001.bg"):
            os.mkdir(partial)
            for file in "000001.bg", "next", name:
                with open(os.path.join(partial, file), "w", encoding="utf-8") as out:
                    out.write("precious")
            assert f"contains '{name}'" in p.backup(a, expect=2)
            assert sorted(os.listdir(partial)) == sorted(["000001.bg", "next", name])
            shutil.rmtree(partial)
        os.makedirs(os.path.join(partial, "000001.bg"))
        assert "contains '000001.bg'" in p.backup(a, expect=2)
        shutil.rmtree(partial)
        os.mkdir(p.path("photos"))
        with open(os.path.join(p.path("photos"), "000001.bg"), "w", encoding="utf-8") as out:
            out.write("precious")
        os.symlink(p.path("photos"), partial)
        assert "Not a directory" in p.backup(a, expect=4)
        assert os.path.islink(partial) and os.listdir(p.path("photos")) == ["000001.bg"]
        os.unlink(partial)
        os.mkdir(partial)
        for file in "000001.bg", "1234567.foreign", "next", "manifest.jsonl", "manifest.jsonl.123.tmp":
            with open(os.path.join(partial, file), "w", encoding="utf-8") as out:
                out.write("left behind")
        p.backup(a)
        assert sorted(os.listdir(p.path())) == ["000001.bg", "manifest.jsonl"]


@alone
def test_an_interrupted_restore(program):
    """Filters are restored completely or not at all."""
    with Place(program) as p, Service(program).start() as a:
        for i in range(6):
            assert a.ask("BG.CREATE", f"big{i}", "KIND", "blocked", "CAPACITY", 20000000) == "OK"
            assert a.ask("BG.ADD", f"big{i}", "x") == 1
        p.backup(a)
        with twin(program, a) as b:
            process = p.start("restore", "--service", f"127.0.0.1:{b.port}", p.path())
            wait_for(lambda: b.ask("EXISTS", "big1") == 1 or process.poll() is not None)
            process.send_signal(signal.SIGINT)
            text = process.communicate()[0]
            assert process.returncode == 130, (process.returncode, text)
            there = b.ask("KEYS", "*")
            assert there and not any(b"restore" in name for name in there), there
            for name in there:
                assert b.ask("BG.DIGEST", name) == a.ask("BG.DIGEST", name), name
            p.restore(b, "--skip-existing")
            same(a, b, [f"big{i}" for i in range(6)], ())


@alone
def test_damage_is_found(program):
    """Every changed byte of a backup is reported, and nothing damaged is restored."""
    with Place(program) as p, Service(program).start() as a:
        for name in "one", "two":
            assert a.ask("BF.ADD", name, "x") == 1
        p.backup(a)
        for file in sorted(os.listdir(p.path())):
            path = os.path.join(p.path(), file)
            good = open(path, "rb").read()
            places = [0, len(good) // 2, len(good) - 1] + random.Random(1).sample(range(len(good)), 5)
            for at in places:
                with open(path, "wb") as out:
                    out.write(good[:at] + bytes([good[at] ^ 1]) + good[at + 1:])
                text = p.run("backup", "--verify", p.path(), expect=3 if file.startswith("manifest") else 1)
                assert "damaged" in text or "unknown format" in text, text
            for cut in (good[:-1], good + b"x", b""):
                with open(path, "wb") as out:
                    out.write(cut)
                p.run("backup", "--verify", p.path(), expect=3 if file.startswith("manifest") else 1)
            if not file.startswith("manifest"):
                with twin(program, a) as b:
                    assert "damaged" in p.restore(b, expect=1)
                    assert len(b.ask("KEYS", "*")) == 1, b.ask("KEYS", "*")
                    assert b.ask("KEYS", "*")[0] in (b"one", b"two")
            os.unlink(path)
            p.run("backup", "--verify", p.path(), expect=3 if file.startswith("manifest") else 1)
            with open(path, "wb") as out:
                out.write(good)
        p.run("backup", "--verify", p.path())


@alone
def test_special_files(program):
    """Pipes, devices and directories in a backup are reported, and a file is not read beyond the size in the manifest."""
    with Place(program) as p, Service(program).start() as a, twin(program, a) as b:
        assert a.ask("BF.ADD", "one", "x") == 1
        p.backup(a)
        for file, code in (("000001.bg", 1), ("manifest.jsonl", 3)):
            path = os.path.join(p.path(), file)
            os.rename(path, p.path("good"))
            for create in (os.mkfifo, lambda name: os.symlink("/dev/zero", name), lambda name: os.symlink("/", name)):
                create(path)
                for text in p.run("backup", "--verify", p.path(), expect=code), p.restore(b, expect=code):
                    assert "damaged: not a regular file" in text, text
                os.unlink(path)
            os.rename(p.path("good"), path)
        os.truncate(os.path.join(p.path(), "000001.bg"), 1 << 40)  # sparse
        for text in p.run("backup", "--verify", p.path(), expect=1), p.restore(b, expect=1):
            assert "its size does not match" in text, text
        assert b.ask("KEYS", "*") == []


@alone
def test_long_names(program):
    """Filters whose names have the maximum length are restored."""
    with Place(program) as p, Service(program).start() as a:
        names = [b"a" * n for n in (65519, 65520, 65536)] + [b"a" * 65535 + b"b"]
        for name in names:
            assert a.ask("BF.ADD", name, str(len(name)) + name[-1:].decode()) == 1
        p.backup(a)
        with twin(program, a) as b:
            for words in (), ("--replace",):
                p.restore(b, *words)
                assert sorted(b.ask("KEYS", "*")) == sorted(names)
                same(a, b, names)


@alone
def test_names_in_errors(program):
    """A name that contains the words of another error does not change how an error is handled."""
    with Place(program) as p, Service(program).start() as a:
        assert a.ask("BF.ADD", "secrets", "x") == 1
        p.backup(a)
        path = p.path("shop.db")
        with sqlite3.connect(path) as db:
            db.execute("create table products (sku text primary key)")
        with twin(program, a, f"gate secrets source=sqlite:{path} keys=products(sku) follow=none promise=read-only") as b:
            text = p.restore(b, expect=3)
            assert "is a gate" in text and "keyring" not in text, text
            assert b.ask("KEYS", "*") == []


@alone
def test_existing_filters(program):
    """Existing filters are refused before anything changes; options keep or replace them."""
    with Place(program) as p, Service(program).start() as a:
        for name in "one", "two", "three":
            assert a.ask("BF.ADD", name, "old") == 1
        p.backup(a)
        with twin(program, a) as b:
            assert b.ask("BF.ADD", "two", "new") == 1
            text = p.restore(b, expect=1)
            assert "two: the filter already exists" in text and "nothing was restored" in text, text
            assert b.ask("KEYS", "*") == [b"two"]
            p.restore(b, "--skip-existing")
            assert b.ask("BF.MEXISTS", "two", "old", "new") == [0, 1]
            assert b.ask("BF.MEXISTS", "one", "old", "new") == [1, 0]
            assert b.ask("BF.ADD", "one", "new") == 1
            p.restore(b, "two", "--replace")
            assert b.ask("BF.MEXISTS", "two", "old", "new") == [1, 0]
            assert b.ask("BF.MEXISTS", "one", "old", "new") == [1, 1]
            assert "no filter 'four'" in p.restore(b, "four", expect=3)
            assert sorted(b.ask("KEYS", "*")) == [b"one", b"three", b"two"]
        p.restore(a, "--skip-existing", "--replace", expect=2)


@alone
def test_expiry(program):
    """An expiry is a point in time; expired filters are skipped."""
    with Place(program) as p, Service(program).start() as a:
        for name in "soon", "later":
            assert a.ask("BF.ADD", name, "x") == 1
        assert a.ask("PEXPIRE", "soon", 1500) == 1
        assert a.ask("EXPIRE", "later", 1000) == 1
        p.backup(a)
        time.sleep(1.6)
        with twin(program, a) as b:
            assert "soon: skipped, because it has expired" in p.restore(b)
            assert b.ask("KEYS", "*") == [b"later"]
            assert b.ask("PEXPIRETIME", "later") == a.ask("PEXPIRETIME", "later")


@alone
def test_missing_secrets_and_unknown_content(program):
    """A service without the secret refuses the filter. A filter with unknown content stays in doubt."""
    with Place(program) as p, Service(program).start() as a:
        assert a.ask("BF.ADD", "keyed", "x") == 1
        assert a.ask("BG.CREATE", "fast", "KIND", "blocked", "CAPACITY", 1000, "HASH", "fast") == "OK"
        p.backup(a)
        with Service(program).start() as b:
            text = p.restore(b, expect=3)
            assert "keyed: " in text and "keyring of the original service" in text, text
            assert b.ask("KEYS", "*") == [b"fast"]
        shutil.move(os.path.join(a.folder, "keyring"), os.path.join(a.folder, "old"))
        a.restart()
        text = p.backup(a, "doubt", expect=1)
        assert "keyed: the content of this filter is unknown to the service" in text, text
        assert p.manifest("doubt")[1]["keyed"]["state"] in ("locked", "unknown")
        with Service(program).start() as b:
            assert "answer \"maybe\"" in p.restore(b, name="doubt")
            for _ in range(2):
                assert b.ask("BF.MEXISTS", "keyed", "x", "never added") == [1, 1]
                assert isinstance(b.ask("BF.ADD", "keyed", "y"), service.Error)
                b.restart()


@alone
def test_memory_limit(program):
    """A filter that does not fit is reported, and the others are restored."""
    with Place(program) as p, Service(program).start() as a:
        assert a.ask("BG.CREATE", "big", "KIND", "blocked", "CAPACITY", 40000000) == "OK"
        assert a.ask("BF.ADD", "small", "x") == 1
        p.backup(a)
        with twin(program, a, "maxmemory 40Mi") as b:
            text = p.restore(b, expect=5)
            assert "big: OOM" in text, text
            assert b.ask("KEYS", "*") == [b"small"]
            assert b.ask("BF.ADD", "more", "x") == 1  # nothing is left of the load


@alone
def test_permissions(program):
    """Passwords, users without permissions, and users that see only some filters."""
    lines = (f"user default on >{PASSWORD} +@all ~*", "user shop on >shop +@read +@write +@connection +info ~shop:*",
             "user none on >none +ping", "user saver on >saver +bg.list +bg.dump +info %R~*",  # as in docs/operations.md
             "user keeper on >keeper +bg.load +bg.digest +exists +renamenx +info ~*",
             "user loader on >loader +bg.load +bg.digest +del +exists +rename +renamenx +pexpireat +info ~*", "protected no")
    with Place(program) as p, Service(program, *lines).start() as a:
        with a.connect() as c:
            assert c.ask("AUTH", PASSWORD) == "OK"
            for name in "shop:1", "shop:2", "other":
                assert c.ask("BF.ADD", name, "x") == 1
            assert c.ask("EXPIRE", "other", 1000) == 1
        assert "NOAUTH" in p.backup(a, "x", "--patience", "1s", expect=4)
        assert "WRONGPASS" in p.backup(a, "x", "--patience", "1s", expect=4, BLOOMGATE_PASSWORD="wrong")
        assert "NOPERM" in p.backup(a, "x", "--user", "none", "--patience", "1s", expect=3, BLOOMGATE_PASSWORD="none")
        assert os.listdir(p.folder) == []
        p.backup(a, "b", "--user", "saver", BLOOMGATE_PASSWORD="saver")
        text = p.backup(a, "shop", "--user", "shop", expect=1, BLOOMGATE_PASSWORD="shop")
        assert "only 2 of 3 filters" in text, text
        with twin(program, a, *lines) as b:
            text = p.restore(b, "--user", "shop", expect=3, BLOOMGATE_PASSWORD="shop")
            assert "other: NOPERM" in text, text
            p.restore(b, "--user", "shop", name="shop", BLOOMGATE_PASSWORD="shop")
            p.restore(b, "--skip-existing", BLOOMGATE_PASSWORD=PASSWORD)
            with b.connect() as c:
                assert c.ask("AUTH", PASSWORD) == "OK"
                assert sorted(c.ask("KEYS", "*")) == [b"other", b"shop:1", b"shop:2"]
            p.restore(b, "--replace", "--user", "loader", BLOOMGATE_PASSWORD="loader")
            with b.connect() as c:
                assert c.ask("AUTH", PASSWORD) == "OK"
                c.ask("FLUSHALL")
            p.restore(b, "--user", "loader", BLOOMGATE_PASSWORD="loader")
            text = p.restore(b, "other", "--user", "keeper", expect=1, BLOOMGATE_PASSWORD="keeper")
            assert "may remain" not in text, text
            with b.connect() as c:
                assert c.ask("AUTH", PASSWORD) == "OK"
                c.ask("FLUSHALL")
                text = p.restore(b, "other", "--user", "keeper", expect=3, BLOOMGATE_PASSWORD="keeper")  # cannot set the expiry
                left, = c.ask("KEYS", "*")
                assert f"warning: the filter {left.decode()} may remain in the service; drop it" in text, text


@alone
def test_tls(program):
    """TLS with a private authority, and a password in a file."""
    with Place(program) as p:
        key, cert, secret = (p.path(name) for name in ("key.pem", "cert.pem", "password"))
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days", "2", "-subj",
                        "/CN=backup", "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
        with open(secret, "w", encoding="utf-8") as file:
            file.write(PASSWORD + "\n")
        port = service.free_port()
        with Service(program, f"requirepass {PASSWORD}", f"tls-port {port}", f"tls-cert-file {cert}", f"tls-key-file {key}").start() as a:
            with a.connect() as c:
                assert c.ask("AUTH", PASSWORD) == "OK" and c.ask("BF.ADD", "one", "x") == 1
            where = ("--service", f"127.0.0.1:{port}", "--tls", "--patience", "1s", "--password-file", secret)
            assert "certificate" in p.run("backup", *where, p.path(), expect=4)  # the authority is not trusted
            assert not os.path.exists(p.path())
            p.run("backup", *where, "--tls-ca", cert, p.path())
            with a.connect() as c:
                assert c.ask("AUTH", PASSWORD) == "OK" and c.ask("DEL", "one") == 1
            p.run("restore", *where, "--tls-ca", cert, p.path())
            with a.connect() as c:
                assert c.ask("AUTH", PASSWORD) == "OK" and c.ask("BF.MEXISTS", "one", "x", "y") == [1, 0]


@alone
def test_names_in_doubt(program):
    """A backup can be restored to a service that lost its journal; the restored names are then no longer in doubt."""
    with Place(program) as p, Service(program).start() as a:
        assert a.ask("BF.ADD", "one", "x") == 1
        p.backup(a)
        with twin(program, a) as b:
            for i in range(100):
                assert b.ask("BF.ADD", f"n{i}", "x") == 1
            b.stop()
            data = os.path.join(b.folder, "data")
            for name in os.listdir(data):
                if name.startswith("journal-"):
                    os.unlink(os.path.join(data, name))
            b.lines = (*b.lines, "damaged-journal doubt")
            b.start()
            if b"names_in_doubt:1" not in b.ask("INFO", "persistence"):
                raise AssertionError("the names are not in doubt")
            p.restore(b)
            assert b.ask("BF.MEXISTS", "one", "x", "never added") == [1, 0]
            assert "lost part of its journal" in p.backup(b, "doubt", expect=0)


service.main(__doc__)
