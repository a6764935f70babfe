/*
 * keyrings.c - see keyrings.h. The keyrings form a list, newest first, that readers traverse
 * without a lock: entries are complete before they are published, and never change or end.
 */
#include "core/keyrings.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct opened {
    bg_keyring *ring;
    const struct opened *older;
};

struct keyrings {
    _Atomic(const struct opened *) newest;
    struct secret_source source;
};

static const struct opened *keyrings_newest(const struct keyrings *keyrings)
{
    return atomic_load_explicit(&keyrings->newest, memory_order_acquire);
}

static bg_err keyrings_current(void *context, bg_hash_spec *hash,
                               uint8_t key_id[BG_KEY_ID_BYTES], bg_errinfo *info)
{
    return bg_keyring_current(keyrings_newest(context)->ring, hash, key_id, info);
}

static bg_err keyrings_find(void *context, const uint8_t key_id[BG_KEY_ID_BYTES],
                            bg_hash_spec *hash, bg_errinfo *info)
{
    const struct opened *at = keyrings_newest(context);
    bg_err err = bg_keyring_find(at->ring, key_id, hash, info);
    while (err == BG_ENOTFOUND && (at = at->older)) {
        err = bg_keyring_find(at->ring, key_id, hash, info);
    }
    return err;
}

/* Adds a keyring to the list. On failure, frees the keyring. */
static bool keyrings_add(struct keyrings *keyrings, bg_keyring *ring)
{
    struct opened *opened = malloc(sizeof *opened);
    if (!opened) {
        bg_keyring_free(ring);
        return false;
    }
    *opened = (struct opened){ .ring = ring, .older = keyrings_newest(keyrings) };
    atomic_store_explicit(&keyrings->newest, opened, memory_order_release);
    return true;
}

struct keyrings *keyrings_create(bg_keyring *first)
{
    struct keyrings *keyrings = calloc(1, sizeof *keyrings);
    if (!keyrings) {
        bg_keyring_free(first);
        return NULL;
    }
    keyrings->source = (struct secret_source){ .current = keyrings_current,
                                               .find = keyrings_find,
                                               .context = keyrings };
    if (!keyrings_add(keyrings, first)) {
        free(keyrings);
        return NULL;
    }
    return keyrings;
}

void keyrings_free(struct keyrings *keyrings)
{
    const struct opened *at = keyrings ? keyrings_newest(keyrings) : NULL;
    while (at) {
        const struct opened *older = at->older;
        bg_keyring_free(at->ring);
        free((void *)(uintptr_t)at);
        at = older;
    }
    free(keyrings);
}

const struct secret_source *keyrings_source(const struct keyrings *keyrings)
{
    return keyrings ? &keyrings->source : NULL;
}

/* ---- Reloading --------------------------------------------------------------------------- */

static const uint8_t *keyrings_secret(const bg_keyring *ring, const char *name)
{
    uint8_t key_id[BG_KEY_ID_BYTES] = { 0 };
    bg_hash_spec hash = { .profile = BG_HASH_KEYED };
    memcpy(key_id, name, strnlen(name, sizeof key_id));
    return bg_keyring_find(ring, key_id, &hash, NULL) ? NULL : hash.secret;
}

/* Returns the name of a secret in `old` that is different in `ring`, or NULL if there is none. */
static const char *keyrings_changed(const bg_keyring *old, const bg_keyring *ring)
{
    for (size_t i = 0; i < bg_keyring_count(old); i++) {
        const char *name = bg_keyring_name(old, i, NULL);
        const uint8_t *before = keyrings_secret(old, name);
        const uint8_t *now = keyrings_secret(ring, name);
        if (before && now && memcmp(before, now, BG_SECRET_BYTES) != 0) {
            return name;
        }
    }
    return NULL;
}

/* Returns whether two keyrings have the same names in the same order. Their secrets are known to be
 * the same. */
static bool keyrings_are_same(const bg_keyring *a, const bg_keyring *b)
{
    bool same = bg_keyring_count(a) == bg_keyring_count(b);
    for (size_t i = 0; same && i < bg_keyring_count(a); i++) {
        bool retired[2] = { false, false };
        same = strcmp(bg_keyring_name(a, i, &retired[0]),
                      bg_keyring_name(b, i, &retired[1]))
                   == 0
               && retired[0] == retired[1];
    }
    return same;
}

static bg_err keyrings_check(const struct keyrings *keyrings, const bg_keyring *ring,
                             bg_errinfo *info)
{
    uint8_t key_id[BG_KEY_ID_BYTES];
    bg_hash_spec hash = { .profile = BG_HASH_KEYED };
    const bg_err err = bg_keyring_current(ring, &hash, key_id, info);
    for (const struct opened *at = keyrings_newest(keyrings); !err && at;
         at = at->older) {
        const char *name = keyrings_changed(at->ring, ring);
        if (name) {
            *info = (bg_errinfo){ .code = BG_EINVAL };
            (void)snprintf(info->message, sizeof info->message,
                           "the secret '%s' has changed: restore its line, and append "
                           "the new secret with another name",
                           name);
            return BG_EINVAL;
        }
    }
    return err;
}

/* Returns whether a keyring that is newer than `old` has a secret with this name. */
static bool keyrings_has_newer(const struct keyrings *keyrings,
                               const struct opened *old, const char *name)
{
    const struct opened *at = keyrings_newest(keyrings);
    while (at != old && !keyrings_secret(at->ring, name)) {
        at = at->older;
    }
    return at != old;
}

/* Reports each secret that is only in keyrings older than the newest one. */
static void keyrings_report(const struct keyrings *keyrings, keyrings_removed *removed,
                            void *context)
{
    for (const struct opened *at = keyrings_newest(keyrings)->older; at;
         at = at->older) {
        for (size_t i = 0; i < bg_keyring_count(at->ring); i++) {
            const char *name = bg_keyring_name(at->ring, i, NULL);
            if (!keyrings_has_newer(keyrings, at, name)) {
                removed(context, name);
            }
        }
    }
}

bg_err keyrings_reload(struct keyrings *keyrings, const char *path,
                       keyrings_removed *removed, void *context, bg_errinfo *info)
{
    bg_keyring *ring = NULL;
    bg_err err = bg_keyring_open(path, &ring, info);
    err = err ? err : keyrings_check(keyrings, ring, info);
    if (err || keyrings_are_same(keyrings_newest(keyrings)->ring, ring)) {
        bg_keyring_free(ring);
    } else if (!keyrings_add(keyrings, ring)) {
        *info = (bg_errinfo){ .code = BG_ENOMEM, .message = "out of memory" };
        err = BG_ENOMEM;
    }
    if (!err) {
        keyrings_report(keyrings, removed, context);
    }
    return err;
}
