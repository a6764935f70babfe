/*
 * region.c - maps memory with large or small pages.
 */
#define _GNU_SOURCE /* madvise, MAP_ANONYMOUS */

#include "region.h"

#include "harness.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { LARGE_PAGE = 2 << 20 };

void bgb_region_make(struct bgb_region *region, size_t bytes, bool small_pages)
{
    size_t map_bytes = bytes + 2 * (size_t)LARGE_PAGE;
    void *map = mmap(NULL, map_bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED) {
        bgb_die("cannot allocate %zu bytes", bytes);
    }
    uintptr_t start = ((uintptr_t)map + LARGE_PAGE - 1) & ~((uintptr_t)LARGE_PAGE - 1);
    region->base = (unsigned char *)start;
    region->bytes = bytes;
    region->map = map;
    region->map_bytes = map_bytes;
    if (small_pages) {
        (void)madvise(map, map_bytes, MADV_NOHUGEPAGE);
    } else if (bytes >= LARGE_PAGE) {
        (void)madvise(region->base, bytes, MADV_HUGEPAGE);
    }
    memset(region->base, 0x5a, bytes);
}

void bgb_region_free(struct bgb_region *region)
{
    if (region->map) {
        (void)munmap(region->map, region->map_bytes);
    }
    memset(region, 0, sizeof *region);
}

/* Returns true if a line of /proc/self/smaps starts a mapping ("from-to ..."), and stores the
 * mapping's range. */
static bool region_mapping(const char *line, unsigned long long *from,
                           unsigned long long *to)
{
    char *end;
    *from = strtoull(line, &end, 16);
    if (end == line || *end != '-') {
        return false;
    }
    const char *second = end + 1;
    *to = strtoull(second, &end, 16);
    return end != second && *end == ' ';
}

/* Sums the AnonHugePages of the mappings that overlap the region. The kernel may merge the region
 * with adjacent mappings that have the same settings, so the result is capped at 1. */
double bgb_region_large_share(const struct bgb_region *region)
{
    static const char field[] = "AnonHugePages:";
    FILE *file = fopen("/proc/self/smaps", "r");
    if (!file) {
        return (double)NAN;
    }
    char line[512];
    bool inside = false;
    unsigned long long from, to, large = 0;
    uintptr_t base = (uintptr_t)region->base;
    while (fgets(line, sizeof line, file)) {
        if (region_mapping(line, &from, &to)) {
            inside = from < base + region->bytes && to > base;
        } else if (inside && strncmp(line, field, sizeof field - 1) == 0) {
            large += strtoull(line + sizeof field - 1, NULL, 10) << 10;
        }
    }
    (void)fclose(file);
    return fmin(1.0, (double)large / (double)region->bytes);
}
