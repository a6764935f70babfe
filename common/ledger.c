/* ledger.c - see ledger.h. Each part has its own cache line. */
#include "ledger.h"

#include <stdatomic.h>
#include <stdio.h>

enum { LEDGER_SHARE = 16, LEDGER_LEAVES = 64 << 20 };

static struct {
    _Alignas(64) _Atomic uint64_t used;
} ledger_parts[LEDGER_PARTS];

_Atomic uint64_t ledger_most;
static _Atomic uint64_t ledger_highest;

/* Per-thread state. */
_Thread_local bool ledger_has_refused; /* whether ledger_wanted or ledger_why is set */
static _Thread_local bool ledger_is_exempt;
static _Thread_local uint64_t
    ledger_wanted;                          /* size of the last refused request, or 0 */
static _Thread_local uint64_t ledger_found; /* bytes in use when memory was refused */

static _Thread_local struct ledger_budget *ledger_own_budget;
static _Thread_local char
    ledger_why[LEDGER_WHY]; /* why a budget refused memory, or "" */

void ledger_limit(uint64_t bytes)
{
    atomic_store(&ledger_most, bytes);
}

uint64_t ledger_used_by(enum ledger_part part)
{
    return atomic_load_explicit(&ledger_parts[part].used, memory_order_relaxed);
}

uint64_t ledger_used(void)
{
    uint64_t sum = 0;
    for (int i = 0; i < LEDGER_PARTS; i++) {
        sum += ledger_used_by((enum ledger_part)i);
    }
    return sum;
}

uint64_t ledger_peak(void)
{
    const uint64_t used = ledger_used();
    uint64_t peak = atomic_load_explicit(&ledger_highest, memory_order_relaxed);
    while (peak < used && !atomic_compare_exchange_weak(&ledger_highest, &peak, used)) {
    }
    return peak < used ? used : peak;
}

/* Updates the peak after a part has grown. */
static void ledger_grew(enum ledger_part part)
{
    if (part != LEDGER_BUFFERS) {
        (void)ledger_peak();
    }
}

/* Returns the share reserved for buffers. Small buffers may also exceed the limit by this
 * amount. */
static uint64_t ledger_share(uint64_t most)
{
    const uint64_t share = most / LEDGER_SHARE;
    return share < LEDGER_LEAVES ? share : LEDGER_LEAVES;
}

/* Returns whether the parts together exceed the limit. Unless `part` is LEDGER_BUFFERS, the whole
 * share reserved for buffers counts as used, even if buffers use less. */
static bool ledger_is_over(enum ledger_part part, uint64_t most)
{
    const uint64_t share = part == LEDGER_BUFFERS ? 0 : ledger_share(most);
    const uint64_t buffers = ledger_used_by(LEDGER_BUFFERS);
    uint64_t sum = buffers > share ? buffers : share;
    for (int i = 0; i < LEDGER_PARTS; i++) {
        sum += i == LEDGER_BUFFERS ? 0 : ledger_used_by((enum ledger_part)i);
    }
    return sum > most;
}

void ledger_add(enum ledger_part part, uint64_t bytes)
{
    atomic_fetch_add_explicit(&ledger_parts[part].used, bytes, memory_order_relaxed);
    ledger_grew(part);
}

static bool ledger_is_budgeted(enum ledger_part part)
{
    return ledger_own_budget && !ledger_is_exempt
           && (part == LEDGER_FILTERS || part == LEDGER_TRANSFERS);
}

/* Charges the thread's budget. */
static bool ledger_take(enum ledger_part part, uint64_t bytes)
{
    if (!ledger_is_budgeted(part)
        || ledger_own_budget->take(ledger_own_budget, bytes, ledger_why)) {
        return true;
    }
    ledger_has_refused = true;
    return false;
}

struct ledger_budget *ledger_set_budget(struct ledger_budget *budget)
{
    struct ledger_budget *before = ledger_own_budget;
    ledger_own_budget = budget;
    return before;
}

bool ledger_lease(struct ledger_lease *lease, uint64_t bytes)
{
    *lease = (struct ledger_lease){ .end = NULL };
    if (!ledger_is_budgeted(LEDGER_TRANSFERS)
        || ledger_own_budget->lease(ledger_own_budget, bytes, lease, ledger_why)) {
        return true;
    }
    ledger_has_refused = true;
    return false;
}

void ledger_lease_end(const struct ledger_lease *lease)
{
    if (lease->end) {
        lease->end(lease->owner, lease->bytes);
    }
}

void ledger_refused(const char *why)
{
    (void)snprintf(ledger_why, sizeof ledger_why, "%s", why);
    ledger_has_refused = true;
}

bool ledger_add_on_budget(enum ledger_part part, uint64_t bytes)
{
    if (!ledger_take(part, bytes)) {
        return false;
    }
    ledger_add(part, bytes);
    return true;
}

void ledger_release(enum ledger_part part, uint64_t bytes)
{
    if (ledger_is_budgeted(part)) {
        ledger_own_budget->give(ledger_own_budget, bytes);
    }
    atomic_fetch_sub_explicit(&ledger_parts[part].used, bytes, memory_order_relaxed);
}

/* Records a refusal for ledger_refusal. Returns false. */
static bool ledger_refuse(uint64_t bytes)
{
    ledger_has_refused = true;
    ledger_why[0] = 0;
    ledger_wanted = bytes ? bytes : 1;
    ledger_found = ledger_used();
    return false;
}

/* Counts before checking, so that at most one of two threads that reserve the last bytes
 * succeeds. */
bool ledger_reserve(enum ledger_part part, uint64_t bytes)
{
    const uint64_t most = atomic_load_explicit(&ledger_most, memory_order_relaxed);
    if (!ledger_take(part, bytes)) {
        return false;
    }
    if (!most || ledger_is_exempt) {
        ledger_add(part, bytes);
        return true;
    }
    const uint64_t alone =
        part == LEDGER_BUFFERS ? most / 2 : most - ledger_share(most);
    if (bytes <= alone) {
        const uint64_t before = atomic_fetch_add(&ledger_parts[part].used, bytes);
        atomic_thread_fence(memory_order_seq_cst);
        if (before <= alone - bytes && !ledger_is_over(part, most)) {
            ledger_grew(part);
            return true;
        }
        ledger_release(part, bytes);
    } else if (ledger_is_budgeted(part)) {
        ledger_own_budget->give(ledger_own_budget, bytes);
    }
    return ledger_refuse(bytes);
}

bool ledger_reserve_small(uint64_t bytes)
{
    const uint64_t most = atomic_load_explicit(&ledger_most, memory_order_relaxed);
    const uint64_t share = ledger_share(most);
    ledger_add(LEDGER_BUFFERS, bytes);
    if (!most || ledger_is_exempt || ledger_used_by(LEDGER_BUFFERS) <= 2 * share
        || ledger_used() <= most + share) {
        return true;
    }
    ledger_release(LEDGER_BUFFERS, bytes);
    return ledger_refuse(bytes);
}

bool ledger_is_full_for(uint64_t most)
{
    return ledger_is_over(LEDGER_FILTERS, most);
}

bool ledger_exempt(bool exempt)
{
    const bool before = ledger_is_exempt;
    ledger_is_exempt = exempt;
    return before;
}

bool ledger_refusal(char why[LEDGER_WHY])
{
    const uint64_t wanted = ledger_wanted;
    ledger_wanted = 0;
    if (ledger_why[0]) {
        (void)snprintf(why, LEDGER_WHY, "%s", ledger_why);
        ledger_why[0] = 0;
        return true;
    }
    if (wanted) {
        (void)snprintf(why, LEDGER_WHY,
                       "cannot allocate %llu bytes (maxmemory: %llu, in use: %llu)",
                       (unsigned long long)wanted,
                       (unsigned long long)atomic_load(&ledger_most),
                       (unsigned long long)ledger_found);
    }
    return wanted != 0;
}

void ledger_forget_refusal(void)
{
    ledger_has_refused = false;
    ledger_why[0] = 0;
    ledger_wanted = 0;
}
