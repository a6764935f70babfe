/*
 * fuzz_server_key_form.c - compares the rules for key formats with SQLite's own behavior. A value
 * is stored in a column with some declared type. If a lookup key finds the value, the filter may
 * decide lookups of that key only if the key is spelled as SQLite prints the value.
 *
 * Input: one byte for the declared type, one for the value's storage class and for the alphabet,
 * and one for the length of the value, followed by the value and the key. If the small alphabet is
 * selected, the value and the key are often numbers.
 */
#include "fuzz.h"
#include "fuzz_input.h"
#include "source/driver.h"
#include "source/key_form.h"

#include <sqlite3.h>

enum { KEY_MAX = 64, TYPES = 8 };

static const char *const types[TYPES] = { "",     "BLOB", "INTEGER", "TEXT",
                                          "REAL", "UUID", "NUMERIC", "ANY" };
static const char alphabet[] = "0123456789+-.eE a";

static struct {
    sqlite3_stmt *insert, *clear, *lookup;
} tables[TYPES];

static sqlite3_stmt *prepare(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *statement = NULL;
    FUZZ_MUST(sqlite3_prepare_v2(db, sql, -1, &statement, NULL) == SQLITE_OK);
    return statement;
}

static void open_tables(void)
{
    static sqlite3 *dbs[TYPES];
    for (int i = 0; i < TYPES; i++) {
        char sql[64];
        (void)snprintf(sql, sizeof sql, "CREATE TABLE t(k %s)", types[i]);
        FUZZ_MUST(sqlite3_open(":memory:", &dbs[i]) == SQLITE_OK);
        FUZZ_MUST(sqlite3_exec(dbs[i], sql, NULL, NULL, NULL) == SQLITE_OK);
        tables[i].insert = prepare(dbs[i], "INSERT INTO t VALUES(?)");
        tables[i].clear = prepare(dbs[i], "DELETE FROM t");
        tables[i].lookup = prepare(dbs[i], "SELECT k FROM t WHERE k = ?");
    }
}

static int bind(sqlite3_stmt *statement, int how, bg_bytes key)
{
    char text[KEY_MAX + 1] = "";
    memcpy(text, key.data, key.len);
    return how == 0 ? sqlite3_bind_text64(statement, 1, key.data, key.len,
                                          SQLITE_STATIC, SQLITE_UTF8)
           : how == 1
               ? sqlite3_bind_blob64(statement, 1, key.data, key.len, SQLITE_STATIC)
           : how == 2 ? sqlite3_bind_int64(statement, 1, strtoll(text, NULL, 10))
                      : sqlite3_bind_double(statement, 1, strtod(text, NULL));
}

static void run(sqlite3_stmt *statement)
{
    FUZZ_MUST(sqlite3_step(statement) == SQLITE_DONE);
    FUZZ_MUST(sqlite3_reset(statement) == SQLITE_OK);
}

static void check_found(sqlite3_stmt *row, enum key_form form, bg_bytes key)
{
    const void *value = sqlite3_column_type(row, 0) == SQLITE_BLOB
                            ? sqlite3_column_blob(row, 0)
                            : sqlite3_column_text(row, 0);
    size_t len = (size_t)sqlite3_column_bytes(row, 0);
    if (key_form_spelling(form, &key) == KEY_CANONICAL) {
        len = key_form_normalize(form, value, len);
        FUZZ_MUST(len == key.len && (len == 0 || memcmp(value, key.data, len) == 0));
    }
}

static void check_sqlite(int type, int how, bg_bytes value, bg_bytes key)
{
    const enum key_form form = key_form_of_sqlite(types[type], "BINARY", true);
    int64_t number;
    /* As in sqlite/sqlite.c, an integer key is also looked up as an integer. */
    const int ways = source_integer(key, &number) ? 3 : 2;
    FUZZ_MUST(bind(tables[type].insert, how, value) == SQLITE_OK);
    run(tables[type].insert);
    for (int way = 0; way < ways; way++) {
        FUZZ_MUST(bind(tables[type].lookup, way, key) == SQLITE_OK);
        if (sqlite3_step(tables[type].lookup) == SQLITE_ROW) {
            check_found(tables[type].lookup, form, key);
        }
        (void)sqlite3_reset(tables[type].lookup);
    }
    run(tables[type].clear);
}

/* The form stored in the filter is canonical: converting it again does not change it. */
static void check_form(enum key_form form, bg_bytes key)
{
    bg_bytes held = key;
    if (key_form_spelling(form, &held) == KEY_OTHER) {
        FUZZ_MUST(held.len == key.len);
        return;
    }
    bg_bytes again = held;
    FUZZ_MUST(held.data == key.data && held.len <= key.len);
    FUZZ_MUST(key_form_normalize(form, key.data, key.len) == held.len);
    FUZZ_MUST(key_form_normalize(form, held.data, held.len) == held.len);
    FUZZ_MUST(key_form_spelling(form, &again) == KEY_CANONICAL
              && again.len == held.len);
    int64_t number;
    FUZZ_MUST(form != KEY_FORM_INTEGER || source_integer(key, &number));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = { data, size };
    char bytes[2 * KEY_MAX];
    const int type = fuzz_byte(&in) % TYPES, how = fuzz_byte(&in);
    size_t len = fuzz_byte(&in) % KEY_MAX;
    const size_t n = in.left < sizeof bytes ? in.left : sizeof bytes;
    fuzz_take(&in, bytes, n);
    for (size_t i = 0; how & 4 && i < n; i++) {
        bytes[i] = alphabet[(uint8_t)bytes[i] % (sizeof alphabet - 1)];
    }
    len = len < n ? len : n;
    const bg_bytes value = { bytes, len };
    const bg_bytes key = { bytes + len, n - len < KEY_MAX ? n - len : KEY_MAX };
    if (!tables[0].insert) {
        open_tables();
    }
    check_sqlite(type, how % 4, value, key);
    for (enum key_form form = 0; form < KEY_FORMS; form++) {
        check_form(form, key);
    }
    return 0;
}
