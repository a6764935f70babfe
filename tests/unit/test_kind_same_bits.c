/*
 * The bits for a hash are the same on every machine and in every version, so a filter written
 * on one machine gives the same answers on every other machine. The digests below were computed
 * on x86-64; words are read as numbers, so the byte order does not matter. If a digest changes,
 * existing files can no longer be read.
 */
#include "support/adds.h"
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

/* Blocked and split filters consist of 32-bit words, and all other kinds of 64-bit words. */
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

/* Returns the digest of a filter with 500 hashes that are the same in every run. */
static uint64_t digest_for(bg_kind kind, uint32_t k)
{
    bg_spec spec = exact_spec(kind, 1 + ABOUT_BYTES / kind_unit_bytes(kind, k), k,
                              BG_SPEC_EXCLUSIVE);
    bg_filter *filter = NULL;
    size_t bytes = 0;
    uint64_t state = 1;
    CHECK_OK(bg_filter_memory_needed(&spec, &bytes, NULL));
    void *memory = line_memory(bytes);
    CHECK_OK(bg_filter_create_at(memory, bytes, &spec, &filter, NULL));
    for (int i = 0; i < KEYS; i++) {
        added_hash(filter, check_random_next(&state));
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
    { BG_KIND_BLOCKED, 3, UINT64_C(0xe57d06504996ed8a) },
    { BG_KIND_BLOCKED, 4, UINT64_C(0xfcb8df7d9689cb02) },
    { BG_KIND_BLOCKED, 5, UINT64_C(0x46a4410f3667aa66) },
    { BG_KIND_BLOCKED, 6, UINT64_C(0x086ecc3d5f9d6249) },
    { BG_KIND_BLOCKED, 7, UINT64_C(0xa0c8dad22bdf41ec) },
    { BG_KIND_BLOCKED, 8, UINT64_C(0x682e6704464fe9a7) },
    { BG_KIND_BLOCKED, 9, UINT64_C(0x56083c19d0d08668) },
    { BG_KIND_BLOCKED, 10, UINT64_C(0x689a0f175d4fdb33) },
    { BG_KIND_BLOCKED, 11, UINT64_C(0x12a791e3da4d3724) },
    { BG_KIND_BLOCKED, 12, UINT64_C(0x9a07d06fe5327e42) },
    { BG_KIND_BLOCKED, 13, UINT64_C(0xd35641aa6f1b99d1) },
    { BG_KIND_BLOCKED, 14, UINT64_C(0xc6c5d637f696cb9f) },
    { BG_KIND_BLOCKED, 15, UINT64_C(0x6c680826ae48cd44) },
    { BG_KIND_BLOCKED, 16, UINT64_C(0x97675807b9763440) },
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
