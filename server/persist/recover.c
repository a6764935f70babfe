/*
 * recover.c - reads the data directory at startup.
 *
 * The journal is read twice. The first pass only determines which objects exist at the end of the
 * journal, where their bases are, and at which frame the replay of each object must start. A
 * manifest is a complete list of the objects that exist at its position in the journal, so an
 * earlier object that is not listed was dropped. Then each base is opened and verified against its
 * recorded digest. The second pass replays each object's records in order, starting at the frame
 * found in the first pass.
 *
 * An object is kept even if its base is missing, is damaged or was created with a secret that is
 * not available, or if its records cannot be replayed. Without the object, lookups would answer
 * "no". Such an object has a slot without a filter, which answers "maybe" and refuses adds. The
 * reason is logged, and the object's records are kept.
 *
 * Gaps. A damaged journal is an error unless the settings allow starting despite the damage. After
 * such a start, the content of the missing frames is unknown, and all objects and names that the
 * missing frames may have changed are in doubt:
 *
 *   (G1) Every object that existed before the gap may have lost records, been renamed or been
 *        dropped. Such an object permanently loses its filter, as described above, and does not
 *        expire. Its base file is kept.
 *   (G2) Any other name may belong to an unknown object. Lookups of such a name answer "maybe", and
 *        no empty filter can be created under that name (doubt.h).
 *   (G3) Two objects may appear to have the same name. The most recently named object keeps the
 *        name.
 *   (G4) A complete manifest that starts after the gap ends the state in (G2). The manifest also
 *        ends the state in (G1) for objects whose base is newer than the gap. A manifest written
 *        while names are in doubt records that fact and does not end the state in (G2).
 *   (G5) All changes to an object that was created after the gap are known.
 *
 * Files. A file that no object uses is deleted only if there is proof that no object needs it. The
 * proof is a journal that has no gap between its start (or a manifest) and a segment known to be
 * the newest. The journal must also leave no name in doubt, and all of its objects must be
 * readable. Only recovery_file_fate decides whether to delete a file. Directories written by
 * version 0.1 do not record which segment is the newest. In such a directory, the first startup
 * moves unused files to the subdirectory `forgotten`. A pack in use may also contain parts that
 * belong to unknown objects, so without the proof, the pack is kept until the next startup.
 */
#include "clock.h"
#include "core/server.h"
#include "error_text.h"
#include "persist/doubt.h"
#include "persist/state.h"
#include "text.h"
#include "util/log.h"

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
    char *name; /* name_len bytes */
    size_t name_len;
    char *shape; /* text */
    uint64_t expiry;
    uint64_t born;  /* earlier frames contain no records for this object */
    uint64_t named; /* frame in which the object was named */
    struct entry_base base;
    struct object *object;
    bool doubted;  /* some records may be missing (G1) */
    bool broken;   /* the base cannot be read */
    uint64_t last; /* last frame to replay on top of the base, or 0 */
};

/* A list element. A dropped object keeps its position until the list is compacted. There may be
 * many dropped objects. */
struct founds_place {
    uint64_t id;
    struct found *found; /* NULL if dropped */
};

struct founds {
    struct founds_place *places; /* sorted by id */
    size_t n, room, empty;
};

struct recovery {
    struct persist *persist;
    struct pack_reader *packs;
    struct founds all;
    struct founds manifest; /* the manifest being read */
    bool in_manifest;
    bool manifest_doubts;    /* the manifest was written while names were in doubt */
    uint64_t manifest_began; /* first frame of the manifest */
    uint64_t complete;       /* first frame of the last complete manifest, or 0 */
    uint64_t gap;            /* first frame after the last gap, or 0 */
    bool doubts;             /* names are in doubt (G2) */
    /* The number of unused files that were kept and the number that were moved. */
    uint64_t kept, moved;
    uint64_t next_id;
    uint64_t records;
    void (*progress)(void *context, uint64_t done, uint64_t all);
    void *context;
};

/* ---- Lists of objects ---------------------------------------------------------------------- */

/* Returns the index of the first object whose ID is at least `id`. */
static size_t founds_at(const struct founds *founds, uint64_t id)
{
    size_t low = 0, high = founds->n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (founds->places[middle].id < id) {
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
    return at < founds->n && founds->places[at].id == id ? founds->places[at].found
                                                         : NULL;
}

/* Returns the list element with this ID, adding it if necessary. Returns NULL if out of memory.
 * IDs increase, so the element is nearly always the last one. */
static struct founds_place *founds_place(struct founds *founds, uint64_t id)
{
    const size_t at = founds_at(founds, id);
    if (at < founds->n && founds->places[at].id == id) {
        return &founds->places[at];
    }
    if (founds->n == founds->room) {
        const size_t room = founds->room ? 2 * founds->room : 64;
        struct founds_place *places = realloc(founds->places, room * sizeof *places);
        if (!places) {
            return NULL;
        }
        founds->places = places;
        founds->room = room;
    }
    memmove(founds->places + at + 1, founds->places + at,
            (founds->n - at) * sizeof *founds->places);
    founds->n++;
    founds->empty++;
    founds->places[at] = (struct founds_place){ .id = id };
    return &founds->places[at];
}

static struct found *founds_add(struct founds *founds, uint64_t id)
{
    struct founds_place *place = founds_place(founds, id);
    if (place && !place->found) {
        place->found = calloc(1, sizeof *place->found);
        if (place->found) {
            place->found->id = id;
            founds->empty--;
        }
    }
    return place ? place->found : NULL;
}

static void found_free(struct found *found)
{
    if (found) {
        free(found->name);
        free(found->shape);
        object_free(found->object);
        free(found);
    }
}

static void founds_squeeze(struct founds *founds)
{
    size_t left = 0;
    for (size_t i = 0; i < founds->n; i++) {
        if (founds->places[i].found) {
            founds->places[left++] = founds->places[i];
        }
    }
    founds->n = left;
    founds->empty = 0;
}

static void founds_remove(struct founds *founds, uint64_t id)
{
    const size_t at = founds_at(founds, id);
    if (at < founds->n && founds->places[at].id == id && founds->places[at].found) {
        found_free(founds->places[at].found);
        founds->places[at].found = NULL;
        founds->empty++;
    }
    if (founds->empty > 64 && founds->empty > founds->n / 2) {
        founds_squeeze(founds);
    }
}

static void founds_clear(struct founds *founds)
{
    for (size_t i = 0; i < founds->n; i++) {
        found_free(founds->places[i].found);
    }
    free(founds->places);
    *founds = (struct founds){ NULL, 0, 0, 0 };
}

static bg_err recovery_no_memory(bg_errinfo *info)
{
    return persist_fail(info, BG_ENOMEM, "out of memory while reading the journal");
}

/* ---- First pass: determines which objects exist ------------------------------------------ */

static bg_err found_name(struct found *found, bg_bytes name, bg_errinfo *info)
{
    char *copy = malloc(name.len + 1);
    if (!copy) {
        return recovery_no_memory(info);
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
                            "journal: found %s of %zu bytes, expected fewer than %zu",
                            what, text.len, room);
    }
    if (text.len) {
        memcpy(to, text.data, text.len);
    }
    to[text.len] = 0;
    return BG_OK;
}

static bg_err found_shape(struct found *found, bg_bytes text, bg_errinfo *info)
{
    char shape[OBJECT_SHAPE_TEXT];
    const bg_err err = found_text(text, shape, sizeof shape, "a shape", info);
    char *copy = err ? NULL : strdup(shape);
    if (!copy) {
        return err ? err : recovery_no_memory(info);
    }
    free(found->shape);
    found->shape = copy;
    return BG_OK;
}

static bg_err found_base(struct found *found, const struct journal_record *record,
                         bg_errinfo *info)
{
    struct entry_base base = { .from = record->from,
                               .items = record->items,
                               .deleted = record->deleted,
                               .expansions = record->expansions };
    bg_err err =
        found_text(record->file, base.file, sizeof base.file, "a file name", info);
    if (!err) {
        err = found_text(record->digest, base.digest, sizeof base.digest, "a digest",
                         info);
    }
    if (!err && strchr(base.file, '/')) {
        err = persist_fail(info, BG_EFORMAT, "journal: a file name contains '/'");
    }
    err = err ? err : found_shape(found, record->shape, info);
    if (!err) {
        found->base = base;
    }
    return err;
}

static bg_err recovery_create(struct founds *founds,
                              const struct journal_record *record, uint64_t sequence,
                              bg_errinfo *info)
{
    struct found *found = founds_add(founds, record->id);
    if (!found) {
        return recovery_no_memory(info);
    }
    found->named = sequence;
    found->expiry = record->expiry;
    const bg_err err = found_name(found, record->name, info);
    if (err) {
        return err;
    }
    if (record->type == JOURNAL_MANIFEST_ENTRY) {
        found->born = 0;
        return found_base(found, record, info);
    }
    found->born = sequence;
    return found_shape(found, record->shape, info);
}

/* Handles a manifest entry. After a gap, the entries of an incomplete manifest are used as well,
 * but they do not prove which objects exist. */
static bg_err recovery_manifest_entry(struct recovery *r,
                                      const struct journal_record *record,
                                      uint64_t sequence, bg_errinfo *info)
{
    struct founds *founds = r->in_manifest || !r->gap ? &r->manifest : &r->all;
    const bg_err err = recovery_create(founds, record, sequence, info);
    if (!err) {
        struct found *found = founds_find(founds, record->id);
        found->doubted = found->base.from < r->gap; /* (G4) */
    }
    return err;
}

static bg_err recovery_manifest_end(struct recovery *r,
                                    const struct journal_record *record,
                                    bg_errinfo *info)
{
    const size_t n = r->manifest.n - r->manifest.empty;
    const bool whole = r->in_manifest && n == record->count;
    if (!whole && r->gap) {
        r->in_manifest = false;
        return BG_OK;
    }
    if (!whole) {
        return persist_fail(
            info, BG_EFORMAT,
            "journal: the list of filters has %zu entries instead of %llu", n,
            (unsigned long long)record->count);
    }
    founds_clear(&r->all);
    r->all = r->manifest;
    r->manifest = (struct founds){ NULL, 0, 0, 0 };
    r->in_manifest = false;
    r->complete = r->manifest_began;
    r->doubts = r->manifest_doubts;
    return BG_OK;
}

/* Adds the entries of a manifest whose remaining frames are missing. */
static bg_err recovery_manifest_broken(struct recovery *r, bg_errinfo *info)
{
    for (size_t i = 0; i < r->manifest.n; i++) {
        struct founds_place *from = &r->manifest.places[i];
        struct founds_place *to = founds_place(&r->all, from->id);
        if (!to) {
            return recovery_no_memory(info);
        }
        r->all.empty -= to->found == NULL;
        found_free(to->found);
        to->found = from->found;
        from->found = NULL;
    }
    founds_clear(&r->manifest);
    r->in_manifest = false;
    return BG_OK;
}

/* Applies (G1) when frames before `end` are missing. Missing frames at the start of a journal are
 * detected only after all other frames have been read, so the list may already contain objects
 * created after the gap. */
static bg_err recovery_gap(struct recovery *r, uint64_t end, bg_errinfo *info)
{
    r->gap = end > r->gap ? end : r->gap;
    const bg_err err = r->in_manifest ? recovery_manifest_broken(r, info) : BG_OK;
    for (size_t i = 0; !err && i < r->all.n; i++) {
        struct found *found = r->all.places[i].found;
        if (found && found->born < end && found->base.from < end) {
            found->doubted = true;
        }
        if (found && found->named < end) {
            found->expiry = 0;
        }
    }
    return err;
}

/* Returns the error for a stop that was requested during loading. Loading may stop at any time,
 * because nothing has been changed yet. */
static bg_err recovery_stopped(bg_errinfo *info)
{
    return persist_fail(info, BG_ECANCELED,
                        "the service was stopped before all filters were loaded");
}

static bg_err recovery_look(void *context, uint64_t sequence,
                            const struct journal_record *record, bg_errinfo *info)
{
    struct recovery *r = context;
    struct found *found = founds_find(&r->all, record->id);
    if (server_is_stopping()) {
        return recovery_stopped(info);
    }
    if (record->id >= r->next_id) {
        r->next_id = record->id + 1;
    }
    switch (record->type) {
    case JOURNAL_CREATE: return recovery_create(&r->all, record, sequence, info);
    case JOURNAL_DROP: founds_remove(&r->all, record->id); return BG_OK;
    case JOURNAL_RENAME:
        if (found) {
            found->named = sequence;
        }
        return found ? found_name(found, record->name, info) : BG_OK;
    case JOURNAL_EXPIRE:
        if (found) {
            found->expiry = record->expiry;
        }
        return BG_OK;
    case JOURNAL_BASE: return found ? found_base(found, record, info) : BG_OK;
    case JOURNAL_MANIFEST_BEGIN:
        founds_clear(&r->manifest);
        r->in_manifest = true;
        r->manifest_began = sequence;
        r->manifest_doubts = false;
        return BG_OK;
    case JOURNAL_MANIFEST_ENTRY:
        return recovery_manifest_entry(r, record, sequence, info);
    case JOURNAL_MANIFEST_END: return recovery_manifest_end(r, record, info);
    case JOURNAL_DOUBT: r->manifest_doubts = true; return BG_OK;
    case JOURNAL_GAP: return recovery_gap(r, record->count, info);
    default: return BG_OK;
    }
}

/* Orders objects by name; among equal names, the most recently named object comes first. */
static int recovery_order(const void *a, const void *b)
{
    const struct found *x = *(struct found *const *)a, *y = *(struct found *const *)b;
    const size_t n = x->name_len < y->name_len ? x->name_len : y->name_len;
    const int order = memcmp(x->name, y->name, n);
    if (order || x->name_len != y->name_len) {
        return order ? order : x->name_len < y->name_len ? -1 : 1;
    }
    return x->named > y->named ? -1 : x->named < y->named;
}

/* Resolves duplicate names after a gap (G3). The object that loses the name was dropped or renamed
 * in the gap. If that object still exists under an unknown name, (G2) covers it. */
static bg_err recovery_settle_names(struct recovery *r, bg_errinfo *info)
{
    const size_t n = r->all.n;
    struct found **found = calloc(n + 1, sizeof(struct found *));
    if (!found) {
        return recovery_no_memory(info);
    }
    for (size_t i = 0; i < n; i++) {
        found[i] = r->all.places[i].found;
    }
    qsort(found, n, sizeof(struct found *), recovery_order);
    const struct found *first = NULL;
    for (size_t i = 0; i < n; i++) {
        if (first && first->name_len == found[i]->name_len
            && memcmp(first->name, found[i]->name, first->name_len) == 0) {
            log_event(LOG_EVENT_ALARM, (bg_bytes){ first->name, first->name_len },
                      "an older filter had this name and was dropped or renamed in the "
                      "damaged part of the journal; its file is kept: %s",
                      found[i]->base.file);
            founds_remove(&r->all, found[i]->id);
        } else {
            first = found[i];
        }
    }
    free(found);
    founds_squeeze(&r->all);
    return BG_OK;
}

/* ---- The bases ----------------------------------------------------------------------------- */

static bg_err recovery_read_whole(const char *path, void **bytes, size_t *n,
                                  bg_errinfo *info)
{
    struct stat about;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    *bytes = NULL;
    if (fd < 0 || fstat(fd, &about)) {
        const bg_err err = persist_fail(info, BG_EIO, "cannot open %.300s: %s", path,
                                        text_errno(errno));
        if (fd >= 0) {
            close(fd);
        }
        return err;
    }
    char *memory = malloc((size_t)about.st_size + 1);
    const size_t got =
        memory ? persist_read_at(fd, memory, (size_t)about.st_size, 0) : 0;
    close(fd);
    if (!memory || got < (size_t)about.st_size) {
        free(memory);
        return persist_fail(info, BG_EIO, "cannot read all of %.300s", path);
    }
    *bytes = memory;
    *n = got;
    return BG_OK;
}

static bg_err recovery_compare_digest(const struct found *found, const char *digest,
                                      bg_errinfo *info)
{
    return strcmp(digest, found->base.digest) == 0
               ? BG_OK
               : persist_fail(info, BG_ECHECKSUM, "found digest %s, expected %s",
                              digest, found->base.digest);
}

static bg_err recovery_open_foreign(const struct found *found,
                                    const struct object_shape *shape, const char *path,
                                    bg_foreign **foreign, bg_errinfo *info)
{
    char digest[BG_DIGEST_TEXT_BYTES];
    void *bytes = NULL;
    size_t n = 0;
    bg_err err = recovery_read_whole(path, &bytes, &n, info);
    if (err) {
        return err;
    }
    persist_foreign_digest(bytes, n, digest);
    err = recovery_compare_digest(found, digest, info);
    err = err ? err
              : bg_foreign_decode((bg_foreign_format)shape->foreign, bytes, n, NULL,
                                  foreign, info);
    free(bytes);
    return err;
}

enum {
    RECOVERY_SMALL = 256 << 10, /* files below this size are read into memory */
    /* Maximum number of items that a batch may add after the filter is full. */
    RECOVERY_SLACK = 4096
};

/* Opens content that is in memory: a small file, or a part of a pack. */
static bg_err recovery_open_bytes(const struct found *found, const void *bytes,
                                  size_t n, const bg_open_options *how,
                                  bg_filter **filter, bg_errinfo *info)
{
    bg_file_info about = { .struct_size = sizeof about };
    bg_err err = bg_encoded_get_info(bytes, n, &about, info);
    err = err ? err : recovery_compare_digest(found, about.digest_text, info);
    return err ? err : bg_decode(bytes, n, how, filter, info);
}

static bg_err recovery_open_large(const struct found *found, const char *path,
                                  const bg_open_options *how, bg_filter **filter,
                                  bg_errinfo *info)
{
    bg_file_info about = { .struct_size = sizeof about };
    bg_err err = bg_file_get_info(path, &about, info);
    err = err ? err : recovery_compare_digest(found, about.digest_text, info);
    return err ? err : bg_open(path, how, filter, info);
}

static bg_err recovery_open_file(const struct recovery *r, const struct found *found,
                                 const struct object_shape *shape, const char *path,
                                 bg_filter **filter, bg_errinfo *info)
{
    const struct command_settings settings = { .secrets = keyrings_source(
                                                   r->persist->server->keyrings) };
    struct stat file = { .st_size = 0 };
    bg_hash_spec hash;
    bg_open_options how = BG_OPEN_OPTIONS_INIT;
    void *bytes = NULL;
    size_t n = 0;
    bg_err err = object_hash_spec(shape, &settings, &hash, info);
    if (err) {
        return err;
    }
    how.hash = &hash;
    if (pack_is_reference(found->base.file)) {
        err = pack_read(r->packs, found->base.file, &bytes, &n, info);
    } else if (stat(path, &file) == 0 && file.st_size < RECOVERY_SMALL) {
        err = recovery_read_whole(path, &bytes, &n, info);
    }
    if (!err) {
        err = bytes ? recovery_open_bytes(found, bytes, n, &how, filter, info)
                    : recovery_open_large(found, path, &how, filter, info);
    }
    free(bytes);
    return err;
}

/* Creates an empty object. The object may grow up to the current limit for new filters, or without
 * limit if even the empty object exceeds that limit. */
static bg_err recovery_create_empty(const struct recovery *r,
                                    const struct object_shape *shape,
                                    struct object **object, bg_errinfo *info)
{
    const struct server *server = r->persist->server;
    struct command_settings settings = {
        .secrets = keyrings_source(server->keyrings),
        .max_filter_bytes = settings_now(server->store)->max_filter_memory
    };
    bg_err err = object_create(shape, &settings, object, info);
    if (err == BG_ENOMEM) {
        settings.max_filter_bytes = 0;
        err = object_create(shape, &settings, object, info);
    }
    return err;
}

/* Opens an object's base, or creates an empty object if there is no base. Returns the error that
 * occurred while opening the base, if any. */
static bg_err recovery_open(const struct recovery *r, const struct found *found,
                            const struct object_shape *shape, struct object **object,
                            bg_errinfo *info)
{
    char path[PERSIST_PATH];
    bg_filter *filter = NULL;
    bg_foreign *foreign = NULL;
    if (!found->base.file[0]) {
        return recovery_create_empty(r, shape, object, info);
    }
    persist_path(r->persist, found->base.file, path);
    bg_err err = shape->foreign
                     ? recovery_open_foreign(found, shape, path, &foreign, info)
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

/* Replaces the object with one that answers "maybe" for every key. `locked` is a value of enum
 * object_lock, or 0 if the secret is not the reason. */
static bg_err recovery_give_up(struct found *found, const struct object_shape *shape,
                               uint32_t locked, const char *why, bg_errinfo *info)
{
    const bg_bytes name = { found->name, found->name_len };
    bg_errinfo secret = { 0 };
    found->broken = true;
    object_free(found->object);
    found->object = NULL;
    const bg_err err = object_adopt(shape, NULL, NULL, &found->object, info);
    if (err) {
        return err;
    }
    atomic_store(&found->object->locked, locked);
    if (locked) {
        (void)object_unavailable(found->object, &secret);
        log_event(LOG_EVENT_ALARM, name,
                  "%s; until then, it answers \"maybe\" and accepts no adds",
                  secret.message);
    } else {
        log_event(
            LOG_EVENT_ALARM, name,
            "the filter answers \"maybe\" and accepts no adds until its file %s is "
            "restored and the service is restarted, or an intact file is loaded: %s",
            *found->base.file ? found->base.file : "in the data directory", why);
    }
    return BG_OK;
}

static bg_err recovery_make(struct recovery *r, struct found *found, bg_errinfo *info)
{
    struct object_shape shape;
    bg_errinfo why = { 0 };
    bg_err err = object_shape_read(found->shape, strlen(found->shape), &shape, info);
    if (err) {
        return err;
    }
    if (found->doubted) {
        persist_lose(&found->base);
        found->base.from = r->gap;
        return recovery_give_up(found, &shape, 0,
                                "some of its journal records may be missing", info);
    }
    err = recovery_open(r, found, &shape, &found->object, &why);
    if (err == BG_ENOMEM) {
        *info = why;
        return err;
    }
    if (err) {
        const bool lost = persist_is_lost(&found->base);
        const struct command_settings settings = { .secrets = keyrings_source(
                                                       r->persist->server->keyrings) };
        err = recovery_give_up(
            found, &shape, lost ? 0 : object_shape_lock(&shape, &settings),
            lost ? "its content was lost earlier" : error_text(&why, err), info);
    }
    if (!err) {
        atomic_store(&found->object->items, found->base.items);
        atomic_store(&found->object->deleted, found->base.deleted);
        atomic_store(&found->object->expansions, found->base.expansions);
    }
    return err;
}

/* ---- Second pass: replays the changes since the bases ------------------------------------ */

static bg_err recovery_do(void *context, uint64_t sequence,
                          const struct journal_record *record, bg_errinfo *info)
{
    struct recovery *r = context;
    struct found *found =
        record->type == JOURNAL_CHANGE ? founds_find(&r->all, record->id) : NULL;
    if (server_is_stopping()) {
        return recovery_stopped(info);
    }
    if (!found || sequence < found->base.from) {
        return BG_OK;
    }
    found->last = sequence;
    if (found->broken) {
        return BG_OK;
    }
    r->records += record->change.n;
    bg_errinfo why = { 0 };
    const bg_err err = object_apply(found->object, &record->change, &why);
    if (err == BG_ENOMEM) {
        *info = why;
    }
    if (!err || err == BG_ENOMEM) {
        return err;
    }
    struct object_shape shape;
    object_describe(found->object, &shape);
    return recovery_give_up(found, &shape, 0, error_text(&why, err), info);
}

/* Warns about a filter that grew when max-filter-memory was higher. The replay could not grow the
 * filter to its previous size, so its false-positive rate is above its target. Normally, adds are
 * refused long before a filter reaches this state. */
static void recovery_check_growth(const struct recovery *r, const struct found *found)
{
    const uint64_t most = settings_now(r->persist->server->store)->max_filter_memory;
    if (found->broken || found->object->shape.kind != BG_KIND_SCALABLE) {
        return;
    }
    const uint64_t capacity = object_capacity(found->object);
    const uint64_t items = atomic_load(&found->object->items);
    if (most && items > capacity + capacity / 8 + RECOVERY_SLACK) {
        log_event(
            LOG_EVENT_ALARM, (bg_bytes){ found->name, found->name_len },
            "max-filter-memory (%llu bytes) is lower than when the filter's %llu items "
            "were added, so its false-positive rate is above its target. To restore "
            "the rate, stop without a snapshot and start with a higher "
            "max-filter-memory",
            (unsigned long long)most, (unsigned long long)items);
    }
}

/* ---- The whole recovery ------------------------------------------------------------------ */

static int recovery_compare(const void *a, const void *b)
{
    const char *const *x = a, *const *y = b;
    return pack_compare(*x, *y);
}

/* Returns the sorted names of the files in use, or NULL if out of memory. */
static const char **recovery_files(const struct recovery *r)
{
    const char **files = calloc(r->all.n + 1, sizeof *files);
    for (size_t i = 0; files && i < r->all.n; i++) {
        files[i] = persist_file(r->all.places[i].found->base.file);
    }
    if (files) {
        qsort(files, r->all.n, sizeof *files, recovery_compare);
    }
    return files;
}

/* How to handle files that no object uses. */
enum fate { FATE_KEPT, FATE_ASIDE, FATE_DELETED };

/* Returns whether the journal accounts for every object that exists. */
static bool recovery_accounts(const struct recovery *r,
                              const struct journal_report *report)
{
    return report->damages == 0 && !r->doubts && (report->first == 1 || r->complete);
}

/* Decides what happens to files that no object uses. Such files are deleted if the journal accounts
 * for every object, because in that case they are left over from an interrupted snapshot or a
 * dropped object. No other code may delete these files at startup. */
static enum fate recovery_file_fate(const struct recovery *r,
                                    const struct journal_report *report, bool forget)
{
    bool all = recovery_accounts(r, report);
    for (size_t i = 0; all && i < r->all.n; i++) {
        all = !r->all.places[i].found->broken;
    }
    return all && report->ends ? FATE_DELETED : all || forget ? FATE_ASIDE : FATE_KEPT;
}

/* Moves a file to the directory `forgotten`. */
static bool recovery_put_aside(const struct recovery *r, const char *name)
{
    char path[PERSIST_PATH], to[PERSIST_PATH + 16];
    (void)snprintf(to, sizeof to, "%s/forgotten", r->persist->folder);
    if (mkdir(to, 0700) != 0 && errno != EEXIST) {
        return false;
    }
    persist_path(r->persist, name, path);
    (void)snprintf(to, sizeof to, "%s/forgotten/%.255s", r->persist->folder, name);
    return rename(path, to) == 0;
}

/* Deletes, moves or keeps a file that no object uses. */
static void recovery_drop_file(struct recovery *r, const char *name, enum fate fate)
{
    char path[PERSIST_PATH];
    if (fate == FATE_DELETED) {
        persist_path(r->persist, name, path);
        (void)unlink(path);
    } else if (fate == FATE_ASIDE && recovery_put_aside(r, name)) {
        r->moved++;
    } else {
        r->kept++;
    }
}

/* Deletes, moves or keeps all files that no object uses. The journal that proves that these files
 * are unused is already on disk. */
static void recovery_clean(struct recovery *r, const struct journal_report *report,
                           bool forget)
{
    const enum fate fate = recovery_file_fate(r, report, forget);
    char path[PERSIST_PATH];
    persist_path(r->persist, "", path);
    const char **files = recovery_files(r);
    DIR *folder = files ? opendir(path) : NULL;
    struct dirent *entry = NULL;
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): no other thread reads this stream */
    while (folder && (entry = readdir(folder)) != NULL) {
        const char *name = entry->d_name;
        if (persist_is_base(name)
            && !bsearch(&name, files, r->all.n, sizeof *files, recovery_compare)) {
            recovery_drop_file(r, name, fate);
        }
    }
    if (folder) {
        closedir(folder);
    }
    free(files);
}

static bg_err recovery_install_one(struct recovery *r, struct found *found,
                                   uint64_t now, bg_errinfo *info)
{
    struct catalog *catalog = r->persist->server->catalog;
    const bg_bytes name = { found->name, found->name_len };
    found->object->id = found->id;
    bg_err err = catalog_put(catalog, name, found->object, &found->base,
                             CATALOG_FORCE_NUMBER, now, info);
    if (err) {
        return err == BG_EBUSY ? persist_fail(info, BG_EFORMAT,
                                              "journal: two filters have the same name")
                               : err;
    }
    struct entry *entry = found->object->entry;
    found->object = NULL; /* the catalog now owns the object */
    if (!packs_hold(r->persist->packs, persist_file(found->base.file))) {
        return persist_fail(info, BG_ENOMEM, "out of memory while loading filters");
    }
    atomic_store(&entry->recorded, found->last);
    return found->expiry /* set even if the expiry time has passed */
               ? catalog_expire(catalog, name, found->expiry, 0, info)
               : BG_OK;
}

static bg_err recovery_install(struct recovery *r, bg_errinfo *info)
{
    const uint64_t now = clock_now();
    bg_err err = BG_OK;
    for (size_t i = 0; !err && i < r->all.n; i++) {
        err = recovery_install_one(r, r->all.places[i].found, now, info);
    }
    catalog_skip_numbers(r->persist->server->catalog, r->next_id);
    char folder[PERSIST_PATH];
    persist_path(r->persist, "", folder);
    packs_measure(r->persist->packs, folder);
    return err;
}

/* Completes the first pass: determines which objects exist and which names are in doubt. */
static bg_err recovery_survey(struct recovery *r, struct journal_report *report,
                              bg_errinfo *info)
{
    bg_err err = journal_replay(r->persist->journal, recovery_look, r, report, info);
    founds_squeeze(&r->all);
    r->doubts = r->doubts || r->gap > r->complete;
    return err || !r->gap ? err : recovery_settle_names(r, info);
}

static bg_err recovery_run(struct recovery *r, struct journal_report *report,
                           bg_errinfo *info)
{
    struct persist *persist = r->persist;
    const bool forget =
        settings_now(persist->server->store)->damaged_journal == DAMAGED_FORGET;
    bg_err err = recovery_survey(r, report, info);
    for (size_t i = 0; !err && i < r->all.n; i++) {
        err = server_is_stopping() ? recovery_stopped(info)
                                   : recovery_make(r, r->all.places[i].found, info);
        if (r->progress) {
            r->progress(r->context, i + 1, r->all.n);
        }
    }
    err = err ? err : journal_replay(persist->journal, recovery_do, r, report, info);
    for (size_t i = 0; !err && i < r->all.n; i++) {
        recovery_check_growth(r, r->all.places[i].found);
    }
    if (!err && r->doubts && !forget) {
        persist->doubt = doubt_create();
        atomic_store(&persist->server->doubts, true);
        err = persist->doubt ? BG_OK
                             : persist_fail(info, BG_ENOMEM,
                                            "out of memory while loading filters");
    }
    err = err ? err : journal_begin(persist->journal, report, info);
    if (!err) {
        recovery_clean(r, report, forget);
        err = recovery_install(r, info);
    }
    if (!err && !recovery_accounts(r, report)) {
        packs_keep(persist->packs);
    }
    return err;
}

/* Logs the damage and instructions for handling it. */
static void recovery_warn(const struct recovery *r, const struct journal_report *report)
{
    const bg_bytes none = { NULL, 0 };
    if (report->damages) {
        log_event(LOG_EVENT_ALARM, none,
                  "the journal is damaged (at least %llu frames are missing): %s",
                  (unsigned long long)report->lost, report->damage.message);
    }
    if (r->persist->doubt) {
        log_event(
            LOG_EVENT_ALARM, none,
            "filters may have been created or renamed in the damaged part of the journal: "
            "lookups of unknown names answer \"maybe\", and filters with unknown names "
            "cannot be created empty. Upload the affected filters (HTTP PUT), delete them "
            "(DEL), or restart with damaged-journal set to forget");
    }
    if (r->moved) {
        log_event(LOG_EVENT_ALARM, none,
                  "%llu files of unknown filters were moved to %s/forgotten",
                  (unsigned long long)r->moved, r->persist->folder);
    }
    if (r->kept) {
        log_event(
            LOG_EVENT_ALARM, none,
            "kept %llu files in %s/filters that do not belong to any readable filter",
            (unsigned long long)r->kept, r->persist->folder);
    }
}

bg_err persist_load(struct persist *persist,
                    void (*progress)(void *context, uint64_t done, uint64_t all),
                    void *context, bg_errinfo *info)
{
    char folder[PERSIST_PATH];
    struct pack_reader packs;
    struct recovery r = { .persist = persist,
                          .packs = &packs,
                          .next_id = 1,
                          .progress = progress,
                          .context = context };
    struct journal_report report;
    const uint64_t began = clock_ticks();
    persist_path(persist, "", folder);
    pack_reader_begin(&packs, folder);
    bg_err err = recovery_run(&r, &report, info);
    pack_reader_end(&packs);
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
    persist->stats.lost_frames = report.lost;
    persist->stats.files_kept = r.kept;
    persist->stats.names_in_doubt = persist->doubt != NULL;
    persist->stats.load_seconds = (double)(clock_ticks() - began) / 1000;
    pthread_mutex_unlock(&persist->told_lock);
    atomic_store(&persist->loaded, true);
    recovery_warn(&r, &report);
    log_event(
        LOG_EVENT_LOAD, (bg_bytes){ NULL, 0 },
        "loaded %zu filters, replayed %llu records and discarded %llu torn bytes in "
        "%.3f s",
        filters, (unsigned long long)r.records, (unsigned long long)report.dropped,
        persist->stats.load_seconds);
    return err;
}
