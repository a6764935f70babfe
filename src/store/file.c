/*
 * file.c - the functions of bloomgate/file.h that save, open, map or verify a single filter file,
 * on disk or in memory.
 */
#include "base/errinfo.h"
#include "store/disk.h"

#include <stdio.h>
#include <string.h>

/* ---- Memory as a file ------------------------------------------------------------------ */

struct file_bytes {
    unsigned char *bytes;
    size_t n;
};

static bg_err file_read_bytes(void *context, uint64_t offset, void *to, size_t n,
                              bg_errinfo *info)
{
    const struct file_bytes *from = context;
    (void)info; /* the decoder has already checked offset and n against the size */
    memcpy(to, from->bytes + offset, n);
    return BG_OK;
}

static bg_err file_write_bytes(void *context, uint64_t offset, const void *from,
                               size_t n, bg_errinfo *info)
{
    struct file_bytes *to = context;
    if (offset > to->n || n > to->n - offset) {
        return bgi_err(info, BG_EINVAL, "room", "at least the size of the encoding",
                       "%zu bytes", to->n);
    }
    memcpy(to->bytes + offset, from, n);
    return BG_OK;
}

static bg_err file_measure(const bg_filter *filter, uint64_t *bytes)
{
    struct container_header header = { .numbers = bgi_content_numbers(filter, NULL),
                                       .word_bytes = container_word_bytes(filter) };
    struct container_layout layout;
    if (!container_layout(&header, &layout) || layout.file_bytes > SIZE_MAX) {
        return BG_EINVAL;
    }
    *bytes = layout.file_bytes;
    return BG_OK;
}

bg_err bg_encode(const bg_filter *filter, const bg_save_options *options, void *bytes,
                 size_t room, size_t *written, bg_errinfo *info)
{
    bg_save_options how;
    struct container_header header;
    uint64_t needed = 0;
    if (!filter || !written) {
        return bgi_err(info, BG_EINVAL, "filter, written",
                       "a filter, and a pointer to receive the size", "NULL");
    }
    bgi_err_clear(info);
    bg_err err = container_save_options(options, &how, info);
    if (!err && !bytes) {
        err = file_measure(filter, &needed);
        *written = (size_t)needed;
        return err;
    }
    struct file_bytes to = { bytes, room };
    struct container_sink sink = { file_write_bytes, &to, false };
    err = err ? err : container_encode(filter, &how, &sink, &header, info);
    if (!err) {
        *written = (size_t)header.file_bytes;
    }
    return err;
}

struct file_writer {
    bg_file_write_fn write;
    void *context;
};

static bg_err file_write_next(void *context, uint64_t offset, const void *from,
                              size_t n, bg_errinfo *info)
{
    const struct file_writer *to = context;
    (void)offset; /* always equal to the end of the previous chunk */
    const bg_err err = n ? to->write(to->context, from, n) : BG_OK;
    return err ? bgi_err_state(info, err, "write", "the write callback failed: %s",
                               bg_strerror(err))
               : BG_OK;
}

bg_err bg_encode_stream(const bg_filter *filter, const bg_save_options *options,
                        bg_file_write_fn write, void *context, bg_errinfo *info)
{
    bg_save_options how;
    if (!filter || !write) {
        return bgi_err(info, BG_EINVAL, "filter, write",
                       "a filter, and a callback that accepts its bytes", "NULL");
    }
    bgi_err_clear(info);
    struct file_writer to = { write, context };
    const struct container_sink sink = { file_write_next, &to, true };
    const bg_err err = container_save_options(options, &how, info);
    return err ? err : container_encode(filter, &how, &sink, NULL, info);
}

static struct container_source file_source_of(struct file_bytes *from)
{
    return (struct container_source){ file_read_bytes, from, from->n, from->bytes };
}

bg_err bg_decode(const void *bytes, size_t n, const bg_open_options *options,
                 bg_filter **filter, bg_errinfo *info)
{
    bg_open_options how;
    if (!filter || (!bytes && n)) {
        return bgi_err(info, BG_EINVAL, "bytes, filter",
                       "bytes, and a pointer to receive the filter", "NULL");
    }
    *filter = NULL;
    bgi_err_clear(info);
    bg_err err = container_open_options(options, &how, info);
    struct file_bytes from = { (unsigned char *)(uintptr_t)bytes, n };
    struct container_source source = file_source_of(&from);
    return err ? err : container_decode(&source, &how, NULL, NULL, NULL, filter, info);
}

bg_err bg_encoded_verify(const void *bytes, size_t n, const bg_open_options *options,
                         bg_verify_report *report, bg_errinfo *info)
{
    bg_open_options how;
    if (!bytes && n) {
        return bgi_err(info, BG_EINVAL, "bytes", "an array of n bytes", "NULL");
    }
    bgi_err_clear(info);
    bg_err err = container_open_options(options, &how, info);
    struct file_bytes from = { (unsigned char *)(uintptr_t)bytes, n };
    struct container_source source = file_source_of(&from);
    return err ? err : container_verify(&source, &how, report, info);
}

/* ---- Files ----------------------------------------------------------------------------- */

static void file_tell(const struct container_header *h, bg_file_info *about);

/* Reads the header of an open file. */
static bg_err file_read_header(const struct container_source *source,
                               struct container_header *header, bg_errinfo *info)
{
    unsigned char bytes[CONTAINER_HEADER];
    if (source->bytes < sizeof bytes) {
        return container_refuse(info, BG_EFORMAT, source->bytes, "file size",
                                "at least 4096 bytes", "%llu",
                                (unsigned long long)source->bytes);
    }
    bg_err err = source->read(source->context, 0, bytes, sizeof bytes, info);
    return err ? err : container_read_header(bytes, header, info);
}

/* Maps a file, if its filter can be used in place. */
static bg_err file_map(const struct disk_file *file,
                       const struct container_source *source, bool watched,
                       struct bgi_mapping *mapping, bg_errinfo *info)
{
    struct container_header header = { .file_bytes = 0 };
    if (file_read_header(source, &header, NULL) == BG_OK && container_can_map(&header)
        && header.file_bytes == source->bytes && source->bytes <= SIZE_MAX
        && !bgi_mapping_make(mapping, file->descriptor, (size_t)source->bytes,
                             watched)) {
        return disk_error(info, "map", file->path);
    }
    return BG_OK;
}

enum file_way {
    FILE_READ,
    FILE_MAPPED,
    FILE_VERIFIED /* the file is mapped, verified and watched for changes */
};

/* Decodes the filter in a file. Fills in `about`, unless it is NULL, from the header that was used
 * for decoding. */
static bg_err file_decode_about(const struct container_source *source,
                                const bg_open_options *how, struct bgi_mapping *mapping,
                                bg_file_info *about, bg_filter **filter,
                                bg_errinfo *info)
{
    struct container_front front;
    bg_err err = container_read_front(source, &front, info);
    if (err) {
        return err;
    }
    if (about) {
        file_tell(&front.header, about);
    }
    err = container_decode_front(&front, how, NULL, mapping, NULL, filter, info);
    bgi_memory_give(&front.memory);
    return err;
}

/* Decodes the filter in an open file, and closes the file. */
static bg_err file_decode(struct disk_file *file, const struct container_source *source,
                          const bg_open_options *how, enum file_way way,
                          bg_file_info *about, bg_filter **filter, bg_errinfo *info)
{
    const bool verified = way == FILE_VERIFIED;
    struct bgi_mapping mapping = { .base = NULL };
    bg_err err =
        way != FILE_READ ? file_map(file, source, verified, &mapping, info) : BG_OK;
    if (!err && verified) {
        err = container_verify(source, how, NULL, info);
    }
    if (!err) {
        err = file_decode_about(source, how, mapping.base ? &mapping : NULL, about,
                                filter, info);
    }
    bgi_mapping_give(&mapping); /* no effect if the filter owns the mapping */
    if (!err && bgi_filter_is_changed(*filter)) {
        bg_filter_free(*filter);
        *filter = NULL;
        err = bgi_err_state(
            info, BG_EFORMAT, "file",
            "the file changed while it was being verified; replace files by renaming "
            "instead of writing in place");
    }
    disk_close(file);
    return err;
}

static bg_err file_open(const char *path, const bg_open_options *options, bool maps,
                        bg_filter **filter, bg_errinfo *info)
{
    struct disk_file file = { .descriptor = -1 };
    struct container_source source;
    bg_open_options how;
    if (!filter) {
        return bgi_err(info, BG_EINVAL, "filter", "a pointer to receive the filter",
                       "NULL");
    }
    *filter = NULL;
    bgi_err_clear(info);
    bg_err err = container_open_options(options, &how, info);
    err = err ? err : disk_open(path, &file, &source, info);
    return err ? err
               : file_decode(&file, &source, &how, maps ? FILE_MAPPED : FILE_READ, NULL,
                             filter, info);
}

bg_err bgi_file_open_other(const char *path, const bg_open_options *options, bool maps,
                           const char *digest, bg_file_info *about, bg_filter **filter,
                           bg_errinfo *info)
{
    struct disk_file file = { .descriptor = -1 };
    struct container_source source;
    struct container_header header;
    bg_open_options how;
    *filter = NULL;
    bg_err err = container_open_options(options, &how, info);
    err = err ? err : disk_open(path, &file, &source, info);
    if (err) {
        return err;
    }
    err = file_read_header(&source, &header, info);
    if (!err) {
        file_tell(&header, about);
    }
    if (err || strcmp(about->digest_text, digest) == 0) {
        disk_close(&file);
        return err;
    }
    return file_decode(&file, &source, &how, maps ? FILE_VERIFIED : FILE_READ, about,
                       filter, info);
}

bg_err bg_open(const char *path, const bg_open_options *options, bg_filter **filter,
               bg_errinfo *info)
{
    return file_open(path, options, false, filter, info);
}

bg_err bg_open_with_info(const char *path, const bg_open_options *options,
                         bg_file_info *about, bg_filter **filter, bg_errinfo *info)
{
    if (filter) {
        *filter = NULL;
    }
    if (!filter || !about || about->struct_size != sizeof *about) {
        return bgi_err(
            info, BG_EINVAL, "out, filter",
            "a bg_file_info with struct_size set, and a pointer to receive the filter",
            "%s", filter && about ? "a different struct_size" : "NULL");
    }
    bgi_err_clear(info);
    return bgi_file_open_other(path, options, false, "", about, filter, info);
}

bg_err bg_map(const char *path, const bg_open_options *options, bg_filter **filter,
              bg_errinfo *info)
{
    return file_open(path, options, true, filter, info);
}

bg_err bg_verify(const char *path, const bg_open_options *options,
                 bg_verify_report *report, bg_errinfo *info)
{
    struct disk_file file = { .descriptor = -1 };
    struct container_source source;
    bg_open_options how;
    bgi_err_clear(info);
    if (report) {
        *report = (bg_verify_report){ .struct_size = sizeof *report };
    }
    bg_err err = container_open_options(options, &how, info);
    err = err ? err : disk_open(path, &file, &source, info);
    if (!err) {
        err = container_verify(&source, &how, report, info);
        disk_close(&file);
    }
    return err;
}

/* Converts a header to a bg_file_info. */
static void file_tell(const struct container_header *h, bg_file_info *about)
{
    struct container_layout layout;
    struct bgi_recipe recipe = container_recipe(h);
    (void)container_layout(h, &layout);
    *about = (bg_file_info){ .struct_size = sizeof *about,
                             .major = (uint32_t)h->major,
                             .minor = (uint32_t)h->minor,
                             .kind = recipe.kind,
                             .flags = recipe.flags,
                             .width = recipe.width,
                             .k = recipe.k,
                             .shards = recipe.shards,
                             .profile = (uint32_t)h->profile,
                             .present_canaries = h->canary_age
                                                     ? BG_CANARY_COUNT
                                                     : (uint32_t)h->present_canaries,
                             .seed = h->seed,
                             .check = h->check,
                             .units = recipe.units,
                             .items = recipe.items,
                             .rate = recipe.rate,
                             .generation = h->generation,
                             .created = h->created,
                             .file_bytes = h->file_bytes,
                             .word_bytes = h->word_bytes,
                             .blocks = layout.blocks,
                             .canary_generation = container_canary_generation(h) };
    memcpy(about->custom_name, h->custom_name, sizeof about->custom_name);
    memcpy(about->key_id, h->key_id, sizeof about->key_id);
    memcpy(about->digest, h->digest, sizeof about->digest);
    container_digest_text(h->digest, about->digest_text);
    memcpy(about->metadata, h->metadata, sizeof about->metadata);
}

static bg_err file_check_about(const bg_file_info *about, bg_errinfo *info)
{
    bgi_err_clear(info);
    return about && about->struct_size == sizeof *about
               ? BG_OK
               : bgi_err(info, BG_EINVAL, "about",
                         "a bg_file_info with struct_size set", "%s",
                         about ? "a different struct_size" : "NULL");
}

static bg_err file_about(const struct container_source *source, bg_file_info *about,
                         bg_errinfo *info)
{
    struct container_header header;
    const bg_err err = file_read_header(source, &header, info);
    if (!err) {
        file_tell(&header, about);
    }
    return err;
}

bg_err bg_file_get_info(const char *path, bg_file_info *about, bg_errinfo *info)
{
    struct disk_file file = { .descriptor = -1 };
    struct container_source source;
    bg_err err = file_check_about(about, info);
    err = err ? err : disk_open(path, &file, &source, info);
    if (!err) {
        err = file_about(&source, about, info);
        disk_close(&file);
    }
    return err;
}

bg_err bg_encoded_get_info(const void *bytes, size_t n, bg_file_info *about,
                           bg_errinfo *info)
{
    struct file_bytes from = { (unsigned char *)(uintptr_t)bytes, n };
    const struct container_source source = file_source_of(&from);
    if (!bytes) {
        return bgi_err(info, BG_EINVAL, "bytes", "an array of n bytes", "NULL");
    }
    const bg_err err = file_check_about(about, info);
    return err ? err : file_about(&source, about, info);
}

bg_err bgi_file_save(const bg_filter *filter, const char *path,
                     const bg_save_options *options, uint8_t digest[BG_DIGEST_BYTES],
                     bg_errinfo *info)
{
    struct disk_draft draft;
    struct container_sink sink;
    struct container_header header;
    bg_save_options how;
    if (!filter) {
        return bgi_err(info, BG_EINVAL, "filter", "a filter", "NULL");
    }
    bgi_err_clear(info);
    bg_err err = container_save_options(options, &how, info);
    err = err ? err : disk_begin(&draft, path, how.flags, &sink, info);
    if (err) {
        return err;
    }
    err = container_encode(filter, &how, &sink, &header, info);
    if (err) {
        disk_discard(&draft);
        return err;
    }
    if (digest) {
        memcpy(digest, header.digest, sizeof header.digest);
    }
    return disk_finish(&draft, DISK_BLOCKS, info);
}

bg_err bg_save(const bg_filter *filter, const char *path,
               const bg_save_options *options, bg_errinfo *info)
{
    return bgi_file_save(filter, path, options, NULL, info);
}

/* ---- Publication ------------------------------------------------------------------------ */

/* Writes the pointer file `directory`/`name`, which points to the file `at`. */
static bg_err file_point(const char *directory, const char *name, const char *at,
                         uint32_t flags, bg_errinfo *info)
{
    char path[DISK_PATH], text[512];
    struct disk_draft draft;
    struct container_sink sink;
    int n = snprintf(text, sizeof text, "bloomgate-pointer 1\n%s\n", at);
    int m = snprintf(path, sizeof path, "%s/%s", directory, name);
    if (n < 0 || (size_t)n >= sizeof text || m < 0 || (size_t)m >= sizeof path) {
        return bgi_err(info, BG_EINVAL, "name", "a shorter name", "%d bytes", n);
    }
    bg_err err = disk_begin(&draft, path, flags | DISK_NO_FOLLOW, &sink, info);
    if (err) {
        return err;
    }
    err = disk_write(&draft.file, 0, text, (size_t)n, info);
    if (err) {
        disk_discard(&draft);
        return err;
    }
    return disk_finish(&draft, DISK_NOTHING, info);
}

bg_err bg_publish(const bg_filter *filter, const char *directory, const char *name,
                  const bg_save_options *options, char digest[BG_DIGEST_TEXT_BYTES],
                  bg_errinfo *info)
{
    char path[DISK_PATH], text[BG_DIGEST_TEXT_BYTES], target[400];
    struct disk_draft draft;
    struct container_sink sink;
    struct container_header header;
    bg_save_options how;
    if (!filter || !directory || !name) {
        return bgi_err(info, BG_EINVAL, "filter, directory, name",
                       "a filter, a directory and a name", "NULL");
    }
    if (!*name || strchr(name, '/') || strlen(name) > 200) {
        return bgi_err(info, BG_EINVAL, "name", "1 to 200 bytes without a slash",
                       "\"%.80s\"", name);
    }
    bgi_err_clear(info);
    int n = snprintf(path, sizeof path, "%s/%s", directory, name);
    bg_err err = container_save_options(options, &how, info);
    if (!err && (n < 0 || (size_t)n >= sizeof path - 64)) {
        err = bgi_err(info, BG_EINVAL, "directory", "a shorter path", "%d bytes", n);
    }
    /* The target of a link could be in another directory, but both files belong in this one. */
    err = err ? err : disk_begin(&draft, path, how.flags | DISK_NO_FOLLOW, &sink, info);
    if (err) {
        return err;
    }
    err = container_encode(filter, &how, &sink, &header, info);
    if (err) {
        disk_discard(&draft);
        return err;
    }
    container_digest_text(header.digest, text);
    (void)snprintf(target, sizeof target, "%s-%s.bg", name, text);
    (void)snprintf(draft.path, sizeof draft.path, "%s/%s", directory, target);
    err = disk_finish(&draft, DISK_BLOCKS, info);
    err = err ? err : file_point(directory, name, target, how.flags, info);
    if (!err && digest) {
        memcpy(digest, text, sizeof text);
    }
    return err;
}
