/*
 * resp_reply.h - replies in RESP2 and RESP3, written to a buffer.
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
 * `to` of a reply is the struct buffer. A buffer that overflows takes nothing more (buffer.h).
 */
#ifndef SERVER_RESP_REPLY_H
#define SERVER_RESP_REPLY_H

#include "buffer.h"
#include "reply.h"

extern const struct reply_ops resp2_reply_ops, resp3_reply_ops;

/* Replies of protocol 2 or 3 to a buffer. */
static inline struct reply resp_reply_to(struct buffer *out, int protocol)
{
    return (struct reply){ protocol == 3 ? &resp3_reply_ops : &resp2_reply_ops, out,
                           protocol };
}

/* No array: "*-1" where RESP2 has two kinds of nothing, "_" in RESP3. */
void resp_reply_null_array(const struct reply *r);

/* Text for people, which RESP3 marks as such ("=15", "txt:" and its bytes); else a string. */
void resp_reply_verbatim(const struct reply *r, const void *bytes, size_t n);

enum { RESP_REAL_TEXT = 32 };

/* The shortest decimal that reads back as the same double; inf, -inf, nan. Returns its length. */
size_t resp_reply_real_text(double value, char text[RESP_REAL_TEXT]);

#endif
