/*
 * key_form.c - see key_form.h.
 *
 * A form consists of a rule for canonical keys and a rule for insignificant trailing bytes. The rules are strict: they
 * accept only the spelling that the type's output function prints, and reject rare values with a complicated
 * spelling (infinity, years before 1 and after 9999, NaN).
 */
#include "source/key_form.h"

#include <string.h>
#include <strings.h>

/* ---- Rules for canonical keys ---------------------------------------------------------- */

static bool key_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static size_t key_digits(const char *text, size_t len)
{
    size_t n = 0;
    while (n < len && key_is_digit(text[n])) {
        n++;
    }
    return n;
}

static bool key_is_any(const char *text, size_t len)
{
    (void)text;
    (void)len;
    return true;
}

static bool key_is_ascii(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)text[i] >= 0x80) {
            return false;
        }
    }
    return true;
}

/* Accepts digits without leading zeros. */
static bool key_is_whole(const char *text, size_t len)
{
    return len > 0 && key_digits(text, len) == len && (text[0] != '0' || len == 1);
}

/*
 * Accepts -9223372036854775807 to 9223372036854775807. Outside this range, SQLite converts the text to a real. The
 * smallest 64-bit integer is excluded, because a SQLite integer column may store it as an equal real, which prints as
 * -9.22337203685478e+18.
 */
static bool key_is_integer(const char *text, size_t len)
{
    static const char largest[] = "9223372036854775807";
    const size_t most = sizeof largest - 1;
    if (len > 1 && text[0] == '-' && text[1] != '0') {
        text++;
        len--;
    }
    return key_is_whole(text, len)
           && (len < most || (len == most && memcmp(text, largest, most) <= 0));
}

/* Accepts at most 10 digits, because PostgreSQL reads the oid 18446744073709551615 as 4294967295. */
static bool key_is_oid(const char *text, size_t len)
{
    return len <= 10 && key_is_whole(text, len);
}

/* Accepts numbers without trailing zeros in the fraction; see key_form_normalize. */
static bool key_is_numeric(const char *text, size_t len)
{
    const char *point = memchr(text, '.', len);
    const bool negative = len > 0 && text[0] == '-';
    const size_t whole = (point ? (size_t)(point - text) : len) - negative;
    const size_t fraction = point ? len - negative - whole - 1 : 0;
    if (!key_is_whole(text + negative, whole)
        || (negative && !point && text[1] == '0')) {
        return false; /* -0 prints as 0 */
    }
    return !point
           || (fraction > 0 && key_digits(point + 1, fraction) == fraction
               && point[fraction] != '0');
}

/* Returns whether the text matches a pattern in which 9 stands for any digit and f for any
 * lowercase hexadecimal digit. */
static bool key_is_like(const char *text, size_t len, const char *form)
{
    if (len != strlen(form)) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        const bool digit = key_is_digit(text[i]);
        const bool fits = form[i] == '9'   ? digit
                          : form[i] == 'f' ? digit || (text[i] >= 'a' && text[i] <= 'f')
                                           : text[i] == form[i];
        if (!fits) {
            return false;
        }
    }
    return true;
}

static bool key_is_uuid(const char *text, size_t len)
{
    return key_is_like(text, len, "ffffffff-ffff-ffff-ffff-ffffffffffff");
}

static bool key_is_date(const char *text, size_t len)
{
    return key_is_like(text, len, "9999-99-99");
}

/* Rejects 24:00:00 and :60, which PostgreSQL accepts as the next day and the next minute. */
static bool key_is_timestamp(const char *text, size_t len)
{
    static const char form[] = "9999-99-99 99:99:99";
    const size_t seconds = sizeof form - 1; /* where a fraction starts */
    if (len < seconds || !key_is_like(text, seconds, form)
        || memcmp(text + 11, "24", 2) >= 0 || memcmp(text + 17, "60", 2) >= 0) {
        return false;
    }
    const size_t fraction = len - seconds; /* including the decimal point */
    return fraction == 0
           || (fraction >= 2 && fraction <= 7 && text[seconds] == '.'
               && key_digits(text + seconds + 1, fraction - 1) == fraction - 1
               && text[len - 1] != '0');
}

static bool key_is_timestamptz(const char *text, size_t len)
{
    return len > 3 && memcmp(text + len - 3, "+00", 3) == 0
           && key_is_timestamp(text, len - 3);
}

/* Accepts text that SQLite cannot read as a number because it contains a byte that is not in
 * `number`. */
static bool key_is_sqlite_text(const char *text, size_t len)
{
    static const char number[] = "0123456789+-.eE \t\n\v\f\r";
    for (size_t i = 0; i < len; i++) {
        if (!memchr(number, text[i], sizeof number - 1)) {
            return true;
        }
    }
    return false;
}

static bool key_is_sqlite_number(const char *text, size_t len)
{
    return key_is_integer(text, len) || key_is_sqlite_text(text, len);
}

/* ---- Forms ----------------------------------------------------------------------------- */

enum key_tail { TAIL_COUNTS, TAIL_BLANKS, TAIL_ZEROS };

static const struct {
    bool (*is_canonical)(const char *text, size_t len); /* NULL: never */
    enum key_tail tail;
} key_forms[KEY_FORMS] = {
    [KEY_FORM_UNKNOWN] = { NULL, TAIL_COUNTS },
    [KEY_FORM_BYTES] = { key_is_any, TAIL_COUNTS },
    [KEY_FORM_ASCII] = { key_is_ascii, TAIL_COUNTS },
    [KEY_FORM_PADDED] = { key_is_any, TAIL_BLANKS },
    [KEY_FORM_PADDED_ASCII] = { key_is_ascii, TAIL_BLANKS },
    [KEY_FORM_INTEGER] = { key_is_integer, TAIL_COUNTS },
    [KEY_FORM_OID] = { key_is_oid, TAIL_COUNTS },
    [KEY_FORM_NUMERIC] = { key_is_numeric, TAIL_ZEROS },
    [KEY_FORM_UUID] = { key_is_uuid, TAIL_COUNTS },
    [KEY_FORM_DATE] = { key_is_date, TAIL_COUNTS },
    [KEY_FORM_TIMESTAMP] = { key_is_timestamp, TAIL_COUNTS },
    [KEY_FORM_TIMESTAMPTZ] = { key_is_timestamptz, TAIL_COUNTS },
    [KEY_FORM_SQLITE_NUMBER] = { key_is_sqlite_number, TAIL_COUNTS },
    [KEY_FORM_SQLITE_ANY] = { key_is_sqlite_text, TAIL_COUNTS },
};

static size_t key_trim(const char *text, size_t len, char c)
{
    while (len > 0 && text[len - 1] == c) {
        len--;
    }
    return len;
}

size_t key_form_normalize(enum key_form form, const char *value, size_t len)
{
    if (key_forms[form].tail == TAIL_BLANKS) {
        return key_trim(value, len, ' ');
    }
    if (key_forms[form].tail == TAIL_ZEROS && len > 0 && memchr(value, '.', len)) {
        len = key_trim(value, len, '0');
        /* key_trim stops at the decimal point at the latest. */
        return value[len - 1] == '.' ? len - 1 : len;
    }
    return len;
}

enum key_spelling key_form_spelling(enum key_form form, bg_bytes *key)
{
    const char *text = key->len > 0 ? key->data : "";
    const size_t len = key_form_normalize(form, text, key->len);
    if (!key_forms[form].is_canonical || !key_forms[form].is_canonical(text, len)) {
        return KEY_OTHER;
    }
    key->len = len;
    return KEY_CANONICAL;
}

/* ---- Types ----------------------------------------------------------------------------- */

enum key_form key_form_of_postgres(uint32_t type, char kind, bool deterministic,
                                   bool utf8)
{
    static const struct {
        uint32_t type; /* pg_type.dat */
        enum key_form form, converted;
    } types[] = {
        { 17 /* bytea */, KEY_FORM_BYTES, KEY_FORM_BYTES },
        { 20 /* int8 */, KEY_FORM_INTEGER, KEY_FORM_INTEGER },
        { 21 /* int2 */, KEY_FORM_INTEGER, KEY_FORM_INTEGER },
        { 23 /* int4 */, KEY_FORM_INTEGER, KEY_FORM_INTEGER },
        { 25 /* text */, KEY_FORM_BYTES, KEY_FORM_ASCII },
        { 26 /* oid */, KEY_FORM_OID, KEY_FORM_OID },
        { 1042 /* char(n) */, KEY_FORM_PADDED, KEY_FORM_PADDED_ASCII },
        { 1043 /* varchar */, KEY_FORM_BYTES, KEY_FORM_ASCII },
        { 1082 /* date */, KEY_FORM_DATE, KEY_FORM_DATE },
        { 1114 /* timestamp */, KEY_FORM_TIMESTAMP, KEY_FORM_TIMESTAMP },
        { 1184 /* timestamptz */, KEY_FORM_TIMESTAMPTZ, KEY_FORM_TIMESTAMPTZ },
        { 1700 /* numeric */, KEY_FORM_NUMERIC, KEY_FORM_NUMERIC },
        { 2950 /* uuid */, KEY_FORM_UUID, KEY_FORM_UUID },
    };
    if (!deterministic) {
        return KEY_FORM_UNKNOWN;
    }
    if (kind == 'e') {
        return utf8 ? KEY_FORM_BYTES : KEY_FORM_ASCII;
    }
    for (size_t i = 0; kind == 'b' && i < sizeof types / sizeof *types; i++) {
        if (types[i].type == type) {
            return utf8 ? types[i].form : types[i].converted;
        }
    }
    return KEY_FORM_UNKNOWN;
}

/*
 * The first row whose `part` occurs in the declared type determines the affinity of a column; see "Determination Of
 * Column Affinity" in SQLite's documentation. The declared type ANY means no affinity in a STRICT table and NUMERIC
 * affinity elsewhere; KEY_FORM_SQLITE_ANY is correct in both cases.
 */
enum key_form key_form_of_sqlite(const char *declared, const char *collation, bool utf8)
{
    static const struct {
        const char *part;
        enum key_form form, converted;
    } types[] = {
        { "int", KEY_FORM_SQLITE_NUMBER, KEY_FORM_INTEGER },
        { "char", KEY_FORM_BYTES, KEY_FORM_ASCII },
        { "clob", KEY_FORM_BYTES, KEY_FORM_ASCII },
        { "text", KEY_FORM_BYTES, KEY_FORM_ASCII },
        { "blob", KEY_FORM_SQLITE_ANY, KEY_FORM_UNKNOWN },
        { "real", KEY_FORM_UNKNOWN, KEY_FORM_UNKNOWN },
        { "floa", KEY_FORM_UNKNOWN, KEY_FORM_UNKNOWN },
        { "doub", KEY_FORM_UNKNOWN, KEY_FORM_UNKNOWN },
        { "any", KEY_FORM_SQLITE_ANY, KEY_FORM_UNKNOWN },
        { "", KEY_FORM_SQLITE_NUMBER, KEY_FORM_UNKNOWN }, /* NUMERIC affinity */
    };
    const char *type = declared && *declared ? declared : "blob";
    size_t i = 0;
    if (strcasecmp(collation, "BINARY") != 0) {
        return KEY_FORM_UNKNOWN;
    }
    while (!strcasestr(type, types[i].part)) {
        i++; /* the last row matches any type */
    }
    return utf8 ? types[i].form : types[i].converted;
}
