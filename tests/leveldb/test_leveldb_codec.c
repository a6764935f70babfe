/*
 * test_leveldb_codec.c - tests codec options and names, various types of keys, and threads.
 */
#include "bloomgate_leveldb.h"
#include "support/check.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 400 };

struct keys {
    const char *data[MOST];
    size_t lengths[MOST];
    size_t n;
    char room[MOST * 64];
};

/* Creates n random keys with lengths from 0 to `longest`. */
static void fill_keys(struct keys *keys, size_t n, size_t longest)
{
    keys->n = n;
    for (size_t i = 0; i < n; i++) {
        char *at = keys->room + i * 64;
        keys->data[i] = at;
        keys->lengths[i] = check_random_below(longest + 1);
        for (size_t j = 0; j < keys->lengths[i]; j++) {
            at[j] = (char)check_random();
        }
    }
}

static bg_leveldb_codec *codec_of(bg_leveldb_options options)
{
    bg_leveldb_codec *codec;
    CHECK_OK(bg_leveldb_codec_create(&options, &codec, NULL));
    return codec;
}

static size_t lost(const bg_leveldb_codec *codec, const struct keys *keys,
                   const char *filter, size_t bytes)
{
    size_t count = 0;
    for (size_t i = 0; i < keys->n; i++) {
        count += !bg_leveldb_codec_may_match(codec, keys->data[i], keys->lengths[i],
                                             filter, bytes);
    }
    return count;
}

TEST(codec__random_keys_are_never_lost)
{
    static struct keys keys;
    static const uint32_t kinds[] = { BG_KIND_AUTO, BG_KIND_CLASSIC, BG_KIND_RIBBON };
    for (size_t i = 0; i < 3000 * check_scale(); i++) {
        bg_leveldb_options options = BG_LEVELDB_OPTIONS_INIT;
        options.kind = kinds[check_random_below(3)];
        options.bits_per_key = (uint32_t)check_random_below(25);
        bg_leveldb_codec *codec = codec_of(options);
        fill_keys(&keys, 1 + check_random_below(i % 8 ? 70 : MOST),
                  1 + check_random_below(63));
        size_t bytes;
        char *filter =
            bg_leveldb_codec_make(codec, keys.data, keys.lengths, keys.n, &bytes);
        CHECK(filter && bytes > 2);
        CHECK_EQ(lost(codec, &keys, filter, bytes), 0);
        free(filter);
        bg_leveldb_codec_free(codec);
    }
}

TEST(codec__repeated_keys_cost_nothing)
{
    static struct keys keys;
    bg_leveldb_codec *codec = codec_of((bg_leveldb_options)BG_LEVELDB_OPTIONS_INIT);
    fill_keys(&keys, 37, 20);
    size_t once, often;
    free(bg_leveldb_codec_make(codec, keys.data, keys.lengths, keys.n, &once));
    for (size_t i = 37;
         i-- > 0;) { /* repeat each key ten times, as if the key had ten versions */
        for (size_t j = 0; j < 10; j++) {
            keys.data[i * 10 + j] = keys.data[i];
            keys.lengths[i * 10 + j] = keys.lengths[i];
        }
    }
    keys.n = 370;
    char *filter =
        bg_leveldb_codec_make(codec, keys.data, keys.lengths, keys.n, &often);
    CHECK_EQ(lost(codec, &keys, filter, often), 0);
    CHECK_EQ(often, once);
    free(filter);
    bg_leveldb_codec_free(codec);
}

TEST(codec__without_keys_anything_may_match)
{
    bg_leveldb_codec *codec = codec_of((bg_leveldb_options)BG_LEVELDB_OPTIONS_INIT);
    size_t bytes = 7;
    free(bg_leveldb_codec_make(codec, NULL, NULL, 0, &bytes));
    CHECK_EQ(bytes, 0);
    CHECK(bg_leveldb_codec_may_match(codec, "a", 1, "", 0));
    CHECK(bg_leveldb_codec_may_match(codec, "a", 1, NULL, 0));
    CHECK(bg_leveldb_codec_may_match(codec, "a", 1, "\0", 1));
    CHECK(bg_leveldb_codec_may_match(codec, "", 0, "ab", 2));
    bg_leveldb_codec_free(codec);
    bg_leveldb_codec_free(NULL);
}

TEST(codec__kinds_and_bits_read_each_other)
{
    static struct keys keys;
    bg_leveldb_options options = BG_LEVELDB_OPTIONS_INIT;
    bg_leveldb_codec *reader = codec_of(options);
    fill_keys(&keys, 50, 30);
    for (uint32_t bits = 1; bits <= 24; bits++) {
        options.bits_per_key = bits;
        options.kind = bits % 2 ? BG_KIND_CLASSIC : BG_KIND_RIBBON;
        bg_leveldb_codec *writer = codec_of(options);
        size_t bytes;
        char *filter =
            bg_leveldb_codec_make(writer, keys.data, keys.lengths, keys.n, &bytes);
        CHECK_EQ(lost(reader, &keys, filter, bytes), 0);
        CHECK_STR(bg_leveldb_codec_name(writer), bg_leveldb_codec_name(reader));
        free(filter);
        bg_leveldb_codec_free(writer);
    }
    CHECK_STR(bg_leveldb_codec_name(reader), "bloomgate.small.v1");
    bg_leveldb_codec_free(reader);
}

TEST(codec__another_hash_has_another_name)
{
    static const uint8_t secrets[2][BG_SECRET_BYTES] = { "0123456789abcde",
                                                         "fedcba987654321" };
    bg_leveldb_options options = BG_LEVELDB_OPTIONS_INIT;
    bg_leveldb_codec *codecs[4];
    codecs[0] = codec_of(options);
    options.hash.seed = 1;
    codecs[1] = codec_of(options);
    options.hash = (bg_hash_spec){ .profile = BG_HASH_KEYED, .secret = secrets[0] };
    codecs[2] = codec_of(options);
    options.hash.secret = secrets[1];
    codecs[3] = codec_of(options);
    for (int i = 0; i < 4; i++) {
        const char *name = bg_leveldb_codec_name(codecs[i]);
        CHECK(strncmp(name, BG_LEVELDB_NAME, strlen(BG_LEVELDB_NAME)) == 0);
        CHECK_EQ(strlen(name), strlen(BG_LEVELDB_NAME) + (i ? 17 : 0));
        for (int j = 0; j < i; j++) {
            CHECK(strcmp(name, bg_leveldb_codec_name(codecs[j])) != 0);
        }
    }
    for (int i = 0; i < 4; i++) {
        bg_leveldb_codec_free(codecs[i]);
    }
}

static void refused(bg_leveldb_options options, const char *message)
{
    bg_leveldb_codec *codec = (bg_leveldb_codec *)&options;
    leveldb_filterpolicy_t *policy = (leveldb_filterpolicy_t *)&options;
    bg_errinfo why;
    CHECK_EQ(bg_leveldb_codec_create(&options, &codec, &why), BG_EINVAL);
    CHECK(codec == NULL);
    CHECK_EQ(why.code, BG_EINVAL);
    CHECK_STR(why.message, message);
    CHECK_EQ(bg_leveldb_policy_create(&options, &policy, NULL), BG_EINVAL);
    CHECK(policy == NULL);
}

TEST(codec__what_is_wrong_is_named)
{
    bg_leveldb_options options = BG_LEVELDB_OPTIONS_INIT;
    options.bits_per_key = 25;
    refused(options, "bits_per_key: found 25, expected 1 to 24");
    options.bits_per_key = 0;
    options.kind = BG_KIND_CUCKOO;
    refused(options, "kind: found 7, expected BG_KIND_RIBBON or BG_KIND_CLASSIC");
    options.kind = 0;
    options.reserved = 1;
    refused(options, "reserved: found 1, expected 0");
    options.reserved = 0;
    options.struct_size = 3;
    refused(options, "struct_size: found 3, expected sizeof(bg_leveldb_options)");
    options.struct_size = sizeof options;
    options.hash.profile = BG_HASH_KEYED; /* without a secret */
    bg_leveldb_codec *codec;
    bg_errinfo why;
    CHECK_EQ(bg_leveldb_codec_create(&options, &codec, &why), BG_EINVAL);
    CHECK(strstr(why.message, "secret") != NULL);
}

TEST(codec__policies_of_any_number_of_bits)
{
    static const int numbers[] = { -5, 0, 1, 10, 24, 25, 1000 };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        leveldb_filterpolicy_t *policy = bg_leveldb_policy(numbers[i]);
        CHECK(policy != NULL);
        leveldb_filterpolicy_destroy(policy);
    }
}

static void *make_and_ask(void *codec)
{
    struct keys *keys = calloc(1, sizeof *keys);
    uintptr_t wrong = !keys;
    for (int i = 0; keys && i < 300; i++) {
        size_t bytes;
        fill_keys(keys, 1 + check_random_below(150), 40);
        char *filter =
            bg_leveldb_codec_make(codec, keys->data, keys->lengths, keys->n, &bytes);
        wrong += !filter || lost(codec, keys, filter, bytes) > 0;
        free(filter);
    }
    free(keys);
    return (void *)wrong; // NOLINT(performance-no-int-to-ptr): the pointer is a count
}

TEST(codec__threads_share_one)
{
    pthread_t threads[4];
    bg_leveldb_codec *codec = codec_of((bg_leveldb_options)BG_LEVELDB_OPTIONS_INIT);
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, make_and_ask, codec), 0);
    }
    for (int i = 0; i < 4; i++) {
        void *wrong;
        CHECK_EQ(pthread_join(threads[i], &wrong), 0);
        CHECK(wrong == NULL);
    }
    bg_leveldb_codec_free(codec);
}
