/*
 * redis_memory.h - memory of filters, from the server: so that it is part of used_memory, and of
 * what maxmemory is compared with. And getting rid of large filters without anybody waiting.
 */
#ifndef REDIS_MEMORY_H
#define REDIS_MEMORY_H

#include "object.h"
#include "redis_api.h"

/* The server's memory, aligned; never ends the server when there is none. MT-Safe. */
extern const bg_allocator redis_allocator;

/* Bytes that were taken from it, and not given back yet. */
uint64_t redis_memory_used(void);

/*
 * While the guard is on, allocations of this thread that do not fit into maxmemory are refused: a command
 * of a few bytes can require gigabytes, and the server checks its memory only before a command. With an
 * eviction policy, a command may allocate up to an eighth of maxmemory even if there is no room, as other
 * commands may. For the server's main thread; not for data from a primary or a file.
 */
void redis_memory_guard(bool on);

/* Returns whether `bytes` fit. If they do, later allocations are not refused until the next call or the end of the
 * guard, even if `bytes` was too low an estimate. */
bool redis_memory_grant(uint64_t bytes);

/* Returns whether an allocation was refused since the guard was switched on. */
bool redis_memory_refused(void);

/* The server's defragmentation: moves the pieces of an object that the server wants to have elsewhere.
 * Not 0: not all of them yet, call again. An object that is held stays where it is. */
int redis_memory_defrag(RedisModuleDefragCtx *ctx, struct object **object);

/* Whether it does anything; it does at first. */
void redis_memory_let_move(bool on);

/* What the server counts for an object; 0: that cannot be said now, or is not the server's. On the
 * main thread, as the above. */
size_t redis_memory_of(struct object *object);

/* Pieces that were moved so far. */
uint64_t redis_memory_moves(void);

/*
 * Frees an object that is no longer in the keyspace. On the server's main thread, a large object is freed
 * by a background thread, and the call waits for at most a millisecond. While the server is over
 * maxmemory, the call waits until the memory is free, because the server is evicting keys and would evict
 * others instead. Other threads, such as the server's thread for lazy freeing, free at once.
 */
void redis_memory_free_object(struct object *object);

/* While an object is held it is not freed: whoever would have done it leaves it to the last holder. The
 * count is the object's `id`. */
void redis_memory_hold(struct object *object);
void redis_memory_release(struct object *object);
bool redis_memory_is_held(const struct object *object);

/* Objects that wait for that thread. */
uint64_t redis_memory_waiting(void);

/* Returns whether this is the server's main thread, and the server is over maxmemory, so it evicts keys. */
bool redis_memory_is_short(void);

/* Called once, by the server's main thread. */
void redis_memory_start(void);

/* Waits for it to end, with everything freed; called when the module is unloaded. */
void redis_memory_stop(void);

#endif
