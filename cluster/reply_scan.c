/* reply_scan.c - see reply_scan.h. */
#include "reply_scan.h"

#include <string.h>

/* Parses n characters as a number. Returns false if they are not a number or include more than 18
 * digits. */
static bool scan_number(const char *from, size_t n, int64_t *number)
{
    const bool negative = n > 0 && from[0] == '-';
    uint64_t value = 0;
    size_t i = negative ? 1 : 0;
    if (n == i || n - i > 18) {
        return false;
    }
    for (; i < n; i++) {
        if (from[i] < '0' || from[i] > '9') {
            return false;
        }
        value = value * 10 + (uint64_t)(from[i] - '0');
    }
    *number = negative ? -(int64_t)value : (int64_t)value;
    return true;
}

/* Parses one item at `bytes`. Sets *used to the length of the item or, for an array, of its
 * header. */
static enum reply_state scan_item(const char *bytes, size_t n, struct reply_item *item,
                                  size_t *used)
{
    const size_t look = n < REPLY_LINE ? n : REPLY_LINE;
    const char *end = look ? memchr(bytes, '\r', look) : NULL;
    *item = (struct reply_item){ .type = '+' };
    if (n) {
        item->type = bytes[0];
    }
    if (item->type == 0 || !strchr("+-:$*", item->type)) {
        return REPLY_BAD;
    }
    if (!end) {
        return n < REPLY_LINE ? REPLY_MORE : REPLY_BAD;
    }
    const size_t line = (size_t)(end - bytes);
    if (line + 1 == n) {
        return REPLY_MORE;
    }
    if (end[1] != '\n') {
        return REPLY_BAD;
    }
    item->text = (bg_bytes){ bytes + 1, line - 1 };
    *used = line + 2;
    if (item->type == '+' || item->type == '-') {
        return REPLY_WHOLE;
    }
    if (!scan_number(bytes + 1, line - 1, &item->number)) {
        return REPLY_BAD;
    }
    if (item->type == ':') {
        return REPLY_WHOLE;
    }
    item->null = item->number == -1;
    if (item->number < -1 || (item->type == '*' && item->number > INT32_MAX)) {
        return REPLY_BAD;
    }
    if (item->number > INT32_MAX) {
        return REPLY_LARGE;
    }
    if (item->null || item->type == '*') {
        item->number = item->null ? 0 : item->number;
        return REPLY_WHOLE;
    }
    const size_t length = (size_t)item->number;
    item->text = (bg_bytes){ bytes + *used, length };
    if (n - *used < length + 2) {
        return REPLY_MORE;
    }
    if (memcmp(bytes + *used + length, "\r\n", 2) != 0) {
        return REPLY_BAD;
    }
    *used += length + 2;
    return REPLY_WHOLE;
}

enum reply_state reply_scan(struct reply_scan *scan, const char *bytes, size_t n)
{
    for (;;) {
        struct reply_item item;
        size_t used = 0;
        const enum reply_state state =
            scan_item(bytes + scan->at, n - scan->at, &item, &used);
        if (state != REPLY_WHOLE) {
            return state;
        }
        scan->at += used;
        if (item.type == '*' && item.number > 0) {
            if (scan->depth == REPLY_DEPTH) {
                return REPLY_BAD;
            }
            scan->left[scan->depth++] = (uint64_t)item.number;
            continue;
        }
        while (scan->depth && --scan->left[scan->depth - 1] == 0) {
            scan->depth--;
        }
        if (scan->depth == 0) {
            return REPLY_WHOLE;
        }
    }
}

struct reply_item reply_next(bg_bytes reply, size_t *at)
{
    struct reply_item item;
    size_t used = 0;
    const char *bytes = reply.data;
    if (*at >= reply.len
        || scan_item(bytes + *at, reply.len - *at, &item, &used) != REPLY_WHOLE) {
        return (struct reply_item){ .type = 0 };
    }
    *at += used;
    return item;
}

struct reply_item reply_first(bg_bytes reply)
{
    size_t at = 0;
    return reply_next(reply, &at);
}

void reply_skip(bg_bytes reply, size_t *at)
{
    struct reply_scan scan = { 0 };
    if (*at < reply.len
        && reply_scan(&scan, (const char *)reply.data + *at, reply.len - *at)
               == REPLY_WHOLE) {
        *at += scan.at;
    } else {
        *at = reply.len;
    }
}

bool reply_begins(bg_bytes text, const char *word)
{
    const size_t n = strlen(word);
    const char *bytes = text.data;
    return text.len >= n && memcmp(bytes, word, n) == 0
           && (text.len == n || bytes[n] == ' ');
}
