/* pack.c - see pack.h. */
#include "persist/pack.h"

#include "persist/state.h"
#include "text.h"
#include "util/squeeze.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The largest part fits in a writer's buffer even if it cannot be compressed. */
enum { PACK_BUFFER = 1 << 20, PACK_PART = PACK_BUFFER - SQUEEZE_MORE };

/* ---- References ------------------------------------------------------------------------------ */

struct part {
    char name[PACK_NAME];
    uint64_t offset, length;
};

bool pack_is_reference(const char *reference)
{
    return strchr(reference, '@') != NULL;
}

static size_t pack_name_length(const char *reference)
{
    return strcspn(reference, "@");
}

int pack_compare(const char *a, const char *b)
{
    const size_t n = pack_name_length(a), m = pack_name_length(b);
    const int order = memcmp(a, b, n < m ? n : m);
    return order ? order : (n > m) - (n < m);
}

static bool pack_parse(const char *reference, struct part *part)
{
    const size_t n = pack_name_length(reference);
    char *end = NULL;
    if (n >= sizeof part->name || reference[n] != '@') {
        return false;
    }
    memcpy(part->name, reference, n);
    part->name[n] = 0;
    part->offset = strtoull(reference + n + 1, &end, 10);
    if (*end != '+') {
        return false;
    }
    part->length = strtoull(end + 1, &end, 10);
    return *end == 0 && part->length <= SIZE_MAX / 2 && part->offset <= INT64_MAX / 2;
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* Reads the compressed bytes of a part; returns NULL on error. */
static unsigned char *pack_load(int fd, const struct part *part, const char *reference,
                                bg_err *err, bg_errinfo *info)
{
    const off_t end = lseek(fd, 0, SEEK_END); /* checked before n bytes are allocated */
    const size_t n = (size_t)part->length;
    if (end < 0 || part->offset > (uint64_t)end
        || part->length > (uint64_t)end - part->offset) {
        *err =
            persist_fail(info, BG_EFORMAT, "%s: the pack file is too short", reference);
        return NULL;
    }
    unsigned char *squeezed = malloc(n + 1);
    if (!squeezed) {
        *err = persist_fail(info, BG_ENOMEM, "out of memory while reading a pack");
    } else if (persist_read_at(fd, squeezed, n, part->offset) < n) {
        *err = persist_fail(info, BG_EIO, "cannot read %s: %s", reference,
                            text_errno(errno));
        free(squeezed);
        squeezed = NULL;
    }
    return squeezed;
}

static bg_err pack_restore(const unsigned char *squeezed, size_t length,
                           const char *reference, void **bytes, size_t *n,
                           bg_errinfo *info)
{
    *n = squeeze_size(squeezed, length);
    if (*n > PACK_PART) {
        return persist_fail(info, BG_EFORMAT, "%s: this part of the pack is damaged",
                            reference);
    }
    *bytes = malloc(*n + 1);
    if (!*bytes) {
        return persist_fail(info, BG_ENOMEM, "out of memory while reading a pack");
    }
    if (!squeeze_undo(squeezed, length, *bytes)) {
        free(*bytes);
        *bytes = NULL;
        return persist_fail(info, BG_EFORMAT, "%s: this part of the pack is damaged",
                            reference);
    }
    return BG_OK;
}

void pack_reader_begin(struct pack_reader *reader, const char *folder)
{
    *reader = (struct pack_reader){ .folder = folder, .fd = -1 };
}

void pack_reader_end(struct pack_reader *reader)
{
    if (reader->fd >= 0) {
        close(reader->fd);
    }
    reader->fd = -1;
}

static bg_err pack_reader_open(struct pack_reader *reader, const char name[PACK_NAME],
                               bg_errinfo *info)
{
    char path[PERSIST_PATH];
    if (reader->fd >= 0 && strcmp(reader->name, name) == 0) {
        return BG_OK;
    }
    pack_reader_end(reader);
    (void)snprintf(path, sizeof path, "%s/%s", reader->folder, name);
    reader->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (reader->fd < 0) {
        return persist_fail(info, BG_EIO, "cannot open %.300s: %s", path,
                            text_errno(errno));
    }
    memcpy(reader->name, name, sizeof reader->name);
    return BG_OK;
}

bg_err pack_read(struct pack_reader *reader, const char *reference, void **bytes,
                 size_t *n, bg_errinfo *info)
{
    struct part part;
    *bytes = NULL;
    if (!pack_parse(reference, &part)) {
        return persist_fail(info, BG_EFORMAT,
                            "pack reference: found %s, expected NAME@OFFSET+LENGTH",
                            reference);
    }
    bg_err err = pack_reader_open(reader, part.name, info);
    if (err) {
        return err;
    }
    unsigned char *squeezed = pack_load(reader->fd, &part, reference, &err, info);
    if (squeezed) {
        err = pack_restore(squeezed, (size_t)part.length, reference, bytes, n, info);
    }
    free(squeezed);
    return err;
}

/* ---- Writing ------------------------------------------------------------------------------- */

struct pack_writer {
    int fd;
    uint64_t written; /* number of bytes written to the file */
    size_t used;      /* number of bytes used in the buffer */
    char name[PACK_NAME];
    char path[PERSIST_PATH];
    char buffer[PACK_BUFFER];
};

bg_err pack_begin(const char *folder, const char *name, struct pack_writer **writer,
                  bg_errinfo *info)
{
    struct pack_writer *made = malloc(sizeof *made);
    *writer = NULL;
    if (!made) {
        return persist_fail(info, BG_ENOMEM, "out of memory: cannot write a pack");
    }
    made->written = made->used = 0;
    (void)snprintf(made->name, sizeof made->name, "%s", name);
    (void)snprintf(made->path, sizeof made->path, "%s/%s", folder, name);
    made->fd = open(made->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (made->fd < 0) {
        const bg_err err = persist_fail(info, BG_EIO, "cannot create %.300s: %s",
                                        made->path, text_errno(errno));
        free(made);
        return err;
    }
    *writer = made;
    return BG_OK;
}

static bg_err pack_flush(struct pack_writer *writer, bg_errinfo *info)
{
    const size_t n = writer->used;
    writer->used = 0;
    if (persist_write_at(writer->fd, writer->buffer, n, writer->written) < n) {
        return persist_fail(info, BG_EIO, "cannot write %.300s: %s", writer->path,
                            text_errno(errno));
    }
    writer->written += n;
    return BG_OK;
}

bg_err pack_append(struct pack_writer *writer, const void *bytes, size_t n,
                   char reference[PACK_REFERENCE], bg_errinfo *info)
{
    if (n > PACK_PART) {
        return persist_fail(info, BG_EINVAL,
                            "part of a pack: found %zu bytes, expected at most %d", n,
                            PACK_PART);
    }
    if (n + SQUEEZE_MORE > PACK_BUFFER - writer->used) {
        const bg_err err = pack_flush(writer, info);
        if (err) {
            return err;
        }
    }
    const size_t length = squeeze(bytes, n, writer->buffer + writer->used);
    (void)snprintf(reference, PACK_REFERENCE, "%s@%" PRIu64 "+%zu", writer->name,
                   writer->written + writer->used, length);
    writer->used += length;
    return BG_OK;
}

bg_err pack_finish(struct pack_writer *writer, bg_errinfo *info)
{
    bg_err err = pack_flush(writer, info);
    if (!err && fsync(writer->fd)) {
        err = persist_fail(info, BG_EIO, "cannot sync %.300s: %s", writer->path,
                           text_errno(errno));
    }
    return err;
}

void pack_close(struct pack_writer *writer)
{
    if (writer) {
        close(writer->fd);
        free(writer);
    }
}

/* ---- Packs in use ------------------------------------------------------------------------ */

struct pack {
    char name[PACK_NAME];
    uint64_t references, used, bytes;
};

struct packs {
    pthread_mutex_t lock;
    struct pack *all; /* sorted by name */
    size_t n, room;
};

struct packs *packs_create(void)
{
    struct packs *packs = calloc(1, sizeof *packs);
    if (packs) {
        pthread_mutex_init(&packs->lock, NULL);
    }
    return packs;
}

void packs_free(struct packs *packs)
{
    if (packs) {
        pthread_mutex_destroy(&packs->lock);
        free(packs->all);
        free(packs);
    }
}

/* Returns the index of the first pack whose name is `name` or sorts after it. */
static size_t packs_at(const struct packs *packs, const char *name)
{
    size_t low = 0, high = packs->n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (strcmp(packs->all[middle].name, name) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static struct pack *packs_find(const struct packs *packs, const char *name)
{
    const size_t at = packs_at(packs, name);
    return at < packs->n && strcmp(packs->all[at].name, name) == 0 ? &packs->all[at]
                                                                   : NULL;
}

/* Adds a pack without references; returns NULL if out of memory. */
static struct pack *packs_add(struct packs *packs, const char *name)
{
    const size_t at = packs_at(packs, name);
    if (packs->n == packs->room) {
        const size_t room = packs->room ? 2 * packs->room : 16;
        struct pack *all = realloc(packs->all, room * sizeof *all);
        if (!all) {
            return NULL;
        }
        packs->all = all;
        packs->room = room;
    }
    struct pack *pack = &packs->all[at];
    memmove(pack + 1, pack, (packs->n - at) * sizeof *pack);
    packs->n++;
    *pack = (struct pack){ .references = 0 };
    memcpy(pack->name, name, sizeof pack->name);
    return pack;
}

bool packs_hold(struct packs *packs, const char *reference)
{
    struct part part = { .length = 0 };
    if (!pack_parse(reference, &part)) {
        return true;
    }
    pthread_mutex_lock(&packs->lock);
    struct pack *pack = packs_find(packs, part.name);
    pack = pack ? pack : packs_add(packs, part.name);
    if (pack) {
        pack->references++;
        pack->used += part.length;
        pack->bytes = pack->used > pack->bytes ? pack->used : pack->bytes;
    }
    pthread_mutex_unlock(&packs->lock);
    return pack != NULL;
}

void packs_measure(struct packs *packs, const char *folder)
{
    char path[PERSIST_PATH];
    struct stat about;
    pthread_mutex_lock(&packs->lock);
    for (size_t i = 0; i < packs->n; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", folder, packs->all[i].name);
        const bool there = stat(path, &about) == 0;
        if (there && (uint64_t)about.st_size > packs->all[i].bytes) {
            packs->all[i].bytes = (uint64_t)about.st_size;
        } else if (!there && errno == ENOENT) {
            packs->all[i].bytes = UINT64_MAX;
        }
    }
    pthread_mutex_unlock(&packs->lock);
}

void packs_keep(struct packs *packs)
{
    pthread_mutex_lock(&packs->lock);
    for (size_t i = 0; i < packs->n; i++) {
        packs->all[i].references++;
    }
    pthread_mutex_unlock(&packs->lock);
}

bool packs_release(struct packs *packs, const char *reference, char name[PACK_NAME])
{
    struct part part;
    bool last = false;
    if (!pack_parse(reference, &part)) {
        return false;
    }
    pthread_mutex_lock(&packs->lock);
    struct pack *pack = packs_find(packs, part.name);
    if (pack) {
        pack->references--;
        pack->used -= part.length;
        last = pack->references == 0;
    }
    if (last) {
        memcpy(name, pack->name, PACK_NAME);
        packs->n--;
        memmove(pack, pack + 1, (size_t)(packs->all + packs->n - pack) * sizeof *pack);
    }
    pthread_mutex_unlock(&packs->lock);
    return last;
}

bool packs_is_sparse(struct packs *packs, const char *reference)
{
    struct part part;
    if (!pack_parse(reference, &part)) {
        return false;
    }
    pthread_mutex_lock(&packs->lock);
    const struct pack *pack = packs_find(packs, part.name);
    const bool sparse = pack && pack->used < pack->bytes / 2;
    pthread_mutex_unlock(&packs->lock);
    return sparse;
}
