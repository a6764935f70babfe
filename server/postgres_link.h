/*
 * postgres_link.h - one connection to PostgreSQL, for one thread at a time.
 *
 * libpq is used without ever blocking: every wait has a deadline (0: none) and ends soon when the
 * source is stopped, also if the server hangs or the network swallows everything.
 */
#ifndef SERVER_POSTGRES_LINK_H
#define SERVER_POSTGRES_LINK_H

#include "source_inside.h"

#include <libpq-fe.h>

enum { /* types of PostgreSQL that are treated in their own way: pg_type.dat */
       PG_BYTEA = 17,
       PG_NAME = 19,
       PG_INT8 = 20,
       PG_INT2 = 21,
       PG_INT4 = 23,
       PG_TEXT = 25,
       PG_FLOAT4 = 700,
       PG_FLOAT8 = 701,
       PG_BPCHAR = 1042,
       PG_VARCHAR = 1043,
       PG_DATE = 1082,
       PG_TIMESTAMP = 1114,
       PG_TIMESTAMPTZ = 1184,
       PG_NUMERIC = 1700,
       PG_XID8 = 5069
};

/* Settings that decide how values are printed. `local`: "true" for the current transaction only. */
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
    PGresult *last;  /* the last error's, for its code */
    bool streams;    /* PG_STREAMS: the server accepts simple queries only */
    bool has_schema; /* postgres_schema_fingerprint has prepared its query */
    char nonce[17];  /* part of the names of its prepared statements */
};

/* Parameters of a statement. */
struct postgres_argument {
    const char *data;
    int len;     /* of binary ones */
    bool binary; /* else text, with a NUL at its end */
    Oid type;    /* 0: the server infers it; prepared statements have their own */
};

enum { PG_ARGUMENTS = 4 };

struct postgres_arguments {
    int n;
    struct postgres_argument list[PG_ARGUMENTS];
};

/* What a connection is for: lookups have a timeout on the server as well, only writers may write, and
 * PG_STREAMS speaks the replication protocol (replication=database). */
enum postgres_link_use { PG_ASKS, PG_READS, PG_WRITES, PG_STREAMS };

/* Connects and sets the session up. Errors: BG_EIO. */
bg_err postgres_link_open(struct postgres_link *link, struct source *source,
                          enum postgres_link_use use, uint64_t deadline,
                          bg_errinfo *info);
void postgres_link_close(struct postgres_link *link);
bool postgres_link_is_open(const struct postgres_link *link);

/* Runs one statement; `given` NULL: it has no parameters; *result (unless NULL) must be cleared. */
bg_err postgres_link_run(struct postgres_link *link, const char *what, const char *sql,
                         const struct postgres_arguments *given, uint64_t deadline,
                         PGresult **result, bg_errinfo *info);

/* The same without arguments or result. */
bg_err postgres_link_do(struct postgres_link *link, const char *what, const char *sql,
                        uint64_t deadline, bg_errinfo *info);

/* Prepares a statement under a name; and describes it: columns and parameters. */
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
 * Rows one by one, of a statement of any size: begin, then next until *row is NULL. A reader that
 * does not want the rest closes the connection.
 */
bg_err postgres_link_begin(struct postgres_link *link, const char *what,
                           const char *sql, const struct postgres_arguments *given,
                           bg_errinfo *info);
bg_err postgres_link_next(struct postgres_link *link, const char *what,
                          uint64_t deadline, PGresult **row, bg_errinfo *info);

/* The code of the last error, five characters, or "". */
const char *postgres_link_code(const struct postgres_link *link);

/* Starts COPY ... TO STDOUT, or START_REPLICATION; then reads its lines, without the newline, until *line is NULL. The caller frees
 * a line with PQfreemem and may change it. */
bg_err postgres_link_copy(struct postgres_link *link, const char *what, const char *sql,
                          bg_errinfo *info);
bg_err postgres_link_copied(struct postgres_link *link, const char *what, char **line,
                            size_t *len, bg_errinfo *info);

/* Adds a key that the server printed to the batch, normalized; `hex`: it is \x and hex digits. The batch
 * must not be full. False if memory is short. */
bool postgres_link_put(const struct source *source, const char *text, size_t len,
                       bool hex, struct key_batch *batch);

/* Returns now plus the timeout of the source. */
uint64_t postgres_link_deadline(const struct source *source);

#endif
