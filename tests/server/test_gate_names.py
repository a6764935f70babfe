#!/usr/bin/env python3
"""Checks that filter commands and filter paths refuse the name of a gate. A "no" for a key that the gate's database
contains would be wrong.

usage: test_gate_names.py BLOOMGATED [PARTS-OF-NAMES...]"""

import os
import sqlite3
import tempfile

import http_asker
import service
from service import Error, Service, alone
from machine import wait_for

KEY = "sku-1"


def database(folder):
    path = os.path.join(folder, "shop.db")
    with sqlite3.connect(path) as db:
        db.execute("create table products (sku text primary key)")
        db.execute("insert into products values (?)", (KEY,))
    return path


def gate_line(folder):
    return f"gate products source=sqlite:{database(folder)} keys=products(sku) follow=none promise=read-only"


def refused(reply, *codes):
    assert isinstance(reply, Error) and "is a gate" in reply and reply.split()[0] in (codes or ("WRONGTYPE", "ERR")), reply


LOOKUPS = [("BF.EXISTS", "products", KEY), ("BF.MEXISTS", "products", KEY, "x"), ("CF.EXISTS", "products", KEY),
           ("CF.MEXISTS", "products", KEY), ("CF.COUNT", "products", KEY), ("BG.EXISTS", "products", KEY),
           ("BG.MEXISTS", "products", KEY), ("BF.CARD", "products"), ("BF.INFO", "products"), ("BG.INFO", "products")]


@alone
def test_commands(program):
    """Lookups, adds and every way to create a filter are refused, one at a time, pipelined and in a transaction."""
    with tempfile.TemporaryDirectory() as folder, Service(program, gate_line(folder)).start() as s, s.connect() as c:
        wait_for(lambda: c.ask("BG.LOOKUP", "products", KEY)[0] == 1, what="the gate")
        assert c.ask("BF.ADD", "other", "x") == 1 and c.ask("BG.CREATE", "plain", "CAPACITY", 1000) == "OK"
        creates = [("BF.ADD", "products", "x"), ("BF.MADD", "products", "x"), ("BF.INSERT", "products", "ITEMS", "x"),
                   ("BF.RESERVE", "products", "0.01", 100), ("CF.ADD", "products", "x"), ("CF.ADDNX", "products", "x"),
                   ("CF.INSERT", "products", "ITEMS", "x"), ("CF.RESERVE", "products", 100),
                   ("BG.CREATE", "products", "CAPACITY", 100), ("BG.ADD", "products", "x"), ("COPY", "other", "products"),
                   ("COPY", "other", "products", "REPLACE"), ("RENAME", "other", "products"), ("RENAMENX", "other", "products"),
                   ("BG.MERGE", "products", "plain"), ("BG.RELOAD", "products", "plain.bg")]
        assert not isinstance(c.ask("BG.PUBLISH", "plain", "plain.bg"), Error)
        chunk = c.ask("BG.DUMP", "plain", 0)
        for words in LOOKUPS + creates + [("BG.LOAD", "products", chunk[1])]:
            refused(c.ask(*words))
        for words in (("BF.EXISTS", "products", KEY), ("CF.EXISTS", "products", KEY), ("BG.EXISTS", "products", KEY),
                      ("BF.ADD", "products", "x"), ("CF.ADD", "products", "x")):
            for reply in c.pipeline([words] * 40):
                refused(reply)
        c.ask("MULTI")
        for words in LOOKUPS + creates[:5]:
            assert c.ask(*words) == "QUEUED"
        for reply in c.ask("EXEC"):
            refused(reply)
        assert sorted(c.ask("KEYS", "*")) == [b"other", b"plain"]
        assert c.ask("BF.EXISTS", "missing", KEY) == 0  # as in RedisBloom


@alone
def test_http(program):
    """Filter paths refuse the name, and the error contains the path of the gate."""
    with tempfile.TemporaryDirectory() as folder, Service(program, gate_line(folder), http=True).start() as s:
        a = http_asker.Asker(s)
        f = "/api/v1/filters"
        a.ask("POST", f, 201, {"name": "plain", "capacity": 1000})
        file = a.ask("GET", f + "/plain/file", 200)[1]
        for method, path, body in (("GET", "/products", None), ("GET", f"/products/check?key={KEY}", None),
                                   ("POST", "/products/check", {"keys": [KEY]}), ("POST", "/products/add", {"keys": ["x"]}),
                                   ("POST", "", {"name": "products", "capacity": 100}), ("DELETE", "/products", None)):
            told = a.told(method, f + path, 422, body)
            assert "is a gate" in told["error"]["message"], told
        told = a.told("PUT", f + "/products/file", 422, file, kind="application/vnd.bloomgate")
        assert "is a gate" in told["error"]["message"], told
        told = a.told("PATCH", f + "/plain", 400, {"name": "products"})
        assert "is a gate" in told["error"]["message"], told


@alone
def test_earlier_filter(program):
    """A filter that existed before the gate is kept, and the service warns about it."""
    with tempfile.TemporaryDirectory() as folder, Service(program).start() as s:
        assert s.ask("BF.ADD", "products", "mine") == 1
        s.stop()
        s.lines = (gate_line(folder),)
        s.start()
        assert s.ask("BF.EXISTS", "products", "mine") == 1
        assert "a filter has the name of a gate" in s.read_log()
        assert s.ask("RENAME", "products", "former") == "OK" and s.ask("BF.EXISTS", "former", "mine") == 1
        refused(s.ask("BF.EXISTS", "products", "mine"))


service.main(__doc__)
