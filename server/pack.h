/*
 * pack.h - files that hold the content of many small objects.
 *
 * A file of its own for each of a million small filters costs a million inodes, and two syncs each. A
 * snapshot writes the small ones of a batch to one pack instead: complete files of the library, one
 * after the other, with nothing before, between or behind them. The base of an object then refers to a
 * part of a pack by "NAME.pack@OFFSET+LENGTH", in the place of a file's name.
 *
 * A pack is written once and synced before anything refers to it. It is deleted when no object refers
 * to any part of it; `packs` counts. The objects of a pack of which less than half is in use are saved
 * again by the next snapshot, so packs take at most about twice the bytes of what is in them.
 */
#ifndef SERVER_PACK_H
#define SERVER_PACK_H

#include "bloomgate/bloomgate.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PACK_NAME = 64, PACK_REFERENCE = 96 };

/* Whether it refers to a part of a pack; else it is the name of a file, or "". */
bool pack_is_reference(const char *reference);

/* Compares the files that two references are in, as strcmp. A name refers to all of itself. */
int pack_compare(const char *a, const char *b);

/* Reads the part that is referred to; free() it. Errors: BG_EIO, BG_EFORMAT: the reference, or a pack
 * that is too short; BG_ENOMEM. */
bg_err pack_read(const char *folder, const char *reference, void **bytes, size_t *n,
                 bg_errinfo *info);

/* ---- Writing ------------------------------------------------------------------------------- */

struct pack_writer;

/* Begins a pack of that name, such as "3f0c.pack", which must be new. */
bg_err pack_begin(const char *folder, const char *name, struct pack_writer **writer,
                  bg_errinfo *info);
bg_err pack_append(struct pack_writer *writer, const void *bytes, size_t n,
                   char reference[PACK_REFERENCE], bg_errinfo *info);

/* Syncs the pack; its name is safe when its folder is synced. */
bg_err pack_finish(struct pack_writer *writer, bg_errinfo *info);
void pack_close(struct pack_writer *writer); /* NULL is fine */

/* ---- Which packs are in use ---------------------------------------------------------------- */

/* Thread safety: MT-Safe. */
struct packs;

struct packs *packs_create(void); /* NULL: no memory */
void packs_free(struct packs *packs);

/* One more reference. What is no reference to a pack is ignored. False: no memory. */
bool packs_hold(struct packs *packs, const char *reference);

/* Finds out how large the packs are of which parts are in use. */
void packs_measure(struct packs *packs, const char *folder);

/* One more to each of them: they stay, whatever is released. */
void packs_keep(struct packs *packs);

/* One less. True: that was the last one, and the pack `name` is not needed. */
bool packs_release(struct packs *packs, const char *reference, char name[PACK_NAME]);

/* Whether less than half of a pack is in use. */
bool packs_is_sparse(struct packs *packs, const char *reference);

#endif
