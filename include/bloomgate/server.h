/*
 * server.h - the second tier: filters in long-running services.
 *
 *   slot.h        replace, reload and rebuild a filter while threads use it
 *   gate.h        put a filter in front of a database or any slow backing store
 *   registry.h    one filter per tenant, with quotas
 *   admission.h   admit only keys seen before to a cache
 *   metrics.h     export metrics of slots, gates and registries
 *
 * This header also includes bloomgate.h, keyring.h and oplog.h, which most services need.
 */
#ifndef BLOOMGATE_SERVER_H
#define BLOOMGATE_SERVER_H

#include "bloomgate/admission.h"
#include "bloomgate/bloomgate.h"
#include "bloomgate/gate.h"
#include "bloomgate/keyring.h"
#include "bloomgate/metrics.h"
#include "bloomgate/oplog.h"
#include "bloomgate/registry.h"
#include "bloomgate/slot.h"

#endif
