/*
 * redis_secret.h - the secrets of keyed filters inside of the server.
 *
 * A server has one secret for its new filters: what the configuration says, else random bytes that
 * are made when they are first needed. It is kept with each filter wherever the filter goes (RDB,
 * AOF, replicas, DUMP), so that it answers the same there. Secrets that came with filters are known
 * as long as there is such a filter.
 *
 * The id of a secret is a hash by that secret of a fixed text, 16 letters: it tells nothing of the
 * secret, and whoever brings both is found out if they do not belong together.
 *
 * Filters that were dumped by the service carry the id that its keyring has. They are tried with the
 * current secret: so bloomgate.secret, set to what the keyring says, lets them in. The library's
 * decoder refuses a filter whose secret is another one.
 *
 * Threads. All of these may be called by any thread. The bytes of a secret that somebody holds do
 * not change.
 */
#ifndef REDIS_SECRET_H
#define REDIS_SECRET_H

#include "host.h"

struct redis_secret; /* one of them, held by those that use it */

/* For command_settings. */
extern const struct secret_source redis_secrets;

/* Sets the secret of new filters; older ones keep theirs. NULL: random again. */
void redis_secret_set(const uint8_t secret[BG_SECRET_BYTES]);

/* Sets the secret with this id, which must be the secret of a filter or one that was set before. If it is
 * unknown, returns false and changes nothing; or, with `expect`, new filters that need a secret are refused
 * until a filter with that secret is loaded, or the secret is set. */
bool redis_secret_choose(const uint8_t key_id[BG_KEY_ID_BYTES], bool expect);

/* Returns the id of the secret that was set or is expected; false if new filters use a random secret. */
bool redis_secret_chosen(uint8_t key_id[BG_KEY_ID_BYTES]);

/* Holds a secret that has come from elsewhere. Errors: BG_EFORMAT: the id is another one;
 * BG_ENOMEM. */
bg_err redis_secret_join(const uint8_t key_id[BG_KEY_ID_BYTES],
                         const uint8_t secret[BG_SECRET_BYTES],
                         struct redis_secret **held, bg_errinfo *info);

/* Holds the secret with this id, or else the one that redis_secrets.find last returned to this handler, or else
 * the current one, and sets `key_id` to its id. Returns NULL if there is none. */
struct redis_secret *redis_secret_hold(uint8_t key_id[BG_KEY_ID_BYTES]);

/* Releases the secret that redis_secrets.find last returned to this thread. Call it at the end of a handler. */
void redis_secret_return(void);

/* Lets go; NULL is allowed. */
void redis_secret_leave(struct redis_secret *held);

/* Its BG_SECRET_BYTES bytes; needs no lock, so that a child of fork may call it. */
const uint8_t *redis_secret_bytes(const struct redis_secret *held);

#endif
