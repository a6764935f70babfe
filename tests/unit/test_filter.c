/* The life cycle of a filter: creation (including in the caller's memory), statistics, and
 * freeing. */
#include "support/adds.h"
#include "support/check.h"
#include "support/filters.h"

#include "filter/handle.h"

#include <stddef.h>

TEST(filter__remembers_what_was_added)
{
    for (int i = 0; i < KIND_COUNT; i++) {
        bg_spec spec = BG_SPEC_INIT;
        spec.kind = (uint32_t)kind_at(i);
        spec.items = 1000;
        spec.rate = 0.01;
        bg_filter *filter = must_create(&spec);
        CHECK_EQ(bg_filter_kind(filter), kind_at(i));
        for (uint64_t key = 0; key < 1000; key++) {
            added_u64(filter, key);
        }
        size_t wrong = 0;
        for (uint64_t key = 0; key < 21000; key++) {
            bool maybe = bg_filter_may_contain_u64(filter, key);
            CHECK(maybe || key >= 1000);
            wrong += maybe && key >= 1000;
        }
        CHECK(wrong > 100 && wrong < 300); /* 1% of 20000 */
        bg_filter_free(filter);
    }
}

TEST(filter__first_add_is_new_the_second_is_not)
{
    for (int i = 0; i < KIND_COUNT; i++) {
        bg_filter *filter = make_filter(kind_at(i), 100000, 0);
        for (uint64_t key = 0; key < 100; key++) {
            CHECK(!bg_filter_may_contain_u64(filter, key));
            CHECK(added_u64(filter, key));
            CHECK(!added_u64(filter, key));
            CHECK(bg_filter_may_contain_u64(filter, key));
        }
        bg_filter_free(filter);
    }
}

TEST(filter__smallest_of_every_kind)
{
    for (int i = 0; i < KIND_COUNT; i++) {
        bg_kind kind = kind_at(i);
        for (uint32_t k = kind_k_min(kind); k <= kind_k_max(kind); k++) {
            bg_spec spec = exact_spec(kind, 1, k, k % 2 ? BG_SPEC_EXCLUSIVE : 0);
            bg_filter *filter = must_create(&spec);
            uint64_t hash = check_random();
            CHECK(added_hash(filter, hash));
            CHECK(bg_filter_may_contain_hash(filter, hash));
            CHECK(info_of(filter).ones <= k && info_of(filter).ones > 0);
            bg_filter_free(filter);
        }
    }
}

TEST(filter__handle_and_bits_do_not_touch)
{
    for (int i = 0; i < KIND_COUNT; i++) {
        for (uint64_t units = 1; units < 20; units++) {
            bg_kind kind = kind_at(i);
            bg_spec spec = exact_spec(kind, units, kind_k_usual(kind), 0);
            bg_filter *filter = must_create(&spec);
            uintptr_t bits = (uintptr_t)filter->core.words;
            CHECK_EQ(bits % 64, 0);
            CHECK_EQ((uintptr_t)filter % 64, 0);
            CHECK((uintptr_t)filter >= bits + filter->bytes);
            bg_filter_free(filter);
        }
    }
}

/* ---- Filters in the caller's memory ---------------------------------------------- */

TEST(init_at__needs_what_bytes_says_and_allocates_nothing)
{
    static struct counting c;
    for (int i = 0; i < KIND_COUNT; i++) {
        counting_start(&c);
        bg_spec spec = BG_SPEC_INIT;
        spec.kind = (uint32_t)kind_at(i);
        spec.items = 1000;
        spec.rate = 0.01;
        spec.allocator = &c.hooks;
        size_t bytes = 0;
        bg_filter *filter = NULL;
        CHECK_OK(bg_filter_memory_needed(&spec, &bytes, NULL));
        unsigned char *memory = line_memory(bytes + 64);
        memset(memory, 0xee, bytes + 64);
        CHECK_OK(bg_filter_create_at(memory, bytes, &spec, &filter, NULL));
        CHECK(bg_filter_size_bytes(filter) < bytes);
        CHECK_EQ(info_of(filter).ones, 0);
        for (uint64_t key = 0; key < 1000; key++) {
            added_u64(filter, key);
        }
        bg_filter_clear(filter);
        CHECK_EQ(info_of(filter).ones, 0);
        bg_filter_free(filter);
        CHECK_EQ(c.calls, 0);
        for (size_t b = bytes; b < bytes + 64; b++) {
            CHECK_EQ(memory[b], 0xee);
        }
        free(memory);
    }
}

TEST(init_at__copies_come_from_the_allocator)
{
    static struct counting c;
    counting_start(&c);
    bg_spec spec = exact_spec(BG_KIND_BLOCKED, 10, 8, 0);
    spec.allocator = &c.hooks;
    size_t bytes = 0;
    bg_filter *filter = NULL, *copy = NULL;
    CHECK_OK(bg_filter_memory_needed(&spec, &bytes, NULL));
    void *memory = line_memory(bytes);
    CHECK_OK(bg_filter_create_at(memory, bytes, &spec, &filter, NULL));
    added_u64(filter, 5);
    CHECK_OK(bg_filter_copy(filter, &copy, NULL));
    CHECK_EQ(c.live, 1);
    CHECK(bg_filter_equal(filter, copy));
    bg_filter_free(copy);
    CHECK_EQ(c.live, 0);
    CHECK_EQ(c.mistakes, 0);
    bg_filter_free(filter);
    free(memory);
}

TEST(init_at__refuses_memory_that_is_misaligned_or_too_small)
{
    bg_spec spec = exact_spec(BG_KIND_BLOCKED, 10, 8, 0);
    size_t bytes = 0;
    CHECK_OK(bg_filter_memory_needed(&spec, &bytes, NULL));
    unsigned char *memory = line_memory(bytes + 64);
    memset(memory, 0xee, bytes + 64);
    bg_errinfo why;
    for (size_t offset = 1; offset < 64; offset++) {
        bg_filter *filter = (bg_filter *)(void *)&spec;
        CHECK_EQ(bg_filter_create_at(memory + offset, bytes, &spec, &filter, &why),
                 BG_EINVAL);
        CHECK(filter == NULL);
        CHECK_STR(why.what, "memory");
        CHECK(strstr(why.expected, "multiple of 64") != NULL);
    }
    for (size_t less = 1; less <= bytes; less += less < 5 ? 1 : 97) {
        bg_filter *filter = (bg_filter *)(void *)&spec;
        CHECK_EQ(bg_filter_create_at(memory, bytes - less, &spec, &filter, &why),
                 BG_EINVAL);
        CHECK(filter == NULL);
        CHECK_STR(why.what, "bytes");
        CHECK(strstr(why.expected, "at least ") != NULL);
    }
    bg_filter *filter = (bg_filter *)(void *)&spec;
    CHECK_EQ(bg_filter_create_at(NULL, bytes, &spec, &filter, &why), BG_EINVAL);
    CHECK(filter == NULL);
    CHECK_STR(why.what, "memory");
    CHECK_EQ(bg_filter_create_at(memory, bytes, &spec, NULL, &why), BG_EINVAL);
    CHECK_STR(why.what, "filter");
    for (size_t b = 0; b < bytes + 64; b++) {
        CHECK_EQ(memory[b], 0xee);
    }
    free(memory);
}

/* The handle holds the secret, so freeing the filter wipes the handle completely. */
TEST(filter__free_wipes_the_handle)
{
    const uint8_t secret[BG_SECRET_BYTES] = {
        0xa1, 0xb2, 0xc3, 0xd4, 0xe5, 0xf6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16
    };
    bg_spec spec = exact_spec(BG_KIND_BLOCKED, 10, 8, 0);
    spec.hash.profile = BG_HASH_KEYED;
    spec.hash.secret = secret;
    size_t bytes = 0;
    bg_filter *filter = NULL;
    CHECK_OK(bg_filter_memory_needed(&spec, &bytes, NULL));
    unsigned char *memory = line_memory(bytes);
    CHECK_OK(bg_filter_create_at(memory, bytes, &spec, &filter, NULL));
    bg_filter_free(filter);
    for (size_t b = 640; b < 640 + sizeof(bg_filter); b++) {
        CHECK_EQ(memory[b], 0);
    }
    free(memory);
    bg_filter_free(NULL);
}

/* ---- Statistics ------------------------------------------------------------------ */

TEST(info__tells_what_was_asked_for)
{
    const uint8_t secret[BG_SECRET_BYTES] = { 1 };
    bg_spec spec = BG_SPEC_INIT;
    spec.items = 5000;
    spec.rate = 0.01;
    spec.folds = 2;
    spec.flags = BG_SPEC_EXCLUSIVE;
    spec.hash.profile = BG_HASH_KEYED24;
    spec.hash.secret = secret;
    bg_filter *filter = must_create(&spec);
    bg_filter_info info = info_of(filter);
    CHECK_EQ(info.struct_size, sizeof info);
    CHECK_EQ(info.kind, BG_KIND_BLOCKED);
    CHECK_EQ(info.bits, 512 * info.units);
    CHECK_EQ(info.bytes, 64 * info.units);
    CHECK_EQ(info.bytes, bg_filter_size_bytes(filter));
    CHECK(info.foldable >= 2);
    CHECK_EQ(info.units % (UINT64_C(1) << info.foldable), 0);
    CHECK_EQ(info.units >> info.foldable & 1, 1);
    CHECK_EQ(info.design_items, 5000);
    CHECK(info.design_rate > 0 && info.design_rate < 0.01001);
    CHECK_EQ(info.flags, BG_SPEC_EXCLUSIVE);
    CHECK_EQ(info.hash, BG_HASH_KEYED24);
    CHECK_EQ(info.hash_check, bg_hasher_check(bg_filter_hasher(filter)));
    CHECK_EQ(info.cpu, bg_cpu_current());
    bg_filter_free(filter);
}

TEST(info__needs_its_struct_size)
{
    bg_filter *filter = make_filter(BG_KIND_BLOCKED, 4096, 0);
    bg_filter_info info, before;
    static const uint32_t wrong[] = {
        0, 1, 4, offsetof(bg_filter_info, units) - 1, sizeof info + 1, UINT32_MAX
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        memset(&info, 0x55, sizeof info);
        info.struct_size = wrong[i];
        before = info;
        CHECK_EQ(bg_filter_get_info(filter, &info), BG_EINVAL);
        CHECK(memcmp(&info, &before, sizeof info) == 0);
    }
    info.struct_size = sizeof info;
    CHECK_EQ(bg_filter_get_info(NULL, &info), BG_EINVAL);
    CHECK_EQ(bg_filter_get_info(filter, NULL), BG_EINVAL);
    bg_filter_free(filter);
}

/* A program that was compiled with a shorter struct gets only the fields that fit. */
TEST(info__is_filled_in_as_far_as_it_reaches)
{
    bg_filter *filter = make_filter(BG_KIND_BLOCKED, 4096, 0);
    bg_filter_info all = info_of(filter), info;
    static const uint32_t sizes[] = { offsetof(bg_filter_info, units),
                                      offsetof(bg_filter_info, k),
                                      offsetof(bg_filter_info, items),
                                      offsetof(bg_filter_info, flags), sizeof info };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        memset(&info, 0x55, sizeof info);
        info.struct_size = sizes[i];
        CHECK_OK(bg_filter_get_info(filter, &info));
        CHECK_EQ(info.struct_size, sizes[i]);
        /* The fields before `hash` can be compared as bytes, because there is no padding between
         * them. (The content of padding would be undefined.) */
        size_t plain = offsetof(bg_filter_info, hash);
        size_t same = sizes[i] < plain ? sizes[i] : plain;
        CHECK(memcmp((char *)&info + 4, (char *)&all + 4, same - 4) == 0);
        if (sizes[i] == sizeof info) {
            CHECK_EQ(info.hash, all.hash);
            CHECK_EQ(info.hash_check, all.hash_check);
            CHECK_EQ(info.cpu, all.cpu);
            CHECK_EQ(info.flags, all.flags);
        }
        for (size_t b = sizes[i]; b < sizeof info; b++) {
            CHECK_EQ(((unsigned char *)&info)[b], 0x55);
        }
    }
    bg_filter_free(filter);
}

TEST(info__of_no_filter)
{
    CHECK_EQ(bg_filter_kind(NULL), BG_KIND_AUTO);
    CHECK_EQ(bg_filter_size_bytes(NULL), 0);
    CHECK(bg_filter_fill(NULL) == 0);
    CHECK(bg_filter_hasher(NULL) == NULL);
}
