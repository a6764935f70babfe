/*
 * quota.h - enforces the quotas of users (users.h) while a request runs.
 *
 * A request of a user with a quota runs with a budget (ledger.h): memory that it allocates for
 * filters is reserved from the user's quota before it is allocated, so concurrent requests cannot
 * exceed the quota together. The reservation ends with the request. By that time, the catalog
 * has counted the memory:
 *
 *   (Q1) a new object is checked and counted under the catalog's lock, when it is added under its
 *        name;
 *   (Q2) an object that has grown, or has a longer name, is counted before the reservation ends;
 *   (Q3) all objects are measured once a second, which also covers changes by other users.
 *
 * The copy of a dump is not part of an object. The user that started the dump reserves the copy
 * until it is freed (ledger_lease), so dumps never count toward the quotas of other users.
 *
 * Recovery and snapshots have no client, so they are never refused. Thread safety: one thread per
 * quota.
 */
#ifndef SERVER_REQUEST_QUOTA_H
#define SERVER_REQUEST_QUOTA_H

#include "ledger.h"
#include "request/session.h"

struct quota {
    struct ledger_budget budget; /* must be first */
    const struct user *user;     /* NULL: no quota applies */
    bool writes;                 /* otherwise, only leases are reserved */
    uint64_t taken;              /* bytes reserved by this request */
    struct ledger_budget *outer_budget;
    struct quota *outer;
};

/* Starts a request of the session's client. Working memory is reserved only if the request
 * `writes`, so users that have used up their quotas can still read. */
void quota_begin(struct quota *quota, struct session *session, bool writes);

/* Ends a request. `name` is the filter that it may have changed; filters that it has created are
 * counted already (Q1). If there is no filter with this name, nothing is measured. */
void quota_end(struct quota *quota, struct session *session, bg_bytes name);

/* Sets the terms for adding an object in the current request. */
void quota_terms(const struct session *session, struct catalog_terms *terms);

/* Reserves the memory by which a new name is longer. Call it before catalog_rename. */
bg_err quota_rename(const struct session *session, bg_bytes from, bg_bytes to,
                    bg_errinfo *info);

/* Makes the catalog report changes to the users. Call it once, when both have been created. */
void quota_watch(struct server *server);

/* Initializes the usage of users whose filters have not been counted yet. Call it after
 * users_load. */
void quota_count(struct server *server);

#endif
