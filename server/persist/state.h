/*
 * persist/state.h - shared by persist.c (recording, saving, snapshots) and recover.c (loading).
 */
#ifndef SERVER_PERSIST_STATE_H
#define SERVER_PERSIST_STATE_H

#include "journal/journal.h"
#include "persist/pack.h"
#include "persist/persist.h"

#include <pthread.h>
#include <stdatomic.h>

enum { PERSIST_PATH = 4096 };

/* The base of an object whose content is lost has this file name; no such file exists. If the name
 * is "lost-" followed by a file name, that file contains part of the content and is kept as long as
 * the object exists. */
#define PERSIST_LOST "lost"

/* A file that no object needs. It is deleted once the records that make it obsolete are on disk. */
struct retired {
    struct retired *next;
    char file[sizeof((struct entry_base *)0)->file];
};

struct persist {
    struct server *server;
    /* The data directory. Filter files are in its subdirectory `filters`. */
    char folder[PERSIST_PATH - 256];
    struct journal *journal;
    /* Names in doubt, or NULL if there are none. Set before the service accepts requests. */
    struct doubt *doubt;
    /* Until loading is complete, only the loading thread uses the journal. */
    _Atomic bool loaded;
    _Atomic bool failing;      /* the journal is full or has failed */
    _Atomic bool displaced;    /* the data directory was removed or replaced */
    pthread_mutex_t told_lock; /* protects the fields below */
    char failure[BG_ERR_MESSAGE_MAX];
    struct persist_stats stats;
    uint64_t left;           /* size of the journal after the last snapshot */
    uint64_t snapshot_ticks; /* time of the last snapshot or of startup */

    void (*on_safe)(void *context);
    void *on_safe_context;

    /* Serializes checkpoints and snapshots; entry->base is written only while this lock is held. */
    pthread_mutex_t saving;
    pthread_mutex_t retired_lock;
    struct retired *retired;
    struct packs *packs;
    size_t pack_from; /* minimum number of objects in a pack; changed by tests */

    pthread_t thread; /* the background snapshot thread */
    bool thread_joinable;
    _Atomic bool thread_running;
    /* Tick (clock_ticks) at which to try again after a failure. */
    _Atomic uint64_t next_try;
    /* Tick at which a snapshot became due, or 0 if none is due. */
    _Atomic uint64_t wanted_since;
};

/* Builds the path of a filter's file. */
void persist_path(const struct persist *persist, const char *file,
                  char path[PERSIST_PATH]);

/* persist_is_lost returns whether the content of a base is lost; persist_lose marks it as lost. */
bool persist_is_lost(const struct entry_base *base);
void persist_lose(struct entry_base *base);

/* Returns the name of a base's file or, if the base is lost, the name of its previous file. Returns
 * "" if there is none. */
const char *persist_file(const char *file);

/* Fills in `info` with a message and returns `code`. */
bg_err persist_fail(bg_errinfo *info, bg_err code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Read or write n bytes at an offset. Return the number of bytes transferred, which is less
 * than n at end of file or on error. */
size_t persist_read_at(int fd, void *to, size_t n, uint64_t offset);
size_t persist_write_at(int fd, const void *from, size_t n, uint64_t offset);

/* Returns whether a file name belongs to a base, including a base that is being written. */
bool persist_is_base(const char *name);

/* Computes the digest of a foreign filter, which has no checksum of its own. */
void persist_foreign_digest(const void *bytes, size_t n,
                            char digest[BG_DIGEST_TEXT_BYTES]);

/* Called by the journal's thread to report the state of the journal. */
void persist_told(void *context, uint64_t durable, const bg_errinfo *failure);

/* Starts recording changes to the catalog. */
void persist_hook(struct persist *persist);

#endif
