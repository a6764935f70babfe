/*
 * resp.h - requests in RESP, the protocol of Redis: found in a buffer, piece by piece or many at
 * once, without copying.
 *
 *     *3\r\n$9\r\nBF.EXISTS\r\n$3\r\nkey\r\n$4\r\nitem\r\n       an array of strings
 *     BF.EXISTS key "an item"\r\n                                 a line, as people type it
 *
 * How to use it. One parser per connection. The caller keeps what has arrived and was not
 * consumed yet in one piece of memory, and asks again and again:
 *
 *     for (;;) {
 *         switch (resp_parse(&parser, bytes, n)) {
 *         case RESP_OK:      run(parser.argv, parser.argc); break;
 *         case RESP_PARTIAL: bytes += parser.consumed, n -= parser.consumed;
 *                            read more behind them, and try again
 *         case RESP_ERROR:   reply "-ERR " and parser.error, close
 *         }
 *         bytes += parser.consumed, n -= parser.consumed;
 *     }
 *
 * Every result comes with `consumed`: so many bytes at the front are done with. A request that is
 * not complete stays where it is until the rest is there. Its memory may move between calls (the
 * parser remembers offsets), its bytes may not change.
 *
 * Results. argv points into `bytes` and is good as long as they are; the array itself is the
 * parser's, and good until the next call. Who gathers several requests of a pipeline copies
 * the bg_bytes.
 *
 * Cost. No byte is looked at twice however small the pieces are, and the bytes of strings are not
 * looked at at all: a string of 512 MB or a million arguments that arrive in 16 KiB pieces cost
 * as much as in one. Eight arguments fit into the parser; for more it has memory that doubles
 * as arguments really arrive, whatever was announced, and that is given back before the next
 * request if it is large.
 *
 * As in Redis: empty lines, "*0" and "*-1" are skipped; words of a line may be quoted, "..." with
 * \n \r \t \b \a \xHH and \ before any other byte, '...' with \' only. A line is unquoted in
 * place, which is why `bytes` is not const. Strings are binary-safe. Other than in Redis, each
 * CR must be followed by LF, and the limits do not depend on how the bytes were cut.
 */
#ifndef SERVER_RESP_H
#define SERVER_RESP_H

#include "bloomgate/hash.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct resp_limits {
    size_t arguments; /* of one request */
    size_t bulk;      /* bytes of one argument */
    size_t line;      /* bytes of one line: an inline command, or a length */
    size_t request;   /* bytes of one request in all, as it is sent */
    bool strangers;   /* errors say that one has to log in first */
};

enum { RESP_BULK_HIGHEST = 512 * 1024 * 1024 }; /* what `bulk` may be set to */

#define RESP_LIMITS_DEFAULT                                                            \
    {                                                                                  \
        .arguments = 1048576, .bulk = (size_t)64 << 20, .line = 65536,                 \
        .request = (size_t)128 << 20                                                   \
    }
/* Before AUTH, as in Redis. */
#define RESP_LIMITS_STRANGERS                                                          \
    {                                                                                  \
        .arguments = 10, .bulk = 16384, .line = 65536, .request = 262144,              \
        .strangers = true                                                              \
    }

enum resp_result {
    RESP_OK,      /* a request: argv, argc */
    RESP_PARTIAL, /* needs more bytes: `need` at least */
    RESP_ERROR    /* no RESP: `error`; and so for ever, until resp_parser_reset */
};

enum { RESP_FEW = 8, RESP_KEEP = 1024, RESP_ERROR_TEXT = 64 };

struct resp_parser {
    /* What the last call found. */
    bg_bytes *argv;
    size_t argc;
    size_t consumed;
    size_t
        need; /* bytes that are certainly missing. A hint for sizing a buffer, by strangers:
                 * it should grow with what has arrived, not with what was announced. */
    char error[RESP_ERROR_TEXT]; /* "Protocol error: ..." */
    bool refused;                /* the error is that there is no memory */

    /* May be changed between requests, for example after AUTH. */
    const struct resp_limits *limits;

    /* Private. Until a request is complete, `data` of its arguments are offsets. */
    enum { RESP_FRESH, RESP_ARGUMENTS, RESP_BULK, RESP_FAILED } state;
    size_t at;      /* what is before it is parsed */
    size_t scanned; /* so many bytes from there on do not end the line */
    size_t left;    /* arguments that are missing */
    size_t bulk;    /* length of the one that is waited for */
    size_t room;    /* of argv */
    bg_bytes few[RESP_FEW];
};

/* A parser points into itself: it must not be copied. `limits` must outlive it. */
void resp_parser_init(struct resp_parser *p, const struct resp_limits *limits);
void resp_parser_free(struct resp_parser *p);

/* Forgets a request that was begun, or an error. */
void resp_parser_reset(struct resp_parser *p);

/* One step, as above. bytes[0..n) begins where the last call's `consumed` ended. */
enum resp_result resp_parse(struct resp_parser *p, char *bytes, size_t n);

#endif
