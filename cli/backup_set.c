/* backup_set.c - see backup_set.h. */
#include "backup_set.h"

#include "json.h"
#include "json_read.h"
#include "letters.h"
#include "number.h"
#include "replace_file.h"
#include "save_options.h"
#include "stop.h"
#include "text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include "xxhash.h"

#define BACKUP_SCHEMA "bloomgate.backup.1"

/* ---- Filters --------------------------------------------------------------------------------- */

struct backup_filter *backup_append(struct backup_set *set, const char *name,
                                    size_t len)
{
    if (set->count == set->room) {
        const size_t room = set->room ? 2 * set->room : 64;
        struct backup_filter *more = realloc(set->filters, room * sizeof *more);
        if (!more) {
            return NULL;
        }
        set->filters = more;
        set->room = room;
    }
    char *copy = malloc(len + 1);
    if (!copy) {
        return NULL;
    }
    memcpy(copy, name, len);
    copy[len] = 0;
    struct backup_filter *filter = &set->filters[set->count++];
    *filter = (struct backup_filter){ .name = copy, .name_len = len };
    return filter;
}

void backup_free_filter(struct backup_filter *filter)
{
    free(filter->name);
    free(filter->description);
    filter->name = filter->description = NULL;
}

void backup_free(struct backup_set *set)
{
    for (size_t i = 0; i < set->count; i++) {
        backup_free_filter(&set->filters[i]);
    }
    free(set->filters);
    *set = (struct backup_set){ .count = 0 };
}

bool backup_is_complete(const struct backup_filter *filter)
{
    return strcmp(filter->state, "complete") == 0;
}

bool backup_is_foreign(const struct backup_filter *filter)
{
    return strstr(filter->file, ".foreign") != NULL;
}

const char *backup_show(const struct backup_filter *filter, char text[BACKUP_SHOWN])
{
    const size_t most = BACKUP_SHOWN - 4;
    const bool cut = filter->name_len > most;
    (void)snprintf(text, BACKUP_SHOWN, "%.*s%s", (int)(cut ? most : filter->name_len),
                   filter->name, cut ? "..." : "");
    say_tame(text, strlen(text));
    return text;
}

uint64_t backup_bytes(const struct backup_set *set)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < set->count; i++) {
        sum += set->filters[i].bytes;
    }
    return sum;
}

int backup_path(const char *dir, const char *file, char path[CLAIM_PATH])
{
    const int n = snprintf(path, CLAIM_PATH, "%s/%s", dir, file);
    return n > 0 && n < CLAIM_PATH ? CLI_OK : say_refused("%s: path is too long", dir);
}

bool backup_is_file_name(const char *file)
{
    char digits[24];
    const unsigned long number = strtoul(file, NULL, 10);
    const size_t n = (size_t)snprintf(digits, sizeof digits, "%06lu", number);
    return number > 0 && strncmp(file, digits, n) == 0
           && (strcmp(file + n, ".bg") == 0 || strcmp(file + n, ".foreign") == 0);
}

int backup_open(const char *path, const char **damage)
{
    struct stat about;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    *damage = fd < 0 && errno == ENOENT ? "the file is missing" : NULL;
    if (fd < 0 || (fstat(fd, &about) == 0 && S_ISREG(about.st_mode))) {
        return fd;
    }
    (void)close(fd);
    *damage = "not a regular file";
    errno = EINVAL;
    return -1;
}

/* ---- Writing the manifest -------------------------------------------------------------------- */

static bool name_is_text(const struct backup_filter *filter)
{
    uint32_t code = 0;
    for (size_t at = 0, n = 0; at < filter->name_len; at += n) {
        n = text_character(filter->name + at, filter->name_len - at, &code);
        if (n == 0) {
            return false;
        }
    }
    return true;
}

static void manifest_name(struct json *json, const struct backup_filter *filter)
{
    json_bytes(json, "name", filter->name, filter->name_len);
    if (name_is_text(filter)) {
        return;
    }
    char *hex = malloc(2 * filter->name_len + 1);
    if (hex) {
        for (size_t i = 0; i < filter->name_len; i++) {
            (void)snprintf(hex + 2 * i, 3, "%02x", (unsigned char)filter->name[i]);
        }
        json_text(json, "name_hex", hex);
    } else {
        json_null(json, "name_hex"); /* refused when the manifest is read */
    }
    free(hex);
}

static void manifest_checksum(struct json *json, uint64_t checksum)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%016" PRIx64, checksum);
    json_text(json, "checksum", text);
}

static void manifest_filter(FILE *to, const struct backup_filter *filter)
{
    struct json json;
    json_begin_bare(&json, to);
    manifest_name(&json, filter);
    json_count(&json, "id", filter->id);
    json_text(&json, "state", filter->state);
    json_count(&json, "expires", filter->expires);
    if (backup_is_complete(filter)) {
        json_text(&json, "file", filter->file);
        json_count(&json, "bytes", filter->bytes);
        manifest_checksum(&json, filter->checksum);
        json_text(&json, "digest", filter->digest);
        json_text(&json, "description", filter->description);
    }
    json_end(&json);
}

static void manifest_begin(FILE *to, const struct backup_set *set)
{
    struct json json;
    json_begin_to(&json, to, BACKUP_SCHEMA);
    json_text(&json, "service", set->service);
    json_text(&json, "version", set->version);
    json_count(&json, "started", set->started);
    json_count(&json, "finished", set->finished);
    json_bool(&json, "names_in_doubt", set->names_in_doubt);
    json_end(&json);
}

static void manifest_end(FILE *to, const struct backup_set *set, uint64_t checksum)
{
    struct json json;
    json_begin_bare(&json, to);
    json_count(&json, "filters", set->count);
    json_count(&json, "bytes", backup_bytes(set));
    manifest_checksum(&json, checksum);
    json_end(&json);
}

int backup_write_manifest(const char *dir, const struct backup_set *set)
{
    char path[CLAIM_PATH];
    char *bytes = NULL;
    size_t n = 0;
    FILE *to = open_memstream(&bytes, &n);
    bool good = to != NULL;
    if (to) {
        manifest_begin(to, set);
        for (size_t i = 0; i < set->count; i++) {
            manifest_filter(to, &set->filters[i]);
        }
        good = fflush(to) == 0;
        manifest_end(to, set, good ? XXH64(bytes, n, 0) : 0);
        good = good && !ferror(to);
        good = fclose(to) == 0 && good;
    }
    int code = good ? CLI_OK : say_full("out of memory");
    code = code ? code : backup_path(dir, BACKUP_MANIFEST, path);
    code = code ? code : replace_file(path, bytes, n);
    free(bytes);
    return code;
}

/* ---- Reading the manifest -------------------------------------------------------------------- */

static bool hex_number(const struct json_span *text, uint64_t *value)
{
    *value = 0;
    for (size_t i = 0; i < text->len; i++) {
        const int digit = hex_digit(text->bytes[i]);
        if (digit < 0 || text->len != 16) {
            return false;
        }
        *value = *value << 4 | (uint64_t)digit;
    }
    return text->len == 16;
}

/* Copies a string to `to`. Returns false if it contains a NUL or does not fit into `room` bytes. */
static bool manifest_text(struct json_reader *r, char *to, size_t room)
{
    struct json_span text;
    if (!json_read_string(r, &text) || text.len >= room
        || memchr(text.bytes, 0, text.len)) {
        return false;
    }
    memcpy(to, text.bytes, text.len);
    to[text.len] = 0;
    return true;
}

static bool manifest_set_name(struct backup_filter *filter,
                              const struct json_span *text, bool hex)
{
    const size_t n = hex ? text->len / 2 : text->len;
    char *name = n <= BACKUP_NAME && !(hex && text->len % 2) ? malloc(n + 1) : NULL;
    bool good = name != NULL;
    for (size_t i = 0; good && i < n; i++) {
        const int high = hex ? hex_digit(text->bytes[2 * i]) : 0;
        const int low = hex ? hex_digit(text->bytes[2 * i + 1]) : 0;
        const uint8_t byte = (uint8_t)(hex ? (unsigned)high << 4 | (unsigned)low
                                           : (unsigned char)text->bytes[i]);
        memcpy(name + i, &byte, 1);
        good = high >= 0 && low >= 0;
    }
    if (!good) {
        free(name);
        return false;
    }
    name[n] = 0;
    free(filter->name);
    filter->name = name;
    filter->name_len = n;
    return true;
}

static bool manifest_member(struct json_reader *r, const struct json_span *name,
                            struct backup_filter *f)
{
    struct json_span text;
    char description[BACKUP_LINE];
    if (json_read_is(name, "name")) {
        return json_read_string(r, &text)
               && (f->name_len || manifest_set_name(f, &text, false));
    }
    if (json_read_is(name, "name_hex")) {
        return json_read_string(r, &text) && manifest_set_name(f, &text, true);
    }
    if (json_read_is(name, "id")) {
        return json_read_count(r, &f->id);
    }
    if (json_read_is(name, "state")) {
        return manifest_text(r, f->state, sizeof f->state);
    }
    if (json_read_is(name, "expires")) {
        return json_read_count(r, &f->expires);
    }
    if (json_read_is(name, "file")) {
        return manifest_text(r, f->file, sizeof f->file);
    }
    if (json_read_is(name, "bytes")) {
        return json_read_count(r, &f->bytes);
    }
    if (json_read_is(name, "checksum")) {
        return json_read_string(r, &text) && hex_number(&text, &f->checksum);
    }
    if (json_read_is(name, "digest")) {
        return manifest_text(r, f->digest, sizeof f->digest);
    }
    if (json_read_is(name, "description")) {
        free(f->description);
        f->description = manifest_text(r, description, sizeof description)
                             ? strdup(description)
                             : NULL;
        return f->description != NULL;
    }
    return json_read_skip(r);
}

static bool manifest_read_filter(char *line, size_t n, struct backup_set *set)
{
    struct json_reader r;
    struct json_span name;
    struct backup_filter *f = backup_append(set, "", 0);
    bool good = f != NULL;
    json_read_begin(&r, line, n);
    if (good && json_read_open(&r, '{')) {
        while (good && json_read_member(&r, &name)) {
            good = manifest_member(&r, &name, f);
        }
    }
    return good && json_read_end(&r) && f->state[0]
           && (!backup_is_complete(f)
               || (backup_is_file_name(f->file) && f->description && f->digest[0]));
}

static bool manifest_read_begin(char *line, size_t n, struct backup_set *set,
                                bool *known)
{
    struct json_reader r;
    struct json_span name;
    char schema[32] = "";
    bool good = true;
    json_read_begin(&r, line, n);
    if (json_read_open(&r, '{')) {
        while (good && json_read_member(&r, &name)) {
            good =
                json_read_is(&name, "schema") ? manifest_text(&r, schema, sizeof schema)
                : json_read_is(&name, "service")
                    ? manifest_text(&r, set->service, sizeof set->service)
                : json_read_is(&name, "version")
                    ? manifest_text(&r, set->version, sizeof set->version)
                : json_read_is(&name, "started")  ? json_read_count(&r, &set->started)
                : json_read_is(&name, "finished") ? json_read_count(&r, &set->finished)
                : json_read_is(&name, "names_in_doubt")
                    ? json_read_bool(&r, &set->names_in_doubt)
                    : json_read_skip(&r);
        }
    }
    *known = strcmp(schema, BACKUP_SCHEMA) == 0;
    return good && json_read_end(&r);
}

static bool manifest_read_end(char *line, size_t n, uint64_t *filters,
                              uint64_t *checksum)
{
    struct json_reader r;
    struct json_span name, text;
    bool good = true, summed = false;
    *filters = 0;
    json_read_begin(&r, line, n);
    if (json_read_open(&r, '{')) {
        while (good && json_read_member(&r, &name)) {
            if (json_read_is(&name, "filters")) {
                good = json_read_count(&r, filters);
            } else if (json_read_is(&name, "checksum")) {
                good = summed =
                    json_read_string(&r, &text) && hex_number(&text, checksum);
            } else {
                good = json_read_skip(&r);
            }
        }
    }
    return good && summed && json_read_end(&r);
}

static int manifest_damaged(const char *path, const char *what)
{
    return say_data("%s: the manifest is damaged: %s; use another backup", path, what);
}

/* Parses the manifest. Decoding changes the text, so the checksum is computed first. */
static int manifest_parse(const char *path, char *text, size_t n,
                          struct backup_set *set)
{
    uint64_t filters = 0, checksum = 0;
    bool known = false;
    char *last = n ? memrchr(text, '\n', n - 1) : NULL;
    if (!last || text[n - 1] != '\n') {
        return manifest_damaged(path, "it is truncated");
    }
    last++;
    const uint64_t found = XXH64(text, (size_t)(last - text), 0);
    if (!manifest_read_end(last, (size_t)(text + n - last), &filters, &checksum)) {
        return manifest_damaged(path, "its last line is invalid");
    }
    if (found != checksum) {
        return manifest_damaged(path, "its checksum does not match");
    }
    for (char *at = text; at < last;) {
        char *end = memchr(at, '\n', (size_t)(last - at));
        const size_t length = (size_t)(end - at);
        if (at == text && !manifest_read_begin(at, length, set, &known)) {
            return manifest_damaged(path, "its first line is invalid");
        }
        if (!known) {
            return say_data("%s: unknown format, expected " BACKUP_SCHEMA
                            "; use the version of bloomgate that wrote the backup",
                            path);
        }
        if (at != text && !manifest_read_filter(at, length, set)) {
            return manifest_damaged(path, "the line of a filter is invalid");
        }
        at = end + 1;
    }
    return filters == set->count
               ? CLI_OK
               : manifest_damaged(path, "the number of filters does not match");
}

static int manifest_open(const char *dir, const char *path, int *fd)
{
    const char *damage = NULL;
    *fd = backup_open(path, &damage);
    const bool missing = *fd < 0 && errno == ENOENT;
    if (missing && access(dir, F_OK) == 0) {
        return say_data("%s: not a complete backup: it contains no " BACKUP_MANIFEST,
                        dir);
    }
    return *fd >= 0             ? CLI_OK
           : damage && !missing ? manifest_damaged(path, damage)
                                : say_errno(missing ? dir : path);
}

int backup_read_manifest(const char *dir, struct backup_set *set)
{
    char path[CLAIM_PATH];
    struct stat about = { .st_size = 0 };
    int fd = -1;
    *set = (struct backup_set){ .count = 0 };
    int code = backup_path(dir, BACKUP_MANIFEST, path);
    code = code ? code : manifest_open(dir, path, &fd);
    if (!code && fstat(fd, &about) != 0) {
        code = say_errno(path);
    }
    const size_t n = code ? 0 : (size_t)about.st_size;
    char *text = code ? NULL : malloc(n + 1);
    size_t done = 0;
    ssize_t got = 1;
    while (text && done < n && got > 0) {
        got = read(fd, text + done, n - done);
        done += got > 0 ? (size_t)got : 0;
    }
    if (!code) {
        code = !text     ? say_full("out of memory")
               : got < 0 ? say_errno(path)
                         : manifest_parse(path, text, done, set);
    }
    free(text);
    if (fd >= 0) {
        (void)close(fd);
    }
    if (code) {
        backup_free(set);
    }
    return code;
}

/* ---- Checking -------------------------------------------------------------------------------- */

static int check_damaged(const char *path, const char *what)
{
    return say_failed(CLI_NO, "%s: damaged: %s", path, what);
}

/* Computes the checksums of a file: `whole` includes the description. Stops after the first byte
 * that should not exist. */
static int check_read(int fd, const char *path, const struct backup_filter *filter,
                      uint64_t *whole, uint64_t *content, uint64_t *bytes)
{
    enum { PIECE = 1 << 20 };
    XXH64_state_t both, only;
    char *piece = malloc(PIECE);
    ssize_t n = 0;
    if (!piece) {
        return say_full("out of memory");
    }
    XXH64_reset(&both, 0);
    XXH64_reset(&only, 0);
    XXH64_update(&both, filter->description, strlen(filter->description));
    *bytes = 0;
    while (!stop_wanted() && *bytes <= filter->bytes
           && (n = read(fd, piece, PIECE)) > 0) {
        XXH64_update(&both, piece, (size_t)n);
        XXH64_update(&only, piece, (size_t)n);
        *bytes += (uint64_t)n;
    }
    free(piece);
    *whole = XXH64_digest(&both);
    *content = XXH64_digest(&only);
    return stop_wanted() ? (int)CLI_INTERRUPTED : n < 0 ? say_errno(path) : CLI_OK;
}

/* Checks the structure of a filter file, and returns its digest. */
static int check_structure(const char *path, char digest[BG_DIGEST_TEXT_BYTES])
{
    bg_file_info about = { .struct_size = sizeof about };
    bg_verify_report report = { .struct_size = sizeof report };
    bg_open_options how = BG_OPEN_OPTIONS_INIT;
    bg_errinfo why;
    if (bg_file_get_info(path, &about, &why) || bg_verify(path, &how, &report, &why)
        || report.bad) {
        return check_damaged(path, report.bad ? report.what : why.message);
    }
    memcpy(digest, about.digest_text, BG_DIGEST_TEXT_BYTES);
    return CLI_OK;
}

int backup_check(const char *dir, struct backup_filter *filter,
                 struct progress *progress)
{
    char path[CLAIM_PATH], digest[BG_DIGEST_TEXT_BYTES] = "";
    uint64_t whole = 0, content = 0, bytes = 0;
    const char *damage = NULL;
    int code = backup_path(dir, filter->file, path);
    const int fd = code ? -1 : backup_open(path, &damage);
    if (code || fd < 0) {
        return code ? code : damage ? check_damaged(path, damage) : say_errno(path);
    }
    /* Read from the disk instead of from the cache, where possible. */
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    code = check_read(fd, path, filter, &whole, &content, &bytes);
    (void)close(fd);
    if (code) {
        return code;
    }
    if (bytes != filter->bytes) {
        return check_damaged(path, "its size does not match the manifest");
    }
    if (whole != filter->checksum) {
        return check_damaged(path, "its checksum does not match the manifest");
    }
    if (backup_is_foreign(filter)) {
        (void)snprintf(digest, sizeof digest, "%016" PRIx64, content);
    } else {
        code = check_structure(path, digest);
    }
    if (!code && filter->digest[0] && strcmp(filter->digest, digest) != 0) {
        return check_damaged(path, "its digest does not match the manifest");
    }
    if (!code) {
        memcpy(filter->digest, digest, sizeof digest);
    }
    progress_tick(progress, bytes, 0);
    return code;
}
