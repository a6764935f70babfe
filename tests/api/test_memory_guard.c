/* Checks the library's memory guard: `take` must be called before memory is allocated, and `give`
 * after it is freed. */
#include "bloomgate/all.h"
#include "support/adds.h"
#include "support/check.h"

struct account {
    size_t used, most, limit;
};

static bool take(void *context, size_t bytes)
{
    struct account *account = context;
    if (bytes > account->limit - account->used) {
        return 0;
    }
    account->used += bytes;
    account->most = account->used > account->most ? account->used : account->most;
    return 1;
}

static void give(void *context, size_t bytes)
{
    struct account *account = context;
    CHECK(bytes <= account->used);
    account->used -= bytes;
}

TEST(memory_guard__counts_and_refuses)
{
    static struct account account;
    static const bg_memory_guard guard = { take, give, &account };
    static const uint8_t secret[BG_SECRET_BYTES] = { 1 };
    account = (struct account){ .limit = 64 << 20 };
    bg_memory_set_guard(&guard);
    for (uint32_t profile = BG_HASH_FAST; profile <= BG_HASH_KEYED; profile++) {
        bg_spec spec = BG_SPEC_INIT;
        bg_errinfo info = { 0 };
        bg_filter *filter = NULL;
        spec.kind = BG_KIND_BLOCKED;
        spec.hash.profile = profile;
        spec.hash.secret = profile == BG_HASH_KEYED ? secret : NULL;
        spec.bytes = 32 << 20;
        spec.items = 1000;
        CHECK_OK(bg_filter_create(&spec, &filter, NULL));
        CHECK(account.used >= 32 << 20);
        spec.bytes = 40 << 20; /* the two filters would exceed the limit */
        bg_filter *other = NULL;
        CHECK_EQ(bg_filter_create(&spec, &other, &info), BG_ENOMEM);
        CHECK(!other);
        added(filter, "x", 1);
        CHECK(bg_filter_may_contain(filter, "x", 1));
        bg_filter_free(filter);
        CHECK_EQ(account.used, 0);
        CHECK_OK(bg_filter_create(&spec, &filter, NULL));
        bg_filter_free(filter);
        CHECK_EQ(account.used, 0);
    }
    CHECK(account.most <= account.limit);
    bg_memory_set_guard(NULL);
}

/* The kernel allocates a large page when one byte of it is written, so the guard counts the whole
 * page. */
TEST(memory_guard__counts_large_pages_in_full)
{
    static struct account account;
    static const bg_memory_guard guard = { take, give, &account };
    account = (struct account){ .limit = 64 << 20 };
    bg_memory_set_guard(&guard);
    bg_spec spec = BG_SPEC_INIT;
    bg_filter *filter = NULL;
    spec.kind = BG_KIND_BLOCKED;
    spec.bytes = (1 << 20) + 4096;
    spec.items = 1000;
    CHECK_OK(bg_filter_create(&spec, &filter, NULL));
    CHECK(account.used >= 2 << 20);
    bg_filter_free(filter);
    CHECK_EQ(account.used, 0);
    bg_memory_set_guard(NULL);
}
