/*
 * keyring_text.h - the text format of keyrings.
 *
 *     text   = { line LF } [ line ]            the last line needs no LF
 *     line   = blanks [ secret | comment ] blanks [ CR ]
 *     secret = NAME blanks HEX [ blanks "retired" ]
 *     NAME   = 1 to 31 of letters, digits, '-', '_' and '.'
 *     HEX    = 32 hexadecimal digits, lowercase or uppercase
 *     comment = '#' and anything
 *     blanks = spaces and tabs
 *
 * All names must differ in their first 16 bytes, which are the key ids.
 *
 * An error message reports the line, the field, the expected value, and the length of the value
 * found. It never quotes the text, because a "name" may be a secret if fields are in the
 * wrong order.
 */
#ifndef BGI_KEYRING_TEXT_H
#define BGI_KEYRING_TEXT_H

#include "bloomgate/err.h"
#include "bloomgate/hash.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    KEYRING_BYTES = 64 << 10, /* maximum size of a keyring's text, in bytes */
    KEYRING_SECRETS = 256,
    KEYRING_NAME = 32 /* with its NUL */
};

struct keyring_secret {
    char name[KEYRING_NAME]; /* padded with zeros */
    uint8_t secret[BG_SECRET_BYTES];
    uint32_t line; /* from 1 */
    bool retired;
};

struct keyring_table {
    uint32_t count;
    struct keyring_secret of[];
};

/* Returns the size in bytes of the table for the secrets in a keyring's text. The text need not be
 * valid. */
size_t keyring_table_bytes(const char *text, size_t n);

/* Parses a keyring's text into a zeroed table. Errors: BG_EFORMAT, with the offset of the invalid
 * line. The table then contains the secrets from the preceding lines. */
bg_err keyring_read(const char *text, size_t n, struct keyring_table *table,
                    bg_errinfo *info);

/* Returns BG_OK, or BG_EINVAL if the name is not valid. */
bg_err keyring_check_name(const char *name, bg_errinfo *info);

/* Returns the secret whose name, padded with zeros or truncated to 16 bytes, equals `key_id`, or
 * NULL if there is no such secret. */
const struct keyring_secret *keyring_find(const struct keyring_table *table,
                                          const void *key_id);

/* Writes a secret as HEX, without a terminating NUL. */
void keyring_write_hex(const uint8_t secret[BG_SECRET_BYTES],
                       char hex[2 * BG_SECRET_BYTES]);

#endif
