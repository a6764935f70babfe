"""Fake cluster nodes that store sets instead of filters and can simulate every kind of failure that a
client may encounter. Each node is a thread that serves RESP; FakeCluster.trouble is called before each command and can
replace the reply or break the connection."""

import contextlib
import copy
import os
import secrets
import socket
import struct
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))

from machine import PATIENCE, free_port  # noqa: E402,F401 pylint: disable=wrong-import-position
from shard_reference import crc16  # noqa: E402 pylint: disable=wrong-import-position


class Hang(Exception):
    """Makes the node stop replying on this connection."""


class Cut(Exception):
    """Makes the node send the exception's bytes and close the connection."""


def slot_of(key):
    begin = key.find(b"{")
    end = key.find(b"}", begin + 1)
    if begin >= 0 and end > begin + 1:
        key = key[begin + 1:end]
    return crc16(key) % 16384


# A dump with one chunk: the magic, the XXH64 of the remaining bytes, the stream ID, the offset and the total length,
# followed by an empty description line and the file.
DUMP = b"BGdump1\n" + struct.pack("<QQQQ", 0xb86d0311b50bb964, 1, 0, 7) + b"\nshard!"


class Node:
    """A node with its own socket; `cluster` holds the shared state."""

    def __init__(self, cluster, number):
        self.cluster, self.number = cluster, number
        self.keys = {}
        self.hashes = {}
        self.run, self.history, self.before = secrets.token_hex(20), secrets.token_hex(20), "0" * 40  # run_id, master_replid, master_replid2
        self.seen = []  # commands, in order
        self.connections = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def save(self):
        """Returns a copy of the node's data, as if saved to disk, for restart()."""
        return copy.deepcopy((self.keys, self.hashes))

    def restart(self, saved):
        """Simulates a new process that starts with the saved data."""
        self.keys, self.hashes = copy.deepcopy(saved)
        self.run, self.before, self.history = secrets.token_hex(20), self.history, secrets.token_hex(20)
        connections, self.connections = self.connections, []
        for connection in connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def follow(self, primary):
        """Makes this node a replica that has all of its primary's data."""
        self.keys, self.hashes = primary.save()
        self.history, self.before = primary.history, "0" * 40

    def promote(self):
        self.before, self.history = self.history, secrets.token_hex(20)

    def address(self):
        return f"127.0.0.1:{self.port}"

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        self.connections.append(connection)
        stream = connection.makefile("rb")
        state = {"asking": False, "user": self.cluster.password is None}
        hung = threading.Event()
        try:
            while True:
                words = read_command(stream)
                if words is None:
                    break
                self.seen.append(words)
                connection.sendall(self.answer(words, state))
        except Hang:
            hung.wait(2 * PATIENCE)
        except Cut as cut:
            with contextlib.suppress(OSError):
                connection.sendall(cut.args[0])
        except OSError:
            pass
        finally:
            stream.close()
            connection.close()

    def answer(self, words, state):
        name = words[0].upper()
        if name == b"AUTH":
            state["user"] = words[-1] == self.cluster.password
            return b"+OK\r\n" if state["user"] else b"-WRONGPASS invalid username-password pair\r\n"
        if not state["user"]:
            return b"-NOAUTH Authentication required.\r\n"
        trouble = self.cluster.trouble(self, words)
        if trouble is not None:
            return trouble
        if name == b"CLUSTER":
            return self.cluster.slots()
        if name == b"PING":
            return b"+PONG\r\n"
        if name == b"INFO":
            text = f"# Server\r\nredis_version:7.0.0\r\nrun_id:{self.run}\r\ntcp_port:{self.port}\r\n" \
                   f"# Replication\r\nmaster_replid:{self.history}\r\nmaster_replid2:{self.before}\r\n"
            text = text.encode()
            return b"$%d\r\n%s\r\n" % (len(text), text)
        if name == b"ASKING":
            state["asking"] = True
            return b"+OK\r\n"
        if name == b"WAIT":
            return b":%d\r\n" % self.cluster.replicas
        asking, state["asking"] = state["asking"], False
        slot = slot_of(words[1])
        elsewhere = self.redirect(slot, words[1], asking)
        return elsewhere or self.carry_out(name, words)

    def redirect(self, slot, key, asking):
        """Returns the MOVED or ASK reply that a Redis node would send, or None if this node serves the key."""
        owner, target = self.cluster.owner(slot), self.cluster.moving.get(slot)
        if owner is self:
            if target is not None and key not in self.keys and key not in self.hashes:
                return b"-ASK %d %s\r\n" % (slot, target.address().encode())
            return None
        if target is self and asking:
            return None
        return b"-MOVED %d %s\r\n" % (slot, owner.address().encode())

    def carry_out(self, name, words):
        members = self.keys.get(words[1])
        if name == b"SET":
            return b"+OK\r\n"
        if name == b"HSET":
            self.hashes.setdefault(words[1], {})[words[2]] = words[3]
            return b":1\r\n"
        if name == b"HDEL":
            return b":%d\r\n" % sum(self.hashes[words[1]].pop(field, None) is not None for field in words[2:])
        if name == b"HGETALL":
            parts = [part for pair in self.hashes.get(words[1], {}).items() for part in pair]
            return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)
        if name == b"DEL":
            return b":%d\r\n" % (self.hashes.pop(words[1], None) is not None)
        if name == b"BG.CREATE":
            if members is not None:
                return b"-ERR item exists\r\n"
            self.keys[words[1]] = set()
            return b"+OK\r\n"
        if name == b"BG.MERGE":
            self.keys[words[1]] = (members or set()).union(*(self.keys[source] for source in words[2:]))
            return b"+OK\r\n"
        if members is None:
            return b"-NOFILTER no such filter\r\n"
        if name == b"BG.DUMP":
            return b"*2\r\n:0\r\n$%d\r\n%s\r\n" % (len(DUMP), DUMP)
        if name == b"BG.MADD":
            answers = []
            for word in words[2:]:
                answers.append(word not in members)
                members.add(word)
        else:
            assert name == b"BG.MEXISTS", words
            answers = [word in members for word in words[2:]]
        return b"*%d\r\n" % len(answers) + b"".join(b":%d\r\n" % a for a in answers)


class FakeCluster:
    def __init__(self, nodes=3):
        self.password = None
        self.replicas = 1
        self.trouble = lambda node, words: None
        self.replica_of = {} # maps a node's index to its replica's index
        self.moving = {}     # maps a slot to the node that the slot is moving to
        self.told = None     # overrides the reply to CLUSTER SLOTS unless it is None
        self.nodes = [Node(self, i) for i in range(nodes)]
        self.owners = [i * nodes // 16384 for i in range(16384)]

    def owner(self, slot):
        return self.nodes[self.owners[slot]]

    def slots(self):
        owners = self.told or self.owners
        ranges, begin = [], 0
        for i in range(1, 16385):
            if i == 16384 or owners[i] != owners[begin]:
                node = self.nodes[owners[begin]]
                replica = self.replica_of.get(node.number)
                ports = [node.port] if replica is None else [node.port, self.nodes[replica].port]
                ranges.append(b"*%d\r\n:%d\r\n:%d\r\n" % (2 + len(ports), begin, i - 1)
                              + b"".join(b"*2\r\n$9\r\n127.0.0.1\r\n:%d\r\n" % port for port in ports))
                begin = i
        return b"*%d\r\n" % len(ranges) + b"".join(ranges)

    def addresses(self):
        return ",".join(node.address() for node in self.nodes)

    def members(self):
        """Returns all items added to any node."""
        return set().union(*(members for node in self.nodes for members in node.keys.values()))

    def close(self):
        for node in self.nodes:
            node.listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that is blocked in accept
            node.listener.close()


def read_command(stream):
    line = stream.readline()
    if not line:
        return None
    assert line[:1] == b"*", line
    words = []
    for _ in range(int(line[1:])):
        length = int(stream.readline()[1:])
        words.append(stream.read(length + 2)[:-2])
    return words
