#!/usr/bin/env python3
"""Tests the commands that are unrelated to filters: connections, names, options, statistics, and users.
usage: test_generic.py PATH-OF-BLOOMGATED [PART-OF-A-NAME...]"""

import os
import re
import socket
import sqlite3
import threading
import time
import urllib.request

import service
from service import Error, Members, Pairs, Service, Status, Verbatim, alone, encode, wait_for

OK = Status("OK")


# ---- Connections -------------------------------------------------------------------------------


def test_ping_echo(s):
    assert s.ask("PING") == Status("PONG")
    assert s.ask("ping", "x\r\ny\0") == b"x\r\ny\0"
    assert s.ask("PING", "a", "b") == Error("ERR wrong number of arguments for 'ping' command")
    assert s.ask("ECHO", "") == b""
    assert s.ask("ECHO") == Error("ERR wrong number of arguments for 'echo' command")


def test_unknown_command(s):
    assert s.ask("NOSUCH", "a", "b") == Error(
        "ERR unknown command 'NOSUCH', with args beginning with: 'a' 'b' ")
    assert s.ask("CLIENT|ID").startswith("ERR unknown command 'CLIENT|ID'")
    assert s.ask("CLIENT") == Error("ERR wrong number of arguments for 'client' command")
    assert s.ask("CLIENT", "NOSUCH") == Error(
        "ERR unknown subcommand 'NOSUCH'. Try CLIENT HELP.")
    assert s.ask("CLIENT", "SETNAME") == Error(
        "ERR wrong number of arguments for 'client|setname' command")
    for word in ("SUBSCRIBE", "MONITOR", "EVAL", "GET"):
        assert s.ask(word, "x").startswith(f"ERR unknown command '{word}'")
    assert s.ask("x" * 300, "y" * 300).startswith("ERR unknown command 'xxx")


def test_hello(s):
    with s.connect() as c:
        flat = c.ask("HELLO")
        assert isinstance(flat, list) and len(flat) == 14
        told = dict(zip(flat[::2], flat[1::2]))
        assert told[b"proto"] == 2 and told[b"server"] == b"redis"
        assert told[b"role"] == b"master" and told[b"mode"] == b"standalone"
        told = c.ask("HELLO", "3", "SETNAME", "alice")
        assert isinstance(told, Pairs) and dict(told[:6])[b"proto"] == 3
        modules = told[6][1]
        assert dict((k, v) for k, v in modules[0] if k in (b"name", b"ver")) == {
            b"name": b"bf", b"ver": 20612}
        assert c.ask("CLIENT", "GETNAME") == b"alice"
        assert c.ask("CLIENT", "ID") == dict(told[:6])[b"id"]
        assert isinstance(c.ask("HELLO", "2"), list)
        assert c.ask("HELLO", "4") == Error("NOPROTO unsupported protocol version")
        assert c.ask("HELLO", "x") == Error(
            "ERR Protocol version is not an integer or out of range")
        assert c.ask("HELLO", "3", "FOO") == Error("ERR Syntax error in HELLO option 'FOO'")
        assert c.ask("HELLO", "3", "AUTH", "a") == Error("ERR Syntax error in HELLO option 'AUTH'")
        assert c.ask("HELLO", "3", "SETNAME", "a b") == Error(
            "ERR Client names cannot contain spaces, newlines or special characters.")


def test_resp3_shapes(s):
    with s.connect() as c:
        c.ask("HELLO", "3")
        assert c.ask("BF.ADD", "k", "a") is True
        assert c.ask("BF.EXISTS", "k", "b") is False
        assert isinstance(c.ask("INFO"), Verbatim)
        assert isinstance(c.ask("CLIENT", "LIST"), Verbatim)
        assert isinstance(c.ask("CONFIG", "GET", "port"), Pairs)
        assert c.ask("CLIENT", "GETNAME") is None
        assert isinstance(c.ask("COMMAND", "INFO", "GET")[0], type(None))
        info = c.ask("COMMAND", "INFO", "BF.ADD")[0]
        assert isinstance(info[2], Members) and Status("write") in info[2]
        assert isinstance(c.ask("COMMAND", "DOCS", "BF.ADD"), Pairs)
        assert c.ask("RESET") == Status("RESET")
        assert c.ask("BF.ADD", "k", "a") == 0


def test_select_reset_quit(s):
    assert s.ask("SELECT", "0") == OK
    assert s.ask("SELECT", "1") == Error("ERR DB index is out of range")
    assert s.ask("SELECT", "x") == Error("ERR value is not an integer or out of range")
    assert s.ask("READONLY") == Error("ERR This instance has cluster support disabled")
    assert s.ask("CLUSTER", "INFO") == Error("ERR This instance has cluster support disabled")
    with s.connect() as c:
        c.send(encode("QUIT") + encode("PING"))
        assert c.reply() == OK
        assert c.is_closed()


def test_client_names(s):
    with s.connect() as c:
        assert c.ask("CLIENT", "GETNAME") is None
        assert c.ask("CLIENT", "SETNAME", "bob") == OK
        assert c.ask("CLIENT", "GETNAME") == b"bob"
        assert c.ask("CLIENT", "SETINFO", "LIB-NAME", "mine") == OK
        assert c.ask("CLIENT", "SETINFO", "lib-ver", "1.2") == OK
        assert c.ask("CLIENT", "SETINFO", "LIB-FOO", "1") == Error(
            "ERR Unrecognized option 'LIB-FOO'")
        assert c.ask("CLIENT", "SETINFO", "LIB-NAME", "a b") == Error(
            "ERR lib-name cannot contain spaces, newlines or special characters.")
        line = c.ask("CLIENT", "INFO").decode()
        assert " name=bob " in line and line.endswith("lib-name=mine lib-ver=1.2\n"), line
        assert f"id={c.ask('CLIENT', 'ID')} " in line
        assert f"laddr=127.0.0.1:{s.port} " in line
        port = c.socket.getsockname()[1]
        assert f"addr=127.0.0.1:{port} " in line
        assert c.ask("CLIENT", "SETNAME", "") == OK
        assert c.ask("CLIENT", "GETNAME") is None
        assert c.ask("CLIENT", "NO-EVICT", "on") == OK
        assert c.ask("CLIENT", "NO-TOUCH", "maybe") == Error("ERR syntax error")
        assert c.ask("CLIENT", "SETNAME", "x" * 1000).startswith("ERR Client names: found 1000")


def fields(line):
    return dict(field.split("=", 1) for field in line.split(" "))


def test_client_list(s):
    others = [s.connect() for _ in range(20)]
    ids = sorted(c.ask("CLIENT", "ID") for c in others)
    with Service.connect(s) as c:
        lines = c.ask("CLIENT", "LIST").decode().splitlines()
        told = [int(fields(line)["id"]) for line in lines]
        assert told == sorted(told) and set(ids) <= set(told)
        assert all(re.fullmatch(
            r"id=\d+ addr=\S+ laddr=\S+ fd=\d+ name=\S* age=\d+ idle=\d+ flags=[Nx] db=0 sub=0 "
            r"psub=0 ssub=0 multi=-?\d+ qbuf=\d+ qbuf-free=\d+ argv-mem=\d+ multi-mem=\d+ "
            r"rbs=\d+ rbp=\d+ obl=\d+ oll=\d+ omem=\d+ tot-mem=\d+ events=r?w? cmd=\S+ "
            r"user=default redir=-1 resp=[23] lib-name=\S* lib-ver=\S*", line)
            for line in lines), lines
        assert {fields(line)["cmd"] for line in lines if int(fields(line)["id"]) in ids} \
            == {"client|id"}
        lines = c.ask("CLIENT", "LIST", "ID", str(ids[3]), str(ids[7])).decode().splitlines()
        assert [int(fields(line)["id"]) for line in lines] == [ids[3], ids[7]]
        assert c.ask("CLIENT", "LIST", "TYPE", "replica") == b""
        assert c.ask("CLIENT", "LIST", "TYPE", "x") == Error("ERR Unknown client type 'x'")
        assert c.ask("CLIENT", "LIST", "ID", "x") == Error("ERR Invalid client ID")
        assert c.ask("CLIENT", "LIST", "FOO") == Error("ERR syntax error")
    unix = service.Connection(0, path=s.unix)
    assert "addr=unix laddr=unix" in unix.ask("CLIENT", "INFO").decode()
    for other in [*others, unix]:
        other.close()


def test_client_kill(s):
    victims = [s.connect() for _ in range(6)]
    ids = [v.ask("CLIENT", "ID") for v in victims]
    ports = [v.socket.getsockname()[1] for v in victims]
    with s.connect() as c:
        assert c.ask("CLIENT", "KILL", f"127.0.0.1:{ports[0]}") == OK
        assert victims[0].is_closed()
        assert c.ask("CLIENT", "KILL", f"127.0.0.1:{ports[0]}") == Error("ERR No such client")
        assert c.ask("CLIENT", "KILL", "ID", str(ids[1])) == 1
        assert victims[1].is_closed()
        assert c.ask("CLIENT", "KILL", "ADDR", f"127.0.0.1:{ports[2]}", "ID", str(ids[3])) == 0
        assert c.ask("CLIENT", "KILL", "ADDR", f"127.0.0.1:{ports[2]}", "USER", "default") == 1
        assert victims[2].is_closed()
        assert victims[3].ask("PING") == Status("PONG")
        assert c.ask("CLIENT", "KILL", "TYPE", "pubsub") == 0
        assert c.ask("CLIENT", "KILL", "USER", "nobody") == 0
        assert c.ask("CLIENT", "KILL", "SKIPME", "maybe") == Error("ERR syntax error")
        assert c.ask("CLIENT", "KILL", "ID") == Error("ERR No such client")
        me = c.ask("CLIENT", "ID")
        assert c.ask("CLIENT", "KILL", "ID", str(me)) == 0  # the default is SKIPME yes
        assert c.ask("CLIENT", "KILL", "ID", str(me), "SKIPME", "no") == 1
        assert c.is_closed()
    for victim in victims:
        victim.close()


def test_client_kill_all_under_load(s):
    """One connection repeatedly closes all others while they run jobs."""
    stop = threading.Event()

    def busy():
        while not stop.is_set():
            try:
                with s.connect() as c:
                    while not stop.is_set():
                        c.pipeline([("CLIENT", "LIST"), ("KEYS", "*"), ("BF.ADD", "k", "x"),
                                    ("MULTI",), ("KEYS", "*"), ("CLIENT", "INFO"), ("EXEC",)])
            except (service.Closed, OSError):
                pass

    threads = [threading.Thread(target=busy, daemon=True) for _ in range(6)]
    for thread in threads:
        thread.start()
    with s.connect() as c:
        for _ in range(service.work(60)):
            assert isinstance(c.ask("CLIENT", "KILL", "TYPE", "normal"), int)
    stop.set()
    for thread in threads:
        thread.join()


def test_client_reply(s):
    with s.connect() as c:
        assert c.pipeline([("PING",)]) == [Status("PONG")]
        c.send(encode("CLIENT", "REPLY", "SKIP") + encode("PING") + encode("ECHO", "1"))
        assert c.reply() == b"1"
        c.send(encode("CLIENT", "REPLY", "OFF") + encode("PING") + encode("BF.ADD", "k", "a")
               + encode("KEYS", "*") + encode("NOSUCH") + encode("BF.ADD", "k", "b")
               + encode("CLIENT", "REPLY", "ON") + encode("BF.EXISTS", "k", "b"))
        assert c.reply() == OK
        assert c.reply() == 1
        c.send(encode("CLIENT", "REPLY", "SKIP") + encode("KEYS", "*") + encode("ECHO", "2"))
        assert c.reply() == b"2"


def test_inline(s):
    with s.connect() as c:
        c.send(b"PING\r\nECHO \"a b\"\n\r\nbf.add k 'x y'\r\nBF.EXISTS k \"x\\x20y\"\r\n")
        assert [c.reply() for _ in range(4)] == [Status("PONG"), b"a b", 1, 1]
        c.send(b"ECHO \"open\r\n")
        assert c.reply() == Error("ERR Protocol error: unbalanced quotes in request")
        assert c.is_closed()


# ---- MULTI -------------------------------------------------------------------------------------


def test_multi(s):
    with s.connect() as c:
        assert c.ask("EXEC") == Error("ERR EXEC without MULTI")
        assert c.ask("DISCARD") == Error("ERR DISCARD without MULTI")
        assert c.ask("MULTI") == OK
        assert c.ask("MULTI") == Error("ERR MULTI calls can not be nested")
        assert c.ask("BF.ADD", "k", "a") == Status("QUEUED")
        assert c.ask("BF.EXISTS", "k", "a") == Status("QUEUED")
        assert s.ask("EXISTS", "k") == 0
        assert c.ask("TYPE", "k") == Status("QUEUED")
        assert c.ask("EXEC") == [1, 1, Status("MBbloom--")]
        assert c.ask("MULTI") == OK
        assert c.ask("EXEC") == []
        c.ask("MULTI")
        c.ask("DEL", "k")
        assert c.ask("DISCARD") == OK
        assert c.ask("EXISTS", "k") == 1
        # A malformed request discards the whole transaction; an error at run time does not.
        c.ask("MULTI")
        c.ask("DEL", "k")
        assert c.ask("BF.ADD", "k").startswith("ERR wrong number")
        assert c.ask("DEL", "k") == Status("QUEUED")
        assert c.ask("EXEC") == Error(
            "EXECABORT Transaction discarded because of previous errors.")
        assert c.ask("EXISTS", "k") == 1
        c.ask("MULTI")
        c.ask("CF.ADD", "k", "a")
        c.ask("BF.EXISTS", "k", "a")
        wrong, right = c.ask("EXEC")
        assert wrong.startswith("WRONGTYPE") and right == 1
        c.ask("MULTI")
        assert c.ask("AUTH", "x") == Error("ERR Command not allowed inside a transaction")
        assert c.ask("EXEC").startswith("EXECABORT")


@alone
def test_multi_with_lookups(program):
    """In a transaction, each lookup that queries the source gets its own reply, in order."""
    s = Service(program)
    path = os.path.join(s.folder, "keys.db")
    with sqlite3.connect(path) as db:
        db.execute("create table keys (key text unique)")
        db.executemany("insert into keys values (?)", [("x" * i,) for i in range(1, 40)])
    s.lines = (f"gate g source=sqlite:{path} keys=keys(key) follow=none promise=read-only",)
    with s, s.connect() as c:
        present = [1, b"present"]
        wait_for(lambda: s.ask("BG.LOOKUP", "g", "y") == [0, b"absent_by_filter"], what="a gate")
        for lengths in ((39, 1), (1, 39), (5,), (9, 8, 7, 6)):
            requests = [("BG.LOOKUP", "g", "x" * n) for n in lengths]
            assert c.pipeline([("MULTI",), *requests, ("EXEC",), ("PING",)])[-2:] == [[present] * len(lengths), Status("PONG")]


@alone
def test_writers_report(program):
    """A key that a writer reports after its commit is found immediately, although the gate does not track changes in
    the table."""
    s = Service(program)
    path = os.path.join(s.folder, "keys.db")
    with sqlite3.connect(path) as db:
        db.execute("create table keys (key text unique)")
    s.lines = (f"gate g source=sqlite:{path} keys=keys(key) follow=none promise=writers-report audit=0",)
    with s:
        wait_for(lambda: s.ask("BG.LOOKUP", "g", "a") == [0, b"absent_by_filter"], what="a gate")
        with sqlite3.connect(path) as db:
            db.executemany("insert into keys values (?)", [("a",), ("b",)])
        assert s.ask("BG.WROTE", "g", "a", "b") == "OK"
        assert s.ask("BG.LOOKUP", "g", "a") == [1, b"present"]
        assert s.ask("BG.LOOKUP", "g", "b") == [1, b"present"]
        assert s.ask("BG.WROTE", "other", "a").startswith("NOGATE")


def test_multi_slow_and_long(s):
    """Tests transactions that contain jobs, and transactions with more requests than the event loop runs in one
    iteration."""
    with s.connect() as c:
        requests = [("MULTI",), ("BF.ADD", "a", "x"), ("KEYS", "*"), ("COPY", "a", "b"),
                    ("SCAN", "0"), ("RANDOMKEY",), ("BF.EXISTS", "b", "x"), ("CLIENT", "ID"),
                    ("EXEC",)]
        answer = c.pipeline(requests)[-1]
        assert answer[:3] == [1, [b"a"], 1] and answer[5] == 1, answer
        assert sorted(answer[3][1]) == [b"a", b"b"] and answer[4] in (b"a", b"b")
        n = 5000
        requests = ([("MULTI",)] + [("BF.ADD", f"k{i % 300}", i) for i in range(n)]
                    + [("BF.EXISTS", f"k{i % 300}", i) for i in range(n)] + [("EXEC",)])
        answer = c.pipeline(requests)[-1]
        assert len(answer) == 2 * n and set(answer[n:]) == {1}


@alone
def test_multi_limit(program):
    with Service(program, "client-query-buffer-limit 1Mi", "proto-max-bulk-len 512Ki") as s:
        c = s.connect()
        c.ask("MULTI")
        for _ in range(3):
            assert c.ask("ECHO", "x" * 300000) == Status("QUEUED")
        assert c.ask("ECHO", "x" * 300000).startswith("ERR the transaction exceeds")
        assert c.ask("EXEC").startswith("EXECABORT")
        c.ask("MULTI")
        c.ask("ECHO", "x" * 300000)
        c.close()  # the queued requests must be freed; otherwise, a sanitizer would report a leak


# ---- Names -------------------------------------------------------------------------------------


def test_exists_del_type(s):
    assert s.ask("TYPE", "b") == Status("none")
    s.ask("BF.ADD", "b", "x")
    s.ask("CF.ADD", "c", "x")
    assert s.ask("TYPE", "b") == Status("MBbloom--")
    assert s.ask("TYPE", "c") == Status("MBbloomCF")
    assert s.ask("EXISTS", "b", "c", "d", "b") == 3
    assert s.ask("TOUCH", "b", "d") == 1
    assert s.ask("DBSIZE") == 2
    assert s.ask("DEL", "b", "b", "d") == 1
    assert s.ask("UNLINK", "c") == 1
    assert s.ask("DBSIZE") == 0
    assert s.ask("DEL") == Error("ERR wrong number of arguments for 'del' command")
    name = bytes(range(256))
    s.ask("BF.ADD", name, "x")
    assert s.ask("EXISTS", name) == 1 and s.ask("KEYS", "*") == [name]


def test_rename(s):
    assert s.ask("RENAME", "a", "b") == Error("ERR no such key")
    s.ask("BF.ADD", "a", "x")
    s.ask("BF.ADD", "c", "y")
    assert s.ask("RENAMENX", "a", "c") == 0
    assert s.ask("RENAMENX", "a", "a") == 0
    assert s.ask("RENAMENX", "a", "b") == 1
    assert s.ask("BF.EXISTS", "b", "x") == 1
    assert s.ask("RENAME", "b", "c") == OK
    assert s.ask("BF.EXISTS", "c", "x") == 1 and s.ask("BF.EXISTS", "c", "y") == 0
    assert s.ask("RENAME", "c", "c") == OK
    assert s.ask("DBSIZE") == 1
    s.ask("EXPIRE", "c", "1000")
    s.ask("RENAME", "c", "d")
    assert s.ask("TTL", "d") > 900


def test_expiry(s):
    assert s.ask("EXPIRE", "k", "10") == 0
    assert s.ask("TTL", "k") == -2 and s.ask("PTTL", "k") == -2
    s.ask("BF.ADD", "k", "x")
    assert s.ask("TTL", "k") == -1 and s.ask("EXPIRETIME", "k") == -1
    assert s.ask("PERSIST", "k") == 0
    assert s.ask("EXPIRE", "k", "100") == 1
    assert 0 < s.ask("TTL", "k") <= 100 and 1000 < s.ask("PTTL", "k") <= 100000
    assert s.ask("EXPIRE", "k", "50", "GT") == 0 and s.ask("EXPIRE", "k", "50", "LT") == 1
    assert s.ask("EXPIRE", "k", "60", "NX") == 0 and s.ask("EXPIRE", "k", "60", "XX") == 1
    assert s.ask("PERSIST", "k") == 1 and s.ask("TTL", "k") == -1
    assert s.ask("EXPIRE", "k", "60", "XX") == 0 and s.ask("EXPIRE", "k", "60", "GT") == 0
    assert s.ask("EXPIRE", "k", "60", "LT") == 1
    then = int(time.time()) + 500
    assert s.ask("EXPIREAT", "k", str(then)) == 1 and s.ask("EXPIRETIME", "k") == then
    assert s.ask("PEXPIREAT", "k", str(then * 1000 + 7)) == 1
    assert s.ask("PEXPIRETIME", "k") == then * 1000 + 7
    assert s.ask("EXPIRE", "k", "x") == Error("ERR value is not an integer or out of range")
    assert s.ask("EXPIRE", "k", "9223372036854775807") == Error(
        "ERR invalid expire time in 'expire' command")
    assert s.ask("PEXPIRE", "k", "9223372036854775807") == Error(
        "ERR invalid expire time in 'pexpire' command")
    assert s.ask("EXPIRE", "k", "1", "NX", "XX") == Error(
        "ERR NX and XX, GT or LT options at the same time are not compatible")
    assert s.ask("EXPIRE", "k", "1", "GT", "LT") == Error(
        "ERR GT and LT options at the same time are not compatible")
    assert s.ask("EXPIRE", "k", "1", "FOO") == Error("ERR Unsupported option FOO")
    assert "keys=1,expires=1" in s.ask("INFO", "keyspace").decode()
    assert s.ask("EXPIRE", "k", "-1") == 1 and s.ask("EXISTS", "k") == 0
    assert b"db0" not in s.ask("INFO", "keyspace")
    s.ask("BF.ADD", "k", "x")
    assert s.ask("PEXPIRE", "k", "30") == 1
    wait_for(lambda: s.ask("EXISTS", "k") == 0, what="the name to expire")
    wait_for(lambda: s.ask("DBSIZE") == 0, what="the expired name to be removed")
    assert s.ask("BF.ADD", "k", "x") == 1 and s.ask("TTL", "k") == -1


def scan_all(s, *options):
    cursor, names, calls = b"0", [], 0
    while True:
        cursor, some = s.ask("SCAN", cursor, *options)
        names += some
        calls += 1
        if cursor == b"0":
            return names, calls


def test_scan_keys(s):
    assert s.ask("SCAN", "0") == [b"0", []] and s.ask("KEYS", "*") == []
    assert s.ask("RANDOMKEY") is None
    with s.connect() as c:
        c.pipeline([("BF.ADD", f"bf:{i}", "x") for i in range(700)]
                   + [("CF.ADD", f"cf:{i}", "x") for i in range(50)])
    names, calls = scan_all(s)
    assert len(names) == len(set(names)) == 750 and 70 < calls < 80
    names, calls = scan_all(s, "COUNT", "100000", "MATCH", "cf:*")
    assert len(names) == 50 and calls == 1
    names, _ = scan_all(s, "TYPE", "MBbloomCF", "COUNT", "20")
    assert sorted(names) == sorted(b"cf:%d" % i for i in range(50))
    assert len(s.ask("KEYS", "*")) == 750
    assert sorted(s.ask("KEYS", "bf:6?")) == [b"bf:%d" % i for i in range(60, 70)]
    assert sorted(s.ask("KEYS", "bf:[12]")) == [b"bf:1", b"bf:2"]
    seen = {s.ask("RANDOMKEY") for _ in range(100)}
    assert len(seen) > 20 and seen <= set(scan_all(s)[0])
    assert s.ask("SCAN", "x") == Error("ERR invalid cursor")
    assert s.ask("SCAN", "0", "COUNT", "0") == Error("ERR syntax error")
    assert s.ask("SCAN", "0", "COUNT", "x") == Error(
        "ERR value is not an integer or out of range")
    assert s.ask("SCAN", "0", "FOO", "1") == Error("ERR syntax error")
    assert s.ask("SCAN", "0", "MATCH") == Error("ERR syntax error")


def test_scan_while_names_come_and_go(s):
    """Every name that exists during the whole scan is returned exactly once."""
    with s.connect() as c:
        c.pipeline([("BF.ADD", f"stay{i}", "x") for i in range(500)])
    stop = threading.Event()

    def churn():
        with s.connect() as c:
            i = 0
            while not stop.is_set():
                c.pipeline([("BF.ADD", f"come{i}", "x"), ("RENAME", f"come{i}", f"move{i}"),
                            ("DEL", f"move{i - 5}")])
                i += 1

    thread = threading.Thread(target=churn, daemon=True)
    thread.start()
    try:
        for _ in range(10):
            names, _ = scan_all(s, "COUNT", "7", "MATCH", "stay*")
            assert len(names) == len(set(names)) == 500
    finally:
        stop.set()
        thread.join()


def test_copy(s):
    for command in ("BF", "CF"):
        source, copy = f"{command}source", f"{command}copy"
        with s.connect() as c:
            c.pipeline([(f"{command}.ADD", source, i) for i in range(3000)])
        s.ask("EXPIRE", source, "1000")
        assert s.ask("COPY", source, copy) == 1
        assert 900 < s.ask("TTL", copy) <= 1000
        assert s.ask(f"{command}.MEXISTS", copy, *range(3000)) == [1] * 3000
        s.ask(f"{command}.ADD", copy, "new")
        assert s.ask(f"{command}.EXISTS", source, "new") == 0
        assert s.ask("COPY", source, copy) == 0
        assert s.ask("COPY", source, copy, "REPLACE") == 1
        assert s.ask(f"{command}.EXISTS", copy, "new") == 0
        assert s.ask("COPY", "missing", copy, "REPLACE") == 0
    assert s.ask("COPY", "x", "x") == Error("ERR source and destination objects are the same")
    assert s.ask("COPY", "x", "y", "DB", "1") == Error("ERR DB index is out of range")
    assert s.ask("COPY", "x", "y", "FOO") == Error("ERR syntax error")
    s.restart()
    assert s.ask("BF.MEXISTS", "BFcopy", *range(3000)) == [1] * 3000
    assert s.ask("CF.MEXISTS", "CFcopy", *range(3000)) == [1] * 3000


def test_object_memory(s):
    s.ask("BF.RESERVE", "k", "0.01", "100000")
    assert s.ask("OBJECT", "ENCODING", "k") == b"scalable"
    assert s.ask("OBJECT", "REFCOUNT", "k") == 1 and s.ask("OBJECT", "IDLETIME", "k") == 0
    assert s.ask("OBJECT", "FREQ", "k").startswith("ERR An LFU maxmemory policy")
    assert s.ask("OBJECT", "ENCODING", "missing") is None
    assert s.ask("MEMORY", "USAGE", "k") > 100000
    assert s.ask("MEMORY", "USAGE", "k", "SAMPLES", "5") > 100000
    assert s.ask("MEMORY", "USAGE", "missing") is None
    assert s.ask("MEMORY", "USAGE", "k", "FOO", "1") == Error("ERR syntax error")


def test_flushall(s):
    with s.connect() as c:
        c.pipeline([("BF.ADD", f"k{i}", "x") for i in range(1000)])
    assert s.ask("FLUSHALL", "NOW") == Error("ERR syntax error")
    assert s.ask("FLUSHDB", "ASYNC") == OK
    assert s.ask("DBSIZE") == 0 and s.ask("KEYS", "*") == []
    s.restart()
    assert s.ask("DBSIZE") == 0


# ---- The service -------------------------------------------------------------------------------


def test_command(s):
    count = s.ask("COMMAND", "COUNT")
    every = s.ask("COMMAND")
    names = [row[0] for row in every]
    assert len(every) == count == len(set(names)) and count > 60
    assert s.ask("COMMAND", "INFO") == every
    assert sorted(s.ask("COMMAND", "LIST")) == sorted(names)
    assert b"client|id" not in names
    by_name = {row[0]: row for row in every}
    assert by_name[b"bf.add"][1:6] == [3, by_name[b"bf.add"][2], 1, 1, 1]
    assert {str(f) for f in by_name[b"bf.add"][2]} == {"write", "denyoom", "fast", "module"}
    assert {str(f) for f in by_name[b"bf.add"][6]} == {"@write", "@fast", "@bloom"}
    assert {str(f) for f in by_name[b"keys"][6]} == {"@read", "@slow", "@keyspace", "@dangerous"}
    subs = {row[0]: row for row in by_name[b"client"][9]}
    assert subs[b"client|kill"][1] == -3
    assert "@admin" in subs[b"client|kill"][6] and "@dangerous" in subs[b"client|kill"][6]
    assert "@admin" not in subs[b"client|id"][6]
    assert s.ask("COMMAND", "INFO", "client|id")[0][0] == b"client|id"
    assert s.ask("COMMAND", "INFO", "nosuch", "ping")[0] is None
    spec = dict(zip(by_name[b"del"][8][0][::2], by_name[b"del"][8][0][1::2]))
    assert spec[b"begin_search"] == [b"type", b"index", b"spec", [b"index", 1]]
    assert spec[b"find_keys"] == [b"type", b"range", b"spec",
                                  [b"lastkey", -1, b"keystep", 1, b"limit", 0]]
    assert s.ask("COMMAND", "LIST", "FILTERBY", "PATTERN", "bf.e*") == [b"bf.exists"]
    assert all(n[:3] in (b"bf.", b"cf.", b"bg.")
               for n in s.ask("COMMAND", "LIST", "FILTERBY", "MODULE", "bf"))
    assert b"config|set" in s.ask("COMMAND", "LIST", "FILTERBY", "ACLCAT", "admin")
    assert s.ask("COMMAND", "LIST", "FILTERBY", "MODULE", "other") == []
    assert s.ask("COMMAND", "LIST", "FOO") == Error("ERR syntax error")
    assert s.ask("COMMAND", "GETKEYS", "DEL", "a", "b") == [b"a", b"b"]
    assert s.ask("COMMAND", "GETKEYS", "MEMORY", "USAGE", "a") == [b"a"]
    assert s.ask("COMMAND", "GETKEYSANDFLAGS", "BF.ADD", "a", "b")[0][0] == b"a"
    assert s.ask("COMMAND", "GETKEYS", "PING") == Error("ERR The command has no key arguments")
    assert s.ask("COMMAND", "GETKEYS", "NOSUCH") == Error("ERR Invalid command specified")
    assert s.ask("COMMAND", "GETKEYS", "DEL") == Error(
        "ERR Invalid number of arguments specified for command")


def as_dict(flat):
    return dict(zip(flat[::2], flat[1::2]))


def test_command_docs(s):
    """COMMAND DOCS returns a summary of every command, and arguments that match the command's arity and keys."""
    docs = as_dict(s.ask("COMMAND", "DOCS"))
    infos = {row[0]: row for row in s.ask("COMMAND")}
    assert set(docs) == set(infos)
    everything = [(name, as_dict(doc), infos[name]) for name, doc in docs.items()]
    for name, doc, info in list(everything):
        subs = {row[0]: row for row in info[9]}
        for sub, text in as_dict(doc.get(b"subcommands", [])).items():
            everything.append((sub, as_dict(text), subs[sub]))
    assert len(everything) > 100
    for name, doc, info in everything:
        assert doc[b"summary"] and doc[b"since"] and doc[b"complexity"], name
        assert doc[b"group"] in (b"module", b"generic", b"connection", b"server"), name
        arguments = [as_dict(a) for a in doc.get(b"arguments", [])]
        needed = sum(1 for a in arguments if b"flags" not in a or "optional" not in a[b"flags"])
        words = 2 if b"|" in name else 1
        tokens = sum(1 for a in arguments if b"token" in a and a[b"type"] != b"pure-token"
                     and not (b"flags" in a and "optional" in a[b"flags"]))
        if name == b"client|setinfo":  # <LIB-NAME libname | LIB-VER libver>
            assert [as_dict(a)[b"token"] for a in arguments[0][b"arguments"]] \
                == [b"LIB-NAME", b"LIB-VER"]
        elif info[1] > 0:
            assert len(arguments) + tokens == info[1] - words, (name, arguments, info[1])
        elif b"subcommands" not in doc and name not in (b"client|kill", b"auth"):
            assert needed + tokens <= -info[1] - words, (name, arguments, info[1])
        keys = [a for a in arguments if a[b"type"] == b"key"]
        assert bool(keys) == (info[3] > 0), (name, arguments)
    insert = [as_dict(a) for a in as_dict(docs[b"bf.insert"])[b"arguments"]]
    assert insert[0] == {b"name": b"key", b"type": b"key", b"key_spec_index": 0}
    assert insert[2] == {b"name": b"error", b"type": b"double", b"token": b"ERROR",
                         b"flags": [Status("optional")]}
    assert insert[-1] == {b"name": b"item", b"type": b"string", b"token": b"ITEMS",
                          b"flags": [Status("optional"), Status("multiple")]}
    assert as_dict(s.ask("COMMAND", "DOCS", "nosuch", "client|kill")).keys() == {b"client|kill"}


def test_help(s):
    for name in ("CLIENT", "CONFIG", "COMMAND", "OBJECT", "MEMORY", "SLOWLOG", "ACL", "MODULE"):
        lines = s.ask(name, "HELP")
        assert lines[0] == Status(f"{name} <subcommand> [<arg> [value] [opt] ...]. "
                                  "Subcommands are:")
        assert len(lines) % 2 == 1 and lines[-2] == Status("HELP")
    listed = {line.decode().split()[0] for line in s.ask("BG.HELP")[::2]}
    assert listed == {name.decode().upper() for name in s.ask("COMMAND", "LIST") if name.lower().startswith(b"bg.")}


def test_config(s):
    assert s.ask("CONFIG", "GET", "port") == [b"port", str(s.port).encode()]
    told = as_dict(s.ask("CONFIG", "GET", "*"))
    assert told[b"save"] == b"" and told[b"databases"] == b"1" and len(told) > 40
    both = as_dict(s.ask("CONFIG", "GET", "bf-*", "bf-error-rate", "maxmemory*"))
    assert len(both) * 2 == len(s.ask("CONFIG", "GET", "bf-*", "bf-error-rate", "maxmemory*"))
    assert b"maxmemory-policy" in both
    assert s.ask("CONFIG", "GET", "nosuch") == []
    assert s.ask("CONFIG", "SET", "bf-initial-size", "500", "timeout", "0") == OK
    assert s.ask("CONFIG", "GET", "bf-initial-size") == [b"bf-initial-size", b"500"]
    s.ask("BF.ADD", "k", "x")
    assert s.ask("BF.INFO", "k")[:2] == [Status("Capacity"), 500]
    assert s.ask("CONFIG", "SET", "bf-initial-size", "100", "bf-error-rate", "7").startswith(
        "ERR CONFIG SET failed - ")
    assert s.ask("CONFIG", "GET", "bf-initial-size") == [b"bf-initial-size", b"500"]
    assert s.ask("CONFIG", "SET", "nosuch", "1") == Error(
        "ERR Unknown option or number of arguments for CONFIG SET - 'nosuch'")
    assert s.ask("CONFIG", "SET", "port", "1").startswith("ERR CONFIG SET failed - ")
    assert s.ask("CONFIG", "SET", "a", "b", "c") == Error("ERR syntax error")
    assert s.ask("CONFIG", "SET", "bf-initial-size", "100") == OK
    assert s.ask("CONFIG", "REWRITE").startswith("ERR CONFIG REWRITE is not supported")


def test_info(s):
    text = s.ask("INFO").decode()
    sections = re.findall(r"^# (\w+)\r$", text, re.M)
    assert sections == ["Server", "Clients", "Memory", "Persistence", "Stats", "Replication",
                        "CPU", "Modules", "Cluster", "Sharded", "Quotas", "Keyspace"]
    told = dict(re.findall(r"^([^#:\r]+):(.*)\r$", text, re.M))
    assert told["redis_version"] == "7.2.0" and told["tcp_port"] == str(s.port)
    assert told["process_id"] == str(s.process.pid) and len(told["run_id"]) == 40
    assert told["loading"] == "0" and told["role"] == "master" and told["aof_enabled"] == "1"
    assert abs(int(told["used_memory_rss"]) - s.memory()) < 64 << 20
    assert re.findall(r"^# (\w+)", s.ask("INFO", "cpu", "SERVER").decode(), re.M) \
        == ["Server", "CPU"]
    assert s.ask("INFO", "nosuch") == b""
    assert s.ask("CONFIG", "RESETSTAT") == OK
    stats = dict(re.findall(r"^([^#:\r]+):(.*)\r$", s.ask("INFO", "stats").decode(), re.M))
    assert int(stats["total_commands_processed"]) < 5
    assert int(stats["total_error_replies"]) == 0
    s.ask("NOSUCH")
    s.ask("BF.EXISTS")
    stats = dict(re.findall(r"^([^#:\r]+):(.*)\r$", s.ask("INFO", "stats").decode(), re.M))
    assert int(stats["total_error_replies"]) == 2


def test_small_questions(s):
    now = s.ask("TIME")
    assert abs(int(now[0]) - time.time()) < 100 and 0 <= int(now[1]) < 1000000
    assert s.ask("ROLE") == [b"master", 0, []]
    assert s.ask("WAIT", "0", "0") == 0
    assert s.ask("WAIT", "x", "0") == Error("ERR value is not an integer or out of range")
    assert s.ask("WAIT", "1", "-1") == Error("ERR timeout is negative")
    assert as_dict(s.ask("MODULE", "LIST")[0])[b"name"] == b"bf"
    assert s.ask("ACL", "WHOAMI") == b"default"
    assert b"bloom" in s.ask("ACL", "CAT") and b"bf.add" in s.ask("ACL", "CAT", "bloom")
    assert s.ask("ACL", "CAT", "x") == Error("ERR Unknown category 'x'")
    assert s.ask("ACL", "USERS") == [b"default"]
    assert s.ask("CLIENT", "GETREDIR") == -1 and s.ask("CLIENT", "UNPAUSE") == OK
    assert s.ask("CLIENT", "UNBLOCK", "7") == 0


def test_slowlog(s):
    assert s.ask("SLOWLOG", "RESET") == OK and s.ask("SLOWLOG", "LEN") == 0
    assert s.ask("SLOWLOG", "GET") == []
    assert s.ask("SLOWLOG", "GET", "-2") == Error(
        "ERR count should be greater than or equal to -1")
    s.ask("CLIENT", "SETNAME", "slow-one")
    s.ask("BF.RESERVE", "big", "0.001", "1000000")
    assert s.ask("CONFIG", "SET", "slowlog-log-slower-than", "100") == OK
    for i in range(40):  # repeats until a request is slow enough to be logged
        s.ask("BF.MADD", "big", *(f"secret{i}:{j}" for j in range(100000)))
        if s.ask("SLOWLOG", "LEN"):
            break
    entry = s.ask("SLOWLOG", "GET", "1")[0]
    assert entry[2] >= 100 and entry[5] == b"slow-one", entry
    assert s.ask("CONFIG", "SET", "slowlog-log-slower-than", "10000") == OK
    assert entry[3] == [b"BF.MADD", b"big", b"... (100000 more arguments)"]
    assert abs(entry[1] - time.time()) < 100
    assert not any(b"secret" in word for word in entry[3])


def test_slowlog_of_pipelines(s):
    """Pipelined requests that are answered together share an entry, which does not show their items."""
    assert s.ask("BF.RESERVE", "piped", "0.01", "1000") == OK
    assert s.ask("CONFIG", "SET", "slowlog-log-slower-than", "0") == OK
    try:
        for word in ("BF.ADD", "BF.EXISTS"):
            assert s.ask("SLOWLOG", "RESET") == OK
            with s.connect() as c:
                assert c.pipeline([(word, "piped", f"secret{i}") for i in range(50)]) == [1] * 50
            entries = [e[3] for e in s.ask("SLOWLOG", "GET", "100") if e[3][0] == word.encode()]
            assert entries and all(words[1] == b"piped" and not any(b"secret" in w for w in words) for words in entries), entries
            found = [re.match(rb"... \((\d+) pipelined requests\)", words[2]) for words in entries]
            assert sum(int(m[1]) if m else 1 for m in found) == 50, entries
    finally:
        assert s.ask("CONFIG", "SET", "slowlog-log-slower-than", "10000") == OK


@alone
def test_denied_requests_are_counted_once(program):
    """A denied request counts once, even if its command can be part of a pipelined run."""
    with Service(program, "user default on nopass +@all ~*", "user reader on >x +bf.exists ~*", http=True) as s, s.connect() as c:
        assert c.ask("AUTH", "reader", "x") == OK
        assert [c.ask("BF.ADD", "k", "x").startswith("NOPERM") for _ in range(3)] == [True] * 3
        with urllib.request.urlopen(f"http://127.0.0.1:{s.http_port}/metrics") as page:
            text = page.read().decode()
        found = re.findall(r'bloomgate_service_refusals_total\{.*reason="rights".*\} (\d+)', text)
        assert sum(map(int, found)) == 3, found


def test_save(s):
    before = s.ask("LASTSAVE")
    assert abs(before - time.time()) < 3600
    s.ask("BF.MADD", "k", *range(1000))
    assert s.ask("SAVE") == OK
    assert s.ask("LASTSAVE") >= before
    assert s.ask("BGSAVE") == Status("Background saving started")
    wait_for(lambda: b"rdb_bgsave_in_progress:0" in s.ask("INFO", "persistence"))
    assert s.ask("BGREWRITEAOF") == Status("Background append only file rewriting started")
    assert s.ask("BGSAVE", "FOO") == Error("ERR syntax error")
    s.restart()
    assert s.ask("BF.MEXISTS", "k", *range(1000)) == [1] * 1000


@alone
def test_nothing_is_kept(program):
    with Service(program, "appendonly no") as s:
        s.ask("BF.ADD", "k", "x")
        assert s.ask("SAVE").startswith("ERR persistence is disabled")
        assert s.ask("BGSAVE").startswith("ERR persistence is disabled")
        assert b"aof_enabled:0" in s.ask("INFO", "persistence")


@alone
def test_shutdown(program):
    for words in (["SHUTDOWN"], ["SHUTDOWN", "NOSAVE"], ["SHUTDOWN", "SAVE"],
                  ["SHUTDOWN", "NOW", "FORCE"]):
        s = Service(program).start()
        try:
            s.ask("BF.ADD", "k", "x")
            assert s.ask("SHUTDOWN", "FOO") == Error("ERR syntax error")
            assert s.ask("SHUTDOWN", "SAVE", "NOSAVE") == Error("ERR syntax error")
            assert s.ask("SHUTDOWN", "ABORT") == Error("ERR No shutdown in progress.")
            c = s.connect()
            c.send(encode(*words))
            assert c.is_closed(), words
            code = s.wait()
            assert code == 0, s.read_log()[-5000:]
            s.start()
            assert s.ask("BF.EXISTS", "k", "x") == 1
            s.stop()
        finally:
            s.kill()
            s.remove()


@alone
def test_stop_while_jobs_run(program):
    """Listing all connections while the service stops causes no hang and no leak."""
    for _ in range(service.work(5)):
        with Service(program, "workers 3") as s:
            stop = threading.Event()

            def busy():
                try:
                    with s.connect() as c:
                        while not stop.is_set():
                            c.pipeline([("CLIENT", "LIST"), ("KEYS", "*")] * 10)
                except (service.Closed, OSError):
                    pass

            threads = [threading.Thread(target=busy, daemon=True) for _ in range(8)]
            for thread in threads:
                thread.start()
            wait_for(lambda: s.ask("CLIENT", "LIST").count(b"\n") > 8)
            s.stop()
            stop.set()
            for thread in threads:
                thread.join()


# ---- Users -------------------------------------------------------------------------------------


@alone
def test_auth(program):
    with Service(program, "requirepass sesame") as s:
        c = s.connect()
        noauth = Error("NOAUTH Authentication required.")
        assert c.ask("PING") == noauth and c.ask("BF.ADD", "k", "x") == noauth
        assert c.ask("NOSUCH") == noauth
        assert c.ask("HELLO", "3").startswith("NOAUTH HELLO must be called with the client")
        wrong = Error("WRONGPASS invalid username-password pair or user is disabled.")
        assert c.ask("AUTH", "wrong") == wrong
        assert c.ask("AUTH", "nobody", "sesame") == wrong
        assert c.ask("HELLO", "3", "AUTH", "default", "wrong") == wrong
        assert c.ask("AUTH", "a", "b", "c") == Error("ERR syntax error")
        assert c.ask("AUTH", "sesame") == OK
        assert c.ask("PING") == Status("PONG")
        assert c.ask("RESET") == Status("RESET") and c.ask("PING") == noauth
        told = c.ask("HELLO", "3", "AUTH", "default", "sesame", "SETNAME", "me")
        assert isinstance(told, Pairs)
        assert c.ask("CLIENT", "GETNAME") == b"me"
        assert c.ask("ACL", "LIST") == [b"user default on >(hidden) allcommands allkeys"]
        c.close()
        c = s.connect()
        c.send(encode("AUTH", "sesame") + encode("PING") + encode("BF.ADD", "k", "x"))
        assert [c.reply() for _ in range(3)] == [OK, Status("PONG"), 1]
        c.close()
        s.connection = s.connect()
        s.ask("AUTH", "sesame")
    with Service(program) as s:
        assert s.ask("AUTH", "x") == Error(
            "ERR AUTH <password> called without any password configured for the default user. "
            "Are you sure your configuration is correct?")
        assert s.ask("AUTH", "default", "x") == OK  # no password is needed, so any password is accepted


@alone
def test_guessing_is_slow(program):
    with Service(program, "requirepass sesame") as s:
        with s.connect() as c:
            for _ in range(1000):
                answer = c.ask("AUTH", "wrong")
                if "too many" in answer:
                    break
            assert re.fullmatch(r"WRONGPASS too many failed logins: try again in \d+ ms", answer)
        with s.connect() as c:
            assert c.ask("AUTH", "sesame") == OK


@alone
def test_tenants(program):
    """Tests permissions on commands, subcommands, categories and names."""
    with Service(program,
                 "user default on nopass allcommands allkeys",
                 "user acme on >one +@all -@dangerous -@admin +client ~acme:*",
                 "user reader on >two +@read +auth +client|id %R~acme:*") as s:
        acme, reader = s.connect(), s.connect()
        assert acme.ask("AUTH", "acme", "one") == OK and reader.ask("AUTH", "reader", "two") == OK
        assert acme.ask("ACL", "WHOAMI") == b"acme"
        assert acme.ask("BF.ADD", "acme:k", "x") == 1
        assert acme.ask("BF.ADD", "other", "x") == Error("NOPERM No permissions to access a key")
        assert acme.ask("FLUSHALL") == Error(
            "NOPERM User acme has no permissions to run the 'flushall' command")
        assert acme.ask("CONFIG", "GET", "*").startswith("NOPERM User acme")
        assert "user=acme" in acme.ask("CLIENT", "INFO").decode()
        s.ask("BF.ADD", "other", "x")
        assert acme.ask("KEYS", "*").startswith("NOPERM")
        assert acme.ask("SCAN", "0", "COUNT", "100") == [b"0", [b"acme:k"]]
        assert {acme.ask("RANDOMKEY") for _ in range(20)} == {b"acme:k"}
        assert acme.ask("RENAME", "acme:k", "other").startswith("NOPERM")
        assert acme.ask("COPY", "other", "acme:x").startswith("NOPERM")
        assert acme.ask("MEMORY", "USAGE", "other").startswith("NOPERM")
        assert reader.ask("BF.EXISTS", "acme:k", "x") == 1
        assert reader.ask("BF.ADD", "acme:k", "x").startswith("NOPERM User reader")
        assert reader.ask("CLIENT", "ID") > 0
        assert reader.ask("CLIENT", "LIST") == Error(
            "NOPERM User reader has no permissions to run the 'client|list' command")
        assert reader.ask("KEYS", "*") == [b"acme:k"]
        reader.ask("MULTI")
        for c in (acme, reader):
            c.close()


@alone
def test_tenants_and_files(program):
    """All users' files are in one directory, so a user's key patterns apply to file names as well as filter names.
    DBSIZE counts only the filters that the user has permission to read."""
    no = Error("NOPERM No permissions to access a file with that name")
    with Service(program,
                 "user default on nopass allcommands allkeys",
                 "user a on >one +@all ~a:*",
                 "user b on >two +@all ~b:*",
                 "user r on >three +@all ~r:* %R~b:*") as s:
        a, b, r = s.connect(), s.connect(), s.connect()
        for c, name, word in ((a, "a", "one"), (b, "b", "two"), (r, "r", "three")):
            assert c.ask("AUTH", name, word) == OK
        assert a.ask("BF.MADD", "a:1", "x", "y") == [1, 1] and b.ask("BF.ADD", "b:1", "secret") == 1
        assert not isinstance(b.ask("BG.PUBLISH", "b:1", "b:file"), Error)
        assert not isinstance(s.ask("BG.PUBLISH", "b:1", "file"), Error)
        for file in ("b:file", "file"):
            assert a.ask("BG.RELOAD", "a:steal", file) == no
            assert a.ask("BG.PUBLISH", "a:1", file) == no
            assert a.ask("BG.PUBLISH", "a:1", file, "VERSIONED") == no
        a.ask("MULTI")
        assert a.ask("BG.RELOAD", "a:steal", "b:file") == no and isinstance(a.ask("EXEC"), Error)
        assert not isinstance(b.ask("BG.RELOAD", "b:2", "b:file"), Error), "b:file can no longer be loaded"
        assert b.ask("BF.MEXISTS", "b:2", "secret", "x") == [1, 0]
        assert r.ask("BG.PUBLISH", "b:1", "b:file") == no, "a user with only read permission could write the file"
        assert not isinstance(r.ask("BG.RELOAD", "r:copy", "b:file"), Error)
        assert not isinstance(a.ask("BG.PUBLISH", "a:1", "a:file", "VERSIONED"), Error)
        assert not isinstance(a.ask("BG.RELOAD", "a:2", "a:file"), Error)
        assert [c.ask("DBSIZE") for c in (s, a, b, r)] == [5, 2, 2, 3]
        a.ask("MULTI")
        a.ask("DBSIZE")
        assert a.ask("EXEC") == [2]
        for c in (a, b, r):
            c.close()


# ---- Loading -----------------------------------------------------------------------------------


def fill(s, n):
    with s.connect() as c:
        for i in range(n):
            c.send(encode("BF.RESERVE", f"k{i}", "0.0001", "2000000"))
        assert {c.reply() for _ in range(n)} == {OK}
        c.ask("CF.RESERVE", "c", "1000")
        c.pipeline([("BF.ADD", f"k{i}", "x") for i in range(n)])
    assert s.ask("SAVE") == OK


@alone
def test_loading(program):
    """While filters are loading, queries are answered with "maybe" or an error, depending on the settings, but never
    with a wrong "no". The service's files are pipes without writers, so the service cannot finish loading."""
    for setting in ("maybe", "refuse"):
        s = Service(program, f"loading {setting}").start()
        try:
            fill(s, 40)
            s.stop()
            pipes = [os.path.join(s.folder, "data", "filters", name) for name in os.listdir(s.folder + "/data/filters")]
            for pipe in pipes:
                os.rename(pipe, pipe + ".away")
                os.mkfifo(pipe)
            s.start(wait=False)
            watch_loading(s, setting)
            s.kill()
            for pipe in pipes:
                os.rename(pipe + ".away", pipe)
            s.start()
            assert s.ask("BF.MEXISTS", "k1", "x", "absent") == [1, 0]
            s.stop()
        finally:
            s.kill()
            s.remove()


def watch_loading(s, setting):
    """Queries the service while it is loading."""
    def connect():
        try:
            return service.Connection(s.port)
        except OSError:
            return None
    with wait_for(connect) as c:
        answers = c.pipeline([("INFO", "persistence"), ("BF.EXISTS", "k1", "absent"),
                              ("BF.MEXISTS", "k1", "a", "b", "c"), ("CF.COUNT", "c", "absent"),
                              ("CF.MEXISTS", "nosuch", "a", "b"), ("BG.EXISTS", "nosuch", "a"),
                              ("BG.COUNT", "k1", "a"), ("BF.ADD", "k1", "y"), ("PING",),
                              ("INFO", "persistence")])
        assert b"\r\nloading:1" in answers[0] and b"\r\nloading:1" in answers[-1], answers
        loading = Error("LOADING bloomgated is loading its filters")
        if setting == "maybe":
            assert answers[1:7] == [1, [1, 1, 1], 1, [1, 1], 1, 1], answers
        else:
            assert answers[1:7] == [loading] * 6, answers
        assert answers[7:9] == [loading, Status("PONG")]


service.main(__doc__)
