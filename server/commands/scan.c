/*
 * commands/scan.c - lists names: SCAN, BG.LIST, KEYS, RANDOMKEY, DBSIZE.
 *
 * A SCAN cursor is the number of the last entry that was examined. Numbers only increase and are
 * never reused, so a scan returns every filter that exists throughout the scan, and none twice. A
 * filter that was dropped after the catalog listed it is returned as well. Otherwise, a name whose
 * filter is replaced at that moment would be missing, because the new filter is not in the list.
 *
 * BG.LIST also returns these numbers, as IDs. A renamed filter keeps its ID, so a client that
 * copies all filters can detect which filters it has already copied, even if they have been
 * renamed. Each reply includes the count of catalog_list, from which the client determines whether
 * its list of names is complete, and the number of filters that the user may not read.
 *
 * Users see only the names that they may read, so tenants cannot discover each other's names.
 */
#include "config/users.h"
#include "core/server.h"
#include "pattern.h"
#include "request/cmd.h"

#include <sys/random.h>

enum {
    SCAN_USUAL = 10, /* default number of entries that one SCAN examines */
    /* maximum number of entries that one SCAN examines, so that other connections get a turn */
    SCAN_MAX = 1000,
    SCAN_PIECE = 64
};

struct scan {
    uint64_t after;
    int64_t count;
    const bg_bytes *pattern, *type; /* NULL: any */
};

static bool scan_has_expired(const struct session *session, const struct entry *entry)
{
    const uint64_t expires = atomic_load(&entry->expires);
    return expires && expires <= session->now;
}

static bool scan_may_read(const struct session *session, const struct entry *entry)
{
    return user_may_touch(session->client->user, catalog_name(entry), USER_READ);
}

static bool scan_takes(const struct session *session, const struct scan *scan,
                       const struct entry *entry)
{
    const bg_bytes name = catalog_name(entry);
    if (scan_has_expired(session, entry) || !scan_may_read(session, entry)) {
        return false;
    }
    const char *type = cmd_type_name(entry->object);
    if (scan->type
        && (scan->type->len != strlen(type)
            || memcmp(scan->type->data, type, scan->type->len) != 0)) {
        return false;
    }
    return !scan->pattern
           || pattern_matches(scan->pattern->data, scan->pattern->len, name.data,
                              name.len);
}

static bool scan_read(struct request *request, struct scan *scan)
{
    const bg_bytes *argv = request->argv;
    if (!args_count(argv[1], &scan->after)) {
        return reply_error(&request->reply, "ERR invalid cursor");
    }
    for (size_t i = 2; i < request->argc; i += 2) {
        const bool has_value = i + 1 < request->argc;
        if (has_value && args_is(argv[i], "COUNT")) {
            if (!cmd_integer(argv[i + 1], &scan->count)) {
                return cmd_not_integer(request);
            }
            if (scan->count < 1) {
                return cmd_syntax(request);
            }
        } else if (has_value && args_is(argv[i], "MATCH")) {
            scan->pattern = &argv[i + 1];
        } else if (has_value && args_is(argv[i], "TYPE")) {
            scan->type = &argv[i + 1];
        } else {
            return cmd_syntax(request);
        }
    }
    return true;
}

/* Returns the state of a filter: "complete", "locked" if its secret is missing, or "unknown". */
static const char *scan_state(const struct object *object)
{
    return object_is_whole(object) ? "complete" : object->locked ? "locked" : "unknown";
}

/* Adds an entry to a reply: only its name or, if `whole` is set, its ID, name, expiry and state. */
static void scan_send(struct request *request, struct entry *entry, bool whole)
{
    const bg_bytes name = catalog_name(entry);
    if (whole) {
        reply_array(&request->reply, 4);
        reply_integer(&request->reply, (int64_t)entry->number);
    }
    reply_bulk(&request->reply, name.data, name.len);
    if (whole) {
        reply_integer(&request->reply, (int64_t)atomic_load(&entry->expires));
        reply_text(&request->reply, scan_state(entry->object));
    }
}

/* Runs SCAN or, if `whole` is set, BG.LIST. */
static void scan_names(struct request *request, bool whole)
{
    struct session *session = session_of(request);
    struct scan scan = { .count = SCAN_USUAL };
    struct entry *entries[SCAN_MAX];
    char cursor[24];
    size_t found = 0;
    uint64_t reversals = 0;
    if (!scan_read(request, &scan)) {
        return;
    }
    session_enter(session); /* names are valid only during a batch */
    const size_t room = scan.count < SCAN_MAX ? (size_t)scan.count : SCAN_MAX;
    const size_t n =
        catalog_list(session->server->catalog, scan.after, entries, room, &reversals);
    const uint64_t last = n == room ? entries[n - 1]->number : 0;
    for (size_t i = 0; i < n; i++) { /* moves the matching names to the front */
        if (scan_takes(session, &scan, entries[i])) {
            struct entry *other = entries[found];
            entries[found++] = entries[i];
            entries[i] = other;
        }
    }
    int64_t hidden = 0;
    for (size_t i = found; i < n; i++) {
        hidden += !scan_may_read(session, entries[i])
                  && !scan_has_expired(session, entries[i]);
    }
    reply_array(&request->reply, whole ? 4 : 2);
    reply_bulk(&request->reply, cursor, buffer_digits(cursor, last));
    reply_array(&request->reply, found);
    for (size_t i = 0; i < n; i++) {
        if (i < found) {
            scan_send(request, entries[i], whole);
        }
        catalog_release(entries[i]);
    }
    if (whole) {
        reply_integer(&request->reply, (int64_t)reversals);
        reply_integer(&request->reply, hidden);
    }
}

static void scan_run(struct request *request)
{
    scan_names(request, false);
}

static void list_run(struct request *request)
{
    scan_names(request, true);
}

/* ---- KEYS ---------------------------------------------------------------------------------- */

struct keys_visit {
    const struct session *session;
    struct scan scan;
    struct cmd_list names;
};

static void keys_take(void *context, struct entry *entry)
{
    struct keys_visit *visit = context;
    if (scan_takes(visit->session, &visit->scan, entry)) {
        const bg_bytes name = catalog_name(entry);
        cmd_list_add(&visit->names, name.data, name.len);
    }
}

static void keys_run(struct request *request)
{
    struct session *session = session_of(request);
    struct keys_visit visit = { session,
                                { .pattern = &request->argv[1] },
                                { .count = 0 } };
    buffer_init(&visit.names.text, session->from->client_output_buffer_limit);
    session_each(session, keys_take, &visit);
    cmd_list_send(request, &visit.names,
                  "ERR the reply exceeds client-output-buffer-limit: use SCAN");
}

/* ---- RANDOMKEY, DBSIZE --------------------------------------------------------------------- */

/* Sends the first name with an entry number above `after` that the user may read. Returns false if
 * there is none. */
static bool randomkey_from(struct request *request, uint64_t after)
{
    struct session *session = session_of(request);
    const struct scan any = { .count = 0 };
    struct entry *entries[SCAN_PIECE];
    bool found = false;
    size_t n = 0;
    while (!found
           && (n = catalog_scan(session->server->catalog, after, entries, SCAN_PIECE))
                  > 0) {
        after = entries[n - 1]->number;
        for (size_t i = 0; i < n; i++) {
            if (!found && scan_takes(session, &any, entries[i])) {
                const bg_bytes name = catalog_name(entries[i]);
                reply_bulk(&request->reply, name.data, name.len);
                found = true;
            }
            catalog_release(entries[i]);
        }
    }
    return found;
}

static void randomkey_run(struct request *request)
{
    struct session *session = session_of(request);
    uint64_t random = session->now;
    (void)!getrandom(&random, sizeof random, 0);
    session_enter(session); /* names are valid only during a batch */
    if (!randomkey_from(request, catalog_before_any(session->server->catalog, random))
        && !randomkey_from(request, 0)) {
        reply_null(&request->reply);
    }
}

struct dbsize {
    const struct session *session;
    size_t count;
};

static void dbsize_count(void *context, struct entry *entry)
{
    static const struct scan any = { .count = 0 };
    struct dbsize *size = context;
    size->count += scan_takes(size->session, &any, entry);
}

static void dbsize_run(struct request *request)
{
    struct session *session = session_of(request);
    struct dbsize size = { session, catalog_count(session->server->catalog) };
    if (!user_may_touch_all(session->client->user, USER_READ)) {
        size.count = 0;
        session_each(session, dbsize_count, &size);
    }
    reply_integer(&request->reply, (int64_t)size.count);
}

const struct command scan_commands[] = {
    { "SCAN", -2, COMMAND_READONLY, CATEGORY_KEYSPACE, 0, 0, 0, scan_run, NULL,
      "cursor [MATCH pattern] [COUNT count] [TYPE type]",
      "Iterates over the filter names", "O(1) per call", "0.1.0", BEHAVIOR_SERVICE },
    { "BG.LIST", -2, COMMAND_READONLY, CATEGORY_KEYSPACE, 0, 0, 0, list_run, NULL,
      "cursor [MATCH pattern] [COUNT count] [TYPE type]",
      "Iterates over the filters like SCAN, and returns the ID, name, expiry and state "
      "of each",
      "O(1) per call", "0.2.0", BEHAVIOR_SERVICE },
    { "KEYS", 2, COMMAND_READONLY | COMMAND_SLOW,
      CATEGORY_KEYSPACE | CATEGORY_DANGEROUS, 0, 0, 0, keys_run, NULL, "pattern",
      "Lists all filter names that match a pattern",
      "O(N) where N is the number of names", "0.1.0", BEHAVIOR_SERVICE },
    { "RANDOMKEY", 1, COMMAND_READONLY, CATEGORY_KEYSPACE, 0, 0, 0, randomkey_run, NULL,
      "", "Returns a random filter name", "O(1)", "0.1.0", BEHAVIOR_SERVICE },
    { "DBSIZE", 1, COMMAND_READONLY | COMMAND_SLOW, CATEGORY_KEYSPACE, 0, 0, 0,
      dbsize_run, NULL, "", "Returns the number of filters that the user may read",
      "O(1); for a user with name patterns, O(N) where N is the number of filters",
      "0.1.0", BEHAVIOR_SERVICE },
    CMD_END,
};
