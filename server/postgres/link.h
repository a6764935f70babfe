/*
 * postgres/link.h - one connection to PostgreSQL, for one thread at a time.
 *
 * libpq never blocks here: every wait ends at its deadline (0 means no deadline) or soon after the source is stopped,
 * even if the server hangs or the network drops all packets.
 */
#ifndef SERVER_POSTGRES_LINK_H
#define SERVER_POSTGRES_LINK_H

#include "source/driver.h"

#include <libpq-fe.h>

/* PostgreSQL types with special handling; the OIDs are those in pg_type.dat. */
enum {
    PG_BYTEA = 17,
    PG_NAME = 19,
    PG_INT8 = 20,
    PG_INT2 = 21,
    PG_INT4 = 23,
    PG_TEXT = 25,
    PG_BPCHAR = 1042,
    PG_VARCHAR = 1043
};

/* Settings that determine how values are printed. If `local` is "true", the settings apply to the current transaction
 * only. */
#define PG_SPELLING(local)                                                             \
    "set_config('datestyle', 'ISO', " local "),"                                       \
    " set_config('timezone', 'UTC', " local "),"                                       \
    " set_config('intervalstyle', 'postgres', " local "),"                             \
    " set_config('extra_float_digits', '1', " local "),"                               \
    " set_config('bytea_output', 'hex', " local "),"                                   \
    " set_config('row_security', 'off', " local ")"

struct postgres_link {
    struct source *source;
    PGconn *db;
    /* Result of the last failed query, which contains the error code. */
    PGresult *last;
    bool streams;    /* for PG_STREAMS: the server accepts only simple queries */
    bool has_schema; /* postgres_schema_fingerprint has prepared its query */
    char nonce[17];  /* part of the names of prepared statements */
};

/* A parameter of a statement. */
struct postgres_argument {
    const char *data;
    int len;     /* length of binary data */
    bool binary; /* otherwise NUL-terminated text */
    Oid type;    /* 0 if inferred by the server; ignored for prepared statements */
};

enum { PG_ARGUMENTS = 4 };

struct postgres_arguments {
    int n;
    struct postgres_argument list[PG_ARGUMENTS];
};

/* The purpose of a connection. Lookups (PG_ASKS) also have a server-side timeout. Only PG_WRITES and PG_STREAMS
 * may write. PG_STREAMS uses the replication protocol (replication=database). */
enum postgres_link_use { PG_ASKS, PG_READS, PG_WRITES, PG_STREAMS };

/* Connects and configures the session. Errors: BG_EIO. */
bg_err postgres_link_open(struct postgres_link *link, struct source *source,
                          enum postgres_link_use use, uint64_t deadline,
                          bg_errinfo *info);
void postgres_link_close(struct postgres_link *link);
bool postgres_link_is_open(const struct postgres_link *link);

/* Runs one statement. `given` is NULL if the statement has no parameters. If `result` is not NULL, the caller clears
 * *result. */
bg_err postgres_link_run(struct postgres_link *link, const char *what, const char *sql,
                         const struct postgres_arguments *given, uint64_t deadline,
                         PGresult **result, bg_errinfo *info);

/* Runs a statement that has no parameters and returns no rows. */
bg_err postgres_link_do(struct postgres_link *link, const char *what, const char *sql,
                        uint64_t deadline, bg_errinfo *info);

/* postgres_link_prepare prepares a named statement; postgres_link_describe describes its columns
 * and parameters. */
bg_err postgres_link_prepare(struct postgres_link *link, const char *what,
                             const char *name, const char *sql, uint64_t deadline,
                             bg_errinfo *info);
bg_err postgres_link_describe(struct postgres_link *link, const char *what,
                              const char *name, uint64_t deadline, PGresult **result,
                              bg_errinfo *info);

/* Runs a prepared statement. */
bg_err postgres_link_execute(struct postgres_link *link, const char *what,
                             const char *name, const struct postgres_arguments *given,
                             uint64_t deadline, PGresult **result, bg_errinfo *info);

/*
 * These functions read the rows of a result of any size one by one. Call postgres_link_begin, and then
 * postgres_link_next until *row is NULL. To skip the remaining rows, close the connection.
 */
bg_err postgres_link_begin(struct postgres_link *link, const char *what,
                           const char *sql, const struct postgres_arguments *given,
                           bg_errinfo *info);
bg_err postgres_link_next(struct postgres_link *link, const char *what,
                          uint64_t deadline, PGresult **row, bg_errinfo *info);

/* Returns the SQLSTATE of the last error (five characters), or "". */
const char *postgres_link_code(const struct postgres_link *link);

/* Start COPY ... TO STDOUT or START_REPLICATION, and read its output line by line, without newlines, until *line
 * is NULL. The caller may modify a line, and frees it with PQfreemem. */
bg_err postgres_link_copy(struct postgres_link *link, const char *what, const char *sql,
                          bg_errinfo *info);
bg_err postgres_link_copied(struct postgres_link *link, const char *what, char **line,
                            size_t *len, bg_errinfo *info);

/* Normalizes a key that the server printed and adds it to the batch, which must not be full. If `hex` is set, the
 * text consists of \x followed by hex digits. Returns false if out of memory. */
bool postgres_link_put(const struct source *source, const char *text, size_t len,
                       bool hex, struct key_batch *batch);

/* Returns the current time plus the source's timeout. */
uint64_t postgres_link_deadline(const struct source *source);

#endif
