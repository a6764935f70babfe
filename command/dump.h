/*
 * dump.h - objects in pieces: what SCANDUMP, LOADCHUNK, BG.DUMP and BG.LOAD have in common.
 *
 * What is dumped is a copy of one moment. It is kept with its object while it is being read: until
 * its end was read, the next dump begins, or five minutes have passed. There is one per object.
 *
 *     stream    "bloomgate dump 1 SHAPE;ITEMS DELETED EXPANSIONS\n"   what it is (object.h)
 *               a filter file (bg_encode), or a filter of another module (docs/foreign.md)
 *     chunk     magic 8 | checksum 8 | stream 8 | offset 8 | total 8 | bytes of the stream
 *
 * All numbers have their low byte first. `checksum` is the XXH64, seed 0, of all that follows it;
 * `stream` is that of the whole stream, so that chunks of two dumps are never mixed. A chunk says
 * where it belongs, so loading can go on after a break from what has come so far.
 *
 * Filters of RedisBloom are dumped by BF.SCANDUMP as RedisBloom does it, without any of this, and
 * loaded from that.
 *
 * While a dump is being loaded its name stands for an object of unknown content (object.h). Chunks
 * come in order; their memory grows with what has come, never by what a header promises, up to
 * settings->max_filter_bytes and a little (gather.h). When the last one has come everything is
 * verified, and another object takes the name.
 *
 * Where nobody changes an object meanwhile it is written without a copy: dump_write. A dump that is
 * read by several commands needs one, since the object goes on changing between them.
 */
#ifndef COMMAND_DUMP_H
#define COMMAND_DUMP_H

#include "gather.h"
#include "object.h"

enum {
    DUMP_CHUNK_MOST = 16 << 20, /* of SCANDUMP */
    DUMP_KEPT = 5 * 60 * 1000   /* milliseconds */
};

/* Frees what an object holds for dumping and loading; nobody else has it any more. */
void dump_release(struct object *object);

/* Frees a copy that nobody has read for too long. A host calls it from time to time. */
void dump_expire(struct object *object, uint64_t now);

/* Frees the result of the next two functions. */
void dump_give(const struct object *object, void *bytes, size_t n);

/* Returns a filter of another module as bytes; free them with dump_give. */
bg_err dump_encode_foreign(const struct object *object, void **bytes, size_t *n,
                           bg_errinfo *info);

/* Returns the filter of an object as a file in memory that depends only on its content; free it
 * with dump_give. `still`: the object does not change in the meantime. */
bg_err dump_encode_filter(const struct object *object, bool still, void **bytes,
                          size_t *n, bg_errinfo *info);

/* The same bytes of either, piece by piece (bg_file_write); of a filter without a copy of it.
 * `flags`: BG_FILE_STILL, and BG_FILE_NO_CANARIES, which changes the bytes.
 * Before the first piece, *all is set to the total number of bytes. Errors before the first piece: BG_ENOMEM and
 * the like;
 * later ones: that of
 * `write`, and BG_EBUSY: somebody did. */
bg_err dump_write(const struct object *object, uint32_t flags, bg_file_write write,
                  void *context, size_t *all, bg_errinfo *info);

/* What these have written, read again, from anybody: the object that this shape says, imported.
 * It is what was gathered, all of it, from an offset on, and is given back as it is read: if
 * `gather->given` is not 0 then it is not there any more, whatever comes of it.
 * Errors: those of bg_decode and bg_foreign_read; BG_EFORMAT: not what the shape says. */
bg_err dump_decode(const struct object_shape *shape,
                   const struct command_settings *settings, struct gather *gather,
                   size_t at, struct object **object, bg_errinfo *info);

/* Handlers: BF.SCANDUMP and BF.LOADCHUNK, those of CF.*, BG.DUMP and BG.LOAD. */
void dump_bf_scan(struct request *request);
void dump_bf_load(struct request *request);
void dump_cf_scan(struct request *request);
void dump_cf_load(struct request *request);
void dump_bg_dump(struct request *request);
void dump_bg_load(struct request *request);

#endif
