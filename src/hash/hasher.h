/* hasher.h - the contents of the opaque words of a bg_hasher. */
#ifndef BGI_HASHER_H
#define BGI_HASHER_H

#include "bloomgate/hasher.h"

#include "base/compiler.h"
#include "hash/aes.h"
#include "hash/siphash.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    BGI_CUSTOM_NAME = 32, /* size of a custom name in bytes, including its NUL */
    BGI_FAST_SECRET = 192 /* XXH_SECRET_DEFAULT_SIZE, checked in hash.c */
};

/*
 * `features` are the CPU features in use when the hasher was created. The features determine the
 * form of the AES round keys, so the hasher stores the features; the hashes do not depend on them.
 *
 * The may_alias attribute is needed because callers and filters copy hashers as the plain words
 * that the public type declares: the compiler must not assume that such a copy and an access
 * through this struct refer to different objects.
 */
struct bgi_hasher {
    uint32_t profile;
    uint32_t features;
    uint64_t seed;                   /* for fast, fast-int and xxh64; otherwise 0 */
    uint8_t secret[BG_SECRET_BYTES]; /* for keyed profiles; otherwise 0 */
    bgi_siphash_key sip;             /* the secret, or a derived key for keyed-int */
    union {
        uint8_t fast_secret[BGI_FAST_SECRET]; /* derived from the seed by XXH3 */
        struct {
            struct bgi_aes aes8;  /* for 8-byte keys under keyed-int */
            struct bgi_aes aes16; /* for 16-byte keys under keyed-int */
        } integer;
        struct {
            bg_hash_fn function;
            void *context;
            char name[BGI_CUSTOM_NAME];
        } custom;
    } u;
} __attribute__((may_alias));

_Static_assert(sizeof(struct bgi_hasher) <= sizeof(bg_hasher),
               "bg_hasher is too small");
_Static_assert(_Alignof(struct bgi_hasher) <= _Alignof(uint64_t),
               "the opaque words are only aligned to 8 bytes (4 on i386)");

BGI_INLINE const struct bgi_hasher *bgi_hasher_in(const bg_hasher *hasher)
{
    return (const struct bgi_hasher *)(const void *)hasher;
}

/* Returns whether a hasher's profile uses a secret. */
bool bgi_hasher_keyed(const bg_hasher *hasher);

/* Fills `fast_secret` from the seed. Defined in hash.c, the only file that includes XXH3. */
void bgi_hasher_prepare_fast(struct bgi_hasher *h);

#endif
