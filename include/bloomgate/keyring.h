/*
 * keyring.h - the secrets of keyed filters, and how they change.
 *
 * A keyring is a text file that only its owner can read, a secret per line:
 *
 *     # bloomgate keyring: NAME SECRET [retired]
 *     2026-10 000102030405060708090a0b0c0d0e0f retired
 *     2026-11 8d5d9f0c4e1b2a3748596a7b8c9dae0f
 *
 * The last line that is not retired is the current secret: new filters are made with it.
 * The others are for filters that were. Filter files carry the key id, never the secret:
 * the name, or the first 16 bytes of it, in which all names of a ring must differ.
 *
 *     bg_keyring *ring;
 *     bg_keyring_open("/etc/bloomgate/keyring", &ring, &why);
 *     bg_keyring_current(ring, &spec.hash, key_id, NULL);
 *
 * Rotation: append a line; make a filter with the new secret and let the slot ask both
 * (bg_slot_begin_migration); rebuild; mark the old line retired; remove it when no file needs it.
 *
 * Secrets lie in memory that is locked, left out of core files, not inherited by children
 * of fork (who find the ring empty), and wiped when the ring is freed. They are never part
 * of an error message. (The filters that use them keep them in their own memory, which is
 * wiped by bg_filter_free and left out of core files.)
 */
#ifndef BLOOMGATE_KEYRING_H
#define BLOOMGATE_KEYRING_H

#include "bloomgate/err.h"
#include "bloomgate/export.h"
#include "bloomgate/file.h"
#include "bloomgate/hash.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct bg_keyring bg_keyring;

/*
 * Reads a keyring. The file must be a regular one, owned by the user or root, that neither
 * group nor others can read or write; at most 64 KiB and 256 secrets. A symbolic link is
 * not followed. Errors: BG_EINVAL when mode or owner are wrong; BG_EFORMAT with the line;
 * BG_EIO; BG_ENOMEM. Thread safety: MT-Safe, and so are all that ask a ring: it never
 * changes.
 */
BG_API BG_MUST_CHECK bg_err bg_keyring_open(const char *path, bg_keyring **ring,
                                            bg_errinfo *info);
BG_API void bg_keyring_free(bg_keyring *ring); /* wipes it; NULL is allowed */

/* How many secrets there are; the name of secret i in the order of the file ("" beyond the
 * last), and whether it is retired. */
BG_API size_t bg_keyring_count(const bg_keyring *ring);
BG_API const char *bg_keyring_name(const bg_keyring *ring, size_t i, bool *retired);

/*
 * Fills in profile (`keyed`, unless a keyed one is there already) and secret of `hash`,
 * which points into the ring, and the key id: of the current secret, or of the one with
 * that key id, retired or not. Errors: BG_ENOTFOUND; BG_EINVAL for NULL.
 */
BG_API BG_MUST_CHECK bg_err bg_keyring_current(const bg_keyring *ring,
                                               bg_hash_spec *hash,
                                               uint8_t key_id[BG_KEY_ID_BYTES],
                                               bg_errinfo *info);
BG_API BG_MUST_CHECK bg_err bg_keyring_find(const bg_keyring *ring,
                                            const uint8_t key_id[BG_KEY_ID_BYTES],
                                            bg_hash_spec *hash, bg_errinfo *info);

/* Writes a new secret, made by the system's random numbers, to the end of a keyring, which
 * is created with mode 0600 if it is not there; replaced in one step, by one caller after
 * the other. Errors: as bg_keyring_open; BG_EINVAL when the name is there already, or is
 * not 1 to 31 of letters, digits, '-', '_' and '.'; BG_EBUSY when others keep replacing
 * it. */
BG_API BG_MUST_CHECK bg_err bg_keyring_append(const char *path, const char *name,
                                              bg_errinfo *info);

#ifdef __cplusplus
}
#endif

#endif
