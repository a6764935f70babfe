"""The table of events that happen to a source while a gate follows it.

An event is a function that takes a case (case.py). When the function is called, the table exists, a gate over the table
is trusted, and writers are running. oracle.py checks the rule that holds for all events. `expect` adds:

    STAYS      the follower continues, and nothing is read again
    RESTARTS   the follower detects the event, and all keys are read again
    ANY        either is correct
    DOUBT      the source can no longer be followed, so the gate reports no key as absent from then on
    REFUSED    the source cannot be followed at all: the function starts the gate itself, and
               returns the message and a list of words, one of which the message must contain

This file contains the events for all databases. Other events are in events_postgres.py,
events_changes.py and events_sqlite.py.
"""

import os
import shutil
import time

import oracle
from case import PRELOADED
from gate import expect as require
from pgwire import SqlError

STAYS, RESTARTS, ANY, DOUBT, REFUSED = "stays", "restarts", "any", "doubt", "refused"

LOGICAL = ("postgres/logical",)
POSTGRES = ("postgres/logical", "postgres/changes")
POSTGRES_CHANGES = ("postgres/changes",)
SQLITE = ("sqlite/changes",)
CHANGES = ("postgres/changes", "sqlite/changes")
MODES = ("postgres/logical", "postgres/changes", "sqlite/changes")

EVENTS = []


class Event:
    """A row in the table of events."""

    def __init__(self, name, function, modes, expect, key, setup, writers, monitor):
        self.name, self.function, self.modes, self.expect = name, function, modes, expect
        self.key = key  # the key type, or None if the event runs with any type
        self.setup = setup  # creates the table and, unless the event does so itself, the gate
        self.writers = writers  # whether Writers run during the event
        self.monitor = monitor  # whether oracle.Monitor runs; must be false if committed keys can disappear and return


def plain(case):
    case.create()
    case.open_gate()


def table_only(case):
    case.create()


def nothing(_):
    pass


def event(name, expect=STAYS, modes=MODES, key=None, setup=plain, writers=True, monitor=True):
    """Adds a function to the table of events."""
    def put(function):
        EVENTS.append(Event(name, function, modes, expect, key, setup, writers, monitor))
        return function
    return put


def select(parts, mode):
    """Returns the mode's events whose names contain one of `parts`, or all of the mode's events if `parts` is empty."""
    return [e for e in EVENTS if mode in e.modes and (not parts or any(part in e.name for part in parts))]


# ---- Ways to write ---------------------------------------------------------------------------


@event("nothing but writers")
def only_writers(case):
    for _ in range(3):
        case.insert(20)
        oracle.check(case)


@event("rows committed late", modes=POSTGRES)
def late_commits(case):
    """Older transactions commit rows with lower IDs after rows with higher IDs have been read."""
    with case.connect() as a, case.connect() as b:
        a("BEGIN")
        early = case.write(case.fresh(2), a)
        b("BEGIN")
        later = case.write(case.fresh(2), b)
        case.insert()
        oracle.check(case)
        b("COMMIT")
        case.committed(later)
        case.insert()
        oracle.check(case)
        a("COMMIT")
        case.committed(early)
        oracle.check(case)


@event("a transaction open while the gate starts", modes=POSTGRES, setup=table_only, expect=ANY)
def open_at_start(case):
    with case.connect() as slow:
        slow("BEGIN")
        keys = case.write(case.fresh(2), slow)
        case.insert()
        case.open_gate(wait=False)
        slow("COMMIT")
        case.committed(keys)
    case.gate.wait_trusted()


@event("savepoints and rollbacks")
def savepoints(case):
    with case.connect() as sql:
        sql("BEGIN")
        keys = case.write(case.fresh(), sql)
        for depth in range(70):  # more subtransactions than fit in a PostgreSQL snapshot
            sql(f"SAVEPOINT s{depth}")
            keys += case.write(case.fresh(), sql)
        sql("ROLLBACK TO s69; RELEASE s40; SAVEPOINT again")
        keys = keys[:-1] + case.write(case.fresh(), sql)
        oracle.check(case) if case.source == "postgres" else None
        sql("COMMIT")
        case.committed(keys)
        sql("BEGIN")
        case.write(case.fresh(5), sql)
        sql("ROLLBACK")
    oracle.check(case)


@event("many rows in one statement")
def many_rows(case):
    case.insert(max(1500, case.budget // 4))


@event("rows inserted by SELECT", key="text")
def insert_select(case):
    case.sql(f"INSERT INTO {case.table} ({case.column}) SELECT 'copy of ' || {case.column} FROM {case.table}"
             f" WHERE {case.column} IS NOT NULL")


@event("upserts")
def upserts(case):
    for i in range(1, 40):
        case.sql(f"INSERT INTO {case.table} (id, {case.column}) VALUES ({i}, {case.literal(*case.fresh())})"
                 f" ON CONFLICT (id) DO UPDATE SET {case.column} = excluded.{case.column}")
        case.sql(f"INSERT INTO {case.table} (id, {case.column}) VALUES ({i + 100}, {case.literal(*case.fresh())})"
                 " ON CONFLICT DO NOTHING")


@event("3,000 keys updated in one statement", key="text")
def update_many(case):
    case.insert(3000)
    for _ in range(3):
        case.insert(2)
        case.caught_up()
    case.sql(f"UPDATE {case.table} SET {case.column} = 'moved-' || id")


@event("key moved to another row")
def swap_keys(case):
    """A key is deleted and inserted again in another row, in the same transaction."""
    (number,) = case.insert()
    for _ in range(10):
        case.sql(f"BEGIN; DELETE FROM {case.table} WHERE {case.column} = {case.literal(number)};"
                 f"INSERT INTO {case.table} ({case.column}) VALUES ({case.literal(number)}); COMMIT")
    oracle.check(case)


@event("keys of 1 byte to 100 kB", key="text")
def long_keys(case):
    lengths = (1, 100, 1000, 2000, 7000, 8000, 20000, 100000)
    for length in lengths:
        case.sql(f"INSERT INTO {case.table} ({case.column}) VALUES ('{'x' * length}')")
    rng = case.random
    for length in lengths[1:]:  # PostgreSQL cannot compress these keys, so it stores them out of line
        text = "".join(rng.choice("abcdefghijklmnopqrstuvwxyz0123456789") for _ in range(length))
        case.sql(f"INSERT INTO {case.table} ({case.column}, note) VALUES ('{text}', 'long')")
    oracle.check(case)
    case.sql(f"UPDATE {case.table} SET note = 'long and unchanged' WHERE note = 'long'")
    case.sql(f"UPDATE {case.table} SET {case.column} = {case.column} || '!' WHERE note = 'long and unchanged'")


@event("NULL keys")
def null_keys(case):
    table, column = case.table, case.column
    case.sql(f"INSERT INTO {table} ({column}) VALUES (NULL), (NULL)")
    case.sql(f"UPDATE {table} SET {column} = {case.literal(*case.fresh())} WHERE id ="
             f" (SELECT max(id) FROM {table} WHERE {column} IS NULL)")
    case.sql(f"UPDATE {table} SET {column} = NULL WHERE id = 5")
    case.sql(f"UPDATE {table} SET {column} = {case.literal(*case.fresh())} WHERE id = 5")


@event("the empty key", key="text")
def empty_key(case):
    case.sql(f"INSERT INTO {case.table} ({case.column}) VALUES ('')")
    oracle.check(case)
    require(case.gate.lookup(b"") == "present", "the empty key is reported as absent")


@event("row IDs reused")
def ids_again(case):
    """The row with the highest ID is deleted, and its ID is reused for another key."""
    for _ in range(5):
        highest = case.sql(f"SELECT max(id) FROM {case.table}")[0][0]
        (number,) = case.fresh()
        try:
            case.sql(f"BEGIN; DELETE FROM {case.table} WHERE id = {highest}; INSERT INTO {case.table} (id,"
                     f" {case.column}) VALUES ({highest}, {case.literal(number)}); COMMIT")
        except SqlError:  # another writer used the ID first
            case.sql("ROLLBACK")
    oracle.check(case)


def generated(case):
    """Creates a table whose key the database computes from another column."""
    number = "bigserial PRIMARY KEY" if case.source == "postgres" else "INTEGER PRIMARY KEY"
    case.sql(f"CREATE TABLE {case.table} (id {number}, note text,"
             f" {case.column} text GENERATED ALWAYS AS (lower(note)) STORED)")
    case.sql(f"INSERT INTO {case.table} (note) VALUES ('A-1'), ('A-2'), ('A-3')")


@event("generated column as the key", key="text", setup=generated, writers=False, expect=ANY)
def generated_column(case):
    gate = case.open_gate(wait=False)
    about = gate.wait(lambda about: about["trusted"] == "1" or about["text"], "trusted or refused")
    case.sql(f"INSERT INTO {case.table} (note) VALUES ('B-1'), ('B-2')")
    case.sql(f"UPDATE {case.table} SET note = 'C-' || id")
    if about["trusted"] == "1":
        oracle.check(case)
    else:
        oracle.check_doubt(case)
        require("generated" in about["text"], f"the message does not state the reason: {about['text']}")
    case.close_gate(gate)
    case.sql(f"DROP TABLE {case.table}")
    case.create()
    case.open_gate()


@event("row ID as the key", key="int", setup=nothing, writers=False)
def id_is_key(case):
    """The database generates the keys."""
    number = "bigserial PRIMARY KEY" if case.source == "postgres" else "INTEGER PRIMARY KEY"
    case.sql(f"CREATE TABLE {case.table} (id {number}, note text)")
    case.column = "id"
    rows = f"INSERT INTO {case.table} (note) VALUES ('a'), ('b'), ('c')"
    case.sql(rows)
    case.open_gate()
    case.sql(rows)
    oracle.check(case)
    case.sql(f"UPDATE {case.table} SET id = id + 1000; {rows}")
    if case.source == "sqlite":
        case.sql(f"UPDATE {case.table} SET rowid = rowid + 5000")
    case.fresh(100_000)  # later keys must differ from the keys that the database generated


@event("keys changed by foreign-key actions", key="text", expect=ANY, setup=nothing, writers=False)
def cascades(case):
    """ON UPDATE CASCADE and ON DELETE SET DEFAULT also write to the table."""
    number = "bigserial PRIMARY KEY" if case.source == "postgres" else "INTEGER PRIMARY KEY"
    case.sql(f"CREATE TABLE {case.table}_names (name text PRIMARY KEY)")
    case.sql(f"INSERT INTO {case.table}_names VALUES ('a'), ('b'), ('c'), ('fallback')")
    case.sql(f"CREATE TABLE {case.table} (id {number}, {case.column} text DEFAULT 'fallback' REFERENCES"
             f" {case.table}_names ON UPDATE CASCADE ON DELETE SET DEFAULT, note text)")
    case.sql(f"INSERT INTO {case.table} ({case.column}) VALUES ('a'), ('b'), ('c')")
    case.open_gate()
    if case.source == "sqlite":
        case.sql("PRAGMA foreign_keys = on")
    case.sql(f"UPDATE {case.table}_names SET name = 'renamed' WHERE name = 'a'")
    case.sql(f"DELETE FROM {case.table}_names WHERE name = 'b'")
    oracle.check(case)
    if case.source == "sqlite":
        case.sql("PRAGMA foreign_keys = off")
    else:
        case.sql(f"DROP TABLE {case.table}_names CASCADE")


@event("all rows deleted")
def all_deleted(case):
    case.sql(f"DELETE FROM {case.table}")
    case.insert(30)


@event("rebuilds during writes")
def rebuilds(case):
    for n in range(2, 5):
        case.gate.do("rebuild")
        case.insert(5)
        case.gate.wait_builds(n)
        oracle.check(case)


# ---- The table itself ------------------------------------------------------------------------


def other_table(case, name):
    """Creates a table like the followed table, but with different keys."""
    case.create(table=name)


def rename(case, old, new):
    bare = new.split(".")[-1]
    case.sql(f"ALTER TABLE {old} RENAME TO {bare}")


def swap(case):
    """Swaps the gate's table with another table. Returns the previous name of the new table and the
    current name of the old table."""
    other, gone = case.table + "_new", case.table + "_old"
    other_table(case, other)
    case.caught_up()
    case.sql("BEGIN")
    rename(case, case.table, gone)
    rename(case, other, case.table)
    case.sql("COMMIT")
    return other, gone


@event("table swapped by RENAME", expect=RESTARTS)
def swap_tables(case):
    swap(case)
    case.insert(20)


@event("table swapped, and swapped back", expect=ANY, monitor=False)
def swap_and_back(case):
    other, gone = swap(case)
    case.insert(5, table=gone)
    case.sql("BEGIN")
    rename(case, case.table, other)
    rename(case, gone, case.table)
    case.sql("COMMIT")


@event("table dropped and re-created", expect=RESTARTS, monitor=False)
def drop_and_create(case):
    case.sql(f"DROP TABLE {case.table}")
    case.create()
    case.insert(20)


@event("table dropped and re-created in one transaction", expect=RESTARTS, monitor=False)
def drop_and_create_at_once(case):
    case.sql("BEGIN")
    case.sql(f"DROP TABLE {case.table}")
    number = "bigserial PRIMARY KEY" if case.source == "postgres" else "INTEGER PRIMARY KEY"
    case.sql(f"CREATE TABLE {case.table} (id {number}, {case.column} {case.type()}, note text)")
    keys = case.write(case.fresh(50))
    case.sql("COMMIT")
    case.committed(keys)


@event("key column renamed: inserts keep working", expect=RESTARTS, monitor=False)
def rename_column(case):
    case.sql(f"ALTER TABLE {case.table} RENAME COLUMN {case.column} TO other")
    case.sql(f"INSERT INTO {case.table} (other) VALUES ({case.literal(*case.fresh())})")
    case.gate.wait_doubt()
    case.sql(f"INSERT INTO {case.table} (other) VALUES ({case.literal(*case.fresh())})")
    case.sql(f"ALTER TABLE {case.table} RENAME COLUMN other TO {case.column}")
    case.insert(5)


@event("key column swapped with another column", expect=RESTARTS, key="text", monitor=False)
def swap_columns(case):
    table, column = case.table, case.column
    case.sql(f"UPDATE {table} SET note = 'note-' || id")
    case.caught_up()
    case.sql(f"BEGIN; ALTER TABLE {table} RENAME COLUMN {column} TO swapping;"
             f"ALTER TABLE {table} RENAME COLUMN note TO {column};"
             f"ALTER TABLE {table} RENAME COLUMN swapping TO note; COMMIT")


@event("column added", expect=ANY)
def add_column(case):
    case.sql(f"ALTER TABLE {case.table} ADD COLUMN more text DEFAULT 'x'")
    case.insert(5)


# ---- The service -----------------------------------------------------------------------------


def require_resumed(case):
    """Verifies that the filter was loaded from the service's directory instead of being built from the table."""
    about = case.gate.wait_trusted()
    require(about["builds"] == "0", f"the filter was rebuilt: {about} {case.gate.events()}")


@event("rows changed while the service is stopped")
def service_restart(case):
    for _ in range(2):
        case.caught_up()
        case.gate.stop()
        case.insert(30)
        case.gate.start()
        require_resumed(case)
        oracle.check(case)


@event("rows changed after the service is killed", expect=ANY)
def service_killed(case):
    for _ in range(2):
        case.insert(10)
        case.gate.kill()
        case.insert(30)
        case.gate.start()
        case.gate.wait_trusted()
        oracle.check(case)


@event("table swapped while the service is stopped", expect=ANY, monitor=False)
def restart_and_swap(case):
    case.gate.stop()
    swap_tables_stopped(case)
    case.gate.start()


def swap_tables_stopped(case):
    other_table(case, case.table + "_new")
    case.sql("BEGIN")
    rename(case, case.table, case.table + "_old")
    rename(case, case.table + "_new", case.table)
    case.sql("COMMIT")
    case.insert(10)


@event("column renamed and restored while the service is stopped", expect=ANY)
def restart_and_rename(case):
    case.gate.stop()
    case.sql(f"ALTER TABLE {case.table} RENAME COLUMN {case.column} TO other")
    case.sql(f"INSERT INTO {case.table} (other) VALUES ({case.literal(*case.fresh())})")
    case.sql(f"ALTER TABLE {case.table} RENAME COLUMN other TO {case.column}")
    case.insert(10)
    case.gate.start()


@event("service killed at random times", expect=ANY)
def killed_at_any_moment(case):
    for _ in range(6):
        time.sleep(case.random.random() * 0.15)
        case.insert(3)
        case.gate.kill()
        case.insert(3)
        case.gate.start()
    case.gate.wait_trusted()


@event("table swapped while the gate starts", expect=ANY, monitor=False)
def swap_at_start(case):
    for n in range(4):
        case.gate.kill()
        if n % 2:
            shutil.rmtree(case.gate.directory)
        case.gate.start()
        time.sleep(case.random.random() * 0.1)
        case.sql(f"DROP TABLE IF EXISTS {case.table}_old")
        swap_tables_stopped(case)
        oracle.check(case)


@event("column renamed while all keys are read", expect=ANY, key="text", monitor=False)
def swap_at_rebuild(case):
    table, column = case.table, case.column
    case.sql(f"UPDATE {table} SET note = 'note-' || id")
    for _ in range(4):
        case.gate.do("rebuild")
        time.sleep(case.random.random() * 0.03)
        case.sql(f"BEGIN; ALTER TABLE {table} RENAME COLUMN {column} TO swapping;"
                 f"ALTER TABLE {table} RENAME COLUMN note TO {column};"
                 f"ALTER TABLE {table} RENAME COLUMN swapping TO note; COMMIT")
        oracle.check(case)


@event("older copy of the service's directory restored", expect=ANY)
def older_directory(case):
    case.gate.stop()
    copy = case.gate.directory + ".copy"
    shutil.copytree(case.gate.directory, copy)
    case.gate.start()
    case.gate.wait_trusted()
    for _ in range(3):  # so that the source discards the confirmed changes
        case.insert(10)
        case.caught_up()
    case.gate.stop()
    case.gate.start()
    case.insert(10)
    case.caught_up()
    case.gate.stop()
    case.insert(10)
    shutil.rmtree(case.gate.directory)
    os.rename(copy, case.gate.directory)
    case.gate.start()


@event("service's directory lost", expect=ANY)
def lost_directory(case):
    case.gate.stop()
    shutil.rmtree(case.gate.directory)
    case.insert(10)
    case.gate.start()


@event("two services with copies of one directory", expect=ANY)
def directory_twice(case):
    """Two machines were started from the same image, so two services have the same identity."""
    case.gate.stop()
    twin = case.open_gate(wait=False, poll="5ms")
    twin.stop()
    shutil.rmtree(twin.directory)
    shutil.copytree(case.gate.directory, twin.directory)
    case.gate.start()
    twin.start()
    for _ in range(60):  # either service may see a change first
        case.insert(2)
        time.sleep(0.005)
    case.close_gate(twin)


@event("wall clock jumps")
def clock_jumps(case):
    for seconds in 86400, -2 * 86400, 365 * 86400, -365 * 86400:
        case.gate.do(f"clock {seconds}")
        case.insert(5)
        oracle.check(case)


# ---- Several gates ---------------------------------------------------------------------------


@event("two services on one table", expect=ANY)
def two_services(case):
    before = case.objects()
    other = case.open_gate()
    installed = [o for o in case.objects() if o not in before]
    case.insert(10)
    oracle.check(case)
    case.close_gate(other)
    restarts = case.gate.about()["restarts"]
    case.drop_objects(installed)
    case.insert(20)
    oracle.check(case)
    require(case.mode == "changes" or case.gate.about()["restarts"] == restarts,
            "dropping one service's objects disturbed the other service")


@event("one gate name on two tables", expect=ANY, writers=False)
def one_name(case):
    first, second = case.table, case.table + "2"
    other_table(case, second)
    gate = case.open_gate(checked=False, keys=f"{second}({case.column})")
    for _ in range(3):
        case.insert(10)
        case.insert(10, table=second)
        oracle.check(case)
        case.table = second
        oracle.check(case, [gate])
        case.table = first
    case.close_gate(gate)


@event("several columns in one gate", setup=nothing, writers=False)
def several_columns(case):
    case.create()
    case.create(table=case.table + "2")
    second = case.table + "2"
    case.open_gate(keys=f"{case.table}({case.column}), {second}({case.column})")
    case.insert(20)
    case.insert(20, table=second)
    oracle.check(case)
    case.table = second
    oracle.check(case)


# ---- Answers ---------------------------------------------------------------------------------


@event("lookup that fails", setup=table_only, expect=ANY)
def failing_lookup(case):
    """A lookup whose value cannot be computed must not report the key as absent."""
    value = "1 / (id - id)" if case.source == "postgres" else "abs(-9223372036854775808 + id - id)"
    gate = case.open_gate(checked=False, lookup=f"SELECT {value} FROM {case.table} WHERE {case.column} = $1")
    (number,) = case.insert()
    gate.wait_caught()
    outcome = gate.lookup(case.key.text(number))
    require(outcome in ("unknown", "failed", "present"), f"expected unknown, failed or present, got {outcome}")
    case.close_gate(gate)
    case.open_gate()


@event("rows", setup=table_only, expect=ANY)
def rows(case):
    """A lookup returns the columns of the row: NULL, binary and empty values, and the first of several rows."""
    blob = "'\\x00ff41'::bytea" if case.source == "postgres" else "x'00ff41'"
    lookup = (f"SELECT n AS n, NULL AS absent, {blob} AS b, '' AS e FROM {case.table}, (SELECT 2 AS n UNION SELECT 1) AS two"
              f" WHERE {case.column} = $1 ORDER BY n")
    gate = case.open_gate(checked=False, lookup=lookup, rows="yes")
    (number,) = case.insert()
    gate.wait_caught()
    found = gate.row(case.key.text(number))
    require(found == [("n", b"1"), ("absent", None), ("b", b"\0\xffA"), ("e", b"")], f"unexpected row {found}")
    require(gate.row(case.absent(1)[0]) == [], "an absent key has a row")
    case.close_gate(gate)
    gate = case.open_gate(rows="yes")
    found = dict(gate.row(case.key.text(number)))
    require({"id", case.column} <= found.keys(), f"expected all columns, got {found}")


@event("keys that the column cannot contain", key="int", modes=POSTGRES)
def impossible_keys(case):
    for key in b"letters", b"99999999999999999999", b"", b"1.5", b"\xff\x00":
        outcome = case.gate.lookup(key)
        require(outcome.startswith("absent"), f"{key!r}: {outcome}")
    (number,) = case.insert()
    case.caught_up()
    text = case.key.text(number)
    for key in b"00" + text, b" " + text, b"+" + text:
        require(case.gate.lookup(key) == "present", f"{key!r} was not found, but equals a key in the table")


@event("times that do not exist", key="time", modes=POSTGRES)
def impossible_moments(case):
    for key in b"2026-02-30", b"2026-01-31 25:00:00", b"2026-01-31 10:00:00+99", b"999999999-01-01":
        outcome = case.gate.lookup(key)
        require(outcome.startswith("absent"), f"{key!r}: {outcome}")


@event("negative cache across a rebuild and a restart", setup=table_only, expect=ANY)
def negative_cache(case):
    """A cached "absent" result is discarded as soon as the key may be present."""
    gate = case.open_gate(negative_ttl="1h", rate="10%", headroom="1", capacity="200")
    numbers = case.fresh(400)
    cached = []
    for i in numbers:
        if gate.lookup(case.key.text(i)) == "absent_by_truth":
            cached.append(i)
    require(cached, "no false positives among 400 keys")
    half = len(cached) // 2
    case.committed(case.write(cached[:half] or cached))
    oracle.check(case)
    gate.do("rebuild")
    gate.wait_builds(2)
    oracle.check(case)
    if half:
        gate.stop()
        case.committed(case.write(cached[half:]))
        gate.start()
        gate.wait_trusted()
        oracle.check(case)
    case.close_gate(gate)  # the gate's filter is too small for the keys that the writers have added
    case.open_gate()


@event("audit finds an unreported key", setup=table_only, expect=ANY, writers=False)
def audit(case):
    """A key is written despite the "read-only" promise. An audit finds the key, so the filter is rebuilt."""
    gate = case.open_gate(checked=False, follow="none", promise="read-only", audit="1")
    case.write(case.fresh(PRELOADED))
    keys = case.truth()
    for key in keys:
        require(gate.lookup(key) == "present", "an audited key is reported as absent")
    gate.wait_event("false_negative")
    gate.wait_builds(2)
    gate.wait_trusted()
    refused = gate.denied(keys)
    require(not refused, f"{len(refused)} keys reported as absent after the audit")
    case.close_gate(gate)
    case.open_gate()


@event("neither a follow mode nor a promise", setup=table_only, expect=REFUSED, writers=False)
def no_promise(case):
    return case.refusal(follow="none"), ("promise",)


@event("a view", setup=table_only, expect=REFUSED, writers=False)
def view(case):
    case.sql(f"CREATE VIEW {case.table}_view AS SELECT {case.column} FROM {case.table}")
    return case.refusal(keys=f"{case.table}_view({case.column})"), ("view", "table")


@event("a column that does not exist", setup=table_only, expect=REFUSED, writers=False)
def no_column(case):
    return case.refusal(keys=f"{case.table}(nothing)"), ("nothing",)


@event("columns of different types", setup=nothing, expect=REFUSED, writers=False)
def different_types(case):
    case.sql("CREATE TABLE a (x int PRIMARY KEY, y text)")
    return case.refusal(keys="a(x), a(y)"), ("type", "differ")


@event("max-lag of 0", setup=table_only, expect=REFUSED, writers=False)
def no_lag(case):
    return case.refusal(max_lag="0"), ("max-lag",)
