#!/usr/bin/env python3
"""Tests the service as a front end: how it forwards requests to a cluster of fake nodes, and how it replies when nodes
fail.
usage: test_front.py BLOOMGATED [PART OF A NAME...]"""

import http.client
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../server"))

import fake_nodes  # noqa: E402
import service  # noqa: E402
import shard_reference  # noqa: E402
from http_asker import F, Asker  # noqa: E402

KEYS = [f"key-{i}" for i in range(300)]


class Front:
    """A fake cluster, and a service that is its front end. The service waits for replies until `timeout`. Tests in which
    nodes do not reply set a shorter timeout, which a busy machine must still be able to meet."""

    def __init__(self, program, *words, lines=(), http=False, timeout="60s"):
        self.cluster = fake_nodes.FakeCluster(3)
        for name in shard_reference.names("seen", 16):
            self.cluster.owner(shard_reference.slot(name)).keys[name.encode()] = set()
        line = f"sharded seen nodes={self.cluster.addresses()} timeout={timeout} patience=400ms " + " ".join(words)
        self.service = service.Service(program, line, *lines, http=http)

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
        for name in shard_reference.names("seen", 16):  # every key is in the right shard
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
    """Requests in pipelines are batched. The pipelines contain runs of similar requests, with different requests
    between the runs and at the end."""
    with Front(program) as (front, s):
        with s.connect() as c:
            adds = [("BF.ADD", "seen", key) for key in KEYS]
            asks = [("BG.EXISTS", "seen", key) for key in ["x", *KEYS, "y"]]
            for node in front.cluster.nodes:
                node.seen.clear()
            answers = c.pipeline([*adds, ("PING",), *asks, ("BF.ADD", "local", "a"), *adds[:3]])
            assert answers == [1] * 300 + ["PONG", 0] + [1] * 300 + [0, 1, 0, 0, 0], answers
            sent = sum(words[0].startswith(b"BG.") and not is_watch(words) for node in front.cluster.nodes for words in node.seen)
            assert sent < 300, f"{sent} requests for 605 keys"
            c.send(b"".join(service.encode(*words) for words in
                            [*asks[:2], ("CLIENT", "REPLY", "SKIP"), *asks[:1], ("PING",), *asks[:1], ("MULTI",), ("PING",),
                             ("EXEC",), ("QUIT",)]))
            assert [c.reply() for _ in range(8)] == [0, 1, "PONG", 0, "OK", "QUEUED", ["PONG"], "OK"]
        with s.connect() as c:  # the error for an invalid request follows the replies to valid requests
            c.send(service.encode(*asks[0]) + service.encode(*asks[1]) + b"*1\r\n$x\r\n" + service.encode("PING"))
            assert [c.reply(), c.reply()] == [0, 1]
            assert c.reply().startswith("ERR Protocol error") and c.is_closed()
        front.down()
        with s.connect() as c:
            answers = c.pipeline([*asks[:5], *adds[:5], *asks[:1]])
            assert answers[:5] == [1] * 5 and answers[10] == 1, answers
            assert all(a.startswith("FAILED") for a in answers[5:10]), answers


@service.alone
def test_first_witnesses(program):
    """If a node replies "no witness" just before the watch writes the first witness, it is not reported as lost. The reply
    is delayed until the watch has written all witnesses: first the reply before the lookup, then the reply after it."""
    for late in (False, True):
        front = Front(program)
        watch, looked, written, held = set(), set(), threading.Event(), threading.Event()

        def trouble(_, words, late=late, watch=watch, looked=looked, written=written, held=held):
            me = threading.get_ident()
            if words[0] == b"BG.MEXISTS":
                (watch if words[2:] == [b""] else looked).add(me)
                if me in watch and held.is_set():  # the next round: the watch has received the replies to its writes
                    written.set()
            elif words[0] == b"HSET":
                assert held.wait(service.PATIENCE)
            elif words[0] == b"HGETALL" and me not in watch and (me in looked or not late) and not held.is_set():
                held.set()
                assert written.wait(service.PATIENCE)
                return b"*0\r\n"
            return None

        front.cluster.trouble = trouble
        with front as (_, s):
            assert s.ask("BF.EXISTS", "seen", "x") == 0, (late, s.read_log())
            assert held.is_set() and written.is_set()
            assert "may have lost keys" not in s.read_log(), s.read_log()


@service.alone
def test_slow_first_witnesses(program):
    """If a node takes long to store the first witnesses, a lookup waits for them. They are not reported as lost."""
    front = Front(program)
    keys, asked = of_node(front.cluster, 2)[0], threading.Event()

    def trouble(node, words):
        if node.number == 2 and words[0] == b"HSET":
            assert asked.wait(service.PATIENCE)
    front.cluster.trouble = trouble
    others = sum(front.cluster.owner(shard_reference.slot(name)).number != 2 for name in shard_reference.names("seen", 16))
    with front as (_, s), s.connect() as c:
        service.wait_for(lambda: sum(len(node.hashes) for node in front.cluster.nodes) == others, what="all other witnesses")
        c.send(service.encode("BF.MEXISTS", "seen", *keys))
        time.sleep(1)
        asked.set()
        assert c.reply() == [0] * len(keys), s.read_log()
        assert "may have lost keys" not in s.read_log(), s.read_log()


@service.alone
def test_doubt_is_maybe(program):
    with Front(program) as (front, s):
        assert s.ask("BF.ADD", "seen", "a") == 1
        front.down()
        assert s.ask("BF.EXISTS", "seen", "x") == 1
        assert s.ask("BG.MEXISTS", "seen", "a", "x") == [1, 1]
        for words in (("BF.ADD", "seen", "x"), ("BG.MADD", "seen", "x", "y")):
            assert s.ask(*words).startswith("FAILED the cluster did not answer: "), words
        service.wait_for(lambda: "state=down" in s.ask("INFO", "sharded").decode(), what="the health check to detect the failure")
        front.up()
        service.wait_for(lambda: s.ask("BF.EXISTS", "seen", "x") == 0, what="a new query to the cluster")
        assert s.ask("BF.EXISTS", "seen", "a") == 1
        log = s.read_log()
        assert log.count("shards are not answering") == 1 and "all shards are answering again" in log, log


@service.alone
def test_some_shards_fail(program):
    """Answers from working shards are trusted; the reply to BG.MADD ends at the first key that could not be added."""
    with Front(program) as (front, s):
        front.cluster.trouble = lambda node, words: \
            b"-FULL no room\r\n" if node.number == 2 and words[0] == b"BG.MADD" else None
        names = shard_reference.names("seen", 16)
        there = [front.cluster.owner(shard_reference.slot(names[shard_reference.route(key.encode(), 16)])).number
                 for key in KEYS]
        keys = [KEYS[there.index(0)], KEYS[there.index(1)], KEYS[there.index(2)], *KEYS]
        answer = s.ask("BG.MADD", "seen", *keys)
        assert answer[:-1] == [1, 1] and answer[-1].startswith("FULL the shard '{"), answer
        assert s.ask("BG.MADD", "seen", *keys[2:]).startswith("FULL"), "expected a single error, because the first key could not be added"
        front.cluster.trouble = lambda node, words: \
            b"-NOFILTER gone\r\n" if node.number == 2 and words[0].startswith(b"BG.") else None
        assert str(s.ask("BG.MEXISTS", "seen", *KEYS)).startswith("NOFILTER")


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
        assert s.ask("BF.ADD", "seen2", "a") == 1, "a different filter name was treated as sharded"


@service.alone
def test_rights_and_rates(program):
    lines = ("user default on nopass +@all ~*", "user few on >pw-of-few-and-long +@all ~seen rate=3",
             "user other on >pw-of-other-and-long +@all ~other")
    with Front(program, lines=lines) as (_, s):
        with s.connect() as c:
            assert c.ask("AUTH", "other", "pw-of-other-and-long") == "OK"
            assert c.ask("BF.ADD", "seen", "a").startswith("NOPERM")
            assert c.ask("BF.EXISTS", "seen", "a").startswith("NOPERM")
            assert b"seen" not in c.ask("INFO", "sharded")
            assert c.ask("AUTH", "few", "pw-of-few-and-long") == "OK"
            assert c.ask("BF.MADD", "seen", *KEYS[:200]).startswith("LIMIT rate of user few: more than 3 adds at once")


@service.alone
def test_nobody_else_waits(program):
    """While a node delays its reply, the event loops serve other clients."""
    with Front(program, lines=("workers 1",)) as (front, s):
        waits, done = threading.Event(), threading.Event()

        def delay(_, words):
            if words[0] == b"BG.MEXISTS" and words[-1] == b"x":
                waits.set()
                done.wait(service.PATIENCE)
        front.cluster.trouble = delay
        with s.connect() as waiting, s.connect() as other:
            waiting.send(service.encode("BF.EXISTS", "seen", "x"))
            assert waits.wait(service.PATIENCE)
            for i in range(100):
                assert other.ask("BF.ADD", "local", i) == 1
            assert other.ask("BF.EXISTS", "seen", "y") == 0
            done.set()
            assert waiting.reply() in (0, 1)  # 1 if the requests of the other client took longer than the timeout


@service.alone
def test_stops_meanwhile(program):
    front = Front(program, timeout="2s")
    front.cluster.trouble = lambda node, words: (_ for _ in ()).throw(fake_nodes.Hang())
    with front.service as s:
        with s.connect() as c:
            c.send(service.encode("BF.ADD", "seen", "x"))
            service.wait_for(lambda: any(node.seen for node in front.cluster.nodes), what="the call")
            s.stop()
    front.cluster.close()


# ---- Clusters that fail --------------------------------------------------------------------------


def of_node(cluster, number):
    """Returns the KEYS whose shards are on a node, and the remaining KEYS."""
    names = shard_reference.names("seen", 16)
    at = [cluster.owner(shard_reference.slot(names[shard_reference.route(key.encode(), 16)])).number for key in KEYS]
    return [key for key, node in zip(KEYS, at) if node == number], [key for key, node in zip(KEYS, at) if node != number]


def is_watch(words):
    """Returns true if the request is part of a health check by the service."""
    return words[0] != b"BG.MADD" and (words[-1] in (b"", b"SLOTS", b"replication") or words[-1].endswith(b"/witness"))


def lose(front, number, how=fake_nodes.Cut):
    """Makes a node close every connection or, if `how` is Hang, stop replying."""
    def trouble(node, words):
        if node.number == number:
            raise how(b"")
    front.cluster.trouble = trouble


def wait_for_state(s, state, name="seen"):
    return service.wait_for(lambda: (lambda f: f if f["state"] == state else None)(Asker(s).told("GET", f"/api/v1/fronts/{name}", 200)),
                            what=f"the state {state}")


def figures(s):
    """Returns {metric with labels: value} for all front-end metrics."""
    text = Asker(s).told("GET", "/metrics", 200)
    lines = [line.rsplit(" ", 1) for line in text.decode().splitlines() if line.startswith("bloomgate_front_")]
    return {line[0]: float(line[1]) for line in lines}


@service.alone
def test_one_node_is_lost(program):
    """Only lookups of keys on the failed node are answered "maybe". No client waits for the node, and the node is
    used again when it recovers."""
    with Front(program, http=True) as (front, s):
        gone, there = of_node(front.cluster, 2)
        assert s.ask("BF.MADD", "seen", *gone[:2], *there[:2]) == [1] * 4
        wait_for_state(s, "up")
        lose(front, 2)
        # Detected without any client request. The round of health checks during which the node was lost may have reached it.
        facts = service.wait_for(lambda: (lambda f: f if f["nodes"]["reached"] == 2 else None)(wait_for_state(s, "partly")), what="the lost node")
        assert 0 < facts["shards"]["down"] < 16 and facts["shards"]["up"] == 16 - facts["shards"]["down"], facts
        assert facts["nodes"] == {"count": 3, "reached": 2} and f"127.0.0.1:{front.cluster.nodes[2].port}: " in facts["error"], facts
        for node in front.cluster.nodes:
            node.seen.clear()
        assert s.ask("BF.MEXISTS", "seen", gone[0], gone[5], there[0], there[5]) == [1, 1, 1, 0]
        answer = s.ask("BG.ADD", "seen", gone[7])
        assert answer.startswith("FAILED the cluster did not answer: ") and f":{front.cluster.nodes[2].port}: the node closed the connection" in answer, answer
        assert s.ask("BG.ADD", "seen", there[7]) == 1
        answer = s.ask("BG.MADD", "seen", there[7], gone[7], there[8])
        assert answer[0] == 0 and answer[1].startswith("FAILED") and len(answer) == 2, answer
        assert all(is_watch(words) for words in front.cluster.nodes[2].seen), "a client request was sent to the failed node"
        found = figures(s)
        for metric, value in (('checked_keys_total{filter="seen",result="unreachable"}', 2), ('checked_keys_total{filter="seen",result="maybe"}', 1),
                              ('checked_keys_total{filter="seen",result="no"}', 1), ('added_keys_total{filter="seen",result="rejected"}', 2),
                              ('added_keys_total{filter="seen",result="new"}', 6), ('shards{filter="seen",state="down"}', facts["shards"]["down"]),
                              ('nodes{filter="seen",state="lost"}', 1), ('nodes{filter="seen",state="reached"}', 2),
                              ('request_seconds_count{filter="seen",operation="check"}', 1), ('request_seconds_count{filter="seen",operation="add"}', 4)):
            assert found["bloomgate_front_" + metric] == value, (metric, value, found)
        assert found['bloomgate_front_failed_connections_total{filter="seen",reason="broken"}'] > 0, found
        asker = Asker(s)
        asker.ask("GET", "/readyz?fronts=1", 200)  # some shards can be queried
        front.up()
        wait_for_state(s, "up")
        assert s.ask("BF.MEXISTS", "seen", gone[0], gone[5], there[7]) == [1, 0, 1]
        assert s.ask("BG.ADD", "seen", gone[7]) == 1, "a refused key was added"
        log = s.read_log()
        assert log.count("shards are not answering") == 1 == log.count("all shards are answering again"), log


@service.alone
def test_unanswered_adds_are_unknown(program):
    """Adds without a reply are counted as unknown, not as rejected. The shard accepts adds again after a health check
    succeeds."""
    with Front(program, http=True, timeout="3s") as (front, s):
        wait_for_state(s, "up")
        gone, there = of_node(front.cluster, 2)

        def trouble(node, words):
            if node.number == 2 and words[0] == b"BG.MADD":
                raise fake_nodes.Hang()
        front.cluster.trouble = trouble
        assert s.ask("BG.ADD", "seen", gone[0]).startswith("FAILED")
        assert s.ask("BG.ADD", "seen", there[0]) == 1
        facts = Asker(s).told("GET", "/api/v1/fronts/seen", 200)
        assert facts["added"] == {"new": 1, "maybe_present": 0, "rejected": 0, "unknown": 1}, facts
        assert ",adds=2,failed=1," in s.ask("INFO", "sharded").decode()
        front.up()
        service.wait_for(lambda: s.ask("BG.ADD", "seen", gone[0]) in (0, 1), what="adds to be accepted again")


@service.alone
def test_adds_wait_for_replicas(program):
    """Without replicas, adds fail, but queries are answered as usual."""
    with Front(program, "replicas=1", http=True) as (front, s):
        wait_for_state(s, "up")
        assert s.ask("BF.MADD", "seen", "a", "b") == [1, 1]
        front.cluster.replicas = 0
        assert "only 0 of 1 replicas received the write" in s.ask("BF.ADD", "seen", "c")
        assert s.ask("BF.EXISTS", "seen", "c") == 1 and s.ask("BF.EXISTS", "seen", "x") == 0
        facts = Asker(s).told("GET", "/api/v1/fronts/seen", 200)
        assert facts["state"] == "up" and facts["shards"]["unwritable"] == 1, facts
        assert s.ask("BF.MEXISTS", "seen", "a", "x") == [1, 0]
        assert "replicas received the write" in s.ask("BF.ADD", "seen", "c") and "replicas" in facts["error"], "expected errors about replicas in the reply and in the status"
        front.cluster.replicas = 1
        service.wait_for(lambda: s.ask("BF.ADD", "seen", "c") in (0, 1), what="adds to be accepted again")
        log = s.read_log()
        assert "1 of 16 shards accept no adds: " in log and "all shards accept adds again" in log and "timed out" not in log, log


@service.alone
def test_starts_without_a_cluster(program):
    """The service starts, reports that it is not ready, answers requests as configured, and connects to the cluster
    when the cluster starts."""
    def nobody(_, __):
        raise fake_nodes.Cut(b"")
    second = "sharded strict nodes=127.0.0.1:1 shards=4 fail=closed timeout=60s patience=300ms"
    front = Front(program, lines=(second,), http=True)
    front.cluster.trouble = nobody
    with front as (front, s):
        asker = Asker(s)
        wait_for_state(s, "down")
        wait_for_state(s, "down", "strict")
        asker.ask("GET", "/readyz", 200)
        response, text = asker.ask("GET", "/readyz?fronts=1", 503)
        assert text == b"unreachable\n" and response.getheader("Retry-After"), text
        checks = {check["name"]: check for check in asker.told("GET", "/readyz?verbose=1", 200)["checks"]}
        assert checks["fronts"] == {"name": "fronts", "ok": False, "message": "0 of 2 clusters are answering"}, checks
        assert s.ask("BF.EXISTS", "seen", "x") == 1
        assert s.ask("BF.ADD", "seen", "x").startswith("FAILED the cluster did not answer: ")
        for words in (("BF.EXISTS", "strict", "x"), ("BG.MEXISTS", "strict", "x", "y"), ("BF.ADD", "strict", "x")):
            assert s.ask(*words).startswith("FAILED the cluster did not answer: 127.0.0.1:1: Connection refused"), words
        with s.connect() as c:
            assert all(a.startswith("FAILED") for a in c.pipeline([("BF.EXISTS", "strict", "x")] * 3))
        assert s.ask("BF.ADD", "local", "x") == 1
        assert figures(s)['bloomgate_front_map_age_seconds{filter="strict"}'] != 0
        front.up()
        wait_for_state(s, "up")
        assert s.ask("BF.EXISTS", "seen", "x") == 0 and s.ask("BF.ADD", "seen", "x") == 1


@service.alone
def test_a_node_that_hangs_stalls_nobody(program):
    """Sends more requests for keys on a hanging node than the service has threads. These requests are answered, and so
    are all other requests."""
    second = fake_nodes.FakeCluster(1)
    for name in shard_reference.names("other", 4):
        second.nodes[0].keys[name.encode()] = set()
    lines = ("jobs 2", f"sharded other nodes={second.addresses()} shards=4 timeout=60s")
    with Front(program, lines=lines, http=True, timeout="2s") as (front, s):
        wait_for_state(s, "up")
        wait_for_state(s, "up", "other")
        gone, there = of_node(front.cluster, 2)
        lose(front, 2, fake_nodes.Hang)
        with s.connect() as local:
            crowd = [s.connect() for _ in range(8)]
            for c, key in zip(crowd, gone):
                c.send(service.encode("BF.EXISTS", "seen", key))
            for i in range(50):
                assert local.ask("BF.ADD", "local", i) == 1
            assert s.ask("BF.ADD", "other", "a") == 1
            for c in crowd:
                assert c.reply() == 1
                c.close()
        wait_for_state(s, "partly")
        front.cluster.nodes[2].seen.clear()
        for key in gone:
            assert s.ask("BF.EXISTS", "seen", key) == 1
        service.wait_for(lambda: s.ask("BF.EXISTS", "seen", there[0]) == 0, what="a working node to reply in time")
        assert all(is_watch(words) for words in front.cluster.nodes[2].seen), "a client request was sent to the hanging node"
        front.up()
        wait_for_state(s, "up")
    second.close()


def complete(program, cluster):
    """Marks the filter as complete, as an operator does after adding all keys again."""
    bloomgate = os.path.join(os.path.dirname(program), "bloomgate")
    done = subprocess.run([bloomgate, "--cluster", cluster.addresses(), "complete", "seen"], capture_output=True, text=True, timeout=service.PATIENCE)
    assert done.returncode == 0, done


@service.alone
def test_a_server_that_is_started_again(program):
    """After a shard has lost acknowledged keys, none of its keys are reported as absent until the operator marks the
    filter as complete."""
    with Front(program, "replicas=1", http=True) as (front, s):
        wait_for_state(s, "up")
        node = front.cluster.nodes[2]
        service.wait_for(lambda: all(n.hashes for n in front.cluster.nodes), what="witnesses")
        saved = node.save()
        gone, there = of_node(front.cluster, 2)
        assert s.ask("BG.MADD", "seen", *gone, *there) == [1] * 300
        assert s.ask("BG.MEXISTS", "seen", *gone, *there, "absent") == [1] * 300 + [0]
        for _ in range(5):  # the result must not depend on when the last health check ran
            node.restart(saved)
            assert s.ask("BG.MEXISTS", "seen", *gone) == [1] * len(gone)
        facts = wait_for_state(s, "partly")
        assert 0 < facts["shards"]["incomplete"] == 16 - facts["shards"]["up"], facts
        service.wait_for(lambda: "its server restarted and may have lost keys" in
                         Asker(s).told("GET", "/api/v1/fronts/seen", 200)["error"], what="the health check to report the reason")
        assert figures(s)['bloomgate_front_shards{filter="seen",state="incomplete"}'] == facts["shards"]["incomplete"]
        assert s.ask("BG.MEXISTS", "seen", gone[0], "absent-1", "absent-2") [0] == 1
        assert s.ask("BG.MEXISTS", "seen", *there[:5]) == [1] * 5
        assert s.ask("BG.MADD", "seen", *gone) == [1] * len(gone), "adds were not accepted"
        rounds = sum(words[0] == b"CLUSTER" or words[0] == b"INFO" for words in node.seen)
        service.wait_for(lambda: sum(words[0] == b"CLUSTER" or words[0] == b"INFO" for words in node.seen) > rounds + 2, what="rounds of health checks")
        assert Asker(s).told("GET", "/api/v1/fronts/seen", 200)["state"] == "partly", "the shards were reported as complete without a command from the operator"
        again = service.Service(program, f"sharded seen nodes={front.cluster.addresses()} timeout=60s", http=True)
        with again as other:  # another front end, which has not observed the restart
            assert other.ask("BG.MEXISTS", "seen", *gone) == [1] * len(gone)
            absent = [f"absent-{i}" for i in range(200)]
            assert 0 < sum(other.ask("BG.MEXISTS", "seen", *absent)) < 200
            wait_for_state(other, "partly")
        complete(program, front.cluster)
        wait_for_state(s, "up")
        assert s.ask("BG.MEXISTS", "seen", *gone, *there, *absent) == [1] * 300 + [0] * 200
        log = s.read_log()
        assert log.count("shards may have lost keys") == 1 == log.count("all shards are complete again"), log


@service.alone
def test_doubt_can_be_an_error(program):
    with Front(program, "fail=closed", http=True) as (front, s):
        wait_for_state(s, "up")
        service.wait_for(lambda: all(n.hashes for n in front.cluster.nodes), what="witnesses")
        gone, there = of_node(front.cluster, 0)
        front.cluster.nodes[0].restart(front.cluster.nodes[0].save())
        service.wait_for(lambda: str(s.ask("BG.EXISTS", "seen", gone[0])).startswith("FAILED"), what="the error")
        assert s.ask("BG.EXISTS", "seen", there[0]) == 0


@service.alone
def test_missing_shards(program):
    with Front(program, http=True) as (front, s):
        wait_for_state(s, "up")
        name = shard_reference.names("seen", 16)[3]
        del front.cluster.owner(shard_reference.slot(name)).keys[name.encode()]
        facts = wait_for_state(s, "partly")
        assert facts["shards"]["missing"] == 1 and facts["shards"]["up"] == 15 and "shard 3: NOFILTER" in facts["error"], facts
        front.cluster.owner(shard_reference.slot(name)).keys[name.encode()] = set()
        wait_for_state(s, "up")


# ---- Status and HTTP -----------------------------------------------------------------------------


@service.alone
def test_redirections_are_counted(program):
    with Front(program, http=True) as (front, s):
        wait_for_state(s, "up")
        name = shard_reference.names("seen", 16)[shard_reference.route(b"a", 16)]
        slot = shard_reference.slot(name)
        old, new = front.cluster.owner(slot), front.cluster.nodes[2]
        assert old is not new, "the slot is already on the new node, so the test proves nothing"
        assert s.ask("BF.ADD", "seen", "a") == 1  # the service now knows that the old node owns the slot
        front.cluster.moving[slot] = new  # at every point, one of the nodes has the filter
        new.keys[name.encode()] = old.keys[name.encode()]
        del old.keys[name.encode()]
        assert s.ask("BF.EXISTS", "seen", "a") == 1
        witness = name.encode() + b"/witness"
        service.wait_for(lambda: witness in old.hashes, what="the witness")
        new.hashes[witness] = old.hashes[witness]
        del old.hashes[witness]
        front.cluster.owners[slot] = 2
        del front.cluster.moving[slot]
        assert s.ask("BF.EXISTS", "seen", "a") == 1
        later = [b"-TRYAGAIN x\r\n", b"-LOADING x\r\n", b"-CLUSTERDOWN x\r\n"]
        front.cluster.trouble = lambda node, words: later.pop() if words[0] == b"BG.MEXISTS" and words[-1] == b"a" and later else None
        assert s.ask("BF.EXISTS", "seen", "a") == 1
        found = figures(s)
        for kind, least in (("ask", 1), ("moved", 1), ("tryagain", 1), ("clusterdown", 1), ("other", 1)):
            assert found[f'bloomgate_front_redirections_total{{filter="seen",kind="{kind}"}}'] >= least, (kind, found)
        assert found['bloomgate_front_repeated_commands_total{filter="seen"}'] >= 5, found
        assert found['bloomgate_front_map_age_seconds{filter="seen"}'] >= 0, found
        bounds = [value for key, value in found.items() if key.startswith("bloomgate_front_request_seconds_bucket") and "check" in key]
        assert bounds == sorted(bounds) and bounds[-1] == 3, bounds
        facts = s.ask("INFO", "sharded").decode()
        assert ",nodes=3,nodes_reached=3," in facts and ",tryagain=1,clusterdown=1," in facts, facts


@service.alone
def test_keys_over_http(program):
    lines = ("user default on nopass +@all ~*", "user other on >pw-of-other-and-long +@all ~other",
             "user reads on >pw-of-reads-and-long +@all %R~seen", "user few on >pw-of-few-and-long +@all ~seen rate=3")
    with Front(program, lines=lines, http=True) as (front, s):
        wait_for_state(s, "up")
        a = Asker(s)
        assert a.told("POST", f"{F}/seen/add", 200, {"keys": ["a", "b", "a"]}) == {"results": [True, True, False], "keys": 3, "new": 2}
        assert a.told("POST", f"{F}/seen/check", 200, {"keys": ["a", "x"]}) == {"results": [True, False], "keys": 2, "maybe": 1, "unreachable": 0}
        assert plain(s, "POST", f"{F}/seen/check", "b\nx\n", "text/plain") == (200, b"1\n0\n")
        assert a.told("POST", f"{F}/seen/check", 200, {"keys": []})["results"] == []
        assert s.ask("BF.EXISTS", "seen", "b") == 1
        for method, path, body in (("GET", f"{F}/seen", None), ("POST", f"{F}/seen/clear", {}), ("GET", f"{F}/seen/file", None)):
            status, text = plain(s, method, path, body)
            assert status == 422 and b"a cluster filter" in text, (path, status, text)
        status, text = plain(s, "POST", F, {"name": "seen", "capacity": 10, "error": 0.01})
        assert status == 400 and b"over a cluster" in text, "expected status 400, because the path does not name a filter"
        a.make("local")
        status, text = plain(s, "PUT", f"{F}/seen/file", a.told("GET", f"{F}/local/file", 200), "application/vnd.bloomgate")
        assert status == 400 and b"a sharded filter" in text, (status, text)
        other, reads, few = (Asker(s, f"{name}:pw-of-{name}-and-long") for name in ("other", "reads", "few"))
        other.ask("POST", f"{F}/seen/check", 404, {"keys": ["a"]})
        other.ask("GET", "/api/v1/fronts/seen", 404)
        assert other.told("GET", "/api/v1/fronts", 200) == {"fronts": []}
        assert b"bloomgate_front" not in other.told("GET", "/metrics", 200)
        assert reads.told("POST", f"{F}/seen/check", 200, {"keys": ["a"]})["results"] == [True]
        reads.ask("POST", f"{F}/seen/add", 403, {"keys": ["c"]})
        few.ask("POST", f"{F}/seen/add", 429, {"keys": KEYS})
        assert [f["name"] for f in a.told("GET", "/api/v1/fronts", 200)["fronts"]] == ["seen"]
        assert a.told("GET", "/api/v1/info", 200)["fronts"] == 1
        front.down()
        wait_for_state(s, "down")
        assert a.told("POST", f"{F}/seen/check", 200, {"keys": ["a", "x"]}) == {"results": [True, True], "keys": 2, "maybe": 2, "unreachable": 2}
        response, told = a.ask("POST", f"{F}/seen/add", 503, {"keys": ["c"]})
        assert told["error"]["code"] == "unreachable" and told["done"] == 0 and response.getheader("Retry-After"), told


def plain(s, method, path, body=None, kind="application/json"):
    """Sends a request without validating it against the API description."""
    connection = http.client.HTTPConnection("127.0.0.1", s.http_port, timeout=service.PATIENCE)
    connection.request(method, path, json.dumps(body) if isinstance(body, dict) else body, {"Content-Type": kind, "X-Bloomgate": "1"})
    response = connection.getresponse()
    found = response.status, response.read()
    connection.close()
    return found


@service.alone
def test_passwords_are_read_anew(program):
    """The password is read from a file. After the password changes in the cluster and in the file, the front end
    reconnects."""
    folder = tempfile.mkdtemp(prefix="bloomgate-front-")
    path = os.path.join(folder, "password")

    def write(text):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    try:
        write("first\n")
        front = Front(program, f"password-file={path}", http=True)
        front.cluster.password = b"first"
        with front as (front, s):
            wait_for_state(s, "up")
            assert s.ask("BF.ADD", "seen", "a") == 1
            front.cluster.password = b"second"
            front.cluster.trouble = lambda node, words: (_ for _ in ()).throw(fake_nodes.Cut(b""))
            facts = service.wait_for(lambda: (lambda f: f if "AUTH: WRONGPASS" in (f["error"] or "") else None)(
                Asker(s).told("GET", "/api/v1/fronts/seen", 200)), what="the password to be refused")
            assert ": check the password of user 'default'" in facts["error"], facts
            front.up()
            write("second")
            wait_for_state(s, "up")
            assert s.ask("BF.MEXISTS", "seen", "a", "x") == [1, 0]
    finally:
        shutil.rmtree(folder)


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
        assert check("seen nodes=h:1,h:2 shards=1024 replicas=2 connect=500ms timeout=1s patience=3s user=u password=p fail=open tls=no")[0] == 0
        for line, what in (("seen", "nodes is missing"), ("seen nodes=", "nodes: expected HOST:PORT"),
                           ("seen nodes=h:1 shards=0", "shards: expected 1 to 1024"),
                           ("seen nodes=h:1 shards=1025", "shards: expected"), ("seen nodes=h:1 shard=3", "unknown setting 'shard'; did you mean shards=?"),
                           ("seen nodes=h:1 timeout=0", "timeout: expected"),
                           ("seen nodes=h:1 connect=61s", "connect: expected"), ("seen nodes=h:1 tls=on", "tls: expected no or yes"),
                           ("seen nodes=h:1 fail=maybe", "fail: expected open or closed"), ("seen nodes=h:1 tls-ca=x", "require tls=yes"),
                           ("seen nodes=h:1 tls=yes tls-key=x", "tls-cert and tls-key must be set together"), ("seen nodes=h:1 user=u", "password-file"),
                           ("seen nodes=h:1 password=p password-file=f", "cannot be combined"), ("'a b' nodes=h:1", "name: expected"),
                           ("seen nodes=h:1 x", "expected NAME=VALUE"),
                           ("seen nodes=h:1\nsharded seen nodes=h:2", "'seen' is already defined")):
            code, said = check(line)
            assert code == 3 and what in said, (line, code, said)
    finally:
        s.remove()


service.main(__doc__)
