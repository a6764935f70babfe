/*
 * 07_files.c - saves a filter to a file, and opens it again.
 *
 * Shows how to save a filter with metadata and canaries; verify, open and map a file; read its
 * header; detect damage; and open a damaged file anyway. It also shows that saving is atomic. The
 * example works in a temporary directory, which is removed at the end.
 */
#define _DEFAULT_SOURCE /* mkdtemp */

#include <bloomgate/bloomgate.h>
#include <bloomgate/combine.h>
#include <bloomgate/file_tools.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { KEYS = 100000, GENERATION = 1 };

static void must(bool good)
{
    if (!good) {
        exit(1); /* NOLINT(concurrency-mt-unsafe): there is one thread */
    }
}

static bg_filter *fill(void)
{
    bg_spec spec = BG_SPEC_INIT;
    spec.items = KEYS;
    spec.rate = 0.01;
    bg_filter *seen = NULL;
    must(bg_filter_create(&spec, &seen, NULL) == BG_OK);
    for (uint64_t i = 0; i < KEYS; i++) {
        must(bg_filter_add_u64(seen, i, NULL) == BG_OK);
    }
    /* Canaries are reserved keys that never occur in real data. When the file is opened, the
     * library checks that they are found. */
    for (uint32_t i = 0; i < BG_CANARY_COUNT; i++) {
        uint8_t canary[BG_CANARY_BYTES];
        bg_canary(GENERATION, i, canary);
        must(bg_filter_add(seen, canary, sizeof canary, NULL) == BG_OK);
    }
    return seen;
}

static bool save(const bg_filter *seen, const char *path)
{
    bg_save_options options = BG_SAVE_OPTIONS_INIT;
    options.generation = GENERATION;
    options.metadata = "keys: user IDs, 8 bytes\n";
    bg_errinfo why;
    if (bg_save(seen, path, &options, &why) != BG_OK) {
        printf("%s\n", why.message);
        return false;
    }
    bg_file_info about = { .struct_size = sizeof about };
    if (bg_file_get_info(path, &about, &why) != BG_OK) {
        return false;
    }
    printf("%llu bytes, kind %s, hash %s, digest %s\n",
           (unsigned long long)about.file_bytes, bg_kind_name((bg_kind)about.kind),
           bg_hash_name((bg_hash_profile)about.profile), about.digest_text);
    printf("%s", about.metadata);
    return about.present_canaries == BG_CANARY_COUNT;
}

static bool knows_all(const bg_filter *seen)
{
    for (uint64_t i = 0; i < KEYS; i++) {
        if (!bg_filter_may_contain_u64(seen, i)) {
            return false;
        }
    }
    return true;
}

/* Verifies the file, reads it into memory, and maps it. */
static bool read_back(const bg_filter *seen, const char *path)
{
    bg_filter *opened = NULL, *mapped = NULL;
    bg_errinfo why;
    bool right = bg_verify(path, NULL, NULL, &why) == BG_OK
                 && bg_open(path, NULL, &opened, &why) == BG_OK
                 && bg_map(path, NULL, &mapped, &why) == BG_OK;
    if (!right) {
        printf("%s\n", why.message);
    }
    right = right && bg_filter_equal(seen, opened) && knows_all(mapped);
    bg_filter_free(opened);
    bg_filter_free(mapped);
    return right;
}

/* Flips one bit of the byte at offset `at`. */
static bool damage(const char *path, long at)
{
    FILE *file = fopen(path, "r+b");
    if (!file) {
        return false;
    }
    (void)fseek(file, at, SEEK_SET);
    int byte = fgetc(file);
    (void)fseek(file, at, SEEK_SET);
    (void)fputc(byte ^ 1, file);
    return fclose(file) == 0;
}

static bool notice_damage(const char *path)
{
    bg_filter *seen = NULL;
    bg_errinfo why = { .code = BG_OK };
    bg_open_options anyway = BG_OPEN_OPTIONS_INIT;
    bg_err err = damage(path, 50000) ? bg_open(path, NULL, &seen, &why) : BG_OK;
    printf("damaged file: %s at offset %llu\n", bg_err_name(err),
           (unsigned long long)why.offset);
    bool noticed = err == BG_ECHECKSUM && seen == NULL;
    /* The filter answers "maybe" for every key that depends on the damaged block, so there are more
     * false positives, but still no false negatives. */
    anyway.flags = BG_FILE_TOLERATE_DAMAGE;
    bool right = bg_open(path, &anyway, &seen, &why) == BG_OK && knows_all(seen);
    bg_filter_free(seen);
    return noticed && right;
}

int main(void)
{
    char folder[] = "/tmp/bloomgate-example-XXXXXX", path[64];
    if (!mkdtemp(folder)) {
        return 1;
    }
    (void)snprintf(path, sizeof path, "%s/seen.bg", folder);
    bg_filter *seen = fill();
    bool right = save(seen, path) && read_back(seen, path) && notice_damage(path);
    /* Saving again replaces the whole file. A failed save changes nothing. */
    right = right && save(seen, path) && read_back(seen, path);
    right = right && bg_save(seen, "/nonexistent/seen.bg", NULL, NULL) == BG_EIO;
    bg_filter_free(seen);
    (void)unlink(path);
    (void)rmdir(folder);
    return right ? 0 : 1;
}
