/*
 * 08_gate_sqlite.c - a gate in front of a database: most lookups of absent keys never
 * reach the database. Each write goes to the database first and then to the filter, and a fraction
 * of the filter's "no" answers is audited against the database. Finally, the gate reports its
 * statistics.
 */
#define _DEFAULT_SOURCE /* mkstemp */

#include <bloomgate/server.h>

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { ROWS = 20000, ASKED = 50000 };
enum { GET, PUT, STATEMENTS };

static int run(sqlite3_stmt *statement, const void *name, size_t len, int *age)
{
    (void)sqlite3_bind_text(statement, 1, name, (int)len, SQLITE_STATIC);
    (void)sqlite3_bind_int(statement, 2, *age); /* used by INSERT only */
    int code = sqlite3_step(statement);
    *age = code == SQLITE_ROW ? sqlite3_column_int(statement, 0) : *age;
    (void)sqlite3_reset(statement);
    return code;
}

/* Looks up the row in the database and stores it in the request. */
static bg_store_answer ask(void *context, const void *key, size_t len, void *request)
{
    int code = run(((sqlite3_stmt **)context)[GET], key, len, request);
    return code == SQLITE_ROW    ? BG_STORE_PRESENT
           : code == SQLITE_DONE ? BG_STORE_ABSENT
                                 : BG_STORE_ERROR;
}

static bg_err put(void *context, const void *key, size_t len, void *request)
{
    int code = run(((sqlite3_stmt **)context)[PUT], key, len, request);
    return code == SQLITE_DONE ? BG_OK : BG_EIO;
}

/* Writes all users, then looks up many names, four in five of which do not exist. */
static bool use(bg_gate *gate)
{
    bool right = true;
    char name[32];
    for (int i = 0; i < ROWS + ASKED; i++) {
        int id = i < ROWS ? i : i * 7 % (5 * ROWS), age = i < ROWS ? id % 90 : -1;
        size_t len = (size_t)snprintf(name, sizeof name, "user-%d", id);
        if (i < ROWS) {
            right = right && bg_gate_write(gate, name, len, &age) == BG_OK;
        } else {
            bool found = bg_gate_lookup(gate, name, len, &age) == BG_OUTCOME_PRESENT;
            right = right && found == (id < ROWS) && (!found || age == id % 90);
        }
    }
    bg_gate_info s = { .struct_size = sizeof s };
    bg_slot_health health = { .struct_size = sizeof health };
    right = bg_slot_get_health(bg_gate_slot(gate), &health) == BG_OK
            && bg_gate_get_info(gate, &health, &s) == BG_OK && right;
    printf("%d lookups, %d database calls, %d false negatives in %d audits\n",
           (int)s.lookups, (int)s.store_calls, (int)s.false_negatives, (int)s.audits);
    printf("false-positive rate: %.4f (%.4f to %.4f), predicted %.4f\n",
           s.observed.value, s.observed.low, s.observed.high, s.predicted);
    return right && s.false_negatives == 0 && s.store_calls < s.lookups / 3;
}

int main(void)
{
    static const char schema[] = "BEGIN; CREATE TABLE users (name UNIQUE, age INT)";
    static const char get[] = "SELECT age FROM users WHERE name = ?";
    static const char insert[] = "INSERT INTO users VALUES (?, ?)";
    char path[] = "/tmp/bloomgate-example-XXXXXX";
    int file = mkstemp(path);
    sqlite3 *db = NULL;
    sqlite3_stmt *users[STATEMENTS] = { NULL, NULL };
    bg_spec spec = { .struct_size = sizeof spec, .items = ROWS, .rate = 0.01 };
    const bg_gate_options options = { .struct_size = sizeof options,
                                      .query = ask,
                                      .write = put,
                                      .context = users,
                                      .audit = 0.01 };
    bg_filter *filter = NULL;
    bg_slot *slot = NULL;
    bg_gate *gate = NULL;
    bool right = file >= 0 && close(file) == 0 && sqlite3_open(path, &db) == SQLITE_OK
                 && sqlite3_exec(db, schema, 0, 0, 0) == SQLITE_OK
                 && sqlite3_prepare_v2(db, get, -1, &users[GET], 0) == SQLITE_OK
                 && sqlite3_prepare_v2(db, insert, -1, &users[PUT], 0) == SQLITE_OK
                 && bg_filter_create(&spec, &filter, NULL) == BG_OK
                 && bg_slot_create(filter, NULL, &slot, NULL) == BG_OK
                 && bg_gate_create(slot, &options, &gate, NULL) == BG_OK && use(gate);
    bg_gate_free(gate);
    bg_slot_free(slot);
    (void)sqlite3_finalize(users[GET]);
    (void)sqlite3_finalize(users[PUT]);
    (void)sqlite3_close(db);
    (void)unlink(path);
    return right ? 0 : 1;
}
