/*
 * The secrets of keyed filters must not appear in core dumps or in freed memory.
 */
#define _GNU_SOURCE /* memmem */

#include "support/adds.h"
#include "support/files.h"
#include "support/pages.h"

#include "base/memory.h"
#include "filter/handle.h"

static const bg_hash_profile profiles[] = { BG_HASH_KEYED, BG_HASH_KEYED24,
                                            BG_HASH_KEYED_INT };

enum { PROFILES = sizeof profiles / sizeof *profiles };

/* Returns a new random secret, which occurs nowhere else in memory. */
static uint8_t *new_secret(struct bgi_memory *memory)
{
    CHECK(bgi_secret_take(memory, BG_SECRET_BYTES));
    uint8_t *secret = memory->base;
    for (int i = 0; i < BG_SECRET_BYTES; i++) {
        secret[i] = (uint8_t)check_random();
    }
    return secret;
}

static bg_spec keyed_spec(unsigned i, bg_hash_profile profile, const uint8_t *secret)
{
    bg_spec spec = files_spec(i);
    spec.hash.profile = profile;
    spec.hash.secret = secret;
    return spec;
}

/* Creates an empty filter or builder, and immediately searches memory for the secret, before later
 * calls can overwrite traces of it. */
static void begin(const bg_spec *spec, void (*look)(const bg_filter *filter))
{
    bg_filter *filter = NULL;
    bg_builder *builder = NULL;
    if (bg_kind_traits((bg_kind)spec->kind) & BG_TRAIT_STATIC) {
        CHECK_OK(bg_builder_create(spec, &builder, NULL));
    } else {
        CHECK_OK(bg_filter_create(spec, &filter, NULL));
    }
    look(filter);
    bg_builder_free(builder);
    bg_filter_free(filter);
    look(NULL);
}

/* Creates, copies, saves and opens a filter, and calls `look` for each of the filters. */
static void live(unsigned i, bg_hash_profile profile, const uint8_t *secret,
                 void (*look)(const bg_filter *filter))
{
    const char *path = files_path("keyed.bg");
    bg_spec spec = keyed_spec(i, profile, secret);
    bg_open_options opening = BG_OPEN_OPTIONS_INIT;
    bg_filter *copy = NULL, *opened = NULL, *mapped = NULL;
    begin(&spec, look);
    bg_filter *filter = files_make_spec(&spec, 1);
    opening.hash = &spec.hash;
    look(filter);
    CHECK_OK(bg_filter_copy(filter, &copy, NULL));
    look(copy);
    CHECK_OK(bg_save(filter, path, NULL, NULL));
    CHECK_OK(bg_open(path, &opening, &opened, NULL));
    look(opened);
    CHECK_OK(bg_map(path, &opening, &mapped, NULL));
    look(mapped);
    CHECK_OK(bg_verify(path, &opening, NULL, NULL));
    files_check_keys(mapped);
    look(mapped);
    bg_filter_free(filter);
    bg_filter_free(copy);
    bg_filter_free(opened);
    bg_filter_free(mapped);
}

static void look_at_pages(const bg_filter *filter)
{
    CHECK(!filter || pages_have(bg_filter_hasher(filter), "dd"));
    CHECK(!filter || pages_have(filter, "dd"));
}

TEST(secrets__handles_are_left_out_of_core_files)
{
    struct bgi_memory memory;
    if (!pages_are_told()) {
        return;
    }
    const uint8_t *secret = new_secret(&memory);
    for (unsigned i = 0; i < FILES_CASES_COUNT; i++) {
        live(i, BG_HASH_KEYED, secret, look_at_pages);
    }
    bgi_secret_give(&memory);
    files_clean();
}

static const uint8_t *looked_for;

static void look_everywhere(const bg_filter *filter)
{
    (void)filter;
    CHECK_EQ(pages_dumped(looked_for, BG_SECRET_BYTES), 0);
}

/* Covers not only handles but also the layers, shards and generations inside them, and data
 * that functions left on the stack or on the heap. Skipped under sanitizers, which map many TiB
 * of memory themselves. */
TEST(secrets__none_is_in_memory_that_would_be_dumped)
{
    struct bgi_memory memory;
    if (CHECK_SANITIZED || !pages_are_told()) {
        return;
    }
    const uint8_t *secret = looked_for = new_secret(&memory);
    for (unsigned p = 0; p < PROFILES; p++) {
        for (unsigned i = 0; i < FILES_CASES_COUNT; i++) {
            live(i, profiles[p], secret, look_everywhere);
        }
    }
    CHECK_EQ(pages_dumped(secret, BG_SECRET_BYTES), 0);
    uint8_t copy[BG_SECRET_BYTES]; /* checks that the search would find a copy */
    memcpy(copy, secret, sizeof copy);
    __asm__ volatile("" : : "r"(copy) : "memory");
    CHECK(pages_dumped(secret, BG_SECRET_BYTES) > 0);
    bgi_wipe(copy, sizeof copy);
    bgi_secret_give(&memory);
    files_clean();
}

/* A registry keeps a copy of its template's secret. */
TEST(secrets__none_of_a_registry_would_be_dumped)
{
    struct bgi_memory memory;
    if (CHECK_SANITIZED || !pages_are_told()) {
        return;
    }
    const uint8_t *secret = new_secret(&memory);
    bg_registry_options options = BG_REGISTRY_OPTIONS_INIT;
    bg_registry *registry = NULL;
    bg_tenant *tenant = NULL;
    options.spec = keyed_spec(0, BG_HASH_KEYED, secret);
    CHECK_OK(bg_registry_create(&options, &registry, NULL));
    CHECK_OK(bg_registry_get(registry, "acme", BG_REGISTRY_CREATE, &tenant, NULL));
    CHECK_OK(bg_tenant_add(tenant, "key", 3, NULL, NULL));
    CHECK_EQ(pages_dumped(secret, BG_SECRET_BYTES), 0);
    bg_tenant_release(tenant);
    bg_registry_free(registry);
    CHECK_EQ(pages_dumped(secret, BG_SECRET_BYTES), 0);
    bgi_secret_give(&memory);
}

TEST(secrets__filters_without_one_are_dumped)
{
    if (!pages_are_told()) {
        return;
    }
    for (unsigned i = 0; i < FILES_CASES_COUNT; i++) {
        bg_filter *filter = files_make(i, 1);
        CHECK(!pages_have(filter, "dd"));
        bg_filter_free(filter);
    }
}

TEST(secrets__large_filters_are_hidden_as_well)
{
    struct bgi_memory memory;
    const uint8_t *secret = new_secret(&memory);
    for (uint64_t items = 1000; items <= 4000000 && pages_are_told(); items *= 4) {
        bg_spec spec = keyed_spec(0, BG_HASH_KEYED, secret);
        spec.items = items;
        bg_filter *filter = must_create(&spec);
        CHECK(pages_have(filter, "dd"));
        CHECK(added_u64(filter, items));
        bg_filter_clear(filter);
        CHECK(!bg_filter_may_contain_u64(filter, items));
        CHECK(pages_have(filter, "dd"));
        bg_filter_free(filter);
    }
    bgi_secret_give(&memory);
}

/* ---- Freed memory -------------------------------------------------------------------- */

struct looking {
    bg_allocator hooks;
    const uint8_t *secret;
    size_t released;
    unsigned held; /* number of secrets found in freed memory */
};

static void *looking_allocate(void *context, size_t bytes, size_t alignment,
                              bool zeroed)
{
    size_t whole = (bytes + alignment - 1) / alignment * alignment;
    void *memory = aligned_alloc(alignment, whole);
    (void)context;
    if (memory) {
        memset(memory, zeroed ? 0 : 0xa5, bytes);
    }
    return memory;
}

static void looking_release(void *context, void *memory, size_t bytes)
{
    struct looking *l = context;
    l->released++;
    l->held += pages_count(memory, bytes, l->secret, BG_SECRET_BYTES);
    free(memory);
}

TEST(secrets__are_wiped_before_memory_goes_back)
{
    struct bgi_memory memory;
    struct looking l = { .secret = new_secret(&memory) };
    const char *path = files_path("keyed.bg");
    l.hooks = (bg_allocator){ looking_allocate, looking_release, &l };
    for (unsigned p = 0; p < PROFILES; p++) {
        for (unsigned i = 0; i < FILES_CASES_COUNT; i++) {
            bg_spec spec = keyed_spec(i, profiles[p], l.secret);
            bg_open_options opening = BG_OPEN_OPTIONS_INIT;
            bg_filter *copy = NULL, *opened = NULL;
            spec.allocator = opening.allocator = &l.hooks;
            opening.hash = &spec.hash;
            bg_filter *filter = files_make_spec(&spec, 1);
            CHECK_EQ(pages_count((const unsigned char *)bg_filter_hasher(filter),
                                 sizeof(bg_hasher), l.secret, BG_SECRET_BYTES)
                         > 0,
                     1);
            CHECK_OK(bg_filter_copy(filter, &copy, NULL));
            CHECK_OK(bg_save(filter, path, NULL, NULL));
            CHECK_OK(bg_open(path, &opening, &opened, NULL));
            bg_filter_free(filter);
            bg_filter_free(copy);
            bg_filter_free(opened);
        }
    }
    CHECK(l.released > 3 * FILES_CASES_COUNT);
    CHECK_EQ(l.held, 0);
    bgi_secret_give(&memory);
    files_clean();
}

TEST(secrets__are_wiped_from_the_callers_memory)
{
    struct bgi_memory memory;
    const uint8_t *secret = new_secret(&memory);
    bg_spec spec = keyed_spec(0, BG_HASH_KEYED_INT, secret);
    size_t bytes = 0;
    bg_filter *filter = NULL;
    CHECK_OK(bg_filter_memory_needed(&spec, &bytes, NULL));
    unsigned char *at = line_memory(bytes);
    CHECK_OK(bg_filter_create_at(at, bytes, &spec, &filter, NULL));
    CHECK(pages_count(at, bytes, secret, BG_SECRET_BYTES) > 0);
    bg_filter_free(filter);
    CHECK_EQ(pages_count(at, bytes, secret, BG_SECRET_BYTES), 0);
    free(at);
    bgi_secret_give(&memory);
}
