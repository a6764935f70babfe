/*
 * bg_rebuild.c - BG.REBUILD: builds a new filter from keys that clients send, while the old filter
 * stays in use.
 *
 *     BG.REBUILD name BEGIN capacity [ERROR rate]
 *     BG.REBUILD name ADD item [item ...]        repeated, by any number of clients
 *     BG.REBUILD name COMMIT                     puts the new filter into service and saves it
 *
 * After BEGIN, every add to the old filter is also applied to the new filter. Therefore, no keys
 * are lost if a client starts reading the backing store after BEGIN has returned. Until COMMIT, a
 * crash or ABORT leaves the old filter in use. The new filter has the kind and the hash of the old
 * filter, so adds that are recorded in the meantime apply to both filters. Each step holds
 * `writing`.
 */
#include "bg_handlers.h"

/* Fills in the specification of the new filter. */
static void rebuild_spec(const struct object *object, uint64_t capacity, double rate,
                         const struct command_settings *settings,
                         bg_window_options *window, bg_spec *spec)
{
    struct object_shape shape = object->shape;
    shape.items = capacity;
    shape.bytes = 0;
    if (shape.family == OBJECT_CF) {
        shape.k = rate > 0 || shape.k == 0 ? 0 : shape.k;
        shape.rate = rate > 0 ? rate : shape.rate;
        object_shape_quotient(&shape);
    } else {
        shape.k = 0;
        shape.bits_per_key = rate > 0 ? 0 : shape.bits_per_key;
        shape.rate = rate > 0 ? rate : shape.rate;
        if (!(shape.rate > 0) && !(shape.bits_per_key > 0)) {
            shape.rate = settings->bf_error_rate;
        }
    }
    object_shape_spec(&shape, window, spec); /* the hash stays that of the old filter */
    spec->max_bytes = shape.limit ? shape.limit : settings->max_filter_bytes;
    spec->allocator = settings->allocator;
}

static void rebuild_begin(struct request *request, struct object *object)
{
    uint64_t capacity = 0;
    double rate = 0;
    if ((request->argc != 4
         && (request->argc != 6 || !args_is(request->argv[4], "ERROR")))
        || !args_amount(request->argv[3], &capacity) || capacity == 0
        || (request->argc == 6
            && (!args_share(request->argv[5], &rate) || !(rate > 0) || rate >= 1))) {
        reply_error(
            &request->reply,
            "ERR expected: BEGIN capacity [ERROR rate], with a capacity above 0 and "
            "a rate above 0 and below 1");
        return;
    }
    bg_rebuild_options how = BG_REBUILD_OPTIONS_INIT;
    bg_window_options window;
    bg_errinfo info = { 0 };
    bg_err err = BG_OK;
    rebuild_spec(object, capacity, rate, request->host->settings, &window, &how.spec);
    object_occupy(object);
    if (object->rebuild) {
        err = error_fail(&info, BG_EBUSY,
                         "a rebuild is already in progress: use COMMIT or ABORT");
    } else {
        err = bg_slot_begin_rebuild(object->slot, &how, &object->rebuild, &info);
        object->rebuilt = 0;
    }
    object_vacate(object);
    if (err) {
        bgc_reply_spec_error(request, err, &info);
    } else {
        reply_ok(&request->reply);
    }
}

static bg_err rebuild_none(bg_errinfo *info)
{
    return error_fail(info, BG_EINVAL,
                      "no rebuild is in progress: start one with BEGIN");
}

static void rebuild_add(struct request *request, struct object *object)
{
    const size_t n = request->argc - 3;
    bg_errinfo info = { 0 };
    bg_err err;
    if (n == 0) {
        args_arity(request);
        return;
    }
    pthread_mutex_lock(&object->writing);
    err = object->rebuild ? bg_rebuild_add_many(
              object->rebuild, bg_keys_bytes(request->argv + 3, n), &info)
                          : rebuild_none(&info);
    object->rebuilt += err ? 0 : n;
    const uint64_t keys = object->rebuilt;
    pthread_mutex_unlock(&object->writing);
    if (err) {
        args_failed(
            request, err, &info,
            "FULL the new filter has reached its capacity: use ABORT, then BEGIN "
            "with a larger capacity");
    } else {
        reply_integer(&request->reply, (int64_t)keys);
    }
}

static void rebuild_commit(struct request *request, struct object *object)
{
    bg_rebuild_report report = { .struct_size = sizeof report };
    bg_errinfo info = { 0 };
    bg_err err;
    (void)object_tick(object, request->host, NULL);
    object_changing(object);
    object_occupy(object);
    if (object->rebuild) {
        err = bg_rebuild_commit(object->rebuild, &report, &info);
        object->rebuild = NULL;
    } else {
        err = rebuild_none(&info);
    }
    if (!err) {
        atomic_store(&object->reshaped, true);
        atomic_store(&object->expansions, 0);
        object->outgrown = false;
        /* Without this call, copies of the object would have a different window position. */
        object_position(object);
    }
    object_vacate(object);
    if (err) {
        object_unchanged(object);
        args_failed(request, err, &info,
                    "FULL the new filter reached its capacity and was discarded: use "
                    "BEGIN with a larger capacity");
        return;
    }
    object_recount(object);
    if (bgc_kept(request, object)) {
        reply_map(&request->reply, 3);
        reply_entry_count(&request->reply, "keys", report.keys);
        reply_entry_count(&request->reply, "capacity", report.items);
        reply_entry_boolean(&request->reply, "undersized", report.undersized != 0);
    }
}

static void rebuild_abort(struct request *request, struct object *object)
{
    object_occupy(object);
    const bool there = object->rebuild != NULL;
    bg_rebuild_abort(object->rebuild);
    object->rebuild = NULL;
    object_vacate(object);
    if (there) {
        reply_ok(&request->reply);
    } else {
        bg_errinfo info = { 0 };
        args_failed(request, rebuild_none(&info), &info, BGC_FULL);
    }
}

static void rebuild_status(struct request *request, struct object *object)
{
    pthread_mutex_lock(&object->writing);
    const bool there = object->rebuild != NULL;
    const uint64_t keys = there ? object->rebuilt : 0;
    pthread_mutex_unlock(&object->writing);
    reply_map(&request->reply, 2);
    reply_entry_boolean(&request->reply, "rebuilding", there);
    reply_entry_count(&request->reply, "keys", keys);
}

void bgc_rebuild(struct request *request)
{
    static const struct {
        const char *word;
        size_t argc; /* 0 allows any number */
        void (*run)(struct request *request, struct object *object);
    } steps[] = { { "BEGIN", 0, rebuild_begin },
                  { "ADD", 0, rebuild_add },
                  { "COMMIT", 3, rebuild_commit },
                  { "ABORT", 3, rebuild_abort },
                  { "STATUS", 3, rebuild_status } };
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        if (!args_is(request->argv[2], steps[i].word)) {
            continue;
        }
        if (steps[i].argc && steps[i].argc != request->argc) {
            args_arity(request);
            return;
        }
        struct object *object = args_find_any(request, request->argv[1]);
        if (object && (object->foreign || !object_is_whole(object))) {
            reply_error(
                &request->reply,
                "ERR cannot rebuild this filter: it was imported from RedisBloom, is "
                "being loaded, or has lost its content");
        } else if (object) {
            steps[i].run(request, object);
        }
        return;
    }
    reply_error(&request->reply, "ERR expected BEGIN, ADD, COMMIT, ABORT or STATUS");
}
