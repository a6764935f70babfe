#!/usr/bin/env python3
"""Tests the service with misbehaving clients: split and endless requests, sockets that are half closed or never read,
invalid and huge lengths, random bytes, and too many clients. The service stays within its memory limits, and a
well-behaved client keeps getting correct replies. Reply times are printed but not checked.
usage: test_abuse.py PATH-OF-BLOOMGATED [PART-OF-A-NAME...]"""

import multiprocessing
import os
import random
import re
import resource
import socket
import struct
import threading
import time

import service
from service import Closed, Error, Service, Status, alone, encode, wait_for, work

MI = 1 << 20


class Witness:
    """A separate process that continuously looks up keys with known answers, and checks every
    reply."""

    def __init__(self, s):
        self.s = s
        with s.connect() as c:
            c.ask("BF.RESERVE", "witness", "0.001", "1000")
            c.ask("BF.MADD", "witness", *(f"in{i}" for i in range(500)))
        self.stopping = multiprocessing.Event()
        self.result, result = multiprocessing.Pipe(duplex=False)
        self.process = multiprocessing.Process(target=self.run, args=(result,))

    def run(self, result):
        times = []
        try:
            with self.s.connect() as c:
                while not self.stopping.is_set() or len(times) < 200:
                    start = time.perf_counter()
                    answer = c.ask("BF.EXISTS", "witness", f"in{len(times) % 500}")
                    times.append(time.perf_counter() - start)
                    assert answer == 1, answer
            result.send((None, times))
        except Exception as error:  # pylint: disable=broad-except
            result.send((repr(error), times))

    def __enter__(self):
        self.process.start()
        return self

    def __exit__(self, kind, *_):
        self.stopping.set()
        wrong, times = self.result.recv()
        self.process.join()
        if kind is None:
            assert wrong is None, wrong
            times = sorted(times)
            print(f"  other clients: {len(times)} answers, p50 {times[len(times) // 2] * 1e3:.2f} ms, "
                  f"p99 {times[len(times) * 99 // 100] * 1e3:.2f} ms, worst {times[-1] * 1e3:.1f} ms",
                  flush=True)


def is_sanitized(s):
    """Returns whether a sanitizer is active. Sanitizers use a lot of memory, so memory bounds are not checked if one is
    active."""
    return s.memory("VmSize") > 1 << 42


def grows_less(s, before, bound, what):
    now = s.memory()
    print(f"  memory: {before / MI:.0f} MiB before, {now / MI:.0f} MiB {what}", flush=True)
    assert is_sanitized(s) or now - before < bound, f"memory grew by {(now - before) / MI:.1f} MiB"


def raw_connection(s):
    sock = socket.create_connection(("127.0.0.1", s.port), timeout=service.PATIENCE)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def read_all(sock):
    """Reads until the peer closes the connection."""
    data = b""
    while True:
        try:
            piece = sock.recv(65536)
        except ConnectionError:
            return data
        if not piece:
            return data
        data += piece


# ---- Partial requests --------------------------------------------------------------------------


def test_torn_at_every_byte(s):
    requests = (encode("BF.ADD", "k", "a b\r\nc") + b"PING\r\n" + encode("BF.EXISTS", "k", "a b\r\nc")
                + encode("BF.EXISTS", "k", "no") + b"*0\r\n\r\n" + encode("ECHO", "")
                + encode("MEMORY", "USAGE", "none") + encode("KEYS", "nothing") + b"echo \"x y\"\n")
    expected = None
    with Witness(s):
        for cut in range(len(requests) + 1):
            with s.connect() as c, s.connect() as other:
                c.send(requests[:cut])
                other.ask("PING")  # gives the service time to read the partial request
                c.send(requests[cut:])
                answers = [c.reply() for _ in range(8)]
            expected = expected or [0, *answers[1:]]
            assert [0, *answers[1:]] == expected, (cut, answers)
    assert expected == [0, Status("PONG"), 1, 0, b"", None, [], b"x y"], expected


def test_byte_by_byte(s):
    requests = encode("BF.MADD", "k", *(f"item{i}" for i in range(40))) + encode("PING") + b"PING\r\n"
    with Witness(s), s.connect() as c:
        for i in range(len(requests)):
            c.send(requests[i:i + 1])
        assert c.reply().count(1) == 40
        assert [c.reply(), c.reply()] == [Status("PONG")] * 2


def test_torn_in_random_pieces(s):
    rng = random.Random(7)
    with s.connect() as c:
        for _ in range(work(30)):
            n = rng.randrange(1, 200)
            requests = b"".join(encode("ECHO", "x" * rng.randrange(0, 3000)) if rng.random() < 0.5
                                else encode("BF.ADD", f"k{rng.randrange(5)}", rng.random())
                                for _ in range(n))
            at = 0
            while at < len(requests):
                size = min(rng.choice([1, 7, 100, 5000, 60000]), len(requests) - at)
                c.send(requests[at:at + size])
                at += size
            answers = [c.reply() for _ in range(n)]
            assert not any(isinstance(a, Error) for a in answers)


# ---- Disconnects -------------------------------------------------------------------------------


def test_half_closed(s):
    """A client that has closed its sending side still receives all replies, including replies to
    jobs."""
    for requests, replies in (
            (encode("PING") * 1000, b"+PONG\r\n" * 1000),
            (encode("ECHO", "x" * 100000) * 50, (b"$100000\r\n" + b"x" * 100000 + b"\r\n") * 50),
            (encode("KEYS", "nothing") * 20 + encode("PING"), b"*0\r\n" * 20 + b"+PONG\r\n"),
            (encode("PING") + b"*2\r\n$4\r\nECHO\r\n$3\r\nab", b"+PONG\r\n"),
            (b"PING\r\nPI", b"+PONG\r\n"),
            (b"", b"")):
        with raw_connection(s) as sock:
            sock.sendall(requests)
            sock.shutdown(socket.SHUT_WR)
            assert read_all(sock) == replies, requests[:40]


def test_gone_in_the_middle(s):
    """Connections are closed or reset while requests, replies and jobs are in progress."""
    rng = random.Random(3)
    with Witness(s):
        for i in range(work(300)):
            sock = raw_connection(s)
            sock.sendall(rng.choice([
                encode("KEYS", "*") * 20, encode("BF.ADD", "k", i) * 500, encode("CLIENT", "LIST") * 5,
                b"*3\r\n$6\r\nBF.ADD\r\n$1\r\nk\r\n$100\r\nabc",
                encode("MULTI") + encode("KEYS", "*") * 5 + encode("EXEC"),
                encode("ECHO", "x" * 50000) * 20]))
            if rng.random() < 0.7:  # a reset instead of an orderly close
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            sock.close()
        wait_for(lambda: s.ask("CLIENT", "LIST").count(b"\n") <= 3, what="connections to close")


# ---- Large numbers -----------------------------------------------------------------------------

BAD = [
    (b"*2\r\n$4\r\nECHO\r\n$536870912\r\n", b"invalid bulk length"),
    (b"*2\r\n$4\r\nECHO\r\n$99999999999999999999\r\n", b"invalid bulk length"),
    (b"*2\r\n$4\r\nECHO\r\n$-1\r\n", b"invalid bulk length"),
    (b"*1048577\r\n", b"invalid multibulk length"),
    (b"*9223372036854775807\r\n", b"invalid multibulk length"),
    (b"*x\r\n", b"invalid multibulk length"),
    (b"*1\r\n" * 10000, b"expected '$', got '*'"),
    (b"*1\r\n:1\r\n", b"expected '$', got ':'"),
    (b"x" * 70000, b"too big inline request"),
    (b"*" + b"1" * 70000, b"too big"),
    (b"ECHO \"\r\n", b"unbalanced quotes"),
]


def test_bad_requests(s):
    before = s.memory()
    with Witness(s):
        for request, words in BAD * work(20):
            with raw_connection(s) as sock:
                try:
                    sock.sendall(encode("PING") + request)
                except ConnectionError:
                    pass
                answer = read_all(sock)
                assert answer.startswith(b"+PONG\r\n-ERR Protocol error: "), (request[:40], answer)
                assert words in answer, (request[:40], answer)
    grows_less(s, before, 16 * MI, "after bad requests")


def test_announced_but_never_sent(s):
    """Memory usage grows with the number of bytes received, not with the announced sizes."""
    before = s.memory()
    socks = []
    with Witness(s):
        for i in range(200):
            sock = raw_connection(s)
            sock.sendall([b"*2\r\n$4\r\nECHO\r\n$67108864\r\nabc", b"*1000000\r\n$4\r\nECHO\r\n",
                          b"*1048576\r\n" + b"$1\r\nx\r\n" * 10][i % 3])
            socks.append(sock)
        assert s.ask("PING") == Status("PONG")
        grows_less(s, before, 24 * MI, "with 200 connections that announced 64 MiB or a million arguments")
    for sock in socks:
        sock.close()


def test_large_requests_that_are_allowed(s):
    with Witness(s), s.connect() as c:
        big = os.urandom(60 * MI)
        assert c.ask("ECHO", big) == big
        del big
        assert c.ask("EXISTS", *(["nothing"] * 1000000)) == 0
        c.ask("BF.RESERVE", "k", "0.01", "1000000")
        answers = c.ask("BF.MADD", "k", *range(1000000))
        assert len(answers) == 1000000
        assert sum(c.ask("BF.MEXISTS", "k", *range(0, 1000000, 7))) == len(range(0, 1000000, 7))
    if not is_sanitized(s):
        wait_for(lambda: s.memory() < 400 * MI, what="memory to be freed")


@alone
def test_strangers_get_less(program):
    """Clients that have not logged in cannot cause large allocations."""
    with Service(program, "requirepass sesame") as s:
        before = s.memory()
        for request in (b"*11\r\n", b"*2\r\n$4\r\nAUTH\r\n$16385\r\n"):
            with raw_connection(s) as sock:
                sock.sendall(request)
                assert b"-ERR Protocol error: unauthenticated" in read_all(sock)
        socks = []
        for _ in range(200):
            sock = raw_connection(s)
            sock.sendall(b"*2\r\n$4\r\nAUTH\r\n$16384\r\n" + b"x" * 16000)
            socks.append(sock)
        with s.connect() as c:
            assert c.ask("AUTH", "sesame") == Status("OK")
        grows_less(s, before, 24 * MI, "with 200 clients that are not logged in")
        for sock in socks:
            sock.close()


# ---- Time --------------------------------------------------------------------------------------


@alone
def test_slow_senders(program):
    """If a request is not completed in time, its connection is closed. A connection without an incomplete request stays
    open."""
    with Service(program, "slow-client-timeout 1s") as s:
        idle = s.connect()
        with Witness(s):
            socks = [raw_connection(s) for _ in range(50)]
            for sock in socks:
                sock.sendall(b"*2\r\n$4\r\nECHO\r\n$100000\r\n")
            gone = threading.Event()

            def drip():
                while not gone.is_set():
                    for sock in socks:
                        try:
                            sock.send(b"x")
                        except OSError:
                            pass
                    gone.wait(0.05)

            thread = threading.Thread(target=drip, daemon=True)
            thread.start()
            try:
                wait_for(lambda: s.ask("CLIENT", "LIST").count(b"\n") <= 3,
                         what="slow senders to be disconnected")
            finally:
                gone.set()
                thread.join()
            for sock in socks:
                sock.close()
        assert idle.ask("PING") == Status("PONG")
        assert b"timed_out_connections:50" in s.ask("INFO", "stats")
        idle.close()


@alone
def test_never_read(program):
    """The service stops serving a client that does not read its replies, and eventually disconnects it."""
    with Service(program, "slow-client-timeout 2s", "client-output-buffer-limit 4Mi") as s:
        before = s.memory()
        with Witness(s):
            socks = [raw_connection(s) for _ in range(20)]
            for sock in socks:
                sock.setblocking(False)
            request = encode("ECHO", "x" * 1000) * 100
            end = time.monotonic() + service.PATIENCE
            while socks and time.monotonic() < end:
                for sock in list(socks):
                    try:
                        while True:
                            sock.send(request)
                    except BlockingIOError:
                        pass
                    except ConnectionError:
                        socks.remove(sock)
                        sock.close()
                time.sleep(0.02)
                assert is_sanitized(s) or s.memory() - before < 300 * MI
            assert not socks, f"{len(socks)} connections are still open"
        grows_less(s, before, 64 * MI, "after 20 clients that never read were disconnected")


@alone
def test_idle_timeout(program):
    with Service(program, "timeout 1s") as s:
        with s.connect() as c:
            assert c.ask("PING") == Status("PONG")
            assert c.is_closed()


# ---- Pipelines ---------------------------------------------------------------------------------


def test_endless_pipeline(s):
    """A million requests are sent before any reply is read. All requests are answered in order."""
    n = work(1000000)
    s.ask("BF.RESERVE", "k", "0.01", str(n))
    before = s.memory()
    piece = 10000
    with Witness(s), s.connect() as c:
        def send():
            for at in range(0, n, piece):
                c.send(b"".join(encode("BF.ADD" if i % 2 else "BF.EXISTS", "k", i // 2)
                                for i in range(at, at + piece)))

        thread = threading.Thread(target=send, daemon=True)
        thread.start()
        # Reads no replies until the buffers on both sides are full and the sender is blocked.
        last = -1
        while thread.is_alive():
            waits = s.ask("INFO", "stats")
            count = int(waits.split(b"total_net_input_bytes:")[1].split(b"\r")[0])
            if count - last < 2000:
                break
            last = count
            time.sleep(0.2)
        stuck = thread.is_alive()
        grows_less(s, before, 160 * MI, f"while no replies were read ({'sender blocked' if stuck else 'all requests sent'})")
        wrong = 0
        for i in range(n):
            line = c.line()
            assert line in (b":0", b":1"), line
            wrong += i % 2 == 0 and line == b":1"  # a false positive, because the key was queried before it was added
        thread.join()
        assert c.ask("PING") == Status("PONG")
        assert wrong < n / 2 * 0.02, wrong
    grows_less(s, before, 64 * MI, "afterwards")


def test_pipelines_of_all_sorts(s):
    """Several connections send long pipelines with a mix of batches, jobs, errors and transactions."""
    def drive(part, wrong):
        try:
            rng = random.Random(part)
            with s.connect() as c:
                for _ in range(work(20)):
                    requests, expected = mixed(rng, part)
                    answers = c.pipeline(requests)
                    for request, answer, right in zip(requests, answers, expected):
                        assert right is None or answer == right, (request, answer, right)
        except Exception as error:  # pylint: disable=broad-except
            wrong.append(repr(error))

    wrong = []
    with Witness(s):
        threads = [threading.Thread(target=drive, args=(part, wrong), daemon=True) for part in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong, wrong


def mixed(rng, part):
    """Returns random requests and their expected replies, with None for each reply that is not predictable."""
    requests, expected = [], []
    for i in range(rng.randrange(50, 400)):
        kind = rng.randrange(8)
        key = f"p{part}:{rng.randrange(3)}"
        item = f"{rng.random()}"
        if kind < 3:
            requests += [("BF.ADD", key, item), ("BF.EXISTS", key, item)]
            expected += [None, 1]
        elif kind == 3:
            requests += [("KEYS", "nosuch*"), ("ECHO", item)]
            expected += [[], item.encode()]
        elif kind == 4:
            requests += [("MULTI",), ("ECHO", i), ("BF.ADD", key, item), ("EXEC",)]
            expected += [Status("OK"), Status("QUEUED"), Status("QUEUED"), None]
        elif kind == 5:
            requests += [("BF.ADD", key)]
            expected += [Error("ERR wrong number of arguments for 'bf.add' command")]
        elif kind == 6:
            requests += [("CF.ADD", key + "c", item), ("CF.EXISTS", key + "c", item),
                         ("CF.DEL", key + "c", item)]
            expected += [1, 1, 1]
        else:
            requests += [("SCAN", "0", "MATCH", "nosuch"), ("CLIENT", "GETNAME")]
            expected += [None, None]
    return requests, expected


# ---- Noise -------------------------------------------------------------------------------------


def noise(rng):
    kind = rng.randrange(4)
    if kind == 0:
        return rng.randbytes(rng.randrange(1, 5000))
    if kind == 1:  # characters that have a special meaning in the protocol
        return bytes(rng.choice(b"*$:+-\r\n0123456789 \"'x") for _ in range(rng.randrange(1, 400)))
    data = bytearray(encode("BF.MADD", "k", *range(rng.randrange(1, 30))) * rng.randrange(1, 10))
    for _ in range(rng.randrange(1, 10)):
        data[rng.randrange(len(data))] = rng.randrange(256)
    return bytes(data)


def test_noise(s):
    rng = random.Random(11)
    before = s.memory()
    with Witness(s):
        for _ in range(work(1500)):
            with raw_connection(s) as sock:
                try:
                    sock.sendall(noise(rng))
                    sock.shutdown(socket.SHUT_WR)
                    read_all(sock)
                except OSError:
                    pass
    grows_less(s, before, 64 * MI, "after noise")
    assert s.ask("PING") == Status("PONG")


# ---- Crowds ------------------------------------------------------------------------------------


@alone
def test_crowd(program):
    """Thousands of idle connections use little memory each, and other clients are still served."""
    wanted = 10000 if work(1) > 1 else 2000
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, wanted + 1000)), hard))
    wanted = min(wanted, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 500)
    with Service(program, f"maxclients {wanted + 100}", "tcp-backlog 4096") as s:
        before = s.memory()
        with Witness(s):
            crowd = [raw_connection(s) for _ in range(wanted)]
            for sock in crowd[::2]:
                sock.sendall(b"PING\r\n")
            for sock in crowd[::2]:
                assert sock.recv(100) == b"+PONG\r\n"
            assert s.ask("CLIENT", "LIST").count(b"\n") >= wanted
            grows_less(s, before, wanted * 8192 + 16 * MI, f"with {wanted} connections")
            for sock in crowd[::3]:
                sock.sendall(encode("BF.ADD", "k", "x"))
            for sock in crowd[::3]:
                assert sock.recv(100) in (b":0\r\n", b":1\r\n")
            for sock in crowd:
                sock.close()
            wait_for(lambda: s.ask("CLIENT", "LIST").count(b"\n") <= 3, what="connections to close")


@alone
def test_refusals_describe_the_limit(program):
    """Pipelined adds are charged together, but each reply describes the limit, not the size of a batch."""
    limits = {"rate=1 burst=1000": "rate of user shop: over the limit of 1 adds/s; try again in N ms",
              "": "insert-rate: over the limit of 2 adds/s; try again in N ms"}
    for rate, expected in limits.items():
        with Service(program, "insert-rate 2", "insert-burst 1000", f"user shop on >x +@all ~* {rate}") as s, s.connect() as c:
            c.ask("AUTH", "shop", "x")
            replies = c.pipeline([("BF.ADD", "f", str(i)) for i in range(3000)])
            refused = {re.sub("[0-9]+ ms", "N ms", reply) for reply in replies if reply not in (0, 1)}
            assert refused == {"LIMIT " + expected}, refused
    with Service(program, "user shop on >x +@all ~* rate=1 burst=3") as s, s.connect() as c:
        c.ask("AUTH", "shop", "x")
        reply = c.ask("BF.MADD", "f", *range(100))
        assert "LIMIT rate of user shop: more than 3 adds at once; send fewer items together" in reply, reply


@alone
def test_too_many(program):
    with Service(program, "maxclients 20") as s:
        crowd = [s.connect() for _ in range(15)]
        for c in crowd:
            assert c.ask("PING") == Status("PONG")
        more = [raw_connection(s) for _ in range(40)]
        # 5 of the connections may stay open, or a few more if clients that have just left are still counted
        wait_for(lambda: sum(map(has_ended, more)) >= 30, what="connections to be refused")
        assert crowd[0].ask("PING") == Status("PONG")
        for sock in more:
            sock.close()
        for c in crowd:
            c.close()

        def again():
            try:
                with s.connect() as c:
                    return c.ask("PING") == Status("PONG")
            except (Closed, OSError):
                return False
        wait_for(again, what="a new client to be accepted")


@alone
def test_no_descriptors(program):
    """When the service runs out of file descriptors, connected clients are still served. New clients are accepted once
    descriptors are available again."""
    limit = ["prlimit", "--nofile=150:150"]
    with Service(program, "maxclients 1000", prefix=limit) as s:
        first = s.connect()
        assert first.ask("PING") == Status("PONG")
        crowd = [raw_connection(s) for _ in range(200)]
        wait_for(lambda: "cannot accept connections" in s.read_log(), what="file descriptors to run out")
        for _ in range(1000):
            assert first.ask("BF.ADD", "k", "x") in (0, 1)
        for sock in crowd:
            sock.close()
        with s.connect() as c:
            assert c.ask("PING") == Status("PONG")
        first.close()


def has_ended(sock):
    sock.setblocking(False)
    try:
        data = sock.recv(100)
        assert data in (b"", b"-ERR max number of clients reached\r\n"), data
        return True
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def test_come_and_go(s):
    """Opens connections that send almost nothing, as fast as possible."""
    before = s.memory()

    def drive():
        for i in range(work(500)):
            with raw_connection(s) as sock:
                if i % 3:
                    sock.sendall(b"PING\r\n")
                if i % 3 == 2:
                    assert sock.recv(10) == b"+PONG\r\n"

    with Witness(s):
        threads = [threading.Thread(target=drive, daemon=True) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    grows_less(s, before, 32 * MI, "after thousands of short connections")


# ---- Replies -----------------------------------------------------------------------------------


@alone
def test_reply_beyond_the_limit(program):
    """If a single reply exceeds client-output-buffer-limit, the connection is closed and the event is logged."""
    with Service(program, "client-output-buffer-limit 1Mi") as s:
        with Witness(s):
            with s.connect() as c:
                c.send(encode("ECHO", "x" * 2 * MI))
                assert c.is_closed()
            with s.connect() as c:
                c.ask("BF.MADD", "k", *range(100000))
                c.send(encode("BF.MEXISTS", "k", *range(1000000)))  # each answer in the reply takes four bytes
                assert c.is_closed()
        wait_for(lambda: b"overflowed_connections:2" in s.ask("INFO", "stats"))
        assert "client-output-buffer-limit" in s.read_log()


service.main(__doc__)
