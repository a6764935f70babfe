/*
 * Compares the hash functions of Parquet, RocksDB, RedisBloom and LevelDB with values computed by
 * that software. XXPH3 is tested at every length where its algorithm changes.
 */
#include "support/check.h"

#include "hash/siphash.h"
#include "store/foreign/table_hashes.h"

#include <string.h>

/* Six keys, of which the fifth contains bytes above 0x7f and has an odd length. */
static const unsigned char odd[19] = { 0xf0, 0xf1, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6,
                                       0xf7, 0xf8, 0xf9, 0xfa, 0xfb, 0xfc, 0xfd,
                                       0xfe, 0xff, 0xff, 0x80, 0x7f };
static char many[300];
static const struct key {
    const void *data;
    size_t len;
} keys[6] = { { "", 0 },   { "a", 1 },   { "user30", 6 }, { "key000000002", 12 },
              { odd, 19 }, { many, 300 } };

static void fill_many(void)
{
    memset(many, 'x', sizeof many);
}

TEST(table_hashes__xxh64)
{
    static const uint64_t expected[6] = { 0xef46db3751d8e999, 0xd24ec4f1a98c6e5b,
                                          0xf4242a0aaeb4a00f, 0x513cc36a1565f41d,
                                          0xdfcb7ee4f0eef2f9, 0x8377db93c80fd5bf };
    fill_many();
    for (size_t i = 0; i < 6; i++) {
        CHECK_EQ(foreign_xxh64(keys[i].data, keys[i].len), expected[i]);
    }
}

TEST(table_hashes__xxph3)
{
    static const uint64_t expected[6] = { 0x5342c3010fe1dd04, 0x88d868bf607681c7,
                                          0x54319fd1eea8052f, 0x2cd59cb896e1d341,
                                          0xcf05a3db854b8abc, 0x1858aee0c0412fd4 };
    fill_many();
    for (size_t i = 0; i < 6; i++) {
        CHECK_EQ(foreign_xxph3(keys[i].data, keys[i].len), expected[i]);
    }
}

TEST(table_hashes__xxph3_is_not_xxh3)
{
    fill_many();
    for (size_t len = 0; len <= sizeof many; len++) {
        CHECK(foreign_xxph3(many, len) != foreign_xxh3(many, len));
    }
}

TEST(table_hashes__xxph3_at_every_border)
{
    static const struct {
        size_t len;
        uint64_t hash;
    } expected[] = { { 1, 0xc913a720a2324df4 },    { 2, 0xfdb0c4f27e682b9b },
                     { 3, 0x5d73c7a7b4703d20 },    { 4, 0x3eee4d8cec30fb56 },
                     { 7, 0xfa46ff257d719f40 },    { 8, 0x882407f43ae87754 },
                     { 9, 0xcd415f9c1ec2613c },    { 16, 0x02f728e2f7f07c6a },
                     { 17, 0x8710c8e9df40291d },   { 31, 0xd2f1830c0abdb841 },
                     { 32, 0xf106ac690239c126 },   { 33, 0xf6a645de996a064b },
                     { 63, 0xda68b5581864b8ca },   { 64, 0x9e5633536a0269a3 },
                     { 65, 0x4b29810c26119dce },   { 95, 0x84212715e2a4b91b },
                     { 96, 0xac740afb27a4b30d },   { 97, 0xa02375bf80d7a4f9 },
                     { 127, 0x07fd8c160957a572 },  { 128, 0xe0b92a580d50d4af },
                     { 129, 0x06f66371667f6cbe },  { 143, 0xe1604bcdaf9c74d9 },
                     { 144, 0x4a3886e9495e5b13 },  { 239, 0x0b56b68af4d44d24 },
                     { 240, 0x3d0867033ff12990 },  { 241, 0x7c6880690dbdbc2c },
                     { 255, 0xd2e04242b4a0f838 },  { 256, 0xa6858bb74ce1c630 },
                     { 257, 0x779bed333ab3095a },  { 1023, 0x4201bffd17ba0bff },
                     { 1024, 0xcd67abb2ee9141fa }, { 1025, 0x7263373e2097b663 },
                     { 1087, 0x798feae334bc8e30 }, { 1088, 0x3b5ef825149557ff },
                     { 1089, 0x89bef5b21eeaaa4e }, { 2048, 0x4140773ce2d647a0 },
                     { 2049, 0xbb3ebbe8de023f60 }, { 5000, 0xd5c4b601a192f9da } };
    static unsigned char key[5000];
    for (size_t i = 0; i < sizeof key; i++) {
        key[i] = (unsigned char)(7 * i + 1);
    }
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        CHECK_EQ(foreign_xxph3(key, expected[i].len), expected[i].hash);
    }
}

TEST(table_hashes__leveldb)
{
    static const uint32_t expected[6] = { 0xbc9f1d34, 0x286e9db0, 0x4ba81c39,
                                          0xc2357903, 0xae1d655d, 0x49067230 };
    fill_many();
    for (size_t i = 0; i < 6; i++) {
        CHECK_EQ(foreign_leveldb_hash(keys[i].data, keys[i].len, 0xbc9f1d34),
                 expected[i]);
    }
}

/* The library's own SipHash-2-4 matches the one that BIP158 uses. */
TEST(table_hashes__siphash24)
{
    static const uint64_t expected[6] = { 0x726fdb47dd0e0e31, 0x2ba3e8e9a71148ca,
                                          0x4681402d4dd323b3, 0xe24582139b0f3597,
                                          0x92b89a7a003a398f, 0x11a8091bcf4bc254 };
    static const bgi_siphash_key key = { 0x0706050403020100, 0x0f0e0d0c0b0a0908 };
    fill_many();
    for (size_t i = 0; i < 6; i++) {
        CHECK_EQ(bgi_siphash(BGI_SIPHASH_24, key, keys[i].data, keys[i].len),
                 expected[i]);
    }
}
