/*
 * Packed filters give the same answers as the original filters, at any address that is a multiple
 * of 8 and with every instruction set. Damaged bytes are refused, or can at least be queried
 * safely.
 */
#include "support/adds.h"
#include "support/samples.h"

#include "base/bits.h"

enum { KEYS = 3000, ASKED = 2000 };

static uint64_t hash_of(uint64_t key)
{
    bg_hasher hasher;
    CHECK_OK(bg_hasher_init(&hasher, NULL, NULL));
    return bg_hash_u64(&hasher, key);
}

static bg_filter *sample_filled(unsigned i)
{
    uint64_t numbers[KEYS];
    bg_bytes keys[KEYS];
    bg_spec spec = sample_spec(i, KEYS, 0.01);
    struct filling fill;
    for (uint64_t key = 0; key < KEYS; key++) {
        numbers[key] = bgi_le64(key);
        keys[key] = (bg_bytes){ &numbers[key], 8 };
    }
    filling_begin(&fill, i, &spec, KEYS);
    filling_add(&fill, keys, KEYS);
    return filling_end(&fill);
}

/* Returns memory of `room` bytes that starts `offset` bytes into a cache line. */
static unsigned char *memory_at(unsigned char **piece, size_t room, size_t offset)
{
    *piece = aligned_alloc(64, (room + offset + 127) / 64 * 64);
    CHECK(*piece != NULL);
    return *piece + offset;
}

static void check_answers(const bg_filter *filter, const bg_packed *packed)
{
    uint64_t hashes[ASKED], maybe[BG_BITMAP_WORDS(ASKED)];
    size_t positives = 0;
    for (uint64_t i = 0; i < ASKED; i++) {
        hashes[i] = hash_of(KEYS - ASKED / 2 + i);
    }
    size_t count = bg_packed_may_contain_hashes(packed, hashes, ASKED, maybe);
    for (size_t i = 0; i < ASKED; i++) {
        bool one = bg_packed_may_contain_hash(packed, hashes[i]);
        CHECK_EQ(one, bg_filter_may_contain_hash(filter, hashes[i]));
        CHECK_EQ(one, maybe[i / 64] >> i % 64 & 1);
        CHECK(one || i >= ASKED / 2);
        positives += one;
    }
    CHECK_EQ(count, positives);
    CHECK(positives < ASKED / 2 + ASKED / 10);
}

TEST(packed__answers_as_the_filter_does_at_any_address)
{
    unsigned tried = 0;
    for (unsigned i = 0; i < SAMPLES; i++) {
        bg_filter *filter = sample_filled(i);
        size_t n = 0;
        if (bg_packed_encode(filter, NULL, 0, &n, NULL) == BG_OK) {
            tried++;
            for (size_t offset = 0; offset < 64; offset += 8) {
                unsigned char *piece, *at = memory_at(&piece, n, offset);
                bg_packed *packed;
                size_t written;
                CHECK_OK(bg_packed_encode(filter, at, n, &written, NULL));
                CHECK_EQ(written, n);
                CHECK_OK(bg_packed_open(at, n, &packed, NULL));
                check_answers(filter, packed);
                bg_packed_free(packed);
                free(piece);
            }
        }
        bg_filter_free(filter);
    }
    CHECK_EQ(tried, KIND_COUNT + 3); /* Bloom kinds, two fuse samples, and ribbon */
}

TEST(packed__refuses_kinds_that_change)
{
    for (unsigned i = 0; i < SAMPLES; i++) {
        bg_filter *filter = sample_filled(i);
        bg_errinfo why;
        size_t n = 1;
        uint32_t traits = bg_kind_traits(samples[i].kind);
        bool can = !samples[i].shards
                   && (traits & BG_TRAIT_STATIC
                       || ((traits & BG_TRAIT_FOLD) && !(traits & BG_TRAIT_REMOVE)));
        bg_err err = bg_packed_encode(filter, NULL, 0, &n, &why);
        CHECK_EQ(err, can ? BG_OK : BG_ENOTSUP);
        CHECK(can ? n > 0 : n == 0);
        bg_filter_free(filter);
    }
}

/* Returns a packed sample in a buffer of exactly its size, so that sanitizers detect out-of-bounds
 * reads. */
static unsigned char *packed_sample(bg_kind kind, size_t *n)
{
    bg_filter *filter = sample_filled(sample_of(kind));
    CHECK_OK(bg_packed_encode(filter, NULL, 0, n, NULL));
    unsigned char *bytes = malloc(*n);
    CHECK(bytes != NULL);
    CHECK_OK(bg_packed_encode(filter, bytes, *n, n, NULL));
    bg_filter_free(filter);
    return bytes;
}

/* Opens the filter, queries it if it is accepted, and returns whether it was accepted. */
static bool ask_any(const unsigned char *bytes, size_t n)
{
    bg_packed *packed;
    bg_errinfo why;
    unsigned char *own = malloc(n ? n : 1);
    CHECK(own != NULL);
    memcpy(own, bytes, n);
    bg_err err = bg_packed_open(own, n, &packed, &why);
    CHECK(err == BG_OK || (packed == NULL && why.message[0]));
    for (uint64_t i = 0; !err && i < 300; i++) {
        (void)bg_packed_may_contain_hash(packed, check_random());
    }
    bg_packed_free(packed);
    free(own);
    return err == BG_OK;
}

TEST(packed__survives_any_tail_and_any_cut)
{
    static const bg_kind kinds[] = {
        BG_KIND_BLOCKED,  BG_KIND_CLASSIC, BG_KIND_SPLIT,
        BG_KIND_REGISTER, BG_KIND_FUSE,    BG_KIND_RIBBON
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        size_t n;
        unsigned char *bytes = packed_sample(kinds[i], &n);
        CHECK(ask_any(bytes, n));
        for (size_t at = n - 8; at < n; at++) {
            unsigned char before = bytes[at];
            for (unsigned value = 0; value < 256; value++) {
                bytes[at] = (unsigned char)value;
                bool accepted = ask_any(bytes, n);
                CHECK(at < n - 3 || accepted == (value == before));
            }
            bytes[at] = before;
        }
        for (size_t cut = n > 300 ? n - 300 : 0; cut < n; cut++) {
            CHECK(!ask_any(bytes, cut)); /* refused because the tail is missing */
        }
        for (unsigned damage = 0; damage < 200; damage++) {
            bytes[check_random_below(n - 3)] = (unsigned char)check_random();
            (void)ask_any(bytes, n);
        }
        free(bytes);
    }
}

TEST(packed__says_what_is_wrong)
{
    bg_packed *packed;
    bg_errinfo why;
    size_t n;
    bg_filter *filter = sample_filled(sample_of(BG_KIND_BLOCKED));
    unsigned char *bytes = packed_sample(BG_KIND_BLOCKED, &n);
    CHECK_EQ(bg_packed_open(NULL, n, &packed, &why), BG_EINVAL);
    CHECK_EQ(bg_packed_open(bytes, n, NULL, &why), BG_EINVAL);
    CHECK_EQ(bg_packed_open(bytes + 4, n - 8, &packed, &why), BG_EINVAL);
    CHECK_EQ(bg_packed_open(bytes, 0, &packed, &why), BG_EFORMAT);
    bytes[n - 3] = 2;
    CHECK_EQ(bg_packed_open(bytes, n, &packed, &why), BG_EVERSION);
    CHECK_EQ(bg_packed_encode(NULL, NULL, 0, &n, &why), BG_EINVAL);
    CHECK_EQ(bg_packed_encode(filter, NULL, 0, NULL, &why), BG_EINVAL);
    CHECK_OK(bg_packed_encode(filter, NULL, 0, &n, &why));
    CHECK_EQ(bg_packed_encode(filter, bytes, n - 1, &n, &why), BG_EINVAL);
    CHECK_EQ(bg_packed_encode(filter, bytes + 4, n, &n, &why), BG_EINVAL);
    free(bytes);
    bg_filter_free(filter);
    bg_packed_free(NULL);
}

TEST(packed__of_nothing_says_maybe)
{
    uint64_t hashes[70] = { 0 }, maybe[2];
    CHECK(bg_packed_may_contain_hash(NULL, 1));
    CHECK_EQ(bg_packed_may_contain_hashes(NULL, hashes, 70, maybe), 70);
    CHECK_EQ(maybe[1], 63);
}

TEST(packed__empty_set_says_no)
{
    bg_spec spec = BG_SPEC_INIT;
    bg_builder *builder;
    bg_filter *filter;
    bg_packed *packed;
    uint64_t block[64];
    size_t n;
    spec.kind = BG_KIND_RIBBON;
    spec.rate = 0.01;
    CHECK_OK(bg_builder_create(&spec, &builder, NULL));
    CHECK_OK(bg_builder_finish(builder, &filter, NULL));
    CHECK_OK(bg_packed_encode(filter, block, sizeof block, &n, NULL));
    CHECK_OK(bg_packed_open(block, n, &packed, NULL));
    CHECK(!bg_packed_may_contain_hash(packed, 1));
    bg_packed_free(packed);
    /* Adding a key to a static filter invalidates it, so it answers "maybe" for every key. */
    (void)added_hash(filter, 1);
    CHECK_OK(bg_packed_encode(filter, block, sizeof block, &n, NULL));
    CHECK_OK(bg_packed_open(block, n, &packed, NULL));
    CHECK(bg_packed_may_contain_hash(packed, 2));
    bg_packed_free(packed);
    bg_filter_free(filter);
    bg_builder_free(builder);
}
