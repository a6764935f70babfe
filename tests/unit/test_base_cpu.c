/*
 * Tests how the library selects the instruction set. The environment is read when the library is
 * first used, so each value of BLOOMGATE_CPU is tested in a child process that has not used the
 * library yet. These tests must come first in the file.
 */
#define _POSIX_C_SOURCE 200809L /* setenv, fork */

#include "support/check.h"
#include "support/filters.h"

#include "base/features.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* Runs `ask` in a child process with BLOOMGATE_CPU=name, or without the variable if name is NULL,
 * and returns the result. */
static int in_child(const char *name, int (*ask)(void))
{
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        if (name) {
            (void)setenv("BLOOMGATE_CPU", name, 1); /* NOLINT(concurrency-mt-unsafe) */
        } else {
            (void)unsetenv("BLOOMGATE_CPU"); /* NOLINT(concurrency-mt-unsafe) */
        }
        _exit(ask());
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int ask_current(void)
{
    return (int)bg_cpu_current();
}

/* Returns a bit mask of the instruction sets that this machine supports. */
static int ask_available(void)
{
    int have = 0;
    for (int cpu = 0; cpu < 8; cpu++) {
        have |= (bg_cpu_available((bg_cpu)cpu) != 0) << cpu;
    }
    return have;
}

static int ask_features(void)
{
    return bgi_features() != 0;
}

static int ask_filter(void)
{
    bg_spec spec = BG_SPEC_INIT;
    bg_filter *filter;
    bg_filter_info info = { .struct_size = sizeof info };
    spec.items = 1000;
    spec.rate = 0.01;
    if (bg_filter_create(&spec, &filter, NULL) || bg_filter_get_info(filter, &info)) {
        return 99;
    }
    bg_filter_free(filter);
    return (int)info.cpu;
}

static bool has(int available, bg_cpu cpu)
{
    return available >> cpu & 1;
}

static bg_cpu best_of(int available)
{
    return has(available, BG_CPU_NEON)     ? BG_CPU_NEON
           : has(available, BG_CPU_AVX512) ? BG_CPU_AVX512
           : has(available, BG_CPU_AVX2)   ? BG_CPU_AVX2
                                           : BG_CPU_SCALAR;
}

TEST(cpu__environment_unset_or_unknown_takes_the_best)
{
    static const char *const names[] = { NULL,    "",        "AVX2", "avx",
                                         "avx2 ", "avx5120", "best", "scalar,avx2" };
    int available = in_child(NULL, ask_available);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        CHECK_EQ(in_child(names[i], ask_current), best_of(available));
    }
}

TEST(cpu__environment_names_a_set)
{
    int available = in_child(NULL, ask_available);
    bg_cpu avx2 = has(available, BG_CPU_AVX2) ? BG_CPU_AVX2 : BG_CPU_SCALAR;
    bg_cpu avx512 = has(available, BG_CPU_AVX512) ? BG_CPU_AVX512 : avx2;
    bg_cpu neon = has(available, BG_CPU_NEON) ? BG_CPU_NEON : BG_CPU_SCALAR;
    CHECK_EQ(in_child("scalar", ask_current), BG_CPU_SCALAR);
    CHECK_EQ(in_child("avx2", ask_current), avx2);
    CHECK_EQ(in_child("avx512", ask_current), avx512);
    CHECK_EQ(in_child("neon", ask_current), neon);
    CHECK_EQ(in_child("scalar", ask_filter), BG_CPU_SCALAR);
    CHECK_EQ(in_child("avx2", ask_filter), avx2);
}

TEST(cpu__environment_does_not_change_what_there_is)
{
    int available = in_child(NULL, ask_available);
    CHECK(has(available, BG_CPU_SCALAR));
    CHECK_EQ(in_child("scalar", ask_available), available);
    CHECK_EQ(in_child("avx2", ask_available), available);
    CHECK_EQ(available & 0xf0, 0); /* no unknown ones */
}

TEST(cpu__scalar_leaves_no_features)
{
    CHECK_EQ(in_child("scalar", ask_features), 0);
    if (best_of(in_child(NULL, ask_available)) != BG_CPU_SCALAR) {
        CHECK_EQ(in_child(NULL, ask_features), 1);
    }
}

/* ---- From here on, the test process itself uses the library --------------------------------- */

TEST(cpu__names)
{
#define SAME(NAME, number, text)                                                       \
    CHECK_EQ(BG_CPU_##NAME, number);                                                   \
    CHECK_STR(bg_cpu_name(BG_CPU_##NAME), text);
    BG_CPUS(SAME)
#undef SAME
    CHECK_STR(bg_cpu_name((bg_cpu)4), "unknown");
    CHECK_STR(bg_cpu_name((bg_cpu)1000), "unknown");
}

TEST(cpu__select_takes_what_is_there_and_refuses_the_rest)
{
    bg_cpu before = bg_cpu_current();
    for (int cpu = 0; cpu < 4; cpu++) {
        bg_cpu last = bg_cpu_current();
        if (bg_cpu_available((bg_cpu)cpu)) {
            CHECK_OK(bg_cpu_select((bg_cpu)cpu));
            CHECK_EQ(bg_cpu_current(), cpu);
        } else {
            CHECK_EQ(bg_cpu_select((bg_cpu)cpu), BG_ENOTSUP);
            CHECK_EQ(bg_cpu_current(), last);
        }
    }
    CHECK_OK(bg_cpu_select(BG_CPU_SCALAR));
    CHECK_EQ(bgi_features(), 0);
    CHECK_EQ(bg_cpu_select((bg_cpu)4), BG_EINVAL);
    CHECK_EQ(bg_cpu_select((bg_cpu)77), BG_EINVAL);
    CHECK_EQ(bg_cpu_current(), BG_CPU_SCALAR);
    CHECK_EQ(bg_cpu_available((bg_cpu)4), 0);
    CHECK_EQ(bg_cpu_available((bg_cpu)77), 0);
    CHECK_OK(bg_cpu_select(before));
}

TEST(cpu__a_filter_keeps_its_set)
{
    bg_cpu before = bg_cpu_current();
    bg_filter *first = make_filter(BG_KIND_BLOCKED, 4096, 0);
    CHECK_OK(bg_cpu_select(BG_CPU_SCALAR));
    bg_filter *second = make_filter(BG_KIND_BLOCKED, 4096, 0);
    CHECK_OK(bg_cpu_select(before));
    CHECK_EQ(info_of(first).cpu, before);
    CHECK_EQ(info_of(second).cpu, BG_CPU_SCALAR);
    bg_filter_free(first);
    bg_filter_free(second);
}

TEST(cpu__caches_grow_with_their_level)
{
    size_t last = 0;
    for (int level = 1; level <= 3; level++) {
        size_t bytes = bg_cpu_cache_bytes(level);
        CHECK(bytes == 0 || bytes >= last);
        last = bytes ? bytes : last;
    }
    CHECK_EQ(bg_cpu_cache_bytes(0), 0);
    CHECK_EQ(bg_cpu_cache_bytes(4), 0);
    CHECK_EQ(bg_cpu_cache_bytes(-1), 0);
}
