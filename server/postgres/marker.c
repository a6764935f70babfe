/* postgres/marker.c - see postgres/marker.h. Markers and marks come from a server or a file, so they are parsed
 * strictly. */
#include "postgres/marker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const marker_kinds[] = { "follower", "reader" };

enum { MARKER_TEXT = 256 }; /* maximum length in bytes */

/* ---- Positions --------------------------------------------------------------------------- */

void postgres_lsn_print(uint64_t lsn, char text[PG_LSN])
{
    (void)snprintf(text, PG_LSN, "%X/%X", (unsigned)(lsn >> 32),
                   (unsigned)(lsn & UINT32_MAX));
}

bool postgres_lsn_parse(const char *text, uint64_t *lsn)
{
    char again[PG_LSN], *slash;
    const uint64_t high = strtoull(text, &slash, 16);
    const uint64_t low = *slash == '/' ? strtoull(slash + 1, NULL, 16) : 0;
    if (*slash != '/' || high > UINT32_MAX || low > UINT32_MAX) {
        return false;
    }
    *lsn = high << 32 | low;
    postgres_lsn_print(*lsn, again); /* only the canonical spelling is accepted */
    return strcmp(text, again) == 0;
}

/* ---- Markers ----------------------------------------------------------------------------- */

char *postgres_marker_emit(const char *object, const struct postgres_marker *marker)
{
    return source_format("SELECT lsn, pg_catalog.pg_logical_emit_message(false, '%s',"
                         " '%s %s %s %llu ' || lsn::text)"
                         " FROM (SELECT pg_catalog.pg_current_wal_insert_lsn() AS lsn"
                         " OFFSET 0) AS before",
                         POSTGRES_MARKER_PREFIX, object, marker_kinds[marker->kind],
                         marker->nonce, (unsigned long long)marker->number);
}

static bool marker_nonce_is_valid(const char *nonce)
{
    return strlen(nonce) == PG_NONCE - 1
           && strspn(nonce, "0123456789abcdef") == PG_NONCE - 1;
}

/* Parses NONCE NUMBER LSN. */
static bool marker_tail(const char *nonce, const char *number, const char *lsn,
                        struct postgres_marker *marker)
{
    int64_t value;
    if (!nonce || !number || !lsn || !marker_nonce_is_valid(nonce)
        || !source_integer((bg_bytes){ number, strlen(number) }, &value) || value < 0) {
        return false;
    }
    memcpy(marker->nonce, nonce, PG_NONCE);
    marker->number = (uint64_t)value;
    return postgres_lsn_parse(lsn, &marker->lsn);
}

/* Splits text at blanks into exactly n words. */
static bool marker_words(char *text, char **words, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        words[i] = strsep(&text, " ");
        if (!words[i] || !*words[i]) {
            return false;
        }
    }
    return !text;
}

bool postgres_marker_parse(const char *object, bg_bytes text,
                           struct postgres_marker *marker)
{
    char copy[MARKER_TEXT], *words[5];
    if (text.len >= sizeof copy || memchr(text.data, 0, text.len)) {
        return false;
    }
    memcpy(copy, text.data, text.len);
    copy[text.len] = 0;
    if (!marker_words(copy, words, 5) || strcmp(words[0], object) != 0) {
        return false;
    }
    marker->kind = strcmp(words[1], marker_kinds[MARKER_OF_READER]) == 0
                       ? MARKER_OF_READER
                       : MARKER_OF_FOLLOWER;
    return strcmp(words[1], marker_kinds[marker->kind]) == 0
           && marker_tail(words[2], words[3], words[4], marker);
}

bool postgres_marker_equal(const struct postgres_marker *a,
                           const struct postgres_marker *b)
{
    return a->kind == b->kind && strcmp(a->nonce, b->nonce) == 0
           && a->number == b->number && a->lsn == b->lsn;
}

/* ---- Marks ------------------------------------------------------------------------------- */

void postgres_mark_print(const struct postgres_mark *mark, char text[SOURCE_MARK])
{
    char lsn[PG_LSN];
    postgres_lsn_print(mark->marker.lsn, lsn);
    (void)snprintf(text, SOURCE_MARK, "logical 1 %s %s %s %llu %s", mark->identity,
                   mark->fingerprint, mark->marker.nonce,
                   (unsigned long long)mark->marker.number, lsn);
}

bool postgres_mark_parse(const char *text, struct postgres_mark *mark)
{
    char copy[SOURCE_MARK], *words[7];
    if (strlen(text) >= sizeof copy) {
        return false;
    }
    (void)snprintf(copy, sizeof copy, "%s", text);
    if (!marker_words(copy, words, 7) || strcmp(words[0], "logical") != 0
        || strcmp(words[1], "1") != 0 || strlen(words[2]) >= PG_IDENTITY
        || strlen(words[3]) != PG_FINGERPRINT - 1) {
        return false;
    }
    mark->marker.kind = MARKER_OF_FOLLOWER;
    (void)snprintf(mark->identity, PG_IDENTITY, "%s", words[2]);
    (void)snprintf(mark->fingerprint, PG_FINGERPRINT, "%s", words[3]);
    return marker_tail(words[4], words[5], words[6], &mark->marker);
}
