/* redis_reply.h - sends replies (reply.h) through the server, in the client's protocol version. */
#ifndef REDIS_REPLY_H
#define REDIS_REPLY_H

#include "redis_api.h"
#include "reply.h"

/* The destination of a reply, to which `to` in struct reply points. */
struct redis_client {
    RedisModuleCtx *ctx;
    bool failed; /* an error was sent, possibly as one of several replies */
};

extern const struct reply_ops redis_reply_ops;

#endif
