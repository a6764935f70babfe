"""Runs servers with the module loaded. redis-server and valkey-server are each started in their own directory on a free
port, queried over RESP, and stopped; their logs are searched for errors. This file is also the test runner for the
scripts in this directory: it runs every test with each installed server.

    import redis_host

    def test_something(h):                       # h is a Host, which is emptied before each test
        assert h.ask("BF.ADD", "k", "a") == 1

    redis_host.main(__doc__)                     # the last output line is "N passed, N failed"

Run a script with the path to bloomgate.so and, optionally, parts of test names. --server redis or --server valkey
selects one server; --server PATH selects a server executable. If the module was built with sanitizers, BG_PRELOAD must
contain the path of the sanitizer library, which is preloaded into the servers."""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "server"))

import service  # noqa: E402  pylint: disable=wrong-import-position
from service import PATIENCE, Closed, Connection, Error, Skip, free_port, run_one, wait_for  # noqa: E402,F401 pylint: disable=wrong-import-position,unused-import

SERVERS = ("redis-server", "valkey-server")
REFUSAL = "rrors trying to shut down"
CRASH = re.compile(r"=== (REDIS|VALKEY) BUG REPORT|AddressSanitizer|runtime error:|LeakSanitizer|ThreadSanitizer")


class Host(service.Service):
    """A server with the module loaded, and with configuration options such as port=1 or save="". `arguments` are passed
    to the module on the loadmodule line."""

    def __init__(self, program, module, arguments=(), **options):
        super().__init__(program)
        self.module = module
        if os.environ.get("BG_PRELOAD"):
            self.env = {"LD_PRELOAD": os.environ["BG_PRELOAD"],
                        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:abort_on_error=0"}
        self.arguments = arguments
        self.options = options

    def configure(self):
        if not self.port:
            self.choose_ports()
        path = os.path.join(self.folder, "server.conf")
        options = {"port": self.port, "bind": "127.0.0.1", "dir": self.folder, "save": '""',
                   "enable-debug-command": "yes", "repl-diskless-sync-delay": "0",
                   "repl-ping-replica-period": "1", "cluster-node-timeout": "2000", "daemonize": "no",
                   "auto-aof-rewrite-percentage": "0"}
        options.update((name.replace("_", "-"), value) for name, value in self.options.items())
        words = " ".join(str(word) for word in self.arguments)
        with open(path, "w", encoding="utf-8") as file:
            file.write("".join(f"{name} {value}\n" for name, value in options.items()))
            if self.module:
                file.write(f"loadmodule {self.module} {words}\n")
        return path

    def launch(self):
        assert not self.is_running(), "the server is already running"
        path = self.configure()
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([*service.MORTAL, self.program, path], stdout=log, stderr=log, cwd=self.folder,
                                            stdin=subprocess.DEVNULL, env={**os.environ, **self.env})

    def start(self, wait=True):
        self.forget()
        for attempt in range(5):
            self.launch()
            if not wait or self.wait_until_ready():
                return self
            if "bind" not in self.read_log()[-2000:]:
                break
            self.choose_ports()
        raise AssertionError(f"the server did not start:\n{self.read_log()[-4000:]}")

    def says_ready(self, answer):
        return not isinstance(answer, Error) and b"\r\nloading:0" in answer

    def stop(self, seconds=PATIENCE):
        """Stops the server. The server ignores SIGTERM while it writes its first AOF, for example after a replica has
        received the data of its primary, so the signal is sent again."""
        self.forget()
        refusals = 0

        def has_exited():
            nonlocal refusals
            if self.process.poll() is None and self.read_log().count(REFUSAL) > refusals:
                refusals = self.read_log().count(REFUSAL)
                self.process.send_signal(signal.SIGTERM)
            return self.process.poll() is not None
        if self.is_running():
            refusals = self.read_log().count(REFUSAL)
            self.process.send_signal(signal.SIGTERM)
            wait_for(has_exited, seconds, what="the server to stop")
        super().stop(seconds)
        self.check_log()

    def check_log(self):
        text = self.read_log()
        assert not CRASH.search(text), text[-20000:]

    def info(self, section, field):
        """Returns an INFO field as text."""
        for line in self.ask("INFO", section).decode().splitlines():
            name, _, value = line.partition(":")
            if name == field:
                return value
        raise AssertionError(f"INFO {section} has no {field}")

    def wait_until_freed(self):
        """Waits until the server's threads have freed all deleted keys, so that used_memory stays constant."""
        wait_for(lambda: self.info("memory", "lazyfree_pending_objects") == "0", what="deleted keys to be freed")


def replica_of(primary, *arguments, **options):
    """Starts a replica of another server."""
    host = Host(primary.program, primary.module, arguments, replicaof=f"127.0.0.1 {primary.port}", **options)
    host.start()
    wait_for(lambda: host.info("replication", "master_link_status") == "up", what="the replica's link")
    wait_for(lambda: host.info("persistence", "aof_rewrite_in_progress") == "0", what="the replica's AOF")
    return host


def caught_up(primary, replica):
    """Waits until the replica has received everything that the primary has sent."""
    assert primary.ask("WAIT", 1, int(500 * PATIENCE)) >= 1, replica.read_log()[-3000:]


# ---- The runner ----------------------------------------------------------------------------------


def run_in(program, module, tests, options):
    good = bad = 0
    shared = Host(program, module, **options)
    try:
        for test in tests:
            if getattr(test, "alone", False):
                pattern = Host(program, module)
                result = run_one(test, pattern)
                pattern.kill()
                pattern.remove()
            else:
                if shared.process is None or shared.process.poll() is not None:
                    shared.start()
                shared.forget()
                shared.ask("FLUSHALL")
                shared.wait_until_freed()
                result = run_one(test, shared)
            good, bad = good + (result is True), bad + (result is False)
        if shared.process is not None:
            result = run_one(test_stops, shared)
            good, bad = good + (result is True), bad + (result is False)
    finally:
        shared.kill()
        shared.remove()
    return good, bad


def test_stops(shared):
    """Checks that the server stops cleanly."""
    shared.stop()


alone = service.alone  # marks a test that receives an unstarted Host as a template


def options_of(usage):
    parser = argparse.ArgumentParser(description=usage)
    parser.add_argument("module")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--server", default="", help="redis, valkey, or the path to a server executable")
    parser.add_argument("--service", default="", help="path to the bloomgated executable to compare with")
    parser.add_argument("--payloads", type=float, default=0)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_intermixed_args()


def servers_of(asked):
    """Returns a list of servers: only the program at the path `asked`, if that is a path; otherwise, the installed
    servers whose names contain `asked`."""
    if "/" in asked:
        path = os.path.abspath(asked)
        if not os.access(path, os.X_OK):
            sys.exit(f"{path}: not a program")
        return [path]
    return [name for name in SERVERS if asked in name and shutil.which(name)]


OPTIONS = None


def main(usage, **options):
    global OPTIONS  # pylint: disable=global-statement
    OPTIONS = options_of(usage)
    caller = sys.modules["__main__"]
    tests = [value for name, value in vars(caller).items()
             if name.startswith("test_") and callable(value)
             and (not OPTIONS.names or any(part in name for part in OPTIONS.names))]
    good = bad = 0
    servers = servers_of(OPTIONS.server)
    if not servers:
        print(f"skipped: none of {', '.join(SERVERS)} is installed")
        sys.exit(service.SKIPPED)
    for name in servers:
        start = time.monotonic()
        print(f"# {name}", flush=True)
        more = run_in(shutil.which(name), os.path.abspath(OPTIONS.module), tests, options)
        good, bad = good + more[0], bad + more[1]
        print(f"# {name}: {time.monotonic() - start:.1f} s", flush=True)
    print(f"{good} passed, {bad} failed")
    sys.exit(1 if bad or not good else 0)
