/*
 * mover.h - an allocator with movable blocks, for relocation tests. Every block moves to a
 * different address, at a different offset within a page. The old block is overwritten and freed,
 * so that later reads of it are detected by a sanitizer or return garbage.
 *
 *     struct movable m;
 *     movable_start(&m);
 *     spec.allocator = &m.hooks;
 *     ...
 *     bg_filter_relocate(&filter, &m.mover);
 *     CHECK_EQ(m.live, 0); // once everything has been freed
 *
 * If `secret` is set, `leaks` counts the blocks that contain the secret when they are offered to
 * the mover.
 */
#ifndef MOVER_H
#define MOVER_H

#include "bloomgate/all.h"
#include "support/check.h"

#include <stdlib.h>
#include <string.h>

struct movable {
    bg_allocator hooks;
    bg_mover mover;
    size_t live;     /* blocks in use */
    size_t offered;  /* blocks offered to the mover; counted only if keep is not 0 */
    size_t moved;    /* blocks that were moved */
    size_t keep;     /* every keep-th block stays in place; if 0, all blocks move */
    size_t mistakes; /* calls with the wrong size or alignment for the block */
    size_t leaks;    /* offered blocks that contained the secret */
    const uint8_t *secret; /* BG_SECRET_BYTES bytes, or NULL */
    size_t turn;
};

/* Precedes every block. */
struct movable_head {
    void *given;
    size_t bytes, alignment;
};

static inline void *movable_allocate(void *context, size_t bytes, size_t alignment,
                                     bool zeroed)
{
    struct movable *m = context;
    const size_t aside = m->turn++ % 7 * alignment;
    char *given = malloc(sizeof(struct movable_head) + 8 * alignment + bytes);
    if (!given) {
        return NULL;
    }
    const uintptr_t from = (uintptr_t)given + sizeof(struct movable_head);
    char *memory = given + sizeof(struct movable_head)
                   + (alignment - from % alignment) % alignment + aside;
    const struct movable_head head = { given, bytes, alignment };
    memcpy(memory - sizeof head, &head, sizeof head);
    memset(memory, zeroed ? 0 : 0xa5, bytes);
    m->live++;
    return memory;
}

static inline struct movable_head movable_head(const void *memory)
{
    struct movable_head head;
    memcpy(&head, (const char *)memory - sizeof head, sizeof head);
    return head;
}

static inline void movable_release(void *context, void *memory, size_t bytes)
{
    struct movable *m = context;
    const struct movable_head head = movable_head(memory);
    m->mistakes += head.bytes != bytes;
    m->live--;
    memset(memory, 0xdd, bytes);
    free(head.given);
}

static inline bool movable_has_secret(const struct movable *m, const void *memory,
                                      size_t bytes)
{
    for (size_t i = 0; m->secret && i + BG_SECRET_BYTES <= bytes; i++) {
        if (memcmp((const char *)memory + i, m->secret, BG_SECRET_BYTES) == 0) {
            return true;
        }
    }
    return false;
}

static inline void *movable_move(void *context, void *memory, size_t bytes,
                                 size_t alignment)
{
    struct movable *m = context;
    const struct movable_head head = movable_head(memory);
    m->mistakes += head.bytes != bytes || head.alignment != alignment;
    m->leaks += movable_has_secret(m, memory, bytes);
    if (m->keep && m->offered++ % m->keep == 0) {
        return NULL;
    }
    void *to = movable_allocate(m, bytes, alignment, 0);
    CHECK(to != NULL);
    memcpy(to, memory, bytes);
    movable_release(m, memory, bytes);
    m->moved++;
    return to;
}

/* Initializes `m`, which must not be moved afterwards. */
static inline void movable_start(struct movable *m)
{
    memset(m, 0, sizeof *m);
    m->hooks = (bg_allocator){ movable_allocate, movable_release, m };
    m->mover = (bg_mover){ movable_move, m };
}

#endif
