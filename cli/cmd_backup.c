/*
 * cmd_backup.c - bloomgate backup: copies all filters of a running service to a directory, and
 * checks backups.
 *
 * Rounds. A round lists all filters with their names and IDs (BG.LIST), and then dumps every filter
 * that has not been dumped under its name yet. A filter may be renamed, replaced or dropped after
 * it was listed. BG.DUMP therefore fails unless the name still has the listed ID, and another round
 * follows. The backup consists of the filters in the list of the last round, under the names in
 * that list:
 *
 *   (B1) A name that exists from the start to the end is in the last list. The list is read page by
 *        page, in the order of IDs. As long as a name exists, its ID increases with every change:
 *        a filter that replaces another one gets a new ID, higher than all others. So if the name
 *        was not on the pages read so far, its ID is on a later page. The exception is RENAME to a
 *        name that a newer filter has, which may move the name to a page that was already read.
 *        The service counts these renames. If the count changes while a list is read, another
 *        round follows.
 *   (B2) Each dump was taken after the start, while its filter had the name under which the backup
 *        contains it. So under each name, the backup contains what the service had under that name
 *        when the dump was taken. This includes every add acknowledged before the start, unless the
 *        filter that received the add lost the name. A dump is not reused after a rename: the
 *        filter may have received its keys after the dump, just before it took the name from
 *        another filter.
 *   (B3) A filter that exists from the start to the end is in every list, because a renamed filter
 *        keeps its ID. So it is in the backup, under a name that it had.
 *   (B4) No two filters have the same name: otherwise another round follows.
 *
 * Files. Filters are written to DIR.partial. When all files have been written, they are synced,
 * read again and compared with the checksums that the service computed. Then the manifest is
 * written, and DIR.partial is renamed to DIR. If anything fails, DIR.partial is removed. A backup
 * that was killed leaves DIR.partial behind, and the next backup to DIR replaces it, unless it
 * contains files that a backup does not write.
 *
 * Memory: one chunk of a filter, and the manifest.
 */
#include "backup_set.h"
#include "command.h"
#include "dump_stream.h"
#include "number.h"
#include "service_link.h"
#include "stop.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    BACKUP_ROUNDS = 100, /* maximum number of rounds */
    BACKUP_TRIES = 10    /* maximum number of dumps of one filter per round */
};

struct backup_options {
    struct common common;
    struct service_options service;
    bool verify;
};

#define OPT_STRUCT struct backup_options
static const struct option backup_table[] = {
    OPT_FLAG("verify", 0, verify, "check an existing backup instead of writing one"),
    OPT_END,
};

struct backup {
    struct service_link link;
    struct backup_set set;
    const char *dir;
    char partial[CLAIM_PATH];
    unsigned long files; /* number of the last file */
    bool again;          /* another round is necessary */
    uint64_t reversals;  /* according to the first page of the list (B1) */
    uint64_t hidden;     /* filters in the list that the user cannot read */
    char run[48]; /* run ID of the service; IDs of filters are unique within a run */
    uint64_t received;
    struct progress progress;
};

static uint64_t backup_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* ---- The service ----------------------------------------------------------------------------- */

static uint64_t backup_number(bg_bytes text)
{
    char digits[24] = "";
    memcpy(digits, text.data, text.len < 20 ? text.len : 20);
    return strtoull(digits, NULL, 10);
}

/* Records the version, run ID and state of the service. */
static int backup_read_info(struct backup *b)
{
    const bg_bytes words[] = { link_word("INFO"), link_word("all") };
    bg_bytes reply = { NULL, 0 };
    const int code = service_request(&b->link, words, 2, &reply);
    const struct reply_item item = code ? (struct reply_item){ 0 } : reply_first(reply);
    if (code || item.type != '$') {
        return code ? code : service_refused(b->link.how.nodes, item.text);
    }
    const bg_bytes version = service_field(item.text, "bloomgate_version"),
                   run = service_field(item.text, "run_id");
    (void)snprintf(b->run, sizeof b->run, "%.*s", (int)run.len, (const char *)run.data);
    (void)snprintf(b->set.version, sizeof b->set.version, "%.*s", (int)version.len,
                   (const char *)version.data);
    b->set.names_in_doubt =
        backup_number(service_field(item.text, "names_in_doubt")) != 0;
    return CLI_OK;
}

/* ---- Listing --------------------------------------------------------------------------------- */

/* Returns the filter with this ID, or NULL. */
static struct backup_filter *list_find(const struct backup_set *set, uint64_t id)
{
    for (size_t low = 0, high = set->count; low < high;) {
        const size_t middle = low + (high - low) / 2;
        if (set->filters[middle].id == id) {
            return &set->filters[middle];
        }
        if (set->filters[middle].id < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return NULL;
}

static int list_compare_names(const struct backup_filter *x,
                              const struct backup_filter *y)
{
    const size_t n = x->name_len < y->name_len ? x->name_len : y->name_len;
    const int order = memcmp(x->name, y->name, n);
    return order ? order : (x->name_len > y->name_len) - (x->name_len < y->name_len);
}

/* Appends a filter to the list. If it was dumped earlier under the same name, takes the dump from
 * `before` (B2). */
static bool list_add(struct backup *b, struct backup_set *before,
                     const struct reply_item item[4])
{
    struct backup_filter *f =
        backup_append(&b->set, item[1].text.data, item[1].text.len);
    struct backup_filter *old = f ? list_find(before, (uint64_t)item[0].number) : NULL;
    if (!f) {
        return false;
    }
    f->id = (uint64_t)item[0].number;
    f->expires = (uint64_t)item[2].number;
    (void)snprintf(f->state, sizeof f->state, "%.*s", (int)item[3].text.len,
                   (const char *)item[3].text.data);
    if (old && old->description && backup_is_complete(f)
        && list_compare_names(f, old) == 0) {
        memcpy(f->file, old->file, sizeof f->file);
        f->description = old->description;
        f->bytes = old->bytes;
        f->checksum = old->checksum;
        old->description = NULL;
    }
    return true;
}

static int list_invalid(const struct backup *b)
{
    return say_data("%s: BG.LIST: invalid reply", b->link.how.nodes);
}

/* Handles a reply: the next cursor, a list of filters, the number of renames that moved a name to
 * an older filter, and the number of filters that the user cannot read. */
static int list_page(struct backup *b, struct backup_set *before, bg_bytes reply,
                     char cursor[24])
{
    size_t at = 0;
    const bool first = strcmp(cursor, "0") == 0;
    const struct reply_item top = reply_next(reply, &at);
    if (top.type == '-') {
        return reply_begins(top.text, "ERR")
                   ? say_data("%s: the service is too old: it has no BG.LIST command",
                              b->link.how.nodes)
                   : service_refused(b->link.how.nodes, top.text);
    }
    const struct reply_item next = reply_next(reply, &at),
                            list = reply_next(reply, &at);
    if (top.type != '*' || next.type != '$' || next.text.len > 20 || list.type != '*') {
        return list_invalid(b);
    }
    memcpy(cursor, next.text.data, next.text.len);
    cursor[next.text.len] = 0;
    for (int64_t i = 0; i < list.number; i++) {
        const struct reply_item entry = reply_next(reply, &at);
        struct reply_item item[4];
        for (size_t j = 0; j < 4; j++) {
            item[j] = reply_next(reply, &at);
        }
        if (entry.type != '*' || entry.number != 4 || item[0].type != ':'
            || item[1].type != '$' || item[2].type != ':' || item[3].type != '$') {
            return list_invalid(b);
        }
        if (!list_add(b, before, item)) {
            return say_full("out of memory");
        }
    }
    const struct reply_item reversals = reply_next(reply, &at),
                            hidden = reply_next(reply, &at);
    if (reversals.type != ':' || hidden.type != ':') {
        return list_invalid(b);
    }
    b->hidden = (first ? 0 : b->hidden) + (uint64_t)hidden.number;
    b->reversals = first ? (uint64_t)reversals.number : b->reversals;
    b->again = b->again || b->reversals != (uint64_t)reversals.number; /* (B1) */
    return CLI_OK;
}

static int list_compare(const void *a, const void *b)
{
    return list_compare_names(*(struct backup_filter *const *)a,
                              *(struct backup_filter *const *)b);
}

/* Requests another round if two filters in the list have the same name (B4). This happens if a
 * filter was renamed while the list was being read. */
static int list_check_names(struct backup *b)
{
    const size_t n = b->set.count;
    const struct backup_filter **sorted =
        calloc(n + 1, sizeof *sorted); /* NOLINT(bugprone-sizeof-expression) */
    if (!sorted) {
        return say_full("out of memory");
    }
    for (size_t i = 0; i < n; i++) {
        sorted[i] = &b->set.filters[i];
    }
    /* NOLINTNEXTLINE(bugprone-sizeof-expression): the array contains pointers */
    qsort(sorted, n, sizeof *sorted, list_compare);
    for (size_t i = 1; i < n; i++) {
        b->again = b->again || list_compare(&sorted[i - 1], &sorted[i]) == 0;
    }
    free(sorted);
    return CLI_OK;
}

/* Removes the files of filters that are not in the new list. */
static void list_drop(const struct backup *b, const struct backup_set *before)
{
    char path[CLAIM_PATH];
    for (size_t i = 0; i < before->count; i++) {
        const struct backup_filter *old = &before->filters[i];
        if (old->description && !backup_path(b->partial, old->file, path)) {
            (void)unlink(path);
        }
    }
}

/* Reads the list once. Sets *restarted to true if the service has been restarted since the previous
 * list. IDs may then have been reused, so all filters must be dumped again. */
static int list_read_once(struct backup *b, bool *restarted)
{
    struct backup_set before = b->set;
    char cursor[24] = "0", run[sizeof b->run];
    int code = CLI_OK;
    b->set.filters = NULL;
    b->set.count = b->set.room = 0;
    memcpy(run, b->run, sizeof run);
    do {
        const bg_bytes words[] = { link_word("BG.LIST"), link_word(cursor),
                                   link_word("COUNT"), link_word("1000") };
        bg_bytes reply = { NULL, 0 };
        code = service_request(&b->link, words, 4, &reply);
        code = code ? code : list_page(b, &before, reply, cursor);
    } while (!code && strcmp(cursor, "0") != 0);
    code = code ? code : backup_read_info(b);
    *restarted = !code && strcmp(run, b->run) != 0;
    if (*restarted) {
        struct backup_set listed = b->set;
        b->set.filters = NULL;
        b->set.count = b->set.room = 0;
        list_drop(b, &listed);
        backup_free(&listed);
    }
    list_drop(b, &before);
    backup_free(&before);
    return code || *restarted ? code : list_check_names(b);
}

static int list_read(struct backup *b)
{
    bool restarted = true;
    int code = CLI_OK;
    for (int i = 0; !code && restarted; i++) {
        code = i < BACKUP_ROUNDS ? list_read_once(b, &restarted)
                                 : say_data("%s: the service keeps restarting; check "
                                            "its log",
                                            b->link.how.nodes);
    }
    return code;
}

/* ---- Dumping --------------------------------------------------------------------------------- */

enum dump_result {
    DUMP_MORE,
    DUMP_DONE,
    DUMP_RESTART, /* another client started a dump of the filter, or the service freed its copy */
    DUMP_MOVED, /* the name no longer has this ID, or the content is now unknown */
    DUMP_FAILED
};

/* A filter that is being dumped. */
struct dump_state {
    struct backup_filter *filter;
    int fd;
    int code; /* exit code of DUMP_FAILED */
    char path[CLAIM_PATH];
    uint64_t cursor, used, total; /* bytes of the stream */
    char line[DUMP_LINE_MAX + 1]; /* the start of the stream */
    size_t lined;
    bool whole_line;
};

static bool dump_write_all(int fd, const uint8_t *bytes, size_t n)
{
    while (n > 0) {
        const ssize_t done = write(fd, bytes, n);
        if (done < 0 && (errno != EINTR || stop_wanted())) {
            return false;
        }
        bytes += done > 0 ? done : 0;
        n -= done > 0 ? (size_t)done : 0;
    }
    return true;
}

/* Handles the bytes of a chunk. The description ends with the first newline. */
static enum dump_result dump_put(struct dump_state *d, const uint8_t *bytes, size_t n)
{
    size_t at = 0;
    while (!d->whole_line && at < n) {
        if (d->lined == DUMP_LINE_MAX) {
            d->code = say_data("%s: the dump does not start with a description",
                               BACKUP_NAME_TEXT(d->filter));
            return DUMP_FAILED;
        }
        d->line[d->lined++] = (char)bytes[at];
        d->whole_line = bytes[at++] == '\n';
    }
    if (!dump_write_all(d->fd, bytes + at, n - at)) {
        d->code = stop_wanted() ? (int)CLI_INTERRUPTED : say_errno(d->path);
        return DUMP_FAILED;
    }
    d->filter->bytes += n - at;
    return DUMP_MORE;
}

static enum dump_result dump_error(struct dump_state *d, bg_bytes text)
{
    if (reply_begins(text, "NOFILTER")
        || reply_begins(text, "ERR the filter is not available:")) {
        return DUMP_MOVED;
    }
    if (d->cursor > 0) {
        return DUMP_RESTART;
    }
    d->code = service_refused(BACKUP_NAME_TEXT(d->filter), text);
    return DUMP_FAILED;
}

/* Handles a reply: a cursor and a chunk. The last reply has cursor 0. */
static enum dump_result dump_reply(struct dump_state *d, bg_bytes reply)
{
    size_t at = 0;
    struct dump_chunk chunk;
    bg_errinfo why;
    const struct reply_item list = reply_next(reply, &at);
    if (list.type == '-') {
        return dump_error(d, list.text);
    }
    const struct reply_item cursor = reply_next(reply, &at),
                            data = reply_next(reply, &at);
    if (list.type != '*' || cursor.type != ':' || data.type != '$') {
        d->code = say_data("%s: BG.DUMP: invalid reply", BACKUP_NAME_TEXT(d->filter));
        return DUMP_FAILED;
    }
    if (dump_chunk_read(data.text, &chunk, &why)) {
        d->code = say_error(BACKUP_NAME_TEXT(d->filter), &why);
        return DUMP_FAILED;
    }
    if (chunk.offset == 0) {
        d->filter->checksum = chunk.stream;
        d->total = chunk.total;
    }
    if (chunk.offset != d->used || chunk.stream != d->filter->checksum) {
        return DUMP_RESTART;
    }
    const enum dump_result result = dump_put(d, chunk.bytes, chunk.n);
    d->used += chunk.n;
    d->cursor = (uint64_t)cursor.number;
    return result != DUMP_MORE || d->cursor       ? result
           : d->used == d->total && d->whole_line ? DUMP_DONE
                                                  : DUMP_RESTART;
}

static enum dump_result dump_stream(struct backup *b, struct dump_state *d)
{
    enum dump_result result = DUMP_MORE;
    char cursor[24], id[24];
    (void)snprintf(id, sizeof id, "%" PRIu64, d->filter->id);
    while (result == DUMP_MORE) {
        (void)snprintf(cursor, sizeof cursor, "%" PRIu64, d->cursor);
        const bg_bytes words[] = { link_word("BG.DUMP"),
                                   { d->filter->name, d->filter->name_len },
                                   link_word(cursor),
                                   link_word("ID"),
                                   link_word(id) };
        bg_bytes reply = { NULL, 0 };
        d->code = service_request(&b->link, words, 5, &reply);
        result = d->code ? DUMP_FAILED : dump_reply(d, reply);
        progress_tick(&b->progress, b->received + d->used, 0);
    }
    return result;
}

/* Names the file of a completely dumped filter. The description determines the suffix. */
static int dump_name_file(struct backup *b, struct dump_state *d)
{
    char path[CLAIM_PATH];
    struct dump_line line;
    size_t used = 0;
    bg_errinfo why;
    struct backup_filter *f = d->filter;
    d->line[d->lined] = 0;
    if (dump_line_read((const uint8_t *)d->line, d->lined, &line, &used, &why)) {
        return say_error(BACKUP_NAME_TEXT(f), &why);
    }
    f->description = strdup(d->line);
    if (!f->description) {
        return say_full("out of memory");
    }
    (void)snprintf(f->file, sizeof f->file, "%06lu.%s", b->files,
                   line.shape.foreign ? "foreign" : "bg");
    const int code = backup_path(b->partial, f->file, path);
    return code || rename(d->path, path) == 0 ? code : say_errno(path);
}

static int dump_try(struct backup *b, struct backup_filter *filter,
                    enum dump_result *result)
{
    struct dump_state d = { .filter = filter };
    int code = backup_path(b->partial, "next", d.path);
    if (code) {
        return code;
    }
    filter->bytes = 0;
    d.fd = open(d.path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (d.fd < 0) {
        return say_errno(d.path);
    }
    *result = dump_stream(b, &d);
    b->received += d.used;
    code = close(d.fd) == 0 || d.code ? d.code : say_errno(d.path);
    if (*result != DUMP_DONE) {
        (void)unlink(d.path);
    } else if (!code) {
        b->files++;
        code = dump_name_file(b, &d);
    }
    return code;
}

static int dump_filter(struct backup *b, struct backup_filter *filter)
{
    enum dump_result result = DUMP_RESTART;
    int code = CLI_OK;
    for (int i = 0; !code && result == DUMP_RESTART; i++) {
        if (i == BACKUP_TRIES) {
            return say_data("%s: cannot dump the filter, because another client keeps "
                            "starting dumps of it; run the command again",
                            BACKUP_NAME_TEXT(filter));
        }
        code = dump_try(b, filter, &result);
    }
    b->again = b->again || result == DUMP_MOVED;
    return code;
}

/* Runs rounds until a list is complete and all listed filters have been dumped. */
static int dump_rounds(struct backup *b)
{
    int code = CLI_OK;
    b->again = true;
    for (int round = 0; !code && b->again; round++) {
        if (round == BACKUP_ROUNDS) {
            return say_data(
                "%s: clients rename or replace filters faster than the backup can "
                "copy them; run the command again",
                b->link.how.nodes);
        }
        b->again = false;
        code = list_read(b);
        for (size_t i = 0; !code && i < b->set.count; i++) {
            struct backup_filter *filter = &b->set.filters[i];
            if (backup_is_complete(filter) && !filter->description) {
                code = dump_filter(b, filter);
            }
        }
    }
    return code;
}

/* ---- The directory --------------------------------------------------------------------------- */

/* Returns whether a name is that of the manifest, or of its temporary file (replace_file.c). */
static bool partial_is_manifest(const char *name)
{
    const size_t n = strlen(BACKUP_MANIFEST);
    if (strncmp(name, BACKUP_MANIFEST, n) != 0) {
        return false;
    }
    const size_t digits = name[n] == '.' ? strspn(name + n + 1, "0123456789") : 0;
    return !name[n] || (digits && strcmp(name + n + 1 + digits, ".tmp") == 0);
}

/* Returns whether an entry of the directory is a file that a backup writes. */
static bool partial_owns(int dir, const char *name)
{
    struct stat about;
    return (backup_is_file_name(name) || strcmp(name, "next") == 0
            || partial_is_manifest(name))
           && fstatat(dir, name, &about, AT_SYMLINK_NOFOLLOW) == 0
           && S_ISREG(about.st_mode);
}

/* Checks that a backup has written all files in DIR.partial, or removes these files. */
static int partial_visit(const struct backup *b, DIR *dir, bool removes)
{
    const struct dirent *entry = NULL;
    rewinddir(dir);
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the stream is used by one thread */
    while ((entry = readdir(dir))) {
        const char *name = entry->d_name;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
            continue;
        }
        if (!partial_owns(dirfd(dir), name)) {
            return say_refused("%s: contains '%s', which is not part of a backup; move "
                               "or delete this directory",
                               b->partial, name);
        }
        if (removes && unlinkat(dirfd(dir), name, 0) != 0) {
            return say_errno(b->partial);
        }
    }
    return CLI_OK;
}

/* Removes DIR.partial, if it exists. Removes nothing if it contains anything that is not a file of
 * a backup. */
static int partial_remove(const struct backup *b)
{
    const int fd = open(b->partial, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        return errno == ENOENT ? CLI_OK : say_errno(b->partial);
    }
    DIR *dir = fdopendir(fd);
    if (!dir) {
        (void)close(fd);
        return say_full("out of memory");
    }
    int code = partial_visit(b, dir, false);
    code = code ? code : partial_visit(b, dir, true);
    (void)closedir(dir);
    return code || rmdir(b->partial) == 0 ? code : say_errno(b->partial);
}

static int partial_create(struct backup *b, const char *dir)
{
    struct stat about;
    size_t n = strlen(dir);
    while (n > 1 && dir[n - 1] == '/') {
        n--;
    }
    if (n + sizeof ".partial" > sizeof b->partial) {
        return say_refused("%s: path is too long", dir);
    }
    (void)snprintf(b->partial, sizeof b->partial, "%.*s.partial", (int)n, dir);
    if (lstat(dir, &about) == 0) {
        return say_refused("%s already exists: choose a new directory for each backup",
                           dir);
    }
    int code = claim_file(b->partial);
    /* The directory may have been left behind by a backup that was killed. */
    code = code ? code : partial_remove(b);
    return code || mkdir(b->partial, 0700) == 0 ? code : say_errno(b->partial);
}

static int partial_sync(const char *path)
{
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool synced = fd >= 0 && syncfs(fd) == 0;
    const int code = synced ? CLI_OK : say_errno(path);
    if (fd >= 0) {
        (void)close(fd);
    }
    return code;
}

/* Checks all files, writes the manifest, and gives the directory its final name. */
static int partial_finish(struct backup *b)
{
    int code = partial_sync(b->partial);
    for (size_t i = 0; !code && i < b->set.count; i++) {
        struct backup_filter *filter = &b->set.filters[i];
        if (backup_is_complete(filter)) {
            code = backup_check(b->partial, filter, &b->progress);
        }
    }
    b->set.finished = backup_now();
    code = code ? code : backup_write_manifest(b->partial, &b->set);
    if (!code && stop_wanted()) {
        return CLI_INTERRUPTED;
    }
    if (!code
        && renameat2(AT_FDCWD, b->partial, AT_FDCWD, b->dir, RENAME_NOREPLACE) != 0) {
        code = say_errno(b->dir);
    }
    return code ? code : partial_sync(b->dir);
}

/* ---- Command --------------------------------------------------------------------------------- */

/* Warns about filters that are missing from the backup, and prints a summary. Returns an exit
 * code. */
static int backup_report(const struct backup *b)
{
    size_t unknown = 0;
    for (size_t i = 0; i < b->set.count; i++) {
        const struct backup_filter *f = &b->set.filters[i];
        if (!backup_is_complete(f)) {
            unknown++;
            say_warning(
                "%s: the content of this filter is unknown to the service (%s), "
                "so the backup contains only its name",
                BACKUP_NAME_TEXT(f), f->state);
        }
    }
    if (b->set.names_in_doubt) {
        say_warning(
            "%s: the service lost part of its journal, so filters may be missing "
            "from the backup",
            b->set.service);
    }
    if (b->hidden) {
        say_warning(
            "the user can read only %s of %s filters; the others are not in the "
            "backup",
            COUNT_TEXT(b->set.count), COUNT_TEXT(b->set.count + b->hidden));
    }
    say_note("%s: %s filter%s, %s, verified, in %s", b->dir, COUNT_TEXT(b->set.count),
             b->set.count == 1 ? "" : "s", BYTES_TEXT(backup_bytes(&b->set)),
             SECONDS_TEXT(progress_seconds(&b->progress)));
    return unknown || b->hidden ? CLI_NO : CLI_OK;
}

static int backup_run(const struct backup_options *o, const char *dir)
{
    static struct backup b;
    b.dir = dir;
    int code = service_open(&o->service, &b.link);
    code = code ? code : backup_read_info(&b);
    code = code ? code : partial_create(&b, dir);
    if (!code) {
        (void)snprintf(b.set.service, sizeof b.set.service, "%s", o->service.service);
        b.set.started = backup_now();
        progress_begin(&b.progress, "copying");
        code = dump_rounds(&b);
        code = code ? code : partial_finish(&b);
        progress_end(&b.progress);
        if (code) {
            (void)partial_remove(&b);
        }
    }
    code = code ? code : backup_report(&b);
    service_close(&b.link);
    backup_free(&b.set);
    return code;
}

static int backup_verify(const char *dir)
{
    struct backup_set set;
    struct progress progress;
    int code = backup_read_manifest(dir, &set);
    progress_begin(&progress, "verifying");
    for (size_t i = 0; i < set.count; i++) { /* reports all damaged files */
        struct backup_filter *f = &set.filters[i];
        const int checked = backup_is_complete(f) ? backup_check(dir, f, &progress) : 0;
        code = checked > code ? checked : code;
    }
    progress_end(&progress);
    if (!code) {
        say_note("%s: intact: %s filter%s, %s", dir, COUNT_TEXT(set.count),
                 set.count == 1 ? "" : "s", BYTES_TEXT(backup_bytes(&set)));
    }
    backup_free(&set);
    return code;
}

static int backup_command(void *options, const struct arguments *arguments)
{
    const struct backup_options *o = options;
    const char *dir = arguments->items[0];
    if (o->verify && o->service.service) {
        return say_usage("--verify checks a directory and does not use --service");
    }
    return o->verify ? backup_verify(dir) : backup_run(o, dir);
}

const struct command command_backup = {
    .name = "backup",
    .summary = "copy all filters of a running service to a directory",
    .usage = "[options] --service HOST:PORT DIR",
    .about =
        "Copies every filter that the user can read, with its name, settings and "
        "expiry, while clients read and write. DIR must not exist. It appears when "
        "the backup is complete and verified; until then, the files are in "
        "DIR.partial, which is removed if the command fails or is "
        "interrupted.\n\nEvery filter that exists throughout the backup is in it, "
        "even if it is renamed in the meantime, and has every key whose add was "
        "acknowledged before the start. Every name that exists throughout is in it as "
        "well, with the content that it had at some point during the backup. Keys and "
        "filters added during the backup may be missing.\n\nA copy of the largest "
        "filter must fit into the service's maxmemory. The service's configuration, "
        "users, gates and keyring are not in the backup. Back up the keyring "
        "separately: filters with a keyed hash cannot be restored without it.\n\nDIR "
        "contains a filter file per filter, which other subcommands can read, and "
        "manifest.jsonl with names, checksums and digests. --verify DIR checks all of "
        "them. If the user cannot read all filters, or the content of a filter is "
        "unknown to the service, because it is damaged or its secret is missing, the "
        "backup contains the others, and the exit code is 1.\n\nPasswords cannot be "
        "passed as arguments: use BLOOMGATE_PASSWORD or --password-file.",
    .size = sizeof(struct backup_options),
    .arguments = { 1, 1, "expected a directory" },
    .uses = { { &service_options_group, offsetof(struct backup_options, service) },
              { &login_options_group, offsetof(struct backup_options, service.login) },
              OPT_GROUP("Backup", backup_table) },
    .examples = { { "bloomgate backup --service localhost:6420 /backup/2027-01-31",
                    "back up a service" },
                  { "bloomgate backup --verify /backup/2027-01-31",
                    "check a backup" } },
    .run = backup_command,
};
