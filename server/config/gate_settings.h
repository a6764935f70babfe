/*
 * gate_settings.h - the settings for a gate.
 *
 *     gate products source=sqlite:///var/lib/shop.db keys=products(sku) follow=changes
 *
 * One table of names, types and defaults serves the configuration file, the API and the documentation
 * (docs/sources.md). Values are text such as 10k, 0.1%, 250ms or yes.
 */
#ifndef SERVER_CONFIG_GATE_SETTINGS_H
#define SERVER_CONFIG_GATE_SETTINGS_H

#include "bloomgate/all.h"
#include "source/source.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum gate_fail { GATE_FAIL_OPEN = 0, GATE_FAIL_CLOSED = 1 };

struct gate_settings {
    char *name; /* 1 to 40 letters, digits, '-', '_' and '.' */
    /* The source: see source.h. */
    char *source;
    char *keys, *lookup;
    char *follow, *promise;
    bool rows; /* BG.ROW may return the row that `lookup` selects */
    bool install;
    uint32_t key; /* an enum source_key */
    double poll;  /* in seconds, like all times in this struct */
    double timeout;
    uint32_t connections;
    /* How long the filter's "no" is trusted after the follower last caught up. */
    double max_lag;
    double save; /* interval at which the filter is saved */
    /* The filter. */
    double rate;
    uint32_t kind; /* a bg_kind: auto, the Bloom kinds, or scalable */
    double headroom;
    uint64_t capacity; /* minimum capacity */
    /* The gate: see gate.h. */
    /* An enum gate_fail: the outcome of a lookup when the source fails. */
    uint32_t fail;
    double audit;
    uint32_t negative_entries;
    double negative_ttl; /* 0 disables the negative cache */
    uint32_t breaker_failures;
    double breaker_rest;
    bool single_flight;
    /* When to rebuild: see bg_policy. */
    double maintain; /* interval at which the policy is evaluated */
    double rebuild_fill, rebuild_predicted, rebuild_observed;
    double rebuild; /* maximum age of a filter; 0 means no limit */
};

/* Sets the name (copied) and all defaults. Errors: BG_EINVAL for an invalid name; BG_ENOMEM. */
bg_err gate_settings_init(struct gate_settings *settings, const char *name,
                          bg_errinfo *info);
void gate_settings_free(struct gate_settings *settings);
bg_err gate_settings_copy(struct gate_settings *to, const struct gate_settings *from);

/* Sets one setting. Errors: BG_ENOTFOUND for an unknown name; BG_EINVAL for an invalid value. In both cases, the
 * message states what was expected. */
bg_err gate_settings_set(struct gate_settings *settings, const char *key,
                         const char *value, bg_errinfo *info);

/* Checks that all required settings are present and that the settings are consistent. Does not connect. */
bg_err gate_settings_check(const struct gate_settings *settings, bg_errinfo *info);

/* Calls `tell` for each mistake that gate_settings_check would find. If not `whole`, some settings
 * could not be set, and checks that may fail only because of them are skipped. */
void gate_settings_mistakes(const struct gate_settings *settings, bool whole,
                            source_tell *tell, void *context);

/* These functions read row i of the table. gate_settings_name returns NULL after the last row. gate_settings_default
 * returns "" if there is no default, and NULL if the setting is required. */
const char *gate_settings_name(size_t i);
const char *gate_settings_summary(size_t i);
const char *gate_settings_default(size_t i);

/* Returns the settings for source_create. The pointers in the result refer to `settings`. */
struct source_settings gate_settings_source(const struct gate_settings *settings);

#endif
