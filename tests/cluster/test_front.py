#!/usr/bin/env python3
"""The service as a front: names that it forwards to a cluster of made-up nodes, and what it answers when
these do not.
usage: test_front.py BLOOMGATED [PART OF A NAME...]"""

import os
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../server"))

import fake_nodes  # noqa: E402
import service  # noqa: E402
import shard_reference  # noqa: E402

KEYS = [f"key-{i}" for i in range(300)]


class Front:
    """A service before a cluster of its own."""

    def __init__(self, program, *words, lines=()):
        self.cluster = fake_nodes.FakeCluster(3)
        for name in shard_reference.names("seen", 16):
            self.cluster.owner(shard_reference.slot(name)).keys[name.encode()] = set()
        line = f"sharded seen nodes={self.cluster.addresses()} timeout=500ms patience=600ms " + " ".join(words)
        self.service = service.Service(program, line, *lines)

    def __enter__(self):
        return self, self.service.__enter__()

    def __exit__(self, *why):
        self.service.__exit__(*why)
        self.cluster.close()

    def down(self):
        self.cluster.trouble = lambda node, words: b"-CLUSTERDOWN The cluster is down\r\n"

    def up(self):
        self.cluster.trouble = lambda node, words: None


@service.alone
def test_forwards(program):
    with Front(program) as (front, s):
        assert s.ask("BF.ADD", "seen", "a") == 1
        assert s.ask("BF.ADD", "seen", "a") == 0
        assert s.ask("BG.MADD", "seen", "a", *KEYS) == [0] + [1] * 300
        assert s.ask("BF.MADD", "seen", "b", "a") == [1, 0]
        assert s.ask("BG.ADD", "seen", "c") == 1
        assert s.ask("BF.EXISTS", "seen", "a") == 1 == s.ask("BG.EXISTS", "seen", "c")
        assert s.ask("BG.EXISTS", "seen", "x") == 0 == s.ask("BF.EXISTS", "seen", "x")
        assert s.ask("BF.MEXISTS", "seen", "x", *KEYS, "y") == [0] + [1] * 300 + [0]
        assert front.cluster.members() == {key.encode() for key in KEYS + ["a", "b", "c"]}
        for name in shard_reference.names("seen", 16):  # each where it belongs
            for key in front.cluster.owner(shard_reference.slot(name)).keys[name.encode()]:
                assert shard_reference.names("seen", 16)[shard_reference.route(key, 16)] == name
        with s.connect() as c:
            c.ask("HELLO", "3")
            assert c.ask("BG.MEXISTS", "seen", "a", "x") == [True, False]
            assert c.ask("BF.ADD", "seen", "d") is True
        facts = s.ask("INFO", "sharded").decode()
        assert "sharded_seen:shards=16,state=up,adds=307,failed=0,questions=308,unanswered=0" in facts, facts


@service.alone
def test_replies_stay_in_order(program):
    with Front(program) as (_, s):
        with s.connect() as c:
            requests, expected = [], []
            for key in KEYS[:50]:
                requests += [("BF.EXISTS", "seen", key), ("BF.ADD", "seen", key), ("PING",), ("BF.ADD", "local", key),
                             ("BF.EXISTS", "seen", key)]
                expected += [0, 1, "PONG", 1, 1]
            assert c.pipeline(requests) == expected


@service.alone
def test_pipelines_are_batches(program):
    """Runs of single requests, what stands between them, and one that the run does not end with."""
    with Front(program) as (front, s):
        with s.connect() as c:
            adds = [("BF.ADD", "seen", key) for key in KEYS]
            asks = [("BG.EXISTS", "seen", key) for key in ["x", *KEYS, "y"]]
            for node in front.cluster.nodes:
                node.seen.clear()
            answers = c.pipeline([*adds, ("PING",), *asks, ("BF.ADD", "local", "a"), *adds[:3]])
            assert answers == [1] * 300 + ["PONG", 0] + [1] * 300 + [0, 1, 0, 0, 0], answers
            sent = sum(words[0].startswith(b"BG.") for node in front.cluster.nodes for words in node.seen)
            assert sent < 200, f"{sent} requests"
            c.send(b"".join(service.encode(*words) for words in
                            [*asks[:2], ("CLIENT", "REPLY", "SKIP"), *asks[:1], ("PING",), *asks[:1], ("MULTI",), ("PING",),
                             ("EXEC",), ("QUIT",)]))
            assert [c.reply() for _ in range(8)] == [0, 1, "PONG", 0, "OK", "QUEUED", ["PONG"], "OK"]
        with s.connect() as c:  # what is no request is said behind the replies to those that are
            c.send(service.encode(*asks[0]) + service.encode(*asks[1]) + b"*1\r\n$x\r\n" + service.encode("PING"))
            assert [c.reply(), c.reply()] == [0, 1]
            assert c.reply().startswith("ERR Protocol error") and c.is_closed()
        front.down()
        with s.connect() as c:
            answers = c.pipeline([*asks[:5], *adds[:5], *asks[:1]])
            assert answers[:5] == [1] * 5 and answers[10] == 1, answers
            assert all(a.startswith("FAILED") for a in answers[5:10]), answers


@service.alone
def test_doubt_is_maybe(program):
    with Front(program) as (front, s):
        assert s.ask("BF.ADD", "seen", "a") == 1
        front.down()
        assert s.ask("BF.EXISTS", "seen", "x") == 1
        assert s.ask("BG.MEXISTS", "seen", "a", "x") == [1, 1]
        for words in (("BF.ADD", "seen", "x"), ("BG.MADD", "seen", "x", "y")):
            assert s.ask(*words).startswith("FAILED the cluster did not answer: "), words
        assert "state=down" in s.ask("INFO", "sharded").decode()
        front.up()
        service.wait_for(lambda: s.ask("BF.EXISTS", "seen", "x") == 0, what="the cluster to be asked again")
        assert s.ask("BF.EXISTS", "seen", "a") == 1
        log = s.read_log()
        assert log.count("the cluster does not answer") == 1 and "the cluster answers again" in log, log


@service.alone
def test_some_shards_fail(program):
    """Those that answer are believed; a list of adds is cut where the first is not in."""
    with Front(program) as (front, s):
        front.cluster.trouble = lambda node, words: \
            b"-FULL no room\r\n" if node.number == 2 and words[0] == b"BG.MADD" else None
        names = shard_reference.names("seen", 16)
        there = [front.cluster.owner(shard_reference.slot(names[shard_reference.route(key.encode(), 16)])).number
                 for key in KEYS]
        keys = [KEYS[there.index(0)], KEYS[there.index(1)], KEYS[there.index(2)], *KEYS]
        answer = s.ask("BG.MADD", "seen", *keys)
        assert answer[:-1] == [1, 1] and answer[-1].startswith("FULL the shard '{"), answer
        assert s.ask("BG.MADD", "seen", *keys[2:]).startswith("FULL"), "none before the first that is not in"
        front.cluster.trouble = lambda node, words: b"-NOFILTER gone\r\n" if node.number == 2 else None
        assert s.ask("BG.MEXISTS", "seen", *KEYS).startswith("NOFILTER"), "a shard that is missing is no doubt"


@service.alone
def test_what_is_not_forwarded(program):
    with Front(program) as (_, s):
        for words in (("BG.CREATE", "seen"), ("BF.RESERVE", "seen", "0.1", "10"), ("BG.DROP", "seen"), ("DEL", "seen"),
                      ("BG.INFO", "seen"), ("BG.MERGE", "other", "seen"), ("RENAME", "other", "seen"),
                      ("BF.INSERT", "seen", "ITEMS", "a"), ("CF.ADD", "seen", "a")):
            answer = s.ask(*words)
            assert isinstance(answer, service.Error) and "over a cluster" in answer, (words, answer)
        with s.connect() as c:
            assert c.ask("MULTI") == "OK"
            assert "over a cluster" in c.ask("BF.ADD", "seen", "a")
            assert c.ask("EXEC").startswith("EXECABORT")
        assert s.ask("BF.ADD", "seen").startswith("ERR wrong number of arguments")
        assert s.ask("BF.ADD", "seen2", "a") == 1, "another name is another filter"


@service.alone
def test_rights_and_rates(program):
    lines = ("user default on nopass +@all ~*", "user few on >pw-of-few-and-long +@all ~seen rate=3",
             "user other on >pw-of-other-and-long +@all ~other")
    with Front(program, lines=lines) as (_, s):
        with s.connect() as c:
            assert c.ask("AUTH", "other", "pw-of-other-and-long") == "OK"
            assert c.ask("BF.ADD", "seen", "a").startswith("NOPERM")
            assert c.ask("BF.EXISTS", "seen", "a").startswith("NOPERM")
            assert c.ask("AUTH", "few", "pw-of-few-and-long") == "OK"
            assert c.ask("BF.MADD", "seen", *KEYS[:200]).startswith("LIMIT insert-rate")


@service.alone
def test_nobody_else_waits(program):
    """While the cluster hangs, the event loops serve others."""
    with Front(program, lines=("workers 1",)) as (front, s):
        hanging = threading.Event()

        def hang(node, words):
            if words[0] == b"BG.MEXISTS":
                hanging.set()
                raise fake_nodes.Hang()
        front.cluster.trouble = hang
        with s.connect() as waiting, s.connect() as other:
            waiting.send(service.encode("BF.EXISTS", "seen", "x"))
            assert hanging.wait(30)
            waiting.socket.setblocking(False)
            for i in range(100):
                assert other.ask("BF.ADD", "local", i) == 1
            try:
                early = waiting.socket.recv(1)
                assert not early, "it was answered before the others: no test"
            except BlockingIOError:
                pass
            waiting.socket.settimeout(30)
            assert waiting.reply() == 1


@service.alone
def test_stops_meanwhile(program):
    front = Front(program)
    front.cluster.trouble = lambda node, words: (_ for _ in ()).throw(fake_nodes.Hang())
    with front.service as s:
        with s.connect() as c:
            c.send(service.encode("BF.ADD", "seen", "x"))
            service.wait_for(lambda: any(node.seen for node in front.cluster.nodes), what="the call")
            s.stop()
    front.cluster.close()


@service.alone
def test_settings(program):
    def check(line):
        path = os.path.join(os.path.dirname(s.log), "try.conf")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"sharded {line}\n")
        done = subprocess.run([program, path, "--check-config"], capture_output=True, text=True)
        return done.returncode, done.stderr
    s = service.Service(program)
    try:
        assert check("seen nodes=h:1,h:2 shards=1024 replicas=2 timeout=1s patience=3s user=u password=p")[0] == 0
        for line, what in (("seen", "nodes: found nothing"), ("seen nodes=", "nodes: expected HOST:PORT"),
                           ("seen nodes=h:1 shards=0", "shards: expected 1 to 1024"),
                           ("seen nodes=h:1 shards=1025", "shards: expected"), ("seen nodes=h:1 shard=3", "did you mean shards=?"),
                           ("seen nodes=h:1 timeout=0", "timeout: expected"), ("seen nodes=h:1 x", "expected NAME=VALUE"),
                           ("seen nodes=h:1\nsharded seen nodes=h:2", "found another 'seen'")):
            code, said = check(line)
            assert code == 3 and what in said, (line, code, said)
    finally:
        s.remove()


service.main(__doc__)
