/*
 * keyring.h - the secrets of keyed filters, and their rotation.
 *
 * A keyring is a text file that only its owner can read, with one secret per line:
 *
 *     # bloomgate keyring: NAME SECRET [retired]
 *     2026-10 000102030405060708090a0b0c0d0e0f retired
 *     2026-11 8d5d9f0c4e1b2a3748596a7b8c9dae0f
 *
 * The last line that is not retired holds the current secret, which new filters use. The
 * other secrets are used by existing filters. Filter files contain a key id, never the
 * secret. The key id is the name, truncated to 16 bytes, and must be unique within a
 * keyring.
 *
 *     bg_keyring *ring;
 *     if (bg_keyring_open("/etc/bloomgate/keyring", &ring, &why)
 *         || bg_keyring_current(ring, &spec.hash, key_id, &why))
 *         return 1;
 *
 * To rotate a secret, append a line. Create a filter with the new secret, and use
 * bg_slot_begin_migration to make the slot query both filters. Rebuild the slot. Mark the
 * old line as retired, and delete the line when no file needs its secret anymore.
 *
 * Secrets are kept in memory that is locked, excluded from core dumps, and wiped when the
 * keyring is freed. A child process created by fork() does not inherit this memory, so its
 * keyring is empty. Secrets never appear in error messages. Filters keep the secrets they
 * use in their own memory, which is excluded from core dumps and wiped by bg_filter_free.
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

/* A keyring. Opaque and immutable, so all functions that read it are MT-Safe. */
typedef struct bg_keyring bg_keyring;

/*
 * Reads a keyring. The file must be a regular file owned by the effective user or root,
 * with no permissions for group or others. It can be up to 64 KiB long and contain up to
 * 256 secrets. Symbolic links are not followed.
 * Errors: BG_EINVAL if the mode or owner is wrong; BG_EFORMAT, with the line number;
 * BG_EIO; BG_ENOMEM. On error *ring is NULL.
 * Thread safety: MT-Safe.
 */
BG_API BG_MUST_CHECK bg_err bg_keyring_open(const char *path, bg_keyring **ring,
                                            bg_errinfo *info);

/* Wipes and frees a keyring; NULL is allowed. Thread safety: MT-Excl. */
BG_API void bg_keyring_free(bg_keyring *ring);

/* Returns the number of secrets; 0 for NULL. Thread safety: MT-Safe. */
BG_API size_t bg_keyring_count(const bg_keyring *ring);

/*
 * Returns the name of secret i, in file order, or "" if i is out of range. *retired,
 * unless NULL, is set to true if the secret is retired.
 * Thread safety: MT-Safe.
 */
BG_API const char *bg_keyring_name(const bg_keyring *ring, size_t i, bool *retired);

/*
 * Sets hash->secret to the current secret, and `key_id` to the key id of that secret. Sets
 * hash->profile to `keyed`, unless hash->profile is already a keyed profile. The secret
 * points into the keyring, which must stay open while `hash` is used.
 * Errors: BG_ENOTFOUND if all secrets are retired or there are none; BG_EINVAL for NULL.
 * Thread safety: MT-Safe.
 */
BG_API BG_MUST_CHECK bg_err bg_keyring_current(const bg_keyring *ring,
                                               bg_hash_spec *hash,
                                               uint8_t key_id[BG_KEY_ID_BYTES],
                                               bg_errinfo *info);

/*
 * Sets hash->secret and hash->profile as bg_keyring_current does, for the secret with the
 * given key id, even if the secret is retired.
 * Errors: BG_ENOTFOUND; BG_EINVAL for NULL. Thread safety: MT-Safe.
 */
BG_API BG_MUST_CHECK bg_err bg_keyring_find(const bg_keyring *ring,
                                            const uint8_t key_id[BG_KEY_ID_BYTES],
                                            bg_hash_spec *hash, bg_errinfo *info);

/*
 * Generates a new secret with the OS's random number generator and appends it to a keyring
 * file. A missing file is created with mode 0600. The file is replaced atomically, and
 * concurrent calls are serialized. `name` consists of 1 to 31 letters, digits, '-', '_'
 * and '.'.
 * Errors: those of bg_keyring_open; BG_EINVAL if the name already exists or is invalid;
 * BG_EBUSY if other processes keep replacing the file.
 * Thread safety: MT-Safe.
 */
BG_API BG_MUST_CHECK bg_err bg_keyring_append(const char *path, const char *name,
                                              bg_errinfo *info);

/*
 * Adds an existing secret to a keyring file, as bg_keyring_append does. The new line is
 * marked as retired: filters that use the secret can be opened, and new filters still use
 * the current secret. Does nothing if the file already contains the secret under this key
 * id. The function copies the secret.
 * Errors: those of bg_keyring_append; BG_EINCOMPAT if the file contains a different secret
 * under this key id.
 * Thread safety: MT-Safe.
 */
BG_API BG_MUST_CHECK bg_err bg_keyring_import(const char *path, const char *name,
                                              const uint8_t secret[BG_SECRET_BYTES],
                                              bg_errinfo *info);

#ifdef __cplusplus
}
#endif

#endif
