/* hash_pile.c - see hash_pile.h. */
#include "hash_pile.h"

#include <stdlib.h>
#include <string.h>

enum { PILE_FIRST = 1024 };

static bool pile_grow(struct hash_pile *pile, size_t n)
{
    const size_t most = SIZE_MAX / sizeof *pile->hashes / 2;
    size_t room = pile->room ? pile->room : PILE_FIRST;
    while (room - pile->count < n) {
        if (room > most) {
            return false;
        }
        room += room / 2;
    }
    uint64_t *grown = realloc(pile->hashes, room * sizeof *grown);
    if (!grown) {
        return false;
    }
    pile->hashes = grown;
    pile->room = room;
    return true;
}

bool hash_pile_add(struct hash_pile *pile, const uint64_t *hashes, size_t n)
{
    if (pile->room - pile->count < n && !pile_grow(pile, n)) {
        return false;
    }
    if (n) {
        memcpy(pile->hashes + pile->count, hashes, n * sizeof *hashes);
        pile->count += n;
    }
    return true;
}

void hash_pile_end(struct hash_pile *pile)
{
    free(pile->hashes);
    *pile = (struct hash_pile){ .hashes = NULL };
}
