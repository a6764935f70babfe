"""Runs a gate in a separate gate_probe process and controls it with commands."""

import os
import shutil
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))

from machine import PATIENCE  # noqa: E402 pylint: disable=wrong-import-position


class Failure(Exception):
    """A check in the suite failed."""


def expect(condition, what):
    if not condition:
        raise Failure(what)


class Gate:
    """A gate. The service saves the gate's filter in `directory`, and a restarted gate resumes from
    there."""

    def __init__(self, program, name, directory, settings):
        self.words = [program, name, f"dir={directory}"] + [f"{k}={v}" for k, v in settings.items() if v is not None]
        self.directory = directory
        self.lock = threading.RLock()
        self.process = None
        self.start()

    def start(self):
        os.makedirs(self.directory, exist_ok=True)
        with self.lock:
            self.process = subprocess.Popen(self.words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            first = self.process.stdout.readline().decode(errors="replace").strip()
        expect(first == "ready", f"gate_probe: {first}")

    def is_running(self):
        return self.process is not None

    def stop(self):
        """Shuts the service down. Fails if the exit status is not 0, for example because of a sanitizer report."""
        with self.lock:
            process, self.process = self.process, None
            process.stdin.close()
            process.stdout.close()
            status = process.wait(timeout=PATIENCE)
        expect(status == 0, f"gate_probe's exit status is {status}")

    def kill(self):
        with self.lock:
            process, self.process = self.process, None
            process.kill()
            process.wait()
            process.stdin.close()
            process.stdout.close()

    def end(self):
        try:
            if self.process:
                self.stop()
        finally:
            if self.process:
                self.kill()
            shutil.rmtree(self.directory, ignore_errors=True)

    def do(self, command, lines=()):
        """Sends a command and returns the one-line reply."""
        with self.lock:
            expect(self.process, "the gate is stopped")
            self.process.stdin.write((command + "\n").encode() + b"".join(line + b"\n" for line in lines))
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
            expect(answer, f"gate_probe exited during {command[:60]!r}")
            return answer.decode(errors="replace").strip()

    def about(self):
        words, _, text = self.do("about").partition(" text=")
        about = dict(word.split("=", 1) for word in words.split(" "))
        about["text"] = text
        return about

    def events(self):
        with self.lock:
            count = int(self.do("events"))
            return [self.process.stdout.readline().decode(errors="replace").strip() for _ in range(count)]

    def lookup(self, key):
        """Looks up one key, querying the database if necessary. Returns the outcome."""
        return self.do("lookup " + key.hex()).split(" ")[0]

    def row(self, key):
        """Looks up one key. Returns the columns of its row as pairs of a name and a value, which is None for NULL."""
        pairs = [word.split("=") for word in self.do("lookup " + key.hex()).split(" ")[1:]]
        return [(name, None if value == "NULL" else bytes.fromhex(value)) for name, value in pairs]

    def denied(self, keys):
        """Returns the keys that the gate reports as absent without querying the database."""
        keys, denied = list(keys), []
        for at in range(0, len(keys), 5000):
            part = [key.hex().encode() for key in keys[at:at + 5000]]
            denied += self.do(f"denied {len(part)}", part).split(" ")[1:]
        return [bytes.fromhex(word[1:]) for word in denied]

    # ---- Waiting --------------------------------------------------------------------------

    def wait(self, condition, what):
        """Waits until the result of `about` satisfies the condition."""
        deadline = time.monotonic() + PATIENCE
        about = self.about()
        while not condition(about):
            expect(time.monotonic() < deadline, f"not {what} after {PATIENCE:g} s: {about}")
            time.sleep(0.005)
            about = self.about()
        return about

    def wait_trusted(self):
        return self.wait(lambda about: about["trusted"] == "1", "trusted")

    def wait_doubt(self):
        return self.wait(lambda about: about["trusted"] == "0", "untrusted")

    def wait_caught(self, since=None):
        """Waits until all changes committed so far have been reported."""
        since = time.monotonic_ns() if since is None else since
        return self.wait(lambda about: int(about["since"]) > since, "caught up")

    def wait_builds(self, count):
        return self.wait(lambda about: int(about["builds"]) >= count, f"built {count} times")

    def wait_event(self, name):
        deadline = time.monotonic() + PATIENCE
        while not any(event.startswith(name) for event in self.events()):
            expect(time.monotonic() < deadline, f"no event {name}: {self.events()}")
            time.sleep(0.01)
