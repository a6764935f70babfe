/* test_source_sqlite.c - tests SQLite as a source: settings, lookups, and reading all keys. */
#define _GNU_SOURCE /* mkdtemp, usleep */

#include "server/support/source_world.h"

#include "source/driver.h"
#include "source/key_batch.h"

#include <pthread.h>

/* Looks up a key, and copies the value in the first column to `text`. */
static bg_store_answer ask(struct source *source, const char *key, char text[64])
{
    struct store_row row = STORE_ROW_INIT;
    bg_errinfo why;
    const bg_store_answer answer = source_ask(source, key, strlen(key), &row, &why);
    world_first(&row, text);
    store_row_free(&row);
    return answer;
}

static struct source *make(const struct source_settings *settings)
{
    struct source *source = NULL;
    bg_errinfo why;
    if (source_create(settings, &source, &why)) {
        check_fail(__FILE__, __LINE__, "%s", why.message);
    }
    return source;
}

/* ---- Names of objects ---------------------------------------------------------------------- */

TEST(source__names_of_objects_are_valid_and_differ)
{
    static const char first[] = "abyzABYZ0189-_.";
    enum { NAMES = sizeof first - 1 };
    char *objects[2 * NAMES];
    for (size_t i = 0; i < 2 * NAMES;
         i++) { /* names that differ only in the last character */
        char name[41];
        (void)snprintf(name, sizeof name, "%s%c",
                       i < NAMES ? "n" : "123456789012345678901234567890123456789",
                       first[i % NAMES]);
        const struct source source = { .how = { .name = name,
                                                .instance = "01234567" } };
        objects[i] = source_object(&source, "123456789012");
        CHECK(strlen(objects[i]) <= 63);
        CHECK_EQ(strspn(objects[i], "abcdefghijklmnopqrstuvwxyz0123456789_"),
                 strlen(objects[i]));
        for (size_t j = 0; j < i; j++) {
            CHECK(strcmp(objects[i], objects[j]) != 0);
        }
    }
    for (size_t i = 0; i < 2 * NAMES; i++) {
        free(objects[i]);
    }
}

/* ---- Settings ------------------------------------------------------------------------------ */

TEST(source__settings_that_make_no_source)
{
    static const struct {
        const char *url, *keys, *follow, *promise, *what;
    } bad[] = {
        { "", "t(k)", "changes", "", "source" },
        { "mysql://x", "t(k)", "changes", "", "source" },
        { "sqlite:", "t(k)", "changes", "", "source" },
        { "sqlite://host/path", "t(k)", "changes", "", "source" },
        { "sqlite::memory:", "t(k)", "changes", "", "source" },
        { "sqlite:a.db", "", "changes", "", "keys" },
        { "sqlite:a.db", "SELECT k FROM t", "changes", "", "keys" },
        { "sqlite:a.db", "t", "changes", "", "keys" },
        { "sqlite:a.db", "t(k)", "", "", "follow" },
        { "sqlite:a.db", "t(k)", "rowid", "", "follow" },
        { "sqlite:a.db", "t(k)", "logical", "", "follow" },
        { "sqlite:a.db", "t(k)", "none", "", "promise" },
        { "sqlite:a.db", "t(k)", "none", "nothing", "promise" },
        { "sqlite:a.db", "t(k)", "changes", "read-only", "promise" },
        { "postgres://h/d?nonsense=1", "t(k)", "changes", "", "source" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct source_settings settings = { .name = "x",
                                            .url = bad[i].url,
                                            .keys = bad[i].keys,
                                            .follow = bad[i].follow,
                                            .promise = bad[i].promise };
        struct source *source;
        bg_errinfo why;
        CHECK_EQ(source_create(&settings, &source, &why), BG_EINVAL);
        CHECK(source == NULL);
        CHECK_STR(why.what, bad[i].what);
    }
}

TEST(source__urls_are_shown_without_passwords)
{
    char text[128];
    source_show_url("postgres://me:secret@host/db", text, sizeof text);
    CHECK_STR(text, "postgres://me:***@host/db");
    source_show_url("postgres://me@host:5432/db", text, sizeof text);
    CHECK_STR(text, "postgres://me@host:5432/db");
    source_show_url("postgres://host/db?sslpassword=secret&password=secret", text,
                    sizeof text);
    CHECK(!strstr(text, "secret"));
    source_show_url("postgres://host/db?password=secret&user=me", text, sizeof text);
    CHECK_STR(text, "postgres://host/db?password=******&user=me");
    source_show_url("sqlite:///a/b.db", text, sizeof text);
    CHECK_STR(text, "sqlite:///a/b.db");
}

/* Verifies that source_check_lookup refuses the keys with the expected message. */
static void expect_refusal(struct world *w, const char *follow, const char *keys,
                           const char *lookup, const char *about)
{
    struct source_settings settings = world_settings(w);
    settings.keys = keys;
    settings.lookup = lookup;
    settings.follow = follow;
    settings.promise = strcmp(follow, "none") == 0 ? "read-only" : "";
    struct source *source = make(&settings);
    bg_errinfo why = { .code = BG_OK };
    CHECK(source_check_lookup(source, &why) != BG_OK);
    if (!strstr(why.message, about)) {
        check_fail(__FILE__, __LINE__, "%s: %s", keys, why.message);
    }
    source_free(source);
}

TEST(source__check_refuses_what_cannot_be_keys)
{
    static const struct {
        const char *keys, *lookup, *about;
    } bad[] = {
        { "missing(k)", NULL, "no such table" },
        { "missing(k)", "SELECT 1 WHERE ?", "no such table" },
        { "t(missing)", "SELECT 1 WHERE ?", "no such column" },
        { "t(rowid)", "SELECT 1 WHERE ?", "no such column" },
        { "v(k)", "SELECT 1 WHERE ?", "a view" },
        { "f(k)", "SELECT 1 WHERE ?", "a virtual table" },
        { "temp.t(k)", "SELECT 1 WHERE ?", "a different schema" },
        { "t(made)", NULL, "a virtual generated column" },
        { "t(loose)", NULL, "collation NOCASE" },
        { "t(real)", NULL, "floating-point" },
        { "t(k), t(number)", NULL, "type differs" },
        { "t(k)", "SELECT 1", "has 0 parameters" },
        { "t(k)", "SELECT ? + ?", "has 2 parameters" },
        { "t(k)", "DELETE FROM t WHERE k = ?", "without a result" },
        { "t(k)", "DELETE FROM t WHERE k = ? RETURNING 1", "writes" },
        { "t(k)", "SELECT ?; SELECT 2", "several statements" },
        { "t(k)", "SELECT no FROM t WHERE k = ?", "no such column" },
    };
    struct world w;
    world_begin(&w, false);
    world_do(&w, "CREATE TABLE t (k TEXT, number INT, real REAL, loose TEXT COLLATE"
                 " NOCASE, made TEXT AS (k || 'x'), stored TEXT AS (k || 'x') STORED)");
    world_do(&w, "CREATE VIEW v AS SELECT k FROM t");
    world_do(&w, "CREATE VIRTUAL TABLE f USING fts5(k)");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        expect_refusal(&w, "none", bad[i].keys, bad[i].lookup, bad[i].about);
        expect_refusal(&w, "changes", bad[i].keys, bad[i].lookup, bad[i].about);
    }
    struct source_settings settings = world_settings(&w);
    settings.keys = "T(K), main.t(\"stored\")";
    settings.lookup = NULL;
    struct source *source = make(&settings);
    CHECK_EQ((int)source_form(source), KEY_FORM_UNKNOWN);
    CHECK_OK(source_check_lookup(source, NULL));
    CHECK_EQ((int)source_form(source), KEY_FORM_BYTES);
    source_free(source);
    world_end(&w);
}

/* ---- Lookups ------------------------------------------------------------------------------- */

TEST(source__asks)
{
    struct world w;
    char text[64];
    world_begin(&w, false);
    world_products(&w, 100);
    world_do(
        &w, "INSERT INTO products (sku, name) VALUES ('no name', NULL), ('', 'empty')");
    struct source_settings settings = world_settings(&w);
    struct source *source = make(&settings);
    CHECK_EQ(ask(source, "sku-7", text), BG_STORE_PRESENT);
    CHECK_STR(text, "name 7");
    CHECK_EQ(ask(source, "sku-100", text), BG_STORE_ABSENT);
    CHECK_EQ(ask(source, "", text), BG_STORE_PRESENT);
    CHECK_STR(text, "empty");
    CHECK_EQ(source_ask(source, "sku-7\0", 6, NULL, NULL), BG_STORE_ABSENT);
    CHECK_EQ(source_ask(source, NULL, 0, NULL, NULL), BG_STORE_PRESENT);
    source_free(source);
    world_end(&w);
}

/* Writes the columns of a row as name=value. */
static const char *show_row(const struct store_row *row, char text[256])
{
    struct store_column column;
    size_t used = 0;
    text[0] = 0;
    for (size_t at = 0; store_row_next(row, &at, &column);) {
        used += (size_t)snprintf(
            text + used, 256 - used, "%.*s=%.*s;", (int)column.name.len,
            (const char *)column.name.data, column.is_null ? 4 : (int)column.value.len,
            column.is_null ? "NULL" : (const char *)column.value.data);
    }
    return text;
}

TEST(source__returns_rows)
{
    struct world w;
    struct store_row row = STORE_ROW_INIT, copy = STORE_ROW_INIT;
    char text[256];
    bg_errinfo why;
    world_begin(&w, false);
    world_do(&w,
             "CREATE TABLE things (k TEXT, i INTEGER, r REAL, b BLOB, e BLOB, t TEXT)");
    world_do(&w, "INSERT INTO things VALUES ('a', -7, 1.5, x'410042', x'', NULL)");
    world_do(&w, "INSERT INTO things VALUES ('two', 1, 2, x'', x'', 'first'), "
                 "('two', 2, 2, x'', x'', 'second')");
    world_do(&w, "INSERT INTO things (k, b) VALUES ('big', zeroblob(1048577))");
    struct source_settings settings = world_settings(&w);
    settings.keys = "things(k)";
    settings.lookup = NULL;
    settings.rows = true;
    struct source *source = make(&settings);
    CHECK_EQ(source_ask(source, "a", 1, &row, &why), BG_STORE_PRESENT);
    CHECK_OK(store_row_check(&row, &why));
    CHECK_EQ(row.columns, 6);
    store_row_copy(&copy, &row);
    size_t at = 0;
    struct store_column column;
    for (size_t i = 0; i < 4; i++) {
        CHECK(store_row_next(&copy, &at, &column));
    }
    CHECK(column.value.len == 3 && memcmp(column.value.data, "A\0B", 3) == 0);
    CHECK_EQ(source_ask(source, "two", 3, &row, &why), BG_STORE_PRESENT);
    CHECK_STR(show_row(&row, text), "k=two;i=1;r=2.0;b=;e=;t=first;");
    CHECK_EQ(source_ask(source, "big", 3, &row, &why), BG_STORE_PRESENT);
    CHECK_EQ(store_row_check(&row, &why), BG_EQUOTA);
    CHECK_EQ(source_ask(source, "none", 4, &row, &why), BG_STORE_ABSENT);
    CHECK(!row.found && row.columns == 0 && store_row_check(&row, &why) == BG_OK);
    source_free(source);
    settings.lookup = "SELECT t, t AS t, 5 FROM things WHERE k = ? ORDER BY i DESC";
    source = make(&settings);
    CHECK_EQ(source_ask(source, "two", 3, &row, &why), BG_STORE_PRESENT);
    CHECK_STR(show_row(&row, text), "t=second;t=second;5=5;");
    source_free(source);
    settings.lookup = NULL;
    settings.keys = "things(k), things(t)";
    CHECK_EQ(source_create(&settings, &source, &why), BG_EINVAL);
    CHECK(strstr(why.message, "requires `lookup`") != NULL);
    store_row_free(&row);
    store_row_free(&copy);
    world_end(&w);
}

TEST(source__finds_keys_of_every_type)
{
    static const struct {
        const char *keys;
        uint32_t as;
        bg_bytes key;
        bg_store_answer truth;
    } asked[] = {
        { "t(k)", 0, { "text", 4 }, BG_STORE_PRESENT },
        { "t(k)", 0, { "blob", 4 }, BG_STORE_PRESENT },
        { "t(k)", 0, { "5", 1 }, BG_STORE_PRESENT },
        { "t(k)", 0, { "1.5", 3 }, BG_STORE_PRESENT },
        { "t(k)", 0, { "7", 1 }, BG_STORE_PRESENT }, /* as text */
        { "t(k)", 0, { "8", 1 }, BG_STORE_PRESENT }, /* as a blob */
        { "t(k)", 0, { "1e", 2 }, BG_STORE_ABSENT },
        { "t(k)", 0, { "9", 1 }, BG_STORE_ABSENT },
        { "t(k)", SOURCE_KEY_TEXT, { "blob", 4 }, BG_STORE_ABSENT },
        { "t(k)", SOURCE_KEY_BLOB, { "blob", 4 }, BG_STORE_PRESENT },
        { "t(k)", SOURCE_KEY_BLOB, { "text", 4 }, BG_STORE_ABSENT },
        { "t(k)", SOURCE_KEY_INTEGER, { "5", 1 }, BG_STORE_PRESENT },
        { "t(k)", SOURCE_KEY_INTEGER, { "x", 1 }, BG_STORE_ABSENT },
        { "t(k)", SOURCE_KEY_INTEGER, { "05", 2 }, BG_STORE_ABSENT },
        { "t(i)", 0, { "42", 2 }, BG_STORE_PRESENT },
        { "t(i)", 0, { "042", 3 }, BG_STORE_PRESENT }, /* SQLite converts it */
        { "t(i)", 0, { "-7", 2 }, BG_STORE_PRESENT },
        { "t(i)", 0, { "9223372036854775807", 19 }, BG_STORE_PRESENT },
        { "t(i)", 0, { "92233720368547758070", 20 }, BG_STORE_ABSENT },
        { "t(i)", 0, { "nonsense", 8 }, BG_STORE_ABSENT },
        { "t(s)", 0, { "1.5", 3 }, BG_STORE_PRESENT },
        { "t(s)", 0, { "1.50", 4 }, BG_STORE_ABSENT }, /* a different text */
        { "t(s)", 0, { "a\0b", 3 }, BG_STORE_PRESENT },
        { "t(s)", 0, { "a", 1 }, BG_STORE_ABSENT },
        { "t(b)", 0, { "\0\377", 2 }, BG_STORE_PRESENT },
        { "t(b)", 0, { "as text", 7 }, BG_STORE_PRESENT },
    };
    struct world w;
    world_begin(&w, false);
    world_do(&w, "CREATE TABLE t (k, i INT, b BLOB, s TEXT)");
    world_do(&w, "INSERT INTO t VALUES ('text', 42, x'00ff', '1.5'),"
                 " (x'626c6f62', -7, 'as text', CAST(x'610062' AS TEXT)),"
                 " (5, 9223372036854775807, NULL, NULL), (1.5, NULL, NULL, NULL),"
                 " ('7', NULL, NULL, NULL), (x'38', NULL, NULL, NULL)");
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        struct source_settings settings = world_settings(&w);
        settings.keys = asked[i].keys;
        settings.lookup = NULL;
        settings.key = asked[i].as;
        struct source *source = make(&settings);
        const bg_store_answer answer =
            source_ask(source, asked[i].key.data, asked[i].key.len, NULL, NULL);
        if (answer != asked[i].truth) {
            check_fail(__FILE__, __LINE__, "case %zu: %d", i, (int)answer);
        }
        source_free(source);
    }
    world_end(&w);
}

/* If a column cannot be a key, source_check_lookup reports an error, but lookups still find the column's
 * values. */
TEST(source__finds_keys_in_refused_columns)
{
    struct world w;
    char text[64];
    world_begin(&w, false);
    world_do(&w, "CREATE TABLE t (k, s TEXT)");
    world_do(&w, "INSERT INTO t VALUES (42, '7')");
    struct source_settings settings = world_settings(&w);
    settings.keys = "t(s), t(k)";
    settings.lookup = NULL;
    struct source *source = make(&settings);
    CHECK_EQ(source_check_lookup(source, NULL), BG_EINVAL);
    CHECK_EQ(ask(source, "42", text), BG_STORE_PRESENT);
    CHECK_EQ(ask(source, "43", text), BG_STORE_ABSENT);
    source_free(source);
    world_end(&w);
}

/* SQLite may recompile a statement that contains a pattern search each time a new key is bound. The
 * source must not mistake this for a schema change. */
TEST(source__looks_up_patterns)
{
    struct world w;
    char text[64];
    world_begin(&w, false);
    world_products(&w, 20);
    struct source_settings settings = world_settings(&w);
    settings.lookup = "SELECT name FROM products WHERE sku GLOB ?";
    struct source *source = make(&settings);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(ask(source, "none", text), BG_STORE_ABSENT);
        CHECK_EQ(ask(source, "sku-7", text), BG_STORE_PRESENT);
    }
    source_free(source);
    world_end(&w);
}

/* Without a follower, later lookups reuse the first lookup's connection. */
TEST(source__lookups_follow_the_schema)
{
    struct world w;
    char text[64];
    world_begin(&w, false);
    world_do(&w, "CREATE TABLE t (k TEXT)");
    world_do(&w, "INSERT INTO t VALUES ('7')");
    struct source_settings settings = world_settings(&w);
    settings.keys = "t(k)";
    settings.lookup = NULL;
    struct source *source = make(&settings);
    CHECK_EQ(ask(source, "7", text), BG_STORE_PRESENT);
    world_do(&w, "BEGIN; DROP TABLE t; CREATE TABLE t (k);"
                 " INSERT INTO t VALUES (42); COMMIT");
    CHECK_EQ(ask(source, "42", text), BG_STORE_PRESENT);
    CHECK_EQ(ask(source, "7", text), BG_STORE_ABSENT);
    world_do(&w, "ALTER TABLE t RENAME COLUMN k TO id");
    CHECK_EQ(ask(source, "42", text), BG_STORE_ERROR); /* "k" is not a string */
    source_free(source);
    source = make(&settings);
    CHECK_EQ(ask(source, "42", text), BG_STORE_ERROR);
    source_free(source);
    world_end(&w);
}

struct asker {
    struct source *source;
    unsigned first;
    unsigned wrong;
    pthread_t thread;
};

static void *ask_many(void *context)
{
    struct asker *asker = context;
    char key[32], text[64];
    for (unsigned i = asker->first; i < asker->first + 400; i++) {
        (void)snprintf(key, sizeof key, "sku-%u", i % 1000);
        const bg_store_answer answer = ask(asker->source, key, text);
        asker->wrong += answer != (i % 1000 < 500 ? BG_STORE_PRESENT : BG_STORE_ABSENT);
    }
    return NULL;
}

TEST(source__many_threads_share_few_connections)
{
    enum { THREADS = 6 };
    struct world w;
    struct asker askers[THREADS];
    world_begin(&w, false);
    world_products(&w, 500);
    struct source_settings settings = world_settings(&w);
    settings.connections = 2;
    struct source *source = make(&settings);
    for (unsigned i = 0; i < THREADS; i++) {
        askers[i] = (struct asker){ .source = source, .first = i * 150 };
        CHECK(pthread_create(&askers[i].thread, NULL, ask_many, &askers[i]) == 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        (void)pthread_join(askers[i].thread, NULL);
        CHECK_EQ(askers[i].wrong, 0);
    }
    source_free(source);
    world_end(&w);
}

TEST(source__a_lookup_that_takes_too_long_fails)
{
    struct world w;
    bg_errinfo why;
    world_begin(&w, false);
    world_products(&w, 1);
    struct source_settings settings = world_settings(&w);
    settings.lookup = "WITH RECURSIVE c(i) AS (SELECT ? UNION ALL SELECT i + 1 FROM c)"
                      " SELECT max(i) FROM c";
    settings.timeout_ms = 50;
    struct source *source = make(&settings);
    CHECK_EQ(source_ask(source, "1", 1, NULL, &why), BG_STORE_ERROR);
    CHECK(strstr(why.message, "timeout of 50 ms"));
    source_free(source);
    world_end(&w);
}

TEST(source__a_locked_database_fails_and_comes_back)
{
    struct world w;
    char text[64];
    bg_errinfo why;
    world_begin(&w, true);
    world_products(&w, 1);
    struct source_settings settings = world_settings(&w);
    settings.timeout_ms = 50;
    for (int pooled = 0; pooled < 2; pooled++) {
        struct source *source = make(&settings);
        if (pooled) {
            CHECK_EQ(ask(source, "sku-0", text), BG_STORE_PRESENT);
        }
        world_do(&w, "BEGIN EXCLUSIVE");
        CHECK_EQ(source_ask(source, "sku-0", 5, NULL, &why), BG_STORE_ERROR);
        CHECK(strstr(why.message, "locked"));
        world_do(&w, "COMMIT");
        CHECK_EQ(ask(source, "sku-0", text), BG_STORE_PRESENT);
        source_free(source);
    }
    world_end(&w);
}

TEST(source__a_file_that_is_not_there_may_come)
{
    struct world w, other;
    char text[64];
    bg_errinfo why = { .code = BG_OK };
    uint64_t count;
    struct source_keys *keys;
    bg_bytes batch;
    size_t n;
    world_begin(&w, false);
    world_begin(&other, false);
    world_products(&w, 3);
    (void)sqlite3_close(w.db);
    w.db = NULL;
    char moved[512];
    (void)snprintf(moved, sizeof moved, "%s/moved.db", w.folder);
    CHECK(rename(w.path, moved) == 0);
    struct source_settings settings = world_settings(&w);
    settings.follow = "none";
    settings.promise = "read-only";
    struct source *source = make(&settings);
    CHECK_EQ(source_ask(source, "sku-0", 5, NULL, &why), BG_STORE_ERROR);
    CHECK(strstr(why.message, "no file"));
    CHECK_EQ(source_count(source, &count, &why), BG_EIO);
    CHECK_OK(source_keys_open(source, &keys, &why));
    CHECK_EQ(source_keys_next(keys, &batch, 1, &n, &why), BG_EIO);
    source_keys_close(keys);
    CHECK(rename(moved, w.path) == 0);
    while (ask(source, "sku-0", text) != BG_STORE_PRESENT) {
        usleep(1000); /* after a failure, the pool pauses for a tenth of a second */
    }
    /* The file can also be replaced by another file. */
    world_products(&other, 1);
    world_do(&other, "UPDATE products SET name = 'new'");
    world_do(&other, "PRAGMA wal_checkpoint(TRUNCATE)");
    CHECK(rename(other.path, w.path) == 0);
    CHECK_EQ(ask(source, "sku-0", text), BG_STORE_PRESENT);
    CHECK_STR(text, "new");
    CHECK_EQ(ask(source, "sku-1", text), BG_STORE_ABSENT);
    source_free(source);
    world_end(&w);
    world_end(&other);
}

/* ---- All keys ------------------------------------------------------------------------------ */

static size_t read_all(struct source_keys *keys, size_t room, char *last,
                       size_t last_room)
{
    bg_bytes batch[2048];
    size_t n = 0, all = 0;
    bg_errinfo why;
    do {
        const bg_err err = source_keys_next(keys, batch, room, &n, &why);
        if (err) {
            check_fail(__FILE__, __LINE__, "%s", why.message);
        }
        all += n;
        if (n) {
            (void)snprintf(last, last_room, "%.*s", (int)batch[n - 1].len,
                           (const char *)batch[n - 1].data);
        }
    } while (n);
    return all;
}

/* Returns settings for a source that is declared read-only and therefore not followed. */
static struct source_settings read_only(const struct world *w)
{
    struct source_settings settings = world_settings(w);
    settings.follow = "none";
    settings.promise = "read-only";
    return settings;
}

TEST(source__reads_all_keys_of_one_snapshot)
{
    struct world w;
    struct source_keys *keys;
    bg_bytes first[10];
    size_t n;
    uint64_t count = 0;
    char last[64];
    world_begin(&w, false);
    world_products(&w, 5000);
    world_do(&w, "INSERT INTO products (sku) VALUES (NULL)");
    world_do(&w, "CREATE TABLE \"the \"\"table\" (\"the key\" TEXT)");
    world_do(&w, "INSERT INTO \"the \"\"table\" VALUES ('other')");
    struct source_settings settings = read_only(&w);
    settings.keys = "products(sku), \"the \"\"table\"(\"the key\")";
    struct source *source = make(&settings);
    CHECK_OK(source_count(source, &count, NULL));
    CHECK_EQ(count, 5001);
    CHECK_OK(source_keys_open(source, &keys, NULL));
    CHECK_OK(source_keys_next(keys, first, 10, &n, NULL));
    CHECK_EQ(n, 10);
    world_do(&w, "INSERT INTO \"the \"\"table\" VALUES ('late')");
    CHECK_EQ(read_all(keys, 1024, last, sizeof last), 4991);
    CHECK_STR(last, "other");
    CHECK_EQ(read_all(keys, 1024, last, sizeof last), 0);
    CHECK_OK(source_keys_rewind(keys, NULL));
    CHECK_EQ(read_all(keys, 2048, last, sizeof last), 5002);
    CHECK_STR(last, "late");
    CHECK_EQ((int)source_form(source), KEY_FORM_BYTES);
    source_keys_close(keys);
    source_free(source);
    world_end(&w);
}

TEST(source__reads_keys_of_every_type_and_length)
{
    static const char *const expected[] = { "42", "-1", "1.5", "text", "", "a" };
    struct world w;
    struct source_keys *keys;
    bg_bytes batch[16];
    size_t n;
    world_begin(&w, false);
    world_do(&w, "CREATE TABLE t (k)");
    world_do(&w,
             "INSERT INTO t VALUES (42), (-1), (NULL), (1.5), ('text'), (''), (x'61'),"
             " (zeroblob(3000000)), (x'00')");
    struct source_settings settings = read_only(&w);
    settings.keys = "t(k)";
    settings.lookup = NULL;
    struct source *source = make(&settings);
    CHECK_OK(source_keys_open(source, &keys, NULL));
    CHECK_OK(source_keys_next(keys, batch, 16, &n, NULL));
    CHECK_EQ(n, 7); /* the large key ends the batch */
    for (size_t i = 0; i < 6; i++) {
        CHECK_EQ(batch[i].len, strlen(expected[i]));
        CHECK(memcmp(batch[i].data, expected[i], batch[i].len) == 0);
    }
    CHECK_EQ(batch[6].len, 3000000);
    CHECK_OK(source_keys_next(keys, batch, 16, &n, NULL));
    CHECK_EQ(n, 1);
    CHECK_EQ(batch[0].len, 1);
    source_keys_close(keys);
    source_free(source);
    world_end(&w);
}

TEST(source__stopping_ends_a_long_read)
{
    struct world w;
    struct source_keys *keys;
    bg_bytes batch[16];
    size_t n;
    world_begin(&w, false);
    world_products(&w, 10);
    struct source_settings settings = read_only(&w);
    struct source *source = make(&settings);
    CHECK_OK(source_keys_open(source, &keys, NULL));
    CHECK_OK(source_keys_next(keys, batch, 1, &n, NULL));
    source_stop(source);
    CHECK_EQ(source_keys_next(keys, batch, 1, &n, NULL), BG_ECANCELED);
    CHECK_EQ(source_ask(source, "sku-1", 5, NULL, NULL), BG_STORE_ERROR);
    source_keys_close(keys);
    source_free(source);
    world_end(&w);
}

/* ---- Batches ------------------------------------------------------------------------------- */

TEST(key_batch__holds_keys_and_knows_when_it_is_full)
{
    struct key_batch batch = { .n = 0 };
    char key[16];
    for (int i = 0; i < KEY_BATCH; i++) {
        CHECK(!key_batch_is_full(&batch));
        (void)snprintf(key, sizeof key, "k%d", i);
        CHECK(key_batch_put(&batch, key, strlen(key)));
    }
    CHECK(key_batch_is_full(&batch));
    CHECK(!key_batch_put(&batch, "x", 1));
    const bg_bytes *keys = key_batch_keys(&batch);
    CHECK(keys[777].len == 4 && memcmp(keys[777].data, "k777", 4) == 0);
    key_batch_clear(&batch);
    CHECK(key_batch_put_hex(&batch, "00ff", 4));
    CHECK(!key_batch_put_hex(&batch, "00f", 3));
    CHECK(!key_batch_put_hex(&batch, "0x", 2));
    CHECK(key_batch_put_hex(&batch, "", 0));
    keys = key_batch_keys(&batch);
    CHECK_EQ(batch.n, 2);
    CHECK(keys[0].len == 2 && memcmp(keys[0].data, "\0\377", 2) == 0
          && keys[1].len == 0);
    key_batch_free(&batch);
}
