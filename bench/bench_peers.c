/*
 * bench_peers.c - how do others do, at equal size and at equal rate?
 *
 * One table per size, peer and setting (10 bits per key, 16, and what gives 1 %). Keys
 * are 8-byte integers, for the peers as byte strings. Against each peer stand two
 * filters of ours: one with the same bits per key, one planned at the rate the peer was
 * measured at. Ours are asked with the same integers, and with given hashes as rows of
 * their own. The ratio is the peer's single look-up over the row, so above 1 is faster
 * than the peer; "limit" is the line limit at the peer's size. Rows from given hashes
 * save the hash that the peer pays for: they show what is left without it and are not a
 * comparison.
 *
 * "build" is from nothing to a finished filter, memory included. Peers lie on the pages
 * that malloc gives them: 4 KiB ones, unless the system hands out large ones to all.
 * They run as the distribution built them, for any processor of the architecture; built
 * for this one, RocksDB's filter would be faster (it has code for AVX2).
 */
#include "bench.h"
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
    TRIALS = 1 << 22 /* absent keys that rates are measured with */
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

/* A peer's filter and the keys it is asked for. */
struct peers_state {
    const struct bgb_peer *peer;
    void *filter;
    const uint64_t *keys;
};

struct peers_table {
    const struct bgb_peer *peer;
    double bits;      /* the setting */
    double peer_bits; /* what came of it, per key */
    double peer_rate;
    bg_filter *ours[2]; /* same bits, same rate */
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
    const struct bgb_peer *peer; /* NULL: ours */
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
            bgb_die("%s: no filter", b->peer->name);
        }
        b->peer->release(filter);
    } else {
        bg_filter *filter;
        bg_errinfo why;
        if (bg_filter_create(&b->spec, &filter, &why) != BG_OK) {
            bgb_die("%s", why.message);
        }
        (void)bg_filter_add_many_u64(filter, b->keys + first, n, NULL);
        bg_filter_free(filter);
    }
    return 0;
}

/* Whole builds take long, so they have a table for themselves: the peer, ours for one
 * thread, which is what the peer is for, and ours for many. */
static void peers_run_builds(const struct bgb_options *options,
                             const struct peers_table *t, const uint64_t *all, size_t n)
{
    const char *names[BUILDS] = { t->peer->name, "ours exclusive", "ours shared" };
    struct peers_build builds[BUILDS];
    struct bgb_subject subjects[BUILDS];
    for (int i = 0; i < BUILDS; i++) {
        builds[i] = (struct peers_build){ .peer = i ? NULL : t->peer,
                                          .spec = BG_SPEC_INIT,
                                          .bits = t->bits,
                                          .keys = all };
        builds[i].spec.items = n;
        builds[i].spec.bits_per_key = t->peer_bits;
        builds[i].spec.flags = i == 1 ? BG_EXCLUSIVE : 0;
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

/* ---- Look-ups ------------------------------------------------------------------ */

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
        (void)snprintf(s->name, sizeof s->name, "ours, same %s: %s",
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

/* The peer's rate over as many absent keys as ours are measured with; never 0, for
 * planning. */
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
        bool is_ours = strncmp(s->name, "ours", 4) == 0;
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
        bgb_note("\npeers: %s cannot hold %zu keys at %g bits each", peer->name, n,
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
              "%s, %zu keys, %g bits per key; ratio = %s single / ns of the row",
              peer->name, n, bits, peer->name);
    bgb_run(t->subjects, t->count, options->seconds);
    peers_print(t, n);
    peers_run_builds(options, t, all, n);
    peer->release(filter);
    peers_release(t);
    free(t);
}

static bool peers_wants(const struct bgb_options *options, const struct bgb_peer *peer)
{
    return !options->peer || strcasecmp(options->peer, peer->name) == 0;
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
        if (!peers_wants(options, peers_all[i])) {
            continue;
        }
        const double bits[] = { 10, 16, peers_all[i]->bits_for_one_percent };
        for (int b = 0; b < 3; b++) {
            if (b < 2 || bits[b] < 10) {
                peers_run(options, peers_all[i], &keys, all, bits[b]);
            }
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
        bgb_note("\npeers: none was found when bgbench was built (libbloom-dev, "
                 "librocksdb-dev, libleveldb-dev)");
        return;
    }
    size_t wanted = 0;
    for (size_t i = 0; peers_all[i]; i++) {
        wanted += peers_wants(options, peers_all[i]);
    }
    if (wanted == 0) {
        bgb_options_refuse(
            "--peer", options->peer,
            "a peer that bgbench was built with: libbloom, RocksDB, LevelDB");
    }
    for (size_t i = 0; i < count; i++) {
        peers_size_run(options, n[i]);
    }
}
