#!/usr/bin/env python3
"""Kills the service repeatedly while clients write, and verifies that all acknowledged changes are
still present.

Every client adds its own keys and records how many of them the service has acknowledged. After kill -9
and a restart, every acknowledged key must be present in filters that only grow (BF) and in filters that count keys
(CF), even if the kill interrupted a snapshot. Two clients add the same keys, because the reply that a key already
exists must be as durable as the reply that the key was added. A Mover thread creates, renames and drops filters. After
a kill, each renamed filter must have all its keys and only its new name, and dropped filters must no longer exist.
Disturber threads run at the same time. They copy, merge, fold, clear and expire filters, and start snapshots. Recovery
must be repeatable: if the service is killed again before any write, a filter has the same digest after both restarts.

usage: kill_drill.py BLOOMGATED [--kills N] [--policy always|everysec|no] [--seed N]
           [--disturbers N]"""

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

from service import MORTAL, PATIENCE, encode, free_port

CLIENTS = 6
PIPELINE = 16


class Connection:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        self.file = self.socket.makefile("rb")

    def send(self, data):
        self.socket.sendall(data)

    def reply(self):
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("the service has exited")
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

    def complaints(self):
        """Returns the sanitizer reports, if the program was built with sanitizers."""
        with open(os.path.join(self.folder, "log"), encoding="utf-8", errors="replace") as log:
            return [line for line in log
                    if "Sanitizer" in line or "runtime error:" in line or "Assertion" in line]

    def start(self):
        self.process = subprocess.Popen([*MORTAL, self.program, "--config", f"{self.folder}/conf"],
                                        stdout=self.log, stderr=self.log)
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise RuntimeError(f"the service exited with code {self.process.returncode}")
            try:
                connection = Connection(self.port)
                connection.ask("BF.CARD", "none")
                return connection
            except (OSError, RuntimeError): # the service is not listening yet, or is still loading
                time.sleep(0.005)
        raise RuntimeError("the service did not become ready")

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        self.process.terminate()
        return self.process.wait(PATIENCE)


class Writer(threading.Thread):
    """Adds its own keys until the service is killed; `acknowledged` counts the keys for which it received a reply."""

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


class Mover(threading.Thread):
    """Creates filters with some keys, renames them, and drops the oldest; `done` counts the created
    filters."""

    KEEPS = 20

    def __init__(self, port, name):
        super().__init__(daemon=True)
        self.name = name
        self.connection = Connection(port)
        self.done = self.dropped = 0

    def run(self):
        try:
            while True:
                i = self.done
                old, new = f"{self.name}:old:{i}", f"{self.name}:new:{i}"
                self.connection.ask("BF.MADD", old, *range(i, i + 10))
                self.connection.ask("RENAME", old, new)
                self.done = i + 1
                if i >= self.KEEPS:
                    self.connection.ask("DEL", f"{self.name}:new:{i - self.KEEPS}")
                    self.dropped = i - self.KEEPS + 1
        except (OSError, ConnectionError):
            pass

    def verify(self, connection):
        """Returns a list of problems: filters that have missing keys, still have their old name, or should have been
        dropped."""
        wrong = []
        for i in range(max(0, self.dropped - 5), self.dropped):
            if connection.ask("EXISTS", f"{self.name}:new:{i}"):
                wrong.append(f"{self.name}:new:{i} was dropped but still exists")
        for i in range(self.dropped + 1, self.done):  # the last DEL may have been executed without a reply
            if connection.ask("BF.MEXISTS", f"{self.name}:new:{i}", *range(i, i + 10)) != [1] * 10:
                wrong.append(f"{self.name}:new:{i} has missing keys")
            if connection.ask("EXISTS", f"{self.name}:old:{i}"):
                wrong.append(f"{self.name}:old:{i} still exists after the rename")
        return wrong


class Disturber(threading.Thread):
    """Runs random commands that do not affect the filters that the drill verifies."""

    COMMANDS = ["BF.ADD d1 {i}", "BF.MADD d2 {i} x y z", "CF.ADD d3 {i}", "CF.DEL d3 {i}", "BGSAVE",
                "COPY bf-keys d4 REPLACE", "BG.FOLD d4", "RENAME d1 d5", "BG.MERGE d5 d2", "DEL d5",
                "EXPIRE d2 100", "PERSIST d2", "PEXPIRE d2 1", "BG.CLEAR d3", "COPY d3 d6 REPLACE",
                "BG.INFO bf-keys", "BF.INFO bf-keys", "CF.COMPACT d6", "SCAN 0", "BG.DUMP d4 0",
                "BG.CREATE d7 KIND window CAPACITY 1000 MANUAL", "BG.ADD d7 {i}", "BG.ROTATE d7",
                "UNLINK d4 d6 d7", "BG.REBUILD d5 BEGIN 1000", "BG.REBUILD d5 COMMIT"]

    def __init__(self, port, seed):
        super().__init__(daemon=True)
        self.randoms = random.Random(seed)
        self.connection = Connection(port)
        self.commands = 0

    def run(self):
        try:
            while True:
                line = self.randoms.choice(self.COMMANDS).format(i=self.commands)
                self.connection.send(encode(*line.split()))
                try:
                    self.connection.reply()
                except RuntimeError: # expected, because another client may have dropped the filter
                    pass
                self.commands += 1
        except (OSError, ConnectionError):
            pass


def verify(connection, writer):
    """Returns the acknowledged keys that are missing."""
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


def drill(program, kills, policy, seed, disturbers):
    randoms = random.Random(seed)
    folder = tempfile.mkdtemp(prefix="bloomgate-kill-")
    service = Service(program, folder, policy)
    passed = failed = acknowledged = moved = disturbed = 0
    before = []
    connection = service.start()
    connection.ask("BF.RESERVE", "bf-keys", "0.0001", "100000")
    connection.ask("CF.RESERVE", "cf-keys", "10000")
    try:
        for kill in range(kills):
            writers = [Writer(service.port, f"{kill}-{min(i, 4)}", "CF.ADD" if i == 3 else "BF.ADD")
                       for i in range(CLIENTS)]
            others = [Mover(service.port, f"m{kill}")]
            others += [Disturber(service.port, seed + 10 * kill + i) for i in range(disturbers)]
            for thread in writers + others:
                thread.start()
            time.sleep(randoms.uniform(0.01, 0.25))
            service.kill()
            for thread in writers + others:
                thread.join()
            connection = service.start()
            lost = [key for writer in writers + before for key in verify(connection, writer)]
            lost += others[0].verify(connection)
            moved += others[0].done
            disturbed += sum(other.commands for other in others[1:])
            before = (before + writers)[-40:] # keys from earlier rounds are verified again
            acknowledged += sum(writer.acknowledged for writer in writers)
            now = digests(connection)
            connection.close()
            service.kill()
            connection = service.start()
            again = digests(connection)
            if lost or now != again:
                failed += 1
                print(f"kill {kill}: lost {len(lost)} acknowledged keys or filters: {lost[:5]}; digests after two restarts: {now} and {again}")
            else:
                passed += 1
        code = service.stop()
        if code != 0:
            failed += 1
            print(f"the service exited with code {code}")
        if service.complaints():
            failed += 1
            print("".join(service.complaints()[:20]))
    finally:
        if service.process.poll() is None:
            service.kill()
        if failed == 0:
            shutil.rmtree(folder)
        else:
            print(f"kept: {folder}")
    print(f"{policy}: {2 * kills} kills, {acknowledged} adds acknowledged, {moved} filters moved, "
          f"{disturbed} other commands, {failed} failed rounds (seed {seed})")
    return passed, failed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--kills", type=int, default=25)
    parser.add_argument("--policy", action="append")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--disturbers", type=int, default=2)
    options = parser.parse_args()
    passed = failed = 0
    for policy in options.policy or ["always", "everysec"]:
        good, bad = drill(options.program, options.kills, policy, options.seed,
                          options.disturbers)
        passed += good
        failed += bad
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
