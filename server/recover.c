/*
 * recover.c - reading the data folder at the start.
 *
 * The journal is read twice. First it is only asked which objects there are in the end, where
 * their bases are, and from which frame on their records count; a manifest is the whole truth at
 * its place, so what was before it and is not in it is gone. Then the bases are opened, each
 * checked against the digest that was recorded, and the records that count are done again, in
 * their order.
 *
 * An object whose base is missing, damaged or made with a secret that is not there is not left
 * out, since its absence would answer "no": its slot stays without a filter, answers "maybe" and
 * refuses adds, and the log says why. What is recorded for it stays recorded.
 */
#include "log.h"
#include "persist_inside.h"
#include "server.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* An object as the journal describes it. */
struct found {
    uint64_t id;
    char *name; /* with name_len bytes */
    size_t name_len;
    char shape[OBJECT_SHAPE_TEXT];
    uint64_t expiry;
    struct entry_base base;
    uint64_t items, deleted, expansions;
    struct object *object;
    bool broken;   /* its base cannot be read */
    bool recorded; /* something counts beyond its base */
    uint64_t last; /* the frame of the last of it */
};

struct founds {
    struct found *items; /* by id */
    size_t n, room;
};

struct recovery {
    struct persist *persist;
    struct founds all;
    struct founds manifest; /* one that is being read */
    bool in_manifest;
    uint64_t next_id;
    uint64_t records;
    void (*progress)(void *context, uint64_t done, uint64_t all);
    void *context;
};

/* ---- Lists of objects --------------------------------------------------------------------------- */

/* The first with that id or above. */
static size_t founds_at(const struct founds *founds, uint64_t id)
{
    size_t low = 0, high = founds->n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (founds->items[middle].id < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static struct found *founds_find(const struct founds *founds, uint64_t id)
{
    const size_t at = founds_at(founds, id);
    return at < founds->n && founds->items[at].id == id ? &founds->items[at] : NULL;
}

static struct found *founds_add(struct founds *founds, uint64_t id)
{
    const size_t at = founds_at(founds, id);
    if (at < founds->n && founds->items[at].id == id) {
        return &founds->items[at];
    }
    if (founds->n == founds->room) {
        const size_t room = founds->room ? 2 * founds->room : 64;
        struct found *items = realloc(founds->items, room * sizeof *items);
        if (!items) {
            return NULL;
        }
        founds->items = items;
        founds->room = room;
    }
    memmove(founds->items + at + 1, founds->items + at,
            (founds->n - at) * sizeof *founds->items);
    founds->n++;
    founds->items[at] = (struct found){ .id = id };
    return &founds->items[at];
}

static void founds_remove(struct founds *founds, uint64_t id)
{
    struct found *found = founds_find(founds, id);
    if (found) {
        free(found->name);
        founds->n--;
        memmove(found, found + 1,
                (size_t)(founds->items + founds->n - found) * sizeof *found);
    }
}

static void founds_clear(struct founds *founds)
{
    for (size_t i = 0; i < founds->n; i++) {
        free(founds->items[i].name);
        object_free(founds->items[i].object);
    }
    free(founds->items);
    *founds = (struct founds){ NULL, 0, 0 };
}

/* ---- First reading: what there is --------------------------------------------------------------- */

static bg_err found_name(struct found *found, bg_bytes name, bg_errinfo *info)
{
    char *copy = malloc(name.len + 1);
    if (!copy) {
        return persist_fail(info, BG_ENOMEM, "out of memory");
    }
    if (name.len) {
        memcpy(copy, name.data, name.len);
    }
    free(found->name);
    found->name = copy;
    found->name_len = name.len;
    return BG_OK;
}

static bg_err found_text(bg_bytes text, char *to, size_t room, const char *what,
                         bg_errinfo *info)
{
    if (text.len >= room) {
        return persist_fail(info, BG_EFORMAT,
                            "journal: %s of %zu bytes, expected less than %zu", what,
                            text.len, room);
    }
    if (text.len) {
        memcpy(to, text.data, text.len);
    }
    to[text.len] = 0;
    return BG_OK;
}

static bg_err found_base(struct found *found, const struct journal_record *record,
                         bg_errinfo *info)
{
    struct entry_base base = { .from = record->from };
    bg_err err =
        found_text(record->file, base.file, sizeof base.file, "a file name", info);
    if (!err) {
        err = found_text(record->digest, base.digest, sizeof base.digest, "a digest",
                         info);
    }
    if (!err && strchr(base.file, '/')) {
        err = persist_fail(info, BG_EFORMAT, "journal: a file name with '/'");
    }
    if (!err) {
        err = found_text(record->shape, found->shape, sizeof found->shape, "a shape",
                         info);
    }
    if (!err) {
        found->base = base;
        found->items = record->items;
        found->deleted = record->deleted;
        found->expansions = record->expansions;
    }
    return err;
}

static bg_err recovery_create(struct founds *founds,
                              const struct journal_record *record, bg_errinfo *info)
{
    struct found *found = founds_add(founds, record->id);
    if (!found) {
        return persist_fail(info, BG_ENOMEM, "out of memory");
    }
    found->expiry = record->expiry;
    const bg_err err = found_name(found, record->name, info);
    if (err) {
        return err;
    }
    return record->type == JOURNAL_MANIFEST_ENTRY
               ? found_base(found, record, info)
               : found_text(record->shape, found->shape, sizeof found->shape, "a shape",
                            info);
}

static bg_err recovery_manifest_end(struct recovery *r,
                                    const struct journal_record *record,
                                    bg_errinfo *info)
{
    if (!r->in_manifest || r->manifest.n != record->count) {
        return persist_fail(info, BG_EFORMAT,
                            "journal: a manifest of %zu objects, expected %llu",
                            r->manifest.n, (unsigned long long)record->count);
    }
    founds_clear(&r->all);
    r->all = r->manifest;
    r->manifest = (struct founds){ NULL, 0, 0 };
    r->in_manifest = false;
    return BG_OK;
}

static bg_err recovery_look(void *context, uint64_t sequence,
                            const struct journal_record *record, bg_errinfo *info)
{
    struct recovery *r = context;
    struct found *found = founds_find(&r->all, record->id);
    (void)sequence;
    if (record->id >= r->next_id) {
        r->next_id = record->id + 1;
    }
    switch (record->type) {
    case JOURNAL_CREATE: return recovery_create(&r->all, record, info);
    case JOURNAL_DROP: founds_remove(&r->all, record->id); return BG_OK;
    case JOURNAL_RENAME: return found ? found_name(found, record->name, info) : BG_OK;
    case JOURNAL_EXPIRE:
        if (found) {
            found->expiry = record->expiry;
        }
        return BG_OK;
    case JOURNAL_BASE: return found ? found_base(found, record, info) : BG_OK;
    case JOURNAL_MANIFEST_BEGIN:
        founds_clear(&r->manifest);
        r->in_manifest = true;
        return BG_OK;
    case JOURNAL_MANIFEST_ENTRY: return recovery_create(&r->manifest, record, info);
    case JOURNAL_MANIFEST_END: return recovery_manifest_end(r, record, info);
    default: return BG_OK;
    }
}

/* ---- The bases ------------------------------------------------------------------------------------ */

static bg_err recovery_read_whole(const char *path, void **bytes, size_t *n,
                                  bg_errinfo *info)
{
    struct stat about;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    *bytes = NULL;
    if (fd < 0 || fstat(fd, &about)) {
        const bg_err err = persist_fail(info, BG_EIO, "%s: %s", path, strerror(errno));
        if (fd >= 0) {
            close(fd);
        }
        return err;
    }
    char *memory = malloc((size_t)about.st_size + 1);
    size_t got = 0;
    ssize_t more = 1;
    while (memory && more > 0 && got < (size_t)about.st_size) {
        more = read(fd, memory + got, (size_t)about.st_size - got);
        got += more > 0 ? (size_t)more : 0;
    }
    close(fd);
    if (!memory || got < (size_t)about.st_size) {
        free(memory);
        return persist_fail(info, BG_EIO, "%s: cannot be read", path);
    }
    *bytes = memory;
    *n = got;
    return BG_OK;
}

static bg_err recovery_open_foreign(const struct found *found, const char *path,
                                    bg_foreign **foreign, bg_errinfo *info)
{
    char digest[BG_DIGEST_TEXT];
    void *bytes = NULL;
    size_t n = 0;
    bg_err err = recovery_read_whole(path, &bytes, &n, info);
    if (err) {
        return err;
    }
    persist_foreign_digest(bytes, n, digest);
    err = strcmp(digest, found->base.digest) == 0
              ? bg_foreign_read(BG_FOREIGN_REDISBLOOM, bytes, n, NULL, foreign, info)
              : persist_fail(info, BG_ECHECKSUM, "digest %s, expected %s", digest,
                             found->base.digest);
    free(bytes);
    return err;
}

static bg_err recovery_open_file(const struct recovery *r, const struct found *found,
                                 const struct object_shape *shape, const char *path,
                                 bg_filter **filter, bg_errinfo *info)
{
    const struct command_settings secrets = { .keyring = r->persist->server->keyring };
    bg_hash_spec hash;
    bg_file_info about = { .struct_size = sizeof about };
    bg_open_options how = BG_OPEN_OPTIONS_INIT;
    bg_err err = object_hash_spec(shape, &secrets, &hash, info);
    if (!err) {
        err = bg_file_about(path, &about, info);
    }
    if (!err && strcmp(about.digest_text, found->base.digest) != 0) {
        err = persist_fail(info, BG_ECHECKSUM, "digest %s, expected %s",
                           about.digest_text, found->base.digest);
    }
    how.hash = &hash;
    return err ? err : bg_open(path, &how, filter, info);
}

/* The object of a base, or an empty one; an error is the base's. */
static bg_err recovery_open(const struct recovery *r, const struct found *found,
                            const struct object_shape *shape, struct object **object,
                            bg_errinfo *info)
{
    const struct command_settings secrets = { .keyring = r->persist->server->keyring };
    char path[PERSIST_PATH];
    bg_filter *filter = NULL;
    bg_foreign *foreign = NULL;
    if (!found->base.file[0]) {
        return object_create(shape, &secrets, object, info);
    }
    persist_path(r->persist, found->base.file, path);
    bg_err err = strstr(found->base.file, ".redisbloom")
                     ? recovery_open_foreign(found, path, &foreign, info)
                     : recovery_open_file(r, found, shape, path, &filter, info);
    if (!err) {
        err = object_adopt(shape, filter, foreign, object, info);
        if (err) {
            bg_filter_free(filter);
            bg_foreign_free(foreign);
        }
    }
    return err;
}

static bg_err recovery_make(struct recovery *r, struct found *found, bg_errinfo *info)
{
    struct object_shape shape;
    bg_errinfo why;
    bg_err err = object_shape_read(found->shape, strlen(found->shape), &shape, info);
    if (err) {
        return err;
    }
    err = recovery_open(r, found, &shape, &found->object, &why);
    if (err == BG_ENOMEM) {
        *info = why;
        return err;
    }
    if (err) {
        found->broken = true;
        log_event(
            LOG_EVENT_ALARM, (bg_bytes){ found->name, found->name_len },
            "its file cannot be used, so it answers \"maybe\" and takes no adds: %s",
            why.message);
        err = object_adopt(&shape, NULL, NULL, &found->object, info);
    }
    if (!err) {
        atomic_store(&found->object->items, found->items);
        atomic_store(&found->object->deleted, found->deleted);
        atomic_store(&found->object->expansions, found->expansions);
    }
    return err;
}

/* ---- Second reading: what happened since ------------------------------------------------------------ */

static bg_err recovery_do(void *context, uint64_t sequence,
                          const struct journal_record *record, bg_errinfo *info)
{
    struct recovery *r = context;
    struct found *found =
        record->type == JOURNAL_CHANGE ? founds_find(&r->all, record->id) : NULL;
    if (!found || sequence < found->base.from) {
        return BG_OK;
    }
    found->last = sequence;
    if (found->broken) {
        return BG_OK;
    }
    r->records += record->change.n;
    return object_apply(found->object, &record->change, info);
}

/* ---- All of it --------------------------------------------------------------------------------------- */

/* Files that no object has: of snapshots that were cut short, of objects that are gone. */
static void recovery_clean(const struct recovery *r)
{
    char path[PERSIST_PATH];
    persist_path(r->persist, "", path);
    DIR *folder = opendir(path);
    struct dirent *entry = NULL;
    while (folder && (entry = readdir(folder)) != NULL) {
        bool needed = entry->d_name[0] == '.';
        for (size_t i = 0; !needed && i < r->all.n; i++) {
            needed = strcmp(entry->d_name, r->all.items[i].base.file) == 0;
        }
        if (!needed) {
            persist_path(r->persist, entry->d_name, path);
            (void)unlink(path);
        }
    }
    if (folder) {
        closedir(folder);
    }
}

static bg_err recovery_install(struct recovery *r, bg_errinfo *info)
{
    struct catalog *catalog = r->persist->server->catalog;
    const uint64_t now = server_now();
    for (size_t i = 0; i < r->all.n; i++) {
        struct found *found = &r->all.items[i];
        const bg_bytes name = { found->name, found->name_len };
        found->object->id = found->id;
        bg_err err = catalog_put(catalog, name, found->object, &found->base,
                                 CATALOG_FORCE_NUMBER, now, info);
        if (err) {
            return err;
        }
        struct entry *entry = found->object->entry;
        found->object = NULL; /* the catalogue's */
        if (found->expiry) {  /* even if that has been already */
            err = catalog_expire(catalog, name, found->expiry, 0, info);
        }
        if (err) {
            return err;
        }
        atomic_store(&entry->recorded, found->last);
    }
    catalog_skip_numbers(catalog, r->next_id);
    return BG_OK;
}

static bg_err recovery_run(struct recovery *r, struct journal_report *report,
                           bg_errinfo *info)
{
    struct persist *persist = r->persist;
    bg_err err = journal_replay(persist->journal, recovery_look, r, report, info);
    for (size_t i = 0; !err && i < r->all.n; i++) {
        err = recovery_make(r, &r->all.items[i], info);
        if (r->progress) {
            r->progress(r->context, i + 1, r->all.n);
        }
    }
    if (!err) {
        err = journal_replay(persist->journal, recovery_do, r, report, info);
    }
    if (!err) {
        recovery_clean(r);
        err = recovery_install(r, info);
    }
    if (!err) {
        err = journal_begin(persist->journal, report, info);
    }
    return err;
}

bg_err persist_load(struct persist *persist,
                    void (*progress)(void *context, uint64_t done, uint64_t all),
                    void *context, bg_errinfo *info)
{
    struct recovery r = {
        .persist = persist, .next_id = 1, .progress = progress, .context = context
    };
    struct journal_report report;
    const uint64_t began = server_ticks();
    bg_err err = recovery_run(&r, &report, info);
    const size_t filters = r.all.n;
    founds_clear(&r.all);
    founds_clear(&r.manifest);
    if (err) {
        return err;
    }
    persist_hook(persist);
    err = journal_start(persist->journal, persist_told, persist, info);
    pthread_mutex_lock(&persist->told_lock);
    persist->stats.loaded_filters = filters;
    persist->stats.replayed_records = r.records;
    persist->stats.torn_bytes = report.dropped;
    persist->stats.load_seconds = (double)(server_ticks() - began) / 1000;
    pthread_mutex_unlock(&persist->told_lock);
    atomic_store(&persist->loaded, true);
    log_event(
        LOG_EVENT_LOAD, (bg_bytes){ NULL, 0 },
        "%zu filters, %llu records done again, %llu torn bytes cut off, in %.3f s",
        filters, (unsigned long long)r.records, (unsigned long long)report.dropped,
        persist->stats.load_seconds);
    return err;
}
