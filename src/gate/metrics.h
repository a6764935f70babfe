/*
 * metrics.h - facts about filters, and the table that maps them to metrics.
 *
 *     slot, gate, tenant  --metrics_gather-->  struct metrics_facts, one per object
 *     registry, process                              |
 *                                                    v
 *     metrics_families: name, type, unit, help,  metrics_document  -->  sink
 *     and the offsets of the values in the facts
 *
 * All facts are collected before any are written, because the samples of a family must be
 * contiguous across all filters, and because values that require reading every byte should be
 * computed only once. While the sink runs, nothing is pinned or locked.
 *
 * Counters among the facts never decrease from one collection to the next, because a monitoring
 * system would interpret a decrease as a restart and treat the entire count as an increase.
 */
#ifndef BGI_METRICS_H
#define BGI_METRICS_H

#include "bloomgate/metrics.h"

#include "base/memory.h"

/* Bits that indicate which facts are known. */
enum {
    METRICS_PROCESS = 1u << 0,
    METRICS_SLOT = 1u << 1,
    METRICS_FAILED = 1u << 2, /* a reload or rebuild has failed */
    METRICS_HEALTH = 1u << 3, /* all bytes of the filters were read */
    METRICS_GATE = 1u << 4,
    METRICS_DRIFT = 1u << 5, /* METRICS_GATE and METRICS_HEALTH */
    METRICS_TENANT = 1u << 6,
    METRICS_REGISTRY = 1u << 7,
    METRICS_BASE = 1u << 8, /* a slot with a base */
    METRICS_EVERYTHING = (1u << 9) - 1
};

enum { METRICS_OUTCOMES = 6 };

struct metrics_facts {
    const char *name; /* value of the label `filter`, or NULL */
    uint32_t has;     /* METRICS_SLOT and so on */

    /* METRICS_PROCESS */
    const char *version, *cpu;

    /* METRICS_SLOT, _BASE, _FAILED */
    const char *kind, *hash, *failure;
    char digest[BG_DIGEST_TEXT_BYTES];
    uint64_t layers, size, degraded;
    uint64_t maybes, noes;
    uint64_t news, seen, refused;
    uint64_t swaps, reloads, reload_unchanged, reload_failures;
    uint64_t rebuilds, rebuild_failures, compactions;
    uint64_t retired, complete, generation, rebuilding, migrating;
    double base_age;

    /* METRICS_HEALTH */
    uint64_t capacity, overflowed, polluted, rate_health;
    double items, items_low, items_high;
    double fill, target, predicted;
    double measured, measured_low, measured_high;
    double bits_per_insert, honest_per_insert;

    /* METRICS_GATE, _DRIFT */
    uint64_t outcomes[METRICS_OUTCOMES];
    uint64_t store_calls, store_errors;
    double store_seconds;
    uint64_t avoided, wasted, shared, reported;
    uint64_t breaker, breaker_opened, breaker_spared;
    uint64_t audits, false_negatives;
    uint64_t writes, write_errors;
    uint64_t negative_entries, negative_hits;
    uint64_t doubtful, drifting;
    double observed, observed_low, observed_high;

    /* METRICS_TENANT */
    uint64_t tenant_items;
    uint64_t limited_items, limited_bytes, limited_rate;

    /* METRICS_TENANT or METRICS_REGISTRY */
    uint64_t evictions, returns, return_failures;

    /* METRICS_REGISTRY */
    uint64_t in_memory, in_directory, included, registry_bytes, created, removed,
        limited;
};

enum metrics_type { METRICS_COUNTER, METRICS_GAUGE, METRICS_INFO };

/* The C type of a fact. */
enum metrics_form { METRICS_WHOLE, METRICS_REAL, METRICS_TEXT, METRICS_CHARS };

struct metrics_value {
    /* The label value, or the label name in an info metric. NULL ends the list. */
    const char *label;
    uint32_t offset; /* offset in struct metrics_facts */
    enum metrics_form form;
};

enum { METRICS_VALUES = METRICS_OUTCOMES + 1 };

/* A family of metrics. A family's values differ in the label `by`, if there is one. The values of
 * an info metric are its labels. */
struct metrics_family {
    const char *name; /* the family's name in Prometheus */
    const char *unit; /* the name's suffix (before _total), or "" */
    const char *by;   /* or NULL */
    const char *help;
    enum metrics_type type;
    uint32_t needs; /* METRICS_SLOT or another METRICS_ bit */
    struct metrics_value values[METRICS_VALUES];
};

/* The table of all metrics (metrics_table.c). */
const struct metrics_family *metrics_families(size_t *n);

/* Writes the facts as a document (metrics_document.c). */
bg_err metrics_document(const struct metrics_facts *facts, size_t n,
                        bg_metrics_format format, bg_metrics_sink_fn sink,
                        void *context, bg_errinfo *info);

/* Returns BG_EINVAL if the format, the flags or the sink are invalid (metrics_document.c). */
bg_err metrics_check(bg_metrics_format format, uint32_t flags, bg_metrics_sink_fn sink,
                     bg_errinfo *info);

/* Allocates zeroed memory for the facts about n objects. The facts about one object occupy `each`
 * bytes, including any data associated with them. Returns NULL if out of memory (metrics.c). */
struct metrics_facts *metrics_take(struct bgi_memory *memory, size_t n, size_t each,
                                   bg_errinfo *info);

/* These functions fill in zeroed facts about the process, or about a slot and a gate. If `slot` is
 * NULL, the gate's slot is used. `gate` is NULL if there is none. Defined in metrics.c. */
void metrics_gather_process(struct metrics_facts *facts);
bg_err metrics_gather(const bg_slot *slot, const bg_gate *gate,
                      const bg_slot_health *known, uint32_t flags,
                      struct metrics_facts *facts, bg_errinfo *info);

#endif
