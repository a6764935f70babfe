/*
 * region.h - memory for measurements, on 2 MiB or 4 KiB pages that have already been touched.
 *
 * Regions of 2 MiB or more request large pages in the same way as the library: with madvise, at a
 * 2 MiB boundary. Regions created with `small_pages` opt out of large pages, regardless of the kernel
 * setting.
 */
#ifndef BGB_REGION_H
#define BGB_REGION_H

#include <stdbool.h>
#include <stddef.h>

struct bgb_region {
    unsigned char *base; /* aligned to 2 MiB */
    size_t bytes;
    void *map;
    size_t map_bytes;
};

/* Maps a region and writes to every page. Exits if there is not enough memory. */
void bgb_region_make(struct bgb_region *region, size_t bytes, bool small_pages);
void bgb_region_free(struct bgb_region *region);

/* Returns the fraction of the region that is on large pages, as reported by the kernel, or NaN if
 * the kernel does not report it. */
double bgb_region_large_share(const struct bgb_region *region);

#endif
