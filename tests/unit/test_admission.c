/* A cache's admission filter rejects a key at its first occurrence, admits it at the second
 * occurrence, and rejects it again if the first occurrence was too long ago. Batches give the same
 * results as single calls. Also tests statistics and invalid arguments. */
#include "support/check.h"
#include "support/filters.h"

#include "bloomgate/admission.h"

static bg_admission *must_admission(const bg_admission_options *options)
{
    bg_admission *door = NULL;
    bg_errinfo why;
    if (bg_admission_create(options, &door, &why) != BG_OK) {
        check_fail(__FILE__, __LINE__, "%s", why.message);
    }
    CHECK_EQ(why.code, BG_OK);
    return door;
}

/* Returns options with a rate so low that no false positives occur in these tests. */
static bg_admission_options exact(uint64_t items)
{
    bg_admission_options options = BG_ADMISSION_OPTIONS_INIT;
    options.items = items;
    options.rate = 1e-8;
    return options;
}

static bool admit(bg_admission *door, uint64_t key)
{
    return bg_admission_admit(door, &key, sizeof key);
}

static bool would_admit(const bg_admission *door, uint64_t key)
{
    return bg_admission_would_admit(door, &key, sizeof key);
}

static bg_admission_info stats_of(const bg_admission *door)
{
    bg_admission_info stats = { .struct_size = sizeof stats };
    CHECK_OK(bg_admission_get_info(door, &stats));
    return stats;
}

TEST(admission__the_second_time)
{
    bg_admission_options options = exact(1000);
    bg_admission *door = must_admission(&options);
    for (uint64_t key = 0; key < 1000; key++) {
        CHECK(!would_admit(door, key)); /* would_admit does not record the key */
        CHECK(!would_admit(door, key));
        CHECK(!admit(door, key));
        CHECK(would_admit(door, key));
        CHECK(admit(door, key));
    }
    CHECK(!bg_admission_admit(door, NULL, 0)); /* the empty key is a valid key */
    CHECK(bg_admission_admit(door, NULL, 0));
    bg_admission_free(door);
}

/* A key is remembered for at least `items` and at most items * g / (g - 1) calls, where g is the
 * number of generations. */
TEST(admission__forgets_by_count)
{
    static const uint32_t generations[] = { 0, 2, 3, 8, 64 };
    const uint64_t items = 2 * 3 * 7 * 9 * 10; /* a multiple of all g - 1 */
    for (size_t i = 0; i < sizeof generations / sizeof *generations; i++) {
        uint32_t g = generations[i] ? generations[i] : 4;
        bg_admission_options options = exact(items);
        options.generations = generations[i];
        bg_admission *door = must_admission(&options);
        uint64_t other = 1000;
        for (uint64_t calls = 0; calls < 5 * items; calls += items + items / (g - 1)) {
            CHECK(!admit(door, 1));
            for (uint64_t j = 0; j < items; j++) {
                CHECK(would_admit(door, 1));
                CHECK(!admit(door, other++));
            }
            for (uint64_t j = 0; j < items / (g - 1); j++) {
                CHECK(!admit(door, other++));
            }
            CHECK(!would_admit(door, 1));
        }
        bg_admission_free(door);
    }
}

TEST(admission__a_key_that_keeps_coming_is_renewed)
{
    bg_admission_options options = exact(300);
    bg_admission *door = must_admission(&options);
    CHECK(!admit(door, 1));
    for (uint64_t other = 1000; other < 20000; other++) {
        CHECK(!admit(door, other));
        CHECK(other % 290 != 0 || admit(door, 1));
    }
    bg_admission_free(door);
}

static uint64_t ticks(void *context)
{
    return *(const uint64_t *)context;
}

TEST(admission__forgets_by_the_clock)
{
    uint64_t now = 5000;
    bg_admission_options options = exact(1000);
    options.length = 300; /* periods of 100 */
    options.clock = ticks;
    options.context = &now;
    bg_admission *door = must_admission(&options);
    CHECK_EQ(stats_of(door).periods, 1);
    CHECK(!admit(door, 1));
    for (uint64_t other = 1000; other < 1300; other++) {
        CHECK(!admit(door, other)); /* calls alone do not end a period */
    }
    CHECK(would_admit(door, 1));
    now += 399;
    CHECK(!admit(door, 2));
    CHECK(admit(door, 1));
    CHECK_EQ(stats_of(door).periods, 4);
    now += 401;
    CHECK(!admit(door, 1));
    CHECK(!admit(door, 2));
    CHECK_EQ(stats_of(door).periods, 9);
    bg_admission_free(door);
}

TEST(admission__many_are_as_one_by_one)
{
    enum { MOST = 1000 };
    static uint64_t numbers[MOST], bits[BG_BITMAP_WORDS(MOST) + 1];
    static bg_bytes keys[MOST];
    bg_admission_options options = exact(700); /* periods end within batches */
    bg_admission *one = must_admission(&options), *many = must_admission(&options);
    uint64_t asked = 0, admitted = 0;
    for (int round = 0; round < 30; round++) {
        size_t n = (size_t)check_random_below(MOST + 1), left = 0;
        size_t words = BG_BITMAP_WORDS(n);
        for (size_t i = 0; i < n; i++) { /* some keys occur twice in one batch */
            numbers[i] = check_random_below(3000);
            keys[i] = (bg_bytes){ &numbers[i], sizeof numbers[i] };
        }
        bits[words] = 0x5555;
        size_t count = bg_admission_admit_many(many, bg_keys_bytes(keys, n),
                                               round % 3 == 2 ? NULL : bits);
        for (size_t i = 0; i < n; i++) {
            bool in = admit(one, numbers[i]);
            left += in;
            CHECK(round % 3 == 2 || in == (bits[i / 64] >> i % 64 & 1));
        }
        CHECK_EQ(count, left);
        CHECK_EQ(bits[words], 0x5555);
        CHECK(round % 3 == 2 || n % 64 == 0 || bits[n / 64] >> n % 64 == 0);
        asked += n;
        admitted += left;
    }
    CHECK(admitted > 0 && admitted < asked);
    CHECK_EQ(bg_admission_admit_many(many, bg_keys_bytes(NULL, 0), NULL), 0);
    CHECK_EQ(stats_of(one).requests, asked);
    CHECK_EQ(stats_of(one).admitted, admitted);
    CHECK_EQ(stats_of(many).requests, asked);
    CHECK_EQ(stats_of(many).admitted, admitted);
    CHECK_EQ(stats_of(many).periods, stats_of(one).periods);
    bg_admission_free(one);
    bg_admission_free(many);
}

TEST(admission__without_a_bouncer_all_may_enter)
{
    uint64_t bits[3];
    bg_bytes keys[130] = { { 0 } };
    bg_admission_info stats = { .struct_size = sizeof stats };
    CHECK(admit(NULL, 1));
    CHECK(would_admit(NULL, 1));
    for (size_t n = 0; n <= 130; n++) {
        memset(bits, 0x5a, sizeof bits);
        CHECK_EQ(bg_admission_admit_many(NULL, bg_keys_bytes(keys, n), bits), n);
        for (size_t i = 0; i < BG_BITMAP_WORDS(n) * 64; i++) {
            CHECK_EQ(bits[i / 64] >> i % 64 & 1, i < n);
        }
        CHECK_EQ(bg_admission_admit_many(NULL, bg_keys_bytes(keys, n), NULL), n);
    }
    CHECK_EQ(bg_admission_get_info(NULL, &stats), BG_EINVAL);
    bg_admission_free(NULL);
}

/* Once its window is full, the filter admits new keys at the requested false-positive rate, and it
 * reports that rate. */
TEST(admission__first_sights_at_the_rate)
{
    static const double rates[] = { 0, 0.1, 0.001 };
    const uint64_t items = CHECK_EMULATED ? 4000 : 40000;
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        bg_admission_options options = BG_ADMISSION_OPTIONS_INIT;
        double rate = rates[i] != 0 ? rates[i] : 0.01;
        options.items = items;
        options.rate = rates[i];
        bg_admission *door = must_admission(&options);
        uint64_t key = 0, asked = 0, entered = 0;
        for (; key < 2 * items; key++) {
            (void)admit(door, key);
        }
        CHECK(stats_of(door).rate <= 1.05 * rate);
        CHECK(stats_of(door).rate >= 0.5 * rate);
        for (; asked < 10 * items; asked++) {
            entered += admit(door, key++);
        }
        double mean = rate * (double)asked;
        CHECK((double)entered < mean + 6 * __builtin_sqrt(mean));
        CHECK((double)entered > 0.5 * mean - 6 * __builtin_sqrt(mean));
        bg_admission_free(door);
    }
}

TEST(admission__says_how_it_is)
{
    bg_admission_options options = exact(3000); /* periods of 1000 */
    bg_admission *door = must_admission(&options);
    bg_admission_info stats = stats_of(door);
    CHECK_EQ(stats.requests, 0);
    CHECK_EQ(stats.admitted, 0);
    CHECK_EQ(stats.periods, 1);
    CHECK(stats.rate == 0);
    CHECK(stats.bytes > 3000);
    for (uint64_t i = 0; i < 2500; i++) {
        (void)admit(door, i / 2);
        (void)would_admit(door, i); /* is not counted */
    }
    stats = stats_of(door);
    CHECK_EQ(stats.requests, 2500);
    CHECK_EQ(stats.admitted, 1250);
    CHECK_EQ(stats.periods, 3);
    CHECK(stats.rate > 0 && stats.rate < 1e-7);
    CHECK_EQ(stats.reserved, 0);
    stats.struct_size--;
    CHECK_EQ(bg_admission_get_info(door, &stats), BG_EINVAL);
    CHECK_EQ(bg_admission_get_info(door, NULL), BG_EINVAL);
    bg_admission_free(door);
    options.items = 1000000;
    options.rate = 0; /* the default, whose memory use the header documents */
    door = must_admission(&options);
    CHECK_NEAR(stats_of(door).bytes, 2.8e6, 0.03);
    bg_admission_free(door);
}

TEST(admission__refuses_what_makes_no_sense)
{
    static const uint8_t secret[BG_SECRET_BYTES] = { 1, 2, 3 };
    bg_admission_options good = exact(100), o;
    bg_admission *door = (bg_admission *)(uintptr_t)&good;
    bg_errinfo why;
#define REFUSED(change, field)                                                         \
    do {                                                                               \
        o = good;                                                                      \
        change;                                                                        \
        CHECK_EQ(bg_admission_create(&o, &door, &why), BG_EINVAL);                     \
        CHECK(door == NULL);                                                           \
        CHECK_STR(why.what, field);                                                    \
    } while (0)
    REFUSED(o.struct_size = 0, "options.struct_size");
    REFUSED(o.struct_size++, "options.struct_size");
    REFUSED(o.generations = 1, "generations");
    REFUSED(o.generations = 65, "generations");
    REFUSED(o.items = 0, "items");
    REFUSED(o.rate = 1, "rate");
    REFUSED(o.rate = -0.1, "rate");
    REFUSED(o.rate = (double)__builtin_nanf(""), "rate");
    REFUSED(o.length = 10, "length, clock");
    REFUSED(o.clock = ticks, "length, clock");
    REFUSED(o.hash.profile = 77, "hash.profile");
    REFUSED(o.hash.profile = BG_HASH_KEYED, "hash.secret");
#undef REFUSED
    CHECK_EQ(bg_admission_create(NULL, &door, &why), BG_EINVAL);
    CHECK_EQ(bg_admission_create(&good, NULL, &why), BG_EINVAL);
    good.hash = (bg_hash_spec){ .profile = BG_HASH_KEYED, .secret = secret };
    door = must_admission(&good);
    CHECK(!admit(door, 7));
    CHECK(admit(door, 7));
    bg_admission_free(door);
}

TEST(admission__memory_comes_from_the_allocator_and_may_be_missing)
{
    static struct counting c;
    counting_start(&c);
    bg_admission_options options = exact(1000);
    bg_admission *door = NULL;
    options.allocator = &c.hooks;
    for (size_t at = 1; !door; at++) {
        bg_errinfo why;
        counting_start(&c);
        c.fail_at = at;
        bg_err err = bg_admission_create(&options, &door, &why);
        CHECK_EQ(err, c.calls >= at ? BG_ENOMEM : BG_OK);
        CHECK_EQ(err == BG_OK, door != NULL);
        CHECK(door || c.live == 0);
        CHECK(at < 20);
    }
    /* There are allocations for the generations, a spare generation, and two handles. */
    CHECK(c.live >= 6);
    CHECK(!admit(door, 1));
    bg_admission_free(door);
    CHECK_EQ(c.live, 0);
    CHECK_EQ(c.mistakes, 0);
}
