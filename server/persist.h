/*
 * persist.h - what survives: the journal, snapshots of filters, and how they are read again.
 *
 * See persist.c for the order of things. All is for one data folder, held by one process.
 */
#ifndef SERVER_PERSIST_H
#define SERVER_PERSIST_H

#include "catalog.h"
#include "settings.h"

struct persist;
struct server;

/* Opens the folder, without reading it. BG_EBUSY: another process has it. */
bg_err persist_create(struct server *server, struct persist **persist,
                      bg_errinfo *info);

/* Writes the remaining records. Returns false if that failed: the last changes may be lost. */
bool persist_free(struct persist *persist);

/* Reads everything into the empty catalogue, and opens the journal for writing; from then on
 * the catalogue's changes are recorded. `progress`, which may be NULL, is told how far it is. */
bg_err persist_load(struct persist *persist,
                    void (*progress)(void *context, uint64_t done, uint64_t all),
                    void *context, bg_errinfo *info);

/* Return whether a name that is not in the catalog may have been the name of a filter (doubt.h), and mark it
 * as free. MT-Safe. */
bool persist_doubts(const struct persist *persist, bg_bytes name);
void persist_name_is_free(struct persist *persist, bg_bytes name);

/* Records a change of an object. From inside of a batch, or of somebody who holds the entry.
 * MT-Safe. */
bg_err persist_record(struct persist *persist, struct entry *entry,
                      const struct change *change, bg_errinfo *info);

/* Saves an object that has no name yet, so that it can be given one with its content. Slow. */
bg_err persist_save(struct persist *persist, struct object *object,
                    struct entry_base *base, bg_errinfo *info);

/* Deletes a base that nothing was told of. */
void persist_discard(struct persist *persist, struct entry_base *base);

/* The object has changed wholesale: saves it to a file, and records that. Slow. MT-Safe. */
bg_err persist_checkpoint(struct persist *persist, struct entry *entry,
                          bg_errinfo *info);

/* Saves all that changed, and lets go of old parts of the journal. Slow; one after the other. Errors: BG_EBUSY
 * before persist_load has ended, among others. */
bg_err persist_snapshot(struct persist *persist, bg_errinfo *info);

/* The same in a thread of its own; false: one is running. From one thread. */
bool persist_snapshot_start(struct persist *persist);

/* ---- Replies wait until what was recorded is safe ------------------------------------------ */

/* The number of the last record so far; whether all up to a number is as safe as asked for. */
uint64_t persist_tail(const struct persist *persist);
uint64_t persist_safe(const struct persist *persist);

/* Applies settings that are about to be published. One change at a time: the listener of settings.h calls it,
 * so an older policy never replaces a newer one. */
void persist_apply(struct persist *persist, const struct settings *settings);

/* At the end of an iteration of an event loop: hands what was recorded to the system, if the
 * policy is not `always`, for which a thread does it, and syncs. BG_EIO: the journal has failed. */
bg_err persist_flush(struct persist *persist, bg_errinfo *info);

/* Who is told when persist_safe has grown: called from the journal's thread. */
void persist_on_safe(struct persist *persist, void (*told)(void *context),
                     void *context);

/* Returns whether persist_tick found that the data directory was removed or replaced at run time. */
bool persist_is_displaced(const struct persist *persist);

/* Whether changes can be recorded; else why not. */
bool persist_works(const struct persist *persist, char why[256]);

/* ---- From time to time ---------------------------------------------------------------------- */

/* Starts a snapshot in a thread of its own when the settings ask for one: by age, by size of the
 * journal. Changes of appendfsync take effect here, too, and a removed or replaced data directory is
 * detected here. */
void persist_tick(struct persist *persist);

/* For INFO, metrics and the dashboard. */
struct persist_stats {
    uint64_t journal_bytes, journal_segments, frames, syncs;
    uint64_t unsynced; /* frames that are not on the disk */
    uint64_t snapshots, snapshot_failures;
    uint64_t last_snapshot; /* milliseconds since 1970; 0: none */
    double last_snapshot_seconds;
    double
        overdue_seconds; /* since the settings ask for a snapshot that is not there */
    uint64_t loaded_filters, replayed_records, torn_bytes, lost_frames;
    uint64_t files_kept; /* files that no filter uses, but that may still be needed */
    double load_seconds;
    bool snapshotting, failed;
    bool names_in_doubt; /* doubt.h */
    char failure[256];
    char snapshot_failure[256]; /* of the last one; "": it succeeded */
};
void persist_about(const struct persist *persist, struct persist_stats *stats);

#endif
