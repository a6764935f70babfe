/*
 * info_facts.h - what bloomgate info tells of a filter file, found out once and then
 * printed for people or as JSON.
 */
#ifndef CLI_INFO_FACTS_H
#define CLI_INFO_FACTS_H

#include "filter_file.h"

enum info_health { INFO_FINE, INFO_FULLER, INFO_OVERFLOWED, INFO_DEGRADED };

struct info_facts {
    const char *path;
    bool ours;
    bool complete; /* false: the secret is missing, so only the header tells */
    uint64_t file_bytes;
    bg_file_info about; /* ours */
    char recipe[KEY_RECIPE];
    bg_info info;            /* ours, if complete */
    bg_foreign_info foreign; /* of others */
    double foreign_keys;     /* of others: about so many are in it; 0: not known */
    double bits_per_key;     /* 0: not known */
    enum info_health health;
    double times; /* INFO_FULLER: the rate, as a multiple of the design's */
};

/* Finds them out; `file` is what filter_open gave, or has neither filter. Exit code. */
int info_find(const struct filter_file *file, struct info_facts *facts);

/* Key ids are text, mostly: as it is, or as hexadecimal digits; "" for none. */
enum { INFO_KEY_ID = 2 * BG_KEY_ID_BYTES + 1, INFO_TIME = 32 };
void info_key_id(const uint8_t id[BG_KEY_ID_BYTES], char text[INFO_KEY_ID]);

/* "2026-11-16T04:00:00Z" */
void info_time(uint64_t seconds, char text[INFO_TIME]);

/* The word for health: "fine", "fuller", "overflowed", "degraded". */
const char *info_health_name(enum info_health health);

void info_print_text(const struct info_facts *facts);

/* With the shares of `cells` cells, if there are any. */
void info_print_json(const struct info_facts *facts, const double *shares,
                     size_t cells);

#endif
