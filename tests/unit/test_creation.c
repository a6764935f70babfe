/*
 * Creating a large filter and giving it to a slot touches almost none of its pages. Pages are
 * counted, not time: mincore reports those that were read or written since they were mapped.
 */
#define _DEFAULT_SOURCE /* mincore */

#include "bloomgate/bloomgate.h"
#include "support/check.h"
#include "support/samples.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PIECES = 256, CREATION_ITEMS = 100000000 };

/* An allocator that maps each allocation separately, and lists them. */
struct pages {
    struct {
        void *base;
        size_t bytes;
    } pieces[PIECES];
    size_t count;
};

static void *pages_allocate(void *context, size_t bytes, size_t alignment, int zeroed)
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

/* The queries that hosts run on every new filter. */
static void creation_look(const bg_slot *slot)
{
    bg_slot_stats stats = { .struct_size = sizeof stats };
    CHECK_OK(bg_slot_about(slot, &stats));
    CHECK(!bg_slot_may_contain(slot, "pear", 4));
}

static void creation_check(unsigned i)
{
    struct pages pages = { .count = 0 };
    const bg_allocator allocator = { pages_allocate, pages_release, &pages };
    bg_spec spec = sample_spec(i, CREATION_ITEMS, 0.01);
    bg_slot_options how = BG_SLOT_OPTIONS_INIT;
    bg_filter *filter = NULL;
    bg_slot *slot = NULL;
    size_t all = 0;
    spec.allocator = how.allocator = &allocator;
    CHECK_OK(bg_filter_create(&spec, &filter, NULL));
    CHECK_OK(bg_slot_create(filter, &how, &slot, NULL));
    creation_look(slot);
    const size_t touched = pages_touched(&pages, &all);
    if (touched > all / 16) {
        (void)fprintf(stderr, "%s: %zu of %zu pages\n", samples[i].name, touched, all);
    }
    CHECK(touched <= all / 16);
    bg_slot_free(slot);
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
