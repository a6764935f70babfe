#!/usr/bin/env python3
"""Tests the command-line tool with a filter that is sharded across a real cluster of three primaries and three
replicas. The tests cover the documented names and routes, exact merges, slots that move, and a primary that is killed
while keys are being added. Every acknowledged key must be found afterward.
usage: test_cluster.py BLOOMGATE MODULE [SERVER [SCALE]]      SERVER: redis-server or valkey-server"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests/cli"))

import check_documents  # noqa: E402
import cluster_world  # noqa: E402
import shard_reference  # noqa: E402
import transcript  # noqa: E402
from cluster_world import PATIENCE, PRIMARIES, wait_for  # noqa: E402

PROGRAM, MODULE = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
SERVER = sys.argv[3] if len(sys.argv) > 3 else "redis-server"
SCALE = int(sys.argv[4]) if len(sys.argv) > 4 else 1
ROOM = 500000 * SCALE  # capacity of a filter
SHARDS = 16
DOCUMENT = os.path.join(ROOT, "docs/cluster.md")


def cli(world, *arguments, keys=""):
    done = subprocess.run([PROGRAM, "--cluster", world.addresses(), "--timeout", "60s", "--patience", f"{PATIENCE:g}s", *arguments],
                          input=keys, text=True, capture_output=True, timeout=2 * PATIENCE)
    assert done.returncode in (0, 1), (done, world.logs())
    return done


def create(world, *names):
    for name in names:
        cli(world, "create", "-n", str(ROOM), "-p", "0.1%", name)


class Adder:
    """A running `bloomgate cluster add` command, and the keys that have been acknowledged so far. Until it is stopped,
    the command receives keys in batches of 500, with a pause whenever more than 5,000 keys are unacknowledged. After
    ROOM different keys (the filter's capacity), the same keys are sent again."""

    def __init__(self, world, name, *options):
        self.process = subprocess.Popen([PROGRAM, "--cluster", world.addresses(), "--timeout", "1s", "--patience", f"{PATIENCE:g}s",
                                         "add", "-q", "--acknowledged", *options, name],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.name, self.sent, self.acknowledged, self.ended = name, 0, [], False
        self.readers = [threading.Thread(target=self.read), threading.Thread(target=self.feed)]
        for thread in self.readers:
            thread.start()

    def feed(self):
        while not self.ended and self.process.poll() is None:
            keys = [f"{self.name}-{(self.sent + i) % ROOM}" for i in range(500)]
            try:
                self.process.stdin.write("".join(key + "\n" for key in keys))
                self.process.stdin.flush()
            except BrokenPipeError:
                break
            self.sent += len(keys)
            while self.sent - len(self.acknowledged) > 5000 and self.process.poll() is None:
                time.sleep(0.001)
        self.process.stdin.close()

    def read(self):
        for line in self.process.stdout:
            self.acknowledged.append(line.rstrip("\n"))

    def wait_for(self, more):
        """Waits until this many more keys have been acknowledged."""
        goal = len(self.acknowledged) + more
        wait_for(lambda: len(self.acknowledged) >= goal or self.process.poll() is not None, f"{more} more keys")
        assert self.process.poll() is None, self.process.stderr.read()

    def end(self):
        self.ended = True
        for thread in self.readers:
            thread.join()
        error = self.process.stderr.read()
        assert self.process.wait() == 0, error
        assert len(self.acknowledged) == self.sent, "not all keys were acknowledged"
        return self.acknowledged


def check_all(world, name, keys):
    """Checks that the filter answers "maybe" for all keys, and that its false-positive rate is not too high."""
    text = "".join(key + "\n" for key in keys)
    missing = cli(world, "check", "-v", name, keys=text).stdout.split()
    assert not missing, f"{len(missing)} of {len(keys)} acknowledged keys were lost: {missing[:5]}"
    others = "".join(f"other-{i}\n" for i in range(20000))
    found = int(cli(world, "check", "-c", name, keys=others).stdout)
    assert found < 20000 * 0.001 * 3, f"expected fewer than 60 false positives, got {found}"


def shard_slots(name):
    return [shard_reference.slot(key) for key in shard_reference.names(name, SHARDS)]


# ---- Tests, in this order --------------------------------------------------------------------------


def test_names_and_routes(world):
    node = world.any()
    for shards in (1, 2, 7, 16, 100, 1024):
        names = [key.decode() for key in node.ask("BG.SHARDED", "KEYS", "seen", shards)]
        assert names == shard_reference.names("seen", shards)
    keys = [f"key-{i}" for i in range(300)] + ["", "x" * 1000, "\0", "{a}b"]
    told = [key.decode() for key in node.ask("BG.SHARDED", "SHARD", "seen", 37, *keys)]
    names = shard_reference.names("seen", 37)
    assert told == [names[shard_reference.route(key.encode(), 37)] for key in keys]
    for key in names:
        assert node.ask("CLUSTER", "KEYSLOT", key) == shard_reference.slot(key)
    assert [len(set(key.split("/")[0] for key in names))] == [37]
    plan = node.ask("BG.SHARDED", "PLAN", 1000000, 0.001, 16)
    assert dict(zip(plan[::2], plan[1::2]))[b"capacity"] == shard_reference.capacity(1000000, 16)


def test_merge_is_exact(world):
    create(world, "a", "b", "both")
    left = "".join(f"left-{i}\n" for i in range(30000))
    right = "".join(f"right-{i}\n" for i in range(30000))
    cli(world, "add", "a", keys=left)
    cli(world, "add", "b", keys=right)
    cli(world, "add", "both", keys=left + right)
    cli(world, "merge", "a", "b")

    def digests(name):
        return [world.primary_of(shard_reference.slot(key)).ask("BG.DIGEST", key)
                for key in shard_reference.names(name, SHARDS)]
    assert digests("a") == digests("both")
    assert digests("b") != digests("both")
    assert int(cli(world, "check", "-c", "a", keys=left + right).stdout) == 60000


def refuse_keyrings(world, folder, text):
    """`secrets` does not change the target of a symbolic link, a file that is not a keyring, or a keyring that contains
    a different secret under the same name."""
    used = sum(node.log().count("BG.SECRET") for node in world.nodes)
    name, secret = re.search("^(.*) (.*) retired$", text, re.M).groups()
    wrong = {"notes": "some notes\n", "public": text, "conflict": f"{name} {secret[::-1]}\n"}
    for file, content in wrong.items():
        with open(os.path.join(folder, file), "w", encoding="ascii", opener=lambda p, f: os.open(p, f, 0o600)) as out:
            out.write(content)
    os.chmod(os.path.join(folder, "public"), 0o644)
    os.symlink("ring", os.path.join(folder, "link"))
    for file in ("notes", "public", "link", "conflict"):
        path = os.path.join(folder, file)
        if file == "conflict":  # detected only after the servers have sent the secrets
            assert sum(node.log().count("BG.SECRET") for node in world.nodes) == used
        done = subprocess.run([PROGRAM, "--cluster", world.addresses(), "secrets", "both", path], capture_output=True, text=True)
        assert done.returncode > 1 and path in done.stderr and secret not in done.stderr, done
        with open(path, encoding="ascii") as kept:
            first = kept.readline() + kept.readline()
        assert first in (text if file == "link" else wrong[file]) and first, (file, first)
    done = subprocess.run([PROGRAM, "--cluster", world.addresses(), "secrets", "both"], capture_output=True, text=True)
    assert done.returncode == 2 and "expected NAME and FILE" in done.stderr, done


def check_offline(world, folder, keys, owner):
    """The dump files of a keyed filter can be queried with the keyring that `secrets` writes."""
    ring = os.path.join(folder, "ring")

    def check(shard):
        mine = "".join(key + "\n" for key, at in zip(keys, owner) if at == shard)
        return subprocess.run([PROGRAM, "check", "-v", "--keyring", ring, os.path.join(folder, f"d.{shard}")], input=mine,
                              text=True, capture_output=True)
    subprocess.run([PROGRAM, "keyring", "-q", "--new", "mine", ring], check=True)
    assert "does not contain the secret" in check(0).stderr, check(0)
    cli(world, "secrets", "both", ring)
    with open(ring, encoding="ascii") as file:
        text = file.read()
    assert os.stat(ring).st_mode & 0o777 == 0o600 and text.count(" retired\n") == PRIMARIES, text
    for shard in range(SHARDS):
        done = check(shard)
        assert done.stdout == "" and done.returncode == 1, done
    cli(world, "secrets", "both", ring)
    with open(ring, encoding="ascii") as file:
        assert file.read() == text
    listed = subprocess.run([PROGRAM, "keyring", ring], check=True, capture_output=True, text=True).stdout
    assert listed.startswith("mine\tcurrent\n"), listed
    refuse_keyrings(world, folder, text)
    for node in world.nodes[:PRIMARIES]:
        assert not any(secret in node.log() for secret in re.findall("[0-9a-f]{32}", text))
    assert any("read the secret of filter '" in node.log() for node in world.nodes)


def test_dump(world):
    with tempfile.TemporaryDirectory() as folder:
        cli(world, "dump", "both", os.path.join(folder, "d"))
        keys = [f"left-{i}" for i in range(2000)]
        owner = [shard_reference.route(key.encode(), SHARDS) for key in keys]
        for i in range(SHARDS):
            path = os.path.join(folder, f"d.{i}")
            assert subprocess.run([PROGRAM, "info", path], capture_output=True).returncode in (0, 2)
            verified = subprocess.run([PROGRAM, "info", "--json", path], capture_output=True, text=True)
            assert "keyed" in verified.stdout + verified.stderr
        check_offline(world, folder, keys, owner)
        # The dump files of a filter with an unkeyed hash can be queried without a secret.
        cli(world, "create", "-n", "10000", "--hash", "fast", "open")
        cli(world, "add", "open", keys="".join(key + "\n" for key in keys))
        cli(world, "dump", "open", os.path.join(folder, "o"))
        for i in range(SHARDS):
            mine = "".join(key + "\n" for key, shard in zip(keys, owner) if shard == i)
            done = subprocess.run([PROGRAM, "check", "-v", os.path.join(folder, f"o.{i}")], input=mine, text=True,
                                  capture_output=True)
            assert done.stdout == "" and done.returncode == 1, done


def test_documents(world):
    """Runs the examples in docs/cluster.md: shell commands and a Python program."""
    with open(DOCUMENT, encoding="utf-8") as file:
        text = file.read()
    environment = {**transcript.surroundings(PROGRAM), "BLOOMGATE_CLUSTER": world.addresses()}
    tally = [0, 0]
    with tempfile.TemporaryDirectory() as folder:
        for block in check_documents.BLOCK.findall(text):
            check_documents.play(block, folder, environment, tally)
    assert tally[0] >= 3 and tally[1] == 0, tally
    program = re.search(r"^```python\n(.*?)^```$", text, re.S | re.M).group(1)
    done = subprocess.run(["/usr/bin/python3", "-c", program], env=environment, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0 or "No module named 'redis'" in done.stderr, done.stderr
    cli(world, "drop", "seen")
    cli(world, "drop", "visits")


def test_info_and_drop(world):
    text = cli(world, "info", "both").stdout
    assert "16, in a cluster of 3 nodes" in text and "blocked" in text, text
    assert cli(world, "drop", "b").returncode == 0
    assert cli(world, "drop", "b").returncode == 1


def test_slots_move_while_adding(world):
    """Moves slots with redis-cli, as an operator would, and then moves the shards' slots from node to node with CLUSTER
    commands."""
    create(world, "moved")
    adder = Adder(world, "moved")
    adder.wait_for(1000)
    source, target = world.nodes[0], world.nodes[1]
    done = subprocess.run(["redis-cli", "--cluster", "reshard", source.address(), "--cluster-from", source.name(),
                           "--cluster-to", target.name(), "--cluster-slots", str(min(5000, 300 * SCALE)), "--cluster-yes"],
                          capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    assert world.primary_of(shard_slots("moved")[0], world.nodes[2]) is target, "redis-cli did not move the first shard"
    moves = 0
    for _ in range(2 * SCALE):
        for slot in shard_slots("moved"):
            owner = world.primary_of(slot, world.nodes[2])
            other = world.nodes[(world.nodes.index(owner) + 1) % 3]
            world.move_slot(slot, owner, other)
            moves += 1
            adder.wait_for(100)
    keys = adder.end()
    check_all(world, "moved", keys)
    print(f"  {len(keys)} keys, {moves} shard moves in addition to those made by redis-cli")


def test_replica_that_lags(world):
    """Keys that only the primary has received are not acknowledged, even if adding them again changes nothing."""
    create(world, "lag")
    wait_for(world.is_ready, "all replicas")
    name = shard_reference.names("lag", SHARDS)[0]
    primary = world.primary_of(shard_reference.slot(name))
    replica = world.replica_of(primary)
    keys = [key for key in (f"lag-{i}" for i in range(2000)) if shard_reference.route(key.encode(), SHARDS) == 0]
    text = "".join(key + "\n" for key in keys)
    cluster_world.stop(replica)
    try:
        link = cluster_world.Link(primary.port)
        link.ask("BG.MADD", name, *keys)  # another client adds the keys without using WAIT
        link.close()
        done = subprocess.run([PROGRAM, "--cluster", primary.address(), "--patience", "300ms", "add", "-w", "1",
                               "--wait", "100ms", "--acknowledged", "lag"],
                              input=text, text=True, capture_output=True, timeout=PATIENCE)
    finally:
        cluster_world.resume(replica)
    assert done.returncode == 4 and done.stdout == "", done
    done = cli(world, "add", "-w", "1", "--acknowledged", "lag", keys=text)
    assert done.stdout == text, done


def denied_by_servers(world, name, keys):
    """Returns the number of keys that the primaries report as absent when queried directly, without
    the safeguards of the command-line tool."""
    shards = [[] for _ in range(SHARDS)]
    for key in keys:
        shards[shard_reference.route(key.encode(), SHARDS)].append(key)
    denied = 0
    for shard, mine in zip(shard_reference.names(name, SHARDS), shards):
        primary = world.primary_of(shard_reference.slot(shard))
        denied += primary.ask("BG.MEXISTS", shard, *mine).count(0)
    return denied


def save(node):
    """Makes a node save its data. Retries while another save is in progress, for example to synchronize a replica."""
    def saved():
        try:
            return node.ask("SAVE") == "OK"
        except cluster_world.Failed as error:
            assert "in progress" in str(error), error
            return False
    wait_for(saved, "a save")


def promote(heir):
    """Promotes a replica to primary. A failover times out in the server after 5 s, so the command is retried."""
    def promoted():
        if heir.info("replication")["role"] == "master":
            return True
        if time.monotonic() >= promoted.next:
            promoted.next = time.monotonic() + 6
            heir.ask("CLUSTER", "FAILOVER")
        return False
    promoted.next = 0
    wait_for(promoted, "the failover")


def test_primary_comes_back_with_an_old_save(world):
    """A primary that restarts with old data before a failover loses keys that its replica had received. The lost keys
    must not be reported as absent."""
    create(world, "restarted")
    wait_for(world.is_ready, "all replicas")
    victim = world.primary_of(shard_slots("restarted")[3])
    save(victim)
    keys = [f"restarted-{i}" for i in range(20000)]
    text = "".join(key + "\n" for key in keys)
    cli(world, "add", "-w", "1", "restarted", keys=text)
    before = victim.info("server")["run_id"]
    victim.kill()
    victim.launch()
    assert victim.is_up() and victim.info("server")["run_id"] != before
    wait_for(world.is_ready, "the cluster")
    lost = denied_by_servers(world, "restarted", keys) > 0
    done = cli(world, "check", "-v", "-c", "--open", "restarted", keys=text)
    assert done.stdout == "0\n", done
    # A replica that started to copy data from the restarted primary before its own promotion is reported as incomplete,
    # even if it kept the keys.
    assert "may have lost keys" in cli(world, "info", "restarted").stdout or not lost
    if lost:  # the replica has copied the incomplete data, so keys must not be reported as absent after its promotion
        promote(world.replica_of(world.primary_of(shard_slots("restarted")[3])))
        wait_for(world.is_ready, "the cluster")
        assert cli(world, "check", "-v", "-c", "--open", "restarted", keys=text).stdout == "0\n"
        assert "may have lost keys" in cli(world, "info", "restarted").stdout
    cli(world, "add", "-w", "1", "restarted", keys=text)
    cli(world, "complete", "restarted")
    assert cli(world, "check", "-v", "-c", "restarted", keys=text + "absent\n").stdout == "1\n"
    assert "may have lost" not in cli(world, "info", "restarted").stdout
    assert cli(world, "drop", "restarted").returncode == 0
    print(f"  keys were {'lost' if lost else 'kept by the replica'}")


def test_primary_is_killed_while_adding(world):
    create(world, "killed")
    wait_for(world.is_ready, "all replicas")
    world.set_node_timeout(2000)
    adder = Adder(world, "killed", "-w", "1", "--wait", "200ms")
    adder.wait_for(3000)
    slots = shard_slots("killed")
    victim, failover = None, 0
    for i in range(SCALE):
        wait_for(world.is_ready, "all replicas")
        victim = world.primary_of(slots[5 * i % SHARDS])
        heir = world.replica_of(victim)
        before = len(adder.acknowledged)
        victim.kill()
        start = time.monotonic()
        wait_for(lambda node=heir: node.info("replication")["role"] == "master", "a failover")
        failover = time.monotonic() - start
        # The new primary has no replica, so writes to its slots cannot be acknowledged until the old primary becomes
        # its replica.
        victim.launch()
        adder.wait_for(3000)
    keys = adder.end()
    victim.kill()  # the remaining primaries must contain all keys
    check_all(world, "killed", keys)
    print(f"  {before} keys before the kill, {len(keys) - before} keys after it; the replica took over after {failover:.1f} s")


def main():
    if not shutil.which(SERVER) or not shutil.which("redis-cli"):
        print(f"skipped: {SERVER} or redis-cli is not installed")
        sys.exit(77)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    passed = failed = 0
    with cluster_world.World(SERVER, MODULE) as world:
        for name, test in list(globals().items()):
            if not name.startswith("test_"):
                continue
            start = time.monotonic()
            try:
                test(world)
                passed += 1
                print(f"ok {name} ({time.monotonic() - start:.1f} s)", flush=True)
            except Exception:  # pylint: disable=broad-except
                failed += 1
                print(f"FAILED {name}", flush=True)
                traceback.print_exc(file=sys.stdout)
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


main()
