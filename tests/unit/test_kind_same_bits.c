/*
 * The bits of a hash are the same on every machine and in every version: a filter that
 * was written anywhere answers the same everywhere. The digests below were made on
 * x86-64; the words are read as numbers, so the order of bytes does not matter. When one
 * of them changes, files that exist can no longer be read.
 */
#include "support/check.h"
#include "support/filters.h"

#include <stdio.h>

enum { KEYS = 500, ABOUT_BYTES = 2000 };

/* FNV-1a over numbers. */
static uint64_t digest_step(uint64_t digest, uint64_t number)
{
    for (int i = 0; i < 8; i++) {
        digest = (digest ^ (number >> (8 * i) & 0xff)) * UINT64_C(0x100000001b3);
    }
    return digest;
}

/* Lines are made of 32-bit words, the other kinds of 64-bit ones. */
static uint64_t digest_of(bg_kind kind, const void *memory, size_t bytes)
{
    uint64_t digest = UINT64_C(0xcbf29ce484222325);
    if (kind == BG_KIND_BLOCKED || kind == BG_KIND_SPLIT) {
        const uint32_t *word = memory;
        for (size_t i = 0; i < bytes / 4; i++) {
            digest = digest_step(digest, word[i]);
        }
        return digest;
    }
    const uint64_t *word = memory;
    for (size_t i = 0; i < bytes / 8; i++) {
        digest = digest_step(digest, word[i]);
    }
    return digest;
}

/* A filter of 500 hashes that depend on nothing but this file. */
static uint64_t digest_for(bg_kind kind, uint32_t k)
{
    bg_spec spec =
        exact_spec(kind, 1 + ABOUT_BYTES / kind_unit_bytes(kind, k), k, BG_EXCLUSIVE);
    bg_filter *filter = NULL;
    size_t bytes = 0;
    uint64_t state = 1;
    CHECK_OK(bg_filter_bytes(&spec, &bytes, NULL));
    void *memory = line_memory(bytes);
    CHECK_OK(bg_filter_init_at(memory, bytes, &spec, &filter, NULL));
    for (int i = 0; i < KEYS; i++) {
        bg_filter_add_hash(filter, check_random_next(&state));
    }
    uint64_t digest = digest_of(kind, memory, (size_t)bg_filter_size_bytes(filter));
    bg_filter_free(filter);
    free(memory);
    return digest;
}

static const struct {
    bg_kind kind;
    uint32_t k;
    uint64_t digest;
} known[] = {
    { BG_KIND_CLASSIC, 1, UINT64_C(0xc9512c9705ba6d21) },
    { BG_KIND_CLASSIC, 6, UINT64_C(0x8e12101fa8ec2fbc) },
    { BG_KIND_CLASSIC, 13, UINT64_C(0x9da18152c7dbc16e) },
    { BG_KIND_CLASSIC, 64, UINT64_C(0xd3dae2b5ad41c223) },
    { BG_KIND_PARTITIONED, 1, UINT64_C(0xc9512c9705ba6d21) },
    { BG_KIND_PARTITIONED, 6, UINT64_C(0xb81b9104258e9e7b) },
    { BG_KIND_PARTITIONED, 13, UINT64_C(0xe303c25814114a80) },
    { BG_KIND_PARTITIONED, 64, UINT64_C(0x28ea1e2513606259) },
    { BG_KIND_BLOCKED, 3, UINT64_C(0xf9a9652b240dc537) },
    { BG_KIND_BLOCKED, 4, UINT64_C(0x9409eaa4ee15499b) },
    { BG_KIND_BLOCKED, 5, UINT64_C(0x608781665102e8d7) },
    { BG_KIND_BLOCKED, 6, UINT64_C(0x80436d6c2b72f84c) },
    { BG_KIND_BLOCKED, 7, UINT64_C(0x7a470d11d0a54991) },
    { BG_KIND_BLOCKED, 8, UINT64_C(0xb18fad0829160588) },
    { BG_KIND_BLOCKED, 9, UINT64_C(0x8ef1c71982ef6556) },
    { BG_KIND_BLOCKED, 10, UINT64_C(0x72dbc72518775c38) },
    { BG_KIND_BLOCKED, 11, UINT64_C(0xc28c9933baff0453) },
    { BG_KIND_BLOCKED, 12, UINT64_C(0xe225f5e7dd72f27a) },
    { BG_KIND_BLOCKED, 13, UINT64_C(0x853c77f7af489c5c) },
    { BG_KIND_BLOCKED, 14, UINT64_C(0x80232348a0a24890) },
    { BG_KIND_BLOCKED, 15, UINT64_C(0x6033a604ea2d1639) },
    { BG_KIND_BLOCKED, 16, UINT64_C(0xef7d5e69a211e2d8) },
    { BG_KIND_SPLIT, 8, UINT64_C(0x7e5a6215c1634c72) },
    { BG_KIND_REGISTER, 1, UINT64_C(0xb78591fcc5b346df) },
    { BG_KIND_REGISTER, 2, UINT64_C(0x4bdc9a2c9db06d13) },
    { BG_KIND_REGISTER, 3, UINT64_C(0x99eaaa9b0a706381) },
    { BG_KIND_REGISTER, 4, UINT64_C(0x3cd5174053f61af6) },
    { BG_KIND_REGISTER, 5, UINT64_C(0x9b52f057df1e9c45) },
    { BG_KIND_REGISTER, 6, UINT64_C(0x8d044e67d28a807d) },
    { BG_KIND_REGISTER, 7, UINT64_C(0xb1c852f850d36711) },
    { BG_KIND_REGISTER, 8, UINT64_C(0x90a361ccb9051090) },
    { BG_KIND_REGISTER, 9, UINT64_C(0xe83ac47c24780d2d) },
    { BG_KIND_REGISTER, 10, UINT64_C(0xed5f82f607db925d) },
};

TEST(bits__are_the_same_everywhere)
{
    unsigned wrong = 0;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        uint64_t digest = digest_for(known[i].kind, known[i].k);
        if (digest != known[i].digest) {
            printf("%s, k = %u: UINT64_C(0x%016llx)\n", bg_kind_name(known[i].kind),
                   known[i].k, (unsigned long long)digest);
            wrong++;
        }
    }
    CHECK_EQ(wrong, 0);
}
