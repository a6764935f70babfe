/* hasher.h - what is inside the opaque words of a bg_hasher. */
#ifndef BGI_HASHER_H
#define BGI_HASHER_H

#include "bloomgate/hash.h"

#include "base/compiler.h"
#include "hash/aes.h"
#include "hash/siphash.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    BGI_CUSTOM_NAME = 32, /* bytes of a custom name with its NUL */
    BGI_FAST_SECRET = 192 /* XXH_SECRET_DEFAULT_SIZE, checked in hash.c */
};

/*
 * `features` are those in force when the hasher was made. They decide the form of the
 * AES round keys, so a hasher keeps them; they are no part of the function computed.
 *
 * The attribute: users and filters copy hashers as the plain words they are declared
 * as, and the compiler must not assume that such a copy and an access here are about
 * different things.
 */
struct bgi_hasher {
    uint32_t profile;
    uint32_t features;
    uint64_t seed;                   /* fast, xxh64; otherwise 0 */
    uint8_t secret[BG_SECRET_BYTES]; /* keyed profiles; otherwise 0 */
    bgi_siphash_key sip;             /* the secret, or for keyed-int a derived one */
    union {
        uint8_t fast_secret[BGI_FAST_SECRET]; /* what XXH3 derives from the seed */
        struct {
            struct bgi_aes aes8;  /* keyed-int: keys of 8 bytes, ... */
            struct bgi_aes aes16; /* ... and of 16 */
        } integer;
        struct {
            bg_hash_fn function;
            void *context;
            char name[BGI_CUSTOM_NAME];
        } custom;
    } u;
} __attribute__((may_alias));

_Static_assert(sizeof(struct bgi_hasher) <= sizeof(bg_hasher), "it must fit");
_Static_assert(_Alignof(struct bgi_hasher) <= _Alignof(uint64_t),
               "the opaque words are aligned to 8 bytes (4 on i386) and no more");

BGI_INLINE const struct bgi_hasher *bgi_hasher_in(const bg_hasher *hasher)
{
    return (const struct bgi_hasher *)(const void *)hasher;
}

/* Whether there is a secret in it. */
bool bgi_hasher_keyed(const bg_hasher *hasher);

/* Fills `fast_secret` from the seed. In hash.c, the one file that includes XXH3. */
void bgi_hasher_prepare_fast(struct bgi_hasher *h);

#endif
