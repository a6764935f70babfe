/* test_source_sqlite.c - SQLite as a source of truth: questions, keys, and following. */
#define _GNU_SOURCE /* mkdtemp, usleep */

#include "server/support/source_world.h"

#include "key_batch.h"

/* What the source says of a key; the value goes to `text`. */
static bg_truth ask(struct source *source, const char *key, char text[64])
{
    struct source_value value = { .data = text, .room = 63 };
    bg_errinfo why;
    memset(text, 0, 64);
    const bg_truth answer = source_ask(source, key, strlen(key), &value, &why);
    text[value.len < 63 ? value.len : 63] = 0;
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

/* ---- Settings ------------------------------------------------------------------------------ */

TEST(source__settings_that_make_no_source)
{
    static const struct {
        const char *url, *query, *follow;
        uint32_t install;
        const char *what;
    } bad[] = {
        { "", "SELECT 1", "none", 0, "source" },
        { "mysql://x", "SELECT 1", "none", 0, "source" },
        { "sqlite:", "SELECT 1", "none", 0, "source" },
        { "sqlite://host/path", "SELECT 1", "none", 0, "source" },
        { "sqlite::memory:", "SELECT 1", "none", 0, "source" },
        { "sqlite:a.db", " ;\n", "none", 0, "query" },
        { "sqlite:a.db", "SELECT 1", "", 0, "follow" },
        { "sqlite:a.db", "SELECT 1", "often", 0, "follow" },
        { "sqlite:a.db", "SELECT 1", "column:", 0, "follow" },
        { "sqlite:a.db", "SELECT 1", "notify", 0, "follow" },
        { "sqlite:a.db", "SELECT 1", "notify:id", 0, "follow" },
        { "sqlite:a.db", "SELECT 1", "rowid", SOURCE_INSTALL_YES, "install" },
        { "postgres://h/d?nonsense=1", "SELECT 1", "none", 0, "source" },
        { "postgres://h/d", "SELECT 1", "rowid", 0, "follow" },
        { "postgresql://h/d", "SELECT 1", "none", SOURCE_INSTALL_YES, "install" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct source_settings settings = { .name = "x",
                                            .url = bad[i].url,
                                            .query = bad[i].query,
                                            .lookup = "SELECT 1",
                                            .follow = bad[i].follow,
                                            .install = bad[i].install };
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
    source_show_url("postgres://host/db?password=secret&user=me", text, sizeof text);
    CHECK_STR(text, "postgres://host/db?password=******&user=me");
    source_show_url("sqlite:///a/b.db", text, sizeof text);
    CHECK_STR(text, "sqlite:///a/b.db");
}

TEST(source__check_finds_what_is_wrong)
{
    static const struct {
        const char *query, *lookup, *count, *follow, *what;
    } bad[] = {
        { "SELECT nothing FROM products", "SELECT 1 WHERE ? = 1", "", "none", "query" },
        { "DELETE FROM products", "SELECT 1 WHERE ? = 1", "", "none", "query" },
        { "SELECT sku FROM products; SELECT 2", "SELECT 1 WHERE ? = 1", "", "none",
          "query" },
        { "SELECT sku FROM products", "SELECT 1", "", "none", "lookup" },
        { "SELECT sku FROM products", "SELECT ? + ?", "", "none", "lookup" },
        { "SELECT sku FROM products", "SELECT 1 WHERE ? = 1", "SELECT no", "none",
          "count" },
        { "SELECT sku FROM products", "SELECT 1 WHERE ? = 1", "", "rowid", "follow" },
        { "SELECT sku FROM products", "SELECT 1 WHERE ? = 1", "", "column:id",
          "follow" },
        { "SELECT k, rowid FROM loose", "SELECT 1 WHERE ? = 1", "", "rowid",
          "follow=rowid" },
        { "SELECT k FROM loose", "SELECT 1 WHERE ? = 1", "", "trigger", "follow" },
    };
    struct world w;
    world_begin(&w, false);
    world_products(&w, 1);
    world_do(&w, "CREATE TABLE loose (k)");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct source_settings settings = world_settings(&w);
        settings.query = bad[i].query;
        settings.lookup = bad[i].lookup;
        settings.count = bad[i].count;
        settings.follow = bad[i].follow;
        struct source *source = make(&settings);
        bg_errinfo why = { .code = BG_OK };
        CHECK(source_check(source, &why) != BG_OK);
        CHECK_STR(why.what, bad[i].what);
        source_free(source);
    }
    struct source_settings settings = world_settings(&w);
    struct source *source = make(&settings);
    CHECK_OK(source_check(source, NULL));
    source_free(source);
    settings.query = "SELECT k, rowid FROM loose; ";
    settings.follow = "appended";
    source = make(&settings);
    CHECK_OK(source_check(source, NULL));
    source_free(source);
    world_end(&w);
}

/* ---- Questions ----------------------------------------------------------------------------- */

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
    CHECK_EQ(ask(source, "sku-7", text), BG_TRUTH_PRESENT);
    CHECK_STR(text, "name 7");
    CHECK_EQ(ask(source, "sku-100", text), BG_TRUTH_ABSENT);
    CHECK_EQ(ask(source, "", text), BG_TRUTH_PRESENT);
    CHECK_STR(text, "empty");
    struct source_value value = { .data = text, .room = 3 };
    CHECK_EQ(source_ask(source, "sku-7", 5, &value, NULL), BG_TRUTH_PRESENT);
    CHECK_EQ(value.len, 6); /* three of which are there */
    CHECK(memcmp(text, "nam", 3) == 0 && !value.null);
    CHECK_EQ(source_ask(source, "no name", 7, &value, NULL), BG_TRUTH_PRESENT);
    CHECK(value.null);
    CHECK_EQ(source_ask(source, "sku-7\0", 6, NULL, NULL), BG_TRUTH_ABSENT);
    CHECK_EQ(source_ask(source, NULL, 0, NULL, NULL), BG_TRUTH_PRESENT);
    source_free(source);
    world_end(&w);
}

TEST(source__keys_of_every_sort_are_found)
{
    struct world w;
    world_begin(&w, false);
    world_do(&w, "CREATE TABLE t (k, i INT, b BLOB)");
    world_do(&w,
             "INSERT INTO t VALUES ('text', 42, x'00ff'), (x'626c6f62', -7, 'as text'),"
             " (5, 9223372036854775807, NULL), (1.5, NULL, NULL)");
    static const struct {
        const char *lookup, *query;
        uint32_t as;
        bg_bytes key;
        bg_truth truth;
    } asked[] = {
        { "SELECT 1 FROM t WHERE k = ?", "SELECT k FROM t", 0, { "text", 4 }, 1 },
        { "SELECT 1 FROM t WHERE k = ?", "SELECT k FROM t", 0, { "blob", 4 }, 1 },
        { "SELECT 1 FROM t WHERE k = ?",
          "SELECT k FROM t",
          SOURCE_KEY_TEXT,
          { "blob", 4 },
          0 },
        { "SELECT 1 FROM t WHERE k = ?",
          "SELECT k FROM t",
          SOURCE_KEY_BLOB,
          { "blob", 4 },
          1 },
        { "SELECT 1 FROM t WHERE k = ?",
          "SELECT k FROM t",
          SOURCE_KEY_BLOB,
          { "text", 4 },
          0 },
        { "SELECT 1 FROM t WHERE k = ?",
          "SELECT k FROM t",
          SOURCE_KEY_INTEGER,
          { "5", 1 },
          1 },
        { "SELECT 1 FROM t WHERE k = ?",
          "SELECT k FROM t",
          SOURCE_KEY_INTEGER,
          { "x", 1 },
          0 },
        { "SELECT 1 FROM t WHERE k = ?",
          "SELECT k FROM t",
          SOURCE_KEY_INTEGER,
          { "05", 2 },
          0 },
        { "SELECT 1 FROM t WHERE i = ?", "SELECT i FROM t", 0, { "42", 2 }, 1 },
        { "SELECT 1 FROM t WHERE +i = ?", "SELECT i FROM t", 0, { "42", 2 }, 1 },
        { "SELECT 1 FROM t WHERE i = ?", "SELECT i FROM t", 0, { "-7", 2 }, 1 },
        { "SELECT 1 FROM t WHERE i = ?",
          "SELECT i FROM t",
          0,
          { "9223372036854775807", 19 },
          1 },
        { "SELECT 1 FROM t WHERE i = ?",
          "SELECT i FROM t",
          0,
          { "92233720368547758070", 20 },
          0 },
        { "SELECT 1 FROM t WHERE i = ?", "SELECT i FROM t", 0, { "nonsense", 8 }, 0 },
        { "SELECT 1 FROM t WHERE b = ?", "SELECT b FROM t", 0, { "\0\377", 2 }, 1 },
        { "SELECT 1 FROM t WHERE b = ?", "SELECT b FROM t", 0, { "as text", 7 }, 1 },
    };
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        struct source_settings settings = world_settings(&w);
        settings.query = asked[i].query;
        settings.lookup = asked[i].lookup;
        settings.key = asked[i].as;
        settings.follow = "none";
        struct source *source = make(&settings);
        const bg_truth answer =
            source_ask(source, asked[i].key.data, asked[i].key.len, NULL, NULL);
        if (answer != asked[i].truth) {
            check_fail(__FILE__, __LINE__, "case %zu: %d", i, (int)answer);
        }
        source_free(source);
    }
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
        const bg_truth answer = ask(asker->source, key, text);
        asker->wrong += answer != (i % 1000 < 500 ? BG_TRUTH_PRESENT : BG_TRUTH_ABSENT);
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

TEST(source__a_question_that_takes_too_long_fails)
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
    CHECK_EQ(source_ask(source, "1", 1, NULL, &why), BG_TRUTH_ERROR);
    CHECK(strstr(why.message, "in time"));
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
    struct source *source = make(&settings);
    CHECK_EQ(ask(source, "sku-0", text), BG_TRUTH_PRESENT);
    world_do(&w, "BEGIN EXCLUSIVE");
    CHECK_EQ(source_ask(source, "sku-0", 5, NULL, &why), BG_TRUTH_ERROR);
    CHECK(strstr(why.message, "locked"));
    world_do(&w, "COMMIT");
    CHECK_EQ(ask(source, "sku-0", text), BG_TRUTH_PRESENT);
    source_free(source);
    world_end(&w);
}

TEST(source__a_file_that_is_not_there_may_come)
{
    struct world w, other;
    char text[64];
    bg_errinfo why = { .code = BG_OK };
    uint64_t count;
    struct source_keys *keys;
    world_begin(&w, false);
    world_begin(&other, false);
    world_products(&w, 3);
    (void)sqlite3_close(w.db);
    w.db = NULL;
    char moved[512];
    (void)snprintf(moved, sizeof moved, "%s/moved.db", w.folder);
    CHECK(rename(w.path, moved) == 0);
    struct source_settings settings = world_settings(&w);
    struct source *source = make(&settings);
    CHECK_EQ(source_ask(source, "sku-0", 5, NULL, &why), BG_TRUTH_ERROR);
    CHECK(strstr(why.message, "no file"));
    CHECK_EQ(source_count(source, &count, &why), BG_EIO);
    CHECK_EQ(source_keys_open(source, &keys, &why), BG_EIO);
    CHECK(keys == NULL);
    CHECK(rename(moved, w.path) == 0);
    while (ask(source, "sku-0", text) != BG_TRUTH_PRESENT) {
        usleep(1000); /* it rests for a tenth of a second */
    }
    /* ... and be replaced by another one. */
    world_products(&other, 1);
    world_do(&other, "UPDATE products SET name = 'new'");
    world_do(&other, "PRAGMA wal_checkpoint(TRUNCATE)");
    CHECK(rename(other.path, w.path) == 0);
    CHECK_EQ(ask(source, "sku-0", text), BG_TRUTH_PRESENT);
    CHECK_STR(text, "new");
    CHECK_EQ(ask(source, "sku-1", text), BG_TRUTH_ABSENT);
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

TEST(source__reads_all_keys_of_one_moment)
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
    struct source_settings settings = world_settings(&w);
    settings.query = "SELECT sku, id FROM products ORDER BY id -- all of them";
    struct source *source = make(&settings);
    CHECK_OK(source_count(source, &count, NULL));
    CHECK_EQ(count, 5001);
    CHECK_OK(source_keys_open(source, &keys, NULL));
    CHECK_OK(source_keys_next(keys, first, 10, &n, NULL));
    CHECK_EQ(n, 10);
    world_do(&w, "INSERT INTO products (sku) VALUES ('late')");
    CHECK_EQ(read_all(keys, 1024, last, sizeof last), 4990);
    CHECK_STR(last, "sku-4999");
    CHECK_OK(source_keys_rewind(keys, NULL));
    CHECK_EQ(read_all(keys, 2048, last, sizeof last), 5001);
    CHECK_STR(last, "late");
    source_keys_close(keys);
    source_free(source);
    settings.count = "SELECT 77";
    source = make(&settings);
    CHECK_OK(source_count(source, &count, NULL));
    CHECK_EQ(count, 77);
    source_free(source);
    world_end(&w);
}

TEST(source__reads_keys_of_every_sort_and_length)
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
    struct source_settings settings = world_settings(&w);
    settings.query = "SELECT k FROM t ORDER BY rowid";
    settings.follow = "none";
    struct source *source = make(&settings);
    CHECK_OK(source_keys_open(source, &keys, NULL));
    CHECK_OK(source_keys_next(keys, batch, 16, &n, NULL));
    CHECK_EQ(n, 7); /* the large one ends the batch */
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
    struct source_settings settings = world_settings(&w);
    struct source *source = make(&settings);
    CHECK_OK(source_keys_open(source, &keys, NULL));
    CHECK_OK(source_keys_next(keys, batch, 1, &n, NULL));
    source_stop(source);
    CHECK_EQ(source_keys_next(keys, batch, 1, &n, NULL), BG_ECANCELED);
    CHECK_EQ(source_ask(source, "sku-1", 5, NULL, NULL), BG_TRUTH_ERROR);
    source_keys_close(keys);
    source_free(source);
    world_end(&w);
}

/* ---- Following ----------------------------------------------------------------------------- */

TEST(source__follows_rowids)
{
    struct world w;
    struct ear *ear = ear_create();
    world_begin(&w, false);
    world_products(&w, 10);
    struct source_settings settings = world_settings(&w);
    struct source *source = make(&settings);
    ear_follow(ear, source);
    EAR_AWAIT(ear, ear->anew == 1 && ear->caught_up > 0);
    CHECK_EQ(ear->position, 10);
    world_do(&w, "INSERT INTO products (sku) VALUES ('one'), (NULL), ('two')");
    ear_await_now(ear, source);
    CHECK_EQ(ear_heard(ear, "one"), 1);
    CHECK_EQ(ear_heard(ear, "two"), 1);
    CHECK_EQ(ear_heard(ear, "sku-3"), 0);
    CHECK_EQ(ear->position, 13);
    /* A deleted last row does not give its number away. */
    world_do(&w, "DELETE FROM products WHERE sku = 'two'");
    ear_await_now(ear, source);
    world_do(&w, "INSERT INTO products (sku) VALUES ('three')");
    ear_await_now(ear, source);
    CHECK_EQ(ear_heard(ear, "three"), 1);
    CHECK_EQ(ear->anew, 1);
    CHECK_EQ(ear->up, 1);
    source_free(source);
    ear_free(ear);
    world_end(&w);
}

TEST(source__follows_an_empty_table)
{
    struct world w;
    struct ear *ear = ear_create();
    world_begin(&w, false);
    world_products(&w, 0);
    struct source_settings settings = world_settings(&w);
    struct source *source = make(&settings);
    ear_follow(ear, source);
    EAR_AWAIT(ear, ear->anew == 1);
    for (int i = 0; i < 3000; i++) {
        world_do(&w, "INSERT INTO products (sku) VALUES ('n-%d')", i);
    }
    ear_await_now(ear, source);
    CHECK(ear_heard(ear, "n-0") >= 1);
    CHECK(ear_heard(ear, "n-1500") >= 1);
    CHECK(ear_heard(ear, "n-2999") >= 1);
    CHECK_EQ(ear->position, 3000);
    source_free(source);
    ear_free(ear);
    world_end(&w);
}

TEST(source__appended_notices_that_the_last_row_is_gone)
{
    struct world w;
    struct ear *ear = ear_create();
    world_begin(&w, false);
    world_do(&w, "CREATE TABLE loose (k)");
    world_do(&w, "INSERT INTO loose VALUES ('a'), ('b')");
    struct source_settings settings = world_settings(&w);
    settings.query = "SELECT k, rowid FROM loose";
    settings.follow = "appended";
    struct source *source = make(&settings);
    ear_follow(ear, source);
    EAR_AWAIT(ear, ear->anew == 1 && ear->caught_up > 0);
    world_do(&w, "INSERT INTO loose VALUES ('c')");
    ear_await_now(ear, source);
    CHECK_EQ(ear_heard(ear, "c"), 1);
    world_do(&w, "DELETE FROM loose WHERE k = 'c'");
    EAR_AWAIT(ear, ear->anew == 2);
    source_free(source);
    ear_free(ear);
    world_end(&w);
}

TEST(source__follows_a_column)
{
    struct world w;
    struct ear *ear = ear_create();
    world_begin(&w, false);
    world_do(&w, "CREATE TABLE t (k TEXT, updated REAL)");
    world_do(&w, "CREATE INDEX t_updated ON t (updated)");
    world_do(&w, "INSERT INTO t VALUES ('old', 10), ('older', 5), ('timeless', NULL)");
    struct source_settings settings = world_settings(&w);
    settings.query = "SELECT k, updated FROM t";
    settings.follow = "column:UPDATED";
    settings.overlap = 2;
    struct source *source = make(&settings);
    ear_follow(ear, source);
    EAR_AWAIT(ear, ear->anew == 1);
    world_do(&w, "INSERT INTO t VALUES ('same time', 10)");
    ear_await_now(ear, source);
    CHECK(ear_heard(ear, "same time") >= 1);
    world_do(&w, "UPDATE t SET k = 'renamed', updated = 11 WHERE k = 'old'");
    world_do(&w, "INSERT INTO t VALUES ('a little late', 9.5)");
    ear_await_now(ear, source);
    CHECK(ear_heard(ear, "renamed") >= 1);
    CHECK(ear_heard(ear, "a little late") >= 1);
    CHECK_EQ(ear_heard(ear, "older"), 0);
    source_free(source);
    ear_free(ear);
    world_end(&w);
}

TEST(source__follows_a_column_of_text)
{
    struct world w;
    struct ear *ear = ear_create();
    world_begin(&w, false);
    world_do(&w, "CREATE TABLE t (k TEXT, updated TEXT)");
    world_do(&w, "INSERT INTO t VALUES ('a', '2026-01-01 00:00:00')");
    struct source_settings settings = world_settings(&w);
    settings.query = "SELECT k, updated FROM t";
    settings.follow = "column:updated";
    struct source *source = make(&settings);
    ear_follow(ear, source);
    EAR_AWAIT(ear, ear->anew == 1);
    world_do(&w,
             "INSERT INTO t VALUES ('b', '2026-01-01 00:00:00'), ('c', '2026-02-01')");
    ear_await_now(ear, source);
    CHECK(ear_heard(ear, "b") >= 1 && ear_heard(ear, "c") >= 1);
    CHECK_EQ(ear->position, 0);
    source_free(source);
    settings.overlap = 10; /* of what? */
    source = make(&settings);
    ear_follow(ear, source);
    EAR_AWAIT(ear, ear->up == 0);
    CHECK(strstr(ear->why, "overlap"));
    source_free(source);
    ear_free(ear);
    world_end(&w);
}

TEST(source__follows_triggers_that_it_installs)
{
    struct world w;
    struct ear *ear = ear_create();
    world_begin(&w, false);
    world_do(&w, "CREATE TABLE \"the \"\"table\" (\"the key\", state)");
    world_do(&w, "INSERT INTO \"the \"\"table\" VALUES ('a', 1)");
    struct source_settings settings = world_settings(&w);
    settings.query = "SELECT \"the key\" FROM \"the \"\"table\"";
    settings.lookup = "SELECT 1 FROM \"the \"\"table\" WHERE \"the key\" = ?";
    settings.follow = "trigger";
    settings.install = SOURCE_INSTALL_YES;
    struct source *source = make(&settings);
    ear_follow(ear, source);
    EAR_AWAIT(ear, ear->anew == 1);
    world_do(&w, "INSERT INTO \"the \"\"table\" VALUES ('b', 1), (NULL, 1)");
    world_do(&w, "UPDATE \"the \"\"table\" SET state = 2 WHERE \"the key\" = 'a'");
    world_do(&w, "DELETE FROM \"the \"\"table\"");
    world_do(&w, "INSERT INTO \"the \"\"table\" VALUES (77, 1)");
    ear_await_now(ear, source);
    CHECK(ear_heard(ear, "b") >= 1);
    CHECK(ear_heard(ear, "a") >= 1);
    CHECK(ear_heard(ear, "77") >= 1);
    source_free(source);
    const size_t heard = ear_heard(ear, "b");

    /* Made already, so not made again; what came while nobody was there is before `anew`. */
    world_do(&w, "INSERT INTO \"the \"\"table\" VALUES ('c', 1)");
    source = make(&settings);
    ear_follow(ear, source);
    EAR_AWAIT(ear, ear->anew == 2);
    world_do(&w, "INSERT INTO \"the \"\"table\" VALUES ('d', 1)");
    ear_await_now(ear, source);
    CHECK(ear_heard(ear, "d") >= 1);
    CHECK_EQ(ear_heard(ear, "b"), heard);
    CHECK_EQ(ear->anew, 2);
    source_free(source);

    /* Only for keys: an update of something else is no news. */
    settings.install = SOURCE_INSTALL_KEYS;
    source = make(&settings);
    ear_follow(ear, source);
    EAR_AWAIT(ear, ear->anew == 3);
    ear_await_now(ear, source);
    const size_t before = ear_heard(ear, "d");
    world_do(&w, "UPDATE \"the \"\"table\" SET state = 3");
    ear_await_now(ear, source);
    CHECK_EQ(ear_heard(ear, "d"), before);
    world_do(&w,
             "UPDATE \"the \"\"table\" SET \"the key\" = 'e' WHERE \"the key\" = 'd'");
    ear_await_now(ear, source);
    CHECK(ear_heard(ear, "e") >= 1);

    /* Changes that were pruned before they were read: something was missed. */
    world_do(&w, "BEGIN");
    for (int i = 0; i < 10; i++) {
        world_do(&w, "INSERT INTO \"the \"\"table\" VALUES ('f%d', 1)", i);
    }
    world_do(&w, "DELETE FROM bloomgate_changes_products WHERE key IS NOT 'f9'");
    world_do(&w, "COMMIT");
    EAR_AWAIT(ear, ear->anew == 4);
    source_free(source);
    ear_free(ear);
    world_end(&w);
}

TEST(source__begins_anew_when_the_schema_or_the_file_changes)
{
    struct world w, other;
    struct ear *ear = ear_create();
    world_begin(&w, false);
    world_products(&w, 10);
    struct source_settings settings = world_settings(&w);
    struct source *source = make(&settings);
    ear_follow(ear, source);
    EAR_AWAIT(ear, ear->anew == 1);
    world_do(&w, "DROP TABLE products");
    EAR_AWAIT(ear, ear->up == 0);
    world_products(&w, 20);
    EAR_AWAIT(ear, ear->anew == 2 && ear->up == 1);
    world_do(&w, "CREATE INDEX products_name ON products (name)");
    EAR_AWAIT(ear, ear->anew == 3);
    CHECK_STR(ear->why, "the schema was changed");

    world_begin(&other, false);
    world_products(&other, 5);
    world_do(&other, "PRAGMA wal_checkpoint(TRUNCATE)");
    CHECK(rename(other.path, w.path) == 0);
    EAR_AWAIT(ear, ear->anew == 4);
    CHECK_STR(ear->why, "the file was replaced");
    CHECK(unlink(w.path) == 0);
    EAR_AWAIT(ear, ear->up == 0);
    source_free(source);
    ear_free(ear);
    world_end(&other);
    world_end(&w);
}

TEST(source__a_writer_that_holds_its_lock_is_waited_for)
{
    struct world w;
    struct ear *ear = ear_create();
    world_begin(&w, true);
    world_products(&w, 10);
    struct source_settings settings = world_settings(&w);
    settings.timeout_ms = 20;
    struct source *source = make(&settings);
    ear_follow(ear, source);
    EAR_AWAIT(ear, ear->caught_up > 0);
    world_do(&w, "BEGIN EXCLUSIVE");
    world_do(&w, "INSERT INTO products (sku) VALUES ('x')");
    const uint64_t now = source_now();
    usleep(100000); /* it meets the lock a few times; nothing depends on that */
    world_do(&w, "COMMIT");
    ear_await_now(ear, source);
    CHECK(ear->since >= now);
    CHECK(ear_heard(ear, "x") >= 1);
    CHECK_EQ(ear->anew, 1);
    source_free(source);
    ear_free(ear);
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
