/*
 * fuzz_leveldb.c - filters in LevelDB tables. The input is either arbitrary bytes, which are
 * queried as a filter, or a list of keys. Queries must not read beyond the end of the bytes. A
 * filter built from the keys must answer "maybe" for all of them, even after one of its bytes has
 * been changed.
 */
#include "bloomgate_leveldb.h"
#include "fuzz.h"
#include "fuzz_input.h"

#include <string.h>

enum { MOST_KEYS = 300 };

static bg_leveldb_codec *take_codec(struct fuzz_input *in)
{
    bg_leveldb_options options = BG_LEVELDB_OPTIONS_INIT;
    bg_leveldb_codec *codec;
    bg_errinfo why;
    options.kind = fuzz_byte(in) % 16;
    options.bits_per_key = fuzz_byte(in) % 30;
    options.hash.seed = fuzz_byte(in) % 2;
    bg_err err = bg_leveldb_codec_create(&options, &codec, &why);
    FUZZ_MUST(err == BG_OK || (err == BG_EINVAL && !codec && why.message[0]));
    if (err) {
        FUZZ_MUST(bg_leveldb_codec_create(NULL, &codec, NULL) == BG_OK);
    }
    FUZZ_MUST(strncmp(bg_leveldb_codec_name(codec), BG_LEVELDB_NAME, 18) == 0);
    return codec;
}

/* Queries arbitrary bytes in a buffer of exactly their size. If the input requests it, tries all
 * 256 check values. */
static void ask_bytes(const bg_leveldb_codec *codec, struct fuzz_input *in)
{
    size_t bytes = in->left;
    char *filter = malloc(bytes + !bytes);
    FUZZ_MUST(filter != NULL);
    if (bytes) {
        memcpy(filter, in->data, bytes);
    }
    size_t denied = 0, checks = bytes >= 2 && filter[1] % 2 ? 256 : 1;
    for (size_t check = 0; check < checks; check++) {
        if (checks > 1) {
            filter[1] = (char)check;
        }
        denied += !bg_leveldb_codec_may_match(codec, "key", 3, filter, bytes);
    }
    FUZZ_MUST(denied <= 1); /* at most one check value is correct */
    free(filter);
}

static void ask_made(const bg_leveldb_codec *codec, struct fuzz_input *in)
{
    const char *keys[MOST_KEYS] = { 0 };
    size_t lengths[MOST_KEYS] = { 0 }, n = 0, bytes;
    uint32_t where = fuzz_u32(in);
    uint8_t flip = fuzz_byte(in);
    while (in->left > 0 && n < MOST_KEYS) {
        lengths[n] = fuzz_byte(in) % 16;
        lengths[n] = lengths[n] < in->left ? lengths[n] : in->left;
        keys[n++] = (const char *)in->data;
        in->data += lengths[n - 1];
        in->left -= lengths[n - 1];
    }
    char *filter = bg_leveldb_codec_make(codec, keys, lengths, n, &bytes);
    FUZZ_MUST((bytes == 0) == (n == 0));
    if (bytes && flip) {
        filter[where % bytes] = (char)(filter[where % bytes] ^ flip);
    }
    for (size_t i = 0; i < n; i++) {
        FUZZ_MUST(
            bg_leveldb_codec_may_match(codec, keys[i], lengths[i], filter, bytes));
    }
    free(filter);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = { data, size };
    uint8_t how = fuzz_byte(&in);
    bg_leveldb_codec *codec = take_codec(&in);
    if (how % 2) {
        ask_bytes(codec, &in);
    } else {
        ask_made(codec, &in);
    }
    bg_leveldb_codec_free(codec);
    return 0;
}
