/*
 * redis_memory.h - allocates the memory of filters from the server, so that it is part of
 * used_memory and counts toward maxmemory. Also frees large filters without blocking the server.
 */
#ifndef REDIS_MEMORY_H
#define REDIS_MEMORY_H

#include "object.h"
#include "redis_api.h"

/* The server's memory, aligned. Never aborts the server if memory is short. Thread-safe. */
extern const bg_allocator redis_allocator;

/* Returns the number of bytes allocated from redis_allocator. */
uint64_t redis_memory_used(void);

/*
 * Switches the guard on or off. While it is on, allocations of this thread that do not fit into
 * maxmemory are refused: a command of a few bytes can require gigabytes, and the server checks
 * its memory only before a command. With an eviction policy, a command may allocate up to an
 * eighth of maxmemory even if there is no free memory, as other commands may. Call it on the
 * server's main thread, and not for data from a primary or a file.
 */
void redis_memory_guard(bool on);

/* Returns whether `bytes` fit. If they do, later allocations are not refused until the next call
 * or the end of the guard, even if `bytes` was too low an estimate. */
bool redis_memory_grant(uint64_t bytes);

/* Returns whether an allocation was refused since the guard was switched on. */
bool redis_memory_refused(void);

/* Moves the allocations of an object that the server wants to defragment. Returns nonzero if some
 * are left: call again. An object that is held is not moved. */
int redis_memory_defrag(RedisModuleDefragCtx *ctx, struct object **object);

/* Enables or disables defragmentation, which is enabled at first. */
void redis_memory_let_move(bool on);

/* Returns the bytes that the server counts for an object; 0 if this cannot be determined now, or
 * the memory is not the server's. Main thread only. */
size_t redis_memory_of(struct object *object);

/* Returns the number of allocations moved so far. */
uint64_t redis_memory_moves(void);

/*
 * Frees an object that is no longer in the keyspace. On the server's main thread, a large object
 * is freed by a background thread, and the call waits for at most a millisecond. While the server
 * is over maxmemory, the call waits until the memory is free, because the server is evicting keys
 * and would otherwise evict more of them. Other threads, such as the server's thread for lazy
 * freeing, free at once.
 */
void redis_memory_free_object(struct object *object);

/* Hold and release an object. While it is held, it is not freed: freeing is left to the last
 * holder. The count is stored in the object's `id`. */
void redis_memory_hold(struct object *object);
void redis_memory_release(struct object *object);
bool redis_memory_is_held(const struct object *object);

/* Returns the number of objects that the background thread has yet to free. */
uint64_t redis_memory_waiting(void);

/* Returns whether this is the server's main thread and the server is over maxmemory, so that it
 * evicts keys. */
bool redis_memory_is_short(void);

/* Initializes the module's memory. Call it once, on the server's main thread. */
void redis_memory_start(void);

/* Stops the thread after everything is freed. Called when the module is unloaded. */
void redis_memory_stop(void);

#endif
