/* batch.h - batches on a core, for what is not a bg_filter. */
#ifndef BGI_BATCH_H
#define BGI_BATCH_H

#include "kind/kind.h"

/* As bg_filter_may_contain_many_hash; NULL for the core: "maybe" to all. */
size_t bgi_batch_ask(const struct bgi_core *core, const uint64_t *hashes, size_t n,
                     uint64_t *maybe);

#endif
