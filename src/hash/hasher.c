/*
 * hasher.c - the lifecycle of a hasher: checking, preparing, comparing and wiping it.
 *
 * The keys of the hash functions are derived from the secret of a keyed profile as follows:
 *
 *    keyed, keyed24   SipHash uses the secret as it is.
 *    keyed-int        uses three keys, for three functions:
 *
 *        aes8    keys of  8 bytes   AES under the secret itself
 *        aes16   keys of 16 bytes   AES under   AES_secret("bloomgate key 16")
 *        sip     other lengths      SipHash-1-3 under   AES_secret("bloomgate sip 13")
 *
 *      No key is used in two primitives, and 8-byte and 16-byte keys use different
 *      permutations: an 8-byte key cannot be made to collide with the 16-byte key
 *      that is the same 8 bytes followed by zeros. Hashes cannot leak the derived keys:
 *      `aes8` only encrypts blocks that end in 8 zero bytes, and the two constants do not.
 *
 * Invariants
 *   (I1) The bytes of a hasher depend only on its spec and on the CPU features in use; all unused
 *        bytes are zero.
 *   (I2) Secrets are copied only into the hasher. Temporary copies are wiped before the function
 *        that prepares the hasher returns.
 *   (I3) On error the hasher is unchanged.
 */
#include "hash/hasher.h"

#include "base/bits.h"
#include "base/errinfo.h"
#include "base/features.h"
#include "base/memory.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

static bool hasher_profile_known(uint32_t profile)
{
    switch (profile) {
#define HASHER_KNOWN(NAME, number, text, secret) case (number):
        BG_HASHES(HASHER_KNOWN)
#undef HASHER_KNOWN
        return true;
    default: return false;
    }
}

static bool hasher_profile_keyed(uint32_t profile)
{
    switch (profile) {
#define HASHER_KEYED(NAME, number, text, secret)                                       \
    case (number): return (secret) == 1;
        BG_HASHES(HASHER_KEYED)
#undef HASHER_KEYED
    default: return false;
    }
}

static bg_err hasher_check_custom(const bg_hash_spec *spec, bg_errinfo *info)
{
    if (!spec->custom) {
        return bgi_err(info, BG_EINVAL, "hash.custom",
                       "a function, because the profile is custom", "NULL");
    }
    const char *expected = "a name of 1 to 31 bytes";
    if (!spec->custom_name) {
        return bgi_err(info, BG_EINVAL, "hash.custom_name", expected, "NULL");
    }
    if (spec->custom_name[0] == '\0') {
        return bgi_err(info, BG_EINVAL, "hash.custom_name", expected, "an empty name");
    }
    if (!memchr(spec->custom_name, '\0', BGI_CUSTOM_NAME)) {
        return bgi_err(info, BG_EINVAL, "hash.custom_name", expected,
                       "\"%.24s...\", which is longer", spec->custom_name);
    }
    return BG_OK;
}

static bg_err hasher_check_spec(const bg_hash_spec *spec, bg_errinfo *info)
{
    if (!hasher_profile_known(spec->profile)) {
        return bgi_err(info, BG_EINVAL, "hash.profile", "a bg_hash_profile, 0 to 6",
                       "%lu", (unsigned long)spec->profile);
    }
    if (spec->reserved != 0) {
        return bgi_err(info, BG_EINVAL, "hash.reserved", "0", "%lu",
                       (unsigned long)spec->reserved);
    }
    if (hasher_profile_keyed(spec->profile) && !spec->secret) {
        return bgi_err(info, BG_EINVAL, "hash.secret",
                       "16 random bytes, because the profile is keyed", "NULL");
    }
    return spec->profile == BG_HASH_CUSTOM ? hasher_check_custom(spec, info) : BG_OK;
}

static void hasher_sip_key(struct bgi_hasher *h, const uint8_t *secret)
{
    h->sip[0] = bgi_load_le64(secret);
    h->sip[1] = bgi_load_le64(secret + 8);
}

static void hasher_prepare_integer(struct bgi_hasher *h)
{
    static const uint8_t for_aes16[BGI_AES_BLOCK + 1] = "bloomgate key 16";
    static const uint8_t for_sip[BGI_AES_BLOCK + 1] = "bloomgate sip 13";
    struct bgi_aes *aes8 = &h->u.integer.aes8;
    uint8_t derived[BGI_AES_BLOCK];
    bgi_aes_init(aes8, h->secret, h->features);
    bgi_aes_encrypt(aes8, h->features, for_aes16, derived);
    bgi_aes_init(&h->u.integer.aes16, derived, h->features);
    bgi_aes_encrypt(aes8, h->features, for_sip, derived);
    hasher_sip_key(h, derived);
    bgi_wipe(derived, sizeof derived);
}

static void hasher_prepare_custom(struct bgi_hasher *h, const bg_hash_spec *spec)
{
    h->u.custom.function = spec->custom;
    h->u.custom.context = spec->custom_context;
    memcpy(h->u.custom.name, spec->custom_name, strlen(spec->custom_name));
}

bg_err bg_hasher_init(bg_hasher *hasher, const bg_hash_spec *spec, bg_errinfo *info)
{
    static const bg_hash_spec standard;
    assert(hasher);
    spec = spec ? spec : &standard;
    bgi_err_clear(info);
    bg_err err = hasher_check_spec(spec, info);
    if (err) {
        return err;
    }
    struct bgi_hasher *h = (struct bgi_hasher *)(void *)hasher;
    memset(hasher, 0, sizeof *hasher);
    h->profile = spec->profile;
    h->features = bgi_features();
    if (hasher_profile_keyed(spec->profile)) {
        memcpy(h->secret, spec->secret, sizeof h->secret);
    }
    switch ((bg_hash_profile)spec->profile) {
    case BG_HASH_FAST:
    case BG_HASH_FAST_INT:
        h->seed = spec->seed;
        bgi_hasher_prepare_fast(h);
        break;
    case BG_HASH_XXH64: h->seed = spec->seed; break;
    case BG_HASH_KEYED:
    case BG_HASH_KEYED24: hasher_sip_key(h, h->secret); break;
    case BG_HASH_KEYED_INT: hasher_prepare_integer(h); break;
    case BG_HASH_CUSTOM: hasher_prepare_custom(h, spec); break;
    }
    return BG_OK;
}

void bg_hasher_wipe(bg_hasher *hasher)
{
    if (hasher) {
        bgi_wipe(hasher, sizeof *hasher);
    }
}

bool bgi_hasher_keyed(const bg_hasher *hasher)
{
    return hasher_profile_keyed(bgi_hasher_in(hasher)->profile);
}

/* Takes constant time, so that the timing does not reveal at which byte two secrets differ. */
static bool hasher_secrets_equal(const uint8_t *a, const uint8_t *b)
{
    uint8_t difference = 0;
    for (int i = 0; i < BG_SECRET_BYTES; i++) {
        difference = (uint8_t)(difference | (a[i] ^ b[i]));
    }
    return difference == 0;
}

bool bg_hasher_equal(const bg_hasher *a, const bg_hasher *b)
{
    assert(a && b);
    const struct bgi_hasher *x = bgi_hasher_in(a), *y = bgi_hasher_in(b);
    if (x->profile != y->profile || x->seed != y->seed) {
        return false;
    }
    if (x->profile == BG_HASH_CUSTOM) {
        return x->u.custom.function == y->u.custom.function
               && x->u.custom.context == y->u.custom.context
               && memcmp(x->u.custom.name, y->u.custom.name, BGI_CUSTOM_NAME) == 0;
    }
    return hasher_secrets_equal(x->secret, y->secret);
}

/* The string must never change, because files contain the value computed from it. `fast-int` hashes
 * strings like `fast`, so its number is hashed again, as an integer: otherwise both profiles would
 * have the same number. */
uint64_t bg_hasher_check(const bg_hasher *hasher)
{
    static const char fixed[] = "bloomgate: which hasher is this?";
    const uint64_t check = bg_hash_bytes(hasher, fixed, sizeof fixed - 1);
    return bg_hasher_profile(hasher) == BG_HASH_FAST_INT ? bg_hash_u64(hasher, check)
                                                         : check;
}

bg_hash_profile bg_hasher_profile(const bg_hasher *hasher)
{
    assert(hasher);
    return (bg_hash_profile)bgi_hasher_in(hasher)->profile;
}

const char *bg_hash_name(bg_hash_profile profile)
{
    switch (profile) {
#define HASHER_NAME(NAME, number, text, secret)                                        \
    case BG_HASH_##NAME: return text;
        BG_HASHES(HASHER_NAME)
#undef HASHER_NAME
    }
    return "unknown";
}

bool bg_hash_parse(const char *name, bg_hash_profile *profile)
{
#define HASHER_MATCH(NAME, number, text, secret)                                       \
    if (name && strcmp(name, text) == 0) {                                             \
        *profile = BG_HASH_##NAME;                                                     \
        return true;                                                                   \
    }
    BG_HASHES(HASHER_MATCH)
#undef HASHER_MATCH
    return false;
}
