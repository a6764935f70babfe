#!/usr/bin/env python3
"""Tests the command-line tool with fake nodes: redirections, and nodes that fail, hang, or send incorrect or malformed
replies. In every case, the tool must not lose an acknowledged key or report an added key as absent. A shard's witness
lists the server processes that were running when the witness was written. If it does not list the process that serves
the shard, the shard might have lost keys and is considered incomplete.
usage: test_redirections.py BLOOMGATE [PART OF A NAME...]"""

import itertools
import os
import resource
import subprocess
import sys
import tempfile
import traceback

import fake_nodes
from fake_nodes import PATIENCE

PROGRAM = os.path.abspath(sys.argv[1])
KEYS = [f"key-{i}" for i in range(2000)]
INPUT = "".join(key + "\n" for key in KEYS)


def run(cluster, *arguments, keys="", password=None, quick=False, timeout="30s"):
    """Runs the command. If `quick` is set, the command soon gives up retrying. It still waits for every reply until
    `timeout`, so that a busy machine does not change the result."""
    environment = {**os.environ, "LC_ALL": "C"}
    environment.pop("BLOOMGATE_PASSWORD", None)
    if password:
        environment["BLOOMGATE_PASSWORD"] = password
    times = ["--timeout", timeout, "--patience", "0.4s" if quick else f"{PATIENCE:g}s"]
    return subprocess.run([PROGRAM, "--cluster", cluster.addresses(), *times, *arguments], input=keys, text=True,
                          capture_output=True, timeout=2 * PATIENCE, env=environment)


def made(nodes=3):
    cluster = fake_nodes.FakeCluster(nodes)
    done = run(cluster, "create", "-n", "1000", "f")
    assert done.returncode == 0 and "created 16 shards" in done.stderr, done
    return cluster


def add_and_check(cluster, *options, timeout="30s"):
    done = run(cluster, "add", *options, "f", keys=INPUT, timeout=timeout)
    assert done.returncode == 0, done
    assert "keys added: 2,000" in done.stderr, done
    cluster.trouble = lambda node, words: None
    assert cluster.members() == {key.encode() for key in KEYS}
    done = run(cluster, "check", "f", keys=INPUT + "absent\n")
    assert done.stdout == INPUT and done.returncode == 0, done


class Times:
    """Makes the first n commands with the given name fail. If `name` is None, makes the first n commands other than
    AUTH, CLUSTER and INFO fail."""

    def __init__(self, n, what, name=None):
        self.left, self.what, self.name = n, what, name

    def __call__(self, node, words):
        if self.left == 0 or words[0] in (b"AUTH", b"CLUSTER", b"INFO") or self.name and words[0] != self.name:
            return None
        self.left -= 1
        return self.what() if callable(self.what) else self.what


def raises(error):
    def it():
        raise error
    return it


def test_plain():
    cluster = made()
    add_and_check(cluster)
    done = run(cluster, "create", "-n", "1000", "f")
    assert done.returncode == 3 and "16 of 16 shards already exist" in done.stderr, done
    assert run(cluster, "create", "--missing", "-n", "1000", "f").returncode == 0
    assert all(node.keys for node in cluster.nodes), "a node has no shards"


def test_moved():
    cluster = made()
    cluster.told = [0] * 16384  # all nodes report that the first node owns all slots
    add_and_check(cluster)


def test_moved_for_ever():
    cluster = made(2)
    cluster.trouble = lambda node, words: \
        b"-MOVED 5 %s\r\n" % cluster.nodes[1 - node.number].address().encode() if words[0] == b"BG.MADD" else None
    done = run(cluster, "add", "--acknowledged", "f", keys=INPUT, quick=True)
    assert done.returncode == 4 and "gave up" in done.stderr and not done.stdout, done
    assert sum(len(node.seen) for node in cluster.nodes) < 20000, "the command does not pause between attempts"


def test_asked():
    cluster = made(2)
    for key in list(cluster.nodes[0].keys):  # the first node's filters have moved, but it still owns the slots
        cluster.moving[fake_nodes.slot_of(key)] = cluster.nodes[1]
        cluster.nodes[1].keys[key] = cluster.nodes[0].keys.pop(key)
    add_and_check(cluster)
    assert [b"ASKING"] in cluster.nodes[1].seen


def test_passing_errors():
    for error in (b"TRYAGAIN later", b"CLUSTERDOWN The cluster is down", b"LOADING Redis is loading", b"READONLY no",
                  b"MASTERDOWN link is down", b"UNBLOCKED force unblock"):
        cluster = made()
        cluster.trouble = Times(6, b"-" + error + b"\r\n")
        add_and_check(cluster)


def test_connections_that_break():
    for cut in (b"", b"*3\r\n:1\r\n", b"$100\r\nabc", b"+O"):
        cluster = made()
        cluster.trouble = Times(4, raises(fake_nodes.Cut(cut)))
        add_and_check(cluster)


def test_hanging():
    cluster = made()
    cluster.trouble = Times(2, raises(fake_nodes.Hang()))
    add_and_check(cluster, timeout="1s")


def test_nobody_but_hanging_nodes():
    """Each request may take its full timeout, but the overall timeout limits the total time."""
    cluster = made(20)
    for node in cluster.nodes:
        node.seen.clear()
    cluster.trouble = lambda node, words: raises(fake_nodes.Hang())()  # CLUSTER SLOTS as well
    done = run(cluster, "check", "f", keys=INPUT, quick=True, timeout="0.2s")
    assert done.returncode == 4 and "timed out waiting for a reply" in done.stderr, done
    assert 1 <= sum(bool(node.seen) for node in cluster.nodes) < 10, "expected fewer than 10 nodes to be tried before the overall timeout"


def test_nonsense():
    for nonsense in (b"HTTP/1.1 400 Bad Request\r\n\r\n", b"*99999999999\r\n", b"\0\0\0\0", b"$-5\r\n", b"%1\r\n+a\r\n+b\r\n"):
        cluster = made()
        cluster.trouble = Times(3, nonsense)
        add_and_check(cluster)


def test_promises_take_no_memory():
    cluster = made(1)
    cluster.trouble = Times(10**9, b"*1000000000\r\n$2000000000\r\n")
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    done = run(cluster, "check", "f", keys=INPUT, quick=True, timeout="0.5s")
    assert done.returncode == 4 and not done.stdout, done
    after = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    assert after < max(before, 200 * 1024), f"{after} KiB"  # sanitizers need some


def test_wrong_answers():
    """A reply that is not a list, or is a list that is too short, is an error and must not cause any key to be reported
    as absent."""
    for wrong in (b"*1\r\n:0\r\n", b"*0\r\n", b":0\r\n", b"+OK\r\n", b"$-1\r\n", b"*-1\r\n"):
        cluster = made()
        assert run(cluster, "add", "f", keys=INPUT).returncode == 0
        cluster.trouble = Times(1, wrong, b"BG.MEXISTS")
        done = run(cluster, "check", "-v", "f", keys=INPUT, quick=True)
        assert done.returncode == 4 and not done.stdout, (wrong, done)
        cluster.trouble = Times(1, wrong, b"BG.MEXISTS")
        done = run(cluster, "check", "-v", "--open", "f", keys=INPUT, quick=True)
        assert done.returncode == 1 or wrong == b"*1\r\n:0\r\n", (wrong, done)
        assert len(done.stdout.split()) <= 1, (wrong, done)  # at most the key that the one-element reply answers with 0


def test_missing_filter():
    cluster = made()
    done = run(cluster, "-s", "8", "check", "f", keys=INPUT)
    assert done.returncode == 3 and "check that f has 8 shards" in done.stderr and not done.stdout, done
    done = run(cluster, "add", "g", keys=INPUT)
    assert done.returncode == 3 and "NOFILTER" in done.stderr, done


def test_nobody_answers():
    cluster = made()
    assert run(cluster, "add", "f", keys=INPUT).returncode == 0
    cluster.trouble = lambda node, words: b"-CLUSTERDOWN The cluster is down\r\n" if words[0] == b"BG.MEXISTS" else None
    done = run(cluster, "check", "f", keys=INPUT, quick=True)
    assert done.returncode == 4 and not done.stdout and "CLUSTERDOWN" in done.stderr, done
    done = run(cluster, "check", "--open", "f", keys="absent\n", quick=True)
    assert done.stdout == "absent\n" and "some shards did not reply or may have lost keys" in done.stderr, done
    cluster.close()
    nowhere = f"127.0.0.1:{fake_nodes.free_port()}"  # no server listens on this port
    done = run(cluster, "--cluster", nowhere, "check", "f", keys=INPUT, quick=True)
    assert done.returncode == 4 and nowhere in done.stderr, done


def test_replicas():
    """An add is acknowledged only after the replicas have received it."""
    cluster = made()
    cluster.replicas = 0
    done = run(cluster, "add", "-w", "1", "--wait", "20ms", "--acknowledged", "f", keys=INPUT, quick=True)
    assert done.returncode == 4 and not done.stdout, done
    assert "only 0 of 1 replicas received the write" in done.stderr, done
    cluster.replicas = 1
    done = run(cluster, "add", "-w", "1", "--acknowledged", "f", keys=INPUT)
    assert done.returncode == 0 and done.stdout == INPUT, done
    for node in cluster.nodes:  # each WAIT follows a SET, which is always replicated
        waits = [i for i, words in enumerate(node.seen) if words[0] == b"WAIT"]
        assert waits and all(node.seen[i - 1][0] == b"SET" for i in waits), node.seen
        assert all(cluster.owner(fake_nodes.slot_of(node.seen[i - 1][1])) is node for i in waits)
    cluster.trouble = Times(3, b"-ASK 1 127.0.0.1:1\r\n", b"SET")  # if the SET fails, the WAIT proves nothing
    add_and_check(cluster, "-w", "1")


def test_acknowledged_before_an_error():
    cluster = made()
    cluster.trouble = lambda node, words: b"-FULL no room\r\n" if words[0] == b"BG.MADD" and node.number == 1 else None
    done = run(cluster, "add", "--acknowledged", "f", keys=INPUT)
    assert done.returncode == 5 and "FULL" in done.stderr, done
    assert {line.encode() for line in done.stdout.split()} == cluster.members()
    assert 0 < len(done.stdout.split()) < len(KEYS)


def test_passwords():
    cluster = fake_nodes.FakeCluster(3)
    cluster.password = b"open sesame"
    done = run(cluster, "create", "-n", "1000", "f", quick=True)
    assert done.returncode == 4 and "NOAUTH" in done.stderr, done
    done = run(cluster, "create", "-n", "1000", "f", password="wrong", quick=True)
    assert done.returncode == 4 and "WRONGPASS" in done.stderr, done
    done = run(cluster, "create", "-n", "1000", "f", password="open sesame")
    assert done.returncode == 0, done
    done = run(cluster, "--user", "u", "add", "-w", "1", "f", keys=INPUT, password="open sesame")
    assert done.returncode == 0, done
    assert [b"AUTH", b"u", b"open sesame"] in cluster.nodes[0].seen


def check(cluster, *options):
    return run(cluster, "check", "-c", *options, "f", keys=INPUT, quick=True)


def complete(cluster):
    """Adds all keys and marks the filter as complete."""
    assert run(cluster, "add", "f", keys=INPUT).returncode == 0
    assert run(cluster, "complete", "f").returncode == 0
    assert check(cluster, "-v").stdout == "0\n"


def test_restart_from_an_old_save():
    """After a node restarts with old data, no key on that node is reported as absent until the operator marks the
    filter as complete."""
    cluster = made()
    saved = cluster.nodes[1].save()
    assert run(cluster, "add", "-w", "1", "f", keys=INPUT).returncode == 0
    assert check(cluster, "-v").stdout == "0\n"
    cluster.nodes[1].restart(saved)
    for _ in range(2):  # retrying does not help
        done = check(cluster)
        assert done.returncode == 4 and "its server restarted and may have lost keys" in done.stderr, done
        done = check(cluster, "-v", "--open")
        assert done.stdout == "0\n" and "some shards did not reply or may have lost keys" in done.stderr, done
    for words in (("dump", "f", "/nowhere/f"), ("merge", "f", "f")):
        done = run(cluster, *words)
        assert done.returncode == 3 and "of 16 shards may have lost keys" in done.stderr, done
    done = run(cluster, "add", "f", keys=INPUT)
    assert done.returncode == 0 and 'may have lost keys and will not answer "no" until' in done.stderr, done
    assert check(cluster).returncode == 4, "adding keys made the filter complete"
    done = run(cluster, "complete", "misspelled")
    assert done.returncode == 3 and "NOFILTER" in done.stderr, done
    done = run(cluster, "complete", "f")
    assert done.returncode == 0 and "all 16 shards are marked as complete" in done.stderr, done
    done = check(cluster, "-v")
    assert done.stdout == "0\n" and not done.stderr, done
    assert run(cluster, "check", "-c", "f", keys="absent\n").stdout == "0\n"


def test_restart_while_it_is_merged():
    """A merge fails if a server restarts during it, because keys might be missing from that server's data."""
    cluster = made()
    saved = cluster.nodes[1].save()
    assert run(cluster, "add", "f", keys=INPUT).returncode == 0

    def trouble(node, words):
        if words[0] == b"BG.MERGE":
            if node is cluster.nodes[1] and node.keys != saved[0]:
                node.restart(saved)
            return b"+OK\r\n"
    cluster.trouble = trouble
    done = run(cluster, "merge", "g", "f")
    assert done.returncode == 3 and "of 16 shards may have lost keys" in done.stderr, done


def test_merged_filters_have_witnesses():
    """After a restart that loses the most recent merge, the merged filter reports no key as absent."""
    cluster = made()
    assert run(cluster, "create", "-n", "1000", "empty").returncode == 0
    assert run(cluster, "add", "f", keys=INPUT).returncode == 0
    assert run(cluster, "merge", "g", "empty").returncode == 0
    saved = cluster.nodes[1].save()
    assert run(cluster, "merge", "g", "f").returncode == 0
    assert run(cluster, "check", "-c", "-v", "g", keys=INPUT).stdout == "0\n"
    cluster.nodes[1].restart(saved)
    done = run(cluster, "check", "-c", "-v", "g", keys=INPUT, quick=True)
    assert done.returncode == 4 and "may have lost keys" in done.stderr, done


def test_restart_while_it_is_completed():
    """If a server restarts while `complete` is running, its shards are still considered incomplete. The restarted
    server has no replicas, so it does not continue its previous replication history."""
    for word in (b"HGETALL", b"HSET"):
        cluster = made()
        node = cluster.nodes[1]
        saved = node.save()
        assert run(cluster, "add", "f", keys=INPUT).returncode == 0

        def trouble(which, words, cluster=cluster, node=node, saved=saved, word=word):
            if which is node and words[0] == word:
                cluster.trouble = lambda node, words: None
                node.restart(saved)
                node.before = "0" * 40
                raise fake_nodes.Cut(b"")
        cluster.trouble = trouble
        done = run(cluster, "complete", "f")
        assert word == b"HSET" or done.returncode == 3 and "its server restarted during the command" in done.stderr, done
        done = check(cluster, "-v")
        assert done.returncode == 4 and "may have lost keys" in done.stderr, (word, done)
        complete(cluster)


def test_restart_while_it_is_asked():
    """Checks that a command detects that a server has restarted between two of its queries."""
    cluster = made()
    saved = [node.save() for node in cluster.nodes]
    assert run(cluster, "add", "f", keys=INPUT).returncode == 0
    count = itertools.count()

    def trouble(node, words):
        if words[0] == b"BG.MEXISTS" and next(count) == 20:
            node.restart(saved[node.number])
            raise fake_nodes.Cut(b"")
    cluster.trouble = trouble
    done = run(cluster, "--batch", "10", "check", "-c", "-v", "f", keys=INPUT, quick=True)
    assert done.returncode == 4 and "its witness does not list the server process that replied" in done.stderr, done


def test_processes_that_were_there_are_believed():
    """A node that was running when the keys were acknowledged is trusted after slots move to it together with their
    keys and witnesses, as in a failover."""
    cluster = made()
    assert run(cluster, "add", "-w", "1", "f", keys=INPUT).returncode == 0
    for key, members in list(cluster.nodes[1].keys.items()):
        cluster.nodes[2].keys[key] = members
    cluster.nodes[2].hashes.update(cluster.nodes[1].hashes)
    cluster.owners = [2 if owner == 1 else owner for owner in cluster.owners]
    done = check(cluster, "-v")
    assert done.stdout == "0\n" and not done.stderr, done


def replicated():
    """Creates three primaries and a replica of the second primary, and adds the keys."""
    cluster = fake_nodes.FakeCluster(4)
    cluster.owners = [i * 3 // 16384 for i in range(16384)]
    cluster.replica_of = {1: 3}
    cluster.nodes[3].follow(cluster.nodes[1])
    assert run(cluster, "create", "-n", "1000", "f").returncode == 0
    saved = cluster.nodes[1].save()
    assert run(cluster, "add", "-w", "1", "f", keys=INPUT).returncode == 0
    cluster.nodes[3].follow(cluster.nodes[1])
    return cluster, saved


def fail_over(cluster):
    cluster.nodes[3].promote()
    cluster.owners = [3 if owner == 1 else owner for owner in cluster.owners]
    cluster.replica_of = {}


def test_replicas_are_witnessed():
    """A replica that was running when the keys were added is trusted after its promotion; a replica that was started
    later is considered incomplete."""
    for late in (False, True):
        cluster, _ = replicated()
        if late:
            cluster.nodes[3].restart(({}, {}))
            cluster.nodes[3].follow(cluster.nodes[1])
        fail_over(cluster)
        assert (check(cluster, "-v").returncode == 4) == late
        assert check(cluster, "-v", "--open").stdout == "0\n"


def test_replica_of_a_server_that_was_started_again():
    """The replica was never restarted, but it has copied incomplete data from its restarted primary, so it is
    considered incomplete after its promotion."""
    cluster, saved = replicated()
    cluster.nodes[1].restart(saved)
    cluster.nodes[3].follow(cluster.nodes[1])
    fail_over(cluster)
    assert check(cluster, "-v").returncode == 4
    assert check(cluster, "-v", "--open").stdout == "0\n"


def test_holder_copies_a_server_that_was_started_again():
    """A node that the saved witness lists is not trusted if it has since copied incomplete data from another node,
    which had restarted."""
    cluster, _ = replicated()
    first, second = cluster.nodes[1], cluster.nodes[3]
    fail_over(cluster)
    cluster.replica_of = {3: 1}
    first.follow(second)
    saved = second.save()
    more = "".join(f"more-{i}\n" for i in range(2000))
    assert run(cluster, "add", "-w", "1", "f", keys=more).returncode == 0
    second.restart(saved)
    first.follow(second)
    first.promote()
    cluster.owners = [1 if owner == 3 else owner for owner in cluster.owners]
    assert run(cluster, "check", "-c", "-v", "f", keys=more, quick=True).returncode == 4
    assert run(cluster, "check", "-c", "-v", "--open", "f", keys=more, quick=True).stdout == "0\n"


def copy_the_rest(cluster, saved):
    """Promotes the replica and restarts it with its saved data. The former primary copies this data and is promoted
    again."""
    first, second = cluster.nodes[1], cluster.nodes[3]
    second.promote()
    second.restart(saved)
    first.follow(second)
    first.promote()


def test_data_are_copied_while_it_is_asked():
    """A node copies incomplete data from another node between two rounds of queries, between two queries in a round, or
    between the last query and the end of a round. The first node is then queried on a connection that was opened
    earlier."""
    for word, number in ((b"BG.MEXISTS", 1), (b"BG.MEXISTS", 2), (b"BG.MEXISTS", 40), (b"HGETALL", 1), (b"HGETALL", 7),
                         (b"INFO", 2), (b"INFO", 3), (b"INFO", 4)):
        cluster, saved = replicated()
        count = itertools.count(1)

        def trouble(node, words, cluster=cluster, saved=saved, word=word, number=number, count=count):
            if node is cluster.nodes[1] and words[0] == word and next(count) == number:
                copy_the_rest(cluster, saved)
        cluster.trouble = trouble
        done = run(cluster, "--batch", "20", "check", "-c", "-v", "--open", "f",
                   keys=INPUT * (30 if number == 4 else 2))
        assert done.stdout == "0\n", (word, number, done)
        assert next(count) > number, (word, number, "the data was not copied at the intended point")


def test_restart_while_it_is_dumped():
    """A dump fails if a primary loses keys, sends a shard, and is replaced by its replica before the dump ends, even
    though the replica has all keys."""
    for change in ("none", "restart", "copy"):
        cluster, saved = replicated()
        first, second = cluster.nodes[1], cluster.nodes[3]

        def trouble(node, words, cluster=cluster, saved=saved, first=first, second=second, change=change):
            if words[0] == b"BG.DUMP" and node is first and change != "none":
                cluster.trouble = Times(1, lambda: fail_over(cluster), b"HGETALL")
                rest = second.keys, second.hashes, second.run, second.history, second.before
                if change == "restart":
                    first.restart(saved)
                    raise fake_nodes.Cut(b"")
                copy_the_rest(cluster, saved)
                second.keys, second.hashes, second.run, second.history, second.before = rest
        cluster.trouble = trouble
        with tempfile.TemporaryDirectory() as folder:
            done = run(cluster, "dump", "f", os.path.join(folder, "d"))
        if change == "none":
            assert done.returncode == 0, done
        else:
            assert done.returncode == 3 and "server process changed during the dump" in done.stderr, (change, done)
        cluster.trouble = lambda node, words: None
        assert check(cluster, "-v", "--open").stdout == "0\n"


def test_data_are_replaced_before_wait():
    """Checks that no acknowledged key is lost if a primary's data is replaced before it executes WAIT. The primary
    receives a write, and then becomes a replica of its former replica, which has not received the write. It is then
    promoted again."""
    for word in (b"BG.MADD", b"SET", b"WAIT"):
        cluster, _ = replicated()
        more = "".join(f"more-{i}\n" for i in range(2000))
        first, second = cluster.nodes[1], cluster.nodes[3]

        def trouble(node, words, cluster=cluster, first=first, second=second, word=word, count=itertools.count(1)):
            if node is first and words[0] == word and next(count) == (3 if word == b"BG.MADD" else 1):
                cluster.trouble = lambda node, words: None
                fail_over(cluster)
                cluster.replica_of = {3: 1}
                first.history, first.before = second.history, "0" * 40
                assert run(cluster, "add", "f", keys="another\n").returncode == 0
                first.follow(second)
                first.promote()
                cluster.owners = [1 if owner == 3 else owner for owner in cluster.owners]
                cluster.replica_of = {}
        cluster.trouble = trouble
        done = run(cluster, "--timeout", "20s", "add", "-w", "1", "f", keys=more)
        assert done.returncode == 0, done
        done = run(cluster, "check", "-c", "-v", "f", keys=more)
        assert done.stdout == "0\n", (word, done)


def test_promoted_servers_without_a_witness():
    """A promoted process is trusted if there is no witness yet, and it is listed in the first witness that is
    written."""
    cluster = made()
    for node in cluster.nodes:
        node.hashes.clear()
        node.promote()
    assert run(cluster, "check", "-c", "f", keys="absent\n", quick=True).stdout == "0\n"
    assert run(cluster, "add", "f", keys=INPUT).returncode == 0
    assert check(cluster, "-v").stdout == "0\n"
    assert run(cluster, "check", "-c", "f", keys="absent\n").stdout == "0\n"


def test_doubt_moves_with_the_data():
    """Shards that move away from an incomplete server are still considered incomplete if a client recorded this in the
    witnesses before the move."""
    cluster, saved = replicated()
    cluster.nodes[1].restart(saved)
    assert "may have lost keys" in run(cluster, "add", "f", keys="a\n").stderr
    cluster.nodes[2].keys.update(cluster.nodes[1].keys)
    cluster.nodes[2].hashes.update(cluster.nodes[1].hashes)
    cluster.owners = [2 if owner == 1 else owner for owner in cluster.owners]
    assert check(cluster, "-v").returncode == 4
    assert run(cluster, "add", "f", keys=INPUT).returncode == 0
    assert run(cluster, "complete", "f").returncode == 0
    assert check(cluster, "-v").stdout == "0\n"


def restart_and_move(cluster, saved):
    """Restarts the second node, has another client mark the node's shards as incomplete, and moves the slots of those
    shards to the third node."""
    cluster.trouble = lambda node, words: None
    cluster.nodes[1].restart(saved)
    assert "may have lost keys" in run(cluster, "add", "f", keys="a\n").stderr
    cluster.nodes[2].keys.update(cluster.nodes[1].keys)
    cluster.nodes[2].hashes.update(cluster.nodes[1].hashes)
    cluster.owners = [2 if owner == 1 else owner for owner in cluster.owners]


def test_doubt_is_noted_while_it_is_asked():
    """A client that has already read the witness detects that another client has marked the shard as incomplete."""
    cluster = made()
    saved = cluster.nodes[1].save()
    assert run(cluster, "add", "f", keys=INPUT).returncode == 0
    count = itertools.count()

    def trouble(_, words):
        if words[0] == b"BG.MEXISTS" and next(count) == 20:
            restart_and_move(cluster, saved)
    cluster.trouble = trouble
    done = run(cluster, "--batch", "10", "check", "-c", "-v", "f", keys=INPUT)
    assert done.returncode == 4 and done.stdout == "", done


def test_late_witnesses_erase_no_doubt():
    """If a client is delayed and writes its witnesses to the server that now owns the slots, the shards on that server
    must still be considered incomplete."""
    for word in ("add", "complete"):
        cluster = made()
        saved = cluster.nodes[1].save()
        assert run(cluster, "add", "f", keys=INPUT).returncode == 0
        if word == "add":  # the node has a replica, which the witness lists
            cluster.nodes.append(fake_nodes.Node(cluster, 3))
            cluster.replica_of = {2: 3}

        def trouble(node, words, cluster=cluster, saved=saved):
            if words[0] == b"HSET" and node is cluster.nodes[1]:
                restart_and_move(cluster, saved)
                raise fake_nodes.Cut(b"")
        cluster.trouble = trouble
        assert run(cluster, word, "f").returncode == 0
        done = check(cluster, "-v")
        assert done.returncode == 4 and "may have lost keys" in done.stderr, (word, done)
        complete(cluster)


def test_shards_that_are_created_again():
    """After a server has been emptied or a shard has been deleted, re-created shards report no key as absent."""
    for options, shards, code in (((), 6, 3), (("--missing",), 6, 0), (("--missing",), 1, 0)):
        cluster = made()
        node = cluster.nodes[1]
        assert run(cluster, "add", "f", keys=INPUT).returncode == 0
        for key in list(node.keys)[:shards]:
            del node.keys[key]
        if shards == 6:
            node.hashes.clear()
        done = run(cluster, "create", *options, "-n", "1000", "f")
        assert done.returncode == code and f"{shards} of 16 shards may have lost keys" in done.stderr, done
        assert check(cluster, "-v").returncode == 4
        assert check(cluster, "-v", "--open").stdout == "0\n"
        complete(cluster)


def test_shards_that_another_client_creates_again():
    """Another client re-creates shards without writing witnesses. Shards without a witness are considered incomplete if
    other shards have one."""
    for add in (False, True):
        cluster = made()
        node = cluster.nodes[1]
        assert run(cluster, "add", "f", keys=INPUT).returncode == 0
        node.hashes.clear()
        node.keys = {key: set() for key in node.keys}
        if add:
            assert "6 of 16 shards may have lost keys" in run(cluster, "add", "f", keys="a\n").stderr
        assert check(cluster, "-v").returncode == 4
        assert check(cluster, "-v", "--open").stdout == "0\n"
        complete(cluster)


def test_missing_shards_are_doubted_before_they_are_created():
    """No key is reported as absent while `create --missing` is running or after it has been killed."""
    for lost in (True, False):  # if `lost` is true, the witnesses are lost as well
        cluster = made()
        node = cluster.nodes[1]
        assert run(cluster, "add", "f", keys=INPUT).returncode == 0
        node.keys.clear()
        if lost:
            node.hashes.clear()
        answers = []

        def trouble(_, words, cluster=cluster, node=node, answers=answers):
            if words[0] in (b"HSET", b"HGETALL", b"INFO") and len(node.keys) == 6:
                cluster.trouble = lambda node, words: None
                answers.append(check(cluster, "-v", "--open").stdout)
                raise fake_nodes.Cut(b"")
        cluster.trouble = trouble
        assert run(cluster, "create", "--missing", "-n", "1000", "f").returncode == 0
        assert answers == ["0\n"], answers
        assert check(cluster, "-v").returncode == 4


def test_create_that_was_interrupted():
    """If no shard has a witness, the filter is not in use yet, so the missing shards are created and all shards are
    complete."""
    cluster = made()
    for node in cluster.nodes:
        node.hashes.clear()
    cluster.nodes[1].keys.clear()
    done = run(cluster, "create", "--missing", "-n", "1000", "f")
    assert done.returncode == 0 and "may have lost keys" not in done.stderr, done
    assert run(cluster, "check", "-c", "-v", "f", keys="absent\n").stdout == "1\n"


def test_history_changes_by_itself():
    """A primary that has had no replica for an hour starts a new replication history, but is still trusted."""
    cluster = made()
    assert run(cluster, "add", "f", keys=INPUT).returncode == 0
    cluster.nodes[1].history = "f" * 40
    assert check(cluster, "-v").stdout == "0\n"


def test_shards_of_others():
    """If no shard has a witness, all shards are trusted; the first add writes witnesses. Servers that do not support
    hashes have no witnesses."""
    cluster = made()
    assert run(cluster, "add", "f", keys=INPUT).returncode == 0
    for node in cluster.nodes:
        node.hashes.clear()
    assert check(cluster, "-v").stdout == "0\n"
    saved = cluster.nodes[0].save()
    cluster.nodes[0].restart(saved)
    assert check(cluster, "-v").stdout == "0\n"
    assert run(cluster, "add", "f", keys="a\n").returncode == 0
    assert all(key.endswith(b"/witness") for node in cluster.nodes for key in node.hashes)
    cluster.nodes[0].restart(cluster.nodes[0].save())
    assert check(cluster).returncode == 4
    cluster.trouble = lambda node, words: \
        b"-ERR unknown command '%s'\r\n" % words[0] if words[0] in (b"HGETALL", b"HSET", b"DEL") else None
    assert check(cluster, "-v").stdout == "0\n"


def test_rights_that_are_missing():
    cluster = made()
    for word, text in ((b"INFO", "grant +info to the user"), (b"HGETALL", "HGETALL: NOPERM")):
        cluster.trouble = lambda node, words, word=word: b"-NOPERM no permission\r\n" if words[0] == word else None
        done = check(cluster)
        assert done.returncode == 4 and text in done.stderr, done


def test_drop_leaves_nothing():
    cluster = made()
    assert any(node.hashes for node in cluster.nodes)
    cluster.trouble = lambda node, words: b":1\r\n" if words[0] == b"BG.DROP" else None
    assert run(cluster, "drop", "f").returncode == 0
    assert not any(node.hashes for node in cluster.nodes)


def main():
    passed = failed = 0
    for name, test in list(globals().items()):
        if name.startswith("test_") and (len(sys.argv) < 3 or any(part in name for part in sys.argv[2:])):
            try:
                test()
                passed += 1
            except Exception:  # pylint: disable=broad-except
                print(f"FAILED {name}")
                traceback.print_exc(file=sys.stdout)
                failed += 1
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed or not passed else 0)


main()
