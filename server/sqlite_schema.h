/*
 * sqlite_schema.h - what must not change while a gate follows SQLite: the key columns, and the objects
 * that record changes.
 *
 * The objects of a gate, with names that start with bloomgate_GATE_INSTANCE_:
 *
 *     changes         a table: n INTEGER PRIMARY KEY AUTOINCREMENT, token (a random number), key
 *     insert_I        a trigger on the table of key column I: records the key of each new row
 *     update_I        the same for rows whose key changed
 *
 * An object is expected to have exactly the SQL that sqlite_objects_make derives from the settings: SQLite
 * stores the text of a CREATE statement from the name on. All functions read in the caller's transaction.
 */
#ifndef SERVER_SQLITE_SCHEMA_H
#define SERVER_SQLITE_SCHEMA_H

#include "sqlite_link.h"

enum { SQLITE_OBJECTS = 1 + 2 * KEY_COLUMNS };

struct sqlite_object {
    const char *type; /* table or trigger */
    char *name;
    const char *table; /* to which it belongs */
    char *sql;
};

struct sqlite_objects {
    char *prefix;        /* of all names */
    const char *changes; /* name of the change table, which is list[0] */
    struct sqlite_object list[SQLITE_OBJECTS];
    size_t n;
};

/* A comment in the SQL of all objects that the service created. */
extern const char sqlite_objects_sign[];

/* The caller frees the result also after an error. Errors: BG_ENOMEM. */
bg_err sqlite_objects_make(const struct source *source, struct sqlite_objects *objects,
                           bg_errinfo *info);
void sqlite_objects_free(struct sqlite_objects *objects);

/* Validates the key columns, and returns how their values are spelled. Errors: BG_EINVAL if they cannot be
 * keys, or differ in form. */
bg_err sqlite_schema_columns(struct sqlite_link *link, enum key_form *form,
                             bg_errinfo *info);

/* Reads the schema version: SQLite increments it with every DDL statement, VACUUM, and restored backup. */
bg_err sqlite_schema_version(struct sqlite_link *link, int64_t *version,
                             bg_errinfo *info);

/* Verifies that the objects exist as expected, and that nothing interferes with them. Errors: BG_ENOTFOUND
 * if objects are missing or have different SQL; BG_EINVAL if only the operator can solve it. */
bg_err sqlite_schema_verify(struct sqlite_link *link,
                            const struct sqlite_objects *objects, bg_errinfo *info);

#endif
