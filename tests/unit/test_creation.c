/*
 * Creating a large filter and passing it to a slot touches almost none of its pages. The
 * test counts pages instead of measuring time: mincore reports the pages that were read or
 * written since they were mapped. A filter created with the settings of another filter
 * equals a cleared copy of that filter.
 */
#define _DEFAULT_SOURCE /* mincore */

#include "bloomgate/all.h"
#include "support/adds.h"
#include "support/check.h"
#include "support/samples.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PIECES = 256, CREATION_ITEMS = 100000000 };

/* An allocator that maps each allocation separately and keeps a list of all mappings. */
struct pages {
    struct {
        void *base;
        size_t bytes;
    } pieces[PIECES];
    size_t count;
};

static void *pages_allocate(void *context, size_t bytes, size_t alignment, bool zeroed)
{
    struct pages *pages = context;
    (void)alignment;
    (void)zeroed;
    void *base =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED || pages->count == PIECES) {
        return NULL;
    }
    pages->pieces[pages->count].base = base;
    pages->pieces[pages->count++].bytes = bytes;
    return base;
}

static void pages_release(void *context, void *memory, size_t bytes)
{
    struct pages *pages = context;
    for (size_t i = 0; i < pages->count; i++) {
        if (pages->pieces[i].base == memory) {
            pages->pieces[i] = pages->pieces[--pages->count];
            break;
        }
    }
    (void)munmap(memory, bytes);
}

static size_t pages_touched(const struct pages *pages, size_t *all)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t touched = 0;
    *all = 0;
    for (size_t i = 0; i < pages->count; i++) {
        const size_t n = (pages->pieces[i].bytes + page - 1) / page;
        unsigned char *resident = malloc(n);
        CHECK(mincore(pages->pieces[i].base, pages->pieces[i].bytes, resident) == 0);
        for (size_t j = 0; j < n; j++) {
            touched += resident[j] & 1;
        }
        *all += n;
        free(resident);
    }
    return touched;
}

/* Makes the calls that host applications make for every new filter. */
static void creation_look(const bg_slot *slot)
{
    bg_slot_info stats = { .struct_size = sizeof stats };
    CHECK_OK(bg_slot_get_info(slot, &stats));
    CHECK(!bg_slot_may_contain(slot, "pear", 4));
}

static void creation_check(unsigned i)
{
    struct pages pages = { .count = 0 };
    const bg_allocator allocator = { pages_allocate, pages_release, &pages };
    bg_spec spec = sample_spec(i, CREATION_ITEMS, 0.01);
    bg_slot_options how = BG_SLOT_OPTIONS_INIT;
    bg_filter *filters[2];
    bg_slot *slots[2];
    size_t all = 0;
    spec.allocator = how.allocator = &allocator;
    CHECK_OK(bg_filter_create(&spec, &filters[0], NULL));
    CHECK_OK(bg_filter_create_like(filters[0], &filters[1], NULL));
    for (int f = 0; f < 2; f++) {
        CHECK_OK(bg_slot_create(filters[f], &how, &slots[f], NULL));
        creation_look(slots[f]);
    }
    const size_t touched = pages_touched(&pages, &all);
    if (touched > all / 16) {
        (void)fprintf(stderr, "%s: %zu of %zu pages\n", samples[i].name, touched, all);
    }
    CHECK(touched <= all / 16);
    bg_slot_free(slots[0]);
    bg_slot_free(slots[1]);
    CHECK(pages.count == 0);
}

TEST(creation__touches_few_pages)
{
    for (unsigned i = 0; i < SAMPLES; i++) {
        if (!sample_is_static(i)) {
            creation_check(i);
        }
    }
}

/* ---- Creating a filter with the settings of another ------------------------------ */

enum { LIKE_KEYS = 4000 };

/* Creates a filter and adds keys. A scalable filter is created for fewer keys, so that it adds
 * several layers. */
static bg_filter *like_source(unsigned i, uint32_t flags)
{
    bg_spec spec = sample_spec(i, LIKE_KEYS, 0.01);
    struct filling fill;
    spec.flags |= flags;
    spec.items /= spec.kind == BG_KIND_SCALABLE ? 10 : 1;
    filling_begin(&fill, i, &spec, LIKE_KEYS);
    for (uint64_t key = 0; key < LIKE_KEYS; key++) {
        filling_add_u64(&fill, &key, 1);
    }
    return filling_end(&fill);
}

static void like_digest(const bg_filter *filter, char digest[BG_DIGEST_TEXT_BYTES])
{
    bg_file_info about = { .struct_size = sizeof about };
    bg_save_options how = BG_SAVE_OPTIONS_INIT;
    size_t n = 0;
    /* Uses a fixed creation time, because the current time would differ between two files. */
    how.created = 1;
    CHECK_OK(bg_encode(filter, &how, NULL, 0, &n, NULL));
    void *bytes = malloc(n);
    CHECK_OK(bg_encode(filter, &how, bytes, n, &n, NULL));
    CHECK_OK(bg_encoded_get_info(bytes, n, &about, NULL));
    memcpy(digest, about.digest_text, BG_DIGEST_TEXT_BYTES);
    free(bytes);
}

/* Checks that two filters are equal in every respect. Only the files of windows are not compared: a
 * window clears words for the next period in advance, so two equal windows may have cleared
 * different numbers of words. */
static void like_same(unsigned i, const bg_filter *a, const bg_filter *b)
{
    char digests[2][BG_DIGEST_TEXT_BYTES];
    CHECK(bg_filter_equal(a, b));
    CHECK_EQ(bg_filter_size_bytes(a), bg_filter_size_bytes(b));
    CHECK_EQ(bg_filter_capacity(a), bg_filter_capacity(b));
    CHECK_EQ(bg_filter_layers(a), bg_filter_layers(b));
    CHECK_EQ(bg_filter_window_period(a), bg_filter_window_period(b));
    CHECK_EQ(bg_filter_window_time(a), bg_filter_window_time(b));
    if (samples[i].kind != BG_KIND_WINDOW) {
        like_digest(a, digests[0]);
        like_digest(b, digests[1]);
        CHECK_STR(digests[0], digests[1]);
    }
}

static void like_check(unsigned i, uint32_t flags)
{
    bg_filter *source = like_source(i, flags), *cleared = NULL, *empty = NULL;
    CHECK_OK(bg_filter_copy(source, &cleared, NULL));
    bg_filter_clear(cleared);
    CHECK_OK(bg_filter_create_like(source, &empty, NULL));
    CHECK_EQ(bg_filter_may_contain_u64(empty, 1), false);
    like_same(i, empty, cleared);
    for (uint64_t key = 0; key < 2 * LIKE_KEYS && !sample_is_static(i); key++) {
        CHECK_EQ(added_u64(empty, key), added_u64(cleared, key));
    }
    like_same(i, empty, cleared);
    bg_filter_free(source);
    bg_filter_free(cleared);
    bg_filter_free(empty);
}

TEST(creation__like_another_equals_a_cleared_copy)
{
    for (unsigned i = 0; i < SAMPLES; i++) {
        like_check(i, 0);
        like_check(i, BG_SPEC_EXCLUSIVE);
    }
}

TEST(creation__like_another_keeps_secret_and_allocator)
{
    static const uint8_t secret[BG_SECRET_BYTES] = { 1, 2, 3 };
    struct counting c;
    bg_spec spec = BG_SPEC_INIT;
    bg_filter *filter = NULL, *empty = NULL;
    counting_start(&c);
    spec.items = 1000;
    spec.rate = 0.01;
    spec.allocator = &c.hooks;
    spec.hash.profile = BG_HASH_KEYED;
    spec.hash.secret = secret;
    CHECK_OK(bg_filter_create(&spec, &filter, NULL));
    CHECK_OK(bg_filter_create_like(filter, &empty, NULL));
    CHECK(bg_hasher_equal(bg_filter_hasher(filter), bg_filter_hasher(empty)));
    CHECK(bg_filter_allocator(empty)->context == c.hooks.context);
    bg_filter_free(empty);
    bg_filter_free(filter);
    CHECK_EQ(c.live, 0);
}

/* Makes each allocation fail in turn, and checks that no memory leaks and that the source filter is
 * unchanged. */
TEST(creation__like_another_without_memory)
{
    for (unsigned i = 0; i < SAMPLES; i++) {
        struct counting c;
        bg_spec spec = sample_spec(i, 1000, 0.01);
        bg_filter *filter = NULL, *empty = NULL;
        bg_err err = BG_ENOMEM;
        if (sample_is_static(i)) {
            continue;
        }
        counting_start(&c);
        spec.allocator = &c.hooks;
        CHECK_OK(bg_filter_create(&spec, &filter, NULL));
        const size_t live = c.live;
        for (size_t at = 1; err; at++) {
            c.calls = 0;
            c.fail_at = at;
            err = bg_filter_create_like(filter, &empty, NULL);
            CHECK(err == BG_OK || (err == BG_ENOMEM && !empty && c.live == live));
        }
        CHECK_EQ(c.live, 2 * live);
        bg_filter_free(empty);
        bg_filter_free(filter);
        CHECK_EQ(c.live + c.mistakes, 0);
    }
}

TEST(creation__like_another_refuses_null)
{
    bg_filter *filter = NULL, *empty = (bg_filter *)(void *)&filter;
    bg_errinfo why;
    CHECK_EQ(bg_filter_create_like(NULL, &empty, &why), BG_EINVAL);
    CHECK(empty == NULL);
    CHECK_STR(why.what, "filter");
    filter = like_source(sample_of(BG_KIND_BLOCKED), 0);
    CHECK_EQ(bg_filter_create_like(filter, NULL, NULL), BG_EINVAL);
    bg_filter_free(filter);
}
