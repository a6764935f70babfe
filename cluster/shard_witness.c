/* shard_witness.c - see shard_witness.h. */
#include "shard_witness.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    WITNESS_DIGITS = 16,
    WITNESS_HEAD = 2 + WITNESS_DIGITS,      /* "1 run" */
    WITNESS_ENTRY = 2 + 2 * WITNESS_DIGITS, /* " run:history" */
    WITNESS_KEPT = 16, /* space for at least this many unresponsive processes */
    WITNESS_MAX = 2 * MAP_NODES
};

const char witness_list[] = "processes";
static const char witness_doubts[] = "doubt:";

void witness_doubt_name(uint64_t run, char name[WITNESS_FIELD])
{
    (void)snprintf(name, WITNESS_FIELD, "%s%016" PRIx64, witness_doubts, run);
}

void witness_free(struct witness *witness)
{
    free(witness->entries);
    *witness = (struct witness){ 0 };
}

void witness_distrust(struct witness *witness)
{
    free(witness->entries);
    witness->entries = NULL;
    witness->count = 0;
    witness->holder = 0;
    witness->any = false;
}

bool witness_believes(const struct witness *witness, const struct link_process *who)
{
    bool found =
        witness->any || (who->run && who->run == witness->holder && !who->before);
    for (size_t i = 0; i < witness->count && !found; i++) {
        const struct witness_entry *e = &witness->entries[i];
        found = who->run && e->run == who->run && e->history
                && (e->history == who->history || e->history == who->before);
    }
    return found && !witness->doubt_count;
}

bool witness_has(const struct witness *witness, const struct link_process *process)
{
    bool found = witness->any;
    for (size_t i = 0; i < witness->count && !found; i++) {
        found = witness->entries[i].run == process->run
                && witness->entries[i].history == process->history;
    }
    return found;
}

/* ---- Parsing --------------------------------------------------------------------------------- */

static bool witness_reserve(struct witness *witness, size_t count)
{
    witness_distrust(witness);
    witness->entries = calloc(count ? count : 1, sizeof *witness->entries);
    return witness->entries != NULL;
}

static bool witness_hex(const char *p, uint64_t *number)
{
    *number = 0;
    for (int i = 0; i < WITNESS_DIGITS; i++) {
        const int digit = p[i] >= '0' && p[i] <= '9'   ? p[i] - '0'
                          : p[i] >= 'a' && p[i] <= 'f' ? p[i] - 'a' + 10
                                                       : -1;
        if (digit < 0) {
            return false;
        }
        *number = *number << 4 | (uint64_t)digit;
    }
    return true;
}

bool witness_parse(bg_bytes text, struct witness *witness)
{
    const char *p = text.data;
    const size_t head = WITNESS_HEAD;
    const size_t count = text.len > head ? (text.len - head) / WITNESS_ENTRY : 0;
    const size_t room = count < WITNESS_MAX ? count : WITNESS_MAX;
    uint64_t holder;
    if (!witness_reserve(witness, room)) {
        return false;
    }
    if (text.len != head + count * WITNESS_ENTRY || memcmp(p, "1 ", 2) != 0
        || !witness_hex(p + 2, &holder)) {
        return true;
    }
    witness->holder = holder;
    for (size_t i = 0; i < room; i++) {
        const char *at = p + head + i * WITNESS_ENTRY;
        struct witness_entry *e = &witness->entries[witness->count];
        if (*at == ' ' && witness_hex(at + 1, &e->run) && at[1 + WITNESS_DIGITS] == ':'
            && witness_hex(at + 2 + WITNESS_DIGITS, &e->history)) {
            witness->count++;
        }
    }
    return true;
}

static bool witness_begins(bg_bytes field, const char *word)
{
    const size_t n = strlen(word);
    return field.len >= n && memcmp(field.data, word, n) == 0;
}

/* Reads the fields of a witness. A doubt counts even if its run ID is malformed. Returns false if
 * out of memory. */
static bool witness_fields(bg_bytes reply, size_t at, int64_t n,
                           struct witness *witness)
{
    const size_t doubt = sizeof witness_doubts - 1;
    for (int64_t i = 0; i + 1 < n; i += 2) {
        const bg_bytes field = reply_next(reply, &at).text;
        const bg_bytes value = reply_next(reply, &at).text;
        if (witness_begins(field, witness_list)) {
            if (!witness_parse(value, witness)) {
                return false;
            }
        } else if (witness_begins(field, witness_doubts)
                   && witness->doubt_count < WITNESS_DOUBTS) {
            uint64_t *run = &witness->doubts[witness->doubt_count++];
            *run = 0;
            if (field.len == doubt + WITNESS_DIGITS) {
                (void)witness_hex((const char *)field.data + doubt, run);
            }
        }
    }
    return true;
}

static enum witness_verdict witness_doubt(char why[WITNESS_WHY], const char *text)
{
    (void)snprintf(why, WITNESS_WHY, "%s", text);
    return WITNESS_DOUBT;
}

static bool witness_is_unknown_command(bg_bytes text)
{
    return witness_begins(text, "ERR unknown command");
}

enum witness_verdict witness_read(const struct cluster_ask *ask, bg_bytes reply,
                                  bool known, struct witness *witness,
                                  char why[WITNESS_WHY])
{
    size_t at = 0;
    const struct reply_item item = reply_next(reply, &at);
    if (item.type == '-' && witness_is_unknown_command(item.text)) {
        witness->any = true;
        return WITNESS_GOOD;
    }
    if (item.type == '-') {
        (void)snprintf(why, WITNESS_WHY, "HGETALL: %.*s",
                       (int)(item.text.len < 150 ? item.text.len : 150),
                       (const char *)item.text.data);
        return WITNESS_DOUBT;
    }
    if (ask->by->refused) {
        return witness_doubt(
            why,
            "the node refuses INFO, so restarts cannot be detected: grant +info to the "
            "user");
    }
    if (item.type != '*') {
        return witness_doubt(why, "HGETALL: the reply is not a list of fields");
    }
    if (item.number <= 0) {
        if (known) {
            return witness_doubt(
                why, "its witness was lost, so keys may have been lost as well");
        }
        if (!witness_reserve(witness, 1)) {
            return WITNESS_NO_MEMORY;
        }
        witness->entries[witness->count++] =
            (struct witness_entry){ ask->by->run, ask->by->history };
        witness->holder = ask->by->run;
        witness->any = ask->by->run == 0;
        return WITNESS_NONE;
    }
    if (!witness_fields(reply, at, item.number, witness)) {
        return WITNESS_NO_MEMORY;
    }
    if (witness_believes(witness, ask->by)) {
        return WITNESS_GOOD;
    }
    (void)witness_doubt(why, "its server restarted and may have lost keys");
    return (witness->holder || witness->count) && !witness->doubt_count
               ? WITNESS_RESTART
               : WITNESS_DOUBT;
}

/* ---- Writing --------------------------------------------------------------------------------- */

static size_t witness_put(char *to, const struct witness_entry *e)
{
    return (size_t)snprintf(to, WITNESS_ENTRY + 1, " %016" PRIx64 ":%016" PRIx64,
                            e->run, e->history);
}

bool witness_runs(const struct cluster_view *view, uint64_t run)
{
    bool found = false;
    for (size_t i = 0; i < view->count && !found; i++) {
        found = view->processes[i].run == run;
    }
    return found;
}

char *witness_write(const struct witness *before, uint64_t holder,
                    const struct cluster_view *view)
{
    const size_t most =
        view->count + (view->count > WITNESS_KEPT ? view->count : WITNESS_KEPT);
    char *text = malloc(WITNESS_HEAD + 1 + most * WITNESS_ENTRY);
    if (!text) {
        return NULL;
    }
    size_t used = (size_t)snprintf(text, WITNESS_HEAD + 1, "1 %016" PRIx64, holder);
    size_t listed = view->count;
    for (size_t i = 0; i < view->count; i++) {
        const struct witness_entry e = { view->processes[i].run,
                                         view->processes[i].history };
        used += witness_put(text + used, &e);
    }
    for (size_t i = 0; i < before->count && listed < most; i++) {
        if (!witness_runs(view, before->entries[i].run)) {
            used += witness_put(text + used, &before->entries[i]);
            listed++;
        }
    }
    return text;
}
