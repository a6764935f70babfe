/*
 * sqlite/schema.h - verifies the state that must not change while a gate follows SQLite: the key columns, and the
 * objects that record changes.
 *
 * The names of a gate's objects start with the prefix bloomgate_GATE_HASH_INSTANCE_ (source_object):
 *
 *     changes         table: n INTEGER PRIMARY KEY AUTOINCREMENT, token (a random number), key
 *     insert_I        trigger on the table of key column I; records the key of each new row
 *     update_I        trigger on the same table; records changed keys
 *
 * An object must have exactly the SQL that sqlite_objects_make derives from the settings. SQLite stores the text of a
 * CREATE statement unchanged from the name onward. All functions read in the caller's transaction.
 */
#ifndef SERVER_SQLITE_SCHEMA_H
#define SERVER_SQLITE_SCHEMA_H

#include "sqlite/link.h"

enum { SQLITE_OBJECTS = 1 + 2 * KEY_COLUMNS };

struct sqlite_object {
    const char *type; /* table or trigger */
    char *name;
    const char *table; /* table that the object belongs to */
    char *sql;
};

struct sqlite_objects {
    char *prefix;        /* prefix of all names */
    const char *changes; /* name of the change table, which is list[0] */
    struct sqlite_object list[SQLITE_OBJECTS];
    size_t n;
};

/* Returns the objects of a source in the `changes` mode, where source->mode_own starts with them. */
static inline const struct sqlite_objects *sqlite_objects(const struct source *source)
{
    return source->mode_own;
}

/* A comment in the SQL of every object that the service creates. */
extern const char sqlite_objects_sign[];

/* Derives the objects from the settings. The caller frees the result, even after an error. Errors: BG_ENOMEM. */
bg_err sqlite_objects_make(const struct source *source, struct sqlite_objects *objects,
                           bg_errinfo *info);
void sqlite_objects_free(struct sqlite_objects *objects);

/* Validates the key columns, and returns how their values are spelled. Errors: BG_EINVAL if the columns cannot be keys
 * or have different forms. */
bg_err sqlite_schema_columns(struct sqlite_link *link, enum key_form *form,
                             bg_errinfo *info);

/* Reads the schema version, which SQLite increments with every DDL statement, VACUUM and restored backup. */
bg_err sqlite_schema_version(struct sqlite_link *link, int64_t *version,
                             bg_errinfo *info);

/* Verifies that the objects exist with the expected SQL, and that nothing interferes with them. Errors:
 * BG_ENOTFOUND if objects are missing or have different SQL; BG_EINVAL if only the operator can fix the
 * problem. */
bg_err sqlite_schema_verify(struct sqlite_link *link, bg_errinfo *info);

#endif
