/* redis_reply.h - replies (reply.h) carried by the server, in the protocol of its client. */
#ifndef REDIS_REPLY_H
#define REDIS_REPLY_H

#include "redis_api.h"
#include "reply.h"

/* What a reply goes to: `to` of struct reply. */
struct redis_client {
    RedisModuleCtx *ctx;
    bool failed; /* an error was sent, maybe as one of several replies */
};

extern const struct reply_ops redis_reply_ops;

#endif
