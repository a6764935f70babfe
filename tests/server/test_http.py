#!/usr/bin/env python3
"""Tests the service over HTTP against its contract (server/web/openapi.yaml): every path, every
documented status, and the schema of every response.

usage: test_http.py BLOOMGATED [PART OF A NAME...]"""

import base64
import json
import math
import os
import re
import sqlite3
import struct
import sys
import threading
import time

import check_names
import http_asker
import service
from http_asker import CONTRACT, F, SEEN, Asker, Wire, free_service, quote, request
from service import alone, wait_for

KIND = {"kind": "application/vnd.bloomgate"}


def same(found, expected):
    assert found == expected, f"found {found!r}, expected {expected!r}"


def code(answer):
    return answer["error"]["code"]


# ---- The contract -------------------------------------------------------------------------------


def test_document_is_sound(_):
    """Checks the references, examples and IDs in the OpenAPI document itself."""
    CONTRACT.check_itself()


def test_contract(s):
    """Runs the checks in check_contract.py."""
    http_asker.check_contract.try_all(f"http://127.0.0.1:{s.http_port}", CONTRACT,
                                      CONTRACT.check_itself())


@alone
def test_contract_with_users(program):
    with free_service(program, "requirepass secret") as s:
        http_asker.check_contract.try_all(f"http://127.0.0.1:{s.http_port}", CONTRACT,
                                          CONTRACT.check_itself(), "default:secret")


def test_unknown_paths_and_methods(s):
    a = Asker(s)
    for path in ("/api", "/api/", "/api/v1", "/api/v1/", "/api/v2/info", "/api/v1/info/", "/api/v1//info", f"{F}/", "/API/v1/info", "/metrics/",
                 "/%61pi/v1/info", "/api/v1/%69nfo", "/../etc/passwd", "/assets/../openapi.yaml", "/index.html", "//", f"{F}/a/b/c/d"):
        same(code(a.told("GET", path, 404)), "not_found")
    for path, allowed in ((F, "GET, HEAD, POST"), (f"{F}/x", "GET, HEAD, PATCH, DELETE"), (f"{F}/x/add", "POST"), (f"{F}/x/file", "GET, HEAD, PUT"),
                          ("/api/v1/info", "GET, HEAD"), ("/metrics", "GET, HEAD"), ("/healthz", "GET, HEAD"), ("/", "GET, HEAD"),
                          ("/assets/dashboard.js", "GET, HEAD"), ("/readyz", "GET, HEAD")):
        for method in ("OPTIONS", "TRACE", "BREW") + (("PUT",) if "PUT" not in allowed else ()):
            response, told = a.ask(method, path, 405)
            same(response.getheader("Allow"), allowed)
            same(code(told), "method_not_allowed")
    same(a.status("GET", "/api/v1/filters/%zz"), 400)
    same(a.status("GET", "/" + "/".join("abcdefghijklmnopqrstuvwxyz")), 400)


def test_no_such_filter(s):
    a = Asker(s)
    for method, path, body in (("GET", "", None), ("PATCH", "", {"expires_in_seconds": 1}), ("DELETE", "", None), ("GET", "/file", None), ("GET", "/occupancy", None),
                               ("POST", "/check", {"keys": []}), ("POST", "/add", {"keys": []}), ("POST", "/verify", {}), ("POST", "/clear", {}),
                               ("POST", "/rotate", {}), ("POST", "/fold", {}), ("POST", "/merge", {"from": ["x"]})):
        told = a.told(method, f"{F}/no%20such{path}", 404, body)
        same((code(told), "no such" in told["error"]["message"]), ("not_found", True))
    tag = a.ask("GET", "/", 200)[0].getheader("ETag")
    a.ask("GET", "/", 304, headers={"If-None-Match": tag})


def test_content_types(s):
    a = Asker(s)
    a.make("types")
    a.ask("POST", f"{F}/types/check", 415, b"x", kind="text/html")
    for kind in ("text/html", "application/jsonx", "application/xml", "text/plainly", "application/json2; charset=utf-8"):
        same(code(a.told("POST", F, 415, b'{"name":"x"}', kind=kind)), "unsupported_media_type")
        same(code(a.told("POST", f"{F}/types/add", 415, b'{"keys":["x"]}', kind=kind)), "unsupported_media_type")
        same(code(a.told("PATCH", f"{F}/types", 415, b'{"name":"x"}', kind=kind)), "unsupported_media_type")
        same(code(a.told("PUT", f"{F}/types/file", 415, b"x", kind=kind)), "unsupported_media_type")
        for path in ("fold", "merge"):
            a.ask("POST", f"{F}/types/{path}", 415, b"{}", kind=kind)
    for kind in ("application/json", "Application/JSON", "application/json;charset=utf-8", "application/json ; x=y"):
        same(a.told("POST", f"{F}/types/check", 200, b'{"keys":["x"]}', kind=kind)["results"], [False])
    for kind in ("text/plain; charset=utf-8", "TEXT/PLAIN"):
        same(a.told("POST", f"{F}/types/check", 200, b"x\n", kind=kind), b"0\n")


BAD_JSON = [b"", b"{", b"}", b"[]", b"null", b"true", b'"x"', b"{]", b'{"keys":}', b'{"keys":[}', b'{"keys":["a",]}', b'{"keys":["a"]', b'{"keys":["a"]}}',
            b'{"keys":["a"]} x', b'{"keys":["\xff"]}', b'{"keys":["\xc0\x80"]}', b'{"keys":["\\ud800"]}', b'{"keys":["\\x41"]}', b"{'keys':['a']}",
            b'{"keys":["a\nb"]}', b'{"keys":[1]}', b'{"keys":{"a":1}}', b'{"keys":null}', b'{"keys":["a"],"encoding":"latin1"}',
            b'{"keys":["?"],"encoding":"base64"}', b'{"keys":["a"],"encoding":1}', b'{"key":["a"]}', b"[" * 100, b'{"keys":' + b"[" * 100,
            b'{"keys":["a"],"x":' + b'{"y":' * 200 + b"1" + b"}" * 200 + b"}", b"\xef\xbb\xbf{}", b'{"keys":["a"]\x00}', b"{" + b" " * 100]


def test_bad_json_changes_nothing(s):
    a = Asker(s)
    a.make("bad")
    for body in BAD_JSON:
        for path in (f"{F}/bad/add", f"{F}/bad/check"):
            told = a.told("POST", path, 400, body)
            same(code(told), "bad_request")
            assert len(told["error"]["message"]) > 10, told
    same(a.told("GET", f"{F}/bad?examine=1", 200)["ones"], 0)
    for body in (b'{"name":"x","capacity":1000,"error":0.01', b'{"name":1}', b'{"name":"x","colour":"red"}', b'{"name":"x","window":{"size":3}}',
                 b'{"name":"x","capacity":-1,"error":0.1}', b'{"name":"x","capacity":1e30,"error":0.1}', b'{"name":"x","capacity":1.5,"error":0.1}',
                 b'{"name":"x","capacity":10,"error":1}', b'{"name":"x","capacity":10,"error":0}', b'{"name":"x","kind":"round"}',
                 b'{"name":"x","kind":"fuse","capacity":10,"error":0.1}', b'{"name":"x","capacity":10,"error":0.1,"expires_in_seconds":0}',
                 b'{"name":"x","capacity":10,"error":0.1,"expires_in_seconds":-4}', b'{"name":"x","window":{"mode":"square"}}', b'{"name_base64":"!"}',
                 b'{"name":"x","capacity":10,"error":0.1,"bits_per_key":10}'):
        same(code(a.told("POST", F, 400, body)), "bad_request")
    same(a.told("GET", F, 200)["total"], 1)


def test_names_of_all_sorts(s):
    check_names.run(s)


# ---- Keys ---------------------------------------------------------------------------------------


def test_keys_are_bytes(s):
    a = Asker(s)
    a.make("keys", error=1e-9)
    keys = [b"", b"\0", b"\xff\xfe", b"a\r", "ä€😀".encode(), b"x" * 100000, bytes(range(256))]
    coded = [base64.b64encode(key).decode() for key in keys]
    told = a.told("POST", f"{F}/keys/add", 200, {"keys": coded, "encoding": "base64"})
    same(told, {"results": [True] * len(keys), "keys": len(keys), "new": len(keys)})
    for key in keys:  # each key is found in every encoding that can represent it
        same(s.ask("BG.EXISTS", "keys", key), 1)
        if b"\n" not in key and key:
            same(a.told("POST", f"{F}/keys/check", 200, key + b"\n", kind="text/plain"), b"1\n")
        line = json.dumps({"key": base64.b64encode(key).decode(), "encoding": "base64"}).encode()
        same(a.told("POST", f"{F}/keys/check", 200, line, kind="application/x-ndjson"), b'{"maybe":true}\n')
    same(a.told("POST", f"{F}/keys/check", 200, b"a\r\n\n\xff\xfe", kind="text/plain"), b"1\n1\n1\n")
    same(a.told("POST", f"{F}/keys/check", 200, b"", kind="text/plain"), b"")
    same(a.told("POST", f"{F}/keys/check", 200, '"ä\\u20ac\\ud83d\\ude00"\n'.encode(), kind="application/x-ndjson"), b'{"maybe":true}\n')
    for line in (b"\n", b"x\n", b'"a" "b"\n', b"{}\n", b'{"key":1}\n', b'{"key":"?","encoding":"base64"}\n', b'"a"\n[]\n'):
        a.ask("POST", f"{F}/keys/check", 400, line, kind="application/x-ndjson")


def test_many_keys(s):
    a = Asker(s)
    a.make("many", capacity=200000, error=1e-6)
    lines = b"".join(b"%d\n" % i for i in range(200000))
    told = a.told("POST", f"{F}/many/add", 200, lines, kind="text/plain", headers={"X-Bloomgate": "1"})
    assert told.count(b"1\n") > 199990 and told.count(b"\n") == 200000
    told = a.told("POST", f"{F}/many/check", 200, {"keys": [str(i) for i in range(150000, 300000)]})
    same(told["results"][:50000], [True] * 50000)
    assert sum(told["results"]) == told["maybe"] < 50010, told["maybe"]
    same(a.told("GET", f"{F}/many", 200)["counters"]["queries"], 150000)
    too_many = b"\n" * (2 ** 20 + 1)
    same(code(a.told("POST", f"{F}/many/check", 413, too_many, kind="text/plain")), "too_large")


def test_full_filters_say_how_far_they_came(s):
    a = Asker(s)
    a.make("full", kind="cuckoo", capacity=100, error=0.001)
    keys = [f"k{i}" for i in range(5000)]
    told = a.told("POST", f"{F}/full/add", 409, {"keys": keys})
    same(code(told), "full")
    assert 90 <= told["done"] < 1000, told["done"]
    same(a.told("POST", f"{F}/full/check", 200, {"keys": keys[:told["done"]]})["maybe"], told["done"])
    same("full" in [r["code"] for r in a.told("GET", f"{F}/full?examine=1", 200)["health"]["reasons"]], True)
    told = a.told("POST", f"{F}/full/add", 409, "\n".join(keys).encode(), kind="text/plain", headers={"X-Bloomgate": "1"})
    same(code(told), "full")


def test_a_growing_filter_that_cannot_grow_is_full(s):
    """Its health is act until it has accepted a new key again."""
    a = Asker(s)

    def health(name):
        return a.told("GET", f"{F}/{name}?examine=1", 200)["health"]

    s.ask("CONFIG", "SET", "max-filter-memory", "200k")
    s.ask("BF.RESERVE", "scaling", "0.01", "1000")
    s.ask("CF.RESERVE", "doubling", "1000")
    s.ask("CF.INSERT", "doubling", "ITEMS", *range(2000))
    same([health(name)["status"] for name in ("scaling", "doubling")], ["fine", "fine"])
    before = metrics_of(a)['bloomgate_service_inserts_total{result="rejected"}']
    for start in range(0, 200000, 1000):
        s.ask("BF.MADD", "scaling", *range(start, start + 1000))
        s.ask("CF.INSERT", "doubling", "ITEMS", *range(start, start + 1000))
    for name in ("scaling", "doubling"):
        told = a.told("GET", f"{F}/{name}?examine=1", 200)
        assert told["counters"]["refused"] > 0, told
        same((told["health"]["status"], told["health"]["reasons"][0]["code"]), ("act", "full"))
        assert "cannot grow" in told["health"]["reasons"][0]["text"], told
    wait_for(lambda: metrics_of(a)['bloomgate_service_inserts_total{result="rejected"}'] > before, what="the metric")
    same(s.ask("BF.ADD", "scaling", "0"), 0)  # proves nothing, because the key is present
    same(health("scaling")["status"], "act")
    s.ask("CONFIG", "SET", "max-filter-memory", "100M")
    same((s.ask("BF.ADD", "scaling", "new"), s.ask("CF.ADD", "doubling", "new")), (1, 1))
    same([health(name)["status"] for name in ("scaling", "doubling")], ["fine", "fine"])
    s.ask("CONFIG", "SET", "max-filter-memory", "50%")


# ---- Filters ------------------------------------------------------------------------------------


def test_every_kind(s):
    a = Asker(s)
    for kind in ("classic", "partitioned", "blocked", "split", "register", "counting", "cuckoo", "quotient", "scalable", "window"):
        made = a.make(f"kind:{kind}", kind=kind, hash="fast")
        same((made["kind"], made["family"]), (kind, "bg"))
        a.ask("POST", f"{F}/kind%3A{kind}/add", 200, {"keys": [f"key {i}" for i in range(500)]})
        told = a.told("GET", f"{F}/kind%3A{kind}?examine=1", 200)
        assert 450 < told["items"]["value"] < 550 and told["items"]["low"] <= told["items"]["value"] <= told["items"]["high"], told["items"]
        same(a.told("POST", f"{F}/kind%3A{kind}/verify", 200, {})["ok"], True)
        shares = a.told("GET", f"{F}/kind%3A{kind}/occupancy?cells=5", 200)
        assert 0 < shares["mean"] < 1 and not shares["uneven"], shares
        s.ask("BF.ADD", "bf", "x")
        s.ask("CF.ADD", "cf", "x")
    for name, family in (("bf", "bf"), ("cf", "cf")):
        told = a.told("GET", f"{F}/{name}", 200)
        same((told["family"], told["growth"] is not None), (family, True))
    same(a.told("GET", f"{F}?kind=window", 200)["matched"], 1)
    same(a.told("POST", f"{F}/kind%3Awindow/rotate", 200, {})["kind"], "window")
    same(code(a.told("POST", f"{F}/kind%3Ablocked/rotate", 422, {})), "not_supported")
    same(code(a.told("POST", f"{F}/kind%3Acuckoo/fold", 422, {"times": 1})), "not_supported")
    window = a.told("POST", F, 201, {"name": "w", "window": {"mode": "aged", "generations": 4, "seconds": 60}, "capacity": 100, "error": 0.01})
    same(window["window"], {"mode": "aged", "generations": 4, "seconds": 60, "count": None})


def test_options_of_new_filters(s):
    a = Asker(s)
    same(a.told("POST", F, 201, {"name": "plain"})["kind"], "scalable")
    told = a.told("POST", F, 201, {"name": "shards", "kind": "classic", "capacity": 1000, "bits_per_key": 12, "bits": 5, "shards": 4, "hash": "fast"})
    same((told["geometry"]["k"], told["geometry"]["shards"], told["hash"]["profile"]), (5, 4, "fast"))
    told = a.told("POST", F, 201, {"name": "opts", "kind": "blocked", "capacity": 1000, "error": 0.01, "folds": 2})
    half = a.told("POST", f"{F}/opts/fold", 200, {"times": 1})
    same(half["bytes"] * 2, told["bytes"])
    same(a.told("POST", F, 201, {"name": "sized", "kind": "blocked", "capacity": 500, "memory": 4096})["bytes"], 4096)
    expiring = a.told("POST", F, 201, {"name": "short", "capacity": 10, "error": 0.1, "expires_in_seconds": 500})
    assert 490 < expiring["expires_in_seconds"] <= 500, expiring
    response, _ = a.ask("POST", F, 201, {"name": "a b/c", "capacity": 10, "error": 0.1})
    same(response.getheader("Location"), "/api/v1/filters/a%20b%2Fc")
    a.ask("GET", response.getheader("Location"), 200)


def test_numbers_with_units(s):
    a = Asker(s)
    told = a.told("POST", F, 201, {"name": "units", "kind": "blocked", "capacity": "1M", "error": "1%", "expires_in_seconds": "1h"})
    plain = a.told("POST", F, 201, {"name": "no units", "kind": "blocked", "capacity": 1000000, "error": 0.01})
    same([told[m] for m in ("capacity", "bytes", "target")], [plain[m] for m in ("capacity", "bytes", "target")])
    assert 3590 < told["expires_in_seconds"] <= 3600, told
    told = a.told("PATCH", f"{F}/units", 200, {"expires_in_seconds": "2d"})
    assert 172790 < told["expires_in_seconds"] <= 172800, told
    same(a.told("POST", F, 201, {"name": "sized units", "kind": "blocked", "capacity": "1e3", "memory": "64Ki"})["bytes"], 65536)
    told = a.told("POST", F, 201, {"name": "window units", "capacity": "5k", "error": "1/1000", "window": {"seconds": "24h", "generations": "4"}})
    plain = a.told("POST", F, 201, {"name": "plain window", "capacity": 5000, "error": 0.001, "window": {"seconds": 86400, "generations": 4}})
    same([told[m] for m in ("window", "bytes", "target")], [plain[m] for m in ("window", "bytes", "target")])
    for wrong, words in (({"capacity": "many"}, "CAPACITY: found many"), ({"capacity": "10", "error": "200%"}, "ERROR: found 2"),
                         ({"capacity": "1\0", "error": 0.1}, "CAPACITY"), ({"window": {"seconds": "5M"}}, "duration"),
                         ({"capacity": 10, "expires_in_seconds": "soon"}, "duration"), ({"capacity": "9" * 300}, "CAPACITY")):
        told = a.told("POST", F, 400, {"name": "wrong units", **wrong})
        assert words in told["error"]["message"], told
    plain = a.told("GET", "/api/v1/plan?items=3000000&error=0.001&queries_per_second=50000&absent_share=0.9&call_seconds=0.005", 200)
    same(a.told("GET", "/api/v1/plan?items=3M&error=0.1%25&queries_per_second=50k&absent_share=90%25&call_seconds=5ms", 200), plain)
    same(a.told("GET", "/api/v1/plan?items=3e6&error=1/1000&queries_per_second=50e3&absent_share=9/10&call_seconds=5000us", 200), plain)
    for path in ("/api/v1/plan?items=1M&error=0.1%", "/api/v1/filters?kind=blocked&error=1%&limit=3", "/api/v1/history?filter=x&error=%z"):
        told = a.told("GET", path, 400)["error"]["message"]
        assert told.startswith("error: invalid percent-encoding") and "write %25" in told, told
    same(a.told("GET", "/api/v1/history?seconds=1h", 200)["step"], a.told("GET", "/api/v1/history?seconds=3600", 200)["step"])
    for bad in ("0.5", "25h", "x"):
        a.ask("GET", f"/api/v1/history?seconds={bad}", 400)
    huge = a.told("GET", "/api/v1/plan?items=1e15&error=1%25", 200)
    same({kind["fits_into"] for kind in huge["kinds"] if kind["possible"]}, {"none"})
    for bad in ("items=3X&error=0.1", "items=3M&error=101%25", "items=3M&error=1%25&call_seconds=5M"):
        a.ask("GET", f"/api/v1/plan?{bad}", 400)


def test_a_capacity_is_kept_unless_told(s):
    a = Asker(s)
    a.make("strict", kind="blocked", capacity=100)
    a.make("loose", kind="blocked", capacity=100, overfill=True)
    keys = {"keys": [str(i) for i in range(1000)]}
    told = a.told("POST", f"{F}/strict/add", 409, keys)
    same(code(told), "full")
    assert 90 < told["done"] < 120, told["done"]
    health = a.told("GET", f"{F}/strict?examine=1", 200)["health"]
    same((health["status"], health["reasons"][-1]["code"]), ("act", "full"))
    a.ask("POST", f"{F}/loose/add", 200, keys)
    health = a.told("GET", f"{F}/loose?examine=1", 200)["health"]
    same(health["status"], "act")
    assert {r["code"] for r in health["reasons"]} >= {"fill", "predicted"}, health


def test_filters_at_their_planned_size_are_watched(s):
    """The number of keys is an estimate, so it must not decide between two states at the planned size."""
    a = Asker(s)
    for i in range(20):
        a.make(f"planned{i}", kind="blocked", capacity=1000, error=0.01, overfill=True)
        a.ask("POST", f"{F}/planned{i}/add", 200, {"keys": [f"{i}.{j}" for j in range(1000)]})
        told = a.told("GET", f"{F}/planned{i}?examine=1", 200)
        same((told["health"]["status"], told["health"]["reasons"][-1]["code"]), ("watch", "fill"))
    for name in ("k", "f"):
        a.ask("POST", f"{F}/planned0/add", 200, {"keys": [f"{name}{j}" for j in range(100)]})
    told = a.told("GET", f"{F}/planned0?examine=1", 200)
    same(told["health"]["status"], "act")


def test_windows_are_judged_by_their_rate(s):
    """A window holds keys for up to 1/7 longer than specified, so it permanently holds more keys than its capacity."""
    a = Asker(s)
    a.make("counts", capacity=7000, error=0.01, window={"count": 7000})
    for n in range(1, 5):
        a.ask("POST", f"{F}/counts/add", 200, {"keys": [f"{n}.{i}" for i in range(5000)]})
        told = a.told("GET", f"{F}/counts?examine=1", 200)
        same((told["health"], told["capacity"]), ({"status": "fine", "reasons": []}, 7000))
    assert told["items"]["low"] > 7000, told
    same(metrics_of(a)['bloomgate_filter_capacity_items{filter="counts"}'], 0)
    a.make("burst", capacity=100, error=0.01, window={"count": 7000})
    a.ask("POST", f"{F}/burst/add", 200, {"keys": [str(i) for i in range(7000)]})
    told = a.told("GET", f"{F}/burst?examine=1", 200)
    same((told["health"]["status"], told["health"]["reasons"][0]["code"]), ("act", "predicted"))


def test_rates_are_compared_with_the_requested_rate(s):
    """Folding and merging raise the rate of a filter, but not its target."""
    a = Asker(s)
    for name in ("folded", "merged", "other"):
        a.make(name, kind="blocked", capacity=4000, error=0.01, folds=1)
        a.ask("POST", f"{F}/{name}/add", 200, {"keys": [f"{name}{i}" for i in range(3400)]})
        told = a.told("GET", f"{F}/{name}?examine=1", 200)
        same(told["health"]["status"], "fine")
    a.ask("POST", f"{F}/folded/fold", 200, {"times": 1})
    a.ask("POST", f"{F}/merged/merge", 200, {"from": ["other"]})
    for name in ("folded", "merged"):
        now = a.told("GET", f"{F}/{name}?examine=1", 200)
        same((now["target"], now["health"]["status"]), (told["target"], "act"))
        assert "predicted" in {r["code"] for r in now["health"]["reasons"]}, now["health"]
        same(metrics_of(a)[f'bloomgate_filter_target_fpr_ratio{{filter="{name}"}}'], now["target"])


def test_every_capacity_is_the_designed_one(s):
    """The slots of a table of fingerprints outnumber the keys that it is designed for. In the metrics, a window has
    no capacity, because it never becomes full."""
    a = Asker(s)
    for kind in ("blocked", "counting", "cuckoo", "quotient", "window"):
        s.ask("BG.CREATE", kind, "KIND", kind, "CAPACITY", "1000")
    s.ask("CF.RESERVE", "fixed", "1000", "EXPANSION", "0")
    a.told("PUT", f"{F}/uploaded/file", 201, a.told("GET", f"{F}/cuckoo/file", 200), kind="application/octet-stream")
    for name in ("blocked", "counting", "cuckoo", "quotient", "window", "fixed", "uploaded"):
        answer = s.ask("BG.INFO", name)
        said = [dict(zip(answer[::2], answer[1::2]))[b"capacity"], a.told("GET", f"{F}/{name}", 200)["capacity"],
                metrics_of(a)[f'bloomgate_filter_capacity_items{{filter="{name}"}}']]
        same((name, said), (name, [1000, 1000, 0 if name == "window" else 1000]))


def test_filters_that_grow_are_never_full(s):
    a = Asker(s)
    for i in range(3000):
        s.ask("BF.ADD", "grown", str(i))
    a.ask("POST", F, 201, {"name": "scalable", "kind": "scalable", "capacity": 100, "error": 0.01})
    s.ask("CF.RESERVE", "cuckoo", 100)
    for name in ("scalable", "cuckoo"):
        a.ask("POST", f"{F}/{name}/add", 200, {"keys": [str(i) for i in range(3000)]})
    for name in ("grown", "scalable", "cuckoo"):
        told = a.told("GET", f"{F}/{name}?examine=1", 200)
        same((name, told["capacity"], told["health"]["status"]), (name, None, "fine"))
        same(metrics_of(a)[f'bloomgate_filter_capacity_items{{filter="{name}"}}'], 0)
    s.ask("BF.RESERVE", "fixed", "0.01", "100", "NONSCALING")
    same(a.told("GET", f"{F}/fixed", 200)["capacity"], 100)


def test_merging(s):
    a = Asker(s)
    for name in ("m1", "m2", "m3"):
        a.make(name, kind="blocked")
        a.ask("POST", f"{F}/{name}/add", 200, {"keys": [name]})
    a.make("odd", kind="blocked", capacity=5000)
    a.make("cuckoo", kind="cuckoo")
    a.ask("POST", f"{F}/m1/merge", 200, {"from": ["m2"], "from_base64": [base64.b64encode(b"m3").decode()]})
    same(a.told("POST", f"{F}/m1/check", 200, {"keys": ["m1", "m2", "m3", "m4"]})["results"], [True, True, True, False])
    same(code(a.told("POST", f"{F}/m1/merge", 409, {"from": ["odd"]})), "incompatible")
    same(code(a.told("POST", f"{F}/m1/merge", 404, {"from": ["none"]})), "not_found")
    for bad in ({}, {"from": []}, {"from": "m2"}, {"from_base64": ["?"]}, {"from": [f"x{i}" for i in range(1001)]}):
        a.ask("POST", f"{F}/m1/merge", 400, bad)
    a.ask("POST", f"{F}/cuckoo/merge", 409, {"from": ["m1"]})
    for bad in ({"times": 0}, {"times": 21}, {"times": "x"}):
        a.ask("POST", f"{F}/m1/fold", 400, bad)


def test_busy(s):
    a = Asker(s)
    load_foreign(s, "half", whole=False)
    same(a.told("POST", f"{F}/half/check", 200, {"keys": ["anything"]})["results"], [True])
    for path in ("clear", "fold"):
        same(code(a.told("POST", f"{F}/half/{path}", 409, {})), "busy")
    same(code(a.told("POST", f"{F}/half/add", 409, {"keys": ["x"]})), "busy")
    a.make("busy", kind="blocked", folds=2)
    same(s.ask("BG.REBUILD", "busy", "BEGIN", 2000), "OK")
    assert a.told("GET", f"{F}/busy", 200)["rebuilding"]
    same(code(a.told("POST", f"{F}/busy/fold", 409, {})), "busy")
    same(s.ask("BG.REBUILD", "busy", "ABORT"), "OK")
    a.ask("POST", f"{F}/busy/fold", 200, {})


def test_lists_go_on_by_name(s):
    """Filters that are created and dropped during a listing do not cause other filters to be missed or
    listed twice."""
    a = Asker(s)
    for i in range(60):
        a.make(f"list:{i:03d}", capacity=100)
    for order in ("asc", "desc"):
        seen, cursor = [], ""
        while True:
            page = a.told("GET", f"{F}?count=10&order={order}{cursor}", 200)
            seen += [f["name"] for f in page["filters"]]
            if page["next"] is None:
                break
            cursor = "&cursor=" + quote(page["next"])
            a.make(f"list:000{len(seen)}{order}", capacity=100)
            a.ask("DELETE", f"{F}/{quote(seen[-1])}", 204)
            a.make(seen[-1], capacity=100)
        stays = [n for n in seen if re.fullmatch(r"list:\d{3}", n)]
        same(sorted(stays), [f"list:{i:03d}" for i in range(60)])
        same(len(set(seen)), len(seen))
        same(seen, sorted(seen, reverse=order == "desc"))
    for bad in ("cursor=x", "cursor=%3D!", "cursor=-1", "cursor=1&offset=1", "cursor=%3Dabc&sort=bytes"):
        a.ask("GET", f"{F}?{bad}", 400)
    same(len(a.told("GET", f"{F}?sort=bytes&cursor=50&count=100", 200)["filters"]), a.told("GET", F, 200)["total"] - 50)


# ---- Files --------------------------------------------------------------------------------------


def test_files_there_and_back(s):
    a = Asker(s)
    for kind in ("classic", "blocked", "counting", "cuckoo", "quotient", "scalable", "window"):
        name = f"file:{kind}"
        a.make(name, kind=kind, **({"capacity": 20000, "window": {"generations": 4}} if kind == "window" else {"capacity": 2000}))
        a.ask("POST", f"{F}/{quote(name)}/add", 200, {"keys": [f"key {i}" for i in range(1000)]})
        response, file = a.ask("GET", f"{F}/{quote(name)}/file", 200)
        tag = response.getheader("ETag")
        same(response.getheader("Content-Disposition"), f'attachment; filename="file_{kind}.bg"')
        head, empty = a.ask("HEAD", f"{F}/{quote(name)}/file", 200)
        same((head.getheader("ETag"), head.getheader("Content-Length"), empty), (tag, str(len(file)), b""))
        a.ask("GET", f"{F}/{quote(name)}/file", 304, headers={"If-None-Match": f'"x", {tag}'})
        response, _ = a.ask("PUT", f"{F}/copy-{kind}/file", 201, file, headers={"If-None-Match": "*"}, **KIND)
        same(response.getheader("ETag"), tag)
        response, again = a.ask("GET", f"{F}/copy-{kind}/file", 200)
        same((response.getheader("ETag"), again == file), (tag, True))
        same(a.told("POST", f"{F}/copy-{kind}/check", 200, {"keys": [f"key {i}" for i in range(1000)]})["maybe"], 1000)
        one, two = a.told("GET", f"{F}/{quote(name)}?examine=1", 200), a.told("GET", f"{F}/copy-{kind}?examine=1", 200)
        for member in ("kind", "family", "bytes", "capacity", "items", "fill", "geometry", "ones", "window", "can", "hash"):
            same((member, two[member]), (member, one[member]))
        a.ask("POST", f"{F}/copy-{kind}/add", 200, {"keys": ["one more"]})
        response, _ = a.ask("GET", f"{F}/copy-{kind}/file", 200, headers={"If-None-Match": tag})
        assert response.getheader("ETag") != tag


def test_preconditions(s):
    a = Asker(s)
    a.make("pre")
    tag = a.ask("HEAD", f"{F}/pre/file", 200)[0].getheader("ETag")
    file = a.told("GET", f"{F}/pre/file", 200)
    a.ask("POST", f"{F}/pre/add", 200, {"keys": ["x"]})
    response, told = a.ask("PUT", f"{F}/pre/file", 412, file, headers={"If-Match": tag}, **KIND)
    now = response.getheader("ETag")
    same((code(told), now != tag), ("precondition_failed", True))
    a.ask("PUT", f"{F}/pre/file", 412, file, headers={"If-Match": f"W/{now}"}, **KIND)
    a.ask("PUT", f"{F}/none/file", 412, file, headers={"If-Match": "*"}, **KIND)
    same(a.told("POST", f"{F}/pre/check", 200, {"keys": ["x"]})["maybe"], 1)
    response, _ = a.ask("PUT", f"{F}/pre/file", 200, file, headers={"If-Match": f'"0", {now}'}, **KIND)
    same(response.getheader("ETag"), tag)
    same(a.told("POST", f"{F}/pre/check", 200, {"keys": ["x"]})["maybe"], 0)


def upload_while_adding(s, name, condition, prepare):
    """Uploads an empty filter with a precondition that holds until the first add. Each attempt adds its key slightly
    later than the previous attempt. The upload is either refused or takes effect before the add, so an acknowledged key
    is always present afterward."""
    a, r, c = Asker(s), s.connect(), s.connect()
    s.ask("BF.RESERVE", "source", 0.0001, 1000000, "NONSCALING")
    response, file = a.ask("GET", f"{F}/source/file", 200)
    headers = {"Content-Type": KIND["kind"], **condition(response.getheader("ETag"))}
    seen = set()
    for i in range(service.work(40)):
        prepare(r)
        found = []
        thread = threading.Thread(target=lambda: found.append(a.status("PUT", f"{F}/{name}/file", file, headers)))
        thread.start()
        time.sleep(0.001 * (i % 40))
        added = c.ask("BF.ADD", name, "key")
        thread.join()
        assert found[0] in (200, 201, 412), found
        if added == 1:  # otherwise, the add returned an error because the filter had just been replaced
            seen.add((found[0], added, r.ask("BF.EXISTS", name, "key")))
    assert seen <= {(200, 1, 1), (201, 1, 1), (412, 1, 1)}, seen


def test_if_match_loses_no_add(s):
    upload_while_adding(s, "race", lambda tag: {"If-Match": tag}, lambda r: (r.ask("DEL", "race"), r.ask("COPY", "source", "race")))


def test_if_none_match_only_creates(s):
    upload_while_adding(s, "race", lambda tag: {"If-None-Match": "*"}, lambda r: r.ask("DEL", "race"))


def test_dropping_on_a_condition(s):
    a = Asker(s)
    a.make("pre")
    tag = a.ask("HEAD", f"{F}/pre/file", 200)[0].getheader("ETag")
    a.ask("POST", f"{F}/pre/add", 200, {"keys": ["x"]})
    same(code(a.told("DELETE", f"{F}/pre", 412, headers={"If-Match": tag})), "precondition_failed")
    now = a.ask("HEAD", f"{F}/pre/file", 200)[0].getheader("ETag")
    a.ask("DELETE", f"{F}/pre", 204, headers={"If-Match": now})
    a.ask("DELETE", f"{F}/pre", 404, headers={"If-Match": now})


def test_an_upload_has_no_time_to_live(s):
    """An uploaded filter has no time to live. COPY and RENAME take the time to live from the source filter, and
    BG.CLEAR keeps it."""
    a = Asker(s)
    a.make("pre")
    file = a.told("GET", f"{F}/pre/file", 200)
    s.ask("EXPIRE", "pre", 100)
    told = a.told("PUT", f"{F}/pre/file", 200, file, **KIND)
    same((told["expires_in_seconds"], s.ask("TTL", "pre")), (None, -1))
    s.ask("EXPIRE", "pre", 100)
    a.make("from")
    same((s.ask("COPY", "from", "pre", "REPLACE"), s.ask("TTL", "pre")), (1, -1))
    s.ask("EXPIRE", "from", 200)
    expires = s.ask("PEXPIRETIME", "from")
    same((s.ask("COPY", "from", "pre", "REPLACE"), s.ask("PEXPIRETIME", "pre")), (1, expires))
    same((s.ask("BG.CLEAR", "pre"), s.ask("PEXPIRETIME", "pre")), ("OK", expires))
    s.ask("EXPIRE", "from", 300)
    expires = s.ask("PEXPIRETIME", "from")
    same((s.ask("RENAME", "from", "pre"), s.ask("PEXPIRETIME", "pre")), ("OK", expires))
    s.ask("PERSIST", "pre")
    a.make("other")
    s.ask("EXPIRE", "other", 100)
    same((s.ask("RENAME", "pre", "other"), s.ask("TTL", "other")), ("OK", -1))


def test_downloads_have_no_creation_time(s):
    a = Asker(s)
    program = os.path.join(os.path.dirname(s.program), "bloomgate")
    if not os.path.exists(program):
        raise service.Skip("bloomgate is not in the same directory as bloomgated")
    a.make("timeless", kind="blocked", capacity=300, error=0.01)
    path = os.path.join(s.folder, "timeless.bg")
    with open(path, "wb") as f:
        f.write(a.ask("GET", f"{F}/timeless/file", 200)[1])

    def info(*options):
        return service.subprocess.run([program, "info", *options, path], check=True, capture_output=True, text=True).stdout

    assert re.search(r"^ +created +not recorded$", info(), re.M), info()
    same(json.loads(info("--json"))["created"], None)


def test_damaged_files_are_refused(s):
    """A file is refused if any byte is changed or if it is truncated at any point, and the previous content is kept."""
    a = Asker(s)
    a.make("good", kind="blocked", capacity=300, error=0.01)
    a.ask("POST", f"{F}/good/add", 200, {"keys": [f"key {i}" for i in range(300)]})
    response, file = a.ask("GET", f"{F}/good/file", 200)
    tag = response.getheader("ETag")
    step = 1 if service.work(1) > 1 else 37
    offsets = sorted({*range(0, 300), *range(0, len(file), step), *range(len(file) - 40, len(file))})
    damaged = [file[:i] + bytes([file[i] ^ (1 << i % 8)]) + file[i + 1:] for i in offsets]
    damaged += [file[:n] for n in range(0, len(file), max(1, step * 16))] + [file + b"\0", file * 2, b"", b"\0" * len(file)]
    for bytes_ in damaged:
        for path in ("good", "fresh"):
            told = a.told("PUT", f"{F}/{path}/file", 422, bytes_, **KIND)
            same(code(told), "bad_file")
            assert len(told["error"]["message"]) > 10, told
    a.ask("GET", f"{F}/fresh", 404)
    same(a.ask("HEAD", f"{F}/good/file", 200)[0].getheader("ETag"), tag)
    same(a.told("POST", f"{F}/good/check", 200, {"keys": [f"key {i}" for i in range(300)]})["maybe"], 300)
    same([n for n in os.listdir(os.path.join(s.folder, "data")) if n.startswith(("upload", "download"))], [])
    events = a.told("GET", "/api/v1/events?level=warning&filter=good", 200)["events"]
    assert any(e["type"] == "refused" for e in events), events


def load_foreign(s, name, whole=True):
    """Loads a filter in RedisBloom's bit layout, as written by RedisBloom's SCANDUMP. Such a filter cannot be saved in
    Bloomgate's format."""
    bits_per_key = -math.log(0.005) / 0.480453013918201
    bits = (int(100 * bits_per_key) + 63) // 64 * 64
    header = struct.pack("<QIIIQQQddIQB", 0, 1, 5, 2, bits // 8, bits, 0, 0.005, bits_per_key, math.ceil(0.693147180559945 * bits_per_key), 100, 0)
    same(s.ask("BF.LOADCHUNK", name, 1, header), "OK")
    if whole:
        same(s.ask("BF.LOADCHUNK", name, 1 + bits // 8, bytes(bits // 8)), "OK")


def test_files_of_others(s):
    """A file that was written with another service's secret is refused. A file without a secret is accepted, and the
    filter takes its parameters from the file."""
    a = Asker(s)
    with free_service(s.program) as other:
        b = Asker(other)
        b.make("secret")
        b.make("open", hash="fast")
        b.ask("POST", f"{F}/open/add", 200, {"keys": ["x"]})
        same(code(a.told("PUT", f"{F}/secret/file", 422, b.told("GET", f"{F}/secret/file", 200), **KIND)), "bad_file")
        a.ask("PUT", f"{F}/open/file", 201, b.told("GET", f"{F}/open/file", 200), **KIND)
        same(a.told("POST", f"{F}/open/check", 200, {"keys": ["x", "y"]})["results"], [True, False])
    load_foreign(s, "foreign")
    same(s.ask("BF.ADD", "foreign", "x"), 1)
    same(code(a.told("GET", f"{F}/foreign/file", 422)), "not_supported")
    same(code(a.told("GET", f"{F}/foreign/occupancy", 422)), "not_supported")
    a.ask("GET", f"{F}/foreign", 200)
    a.ask("POST", f"{F}/foreign/add", 200, {"keys": ["y"]})


def test_files_of_every_kind(s):
    """Uploads every golden file. Each file is either refused, or accepted and successfully verified."""
    a = Asker(s)
    folder = os.path.join(http_asker.HERE, "..", "golden", "files")
    taken = set()
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), "rb") as file:
            data = file.read()
        status = a.status("PUT", f"{F}/golden/file", data)
        assert status in (200, 201, 422), (name, status)
        if status != 422:
            told = a.told("GET", f"{F}/golden?examine=1", 200)
            taken.add(told["kind"])
            same((name, a.told("POST", f"{F}/golden/verify", 200, {})["ok"]), (name, True))
            a.ask("GET", f"{F}/golden/occupancy?cells=10", 200)
        if name == "fuse.bg":  # a static filter accepts no keys
            same(status in (200, 201), True)
            for path, body in (("add", {"keys": ["x"]}), ("fold", {}), ("rotate", {})):
                same(code(a.told("POST", f"{F}/golden/{path}", 422, body)), "not_supported")
    assert len(taken) >= 11, taken


def test_files_outlive_a_restart(s):
    a = Asker(s)
    a.make("kept")
    a.ask("POST", f"{F}/kept/add", 200, {"keys": ["x"]})
    file = a.told("GET", f"{F}/kept/file", 200)
    a.ask("PUT", f"{F}/twin/file", 201, file, **KIND)
    tag = a.ask("HEAD", f"{F}/twin/file", 200)[0].getheader("ETag")
    s.restart()
    a = Asker(s)
    same(a.ask("HEAD", f"{F}/twin/file", 200)[0].getheader("ETag"), tag)
    same(a.told("POST", f"{F}/twin/check", 200, {"keys": ["x", "y"]})["results"], [True, False])


# ---- Statistics ---------------------------------------------------------------------------------


def metrics_of(a, query=""):
    """Returns the content of /metrics as {name{labels}: value}."""
    text = a.told("GET", f"/metrics{query}", 200).decode()
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line and line[0] != "#"}


def test_figures_are_those_of_metrics(s):
    a = Asker(s)
    a.make("fig", kind="blocked")
    a.ask("POST", f"{F}/fig/add", 200, {"keys": [str(i) for i in range(600)] + ["1"]})
    a.ask("POST", f"{F}/fig/check", 200, {"keys": [str(i) for i in range(500, 1500)]})
    told = a.told("GET", f"{F}/fig?examine=1", 200)
    m = metrics_of(a)
    at = '{filter="fig"}'
    for name, value in (("size_bytes", told["bytes"]), ("layers", told["layers"]), ("capacity_items", told["capacity"]), ("target_fpr_ratio", told["target"]),
                        ("items", told["items"]["value"]), ("low_items", told["items"]["low"]), ("high_items", told["items"]["high"]),
                        ("fill_ratio", told["fill"]), ("predicted_fpr_ratio", told["predicted"]), ("measured_fpr_ratio", told["measured"]["value"]),
                        ("measured_low_fpr_ratio", told["measured"]["low"]), ("measured_high_fpr_ratio", told["measured"]["high"]),
                        ("ones_per_insert", told["ones_per_insert"]), ("honest_ones_per_insert", told["honest_ones_per_insert"])):
        same((name, m[f"bloomgate_filter_{name}{at}"]), (name, value))
    c = told["counters"]
    same(m['bloomgate_filter_queries_total{filter="fig",result="maybe"}'], c["maybes"])
    same(m['bloomgate_filter_queries_total{filter="fig",result="no"}'], c["queries"] - c["maybes"])
    same(m['bloomgate_filter_inserts_total{filter="fig",result="new"}'], c["news"])
    same(m['bloomgate_filter_inserts_total{filter="fig",result="maybe_present"}'], c["adds"] - c["news"])
    same((c["queries"], told["avoided"]), (1000, c["queries"] - c["maybes"]))
    info = a.told("GET", "/api/v1/info", 200)
    same(info["counters"], c)
    same(info["filters"]["count"], m["bloomgate_service_filters"])
    same(info["connections"]["limit"], m["bloomgate_service_max_connections"])
    cheap = metrics_of(a, "?cheap=1")
    assert f"bloomgate_filter_items{at}" not in cheap and f"bloomgate_filter_size_bytes{at}" in cheap
    a.ask("GET", "/metrics?cheap=maybe", 400)
    for key, truth in (("1", "FALSEPOSITIVE"), ("2", "FALSEPOSITIVE"), ("3", "PRESENT"), ("certainly not", "PRESENT")):
        s.ask("BG.OBSERVE", "fig", key, truth)
    told = a.told("GET", f"{F}/fig", 200)
    same((told["wasted"], told["false_negatives"], told["health"]["status"]), (2, 1, "act"))
    assert told["observed"]["low"] < 2 / (2 + told["avoided"]) < told["observed"]["high"], told["observed"]


def test_openmetrics_is_asked_for(s):
    a = Asker(s)
    a.make("om")
    for accept, kind in (("application/openmetrics-text; version=1.0.0", "application/openmetrics-text"), ("text/plain", "text/plain"), ("*/*", "text/plain"),
                         ("application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
                          "application/openmetrics-text")):
        response, text = a.ask("GET", "/metrics", 200, headers={"Accept": accept})
        same(response.getheader("Content-Type").split(";")[0], kind)
        same(text.endswith(b"\n# EOF\n"), kind != "text/plain")


def test_history(s):
    a = Asker(s)
    a.make("past")
    first = a.told("GET", "/api/v1/history?filter=past", 200)
    same((first["kept"], first["points"]), (True, 0))

    def ask():
        a.ask("POST", f"{F}/past/check", 200, {"keys": ["x"] * 10})
        past = a.told("GET", "/api/v1/history?filter=past&metric=queries_per_second,bytes", 200)
        return past if any(past["series"]["queries_per_second"]) else None
    past = wait_for(ask, what="points of history")
    same((past["kept"], past["filter"], set(past["series"])), (True, "past", {"queries_per_second", "bytes"}))
    asked = a.told("GET", f"{F}/past", 200)["counters"]["queries"]
    assert 0 < sum(v or 0 for v in past["series"]["queries_per_second"]) * past["step"] <= asked, past
    whole = a.told("GET", "/api/v1/history?seconds=86400", 200)
    same((whole["step"], len(whole["series"])), (60, 10))
    for bad in ("metric=colour", "seconds=0", "seconds=86401", "seconds=x", "filter=%3D!", "metric=items"):
        a.ask("GET", f"/api/v1/history?{bad}", 400)
    a.ask("GET", "/api/v1/history?filter=none", 404)


@alone
def test_history_of_many_filters(program):
    """The first 64 requested filters have a history. Dropping one of them makes room for another."""
    with free_service(program) as s:
        a = Asker(s)
        for i in range(65):
            a.make(f"h{i}")

        def kept(name):
            return a.told("GET", f"/api/v1/history?filter={name}", 200)["kept"]
        same([kept(f"h{i}") for i in range(65)], [True] * 64 + [False])
        same((kept("h0"), kept("h64")), (True, False))
        a.ask("DELETE", f"{F}/h0", 204)
        wait_for(lambda: kept("h64"), what="a free history")


def test_events(s):
    a = Asker(s)
    told = a.told("GET", "/api/v1/events", 200)
    same({"load", "start"} <= {e["type"] for e in told["events"]}, True)
    for _ in range(3):
        a.ask("PUT", f"{F}/e%0Av/file", 422, b"junk", **KIND)
    new = a.told("GET", f"/api/v1/events?since={told['last']}", 200)
    same([(e["type"], e["filter"], e["level"]) for e in new["events"]], [("refused", "e\nv", "warning")] * 3)
    same((new["last"], new["missed"]), (told["last"] + 3, False))
    same(len(a.told("GET", "/api/v1/events?count=2", 200)["events"]), 2)
    same(a.told("GET", f"/api/v1/events?since={new['last']}&level=warning", 200)["events"], [])
    same(len(a.told("GET", "/api/v1/events?filter=e%0Av&level=warning", 200)["events"]), 3)
    same(a.told("GET", f"/api/v1/events?since={new['last'] + 1000}", 200)["missed"], True)
    for bad in ("since=-1", "since=x", "count=0", "count=1001", "level=loud", "filter=%3D!"):
        a.ask("GET", f"/api/v1/events?{bad}", 400)
    for _ in range(1100):
        a.ask("PUT", f"{F}/flood/file", 422, b"junk", **KIND)
    late = a.told("GET", f"/api/v1/events?since={told['last']}&count=1000", 200)
    same((late["missed"], len(late["events"]), late["last"]), (True, 1000, new["last"] + 1100))


def test_plan_is_that_of_the_command_line(s):
    a = Asker(s)
    program = os.path.join(os.path.dirname(s.program), "bloomgate")
    if not os.path.exists(program):
        raise service.Skip("bloomgate is not in the same directory as bloomgated")
    text = service.subprocess.run([program, "plan", "-n", "3M", "-p", "0.1%", "--json"], check=True, capture_output=True, text=True).stdout
    theirs, mine = json.loads(text), a.told("GET", "/api/v1/plan?items=3000000&error=0.001", 200)
    same([k["kind"] for k in mine["kinds"]], [k["kind"] for k in theirs["kinds"]])
    for one, two in zip(theirs["kinds"], mine["kinds"]):
        for member in ("possible", "bytes", "k", "units", "layers"):
            same((one["kind"], one.get(member)), (two["kind"], two.get(member)))
        assert abs(one["rate"] - two["rate"]) < 1e-5, (one["rate"], two["rate"])
    same(mine["recommended"]["kind"], theirs["recommended"]["kind"])
    same([h.replace("(growth 2)", "(--growth 2)") for h in mine["hints"]], theirs["hints"])
    curve = a.told("GET", "/api/v1/plan?items=3000000&error=0.001&kind=blocked&points=21", 200)["curves"][0]
    same((curve["multiple"][10], curve["multiple"][0], curve["multiple"][20]), (1, 0.1, 10))
    planned = next(k for k in mine["kinds"] if k["kind"] == "blocked")
    assert abs(curve["rate_at"][10] - planned["rate"]) < 1e-9 and curve["rate_at"] == sorted(curve["rate_at"]), curve
    for bad in ("items=10", "error=0.1", "items=10&error=0.1&kind=round", "items=10&error=0.1&growth=-1", "items=10&error=0.1&absent_share=2",
                "items=10&error=0.1&points=201", "items=10&error=nan", "items=10&error=0.1&call_cost=inf", "items=10&memory=4"):
        a.ask("GET", f"/api/v1/plan?{bad}", 400)


# ---- Permissions --------------------------------------------------------------------------------


USERS = ("user admin on >secret allcommands allkeys", "user shop on >buy +@all -@admin -@dangerous +info ~shop:* rate=1000 burst=1000",
         "user reader on >look +@read +@bloom +@gate -@write %R~shop:*", "user former off >x allcommands allkeys", "user default off", "user few on >x +ping allkeys")


def basic(user):
    return {"Authorization": "Basic " + base64.b64encode(user.encode()).decode()}


@alone
def test_users(program):
    with free_service(program, *USERS) as s:
        admin, shop, reader = Asker(s, "admin:secret"), Asker(s, "shop:buy"), Asker(s, "reader:look")
        nobody = Asker(s)
        same(admin.told("GET", "/api/v1/info", 200)["user"], {
            "name": "admin", "admin": True, "write": True, "can": ["add", "create", "rename", "drop", "clear", "rotate", "download", "verify", "rebuild"]})
        found = reader.told("GET", "/api/v1/info", 200)["user"]
        same((found["name"], found["admin"], found["write"]), ("reader", False, False))
        same(set(found["can"]) & {"add", "create", "rename", "drop", "clear", "rotate"}, set())
        admin.make("shop:a", kind="blocked", overfill=True)
        admin.make("other")
        document = CONTRACT.document["paths"]
        for path, item in document.items():  # every operation requires a login unless the document exempts it
            for method in item.keys() & {"get", "post", "put", "patch", "delete"}:
                operation = item[method]
                free = operation.get("security") == [{}]
                path_ = path.replace("{name}", "shop%3Aa").replace("{file}", "dashboard.js")
                body = None if method in ("get", "delete") else {}
                response, _ = nobody.ask(method.upper(), path_, 200 if free else 401, body)
                same("401" in operation["responses"], not free)
        for who in (nobody, admin, reader):  # with any query, and although the user `default` is disabled
            same(who.told("GET", "/readyz?verbose=1", 200)["state"], "ready")
            same(who.told("GET", "/readyz?fronts=1", 200), b"ready\n")
        for bad in ("admin:wrong", "admin:", "nobody:secret", ":", "former:x", "default:", "admin"):
            nobody.ask("GET", F, 401, headers=basic(bad))
        for header in ("Basic", "Basic !", "Digest x", "Bearer", "Bearer admin", "Bearer admin:secret x", "Bearer shop:secret"):
            nobody.ask("GET", "/api/v1/info", 401, headers={"Authorization": header})
        nobody.ask("GET", "/api/v1/info", 200, headers={"Authorization": "Bearer admin:secret"})
        check_rights(admin, shop, reader)
        check_tenants(admin, shop)


def check_rights(admin, shop, reader):
    same([f["name"] for f in shop.told("GET", F, 200)["filters"]], ["shop:a"])
    same(shop.told("GET", F, 200)["total"], 1)
    for method, path, body in (("GET", "", None), ("GET", "/file", None), ("GET", "/occupancy", None), ("POST", "/check", {"keys": ["x"]}),
                               ("POST", "/add", {"keys": ["x"]}), ("POST", "/clear", {}), ("PATCH", "", {"expires_in_seconds": 5}), ("DELETE", "", None)):
        shop.ask(method, f"{F}/other{path}", 404, body)
    shop.ask("POST", F, 403, {"name": "mine", "capacity": 10, "error": 0.1})
    shop.ask("PATCH", f"{F}/shop%3Aa", 403, {"name": "other2"})
    file = admin.told("GET", f"{F}/other/file", 200)
    same(code(shop.told("PUT", f"{F}/other/file", 403, file, **KIND)), "forbidden")
    shop.ask("POST", f"{F}/shop%3Aa/merge", 403, {"from": ["other"]})
    shop.ask("POST", f"{F}/shop%3Aa/add", 200, {"keys": ["x"]})
    same(reader.told("POST", f"{F}/shop%3Aa/check", 200, {"keys": ["x", "y"]})["results"], [True, False])
    for method, path, body in (("POST", "/add", {"keys": ["x"]}), ("POST", "/clear", {}), ("POST", "/fold", {}), ("POST", "/rotate", {}),
                               ("POST", "/merge", {"from": ["shop:a"]}), ("PATCH", "", {"expires_in_seconds": 5}), ("DELETE", "", None)):
        same(code(reader.told(method, f"{F}/shop%3Aa{path}", 403, body)), "forbidden")
    same(code(reader.told("PUT", f"{F}/shop%3Aa/file", 403, file, **KIND)), "forbidden")
    same(code(shop.told("POST", f"{F}/shop%3Aa/add", 403, b"x\n", kind="text/plain")), "cross_site")
    few = Asker(shop.served, "few:x")
    for method, path, body in (("GET", F, None), ("GET", f"{F}/shop%3Aa", None), ("GET", f"{F}/shop%3Aa/file", None), ("GET", f"{F}/shop%3Aa/occupancy", None),
                               ("POST", f"{F}/shop%3Aa/verify", {}), ("POST", f"{F}/shop%3Aa/check", {"keys": ["x"]}), ("GET", "/metrics", None),
                               ("GET", "/api/v1/gates", None), ("GET", "/api/v1/fronts", None), ("GET", "/api/v1/fronts/seen", None)):
        same(code(few.told(method, path, 403, body)), "forbidden")
    few.ask("GET", "/api/v1/info", 200)
    text = shop.told("GET", "/metrics", 200).decode()
    assert 'filter="shop:a"' in text and 'filter="other"' not in text
    # The user does not see events for other users' filters, or events that do not belong to a filter.
    admin.ask("PUT", f"{F}/other/file", 422, b"junk", **KIND)
    shop.ask("PUT", f"{F}/shop%3Aa/file", 422, b"junk", **KIND)
    same({e.get("filter") for e in shop.told("GET", "/api/v1/events", 200)["events"]}, {"shop:a"})
    assert {e.get("filter") for e in admin.told("GET", "/api/v1/events", 200)["events"]} >= {"shop:a", "other", None}
    same(shop.told("GET", "/api/v1/info", 200)["filters"]["count"], 1)
    same(shop.told("GET", "/api/v1/info", 200)["persistence"]["dir"], None)
    shop.ask("GET", "/api/v1/history?filter=other", 404)


def check_tenants(admin, shop):
    told = admin.told("GET", "/api/v1/tenants", 200)["tenants"]
    same([t["name"] for t in told], ["admin", "default", "few", "former", "reader", "shop"])
    by_name = {t["name"]: t for t in told}
    same((by_name["former"]["enabled"], by_name["shop"]["enabled"], by_name["shop"]["admin"]), (False, True, False))
    same((by_name["shop"]["filters"], by_name["admin"]["filters"]), (1, 2))
    same(by_name["shop"]["limits"], {"inserts_per_second": 1000, "burst": 1000, "bytes": None, "filters": None})
    assert by_name["shop"]["refused"]["rights"] >= 3, by_name["shop"]
    same("secret" in json.dumps(told), False)
    same([t["name"] for t in shop.told("GET", "/api/v1/tenants", 200)["tenants"]], ["shop"])
    shop.ask("POST", f"{F}/shop%3Aa/add", 200, {"keys": ["counted"]})
    Asker(shop.served, "few:x").ask("GET", f"{F}/shop%3Aa/check?key=x", 403)
    response, refused = shop.ask("POST", f"{F}/shop%3Aa/add", 429, {"keys": [str(i) for i in range(1500)]})
    same((code(refused), refused["done"] <= 1000, response.getheader("Retry-After") is not None), ("limit", True, True))
    assert shop.told("GET", "/api/v1/tenants", 200)["tenants"][0]["refused"]["rate"] > 0


@alone
def test_guessing_is_slowed_down(program):
    with free_service(program, "requirepass secret") as s:
        a = Asker(s)
        statuses = [a.status("GET", "/api/v1/info", headers=basic(f"default:{i}")) for i in range(40)]
        same(set(statuses), {401, 429})
        same(a.status("GET", "/api/v1/info", headers=basic("default:secret")) in (200, 429), True)
        same(a.status("GET", "/healthz"), 200)


@alone
def test_auth_can_be_left_out(program):
    with free_service(program, "requirepass secret", "http-auth no") as s:
        a = Asker(s)
        a.ask("GET", F, 200)
        same(a.told("GET", "/api/v1/info", 200)["user"]["admin"], True)
        a.ask("GET", "/metrics", 200)
        same(a.status("GET", F, headers={"Host": "evil.example"}), 421)
        assert s.ask("PING").startswith("NOAUTH")
    with free_service(program, "requirepass secret", "metrics-auth no") as s:
        a = Asker(s)
        a.ask("GET", "/metrics", 200)
        a.ask("GET", F, 401)
        same(a.status("GET", "/metrics", headers={"Host": "evil.example"}), 421)


@alone
def test_metrics_need_only_the_documented_permissions(program):
    with open(os.path.join(os.path.dirname(__file__), "../../docs/operations.md"), encoding="utf-8") as page:
        rule = re.search(r"For metrics,\s+`(user default [^`]*)` is enough", page.read()).group(1)
    with free_service(program, "metrics-auth no", rule, "user admin on >secret +@all ~*") as s:
        a = Asker(s, "admin:secret")
        a.make("f")
        anonymous = Asker(s)
        wait_for(lambda: b'filter="f"' in anonymous.told("GET", "/metrics", 200), what="the series of a filter")
        same(anonymous.status("GET", F), 401)
        assert s.ask("BF.EXISTS", "f", "pear").startswith("NOAUTH")


@alone
def test_host_names(program):
    with free_service(program, "http-allowed-hosts bloom.example other.example") as s:
        a = Asker(s)
        for host in ("localhost", "LOCALHOST:8420", "127.0.0.1", "127.0.0.1:1", "[::1]:8420", "10.1.2.3", "x.localhost", "bloom.example", "Other.Example:80",
                     "localhost."):
            same((host, a.status("GET", "/api/v1/info", headers={"Host": host})), (host, 200))
        for host in ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "xlocalhost", "[evil]", "bloom.example.evil"):
            for path in ("/api/v1/info", "/metrics", F):
                same((host, a.status("GET", path, headers={"Host": host})), (host, 421))
            same(a.status("GET", "/healthz", headers={"Host": host}), 200)
        same(code(a.told("GET", "/api/v1/info", 421, headers={"Host": "evil.example"})), "misdirected")
    with free_service(program, "requirepass secret") as s:
        same(Asker(s).status("GET", "/api/v1/info", headers={"Host": "any.example", **basic("default:secret")}), 200)


def test_other_pages(s):
    """Requests that another site's page can send without a preflight request change nothing."""
    a = Asker(s)
    a.make("page")
    for headers, status in (({"Origin": "http://evil.example"}, 403), ({"Origin": "null"}, 403), ({"Sec-Fetch-Site": "cross-site"}, 403),
                            ({"Sec-Fetch-Site": "same-site"}, 403), ({"Sec-Fetch-Site": "same-origin"}, 200), ({"Sec-Fetch-Site": "none"}, 200),
                            ({"Origin": f"http://127.0.0.1:{s.http_port}"}, 200), ({"Origin": f"http://127.0.0.1:{s.http_port + 1}"}, 403)):
        a.ask("POST", f"{F}/page/add", status, {"keys": ["x"]}, headers=headers)
        a.ask("POST", f"{F}/page/check", status, {"keys": ["x"]}, headers=headers)
        a.ask("PATCH", f"{F}/page", status, {"expires_in_seconds": None}, headers=headers)
        a.ask("PUT", f"{F}/page/file", 403 if status == 403 else 422, b"x", headers=headers, **KIND)
    for kind in ("text/plain", "text/plain;charset=utf-8", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        same(code(a.told("POST", f"{F}/page/add", 403, b'{"keys":["y"]}', kind=kind)), "cross_site")
        same(code(a.told("POST", F, 403, b'{"name":"y"}', kind=kind)), "cross_site")
    same(code(a.told("POST", f"{F}/page/clear", 403)), "cross_site")
    a.ask("POST", f"{F}/page/clear", 200, headers={"X-Bloomgate": ""})


# ---- Limits -------------------------------------------------------------------------------------


@alone
def test_limits(program):
    with free_service(program, "max-filters 2", "max-filter-memory 1Mi", "maxmemory 3Mi", "proto-max-bulk-len 4Ki") as s:
        a = Asker(s)
        info = a.told("GET", "/api/v1/info", 200)["limits"]
        same((info["max_body_bytes"], info["max_filters"], info["max_filter_bytes"]), (4096, 2, 2 ** 20))
        same(code(a.told("POST", F, 507, {"name": "big", "kind": "blocked", "capacity": 10000, "memory": 2 ** 21})), "out_of_memory")
        a.told("POST", F, 201, {"name": "one", "kind": "blocked", "capacity": 10000, "memory": 2 ** 20})
        same(code(a.told("POST", F, 507, {"name": "two", "kind": "blocked", "capacity": 10000, "memory": 2 ** 20})), "out_of_memory")
        a.make("two")
        response, told = a.ask("POST", F, 429, {"name": "three", "capacity": 10, "error": 0.1})
        same((code(told), response.getheader("Retry-After") is not None), ("limit", True))
        file = a.told("GET", f"{F}/two/file", 200)
        same(code(a.told("PUT", f"{F}/three/file", 429, file, **KIND)), "limit")
        for path in (F, f"{F}/two/add", f"{F}/two/check", "/api/v1/gates/x/lookup"):
            same(code(a.told("POST", path, 413, b" " * 4097)), "too_large")
        same(code(a.told("PUT", f"{F}/two/file", 413, b" " * (info["max_upload_bytes"] + 1), **KIND)), "too_large")
        with free_service(program) as other:
            b = Asker(other)
            b.told("POST", F, 201, {"name": "huge", "kind": "blocked", "capacity": 10000, "memory": 2 ** 20 + 64, "hash": "fast"})
            b.told("POST", F, 201, {"name": "large", "kind": "blocked", "capacity": 10000, "memory": 2 ** 20, "hash": "fast"})
            same(code(a.told("PUT", f"{F}/two/file", 507, b.told("GET", f"{F}/huge/file", 200), **KIND)), "out_of_memory")
            same(code(a.told("PUT", f"{F}/two/file", 507, b.told("GET", f"{F}/large/file", 200), **KIND)), "out_of_memory")
        a.ask("POST", f"{F}/two/check", 200, {"keys": ["x"]})
        grows = a.told("PATCH", f"{F}/two", 200, {"name": "grows"})
        same(grows["name"], "grows")


@alone
def test_a_growing_filter_stops_at_maxmemory(program):
    with free_service(program, "max-filter-memory 64Ki") as s:
        a = Asker(s)
        s.ask("CF.RESERVE", "grows", 1000)
        keys = [str(i) for i in range(200000)]
        told = a.told("POST", f"{F}/grows/add", 507, {"keys": keys})
        same(code(told), "out_of_memory")
        assert 1000 < told["done"] < 100000, told["done"]
        same(a.told("POST", f"{F}/grows/check", 200, {"keys": keys[:told["done"]]})["maybe"], told["done"])


# ---- Gates --------------------------------------------------------------------------------------


def make_catalogue(path, rows):
    with sqlite3.connect(path) as db:
        db.execute("create table products (id integer primary key, sku text unique)")
        db.executemany("insert into products (sku) values (?)", [(f"sku-{i}",) for i in range(rows)])


@alone
def test_misconfigured_gates(program):
    """The gate reports what is wrong with its settings, not that it is still connecting."""
    s = free_service(program)
    path = os.path.join(s.folder, "shop.db")
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE products (sku TEXT PRIMARY KEY)")
    s.lines = (f"gate wrong source=sqlite:{path} keys=product(sku) follow=changes",)
    with s:
        a = Asker(s)
        gate = wait_for(lambda: (lambda g: g if g["source"]["error"] else None)(a.told("GET", "/api/v1/gates/wrong", 200)), what="the error")
        same((gate["source"]["state"], gate["health"]["status"]), ("down", "act"))
        assert "no such table" in gate["health"]["reasons"][0]["text"], gate["health"]
        assert "source: source:" not in gate["health"]["reasons"][0]["text"], gate["health"]
        assert "no such table" in gate["last_failure"], gate


@alone
def test_gates(program):
    s = free_service(program)
    path = os.path.join(s.folder, "catalogue.db")
    make_catalogue(path, 5000)
    s.lines = (f"gate products source=sqlite:{path} keys=products(sku) follow=none promise=read-only audit=0.05",)
    with s:
        a = Asker(s)
        gate = wait_for(lambda: (lambda g: g if g["complete"]["state"] == "complete" else None)(a.told("GET", "/api/v1/gates/products", 200)), what="a gate")
        keys = [f"sku-{i}" for i in range(4000, 6000)]
        told = a.told("POST", "/api/v1/gates/products/lookup", 200, {"keys": keys[:1000]})
        same([r["present"] for r in told["results"]], [True] * 1000)
        told = a.told("POST", "/api/v1/gates/products/lookup", 200, {"keys": keys[1000:]})
        same([r["present"] for r in told["results"]], [False] * 1000)
        coded = [base64.b64encode(k.encode()).decode() for k in keys[999:1001]]
        told = a.told("POST", "/api/v1/gates/products/lookup", 200, {"keys": coded, "encoding": "base64"})
        same([r["present"] for r in told["results"]], [True, False])
        check_gate_figures(a, gate)
        for bad in ({"keys": []}, {"keys": "x"}, {}, {"keys": ["x"] * 1001}, {"keys": ["?"], "encoding": "base64"}, {"keys": ["x"], "encoding": "x"}):
            a.ask("POST", "/api/v1/gates/products/lookup", 400, bad)
        a.ask("POST", "/api/v1/gates/products/lookup", 415, b"x", kind="text/html")
        a.ask("POST", "/api/v1/gates/products/lookup", 403, b'{"keys":["x"]}', kind="text/plain")
        a.ask("POST", "/api/v1/gates/none/lookup", 404, {"keys": ["x"]})
        a.ask("POST", "/api/v1/gates/none/rebuild", 404, {})
        a.ask("POST", "/api/v1/gates/products/rebuild", 403)
        rebuilds = a.told("GET", "/api/v1/gates/products", 200)["rebuilds"]
        a.ask("POST", "/api/v1/gates/products/rebuild", 202, {})
        wait_for(lambda: a.told("GET", "/api/v1/gates/products", 200)["rebuilds"] > rebuilds, what="a rebuild")
        events = a.told("GET", "/api/v1/events", 200)["events"]
        assert any(e.get("gate") == "products" and e["type"] == "rebuild" for e in events), events
        ready = a.told("GET", "/readyz?verbose=1", 200)
        assert any(c["name"] == "gates" and c["ok"] for c in ready["checks"]), ready


@alone
def test_keys_count_for_the_user_of_the_request(program):
    """Counts queries and adds of each user in pipelines, transactions, jobs, gates and HTTP, and shows them everywhere."""
    s = free_service(program)
    path = os.path.join(s.folder, "catalogue.db")
    make_catalogue(path, 10)
    s.lines = (f"gate products source=sqlite:{path} keys=products(sku) follow=none promise=read-only audit=0 rows=yes", "user default off",
               "user writer on >x +@all ~* rate=100000", "user reader on >x +@read +@gate +auth +multi +exec +info %R~*", "user admin on >x +@all ~*")
    with s:
        writer, reader = s.connect(), s.connect()
        for c, name in ((writer, "writer"), (reader, "reader")):
            c.ask("AUTH", name, "x")
        writer.ask("BF.RESERVE", "f", "1%", "1M")
        writer.pipeline([("BF.ADD", "f", str(i)) for i in range(3000)])
        writer.ask("BF.MADD", "f", *range(100))
        writer.ask("BF.INSERT", "f", "CAPACITY", 10, "ITEMS", "a", "b")
        writer.ask("BF.MADD", "f", *range(5000))  # runs as a job
        refused = writer.ask("BF.MADD", "f", *range(10000, 300000))  # over the limit of the user
        assert refused[-1].startswith("LIMIT rate of user writer: over the limit of 100000 adds/s; try again in "), refused[-1]
        writer.ask("MULTI")
        writer.ask("CF.ADD", "c", "x")
        writer.ask("BF.EXISTS", "f", "x")
        writer.ask("EXEC")
        writer.ask("BG.WROTE", "products", "x", "y")
        Asker(s, "writer:x").ask("POST", f"{F}/f/add", 200, {"keys": ["p", "q", "r"]})
        added, asked = 3000 + 100 + 2 + 5000 + len(refused) - 1 + 1 + 2 + 3, 1
        reader.pipeline([("BF.EXISTS", "f", str(i)) for i in range(2000)])
        reader.ask("BF.MEXISTS", "f", "a", "b", "c")
        reader.ask("BF.ADD", "f", "not allowed")
        reader.ask("BG.LOOKUP", "products", "sku-1")
        reader.ask("BG.MLOOKUP", "products", "sku-1", "nothing")
        reader.ask("BG.ROW", "products", "sku-1")
        web = Asker(s, "reader:x")
        web.ask("GET", f"{F}/f/check?key=a&key=b", 200)
        web.ask("POST", "/api/v1/gates/products/lookup", 200, {"keys": ["sku-1", "sku-2"]})
        web.ask("GET", "/api/v1/gates/products/row?key=sku-1", 200)
        read = 2000 + 3 + 1 + 2 + 1 + 2 + 2 + 1
        admin = Asker(s, "admin:x")
        tenants = {t["name"]: t for t in admin.told("GET", "/api/v1/tenants", 200)["tenants"]}
        same({n: (t["counters"]["queries"], t["counters"]["adds"]) for n, t in tenants.items()},
             {"writer": (asked, added), "reader": (read, 0), "admin": (0, 0), "default": (0, 0)})
        info = reader.ask("INFO", "stats").decode()
        assert f"user_queries:{read}\r" in info and "user_adds:0\r" in info, info
        text = metrics_of(admin)
        same((text['bloomgate_service_user_adds_total{user="writer"}'], text['bloomgate_service_user_queries_total{user="reader"}']), (added, read))

        def rate(name):
            return {t["name"]: t["per_second"][name] for t in admin.told("GET", "/api/v1/tenants", 200)["tenants"]}

        def busy():
            reader.pipeline([("BF.EXISTS", "f", str(i)) for i in range(500)])
            return rate("queries")["reader"] > 0

        wait_for(busy, what="the rate of the reader")
        same((rate("adds")["reader"], rate("queries")["admin"]), (0, 0))


def test_check_with_a_query(s):
    a = Asker(s)
    a.make("asked", kind="blocked", capacity=1000, error=1e-6)
    a.told("POST", f"{F}/asked/add", 200, {"keys": ["alice", "", "a b", "ü"]})
    a.told("POST", f"{F}/asked/add", 200, {"keys": [base64.b64encode(b"a\0\xff&=").decode()], "encoding": "base64"})
    response, told = a.ask("GET", f"{F}/asked/check?key=alice", 200)
    same((json.loads(told) if isinstance(told, (bytes, str)) else told, response.getheader("Cache-Control")),
         ({"results": [True], "keys": 1, "maybe": 1}, "no-store"))
    told = a.told("GET", f"{F}/asked/check?key=alice&key=bob&x=1&key=&key=a+b&key=%C3%BC&key=a%00%ff%26%3D&key=a%00", 200)
    same(told["results"], [True, False, True, True, True, True, False])
    same(a.told("GET", f"{F}/asked/check?key=a%2Bb", 200)["results"], [False])
    same(a.told("GET", f"{F}/asked/check?key", 200)["results"], [True])
    for bad in ("", "?", "?keys=a", "?key=%", "?key=%4", "?key=%GG"):
        a.ask("GET", f"{F}/asked/check{bad}", 400)
    a.ask("GET", f"{F}/none/check?key=x", 404)
    many = "&".join(f"key={i}" for i in range(800))
    same(a.told("GET", f"{F}/asked/check?{many}", 200)["keys"], 800)
    a.ask("GET", f"{F}/asked/check?key={'x' * 9000}", 414)


@alone
def test_rows(program):
    s = free_service(program)
    path = os.path.join(s.folder, "rows.db")
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("CREATE TABLE users (email TEXT PRIMARY KEY, name TEXT, photo BLOB, age INTEGER)")
        db.execute("INSERT INTO users VALUES ('a@x', 'Ann', x'00ff', NULL), ('big', 'x', zeroblob(2000000), 1), ('', '', x'', 0)")
    gate = f"source=sqlite:{path} keys=users(email) follow=none promise=read-only audit=0"
    s.lines = (f"gate users {gate} rows=yes breaker-failures=2 breaker-rest=1h timeout=500ms", f"gate mute {gate}",
               "user reads on >x +bg.lookup +bg.rebuild %R~users", "user writes on >x +bg.lookup +bg.rebuild ~users",
               "user none on >x +bg.lookup ~users", "user rows on >x +bg.row %R~users", "user other on >x +bg.lookup +bg.row %R~mute",
               "user default on nopass +@all ~*")
    with s:
        a = Asker(s)
        wait_for(lambda: a.told("GET", "/api/v1/gates/users", 200)["complete"]["state"] == "complete", what="a gate")
        found = [{"name": "email", "value": "a@x"}, {"name": "name", "value": "Ann"},
                 {"name": "photo", "value": "\0\ufffd", "value_base64": "AP8"}, {"name": "age", "value": None}]
        told = a.told("GET", "/api/v1/gates/users/row?key=a%40x", 200)
        told["row"][2]["value_base64"] = told["row"][2]["value_base64"].rstrip("=")
        same((told["outcome"], told["present"], told["row"]), ("present", True, found))
        same(s.ask("BG.ROW", "users", "a@x"), [b"email", b"a@x", b"name", b"Ann", b"photo", b"\0\xff", b"age", None])
        with s.connect() as c:
            c.ask("HELLO", 3)
            same(dict(c.ask("BG.ROW", "users", "")), {b"email": b"", b"name": b"", b"photo": b"", b"age": b"0"})
            same(c.ask("BG.ROW", "users", "nobody"), None)
            c.ask("MULTI")
            c.ask("BG.ROW", "users", "a@x")
            same(dict(c.ask("EXEC")[0])[b"name"], b"Ann")
        told = a.told("GET", "/api/v1/gates/users/row?key=nobody", 200)
        same((told["present"], told["row"]), (False, None))
        same(code(a.told("GET", "/api/v1/gates/users/row?key=big", 422)), "too_large")
        assert s.ask("BG.ROW", "users", "big").startswith("LIMIT the row is larger than 1 MiB"), s.ask("BG.ROW", "users", "big")
        same(code(a.told("GET", "/api/v1/gates/mute/row?key=a%40x", 422)), "not_supported")
        assert "rows=yes" in s.ask("BG.ROW", "mute", "a@x"), s.ask("BG.ROW", "mute", "a@x")
        a.ask("GET", "/api/v1/gates/users/row", 400)
        for query, why in (("key=%", "key: invalid percent-encoding"), ("", "key: found 0 keys"), ("key=a&key=b", "key: found 2 keys")):
            assert a.told("GET", f"/api/v1/gates/users/row?{query}", 400)["error"]["message"].startswith(why), query
        a.ask("GET", "/api/v1/gates/none/row?key=a", 404)
        Asker(s, "none:x").ask("GET", "/api/v1/gates/users/row?key=a%40x", 403)
        Asker(s, "rows:x").ask("GET", "/api/v1/gates/users/row?key=a%40x", 200)
        Asker(s, "rows:x").ask("GET", "/api/v1/gates/users", 403)
        Asker(s, "reads:x").ask("POST", "/api/v1/gates/users/rebuild", 403, {})
        Asker(s, "writes:x").ask("POST", "/api/v1/gates/users/rebuild", 202, {})
        Asker(s, "other:x").ask("GET", "/api/v1/gates/users/row?key=a%40x", 404)
        Asker(s, "rows:y").ask("GET", "/api/v1/gates/users/row?key=a%40x", 401)
        os.rename(path, path + ".away")
        os.rename(path + "-wal", path + ".away-wal")
        for _ in range(4):  # the breaker opens after the second failure
            same(s.ask("BG.ROW", "users", "a@x"), "FAILED the backing store of gate 'users' did not answer")
        same(code(a.told("GET", "/api/v1/gates/users/row?key=a%40x", 503)), "unavailable")
        same(a.told("GET", "/api/v1/gates/users", 200)["breaker"]["state"], "open")
        same(s.ask("BG.ROW", "users", "certainly absent"), None)


@alone
def test_gate_events_are_warnings_only_for_problems(program):
    s = free_service(program)
    path = os.path.join(s.folder, "catalogue.db")
    make_catalogue(path, 10)
    s.lines = (f"gate products source=sqlite:{path} keys=products(sku) follow=changes poll=20ms",)

    def events(level, what):
        return [e for e in a.told("GET", f"/api/v1/events?level={level}", 200)["events"] if e["message"].startswith(what)]

    with s:
        a = Asker(s)
        wait_for(lambda: a.told("GET", "/api/v1/gates/products", 200)["complete"]["state"] == "complete", what="a gate")
        same(events("info", "source_back"), [])
        same(events("warning", ""), [])
        os.rename(path, path + ".away")
        lost = wait_for(lambda: events("warning", "source_lost"), what="the loss of the database")
        with open(path, "w", encoding="ascii") as file:  # the reason changes
            file.write("not a database" * 100)
        wait_for(lambda: len({e["message"] for e in events("warning", "source_lost")}) > len(lost), what="the second reason")
        os.remove(path)
        os.rename(path + ".away", path)
        wait_for(lambda: events("info", "source_back"), what="the return of the database")
        same(events("warning", "source_back"), [])
        assert "level=info msg=source text=source_back filter=products" in s.read_log()


@alone
def test_fronts(program):
    """Tests a front end whose cluster is unreachable. The other front-end tests are in tests/cluster/test_front.py."""
    with free_service(program, "sharded seen nodes=127.0.0.1:1 shards=4") as s:
        a = Asker(s)
        told = wait_for(lambda: (lambda f: f if f["state"] == "down" else None)(a.told("GET", "/api/v1/fronts/seen", 200)), what="the watch")
        same((told["shards"]["down"], told["error"]), (4, "127.0.0.1:1: Connection refused"))
        same(a.told("GET", "/api/v1/fronts", 200)["fronts"][0]["name"], "seen")


def check_gate_figures(a, before):
    """Checks that the API and /metrics report the same values for a gate."""
    gate = a.told("GET", "/api/v1/gates/products", 200)
    m = metrics_of(a)
    at = '{filter="gate:products"}'
    same(gate["lookups"], before["lookups"] + 2002)
    same(sum(gate["outcomes"].values()), gate["lookups"])
    untrusted = m[f"bloomgate_gate_untrusted_lookups_total{at}"]
    told = sum(v for k, v in m.items() if k.startswith('bloomgate_gate_lookups_total{filter="gate:products"'))
    same(told + untrusted, gate["lookups"])
    same(m[f"bloomgate_gate_avoided_calls_total{at}"], gate["avoided"])
    same(m[f"bloomgate_gate_wasted_calls_total{at}"], gate["wasted"])
    same(m[f"bloomgate_gate_observed_fpr_ratio{at}"], gate["observed"]["value"])
    same(m[f"bloomgate_gate_trusted{at}"], 1)
    same(m[f"bloomgate_gate_source_up{at}"], 1)
    same(m[f"bloomgate_filter_size_bytes{at}"], gate["filter"]["bytes"])
    same(gate["false_negatives"], 0)
    assert gate["audits"] > 0 and gate["avoided"] > 900, gate


# ---- Loading ------------------------------------------------------------------------------------


@alone
def test_while_loading(program):
    """One of the service's files is a pipe without a writer, so the service keeps loading until the test opens the
    pipe."""
    s = free_service(program)
    try:
        s.start()
        load_foreign(s, "foreign")
        s.ask("SAVE")
        s.stop()
        files = os.listdir(os.path.join(s.folder, "data", "filters"))
        same(len(files), 1)
        pipe = os.path.join(s.folder, "data", "filters", files[0])
        os.remove(pipe)
        os.mkfifo(pipe)
        s.start(wait=False)
        check_loading(s, pipe)
        s.stop()
    finally:
        s.kill()
        s.remove()


def check_loading(s, pipe):
    def healthy():
        try:
            return Asker(s).status("GET", "/healthz") == 200
        except OSError:
            return False
    wait_for(healthy, what="the port")
    a = Asker(s)
    response, text = a.ask("GET", "/readyz", 503)
    same((text, response.getheader("Retry-After")), (b"loading\n", "1"))
    told = a.told("GET", "/readyz?verbose=1", 503)
    same((told["state"], [c["ok"] for c in told["checks"] if c["name"] == "data"]), ("loading", [False]))
    info = a.told("GET", "/api/v1/info", 200)
    same((info["state"], info["persistence"]["loading"]["filters"]), ("loading", 0))
    a.ask("GET", "/api/v1/events", 200)
    a.ask("GET", "/", 200)
    same(metrics_of(a)["bloomgate_service_up"], 0)
    for path, item in CONTRACT.document["paths"].items():
        for method in item.keys() & {"get", "post", "put", "patch", "delete"}:
            if "503" in item[method]["responses"] and path != "/readyz":
                body = None if method in ("get", "delete") else {}
                response, told = a.ask(method.upper(), path.replace("{name}", "foreign"), 503, body)
                same((code(told), response.getheader("Retry-After")), ("loading", "1"))
    with open(pipe, "wb"):
        pass  # the service reads an empty file, so the filter's content is lost
    s.wait_until_ready()
    a.ask("GET", "/readyz", 200)
    told = a.told("GET", f"{F}/foreign", 200)
    same((told["available"], told["health"]["status"]), (False, "act"))
    same(a.told("POST", f"{F}/foreign/check", 200, {"keys": ["anything"]})["results"], [True])


# ---- Concurrency --------------------------------------------------------------------------------


def test_many_at_once(s):
    """Threads concurrently create, fill, query, list, download, rename and drop filters. All of these requests must
    succeed."""
    problems = []

    def work(number):
        a = Asker(s)
        try:
            for i in range(service.work(12)):
                name = f"at-once-{number}-{i}"
                a.make(name, kind=("blocked", "cuckoo", "scalable", "window")[i % 4])
                a.ask("POST", f"{F}/{name}/add", 200, {"keys": [str(k) for k in range(300)]})
                same(a.told("POST", f"{F}/{name}/check", 200, {"keys": [str(k) for k in range(300)]})["maybe"], 300)
                a.ask("GET", f"{F}?count=50&sort=items", 200)
                a.ask("GET", "/metrics", 200)
                a.ask("GET", "/api/v1/info", 200)
                a.ask("GET", "/api/v1/tenants", 200)
                file = a.told("GET", f"{F}/{name}/file", 200)
                a.ask("PUT", f"{F}/shared/file", 201 if a.status("GET", f"{F}/shared") == 404 and number < 0 else 200, file, **KIND)
                a.ask("PATCH", f"{F}/{name}", 200, {"name": f"{name}-renamed"})
                a.ask("DELETE", f"{F}/{name}-renamed", 204)
        except Exception as error:  # pylint: disable=broad-except
            problems.append(repr(error))

    Asker(s).make("shared")
    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    same(problems, [])
    same(Asker(s).told("GET", F, 200)["total"], 1)


def test_zz_every_status_of_the_document(_):
    """Checks that the tests above have received every status in the OpenAPI document."""
    if len(sys.argv) > 2:
        raise service.Skip("only some tests were run")
    missing = []
    for path, item in CONTRACT.document["paths"].items():
        for method in item.keys() & {"get", "post", "put", "patch", "delete"}:
            for status in item[method]["responses"]:
                if status != "default" and (item[method]["operationId"], status) not in SEEN:
                    missing.append(f"{method.upper()} {path}: {status}")
    same(missing, [])


if __name__ == "__main__":
    service.main(__doc__, http=True)
