/*
 * bench_limit.c - what is this machine's memory limit, on large and small pages,
 * for reading and rewriting, on one core and on all cores?
 *
 * For every table size, all prefetching methods run in turn, on both page sizes, for reading and
 * for rewriting. Each row shows the best method for its page size and access mode; the rows for all
 * cores use the same method.
 */
#include "bench.h"
#include "keys.h"
#include "limit.h"
#include "machine.h"
#include "output.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    GROUPS = 4,
    SUBJECTS = GROUPS * BGB_LIMIT_WAYS,
    LARGE_FROM = 2 << 20 /* below this size, no large pages are requested */
};

/* One table size, with a region for each page size. A group is a combination of page size and
 * access mode; each group runs every prefetching method. */
struct limit_size {
    struct bgb_keys keys;
    struct bgb_region regions[2];
    struct bgb_limit limits[SUBJECTS];
    struct bgb_subject subjects[SUBJECTS];
    struct bgb_limit all_limits[GROUPS];
    struct bgb_subject all_subjects[GROUPS];
    size_t chunk;
};

static void limit_group_name(char name[BGB_NAME_BYTES], int group, unsigned cores)
{
    (void)snprintf(name, BGB_NAME_BYTES, "%s, %s pages, %u core%s",
                   group & 1 ? "lines rewritten" : "lines read",
                   group & 2 ? "4 KiB" : "2 MiB", cores, cores == 1 ? "" : "s");
}

static void limit_add_subjects(struct limit_size *s)
{
    for (int i = 0; i < SUBJECTS; i++) {
        int group = i / BGB_LIMIT_WAYS;
        const struct bgb_region *region = &s->regions[group >> 1];
        s->limits[i] = (struct bgb_limit){
            .memory = region->base,
            .lines = region->bytes / 64,
            .stream = s->keys.absent_hash,
            .mode = group & 1 ? BGB_LIMIT_WRITE : BGB_LIMIT_READ,
            .way = bgb_limit_ways[i % BGB_LIMIT_WAYS],
        };
        s->subjects[i] = (struct bgb_subject){ .pass = bgb_limit_pass,
                                               .state = &s->limits[i],
                                               .pool = s->keys.pool,
                                               .chunk = s->chunk };
        limit_group_name(s->subjects[i].name, group, 1);
    }
}

/* Returns the index of the fastest subject in a group. */
static int limit_best(const struct limit_size *s, int group)
{
    int best = group * BGB_LIMIT_WAYS;
    for (int i = best; i < (group + 1) * BGB_LIMIT_WAYS; i++) {
        best = s->subjects[i].p5 < s->subjects[best].p5 ? i : best;
    }
    return best;
}

static void limit_run_all_cores(struct limit_size *s, double seconds)
{
    unsigned cores = bgb_machine_cores();
    struct bgb_team *team = bgb_team_start(cores);
    for (int group = 0; group < GROUPS; group++) {
        struct bgb_limit *limit = &s->all_limits[group];
        *limit = s->limits[limit_best(s, group)];
        limit->team = team;
        s->all_subjects[group] = (struct bgb_subject){ .pass = bgb_limit_pass,
                                                       .state = limit,
                                                       .pool = s->keys.pool,
                                                       .chunk = s->keys.pool / 2,
                                                       .own_ns = &limit->team_ns };
        limit_group_name(s->all_subjects[group].name, group, cores);
    }
    bgb_run(s->all_subjects, GROUPS, seconds);
    bgb_team_stop(team);
}

static void limit_row(const struct limit_size *s, const struct bgb_subject *subject,
                      const struct bgb_subject *one_core, double large_share)
{
    const struct bgb_limit *limit = subject->state;
    bgb_row_begin();
    bgb_cell_text("subject", "subject", -38, subject->name);
    bgb_cell_count("n", "n", 0, s->keys.n);
    bgb_cell_count("bytes", "bytes", 12, s->regions[0].bytes);
    bgb_cell_real("bits_per_key", "", 0, 0, BGB_NONE);
    bgb_cell_real("fpr", "", 0, 0, BGB_NONE);
    bgb_cell_real("large_pages_share", "large", 6, 2, large_share);
    bgb_cell_count("distance", "ahead", 6, limit->way.distance);
    bgb_cell_text("into", "to", 3, limit->way.second ? "L2" : "L1");
    bgb_cells_times(subject, one_core->p5 / subject->p5);
    bgb_cell_real("lines_per_us", "lines/us", 9, 0, 1000 / subject->p5);
    bgb_row_end();
}

static void limit_size_run(const struct bgb_options *options, uint64_t bytes,
                           uint64_t n)
{
    struct limit_size *s = bgb_alloc(1, sizeof *s);
    bgb_keys_make(&s->keys, n);
    bgb_region_make(&s->regions[0], (size_t)bytes, false);
    bgb_region_make(&s->regions[1], (size_t)bytes, true);
    double share[2] = { bgb_region_large_share(&s->regions[0]),
                        bgb_region_large_share(&s->regions[1]) };
    s->chunk = bgb_keys_chunk(&s->keys, bytes);
    limit_add_subjects(s);
    bgb_run(s->subjects, SUBJECTS, options->seconds / 2);
    limit_run_all_cores(s, options->seconds);
    for (int group = bytes < LARGE_FROM ? 2 : 0; group < GROUPS; group++) {
        const struct bgb_subject *one = &s->subjects[limit_best(s, group)];
        limit_row(s, one, one, share[group >> 1]);
        limit_row(s, &s->all_subjects[group], one, share[group >> 1]);
    }
    bgb_region_free(&s->regions[0]);
    bgb_region_free(&s->regions[1]);
    bgb_keys_free(&s->keys);
    free(s);
}

void bgb_bench_limit(const struct bgb_options *options)
{
    static const uint64_t defaults[] = { 100000, 1000000, 10000000, 100000000 };
    uint64_t n[BGB_SIZES_MAX];
    size_t count = bgb_options_sizes(options, defaults, 4, n);
    bgb_table("limit", "random 64-byte lines; ratio = ns on one core / ns of the row");
    if (options->bytes_count) {
        for (size_t i = 0; i < options->bytes_count; i++) {
            uint64_t bytes = options->bytes[i] & ~(uint64_t)63;
            limit_size_run(options, bytes, bytes * 8 / 10);
        }
        return;
    }
    for (size_t i = 0; i < count; i++) { /* the size of a filter with 10 bits per key */
        limit_size_run(options, n[i] * 10 / 8 / 64 * 64, n[i]);
    }
}
