/*
 * evict.c - how tenants leave memory and return, and why no key is lost.
 *
 *                      (E1) idle                (E4) written
 *     used --> MEMORY -----------> WRITING ------------------> DISK <---------+
 *                ^ ^                  |                         |      failed |
 *                | +------------------+ (U2) used, (E4) failed  | (R1) used   |
 *                |                                              v             |
 *                +------------------------------------------ READING ---------+
 *                                   (R3) read
 *
 * Users (U), in tenant.c and tenant_return:
 *   (U1) Enter the grace period and load `slot`. If `slot` is not NULL, use the slot, then leave.
 *   (U2) Otherwise leave and take the tenant's lock. If the state is WRITING, put the slot back,
 *        which changes the state to MEMORY again. If the state is DISK, do (R1). If the state is
 *        READING, wait. Then repeat (U1).
 * The evictor (E) is bg_registry_tick, and only one runs at a time:
 *   (E1) Under the lock: set `slot` to NULL, set the slot aside, and change to WRITING.
 *   (E2) Wait for a grace period. One wait covers up to REGISTRY_WALK tenants.
 *   (E3) Write the slot to the file, unless the file is already up to date.
 *   (E4) Under the lock: if the state is still WRITING and the file was written, change to
 *        DISK and free the slot. If writing failed, put the slot back. If the state is not
 *        WRITING, another thread has already put the slot back.
 * The reader (R) is the first thread that needs the tenant:
 *   (R1) Under the lock: change to READING.
 *   (R2) Read the file, without a lock.
 *   (R3) Under the lock: set `slot` to the result and change to MEMORY. If the file cannot be
 *        read, change back to DISK; later users retry with exponential backoff. In both cases, wake
 *        all waiting threads. Until the file has been read, the tenant answers "maybe" and refuses
 *        adds. No empty filter is ever created in place of the file.
 *
 * Proof that every query finds the key of an add that returned BG_OK before the query started.
 *   The add performed (U1) with some slot S. S is freed only in (E4). By then the state has been
 *   WRITING without interruption since (E1), because an interruption (U2) changes the state to
 *   MEMORY, and only another (E1) changes it to WRITING again. So from (E1) to (E4) `slot` was
 *   NULL. The add got S, so it loaded `slot` before (E1), and had entered the grace period before
 *   that. By the end of (E2) the add had left (grace.h), and the key was in S. (E3) started after
 *   that, and a filter's file contains every key that was in the filter when saving started. So
 *   when S is freed, the file contains the key. The next slot is created from that file (R2). The
 *   file is not written between (E4) and (R3), because only evictors and bg_registry_save write
 *   files. Both of them hold registry->chores, and write only the files of tenants in memory. If
 *   another process has replaced the file, for example with an older file, the digest no longer
 *   matches and the file is rejected. If the file cannot be read, the answer is "maybe". If S was
 *   not freed, queries use S.
 *
 * Avoiding unnecessary writes. `changed` means that some keys may be missing from the file:
 *   (C1) An add sets `changed`, within the grace period, before it sets a bit.
 *   (C2) A thread that writes the file clears `changed`, writes the file, and sets `changed` again
 *        if writing failed. (E3) clears `changed` while no user can be using the slot, and
 *        bg_registry_save clears `changed` before a grace period.
 *   Claim: while `changed` is false, the file contains the key of every add that has returned.
 *   Consider an add whose key is not in the file. The add had not finished when writing started,
 *   so it entered after the grace period started, and therefore after `changed` was cleared. The
 *   add then found `changed` false and set it, or found it true because another add had set it in
 *   the meantime. Only a thread that writes the file clears `changed`. The holder of a slot that
 *   was handed out (bg_tenant_slot) may change the slot without setting `changed`. So the tenant
 *   counts as changed from the moment its slot is handed out, and again after every write for as
 *   long as the slot remains handed out.
 *
 * Stale files. Recent keys may be missing from the file of a tenant in memory. The file is
 * overwritten when the tenant is evicted, or by bg_registry_save. After a crash, the older file is
 * used, and keys that were only in memory are lost, as registry.h warns.
 *
 * Removal deletes the file while holding registry->files, and then removes the name from the
 * table. Evictors write under the same lock and check whether the tenant was removed. So the file
 * of a removed tenant never overwrites the file of a later tenant with the same name.
 *
 * A slot is in doubt if a gate wrote a key to the backing store but could not add it to the
 * filter. The slot must continue to answer "maybe", but a file does not record the doubt. So the
 * tenant that owns this slot stays in memory and is not saved. The gate may be the tenant's own
 * gate, or a gate that the caller created for the slot returned by bg_tenant_slot.
 */
#include "gate/tenant.h"

#include "gate/gate_body.h"

#include "base/checked.h"
#include "store/disk.h"
#include "store/metadata.h"

#include <stdio.h>
#include <string.h>

#define EVICT_PAUSE_MIN UINT64_C(100000000) /* nanoseconds */
#define EVICT_PAUSE_MAX UINT64_C(60000000000)

static void evict_lock(bg_tenant *tenant)
{
    (void)pthread_mutex_lock(&tenant->lock);
}

static void evict_unlock(bg_tenant *tenant)
{
    (void)pthread_mutex_unlock(&tenant->lock);
}

void tenant_path(const bg_tenant *tenant, char path[], size_t room)
{
    char form[NAME_FILE_BYTES];
    name_file_encode(tenant->name, form);
    (void)snprintf(path, room, "%s/%s.bg", tenant->registry->directory, form);
}

/* ---- Headers of files ------------------------------------------------------------------ */

/* Reads the header of a tenant's file, and checks that the file belongs to this tenant. */
static bg_err evict_about(const bg_tenant *tenant, const char *path,
                          bg_file_info *about, bg_errinfo *info)
{
    char form[NAME_FILE_BYTES], line[NAME_FILE_BYTES + 16];
    *about = (bg_file_info){ .struct_size = sizeof *about };
    bg_err err = bg_file_get_info(path, about, info);
    const char *found = err ? NULL : metadata_find(about->metadata, "tenant:");
    if (found) {
        name_file_encode(tenant->name, form);
        int n = snprintf(line, sizeof line, "tenant: %s\n", form);
        if (strncmp(found, line, (size_t)n) != 0) {
            err = bgi_err(info, BG_EINCOMPAT, "tenant in the file", form, "%.*s",
                          (int)strcspn(found, "\n"), found);
        }
    }
    return err;
}

void tenant_learn(bg_tenant *tenant)
{
    char path[DISK_PATH];
    bg_file_info about;
    uint64_t items;
    tenant_path(tenant, path, sizeof path);
    if (!tenant->removed && evict_about(tenant, path, &about, NULL) == BG_OK
        && metadata_number(about.metadata, "items:", &items)) {
        atomic_store(&tenant->items, items);
        tenant->known = true;
    }
}

/* ---- Returning ------------------------------------------------------------------------ */

/* The result of reading a file. */
struct evict_found {
    bg_slot *slot;
    bg_gate *gate;
    uint64_t items, bytes;
    uint8_t digest[BG_DIGEST_BYTES];
};

/* Estimates the number of items in a filter whose file does not record this number. */
static uint64_t evict_estimate(const bg_filter *filter)
{
    bg_filter_info info = { .struct_size = sizeof info };
    uint64_t items = 0;
    if (bg_filter_get_info(filter, &info) == BG_OK) {
        (void)bgi_u64_from_double(info.items.value, &items);
    }
    return items;
}

/* Opens the filter in the inspected file, and fails if the file has been replaced since its header
 * was read. */
static bg_err evict_open(const bg_tenant *tenant, const char *path,
                         const bg_file_info *about, bg_filter **filter,
                         bg_errinfo *info)
{
    bg_file_info read = { .struct_size = sizeof read };
    const uint64_t most = tenant->registry->options.spec.max_bytes;
    bg_open_options how = tenant->registry->opening;
    if (!how.max_bytes && most) { /* window files do not store this limit */
        how.max_bytes = most > about->word_bytes ? most : about->word_bytes;
    }
    bg_err err = bg_open_with_info(path, &how, &read, filter, info);
    if (!err && memcmp(read.digest, about->digest, sizeof read.digest) != 0) {
        bg_filter_free(*filter);
        err = bgi_err_state(info, BG_EINCOMPAT, "file digest",
                            "the tenant's file was replaced while it was being read");
    }
    return err;
}

static bg_err evict_fill(bg_tenant *tenant, bg_filter *filter,
                         const bg_file_info *about, struct evict_found *found,
                         bg_errinfo *info)
{
    uint64_t complete = 0, missed = 0;
    if (!metadata_number(about->metadata, "items:", &found->items)) {
        found->items = evict_estimate(filter);
    }
    (void)metadata_number(about->metadata, "complete:", &complete);
    (void)metadata_number(about->metadata, "missed:", &missed);
    memcpy(found->digest, about->digest, sizeof found->digest);
    bg_err err =
        tenant_fill(tenant, filter, complete, &found->slot, &found->gate, info);
    if (!err) {
        slot_adds_unnumbered(found->slot);
        if (missed) {
            slot_keep_missed(found->slot);
        }
        err = bg_slot_require_generation(found->slot, about->generation, info);
    }
    if (err) {
        bg_gate_free(found->gate);
        bg_slot_free(found->slot);
    }
    return err;
}

/* (R2). Also reserves the memory for the filter. */
static bg_err evict_read(bg_tenant *tenant, struct evict_found *found, bg_errinfo *info)
{
    char path[DISK_PATH];
    bg_file_info about;
    bg_filter *filter = NULL;
    tenant_path(tenant, path, sizeof path);
    bg_err err = evict_about(tenant, path, &about, info);
    if (err) {
        return err;
    }
    if (tenant->filed
        && memcmp(about.digest, tenant->digest, sizeof about.digest) != 0) {
        return bgi_err_state(info, BG_EINCOMPAT, "file digest",
                             "the tenant's file was replaced since the registry last "
                             "wrote or read it (its digest is now %s)",
                             about.digest_text);
    }
    found->bytes = about.word_bytes;
    if (!registry_reserve(tenant->registry, found->bytes)) {
        return bgi_err_state(
            info, BG_EQUOTA, "max_total_bytes",
            "loading the tenant's filter of %llu bytes would exceed max_total_bytes",
            (unsigned long long)found->bytes);
    }
    err = evict_open(tenant, path, &about, &filter, info);
    err = err ? err : evict_fill(tenant, filter, &about, found, info);
    if (err) {
        atomic_fetch_sub(&tenant->registry->bytes, found->bytes);
    }
    return err;
}

/* (R3) */
static void evict_came_back(bg_tenant *tenant, const struct evict_found *found)
{
    if (!tenant->known) {
        atomic_store(&tenant->items, found->items);
        tenant->known = true;
    }
    memcpy(tenant->digest, found->digest, sizeof tenant->digest);
    tenant->filed = true;
    tenant->failure = BG_OK;
    tenant->pause = 0;
    tenant->returns++;
    atomic_fetch_add(&tenant->registry->returns, 1);
    atomic_store(&tenant->changed, false);
    atomic_store(&tenant->bytes, found->bytes);
    tenant_open(tenant, found->slot, found->gate);
}

/* An exceeded memory quota does not mean that the file is bad, so the next user retries
 * at once. */
static void evict_stayed_away(bg_tenant *tenant, bg_err err, int code)
{
    tenant->state = TENANT_DISK;
    if (err == BG_EQUOTA) {
        return;
    }
    uint64_t pause = tenant->failure ? 2 * tenant->pause : EVICT_PAUSE_MIN;
    tenant->failure = err;
    tenant->failure_errno = code;
    tenant->failed_at = registry_now(tenant->registry);
    tenant->pause = pause < EVICT_PAUSE_MAX ? pause : EVICT_PAUSE_MAX;
    tenant->return_failures++;
    atomic_fetch_add(&tenant->registry->return_failures, 1);
}

/* Returns whether it is too early to retry. If the clock went backward, it is not too early. */
static bool evict_pauses(const bg_tenant *tenant)
{
    uint64_t now = registry_now(tenant->registry);
    return tenant->failure && now - tenant->failed_at < tenant->pause; /* modulo 2^64 */
}

static bg_err evict_still_away(const bg_tenant *tenant, bg_errinfo *info)
{
    bg_err err = bgi_err_state(info, tenant->failure, "tenant file",
                               "cannot read the tenant's file (%s); retry later",
                               bg_strerror(tenant->failure));
    if (info) {
        info->os_errno = tenant->failure_errno;
    }
    return err;
}

/* Loads the tenant from its file. The caller holds the lock, which is released while the file is
 * read. */
static bg_err evict_bring_back(bg_tenant *tenant, bg_errinfo *info)
{
    struct evict_found found = { .slot = NULL };
    bg_errinfo why = { .code = BG_OK };
    if (tenant->removed) {
        return bgi_err_state(info, BG_ENOTFOUND, "tenant", "the tenant was removed");
    }
    if (evict_pauses(tenant)) {
        return evict_still_away(tenant, info);
    }
    tenant->state = TENANT_READING;
    evict_unlock(tenant);
    bg_err err = evict_read(tenant, &found, &why);
    evict_lock(tenant);
    if (err) {
        evict_stayed_away(tenant, err, why.os_errno);
        if (info) {
            *info = why;
        }
    } else {
        evict_came_back(tenant, &found);
    }
    (void)pthread_cond_broadcast(&tenant->turn);
    return err;
}

/* Makes the slot available to users again. The caller holds the lock. */
static void evict_put_back(bg_tenant *tenant)
{
    bg_slot *slot = tenant->kept;
    tenant->kept = NULL;
    tenant->state = TENANT_MEMORY;
    atomic_store(&tenant->slot, slot);
}

bg_err tenant_return(bg_tenant *tenant, bg_errinfo *info)
{
    bg_err err = BG_OK;
    evict_lock(tenant);
    while (tenant->state == TENANT_READING) {
        (void)pthread_cond_wait(&tenant->turn, &tenant->lock);
    }
    if (tenant->state == TENANT_WRITING) {
        evict_put_back(tenant);
    } else if (tenant->state == TENANT_DISK) {
        err = evict_bring_back(tenant, info);
    }
    /* Without this update, the tenant might be evicted again before it is used. */
    tenant_stamp(tenant);
    evict_unlock(tenant);
    return err;
}

/* ---- Writing --------------------------------------------------------------------------- */

/* A tenant that is being evicted or saved. */
struct evict_job {
    bg_tenant *tenant;
    bg_slot *slot; /* the tenant's slot, even if another thread restored it */
    bool changed;  /* the file must be written */
    bool exposed;  /* the slot has been handed out, so it may change at any time */
};

static bool evict_is_exposed(bg_tenant *tenant)
{
    return atomic_load(&tenant->uses) & TENANT_EXPOSED;
}

/* Returns whether the path still refers to the file that was last written or read. */
static bool evict_is_filed(const bg_tenant *tenant, const char *path)
{
    bg_file_info about;
    return tenant->filed && evict_about(tenant, path, &about, NULL) == BG_OK
           && memcmp(about.digest, tenant->digest, sizeof about.digest) == 0;
}

/* Writes the tenant's file and records its digest, even if the path refers to a different file by
 * then. */
static bg_err evict_save(bg_tenant *tenant, bg_slot *slot, const char *path,
                         bg_errinfo *info)
{
    char metadata[NAME_FILE_BYTES + 64], form[NAME_FILE_BYTES];
    bg_save_options how = BG_SAVE_OPTIONS_INIT;
    how.generation = bg_slot_generation(slot);
    name_file_encode(tenant->name, form);
    (void)snprintf(metadata, sizeof metadata, "tenant: %s\nitems: %llu\n%s", form,
                   (unsigned long long)atomic_load(&tenant->items),
                   slot_has_missed(slot) ? "missed: 1\n" : "");
    how.metadata = metadata;
    bg_err err = slot_save(slot, path, &how, tenant->digest, info);
    tenant->filed = !err;
    return err;
}

/* Writes a tenant's file unless it is up to date. The caller holds registry->files. */
static bg_err evict_write(const struct evict_job *job, bg_errinfo *info)
{
    bg_tenant *tenant = job->tenant;
    char path[DISK_PATH];
    tenant_path(tenant, path, sizeof path);
    if (!job->changed && evict_is_filed(tenant, path)) {
        return BG_OK;
    }
    bg_err err = evict_save(tenant, job->slot, path, info);
    if (err || job->exposed) {
        atomic_store(&tenant->changed, true);
    }
    return err;
}

/* ---- Evicting ------------------------------------------------------------------------- */

static bool evict_is_due(bg_tenant *tenant, uint64_t now)
{
    uint64_t last = atomic_load(&tenant->last_use);
    if (last > now) { /* the tenant is in use, or the clock went backward */
        (void)atomic_compare_exchange_strong(&tenant->last_use, &last, now);
        return false;
    }
    return now - last >= tenant->registry->options.idle;
}

/* (E1) */
static bool evict_mark(struct evict_job *job, uint64_t now)
{
    bg_tenant *tenant = job->tenant;
    evict_lock(tenant);
    bool goes = tenant->state == TENANT_MEMORY && !tenant->removed
                && !evict_is_exposed(tenant) && evict_is_due(tenant, now);
    if (goes) {
        job->slot = atomic_load(&tenant->slot);
        tenant->kept = job->slot;
        tenant->state = TENANT_WRITING;
        atomic_store(&tenant->slot, NULL);
    }
    evict_unlock(tenant);
    return goes;
}

/* Called after (E2). Returns whether the tenant should still be evicted, and sets job->changed. */
static bool evict_still_goes(struct evict_job *job)
{
    bg_tenant *tenant = job->tenant;
    evict_lock(tenant);
    bool goes = tenant->state == TENANT_WRITING;
    if (goes
        && (tenant->removed || evict_is_exposed(tenant) || slot_in_doubt(job->slot))) {
        evict_put_back(tenant);
        goes = false;
    }
    if (goes) {
        job->changed = atomic_exchange(&tenant->changed, false);
    }
    evict_unlock(tenant);
    return goes;
}

/* (E4). Returns true if the tenant was evicted. */
static bool evict_settle(bg_tenant *tenant, bool written)
{
    bg_slot *slot = NULL;
    bg_gate *gate = NULL;
    evict_lock(tenant);
    bool goes = tenant->state == TENANT_WRITING && written;
    if (goes) {
        slot = tenant->kept;
        gate = tenant->gate;
        tenant->kept = NULL;
        tenant->gate = NULL;
        tenant->state = TENANT_DISK;
        tenant->known = true;
        tenant->evictions++;
        atomic_fetch_add(&tenant->registry->evictions, 1);
        atomic_fetch_sub(&tenant->registry->in_memory, 1);
        atomic_fetch_sub(&tenant->registry->bytes, atomic_exchange(&tenant->bytes, 0));
    } else if (tenant->state == TENANT_WRITING) {
        evict_put_back(tenant);
    }
    evict_unlock(tenant);
    bg_gate_free(gate);
    bg_slot_free(slot);
    return goes;
}

/* (E3), (E4) */
static bg_err evict_leave(struct evict_job *job, size_t *evicted, bg_errinfo *info)
{
    bg_registry *registry = job->tenant->registry;
    bg_err err = BG_OK;
    (void)pthread_mutex_lock(&registry->files);
    if (evict_still_goes(job)) {
        err = evict_write(job, info);
        *evicted += evict_settle(job->tenant, !err);
    }
    (void)pthread_mutex_unlock(&registry->files);
    return err;
}

/* ---- Saving ---------------------------------------------------------------------------- */

/* The first part of (C2): clears `changed` before the grace period. */
static bool evict_mark_saving(struct evict_job *job)
{
    bg_tenant *tenant = job->tenant;
    evict_lock(tenant);
    bool saves = tenant->state == TENANT_MEMORY && !tenant->removed;
    if (saves) {
        /* The order matters: a thread that gets the slot after this point sets `changed` before it
         * changes the slot. */
        job->slot = atomic_load(&tenant->slot);
        job->changed = atomic_exchange(&tenant->changed, false);
        job->exposed = evict_is_exposed(tenant);
    }
    evict_unlock(tenant);
    return saves;
}

static bg_err evict_keep(struct evict_job *job, bg_errinfo *info)
{
    bg_tenant *tenant = job->tenant;
    bg_registry *registry = tenant->registry;
    bg_err err = BG_OK;
    (void)pthread_mutex_lock(&registry->files);
    evict_lock(tenant);
    bool removed = tenant->removed;
    evict_unlock(tenant);
    if (!removed && slot_in_doubt(job->slot)) {
        atomic_store(&tenant->changed, true);
        err = bgi_err_state(
            info, BG_EINCOMPAT, "tenant gate",
            "tenant \"%s\" is not saved, because its filter may be missing keys that "
            "are in the backing store; rebuild the filter",
            tenant->name);
    } else if (!removed) {
        err = evict_write(job, info);
    }
    (void)pthread_mutex_unlock(&registry->files);
    return err;
}

/* ---- All tenants ----------------------------------------------------------------------- */

/* Records an error unless an earlier error was recorded. */
static bg_err evict_first(bg_err before, bg_err err, const bg_errinfo *why,
                          bg_errinfo *info)
{
    if (!before && err && info) {
        *info = *why;
    }
    return before ? before : err;
}

/* Processes one batch: marks up to n tenants, waits for a grace period, and evicts or saves
 * each marked tenant. */
static bg_err evict_batch(bg_registry *registry, bg_tenant **tenants, size_t n,
                          size_t *evicted, bg_errinfo *info)
{
    struct evict_job jobs[REGISTRY_WALK];
    size_t count = 0;
    bg_err first = BG_OK;
    bg_errinfo why;
    const uint64_t now = registry_coarse_now(registry);
    for (size_t i = 0; i < n; i++) {
        jobs[count] = (struct evict_job){ .tenant = tenants[i] };
        count +=
            evicted ? evict_mark(&jobs[count], now) : evict_mark_saving(&jobs[count]);
    }
    if (count) {
        bgi_grace_wait(&registry->grace);
    }
    for (size_t i = 0; i < count; i++) {
        bg_err err =
            evicted ? evict_leave(&jobs[i], evicted, &why) : evict_keep(&jobs[i], &why);
        first = evict_first(first, err, &why, info);
    }
    return first;
}

/* Evicts idle tenants and counts them in *evicted, or saves all tenants if `evicted` is NULL. */
static bg_err evict_all(bg_registry *registry, size_t *evicted, bg_errinfo *info)
{
    struct registry_walk walk = { .n = 0 };
    bg_err first = BG_OK;
    bg_errinfo why;
    (void)pthread_mutex_lock(&registry->chores);
    while (registry_walk(registry, &walk)) {
        bg_err err = evict_batch(registry, walk.tenants, walk.n, evicted, &why);
        first = evict_first(first, err, &why, info);
    }
    (void)pthread_mutex_unlock(&registry->chores);
    return first;
}

bg_err bg_registry_tick(bg_registry *registry, size_t *evicted, bg_errinfo *info)
{
    size_t count = 0;
    bg_err err = BG_OK;
    if (!registry) {
        return bgi_err(info, BG_EINVAL, "registry", "a registry", "NULL");
    }
    bgi_err_clear(info);
    if (registry->directory && registry->options.idle) {
        err = evict_all(registry, &count, info);
    }
    if (evicted) {
        *evicted = count;
    }
    return err;
}

bg_err bg_registry_save(bg_registry *registry, bg_errinfo *info)
{
    if (!registry || !registry->directory) {
        return bgi_err(info, BG_EINVAL, "registry", "a registry with a directory", "%s",
                       registry ? "a registry without one" : "NULL");
    }
    bgi_err_clear(info);
    return evict_all(registry, NULL, info);
}
