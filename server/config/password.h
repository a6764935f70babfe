/*
 * password.h - stores passwords as scrypt hashes, in the PHC string format:
 *
 *     $scrypt$ln=14,r=8,p=1$SALT$HASH        base64 without padding
 *
 * ln is the base-2 logarithm of the cost: hashing uses 2^ln * 128 * r bytes of memory and takes a proportional amount
 * of time. With ln=14 and r=8, hashing takes 16 MiB and tens of milliseconds, both for the service and for an attacker.
 */
#ifndef SERVER_CONFIG_PASSWORD_H
#define SERVER_CONFIG_PASSWORD_H

#include "bloomgate/all.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PASSWORD_TEXT = 256, /* maximum size of the text form, including the NUL */
    PASSWORD_MAX = 1024, /* maximum length of a password */
    PASSWORD_HASH_MAX = 64,
    PASSWORD_SALT_MAX = 64
};

struct password {
    unsigned ln, r, p;
    uint8_t salt[PASSWORD_SALT_MAX], hash[PASSWORD_HASH_MAX];
    size_t salt_len, hash_len;
};

/* Parses the text form. Returns NULL on success, or a message that describes the error. Rejects hashes that need
 * more than 256 MiB of memory or have ln below 10. */
const char *password_read(const char *text, struct password *password);

/* Hashes a password with a new salt. Returns false if out of memory, if no random numbers are available, or if the
 * password contains a NUL byte. */
bool password_make(bg_bytes clear, char text[PASSWORD_TEXT]);

/* Returns whether the password matches the hash. The comparison takes constant time. Slow. */
bool password_fits(const struct password *password, bg_bytes clear);

/* Takes as long as checking a password against a hash from password_make, but checks nothing. */
void password_waste(bg_bytes clear);

#endif
