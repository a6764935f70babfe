/*
 * keyrings.h - the service's secrets, which can be reloaded while filters use them.
 *
 * Reloading adds a keyring; older keyrings stay open until the service stops. A secret that was
 * removed from the file therefore stays available to the filters that use it, and pointers to
 * secrets stay valid. A file that has not changed adds nothing.
 */
#ifndef SERVER_CORE_KEYRINGS_H
#define SERVER_CORE_KEYRINGS_H

#include "bloomgate/keyring.h"
#include "host.h"

struct keyrings;

/* Takes ownership of the first keyring, even on failure. Returns NULL if out of memory. */
struct keyrings *keyrings_create(bg_keyring *first);

/* Wipes and frees all keyrings; NULL is allowed. */
void keyrings_free(struct keyrings *keyrings);

/* Returns the source of secrets for commands; NULL for NULL. Its functions are thread-safe. New filters use the
 * current secret of the newest keyring. Existing filters use secrets of all keyrings. */
const struct secret_source *keyrings_source(const struct keyrings *keyrings);

/* Called for each secret that is no longer in the file. */
typedef void keyrings_removed(void *context, const char *name);

/*
 * Reads the file again. On error, the secrets do not change.
 * Errors: those of bg_keyring_open; BG_ENOTFOUND if the file has no secret for new filters;
 * BG_EINVAL if a known name has a different secret, because filters that use the old secret could
 * not be loaded after a restart; BG_ENOMEM.
 * Thread safety: one thread at a time; other threads may use the source.
 */
bg_err keyrings_reload(struct keyrings *keyrings, const char *path,
                       keyrings_removed *removed, void *context, bg_errinfo *info);

#endif
