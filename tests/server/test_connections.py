#!/usr/bin/env python3
"""Tests connections under stress: unread replies, resets, long pipelines, and partial requests.
usage: test_connections.py PATH-OF-BLOOMGATED [PART-OF-A-NAME...]"""

import os
import shutil
import socket
import ssl
import struct
import subprocess
import tempfile
import threading
import time

import service
from service import Closed, Connection, Service, Skip, Status, alone, encode, free_port, wait_for


def reset(connection):
    """Closes the connection with a TCP reset."""
    connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def clients(s):
    with s.connect() as c:
        for line in c.ask("INFO", "clients").split(b"\r\n"):
            if line.startswith(b"connected_clients:"):
                return int(line.split(b":")[1])
    raise AssertionError("no connected_clients")


# ---- Unread replies ----------------------------------------------------------------------------


def test_reset_while_replies_wait(s):
    """A socket that becomes both readable and writable because of a reset is closed only once."""
    for _ in range(20):
        c = s.connect()
        # the replies exceed the socket buffers, but not client-output-buffer-limit
        c.send(encode("COMMAND", "DOCS") * 300)
        with s.connect() as other:
            wait_for(lambda: waits(other) > 0, what="queued replies")
        reset(c)
    wait_for(lambda: clients(s) <= 2, what="clients to disconnect")


def waits(connection):
    """Returns the largest number of reply bytes that are queued for any client."""
    text = connection.ask("CLIENT", "LIST").decode()
    return max(int(word.split("=")[1]) for word in text.split() if word.startswith("obl="))


@alone
def test_pipeline_of_large_replies(program):
    """A client that reads late receives all replies, even if their total size is several times
    client-output-buffer-limit."""
    with Service(program, "client-output-buffer-limit 1Mi") as s, s.connect() as c:
        whole = c.ask("COMMAND", "DOCS")
        n = 100
        c.send(encode("COMMAND", "DOCS") * n + encode("PING"))
        with s.connect() as other:
            wait_for(lambda: waits(other) > 500000, what="queued replies")
        for i in range(n):
            assert c.reply() == whole, i
        assert c.reply() == Status("PONG")


@alone
def test_replies_come_while_more_is_asked(program):
    """A reply waits until its own request is synced to disk, but does not wait for later requests to be synced."""
    with Service(program, "appendfsync always") as s, s.connect() as c:
        got = []

        def read():
            while len(got) < 2000:
                got.append(c.reply())
        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        sent, end = 0, time.monotonic() + service.PATIENCE
        while len(got) < 2000:
            assert time.monotonic() < end, f"{len(got)} replies to {sent} requests"
            c.send(encode("BF.ADD", "k", sent))
            sent += 1
        reader.join()


# ---- Incomplete requests -----------------------------------------------------------------------


@alone
def test_half_request_behind_a_whole_one(program):
    """The reply to the first request does not restart the timeout for the second, incomplete request."""
    with Service(program, "slow-client-timeout 1s") as s, s.connect() as c:
        c.send(b"PING\r\n" + encode("PING")[:-3])
        assert c.reply() == Status("PONG")
        assert c.is_closed()


@alone
def test_idle_clients_may_idle(program):
    with Service(program, "slow-client-timeout 1s") as s, s.connect() as c:
        assert c.ask("PING") == Status("PONG")
        began = time.monotonic()
        while time.monotonic() < began + 3:
            s.ask("PING")
            time.sleep(0.1)
        assert c.ask("PING") == Status("PONG")


# ---- Disconnects -------------------------------------------------------------------------------


def test_last_words_arrive(s):
    """A client that is disconnected with an error receives the error, even if it has sent more
    requests."""
    for _ in range(50):
        with s.connect() as c:
            c.send(b"*1\r\n$x\r\n" + b"x" * 100000)
            text = c.reply()
            assert text.startswith("ERR Protocol error"), text
            assert c.is_closed()
        with s.connect() as c:
            c.send(encode("QUIT") + encode("PING") * 10000)
            assert c.reply() == Status("OK")
            assert c.is_closed()


def test_half_closed(s):
    """A client that has closed its sending side receives all replies, including replies to jobs."""
    for n in (1, 5, 3000):
        with s.connect() as c:
            c.send((encode("BF.ADD", "half", "x") + encode("BG.INFO", "half")
                    + encode("BF.EXISTS", "half", "x") * 3) * n)
            c.socket.shutdown(socket.SHUT_WR)
            for i in range(n):
                assert c.reply() in (0, 1)
                assert isinstance(c.reply(), list), i
                assert [c.reply() for _ in range(3)] == [1, 1, 1]
            try:
                raise AssertionError(f"too much: {c.reply()!r}")
            except Closed:
                pass


def test_jobs_of_clients_that_are_gone(s):
    for i in range(200):
        c = s.connect()
        c.send(encode("BF.ADD", "gone", i) + encode("BG.INFO", "gone") * 5 + encode("KEYS", "*"))
        if i % 2:
            reset(c)
        else:
            c.close()
    wait_for(lambda: clients(s) <= 2, what="clients to disconnect")
    assert s.ask("BF.EXISTS", "gone", "199") == 1


def test_turns(s):
    """Other clients are served while a pipeline that takes many event-loop iterations is running."""
    with s.connect() as c, s.connect() as other:
        n = 200000
        c.socket.settimeout(None)
        c.socket.setblocking(False)
        data, sent, got = encode("BF.ADD", "turns", "x") * n, 0, 0
        while got < n * 4:
            try:
                sent += c.socket.send(data[sent:sent + 65536]) if sent < len(data) else 0
            except BlockingIOError:
                pass
            try:
                got += len(c.socket.recv(1 << 20))
            except BlockingIOError:
                pass
            if sent and sent < len(data):
                assert other.ask("PING") == Status("PONG")
        assert got == n * 4


# ---- Over TLS ------------------------------------------------------------------------------------


class Secret:
    """A service with a TLS port; connect() connects to that port."""

    def __init__(self, program, *lines):
        if not shutil.which("openssl"):
            raise Skip("openssl is not installed")
        self.folder = tempfile.mkdtemp(prefix="bloomgated-tls-")
        self.cert, key = (os.path.join(self.folder, name) for name in ("cert", "key"))
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                        "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out", self.cert,
                        "-days", "2", "-subj", "/CN=localhost", "-addext",
                        "subjectAltName=DNS:localhost"], check=True, capture_output=True)
        self.tls_port = free_port()
        self.plain = Service(program, f"tls-port {self.tls_port}", f"tls-cert-file {self.cert}",
                             f"tls-key-file {key}", *lines)

    def __enter__(self):
        self.plain.__enter__()
        return self

    def __exit__(self, *what):
        self.plain.__exit__(*what)
        shutil.rmtree(self.folder)

    def connect(self, timeout=service.PATIENCE):
        context = ssl.create_default_context(cafile=self.cert)
        c = Connection(self.tls_port, timeout)
        c.file.close()
        c.socket = context.wrap_socket(c.socket, server_hostname="localhost")
        c.file = c.socket.makefile("rb", buffering=1 << 16)
        return c


@alone
def test_tls(program):
    """Tests long pipelines, large replies that are read late, replies that wait for the disk, and resets, all over
    TLS."""
    with Secret(program, "client-output-buffer-limit 1Mi", "appendfsync always",
                "pipeline-limit 100") as s:
        with s.connect() as c:
            n = 5000
            assert set(c.pipeline([("BF.ADD", "k", i) for i in range(n)])) <= {0, 1}
            assert c.pipeline([("BF.EXISTS", "k", i) for i in range(n)]) == [1] * n
            whole = c.ask("COMMAND", "DOCS")
            c.send((encode("COMMAND", "DOCS") + encode("BF.ADD", "k", "x")) * 300)
            with s.connect() as other:
                wait_for(lambda: waits(other) > 200000, what="queued replies")
            for i in range(300):
                assert c.reply() == whole, i
                assert c.reply() in (0, 1)
        for i in range(20):
            c = s.connect()
            c.send(encode("COMMAND", "DOCS") * 50 + encode("BG.INFO", "k"))
            if i % 2:
                c.reply()
            reset(c)
        c = Connection(s.tls_port)  # no handshake
        c.send(b"PING\r\n")
        assert c.is_closed()
        wait_for(lambda: clients(s.plain) <= 1, what="clients to disconnect")


@alone
def test_tls_half_closed(program):
    with Secret(program) as s, s.connect() as c:
        c.send((encode("BF.ADD", "k", "x") + encode("BG.INFO", "k")) * 200 + encode("QUIT"))
        for _ in range(200):
            assert c.reply() in (0, 1)
            assert isinstance(c.reply(), list)
        assert c.reply() == Status("OK")
        assert c.is_closed()


@alone
def test_tls_record_over_the_limit(program):
    """A request of nearly client-query-buffer-limit bytes leaves space in the buffer for only part of the last TLS
    record. After the request has run as a job, the service must read the rest of the record, although the socket itself
    has no more bytes to read."""
    limit = 1 << 20
    with Secret(program, "client-query-buffer-limit 1Mi", "proto-max-bulk-len 1Mi") as s, s.connect() as c:
        n = 5000  # with this many arguments, the request runs as a job
        words = ["BF.MADD", "k", *(f"{i:08}" for i in range(n))]
        # lengthening this argument also makes its length field five digits longer
        words[-1] += "x" * (limit - 10 - len(encode(*words)) - 5)
        data = encode(*words)
        assert len(data) == limit - 10
        c.send(data[:100])  # a separate TLS record, so that no later record ends exactly at the limit
        c.send(data[100:] + encode("PING"))
        assert len(c.reply()) == n
        assert c.reply() == Status("PONG")


service.main(__doc__)
