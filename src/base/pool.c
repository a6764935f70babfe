/* pool.c - see pool.h. */
#define _GNU_SOURCE /* madvise, MAP_ANONYMOUS */

#include "base/pool.h"

#include "base/memory.h"

#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>

enum {
    POOL_UNIT = 64,
    POOL_SLAB = 256 << 10,
    POOL_STEPS = 4, /* number of size classes per doubling */
    POOL_CLASSES = 32
};

struct slab {
    struct slab *next, *before; /* links in the list of the slab's size class */
    /* The first free piece that has been used before. */
    void **free;
    size_t fresh; /* offset of the first piece that has never been used */
    size_t size;  /* bytes per piece */
    unsigned class;
    unsigned used; /* pieces in use */
};

static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;
static struct slab *pool_slabs[POOL_CLASSES]; /* slabs that have a free piece */

/* ---- Sizes -------------------------------------------------------------------- */

/* In units of 64 bytes, the size classes are 1, 2, 3 and 4, followed by four classes per doubling:
 * 5, 6, 7, 8, 10, 12, 14, 16, 20, ... */
static unsigned pool_class(size_t bytes, size_t *size)
{
    const size_t units = bytes ? (bytes + POOL_UNIT - 1) / POOL_UNIT : 1;
    unsigned shift = 0;
    while (units > (size_t)(2 * POOL_STEPS) << shift) {
        shift++;
    }
    const size_t rounded = (units + ((size_t)1 << shift) - 1) >> shift;
    *size = (rounded << shift) * POOL_UNIT;
    return (unsigned)rounded - 1 + shift * POOL_STEPS;
}

size_t bgi_pool_size(size_t bytes)
{
    size_t size;
    (void)pool_class(bytes, &size);
    return size;
}

/* ---- Slabs -------------------------------------------------------------------- */

static struct slab *slab_of(void *piece)
{
    return (struct slab *)((uintptr_t)piece & ~(uintptr_t)(POOL_SLAB - 1));
}

/* Maps an aligned slab by mapping twice its size and unmapping both ends. */
static struct slab *slab_create(unsigned class, size_t size)
{
    char *p = mmap(NULL, 2 * POOL_SLAB, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        return NULL;
    }
    const size_t head = -(uintptr_t)p & (POOL_SLAB - 1);
    if (head) {
        (void)munmap(p, head);
    }
    (void)munmap(p + head + POOL_SLAB, POOL_SLAB - head);
    struct slab *slab = (struct slab *)(void *)(p + head);
    (void)madvise(slab, POOL_SLAB, MADV_DONTDUMP);
    *slab = (struct slab){ .class = class, .size = size };
    slab->fresh = (sizeof *slab + POOL_UNIT - 1) / POOL_UNIT * POOL_UNIT;
    return slab;
}

static bool slab_is_full(const struct slab *slab)
{
    return !slab->free && POOL_SLAB - slab->fresh < slab->size;
}

static void slab_link(struct slab *slab)
{
    struct slab **first = &pool_slabs[slab->class];
    slab->before = NULL;
    slab->next = *first;
    if (*first) {
        (*first)->before = slab;
    }
    *first = slab;
}

static void slab_unlink(struct slab *slab)
{
    if (slab->before) {
        slab->before->next = slab->next;
    } else {
        pool_slabs[slab->class] = slab->next;
    }
    if (slab->next) {
        slab->next->before = slab->before;
    }
}

static void *slab_take(struct slab *slab)
{
    void **piece = slab->free;
    if (piece) {
        slab->free = *piece;
        *piece = NULL;
    } else {
        piece = (void **)(void *)((char *)slab + slab->fresh);
        slab->fresh += slab->size;
    }
    slab->used++;
    return piece;
}

/* ---- Children of fork --------------------------------------------------------- */

static pthread_once_t pool_once = PTHREAD_ONCE_INIT;

static void pool_enter(void)
{
    (void)pthread_mutex_lock(&pool_lock);
}

static void pool_leave(void)
{
    (void)pthread_mutex_unlock(&pool_lock);
}

/* A child process has only the thread that called fork. If another thread held the lock at that
 * time, the lock would never be released in the child. */
static void pool_begin(void)
{
    (void)pthread_atfork(pool_enter, pool_leave, pool_leave);
}

/* ---- Pieces ------------------------------------------------------------------- */

void *bgi_pool_take(size_t bytes)
{
    size_t size;
    void *piece = NULL;
    const unsigned class = pool_class(bytes, &size);
    (void)pthread_once(&pool_once, pool_begin);
    pool_enter();
    struct slab *slab = pool_slabs[class];
    if (!slab) {
        slab = slab_create(class, size);
        if (slab) {
            slab_link(slab);
        }
    }
    if (slab) {
        piece = slab_take(slab);
        if (slab_is_full(slab)) {
            slab_unlink(slab);
        }
    }
    pool_leave();
    return piece;
}

void bgi_pool_give(void *piece, size_t bytes)
{
    struct slab *slab = slab_of(piece), *unused = NULL;
    void **link = piece;
    bgi_wipe(piece, bytes);
    pool_enter();
    if (slab_is_full(slab)) {
        slab_link(slab);
    }
    *link = slab->free;
    slab->free = link;
    if (--slab->used == 0 && (slab->next || slab->before)) {
        slab_unlink(slab);
        unused = slab;
    }
    pool_leave();
    if (unused) {
        (void)munmap(unused, POOL_SLAB);
    }
}
