/*
 * bg_handlers.h - the handlers of BG.*, for their table (bg.c), and what they share.
 */
#ifndef COMMAND_BG_HANDLERS_H
#define COMMAND_BG_HANDLERS_H

#include "args.h"

#define BG_FULL "FULL the filter has as many items as it was made for"

/* An estimate: a list of value, low and high. */
void bg_reply_estimate(struct request *request, bg_estimate estimate);

/* An error of the library in the words of BG.CREATE: "ERR CAPACITY: found 0, expected ...". */
void bg_reply_spec_error(struct request *request, bg_err err, const bg_errinfo *info);

/* The word of BG.CREATE for a field of bg_spec, or the field itself. */
const char *bg_word(const char *field);

/* Keeps a whole object, and sends the error if there is one. */
bool bg_kept(struct request *request, struct object *object);

/* bg_create.c */
void bg_create(struct request *request);
bool bg_read_kind(bg_bytes argument, uint32_t *kind);

/* bg_keys.c */
void bg_add(struct request *request);
void bg_add_many(struct request *request, const bg_bytes *items, size_t n);
void bg_madd(struct request *request);
void bg_exists(struct request *request);
void bg_exists_many(struct request *request, const bg_bytes *items, size_t n);
void bg_mexists(struct request *request);
void bg_del(struct request *request);
void bg_count(struct request *request);
void bg_observe(struct request *request);

/* bg_admin.c */
void bg_clear(struct request *request);
void bg_drop(struct request *request);
void bg_merge(struct request *request);
void bg_fold(struct request *request);
void bg_rotate(struct request *request);
void bg_intersectcard(struct request *request);
void bg_jaccard(struct request *request);

/* bg_files.c */
void bg_verify_command(struct request *request);
void bg_digest(struct request *request);
void bg_publish_command(struct request *request);
void bg_reload(struct request *request);

/* bg_info.c */
void bg_info_command(struct request *request);

/* bg_plan.c */
void bg_plan_command(struct request *request);

/* bg_gate.c */
void bg_lookup(struct request *request);
void bg_mlookup(struct request *request);

/* bg_rebuild.c */
void bg_rebuild_command(struct request *request);

/* bg.c */
void bg_help(struct request *request);

#endif
