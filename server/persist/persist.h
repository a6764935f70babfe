/*
 * persist.h - persistence: the journal, snapshots, and loading filters at startup.
 *
 * persist.c describes the order of operations. One process owns one data directory.
 */
#ifndef SERVER_PERSIST_H
#define SERVER_PERSIST_H

#include "catalog/catalog.h"
#include "config/settings.h"

struct persist;
struct server;

/* Opens the data directory without reading it. Returns BG_EBUSY if another process has it
 * open. */
bg_err persist_create(struct server *server, struct persist **persist,
                      bg_errinfo *info);

/* Waits for a snapshot that is running in the background, as persist_free does. NULL is allowed. */
void persist_stop(struct persist *persist);

/* Writes the remaining records. Returns false on failure, in which case the last changes may be
 * lost. NULL is allowed. */
bool persist_free(struct persist *persist);

/* Syncs all records to disk before the process ends without persist_free. Returns false on failure,
 * in which case the last changes may be lost. NULL is allowed. Thread-safe. */
bool persist_sync(struct persist *persist);

/* Loads all filters into the empty catalog and opens the journal for writing. From then on, changes
 * to the catalog are recorded. `progress`, which may be NULL, is called with the number of loaded
 * filters and the total. */
bg_err persist_load(struct persist *persist,
                    void (*progress)(void *context, uint64_t done, uint64_t all),
                    void *context, bg_errinfo *info);

/* persist_doubts returns whether a name that is not in the catalog may have been the name of a
 * filter (doubt.h). persist_name_is_free marks a name as free. Thread-safe. */
bool persist_doubts(const struct persist *persist, bg_bytes name);
void persist_name_is_free(struct persist *persist, bg_bytes name);

/* Records a change to an object. Must be called inside a batch or while holding the entry.
 * Thread-safe. */
bg_err persist_record(struct persist *persist, struct entry *entry,
                      const struct change *change, bg_errinfo *info);

/* Saves an object that has no name yet, so that it can be named together with its content.
 * Slow. */
bg_err persist_save(struct persist *persist, struct object *object,
                    struct entry_base *base, bg_errinfo *info);

/* Deletes a base that was never recorded. */
void persist_discard(struct persist *persist, struct entry_base *base);

/* Saves an object to a file after its whole content has changed, and records that file. Slow.
 * Thread-safe. */
bg_err persist_checkpoint(struct persist *persist, struct entry *entry,
                          bg_errinfo *info);

/* Saves all changed objects and deletes old journal segments. Slow. Concurrent calls run one after
 * another. Errors include BG_EBUSY if persist_load has not finished. */
bg_err persist_snapshot(struct persist *persist, bg_errinfo *info);

/* ---- Delaying replies until their records are durable ---------------------------------- */

/* persist_tail returns the number of the last record so far. persist_safe returns the highest
 * number N such that all records up to N are as durable as the policy requires. */
uint64_t persist_tail(const struct persist *persist);
uint64_t persist_safe(const struct persist *persist);

/* Applies settings that are about to be published. The settings listener (settings.h) calls this
 * function for one change at a time, so an older policy never replaces a newer one. */
void persist_apply(struct persist *persist, const struct settings *settings);

/* Called at the end of an event-loop iteration. Writes pending records to the OS, unless the policy
 * is `always`; in that case, the journal's thread writes and syncs the records. Returns BG_EIO if
 * the journal has failed. */
bg_err persist_flush(struct persist *persist, bg_errinfo *info);

/* Sets the callback that the journal's thread calls when persist_safe has increased. */
void persist_on_safe(struct persist *persist, void (*told)(void *context),
                     void *context);

/* Returns whether persist_tick has found that the data directory was removed or replaced at run
 * time. */
bool persist_is_displaced(const struct persist *persist);

/* Returns whether changes can be recorded; if not, sets `why`. */
bool persist_works(const struct persist *persist, char why[BG_ERR_MESSAGE_MAX]);

/* ---- Periodic work ----------------------------------------------------------------------- */

/* Starts a snapshot in the background if one is due because of the time since the last snapshot or
 * the journal's size. Also checks whether the data directory has been removed or replaced. */
void persist_tick(struct persist *persist);

/* Statistics for INFO, metrics and the dashboard. */
struct persist_stats {
    uint64_t journal_bytes, journal_segments, frames, syncs;
    uint64_t unsynced; /* number of frames that are not yet on disk */
    uint64_t snapshots, snapshot_failures;
    uint64_t last_snapshot; /* milliseconds since 1970, or 0 if there is none */
    double last_snapshot_seconds;
    /* How long a snapshot has been overdue. */
    double overdue_seconds;
    uint64_t loaded_filters, replayed_records, torn_bytes, lost_frames;
    /* number of unused filter files that are kept because they may still be needed */
    uint64_t files_kept;
    double load_seconds;
    bool snapshotting, failed;
    bool names_in_doubt; /* doubt.h */
    char failure[BG_ERR_MESSAGE_MAX];
    /* Error message from the last snapshot, or "" if it succeeded. */
    char snapshot_failure[BG_ERR_MESSAGE_MAX];
};
void persist_about(const struct persist *persist, struct persist_stats *stats);

#endif
