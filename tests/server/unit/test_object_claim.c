/* Tests claims, which let a thread that must not wait detect that a long operation on an
 * object is running or imminent. */
#define _GNU_SOURCE

#include "object.h"
#include "server/support/fake_host.h"
#include "support/check.h"

#include <pthread.h>

struct attempt {
    struct object *object;
    bool claimed;
};

static void *attempt_run(void *argument)
{
    struct attempt *attempt = argument;
    attempt->claimed = object_claim(attempt->object);
    if (attempt->claimed) {
        object_unclaim(attempt->object);
    }
    return NULL;
}

/* Returns whether another thread can currently claim the object. */
static bool claimed_elsewhere(struct object *object)
{
    struct attempt attempt = { object, false };
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, attempt_run, &attempt) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    return attempt.claimed;
}

static struct object *made(struct fake *h, const char *line)
{
    fake_begin(h);
    CHECK_STR(fake(h, line), "+OK");
    return h->entries[0].object;
}

TEST(claim__fails_while_a_long_operation_runs)
{
    struct fake h;
    struct object *object = made(&h, "CF.RESERVE k 1000");
    CHECK(claimed_elsewhere(object));
    object_occupy(object);
    CHECK(!claimed_elsewhere(object));
    object_occupy(object); /* starts a nested operation, such as doubling the filter */
    object_vacate(object);
    CHECK(!claimed_elsewhere(object));
    object_vacate(object);
    CHECK(claimed_elsewhere(object));
    fake_end(&h);
}

TEST(claim__excludes_others_and_lets_its_owner_change_keys)
{
    struct fake h;
    struct object *object = made(&h, "CF.RESERVE k 1000");
    CHECK(object_claim(object));
    CHECK(!claimed_elsewhere(object));
    CHECK_STR(fake(&h, "CF.ADD k a"), ":1");
    CHECK_STR(fake(&h, "CF.DEL k a"), ":1");
    object_unclaim(object);
    CHECK(claimed_elsewhere(object));
    fake_end(&h);
}

/* Reading a whole filter blocks writers only while the filter is being copied. */
TEST(claim__succeeds_while_a_copy_is_read)
{
    struct fake h;
    struct object *object = made(&h, "CF.RESERVE k 1000");
    struct object_reading reading;
    CHECK_OK(object_read_begin(object, false, &reading, NULL));
    CHECK(reading.copy && reading.filter == reading.copy);
    CHECK(claimed_elsewhere(object));
    CHECK_STR(fake(&h, "CF.ADD k later"), ":1");
    CHECK(!bg_filter_may_contain(reading.filter, "later", 5));
    object_read_end(object, &reading);
    fake_end(&h);
}

TEST(claim__needs_no_copy_of_a_set_of_bits)
{
    struct fake h;
    struct object *object = made(&h, "BF.RESERVE k 0.01 1000");
    struct object_reading reading;
    CHECK_OK(object_read_begin(object, false, &reading, NULL));
    CHECK(!reading.copy && reading.filter);
    object_read_end(object, &reading);
    fake_end(&h);
}

/* Rotating a large window takes a long time, because it clears a part of the window. */
TEST(claim__a_large_window_stalls_when_its_period_ends)
{
    struct fake h;
    struct object *object =
        made(&h, "BG.CREATE k KIND window CAPACITY 10000000 ERROR 0.01 WINDOW 7000");
    /* the window's clock has not started */
    CHECK(object_will_stall(object, 1, &h.host));
    CHECK_OK(object_tick(object, &h.host, NULL));
    CHECK(!object_will_stall(object, 1, &h.host));
    h.now += 7000;
    CHECK(object_will_stall(object, 1, &h.host));
    CHECK_STR(fake(&h, "BG.CREATE small KIND window CAPACITY 100 WINDOW 7000"), "+OK");
    CHECK(!object_will_stall(h.entries[1].object, 1, &h.host));
    fake_end(&h);
}
