/*
 * No memory: an allocator that fails at its n-th call, once or from then on, for every
 * n that a scenario reaches; and a system that has none left. Nothing leaks, nothing
 * crashes, the error is reported, and what was there stays as it was.
 */
#define _DEFAULT_SOURCE /* fork, setrlimit */

#include "support/check.h"
#include "support/filters.h"

#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KEYS = 300, CALLS_MOST = 100 };

static struct counting c;

static bg_spec spec_of(bg_kind kind)
{
    bg_spec spec = exact_spec(kind, 64, kind_k_usual(kind), 0);
    spec.allocator = &c.hooks;
    return spec;
}

/* Either it worked and there is a filter, or it says BG_ENOMEM and there is none. */
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
    CHECK(strstr(why->found, "bytes") != NULL);
    return false;
}

/* Copies and folds of `filter`, and a merge; counts what failed. */
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
        CHECK_OK(bg_filter_merge(filter, copy, NULL)); /* takes no memory */
        CHECK(bg_filter_equal(filter, model));
    }
    bg_filter_free(copy);
    return failed;
}

/* The whole scenario; returns how many calls failed. `model` has the same keys, from an
 * allocator of its own. */
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
        bg_filter_add_u64(filter, key);
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
        bg_filter_add_u64(model, key);
    }
    return model;
}

static void check_failing(bg_kind kind, bool onwards)
{
    bg_filter *model = make_model(kind);
    counting_start(&c);
    CHECK_EQ(scenario(kind, model), 0);
    size_t calls = c.calls;
    CHECK(calls >= 12 && calls < CALLS_MOST); /* 1 + 1 + 1 + 2 + 3 + 4 */
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

/* In the middle of three halvings: the one that was made on the way is given back. */
TEST(fault__fold_fails_halfway)
{
    bg_kind kind = BG_KIND_BLOCKED;
    bg_spec spec = spec_of(kind);
    counting_start(&c);
    bg_filter *filter = must_create(&spec), *folded = filter;
    bg_errinfo why;
    bg_filter_add_u64(filter, 1);
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

/* ---- The system has none --------------------------------------------------------- */

static bool same_error(bg_err err, const bg_filter *filter, const bg_errinfo *why)
{
    return err == BG_ENOMEM && !filter && why->code == BG_ENOMEM && why->message[0];
}

/* In a process whose address space is limited; returns 0 when all is as it should. */
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
    bg_filter_add_u64(filter, 1);
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
    bg_filter_free(filter); /* and once it is free, there is room again */
    if (bg_filter_create(&spec, &second, &why) != BG_OK) {
        return 7;
    }
    bg_filter_free(second);
    return 0;
}

TEST(fault__system_has_no_memory)
{
    if (CHECK_SANITIZED || CHECK_EMULATED) {
        return; /* they need the address space for themselves */
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
