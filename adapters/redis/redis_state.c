/* redis_state.c - see redis_state.h. */
#include "redis_state.h"

#include "dump.h"
#include "letters.h"
#include "redis_config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Writing --------------------------------------------------------------------------------- */

size_t redis_state_write(const struct object *object, bool whole,
                         char text[REDIS_STATE_TEXT])
{
    const int n =
        snprintf(text, REDIS_STATE_TEXT,
                 "1 %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %d;",
                 atomic_load(&object->items), atomic_load(&object->deleted),
                 atomic_load(&object->expansions), atomic_load(&object->refused),
                 atomic_load(&object->rotated), (int)atomic_load(&object->reshaped));
    struct object_shape shape;
    object_describe(object, &shape);
    shape.imported = shape.imported || !whole;
    return (size_t)n + object_shape_write(&shape, text + n);
}

bg_bytes redis_state_secret(const struct object *object)
{
    const bool keyed = !object->foreign && object_shape_is_keyed(&object->shape);
    return keyed && object->entry
               ? (bg_bytes){ redis_secret_bytes(object->entry), BG_SECRET_BYTES }
               : (bg_bytes){ "", 0 };
}

/* Smaller objects are saved without canaries, because querying the canaries would take longer than
 * all other steps. */
enum { STATE_SMALL = 64 << 10 };

bg_err redis_state_content(const struct object *object, bg_file_write_fn write,
                           void *context, size_t *n, bg_errinfo *info)
{
    const bool small = object_bytes(object) < STATE_SMALL;
    const uint32_t flags = BG_FILE_FROZEN | (small ? BG_FILE_NO_CANARIES : 0);
    *n = 0;
    return object_is_whole(object) ? dump_write(object, flags, write, context, n, info)
                                   : BG_OK;
}

/* ---- Parsing --------------------------------------------------------------------------------- */

struct state {
    uint64_t items, deleted, expansions, refused, rotated, reshaped;
    struct object_shape shape;
};

/* Parses a number and the separator byte after it. */
static bool state_number(const char **text, const char *end, char behind,
                         uint64_t *value)
{
    return digits_read(text, end, value) && *text < end && *(*text)++ == behind;
}

static bg_err state_parse(bg_bytes text, struct state *state, bg_errinfo *info)
{
    const char *p = text.data, *end = p + text.len;
    uint64_t version = 0;
    const bool begun =
        text.len < REDIS_STATE_TEXT && state_number(&p, end, ' ', &version);
    if (begun && version != 1) {
        return error_fail(info, BG_EFORMAT,
                          "the filter's state has version %llu, but this module "
                          "supports only version 1: use a newer module",
                          (unsigned long long)version);
    }
    if (!begun || !state_number(&p, end, ' ', &state->items)
        || !state_number(&p, end, ' ', &state->deleted)
        || !state_number(&p, end, ' ', &state->expansions)
        || !state_number(&p, end, ' ', &state->refused)
        || !state_number(&p, end, ' ', &state->rotated)
        || !state_number(&p, end, ';', &state->reshaped) || state->reshaped > 1
        || state->rotated > OBJECT_TIME_MAX) {
        return error_fail(info, BG_EFORMAT, "the filter's state is damaged");
    }
    return object_shape_read(p, (size_t)(end - p), &state->shape, info);
}

/* Takes a reference to the secret that was received with the object. An object without a keyed hash
 * has no secret. */
static bg_err state_secret(const struct object_shape *shape, bg_bytes secret,
                           struct redis_secret **held, bg_errinfo *info)
{
    const bool keyed = !shape->foreign && object_shape_is_keyed(shape);
    *held = NULL;
    if (secret.len != (keyed ? BG_SECRET_BYTES : 0)) {
        return error_fail(info, BG_EFORMAT, "the secret has %zu bytes, expected %d",
                          secret.len, keyed ? BG_SECRET_BYTES : 0);
    }
    return keyed ? redis_secret_join(shape->key_id, secret.data, held, info) : BG_OK;
}

/* Decodes the content. If the content exceeds the object's own growth limit, only the server's
 * limit applies, because existing content must not be lost. */
static bg_err state_decode(const struct object_shape *shape, struct gather *content,
                           struct command_settings *settings, struct object **object,
                           bg_errinfo *info)
{
    const uint64_t most = settings->max_filter_bytes;
    bg_err err = BG_ENOMEM;
    if (most && content->size / 2 > most) {
        return error_fail(info, BG_ENOMEM,
                          "the filter's size of %zu bytes exceeds the limit of %llu: "
                          "raise bloomgate.max-filter-memory",
                          content->size, (unsigned long long)most);
    }
    if (shape->limit && (!most || shape->limit < most)) {
        settings->max_filter_bytes = shape->limit;
        err = dump_decode(shape, settings, content, 0, object, info);
        settings->max_filter_bytes = most;
    }
    return err == BG_ENOMEM && !content->given
               ? dump_decode(shape, settings, content, 0, object, info)
               : err;
}

/* Caps an object's growth limit at this server's limit for new objects. `most` is 0 if the state
 * comes from a primary or a file; the object then keeps its own limit. */
static void state_limit(struct object_shape *shape, uint64_t most)
{
    if (most && shape->limit > most) {
        shape->limit = most;
    }
}

static bg_err state_make(const struct state *state, struct gather *content, bool empty,
                         bool limited, struct object **object, bg_errinfo *info)
{
    struct command_settings settings = redis_settings;
    if (!limited) {
        settings.max_filter_bytes = 0;
    }
    if (content->size) {
        const bg_err err =
            state_decode(&state->shape, content, &settings, object, info);
        if (!err && *object) {
            (*object)->shape.imported = state->shape.imported != 0;
            state_limit(&(*object)->shape, settings.max_filter_bytes);
        }
        return err;
    }
    if (state->shape.foreign || (!empty && !state->shape.imported)) {
        return error_fail(info, BG_EFORMAT, "the filter's content is missing");
    }
    if (limited && settings.max_filter_bytes
        && state->shape.limit > settings.max_filter_bytes) {
        return error_fail(
            info, BG_ENOMEM,
            "the filter's limit of %llu bytes exceeds this server's limit of %llu: "
            "raise bloomgate.max-filter-memory",
            (unsigned long long)state->shape.limit,
            (unsigned long long)settings.max_filter_bytes);
    }
    return object_create(&state->shape, &settings, object, info);
}

bg_err redis_state_read(bg_bytes text, bg_bytes secret, struct gather *content,
                        bool empty, bool limited, struct object **object,
                        bg_errinfo *info)
{
    struct state state = { 0 };
    struct redis_secret *held = NULL;
    *object = NULL;
    bg_err err = state_parse(text, &state, info);
    err = err ? err : state_secret(&state.shape, secret, &held, info);
    err = err ? err : state_make(&state, content, empty, limited, object, info);
    if (err || !*object) {
        redis_secret_leave(held);
        return err;
    }
    (*object)->entry = held;
    atomic_store(&(*object)->items, state.items);
    atomic_store(&(*object)->deleted, state.deleted);
    atomic_store(&(*object)->expansions, state.expansions);
    atomic_store(&(*object)->refused, state.refused);
    atomic_store(&(*object)->reshaped, state.reshaped != 0);
    if (state.rotated) {
        object_resume(*object, state.rotated);
    }
    return BG_OK;
}

bg_err redis_state_attach(struct object *object, bg_errinfo *info)
{
    if (object->entry || object->foreign || !object_shape_is_keyed(&object->shape)) {
        return BG_OK;
    }
    object->entry = redis_secret_hold(object->shape.key_id);
    return object->entry
               ? BG_OK
               : error_fail(info, BG_EINVAL,
                            "this server does not have the filter's secret: set "
                            "bloomgate.secret");
}
