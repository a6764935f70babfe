/* info_facts.c - see info_facts.h. */
#define _POSIX_C_SOURCE 200809L

#include "info_facts.h"

#include "say.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

/* bloomgate info reports a filter as over capacity if its rate exceeds the design rate by this
 * factor. A high rate alone is not sufficient, because it may be due to chance or to the canaries
 * of a small filter. If the filter has a fixed capacity, the lower bound of the estimated number of
 * keys must also exceed the capacity plus the number of canaries. */
static const double info_worth_telling = 1.1;

static void info_find_health(struct info_facts *facts)
{
    const bg_filter_info *info = &facts->info;
    const double design = info->design_rate;
    facts->times = design > 0 ? info->rate / design : 0;
    const bool fuller =
        info->kind == BG_KIND_SCALABLE || info->design_items == 0
        || info->items.low > (double)info->design_items + facts->about.present_canaries;
    facts->health = info->degraded                                ? INFO_DEGRADED
                    : info->overflowed                            ? INFO_OVERFLOWED
                    : fuller && facts->times > info_worth_telling ? INFO_FULLER
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
        return say_failed(CLI_DATA, "%s: cannot read the properties of the filter",
                          file->path);
    }
    facts->bits_per_key = info_per_key(&facts->info);
    info_find_health(facts);
    return CLI_OK;
}

/* Estimates the number of keys from the fill, for formats whose bits are set independently and
 * with equal probability. */
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

int info_find(const struct filter_file *file, struct info_facts *facts)
{
    struct stat about;
    *facts = (struct info_facts){ .path = file->path, .complete = true };
    if (!file->foreign) {
        return info_find_ours(file, facts);
    }
    facts->file_bytes = stat(file->path, &about) == 0 && about.st_size > 0
                            ? (uint64_t)about.st_size
                            : 0;
    facts->foreign.struct_size = sizeof facts->foreign;
    if (bg_foreign_get_info(file->foreign, &facts->foreign)) {
        return say_failed(CLI_DATA, "%s: cannot read the properties of the filter",
                          file->path);
    }
    facts->foreign_keys = info_foreign_keys(&facts->foreign);
    const uint64_t keys =
        facts->foreign.design ? facts->foreign.design : facts->foreign.items;
    facts->bits_per_key = keys ? (double)facts->foreign.bits / (double)keys : 0;
    return CLI_OK;
}

void info_key_id(const uint8_t id[BG_KEY_ID_BYTES], char text[INFO_KEY_ID])
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

void info_time(uint64_t seconds, char text[INFO_TIME])
{
    const time_t when = (time_t)seconds;
    struct tm parts;
    if (seconds > INT64_MAX / 2 || !gmtime_r(&when, &parts)
        || !strftime(text, INFO_TIME, "%Y-%m-%dT%H:%M:%SZ", &parts)) {
        (void)snprintf(text, INFO_TIME, "?");
    }
}

const char *info_health_name(enum info_health health)
{
    static const char *const names[] = { "fine", "fuller", "overflowed", "degraded" };
    return names[health];
}
