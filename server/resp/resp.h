/*
 * resp.h - RESP, the Redis protocol: parses requests, and writes replies to a buffer. Requests may
 * arrive in parts or many at once. They are parsed in place, without copying.
 *
 *     *3\r\n$9\r\nBF.EXISTS\r\n$3\r\nkey\r\n$4\r\nitem\r\n       an array of strings
 *     BF.EXISTS key "an item"\r\n                                 a line, as a person types it
 *
 * Usage. There is one parser per connection. The caller keeps received bytes that are not yet
 * consumed contiguous in memory, and calls resp_parse repeatedly:
 *
 *     for (;;) {
 *         switch (resp_parse(&parser, bytes, n)) {
 *         case RESP_OK:      run(parser.argv, parser.argc); break;
 *         case RESP_PARTIAL: bytes += parser.consumed, n -= parser.consumed;
 *                            append more bytes, and try again
 *         case RESP_ERROR:   reply "-ERR " and parser.error, close
 *         }
 *         bytes += parser.consumed, n -= parser.consumed;
 *     }
 *
 * Every call sets `consumed` to the number of bytes at the front of the buffer that are no longer
 * needed. An incomplete request stays in the buffer until the rest of it has arrived. The buffer
 * may move between calls (the parser stores offsets), but its bytes must not change.
 *
 * Results. The strings in argv point into `bytes` and are valid as long as these bytes are. The
 * argv array itself belongs to the parser and is valid until the next call. Callers that collect
 * several pipelined requests must copy the array's elements.
 *
 * Cost. No byte is examined twice, even if a request arrives in small parts, and the bytes of
 * strings are not examined at all. Parsing a 512 MB string or a million arguments costs the same
 * whether the bytes arrive all at once or in parts of 16 KiB. Up to eight arguments are stored in
 * the parser itself. For more arguments, the parser allocates an array that doubles in size as
 * arguments arrive, regardless of the announced count. A large array is freed before the next
 * request.
 *
 * As in Redis, empty lines, "*0" and "*-1" are skipped, and the words of an inline command may be
 * quoted. Double-quoted strings may contain the escapes \n \r \t \b \a \xHH, and \ before any other
 * byte; single-quoted strings may contain only the escape \'. A line is unquoted in place, which is
 * why `bytes` is not const. Strings are binary-safe. Unlike in Redis, each CR must be followed by
 * LF, and the limits do not depend on how the bytes are split across reads.
 *
 * Replies are written in RESP2 or RESP3:
 *
 *     reply      RESP2                RESP3
 *     status     +OK                  the same
 *     error      -ERR not found       the same
 *     integer    :42                  the same
 *     boolean    :1  :0               #t  #f
 *     real       $3 and 0.5           ,0.5       inf, -inf and nan in both
 *     bulk       $4 and its bytes     the same
 *     null       $-1                  _
 *     array      *n                   the same
 *     map        *2n                  %n
 *     set        *n                   ~n
 *
 * The `to` field of a reply points to the struct buffer. A buffer that has overflowed accepts no
 * more bytes (buffer.h).
 */
#ifndef SERVER_RESP_H
#define SERVER_RESP_H

#include "bloomgate/hash.h"
#include "reply.h"
#include "util/buffer.h"

#include <stdbool.h>
#include <stddef.h>

struct resp_limits {
    size_t arguments; /* maximum number of arguments in one request */
    size_t bulk;      /* maximum size of one argument, in bytes */
    size_t line;      /* maximum size of one line (an inline command, or a length) */
    size_t request;   /* maximum total size of one encoded request */
    bool strangers;   /* error messages mention that the client is not authenticated */
};

enum { RESP_BULK_HIGHEST = 512 * 1024 * 1024 }; /* maximum value of `bulk` */

#define RESP_LIMITS_DEFAULT                                                            \
    {                                                                                  \
        .arguments = 1048576, .bulk = (size_t)64 << 20, .line = 65536,                 \
        .request = (size_t)128 << 20                                                   \
    }
/* Limits before AUTH, as in Redis. */
#define RESP_LIMITS_STRANGERS                                                          \
    {                                                                                  \
        .arguments = 10, .bulk = 16384, .line = 65536, .request = 262144,              \
        .strangers = true                                                              \
    }

enum resp_result {
    RESP_OK,      /* a request: argv, argc */
    RESP_PARTIAL, /* the request needs at least `need` more bytes */
    RESP_ERROR    /* not RESP (see `error`); persists */
};

enum { RESP_FEW = 8, RESP_KEEP = 1024, RESP_ERROR_TEXT = 64 };

struct resp_parser {
    /* The result of the last call. */
    bg_bytes *argv;
    size_t argc;
    size_t consumed;
    /* The minimum number of bytes that are still missing. This number comes from the client and is
     * not trusted, so grow the buffer as bytes arrive, not to the announced length. */
    size_t need;
    char error[RESP_ERROR_TEXT]; /* "Protocol error: ..." */
    bool refused;                /* the error was caused by a failed allocation */

    /* May be changed between requests, for example after AUTH. */
    const struct resp_limits *limits;

    /* Private. Until a request is complete, the `data` fields of its arguments are offsets. */
    enum { RESP_FRESH, RESP_ARGUMENTS, RESP_BULK, RESP_FAILED } state;
    size_t at; /* bytes before this offset have been parsed */
    /* number of bytes after `at` that are known to contain no line ending */
    size_t scanned;
    size_t left; /* number of arguments that have not been read yet */
    size_t bulk; /* length of the argument being read */
    size_t room; /* capacity of argv */
    bg_bytes few[RESP_FEW];
};

/* Initializes a parser. The parser points into itself, so it must not be copied. `limits` must
 * outlive the parser. */
void resp_parser_init(struct resp_parser *p, const struct resp_limits *limits);
void resp_parser_free(struct resp_parser *p);

/* Parses the next request as described above. bytes[0] is the first byte that the last call did
 * not consume. */
enum resp_result resp_parse(struct resp_parser *p, char *bytes, size_t n);

/* ---- Replies -------------------------------------------------------------------------------- */

extern const struct reply_ops resp2_reply_ops, resp3_reply_ops;

/* Returns a reply that writes RESP2 or RESP3 to a buffer. */
struct reply resp_reply_to(struct buffer *out, int protocol);

/* Writes human-readable text as a verbatim string ("=15", "txt:" and its bytes) in RESP3 or as a
 * bulk string in RESP2. */
void resp_reply_verbatim(const struct reply *r, const void *bytes, size_t n);

enum { RESP_REAL_TEXT = 32 };

/* Writes the shortest decimal number that parses to the same double, or inf, -inf or nan. Returns
 * the length. */
size_t resp_reply_real_text(double value, char text[RESP_REAL_TEXT]);

#endif
