/* parts.c - see parts.h. */
#include "parts.h"

#include "say.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char parts_name[] = "bloomgate-part: ";

void parts_line(uint32_t i, uint32_t n, uint64_t input, char line[PARTS_LINE])
{
    (void)snprintf(line, PARTS_LINE, "%s%" PRIu32 " of %" PRIu32 " of %016" PRIx64,
                   parts_name, i + 1, n, input);
}

bool parts_are_in(const char *metadata)
{
    return filter_find_line(metadata, parts_name) != NULL;
}

/* Reads a list such as "1-3,7". Returns the text after the list, or NULL if it is malformed. */
static const char *parts_read_list(const char *text, bool has[PARTS_MAX])
{
    for (;;) {
        char *end;
        const unsigned long first = strtoul(text, &end, 10);
        unsigned long last = first;
        if (end == text) {
            return NULL;
        }
        if (*end == '-') {
            text = end + 1;
            last = strtoul(text, &end, 10);
        }
        if (end == text || first < 1 || last < first || last > PARTS_MAX) {
            return NULL;
        }
        memset(has + first - 1, true, last - first + 1);
        if (*end != ',') {
            return end;
        }
        text = end + 1;
    }
}

/* Reads " of NUMBER". Returns the text after the number, or NULL if the text is malformed. */
static const char *parts_read_of(const char *text, int base, uint64_t *number)
{
    char *end = NULL;
    const size_t n = sizeof " of " - 1;
    if (!text || strncmp(text, " of ", n) != 0) {
        return NULL;
    }
    *number = strtoull(text + n, &end, base);
    return end == text + n ? NULL : end;
}

static bool parts_read(const char *line, struct part_set *set)
{
    uint64_t count = 0;
    const char *rest = parts_read_list(line + sizeof parts_name - 1, set->has);
    rest = parts_read_of(rest, 10, &count);
    rest = parts_read_of(rest, 16, &set->input);
    set->count = (uint32_t)count;
    return rest && *rest == '\n' && count >= 1 && count <= PARTS_MAX;
}

/* Adds the parts of a set to the existing set for the same input, or to a new set. Returns false if
 * there are too many inputs. */
static bool parts_unite(struct part_sets *all, const struct part_set *set)
{
    size_t i = 0;
    while (i < all->count
           && (all->sets[i].input != set->input || all->sets[i].count != set->count)) {
        i++;
    }
    if (i == PARTS_SETS) {
        return false;
    }
    if (i == all->count) {
        all->sets[all->count++] = *set;
    }
    for (uint32_t part = 0; part < set->count; part++) {
        all->sets[i].has[part] = all->sets[i].has[part] || set->has[part];
    }
    return true;
}

int parts_take(struct part_sets *all, struct filter_file *file)
{
    static struct part_set set;
    const char *line;
    while ((line = filter_find_line(file->about.metadata, parts_name)) != NULL) {
        set = (struct part_set){ .path = file->path };
        if (!parts_read(line, &set)) {
            return say_data("%s: the metadata line that describes this part of the "
                            "input is damaged: '%.*s'",
                            file->path, (int)strcspn(line, "\n"), line);
        }
        if (!parts_unite(all, &set)) {
            return say_refused("%s: contains parts of more than %d inputs; merge the "
                               "parts of each input first",
                               file->path, PARTS_SETS);
        }
        filter_remove_line(file->about.metadata + (line - file->about.metadata));
    }
    return CLI_OK;
}

/* Lists the present or missing parts, such as "1-3,7". Returns false if the list does not fit. */
static bool parts_list(const struct part_set *set, bool there, char *text, size_t room)
{
    size_t used = 0;
    text[0] = 0;
    for (uint32_t i = 0; i < set->count && used < room;) {
        uint32_t last = i;
        if (set->has[i] != there) {
            i++;
            continue;
        }
        while (last + 1 < set->count && set->has[last + 1] == there) {
            last++;
        }
        const int n = last > i
                          ? snprintf(text + used, room - used, "%s%" PRIu32 "-%" PRIu32,
                                     used ? "," : "", i + 1, last + 1)
                          : snprintf(text + used, room - used, "%s%" PRIu32,
                                     used ? "," : "", i + 1);
        used += n > 0 ? (size_t)n : 0;
        i = last + 1;
    }
    return used < room;
}

static bool parts_are_all(const struct part_set *set)
{
    return !memchr(set->has, false, set->count);
}

/* Inserts a line that describes an incomplete set before the other metadata lines. */
static int parts_keep(const struct part_set *set, char metadata[BG_METADATA_MAX])
{
    static char list[BG_METADATA_MAX], text[BG_METADATA_MAX];
    const bool fits = parts_list(set, true, list, sizeof list);
    const int n =
        snprintf(text, sizeof text, "%s%s of %" PRIu32 " of %016" PRIx64 "\n%s",
                 parts_name, list, set->count, set->input, metadata);
    if (!fits || n < 0 || (size_t)n >= sizeof text) {
        return say_data("%s: no space to record the merged parts; merge all parts at "
                        "once, or adjacent parts first",
                        set->path);
    }
    memcpy(metadata, text, sizeof text);
    (void)parts_list(set, false, list, 64); /* truncated if the list is too long */
    say_warning("the filter is incomplete: of %" PRIu32
                " parts, the following have not been merged yet: %s",
                set->count, list);
    return CLI_OK;
}

int parts_finish(const struct part_sets *all, char metadata[BG_METADATA_MAX])
{
    const struct part_set *lacking = NULL;
    for (size_t i = 0; i < all->count; i++) {
        const struct part_set *set = &all->sets[i];
        if (parts_are_all(set)) {
            continue;
        }
        if (lacking) {
            return say_data("%s and %s: parts of different inputs: the input changed "
                            "between the builds, or the builds used different options "
                            "or numbers of parts; build all parts again",
                            lacking->path, set->path);
        }
        lacking = set;
    }
    return lacking ? parts_keep(lacking, metadata) : CLI_OK;
}
