"""Runs the service under test: starts it in its own directory with free ports, sends RESP commands, stops it, and
searches its log for sanitizer reports. This module is also the test runner for the scripts in this directory.

    import service

    def test_something(s):                       # s is a running Service, emptied before each test
        assert s.ask("BF.ADD", "k", "a") == 1

    service.main(__doc__)                        # the last line is "N passed, N failed"

Each script takes the path of bloomgated and, optionally, parts of the names of the tests to run."""

import collections
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback

SKIPPED = 77
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../support"))

from machine import PATIENCE, free_port, release_port, wait_for  # noqa: E402 pylint: disable=wrong-import-position

# a command with this prefix is killed when the script exits, for whatever reason
MORTAL = ("setpriv", "--pdeathsig", "KILL")
COMPLAINT = re.compile(r"AddressSanitizer|ThreadSanitizer|LeakSanitizer|runtime error:|"
                       r"Assertion .* failed|MemorySanitizer")


class Skip(Exception):
    """Raised if one test or all tests cannot run on this machine."""


# ---- RESP --------------------------------------------------------------------------------------


class Status(str):
    """+OK"""


class Error(str):
    """An error reply such as -ERR; compares equal to its text."""


class Verbatim(str):
    """=15 txt:Some text"""


class Pairs(list):
    """A RESP3 map, as a list of pairs because keys can have any type."""


class Members(list):
    """A RESP3 set."""


class Closed(Exception):
    """The service has closed the connection."""


def encode(*words):
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        word = word if isinstance(word, bytes) else str(word).encode()
        parts.append(b"$%d\r\n%s\r\n" % (len(word), word))
    return b"".join(parts)


HISTORY = collections.deque(maxlen=4)  # the last requests and replies, shown on failure


class Connection:
    """A socket that speaks RESP2 and RESP3. Error replies are returned, not raised."""

    def __init__(self, port, timeout=PATIENCE, path=None):
        if path:
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.settimeout(timeout)
            self.socket.connect(path)
        else:
            self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.socket.makefile("rb", buffering=1 << 16)

    def send(self, data):
        self.socket.sendall(data)

    def line(self):
        try:
            line = self.file.readline()
        except ConnectionError as error:
            raise Closed(str(error)) from error
        if not line.endswith(b"\r\n"):
            raise Closed(f"after {line!r}")
        return line[:-2]

    def string(self, n):
        data = self.file.read(n + 2)
        if len(data) != n + 2 or data[-2:] != b"\r\n":
            raise Closed(f"within a string: {data[-20:]!r}")
        return data[:-2]

    def reply(self):
        line = self.line()
        kind, rest = line[:1], line[1:]
        if kind == b"+":
            return Status(rest.decode())
        if kind == b"-":
            return Error(rest.decode())
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self.string(int(rest))
        if kind == b"=":
            return Verbatim(self.string(int(rest))[4:].decode())
        if kind == b"*":
            return None if rest == b"-1" else [self.reply() for _ in range(int(rest))]
        if kind == b"~":
            return Members(self.reply() for _ in range(int(rest)))
        if kind == b"%":
            return Pairs((self.reply(), self.reply()) for _ in range(int(rest)))
        if kind == b"#":
            return {b"t": True, b"f": False}[rest]
        if kind == b",":
            return float(rest)
        if kind == b"_":
            return None
        raise AssertionError(f"not RESP: {line!r}")

    def ask(self, *words):
        self.send(encode(*words))
        reply = self.reply()
        HISTORY.append((words, reply))
        return reply

    def pipeline(self, requests):
        self.send(b"".join(encode(*words) for words in requests))
        return [self.reply() for _ in requests]

    def is_closed(self):
        """Waits until the peer closes the connection or sends data. Returns whether the peer has closed the
        connection."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True

    def close(self):
        self.file.close()
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


# ---- The service -------------------------------------------------------------------------------


class Service:
    """A bloomgated process with the given configuration lines, in a temporary directory that remove() deletes."""

    def __init__(self, program, *lines, http=False, env=None, prefix=()):
        self.program = program
        self.prefix = prefix
        self.lines = lines
        self.http = http
        self.env = env or {}
        self.folder = tempfile.mkdtemp(prefix="bloomgated-test-")
        self.log = os.path.join(self.folder, "log")
        self.unix = os.path.join(self.folder, "socket")
        self.process = None
        self.ended = False  # set by stop
        self.port = self.http_port = 0
        self.connection = None
        self.log_start = 0

    def choose_ports(self):
        """Chooses new ports. Until then, restarts use the same ports."""
        for port in self.port, self.http_port:
            release_port(port)
        self.port = free_port()
        self.http_port = free_port() if self.http else 0

    def configure(self):
        if not self.port:
            self.choose_ports()
        path = os.path.join(self.folder, "bloomgate.conf")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"bind 127.0.0.1\nport {self.port}\nhttp-port {self.http_port}\n"
                       f"unixsocket {self.unix}\n"
                       f"dir {os.path.join(self.folder, 'data')}\n"
                       f"keyring {os.path.join(self.folder, 'keyring')}\n")
            if not any(line.startswith("slow-client-timeout") for line in self.lines):
                # A slow test must not be disconnected as a slow client.
                file.write(f"slow-client-timeout {2 * PATIENCE:g}s\n")
            file.write("".join(line + "\n" for line in self.lines))
        return path

    def launch(self):
        assert not self.is_running(), "the previous process is still running"
        path = self.configure()
        self.log_start = len(self.read_log()) if os.path.exists(self.log) else 0
        with open(self.log, "ab") as log:
            self.ended = False
            self.process = subprocess.Popen([*MORTAL, *self.prefix, self.program, path], stdout=log, stderr=log,
                                            stdin=subprocess.DEVNULL,
                                            env={**os.environ, **self.env})

    def start(self, wait=True):
        """Starts the service. Retries with another port if another process takes the port first."""
        self.forget()
        for attempt in range(5):
            self.launch()
            if not wait:
                return self
            if self.wait_until_ready() or attempt == 4 or "cannot listen" not in self.read_log()[self.log_start:]:
                break
            self.choose_ports()
        if self.process.poll() is not None:
            raise AssertionError(f"the service did not start:\n{self.read_log()}")
        return self

    def wait_until_ready(self, seconds=PATIENCE):
        """Waits until the filters are loaded. Returns False if the process has exited."""
        end = time.monotonic() + seconds
        while self.process.poll() is None:
            try:
                with Connection(self.port) as c:
                    answer = c.ask("INFO", "persistence")
                    if self.says_ready(answer):
                        return True
            except (OSError, Closed):
                pass
            if time.monotonic() > end:
                raise AssertionError(f"not ready after {seconds} s:\n{self.read_log()}")
            time.sleep(0.01)
        return False

    def says_ready(self, answer):
        if isinstance(answer, Error):  # the service requires a password, so the log is checked instead
            return "text=\"ready" in self.read_log()[self.log_start:]
        return b"\r\nloading:0" in answer

    def connect(self, timeout=PATIENCE):
        return Connection(self.port, timeout)

    def ask(self, *words):
        """Sends a command over a connection that stays open between calls."""
        if self.connection is None:
            self.connection = self.connect()
        return self.connection.ask(*words)

    def forget(self):
        if self.connection:
            self.connection.close()
            self.connection = None

    def memory(self, field="VmRSS"):
        """Returns one of the kernel's memory statistics for the process, in bytes."""
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as file:
            for line in file:
                if line.startswith(field + ":"):
                    return int(line.split()[1]) * 1024
        raise AssertionError(f"no {field}")

    def faults(self):
        """Returns the number of minor page faults of the process, which is about the number of pages that it has
        touched."""
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as file:
            return int(file.read().rsplit(")", 1)[1].split()[7])

    def keeps_freed_memory(self):
        """Returns whether the service was built with AddressSanitizer, which holds on to freed memory on purpose."""
        with open(self.program, "rb") as file:
            return b"__asan_init" in file.read()

    def read_log(self):
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return file.read()

    def wait(self, seconds=PATIENCE):
        """Waits until the process exits on its own, and returns its exit code."""
        return self.process.wait(timeout=seconds)

    def stop(self, seconds=PATIENCE, expect=0):
        """Stops the service. Checks the exit code, and checks that the log contains no sanitizer reports."""
        self.forget()
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGABRT)
            self.process.wait()
            raise AssertionError(f"the service did not stop within {seconds} s:\n{self.read_log()[-4000:]}") \
                from None
        text = self.read_log()
        assert not COMPLAINT.search(text), text[-20000:]
        assert code == expect, f"exit code {code}:\n{text[-4000:]}"
        self.ended = True

    def kill(self):
        self.forget()
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def restart(self):
        self.stop()
        return self.start()

    def remove(self):
        for port in self.port, self.http_port:
            release_port(port)
        shutil.rmtree(self.folder, ignore_errors=True)

    def is_running(self):
        return self.process is not None and self.process.poll() is None

    def __enter__(self):
        return self if self.is_running() else self.start()

    def __exit__(self, kind, *_):
        try:
            if kind is None and not self.ended:
                self.stop()
            elif kind not in (None, Skip) and self.process and os.path.exists(self.log):
                print(f"  exit code of the service: {self.process.poll()}; end of its log:\n{self.read_log()[-2000:]}")
        finally:
            self.kill()
            self.remove()


# ---- The runner --------------------------------------------------------------------------------


def work(n):
    """Returns n multiplied by a scale factor, which is 1 except in `make soak`."""
    return n * max(1, int(os.environ.get("BG_TEST_SCALE", "1")))


def run_one(test, argument):
    start = time.monotonic()
    try:
        test(argument)
    except Skip as why:
        print(f"skipped {test.__name__}: {why}", flush=True)
        return None
    except Exception:  # pylint: disable=broad-except
        print(f"FAILED {test.__name__}", flush=True)
        traceback.print_exc(file=sys.stdout)
        for words, reply in HISTORY:
            print(f"  {str(words)[:150]} -> {str(reply)[:300]!r}")
        return False
    print(f"ok {test.__name__} ({time.monotonic() - start:.1f} s)", flush=True)
    return True


def run_all(tests, shared):
    good = bad = 0
    for test in tests:
        argument = shared
        if getattr(test, "alone", False):  # the test starts its own service
            argument = shared.program
        elif shared.process is None or shared.process.poll() is not None:
            shared.start()
        else:
            shared.forget()
            shared.ask("FLUSHALL")
        result = run_one(test, argument)
        good, bad = good + (result is True), bad + (result is False)
    return good, bad


def alone(test):
    """Marks a test that receives the path of the program instead of a running service."""
    test.alone = True
    return test


def main(usage, *lines, http=False):
    """Runs the test_* functions of the calling script. `lines` are the service's configuration lines."""
    if len(sys.argv) < 2:
        sys.exit(usage)
    caller = sys.modules["__main__"]
    tests = [value for name, value in vars(caller).items()
             if name.startswith("test_") and callable(value)
             and (len(sys.argv) < 3 or any(part in name for part in sys.argv[2:]))]
    shared = Service(os.path.abspath(sys.argv[1]), *lines, http=http)
    try:
        if hasattr(caller, "prepare"):
            caller.prepare()
        good, bad = run_all(tests, shared)
        if shared.process is not None:
            if run_one(test_stops, shared) is False:
                bad += 1
            else:
                good += 1
    except Skip as why:
        print(f"skipped: {why}")
        sys.exit(SKIPPED)
    finally:
        shared.kill()
        shared.remove()
    print(f"{good} passed, {bad} failed")
    sys.exit(1 if bad or not good else 0)


def test_stops(shared):
    """The service shared by all tests exits with code 0, without leaks or data races."""
    shared.stop()
