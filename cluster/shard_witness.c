/* shard_witness.c - see shard_witness.h. */
#include "shard_witness.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    WITNESS_DIGITS = 16,
    WITNESS_KEPT =
        16, /* processes that do not answer now, at least; else as many as do */
    WITNESS_MOST = 2 * MAP_NODES
};

static const char witness_version[] = "1";

void witness_free(struct witness *witness)
{
    free(witness->runs);
    *witness = (struct witness){ 0 };
}

bool witness_lists(const struct witness *witness, uint64_t run)
{
    bool found = witness->any;
    for (size_t i = 0; i < witness->count && !found; i++) {
        found = run != 0 && witness->runs[i] == run;
    }
    return found;
}

/* ---- Reading ------------------------------------------------------------------------------------ */

static bool witness_reserve(struct witness *witness, size_t count)
{
    witness_free(witness);
    witness->runs = calloc(count ? count : 1, sizeof *witness->runs);
    return witness->runs != NULL;
}

static bool witness_hex(const char *p, uint64_t *run)
{
    *run = 0;
    for (int i = 0; i < WITNESS_DIGITS; i++) {
        const int digit = p[i] >= '0' && p[i] <= '9'   ? p[i] - '0'
                          : p[i] >= 'a' && p[i] <= 'f' ? p[i] - 'a' + 10
                                                       : -1;
        if (digit < 0) {
            return false;
        }
        *run = *run << 4 | (uint64_t)digit;
    }
    return true;
}

bool witness_parse(bg_bytes text, struct witness *witness)
{
    const char *p = text.data;
    const size_t head = sizeof witness_version - 1, each = 1 + WITNESS_DIGITS;
    const size_t count = text.len > head ? (text.len - head) / each : 0;
    if (!witness_reserve(witness, count < WITNESS_MOST ? count : WITNESS_MOST)) {
        return false;
    }
    if (text.len != head + count * each || memcmp(p, witness_version, head) != 0) {
        return true;
    }
    for (size_t i = 0; i < count && i < WITNESS_MOST; i++) {
        const char *at = p + head + i * each;
        if (*at == ' ' && witness_hex(at + 1, &witness->runs[witness->count])) {
            witness->count++;
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
    static const char unknown[] = "ERR unknown command";
    return text.len >= sizeof unknown - 1
           && memcmp(text.data, unknown, sizeof unknown - 1) == 0;
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
        (void)snprintf(why, WITNESS_WHY, "GET: %.*s",
                       (int)(item.text.len < 150 ? item.text.len : 150),
                       (const char *)item.text.data);
        return WITNESS_DOUBT;
    }
    if (ask->run_refused) {
        return witness_doubt(why,
                             "INFO is refused, so restarts cannot be noticed; expected "
                             "the right +info");
    }
    if (item.type != '$' || item.null) {
        if (known) {
            return witness_doubt(why, "its witness is lost, so keys may be, too");
        }
        if (!witness_reserve(witness, 1)) {
            return WITNESS_NO_MEMORY;
        }
        witness->runs[witness->count++] = ask->run;
        witness->any = ask->run == 0;
        return WITNESS_NONE;
    }
    if (!witness_parse(item.text, witness)) {
        return WITNESS_NO_MEMORY;
    }
    return witness_lists(witness, ask->run)
               ? WITNESS_GOOD
               : witness_doubt(why,
                               "its server was started again, and may have lost keys");
}

/* ---- Writing ------------------------------------------------------------------------------------ */

static bool witness_has(const uint64_t *runs, size_t count, uint64_t run)
{
    bool found = false;
    for (size_t i = 0; i < count && !found; i++) {
        found = runs[i] == run;
    }
    return found;
}

char *witness_write(const struct witness *before, const uint64_t *runs, size_t count)
{
    const size_t each = 1 + WITNESS_DIGITS;
    const size_t most = count + (count > WITNESS_KEPT ? count : WITNESS_KEPT);
    const size_t room = sizeof witness_version + most * each;
    char *text = malloc(room);
    if (!text) {
        return NULL;
    }
    size_t used = (size_t)snprintf(text, room, "%s", witness_version), listed = 0;
    for (size_t i = 0; i < count; i++, listed++) {
        used += (size_t)snprintf(text + used, room - used, " %016" PRIx64, runs[i]);
    }
    for (size_t i = 0; i < before->count && listed < most; i++) {
        if (before->runs[i] && !witness_has(runs, count, before->runs[i])) {
            used += (size_t)snprintf(text + used, room - used, " %016" PRIx64,
                                     before->runs[i]);
            listed++;
        }
    }
    return text;
}
