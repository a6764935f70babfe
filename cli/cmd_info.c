/*
 * cmd_info.c - bloomgate info: describes filter files, as text or JSON.
 */
#include "command.h"
#include "filter_file.h"
#include "json.h"
#include "number.h"
#include "replace_file.h"
#include "spool.h"
#include "text.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct info_options {
    struct common common;
    struct open_options open;
    bool json, bits, force;
    const char *svg;
    size_t told; /* files printed so far */
};

#define OPT_STRUCT struct info_options
static const struct option info_table[] = {
    OPT_FLAG("json", 0, json, "print a JSON object per file (bloomgate.info.1)"),
    OPT_FLAG("bits", 0, bits, "draw the distribution of set bits"),
    OPT_TEXT("svg", 0, svg, "FILE",
             "write the drawing to FILE as SVG (one filter only)"),
    OPT_FLAG("force", 'f', force, "overwrite FILE"),
    OPT_END,
};

/* ---- Facts ----------------------------------------------------------------------------------- */

enum info_health { INFO_FINE, INFO_FULLER, INFO_OVERFLOWED, INFO_DEGRADED };

struct info_facts {
    const char *path;
    bool ours;
    bool complete; /* false if only the header was read, for lack of a secret */
    uint64_t file_bytes;
    bg_file_info about; /* files of bloomgate */
    char recipe[KEY_RECIPE];
    bg_filter_info info;     /* for bloomgate files, if `complete` */
    bg_foreign_info foreign; /* for files from other software */
    double foreign_keys;     /* estimated number of keys in `foreign`; 0 if unknown */
    double bits_per_key;     /* 0 if unknown */
    bg_health status;
    enum info_health health;
    double times; /* the rate divided by the design rate */
};

enum { INFO_KEY_ID = 2 * BG_KEY_ID_BYTES + 1, INFO_TIME = 32 };

static void info_find_health(struct info_facts *facts)
{
    const bg_filter_info *info = &facts->info;
    facts->times = info->design_rate > 0 ? info->rate / info->design_rate : 0;
    facts->status = filter_health(info);
    facts->health = info->degraded             ? INFO_DEGRADED
                    : info->overflowed         ? INFO_OVERFLOWED
                    : filter_misses_rate(info) ? INFO_FULLER
                                               : INFO_FINE;
}

/* Returns the number of bits per key at full capacity. A scalable filter has no fixed capacity, so
 * the result is the number of bits per stored key. */
static double info_per_key(const bg_filter_info *info)
{
    const double keys = info->design_items && info->kind != BG_KIND_SCALABLE
                            ? (double)info->design_items
                            : info->items.value;
    return keys >= 1 ? (double)info->bits / keys : 0;
}

static int info_find_ours(const struct filter_file *file, struct info_facts *facts)
{
    facts->ours = true;
    facts->about = file->about;
    facts->file_bytes = file->about.file_bytes;
    memcpy(facts->recipe, file->recipe, sizeof facts->recipe);
    facts->complete = file->filter != NULL;
    if (!facts->complete) {
        facts->bits_per_key = facts->about.items ? 8 * (double)facts->about.word_bytes
                                                       / (double)facts->about.items
                                                 : 0;
        return CLI_OK;
    }
    facts->info.struct_size = sizeof facts->info;
    if (bg_filter_get_info(file->filter, &facts->info)) {
        return say_data("%s: cannot read the properties of the filter", file->path);
    }
    facts->bits_per_key = info_per_key(&facts->info);
    info_find_health(facts);
    return CLI_OK;
}

/* Estimates the number of keys from the fill, for formats with independently set bits. */
static double info_foreign_keys(const bg_foreign_info *f)
{
    switch ((bg_foreign_format)f->format) {
    case BG_FOREIGN_GUAVA:
    case BG_FOREIGN_GO:
    case BG_FOREIGN_DCSO:
    case BG_FOREIGN_BIP37:
    case BG_FOREIGN_SPARK:
    case BG_FOREIGN_HADOOP:
    case BG_FOREIGN_CASSANDRA:
    case BG_FOREIGN_SQUID:
    case BG_FOREIGN_BFV1:
        return f->k && f->ones < f->bits
                   ? -(double)f->bits / f->k * log1p(-(double)f->ones / (double)f->bits)
                   : 0;
    case BG_FOREIGN_PARQUET:
    case BG_FOREIGN_REDISBLOOM:
    case BG_FOREIGN_VALKEYBLOOM:
    case BG_FOREIGN_REDISCUCKOO:
    case BG_FOREIGN_BIP158:
    case BG_FOREIGN_ROCKSDB:
    case BG_FOREIGN_LEVELDB: break;
    }
    return 0;
}

/* Collects the facts. `file` was opened by filter_open, or contains only the header of a file. */
static int info_find(const struct filter_file *file, struct info_facts *facts)
{
    *facts = (struct info_facts){ .path = file->path, .complete = true };
    if (!file->foreign) {
        return info_find_ours(file, facts);
    }
    facts->file_bytes = file->foreign_bytes;
    facts->foreign.struct_size = sizeof facts->foreign;
    if (bg_foreign_get_info(file->foreign, &facts->foreign)) {
        return say_data("%s: cannot read the properties of the filter", file->path);
    }
    facts->foreign_keys = info_foreign_keys(&facts->foreign);
    const uint64_t keys =
        facts->foreign.design ? facts->foreign.design : facts->foreign.items;
    facts->bits_per_key = keys ? (double)facts->foreign.bits / (double)keys : 0;
    return CLI_OK;
}

/* Key IDs are usually text; other IDs are printed as hexadecimal digits. "" means none. */
static void info_key_id(const uint8_t id[BG_KEY_ID_BYTES], char text[INFO_KEY_ID])
{
    size_t n = BG_KEY_ID_BYTES;
    bool printable = true;
    while (n > 0 && id[n - 1] == 0) {
        n--;
    }
    for (size_t i = 0; i < n; i++) {
        printable &= id[i] >= 0x20 && id[i] < 0x7F;
    }
    memset(text, 0, INFO_KEY_ID);
    for (size_t i = 0; i < n; i++) {
        if (printable) {
            text[i] = (char)id[i];
        } else {
            (void)snprintf(text + 2 * i, 3, "%02x", id[i]);
        }
    }
}

/* "2026-11-16T04:00:00Z" */
static void info_time(uint64_t seconds, char text[INFO_TIME])
{
    const time_t when = (time_t)seconds;
    struct tm parts;
    if (seconds > INT64_MAX / 2 || !gmtime_r(&when, &parts)
        || !strftime(text, INFO_TIME, "%Y-%m-%dT%H:%M:%SZ", &parts)) {
        (void)snprintf(text, INFO_TIME, "?");
    }
}

/* ---- Text: one fact per line ----------------------------------------------------------------- */

/* Prints a fact, which may contain untrusted text, unless it does not apply. */
__attribute__((format(printf, 3, 4))) static void
info_row_if(bool applies, const char *name, const char *format, ...)
{
    va_list arguments;
    char text[BG_METADATA_MAX];
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    say_tame(text, strlen(text));
    if (applies) {
        printf("  %-12s %s\n", name, text);
    }
}

#define info_row(...) info_row_if(true, __VA_ARGS__)

static void info_notes(const char *metadata)
{
    static const char recipe[] = "keys: "; /* printed as "keys" */
    for (const char *line = metadata; *line;) {
        const size_t n = strcspn(line, "\n");
        if (n > 0 && strncmp(line, recipe, sizeof recipe - 1) != 0) {
            info_row("note", "%.*s", (int)n, line);
        }
        line += n + (line[n] == '\n');
    }
}

static void info_size(uint64_t bits, uint64_t bytes, double per_key)
{
    if (per_key > 0) { /* thousands of bits per key if a filter is nearly empty */
        char each[NUMBER_TEXT];
        if (per_key < 1000) {
            (void)snprintf(each, sizeof each, "%.4g", per_key);
        } else {
            (void)number_show((uint64_t)(per_key + 0.5), each);
        }
        info_row("size", "%s, %s bits, %s bits/key", BYTES_TEXT(bytes),
                 COUNT_TEXT(bits), each);
    } else {
        info_row("size", "%s, %s bits", BYTES_TEXT(bytes), COUNT_TEXT(bits));
    }
}

static void info_design(uint64_t items, double rate)
{
    const char *plural = items == 1 ? "" : "s";
    if (items && rate > 0) {
        info_row("designed for", "%s key%s at a rate of %s", COUNT_TEXT(items), plural,
                 RATE_TEXT(rate));
    } else if (items) {
        info_row("designed for", "%s key%s", COUNT_TEXT(items), plural);
    }
}

static void info_hash(const bg_file_info *about)
{
    char id[INFO_KEY_ID];
    const char *name = bg_hash_name((bg_hash_profile)about->profile);
    info_key_id(about->key_id, id);
    if (about->profile == BG_HASH_CUSTOM) {
        info_row("hash", "%s, '%s'", name, about->custom_name);
    } else if (about->profile == BG_HASH_FAST || about->profile == BG_HASH_XXH64
               || about->profile == BG_HASH_FAST_INT) {
        info_row("hash", "%s, seed %" PRIu64, name, about->seed);
    } else {
        info_row("hash", "%s", name);
    }
    info_row_if(*id != 0, "key id", "%s", id);
}

static void info_content(const bg_filter_info *info)
{
    info_row("fill", "%s", RATE_TEXT(info->fill));
    if (info->items.high < 1e18) {
        const bool limited = info->design_items && info->kind != BG_KIND_SCALABLE;
        info_row("keys stored", "about %s%s%s (%s to %s)",
                 COUNT_TEXT((uint64_t)(info->items.value + 0.5)), limited ? " of " : "",
                 limited ? COUNT_TEXT(info->design_items) : "",
                 COUNT_TEXT((uint64_t)(info->items.low + 0.5)),
                 COUNT_TEXT((uint64_t)(info->items.high + 0.5)));
    } else {
        info_row("keys stored", "too many to estimate");
    }
    info_row("current rate", "%s", RATE_OF_TEXT(info->rate, info->design_rate));
}

/* Describes bg_filter_info.saturated, whose meaning depends on the kind. */
static const char *info_saturated(bg_kind kind)
{
    return kind == BG_KIND_CUCKOO ? "copies of keys that did not fit"
           : kind == BG_KIND_SCALABLE || kind == BG_KIND_WINDOW
               ? "keys beyond the capacity of their layer"
               : "counters at their maximum, so their keys cannot be removed";
}

static void info_health(const struct info_facts *facts)
{
    const bg_filter_info *info = &facts->info;
    const bool layered = info->kind == BG_KIND_SCALABLE || info->kind == BG_KIND_WINDOW;
    info_row("health", "%s", filter_show_health(info, (char[FILTER_RATE_TEXT]){ "" }));
    if (info->saturated && !(layered && filter_health(info) == BG_HEALTH_FINE)) {
        info_row("saturated", "%s %s", COUNT_TEXT(info->saturated),
                 info_saturated(info->kind));
    }
}

static void info_geometry(const bg_file_info *about)
{
    info_row("kind", "%s", bg_kind_name((bg_kind)about->kind));
    info_row("geometry", "k %u, %s units", about->k, COUNT_TEXT(about->units));
    info_row_if(about->width != 0, "width", "%u", about->width);
    info_row_if(about->shards > 1, "shards", "%u", about->shards);
}

static void info_file(const struct info_facts *facts)
{
    const bg_file_info *about = &facts->about;
    char time[INFO_TIME];
    info_time(about->created, time);
    info_row("generation", "%" PRIu64, about->generation);
    info_row("canaries", "%s", about->present_canaries ? "yes" : "none");
    info_row("created", "%s",
             about->created == BG_CREATED_UNKNOWN ? "not recorded" : time);
    info_row("digest", "%s", about->digest_text);
    info_row("file", "%s bytes, %s block%s", COUNT_TEXT(about->file_bytes),
             COUNT_TEXT(about->blocks), about->blocks == 1 ? "" : "s");
    info_notes(about->metadata);
}

static void info_print_ours(const struct info_facts *facts)
{
    const bg_file_info *about = &facts->about;
    info_row("format", "bloomgate %u.%u", about->major, about->minor);
    info_geometry(about);
    if (facts->complete) {
        info_size(facts->info.bits, facts->info.bytes, facts->bits_per_key);
        if (facts->info.foldable) {
            info_row("can fold", "%u time%s", facts->info.foldable,
                     facts->info.foldable == 1 ? "" : "s");
        }
    } else {
        info_size(8 * about->word_bytes, about->word_bytes, facts->bits_per_key);
    }
    info_design(about->items, about->rate);
    info_hash(about);
    info_row("keys", "%s", *facts->recipe ? facts->recipe : "used unchanged");
    info_file(facts);
    if (facts->complete) {
        info_content(&facts->info);
        info_health(facts);
    } else {
        info_row("contents", "unknown without the secret; use --keyring FILE");
    }
}

static void info_print_foreign(const struct info_facts *facts)
{
    static const char *const forms[] = { "?", "bytes", "utf16", "int32", "int64" };
    const bg_foreign_info *f = &facts->foreign;
    info_row("format", "%s", bg_foreign_name((bg_foreign_format)f->format));
    info_row_if(f->version != 0, "version", "%u", f->version);
    info_row_if(f->k != 0, "geometry", "k %u", f->k);
    info_row_if(f->parts != 1, "parts", "%u", f->parts);
    info_size(f->bits, (f->bits + 7) / 8, facts->bits_per_key);
    info_design(f->design, 0);
    info_row("keys", "interpreted as %s", f->keys < 5 ? forms[f->keys] : "?");
    info_row("file", "%s bytes", COUNT_TEXT(facts->file_bytes));
    if (f->k && f->bits) {
        info_row("fill", "%s", RATE_TEXT((double)f->ones / (double)f->bits));
    }
    if (f->items) {
        info_row("keys stored", "%s", COUNT_TEXT(f->items));
    } else if (facts->foreign_keys > 0) {
        info_row("keys stored", "about %s",
                 COUNT_TEXT((uint64_t)(facts->foreign_keys + 0.5)));
    }
    info_row("current rate", "%s", RATE_TEXT(f->rate));
    info_row("checksum", "%s",
             f->format == BG_FOREIGN_ROCKSDB || f->format == BG_FOREIGN_LEVELDB
                 ? "yes, and correct"
                 : "none: damage cannot be detected");
}

static void info_print_text(const struct info_facts *facts)
{
    char path[4096];
    (void)snprintf(path, sizeof path, "%s", facts->path);
    say_tame(path, strlen(path));
    printf("%s\n", path);
    (facts->ours ? info_print_ours : info_print_foreign)(facts);
}

/* ---- JSON: one object per file --------------------------------------------------------------- */

static void info_json_header(struct json *json, const struct info_facts *facts)
{
    const bg_file_info *about = &facts->about;
    char text[INFO_KEY_ID > INFO_TIME ? INFO_KEY_ID : INFO_TIME], version[32];
    (void)snprintf(version, sizeof version, "%u.%u", about->major, about->minor);
    json_text(json, "version", version);
    json_text(json, "kind", bg_kind_name((bg_kind)about->kind));
    json_count(json, "k", about->k);
    json_count(json, "units", about->units);
    json_count(json, "width", about->width);
    json_count(json, "shards", about->shards > 1 ? about->shards : 1);
    json_object(json, "design");
    json_count(json, "items", about->items);
    json_real(json, "rate", about->rate);
    json_close(json, '}');
    json_object(json, "hash");
    json_text(json, "profile", bg_hash_name((bg_hash_profile)about->profile));
    json_count(json, "seed", about->seed);
    (void)snprintf(text, sizeof text, "%016" PRIx64, about->check);
    json_text(json, "check", text);
    info_key_id(about->key_id, text);
    json_text(json, "key_id", text);
    json_close(json, '}');
    json_text(json, "keys", facts->recipe);
    json_count(json, "generation", about->generation);
    json_bool(json, "canaries", about->present_canaries > 0);
    info_time(about->created, text);
    json_text(json, "created", about->created == BG_CREATED_UNKNOWN ? NULL : text);
    json_text(json, "digest", about->digest_text);
    json_text(json, "metadata", about->metadata);
    json_count(json, "blocks", about->blocks);
}

static void info_json_content(struct json *json, const struct info_facts *facts)
{
    static const char *const healths[] = { "fine", "fuller", "overflowed", "degraded" };
    const bg_filter_info *info = &facts->info;
    json_count(json, "bits", info->bits);
    json_count(json, "bytes", info->bytes);
    json_count(json, "foldable", info->foldable);
    json_count(json, "ones", info->ones);
    json_real(json, "fill", info->fill);
    json_object(json, "items");
    json_real(json, "value", info->items.value);
    json_real(json, "low", info->items.low);
    json_real(json, "high", info->items.high);
    json_close(json, '}');
    json_real(json, "rate", info->rate);
    json_count(json, "saturated", info->saturated);
    json_text(json, "health", healths[facts->health]);
    json_real(json, "times_design_rate", facts->times);
    json_text(json, "status", filter_health_name(facts->status));
}

static void info_json_foreign(struct json *json, const struct info_facts *facts)
{
    const bg_foreign_info *f = &facts->foreign;
    json_count(json, "version", f->version);
    json_count(json, "parts", f->parts);
    json_count(json, "k", f->k);
    json_count(json, "bits", f->bits);
    json_count(json, "bytes", (f->bits + 7) / 8);
    json_count(json, "ones", f->ones);
    json_real(json, "fill", f->bits ? (double)f->ones / (double)f->bits : 0);
    json_object(json, "design");
    json_count(json, "items", f->design);
    json_close(json, '}');
    json_object(json, "items");
    json_real(json, "value", f->items ? (double)f->items : facts->foreign_keys);
    json_close(json, '}');
    json_real(json, "rate", f->rate);
}

/* Prints the facts, including the cells of the occupancy map, if there is one. */
static void info_print_json(const struct info_facts *facts, const double *shares,
                            size_t cells)
{
    struct json json;
    json_begin(&json, "bloomgate.info.1");
    json_text(&json, "file", facts->path);
    json_count(&json, "file_bytes", facts->file_bytes);
    json_text(&json, "format",
              facts->ours ? "bloomgate"
                          : bg_foreign_name((bg_foreign_format)facts->foreign.format));
    json_bool(&json, "complete", facts->complete);
    json_real(&json, "bits_per_key",
              facts->bits_per_key > 0 ? facts->bits_per_key : (double)NAN);
    if (!facts->ours) {
        info_json_foreign(&json, facts);
    } else {
        info_json_header(&json, facts);
        if (facts->complete) {
            info_json_content(&json, facts);
        }
    }
    if (cells > 0) {
        json_list(&json, "occupancy");
        for (size_t i = 0; i < cells; i++) {
            json_real(&json, NULL, shares[i]);
        }
        json_close(&json, ']');
    }
    json_end(&json);
}

/* ---- Distribution of the bits ---------------------------------------------------------------- */

/* Drawn on the terminal or as SVG. A filter that fills evenly has the same shade everywhere. */
enum { MAP_COLUMNS = 64, MAP_ROWS = 16 };

struct occupancy_map {
    size_t columns, rows;
    double least, mean, most;
    uint64_t cell_bytes; /* approximate size of a cell */
    double shares[MAP_COLUMNS * MAP_ROWS];
    const char *title; /* of the SVG file */
};

/* Computes the map. The map of a small filter has fewer cells, with about one word per cell. */
static int map_find(const bg_filter *filter, struct occupancy_map *map)
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

static void map_print(const struct occupancy_map *map, bool colors)
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

/* ---- Command --------------------------------------------------------------------------------- */

/* Computes the distribution of set bits. A Parquet filter is converted to a bloomgate filter of
 * kind `split` first, which has the same bits. */
static int info_map(const struct filter_file *file, struct occupancy_map *map)
{
    bg_filter *same = NULL;
    if (file->filter) {
        return map_find(file->filter, map);
    }
    if (!file->foreign) {
        return say_refused("%s: showing the bits requires the filter's secret; use "
                           "--keyring FILE",
                           file->path);
    }
    if (bg_foreign_to_filter(file->foreign, &same, NULL)) {
        return say_refused("%s: --bits and --svg require a bloomgate or parquet filter",
                           file->path);
    }
    const int code = map_find(same, map);
    bg_filter_free(same);
    return code;
}

static int info_print(struct info_options *o, const struct filter_file *file)
{
    static struct info_facts facts;
    static struct occupancy_map map;
    int code = info_find(file, &facts);
    if (!code && (o->bits || o->svg)) {
        code = info_map(file, &map);
    }
    if (!code && o->svg) {
        map.title = file->path;
        code = replace_file_with(o->svg, map_svg, &map);
    }
    if (code) {
        return code;
    }
    if (o->json) {
        info_print_json(&facts, map.shares, o->bits ? map.columns * map.rows : 0);
        return CLI_OK;
    }
    if (o->told++) {
        (void)putchar('\n');
    }
    info_print_text(&facts);
    if (o->bits) {
        map_print(&map, say_colors(STDOUT_FILENO));
    }
    return CLI_OK;
}

/* Reads only the header of a keyed filter, which cannot be opened without its secret. */
static int info_header_only(const char *path, struct filter_file *file)
{
    bg_errinfo why;
    *file = (struct filter_file){ .path = spool_name(path) };
    file->about.struct_size = sizeof file->about;
    if (bg_file_get_info(spool_path(path), &file->about, &why)) {
        return say_error(file->path, &why);
    }
    filter_read_recipe(file->about.metadata, file->recipe);
    return CLI_OK;
}

static int info_one(struct info_options *o, const char *path)
{
    static struct filter_file file;
    int code = spool_read(path);
    if (code) {
        return code;
    }
    const bool header_only =
        !o->open.keyring && filter_is_ours(path, &o->open) && filter_needs_secret(path);
    code = header_only ? info_header_only(path, &file)
                       : filter_open(path, &o->open, 0, KEY_TEXT, &file);
    if (!code) {
        code = info_print(o, &file);
        filter_close(&file);
    }
    return code;
}

static int info_command(void *options, const struct arguments *arguments)
{
    struct info_options *o = options;
    int worst = CLI_OK;
    if (o->svg && arguments->count > 1) {
        return say_usage("--svg requires a single filter");
    }
    if (o->svg) {
        worst = filter_may_write(o->svg, o->force);
        if (worst) {
            return worst;
        }
    }
    for (size_t i = 0; i < arguments->count; i++) {
        const int code = info_one(o, arguments->items[i]);
        worst = code > worst ? code : worst;
    }
    return out_finish(worst);
}

const struct command command_info = {
    .name = "info",
    .summary = "describe filter files",
    .usage = "[options] FILTER...",
    .about =
        "Prints the format, kind, geometry, capacity, key conversion, hash, "
        "generation and digest of each filter. It also prints how full the filter "
        "is: the estimated number of distinct keys with its 95% confidence interval, "
        "the current false-positive rate, and whether the filter is within its "
        "design limits. For files written by other software, info prints the "
        "properties that the format records.\n\nFor a filter with a secret, only the "
        "header is printed, unless --keyring is set.\n\n--bits draws the filter as "
        "a grid of up to 64 by 16 cells, shaded by the share of bits set. In a "
        "filter that fills evenly, all cells look alike.",
    .size = sizeof(struct info_options),
    .arguments = { 1, COMMAND_ANY, "missing argument FILTER" },
    .uses = { OPT_GROUP("Output", info_table),
              { &open_options_group, offsetof(struct info_options, open) } },
    .examples = { { "bloomgate info seen.bg", "describe a file" },
                  { "bloomgate info --json *.bg | jq -r '[.file, .health] | @tsv'",
                    "print the health of several files" } },
    .run = info_command,
};
