"""PostgreSQL servers for the suite, which can be started, crashed, copied, restored and replicated, and a
proxy that can break connections or redirect them to another server. All files are in one temporary directory.

    with Postgres() as world:
        world.primary.connect()("SELECT 1")
"""

import glob
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

from pgwire import Connection, Lost, SqlError
from machine import PATIENCE, free_port  # found through pgwire

BIN = next(iter(sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True)), None)

# fsync is off because writes must survive only a server crash, not a machine crash.
SETTINGS = """
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
wal_level = logical
fsync = off
autovacuum = off
max_prepared_transactions = 20
max_replication_slots = 20
max_wal_senders = 20
max_connections = 60
shared_buffers = 32MB
max_wal_size = 256MB
wal_sender_timeout = 10s
wal_writer_delay = 10ms
log_min_messages = warning
"""


def is_available():
    return bool(BIN) and (os.geteuid() != 0 or bool(shutil.which("setpriv")))


def run(program, *arguments):
    """Runs a PostgreSQL program, as the user postgres if this process runs as root."""
    words = [os.path.join(BIN, program), *arguments]
    if os.geteuid() == 0:
        words = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", *words]
    result = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                            cwd="/tmp")
    if result.returncode != 0:
        raise RuntimeError(f"{program}: {result.stdout}")
    return result.stdout


class Server:
    """A data directory and its server."""

    def __init__(self, data):
        self.data = data
        self.port = free_port()

    def log(self):
        return self.data + ".log"

    def start(self):
        """Starts the server. Its port never changes, because gates keep connecting to it."""
        run("pg_ctl", "-D", self.data, "-w", "-t", str(int(PATIENCE)), "-l", self.log(), "-o", f"-p {self.port}", "start")
        return self

    def stop(self, mode="fast"):
        run("pg_ctl", "-D", self.data, "-w", "-m", mode, "stop")

    def restart(self, mode="fast"):
        self.stop(mode)
        self.start()

    def pid(self):
        try:
            with open(os.path.join(self.data, "postmaster.pid"), encoding="utf-8") as f:
                return int(f.readline())
        except (OSError, ValueError):
            return 0

    def kill(self):
        """Kills all of the server's processes with SIGKILL."""
        pid = self.pid()
        children = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], stdout=subprocess.PIPE, text=True,
                                  check=False).stdout.split()
        for process in [pid, *map(int, children)]:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
        while any(os.path.exists(f"/proc/{p}/exe") for p in [pid, *children]):
            time.sleep(0.005)
        os.unlink(os.path.join(self.data, "postmaster.pid"))

    def is_running(self):
        return self.pid() != 0

    def end(self):
        if self.is_running():
            try:
                self.stop("immediate")
            except RuntimeError:
                pass

    def connect(self, database="postgres", settings=()):
        return Connection(self.port, database, settings)

    def copy_to(self, data):
        """Copies the files. The server must be stopped."""
        subprocess.run(["cp", "-a", "--reflink=auto", self.data, data], check=True)
        for name in "postmaster.pid", "postmaster.opts":
            if os.path.exists(os.path.join(data, name)):
                os.unlink(os.path.join(data, name))

    def put_back(self, data):
        """Replaces the server's files with a copy that copy_to created. The server must be stopped."""
        shutil.rmtree(self.data)
        os.rename(data, self.data)

    def standby(self, data):
        """Creates and starts a streaming standby."""
        run("pg_basebackup", "-h", "127.0.0.1", "-p", str(self.port), "-U", "owner", "-D", data, "-R",
            "-X", "stream", "-c", "fast", "--no-sync")
        standby = Server(data)
        standby.start()
        return standby

    def promote(self):
        run("pg_ctl", "-D", self.data, "-w", "-t", str(int(PATIENCE)), "promote")

    def wait_for(self, other):
        """Waits until this standby has replayed all WAL that the other server has written so far."""
        with other.connect() as up, self.connect() as down:
            position = up.value("SELECT pg_current_wal_lsn()")
            while down.value(f"SELECT pg_last_wal_replay_lsn() >= '{position}'") != "t":
                time.sleep(0.005)


class Proxy:
    """A TCP proxy that can switch servers and break connections on demand."""

    def __init__(self, port):
        self.target = port
        self.lock = threading.Lock()
        self.pairs = set()
        self.is_open = True
        self.flowing = threading.Event()
        self.flowing.set()
        self.between = None  # called with a client's data before it is forwarded
        self.left = None  # bytes to forward before all connections break; None means never
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen(64)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def point_to(self, port):
        """Forwards new connections to the given port. Existing connections stay."""
        self.target = port

    def cut(self):
        """Breaks all connections."""
        with self.lock:
            pairs, self.pairs = self.pairs, set()
        for pair in pairs:
            for s in pair:
                try:
                    s.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def cut_after(self, size):
        """Breaks all connections after the server has sent this many more bytes."""
        with self.lock:
            self.left = size

    def was_cut(self):
        return self.left is None

    def close(self):
        """Refuses new connections and breaks existing connections."""
        self.is_open = False
        self.cut()

    def open(self):
        self.is_open = True

    def stall(self):
        """Holds back all data without breaking connections."""
        self.flowing.clear()

    def flow(self):
        self.flowing.set()

    def end(self):
        self.flow()
        self.close()
        self.listener.close()

    def _serve(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            try:
                if not self.is_open:
                    raise OSError("closed")
                server = socket.create_connection(("127.0.0.1", self.target), timeout=10)
                server.settimeout(None)
            except OSError:
                client.close()
                continue
            for s in client, server:
                s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self.lock:
                self.pairs.add((client, server))
            threading.Thread(target=self._pump, args=(client, server, client, server), daemon=True).start()
            threading.Thread(target=self._pump, args=(server, client, client, server), daemon=True).start()
            if not self.is_open:
                self.cut()

    def _take(self, size):
        """Returns how many of the next `size` bytes to forward, and whether to break all connections afterwards."""
        with self.lock:
            if self.left is None:
                return size, False
            if size < self.left:
                self.left -= size
                return size, False
            size, self.left = self.left, None
            return size, True

    def _pump(self, source, sink, client, server):
        try:
            while True:
                data = source.recv(65536)
                self.flowing.wait()
                if self.between and source is client and data:
                    self.between(data)
                size, is_cut = self._take(len(data)) if source is server else (len(data), False)
                if data[:size]:
                    sink.sendall(data[:size])
                if is_cut:
                    self.cut()
                if not data or is_cut:
                    break
        except OSError:
            pass
        with self.lock:
            self.pairs.discard((client, server))
        for s in client, server:
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        if source is client:
            return
        for s in client, server:
            s.close()


class Postgres:
    """The servers for one mode: a shared primary, and private servers that events may damage."""

    def __init__(self):
        # TMPDIR is ignored because the user postgres must be able to access the directory.
        self.directory = tempfile.mkdtemp(prefix="bloomgate-sources-", dir="/tmp")
        if os.geteuid() == 0:
            user = pwd.getpwnam("postgres")
            os.chown(self.directory, user.pw_uid, user.pw_gid)
        self.servers = []
        self.template = os.path.join(self.directory, "template")
        run("initdb", "-D", self.template, "-A", "trust", "-U", "owner", "-E", "UTF8", "--locale=C.UTF-8",
            "--no-sync", "--wal-segsize=1")
        with open(os.path.join(self.template, "postgresql.conf"), "a", encoding="utf-8") as f:
            f.write(SETTINGS)
        self.primary = self.server()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for server in self.servers:
            server.end()
        shutil.rmtree(self.directory, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.directory, f"{name}-{len(self.servers)}")

    def add(self, server):
        self.servers.append(server)
        return server

    def server(self):
        """Creates and starts a server."""
        server = Server(self.path("data"))
        Server(self.template).copy_to(server.data)
        return self.add(server).start()

    def standby(self, server):
        return self.add(server.standby(self.path("standby")))

    def tidy(self):
        """Removes all objects that an event left on the primary."""
        if not self.primary.is_running():
            self.primary.start()
        with self.primary.connect() as sql:
            for (gid,) in sql("SELECT gid FROM pg_prepared_xacts"):
                sql(f"ROLLBACK PREPARED '{gid}'")
            deadline = time.monotonic() + PATIENCE
            while sql("SELECT 1 FROM pg_replication_slots WHERE active") and time.monotonic() < deadline:
                time.sleep(0.005)
            sql("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")
            for (name,) in sql("SELECT datname FROM pg_database WHERE datname LIKE 'bgs%'"):
                sql(f"DROP DATABASE {name} WITH (FORCE)")
            for (name,) in sql("SELECT quote_ident(pubname) FROM pg_publication"):
                sql(f"DROP PUBLICATION {name}")
            sql("DROP SCHEMA IF EXISTS bloomgate CASCADE; DROP SCHEMA public CASCADE; CREATE SCHEMA public")


__all__ = ["Postgres", "Proxy", "Server", "Connection", "Lost", "SqlError", "is_available"]
