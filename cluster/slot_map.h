/*
 * slot_map.h - the nodes of a cluster that are known, and which of them has which slot.
 *
 * The map comes from CLUSTER SLOTS and is mended by MOVED. It may be out of date at any time, and
 * that does no harm: a node that does not have a slot says who does. A server that is no cluster has
 * all slots.
 *
 *     CLUSTER SLOTS    a list of (first slot, last slot, (host, port, ...) of the primary, replicas ...)
 *     redirection      MOVED 3999 127.0.0.1:6381; an empty host means that of who says so
 *
 * Nodes are kept for good once they are known, up to MAP_NODES, and have the numbers of their places.
 * Threads: belongs to one.
 */
#ifndef CLUSTER_SLOT_MAP_H
#define CLUSTER_SLOT_MAP_H

#include "node_link.h"
#include "shard_names.h"

enum { MAP_NODES = 2048, MAP_NOBODY = UINT16_MAX };

struct slot_map {
    const struct link_how *how; /* of links to nodes that are added */
    struct node_link *nodes[MAP_NODES];
    size_t count;
    uint16_t owner[SHARD_SLOTS]; /* numbers of nodes, or MAP_NOBODY */
    bool replica[MAP_NODES];     /* nodes that replicate one of these */
};

void map_init(struct slot_map *map);
void map_free(struct slot_map *map);

/* The number of a node, which is added if it is new; MAP_NOBODY: too many, or no such name. */
uint16_t map_node(struct slot_map *map, bg_bytes host, uint16_t port);

/* The same for "host:port"; an empty host is that of node `from`, unless that is MAP_NOBODY. */
uint16_t map_address(struct slot_map *map, bg_bytes address, uint16_t from);

/* All slots to one node. */
void map_give_all(struct slot_map *map, uint16_t node);

/* What CLUSTER SLOTS said at node `from`. False: it is not understood, or tells of no slot; then the
 * map is as it was. */
bool map_read(struct slot_map *map, bg_bytes reply, uint16_t from);

/* Reads "3999 host:port", what follows MOVED and ASK; false: it is not understood. */
bool map_redirection(struct slot_map *map, bg_bytes text, uint16_t from, unsigned *slot,
                     uint16_t *node);

#endif
