/*
 * region.h - memory to measure on: touched before, on 2 MiB pages or on 4 KiB pages.
 *
 * The large form asks for its pages as the library does (madvise at a 2 MiB boundary,
 * from 2 MiB upwards); the small form refuses them, whatever the system's setting is.
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

/* Maps a region and writes to every page; ends the program when there is no memory. */
void bgb_region_make(struct bgb_region *region, size_t bytes, bool small_pages);
void bgb_region_free(struct bgb_region *region);

/* Which share of the region lies on large pages, as the kernel tells it; NaN when it
 * does not tell. */
double bgb_region_large_share(const struct bgb_region *region);

#endif
