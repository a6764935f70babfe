/*
 * keyring_text.h - the text of a keyring, as secrets.
 *
 *     text   = { line LF } [ line ]            the last line needs no LF
 *     line   = blanks [ secret | comment ] blanks [ CR ]
 *     secret = NAME blanks HEX [ blanks "retired" ]
 *     NAME   = 1 to 31 of letters, digits, '-', '_' and '.'
 *     HEX    = 32 hexadecimal digits, small or capital
 *     comment = '#' and anything
 *     blanks = spaces and tabs
 *
 * Names differ in their first 16 bytes, which are the key ids.
 *
 * An error tells line, field, what was expected, and of what was found the length. It never
 * quotes the text: fields may be in the wrong order, and then a name is a secret.
 */
#ifndef BGI_KEYRING_TEXT_H
#define BGI_KEYRING_TEXT_H

#include "bloomgate/err.h"
#include "bloomgate/hash.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    KEYRING_BYTES = 64 << 10, /* of a text, at most */
    KEYRING_SECRETS = 256,
    KEYRING_NAME = 32 /* with its NUL */
};

struct keyring_secret {
    char name[KEYRING_NAME]; /* zeros behind it */
    uint8_t secret[BG_SECRET_BYTES];
    uint32_t line; /* from 1 */
    bool retired;
};

struct keyring_table {
    uint32_t count;
    struct keyring_secret of[];
};

/* Bytes of a table for that text, which may be any. */
size_t keyring_table_bytes(const char *text, size_t n);

/* Fills in a table that is all zero. Errors: BG_EFORMAT, with the offset of the line; the
 * table then holds what was before it. */
bg_err keyring_read(const char *text, size_t n, struct keyring_table *table,
                    bg_errinfo *info);

/* BG_OK, or BG_EINVAL when it cannot be a name. */
bg_err keyring_check_name(const char *name, bg_errinfo *info);

/* The one whose name begins with these 16 bytes, or is that with zeros behind it; NULL: there
 * is none. */
const struct keyring_secret *keyring_find(const struct keyring_table *table,
                                          const void *key_id);

/* Writes a secret as HEX; no NUL. */
void keyring_write_hex(const uint8_t secret[BG_SECRET_BYTES],
                       char hex[2 * BG_SECRET_BYTES]);

#endif
