/* occupancy_map.c - see occupancy_map.h. */
#include "occupancy_map.h"

#include "number.h"
#include "replace_file.h"
#include "say.h"
#include "text.h"

#include <stdio.h>
#include <stdlib.h>

int map_find(const bg_filter *filter, struct occupancy_map *map)
{
    *map = (struct occupancy_map){ .least = 1 };
    const uint64_t all = bg_filter_size_bytes(filter), words = all / 8;
    const uint64_t rows = words / MAP_COLUMNS;
    map->columns = words < MAP_COLUMNS ? (size_t)(words ? words : 1) : MAP_COLUMNS;
    map->rows = rows < 1 ? 1 : rows < MAP_ROWS ? (size_t)rows : MAP_ROWS;
    const size_t cells = map->columns * map->rows;
    map->cell_bytes = all / cells;
    if (bg_filter_occupancy(filter, map->shares, cells)) {
        return say_data("this filter cannot report the distribution of its bits");
    }
    for (size_t i = 0; i < cells; i++) {
        const double share = map->shares[i];
        map->least = share < map->least ? share : map->least;
        map->most = share > map->most ? share : map->most;
        map->mean += share / (double)cells;
    }
    return CLI_OK;
}

enum { MAP_SHADES = 9 }; /* one shade for empty cells, and eight for other shares */

/* Colors range from dark violet to yellow, so brightness increases with the share of set bits. */
static const struct {
    const char *block;
    unsigned color; /* index into the 256-color palette */
} map_shades[MAP_SHADES] = { { "·", 240 }, { "▁", 60 },  { "▂", 61 },
                             { "▃", 67 },  { "▄", 73 },  { "▅", 79 },
                             { "▆", 114 }, { "▇", 149 }, { "█", 184 } };

static unsigned map_shade(double share)
{
    const double eighths = share * 8;
    return share <= 0 ? 0 : eighths >= 8 ? 8 : 1 + (unsigned)eighths;
}

static void map_print_row(const struct occupancy_map *map, size_t row, bool colors)
{
    (void)fputs("  ", stdout);
    for (size_t i = 0; i < map->columns; i++) {
        const unsigned shade = map_shade(map->shares[row * map->columns + i]);
        if (colors) {
            printf("\033[38;5;%um%s", map_shades[shade].color, map_shades[shade].block);
        } else {
            (void)fputs(map_shades[shade].block, stdout);
        }
    }
    (void)fputs(colors ? "\033[0m\n" : "\n", stdout);
}

void map_print(const struct occupancy_map *map, bool colors)
{
    for (size_t row = 0; row < map->rows; row++) {
        map_print_row(map, row, colors);
    }
    printf("  one cell is %s; share of bits set, in eighths: ",
           BYTES_TEXT(map->cell_bytes));
    for (unsigned i = 0; i < MAP_SHADES; i++) {
        (void)fputs(map_shades[i].block, stdout);
    }
    printf("\n  minimum %s, mean %s, maximum %s\n", RATE_TEXT(map->least),
           RATE_TEXT(map->mean), RATE_TEXT(map->most));
}

enum {
    MAP_CELL = 12,
    MAP_MARGIN = 20,
    MAP_TOP = 56,
    MAP_BELOW = 76,
    MAP_LEGEND = 64, /* swatches */
    MAP_SWATCH = 4
};

/* Colors change linearly from almost white to dark blue, so that small differences look small. */
static unsigned map_svg_color(double share)
{
    static const unsigned char stops[][3] = { { 247, 251, 255 },
                                              { 198, 219, 239 },
                                              { 107, 174, 214 },
                                              { 33, 113, 181 },
                                              { 8, 48, 107 } };
    const double at = 4 * (share > 1 ? 1 : share);
    const unsigned low = at >= 4 ? 3 : (unsigned)at;
    unsigned color = 0;
    for (int i = 0; i < 3; i++) {
        const double from = stops[low][i], to = stops[low + 1][i];
        color = color << 8 | (unsigned)(from + (to - from) * (at - low) + 0.5);
    }
    return color;
}

static void map_svg_cells(FILE *out, const struct occupancy_map *map)
{
    for (size_t i = 0; i < map->columns * map->rows; i++) {
        const double share = map->shares[i];
        (void)fprintf(out,
                      "<rect x=\"%zu\" y=\"%zu\" width=\"%d\" height=\"%d\" "
                      "fill=\"#%06x\"><title>%.2f%%</title></rect>\n",
                      MAP_MARGIN + i % map->columns * MAP_CELL,
                      MAP_TOP + i / map->columns * MAP_CELL, MAP_CELL, MAP_CELL,
                      map_svg_color(share), 100 * share);
    }
}

static void map_svg_frame(FILE *out, size_t y, size_t width, size_t height)
{
    (void)fprintf(out,
                  "<rect x=\"%d\" y=\"%zu\" width=\"%zu\" height=\"%zu\" fill=\"none\" "
                  "stroke=\"#888\" stroke-width=\"0.5\"/>\n",
                  MAP_MARGIN, y, width, height);
}

static void map_svg_legend(FILE *out, size_t y)
{
    for (int i = 0; i < MAP_LEGEND; i++) {
        (void)fprintf(out,
                      "<rect x=\"%d\" y=\"%zu\" width=\"%d\" height=\"14\" "
                      "fill=\"#%06x\"/>\n",
                      MAP_MARGIN + i * MAP_SWATCH, y, MAP_SWATCH,
                      map_svg_color((double)i / (MAP_LEGEND - 1)));
    }
    map_svg_frame(out, y, (size_t)MAP_LEGEND * MAP_SWATCH, 14);
    for (int i = 0; i <= 4; i++) {
        (void)fprintf(out,
                      "<text x=\"%d\" y=\"%zu\" text-anchor=\"middle\">%d%%</text>\n",
                      MAP_MARGIN + i * MAP_LEGEND * MAP_SWATCH / 4, y + 28, 25 * i);
    }
    (void)fprintf(out, "<text x=\"%d\" y=\"%zu\">share of bits set in a cell</text>\n",
                  MAP_MARGIN + MAP_LEGEND * MAP_SWATCH + 12, y + 12);
}

static void map_svg(const void *what, FILE *out)
{
    const struct occupancy_map *map = what;
    const size_t bottom = MAP_TOP + map->rows * MAP_CELL;
    const size_t least_width = MAP_LEGEND * MAP_SWATCH + 150;
    const size_t cells_width = map->columns * MAP_CELL;
    const size_t width =
        2 * MAP_MARGIN + (cells_width > least_width ? cells_width : least_width);
    (void)fprintf(out,
                  "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                  "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%zu\" "
                  "height=\"%zu\" viewBox=\"0 0 %zu %zu\" font-family=\"sans-serif\" "
                  "font-size=\"12\">\n<title>",
                  width, bottom + MAP_BELOW, width, bottom + MAP_BELOW);
    text_xml(out, map->title);
    (void)fprintf(out,
                  "</title>\n<rect width=\"%zu\" height=\"%zu\" fill=\"#ffffff\"/>\n"
                  "<text x=\"%d\" y=\"24\" font-size=\"16\">",
                  width, bottom + MAP_BELOW, MAP_MARGIN);
    text_xml(out, map->title);
    (void)fprintf(
        out,
        "</text>\n"
        "<text x=\"%d\" y=\"44\" fill=\"#555\">one cell is %s; minimum %s, mean %s, "
        "maximum %s of its bits set</text>\n",
        MAP_MARGIN, BYTES_TEXT(map->cell_bytes), RATE_TEXT(map->least),
        RATE_TEXT(map->mean), RATE_TEXT(map->most));
    map_svg_cells(out, map);
    map_svg_frame(out, MAP_TOP, cells_width, map->rows * MAP_CELL);
    map_svg_legend(out, bottom + 24);
    (void)fputs("</svg>\n", out);
}

int map_write_svg(const struct occupancy_map *map, const char *path)
{
    return replace_file_with(path, map_svg, map);
}
