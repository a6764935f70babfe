/*
 * aes.h - AES-128 as a keyed permutation of 16-byte blocks, and 64-bit hashes of 8-byte and
 * 16-byte keys based on it. aes.c explains the design, and hasher.c explains where the secrets
 * come from.
 *
 * `features` are BGI_HAS_ bits that select the instructions. Pass the same bits when preparing
 * a key and when using it, because the round keys are stored in the form that the selected
 * instructions need. The results do not depend on the instructions.
 */
#ifndef BGI_AES_H
#define BGI_AES_H

#include <stddef.h>
#include <stdint.h>

enum { BGI_AES_BLOCK = 16, BGI_AES_ROUNDS = 10 };

/* The eleven round keys, as bytes, or as bit planes if the CPU has no AES instructions. Round keys
 * reveal the secret, so wipe them after use. */
struct bgi_aes {
    uint8_t round_keys[BGI_AES_ROUNDS + 1][BGI_AES_BLOCK];
};

/* Computes the round keys of a 16-byte secret. */
void bgi_aes_init(struct bgi_aes *aes, const uint8_t *secret, uint32_t features);

/* Encrypts one block; `in` and `out` may be the same. */
void bgi_aes_encrypt(const struct bgi_aes *aes, uint32_t features, const uint8_t *in,
                     uint8_t *out);

/*
 * Hashes n keys of `width` bytes (8 or 16), which are stored one after another and need no
 * alignment. out[i] is the first half of the encrypted key, in little-endian order. 8-byte keys are
 * padded with zeros to a full block.
 */
void bgi_aes_hash(const struct bgi_aes *aes, uint32_t features, const uint8_t *keys,
                  size_t width, size_t n, uint64_t *out);

/* Hashes one key. */
uint64_t bgi_aes_hash_one(const struct bgi_aes *aes, uint32_t features,
                          const uint8_t *key, size_t width);

/*
 * The rest of this file declares the implementations among which aes.c chooses. `sub_word`
 * applies the S-box to the four bytes of a word, for the key schedule.
 */
struct bgi_aes_code {
    uint32_t (*sub_word)(uint32_t word);
    void (*encrypt)(const struct bgi_aes *aes, const uint8_t *in, uint8_t *out);
    void (*hash)(const struct bgi_aes *aes, const uint8_t *keys, size_t width, size_t n,
                 uint64_t *out);
    uint64_t (*hash_one)(const struct bgi_aes *aes, const uint8_t *key, size_t width);
};

/* These need BGI_HAS_AESNI, BGI_HAS_VAES512 and BGI_HAS_ARM_AES. */
extern const struct bgi_aes_code bgi_aes_x86;
extern const struct bgi_aes_code bgi_aes_vaes;
extern const struct bgi_aes_code bgi_aes_arm;

#endif
