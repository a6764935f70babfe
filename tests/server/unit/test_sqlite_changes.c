/*
 * test_sqlite_changes.c - tests follow=changes with SQLite. No matter what happens to the table,
 * the triggers, the change table or the file, every committed key reaches the gate: it is reported
 * as a change, or all keys are read again.
 *
 * Most tests let the follower thread poll only on demand (POLL_NEVER), so that several changes
 * happen between two polls.
 */
#define _GNU_SOURCE /* mkdtemp, usleep */

#include "server/support/source_model.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { POLL_NEVER = 50000 };

static const char ALL[] = "SELECT sku FROM products";

/* A database, its source, and a model of a gate. */
struct scene {
    struct world w;
    struct source_settings settings;
    struct source *source;
    struct model *m;
};

static void scene_follow(struct scene *s, const char *mark)
{
    bg_errinfo why;
    if (source_create(&s->settings, &s->source, &why)) {
        check_fail(__FILE__, __LINE__, "%s", why.message);
    }
    model_follow(s->m, s->source, mark);
}

/* Creates a scene with 20 products, and waits until the model contains all keys. */
static void scene_begin(struct scene *s, bool plain)
{
    world_begin(&s->w, plain);
    world_products(&s->w, 20);
    s->settings = world_settings(&s->w);
    s->settings.poll_ms = POLL_NEVER;
    s->m = model_create();
    scene_follow(s, NULL);
    CHECK_EQ(model_missing(s->m, s->source, &s->w, ALL), 0);
    CHECK_EQ(model_peek(s->m)->restarts, 1);
}

static void scene_stop(struct scene *s)
{
    source_free(s->source);
    s->source = NULL;
}

static void scene_end(struct scene *s)
{
    scene_stop(s);
    model_free(s->m);
    world_end(&s->w);
}

/* Verifies that no key is missing, and that the number of restarts is as expected. */
static void scene_check(struct scene *s, uint64_t restarts)
{
    CHECK_EQ(model_missing(s->m, s->source, &s->w, ALL), 0);
    /* A lookup may notice a change before the follower restarts. */
    MODEL_AWAIT(s->m, s->m->restarts >= restarts);
    CHECK_EQ(model_peek(s->m)->restarts, restarts);
    MODEL_AWAIT(s->m, s->m->up == 1);
}

static const char *changes_of(struct world *w)
{
    static char name[80];
    sqlite3_stmt *rows = NULL;
    CHECK(sqlite3_prepare_v2(w->db,
                             "SELECT name FROM sqlite_master WHERE type = 'table'"
                             " AND name GLOB 'bloomgate_*_changes'",
                             -1, &rows, NULL)
          == SQLITE_OK);
    CHECK(sqlite3_step(rows) == SQLITE_ROW);
    (void)snprintf(name, sizeof name, "%s", (const char *)sqlite3_column_text(rows, 0));
    (void)sqlite3_finalize(rows);
    return name;
}

/* Executes SQL. Up to two %s in the format stand for the name of the change table. */
static void on_changes(struct world *w, const char *format)
{
    const char *name = changes_of(w);
    char *sql = sqlite3_mprintf(format, name, name);
    world_do_on(w->db, sql);
    sqlite3_free(sql);
}

/* ---- Ways to write ------------------------------------------------------------------------- */

TEST(changes__reports_inserts_and_updates)
{
    for (int plain = 0; plain < 2; plain++) {
        struct scene s;
        scene_begin(&s, plain);
        const uint64_t position = model_peek(s.m)->last.position;
        world_do(&s.w, "INSERT INTO products (sku) VALUES ('one'), (NULL), ('two')");
        world_do(&s.w, "UPDATE products SET sku = 'three' WHERE sku = 'sku-1'");
        world_do(&s.w, "UPDATE products SET name = 'other', sku = sku");
        world_do(&s.w, "UPDATE products SET sku = NULL WHERE sku = 'sku-2'");
        world_do(&s.w, "BEGIN");
        world_do(&s.w, "INSERT INTO products (sku) VALUES ('undone')");
        world_do(&s.w, "SAVEPOINT a");
        world_do(&s.w, "INSERT INTO products (sku) VALUES ('undone as well')");
        world_do(&s.w, "ROLLBACK");
        scene_check(&s, 1);
        CHECK_EQ(model_peek(s.m)->last.position,
                 position + 3); /* one position for each key that changed */
        CHECK(!model_has(s.m, "undone"));
        scene_end(&s);
    }
}

TEST(changes__reports_every_way_to_write)
{
    struct scene s;
    scene_begin(&s, false);
    world_do(&s.w, "PRAGMA foreign_keys = ON");
    world_do(&s.w, "REPLACE INTO products (id, sku) VALUES (1, 'replaced')");
    world_do(&s.w, "INSERT OR REPLACE INTO products (sku) VALUES ('sku-3'), ('new')");
    world_do(&s.w, "INSERT OR IGNORE INTO products (sku) VALUES ('sku-4'), ('newer')");
    world_do(&s.w, "INSERT INTO products (sku) VALUES ('sku-5')"
                   " ON CONFLICT (sku) DO UPDATE SET sku = 'upserted'");
    world_do(&s.w, "UPDATE OR REPLACE products SET sku = 'sku-6' WHERE sku = 'sku-7'");
    world_do(&s.w, "INSERT INTO products (sku) SELECT 'copy of ' || sku FROM products");
    scene_check(&s, 1);
    /* This connection attaches the file, uses recursive triggers and distrusts the schema. */
    sqlite3 *other;
    char sql[512];
    CHECK(sqlite3_open(":memory:", &other) == SQLITE_OK);
    (void)snprintf(sql, sizeof sql, "ATTACH '%s' AS a", s.w.path);
    world_do_on(other, sql);
    world_do_on(other, "PRAGMA trusted_schema = OFF");
    world_do_on(other, "PRAGMA recursive_triggers = ON");
    world_do_on(other,
                "CREATE TABLE products (sku)"); /* another table with the same name */
    world_do_on(other, "INSERT INTO a.products (sku) VALUES ('attached')");
    world_do_on(other, "REPLACE INTO a.products (sku) VALUES ('attached'), ('more')");
    CHECK(sqlite3_close(other) == SQLITE_OK);
    scene_check(&s, 1);
    CHECK(model_has(s.m, "attached"));
    scene_end(&s);
}

/* A statement that fails with OR FAIL keeps the rows that it has already inserted, but SQLite does
 * not update sqlite_sequence for them. */
TEST(changes__keeps_its_place_when_a_statement_fails_half_way)
{
    struct scene s;
    scene_begin(&s, false);
    CHECK(sqlite3_exec(
              s.w.db,
              "INSERT OR FAIL INTO products (sku) VALUES ('a'), ('b'), ('sku-1')", NULL,
              NULL, NULL)
          == SQLITE_CONSTRAINT);
    scene_check(&s, 1);
    CHECK(model_has(s.m, "b"));
    world_do(&s.w, "INSERT INTO products (sku) VALUES ('c')");
    scene_check(&s, 1);
    scene_end(&s);
}

TEST(changes__reports_rows_written_by_triggers_and_foreign_keys)
{
    struct scene s;
    scene_begin(&s, false);
    world_do(&s.w, "PRAGMA foreign_keys = ON");
    world_do(&s.w, "CREATE TABLE parents (p TEXT PRIMARY KEY)");
    world_do(&s.w,
             "CREATE TABLE children (c TEXT REFERENCES parents ON UPDATE CASCADE)");
    world_do(&s.w, "CREATE TRIGGER again AFTER UPDATE ON products WHEN NEW.name = 'go'"
                   " BEGIN UPDATE products SET sku = NEW.sku || '+', name = NULL"
                   " WHERE id = NEW.id; END");
    world_do(&s.w, "CREATE TRIGGER early BEFORE INSERT ON products WHEN NEW.sku = 'no'"
                   " BEGIN SELECT RAISE(IGNORE); END");
    scene_stop(&s);
    s.settings.keys = "products(sku), children(c)";
    scene_follow(&s, NULL);
    model_settle(s.m, s.source);
    world_do(&s.w, "INSERT INTO parents VALUES ('old')");
    world_do(&s.w, "INSERT INTO children VALUES ('old'), ('old'), (NULL)");
    world_do(&s.w, "UPDATE parents SET p = 'new'");
    world_do(&s.w, "UPDATE products SET name = 'go' WHERE sku = 'sku-1'");
    world_do(&s.w, "INSERT INTO products (sku) VALUES ('no')");
    CHECK_EQ(model_missing(s.m, s.source, &s.w, ALL), 0);
    CHECK_EQ(model_missing(s.m, s.source, &s.w, "SELECT c FROM children"), 0);
    CHECK(model_has(s.m, "new") && model_has(s.m, "sku-1+") && !model_has(s.m, "no"));
    scene_end(&s);
}

static const char *const values[] = {
    "5",
    "5.0",
    "'5'",
    "'5.0'",
    "' 5'",
    "'007'",
    "1.5",
    "'1.50'",
    "x'35'",
    "'a'",
    "'A'",
    "x'61'",
    "''",
    "x''",
    "-1",
    "1e300",
    "'1e3'",
    "-0.0",
    "CAST(x'610062' AS TEXT)",
    "9223372036854775807",
    "9223372036854775808",
    "NULL",
    "x'00ff'",
    "'\xc3\xa4'",
    "CAST(x'ff' AS TEXT)",
    "0.1 + 0.2",
    "0.3",
};

/* Writes all values. `format` is an sqlite3_mprintf format that takes the column and the value.
 * Some values may violate the column's type. */
static void write_values(struct world *w, const char *format, const char *column)
{
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        char *sql = sqlite3_mprintf(format, column, values[i]);
        (void)sqlite3_exec(w->db, sql, NULL, NULL, NULL);
        sqlite3_free(sql);
    }
}

static void check_table(struct world *w, const char *definition)
{
    const char *column = strstr(definition, " AS (") ? "x" : "k";
    struct source_settings settings = world_settings(w);
    struct source *source;
    struct model *m = model_create();
    world_do(w, "DROP TABLE IF EXISTS t");
    world_do(w, "CREATE TABLE t (%s", definition);
    settings.keys = "t(k)";
    settings.lookup = NULL;
    settings.poll_ms = POLL_NEVER;
    CHECK_OK(source_create(&settings, &source, NULL));
    model_follow(m, source, NULL);
    model_settle(m, source);
    write_values(w, "INSERT OR REPLACE INTO t (%s) VALUES (%s)", column);
    CHECK_EQ(model_missing(m, source, w, "SELECT k FROM t"), 0);
    /* Sets all rows to each value in turn. */
    world_do(w, "CREATE TEMP TABLE seen (k)");
    world_do(w, "CREATE TEMP TRIGGER see AFTER UPDATE ON main.t BEGIN"
                " INSERT INTO seen SELECT k FROM t; END");
    write_values(w, "UPDATE OR REPLACE t SET %s = %s", column);
    CHECK_EQ(model_missing(m, source, w, "SELECT k FROM seen"), 0);
    world_do(w, "DROP TRIGGER see");
    world_do(w, "DROP TABLE seen");
    if (strcmp(definition, "k INTEGER PRIMARY KEY, x)") == 0) {
        world_do(w, "INSERT OR REPLACE INTO t VALUES (1, NULL)");
        world_do(w, "UPDATE t SET rowid = 777 WHERE k = 1");
        CHECK_EQ(model_missing(m, source, w, "SELECT k FROM t"), 0);
        CHECK(model_has(m, "777"));
    }
    CHECK_EQ(model_peek(m)->restarts, 1);
    source_free(source);
    model_free(m);
}

/* The trigger sees the values that the table stores, for every affinity and table type. */
TEST(changes__reports_keys_as_they_are_stored)
{
    static const char *const tables[] = {
        "k TEXT, x)",
        "k INTEGER, x)",
        "k INTEGER PRIMARY KEY, x)",
        "k, x)",
        "k BLOB, x)",
        "k NUMERIC, x)",
        "k ANY, x)",
        "x INTEGER PRIMARY KEY, k TEXT UNIQUE)",
        "x, k TEXT AS (x || '!') STORED)",
        "k TEXT PRIMARY KEY, x) WITHOUT ROWID",
        "k INTEGER PRIMARY KEY, x) WITHOUT ROWID",
        "k PRIMARY KEY, x) WITHOUT ROWID",
        "k ANY PRIMARY KEY, x ANY) STRICT",
    };
    struct world w;
    world_begin(&w, false);
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++) {
        check_table(&w, tables[t]);
    }
    world_end(&w);
}

TEST(changes__reads_text_of_other_encodings)
{
    struct world w;
    struct model *m = model_create();
    struct source *source;
    world_begin(&w, true);
    world_do(&w, "PRAGMA encoding = 'UTF-16le'");
    world_do(&w, "CREATE TABLE t (k TEXT)");
    struct source_settings settings = world_settings(&w);
    settings.keys = "t(k)";
    settings.lookup = NULL;
    CHECK_OK(source_create(&settings, &source, NULL));
    model_follow(m, source, NULL);
    model_settle(m, source);
    world_do(&w, "INSERT INTO t VALUES ('plain'), ('\xc3\xa4'), (x'c3a4')");
    world_do(&w, "UPDATE t SET k = CAST(k AS BLOB) WHERE k = 'plain'");
    CHECK_EQ(model_missing(m, source, &w, "SELECT k FROM t"), 0);
    CHECK_EQ((int)source_form(source), KEY_FORM_ASCII);
    source_free(source);
    model_free(m);
    world_end(&w);
}

/* ---- The schema ---------------------------------------------------------------------------- */

/* Rebuilds the table as SQLite's lang_altertable.html recommends. Dropping the old table also drops
 * its triggers. */
TEST(changes__survives_a_rebuilt_table)
{
    struct scene s;
    scene_begin(&s, false);
    world_do(&s.w, "BEGIN");
    world_do(&s.w, "CREATE TABLE new_products (id INTEGER PRIMARY KEY, sku TEXT, x)");
    world_do(&s.w, "INSERT INTO new_products SELECT id, sku, 1 FROM products");
    world_do(&s.w, "DROP TABLE products");
    world_do(&s.w, "ALTER TABLE new_products RENAME TO products");
    world_do(&s.w, "COMMIT");
    world_do(&s.w, "INSERT INTO products (sku) VALUES ('without triggers')");
    scene_check(&s, 2);
    world_do(&s.w, "INSERT INTO products (sku) VALUES ('with triggers')");
    scene_check(&s, 2);
    CHECK(model_has(s.m, "without triggers") && model_has(s.m, "with triggers"));
    /* The rowid of a deleted row can be reused. */
    world_do(&s.w, "DELETE FROM products WHERE id = (SELECT max(id) FROM products)");
    world_do(&s.w, "INSERT INTO products (sku) VALUES ('same rowid')");
    scene_check(&s, 2);
    scene_end(&s);
}

/* Runs SQL for each of the gate's triggers. In the SQL, %s stands for the trigger's name. */
static void each_trigger(struct world *w, const char *format)
{
    sqlite3_stmt *rows = NULL;
    char names[8][80];
    size_t n = 0;
    CHECK(sqlite3_prepare_v2(w->db,
                             "SELECT name FROM sqlite_master WHERE type = 'trigger' AND"
                             " name GLOB 'bloomgate_*'",
                             -1, &rows, NULL)
          == SQLITE_OK);
    while (sqlite3_step(rows) == SQLITE_ROW && n < 8) {
        (void)snprintf(names[n++], sizeof *names, "%s",
                       (const char *)sqlite3_column_text(rows, 0));
    }
    (void)sqlite3_finalize(rows);
    CHECK(n > 0);
    for (size_t i = 0; i < n; i++) {
        char *sql = sqlite3_mprintf(format, names[i], names[i]);
        world_do_on(w->db, sql);
        sqlite3_free(sql);
    }
}

TEST(changes__notices_triggers_that_were_dropped_and_created)
{
    for (int at_once = 0; at_once < 2; at_once++) {
        struct scene s;
        scene_begin(&s, at_once);
        world_do(&s.w, "CREATE TEMP TABLE kept AS SELECT sql FROM sqlite_master"
                       " WHERE type = 'trigger'");
        world_do(&s.w, at_once ? "BEGIN" : "SELECT 1");
        each_trigger(&s.w, "DROP TRIGGER \"%s\"");
        world_do(&s.w, "INSERT INTO products (sku) VALUES ('unseen')");
        sqlite3_stmt *rows = NULL;
        CHECK(sqlite3_prepare_v2(s.w.db, "SELECT sql FROM kept", -1, &rows, NULL)
              == SQLITE_OK);
        while (sqlite3_step(rows) == SQLITE_ROW) {
            world_do_on(s.w.db, (const char *)sqlite3_column_text(rows, 0));
        }
        (void)sqlite3_finalize(rows);
        world_do(&s.w, at_once ? "COMMIT" : "SELECT 1");
        CHECK_EQ(world_number(&s.w, "SELECT count(*) FROM sqlite_master JOIN kept"
                                    " USING (sql)"),
                 2);
        scene_check(&s, 2);
        CHECK(model_has(s.m, "unseen"));
        scene_end(&s);
    }
}

TEST(changes__creates_what_was_dropped)
{
    struct scene s;
    scene_begin(&s, false);
    each_trigger(&s.w, "DROP TRIGGER \"%s\"");
    world_do(&s.w, "DROP TABLE \"%s\"", changes_of(&s.w));
    world_do(&s.w, "INSERT INTO products (sku) VALUES ('a')");
    scene_check(&s, 2);
    world_do(&s.w, "INSERT INTO products (sku) VALUES ('b')");
    scene_check(&s, 2);
    CHECK(strstr(model_peek(s.m)->why, "schema"));
    scene_end(&s);
}

/* With PRAGMA writable_schema, the SQL of a trigger can be changed without changing the schema
 * version. */
TEST(changes__verifies_the_sql_of_triggers)
{
    struct scene s;
    scene_begin(&s, false);
    world_do(&s.w, "PRAGMA writable_schema = ON");
    world_do(&s.w,
             "UPDATE sqlite_master SET sql = replace(sql, 'IS NOT NULL', 'IS NULL')"
             " WHERE type = 'trigger'");
    scene_check(&s, 2);
    CHECK(strstr(model_peek(s.m)->why, "different SQL"));
    scene_end(&s);
}

/* After a rename, applications continue to work, and the gate waits until its settings match the
 * schema again. */
TEST(changes__does_not_break_applications_that_rename)
{
    for (int legacy = 0; legacy < 2; legacy++) {
        struct scene s;
        scene_begin(&s, false);
        world_do(&s.w, "PRAGMA legacy_alter_table = %d", legacy);
        world_do(&s.w, "ALTER TABLE products RENAME COLUMN sku TO code");
        world_do(&s.w, "INSERT INTO products (code) VALUES ('code')");
        source_look(s.source);
        MODEL_AWAIT(s.m, s.m->up == 0);
        CHECK(strstr(model_peek(s.m)->trouble, "no such column"));
        CHECK(model_peek(s.m)->doubts == 1 && model_peek(s.m)->restarts == 1);
        world_do(&s.w, "ALTER TABLE products RENAME TO goods");
        world_do(&s.w, "INSERT INTO goods (code) VALUES ('goods')");
        world_do(&s.w, "CREATE TABLE products (sku TEXT)");
        world_do(&s.w, "INSERT INTO products VALUES ('another table')");
        MODEL_AWAIT(s.m, s.m->restarts == 2);
        scene_check(&s, 2);
        world_do(&s.w, "INSERT INTO products VALUES ('recorded')");
        world_do(&s.w, "INSERT INTO goods (code) VALUES ('not recorded')");
        scene_check(&s, 2);
        CHECK(model_has(s.m, "recorded") && !model_has(s.m, "not recorded"));
        scene_end(&s);
    }
}

/* An AFTER trigger with RAISE(IGNORE) can prevent the gate's trigger from recording the key. */
TEST(changes__refuses_triggers_that_skip_others)
{
    static const char *const before[] = { "plain",  "\"a b\"",      "[c ]",   "`d``e`",
                                          "'f''g'", "h/* AFTER */", "i-- x\n" };
    static const char *const after[][2] = {
        { "\"before\" AFTER", "raise ( ignore )" },
        { "a/* BEFORE */AFTER", "RAISE(IGNORE)" },
        { "b-- BEFORE\nAFTER", "RAISE(IGNORE)" },
        { "c AFTER", "RAISE /* () */ (-- x)\nIGNORE)" },
    };
    const size_t n = sizeof after / sizeof *after;
    struct scene s;
    scene_begin(&s, false);
    for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
        world_do(&s.w,
                 "CREATE TRIGGER %s BEFORE INSERT ON products WHEN NEW.sku = 'no'"
                 " BEGIN SELECT RAISE(IGNORE); END",
                 before[i]);
    }
    world_do(&s.w,
             "CREATE TRIGGER harmless AFTER INSERT ON products WHEN NEW.sku = 'no'"
             " BEGIN SELECT RAISE(ABORT, 'ignore'); END");
    scene_check(&s, 2); /* the schema has changed */
    for (size_t i = 0; i < n; i++) {
        world_do(&s.w, "CREATE TRIGGER %s INSERT ON Products BEGIN SELECT %s; END",
                 after[i][0], after[i][1]);
        world_do(&s.w, "INSERT INTO products (sku) VALUES ('skipped-%zu')", i);
        source_look(s.source);
        MODEL_AWAIT(s.m, s.m->up == 0);
        CHECK(strstr(model_peek(s.m)->trouble, "skip"));
        world_do(&s.w, "DROP TRIGGER %.*s", (int)strcspn(after[i][0], " /-"),
                 after[i][0]);
        MODEL_AWAIT(s.m, s.m->up == 1);
        scene_check(&s, 3 + i);
    }
    scene_end(&s);
}

/* If an AFTER trigger fails because of RAISE(FAIL) or OR FAIL, the row is kept, but the remaining
 * triggers do not run. The gate's trigger must therefore run first. */
TEST(changes__records_keys_before_other_triggers_can_fail)
{
    static const char *const fails[] = {
        "INSERT INTO products (sku) VALUES ('raised')",
        "INSERT OR FAIL INTO products (sku) VALUES ('constrained')",
        "UPDATE OR FAIL products SET sku = 'updated' WHERE sku = 'sku-1'",
    };
    struct scene s;
    scene_begin(&s, false);
    world_do(&s.w, "CREATE TABLE log (n UNIQUE)");
    world_do(&s.w, "INSERT INTO log VALUES (1)");
    world_do(&s.w, "CREATE TRIGGER raises AFTER INSERT ON products WHEN NEW.sku ="
                   " 'raised' BEGIN SELECT RAISE(FAIL, 'no'); END");
    world_do(&s.w, "CREATE TRIGGER logs AFTER INSERT ON Products WHEN NEW.sku <>"
                   " 'raised' BEGIN INSERT INTO log VALUES (1); END");
    world_do(&s.w, "CREATE TRIGGER logs_updates AFTER UPDATE ON products BEGIN"
                   " INSERT INTO log VALUES (1); END");
    scene_check(&s, 2); /* the schema has changed, and the triggers are re-created */
    for (size_t i = 0; i < sizeof fails / sizeof *fails; i++) {
        CHECK(sqlite3_exec(s.w.db, fails[i], NULL, NULL, NULL) == SQLITE_CONSTRAINT);
    }
    scene_check(&s, 2);
    CHECK(model_has(s.m, "raised") && model_has(s.m, "constrained")
          && model_has(s.m, "updated"));
    scene_end(&s);
}

TEST(changes__refuses_foreign_objects)
{
    struct scene s;
    scene_begin(&s, false);
    char name[80];
    (void)snprintf(name, sizeof name, "%s", changes_of(&s.w));
    world_do(&s.w, "CREATE UNIQUE INDEX odd ON \"%s\" (key)", name);
    source_look(s.source);
    MODEL_AWAIT(s.m, s.m->up == 0);
    CHECK(strstr(model_peek(s.m)->trouble, "index odd"));
    world_do(&s.w, "DROP INDEX odd");
    MODEL_AWAIT(s.m, s.m->up == 1);
    scene_check(&s, 2);
    scene_stop(&s);
    /* The service does not touch a table that has the change table's name but was not created by
     * the service. */
    each_trigger(&s.w, "DROP TRIGGER \"%s\"");
    world_do(&s.w, "DROP TABLE \"%s\"", name);
    world_do(&s.w, "CREATE TABLE \"%s\" (precious)", name);
    scene_follow(&s, NULL);
    MODEL_AWAIT(s.m, s.m->up == 0);
    CHECK(strstr(model_peek(s.m)->trouble, "did not create"));
    CHECK_EQ(world_number(&s.w, "SELECT count(precious) FROM \"%s\"", name), 0);
    scene_end(&s);
}

/* ---- The change table ---------------------------------------------------------------------- */

TEST(changes__notices_lost_change_rows)
{
    static const char *const losses[] = {
        "DELETE FROM \"%s\"",
        "DELETE FROM \"%s\" WHERE key = 'x3'",
        "DELETE FROM \"%s\" WHERE key = 'x5'",
        "DELETE FROM \"%s\" WHERE key GLOB 'x*'",
        "DELETE FROM \"%s\"; DELETE FROM sqlite_sequence",
        "DELETE FROM sqlite_sequence; DELETE FROM \"%s\" WHERE key GLOB 'x*'",
        "UPDATE sqlite_sequence SET seq = 0 WHERE name = '%s'",
        "UPDATE sqlite_sequence SET seq = seq + 10 WHERE name = '%s'",
        "UPDATE \"%s\" SET token = 1",
        "UPDATE \"%s\" SET n = n + 100",
        /* the same sequence numbers, but different rows */
        ("DELETE FROM \"%s\"; DELETE FROM sqlite_sequence; INSERT INTO products (sku)"
         " SELECT 'y' || sku FROM products"),
    };
    for (size_t i = 0; i < sizeof losses / sizeof *losses; i++) {
        struct scene s;
        scene_begin(&s, i % 2);
        world_do(&s.w, "BEGIN");
        world_do(&s.w, "INSERT INTO products (sku) VALUES ('x1'), ('x2'), ('x3'),"
                       " ('x4'), ('x5')");
        on_changes(&s.w, losses[i]);
        world_do(&s.w, "COMMIT");
        scene_check(&s, 2);
        world_do(&s.w, "INSERT INTO products (sku) VALUES ('after')");
        scene_check(&s, 2);
        scene_end(&s);
    }
}

/* Deleting change rows that were already read has no effect. */
TEST(changes__ignores_deleted_rows_that_were_read)
{
    struct scene s;
    scene_begin(&s, false);
    world_do(&s.w, "INSERT INTO products (sku) VALUES ('a'), ('b'), ('c')");
    scene_check(&s, 1);
    world_do(&s.w, "DELETE FROM \"%s\" WHERE n < (SELECT max(n) FROM \"%s\")",
             changes_of(&s.w), changes_of(&s.w));
    world_do(&s.w, "INSERT INTO products (sku) VALUES ('d')");
    scene_check(&s, 1);
    scene_end(&s);
}

TEST(changes__prunes_what_was_saved)
{
    struct scene s;
    scene_begin(&s, false);
    char first[SOURCE_MARK];
    memcpy(first, model_peek(s.m)->mark, sizeof first);
    world_do(&s.w,
             "WITH RECURSIVE c(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM c WHERE"
             " i < 9999) INSERT INTO products (sku) SELECT 'p' || i FROM c");
    scene_check(&s, 1);
    const int64_t rows =
        world_number(&s.w, "SELECT count(*) FROM \"%s\"", changes_of(&s.w));
    CHECK(rows >= 10000); /* nothing was saved */
    source_saved(s.source, model_peek(s.m)->mark, model_peek(s.m)->last.epoch + 1);
    usleep(1100000); /* longer than the minimum pause between two prunes */
    scene_check(&s, 1);
    CHECK_EQ(world_number(&s.w, "SELECT count(*) FROM \"%s\"", changes_of(&s.w)), rows);
    source_saved(s.source, model_peek(s.m)->mark, model_peek(s.m)->last.epoch);
    int64_t left = rows;
    for (int i = 0; left != 1 && i < 60000; i++) {
        model_settle(s.m, s.source);
        usleep(1000);
        left = world_number(&s.w, "SELECT count(*) FROM \"%s\"", changes_of(&s.w));
    }
    CHECK_EQ(left, 1); /* the row that the mark refers to */
    world_do(&s.w, "INSERT INTO products (sku) VALUES ('after')");
    scene_check(&s, 1);
    scene_stop(&s);
    /* the row for this mark was pruned, so the follower cannot resume there */
    scene_follow(&s, first);
    scene_check(&s, 2);
    scene_end(&s);
}

/* ---- The file ------------------------------------------------------------------------------ */

/* Copies the database to another file. */
static void copy_to(struct world *w, struct world *copy)
{
    world_begin(copy, true);
    (void)sqlite3_close(copy->db);
    CHECK(unlink(copy->path) == 0 || errno == ENOENT);
    char *sql = sqlite3_mprintf("VACUUM INTO %Q", copy->path);
    world_do_on(w->db, sql);
    sqlite3_free(sql);
    world_open(copy);
}

/* Overwrites the database `to` with `from`, using SQLite's backup API. */
static void restore(struct world *from, struct world *to)
{
    sqlite3_backup *backup = sqlite3_backup_init(to->db, "main", from->db, "main");
    CHECK(backup);
    int code;
    while ((code = sqlite3_backup_step(backup, -1)) == SQLITE_BUSY
           || code == SQLITE_LOCKED) {
        usleep(1000);
    }
    CHECK_EQ(code, SQLITE_DONE);
    CHECK_EQ(sqlite3_backup_finish(backup), SQLITE_OK);
}

TEST(changes__notices_a_restored_backup)
{
    for (int plain = 0; plain < 2; plain++) {
        struct scene s;
        struct world copy;
        scene_begin(&s, plain);
        copy_to(&s.w, &copy);
        world_do(&s.w, "INSERT INTO products (sku) VALUES ('lost 1'), ('lost 2')");
        scene_check(&s, 1);
        world_do(&copy, "INSERT INTO products (sku) VALUES ('other 1'), ('other 2')");
        restore(&copy, &s.w);
        scene_check(&s, 2);
        CHECK(model_has(s.m, "other 1") && !model_has(s.m, "lost 1"));
        world_end(&copy);
        scene_end(&s);
    }
}

/* The restored copy has the same schema version, so only its token shows that it is different. */
TEST(changes__notices_another_history_with_the_same_schema)
{
    struct scene s;
    struct world copy;
    scene_begin(&s, true);
    const int64_t version = world_number(&s.w, "PRAGMA schema_version");
    copy_to(&s.w, &copy);
    world_do(&s.w, "INSERT INTO products (sku) VALUES ('lost 1'), ('lost 2')");
    scene_check(&s, 1);
    world_do(&copy, "INSERT INTO products (sku) VALUES ('other 1'), ('other 2')");
    restore(&copy, &s.w);
    world_do(&s.w, "PRAGMA schema_version = %lld", (long long)version);
    scene_check(&s, 2);
    CHECK(strstr(model_peek(s.m)->why, "token"));
    CHECK(model_has(s.m, "other 1"));
    world_end(&copy);
    scene_end(&s);
}

static void delete_log(const struct world *w)
{
    char log[320];
    static const char *const endings[] = { "-wal", "-shm" };
    for (size_t i = 0; i < 2; i++) {
        (void)snprintf(log, sizeof log, "%s%s", w->path, endings[i]);
        CHECK(unlink(log) == 0 || errno == ENOENT);
    }
}

/* Renames another database file to the path of this database. */
static void replace_file(struct world *w, struct world *other)
{
    world_end(w);
    world_end(other);
    other->db = NULL;
    delete_log(w); /* the write-ahead log belongs to the old file */
    CHECK(rename(other->path, w->path) == 0);
    world_open(w);
}

TEST(changes__notices_a_replaced_file)
{
    struct scene s;
    struct world copy;
    scene_begin(&s, false);
    copy_to(&s.w, &copy);
    world_do(&copy, "INSERT INTO products (sku) VALUES ('in the copy')");
    replace_file(&s.w, &copy);
    scene_check(&s, 2);
    CHECK_STR(model_peek(s.m)->why, "the file was replaced");
    CHECK(model_has(s.m, "in the copy"));
    /* The filter is not trusted after the file is deleted. */
    world_end(&s.w);
    CHECK(unlink(s.w.path) == 0);
    source_look(s.source);
    MODEL_AWAIT(s.m, s.m->up == 0 && s.m->doubts == 2);
    world_open(&s.w);
    world_products(&s.w, 5);
    scene_check(&s, 3);
    scene_end(&s);
}

static bg_store_answer look_up(struct scene *s, const char *key)
{
    bg_errinfo why;
    return source_ask(s->source, key, strlen(key), NULL, &why);
}

/* Connections that opened the write-ahead log before it was deleted continue to use the deleted
 * file. */
TEST(changes__notices_a_deleted_log)
{
    struct scene s;
    scene_begin(&s, false);
    CHECK_EQ(look_up(&s, "new"), BG_STORE_ABSENT); /* opens a connection */
    world_do(&s.w, "PRAGMA wal_checkpoint(TRUNCATE)");
    world_end(&s.w);
    delete_log(&s.w);
    world_open(&s.w);
    world_do(&s.w, "INSERT INTO products (sku) VALUES ('new')");
    CHECK_EQ(look_up(&s, "new"), BG_STORE_PRESENT);
    scene_check(&s, 2);
    scene_end(&s);
}

/* SQLite keeps a separate write-ahead log for each name of a file, so the follower cannot see
 * commits made under another name. */
TEST(changes__refuses_hard_links)
{
    struct scene s;
    char other[320];
    scene_begin(&s, false);
    (void)snprintf(other, sizeof other, "%s.other", s.w.path);
    usleep(20000); /* longer than the resolution of file timestamps */
    CHECK(link(s.w.path, other) == 0);
    CHECK_EQ(look_up(&s, "new"), BG_STORE_ERROR);
    source_look(s.source);
    MODEL_AWAIT(s.m, s.m->up == 0);
    CHECK(strstr(model_peek(s.m)->trouble, "hard links"));
    CHECK(unlink(other) == 0);
    scene_check(&s, 1);
    scene_end(&s);
}

/* Overwrites the file `to` with the bytes of `from`. `to` keeps its inode. */
static void overwrite(const char *from, const char *to)
{
    char bytes[4096];
    size_t n;
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    CHECK(in && out);
    while ((n = fread(bytes, 1, sizeof bytes, in)) > 0) {
        CHECK_EQ(fwrite(bytes, 1, n, out), n);
    }
    CHECK(fclose(in) == 0 && fclose(out) == 0);
}

/* After the insert, the restored file has the same change counter as the old file, so SQLite
 * considers its cache valid. */
TEST(changes__notices_an_overwritten_file)
{
    struct scene s;
    char backup[320];
    scene_begin(&s, true);
    (void)snprintf(backup, sizeof backup, "%s.backup", s.w.path);
    overwrite(s.w.path, backup);
    world_do(&s.w, "INSERT INTO products (sku) VALUES ('lost')");
    scene_check(&s, 1);
    CHECK_EQ(look_up(&s, "lost"), BG_STORE_PRESENT);
    world_end(&s.w);
    usleep(20000); /* longer than the resolution of file timestamps */
    overwrite(backup, s.w.path);
    world_open(&s.w);
    world_do(&s.w, "INSERT INTO products (sku) VALUES ('other')");
    CHECK_EQ(look_up(&s, "other"), BG_STORE_PRESENT);
    scene_check(&s, 2);
    CHECK(model_has(s.m, "other") && !model_has(s.m, "lost"));
    scene_end(&s);
}

/* ---- Resuming ------------------------------------------------------------------------------ */

static void resume(struct scene *s, uint64_t resumed, uint64_t restarts)
{
    char mark[SOURCE_MARK];
    memcpy(mark, model_peek(s->m)->mark, sizeof mark);
    scene_follow(s, mark);
    scene_check(s, restarts);
    CHECK_EQ(model_peek(s->m)->resumed, resumed);
}

TEST(changes__resumes_at_a_mark)
{
    struct scene s;
    scene_begin(&s, false);
    world_do(&s.w, "INSERT INTO products (sku) VALUES ('before')");
    scene_check(&s, 1);
    scene_stop(&s);
    resume(&s, 1, 1);
    scene_stop(&s);
    const uint64_t changes = model_peek(s.m)->changes;
    world_do(&s.w, "INSERT INTO products (sku) VALUES ('between 1'), ('between 2')");
    resume(&s, 2, 1);
    CHECK_EQ(model_peek(s.m)->changes, changes + 2);
    scene_end(&s);
}

/* Closing the application's last connection deletes the write-ahead log. If the follower opens the
 * file at that moment, it must wait for the lock. Otherwise, it would remember the deleted log and
 * report that the file was replaced. */
TEST(changes__resumes_while_an_application_deletes_its_log)
{
    struct scene s;
    char mark[SOURCE_MARK];
    scene_begin(&s, false);
    memcpy(mark, model_peek(s.m)->mark, sizeof mark);
    scene_stop(&s);
    world_do(&s.w, "PRAGMA locking_mode = EXCLUSIVE");
    world_do(&s.w, "INSERT INTO products (sku) VALUES ('between')");
    scene_follow(&s, mark);
    usleep(20000); /* the follower is most likely waiting for the lock */
    world_end(&s.w);
    world_open(&s.w);
    world_do(&s.w, "INSERT INTO products (sku) VALUES ('after')");
    for (int i = 0; i < 3; i++) {
        scene_check(&s, 1);
    }
    CHECK_EQ(model_peek(s.m)->resumed, 1);
    scene_end(&s);
}

TEST(changes__does_not_resume_after_a_change_of_history)
{
    static const char *const events[] = {
        "CREATE INDEX i ON products (name)",
        "DELETE FROM \"%s\"",
        "DELETE FROM \"%s\" WHERE key = 'between 1'",
        "DELETE FROM sqlite_sequence WHERE name = '%s'",
        "UPDATE \"%s\" SET token = token + 1",
        ("DROP TABLE products; CREATE TABLE products (sku TEXT);"
         " INSERT INTO products VALUES ('new')"),
    };
    for (size_t i = 0; i < sizeof events / sizeof *events; i++) {
        struct scene s;
        scene_begin(&s, false);
        scene_stop(&s);
        world_do(&s.w,
                 "INSERT INTO products (sku) VALUES ('between 1'), ('between 2')");
        on_changes(&s.w, events[i]);
        char mark[SOURCE_MARK];
        memcpy(mark, model_peek(s.m)->mark, sizeof mark);
        scene_follow(&s, mark);
        scene_check(&s, 2);
        scene_end(&s);
    }
}

TEST(changes__does_not_resume_with_another_copy)
{
    struct scene s;
    struct world copy;
    scene_begin(&s, true);
    copy_to(&s.w, &copy);
    world_do(&s.w, "INSERT INTO products (sku) VALUES ('lost 1'), ('lost 2')");
    scene_check(&s, 1);
    scene_stop(&s);
    world_do(&copy, "INSERT INTO products (sku) VALUES ('other 1'), ('other 2')");
    world_do(&copy, "PRAGMA schema_version = %lld",
             (long long)world_number(&s.w, "PRAGMA schema_version"));
    replace_file(&s.w, &copy);
    resume(&s, 0, 2);
    CHECK(model_has(s.m, "other 1"));
    scene_end(&s);
}

/* A dump was edited and loaded: the schema and the change rows are the same, but the keys
 * differ. */
TEST(changes__does_not_resume_with_an_edited_file)
{
    struct scene s;
    struct world copy;
    scene_begin(&s, true);
    scene_stop(&s);
    copy_to(&s.w, &copy);
    CHECK(sqlite3_db_config(copy.db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL)
          == SQLITE_OK);
    world_do(&copy, "UPDATE products SET sku = 'edited ' || sku");
    world_do(&copy, "PRAGMA schema_version = %lld",
             (long long)world_number(&s.w, "PRAGMA schema_version"));
    replace_file(&s.w, &copy);
    resume(&s, 0, 2);
    CHECK(model_has(s.m, "edited sku-0"));
    scene_end(&s);
}

TEST(changes__does_not_resume_with_other_keys_or_marks)
{
    static const char *const marks[] = {
        "changes",
        "changes 1 2 3",
        "changes 2 1 1 1 1 1 1",
        "changes 1 1 1 1 1 1 1",
        "changes 1 1 1 1 1 1 1 1",
        "lsn 0/16B374D8",
    };
    struct scene s;
    scene_begin(&s, false);
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        scene_stop(&s);
        scene_follow(&s, marks[i]);
        scene_check(&s, i + 2);
    }
    const uint64_t restarts = model_peek(s.m)->restarts;
    scene_stop(&s);
    s.settings.keys = "products(sku), products(name)";
    char mark[SOURCE_MARK];
    memcpy(mark, model_peek(s.m)->mark, sizeof mark);
    scene_follow(&s, mark);
    scene_check(&s, restarts + 1);
    world_do(&s.w, "INSERT INTO products (name) VALUES ('a name')");
    scene_check(&s, restarts + 1);
    CHECK(model_has(s.m, "a name"));
    /* Triggers on columns that are no longer keys are dropped. */
    scene_stop(&s);
    s.settings.keys = "products(name)";
    scene_follow(&s, NULL);
    model_settle(s.m, s.source);
    CHECK_EQ(world_number(&s.w, "SELECT count(*) FROM sqlite_master WHERE type ="
                                " 'trigger'"),
             2);
    scene_end(&s);
}

TEST(changes__starts_a_new_epoch_when_it_is_distrusted)
{
    struct scene s;
    scene_begin(&s, false);
    /* Only an audit can detect writes from a connection on which triggers are disabled. */
    CHECK(sqlite3_db_config(s.w.db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL)
          == SQLITE_OK);
    world_do(&s.w, "INSERT INTO products (sku) VALUES ('unrecorded')");
    CHECK_EQ(model_missing(s.m, s.source, &s.w, ALL), 1);
    source_distrust(s.source, "an audit found a key");
    MODEL_AWAIT(s.m, s.m->restarts == 2);
    CHECK_STR(model_peek(s.m)->why, "an audit found a key");
    scene_check(&s, 2);
    scene_end(&s);
}

/* The file of a distrusted filter may still exist, because the service failed to delete the file or
 * a crash undid the deletion. */
TEST(changes__does_not_resume_a_distrusted_filter)
{
    struct scene s;
    char mark[SOURCE_MARK];
    scene_begin(&s, false);
    memcpy(mark, model_peek(s.m)->mark, sizeof mark);
    source_distrust(s.source, "an audit found a key");
    MODEL_AWAIT(s.m, s.m->restarts == 2);
    scene_check(&s, 2);
    scene_stop(&s);
    scene_follow(&s, mark);
    scene_check(&s, 3);
    CHECK_EQ(model_peek(s.m)->resumed, 0);
    scene_end(&s);
}

/* ---- Reading ------------------------------------------------------------------------------- */

TEST(changes__a_read_must_belong_to_the_epoch)
{
    struct scene s;
    struct source_keys *keys;
    bg_bytes batch[8];
    size_t n;
    bg_errinfo why;
    scene_begin(&s, false);
    CHECK_OK(source_keys_open(s.source, &keys, NULL));
    CHECK_OK(source_keys_next(keys, batch, 8, &n, NULL));
    CHECK_EQ(n, 8);
    each_trigger(&s.w, "DROP TRIGGER \"%s\"");
    source_look(s.source);
    MODEL_AWAIT(s.m, s.m->restarts == 2);
    bg_err err;
    do {
        err = source_keys_next(keys, batch, 8, &n, &why);
    } while (!err && n);
    CHECK_EQ(err, BG_EINCOMPAT);
    CHECK_OK(source_keys_rewind(keys, NULL));
    do {
        err = source_keys_next(keys, batch, 8, &n, &why);
    } while (!err && n);
    CHECK_OK(err);
    /* The reader detects the change before the follower does. */
    world_do(&s.w, "DELETE FROM \"%s\"", changes_of(&s.w));
    CHECK_OK(source_keys_rewind(keys, NULL));
    CHECK_EQ(source_keys_next(keys, batch, 8, &n, &why), BG_EINCOMPAT);
    CHECK(strstr(why.message, "token"));
    source_keys_close(keys);
    scene_stop(&s);
    /* Keys cannot be read until the follower has started. */
    CHECK_OK(source_create(&s.settings, &s.source, NULL));
    CHECK_OK(source_keys_open(s.source, &keys, NULL));
    CHECK_EQ(source_keys_next(keys, batch, 8, &n, &why), BG_EINCOMPAT);
    source_keys_close(keys);
    scene_end(&s);
}

/* ---- Installing ---------------------------------------------------------------------------- */

TEST(changes__two_services_do_not_disturb_each_other)
{
    struct scene s;
    struct source *source;
    struct model *m = model_create();
    scene_begin(&s, false);
    struct source_settings settings = s.settings;
    settings.instance = "89abcdef";
    CHECK_OK(source_create(&settings, &source, NULL));
    model_follow(m, source, NULL);
    CHECK_EQ(model_missing(m, source, &s.w, ALL), 0);
    scene_check(&s, 2); /* the second source changed the schema */
    world_do(&s.w, "INSERT INTO products (sku) VALUES ('for both')");
    scene_check(&s, 2);
    CHECK_EQ(model_missing(m, source, &s.w, ALL), 0);
    CHECK_EQ(model_peek(m)->restarts, 1);
    CHECK_EQ(world_number(&s.w, "SELECT count(*) FROM sqlite_master WHERE type ="
                                " 'trigger'"),
             4);
    source_free(source);
    model_free(m);
    scene_end(&s);
}

TEST(changes__without_install_it_writes_a_script)
{
    struct world w;
    struct model *m = model_create();
    struct source *source;
    char script[300], sql[8192];
    world_begin(&w, false);
    world_products(&w, 3);
    (void)snprintf(script, sizeof script, "%s/install.sql", w.folder);
    struct source_settings settings = world_settings(&w);
    settings.install = false;
    settings.script = script;
    FILE *old = fopen(script, "w+");
    CHECK(old && fputs("old", old) >= 0 && fflush(old) == 0);
    CHECK_OK(source_create(&settings, &source, NULL));
    model_follow(m, source, NULL);
    MODEL_AWAIT(m, m->up == 0);
    CHECK(strstr(model_peek(m)->trouble, "install.sql"));
    CHECK_EQ(world_number(&w, "SELECT count(*) FROM sqlite_master WHERE name GLOB"
                              " 'bloomgate*'"),
             0);
    rewind(old); /* a reader of the previous script is not affected */
    CHECK(fgets(sql, sizeof sql, old) && fclose(old) == 0);
    CHECK_STR(sql, "old");
    FILE *file = fopen(script, "r");
    CHECK(file);
    const size_t n = fread(sql, 1, sizeof sql - 1, file);
    CHECK(n > 0 && fclose(file) == 0);
    sql[n] = 0;
    world_do_on(w.db, sql);
    CHECK(chmod(w.path, 0444) == 0);
    MODEL_AWAIT(m, m->up == 1);
    world_do(&w, "INSERT INTO products (sku) VALUES ('new')");
    CHECK_EQ(model_missing(m, source, &w, ALL), 0);
    CHECK_EQ(model_peek(m)->restarts, 1);
    source_free(source);
    model_free(m);
    world_end(&w);
}

/* ---- Concurrency --------------------------------------------------------------------------- */

TEST(changes__waits_for_a_writer_that_holds_the_lock)
{
    struct scene s;
    scene_begin(&s, true);
    scene_stop(&s);
    s.settings.timeout_ms = 20;
    s.settings.poll_ms = 2;
    scene_follow(&s, NULL);
    model_settle(s.m, s.source);
    world_do(&s.w, "BEGIN EXCLUSIVE");
    world_do(&s.w, "INSERT INTO products (sku) VALUES ('x')");
    MODEL_AWAIT(s.m, s.m->up == 0);
    CHECK(strstr(model_peek(s.m)->trouble, "locked"));
    world_do(&s.w, "COMMIT");
    scene_check(&s, 2);
    CHECK(model_has(s.m, "x"));
    scene_end(&s);
}

enum { WRITERS = 3, ROWS = 100 };

/* In a child process, runs transactions that insert several rows each and rolls some of them back. */
static void write_many(const char *path, int writer, int transactions, int go)
{
    sqlite3 *db;
    char byte, sql[256];
    if (read(go, &byte, 1) < 0 || sqlite3_open(path, &db) != SQLITE_OK) {
        _exit(1);
    }
    (void)sqlite3_busy_timeout(db, 60000);
    bool failed = sqlite3_exec(db, "PRAGMA synchronous = OFF", NULL, NULL, NULL);
    for (int i = 0; i < transactions && !failed; i++) {
        (void)snprintf(sql, sizeof sql,
                       "BEGIN IMMEDIATE; WITH RECURSIVE c(i) AS (SELECT 0 UNION ALL"
                       " SELECT i + 1 FROM c WHERE i < %d) INSERT INTO products (sku)"
                       " SELECT '%d-%d-' || i FROM c; %s",
                       ROWS - 1, writer, i, i % 10 == 9 ? "ROLLBACK" : "COMMIT");
        failed = sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK;
    }
    (void)sqlite3_close(db);
    _exit(failed);
}

static void write_concurrently(bool plain, int transactions)
{
    struct scene s;
    int go[2];
    pid_t writers[WRITERS];
    memset(&s, 0, sizeof s);
    world_begin(&s.w, plain);
    world_products(&s.w, 20);
    world_end(&s.w); /* SQLite must not be in use during fork */
    CHECK(pipe(go) == 0);
    for (int i = 0; i < WRITERS; i++) {
        writers[i] = fork();
        CHECK(writers[i] >= 0);
        if (writers[i] == 0) {
            (void)close(go[1]);
            write_many(s.w.path, i, transactions, go[0]);
        }
    }
    (void)close(go[0]);
    world_open(&s.w);
    s.settings = world_settings(&s.w);
    s.settings.poll_ms = 1;
    s.m = model_create();
    scene_follow(&s, NULL);
    MODEL_AWAIT(s.m, s.m->restarts == 1);
    (void)close(go[1]); /* go */
    for (int i = 0; i < 10; i++) {
        CHECK_EQ(model_missing(s.m, s.source, &s.w, "SELECT sku FROM products LIMIT 0"),
                 0);
        source_saved(s.source, model_peek(s.m)->mark, model_peek(s.m)->last.epoch);
        source_distrust(s.source, "the test requires another read");
    }
    for (int i = 0; i < WRITERS; i++) {
        int status = -1;
        CHECK(waitpid(writers[i], &status, 0) == writers[i]);
        CHECK_EQ(status, 0);
    }
    CHECK_EQ(model_missing(s.m, s.source, &s.w, ALL), 0);
    CHECK_EQ(world_number(&s.w, "SELECT count(*) FROM products"),
             20 + WRITERS * ROWS * transactions / 10 * 9);
    CHECK(model_peek(s.m)->up == 1);
    scene_end(&s);
}

/* A listener that writes more rows than a batch can hold whenever it receives keys, up to CHASES
 * times, so the follower never reaches the end of the change table before that. */
enum { CHASES = 50 };

struct chaser {
    sqlite3 *db;
    _Atomic unsigned writes, proofs,
        first; /* `first`: number of writes at the first proof */
};

static void chaser_restart(void *context, const char *why)
{
    (void)context;
    (void)why;
}

static void chaser_resumed(void *context)
{
    (void)context;
}

static void chaser_write(struct chaser *c)
{
    char sql[256];
    (void)snprintf(
        sql, sizeof sql,
        "WITH RECURSIVE c(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM c"
        " WHERE i < 1099) INSERT INTO products (sku) SELECT '%u-' || i FROM c",
        atomic_fetch_add(&c->writes, 1));
    world_do_on(c->db, sql);
}

static void chaser_changed(void *context, const bg_bytes *keys, size_t n)
{
    struct chaser *c = context;
    (void)keys;
    (void)n;
    if (atomic_load(&c->writes) < CHASES) {
        chaser_write(c);
    }
}

static void chaser_caught_up(void *context, const struct source_proof *proof)
{
    struct chaser *c = context;
    (void)proof;
    if (atomic_load(&c->writes) > 0 && atomic_fetch_add(&c->proofs, 1) == 0) {
        atomic_store(&c->first, atomic_load(&c->writes));
    }
}

static void chaser_state(void *context, bool up, const char *why)
{
    (void)context;
    (void)up;
    (void)why;
}

/* The proof must advance even if the database always changes faster than the follower reads. */
TEST(changes__proves_progress_while_writers_are_faster)
{
    struct chaser chaser = { .db = NULL };
    const struct source_listener listener = { .context = &chaser,
                                              .restart = chaser_restart,
                                              .doubt = chaser_restart,
                                              .resumed = chaser_resumed,
                                              .changed = chaser_changed,
                                              .caught_up = chaser_caught_up,
                                              .state = chaser_state };
    struct scene s;
    scene_begin(&s, false);
    scene_stop(&s);
    CHECK(sqlite3_open(s.w.path, &chaser.db) == SQLITE_OK);
    (void)sqlite3_busy_timeout(chaser.db, 60000);
    s.settings.poll_ms = 1;
    bg_errinfo why;
    CHECK_OK(source_create(&s.settings, &s.source, &why));
    const char *mark = model_peek(s.m)->mark;
    chaser_write(&chaser);
    CHECK_OK(source_follow(s.source, &listener, mark, &why));
    for (int i = 0; i < 300000 && atomic_load(&chaser.proofs) == 0; i++) {
        (void)usleep(1000);
    }
    CHECK(atomic_load(&chaser.proofs) > 0);
    CHECK(atomic_load(&chaser.first) < CHASES);
    scene_stop(&s);
    (void)sqlite3_close(chaser.db);
    scene_end(&s);
}

TEST(changes__keeps_up_with_concurrent_processes)
{
    write_concurrently(false, 350); /* 94,500 changes */
}

TEST(changes__keeps_up_with_concurrent_processes_and_a_rollback_journal)
{
    write_concurrently(true, 50);
}
