/*
 * gate_settings.h - the settings of a gate of the service.
 *
 *     gate products source=sqlite:///var/lib/shop.db keys=products(sku) follow=changes
 *
 * One table of names, types and defaults feeds the configuration file, the API and the documentation
 * (docs/sources.md). Values are text as people write it: 10k, 0.1%, 250ms, yes.
 */
#ifndef SERVER_GATE_SETTINGS_H
#define SERVER_GATE_SETTINGS_H

#include "bloomgate/bloomgate.h"
#include "source.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum gate_fail { GATE_FAIL_OPEN = 0, GATE_FAIL_CLOSED = 1 };

struct gate_settings {
    char *name; /* 1 to 40 letters, digits, '-', '_' and '.' */
    /* the source: see source.h */
    char *source;
    char *keys, *lookup;
    char *follow, *promise;
    bool install;
    uint32_t key; /* an enum source_key */
    double poll;  /* seconds, as all times here */
    double timeout;
    uint32_t connections;
    double
        max_lag; /* how long after the follower last caught up the filter's "no" counts */
    double save; /* how often the filter is saved */
    /* the filter */
    double rate;
    uint32_t kind; /* a bg_kind: auto, the Bloom kinds, or scalable */
    double headroom;
    uint64_t capacity; /* at least */
    /* the gate: see gate.h */
    uint32_t fail; /* an enum gate_fail: what a look-up is when the source fails */
    double audit;
    uint32_t negative_entries;
    double negative_ttl; /* 0: no negative cache */
    uint32_t breaker_failures;
    double breaker_rest;
    bool single_flight;
    /* when to rebuild: see bg_policy */
    double maintain; /* how often that is asked for */
    double rebuild_fill, rebuild_predicted, rebuild_observed;
    double rebuild; /* so often, in any case; 0: not for that */
};

/* All defaults, and the name (copied). Errors: BG_EINVAL for a name that is none. */
bg_err gate_settings_init(struct gate_settings *settings, const char *name,
                          bg_errinfo *info);
void gate_settings_free(struct gate_settings *settings);
bg_err gate_settings_copy(struct gate_settings *to, const struct gate_settings *from);

/* Sets one. Errors: BG_ENOTFOUND for an unknown name; BG_EINVAL for a value that will not do;
 * both say what was expected. */
bg_err gate_settings_set(struct gate_settings *settings, const char *key,
                         const char *value, bg_errinfo *info);

/* Whether together they make a gate: what is required is there and fits. Connects to nobody. */
bg_err gate_settings_check(const struct gate_settings *settings, bg_errinfo *info);

/* The table: the name of setting i (NULL beyond the last), what it is, its default as text
 * ("" : none, NULL: it is required), and its value as text that gate_settings_set takes, but
 * for the password of a source. */
const char *gate_settings_name(size_t i);
const char *gate_settings_summary(size_t i);
const char *gate_settings_default(size_t i);
void gate_settings_show(const struct gate_settings *settings, size_t i, char *text,
                        size_t room);

/* As source_create takes them; points into the settings. */
struct source_settings gate_settings_source(const struct gate_settings *settings);

#endif
