/* name_table.c - changes a table; see name_table.h. */
#include "gate/name_table.h"

#include "base/checked.h"

enum { NAME_TABLE_MIN = 64 };

struct name_table *name_table_make(uint64_t n, const bg_allocator *allocator)
{
    uint64_t cells = NAME_TABLE_MIN, bytes = 0;
    size_t size;
    while (cells / 2 < n && cells < (uint64_t)1 << 40) {
        cells *= 2;
    }
    struct bgi_memory memory;
    if (!bgi_mul_u64(cells, sizeof(struct name_cell), &bytes)
        || !bgi_add_u64(bytes, sizeof(struct name_table), &bytes)
        || !bgi_fits_size(bytes, &size)
        || !bgi_memory_take(&memory, size, allocator, false)) {
        return NULL;
    }
    struct name_table *table = memory.base;
    table->memory = memory;
    table->cells = cells;
    return table;
}

void name_table_release(struct bgi_retired *retired)
{
    struct bgi_memory memory = ((struct name_table *)(void *)retired)->memory;
    bgi_memory_give(&memory);
}

bool name_table_has_room(const struct name_table *table)
{
    return table->used < table->cells / 4 * 3;
}

void name_table_put(struct name_table *table, uint64_t hash, void *thing)
{
    const uint64_t mask = table->cells - 1;
    uint64_t i = hash & mask;
    while (atomic_load_explicit(&table->cell[i].thing, memory_order_relaxed)) {
        i = (i + 1) & mask;
    }
    atomic_store_explicit(&table->cell[i].hash, hash, memory_order_relaxed);
    atomic_store(&table->cell[i].thing, thing);
    table->used++;
}

void name_table_take(struct name_table *table, uint64_t hash, const void *thing)
{
    const uint64_t mask = table->cells - 1;
    for (uint64_t i = hash & mask;; i = (i + 1) & mask) {
        void *there = atomic_load_explicit(&table->cell[i].thing, memory_order_relaxed);
        if (there == thing) {
            atomic_store(&table->cell[i].thing, (void *)table);
        }
        if (there == thing || !there) {
            return;
        }
    }
}
