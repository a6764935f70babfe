/*
 * foreign_tool.c - reads and writes foreign formats from the command line, for the tests in
 * this directory.
 *
 *     foreign_tool make FORMAT ITEMS RATE VERSION KEYS SEED < keys > filter
 *     foreign_tool ask FORMAT FILE VERSION KEYS < keys       prints how many it may contain
 *     foreign_tool add FORMAT FILE VERSION KEYS < keys > filter    reads, adds, writes
 *
 * Keys are lines of hexadecimal digits. KEYS is a bg_foreign_keys value. Prints an error
 * and exits with status 1 on failure.
 */
#include "bloomgate/all.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_MAX = 1 << 16 };

static unsigned char key[KEY_MAX];

static void die(const char *what)
{
    fprintf(stderr, "foreign_tool: %s\n", what);
    exit(1);
}

static void must(bg_err err, const bg_errinfo *why)
{
    if (err) {
        die(why->message);
    }
}

/* Reads the next key from standard input. Returns false at the end of the input. */
static bool next_key(size_t *len)
{
    char digits[3] = { 0 };
    *len = 0;
    for (int c = getchar(); c != EOF; c = getchar()) {
        if (c == '\n') {
            return true;
        }
        digits[0] = (char)c;
        digits[1] = (char)getchar();
        if (*len == KEY_MAX) {
            die("a key is too long");
        }
        key[(*len)++] = (unsigned char)strtoul(digits, NULL, 16);
    }
    return false;
}

static void print_filter(const bg_foreign *foreign)
{
    bg_errinfo why;
    size_t size;
    must(bg_foreign_encode(foreign, NULL, 0, &size, &why), &why);
    unsigned char *bytes = malloc(size + 1);
    if (!bytes) {
        die("no memory");
    }
    must(bg_foreign_encode(foreign, bytes, size, &size, &why), &why);
    if (fwrite(bytes, 1, size, stdout) != size || fflush(stdout)) {
        die("cannot write");
    }
    free(bytes);
}

static bg_foreign *read_filter(bg_foreign_format format, const char *path,
                               const bg_foreign_options *options)
{
    enum { MOST = 1 << 26 };
    bg_errinfo why;
    bg_foreign *foreign;
    FILE *file = fopen(path, "rb");
    unsigned char *bytes = malloc(MOST);
    if (!file || !bytes) {
        die(path);
    }
    size_t size = fread(bytes, 1, MOST, file);
    (void)fclose(file);
    must(bg_foreign_decode(format, bytes, size, options, &foreign, &why), &why);
    free(bytes);
    return foreign;
}

static void add(bg_foreign *foreign)
{
    bg_errinfo why;
    size_t len;
    while (next_key(&len)) {
        must(bg_foreign_add(foreign, key, len, &why), &why);
    }
    print_filter(foreign);
}

static void make(bg_foreign_format format, char **argv,
                 const bg_foreign_options *options)
{
    bg_errinfo why;
    bg_foreign *foreign;
    must(bg_foreign_create(format, strtoull(argv[3], NULL, 10), strtod(argv[4], NULL),
                           options, &foreign, &why),
         &why);
    add(foreign);
    bg_foreign_free(foreign);
}

static void ask(const bg_foreign *foreign)
{
    size_t len, found = 0;
    while (next_key(&len)) {
        found += bg_foreign_may_contain(foreign, key, len);
    }
    printf("%zu\n", found);
}

int main(int argc, char **argv)
{
    bg_foreign_options options = BG_FOREIGN_OPTIONS_INIT;
    bg_foreign_format format = BG_FOREIGN_PARQUET;
    bool known = argc > 2 && bg_foreign_parse(argv[2], &format);
    bool making = argc == 8 && strcmp(argv[1], "make") == 0;
    if (!known || (!making && argc != 6)) {
        die("usage: see foreign_tool.c");
    }
    options.version = (uint32_t)strtoul(argv[making ? 5 : 4], NULL, 10);
    options.keys = (uint32_t)strtoul(argv[making ? 6 : 5], NULL, 10);
    options.seed = making ? strtoull(argv[7], NULL, 10) : 0;
    if (making) {
        make(format, argv, &options);
        return 0;
    }
    bg_foreign *foreign = read_filter(format, argv[3], &options);
    if (strcmp(argv[1], "ask") == 0) {
        ask(foreign);
    } else {
        add(foreign);
    }
    bg_foreign_free(foreign);
    return 0;
}
