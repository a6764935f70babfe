/*
 * name_table.h - a hash table with wait-free readers, which finds tenants by the hashes of their
 * names.
 *
 * The table uses open addressing with linear probing. The number of cells is a power of two, and at
 * most three quarters of them are used. A table never grows. When it is full, the writer replaces
 * it with a larger table (registry.c).
 *
 *     cells   [ hash, tenant ][ 0, NULL ][ hash, deleted ][ hash, tenant ] ...
 *
 * A cell whose tenant was removed is marked as deleted by making it point to the table itself.
 *
 * Invariants
 *   (N1) A cell changes from empty to a tenant and then to deleted, and never back. The hash of a
 *        cell is written once, before its tenant. So a reader that sees a tenant sees its hash.
 *   (N2) There is always an empty cell, at which every search ends.
 *   (N3) Only one thread at a time changes a table, while any number of threads may read it.
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
    _Atomic(void *) thing; /* NULL if the cell is empty */
};

struct name_table {
    struct bgi_retired retired; /* must be first */
    struct bgi_memory memory;
    uint64_t cells; /* a power of two */
    uint64_t used;  /* number of used cells, including deleted cells */
    struct name_cell cell[];
};

/* Creates a table with space for at least n entries. Returns NULL if out of memory. */
struct name_table *name_table_make(uint64_t n, const bg_allocator *allocator);

/* Frees a table. Pass this function to bgi_grace_retire. */
void name_table_release(struct bgi_retired *retired);

/* Returns whether there is space for one more entry. */
bool name_table_has_room(const struct name_table *table);

/* Inserts an entry. The table must have space for it. */
void name_table_put(struct name_table *table, uint64_t hash, void *thing);

/* Removes an entry. */
void name_table_take(struct name_table *table, uint64_t hash, const void *thing);

/*
 * Returns the entry with this hash for which `is` returns true, or NULL. `is` is called only for
 * entries with this hash. These entries stay alive until the reader leaves its read-side critical
 * section.
 */
static inline void *name_table_find(const struct name_table *table, uint64_t hash,
                                    bool (*is)(const void *thing, const char *name),
                                    const char *name)
{
    const uint64_t mask = table->cells - 1;
    for (uint64_t i = hash & mask;; i = (i + 1) & mask) {
        /* This load is sequentially consistent, as the proof in grace.h requires for loads of
         * pointers to objects that may be retired later. */
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
