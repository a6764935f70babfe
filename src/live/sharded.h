/* sharded.h - filters in shards, for those who have the shards already. */
#ifndef BGI_LIVE_SHARDED_H
#define BGI_LIVE_SHARDED_H

#include "filter/handle.h"

/* Makes one filter of `count` shards, in the order of their numbers, which belong to it from
 * then on; when it fails they do not. They are of the same geometry and hash. */
bg_err bgi_sharded_join(bg_filter *const *shards, uint32_t count, bg_filter **filter,
                        bg_errinfo *info);

#endif
