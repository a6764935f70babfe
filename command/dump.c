/*
 * dump.c - writes dumps: takes a copy of an object and returns it in chunks. See dump.h.
 */
#include "dump_stream.h"

#include "args.h"
#include "bytes.h"
#include "import_value.h"
#include "ledger.h"

#include <stdlib.h>
#include <string.h>

struct dump {
    uint64_t read;   /* time of the last read, on the host's clock */
    bool foreign;    /* `bytes` has RedisBloom's format (docs/foreign.md) */
    uint64_t stream; /* checksum of the stream */
    struct ledger_lease
        lease; /* counts the copy toward the quota of the user that dumps */
    size_t n;
    uint8_t bytes[];
};

enum { DUMP_PIECE = 1 << 20, DUMP_SIZE_USUAL = 1 << 20, DUMP_SIZE_MAX = 256 << 20 };

/* ---- The copy ------------------------------------------------------------------------------ */

/* Uses the object's allocator to allocate memory for a copy and for the `before` bytes that precede
 * it. */
static void *dump_room(const struct object *object, size_t before, size_t n,
                       bg_errinfo *info)
{
    const bg_allocator *from = &object->allocator;
    void *room = NULL;
    if (n > SIZE_MAX - before || !ledger_reserve(LEDGER_TRANSFERS, before + n)) {
        (void)error_fail(info, BG_ENOMEM, "cannot allocate a copy of %zu bytes", n);
        return NULL;
    }
    room = from->allocate
               ? from->allocate(from->context, before + n, _Alignof(max_align_t), 0)
               : malloc(before + n);
    if (!room) {
        ledger_release(LEDGER_TRANSFERS, before + n);
        (void)error_fail(info, BG_ENOMEM, "cannot allocate a copy of %zu bytes", n);
    }
    return room;
}

void dump_give(const struct object *object, void *bytes, size_t n)
{
    const bg_allocator *to = &object->allocator;
    if (!bytes) {
        return;
    }
    ledger_release(LEDGER_TRANSFERS, n);
    if (to->release) {
        to->release(to->context, bytes, n);
    } else {
        free(bytes);
    }
}

/* Returns encoding options that produce the same bytes for the same content. */
static bg_save_options dump_options(const struct object_shape *shape, uint32_t flags)
{
    bg_save_options how = BG_SAVE_OPTIONS_INIT;
    how.created = BG_CREATED_UNKNOWN;
    how.flags = flags;
    memcpy(how.key_id, shape->key_id, sizeof how.key_id);
    return how;
}

/* Encodes a filter into a buffer of exactly the right size, leaving `before` bytes free at the
 * start. Encodes the filter again if it has gained a layer since its size was computed. */
static bg_err dump_encode_filter(const struct object *object, const bg_filter *filter,
                                 const bg_save_options *how, size_t before,
                                 void **bytes, size_t *n, bg_errinfo *info)
{
    bg_err err = BG_EINVAL;
    for (int tries = 0; err == BG_EINVAL && tries < 8; tries++) {
        size_t room = 0;
        err = bg_encode(filter, how, NULL, 0, &room, info);
        if (err) {
            return err;
        }
        *bytes = dump_room(object, before, room, info);
        if (!*bytes) {
            return BG_ENOMEM;
        }
        err = bg_encode(filter, how, (uint8_t *)*bytes + before, room, n, info);
        err = !err && *n != room ? BG_EINVAL : err;
        if (err) {
            dump_give(object, *bytes, before + room);
            *bytes = NULL;
        } else {
            /* Count exactly the bytes that dump_give will release. */
            ledger_release(LEDGER_TRANSFERS, room - *n);
        }
    }
    return err;
}

/* Does the same for an imported filter. */
static bg_err dump_encode_foreign(const struct object *object, size_t before,
                                  void **bytes, size_t *n, bg_errinfo *info)
{
    pthread_rwlock_t *lock = (pthread_rwlock_t *)(uintptr_t)&object->foreign_lock;
    size_t room = 0;
    pthread_rwlock_rdlock(lock);
    bg_err err = bg_foreign_encode(object->foreign, NULL, 0, &room, info);
    if (!err) {
        *bytes = dump_room(object, before, room, info);
        err = *bytes ? bg_foreign_encode(object->foreign, (uint8_t *)*bytes + before,
                                         room, n, info)
                     : BG_ENOMEM;
    }
    pthread_rwlock_unlock(lock);
    if (err) {
        dump_give(object, *bytes, before + room);
        *bytes = NULL;
    }
    return err;
}

static bg_err dump_encode_behind(const struct object *object, bool still, size_t before,
                                 void **bytes, size_t *n, bg_errinfo *info)
{
    struct object_reading reading;
    if (object->foreign) {
        return dump_encode_foreign(object, before, bytes, n, info);
    }
    bg_err err = object_read_begin(object, still, &reading, info);
    if (!err) {
        const bg_save_options how =
            dump_options(&object->shape, still || reading.copy ? BG_FILE_FROZEN : 0);
        err = dump_encode_filter(object, reading.filter, &how, before, bytes, n, info);
        object_read_end(object, &reading);
    }
    return err;
}

bg_err dump_encode(const struct object *object, bool still, void **bytes, size_t *n,
                   bg_errinfo *info)
{
    return dump_encode_behind(object, still, 0, bytes, n, info);
}

/* Writes an imported filter. The filter is copied, since an imported filter can be encoded only as
 * a whole. */
static bg_err dump_write_foreign(const struct object *object, bg_file_write_fn write,
                                 void *context, size_t *all, bg_errinfo *info)
{
    void *bytes = NULL;
    bg_err err = dump_encode(object, true, &bytes, all, info);
    for (size_t at = 0; !err && at < *all; at += DUMP_PIECE) {
        const size_t left = *all - at;
        err = write(context, (const uint8_t *)bytes + at,
                    left < DUMP_PIECE ? left : DUMP_PIECE);
    }
    dump_give(object, bytes, *all);
    return err;
}

bg_err dump_write(const struct object *object, uint32_t flags, bg_file_write_fn write,
                  void *context, size_t *all, bg_errinfo *info)
{
    struct object_reading reading;
    if (object->foreign) {
        return dump_write_foreign(object, write, context, all, info);
    }
    bg_err err = object_read_begin(object, flags & BG_FILE_FROZEN, &reading, info);
    if (!err) {
        const bg_save_options how =
            dump_options(&object->shape, flags | (reading.copy ? BG_FILE_FROZEN : 0));
        err = bg_encode(reading.filter, &how, NULL, 0, all, info);
        err = err ? err : bg_encode_stream(reading.filter, &how, write, context, info);
        object_read_end(object, &reading);
    }
    return err;
}

/* Frees the copy. The caller holds `dumping`. */
static void dump_forget(struct object *object)
{
    if (object->dump) {
        const struct ledger_lease lease = object->dump->lease;
        atomic_fetch_sub(&object->dumped, object->dump->n);
        dump_give(object, object->dump, offsetof(struct dump, bytes) + object->dump->n);
        object->dump = NULL;
        ledger_lease_end(&lease);
    }
}

/* Takes a new copy, in RedisBloom's format if `as_foreign` is set. The caller holds `dumping`. */
static bg_err dump_begin(struct object *object, bool still, bool as_foreign,
                         bg_errinfo *info)
{
    struct dump_line line = { .items = atomic_load(&object->items),
                              .deleted = atomic_load(&object->deleted),
                              .expansions = atomic_load(&object->expansions) };
    object_describe(object, &line.shape);
    char text[DUMP_LINE_MAX];
    const size_t length = as_foreign ? 0 : dump_line_write(&line, text);
    const size_t before = offsetof(struct dump, bytes) + length;
    void *bytes = NULL;
    size_t n = 0;
    dump_forget(object);
    const bg_err err = dump_encode_behind(object, still, before, &bytes, &n, info);
    if (err || !bytes) {
        return err;
    }
    struct dump *dump = bytes;
    *dump = (struct dump){ .foreign = as_foreign, .n = length + n };
    memcpy(dump->bytes, text, length);
    dump->stream = as_foreign ? 0 : dump_checksum(dump->bytes, dump->n);
    const size_t kept = offsetof(struct dump, bytes) + dump->n;
    if (!ledger_lease(&dump->lease, kept)) {
        dump_give(object, dump, kept);
        return BG_ENOMEM;
    }
    object->dump = dump;
    atomic_fetch_add(&object->dumped, dump->n);
    return BG_OK;
}

void dump_release(struct object *object)
{
    dump_forget(object);
    load_forget(object);
}

void dump_expire(struct object *object, uint64_t now)
{
    if (pthread_mutex_trylock(&object->dumping)) {
        return; /* in use */
    }
    if (object->dump && now > object->dump->read + DUMP_KEPT) {
        dump_forget(object);
    }
    pthread_mutex_unlock(&object->dumping);
}

/* Returns the copy to read from. At the start of a dump, takes a new copy. Returns NULL after
 * sending an error. */
static struct dump *dump_take(struct request *request, struct object *object,
                              bool begins, bool as_foreign)
{
    const uint64_t now = request->host->ops->ticks(request->host);
    bg_errinfo info = { 0 };
    if (begins) {
        const bg_err err =
            dump_begin(object, request->host->ordered, as_foreign, &info);
        if (err) {
            args_failed(request, err, &info, "ERR the filter has reached its capacity");
            return NULL;
        }
    } else if (object->dump && now > object->dump->read + DUMP_KEPT) {
        dump_forget(object);
    }
    if (!object->dump || object->dump->foreign != as_foreign) {
        reply_error(
            &request->reply,
            "ERR no dump is in progress, or the dump has expired: start again with 0");
        return NULL;
    }
    object->dump->read = now;
    return object->dump;
}

/* ---- Chunks -------------------------------------------------------------------------------- */

static void dump_reply_end(struct request *request)
{
    reply_array(&request->reply, 2);
    reply_integer(&request->reply, 0);
    reply_bulk(&request->reply, "", 0);
}

/* Replies with a cursor and a chunk of at most `most` bytes starting at `offset`. The cursor is
 * `base` plus the offset after the chunk. If `ends` is set, the last cursor is 0. */
static void dump_reply_chunk(struct request *request, const struct object *object,
                             uint64_t offset, size_t most, uint64_t base, bool ends)
{
    const struct dump *dump = object->dump;
    const size_t left = dump->n - (size_t)offset;
    const struct dump_chunk chunk = { .stream = dump->stream,
                                      .offset = offset,
                                      .total = dump->n,
                                      .bytes = dump->bytes + offset,
                                      .n = left < most ? left : most };
    uint8_t *bytes = dump_room(object, DUMP_HEADER, chunk.n, NULL);
    if (!bytes) {
        args_failed(request, BG_ENOMEM, NULL, "");
        return;
    }
    dump_chunk_write(&chunk, bytes);
    const uint64_t behind = offset + chunk.n;
    reply_array(&request->reply, 2);
    reply_integer(&request->reply,
                  ends && behind == dump->n ? 0 : (int64_t)(base + behind));
    reply_bulk(&request->reply, bytes, DUMP_HEADER + chunk.n);
    dump_give(object, bytes, DUMP_HEADER + chunk.n);
}

enum dump_step { DUMP_WRONG, DUMP_MORE, DUMP_END };

/* Replies with the RedisBloom record that follows the record with this iterator. Iterator 0 selects
 * the first record. */
static enum dump_step dump_reply_record(struct request *request,
                                        const struct dump *dump, uint64_t iterator)
{
    const uint8_t *p = dump->bytes, *end = dump->bytes + dump->n;
    bool next = iterator == 0;
    while (p < end) {
        const uint64_t its = bytes_load64(p), n = bytes_load64(p + 8);
        if (next) {
            reply_array(&request->reply, 2);
            reply_integer(&request->reply, (int64_t)its);
            reply_bulk(&request->reply, p + IMPORT_RECORD, (size_t)n);
            return DUMP_MORE;
        }
        next = its == iterator;
        p += IMPORT_RECORD + n;
    }
    if (!next) {
        return DUMP_WRONG;
    }
    dump_reply_end(request);
    return DUMP_END;
}

/* Replies with the next chunk in Bloomgate's format. An iterator is the next offset plus 1. */
static enum dump_step dump_reply_stream(struct request *request,
                                        const struct object *object, uint64_t iterator)
{
    const struct dump *dump = object->dump;
    const uint64_t offset = iterator ? iterator - 1 : 0;
    if (offset > dump->n) {
        return DUMP_WRONG;
    }
    if (offset == dump->n) {
        dump_reply_end(request);
        return DUMP_END;
    }
    dump_reply_chunk(request, object, offset, DUMP_CHUNK_MAX - DUMP_HEADER, 1, false);
    return DUMP_MORE;
}

static void dump_scan(struct request *request, uint32_t families,
                      const char *not_a_number, const char *wrong)
{
    uint64_t iterator = 0;
    if (!args_count(request->argv[2], &iterator)) {
        reply_error(&request->reply, not_a_number);
        return;
    }
    struct object *object = args_find(request, families, ARGS_NOT_FOUND, NULL);
    if (!object) {
        return;
    }
    pthread_mutex_lock(&object->dumping);
    const bool foreign =
        object->foreign && object->shape.foreign != BG_FOREIGN_VALKEYBLOOM;
    const struct dump *dump = dump_take(request, object, iterator == 0, foreign);
    if (dump) {
        const enum dump_step step = foreign
                                        ? dump_reply_record(request, dump, iterator)
                                        : dump_reply_stream(request, object, iterator);
        if (step == DUMP_END) {
            dump_forget(object);
        } else if (step == DUMP_WRONG) {
            reply_error(&request->reply, wrong);
        }
    }
    pthread_mutex_unlock(&object->dumping);
}

void dump_bf_scan(struct request *request)
{
    dump_scan(request, ARGS_BF, "ERR Second argument must be numeric",
              "ERR invalid offset - no link found");
}

void dump_cf_scan(struct request *request)
{
    const struct object *object = args_find(request, ARGS_CF, ARGS_NOT_FOUND, NULL);
    if (!object) {
        return;
    }
    if (args_is(request->argv[2], "0") && object_is_whole(object)
        && atomic_load(&object->items) <= atomic_load(&object->deleted)) {
        reply_array(&request->reply, 2); /* an empty filter has no data */
        reply_integer(&request->reply, 0);
        reply_null(&request->reply);
        return;
    }
    dump_scan(request, ARGS_CF, "ERR Invalid position", "ERR Invalid position");
}

/* The options of BG.DUMP. */
struct dump_how {
    uint64_t cursor, size;
    uint64_t id; /* 0: any */
};

/* Returns false after sending an error. */
static bool dump_read_options(struct request *request, struct dump_how *how)
{
    *how = (struct dump_how){ .size = DUMP_SIZE_USUAL };
    if (!args_count(request->argv[2], &how->cursor)) {
        return reply_error(&request->reply,
                           "ERR cursor must be 0 or a returned cursor");
    }
    for (size_t i = 3; i < request->argc; i += 2) {
        const bool valued = i + 1 < request->argc;
        if (valued && args_is(request->argv[i], "ID") && request->host->ops->number) {
            if (!args_count(request->argv[i + 1], &how->id) || how->id == 0) {
                return reply_error(&request->reply,
                                   "ERR ID must be a number that BG.LIST returned");
            }
        } else if (!valued || !args_is(request->argv[i], "SIZE")
                   || !args_count(request->argv[i + 1], &how->size) || how->size < 1
                   || how->size > DUMP_SIZE_MAX) {
            return reply_error(&request->reply,
                               "ERR SIZE must be in the range [1, 268435456] bytes");
        }
    }
    return true;
}

/* Returns the object to dump. Returns NULL after sending an error. */
static struct object *dump_find(struct request *request, const struct dump_how *how)
{
    struct host *host = request->host;
    struct object *object = args_find_any(request, request->argv[1]);
    char name[64];
    if (object && how->id && host->ops->number(host, object) != how->id) {
        reply_errorf(&request->reply,
                     "NOFILTER filter '%s' does not have ID %llu: it was replaced or "
                     "renamed",
                     args_show(request->argv[1], name), (unsigned long long)how->id);
        return NULL;
    }
    return object;
}

void dump_bg_dump(struct request *request)
{
    struct dump_how how;
    struct object *object =
        dump_read_options(request, &how) ? dump_find(request, &how) : NULL;
    if (!object) {
        return;
    }
    pthread_mutex_lock(&object->dumping);
    const struct dump *dump = dump_take(request, object, how.cursor == 0, false);
    if (dump && how.cursor >= dump->n) {
        reply_error(&request->reply, "ERR cursor is beyond the end of the dump");
    } else if (dump) {
        const bool last = dump->n - how.cursor <= how.size;
        dump_reply_chunk(request, object, how.cursor, (size_t)how.size, 0, true);
        if (last) {
            dump_forget(object);
        }
    }
    pthread_mutex_unlock(&object->dumping);
}
