/*
 * occupancy_map.h - draws the distribution of a filter's bits, on the terminal or as SVG. A
 * filter that fills evenly has the same shade everywhere.
 */
#ifndef CLI_OCCUPANCY_MAP_H
#define CLI_OCCUPANCY_MAP_H

#include "bloomgate/all.h"

enum { MAP_COLUMNS = 64, MAP_ROWS = 16 };

struct occupancy_map {
    size_t columns, rows;
    double least, mean, most;
    uint64_t cell_bytes; /* approximate size of a cell */
    double shares[MAP_COLUMNS * MAP_ROWS];
    const char *title; /* for map_write_svg; may be any text */
};

/* Computes the map. The map of a small filter has fewer cells, with about one 64-bit word per cell.
 * Returns an exit code. */
int map_find(const bg_filter *filter, struct occupancy_map *map);

/* Prints the map to stdout. */
void map_print(const struct occupancy_map *map, bool colors);

/* Writes the map to a file, replacing any existing file. Returns an exit code. */
int map_write_svg(const struct occupancy_map *map, const char *path);

#endif
