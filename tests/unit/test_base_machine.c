/*
 * Tests machine descriptions: the parser, the environment variable BLOOMGATE_MACHINE, and the
 * effect on plans.
 */
#define _POSIX_C_SOURCE 200809L /* setenv */

#include "support/check.h"
#include "support/filters.h"

#include "base/features.h"
#include "base/machine_facts.h"
#include "base/stripe.h"
#include "filter/handle.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void describe(const char *text)
{
    CHECK_EQ(setenv("BLOOMGATE_MACHINE", text, 1),
             0); /* NOLINT(concurrency-mt-unsafe) */
}

static void describe_nothing(void)
{
    CHECK_EQ(unsetenv("BLOOMGATE_MACHINE"), 0); /* NOLINT(concurrency-mt-unsafe) */
}

static bg_machine detected(void)
{
    bg_machine machine;
    bg_machine_detect(&machine);
    return machine;
}

static bg_machine machine_of(const char *text)
{
    bg_machine machine;
    CHECK_OK(bg_machine_read(text, &machine, NULL));
    return machine;
}

/* Checks that both machines have the same values. Available memory and CPUs can change during the
 * test, so they are compared only if `all` is set. */
static void same_machine(const bg_machine *a, const bg_machine *b, bool all)
{
    CHECK_EQ(memcmp(a->cache_bytes, b->cache_bytes, sizeof a->cache_bytes), 0);
    CHECK(!all || (a->memory_bytes == b->memory_bytes && a->cpus == b->cpus));
}

/* Returns a sum of the words of a filter that is created and filled in a process with this
 * description, or 0 if the library exceeds its limits. Each description needs a process, because
 * the library reads the environment only once. */
static uint64_t words_with(const char *text)
{
    uint64_t sum = 1;
    describe(text);
    if (bgi_stripes() < 1 || bgi_stripes() > 64 || bgi_second_level_bytes() == 0) {
        return 0;
    }
    bg_filter *filter = make_filter(BG_KIND_BLOCKED, 1 << 20, 0);
    for (uint64_t key = 0; key < 10000; key++) {
        (void)added_hash(filter, key * UINT64_C(0x9e3779b97f4a7c15));
    }
    for (size_t i = 0; i < bg_filter_size_bytes(filter) / 8; i++) {
        sum = (sum ^ filter->core.words[i]) * UINT64_C(0x9e3779b97f4a7c15);
    }
    bg_filter_free(filter);
    return sum;
}

/* Must be the first test, so that the child processes start without a detected machine. */
TEST(machine__descriptions_change_no_bits)
{
    static const char *const texts[] = {
        "",
        "l1=0,l2=0,l3=0,memory=1,cpus=1",
        "l1=1,l2=1,l3=1",
        "l1=64Gi,l2=64Gi,l3=64Gi,memory=64Pi,cpus=65536",
        "l2=2Mi,l3=260Mi",
        "nonsense",
    };
    uint64_t first = 0;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        int ends[2], status = 0;
        uint64_t sum = 0;
        CHECK_EQ(pipe(ends), 0);
        const pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            sum = words_with(texts[i]);
            _exit(write(ends[1], &sum, sizeof sum) != sizeof sum);
        }
        CHECK(waitpid(child, &status, 0) == child);
        CHECK_EQ(status, 0);
        CHECK(read(ends[0], &sum, sizeof sum) == sizeof sum);
        (void)close(ends[0]);
        (void)close(ends[1]);
        first = i ? first : sum;
        CHECK(sum != 0);
        CHECK_EQ(sum, first);
    }
}

TEST(machine__detected_values_are_plausible)
{
    const bg_machine machine = detected();
    CHECK(machine.cpus >= 1 && machine.cpus <= 65536);
    CHECK(machine.memory_bytes == 0 || machine.memory_bytes >= 1 << 20);
    CHECK(bgi_machine_cpu_numbers() >= 1);
}

TEST(machine__description_replaces_listed_parts)
{
    const bg_machine found = machine_of(NULL); /* BLOOMGATE_MACHINE may be set */
    const bg_machine all = machine_of("l1=48Ki,l2=2Mi,l3=260Mi,memory=1536Gi,cpus=192");
    CHECK_EQ(all.cache_bytes[0], 48 << 10);
    CHECK_EQ(all.cache_bytes[1], 2 << 20);
    CHECK_EQ(all.cache_bytes[2], 260 << 20);
    CHECK_EQ(all.memory_bytes, UINT64_C(1536) << 30);
    CHECK_EQ(all.cpus, 192);
    const bg_machine one = machine_of("l2=123");
    CHECK_EQ(one.cache_bytes[1], 123);
    CHECK_EQ(one.cache_bytes[0], found.cache_bytes[0]);
    CHECK_EQ(one.cache_bytes[2], found.cache_bytes[2]);
}

TEST(machine__sizes_have_units)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } cases[] = {
        { "memory=1", 1 },
        { "memory=1B", 1 },
        { "memory=3k", 3000 },
        { "memory=3K", 3000 },
        { "memory=3Ki", 3072 },
        { "memory=3KiB", 3072 },
        { "memory=5MB", 5000000 },
        { "memory=5Mi", 5 << 20 },
        { "memory=7G", UINT64_C(7000000000) },
        { "memory=7Gi", UINT64_C(7) << 30 },
        { "memory=2T", UINT64_C(2000000000000) },
        { "memory=2Ti", UINT64_C(2) << 40 },
        { "memory=1P", UINT64_C(1000000000000000) },
        { "memory=64Pi", UINT64_C(1) << 56 },
        { "memory=00012", 12 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK_EQ(machine_of(cases[i].text).memory_bytes, cases[i].bytes);
    }
    CHECK_EQ(machine_of("l3=0").cache_bytes[2], 0);
    CHECK_EQ(machine_of("l1=64Gi").cache_bytes[0], UINT64_C(1) << 36);
    CHECK_EQ(machine_of("cpus=65536").cpus, 65536);
}

TEST(machine__invalid_descriptions_are_refused)
{
    static const char *const texts[] = {
        ",",
        "=",
        "l1",
        "l1=",
        "l1=-1",
        "l1=+1",
        "l1= 1",
        " l1=1",
        "l1 =1",
        "l1=1 ",
        "l1=1.5Mi",
        "l1=1e3",
        "l1=0x10",
        "l1=1Xi",
        "l1=1Kib",
        "l1=1i",
        "l1=Ki",
        "l1=65Gi",
        "l1=18446744073709551616",
        "l1=99999999999999999999999",
        "l1=18446744073709551615Pi",
        "l0=1",
        "l4=1",
        "L1=1",
        "l11=1",
        "memory=0",
        "memory=65Pi",
        "cpus=0",
        "cpus=65537",
        "cpus=1k",
        "cpus=8B",
        "l1=1,,l2=2",
        ",l1=1",
        "l1=1,",
        "l1=1,l1=1",
        "l1=1;l2=2",
        "48K,2M,260M",
        "l1=1=2",
        "l2=1Mi,l3=32Mi,memory=16Gi,cpus=8,disk=3",
    };
    describe_nothing();
    const bg_machine found = detected();
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        bg_machine machine;
        bg_errinfo info;
        CHECK_EQ(bg_machine_read(texts[i], &machine, &info), BG_EINVAL);
        CHECK_STR(info.what, "machine");
        CHECK(info.found[0] && info.expected[0] && info.message[0]);
        same_machine(&machine, &found, false);
    }
    CHECK_EQ(bg_machine_read("", NULL, NULL), BG_EINVAL);
}

TEST(machine__long_descriptions_are_refused)
{
    enum { LONG = 100000 };
    static char text[LONG + 1];
    static const char fills[] = "l,=9\xff";
    bg_machine machine;
    bg_errinfo info;
    for (const char *fill = fills; *fill; fill++) {
        memset(text, *fill, LONG);
        CHECK_EQ(bg_machine_read(text, &machine, &info), BG_EINVAL);
        for (size_t i = 0; i < 4; i++) {
            text[i] = "l1=1"[i];
        }
        CHECK_EQ(bg_machine_read(text, &machine, &info), BG_EINVAL);
    }
}

TEST(machine__random_texts_do_no_harm)
{
    static const char letters[] = "l123=,KMGTPkiBmemorycpus09 \xfe";
    for (int round = 0; round < 5000; round++) {
        char text[40];
        bg_machine machine;
        bg_errinfo info;
        const size_t len = (size_t)(check_random() % sizeof text);
        for (size_t i = 0; i < len; i++) {
            text[i] = letters[check_random() % (sizeof letters - 1)];
        }
        text[len < sizeof text ? len : sizeof text - 1] = '\0';
        const bg_err err = bg_machine_read(text, &machine, &info);
        CHECK(err == BG_OK || (err == BG_EINVAL && info.message[0]));
        CHECK(machine.cpus >= 1 && machine.cpus <= 65536);
        CHECK(machine.memory_bytes <= UINT64_C(1) << 56);
    }
}

TEST(machine__environment_describes_the_machine)
{
    bg_machine machine;
    bg_errinfo info;
    const bg_machine found = detected();
    describe("l1=48Ki,l2=2Mi,l3=260Mi,cpus=3");
    CHECK_EQ(bg_cpu_cache_bytes(1), 48 << 10);
    CHECK_EQ(bg_cpu_cache_bytes(2), 2 << 20);
    CHECK_EQ(bg_cpu_cache_bytes(3), 260 << 20);
    CHECK_EQ(bg_cpu_cache_bytes(4), 0);
    CHECK_EQ(machine_of(NULL).cpus, 3);
    CHECK_EQ(bgi_machine_cpu_numbers(), 3);
    machine = machine_of("cpus=5,l2=1Mi"); /* takes precedence over the variable */
    CHECK_EQ(machine.cpus, 5);
    CHECK_EQ(machine.cache_bytes[0], 48 << 10);
    CHECK_EQ(machine.cache_bytes[1], 1 << 20);
    machine = detected();
    same_machine(&machine, &found, true);
    describe("l1=48Ki,l2=many"); /* ignored as a whole */
    CHECK_EQ(bg_machine_read(NULL, &machine, &info), BG_EINVAL);
    CHECK_STR(info.what, "BLOOMGATE_MACHINE");
    same_machine(&machine, &found, true);
    CHECK_EQ(bg_machine_read("cpus=7", &machine, &info), BG_EINVAL);
    CHECK_STR(info.what, "BLOOMGATE_MACHINE");
    CHECK_EQ(machine.cpus, 7);
    CHECK_EQ(bg_cpu_cache_bytes(1), found.cache_bytes[0]);
    describe("");
    machine = machine_of(NULL);
    same_machine(&machine, &found, true);
    describe_nothing();
    machine = machine_of(NULL);
    same_machine(&machine, &found, true);
}

TEST(machine__plans_are_for_the_machine_of_the_request)
{
    bg_plan_request request = BG_PLAN_REQUEST_INIT;
    bg_plan plan;
    request.spec.kind = BG_KIND_BLOCKED;
    request.spec.items = 1000;
    request.spec.bytes = 1 << 20;
    static const struct {
        const char *text;
        uint32_t level;
    } cases[] = {
        { "l1=1Mi,l2=1Mi,l3=1Mi", 1 }, { "l1=1023Ki,l2=1Mi,l3=1Mi", 2 },
        { "l1=0,l2=0,l3=1Mi", 3 },     { "l1=0,l2=0,l3=0", 4 },
        { "l1=0,l2=64Gi,l3=0", 2 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const bg_machine machine = machine_of(cases[i].text);
        request.machine = &machine;
        describe("l1=0,l2=0,l3=0");
        CHECK_OK(bg_plan_compute(&request, &plan, NULL));
        CHECK_EQ(plan.bytes, 1 << 20);
        CHECK_EQ(plan.cache_level, cases[i].level);
        request.machine = NULL;
        describe(cases[i].text);
        CHECK_OK(bg_plan_compute(&request, &plan, NULL));
        CHECK_EQ(plan.cache_level, cases[i].level);
        describe_nothing();
    }
}
