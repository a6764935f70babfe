/*
 * bloomgate.h - the part of the library that every program needs: filters and their files.
 *
 *     #include <bloomgate/bloomgate.h>
 *
 * Start with filter.h. The other headers in this tier are spec.h (the description of a
 * filter), plan.h (sizing), machine.h (the machine to plan for), kind.h (the kinds of
 * filter), keys.h (arrays of keys), hash.h (hash profiles), builder.h (filters built from
 * all keys at once), file.h (saving and opening), err.h (errors) and version.h.
 *
 * Include the following headers separately when you need them:
 *
 *   combine.h      merge, fold, resize, compact and compare filters
 *   window.h       filters that forget: the last T seconds or the last N keys
 *   loader.h       fill one filter from several threads
 *   inspect.h      estimates from a sample, occupancy, predicted rates
 *   hasher.h       hash keys yourself
 *   memory.h       place filters in your own memory, move them, limit the total
 *   file_tools.h   publish, encode, merge, split, compare and patch files
 *   oplog.h        log the changes since the last save
 *   foreign.h      filters from other software: Parquet, Guava, RedisBloom and others
 *   packed.h       a filter inside a storage-engine block
 *   keyring.h      secrets of keyed filters
 *   cpu.h          which instruction set is used
 *   server.h       long-running services: slots, gates, tenants, admission, metrics
 *   all.h          everything
 *
 * The library opens no sockets. It opens only the files that the caller specifies and
 * the kernel's description of the machine (machine.h). It prints nothing, never exits and
 * installs no signal handlers. Two functions start threads: bg_builder_finish_threaded,
 * whose threads exit before it returns, and bg_watch_thread_start. The library needs no
 * initialization. Its only global state is the detected CPU, the memory guard (memory.h),
 * and the counters that track which threads are inside slot lookups.
 */
#ifndef BLOOMGATE_H
#define BLOOMGATE_H

#include "bloomgate/builder.h"
#include "bloomgate/err.h"
#include "bloomgate/file.h"
#include "bloomgate/filter.h"
#include "bloomgate/hash.h"
#include "bloomgate/keys.h"
#include "bloomgate/kind.h"
#include "bloomgate/machine.h"
#include "bloomgate/plan.h"
#include "bloomgate/spec.h"
#include "bloomgate/version.h"

#endif
