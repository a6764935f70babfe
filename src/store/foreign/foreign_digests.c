#include "store/foreign/foreign_digests.h"

#include "base/bits.h"

#include <stdbool.h>
#include <string.h>

/* ---- MD5 ------------------------------------------------------------------------------ */

/* floor(2^32 * |sin(i + 1)|) */
static const uint32_t digests_sines[64] = {
    0xd76aa478u, 0xe8c7b756u, 0x242070dbu, 0xc1bdceeeu, 0xf57c0fafu, 0x4787c62au,
    0xa8304613u, 0xfd469501u, 0x698098d8u, 0x8b44f7afu, 0xffff5bb1u, 0x895cd7beu,
    0x6b901122u, 0xfd987193u, 0xa679438eu, 0x49b40821u, 0xf61e2562u, 0xc040b340u,
    0x265e5a51u, 0xe9b6c7aau, 0xd62f105du, 0x02441453u, 0xd8a1e681u, 0xe7d3fbc8u,
    0x21e1cde6u, 0xc33707d6u, 0xf4d50d87u, 0x455a14edu, 0xa9e3e905u, 0xfcefa3f8u,
    0x676f02d9u, 0x8d2a4c8au, 0xfffa3942u, 0x8771f681u, 0x6d9d6122u, 0xfde5380cu,
    0xa4beea44u, 0x4bdecfa9u, 0xf6bb4b60u, 0xbebfbc70u, 0x289b7ec6u, 0xeaa127fau,
    0xd4ef3085u, 0x04881d05u, 0xd9d4d039u, 0xe6db99e5u, 0x1fa27cf8u, 0xc4ac5665u,
    0xf4292244u, 0x432aff97u, 0xab9423a7u, 0xfc93a039u, 0x655b59c3u, 0x8f0ccc92u,
    0xffeff47du, 0x85845dd1u, 0x6fa87e4fu, 0xfe2ce6e0u, 0xa3014314u, 0x4e0811a1u,
    0xf7537e82u, 0xbd3af235u, 0x2ad7d2bbu, 0xeb86d391u,
};

static void digests_md5_block(uint32_t state[4], const unsigned char *p)
{
    static const unsigned char turns[4][4] = {
        { 7, 12, 17, 22 }, { 5, 9, 14, 20 }, { 4, 11, 16, 23 }, { 6, 10, 15, 21 }
    };
    static const unsigned char step[4] = { 1, 5, 3, 7 }, start[4] = { 0, 1, 5, 0 };
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    for (unsigned i = 0; i < 64; i++) {
        const unsigned round = i / 16;
        const unsigned by = turns[round][i % 4];
        const unsigned word = (start[round] + step[round] * i) % 16;
        const uint32_t mixed[4] = { (b & c) | (~b & d), (d & b) | (~d & c), b ^ c ^ d,
                                    c ^ (b | ~d) };
        uint32_t sum =
            a + mixed[round] + digests_sines[i] + bgi_load_le32(p + 4 * word);
        a = d;
        d = c;
        c = b;
        b += sum << by | sum >> (32 - by);
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
}

void foreign_md5(unsigned char first, const void *bytes, size_t len,
                 unsigned char digest[16])
{
    uint32_t state[4] = { 0x67452301u, 0xefcdab89u, 0x98badcfeu, 0x10325476u };
    const unsigned char *p = bytes;
    unsigned char block[64] = { first };
    size_t fill = 1; /* number of bytes in the block */
    for (size_t left = len; left > 0;) {
        size_t part = left < 64 - fill ? left : 64 - fill;
        memcpy(block + fill, p, part);
        p += part;
        left -= part;
        fill += part;
        if (fill == 64) {
            digests_md5_block(state, block);
            fill = 0;
        }
    }
    memset(block + fill, 0, 64 - fill);
    block[fill] = 0x80;
    if (fill >= 56) { /* the length field does not fit into this block */
        digests_md5_block(state, block);
        memset(block, 0, 64);
    }
    bgi_store_le64(block + 56, 8 * ((uint64_t)len + 1));
    digests_md5_block(state, block);
    bgi_store_le64(digest, state[0] | (uint64_t)state[1] << 32);
    bgi_store_le64(digest + 8, state[2] | (uint64_t)state[3] << 32);
}

/* ---- BLAKE2b -------------------------------------------------------------------------- */

static const uint64_t digests_blake_start[8] = {
    0x6a09e667f3bcc908u, 0xbb67ae8584caa73bu, 0x3c6ef372fe94f82bu, 0xa54ff53a5f1d36f1u,
    0x510e527fade682d1u, 0x9b05688c2b3e6c1fu, 0x1f83d9abfb41bd6bu, 0x5be0cd19137e2179u
};

/* The order in which each round uses the words of a block. Rounds 10 and 11 repeat the order of
 * the first two rounds. */
static const unsigned char digests_order[10][16] = {
    { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 },
    { 14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3 },
    { 11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4 },
    { 7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8 },
    { 9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13 },
    { 2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9 },
    { 12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11 },
    { 13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10 },
    { 6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5 },
    { 10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0 },
};

/* The state words that each mixing step uses: the four columns, then the four diagonals. */
static const unsigned char digests_lanes[8][4] = {
    { 0, 4, 8, 12 },  { 1, 5, 9, 13 },  { 2, 6, 10, 14 }, { 3, 7, 11, 15 },
    { 0, 5, 10, 15 }, { 1, 6, 11, 12 }, { 2, 7, 8, 13 },  { 3, 4, 9, 14 },
};

static uint64_t digests_rotr64(uint64_t x, unsigned by)
{
    return x >> by | x << (64 - by);
}

static void digests_blake_mix(uint64_t v[16], const unsigned char lanes[4], uint64_t x,
                              uint64_t y)
{
    uint64_t a = v[lanes[0]], b = v[lanes[1]], c = v[lanes[2]], d = v[lanes[3]];
    a += b + x;
    d = digests_rotr64(d ^ a, 32);
    c += d;
    b = digests_rotr64(b ^ c, 24);
    a += b + y;
    d = digests_rotr64(d ^ a, 16);
    c += d;
    b = digests_rotr64(b ^ c, 63);
    v[lanes[0]] = a;
    v[lanes[1]] = b;
    v[lanes[2]] = c;
    v[lanes[3]] = d;
}

/* `total` is the number of message bytes up to the end of this block. */
static void digests_blake_block(uint64_t h[8], const unsigned char *block,
                                uint64_t total, bool last)
{
    uint64_t v[16], m[16];
    for (unsigned i = 0; i < 16; i++) {
        v[i] = i < 8 ? h[i] : digests_blake_start[i - 8];
        m[i] = bgi_load_le64(block + 8 * i);
    }
    v[12] ^= total;
    v[14] ^= last ? UINT64_MAX : 0;
    for (unsigned round = 0; round < 12; round++) {
        const unsigned char *order = digests_order[round % 10];
        for (unsigned i = 0; i < 8; i++) {
            digests_blake_mix(v, digests_lanes[i], m[order[2 * i]],
                              m[order[2 * i + 1]]);
        }
    }
    for (unsigned i = 0; i < 8; i++) {
        h[i] ^= v[i] ^ v[i + 8];
    }
}

uint64_t foreign_blake2b_64(const char *person, const void *bytes, size_t len)
{
    enum { BLOCK = 128, DIGEST = 8 };
    unsigned char name[16] = { 0 }, block[BLOCK] = { 0 };
    const unsigned char *p = bytes;
    uint64_t h[8], total = 0;
    memcpy(h, digests_blake_start, sizeof h);
    for (size_t i = 0; i < sizeof name && person[i]; i++) {
        name[i] = (unsigned char)person[i];
    }
    h[0] ^= 0x01010000 ^ DIGEST; /* fan-out 1, depth 1, no key */
    h[6] ^= bgi_load_le64(name);
    h[7] ^= bgi_load_le64(name + 8);
    for (; len - total > BLOCK; total += BLOCK) {
        digests_blake_block(h, p + total, total + BLOCK, false);
    }
    if (len) {
        memcpy(block, p + total, (size_t)(len - total));
    }
    digests_blake_block(h, block, len, true);
    return h[0];
}
