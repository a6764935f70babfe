/* batch.h - batch operations on a core, for structures that are not a bg_filter. */
#ifndef BGI_BATCH_H
#define BGI_BATCH_H

#include "kind/kind.h"

/* Queries n hashes, as bg_filter_may_contain_many does. If `core` is NULL, every answer is
 * "maybe". */
size_t bgi_batch_query(const struct bgi_core *core, const uint64_t *hashes, size_t n,
                       uint64_t *maybe);

#endif
