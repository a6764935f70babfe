#!/usr/bin/env python3
"""Sends commands that are unrelated to filters to a real redis-server and to the service, in the same order, in RESP2
and RESP3. The replies must be identical byte for byte.
usage: test_against_redis.py PATH-OF-BLOOMGATED [PART-OF-A-NAME...]"""

import os
import shutil
import subprocess
import tempfile

import service
from service import Connection, Skip, encode, free_port, wait_for

# "KEY:name" creates a key: a string in Redis, a filter in the service.
STORIES = {
    "connections": """
        PING | PING x | PING x y | ECHO x | ECHO | ECHO a b | SELECT 0 | SELECT x | SELECT 99999999999
        SELECT 1.5 | CLIENT | CLIENT GETNAME | CLIENT SETNAME joe | CLIENT GETNAME | CLIENT SETNAME
        CLIENT SETNAME a=b | CLIENT GETNAME | CLIENT REPLY FOO | CLIENT NO-EVICT ON | CLIENT NO-EVICT x
        CLIENT NO-EVICT | CLIENT KILL 1.2.3.4:5 | CLIENT KILL ID x | CLIENT KILL ID 0
        CLIENT KILL ID 99999999 | CLIENT KILL FOO bar | CLIENT KILL TYPE foo | CLIENT KILL ADDR x:1
        CLIENT KILL SKIPME foo | CLIENT KILL ID 1 TYPE | CLIENT KILL
        CLIENT LIST TYPE foo | CLIENT LIST TYPE | CLIENT LIST ID x | CLIENT LIST FOO
        CLIENT LIST TYPE master | CLIENT GETREDIR | CLIENT TRACKINGINFO | CLIENT UNPAUSE
        CLIENT UNBLOCK 99999 | CLIENT UNBLOCK x | CLIENT UNBLOCK 1 FOO | CLIENT NOSUCH
        CLIENT ID x | CLIENT INFO x
        READONLY | READWRITE | ASKING | CLUSTER INFO | CLUSTER SLOTS | CLUSTER | RESET x | AUTH x | AUTH
        AUTH default x | AUTH nobody x | AUTH a b c | HELLO x | HELLO 1 | HELLO 4 | HELLO 2 FOO
        HELLO 2 AUTH x | HELLO 2 AUTH nobody x | HELLO 2 SETNAME | HELLO 3 SETNAME "a b"
        NOSUCH | NOSUCH a b c | nosuch "a b" | "" | QUIT""",
    "transactions": """
        EXEC | DISCARD | MULTI x | MULTI | MULTI | PING | ECHO x | EXEC | EXEC | MULTI | DISCARD
        MULTI | PING x y | EXEC | MULTI | NOSUCH | PING | EXEC | MULTI | PING | ECHO | DISCARD | EXEC
        MULTI | EXISTS k | TTL k | CLIENT GETNAME | CLIENT NOSUCH | EXEC
        MULTI | SELECT x | EXPIRE k x | PING | EXEC""",
    "names": """
        DBSIZE | EXISTS k | EXISTS | DEL k | DEL | UNLINK k | TYPE k | TYPE | RENAME k l | RENAMENX k l
        TTL k | PTTL k | EXPIRETIME k | PEXPIRETIME k | PERSIST k | EXPIRE k 10 | EXPIRE k x | EXPIRE k
        TOUCH k | RANDOMKEY | KEYS * | KEYS | SCAN 0 | SCAN x | SCAN 0 COUNT 0 | SCAN 0 COUNT x
        SCAN 0 FOO | SCAN 0 MATCH | SCAN 0 COUNT | SCAN 0 MATCH a COUNT 5 | SCAN
        COPY k l | COPY k k | COPY k l DB x | COPY k l DB -1 | COPY k l FOO | COPY k
        OBJECT ENCODING k | OBJECT FREQ k | OBJECT IDLETIME k | OBJECT REFCOUNT k | OBJECT NOSUCH k
        OBJECT ENCODING | OBJECT | MEMORY USAGE k | MEMORY USAGE k SAMPLES x | MEMORY USAGE k SAMPLES -1
        MEMORY USAGE k FOO 1 | MEMORY USAGE | FLUSHALL FOO | FLUSHDB ASYNC | FLUSHALL SYNC | FLUSHALL a b
        KEY:k | EXISTS k k | DBSIZE | TOUCH k x | RENAMENX k k | RENAME k k | KEY:l | RENAMENX k l
        RENAME k m | EXISTS k m | TTL m | PTTL m | EXPIRETIME m | PERSIST m | KEYS m | KEYS [mn] | KEYS m* | KEYS ?x
        OBJECT FREQ m | OBJECT REFCOUNT m | SCAN 0 TYPE nosuch | COPY m k | COPY m k | COPY m k REPLACE
        EXISTS k l m | DEL k l m | DBSIZE""",
    "expiry": """
        KEY:k | EXPIRE k 100 FOO | EXPIRE k 100 NX XX | EXPIRE k 100 NX GT | EXPIRE k 100 GT LT
        EXPIRE k 9223372036854775807 | PEXPIRE k 9223372036854775807 | EXPIRE k -9223372036854775808
        EXPIREAT k 9223372036854775807 | EXPIRE k 1e3 | EXPIRE k 010 | EXPIRE k +1 | EXPIRE k ""
        EXPIRE k 100 XX | EXPIRE k 100 GT | TTL k | EXPIRE k 100 LT | TTL k | EXPIRE k 200 LT | EXPIRE k 200 NX
        EXPIRE k 200 GT | TTL k | EXPIRE k 100 XX | TTL k | PERSIST k | PERSIST k | TTL k
        EXPIREAT k 4000000000 | EXPIRETIME k | PEXPIRETIME k | PEXPIREAT k 4000000000500 | EXPIRETIME k
        PEXPIRETIME k | PEXPIREAT k 4000000000499 | EXPIRETIME k | EXPIREAT k 4000000001 NX XX
        EXPIRE k 0 | EXISTS k | KEY:k | EXPIRE k -5 | EXISTS k | KEY:k | PEXPIREAT k 1 | EXISTS k
        KEY:k | EXPIREAT k -1 | EXISTS k | KEY:k | EXPIRE k 100 | RENAME k l | TTL l | COPY l k | TTL k""",
    "questions": """
        ROLE | WAIT 0 0 | WAIT x 0 | WAIT 0 x | WAIT 0 -1 | WAIT 0 | TIME x | LASTSAVE x | BGSAVE FOO | SHUTDOWN FOO
        SHUTDOWN ABORT | SHUTDOWN SAVE NOSAVE | SLOWLOG GET x | SLOWLOG GET -2 | SLOWLOG RESET | SLOWLOG LEN
        SLOWLOG GET | SLOWLOG GET 5 | SLOWLOG | SLOWLOG NOSUCH | ACL WHOAMI | ACL CAT nosuch | ACL CAT a b | ACL
        ACL USERS | CONFIG | CONFIG GET | CONFIG GET nosuch | CONFIG GET databases | CONFIG SET nosuch 1 | CONFIG SET a
        CONFIG SET a b c | CONFIG RESETSTAT | CONFIG GET save | CONFIG NOSUCH | COMMAND COUNT x | COMMAND NOSUCH
        COMMAND GETKEYS | COMMAND GETKEYS nosuch x | COMMAND GETKEYS DEL a b c | COMMAND GETKEYS PING x
        COMMAND GETKEYS TTL a b | COMMAND GETKEYS RENAME a b | COMMAND GETKEYS EXPIRE a 1
        COMMAND GETKEYSANDFLAGS TTL a | COMMAND INFO nosuch | COMMAND DOCS nosuch | COMMAND LIST FOO
        COMMAND LIST FILTERBY FOO bar | COMMAND LIST FILTERBY MODULE nosuch | COMMAND LIST FILTERBY PATTERN nosuch
        COMMAND LIST FILTERBY ACLCAT nosuch | COMMAND LIST FILTERBY PATTERN ttl
        INFO nosuch | MODULE | MODULE NOSUCH""",
}


def split(line):
    """Splits a request into words. Quoted text, such as "a b", is one word."""
    words, quoted = [], False
    for part in line.split('"'):
        words += [part] if quoted else part.split()
        quoted = not quoted
    return words


def requests(story):
    return [split(part) for line in story.splitlines() for part in line.split("|") if part.strip()]


class Redis:
    def __init__(self):
        if not shutil.which("redis-server"):
            raise Skip("redis-server is not installed (Debian: redis-server)")
        self.folder = tempfile.mkdtemp(prefix="bloomgated-test-redis-")
        self.port = free_port()
        self.process = subprocess.Popen(
            [*service.MORTAL, "redis-server", "--port", str(self.port), "--dir", self.folder, "--save", "",
             "--databases", "1"], stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)
        wait_for(self.is_ready, what="redis-server")

    def is_ready(self):
        try:
            with Connection(self.port) as c:
                return c.ask("PING") == "PONG"
        except OSError:
            return False

    def stop(self):
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.folder)


def raw(c):
    """Returns one reply as bytes."""
    line = c.line()
    whole = line + b"\r\n"
    kind, rest = line[:1], line[1:]
    if kind in b"$=" and rest != b"-1":
        return whole + c.string(int(rest)) + b"\r\n"
    if kind in b"*~" and rest != b"-1":
        return whole + b"".join(raw(c) for _ in range(int(rest)))
    if kind == b"%":
        return whole + b"".join(raw(c) for _ in range(2 * int(rest)))
    return whole


def play(port, story, protocol, make):
    """Returns all replies to a sequence of requests."""
    answers = []
    with Connection(port) as c:
        c.ask("FLUSHALL")
        c.ask("HELLO", str(protocol))
        for words in requests(story):
            if words[0].startswith("KEY:"):
                c.ask(make, words[0][4:], "x")
                continue
            c.send(encode(*words))
            answers.append((words, raw(c)))
    return answers


def same(words, a, b):
    """Returns whether two replies are the same. If a name expires, TTL replies differ by the time between the
    requests."""
    return a == b or (words[0] == "TTL" and int(a[1:]) > 0 and int(b[1:]) > 0)


def compare(s, name):
    redis = Redis()
    try:
        wrong = []
        for protocol in (2, 3):
            theirs = play(redis.port, STORIES[name], protocol, "SET")
            ours = play(s.port, STORIES[name], protocol, "BF.ADD")
            assert len(theirs) == len(ours) == len([w for w in requests(STORIES[name])
                                                    if not w[0].startswith("KEY:")])
            wrong += [f"RESP{protocol} {' '.join(words)}\n    redis {expected!r}\n    ours  {found!r}"
                      for (words, expected), (_, found) in zip(theirs, ours)
                      if not same(words, expected, found)]
        assert not wrong, "\n" + "\n".join(wrong)
    finally:
        redis.stop()


def test_connections(s):
    compare(s, "connections")


def test_transactions(s):
    compare(s, "transactions")


def test_names(s):
    compare(s, "names")


def test_expiry(s):
    compare(s, "expiry")


def test_questions(s):
    compare(s, "questions")


service.main(__doc__)
