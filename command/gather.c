/* gather.c - see gather.h. Small buffers are allocated with calloc, because mapping them would cost
 * more than it saves. */
#include "gather.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    GATHER_MAPPED = 1 << 20, /* buffers of at least this size use mmap */
    GATHER_STEP = 4 << 20,   /* bytes released at a time; a multiple of the page size */
    /* Bytes allocated at a time; just below an allocator size class. */
    GATHER_COUNT = GATHER_STEP - 4096
};

#ifndef MAP_NORESERVE
#define MAP_NORESERVE 0
#endif

/* A block that is allocated only to make the allocator count the received bytes. */
struct gather_count {
    struct gather_count *next;
    size_t bytes;
};

size_t gather_footprint(size_t size, size_t n)
{
    if (size < GATHER_MAPPED) {
        return size;
    }
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return n - n % page + (n % page ? page : 0) + page;
}

/* Maps a buffer. Large pages would occupy memory for bytes that have not arrived. */
static void *gather_map(size_t size)
{
    void *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (bytes == MAP_FAILED) {
        return NULL;
    }
    (void)madvise(bytes, size, MADV_NOHUGEPAGE); /* fails if there are no large pages */
    return bytes;
}

bool gather_begin(struct gather *gather, size_t size, const bg_allocator *allocator)
{
    void *bytes = size >= GATHER_MAPPED ? gather_map(size) : calloc(1, size);
    *gather = (struct gather){ .bytes = bytes, .size = bytes ? size : 0 };
    if (bytes && allocator) {
        gather->allocator = *allocator;
    }
    return bytes != NULL;
}

/* Returns how much memory to allocate next: GATHER_COUNT bytes, or all remaining bytes if there are
 * fewer, but at least the size of a struct gather_count. */
static size_t gather_next_count(const struct gather *gather)
{
    const size_t left = gather->size - gather->counted;
    const size_t bytes = left < GATHER_COUNT ? left : GATHER_COUNT;
    return bytes < sizeof(struct gather_count) ? sizeof(struct gather_count) : bytes;
}

bool gather_count(struct gather *gather, size_t n)
{
    const bg_allocator *from = &gather->allocator;
    while (from->allocate && gather->counted < n) {
        const size_t bytes = gather_next_count(gather);
        struct gather_count *one =
            from->allocate(from->context, bytes, _Alignof(struct gather_count), 0);
        if (!one) {
            return false;
        }
        *one = (struct gather_count){ .next = gather->first, .bytes = bytes };
        gather->first = one;
        gather->counted += bytes;
    }
    return true;
}

void gather_uncount(struct gather *gather)
{
    const bg_allocator *to = &gather->allocator;
    while (gather->first) {
        struct gather_count *one = gather->first;
        gather->first = one->next;
        to->release(to->context, one, one->bytes);
    }
    gather->counted = 0;
}

void gather_give(struct gather *gather, size_t n)
{
    const size_t upto = n - n % GATHER_STEP;
    if (gather->size >= GATHER_MAPPED && upto > gather->given) {
        (void)madvise(gather->bytes + gather->given, upto - gather->given,
                      MADV_DONTNEED);
        gather->given = upto;
    }
}

void gather_end(struct gather *gather)
{
    gather_uncount(gather);
    if (gather->size >= GATHER_MAPPED) {
        (void)munmap(gather->bytes, gather->size);
    } else {
        free(gather->bytes);
    }
    *gather = (struct gather){ .bytes = NULL };
}
