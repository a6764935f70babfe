/*
 * fuzz_packed.c - an input is a packed filter: arbitrary bytes, or bytes whose trailer has been
 * corrected so that the filter can be opened. Queries on an opened filter never read outside its
 * memory, and batches agree with single lookups. A filter packed from the input's keys answers
 * "maybe" for all of them.
 */
#include "bloomgate/all.h"
#include "fuzz.h"
#include "fuzz_input.h"

enum { ASKED = 70, KEYS_MAX = 64 };

static void ask(const bg_packed *packed, uint64_t seed)
{
    uint64_t hashes[ASKED], maybe[BG_BITMAP_WORDS(ASKED)];
    for (unsigned i = 0; i < ASKED; i++) {
        hashes[i] = (seed + i) * 0x9e3779b97f4a7c15u;
    }
    hashes[0] = 0;
    hashes[1] = UINT64_MAX;
    (void)bg_packed_may_contain_hashes(packed, hashes, ASKED, maybe);
    for (unsigned i = 0; i < ASKED; i++) {
        FUZZ_MUST(bg_packed_may_contain_hash(packed, hashes[i])
                  == (maybe[i / 64] >> i % 64 & 1));
    }
}

/* Opens the bytes in a buffer of exactly their size, so that an overrun is detected. */
static void open_bytes(struct fuzz_input *in, bool made_good)
{
    size_t n = made_good ? in->left / 8 * 8 : in->left;
    unsigned char *bytes = malloc(n ? n : 1);
    bg_packed *packed;
    bg_errinfo why;
    FUZZ_MUST(bytes != NULL);
    fuzz_take(in, bytes, n);
    if (made_good && n >= 8) {
        static const unsigned char mark[] = { 1, 'b', 'g' };
        memcpy(bytes + n - sizeof mark, mark, sizeof mark);
        bytes[n - 7] = bytes[n - 8] < 4 ? 0 : bytes[n - 7];
    }
    bg_err err = bg_packed_open(bytes, n, &packed, &why);
    FUZZ_MUST((err == BG_OK) == (packed != NULL));
    if (packed) {
        ask(packed, n);
    }
    bg_packed_free(packed);
    free(bytes);
}

static bg_filter *some_filter(struct fuzz_input *in, const uint64_t *hashes, size_t n)
{
    static const bg_kind kinds[] = { BG_KIND_BLOCKED,  BG_KIND_SPLIT,
                                     BG_KIND_CLASSIC,  BG_KIND_PARTITIONED,
                                     BG_KIND_REGISTER, BG_KIND_FUSE,
                                     BG_KIND_RIBBON,   BG_KIND_BLOCKED };
    bg_spec spec = BG_SPEC_INIT;
    bg_builder *builder;
    bg_filter *filter = NULL;
    uint8_t what = fuzz_byte(in);
    spec.kind = (uint32_t)kinds[what & 7];
    spec.rate = what & 8 ? 0.01 : 0.0001;
    spec.width = spec.kind == BG_KIND_FUSE && what & 16 ? 4 : 0;
    FUZZ_MUST(bg_builder_create(&spec, &builder, NULL) == BG_OK);
    FUZZ_MUST(bg_builder_add_many(builder, bg_keys_hashes(hashes, n)) == BG_OK);
    /* Building from arbitrary hashes can fail. */
    (void)!bg_builder_finish(builder, &filter, NULL);
    bg_builder_free(builder);
    return filter;
}

static void pack_keys(struct fuzz_input *in)
{
    uint64_t hashes[KEYS_MAX];
    size_t keys = fuzz_byte(in) % KEYS_MAX, n = 0;
    bg_packed *packed;
    for (size_t i = 0; i < keys; i++) {
        hashes[i] = fuzz_u64(in);
    }
    bg_filter *filter = some_filter(in, hashes, keys);
    if (!filter) {
        return;
    }
    FUZZ_MUST(bg_packed_encode(filter, NULL, 0, &n, NULL) == BG_OK);
    unsigned char *bytes = malloc(n);
    FUZZ_MUST(bytes && bg_packed_encode(filter, bytes, n, &n, NULL) == BG_OK);
    FUZZ_MUST(bg_packed_open(bytes, n, &packed, NULL) == BG_OK);
    for (size_t i = 0; i < keys; i++) {
        FUZZ_MUST(bg_packed_may_contain_hash(packed, hashes[i]));
    }
    ask(packed, keys);
    bg_packed_free(packed);
    bg_filter_free(filter);
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = { data, size };
    uint8_t mode = fuzz_byte(&in);
    if (mode % 4 == 3) {
        pack_keys(&in);
    } else {
        open_bytes(&in, mode % 4 != 0);
    }
    return 0;
}
