/*
 * fuzz_cluster_reply.c - parses arbitrary bytes as a reply from a cluster node, as the slot map,
 * and as a redirection.
 *
 * Input: 4 bytes choose how the stream is split; the rest is the stream.
 */
#include "fuzz.h"
#include "fuzz_input.h"
#include "slot_map.h"

/* Scans a reply that arrives in chunks. The caller checks that the result is the same as for the
 * whole reply. */
static enum reply_state in_pieces(const char *bytes, size_t n, uint32_t cuts,
                                  size_t *length)
{
    struct reply_scan scan = { 0 };
    enum reply_state state = REPLY_MORE;
    for (size_t have = 0; state == REPLY_MORE; have += 1 + cuts % 61) {
        const size_t now = have < n ? have : n;
        state = reply_scan(&scan, bytes, now);
        FUZZ_MUST(scan.at <= now && scan.depth <= REPLY_DEPTH);
        cuts = cuts * 1664525 + 1013904223;
        if (now == n) {
            break;
        }
    }
    *length = scan.at;
    return state;
}

/* Walks through a complete reply. The reply must contain as many items as it announces, and no item
 * may extend beyond the end of the reply. */
static void walk(bg_bytes reply)
{
    uint64_t left = 1;
    size_t at = 0, skipped = 0;
    while (left) {
        const struct reply_item item = reply_next(reply, &at);
        FUZZ_MUST(item.type != 0 && at <= reply.len);
        left += item.type == '*' ? (uint64_t)item.number : 0;
        left--;
    }
    FUZZ_MUST(at == reply.len && reply_next(reply, &at).type == 0);
    reply_skip(reply, &skipped);
    FUZZ_MUST(skipped == reply.len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = { data, size };
    const uint32_t cuts = fuzz_u32(&in);
    const char *bytes = in.left ? (const char *)in.data : "";
    static struct slot_map map;
    struct reply_scan scan = { 0 };
    size_t length = 0;
    const enum reply_state state = reply_scan(&scan, bytes, in.left);
    FUZZ_MUST(in_pieces(bytes, in.left, cuts, &length) == state);
    FUZZ_MUST(state != REPLY_WHOLE || length == scan.at);
    map_init(&map);
    FUZZ_MUST(map_address(&map, (bg_bytes){ "h:1", 3 }, MAP_NOBODY) == 0);
    unsigned slot = 0;
    uint16_t node = 0;
    if (state == REPLY_WHOLE) {
        const bg_bytes reply = { bytes, scan.at };
        walk(reply);
        if (map_read(&map, reply, 0)) {
            for (size_t i = 0; i < SHARD_SLOTS; i++) {
                FUZZ_MUST(map.owner[i] == MAP_NOBODY || map.owner[i] < map.count);
            }
        }
    }
    if (map_redirection(&map, (bg_bytes){ bytes, in.left }, 0, &slot, &node)) {
        FUZZ_MUST(slot < SHARD_SLOTS && node < map.count);
    }
    map_free(&map);
    return 0;
}
