/*
 * machine_facts.c - reads the properties of the machine: caches, memory and CPUs (machine.h).
 *
 * This is the only place in the library that reads them, so that a description can replace them
 * everywhere: BLOOMGATE_MACHINE for a process, bg_plan_request.machine for a plan.
 *
 * (M1) BLOOMGATE_MACHINE never changes the bits or answers of a filter. It affects plans,
 *      prefetching, and the number of striped counters (stripe.h). Numbers of threads come from
 *      bg_machine_detect, because the order of adds determines the contents of some filters.
 * (M2) BLOOMGATE_MACHINE cannot cause large allocations: every value has a maximum, there are at
 *      most 64 stripes, and memory limits come from bg_machine_detect.
 * (M3) A description with any invalid part is ignored entirely. The library reports an invalid
 *      description only to callers of bg_machine_read.
 *
 * Sizes of caches come from the kernel's files, because in virtual machines the C library reports
 * a multiple of the actual size.
 */
#define _GNU_SOURCE /* sched_getaffinity, O_CLOEXEC */

#include "bloomgate/machine.h"

#include "base/errinfo.h"
#include "base/machine_facts.h"

#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MACHINE_CPUS_MAX = 65536, MACHINE_TEXT = 32 };

/* ---- Parsing -------------------------------------------------------------------------------- */

/* Parses decimal digits at `*text` and moves it past them. Returns false if there are none, or if
 * the number exceeds 64 bits. */
static bool machine_digits(const char **text, uint64_t *value)
{
    const char *at = *text;
    uint64_t sum = 0;
    for (; *at >= '0' && *at <= '9'; at++) {
        const uint64_t digit = (uint64_t)(*at - '0');
        if (sum > (UINT64_MAX - digit) / 10) {
            return false;
        }
        sum = sum * 10 + digit;
    }
    const bool some = at != *text;
    *text = at;
    *value = sum;
    return some;
}

/* Parses an optional unit at `*text`, and multiplies `*value` by it. Returns false if the product
 * exceeds 64 bits. */
static bool machine_unit(const char **text, uint64_t *value)
{
    static const char letters[] = "kMGTP";
    const char *at = **text ? strchr(letters, **text == 'K' ? 'k' : **text) : NULL;
    if (at) {
        const bool binary = (*text)[1] == 'i';
        *text += binary ? 2 : 1;
        for (long i = 0; i <= at - letters; i++) {
            if (__builtin_mul_overflow(*value, UINT64_C(1000) + (binary ? 24 : 0),
                                       value)) {
                return false;
            }
        }
    }
    *text += **text == 'B';
    return true;
}

/* Parses a number that is all of `text[0 .. len)`. */
static bool machine_number(const char *text, size_t len, bool units, uint64_t *value)
{
    const char *end = text;
    return machine_digits(&end, value) && (!units || machine_unit(&end, value))
           && end == text + len;
}

static const struct machine_part {
    const char *name;
    const char *expected;
    uint64_t min, max;
    bool units;
} machine_parts[] = {
    { "l1", "l1=SIZE, a whole number of bytes up to 64Gi, such as l1=48Ki", 0,
      UINT64_C(1) << 36, true },
    { "l2", "l2=SIZE, a whole number of bytes up to 64Gi, such as l2=1Mi", 0,
      UINT64_C(1) << 36, true },
    { "l3", "l3=SIZE, a whole number of bytes up to 64Gi, such as l3=32Mi", 0,
      UINT64_C(1) << 36, true },
    { "memory",
      "memory=SIZE, a whole number of bytes from 1 to 64Pi, such as memory=16Gi", 1,
      UINT64_C(1) << 56, true },
    { "cpus", "cpus=N, a whole number from 1 to 65536, such as cpus=8", 1,
      MACHINE_CPUS_MAX, false },
};

enum { MACHINE_PARTS = sizeof machine_parts / sizeof *machine_parts };

static void machine_set(bg_machine *machine, size_t part, uint64_t value)
{
    if (part < 3) {
        machine->cache_bytes[part] = value;
    } else if (part == 3) {
        machine->memory_bytes = value;
    } else {
        machine->cpus = (uint32_t)value;
    }
}

/* Returns the index of the part with this name, or MACHINE_PARTS. */
static size_t machine_find(const char *name, size_t len)
{
    size_t i = 0;
    while (i < MACHINE_PARTS
           && (strlen(machine_parts[i].name) != len
               || memcmp(machine_parts[i].name, name, len) != 0)) {
        i++;
    }
    return i;
}

/* A description while it is parsed: its origin, the values so far, and a bit for each part that
 * occurred. */
struct machine_draft {
    const char *what;
    bg_errinfo *info;
    bg_machine values;
    unsigned seen;
};

/* Returns how many of a part's bytes an error shows. */
static int machine_shown(size_t len)
{
    return len < 60 ? (int)len : 60;
}

static bg_err machine_wrong(const struct machine_draft *draft, const char *expected,
                            const char *text, size_t len)
{
    return bgi_err(draft->info, BG_EINVAL, draft->what, expected, "'%.*s'",
                   machine_shown(len), text);
}

static bg_err machine_trailing_comma(const struct machine_draft *draft,
                                     const char *part, size_t len)
{
    return bgi_err(draft->info, BG_EINVAL, draft->what, "another part",
                   "a trailing comma after '%.*s'", machine_shown(len), part);
}

/* Applies the part in `text[0 .. len)`. */
static bg_err machine_apply(struct machine_draft *draft, const char *text, size_t len)
{
    const char *equals = memchr(text, '=', len);
    const size_t name = equals ? (size_t)(equals - text) : len;
    const size_t i = machine_find(text, name);
    uint64_t value;
    if (i == MACHINE_PARTS || !equals) {
        return machine_wrong(draft,
                             "l1=SIZE, l2=SIZE, l3=SIZE, memory=SIZE and cpus=N, "
                             "separated by commas, such as "
                             "l2=1Mi,l3=32Mi,memory=16Gi,cpus=8",
                             text, len);
    }
    const struct machine_part *part = &machine_parts[i];
    if (!machine_number(equals + 1, len - name - 1, part->units, &value)
        || value < part->min || value > part->max) {
        return machine_wrong(draft, part->expected, text, len);
    }
    if (draft->seen >> i & 1) {
        return machine_wrong(draft, "each part at most once", text, len);
    }
    draft->seen |= 1u << i;
    machine_set(&draft->values, i, value);
    return BG_OK;
}

/* Replaces the values in `machine` that `text` describes; none if `text` is invalid. `what` is the
 * origin of the text, for errors. */
static bg_err machine_describe(const char *what, const char *text, bg_machine *machine,
                               bg_errinfo *info)
{
    struct machine_draft draft = { .what = what, .info = info, .values = *machine };
    while (*text) {
        const size_t len = strcspn(text, ",");
        bg_err err = machine_apply(&draft, text, len);
        if (!err && text[len] && !text[len + 1]) {
            err = machine_trailing_comma(&draft, text, len);
        }
        if (err) {
            return err;
        }
        text += len + (text[len] != 0);
    }
    *machine = draft.values;
    return BG_OK;
}

/* ---- Detection ------------------------------------------------------------------------------ */

/* Reads the start of a file, without a newline at its end. The result is an empty string if the
 * file cannot be read. */
static void machine_file(const char *path, char text[MACHINE_TEXT])
{
    text[0] = '\0';
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file >= 0) {
        const ssize_t got = read(file, text, MACHINE_TEXT - 1);
        text[got > 0 ? got : 0] = '\0';
        text[strcspn(text, "\n")] = '\0';
        (void)close(file);
    }
}

/* Reads one of the files in which the kernel describes cache `index` of the first CPU. */
static void machine_cache_file(int index, const char *what, char text[MACHINE_TEXT])
{
    char path[96];
    (void)snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/%s",
                   index, what);
    machine_file(path, text);
}

/* Parses a size as the kernel writes it, such as "48K". Returns the number of KiB, or 0 if the size
 * is invalid. */
static uint32_t machine_kib(const char *text)
{
    uint64_t value;
    if (!machine_digits(&text, &value) || value > machine_parts[0].max) {
        return 0;
    }
    value = *text == 'K' ? value : *text == 'M' ? value << 10 : value >> 10;
    return value <= machine_parts[0].max >> 10 ? (uint32_t)value : 0;
}

/* Reads the sizes of the data caches from the kernel's files. */
static void machine_read_caches(uint32_t kib[3])
{
    enum { CACHES = 8 };
    for (int index = 0; index < CACHES; index++) {
        char level[MACHINE_TEXT], type[MACHINE_TEXT], size[MACHINE_TEXT];
        machine_cache_file(index, "level", level);
        if (level[0] < '1' || level[0] > '3' || level[1]) {
            continue;
        }
        machine_cache_file(index, "type", type);
        machine_cache_file(index, "size", size);
        uint32_t *to = &kib[level[0] - '1'];
        if (type[0] != 'I' && *to == 0) { /* not an instruction cache */
            *to = machine_kib(size);
        }
    }
}

/* Reads the files only once, because a request can compute thousands of plans. If two threads read
 * them at the same time, both store the same values. */
static void machine_find_caches(bg_machine *machine)
{
    static uint32_t known, known_kib[3];
    if (!__atomic_load_n(&known, __ATOMIC_ACQUIRE)) {
        uint32_t kib[3] = { 0, 0, 0 };
        machine_read_caches(kib);
        for (int i = 0; i < 3; i++) {
            __atomic_store_n(&known_kib[i], kib[i], __ATOMIC_RELAXED);
        }
        __atomic_store_n(&known, 1, __ATOMIC_RELEASE);
    }
    for (int i = 0; i < 3; i++) {
        machine->cache_bytes[i] =
            (uint64_t)__atomic_load_n(&known_kib[i], __ATOMIC_RELAXED) << 10;
    }
}

static void machine_find_memory(bg_machine *machine)
{
    char text[MACHINE_TEXT];
    uint64_t limit;
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    if (pages > 0 && page > 0) {
        machine->memory_bytes = (uint64_t)pages * (uint64_t)page;
    }
    machine_file("/sys/fs/cgroup/memory.max", text); /* a number, or "max" */
    if (machine_number(text, strlen(text), false, &limit)
        && limit < machine->memory_bytes) {
        machine->memory_bytes = limit;
    }
}

static void machine_find_cpus(bg_machine *machine)
{
    cpu_set_t set;
    long n = sched_getaffinity(0, sizeof set, &set) == 0
                 ? CPU_COUNT(&set)
                 : sysconf(_SC_NPROCESSORS_ONLN); /* more CPUs than the set can hold */
    n = n < MACHINE_CPUS_MAX ? n : MACHINE_CPUS_MAX;
    machine->cpus = n > 0 ? (uint32_t)n : 1;
}

/* ---- Interface ------------------------------------------------------------------------------ */

/* Replaces the values in `machine` that the environment describes. */
static bg_err machine_describe_process(bg_machine *machine, bg_errinfo *info)
{
    static const char name[] = "BLOOMGATE_MACHINE";
    const char *text = getenv(name); /* NOLINT(concurrency-mt-unsafe) */
    return text ? machine_describe(name, text, machine, info) : BG_OK;
}

void bg_machine_detect(bg_machine *machine)
{
    memset(machine, 0, sizeof *machine);
    machine_find_caches(machine);
    machine_find_memory(machine);
    machine_find_cpus(machine);
}

bg_err bg_machine_read(const char *text, bg_machine *machine, bg_errinfo *info)
{
    bgi_err_clear(info);
    if (!machine) {
        return bgi_err(info, BG_EINVAL, "machine",
                       "a pointer to receive the properties", "NULL");
    }
    bg_machine_detect(machine);
    const bg_err process = machine_describe_process(machine, info);
    const bg_err err =
        text ? machine_describe("machine", text, machine, process ? NULL : info)
             : BG_OK;
    return process ? process : err;
}

uint32_t bgi_machine_cpu_numbers(void)
{
    bg_machine described = { .cpus = 0 };
    (void)machine_describe_process(&described, NULL);
    if (described.cpus) {
        return described.cpus;
    }
    const long configured = sysconf(_SC_NPROCESSORS_CONF);
    return configured < 1                  ? 1
           : configured < MACHINE_CPUS_MAX ? (uint32_t)configured
                                           : MACHINE_CPUS_MAX;
}
