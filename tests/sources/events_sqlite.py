"""Events that apply only to SQLite."""

import os
import sqlite3
import subprocess
import sys
import time

import oracle
from case import quote
from events import ANY, REFUSED, RESTARTS, SQLITE, event, nothing
from gate import PATIENCE, expect as require
from keys import KEYS
from pgwire import SqlError
from world_sqlite import File


def journal(mode):
    def setup(case):
        case.journal = mode
        case.create()
        case.open_gate()
    return setup


def our_objects(case, kind):
    return [name for (name,) in case.sql("SELECT name FROM sqlite_master WHERE name LIKE '%bloomgate%'"
                                         f" AND type = '{kind}'")]


# ---- Ways to write ---------------------------------------------------------------------------


@event("write-ahead log", modes=SQLITE, setup=journal("wal"))
def with_log(case):
    """Readers with old snapshots prevent the log from being reset; checkpoints copy the log to the database file."""
    with case.connect() as reader:
        reader("BEGIN")
        reader(f"SELECT count(*) FROM {case.table}")
        for _ in range(5):
            case.insert(20)
            case.sql("PRAGMA wal_checkpoint(PASSIVE)")
            oracle.check(case)
        reader("COMMIT")
    case.sql("PRAGMA wal_checkpoint(TRUNCATE)")
    case.insert(20)


@event("rollback journal", modes=SQLITE, setup=journal("delete"))
def with_journal(case):
    for _ in range(5):
        case.insert(20)
        oracle.check(case)


@event("journal mode changed", modes=SQLITE, setup=journal("delete"), expect=ANY, writers=False)
def change_journal(case):
    """Changing the journal mode requires exclusive access, so it can fail while a gate has the file open."""
    for mode in "truncate", "persist", "wal", "delete", "wal":
        for _ in range(50):
            try:
                if case.sql(f"PRAGMA journal_mode = {mode}")[0][0] == mode:
                    break
            except SqlError:
                pass
            time.sleep(0.002)
        case.insert(10)
        oracle.check(case)


@event("REPLACE", modes=SQLITE)
def replace(case):
    for i in range(1, 30):
        case.sql(f"REPLACE INTO {case.table} (id, {case.column}) VALUES ({i}, {case.literal(*case.fresh())})")
        case.sql(f"UPDATE OR REPLACE {case.table} SET id = {i}, {case.column} = {case.literal(*case.fresh())}"
                 f" WHERE id = {i + 1}")


@event("REPLACE on a unique key", modes=SQLITE, setup=nothing, writers=False)
def replace_unique(case):
    case.sql(f"CREATE TABLE {case.table} (id INTEGER PRIMARY KEY, {case.column} {case.type()} UNIQUE ON CONFLICT"
             " REPLACE, note text)")
    numbers = case.insert(50)
    case.open_gate()
    for number in numbers[:20]:
        case.write([number])
    case.sql(f"INSERT INTO {case.table} ({case.column}) VALUES ({case.literal(numbers[0])}) ON CONFLICT"
             f" ({case.column}) DO UPDATE SET {case.column} = {case.literal(*case.fresh())}")


@event("WITHOUT ROWID", modes=SQLITE, setup=nothing, writers=False)
def without_rowid(case):
    case.sql(f"CREATE TABLE {case.table} ({case.column} {case.type()} PRIMARY KEY, note text) WITHOUT ROWID")
    case.insert(50)
    case.open_gate()
    numbers = case.insert(50)
    oracle.check(case)
    case.sql(f"UPDATE {case.table} SET {case.column} = {case.literal(*case.fresh())}"
             f" WHERE {case.column} = {case.literal(numbers[0])}")


@event("recursive_triggers on", modes=SQLITE)
def recursive(case):
    with case.connect() as sql:
        sql("PRAGMA recursive_triggers = on")
        for i in range(1, 20):
            sql(f"REPLACE INTO {case.table} (id, {case.column}) VALUES ({i}, {case.literal(*case.fresh())})")


@event("application triggers", modes=SQLITE, key="text", expect=ANY)
def application_triggers(case):
    """Rows written by the application's own triggers are also followed. The gate's triggers must not affect
    last_insert_rowid() or changes()."""
    case.sql(f"CREATE TABLE log (x); CREATE TRIGGER app AFTER INSERT ON log BEGIN INSERT INTO {case.table}"
             f" ({case.column}) VALUES ('log-' || NEW.x); END")
    case.sql("INSERT INTO log VALUES (1), (2), (3)")
    with case.connect() as sql:
        cursor = sql.database.execute(f"INSERT INTO {case.table} (id, {case.column}) VALUES (900000, 'mine')")
        require(cursor.lastrowid == 900000, f"last_insert_rowid() is {cursor.lastrowid}")
        require(cursor.rowcount == 1, f"changes() is {cursor.rowcount}")
    oracle.check(case)


@event("values of different types in a column without a type", modes=SQLITE, key="typeless", writers=False)
def mixed_types(case):
    for value in "1", "'1.50'", "1.5", "x'00ff'", "''", "x''", "9223372036854775807", "-1", "1e300", "'ä'":
        case.sql(f"INSERT INTO {case.table} ({case.column}) VALUES ({value})")
    keys = [b"1", b"1.50", b"1.5", b"\x00\xff", b"", b"9223372036854775807", b"-1", "ä".encode()]
    case.caught_up()
    oracle.refuse(case, case.gate, case.gate.denied(keys), len(keys))


ODD_VALUES = ("5", "'5'", "5.0", "x'35'", "'007'", "'5 '", "1.5", "-0.0", "1e20", "9223372036854775807",
              "'9223372036854775808'", "'12abc'", "CAST(x'ff' AS TEXT)", "CAST(x'610062' AS TEXT)", "x'00'", "''",
              "x''", "'ä'", "'0x10'", "' 5'", "'5e0'", "char(0)", "'-0'", "0")


@event("unusual values in columns of all types", modes=SQLITE, setup=nothing, writers=False, expect=ANY)
def odd_values(case):
    """The gate reads half of the values initially, and follows the other half as changes. SQLite converts some of the
    values."""
    for n, name in enumerate(("INTEGER", "TEXT", "BLOB", "", "NUMERIC", "VARCHAR(5)", "INT", "ANY")):
        case.table = f"odd{n}"
        case.sql(f"CREATE TABLE {case.table} (id INTEGER PRIMARY KEY, {case.column} {name})")
        add = f"INSERT INTO {case.table} ({case.column}) VALUES ({{}})"
        for value in ODD_VALUES[::2]:
            case.sql(add.format(value))
        gate = case.open_gate(name=f"odd{n}")
        for value in ODD_VALUES[1::2]:
            case.sql(add.format(value))
        oracle.check(case)
        for value in ODD_VALUES:  # the gate must not report a key as absent if the application finds it
            key = case.sql(f"SELECT CAST({value} AS BLOB)")[0][0] or b""
            found = case.sql(f"SELECT 1 FROM {case.table} WHERE {case.column} = {value}")
            require(not found or not gate.denied([key]), f"{value} in a column {name or 'without a type'} is reported as absent")
        case.close_gate(gate)
    case.table = "t"
    case.create()
    case.open_gate()


@event("database in UTF-16", modes=SQLITE, setup=nothing, writers=False, expect=ANY)
def utf16(case):
    case.key = KEYS["words"]
    case.sql("PRAGMA encoding = 'UTF-16le'")
    case.create()
    case.open_gate()
    case.insert(20)
    oracle.check(case)
    oracle.refuse(case, case.gate, [k for k in case.truth() if case.gate.lookup(k) != "present"], 0)
    case.close_gate(case.gate)
    case.disconnect()
    case.path += ".other"
    case.create()
    case.open_gate()


@event("names in quotes", modes=SQLITE, setup=nothing, writers=False)
def quoted_names(case):
    case.table, case.column = '"Ta(ble), ""x"""', '"Ke y)"'
    case.create()
    case.open_gate()
    case.insert(20)
    oracle.check(case)


@event("names that differ in case", modes=SQLITE, setup=nothing, writers=False)
def other_case(case):
    case.create()
    case.table, case.column = "T", "KEY"
    case.open_gate()
    case.insert(20)


@event("NOCASE collation", modes=SQLITE, setup=nothing, writers=False, expect=ANY)
def nocase(case):
    """In a NOCASE column, 'A' equals 'a'. Either lookups of both spellings find the row, or the gate refuses the
    column."""
    case.sql(f"CREATE TABLE {case.table} (id INTEGER PRIMARY KEY, {case.column} TEXT COLLATE NOCASE, note text);"
             f"INSERT INTO {case.table} ({case.column}) VALUES ('Mixed'), ('other')")
    gate = case.open_gate(wait=False)
    gate.wait(lambda about: about["trusted"] == "1" or about["text"], "trusted or refused")
    if gate.about()["trusted"] == "1":
        case.sql(f"INSERT INTO {case.table} ({case.column}) VALUES ('UPPER')")
        case.caught_up()
    denied = gate.denied([b"Mixed", b"mixed", b"UPPER", b"upper", b"Upper"])
    oracle.refuse(case, gate, denied, 5)
    case.close_gate(gate)
    case.sql(f"DROP TABLE {case.table}")
    case.create()
    case.open_gate()


# ---- The table and the file ------------------------------------------------------------------


@event("table rebuilt as sqlite.org recommends", modes=SQLITE, expect=RESTARTS)
def twelve_steps(case):
    """Follows the procedure in SQLite's lang_altertable.html. Dropping the old table also drops its triggers."""
    rebuild_table(case)
    case.insert(50)


def rebuild_table(case):
    table, column = case.table, case.column
    case.sql("PRAGMA foreign_keys = off")
    case.sql(f"BEGIN IMMEDIATE; CREATE TABLE {table}_x (id INTEGER PRIMARY KEY, {column} {case.type()}, note text,"
             f" more text); INSERT INTO {table}_x (id, {column}, note) SELECT id, {column}, note FROM {table};"
             f"DROP TABLE {table}; ALTER TABLE {table}_x RENAME TO {table}; COMMIT")


@event("table rebuilt while the service is down", modes=SQLITE, expect=ANY)
def twelve_steps_stopped(case):
    case.caught_up()
    case.gate.stop()
    rebuild_table(case)
    case.insert(50)
    case.gate.start()


@event("VACUUM", modes=SQLITE, expect=ANY, setup=journal("wal"))
def vacuum(case):
    case.sql(f"DELETE FROM {case.table} WHERE id % 2 = 0")
    case.sql("VACUUM")
    case.insert(10)
    oracle.check(case)


@event("REINDEX, ANALYZE and CREATE INDEX", modes=SQLITE, expect=ANY)
def reindex(case):
    case.sql(f"CREATE INDEX i ON {case.table} ({case.column}); REINDEX; ANALYZE; DROP INDEX i")
    case.insert(10)


def copy_of(case, name):
    """Creates a complete copy of the database in its current state."""
    path = case.path + name
    case.sql(f"VACUUM INTO '{path}'")
    return path


def move(case, path):
    """Renames a file to the name of the database, as mv does."""
    case.disconnect()
    os.rename(path, case.path)
    for ending in "-wal", "-shm":
        if os.path.exists(case.path + ending):
            os.unlink(case.path + ending)


@event("file replaced by mv", modes=SQLITE, expect=ANY, writers=False, monitor=False)
def replace_file(case):
    """The new file is an older copy with the same number of changes as the file that it replaces."""
    case.insert(20)
    path = copy_of(case, ".copy")
    case.insert(40)
    case.caught_up()
    with File(path) as other:
        case.insert(40, sql=other)
    move(case, path)
    case.insert(5)


@event("file replaced while the service is down", modes=SQLITE, expect=ANY, writers=False, monitor=False)
def replace_file_stopped(case):
    case.insert(20)
    path = copy_of(case, ".copy")
    case.insert(40)
    case.caught_up()
    case.gate.stop()
    with File(path) as other:
        case.insert(40, sql=other)
    move(case, path)
    case.insert(5)
    case.gate.start()


def restore(case, path):
    """Overwrites the database with another database in one transaction, using the backup API."""
    with File(path) as old, case.connect() as now:
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                old.database.backup(now.database)
                return
            except sqlite3.OperationalError:
                require(time.monotonic() < deadline, "the database is still locked")
                time.sleep(0.01)


@event("older copy restored by the backup API", modes=SQLITE, expect=ANY, monitor=False)
def backup_api(case):
    case.insert(20)
    path = copy_of(case, ".old")
    case.insert(40)
    case.caught_up()
    with File(path) as other:  # the same number of changes, but different keys
        case.insert(40, sql=other)
    restore(case, path)
    case.insert(5)


@event("file overwritten by the backup API and restored", modes=SQLITE, expect=ANY, monitor=False, writers=False)
def backup_and_back(case):
    first = copy_of(case, ".first")
    case.insert(20)
    second = copy_of(case, ".second")
    case.caught_up()
    restore(case, first)
    case.insert(20)
    third = copy_of(case, ".third")
    restore(case, second)
    restore(case, third)


def dump(case):
    with case.connect() as sql:
        return list(sql.database.iterdump())


@event("database dumped, edited and loaded while the service is down", modes=SQLITE, expect=ANY, key="text", writers=False,
       monitor=False)
def dump_and_load(case):
    """The new file has the same tables, triggers and changes, but different keys."""
    case.insert(20)
    case.caught_up()
    case.gate.stop()
    script = "\n".join(dump(case)).replace("'key-", "'edited-")
    with File(case.path + ".new") as new:
        new.database.executescript(script)
    move(case, case.path + ".new")
    case.gate.start()


@event("symbolic link redirected", modes=SQLITE, expect=ANY, setup=nothing, writers=False, monitor=False)
def symbolic_link(case):
    case.create()
    path, case.path = case.path, case.path + ".link"
    os.symlink(path, case.path)
    case.disconnect()
    case.open_gate()
    case.insert(20)
    other = copy_of(case, ".other")
    case.insert(20)
    case.caught_up()
    with File(other) as sql:
        case.insert(20, sql=sql)
    case.disconnect()
    os.unlink(case.path)
    os.symlink(other, case.path)
    case.insert(5)
    oracle.check(case)


@event("writer killed during a transaction", modes=SQLITE, setup=journal("delete"), expect=ANY)
def killed_writer(case):
    """The transaction's pages are already in the file. The next connection rolls the transaction back."""
    script = f"""import os, sqlite3
d = sqlite3.connect({case.path!r}, timeout={PATIENCE}, isolation_level=None)
d.execute("PRAGMA cache_size = 5")
d.execute("BEGIN IMMEDIATE")
for i in range(3000):
    d.execute("INSERT INTO {case.table} (note) VALUES ('x' || ?)", (i,))
os._exit(9)
"""
    for _ in range(2):
        subprocess.run([sys.executable, "-c", script], check=False)
        case.insert(10)
        oracle.check(case)


@event("written through ATTACH", modes=SQLITE)
def attached(case):
    with File(":memory:") as sql:
        sql(f"ATTACH '{case.path}' AS other")
        case.write(case.fresh(20), sql, table=f"other.{case.table}")
    oracle.check(case)


@event("file deleted and re-created", modes=SQLITE, expect=RESTARTS, writers=False, monitor=False)
def recreate_file(case):
    case.disconnect()
    for ending in "", "-wal", "-shm", "-journal":
        if os.path.exists(case.path + ending):
            os.unlink(case.path + ending)
    case.create()


# ---- The change table ------------------------------------------------------------------------


@event("change table emptied", modes=SQLITE, expect=ANY)
def empty_changes(case):
    """Changes are deleted before the follower reads them."""
    for table in our_objects(case, "table"):
        case.sql("BEGIN IMMEDIATE")
        keys = case.write(case.fresh(20))
        case.sql(f"DELETE FROM {quote(table)}; COMMIT")
        case.committed(keys)
        case.insert(5)
    oracle.check(case)


@event("change table's last rows deleted", modes=SQLITE, expect=ANY)
def last_changes(case):
    for table in our_objects(case, "table"):
        case.sql("BEGIN IMMEDIATE")
        keys = case.write(case.fresh(20))
        case.sql(f"DELETE FROM {quote(table)} WHERE rowid > (SELECT max(rowid) - 10 FROM {quote(table)}); COMMIT")
        case.committed(keys)
        case.insert(5)
    oracle.check(case)


@event("change table emptied while the service is down", modes=SQLITE, expect=ANY)
def empty_changes_stopped(case):
    case.caught_up()
    case.gate.stop()
    case.insert(30)
    for table in our_objects(case, "table"):
        case.sql(f"DELETE FROM {quote(table)}")
    case.gate.start()


@event("sqlite_sequence reset", modes=SQLITE, expect=ANY)
def reset_sequence(case):
    """New changes reuse the sequence numbers of old changes."""
    for table in our_objects(case, "table"):
        case.sql("BEGIN IMMEDIATE")
        keys = case.write(case.fresh(10))
        number = case.sql(f"SELECT max(rowid) FROM {quote(table)}")[0][0]
        case.sql(f"DELETE FROM {quote(table)}; DELETE FROM sqlite_sequence WHERE name = '{table}'")
        keys += case.write(case.fresh(min(number or 1, 3000)))
        case.sql("COMMIT")
        case.committed(keys)
    oracle.check(case)


@event("sqlite_sequence raised", modes=SQLITE, expect=ANY)
def raise_sequence(case):
    case.sql("UPDATE sqlite_sequence SET seq = seq + 1000 WHERE name LIKE '%bloomgate%'")
    case.insert(5)


@event("change rows altered", modes=SQLITE, expect=ANY, writers=False)
def alter_changes(case):
    """Overwrites values in rows of the change table that the follower has already read."""
    for table in our_objects(case, "table"):
        columns = [row[1] for row in case.sql(f"PRAGMA table_info({quote(table)})")]
        case.insert(10)
        case.caught_up()
        case.sql(f"UPDATE {quote(table)} SET {quote(columns[-1])} = x'00'")
    case.insert(5)


@event("triggers dropped", modes=SQLITE, expect=RESTARTS)
def drop_triggers(case):
    for name in our_objects(case, "trigger"):
        case.sql(f"DROP TRIGGER {quote(name)}")
    case.insert(20)


@event("triggers dropped and re-created", modes=SQLITE, expect=RESTARTS)
def recreate_triggers(case):
    definitions = case.sql("SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND name LIKE '%bloomgate%'")
    for name, _ in definitions:
        case.sql(f"DROP TRIGGER {quote(name)}")
    case.insert(20)
    for _, definition in definitions:
        # The service might have re-created the trigger already.
        case.sql(definition.replace("TRIGGER", "TRIGGER IF NOT EXISTS", 1))


@event("triggers dropped and re-created in one transaction", modes=SQLITE, expect=RESTARTS)
def recreate_triggers_at_once(case):
    case.sql("BEGIN IMMEDIATE")
    definitions = case.sql("SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND name LIKE '%bloomgate%'")
    for name, _ in definitions:
        case.sql(f"DROP TRIGGER {quote(name)}")
    keys = case.write(case.fresh(20))
    for _, definition in definitions:
        case.sql(definition)
    case.sql("COMMIT")
    case.committed(keys)


@event("all gate objects dropped", modes=SQLITE, expect=RESTARTS)
def drop_ours(case):
    case.sql("BEGIN IMMEDIATE")
    case.drop_objects(case.objects())
    case.sql("COMMIT")
    case.insert(20)


@event("changes pruned while they are read", modes=SQLITE, expect=ANY)
def prune_races(case):
    """Several services read, save and prune while applications write."""
    other = case.open_gate(poll="1ms")
    for _ in range(5):
        case.insert(50)
        other.stop()
        case.insert(50)
        other.start()
        oracle.check(case)


@event("a reader with an old snapshot", modes=SQLITE, setup=journal("wal"))
def old_snapshot(case):
    with case.connect() as reader:
        reader("BEGIN")
        reader(f"SELECT count(*) FROM {case.table}")
        case.insert(30)
        case.gate.do("rebuild")
        case.gate.wait_builds(2)
        oracle.check(case)


@event("a writer that holds the lock", modes=SQLITE, expect=ANY, writers=False)
def held_lock(case):
    """The follower waits for the lock. Until it gets the lock, the gate has no proof that the filter is complete."""
    with case.connect() as writer:
        writer("BEGIN EXCLUSIVE")
        keys = case.write(case.fresh(20), writer)
        time.sleep(0.3)
        writer("COMMIT")
        case.committed(keys)
    oracle.check(case)


# ---- Refused ---------------------------------------------------------------------------------


@event("virtual table", modes=SQLITE, setup=nothing, expect=REFUSED, writers=False)
def virtual(case):
    case.sql(f"CREATE VIRTUAL TABLE {case.table} USING fts5({case.column})")
    return case.refusal(), ("virtual",)


@event("a file that is not a database", modes=SQLITE, setup=nothing, expect=REFUSED, writers=False)
def no_database(case):
    with open(case.path, "w", encoding="utf-8") as f:
        f.write("this is not a database, but it is long enough to be read as one\n" * 100)
    return case.refusal(), ("database",)
