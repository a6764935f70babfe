/*
 * metrics_reader.h - an independent metrics parser, stricter than Prometheus's own. It is based on
 * the specifications of the three formats, not on the code, and fails the test at the first
 * deviation.
 */
#ifndef TESTS_METRICS_READER_H
#define TESTS_METRICS_READER_H

#include "support/check.h"

#include "bloomgate/metrics.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    READER_TEXT = 4 << 20,
    READER_FAMILIES = 100,
    READER_SAMPLES = 4000,
    READER_LABELS = 6,
    READER_NAME = 80,
    READER_VALUE = 1200
};

struct reader_family {
    char name[READER_NAME]; /* also the name of the family's samples */
    char type[16], unit[16];
    char help[200];
};

struct reader_sample {
    const struct reader_family *family;
    size_t labels;
    char names[READER_LABELS][READER_NAME];
    char values[READER_LABELS][READER_VALUE];
    char number[48]; /* as written */
};

/* A document and its parsed content. */
struct reader {
    char text[READER_TEXT];
    size_t len;
    size_t calls; /* number of calls to the sink */
    const char *at;
    size_t families_n, samples_n;
    struct reader_family families[READER_FAMILIES];
    struct reader_sample samples[READER_SAMPLES];
};

/* ---- The sink ---------------------------------------------------------------------- */

static inline bool reader_sink(void *context, const char *text, size_t len)
{
    struct reader *reader = context;
    CHECK(len > 0 && reader->len + len < READER_TEXT);
    memcpy(reader->text + reader->len, text, len);
    reader->len += len;
    reader->text[reader->len] = 0;
    reader->calls++;
    return true;
}

static inline void reader_reset(struct reader *reader)
{
    reader->len = reader->calls = 0;
    reader->text[0] = 0;
}

/* ---- Words ------------------------------------------------------------------------- */

static inline bool reader_is(struct reader *reader, const char *word)
{
    if (strncmp(reader->at, word, strlen(word)) != 0) {
        return false;
    }
    reader->at += strlen(word);
    return true;
}

static inline void reader_must(struct reader *reader, const char *word)
{
    if (!reader_is(reader, word)) {
        check_fail(__FILE__, __LINE__, "expected %s at: %.60s", word, reader->at);
    }
}

static inline void reader_name(struct reader *reader, char name[READER_NAME])
{
    size_t n = strspn(reader->at, "abcdefghijklmnopqrstuvwxyz_0123456789");
    CHECK(n > 0 && n < READER_NAME && !strchr("0123456789", *reader->at));
    memcpy(name, reader->at, n);
    name[n] = 0;
    reader->at += n;
}

static inline void reader_until(struct reader *reader, const char *ends, char *to,
                                size_t room)
{
    size_t n = strcspn(reader->at, ends);
    CHECK(n < room && reader->at[n]);
    memcpy(to, reader->at, n);
    to[n] = 0;
    reader->at += n;
}

/* Returns whether *s starts with a UTF-8 code point, and skips it. */
static inline bool reader_utf8(const char **s)
{
    unsigned char first = (unsigned char)*(*s)++;
    if (first < 0x80) {
        return true;
    }
    if (first < 0xC0 || first >= 0xF8) {
        return false;
    }
    int more = first < 0xE0 ? 1 : first < 0xF0 ? 2 : 3;
    uint32_t least = more == 1 ? 0x80 : more == 2 ? 0x800 : 0x10000;
    uint32_t code = first & (0x3Fu >> more);
    for (int i = 0; i < more; i++) {
        if ((**s & 0xC0) != 0x80) {
            return false;
        }
        code = code << 6 | ((unsigned char)*(*s)++ & 0x3Fu);
    }
    return code >= least && code <= 0x10FFFF && !(code >= 0xD800 && code <= 0xDFFF);
}

static inline bool reader_is_utf8(const char *s)
{
    bool good = true;
    while (*s && good) {
        good = reader_utf8(&s);
    }
    return good;
}

static inline char reader_escaped(struct reader *reader, bool json)
{
    char digits[5] = { 0 }, *end;
    char c = *reader->at++;
    if (c == 'n') {
        return '\n';
    }
    if (json && c == 'u') {
        memcpy(digits, reader->at, 4);
        reader->at += 4;
        long code = strtol(digits, &end, 16);
        CHECK(!*end && code > 0 && code < 0x20); /* the writer uses no other escapes */
        return (char)code;
    }
    CHECK(c == '\\' || c == '"');
    return c;
}

/* Reads a quoted string and decodes its escapes. */
static inline void reader_string(struct reader *reader, bool json, char *to,
                                 size_t room)
{
    size_t n = 0;
    reader_must(reader, "\"");
    while (!reader_is(reader, "\"")) {
        char c = *reader->at++;
        CHECK(c && n + 1 < room && c != '\n' && !(json && (unsigned char)c < 0x20));
        if (c == '\\') {
            c = reader_escaped(reader, json);
        }
        to[n++] = c;
    }
    to[n] = 0;
    CHECK(reader_is_utf8(to));
}

/* ---- Families and samples ---------------------------------------------------------- */

static inline struct reader_family *reader_new_family(struct reader *reader)
{
    CHECK(reader->families_n < READER_FAMILIES);
    struct reader_family *family = &reader->families[reader->families_n++];
    memset(family, 0, sizeof *family);
    return family;
}

static inline struct reader_sample *reader_new_sample(struct reader *reader)
{
    CHECK(reader->samples_n < READER_SAMPLES && reader->families_n > 0);
    struct reader_sample *sample = &reader->samples[reader->samples_n++];
    sample->labels = 0;
    sample->family = &reader->families[reader->families_n - 1];
    return sample;
}

static inline bool reader_same_labels(const struct reader_sample *a,
                                      const struct reader_sample *b)
{
    bool same = a->labels == b->labels;
    for (size_t i = 0; same && i < a->labels; i++) {
        same = strcmp(a->names[i], b->names[i]) == 0
               && strcmp(a->values[i], b->values[i]) == 0;
    }
    return same;
}

/* Checks that family names are unique, and that no two samples of a family have the same labels. */
static inline void reader_check_unique(const struct reader *reader)
{
    for (size_t i = 0; i < reader->families_n; i++) {
        for (size_t j = 0; j < i; j++) {
            CHECK(strcmp(reader->families[i].name, reader->families[j].name) != 0);
        }
    }
    for (size_t i = 0; i < reader->samples_n; i++) {
        const struct reader_sample *a = &reader->samples[i];
        for (size_t j = i; j > 0 && reader->samples[j - 1].family == a->family; j--) {
            CHECK(!reader_same_labels(a, &reader->samples[j - 1]));
        }
    }
}

static inline bool reader_ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n > m && strcmp(text + n - m, end) == 0;
}

static inline void reader_label(struct reader *reader, struct reader_sample *sample,
                                bool json)
{
    CHECK(sample->labels < READER_LABELS);
    size_t i = sample->labels++;
    if (json) {
        reader_string(reader, true, sample->names[i], READER_NAME);
    } else {
        reader_name(reader, sample->names[i]);
    }
    reader_must(reader, json ? ":" : "=");
    reader_string(reader, json, sample->values[i], READER_VALUE);
}

/* ---- Prometheus and OpenMetrics ---------------------------------------------------- */

static inline void reader_text_sample(struct reader *reader)
{
    char name[READER_NAME];
    struct reader_sample *sample = reader_new_sample(reader);
    reader_name(reader, name);
    CHECK_STR(name, sample->family->name);
    if (reader_is(reader, "{")) {
        do {
            reader_label(reader, sample, false);
        } while (reader_is(reader, ","));
        reader_must(reader, "}");
    }
    reader_must(reader, " ");
    reader_until(reader, " \n", sample->number, sizeof sample->number);
    reader_must(reader, "\n");
}

static inline void reader_of_family(struct reader *reader, const char *keyword,
                                    const char *name)
{
    reader_must(reader, keyword);
    reader_must(reader, name);
    reader_must(reader, " ");
}

static inline void reader_prometheus_head(struct reader *reader)
{
    struct reader_family *family = reader_new_family(reader);
    reader_must(reader, "# HELP ");
    reader_name(reader, family->name);
    reader_must(reader, " ");
    reader_until(reader, "\n\\", family->help, sizeof family->help);
    reader_must(reader, "\n");
    reader_of_family(reader, "# TYPE ", family->name);
    reader_until(reader, "\n", family->type, sizeof family->type);
    reader_must(reader, "\n");
    CHECK(strcmp(family->type, "counter") == 0 || strcmp(family->type, "gauge") == 0);
}

static inline void reader_openmetrics_head(struct reader *reader)
{
    char name[READER_NAME];
    struct reader_family *family = reader_new_family(reader);
    reader_must(reader, "# TYPE ");
    reader_name(reader, name);
    reader_must(reader, " ");
    reader_until(reader, "\n", family->type, sizeof family->type);
    reader_must(reader, "\n");
    if (strncmp(reader->at, "# UNIT ", 7) == 0) {
        reader_of_family(reader, "# UNIT ", name);
        reader_until(reader, "\n", family->unit, sizeof family->unit);
        reader_must(reader, "\n");
        CHECK(reader_ends_with(name, family->unit)
              && strcmp(family->type, "info") != 0);
    }
    reader_of_family(reader, "# HELP ", name);
    reader_until(reader, "\n\\\"", family->help, sizeof family->help);
    reader_must(reader, "\n");
    (void)snprintf(family->name, sizeof family->name, "%.60s%s", name,
                   strcmp(family->type, "counter") == 0 ? "_total"
                   : strcmp(family->type, "info") == 0  ? "_info"
                                                        : "");
}

static inline void reader_text(struct reader *reader, bool open)
{
    while (*reader->at && !(open && reader_is(reader, "# EOF\n"))) {
        if (open) {
            reader_openmetrics_head(reader);
        } else {
            reader_prometheus_head(reader);
        }
        do {
            reader_text_sample(reader);
        } while (*reader->at && *reader->at != '#');
    }
    CHECK(!open || reader_ends_with(reader->text, "\n# EOF\n"));
}

/* ---- JSON -------------------------------------------------------------------------- */

static inline void reader_json_sample(struct reader *reader)
{
    struct reader_sample *sample = reader_new_sample(reader);
    reader_must(reader, "\n{\"labels\":{");
    while (!reader_is(reader, "}")) {
        reader_label(reader, sample, true);
        (void)reader_is(reader, ",");
    }
    reader_must(reader, ",\"value\":");
    reader_until(reader, "}", sample->number, sizeof sample->number);
    reader_must(reader, "}");
}

static inline void reader_json_family(struct reader *reader)
{
    struct reader_family *family = reader_new_family(reader);
    reader_must(reader, "\n");
    reader_string(reader, true, family->name, sizeof family->name);
    reader_must(reader, ":{\"type\":");
    reader_string(reader, true, family->type, sizeof family->type);
    reader_must(reader, ",\"unit\":");
    reader_string(reader, true, family->unit, sizeof family->unit);
    reader_must(reader, ",\"help\":");
    reader_string(reader, true, family->help, sizeof family->help);
    reader_must(reader, ",\"samples\":[");
    do {
        reader_json_sample(reader);
    } while (reader_is(reader, ","));
    reader_must(reader, "]}");
}

static inline void reader_json(struct reader *reader)
{
    reader_must(reader, "{\"schema\":\"bloomgate-metrics-1\",\"metrics\":{");
    if (*reader->at == '\n' && reader->at[1] == '"') {
        do {
            reader_json_family(reader);
        } while (reader_is(reader, ","));
    }
    reader_must(reader, "\n}}\n");
    CHECK(!*reader->at);
}

/* ---- Documents --------------------------------------------------------------------- */

static inline void reader_read(struct reader *reader, bg_metrics_format format)
{
    reader->at = reader->text;
    reader->families_n = reader->samples_n = 0;
    CHECK(strlen(reader->text) == reader->len);
    if (format == BG_METRICS_JSON) {
        reader_json(reader);
    } else {
        reader_text(reader, format == BG_METRICS_OPENMETRICS);
    }
    reader_check_unique(reader);
}

/* Returns the sample with the given name and labels, written as "filter=users,result=no", or
 * NULL. */
static inline const struct reader_sample *
reader_find(const struct reader *reader, const char *name, const char *labels)
{
    for (size_t i = 0; i < reader->samples_n; i++) {
        const struct reader_sample *sample = &reader->samples[i];
        char all[READER_LABELS * (READER_NAME + READER_VALUE)] = "";
        for (size_t j = 0, n = 0; j < sample->labels; j++) {
            n += (size_t)snprintf(all + n, sizeof all - n, "%s%s=%s", j ? "," : "",
                                  sample->names[j], sample->values[j]);
        }
        if (strcmp(sample->family->name, name) == 0 && strcmp(all, labels) == 0) {
            return sample;
        }
    }
    return NULL;
}

/* Returns the value of a sample. Fails the test if there is no such sample. */
static inline double reader_number(const struct reader *reader, const char *name,
                                   const char *labels)
{
    const struct reader_sample *sample = reader_find(reader, name, labels);
    if (!sample) {
        check_fail(__FILE__, __LINE__, "no %s{%s}", name, labels);
        return (double)NAN;
    }
    return strtod(sample->number, NULL);
}

#endif
