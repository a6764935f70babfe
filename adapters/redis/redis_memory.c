/*
 * redis_memory.c - see redis_memory.h.
 *
 * Alignment. The server's allocator guarantees only the alignment that malloc provides. For larger
 * alignments, the module allocates extra bytes. The address returned by the server is stored in the
 * word before the aligned address.
 *
 * Defragmentation. The server regularly visits each value on its main thread to defragment it. The
 * module offers the server every allocation of the value. The server moves allocations that are in
 * nearly empty slabs; slabs contain allocations of up to 14 KiB. Small filters consist of such
 * allocations. The bits of large filters occupy whole pages, which the server does not move.
 *
 * Thread safety: `reaper.lock` protects the list of objects to free and the lifetime of the
 * background thread, which starts when the first large object is freed. A forked child process does
 * not have this thread, and frees objects immediately.
 */
#include "redis_memory.h"

#include "redis_api.h"
#include "redis_secret.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* ---- The allocator --------------------------------------------------------------------------- */

/* Blocks of at least this size are cleared by releasing their pages. */
enum { MEMORY_LARGE = 4 << 20 };

static _Atomic uint64_t memory_used;

/* Zeroes memory. Whole pages of large blocks are returned to the kernel. Allocators use private
 * anonymous memory, so the kernel provides zeroed pages on the next access. If the kernel refuses
 * to take the pages back, as it does for locked pages, they are overwritten with zeros. */
static void memory_clear(char *memory, size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t before = (page - (uintptr_t)memory % page) % page;
    const size_t whole = bytes > before ? (bytes - before) / page * page : 0;
    if (bytes < MEMORY_LARGE || madvise(memory + before, whole, MADV_DONTNEED)) {
        memset(memory, 0, bytes);
        return;
    }
    memset(memory, 0, before);
    memset(memory + before + whole, 0, bytes - before - whole);
}

/* ---- The guard ------------------------------------------------------------------------------- */

enum {
    GUARD_STEP = 1 << 20, /* bytes allocated between checks of the server's memory */
    GUARD_SHARE = 8 /* a command may use 1/8 of maxmemory if keys can be evicted */
};

static _Thread_local struct {
    bool on, refused;
    uint64_t unseen;  /* bytes allocated since the last check */
    uint64_t taken;   /* bytes allocated since the guard was switched on */
    uint64_t granted; /* number of bytes that may still be allocated without a check */
} guard;

void redis_memory_guard(bool on)
{
    guard.on = on;
    guard.unseen = guard.taken = guard.granted = 0;
    guard.refused = on ? false : guard.refused;
}

bool redis_memory_refused(void)
{
    return guard.refused;
}

/* Returns whether `bytes` additional bytes fit into maxmemory. */
static bool guard_has_room(uint64_t bytes)
{
    int unknown = 0;
    RedisModuleServerInfoData *info = redis.GetServerInfo(NULL, "memory");
    const uint64_t most = redis.ServerInfoGetFieldUnsigned(info, "maxmemory", &unknown);
    const char *policy = redis.ServerInfoGetFieldC(info, "maxmemory_policy");
    const bool evicts = policy && strcmp(policy, "noeviction") != 0;
    redis.FreeServerInfo(NULL, info);
    if (unknown || most == 0) {
        return true;
    }
    const double used = (double)redis.GetUsedMemoryRatio() * (double)most;
    return used + (double)bytes <= (double)most
           || (evicts && guard.taken <= most / GUARD_SHARE);
}

/* Returns whether an allocation of `bytes` bytes is allowed. */
static bool guard_checks(uint64_t bytes)
{
    guard.unseen += bytes;
    if (guard.unseen < GUARD_STEP) {
        return true;
    }
    guard.unseen = 0;
    const bool room = guard_has_room(bytes);
    guard.refused = guard.refused || !room;
    return room;
}

static bool guard_lets(size_t bytes)
{
    if (!guard.on) {
        return true;
    }
    guard.taken += bytes;
    if (bytes <= guard.granted) {
        guard.granted -= bytes;
        return true;
    }
    return guard_checks(bytes);
}

bool redis_memory_grant(uint64_t bytes)
{
    if (!guard.on) {
        return true;
    }
    guard.taken += bytes;
    const bool room = guard_checks(bytes);
    guard.taken -= bytes;
    guard.granted = room ? UINT64_MAX : 0; /* `bytes` is an estimate */
    return room;
}

/* ---- Aligned memory -------------------------------------------------------------------------- */

/* Allocates memory, zeroed if requested. If the server has no TryCalloc (Redis before 7.4), the
 * memory is cleared here. */
static void *memory_take(size_t bytes, bool zeroed)
{
    if (!zeroed) {
        return redis.TryAlloc(bytes);
    }
    if (redis.TryCalloc) {
        return redis.TryCalloc(1, bytes);
    }
    void *memory = redis.TryAlloc(bytes);
    if (memory) {
        memory_clear(memory, bytes);
    }
    return memory;
}

static size_t memory_grid(size_t alignment)
{
    const size_t least = _Alignof(max_align_t);
    return alignment > least ? alignment : least;
}

/* Returns the first aligned address with space for a word before it. It is at most one alignment
 * unit after the server's address, which is a multiple of the word size. */
static char *memory_place(char *given, size_t grid)
{
    const uintptr_t from = (uintptr_t)given + sizeof given;
    return given + sizeof given + (size_t)((grid - from % grid) % grid);
}

static void memory_note(char *memory, char *given)
{
    memcpy(memory - sizeof given, &given, sizeof given);
}

static char *memory_given(const void *memory)
{
    char *given = NULL;
    memcpy(&given, (const char *)memory - sizeof given, sizeof given);
    return given;
}

static void *memory_allocate(void *context, size_t bytes, size_t alignment, bool zeroed)
{
    (void)context;
    const size_t grid = memory_grid(alignment);
    if (bytes > SIZE_MAX / 2 || !guard_lets(bytes)) {
        return NULL;
    }
    char *given = memory_take(bytes + grid, zeroed);
    if (!given) {
        return NULL;
    }
    char *memory = memory_place(given, grid);
    memory_note(memory, given);
    atomic_fetch_add_explicit(&memory_used, bytes, memory_order_relaxed);
    return memory;
}

static void memory_release(void *context, void *memory, size_t bytes)
{
    (void)context;
    if (memory) {
        redis.Free(memory_given(memory));
        atomic_fetch_sub_explicit(&memory_used, bytes, memory_order_relaxed);
    }
}

const bg_allocator redis_allocator = { memory_allocate, memory_release, NULL };

uint64_t redis_memory_used(void)
{
    return atomic_load_explicit(&memory_used, memory_order_relaxed);
}

/* ---- Defragmentation ------------------------------------------------------------------------- */

enum { DEFRAG_STEP = 16 }; /* number of allocations between time checks */

static _Atomic uint64_t defrag_moves;
static bool defrag_on = true;

void redis_memory_let_move(bool on)
{
    defrag_on = on;
}

/* The state of one defragmentation call from the server. An object with many allocations needs
 * several calls. */
struct defrag {
    RedisModuleDefragCtx *ctx;
    unsigned long from; /* number of allocations offered in earlier calls */
    unsigned long at;
    bool stopped;
};

/* Returns whether the current call should offer this allocation to the server for
 * defragmentation. */
static bool defrag_next(struct defrag *defrag)
{
    if (defrag->stopped || defrag->at < defrag->from) {
        defrag->at += !defrag->stopped;
        return false;
    }
    if (defrag->at > defrag->from && defrag->at % DEFRAG_STEP == 0
        && redis.DefragShouldStop(defrag->ctx)) {
        defrag->stopped = true;
        return false;
    }
    defrag->at++;
    return true;
}

/* Moves an allocation. The server copies the whole block unchanged; in the new block, the aligned
 * address may be at a different offset. */
static void *defrag_move(void *context, void *memory, size_t bytes, size_t alignment)
{
    struct defrag *defrag = context;
    if (!defrag_next(defrag)) {
        return NULL;
    }
    char *given = memory_given(memory);
    const size_t skip = (size_t)((char *)memory - given);
    char *moved = redis.DefragAlloc(defrag->ctx, given);
    if (!moved) {
        return NULL;
    }
    char *place = memory_place(moved, memory_grid(alignment));
    memmove(place, moved + skip, bytes);
    memory_note(place, moved);
    atomic_fetch_add_explicit(&defrag_moves, 1, memory_order_relaxed);
    return place;
}

int redis_memory_defrag(RedisModuleDefragCtx *ctx, struct object **object)
{
    struct defrag defrag = { .ctx = ctx };
    const bg_mover mover = { defrag_move, &defrag };
    if (!defrag_on || redis_memory_is_held(*object)) {
        return 0;
    }
    if (redis.DefragCursorGet(ctx, &defrag.from) != REDIS_OK) {
        defrag.from = 0;
    }
    object_relocate(object, &mover);
    if (defrag.stopped) {
        (void)redis.DefragCursorSet(ctx, defrag.at);
    }
    return defrag.stopped;
}

/* Adds up the sizes of the blocks that the server allocated, without moving them. */
static void *defrag_measure(void *context, void *memory, size_t bytes, size_t alignment)
{
    size_t *sum = context;
    (void)bytes;
    (void)alignment;
    *sum += redis.MallocSize(memory_given(memory));
    return NULL;
}

size_t redis_memory_of(struct object *object)
{
    size_t sum = 0;
    const bg_mover measure = { defrag_measure, &sum };
    if (!redis_memory_is_held(object)) {
        object_relocate(&object, &measure);
    }
    return sum;
}

uint64_t redis_memory_moves(void)
{
    return atomic_load_explicit(&defrag_moves, memory_order_relaxed);
}

/* ---- The reaper thread ----------------------------------------------------------------------- */

enum {
    REAPER_LARGE = 1 << 20,
    REAPER_PATIENCE = 1000000,  /* maximum wait for the thread, in nanoseconds */
    REAPER_EVICTION = 999999999 /* maximum wait during eviction, in nanoseconds */
};

static pthread_t memory_main;

void redis_memory_start(void)
{
    memory_main = pthread_self();
}

static bool memory_is_main(void)
{
    return pthread_equal(pthread_self(), memory_main);
}

bool redis_memory_is_short(void)
{
    return memory_is_main() && redis.GetUsedMemoryRatio() > 1;
}

static struct {
    pthread_mutex_t lock;
    pthread_cond_t come, gone;
    pthread_t thread;
    pid_t process; /* ID of the process that runs the thread, or 0 if none does */
    bool stops;
    struct object *first; /* objects to free, linked by `entry` */
    uint64_t waiting;     /* number of objects, including the object being freed */
} reaper = { .lock = PTHREAD_MUTEX_INITIALIZER,
             .come = PTHREAD_COND_INITIALIZER,
             .gone = PTHREAD_COND_INITIALIZER };

static void *reaper_run(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&reaper.lock);
    while (!reaper.stops || reaper.first) {
        struct object *object = reaper.first;
        if (!object) {
            pthread_cond_wait(&reaper.come, &reaper.lock);
            continue;
        }
        reaper.first = object->entry;
        object->entry = NULL;
        pthread_mutex_unlock(&reaper.lock);
        object_free(object);
        pthread_mutex_lock(&reaper.lock);
        reaper.waiting--;
        pthread_cond_broadcast(&reaper.gone);
    }
    pthread_mutex_unlock(&reaper.lock);
    return NULL;
}

/* Starts the thread if necessary. Returns whether it is running in this process. The caller holds
 * `lock`. */
static bool reaper_there(void)
{
    if (reaper.process == 0 && !reaper.stops) {
        reaper.process =
            pthread_create(&reaper.thread, NULL, reaper_run, NULL) ? 0 : getpid();
    }
    return reaper.process != 0 && reaper.process == getpid();
}

/* Waits until no object is left or the timeout expires. The caller holds `lock`. */
static void reaper_pause(long patience)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += patience;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    while (reaper.waiting
           && pthread_cond_timedwait(&reaper.gone, &reaper.lock, &until) != ETIMEDOUT) {
    }
}

/* ---- Holds ----------------------------------------------------------------------------------- */

enum { HELD_ONE = 2, HELD_DOOMED = 1 }; /* in `id`, under `lock` */

void redis_memory_hold(struct object *object)
{
    pthread_mutex_lock(&reaper.lock);
    object->id += HELD_ONE;
    pthread_mutex_unlock(&reaper.lock);
}

void redis_memory_release(struct object *object)
{
    pthread_mutex_lock(&reaper.lock);
    object->id -= HELD_ONE;
    const bool last = object->id == HELD_DOOMED;
    pthread_mutex_unlock(&reaper.lock);
    if (last) {
        object->id = 0;
        redis_memory_free_object(object);
    }
}

bool redis_memory_is_held(const struct object *object)
{
    pthread_mutex_lock(&reaper.lock);
    const bool held = object->id >= HELD_ONE;
    pthread_mutex_unlock(&reaper.lock);
    return held;
}

/* Returns whether the object is held. If so, marks it, so that its last holder frees it. */
static bool memory_is_left(struct object *object)
{
    pthread_mutex_lock(&reaper.lock);
    const bool held = object->id >= HELD_ONE;
    object->id |= held ? HELD_DOOMED : 0;
    pthread_mutex_unlock(&reaper.lock);
    return held;
}

void redis_memory_free_object(struct object *object)
{
    if (!object || memory_is_left(object)) {
        return;
    }
    redis_secret_leave(object->entry);
    object->entry = NULL;
    if (object_bytes(object) >= REAPER_LARGE && memory_is_main()) {
        const bool evicts = redis_memory_is_short();
        pthread_mutex_lock(&reaper.lock);
        const bool handed = reaper_there();
        if (handed) {
            object->entry = reaper.first;
            reaper.first = object;
            reaper.waiting++;
            pthread_cond_signal(&reaper.come);
            reaper_pause(evicts ? REAPER_EVICTION : REAPER_PATIENCE);
        }
        pthread_mutex_unlock(&reaper.lock);
        if (handed) {
            return;
        }
    }
    object_free(object);
}

uint64_t redis_memory_waiting(void)
{
    pthread_mutex_lock(&reaper.lock);
    const uint64_t waiting = reaper.waiting;
    pthread_mutex_unlock(&reaper.lock);
    return waiting;
}

void redis_memory_stop(void)
{
    pthread_mutex_lock(&reaper.lock);
    const bool there = reaper.process != 0;
    reaper.stops = true;
    pthread_cond_signal(&reaper.come);
    pthread_mutex_unlock(&reaper.lock);
    if (there) {
        pthread_join(reaper.thread, NULL);
    }
}
