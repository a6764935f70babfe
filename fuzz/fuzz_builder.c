/*
 * fuzz_builder.c - an input is a spec and a list of keys, which can contain duplicates. The keys
 * are passed in all key forms, or as hashes. The built filter must answer "maybe" for every key.
 * Building from the keys in reverse order, with one to three threads, must produce the same filter.
 * A canceled build must keep its keys.
 */
#include "bloomgate/all.h"
#include "fuzz.h"
#include "fuzz_input.h"

enum { KEYS_MOST = 3000 };

static uint64_t keys[KEYS_MOST];

struct watch {
    unsigned calls, stop_at;
    double last;
};

static bool watch_progress(void *context, double share)
{
    struct watch *w = context;
    FUZZ_MUST(share >= w->last && share <= 1);
    w->last = share;
    return ++w->calls != w->stop_at;
}

static size_t read_keys(struct fuzz_input *in)
{
    size_t n = fuzz_u32(in) % KEYS_MOST;
    uint64_t key = 0, step = fuzz_any(in);
    for (size_t i = 0; i < n; i++) {
        if (in->left && i % 16 == 0) {
            step = fuzz_byte(in) % 4 ? step : fuzz_any(in); /* 0: the same key */
        }
        keys[i] = key += step;
    }
    return n;
}

static bg_err add(bg_builder *builder, uint64_t key, unsigned form)
{
    uint64_t little = key;
    unsigned char bytes[8];
    bg_bytes pair = { bytes, 8 };
    for (unsigned b = 0; b < 8; b++) {
        bytes[b] = (unsigned char)(key >> 8 * b);
    }
    switch (form % 5) {
    case 0: return bg_builder_add(builder, bytes, 8);
    case 1: return bg_builder_add_u64(builder, key);
    case 2: return bg_builder_add_many(builder, bg_keys_bytes(&pair, 1));
    case 3: return bg_builder_add_many(builder, bg_keys_fixed(bytes, 8, 1));
    default: return bg_builder_add_many(builder, bg_keys_u64(&little, 1));
    }
}

static void add_all(bg_builder *builder, size_t n, bool hashed, bool backwards)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t key = keys[backwards ? n - 1 - i : i];
        bg_err err = !hashed ? add(builder, key, (unsigned)i)
                     : backwards
                         ? bg_builder_add_hash(builder, key)
                         : bg_builder_add_many(builder, bg_keys_hashes(&key, 1));
        FUZZ_MUST(err == BG_OK);
    }
    FUZZ_MUST(bg_builder_count(builder) == n);
}

static void check_members(const bg_filter *filter, size_t n, bool hashed)
{
    FUZZ_MUST((hashed
                   ? bg_filter_may_contain_many(filter, bg_keys_hashes(keys, n), NULL)
                   : bg_filter_may_contain_many(filter, bg_keys_u64(keys, n), NULL))
              == n);
    for (size_t i = 0; i < n; i++) {
        FUZZ_MUST(hashed ? bg_filter_may_contain_hash(filter, keys[i])
                         : bg_filter_may_contain_u64(filter, keys[i]));
    }
}

static bg_spec read_spec(struct fuzz_input *in)
{
    static const uint32_t kinds[] = { BG_KIND_FUSE, BG_KIND_RIBBON, BG_KIND_AUTO,
                                      BG_KIND_COUNTING };
    bg_spec spec = BG_SPEC_INIT;
    spec.kind = kinds[fuzz_byte(in) % 4];
    spec.k = fuzz_byte(in) % 40;
    spec.width = fuzz_byte(in) % 6;
    uint8_t how = fuzz_byte(in);
    spec.rate = how % 3 == 0 ? fuzz_double(in) : how % 3 == 1 ? 0.01 : 0;
    spec.bytes = how % 3 == 2 ? fuzz_any(in) % 100000 : 0;
    spec.max_bytes = 1 << 22;
    return spec;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = { data, size };
    bg_spec spec = read_spec(&in);
    uint8_t flags = fuzz_byte(&in);
    bool hashed = flags & 1;
    struct watch watch = { 0, flags >> 4, 0 };
    size_t n = read_keys(&in);
    bg_builder *builder = NULL;
    bg_filter *filter = NULL, *again = NULL;
    if (bg_builder_create(&spec, &builder, NULL) != BG_OK) {
        FUZZ_MUST(!builder);
        return 0;
    }
    add_all(builder, n, hashed, false);
    bg_builder_on_progress(builder, watch_progress, &watch);
    bg_err err = bg_builder_finish(builder, &filter, NULL);
    if (err == BG_ECANCELED) {
        FUZZ_MUST(watch.calls == watch.stop_at && !filter);
        bg_builder_on_progress(builder, NULL, NULL);
        err = bg_builder_finish(builder, &filter, NULL);
    }
    if (err == BG_OK) {
        check_members(filter, n, hashed);
        bg_builder_on_progress(builder, NULL, NULL);
        add_all(builder, n, hashed, true);
        FUZZ_MUST(bg_builder_finish_threaded(builder, 1 + flags / 2 % 3, &again, NULL)
                  == BG_OK);
        FUZZ_MUST(bg_filter_equal(filter, again));
    } else {
        FUZZ_MUST(!filter && bg_builder_count(builder) <= n);
    }
    bg_filter_free(filter);
    bg_filter_free(again);
    bg_builder_free(builder);
    return 0;
}
