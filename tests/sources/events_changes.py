"""Events for PostgreSQL with follow=changes: the change table must not disturb applications or
other services."""

import glob
import os

import oracle
from events import ANY, POSTGRES_CHANGES, REFUSED, event, nothing, plain, table_only
from gate import expect as require

DOCS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "sources.md")


def installed(case):
    """Returns three sets of names: the tables that have gate triggers, the functions in the bloomgate schema, and the
    tables in the bloomgate schema."""
    return {kind: {name for (name,) in case.sql(query)} for kind, query in (
        ("triggers", "SELECT DISTINCT tgrelid::regclass FROM pg_trigger JOIN pg_class c ON c.oid = tgrelid"
                     " WHERE tgname LIKE 'bloomgate%' AND relnamespace <> to_regnamespace('bloomgate')"),
        ("functions", "SELECT proname FROM pg_proc WHERE pronamespace = to_regnamespace('bloomgate')"),
        ("tables", "SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace('bloomgate')"
                   " AND relkind = 'r'"))}


def change_table(case):
    (name,) = (name for name in installed(case)["tables"] if name.endswith("_change"))
    return "bloomgate." + name


@event("key column changed to a larger type: inserts keep working", modes=POSTGRES_CHANGES, key="int", expect=ANY,
       writers=False)
def type_does_not_fit(case):
    """The change table cannot store the new keys until it has been replaced."""
    case.sql(f"ALTER TABLE {case.table} ALTER {case.column} TYPE bigint;"
             f"INSERT INTO {case.table} ({case.column}) VALUES (9000000001)")
    oracle.check(case)
    case.sql(f"INSERT INTO {case.table} ({case.column}) VALUES (9000000002)")


@event("key column dropped: inserts keep working", modes=POSTGRES_CHANGES, expect=ANY, writers=False, monitor=False)
def column_dropped(case):
    case.sql(f"ALTER TABLE {case.table} DROP {case.column}; INSERT INTO {case.table} (note) VALUES ('x')")
    case.gate.wait_doubt()
    case.sql(f"INSERT INTO {case.table} (note) VALUES ('y'); UPDATE {case.table} SET note = 'z';"
             f"ALTER TABLE {case.table} ADD {case.column} {case.type()}")
    case.insert(5)


@event("key column's type dropped", modes=POSTGRES_CHANGES, key="text", setup=nothing, writers=False)
def type_dropped(case):
    """The change table does not depend on the application's types."""
    case.sql(f"CREATE TYPE color AS ENUM ('red', 'green'); CREATE TABLE {case.table}"
             f" (id bigserial PRIMARY KEY, {case.column} color, note text)")
    case.sql(f"INSERT INTO {case.table} ({case.column}) VALUES ('red')")
    gate = case.open_gate()
    case.sql(f"ALTER TABLE {case.table} ALTER {case.column} TYPE text; DROP TYPE color")
    case.insert(5)
    oracle.check(case, [gate])
    case.close_gate(gate)
    case.open_gate()


@event("publication for all tables", modes=POSTGRES_CHANGES)
def all_published(case):
    """PostgreSQL refuses to delete rows from a published table without a replica identity, but pruning must still
    work."""
    case.sql("CREATE PUBLICATION everything FOR ALL TABLES")
    try:
        table = change_table(case)
        last = case.sql(f"SELECT max(xid) FROM {table}")
        case.insert(20)
        while case.sql(f"SELECT 1 FROM {table} WHERE xid::text::bigint <= {last[0][0] or 0} LIMIT 1"):
            case.insert()
            case.caught_up()
    finally:
        case.sql("DROP PUBLICATION everything")


@event("gate switched to different columns", modes=POSTGRES_CHANGES, setup=nothing, writers=False)
def other_columns(case):
    """The triggers on a table that is no longer followed are dropped."""
    first, second = case.table, case.table + "2"
    case.create()
    case.create(table=second)
    gate = case.open_gate(keys=f"{first}({case.column}), {second}({case.column})")
    require(len(installed(case)["functions"]) == 3, f"{installed(case)}")
    gate.stop()
    gate.words = [f"keys={second}({case.column})" if word.startswith("keys=") else word for word in gate.words]
    gate.start()
    case.table = second
    oracle.check(case)
    found = installed(case)
    require(len(found["triggers"]) == 1 and len(found["functions"]) == 2, f"{found}")


@event("change table without the service's comment", modes=POSTGRES_CHANGES, setup=nothing, expect=REFUSED, writers=False)
def not_ours(case):
    """The service replaces only objects that have its comment."""
    plain(case)
    table = change_table(case)
    case.sql(f"COMMENT ON TABLE {table} IS 'mine'; ALTER TABLE {table} ADD more int")
    case.gate.wait(lambda about: about["text"], "refused")
    text = case.gate.about()["text"]
    case.sql(f"SELECT more FROM {table}")
    return text, ("did not create",)


@event("schema owned by another role", modes=POSTGRES_CHANGES, setup=table_only, expect=REFUSED, writers=False)
def schema_of_another(case):
    """The owner of a schema can replace its tables, and triggers on them would run with the service's privileges."""
    case.sql("DROP SCHEMA IF EXISTS bloomgate CASCADE; DROP ROLE IF EXISTS other_owner; CREATE ROLE other_owner;"
             "CREATE SCHEMA bloomgate AUTHORIZATION other_owner")
    text = case.refusal()
    case.sql("DROP SCHEMA bloomgate; DROP ROLE other_owner")
    require("belongs to role other_owner" in text, text)
    return text, ("docs/sources.md",)


@event("schema ownership transferred to a superuser", modes=POSTGRES_CHANGES, setup=nothing)
def schema_given_away(case):
    """The statements in the documentation never make a write fail, but ALTER SCHEMA alone would."""
    with open(DOCS, encoding="utf-8") as f:
        statements = f.read().split("ALTER SCHEMA bloomgate")[1].split("```")[0]
    case.create()
    case.sql("CREATE ROLE role1 LOGIN; CREATE ROLE role2; GRANT CREATE ON DATABASE postgres TO role1;"
             f"GRANT USAGE, CREATE ON SCHEMA public TO role1; ALTER TABLE {case.table} OWNER TO role1")
    owner = case.url
    case.url = lambda: owner().replace("owner@", "role1@")
    case.open_gate()
    case.url = owner
    case.sql("BEGIN; ALTER SCHEMA bloomgate" + statements.replace("postgres", "owner"))
    require(case.sql("SELECT nspowner::regrole FROM pg_namespace WHERE nspname = 'bloomgate'") == [["owner"]], "not given")
    case.insert(20)
    oracle.check(case)


@event("objects created by an administrator, with install=no", modes=POSTGRES_CHANGES, setup=nothing)
def by_administrator(case):
    """The script that the service writes contains all necessary statements, even if the service's role owns nothing."""
    case.create()
    case.sql("DROP ROLE IF EXISTS guest; CREATE ROLE guest LOGIN; GRANT USAGE ON SCHEMA public TO guest;"
             f"GRANT SELECT ON {case.table} TO guest")
    owner = case.url
    case.url = lambda: owner().replace("owner@", "guest@")
    gate = case.open_gate(wait=False, install="no")
    gate.wait(lambda about: about["text"], "refused")
    (script,) = glob.glob(os.path.join(gate.directory, "**", "*.sql"), recursive=True)
    with open(script, encoding="utf-8") as f:
        case.sql(f.read())
    gate.wait_trusted()
    case.insert(20)
    oracle.check(case)
    case.url = owner
