"""Runs a real cluster on this machine: three primaries with one replica each, all with the
Bloomgate module. The cluster uses free ports and its own directory, which is deleted at the end.

    with cluster_world.World("redis-server", MODULE) as world:
        world.nodes[0].ask("CLUSTER", "INFO")"""

import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../server"))

import service  # noqa: E402  pylint: disable=wrong-import-position
from service import MORTAL, PATIENCE, free_port  # noqa: E402  pylint: disable=wrong-import-position

PRIMARIES, REPLICAS = 3, 1
BUS = 10000  # offset from a node's port to its cluster bus port


class Failed(Exception):
    """An error reply."""


class Link:
    """A connection that speaks RESP2."""

    def __init__(self, port, timeout=PATIENCE, secure=None):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        if secure:
            self.socket = secure.context().wrap_socket(self.socket, server_hostname="127.0.0.1")
        self.file = self.socket.makefile("rb")

    def ask(self, *words):
        parts = [b"*%d\r\n" % len(words)]
        for word in words:
            word = word if isinstance(word, bytes) else str(word).encode()
            parts.append(b"$%d\r\n%s\r\n" % (len(word), word))
        self.socket.sendall(b"".join(parts))
        return self.reply()

    def reply(self):
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("closed")
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            raise Failed(rest.decode())
        if kind == b"+":
            return rest.decode()
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self.file.read(int(rest) + 2)[:-2]
        assert kind == b"*", line
        return None if rest == b"-1" else [self.reply() for _ in range(int(rest))]

    def close(self):
        self.file.close()
        self.socket.close()


def wait_for(condition, what):
    return service.wait_for(condition, what=what)


class Secure:
    """A new directory with certificates from a private certificate authority, and a shared password."""

    def __init__(self, folder, password="of-the-cluster"):
        self.folder, self.password = folder, password
        os.makedirs(folder)
        self.run("req", "-x509", *self.new_key("ca.key"), "-out", "ca.pem", "-days", "2", "-subj", "/CN=authority")
        self.issue("node", "IP:127.0.0.1")
        self.issue("client", "DNS:client")

    @staticmethod
    def new_key(name):
        return "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", name

    def run(self, *arguments):
        done = subprocess.run(["openssl", *arguments], cwd=self.folder, capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0, done.stderr

    def issue(self, name, whom):
        """Creates NAME.pem, a certificate with the subject alternative name `whom`, and NAME.key, its private key."""
        with open(self.path("extensions"), "w", encoding="utf-8") as file:
            file.write(f"subjectAltName={whom}\n")
        self.run("req", *self.new_key(f"{name}.key"), "-out", "request", "-subj", f"/CN={name}")
        self.run("x509", "-req", "-in", "request", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
                 "-extfile", "extensions", "-out", f"{name}.pem")

    def path(self, name):
        return os.path.join(self.folder, name)

    def of_server(self):
        return ("--tls-cluster", "yes", "--tls-replication", "yes", "--tls-cert-file", self.path("node.pem"), "--tls-key-file",
                self.path("node.key"), "--tls-ca-cert-file", self.path("ca.pem"), "--tls-auth-clients", "yes",
                "--requirepass", self.password, "--masterauth", self.password)

    def of_cli(self):
        return ("--tls", "--cacert", self.path("ca.pem"), "--cert", self.path("client.pem"), "--key", self.path("client.key"),
                "-a", self.password, "--no-auth-warning")

    def context(self):
        context = ssl.create_default_context(cafile=self.path("ca.pem"))
        context.load_cert_chain(self.path("client.pem"), self.path("client.key"))
        return context


class Node:
    def __init__(self, world, number):
        self.world, self.number = world, number
        self.folder = os.path.join(world.folder, str(number))
        os.mkdir(self.folder)
        self.port, self.process, self.link = 0, None, None

    def start(self):
        for _ in range(10):  # retries if another process has taken the port
            self.port = free_port(BUS)
            self.launch()
            if self.is_up():
                return
        raise AssertionError(f"the server did not start:\n{self.log()}")

    def launch(self):
        with open(os.path.join(self.folder, "log"), "ab") as log:
            self.process = subprocess.Popen(
                [*MORTAL, self.world.server, *self.world.ports(self.port), "--bind", "127.0.0.1", "--dir", self.folder,
                 "--save", "", "--cluster-enabled", "yes", "--cluster-node-timeout", str(self.world.node_timeout),
                 "--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1",
                 *self.world.arguments,
                 "--loadmodule", self.world.module, *self.world.module_arguments],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def is_up(self):
        while self.process.poll() is None:
            try:
                return self.ask("PING") == "PONG"
            except OSError:
                time.sleep(0.01)
        return False

    def ask(self, *words):
        if self.link is None:
            self.link = Link(self.port, secure=self.world.secure)
            if self.world.secure:
                self.link.ask("AUTH", self.world.secure.password)
        try:
            return self.link.ask(*words)
        except OSError:
            self.link.close()
            self.link = None
            raise

    def info(self, section):
        lines = self.ask("INFO", section).decode().split("\r\n")
        return dict(line.split(":", 1) for line in lines if ":" in line)

    def name(self):
        return self.ask("CLUSTER", "MYID").decode()

    def log(self):
        with open(os.path.join(self.folder, "log"), encoding="utf-8", errors="replace") as file:
            return file.read()[-4000:]

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        if self.link:
            self.link.close()
            self.link = None
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def is_alive(self):
        return self.process.poll() is None

    def address(self):
        return f"127.0.0.1:{self.port}"


class World:
    """A running cluster. `secure` is a Secure object that provides TLS files and a password; `arguments` are additional
    arguments for the servers."""

    def __init__(self, server, module, *module_arguments, node_timeout=30000, primaries=PRIMARIES, replicas=REPLICAS, secure=None, arguments=()):
        self.server, self.module = server, os.path.abspath(module)
        self.module_arguments, self.node_timeout = module_arguments, node_timeout
        self.primaries, self.replicas, self.secure = primaries, replicas, secure
        self.arguments = [*arguments, *(secure.of_server() if secure else ())]
        self.folder = tempfile.mkdtemp(prefix="bloomgate-cluster-")
        self.nodes = []

    def __enter__(self):
        try:
            self.nodes = [Node(self, i) for i in range(self.primaries * (1 + self.replicas))]
            for node in self.nodes:
                node.start()
            done = subprocess.run(["redis-cli", *(self.secure.of_cli() if self.secure else ()), "--cluster", "create", *(node.address() for node in self.nodes),
                                   "--cluster-replicas", str(self.replicas), "--cluster-yes"],
                                  capture_output=True, text=True, timeout=PATIENCE)
            assert done.returncode == 0, done.stdout + done.stderr
            wait_for(self.is_ready, "the cluster")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for node in self.nodes:
            node.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def ports(self, port):
        return ("--port", "0", "--tls-port", str(port)) if self.secure else ("--port", str(port))

    def is_ready(self):
        """Returns true if the slot map of every running node covers all slots and every replica is connected to its
        primary."""
        for node in filter(Node.is_alive, self.nodes):
            try:
                state = dict(line.split(":", 1) for line in node.ask("CLUSTER", "INFO").decode().split("\r\n") if line)
                about = node.info("replication")
            except (OSError, Failed):
                return False
            if state["cluster_state"] != "ok" or about.get("master_link_status", "up") != "up" \
                    or about["role"] == "master" and self.slots_of(node) \
                    and int(about["connected_slaves"]) < self.replicas and all(map(Node.is_alive, self.nodes)):
                return False
        return True

    def slots_of(self, node):
        """Returns the number of slots that a node reports as its own."""
        mine = [line.split() for line in node.ask("CLUSTER", "NODES").decode().split("\n") if "myself" in line][0]
        ranges = [word.split("-") for word in mine[8:] if not word.startswith("[")]
        return sum(int(r[-1]) - int(r[0]) + 1 for r in ranges)

    def primary_of(self, slot, asked=None):
        """Returns the node that owns a slot, as reported by a running node."""
        asked = asked or next(filter(Node.is_alive, self.nodes))
        for first, last, where, *_ in asked.ask("CLUSTER", "SLOTS"):
            if first <= slot <= last:
                return next((node for node in self.nodes if node.port == where[1]), None)
        return None

    def replica_of(self, primary):
        name = primary.name()
        for node in filter(Node.is_alive, self.nodes):
            lines = node.ask("CLUSTER", "NODES").decode().split("\n")
            mine = next(line.split() for line in lines if "myself" in line)
            if mine[3] == name:
                return node
        return None

    def addresses(self):
        return ",".join(node.address() for node in self.nodes)

    def set_node_timeout(self, milliseconds):
        """Sets the time after which a node is considered failed. The default is so long that no failover happens just
        because the machine is busy."""
        for node in filter(Node.is_alive, self.nodes):
            node.ask("CONFIG", "SET", "cluster-node-timeout", milliseconds)

    def any(self):
        return next(filter(Node.is_alive, self.nodes))

    def logs(self):
        return "\n".join(f"--- {node.number}\n{node.log()}" for node in self.nodes)

    def move_slot(self, slot, source, target):
        """Moves a slot the way redis-cli --cluster reshard does: first each key, then the slot itself."""
        source_name, target_name = source.name(), target.name()
        target.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", source_name)
        source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", target_name)
        while True:
            keys = source.ask("CLUSTER", "GETKEYSINSLOT", slot, 10)
            if not keys:
                break
            source.ask("MIGRATE", "127.0.0.1", target.port, "", 0, int(1000 * PATIENCE), "KEYS", *keys)
        for node in (target, source, *(n for n in self.nodes if n not in (source, target) and n.is_alive())):
            try:
                node.ask("CLUSTER", "SETSLOT", slot, "NODE", target_name)
            except Failed as error:  # replicas reject this
                assert "SETSLOT only with masters" in str(error), error


def stop(node):
    """Pauses a node, until `resume`."""
    node.signal(signal.SIGSTOP)


def resume(node):
    node.signal(signal.SIGCONT)
