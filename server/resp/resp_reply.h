/*
 * resp/resp_reply.h - writes replies in RESP2 and RESP3 to a buffer.
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
#ifndef SERVER_RESP_RESP_REPLY_H
#define SERVER_RESP_RESP_REPLY_H

#include "reply.h"
#include "util/buffer.h"

extern const struct reply_ops resp2_reply_ops, resp3_reply_ops;

/* Returns a reply that writes RESP2 or RESP3 to a buffer. */
static inline struct reply resp_reply_to(struct buffer *out, int protocol)
{
    return (struct reply){ protocol == 3 ? &resp3_reply_ops : &resp2_reply_ops, out,
                           protocol };
}

/* Writes human-readable text as a verbatim string ("=15", "txt:" and its bytes) in RESP3 or as a
 * bulk string in RESP2. */
void resp_reply_verbatim(const struct reply *r, const void *bytes, size_t n);

enum { RESP_REAL_TEXT = 32 };

/* Writes the shortest decimal number that parses to the same double, or inf, -inf or nan. Returns
 * the length. */
size_t resp_reply_real_text(double value, char text[RESP_REAL_TEXT]);

#endif
