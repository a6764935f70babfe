/*
 * pack.h - files that contain many small objects.
 *
 * A separate file for each of a million small filters would cost a million inodes and two syncs per
 * file. A snapshot therefore writes the small filters of a batch to one pack: complete filter
 * files, compressed (squeeze.h) and stored back to back. An object's base then refers to part of a
 * pack, as "NAME.pack@OFFSET+LENGTH", instead of naming a file.
 *
 * A pack is written once and synced before anything refers to it. struct packs counts the
 * references to each pack; a pack without references is deleted. If less than half of a pack is in
 * use, the next snapshot saves the pack's objects again, so packs occupy at most about twice the
 * size of their live content.
 */
#ifndef SERVER_PERSIST_PACK_H
#define SERVER_PERSIST_PACK_H

#include "bloomgate/all.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PACK_NAME = 64, PACK_REFERENCE = 96 };

/* Returns whether a reference points to a part of a pack. Any other reference is a file name, or
 * "". */
bool pack_is_reference(const char *reference);

/* Compares the file names in two references, as strcmp does. */
int pack_compare(const char *a, const char *b);

/* ---- Reading ------------------------------------------------------------------------------- */

/* Reads parts from the packs in a directory. The last pack that was read stays open, because parts
 * are read in order. */
struct pack_reader {
    const char *folder;
    int fd;               /* -1 if no pack is open */
    char name[PACK_NAME]; /* name of the open pack */
};

void pack_reader_begin(struct pack_reader *reader, const char *folder);
void pack_reader_end(struct pack_reader *reader);

/* Reads a part. The caller frees *bytes with free(). Errors: BG_EIO; BG_EFORMAT for a malformed
 * reference or part, or a pack that is too short; BG_ENOMEM. */
bg_err pack_read(struct pack_reader *reader, const char *reference, void **bytes,
                 size_t *n, bg_errinfo *info);

/* ---- Writing ------------------------------------------------------------------------------- */

struct pack_writer;

/* Starts a pack with a new name, such as "3f0c.pack". */
bg_err pack_begin(const char *folder, const char *name, struct pack_writer **writer,
                  bg_errinfo *info);

/* Appends a part. Errors: BG_EINVAL if the part is too large for a pack; BG_EIO. */
bg_err pack_append(struct pack_writer *writer, const void *bytes, size_t n,
                   char reference[PACK_REFERENCE], bg_errinfo *info);

/* Syncs the pack. The pack's name is durable only after the directory has been synced as well. */
bg_err pack_finish(struct pack_writer *writer, bg_errinfo *info);
void pack_close(struct pack_writer *writer); /* `writer` may be NULL */

/* ---- Packs in use ------------------------------------------------------------------------ */

/* The packs in a directory, with their reference counts. Thread-safe. */
struct packs;

struct packs *packs_create(void); /* NULL: out of memory */
void packs_free(struct packs *packs);

/* Adds a reference. References to plain files are ignored. Returns false if out of memory. */
bool packs_hold(struct packs *packs, const char *reference);

/* Reads the sizes of all packs that are in use. A pack whose file was deleted counts as sparse. */
void packs_measure(struct packs *packs, const char *folder);

/* Adds a reference to every pack so that no pack is deleted. */
void packs_keep(struct packs *packs);

/* Removes a reference. If this was the last reference, copies the name of the pack to `name` and
 * returns true, because the pack is no longer needed. */
bool packs_release(struct packs *packs, const char *reference, char name[PACK_NAME]);

/* Returns whether less than half of a pack is in use. */
bool packs_is_sparse(struct packs *packs, const char *reference);

#endif
