/*
 * name_file.h - converts tenant names to file names and back.
 *
 *     acme          acme.bg
 *     Acme/..       %41cme%2f...bg
 *     .hidden       %2ehidden.bg
 *     127 x 0xff    +vvvvv...vs.bg        (204 digits and letters)
 *
 * Lowercase letters, digits, '-', '_' and '.' are kept as they are, except for a leading '.';
 * every other byte is encoded as %xx. If the result is longer than NAME_FILE_PLAIN bytes, the whole
 * name is instead written in base 32 after a '+'. So any name of up to 127 bytes fits in a file
 * name of 255 bytes, including the suffix of temporary files. The result contains no slashes, no
 * uppercase letters (some file systems are case-insensitive) and no non-ASCII bytes (some file
 * systems change them).
 *
 * Each name has exactly one canonical form. If a file's name decodes to a tenant name but is not
 * its canonical form, the file does not belong to a tenant.
 */
#ifndef BGI_NAME_FILE_H
#define BGI_NAME_FILE_H

#include "bloomgate/registry.h"

#include <stdbool.h>
#include <stddef.h>

enum {
    NAME_FILE_PLAIN = 204, /* maximum length of the percent-encoded form, in bytes */
    NAME_FILE_BYTES = 212, /* "+", 204 digits, ".bg", a NUL, and some spare bytes */
};

/* Writes the canonical form of a name, without ".bg", to `form`. */
void name_file_encode(const char *name, char form[NAME_FILE_BYTES]);

/* Decodes the first n bytes of a file name. Returns false if these bytes do not encode a name. */
bool name_file_decode(const char *text, size_t n, char name[BG_TENANT_NAME_MAX + 1]);

#endif
