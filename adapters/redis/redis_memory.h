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
 * While the guard is on, what this thread takes has to fit into maxmemory, and is refused otherwise:
 * a command of a few bytes can ask for gigabytes, and the server looks at its memory before commands
 * only. Where it evicts keys, a command may take up to an eighth of maxmemory even if there is no room,
 * as other commands do. The server's main thread; not for what a primary or a file says.
 */
void redis_memory_guard(bool on);

/* Whether something was refused since the guard was switched on. */
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
 * Frees an object that nobody can find any more. The server's main thread has a large one freed by a
 * thread of its own, for which it waits a millisecond at most; but while the server is over maxmemory
 * it waits until the memory is back, since the server is evicting keys and would evict others
 * instead. Other threads, such as the server's own for lazy freeing, free at once.
 */
void redis_memory_free_object(struct object *object);

/* While an object is held it is not freed: whoever would have done it leaves it to the last holder. The
 * count is the object's `id`. */
void redis_memory_hold(struct object *object);
void redis_memory_release(struct object *object);
bool redis_memory_is_held(const struct object *object);

/* Objects that wait for that thread. */
uint64_t redis_memory_waiting(void);

/* Whether this is the server's main thread, and the server is over maxmemory: it evicts keys. */
bool redis_memory_is_short(void);

/* Called once, by the server's main thread. */
void redis_memory_start(void);

/* Waits for it to end, with everything freed; called when the module is unloaded. */
void redis_memory_stop(void);

#endif
