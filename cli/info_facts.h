/*
 * info_facts.h - collects the facts about a filter file that bloomgate info prints as text or
 * JSON.
 */
#ifndef CLI_INFO_FACTS_H
#define CLI_INFO_FACTS_H

#include "filter_file.h"

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
    enum info_health health;
    double times; /* for INFO_FULLER, the rate divided by the design rate */
};

/* Collects the facts. `file` was opened by filter_open, or contains only the header of a file.
 * Returns an exit code. */
int info_find(const struct filter_file *file, struct info_facts *facts);

/* Key IDs are usually text, which is printed unchanged; other IDs are printed as hexadecimal
 * digits. "" means none. */
enum { INFO_KEY_ID = 2 * BG_KEY_ID_BYTES + 1, INFO_TIME = 32 };
void info_key_id(const uint8_t id[BG_KEY_ID_BYTES], char text[INFO_KEY_ID]);

/* "2026-11-16T04:00:00Z" */
void info_time(uint64_t seconds, char text[INFO_TIME]);

/* Returns the name of a health state: "fine", "fuller", "overflowed", "degraded". */
const char *info_health_name(enum info_health health);

void info_print_text(const struct info_facts *facts);

/* Prints the facts as JSON, including the share of set bits in each cell of the occupancy map, if
 * there is one. */
void info_print_json(const struct info_facts *facts, const double *shares,
                     size_t cells);

#endif
