/*
 * hash_list.c - collects hashes and sorts them into a set.
 *
 * Sorting divides the list into S slices. The highest bits of each hash select one of B buckets:
 *
 *   count     for each slice, how many hashes belong to each bucket      S tasks
 *             prefix sums: where each slice's part of each bucket starts
 *   scatter   each slice writes its hashes there                         S tasks
 *   sort      sorts each bucket in the cache and removes duplicates      B tasks
 *   close up  moves the buckets together, if there were duplicates
 *
 * Scattering hashes to thousands of positions would miss the cache and the TLB on every write. So
 * each bucket has a cache line that collects eight hashes, and only full lines are written.
 */
#include "filter/hash_list.h"

#include "base/checked.h"
#include "base/compiler.h"
#include "base/sort.h"
#include "base/tasks.h"

#include <string.h>

enum {
    LIST_FIRST = 1 << 10,  /* number of hashes in the first chunk */
    LIST_BUCKET = 1 << 15, /* approximate number of hashes per bucket */
    LIST_BITS_MAX = 12, /* chosen so that the lines of all buckets fit in the cache */
    LIST_LINE = 8,      /* hashes per line */
    LIST_SLICES = 8     /* per thread */
};

/* ---- Collecting ------------------------------------------------------------------ */

static uint64_t *list_chunk_hashes(const struct bgi_hash_chunk *chunk)
{
    return chunk->memory.base;
}

static size_t list_room_left(const struct bgi_hash_list *list)
{
    if (list->chunks == 0) {
        return 0;
    }
    const struct bgi_hash_chunk *last = &list->chunk[list->chunks - 1];
    return last->room - last->used;
}

static bool list_take(const struct bgi_hash_list *list, size_t n,
                      struct bgi_memory *memory)
{
    uint64_t bytes;
    size_t fits;
    return bgi_mul_u64(n, sizeof(uint64_t), &bytes) && bgi_fits_size(bytes, &fits)
           && bgi_memory_take(memory, fits, list->allocator, list->small_pages);
}

bool bgi_hash_list_reserve(struct bgi_hash_list *list, size_t n)
{
    size_t left = list_room_left(list);
    if (n <= left) {
        return true;
    }
    size_t wanted = n - left, room = list->n / 2;
    room = room < LIST_FIRST ? LIST_FIRST : room;
    room = room < wanted ? wanted : room;
    struct bgi_hash_chunk *chunk = &list->chunk[list->chunks];
    if (list->chunks == BGI_CHUNKS_MAX || wanted > SIZE_MAX / 2 - list->n
        || !list_take(list, room, &chunk->memory)) {
        return false;
    }
    chunk->used = 0;
    chunk->room = room;
    list->chunks++;
    return true;
}

uint64_t *bgi_hash_list_next(struct bgi_hash_list *list, size_t n, size_t *got)
{
    struct bgi_hash_chunk *chunk = &list->chunk[list->chunks - 1];
    if (list->chunks > 1 && chunk->used == 0 && chunk[-1].used < chunk[-1].room) {
        /* The reservation that created the new chunk also includes the unused space in the previous
         * chunk, which is used first. */
        chunk--;
    }
    size_t left = chunk->room - chunk->used;
    *got = n < left ? n : left;
    uint64_t *next = list_chunk_hashes(chunk) + chunk->used;
    chunk->used += *got;
    list->n += *got;
    return next;
}

void bgi_hash_list_clear(struct bgi_hash_list *list)
{
    for (unsigned i = 0; i < list->chunks; i++) {
        bgi_memory_give(&list->chunk[i].memory);
    }
    list->chunks = 0;
    list->n = 0;
}

const uint64_t *bgi_hash_list_all(const struct bgi_hash_list *list)
{
    return list->chunks ? list_chunk_hashes(&list->chunk[0]) : NULL;
}

/* ---- Sorting --------------------------------------------------------------------- */

/* The start of a bucket, its number of hashes, and its number of distinct hashes. */
struct list_bucket {
    size_t start, n, kept;
};

struct list_line {
    uint64_t hashes[LIST_LINE];
};

struct list_sort {
    struct bgi_hash_list *list;
    const struct bgi_watch *watch;
    unsigned threads, bits;
    /* `largest` is the number of hashes in the largest bucket. */
    size_t slices, buckets, largest;
    /* Counts per slice and bucket, later converted to start positions. */
    size_t *places;
    struct list_bucket *bucket;
    /* The hashes that have not been written yet, per thread and bucket. */
    struct list_line *lines;
    size_t *begins;  /* start of the current slice's part, per thread and bucket */
    uint64_t *all;   /* the hashes, once they have been scattered */
    uint64_t *spare; /* per thread: `largest` hashes */
    struct bgi_memory tables, array, spares;
    size_t done, tasks; /* two tasks per slice and one per bucket; `done` is atomic */
    bool stopped;
};

/* Counts a finished task. Thread 0 also reports progress and checks whether to stop. */
static bool list_tell(struct list_sort *s, unsigned thread)
{
    size_t done = __atomic_add_fetch(&s->done, 1, __ATOMIC_RELAXED);
    if (thread == 0 && s->watch->part_done
        && !s->watch->part_done(s->watch->context, (double)done / (double)s->tasks)) {
        s->stopped = true;
        return false;
    }
    return true;
}

/* Returns the bucket of a hash. (Two shifts are used because a shift by 64 is undefined.) */
BGI_INLINE size_t list_bucket_of(uint64_t hash, unsigned bits)
{
    return (size_t)(hash >> 1 >> (63 - bits));
}

/* The state of a walk over a range of hashes, in contiguous parts. */
struct list_walk {
    const struct bgi_hash_list *list;
    unsigned chunk;
    size_t skip, left;
};

static struct list_walk list_walk_slice(const struct list_sort *s, size_t slice)
{
    const struct bgi_hash_list *list = s->list;
    size_t each = list->n / s->slices, at = slice * each;
    size_t end = slice + 1 == s->slices ? list->n : at + each;
    struct list_walk walk = { list, 0, at, end - at };
    while (walk.left && walk.skip >= list->chunk[walk.chunk].used) {
        walk.skip -= list->chunk[walk.chunk++].used;
    }
    return walk;
}

/* Returns the next part, or NULL at the end. */
static const uint64_t *list_walk_next(struct list_walk *walk, size_t *n)
{
    if (walk->left == 0) {
        return NULL;
    }
    const struct bgi_hash_chunk *chunk = &walk->list->chunk[walk->chunk++];
    const uint64_t *part = list_chunk_hashes(chunk) + walk->skip;
    size_t there = chunk->used - walk->skip;
    *n = there < walk->left ? there : walk->left;
    walk->left -= *n;
    walk->skip = 0;
    return part;
}

static bool list_count(void *context, size_t slice, unsigned thread)
{
    struct list_sort *s = context;
    size_t *counts = s->places + slice * s->buckets, n = 0;
    const unsigned bits = s->bits;
    struct list_walk walk = list_walk_slice(s, slice);
    for (const uint64_t *part; (part = list_walk_next(&walk, &n));) {
        for (size_t i = 0; i < n; i++) {
            counts[list_bucket_of(part[i], bits)]++;
        }
    }
    return list_tell(s, thread);
}

/* Converts counts to start positions, ordered by bucket and, within a bucket, by slice. */
static void list_place(struct list_sort *s)
{
    size_t sum = 0;
    for (size_t b = 0; b < s->buckets; b++) {
        s->bucket[b].start = sum;
        for (size_t slice = 0; slice < s->slices; slice++) {
            size_t *place = &s->places[slice * s->buckets + b], count = *place;
            *place = sum;
            sum += count;
        }
        s->bucket[b].n = s->bucket[b].kept = sum - s->bucket[b].start;
        s->largest = s->bucket[b].n > s->largest ? s->bucket[b].n : s->largest;
    }
}

/* Writes the hashes that a line has collected for positions below `end`. Positions before
 * `begin` belong to other slices. */
BGI_INLINE void list_flush(uint64_t *all, const struct list_line *line, size_t begin,
                           size_t end)
{
    size_t first = (end - 1) / LIST_LINE * LIST_LINE;
    if (first >= begin && end - first == LIST_LINE) {
        memcpy(all + first, line->hashes, sizeof line->hashes);
        return;
    }
    for (size_t i = first > begin ? first : begin; i < end; i++) {
        all[i] = line->hashes[i % LIST_LINE];
    }
}

/* Writes the hashes of a slice to the array. `places` contains the position of each bucket's next
 * hash. */
static bool list_scatter(void *context, size_t slice, unsigned thread)
{
    struct list_sort *s = context;
    size_t *places = s->places + slice * s->buckets, n = 0;
    size_t *begin = s->begins + thread * s->buckets;
    struct list_line *lines = s->lines + thread * s->buckets;
    uint64_t *all = s->all;
    const unsigned bits = s->bits;
    struct list_walk walk = list_walk_slice(s, slice);
    memcpy(begin, places, s->buckets * sizeof *begin);
    for (const uint64_t *part; (part = list_walk_next(&walk, &n));) {
        for (size_t i = 0; i < n; i++) {
            uint64_t hash = part[i];
            size_t b = list_bucket_of(hash, bits), place = places[b]++;
            lines[b].hashes[place % LIST_LINE] = hash;
            if (place % LIST_LINE == LIST_LINE - 1) {
                list_flush(all, &lines[b], begin[b], place + 1);
            }
        }
    }
    for (size_t b = 0; b < s->buckets; b++) {
        if (places[b] > begin[b] && places[b] % LIST_LINE) {
            list_flush(all, &lines[b], begin[b], places[b]);
        }
    }
    return list_tell(s, thread);
}

static bool list_sort_bucket(void *context, size_t b, unsigned thread)
{
    struct list_sort *s = context;
    struct list_bucket *bucket = &s->bucket[b];
    uint64_t *hashes = s->all + bucket->start;
    bgi_sort(hashes, s->spare + thread * s->largest, bucket->n, s->bits);
    bucket->kept = bgi_sort_unique(hashes, bucket->n);
    return list_tell(s, thread);
}

/* Closes the gaps between buckets. Returns the number of remaining hashes. */
static size_t list_close_up(const struct list_sort *s)
{
    size_t kept = 0;
    for (size_t b = 0; b < s->buckets; b++) {
        const struct list_bucket *bucket = &s->bucket[b];
        if (kept != bucket->start) {
            memmove(s->all + kept, s->all + bucket->start,
                    bucket->kept * sizeof *s->all);
        }
        kept += bucket->kept;
    }
    return kept;
}

/* ---- Memory of a sort ---------------------------------------------------------------- */

/* Carves a table of `count` elements of `size` bytes out of *p, on a line boundary. */
static void *list_carve(unsigned char **p, size_t count, size_t size)
{
    void *table = *p;
    *p += (count * size + 63) / 64 * 64;
    return table;
}

/* Sets up the tables, starting at `base`, and returns their size in bytes. If `base` is NULL,
 * only returns the size. */
static size_t list_tables(struct list_sort *s, unsigned char *base)
{
    size_t per_thread = s->threads * s->buckets;
    uint64_t bytes = 5 * 64 + s->buckets * sizeof *s->bucket
                     + s->slices * s->buckets * sizeof *s->places
                     + per_thread * (sizeof *s->lines + sizeof *s->begins);
    if (base) {
        s->lines = list_carve(&base, per_thread, sizeof *s->lines);
        s->places = list_carve(&base, s->slices * s->buckets, sizeof *s->places);
        s->begins = list_carve(&base, per_thread, sizeof *s->begins);
        s->bucket = list_carve(&base, s->buckets, sizeof *s->bucket);
    }
    return (size_t)bytes;
}

static bool list_sort_begin(struct list_sort *s)
{
    struct bgi_hash_list *list = s->list;
    while (s->bits < LIST_BITS_MAX && list->n >> s->bits > LIST_BUCKET) {
        s->bits++;
    }
    s->buckets = (size_t)1 << s->bits;
    s->slices = s->threads == 1 ? 1 : s->threads * (size_t)LIST_SLICES;
    s->tasks = 2 * s->slices + s->buckets;
    if (!bgi_memory_take(&s->tables, list_tables(s, NULL), list->allocator,
                         list->small_pages)
        || !list_take(list, list->n, &s->array)) {
        return false;
    }
    (void)list_tables(s, s->tables.base);
    s->all = s->array.base;
    return true;
}

/* Replaces the chunks of the list with the array, which now contains the hashes. */
static void list_adopt(struct list_sort *s, size_t n)
{
    struct bgi_hash_list *list = s->list;
    size_t room = list->n;
    bgi_hash_list_clear(list);
    list->chunk[0] = (struct bgi_hash_chunk){ s->array, n, room };
    list->chunks = 1;
    list->n = n;
    memset(&s->array, 0, sizeof s->array);
}

static bool list_sort_run(struct list_sort *s)
{
    struct bgi_hash_list *list = s->list;
    if (!bgi_tasks_run(s->threads, s->slices, list_count, s)) {
        return false;
    }
    list_place(s);
    uint64_t spare;
    size_t fits;
    if (!bgi_mul_u64(s->largest, s->threads, &spare) || !bgi_fits_size(spare, &fits)
        || !list_take(list, fits, &s->spares)) {
        return false;
    }
    s->spare = s->spares.base;
    if (!bgi_tasks_run(s->threads, s->slices, list_scatter, s)) {
        return false;
    }
    list_adopt(s, list->n);
    if (!bgi_tasks_run(s->threads, s->buckets, list_sort_bucket, s)) {
        return false;
    }
    list->chunk[0].used = list->n = list_close_up(s);
    return true;
}

bool bgi_hash_list_sort(struct bgi_hash_list *list, unsigned threads,
                        const struct bgi_watch *watch, bool *stopped)
{
    struct list_sort s = { .list = list, .watch = watch, .threads = threads };
    *stopped = false;
    if (list->n == 0) {
        return true;
    }
    bool sorted = list_sort_begin(&s) && list_sort_run(&s);
    *stopped = s.stopped;
    bgi_memory_give(&s.tables);
    bgi_memory_give(&s.spares);
    bgi_memory_give(&s.array);
    return sorted;
}
