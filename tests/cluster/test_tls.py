#!/usr/bin/env python3
"""Tests a cluster of three primaries with TLS, client certificates and a password. Both the command-line tool and the
service (as a front end) must connect to the cluster, and report an error if they cannot. The front end must reconnect
after a node has been paused or killed.
usage: test_tls.py BLOOMGATE BLOOMGATED MODULE [SERVER]"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../server"))

import cluster_world  # noqa: E402
import service  # noqa: E402
import shard_reference  # noqa: E402
from http_asker import Asker  # noqa: E402

KEYS = [f"key-{i}" for i in range(200)]
NAMES = shard_reference.names("seen", 16)
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/cluster.md"), encoding="utf-8") as document:
    RIGHTS = document.read().split("`ACL SETUSER front on >... ")[1].split("`")[0]


class Tried:
    """The programs under test and their cluster."""

    def __init__(self, cli, program, world, folder):
        self.cli, self.program, self.world, self.folder = os.path.abspath(cli), program, world, folder
        self.secure = world.secure
        self.tls = ["--tls", "--tls-ca", self.secure.path("ca.pem"), "--tls-cert", self.secure.path("client.pem"),
                    "--tls-key", self.secure.path("client.key")]

    def run(self, *words, keys=(), password="of-the-cluster"):
        env = {**os.environ, "BLOOMGATE_PASSWORD": password}
        if not password:
            del env["BLOOMGATE_PASSWORD"]
        done = subprocess.run([self.cli, "--cluster", self.world.addresses(), *words], capture_output=True, text=True, timeout=service.PATIENCE,
                              input="".join(key + "\n" for key in keys), env=env)
        return done.returncode, done.stdout, done.stderr

    def refused(self, *words, what, password="of-the-cluster"):
        """Checks that the command fails and that its message contains `what` and the address of a node."""
        code, _, said = self.run("info", "seen", "--timeout", "60s", "--patience", "200ms", *words, password=password)
        assert code and what in said and any(node.address() + ": " in said for node in self.world.nodes), (words, code, said)

    def front(self, *words, timeout="60s"):
        path = os.path.join(self.folder, "password")
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.secure.password + "\n")
        line = (f"sharded seen nodes={self.world.addresses()} timeout={timeout} patience=500ms tls=yes tls-ca={self.secure.path('ca.pem')} "
                f"tls-cert={self.secure.path('client.pem')} tls-key={self.secure.path('client.key')} password-file={path} ")
        return service.Service(self.program, line + " ".join(words), http=True)

    def keys_of(self, node):
        """Returns the keys whose shards are on a node, and the remaining keys."""
        ports = [self.world.primary_of(shard_reference.slot(NAMES[shard_reference.route(key.encode(), 16)])).port for key in KEYS]
        return [key for key, port in zip(KEYS, ports) if port == node.port], [key for key, port in zip(KEYS, ports) if port != node.port]


def state_of(s):
    return Asker(s).told("GET", "/api/v1/fronts/seen", 200)


def wait_for(s, state):
    return service.wait_for(lambda: (lambda f: f if f["state"] == state else None)(state_of(s)), what=f"the state {state}")


def test_command_line(t):
    code, _, said = t.run("create", "--items", "10000", "--rate", "0.1%", "seen", *t.tls)
    assert code == 0, said
    code, _, said = t.run("add", "seen", *t.tls, keys=KEYS)
    assert code == 0 and "keys added: 200" in said, said
    code, out, said = t.run("check", "-v", "seen", *t.tls, keys=[*KEYS, "x", "y"])
    assert (code, out) == (0, "x\ny\n"), (code, out, said)
    large = [f"{i:01000}" for i in range(3000)]  # requests and replies that span many TLS records
    code, _, said = t.run("add", "seen", *t.tls, "--acknowledged", keys=large)
    assert code == 0, said
    code, _, said = t.run("dump", "seen", os.path.join(t.folder, "dump"), *t.tls)
    assert code == 0 and os.path.getsize(os.path.join(t.folder, "dump.0")) > 1000, said


def test_password_in_a_file(t):
    path = os.path.join(t.folder, "secret")
    with open(path, "w", encoding="utf-8") as file:
        file.write("of-the-cluster\n")
    code, _, said = t.run("info", "seen", *t.tls, "--user", "default", "--password-file", path, password=None)
    assert code == 0, said
    code, _, said = t.run("info", "seen", *t.tls, "--password-file", path + "-not", password=None)
    assert code and "password-file: " in said and "No such file" in said, said
    code, _, said = t.run("info", "seen", *t.tls, "--user", "default", password=None)
    assert code and "user default: no password is set: set password-file" in said, said


def test_least_rights(t):
    """The permissions listed in docs/cluster.md are sufficient."""
    for node in t.world.nodes:
        node.ask("ACL", "SETUSER", "front", "on", ">least", *RIGHTS.split())
    for words in (("add", "seen"), ("check", "seen")):
        code, _, said = t.run(*words, *t.tls, "--user", "front", password="least", keys=["a", "b"])
        assert code == 0, said
    code, _, said = t.run("drop", "seen", *t.tls, "--user", "front", password="least")
    assert code and "NOPERM" in said, said


def test_what_is_refused(t):
    secure = t.secure
    other = cluster_world.Secure(os.path.join(t.folder, "other"))
    t.refused(*t.tls, password="wrong", what="AUTH: WRONGPASS")
    t.refused(*t.tls, password=None, what="NOAUTH: the node requires a password: set ")
    t.refused("--tls", "--tls-ca", other.path("ca.pem"), "--tls-cert", secure.path("client.pem"), "--tls-key", secure.path("client.key"),
              what="expected a certificate issued by an authority in tls-ca")
    t.refused("--tls", "--tls-ca", secure.path("ca.pem"), what="set tls-cert and tls-key")
    t.refused(*t.tls, "--tls-name", "elsewhere.example", what="expected a certificate for this host or for tls-name")
    t.refused(what="is it a TLS port?")
    code, _, said = t.run("info", "seen", *t.tls, "--tls-name", "*")
    assert code == 0, said
    for words, what in ((("--tls", "--tls-ca", secure.path("none.pem")), "tls-ca: "), (("--tls", "--tls-cert", secure.path("client.pem")), "tls-key"),
                        ((*t.tls[:5], "--tls-key", other.path("client.key")), "tls-key: "), (("--tls-ca", "x"), "require --tls")):
        code, _, said = t.run("info", "seen", *words)
        assert code and what in said, (words, said)


def test_no_tls_there(t):
    """Connects to a port that does not use TLS, and to a port that never answers."""
    with service.Service(t.program) as plain:
        done = subprocess.run([t.cli, "--cluster", f"127.0.0.1:{plain.port}", "info", "seen", *t.tls, "--timeout", "60s", "--patience", "200ms"],
                              capture_output=True, text=True, timeout=service.PATIENCE)
        assert done.returncode and f"127.0.0.1:{plain.port}: TLS: " in done.stderr and "is it a TLS port?" in done.stderr, done.stderr
    with cluster_world.socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        done = subprocess.run([t.cli, "--cluster", address, "info", "seen", *t.tls, "--connect-timeout", "200ms", "--patience", "200ms"],
                              capture_output=True, text=True, timeout=service.PATIENCE)
        assert done.returncode and f"{address}: cannot establish a connection with TLS within 200 ms" in done.stderr, done.stderr


def test_front(t):
    with t.front() as s:
        wait_for(s, "up")
        assert s.ask("BF.MEXISTS", "seen", *KEYS, "x") == [1] * 200 + [0]
        assert s.ask("BF.ADD", "seen", "by the front") == 1
    code, out, said = t.run("check", "seen", *t.tls, keys=["by the front"])
    assert (code, out) == (0, "by the front\n"), said


def test_front_that_is_not_let_in(t):
    with t.front("tls-name=elsewhere.example") as s:
        facts = wait_for(s, "down")
        assert any(node.address() + ": TLS: certificate rejected: " in facts["error"] for node in t.world.nodes), facts
        assert s.ask("BF.EXISTS", "seen", "x") == 1 and s.ask("BF.ADD", "seen", "x").startswith("FAILED")
    with t.front("user=unknown") as s:
        facts = wait_for(s, "down")
        assert "check the password of user 'unknown'" in facts["error"], facts
    s = t.front("tls-cert=/nowhere")
    try:
        done = subprocess.run([t.program, s.configure()], capture_output=True, text=True, timeout=service.PATIENCE)
        assert done.returncode and "seen: tls-cert: /nowhere: " in done.stdout + done.stderr, done
    finally:
        s.remove()


def test_nodes_stand_still_and_die(t):
    """While one node is paused or killed, queries for keys on other nodes are answered as usual. Clients wait only
    until the failure has been detected."""
    node = t.world.nodes[1]
    mine, others = t.keys_of(node)
    with t.front(timeout="2s") as s:
        wait_for(s, "up")
        for lose, back in ((lambda: cluster_world.stop(node), lambda: cluster_world.resume(node)), (node.kill, node.launch)):
            lose()
            try:
                assert s.ask("BF.EXISTS", "seen", mine[0]) == 1
                assert s.ask("BF.ADD", "local", "x") in (0, 1)
                wait_for(s, "partly")
                assert s.ask("BF.MEXISTS", "seen", *others) == [1] * len(others)
                fresh = [key for key in (f"fresh-{i}" for i in range(100)) if where(t, key) is not node]
                service.wait_for(lambda fresh=fresh: sum(s.ask("BF.MEXISTS", "seen", *fresh)) < 5,
                                 what='few "maybe" answers for absent keys on running nodes')
                doubtful = [key for key in (f"fresh-{i}" for i in range(100)) if key not in fresh]
                assert s.ask("BF.MEXISTS", "seen", *doubtful) == [1] * len(doubtful)
                assert s.ask("BF.ADD", "seen", doubtful[0]).startswith("FAILED the cluster did not answer")
            finally:
                back()
            if lose == node.kill:  # the node restarts without its data
                facts = service.wait_for(lambda: (lambda f: f if f["shards"]["missing"] and not f["shards"]["down"] else None)(state_of(s)),
                                         what="the shards to be reported as missing")
                assert facts["shards"]["missing"] + facts["shards"]["up"] == 16, facts
                service.wait_for(lambda: str(s.ask("BF.EXISTS", "seen", mine[0])).startswith("NOFILTER"), what="an error for a missing shard")
            else:
                wait_for(s, "up")
                assert s.ask("BF.MEXISTS", "seen", *KEYS) == [1] * 200


PLACES = {}


def where(t, key):
    """Returns the node that stored a key while all nodes were running."""
    slot = shard_reference.slot(NAMES[shard_reference.route(key.encode(), 16)])
    if slot not in PLACES:
        for first, last, place, *_ in t.world.nodes[0].ask("CLUSTER", "SLOTS"):
            PLACES.update({s: place[1] for s in range(first, last + 1)})
    return next(node for node in t.world.nodes if node.port == PLACES[slot])


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    cli, program, module = map(os.path.abspath, sys.argv[1:4])
    server = (sys.argv[4:] or ["redis-server"])[0]
    if not all(map(shutil.which, (server, "redis-cli", "openssl"))):
        print(f"skipped: {server}, redis-cli or openssl is not installed")
        sys.exit(77)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    folder = tempfile.mkdtemp(prefix="bloomgate-tls-")
    good = bad = 0
    try:
        secure = cluster_world.Secure(os.path.join(folder, "secure"))
        arguments = ("--cluster-require-full-coverage", "no")
        with cluster_world.World(server, module, replicas=0, secure=secure, arguments=arguments) as world:
            t = Tried(cli, program, world, folder)
            for name, test in list(globals().items()):
                if name.startswith("test_"):
                    passed = service.run_one(test, t)
                    good, bad = good + (passed is True), bad + (passed is False)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{good} passed, {bad} failed")
    sys.exit(1 if bad or not good else 0)


main()
