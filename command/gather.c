/* gather.c - see gather.h. Small ones are ordinary memory: a map is more work than they are. */
#include "gather.h"

#include <stdlib.h>
#include <sys/mman.h>

enum {
    GATHER_MAPPED = 1 << 20, /* from this size on */
    GATHER_STEP = 4 << 20    /* given back at once; whole pages of any size */
};

#ifndef MAP_NORESERVE
#define MAP_NORESERVE 0
#endif

bool gather_begin(struct gather *gather, size_t size)
{
    void *bytes = NULL;
    if (size >= GATHER_MAPPED) {
        bytes = mmap(NULL, size, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        bytes = bytes == MAP_FAILED ? NULL : bytes;
    } else {
        bytes = calloc(1, size);
    }
    *gather = (struct gather){ .bytes = bytes, .size = bytes ? size : 0 };
    return bytes != NULL;
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
    if (gather->size >= GATHER_MAPPED) {
        (void)munmap(gather->bytes, gather->size);
    } else {
        free(gather->bytes);
    }
    *gather = (struct gather){ .bytes = NULL };
}
