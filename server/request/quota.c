/* quota.c - see quota.h. */
#include "request/quota.h"

#include "core/server.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- Counting -------------------------------------------------------------------------------- */

static void quota_changed(void *context, bg_bytes name, int64_t names, int64_t bytes)
{
    users_charge(context, name, names, bytes);
}

void quota_watch(struct server *server)
{
    const struct catalog_watch watch = { quota_changed, server->users };
    catalog_set_watch(server->catalog, &watch);
}

struct quota_sum {
    const struct user *user;
    int64_t filters, bytes;
};

/* Called under the catalog's lock, so that no change is missed or counted twice. */
static bg_err quota_sum_entry(void *context, struct entry *entry, bg_errinfo *info)
{
    struct quota_sum *sum = context;
    (void)info;
    if (!entry) {
        user_set_usage(sum->user, sum->filters, sum->bytes);
    } else if (user_may_touch(sum->user, catalog_name(entry), USER_WRITE)) {
        sum->filters++;
        sum->bytes += (int64_t)entry->charged;
    }
    return BG_OK;
}

static void quota_count_user(struct server *server, const struct user *user)
{
    struct quota_sum sum = { .user = user };
    (void)catalog_each(server->catalog, quota_sum_entry, &sum, NULL);
}

enum { QUOTA_USERS = 64 };

struct quota_uncounted {
    const struct user *users[QUOTA_USERS];
    size_t n;
};

static void quota_collect(void *context, const struct user *user,
                          const char *const *words, size_t n)
{
    struct quota_uncounted *all = context;
    (void)words;
    (void)n;
    if (all->n < QUOTA_USERS && user_has_quota(user) && !user_has_usage(user)) {
        user_hold(user);
        all->users[all->n++] = user;
    }
}

/* Collects the users first: the catalog's lock must not be taken while the users are locked. */
void quota_count(struct server *server)
{
    struct quota_uncounted all;
    do {
        all.n = 0;
        users_each(server->users, quota_collect, &all);
        for (size_t i = 0; i < all.n; i++) {
            quota_count_user(server, all.users[i]);
            user_let_go(all.users[i]);
        }
    } while (all.n == QUOTA_USERS);
}

/* ---- Requests -------------------------------------------------------------------------------- */

static void quota_explain(const struct user *user, const char *what, uint64_t bytes,
                          char why[LEDGER_WHY])
{
    struct user_figures figures;
    user_about(user, &figures);
    (void)snprintf(
        why, LEDGER_WHY,
        "%s %llu bytes: user %.80s uses %llu of %llu bytes; drop filters, or raise "
        "quota-memory",
        what, (unsigned long long)bytes, user_name(user),
        (unsigned long long)figures.bytes, (unsigned long long)figures.max_bytes);
}

static bool quota_take(struct ledger_budget *budget, uint64_t bytes,
                       char why[LEDGER_WHY])
{
    struct quota *quota = (struct quota *)budget;
    if (!quota->writes) {
        return true;
    }
    if (!user_reserve(quota->user, bytes)) {
        quota_explain(quota->user, "cannot allocate", bytes, why);
        return false;
    }
    quota->taken += bytes;
    return true;
}

static void quota_give(struct ledger_budget *budget, uint64_t bytes)
{
    struct quota *quota = (struct quota *)budget;
    /* The request may also free memory that it has not reserved. */
    const uint64_t own = bytes < quota->taken ? bytes : quota->taken;
    quota->taken -= own;
    user_unreserve(quota->user, own);
}

static void quota_end_lease(void *owner, uint64_t bytes)
{
    user_dump_ends(owner, bytes);
    user_unreserve(owner, bytes);
    user_let_go(owner);
}

static bool quota_lease(struct ledger_budget *budget, uint64_t bytes,
                        struct ledger_lease *lease, char why[LEDGER_WHY])
{
    const struct user *user = ((struct quota *)budget)->user;
    if (!user_reserve(user, bytes)) {
        quota_explain(user, "cannot allocate", bytes, why);
        return false;
    }
    user_dump_begins(user, bytes);
    user_hold(user);
    *lease = (struct ledger_lease){ quota_end_lease, (void *)(uintptr_t)user, bytes };
    return true;
}

void quota_begin(struct quota *quota, struct session *session, bool writes)
{
    const struct user *user = session->client ? session->client->user : NULL;
    *quota = (struct quota){ .budget = { quota_take, quota_give, quota_lease },
                             .writes = writes };
    if (!user || !user_has_quota(user)) {
        return;
    }
    if (!user_has_usage(user)) { /* the user was added by a reload just now */
        quota_count_user(session->server, user);
    }
    quota->user = user;
    quota->outer = session->quota;
    session->quota = quota;
    quota->outer_budget = ledger_set_budget(&quota->budget);
}

void quota_end(struct quota *quota, struct session *session, bg_bytes name)
{
    if (!quota->user) {
        return;
    }
    (void)ledger_set_budget(quota->outer_budget);
    session->quota = quota->outer;
    struct entry *entry = quota->taken ? session_find(session, name) : NULL;
    if (entry) {
        catalog_measure_entry(session->server->catalog, entry);
    }
    user_unreserve(quota->user, quota->taken);
}

static bg_err quota_refuse(const char *why, bg_errinfo *info)
{
    ledger_refused(why);
    *info = (bg_errinfo){ .code = BG_ENOMEM };
    (void)snprintf(info->message, sizeof info->message, "%s", why);
    return BG_ENOMEM;
}

bg_err quota_rename(const struct session *session, bg_bytes from, bg_bytes to,
                    bg_errinfo *info)
{
    char why[LEDGER_WHY];
    if (!session->quota || to.len <= from.len
        || quota_take(&session->quota->budget, to.len - from.len, why)) {
        return BG_OK;
    }
    return quota_refuse(why, info);
}

static bg_err quota_admit(void *context, int64_t names, int64_t bytes, bg_errinfo *info)
{
    const struct quota *quota = context;
    char why[LEDGER_WHY];
    struct user_figures figures;
    if (user_admits(quota->user, names, bytes, quota->taken)) {
        return BG_OK;
    }
    user_about(quota->user, &figures);
    if (names > 0 && figures.max_filters && figures.filters >= figures.max_filters) {
        *info = (bg_errinfo){ .code = BG_EQUOTA };
        (void)snprintf(info->message, sizeof info->message,
                       "cannot create another filter: user %.80s has %llu of %llu "
                       "filters; drop filters, or raise quota-filters",
                       user_name(quota->user), (unsigned long long)figures.filters,
                       (unsigned long long)figures.max_filters);
        return BG_EQUOTA;
    }
    quota_explain(quota->user, "cannot add a filter of", (uint64_t)bytes, why);
    return quota_refuse(why, info);
}

void quota_terms(const struct session *session, struct catalog_terms *terms)
{
    if (session->quota) {
        terms->admit = quota_admit;
        terms->context = session->quota;
    }
}
