"""Events that apply only to PostgreSQL."""

import contextlib
import glob
import itertools
import os
import subprocess
import threading
import time

import oracle
from events import (ANY, LOGICAL, POSTGRES, POSTGRES_CHANGES, REFUSED, RESTARTS, event, nothing, plain,
                    table_only)
from gate import PATIENCE, expect as require
from keys import KEYS
from pgwire import Lost, SqlError
from world_postgres import BIN

# ---- Tables ----------------------------------------------------------------------------------


def partitioned(case):
    """Creates a table that is partitioned by region. Writers write to region 0."""
    case.sql(f"""CREATE TABLE {case.table} (id bigserial, {case.column} {case.type()}, note text,
            region int NOT NULL DEFAULT 0, PRIMARY KEY (id, region)) PARTITION BY LIST (region);
        CREATE TABLE {case.table}_0 PARTITION OF {case.table} FOR VALUES IN (0);
        CREATE TABLE {case.table}_1 PARTITION OF {case.table} FOR VALUES IN (1) PARTITION BY LIST (region);
        CREATE TABLE {case.table}_1_1 PARTITION OF {case.table}_1 DEFAULT""")
    case.insert(100)
    case.open_gate()


def private(case):
    """Creates a private server behind a proxy. The event may damage the server."""
    case.server = case.world.server()
    case.through_proxy()
    plain(case)


def proxied(case):
    case.through_proxy()
    plain(case)


def own_database(case):
    """Creates a private database behind a proxy."""
    with case.connect() as sql:
        sql("CREATE DATABASE bgs_a STRATEGY file_copy")
    case.database = "bgs_a"
    case.through_proxy()
    plain(case)


def add_rows(case, table, n=20, region=None):
    """Inserts fresh keys into the followed table, or into a table that is or will be part of it. Returns the keys."""
    numbers = case.fresh(n)
    columns, rest = (f"{case.column}, region", f", {region}") if region is not None else (case.column, "")
    case.sql(f"INSERT INTO {table} ({columns}) VALUES " + ", ".join(f"({case.literal(i)}{rest})" for i in numbers))
    return [case.key.text(i) for i in numbers]


# ---- Ways to write ---------------------------------------------------------------------------


@event("COPY", modes=POSTGRES, key="text")
def copy_in(case):
    numbers = case.fresh(max(1000, case.budget // 4))
    with case.connect() as sql:
        sql(f"COPY {case.table} ({case.column}) FROM STDIN", copy=b"".join(case.key.text(i) + b"\n" for i in numbers))
    case.committed([case.key.text(i) for i in numbers])


@event("two-phase commit", modes=POSTGRES)
def two_phase(case):
    with case.connect() as sql:
        sql("BEGIN")
        kept = case.write(case.fresh(3), sql)
        sql("PREPARE TRANSACTION 'kept'")
        sql("BEGIN")
        case.write(case.fresh(3), sql)
        sql("PREPARE TRANSACTION 'dropped'")
        case.insert(3)
        oracle.check(case)
        sql("ROLLBACK PREPARED 'dropped'")
        sql("COMMIT PREPARED 'kept'")
        case.committed(kept)
    oracle.check(case)


@event("two-phase commit across a server restart", modes=POSTGRES, expect=ANY)
def two_phase_restart(case):
    with case.connect() as sql:
        sql("BEGIN")
        keys = case.write(case.fresh(3), sql)
        sql("PREPARE TRANSACTION 'across'")
    case.insert(3)
    oracle.check(case)
    case.server.restart()
    case.reconnect()
    case.insert(3)
    oracle.check(case)
    case.sql("COMMIT PREPARED 'across'")
    case.committed(keys)
    oracle.check(case)


@event("two-phase commit across a service restart", modes=POSTGRES)
def two_phase_service(case):
    with case.connect() as sql:
        sql("BEGIN")
        keys = case.write(case.fresh(3), sql)
        sql("PREPARE TRANSACTION 'service'")
        case.insert(3)
        case.caught_up()
        case.gate.stop()
        case.insert(3)
        sql("COMMIT PREPARED 'service'")
    case.committed(keys)
    case.gate.start()
    case.gate.wait_trusted()
    oracle.check(case)


@event("session_replication_role = replica", modes=POSTGRES)
def replica_role(case):
    with case.connect(["SET session_replication_role = replica"]) as sql:
        case.insert(20, sql)
        oracle.check(case)


@event("writes by another role", modes=POSTGRES, expect=ANY)
def other_role(case):
    """The application can write to its table, but has no privileges on the gate's objects."""
    case.sql("DROP ROLE IF EXISTS bgs_app; CREATE ROLE bgs_app; GRANT USAGE ON SCHEMA public TO bgs_app;"
             f"GRANT ALL ON ALL TABLES IN SCHEMA public TO bgs_app; GRANT ALL ON ALL SEQUENCES IN SCHEMA public"
             " TO bgs_app")
    try:
        with case.connect(["SET ROLE bgs_app", "SET search_path = pg_temp"]) as sql:
            case.insert(20, sql)
            case.sql(f"UPDATE {case.table} SET {case.column} = {case.literal(*case.fresh())} WHERE id = 7")
        oracle.check(case)
    finally:
        case.sql("DROP OWNED BY bgs_app; DROP ROLE bgs_app")


@event("key changed by an application trigger", modes=POSTGRES, key="text", expect=ANY)
def application_trigger(case):
    """A BEFORE trigger sets the key when another column is updated."""
    case.sql(f"""CREATE FUNCTION public.app() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN NEW.{case.column} := NEW.note || '-by-trigger'; RETURN NEW; END $$;
        CREATE TRIGGER app BEFORE INSERT OR UPDATE OF note ON {case.table} FOR EACH ROW
            WHEN (NEW.note LIKE 'app-%') EXECUTE FUNCTION public.app()""")
    case.sql(f"UPDATE {case.table} SET note = 'app-' || id WHERE id % 3 = 0")
    case.sql(f"INSERT INTO {case.table} (note) VALUES ('app-new')")
    oracle.check(case)


@event("MERGE, rules and functions", modes=POSTGRES)
def merge(case):
    values = case.values(case.fresh(30))
    if int(case.sql("SHOW server_version_num")[0][0]) >= 150000:
        case.sql(f"MERGE INTO {case.table} t USING (VALUES {values}) v(k) ON t.id = 0"
                 f" WHEN NOT MATCHED THEN INSERT ({case.column}) VALUES (k::{case.type()})")
    case.sql(f"CREATE TABLE public.inbox (x {case.type()}); CREATE RULE app AS ON INSERT TO public.inbox DO INSTEAD"
             f" INSERT INTO {case.table} ({case.column}) VALUES (NEW.x)")
    case.sql(f"INSERT INTO public.inbox VALUES {case.values(case.fresh(10))}")
    case.sql(f"WITH gone AS (DELETE FROM {case.table} WHERE id < 20 RETURNING id) INSERT INTO {case.table}"
             f" ({case.column}) VALUES {case.values(case.fresh(5))}")
    oracle.check(case)
    case.sql("DROP TABLE public.inbox CASCADE")


ODD_VALUES = {
    "numeric": ("'NaN'", "'Infinity'", "1e20", "-0.0", "1e-10", "100", "100.00", "0.000"),
    "timestamptz": ("'infinity'", "'-infinity'", "'0044-03-15 12:00:00 BC'", "'12026-01-01 00:00:00.000001'"),
    "text": (r"E'a\nb'", r"E'\t\\'", r"E'\''", r"'\x41'", "' x '", "''", "'\U0001F600'"),
    "bytea": ("''", r"'\x00'", r"'\x5c78'"),
    "char(5)": ("''", "'a'", "' a'", "'abcde'"),
    "int": ("-2147483648", "2147483647", "0"),
    "date": ("'2026-02-28'", "'infinity'", "'0001-01-01 BC'"),
    "oid": ("0", "4294967295"),
}


@event("unusual values of all types", modes=POSTGRES, setup=nothing, writers=False, expect=ANY)
def odd_values(case):
    """The gate reads half of the values initially, and follows the other half as changes."""
    for n, (name, values) in enumerate(ODD_VALUES.items()):
        case.table = f"public.odd{n}"
        case.sql(f"CREATE TABLE {case.table} (id bigserial PRIMARY KEY, {case.column} {name})")
        add = f"INSERT INTO {case.table} ({case.column}) VALUES ({{}})"
        case.key = KEYS["blob" if name == "bytea" else "text"]
        for value in values[::2]:
            case.sql(add.format(value))
        gate = case.open_gate(name=f"odd{n}")
        for value in values[1::2]:
            case.sql(add.format(value))
        oracle.check(case)
        for key in case.truth():
            require(gate.lookup(key) == "present", f"{name} {key!r}: {gate.lookup(key)}")
        case.close_gate(gate)
    case.table, case.key = "public.t", KEYS["text"]
    case.create()
    case.open_gate()


@event("database in LATIN1", modes=POSTGRES, setup=nothing, writers=False, expect=ANY)
def latin1(case):
    """The server converts text from LATIN1 to UTF-8. The follower and the reader must see the same bytes."""
    with case.server.connect() as sql:
        sql("CREATE DATABASE bgs_latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0 STRATEGY file_copy")
    case.database, case.key = "bgs_latin", KEYS["text"]
    case.create()
    case.open_gate()
    case.sql(f"INSERT INTO {case.table} ({case.column}) VALUES ('ümläut'), ('ß')")
    oracle.check(case)
    require(case.gate.lookup("ümläut".encode()) == "present", "a key with umlauts is not found")
    require(case.gate.lookup("€".encode()).startswith("absent"), "a key that LATIN1 cannot represent is not reported as absent")
    oracle.settle(case)
    case.disconnect()
    case.close_gate(case.gate)
    case.database = "postgres"
    case.create()
    case.open_gate()


@event("database in SQL_ASCII", modes=POSTGRES, setup=nothing, writers=False, expect=ANY)
def sql_ascii(case):
    """The server accepts any bytes and does not convert them. A key that is not UTF-8 must not be
    reported as absent."""
    with case.server.connect() as sql:
        sql("CREATE DATABASE bgs_ascii ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0 STRATEGY file_copy")
    case.database, case.key = "bgs_ascii", KEYS["text"]
    case.create()
    case.sql(f"INSERT INTO {case.table} ({case.column}) VALUES (E'read \\351')")
    gate = case.open_gate(checked=False)
    case.sql(f"INSERT INTO {case.table} ({case.column}, note) VALUES (E'streamed \\351', E'\\377')")
    gate.wait_caught()
    for key in b"read \xe9", b"streamed \xe9":
        require(gate.lookup(key) == "present", f"the lookup of {key} returned {gate.lookup(key)}")
    require(gate.about()["restarts"] == "1", "the follower restarted because of a row that is not valid UTF-8")
    case.disconnect()
    case.close_gate(gate)
    case.database = "postgres"
    case.create()
    case.open_gate()


def wide(case):
    """Creates a table whose first column is not the key."""
    case.sql(f"CREATE TABLE {case.table} (first int, second int, {case.column} {case.type()}, id bigserial PRIMARY KEY,"
             " note text)")
    case.insert(20)
    case.open_gate()


@event("columns dropped and added before the key", modes=POSTGRES, setup=wide, expect=ANY)
def shift_columns(case):
    """The position of the key in a row changes within a transaction that writes."""
    case.sql("BEGIN")
    keys = case.write(case.fresh(5))
    case.sql(f"ALTER TABLE {case.table} DROP COLUMN first")
    keys += case.write(case.fresh(5))
    case.sql(f"ALTER TABLE {case.table} ADD COLUMN third text DEFAULT 'x'")
    keys += case.write(case.fresh(5))
    case.sql("COMMIT")
    case.committed(keys)
    oracle.check(case)


def without_primary_key(case):
    case.sql(f"CREATE TABLE {case.table} (id bigserial, {case.column} {case.type()}, note text)")
    case.insert(100)


@event("table without a primary key", modes=POSTGRES, setup=without_primary_key, expect=ANY, writers=False)
def no_primary_key(case):
    """Applications can update and delete rows of a table without a primary key, even while a gate follows the table."""
    gate = case.open_gate(wait=False)
    about = gate.wait(lambda about: about["trusted"] == "1" or about["text"], "trusted or refused")
    case.sql(f"UPDATE {case.table} SET {case.column} = {case.literal(*case.fresh())} WHERE id = 5")
    case.sql(f"DELETE FROM {case.table} WHERE id = 6")
    if about["trusted"] == "0":
        require("primary key" in about["text"], about["text"])
        oracle.check_doubt(case)
        case.sql(f"ALTER TABLE {case.table} ADD PRIMARY KEY (id)")


@event("the key is the only column", modes=POSTGRES, setup=nothing, writers=False)
def only_column(case):
    case.sql(f"CREATE TABLE {case.table} ({case.column} {case.type()} PRIMARY KEY)")
    case.insert(50)
    case.open_gate()
    case.insert(20)
    old, (new,) = case.insert()[0], case.fresh()
    case.sql(f"UPDATE {case.table} SET {case.column} = {case.literal(new)} WHERE {case.column} = {case.literal(old)}")


@event("names that must be quoted", modes=POSTGRES, setup=nothing, writers=False)
def quoted_names(case):
    case.sql('CREATE SCHEMA "odd ""schema"""')
    case.table, case.column = '"odd ""schema""". "Ta(ble), x"'.replace(". ", "."), '"Ke y)"'
    case.create()
    case.open_gate()
    case.insert(20)
    oracle.check(case)
    case.sql('ALTER SCHEMA "odd ""schema""" RENAME TO other')
    case.gate.wait_doubt()
    case.sql('ALTER SCHEMA other RENAME TO "odd ""schema"""')
    oracle.settle(case)
    case.sql('BEGIN; DROP SCHEMA "odd ""schema""" CASCADE; CREATE SCHEMA "odd ""schema"""; COMMIT')
    case.create()


@event("enum label renamed", modes=POSTGRES, key="text", expect=ANY, setup=nothing, writers=False)
def enum_label(case):
    case.sql(f"CREATE TYPE public.mood AS ENUM ('sad', 'fair', 'glad'); CREATE TABLE {case.table} (id bigserial"
             f" PRIMARY KEY, {case.column} public.mood); INSERT INTO {case.table} ({case.column})"
             " VALUES ('sad'), ('fair')")
    gate = case.open_gate(wait=False)
    gate.wait(lambda about: about["trusted"] == "1" or about["text"], "trusted or refused")
    case.sql("ALTER TYPE public.mood RENAME VALUE 'sad' TO 'blue'")
    case.sql("ALTER TYPE public.mood ADD VALUE 'new'")
    case.sql(f"INSERT INTO {case.table} ({case.column}) VALUES ('new')")
    if gate.about()["trusted"] == "1":
        oracle.check(case)
    else:
        oracle.refuse(case, gate, gate.denied(case.truth()), 0)
    case.close_gate(gate)
    case.column = "other"
    case.sql(f"ALTER TABLE {case.table} ADD COLUMN other {case.type()}")
    case.open_gate()


@event("enum label renamed during a transaction", modes=POSTGRES, key="text", expect=ANY, setup=nothing, writers=False)
def enum_label_during(case):
    """ALTER TYPE does not wait for a transaction that has written the old label."""
    case.sql(f"CREATE TYPE public.mood AS ENUM ('sad', 'fair'); CREATE TABLE {case.table} (id bigserial"
             f" PRIMARY KEY, {case.column} public.mood); INSERT INTO {case.table} ({case.column}) VALUES ('fair')")
    gate = case.open_gate()
    restarts = int(gate.about()["restarts"])
    with case.connect() as sql:
        sql("BEGIN")
        sql(f"INSERT INTO {case.table} ({case.column}) VALUES ('sad')")
        case.sql("ALTER TYPE public.mood RENAME VALUE 'sad' TO 'blue'")
        gate.wait(lambda about: (int(about["restarts"]) > restarts and about["trusted"] == "1")
                  or (about["up"] == "0" and about["text"]), "trusted again, or waiting for the transaction")
        sql("COMMIT")
    oracle.check(case)
    case.close_gate(gate)
    case.column = "other"
    case.sql(f"ALTER TABLE {case.table} ADD COLUMN other {case.type()}")
    case.open_gate()


@event("domain over a type", modes=POSTGRES, setup=nothing, writers=False, expect=ANY)
def domain(case):
    case.sql(f"CREATE DOMAIN public.code AS {case.type().split(' COLLATE')[0]} CHECK (VALUE IS NOT NULL);"
             f"CREATE TABLE {case.table} (id bigserial PRIMARY KEY, {case.column} public.code)")
    case.insert(20)
    gate = case.open_gate(wait=False)
    gate.wait(lambda about: about["trusted"] == "1" or about["text"], "trusted or refused")
    case.insert(20)
    if gate.about()["trusted"] == "1":
        oracle.check(case)
    else:
        oracle.check_doubt(case)
    case.close_gate(gate)
    case.sql(f"ALTER TABLE {case.table} ADD COLUMN other {case.type()}, DROP COLUMN {case.column}")
    case.column = "other"
    case.open_gate()


@event("service restarted while a transaction is open", modes=POSTGRES)
def open_at_restart(case):
    """The service does not lock the table if the service's objects are already installed."""
    case.caught_up()
    case.gate.stop()
    with case.connect() as slow:
        slow("BEGIN")
        keys = case.write(case.fresh(3), slow)
        case.gate.start()
        case.gate.wait_trusted()
        slow("COMMIT")
        case.committed(keys)
    oracle.check(case)


@event("lookups that take too long", modes=POSTGRES, setup=table_only, expect=ANY, writers=False)
def slow_lookups(case):
    """Lookups that time out are also canceled in the database, and they open the circuit breaker."""
    gate = case.open_gate(checked=False, timeout="100ms", breaker_failures="2", breaker_rest="100s", lookup=(
        f"SELECT note FROM {case.table} WHERE {case.column} = $1 AND pg_sleep(100) IS NOT NULL"))
    for _ in range(20):
        require(gate.lookup(case.key.text(0)) == "unknown", "a lookup that timed out does not return unknown")
    gate.wait_event("breaker_open")
    while case.sql("SELECT 1 FROM pg_stat_activity WHERE query LIKE '%pg_sleep(100)%' AND state = 'active'"
                   " AND pid <> pg_backend_pid()"):
        time.sleep(0.01)
    case.close_gate(gate)
    case.open_gate()


@event("serializable transactions", modes=POSTGRES, setup=own_database, expect=ANY, writers=False)
def serializable(case):
    """The service reads tables that serializable transactions write to, but must not make those
    transactions fail."""
    case.sql(f"ALTER DATABASE {case.database} SET default_transaction_isolation = serializable;"
             "CREATE TABLE public.stock (n int); INSERT INTO public.stock VALUES (0)")
    case.close_gate(case.gate)
    gate = case.open_gate()
    with case.connect() as writer, case.connect() as other:
        writer("BEGIN")
        writer("SELECT * FROM public.stock")
        other("UPDATE public.stock SET n = n + 1")
        require(gate.lookup(case.key.text(0)) == "present", "a key is not found")
        keys = case.write(case.fresh(), writer)
        writer("COMMIT")
        case.committed(keys)


@event("lookup that cannot be prepared", modes=POSTGRES, setup=table_only, expect=REFUSED, writers=False)
def wrong_lookup(case):
    return case.refusal(lookup="SELECT nonsense WHERE $1 = $1"), ("nonsense",)


# ---- Partitions and children -----------------------------------------------------------------


@event("rows inserted into partitions and moved between them", modes=POSTGRES, setup=partitioned)
def partitions(case):
    table, column = case.table, case.column
    case.committed(add_rows(case, table, 10, region=1))
    case.committed(add_rows(case, f"{table}_0", 10))
    case.committed(add_rows(case, f"{table}_1_1", 10, region=1))
    oracle.check(case)
    case.sql(f"UPDATE {table} SET region = 1 WHERE id <= 20")
    case.sql(f"UPDATE {table} SET region = 0, {column} = {case.literal(*case.fresh())} WHERE id = 3")


@event("partition created", modes=POSTGRES, setup=partitioned, expect=ANY)
def create_partition(case):
    case.sql(f"CREATE TABLE {case.table}_2 PARTITION OF {case.table} FOR VALUES IN (2)")
    case.committed(add_rows(case, case.table, 20, region=2))
    case.committed(add_rows(case, f"{case.table}_2", 20, region=2))


@event("non-empty partition attached", modes=POSTGRES, setup=partitioned, expect=RESTARTS)
def attach_partition(case):
    case.sql(f"CREATE TABLE {case.table}_3 (LIKE {case.table} INCLUDING ALL)")
    keys = add_rows(case, f"{case.table}_3", 50, region=3)
    case.caught_up()
    case.sql(f"ALTER TABLE {case.table} ATTACH PARTITION {case.table}_3 FOR VALUES IN (3)")
    case.committed(keys)
    case.committed(add_rows(case, f"{case.table}_3", 5, region=3))


@event("partition attached to another partition", modes=POSTGRES, setup=partitioned, expect=RESTARTS)
def attach_below(case):
    case.sql(f"ALTER TABLE {case.table}_1 DETACH PARTITION {case.table}_1_1")
    case.sql(f"CREATE TABLE {case.table}_4 (LIKE {case.table} INCLUDING ALL)")
    keys = add_rows(case, f"{case.table}_4", 50, region=1)
    case.caught_up()
    case.sql(f"ALTER TABLE {case.table}_1 ATTACH PARTITION {case.table}_4 DEFAULT")
    case.committed(keys)
    case.committed(add_rows(case, case.table, 5, region=1))


@event("partition detached, and attached again", modes=POSTGRES, setup=partitioned, expect=RESTARTS)
def detach_partition(case):
    """Rows written to the detached partition belong to the table once the partition is attached again."""
    case.sql(f"ALTER TABLE {case.table} DETACH PARTITION {case.table}_1")
    keys = add_rows(case, f"{case.table}_1_1", 20, region=1)
    case.caught_up() if case.random.random() < 0.5 else None
    case.sql(f"ALTER TABLE {case.table} ATTACH PARTITION {case.table}_1 FOR VALUES IN (1)")
    case.committed(keys)


@event("TRUNCATE through the parent", modes=POSTGRES, setup=partitioned, expect=ANY)
def truncate_parent(case):
    case.sql(f"TRUNCATE {case.table} RESTART IDENTITY")
    case.insert(50)


@event("TRUNCATE", modes=POSTGRES, expect=ANY)
def truncate(case):
    case.sql(f"TRUNCATE {case.table} RESTART IDENTITY")
    case.insert(50)
    case.sql(f"BEGIN; TRUNCATE {case.table}; INSERT INTO {case.table} ({case.column}) VALUES"
             f" {case.values(case.fresh(20))}; COMMIT")


@event("non-empty INHERITS child added", modes=POSTGRES, expect=RESTARTS)
def inherit(case):
    case.sql(f"CREATE TABLE {case.table}_child (LIKE {case.table} INCLUDING ALL)")
    keys = add_rows(case, f"{case.table}_child", 50)
    case.caught_up()
    case.sql(f"ALTER TABLE {case.table}_child INHERIT {case.table}")
    case.committed(keys)
    case.committed(add_rows(case, f"{case.table}_child", 5))
    oracle.check(case)
    case.sql(f"CREATE TABLE {case.table}_grandchild () INHERITS ({case.table}_child)")
    case.committed(add_rows(case, f"{case.table}_grandchild", 5))
    case.sql(f"ALTER TABLE {case.table}_grandchild ADD PRIMARY KEY (id)")


# ---- Schema ----------------------------------------------------------------------------------


@event("column values changed by USING", modes=POSTGRES, key="text", expect=RESTARTS)
def change_type(case):
    case.sql(f"ALTER TABLE {case.table} ALTER COLUMN {case.column} TYPE text"
             f" USING 'changed-' || {case.column}")
    case.insert(5)


@event("column changed to another type", modes=POSTGRES, key="int", expect=RESTARTS)
def change_to_bigint(case):
    case.sql(f"ALTER TABLE {case.table} ALTER COLUMN {case.column} TYPE bigint USING {case.column} + 5000000000")
    case.insert(5)


def create_numbers(case, column_type):
    """Creates a table with two numbers, one of them with a trailing zero."""
    case.sql(f"CREATE TABLE {case.table} (id bigserial PRIMARY KEY, {case.column} {column_type});"
             f"INSERT INTO {case.table} ({case.column}) VALUES ('1.50'), ('2')")


@event("numeric column becomes text between two polls", modes=POSTGRES, key="text", setup=nothing, expect=ANY, writers=False)
def numeric_to_text(case):
    """The filter was built from numbers without trailing zeros, but text keeps trailing zeros."""
    create_numbers(case, "numeric")
    gate = case.open_gate(checked=False, poll="10s")
    require(gate.lookup(b"1.50") == "present", "the number is not found")
    case.sql(f"ALTER TABLE {case.table} ALTER COLUMN {case.column} TYPE {case.type()}")
    outcomes = [gate.lookup(key) for key in (b"1.50", b"2", b"1.50")]
    require(not any("absent" in outcome for outcome in outcomes), f"a key is reported as absent: {outcomes}")
    gate.wait_event("restarted")  # the lookups triggered a poll
    case.close_gate(gate)
    case.open_gate()


@event("text column becomes numeric while the follower reconnects", modes=LOGICAL, key="text", setup=nothing, expect=ANY,
       writers=False)
def text_to_numeric(case):
    """The filter was built from text with trailing zeros. The filter stays trusted until the reconnected follower has
    checked whether the table has changed. Until then, the filter must not report a key in the table as absent."""
    create_numbers(case, "text")
    proxy = case.through_proxy()
    gate = case.open_gate(checked=False, poll="10s")
    case.sql(f"ALTER TABLE {case.table} ALTER COLUMN {case.column} TYPE numeric USING {case.column}::numeric")
    asked, compared = threading.Event(), threading.Event()

    def hold(data):
        if b"FROM pg_catalog.pg_replication_slots WHERE" in data:
            asked.set()
            compared.wait(60)
    proxy.between = hold
    proxy.cut()
    require(asked.wait(60), "the follower did not reconnect")
    denied = gate.denied([b"1.50", b"2"])
    proxy.between = None
    compared.set()
    require(not denied, f"a key is reported as absent: {denied}")
    gate.wait_event("restarted")
    case.close_gate(gate)
    case.sql(f"ALTER TABLE {case.table} ALTER COLUMN {case.column} TYPE {case.type()}")
    case.open_gate()


@event("text column becomes numeric while the slot is in use", modes=LOGICAL, key="text", setup=nothing, expect=ANY,
       writers=False)
def text_to_numeric_busy(case):
    """The follower cannot start because another client is using its replication slot, but lookups must still work."""
    create_numbers(case, "text")
    gate = case.open_gate(checked=False)
    gate.wait(lambda _: glob.glob(os.path.join(gate.directory, "**", "*.bg"), recursive=True), "saved")
    gate.stop()
    (name,) = idle_slots(case)
    with subprocess.Popen([os.path.join(BIN, "pg_recvlogical"), "-d", case.url(), "-S", name, "--start", "-f", os.devnull,
                           "-o", "proto_version=1", "-o", f"publication_names={name}"]) as other:
        try:
            while not case.sql("SELECT 1 FROM pg_replication_slots WHERE active"):
                require(other.poll() is None, "pg_recvlogical ended")
                time.sleep(0.005)
            gate.start()
            gate.wait(lambda about: "is active" in about["text"], "refused")
            case.sql(f"ALTER TABLE {case.table} ALTER COLUMN {case.column} TYPE numeric USING {case.column}::numeric")
            gate.wait(lambda about: " is using " in about["text"], "refused again")
            outcome = gate.lookup(b"1.50")
        finally:
            other.terminate()
    require(outcome == "present", f"the lookup returned {outcome}: {gate.about()}")
    case.close_gate(gate)
    case.sql(f"ALTER TABLE {case.table} ALTER COLUMN {case.column} TYPE {case.type()}")
    case.open_gate()


@event("table rewritten while all keys are read", modes=POSTGRES, key="text", expect=ANY, writers=False)
def rewrite_during_read(case):
    """Rewritten rows are invisible to older snapshots, so a reader that waits for the lock sees an empty table."""
    for _ in range(4):
        case.gate.wait_trusted()
        case.caught_up()
        keys = case.truth()
        with case.connect() as sql:
            sql(f"BEGIN; ALTER TABLE {case.table} ALTER COLUMN {case.column} TYPE text COLLATE \"C\""
                f" USING {case.column} || ''")
            case.gate.do("rebuild")
            time.sleep(0.05 + case.random.random() * 0.05)
            sql("COMMIT")
        for _ in range(40):
            oracle.refuse(case, case.gate, case.gate.denied(keys), len(keys))
            time.sleep(0.003)


@event("table rewritten while the gate starts", modes=POSTGRES, key="text", setup=table_only, expect=ANY, writers=False)
def rewrite_at_start(case):
    with case.connect() as sql:
        sql(f"BEGIN; ALTER TABLE {case.table} ALTER COLUMN {case.column} TYPE text COLLATE \"C\""
            f" USING {case.column} || ''")
        gate = case.open_gate(wait=False)
        time.sleep(0.2)
        sql("COMMIT")
    keys = case.truth()
    for _ in range(100):
        oracle.refuse(case, gate, gate.denied(keys), len(keys))
        time.sleep(0.003)


@event("column dropped and added again", modes=POSTGRES, expect=RESTARTS, monitor=False)
def drop_column(case):
    table, column = case.table, case.column
    case.sql(f"BEGIN; ALTER TABLE {table} DROP COLUMN {column};"
             f"ALTER TABLE {table} ADD COLUMN {column} {case.type()} DEFAULT {case.literal(*case.fresh())}; COMMIT")
    case.insert(5)


@event("VACUUM FULL and CLUSTER", modes=POSTGRES, expect=ANY)
def vacuum_full(case):
    case.sql(f"VACUUM FULL {case.table}")
    case.insert(5)
    oracle.check(case)
    case.sql(f"VACUUM FREEZE {case.table}")
    case.insert(5)


@event("table moved to another schema and back", modes=POSTGRES, expect=RESTARTS, monitor=False)
def move_schema(case):
    case.sql(f"CREATE SCHEMA elsewhere; ALTER TABLE {case.table} SET SCHEMA elsewhere")
    case.insert(5, table="elsewhere.t")
    case.sql("ALTER TABLE elsewhere.t SET SCHEMA public; DROP SCHEMA elsewhere")


@event("row security", modes=POSTGRES, expect=ANY)
def row_security(case):
    """Policies hide rows from other roles, but not from the gate's role, which is a superuser."""
    case.sql(f"ALTER TABLE {case.table} ENABLE ROW LEVEL SECURITY; ALTER TABLE {case.table} FORCE ROW LEVEL SECURITY;"
             f"CREATE POLICY none ON {case.table} FOR SELECT USING (false)")
    case.insert(5)
    oracle.check(case)


@event("unlogged table", modes=LOGICAL, setup=nothing, expect=REFUSED, writers=False)
def unlogged(case):
    case.sql(f"CREATE UNLOGGED TABLE {case.table} (id bigserial PRIMARY KEY, {case.column} {case.type()})")
    return case.refusal(), ("unlogged",)


@event("table becomes unlogged", modes=LOGICAL, expect=ANY)
def becomes_unlogged(case):
    """PostgreSQL refuses SET UNLOGGED for a published table. If the statement succeeds, the gate must not be
    trusted."""
    try:
        case.sql(f"ALTER TABLE {case.table} SET UNLOGGED")
    except SqlError:
        return
    oracle.check_doubt(case)
    case.sql(f"ALTER TABLE {case.table} SET LOGGED")


@event("foreign table", modes=POSTGRES, setup=nothing, expect=REFUSED, writers=False)
def foreign(case):
    case.sql(f"CREATE FOREIGN DATA WRAPPER bgs; CREATE SERVER bgs FOREIGN DATA WRAPPER bgs;"
             f"CREATE FOREIGN TABLE {case.table} ({case.column} {case.type()}) SERVER bgs")
    try:
        return case.refusal(), ("foreign",)
    finally:
        case.sql("DROP FOREIGN DATA WRAPPER bgs CASCADE")


@event("materialized view", modes=POSTGRES, setup=table_only, expect=REFUSED, writers=False)
def materialized(case):
    case.sql(f"CREATE MATERIALIZED VIEW {case.table}_m AS SELECT {case.column} FROM {case.table}")
    return case.refusal(keys=f"{case.table}_m({case.column})"), ("view",)


@event("nondeterministic collation", modes=POSTGRES, setup=nothing, expect=REFUSED, writers=False)
def nondeterministic(case):
    case.sql("CREATE COLLATION public.any_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false);"
             f"CREATE TABLE {case.table} (id bigserial PRIMARY KEY, {case.column} text COLLATE public.any_case)")
    return case.refusal(), ("collation",)


@event("type without a canonical text form", modes=POSTGRES, setup=nothing, expect=REFUSED, writers=False)
def odd_type(case):
    case.sql(f"CREATE TABLE {case.table} (id bigserial PRIMARY KEY, {case.column} jsonb)")
    return case.refusal(), ("type",)


# ---- The change table ------------------------------------------------------------------------


def triggers(case):
    """Returns (name, table) pairs for all gate triggers on the application's tables."""
    return case.sql("SELECT quote_ident(tgname), tgrelid::regclass FROM pg_trigger t JOIN pg_class c ON tgrelid = c.oid"
                    " WHERE NOT tgisinternal AND tgname LIKE '%bloomgate%' AND tgparentid = 0"
                    " AND relnamespace <> 'bloomgate'::regnamespace")


def our_tables(case):
    return [name for (name,) in case.sql("SELECT oid::regclass FROM pg_class WHERE relkind = 'r'"
                                         " AND relnamespace = 'bloomgate'::regnamespace")]


def alter_triggers(case, words):
    for name, table in triggers(case):
        case.sql(f"ALTER TABLE {table} {words} TRIGGER {name}")


@event("trigger disabled and enabled", modes=POSTGRES_CHANGES, expect=RESTARTS)
def disable_trigger(case):
    alter_triggers(case, "DISABLE")
    case.insert(20)
    alter_triggers(case, "ENABLE ALWAYS")


@event("trigger disabled and enabled in one transaction", modes=POSTGRES_CHANGES, expect=RESTARTS)
def disable_trigger_at_once(case):
    case.sql("BEGIN")
    alter_triggers(case, "DISABLE")
    keys = case.write(case.fresh(20))
    alter_triggers(case, "ENABLE ALWAYS")
    case.sql("COMMIT")
    case.committed(keys)


@event("trigger enabled for origin only", modes=POSTGRES_CHANGES, expect=RESTARTS)
def origin_trigger(case):
    alter_triggers(case, "ENABLE")
    with case.connect(["SET session_replication_role = replica"]) as sql:
        case.insert(20, sql)


@event("all triggers left disabled", modes=POSTGRES_CHANGES, expect=ANY)
def disable_all(case):
    """With install=yes, the service re-enables the triggers. Until then, it does not trust the filter."""
    case.sql(f"ALTER TABLE {case.table} DISABLE TRIGGER ALL")
    case.insert(20)


@event("one partition's trigger disabled", modes=POSTGRES_CHANGES, setup=partitioned, expect=RESTARTS)
def disable_in_partition(case):
    case.sql(f"ALTER TABLE {case.table}_0 DISABLE TRIGGER USER")
    case.insert(20)
    case.sql(f"ALTER TABLE {case.table}_0 ENABLE TRIGGER USER")


@event("trigger dropped", modes=POSTGRES_CHANGES, expect=RESTARTS)
def drop_trigger(case):
    for name, table in triggers(case):
        case.sql(f"DROP TRIGGER {name} ON {table}")
    case.insert(20)


@event("trigger dropped and re-created", modes=POSTGRES_CHANGES, expect=RESTARTS)
def recreate_trigger(case):
    found = triggers(case)
    definitions = [case.sql("SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE quote_ident(tgname) ="
                            f" '{name}' AND tgrelid = '{table}'::regclass")[0][0] for name, table in found]
    for name, table in found:
        case.sql(f"DROP TRIGGER {name} ON {table}")
    case.insert(20)
    for definition, (name, table) in zip(definitions, found):
        case.sql(f"{definition}; ALTER TABLE {table} ENABLE ALWAYS TRIGGER {name}")


@event("trigger function replaced and restored", modes=POSTGRES_CHANGES, expect=RESTARTS)
def replace_function(case):
    functions = case.sql("SELECT oid::regprocedure, pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace ="
                         " 'bloomgate'::regnamespace AND prorettype = 'trigger'::regtype")
    for name, _ in functions:
        case.sql(f"CREATE OR REPLACE FUNCTION {name} RETURNS trigger LANGUAGE plpgsql AS"
                 " 'BEGIN RETURN NULL; END'")
    case.insert(20)
    for _, definition in functions:
        case.sql(definition)


@event("bloomgate schema dropped", modes=POSTGRES_CHANGES, expect=RESTARTS)
def drop_schema(case):
    """Locks the table first; otherwise, DROP SCHEMA could deadlock with a writer that is running the trigger."""
    case.sql(f"BEGIN; LOCK TABLE {case.table}; DROP SCHEMA bloomgate CASCADE; COMMIT")
    case.insert(20)


def ruin(case, statement):
    """Runs a statement on each of the gate's tables while the table has unread rows, with the table's guard triggers
    disabled if necessary."""
    for table in our_tables(case):
        case.insert(5)
        case.sql("BEGIN")
        keys = case.write(case.fresh(20))
        case.sql("SAVEPOINT forbidden")
        try:
            case.sql(statement.format(table))
        except SqlError:
            case.sql("ROLLBACK TO forbidden")
            guards = case.sql("SELECT quote_ident(tgname), tgenabled FROM pg_trigger WHERE NOT tgisinternal"
                              f" AND tgrelid = '{table}'::regclass")
            case.sql(f"ALTER TABLE {table} DISABLE TRIGGER ALL")
            case.sql(statement.format(table))
            for name, state in guards:
                case.sql(f"ALTER TABLE {table} ENABLE {'ALWAYS' if state == 'A' else ''} TRIGGER {name}")
        case.sql("COMMIT")
        case.committed(keys)
        case.insert(5)


@event("change table emptied by DELETE", modes=POSTGRES_CHANGES, expect=RESTARTS)
def delete_changes(case):
    ruin(case, "DELETE FROM {}")


@event("change table emptied by TRUNCATE", modes=POSTGRES_CHANGES, expect=RESTARTS)
def truncate_changes(case):
    ruin(case, "TRUNCATE {}")


@event("change table's sequence restarted", modes=POSTGRES_CHANGES, expect=ANY)
def reset_sequence(case):
    for (name,) in case.sql("SELECT oid::regclass FROM pg_class WHERE relkind = 'S'"
                            " AND relnamespace = 'bloomgate'::regnamespace"):
        case.sql(f"ALTER SEQUENCE {name} RESTART")
    case.insert(20)


@event("bookmark changed externally", modes=POSTGRES_CHANGES, expect=RESTARTS)
def change_bookmark(case):
    """All snapshots in the gate's tables are moved far ahead, so that unread changes seem to have been read."""
    for (column,) in case.sql("SELECT DISTINCT quote_ident(attname) FROM pg_attribute JOIN pg_class c ON attrelid = c.oid"
                              " WHERE relnamespace = 'bloomgate'::regnamespace AND relkind = 'r' AND NOT attisdropped"
                              " AND atttypid = 'pg_snapshot'::regtype"):
        ruin(case, f"DO $$ BEGIN UPDATE {{}} SET {column} = '1:9000000000:';"
                   " EXCEPTION WHEN undefined_column THEN END $$")


@event("changes from another server's history", modes=POSTGRES_CHANGES, expect=ANY)
def foreign_changes(case):
    """A dump from another server contains transaction IDs that this server has not reached yet."""
    events = case.gate.events()
    case.gate.stop()
    (name,) = [table for table in our_tables(case) if table.rstrip('"').endswith("_change")]
    case.sql(f"INSERT INTO {name} (xid, key) VALUES ('9000000000', {case.literal(*case.fresh())})")
    saved = os.path.join(case.gate.directory, "gates", "g.bg")
    require(os.path.exists(saved), f"the filter was not saved: {events}")
    os.unlink(saved)
    case.gate.start()
    case.gate.wait_trusted()
    require(not case.sql(f"SELECT 1 FROM {name} WHERE xid >= '9000000000'"), "changes from another server's history were not deleted")


@event("many changes after the last save", modes=POSTGRES_CHANGES, setup=table_only, writers=False, expect=ANY)
def unsaved_changes(case):
    """The change table must not grow without limit if the filter is not saved or cannot be
    saved."""
    gate = case.open_gate(save="1d")
    while not os.path.exists(os.path.join(gate.directory, "gates", "g.bg")):
        time.sleep(0.005)
    (name,) = [table for table in our_tables(case) if table.rstrip('"').endswith("_change")]
    case.sql(f"INSERT INTO {name} (xid, key) SELECT pg_current_xact_id(), {case.literal(*case.fresh())}"
             " FROM generate_series(0, 1000000)")
    deadline = time.monotonic() + PATIENCE
    while case.sql(f"SELECT 1 FROM {name} LIMIT 1"):
        require(time.monotonic() < deadline, "the change table is not pruned")
        time.sleep(0.05)


@event("nothing installed, with install=no", modes=POSTGRES_CHANGES, expect=ANY)
def not_installed(case):
    """With install=no, the service does not create its objects, but reports missing objects."""
    text = case.refusal(name="other", install="no")
    require(any(word in text for word in ("install", "missing", "exist")), text)


def by_search_path(case):
    """Creates two tables with the same name. The settings of the gate's role select one of them."""
    case.create()
    case.sql("CREATE SCHEMA other")
    case.create(table="other.t")
    case.open_gate(keys=f"t({case.column})")


def check_with_setting(case, setting, table):
    """Changes a setting of the service's role, so that new connections look up keys in another table."""
    role = f"ALTER ROLE owner IN DATABASE {case.database}"
    case.sql(f"{role} SET {setting}")
    try:
        case.table = table
        case.insert(20)
        oracle.check(case)
    finally:
        case.sql(f"{role} RESET {setting.split()[0]}")
        case.table = "public.t"
    oracle.check(case)


@event("role's search path changed", modes=POSTGRES, setup=by_search_path, expect=RESTARTS, writers=False)
def change_search_path(case):
    check_with_setting(case, "search_path = other", "other.t")


def by_role(case):
    """Creates two tables with the same name. The name of the current role selects one of them."""
    case.sql("DROP ROLE IF EXISTS bgs_role; CREATE ROLE bgs_role SUPERUSER; CREATE SCHEMA bgs_role")
    case.create()
    case.create(table="bgs_role.t")
    case.open_gate(keys=f"t({case.column})")


@event("role of new connections changed", modes=POSTGRES, setup=by_role, expect=RESTARTS, writers=False)
def change_role(case):
    """The search path contains "$user", which resolves to another schema after the change."""
    check_with_setting(case, "role = bgs_role", "bgs_role.t")


OVERLOADS = """CREATE SCHEMA evil;
    DO $do$ DECLARE a text; b text; result text; op text;
    types text[] := '{name,text,varchar,oid,regclass,smallint,int,bigint,"\\"char\\"",xid,xid8,pg_lsn,name[],text[]}';
    BEGIN FOREACH a IN ARRAY types LOOP
        EXECUTE pg_catalog.format('CREATE FUNCTION evil.step(bigint, %s) RETURNS bigint LANGUAGE plpgsql AS'
            ' $$BEGIN RAISE ''overloaded''; END$$; CREATE AGGREGATE evil.count(%s) (sfunc = evil.step,'
            ' stype = bigint)', a, a);
        FOREACH b IN ARRAY types LOOP FOREACH result IN ARRAY '{bool,text}'::text[] LOOP
            EXECUTE pg_catalog.format('CREATE FUNCTION evil.run_%s(%s, %s) RETURNS %s LANGUAGE plpgsql AS'
                ' $$BEGIN RAISE ''overloaded''; END$$', result, a, b, result);
            FOREACH op IN ARRAY CASE result WHEN 'bool' THEN '{=,<>,<,>,>=,~,!~}' ELSE '{||,+,-}' END::text[] LOOP
                EXECUTE pg_catalog.format('CREATE OPERATOR evil.%s (leftarg = %s, rightarg = %s,'
                    ' function = evil.run_%s)', op, a, b, result);
            END LOOP;
        END LOOP; END LOOP;
    END LOOP; END $do$;
    CREATE FUNCTION evil.unnest(name[]) RETURNS SETOF name LANGUAGE plpgsql AS $$BEGIN RAISE 'overloaded'; END$$"""


@event("functions and operators overloaded in the search path", modes=POSTGRES, key="text", setup=own_database,
       expect=ANY, writers=False)
def overloads(case):
    """A role that can create functions in a schema on the search path must not be able to run them as the service's
    role. PostgreSQL prefers a function whose parameter types match exactly to a function in pg_catalog that requires a
    conversion."""
    case.sql(OVERLOADS)
    case.sql(f"ALTER TABLE {case.table} ALTER COLUMN {case.column} TYPE varchar")
    gate = case.open_gate(name="overloads", source=case.url() + "&options=-csearch_path%3Dpublic,evil")
    require(gate.lookup(case.key.text(0)) == "present", "a lookup failed")
    case.insert(20)
    oracle.check(case)
    case.sql(f"GRANT SELECT ON {case.table} TO PUBLIC")
    oracle.check(case)


# ---- Logical replication ---------------------------------------------------------------------


def publications(case):
    return [name for (name,) in case.sql("SELECT quote_ident(pubname) FROM pg_publication")]


def slots(case):
    return [name for (name,) in case.sql("SELECT slot_name FROM pg_replication_slots WHERE NOT temporary"
                                         " AND slot_type = 'logical'")]


def idle_slots(case):
    """Disconnects the gate if it connects through a proxy, waits until its slots are inactive, and
    returns the slots."""
    if case.proxy:
        case.proxy.close()
    while case.sql("SELECT 1 FROM pg_replication_slots WHERE active"):
        time.sleep(0.005)
    return slots(case)


@event("table locked while the gate starts", modes=LOGICAL, setup=table_only, expect=ANY, writers=False)
def locked_table(case):
    """The table has the lock that VACUUM and CREATE INDEX CONCURRENTLY take. A server process that waits for the lock
    does not notice that the service has stopped waiting, so each attempt would occupy one more
    connection."""
    with case.connect() as sql:
        sql(f"BEGIN; LOCK TABLE {case.table} IN SHARE UPDATE EXCLUSIVE MODE")
        gate = case.open_gate(wait=False)
        gate.wait(lambda about: about["text"], "waiting for the lock")
        gate.stop()
        deadline = time.monotonic() + PATIENCE
        while case.sql("SELECT 1 FROM pg_locks WHERE NOT granted"):
            require(time.monotonic() < deadline, "a connection is still waiting for a lock after the service has stopped")
            time.sleep(0.01)
        sql("ROLLBACK")
    gate.start()
    gate.wait_trusted()


@event("replies requested from a silent server", modes=LOGICAL, setup=proxied, writers=False)
def signs_of_life(case):
    """A server that decodes changes to other tables for minutes sends nothing unless the service
    requests a reply. The service must not treat the connection as dead, because decoding would
    start over."""
    requests = []
    case.proxy.between = lambda data: requests.append(data[:1] == b"d" and data[5:6] == b"r" and data[-1])
    case.proxy.cut()
    case.insert(3)
    oracle.check(case)
    deadline = time.monotonic() + PATIENCE  # lookups may be correct before the service has reconnected
    while 1 not in requests:
        require(time.monotonic() < deadline, "the service did not request a reply")
        time.sleep(0.01)
    case.proxy.between = None


@event("publication altered and restored", modes=LOGICAL, expect=RESTARTS)
def alter_publication(case):
    for name in publications(case):
        case.sql(f"ALTER PUBLICATION {name} DROP TABLE {case.table}")
        case.insert(20)
        case.sql(f"ALTER PUBLICATION {name} ADD TABLE {case.table}")


@event("publication altered and restored in one transaction", modes=LOGICAL, expect=RESTARTS)
def alter_publication_at_once(case):
    for name in publications(case):
        case.sql(f"BEGIN; ALTER PUBLICATION {name} DROP TABLE {case.table}")
        keys = case.write(case.fresh(20))
        case.sql(f"ALTER PUBLICATION {name} ADD TABLE {case.table}; COMMIT")
        case.committed(keys)


@event("publication limited to deletes and restored", modes=LOGICAL, expect=RESTARTS)
def publish_less(case):
    for name in publications(case):
        before = case.sql(f"SELECT pubinsert, pubupdate, pubdelete, pubtruncate FROM pg_publication WHERE"
                          f" quote_ident(pubname) = '{name}'")[0]
        kinds = ", ".join(k for k, on in zip(("insert", "update", "delete", "truncate"), before) if on == "t")
        case.sql(f"ALTER PUBLICATION {name} SET (publish = 'delete')")
        case.insert(20)
        case.sql(f"ALTER PUBLICATION {name} SET (publish = '{kinds}')")


@event("publish_via_partition_root changed", modes=LOGICAL, setup=partitioned, expect=RESTARTS)
def partition_root(case):
    for name in publications(case):
        for value in "true", "false":
            case.sql(f"ALTER PUBLICATION {name} SET (publish_via_partition_root = {value})")
            case.committed(add_rows(case, f"{case.table}_1_1", 10, region=1))
            case.insert(5)


@event("replica identity full", modes=LOGICAL, expect=ANY)
def identity_full(case):
    """The stream includes the old versions of updated and deleted rows, but omits unchanged long keys."""
    case.sql(f"ALTER TABLE {case.table} REPLICA IDENTITY FULL")
    case.sql(f"UPDATE {case.table} SET {case.column} = {case.literal(*case.fresh())} WHERE id = 11")
    case.sql(f"UPDATE {case.table} SET id = id + 1000000 WHERE id = 12")
    case.sql(f"DELETE FROM {case.table} WHERE id = 13")
    case.insert(5)
    oracle.check(case)


@event("deferrable primary key", modes=LOGICAL, setup=nothing, expect=REFUSED, writers=False)
def deferrable(case):
    """A deferrable key cannot be a replica identity, so every UPDATE would fail once the table is published."""
    case.sql(f"CREATE TABLE {case.table} (id bigserial PRIMARY KEY DEFERRABLE, {case.column} {case.type()})")
    return case.refusal(), ("no replica identity",)


def update_without_identity(case, lose):
    """Runs `lose`, which removes the replica identity, and verifies that UPDATE succeeds once the gate has dropped its
    publication."""
    case.sql(lose)
    case.gate.wait(lambda _: not publications(case), "without a publication")
    case.sql(f"UPDATE {case.table} SET {case.column} = {case.literal(*case.fresh())} WHERE id = 11")
    oracle.check_doubt(case)


@event("replica identity lost", modes=LOGICAL, expect=RESTARTS, writers=False)
def identity_lost(case):
    table = case.table
    update_without_identity(case, f"ALTER TABLE {table} REPLICA IDENTITY NOTHING")
    case.sql(f"ALTER TABLE {table} REPLICA IDENTITY DEFAULT")
    case.gate.wait_trusted()
    (name,) = case.sql(f"SELECT quote_ident(conname) FROM pg_constraint WHERE conrelid = '{table}'::regclass"
                       " AND contype = 'p'")[0]
    update_without_identity(case, f"ALTER TABLE {table} DROP CONSTRAINT {name}")
    case.sql(f"ALTER TABLE {table} ADD PRIMARY KEY (id)")


@event("replica identity lost with the key column", modes=LOGICAL, expect=ANY, writers=False)
def identity_and_column_lost(case):
    """The renamed key column is a second reason why the gate cannot follow the table. UPDATE must still
    succeed."""
    table = case.table
    (name,) = case.sql(f"SELECT quote_ident(conname) FROM pg_constraint WHERE conrelid = '{table}'::regclass"
                       " AND contype = 'p'")[0]
    case.sql(f"ALTER TABLE {table} DROP CONSTRAINT {name}; ALTER TABLE {table} RENAME {case.column} TO renamed")
    case.gate.wait(lambda _: not publications(case), "without a publication")
    case.sql(f"UPDATE {table} SET renamed = {case.literal(*case.fresh())} WHERE id = 11")
    case.sql(f"ALTER TABLE {table} RENAME renamed TO {case.column}; ALTER TABLE {table} ADD PRIMARY KEY (id)")
    oracle.check(case)


@event("child without a replica identity removed", modes=LOGICAL, expect=RESTARTS, writers=False)
def child_leaves(case):
    """The publication lists each child, so the service must remove a table from the publication when the table is no
    longer a child."""
    child = "bgs_child"
    case.sql(f"CREATE TABLE {child} (PRIMARY KEY (id)) INHERITS ({case.table})")
    listed = f"SELECT count(*) FROM pg_publication_tables WHERE tablename = '{child}'"
    case.gate.wait(lambda _: case.sql(listed)[0][0] == "1", "published")
    case.gate.wait_trusted()
    case.sql(f"INSERT INTO {child} (id, {case.column}) VALUES (-1, {case.literal(*case.fresh())})")
    case.sql(f"ALTER TABLE {child} NO INHERIT {case.table}; ALTER TABLE {child} REPLICA IDENTITY NOTHING")
    case.gate.wait(lambda _: case.sql(listed)[0][0] == "0", "not published")
    case.sql(f"UPDATE {child} SET id = -2")
    case.sql(f"DROP TABLE {child}")
    oracle.check(case)


@event("publication with a row filter", modes=LOGICAL, expect=RESTARTS)
def row_filter(case):
    if int(case.sql("SHOW server_version_num")[0][0]) < 150000:
        return
    for name in publications(case):
        case.sql(f"ALTER PUBLICATION {name} SET TABLE {case.table} WHERE (id < 0)")
        case.insert(20)
    case.gate.wait_trusted()
    oracle.check(case)
    for name in publications(case):
        case.sql(f"ALTER PUBLICATION {name} SET TABLE {case.table} (id)")
        case.insert(20)


@event("publication dropped", modes=LOGICAL, expect=RESTARTS)
def drop_publication(case):
    for name in publications(case):
        case.sql(f"DROP PUBLICATION {name}")
    case.insert(20)


@event("slot dropped", modes=LOGICAL, setup=proxied, expect=RESTARTS)
def drop_slot(case):
    for name in idle_slots(case):
        case.sql(f"SELECT pg_drop_replication_slot('{name}')")
    case.insert(20)
    case.proxy.open()


@event("slot dropped and re-created", modes=LOGICAL, setup=proxied, expect=RESTARTS)
def recreate_slot(case):
    for name in idle_slots(case):
        case.sql(f"SELECT pg_drop_replication_slot('{name}')")
        case.insert(20)
        case.sql(f"SELECT pg_create_logical_replication_slot('{name}', 'pgoutput')")
    case.insert(5)
    case.proxy.open()


@event("slot advanced", modes=LOGICAL, setup=proxied, expect=RESTARTS)
def advance_slot(case):
    names = idle_slots(case)
    case.insert(20)
    for name in names:
        case.sql(f"SELECT pg_replication_slot_advance('{name}', pg_current_wal_lsn())")
    case.insert(5)
    case.proxy.open()


@event("slot advanced while the service is down", modes=LOGICAL, expect=ANY)
def advance_slot_stopped(case):
    case.gate.stop()
    case.insert(20)
    for name in idle_slots(case):
        case.sql(f"SELECT pg_replication_slot_advance('{name}', pg_current_wal_lsn())")
    case.insert(5)
    case.gate.start()


@event("slot invalidated", modes=LOGICAL, expect=ANY)
def invalidate_slot(case):
    """While the service is down, the server writes more WAL than it keeps for the slot."""
    case.gate.stop()
    case.sql("ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'")
    case.sql("SELECT pg_reload_conf()")
    try:
        while case.sql("SELECT 1 FROM pg_replication_slots WHERE wal_status <> 'lost' AND NOT temporary"):
            case.insert(5)
            case.sql("SELECT pg_switch_wal()")
            case.sql("CHECKPOINT")
    finally:
        case.sql("ALTER SYSTEM RESET ALL")
        case.sql("SELECT pg_reload_conf()")
    case.gate.start()


@event("walsender killed", modes=LOGICAL)
def kill_walsender(case):
    for _ in range(3):
        case.insert(10)
        case.sql("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active")
        case.insert(10)
        oracle.check(case)


@event("a large transaction", modes=POSTGRES, key="text")
def large_transaction(case):
    """A transaction exceeds logical_decoding_work_mem, so the server spills it to disk."""
    case.sql("ALTER SYSTEM SET logical_decoding_work_mem = '64kB'")
    case.sql("SELECT pg_reload_conf()")
    numbers = case.fresh(3000)
    keys = []
    case.sql("BEGIN")
    for at in range(0, len(numbers), 500):
        keys += case.write(numbers[at:at + 500])
        case.sql(f"SAVEPOINT s{at}")
    case.sql("COMMIT")
    case.committed(keys)
    oracle.check(case)
    case.sql("ALTER SYSTEM RESET ALL")
    case.sql("SELECT pg_reload_conf()")


@event("unrelated messages in the stream", modes=LOGICAL)
def foreign_messages(case):
    for text in "", "x", "00000000 g 0000000000000000 5", "%s%n" * 20, "9" * 5000:
        case.sql(f"SELECT pg_logical_emit_message(false, 'bloomgate', '{text}')")
        case.sql(f"SELECT pg_logical_emit_message(true, 'bloomgate', '{text}')")
        case.sql(f"SELECT pg_logical_emit_message(false, 'other', '{text}')")
    case.insert(5)


# ---- The server ------------------------------------------------------------------------------


@event("connections killed", modes=POSTGRES)
def kill_connections(case):
    for _ in range(3):
        case.sql("BEGIN; SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE"
                 f" 'bloomgate%'; INSERT INTO {case.table} ({case.column}) VALUES {case.values(case.fresh(5))};"
                 "COMMIT")
        case.insert(5)
    oracle.check(case)


@event("server restarted", modes=POSTGRES)
def restart(case):
    case.insert(10)
    case.server.restart()
    case.reconnect()
    case.insert(10)
    oracle.check(case)


@event("server crashed", modes=POSTGRES, expect=ANY)
def crash(case):
    case.insert(10)
    case.server.restart("immediate")
    case.reconnect()
    case.insert(10)
    oracle.check(case)
    case.server.kill()
    case.server.start()
    case.reconnect()
    case.insert(10)


@event("server crash that loses commits", modes=POSTGRES, setup=private, expect=ANY, writers=False)
def crash_async(case):
    """Transactions that the follower has seen are lost, and their IDs are reused."""
    for _ in range(3):
        case.sql("ALTER SYSTEM SET wal_writer_delay = '10s'")
        case.sql("SELECT pg_reload_conf()")
        with case.connect(["SET synchronous_commit = off"]) as sql:
            for _ in range(20):
                case.insert(2, sql)
            time.sleep(0.05)  # long enough for several polls to read the keys
            case.sql("ALTER SYSTEM RESET wal_writer_delay")  # takes effect at the next start
            for _ in range(5):
                case.insert(2, sql)
        case.server.kill()
        case.server.start()
        case.reconnect()
        with case.connect(["SET synchronous_commit = off"]) as sql:
            for _ in range(30):
                case.insert(2, sql)
        oracle.check(case)


@event("unlogged table emptied by a crash", modes=POSTGRES_CHANGES, setup=nothing, expect=ANY, writers=False)
def unlogged_crash(case):
    case.sql(f"CREATE UNLOGGED TABLE {case.table} (id bigserial PRIMARY KEY, {case.column} {case.type()}, note text)")
    case.insert(50)
    gate = case.open_gate(wait=False)
    gate.wait(lambda about: about["trusted"] == "1" or about["text"], "trusted or refused")
    case.server.restart("immediate")
    case.reconnect()
    case.insert(50)
    if gate.about()["trusted"] == "0" and "unlogged" in gate.about()["text"]:
        oracle.check_doubt(case)
        case.sql(f"ALTER TABLE {case.table} SET LOGGED")


@event("lagging standby promoted", modes=POSTGRES, setup=private, expect=ANY, monitor=False)
def failover(case):
    """The new primary is missing transactions that the follower has seen, and reuses their IDs."""
    standby = case.world.standby(case.server)
    standby.wait_for(case.server)
    standby.stop("immediate")
    for _ in range(20):
        case.insert(5)
    case.caught_up()
    case.server.stop("immediate")
    standby.start()
    standby.promote()
    case.server = standby
    case.reconnect()
    for _ in range(30):
        case.insert(5)
    case.proxy.point_to(standby.port)
    case.insert(5)


def confirm_position(case, sql):
    """Waits until a filter has been saved and the follower has then reported a position to the server."""
    def saved():
        return [os.stat(path).st_mtime_ns for path in glob.glob(os.path.join(case.gate.directory, "gates", "*.bg"))]

    before = saved()
    case.gate.wait(lambda _: saved() not in ([], before), "saved")
    position = sql.value("SELECT pg_current_wal_insert_lsn()")
    case.gate.wait(lambda _: sql.value(f"SELECT bool_or(write_lsn > '{position}') FROM pg_stat_replication") == "t",
                   "replied")


WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"


@contextlib.contextmanager
def waiting_commit(case, sql, writer):
    """Starts a commit that waits for a standby that does not exist. Afterwards, verifies that a commit is still
    waiting."""
    threads = []

    def is_waiting(_):
        """Returns whether a commit is waiting. The server shows the new setting slightly before applying it, so the
        first commits might not wait. In that case, starts another commit."""
        if not threads or not threads[-1].is_alive():
            threads.append(threading.Thread(target=case.insert, args=(1, writer)))
            threads[-1].start()
        return sql.value(WAITING) == "1"
    sql("ALTER SYSTEM SET synchronous_standby_names = '*'")
    sql("SELECT pg_reload_conf()")
    try:
        case.gate.wait(lambda _: writer.value("SHOW synchronous_standby_names") == "*", "synchronous")
        case.gate.wait(is_waiting, "waiting for a standby")
        yield
        require(sql.value(WAITING) != "0", "the commit was acknowledged without a standby")
    finally:
        sql("ALTER SYSTEM RESET synchronous_standby_names")
        sql("SELECT pg_reload_conf()")
        for thread in threads:
            thread.join()


@event("commit waits for a synchronous standby", modes=LOGICAL, setup=private, writers=False)
def synchronous(case):
    """The gate confirms positions to the server, but must not acknowledge commits in place of a standby."""
    with case.connect() as sql, case.connect() as writer, waiting_commit(case, sql, writer):
        for _ in range(2):
            confirm_position(case, sql)


@event("commit waits for a standby to write", modes=LOGICAL, setup=private, writers=False)
def synchronous_write(case):
    """The gate receives the commit, and then confirms an earlier position once an older transaction has ended."""
    confirmed = "SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE NOT temporary"
    with case.connect() as sql, case.connect() as writer, case.connect() as older:
        writer("SET synchronous_commit = remote_write")
        older("BEGIN")
        older("SELECT pg_current_xact_id()")
        for _ in range(2):
            confirm_position(case, sql)
        with waiting_commit(case, sql, writer):
            confirm_position(case, sql)
            position = sql.value(confirmed)
            older("ROLLBACK")
            case.gate.wait(lambda _: sql.value(confirmed) != position, "confirmed")


@contextlib.contextmanager
def waiting_ddl(case, statement):
    """Runs a statement whose commit waits for a standby: the commit is in the WAL, but other
    sessions do not see it yet. Yields a connection whose commits do not wait."""
    with case.connect() as sql, case.connect() as writer, case.connect() as other, \
            case.connect(("SET synchronous_commit = local",)) as local:
        thread = threading.Thread(target=other, args=(statement,))
        try:
            with waiting_commit(case, sql, writer):
                thread.start()
                case.gate.wait(lambda _: sql.value(WAITING) == "2", "waiting for a standby")
                yield local
        finally:
            thread.join()


def require_not_denied(gate, keys):
    """Waits until the gate has caught up or is in doubt. The gate must not report the keys as
    absent."""
    since = time.monotonic_ns()
    gate.wait(lambda about: about["trusted"] == "0" or int(about["since"]) > since, "caught up or in doubt")
    denied = gate.denied(keys)
    require(not denied, f"{len(denied)} keys are reported as absent: {denied[:3]}")


@event("rename of an enum label not visible yet", modes=POSTGRES, key="text", setup=private, expect=ANY, writers=False)
def enum_label_unseen(case):
    """The stream contains the new label, while queries still return the old label."""
    case.sql("CREATE TYPE public.mood AS ENUM ('sad', 'glad');"
             "CREATE TABLE public.moods (id bigserial PRIMARY KEY, mood public.mood)")
    gate = case.open_gate("moods", checked=False, keys="public.moods(mood)")
    with waiting_ddl(case, "ALTER TYPE public.mood RENAME VALUE 'sad' TO 'blue'") as sql:
        sql("INSERT INTO public.moods (mood) VALUES ('sad')")
        require_not_denied(gate, [b"sad"])


DETACHING = """CREATE TABLE public.parts (id bigserial PRIMARY KEY, key text) PARTITION BY RANGE (id);
    CREATE TABLE public.parts_1 PARTITION OF public.parts FOR VALUES FROM (1) TO (1000)"""
DETACH = "ALTER TABLE public.parts DETACH PARTITION public.parts_1 CONCURRENTLY"


@event("concurrent detach of a partition not visible yet", modes=POSTGRES, key="text", setup=private, expect=ANY,
       writers=False)
def detach_unseen(case):
    """The stream omits the partition's rows, while queries still return them."""
    case.sql(DETACHING)
    gate = case.open_gate("parts", checked=False, keys="public.parts(key)")
    keys = [b"part %d" % i for i in range(50)]
    with waiting_ddl(case, DETACH) as sql:
        for key in keys:
            sql(f"INSERT INTO public.parts (key) VALUES ('{key.decode()}')")
        require_not_denied(gate, keys)


@event("partition published with its parent while being detached", modes=LOGICAL, key="text", setup=private, expect=ANY,
       writers=False)
def detach_pending(case):
    """A publication of the parent omits a partition as soon as PostgreSQL starts to detach it."""
    case.sql(DETACHING)
    parent = case.open_gate("parent", checked=False, keys="public.parts(key)")
    gate = case.open_gate("parts", wait=False, checked=False, keys="public.parts_1(key)", install="no")
    gate.wait(lambda about: "is missing" in about["text"], "refused")
    name = gate.about()["text"].split(" is missing")[0].split(" ")[-1]
    case.sql(f'CREATE PUBLICATION "{name}" FOR TABLE public.parts WITH (publish_via_partition_root)')
    gate.wait_trusted()
    with case.connect() as older, case.connect() as other:
        older("BEGIN; SELECT FROM public.parts")
        thread = threading.Thread(target=other, args=(DETACH,))
        thread.start()
        parent.wait(lambda about: about["restarts"] == "2" and about["trusted"] == "1", "trusted without the partition")
        gate.wait(lambda about: about["restarts"] == "2" or about["text"], "restarted or refused")
        gate.wait(lambda about: about["trusted"] == "1" or about["text"], "trusted or refused")
        keys = [b"part %d" % i for i in range(50)]
        for i, key in enumerate(keys):
            case.sql(f"INSERT INTO public.parts_1 VALUES ({i + 1}, '{key.decode()}')")
        require_not_denied(gate, keys)
        older("COMMIT")
        thread.join()


@event("partition with an interrupted detach", modes=POSTGRES, key="text", expect=ANY, writers=False)
def detach_interrupted(case):
    """ALTER TABLE refuses the partition until the operator finishes detaching it."""
    case.sql(DETACHING + ";CREATE TABLE public.parts_2 PARTITION OF public.parts FOR VALUES FROM (1000) TO (2000)")
    gate = case.open_gate("parts", checked=False, keys="public.parts(key)")
    case.sql("INSERT INTO public.parts VALUES (1); ALTER TABLE public.parts_1 REPLICA IDENTITY NOTHING")
    with case.connect() as older, case.connect(("SET statement_timeout = '200ms'",)) as other:
        older("BEGIN; SELECT FROM public.parts")
        while not case.sql("SELECT FROM pg_inherits WHERE inhdetachpending"):
            with contextlib.suppress(SqlError):
                other(DETACH)
        older("COMMIT")
    case.sql("DROP SCHEMA IF EXISTS bloomgate CASCADE")
    case.sql("INSERT INTO public.parts VALUES (1001, 'part')")
    for one in gate, case.open_gate("later", checked=False, keys="public.parts(key)"):
        one.wait_caught()
        one.wait_trusted()
        require_not_denied(one, [b"part"])
    case.sql("UPDATE public.parts_1 SET key = 'not published'")


@event("caught-up standby promoted", modes=POSTGRES, setup=private, expect=ANY)
def switchover(case):
    standby = case.world.standby(case.server)
    case.insert(20)
    case.server.stop("fast")
    standby.promote()
    case.server = standby
    case.reconnect()
    case.insert(20)
    case.proxy.point_to(standby.port)


@event("standby promoted while the service is down", modes=POSTGRES, setup=private, expect=ANY, monitor=False)
def failover_stopped(case):
    standby = case.world.standby(case.server)
    standby.wait_for(case.server)
    standby.stop("immediate")
    for _ in range(20):
        case.insert(5)
    case.caught_up()
    case.gate.stop()
    case.server.stop("immediate")
    standby.start()
    standby.promote()
    case.server = standby
    case.reconnect()
    for _ in range(30):
        case.insert(5)
    case.proxy.point_to(standby.port)
    case.gate.start()


@event("rebuild from a lagging standby", modes=POSTGRES, setup=private, expect=ANY)
def lagging_replica(case):
    """The follower stays connected to the primary, but new connections go to a standby."""
    standby = case.world.standby(case.server)
    standby.wait_for(case.server)
    with standby.connect() as sql:
        sql("SELECT pg_wal_replay_pause()")
    case.insert(50)
    keys = case.truth()
    case.caught_up()
    case.proxy.point_to(standby.port)
    builds = int(case.gate.about()["builds"])
    case.gate.do("rebuild")
    case.gate.wait(lambda about: int(about["builds"]) > builds or int(about["failures"]) > 0, "built or failed")
    with standby.connect() as sql:
        sql("SELECT pg_wal_replay_resume()")
    oracle.refuse(case, case.gate, set(case.gate.denied(keys)) & case.truth(), len(keys))
    case.proxy.point_to(case.server.port)
    case.proxy.cut()


@event("address temporarily points to a standby", modes=POSTGRES, setup=private, expect=ANY)
def follow_standby(case):
    """A standby cannot be followed. The gate must not mistake the standby for the primary."""
    standby = case.world.standby(case.server)
    standby.wait_for(case.server)
    case.insert(20)
    keys = case.truth()
    case.caught_up()
    case.proxy.point_to(standby.port)
    case.proxy.cut()
    case.insert(20)
    time.sleep(0.3)
    oracle.refuse(case, case.gate, set(case.gate.denied(keys)) & case.truth(), len(keys))
    case.proxy.point_to(case.server.port)
    case.proxy.cut()


@event("file backup restored", modes=POSTGRES, setup=private, expect=ANY, monitor=False)
def restore_backup(case):
    case.server.stop()
    backup = case.server.data + ".backup"
    case.server.copy_to(backup)
    case.server.start()
    case.proxy.point_to(case.server.port)
    case.reconnect()
    for _ in range(20):
        case.insert(5)
    case.caught_up()
    case.server.stop("immediate")
    case.server.put_back(backup)
    case.server.start()
    case.proxy.point_to(case.server.port)
    case.reconnect()
    for _ in range(30):
        case.insert(5)


@event("backup restored while the service is down", modes=POSTGRES, setup=private, expect=ANY, monitor=False)
def restore_backup_stopped(case):
    case.gate.stop()
    case.server.stop()
    backup = case.server.data + ".backup"
    case.server.copy_to(backup)
    case.server.start()
    case.proxy.point_to(case.server.port)
    case.reconnect()
    case.gate.start()
    case.gate.wait_trusted()
    for _ in range(20):
        case.insert(5)
    case.caught_up()
    case.gate.stop()
    case.server.stop("immediate")
    case.server.put_back(backup)
    case.server.start()
    case.proxy.point_to(case.server.port)
    case.reconnect()
    for _ in range(30):
        case.insert(5)
    case.gate.start()


@event("database swapped by RENAME", modes=POSTGRES, setup=own_database, expect=RESTARTS, monitor=False, writers=False)
def swap_database(case):
    """The other database is a copy that includes the service's objects but has different rows."""
    case.caught_up()
    case.proxy.close()
    case.disconnect()
    with case.server.connect() as sql:
        evict(sql)
        sql("CREATE DATABASE bgs_b TEMPLATE bgs_a STRATEGY file_copy")
    case.proxy.open()
    case.insert(100)
    case.caught_up()
    with case.server.connect("bgs_b") as other:
        case.insert(100, sql=other)
    case.proxy.close()
    case.disconnect()
    with case.server.connect() as sql:
        evict(sql)
        sql("ALTER DATABASE bgs_a RENAME TO bgs_c")
        sql("ALTER DATABASE bgs_b RENAME TO bgs_a")
    case.proxy.open()
    case.insert(50)


def evict(sql):
    """Terminates all sessions in the private databases, and waits until they have ended."""
    while sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname LIKE 'bgs%'"):
        time.sleep(0.005)


@event("database dropped and re-created", modes=POSTGRES, setup=own_database, expect=RESTARTS, monitor=False,
       writers=False)
def recreate_database(case):
    case.proxy.close()
    case.disconnect()
    with case.server.connect() as sql:
        evict(sql)
        sql("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = 'bgs_a'")
        sql("DROP DATABASE bgs_a")
        sql("CREATE DATABASE bgs_a STRATEGY file_copy")
    case.create()
    case.proxy.open()


@event("connection cut at each step", modes=POSTGRES, setup=proxied, expect=ANY)
def cut_connections(case):
    """The connection breaks after the server has sent various numbers of bytes, from the handshake to the last row."""
    offsets = [1, 20, 150, 400, 700, 1200, 2500, 6000]
    for offset in offsets if case.budget < 10000 else range(1, 8000, 150):
        case.proxy.cut()
        case.proxy.cut_after(offset + case.random.randrange(1 + offset // 2))
        case.insert(3)
        if case.random.random() < 0.5:
            case.gate.do("rebuild")
        deadline = time.monotonic() + 3
        while not case.proxy.was_cut() and time.monotonic() < deadline:
            time.sleep(0.01)
        case.insert(3)
        oracle.check(case)


@event("connection stalls", modes=POSTGRES, setup=proxied, expect=ANY)
def stalled_connection(case):
    """Data arrives late or never. The follower must not interpret silence as "no changes"."""
    case.proxy.stall()
    case.insert(10)
    time.sleep(0.1)
    case.proxy.flow()
    oracle.check(case)
    case.proxy.stall()
    case.insert(10)
    time.sleep(0.1)
    case.proxy.cut()
    case.proxy.flow()
    oracle.check(case)


@event("connection stalls during the last lookup", modes=POSTGRES, setup=proxied, writers=False, monitor=False)
def stalled_lookup(case):
    """When the follower has caught up, the gate is up, although the last lookup failed."""
    gate = case.open_gate("idle", checked=False, timeout="2s", max_lag="2s")
    key = min(case.truth())
    case.proxy.stall()
    gate.wait_event("stale")
    require(gate.lookup(key) == "unknown", "the lookup did not fail")
    case.proxy.flow()
    gate.wait_event("fresh")
    gate.wait(lambda about: about["up"] == "1", "up")
    case.close_gate(gate)


# ---- Between any two messages ----------------------------------------------------------------


def between_messages(case, share, *actions):
    """Runs an action before some of the messages that the service sends. Each of these messages is
    delayed until the action has ended.

    Thus, at every step of starting, polling and reading, two consecutive statements from the service can see different
    database states.
    """
    lock, count = threading.Lock(), itertools.count(1)
    done = 0

    def between(_):
        nonlocal done
        if not case.proxy.between or case.random.random() > share or not lock.acquire(blocking=False):
            return
        try:
            with case.connect(["SET lock_timeout = '30ms'"]) as sql:  # the service might hold a lock
                case.random.choice(actions)(case, sql)
                done = next(count)
        except (SqlError, Lost):
            pass
        finally:
            lock.release()

    case.proxy.between = between
    try:
        for target in 6, 12, 18:
            case.gate.do("rebuild")
            deadline = time.monotonic() + 0.7
            while done < target and time.monotonic() < deadline:
                case.insert(2)
                time.sleep(0.02)
        case.gate.stop()
        case.gate.start()
        time.sleep(0.2)
    finally:
        case.proxy.between = None


def insert_one(case, sql):
    case.insert(1, sql)


def disable_and_insert(case, sql):
    """Disables the gate's triggers or its publication during a transaction that inserts rows."""
    sql("BEGIN")
    if case.mode == "logical":
        (name,) = sql("SELECT quote_ident(pubname) FROM pg_publication LIMIT 1")[0]
        sql(f"ALTER PUBLICATION {name} DROP TABLE {case.table}")
        keys = case.write(case.fresh(2), sql)
        sql(f"ALTER PUBLICATION {name} ADD TABLE {case.table}; COMMIT")
    else:
        sql(f"ALTER TABLE {case.table} DISABLE TRIGGER USER")
        keys = case.write(case.fresh(2), sql)
        for (name,) in sql("SELECT quote_ident(tgname) FROM pg_trigger WHERE NOT tgisinternal"
                           f" AND tgrelid = '{case.table}'::regclass"):
            sql(f"ALTER TABLE {case.table} ENABLE ALWAYS TRIGGER {name}")
        sql("COMMIT")
    case.committed(keys)


def rewrite(case, sql):
    sql(f"ALTER TABLE {case.table} ALTER COLUMN {case.column} TYPE text COLLATE \"C\" USING {case.column} || ''")


def truncate_ours(case, sql):
    """Deletes changes that have not been read yet, after another connection has inserted rows."""
    case.insert(2)
    for (table,) in sql("SELECT oid::regclass FROM pg_class WHERE relkind = 'r'"
                        " AND relnamespace = to_regnamespace('bloomgate')"):
        guards = sql(f"SELECT quote_ident(tgname) FROM pg_trigger WHERE tgrelid = '{table}'::regclass")
        sql(f"BEGIN; ALTER TABLE {table} DISABLE TRIGGER ALL; TRUNCATE {table}")
        for (name,) in guards:
            sql(f"ALTER TABLE {table} ENABLE ALWAYS TRIGGER {name}")
        sql("COMMIT")


def swap(case, sql):
    """Inserts a row into the table and into another table with different rows, and then swaps the two tables."""
    case.insert(1, sql)
    case.insert(1, sql, table=case.table + "_other")
    sql(f"BEGIN; ALTER TABLE {case.table} RENAME TO swapping; ALTER TABLE {case.table}_other RENAME TO t;"
        "ALTER TABLE public.swapping RENAME TO t_other; COMMIT")


def slow_polls(case):
    """Opens a gate that polls slowly. If the gate wrongly considers its filter complete, the error lasts long enough
    for the monitor to detect it."""
    case.through_proxy()
    case.create(table=case.table + "_other")
    case.create()
    case.open_gate(poll="150ms")


@event("rows inserted between any two messages", modes=POSTGRES, setup=proxied, expect=ANY)
def rows_between(case):
    between_messages(case, 0.5, insert_one)


@event("tampering between any two messages", modes=POSTGRES, setup=slow_polls, key="text", expect=ANY)
def tampering_between(case):
    between_messages(case, 0.3, insert_one, disable_and_insert, rewrite, truncate_ours)


@event("tables swapped between any two messages", modes=POSTGRES, setup=slow_polls, key="text", expect=ANY, writers=False,
       monitor=False)
def swaps_between(case):
    for _ in range(2):
        between_messages(case, 0.3, swap)
        oracle.check(case)


def unreachable(case):
    case.create()
    case.through_proxy().close()


@event("server unreachable at startup", modes=POSTGRES, setup=unreachable, expect=ANY)
def late_server(case):
    gate = case.open_gate(wait=False)
    closed = case.open_gate(name="closed", wait=False, checked=False, fail="closed", timeout="1s")
    gate.wait_event("source_lost")
    closed.wait_event("source_lost")
    require(closed.lookup(case.key.text(0)) == "failed", "a gate with fail=closed did not fail")
    case.close_gate(closed)
    case.proxy.open()
    gate.wait_trusted()


@event("too far behind to be trusted", modes=POSTGRES, setup=unreachable, expect=ANY)
def too_far_behind(case):
    case.proxy.open()
    gate = case.open_gate(max_lag="300ms", timeout="1s")
    case.proxy.close()
    gate.wait_event("stale")
    gate.wait_doubt()
    require(not gate.denied(case.absent(50)), "a stale filter reports keys as absent")
    case.proxy.open()
    gate.wait_trusted()
