/*
 * occupancy_map.h - where the bits of a filter are, as a picture: in the terminal, or as SVG.
 * A filter that fills evenly has one shade all over.
 */
#ifndef CLI_OCCUPANCY_MAP_H
#define CLI_OCCUPANCY_MAP_H

#include "bloomgate/bloomgate.h"

enum { MAP_COLUMNS = 64, MAP_ROWS = 16 };

struct occupancy_map {
    size_t columns, rows;
    double least, mean, most;
    uint64_t cell_bytes; /* of a cell, about */
    double shares[MAP_COLUMNS * MAP_ROWS];
};

/* Fills it in; a small filter has fewer cells, of a word each. Exit code. */
int map_find(const bg_filter *filter, struct occupancy_map *map);

/* To stdout. */
void map_print(const struct occupancy_map *map, bool colors);

/* To a file, which is replaced; `title` is any text. Exit code. */
int map_write_svg(const struct occupancy_map *map, const char *title, const char *path);

#endif
