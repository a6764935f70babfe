/* filter_file.c - see filter_file.h. */
#include "filter_file.h"

#include "input.h"
#include "letters.h"
#include "number.h"
#include "replace_file.h"
#include "say.h"
#include "spec_options.h"
#include "spool.h"
#include "unpack.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *const filter_formats[] = { "auto", "bloomgate",
#define FORMAT_NAME(NAME, number, name) #name,
                                       BG_FOREIGN_FORMATS(FORMAT_NAME)
#undef FORMAT_NAME
                                           NULL };

enum {
    FORMAT_AUTO,
    FORMAT_OURS,
    FORMAT_FOREIGN
}; /* FORMAT_FOREIGN is foreign format 1 */

#define OPT_STRUCT struct open_options
#define OPEN_OURS                                                                      \
    OPT_TEXT("keyring", 0, keyring, "FILE", "file with the secrets of keyed filters"), \
        OPT_FLAG("tolerate", 0, tolerate,                                              \
                 "accept damaged blocks, which answer \"maybe\"")
static const struct option open_ours_table[] = {
    OPEN_OURS,
    OPT_END,
};
static const struct option open_table[] = {
    OPT_CHOICE("format", 0, format, "FORMAT",
               "auto (default) or a format listed in bloomgate(1)", filter_formats),
    OPEN_OURS,
    OPT_COUNT("part", 0, part, "N", "parquet: index of the filter in the file, from 0"),
    OPT_COUNT("format-version", 0, version, "N",
              "cassandra: 1 for Cassandra 3, 2 for Cassandra 2"),
    OPT_TEXT("block-key", 0, block_key, "HEX",
             "bip158: first 16 bytes of the block hash"),
    OPT_END,
};
const struct option_group open_options_group = { "Opening", open_table };
const struct option_group open_ours_group = { "Opening", open_ours_table };

/* ---- Metadata -------------------------------------------------------------------------------- */

static const char filter_recipe_name[] = "keys: ";

const char *filter_find_line(const char *metadata, const char *name)
{
    const char *line = metadata;
    while (line && *line && strncmp(line, name, strlen(name)) != 0) {
        line += strcspn(line, "\n");
        line += *line == '\n';
    }
    return line && *line ? line : NULL;
}

void filter_remove_line(char *line)
{
    const char *next = line + strcspn(line, "\n");
    next += *next == '\n';
    memmove(line, next, strlen(next) + 1);
}

void filter_read_recipe(const char *metadata, char recipe[KEY_RECIPE])
{
    const char *line = metadata;
    recipe[0] = 0;
    while (!*recipe && (line = filter_find_line(line, filter_recipe_name)) != NULL) {
        line += sizeof filter_recipe_name - 1;
        /* A truncated recipe is reported as unknown, and not mistaken for a missing one. */
        (void)snprintf(recipe, KEY_RECIPE, "%.*s", (int)strcspn(line, "\n"), line);
    }
}

void filter_metadata(const struct key_format *format, const char *note,
                     char text[BG_METADATA_MAX])
{
    char recipe[KEY_RECIPE];
    keys_recipe(format, recipe);
    (void)snprintf(text, BG_METADATA_MAX, "%s%s%s%s%s",
                   *recipe ? filter_recipe_name : "", recipe, *recipe ? "\n" : "",
                   note ? note : "", note ? "\n" : "");
}

int filter_follow(const struct filter_file *file, struct key_format *format)
{
    struct key_format its = { .form = KEY_TEXT };
    if (!keys_follow(file->recipe, &its)) {
        return say_data("%s: unknown key conversion '%s'; the file may be from a newer "
                        "version",
                        file->path, file->recipe);
    }
    if (its.form && format->form && its.form != format->form) {
        return say_usage("%s: its keys are converted with '%s'; use the same --as, or "
                         "omit it",
                         file->path, file->recipe);
    }
    (void)keys_follow(file->recipe, format);
    return CLI_OK;
}

int filter_expect_whole(const struct filter_file *file)
{
    static const char shard[] = "bloomgate-shard: ";
    return strncmp(file->about.metadata, shard, sizeof shard - 1) != 0
               ? CLI_OK
               : say_refused("%s: a single shard of a split filter cannot be changed; "
                             "run bloomgate join, and change the result",
                             file->path);
}

int filter_may_write(const char *path, bool force)
{
    struct stat about;
    if (strcmp(path, "-") == 0) {
        return say_usage("expected a file, not stdout; to write to a file named '-', "
                         "use ./-");
    }
    const int code = replace_expect_regular(path);
    if (code || stat(path, &about) != 0) {
        return code;
    }
    if (force && secret_is_keyring(path)) {
        return say_refused("%s: -f does not overwrite a keyring, because filters that "
                           "use its secrets would be lost",
                           path);
    }
    return force ? CLI_OK
                 : say_refused("%s: already exists; use -f to overwrite it", path);
}

/* Returns whether a path is another name for an open file, next to which no lock can be created. */
static bool filter_is_descriptor(const char *path)
{
    return strncmp(path, "/dev/fd/", 8) == 0 || strncmp(path, "/proc/self/fd/", 14) == 0
           || strcmp(path, "/dev/stdout") == 0 || strcmp(path, "/dev/stderr") == 0;
}

int filter_claim_output(const char *path, bool force)
{
    if (filter_is_descriptor(path)) {
        return say_usage("%s: to write a filter to stdout, use '-'", path);
    }
    if (!spool_is_standard(path)) {
        return filter_claim(path, force);
    }
    return isatty(STDOUT_FILENO)
               ? say_usage("a filter cannot be written to the terminal; redirect "
                           "stdout, for example to a file")
               : CLI_OK;
}

static bg_err filter_write_piece(void *context, const void *bytes, size_t n)
{
    (void)context;
    return out_write(bytes, n) ? BG_OK : BG_EIO;
}

int filter_save(const bg_filter *filter, const char *path, const bg_save_options *how)
{
    bg_errinfo why;
    const bg_err err =
        spool_is_standard(path)
            ? bg_encode_stream(filter, how, filter_write_piece, NULL, &why)
            : bg_save(filter, path, how, &why);
    return !err         ? CLI_OK
           : out_code() ? out_code()
                        : say_error(spool_target_name(path), &why);
}

int filter_shard_path(const char *prefix, uint32_t shard, char name[CLAIM_PATH])
{
    const int n = snprintf(name, CLAIM_PATH, "%s.%u", prefix, shard);
    return n > 0 && n < CLAIM_PATH ? CLI_OK
                                   : say_refused("%s: path is too long", prefix);
}

int filter_claim(const char *path, bool force)
{
    char to[CLAIM_PATH];
    const bool is_file = strcmp(path, "-") != 0;
    /* Check the type before locking: creating a lock file next to a device (/dev) fails with a
     * misleading permission error. */
    int code = is_file ? replace_expect_regular(path) : CLI_OK;
    code = code || !is_file ? code : claim_file(path);
    /* If the path is a symbolic link, also claim its target, which the new file replaces. */
    code = code || !is_file ? code : claim_target(path, to);
    return code ? code : filter_may_write(path, force);
}

/* ---- Format detection ------------------------------------------------------------------------ */

static const char filter_magic[] = "\x89"
                                   "BGF";

/* Returns whether a regular file, or the copy of a pipe, starts with the n bytes in `with`. */
static bool filter_begins(const char *path, const char *with, size_t n)
{
    char first[32];
    struct stat about;
    path = spool_path(path);
    return stat(path, &about) == 0 && S_ISREG(about.st_mode)
           && input_peek(path, first, sizeof first) >= n && memcmp(first, with, n) == 0;
}

bool filter_is_pointer(const char *path)
{
    static const char pointer[] = "bloomgate-pointer";
    /* A pointer file is relative to its directory, and a pipe has no directory. */
    return spool_path(path) == path && filter_begins(path, pointer, sizeof pointer - 1);
}

bool filter_looks_ours(const char *path)
{
    return filter_begins(path, filter_magic, sizeof filter_magic - 1)
           || filter_is_pointer(path);
}

int filter_expect_ours(const char *path)
{
    struct stat about;
    const int code = spool_read(path);
    if (code) {
        return code;
    }
    if (stat(spool_path(path), &about) != 0) {
        return say_errno(path);
    }
    return filter_looks_ours(path)
               ? CLI_OK
               : say_data("%s: not a bloomgate filter file", spool_name(path));
}

/* ---- Files of bloomgate ---------------------------------------------------------------------- */

bool filter_needs_secret(const char *path)
{
    bg_file_info about = { .struct_size = sizeof about };
    return !bg_file_get_info(spool_path(path), &about, NULL)
           && hash_has_secret(about.profile);
}

int filter_secret(const char *path, const struct open_options *options,
                  struct filter_file *file, bg_open_options *opening)
{
    bg_errinfo why;
    file->path = spool_name(path);
    file->about = (bg_file_info){ .struct_size = sizeof file->about };
    const int code = filter_expect_ours(path);
    if (code) {
        return code;
    }
    path = spool_path(path);
    if (bg_file_get_info(path, &file->about, &why)) {
        return say_error(file->path, &why);
    }
    filter_read_recipe(file->about.metadata, file->recipe);
    if (!hash_has_secret(file->about.profile)) {
        return CLI_OK;
    }
    if (!options->keyring) {
        return say_refused("%s: its keys are hashed with a secret; use --keyring FILE",
                           file->path);
    }
    if (bg_keyring_open(options->keyring, &file->ring, &why)) {
        return say_error(options->keyring, &why);
    }
    file->hash = (bg_hash_spec){ .profile = file->about.profile };
    if (bg_keyring_find(file->ring, file->about.key_id, &file->hash, &why)) {
        return say_data("%s: does not contain the secret for %s", options->keyring,
                        file->path);
    }
    opening->hash = &file->hash;
    return CLI_OK;
}

/* Warns about damage that was ignored because of --tolerate. */
static void filter_warn(const struct filter_file *file)
{
    bg_filter_info info = { .struct_size = sizeof info };
    if (!bg_filter_get_info(file->filter, &info) && info.degraded) {
        say_warning("%s: some blocks are damaged; lookups in them always return "
                    "\"maybe\"",
                    file->path);
    }
}

static int filter_open_ours(const char *path, const struct open_options *options,
                            unsigned flags, struct filter_file *file)
{
    bg_open_options opening = BG_OPEN_OPTIONS_INIT;
    bg_errinfo why;
    const int code = filter_secret(path, options, file, &opening);
    if (code) {
        return code;
    }
    opening.flags = options->tolerate ? BG_FILE_TOLERATE_DAMAGE : 0;
    opening.filter_flags = flags & FILTER_EXCLUSIVE ? BG_SPEC_EXCLUSIVE : 0;
    path = spool_path(path);
    const bg_err err = flags & FILTER_MAPPED
                           ? bg_map(path, &opening, &file->filter, &why)
                           : bg_open(path, &opening, &file->filter, &why);
    if (err) {
        return say_error(file->path, &why);
    }
    if (options->tolerate) {
        filter_warn(file);
    }
    return CLI_OK;
}

/* ---- Files from other software --------------------------------------------------------------- */

struct filter_bytes {
    char *bytes;
    size_t n;
};

/* Reads a whole file. */
static int filter_slurp(const char *path, struct filter_bytes *all)
{
    const int fd = open(spool_path(path), O_RDONLY | O_CLOEXEC);
    size_t room = 0;
    ssize_t n = fd < 0 ? -1 : 1;
    *all = (struct filter_bytes){ NULL, 0 };
    while (n > 0) {
        if (all->n == room) {
            room = room ? 2 * room : 1 << 16;
            char *grown = realloc(all->bytes, room);
            if (!grown) {
                n = -1;
                break;
            }
            all->bytes = grown;
        }
        n = read(fd, all->bytes + all->n, room - all->n);
        all->n += n > 0 ? (size_t)n : 0;
    }
    const int code = n < 0 ? say_errno(spool_name(path)) : CLI_OK;
    if (fd >= 0) {
        (void)close(fd);
    }
    return code;
}

static uint32_t filter_foreign_keys(enum key_form form)
{
    return form == KEY_INT64   ? BG_FOREIGN_KEYS_INT64
           : form == KEY_INT32 ? BG_FOREIGN_KEYS_INT32
           : form == KEY_UTF16 ? BG_FOREIGN_KEYS_UTF16
                               : BG_FOREIGN_KEYS_BYTES;
}

static bool filter_read_secret(const char *text, uint8_t secret[BG_SECRET_BYTES])
{
    if (strlen(text) != 2 * (size_t)BG_SECRET_BYTES) {
        return false;
    }
    for (int i = 0; i < BG_SECRET_BYTES; i++) {
        const int high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);
        if (high < 0 || low < 0) {
            return false;
        }
        secret[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

int filter_foreign_options(const struct open_options *options, bg_foreign_format format,
                           enum key_form form, uint8_t secret[BG_SECRET_BYTES],
                           bg_foreign_options *how)
{
    *how = (bg_foreign_options)BG_FOREIGN_OPTIONS_INIT;
    how->keys = filter_foreign_keys(form);
    if (options->part > UINT32_MAX || options->version > UINT32_MAX) {
        return say_usage("--part and --format-version must be below 2^32");
    }
    how->part = (uint32_t)options->part;
    how->version = (uint32_t)options->version;
    if (format == BG_FOREIGN_BIP158 && !options->block_key) {
        return say_usage("bip158 filters require --block-key");
    }
    if (options->block_key) {
        if (!filter_read_secret(options->block_key, secret)) {
            return say_usage("--block-key: expected 32 hexadecimal digits");
        }
        how->secret = secret;
    }
    return CLI_OK;
}

static bg_foreign *filter_read_foreign(int format, const struct filter_bytes *all,
                                       const bg_foreign_options *how, bg_errinfo *why)
{
    bg_foreign *foreign = NULL;
    return bg_foreign_decode((bg_foreign_format)format, all->bytes, all->n, how,
                             &foreign, why)
               ? NULL
               : foreign;
}

/* Tries every reader. Sets `names` to the names of the formats whose readers accept the bytes, and
 * *found to their number. */
static bg_foreign *filter_guess(const struct filter_bytes *all,
                                const bg_foreign_options *how, char names[256],
                                int *found)
{
    bg_foreign *only = NULL;
    *found = 0;
    names[0] = 0;
    for (int i = 1; filter_formats[FORMAT_OURS + i]; i++) {
        bg_foreign *foreign = filter_read_foreign(i, all, how, NULL);
        if (foreign) {
            say_list(names, 256, filter_formats[FORMAT_OURS + i]);
            bg_foreign_free(only);
            only = foreign;
            ++*found;
        }
    }
    return only;
}

/* Reports a file that no reader accepts, with advice. */
static int filter_refuse_unknown(const char *path, const struct filter_bytes *all)
{
    const char *packed = unpack_name(unpack_recognise(all->bytes, all->n));
    const bool ours = all->n >= 4 && memcmp(all->bytes, filter_magic, 4) == 0;
    return packed ? say_data("%s: not a filter in any known format: the file is "
                             "compressed with %s; decompress it first",
                             path, packed)
                  : say_data("%s: not a filter in any known format%s", path,
                             ours ? ": to read a bloomgate filter from a named pipe, "
                                    "redirect it to stdin and use '-'"
                                  : "");
}

/* Returns the format that --format specifies, or that is implied by an option for a single format.
 * Returns 0 if there is no such option. */
static int filter_said_format(const struct open_options *options)
{
    return options->format >= FORMAT_FOREIGN ? options->format - FORMAT_OURS
           : options->block_key              ? BG_FOREIGN_BIP158
           : options->part                   ? BG_FOREIGN_PARQUET
                                             : 0;
}

static int filter_open_foreign(const char *path, const struct open_options *options,
                               enum key_form form, struct filter_file *file)
{
    struct filter_bytes all;
    char names[256];
    bg_errinfo why;
    uint8_t secret[BG_SECRET_BYTES];
    bg_foreign_options how;
    const int said = filter_said_format(options);
    int found = 1, code = filter_foreign_options(options, (bg_foreign_format)said, form,
                                                 secret, &how);
    if (code) {
        return code;
    }
    code = filter_slurp(path, &all);
    path = file->path;
    file->foreign_bytes = all.n;
    if (!code && said) {
        file->foreign = filter_read_foreign(said, &all, &how, &why);
        code = file->foreign ? CLI_OK : say_error(path, &why);
    } else if (!code) {
        file->foreign = filter_guess(&all, &how, names, &found);
        code = found == 1 ? CLI_OK
               : found == 0
                   ? filter_refuse_unknown(path, &all)
                   : say_refused("%s: matches several formats: %s; set --format", path,
                                 names);
    }
    if (code) {
        bg_foreign_free(file->foreign);
        file->foreign = NULL;
    }
    free(all.bytes);
    return code;
}

/* ---- Writing foreign filters ----------------------------------------------------------------- */

/* Returns the serialized filter, which the caller must free. On failure, reports the error, sets
 * *code, and returns NULL. */
static char *foreign_bytes(const bg_foreign *foreign, const char *path, size_t *n,
                           int *code)
{
    bg_errinfo why;
    if (bg_foreign_encode(foreign, NULL, 0, n, &why)) {
        *code = say_error(path, &why);
        return NULL;
    }
    char *bytes = malloc(*n ? *n : 1);
    if (!bytes) {
        *code = say_full("%s: cannot allocate %zu bytes", path, *n);
    } else if (bg_foreign_encode(foreign, bytes, *n, n, &why)) {
        *code = say_error(path, &why);
        free(bytes);
        bytes = NULL;
    }
    return bytes;
}

int foreign_save(const bg_foreign *foreign, const char *path)
{
    size_t n;
    int code = CLI_OK;
    char *bytes = foreign_bytes(foreign, path, &n, &code);
    if (bytes && spool_is_standard(path)) {
        code = out_write(bytes, n) ? (int)CLI_OK : out_code();
    } else if (bytes) {
        code = replace_file(path, bytes, n);
    }
    free(bytes);
    return code;
}

/* Returns whether a file consists of exactly the n bytes in `bytes`. */
static bool foreign_file_has(FILE *file, const char *bytes, size_t n)
{
    char piece[1 << 14];
    size_t got;
    while ((got = fread(piece, 1, sizeof piece, file)) > 0) {
        if (got > n || memcmp(piece, bytes, got) != 0) {
            return false;
        }
        bytes += got;
        n -= got;
    }
    return n == 0 && !ferror(file);
}

int foreign_is_alone(const bg_foreign *foreign, const char *path, bool *alone)
{
    size_t n;
    int code = CLI_OK;
    char *bytes = foreign_bytes(foreign, path, &n, &code);
    if (!bytes) {
        return code;
    }
    FILE *file = fopen(path, "rbe");
    *alone = file && foreign_file_has(file, bytes, n);
    if (file) {
        (void)fclose(file);
    }
    free(bytes);
    return CLI_OK;
}

bg_foreign_format foreign_format(const bg_foreign *foreign)
{
    bg_foreign_info about = { .struct_size = sizeof about };
    return bg_foreign_get_info(foreign, &about) ? (bg_foreign_format)0
                                                : (bg_foreign_format)about.format;
}

/* ---- Both ------------------------------------------------------------------------------------ */

bool filter_is_ours(const char *path, const struct open_options *options)
{
    return options->format == FORMAT_OURS
           || (options->format == FORMAT_AUTO && filter_looks_ours(path));
}

int filter_open(const char *path, const struct open_options *options, unsigned flags,
                enum key_form form, struct filter_file *file)
{
    struct stat about;
    *file = (struct filter_file){ .path = spool_name(path) };
    int code = spool_read(path);
    if (code) {
        return code;
    }
    if (stat(spool_path(path), &about) != 0) {
        return say_errno(path);
    }
    const bool ours = (flags & FILTER_OURS) != 0 || filter_is_ours(path, options);
    code = ours ? filter_open_ours(path, options, flags, file)
                : filter_open_foreign(path, options, form, file);
    if (code) {
        filter_close(file);
    }
    return code;
}

void filter_close(struct filter_file *file)
{
    bg_filter_free(file->filter);
    bg_foreign_free(file->foreign);
    bg_keyring_free(file->ring);
    file->filter = NULL;
    file->foreign = NULL;
    file->ring = NULL;
}

size_t filter_ask(const struct filter_file *file, const bg_bytes *keys, size_t n,
                  uint64_t *maybe)
{
    size_t found = 0;
    if (file->filter) {
        return bg_filter_may_contain_many(file->filter, bg_keys_bytes(keys, n), maybe);
    }
    memset(maybe, 0, BG_BITMAP_WORDS(n) * sizeof *maybe);
    for (size_t i = 0; i < n; i++) {
        const uint64_t is =
            bg_foreign_may_contain(file->foreign, keys[i].data, keys[i].len);
        maybe[i / 64] |= is << i % 64;
        found += is;
    }
    return found;
}

bg_health filter_health(const bg_filter_info *info)
{
    return info->rate > FILTER_RATE_USELESS ? BG_HEALTH_ACT : bg_filter_health(info);
}

bool filter_misses_rate(const bg_filter_info *info)
{
    bg_filter_info intact = *info;
    intact.degraded = false;
    return !info->overflowed && filter_health(&intact) != BG_HEALTH_FINE;
}

bool filter_rate_is_excessive(double rate, double requested)
{
    return rate > sqrt(requested);
}

int filter_refuse_excess(const struct filter_excess *excess, const char *more)
{
    return say_full("the filter would have a false-positive rate of %s, because it "
                    "was planned for %s key%s, and %s were read; increase --items to "
                    "the number of distinct keys%s",
                    RATE_OF_TEXT(excess->rate, excess->requested),
                    COUNT_TEXT(excess->items), excess->items == 1 ? "" : "s",
                    COUNT_TEXT(excess->keys), more);
}

const char *filter_show_rate(const bg_filter_info *info, char text[FILTER_RATE_TEXT])
{
    const char *rate = RATE_OF_TEXT(info->rate, info->design_rate);
    if (info->kind != BG_KIND_SCALABLE
        && bg_health_of_items(info->items, info->design_items) == BG_HEALTH_ACT) {
        (void)snprintf(text, FILTER_RATE_TEXT,
                       "holds more keys than its capacity of %s, so its false-positive "
                       "rate is %s",
                       COUNT_TEXT(info->design_items), rate);
    } else {
        (void)snprintf(text, FILTER_RATE_TEXT, "has a false-positive rate of %s%s",
                       rate,
                       info->rate > FILTER_RATE_USELESS
                           ? ", so it rules out less than half of the absent keys"
                           : "");
    }
    return text;
}

const char *filter_health_name(bg_health health)
{
    static const char *const names[] = { "fine", "watch", "act" };
    return names[health];
}

const char *filter_show_health(const bg_filter_info *info, char text[FILTER_RATE_TEXT])
{
    const bg_health health = filter_health(info);
    char why[FILTER_RATE_TEXT];
    const char *reason = info->degraded ? "damaged parts always answer \"maybe\""
                         : info->overflowed
                             ? "the filter overflowed, and every answer is \"maybe\""
                             : filter_show_rate(info, why);
    (void)snprintf(text, FILTER_RATE_TEXT, "%s%s%.*s", filter_health_name(health),
                   health ? ": " : "", health ? FILTER_RATE_TEXT - 16 : 0, reason);
    return text;
}

void filter_note_rate(const struct filter_file *file)
{
    enum { SAMPLE = 1 << 20 };
    bg_filter_info info = { .struct_size = sizeof info };
    if (!say_is_quiet() && file->filter
        && !bg_filter_sample_info(file->filter, SAMPLE, &info) && !info.degraded
        && filter_misses_rate(&info)) {
        say_note("%s: %s; build a larger filter", file->path,
                 filter_show_rate(&info, (char[FILTER_RATE_TEXT]){ "" }));
    }
}

/* Returns the keys starting at `from`. */
static bg_keys filter_rest(bg_keys keys, size_t from)
{
    const size_t n = keys.count - from;
    return keys.form == BG_KEYS_BYTES
               ? bg_keys_bytes((const bg_bytes *)keys.data + from, n)
               : bg_keys_hashes((const uint64_t *)keys.data + from, n);
}

/* Adds a copy of the first key to a full cuckoo filter that already contains the key. Such a copy
 * never makes the filter overflow. Returns false if the filter is of another kind or does not
 * contain the key. */
static bool filter_insert_copy(bg_filter *filter, bg_keys keys)
{
    const bg_bytes *key = keys.data;
    const uint64_t hash =
        keys.form == BG_KEYS_BYTES
            ? bg_hash_bytes(bg_filter_hasher(filter), key->data, key->len)
            : *(const uint64_t *)keys.data;
    return bg_filter_kind(filter) == BG_KIND_CUCKOO
           && bg_filter_may_contain_hash(filter, hash)
           && bg_filter_add_forced(filter, bg_keys_hashes(&hash, 1), NULL, NULL)
                  == BG_OK;
}

bg_err filter_insert(bg_filter *filter, bg_keys keys, size_t *done, size_t *news)
{
    *done = *news = 0;
    while (*done < keys.count) {
        size_t here = 0, added = 0;
        const bg_err err =
            bg_filter_add_many(filter, filter_rest(keys, *done), NULL, &here, &added);
        *done += here;
        *news += added;
        if (err
            && (err != BG_EFULL
                || !filter_insert_copy(filter, filter_rest(keys, *done)))) {
            return err;
        }
        *done += err ? 1 : 0;
    }
    return BG_OK;
}
