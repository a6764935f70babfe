#!/usr/bin/env python3
"""Tests that a client does not block the other connections of its worker by creating, copying or changing a large
filter.

    tests/server/test_stalls.py PATH-OF-BLOOMGATED [part of a test's name]...

No test depends on timing. The service has one worker, so the order of replies shows whether a
request blocked it. The number of page faults shows how much memory the creation of a filter touches."""

import base64
import hashlib
import select
import socket

import service
from service import encode

LARGE = 30000000  # number of items; a counting filter with this capacity uses 64 MiB
NEIGHBORS = 3


def readable(connection):
    return bool(select.select([connection.socket], [], [], 0)[0])


def overtakes(s, examine, change):
    """Returns whether requests on a neighboring connection are answered while the request `change` waits for the
    request `examine`. The service may read the neighbor's first request before `change`, so NEIGHBORS requests are sent
    one after another. Several connections send `examine`, and `change` follows their first reply, so that another
    `examine` is most likely running. On a busy machine, its thread may start too late, so several attempts are made."""
    long = [s.connect() for _ in range(3)]
    try:
        with s.connect() as waits, s.connect() as neighbor:
            for _ in range(200):
                for connection in long:
                    connection.send(encode(*examine) * 3)
                assert not isinstance(long[0].reply(), service.Error)
                waits.send(encode(*change))
                answered = 0
                while answered < NEIGHBORS and neighbor.ask("PING") == "PONG" and not readable(waits):
                    answered += 1
                for connection, n in zip((*long, waits), (2, 3, 3, 1)):
                    for _ in range(n):
                        assert not isinstance(connection.reply(), service.Error)
                if answered == NEIGHBORS:
                    return True
        return False
    finally:
        for connection in long:
            connection.close()


def test_deleting_waits_without_its_worker(s):
    assert s.ask("CF.RESERVE", "large", LARGE) == "OK"
    assert overtakes(s, ("BG.DIGEST", "large"), ("CF.DEL", "large", "absent"))


def test_adding_waits_without_its_worker(s):
    assert s.ask("CF.RESERVE", "large", LARGE) == "OK"
    assert overtakes(s, ("BG.DIGEST", "large"), ("CF.ADD", "large", "item"))
    assert s.ask("CF.COUNT", "large", "item") >= 1


def test_a_transaction_waits_without_its_worker(s):
    assert s.ask("CF.RESERVE", "large", LARGE) == "OK"
    with s.connect() as c:
        replies = c.pipeline([("MULTI",), ("CF.ADD", "large", "a"), ("CF.DEL", "large", "a"),
                              ("EXEC",), ("CF.EXISTS", "large", "a")])
        assert replies[3:] == [[1, 1], 0]


def test_waiting_writers_leave_threads_to_others(s):
    """Even if the number of connections waiting for one filter exceeds the number of job threads, jobs for another
    filter still run."""
    assert s.ask("CF.RESERVE", "large", LARGE) == "OK"
    assert s.ask("BF.RESERVE", "other", "0.01", 1000) == "OK"
    writers = [s.connect() for _ in range(12)]
    with s.connect() as long, s.connect() as neighbor:
        answered = 0
        for _ in range(200):
            long.send(encode("BG.DIGEST", "large") * 4)
            assert long.reply()
            for writer in writers:
                writer.send(encode("CF.ADD", "large", "item"))
            answered = 0
            while answered < 5 and neighbor.ask("BG.DIGEST", "other") \
                    and not any(readable(writer) for writer in writers):
                answered += 1
            for connection, n in [(long, 3)] + [(writer, 1) for writer in writers]:
                for _ in range(n):
                    assert not isinstance(connection.reply(), service.Error)
            if answered == 5:
                break
        assert answered == 5
    for writer in writers:
        writer.close()


@service.alone
def test_requests_with_many_arguments(program):
    """Requests with many arguments take a long time, so they run as jobs, both alone and in a transaction, and wait for
    the only job thread."""
    with service.Service(program, "workers 1", "jobs 1", "appendfsync no") as s:
        assert s.ask("CF.RESERVE", "large", LARGE) == "OK"
        with s.connect() as long, s.connect() as many:
            for count, is_job in ((5000, True), (1000, False)):
                names = [f"name {i}" for i in range(count)]
                for words in (("EXISTS", *names), ("EXEC",)):
                    if words == ("EXEC",):
                        assert many.ask("MULTI") == "OK"
                        assert many.pipeline([("EXISTS", *names[at:at + 500]) for at in range(0, count, 500)])[-1] == "QUEUED"
                    long.send(encode("BG.DIGEST", "large"))
                    assert s.ask("PING") == "PONG"  # by now, the service has read the BG.DIGEST request
                    assert many.ask(*words) in (0, [0] * (count // 500))
                    for _ in range(2):  # the only worker may send the replies of two finished jobs in either order
                        assert s.ask("PING") == "PONG"
                    assert not is_job or readable(long), words
                    assert long.reply()


@service.alone
def test_users_leave_threads_to_others(program):
    """One user has more jobs than there are job threads. Another user's job does not wait until all of these jobs have
    finished."""
    with service.Service(program, "workers 1", "jobs 3", "appendfsync no", "user default on nopass +@all ~*", "user other on >x +@all ~*") as s:
        assert s.ask("CF.RESERVE", "large", LARGE) == "OK"
        assert s.ask("BF.RESERVE", "small", "0.01", 1000) == "OK"
        assert s.ask("BG.DIGEST", "small")
        crowd = [s.connect() for _ in range(12)]
        with s.connect() as neighbor:
            assert neighbor.ask("AUTH", "other", "x") == "OK"
            assert neighbor.ask("BG.DIGEST", "small")
            behind = len(crowd)
            for _ in range(20):
                for client in crowd:
                    client.send(encode("BG.DIGEST", "large"))
                assert neighbor.ask("BG.DIGEST", "small")
                behind = min(behind, sum(readable(client) for client in crowd))
                for client in crowd:
                    assert not isinstance(client.reply(), service.Error)
                if behind < len(crowd) // 2:
                    break
            assert behind < len(crowd) // 2, behind
        for client in crowd:
            client.close()


def http_request(s, user, path):
    """Sends a request without a body on a new connection, and returns the connection."""
    client = socket.create_connection(("127.0.0.1", s.http_port), timeout=service.PATIENCE)
    client.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {user}:x\r\nConnection: close\r\n\r\n".encode())
    return client


def http_status(client):
    with client, client.makefile("rb") as file:
        return int(file.read().split()[1])


@service.alone
def test_users_of_http_leave_threads_to_others(program):
    """The per-user job limit also applies to HTTP requests without a body on new connections."""
    with service.Service(program, "workers 1", "jobs 3", "appendfsync no", "user default on nopass +@all ~*",
                         "user one on >x +@all ~*", "user other on >x +@all ~*", http=True) as s:
        assert s.ask("CF.RESERVE", "large", LARGE) == "OK"
        assert s.ask("BF.RESERVE", "small", "0.01", 1000) == "OK"
        for user in ("one", "other"):
            assert http_status(http_request(s, user, "/api/v1/filters/small/file")) == 200
        behind = 12
        for _ in range(20):
            crowd = [http_request(s, "one", "/api/v1/filters/large/file") for _ in range(12)]
            assert http_status(http_request(s, "other", "/api/v1/filters/small/file")) == 200
            behind = min(behind, sum(bool(select.select([client], [], [], 0)[0]) for client in crowd))
            for client in crowd:
                client.close()
            if behind < 6:
                break
        assert behind < 6, behind


def slow_hash(password):
    """Returns a password hash whose verification needs 128 MiB, eight times the default, and takes eight times as
    long."""
    salt = b"0123456789abcdef"
    digest = hashlib.scrypt(password, salt=salt, n=1 << 17, r=8, p=1, dklen=32, maxmem=1 << 28)
    return "$scrypt$ln=17,r=8,p=1$" + "$".join(base64.b64encode(part).decode().rstrip("=") for part in (salt, digest))


@service.alone
def test_passwords_are_checked_one_at_a_time(program):
    """Password checks for clients that have not logged in use only one thread and the memory for one check, no matter
    how many clients there are."""
    with service.Service(program, "workers 1", "jobs 2", "appendonly no", "user default on nopass +@all ~*",
                         "user one on " + slow_hash(b"right"), http=True) as s:
        assert s.ask("BF.RESERVE", "small", "0.01", 1000) == "OK"
        start = s.memory("VmHWM")
        crowd = [s.connect() for _ in range(2)]
        for client in crowd:
            client.send(encode("AUTH", "one", "x"))
        crowd += [http_request(s, "one", "/api/v1/filters") for _ in range(2)]
        assert s.ask("BG.DIGEST", "small")
        sockets = [getattr(client, "socket", client) for client in crowd]
        assert len(select.select(sockets, [], [], 0)[0]) < 3
        for client in crowd[:2]:
            assert isinstance(client.reply(), service.Error)
            client.close()
        assert [http_status(client) for client in crowd[2:]] == [401, 401]
        if not s.keeps_freed_memory():
            assert s.memory("VmHWM") - start < 200 << 20
        with s.connect() as client:
            assert client.ask("AUTH", "one", "right") == "OK"


def test_creating_touches_few_pages(s):
    """A filter of 4 GiB occupies 2048 huge pages (2 MiB), or a million regular pages (4 KiB). Creating it touches about
    a hundred pages, or 1300 with a sanitizer's shadow memory."""
    for words in (("BF.RESERVE", "k", "0.01", 3500000000, "NONSCALING"),
                  ("BF.RESERVE", "k", "0.01", 2500000000),
                  ("CF.RESERVE", "k", 1600000000),
                  ("BG.CREATE", "k", "KIND", "counting", "BYTES", 1 << 32,
                   "CAPACITY", 500000000)):
        before = s.faults()
        assert s.ask(*words) == "OK", words
        touched = s.faults() - before
        assert touched < 1900, (words, touched)
        assert s.ask("DEL", "k") == 1


service.main(__doc__, "workers 1", "jobs 3", "max-filter-memory 40Gi", "maxmemory 60Gi",
             "appendfsync no")
