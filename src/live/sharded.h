/* sharded.h - creates a sharded filter from existing shards. */
#ifndef BGI_LIVE_SHARDED_H
#define BGI_LIVE_SHARDED_H

#include "filter/handle.h"

/* Creates one filter from `count` shards, ordered by shard index. The shards must have the same
 * geometry and hash function. On success the filter owns the shards; on error the caller still owns
 * them. */
bg_err bgi_sharded_join(bg_filter *const *shards, uint32_t count, bg_filter **filter,
                        bg_errinfo *info);

#endif
