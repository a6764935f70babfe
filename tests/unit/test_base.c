/* Tests the base layer: checked arithmetic, bit operations and error details. */
#include "support/check.h"

#include "base/bits.h"
#include "base/checked.h"
#include "base/errinfo.h"

#include <math.h>
#include <string.h>

/* ---- checked.h ------------------------------------------------------------------- */

TEST(checked__products_that_fit)
{
    uint64_t out = 7;
    CHECK(bgi_mul_u64(0, UINT64_MAX, &out));
    CHECK_EQ(out, 0);
    CHECK(bgi_mul_u64(UINT64_MAX, 1, &out));
    CHECK_EQ(out, UINT64_MAX);
    CHECK(bgi_mul_u64(UINT64_C(1) << 32, (UINT64_C(1) << 32) - 1, &out));
    CHECK_EQ(out, UINT64_C(0xffffffff00000000));
}

TEST(checked__products_that_do_not_fit_leave_the_result)
{
    uint64_t out = 7;
    CHECK(!bgi_mul_u64(UINT64_C(1) << 32, UINT64_C(1) << 32, &out));
    CHECK(!bgi_mul_u64(UINT64_MAX, 2, &out));
    CHECK(!bgi_mul_u64(UINT64_MAX, UINT64_MAX, &out));
    CHECK_EQ(out, 7);
}

TEST(checked__sums)
{
    uint64_t out = 7;
    CHECK(!bgi_add_u64(UINT64_MAX, 1, &out));
    CHECK(!bgi_add_u64(UINT64_C(1) << 63, UINT64_C(1) << 63, &out));
    CHECK_EQ(out, 7);
    CHECK(bgi_add_u64(UINT64_MAX - 5, 5, &out));
    CHECK_EQ(out, UINT64_MAX);
}

TEST(checked__rounds_up)
{
    uint64_t out = 7;
    CHECK(bgi_round_up_u64(0, 64, &out));
    CHECK_EQ(out, 0);
    CHECK(bgi_round_up_u64(1, 64, &out));
    CHECK_EQ(out, 64);
    CHECK(bgi_round_up_u64(64, 64, &out));
    CHECK_EQ(out, 64);
    CHECK(bgi_round_up_u64(65, 24, &out));
    CHECK_EQ(out, 72);
    CHECK(bgi_round_up_u64(UINT64_MAX, 1, &out));
    CHECK_EQ(out, UINT64_MAX);
    CHECK(bgi_round_up_u64(UINT64_MAX, 5, &out)); /* 2^64 - 1 = 5 x ... */
    CHECK_EQ(out, UINT64_MAX);
    out = 7;
    CHECK(!bgi_round_up_u64(UINT64_MAX, 64, &out));
    CHECK(!bgi_round_up_u64(UINT64_MAX - 62, 64, &out));
    CHECK_EQ(out, 7);
    CHECK(bgi_round_up_u64(UINT64_MAX - 63, 64, &out));
    CHECK_EQ(out, UINT64_MAX - 63);
}

TEST(checked__sizes_stay_below_half_of_the_address_space)
{
    size_t out = 7;
    CHECK(!bgi_fits_size(UINT64_MAX, &out));
    CHECK(!bgi_fits_size((uint64_t)PTRDIFF_MAX + 1, &out));
    CHECK_EQ(out, 7);
    CHECK(bgi_fits_size((uint64_t)PTRDIFF_MAX, &out));
    CHECK_EQ(out, PTRDIFF_MAX);
    CHECK(bgi_fits_size(0, &out));
    CHECK_EQ(out, 0);
}

TEST(checked__doubles_become_counts_or_nothing)
{
    uint64_t out = 7;
    CHECK(!bgi_u64_from_double((double)NAN, &out));
    CHECK(!bgi_u64_from_double(-1, &out));
    CHECK(!bgi_u64_from_double(-1e-300, &out));
    CHECK(!bgi_u64_from_double((double)INFINITY, &out));
    CHECK(!bgi_u64_from_double(9223372036854775808.0, &out));
    CHECK(!bgi_u64_from_double(1e300, &out));
    CHECK_EQ(out, 7);
    CHECK(
        bgi_u64_from_double(9223372036854774784.0, &out)); /* the double before 2^63 */
    CHECK_EQ(out, UINT64_C(9223372036854774784));
    CHECK(bgi_u64_from_double(-0.0, &out));
    CHECK_EQ(out, 0);
    CHECK(bgi_u64_from_double(0.99, &out));
    CHECK_EQ(out, 0);
    CHECK(bgi_u64_from_double(5e-324, &out));
    CHECK_EQ(out, 0);
}

/* ---- bits.h ---------------------------------------------------------------------- */

/* Computes the high half of a product by long multiplication, bit by bit. */
static uint64_t slow_mulhi(uint64_t a, uint64_t b)
{
    uint64_t high = 0, low = 0;
    for (int i = 63; i >= 0; i--) {
        high = high << 1 | low >> 63;
        low <<= 1;
        if (b >> i & 1) {
            uint64_t sum = low + a;
            high += sum < low;
            low = sum;
        }
    }
    return high;
}

TEST(bits__mulhi_is_the_high_half_of_the_product)
{
    static const uint64_t edges[] = { 0,
                                      1,
                                      2,
                                      UINT32_MAX,
                                      UINT64_C(1) << 32,
                                      (UINT64_C(1) << 32) + 1,
                                      UINT64_C(1) << 63,
                                      UINT64_MAX - 1,
                                      UINT64_MAX };
    const size_t n = sizeof edges / sizeof *edges;
    for (size_t i = 0; i < n * n; i++) {
        uint64_t a = edges[i / n], b = edges[i % n];
        CHECK_EQ(bgi_mulhi(a, b), slow_mulhi(a, b));
    }
    for (size_t i = 0; i < 10000 * check_scale(); i++) {
        uint64_t a = check_random() >> check_random_below(64);
        uint64_t b = check_random() >> check_random_below(64);
        CHECK_EQ(bgi_mulhi(a, b), slow_mulhi(a, b));
    }
}

TEST(bits__halving_the_range_halves_the_place)
{
    for (size_t i = 0; i < 10000 * check_scale(); i++) {
        uint64_t hash = check_random();
        uint64_t half = 1 + (check_random() >> (1 + check_random_below(62)));
        CHECK_EQ(bgi_mulhi(hash, 2 * half) / 2, bgi_mulhi(hash, half));
        CHECK(bgi_mulhi(hash, half) < half);
    }
}

TEST(bits__rotations_by_any_amount)
{
    uint64_t x = UINT64_C(0x8000000000000001);
    CHECK_EQ(bgi_rotl64(x, 0), x);
    CHECK_EQ(bgi_rotl64(x, 64), x);
    CHECK_EQ(bgi_rotl64(x, 1), 3);
    CHECK_EQ(bgi_rotl64(x, 63), UINT64_C(0xc000000000000000));
}

TEST(bits__little_endian_loads_at_odd_addresses)
{
    const uint8_t bytes[] = { 0xff, 1, 2, 3, 4, 5, 6, 7, 8, 9 };
    uint8_t copy[10] = { 0xff };
    CHECK_EQ(bgi_load_le64(bytes + 1), UINT64_C(0x0807060504030201));
    CHECK_EQ(bgi_load_le32(bytes + 3), 0x06050403u);
    bgi_store_le64(copy + 1, UINT64_C(0x0807060504030201));
    CHECK(memcmp(copy, bytes, 9) == 0);
    CHECK_EQ(copy[9], 0);
}

/* ---- Errors ---------------------------------------------------------------------- */

TEST(err__every_code_has_its_number_name_and_text)
{
#define SAME(name, number, text)                                                       \
    CHECK_EQ(BG_##name, number);                                                       \
    CHECK_STR(bg_err_name(BG_##name), "BG_" #name);                                    \
    CHECK_STR(bg_strerror(BG_##name), text);
    BG_ERRORS(SAME)
#undef SAME
    CHECK_EQ(BG_OK, 0);
    CHECK_EQ(BG_EBUILD, 10);
    CHECK_EQ(BG_ENOTFOUND, 11); /* frozen: error codes must never change */
    CHECK_EQ(BG_ECANCELED, 12);
    CHECK_EQ(BG_EBUSY, 13);
    CHECK_EQ(BG_EQUOTA, 14);
}

TEST(err__unknown_codes_have_texts_too)
{
    static const int unknown[] = { -1, 15, 1000, INT32_MIN, INT32_MAX };
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        CHECK_STR(bg_strerror((bg_err)unknown[i]), "unknown error");
        CHECK_STR(bg_err_name((bg_err)unknown[i]), "BG_UNKNOWN");
    }
}

TEST(errinfo__tells_what_was_found_and_expected)
{
    bg_errinfo info;
    memset(&info, 0xff, sizeof info);
    CHECK_EQ(bgi_err(&info, BG_EINVAL, "rate", "above 0", "%g", 1.5), BG_EINVAL);
    CHECK_EQ(info.code, BG_EINVAL);
    CHECK_EQ(info.os_errno, 0);
    CHECK_EQ(info.offset, 0);
    CHECK_STR(info.what, "rate");
    CHECK_STR(info.found, "1.5");
    CHECK_STR(info.expected, "above 0");
    CHECK_STR(info.message, "rate: found 1.5, expected above 0");
}

TEST(errinfo__without_a_found_text)
{
    bg_errinfo info;
    CHECK_EQ(bgi_err(&info, BG_EIO, "file", "a file", "%s", ""), BG_EIO);
    CHECK_STR(info.message, "file: expected a file");
}

TEST(errinfo__may_be_left_out)
{
    CHECK_EQ(bgi_err(NULL, BG_ENOMEM, "x", "y", "%d", 1), BG_ENOMEM);
    bgi_err_clear(NULL);
}

TEST(errinfo__cuts_long_texts)
{
    struct {
        bg_errinfo info;
        char guard[16];
    } at;
    char text[1000];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = 0;
    memset(&at, 0x5a, sizeof at);
    CHECK_EQ(bgi_err(&at.info, BG_EINVAL, text, text, "%s", text), BG_EINVAL);
    CHECK_EQ(strlen(at.info.what), sizeof at.info.what - 1);
    CHECK_EQ(strlen(at.info.found), sizeof at.info.found - 1);
    CHECK_EQ(strlen(at.info.expected), sizeof at.info.expected - 1);
    CHECK(strlen(at.info.message) < sizeof at.info.message);
    CHECK(strstr(at.info.message, ": found xxx") != NULL);
    CHECK(strstr(at.info.message, ", expected xxx") != NULL);
    for (size_t i = 0; i < sizeof at.guard; i++) {
        CHECK_EQ(at.guard[i], 0x5a);
    }
}

TEST(errinfo__is_cleared)
{
    bg_errinfo info, zero;
    memset(&info, 0xff, sizeof info);
    memset(&zero, 0, sizeof zero);
    bgi_err_clear(&info);
    CHECK(memcmp(&info, &zero, sizeof info) == 0);
}
