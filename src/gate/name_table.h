/*
 * name_table.h - a hash table whose readers never wait: of tenants by the hashes of their
 * names.
 *
 * Open addressing, linear probing, a power of two of cells that are at most three quarters
 * in use. The table itself never grows: whoever has no room makes a larger one and
 * replaces it (registry.c).
 *
 *     cells   [ hash, tenant ][ 0, NULL ][ hash, gone ][ hash, tenant ] ...
 *
 * A cell whose tenant was taken out points to the table itself: gone.
 *
 * Invariants
 *   (N1) A cell changes from empty to a tenant to gone and never back. Its hash is written
 *        before its tenant, once. So a reader that sees a tenant sees its hash.
 *   (N2) There is always an empty cell, at which every search ends.
 *   (N3) Only one thread at a time changes a table; any number read it.
 */
#ifndef BGI_NAME_TABLE_H
#define BGI_NAME_TABLE_H

#include "base/grace.h"
#include "base/memory.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct name_cell {
    _Atomic uint64_t hash;
    _Atomic(void *) thing; /* NULL: empty */
};

struct name_table {
    struct bgi_retired retired; /* must be first */
    struct bgi_memory memory;
    uint64_t cells; /* a power of two */
    uint64_t used;  /* of them, those gone included */
    struct name_cell cell[];
};

/* A table with room for n things and some more; NULL: no memory. */
struct name_table *name_table_make(uint64_t n, const bg_allocator *allocator);

/* For bgi_grace_retire. */
void name_table_release(struct bgi_retired *retired);

/* Whether one more can be put. */
bool name_table_has_room(const struct name_table *table);

/* Puts a thing; there must be room. */
void name_table_put(struct name_table *table, uint64_t hash, void *thing);

/* Takes a thing out. */
void name_table_take(struct name_table *table, uint64_t hash, const void *thing);

/*
 * The thing with that hash of which `is` says that it is the one; NULL: none. `is` sees only
 * things with the hash, which are alive as long as the reader is in the grace period.
 */
static inline void *name_table_find(const struct name_table *table, uint64_t hash,
                                    bool (*is)(const void *thing, const char *name),
                                    const char *name)
{
    const uint64_t mask = table->cells - 1;
    for (uint64_t i = hash & mask;; i = (i + 1) & mask) {
        /* Sequentially consistent: the proof of grace.h needs that of the load by which
         * something that is retired later was found. */
        void *thing = atomic_load(&table->cell[i].thing);
        if (!thing) {
            return NULL;
        }
        if (atomic_load_explicit(&table->cell[i].hash, memory_order_relaxed) == hash
            && thing != (const void *)table && is(thing, name)) {
            return thing;
        }
    }
}

#endif
