/*
 * password.h - passwords as scrypt hashes, in the text form of the PHC strings:
 *
 *     $scrypt$ln=14,r=8,p=1$SALT$HASH        base64 without padding
 *
 * ln is the logarithm of the cost: 2^ln * 128 * r bytes of memory, and as much work. 14 and 8 are
 * 16 MiB and some tens of milliseconds, for who checks and for who guesses.
 */
#ifndef SERVER_PASSWORD_H
#define SERVER_PASSWORD_H

#include "bloomgate/bloomgate.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PASSWORD_TEXT = 256,  /* longest text form, with its NUL */
    PASSWORD_MOST = 1024, /* longest password */
    PASSWORD_HASH_MOST = 64,
    PASSWORD_SALT_MOST = 64
};

struct password {
    unsigned ln, r, p;
    uint8_t salt[PASSWORD_SALT_MOST], hash[PASSWORD_HASH_MOST];
    size_t salt_len, hash_len;
};

/* Reads a text form. NULL: done; else what is wrong with it. Costs beyond 256 MiB or far below
 * the usual are refused. */
const char *password_read(const char *text, struct password *password);

/* Hashes a password with a new salt. False: no memory, or no random numbers. */
bool password_make(bg_bytes clear, char text[PASSWORD_TEXT]);

/* Whether a password is the one that was hashed; in constant time but for the hashing. Slow. */
bool password_fits(const struct password *password, bg_bytes clear);

/* Takes as long as password_fits of what password_make makes, for nothing. */
void password_waste(bg_bytes clear);

#endif
