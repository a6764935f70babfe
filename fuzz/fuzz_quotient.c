/*
 * fuzz_quotient.c - an input is a program that runs on two quotient filters. Its steps are inserts,
 * removals, floods (many inserts), merges, resizes and copies. Each filter is compared with the
 * exact multiset of the hash prefixes that it keeps. There are so few possible prefixes that an
 * array can hold the count of each. A filter must give exact answers and counts, list its content
 * in order, and stay unchanged if it refuses an operation.
 */
#include "bloomgate/all.h"
#include "fuzz.h"
#include "fuzz_input.h"

enum { KEPT_MAX = 14, PREFIXES = 1 << KEPT_MAX, STEPS_MAX = 300, FLOOD_MAX = 64 };

struct side {
    bg_filter *filter;
    uint64_t count[PREFIXES];
};

static struct side sides[2];
static unsigned kept; /* bits of a prefix */

/* Only a few quotients are used, so that runs are long and shift each other. */
static uint64_t take_prefix(struct fuzz_input *in)
{
    uint64_t prefix = fuzz_byte(in) | (uint64_t)fuzz_byte(in) << 8;
    if (prefix & 1) {
        /* Moves the quotient to the end of the table. */
        prefix |= (uint64_t)0x1f << (kept - 5);
    }
    return prefix >> 1 & (((uint64_t)1 << kept) - 1);
}

static uint64_t hash_of(uint64_t prefix)
{
    /* The filter ignores the bits after the prefix. */
    return prefix << (64 - kept) | prefix * 77;
}

static void do_insert(struct fuzz_input *in, struct side *s)
{
    uint64_t prefix = take_prefix(in);
    unsigned times = fuzz_byte(in), refused = 0;
    times = times < 192 ? 1 : times % FLOOD_MAX;
    for (; times > 0 && !refused; times--) {
        bool is_new = false;
        bg_err err = bg_filter_add_hash(s->filter, hash_of(prefix), &is_new);
        FUZZ_MUST(err == BG_OK || err == BG_EFULL);
        FUZZ_MUST(is_new == (!err && s->count[prefix] == 0));
        refused = err == BG_EFULL;
        s->count[prefix] += !refused;
    }
}

static void do_remove(struct fuzz_input *in, struct side *s)
{
    uint64_t prefix = take_prefix(in);
    bg_err err = bg_filter_remove_hash(s->filter, hash_of(prefix));
    FUZZ_MUST(err == (s->count[prefix] ? BG_OK : BG_ENOTFOUND));
    s->count[prefix] -= s->count[prefix] > 0;
}

static void do_merge(struct side *to, const struct side *from)
{
    bg_filter *before = NULL;
    FUZZ_MUST(bg_filter_copy(to->filter, &before, NULL) == BG_OK);
    bg_err err = bg_filter_merge(to->filter, from->filter, NULL);
    FUZZ_MUST(err == BG_OK || err == BG_EFULL);
    FUZZ_MUST(err == BG_OK || bg_filter_equal(to->filter, before));
    for (size_t i = 0; i < PREFIXES && err == BG_OK; i++) {
        uint64_t sum = to->count[i] + from->count[i];
        to->count[i] = sum < from->count[i] ? UINT64_MAX : sum;
    }
    bg_filter_free(before);
}

static void do_resize(struct fuzz_input *in, struct side *s)
{
    int doublings = fuzz_byte(in) % 5 - 2;
    bg_filter *resized = s->filter;
    bg_err err = bg_filter_resize(s->filter, doublings, &resized, NULL);
    FUZZ_MUST(err == BG_OK || err == BG_EINVAL || err == BG_EFULL);
    FUZZ_MUST((err == BG_OK) == (resized != NULL));
    if (resized) {
        bg_filter_free(s->filter);
        s->filter = resized;
    }
}

static bool check_entry(void *context, uint64_t hash_prefix, uint64_t count)
{
    uint64_t **next = context;
    uint64_t prefix = hash_prefix >> (64 - kept);
    const struct side *s = next[0] >= sides[1].count ? &sides[1] : &sides[0];
    while (*next[0] == 0) {
        next[0]++;
        FUZZ_MUST(next[0] < s->count + PREFIXES);
    }
    FUZZ_MUST((uint64_t)(next[0] - s->count) == prefix && *next[0] == count);
    next[0]++;
    return true;
}

static void check_side(struct side *s)
{
    uint64_t *next = s->count;
    for (uint64_t prefix = 0; prefix < (uint64_t)1 << kept; prefix++) {
        uint64_t hash = hash_of(prefix);
        FUZZ_MUST(bg_filter_may_contain_hash(s->filter, hash)
                  == (s->count[prefix] > 0));
        FUZZ_MUST(bg_filter_count_hash(s->filter, hash) == s->count[prefix]);
    }
    FUZZ_MUST(bg_filter_for_each(s->filter, check_entry, &next) == BG_OK);
    for (; next < s->count + PREFIXES; next++) {
        FUZZ_MUST(*next == 0); /* nothing was omitted */
    }
}

static void run_step(struct fuzz_input *in)
{
    uint8_t what = fuzz_byte(in);
    struct side *s = &sides[what & 1], *other = &sides[(what & 1) ^ 1];
    switch (what >> 1 & 15) {
    case 0: do_merge(s, other); break;
    case 1: do_resize(in, s); break;
    case 2:
    case 3:
    case 4:
    case 5:
    case 6: do_remove(in, s); break;
    default: do_insert(in, s); break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = { data, size };
    uint8_t how = fuzz_byte(&in);
    bg_spec spec = BG_SPEC_INIT;
    spec.kind = BG_KIND_QUOTIENT;
    spec.k = 2 + how % (KEPT_MAX - 8 - 1);
    uint64_t slots =
        504 / (spec.k + 2); /* slots per block; 256 quotients have 512 slots in total */
    slots = slots < 63 ? slots : 63;
    spec.bytes = 64 * ((512 + slots - 1) / slots);
    spec.flags = how & 128 ? BG_SPEC_EXCLUSIVE : 0;
    kept = 8 + spec.k;
    memset(sides, 0, sizeof sides);
    for (int i = 0; i < 2; i++) {
        FUZZ_MUST(bg_filter_create(&spec, &sides[i].filter, NULL) == BG_OK);
    }
    for (unsigned step = 0; step < STEPS_MAX && in.left > 0; step++) {
        run_step(&in);
    }
    for (int i = 0; i < 2; i++) {
        check_side(&sides[i]);
        bg_filter_free(sides[i].filter);
    }
    return 0;
}
