/*
 * ledger.h - counts all memory that clients can make the process allocate.
 *
 *     if (!ledger_reserve(LEDGER_TRANSFERS, n)) {
 *         ... an error: ledger_refusal describes the exceeded limit ...
 *     }
 *     bytes = malloc(n);                         already reserved, so the limit holds
 *     ...
 *     free(bytes);
 *     ledger_release(LEDGER_TRANSFERS, n);
 *
 * The ledger counts requested bytes, whether or not their pages have been touched. If the limit is
 * 0, which is the default, memory is counted, but nothing is refused.
 *
 * Parts. A sixteenth of the limit, at most 64 MiB, is reserved for buffers, so that clients get
 * replies even if filters have used all other memory. Buffers may use at most half of the limit, so
 * that unfinished requests cannot block all adds. Small buffers may exceed both limits, by another
 * sixteenth of the whole limit in total, so that ordinary requests work even if large requests have
 * used all memory.
 *
 * Cost: one atomic addition, plus four loads if there is a limit or the part is not
 * LEDGER_BUFFERS. Thread safety: MT-Safe.
 * Refusals are recorded per thread.
 */
#ifndef COMMON_LEDGER_H
#define COMMON_LEDGER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ledger_part {
    LEDGER_FILTERS,   /* memory used by the library: filters and working memory */
    LEDGER_OBJECTS,   /* names and metadata of filters */
    LEDGER_BUFFERS,   /* requests and replies in transit */
    LEDGER_TRANSFERS, /* copies of filters: dumps, loads, verification */
    LEDGER_PARTS
};

/* For the inline functions below, which every add calls. */
extern _Atomic uint64_t ledger_most;
extern _Thread_local bool ledger_has_refused;
bool ledger_is_full_for(uint64_t most);
void ledger_forget_refusal(void);

/* Sets the limit for all parts together; 0 means no limit. */
void ledger_limit(uint64_t bytes);

/* Counts bytes that are about to be allocated. Returns false, and counts nothing, if the bytes
 * would exceed the limit. */
bool ledger_reserve(enum ledger_part part, uint64_t bytes);

/* Counts bytes for small buffers and connections. Returns false, and counts nothing, only if
 * buffers use more than twice their reserved share, and all parts together exceed the limit by more
 * than a sixteenth (at most 64 MiB). Clients are therefore served even if filters exceed a limit
 * that was lowered. */
bool ledger_reserve_small(uint64_t bytes);

/* Counts bytes unconditionally, for small allocations. Callers limit their number by checking
 * ledger_is_full. */
void ledger_add(enum ledger_part part, uint64_t bytes);

/* Releases bytes counted by ledger_reserve, ledger_reserve_small or ledger_add. */
void ledger_release(enum ledger_part part, uint64_t bytes);

/* Returns whether filters, objects and transfers have used up their share. */
static inline bool ledger_is_full(void)
{
    const uint64_t most = atomic_load_explicit(&ledger_most, memory_order_relaxed);
    return most && ledger_is_full_for(most);
}

/* Sets whether this thread's reservations are exempt from the limit. Use it for work, such as
 * snapshots, that must succeed even if clients have used all memory. Returns the previous value. */
bool ledger_exempt(bool exempt);

/* Describes the last allocation that was refused to this thread since the previous call to
 * ledger_refusal or ledger_forget. Returns false if none was refused. */
enum { LEDGER_WHY = 320 };
bool ledger_refusal(char why[LEDGER_WHY]);

static inline void ledger_forget(void)
{
    if (ledger_has_refused) {
        ledger_forget_refusal();
    }
}

/* Memory that stays reserved by the owner of a budget after the request has ended. */
struct ledger_lease {
    void (*end)(void *owner, uint64_t bytes); /* NULL: nothing is reserved */
    void *owner;
    uint64_t bytes;
};

/*
 * A budget limits the memory that one request may use, in addition to the limit for all parts. While
 * a thread has a budget, its reservations in LEDGER_FILTERS and LEDGER_TRANSFERS are passed to
 * `take`. If `take` refuses a reservation, it writes the reason to `why`. Released bytes are passed
 * to `give`. `lease` reserves memory that the process keeps after the request, or refuses it in the
 * same way.
 */
struct ledger_budget {
    bool (*take)(struct ledger_budget *budget, uint64_t bytes, char why[LEDGER_WHY]);
    void (*give)(struct ledger_budget *budget, uint64_t bytes);
    bool (*lease)(struct ledger_budget *budget, uint64_t bytes,
                  struct ledger_lease *lease, char why[LEDGER_WHY]);
};

/* Sets the budget of this thread; NULL means none. Returns the previous budget. */
struct ledger_budget *ledger_set_budget(struct ledger_budget *budget);

/* Reserves bytes on the thread's budget until ledger_lease_end is called, by any thread. The caller
 * has already counted them for a part. Returns false, and reserves nothing, if the bytes exceed the
 * budget. */
bool ledger_lease(struct ledger_lease *lease, uint64_t bytes);
void ledger_lease_end(const struct ledger_lease *lease);

/* Records a reason for ledger_refusal, for a budget that was checked elsewhere. */
void ledger_refused(const char *why);

/* Like ledger_add, but returns false, and counts nothing, if the bytes exceed the thread's
 * budget. */
bool ledger_add_on_budget(enum ledger_part part, uint64_t bytes);

uint64_t ledger_used(void); /* all parts together */
uint64_t ledger_used_by(enum ledger_part part);

/* Returns the maximum of ledger_used so far. Buffers are counted at their size when another part grew
 * or this function was called, so that small requests stay cheap. */
uint64_t ledger_peak(void);

#endif
