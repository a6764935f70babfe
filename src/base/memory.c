#define _GNU_SOURCE /* madvise, mlock, MAP_ANONYMOUS, memfd_create */

#include "base/memory.h"

#include "base/checked.h"
#include "base/compiler.h"
#include "base/pool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    LINE_BYTES = 64,
    PAGE_BYTES = 4096,
    MAP_FROM = 128 << 10, /* smaller blocks are allocated from the C library's heap */
    HUGE_BYTES = 2 << 20, /* a large page on x86-64, and on arm64 with 4 KiB pages */
    HUGE_FROM = 1 << 20   /* minimum block size for large pages: half a large page */
};

static const bg_memory_guard *memory_guard;

void bg_memory_set_guard(const bg_memory_guard *guard)
{
    memory_guard = guard;
}

static bool memory_is_mapped(size_t bytes, bool hidden)
{
    return hidden || bytes >= MAP_FROM;
}

/* Returns whether hidden memory of this size comes from the pool. Always false with the address
 * sanitizer, which could not detect overruns from one piece of the pool into the next. */
static bool memory_is_pooled(size_t bytes)
{
    return !BGI_ASAN && bytes <= BGI_POOL_MAX;
}

/* Returns the size of a mapping in bytes. Mappings of at least HUGE_FROM bytes consist of whole
 * large pages, so that their ends are aligned, too. */
static size_t memory_map_bytes(size_t bytes)
{
    const size_t page = bytes < HUGE_FROM ? PAGE_BYTES : HUGE_BYTES;
    return bytes > SIZE_MAX - page ? bytes : (bytes + page - 1) & ~(page - 1);
}

/* Returns the cost of an allocation: the size of the mapping if there is one, otherwise the bytes
 * plus the C library's average overhead. The last large page counts in full, because the kernel
 * allocates all of it when any byte of it is written. */
static size_t memory_cost(size_t bytes, bool hidden)
{
    return memory_is_mapped(bytes, hidden) ? memory_map_bytes(bytes)
                                           : bytes + LINE_BYTES;
}

static bool memory_is_allowed(size_t bytes, bool hidden)
{
    return !memory_guard
           || memory_guard->take(memory_guard->context, memory_cost(bytes, hidden));
}

static void memory_tell(size_t bytes, bool hidden)
{
    if (memory_guard) {
        memory_guard->give(memory_guard->context, memory_cost(bytes, hidden));
    }
}

/*
 * Maps `bytes` bytes. If the block is big enough for large pages, the mapping starts at a 2 MiB
 * boundary: the function reserves 2 MiB more than needed and unmaps the excess at both ends.
 */
static void *memory_map(size_t bytes, bool small_pages)
{
    if (bytes > (size_t)PTRDIFF_MAX - 2 * (size_t)HUGE_BYTES) {
        return NULL;
    }
    bool large = bytes >= HUGE_FROM;
    size_t wanted = memory_map_bytes(bytes);
    size_t length = wanted + (large ? HUGE_BYTES : 0);
    char *p =
        mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        return NULL;
    }
    if (!large) {
        return p;
    }
    size_t head = (HUGE_BYTES - ((uintptr_t)p & (HUGE_BYTES - 1))) & (HUGE_BYTES - 1);
    if (head) {
        (void)munmap(p, head);
    }
    if (head < HUGE_BYTES) {
        (void)munmap(p + head + wanted, HUGE_BYTES - head);
    }
    if (!small_pages) {
        (void)madvise(p + head, wanted, MADV_HUGEPAGE); /* only a hint */
    }
    return p + head;
}

static void *memory_from_system(size_t bytes, bool small_pages)
{
    if (memory_is_mapped(bytes, false)) {
        return memory_map(bytes, small_pages);
    }
    void *p = NULL;
    if (posix_memalign(&p, LINE_BYTES, bytes ? bytes : 1) != 0) {
        return NULL;
    }
    memset(p, 0, bytes);
    return p;
}

bool bgi_memory_take(struct bgi_memory *memory, size_t bytes,
                     const bg_allocator *allocator, bool small_pages)
{
    memset(memory, 0, sizeof *memory);
    if (allocator && allocator->allocate) {
        memory->allocator = *allocator;
        memory->base = allocator->allocate(allocator->context, bytes, LINE_BYTES, 1);
    } else if (memory_is_allowed(bytes, false)) {
        memory->base = memory_from_system(bytes, small_pages);
        if (!memory->base) {
            memory_tell(bytes, false);
        }
    }
    memory->bytes = memory->base ? bytes : 0;
    return memory->base != NULL;
}

static bool memory_take_pooled(struct bgi_memory *memory, size_t bytes)
{
    void *p = bgi_pool_take(bytes);
    if (!p) {
        return false;
    }
    *memory = (struct bgi_memory){
        .base = p, .bytes = bytes, .hidden = true, .pooled = true
    };
    return true;
}

/* Hides the whole block, including the filter bits. Hiding only the handle's page would give each
 * filter two kernel mappings. The kernel limits the number of mappings, but merges adjacent
 * mappings that have the same attributes. */
static bool memory_map_hidden(struct bgi_memory *memory, size_t bytes, bool small_pages)
{
    void *p = memory_map(bytes, small_pages);
    if (!p) {
        return false;
    }
    (void)madvise(p, memory_map_bytes(bytes), MADV_DONTDUMP);
    *memory = (struct bgi_memory){ .base = p, .bytes = bytes, .hidden = true };
    return true;
}

bool bgi_memory_take_hidden(struct bgi_memory *memory, size_t bytes,
                            const bg_allocator *allocator, bool small_pages)
{
    const bool pooled = memory_is_pooled(bytes);
    const size_t size = pooled ? bgi_pool_size(bytes) : bytes;
    if (allocator && allocator->allocate) {
        return bgi_memory_take(memory, bytes, allocator, small_pages);
    }
    memset(memory, 0, sizeof *memory);
    /* If hidden memory would exceed the limit, the call fails, even if unhidden memory needs less
     * and would fit. */
    if (!memory_is_allowed(size, !pooled)) {
        return false;
    }
    if (pooled ? memory_take_pooled(memory, bytes)
               : memory_map_hidden(memory, bytes, small_pages)) {
        return true;
    }
    memory_tell(size, !pooled);
    return bgi_memory_take(memory, bytes, NULL, small_pages);
}

void bgi_memory_give(struct bgi_memory *memory)
{
    if (!memory->base) {
        return;
    }
    if (memory->allocator.allocate) {
        memory->allocator.release(memory->allocator.context, memory->base,
                                  memory->bytes);
    } else if (memory->pooled) {
        bgi_pool_give(memory->base, memory->bytes);
        memory_tell(bgi_pool_size(memory->bytes), false);
    } else if (memory_is_mapped(memory->bytes, memory->hidden)) {
        (void)munmap(memory->base, memory_map_bytes(memory->bytes));
        memory_tell(memory->bytes, memory->hidden);
    } else {
        free(memory->base);
        memory_tell(memory->bytes, memory->hidden);
    }
    memory->base = NULL;
    memory->bytes = 0;
}

struct bgi_move bgi_memory_move(struct bgi_memory memory, const bg_mover *mover)
{
    struct bgi_move move = { (uintptr_t)memory.base, memory.bytes, NULL };
    if (memory.base && memory.allocator.allocate) {
        move.to = mover->move(mover->context, memory.base, memory.bytes, LINE_BYTES);
    }
    return move;
}

void bgi_memory_zero(const struct bgi_memory *memory, void *start, size_t bytes)
{
    bool system_map = memory->base && !memory->allocator.allocate
                      && memory_is_mapped(memory->bytes, memory->hidden);
    /* Whole large pages inside the range are returned to the kernel; the rest is
     * overwritten. */
    char *p = start, *end = p + bytes;
    char *from =
        p + ((HUGE_BYTES - ((uintptr_t)p & (HUGE_BYTES - 1))) & (HUGE_BYTES - 1));
    if (system_map && end > from && end - from >= 8 * (ptrdiff_t)HUGE_BYTES) {
        size_t whole = (size_t)(end - from) & ~((size_t)HUGE_BYTES - 1);
        if (madvise(from, whole, MADV_DONTNEED) == 0) {
            memset(p, 0, (size_t)(from - p));
            memset(from + whole, 0, (size_t)(end - from) - whole);
            return;
        }
    }
    memset(p, 0, bytes);
}

bool bgi_secret_take(struct bgi_memory *memory, size_t bytes)
{
    memset(memory, 0, sizeof *memory);
    if (!bytes || !memory_is_allowed(bytes, true)) {
        return false;
    }
    void *p = memory_map(bytes, true);
    if (!p) {
        memory_tell(bytes, true);
        return false;
    }
    size_t length = memory_map_bytes(bytes);
    /* If locking fails, the error is ignored, because the OS limits how much memory can be
     * locked. */
    (void)mlock(p, length);
    (void)madvise(p, length, MADV_DONTDUMP);
    if (madvise(p, length, MADV_WIPEONFORK) != 0) {
        (void)madvise(p, length, MADV_DONTFORK);
    }
    *memory = (struct bgi_memory){ .base = p, .bytes = bytes, .hidden = true };
    return true;
}

void bgi_secret_give(struct bgi_memory *memory)
{
    if (memory->base) {
        bgi_wipe(memory->base, memory->bytes);
    }
    bgi_memory_give(memory);
}

void bgi_wipe(void *p, size_t bytes)
{
    memset(p, 0, bytes);
    __asm__ volatile("" : : "r"(p) : "memory");
}

/* ---- Files ------------------------------------------------------------------------------- */

/* Closes a file, if there is one, and preserves errno. Returns false. */
static bool memory_close(int file)
{
    const int why = errno;
    if (file >= 0) {
        (void)close(file);
    }
    errno = why;
    return false;
}

bool bgi_mapping_make(struct bgi_mapping *mapping, int file, size_t bytes, bool watched)
{
    struct stat about;
    *mapping = (struct bgi_mapping){ .base = NULL };
    const int kept = watched ? fcntl(file, F_DUPFD_CLOEXEC, 0) : -1;
    if (watched && (kept < 0 || fstat(kept, &about) != 0)) {
        return memory_close(kept);
    }
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    if (p == MAP_FAILED) {
        return memory_close(kept);
    }
    *mapping = (struct bgi_mapping){
        .base = p, .bytes = bytes, .watched = watched, .file = kept
    };
    if (watched) {
        mapping->size = (uint64_t)about.st_size;
        mapping->modified[0] = about.st_mtim.tv_sec;
        mapping->modified[1] = about.st_mtim.tv_nsec;
    }
    return true;
}

bool bgi_mapping_is_intact(const struct bgi_mapping *mapping)
{
    struct stat about;
    return !mapping->base || !mapping->watched
           || (fstat(mapping->file, &about) == 0
               && mapping->size == (uint64_t)about.st_size
               && mapping->modified[0] == about.st_mtim.tv_sec
               && mapping->modified[1] == about.st_mtim.tv_nsec);
}

/* Creates an unnamed file in which all bits are set. Returns -1 on error. */
static int memory_ones(size_t bytes)
{
    const int file = memfd_create("bloomgate-ones", MFD_CLOEXEC);
    void *p = file >= 0 && ftruncate(file, (off_t)bytes) == 0
                  ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)
                  : MAP_FAILED;
    if (p == MAP_FAILED) {
        (void)memory_close(file);
        return -1;
    }
    memset(p, 0xff, bytes);
    (void)munmap(p, bytes);
    return file;
}

bool bgi_mapping_fill(const struct bgi_mapping *mapping)
{
    size_t piece = HUGE_BYTES;
    while (mapping->bytes / piece > 4096) { /* a process can have 65530 mappings */
        piece *= 2;
    }
    const int ones = memory_ones(piece);
    bool good = ones >= 0;
    for (size_t at = 0; good && at < mapping->bytes; at += piece) {
        const size_t left = mapping->bytes - at;
        good = mmap((char *)mapping->base + at, left < piece ? left : piece,
                    PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, ones, 0)
               != MAP_FAILED;
    }
    (void)memory_close(ones);
    return good;
}

void bgi_mapping_give(struct bgi_mapping *mapping)
{
    if (mapping->base) {
        (void)munmap(mapping->base, mapping->bytes);
        (void)memory_close(mapping->watched ? mapping->file : -1);
        mapping->base = NULL;
    }
}
