/*
 * cmd_restore.c - bloomgate restore: loads a backup into a running service.
 *
 * Before anything is changed, the manifest is read, and the names are compared with those in the
 * service. A filter that exists is an error, unless an option selects what happens to it.
 *
 * Each filter is loaded under a temporary name, NAME.restore-XXXXXXXX (of a very long name, only
 * the start is used), and then renamed to its own name atomically:
 *
 *     check the file    BG.LOAD ...    PEXPIREAT    BG.DIGEST    RENAMENX or RENAME
 *
 * No client uses the temporary name, so the digest must match. Until the last step, the service
 * answers as before. If a step fails, the temporary filter is dropped. The client repeats requests
 * whose replies are lost, for example because the service was restarted. A restart also discards
 * the loaded chunks, so the filter is loaded again.
 *
 * A filter whose content was unknown when the backup was created is restored with unknown content:
 * it answers "maybe" to every query. If it were not restored, queries would return "no". It is
 * created by loading only the first byte of a dump.
 */
#include "backup_set.h"
#include "command.h"
#include "dump_stream.h"
#include "number.h"
#include "service_link.h"
#include "stop.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

enum {
    RESTORE_CHUNK = 1 << 20,
    RESTORE_TRIES = 5, /* maximum number of loads of one filter */
    RESTORE_SUFFIX = 24
};

struct restore_options {
    struct common common;
    struct service_options service;
    bool replace, skip;
};

#define OPT_STRUCT struct restore_options
static const struct option restore_table[] = {
    OPT_FLAG("replace", 0, replace, "replace filters that exist in the service"),
    OPT_FLAG("skip-existing", 0, skip, "keep filters that exist in the service"),
    OPT_END,
};

struct restore {
    const struct restore_options *options;
    struct service_link link;
    struct backup_set set;
    const char *dir;
    char suffix[RESTORE_SUFFIX]; /* of temporary names */
    bg_bytes temporary;          /* temporary name of the current filter */
    char *name;                  /* memory for `temporary` */
    bool *chosen;
    size_t restored, unknown, expired, kept, failed;
    uint64_t sent;
    struct progress progress;
};

/* ---- Requests -------------------------------------------------------------------------------- */

/* Sends a request and returns the first item of the reply. */
static int restore_request(struct restore *r, const bg_bytes *words, size_t n,
                           struct reply_item *item)
{
    bg_bytes reply = { NULL, 0 };
    const int code = service_request(&r->link, words, n, &reply);
    if (!code) {
        *item = reply_first(reply);
    }
    return code;
}

static int restore_refused(struct backup_filter *filter, bg_bytes text)
{
    /* This reply consists of the library's message, which contains no names of filters. */
    if (reply_begins(text, "ERR received bad data:")
        && memmem(text.data, text.len, "secret", strlen("secret"))) {
        return say_data("%s: %.*s; restore the keyring of the original service first",
                        BACKUP_NAME_TEXT(filter), (int)text.len,
                        (const char *)text.data);
    }
    return service_refused(BACKUP_NAME_TEXT(filter), text);
}

static void restore_drop(struct restore *r, const struct backup_filter *filter)
{
    const bg_bytes words[] = { link_word("DEL"), r->temporary };
    struct reply_item item = { 0 };
    /* After a signal, requests on this connection are canceled, so open another one. */
    if (r->temporary.len
        && ((stop_wanted() && service_reopen(&r->link) != CLI_OK)
            || restore_request(r, words, 2, &item) || item.type == '-')) {
        say_warning("the filter %s%s may remain in the service; drop it",
                    BACKUP_NAME_TEXT(filter), r->suffix);
    }
    r->temporary.len = 0;
}

/* ---- Loading --------------------------------------------------------------------------------- */

/* The stream of a dump: the description, followed by the file. */
struct restore_stream {
    const struct backup_filter *filter;
    int fd;
    size_t described; /* bytes of the description that were read */
};

static ssize_t stream_read(struct restore_stream *s, uint8_t *to, size_t n)
{
    const size_t length = strlen(s->filter->description);
    size_t done = length - s->described < n ? length - s->described : n;
    memcpy(to, s->filter->description + s->described, done);
    s->described += done;
    while (done < n) {
        const ssize_t got = read(s->fd, to + done, n - done);
        if (got < 0 && errno != EINTR) {
            return -1;
        }
        if (got == 0 || stop_wanted()) {
            break;
        }
        done += got > 0 ? (size_t)got : 0;
    }
    return (ssize_t)done;
}

static int load_claim_name(struct restore *r, bool *again)
{
    const bg_bytes words[] = { link_word("DEL"), r->temporary };
    struct reply_item item;
    *again = true;
    return restore_request(r, words, 2, &item);
}

static int load_send(struct restore *r, struct backup_filter *filter,
                     const struct dump_chunk *chunk, uint8_t *room, bool *again)
{
    struct reply_item item = { 0 };
    dump_chunk_write(chunk, room);
    const bg_bytes words[] = { link_word("BG.LOAD"),
                               r->temporary,
                               { room, DUMP_HEADER + chunk->n } };
    const int code = restore_request(r, words, 3, &item);
    if (code || item.type != '-') {
        return code;
    }
    /* The last chunk was repeated after its reply was lost; the digest is compared later. */
    if (reply_begins(item.text, "ERR item")
        && chunk->offset + chunk->n == chunk->total) {
        return CLI_OK;
    }
    /* The service lost part of its journal, so every unused name is in doubt (docs/journal.md).
     * No lost filter had the temporary name. DEL makes it available. */
    if (reply_begins(item.text, "MISCONF the journal was damaged, and")) {
        return load_claim_name(r, again);
    }
    /* The service was restarted, and has lost the previous chunks. */
    *again = chunk->offset > 0
             && (reply_begins(item.text, "ERR no load of this filter is in progress:")
                 || reply_begins(item.text, "ERR this chunk does not follow")
                 || reply_begins(item.text, "NOFILTER"));
    return *again ? CLI_OK : restore_refused(filter, item.text);
}

static int load_chunks(struct restore *r, struct backup_filter *filter, int fd,
                       bool *again)
{
    struct restore_stream stream = { .filter = filter, .fd = fd };
    const uint64_t total = strlen(filter->description) + filter->bytes;
    uint8_t *bytes = malloc(RESTORE_CHUNK), *room = malloc(DUMP_HEADER + RESTORE_CHUNK);
    int code = bytes && room ? CLI_OK : say_full("out of memory");
    *again = false;
    for (uint64_t at = 0; !code && !*again && at < total;) {
        const uint64_t left = total - at;
        const ssize_t n =
            stream_read(&stream, bytes, left < RESTORE_CHUNK ? left : RESTORE_CHUNK);
        if (n <= 0) {
            code = n < 0 ? say_errno(filter->file)
                   : stop_wanted()
                       ? (int)CLI_INTERRUPTED
                       : say_data("%s: the file is too short", filter->file);
            break;
        }
        const struct dump_chunk chunk = { .stream = filter->checksum,
                                          .offset = at,
                                          .total = total,
                                          .bytes = bytes,
                                          .n = (size_t)n };
        code = load_send(r, filter, &chunk, room, again);
        at += chunk.n;
        progress_tick(&r->progress, r->sent + at, backup_bytes(&r->set));
    }
    r->sent += total;
    free(bytes);
    free(room);
    return code;
}

static int load_file(struct restore *r, struct backup_filter *filter)
{
    char path[CLAIM_PATH];
    const char *damage = NULL;
    bool again = true;
    int code = backup_check(r->dir, filter, &r->progress);
    code = code ? code : backup_path(r->dir, filter->file, path);
    for (int i = 0; !code && again; i++) {
        const int fd = backup_open(path, &damage);
        if (fd < 0) {
            return damage ? say_data("%s: %s", path, damage) : say_errno(path);
        }
        code = i == RESTORE_TRIES ? say_data(
                   "%s: the service repeatedly lost the loaded chunks; check its "
                   "log",
                   BACKUP_NAME_TEXT(filter))
                                  : load_chunks(r, filter, fd, &again);
        (void)close(fd);
    }
    return code;
}

/* Creates a filter with unknown content: loads the first byte of a dump that does not end. */
static int load_unknown(struct restore *r, struct backup_filter *filter)
{
    uint8_t room[DUMP_HEADER + 1];
    bool again = true;
    int code = CLI_OK;
    const struct dump_chunk chunk = { .total = 2,
                                      .bytes = (const uint8_t *)"b",
                                      .n = 1 };
    for (int i = 0; !code && again && i < RESTORE_TRIES; i++) {
        again = false;
        code = load_send(r, filter, &chunk, room, &again);
    }
    return code || !again ? code
                          : say_data("%s: the service does not accept the filter",
                                     BACKUP_NAME_TEXT(filter));
}

/* ---- One filter ------------------------------------------------------------------------------ */

static int one_expire(struct restore *r, struct backup_filter *filter)
{
    char when[24];
    struct reply_item item = { 0 };
    (void)snprintf(when, sizeof when, "%" PRIu64, filter->expires);
    const bg_bytes words[] = { link_word("PEXPIREAT"), r->temporary, link_word(when) };
    const int code = filter->expires ? restore_request(r, words, 3, &item) : CLI_OK;
    return !code && item.type == '-' ? restore_refused(filter, item.text) : code;
}

static int one_compare(struct restore *r, struct backup_filter *filter, bg_bytes name)
{
    const bg_bytes words[] = { link_word("BG.DIGEST"), name };
    struct reply_item item = { 0 };
    const int code = restore_request(r, words, 2, &item);
    if (code || item.type == '-') {
        return code ? code : restore_refused(filter, item.text);
    }
    return item.text.len == strlen(filter->digest)
                   && memcmp(item.text.data, filter->digest, item.text.len) == 0
               ? CLI_OK
               : say_data(
                   "%s: the digest of the loaded filter does not match the backup",
                   BACKUP_NAME_TEXT(filter));
}

static int one_exists(struct restore *r, const struct backup_filter *filter,
                      bool *there)
{
    const bg_bytes words[] = { link_word("EXISTS"),
                               { filter->name, filter->name_len } };
    struct reply_item item = { 0 };
    const int code = restore_request(r, words, 2, &item);
    *there = item.type == ':' && item.number > 0;
    return code || item.type != '-'
               ? code
               : service_refused(BACKUP_NAME_TEXT(filter), item.text);
}

/* Gives the filter its name. Sets *taken if a client has created a filter with this name. */
static int one_rename(struct restore *r, struct backup_filter *filter, bool *taken)
{
    const bg_bytes name = { filter->name, filter->name_len };
    const bool replace = r->options->replace;
    bg_bytes words[] = { link_word(replace ? "RENAME" : "RENAMENX"), r->temporary,
                         name };
    struct reply_item item = { 0 };
    int code = restore_request(r, words, 3, &item);
    *taken = false;
    /* A name in doubt (docs/journal.md) is not in use, but only a load may create a filter under
     * it. RENAMENX does not recognize this rename as part of a load, so RENAME is used instead. */
    if (!code && item.type == '-' && reply_begins(item.text, "MISCONF") && !replace) {
        code = one_exists(r, filter, taken);
        if (!code && !*taken) {
            words[0] = link_word("RENAME");
            code = restore_request(r, words, 3, &item);
        }
    }
    *taken = *taken || (item.type == ':' && item.number == 0);
    if (code || *taken || item.type != '-') {
        return code;
    }
    if (!reply_begins(item.text, "ERR no such key")) {
        return restore_refused(filter, item.text);
    }
    /* Either the reply to the rename was lost, and the rename was repeated, or a client has deleted
     * the temporary filter. */
    bool there = false;
    code = one_exists(r, filter, &there);
    if (!code && !there) {
        return say_data("%s: a client deleted the filter while it was being restored",
                        BACKUP_NAME_TEXT(filter));
    }
    return code || !backup_is_complete(filter) ? code : one_compare(r, filter, name);
}

static int one_name(struct restore *r, const struct backup_filter *filter)
{
    const size_t n = strlen(r->suffix), most = BACKUP_NAME - n;
    const size_t base = filter->name_len < most ? filter->name_len : most;
    char *name = realloc(r->name, base + n);
    if (!name) {
        return say_full("out of memory");
    }
    memcpy(name, filter->name, base);
    memcpy(name + base, r->suffix, n);
    r->name = name;
    r->temporary = (bg_bytes){ name, base + n };
    return CLI_OK;
}

static int one_restore(struct restore *r, struct backup_filter *filter)
{
    const bool complete = backup_is_complete(filter);
    bool taken = false;
    int code = one_name(r, filter);
    code = code ? code : complete ? load_file(r, filter) : load_unknown(r, filter);
    code = code ? code : one_expire(r, filter);
    code = code || !complete ? code : one_compare(r, filter, r->temporary);
    code = code ? code : one_rename(r, filter, &taken);
    if (!code && taken) {
        code = say_failed(CLI_NO,
                          "%s: a client has created a filter with this name; "
                          "use --replace or --skip-existing",
                          BACKUP_NAME_TEXT(filter));
    }
    if (code) {
        restore_drop(r, filter);
    } else {
        r->restored += complete;
        r->unknown += !complete;
    }
    return code;
}

/* ---- All filters ----------------------------------------------------------------------------- */

static bool restore_is_named(const struct backup_filter *f, const char *name)
{
    return f->name_len == strlen(name) && memcmp(f->name, name, f->name_len) == 0;
}

/* Selects the named filters, or all of them. */
static int restore_choose(struct restore *r, const struct arguments *arguments)
{
    r->chosen = calloc(r->set.count + 1, sizeof *r->chosen);
    if (!r->chosen) {
        return say_full("out of memory");
    }
    memset(r->chosen, arguments->count == 1, r->set.count);
    for (size_t i = 1; i < arguments->count; i++) {
        bool found = false;
        for (size_t f = 0; f < r->set.count; f++) {
            if (restore_is_named(&r->set.filters[f], arguments->items[i])) {
                found = r->chosen[f] = true;
            }
        }
        if (!found) {
            return say_data("%s: the backup contains no filter '%s'", r->dir,
                            arguments->items[i]);
        }
    }
    return CLI_OK;
}

static uint64_t restore_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Deselects a filter that has expired. */
static void restore_skip_expired(struct restore *r, size_t i)
{
    const struct backup_filter *f = &r->set.filters[i];
    if (r->chosen[i] && f->expires && f->expires <= restore_now()) {
        r->chosen[i] = false;
        r->expired++;
        say_note("%s: skipped, because it has expired", BACKUP_NAME_TEXT(f));
    }
}

/* Deselects filters that have expired and, with --skip-existing, filters that exist in the service.
 * Returns an error if filters exist and neither --replace nor --skip-existing is set. */
static int restore_find_existing(struct restore *r)
{
    size_t exist = 0;
    for (size_t i = 0; i < r->set.count; i++) {
        const struct backup_filter *f = &r->set.filters[i];
        bool there = false;
        restore_skip_expired(r, i);
        if (!r->chosen[i] || r->options->replace) {
            continue;
        }
        const int code = one_exists(r, f, &there);
        if (code) {
            return code;
        }
        if (there && r->options->skip) {
            r->chosen[i] = false;
            r->kept++;
            say_note("%s: kept, because it exists", BACKUP_NAME_TEXT(f));
        } else if (there) {
            exist++;
            (void)say_failed(CLI_NO, "%s: the filter already exists",
                             BACKUP_NAME_TEXT(f));
        }
    }
    return exist ? say_failed(
               CLI_NO,
               "nothing was restored, because %s filter%s already exist%s; use "
               "--replace or --skip-existing",
               COUNT_TEXT(exist), exist == 1 ? "" : "s", exist == 1 ? "s" : "")
                 : CLI_OK;
}

/* Restores the selected filters. Continues after errors that concern only one filter. */
static int restore_all(struct restore *r)
{
    int code = CLI_OK;
    for (size_t i = 0; i < r->set.count; i++) {
        restore_skip_expired(r,
                             i); /* restoring the other filters may have taken long */
        const int one = r->chosen[i] ? one_restore(r, &r->set.filters[i]) : CLI_OK;
        r->failed += one != CLI_OK;
        code = one > code ? one : code;
        if (one == CLI_INTERRUPTED || one == CLI_IO || one == CLI_USAGE) {
            break;
        }
    }
    return code;
}

static void restore_report(const struct restore *r)
{
    if (r->unknown) {
        say_warning(
            "filters restored without content: %s; the original service did not know "
            "their content, so they answer \"maybe\" to every query",
            COUNT_TEXT(r->unknown));
    }
    if (r->set.names_in_doubt) {
        say_warning(
            "the original service had lost part of its journal, so filters may be "
            "missing from the backup");
    }
    say_note(
        "%s: restored and verified: %s filter%s; without content: %s; expired: %s; "
        "kept: %s; failed: %s",
        r->dir, COUNT_TEXT(r->restored), r->restored == 1 ? "" : "s",
        COUNT_TEXT(r->unknown), COUNT_TEXT(r->expired), COUNT_TEXT(r->kept),
        COUNT_TEXT(r->failed));
}

static int restore_command(void *options, const struct arguments *arguments)
{
    static struct restore r;
    uint32_t random = (uint32_t)restore_now();
    r.options = options;
    r.dir = arguments->items[0];
    (void)!getrandom(&random, sizeof random, 0);
    (void)snprintf(r.suffix, sizeof r.suffix, ".restore-%08" PRIx32, random);
    if (r.options->replace && r.options->skip) {
        return say_usage("--replace and --skip-existing are mutually exclusive");
    }
    int code = backup_read_manifest(r.dir, &r.set);
    code = code ? code : restore_choose(&r, arguments);
    code = code ? code : service_open(&r.options->service, &r.link);
    progress_begin(&r.progress, "restoring");
    code = code ? code : restore_find_existing(&r);
    if (!code) {
        code = restore_all(&r);
        progress_end(&r.progress);
        restore_report(&r);
    }
    progress_end(&r.progress);
    service_close(&r.link);
    backup_free(&r.set);
    free(r.chosen);
    free(r.name);
    return code;
}

const struct command command_restore = {
    .name = "restore",
    .summary = "load a backup into a running service",
    .usage = "[options] --service HOST:PORT DIR [NAME...]",
    .about =
        "Loads all filters of a backup (bloomgate backup), or only the named ones, "
        "into a running service. If one of them exists in the service, nothing is "
        "restored, unless --replace or --skip-existing is set.\n\nEach filter is "
        "checked, loaded under a temporary name, compared with the digest in the "
        "backup, and then renamed, so clients never see an incomplete filter. If a "
        "filter cannot be restored, for example because it exceeds maxmemory, the "
        "others are restored, and the exit code is not 0. If the command is killed, a "
        "filter NAME.restore-XXXXXXXX may remain in the service; drop it.\n\nA "
        "restored filter is missing the keys added since the backup and answers "
        "\"no\" for them: add these keys again. Filters with a keyed hash need the "
        "keyring of the original service. Filters that have expired are skipped. Time "
        "windows continue where they were, because they count only time in which a "
        "service is running.\n\nPasswords cannot be passed as arguments: use "
        "BLOOMGATE_PASSWORD or --password-file.",
    .size = sizeof(struct restore_options),
    .arguments = { 1, COMMAND_ANY, "expected the directory of a backup" },
    .uses = { { &service_options_group, offsetof(struct restore_options, service) },
              { &login_options_group, offsetof(struct restore_options, service.login) },
              OPT_GROUP("Restore", restore_table) },
    .examples = { { "bloomgate restore --service localhost:6420 /backup/2027-01-31",
                    "restore all filters" },
                  { "bloomgate restore -S localhost:6420 /backup/2027-01-31 seen "
                    "--replace",
                    "replace one filter" } },
    .run = restore_command,
};
