/*
 * dump.h - dumps objects in chunks and loads them; used by SCANDUMP, LOADCHUNK, BG.DUMP and
 * BG.LOAD.
 *
 * A dump is a copy of the object at one point in time. The object keeps this copy until the copy
 * has been read completely, the next dump starts, or five minutes have passed without a read. An
 * object has at most one copy. While the copy exists, it counts toward the quota of the user that
 * started the dump, not toward the size of the object.
 *
 *     stream    "bloomgate dump 1 SHAPE;ITEMS DELETED EXPANSIONS\n"   the description (object.h)
 *               a filter file (bg_encode), or an imported filter (docs/foreign.md)
 *     chunk     magic 8 | checksum 8 | stream 8 | offset 8 | total 8 | bytes of the stream
 *
 * All numbers are little-endian. `checksum` is the XXH64, with seed 0, of all bytes that follow it
 * in the chunk. `stream` is the same hash of the whole stream, so chunks from different dumps are
 * never mixed. A chunk contains its own offset, so an interrupted load can continue where it
 * stopped.
 *
 * BF.SCANDUMP dumps filters imported from RedisBloom in RedisBloom's format, without the headers
 * described above. BF.LOADCHUNK loads such dumps.
 *
 * While a dump is being loaded, the target name refers to an object with unknown content
 * (object.h). Chunks arrive in order. Memory use grows with the number of bytes received, not with
 * a size announced in a header, up to settings->max_filter_bytes plus a margin (gather.h). After
 * the last chunk, the whole dump is verified, and the name is bound to a new object.
 *
 * dump_write needs no copy if no other thread changes the object while it is being written. A dump
 * that is read by several commands needs a copy, since the object may change between these
 * commands.
 */
#ifndef COMMAND_DUMP_H
#define COMMAND_DUMP_H

#include "gather.h"
#include "object.h"

enum {
    DUMP_CHUNK_MAX = 16 << 20, /* maximum chunk size of SCANDUMP */
    DUMP_KEPT = 5 * 60 * 1000  /* milliseconds */
};

/* Frees the memory that an object holds for dumps and loads. No other thread may use the
 * object. */
void dump_release(struct object *object);

/* Frees the copy if it has not been read for DUMP_KEPT milliseconds. The host calls this function
 * regularly. */
void dump_expire(struct object *object, uint64_t now);

/* Encodes an object's filter as a file in memory, in the other module's format if the filter is
 * imported. The bytes depend only on the filter's content. `still` means that the object does not
 * change while it is being encoded. Free the result with dump_give. */
bg_err dump_encode(const struct object *object, bool still, void **bytes, size_t *n,
                   bg_errinfo *info);
void dump_give(const struct object *object, void *bytes, size_t n);

/* Writes the same bytes as dump_encode, but in chunks (bg_file_write_fn). Does not copy the filter,
 * unless it is imported. `flags` may include BG_FILE_FROZEN and BG_FILE_NO_CANARIES; with the
 * latter, the output differs from that of dump_encode. Before the first chunk, sets *all to the
 * total number of bytes.
 * Errors: before the first chunk, BG_ENOMEM, BG_EBUSY if the object's content is unknown, and other
 * encoding errors; after that, any error that `write` returns, and BG_EBUSY if the object changed
 * despite BG_FILE_FROZEN. */
bg_err dump_write(const struct object *object, uint32_t flags, bg_file_write_fn write,
                  void *context, size_t *all, bg_errinfo *info);

/* Creates an imported object of this shape from gathered bytes, which are untrusted. The encoded
 * filter extends from offset `at` to the end of the gathered bytes. Memory is released while the
 * bytes are read. If the call fails and `gather->given` is not 0, the bytes are lost. Errors: those
 * of bg_decode and bg_foreign_decode; BG_EFORMAT if the bytes do not match the shape. */
bg_err dump_decode(const struct object_shape *shape,
                   const struct command_settings *settings, struct gather *gather,
                   size_t at, struct object **object, bg_errinfo *info);

/* Discards the received bytes of a dump. The caller holds `dumping`, or no other thread uses the
 * object. */
void load_forget(struct object *object);

/* Returns whether a dump is being loaded into an object: chunks are still missing, or the filter
 * is being created from them. Locks `dumping`. */
bool load_is_under_way(struct object *object);

/* Sets *done to the number of bytes loaded so far, and *total to the number of bytes expected.
 * Returns false if no load is in progress. Locks `dumping`. */
bool load_progress(struct object *object, uint64_t *done, uint64_t *total);

/* Handlers of BF.SCANDUMP, BF.LOADCHUNK, CF.SCANDUMP, CF.LOADCHUNK, BG.DUMP and BG.LOAD. */
void dump_bf_scan(struct request *request);
void dump_bf_load(struct request *request);
void dump_cf_scan(struct request *request);
void dump_cf_load(struct request *request);
void dump_bg_dump(struct request *request);
void dump_bg_load(struct request *request);

#endif
