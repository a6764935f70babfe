/*
 * bench_peers.c - how fast are other libraries, at the same size and at the same rate?
 *
 * Prints one table per size, peer and setting: 10 bits per key, 16 bits per key, and the setting
 * that results in a rate of 1% (--bits selects a different setting). Keys are 8-byte integers,
 * passed to the peers as byte strings. Each peer is compared with two Bloomgate filters: one with
 * the same bits per key, and one planned for the rate measured for the peer. Bloomgate filters are
 * queried with the same integers and, in separate rows, with precomputed hashes. The ratio is the
 * time of the peer's single lookup divided by the time of the row, so a ratio above 1 means that
 * the row is faster. "limit" is the memory limit (limit.h) for the size of the peer's filter. Rows
 * with precomputed hashes skip the hashing that the peer has to do, so they are not a fair
 * comparison; they only show the cost without hashing.
 *
 * "build" measures everything up to the finished filter, including the allocation. Peers
 * use the pages that malloc provides: 4 KiB pages, unless the kernel uses large pages for
 * every process. The peers come from the distribution's packages, which are compiled for the
 * architecture's baseline CPU. RocksDB's filter has AVX2 code and would be faster if built for
 * this CPU.
 */
#include "bench.h"
#include "bench_adds.h"
#include "keys.h"
#include "limit.h"
#include "ours.h"
#include "output.h"
#include "peers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const struct bgb_peer *const peers_all[] = {
#ifdef BGB_HAVE_LIBBLOOM
    &bgb_peer_libbloom,
#endif
#ifdef BGB_HAVE_ROCKSDB
    &bgb_peer_rocksdb,
#endif
#ifdef BGB_HAVE_LEVELDB
    &bgb_peer_leveldb,
#endif
    NULL,
};

enum {
    PEER_ABSENT,
    PEER_PRESENT,
    PEER_BATCH,
    OURS_FIRST,
    OURS_EACH = 6,
    LIMIT = OURS_FIRST + 2 * OURS_EACH,
    SUBJECTS,
    BUILDS = 3,
    TRIALS = 1 << 22 /* absent keys used to measure a rate */
};

static const struct {
    const char *name;
    struct bgb_ours_what what;
} peers_ours[OURS_EACH] = {
    { "u64 absent", { BGB_FORM_U64, BGB_LOAD_ABSENT, BGB_GRAIN_ONE } },
    { "u64 present", { BGB_FORM_U64, BGB_LOAD_PRESENT, BGB_GRAIN_ONE } },
    { "u64 absent, batch", { BGB_FORM_U64, BGB_LOAD_ABSENT, BGB_GRAIN_ALL } },
    { "u64 absent, by 32", { BGB_FORM_U64, BGB_LOAD_ABSENT, BGB_GRAIN_32 } },
    { "hash absent", { BGB_FORM_HASH, BGB_LOAD_ABSENT, BGB_GRAIN_ONE } },
    { "hash absent, batch", { BGB_FORM_HASH, BGB_LOAD_ABSENT, BGB_GRAIN_ALL } },
};

/* A peer's filter and the keys to look up in it. */
struct peers_state {
    const struct bgb_peer *peer;
    void *filter;
    const uint64_t *keys;
};

struct peers_table {
    const struct bgb_peer *peer;
    double bits;      /* the requested bits per key */
    double peer_bits; /* the actual bits per key */
    double peer_rate;
    bg_filter *ours[2]; /* one with the same bits per key, one with the same rate */
    double our_rates[2];
    struct peers_state peer_states[OURS_FIRST];
    struct bgb_ours our_states[2 * OURS_EACH];
    struct bgb_region region;
    struct bgb_limit limit;
    struct bgb_subject subjects[SUBJECTS];
    size_t count;
    size_t limit_at;
};

static uint64_t peers_look(void *state, size_t first, size_t n)
{
    const struct peers_state *s = state;
    return s->peer->look(s->filter, s->keys + first, n);
}

static uint64_t peers_look_many(void *state, size_t first, size_t n)
{
    const struct peers_state *s = state;
    return s->peer->look_many(s->filter, s->keys + first, n);
}

/* ---- Builds -------------------------------------------------------------------- */

struct peers_build {
    const struct bgb_peer *peer; /* NULL: Bloomgate */
    bg_spec spec;
    double bits;
    const uint64_t *keys;
};

static uint64_t peers_build_pass(void *state, size_t first, size_t n)
{
    const struct peers_build *b = state;
    if (b->peer) {
        void *filter = b->peer->build(b->keys + first, n, b->bits);
        if (!filter) {
            bgb_die("%s: cannot build a filter", b->peer->name);
        }
        b->peer->release(filter);
    } else {
        bg_filter *filter;
        bg_errinfo why;
        if (bg_filter_create(&b->spec, &filter, &why) != BG_OK) {
            bgb_die("%s", why.message);
        }
        (void)added_many(filter, bg_keys_u64(b->keys + first, n), NULL);
        bg_filter_free(filter);
    }
    return 0;
}

/* Measures whole builds in a separate table, because they are slow. The rows are the peer, an
 * exclusive Bloomgate filter (like the peer, for one thread only), and a shared
 * Bloomgate filter. */
static void peers_run_builds(const struct bgb_options *options,
                             const struct peers_table *t, const uint64_t *all, size_t n)
{
    const char *names[BUILDS] = { t->peer->name, "bloomgate exclusive",
                                  "bloomgate shared" };
    struct peers_build builds[BUILDS];
    struct bgb_subject subjects[BUILDS];
    for (int i = 0; i < BUILDS; i++) {
        builds[i] = (struct peers_build){ .peer = i ? NULL : t->peer,
                                          .spec = BG_SPEC_INIT,
                                          .bits = t->bits,
                                          .keys = all };
        builds[i].spec.items = n;
        builds[i].spec.bits_per_key = t->peer_bits;
        builds[i].spec.flags = i == 1 ? BG_SPEC_EXCLUSIVE : 0;
        subjects[i] = (struct bgb_subject){ .pass = peers_build_pass,
                                            .state = &builds[i],
                                            .pool = n,
                                            .chunk = n,
                                            .cold = true };
        (void)snprintf(subjects[i].name, BGB_NAME_BYTES, "%s: build", names[i]);
    }
    bgb_run(subjects, BUILDS, options->seconds);
    for (int i = 0; i < BUILDS; i++) {
        bgb_row_begin();
        bgb_cells_subject(subjects[i].name, n, t->peer_bits, BGB_NONE);
        bgb_cells_times(&subjects[i], subjects[0].p5 / subjects[i].p5);
        bgb_cell_text("peer", "", 0, t->peer->name);
        bgb_row_end();
    }
}

/* ---- Lookups ------------------------------------------------------------------- */

static struct bgb_subject *peers_add_peer(struct peers_table *t, void *filter,
                                          const struct bgb_keys *keys, int row)
{
    struct bgb_subject *s = &t->subjects[t->count++];
    bool present = row == PEER_PRESENT;
    t->peer_states[row] =
        (struct peers_state){ t->peer, filter, present ? keys->present : keys->absent };
    *s = (struct bgb_subject){ .pass = row == PEER_BATCH ? peers_look_many : peers_look,
                               .state = &t->peer_states[row],
                               .pool = keys->pool,
                               .chunk = bgb_keys_chunk(keys, t->peer->bytes(filter)),
                               .least = present ? 1 : 0,
                               .most = present ? 1 : 0.5 };
    (void)snprintf(s->name, sizeof s->name, "%s: %s%s", t->peer->name,
                   present ? "present" : "absent", row == PEER_BATCH ? ", batch" : "");
    return s;
}

static void peers_add_ours(struct peers_table *t, const struct bgb_keys *keys,
                           int which)
{
    bg_spec spec = BG_SPEC_INIT;
    spec.items = keys->n;
    if (which == 0) {
        spec.bits_per_key = t->peer_bits;
    } else {
        spec.rate = t->peer_rate;
    }
    t->ours[which] = bgb_filter_make(&spec, keys->n);
    t->our_rates[which] =
        (double)bgb_ours_false_positives(t->ours[which], TRIALS) / TRIALS;
    for (int i = 0; i < OURS_EACH; i++) {
        struct bgb_subject *s = &t->subjects[t->count++];
        (void)snprintf(s->name, sizeof s->name, "bloomgate, same %s: %s",
                       which ? "rate" : "bits", peers_ours[i].name);
        bgb_ours_prepare(&t->our_states[which * OURS_EACH + i], s, keys,
                         peers_ours[i].what, t->ours[which], NULL);
    }
}

static void peers_add_limit(struct peers_table *t, const struct bgb_keys *keys,
                            uint64_t bytes)
{
    t->limit_at = t->count++;
    bgb_region_make(&t->region, (size_t)bytes, false);
    bgb_limit_prepare(&t->limit, &t->subjects[t->limit_at], &t->region,
                      keys->absent_hash, keys->pool, bgb_keys_chunk(keys, bytes),
                      BGB_LIMIT_READ);
}

/* Returns the peer's false-positive rate, measured with the same number of absent keys as
 * Bloomgate's rate. Never returns 0, because no filter can be planned for a rate of 0. */
static double peers_rate(const struct bgb_peer *peer, const void *filter)
{
    uint64_t block[1 << 13];
    size_t count = sizeof block / sizeof *block, hits = 0;
    for (size_t at = 0; at < TRIALS; at += count) {
        for (size_t i = 0; i < count; i++) {
            block[i] = bgb_key(BGB_SET_ABSENT, at + i);
        }
        hits += peer->look(filter, block, count);
    }
    return hits ? (double)hits / TRIALS : 0.5 / TRIALS;
}

static void peers_print(const struct peers_table *t, uint64_t n)
{
    const double single[2] = { t->subjects[0].p5, t->subjects[1].p5 };
    for (size_t i = 0; i < t->count; i++) {
        const struct bgb_subject *s = &t->subjects[i];
        bool is_present = strstr(s->name, "present") != NULL;
        bool is_ours = strncmp(s->name, "bloomgate", 9) == 0;
        bool by_rate = strstr(s->name, "same rate") != NULL;
        double bits =
            is_ours ? bgb_ours_bits_per_key(t->ours[by_rate], n) : t->peer_bits;
        double rate = is_ours ? t->our_rates[by_rate] : t->peer_rate;
        bgb_row_begin();
        bgb_cells_subject(s->name, n, i == t->limit_at ? BGB_NONE : bits,
                          is_present || i == t->limit_at ? BGB_NONE : rate);
        bgb_cells_times(s, single[is_present] / s->p5);
        bgb_cell_real("limit_ratio", "of limit", 8, 2,
                      t->subjects[t->limit_at].p5 / s->p5);
        bgb_cell_text("peer", "", 0, t->peer->name);
        bgb_row_end();
    }
}

static void peers_release(struct peers_table *t)
{
    for (int i = 0; i < 2 * OURS_EACH; i++) {
        bgb_ours_free(&t->our_states[i]);
    }
    bg_filter_free(t->ours[0]);
    bg_filter_free(t->ours[1]);
    bgb_region_free(&t->region);
}

static void peers_run(const struct bgb_options *options, const struct bgb_peer *peer,
                      const struct bgb_keys *keys, const uint64_t *all, double bits)
{
    size_t n = (size_t)keys->n;
    void *filter = peer->build(all, n, bits);
    if (!filter) {
        bgb_note("\npeers: %s does not support %zu keys at %g bits/key", peer->name, n,
                 bits);
        return;
    }
    struct peers_table *t = bgb_alloc(1, sizeof *t);
    t->peer = peer;
    t->bits = bits;
    t->peer_bits = 8.0 * (double)peer->bytes(filter) / (double)n;
    t->peer_rate = peers_rate(peer, filter);
    (void)peers_add_peer(t, filter, keys, PEER_ABSENT);
    (void)peers_add_peer(t, filter, keys, PEER_PRESENT);
    if (peer->look_many) {
        (void)peers_add_peer(t, filter, keys, PEER_BATCH);
    }
    peers_add_ours(t, keys, 0);
    peers_add_ours(t, keys, 1);
    peers_add_limit(t, keys, peer->bytes(filter));
    bgb_table("peers",
              "%s, %zu keys, %g bits/key; ratio = ns of %s single / ns of the row",
              peer->name, n, bits, peer->name);
    bgb_run(t->subjects, t->count, options->seconds);
    peers_print(t, n);
    if (!options->lookups_only) {
        peers_run_builds(options, t, all, n);
    }
    peer->release(filter);
    peers_release(t);
    free(t);
}

static bool peers_wants(const struct bgb_options *options, const struct bgb_peer *peer)
{
    return !options->peer || strcasecmp(options->peer, peer->name) == 0;
}

/* Runs one peer at each of its settings. */
static void peers_run_settings(const struct bgb_options *options,
                               const struct bgb_peer *peer, const struct bgb_keys *keys,
                               const uint64_t *all)
{
    if (options->bits > 0) {
        peers_run(options, peer, keys, all, options->bits);
        return;
    }
    peers_run(options, peer, keys, all, 10);
    peers_run(options, peer, keys, all, 16);
    if (peer->bits_for_one_percent < 10) {
        peers_run(options, peer, keys, all, peer->bits_for_one_percent);
    }
}

static void peers_size_run(const struct bgb_options *options, uint64_t n)
{
    struct bgb_keys keys;
    bgb_keys_make(&keys, n);
    uint64_t *all = bgb_alloc((size_t)n, sizeof *all);
    for (size_t i = 0; i < n; i++) {
        all[i] = bgb_key(BGB_SET_PRESENT, i);
    }
    for (size_t i = 0; peers_all[i]; i++) {
        if (peers_wants(options, peers_all[i])) {
            peers_run_settings(options, peers_all[i], &keys, all);
        }
    }
    free(all);
    bgb_keys_free(&keys);
}

void bgb_bench_peers(const struct bgb_options *options)
{
    static const uint64_t defaults[] = { 100000, 1000000, 10000000 };
    uint64_t n[BGB_SIZES_MAX];
    size_t count = bgb_options_sizes(options, defaults, 3, n);
    if (!peers_all[0]) {
        bgb_note(
            "\npeers: bgbench was built without peer libraries (install libbloom-dev, "
            "librocksdb-dev or libleveldb-dev)");
        return;
    }
    size_t wanted = 0;
    for (size_t i = 0; peers_all[i]; i++) {
        wanted += peers_wants(options, peers_all[i]);
    }
    if (wanted == 0) {
        bgb_options_refuse("--peer", options->peer,
                           "a peer built into bgbench: libbloom, RocksDB or LevelDB");
    }
    for (size_t i = 0; i < count; i++) {
        peers_size_run(options, n[i]);
    }
}
