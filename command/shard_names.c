/* shard_names.c - see shard_names.h. */
#include "shard_names.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- Slots ----------------------------------------------------------------------------------- */

/* CRC16/XMODEM: polynomial x^16 + x^12 + x^5 + 1, high bit first, initial value 0. Processes four
 * bits at a time: entry i of the table is i * x^16 modulo the polynomial. */
static unsigned shard_crc16(const uint8_t *bytes, size_t n)
{
    static const uint16_t nibbles[16] = { 0x0000, 0x1021, 0x2042, 0x3063,
                                          0x4084, 0x50a5, 0x60c6, 0x70e7,
                                          0x8108, 0x9129, 0xa14a, 0xb16b,
                                          0xc18c, 0xd1ad, 0xe1ce, 0xf1ef };
    unsigned crc = 0;
    for (size_t i = 0; i < n; i++) {
        crc = (crc << 4 & 0xffff) ^ nibbles[crc >> 12 ^ bytes[i] >> 4];
        crc = (crc << 4 & 0xffff) ^ nibbles[crc >> 12 ^ (bytes[i] & 15)];
    }
    return crc;
}

unsigned shard_slot(bg_bytes key)
{
    const uint8_t *bytes = key.data;
    const uint8_t *open = key.len ? memchr(bytes, '{', key.len) : NULL;
    size_t n = key.len;
    if (open) {
        const uint8_t *end = bytes + key.len, *tag = open + 1;
        const uint8_t *close = tag < end ? memchr(tag, '}', (size_t)(end - tag)) : NULL;
        if (close && close > tag) {
            bytes = tag;
            n = (size_t)(close - tag);
        }
    }
    return shard_crc16(bytes, n) % SHARD_SLOTS;
}

/* ---- Names ----------------------------------------------------------------------------------- */

/* The largest tag for any number of shards up to SHARDS_MAX is 5724, which a test verifies. */
enum { SHARD_TAGS_TRIED = 10000, SHARD_NO_TAG = UINT16_MAX };

bool shard_tags_make(uint64_t shards, struct shard_tags *tags)
{
    if (shards == 0 || shards > SHARDS_MAX) {
        return false;
    }
    tags->shards = (uint32_t)shards;
    memset(tags->tags, 0xff, shards * sizeof *tags->tags);
    uint32_t left = tags->shards;
    for (unsigned tag = 0; left && tag < SHARD_TAGS_TRIED; tag++) {
        char text[8];
        const int n = snprintf(text, sizeof text, "%u", tag);
        const unsigned slot =
            shard_crc16((const uint8_t *)text, (size_t)n) % SHARD_SLOTS;
        const uint32_t part = slot * tags->shards / SHARD_SLOTS;
        if (tags->tags[part] == SHARD_NO_TAG) {
            tags->tags[part] = (uint16_t)tag;
            left--;
        }
    }
    return left == 0;
}

size_t shard_name(const struct shard_tags *tags, uint32_t i, bg_bytes name, char *to)
{
    const int before = snprintf(to, SHARD_NAME_MORE, "{%u}", tags->tags[i]);
    if (name.len) {
        memcpy(to + before, name.data, name.len);
    }
    const size_t n = (size_t)before + name.len;
    const int after = snprintf(to + n, (size_t)(SHARD_NAME_MORE - before), "/%uof%u", i,
                               tags->shards);
    return n + (size_t)after; /* {9999}/1023of1024 adds 18 bytes to the name */
}

/* ---- Items ----------------------------------------------------------------------------------- */

void shard_route(const bg_bytes *items, size_t n, uint32_t shards, uint16_t *to)
{
    enum { AT_ONCE = 256 };
    const bg_hash_spec how = { .profile = BG_HASH_XXH64, .seed = SHARD_SEED };
    bg_hasher hasher;
    uint64_t hashes[AT_ONCE];
    /* This call cannot fail, because it needs no memory and no secret. */
    if (bg_hasher_init(&hasher, &how, NULL)) {
        memset(to, 0, n * sizeof *to);
        return;
    }
    for (size_t at = 0; at < n; at += AT_ONCE) {
        const size_t now = n - at < AT_ONCE ? n - at : AT_ONCE;
        bg_hash_many(&hasher, bg_keys_bytes(items + at, now), hashes);
        for (size_t i = 0; i < now; i++) {
            const uint64_t low = (hashes[i] & UINT32_MAX) * shards >> 32;
            to[at + i] = (uint16_t)(((hashes[i] >> 32) * shards + low) >> 32);
        }
    }
}

uint64_t shard_capacity(uint64_t items, uint32_t shards)
{
    const double mean = (double)items / shards, often = 1e6 * shards;
    const double l = log(often), v = mean * (1 - 1.0 / shards);
    const double more = l / 3 + sqrt(l * l / 9 + 2 * v * l);
    const double capacity = ceil(mean + more);
    return shards == 1 || capacity >= (double)items ? items : (uint64_t)capacity;
}
