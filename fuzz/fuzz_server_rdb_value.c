/*
 * fuzz_server_rdb_value.c - parses the output of DUMP, as a migration reads it from another server.
 * The harness adds the first byte and the checksum to the input. An accepted value must support
 * queries. The input is also decompressed as LZF, into a buffer of exactly the announced size.
 */
#define _GNU_SOURCE /* locks */

#include "bytes.h"
#include "fuzz.h"
#include "rdb_value.h"

#include <stdlib.h>
#include <string.h>

static void fuzz_value(const uint8_t *data, size_t size)
{
    const struct command_settings settings = { .max_filter_bytes = 1 << 14 };
    const bg_bytes key = { "key", 3 };
    struct object *object = NULL;
    bg_errinfo info;
    uint64_t maybe = 0;
    uint8_t *value = malloc(size + 9);
    FUZZ_MUST(value);
    value[0] = 7;
    if (size) {
        memcpy(value + 1, data, size);
    }
    bytes_store64(value + 1 + size, rdb_value_checksum(value, 1 + size));
    if (!rdb_value_object(value, size + 9, &settings, &object, &info)) {
        (void)object_may_contain_many(object, &key, 1, &maybe);
        object_free(object);
    } else {
        FUZZ_MUST(!object && info.message[0]);
    }
    free(value);
}

static void fuzz_lzf(const uint8_t *data, size_t size)
{
    if (size > 2) {
        const size_t room = bytes_load16(data);
        uint8_t *to = malloc(room ? room : 1);
        FUZZ_MUST(to);
        (void)rdb_lzf_expand(data + 2, size - 2, to, room);
        free(to);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_value(data, size);
    fuzz_lzf(data, size);
    return 0;
}
