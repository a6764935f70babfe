/*
 * fuzz_foreign.c - an input is a foreign filter: the first byte selects the format, the second
 * selects the options, and the rest is the file. It must be possible to query an accepted filter,
 * add keys to it, remove keys if the format supports removal, write it, and read it back. An added
 * key must always be found afterwards.
 *
 * If the first byte is 192 or above, a filter is created instead, from an item count, a rate and a
 * seed in the input.
 */
#include "bloomgate/all.h"
#include "fuzz.h"
#include "fuzz_input.h"
#include "fuzz_move.h"

enum { MEMORY_MAX = 1 << 14, KEY_MAX = 64, KEYS = 8 };

static const uint32_t versions[] = { 0, 1, 2, 3, 32, 64 };

/* Writes key i, which is derived from the end of the input and has the size that the format
 * requires. Returns its length. */
static size_t key_of(const bg_foreign_options *how, const uint8_t *data, size_t size,
                     unsigned i, uint8_t key[KEY_MAX])
{
    size_t len = how->keys == BG_FOREIGN_KEYS_INT32   ? 4
                 : how->keys == BG_FOREIGN_KEYS_INT64 ? 8
                                                      : (i * 7 + size) % KEY_MAX;
    len -= how->keys == BG_FOREIGN_KEYS_UTF16 ? len % 2 : 0;
    for (size_t j = 0; j < len; j++) {
        key[j] = (uint8_t)(j * 37 + i + (j < size ? data[size - 1 - j] : 0));
    }
    return len;
}

static void check_read_again(const bg_foreign *foreign, const bg_foreign_options *how,
                             const void *key, size_t len, bool asked)
{
    size_t n = 0, again_n = 0;
    bg_foreign_info about = { .struct_size = sizeof about };
    bg_foreign *again = NULL;
    FUZZ_MUST(bg_foreign_get_info(foreign, &about) == BG_OK);
    FUZZ_MUST(about.rate >= 0 && about.rate <= 1);
    FUZZ_MUST(bg_foreign_size_bytes(foreign) <= MEMORY_MAX);
    const bg_foreign_format format = (bg_foreign_format)about.format;
    bg_err err = bg_foreign_encode(foreign, NULL, 0, &n, NULL);
    if (!(bg_foreign_traits(format) & BG_FOREIGN_CAN_WRITE)) {
        FUZZ_MUST(err == BG_ENOTSUP);
        return;
    }
    FUZZ_MUST(err == BG_OK);
    uint8_t *bytes = malloc(2 * n + 1);
    FUZZ_MUST(bytes);
    FUZZ_MUST(bg_foreign_encode(foreign, bytes, n, &n, NULL) == BG_OK);
    FUZZ_MUST(bg_foreign_decode(format, bytes, n, how, &again, NULL) == BG_OK);
    FUZZ_MUST(bg_foreign_may_contain(again, key, len) == asked);
    FUZZ_MUST(bg_foreign_encode(again, bytes + n, n, &again_n, NULL) == BG_OK);
    FUZZ_MUST(again_n == n && memcmp(bytes, bytes + n, n) == 0);
    bg_foreign_free(again);
    free(bytes);
}

/* If the format supports removal, one occurrence of a present key can be removed; otherwise,
 * removal returns BG_ENOTSUP. */
static void check_remove(bg_foreign *foreign, const void *key, size_t len)
{
    bg_foreign_info about = { .struct_size = sizeof about };
    FUZZ_MUST(bg_foreign_get_info(foreign, &about) == BG_OK);
    const uint64_t before = bg_foreign_count(foreign, key, len);
    const bg_err err = bg_foreign_remove(foreign, key, len, NULL);
    if (!(bg_foreign_traits((bg_foreign_format)about.format) & BG_FOREIGN_CAN_REMOVE)) {
        FUZZ_MUST(err == BG_ENOTSUP && before <= 1);
        return;
    }
    FUZZ_MUST(err == (before ? BG_OK : BG_ENOTFOUND));
    /* Other fingerprints may have moved to slots where they match this key, so the count might not
     * decrease. Adding the key again might fail because its slot is now in use. */
    const uint64_t after = bg_foreign_count(foreign, key, len);
    FUZZ_MUST(err ? after == before : after + 1 >= before);
    const bg_err again = err ? BG_OK : bg_foreign_add(foreign, key, len, NULL);
    FUZZ_MUST(again == BG_OK || again == BG_EFULL);
    const uint64_t times = bg_foreign_count(foreign, key, len);
    FUZZ_MUST(bg_foreign_compact(foreign, NULL) == BG_OK);
    FUZZ_MUST(bg_foreign_count(foreign, key, len) >= times);
}

static void use(bg_foreign *foreign, const bg_foreign_options *how, const uint8_t *data,
                size_t size)
{
    uint8_t key[KEY_MAX];
    size_t len = key_of(how, data, size, 0, key);
    check_read_again(foreign, how, key, len, bg_foreign_may_contain(foreign, key, len));
    for (unsigned i = 0; i < KEYS; i++) {
        len = key_of(how, data, size, i, key);
        bg_err err = bg_foreign_add(foreign, key, len, NULL);
        FUZZ_MUST(err || bg_foreign_may_contain(foreign, key, len));
        check_remove(foreign, key, len);
    }
    check_read_again(foreign, how, key, len, bg_foreign_may_contain(foreign, key, len));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = { data, size };
    const uint8_t first = fuzz_byte(&in), second = fuzz_byte(&in);
    /* Formats are selected by ID, not by their position in a list, so that existing corpus files
     * keep their meaning. */
    const bg_foreign_format format = (bg_foreign_format)(first % 32);
    bg_foreign_options how = BG_FOREIGN_OPTIONS_INIT;
    bg_foreign *foreign = NULL;
    bg_err err;
    bg_foreign_format same;
    if (!bg_foreign_parse(bg_foreign_name(format), &same)) {
        FUZZ_MUST(bg_foreign_traits(format) == 0);
        FUZZ_MUST(bg_foreign_decode(format, data, size, NULL, &foreign, NULL)
                  == BG_EINVAL);
        return 0;
    }
    FUZZ_MUST(same == format);
    how.keys = second % 5;
    how.version = versions[second / 5 % 6];
    how.part = second / 30 % 2;
    how.secret = (const uint8_t *)"0123456789abcdef";
    how.max_bytes = MEMORY_MAX;
    how.allocator = &fuzz_memory;
    if (first / 64 == 3) {
        const uint64_t items = fuzz_any(&in);
        const double rate = fuzz_double(&in);
        how.seed = fuzz_any(&in);
        err = bg_foreign_create(format, items, rate, &how, &foreign, NULL);
        /* When a filter is read, only the squid format needs the seed again. */
        how.seed = format == BG_FOREIGN_SQUID ? how.seed : 0;
    } else {
        err = bg_foreign_decode(format, in.data, in.left, &how, &foreign, NULL);
    }
    FUZZ_MUST((err == BG_OK) == (foreign != NULL));
    if (foreign) {
        how.part = 0; /* a written file has only one part */
        use(foreign, &how, in.data, in.left);
        bg_foreign_relocate(&foreign, &fuzz_mover);
        FUZZ_MUST(bg_foreign_allocator(foreign)->release == fuzz_memory.release);
        use(foreign, &how, in.data, in.left);
        bg_foreign_free(foreign);
    }
    return 0;
}
