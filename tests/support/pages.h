/*
 * pages.h - kernel information about the pages of this process: their flags, and which of
 * them a core file would contain.
 *
 * These functions need VmFlags in /proc/self/smaps. In an emulator, this file describes the
 * emulator's own pages; in a sandbox, the flags might be missing. pages_are_told returns whether
 * the flags are available.
 */
#ifndef TESTS_PAGES_H
#define TESTS_PAGES_H

#include "support/check.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct pages_area {
    uint64_t from, to;
    char access[8]; /* "rw-p" */
    char flags[160];
};

/* "5581e000-55820000 rw-p 00000000 ...": the first line of an area. */
static inline bool pages_begin(const char *line, struct pages_area *area)
{
    char *end = NULL;
    uint64_t from = strtoull(line, &end, 16);
    if (end == line || *end != '-') {
        return false;
    }
    area->from = from;
    area->to = strtoull(end + 1, &end, 16);
    (void)snprintf(area->access, sizeof area->access, "%.4s", *end ? end + 1 : "");
    return *end == ' ';
}

/* Reads the next area from an open smaps file. Returns false at the end. */
static inline bool pages_next(FILE *smaps, struct pages_area *area)
{
    char line[512];
    bool begun = false;
    while (fgets(line, sizeof line, smaps)) {
        if (pages_begin(line, area)) {
            begun = true;
        } else if (begun && strncmp(line, "VmFlags:", 8) == 0) {
            (void)snprintf(area->flags, sizeof area->flags, "%.150s ", line + 8);
            area->flags[strcspn(area->flags, "\n")] = ' ';
            return true;
        }
    }
    return false;
}

static inline bool pages_are_told(void)
{
    struct pages_area area;
    FILE *smaps = CHECK_EMULATED ? NULL : fopen("/proc/self/smaps", "re");
    bool told = smaps && pages_next(smaps, &area);
    if (smaps) {
        (void)fclose(smaps);
    }
    return told;
}

/* Returns whether the page at an address has the given smaps flag: "dd" (excluded from core
 * files), "wf" (wiped on fork) or "lo" (locked). */
static inline bool pages_have(const void *address, const char *flag)
{
    struct pages_area area;
    char word[8];
    bool has = false, found = false;
    FILE *smaps = fopen("/proc/self/smaps", "re");
    CHECK(smaps);
    (void)snprintf(word, sizeof word, " %s ", flag);
    while (!found && pages_next(smaps, &area)) {
        found = area.from <= (uintptr_t)address && (uintptr_t)address < area.to;
        has = found && strstr(area.flags, word);
    }
    (void)fclose(smaps);
    CHECK(found);
    return has;
}

/* Returns how many times the bytes occur in one memory area. */
static inline unsigned pages_count(const unsigned char *in, size_t n,
                                   const uint8_t *bytes, size_t length)
{
    unsigned count = 0;
    const unsigned char *end = in + n;
    while ((in = memmem(in, (size_t)(end - in), bytes, length)) != NULL) {
        count++;
        in++;
    }
    return count;
}

/* Returns how many times the bytes occur in memory that a core file of this process would
 * contain, including unused heap and stack. The caller must keep its own copy of the bytes in
 * memory that is excluded from core files. */
static inline unsigned pages_dumped(const uint8_t *bytes, size_t length)
{
    enum { PIECE = 1 << 16, EDGE = 64 };
    static unsigned char piece[PIECE + EDGE];
    struct pages_area area;
    unsigned count = 0;
    FILE *smaps = fopen("/proc/self/smaps", "re");
    int memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
    CHECK(smaps && memory >= 0);
    while (pages_next(smaps, &area)) {
        if (area.access[1] != 'w' || strstr(area.flags, " dd ")) {
            continue;
        }
        for (uint64_t at = area.from; at < area.to; at += PIECE) {
            size_t n =
                area.to - at < sizeof piece ? (size_t)(area.to - at) : sizeof piece;
            bool own =
                at < (uintptr_t)piece + sizeof piece && at + n > (uintptr_t)piece;
            ssize_t got = own ? 0 : pread(memory, piece, n, (off_t)at);
            count += got > 0 ? pages_count(piece, (size_t)got, bytes, length) : 0;
        }
    }
    (void)close(memory);
    (void)fclose(smaps);
    return count;
}

#endif
