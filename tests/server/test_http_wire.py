#!/usr/bin/env python3
"""Tests HTTP at the byte level: the order of requests and responses on a connection, refused requests and their errors,
and slow clients, which must not delay other clients.

usage: test_http_wire.py BLOOMGATED [PART OF A NAME...]"""

import hashlib
import json
import os
import random
import socket
import ssl
import subprocess
import threading
import time

import service
from http_asker import F, Asker, Wire, free_service, request
from service import alone, wait_for

JSON = "Content-Type: application/json"


def same(found, expected):
    assert found == expected, f"found {found!r}, expected {expected!r}"


def code(body):
    return json.loads(body)["error"]["code"]


# ---- Persistent connections ---------------------------------------------------------------------


def test_keep_alive(s):
    Asker(s).make("k")
    with Wire(s) as wire:
        for i in range(50):
            wire.send(request("GET", "/healthz"))
            same(wire.answer()[2], b"ok\n")
            wire.send(request("POST", f"{F}/k/add", json.dumps({"keys": [str(i)]}).encode(), JSON))
            status, headers, _ = wire.answer()
            same((status, "connection" in headers), (200, False))
            wire.send(request("GET", f"{F}/none"))
            same(wire.answer()[0], 404)
        wire.send(request("GET", "/healthz", None, "Connection: close"))
        status, headers, _ = wire.answer()
        same((status, headers["connection"], wire.is_over()), (200, "close", True))


def test_pipelines(s):
    """Pipelined requests are answered in order, including requests with errors or unnecessary bodies."""
    Asker(s).make("p", capacity=10000)
    with Wire(s) as wire:
        pieces, expected = [], []
        for i in range(300):
            pieces += [request("GET", "/healthz"), request("POST", f"{F}/p/add", b"%d\n" % i, "Content-Type: text/plain", "X-Bloomgate: 1"),
                       request("POST", "/no/such/path", b"x" * 1000, JSON), request("GET", f"{F}/%zz"), request("HEAD", "/readyz"),
                       request("POST", f"{F}/p/check", b"%d\n" % i, "Content-Type: text/plain"), request("PUT", "/healthz", b"abc")]
            expected += [200, 200, 404, 400, 200, 200, 405]
        sender = threading.Thread(target=wire.send, args=(b"".join(pieces),))
        sender.start()
        found = [wire.answer(head=status == 200 and i % 7 == 4) for i, status in enumerate(expected)]
        sender.join()
        same([answer[0] for answer in found], expected)
        same({found[i][2] for i in range(5, len(found), 7)}, {b"1\n"})


def test_byte_by_byte(s):
    Asker(s).make("b")
    whole = (request("POST", f"{F}/b/add", b'{"keys":["x"]}', JSON) + request("GET", "/healthz")
             + b"POST /api/v1/filters/b/check HTTP/1.1\r\nHost: x.localhost\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n2;a=b\r\n\ny\r\n0\r\nT: x\r\n\r\n")
    with Wire(s) as wire:
        wire.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for i in range(len(whole)):
            wire.send(whole[i:i + 1])
        same([wire.answer()[2] for _ in range(3)], [b'{"results": [true], "keys": 1, "new": 1}\n', b"ok\n", b"1\n0\n"])


def test_http_1_0(s):
    with Wire(s) as wire:
        wire.send("GET /healthz HTTP/1.0\r\n\r\n")
        status, headers, body = wire.answer()
        same((status, headers["connection"], body, wire.is_over()), (200, "close", b"ok\n", True))
    with Wire(s) as wire:
        for _ in range(3):
            wire.send("GET /api/v1/info HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            status, headers, _ = wire.answer()
            same((status, headers["connection"]), (200, "keep-alive"))


def test_head(s):
    a = Asker(s)
    a.make("h")
    for path in ("/healthz", "/readyz", "/readyz?verbose=1", "/", "/assets/dashboard.js", "/openapi.yaml", F, f"{F}/h", f"{F}/h/file", f"{F}/h/occupancy",
                 "/api/v1/plan?items=10&error=0.1", "/api/v1/gates", "/api/v1/none", f"{F}/none", "/api/v1/plan"):
        with Wire(s) as wire:
            wire.send(request("GET", path))
            one = wire.answer()
            wire.send(request("HEAD", path))
            two = wire.answer(head=True)
            same((path, two[0], two[1].keys()), (path, one[0], one[1].keys()))
            if "verbose" not in path:
                same((path, two[1].get("etag"), two[1]["content-type"]), (path, one[1].get("etag"), one[1]["content-type"]))
            wire.send(request("GET", "/healthz"))
            same(wire.answer()[2], b"ok\n")


def test_no_body_where_there_is_none(s):
    """Responses with status 204 and 304 end after their headers."""
    a = Asker(s)
    with Wire(s) as wire:
        for _ in range(3):
            a.make("gone")
            wire.send(request("DELETE", f"{F}/gone"))
            status, headers, _ = wire.answer()
            same((status, "content-length" in headers, "content-type" in headers), (204, False, False))
        wire.send(request("GET", "/"))
        tag = wire.answer()[1]["etag"]
        wire.send(request("GET", "/", None, f"If-None-Match: {tag}"), request("GET", "/healthz"))
        same((wire.answer()[0], wire.answer()[2]), (304, b"ok\n"))


# ---- Bodies -------------------------------------------------------------------------------------


def chunked(data, size):
    pieces = [data[i:i + size] for i in range(0, len(data), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in pieces) + b"0\r\n\r\n"


def test_chunked_uploads(s):
    a = Asker(s)
    a.make("from", capacity=100000)
    a.ask("POST", f"{F}/from/add", 200, {"keys": [str(i) for i in range(1000)]})
    response, file = a.ask("GET", f"{F}/from/file", 200)
    with Wire(s) as wire:
        for size in (1, 1000, 65536, len(file)):
            part = file if size > 1 else None
            if part is None:
                body = json.dumps({"keys": ["1", "x"]}).encode()
                wire.send(f"POST {F}/from/check HTTP/1.1\r\nHost: localhost\r\n{JSON}\r\nTransfer-Encoding: chunked\r\n\r\n", chunked(body, 1))
                same(wire.json()[1]["results"], [True, False])
                continue
            wire.send(f"PUT {F}/to-{size}/file HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/octet-stream\r\nTransfer-Encoding: chunked\r\n\r\n", chunked(part, size))
            status, headers, _ = wire.answer()
            same((size, status, headers["etag"]), (size, 201, response.getheader("ETag")))


def test_expect_continue(s):
    a = Asker(s)
    a.make("e")
    body = b'{"keys":["x"]}'
    with Wire(s) as wire:  # accepted: continue
        wire.send(f"POST {F}/e/add HTTP/1.1\r\nHost: localhost\r\n{JSON}\r\nExpect: 100-continue\r\nContent-Length: {len(body)}\r\n\r\n")
        same(wire.answer()[0], 100)
        wire.send(body)
        same(wire.answer()[0], 200)
        wire.send(request("GET", "/healthz"))
        same(wire.answer()[0], 200)
    for path, headers, status in (("/none", JSON, 404), ("/healthz", JSON, 405), (f"{F}/e/add", "Content-Type: text/plain", 403),
                                  (f"{F}/e/add", f"{JSON}\r\nSec-Fetch-Site: cross-site", 403)):
        with Wire(s) as wire:  # the request is refused immediately, without waiting for the body
            wire.send(f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\nExpect: 100-continue\r\nContent-Length: 1000\r\n\r\n")
            found, fields, _ = wire.answer()
            same((path, found, fields.get("connection"), wire.is_over()), (path, status, "close", True))
    with Wire(s) as wire:
        wire.send(f"POST {F}/e/add HTTP/1.1\r\nHost: localhost\r\nExpect: miracles\r\n\r\n")
        same(wire.answer()[0], 417)


@alone
def test_bodies_of_strangers_are_not_read(program):
    """An unauthenticated client is refused before it has sent the body, regardless of the body's size."""
    with free_service(program, "requirepass secret") as s:
        for credentials, status in (("", 401), ("Authorization: Basic eDp5\r\n", 401)):
            with Wire(s) as wire:
                wire.send(f"PUT {F}/x/file HTTP/1.1\r\nHost: localhost\r\n{credentials}Content-Length: 10000000000\r\n\r\n", b"x" * 1000)
                same((wire.answer()[0], wire.is_over()), (status, True))
        with Wire(s) as wire:  # an authenticated client can send the body
            wire.send(f"PUT {F}/x/file HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret\r\nContent-Length: 100000\r\n\r\n")
            wire.send(b"x" * 100000)
            same(wire.answer()[0], 422)
            wire.send(f"PUT {F}/x/file HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
            same(wire.answer()[0], 100)
            wire.send(b"abcde")
            same(wire.answer()[0], 422)


def test_refusals_are_heard(s):
    """The client receives the response even while it is sending a body that the service does not read."""
    for _ in range(20):
        with Wire(s) as wire:
            def send():
                try:
                    wire.send(request("POST", "/no/such/path", None, JSON, "Content-Length: 50000000"))
                    for _ in range(500):
                        wire.send(b"x" * 100000)
                except OSError:
                    pass  # the service has stopped reading
            sender = threading.Thread(target=send)
            sender.start()
            status, headers, _ = wire.answer()
            sender.join()
            same((status, headers["connection"]), (404, "close"))


@alone
def test_too_large(program):
    with free_service(program, "proto-max-bulk-len 64Ki", "max-filter-memory 1Mi") as s:
        Asker(s).make("l")
        for headers, body, status in ((f"Content-Length: {2 ** 16 + 1}", b"", 413), ("Content-Length: 999999999999999999", b"", 413),
                                      ("Content-Length: 99999999999999999999999", b"", 400), ("Transfer-Encoding: chunked", b"ffffff\r\n", 413),
                                      ("Transfer-Encoding: chunked", chunked(b"x" * (2 ** 16 + 1), 1000), 413)):
            with Wire(s) as wire:
                wire.send(f"POST {F}/l/add HTTP/1.1\r\nHost: localhost\r\n{JSON}\r\n{headers}\r\n\r\n", body)
                found = wire.answer()
                same((headers, found[0]), (headers, status))
                same(found[1].get("connection") != "close" or wire.is_over(), True)
        with Wire(s) as wire:
            wire.send(request("POST", f"{F}/l/check", b'{"keys":[' + b'"x",' * 16000 + b'"x"]}', JSON))
            same(len(wire.json()[1]["results"]), 16001)
        with Wire(s) as wire:
            wire.send(f"PUT {F}/l/file HTTP/1.1\r\nHost: localhost\r\nContent-Length: {2 ** 22}\r\n\r\n")
            same(wire.answer()[0], 413)


# ---- Malformed ----------------------------------------------------------------------------------


def test_malformed_requests(s):
    good = "Host: localhost\r\n"
    for text, status, expected in [
            ("GET /" + "x" * 9000 + " HTTP/1.1\r\n" + good + "\r\n", 414, "uri_too_long"),
            ("GET / HTTP/1.1\r\n" + good + "X: " + "y" * 17000 + "\r\n\r\n", 431, "headers_too_large"),
            ("GET / HTTP/1.1\r\n" + good + "X: y\r\n" * 70 + "\r\n", 431, "headers_too_large"),
            ("GET / HTTP/2.0\r\n" + good + "\r\n", 505, "not_implemented"), ("GET / HTTP/1.1\r\n\r\n", 400, "bad_request"),
            ("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400, "bad_request"), ("GET  / HTTP/1.1\r\n" + good + "\r\n", 400, "bad_request"),
            ("GET / HTTP/1.1\n\n", 400, "bad_request"), ("GET / HTTP/1.1\r\n" + good + "A : b\r\n\r\n", 400, "bad_request"),
            ("GET / HTTP/1.1\r\n" + good + " a: b\r\n\r\n", 400, "bad_request"), ("GET http:// HTTP/1.1\r\n" + good + "\r\n", 400, "bad_request"),
            ("POST / HTTP/1.1\r\n" + good + "Content-Length: 1\r\nContent-Length: 2\r\n\r\n", 400, "bad_request"),
            ("POST / HTTP/1.1\r\n" + good + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400, "bad_request"),
            ("POST / HTTP/1.1\r\n" + good + "Transfer-Encoding: gzip\r\n\r\n", 501, "not_implemented"),
            ("POST / HTTP/1.1\r\n" + good + "Content-Length: -1\r\n\r\n", 400, "bad_request"), ("\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", 400, "bad_request"),
            ("PING\r\n", 400, "bad_request"), ("*1\r\n$4\r\nPING\r\n", 400, "bad_request"), ("\r\n" * 50, 400, "bad_request")]:
        with Wire(s) as wire:
            wire.send(text)
            wire.socket.shutdown(socket.SHUT_WR)
            found = wire.answer()
            assert found, text[:60]
            same((text[:60], found[0], code(found[2]), found[1]["connection"]), (text[:60], status, expected, "close"))
            same(wire.is_over(), True)
    for body in (b"g\r\n", b"5\r\nabcdefg\r\n", b"1\r\nab\r\n0\r\n\r\n", b"1;" + b"x" * 300 + b"\r\na\r\n", b"\r\n", b"-1\r\n", b"0x1\r\na\r\n"):
        with Wire(s) as wire:
            wire.send(f"POST {F}/x/check HTTP/1.1\r\nHost: localhost\r\n{JSON}\r\nTransfer-Encoding: chunked\r\n\r\n", body)
            wire.socket.shutdown(socket.SHUT_WR)
            found = wire.answer()
            same((body[:20], found[0], code(found[2])), (body[:20], 400, "bad_request"))


def test_noise(s):
    """The service responds to random bytes and randomly modified requests, or closes the connection, and keeps
    running."""
    chance = random.Random(7)
    good = request("POST", f"{F}/n/add", b'{"keys":["a","b"]}', JSON) + request("GET", "/api/v1/plan?items=10&error=0.1")
    for i in range(service.work(300)):
        data = bytearray(good if i % 3 else chance.randbytes(chance.randrange(1, 400)))
        for _ in range(chance.randrange(1, 6)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        with Wire(s) as wire:
            wire.send(bytes(data))
            wire.socket.shutdown(socket.SHUT_WR)
            while wire.file.read(65536):
                pass
    same(Asker(s).status("GET", "/healthz"), 200)


# ---- Slow and large requests --------------------------------------------------------------------


@alone
def test_slow_clients_are_let_go(program):
    """A client that stalls at any point in a request is disconnected."""
    with free_service(program, "slow-client-timeout 1s") as s:
        Asker(s).make("slow")
        begun = [b"G", b"GET / HTTP/1.1\r\nHost: x", f"POST {F}/slow/add HTTP/1.1\r\nHost: localhost\r\n{JSON}\r\nContent-Length: 100\r\n\r\n".encode(),
                 f"POST {F}/slow/add HTTP/1.1\r\nHost: localhost\r\n{JSON}\r\nContent-Length: 100\r\n\r\n{{\"keys".encode(),
                 f"PUT {F}/slow/file HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab".encode(),
                 f"POST /none HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nx".encode()]
        wires = [Wire(s) for _ in begun]
        for wire, data in zip(wires, begun):
            wire.send(data)
        drip = Wire(s)  # sending an occasional byte does not prevent the disconnect
        drip.send(f"POST {F}/slow/add HTTP/1.1\r\nHost: localhost\r\n{JSON}\r\nContent-Length: 100000\r\n\r\n")
        idle = Wire(s)  # a client that has not started a request may stay idle
        gone = threading.Event()

        def dripping():
            try:
                while not gone.is_set():
                    drip.send(b" ")
                    gone.wait(0.05)
            except OSError:
                pass
        thread = threading.Thread(target=dripping)
        thread.start()
        for wire, data in zip(wires, begun):
            if data.startswith(b"POST /none"):
                same(wire.answer()[0], 404)
            same((data, wire.is_over()), (data, True))
        same(drip.is_over(), True)
        gone.set()
        thread.join()
        idle.send(request("GET", "/healthz"))
        same(idle.answer()[0], 200)
        same(int(Asker(s).told("GET", "/api/v1/info", 200)["connections"]["http"]) >= 1, True)
        for wire in [*wires, drip, idle]:
            wire.close()


def test_large_downloads_and_small_requests(s):
    """Slow and fast readers of a large file all receive the complete file, and other clients are served in the
    meantime."""
    a = Asker(s)
    size = 48 << 20
    a.told("POST", F, 201, {"name": "large", "kind": "blocked", "capacity": 1000, "memory": size, "hash": "fast"})
    a.ask("POST", f"{F}/large/add", 200, {"keys": [str(i) for i in range(1000)]})
    slow = [Wire(s) for _ in range(4)]
    for wire in slow:  # these clients do not read, so the service can send only as much as the socket buffers hold
        wire.send(request("GET", f"{F}/large/file"))
    for wire in slow:
        assert wire.file.readline().startswith(b"HTTP/1.1 200")
    digests, problems = [], []

    def fast():
        try:
            with Wire(s) as wire:
                wire.send(request("GET", f"{F}/large/file"))
                status, headers, body = wire.answer()
                digests.append((status, headers["etag"], len(body), hashlib.sha256(body).hexdigest()))
        except Exception as error:  # pylint: disable=broad-except
            problems.append(repr(error))
    threads = [threading.Thread(target=fast) for _ in range(3)]
    for thread in threads:
        thread.start()
    answered = 0
    while any(thread.is_alive() for thread in threads) or answered < 20:
        same(a.status("GET", "/healthz"), 200)
        same(a.told("POST", f"{F}/large/check", 200, {"keys": ["1"]})["results"], [True])
        answered += 1
    for thread in threads:
        thread.join()
    same((problems, len(set(digests))), ([], 1))
    assert digests[0][2] > size
    for wire in slow[1:]:
        wire.close()
    while slow[0].file.readline() != b"\r\n":
        pass
    digest = hashlib.sha256(slow[0].file.read(digests[0][2])).hexdigest()
    same(digest, digests[0][3])
    slow[0].send(request("GET", "/healthz"))
    same(slow[0].answer()[2], b"ok\n")
    slow[0].close()
    wait_for(lambda: not [n for n in os.listdir(os.path.join(s.folder, "data")) if n.startswith("download")], what="all files to be removed")
    wait_for(lambda: a.told("GET", "/api/v1/info", 200)["connections"]["http"] == 1, what="all connections to close")


def test_large_uploads(s):
    """Large uploads run in parallel. Complete files are accepted, and truncated files are refused."""
    a = Asker(s)
    a.told("POST", F, 201, {"name": "u", "kind": "blocked", "capacity": 1000, "memory": 32 << 20, "hash": "fast"})
    file = a.told("GET", f"{F}/u/file", 200)
    statuses = []

    def put(i, cut):
        with Wire(s) as wire:
            wire.send(request("PUT", f"{F}/u{i}/file", file[:len(file) - cut]))
            statuses.append(wire.answer()[0])
    threads = [threading.Thread(target=put, args=(i, i % 2)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    same(sorted(statuses), [201, 201, 201, 422, 422, 422])
    with Wire(s) as wire:  # an interrupted upload creates no filter
        wire.send(f"PUT {F}/half/file HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(file)}\r\n\r\n", file[:1000000])
    wait_for(lambda: a.told("GET", "/api/v1/info", 200)["connections"]["http"] == 1, what="the connection to close")
    a.ask("GET", f"{F}/half", 404)


def test_many_connections(s):
    wires = [Wire(s) for _ in range(400)]
    for wire in wires:
        wire.send(request("GET", "/api/v1/info"))
    found = [wire.json() for wire in wires]
    same({status for status, _ in found}, {200})
    assert max(told["connections"]["http"] for _, told in found) >= 300
    for wire in wires:
        wire.close()


# ---- TLS ----------------------------------------------------------------------------------------


@alone
def test_tls(program):
    s = free_service(program)
    cert, key = os.path.join(s.folder, "cert.pem"), os.path.join(s.folder, "key.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out", cert, "-days", "2",
                    "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"], check=True, capture_output=True)
    port = service.free_port()
    s.lines = (f"https-port {port}", f"tls-cert-file {cert}", f"tls-key-file {key}")
    with s:
        context = ssl.create_default_context(cafile=cert)
        a = Asker(s)
        a.told("POST", F, 201, {"name": "t", "kind": "blocked", "capacity": 1000, "memory": 8 << 20, "hash": "fast"})
        plain = a.told("GET", f"{F}/t/file", 200)
        wire = Wire(s)
        wire.close()
        with context.wrap_socket(socket.create_connection(("127.0.0.1", port), timeout=service.PATIENCE), server_hostname="localhost") as secure:
            wire.socket, wire.file = secure, secure.makefile("rb")
            wire.send(request("GET", "/api/v1/info", None, host="localhost"))
            same(wire.json()[1]["tls"], True)
            wire.send(request("GET", f"{F}/t/file", None, host="localhost"))
            same(wire.answer()[2] == plain, True)
            wire.send(request("PUT", f"{F}/t2/file", plain, host="localhost"))
            same(wire.answer()[0], 201)
            wire.send("GET / HTTP/1.1\r\n\r\n")
            same((wire.answer()[0], wire.is_over()), (400, True))
        same(a.told("GET", "/api/v1/info", 200)["tls"], False)


# ---- Shutdown -----------------------------------------------------------------------------------


@alone
def test_stopping_finishes_what_was_asked(program):
    with free_service(program) as s:
        a = Asker(s)
        a.told("POST", F, 201, {"name": "z", "kind": "blocked", "capacity": 1000, "memory": 32 << 20, "hash": "fast"})
        idle, busy = Wire(s), Wire(s)
        busy.send(request("GET", f"{F}/z/file"))
        assert busy.file.readline().startswith(b"HTTP/1.1 200")
        s.process.terminate()
        same(idle.is_over(), True)
        length = 0
        while (line := busy.file.readline()) != b"\r\n":
            length = int(line.split()[1]) if line.lower().startswith(b"content-length") else length
        same(len(busy.file.read(length)), length)
        idle.close()
        busy.close()
        end = time.monotonic() + service.PATIENCE
        while s.process.poll() is None and time.monotonic() < end:
            time.sleep(0.01)
        same(s.process.returncode, 0)


if __name__ == "__main__":
    service.main(__doc__, http=True)
