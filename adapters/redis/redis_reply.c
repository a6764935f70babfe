/* redis_reply.c - see redis_reply.h. Each function makes one server API call. */
#include "redis_reply.h"

#include "redis_memory.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

static struct redis_client *client_of(void *to)
{
    return to;
}

static void client_status(void *to, const char *text)
{
    (void)redis.ReplyWithSimpleString(client_of(to)->ctx, text);
}

/* An operation refused because of maxmemory fails with OOM, the error code that clients expect. */
static void client_error(void *to, const char *text)
{
    char oom[512];
    client_of(to)->failed = true;
    if (redis_memory_refused() && strncmp(text, "ERR ", 4) == 0) {
        (void)snprintf(oom, sizeof oom, "OOM %s (maxmemory)", text + 4);
        text = oom;
    }
    (void)redis.ReplyWithError(client_of(to)->ctx, text);
}

static void client_integer(void *to, int64_t value)
{
    (void)redis.ReplyWithLongLong(client_of(to)->ctx, value);
}

static void client_boolean(void *to, bool value)
{
    (void)redis.ReplyWithBool(client_of(to)->ctx, value);
}

static void client_booleans(void *to, const uint64_t *bits, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        client_boolean(to, bits[i / 64] >> i % 64 & 1);
    }
}

static void client_real(void *to, double value)
{
    (void)redis.ReplyWithDouble(client_of(to)->ctx, value);
}

static void client_bulk(void *to, const void *bytes, size_t n)
{
    (void)redis.ReplyWithStringBuffer(client_of(to)->ctx, bytes, n);
}

static void client_null(void *to)
{
    (void)redis.ReplyWithNull(client_of(to)->ctx);
}

static long client_length(size_t n)
{
    return n < LONG_MAX ? (long)n : LONG_MAX;
}

static void client_array(void *to, size_t n)
{
    (void)redis.ReplyWithArray(client_of(to)->ctx, client_length(n));
}

static void client_map(void *to, size_t n)
{
    (void)redis.ReplyWithMap(client_of(to)->ctx, client_length(n));
}

static void client_set(void *to, size_t n)
{
    (void)redis.ReplyWithSet(client_of(to)->ctx, client_length(n));
}

const struct reply_ops redis_reply_ops = {
    .status = client_status,
    .error = client_error,
    .integer = client_integer,
    .boolean = client_boolean,
    .booleans = client_booleans,
    .real = client_real,
    .bulk = client_bulk,
    .null = client_null,
    .array = client_array,
    .map = client_map,
    .set = client_set,
};
