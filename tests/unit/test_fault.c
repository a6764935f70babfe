/*
 * Out of memory: an allocator fails at its n-th call only, or at its n-th call and all later ones,
 * for every n that a scenario reaches. One test also simulates an OS without free memory. Nothing
 * leaks, nothing crashes, the error is reported, and existing content is unchanged.
 */
#define _DEFAULT_SOURCE /* fork, setrlimit */

#include "support/adds.h"
#include "support/check.h"
#include "support/samples.h"

#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KEYS = 300, CALLS_MAX = 100 };

static struct counting c;

static bg_spec spec_of(bg_kind kind)
{
    bg_spec spec = exact_spec(kind, 64, kind_k_usual(kind), 0);
    spec.allocator = &c.hooks;
    return spec;
}

/* Checks that a call either succeeded and returned a filter, or returned BG_ENOMEM and no filter.
 * Returns whether it succeeded. */
static bool check_made(bg_err err, const bg_filter *filter, const bg_errinfo *why)
{
    if (err == BG_OK) {
        CHECK(filter != NULL);
        CHECK_EQ(why->code, BG_OK);
        return true;
    }
    CHECK_EQ(err, BG_ENOMEM);
    CHECK(filter == NULL);
    CHECK_EQ(why->code, BG_ENOMEM);
    CHECK_STR(why->what, "memory");
    CHECK(strstr(why->message, "bytes") != NULL);
    return false;
}

/* Copies, folds and merges `filter`, and returns the number of calls that failed. */
static unsigned use_filter(bg_filter *filter, const bg_filter *model)
{
    bg_filter *copy, *folded;
    bg_errinfo why;
    unsigned failed = 0;
    copy = folded = filter;
    bg_err err = bg_filter_copy(filter, &copy, &why);
    failed += !check_made(err, copy, &why);
    CHECK(bg_filter_equal(filter, model));
    for (uint32_t times = 1; times <= 4; times++) {
        err = bg_filter_fold(filter, times, &folded, &why);
        failed += !check_made(err, folded, &why);
        CHECK(bg_filter_equal(filter, model));
        bg_filter_free(folded);
    }
    if (copy) {
        CHECK(bg_filter_equal(copy, model));
        CHECK_OK(bg_filter_merge(filter, copy, NULL)); /* needs no memory */
        CHECK(bg_filter_equal(filter, model));
    }
    bg_filter_free(copy);
    return failed;
}

/* Runs the whole scenario and returns the number of calls that failed. `model` contains the same
 * keys as the filter under test and uses its own allocator. */
static unsigned scenario(bg_kind kind, const bg_filter *model)
{
    bg_spec spec = spec_of(kind);
    bg_filter *filter = (bg_filter *)(void *)&spec;
    bg_errinfo why;
    unsigned failed = 0;
    bg_err err = bg_filter_create(&spec, &filter, &why);
    if (!check_made(err, filter, &why)) {
        return 1;
    }
    for (uint64_t key = 0; key < KEYS; key++) {
        added_u64(filter, key);
    }
    CHECK(bg_filter_equal(filter, model));
    failed = use_filter(filter, model);
    CHECK_EQ(bg_filter_may_contain_u64(filter, 7), true);
    bg_filter_free(filter);
    return failed;
}

static bg_filter *make_model(bg_kind kind)
{
    bg_spec spec = exact_spec(kind, 64, kind_k_usual(kind), 0);
    bg_filter *model = must_create(&spec);
    for (uint64_t key = 0; key < KEYS; key++) {
        added_u64(model, key);
    }
    return model;
}

static void check_failing(bg_kind kind, bool onwards)
{
    bg_filter *model = make_model(kind);
    counting_start(&c);
    CHECK_EQ(scenario(kind, model), 0);
    size_t calls = c.calls;
    CHECK(calls >= 12 && calls < CALLS_MAX); /* 1 + 1 + 1 + 2 + 3 + 4 */
    CHECK_EQ(c.live, 0);
    for (size_t n = 1; n <= calls + 1; n++) {
        counting_start(&c);
        c.fail_at = n;
        c.fail_onwards = onwards;
        unsigned failed = scenario(kind, model);
        CHECK_EQ(failed > 0, n <= calls);
        CHECK(onwards || failed <= 1);
        CHECK_EQ(c.live, 0);
        CHECK_EQ(c.mistakes, 0);
    }
    bg_filter_free(model);
}

TEST(fault__allocator_fails_once)
{
    for (int i = 0; i < KIND_COUNT; i++) {
        check_failing(kind_at(i), false);
    }
}

TEST(fault__allocator_fails_from_then_on)
{
    for (int i = 0; i < KIND_COUNT; i++) {
        check_failing(kind_at(i), true);
    }
}

/* If an allocation fails in the middle of three halvings, the intermediate filter is freed. */
TEST(fault__fold_fails_halfway)
{
    bg_kind kind = BG_KIND_BLOCKED;
    bg_spec spec = spec_of(kind);
    counting_start(&c);
    bg_filter *filter = must_create(&spec), *folded = filter;
    bg_errinfo why;
    added_u64(filter, 1);
    for (size_t n = 1; n <= 3; n++) {
        c.fail_at = c.calls + n;
        CHECK_EQ(bg_filter_fold(filter, 3, &folded, &why), BG_ENOMEM);
        CHECK(folded == NULL);
        CHECK_EQ(c.live, 1);
        folded = filter;
    }
    CHECK_OK(bg_filter_fold(filter, 3, &folded, &why));
    CHECK_EQ(c.live, 2);
    bg_filter_free(folded);
    bg_filter_free(filter);
    CHECK_EQ(c.live, 0);
}

/* ---- Every kind, with all its operations ------------------------------------------- */

/* Checks that a call either returned a filter that contains all keys, or failed because memory ran
 * out. Returns the number of failures (0 or 1). */
static unsigned check_derived(bg_err err, bg_filter *made, bg_errinfo *why)
{
    unsigned failed = !check_made(err, made, why);
    for (uint64_t key = 0; made && key < KEYS; key++) {
        CHECK(bg_filter_may_contain_u64(made, key));
    }
    bg_filter_free(made);
    return failed;
}

/* Builds a static filter. Steps that fail are retried, except for the creation of the builder. */
static bg_filter *every_build(const bg_spec *spec, unsigned *failed)
{
    bg_builder *builder = NULL;
    bg_filter *filter = NULL;
    bg_errinfo why;
    if (bg_builder_create(spec, &builder, &why) != BG_OK) {
        CHECK_EQ(why.code, BG_ENOMEM);
        CHECK(builder == NULL);
        (*failed)++;
        return NULL;
    }
    for (uint64_t key = 0; key < KEYS && *failed < 9; key++) {
        bg_err err = bg_builder_add_u64(builder, key);
        CHECK(err == BG_OK || err == BG_ENOMEM);
        key -= err != BG_OK; /* again */
        *failed += err != BG_OK;
    }
    while (*failed < 9 && bg_builder_finish(builder, &filter, &why) != BG_OK) {
        CHECK_EQ(why.code, BG_ENOMEM);
        CHECK(filter == NULL);
        (*failed)++;
    }
    bg_builder_free(builder);
    return filter;
}

/* Creates a filter and adds KEYS keys. If there is no memory for a new layer, the filter still
 * accepts keys, and its statistics report the missing layer. */
static bg_filter *every_fill(unsigned sample, const bg_spec *spec, unsigned *failed)
{
    bg_filter *filter = NULL;
    bg_errinfo why;
    if (sample_is_static(sample)) {
        return every_build(spec, failed);
    }
    bg_err err = bg_filter_create(spec, &filter, &why);
    *failed += !check_made(err, filter, &why);
    for (uint64_t key = 0; filter && key < KEYS; key++) {
        CHECK_OK(bg_filter_add_u64(filter, key, NULL));
    }
    return filter;
}

/* Runs the operations that need memory: copying a filter, and deriving one filter from another. */
static unsigned every_derive(unsigned sample, const bg_filter *filter)
{
    bg_filter *made = NULL;
    bg_errinfo why;
    unsigned failed = 0;
    bg_err err = bg_filter_copy(filter, &made, &why);
    failed += check_derived(err, made, &why);
    if (sample_can(sample, BG_TRAIT_RESIZE)) {
        err = bg_filter_resize(filter, 1, &made, &why);
        failed += check_derived(err, made, &why);
    }
    if (sample_can(sample, BG_TRAIT_FOLD) && info_of(filter).foldable) {
        err = bg_filter_fold(filter, 1, &made, &why);
        failed += check_derived(err, made, &why);
    }
    if (samples[sample].kind == BG_KIND_SCALABLE && !samples[sample].shards) {
        err = bg_filter_compact(filter, &made, &why);
        failed += err == BG_EFULL ? 0 : check_derived(err, made, &why);
    }
    return failed;
}

/* A merge needs memory if it adds layers. It also needs memory if shards can become full, because
 * it is then tried on a copy first. */
static unsigned every_merge(unsigned sample, bg_filter *filter, const bg_spec *spec)
{
    unsigned failed = 0;
    bg_filter *other = NULL;
    if (sample_can(sample, BG_TRAIT_MERGE)) {
        bg_errinfo why;
        bg_err err = bg_filter_create(spec, &other, &why);
        failed += !check_made(err, other, &why);
    }
    if (other) {
        (void)added_u64(other, 1 << 20);
        bg_err to = bg_filter_merge(filter, other, NULL);
        CHECK(to == BG_OK || to == BG_ENOMEM);
        CHECK(to || bg_filter_may_contain_u64(filter, 1 << 20));
        bg_err from = bg_filter_merge(other, filter, NULL);
        CHECK(from == BG_OK || from == BG_ENOMEM);
        CHECK(from || bg_filter_may_contain_u64(other, 7));
        CHECK(bg_filter_may_contain_u64(other, 1 << 20));
        failed += to != BG_OK || from != BG_OK;
    }
    bg_filter_free(other);
    return failed;
}

/* Returns whether a call failed or a layer is missing. If `grows` is set, the filter is created for
 * so few keys that a scalable filter adds layers. Otherwise, the filter can be compacted. */
static bool every_scenario(unsigned sample, bool grows)
{
    bg_spec spec = sample_spec(sample, 2 * (uint64_t)KEYS, 0.01);
    spec.allocator = &c.hooks;
    spec.items = grows ? 50 : spec.items;
    unsigned failed = 0;
    bg_filter *filter = every_fill(sample, &spec, &failed);
    if (filter) {
        failed += every_derive(sample, filter);
        failed += every_merge(sample, filter, &spec);
        failed += info_of(filter).saturated > 0;
        if (samples[sample].kind == BG_KIND_WINDOW) { /* needs no memory */
            size_t calls = c.calls;
            CHECK_OK(bg_filter_rotate(filter, 0, NULL));
            CHECK_EQ(c.calls, calls);
        }
        for (uint64_t key = 0; key < KEYS; key++) {
            CHECK(bg_filter_may_contain_u64(filter, key));
        }
    }
    bg_filter_free(filter);
    CHECK_EQ(c.live, 0);
    CHECK_EQ(c.mistakes, 0);
    return failed;
}

/* Returns the number of injected faults. */
static size_t every_fault(unsigned sample, bool grows)
{
    counting_start(&c);
    (void)every_scenario(sample, grows);
    size_t calls = c.calls;
    CHECK(calls >= 2 && calls < CALLS_MAX);
    size_t faults = 0;
    for (size_t n = 1; n <= calls; n += CHECK_EMULATED ? 4 : 1) {
        for (int onwards = 0; onwards < 2; onwards++, faults++) {
            counting_start(&c);
            c.fail_at = n;
            c.fail_onwards = onwards;
            CHECK(every_scenario(sample, grows));
        }
    }
    return faults;
}

TEST(fault__every_kind_without_memory_once_and_for_ever)
{
    size_t faults = 0;
    for (unsigned s = 0; s < SAMPLES; s++) {
        faults += every_fault(s, false);
        if (samples[s].kind == BG_KIND_SCALABLE) {
            faults += every_fault(s, true);
        }
    }
    printf("= every kind: %zu failed allocations, nothing lost\n", faults);
}

/* ---- An OS without free memory -------------------------------------------------------- */

static bool same_error(bg_err err, const bg_filter *filter, const bg_errinfo *why)
{
    return err == BG_ENOMEM && !filter && why->code == BG_ENOMEM && why->message[0];
}

/* Limits the address space of the calling process, and checks how the library behaves when memory
 * runs out. Returns 0 on success. */
static int without_memory(void)
{
    bg_spec spec = exact_spec(BG_KIND_BLOCKED, (200 << 20) / 64, 8, 0);
    bg_filter *filter = NULL, *copy = NULL, *folded = NULL;
    bg_errinfo why;
    struct rlimit limit = { 256 << 20, 256 << 20 };
    if (setrlimit(RLIMIT_AS, &limit) != 0) {
        return 1;
    }
    if (bg_filter_create(&spec, &filter, &why) != BG_OK) {
        return 2;
    }
    added_u64(filter, 1);
    copy = folded = filter;
    bg_err err = bg_filter_copy(filter, &copy, &why);
    if (!same_error(err, copy, &why)) {
        return 3;
    }
    err = bg_filter_fold(filter, 1, &folded, &why);
    if (!same_error(err, folded, &why)) {
        return 4;
    }
    bg_filter *second = filter;
    err = bg_filter_create(&spec, &second, &why);
    if (!same_error(err, second, &why)) {
        return 5;
    }
    if (!bg_filter_may_contain_u64(filter, 1) || bg_filter_may_contain_u64(filter, 2)) {
        return 6;
    }
    /* Once the filter is freed, memory is available again. */
    bg_filter_free(filter);
    if (bg_filter_create(&spec, &second, &why) != BG_OK) {
        return 7;
    }
    bg_filter_free(second);
    return 0;
}

TEST(fault__system_has_no_memory)
{
    if (CHECK_SANITIZED || CHECK_EMULATED) {
        return; /* sanitizers and emulators need too much address space themselves */
    }
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        _exit(without_memory());
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), 0);
}
