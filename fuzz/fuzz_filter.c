/*
 * fuzz_filter.c - an input is a program that creates filters from any spec, adds and queries
 * keys, merges, folds, copies and clears filters, and switches instruction sets. Each filter is
 * compared with the exact set of its keys. A filter must never answer "no" for a member. An add
 * must report a key as new if and only if the preceding lookup did not find it. The kinds tested
 * here must accept every add. A batch must give the same results as single calls. A merge must
 * produce the union, folds and copies must keep all members, and a refused merge must change
 * nothing.
 */
#include "bloomgate/all.h"
#include "fuzz.h"
#include "fuzz_input.h"

#include <math.h>

enum {
    SLOTS = 3,
    KEYS_MOST = 400,
    BATCH_MAX = 200,
    STEPS_MAX = 60,
    BYTES_MAX = 1 << 20
};

struct slot {
    bg_filter *filter;
    void *memory; /* memory for bg_filter_create_at; NULL otherwise */
    size_t n;
    uint64_t key[KEYS_MOST];
};

static struct slot slots[SLOTS];
static const uint8_t secret[BG_SECRET_BYTES] = { 1, 2, 3, 4, 5 };

/* ---- The exact sets -------------------------------------------------------------- */

static bool slot_has(const struct slot *s, uint64_t key)
{
    for (size_t i = 0; i < s->n; i++) {
        if (s->key[i] == key) {
            return true;
        }
    }
    return false;
}

static bool slot_note(struct slot *s, uint64_t key)
{
    if (slot_has(s, key)) {
        return true;
    }
    if (s->n == KEYS_MOST) {
        return false;
    }
    s->key[s->n++] = key;
    return true;
}

static void slot_free(struct slot *s)
{
    bg_filter_free(s->filter);
    free(s->memory);
    s->filter = NULL;
    s->memory = NULL;
    s->n = 0;
}

static void check_members(const struct slot *s)
{
    FUZZ_MUST(bg_filter_may_contain_many(s->filter, bg_keys_u64(s->key, s->n), NULL)
              == s->n);
    for (size_t i = 0; i < s->n; i++) {
        FUZZ_MUST(bg_filter_may_contain_u64(s->filter, s->key[i]));
    }
}

static bg_filter *must_copy(const bg_filter *filter)
{
    bg_filter *copy = NULL;
    FUZZ_MUST(bg_filter_copy(filter, &copy, NULL) == BG_OK);
    FUZZ_MUST(bg_filter_equal(filter, copy));
    return copy;
}

/* Reads a key from a small range, where keys often repeat, or from the full range. */
static uint64_t take_key(struct fuzz_input *in)
{
    uint8_t how = fuzz_byte(in);
    return how & 1 ? fuzz_u64(in) : how;
}

/* ---- Creating -------------------------------------------------------------------- */

static void take_hash(struct fuzz_input *in, bg_hash_spec *hash)
{
    hash->profile = fuzz_byte(in) % 8; /* includes unknown profiles */
    hash->seed = fuzz_byte(in) & 3;
    hash->secret = fuzz_byte(in) & 7 ? secret : NULL;
}

/* Reads a spec with plausible sizes, or with arbitrary values. */
static bg_spec take_spec(struct fuzz_input *in)
{
    bg_spec spec = BG_SPEC_INIT;
    uint8_t how = fuzz_byte(in);
    spec.kind = fuzz_byte(in) % 7;
    /* fuzz_change.c tests the other kinds. */
    spec.kind = spec.kind == 6 ? 99 : spec.kind;
    spec.max_bytes = BYTES_MAX;
    if (how & 1) {
        spec.items = 1 + fuzz_byte(in) * 10u;
        spec.rate = how & 2 ? (1 + fuzz_byte(in)) / 300.0 : 0;
        spec.bits_per_key = how & 2 || how & 4 ? 0 : 1 + fuzz_byte(in);
        spec.bytes = !(how & 2) && how & 4 ? fuzz_u32(in) % BYTES_MAX : 0;
        spec.k = how & 8 ? fuzz_byte(in) % 66 : 0;
    } else {
        spec.items = fuzz_any(in);
        spec.rate = fuzz_double(in);
        spec.bits_per_key = fuzz_double(in);
        spec.bytes = fuzz_any(in);
        spec.k = fuzz_u32(in);
        spec.width = how & 2 ? fuzz_u32(in) : 0;
        spec.struct_size = how & 4 ? fuzz_u32(in) : spec.struct_size;
    }
    spec.folds = how & 16 ? fuzz_byte(in) % 24 : 0;
    spec.flags = fuzz_byte(in) & (how & 32 ? 31u : 15u);
    take_hash(in, &spec.hash);
    return spec;
}

static void check_created(bg_err err, const bg_spec *spec, const bg_filter *filter,
                          const bg_errinfo *why)
{
    FUZZ_MUST((err == BG_OK) == (filter != NULL));
    FUZZ_MUST(why->code == err && (err == BG_OK) == (why->message[0] == 0));
    if (err) {
        FUZZ_MUST(err == BG_EINVAL || err == BG_ENOMEM || err == BG_ENOTSUP);
        FUZZ_MUST(why->what[0] && memchr(why->message, 0, sizeof why->message));
        return;
    }
    FUZZ_MUST(bg_filter_size_bytes(filter) <= BYTES_MAX);
    FUZZ_MUST(!spec->bytes || bg_filter_size_bytes(filter) <= spec->bytes);
    FUZZ_MUST(!spec->kind || (uint32_t)bg_filter_kind(filter) == spec->kind);
    FUZZ_MUST(bg_filter_fill(filter) == 0);
}

static void do_create(struct fuzz_input *in, struct slot *s)
{
    bg_spec spec = take_spec(in);
    bg_errinfo why;
    slot_free(s);
    s->filter = (bg_filter *)(void *)&spec;
    bg_err err = bg_filter_create(&spec, &s->filter, &why);
    check_created(err, &spec, s->filter, &why);
}

static void do_init_at(struct fuzz_input *in, struct slot *s)
{
    bg_spec spec = take_spec(in);
    bg_errinfo why;
    size_t bytes = 0;
    slot_free(s);
    if (bg_filter_memory_needed(&spec, &bytes, &why) != BG_OK) {
        FUZZ_MUST(bytes == 0 && why.message[0]);
        return;
    }
    FUZZ_MUST(bytes > 0 && bytes < BYTES_MAX + 8192);
    s->memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    FUZZ_MUST(s->memory);
    memset(s->memory, 0xee, bytes);
    bg_err err = bg_filter_create_at(s->memory, bytes - 1, &spec, &s->filter, &why);
    FUZZ_MUST(err == BG_EINVAL && !s->filter);
    err = bg_filter_create_at(s->memory, bytes, &spec, &s->filter, &why);
    check_created(err, &spec, s->filter, &why);
    if (err) {
        slot_free(s);
    }
}

/* ---- Adds and queries ------------------------------------------------------------ */

static bool ask_all_ways(const bg_filter *filter, uint64_t key)
{
    uint8_t bytes[8];
    for (int i = 0; i < 8; i++) {
        bytes[i] = (uint8_t)(key >> (8 * i));
    }
    bool maybe = bg_filter_may_contain_u64(filter, key);
    uint64_t hash = bg_hash_u64(bg_filter_hasher(filter), key);
    FUZZ_MUST(bg_filter_may_contain(filter, bytes, 8) == maybe);
    FUZZ_MUST(bg_filter_may_contain_hash(filter, hash) == maybe);
    bg_view view;
    bg_filter_get_view(filter, &view, sizeof view);
    FUZZ_MUST(bg_view_may_contain_u64(&view, key) == maybe);
    return maybe;
}

static bool add_some_way(struct slot *s, uint64_t key, uint8_t how)
{
    uint8_t bytes[8];
    bool is_new = false;
    bg_err err;
    switch (how % 3) {
    case 0: err = bg_filter_add_u64(s->filter, key, &is_new); break;
    case 1:
        err = bg_filter_add_hash(
            s->filter, bg_hash_u64(bg_filter_hasher(s->filter), key), &is_new);
        break;
    default:
        for (int i = 0; i < 8; i++) {
            bytes[i] = (uint8_t)(key >> (8 * i));
        }
        err = bg_filter_add(s->filter, bytes, 8, &is_new);
    }
    FUZZ_MUST(err == BG_OK);
    return is_new;
}

/* Adds a batch; returns how many keys were certainly new. */
static size_t add_batch(bg_filter *filter, bg_keys keys, bool forced, uint64_t *is_new)
{
    size_t count = 0, done = 0;
    if (forced) {
        FUZZ_MUST(bg_filter_add_forced(filter, keys, is_new, &count) == BG_OK);
    } else {
        FUZZ_MUST(bg_filter_add_many(filter, keys, is_new, &done, &count) == BG_OK);
        FUZZ_MUST(done == keys.count);
    }
    return count;
}

static void do_add(struct fuzz_input *in, struct slot *s)
{
    uint64_t key = take_key(in);
    bool was_in = slot_has(s, key), maybe = ask_all_ways(s->filter, key);
    FUZZ_MUST(maybe || !was_in);
    if (slot_note(s, key)) {
        bool is_new = add_some_way(s, key, fuzz_byte(in));
        FUZZ_MUST(is_new == !maybe);
        FUZZ_MUST(ask_all_ways(s->filter, key));
    }
}

static void do_ask(struct fuzz_input *in, struct slot *s)
{
    uint64_t key = take_key(in);
    FUZZ_MUST(ask_all_ways(s->filter, key) || !slot_has(s, key));
}

/* Generates a batch of keys in three forms: integers, fixed-size records, and (pointer, length)
 * pairs. */
static size_t take_batch(struct fuzz_input *in, uint64_t *keys, uint8_t *records,
                         bg_bytes *pairs)
{
    size_t n = fuzz_byte(in) % (BATCH_MAX + 1);
    uint64_t state = fuzz_byte(in), spread = fuzz_byte(in) & 1 ? UINT64_MAX : 63;
    for (size_t i = 0; i < n; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        keys[i] = state >> 20 & spread;
        for (size_t b = 0; b < 8; b++) {
            records[8 * i + b] = (uint8_t)(keys[i] >> (8 * b));
        }
        pairs[i] = (bg_bytes){ records + 8 * i, 8 };
    }
    return n;
}

/* Checks that the bitmap has `count` set bits, and that all bits beyond n are zero. */
static void check_bitmap(const uint64_t *bitmap, size_t n, size_t count)
{
    size_t ones = 0;
    for (size_t i = 0; i < 64 * BG_BITMAP_WORDS(n); i++) {
        unsigned bit = bitmap[i / 64] >> (i % 64) & 1;
        FUZZ_MUST(!bit || i < n);
        ones += bit;
    }
    FUZZ_MUST(ones == count && bitmap[BG_BITMAP_WORDS(n)] == 77);
}

/* Checks that a loader produces the same filter from the same keys, half of which are passed as
 * hashes. */
static void do_load(const bg_filter *before, const bg_bytes *keys, size_t n,
                    const bg_filter *after)
{
    uint64_t hashes[BATCH_MAX];
    bg_filter *loaded = must_copy(before);
    bg_loader *loader = NULL;
    FUZZ_MUST(bg_loader_create(loaded, &loader, NULL) == BG_OK);
    FUZZ_MUST(bg_loader_add_many(loader, bg_keys_bytes(keys, n / 2), NULL) == BG_OK);
    bg_hash_many(bg_filter_hasher(loaded), bg_keys_bytes(keys + n / 2, n - n / 2),
                 hashes);
    FUZZ_MUST(bg_loader_add_many(loader, bg_keys_hashes(hashes, n - n / 2), NULL)
              == BG_OK);
    bg_loader_free(loader);
    FUZZ_MUST(bg_filter_equal(loaded, after));
    bg_filter_free(loaded);
}

static void do_add_many(struct fuzz_input *in, struct slot *s)
{
    static uint64_t keys[BATCH_MAX];
    static uint8_t records[8 * BATCH_MAX];
    static bg_bytes pairs[BATCH_MAX];
    uint64_t is_new[BG_BITMAP_WORDS(BATCH_MAX) + 1], hashes[BATCH_MAX];
    size_t n = take_batch(in, keys, records, pairs);
    for (size_t i = 0; i < n; i++) {
        if (!slot_note(s, keys[i])) {
            n = i;
        }
    }
    bg_filter *one = must_copy(s->filter);
    is_new[BG_BITMAP_WORDS(n)] = 77;
    uint8_t how = fuzz_byte(in);
    bg_keys form = bg_keys_u64(keys, n);
    if (how % 4 == 0) {
        form = bg_keys_bytes(pairs, n);
    } else if (how % 4 == 1) {
        form = bg_keys_fixed(records, 8, n);
    } else if (how % 4 == 3) {
        bg_hash_many(bg_filter_hasher(s->filter), form, hashes);
        form = bg_keys_hashes(hashes, n);
    }
    size_t count = add_batch(s->filter, form, how & 4, is_new);
    check_bitmap(is_new, n, count);
    do_load(one, pairs, n, s->filter);
    for (size_t i = 0; i < n; i++) {
        bool fresh = false;
        FUZZ_MUST(bg_filter_add_u64(one, keys[i], &fresh) == BG_OK);
        FUZZ_MUST(fresh == (is_new[i / 64] >> (i % 64) & 1));
    }
    FUZZ_MUST(bg_filter_equal(one, s->filter));
    bg_filter_free(one);
}

static void do_ask_many(struct fuzz_input *in, struct slot *s)
{
    static uint64_t keys[BATCH_MAX];
    static uint8_t records[8 * BATCH_MAX];
    static bg_bytes pairs[BATCH_MAX];
    uint64_t maybe[BG_BITMAP_WORDS(BATCH_MAX) + 1], hashes[BATCH_MAX];
    size_t n = take_batch(in, keys, records, pairs), count = 0;
    maybe[BG_BITMAP_WORDS(n)] = 77;
    switch (fuzz_byte(in) % 4) {
    case 0:
        count = bg_filter_may_contain_many(s->filter, bg_keys_bytes(pairs, n), maybe);
        break;
    case 1:
        count =
            bg_filter_may_contain_many(s->filter, bg_keys_fixed(records, 8, n), maybe);
        break;
    case 2:
        count = bg_filter_may_contain_many(s->filter, bg_keys_u64(keys, n), maybe);
        break;
    default:
        bg_hash_many(bg_filter_hasher(s->filter), bg_keys_u64(keys, n), hashes);
        count = bg_filter_may_contain_many(s->filter, bg_keys_hashes(hashes, n), maybe);
    }
    check_bitmap(maybe, n, count);
    for (size_t i = 0; i < n; i++) {
        bool single = ask_all_ways(s->filter, keys[i]);
        FUZZ_MUST(single == (maybe[i / 64] >> (i % 64) & 1));
        FUZZ_MUST(single || !slot_has(s, keys[i]));
    }
}

/* ---- Whole filters --------------------------------------------------------------- */

static void do_merge(struct slot *s, struct slot *other)
{
    bg_errinfo why;
    bool fits = bg_filter_compatible(s->filter, other->filter);
    bg_filter *before = must_copy(s->filter);
    if (!other->filter) {
        FUZZ_MUST(!fits && bg_filter_merge(s->filter, NULL, &why) == BG_EINVAL);
    } else if (!fits) {
        FUZZ_MUST(bg_filter_merge(s->filter, other->filter, &why) == BG_EINCOMPAT);
        FUZZ_MUST(why.what[0] && bg_filter_equal(s->filter, before));
    } else {
        bool room = true;
        for (size_t i = 0; i < other->n && room; i++) {
            room = slot_note(s, other->key[i]);
        }
        FUZZ_MUST(bg_filter_merge(s->filter, other->filter, &why) == BG_OK);
        FUZZ_MUST(bg_filter_merge(before, s->filter, NULL) == BG_OK);
        FUZZ_MUST(bg_filter_equal(before, s->filter));
        FUZZ_MUST(bg_filter_merge(s->filter, s->filter, NULL) == BG_OK);
        FUZZ_MUST(bg_filter_equal(before, s->filter));
        check_members(s);
        check_members(other);
    }
    bg_filter_free(before);
}

static void check_info(const bg_filter_info *info)
{
    FUZZ_MUST(info->bits == 8 * info->bytes && info->ones <= info->bits);
    FUZZ_MUST(info->fill >= 0 && info->fill <= 1 && info->rate >= 0 && info->rate <= 1);
    FUZZ_MUST(info->items.low >= 0 && info->items.low <= info->items.value);
    FUZZ_MUST(info->items.value <= info->items.high);
    FUZZ_MUST(info->units % (UINT64_C(1) << info->foldable) == 0);
}

/* Checks that the occupancy of each cell is between 0 and 1, and that the occupancy of a single
 * cell matches the number of set bits. */
static void check_occupancy(const bg_filter *filter, const bg_filter_info *info,
                            size_t cells)
{
    double shares[256], all;
    FUZZ_MUST(bg_filter_occupancy(filter, &all, 1) == BG_OK);
    FUZZ_MUST((uint64_t)(all * (double)info->bits + 0.5) == info->ones);
    FUZZ_MUST(bg_filter_occupancy(filter, shares, cells) == BG_OK);
    for (size_t i = 0; i < cells; i++) {
        FUZZ_MUST(shares[i] >= 0 && shares[i] <= 1);
    }
}

/* Each fold halves the size and keeps all keys. */
static void do_fold(struct fuzz_input *in, struct slot *s, struct slot *to)
{
    uint32_t times = fuzz_byte(in) % 8;
    bg_filter_info info = { .struct_size = sizeof info };
    bg_errinfo why;
    bg_filter *folded = s->filter;
    FUZZ_MUST(bg_filter_get_info(s->filter, &info) == BG_OK);
    check_info(&info);
    check_occupancy(s->filter, &info, 1 + times * 31);
    bg_err err = bg_filter_fold(s->filter, times, &folded, &why);
    FUZZ_MUST((err == BG_OK) == (times >= 1 && times <= info.foldable));
    FUZZ_MUST((err == BG_OK) == (folded != NULL));
    if (err || s == to) {
        FUZZ_MUST(!err || err == BG_EINVAL);
        bg_filter_free(folded);
        return;
    }
    FUZZ_MUST(bg_filter_size_bytes(folded) == info.bytes >> times);
    slot_free(to);
    to->filter = folded;
    to->n = s->n;
    memcpy(to->key, s->key, s->n * sizeof *s->key);
    check_members(to);
}

static void do_copy(struct slot *s, struct slot *to)
{
    bg_filter *copy = must_copy(s->filter);
    if (s == to) {
        bg_filter_free(copy);
        return;
    }
    slot_free(to);
    to->filter = copy;
    to->n = s->n;
    memcpy(to->key, s->key, s->n * sizeof *s->key);
}

static void check_estimate(bg_estimate e)
{
    FUZZ_MUST(e.low >= 0 && e.low <= e.value && e.value <= e.high);
}

static void do_overlap(const struct slot *s, const struct slot *other)
{
    bg_overlap o;
    bg_err err = bg_filter_overlap(s->filter, other->filter, &o, NULL);
    FUZZ_MUST((err == BG_OK) == bg_filter_compatible(s->filter, other->filter));
    if (!err) {
        check_estimate(o.a);
        check_estimate(o.b);
        check_estimate(o.both);
        check_estimate(o.either);
        check_estimate(o.jaccard);
        FUZZ_MUST(o.jaccard.high <= 1);
    }
}

static void do_clear(struct slot *s)
{
    bg_filter *empty = NULL;
    FUZZ_MUST(bg_filter_create_like(s->filter, &empty, NULL) == BG_OK);
    bg_filter_clear(s->filter);
    FUZZ_MUST(bg_filter_fill(s->filter) == 0);
    FUZZ_MUST(bg_filter_equal(s->filter, empty));
    bg_filter_free(empty);
    s->n = 0;
}

static void do_cpu(struct fuzz_input *in)
{
    bg_cpu cpu = (bg_cpu)(fuzz_byte(in) % 6), before = bg_cpu_current();
    bg_err err = bg_cpu_select(cpu);
    FUZZ_MUST((err == BG_OK) == (bg_cpu_available(cpu) != 0));
    FUZZ_MUST(bg_cpu_current() == (err ? before : cpu));
}

/* Runs one step. If the slot is empty, the step only creates a filter. */
static void step(struct fuzz_input *in)
{
    uint8_t what = fuzz_byte(in) % 16, which = fuzz_byte(in);
    struct slot *s = &slots[which % SLOTS], *other = &slots[which / SLOTS % SLOTS];
    if (what == 0 || !s->filter) {
        which & 0x80 ? do_init_at(in, s) : do_create(in, s);
        return;
    }
    switch (what) {
    case 1: do_cpu(in); break;
    case 2: do_merge(s, other); break;
    case 3: do_fold(in, s, other); break;
    case 4: do_copy(s, other); break;
    case 5: do_clear(s); break;
    case 6: do_overlap(s, other); break;
    case 7: do_ask(in, s); break;
    case 8:
    case 9: do_ask_many(in, s); break;
    case 10:
    case 11:
    case 12: do_add_many(in, s); break;
    default: do_add(in, s); break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = { data, size };
    bg_cpu before = bg_cpu_current();
    for (int i = 0; i < STEPS_MAX && in.left; i++) {
        step(&in);
    }
    for (int i = 0; i < SLOTS; i++) {
        if (slots[i].filter) {
            check_members(&slots[i]);
        }
        slot_free(&slots[i]);
    }
    FUZZ_MUST(bg_cpu_select(before) == BG_OK);
    return 0;
}
