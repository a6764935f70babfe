/*
 * postgres/schema.h - verifies the state that must not change while a gate follows PostgreSQL: the server's identity,
 * the tables that contain the key columns, and the objects that the follower depends on.
 *
 * A fingerprint is a hash of rows in the system catalogs. The rows are read with a plain SELECT in the caller's
 * transaction, so the fingerprint belongs to the same snapshot as all other reads in that transaction. The hash
 * includes the xmin of each row, which changes with every update. So two equal fingerprints prove that no DDL was
 * committed between their snapshots, not even DDL that was later undone.
 *
 * COPY and other statements that refer to a table by name use the newest catalogs instead of the snapshot. A
 * reader therefore computes the fingerprint twice: in its own snapshot, and in a new snapshot after the last key.
 * If both fingerprints equal the follower's fingerprint, the names referred to the same tables and columns
 * throughout the read.
 */
#ifndef SERVER_POSTGRES_SCHEMA_H
#define SERVER_POSTGRES_SCHEMA_H

#include "postgres/link.h"

#include <stdio.h>

enum { PG_FINGERPRINT = 33 }; /* size in bytes: 32 hex digits of a SHA-256, and a NUL */

/* The identity of a server and database: "SYSTEM/TIMELINE/DATABASE". */
enum { PG_IDENTITY = 64 };

/* An SQL condition that is true if the table `c` (a row of pg_class) has no replica identity. A deferrable primary key
 * does not count as a replica identity. */
#define POSTGRES_NO_REPLICA_IDENTITY                                                   \
    "c.relreplident <> 'f' AND NOT EXISTS (SELECT FROM pg_catalog.pg_index i"          \
    " WHERE i.indrelid = c.oid AND i.indisvalid AND i.indimmediate"                    \
    " AND CASE c.relreplident WHEN 'd' THEN i.indisprimary"                            \
    " WHEN 'i' THEN i.indisreplident ELSE false END)"

/* The type of the key columns. */
struct postgres_keys {
    /* A base type or an enum. All key columns have the same type. Varchar counts as text. */
    Oid type;
    bool is_enum;
    char name[64];   /* name of the type */
    char labels[33]; /* digest of the enum's labels; changes whenever a label changes */
    enum key_form form;
};

/* Determines the type of the key columns. Errors: BG_EINVAL if the columns have different types or cannot be
 * used as keys. */
bg_err postgres_keys_look(struct postgres_link *link, uint64_t deadline,
                          struct postgres_keys *keys, bg_errinfo *info);

/* Sets source->form and source->prints_hex. These fields describe the keys in the filter. In a mode with a
 * follower, only the follower calls this function, because other threads may see a type that has changed since
 * the follower's last poll. In a mode without a follower, readers and lookup connections call the function. */
void postgres_keys_use(struct source *source, const struct postgres_keys *keys);

/* Resets source->form. The follower calls this function if an epoch ends before it has been reported. Otherwise,
 * lookups would fail if the column's type changed before the next epoch. */
void postgres_keys_forget(struct source *source);

/* Reads the identity. Errors: BG_EINCOMPAT if the server is a standby (in recovery). */
bg_err postgres_schema_identity(struct postgres_link *link, uint64_t deadline,
                                char identity[PG_IDENTITY], bg_errinfo *info);

/* Records the identity that the follower found, for connections that are opened later. */
void postgres_schema_set_identity(struct source *source, const char *identity);

/* Verifies that a connection reached the follower's server, or any primary if the follower has not found a server
 * yet. Errors: BG_EIO. */
bg_err postgres_schema_verify_server(struct postgres_link *link, uint64_t deadline,
                                     bg_errinfo *info);

/* Names of objects that the fingerprint covers in addition to the tables. NULL means that there is
 * no such object. */
struct postgres_objects {
    const char *publication; /* `logical` mode: name of the publication */
    /* `changes` mode: schema of the tables and functions below. */
    const char *schema;
    const char *change_table;
    const char *bookmark;
    const char *guard; /* trigger function that protects these two tables */
    /* Name of the triggers and the trigger function for key column N, without the N. */
    const char *function;
};

/* Validates the tables (see postgres/schema.c) and computes the fingerprint, in the current transaction. All calls
 * for the same connection must pass the same objects. Errors: BG_EINVAL if the tables cannot be followed in this
 * mode. */
bg_err postgres_schema_fingerprint(struct postgres_link *link,
                                   const struct postgres_objects *objects,
                                   uint64_t deadline, char fingerprint[PG_FINGERPRINT],
                                   bg_errinfo *info);

/* Writes two common table expressions: wanted(n, nsp, rel, col) lists the key columns, and root(n, col, oid,
 * relkind) lists the tables that their names refer to in the current snapshot. Returns false if out of memory. */
bool postgres_schema_roots(struct postgres_link *link, FILE *sql);

/* Returns an SQL condition, starting with AND, that excludes pg_inherits rows (alias `i`) for partitions that are
 * being detached. */
const char *postgres_schema_attached(const struct postgres_link *link);

/* Runs a query that starts with the WITH RECURSIVE clause from postgres_schema_roots and continues
 * with `tail`. */
bg_err postgres_schema_query(struct postgres_link *link, const char *what,
                             const char *tail, uint64_t deadline, PGresult **rows,
                             bg_errinfo *info);

/* Rolls back a transaction that creates objects, after the error `err`. Returns the error, or BG_EINVAL with advice in
 * `info` if the role lacks a privilege. */
bg_err postgres_schema_undo(struct postgres_link *link, const char *what, bg_err err,
                            uint64_t deadline, bg_errinfo *info);

/* Writes a string literal. Returns false if out of memory. */
bool postgres_schema_literal(struct postgres_link *link, FILE *sql, const char *text);

#endif
