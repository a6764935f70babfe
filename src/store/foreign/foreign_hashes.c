#include "store/foreign/foreign_hashes.h"

#include "base/bits.h"
#include "hash/siphash.h"

#include <string.h>

static uint32_t hashes_rotl32(uint32_t x, unsigned by)
{
    return x << by | x >> (32 - by);
}

static uint64_t hashes_rotl64(uint64_t x, unsigned by)
{
    return x << by | x >> (64 - by);
}

/* Sign-extends a byte, as Java does. */
static uint64_t hashes_signed(unsigned char byte)
{
    return (uint64_t)byte - (byte >= 0x80 ? 256u : 0u);
}

/* ---- MurmurHash3, 128 bits ------------------------------------------------------------ */

static uint64_t hashes_mix_k1(uint64_t k)
{
    return hashes_rotl64(k * 0x87c37b91114253d5u, 31) * 0x4cf5ad432745937fu;
}

static uint64_t hashes_mix_k2(uint64_t k)
{
    return hashes_rotl64(k * 0x4cf5ad432745937fu, 33) * 0x87c37b91114253d5u;
}

static uint64_t hashes_finish64(uint64_t h)
{
    h = (h ^ h >> 33) * 0xff51afd7ed558ccdu;
    h = (h ^ h >> 33) * 0xc4ceb9fe1a85ec53u;
    return h ^ h >> 33;
}

static void hashes_block(struct foreign_pair *h, const unsigned char *p)
{
    h->h1 ^= hashes_mix_k1(bgi_load_le64(p));
    h->h1 = (hashes_rotl64(h->h1, 27) + h->h2) * 5 + 0x52dce729;
    h->h2 ^= hashes_mix_k2(bgi_load_le64(p + 8));
    h->h2 = (hashes_rotl64(h->h2, 31) + h->h1) * 5 + 0x38495ab5;
}

/* Hashes all blocks of 16 bytes. hashes_tail mixes in the remaining bytes. */
static struct foreign_pair hashes_blocks(const unsigned char *p, size_t len)
{
    struct foreign_pair h = { 0, 0 };
    for (size_t i = 0; i < len / 16; i++) {
        hashes_block(&h, p + 16 * i);
    }
    return h;
}

/* Mixes in the tail and finishes the hash. k1 and k2 are the words of the tail. A word is 0 if the
 * tail does not reach it, and mixing in 0 changes nothing. */
static struct foreign_pair hashes_tail(struct foreign_pair h, uint64_t k1, uint64_t k2,
                                       uint64_t len)
{
    h.h1 ^= hashes_mix_k1(k1) ^ len;
    h.h2 ^= hashes_mix_k2(k2) ^ len;
    h.h1 += h.h2;
    h.h2 += h.h1;
    h.h1 = hashes_finish64(h.h1);
    h.h2 = hashes_finish64(h.h2);
    h.h1 += h.h2;
    h.h2 += h.h1;
    return h;
}

/* Copies the last len % 16 bytes of a key and pads them with zeros. Returns the number of bytes
 * copied. */
static size_t hashes_last(unsigned char *to, const unsigned char *p, size_t len)
{
    const size_t left = len % 16;
    memset(to, 0, 16);
    if (left) {
        memcpy(to, p + (len - left), left);
    }
    return left;
}

struct foreign_pair foreign_murmur3_x64_128(const void *key, size_t len)
{
    unsigned char last[16];
    struct foreign_pair h = hashes_blocks(key, len);
    (void)hashes_last(last, key, len);
    return hashes_tail(h, bgi_load_le64(last), bgi_load_le64(last + 8), len);
}

struct foreign_pair foreign_murmur3_x64_128_then_1(const void *key, size_t len)
{
    unsigned char last[16];
    struct foreign_pair h = hashes_blocks(key, len);
    size_t left = hashes_last(last, key, len);
    last[left] = 1;
    if (left == 15) { /* the block is now complete, and no bytes are left over */
        hashes_block(&h, last);
        memset(last, 0, sizeof last);
    }
    return hashes_tail(h, bgi_load_le64(last), bgi_load_le64(last + 8),
                       (uint64_t)len + 1);
}

struct foreign_pair foreign_murmur3_x64_128_signed(const void *key, size_t len)
{
    unsigned char last[16];
    uint64_t k[2] = { 0, 0 };
    struct foreign_pair h = hashes_blocks(key, len);
    size_t left = hashes_last(last, key, len);
    for (size_t i = 0; i < left; i++) {
        k[i / 8] ^= hashes_signed(last[i]) << 8 * (i % 8);
    }
    return hashes_tail(h, k[0], k[1], len);
}

/* ---- MurmurHash3, 32 bits ------------------------------------------------------------- */

static uint32_t hashes_mix_k(uint32_t k)
{
    return hashes_rotl32(k * 0xcc9e2d51u, 15) * 0x1b873593u;
}

static uint32_t hashes_round(uint32_t h, uint32_t k)
{
    return hashes_rotl32(h ^ hashes_mix_k(k), 13) * 5 + 0xe6546b64u;
}

static uint32_t hashes_words(const unsigned char *p, size_t len, uint32_t h)
{
    for (size_t i = 0; i < len / 4; i++) {
        h = hashes_round(h, bgi_load_le32(p + 4 * i));
    }
    return h;
}

static uint32_t hashes_finish32(uint32_t h, size_t len)
{
    h ^= (uint32_t)len;
    h = (h ^ h >> 16) * 0x85ebca6bu;
    h = (h ^ h >> 13) * 0xc2b2ae35u;
    return h ^ h >> 16;
}

uint32_t foreign_murmur3_x86_32(const void *key, size_t len, uint32_t seed)
{
    const unsigned char *p = key;
    uint32_t h = hashes_words(p, len, seed), k = 0;
    for (size_t i = len / 4 * 4; i < len; i++) {
        k |= (uint32_t)p[i] << 8 * (i % 4);
    }
    return hashes_finish32(h ^ hashes_mix_k(k), len);
}

uint32_t foreign_murmur3_spark(const void *key, size_t len, uint32_t seed)
{
    const unsigned char *p = key;
    uint32_t h = hashes_words(p, len, seed);
    for (size_t i = len / 4 * 4; i < len; i++) {
        h = hashes_round(h, (uint32_t)hashes_signed(p[i]));
    }
    return hashes_finish32(h, len);
}

/* ---- MurmurHash2 ---------------------------------------------------------------------- */

uint32_t foreign_murmur2_hadoop(const void *key, size_t len, uint32_t seed)
{
    const unsigned char *p = key;
    const uint32_t m = 0x5bd1e995u;
    const size_t left = len % 4;
    uint32_t h = seed ^ (uint32_t)len;
    for (size_t i = 0; i < len / 4; i++) {
        uint32_t k = bgi_load_le32(p + 4 * i) * m;
        h = h * m ^ (k ^ k >> 24) * m;
    }
    for (size_t i = 0; i < left; i++) { /* mixes in one byte, shifted by 8 * i */
        h ^= (uint32_t)hashes_signed(p[len - 1 - i]) << 8 * i;
    }
    h = left ? h * m : h;
    h = (h ^ h >> 13) * m;
    return h ^ h >> 15;
}

uint64_t foreign_murmur64a(const void *key, size_t len, uint64_t seed)
{
    const uint64_t m = 0xc6a4a7935bd1e995u;
    const unsigned char *p = key;
    uint64_t h = seed ^ (uint64_t)len * m, k = 0;
    for (size_t i = 0; i < len / 8; i++) {
        uint64_t word = bgi_load_le64(p + 8 * i) * m;
        h = (h ^ (word ^ word >> 47) * m) * m;
    }
    for (size_t i = len / 8 * 8; i < len; i++) {
        k |= (uint64_t)p[i] << 8 * (i % 8);
    }
    h = len % 8 ? (h ^ k) * m : h;
    h = (h ^ h >> 47) * m;
    return h ^ h >> 47;
}

/* ---- SipHash --------------------------------------------------------------------------- */

/* Mixes one message word into a SipHash-1-3 state. */
static void hashes_sip_word(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    BGI_SIPHASH_ROUND(v[0], v[1], v[2], v[3]);
    v[0] ^= word;
}

/* Hashes a byte slice as Rust's Hash trait does: the length as 8 bytes, then the bytes. */
uint64_t foreign_siphash13_rust(const void *key, size_t len, const uint64_t secret[2])
{
    const unsigned char *p = key;
    uint64_t v[4] = { secret[0] ^ BGI_SIPHASH_V0, secret[1] ^ BGI_SIPHASH_V1,
                      secret[0] ^ BGI_SIPHASH_V2, secret[1] ^ BGI_SIPHASH_V3 };
    hashes_sip_word(v, len);
    for (size_t i = 0; i < len / 8; i++) {
        hashes_sip_word(v, bgi_load_le64(p + 8 * i));
    }
    hashes_sip_word(v, bgi_siphash_last(p, len) + ((uint64_t)8 << 56));
    v[2] ^= 0xff;
    for (int i = 0; i < 3; i++) {
        BGI_SIPHASH_ROUND(v[0], v[1], v[2], v[3]);
    }
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* ---- Other functions ------------------------------------------------------------------- */

/* One step of the mixing in Bob Jenkins's lookup3. */
#define HASHES_MIX(x, y, z, by)                                                        \
    ((x) -= (z), (x) ^= hashes_rotl32((z), (by)), (z) += (y))
#define HASHES_FINAL(x, y, by) ((x) ^= (y), (x) -= hashes_rotl32((y), (by)))

uint32_t foreign_jenkins(const void *key, size_t len, uint32_t seed)
{
    const unsigned char *p = key;
    unsigned char last[12] = { 0 };
    uint32_t a = 0xdeadbeefu + (uint32_t)len + seed, b = a, c = a;
    size_t left = len;
    for (; left > 12; left -= 12, p += 12) {
        a += bgi_load_le32(p);
        b += bgi_load_le32(p + 4);
        c += bgi_load_le32(p + 8);
        HASHES_MIX(a, b, c, 4);
        HASHES_MIX(b, c, a, 6);
        HASHES_MIX(c, a, b, 8);
        HASHES_MIX(a, b, c, 16);
        HASHES_MIX(b, c, a, 19);
        HASHES_MIX(c, a, b, 4);
    }
    if (left == 0) {
        return c;
    }
    memcpy(last, p, left);
    a += bgi_load_le32(last);
    b += bgi_load_le32(last + 4);
    c += bgi_load_le32(last + 8);
    HASHES_FINAL(c, b, 14);
    HASHES_FINAL(a, c, 11);
    HASHES_FINAL(b, a, 25);
    HASHES_FINAL(c, b, 16);
    HASHES_FINAL(a, c, 4);
    HASHES_FINAL(b, a, 14);
    HASHES_FINAL(c, b, 24);
    return c;
}

uint64_t foreign_fnv1_64(const void *key, size_t len)
{
    const unsigned char *p = key;
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < len; i++) {
        h = h * 0x100000001b3u ^ p[i];
    }
    return h;
}
