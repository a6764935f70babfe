/*
 * bg_handlers.h - the handlers of BG.* commands, for the table in bg.c, and shared functions. All
 * names start with bgc_, since bg_ is the library's prefix.
 */
#ifndef COMMAND_BG_HANDLERS_H
#define COMMAND_BG_HANDLERS_H

#include "args.h"
#include "plan_rows.h"

/* Sends an estimate as an array: value, low, high. */
void bgc_reply_estimate(struct request *request, bg_estimate estimate);

/* Sends a library error with BG.CREATE option names: "ERR CAPACITY: found 0, expected ...". */
void bgc_reply_spec_error(struct request *request, bg_err err, const bg_errinfo *info);

/* Returns the message of such an error, without its code: "CAPACITY: found 0, expected ...". */
const char *bgc_explain(const bg_errinfo *info, char text[PLAN_TEXT]);

/* Saves a whole object. Returns false after sending an error. */
bool bgc_kept(struct request *request, struct object *object);

/* bg_create.c */
void bgc_create(struct request *request);
bool bgc_read_kind(bg_bytes argument, uint32_t *kind);

/* bg_keys.c */
void bgc_del(struct request *request);
void bgc_count(struct request *request);
void bgc_observe(struct request *request);

/* bg_admin.c */
void bgc_clear(struct request *request);
void bgc_drop(struct request *request);
void bgc_merge(struct request *request);
void bgc_fold(struct request *request);
void bgc_rotate(struct request *request);
void bgc_intersectcard(struct request *request);
void bgc_jaccard(struct request *request);

/* bg_files.c */

/* Writes the digest of an object's content as text. Objects with the same kind, size, hash and
 * content have the same digest, at any time and on any machine. `still` means that no other thread
 * modifies the object, so no copy is needed. */
bg_err bgc_digest_of(const struct object *object, bool still,
                     char text[BG_DIGEST_TEXT_BYTES], bg_errinfo *info);
void bgc_verify(struct request *request);
void bgc_digest(struct request *request);
void bgc_publish(struct request *request);
void bgc_reload(struct request *request);

/* bg_secret.c */
void bgc_secret(struct request *request);

/* bg_info.c */
void bgc_info(struct request *request);

/* bg_plan.c */
void bgc_plan(struct request *request);

/* bg_sharded.c */
void bgc_sharded(struct request *request);

/* bg_gate.c */
void bgc_lookup(struct request *request);
void bgc_row(struct request *request);
void bgc_mlookup(struct request *request);
void bgc_wrote(struct request *request);

/* bg_rebuild.c */
void bgc_rebuild(struct request *request);

/* bg.c */
void bgc_help(struct request *request);

#endif
