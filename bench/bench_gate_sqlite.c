/*
 * bench_gate_sqlite.c - a gate in front of a database.
 *
 * The store is an SQLite table in a file, with integer keys and a short text per row. There
 * is one connection and one thread, with default settings. Four out of five lookups are for
 * absent keys. For the first table, lookups run without a gate, through a gate one by one, and
 * through a gate in batches. The ratio is the number of lookups per second divided by the number
 * without a gate, so a ratio above 1 means that the gate makes lookups faster. The file is in the
 * page cache; with reads from a disk or over a network, the ratio would be higher.
 *
 * For the second table, many other keys are looked up once each, and the results are compared with
 * the plan. The number of avoided reads is compared with absent * (1 - rate). The false-positive
 * rate that the gate observed, with its confidence interval, is compared with the rate measured by
 * querying the filter for 2^24 other absent keys.
 *
 * The file is created in $TMPDIR or the current directory, and unlinked immediately.
 */
#include "bench_gate_sqlite.h"

#include "harness.h"
#include "keys.h"
#include "ours.h"
#include "output.h"

#include "bloomgate/all.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    SQL_BATCH = 1024,
    SQL_POOL = 1 << 18,
    SQL_ONE_IN = 5, /* one key in five is present */
    SQL_TRIALS = 1 << 24,
    SQL_LOOKUPS = 2500000
};

enum { SQL_PLAIN, SQL_GATE_ONE, SQL_GATE_MANY, SQL_ROWS };

struct sql_state {
    char path[512];
    sqlite3 *db;
    sqlite3_stmt *get;
    uint64_t rows;
    bg_filter *filter; /* owned by the slot */
    bg_slot *slot;
    bg_gate *gate;
    uint64_t *keys; /* SQL_POOL keys, every fifth of which is present */
    bg_bytes *pairs;
};

/* ---- The store ------------------------------------------------------------------------- */

static void sql_do(sqlite3 *db, const char *text)
{
    if (sqlite3_exec(db, text, NULL, NULL, NULL) != SQLITE_OK) {
        bgb_die("SQLite: %s", sqlite3_errmsg(db));
    }
}

static sqlite3_stmt *sql_prepare(sqlite3 *db, const char *text)
{
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(db, text, -1, &statement, NULL) != SQLITE_OK) {
        bgb_die("SQLite: %s", sqlite3_errmsg(db));
    }
    return statement;
}

static int sql_order(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Inserts all rows in key order, which takes seconds instead of hours. */
static void sql_fill(struct sql_state *s)
{
    int64_t *keys = bgb_alloc((size_t)s->rows, sizeof *keys);
    for (uint64_t i = 0; i < s->rows; i++) {
        keys[i] = (int64_t)bgb_key(BGB_SET_PRESENT, i);
    }
    qsort(keys, (size_t)s->rows, sizeof *keys, sql_order);
    sql_do(s->db, "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;"
                  "CREATE TABLE t (k INTEGER PRIMARY KEY, v TEXT); BEGIN");
    (void)unlink(s->path); /* the file is deleted when it is closed */
    sqlite3_stmt *put = sql_prepare(s->db, "INSERT INTO t VALUES (?, ?)");
    for (uint64_t i = 0; i < s->rows; i++) {
        (void)sqlite3_bind_int64(put, 1, keys[i]);
        (void)sqlite3_bind_text(put, 2, "the value of the row", -1, SQLITE_STATIC);
        if (sqlite3_step(put) != SQLITE_DONE) {
            bgb_die("SQLite: %s", sqlite3_errmsg(s->db));
        }
        (void)sqlite3_reset(put);
    }
    (void)sqlite3_finalize(put);
    sql_do(s->db, "COMMIT");
    free(keys);
}

static bg_store_answer sql_ask(void *context, const void *key, size_t len,
                               void *request)
{
    const struct sql_state *s = context;
    int64_t number;
    (void)len;
    (void)request;
    memcpy(&number, key, sizeof number);
    (void)sqlite3_bind_int64(s->get, 1, number);
    const int code = sqlite3_step(s->get);
    if (code == SQLITE_ROW) {
        bgb_sink((uint64_t)sqlite3_column_bytes(s->get, 0));
    }
    (void)sqlite3_reset(s->get);
    return code == SQLITE_ROW    ? BG_STORE_PRESENT
           : code == SQLITE_DONE ? BG_STORE_ABSENT
                                 : BG_STORE_ERROR;
}

static void sql_make_gate(struct sql_state *s)
{
    bg_gate_options how = BG_GATE_OPTIONS_INIT;
    bg_gate_free(s->gate);
    how.context = s;
    how.query = sql_ask;
    if (bg_gate_create(s->slot, &how, &s->gate, NULL)) {
        bgb_die("cannot create a gate");
    }
}

static void sql_open(struct sql_state *s, uint64_t rows, double rate)
{
    const char *folder = getenv("TMPDIR"); /* NOLINT(concurrency-mt-unsafe) */
    bg_spec spec = bgb_spec(BG_KIND_BLOCKED, rows, rate, 0);
    s->rows = rows;
    (void)snprintf(s->path, sizeof s->path, "%s/bgbench-%ld.sqlite",
                   folder ? folder : ".", (long)getpid());
    if (sqlite3_open(s->path, &s->db) != SQLITE_OK) {
        bgb_die("cannot create %s", s->path);
    }
    sql_fill(s);
    s->get = sql_prepare(s->db, "SELECT v FROM t WHERE k = ?");
    s->filter = bgb_filter_make(&spec, rows);
    if (bg_slot_create(s->filter, NULL, &s->slot, NULL)) {
        bgb_die("cannot create a slot");
    }
    sql_make_gate(s);
}

static void sql_close(struct sql_state *s)
{
    bg_gate_free(s->gate);
    bg_slot_free(s->slot);
    (void)sqlite3_finalize(s->get);
    (void)sqlite3_close(s->db);
    free(s->keys);
    free(s->pairs);
}

/* ---- Speed ----------------------------------------------------------------------------- */

/* Returns the i-th key to look up. */
static uint64_t sql_key(const struct sql_state *s, enum bgb_set absent, uint64_t i)
{
    if (i % SQL_ONE_IN) {
        return bgb_key(absent, i);
    }
    return bgb_key(BGB_SET_PRESENT, bgb_mulhi(bgb_key(BGB_SET_RECORDS, i), s->rows));
}

static void sql_make_keys(struct sql_state *s)
{
    s->keys = bgb_alloc(SQL_POOL, sizeof *s->keys);
    s->pairs = bgb_alloc(SQL_POOL, sizeof *s->pairs);
    for (size_t i = 0; i < SQL_POOL; i++) {
        s->keys[i] = sql_key(s, BGB_SET_ABSENT, i);
        s->pairs[i] = (bg_bytes){ &s->keys[i], sizeof *s->keys };
    }
}

static uint64_t sql_pass_plain(void *state, size_t first, size_t n)
{
    const struct sql_state *s = state;
    uint64_t found = 0;
    for (size_t i = first; i < first + n; i++) {
        found += sql_ask(state, &s->keys[i], sizeof *s->keys, NULL) == BG_STORE_PRESENT;
    }
    return found;
}

static uint64_t sql_pass_one(void *state, size_t first, size_t n)
{
    const struct sql_state *s = state;
    uint64_t found = 0;
    for (size_t i = first; i < first + n; i++) {
        found += bg_gate_lookup(s->gate, &s->keys[i], sizeof *s->keys, NULL)
                 == BG_OUTCOME_PRESENT;
    }
    return found;
}

static uint64_t sql_pass_many(void *state, size_t first, size_t n)
{
    const struct sql_state *s = state;
    bg_outcome outcomes[SQL_BATCH];
    uint64_t found = 0;
    for (size_t i = first; i + SQL_BATCH <= first + n; i += SQL_BATCH) {
        found += bg_gate_lookup_many(s->gate, s->pairs + i, SQL_BATCH, NULL, outcomes);
    }
    return found;
}

static void sql_measure(struct sql_state *s, double seconds)
{
    static uint64_t (*const passes[SQL_ROWS])(
        void *, size_t, size_t) = { sql_pass_plain, sql_pass_one, sql_pass_many };
    static const char *const names[SQL_ROWS] = { "no gate", "gate, one by one",
                                                 "gate, batches of 1024" };
    struct bgb_subject subjects[SQL_ROWS];
    for (int i = 0; i < SQL_ROWS; i++) {
        subjects[i] = (struct bgb_subject){ .pass = passes[i],
                                            .state = s,
                                            .pool = SQL_POOL,
                                            .chunk = 1 << 14,
                                            .least = 0.99 / SQL_ONE_IN,
                                            .most = 1.01 / SQL_ONE_IN };
        (void)snprintf(subjects[i].name, BGB_NAME_BYTES, "%s", names[i]);
    }
    bgb_run(subjects, SQL_ROWS, seconds);
    for (int i = 0; i < SQL_ROWS; i++) {
        bgb_row_begin();
        bgb_cells_subject(subjects[i].name, s->rows, BGB_NONE, BGB_NONE);
        bgb_cells_times(&subjects[i], subjects[SQL_PLAIN].p5 / subjects[i].p5);
        bgb_cell_real("lookups", "lookups/s", 12, 0, 1e9 / subjects[i].p5);
        bgb_row_end();
    }
    bgb_note("ratio: lookups/s divided by lookups/s without a gate");
}

/* ---- Comparison with the plan ---------------------------------------------------- */

static void sql_print_plan(const struct sql_state *s, const bg_gate_info *stats,
                           double rate)
{
    const uint64_t absent = SQL_LOOKUPS / SQL_ONE_IN * (SQL_ONE_IN - 1);
    const double planned = (double)absent * (1 - rate);
    const double truly =
        (double)bgb_ours_false_positives(s->filter, SQL_TRIALS) / SQL_TRIALS;
    const bg_estimate *seen = &stats->observed;
    if (stats->outcomes[BG_OUTCOME_PRESENT] != SQL_LOOKUPS - absent) {
        bgb_broken_add("gate", "a lookup missed a row that exists");
    }
    bgb_table("gate_plan", "%d other keys, looked up once each, compared with the plan",
              SQL_LOOKUPS);
    bgb_row_begin();
    bgb_cell_count("rows", "rows", 10, s->rows);
    bgb_cell_count("absent", "absent", 10, absent);
    bgb_cell_count("avoided", "avoided", 10, stats->avoided);
    bgb_cell_real("planned", "planned", 12, 0, planned);
    bgb_cell_real("difference", "diff %", 8, 3,
                  100 * ((double)stats->avoided - planned) / planned);
    bgb_cell_real("observed", "observed %", 11, 4, 100 * seen->value);
    bgb_cell_real("low", "low", 8, 4, 100 * seen->low);
    bgb_cell_real("high", "high", 8, 4, 100 * seen->high);
    bgb_cell_real("true", "true %", 8, 4, 100 * truly);
    bgb_cell_text("inside", "inside", 7,
                  seen->low <= truly && truly <= seen->high ? "yes" : "no");
    bgb_row_end();
}

static void sql_compare(struct sql_state *s, double rate)
{
    bg_gate_info stats = { .struct_size = sizeof stats };
    sql_make_gate(s);
    for (uint64_t i = 0; i < SQL_LOOKUPS; i++) {
        const uint64_t key = sql_key(s, BGB_SET_FRESH, i);
        (void)bg_gate_lookup(s->gate, &key, sizeof key, NULL);
    }
    bg_slot_health health = { .struct_size = sizeof health };
    if (bg_slot_get_health(bg_gate_slot(s->gate), &health)
        || bg_gate_get_info(s->gate, &health, &stats)) {
        bgb_die("cannot read the gate's statistics");
    }
    sql_print_plan(s, &stats, rate);
}

void bgb_bench_gate_sqlite(const struct bgb_options *options, uint64_t rows,
                           double rate)
{
    struct sql_state *s = bgb_alloc(1, sizeof *s);
    sql_open(s, rows, rate);
    sql_make_keys(s);
    bgb_table("gate_sqlite",
              "SQLite %s, %llu rows, a gate of %g%%, 80%% of keys absent",
              sqlite3_libversion(), (unsigned long long)rows, rate * 100);
    sql_measure(s, options->seconds);
    sql_compare(s, rate);
    sql_close(s);
    free(s);
}
