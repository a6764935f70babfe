/*
 * tenant.c - performs operations on a tenant's keys, and enforces quotas.
 *
 * Every operation enters the registry's grace period, loads the slot, does its work and leaves.
 * If the slot is not in memory, the operation leaves at once, waits until the slot is in memory
 * again (evict.c), and starts over. As a result, a thread that removes the slot can detect when the
 * slot is no longer in use.
 *
 * Quotas, in the order in which they are checked:
 *
 *   rate    Tokens are taken before anything else is done, so that in a flood of adds, each call
 *           costs only one compare-and-swap. If the add is refused later, its tokens are lost.
 *   bytes   A filter that is too large accepts no adds. For a filter that grows (`scalable`), this
 *           check would come too late, after the filter has grown. However, the filter's spec
 *           determines how many keys it can hold before its next layer would be too large
 *           (ladder.h). Adds are accepted up to that number of keys, and (Q1) also holds for this
 *           limit. A window stops growing at the quota, but still accepts adds.
 *   items   (Q1) `items` never exceeds the quota: an add first reserves one item per key, if there
 *           is space, and then gives back the items for keys that were not new. When two threads
 *           compete for the last item, one thread may be refused even if the other thread's key is
 *           not new and its item is given back. A key that may already be in the filter is accepted
 *           even if no items are left, because it does not add an item.
 *
 * References. `uses` counts the references held by users and by the registry. The registry drops
 * its reference one grace period after removing the tenant from the table. By then, every thread
 * that found the tenant in the table has taken its own reference, because threads do so before they
 * leave the grace period. The last release frees the tenant. The lowest bit of `uses` is set if the
 * slot or its gate has been handed out (bg_tenant_slot, bg_tenant_gate). The slot then stays in
 * memory until all holders have released the tenant.
 */
#include "gate/tenant.h"

#include "gate/gate_body.h"

#include <string.h>

/* ---- Lifecycle ----------------------------------------------------------------------- */

bg_tenant *tenant_make(bg_registry *registry, const char *name, uint64_t hash)
{
    struct bgi_memory memory;
    if (!bgi_memory_take(&memory, sizeof(bg_tenant), registry_allocator(registry),
                         true)) {
        return NULL;
    }
    bg_tenant *tenant = memory.base;
    tenant->memory = memory;
    tenant->registry = registry;
    tenant->hash = hash;
    tenant->state = TENANT_DISK;
    memcpy(tenant->name, name, strlen(name) + 1);
    atomic_init(&tenant->uses, TENANT_ONE);
    atomic_init(&tenant->last_use, registry_coarse_now(registry));
    (void)pthread_mutex_init(&tenant->lock, NULL);
    (void)pthread_cond_init(&tenant->turn, NULL);
    return tenant;
}

/* Frees a tenant that no other thread can reach anymore. */
static void tenant_free(bg_tenant *tenant)
{
    bg_slot *slot = atomic_load(&tenant->slot);
    struct bgi_memory memory = tenant->memory;
    if (tenant->state == TENANT_MEMORY) {
        atomic_fetch_sub(&tenant->registry->in_memory, 1);
    }
    atomic_fetch_sub(&tenant->registry->bytes, atomic_load(&tenant->bytes));
    bg_gate_free(tenant->gate);
    bg_slot_free(slot);
    (void)pthread_cond_destroy(&tenant->turn);
    (void)pthread_mutex_destroy(&tenant->lock);
    bgi_memory_give(&memory);
}

void tenant_hold(bg_tenant *tenant)
{
    atomic_fetch_add(&tenant->uses, TENANT_ONE);
}

void bg_tenant_release(bg_tenant *tenant)
{
    if (!tenant) {
        return;
    }
    uint64_t left = atomic_fetch_sub(&tenant->uses, TENANT_ONE) - TENANT_ONE;
    if (left < TENANT_ONE) {
        tenant_free(tenant);
    } else if (left == (TENANT_ONE | TENANT_EXPOSED)) {
        /* Only the registry's reference is left, so clear the lowest bit of `uses`. If another
         * thread takes a reference first, the exchange fails and the bit stays set. Do not access
         * the tenant after the exchange, because another thread may remove and free it. */
        (void)atomic_compare_exchange_strong(&tenant->uses, &left, TENANT_ONE);
    }
}

const char *bg_tenant_name(const bg_tenant *tenant)
{
    return tenant ? tenant->name : "";
}

/* ---- The slot ------------------------------------------------------------------------ */

bg_err tenant_fill(bg_tenant *tenant, bg_filter *filter, uint64_t complete,
                   bg_slot **slot, bg_gate **gate, bg_errinfo *info)
{
    const bg_registry_options *options = &tenant->registry->options;
    bg_slot_options how = BG_SLOT_OPTIONS_INIT;
    how.complete = complete;
    how.clock = options->clock;
    how.context = options->context;
    how.allocator = registry_allocator(tenant->registry);
    *gate = NULL;
    bg_err err = bg_slot_create(filter, &how, slot, info);
    if (!err && options->gate) {
        err = bg_gate_create(*slot, options->gate, gate, info);
        if (err) {
            bg_slot_free(*slot); /* and the filter */
            *slot = NULL;
        }
    } else if (err) {
        bg_filter_free(filter);
    }
    return err;
}

static uint64_t tenant_slot_bytes(const bg_slot *slot)
{
    uint64_t bytes = 0;
    const bg_filter *filter;
    bg_pin pin;
    bg_slot_pin(slot, &pin);
    for (size_t i = 0; (filter = bg_pin_filter(&pin, i, NULL)) != NULL; i++) {
        bytes += bg_filter_size_bytes(filter);
    }
    bg_slot_unpin(slot, &pin);
    return bytes;
}

void tenant_measure(bg_tenant *tenant, bg_slot *slot)
{
    uint64_t bytes = tenant_slot_bytes(slot);
    if (bytes != atomic_load(&tenant->bytes)) {
        uint64_t before = atomic_exchange(&tenant->bytes, bytes);
        atomic_fetch_add(&tenant->registry->bytes, bytes - before); /* modulo 2^64 */
    }
}

static bool tenant_is_growing(const bg_slot *slot)
{
    bg_pin pin;
    bg_slot_pin(slot, &pin);
    const bg_kind kind = bg_filter_kind(bg_pin_filter(&pin, 0, NULL));
    bg_slot_unpin(slot, &pin);
    return kind == BG_KIND_SCALABLE || kind == BG_KIND_WINDOW;
}

void tenant_open(bg_tenant *tenant, bg_slot *slot, bg_gate *gate)
{
    tenant->gate = gate;
    tenant->grows = tenant_is_growing(slot);
    tenant->state = TENANT_MEMORY;
    tenant_measure(tenant, slot);
    atomic_fetch_add(&tenant->registry->in_memory, 1);
    atomic_store(&tenant->slot, slot);
}

void tenant_stamp(bg_tenant *tenant)
{
    const bg_registry *registry = tenant->registry;
    if (registry->options.idle == 0) {
        return;
    }
    /* Writing the time at every use would be too expensive, because all CPUs read its cache line; a
     * precision of 1/256 of `idle` is enough. If the clock goes backward, the unsigned difference
     * is large, so the new time is stored. */
    uint64_t now = registry_coarse_now(registry);
    uint64_t last = atomic_load_explicit(&tenant->last_use, memory_order_relaxed);
    if (now - last > registry->options.idle / 256) {
        atomic_store_explicit(&tenant->last_use, now, memory_order_relaxed);
    }
}

/* Enters the grace period and sets *slot to the tenant's slot, which stays valid until
 * bgi_grace_leave. On error, the grace period is not entered. */
static bg_err tenant_enter(bg_tenant *tenant, bgi_grace_token *token, bg_slot **slot,
                           bg_errinfo *info)
{
    bg_err err = BG_OK;
    while (!err) {
        *token = bgi_grace_enter(&tenant->registry->grace);
        *slot = atomic_load(&tenant->slot);
        if (*slot) {
            tenant_stamp(tenant);
            return BG_OK;
        }
        bgi_grace_leave(&tenant->registry->grace, *token);
        err = tenant_return(tenant, info);
    }
    return err;
}

static void tenant_leave(bg_tenant *tenant, bgi_grace_token token)
{
    bgi_grace_leave(&tenant->registry->grace, token);
}

/* Returns the slot, which then stays in memory as long as the tenant is held. Changes that callers
 * make through the slot cannot be detected here, so the tenant is marked as changed in advance. */
static bg_slot *tenant_expose(bg_tenant *tenant, bg_gate **gate)
{
    bgi_grace_token token;
    bg_slot *slot;
    if (!tenant || tenant_enter(tenant, &token, &slot, NULL) != BG_OK) {
        return NULL;
    }
    atomic_fetch_or(&tenant->uses, TENANT_EXPOSED);
    atomic_store(&tenant->changed, true);
    *gate = tenant->gate;
    tenant_leave(tenant, token);
    return slot;
}

bg_slot *bg_tenant_slot(bg_tenant *tenant)
{
    bg_gate *gate = NULL;
    return tenant_expose(tenant, &gate);
}

bg_gate *bg_tenant_gate(bg_tenant *tenant)
{
    bg_gate *gate = NULL;
    (void)tenant_expose(tenant, &gate);
    return gate;
}

/* ---- Quotas -------------------------------------------------------------------------- */

/* A quota: its name, unit and value. */
struct tenant_limit {
    const char *what;
    const char *unit;
    double most;
    const char *used; /* text that follows the current value in the error message */
};

/* Counts `keys` keys as refused, and reports the quota that would be exceeded. */
static bg_err tenant_refuse(bg_tenant *tenant, enum tenant_quota quota, uint64_t keys,
                            struct tenant_limit limit, uint64_t found, bg_errinfo *info)
{
    atomic_fetch_add_explicit(&tenant->limited[quota], keys, memory_order_relaxed);
    atomic_fetch_add_explicit(&tenant->registry->limited, keys, memory_order_relaxed);
    if (!info) { /* fast path for floods of adds whose callers request no details */
        return BG_EQUOTA;
    }
    return bgi_err_state(info, BG_EQUOTA, limit.what,
                         "%s would be exceeded: %llu %s, and the limit is %.15g %s",
                         limit.what, (unsigned long long)found, limit.used, limit.most,
                         limit.unit);
}

static bg_err tenant_refuse_items(bg_tenant *tenant, uint64_t keys, bg_errinfo *info)
{
    const uint64_t most = tenant->registry->options.max_items;
    return tenant_refuse(
        tenant, TENANT_ITEMS, keys,
        (struct tenant_limit){ "max_items", "items", (double)most, "items are in use" },
        most, info);
}

static bg_err tenant_refuse_bytes(bg_tenant *tenant, uint64_t keys, bg_errinfo *info)
{
    const uint64_t most = tenant->registry->options.max_bytes;
    const char *used = atomic_load(&tenant->bytes) > most
                           ? "bytes are in use"
                           : "bytes are in use, and the next layer needs more";
    return tenant_refuse(
        tenant, TENANT_BYTES, keys,
        (struct tenant_limit){ "max_bytes", "bytes", (double)most, used },
        atomic_load(&tenant->bytes), info);
}

static bg_err tenant_refuse_total(bg_tenant *tenant, uint64_t keys, bg_errinfo *info)
{
    const uint64_t most = tenant->registry->options.max_total_bytes;
    return tenant_refuse(tenant, TENANT_BYTES, keys,
                         (struct tenant_limit){ "max_total_bytes",
                                                "bytes for all tenants", (double)most,
                                                "bytes are in use" },
                         atomic_load(&tenant->registry->bytes), info);
}

static bg_err tenant_refuse_rate(bg_tenant *tenant, uint64_t keys, bg_errinfo *info)
{
    const double most = tenant->registry->options.inserts_per_second;
    return tenant_refuse(tenant, TENANT_RATE, keys,
                         (struct tenant_limit){ "inserts_per_second",
                                                "inserts per second", most,
                                                "more keys were passed" },
                         keys, info);
}

/* Returns the maximum number of items for the tenant, and the quota that sets this limit. */
static uint64_t tenant_most_items(const bg_tenant *tenant, enum tenant_quota *quota)
{
    const bg_registry *registry = tenant->registry;
    uint64_t most =
        registry->options.max_items ? registry->options.max_items : UINT64_MAX;
    *quota = TENANT_ITEMS;
    if (tenant->grows && registry->grown_items && registry->grown_items < most) {
        most = registry->grown_items;
        *quota = TENANT_BYTES;
    }
    return most;
}

/* Reserves n items, or as many as the limit allows. */
static uint64_t tenant_reserve(bg_tenant *tenant, uint64_t most, uint64_t n)
{
    uint64_t items = atomic_load_explicit(&tenant->items, memory_order_relaxed), room;
    do {
        room = items < most ? most - items : 0;
        room = room < n ? room : n;
    } while (room
             && !atomic_compare_exchange_weak_explicit(
                 &tenant->items, &items, items + room, memory_order_relaxed,
                 memory_order_relaxed));
    return room;
}

/* Refuses an add if the filter exceeds max_bytes, or if the filter has grown and all filters
 * together exceed max_total_bytes. */
static bg_err tenant_check_bytes(bg_tenant *tenant, uint64_t n, bg_errinfo *info)
{
    const bg_registry *registry = tenant->registry;
    const uint64_t most = registry->options.max_bytes;
    const uint64_t most_total = registry->options.max_total_bytes;
    uint64_t bytes = atomic_load_explicit(&tenant->bytes, memory_order_relaxed);
    if (most && bytes > most) {
        return tenant_refuse_bytes(tenant, n, info);
    }
    if (most_total && tenant->grows && bytes > registry->planned_bytes) {
        uint64_t total = atomic_load_explicit(&registry->bytes, memory_order_relaxed);
        return total > most_total ? tenant_refuse_total(tenant, n, info) : BG_OK;
    }
    return BG_OK;
}

/* ---- Adding -------------------------------------------------------------------------- */

/* The arguments of an add, and its results so far. */
struct tenant_adding {
    const bg_bytes *keys;
    size_t n, done, added;
};

static bg_err tenant_put(bg_tenant *tenant, bg_slot *slot, const bg_bytes *keys,
                         size_t n, size_t *done, size_t *added)
{
    bool is_new = false;
    if (!atomic_load(
            &tenant->changed)) { /* before the first bit is set; see (C1) in evict.c */
        atomic_store(&tenant->changed, true);
    }
    if (n > 1) {
        return bg_slot_add_many(slot, bg_keys_bytes(keys, n), NULL, done, added);
    }
    bg_err err = bg_slot_add(slot, keys->data, keys->len, &is_new);
    *done = !err;
    *added = is_new;
    return err;
}

/* Reserves items for as many of the next keys as the limit allows, and adds these keys. If no items
 * are left, adds the next key only if it may already be in the filter. */
static bg_err tenant_add_piece(bg_tenant *tenant, bg_slot *slot,
                               struct tenant_adding *adding, bg_errinfo *info)
{
    enum tenant_quota quota;
    const bg_bytes *keys = adding->keys + adding->done;
    const uint64_t most = tenant_most_items(tenant, &quota);
    size_t left = adding->n - adding->done, done = 0, added = 0;
    uint64_t places = most == UINT64_MAX ? 0 : tenant_reserve(tenant, most, left);
    if (most != UINT64_MAX && places == 0
        && !bg_slot_may_contain(slot, keys->data, keys->len)) {
        return quota == TENANT_ITEMS ? tenant_refuse_items(tenant, left, info)
                                     : tenant_refuse_bytes(tenant, left, info);
    }
    size_t piece = most == UINT64_MAX ? left : places ? (size_t)places : 1;
    bg_err err = tenant_put(tenant, slot, keys, piece, &done, &added);
    for (size_t i = 0; tenant->gate && i < done; i++) {
        gate_added(tenant->gate, keys[i]);
    }
    adding->done += done;
    adding->added += added;
    if (added != places) { /* modulo 2^64 */
        atomic_fetch_add_explicit(&tenant->items, added - places, memory_order_relaxed);
    }
    return err ? bgi_err_state(info, err, "key", "cannot add the key: %s",
                               bg_strerror(err))
               : BG_OK;
}

/* Adds the first adding->n keys. */
static bg_err tenant_add_keys(bg_tenant *tenant, struct tenant_adding *adding,
                              bg_errinfo *info)
{
    bgi_grace_token token;
    bg_slot *slot;
    bg_err err = tenant_enter(tenant, &token, &slot, info);
    if (err
        == BG_EQUOTA) { /* loading the tenant's filter would exceed max_total_bytes */
        return tenant_refuse_total(tenant, adding->n, info);
    }
    if (err) {
        return err;
    }
    err = tenant_check_bytes(tenant, adding->n, info);
    while (!err && adding->done < adding->n) {
        err = tenant_add_piece(tenant, slot, adding, info);
    }
    if (tenant->grows && adding->done) { /* windows grow even if no added key is new */
        tenant_measure(tenant, slot);
    }
    tenant_leave(tenant, token);
    return err;
}

/* Adds as many keys as the rate allows. */
static bg_err tenant_add(bg_tenant *tenant, struct tenant_adding *adding,
                         bg_errinfo *info)
{
    const bg_registry *registry = tenant->registry;
    const size_t n = adding->n;
    if (registry->rate.interval) {
        adding->n = (size_t)bucket_take(&tenant->bucket, &registry->rate,
                                        registry_now(registry), n);
    }
    bg_err err = adding->n ? tenant_add_keys(tenant, adding, info) : BG_OK;
    if (!err && adding->n < n) {
        err = tenant_refuse_rate(tenant, n - adding->n, info);
    }
    return err;
}

static bool tenant_keys_are_good(const bg_bytes *keys, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!keys[i].data && keys[i].len) {
            return false;
        }
    }
    return true;
}

bg_err bg_tenant_add(bg_tenant *tenant, const void *key, size_t len, bool *is_new,
                     bg_errinfo *info)
{
    const bg_bytes one = { key, len };
    struct tenant_adding adding = { .keys = &one, .n = 1 };
    if (is_new) {
        *is_new = false;
    }
    if (!tenant || (!key && len)) {
        return bgi_err(info, BG_EINVAL, "tenant, key", "a tenant and a key", "NULL");
    }
    bgi_err_clear(info);
    bg_err err = tenant_add(tenant, &adding, info);
    if (is_new) {
        *is_new = adding.added > 0;
    }
    return err;
}

bg_err bg_tenant_add_many(bg_tenant *tenant, const bg_bytes *keys, size_t n,
                          size_t *done, size_t *added, bg_errinfo *info)
{
    struct tenant_adding adding = { .keys = keys, .n = n };
    bg_err err = BG_OK;
    if (!tenant || (!keys && n) || !tenant_keys_are_good(keys, n)) {
        err = bgi_err(info, BG_EINVAL, "tenant, keys", "a tenant and n keys", "NULL");
    } else {
        bgi_err_clear(info);
        err = n ? tenant_add(tenant, &adding, info) : BG_OK;
    }
    if (done) {
        *done = adding.done;
    }
    if (added) {
        *added = adding.added;
    }
    return err;
}

/* ---- Queries ------------------------------------------------------------------------- */

bool bg_tenant_may_contain(bg_tenant *tenant, const void *key, size_t len)
{
    bgi_grace_token token;
    bg_slot *slot;
    if (!tenant || tenant_enter(tenant, &token, &slot, NULL) != BG_OK) {
        return true;
    }
    bool maybe = slot_in_doubt(slot);
    /* The slot is always queried, to update its counters. */
    maybe |= bg_slot_may_contain(slot, key, len);
    tenant_leave(tenant, token);
    return maybe;
}

size_t bg_tenant_may_contain_many(bg_tenant *tenant, const bg_bytes *keys, size_t n,
                                  uint64_t *maybe)
{
    bgi_grace_token token;
    bg_slot *slot;
    if (!tenant || tenant_enter(tenant, &token, &slot, NULL) != BG_OK) {
        return bg_slot_may_contain_many(NULL, bg_keys_bytes(keys, n),
                                        maybe); /* all answers are "maybe" */
    }
    bool doubts = slot_in_doubt(slot);
    size_t found =
        bg_slot_may_contain_many(doubts ? NULL : slot, bg_keys_bytes(keys, n), maybe);
    tenant_leave(tenant, token);
    return found;
}

/* ---- Figures ------------------------------------------------------------------------- */

bg_err bg_tenant_get_info(bg_tenant *tenant, bg_tenant_info *out)
{
    if (!tenant || !out || out->struct_size != sizeof *out) {
        return BG_EINVAL;
    }
    (void)pthread_mutex_lock(&tenant->lock);
    if (tenant->state == TENANT_DISK && !tenant->known) {
        tenant_learn(tenant);
    }
    bool in_memory = tenant->state == TENANT_MEMORY || tenant->state == TENANT_WRITING;
    bg_slot *slot = tenant->kept ? tenant->kept : atomic_load(&tenant->slot);
    if (in_memory) {
        tenant_measure(tenant, slot);
    }
    *out =
        (bg_tenant_info){ .struct_size = sizeof *out,
                          .in_memory = in_memory,
                          .items = atomic_load(&tenant->items),
                          .bytes = atomic_load(&tenant->bytes),
                          .limited_items = atomic_load(&tenant->limited[TENANT_ITEMS]),
                          .limited_bytes = atomic_load(&tenant->limited[TENANT_BYTES]),
                          .limited_rate = atomic_load(&tenant->limited[TENANT_RATE]),
                          .evictions = tenant->evictions,
                          .returns = tenant->returns,
                          .return_failures = tenant->return_failures };
    (void)pthread_mutex_unlock(&tenant->lock);
    return BG_OK;
}
