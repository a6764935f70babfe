/*
 * golden_files.c - writes files for the format tests, and the library's answers to queries against
 * these files. Each test is a step that is run by name:
 *
 *     GOLDEN_FOLDER=tests/golden/files golden_files make
 *
 *         writes the files for golden.h that are missing. Run it by hand for new cases; existing
 *         files are frozen.
 *
 *     GOLDEN_FOLDER=... golden_files variants
 *
 *         writes temporary files of many more geometries.
 *
 *     GOLDEN_FOLDER=... GOLDEN_ANSWERS=... golden_files ask
 *
 *         writes a line for every file of the directory: its name, its answers to keys
 *         that were added, and its answers to keys that were not; 1 is "maybe".
 *
 *     GOLDEN_HASHES=... golden_files hash
 *
 *         writes a line for every profile and key length: both, and the hash.
 */
#include "support/adds.h"
#include "support/golden.h"

static const char *setting(const char *name)
{
    const char *value = getenv(name); /* NOLINT(concurrency-mt-unsafe): one thread */
    if (!value) {
        check_fail(__FILE__, __LINE__, "%s is not set", name);
    }
    return value;
}

static void write_file(const bg_filter *filter, const char *name)
{
    char path[1024];
    bg_save_options options = golden_save_options();
    bg_errinfo why;
    (void)snprintf(path, sizeof path, "%s/%s.bg", setting("GOLDEN_FOLDER"), name);
    if (access(path, F_OK) == 0) {
        return; /* existing files are frozen */
    }
    if (bg_save(filter, path, &options, &why)) {
        check_fail(__FILE__, __LINE__, "%s: %s", path, why.message);
    }
}

static void write_spec(const bg_spec *spec, const char *name)
{
    bg_filter *filter = golden_fill(spec);
    write_file(filter, name);
    bg_filter_free(filter);
}

TEST(make)
{
    for (unsigned i = 0; i < GOLDEN_CASES; i++) {
        bg_spec spec = golden_spec(i);
        write_spec(&spec, golden_name(i));
    }
}

/* ---- Variants ------------------------------------------------------------------------ */

/* Writes a file for every k from `from` to `to` with which a filter can be planned. */
static void write_k(bg_spec spec, uint32_t from, uint32_t to)
{
    for (uint32_t k = from; k <= to; k++) {
        char name[64];
        bg_plan_request ask = BG_PLAN_REQUEST_INIT;
        bg_plan plan;
        spec.k = k;
        ask.spec = spec;
        if (bg_plan_compute(&ask, &plan, NULL)) {
            continue; /* unsupported k, or a rate that this k cannot reach */
        }
        (void)snprintf(name, sizeof name, "%s_%u_%u_%u", bg_kind_name(spec.kind), k,
                       spec.width, spec.flags);
        write_spec(&spec, name);
    }
}

static bg_spec variant(bg_kind kind, uint32_t width, uint32_t flags, double rate)
{
    bg_spec spec = BG_SPEC_INIT;
    spec.kind = kind;
    spec.items = GOLDEN_ITEMS;
    spec.rate = rate;
    spec.width = width;
    spec.flags = flags;
    return spec;
}

static void write_plain(void)
{
    write_k(variant(BG_KIND_CLASSIC, 0, 0, 0.3), 1, 3);
    write_k(variant(BG_KIND_CLASSIC, 0, 0, 0.01), 13, 13);
    write_k(variant(BG_KIND_PARTITIONED, 0, 0, 0.3), 1, 3);
    write_k(variant(BG_KIND_PARTITIONED, 0, 0, 0.01), 13, 13);
    write_k(variant(BG_KIND_BLOCKED, 0, 0, 0.05), 3, 16);
    write_k(variant(BG_KIND_REGISTER, 0, 0, 0.1), 1, 10);
    for (uint32_t width = 4; width <= 32; width *= 2) {
        write_k(variant(BG_KIND_COUNTING, width, 0, 0.1), 1, 8);
        write_k(variant(BG_KIND_COUNTING, width, BG_SPEC_SCATTERED, 0.1), 1, 4);
    }
    write_k(variant(BG_KIND_CUCKOO, 0, 0, 0.1), 8, 32);
    write_k(variant(BG_KIND_QUOTIENT, 0, 0, 0.4), 2, 32);
    write_k(variant(BG_KIND_FUSE, 3, 0, 0.01), 8, 32);
    write_k(variant(BG_KIND_FUSE, 4, 0, 0.01), 8, 32);
    write_k(variant(BG_KIND_RIBBON, 0, 0, 0.6), 1, 32);
    write_k(variant(BG_KIND_SCALABLE, 8, 0, 0.1), 6, 9);
    write_k(variant(BG_KIND_SCALABLE, 2, BG_SPEC_SCATTERED, 0.1), 5, 5);
}

/* Writes windows that have moved forward by several periods, with rows of every width. */
static void write_windows(void)
{
    static const uint32_t generations[] = { 2, 5, 12, 40 };
    for (unsigned i = 0; i < 8; i++) {
        char name[64];
        bg_window_options options = BG_WINDOW_OPTIONS_INIT;
        bg_spec spec = variant(BG_KIND_WINDOW, 0, 0, 0.05);
        options.mode = i % 2;
        options.generations = generations[i / 2];
        options.kind = i == 2 ? BG_KIND_PARTITIONED : 0;
        spec.window = &options;
        bg_filter *filter = golden_fill(&spec);
        for (unsigned j = 0; j < options.generations / 2 - 1; j++) {
            CHECK_OK(bg_filter_rotate(filter, 0, NULL));
            golden_add(filter, j);
        }
        (void)snprintf(name, sizeof name, "window_%u_%u", options.mode,
                       options.generations);
        write_file(filter, name);
        bg_filter_free(filter);
    }
}

/* Writes a static filter to which a key was added after it was built, and static filters with two
 * layers or several parts. Also writes a full cuckoo filter, and quotient filters with long runs
 * and large counts. */
static void write_special(void)
{
    bg_spec spec = variant(BG_KIND_RIBBON, 0, 0, 0.01);
    bg_filter *filter = golden_fill(&spec);
    (void)added(filter, "late", 4);
    write_file(filter, "ribbon_late");
    bg_filter_free(filter);
    static const bg_kind kinds[] = { BG_KIND_RIBBON, BG_KIND_FUSE };
    for (unsigned i = 0; i < 4; i++) {
        char name[64];
        bg_builder *builder = NULL;
        spec = variant(kinds[i % 2], 0, 0, 0.3);
        CHECK_OK(bg_builder_create(&spec, &builder, NULL));
        for (uint64_t j = 0; j < (i < 2 ? 20000 : 2300000); j++) {
            CHECK_OK(bg_builder_add_u64(builder, j));
        }
        for (unsigned j = 0; j < FILES_KEYS; j++) {
            char key[32];
            CHECK_OK(bg_builder_add(builder, key, files_key(j, key)));
        }
        CHECK_OK(bg_builder_finish(builder, &filter, NULL));
        bg_builder_free(builder);
        (void)snprintf(name, sizeof name, "%s_%s", bg_kind_name(kinds[i % 2]),
                       i < 2 ? "layers" : "pieces");
        write_file(filter, name);
        bg_filter_free(filter);
    }
    for (unsigned i = 0; i < 2; i++) {
        spec = variant(i ? BG_KIND_CUCKOO : BG_KIND_QUOTIENT, 0, 0, 0.01);
        filter = golden_fill(&spec);
        for (unsigned j = 0; j < 100000; j++) {
            (void)added(filter, i ? (const void *)&j : "again", i ? 4 : 5);
        }
        write_file(filter, i ? "cuckoo_full" : "quotient_counts");
        bg_filter_free(filter);
    }
    spec = variant(BG_KIND_QUOTIENT, 0, 0, 0.01);
    spec.items = 5000;
    filter = golden_fill(&spec);
    for (uint64_t j = 0; j < 300; j++) {
        for (unsigned times = 0; times < 3; times++) { /* runs that fill many blocks */
            (void)added_hash(filter, (UINT64_C(0x3333) << 48) + (j << 44));
        }
    }
    write_file(filter, "quotient_pushed");
    bg_filter_free(filter);
}

TEST(variants)
{
    write_plain();
    write_windows();
    write_special();
}

/* ---- Answers ------------------------------------------------------------------------- */

static void write_answers(const char *path, const char *name, FILE *to)
{
    bg_open_options options = golden_open_options();
    bg_filter *filter = NULL;
    bg_errinfo why;
    char key[32];
    if (bg_open(path, &options, &filter, &why)) {
        check_fail(__FILE__, __LINE__, "%s: %s", path, why.message);
    }
    (void)fprintf(to, "%s ", name);
    for (unsigned j = 0; j < FILES_KEYS; j++) {
        (void)putc('0' + bg_filter_may_contain(filter, key, files_key(j, key)), to);
    }
    (void)putc(' ', to);
    for (unsigned j = 0; j < GOLDEN_ABSENT; j++) {
        (void)putc('0' + bg_filter_may_contain(filter, key, golden_absent(j, key)), to);
    }
    (void)putc('\n', to);
    bg_filter_free(filter);
}

TEST(ask)
{
    char path[1024];
    FILE *to = fopen(setting("GOLDEN_ANSWERS"), "w");
    DIR *folder = opendir(setting("GOLDEN_FOLDER"));
    CHECK(to && folder);
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        const char *ending = strrchr(entry->d_name, '.');
        if (ending && strcmp(ending, ".bg") == 0) {
            (void)snprintf(path, sizeof path, "%s/%s", setting("GOLDEN_FOLDER"),
                           entry->d_name);
            write_answers(path, entry->d_name, to);
        }
    }
    (void)closedir(folder);
    CHECK(fclose(to) == 0);
}

/* ---- Hashes -------------------------------------------------------------------------- */

TEST(hash)
{
    enum { LONGEST = 600 };
    FILE *to = fopen(setting("GOLDEN_HASHES"), "w");
    CHECK(to);
    for (uint32_t profile = 0; profile <= BG_HASH_FAST_INT; profile++) {
        if (profile == BG_HASH_CUSTOM) {
            continue;
        }
        bg_hash_spec spec = { .profile = profile,
                              .seed = UINT64_C(0xfedcba9876543210),
                              .secret = golden_secret };
        bg_hasher hasher;
        uint8_t key[LONGEST];
        CHECK_OK(bg_hasher_init(&hasher, &spec, NULL));
        for (size_t n = 0; n < LONGEST; n++) {
            unsigned long long hash = bg_hash_bytes(&hasher, key, n);
            (void)fprintf(to, "%s %zu %llx\n", bg_hash_name(profile), n, hash);
            key[n] = (uint8_t)(n * n + 7);
        }
    }
    CHECK(fclose(to) == 0);
}
