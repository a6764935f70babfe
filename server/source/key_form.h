/*
 * key_form.h - how the values of a key column are spelled.
 *
 * A filter compares bytes; a database compares values. One value can have many spellings: 7, 007
 * and +7; 1.5 and 1.50; a UUID in uppercase. The filter stores the spelling that the database
 * prints. A key is canonical if it does not represent any value, or if it is spelled as the
 * database prints its value. The filter may answer "no" only for canonical keys. All other keys are
 * looked up in the database. This costs a query, but the answer for a present key is never "no".
 *
 * Every database session uses DateStyle ISO, TimeZone UTC and client_encoding UTF8. Values of type
 * bytea and blob are compared as raw bytes, never as hex digits.
 *
 * All functions are pure and thread-safe.
 */
#ifndef SERVER_SOURCE_KEY_FORM_H
#define SERVER_SOURCE_KEY_FORM_H

#include "bloomgate/hash.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum key_form {
    KEY_FORM_UNKNOWN, /* the equality rule is unknown, so only the database can decide */
    /* Text, varchar, enum, bytea, blob: equal values have equal bytes. */
    KEY_FORM_BYTES,
    /* text that undergoes encoding conversion, which preserves only ASCII bytes */
    KEY_FORM_ASCII,
    KEY_FORM_PADDED,       /* char(n): trailing spaces are insignificant */
    KEY_FORM_PADDED_ASCII, /* char(n) that undergoes encoding conversion */
    KEY_FORM_INTEGER,      /* int2, int4, int8 */
    KEY_FORM_OID,          /* oid: -1 is a spelling of 4294967295 */
    KEY_FORM_NUMERIC,      /* trailing zeros of a fraction are insignificant */
    KEY_FORM_UUID,
    KEY_FORM_DATE,
    KEY_FORM_TIMESTAMP,
    KEY_FORM_TIMESTAMPTZ,
    KEY_FORM_SQLITE_NUMBER, /* INTEGER and NUMERIC affinity: text may become a number */
    /* No affinity: numbers differ from text, but 5 equals 5.0. */
    KEY_FORM_SQLITE_ANY,
    KEY_FORMS
};

enum key_spelling {
    /* The key is spelled as the database would print the value, so the filter may decide. */
    KEY_CANONICAL,
    /* The key may be a different spelling of a value, so only the database can decide. */
    KEY_OTHER
};

/*
 * Returns the length of a printed value without its insignificant trailing bytes. The filter stores the value truncated
 * to that length.
 */
size_t key_form_normalize(enum key_form form, const char *value, size_t len);

/*
 * Returns how a lookup key is spelled. A canonical key is shortened to the form that the filter stores; any other key
 * is not changed.
 */
enum key_spelling key_form_spelling(enum key_form form, bg_bytes *key);

/*
 * Returns the form of a PostgreSQL type.
 *   type           pg_type.oid; for a domain, the OID of its base type
 *   kind           pg_type.typtype: 'e' for enums, 'b' for base types
 *   deterministic  pg_collation.collisdeterministic; true for types without a collation
 *   utf8           server_encoding is UTF8 or SQL_ASCII: strings are not converted
 */
enum key_form key_form_of_postgres(uint32_t type, char kind, bool deterministic,
                                   bool utf8);

/*
 * Returns the form of a SQLite column.
 *   declared   its declared type; NULL or "" if it has none
 *   collation  its collating sequence
 *   utf8       PRAGMA encoding is UTF-8: strings are not converted
 */
enum key_form key_form_of_sqlite(const char *declared, const char *collation,
                                 bool utf8);

#endif
