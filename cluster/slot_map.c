/* slot_map.c - see slot_map.h. */
#include "slot_map.h"

#include "letters.h"

#include <stdlib.h>
#include <string.h>

void map_init(struct slot_map *map)
{
    map->count = 0;
    map->how = NULL;
    memset(map->owner, 0xff, sizeof map->owner);
}

void map_free(struct slot_map *map)
{
    for (size_t i = 0; i < map->count; i++) {
        link_close(map->nodes[i]);
        free(map->nodes[i]);
    }
    map->count = 0;
}

/* ---- Nodes ----------------------------------------------------------------------------------- */

uint16_t map_node(struct slot_map *map, bg_bytes host, uint16_t port)
{
    for (size_t i = 0; i < map->count; i++) {
        const struct node_link *node = map->nodes[i];
        if (node->port == port && strlen(node->host) == host.len
            && memcmp(node->host, host.data, host.len) == 0) {
            return (uint16_t)i;
        }
    }
    struct node_link *link = map->count < MAP_NODES ? malloc(sizeof *link) : NULL;
    if (!link || memchr(host.data, 0, host.len)
        || !link_name(link, host.data, host.len, port)) {
        free(link);
        return MAP_NOBODY;
    }
    link->how = map->how;
    map->nodes[map->count] = link;
    return (uint16_t)map->count++;
}

/* Parses the digits at the start of `text`, and advances `text` past them. Returns false if there
 * are no digits, or if the number is greater than `most`. */
static bool map_digits(bg_bytes *text, uint64_t most, uint64_t *value)
{
    const char *p = text->data, *end = p + text->len;
    const bool good = digits_read(&p, end, value) && *value <= most;
    *text = (bg_bytes){ p, (size_t)(end - p) };
    return good;
}

uint16_t map_address(struct slot_map *map, bg_bytes address, uint16_t from)
{
    const char *p = address.data;
    size_t colon = address.len;
    while (colon > 0 && p[colon - 1] != ':') {
        colon--;
    }
    uint64_t port = 0;
    bg_bytes digits = { p + colon, address.len - colon };
    if (colon == 0 || !map_digits(&digits, UINT16_MAX, &port) || digits.len > 0
        || !port) {
        return MAP_NOBODY;
    }
    bg_bytes host = { p, colon - 1 };
    if (host.len > 2 && p[0] == '[' && p[host.len - 1] == ']') {
        host = (bg_bytes){ p + 1, host.len - 2 };
    }
    if (host.len == 0 && from != MAP_NOBODY) {
        host = link_word(map->nodes[from]->host);
    }
    return host.len ? map_node(map, host, (uint16_t)port) : MAP_NOBODY;
}

/* ---- Slots ----------------------------------------------------------------------------------- */

void map_give_all(struct slot_map *map, uint16_t node)
{
    for (size_t i = 0; i < SHARD_SLOTS; i++) {
        map->owner[i] = node;
    }
}

/* Reads a list (host, port, ...) that describes a node, and returns the node's index. */
static uint16_t map_read_node(struct slot_map *map, bg_bytes reply, size_t *at,
                              uint16_t from)
{
    const size_t begin = *at;
    const struct reply_item list = reply_next(reply, at), host = reply_next(reply, at),
                            port = reply_next(reply, at);
    *at = begin;
    reply_skip(reply, at);
    if (list.type != '*' || list.number < 2 || host.type != '$' || port.type != ':'
        || port.number <= 0 || port.number > UINT16_MAX) {
        return MAP_NOBODY;
    }
    const bool unknown =
        host.null || host.text.len == 0
        || (host.text.len == 1 && *(const char *)host.text.data == '?');
    return map_node(map, unknown ? link_word(map->nodes[from]->host) : host.text,
                    (uint16_t)port.number);
}

/* The reply to CLUSTER SLOTS. */
struct map_told {
    uint16_t owner[SHARD_SLOTS];
    bool replica[MAP_NODES];
};

/* Reads one range of slots. Returns the number of slots, or 0 if the reply is invalid. */
static size_t map_read_range(struct slot_map *map, bg_bytes reply, size_t *at,
                             uint16_t from, struct map_told *told)
{
    const struct reply_item list = reply_next(reply, at);
    if (list.type != '*' || list.number < 3) {
        return 0;
    }
    const struct reply_item first = reply_next(reply, at), last = reply_next(reply, at);
    if (first.type != ':' || last.type != ':' || first.number < 0
        || last.number < first.number || last.number >= SHARD_SLOTS) {
        return 0;
    }
    const uint16_t node = map_read_node(map, reply, at, from);
    for (int64_t i = 3; i < list.number; i++) {
        const uint16_t replica = map_read_node(map, reply, at, from);
        if (replica != MAP_NOBODY) {
            told->replica[replica] = true;
        }
    }
    for (int64_t slot = first.number; slot <= last.number; slot++) {
        told->owner[slot] = node;
    }
    return node == MAP_NOBODY ? 0 : (size_t)(last.number - first.number + 1);
}

bool map_read(struct slot_map *map, bg_bytes reply, uint16_t from)
{
    struct map_told told = { .replica = { false } };
    size_t at = 0, slots = 0;
    memset(told.owner, 0xff, sizeof told.owner);
    const struct reply_item list = reply_next(reply, &at);
    if (list.type != '*') {
        return false;
    }
    for (int64_t i = 0; i < list.number; i++) {
        const size_t more = map_read_range(map, reply, &at, from, &told);
        if (more == 0) {
            return false;
        }
        slots += more;
    }
    if (slots) {
        memcpy(map->owner, told.owner, sizeof told.owner);
        memcpy(map->replica, told.replica, sizeof told.replica);
    }
    return slots > 0;
}

bool map_redirection(struct slot_map *map, bg_bytes text, uint16_t from, unsigned *slot,
                     uint16_t *node)
{
    uint64_t number = 0;
    if (!map_digits(&text, SHARD_SLOTS - 1, &number) || text.len < 2
        || *(const char *)text.data != ' ') {
        return false;
    }
    *slot = (unsigned)number;
    *node =
        map_address(map, (bg_bytes){ (const char *)text.data + 1, text.len - 1 }, from);
    return *node != MAP_NOBODY;
}
