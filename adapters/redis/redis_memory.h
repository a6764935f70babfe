/*
 * redis_memory.h - allocates memory for filters from the server, so that this memory is part of
 * used_memory and counts toward maxmemory. Also frees large filters without blocking the server.
 */
#ifndef REDIS_MEMORY_H
#define REDIS_MEMORY_H

#include "object.h"
#include "redis_api.h"

/* An allocator that returns aligned memory from the server. When memory runs out, it returns NULL
 * instead of aborting the server. Thread-safe. */
extern const bg_allocator redis_allocator;

/* Returns the number of bytes allocated from redis_allocator. */
uint64_t redis_memory_used(void);

/*
 * Switches the guard on or off. While it is on, allocations by this thread that do not fit into
 * maxmemory are refused. This is necessary because a command of a few bytes can require gigabytes,
 * and the server checks its memory only before each command. With an eviction policy, a command may
 * allocate up to an eighth of maxmemory even if there is no free memory, just as the server's own
 * commands may. Call it only on the server's main thread, and do not switch the guard on for data
 * from a primary or a file.
 */
void redis_memory_guard(bool on);

/* Returns whether `bytes` more bytes fit into maxmemory. If they do, later allocations are not
 * refused until the next call or until the guard is switched off, even if `bytes` was
 * underestimated. */
bool redis_memory_grant(uint64_t bytes);

/* Returns whether an allocation has been refused since the guard was switched on. */
bool redis_memory_refused(void);

/* Offers the allocations of an object to the server, which moves some of them to reduce
 * fragmentation. Returns nonzero if allocations remain to be offered; in that case, call the
 * function again. Does not move an object that is held. */
int redis_memory_defrag(RedisModuleDefragCtx *ctx, struct object **object);

/* Enables or disables defragmentation (default: enabled). */
void redis_memory_let_move(bool on);

/* Returns the number of bytes that the server counts for an object. Returns 0 if the object is
 * held, or if the server did not allocate its memory. Main thread only. */
size_t redis_memory_of(struct object *object);

/* Returns the number of allocations moved so far. */
uint64_t redis_memory_moves(void);

/*
 * Frees an object that is no longer in the keyspace. On the server's main thread, a large object is
 * freed by a background thread, and the call waits up to a millisecond for it. While the server is
 * over maxmemory, the call waits up to a second for the memory to be freed, because otherwise the
 * server would evict more keys than necessary. Other threads, such as the server's lazy-free
 * thread, free the object immediately.
 */
void redis_memory_free_object(struct object *object);

/* Hold and release an object. A held object is not freed until its last holder releases it. The
 * number of holders is stored in the object's `id`. */
void redis_memory_hold(struct object *object);
void redis_memory_release(struct object *object);
bool redis_memory_is_held(const struct object *object);

/* Returns the number of objects that the background thread has yet to free. */
uint64_t redis_memory_waiting(void);

/* Returns true if called on the server's main thread while the server is over maxmemory and
 * therefore evicting keys. */
bool redis_memory_is_short(void);

/* Initializes the module's memory management. Call it once, on the server's main thread. */
void redis_memory_start(void);

/* Stops the background thread after it has freed all objects. Called when the module is
 * unloaded. */
void redis_memory_stop(void);

#endif
