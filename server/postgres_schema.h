/*
 * postgres_schema.h - what must not change while a gate follows PostgreSQL: the server's identity, the
 * tables behind the key columns, and the objects that following depends on.
 *
 * A fingerprint is a hash over rows of the system catalogs, read by plain SELECT in the caller's transaction, so
 * it belongs to the same snapshot as everything else in that transaction. It includes the xmin of each row,
 * which changes with every update. So two equal fingerprints prove that no DDL was committed between the
 * two snapshots, not even DDL that was undone.
 */
#ifndef SERVER_POSTGRES_SCHEMA_H
#define SERVER_POSTGRES_SCHEMA_H

#include "postgres_link.h"

enum { PG_FINGERPRINT = 33 }; /* bytes: MD5 in hex, and a NUL */

/* The identity of a server and database: "SYSTEM/TIMELINE/DATABASE". */
enum { PG_IDENTITY = 64 };

/* The type of the key columns. */
struct postgres_keys {
    Oid type; /* a base type; the same for all columns */
    enum key_form form;
};

/* Determines the type of the key columns, and sets source->form. Errors: BG_EINVAL if the columns differ in
 * type or cannot be keys. */
bg_err postgres_keys_look(struct postgres_link *link, uint64_t deadline,
                          struct postgres_keys *keys, bg_errinfo *info);

/* Reads the identity. Errors: BG_EINCOMPAT if the server is a standby (in recovery). */
bg_err postgres_schema_identity(struct postgres_link *link, uint64_t deadline,
                                char identity[PG_IDENTITY], bg_errinfo *info);

/* Remembers the identity that the follower found, for connections that are made from now on. */
void postgres_schema_set_identity(struct source *source, const char *identity);

/* Verifies that a connection reached the server that the follower follows; any primary if the
 * follower has not found one yet. Errors: BG_EIO. */
bg_err postgres_schema_verify_server(struct postgres_link *link, uint64_t deadline,
                                     bg_errinfo *info);

/* Objects that are part of the fingerprint besides the tables. NULL: none. */
struct postgres_objects {
    const char *publication;  /* name (logical) */
    const char *schema;       /* of the following tables and functions (changes) */
    const char *change_table; /* change table and bookmark */
    const char *bookmark;
    const char *function; /* of the triggers; its name is also that of the triggers */
};

/* Validates the tables (see the design in postgres_schema.c) and computes the fingerprint, in the
 * current transaction. Errors: BG_EINVAL: the tables cannot be followed in this mode. */
bg_err postgres_schema_fingerprint(struct postgres_link *link,
                                   const struct postgres_objects *objects,
                                   uint64_t deadline, char fingerprint[PG_FINGERPRINT],
                                   bg_errinfo *info);

#endif
