/*
 * dump_load.c - loads dumps chunk by chunk from untrusted clients. See dump.h.
 *
 * All input is validated before it is kept: a chunk by its checksum and offset, a RedisBloom
 * header by checking that its sizes add up, and the complete dump by the library's decoders.
 * Memory use grows with the number of bytes received, and memory is released while the bytes are
 * decoded (gather.h). All memory that a load occupies is counted, including the part of a page
 * or of a small buffer in which no bytes have arrived yet.
 *
 *     Bloomgate    the stream, offset by offset
 *     RedisBloom   the records that bg_foreign_decode accepts: 16 bytes with the iterator and the
 *                  length, followed by the header; then the same for each part (a link of a Bloom
 *                  filter, or a filter of a cuckoo filter). The bytes of each chunk are copied to
 *                  their positions.
 *
 * Invariants, under `dumping`
 *   (L1) done <= total; the first `done` bytes have arrived, in order, without gaps
 *   (L2) `used` is at least the buffer position of byte `done`; nothing beyond `used` has been
 *        written
 *   (L3) the content of an object that has a load is unknown
 */
#include "args.h"
#include "bytes.h"
#include "dump_stream.h"
#include "import_value.h"
#include "ledger.h"

#include <stdlib.h>
#include <string.h>

/* Written by RedisBloom 2.2.7 to 2.2.10; see docs/foreign.md. */
enum { CUCKOO_HEADER_OLD = 46 };

struct load {
    bg_foreign_format foreign; /* 0: Bloomgate's format */
    uint64_t stream;           /* checksum of a Bloomgate stream */
    uint64_t done, total;      /* bytes received and expected (stream, or all parts) */
    uint64_t size;             /* size of the complete dump, including record headers */
    struct gather gather;      /* the dump, `size` bytes */
    uint64_t used;             /* bytes written at the start of the buffer */
    uint64_t counted;          /* memory counted in object->loaded and in the ledger */
    size_t header;             /* size of a RedisBloom header in bytes */
    uint64_t first;            /* size of a cuckoo filter's first part in bytes */
    uint32_t expansion;        /* growth factor of a cuckoo filter's other parts */
};

/* The error texts of a family of commands. */
struct load_words {
    uint32_t families;
    const char *not_found;  /* no load is in progress */
    const char *place;      /* a chunk that does not follow the previous chunk */
    const char *too_big;    /* a chunk that crosses the end of a part */
    const char *bad_header; /* an invalid first chunk; NULL selects `bad` */
    const char *bad;        /* an invalid dump */
};

/* ---- Received bytes -------------------------------------------------------------------------- */

/* Counts the memory that a load occupies when the first n bytes of its buffer have arrived. Returns
 * false if the memory is refused. */
static bool load_count(struct object *object, uint64_t n)
{
    struct load *load = object->load;
    const uint64_t need =
        sizeof *load + gather_footprint((size_t)load->size, (size_t)n);
    const uint64_t more = need > load->counted ? need - load->counted : 0;
    if (!ledger_reserve(LEDGER_TRANSFERS, more)) {
        return false;
    }
    load->counted += more;
    atomic_fetch_add(&object->loaded, more);
    return true;
}

/* Stops counting the load, because its bytes are about to be freed or decoded (gather.h). */
static void load_uncount(struct object *object)
{
    struct load *load = object->load;
    atomic_fetch_sub(&object->loaded, load->counted);
    ledger_release(LEDGER_TRANSFERS, load->counted);
    gather_uncount(&load->gather);
    load->counted = 0;
}

void load_forget(struct object *object)
{
    object->loading = false;
    if (object->load) {
        load_uncount(object);
        gather_end(&object->load->gather);
        free(object->load);
        object->load = NULL;
    }
}

bool load_is_under_way(struct object *object)
{
    pthread_mutex_lock(&object->dumping);
    const bool loading = object->loading;
    pthread_mutex_unlock(&object->dumping);
    return loading;
}

bool load_progress(struct object *object, uint64_t *done, uint64_t *total)
{
    pthread_mutex_lock(&object->dumping);
    const struct load *load = object->load;
    const bool there = load != NULL;
    *done = there ? load->done : 0;
    *total = there ? load->total : 0;
    pthread_mutex_unlock(&object->dumping);
    return there;
}

/* Copies bytes to an offset below load->size. Errors: BG_ENOMEM. */
static bg_err load_write(struct object *object, uint64_t place, const void *bytes,
                         size_t n, bg_errinfo *info)
{
    struct load *load = object->load;
    const uint64_t more = place + n > load->used ? place + n - load->used : 0;
    if (!load_count(object, load->used + more)
        || !gather_count(&load->gather, (size_t)place + n)) {
        return error_fail(info, BG_ENOMEM, "cannot allocate a chunk of %zu bytes", n);
    }
    memcpy(load->gather.bytes + place, bytes, n);
    load->used += more;
    return BG_OK;
}

/* Returns the maximum size of a dump in bytes. */
static uint64_t load_most(const struct command_settings *settings)
{
    return import_most(settings, 64 << 10);
}

static bg_err load_too_large(uint64_t total, uint64_t most, bg_errinfo *info)
{
    return error_fail(info, BG_ENOMEM,
                      "the dump's size of %llu bytes exceeds the limit of %llu: raise "
                      "max-filter-memory",
                      (unsigned long long)total, (unsigned long long)most);
}

/* Starts a load, and discards any bytes received earlier. On failure, a new object still counts as
 * being loaded, because its content is missing rather than lost. */
static bg_err load_begin(struct object *object, const struct load *load,
                         const bg_allocator *allocator, bg_errinfo *info)
{
    const bool loading = object->loading;
    load_forget(object);
    object->load = malloc(sizeof *load);
    if (!object->load) {
        return error_fail(info, BG_ENOMEM, "out of memory");
    }
    *object->load = *load;
    object->loading = true;
    if (load->size > SIZE_MAX || !load_count(object, 0)
        || !gather_begin(&object->load->gather, (size_t)load->size, allocator)) {
        load_forget(object);
        object->loading = loading;
        return error_fail(info, BG_ENOMEM, "cannot allocate %llu bytes for a dump",
                          (unsigned long long)load->size);
    }
    return BG_OK;
}

/* ---- Places ---------------------------------------------------------------------------------- */

/* One of the consecutive parts of a RedisBloom dump. */
struct load_part {
    uint64_t number, bytes;
    uint64_t offset; /* offset within the concatenated parts */
    uint64_t place;  /* offset in the buffer, which also contains record headers */
};

static uint64_t load_link_bytes(const struct load *load, uint64_t number)
{
    return bytes_load64(load->gather.bytes + IMPORT_RECORD + REDIS_HEADER
                        + REDIS_LINK * number);
}

static struct load_part load_first_part(const struct load *load)
{
    return (struct load_part){ .bytes = load->foreign == BG_FOREIGN_REDISCUCKOO
                                            ? load->first
                                            : load_link_bytes(load, 0),
                               .place = IMPORT_RECORD + load->header + IMPORT_RECORD };
}

/* Advances to the next part, which exists because the header has been checked. */
static void load_next_part(const struct load *load, struct load_part *part)
{
    part->offset += part->bytes;
    part->place += part->bytes + IMPORT_RECORD;
    part->number++;
    part->bytes = load->foreign == BG_FOREIGN_REDISCUCKOO
                      ? part->bytes * load->expansion
                      : load_link_bytes(load, part->number);
}

/* Converts an offset within the concatenated parts of a RedisBloom dump to an offset in the buffer.
 * Sets *left to the number of bytes from that offset to the end of the part. The header must have
 * been checked, and the offset must be below load->total. */
static uint64_t load_part_place(const struct load *load, uint64_t offset,
                                uint64_t *left)
{
    struct load_part part = load_first_part(load);
    while (offset - part.offset >= part.bytes) {
        load_next_part(load, &part);
    }
    *left = part.bytes - (offset - part.offset);
    return part.place + (offset - part.offset);
}

static uint64_t load_place(const struct load *load, uint64_t offset, uint64_t *left)
{
    if (load->foreign) {
        return load_part_place(load, offset, left);
    }
    *left = load->total - offset;
    return offset;
}

/* Stores a chunk at its offset. A repeated chunk is accepted if it is identical. Errors: BG_EBUSY
 * if the chunk does not follow the previous chunk; BG_EINVAL if it crosses the end of a part;
 * BG_ENOMEM, in which case nothing has changed and the chunk can be retried. */
static bg_err load_put(struct object *object, uint64_t offset, const uint8_t *bytes,
                       size_t n, bg_errinfo *info)
{
    struct load *load = object->load;
    uint64_t left = 0;
    if (offset > load->done || offset >= load->total) {
        return BG_EBUSY;
    }
    const uint64_t place = load_place(load, offset, &left);
    if (n > left) {
        return BG_EINVAL;
    }
    if (offset < load->done) {
        return n <= load->done - offset
                       && memcmp(load->gather.bytes + place, bytes, n) == 0
                   ? BG_OK
                   : BG_EBUSY;
    }
    const bg_err err = load_write(object, place, bytes, n, info);
    load->done += err ? 0 : n;
    return err;
}

/* ---- Completion ------------------------------------------------------------------------------ */

/* Writes the iterators and lengths of RedisBloom's records. */
static void load_write_records(struct load *load)
{
    uint8_t *bytes = load->gather.bytes;
    bytes_store64(bytes, 1);
    bytes_store64(bytes + 8, load->header);
    struct load_part part = load_first_part(load);
    for (;;) {
        const uint64_t end = part.offset + part.bytes;
        bytes_store64(bytes + part.place - IMPORT_RECORD, 1 + end);
        bytes_store64(bytes + part.place - IMPORT_RECORD + 8, part.bytes);
        if (end == load->total) {
            return;
        }
        load_next_part(load, &part);
    }
}

/* The input of a decoder. */
struct load_source {
    struct gather *gather;
    size_t at; /* offset of the encoded filter */
};

static bool load_was_read(void *context, uint64_t done, uint64_t all)
{
    const struct load_source *from = context;
    (void)all;
    gather_give(from->gather, from->at + (size_t)done);
    return true;
}

static bg_err load_decode(const struct object_shape *shape,
                          const struct command_settings *settings,
                          struct load_source from, struct object **made,
                          bg_errinfo *info)
{
    bg_open_options how = BG_OPEN_OPTIONS_INIT;
    bg_hash_spec hash;
    bg_filter *filter = NULL;
    bg_err err = object_hash_spec(shape, settings, &hash, info);
    if (err) {
        return err;
    }
    how.hash = &hash;
    how.max_bytes = settings->max_filter_bytes;
    how.allocator = settings->allocator;
    how.progress = load_was_read;
    how.context = &from;
    err = bg_decode(from.gather->bytes + from.at, from.gather->size - from.at, &how,
                    &filter, info);
    if (!err && !object_shape_fits(shape, filter)) {
        err = error_fail(
            info, BG_EFORMAT,
            "the dump contains a filter of kind %s, which does not match the "
            "description line: dump the filter again",
            bg_kind_name(bg_filter_kind(filter)));
    } else if (!err && bg_hasher_profile(bg_filter_hasher(filter)) != shape->hash) {
        err = error_fail(
            info, BG_EFORMAT,
            "the hash of the filter in the dump does not match the description line: "
            "dump the filter again");
    }
    err = err ? err : object_adopt(shape, filter, NULL, made, info);
    if (err) {
        bg_filter_free(filter);
    }
    return err;
}

static bg_err load_decode_foreign(const struct object_shape *shape,
                                  const struct command_settings *settings,
                                  struct load_source from, struct object **made,
                                  bg_errinfo *info)
{
    const bg_foreign_options how = import_options(settings);
    bg_foreign *foreign = NULL;
    if (!object_shape_is_foreign(shape)) {
        return error_fail(
            info, BG_EFORMAT,
            "the dump has format %u, which is unknown, or is not valid for "
            "this type of filter",
            shape->foreign);
    }
    bg_err err = bg_foreign_decode((bg_foreign_format)shape->foreign,
                                   from.gather->bytes + from.at,
                                   from.gather->size - from.at, &how, &foreign, info);
    err = err ? err : object_adopt(shape, NULL, foreign, made, info);
    if (err) {
        bg_foreign_free(foreign);
    }
    return err;
}

bg_err dump_decode(const struct object_shape *shape,
                   const struct command_settings *settings, struct gather *gather,
                   size_t at, struct object **object, bg_errinfo *info)
{
    const struct load_source from = { gather, at };
    struct object_shape imported = *shape;
    imported.imported = 1;
    *object = NULL;
    return shape->foreign ? load_decode_foreign(&imported, settings, from, object, info)
                          : load_decode(&imported, settings, from, object, info);
}

/* Creates an object from a Bloomgate stream. The first line of the stream describes the rest. */
static bg_err load_finish_stream(struct request *request, struct load *load,
                                 uint32_t families, struct object **made,
                                 bg_errinfo *info)
{
    struct dump_line line;
    size_t used = 0;
    const size_t n = (size_t)load->total;
    if (dump_checksum(load->gather.bytes, n) != load->stream) {
        return error_fail(info, BG_ECHECKSUM,
                          "the chunks do not match the checksum of the dump: "
                          "dump the filter again");
    }
    bg_err err = dump_line_read(load->gather.bytes, n, &line, &used, info);
    if (!err && !(families >> line.shape.family & 1)) {
        const char *family = line.shape.family == OBJECT_CF ? "CF" : "BF";
        err = error_fail(
            info, BG_EFORMAT,
            "the dump contains a filter for the %s commands: load it with %s.LOADCHUNK",
            family, family);
    }
    if (err) {
        return err;
    }
    err = dump_decode(&line.shape, request->host->settings, &load->gather, used, made,
                      info);
    if (!err) {
        atomic_store(&(*made)->items, line.items);
        atomic_store(&(*made)->deleted, line.deleted);
        atomic_store(&(*made)->expansions, line.expansions);
    }
    return err;
}

/* ---- Chunks ---------------------------------------------------------------------------------- */

/* Returns the incomplete object that a chunk belongs to. For the first chunk, creates the object.
 * Returns NULL after sending an error. */
static struct object *load_target(struct request *request,
                                  const struct load_words *words, bool first)
{
    for (;;) {
        bool sent = false;
        struct object *object =
            args_find(request, words->families, first ? NULL : words->not_found, &sent);
        if (object && object_is_whole(object)) {
            reply_error(&request->reply, first ? ARGS_EXISTS : words->place);
            return NULL;
        }
        if (object || sent) {
            return object;
        }
        const uint32_t family = words->families == ARGS_BF   ? OBJECT_BF
                                : words->families == ARGS_CF ? OBJECT_CF
                                                             : OBJECT_BG;
        const struct object_shape shape = { .family = family, .imported = 1 };
        bg_errinfo info = { 0 };
        bg_err err = object_create(&shape, request->host->settings, &object, &info);
        if (!err) {
            object->loading = true;
            err = args_create(request, object, &info);
        }
        if (err && err != BG_EBUSY) { /* BG_EBUSY: another client started a load */
            args_failed(request, err, &info, "");
            return NULL;
        }
    }
}

/* Sends the error for a chunk, or for the complete dump. */
static void load_refuse(struct request *request, const struct load_words *words,
                        bg_err err, const bg_errinfo *info)
{
    switch (err) {
    case BG_EBUSY: reply_error(&request->reply, words->place); break;
    case BG_EINVAL: reply_error(&request->reply, words->too_big); break;
    case BG_ENOMEM:
    case BG_EIO:
    case BG_ECANCELED:
    case BG_EQUOTA: args_failed(request, err, info, ""); break;
    default:
        reply_errorf(&request->reply, "%s: %s", words->bad, error_text(info, err));
        break;
    }
}

/* Completes a load after the last chunk: a new object replaces `object`. Unlocks `dumping`, which
 * the caller holds. */
static bg_err load_finish(struct request *request, const struct load_words *words,
                          struct object *object, bg_errinfo *info)
{
    struct host *host = request->host;
    struct object *made = NULL;
    load_uncount(object);
    struct load *load = object->load;
    bg_err err = BG_OK;
    if (load->foreign) {
        load_write_records(load);
        err = import_object(load->foreign, load->gather.bytes, (size_t)load->size,
                            host->settings, &made, info);
    } else {
        err = load_finish_stream(request, load, words->families, &made, info);
    }
    load_forget(object);
    object->loading = !err; /* on success, stays true until the object is replaced */
    pthread_mutex_unlock(&object->dumping);
    err = err ? err : host->ops->replace(host, request->argv[1], object, made, info);
    if (err) {
        pthread_mutex_lock(&object->dumping);
        object->loading = object->load != NULL;
        pthread_mutex_unlock(&object->dumping);
        object_free(made);
    }
    return err == BG_EINVAL ? BG_EFORMAT : err; /* BG_EINVAL means a chunk is too big */
}

/* Adds a chunk to an object that is being loaded. Unlocks `dumping`, which the caller holds. If
 * `tell_progress` is set, replies with the number of bytes received and the total. */
static void load_chunk(struct request *request, const struct load_words *words,
                       struct object *object, const struct dump_chunk *chunk,
                       bool tell_progress)
{
    bg_errinfo info = { 0 };
    bg_err err = load_put(object, chunk->offset, chunk->bytes, chunk->n, &info);
    uint64_t done = 0, total = 0;
    if (!err) {
        done = object->load->done;
        total = object->load->total;
    }
    if (!err && done == total) {
        err = load_finish(request, words, object, &info);
    } else {
        pthread_mutex_unlock(&object->dumping);
    }
    if (err) {
        load_refuse(request, words, err, &info);
    } else if (tell_progress) {
        reply_array(&request->reply, 2);
        reply_integer(&request->reply, (int64_t)done);
        reply_integer(&request->reply, (int64_t)total);
    } else {
        reply_ok(&request->reply);
    }
}

/* Loads a chunk in Bloomgate's format. `iterator` must be 0 or the value that was returned with
 * the chunk. */
static void load_stream(struct request *request, const struct load_words *words,
                        bg_bytes data, uint64_t iterator)
{
    struct dump_chunk chunk;
    bg_errinfo info = { 0 };
    bg_err err = dump_chunk_read(data, &chunk, &info);
    const uint64_t most = load_most(request->host->settings);
    if (!err && chunk.total > most) {
        err = load_too_large(chunk.total, most, &info);
    } else if (!err && iterator && iterator != 1 + chunk.offset + chunk.n) {
        err = BG_EBUSY;
    }
    if (err) {
        load_refuse(request, words, err, &info);
        return;
    }
    struct object *object = load_target(request, words, chunk.offset == 0);
    if (!object) {
        return;
    }
    pthread_mutex_lock(&object->dumping);
    const struct load *load = object->load;
    const bool same = load && !load->foreign && load->stream == chunk.stream
                      && load->total == chunk.total;
    if (!same && chunk.offset == 0) {
        const struct load fresh = { .stream = chunk.stream,
                                    .total = chunk.total,
                                    .size = chunk.total };
        err = load_begin(object, &fresh, request->host->settings->allocator, &info);
    } else if (!same) {
        err = BG_EBUSY;
    }
    if (err) {
        pthread_mutex_unlock(&object->dumping);
        load_refuse(request, words, err, &info);
        return;
    }
    load_chunk(request, words, object, &chunk, iterator == 0);
}

/* ---- RedisBloom ------------------------------------------------------------------------------ */

/* Adds a part to the size of a dump. Fails if the dump becomes larger than `most`. */
static bg_err load_add_part(struct load *load, uint64_t bytes, uint64_t most,
                            bg_errinfo *info)
{
    if (bytes > most || load->total + bytes > most) {
        return load_too_large(bytes, most, info);
    }
    load->total += bytes;
    load->size += bytes + IMPORT_RECORD;
    return BG_OK;
}

/* Parses a header. Returns BG_EFORMAT if the sizes in the header do not add up. The library's
 * decoder later checks the other fields. */
static bg_err load_read_header(bg_bytes data, const struct command_settings *settings,
                               struct load *load, bg_errinfo *info)
{
    const uint8_t *p = data.data;
    const uint64_t most = load_most(settings);
    if (data.len < REDIS_HEADER + REDIS_LINK
        || (data.len - REDIS_HEADER) % REDIS_LINK != 0
        || (data.len - REDIS_HEADER) / REDIS_LINK != bytes_load32(p + 8)) {
        return error_fail(info, BG_EFORMAT, "the header has an invalid size: %zu bytes",
                          data.len);
    }
    *load = (struct load){ .foreign = BG_FOREIGN_REDISBLOOM, .header = data.len };
    load->size = IMPORT_RECORD + data.len;
    bg_err err = BG_OK;
    for (size_t at = REDIS_HEADER; !err && at < data.len; at += REDIS_LINK) {
        const uint64_t bytes = bytes_load64(p + at);
        err = bytes ? load_add_part(load, bytes, most, info)
                    : error_fail(info, BG_EFORMAT, "a layer is empty");
    }
    return err;
}

/* Parses the header of a cuckoo filter, and checks the fields that determine its size. The
 * library's decoder later checks the other fields. */
static bg_err load_read_cuckoo(bg_bytes data, const struct command_settings *settings,
                               struct load *load, bg_errinfo *info)
{
    const uint8_t *p = data.data;
    const uint64_t most = load_most(settings);
    if (data.len != CUCKOO_HEADER && data.len != CUCKOO_HEADER_OLD) {
        return error_fail(info, BG_EFORMAT,
                          "the header has %zu bytes, expected %d or %d", data.len,
                          CUCKOO_HEADER, CUCKOO_HEADER_OLD);
    }
    const uint64_t buckets = bytes_load64(p + 8), filters = bytes_load64(p + 24);
    const uint32_t slots = bytes_load16(p + 32);
    *load = (struct load){ .foreign = BG_FOREIGN_REDISCUCKOO,
                           .header = data.len,
                           .expansion = bytes_load16(p + 36) };
    load->size = IMPORT_RECORD + data.len;
    if (buckets == 0 || slots == 0 || filters == 0 || filters > IMPORT_PARTS) {
        return error_fail(
            info, BG_EFORMAT,
            "the header is invalid: %llu filters (expected 1 to %d), each with "
            "%llu buckets of %u slots (expected at least 1 of each)",
            (unsigned long long)filters, IMPORT_PARTS, (unsigned long long)buckets,
            slots);
    }
    if (load->expansion == 0 && filters > 1) {
        return error_fail(info, BG_EFORMAT,
                          "the header is invalid: %llu filters, but an expansion of 0 "
                          "allows only one",
                          (unsigned long long)filters);
    }
    uint64_t bytes = buckets > UINT32_MAX ? UINT64_MAX : buckets * slots;
    load->first = bytes;
    bg_err err = BG_OK;
    for (uint64_t i = 0; !err && i < filters; i++) {
        err = bytes > UINT32_MAX ? load_too_large(bytes, most, info)
                                 : load_add_part(load, bytes, most, info);
        bytes *= load->expansion;
    }
    return err;
}

static void load_redis_header(struct request *request, const struct load_words *words,
                              bg_bytes data)
{
    struct load fresh = { .size = 0 };
    bg_errinfo info = { 0 };
    bg_err err = words->families == ARGS_CF
                     ? load_read_cuckoo(data, request->host->settings, &fresh, &info)
                     : load_read_header(data, request->host->settings, &fresh, &info);
    if (err == BG_EFORMAT && words->bad_header) {
        reply_errorf(&request->reply, "%s: %s", words->bad_header, info.message);
        return;
    }
    if (err) {
        load_refuse(request, words, err, &info);
        return;
    }
    struct object *object = load_target(request, words, true);
    if (!object) {
        return;
    }
    pthread_mutex_lock(&object->dumping);
    err = load_begin(object, &fresh, request->host->settings->allocator, &info);
    if (!err) {
        err = load_write(object, IMPORT_RECORD, data.data, data.len, &info);
        if (err) {
            load_forget(object);
        }
    }
    pthread_mutex_unlock(&object->dumping);
    if (err) {
        load_refuse(request, words, err, &info);
    } else {
        reply_ok(&request->reply);
    }
}

static void load_redis_bits(struct request *request, const struct load_words *words,
                            uint64_t iterator, bg_bytes data)
{
    struct object *object = load_target(request, words, false);
    if (!object) {
        return;
    }
    if (iterator < 1 + (uint64_t)data.len || data.len == 0) {
        reply_error(&request->reply, words->place);
        return;
    }
    const struct dump_chunk chunk = { .offset = iterator - 1 - data.len,
                                      .bytes = data.data,
                                      .n = data.len };
    pthread_mutex_lock(&object->dumping);
    if (!object->load || !object->load->foreign) {
        pthread_mutex_unlock(&object->dumping);
        reply_error(&request->reply, words->place);
        return;
    }
    load_chunk(request, words, object, &chunk, false);
}

/* ---- Handlers -------------------------------------------------------------------------------- */

/* Loads the chunk in argv[3]: one of this service, or one of RedisBloom. */
static void load_next(struct request *request, const struct load_words *words,
                      uint64_t iterator)
{
    const bg_bytes data = request->argv[3];
    if (dump_chunk_is(data)) {
        load_stream(request, words, data, iterator);
    } else if (iterator == 1) {
        load_redis_header(request, words, data);
    } else {
        load_redis_bits(request, words, iterator, data);
    }
}

void dump_bf_load(struct request *request)
{
    static const struct load_words words = {
        .families = ARGS_BF,
        .not_found = ARGS_NOT_FOUND,
        .place = "ERR invalid offset - no link found",
        .too_big = "ERR invalid chunk - Too big for current filter",
        .bad = "ERR received bad data",
    };
    uint64_t iterator = 0;
    if (!args_count(request->argv[2], &iterator)) {
        reply_error(&request->reply, "ERR Second argument must be numeric");
    } else if (iterator == 0) {
        reply_error(&request->reply, words.place);
    } else {
        load_next(request, &words, iterator);
    }
}

void dump_cf_load(struct request *request)
{
    static const struct load_words words = {
        .families = ARGS_CF,
        .not_found = "ERR Invalid position",
        .place = "ERR Invalid position",
        .too_big = "ERR Couldn't load chunk!",
        .bad_header = "ERR Invalid header",
        .bad = "ERR Couldn't load chunk!",
    };
    uint64_t iterator = 0;
    if (!args_count(request->argv[2], &iterator) || iterator == 0) {
        reply_error(&request->reply, words.place);
    } else {
        load_next(request, &words, iterator);
    }
}

static void load_tell(struct request *request)
{
    uint64_t done = 0, total = 0;
    struct object *object = args_find_any(request, request->argv[1]);
    if (!object) {
        return;
    }
    if (!load_progress(object, &done, &total)) {
        reply_error(&request->reply, "ERR no load of this filter is in progress");
        return;
    }
    reply_array(&request->reply, 2);
    reply_integer(&request->reply, (int64_t)done);
    reply_integer(&request->reply, (int64_t)total);
}

void dump_bg_load(struct request *request)
{
    static const struct load_words words = {
        .families = ARGS_ANY,
        .not_found = "ERR no load of this filter is in progress: start with the "
                     "first chunk",
        .place =
            "ERR this chunk does not follow the previous one: load the chunks in order",
        .too_big =
            "ERR this chunk does not follow the previous one: load the chunks in order",
        .bad = "ERR received bad data",
    };
    if (request->argc == 2) {
        load_tell(request);
    } else if (request->argc == 3) {
        load_stream(request, &words, request->argv[2], 0);
    } else {
        args_arity(request);
    }
}
