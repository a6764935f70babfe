/*
 * persist.c - records changes, saves filters and takes snapshots. Loading is in recover.c.
 *
 * The data directory:
 *
 *     journal-00000000000000000007.log   the changes (journal.h)
 *     filters/3f0c...e1.bg               the content of an object up to a frame of the journal
 *     filters/91b7...04.pack             the content of many small objects (pack.h)
 *     forgotten/3f0c...e1.bg             files that no object uses, moved away (recover.c)
 *
 * An object's content is its base file plus its records in frame `from` and later frames. The
 * following invariants guarantee that no content is missing:
 *
 *   (P1) Recording and applying a change happen inside one batch (quiet.h). The order of these two
 *        steps depends on the object. For objects that commute (sets of bits, whose changes can be
 *        applied in any order), the record is appended before the bits are set, so whenever a
 *        thread finds a bit set, the record for that bit has already been appended. For all other
 *        objects, both steps run under object->writing. Adds are applied first, so adds rejected by
 *        a full filter are never recorded. If recording fails, the add is undone where the kind of
 *        filter supports it. Removes and window rotations are recorded first.
 *   (P2) For objects that commute, `from` is read first. Once all batches that were running at that
 *        time have ended, the file is written while other threads continue to add keys. A change
 *        recorded in a frame below `from` was applied before the write started, so the file
 *        contains it; all other changes are replayed. The file may already contain some of the
 *        replayed changes. This is harmless, because adding a key again changes nothing. The filter
 *        to be written is pinned at a time when no migration is in progress (object_pin).
 *   (P3) All other objects change under object->writing. `from` is read and the filter is copied
 *        under that lock, so the copy contains exactly the changes recorded below `from`. Then the
 *        copy is written.
 *   (P4) When a nonempty object gets its name, a single frame records the location of its content,
 *        gives the object the name, and removes the name from its previous owner. So after a crash,
 *        a name never refers to less content than before.
 *
 *   (P5) Giving an object a new base, dropping it and listing it in a manifest all happen under the
 *        catalog's lock, so the journal contains these events in the order in which they happened.
 *   (P6) entry->recorded is the number of the last frame that changes the object, regardless of
 *        the order in which threads report their frames. It is reset only after a base with a
 *        higher `from` has been recorded.
 *
 * A snapshot starts a new journal segment and saves every object that has records since its base.
 * It then writes a manifest of all objects while no object can be created or dropped, and deletes
 * the older segments. An object without records since its base is not saved; instead, its `from` is
 * advanced to the new segment. If an object cannot be saved because its base could not be read, the
 * segments that it needs are kept.
 *
 * Lock order: `saving`, the catalog's lock, object->writing, retired_lock, the journal's locks.
 * Only `saving` may be held while waiting for batches.
 *
 * Files that are no longer needed are deleted once the records that make them obsolete are on disk.
 */
#include "persist/persist.h"

#include "core/server.h"
#include "ledger.h"
#include "persist/doubt.h"
#include "persist/state.h"
#include "util/log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include "clock.h"
#include "text.h"
#include "xxhash.h"

enum {
    PERSIST_SMALL = 64 << 10, /* filters smaller than this are written to packs */
    PERSIST_PACK_FROM = 64,   /* minimum number of entries in a pack */
    PERSIST_BATCH = 4096      /* entries saved together */
};

bg_err persist_fail(bg_errinfo *info, bg_err code, const char *format, ...)
{
    if (info) {
        va_list arguments;
        *info = (bg_errinfo){ .code = code, .os_errno = code == BG_EIO ? errno : 0 };
        va_start(arguments, format);
        (void)vsnprintf(info->message, sizeof info->message, format, arguments);
        va_end(arguments);
    }
    return code;
}

void persist_path(const struct persist *persist, const char *file,
                  char path[PERSIST_PATH])
{
    (void)snprintf(path, PERSIST_PATH, "%s/filters/%s", persist->folder, file);
}

size_t persist_read_at(int fd, void *to, size_t n, uint64_t offset)
{
    size_t got = 0;
    while (got < n) {
        const ssize_t more =
            pread(fd, (char *)to + got, n - got, (off_t)(offset + got));
        if (more == 0 || (more < 0 && errno != EINTR)) {
            break;
        }
        got += more > 0 ? (size_t)more : 0;
    }
    return got;
}

size_t persist_write_at(int fd, const void *from, size_t n, uint64_t offset)
{
    size_t at = 0;
    while (at < n) {
        const ssize_t done =
            pwrite(fd, (const char *)from + at, n - at, (off_t)(offset + at));
        if (done < 0 && errno != EINTR) {
            break;
        }
        at += done > 0 ? (size_t)done : 0;
    }
    return at;
}

bool persist_is_lost(const struct entry_base *base)
{
    const size_t n = sizeof PERSIST_LOST - 1;
    return strncmp(base->file, PERSIST_LOST, n) == 0
           && (base->file[n] == 0 || base->file[n] == '-');
}

void persist_lose(struct entry_base *base)
{
    const struct entry_base before = *base;
    if (persist_is_lost(base)) {
        return;
    }
    const int n = snprintf(base->file, sizeof base->file, "%s%s%s", PERSIST_LOST,
                           before.file[0] ? "-" : "", before.file);
    /* The service never creates names this long. */
    if (n < 0 || (size_t)n >= sizeof base->file) {
        memcpy(base->file, PERSIST_LOST, sizeof PERSIST_LOST);
    }
}

const char *persist_file(const char *file)
{
    const size_t n = sizeof PERSIST_LOST;
    return strcmp(file, PERSIST_LOST) == 0           ? ""
           : strncmp(file, PERSIST_LOST "-", n) == 0 ? file + n
                                                     : file;
}

/* ---- Files that are no longer needed ----------------------------------------------------- */

/* Releases a base's file after the journal has recorded that the object no longer uses it. */
static void persist_retire(struct persist *persist, const char *base)
{
    const char *file = persist_file(base);
    char pack[PACK_NAME] = "";
    if (pack_is_reference(file)) {
        if (!packs_release(persist->packs, file, pack)) {
            return; /* other objects still need the pack */
        }
        file = pack;
    }
    struct retired *retired = file[0] ? malloc(sizeof *retired) : NULL;
    if (retired) { /* if malloc fails, the next startup finds the file */
        (void)snprintf(retired->file, sizeof retired->file, "%.95s", file);
        pthread_mutex_lock(&persist->retired_lock);
        retired->next = persist->retired;
        persist->retired = retired;
        pthread_mutex_unlock(&persist->retired_lock);
    }
}

/* Deletes retired files after syncing the records that make them obsolete. */
static bg_err persist_clean(struct persist *persist, bg_errinfo *info)
{
    char path[PERSIST_PATH];
    pthread_mutex_lock(&persist->retired_lock);
    struct retired *retired = persist->retired;
    persist->retired = NULL;
    pthread_mutex_unlock(&persist->retired_lock);
    bg_err err = retired ? journal_sync(persist->journal, info) : BG_OK;
    err = err || !retired ? err : journal_check(persist->journal, info);
    while (retired) {
        struct retired *next = retired->next;
        if (err) {
            persist_retire(persist, retired->file);
        } else {
            persist_path(persist, retired->file, path);
            (void)unlink(path);
        }
        free(retired);
        retired = next;
    }
    return err;
}

/* ---- Saving -------------------------------------------------------------------------------- */

static bool persist_new_name(const char *ending, struct entry_base *base)
{
    uint8_t random[16];
    if (getrandom(random, sizeof random, 0) != sizeof random) {
        return false;
    }
    for (size_t i = 0; i < sizeof random; i++) {
        (void)snprintf(base->file + 2 * i, 3, "%02x", random[i]);
    }
    (void)snprintf(base->file + 32, sizeof base->file - 32, "%s", ending);
    return true;
}

bool persist_is_base(const char *name)
{
    return strspn(name, "0123456789abcdef") == 32 && name[32] == '.';
}

void persist_foreign_digest(const void *bytes, size_t n,
                            char digest[BG_DIGEST_TEXT_BYTES])
{
    const XXH128_hash_t hash = XXH3_128bits(bytes ? bytes : "", bytes ? n : 0);
    (void)snprintf(digest, BG_DIGEST_TEXT_BYTES, "%016llx%016llx",
                   (unsigned long long)hash.high64, (unsigned long long)hash.low64);
}

/* Syncs the directory that contains the filter files, because a file is durable only if its
 * directory entry is durable as well. */
static bg_err persist_sync_folder(const struct persist *persist, bg_errinfo *info)
{
    char path[PERSIST_PATH];
    persist_path(persist, "", path);
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bg_err err = BG_OK;
    if (fd < 0 || fsync(fd)) {
        err = persist_fail(info, BG_EIO, "cannot sync directory %.300s: %s", path,
                           text_errno(errno));
    }
    if (fd >= 0) {
        close(fd);
    }
    return err;
}

static bg_err persist_write_whole(const struct persist *persist, const char *file,
                                  const void *bytes, size_t n, bg_errinfo *info)
{
    char path[PERSIST_PATH];
    persist_path(persist, file, path);
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        return persist_fail(info, BG_EIO, "cannot create %.300s: %s", path,
                            text_errno(errno));
    }
    const bg_err err = persist_write_at(fd, bytes, n, 0) < n || fsync(fd)
                           ? persist_fail(info, BG_EIO, "cannot write %.300s: %s", path,
                                          text_errno(errno))
                           : persist_sync_folder(persist, info);
    close(fd);
    return err;
}

/* Stores the starting frame and the counters that belong to the base (P2, P3). */
static void persist_begin_base(struct persist *persist, const struct object *object,
                               struct entry_base *base)
{
    base->from = journal_next(persist->journal);
    base->items = atomic_load(&object->items);
    base->deleted = atomic_load(&object->deleted);
    base->expansions = atomic_load(&object->expansions);
}

static bg_err persist_save_foreign(struct persist *persist, struct object *object,
                                   struct entry_base *base, bg_errinfo *info)
{
    size_t n = 0;
    void *bytes = NULL;
    object_occupy(object);
    persist_begin_base(persist, object, base);
    bg_err err = bg_foreign_encode(object->foreign, NULL, 0, &n, info);
    if (!err) {
        bytes = malloc(n ? n : 1);
        err = bytes ? bg_foreign_encode(object->foreign, bytes, n, &n, info)
                    : persist_fail(info, BG_ENOMEM,
                                   "out of memory: cannot copy a filter to save it");
    }
    object_vacate(object);
    if (!err) {
        persist_foreign_digest(bytes, n, base->digest);
        err = persist_write_whole(persist, base->file, bytes, n, info);
    }
    free(bytes);
    return err;
}

/* Pins the filter, which contains all changes recorded below base->from. If the object commutes,
 * the filter may also contain later changes (P2); otherwise, it contains no later changes and stays
 * unchanged until persist_let_go is called (P3). Returns NULL if the object has lost its filter. */
static const bg_filter *persist_hold(struct persist *persist, struct object *object,
                                     uint64_t done, struct entry_base *base,
                                     bg_pin *pin)
{
    if (object->commutes) {
        persist_begin_base(persist, object, base);
        base->from = done;
        return object_pin(object, pin);
    }
    object_occupy(object);
    persist_begin_base(persist, object, base);
    bg_slot_pin(object->slot, pin);
    return object_base(pin);
}

static void persist_let_go(struct object *object, bg_pin *pin)
{
    bg_slot_unpin(object->slot, pin);
    if (!object->commutes) {
        object_vacate(object);
    }
}

static bg_err persist_no_filter(bg_errinfo *info)
{
    return persist_fail(info, BG_ENOTFOUND, "the filter has no content to save");
}

/* Writes an object's shape as text, in the form used by the journal and by base files. */
static void persist_shape(const struct object *object, char text[OBJECT_SHAPE_TEXT])
{
    struct object_shape shape;
    object_describe(object, &shape);
    (void)object_shape_write(&shape, text);
}

/* Fills in the options and metadata stored with the filter. `how` points to `metadata`. */
static void persist_options(const struct object *object, const struct entry_base *base,
                            char metadata[OBJECT_SHAPE_TEXT + 16], bg_save_options *how)
{
    char shape[OBJECT_SHAPE_TEXT];
    persist_shape(object, shape);
    (void)snprintf(metadata, OBJECT_SHAPE_TEXT + 16, "object: %s", shape);
    how->metadata = metadata;
    how->generation = base->from;
    memcpy(how->key_id, object->shape.key_id, sizeof how->key_id);
}

/* Encodes a small filter; the caller frees *bytes. Returns BG_EINVAL if the filter is not
 * small. */
static bg_err persist_encode(const struct object *object, const bg_filter *filter,
                             const struct entry_base *base, void **bytes, size_t *n,
                             bg_errinfo *info)
{
    char metadata[OBJECT_SHAPE_TEXT + 16];
    bg_save_options how = BG_SAVE_OPTIONS_INIT;
    if (bg_filter_size_bytes(filter) >= PERSIST_SMALL) {
        return BG_EINVAL;
    }
    persist_options(object, base, metadata, &how);
    how.flags = BG_FILE_NO_CANARIES | (object->commutes ? 0 : BG_FILE_FROZEN);
    const bg_err err = bg_encode(filter, &how, NULL, 0, n, info);
    if (err) {
        return err;
    }
    *bytes = malloc(*n);
    return *bytes ? bg_encode(filter, &how, *bytes, *n, n, info)
                  : persist_fail(info, BG_ENOMEM,
                                 "out of memory: cannot encode a filter to save it");
}

/* Saves an object to a pack. Returns BG_EINVAL if the object needs its own file. */
static bg_err persist_save_packed(struct persist *persist, struct object *object,
                                  uint64_t done, struct pack_writer *pack,
                                  struct entry_base *base, bg_errinfo *info)
{
    bg_pin pin;
    bg_file_info about = { .struct_size = sizeof about };
    void *bytes = NULL;
    size_t n = 0;
    if (object->foreign) {
        return BG_EINVAL;
    }
    const bg_filter *filter = persist_hold(persist, object, done, base, &pin);
    bg_err err = filter ? persist_encode(object, filter, base, &bytes, &n, info)
                        : persist_no_filter(info);
    persist_let_go(object, &pin);
    err = err ? err : bg_encoded_get_info(bytes, n, &about, info);
    err = err ? err : pack_append(pack, bytes, n, base->file, info);
    memcpy(base->digest, about.digest_text, sizeof base->digest);
    free(bytes);
    return err;
}

static bg_err persist_save_file(const struct persist *persist,
                                const struct object *object, const bg_filter *filter,
                                struct entry_base *base, bg_errinfo *info)
{
    char metadata[OBJECT_SHAPE_TEXT + 16], path[PERSIST_PATH];
    bg_save_options how = BG_SAVE_OPTIONS_INIT;
    bg_file_info about = { .struct_size = sizeof about };
    persist_options(object, base, metadata, &how);
    persist_path(persist, base->file, path);
    bg_err err = bg_save(filter, path, &how, info);
    err = err ? err : bg_file_get_info(path, &about, info);
    memcpy(base->digest, about.digest_text, sizeof base->digest);
    return err;
}

/* Saves an object to its own file. A filter that must not change during the write is copied
 * first. */
static bg_err persist_save_alone(struct persist *persist, struct object *object,
                                 uint64_t done, struct entry_base *base,
                                 bg_errinfo *info)
{
    bg_filter *copy = NULL;
    bg_pin pin;
    const bg_filter *filter = persist_hold(persist, object, done, base, &pin);
    bg_err err = !filter ? persist_no_filter(info)
                 : object->commutes
                     ? persist_save_file(persist, object, filter, base, info)
                     : bg_filter_copy(filter, &copy, info);
    persist_let_go(object, &pin);
    if (copy) {
        err = persist_save_file(persist, object, copy, base, info);
    }
    bg_filter_free(copy);
    return err;
}

static const char *persist_ending(const struct object *object)
{
    return !object->foreign                                  ? ".bg"
           : object->shape.foreign == BG_FOREIGN_VALKEYBLOOM ? ".valkeybloom"
                                                             : ".redisbloom";
}

/* Returns a frame number such that all changes recorded below it have been applied (P2). */
static uint64_t persist_done(struct persist *persist)
{
    const uint64_t from = journal_next(persist->journal);
    quiet_wait(&persist->server->quiet);
    return from;
}

/* Saves an object to a new file. `done` is the result of persist_done. */
static bg_err persist_save_new(struct persist *persist, struct object *object,
                               uint64_t done, struct entry_base *base, bg_errinfo *info)
{
    /* Make sure that the data directory has not been replaced. */
    bg_err err = journal_check(persist->journal, info);
    *base = (struct entry_base){ .from = 0 };
    if (err) {
        return err;
    }
    if (!persist_new_name(persist_ending(object), base)) {
        return persist_fail(info, BG_EIO, "cannot get random bytes for a file name: %s",
                            text_errno(errno));
    }
    err = object->foreign ? persist_save_foreign(persist, object, base, info)
                          : persist_save_alone(persist, object, done, base, info);
    if (err) {
        persist_discard(persist, base);
    }
    return err;
}

bg_err persist_save(struct persist *persist, struct object *object,
                    struct entry_base *base, bg_errinfo *info)
{
    /* Delete retired files now; otherwise, a client that keeps replacing one filter could fill the
     * disk before the next snapshot. */
    (void)persist_clean(persist, NULL);
    return persist_save_new(persist, object, persist_done(persist), base, info);
}

void persist_discard(struct persist *persist, struct entry_base *base)
{
    char path[PERSIST_PATH];
    if (base->file[0] && !pack_is_reference(base->file)) {
        persist_path(persist, base->file, path);
        (void)unlink(path);
    }
    base->file[0] = 0;
}

/* ---- Recording ----------------------------------------------------------------------------- */

static bg_bytes persist_text(const char *text)
{
    return (bg_bytes){ text, strlen(text) };
}

/* Fills in a record that describes an object; the record points into the arguments. The caller
 * holds the catalog's lock, which protects the name. */
static void persist_describe(const struct entry *entry, const struct entry_base *base,
                             enum journal_type type, const char *shape,
                             struct journal_record *record)
{
    *record = (struct journal_record){
        .type = type,
        .id = entry->number,
        .name = catalog_name(entry),
        .shape = persist_text(shape),
        .expiry = atomic_load(&entry->expires),
        .file = persist_text(base->file),
        .digest = persist_text(base->digest),
        .from = base->from,
        .items = base->items,
        .deleted = base->deleted,
        .expansions = base->expansions,
    };
}

/* Appends records in one frame. records[0] is reserved for dropping `before` and releasing its
 * file; it is skipped if `before` is NULL. */
static bg_err persist_append(struct persist *persist, const struct entry *before,
                             struct journal_record *records, size_t n, bg_errinfo *info)
{
    const size_t skip = before ? 0 : 1;
    records[0] = (struct journal_record){ .type = JOURNAL_DROP,
                                          .id = before ? before->number : 0 };
    const bg_err err =
        journal_append(persist->journal, records + skip, n - skip, NULL, info);
    if (!err && before) {
        persist_retire(persist, before->base.file);
    }
    return err;
}

static bg_err persist_created(void *context, const struct entry *entry,
                              const struct entry *before, bg_errinfo *info)
{
    struct journal_record records[3];
    char shape[OBJECT_SHAPE_TEXT];
    const bool has_file = entry->base.file[0] != 0; /* (P4) */
    persist_shape(entry->object, shape);
    persist_describe(entry, &entry->base, JOURNAL_CREATE, shape, &records[1]);
    if (has_file) {
        persist_describe(entry, &entry->base, JOURNAL_BASE, shape, &records[2]);
    }
    return persist_append(context, before, records, has_file ? 3 : 2, info);
}

static bg_err persist_dropped(void *context, const struct entry *entry,
                              bg_errinfo *info)
{
    struct journal_record record;
    return persist_append(context, entry, &record, 1, info);
}

static bg_err persist_renamed(void *context, const struct entry *entry, bg_bytes name,
                              const struct entry *before, bg_errinfo *info)
{
    struct journal_record records[2];
    records[1] = (struct journal_record){ .type = JOURNAL_RENAME,
                                          .id = entry->number,
                                          .name = name };
    return persist_append(context, before, records, 2, info);
}

static bg_err persist_expiring(void *context, const struct entry *entry,
                               uint64_t expires, bg_errinfo *info)
{
    struct persist *persist = context;
    const struct journal_record record = { .type = JOURNAL_EXPIRE,
                                           .id = entry->number,
                                           .expiry = expires };
    return journal_append(persist->journal, &record, 1, NULL, info);
}

static bg_err persist_based(void *context, const struct entry *entry,
                            const struct entry_base *base, bg_errinfo *info)
{
    struct persist *persist = context;
    char shape[OBJECT_SHAPE_TEXT];
    struct journal_record record;
    persist_shape(entry->object, shape);
    persist_describe(entry, base, JOURNAL_BASE, shape, &record);
    record.name = (bg_bytes){ NULL, 0 };
    return journal_append(persist->journal, &record, 1, NULL, info);
}

void persist_hook(struct persist *persist)
{
    const struct catalog_hooks hooks = { .created = persist_created,
                                         .dropped = persist_dropped,
                                         .renamed = persist_renamed,
                                         .expiring = persist_expiring,
                                         .based = persist_based,
                                         .context = persist };
    catalog_set_hooks(persist->server->catalog, &hooks);
}

bg_err persist_record(struct persist *persist, struct entry *entry,
                      const struct change *change, bg_errinfo *info)
{
    uint64_t sequence = 0;
    const struct journal_record record = { .type = JOURNAL_CHANGE,
                                           .id = entry->number,
                                           .change = *change };
    const bg_err err = journal_append(persist->journal, &record, 1, &sequence, info);
    uint64_t last = err ? UINT64_MAX : atomic_load(&entry->recorded);
    while (last < sequence /* (P6) */
           && !atomic_compare_exchange_weak(&entry->recorded, &last, sequence)) {
    }
    return err;
}

bool persist_doubts(const struct persist *persist, bg_bytes name)
{
    return persist && persist->doubt && doubt_covers(persist->doubt, name);
}

void persist_name_is_free(struct persist *persist, bg_bytes name)
{
    if (persist) {
        doubt_clear_name(persist->doubt, name);
    }
}

/* ---- Checkpoints ---------------------------------------------------------------------------- */

/* An entry whose object is being saved; the saving thread holds `saving`. */
struct checkpoint {
    struct entry *entry;
    struct entry_base base;
    uint32_t changes;
};

static bg_err checkpoint_begin(struct persist *persist, struct checkpoint *c,
                               uint64_t done, struct pack_writer *pack,
                               bg_errinfo *info)
{
    struct object *object = c->entry->object;
    c->changes = object_keeping(object);
    bg_err err = pack ? persist_save_packed(persist, object, done, pack, &c->base, info)
                      : BG_EINVAL;
    if (err == BG_EINVAL) {
        err = persist_save_new(persist, object, done, &c->base, info);
    }
    if (err) {
        object_kept(object, c->changes, false);
    }
    return err;
}

/* Records the new base, whose file is already durable. If `err` is already an error, or the base
 * cannot be recorded, discards the base. */
static bg_err checkpoint_end(struct persist *persist, struct checkpoint *c, bg_err err,
                             bg_errinfo *info)
{
    struct entry_base before = { .from = 0 };
    const bool packed = !err && pack_is_reference(c->base.file);
    if (packed && !packs_hold(persist->packs, c->base.file)) {
        err = persist_fail(info, BG_ENOMEM, "out of memory: cannot track a pack file");
    } else if (!err) {
        /* Once the base is set, another thread may drop the object together with its base. */
        err = catalog_set_base(persist->server->catalog, c->entry, &c->base, false,
                               &before, info);
        if (err && packed) {
            persist_retire(persist, c->base.file);
        }
    }
    object_kept(c->entry->object, c->changes, err == BG_OK);
    if (err) {
        persist_discard(persist, &c->base);
        return err == BG_ENOTFOUND ? BG_OK : err; /* the object has been dropped */
    }
    persist_retire(persist, before.file);
    uint64_t recorded = atomic_load(&c->entry->recorded);
    /* If there are no records since the base, reset `recorded`. The exchange fails if a thread has
     * just reported a new record. */
    if (recorded < c->base.from) {
        (void)atomic_compare_exchange_strong(&c->entry->recorded, &recorded, 0);
    }
    return BG_OK;
}

static bg_err persist_checkpoint_locked(struct persist *persist, struct entry *entry,
                                        bg_errinfo *info)
{
    struct checkpoint c = { .entry = entry };
    const bg_err err = checkpoint_begin(persist, &c, persist_done(persist), NULL, info);
    if (err) {
        return err == BG_ENOTFOUND ? BG_OK : err; /* the object has lost its filter */
    }
    return checkpoint_end(persist, &c, BG_OK, info);
}

bg_err persist_checkpoint(struct persist *persist, struct entry *entry,
                          bg_errinfo *info)
{
    pthread_mutex_lock(&persist->saving);
    bg_err err = persist_checkpoint_locked(persist, entry, info);
    err = err ? err : persist_clean(persist, info);
    pthread_mutex_unlock(&persist->saving);
    return err;
}

/* ---- Snapshots ------------------------------------------------------------------------------ */

/* Returns the number of the first frame that must be kept for an entry that cannot be saved. Such
 * an entry needs frames below `first` only if its base could not be read but may become readable,
 * and the entry has records since that base. An entry that is still being loaded from a dump needs
 * no earlier frames. */
static uint64_t persist_unreadable(struct entry *entry, uint64_t first)
{
    if (atomic_load(&entry->recorded) && !persist_is_lost(&entry->base)) {
        return entry->base.from;
    }
    entry->base.from = first;
    return first;
}

/*
 * A batch of objects that are saved together. Small filters are written to one pack, which is
 * synced before any of their bases is recorded (P4).
 */
struct batch {
    struct persist *persist;
    struct pack_writer *pack;  /* NULL if each object gets its own file */
    char hold[PACK_REFERENCE]; /* reference that keeps the pack from being deleted */
    size_t n;
    struct checkpoint checkpoints[PERSIST_BATCH];
};

/* Returns whether a base needs a new file: its file was deleted, or less than half of its pack is
 * in use. */
static bool persist_needs_file(const struct persist *persist,
                               const struct entry_base *base)
{
    char path[PERSIST_PATH];
    if (!base->file[0] || persist_is_lost(base)) {
        return false;
    }
    if (pack_is_reference(base->file)) {
        return packs_is_sparse(persist->packs, base->file);
    }
    persist_path(persist, base->file, path);
    return access(path, F_OK) != 0 && errno == ENOENT;
}

/* Returns whether an entry must be saved: it has records since its base, its content has not been
 * saved yet, or its base needs a new file. */
static bool persist_wants(const struct persist *persist, struct entry *entry)
{
    return atomic_load(&entry->recorded) || !object_is_kept(entry->object)
           || persist_needs_file(persist, &entry->base);
}

/* Opens a pack if enough entries must be saved. */
static bg_err batch_begin(struct batch *batch, struct entry **some, size_t n,
                          bg_errinfo *info)
{
    struct persist *persist = batch->persist;
    struct entry_base name;
    char folder[PERSIST_PATH];
    size_t wanted = 0;
    for (size_t i = 0; i < n; i++) {
        wanted += persist_wants(persist, some[i]);
    }
    if (wanted < persist->pack_from) {
        return BG_OK;
    }
    const bg_err displaced = journal_check(persist->journal, info);
    if (displaced) {
        return displaced;
    }
    if (!persist_new_name(".pack", &name)) {
        return persist_fail(info, BG_EIO, "cannot get random bytes for a file name: %s",
                            text_errno(errno));
    }
    persist_path(persist, "", folder);
    (void)snprintf(batch->hold, sizeof batch->hold, "%.60s@0+0", name.file);
    if (!packs_hold(persist->packs, batch->hold)) {
        return persist_fail(info, BG_ENOMEM, "out of memory: cannot track a pack file");
    }
    const bg_err err = pack_begin(folder, name.file, &batch->pack, info);
    if (err) {
        persist_retire(persist, batch->hold);
    }
    return err;
}

/* Makes the files durable and records them. Releases their entries, even after an error. */
static bg_err batch_end(struct batch *batch, bg_err err, bg_errinfo *info)
{
    struct persist *persist = batch->persist;
    if (!err && batch->pack) {
        err = pack_finish(batch->pack, info);
        err = err ? err : persist_sync_folder(persist, info);
    }
    for (size_t i = 0; i < batch->n; i++) {
        struct checkpoint *c = &batch->checkpoints[i];
        const bg_err failed = checkpoint_end(persist, c, err, info);
        err = err ? err : failed;
        catalog_release(c->entry);
    }
    if (batch->pack) {
        pack_close(batch->pack);
        batch->pack = NULL;
        persist_retire(persist, batch->hold);
    }
    batch->n = 0;
    return err;
}

/* Saves the held entries that need to be saved. Sets `from` to `first` in the bases of entries that
 * have no new records. */
static bg_err batch_run(struct batch *batch, struct entry **some, size_t n,
                        uint64_t first, uint64_t *keep, bg_errinfo *info)
{
    struct persist *persist = batch->persist;
    bg_err err = batch_begin(batch, some, n, info);
    const uint64_t done = persist_done(persist);
    for (size_t i = 0; i < n; i++) {
        struct entry *entry = some[i];
        bool saved = false;
        if (err || atomic_load(&entry->gone)) {
            /* do not save the entry, only release it */
        } else if (!object_is_whole(entry->object)) {
            const uint64_t needs = persist_unreadable(entry, first);
            *keep = needs < *keep ? needs : *keep;
        } else if (persist_wants(persist, entry)) {
            struct checkpoint *c = &batch->checkpoints[batch->n];
            *c = (struct checkpoint){ .entry = entry };
            err = checkpoint_begin(persist, c, done, batch->pack, info);
            saved = !err;
            /* BG_ENOTFOUND means that the object has lost its filter. */
            err = err == BG_ENOTFOUND ? BG_OK : err;
        } else {
            entry->base.from = first;
        }
        batch->n += saved;
        if (!saved) {
            catalog_release(entry);
        }
    }
    return batch_end(batch, err, info);
}

/* Saves all objects with records since their base. Lowers *keep to the first frame needed by
 * objects that cannot be saved. */
static bg_err persist_save_changed(struct persist *persist, uint64_t first,
                                   uint64_t *keep, bg_errinfo *info)
{
    struct entry *some[PERSIST_BATCH];
    uint64_t after = 0;
    size_t n = 0;
    struct batch *batch = calloc(1, sizeof *batch);
    bg_err err = BG_OK;
    if (!batch) {
        return persist_fail(info, BG_ENOMEM, "out of memory: cannot start a snapshot");
    }
    batch->persist = persist;
    while (!err
           && (n = catalog_scan(persist->server->catalog, after, some, PERSIST_BATCH))
                  > 0) {
        after = some[n - 1]->number;
        err = batch_run(batch, some, n, first, keep, info);
        /* The journal contains all changes, so the snapshot can be abandoned. */
        if (!err && server_is_stopping()) {
            err = persist_fail(info, BG_ECANCELED, "the service is shutting down");
        }
    }
    free(batch);
    return err;
}

/* The destination of the manifest's records: the current journal or the first segment of a fresh
 * journal. */
struct manifest {
    struct persist *persist;
    struct journal_draft *draft;
    bool begun;
};

static bg_err manifest_append(struct manifest *manifest,
                              const struct journal_record *record, bg_errinfo *info)
{
    return manifest->draft
               ? journal_draft_append(manifest->draft, record, 1, info)
               : journal_append(manifest->persist->journal, record, 1, NULL, info);
}

/* Appends an entry; NULL marks the end. No object is created or dropped while the manifest is being
 * written. */
static bg_err manifest_visit(void *context, struct entry *entry, bg_errinfo *info)
{
    struct manifest *manifest = context;
    struct journal_record record = {
        .type = JOURNAL_MANIFEST_BEGIN,
        .count = catalog_count(manifest->persist->server->catalog),
    };
    char shape[OBJECT_SHAPE_TEXT];
    if (!manifest->begun) {
        const struct journal_record doubt = { .type = JOURNAL_DOUBT };
        manifest->begun = true;
        bg_err err = manifest_append(manifest, &record, info);
        if (!err && manifest->persist->doubt) {
            err = manifest_append(manifest, &doubt, info);
        }
        if (err) {
            return err;
        }
    }
    if (entry) {
        persist_shape(entry->object, shape);
        persist_describe(entry, &entry->base, JOURNAL_MANIFEST_ENTRY, shape, &record);
    } else {
        record.type = JOURNAL_MANIFEST_END;
    }
    return manifest_append(manifest, &record, info);
}

/* Writes the manifest to a draft or, if `draft` is NULL, to the current journal (journal_fill). */
static bg_err persist_write_manifest(void *persist, struct journal_draft *draft,
                                     bg_errinfo *info)
{
    struct manifest manifest = { .persist = persist, .draft = draft };
    return catalog_each(manifest.persist->server->catalog, manifest_visit, &manifest,
                        info);
}

/* Determines an object's base before the older journal records are deleted. If the object has no
 * records since its base, and the base's file exists, the object keeps the base, so that retries do
 * not write a second copy. If the base cannot be read, the object cannot be saved. If such an
 * object has records since its base, it must never be restored without these records, even if the
 * file becomes readable again. Therefore, its base gets the name of a nonexistent file. */
static bg_err persist_base_anew(struct persist *persist, struct entry *entry,
                                struct entry_base *base, bg_errinfo *info)
{
    if (object_is_whole(entry->object) && persist_wants(persist, entry)) {
        return persist_save_new(persist, entry->object, persist_done(persist), base,
                                info);
    }
    *base = entry->base;
    if (atomic_load(&entry->recorded)) {
        persist_lose(base);
    }
    base->from = journal_next(persist->journal);
    return BG_OK;
}

/* Saves an object for the fresh journal. No changes are recorded during the save, because the
 * journal has failed. */
static bg_err persist_save_anew(struct persist *persist, struct entry *entry,
                                bg_errinfo *info)
{
    struct entry_base base, before = { .from = 0 };
    const uint32_t changes = object_keeping(entry->object);
    bg_err err = persist_base_anew(persist, entry, &base, info);
    if (!err) {
        err = catalog_set_base(persist->server->catalog, entry, &base, true, &before,
                               info);
    }
    if (!err) {
        if (strcmp(persist_file(before.file), persist_file(base.file)) != 0) {
            persist_retire(persist, before.file);
        }
        atomic_store(&entry->recorded, 0);
    }
    object_kept(entry->object, changes, err == BG_OK);
    return err == BG_ENOTFOUND ? BG_OK : err;
}

/* Recovers from a failed journal: saves all objects and starts a fresh journal. If that fails as
 * well, a restart still finds the old journal and its files, because they are deleted only once the
 * fresh journal is in use. */
static bg_err persist_reopen(struct persist *persist, bg_errinfo *info)
{
    struct entry *some[16];
    uint64_t after = 0;
    size_t n = 0;
    bg_err err = BG_OK;
    quiet_wait(&persist->server->quiet);
    while (!err && (n = catalog_scan(persist->server->catalog, after, some, 16)) > 0) {
        after = some[n - 1]->number;
        for (size_t i = 0; i < n; i++) {
            if (!err && !atomic_load(&some[i]->gone)) {
                err = persist_save_anew(persist, some[i], info);
            }
            catalog_release(some[i]);
        }
    }
    return err ? err
               : journal_reopen(persist->journal, persist_write_manifest, persist,
                                info);
}

static bg_err persist_snapshot_locked(struct persist *persist, bg_errinfo *info)
{
    uint64_t first = 0, keep = 0;
    char folder[PERSIST_PATH];
    struct journal_state state;
    /* Until loading finishes, the catalog does not contain all filters. */
    if (!atomic_load(&persist->loaded)) {
        return persist_fail(info, BG_EBUSY,
                            "the filters are still being loaded; try again later");
    }
    persist_path(persist, "", folder);
    packs_measure(persist->packs, folder);
    journal_about(persist->journal, &state);
    if (state.failed) {
        const bg_err failed = persist_reopen(persist, info);
        return failed ? failed : persist_clean(persist, info);
    }
    bg_err err = journal_rotate(persist->journal, &first, info);
    if (!err) {
        /* After this wait, `recorded` is set for every entry with records below `first`. */
        quiet_wait(&persist->server->quiet);
        keep = first;
        err = persist_save_changed(persist, first, &keep, info);
    }
    err = err ? err : persist_write_manifest(persist, NULL, info);
    err = err ? err : journal_remove_before(persist->journal, keep, NULL, info);
    return err ? err : persist_clean(persist, info);
}

enum { PERSIST_RETRY = 5000 }; /* milliseconds to wait before a retry */

bg_err persist_snapshot(struct persist *persist, bg_errinfo *info)
{
    bg_errinfo own;
    struct journal_state state = { .bytes = 0 };
    info = info ? info : &own;
    const uint64_t began = clock_ticks();
    /* The memory limit does not apply to snapshots, because they shrink the journal. */
    const bool before = ledger_exempt(true);
    pthread_mutex_lock(&persist->saving);
    const bg_err err = persist_snapshot_locked(persist, info);
    pthread_mutex_unlock(&persist->saving);
    (void)ledger_exempt(before);
    if (!err) {
        journal_about(persist->journal, &state);
    }
    const double seconds = (double)(clock_ticks() - began) / 1000;
    pthread_mutex_lock(&persist->told_lock);
    if (err) {
        persist->stats.snapshot_failures++;
        (void)snprintf(persist->stats.snapshot_failure,
                       sizeof persist->stats.snapshot_failure, "%s", info->message);
        atomic_store(&persist->next_try, clock_ticks() + PERSIST_RETRY);
    } else {
        persist->left = state.bytes;
        persist->snapshot_ticks = clock_ticks();
        persist->stats.snapshots++;
        persist->stats.snapshot_failure[0] = 0;
        persist->stats.last_snapshot = clock_now();
        persist->stats.last_snapshot_seconds = seconds;
    }
    pthread_mutex_unlock(&persist->told_lock);
    if (err) {
        log_event(LOG_EVENT_FAILURE, (bg_bytes){ NULL, 0 }, "snapshot failed: %s",
                  info->message);
    } else {
        log_event(LOG_EVENT_SNAPSHOT, (bg_bytes){ NULL, 0 },
                  "saved %zu filters in %.3f s",
                  catalog_count(persist->server->catalog), seconds);
    }
    return err;
}

/* ---- Periodic work ----------------------------------------------------------------------- */

static void *persist_work(void *context)
{
    struct persist *persist = context;
    (void)persist_snapshot(persist, NULL);
    atomic_store(&persist->thread_running, false);
    return NULL;
}

/* Takes a snapshot in a background thread, unless one is running or the thread cannot be created. */
static void persist_snapshot_start(struct persist *persist)
{
    if (atomic_load(&persist->thread_running)) {
        return;
    }
    persist_stop(persist); /* joins the thread of the last snapshot */
    atomic_store(&persist->thread_running, true);
    persist->thread_joinable =
        pthread_create(&persist->thread, NULL, persist_work, persist) == 0;
    if (!persist->thread_joinable) {
        atomic_store(&persist->thread_running, false);
    }
}

static enum journal_policy persist_policy(const struct settings *settings)
{
    switch ((enum settings_fsync)settings->appendfsync) {
    case FSYNC_ALWAYS: return JOURNAL_ALWAYS;
    case FSYNC_EVERYSEC: return JOURNAL_EVERYSEC;
    case FSYNC_NO: break;
    }
    return JOURNAL_NO;
}

void persist_apply(struct persist *persist, const struct settings *settings)
{
    journal_set_policy(persist->journal, persist_policy(settings));
}

/* Returns whether a snapshot is due. The size limit applies to the bytes added since the last
 * snapshot, not to the total size, because older segments may still be needed and the manifest
 * alone may be large. */
static bool persist_is_due(struct persist *persist, const struct settings *settings,
                           const struct journal_state *state)
{
    const uint64_t ticks = clock_ticks();
    pthread_mutex_lock(&persist->told_lock);
    const uint64_t left = persist->left, last = persist->snapshot_ticks;
    pthread_mutex_unlock(&persist->told_lock);
    const uint64_t more = state->bytes > left ? state->bytes - left : 0;
    const bool wanted =
        state->failed
        || (settings->snapshot_journal_size && more > settings->snapshot_journal_size)
        || (settings->snapshot_interval > 0 && state->segment_bytes > 4096
            && (double)(ticks - last) > settings->snapshot_interval * 1000);
    const uint64_t since = atomic_load(&persist->wanted_since);
    atomic_store(&persist->wanted_since, !wanted ? 0 : since ? since : ticks);
    return wanted && ticks >= atomic_load(&persist->next_try);
}

void persist_tick(struct persist *persist)
{
    const struct settings *settings = settings_now(persist->server->store);
    struct journal_state state;
    atomic_store(&persist->displaced, journal_check(persist->journal, NULL) != BG_OK);
    journal_about(persist->journal, &state);
    if (persist_is_due(persist, settings, &state)) {
        persist_snapshot_start(persist);
    }
}

/* ---- Replies that wait ------------------------------------------------------------------- */

uint64_t persist_tail(const struct persist *persist)
{
    return journal_next(persist->journal) - 1;
}

uint64_t persist_safe(const struct persist *persist)
{
    return journal_durable(persist->journal);
}

bg_err persist_flush(struct persist *persist, bg_errinfo *info)
{
    return journal_syncs(persist->journal) ? BG_OK
                                           : journal_flush(persist->journal, info);
}

void persist_on_safe(struct persist *persist, void (*told)(void *context),
                     void *context)
{
    persist->on_safe = told;
    persist->on_safe_context = context;
}

/* Stores the current failure, or "" for none. Returns true if the failure has changed. */
static bool persist_note_failure(struct persist *persist, const char *failure)
{
    pthread_mutex_lock(&persist->told_lock);
    const bool news = strcmp(persist->failure, failure) != 0;
    (void)snprintf(persist->failure, sizeof persist->failure, "%s", failure);
    pthread_mutex_unlock(&persist->told_lock);
    return news;
}

void persist_told(void *context, uint64_t durable, const bg_errinfo *failure)
{
    struct persist *persist = context;
    const bool fails = failure && failure->code != BG_OK;
    (void)durable;
    if (persist_note_failure(persist, fails ? failure->message : "")) {
        (fails ? log_event : log_recovery)(LOG_EVENT_FAILURE, (bg_bytes){ NULL, 0 },
                                           "journal: %s",
                                           fails ? failure->message : "works again");
    }
    atomic_store(&persist->failing, fails);
    if (persist->on_safe) {
        persist->on_safe(persist->on_safe_context);
    }
}

bool persist_is_displaced(const struct persist *persist)
{
    return atomic_load(&persist->displaced);
}

bool persist_works(const struct persist *persist, char why[BG_ERR_MESSAGE_MAX])
{
    struct persist *mine = (struct persist *)persist;
    if (!atomic_load_explicit(&mine->failing, memory_order_relaxed)) {
        return true;
    }
    pthread_mutex_lock(&mine->told_lock);
    (void)snprintf(why, BG_ERR_MESSAGE_MAX, "%s", mine->failure);
    pthread_mutex_unlock(&mine->told_lock);
    return false;
}

void persist_about(const struct persist *persist, struct persist_stats *stats)
{
    struct persist *mine = (struct persist *)persist;
    struct journal_state state = { .next = 1 };
    if (atomic_load(&mine->loaded)) {
        journal_about(mine->journal, &state);
    }
    pthread_mutex_lock(&mine->told_lock);
    *stats = mine->stats;
    memcpy(stats->failure, mine->failure, sizeof stats->failure);
    pthread_mutex_unlock(&mine->told_lock);
    stats->journal_bytes = state.bytes;
    stats->journal_segments = state.segments;
    stats->frames = state.appends;
    stats->syncs = state.syncs;
    stats->unsynced = state.next - 1 - state.synced;
    stats->failed = state.failed || state.failure.code != BG_OK;
    stats->snapshotting = atomic_load(&mine->thread_running);
    const uint64_t wanted_since = atomic_load(&mine->wanted_since);
    stats->overdue_seconds =
        wanted_since ? (double)(clock_ticks() - wanted_since) / 1000 : 0;
}

/* Returns whether the directory contains filter files, which means that it once contained a
 * journal. */
static bool persist_has_files(const char *dir)
{
    char path[PERSIST_PATH];
    (void)snprintf(path, sizeof path, "%.3800s/filters", dir);
    DIR *folder = opendir(path);
    struct dirent *entry = NULL;
    bool any = false;
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): no other thread reads this stream */
    while (folder && !any && (entry = readdir(folder)) != NULL) {
        any = persist_is_base(entry->d_name);
    }
    if (folder) {
        closedir(folder);
    }
    return any;
}

/* ---- Creating and freeing ---------------------------------------------------------------- */

bg_err persist_create(struct server *server, struct persist **persist, bg_errinfo *info)
{
    const struct settings *settings = settings_now(server->store);
    struct persist *made = calloc(1, sizeof *made);
    const struct journal_options how = {
        .policy = persist_policy(settings),
        .beyond_damage = settings->damaged_journal != DAMAGED_REFUSE,
        .existed = persist_has_files(settings->dir),
    };
    char path[PERSIST_PATH];
    bg_err err = BG_OK;
    *persist = NULL;
    if (!made || !(made->packs = packs_create())) {
        err = persist_fail(info, BG_ENOMEM,
                           "out of memory: cannot open the data directory");
    } else if (strlen(settings->dir) >= sizeof made->folder) {
        err =
            persist_fail(info, BG_EINVAL, "dir: the path has %zu bytes (maximum: %zu)",
                         strlen(settings->dir), sizeof made->folder - 1);
    } else {
        (void)snprintf(made->folder, sizeof made->folder, "%s", settings->dir);
        persist_path(made, "", path);
        err = mkdir(path, 0700) && errno != EEXIST
                  ? persist_fail(info, BG_EIO, "cannot create directory %.300s: %s",
                                 path, text_errno(errno))
                  : journal_open(made->folder, &how, &made->journal, info);
    }
    if (err) {
        packs_free(made ? made->packs : NULL);
        free(made);
        return err;
    }
    made->server = server;
    made->pack_from = PERSIST_PACK_FROM;
    made->snapshot_ticks = clock_ticks();
    pthread_mutex_init(&made->told_lock, NULL);
    pthread_mutex_init(&made->saving, NULL);
    pthread_mutex_init(&made->retired_lock, NULL);
    *persist = made;
    return BG_OK;
}

void persist_stop(struct persist *persist)
{
    if (persist && persist->thread_joinable) {
        pthread_join(persist->thread, NULL);
        persist->thread_joinable = false;
    }
}

/* Logs an error if the last records were not written. Returns whether they were. */
static bool persist_written(bg_err err, const bg_errinfo *info)
{
    if (err) {
        log_error("the journal was not closed cleanly; the last changes may be lost",
                  LOG_FIELDS(log_text("error", info->message)));
    }
    return !err;
}

bool persist_sync(struct persist *persist)
{
    bg_errinfo info;
    return !persist || !atomic_load(&persist->loaded)
           || persist_written(journal_sync(persist->journal, &info), &info);
}

bool persist_free(struct persist *persist)
{
    bg_errinfo info;
    if (!persist) {
        return true;
    }
    persist_stop(persist);
    const struct catalog_hooks none = { .context = NULL };
    catalog_set_hooks(persist->server->catalog, &none);
    const bool closed = persist_written(journal_close(persist->journal, &info), &info);
    while (persist->retired) {
        struct retired *retired = persist->retired;
        persist->retired = retired->next;
        free(retired);
    }
    pthread_mutex_destroy(&persist->told_lock);
    pthread_mutex_destroy(&persist->saving);
    pthread_mutex_destroy(&persist->retired_lock);
    doubt_free(persist->doubt);
    packs_free(persist->packs);
    free(persist);
    return closed;
}
