/*
 * bg_files.c - commands for filter files: publish, reload, verify, digest.
 *
 * Files are stored in a directory that the host chooses (host->ops->path). BG.PUBLISH writes the
 * object's shape to the metadata of the file, as "object: family=...", so that BG.RELOAD on another
 * server restores the settings that control how a window advances. The filter file stores
 * everything else.
 *
 * BG.RELOAD creates a sealed filter, which accepts no adds, because added items would be lost when
 * the next file is loaded. WRITABLE creates a filter that accepts adds. Reloading such a filter
 * requires DISCARD, which drops the items added since the last load. ANYKIND allows a file with a
 * different kind, hash or secret; the name then refers to a new object.
 *
 * A file with a lower generation than the last file loaded is refused unless DISCARD is set. The
 * slot stores the generation of that file. The generation is saved with the object's shape
 * (object_describe), so it survives restarts, dumps and copies. BG.CLEAR resets it.
 */
#include "bg_handlers.h"

#include "dump_stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILES_PATH = 4096 };

#define FILES_OBJECT "object: "

/* ---- Content --------------------------------------------------------------------------------- */

/* Returns the object named by argv[1] if its content is available. Returns NULL after sending an
 * error. */
static struct object *files_find(struct request *request)
{
    struct object *object = args_find_any(request, request->argv[1]);
    if (object && !object_is_whole(object)) {
        bg_errinfo info = { 0 };
        args_failed(request, object_unavailable(object, &info), &info, BGC_FULL);
        return NULL;
    }
    return object;
}

/* Verifies an imported filter by encoding it and then decoding the result. */
static bg_err files_verify_foreign(const struct object *object, const void *bytes,
                                   size_t n, bg_verify_report *report, bg_errinfo *info)
{
    bg_foreign_options how = BG_FOREIGN_OPTIONS_INIT;
    bg_foreign *again = NULL;
    how.allocator = bg_foreign_allocator(object->foreign);
    const bg_err err = bg_foreign_decode((bg_foreign_format)object->shape.foreign,
                                         bytes, n, &how, &again, info);
    bg_foreign_free(again);
    report->blocks = 1;
    return err;
}

static bg_err files_verify(const struct object *object, const struct host *host,
                           bg_verify_report *report, bg_errinfo *info)
{
    bg_open_options how = BG_OPEN_OPTIONS_INIT;
    bg_hash_spec hash;
    void *bytes = NULL;
    size_t n = 0;
    bg_err err = dump_encode(object, host->ordered, &bytes, &n, info);
    if (!err && object->foreign) {
        err = files_verify_foreign(object, bytes, n, report, info);
    } else if (!err) {
        err = object_hash_spec(&object->shape, host->settings, &hash, info);
        how.hash = &hash;
        how.allocator = host->settings->allocator;
        err = err ? err : bg_encoded_verify(bytes, n, &how, report, info);
    }
    dump_give(object, bytes, n);
    return err;
}

void bgc_verify(struct request *request)
{
    const struct object *object = files_find(request);
    bg_verify_report report = { .struct_size = sizeof report };
    bg_errinfo info = { 0 };
    if (!object) {
        return;
    }
    const bg_err err = files_verify(object, request->host, &report, &info);
    if (err == BG_EFORMAT || err == BG_ECHECKSUM) {
        reply_errorf(&request->reply, "CORRUPT %s", info.message);
    } else if (err) {
        args_failed(request, err, &info, BGC_FULL);
    } else {
        reply_map(&request->reply, 2);
        reply_entry_count(&request->reply, "bytes", object_bytes(object));
        reply_entry_count(&request->reply, "blocks", report.blocks);
    }
}

/* The offset of the digest in a filter file; see docs/format.md, section 2. */
enum { FILES_DIGEST = 264 };

static bg_err files_digest_foreign(const struct object *object,
                                   char text[BG_DIGEST_TEXT_BYTES], bg_errinfo *info)
{
    void *bytes = NULL;
    size_t n = 0;
    const bg_err err = dump_encode(object, true, &bytes, &n, info);
    if (!err) {
        (void)snprintf(text, BG_DIGEST_TEXT_BYTES, "%016llx",
                       (unsigned long long)dump_checksum(bytes, n));
    }
    dump_give(object, bytes, n);
    return err;
}

/* Extracts the digest from the first chunk of a file, and then stops the encoding. */
static bg_err files_take_digest(void *context, const void *bytes, size_t n)
{
    char *text = context;
    const uint8_t *digest = (const uint8_t *)bytes + FILES_DIGEST;
    for (size_t i = 0; n >= FILES_DIGEST + BG_DIGEST_BYTES && i < BG_DIGEST_BYTES;
         i++) {
        (void)snprintf(text + 2 * i, 3, "%02x", digest[i]);
    }
    return BG_ECANCELED;
}

bg_err bgc_digest_of(const struct object *object, bool still,
                     char text[BG_DIGEST_TEXT_BYTES], bg_errinfo *info)
{
    size_t all = 0;
    if (object->foreign) {
        return files_digest_foreign(object, text, info);
    }
    text[0] = 0;
    const bg_err err = dump_write(object, still ? BG_FILE_FROZEN : 0, files_take_digest,
                                  text, &all, info);
    return err == BG_ECANCELED && text[0] ? BG_OK : err ? err : BG_EFORMAT;
}

void bgc_digest(struct request *request)
{
    const struct object *object = files_find(request);
    char text[BG_DIGEST_TEXT_BYTES];
    bg_errinfo info = { 0 };
    if (!object) {
        return;
    }
    const bg_err err = bgc_digest_of(object, request->host->ordered, text, &info);
    if (err) {
        args_failed(request, err, &info, BGC_FULL);
    } else {
        reply_text(&request->reply, text);
    }
}

/* ---- Paths ----------------------------------------------------------------------------------- */

/* Resolves the path in argv[2]. Returns false after sending an error. */
static bool files_path(struct request *request, char path[FILES_PATH])
{
    struct host *host = request->host;
    bg_errinfo info = { 0 };
    if (!host->ops->path) {
        reply_error(&request->reply,
                    "ERR filter files are not available on this server");
        return false;
    }
    const bg_err err = host->ops->path(host, request->argv[2], path, FILES_PATH, &info);
    if (err) {
        args_failed(request, err, &info, BGC_FULL);
    }
    return !err;
}

/* Parses the flags at the end of the arguments; each flag sets a bit in *flags. Returns false after
 * sending an error. */
static bool files_flags(struct request *request, const char *const *words, size_t n,
                        uint32_t *flags)
{
    char text[64];
    *flags = 0;
    for (size_t i = 3; i < request->argc; i++) {
        size_t w = 0;
        while (w < n && !args_is(request->argv[i], words[w])) {
            w++;
        }
        if (w == n) {
            reply_errorf(&request->reply, "ERR Unknown argument received: '%s'",
                         args_show(request->argv[i], text));
            return false;
        }
        *flags |= 1u << w;
    }
    return true;
}

/* ---- Writing --------------------------------------------------------------------------------- */

static bg_err files_write(const bg_filter *filter, char *path, bool versioned,
                          const bg_save_options *how, char digest[BG_DIGEST_TEXT_BYTES],
                          bg_errinfo *info)
{
    if (versioned) {
        char *name = strrchr(path, '/');
        if (!name) {
            return error_fail(info, BG_EINVAL,
                              "the path of the filter file contains no directory");
        }
        *name++ = 0;
        return bg_publish(filter, path, name, how, digest, info);
    }
    bg_file_info about = { .struct_size = sizeof about };
    bg_err err = bg_save(filter, path, how, info);
    err = err ? err : bg_file_get_info(path, &about, info);
    memcpy(digest, about.digest_text, BG_DIGEST_TEXT_BYTES);
    return err;
}

void bgc_publish(struct request *request)
{
    static const char *const words[] = { "VERSIONED" };
    char path[FILES_PATH], digest[BG_DIGEST_TEXT_BYTES] = "";
    char metadata[OBJECT_SHAPE_TEXT + 16] = FILES_OBJECT;
    uint32_t versioned = 0;
    struct object *object = files_find(request);
    if (!object || !files_flags(request, words, 1, &versioned)
        || !files_path(request, path)) {
        return;
    }
    if (object->foreign) {
        reply_error(
            &request->reply,
            "ERR a filter imported from RedisBloom cannot be written to a file: dump "
            "it with BF.SCANDUMP or BG.DUMP");
        return;
    }
    bg_save_options how = BG_SAVE_OPTIONS_INIT;
    how.generation = request->host->ops->now(request->host); /* never decreases */
    memcpy(how.key_id, object->shape.key_id, sizeof how.key_id);
    (void)object_shape_write(&object->shape, metadata + strlen(FILES_OBJECT));
    how.metadata = metadata;
    struct object_reading reading;
    bg_errinfo info = { 0 };
    bg_err err = object_read_begin(object, false, &reading, &info);
    if (!err) {
        err = files_write(reading.filter, path, versioned != 0, &how, digest, &info);
        object_read_end(object, &reading);
    }
    if (err) {
        args_failed(request, err, &info, BGC_FULL);
    } else {
        reply_text(&request->reply, digest);
    }
}

/* ---- Reading --------------------------------------------------------------------------------- */

enum { RELOAD_DISCARD = 1u << 0, RELOAD_ANYKIND = 1u << 1, RELOAD_WRITABLE = 1u << 2 };

/* The file to load, and how to open it. */
struct reload {
    struct request *request;
    char path[FILES_PATH];
    uint32_t flags;
    bg_file_info about;
    bg_hash_spec hash;
    bg_open_options opening;
};

/* BG_EIO would be sent as MISCONF, which clients would mistake for a journal error. */
static bg_err reload_error(bg_err err)
{
    return err == BG_EIO ? BG_EINVAL : err;
}

/* Inspects the file, and finds the secret that it needs. */
static bg_err reload_look(struct reload *reload, bg_errinfo *info)
{
    const struct command_settings *settings = reload->request->host->settings;
    struct object_shape shape = { 0 };
    reload->about.struct_size = sizeof reload->about;
    bg_err err = bg_file_get_info(reload->path, &reload->about, info);
    if (err) {
        return reload_error(err);
    }
    shape.hash = reload->about.profile;
    shape.seed = reload->about.seed;
    memcpy(shape.key_id, reload->about.key_id, sizeof shape.key_id);
    err = object_hash_spec(&shape, settings, &reload->hash, info);
    reload->opening = (bg_open_options)BG_OPEN_OPTIONS_INIT;
    reload->opening.hash = &reload->hash;
    reload->opening.max_bytes = settings->max_filter_bytes;
    return err;
}

/* Sets the shape of a new object from the file and its metadata. */
static void reload_shape(const struct reload *reload, const bg_filter *filter,
                         struct object_shape *shape)
{
    const char *text = strstr(reload->about.metadata, FILES_OBJECT);
    struct object_shape said;
    object_shape_of(filter, shape);
    if (text && (text == reload->about.metadata || text[-1] == '\n')) {
        text += strlen(FILES_OBJECT);
        if (object_shape_read(text, strcspn(text, "\n"), &said, NULL) == BG_OK
            && said.kind == shape->kind && said.hash == shape->hash
            && object_shape_fits(&said, filter)) {
            *shape = said;
        }
    }
    shape->imported = 1;
    shape->foreign = 0;
    shape->limit = 0;
    shape->generation = reload->about.generation;
    shape->seed = reload->about.seed;
    memcpy(shape->key_id, reload->about.key_id, sizeof shape->key_id);
}

/* Checks that the file is not older than the last file that was loaded into the existing object, if
 * any. */
static bg_err reload_check_generation(const struct reload *reload,
                                      const struct object *there, bg_errinfo *info)
{
    const uint64_t lowest = there ? bg_slot_generation(there->slot) : 0;
    if (reload->about.generation >= lowest || reload->flags & RELOAD_DISCARD) {
        return BG_OK;
    }
    return error_fail(
        info, BG_EINCOMPAT,
        "the file has generation %llu, but the filter has generation %llu: use DISCARD "
        "to load an older file",
        (unsigned long long)reload->about.generation, (unsigned long long)lowest);
}

/* Creates a new object under the name in argv[1]. The object replaces `there`, unless `there` is
 * NULL. */
static bg_err reload_anew(struct reload *reload, bool sealed,
                          const struct object *there, bg_errinfo *info)
{
    struct host *host = reload->request->host;
    const bg_bytes name = reload->request->argv[1];
    struct object_shape shape;
    struct object *made = NULL;
    bg_filter *filter = NULL;
    bg_err err = bg_open_with_info(reload->path, &reload->opening, &reload->about,
                                   &filter, info);
    if (err) {
        return reload_error(err);
    }
    err = reload_check_generation(reload, there, info);
    if (!err) {
        reload_shape(reload, filter, &shape);
        shape.sealed = sealed;
        err = object_adopt(&shape, filter, NULL, &made, info);
    }
    if (err || !made) {
        bg_filter_free(filter);
        return err;
    }
    object_recount(made);
    err = there ? host->ops->replace(host, name, there, made, info)
                : host->ops->create(host, name, made, info);
    if (err) {
        object_free(made);
    }
    return err;
}

/* Keeps the object and replaces its filter with the one in the file. */
static bg_err reload_into(struct reload *reload, struct object *object,
                          bg_errinfo *info)
{
    bg_reload_options how = BG_RELOAD_OPTIONS_INIT;
    how.flags =
        reload->flags & RELOAD_DISCARD ? BG_SLOT_DISCARD | BG_SLOT_ANY_GENERATION : 0;
    how.opening = &reload->opening;
    memcpy(how.key_id, object->shape.key_id, sizeof how.key_id);
    object_changing(object);
    object_occupy(object);
    const bg_err err = bg_slot_reload(object->slot, reload->path, &how, info);
    if (!err) {
        atomic_store(&object->reshaped, true);
        atomic_store(&object->expansions, 0);
        object->outgrown = false;
    }
    object_vacate(object);
    if (err) {
        object_unchanged(object);
        return err == BG_EINCOMPAT && strstr(info->message, "BG_SLOT_DISCARD")
                   ? error_fail(
                       info, err,
                       "the filter may contain added keys that the file lacks; "
                       "pass DISCARD to discard them")
                   : reload_error(err);
    }
    bg_slot_info stats; /* the file may have been replaced since it was inspected */
    object_about(object, &stats);
    memcpy(reload->about.digest_text, stats.digest, sizeof reload->about.digest_text);
    object_recount(object);
    return object_keep(object, reload->request->host, info);
}

static bg_err reload_run(struct reload *reload, struct object *there, bg_errinfo *info)
{
    bg_err err = reload_look(reload, info);
    if (err) {
        return err;
    }
    if (!there) {
        return reload_anew(reload, !(reload->flags & RELOAD_WRITABLE), NULL, info);
    }
    if (there->foreign || !object_is_whole(there) || reload->flags & RELOAD_ANYKIND) {
        const bool loses = object_is_whole(there) && !there->shape.sealed;
        if (loses && !(reload->flags & RELOAD_DISCARD)) {
            return error_fail(
                info, BG_EINCOMPAT,
                "reloading would discard the items added to this filter: use DISCARD "
                "if the file contains them or they are no longer needed");
        }
        return reload_anew(reload,
                           there->shape.sealed && !(reload->flags & RELOAD_WRITABLE),
                           there, info);
    }
    err = reload_check_generation(reload, there, info);
    return err ? err : reload_into(reload, there, info);
}

void bgc_reload(struct request *request)
{
    static const char *const words[] = { "DISCARD", "ANYKIND", "WRITABLE" };
    struct reload reload = { .request = request };
    bg_errinfo info = { 0 };
    if (!files_flags(request, words, 3, &reload.flags)
        || !files_path(request, reload.path)) {
        return;
    }
    struct object *object = request->host->ops->find(request->host, request->argv[1]);
    const bg_err err = reload_run(&reload, object, &info);
    if (err == BG_EINCOMPAT) {
        reply_errorf(&request->reply, "INCOMPATIBLE %s", error_text(&info, err));
    } else if (err) {
        args_failed(request, err, &info, BGC_FULL);
    } else {
        reply_text(&request->reply, reload.about.digest_text);
    }
}
