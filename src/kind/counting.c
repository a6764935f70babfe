/*
 * counting.c - a filter with counters instead of bits, so that keys can be removed.
 *
 * Idea. This is a Bloom filter whose bits are small counters. An add increments a key's k
 * counters, a remove decrements them, and the filter may contain a key if none of its counters is
 * 0 (Fan, Cao, Almeida, Broder, "Summary cache", 1998). Four bits suffice in practice: at the
 * optimal fill, a counter reaches 15 with a probability of about 1e-15, if no key is added more
 * than once. A counter that has reached its maximum stays there. Its true value is then unknown,
 * but a counter that is too high can only cause a false "maybe", which is harmless; a false "no"
 * would not be. bg_filter_info.saturated reports the number of such counters.
 *
 * Layout. If a key's counters are scattered over the filter, every operation reads k cache lines,
 * which is slow. Here all counters of a key are in one unit of 128 counters, with at most one in
 * each of 8 lanes of 16. With 4-bit counters, a unit is one cache line.
 *
 *            lane 0            lane 1                    lane 7
 *      [ 3 . . 1 . ... ] [ . . 2 . . ... ]  ...  [ . 1 . . . ... ]     16 x 4 bits each
 *
 * The counter in lane j has the index (x * salt[j]) >> 28, where x is the low 32 bits of the
 * hash. A key uses k of the 8 lanes, as in `blocked` (line_shapes.h). Small units fill unevenly,
 * which costs memory: 44 bits per key at 1%, compared with 38 for scattered counters
 * (BG_SPEC_SCATTERED), and 78 bits compared with 58 at 0.1%. Wider counters, for callers that
 * need the number of times a key was added, use the same layout, but then a unit spans 2, 4 or 8
 * lines, and a key touches up to that many lines.
 *
 * Removing a key that was never added. The filter cannot always tell whether a key was added. If
 * one of the key's counters is 0, the key was never added, and the remove changes nothing. If all
 * of the key's counters are above 0 by chance (which happens for a fraction `rate` of absent keys),
 * the counters belong to other keys, and a remove could make those keys disappear. So only keys
 * that were added may be removed; see bg_filter_remove.
 *
 * Invariants
 *   (I1) A counter below its maximum equals the number of adds minus the number of removes of the
 *        keys that use it (in a scattered filter, a key that uses the same counter twice counts
 *        twice).
 *   (I2) A saturated counter never changes again.
 *   (I3) The high 52 bits of the hash select the unit, and the low 32 bits select the counters in
 *        it.
 */
#include "base/bits.h"
#include "bloomgate/spec.h"
#include "kind/kind.h"
#include "kind/line_shapes.h"
#include "kind/model.h"
#include "kind/sample.h"

#include <string.h>

enum {
    COUNTING_UNIT = 128, /* counters per unit */
    COUNTING_LANES = 8,
    COUNTING_LANE = COUNTING_UNIT / COUNTING_LANES,
    COUNTING_SHIFT = 28, /* the top 4 of 32 bits select one of 16 counters */
    COUNTING_LOCKS = 64
};

/* The same multiplier as in scatter_core.h. */
static const uint64_t counting_multiplier = 0xd1342543de82ef95u;

/* The pattern of lanes for each k from 1 to 8, as a bit mask with lane 0 in the lowest bit, as in
 * blocked.c. */
static const uint8_t counting_patterns[COUNTING_LANES + 1] = {
    0, 0x01, 0x03, 0x0b, 0x17, 0x2f, 0x3f, 0x7f, 0xff,
};

struct counting_state {
    uint64_t saturated; /* number of counters at their maximum */
    unsigned char locks[COUNTING_LOCKS];
};

struct counting_place {
    uint64_t *word;
    unsigned shift;
};

struct counting_walk {
    unsigned char *base;
    uint64_t x;
    uint32_t lanes; /* lanes still to be visited */
};

static size_t counting_state_bytes(uint64_t units, uint32_t k)
{
    (void)units, (void)k;
    return sizeof(struct counting_state);
}

static void counting_setup(struct bgi_core *core)
{
    if (core->k > COUNTING_LANES) {
        return; /* scattered */
    }
    uint32_t pattern = counting_patterns[core->k];
    for (uint32_t r = 0; r < COUNTING_LANES; r++) {
        core->rotations[r] =
            (uint16_t)((pattern << r | pattern >> (COUNTING_LANES - r)) & 0xff);
    }
}

static void counting_copied(struct bgi_core *to, const struct bgi_core *from)
{
    struct counting_state *copy = to->state;
    const struct counting_state *state = from->state;
    copy->saturated = __atomic_load_n(&state->saturated, __ATOMIC_RELAXED);
}

/* Returns the number of counters of `width` bits that are at their maximum. */
static uint64_t counting_at_most(const struct bgi_core *core, uint64_t bytes,
                                 unsigned width)
{
    const uint64_t *words = (const uint64_t *)(const void *)core->words;
    const uint64_t most = UINT64_MAX >> (64 - width);
    uint64_t count = 0;
    for (uint64_t i = 0; i < bytes / 8; i++) {
        for (unsigned shift = 0; shift < 64; shift += width) {
            count += (words[i] >> shift & most) == most;
        }
    }
    return count;
}

/* Acquires and returns the lock for the unit at offset `at`. */
static unsigned char *counting_lock(struct bgi_core *core, uint64_t at)
{
    struct counting_state *state = core->state;
    unsigned char *lock = &state->locks[at / 64 % COUNTING_LOCKS];
    while (__atomic_test_and_set(lock, __ATOMIC_ACQUIRE)) {
        while (__atomic_load_n(lock, __ATOMIC_RELAXED)) {
            bgi_pause();
        }
    }
    return lock;
}

static void counting_unlock(unsigned char *lock)
{
    __atomic_clear(lock, __ATOMIC_RELEASE);
}

static const struct bgi_kind *counting_pick(uint32_t width, uint32_t flags);

#define COUNTING_WIDTH     4
#define COUNTING_SCATTERED 0
#include "kind/counting_core.h"
#define COUNTING_WIDTH     8
#define COUNTING_SCATTERED 0
#include "kind/counting_core.h"
#define COUNTING_WIDTH     16
#define COUNTING_SCATTERED 0
#include "kind/counting_core.h"
#define COUNTING_WIDTH     32
#define COUNTING_SCATTERED 0
#include "kind/counting_core.h"
#define COUNTING_WIDTH     4
#define COUNTING_SCATTERED 1
#include "kind/counting_core.h"
#define COUNTING_WIDTH     8
#define COUNTING_SCATTERED 1
#include "kind/counting_core.h"
#define COUNTING_WIDTH     16
#define COUNTING_SCATTERED 1
#include "kind/counting_core.h"
#define COUNTING_WIDTH     32
#define COUNTING_SCATTERED 1
#include "kind/counting_core.h"

static const struct bgi_kind *counting_pick(uint32_t width, uint32_t flags)
{
    static const struct bgi_kind *const all[] = {
        &bgi_kind_counting,  &counting_kind_8_0,  &counting_kind_16_0,
        &counting_kind_32_0, &counting_kind_4_1,  &counting_kind_8_1,
        &counting_kind_16_1, &counting_kind_32_1, NULL,
    };
    width = width ? width : 4;
    for (size_t i = 0; all[i]; i++) {
        if (all[i]->width == width && all[i]->flags == flags) {
            return all[i];
        }
    }
    return NULL;
}
