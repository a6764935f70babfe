/* gates/files.c - see gates/files.h. */
#include "gates/files.h"

#include "text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char files_mark[] = "gate-mark: ", files_settings[] = "gate-settings: ";

static bg_err files_failed(bg_errinfo *info, const char *path)
{
    return source_error(info, BG_EIO, "gates", NULL, "cannot access %.300s: %s", path,
                        text_errno(errno));
}

char *gate_files_path(const char *dir, const char *name, const char *ending)
{
    char *path = NULL;
    return asprintf(&path, "%s/gates/%s%s", dir, name, ending) < 0 ? NULL : path;
}

/* ---- The instance ---------------------------------------------------------------------- */

static bool files_is_instance(const char *text)
{
    return strlen(text) == GATE_INSTANCE - 1
           && strspn(text, "0123456789abcdef") == GATE_INSTANCE - 1;
}

/* Creates the file with random content, unless it already exists. */
static bg_err files_make_instance(const char *path, bg_errinfo *info)
{
    uint32_t number;
    char text[GATE_INSTANCE + 1];
    const int fd =
        open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return errno == EEXIST ? BG_OK : files_failed(info, path);
    }
    bool good = getentropy(&number, sizeof number) == 0;
    (void)snprintf(text, sizeof text, "%08x\n", number);
    good = good && write(fd, text, GATE_INSTANCE) == GATE_INSTANCE && fsync(fd) == 0;
    const bg_err err = good ? BG_OK : files_failed(info, path);
    (void)close(fd);
    if (err) {
        (void)unlink(path);
    }
    return err;
}

static bg_err files_read_instance(const char *path, char instance[GATE_INSTANCE],
                                  bg_errinfo *info)
{
    FILE *file = fopen(path, "re");
    instance[0] = 0;
    if (!file) {
        return files_failed(info, path);
    }
    const bool read = fgets(instance, GATE_INSTANCE, file) != NULL;
    (void)fclose(file);
    return read && files_is_instance(instance)
               ? BG_OK
               : source_error(
                   info, BG_EFORMAT, "gates", NULL,
                   "%.300s does not contain 8 hex digits; delete it to create a new one",
                   path);
}

bg_err gate_files_instance(const char *dir, char instance[GATE_INSTANCE],
                           bg_errinfo *info)
{
    char *folder = gate_files_path(dir, "", ""),
         *path = gate_files_path(dir, "instance", "");
    bg_err err = folder && path ? BG_OK : BG_ENOMEM;
    if (!err && mkdir(folder, 0700) != 0 && errno != EEXIST) {
        err = files_failed(info, folder);
    }
    err = err ? err : files_make_instance(path, info);
    err = err ? err : files_read_instance(path, instance, info);
    free(folder);
    free(path);
    return err;
}

/* ---- The filter ------------------------------------------------------------------------ */

/* Returns a hash of the settings that determine the filter's keys, kind and false-positive rate. */
static uint64_t files_hash_settings(const struct gate_settings *s)
{
    const char *texts[] = { s->source, s->keys, s->follow };
    uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a */
    char numbers[64];
    (void)snprintf(numbers, sizeof numbers, "%u %.17g", s->kind, s->rate);
    for (size_t i = 0; i <= sizeof texts / sizeof *texts; i++) {
        const char *text = i < sizeof texts / sizeof *texts ? texts[i] : numbers;
        do { /* includes the NUL, which separates the texts */
            hash = (hash ^ (unsigned char)*text) * UINT64_C(1099511628211);
        } while (*text++);
    }
    return hash;
}

bg_err gate_files_save(bg_slot *slot, const char *path,
                       const struct gate_settings *settings, const char *mark,
                       bg_errinfo *info)
{
    bg_save_options how = BG_SAVE_OPTIONS_INIT;
    char metadata[SOURCE_MARK + 96];
    (void)snprintf(metadata, sizeof metadata, "%s%016llx\n%s%s\n", files_settings,
                   (unsigned long long)files_hash_settings(settings), files_mark, mark);
    how.metadata = metadata;
    return bg_slot_save(slot, path, &how, info);
}

/* Copies the rest of the line that starts with `name`. Returns false if there is no such line, or if the rest is
 * empty or too long. */
static bool files_line(const char *metadata, const char *name, char *to, size_t room)
{
    for (const char *line = metadata; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, strlen(name)) == 0) {
            const char *value = line + strlen(name);
            const size_t len = strcspn(value, "\n");
            if (len < room) {
                memcpy(to, value, len);
                to[len] = 0;
            }
            return len > 0 && len < room;
        }
    }
    return false;
}

bg_err gate_files_load(bg_slot *slot, const char *path,
                       const struct gate_settings *settings, const bg_hash_spec *hash,
                       uint64_t max_bytes, char mark[SOURCE_MARK], bg_errinfo *info)
{
    bg_open_options how = BG_OPEN_OPTIONS_INIT;
    bg_file_info about = { .struct_size = sizeof about };
    bg_filter *filter = NULL;
    char hashed[32] = "", expected[32];
    how.hash = hash;
    how.max_bytes = max_bytes;
    bg_err err = bg_open_with_info(path, &how, &about, &filter, info);
    (void)snprintf(expected, sizeof expected, "%016llx",
                   (unsigned long long)files_hash_settings(settings));
    if (!err
        && (!files_line(about.metadata, files_settings, hashed, sizeof hashed)
            || strcmp(hashed, expected) != 0
            || !files_line(about.metadata, files_mark, mark, SOURCE_MARK))) {
        err = source_error(info, BG_EINCOMPAT, "gates", NULL,
                           "%.300s was saved with different settings", path);
    }
    err = err ? err : bg_slot_swap(slot, filter, 0, BG_SLOT_DISCARD, info);
    if (err) {
        bg_filter_free(filter);
        mark[0] = 0;
    }
    return err;
}
