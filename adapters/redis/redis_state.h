/*
 * redis_state.h - an object as it is kept and sent: in RDB files, in AOF files, to replicas.
 *
 *     state     "1 ITEMS DELETED EXPANSIONS REFUSED ROTATED RESHAPED;SHAPE"     text, see object.h
 *     secret    16 bytes if the hash is keyed, else none
 *     content   a filter file (docs/format.md), or a dump of RedisBloom (docs/foreign.md); none if
 *               the object's content is unknown
 *
 * All three may come from anybody. What cannot be trusted makes no object.
 */
#ifndef REDIS_STATE_H
#define REDIS_STATE_H

#include "gather.h"
#include "object.h"
#include "redis_secret.h"

enum { REDIS_STATE_TEXT = OBJECT_SHAPE_TEXT + 160 };

/* Writes the state of an object; returns its length. `whole`: its content comes with it, or it is
 * empty. */
size_t redis_state_write(const struct object *object, bool whole,
                         char text[REDIS_STATE_TEXT]);

/* The secret of an object; no bytes if it has none. */
bg_bytes redis_state_secret(const struct object *object);

/* Writes the content piece by piece, 1 MiB or less, with no copy of it in memory; *n says how many
 * bytes it has, before the first piece is written. None, and BG_OK, if it is unknown. Nobody changes
 * the object meanwhile: this is the server's thread, a child of it, or one that has the object alone. */
bg_err redis_state_content(const struct object *object, bg_file_write write,
                           void *context, size_t *n, bg_errinfo *info);

/*
 * Makes the object again; without content (size 0): an empty one, if `empty` allows that, or one of
 * unknown content if the shape says so. `limited`: no larger than the settings allow. All of the
 * content has come, and it is given back as it is read.
 * Errors: BG_EFORMAT, BG_ECHECKSUM and others of bg_decode; BG_ENOMEM.
 */
bg_err redis_state_read(bg_bytes text, bg_bytes secret, struct gather *content,
                        bool empty, bool limited, struct object **object,
                        bg_errinfo *info);

/* Holds the secret that an object needs, which is about to get a name. BG_EINVAL: it is unknown. */
bg_err redis_state_attach(struct object *object, bg_errinfo *info);

#endif
