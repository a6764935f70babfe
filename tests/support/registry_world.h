/*
 * registry_world.h - a registry for tests, with a clock that the test sets, an initially
 * empty directory, and tenants whose keys are integers.
 */
#ifndef REGISTRY_WORLD_H
#define REGISTRY_WORLD_H

#include "support/faulty_disk.h"
#include "support/files.h"
#include "support/tenants.h"

#define SECOND UINT64_C(1000000000)
#define IDLE   (60 * SECOND)

/* ---- Registries ---------------------------------------------------------------------- */

static uint64_t the_time = 1000 * SECOND;

static inline uint64_t tell_time(void *context)
{
    (void)context;
    return the_time;
}

static inline bg_registry_options usual(void)
{
    bg_registry_options options = BG_REGISTRY_OPTIONS_INIT;
    options.spec.items = 1000;
    options.spec.rate = 0.01;
    options.clock = tell_time;
    the_time = 1000 * SECOND;
    return options;
}

/* Returns options with an empty directory to which tenants are evicted. */
static inline bg_registry_options on_disk(void)
{
    bg_registry_options options = usual();
    disk_empty_folder(files_folder());
    options.directory = files_folder();
    options.idle = IDLE;
    return options;
}

static inline bg_err find(bg_registry *registry, const char *name)
{
    bg_tenant *tenant = NULL;
    bg_err err = bg_registry_get(registry, name, 0, &tenant, NULL);
    CHECK((err == BG_OK) == (tenant != NULL));
    bg_tenant_release(tenant);
    return err;
}

static inline bool has(bg_tenant *tenant, uint64_t key)
{
    return bg_tenant_may_contain(tenant, &key, sizeof key);
}

static inline bg_err add(bg_tenant *tenant, uint64_t key)
{
    return bg_tenant_add(tenant, &key, sizeof key, NULL, NULL);
}

static inline void add_all(bg_tenant *tenant, uint64_t from, uint64_t to)
{
    for (uint64_t key = from; key < to; key++) {
        CHECK_OK(add(tenant, key));
    }
}

static inline uint64_t count_found(bg_tenant *tenant, uint64_t from, uint64_t to)
{
    uint64_t found = 0;
    for (uint64_t key = from; key < to; key++) {
        found += has(tenant, key);
    }
    return found;
}

/* Checks that the tenant finds all these keys, and answers "maybe" for few other keys. */
static inline void check_keys(bg_tenant *tenant, uint64_t from, uint64_t to)
{
    CHECK_EQ(count_found(tenant, from, to), to - from);
    CHECK(count_found(tenant, 1 << 30, (1 << 30) + 1000) < 100);
}

static inline void fill_names(bg_registry *registry, unsigned n)
{
    char name[16];
    for (unsigned i = 0; i < n; i++) {
        (void)snprintf(name, sizeof name, "t%u", i);
        bg_tenant_release(get_tenant(registry, name));
    }
}

/* Advances the clock and runs a tick. Returns how many tenants were evicted. */
static inline size_t pass(bg_registry *registry, uint64_t nanoseconds)
{
    size_t evicted = 99;
    bg_errinfo why;
    the_time += nanoseconds;
    if (bg_registry_tick(registry, &evicted, &why)) {
        check_fail(__FILE__, __LINE__, "%s", why.message);
    }
    return evicted;
}

static inline bool file_exists(const char *name)
{
    struct stat about;
    return stat(files_path(name), &about) == 0;
}

static inline unsigned long file_number(const char *name)
{
    struct stat about;
    CHECK(stat(files_path(name), &about) == 0);
    return (unsigned long)about.st_ino;
}

static inline unsigned count_files(void)
{
    unsigned n = 0;
    DIR *folder = opendir(files_folder());
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        n += entry->d_name[0] != '.';
    }
    (void)closedir(folder);
    return n;
}

/* Flips a bit in a file. */
static inline void damage(const char *name, off_t at)
{
    char byte;
    int file = __real_open(files_path(name), O_RDWR);
    CHECK(file >= 0);
    CHECK_EQ(pread(file, &byte, 1, at), 1);
    byte ^= 4;
    CHECK_EQ(__real_pwrite(file, &byte, 1, at), 1);
    (void)close(file);
}

#endif
