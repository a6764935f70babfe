/*
 * foreign_probe.c - queries a foreign filter from a script, and rebuilds it from its keys.
 *
 *     foreign_probe about   FORMAT FILE [PART]            its content, one line
 *     foreign_probe ask     FORMAT FILE [PART] < KEYS     "N keys, M maybe"
 *     foreign_probe rebuild FORMAT FILE [PART] < KEYS     the same, and whether a filter of
 *                                                         only these keys has the same bytes
 *
 * KEYS are lines of hexadecimal digits; an empty line is the empty key. `rebuild` supports only
 * parquet, because it needs bg_foreign_to_filter.
 */
#include "bloomgate/all.h"
#include "support/adds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_MAX = 4096 };

static _Noreturn void stop(const char *text)
{
    (void)fprintf(stderr, "foreign_probe: %s\n", text);
    exit(2);
}

static unsigned char *read_file(const char *path, size_t *n)
{
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END) != 0) {
        stop("cannot open the file");
    }
    long size = ftell(file);
    rewind(file);
    unsigned char *bytes = malloc(size > 0 ? (size_t)size : 1);
    if (size < 0 || !bytes || fread(bytes, 1, (size_t)size, file) != (size_t)size) {
        stop("cannot read the file");
    }
    (void)fclose(file);
    *n = (size_t)size;
    return bytes;
}

/* Reads the next key from standard input. Returns false at the end of the input. */
static bool next_key(unsigned char *key, size_t *len)
{
    static char line[2 * KEY_MAX + 2];
    if (!fgets(line, sizeof line, stdin)) {
        return false;
    }
    *len = strcspn(line, "\r\n") / 2;
    for (size_t i = 0; i < *len; i++) {
        char digits[3] = { line[2 * i], line[2 * i + 1], 0 }, *end;
        key[i] = (unsigned char)strtoul(digits, &end, 16);
        if (*end) {
            stop("a key is not hexadecimal");
        }
    }
    return true;
}

static void about(const bg_foreign *foreign)
{
    bg_foreign_info info = { .struct_size = sizeof info };
    if (bg_foreign_get_info(foreign, &info)) {
        stop("bg_foreign_get_info failed");
    }
    printf("parts %u, k %u, bits %llu, ones %llu, items %llu, rate %.3g\n", info.parts,
           info.k, (unsigned long long)info.bits, (unsigned long long)info.ones,
           (unsigned long long)info.items, info.rate);
}

/* Converts the foreign filter to a Bloomgate filter, and returns that filter after clearing it. */
static bg_filter *empty_like(const bg_foreign *foreign)
{
    bg_filter *filter;
    if (bg_foreign_to_filter(foreign, &filter, NULL)) {
        stop("bg_foreign_to_filter failed");
    }
    bg_filter_clear(filter);
    return filter;
}

static void *written(const bg_foreign *foreign, size_t *n)
{
    if (bg_foreign_encode(foreign, NULL, 0, n, NULL)) {
        stop("bg_foreign_encode failed");
    }
    void *bytes = malloc(*n);
    if (!bytes || bg_foreign_encode(foreign, bytes, *n, n, NULL)) {
        stop("bg_foreign_encode failed");
    }
    return bytes;
}

static bool same(const bg_foreign *foreign, const bg_filter *filter)
{
    bg_foreign *ours;
    if (bg_foreign_from_filter(filter, &ours, NULL)) {
        stop("bg_foreign_from_filter failed");
    }
    size_t n, m;
    void *a = written(foreign, &n), *b = written(ours, &m);
    bool equal = n == m && memcmp(a, b, n) == 0;
    free(a);
    free(b);
    bg_foreign_free(ours);
    return equal;
}

static void ask(const bg_foreign *foreign, bool rebuild)
{
    static unsigned char key[KEY_MAX];
    bg_filter *filter = rebuild ? empty_like(foreign) : NULL;
    size_t len, keys = 0, maybe = 0;
    while (next_key(key, &len)) {
        keys++;
        maybe += bg_foreign_may_contain(foreign, key, len);
        if (filter) {
            added(filter, key, len);
        }
    }
    printf("%zu keys, %zu maybe%s\n", keys, maybe,
           !filter                 ? ""
           : same(foreign, filter) ? ", same bytes"
                                   : ", OTHER BYTES");
    bg_filter_free(filter);
}

int main(int argc, char **argv)
{
    bg_foreign_options options = BG_FOREIGN_OPTIONS_INIT;
    bg_foreign *foreign;
    bg_errinfo why;
    size_t n;
    if (argc < 4) {
        stop("usage: foreign_probe about|ask|rebuild FORMAT FILE [PART]");
    }
    options.part = argc > 4 ? (uint32_t)strtoul(argv[4], NULL, 10) : 0;
    unsigned char *bytes = read_file(argv[3], &n);
    bg_foreign_format format = BG_FOREIGN_PARQUET;
    if (!bg_foreign_parse(argv[2], &format)) {
        stop("unknown format");
    }
    if (bg_foreign_decode(format, bytes, n, &options, &foreign, &why)) {
        stop(why.message);
    }
    free(bytes);
    if (strcmp(argv[1], "about") == 0) {
        about(foreign);
    } else {
        ask(foreign, strcmp(argv[1], "rebuild") == 0);
    }
    bg_foreign_free(foreign);
    return 0;
}
