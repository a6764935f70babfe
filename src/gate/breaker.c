/*
 * breaker.c - see breaker.h.
 *
 * One word holds the state, the number of consecutive failures, and a sequence number that
 * changes with every state change:
 *
 *     bits 0, 1     state; the fourth state is TURNING
 *     bits 2 - 33   consecutive failures, while CLOSED
 *     bits 34 - 63  sequence number
 *
 * Invariants
 *   (B1) The word is changed by compare-and-swap from the value on which the decision was
 *        based. So a result that belongs to an earlier state has no effect: a failure is counted
 *        only in the state in which it occurred, and only the latest trial counts.
 *   (B2) `since` is the time at which the state OPEN or TRYING was entered. The thread that enters
 *        the state sets `since`. It first changes the state to TURNING, which this thread owns and
 *        which allows no calls. Then it writes `since` and changes to the new state. So no thread
 *        ever combines a state with the start time of a different state.
 *   (B3) If the clock goes backward, the rest period counts as over, because time differences are
 *        unsigned. The backing store is then tried too early, never too late.
 *
 * The sequence numbers wrap around after 2^30 state changes, which takes about 2^29 rest periods.
 */
#include "gate/breaker.h"

#define BREAKER_TURNING     UINT64_C(3)
#define BREAKER_STATE       UINT64_C(3)
#define BREAKER_FAILURE     (UINT64_C(1) << 2)
#define BREAKER_FAILURES(w) ((uint32_t)((w) >> 2))
#define BREAKER_NUMBER(w)   ((w) >> 34)

void bgi_breaker_init(struct bgi_breaker *breaker, uint32_t failures, uint64_t rest)
{
    breaker->failures = failures;
    breaker->rest = rest;
    atomic_init(&breaker->word, BGI_BREAKER_CLOSED);
    atomic_init(&breaker->since, 0);
    atomic_init(&breaker->opened, 0);
}

static uint64_t breaker_word(const struct bgi_breaker *breaker)
{
    return atomic_load_explicit(&breaker->word, memory_order_acquire);
}

/* Returns the word for `state`, with the next sequence number. Sequence numbers start at 1, so that
 * no trial number is 0. */
static uint64_t breaker_next(uint64_t word, uint64_t state)
{
    uint64_t number = (BREAKER_NUMBER(word) + 1) & ((UINT64_C(1) << 30) - 1);
    return (number ? number : 1) << 34 | state;
}

/* Changes from `word` to OPEN or TRYING, in two steps (B2). Returns false if another thread
 * changed the word first. */
static bool breaker_turn(struct bgi_breaker *breaker, uint64_t word, uint64_t state,
                         uint64_t now)
{
    uint64_t turning = breaker_next(word, BREAKER_TURNING);
    if (!atomic_compare_exchange_strong(&breaker->word, &word, turning)) {
        return false;
    }
    atomic_store_explicit(&breaker->since, now, memory_order_relaxed);
    atomic_store_explicit(&breaker->word, (turning & ~BREAKER_STATE) | state,
                          memory_order_release);
    return true;
}

enum bgi_breaker_state bgi_breaker_state(const struct bgi_breaker *breaker)
{
    uint64_t state = breaker_word(breaker) & BREAKER_STATE;
    return state == BREAKER_TURNING ? BGI_BREAKER_OPEN : (enum bgi_breaker_state)state;
}

bool bgi_breaker_is_closed(const struct bgi_breaker *breaker)
{
    return (breaker_word(breaker) & BREAKER_STATE) == BGI_BREAKER_CLOSED;
}

bool bgi_breaker_allows(struct bgi_breaker *breaker, uint64_t now, uint64_t *trial)
{
    uint64_t word = breaker_word(breaker);
    *trial = 0;
    if ((word & BREAKER_STATE) == BGI_BREAKER_CLOSED) {
        return true;
    }
    uint64_t since = atomic_load_explicit(&breaker->since, memory_order_relaxed);
    if ((word & BREAKER_STATE) == BREAKER_TURNING || now - since < breaker->rest
        || !breaker_turn(breaker, word, BGI_BREAKER_TRYING, now)) {
        return false;
    }
    *trial = BREAKER_NUMBER(breaker_next(word, 0));
    return true;
}

/* Returns whether `trial` is the current trial. */
static bool breaker_is_tried(uint64_t word, uint64_t trial)
{
    return trial && (word & BREAKER_STATE) == BGI_BREAKER_TRYING
           && BREAKER_NUMBER(word) == trial;
}

enum bgi_breaker_turn bgi_breaker_worked(struct bgi_breaker *breaker, uint64_t trial)
{
    uint64_t word = breaker_word(breaker);
    while ((word & BREAKER_STATE) == BGI_BREAKER_CLOSED && BREAKER_FAILURES(word)) {
        uint64_t none = word - BREAKER_FAILURES(word) * BREAKER_FAILURE;
        if (atomic_compare_exchange_weak(&breaker->word, &word, none)) {
            return BGI_BREAKER_STAYS;
        }
    }
    return breaker_is_tried(word, trial)
                   && atomic_compare_exchange_strong(
                       &breaker->word, &word, breaker_next(word, BGI_BREAKER_CLOSED))
               ? BGI_BREAKER_CLOSES
               : BGI_BREAKER_STAYS;
}

enum bgi_breaker_turn bgi_breaker_failed(struct bgi_breaker *breaker, uint64_t trial,
                                         uint64_t now)
{
    uint64_t word = breaker_word(breaker);
    if (!breaker->failures) {
        return BGI_BREAKER_STAYS;
    }
    while ((word & BREAKER_STATE) == BGI_BREAKER_CLOSED) {
        if (BREAKER_FAILURES(word) + UINT64_C(1) >= breaker->failures) {
            if (breaker_turn(breaker, word, BGI_BREAKER_OPEN, now)) {
                atomic_fetch_add(&breaker->opened, 1);
                return BGI_BREAKER_OPENS;
            }
            word = breaker_word(breaker);
        } else if (atomic_compare_exchange_weak(&breaker->word, &word,
                                                word + BREAKER_FAILURE)) {
            return BGI_BREAKER_STAYS;
        }
    }
    if (breaker_is_tried(word, trial)) {
        (void)breaker_turn(breaker, word, BGI_BREAKER_OPEN, now);
    }
    return BGI_BREAKER_STAYS;
}
