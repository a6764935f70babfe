/*
 * registry.c - manages many filters by name: finds, creates and removes tenants.
 *
 * Idea. Names are looked up in a hash table (name_table.h) through one atomic pointer. A lookup
 * enters the grace period (grace.h), searches, takes a reference to the tenant it found, and
 * leaves. This costs two atomic additions to a per-CPU cache line and one to the tenant,
 * without a lock or any loop except the search. Names are added and removed under the registry's
 * lock. A full table is replaced with a larger table, and the old table is freed when its last
 * reader has left.
 *
 *     registry --> table --> [ tenant ] --> slot --> filters
 *                               name, quotas, counters         tenant.c
 *                               in memory or in a file         evict.c
 *
 * Names are hashed with SipHash-1-3 and the registry's secret, so an attacker cannot choose names
 * that collide in the table.
 *
 * Invariants
 *   (R1) A tenant in the table is in the list, and vice versa. The table and the list share one
 *        reference to the tenant, which is dropped one grace period after the tenant is removed
 *        from both.
 *   (R2) No two tenants in the table have the same name, because each name is looked up again under
 *        the lock before its tenant is added.
 *   (R3) A tenant that is not in the table has no file, and no thread is about to write such a file
 *        (see evict.c).
 *   (R4) If a file for a new tenant's name already exists (because it was copied into the
 *        directory), the tenant is created from that file, never as an empty filter.
 *
 * A lookup returns the state of the table at some point between its start and its end. The lookup
 * sees one table, in which entries are only added or marked as deleted. If the table is replaced
 * in the meantime, any entries that are missing from the old table were added after the lookup
 * started.
 *
 * The list is in creation order. Each tenant has a sequence number that is never reused, so an
 * iteration in several steps (bg_registry_for_each, ticks) can continue even if the tenant where it
 * paused has been removed.
 *
 * Only one process at a time uses a directory, which is locked with flock().
 */
#define _GNU_SOURCE /* CLOCK_MONOTONIC_COARSE, flock, getrandom */

#include "gate/tenant.h"

#include "live/ladder.h"
#include "store/disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    REGISTRY_TENANTS = 65536,   /* default for max_tenants */
    REGISTRY_FOLDER_MAX = 3500, /* maximum length of the directory path */
};

const bg_allocator *registry_allocator(const bg_registry *registry)
{
    return registry->allocator.allocate ? &registry->allocator : NULL;
}

/* ---- Time ---------------------------------------------------------------------------- */

static uint64_t registry_system_clock(clockid_t clock)
{
    struct timespec now;
    (void)clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t registry_now(const bg_registry *registry)
{
    return registry->options.clock ? registry->options.clock(registry->options.context)
                                   : registry_system_clock(CLOCK_MONOTONIC);
}

uint64_t registry_coarse_now(const bg_registry *registry)
{
    return registry->options.clock ? registry->options.clock(registry->options.context)
                                   : registry_system_clock(CLOCK_MONOTONIC_COARSE);
}

/* ---- The table and the list (protected by registry->lock) ------------------------------ */

static uint64_t registry_hash(const bg_registry *registry, const char *name, size_t len)
{
    return bgi_siphash(BGI_SIPHASH_13, registry->secret, name, len);
}

static bool registry_is_named(const void *thing, const char *name)
{
    return strcmp(((const bg_tenant *)thing)->name, name) == 0;
}

static bg_tenant *registry_find(const bg_registry *registry, const char *name,
                                uint64_t hash)
{
    return name_table_find(atomic_load(&registry->table), hash, registry_is_named,
                           name);
}

/* Replaces a full table with a table that has space and contains no deleted cells. */
static bool registry_make_room(bg_registry *registry)
{
    struct name_table *old = atomic_load(&registry->table);
    if (old && name_table_has_room(old)) {
        return true;
    }
    struct name_table *table =
        name_table_make(registry->tenants + 1, registry_allocator(registry));
    if (!table) {
        return false;
    }
    for (bg_tenant *t = registry->first; t; t = t->behind) {
        name_table_put(table, t->hash, t);
    }
    atomic_store(&registry->table, table);
    if (old) {
        bgi_grace_retire(&registry->grace, &old->retired, name_table_release);
    }
    return true;
}

/* Adds a tenant to the table, which must have space. The tenant's initial reference belongs to the
 * registry. */
static void registry_put(bg_registry *registry, bg_tenant *tenant)
{
    tenant->number = ++registry->numbers;
    tenant->listed = true;
    tenant->before = registry->last;
    *(registry->last ? &registry->last->behind : &registry->first) = tenant;
    registry->last = tenant;
    registry->tenants++;
    name_table_put(atomic_load(&registry->table), tenant->hash, tenant);
}

static void registry_take(bg_registry *registry, bg_tenant *tenant)
{
    name_table_take(atomic_load(&registry->table), tenant->hash, tenant);
    *(tenant->before ? &tenant->before->behind : &registry->first) = tenant->behind;
    *(tenant->behind ? &tenant->behind->before : &registry->last) = tenant->before;
    tenant->listed = false;
    registry->tenants--;
}

/* Returns the tenant that follows `tenant` in the list, even if `tenant` itself has been removed
 * from it. */
static bg_tenant *registry_behind(const bg_registry *registry, const bg_tenant *tenant)
{
    if (tenant->listed) {
        return tenant->behind;
    }
    bg_tenant *next = registry->first;
    while (next && next->number <= tenant->number) {
        next = next->behind;
    }
    return next;
}

void registry_walk_end(struct registry_walk *walk)
{
    for (size_t i = 0; i < walk->n; i++) {
        bg_tenant_release(walk->tenants[i]);
    }
    walk->n = 0;
}

bool registry_walk(bg_registry *registry, struct registry_walk *walk)
{
    struct registry_walk next = { .n = 0 };
    (void)pthread_mutex_lock(&registry->lock);
    bg_tenant *tenant = walk->n ? registry_behind(registry, walk->tenants[walk->n - 1])
                                : registry->first;
    for (; tenant && next.n < REGISTRY_WALK; tenant = tenant->behind) {
        tenant_hold(tenant);
        next.tenants[next.n++] = tenant;
    }
    (void)pthread_mutex_unlock(&registry->lock);
    registry_walk_end(walk);
    *walk = next;
    return walk->n > 0;
}

/* ---- Creation -------------------------------------------------------------------------- */

bool registry_reserve(bg_registry *registry, uint64_t bytes)
{
    const uint64_t most = registry->options.max_total_bytes;
    uint64_t total = atomic_load(&registry->bytes);
    do {
        if (most && (bytes > most || total > most - bytes)) {
            return false;
        }
    } while (!atomic_compare_exchange_weak(&registry->bytes, &total, total + bytes));
    return true;
}

static bg_err registry_limit(bg_registry *registry, bg_errinfo *info, const char *quota,
                             uint64_t used, const char *unit, uint64_t most)
{
    atomic_fetch_add_explicit(&registry->limited, 1, memory_order_relaxed);
    return bgi_err_state(info, BG_EQUOTA, quota,
                         "%s would be exceeded: %llu %s, and the limit is %llu", quota,
                         (unsigned long long)used, unit, (unsigned long long)most);
}

/* Creates the filter of a new tenant from the template. */
static bg_err registry_fill(bg_tenant *tenant, bg_errinfo *info)
{
    bg_registry *registry = tenant->registry;
    const uint64_t bytes = registry->planned_bytes;
    bg_filter *filter = NULL;
    bg_slot *slot = NULL;
    bg_gate *gate = NULL;
    if (registry->options.max_bytes && bytes > registry->options.max_bytes) {
        return registry_limit(registry, info, "max_bytes", bytes,
                              "bytes are needed for a new tenant",
                              registry->options.max_bytes);
    }
    if (!registry_reserve(registry, bytes)) {
        return registry_limit(registry, info, "max_total_bytes",
                              atomic_load(&registry->bytes), "bytes are already in use",
                              registry->options.max_total_bytes);
    }
    atomic_store(&tenant->bytes, bytes); /* released together with the tenant */
    bg_err err = bg_filter_create(&registry->options.spec, &filter, info);
    err = err ? err : tenant_fill(tenant, filter, 0, &slot, &gate, info);
    if (!err) {
        tenant->known = true;
        atomic_store(&tenant->changed, true);
        tenant_open(tenant, slot, gate);
    }
    return err;
}

/* (R4) */
static bool registry_has_file(const bg_tenant *tenant)
{
    char path[DISK_PATH];
    struct stat about;
    if (!tenant->registry->directory) {
        return false;
    }
    tenant_path(tenant, path, sizeof path);
    return stat(path, &about) == 0 || errno != ENOENT;
}

/* The caller holds registry->lock. */
static bg_err registry_add(bg_registry *registry, const char *name, uint64_t hash,
                           bg_tenant **tenant, bg_errinfo *info)
{
    if (registry->tenants >= registry->options.max_tenants) {
        return registry_limit(registry, info, "max_tenants", registry->tenants,
                              "tenants already exist", registry->options.max_tenants);
    }
    bg_tenant *made =
        registry_make_room(registry) ? tenant_make(registry, name, hash) : NULL;
    if (!made) {
        return bgi_err_state(info, BG_ENOMEM, "memory",
                             "cannot allocate memory for a tenant");
    }
    bg_err err = registry_has_file(made) ? BG_OK : registry_fill(made, info);
    if (err) {
        bg_tenant_release(made);
        return err;
    }
    tenant_hold(made);
    registry_put(registry, made);
    atomic_fetch_add(&registry->created, 1);
    *tenant = made;
    return BG_OK;
}

/* ---- Finding ---------------------------------------------------------------------------- */

static bg_err registry_get_slowly(bg_registry *registry, const char *name,
                                  uint64_t hash, bg_tenant **tenant, bg_errinfo *info)
{
    bg_err err = BG_OK;
    (void)pthread_mutex_lock(&registry->lock);
    *tenant = registry_find(registry, name, hash);
    if (*tenant) {
        tenant_hold(*tenant);
    } else {
        err = registry_add(registry, name, hash, tenant, info);
    }
    (void)pthread_mutex_unlock(&registry->lock);
    return err;
}

/* Returns the length of a name, or 0 if it is not valid. */
static size_t registry_name_length(const char *name)
{
    size_t len = name ? strnlen(name, BG_TENANT_NAME_MAX + 1) : 0;
    return len <= BG_TENANT_NAME_MAX ? len : 0;
}

static bg_err registry_check_name(const bg_registry *registry, const char *name,
                                  bg_errinfo *info)
{
    if (!registry || !name) {
        return bgi_err(info, BG_EINVAL, "registry, name", "a registry and a name",
                       "NULL");
    }
    return registry_name_length(name)
               ? BG_OK
               : bgi_err(info, BG_EINVAL, "name", "1 to 127 bytes", "%s",
                         *name ? "a longer name" : "an empty name");
}

bg_err bg_registry_get(bg_registry *registry, const char *name, uint32_t flags,
                       bg_tenant **tenant, bg_errinfo *info)
{
    const size_t len = registry_name_length(name);
    if (!tenant) {
        return bgi_err(info, BG_EINVAL, "tenant", "a pointer to receive the tenant",
                       "NULL");
    }
    *tenant = NULL;
    const bg_err err = registry_check_name(registry, name, info);
    if (err) {
        return err;
    }
    if (flags & ~(uint32_t)BG_REGISTRY_CREATE) {
        return bgi_err(info, BG_EINVAL, "flags", "BG_REGISTRY_CREATE or 0", "0x%x",
                       flags);
    }
    bgi_err_clear(info);
    const uint64_t hash = registry_hash(registry, name, len);
    bgi_grace_token token = bgi_grace_enter(&registry->grace);
    bg_tenant *found = registry_find(registry, name, hash);
    if (found) {
        tenant_hold(found); /* before leaving: (R1) */
    }
    bgi_grace_leave(&registry->grace, token);
    if (found) {
        *tenant = found;
        return BG_OK;
    }
    return flags & BG_REGISTRY_CREATE
               ? registry_get_slowly(registry, name, hash, tenant, info)
               : bgi_err_state(info, BG_ENOTFOUND, "name",
                               "there is no tenant \"%.127s\"", name);
}

void bg_registry_for_each(bg_registry *registry,
                          bool (*visit)(void *context, bg_tenant *tenant),
                          void *context)
{
    struct registry_walk walk = { .n = 0 };
    bool goes_on = registry && visit;
    while (goes_on && registry_walk(registry, &walk)) {
        for (size_t i = 0; goes_on && i < walk.n; i++) {
            goes_on = visit(context, walk.tenants[i]);
        }
    }
    registry_walk_end(&walk);
}

/* ---- Removal ---------------------------------------------------------------------------- */

/* Called one grace period after the tenant was removed from the table. */
static void registry_let_go(struct bgi_retired *retired)
{
    bg_tenant_release(
        (bg_tenant *)(void *)((unsigned char *)retired - offsetof(bg_tenant, retired)));
}

/* The caller holds registry->files. */
static bg_err registry_delete(bg_tenant *tenant, char path[DISK_PATH], bg_errinfo *info)
{
    *path = 0;
    if (tenant->registry->directory) {
        tenant_path(tenant, path, DISK_PATH);
        if (unlink(path) != 0 && errno != ENOENT) {
            return disk_error(info, "unlink", path);
        }
    }
    (void)pthread_mutex_lock(&tenant->lock);
    tenant->removed = true;
    (void)pthread_mutex_unlock(&tenant->lock);
    return BG_OK;
}

/* Removes a tenant from the table, and marks it as removed for threads that hold a reference. */
static bg_err registry_forget(bg_registry *registry, const char *name, size_t len,
                              char path[DISK_PATH], bg_tenant **forgotten,
                              bg_errinfo *info)
{
    bg_err err = BG_ENOTFOUND;
    (void)pthread_mutex_lock(&registry->files);
    (void)pthread_mutex_lock(&registry->lock);
    bg_tenant *tenant =
        registry_find(registry, name, registry_hash(registry, name, len));
    if (tenant) {
        err = registry_delete(tenant, path, info);
    } else {
        err = bgi_err_state(info, BG_ENOTFOUND, "name", "there is no tenant \"%.127s\"",
                            name);
    }
    if (tenant && !err) {
        registry_take(registry, tenant);
        *forgotten = tenant;
    }
    (void)pthread_mutex_unlock(&registry->lock);
    (void)pthread_mutex_unlock(&registry->files);
    return err;
}

bg_err bg_registry_remove(bg_registry *registry, const char *name, bg_errinfo *info)
{
    const size_t len = registry_name_length(name);
    char path[DISK_PATH] = "";
    bg_tenant *tenant = NULL;
    bg_err err = registry_check_name(registry, name, info);
    if (err) {
        return err;
    }
    bgi_err_clear(info);
    err = registry_forget(registry, name, len, path, &tenant, info);
    if (tenant) {
        atomic_fetch_add(&registry->removed, 1);
        bgi_grace_retire(&registry->grace, &tenant->retired, registry_let_go);
        if (*path) { /* without a sync, the file may reappear after a power failure */
            (void)disk_sync_directory(path, NULL);
        }
    }
    return err;
}

/* ---- The template ------------------------------------------------------------------------ */

static bg_err registry_check_options(const bg_registry_options *options,
                                     bg_errinfo *info)
{
    if (options->struct_size != sizeof *options) {
        return bgi_err(info, BG_EINVAL, "struct_size",
                       "sizeof(bg_registry_options): use BG_REGISTRY_OPTIONS_INIT",
                       "%u", options->struct_size);
    }
    if (options->spec.struct_size != sizeof options->spec) {
        return bgi_err(info, BG_EINVAL, "spec.struct_size",
                       "sizeof(bg_spec): use BG_REGISTRY_OPTIONS_INIT", "%u",
                       options->spec.struct_size);
    }
    if (bg_kind_traits((bg_kind)options->spec.kind) & BG_TRAIT_STATIC
        || options->spec.flags & BG_SPEC_EXCLUSIVE) {
        return bgi_err(info, BG_EINVAL, "spec",
                       "a kind that accepts adds from several threads", "%s",
                       options->spec.flags & BG_SPEC_EXCLUSIVE ? "BG_SPEC_EXCLUSIVE"
                                                               : "static");
    }
    if (options->gate && options->gate->struct_size != sizeof *options->gate) {
        return bgi_err(info, BG_EINVAL, "gate",
                       "sizeof(bg_gate_options): use BG_GATE_OPTIONS_INIT", "%u",
                       options->gate->struct_size);
    }
    if (options->directory
        && (!*options->directory || strlen(options->directory) > REGISTRY_FOLDER_MAX)) {
        return bgi_err(info, BG_EINVAL, "directory", "a path of 1 to 3500 bytes",
                       "%zu bytes", strlen(options->directory));
    }
    return BG_OK;
}

/* Computes the size of a new tenant's filter, and checks that the filter can be created. */
static bg_err registry_plan(bg_registry *registry, bg_errinfo *info)
{
    bg_plan_request request = BG_PLAN_REQUEST_INIT;
    bg_plan plan;
    bg_hasher hasher;
    request.spec = registry->options.spec;
    bg_err err = bg_plan_compute(&request, &plan, info);
    err = err ? err : bg_hasher_init(&hasher, &request.spec.hash, info);
    if (!err) {
        bg_hasher_wipe(&hasher);
        registry->planned_bytes = plan.bytes;
    }
    return err;
}

/* Limits a growing filter to the quota, and computes the number of items that the quota
 * allows. */
static void registry_bound_growth(bg_registry *registry)
{
    bg_spec *spec = &registry->options.spec;
    const uint64_t most = registry->options.max_bytes;
    struct ladder ladder;
    struct bgi_geometry layer;
    uint64_t bytes, left = most;
    const bool grows = spec->kind == BG_KIND_SCALABLE || spec->kind == BG_KIND_WINDOW;
    if (!grows || most == 0 || registry->planned_bytes > most) {
        return;
    }
    spec->max_bytes =
        spec->max_bytes && spec->max_bytes < most ? spec->max_bytes : most;
    if (spec->kind == BG_KIND_WINDOW || spec->shards > 1
        || ladder_solve(spec, &ladder, NULL) != BG_OK) {
        /* The distribution of keys over periods or shards is not known in advance. */
        return;
    }
    for (uint32_t i = 0; i < LADDER_LAYERS && ladder_layer(&ladder, i, &layer)
                         && bgi_geometry_bytes(&layer, &bytes) && bytes <= left;
         i++) {
        registry->grown_items += layer.items;
        left -= bytes;
    }
}

/* Copies the data that the options point to, except for `opening`. */
static void registry_copy_spec(bg_registry *registry)
{
    bg_spec *spec = &registry->options.spec;
    if (spec->allocator) {
        registry->filter_allocator = *spec->allocator;
        spec->allocator = &registry->filter_allocator;
    }
    if (spec->window) {
        registry->window = *spec->window;
        spec->window = &registry->window;
    }
    if (spec->hash.secret) {
        /* Copied byte by byte, because a call to memcpy could leave the secret on the stack: the
         * dynamic linker may save vector registers there while it resolves the function. */
        const volatile uint8_t *from = spec->hash.secret;
        for (size_t i = 0; i < BG_SECRET_BYTES; i++) {
            registry->filter_secret[i] = from[i];
        }
        spec->hash.secret = registry->filter_secret;
    }
    if (spec->hash.custom_name) {
        (void)snprintf(registry->filter_hash_name, sizeof registry->filter_hash_name,
                       "%s", spec->hash.custom_name);
        spec->hash.custom_name = registry->filter_hash_name;
    }
}

/* Sets the options for opening files. By default, the options match the spec with which the files
 * were written. */
static void registry_copy_opening(bg_registry *registry)
{
    const bg_registry_options *options = &registry->options;
    static const bg_open_options usual = BG_OPEN_OPTIONS_INIT;
    registry->opening = options->opening ? *options->opening : usual;
    if (!options->opening) {
        registry->opening.hash = &options->spec.hash;
        registry->opening.window = options->spec.window;
        registry->opening.allocator = options->spec.allocator;
        registry->opening.filter_flags = options->spec.flags & BG_SPEC_SMALL_PAGES;
    }
}

static bg_err registry_copy_options(bg_registry *registry,
                                    const bg_registry_options *options,
                                    bg_errinfo *info)
{
    registry->options = *options;
    registry->options.max_tenants =
        options->max_tenants ? options->max_tenants : REGISTRY_TENANTS;
    if (options->gate) {
        registry->gate = *options->gate;
        registry->options.gate = &registry->gate;
    }
    if (!bucket_rate_make(&registry->rate, options->inserts_per_second,
                          options->burst)) {
        return bgi_err(info, BG_EINVAL, "inserts_per_second, burst",
                       "finite numbers, 0 or more", "%g, %g",
                       options->inserts_per_second, options->burst);
    }
    bg_err err = registry_plan(registry, info); /* reads the caller's spec */
    registry_copy_spec(registry);
    registry_copy_opening(registry);
    if (!err) {
        registry_bound_growth(registry);
    }
    return err;
}

/* ---- The directory -------------------------------------------------------------------------- */

static bg_err registry_open_directory(bg_registry *registry, bg_errinfo *info)
{
    const char *path = registry->options.directory;
    const size_t n = strlen(path) + 1;
    if (!bgi_memory_take(&registry->directory_memory, n, registry_allocator(registry),
                         true)) {
        return bgi_err_state(info, BG_ENOMEM, "memory",
                             "cannot allocate %zu bytes for the directory's path", n);
    }
    registry->directory = memcpy(registry->directory_memory.base, path, n);
    registry->options.directory = registry->directory;
    registry->directory_file = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (registry->directory_file < 0) {
        return disk_error(info, "open directory", path);
    }
    /* Some file systems do not support locks. On such file systems, the operator must ensure
     * exclusive use. */
    if (flock(registry->directory_file, LOCK_EX | LOCK_NB) != 0
        && errno == EWOULDBLOCK) {
        return bgi_err_state(info, BG_EBUSY, "directory",
                             "another registry is using the directory %s", path);
    }
    return BG_OK;
}

/* Handles a file in the directory: a tenant's file, or a file left over from an unfinished
 * save. */
static bg_err registry_list_file(bg_registry *registry, const char *file,
                                 bg_errinfo *info)
{
    char name[BG_TENANT_NAME_MAX + 1];
    const size_t n = strlen(file);
    /* Tenant files are checked first, because a tenant may be named "a.bg.tmp.b". Files left over
     * from unfinished saves have names that end with digits. */
    if (n < 4 || strcmp(file + n - 3, ".bg") != 0
        || !name_file_decode(file, n - 3, name)) {
        const char *end = strstr(file, ".bg.tmp.");
        if (end && name_file_decode(file, (size_t)(end - file), name)) {
            (void)unlinkat(registry->directory_file, file, 0);
        }
        return BG_OK;
    }
    const uint64_t hash = registry_hash(registry, name, strlen(name));
    bg_tenant *tenant =
        registry_make_room(registry) ? tenant_make(registry, name, hash) : NULL;
    if (!tenant) {
        return bgi_err_state(info, BG_ENOMEM, "memory",
                             "cannot allocate memory for a tenant");
    }
    registry_put(registry, tenant);
    return BG_OK;
}

static bg_err registry_list_directory(bg_registry *registry, bg_errinfo *info)
{
    bg_err err = BG_OK;
    DIR *directory = opendir(registry->directory);
    if (!directory) {
        return disk_error(info, "open directory", registry->directory);
    }
    while (!err) {
        errno = 0;
        /* Only one thread may read a DIR at a time, but this DIR is not shared. */
        const struct dirent *entry =
            readdir(directory); /* NOLINT(concurrency-mt-unsafe) */
        if (!entry) {
            err =
                errno ? disk_error(info, "read directory", registry->directory) : BG_OK;
            break;
        }
        err = registry_list_file(registry, entry->d_name, info);
    }
    (void)closedir(directory);
    return err;
}

/* ---- Lifecycle --------------------------------------------------------------------------- */

/* If `secret` is true, the registry will contain a secret, so its memory is excluded from core
 * files. */
static bg_registry *registry_allocate(const bg_allocator *allocator, bool secret)
{
    struct bgi_memory memory;
    if (!(secret ? bgi_memory_take_hidden
                 : bgi_memory_take)(&memory, sizeof(bg_registry), allocator, true)) {
        return NULL;
    }
    bg_registry *registry = memory.base;
    registry->memory = memory;
    registry->directory_file = -1;
    if (allocator) {
        registry->allocator = *allocator;
    }
    (void)pthread_mutex_init(&registry->chores, NULL);
    (void)pthread_mutex_init(&registry->files, NULL);
    (void)pthread_mutex_init(&registry->lock, NULL);
    return registry;
}

static bg_err registry_begin(bg_registry *registry, const bg_registry_options *options,
                             bg_errinfo *info)
{
    bg_err err = registry_copy_options(registry, options, info);
    if (err) {
        return err;
    }
    if (getrandom(registry->secret, sizeof registry->secret, 0)
        != sizeof registry->secret) {
        return disk_error(info, "read", "random bytes");
    }
    if (!bgi_grace_init(&registry->grace, registry_allocator(registry))
        || !registry_make_room(registry)) {
        return bgi_err_state(info, BG_ENOMEM, "memory",
                             "cannot allocate memory for the registry");
    }
    if (options->directory) {
        err = registry_open_directory(registry, info);
        err = err ? err : registry_list_directory(registry, info);
    }
    return err;
}

bg_err bg_registry_create(const bg_registry_options *options, bg_registry **registry,
                          bg_errinfo *info)
{
    if (registry) {
        *registry = NULL;
    }
    if (!options || !registry) {
        return bgi_err(info, BG_EINVAL, "options, registry",
                       "options and a pointer to receive the registry", "NULL");
    }
    bgi_err_clear(info);
    bg_err err = registry_check_options(options, info);
    if (err) {
        return err;
    }
    bg_registry *made =
        registry_allocate(options->allocator, options->spec.hash.secret != NULL);
    if (!made) {
        return bgi_err_state(info, BG_ENOMEM, "memory",
                             "cannot allocate memory for the registry");
    }
    err = registry_begin(made, options, info);
    if (err) {
        bg_registry_free(made);
        return err;
    }
    *registry = made;
    return BG_OK;
}

void bg_registry_free(bg_registry *registry)
{
    if (!registry) {
        return;
    }
    bgi_grace_end(&registry->grace); /* frees removed tenants and old tables */
    for (bg_tenant *next, *t = registry->first; t; t = next) {
        next = t->behind;
        bg_tenant_release(t);
    }
    struct name_table *table = atomic_load(&registry->table);
    if (table) {
        name_table_release(&table->retired);
    }
    if (registry->directory_file >= 0) {
        (void)close(registry->directory_file);
    }
    (void)pthread_mutex_destroy(&registry->lock);
    (void)pthread_mutex_destroy(&registry->files);
    (void)pthread_mutex_destroy(&registry->chores);
    bgi_memory_give(&registry->directory_memory);
    struct bgi_memory memory = registry->memory;
    bgi_wipe(registry, sizeof *registry); /* secrets */
    bgi_memory_give(&memory);
}

bg_err bg_registry_get_info(bg_registry *registry, bg_registry_info *out)
{
    if (!registry || !out || out->struct_size != sizeof *out) {
        return BG_EINVAL;
    }
    (void)pthread_mutex_lock(&registry->lock);
    uint64_t tenants = registry->tenants;
    (void)pthread_mutex_unlock(&registry->lock);
    *out =
        (bg_registry_info){ .struct_size = sizeof *out,
                            .tenants = (uint32_t)tenants,
                            .in_memory = atomic_load(&registry->in_memory),
                            .bytes = atomic_load(&registry->bytes),
                            .created = atomic_load(&registry->created),
                            .removed = atomic_load(&registry->removed),
                            .evictions = atomic_load(&registry->evictions),
                            .returns = atomic_load(&registry->returns),
                            .return_failures = atomic_load(&registry->return_failures),
                            .limited = atomic_load(&registry->limited) };
    return BG_OK;
}
