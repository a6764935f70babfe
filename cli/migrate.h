/*
 * migrate.h - copies one filter from RedisBloom, valkey-bloom or Bloomgate to a server that runs
 * Bloomgate; used by cmd_migrate.c.
 *
 * The source is only read. DUMP returns a snapshot of the filter, which is converted to a Bloomgate
 * dump (dump.h); BG.DUMP returns such a dump. The dump is loaded under a temporary name in the same
 * slot. It is then read back and compared bit by bit, and its expiration time is set. Finally, it
 * is renamed: with RENAMENX, or with RENAME if it replaces a different filter.
 *
 * Invariants
 *   (M1) A filter gets its final name on the target only after it is complete and verified.
 *   (M2) A name that exists on the target is replaced only with --replace.
 *   (M3) A filter that is already on the target, with the same bits, is not copied. An interrupted
 *        migration is therefore resumed by running it again, without a state file.
 *   (M4) All keys that were added before DUMP or BG.DUMP ran are in the copy.
 */
#ifndef CLI_MIGRATE_H
#define CLI_MIGRATE_H

#include "cluster_client.h"

struct migrate_pair {
    struct cluster *source, *target;
    bool dry_run, replace;
};

enum migrate_result {
    MIGRATE_COPIED,  /* copied and verified; in a dry run: would be copied */
    MIGRATE_SAME,    /* the target already has the same filter */
    MIGRATE_DIFFERS, /* the target has a different key with this name */
    MIGRATE_GONE,    /* the filter was deleted or has expired on the source */
    MIGRATE_FAILED,
    MIGRATE_RESULTS
};

struct migrate_filter {
    bg_bytes name;
    bool dumps;     /* a filter of type bloomgate, which is read with BG.DUMP */
    uint64_t bytes; /* size of the filter in its file format */
    int64_t
        ttl; /* remaining time on the source in milliseconds; -1 if it does not expire */
    bool replaces;  /* a different filter has been or would be replaced */
    bg_errinfo why; /* for MIGRATE_FAILED and MIGRATE_DIFFERS */
};

/* Copies the filter with this name. If `why` contains BG_ECANCELED, the caller must stop. */
enum migrate_result migrate_copy(const struct migrate_pair *pair,
                                 struct migrate_filter *filter);

#endif
