#!/usr/bin/env python3
"""Tests how the service stops: on signals under load, during loading, and with clients that do not read their replies.
Also tests what prevents the service from starting: ports, sockets and directories that are in use.
usage: test_stop.py PATH-OF-BLOOMGATED [PART-OF-A-NAME...]"""

import ctypes
import os
import re
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request

import service
from service import Closed, Service, Status, alone, encode, wait_for

OK = Status("OK")
# An interrupted service exits without joining its threads, which ThreadSanitizer would report.
INTERRUPTED = {"TSAN_OPTIONS": os.environ.get("TSAN_OPTIONS", "") + " report_thread_leaks=0"}


class Writer(threading.Thread):
    """Adds its own keys in pipelines until it is disconnected, and counts the replies."""

    def __init__(self, s, name, pipeline, command="BF.ADD"):
        super().__init__(daemon=True)
        self.connection = s.connect()
        self.name, self.pipeline, self.command = name, pipeline, command
        self.told = 0
        self.wrong = None

    def key(self, i):
        return f"{self.name}:{i}"

    def run(self):
        sent = 0
        try:
            while True:
                self.connection.send(b"".join(
                    encode(self.command, "stop-" + self.command[:2], self.key(i))
                    for i in range(sent, sent + self.pipeline)))
                sent += self.pipeline
                while self.told < sent:
                    reply = self.connection.reply()
                    if not isinstance(reply, int):
                        self.wrong = reply
                        return
                    self.told += 1
        except (Closed, OSError):
            pass


def stop_under_load(program, policy, number):
    s = Service(program, f"appendfsync {policy}", "workers 2", "snapshot-journal-size 1Mi",
                "snapshot-interval 1s")
    try:
        s.start()
        writers = [Writer(s, f"w{i}", (1, 16, 500)[i % 3], "CF.ADD" if i == 4 else "BF.ADD")
                   for i in range(6)]
        for writer in writers:
            writer.start()
        wait_for(lambda: sum(w.told for w in writers) > 2000, what="adds")
        s.process.send_signal(number)
        assert s.wait() == 0, s.read_log()
        for writer in writers:
            writer.join(service.PATIENCE)
            assert writer.wrong is None, writer.wrong
        s.start()
        for writer in writers:
            keys = [writer.key(i) for i in range(writer.told)]
            for at in range(0, len(keys), 1000):
                part = keys[at:at + 1000]
                answers = s.ask(writer.command[:2] + ".MEXISTS", "stop-" + writer.command[:2],
                                *part)
                assert answers == [1] * len(part), (writer.name, at)
        s.stop()
        return sum(w.told for w in writers)
    finally:
        s.kill()
        s.remove()


@alone
def test_stop_under_load(program):
    for policy in ("always", "everysec"):
        for number in (signal.SIGTERM, signal.SIGINT):
            for _ in range(service.work(2)):
                stop_under_load(program, policy, number)


@alone
def test_what_was_asked_is_answered(program):
    """Requests that arrived before the signal are executed and answered, and then the connection is closed."""
    for policy in ("always", "everysec"):
        with Service(program, f"appendfsync {policy}") as s:
            connections = [s.connect() for _ in range(8)]
            for c in connections:
                assert c.ask("PING") == Status("PONG")
            for c in connections:
                c.send(b"".join(encode("BF.ADD", "k", f"a{i}") for i in range(500))
                       + encode("BG.INFO", "k") + encode("BF.EXISTS", "k", "a1"))
            s.process.send_signal(signal.SIGTERM)
            for c in connections:
                for i in range(500):
                    assert c.reply() in (0, 1), i
                assert isinstance(c.reply(), list)
                assert c.reply() == 1
                assert c.is_closed()
            assert s.wait() == 0


@alone
def test_a_job_is_waited_for(program):
    with Service(program) as s, s.connect() as c:
        assert c.ask("BG.CREATE", "large", "KIND", "classic", "BYTES", "200000000", "K", "5") == OK
        c.send(encode("BG.DIGEST", "large") + encode("PING"))
        s.process.send_signal(signal.SIGTERM)
        assert len(c.reply()) == 32
        assert c.reply() == Status("PONG")
        assert c.is_closed()
        assert s.wait() == 0


def clog(s):
    """Creates a client whose replies pile up because it does not read them."""
    c = s.connect()
    c.send(encode("COMMAND", "DOCS") * 200)
    with s.connect() as other:
        def waits():
            text = other.ask("CLIENT", "LIST").decode()
            return any(word.startswith("obl=") and int(word[4:]) > 0 for word in text.split())
        wait_for(waits, what="queued replies")
    return c


def is_deaf(s):
    try:
        s.connect().close()
        return False
    except OSError:
        return True


@alone
def test_a_second_signal_ends_it_at_once(program):
    with Service(program, "shutdown-grace 600s") as s:
        c = clog(s)
        s.process.send_signal(signal.SIGTERM)
        wait_for(lambda: is_deaf(s), what="the listener to close")
        assert s.process.poll() is None
        s.process.send_signal(signal.SIGTERM)
        assert s.wait() == 0
        c.close()


@alone
def test_signals_to_two_threads(program):
    """The kernel may deliver a signal to any thread, so two handlers can run at the same time."""
    with Service(program, "shutdown-grace 600s") as s:
        c = clog(s)
        threads = sorted(int(thread) for thread in os.listdir(f"/proc/{s.process.pid}/task"))
        for thread in threads[0], threads[-1]:
            assert ctypes.CDLL(None).tgkill(s.process.pid, thread, signal.SIGTERM) == 0
        assert s.wait() == 0
        s.stop()
        c.close()


@alone
def test_the_unix_socket_of_the_next(program):
    """A service that starts during another service's grace period can use the same socket path. The stopping service
    must not delete the new socket file."""
    with Service(program, "shutdown-grace 600s") as s, socket.socket(socket.AF_UNIX) as following:
        c = clog(s)
        s.process.send_signal(signal.SIGTERM)
        wait_for(lambda: is_deaf(s), what="the listener to close")
        if os.path.exists(s.unix):
            os.unlink(s.unix)  # a new service also deletes a socket file that has no listener
        following.bind(s.unix)
        s.stop()
        assert os.path.exists(s.unix)
        c.close()


@alone
def test_a_job_without_its_client(program):
    """When the service stops, it does not wait for a disconnected client, even if the client's job is still running and
    using the service's data."""
    with Service(program, http=True, env=INTERRUPTED) as s:
        assert s.ask("BG.CREATE", "large", "KIND", "classic", "BYTES", "400000000", "K", "5") == OK
        with socket.create_connection(("127.0.0.1", s.http_port)) as c:
            c.sendall(b"GET /api/v1/filters/large?examine=true HTTP/1.1\r\nHost: localhost\r\n\r\n")
            s.process.send_signal(signal.SIGTERM)
            wait_for(lambda: is_deaf(s), what="the listener to close")
            s.process.send_signal(signal.SIGTERM)
            s.stop()


def run_long(s, *requests):
    """Starts a job that takes minutes: all requests in one transaction. Returns once the job is in progress."""
    c = s.connect()
    number = c.ask("CLIENT", "ID")
    c.send(encode("MULTI") + b"".join(encode(*words) for words in requests) + encode("EXEC"))
    assert c.reply() == OK
    for _ in requests:
        assert c.reply() == Status("QUEUED")
    wait_for(lambda: re.search(rf"^id={number} .* multi=-1 ", s.ask("CLIENT", "LIST").decode(), re.M), what="the transaction to begin")
    return c


@alone
def test_a_second_signal_interrupts_jobs(program):
    """The first signal waits for a job, even if its client has been disconnected. The second signal interrupts it."""
    for grace, number in (("600s", signal.SIGTERM), ("0s", signal.SIGINT)):
        s = Service(program, env=INTERRUPTED)
        s.lines = (f"shutdown-grace {grace}", f"pid-file {s.folder}/pid")
        with s:
            assert s.ask("BG.CREATE", "large", "KIND", "classic", "BYTES", "200000000", "K", "5") == OK
            assert s.ask("BF.ADD", "small", "a") == 1
            assert os.path.exists(f"{s.folder}/pid")
            with run_long(s, *[("BG.DIGEST", "large")] * 5000) as c:
                s.process.send_signal(number)
                wait_for(lambda: is_deaf(s), what="the listener to close")
                time.sleep(2)  # longer than an immediate stop takes
                assert s.process.poll() is None
                s.process.send_signal(number)
                assert s.wait() == 0
                assert c.is_closed()
            assert "operations in progress were interrupted" in s.read_log()
            assert not os.path.exists(f"{s.folder}/pid") and not os.path.exists(s.unix)
            s.start()
            assert s.ask("BF.MEXISTS", "small", "a", "b") == [1, 0]


@alone
def test_shutdown_now_interrupts_jobs(program):
    with Service(program, "shutdown-grace 600s", env=INTERRUPTED) as s:
        assert s.ask("BG.CREATE", "large", "KIND", "classic", "BYTES", "200000000", "K", "5") == OK
        with run_long(s, *[("BG.DIGEST", "large")] * 5000) as c, s.connect() as other:
            other.send(encode("SHUTDOWN", "NOW"))
            assert s.wait() == 0
            assert c.is_closed()


def filter_files(s):
    """Returns the names and sizes of all files with filters."""
    found = {}
    for folder, _, names in os.walk(os.path.join(s.folder, "data")):
        for name in names:
            if not name.startswith("journal"):
                found[name] = os.path.getsize(os.path.join(folder, name))
    return found


@alone
def test_interrupted_writes(program):
    """Jobs that are interrupted while they copy, merge, dump and save filters, and while other clients add keys, lose
    no acknowledged key and leave no partial filter."""
    for policy in ("always", "everysec", "no"):
        with Service(program, f"appendfsync {policy}", "workers 2", "shutdown-grace 600s", env=INTERRUPTED) as s:
            for name in ("large", "other"):
                assert s.ask("BG.CREATE", name, "KIND", "blocked", "BYTES", "20000000", "K", "5", "HASH", "fast") == OK
                assert s.ask("BG.MADD", name, "a", name) == [1, 1]
            digest = s.ask("BG.DIGEST", "large")
            copies = [("COPY", "large", f"copy{i}", "REPLACE") for i in range(3)]
            saves = [word for i in range(2000) for word in (("BG.ADD", "other", i), ("SAVE",))]
            merges = [("BG.MERGE", "merged", "large", "other")]
            jobs = [run_long(s, *requests) for requests in (copies * 1000, saves, merges * 2000)]
            writers = [Writer(s, f"w{i}", 16) for i in range(2)]
            for writer in writers:
                writer.start()
            wait_for(lambda: sum(w.told for w in writers) > 2000, what="adds")
            wait_for(lambda: s.ask("EXISTS", "copy2", "merged") == 2, what="copies")
            s.process.send_signal(signal.SIGTERM)
            s.process.send_signal(signal.SIGINT)
            assert s.wait() == 0, s.read_log()[-2000:]
            assert "operations in progress were interrupted" in s.read_log()
            for c in jobs:
                c.close()
            for writer in writers:
                writer.join(service.PATIENCE)
                assert writer.wrong is None, writer.wrong
            s.start()
            assert "damage" not in s.read_log()
            for i in range(3):
                assert s.ask("BG.DIGEST", f"copy{i}") == digest
            assert s.ask("BG.MEXISTS", "merged", "a", "large", "other", "b") == [1, 1, 1, 0]
            for writer in writers:
                keys = [writer.key(i) for i in range(writer.told)]
                for at in range(0, len(keys), 1000):
                    part = keys[at:at + 1000]
                    assert s.ask("BF.MEXISTS", "stop-BF", *part) == [1] * len(part), (writer.name, at)
            assert s.ask("FLUSHALL") == OK
            assert s.ask("SAVE") == OK
            assert not [name for name, size in filter_files(s).items() if size > 1000000]  # nothing is left behind


@alone
def test_the_grace_ends(program):
    with Service(program, "shutdown-grace 1s") as s:
        c = clog(s)
        s.process.send_signal(signal.SIGTERM)
        assert s.wait() == 0
        c.close()


@alone
def test_who_reads_late_gets_all(program):
    with Service(program, "shutdown-grace 600s") as s:
        c = clog(s)
        s.process.send_signal(signal.SIGTERM)
        wait_for(lambda: is_deaf(s), what="the listener to close")
        first = c.reply()
        for _ in range(199):
            assert c.reply() == first
        assert c.is_closed()
        assert s.wait() == 0


@alone
def test_connections_during_the_stop(program):
    """A worker that is still listening must not hand a connection to a worker that has exited. Otherwise, the
    connection would be neither served nor counted, and stopping would take the full grace period."""
    for _ in range(20):
        with Service(program, "shutdown-grace 3600s\nworkers 4") as s:
            enough = threading.Event()

            def knock():
                while not enough.is_set():
                    try:
                        socket.create_connection(("127.0.0.1", s.port)).close()
                    except OSError:
                        pass

            threads = [threading.Thread(target=knock) for _ in range(3)]
            for thread in threads:
                thread.start()
            try:
                time.sleep(0.05)  # gives all threads time to connect, which makes the race likely
                s.process.send_signal(signal.SIGTERM)
                assert s.wait() == 0
            finally:
                enough.set()
                for thread in threads:
                    thread.join()


@alone
def test_shutdown_save_while_loading(program):
    """SHUTDOWN SAVE is refused while the service is loading. A snapshot taken at that time would contain only the
    filters loaded so far, and would replace the journal for all filters."""
    filters = 20000
    with Service(program) as s:
        with s.connect() as c:
            for at in range(0, filters, 1000):
                assert c.pipeline([("BF.RESERVE", f"f{at + i}", "0.01", "10") for i in range(1000)]) == [OK] * 1000
        s.stop()
        s.start(wait=False)
        refused = 0
        while s.process.poll() is None:
            try:
                with s.connect() as c:
                    while str(c.ask("SHUTDOWN", "SAVE")).startswith("ERR Errors trying to SHUTDOWN"):
                        refused += 1
            except (Closed, OSError):
                pass
        assert s.wait() == 0
        assert refused > 0
        s.start()
        assert s.ask("DBSIZE") == filters


@alone
def test_shutdown_commands(program):
    for words in (("SHUTDOWN",), ("SHUTDOWN", "NOSAVE"), ("SHUTDOWN", "SAVE"), ("SHUTDOWN", "NOW")):
        s = Service(program)
        try:
            s.start()
            assert s.ask("BF.ADD", "k", "a") == 1
            with s.connect() as c:
                c.send(encode(*words))
                assert c.is_closed()
            assert s.wait() == 0
            s.start()
            assert s.ask("BF.EXISTS", "k", "a") == 1
            s.stop()
        finally:
            s.kill()
            s.remove()


@alone
def test_stop_while_loading(program):
    """Interrupting the startup does not lose any filter."""
    s = Service(program, "max-filters 100k")
    try:
        s.start()
        n = 20000
        for at in range(0, n, 1000):
            with s.connect() as c:
                assert set(c.pipeline([("BF.ADD", f"f{i}", "x") for i in range(at, at + 1000)])) \
                    == {1}
        s.stop()
        for delay in (0, 0.02, 0.05, 0.1, 0.2):
            s.start(wait=False)
            time.sleep(delay)  # anywhere during startup
            s.process.send_signal(signal.SIGTERM)
            code = s.wait()
            # the signal kills the process if its handler is not installed yet
            assert code in (0, -signal.SIGTERM), s.read_log()[-2000:]
        s.start()
        assert s.ask("DBSIZE") == n
        assert s.ask("BF.EXISTS", f"f{n - 1}", "x") == 1
        s.stop()
    finally:
        s.kill()
        s.remove()


@alone
def test_reload_under_load(program):
    with Service(program, "workers 2") as s:
        writers = [Writer(s, f"r{i}", 16) for i in range(3)]
        for writer in writers:
            writer.start()
        for _ in range(20):
            before = sum(w.told for w in writers)
            s.process.send_signal(signal.SIGHUP)
            wait_for(lambda b=before: sum(w.told for w in writers) > b + 500, what="adds")
        wait_for(lambda: "settings reloaded" in s.read_log(), what="a reload")
        for writer in writers:
            assert writer.wrong is None and writer.is_alive(), writer.wrong


@alone
def test_revoking_a_user(program):
    """SIGHUP reloads the users no matter how many times the settings have changed, even while clients are changing
    them."""
    with Service(program, "user default on nopass +@all ~*") as s:
        path = os.path.join(s.folder, "bloomgate.conf")
        with open(path, encoding="utf-8") as file:
            text = file.read()

        def reload(more):
            with open(path + ".new", "w", encoding="utf-8") as file:
                file.write(text + more)
            os.chmod(path + ".new", 0o600)
            os.rename(path + ".new", path)
            s.process.send_signal(signal.SIGHUP)

        for at in range(0, 3000, 500):
            changes = [("CONFIG", "SET", "slowlog-log-slower-than", 10000 + i) for i in range(at, at + 500)]
            assert set(s.connect().pipeline(changes)) == {Status("OK")}
        done = threading.Event()

        def change(c=s.connect()):
            i = 0
            while not done.is_set():
                i += 1
                assert c.ask("CONFIG", "SET", "bf-initial-size", 100 + i % 2) == Status("OK")

        thread = threading.Thread(target=change)
        thread.start()
        try:
            for _ in range(20):
                reload("user u1 on >secret +@all ~*\n")
                wait_for(lambda: b"u1" in s.ask("ACL", "USERS"), what="a user")
                reload("")
                wait_for(lambda: b"u1" not in s.ask("ACL", "USERS"), what="a user to be removed")
        finally:
            done.set()
            thread.join()
        assert b"u1" not in s.ask("ACL", "USERS")
        assert str(s.connect().ask("AUTH", "u1", "secret")).startswith("WRONGPASS")


@alone
def test_readiness(program):
    with Service(program, http=True) as s:
        def ready():
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{s.http_port}/readyz",
                                            timeout=service.PATIENCE) as answer:
                    return answer.status
            except urllib.error.HTTPError as error:
                return error.code
        wait_for(lambda: ready() == 200, what="readiness")


# ---- Resources in use ------------------------------------------------------------------------------


def run_once(program, *lines):
    """Runs a service that is expected to fail at startup. Returns its exit code and output."""
    other = Service(program, *lines)
    try:
        path = other.configure()
        with open(path, encoding="utf-8") as file:
            text = file.read()
        keys = {line.split()[0] for line in lines}
        with open(path, "w", encoding="utf-8") as file:  # an option may be specified only once
            kept = [line for line in text.splitlines() if line.split()[0] not in keys]
            file.write("\n".join(kept + list(lines)) + "\n")
        done = subprocess.run([program, path], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=service.PATIENCE, check=False)
        return done.returncode, done.stdout.decode()
    finally:
        other.remove()


@alone
def test_what_is_taken(program):
    with Service(program, http=True) as s:
        assert s.ask("BF.ADD", "k", "a") == 1
        for lines, words in (((f"port {s.port}",), "in use"),
                             (("port 0", f"http-port {s.http_port}"), "in use"),
                             ((f"dir {s.folder}/data",), "data"),
                             ((f"unixsocket {s.unix}",), "in use")):
            code, text = run_once(program, *lines)
            assert code not in (0, -signal.SIGSEGV, -signal.SIGABRT), (lines, code, text)
            assert words in text, (lines, text)
        assert s.ask("BF.EXISTS", "k", "a") == 1
        with service.Connection(0, path=s.unix) as c:  # the second service did not take over the socket
            assert c.ask("PING") == Status("PONG")


@alone
def test_unix_sockets(program):
    s = Service(program)
    try:
        left = socket.socket(socket.AF_UNIX)
        left.bind(s.unix)
        left.close()  # leaves a socket file without a listener, as a crash does
        s.start()
        with service.Connection(0, path=s.unix) as c:
            assert c.ask("PING") == Status("PONG")
        s.kill()
        assert os.path.exists(s.unix)
        s.start()
        with service.Connection(0, path=s.unix) as c:
            assert c.ask("PING") == Status("PONG")
        s.stop()
        assert not os.path.exists(s.unix)
        with open(s.unix, "w", encoding="ascii") as file:
            file.write("precious")
        code, text = run_once(program, f"unixsocket {s.unix}")
        assert code != 0 and "exists and is not a socket" in text, (code, text)
        with open(s.unix, encoding="ascii") as file:
            assert file.read() == "precious"
    finally:
        s.kill()
        s.remove()


service.main(__doc__)
