/*
 * machine.c - describes the machine from /proc and /sys, and pins threads.
 */
#define _GNU_SOURCE /* sched_setaffinity, CPU_SET */

#include "machine.h"

#include "output.h"

#include "bloomgate/all.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#ifndef BGB_FLAGS
#define BGB_FLAGS "unknown"
#endif

#if defined(__clang__)
#define MACHINE_COMPILER "clang " __clang_version__
#else
#define MACHINE_COMPILER "gcc " __VERSION__
#endif

/* The cores that were allowed at startup, before any pinning. */
static cpu_set_t machine_allowed;
static unsigned machine_count;

static void machine_learn(void)
{
    if (machine_count) {
        return;
    }
    CPU_ZERO(&machine_allowed);
    if (sched_getaffinity(0, sizeof machine_allowed, &machine_allowed) != 0) {
        CPU_SET(0, &machine_allowed);
    }
    machine_count = (unsigned)CPU_COUNT(&machine_allowed);
}

unsigned bgb_machine_cores(void)
{
    machine_learn();
    return machine_count;
}

unsigned bgb_machine_core(unsigned i)
{
    machine_learn();
    unsigned wanted = i % machine_count;
    for (unsigned core = 0; core < CPU_SETSIZE; core++) {
        if (CPU_ISSET(core, &machine_allowed) && wanted-- == 0) {
            return core;
        }
    }
    return 0;
}

void bgb_machine_pin(unsigned core)
{
    static int told;
    machine_learn();
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0 && !told) {
        told = 1;
        (void)fprintf(stderr, "bgbench: cannot pin to core %u; continuing unpinned\n",
                      core);
    }
}

void bgb_machine_unpin(void)
{
    machine_learn();
    (void)sched_setaffinity(0, sizeof machine_allowed, &machine_allowed);
}

/* Reads the first line of a file, without its newline. The result is "unknown" if the file is empty
 * or cannot be opened. */
static void machine_line(const char *path, char *line, size_t room)
{
    (void)snprintf(line, room, "unknown");
    FILE *file = fopen(path, "r");
    if (!file) {
        return;
    }
    if (fgets(line, (int)room, file)) {
        line[strcspn(line, "\n")] = '\0';
    }
    (void)fclose(file);
}

static void machine_model(char *model, size_t room)
{
    (void)snprintf(model, room, "unknown");
    FILE *file = fopen("/proc/cpuinfo", "r");
    if (!file) {
        return;
    }
    char line[256];
    while (fgets(line, sizeof line, file)) {
        char *colon = strchr(line, ':');
        if (colon && strncmp(line, "model name", 10) == 0) {
            line[strcspn(line, "\n")] = '\0';
            (void)snprintf(model, room, "%s", colon + 2);
            break;
        }
    }
    (void)fclose(file);
}

/* Gets the kernel's setting for large pages. For example, gets "madvise" from
 * "always [madvise] never". */
static void machine_pages(char *mode, size_t room)
{
    char line[128];
    machine_line("/sys/kernel/mm/transparent_hugepage/enabled", line, sizeof line);
    char *open = strchr(line, '['), *close = strchr(line, ']');
    if (open && close && close > open) {
        *close = '\0';
        (void)snprintf(mode, room, "%s", open + 1);
    } else {
        (void)snprintf(mode, room, "%s", line);
    }
}

/* Describes the data caches of this machine: "L1 32K, L2 512K, L3 32768K". */
static void machine_caches(char *text, size_t room)
{
    bg_machine machine;
    size_t used = 0;
    bg_machine_detect(&machine);
    (void)snprintf(text, room, "unknown");
    for (int i = 0; i < 3 && used < room; i++) {
        if (machine.cache_bytes[i]) {
            int n = snprintf(text + used, room - used, "%sL%d %lluK", used ? ", " : "",
                             i + 1, (unsigned long long)machine.cache_bytes[i] >> 10);
            used += n > 0 ? (size_t)n : 0;
        }
    }
}

static void machine_fact(const char *key, const char *value)
{
    if (bgb_out_is_json()) {
        bgb_cell_text(key, "", 0, value);
    } else {
        (void)printf("%-14s%s\n", key, value);
    }
}

void bgb_machine_print(void)
{
    char text[512], governor[64];
    struct utsname system;
    if (bgb_out_is_json()) {
        bgb_table("machine", " ");
        bgb_row_begin();
    }
    machine_model(text, sizeof text);
    machine_fact("cpu", text);
    (void)snprintf(text, sizeof text, "%u", bgb_machine_cores());
    machine_fact("cores", text);
    machine_caches(text, sizeof text);
    machine_fact("caches", text);
    machine_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", governor,
                 sizeof governor);
    machine_fact("governor", governor);
    machine_pages(text, sizeof text);
    machine_fact("large_pages", text);
    if (uname(&system) == 0) {
        (void)snprintf(text, sizeof text, "%s %s %s", system.sysname, system.release,
                       system.machine);
        machine_fact("system", text);
    }
    machine_line("/proc/loadavg", text, sizeof text);
    machine_fact("load", text);
    machine_fact("compiler", MACHINE_COMPILER);
    machine_fact("flags", BGB_FLAGS);
    machine_fact("library", bg_version());
    machine_fact("instructions", bg_cpu_name(bg_cpu_current()));
    if (bgb_out_is_json()) {
        bgb_row_end();
    }
}

/* bgbench itself causes a load of about 1, so only a higher load is reported. */
void bgb_machine_warn(void)
{
    double load = 0;
    if (getloadavg(&load, 1) == 1 && load > 1.5) {
        bgb_note(
            "\nThe load average of the last minute was %.1f: other programs were running.\n"
            "Trust ratios within a table more than times, and measure again on an idle "
            "machine.",
            load);
    }
}
