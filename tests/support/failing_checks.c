/* failing_checks.c - makes every check fail once. check_harness.sh checks the output. */
#include "support/check.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>

TEST(good__passes)
{
    CHECK(1 + 1 == 2);
    CHECK_EQ((unsigned char)7, 7LL);
    CHECK_STR("a", "a");
    CHECK_STR(NULL, NULL);
    CHECK_NEAR(1.04, 1.0, 0.05);
    CHECK_OK(BG_OK);
}

TEST(bad__condition)
{
    CHECK(1 + 1 == 3);
    abort(); /* unreachable: a failed check ends the test */
}

TEST(bad__eq)
{
    CHECK_EQ(-1, 7);
}

TEST(bad__str)
{
    CHECK_STR("a", NULL);
}

TEST(bad__near)
{
    CHECK_NEAR(1.06, 1.0, 0.05);
}

TEST(bad__nan)
{
    CHECK_NEAR(NAN, 1.0, 0.05);
}

TEST(bad__err)
{
    CHECK_OK(BG_ENOMEM);
}

static void *fail_in_thread(void *reached_end)
{
    CHECK(reached_end == NULL);
    *(bool *)reached_end = true;
    return NULL;
}

TEST(bad__thread)
{
    pthread_t thread;
    bool reached_end = false;
    CHECK_EQ(pthread_create(&thread, NULL, fail_in_thread, &reached_end), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    if (!reached_end) {
        abort(); /* a failed check must not end the thread */
    }
}

TEST(good__random)
{
    uint64_t a = check_random(), b = check_random();
    CHECK(a != b);
    /* The first splitmix64 number for seed 0 is a published value. */
    uint64_t state = 0;
    CHECK_EQ(check_random_next(&state), 0xe220a8397b1dcdafu);
    for (int i = 0; i < 1000; i++) {
        CHECK(check_random_below(3) < 3);
    }
}
