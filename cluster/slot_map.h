/*
 * slot_map.h - the known nodes of a cluster, and the slots that they own.
 *
 * The map is read with CLUSTER SLOTS and updated by MOVED replies. The map may be out of date at
 * any time, which is harmless: a node that does not own a slot redirects the client to the node
 * that does. A server outside a cluster owns all slots.
 *
 *     CLUSTER SLOTS    a list of (first slot, last slot, (host, port, ...) of the primary,
 *                      replicas ...)
 *     redirection      MOVED 3999 127.0.0.1:6381; an empty host means the host of the replying node
 *
 * Known nodes are kept permanently, up to MAP_NODES, and are identified by their index.
 * Thread safety: one thread per map.
 */
#ifndef CLUSTER_SLOT_MAP_H
#define CLUSTER_SLOT_MAP_H

#include "node_link.h"
#include "shard_names.h"

enum { MAP_NODES = 2048, MAP_NOBODY = UINT16_MAX };

struct slot_map {
    const struct link_how *how; /* options for links to new nodes */
    struct node_link *nodes[MAP_NODES];
    size_t count;
    uint16_t owner[SHARD_SLOTS]; /* index of each slot's owner, or MAP_NOBODY */
    bool replica[MAP_NODES];     /* nodes that replicate one of the owners */
};

void map_init(struct slot_map *map);
void map_free(struct slot_map *map);

/* Returns the index of a node, and adds it if it is new. Returns MAP_NOBODY if there are too many
 * nodes or the host name is invalid. */
uint16_t map_node(struct slot_map *map, bg_bytes host, uint16_t port);

/* Like map_node, but parses the text "host:port". An empty host means the host of node `from`,
 * unless `from` is MAP_NOBODY. */
uint16_t map_address(struct slot_map *map, bg_bytes address, uint16_t from);

/* Assigns all slots to one node. */
void map_give_all(struct slot_map *map, uint16_t node);

/* Reads the CLUSTER SLOTS reply of node `from`. Returns false, leaving the map unchanged, if the
 * reply is invalid or contains no slot. */
bool map_read(struct slot_map *map, bg_bytes reply, uint16_t from);

/* Parses "3999 host:port", as in MOVED and ASK. Returns false if the text is invalid. */
bool map_redirection(struct slot_map *map, bg_bytes text, uint16_t from, unsigned *slot,
                     uint16_t *node);

#endif
