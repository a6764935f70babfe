/*
 * Files created from other files by merging, folding, splitting, joining, comparing and
 * patching.
 */
#include "support/adds.h"
#include "support/files.h"

static bg_spec large_spec(void)
{
    bg_spec spec = BG_SPEC_INIT;
    spec.kind = BG_KIND_BLOCKED;
    spec.items = 400000;
    spec.rate = 0.01;
    spec.folds = 4;
    return spec;
}

/* Creates a filter with the integers `from` .. `to` - 1 and saves it. */
static bg_filter *numbers_in_file(const bg_spec *spec, uint64_t from, uint64_t to,
                                  const char *path, const bg_save_options *options)
{
    bg_filter *filter = must_create(spec);
    for (uint64_t i = from; i < to; i++) {
        (void)added_u64(filter, i);
    }
    CHECK_OK(bg_save(filter, path, options, NULL));
    return filter;
}

/* Saves a filter with the integers `from` .. `to` - 1 as `whole`, and splits this file. */
static void numbers_in_shards(uint64_t from, uint64_t to, uint64_t generation,
                              const char *whole, const char *prefix)
{
    bg_spec spec = BG_SPEC_INIT;
    spec.kind = BG_KIND_BLOCKED;
    spec.items = 5000;
    spec.rate = 0.001;
    spec.shards = 4;
    bg_save_options options = BG_SAVE_OPTIONS_INIT;
    options.generation = generation;
    options.metadata = "keys: numbers\n";
    bg_filter_free(numbers_in_file(&spec, from, to, whole, &options));
    CHECK_OK(bg_file_split(whole, prefix, NULL, &options, NULL));
}

static void shard_name(const char *prefix, unsigned i, char name[300])
{
    (void)snprintf(name, 300, "%s.%u", prefix, i);
}

/* Replaces shard i of one split with shard i of another split. */
static void move_shard(const char *from, const char *to, unsigned i)
{
    char a[300], b[300];
    shard_name(from, i, a);
    shard_name(to, i, b);
    CHECK(rename(a, b) == 0);
}

/* Converts shards to the form that version 0.1 wrote, which has no metadata line about the
 * split. */
static void forget_split(const char *prefix)
{
    for (unsigned i = 0; i < 4; i++) {
        char name[300], line[64];
        bg_file_info about = { .struct_size = sizeof about };
        bg_filter *shard = NULL;
        bg_save_options options = BG_SAVE_OPTIONS_INIT;
        shard_name(prefix, i, name);
        CHECK_OK(bg_file_get_info(name, &about, NULL));
        CHECK_OK(bg_open(name, NULL, &shard, NULL));
        (void)snprintf(line, sizeof line, "bloomgate-shard: %u of 4\nkeys: numbers\n",
                       i);
        options.metadata = line;
        options.generation = about.generation;
        CHECK_OK(bg_save(shard, name, &options, NULL));
        bg_filter_free(shard);
    }
}

static void check_numbers(const char *path, uint64_t from, uint64_t to)
{
    bg_filter *filter = NULL;
    CHECK_OK(bg_open(path, NULL, &filter, NULL));
    for (uint64_t i = from; i < to; i++) {
        CHECK(bg_filter_may_contain_u64(filter, i));
    }
    bg_filter_free(filter);
}

TEST(files__merge)
{
    bg_spec spec = large_spec();
    const char *a = files_path("a");
    const char *b = files_path("b");
    const char *c = files_path("c");
    const char *all = files_path("all");
    bg_filter_free(numbers_in_file(&spec, 0, 1000, a, NULL));
    bg_filter_free(numbers_in_file(&spec, 1000, 2000, b, NULL));
    bg_filter_free(numbers_in_file(&spec, 2000, 3000, c, NULL));
    const char *paths[] = { a, b, c };
    CHECK_OK(bg_file_merge(paths, 3, all, NULL, NULL, NULL));
    check_numbers(all, 0, 3000);
    /* Files whose sizes, seeds, kinds or key IDs differ are refused, and the error states the
     * reason. */
    bg_errinfo why;
    bg_spec other = spec;
    other.items *= 2;
    bg_filter_free(numbers_in_file(&other, 0, 10, b, NULL));
    CHECK_EQ(bg_file_merge(paths, 3, all, NULL, NULL, &why), BG_EINCOMPAT);
    CHECK_STR(why.what, "size in bytes");
    other = spec;
    other.hash.seed = 1;
    bg_filter_free(numbers_in_file(&other, 0, 10, b, NULL));
    CHECK_EQ(bg_file_merge(paths, 3, all, NULL, NULL, &why), BG_EINCOMPAT);
    CHECK_STR(why.what, "hash");
    other = spec;
    other.kind = BG_KIND_CLASSIC;
    bg_filter_free(numbers_in_file(&other, 0, 10, b, NULL));
    CHECK_EQ(bg_file_merge(paths, 3, all, NULL, NULL, &why), BG_EINCOMPAT);
    CHECK_STR(why.what, "kind");
    bg_save_options options = BG_SAVE_OPTIONS_INIT;
    options.key_id[0] = 1;
    bg_filter_free(numbers_in_file(&spec, 0, 10, b, &options));
    CHECK_EQ(bg_file_merge(paths, 3, all, NULL, NULL, &why), BG_EINCOMPAT);
    CHECK_STR(why.what, "key id");
    check_numbers(all, 0, 3000); /* the existing content is unchanged */
    CHECK_EQ(bg_file_merge(paths, 0, all, NULL, NULL, &why), BG_EINVAL);
    CHECK_EQ(bg_file_merge(NULL, 1, all, NULL, NULL, &why), BG_EINVAL);
    files_clean();
}

TEST(files__fold)
{
    bg_spec spec = large_spec();
    const char *a = files_path("a");
    const char *b = files_path("b");
    bg_filter_free(numbers_in_file(&spec, 0, 20000, a, NULL));
    CHECK_OK(bg_file_fold(a, 3, b, NULL, NULL, NULL));
    check_numbers(b, 0, 20000);
    bg_file_info before = { .struct_size = sizeof before };
    bg_file_info after = { .struct_size = sizeof after };
    CHECK_OK(bg_file_get_info(a, &before, NULL));
    CHECK_OK(bg_file_get_info(b, &after, NULL));
    CHECK_EQ(after.units, before.units / 8);
    CHECK(bg_file_fold(a, 30, b, NULL, NULL, NULL) != BG_OK);
    files_clean();
}

TEST(files__split_and_join)
{
    static const bg_kind kinds[] = { BG_KIND_BLOCKED, BG_KIND_CUCKOO, BG_KIND_QUOTIENT,
                                     BG_KIND_SCALABLE };
    const char *a = files_path("a"), *part = files_path("part"), *b = files_path("b");
    char name[300], other[300];
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        bg_spec spec = BG_SPEC_INIT;
        spec.kind = kinds[i];
        spec.items = 5000;
        spec.rate = 0.01;
        spec.shards = 4;
        spec.canaries = 3 * BG_CANARY_COUNT + 2;
        bg_save_options options = BG_SAVE_OPTIONS_INIT;
        options.metadata = "keys: numbers\n";
        bg_filter *filter = numbers_in_file(&spec, 0, 4000, a, &options), *back = NULL;
        CHECK_OK(bg_file_split(a, part, NULL, &options, NULL));
        CHECK_OK(bg_file_join(part, 4, b, NULL, &options, NULL));
        CHECK_OK(bg_open(b, NULL, &back, NULL));
        CHECK(bg_filter_equal(filter, back));
        bg_filter_info info = { .struct_size = sizeof info };
        CHECK_OK(bg_filter_get_info(back, &info));
        CHECK_EQ(info.canaries, spec.canaries);
        bg_filter_free(back);
        bg_filter_free(filter);
        /* If shards were in the wrong order, or if there were too many or too few, the joined
         * filter would answer "no" for added keys. Such shards are refused. */
        bg_errinfo why;
        CHECK_EQ(bg_file_join(part, 3, b, NULL, &options, &why), BG_EINCOMPAT);
        CHECK_EQ(bg_file_join(part, 1, b, NULL, &options, &why), BG_EINVAL);
        (void)snprintf(name, sizeof name, "%s.1", part);
        (void)snprintf(other, sizeof other, "%s.2", part);
        CHECK(rename(name, b) == 0 && rename(other, name) == 0
              && rename(b, other) == 0);
        CHECK_EQ(bg_file_join(part, 4, b, NULL, &options, &why), BG_EINCOMPAT);
        CHECK_STR(why.what, "shard");
        CHECK_EQ(bg_file_split(name, part, NULL, NULL, &why), BG_ENOTSUP);
    }
    files_clean();
}

/* A split that is killed while overwriting an older split leaves shards of both splits. If they
 * were joined, the filter would answer "no" for added keys. */
TEST(files__join_refuses_two_splits)
{
    const char *old = files_path("old"), *new = files_path("new"), *b = files_path("b"),
               *whole = files_path("whole");
    bg_errinfo why;
    for (int same_generation = 0; same_generation < 2; same_generation++) {
        numbers_in_shards(0, 2000, 1, whole, old);
        numbers_in_shards(0, 4000, same_generation ? 1 : 2, whole, new);
        move_shard(new, old, 0);
        move_shard(new, old, 1);
        CHECK_EQ(bg_file_join(old, 4, b, NULL, NULL, &why), BG_EINCOMPAT);
        CHECK(strstr(why.message, "old.2") && strstr(why.message, "old.0"));
        /* Now all shards are from the same split again. */
        move_shard(new, old, 2);
        move_shard(new, old, 3);
        CHECK_OK(bg_file_join(old, 4, b, NULL, NULL, NULL));
        check_numbers(b, 0, 4000);
    }
    /* Shards from two splits of the same file can be joined, but only if both splits wrote the same
     * metadata. */
    numbers_in_shards(0, 2000, 1, whole, old);
    CHECK_OK(bg_file_split(whole, new, NULL, NULL, NULL));
    move_shard(new, old, 0);
    CHECK_EQ(bg_file_join(old, 4, b, NULL, NULL, &why),
             BG_EINCOMPAT); /* another note */
    bg_save_options options = BG_SAVE_OPTIONS_INIT;
    options.metadata = "keys: numbers\n";
    CHECK_OK(bg_file_split(whole, new, NULL, &options, NULL));
    move_shard(new, old, 0);
    CHECK_OK(bg_file_join(old, 4, b, NULL, NULL, NULL));
    check_numbers(b, 0, 2000);
    files_clean();
}

TEST(files__join_shards_of_0_1)
{
    const char *old = files_path("old"), *new = files_path("new"), *b = files_path("b"),
               *whole = files_path("whole");
    bg_errinfo why;
    numbers_in_shards(0, 2000, 1, whole, old);
    numbers_in_shards(0, 4000, 2, whole, new);
    forget_split(old);
    CHECK_OK(bg_file_join(old, 4, b, NULL, NULL, NULL));
    check_numbers(b, 0, 2000);
    move_shard(new, old, 1); /* mixes version 0.1 shards with newer shards */
    CHECK_EQ(bg_file_join(old, 4, b, NULL, NULL, &why), BG_EINCOMPAT);
    numbers_in_shards(0, 2000, 1, whole, old);
    numbers_in_shards(0, 4000, 2, whole, new);
    forget_split(old);
    forget_split(new);
    move_shard(new, old, 1); /* mixes shards of two generations */
    CHECK_EQ(bg_file_join(old, 4, b, NULL, NULL, &why), BG_EINCOMPAT);
    files_clean();
}

static unsigned char *read_all(const char *path, size_t *n)
{
    FILE *file = fopen(path, "rb");
    CHECK(file);
    CHECK(fseek(file, 0, SEEK_END) == 0);
    *n = (size_t)ftell(file);
    rewind(file);
    unsigned char *bytes = malloc(*n);
    CHECK(bytes && fread(bytes, 1, *n, file) == *n);
    (void)fclose(file);
    return bytes;
}

static void write_all(const char *path, const unsigned char *bytes, size_t n)
{
    FILE *file = fopen(path, "wb");
    CHECK(file && fwrite(bytes, 1, n, file) == n);
    CHECK(fclose(file) == 0);
}

static void check_same_file(const char *a, const char *b)
{
    size_t n, m;
    unsigned char *x = read_all(a, &n), *y = read_all(b, &m);
    CHECK_EQ(n, m);
    CHECK(memcmp(x, y, n) == 0);
    free(x);
    free(y);
}

TEST(files__diff_and_patch)
{
    bg_spec spec = large_spec();
    const char *a = files_path("a");
    const char *b = files_path("b");
    const char *p = files_path("p");
    const char *c = files_path("c");
    bg_filter *filter = numbers_in_file(&spec, 0, 100000, a, NULL);
    for (uint64_t i = 0; i < 4; i++) {
        (void)added_u64(filter, 1000000 + i);
    }
    CHECK_OK(bg_save(filter, b, NULL, NULL));
    bg_file_difference d = { .struct_size = sizeof d };
    CHECK_OK(bg_file_diff(a, b, &d, NULL));
    CHECK(d.same_layout && d.blocks >= 6);
    CHECK(d.different >= 1 && d.different <= 4);
    CHECK_OK(bg_file_patch(a, b, p, NULL));
    size_t n;
    unsigned char *bytes = read_all(p, &n);
    CHECK_EQ(n, d.patch_bytes);
    CHECK_OK(bg_file_apply(a, p, c, NULL));
    check_same_file(b, c);
    /* Applying a patch to the wrong file, or applying a damaged patch, creates no file. */
    bg_errinfo why;
    CHECK_EQ(bg_file_apply(b, p, c, &why), BG_EINCOMPAT);
    CHECK(unlink(c) == 0);
    for (size_t at = 0; at < n; at += CHECK_SANITIZED || CHECK_EMULATED ? 9973 : 331) {
        bytes[at] ^= 4;
        write_all(p, bytes, n);
        CHECK(bg_file_apply(a, p, c, &why) != BG_OK);
        CHECK(access(c, F_OK) != 0);
        bytes[at] ^= 4;
    }
    for (size_t length = 0; length < n; length += 1 + n / 50) {
        write_all(p, bytes, length);
        CHECK(bg_file_apply(a, p, c, &why) != BG_OK);
        CHECK(access(c, F_OK) != 0);
    }
    free(bytes);
    bg_filter_free(filter);
    /* A patch that changes the layout contains the whole new file. */
    spec.items *= 2;
    bg_filter_free(numbers_in_file(&spec, 0, 100, b, NULL));
    CHECK_OK(bg_file_diff(a, b, &d, NULL));
    CHECK(!d.same_layout && d.different == d.blocks);
    CHECK_OK(bg_file_patch(a, b, p, NULL));
    CHECK_OK(bg_file_apply(a, p, c, NULL));
    check_same_file(b, c);
    files_clean();
}
