/*
 * name_file.h - the name of a tenant as the name of a file, and back.
 *
 *     acme          acme.bg
 *     Acme/..       %41cme%2f...bg
 *     .hidden       %2ehidden.bg
 *     127 x 0xff    +vvvvv...vs.bg        (203 digits and letters)
 *
 * Small letters, digits, '-', '_' and '.' stand for themselves, but for a '.' at the
 * beginning; every other byte is %xx. If that is over NAME_FILE_PLAIN bytes, all of it is
 * written in base 32, after a '+', so that any name of 127 bytes fits a file name of 255 with
 * room for what a temporary file has behind it. There are no slashes, no capitals (some file
 * systems do not tell them from small letters) and no bytes beyond ASCII (some change them).
 *
 * Each name has exactly one such form: what decodes to a name but is not that name's form is
 * not the file of a tenant.
 */
#ifndef BGI_NAME_FILE_H
#define BGI_NAME_FILE_H

#include "bloomgate/registry.h"

#include <stdbool.h>
#include <stddef.h>

enum {
    NAME_FILE_PLAIN = 204, /* bytes of the form with %xx, at most */
    NAME_FILE_BYTES = 212, /* "+", 204 digits, ".bg", NUL, and some more */
};

/* The form of a name, without ".bg". */
void name_file_encode(const char *name, char form[NAME_FILE_BYTES]);

/* The name that the first n bytes of a text are the form of; false: of none. */
bool name_file_decode(const char *text, size_t n, char name[BG_TENANT_NAME_MAX + 1]);

#endif
