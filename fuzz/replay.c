/*
 * replay.c - runs a fuzz target without libFuzzer, over files and generated inputs.
 *
 *     fuzz_x [--runs N] [--seed S] FILE-OR-DIRECTORY...
 *
 * Every file is run once. Then N inputs are generated, depending only on the seed and the files,
 * and are run as well. Every second generated input is a file with a few bytes changed (if there
 * are files); the rest are random bytes. A directory that does not exist counts as empty.
 */
#define _DEFAULT_SOURCE /* scandir, alphasort */

#include "fuzz.h"

#include <dirent.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

enum { INPUT_MAX_BYTES = 1 << 20, FILES_MAX = 4096, NOISE_MAX_BYTES = 4096 };

struct input {
    uint8_t *data;
    size_t size;
};

static struct input files[FILES_MAX];
static size_t file_count;
static uint64_t random_state;

static uint64_t next_random(void) /* splitmix64 */
{
    uint64_t z = random_state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static size_t random_below(size_t n)
{
    return (size_t)(next_random() % n);
}

/* Runs one input in memory of exactly its size, so that an overrun is detected. */
static void run(const uint8_t *data, size_t size)
{
    uint8_t *exact = malloc(size ? size : 1);
    FUZZ_MUST(exact);
    if (size) {
        memcpy(exact, data, size);
    }
    (void)LLVMFuzzerTestOneInput(exact, size);
    free(exact);
}

static void read_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    FUZZ_MUST(f && file_count < FILES_MAX);
    uint8_t *data = malloc(INPUT_MAX_BYTES);
    FUZZ_MUST(data);
    size_t size = fread(data, 1, INPUT_MAX_BYTES, f);
    (void)fclose(f);
    files[file_count++] = (struct input){ data, size };
    fprintf(stderr, "%s\n", path); /* the last input printed is the one that crashed */
    run(data, size);
}

static void read_path(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0) {
        return;
    }
    if (!S_ISDIR(st.st_mode)) {
        read_file(path);
        return;
    }
    struct dirent **entries;
    /* The entries are sorted, so that the order is the same in every run. */
    int n = scandir(path, &entries, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        char inside[4096];
        (void)snprintf(inside, sizeof inside, "%s/%s", path, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.') {
            read_path(inside);
        }
        free(entries[i]);
    }
    if (n >= 0) {
        free(entries);
    }
}

/* Generates one input in `buffer`; returns its size. Most inputs are short. */
static size_t make_up(uint8_t *buffer, bool from_file)
{
    size_t size;
    if (from_file) {
        const struct input *file = &files[random_below(file_count)];
        size =
            file->size && random_below(4) == 0 ? random_below(file->size) : file->size;
        memcpy(buffer, file->data, size);
        for (size_t changes = size ? 1 + random_below(8) : 0; changes; changes--) {
            buffer[random_below(size)] = (uint8_t)next_random();
        }
        return size;
    }
    size = random_below(1 + random_below(NOISE_MAX_BYTES));
    uint8_t mask = random_below(2) ? 0xff : 0x0f; /* small values reach more code */
    for (size_t i = 0; i < size; i++) {
        buffer[i] = (uint8_t)next_random() & mask;
    }
    return size;
}

int main(int argc, char **argv)
{
    unsigned long runs = 0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--runs") == 0 && i + 1 < argc) {
            runs = strtoul(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc) {
            random_state = strtoull(argv[++i], NULL, 10);
        } else {
            read_path(argv[i]);
        }
    }
    uint8_t *buffer = malloc(INPUT_MAX_BYTES);
    FUZZ_MUST(buffer);
    for (unsigned long i = 0; i < runs; i++) {
        run(buffer, make_up(buffer, file_count && i % 2));
    }
    printf("%zu files, %lu generated inputs\n", file_count, runs);
    free(buffer);
    for (size_t i = 0; i < file_count; i++) {
        free(files[i].data);
    }
    return 0;
}
