/*
 * ledger.h - the memory of a process that clients can cause it to take, counted in one place.
 *
 *     if (!ledger_reserve(LEDGER_TRANSFERS, n)) {
 *         ... an error: ledger_refusal says which limit would be exceeded ...
 *     }
 *     bytes = malloc(n);                         asked before, so the limit holds
 *     ...
 *     free(bytes);
 *     ledger_release(LEDGER_TRANSFERS, n);
 *
 * What is counted is what was asked for, whether or not its pages have been touched, so a limit is
 * a limit on what can come. Without one (0, as at first) memory is counted and nothing is refused.
 *
 * Parts. Filters, objects and transfers leave a sixteenth of the limit, at most 64 MiB, to buffers:
 * clients can be answered when filters have taken all that they may. Buffers take half of it at
 * most, so that unfinished requests cannot keep everybody from adding.
 *
 * Cost: one atomic addition, and four loads where something can be refused.
 * Thread safety: MT-Safe. A refusal is of the thread that was refused.
 */
#ifndef COMMON_LEDGER_H
#define COMMON_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ledger_part {
    LEDGER_FILTERS,   /* what the library takes: filters, and work on them */
    LEDGER_OBJECTS,   /* names and what describes a filter */
    LEDGER_BUFFERS,   /* requests and replies on their way */
    LEDGER_TRANSFERS, /* copies of filters: dumps, loads, verification */
    LEDGER_PARTS
};

/* The limit of all parts together; 0: none. */
void ledger_limit(uint64_t bytes);

/* Counts bytes that are about to be allocated; false: that would exceed the limit, and nothing is
 * counted. */
bool ledger_reserve(enum ledger_part part, uint64_t bytes);

/* Counts bytes without asking: small pieces, whose number is limited elsewhere by ledger_is_full. */
void ledger_add(enum ledger_part part, uint64_t bytes);

/* Takes back either. */
void ledger_release(enum ledger_part part, uint64_t bytes);

/* Whether filters, objects and transfers have no more room. */
bool ledger_is_full(void);

/* What this thread reserves from now on is never refused, or may be again: work that must not fail
 * because clients have taken all memory, such as snapshots. Returns what it was before. */
bool ledger_exempt(bool exempt);

/* Why this thread was refused memory since the last call, or since ledger_forget; false: it was
 * not. */
enum { LEDGER_WHY = 160 };
bool ledger_refusal(char why[LEDGER_WHY]);
void ledger_forget(void);

uint64_t ledger_used(void); /* by all parts */
uint64_t ledger_used_by(enum ledger_part part);

#endif
