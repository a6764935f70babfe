#!/usr/bin/env python3
"""Kills the service while clients write, again and again, and looks for what it had acknowledged.

Every client adds keys of its own and notes how far the service has answered. After kill -9 and a
new start every key that was acknowledged must be there, in filters that only grow (BF) as well as
in those that count (CF, where it must be there exactly once), also when the kill fell into a
snapshot. Some clients are twins, who add the same keys: who is told that a key is there already has
been promised no less than who added it. What was found is recovered to the same content twice: the digest of a filter after a
start equals that after the next one.

usage: kill_drill.py BLOOMGATED [--kills N] [--policy always|everysec|no] [--seed N]"""

import argparse
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

CLIENTS = 6
PIPELINE = 16


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def encode(*words):
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        word = word if isinstance(word, bytes) else str(word).encode()
        parts.append(b"$%d\r\n%s\r\n" % (len(word), word))
    return b"".join(parts)


class Connection:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.file = self.socket.makefile("rb")

    def send(self, data):
        self.socket.sendall(data)

    def reply(self):
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("the service is gone")
        kind, rest = line[:1], line[1:-2]
        if kind == b":":
            return int(rest)
        if kind == b"+":
            return rest.decode()
        if kind == b"-":
            raise RuntimeError(rest.decode())
        if kind == b"$":
            if rest == b"-1":
                return None
            return self.file.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return [self.reply() for _ in range(int(rest))]
        raise RuntimeError(f"unknown reply {line!r}")

    def ask(self, *words):
        self.send(encode(*words))
        return self.reply()

    def close(self):
        self.socket.close()


class Service:
    def __init__(self, program, folder, policy, more="snapshot-journal-size 1Mi\nsnapshot-interval 1s\n"):
        self.program, self.folder = program, folder
        self.port = free_port()
        self.log = open(os.path.join(folder, "log"), "ab")
        with open(os.path.join(folder, "conf"), "w", encoding="utf-8") as f:
            f.write(f"port {self.port}\nhttp-port 0\nbind 127.0.0.1\nworkers 2\n"
                    f"dir {folder}/data\nkeyring {folder}/keyring\nappendfsync {policy}\n"
                    f"{more}")
        self.process = None

    def start(self):
        self.process = subprocess.Popen([self.program, "--config", f"{self.folder}/conf"],
                                        stdout=self.log, stderr=self.log)
        end = time.monotonic() + 60
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise RuntimeError(f"the service ended with {self.process.returncode}")
            try:
                connection = Connection(self.port)
                connection.ask("BF.CARD", "none")
                return connection
            except (OSError, RuntimeError): # not there yet, or loading
                time.sleep(0.005)
        raise RuntimeError("the service does not become ready")

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        self.process.terminate()
        return self.process.wait(60)


class Writer(threading.Thread):
    """Adds keys of its own until the service is gone; `acknowledged` of them were answered."""

    def __init__(self, port, name, command):
        super().__init__(daemon=True)
        self.name, self.command, self.filter = name, command, command[:2].lower() + "-keys"
        self.connection = Connection(port)
        self.acknowledged = 0

    def key(self, i):
        return f"{self.name}:{i}"

    def run(self):
        try:
            while True:
                first = self.acknowledged
                self.connection.send(b"".join(
                    encode(self.command, self.filter, self.key(i)) for i in range(first, first + PIPELINE)))
                for _ in range(PIPELINE):
                    self.connection.reply()
                    self.acknowledged += 1
        except (OSError, ConnectionError):
            pass


def verify(connection, writer):
    """The keys that were acknowledged and are not there."""
    lost = []
    for at in range(0, writer.acknowledged, 500):
        keys = [writer.key(i) for i in range(at, min(at + 500, writer.acknowledged))]
        if writer.command == "CF.ADD":
            connection.send(b"".join(encode("CF.COUNT", writer.filter, key) for key in keys))
            answers = [connection.reply() for _ in keys]
        else:
            answers = connection.ask("BF.MEXISTS", writer.filter, *keys)
        lost += [key for key, answer in zip(keys, answers) if answer < 1]
    return lost


def digests(connection):
    return [connection.ask("BG.DIGEST", name) for name in ("bf-keys", "cf-keys")]


def drill(program, kills, policy, seed):
    randoms = random.Random(seed)
    folder = tempfile.mkdtemp(prefix="bloomgate-kill-")
    service = Service(program, folder, policy)
    passed = failed = acknowledged = 0
    before = []
    connection = service.start()
    connection.ask("BF.RESERVE", "bf-keys", "0.0001", "100000")
    connection.ask("CF.RESERVE", "cf-keys", "10000")
    try:
        for kill in range(kills):
            writers = [Writer(service.port, f"{kill}-{min(i, 4)}", "CF.ADD" if i == 3 else "BF.ADD")
                       for i in range(CLIENTS)]
            for writer in writers:
                writer.start()
            time.sleep(randoms.uniform(0.01, 0.25))
            service.kill()
            for writer in writers:
                writer.join()
            connection = service.start()
            lost = [key for writer in writers + before for key in verify(connection, writer)]
            before = (before + writers)[-40:] # and that older ones stay
            acknowledged += sum(writer.acknowledged for writer in writers)
            now = digests(connection)
            connection.close()
            service.kill()
            connection = service.start()
            again = digests(connection)
            if lost or now != again:
                failed += 1
                print(f"kill {kill}: lost {len(lost)} acknowledged keys {lost[:5]}, digests {now} and {again}")
            else:
                passed += 1
        code = service.stop()
        if code != 0:
            failed += 1
            print(f"the service ended with {code}")
    finally:
        if service.process.poll() is None:
            service.kill()
        if failed == 0:
            shutil.rmtree(folder)
        else:
            print(f"kept: {folder}")
    print(f"{policy}: {2 * kills} kills, {acknowledged} adds acknowledged, "
          f"{failed} rounds with losses (seed {seed})")
    return passed, failed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--kills", type=int, default=25)
    parser.add_argument("--policy", action="append")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    passed = failed = 0
    for policy in options.policy or ["always", "everysec"]:
        good, bad = drill(options.program, options.kills, policy, options.seed)
        passed += good
        failed += bad
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
