/* items.h - adds and looks up the items of a request, or of a pipeline of requests. */
#ifndef COMMAND_ITEMS_H
#define COMMAND_ITEMS_H

#include "args.h"

/* Sends the first n bits as booleans, without an array header. */
void items_reply(struct request *request, const uint64_t *bits, size_t n);

/*
 * Adds items of a pipeline and sends one reply for each: whether it is new, or an error. `full` is the
 * reply for BG_EFULL. With `always`, the reply for an added item is true even if the item is not new.
 * Returns the number of replies. *step is the maximum number of items, at first OBJECT_BATCH; it is
 * reduced to 1 after an error.
 */
size_t items_add_some(struct request *request, struct object *object,
                      const bg_bytes *items, size_t n, size_t *step, bool always,
                      const char *full);

/* Adds the items of one request. Sends an array, in which an error is the last element. If nothing was
 * added, sends only the error, except that with `full_in_array` BG_EFULL is sent in an array. */
void items_add_list(struct request *request, struct object *object,
                    const bg_bytes *items, size_t n, const char *full,
                    bool full_in_array);

/* Sends whether the object may contain each item, without an array header. A NULL object contains no
 * items. */
void items_exist(struct request *request, const struct object *object,
                 const bg_bytes *items, size_t n);

/* Like items_exist, for a pipeline of requests. If `sent` is set, WRONGTYPE has been sent for the first
 * request, and is sent for the others, too. */
void items_exist_or(struct request *request, const struct object *object, bool sent,
                    const bg_bytes *items, size_t n);

#endif
