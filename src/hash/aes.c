/*
 * aes.c - AES-128 for CPUs without AES instructions, and the choice among the implementations
 * (aes_x86.c, aes_arm.c).
 *
 * Why does a hash library contain AES? A block cipher with a secret key is a pseudorandom
 * permutation, and CPUs compute AES faster than any other keyed function. A key of exactly one
 * block needs no chaining, padding or length: one call is the whole hash. The code runs all ten
 * rounds of FIPS-197, because earlier "AES hashes" with fewer rounds were broken.
 *
 * The problem with AES in plain C is the S-box. If the S-box is a table, secret bytes are used as
 * indexes into it, and the access time reveals which cache line was read. Keys have been recovered
 * over the network this way (Bernstein, "Cache-timing attacks on AES", 2005). So this file uses no
 * table. The S-box is computed from its definition, on 64 bytes at once, using only AND, XOR and
 * shifts by constants. So neither the running time nor the memory accesses depend on the data:
 *
 *   bit planes   Four blocks are 64 bytes. Plane b collects bit b of each byte:
 *
 *                    plane 0   bit 63 .. 48 | 47 .. 32 | 31 .. 16 | 15 .. 0
 *                    ...          block 3   | block 2  | block 1  | block 0
 *                    plane 7          bit 16 B + 4 c + r:  block B, column c, row r
 *
 *                This is "bitslicing" (Biham, "A fast new DES implementation in
 *                software", 1997): one operation on planes works on all 64 bytes.
 *   SubBytes     is the inverse in GF(2^8), then an affine map. The inverse of x is
 *                x^254 (and 0 stays 0), by the chain of powers 2 3 12 15 240 252 254:
 *                four multiplications, and squarings, which are linear and cheap.
 *   ShiftRows    moves bytes between columns of one row: rotations within 16 bits.
 *   MixColumns   combines the rows of a column: rotations within 4 bits, and doubling
 *                in GF(2^8), which moves planes up by one.
 *
 * Invariants
 *   (I1) No branch and no address depends on a secret or on a key being hashed.
 *   (I2) Round keys are stored as bytes for code with AES instructions and as 16-bit planes for
 *        the code in this file; both forms take 176 bytes. `aes_choose` depends only on the CPU
 *        features, so round keys are always used in the form in which they were prepared.
 *
 * Cost on Zen 4: about 1 us for one to four blocks, or 250 ns per key in batches; computing a key
 * schedule takes about another 1 us. With AES instructions a key takes 0.7 ns in batches and 4 ns
 * in a single call. A circuit in a tower field would need a third of the operations, but could not
 * be verified by inspection. CPUs without AES instructions are too rare to justify trading clarity
 * for speed, and the profile `keyed` is faster on them anyway.
 */
#include "hash/aes.h"

#include "base/bits.h"
#include "base/compiler.h"
#include "base/features.h"
#include "base/memory.h"

#include <string.h>

/* 64 bytes stored as bit planes. */
struct aes_planes {
    uint64_t bit[8];
};

enum { AES_SIDE_BY_SIDE = 4, AES_WORDS = 4 * (BGI_AES_ROUNDS + 1) };

/* Transposes the 8 x 8 bits of a word: bit j of byte i becomes bit i of byte j. */
static uint64_t aes_transpose(uint64_t x)
{
    uint64_t t = (x ^ x >> 7) & UINT64_C(0x00aa00aa00aa00aa);
    x ^= t ^ t << 7;
    t = (x ^ x >> 14) & UINT64_C(0x0000cccc0000cccc);
    x ^= t ^ t << 14;
    t = (x ^ x >> 28) & UINT64_C(0x00000000f0f0f0f0);
    return x ^ t ^ t << 28;
}

/* Stores 8 bytes, starting at position 8 * group. The planes must be zero at these positions. */
static void aes_put(struct aes_planes *p, unsigned group, uint64_t bytes)
{
    bytes = aes_transpose(bytes);
    for (unsigned b = 0; b < 8; b++) {
        p->bit[b] |= (bytes >> 8 * b & 0xff) << 8 * group;
    }
}

/* Loads 8 bytes, starting at position 8 * group. */
static uint64_t aes_take(const struct aes_planes *p, unsigned group)
{
    uint64_t bytes = 0;
    for (unsigned b = 0; b < 8; b++) {
        bytes |= (p->bit[b] >> 8 * group & 0xff) << 8 * b;
    }
    return aes_transpose(bytes);
}

/* Returns a * b in GF(2^8) modulo x^8 + x^4 + x^3 + x + 1: multiplies by the schoolbook method,
 * then reduces the high powers from the top with x^k = x^(k-4) + x^(k-5) + x^(k-7) + x^(k-8). */
BGI_INLINE struct aes_planes aes_multiply(const struct aes_planes *a,
                                          const struct aes_planes *b)
{
    uint64_t t[15] = { 0 };
    struct aes_planes product;
    for (int i = 0; i < 8; i++) {
        for (int j = 0; j < 8; j++) {
            t[i + j] ^= a->bit[i] & b->bit[j];
        }
    }
    for (int k = 14; k >= 8; k--) {
        t[k - 4] ^= t[k];
        t[k - 5] ^= t[k];
        t[k - 7] ^= t[k];
        t[k - 8] ^= t[k];
    }
    memcpy(product.bit, t, sizeof product.bit);
    return product;
}

/* Returns a^2. Squaring doubles the exponent of each term; x^8 .. x^14 are already reduced modulo
 * the polynomial. */
BGI_INLINE struct aes_planes aes_square(const struct aes_planes *a)
{
    const uint64_t *x = a->bit;
    return (struct aes_planes){ {
        x[0] ^ x[4] ^ x[6],
        x[4] ^ x[6] ^ x[7],
        x[1] ^ x[5],
        x[4] ^ x[5] ^ x[6] ^ x[7],
        x[2] ^ x[4] ^ x[7],
        x[5] ^ x[6],
        x[3] ^ x[5],
        x[6] ^ x[7],
    } };
}

static struct aes_planes aes_invert(const struct aes_planes *x)
{
    struct aes_planes x2 = aes_square(x);
    struct aes_planes x3 = aes_multiply(&x2, x);
    struct aes_planes x6 = aes_square(&x3);
    struct aes_planes x12 = aes_square(&x6);
    struct aes_planes power = aes_multiply(&x12, &x3); /* x^15; becomes x^240 */
    for (int i = 0; i < 4; i++) {
        power = aes_square(&power);
    }
    power = aes_multiply(&power, &x12);
    return aes_multiply(&power, &x2);
}

/* SubBytes: the inverse, then bit i ^= bits i+4 .. i+7 modulo 8, then ^= 0x63. */
static void aes_sub_bytes(struct aes_planes *p)
{
    struct aes_planes x = aes_invert(p);
    for (unsigned i = 0; i < 8; i++) {
        uint64_t constant = 0 - (uint64_t)(0x63 >> i & 1);
        p->bit[i] = x.bit[i] ^ x.bit[(i + 4) & 7] ^ x.bit[(i + 5) & 7]
                    ^ x.bit[(i + 6) & 7] ^ x.bit[(i + 7) & 7] ^ constant;
    }
}

/* ShiftRows: row r moves left by r columns, that is, right by 4 r bits. */
static void aes_shift_rows(struct aes_planes *p)
{
    for (int b = 0; b < 8; b++) {
        uint64_t x = p->bit[b];
        p->bit[b] = (x & UINT64_C(0x1111111111111111))
                    | (x >> 4 & UINT64_C(0x0222022202220222))
                    | (x << 12 & UINT64_C(0x2000200020002000))
                    | (x >> 8 & UINT64_C(0x0044004400440044))
                    | (x << 8 & UINT64_C(0x4400440044004400))
                    | (x >> 12 & UINT64_C(0x0008000800080008))
                    | (x << 4 & UINT64_C(0x8880888088808880));
    }
}

/* Moves each row to the position of the row above it, in every column. */
BGI_INLINE uint64_t aes_next_row(uint64_t x)
{
    return (x >> 1 & UINT64_C(0x7777777777777777))
           | (x << 3 & UINT64_C(0x8888888888888888));
}

/* MixColumns: 2 a0 + 3 a1 + a2 + a3 = 2 (a0 + a1) + a1 + a2 + a3, for each row. */
static void aes_mix_columns(struct aes_planes *p)
{
    uint64_t sum[8], rest[8];
    for (int b = 0; b < 8; b++) {
        uint64_t a1 = aes_next_row(p->bit[b]);
        uint64_t a2 = aes_next_row(a1);
        sum[b] = p->bit[b] ^ a1;
        rest[b] = a1 ^ a2 ^ aes_next_row(a2);
    }
    for (int b = 0; b < 8; b++) {
        uint64_t twice = b > 0 ? sum[b - 1] : sum[7];
        if (b == 1 || b == 3 || b == 4) { /* 2 x^7 = x^4 + x^3 + x + 1 */
            twice ^= sum[7];
        }
        p->bit[b] = twice ^ rest[b];
    }
}

/* Adds the same round key to all four blocks. */
static void aes_add_round_key(struct aes_planes *p, const uint8_t *round_key)
{
    uint16_t plane[8];
    memcpy(plane, round_key, sizeof plane);
    for (int b = 0; b < 8; b++) {
        p->bit[b] ^= plane[b] * UINT64_C(0x0001000100010001);
    }
}

static void aes_rounds(const struct bgi_aes *aes, struct aes_planes *p)
{
    aes_add_round_key(p, aes->round_keys[0]);
    for (int round = 1; round <= BGI_AES_ROUNDS; round++) {
        aes_sub_bytes(p);
        aes_shift_rows(p);
        if (round < BGI_AES_ROUNDS) {
            aes_mix_columns(p);
        }
        aes_add_round_key(p, aes->round_keys[round]);
    }
}

static void aes_encrypt_portable(const struct bgi_aes *aes, const uint8_t *in,
                                 uint8_t *out)
{
    struct aes_planes p = { { 0 } };
    aes_put(&p, 0, bgi_load_le64(in));
    aes_put(&p, 1, bgi_load_le64(in + 8));
    aes_rounds(aes, &p);
    bgi_store_le64(out, aes_take(&p, 0));
    bgi_store_le64(out + 8, aes_take(&p, 1));
}

static void aes_hash_portable(const struct bgi_aes *aes, const uint8_t *keys,
                              size_t width, size_t n, uint64_t *out)
{
    for (size_t i = 0; i < n; i += AES_SIDE_BY_SIDE) {
        const size_t left = n - i;
        unsigned count = left < AES_SIDE_BY_SIDE ? (unsigned)left : AES_SIDE_BY_SIDE;
        struct aes_planes p = { { 0 } };
        for (unsigned j = 0; j < count; j++, keys += width) {
            aes_put(&p, 2 * j, bgi_load_le64(keys));
            if (width == 16) {
                aes_put(&p, 2 * j + 1, bgi_load_le64(keys + 8));
            }
        }
        aes_rounds(aes, &p);
        for (unsigned j = 0; j < count; j++) {
            out[i + j] = aes_take(&p, 2 * j);
        }
    }
}

static uint64_t aes_hash_one_portable(const struct bgi_aes *aes, const uint8_t *key,
                                      size_t width)
{
    uint64_t hash;
    aes_hash_portable(aes, key, width, 1, &hash);
    return hash;
}

static uint32_t aes_sub_word_portable(uint32_t word)
{
    struct aes_planes p = { { 0 } };
    aes_put(&p, 0, word);
    aes_sub_bytes(&p);
    return (uint32_t)aes_take(&p, 0);
}

static const struct bgi_aes_code aes_portable = {
    aes_sub_word_portable,
    aes_encrypt_portable,
    aes_hash_portable,
    aes_hash_one_portable,
};

static const struct bgi_aes_code *aes_choose(uint32_t features)
{
#if defined(BGI_X86_64)
    if (features & BGI_HAS_VAES512) {
        return &bgi_aes_vaes;
    }
    if (features & BGI_HAS_AESNI) {
        return &bgi_aes_x86;
    }
#elif defined(BGI_AARCH64)
    if ((features & BGI_HAS_ARM_AES) && bgi_aes_arm.hash) {
        return &bgi_aes_arm;
    }
#endif
    (void)features;
    return &aes_portable;
}

/* Converts round keys from bytes to planes. */
static void aes_slice(struct bgi_aes *aes)
{
    for (int round = 0; round <= BGI_AES_ROUNDS; round++) {
        struct aes_planes p = { { 0 } };
        uint16_t plane[8];
        aes_put(&p, 0, bgi_load_le64(aes->round_keys[round]));
        aes_put(&p, 1, bgi_load_le64(aes->round_keys[round] + 8));
        for (int b = 0; b < 8; b++) {
            plane[b] = (uint16_t)p.bit[b];
        }
        memcpy(aes->round_keys[round], plane, sizeof plane);
        bgi_wipe(&p, sizeof p);
        bgi_wipe(plane, sizeof plane);
    }
}

/*
 * Implements the key schedule of FIPS-197, section 5.2, on little-endian words. Byte 0 is the
 * lowest, so the standard's left rotation of bytes is a right rotation of bits.
 */
void bgi_aes_init(struct bgi_aes *aes, const uint8_t *secret, uint32_t features)
{
    const struct bgi_aes_code *code = aes_choose(features);
    uint8_t *words = aes->round_keys[0];
    uint32_t rcon = 1;
    memcpy(words, secret, BGI_AES_BLOCK);
    for (int i = 4; i < AES_WORDS; i++) {
        uint32_t word = bgi_load_le32(words + 4 * (i - 1));
        if (i % 4 == 0) {
            word = code->sub_word(word >> 8 | word << 24) ^ rcon;
            rcon = rcon << 1 ^ (rcon >> 7) * 0x11b;
        }
        word = bgi_le32(word ^ bgi_load_le32(words + 4 * (i - 4)));
        memcpy(words + 4 * i, &word, sizeof word);
    }
    if (code == &aes_portable) {
        aes_slice(aes);
    }
}

void bgi_aes_encrypt(const struct bgi_aes *aes, uint32_t features, const uint8_t *in,
                     uint8_t *out)
{
    aes_choose(features)->encrypt(aes, in, out);
}

void bgi_aes_hash(const struct bgi_aes *aes, uint32_t features, const uint8_t *keys,
                  size_t width, size_t n, uint64_t *out)
{
    aes_choose(features)->hash(aes, keys, width, n, out);
}

uint64_t bgi_aes_hash_one(const struct bgi_aes *aes, uint32_t features,
                          const uint8_t *key, size_t width)
{
    return aes_choose(features)->hash_one(aes, key, width);
}
