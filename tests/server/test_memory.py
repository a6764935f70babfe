#!/usr/bin/env python3
"""Tests maxmemory: all memory that a client can make the service allocate is counted, and is reserved before it is
allocated.

usage: test_memory.py BLOOMGATED [PART OF A NAME...]"""

import contextlib
import http.client
import json
import os
import re
import select
import signal
import socket
import sqlite3
import threading
import urllib.request

import service
from service import Error, Service, alone, encode, wait_for

MI = 1 << 20
HEAD = 64 << 10  # an upper bound on the memory that a filter uses in addition to its bits


def memory(s):
    """Returns the numeric fields of INFO memory."""
    lines = s.ask("INFO", "memory").decode().splitlines()
    return {name: int(value) for name, value in (line.split(":") for line in lines if ":" in line) if value.isdigit()}


def check(s, limit):
    """Checks that the memory categories add up and stay within the limit. Returns the categories."""
    told = memory(s)
    parts = {part: told[f"used_memory_{part}"] for part in ("filters", "objects", "buffers", "transfers")}
    assert abs(sum(parts.values()) - told["used_memory"]) < 256 << 10, told  # the reply itself also uses memory
    assert told["used_memory"] <= limit + 4 * MI, told
    return parts


def is_oom(answer):
    return isinstance(answer, Error) and answer.startswith("OOM ")


@alone
def test_the_peak(program):
    """The peak counts memory that was allocated but never touched, and stays after the memory is freed."""
    with Service(program) as s:
        assert s.ask("BG.CREATE", "large", "KIND", "blocked", "BYTES", 256 * MI, "CAPACITY", 10) == "OK"
        told = memory(s)
        assert told["used_memory_peak"] >= told["used_memory"] > 256 * MI, told
        assert s.ask("DEL", "large") == 1
        wait_for(lambda: memory(s)["used_memory"] < 256 * MI, what="the filter to be freed")
        assert memory(s)["used_memory_peak"] >= told["used_memory"]


@alone
def test_one_large_filter(program):
    with Service(program, "maxmemory 64Mi", "max-filter-memory 64Gi") as s:
        assert s.ask("BG.CREATE", "r", "CAPACITY", 1000, "ERROR", 0.01) == "OK"
        for words in (("BG.REBUILD", "r", "BEGIN", 8000000000), ("BF.RESERVE", "b", 0.01, 1000000000), ("CF.RESERVE", "c", 1000000000),
                      ("BG.CREATE", "g", "KIND", "blocked", "BYTES", 80 * MI, "CAPACITY", 10), ("BF.INSERT", "i", "CAPACITY", 1000000000, "ITEMS", "x"),
                      ("BG.CREATE", "w", "KIND", "window", "WINDOW", 1000, "CAPACITY", 1000000000)):
            answer = s.ask(*words)
            assert is_oom(answer), (words, answer)
            assert "maxmemory: 67108864" in answer, answer
        check(s, 64 * MI)
        assert s.ask("BG.REBUILD", "r", "STATUS")[1] == 0
        assert s.ask("DBSIZE") == 1


@alone
def test_copies(program):
    with Service(program, "maxmemory 64Mi") as s:
        assert s.ask("BG.CREATE", "f", "KIND", "blocked", "BYTES", 40 * MI - HEAD, "CAPACITY", 10000000) == "OK"
        assert s.ask("BG.ADD", "f", "x") == 1
        for words in (("COPY", "f", "g"), ("BG.MERGE", "g", "f"), ("BG.DUMP", "f", 0), ("BG.REBUILD", "f", "BEGIN", 30000000),
                      ("BG.CREATE", "g", "KIND", "blocked", "BYTES", 40 * MI, "CAPACITY", 10)):
            assert is_oom(s.ask(*words)), words
        assert is_oom(s.ask("BG.VERIFY", "f"))
        parts = check(s, 64 * MI)
        assert parts["transfers"] == 0 and 40 * MI <= parts["filters"] < 41 * MI, parts
        assert s.ask("BG.EXISTS", "f", "x") == 1
        assert s.ask("SAVE") == "OK"  # snapshots are not refused


@alone
def test_many_verifications(program):
    with Service(program, "maxmemory 64Mi", "jobs 8") as s:
        assert s.ask("BG.CREATE", "f", "KIND", "blocked", "BYTES", 12 * MI - HEAD, "CAPACITY", 10000000) == "OK"
        answers = []
        threads = [threading.Thread(target=lambda: answers.append(s.connect().ask("BG.VERIFY", "f"))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert all(is_oom(a) or not isinstance(a, Error) for a in answers), answers
        parts = check(s, 64 * MI)
        assert parts["transfers"] == 0 and parts["filters"] < 13 * MI, parts
        assert not isinstance(s.ask("BG.VERIFY", "f"), Error)


@alone
def test_dumps_and_loads(program):
    with Service(program, "maxmemory 64Mi") as s:
        assert s.ask("BG.CREATE", "f", "KIND", "blocked", "BYTES", 20 * MI - HEAD, "CAPACITY", 10000000) == "OK"
        cursor, chunks = 0, []
        while True:
            cursor, chunk = s.ask("BG.DUMP", "f", cursor, "SIZE", 2 * MI)
            if len(chunks) == 0:
                assert 19 * MI <= check(s, 64 * MI)["transfers"] < 20 * MI
            chunks.append(chunk)
            if cursor == 0:
                break
        assert check(s, 64 * MI)["transfers"] == 0
        for chunk in chunks[:5]:
            assert not isinstance(s.ask("BG.LOAD", "g", chunk), Error)
        assert 10 * MI <= check(s, 64 * MI)["transfers"] < 11 * MI
        for chunk in chunks[5:]:
            assert not isinstance(s.ask("BG.LOAD", "g", chunk), Error)
        assert check(s, 64 * MI)["transfers"] == 0
        answers = [s.ask("BG.LOAD", "h", chunk) for chunk in chunks]
        assert is_oom(next(a for a in answers if isinstance(a, Error))), answers  # three filters do not fit in memory
        s.ask("DEL", "h", "g")
        wait_for(lambda: check(s, 64 * MI)["transfers"] == 0 and memory(s)["used_memory_filters"] < 21 * MI, what="memory to be freed")


@alone
def test_many_started_loads(program):
    """A load counts the memory that it occupies, even after one byte, so thousands of loads stay within the limit."""
    for capacity in (1, 400000, 4000000):  # dumps of less than a page, of less than 1 MiB, and larger
        with Service(program, "maxmemory 48Mi", "max-filters 1M", "appendonly no") as s:
            assert s.ask("BG.CREATE", "f", "CAPACITY", capacity) == "OK"
            chunk = s.ask("BG.DUMP", "f", 0, "SIZE", 1)[1]
            assert s.ask("DEL", "f") == 1
            start, used, made = s.memory(), memory(s)["used_memory"], 0
            while True:
                answers = s.connect().pipeline([("BG.LOAD", f"load{made + i}", chunk) for i in range(200)])
                made += 200
                if any(isinstance(a, Error) for a in answers):
                    break
            assert is_oom(next(a for a in answers if isinstance(a, Error))), answers
            grown, counted = s.memory() - start, memory(s)["used_memory"] - used
            assert s.keeps_freed_memory() or grown < counted + 8 * MI, (capacity, made, grown, counted)
            check(s, 48 * MI)


@alone
def test_many_small_filters(program):
    for limit in (16 * MI, 20 * MI, 24000000, 33000000):
        many_small_filters(program, limit)


def many_small_filters(program, limit):
    with Service(program, f"maxmemory {limit}", "max-filters 1M", "appendfsync no") as s:
        made = 0
        while True:
            answers = s.connect().pipeline([("BF.ADD", f"f{made + i}", "x") for i in range(200)])
            done = answers.count(1)
            made += done
            if done < 200:
                break
            assert made * 2048 < limit, made
        assert is_oom(answers[-1]), answers[-1]
        second = int(s.ask("TIME")[0])  # the service updates its statistics of the filters once a second
        wait_for(lambda: int(s.ask("TIME")[0]) > second + 2, what="statistics")
        parts = check(s, limit)
        assert parts["objects"] > 500 * made and parts["filters"] > 1024 * made, (made, parts)
        # adds that need no memory are accepted
        assert (s.ask("BF.EXISTS", "f0", "x"), s.ask("BF.ADD", "f0", "y")) == (1, 1)
        assert is_oom(s.ask("BF.ADD", "one more", "y"))
        assert s.ask("DEL", *[f"f{i}" for i in range(made // 2)]) == made // 2
        wait_for(lambda: s.ask("BF.ADD", "again", "x") == 1, what="memory to be freed")


@alone
def test_dropped_filters_leave_nothing(program):
    """After filters are dropped, the counted memory, including the memory for their charts, is the same as before they
    were created."""
    with Service(program, "appendonly no") as s:
        def objects():
            return memory(s)["used_memory_objects"]
        assert s.ask("BF.ADD", "f", "x") == 1
        before = objects()
        s.connect().pipeline([("BF.ADD", f"f{i}", "x") for i in range(300)])
        assert objects() > before + (400 << 10)
        assert s.ask("DEL", *[f"f{i}" for i in range(300)]) == 300
        wait_for(lambda: objects() == before, what="memory to be freed")


@alone
def test_growth(program):
    """A filter that cannot grow refuses items; items that were acknowledged earlier remain."""
    with Service(program, "maxmemory 8Mi", "appendfsync no") as s:
        for name, make, add, exists in (("b", ("BF.RESERVE", "b", 0.001, 1000, "EXPANSION", 4), "BF.MADD", "BF.MEXISTS"),
                                        ("c", ("CF.RESERVE", "c", 1000), "CF.INSERT", "CF.MEXISTS")):
            assert s.ask(*make) == "OK"
            done, full = [], False
            while not full:
                assert len(done) < 5000000
                keys = [f"key {len(done) + i}" for i in range(10000)]
                answers = s.ask(add, name, *(("ITEMS",) if add == "CF.INSERT" else ()), *keys)
                full = isinstance(answers, Error) or any(isinstance(a, Error) or a == -1 for a in answers)
                done += [k for k, a in zip(keys, answers) if a in (0, 1)] if isinstance(answers, list) else []
            check(s, 8 * MI)
            assert len(done) > 200000, (name, len(done))
            assert is_oom(answers if isinstance(answers, Error) else answers[-1]), str(answers)[-200:]
            for at in range(0, len(done), 5000):
                assert set(s.ask(exists, name, *done[at:at + 5000])) == {1}, name
            s.ask("DEL", name)
            wait_for(lambda: memory(s)["used_memory_filters"] < MI, what="memory to be freed")


@alone
def test_unfinished_requests(program):
    with Service(program, "maxmemory 64Mi", "jobs 2") as s:
        assert s.ask("BF.ADD", "k", "x") == 1
        half = encode("BF.EXISTS", "k", b"y" * (4 * MI))[:-100]
        clients = [s.connect() for _ in range(40)]
        threads = [threading.Thread(target=send, args=(c, half)) for c in clients]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        wait_for(lambda: "maxmemory" in s.read_log(), what="a refusal")
        check(s, 64 * MI)
        assert s.ask("BF.EXISTS", "k", "x") == 1
        for client in clients:
            client.close()
        wait_for(lambda: memory(s)["used_memory_buffers"] < MI, what="buffers to be freed")
        assert s.ask("BF.EXISTS", "k", b"y" * MI) == 0


@alone
def test_unfinished_requests_of_many_words(program):
    """The service counts the record that it keeps for each word of a request, which can be larger than the word
    itself."""
    with Service(program, "maxmemory 64Mi") as s:
        words = 600000
        with s.connect() as client:
            send(client, b"*1000000\r\n" + b"$0\r\n\r\n" * words)
            wait_for(lambda: memory(s)["used_memory_buffers"] >= words * (6 + 16), what="all words to be counted")
        wait_for(lambda: memory(s)["used_memory_buffers"] < MI, what="buffers to be freed")
        assert s.ask("CONFIG", "SET", "maxmemory", "16Mi") == "OK"
        with s.connect() as client:
            send(client, b"*1000000\r\n" + b"$0\r\n\r\n" * words)
            assert is_oom(client.reply())
        wait_for(lambda: "request refused: cannot allocate" in s.read_log(), what="a line in the log")
        check(s, 16 * MI)


def send(client, data):
    try:
        client.socket.sendall(data)
    except OSError:
        pass  # refused


def fill(s):
    """Creates filters until no more fit. Returns the number of filters created."""
    made = 0
    with s.connect() as client:
        while True:
            answers = client.pipeline([("BF.ADD", f"f{made + i}", "x") for i in range(200)])
            made += answers.count(1)
            if is_oom(answers[-1]):
                return made


@alone
def test_small_requests_of_many_clients(program):
    """Small requests are accepted as long as they fit in the memory reserved for buffers, and they do not prevent adds.
    Their total size is limited, no matter how many clients send them."""
    with Service(program, "maxmemory 16Mi", "appendfsync no") as s:
        fill(s)
        half = encode("BF.EXISTS", "f0", b"y" * 16000)[:-600]
        clients = [s.connect() for _ in range(20)]
        for client in clients:
            send(client, half)
        wait_for(lambda: memory(s)["used_memory_buffers"] > 20 * len(half), what="requests to be read")
        assert s.ask("BF.ADD", "f0", "y") == 1
        clients += [s.connect() for _ in range(500)]
        for client in clients[20:]:
            send(client, half)
        # similar messages share one limit, so only the first kind may be in the log
        wait_for(lambda: re.search("(request|connection) refused", s.read_log()), what="a refusal")
        assert memory(s)["used_memory"] < 19 * MI, memory(s)
        for client in clients:
            client.close()
        wait_for(lambda: memory(s)["used_memory_buffers"] < MI // 8, what="buffers to be freed")
        assert s.ask("BF.ADD", "f0", "z") == 1


def can_send_the_rest(s):
    """Sends a request that is refused before all of it has arrived. Returns whether the rest could be sent as well."""
    with s.connect() as client, contextlib.suppress(ConnectionError):
        client.send(encode("BG.DIGEST", "f0") + encode("BF.EXISTS", "f0", b"y" * 200000)[:-600])
        assert len(client.reply()) == 32
        assert is_oom(client.reply()) and client.is_closed()
        for _ in range(3):
            client.send(b"y" * 100)
        return True
    return False


@alone
def test_requests_that_cannot_be_stored(program):
    """If a request cannot be stored, the client receives an error over RESP or HTTP, after the reply to its previous
    request."""
    with Service(program, "workers 1", "maxmemory 16Mi", "appendfsync no", http=True) as s:
        fill(s)
        hogs = [s.connect() for _ in range(60)]  # these requests use up the memory reserved for buffers
        for hog in hogs:
            send(hog, encode("BF.EXISTS", "f0", b"y" * 25000)[:-600])
        wait_for(lambda: memory(s)["used_memory_buffers"] > MI - (64 << 10), what="requests to be read")
        # The client can send the rest of the request after the error. A client that pauses too long cannot, so retry.
        assert any(can_send_the_rest(s) for _ in range(5)), "the service closed the connection while the client was sending"
        for path in ("", "/file"):
            get = f"GET /api/v1/filters/f0{path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
            with socket.create_connection(("127.0.0.1", s.http_port), timeout=service.PATIENCE) as client:
                with contextlib.suppress(ConnectionError):  # the client paused too long; it can still read the response
                    client.sendall(get * (200000 // len(get)))
                answer, _, error = client.makefile("rb").read().partition(b"HTTP/1.1 507 ")
                assert answer.startswith(b"HTTP/1.1 200 ") and b'"out_of_memory"' in error, answer[:200] + error[:200]
        for hog in hogs:
            hog.close()
        wait_for(lambda: memory(s)["used_memory_buffers"] < MI // 8, what="buffers to be freed")
        clients = [socket.create_connection(("127.0.0.1", s.http_port), timeout=service.PATIENCE) for _ in range(450)]
        for part in (b"GET / HTTP/1.1\r\nX: " + b"y" * 2000, b"y" * 6000):
            for client in clients:
                with contextlib.suppress(ConnectionError):  # the request may have been refused already
                    client.sendall(part)
        wait_for(lambda: select.select(clients, [], [], 0)[0], what="a refusal")
        answers = set()
        for client in select.select(clients, [], [], 0)[0]:
            with contextlib.suppress(ConnectionError):
                answers.add(client.recv(65536).split()[1])
        assert answers == {b"507"}, answers
        for client in clients:
            client.close()


@alone
def test_connections_that_cannot_be_opened(program):
    """If there is no memory for a new connection, the client receives an error over RESP or HTTP. The service accepts
    the connections after the requests have arrived, as it may under load."""
    starts = {"http": b"GET / HTTP/1.1\r\nX: yyy", "resp": b"*2\r\n$9\r\nBF.EXISTS\r\n$2"}
    errors = {"http": b"HTTP/1.1 507 Insufficient Storage\r\n", "resp": b"-OOM not enough memory for another connection"}
    for protocol, start in starts.items():
        with Service(program, "workers 1", "maxmemory 4Mi", "appendfsync no", http=True) as s:
            fill(s)
            s.process.send_signal(signal.SIGSTOP)
            port = s.http_port if protocol == "http" else s.port
            clients = [socket.create_connection(("127.0.0.1", port), timeout=service.PATIENCE) for _ in range(450)]
            for client in clients:
                client.sendall(start)
            s.process.send_signal(signal.SIGCONT)
            wait_for(lambda: select.select(clients, [], [], 0)[0], what="a refusal")
            answers = {client.recv(65536)[:len(errors[protocol])] for client in select.select(clients, [], [], 0)[0]}
            assert answers == {errors[protocol]}, answers
            for client in clients:
                client.close()
            wait_for(lambda: "connection refused: cannot allocate" in s.read_log(), what="a line in the log")


@alone
def test_transactions(program):
    """The memory counted for many small queued requests includes their overhead. The memory is later returned to the
    OS."""
    with Service(program, "maxmemory 128Mi", "appendonly no") as s:
        start = s.memory()
        with s.connect() as client:
            assert client.ask("MULTI") == "OK"
            for _ in range(4000):
                assert client.pipeline([("PING",)] * 200)[-1] == "QUEUED"
            assert memory(s)["used_memory_buffers"] >= 4000 * 200 * 64
            assert s.memory() - start < memory(s)["used_memory"] + 8 * MI, (start, s.memory(), memory(s))
        if not s.keeps_freed_memory():
            wait_for(lambda: s.memory() < start + 20 * MI, what="memory to be returned to the OS")


@alone
def test_heads_of_http(program):
    with Service(program, "maxmemory 64Mi", http=True) as s:
        lines = b"".join(b"X-%d: %s\r\n" % (i, b"y" * 250) for i in range(55))
        head = b"POST /api/v1/filters HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\n" + lines + b"\r\n"
        clients = [socket.create_connection(("127.0.0.1", s.http_port)) for _ in range(50)]
        for client in clients:
            client.sendall(head)
        wait_for(lambda: memory(s)["used_memory_buffers"] > 50 * len(head), what="request headers to be counted")
        for client in clients:
            client.close()
        wait_for(lambda: memory(s)["used_memory_buffers"] < MI // 8, what="request headers to be freed")


@alone
def test_keys_of_http(program):
    """The service counts the record that it keeps for each key, which is larger than a short key."""
    with Service(program, "maxmemory 8Mi", http=True) as s:
        assert s.ask("BF.ADD", "f", "a") == 1
        for keys, status in ((200000, 507), (1000, 200)):
            client = http.client.HTTPConnection("127.0.0.1", s.http_port, timeout=service.PATIENCE)
            client.request("POST", "/api/v1/filters/f/check", b"a\n" * keys, {"Content-Type": "text/plain"})
            assert client.getresponse().status == status, keys
            client.close()
        wait_for(lambda: memory(s)["used_memory_buffers"] < MI // 8, what="buffers to be freed")


@alone
def test_replaced_users_leave_nothing(program):
    """Reloading a configuration file whose user lines have changed replaces the users. Their connections stay open, and
    the memory of the replaced users is freed."""
    def lines(i):
        return [f"user u{k} on >x +@all ~* rate={i + 1}" for k in range(500)]

    with Service(program, "workers 2", "jobs 2", "appendonly no", "user admin on >x +@all ~*", *lines(0)) as s:
        path = os.path.join(s.folder, "bloomgate.conf")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        start = s.memory()
        for i in range(1, 31):
            with s.connect() as client:
                assert client.ask("AUTH", "u0", "x") == "OK"
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text.replace("rate=1\n", f"rate={i + 1}\n"))
                s.process.send_signal(signal.SIGHUP)
                wait_for(lambda: f" rate={i + 1}" in str(s.ask("ACL", "LIST")), what="the new users")
                assert client.ask("AUTH", "u1", "x") == "OK"
                assert isinstance(client.ask("BG.VERIFY", "none"), Error)
        if not s.keeps_freed_memory():
            wait_for(lambda: s.memory() - start < 16 * MI, what="the memory of replaced users to be freed")


@alone
def test_uploads(program):
    """An upload in progress is stored in a file. The total size of all uploads in progress is limited, and an upload
    that ends makes space for other uploads."""
    def upload(n):
        client = socket.create_connection(("127.0.0.1", s.http_port), timeout=service.PATIENCE)
        client.sendall(b"PUT /api/v1/filters/f/file HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/octet-stream\r\n"
                       b"Content-Length: %d\r\n\r\n" % (n + 1) + b"x" * n)
        return client

    with Service(program, "maxmemory 16Mi", "max-filter-memory 8Mi", http=True) as s:
        clients = [upload(4 * MI) for _ in range(5)]
        wait_for(lambda: select.select(clients, [], [], 0)[0], what="a refusal")
        refused = select.select(clients, [], [], 0)[0]
        answer = refused[0].makefile("rb").read()
        assert answer.startswith(b"HTTP/1.1 507 ") and b"maxmemory" in answer, answer
        for client in clients:
            client.close()
        for _ in range(20):  # uploads invalid files one after another
            client = upload(4 * MI)
            client.sendall(b"x")
            assert client.recv(65536).split()[1:2] == [b"422"]
            client.close()


@alone
def test_a_refused_lookup_leaves_others_alone(program):
    """A lookup that queries the source runs as a job, which needs a copy of the request. If there is not enough memory
    for the copy, the lookup is refused, and the next lookups still return their own results."""
    s = Service(program, "maxmemory 64Mi", "workers 1")
    path = os.path.join(s.folder, "keys.db")
    large = "x" * 20000
    with sqlite3.connect(path) as db:
        db.execute("create table keys (key text unique)")
        db.executemany("insert into keys values (?)", [("a",), (large,)])
    s.lines += (f"gate g source=sqlite:{path} keys=keys(key) follow=none promise=read-only",)
    with s:
        wait_for(lambda: s.ask("BG.LOOKUP", "g", "b") == [0, b"absent_by_filter"], what="a gate")
        assert s.ask("BG.CREATE", "f", "KIND", "blocked", "BYTES", 40 * MI, "CAPACITY", 10) == "OK"
        assert s.ask("BG.LOOKUP", "g", large) == [1, b"present"]
        assert s.ask("CONFIG", "SET", "maxmemory", "8Mi") == "OK"
        for _ in range(10):  # twice as many failures as it takes to open the circuit breaker
            with s.connect() as client:
                assert is_oom(client.ask("BG.LOOKUP", "g", large))
        for _ in range(3):
            assert s.ask("BG.LOOKUP", "g", "a") == [1, b"present"]


@alone
def test_a_gate_that_does_not_fit(program):
    """A gate whose filter does not fit in memory queries its source. The memory limit also applies at startup. The gate
    reports why the build failed, and that its source is up."""
    def about(name):
        with urllib.request.urlopen(f"http://127.0.0.1:{s.http_port}/api/v1/gates/{name}", timeout=service.PATIENCE) as answer:
            return json.load(answer)

    s = Service(program, "maxmemory 16Mi", http=True)
    path = os.path.join(s.folder, "keys.db")
    with sqlite3.connect(path) as db:
        db.execute("create table keys (id integer primary key autoincrement, key text unique)")
        db.execute("insert into keys (key) values ('a')")
    s.lines += tuple(f"gate {name} source=sqlite:{path} keys=keys(key) capacity=100000000 follow={mode}"
                     for name, mode in (("none", "none promise=read-only"), ("changes", "changes")))
    with s:
        for name in ("none", "changes"):
            wait_for(lambda: about(name)["rebuilds_failed"] > 0, what="a failed build")
            gate = wait_for(lambda: (lambda g: g if g["last_failure"] else None)(about(name)), what="a reason")
            assert gate["last_failure"].startswith("cannot allocate "), gate
            wait_for(lambda: about(name)["source"]["state"] == "up", what="the source to come up")
            assert s.ask("BG.LOOKUP", name, "a") == [1, b"present"]
            assert s.ask("BG.LOOKUP", name, "b") == [0, b"absent_by_truth"]


@alone
def test_a_lower_limit_still_starts(program):
    """Existing filters are loaded even if they exceed maxmemory, but no items can be added until the limit is
    raised."""
    s = Service(program, "maxmemory 64Mi")
    try:
        s.start()
        assert s.ask("BG.CREATE", "f", "KIND", "blocked", "BYTES", 40 * MI - HEAD, "CAPACITY", 10000000) == "OK"
        assert s.ask("BG.ADD", "f", "x") == 1
        s.stop()
        s.lines = ("maxmemory 8Mi",)
        s.start()
        assert s.ask("BG.EXISTS", "f", "x") == 1
        assert is_oom(s.ask("BG.ADD", "f", "y"))
        assert s.ask("CONFIG", "SET", "maxmemory", "64Mi") == "OK"
        assert s.ask("BG.ADD", "f", "y") == 1
        s.stop()
    finally:
        s.kill()
        s.remove()


service.main(__doc__)
