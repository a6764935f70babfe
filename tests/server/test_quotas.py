#!/usr/bin/env python3
"""Checks the quotas of users: creating, copying, loading, uploading and growing filters, with concurrent clients,
transactions and pipelines, after restarts and configuration reloads.

usage: test_quotas.py BLOOMGATED [PARTS-OF-NAMES...]"""

import base64
import http.client
import json
import os
import re
import signal
import threading
import time

import service
from service import Error, Service, alone, encode
from machine import wait_for

MI = 1 << 20
ADMIN = "user default on nopass +@all ~*"


def start(program, *rules, http_too=False):
    return Service(program, ADMIN, f"user shop on >shop +@all ~shop:* {' '.join(rules)}", http=http_too).start()


def login(s):
    c = s.connect()
    assert c.ask("AUTH", "shop", "shop") == "OK"
    return c


def usage(s):
    """Returns the usage of the user shop, according to INFO."""
    text = s.ask("INFO", "quotas").decode()
    return {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", text)}


def total(s):
    return sum(s.ask("MEMORY", "USAGE", name) for name in s.ask("KEYS", "shop:*"))


def memory(s):
    """Returns the memory that filters use according to INFO, including their overhead."""
    text = s.ask("INFO", "memory").decode()
    return sum(int(re.search(rf"used_memory_{part}:(\d+)", text)[1]) for part in ("filters", "objects", "transfers"))


def refused(reply, code="OOM", quota="quota-memory"):
    assert isinstance(reply, Error) and reply.startswith(code) and quota in reply and "user shop" in reply, reply


@alone
def test_number_of_filters(program):
    """Every way to create a filter is refused over the quota, and dropping a filter makes room."""
    with start(program, "quota-filters=3") as s, login(s) as c:
        assert c.ask("BF.ADD", "shop:a", "x") == 1
        assert c.ask("CF.ADD", "shop:b", "x") == 1
        assert c.ask("BG.CREATE", "shop:c", "KIND", "classic", "CAPACITY", 1000) == "OK"
        for words in (("BF.ADD", "shop:d", "x"), ("BF.RESERVE", "shop:d", "0.01", 10), ("CF.ADD", "shop:d", "x"),
                      ("BF.INSERT", "shop:d", "ITEMS", "x"), ("COPY", "shop:a", "shop:d"),
                      ("BG.CREATE", "shop:d", "KIND", "blocked", "CAPACITY", 1000), ("BG.MERGE", "shop:d", "shop:c")):
            reply = c.ask(*words)
            refused(reply[0] if isinstance(reply, list) else reply, "LIMIT", "3 of 3 filters; drop filters, or raise")
        assert c.ask("RENAME", "shop:a", "shop:z") == "OK"  # changes nothing
        refused(c.ask("BF.ADD", "shop:a", "x"), "LIMIT", "quota-filters")
        assert c.ask("COPY", "shop:z", "shop:b", "REPLACE") == 1  # replaces a filter
        assert c.ask("RENAME", "shop:z", "shop:b") == "OK"        # drops a filter
        assert c.ask("BF.ADD", "shop:a", "x") == 1
        refused(c.ask("BF.ADD", "shop:e", "x"), "LIMIT", "quota-filters")
        assert c.ask("PEXPIRE", "shop:a", 1) == 1
        wait_for(lambda: usage(s)["filters"] == 2)
        assert c.ask("BF.ADD", "shop:e", "x") == 1
        # the administrator is not limited, but its filters count
        assert s.ask("DEL", "shop:e") == 1 and s.ask("BF.ADD", "shop:e", "x") == 1 and s.ask("BF.ADD", "shop:f", "x") == 1
        assert s.ask("BF.ADD", "other", "x") == 1
        assert usage(s)["filters"] == 4
        refused(c.ask("BF.ADD", "shop:g", "x"), "LIMIT", "quota-filters")
        assert c.ask("BF.ADD", "shop:f", "y") == 1  # existing filters still work


@alone
def test_memory(program):
    """Filters that would exceed the quota are refused before their memory is allocated."""
    with start(program, "quota-memory=8Mi") as s, login(s) as c:
        before = s.memory()
        refused(c.ask("BG.CREATE", "shop:a", "KIND", "blocked", "CAPACITY", 1000000000))
        refused(c.ask("BF.RESERVE", "shop:a", "0.001", 500000000))
        refused(c.ask("CF.RESERVE", "shop:a", 200000000))
        refused(c.ask("BG.CREATE", "shop:a", "WINDOW", 60000, "CAPACITY", 100000000))
        assert s.memory() - before < 64 * MI
        assert c.ask("EXISTS", "shop:a") == 0
        assert c.ask("BG.CREATE", "shop:a", "KIND", "blocked", "CAPACITY", 4000000) == "OK"
        assert usage(s)["bytes"] > 3 * MI
        refused(c.ask("COPY", "shop:a", "shop:b"))
        refused(c.ask("BG.REBUILD", "shop:a", "BEGIN", 30000000))
        assert usage(s)["bytes"] <= 8 * MI and usage(s)["refused"] > 5
        # many small filters
        assert c.ask("DEL", "shop:a") == 1
        made = 0
        while not isinstance(c.ask("BG.CREATE", f"shop:{made}", "KIND", "blocked", "CAPACITY", 100000), Error):
            made += 1
            assert made < 1000
        assert total(s) <= 8 * MI + made * 4096 and made > 40, (made, total(s))
        assert usage(s)["bytes"] <= 8 * MI


@alone
def test_small_filters(program):
    """The usage includes everything that a filter occupies, including its overhead, and MEMORY USAGE reports the same
    number."""
    with start(program, "quota-memory=64Mi") as s, login(s) as c:
        chunk = s.ask("BG.DUMP", "source", 0, "SIZE", 1)[1] if s.ask("BF.ADD", "source", "x") else None
        for words in (("BG.CREATE", None, "CAPACITY", 1), ("BG.CREATE", None, "KIND", "classic", "CAPACITY", 1), ("BF.ADD", None, "x"),
                      ("CF.RESERVE", None, 8), ("BG.CREATE", None, "WINDOW", 60000, "CAPACITY", 1), ("BG.LOAD", None, chunk),
                      ("BG.CREATE", None, "KIND", "blocked", "SHARDS", 64, "CAPACITY", 1)):
            before = memory(s)
            names = [f"shop:{i}" for i in range(200)]
            replies = c.pipeline([[name if word is None else word for word in words] for name in names])
            assert not any(isinstance(reply, Error) for reply in replies), (words, replies)
            found, grown = usage(s)["bytes"], memory(s) - before
            assert found == total(s), words
            assert grown - 200 * 64 <= found < 2 * grown, (words, grown / 200, found / 200)
            assert c.ask("DEL", *names) == 200
            assert usage(s)["bytes"] == 0
            wait_for(lambda: memory(s) < before + 200 * 64)


@alone
def test_names(program):
    """Names count: filters with long names are refused over the quota, and names cannot become longer."""
    with start(program, "quota-memory=1Mi") as s:
        assert s.ask("BG.CREATE", "shop:a", "CAPACITY", 1) == "OK"
        one = usage(s)["bytes"]
        assert one == total(s)
        long = "shop:" + "x" * 4000
        s.lines = (ADMIN, f"user shop on >shop +@all ~shop:* quota-memory={2 * one + 4100}")
        s.restart()
        c = login(s)
        assert c.ask("RENAME", "shop:a", long) == "OK"
        assert usage(s)["bytes"] == total(s) == one + len(long) - len("shop:a")
        refused(c.ask("BG.CREATE", long + "2", "CAPACITY", 1))
        assert c.ask("BG.CREATE", "shop:b", "CAPACITY", 1) == "OK"
        refused(c.ask("RENAME", "shop:b", long + "2"))
        refused(c.ask("RENAMENX", "shop:b", long + "2"))
        assert c.ask("RENAME", "shop:b", "shop:c") == "OK"
        assert s.ask("RENAME", "shop:c", long + "2") == "OK"  # the administrator is not limited
        assert usage(s)["bytes"] == total(s) > 2 * one + 4100
        assert c.ask("RENAME", long, "shop:a") == c.ask("RENAME", long + "2", "shop:b") == "OK"  # names can become shorter
        assert usage(s)["bytes"] == total(s) == 2 * one
        c.close()


@alone
def test_growth(program):
    """A filter that grows stops at the quota, and keeps every acknowledged key."""
    with start(program, "quota-memory=1Mi") as s, login(s) as c:
        for name, command in (("shop:bf", "BF.ADD"), ("shop:cf", "CF.ADD")):
            assert c.ask("BF.RESERVE" if command == "BF.ADD" else "CF.RESERVE", name,
                         *(("0.01", 1000) if command == "BF.ADD" else (1024,))) == "OK"
            kept, stopped = [], False
            for start_at in range(0, 4000000, 5000):
                keys = [f"{name}:{i}" for i in range(start_at, start_at + 5000)]
                replies = c.pipeline([(command, name, key) for key in keys])
                kept += [key for key, reply in zip(keys, replies) if not isinstance(reply, Error)]
                errors = [reply for reply in replies if isinstance(reply, Error)]
                if errors:
                    refused(errors[0])
                    stopped = True
                    break
            assert stopped, name
            assert usage(s)["bytes"] <= MI, usage(s)
            assert total(s) <= MI + 10000, total(s)
            for i in range(0, len(kept), 20000):
                assert 0 not in c.ask("BG.MEXISTS", name, *kept[i:i + 20000]), name
            assert s.ask("DEL", name) == 1


@alone
def test_loads_and_uploads(program):
    """Dumps, chunks and HTTP uploads count toward the quota; a refused one leaves nothing behind."""
    with start(program, "quota-memory=3Mi", http_too=True) as s, login(s) as c:
        assert s.ask("BG.CREATE", "big", "KIND", "blocked", "CAPACITY", 4000000, "HASH", "fast") == "OK"
        cursor, chunks = 0, []
        while True:
            cursor, chunk = s.ask("BG.DUMP", "big", cursor, "SIZE", MI // 2)
            chunks.append(chunk)
            if cursor == 0:
                break
        replies = [c.ask("BG.LOAD", "shop:load", chunk) for chunk in chunks]
        refused(next(reply for reply in replies if isinstance(reply, Error)))
        assert usage(s)["bytes"] <= 3 * MI
        assert c.ask("DEL", "shop:load") == 1
        basic = {"Authorization": "Basic " + base64.b64encode(b"shop:shop").decode(), "X-Bloomgate": "1"}
        web = http.client.HTTPConnection("127.0.0.1", s.http_port)

        def ask(method, path, body=None, **headers):
            web.request(method, path, body, {**basic, **headers})
            answer = web.getresponse()
            return answer.status, answer.read()

        admin = http.client.HTTPConnection("127.0.0.1", s.http_port)
        admin.request("GET", "/api/v1/filters/big/file")
        file = admin.getresponse().read()
        status, text = ask("PUT", "/api/v1/filters/shop%3Aup/file", file)
        assert status == 507 and b"quota-memory" in text, (status, text)
        status, text = ask("POST", "/api/v1/filters", json.dumps({"name": "shop:new", "kind": "blocked", "capacity": 5000000}),
                           **{"Content-Type": "application/json"})
        assert status == 507 and b"quota-memory" in text, (status, text)
        assert s.ask("KEYS", "shop:*") == []
        wait_for(lambda: usage(s)["bytes"] == 0)
        status, text = ask("GET", "/api/v1/tenants")
        tenant = next(t for t in json.loads(text)["tenants"] if t["name"] == "shop")
        assert tenant["limits"]["bytes"] == 3 * MI and tenant["limits"]["filters"] is None, tenant
        assert tenant["charged"] == {"bytes": 0, "filters": 0} and tenant["refused"]["quota"] >= 3, tenant
        status, text = ask("GET", "/metrics")
        assert f'bloomgate_service_quota_bytes{{user="shop",value="limit"}} {3 * MI}' in text.decode(), text
        assert "quota-memory=3Mi" in str(s.ask("ACL", "LIST"))


@alone
def test_metrics_of_users_with_unusual_names(program):
    """Names are escaped in the labels of all metrics, so that two users never have the same label."""
    names = {'a"b': r'a\"b', "a\\b": r"a\\b", "a_b": "a_b", "x" * 255: "x" * 255, '"' * 255: r'\"' * 255}
    quoted = [name.replace("\\", "\\\\").replace('"', r"\"") for name in names]
    with Service(program, ADMIN, *(f'user "{name}" on nopass +@all ~* quota-filters=7' for name in quoted), http=True).start() as s:
        web = http.client.HTTPConnection("127.0.0.1", s.http_port)
        web.request("GET", "/metrics")
        lines = web.getresponse().read().decode().split("\n")
        for label in names.values():
            for line in (f'bloomgate_service_quota_filters{{user="{label}",value="limit"}} 7',
                         f'bloomgate_service_quota_filters{{user="{label}",value="used"}} 0',
                         f'bloomgate_service_user_queries_total{{user="{label}"}} 0'):
                assert lines.count(line) == 1, (line, lines)


@alone
def test_dumps_of_other_users(program):
    """A dump does not count for users that may write to the filter. When it ends, its user's reservation is
    released."""
    audit = "user audit on >audit +@read %R~shop:* quota-memory=4Mi"
    with Service(program, ADMIN, "user shop on >shop +@all ~shop:* quota-memory=8Mi", audit).start() as s, login(s) as c, s.connect() as r:
        assert r.ask("AUTH", "audit", "audit") == "OK"
        for name in "shop:a", "shop:b":
            assert c.ask("BG.CREATE", name, "KIND", "blocked", "BYTES", 3 * MI, "CAPACITY", 1000000) == "OK"
        before, keys = usage(s), s.ask("MEMORY", "USAGE", "shop:a")
        transfers = memory(s)

        def reader():
            text = s.ask("INFO", "quotas").decode()
            return int(re.search(r"quota_audit:.*,bytes=(\d+)", text)[1])

        assert not isinstance(s.ask("BG.DUMP", "shop:a", 0, "SIZE", 1), Error)
        assert reader() == 0
        assert not isinstance(r.ask("BG.DUMP", "shop:a", 0, "SIZE", 1), Error)  # replaces the first copy
        assert 3 * MI <= reader() < 4 * MI and memory(s) >= transfers + 3 * MI
        reply = r.ask("BG.DUMP", "shop:b", 0, "SIZE", 1)
        assert isinstance(reply, Error) and reply.startswith("OOM") and "user audit uses" in reply, reply
        assert s.ask("MEMORY", "USAGE", "shop:a") == keys and usage(s) == before
        assert c.ask("BF.RESERVE", "shop:c", "0.01", 500000) == "OK"
        assert s.ask("DEL", "shop:a") == 1
        wait_for(lambda: reader() == 0)
        assert not isinstance(r.ask("BG.DUMP", "shop:b", 0, "SIZE", 1), Error)
        assert not isinstance(s.ask("BG.DUMP", "shop:b", 0, "SIZE", 1), Error)  # the new copy is not the reader's
        assert reader() == 0


@alone
def test_own_dumps(program):
    """A dump counts for the user that dumps until its last chunk has been read, and is refused over the quota."""
    with start(program, "quota-memory=8Mi") as s, login(s) as c:
        for name in "shop:a", "shop:b":
            assert c.ask("BG.CREATE", name, "KIND", "blocked", "BYTES", 2 * MI, "CAPACITY", 1000000) == "OK"
        assert c.ask("CF.RESERVE", "shop:cf", 1000) == "OK" and c.ask("CF.ADD", "shop:cf", "x") == 1
        assert c.ask("BF.RESERVE", "shop:bf", "0.01", 1000) == "OK"
        before = usage(s)["bytes"]
        cursor = c.ask("BG.DUMP", "shop:a", 0, "SIZE", 65536)[0]
        assert 2 * MI <= usage(s)["bytes"] - before < 3 * MI
        refused(c.ask("BG.DUMP", "shop:b", 0, "SIZE", 65536))
        refused(c.ask("BG.CREATE", "shop:c", "KIND", "blocked", "BYTES", 2 * MI, "CAPACITY", 1000000))
        assert usage(s)["bytes"] <= 8 * MI
        while cursor:
            cursor = c.ask("BG.DUMP", "shop:a", cursor, "SIZE", 65536)[0]
        assert usage(s)["bytes"] == before
        for command in "BF.SCANDUMP", "CF.SCANDUMP":
            name = "shop:" + command[:2].lower()
            iterator = c.ask(command, name, 0)[0]
            assert usage(s)["bytes"] > before
            while iterator:
                iterator = c.ask(command, name, iterator)[0]
            assert usage(s)["bytes"] == before
        # in one chunk, and in a transaction
        assert c.ask("BG.DUMP", "shop:bf", 0)[0] == 0
        assert c.ask("MULTI") == "OK" and c.ask("BG.DUMP", "shop:bf", 0, "SIZE", 1) == "QUEUED"
        assert len(c.ask("EXEC")) == 1 and usage(s)["bytes"] > before
        # the reservation ends with the copy even if the user has been replaced
        s.lines = (ADMIN, "user shop on >shop +@all ~shop:* quota-memory=9Mi")
        s.configure()
        s.process.send_signal(signal.SIGHUP)
        wait_for(lambda: usage(s)["max_bytes"] == 9 * MI)
        assert s.ask("DEL", "shop:bf", "shop:a", "shop:b", "shop:cf") == 4
        wait_for(lambda: usage(s)["bytes"] == 0)


@alone
def test_http_writes(program):
    """An HTTP request that changes a filter measures this filter before the response, and no other filter."""
    with start(program, "quota-memory=64Mi", http_too=True) as s:
        web = http.client.HTTPConnection("127.0.0.1", s.http_port)

        def ask(method, path, body=None, **headers):
            basic = "Basic " + base64.b64encode(b"shop:shop").decode()
            web.request(method, path, body, {"Authorization": basic, "X-Bloomgate": "1", **headers})
            answer = web.getresponse()
            return answer.status, answer.read()

        assert s.ask("BF.RESERVE", "shop:bf", "0.01", 100) == "OK"
        before = usage(s)["bytes"]
        keys = json.dumps({"keys": [str(i) for i in range(20000)]})
        assert ask("POST", "/api/v1/filters/shop%3Abf/add", keys, **{"Content-Type": "application/json"})[0] == 200
        assert usage(s)["bytes"] == total(s) > before + 20000

        assert s.ask("BG.CREATE", "shop:old", "KIND", "blocked", "CAPACITY", 1000) == "OK"
        file = ask("GET", "/api/v1/filters/shop%3Aold/file")[1]

        def dataset_is_stale():
            """Drops a filter, whose size remains in used_memory_dataset until all filters are measured, once a second."""
            assert s.ask("BG.CREATE", "other", "KIND", "blocked", "BYTES", 4 * MI, "CAPACITY", 1000000) == "OK"
            assert s.ask("DEL", "other") == 1
            assert ask("PUT", "/api/v1/filters/shop%3Anew/file", file)[0] == 201
            assert usage(s)["bytes"] == total(s)
            stale = int(re.search(r"used_memory_dataset:(\d+)", s.ask("INFO", "memory").decode())[1]) > 4 * MI
            assert s.ask("DEL", "shop:new") == 1
            return stale

        wait_for(dataset_is_stale)


@alone
def test_concurrent_clients(program):
    """Threads that create, copy, rename and grow filters never exceed the quotas together."""
    with start(program, "quota-memory=16Mi", "quota-filters=40") as s:
        stop = threading.Event()
        most = {"bytes": 0, "filters": 0}
        errors, created = [], [0] * 8

        def work(number):
            with login(s) as c:
                turn = 0
                while not stop.is_set():
                    turn += 1
                    name = f"shop:{number}:{turn % 12}"
                    reply = (c.ask("BG.CREATE", name, "KIND", "blocked", "CAPACITY", 100000 * (1 + turn % 9)),
                             c.ask("COPY", name, f"shop:{number}:copy{turn % 3}", "REPLACE"),
                             c.ask("RENAMENX", name, f"shop:{number}:moved{turn % 5}"))
                    created[number] += reply[0] == "OK"
                    for r in c.pipeline([("BF.ADD", f"shop:{number}:grow", f"{turn}:{i}") for i in range(300)]):
                        if isinstance(r, Error) and "quota" not in r:
                            errors.append(r)
                    if turn % 7 == 0:
                        c.ask("DEL", *(f"shop:{number}:{i}" for i in (*range(12), *(f"moved{j}" for j in range(5)), "copy1")))
                    if turn % 11 == 0:
                        c.send(encode("MULTI") + encode("BG.CREATE", f"{name}:m", "KIND", "blocked", "CAPACITY", 4000000)
                               + encode("BF.ADD", f"{name}:n", "x") + encode("EXEC"))
                        for _ in range(4):
                            c.reply()

        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        start_time = time.monotonic()

        def enough():
            """Runs for a few seconds, and on a busy machine until the clients have come close to the quotas."""
            found = usage(s)
            for what in most:
                most[what] = max(most[what], found[what])
            return time.monotonic() - start_time > 6 and sum(created) > 20 and most["bytes"] > 8 * MI and most["filters"] > 20

        wait_for(enough)
        stop.set()
        for thread in threads:
            thread.join()
        assert not errors, errors[:3]
        assert most["bytes"] <= 16 * MI and most["filters"] <= 40, most
        names = s.ask("KEYS", "shop:*")
        assert len(names) == usage(s)["filters"] <= 40
        time.sleep(1.2)  # all filters have been measured
        assert usage(s)["bytes"] <= 16 * MI
        assert s.ask("DEL", *names) == len(names)
        found = usage(s)
        assert found["bytes"] == 0 and found["filters"] == 0, found


@alone
def test_restart_and_reload(program):
    """Recovery refuses nothing, usage survives, and a reload changes the quotas of existing filters."""
    with start(program, "quota-memory=8Mi", "quota-filters=10") as s:
        with login(s) as c:
            for i in range(5):
                assert c.ask("BG.CREATE", f"shop:{i}", "KIND", "blocked", "CAPACITY", 1000000) in ("OK",) or i > 3
        before = usage(s)
        s.restart()
        after = usage(s)
        assert (before["bytes"], before["filters"]) == (after["bytes"], after["filters"]), (before, after)
        s.lines = (ADMIN, "user shop on >shop +@all ~shop:* quota-memory=1Mi quota-filters=1")
        s.restart()  # far below the usage
        count = len(s.ask("KEYS", "shop:*"))
        assert count >= 3 and usage(s)["filters"] == count > usage(s)["max_filters"]
        with login(s) as c:
            assert c.ask("BG.ADD", "shop:0", "x") == 1
            assert "quota" in c.ask("BF.ADD", "shop:new", "x")
        s.lines = (ADMIN, "user shop on >shop +@all ~shop:* quota-filters=100")
        s.configure()
        s.process.send_signal(signal.SIGHUP)
        wait_for(lambda: usage(s)["max_filters"] == 100)
        assert usage(s)["filters"] == count and usage(s)["max_bytes"] == 0
        with login(s) as c:
            assert c.ask("BF.ADD", "shop:new", "x") == 1
            assert usage(s)["filters"] == count + 1
        for bad in "quota-memory=much", "quota-filters=-1", "quota-memory=":
            s.lines = (ADMIN, f"user shop on >shop +@all ~shop:* {bad}")
            path = s.configure()
            done = os.popen(f"{s.program} {path} --check-config 2>&1").read()
            assert "expected a number such as 100, or a size such as 512Mi" in done, done


service.main(__doc__)
