/*
 * redis_state.h - the encoding of an object in RDB files, AOF files and replication.
 *
 *     state     "1 ITEMS DELETED EXPANSIONS REFUSED ROTATED RESHAPED;SHAPE", as text (object.h)
 *     secret    16 bytes if the hash is keyed, otherwise empty
 *     content   a filter file (docs/format.md) or a RedisBloom dump (docs/foreign.md);
 *               empty if the object's content is unknown
 *
 * The state, the secret and the content are untrusted input. No object is created from invalid
 * input.
 */
#ifndef REDIS_STATE_H
#define REDIS_STATE_H

#include "gather.h"
#include "object.h"
#include "redis_secret.h"

enum { REDIS_STATE_TEXT = OBJECT_SHAPE_TEXT + 160 };

/* Writes the state of an object, and returns the length of the text. `whole` means that the object
 * is empty or that its content follows. */
size_t redis_state_write(const struct object *object, bool whole,
                         char text[REDIS_STATE_TEXT]);

/* Returns the secret of an object, or an empty string if the object has no secret. */
bg_bytes redis_state_secret(const struct object *object);

/* Writes the content in chunks of at most 1 MiB, without a copy in memory. Before the first chunk,
 * sets *n to the total size. Writes nothing and returns BG_OK if the content is unknown. The object
 * must not change during the call, so call this function on the server's main thread, in a forked
 * child process, or with exclusive use of the object. */
bg_err redis_state_content(const struct object *object, bg_file_write_fn write,
                           void *context, size_t *n, bg_errinfo *info);

/*
 * Re-creates an object. If there is no content (size 0), either `empty` must be set, or the shape
 * must be `imported`, in which case the content is unknown. If `limited` is set, the object must
 * not exceed the size limit in the settings. The content must be complete, and its memory is
 * released as it is read. Errors: BG_EFORMAT, BG_ECHECKSUM and other errors from bg_decode;
 * BG_ENOMEM.
 */
bg_err redis_state_read(bg_bytes text, bg_bytes secret, struct gather *content,
                        bool empty, bool limited, struct object **object,
                        bg_errinfo *info);

/* Takes a reference to the secret that an object needs. Call this function before the object is
 * stored under a name.
 * Errors: BG_EINVAL if the secret is unknown. */
bg_err redis_state_attach(struct object *object, bg_errinfo *info);

#endif
