/*
 * Groups of hashes are looked up in several filters at a time. The answers are the same as
 * those from querying the filters one by one, hash by hash, for one to ten filters of several
 * kinds, and for full and partial groups, on every instruction set that this machine supports.
 */
#include "filter/handle.h"
#include "live/layers.h"
#include "support/adds.h"
#include "support/check.h"
#include "support/filters.h"

enum {
    COUNT_MAX = 10,
    /* The size of the smallest filter, in bytes. */
    BYTES_LAST = 192,
    BYTES_MAX = CHECK_EMULATED ? 1 << 13 : 1 << 17, /* size of the largest filter */
    KEYS_KEPT = 64,
    CPUS = 4
};

/* The filters, and some of the hashes that were added to each. */
struct stack {
    bg_filter *filter[COUNT_MAX];
    uint64_t member[COUNT_MAX][KEYS_KEPT];
    struct layers layers;
};

/* Determines which hashes are in a group. */
enum mix {
    MIX_STRANGERS,
    MIX_FIRST,     /* all hashes are in the first filter */
    MIX_FIRST_MAX, /* the first 21 hashes, and some others, are in the first filter */
    MIX_LAST,
    MIX_ANY,
    MIXES
};

/* With only one byte per key, false positives occur occasionally. */
static void fill(bg_filter *filter, uint64_t *kept)
{
    uint64_t n = bg_filter_size_bytes(filter);
    random_hashes(kept, KEYS_KEPT);
    for (uint64_t i = 0; i < n; i++) {
        (void)added_hash(filter, i < KEYS_KEPT ? kept[i] : check_random());
    }
}

static void stack_make(struct stack *s, bg_kind kind, uint32_t k, unsigned count,
                       unsigned step)
{
    layers_begin(&s->layers, step);
    for (unsigned i = 0; i < count; i++) {
        uint64_t units = BYTES_LAST / kind_unit_bytes(kind, k);
        units <<= step * (count - 1 - i);
        bg_spec spec = exact_spec(kind, units, k, i % 2 ? BG_SPEC_EXCLUSIVE : 0);
        s->filter[i] = must_create(&spec);
        fill(s->filter[i], s->member[i]);
        layers_push(&s->layers, s->filter[i]);
    }
}

static void stack_free(struct stack *s)
{
    for (unsigned i = 0; i < s->layers.count; i++) {
        bg_filter_free(s->filter[i]);
    }
}

static uint64_t stack_member(const struct stack *s, uint64_t layer)
{
    return s->member[layer][check_random_below(KEYS_KEPT)];
}

/* Creates n hashes, and returns a bitmap of the hashes that must be found. */
static uint64_t mix_make(const struct stack *s, enum mix mix, unsigned n,
                         uint64_t *hashes)
{
    uint64_t known = 0, last = s->layers.count - 1;
    for (unsigned i = 0; i < n; i++) {
        bool stranger = mix == MIX_STRANGERS || (mix == MIX_ANY && check_random() % 2)
                        || (mix == MIX_FIRST_MAX && i > 20 && i % 3 == 0);
        bool old = mix == MIX_LAST || (mix == MIX_FIRST_MAX && i > 20 && i % 3 == 1);
        uint64_t layer = mix == MIX_ANY ? check_random_below(last + 1) : old ? last : 0;
        hashes[i] = stranger ? check_random() : stack_member(s, layer);
        known |= (uint64_t)!stranger << i;
    }
    return known;
}

static uint64_t one_by_one(const struct stack *s, const struct bgi_group *word)
{
    uint64_t maybe = 0;
    for (unsigned i = 0; i < word->n; i++) {
        for (unsigned c = 0; c < s->layers.count; c++) {
            bool has = bg_filter_may_contain_hash(s->filter[c], word->hashes[i]);
            maybe |= (uint64_t)has << i;
        }
    }
    return maybe;
}

/* Runs the check twice: as if the filters fit into the cache, and as if they did not. */
static void check_word(struct stack *s, enum mix mix, unsigned n)
{
    uint64_t hashes[64], after[64];
    uint64_t known = mix_make(s, mix, n, hashes);
    (void)mix_make(s, mix, 64, after);
    struct bgi_group word = { .hashes = hashes, .n = n };
    struct bgi_group next = { .hashes = after, .n = (unsigned)check_random_below(65) };
    uint64_t expected = one_by_one(s, &word);
    CHECK_EQ(known & ~expected, 0);
    for (int large = 0; large < 2; large++) {
        s->layers.bytes = large ? UINT64_MAX : 0;
        CHECK_EQ(layers_has_group(&s->layers, &word, NULL), expected);
        CHECK_EQ(layers_has_group(&s->layers, &word, &next), expected);
    }
}

static void check_stack(bg_kind kind, uint32_t k, unsigned count, unsigned step)
{
    static const unsigned lengths[] = { 0, 1, 7, 15, 16, 17, 31, 32, 33, 63, 64 };
    static struct stack s;
    stack_make(&s, kind, k, count, step);
    for (int mix = 0; mix < MIXES; mix++) {
        for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++) {
            check_word(&s, (enum mix)mix, lengths[l]);
        }
    }
    stack_free(&s);
}

TEST(layers__answer_as_one_by_one)
{
    static const struct {
        bg_kind kind;
        uint32_t k;
    } cases[] = {
        { BG_KIND_BLOCKED, 3 }, { BG_KIND_BLOCKED, 6 },     { BG_KIND_BLOCKED, 8 },
        { BG_KIND_BLOCKED, 9 }, { BG_KIND_BLOCKED, 16 },    { BG_KIND_SPLIT, 8 },
        { BG_KIND_CLASSIC, 7 }, { BG_KIND_PARTITIONED, 4 }, { BG_KIND_REGISTER, 5 },
    };
    bg_cpu before = bg_cpu_current();
    for (int cpu = 0; cpu < CPUS; cpu++) {
        if (!bg_cpu_available((bg_cpu)cpu)) {
            continue;
        }
        CHECK_OK(bg_cpu_select((bg_cpu)cpu));
        for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
            for (unsigned step = 0; step < 4; step++) {
                for (unsigned count = 1; count <= COUNT_MAX; count++) {
                    if ((uint64_t)BYTES_LAST << (step * (count - 1)) <= BYTES_MAX) {
                        check_stack(cases[c].kind, cases[c].k, count, step);
                    }
                }
            }
        }
    }
    CHECK_OK(bg_cpu_select(before));
}

/* Looks up hashes in the maximum number of filters. */
TEST(layers__the_most_there_are)
{
    struct layers layers;
    bg_filter *filter = make_filter(BG_KIND_BLOCKED, 640, 0);
    bg_filter *last = make_filter(BG_KIND_BLOCKED, 640, 0);
    uint64_t hashes[64];
    struct bgi_group word = { .hashes = hashes, .n = 64 };
    random_hashes(hashes, 64);
    (void)added_hash(last, hashes[40]);
    for (int large = 0; large < 2; large++) {
        layers_begin(&layers, 0);
        for (int i = 0; i < BGI_LAYERS_MAX; i++) {
            layers_push(&layers, i + 1 < BGI_LAYERS_MAX ? filter : last);
        }
        layers.bytes = large ? UINT64_MAX : 0;
        CHECK_EQ(layers_has_group(&layers, &word, NULL), UINT64_C(1) << 40);
    }
    bg_filter_free(filter);
    bg_filter_free(last);
}
