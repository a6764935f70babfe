/* Memory for filters is aligned, zeroed, zeroed again on request, and returned to its
 * allocator. Memory that contains secrets is hidden, that is, excluded from core files. */
#define _GNU_SOURCE /* memmem */

#include "support/check.h"
#include "support/filters.h"
#include "support/pages.h"

#include "base/memory.h"

#include <stdint.h>
#include <string.h>
#include <sys/wait.h>

static bool all_zero(const unsigned char *p, size_t n)
{
    for (; n >= 8; p += 8, n -= 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        if (word) {
            return false;
        }
    }
    for (; n; p++, n--) {
        if (*p) {
            return false;
        }
    }
    return true;
}

typedef bool take_function(struct bgi_memory *memory, size_t bytes,
                           const bg_allocator *allocator, bool small_pages);

/* Allocates, fills, zeroes and frees memory. Every step must behave as documented in memory.h. */
static void check_piece(take_function *take, size_t bytes, bool small_pages)
{
    struct bgi_memory memory;
    CHECK(take(&memory, bytes, NULL, small_pages));
    CHECK(memory.base != NULL);
    CHECK_EQ(memory.bytes, bytes);
    CHECK_EQ((uintptr_t)memory.base % 64, 0);
    CHECK(all_zero(memory.base, bytes));
    memset(memory.base, 0xff, bytes);
    bgi_memory_zero(&memory, memory.base, bytes);
    CHECK(all_zero(memory.base, bytes));
    bgi_memory_give(&memory);
    CHECK(memory.base == NULL);
    CHECK_EQ(memory.bytes, 0);
    bgi_memory_give(&memory); /* empty: does nothing */
}

TEST(memory__is_aligned_and_zero_in_every_size)
{
    static const size_t sizes[] = { 0,           1,           7,           63,
                                    64,          65,          4095,        4096,
                                    4097,        131071,      131072,      131073,
                                    1000003,     2097151,     2097152,     2097153,
                                    4194304 - 1, 4194304 + 1, 5242880 - 3, 5242880 };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        check_piece(bgi_memory_take, sizes[i], false);
        check_piece(bgi_memory_take, sizes[i], true);
        check_piece(bgi_memory_take_hidden, sizes[i], false);
        check_piece(bgi_memory_take_hidden, sizes[i], true);
    }
    for (size_t i = 0; i < 10 * check_scale(); i++) {
        check_piece(bgi_memory_take, (size_t)check_random_below(5 << 20), i % 2);
    }
}

TEST(memory__large_pieces_begin_at_a_large_page)
{
    struct bgi_memory memory;
    for (size_t bytes = 2 << 20; bytes < (5 << 20); bytes += 777777) {
        CHECK(bgi_memory_take(&memory, bytes, NULL, false));
        CHECK_EQ((uintptr_t)memory.base % (2 << 20), 0);
        bgi_memory_give(&memory);
    }
}

/* Ranges above 16 MiB are zeroed by returning them to the kernel. This range starts and ends in the
 * middle of a page, and the other bytes of those two pages must not change. */
TEST(memory__zeroes_a_range_and_nothing_else)
{
    const size_t bytes = (20 << 20) + 12345;
    for (int small_pages = 0; small_pages <= 1; small_pages++) {
        struct bgi_memory memory;
        CHECK(bgi_memory_take(&memory, bytes, NULL, small_pages));
        unsigned char *p = memory.base;
        memset(p, 0xff, bytes);
        const size_t from = 4097, to = bytes - 777;
        bgi_memory_zero(&memory, p + from, to - from);
        CHECK(all_zero(p + from, to - from));
        CHECK_EQ(p[from - 1], 0xff);
        CHECK_EQ(p[0], 0xff);
        CHECK_EQ(p[to], 0xff);
        CHECK_EQ(p[bytes - 1], 0xff);
        bgi_memory_give(&memory);
    }
}

TEST(memory__of_the_caller_is_written_not_handed_back)
{
    enum { BYTES = 20 << 20 };
    struct bgi_memory none = { 0 };
    unsigned char *p = malloc(BYTES);
    CHECK(p != NULL);
    memset(p, 0xff, BYTES);
    bgi_memory_zero(&none, p + 1, BYTES - 2);
    CHECK(all_zero(p + 1, BYTES - 2));
    CHECK_EQ(p[0], 0xff);
    CHECK_EQ(p[BYTES - 1], 0xff);
    free(p);
}

TEST(memory__from_an_allocator_goes_back_to_it)
{
    static struct counting c;
    counting_start(&c);
    struct bgi_memory one, two;
    CHECK(bgi_memory_take(&one, 100, &c.hooks, false));
    CHECK(bgi_memory_take(&two, 3000001, &c.hooks, true));
    CHECK_EQ(c.calls, 2);
    CHECK_EQ(c.live, 2);
    CHECK(all_zero(one.base, 100));
    CHECK_EQ((uintptr_t)two.base % 64, 0);
    memset(two.base, 0xff, two.bytes);
    bgi_memory_zero(&two, two.base, two.bytes);
    CHECK(all_zero(two.base, two.bytes));
    bgi_memory_give(&one);
    CHECK_EQ(c.live, 1);
    bgi_memory_give(&two);
    bgi_memory_give(&two);
    CHECK_EQ(c.live, 0);
    CHECK_EQ(c.mistakes, 0);
}

TEST(memory__is_empty_when_the_allocator_has_none)
{
    static struct counting c;
    struct bgi_memory memory;
    counting_start(&c);
    c.fail_at = 1;
    memset(&memory, 0xff, sizeof memory);
    CHECK(!bgi_memory_take(&memory, 100, &c.hooks, false));
    CHECK(memory.base == NULL);
    CHECK_EQ(memory.bytes, 0);
    bgi_memory_give(&memory);
    CHECK_EQ(c.mistakes, 0);
}

TEST(memory__that_nobody_has_is_refused)
{
    struct bgi_memory memory;
    for (int small_pages = 0; small_pages <= 1; small_pages++) {
        CHECK(!bgi_memory_take(&memory, PTRDIFF_MAX, NULL, small_pages));
        CHECK(memory.base == NULL);
        CHECK(!bgi_memory_take(&memory, SIZE_MAX, NULL, small_pages));
        CHECK(memory.base == NULL);
    }
}

TEST(memory__is_wiped)
{
    unsigned char secret[100];
    memset(secret, 0x77, sizeof secret);
    bgi_wipe(secret + 1, sizeof secret - 2);
    CHECK(all_zero(secret + 1, sizeof secret - 2));
    CHECK_EQ(secret[0], 0x77);
    CHECK_EQ(secret[99], 0x77);
}

TEST(memory__hidden_is_left_out_of_core_files)
{
    static const size_t sizes[] = { 1, 700, 4096, 4097, 131072, 3000000 };
    struct bgi_memory memory;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && pages_are_told(); i++) {
        CHECK(bgi_memory_take_hidden(&memory, sizes[i], NULL, i % 2));
        const char *p = memory.base;
        CHECK(pages_have(p, "dd"));
        CHECK(pages_have(p + sizes[i] - 1, "dd"));
        bgi_memory_give(&memory);
        CHECK(bgi_memory_take(&memory, sizes[i], NULL, i % 2));
        CHECK(!pages_have(memory.base, "dd"));
        bgi_memory_give(&memory);
    }
}

/* When the limit on hidden memory is reached, allocations of hidden memory fail. They do not fall
 * back to ordinary memory, even if ordinary memory is available. */
static size_t limit_room, limit_used;

static bool limit_take(void *context, size_t bytes)
{
    (void)context;
    const bool fits = bytes <= limit_room - limit_used;
    limit_used += fits ? bytes : 0;
    return fits;
}

static void limit_give(void *context, size_t bytes)
{
    (void)context;
    limit_used -= bytes;
}

TEST(memory__hidden_is_hidden_at_a_limit)
{
    static const bg_memory_guard guard = { .take = limit_take, .give = limit_give };
    struct bgi_memory memory;
    bg_memory_set_guard(&guard);
    for (size_t bytes = 1; bytes < 100000; bytes = bytes * 5 / 4 + 1) {
        size_t least = 0;
        for (limit_room = bytes; least == 0; limit_room += 16) {
            if (bgi_memory_take_hidden(&memory, bytes, NULL, true)) {
                least = limit_room;
                CHECK(memory.hidden);
                bgi_memory_give(&memory);
            } else {
                CHECK(memory.base == NULL);
            }
            CHECK_EQ(limit_used, 0);
        }
        CHECK(least <= bytes + bytes / 4 + 4096 + 64);
    }
    bg_memory_set_guard(NULL);
}

TEST(memory__hidden_from_an_allocator_is_the_allocators)
{
    static struct counting c;
    struct bgi_memory memory;
    counting_start(&c);
    CHECK(bgi_memory_take_hidden(&memory, 100, &c.hooks, false));
    CHECK_EQ(c.live, 1);
    CHECK(!memory.hidden);
    bgi_memory_give(&memory);
    CHECK_EQ(c.live, 0);
    CHECK_EQ(c.mistakes, 0);
}

TEST(memory__of_secrets_is_hidden_and_not_inherited)
{
    static const size_t sizes[] = { 1, 16, 4096, 65537 };
    struct bgi_memory memory;
    CHECK(!bgi_secret_take(&memory, 0));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        CHECK(bgi_secret_take(&memory, sizes[i]));
        unsigned char *p = memory.base;
        CHECK(all_zero(p, sizes[i]));
        memset(p, 0x77, sizes[i]);
        if (pages_are_told()) {
            CHECK(pages_have(p, "dd"));
            CHECK(pages_have(p + sizes[i] - 1, "dd"));
            CHECK(pages_have(p, "wf") || pages_have(p, "dc"));
            pid_t child = pages_have(p, "wf") ? fork() : -1;
            if (child == 0) {
                _exit(all_zero(p, sizes[i]) ? 0 : 1);
            }
            int status = 0;
            CHECK(child < 0 || waitpid(child, &status, 0) == child);
            CHECK_EQ(status, 0);
        }
        CHECK_EQ(p[sizes[i] - 1], 0x77);
        bgi_secret_give(&memory);
        CHECK(memory.base == NULL);
        bgi_secret_give(&memory); /* empty: does nothing */
    }
}
