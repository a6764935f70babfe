/*
 * redis_secret.h - the secrets of keyed filters in the server.
 *
 * A server has one secret for its new filters: either the configured secret, or random bytes that
 * are generated when a secret is first needed. The secret is stored and sent with each filter (RDB,
 * AOF, replicas, DUMP), so that the filter gives the same answers everywhere. A secret that was
 * received with a filter is kept as long as a filter with this secret exists.
 *
 * The ID of a secret is a keyed hash of a fixed string, written as 16 characters. The ID reveals
 * nothing about the secret, but makes it possible to detect a secret that does not match.
 *
 * A filter dumped by the service contains the ID that its secret has in the service's keyring. The
 * module does not know this ID, and tries to load the filter with its current secret. To load such
 * a filter, set bloomgate.secret to the secret in the keyring. The library's decoder rejects a
 * filter that was built with a different secret.
 *
 * Thread safety: any thread may call these functions. The bytes of a secret do not change while
 * it is held.
 */
#ifndef REDIS_SECRET_H
#define REDIS_SECRET_H

#include "host.h"

struct redis_secret; /* a reference-counted secret */

/* For command_settings. */
extern const struct secret_source redis_secrets;

/* Sets the secret for new filters; existing filters keep their secrets. NULL selects a random
 * secret again. */
void redis_secret_set(const uint8_t secret[BG_SECRET_BYTES]);

/* Selects the secret with this ID for new filters. A secret is known if it belongs to a filter or
 * has been set before. If the secret is unknown and `expect` is not set, returns false and changes
 * nothing. If it is unknown and `expect` is set, new filters that need a secret are refused until a
 * filter with that secret is loaded or the secret is set. */
bool redis_secret_choose(const uint8_t key_id[BG_KEY_ID_BYTES], bool expect);

/* Writes the ID of the secret that was set or is expected. Returns false if new filters use a
 * random secret. */
bool redis_secret_chosen(uint8_t key_id[BG_KEY_ID_BYTES]);

/* Takes a reference to a secret that was received with its ID. Errors: BG_EFORMAT if the secret
 * does not match the ID; BG_ENOMEM. */
bg_err redis_secret_join(const uint8_t key_id[BG_KEY_ID_BYTES],
                         const uint8_t secret[BG_SECRET_BYTES],
                         struct redis_secret **held, bg_errinfo *info);

/* Takes a reference to a secret and sets `key_id` to its ID. The secret is the first of the
 * following that exists: the secret with the ID in `key_id`, the secret that redis_secrets.find
 * last returned to this handler, or the current secret. Returns NULL if none of them exists. */
struct redis_secret *redis_secret_hold(uint8_t key_id[BG_KEY_ID_BYTES]);

/* Releases the secret that redis_secrets.find last returned to this thread. Call it at the end
 * of a handler. */
void redis_secret_return(void);

/* Releases a secret. Accepts NULL. */
void redis_secret_leave(struct redis_secret *held);

/* Returns the BG_SECRET_BYTES bytes of a secret. Acquires no lock, so a forked child process may
 * call it. */
const uint8_t *redis_secret_bytes(const struct redis_secret *held);

#endif
