"""A case is one event that is run against one source in one mode. It has a table, a gate over the table, and writers
that keep writing during the event.

A case hides the differences between databases from events that apply to all of them: `sql` runs a
statement, `literal` formats a key, and `insert` adds unused keys and records when their transaction
was acknowledged.
"""

import itertools
import os
import random
import shutil
import threading
import time

from gate import Failure, Gate
from gate import expect as require
from keys import ABSENT, KEYS
from pgwire import Lost, SqlError
from world_postgres import Proxy
from world_sqlite import File

PRELOADED = 200
WRITERS = 3

# Applications' session settings must not affect how keys are formatted.
SESSIONS = ((),
            ("SET TimeZone = 'America/New_York'", "SET DateStyle = 'SQL, DMY'", "SET bytea_output = 'escape'",
             "SET search_path = pg_catalog"),
            ("SET synchronous_commit = off", "SET extra_float_digits = 0", "SET IntervalStyle = 'iso_8601'"))
PLAIN_SESSION = ("SET TimeZone = 'UTC'", "SET DateStyle = 'ISO'", "SET bytea_output = 'hex'",
                 "SET extra_float_digits = 1")


def quote(name):
    return '"' + name.replace('"', '""') + '"'


class Case:
    """Everything that an event needs: its table, gates and connections."""

    def __init__(self, world, source, mode, program, key, changes, seed):
        self.world, self.source, self.mode, self.program = world, source, mode, program
        self.key = KEYS[key] if isinstance(key, str) else key
        self.random = random.Random(seed)
        self.journal = self.random.choice(("wal", "delete"))
        self.table = "public.t" if source == "postgres" else "t"
        self.column = "key"
        self.budget = changes
        self.numbers = itertools.count()
        self.lock = threading.Lock()
        self.acknowledged = []  # (time, key) pairs in commit order
        self.changes = 0
        self.gates, self.others = [], []
        self.proxy = None
        self.database = "postgres"
        self.server = world.primary if source == "postgres" else None
        self.path = world.path(f"{seed}.db") if source == "sqlite" else None
        self._sql = None
        self.scratch = 0

    # ---- The database ------------------------------------------------------------------

    def connect(self, settings=()):
        """Opens another connection, which bypasses the proxy."""
        if self.source == "postgres":
            return self.server.connect(self.database, settings)
        return File(self.path, ["PRAGMA synchronous = off"])

    def url(self):
        if self.source == "sqlite":
            return "sqlite:" + self.path
        port = self.proxy.port if self.proxy else self.server.port
        return f"postgres://owner@127.0.0.1:{port}/{self.database}?connect_timeout=5"

    def sql(self, text):
        """Runs statements on the event's connection. If the connection is lost, the next call reconnects."""
        if not self._sql:
            self._sql = self.connect(PLAIN_SESSION)
        try:
            return self._sql(text)
        except Lost:
            self._sql = None
            raise

    def disconnect(self):
        if self._sql:
            self._sql.close()
        self._sql = None

    def reconnect(self):
        self.disconnect()

    def through_proxy(self):
        """Starts a proxy for the gates that are opened from now on. Returns the proxy."""
        self.proxy = Proxy(self.server.port)
        return self.proxy

    def literal(self, i):
        return self.key.literal(i, self.source)

    def type(self):
        return self.key.type[self.source]

    # ---- Keys --------------------------------------------------------------------------

    def fresh(self, n=1):
        with self.lock:
            return [next(self.numbers) for _ in range(n)]

    def committed(self, keys):
        """Records that the transaction that wrote these keys has been acknowledged."""
        now = time.monotonic_ns()
        with self.lock:
            self.acknowledged += [(now, key) for key in keys]
            self.changes += len(keys)

    def values(self, numbers):
        return ", ".join(f"({self.literal(i)})" for i in numbers)

    def write(self, numbers, sql=None, table=None):
        """Inserts these keys in one statement, within the caller's transaction if there is one. Returns the keys."""
        (sql or self.sql)(f"INSERT INTO {table or self.table} ({self.column}) VALUES {self.values(numbers)}")
        return [self.key.text(i) for i in numbers]

    def insert(self, n=1, sql=None, table=None):
        """Inserts and commits fresh keys, by default into the followed table. Returns their numbers."""
        numbers = self.fresh(n)
        keys = self.write(numbers, sql, table)
        if table in (None, self.table):
            self.committed(keys)
        return numbers

    def truth(self):
        """Returns all keys in the table, in the form used for lookups."""
        column = f"{self.column}::text" if self.source == "postgres" else (
            f"CASE typeof({self.column}) WHEN 'real' THEN CAST({self.column} AS TEXT) ELSE {self.column} END")
        with self.connect(PLAIN_SESSION) as sql:
            if self.source == "sqlite":
                sql.database.text_factory = bytes  # text need not be valid UTF-8
            rows = sql(f"SELECT {column} FROM {self.table} WHERE {self.column} IS NOT NULL")
        return {self.bytes_of(row[0]) for row in rows}

    def bytes_of(self, value):
        if isinstance(value, bytes):
            return value
        if self.source == "postgres" and self.key.name == "blob":
            return bytes.fromhex(value[2:])
        if self.key.name == "numeric" and "." in value:
            value = value.rstrip("0").rstrip(".")
        return str(value).encode()

    def absent(self, n):
        """Returns keys that were never written, in the form used for lookups."""
        return [self.key.text(i) for i in range(ABSENT, ABSENT + n)]

    # ---- Tables ------------------------------------------------------------------------

    def create(self, table=None, more=""):
        """Creates a table with the columns id, key and note, and inserts some keys."""
        table = table or self.table
        number = "bigserial PRIMARY KEY" if self.source == "postgres" else "INTEGER PRIMARY KEY"
        if self.source == "sqlite":
            self.sql(f"PRAGMA journal_mode = {self.journal}")
        self.sql(f"CREATE TABLE {table} (id {number}, {self.column} {self.type()}, note text {more})")
        self.insert(PRELOADED, table=table)

    # ---- Installed objects --------------------------------------------------------------

    def objects(self):
        """Returns statements that drop all objects created by the services, in an order that
        respects dependencies."""
        if self.source == "sqlite":
            return [f"DROP {kind} {quote(name)}" for kind, name in self.sql(
                "SELECT type, name FROM sqlite_master WHERE name LIKE '%bloomgate%' AND type IN ('trigger', 'table')"
                " ORDER BY type = 'table'")]
        return [statement for (statement,) in self.sql("""
            SELECT format('DROP TRIGGER %I ON %s', tgname, tgrelid::regclass) FROM pg_trigger
              WHERE NOT tgisinternal AND tgparentid = 0 AND tgname LIKE '%bloomgate%'
            UNION ALL SELECT format('DROP FUNCTION %s CASCADE', oid::regprocedure) FROM pg_proc
              WHERE pronamespace = to_regnamespace('bloomgate')
            UNION ALL SELECT format('DROP TABLE %s', oid::regclass) FROM pg_class
              WHERE relnamespace = to_regnamespace('bloomgate') AND relkind = 'r'
            UNION ALL SELECT format('DROP PUBLICATION %I', pubname) FROM pg_publication
            UNION ALL SELECT format('SELECT pg_drop_replication_slot(%L)', slot_name) FROM pg_replication_slots
              WHERE NOT temporary AND slot_type = 'logical'""")]

    def drop_objects(self, statements):
        for statement in statements:
            self.sql(statement)

    # ---- Gates -------------------------------------------------------------------------

    def open_gate(self, name="g", wait=True, checked=True, **settings):
        """Starts a service with one gate over the table. The oracle ignores gates that are not `checked`."""
        self.scratch += 1
        how = {"source": self.url(), "keys": f"{self.table}({self.column})", "follow": self.mode, "poll": "20ms",
               "timeout": "10s", "max-lag": "20s", "audit": "0", "breaker-failures": "0", "capacity": str(4000 + 4 * self.budget), "maintain": "1h", "save": "200ms"}
        how.update({k.replace("_", "-"): v for k, v in settings.items()})
        directory = os.path.join(self.world.directory, f"service-{os.getpid()}-{self.scratch}")
        shutil.rmtree(directory, ignore_errors=True)
        gate = Gate(self.program, name, directory, how)
        (self.gates if checked else self.others).append(gate)
        if wait:
            gate.wait_trusted()
        return gate

    def close_gate(self, gate):
        """Stops a gate's service and removes the gate from the case."""
        for gates in self.gates, self.others:
            if gate in gates:
                gates.remove(gate)
        gate.end()

    def refusal(self, name="g", **settings):
        """Starts a gate that must not become trusted. Returns the gate's messages, which state the reason."""
        try:
            gate = self.open_gate(name, wait=False, checked=False, **settings)
        except Failure as failure:
            return str(failure)
        about = gate.wait(lambda about: about["text"] or about["failures"] != "0", "refused")
        require(about["trusted"] == "0", "the gate is trusted")
        text = " ".join([about["text"], *gate.events()])
        self.close_gate(gate)
        return text

    @property
    def gate(self):
        return self.gates[0]

    def caught_up(self):
        """Waits until all changes committed so far have been reported to all gates."""
        since = time.monotonic_ns()
        for gate in self.gates:
            if gate.is_running():
                gate.wait_caught(since)

    def end(self):
        errors = []
        for gate in self.gates + self.others:
            try:
                gate.end()
            except (Failure, OSError) as error:
                errors.append(str(error))
        self.disconnect()
        if self.proxy:
            self.proxy.end()
        if self.source == "sqlite":
            for name in os.listdir(self.world.directory):
                if name.startswith(os.path.basename(self.path)):
                    os.unlink(os.path.join(self.world.directory, name))
        if errors:
            raise Failure("; ".join(errors))


class Writers:
    """Threads that write to a case's table in many ways, no matter what happens to the table."""

    def __init__(self, case, count=WRITERS):
        self.case = case
        self.stopping = threading.Event()
        self.batch = max(8, case.budget // 20)
        seeds = [case.random.random() for _ in range(count)]
        self.threads = [threading.Thread(target=self._write, args=(n, random.Random(seed)), daemon=True)
                        for n, seed in enumerate(seeds)]
        for thread in self.threads:
            thread.start()

    def stop(self):
        """Waits until the requested number of changes has been written, or until no write has succeeded for two
        seconds. Then stops the threads."""
        moved, before = time.monotonic(), self.case.changes
        while self.case.changes < self.case.budget and time.monotonic() < moved + 2:  # unless writes fail
            time.sleep(0.01)
            if self.case.changes != before:
                moved, before = time.monotonic(), self.case.changes
        self.stopping.set()
        for thread in self.threads:
            thread.join()

    def _write(self, number, rng):
        sql, steps = None, (self.single, self.rows, self.late, self.savepoint, self.rollback, self.update,
                            self.remove, self.nothing)
        while not self.stopping.is_set():
            try:
                if not sql:
                    sql = self.case.connect(SESSIONS[number % len(SESSIONS)])
                self.case.committed(rng.choice(steps)(sql, rng))
            except SqlError:
                self._undo(sql)
            except Lost:
                sql = None
                time.sleep(0.02)
            if self.case.changes >= self.case.budget:
                time.sleep(rng.random() * 0.04)
        if sql:
            sql.close()

    @staticmethod
    def _undo(sql):
        try:
            sql("ROLLBACK")
        except (SqlError, Lost):
            pass
        time.sleep(0.005)

    # Each step returns the keys that it committed.

    def single(self, sql, _):
        return self.case.write(self.case.fresh(), sql)

    def rows(self, sql, rng):
        return self.case.write(self.case.fresh(rng.randint(2, self.batch)), sql)

    def late(self, sql, rng):
        sql("BEGIN")
        keys = self.case.write(self.case.fresh(), sql)
        time.sleep(rng.random() * 0.03)
        keys += self.case.write(self.case.fresh(), sql)
        sql("COMMIT")
        return keys

    def savepoint(self, sql, _):
        sql("BEGIN")
        keys = self.case.write(self.case.fresh(), sql)
        sql("SAVEPOINT a")
        self.case.write(self.case.fresh(), sql)
        sql("SAVEPOINT b")
        self.case.write(self.case.fresh(), sql)
        sql("ROLLBACK TO a")
        keys += self.case.write(self.case.fresh(), sql)
        sql("RELEASE a; COMMIT")
        return keys

    def rollback(self, sql, _):
        sql("BEGIN")
        self.case.write(self.case.fresh(), sql)
        sql("ROLLBACK")
        return []

    def update(self, sql, rng):
        case, (number,) = self.case, self.case.fresh()
        victim = sql.value(f"SELECT min(id) FROM {case.table} WHERE id >= {rng.randint(1, PRELOADED)}")
        if victim is None or not sql(f"UPDATE {case.table} SET {case.column} = {case.literal(number)}"
                                     f" WHERE id = {victim} RETURNING id"):
            return []
        return [case.key.text(number)]

    def remove(self, sql, rng):
        sql(f"DELETE FROM {self.case.table} WHERE id = {rng.randint(1, PRELOADED)}")
        return []

    def nothing(self, sql, _):
        sql(f"INSERT INTO {self.case.table} ({self.case.column}) VALUES (NULL)")
        return []
