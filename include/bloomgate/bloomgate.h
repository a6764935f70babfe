/*
 * bloomgate.h - all of Bloomgate's library.
 *
 * Reading order: filter.h is what most programs need; spec.h and plan.h say how to size
 * a filter; kind.h which kinds there are; hash.h how keys become hashes; builder.h makes
 * filters of all keys at once; loader.h fills one with several threads; window.h those that
 * forget; file.h keeps filters in files, packed.h in blocks of somebody else's file; foreign.h
 * reads and writes those of other software; oplog.h keeps what happened to a filter since it
 * was saved; slot.h, gate.h, registry.h, admission.h, keyring.h and metrics.h are for filters
 * that serve; err.h says how errors are told; cpu.h which instructions are used.
 *
 * The library opens no sockets, and no files but those that it is told to and the kernel's
 * description of the caches (once), prints nothing, never exits, installs no signal handlers,
 * and starts no threads but in functions that are named for it (bg_builder_finish_threaded,
 * bg_watch_thread_start); it needs no initialisation, and its only global state is what it
 * found out about the processor and, of each thread, how many look-ups of others may be
 * waiting for it.
 */
#ifndef BLOOMGATE_H
#define BLOOMGATE_H

#include "bloomgate/admission.h"
#include "bloomgate/builder.h"
#include "bloomgate/cpu.h"
#include "bloomgate/err.h"
#include "bloomgate/file.h"
#include "bloomgate/filter.h"
#include "bloomgate/foreign.h"
#include "bloomgate/gate.h"
#include "bloomgate/hash.h"
#include "bloomgate/keyring.h"
#include "bloomgate/kind.h"
#include "bloomgate/loader.h"
#include "bloomgate/metrics.h"
#include "bloomgate/oplog.h"
#include "bloomgate/packed.h"
#include "bloomgate/plan.h"
#include "bloomgate/registry.h"
#include "bloomgate/slot.h"
#include "bloomgate/spec.h"
#include "bloomgate/version.h"
#include "bloomgate/window.h"

#endif
