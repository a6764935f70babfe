/* password.c - see password.h. OpenSSL computes the hashes. */
#include "config/password.h"

#include "util/base64.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <string.h>

enum {
    PASSWORD_LN = 14,
    PASSWORD_R = 8,
    PASSWORD_P = 1,
    PASSWORD_SALT = 16,
    PASSWORD_HASH = 32,
    PASSWORD_MEMORY = 257 << 20
};

/* ---- Text -------------------------------------------------------------------------------- */

/* Parses "NAME=NUMBER" followed by the character `end`, and moves *text past that character. Returns 0 if the text has
 * a different form. */
static unsigned password_number(const char **text, const char *name, char end)
{
    const size_t n = strlen(name);
    unsigned value = 0;
    if (strncmp(*text, name, n) != 0 || (*text)[n] != '=') {
        return 0;
    }
    const char *at = *text + n + 1;
    for (; *at >= '0' && *at <= '9' && value < 1000; at++) {
        value = value * 10 + (unsigned)(*at - '0');
    }
    *text = at + 1;
    return *at == end ? value : 0;
}

/* Decodes the text up to `end`. Returns false if it is not base64 without padding, or too long. */
static bool password_decode(const char *text, const char *end, uint8_t *to, size_t room,
                            size_t *n)
{
    char bytes[PASSWORD_TEXT];
    const bool good =
        base64_decode((bg_bytes){ text, (size_t)(end - text) }, false, bytes, n)
        && *n <= room;
    memcpy(to, bytes, good ? *n : 0);
    return good;
}

const char *password_read(const char *text, struct password *password)
{
    static const char front[] = "$scrypt$";
    *password = (struct password){ 0 };
    if (strncmp(text, front, sizeof front - 1) != 0 || strlen(text) >= PASSWORD_TEXT) {
        return "expected $scrypt$ln=14,r=8,p=1$SALT$HASH";
    }
    text += sizeof front - 1;
    password->ln = password_number(&text, "ln", ',');
    password->r = password->ln ? password_number(&text, "r", ',') : 0;
    password->p = password->r ? password_number(&text, "p", '$') : 0;
    if (password->ln < 10 || password->ln > 20 || password->r < 1 || password->r > 32
        || password->p < 1 || password->p > 16
        || ((uint64_t)128 << password->ln) * password->r > (uint64_t)256 << 20) {
        return "expected ln from 10 to 20, r from 1 to 32, p from 1 to 16, and at most 256 MiB of memory";
    }
    const char *dollar = strchr(text, '$');
    if (!dollar
        || !password_decode(text, dollar, password->salt, PASSWORD_SALT_MAX,
                            &password->salt_len)
        || !password_decode(dollar + 1, dollar + 1 + strlen(dollar + 1), password->hash,
                            PASSWORD_HASH_MAX, &password->hash_len)) {
        return "expected a salt and a hash of at most 64 bytes each, in base64 without padding";
    }
    if (password->salt_len < 8 || password->hash_len < 16) {
        return "expected a salt of at least 8 bytes and a hash of at least 16 bytes";
    }
    return NULL;
}

/* ---- Hashing ----------------------------------------------------------------------------- */

/* Returns whether the password is short enough and contains no NUL. scrypt starts with HMAC, which pads keys with NULs,
 * so a password followed by NULs would have the same hash. */
static bool password_is_text(bg_bytes clear)
{
    return clear.len <= PASSWORD_MAX
           && !(clear.len && memchr(clear.data, 0, clear.len));
}

static bool password_hash(const struct password *password, bg_bytes clear,
                          uint8_t *hash)
{
    return password_is_text(clear)
           && EVP_PBE_scrypt(clear.len ? clear.data : "", clear.len, password->salt,
                             password->salt_len, (uint64_t)1 << password->ln,
                             password->r, password->p, PASSWORD_MEMORY, hash,
                             password->hash_len)
                  == 1;
}

bool password_make(bg_bytes clear, char text[PASSWORD_TEXT])
{
    struct password made = { .ln = PASSWORD_LN,
                             .r = PASSWORD_R,
                             .p = PASSWORD_P,
                             .salt_len = PASSWORD_SALT,
                             .hash_len = PASSWORD_HASH };
    if (RAND_bytes(made.salt, PASSWORD_SALT) != 1
        || !password_hash(&made, clear, made.hash)) {
        return false;
    }
    char *at = text
               + snprintf(text, PASSWORD_TEXT, "$scrypt$ln=%u,r=%u,p=%u$", made.ln,
                          made.r, made.p);
    at += base64_encode((bg_bytes){ made.salt, made.salt_len }, false, at);
    *at++ = '$';
    at[base64_encode((bg_bytes){ made.hash, made.hash_len }, false, at)] = 0;
    OPENSSL_cleanse(&made, sizeof made);
    return true;
}

bool password_fits(const struct password *password, bg_bytes clear)
{
    uint8_t hash[PASSWORD_HASH_MAX];
    const bool same = password_hash(password, clear, hash)
                      && CRYPTO_memcmp(hash, password->hash, password->hash_len) == 0;
    OPENSSL_cleanse(hash, sizeof hash);
    return same;
}

void password_waste(bg_bytes clear)
{
    const struct password nobody = { .ln = PASSWORD_LN,
                                     .r = PASSWORD_R,
                                     .p = PASSWORD_P,
                                     .salt_len = PASSWORD_SALT,
                                     .hash_len = PASSWORD_HASH };
    uint8_t hash[PASSWORD_HASH_MAX];
    (void)password_hash(&nobody, clear, hash);
    OPENSSL_cleanse(hash, sizeof hash);
}
