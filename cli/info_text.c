/* info_text.c - prints the output of bloomgate info as text: one fact per line. */
#include "info_facts.h"
#include "number.h"
#include "say.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { INFO_ROW = 512 };

__attribute__((format(printf, 2, 3))) static void info_row(const char *name,
                                                           const char *format, ...)
{
    va_list arguments;
    char text[INFO_ROW];
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    say_tame(text, strlen(text));
    printf("  %-12s %s\n", name, text);
}

/* Prints a line of untrusted text, with control characters replaced. */
static void info_note(const char *line, size_t n)
{
    char text[BG_METADATA_MAX];
    (void)snprintf(text, sizeof text, "%.*s", (int)n, line);
    say_tame(text, strlen(text));
    printf("  %-12s %s\n", "note", text);
}

static void info_notes(const char *metadata)
{
    static const char recipe[] = "keys: "; /* printed as "keys" */
    for (const char *line = metadata; *line;) {
        const size_t n = strcspn(line, "\n");
        if (n > 0 && strncmp(line, recipe, sizeof recipe - 1) != 0) {
            info_note(line, n);
        }
        line += n + (line[n] == '\n');
    }
}

static void info_size(uint64_t bits, uint64_t bytes, double per_key)
{
    char text[NUMBER_TEXT], size[NUMBER_TEXT];
    if (per_key > 0) { /* thousands of bits per key if a filter is nearly empty */
        char each[NUMBER_TEXT];
        if (per_key < 1000) {
            (void)snprintf(each, sizeof each, "%.4g", per_key);
        } else {
            (void)number_show((uint64_t)(per_key + 0.5), each);
        }
        info_row("size", "%s, %s bits, %s bits/key", number_show_bytes(bytes, size),
                 number_show(bits, text), each);
    } else {
        info_row("size", "%s, %s bits", number_show_bytes(bytes, size),
                 number_show(bits, text));
    }
}

static void info_design(uint64_t items, double rate)
{
    char text[NUMBER_TEXT], share[NUMBER_TEXT];
    if (items && rate > 0) {
        info_row("designed for", "%s keys at a rate of %s", number_show(items, text),
                 number_show_rate(rate, share));
    } else if (items) {
        info_row("designed for", "%s keys", number_show(items, text));
    }
}

static void info_hash(const bg_file_info *about)
{
    char id[INFO_KEY_ID];
    const char *name = bg_hash_name((bg_hash_profile)about->profile);
    info_key_id(about->key_id, id);
    if (about->profile == BG_HASH_CUSTOM) {
        info_row("hash", "%s, '%s'", name, about->custom_name);
    } else if (about->profile == BG_HASH_FAST || about->profile == BG_HASH_XXH64) {
        info_row("hash", "%s, seed %" PRIu64, name, about->seed);
    } else {
        info_row("hash", "%s", name);
    }
    if (*id) {
        info_row("key id", "%s", id);
    }
}

static void info_content(const bg_filter_info *info)
{
    char value[NUMBER_TEXT], low[NUMBER_TEXT], high[NUMBER_TEXT];
    info_row("fill", "%s", number_show_rate(info->fill, value));
    if (info->items.high < 1e18) {
        info_row("keys stored", "about %s (%s to %s)",
                 number_show((uint64_t)(info->items.value + 0.5), value),
                 number_show((uint64_t)(info->items.low + 0.5), low),
                 number_show((uint64_t)(info->items.high + 0.5), high));
    } else {
        info_row("keys stored", "too many to estimate");
    }
    info_row("current rate", "%s", number_show_rate(info->rate, value));
}

static void info_health(const struct info_facts *facts)
{
    char count[NUMBER_TEXT];
    switch (facts->health) {
    case INFO_FINE: info_row("health", "fine"); break;
    case INFO_FULLER:
        info_row("health", "over capacity: the rate is %.3g times the design rate",
                 facts->times);
        break;
    case INFO_OVERFLOWED:
        info_row("health", "overflowed: every answer is \"maybe\"");
        break;
    case INFO_DEGRADED:
        info_row("health", "degraded: damaged parts always answer \"maybe\"");
        break;
    }
    if (facts->info.saturated) {
        info_row("saturated", "%s: see bg_filter(3)",
                 number_show(facts->info.saturated, count));
    }
}

static void info_geometry(const bg_file_info *about)
{
    char units[NUMBER_TEXT];
    info_row("kind", "%s", bg_kind_name((bg_kind)about->kind));
    info_row("geometry", "k %u, %s units", about->k, number_show(about->units, units));
    if (about->width) {
        info_row("width", "%u", about->width);
    }
    if (about->shards > 1) {
        info_row("shards", "%u", about->shards);
    }
}

static void info_file(const struct info_facts *facts)
{
    const bg_file_info *about = &facts->about;
    char text[NUMBER_TEXT], blocks[NUMBER_TEXT], time[INFO_TIME];
    info_time(about->created, time);
    info_row("generation", "%" PRIu64, about->generation);
    info_row("canaries", "%s", about->present_canaries ? "yes" : "none");
    info_row("created", "%s", time);
    info_row("digest", "%s", about->digest_text);
    info_row("file", "%s bytes, %s block%s", number_show(about->file_bytes, text),
             number_show(about->blocks, blocks), about->blocks == 1 ? "" : "s");
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
    char text[NUMBER_TEXT];
    info_row("format", "%s", bg_foreign_name((bg_foreign_format)f->format));
    if (f->version) {
        info_row("version", "%u", f->version);
    }
    if (f->k) {
        info_row("geometry", "k %u", f->k);
    }
    if (f->parts != 1) {
        info_row("parts", "%u", f->parts);
    }
    info_size(f->bits, (f->bits + 7) / 8, facts->bits_per_key);
    info_design(f->design, 0);
    info_row("keys", "interpreted as %s", f->keys < 5 ? forms[f->keys] : "?");
    info_row("file", "%s bytes", number_show(facts->file_bytes, text));
    if (f->k && f->bits) {
        info_row("fill", "%s",
                 number_show_rate((double)f->ones / (double)f->bits, text));
    }
    if (f->items) {
        info_row("keys stored", "%s", number_show(f->items, text));
    } else if (facts->foreign_keys > 0) {
        info_row("keys stored", "about %s",
                 number_show((uint64_t)(facts->foreign_keys + 0.5), text));
    }
    info_row("current rate", "%s", number_show_rate(f->rate, text));
    info_row("checksum", "%s",
             f->format == BG_FOREIGN_ROCKSDB || f->format == BG_FOREIGN_LEVELDB
                 ? "yes, and correct"
                 : "none: damage cannot be detected");
}

void info_print_text(const struct info_facts *facts)
{
    char path[4096];
    (void)snprintf(path, sizeof path, "%s", facts->path);
    say_tame(path, strlen(path));
    printf("%s\n", path);
    (facts->ours ? info_print_ours : info_print_foreign)(facts);
}
