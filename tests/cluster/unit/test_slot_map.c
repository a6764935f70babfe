/* test_slot_map.c - tests how CLUSTER SLOTS, MOVED and ASK determine which node owns which slot. */
#include "support/check.h"

#include "slot_map.h"

#include <stdlib.h>
#include <string.h>

static bg_bytes bytes(const char *text)
{
    return (bg_bytes){ text, strlen(text) };
}

static struct slot_map *make(void)
{
    struct slot_map *map = malloc(sizeof *map);
    map_init(map);
    CHECK_EQ(map_address(map, bytes("127.0.0.1:7000"), MAP_NOBODY), 0);
    return map;
}

static void unmake(struct slot_map *map)
{
    map_free(map);
    free(map);
}

#define NODE(host, port) "*3\r\n" host ":" port "\r\n$2\r\nid\r\n"

TEST(slots_of_a_cluster)
{
    struct slot_map *map = make();
    CHECK(map_read(
        map,
        bytes("*2\r\n"
              "*4\r\n:0\r\n:8191\r\n" NODE("$9\r\n127.0.0.1\r\n", "7000")
                  NODE("$9\r\n127.0.0.1\r\n",
                       "7003") "*3\r\n:8192\r\n:16383\r\n" NODE("$-1\r\n", "7001")),
        0));
    CHECK_EQ(map->count, 3); /* a null host means the host of the node that replied */
    CHECK_EQ(map->owner[0], 0);
    CHECK_EQ(map->owner[8191], 0);
    CHECK_EQ(map->owner[8192], 2);
    CHECK_EQ(map->owner[16383], 2);
    CHECK(!map->replica[0] && map->replica[1] && !map->replica[2]);
    CHECK_EQ(map->nodes[1]->port, 7003);
    CHECK_STR(map->nodes[2]->host, "127.0.0.1");
    CHECK_EQ(map->nodes[2]->port, 7001);
    CHECK(map_read(
        map, bytes("*1\r\n*3\r\n:0\r\n:1\r\n" NODE("$9\r\n127.0.0.1\r\n", "7003")), 0));
    CHECK(!map->replica[1]); /* the replica was promoted */
    unmake(map);
}

TEST(what_is_not_understood_changes_nothing)
{
    static const char *const bad[] = {
        "*0\r\n",
        ":1\r\n",
        "*1\r\n:1\r\n",
        "*1\r\n*2\r\n:0\r\n:1\r\n",
        "*1\r\n*3\r\n:5\r\n:4\r\n" NODE("$1\r\nh\r\n", "1"),
        "*1\r\n*3\r\n:0\r\n:16384\r\n" NODE("$1\r\nh\r\n", "1"),
        "*1\r\n*3\r\n:-1\r\n:4\r\n" NODE("$1\r\nh\r\n", "1"),
        "*1\r\n*3\r\n:0\r\n:4\r\n" NODE("$1\r\nh\r\n", "70000"),
        "*1\r\n*3\r\n:0\r\n:4\r\n:5\r\n",
    };
    struct slot_map *map = make();
    map_give_all(map, 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK(!map_read(map, bytes(bad[i]), 0));
        CHECK_EQ(map->owner[1], 0);
    }
    unmake(map);
}

TEST(redirections)
{
    struct slot_map *map = make();
    unsigned slot = 0;
    uint16_t node = 0;
    CHECK(map_redirection(map, bytes("3999 127.0.0.1:6381"), 0, &slot, &node));
    CHECK(slot == 3999 && node == 1 && map->nodes[1]->port == 6381);
    CHECK(map_redirection(map, bytes("16383 :6382"), 0, &slot, &node));
    CHECK(node == 2 && strcmp(map->nodes[2]->host, "127.0.0.1") == 0);
    CHECK(map_redirection(map, bytes("0 ::1:6382"), 0, &slot, &node));
    CHECK_STR(map->nodes[node]->host, "::1");
    CHECK(map_redirection(map, bytes("0 [::1]:6382"), 0, &slot, &node));
    CHECK_EQ(map->count, 4);
    static const char *const bad[] = { "",      "x h:1",     "16384 h:1", "5",
                                       "5 ",    "5 h",       "5 h:",      "5 h:0",
                                       "5 h:x", "5 h:65536", "5 h:1 x",   "5h:1",
                                       "-1 h:1" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (map_redirection(map, bytes(bad[i]), 0, &slot, &node)) {
            check_fail(__FILE__, __LINE__, "'%s' was accepted", bad[i]);
        }
    }
    CHECK_EQ(map_address(map, bytes(":7000"), MAP_NOBODY), MAP_NOBODY);
    unmake(map);
}

TEST(nodes_are_limited)
{
    struct slot_map *map = make();
    for (unsigned port = 1; port <= MAP_NODES + 10; port++) {
        const uint16_t node = map_node(map, bytes("h"), (uint16_t)port);
        CHECK_EQ(node, port < MAP_NODES ? port : MAP_NOBODY);
    }
    char host[LINK_HOST + 1];
    memset(host, 'h', sizeof host);
    map_free(map);
    CHECK_EQ(map_node(map, (bg_bytes){ host, LINK_HOST }, 1), MAP_NOBODY);
    CHECK_EQ(map_node(map, (bg_bytes){ host, LINK_HOST - 1 }, 1), 0);
    unmake(map);
}
