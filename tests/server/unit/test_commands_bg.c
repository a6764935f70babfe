/* Tests the BG.* commands for filters of any kind, operations on whole filters, files, rebuilds and
 * gates. Covers replies, error messages and durability. */
#include "server/support/fake_host.h"
#include "support/scratch.h"

#include <stdarg.h>

/* ---- Helpers ---------------------------------------------------------------------------------- */

static void run(struct fake *h, const char *expected, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Runs a formatted command and checks its reply. If `expected` is NULL, any reply except an error
 * is accepted. */
static void run(struct fake *h, const char *expected, const char *format, ...)
{
    char line[256];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    const char *got = fake(h, line);
    if (expected) {
        CHECK_STR(got, expected);
    } else if (got[0] == '-') {
        check_fail(__FILE__, __LINE__, "%s: %s", line, got);
    }
}

static void fill(struct fake *h, const char *name, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        run(h, NULL, "BG.ADD %s item-%zu", name, i);
    }
}

static void has(struct fake *h, const char *name, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        run(h, ":1", "BG.EXISTS %s item-%zu", name, i);
    }
}

static struct object *object_named(struct fake *h, const char *name)
{
    struct object *object = fake_find(&h->host, (bg_bytes){ name, strlen(name) });
    CHECK(object != NULL);
    return object;
}

/* Returns the value of a field in the last reply, which is a map. */
static const struct fake_item *field(const struct fake *h, const char *title)
{
    for (size_t i = 1; i + 1 < h->items_count; i++) {
        if (h->items[i].type == '$' && strcmp(h->items[i].bytes, title) == 0) {
            return &h->items[i + 1];
        }
    }
    check_fail(__FILE__, __LINE__, "no field %s", title);
    return NULL;
}

static double field_real(const struct fake *h, const char *title)
{
    const struct fake_item *item = field(h, title);
    return item->type == '[' ? item[1].real : item->real;
}

/* ---- Creating ---------------------------------------------------------------------------------- */

/* Checks that two commands create the same filter. %s is replaced with the name. */
static void same_shape(struct fake *h, const char *plain, const char *units)
{
    char text[2][OBJECT_SHAPE_TEXT];
    const char *const formats[] = { plain, units };
    for (size_t i = 0; i < 2; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "s%zu", h->entries_count);
        const char *at = strstr(formats[i], "%s");
        char line[200];
        (void)snprintf(line, sizeof line, "%.*s%s%s", (int)(at - formats[i]),
                       formats[i], name, at + 2);
        run(h, NULL, "%s", line);
        CHECK(h->text[0] == '+' || h->text[0] == '[');
        const struct fake_entry *entry =
            fake_find_entry(h, (bg_bytes){ name, strlen(name) });
        CHECK(entry != NULL);
        (void)object_shape_write(&entry->object->shape, text[i]);
    }
    CHECK_STR(text[0], text[1]);
}

TEST(bg__numbers_with_units)
{
    static const char *const pairs[][2] = {
        { "BF.RESERVE %s 0.01 10000", "BF.RESERVE %s 1% 10k" },
        { "BF.RESERVE %s 0.001 1000000", "BF.RESERVE %s 1/1000 1e6" },
        { "BF.INSERT %s ERROR 0.02 CAPACITY 65536 ITEMS a",
          "BF.INSERT %s ERROR 2% CAPACITY 64Ki ITEMS a" },
        { "CF.RESERVE %s 5000 ERROR 0.01", "CF.RESERVE %s 5k ERROR 1%" },
        { "CF.INSERT %s CAPACITY 2000 ITEMS a", "CF.INSERT %s CAPACITY 2e3 ITEMS a" },
        { "BG.CREATE %s KIND blocked CAPACITY 1000000 ERROR 0.01",
          "BG.CREATE %s KIND blocked CAPACITY 1M ERROR 1%" },
        { "BG.CREATE %s KIND classic BYTES 65536 K 5",
          "BG.CREATE %s KIND classic BYTES 64KiB K 5" },
        { "BG.CREATE %s WINDOW 86400000 CAPACITY 1000",
          "BG.CREATE %s WINDOW 24h CAPACITY 1k" },
        { "BG.CREATE %s WINDOW 1500 CAPACITY 1000",
          "BG.CREATE %s WINDOW 1.5s CAPACITY 1000" },
        { "BG.CREATE %s WINDOW 1000000 CAPACITY 1000",
          "BG.CREATE %s WINDOW 1e6 CAPACITY 1000" },
        { "BG.CREATE %s COUNT 50000 CAPACITY 100000",
          "BG.CREATE %s COUNT 50k CAPACITY 0.1M" },
    };
    static const struct fake_line lines[] = {
        { "BG.CREATE r KIND blocked CAPACITY 1k", "+OK" },
        { "BG.REBUILD r BEGIN 1M ERROR 0.1%", "+OK" },
        { "BG.REBUILD r ABORT", "+OK" },
        { "BG.REBUILD r BEGIN 1.5",
          "-ERR expected: BEGIN capacity [ERROR rate], with a capacity above 0 and a "
          "rate above 0 and below 1" },
        { "BG.CREATE x WINDOW 1.5ms CAPACITY 10",
          "-ERR WINDOW: found 1.5ms, expected a number of milliseconds above 0, or a "
          "duration such as 24h" },
        { "BG.CREATE x WINDOW 5M CAPACITY 10",
          "-ERR WINDOW: found 5M, expected a number of milliseconds above 0, or a "
          "duration such as 24h" },
        { "BG.CREATE x CAPACITY 10Q",
          "-ERR CAPACITY: found 10Q, expected a number of items from 1 to 2^56, such as "
          "1000000 or 1M" },
        { "BG.CREATE x CAPACITY 100Pi",
          "-ERR CAPACITY: found 112589990684262400, expected 1 .. 2^56" },
        { "BG.PLAN 1M 1% ABSENT 101%", "-ERR ABSENT must be above 0 and at most 1" },
        { "BG.PLAN 1M 1% CALLTIME 5k",
          "-ERR CALLTIME must be above 0 and at most 1e+15" },
    };
    struct fake h;
    char text[64 * 1024];
    fake_begin(&h);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        same_shape(&h, pairs[i][0], pairs[i][1]);
    }
    FAKE_SCRIPT(&h, lines);
    run(&h, NULL,
        "BG.PLAN 1000000 0.01 QPS 50000 ABSENT 0.9 CALLTIME 0.005 LATENCY 0.00001");
    CHECK(strlen(h.text) < sizeof text);
    (void)snprintf(text, sizeof text, "%s", h.text);
    run(&h, NULL, "BG.PLAN 1M 1%% QPS 50k ABSENT 90%% CALLTIME 5ms LATENCY 10us");
    CHECK_STR(text, h.text);
    fake_end(&h);
}

TEST(bg__create_words)
{
    static const struct fake_line lines[] = {
        { "BG.CREATE a", "+OK" },
        { "BG.CREATE a", "-ERR item exists" },
        { "BG.CREATE b KIND blocked CAPACITY 1000 ERROR 0.001", "+OK" },
        { "BG.CREATE c KIND Classic CAPACITY 1000 BITS 12", "+OK" },
        { "BG.CREATE d KIND partitioned BYTES 4096 K 5", "+OK" },
        { "BG.CREATE e CAPACITY 1000 ONEWINNER", "+OK" },
        { "BG.CREATE f KIND counting CAPACITY 1000 WIDTH 8 SCATTERED", "+OK" },
        { "BG.CREATE g KIND quotient CAPACITY 1000 SHARDS 4", "+OK" },
        { "BG.CREATE h WINDOW 60000 CAPACITY 1000 GENERATIONS 5", "+OK" },
        { "BG.CREATE i COUNT 500 CAPACITY 1000 AGED", "+OK" },
        { "BG.CREATE j KIND blocked CAPACITY 1000 HASH xxh64 SEED 7", "+OK" },
        { "BG.CREATE k CAPACITY 1000 FOLDS 3 HASH fast", "+OK" },
        { "BG.CREATE m CAPACITY 1000 HASH fast-int SEED 7", "+OK" },
        { "BG.CREATE l KIND cuckoo CAPACITY 1000 K 16 BYTES 4096", "+OK" },
        { "BG.CREATE x KIND nothing",
          "-ERR KIND: found nothing, expected auto or the name of a kind, such as blocked" },
        { "BG.CREATE x KIND",
          "-ERR KIND: found nothing, expected auto or the name of a kind, "
          "such as blocked" },
        { "BG.CREATE x KIND blocked",
          "-ERR CAPACITY is missing: specify the number of items" },
        { "BG.CREATE x BITS 10",
          "-ERR CAPACITY is missing: specify the number of items" },
        { "BG.CREATE x CAPACITY 0",
          "-ERR CAPACITY: found 0, expected a number of items from 1 to 2^56, such as 1000000 or 1M" },
        { "BG.CREATE x CAPACITY -5",
          "-ERR CAPACITY: found -5, expected a number of items from 1 to 2^56, such as 1000000 or 1M" },
        { "BG.CREATE x CAPACITY 72057594037927937",
          "-ERR CAPACITY: found 72057594037927937, expected 1 .. 2^56" },
        { "BG.CREATE x CAPACITY 10 ERROR 0",
          "-ERR ERROR: found 0, expected a rate above 0 and below 1, such as 0.01 or 1%" },
        { "BG.CREATE x CAPACITY 10 ERROR 1.5",
          "-ERR ERROR: found 1.5, expected a number above 0 and below 1" },
        { "BG.CREATE x CAPACITY 10 ERROR 0.1 BITS 8",
          "-ERR ERROR, BITS, BYTES: found 2 values, expected exactly one" },
        { "BG.CREATE x CAPACITY 10 KIND blocked K 99",
          "-ERR K: found 99, expected 3 .. 16 for a blocked filter" },
        { "BG.CREATE x KIND counting CAPACITY 10 FOLDS 1",
          "-ERR FOLDS: found 1 for a counting filter, expected 0, because this kind cannot be folded" },
        { "BG.CREATE x KIND fuse CAPACITY 10",
          "-ERR a static filter must be built from all keys at once: build a filter file, then load "
          "it with BG.RELOAD" },
        { "BG.CREATE x KIND blocked CAPACITY 10 WINDOW 5",
          "-ERR WINDOW, COUNT, MANUAL, GENERATIONS and AGED require KIND window" },
        { "BG.CREATE x WINDOW 5 COUNT 5 CAPACITY 10",
          "-ERR a window advances by time (WINDOW), by items (COUNT) or manually (MANUAL): "
          "specify only one of them" },
        { "BG.CREATE x MANUAL CAPACITY 10 GENERATIONS 1",
          "-ERR GENERATIONS must be in the range [2, 64]" },
        { "BG.CREATE x MANUAL",
          "-ERR CAPACITY is missing: specify the number of items" },
        { "BG.CREATE x HASH custom",
          "-ERR HASH: found custom, expected fast, fast-int, keyed, keyed24, keyed-int or xxh64" },
        { "BG.CREATE x HASH keyed",
          "-ERR hash keyed requires a secret, but no keyring is configured: set keyring, or "
          "use hash fast" },
        { "BG.CREATE x HASH keyed SEED 5",
          "-ERR SEED cannot be used with a keyed hash, which has a secret: use HASH fast, "
          "HASH fast-int or HASH xxh64" },
        { "BG.CREATE x CAPACITY 10 FOO 5", "-ERR Unknown argument received: 'FOO'" },
        { "BG.CREATE", "-ERR wrong number of arguments for 'bg.create' command" },
    };
    struct fake h;
    fake_begin(&h);
    FAKE_SCRIPT(&h, lines);
    CHECK_EQ(object_named(&h, "a")->shape.kind, BG_KIND_SCALABLE);
    CHECK_EQ(object_named(&h, "e")->shape.kind, BG_KIND_REGISTER);
    CHECK_EQ(object_named(&h, "h")->shape.kind, BG_KIND_WINDOW);
    CHECK_EQ(object_named(&h, "k")->shape.kind, BG_KIND_BLOCKED);
    h.settings.max_filter_bytes = 100;
    CHECK(strncmp(fake(&h, "BG.CREATE x CAPACITY 1000"), "-ERR Insufficient memory", 24)
          == 0);
    h.settings.max_filter_bytes = 0;
    h.create_fails = BG_EQUOTA;
    CHECK_STR(fake(&h, "BG.CREATE x CAPACITY 1000"),
              "-LIMIT create: simulated failure");
    fake_end(&h);
}

/* Every kind that can be created accepts items and finds them, even after a restart. */
TEST(bg__every_kind)
{
    static const char *const makes[] = {
        "KIND classic CAPACITY 500",          "KIND partitioned CAPACITY 500",
        "KIND blocked CAPACITY 500",          "KIND split CAPACITY 500",
        "KIND register CAPACITY 500",         "KIND counting CAPACITY 500",
        "KIND cuckoo CAPACITY 500",           "KIND quotient CAPACITY 500",
        "KIND scalable CAPACITY 50",          "KIND window CAPACITY 500",
        "WINDOW 100000 CAPACITY 500",         "COUNT 100000 CAPACITY 500 AGED",
        "KIND blocked CAPACITY 500 SHARDS 3", "KIND quotient CAPACITY 500 SHARDS 3",
        "KIND scalable CAPACITY 50 SHARDS 3",
    };
    struct fake h;
    fake_begin(&h);
    for (size_t m = 0; m < sizeof makes / sizeof *makes; m++) {
        char name[16];
        (void)snprintf(name, sizeof name, "f%zu", m);
        run(&h, "+OK", "BG.CREATE %s %s", name, makes[m]);
        fill(&h, name, 0, 150);
        has(&h, name, 0, 150);
        const uint32_t kind = object_named(&h, name)->shape.kind;
        const bool removes = bg_kind_traits((bg_kind)kind) & BG_TRAIT_REMOVE;
        run(&h, removes ? ":1" : "-ERR this kind of filter cannot delete items",
            "BG.DEL %s item-3", name);
        run(&h, NULL, "BG.INFO %s", name);
        CHECK_STR(field(&h, "kind")->bytes, bg_kind_name((bg_kind)kind));
        run(&h, NULL, "BG.VERIFY %s", name);
        run(&h, NULL, "BG.DIGEST %s", name);
        CHECK_EQ(strlen(h.items[0].bytes), 32);
        has(&h, name, 4, 150);
        run(&h, "+OK", "BG.CLEAR %s", name);
        run(&h, ":0", "BG.EXISTS %s item-5", name);
        fill(&h, name, 0, 20);
    }
    fake_end(&h);
}

/* ---- Keys ---------------------------------------------------------------------------------------- */

TEST(bg__keys)
{
    static const struct fake_line lines[] = {
        { "BG.ADD none a", "-NOFILTER no such filter 'none'" },
        { "BG.MADD none a b", "-NOFILTER no such filter 'none'" },
        { "BG.EXISTS none a", "-NOFILTER no such filter 'none'" },
        { "BG.MEXISTS none a b", "-NOFILTER no such filter 'none'" },
        { "BG.DEL none a", "-NOFILTER no such filter 'none'" },
        { "BG.COUNT none a", "-NOFILTER no such filter 'none'" },
        { "BG.CLEAR none", "-NOFILTER no such filter 'none'" },
        { "BG.DROP none", ":0" },
        { "BG.CREATE b KIND blocked CAPACITY 3 ERROR 0.001", "+OK" },
        { "BG.ADD b a", ":1" },
        { "BG.ADD b a", ":0" },
        { "BG.MADD b a x y z", "[:0 :1 :1 -FULL the filter has reached its capacity]" },
        { "BG.ADD b z", "-FULL the filter has reached its capacity" },
        { "BG.MADD b z", "-FULL the filter has reached its capacity" },
        { "BG.MEXISTS b a z", "[:1 :0]" },
        { "BG.COUNT b a", ":1" },
        { "BG.COUNT b z", ":0" },
        { "BG.CREATE o KIND blocked CAPACITY 1 OVERFILL", "+OK" },
        { "BG.MADD o a b c", "[:1 :1 :1]" },
        { "BG.CREATE q KIND quotient CAPACITY 100", "+OK" },
        { "BG.MADD q a a a b", "[:1 :0 :0 :1]" },
        { "BG.COUNT q a", ":3" },
        { "BG.DEL q a IF 2", ":0" },
        { "BG.DEL q a IF 3", ":1" },
        { "BG.DEL q a IF 3", ":0" }, /* a retry */
        { "BG.DEL q a", ":1" },
        { "BG.DEL q c", ":0" },
        { "BG.DEL q a IF 0", "-ERR expected: item [IF count], with a count above 0" },
        { "BG.DEL q a b c", "-ERR expected: item [IF count], with a count above 0" },
        /* CF.* commands work on BG filters that can delete items, and BF.* commands work on all BG
         * filters */
        { "CF.COUNT q a", ":1" },
        { "CF.ADD q z", ":1" },
        { "BF.EXISTS q z", ":1" },
        { "BF.ADD o z", ":1" },
        { "CF.ADD o a",
          "-WRONGTYPE Operation against a key holding the wrong kind of value" },
        { "CF.ADD c a", ":1" }, /* BG.* commands work on all families */
        { "BG.EXISTS c a", ":1" },
        { "BG.ADD c a", ":0" },
        { "BG.COUNT c a", ":2" },
        { "BG.CLEAR c", "+OK" },
        { "CF.COUNT c a", ":0" },
        { "BG.DROP c", ":1" },
        { "BG.EXISTS c a", "-NOFILTER no such filter 'c'" },
    };
    struct fake h;
    fake_begin(&h);
    FAKE_SCRIPT(&h, lines);
    FAKE_BOTH(&h, "BG.EXISTS o a", ":1", "#t");
    FAKE_BOTH(&h, "BG.MEXISTS o a x", "[:1 :0]", "[#t #f]");
    const bg_bytes items[] = { { "a", 1 }, { "n", 1 } };
    CHECK_STR(fake_pipeline(&h, "BG.EXISTS", "o", items, 2), ":1 :0");
    CHECK_STR(fake_pipeline(&h, "BG.ADD", "b", items, 2),
              ":0 -FULL the filter has reached its capacity");
    CHECK_STR(fake_pipeline(&h, "BG.ADD", "none", items, 2),
              "-NOFILTER no such filter 'none' -NOFILTER no such filter 'none'");
    h.record_fails = BG_EIO;
    CHECK_STR(fake(&h, "BG.ADD o new"), "-MISCONF record: simulated failure");
    CHECK_STR(fake(&h, "BG.ADD q new"), "-MISCONF record: simulated failure");
    CHECK_STR(fake(&h, "BG.DEL q z"), "-MISCONF record: simulated failure");
    h.record_fails = BG_OK;
    CHECK_STR(fake(&h, "BG.MEXISTS q new z"), "[:0 :1]");
    fake_end(&h);
}

TEST(bg__windows_move_with_the_clock)
{
    struct fake h;
    fake_begin(&h);
    CHECK_STR(fake(&h, "BG.CREATE w WINDOW 10000 CAPACITY 1000 GENERATIONS 6"), "+OK");
    const uint64_t begin = h.now;
    CHECK_STR(fake(&h, "BG.ADD w first"), ":1");
    for (int second = 1; second <= 10; second++) {
        h.now = begin + 1000 * (uint64_t)second;
        run(&h, ":1", "BG.ADD w item-%d", second);
        CHECK_STR(fake(&h, "BG.EXISTS w first"),
                  ":1"); /* an item is found for at least the length of the window */
    }
    h.now = begin + 14000;
    CHECK_STR(fake(&h, "BG.ADD w last"), ":1");
    CHECK_STR(fake(&h, "BG.EXISTS w first"), ":0");
    CHECK_STR(fake(&h, "BG.EXISTS w item-9"), ":1");
    fake_replay(&h); /* times are recorded, so a replay forgets the same keys */
    struct object *object = object_named(&h, "w");
    const size_t before = h.recorded;
    CHECK_OK(object_tick(object, &h.host, NULL)); /* nothing to do */
    CHECK_EQ(h.recorded, before);
    h.now = begin + 100000;
    /* a host calls object_tick periodically */
    CHECK_OK(object_tick(object, &h.host, NULL));
    CHECK_STR(fake(&h, "BG.MEXISTS w item-9 last"), "[:0 :0]");
    h.now = begin; /* setting the clock back changes nothing */
    CHECK_STR(fake(&h, "BG.ADD w odd"), ":1");
    CHECK_STR(fake(&h, "BG.EXISTS w odd"), ":1");
    fake_end(&h);
}

TEST(bg__windows_merge_in_the_same_period)
{
    struct fake h;
    fake_begin(&h);
    CHECK_STR(fake(&h, "BG.CREATE old WINDOW 10000 CAPACITY 1000 GENERATIONS 6"),
              "+OK");
    CHECK_STR(fake(&h, "BG.ADD old first"), ":1");
    h.now += 4000;
    CHECK_STR(fake(&h, "BG.ADD old second"), ":1");
    CHECK_STR(fake(&h, "BG.CREATE young WINDOW 10000 CAPACITY 1000 GENERATIONS 6"),
              "+OK");
    CHECK_STR(fake(&h, "BG.ADD young item"), ":1");
    CHECK_STR(
        fake(&h, "BG.MERGE old young"),
        "-INCOMPATIBLE cannot merge filter 'young' into 'old': the windows are in "
        "different periods (130 and 128); create one filter as a cleared copy of the other");
    CHECK_STR(fake(&h, "BG.MERGE copy old"), "+OK");
    CHECK_STR(fake(&h, "BG.CLEAR copy"), "+OK");
    CHECK_STR(fake(&h, "BG.ADD copy item"), ":1");
    CHECK_STR(fake(&h, "BG.MEXISTS copy first second"), "[:0 :0]");
    CHECK_STR(fake(&h, "BG.MERGE old copy"), "+OK");
    CHECK_STR(fake(&h, "BG.MEXISTS old first second item"), "[:1 :1 :1]");
    fake_end(&h);
}

/* Setting the wall clock forward or back neither rotates a window nor stops its rotation. */
TEST(bg__windows_do_not_follow_a_clock_that_is_set)
{
    static const char *const modes[] = { "", " AGED" };
    for (int mode = 0; mode < 2; mode++) {
        for (int back = 0; back < 2; back++) {
            struct fake h;
            fake_begin(&h);
            run(&h, "+OK", "BG.CREATE w WINDOW 10000 CAPACITY 1000 GENERATIONS 6%s",
                modes[mode]);
            CHECK_STR(fake(&h, "BG.ADD w first"), ":1");
            const uint64_t step = back ? (uint64_t)-3600000 : 3600000;
            h.now += step;
            h.stepped += step;
            for (int second = 1; second <= 10; second++) {
                h.now += 1000;
                run(&h, ":1", "BG.ADD w item-%d", second);
                CHECK_STR(fake(&h, "BG.EXISTS w first"), ":1"); /* a whole window */
            }
            h.now += 30000;
            CHECK_STR(fake(&h, "BG.ADD w last"), ":1");
            CHECK_STR(fake(&h, "BG.EXISTS w first"), ":0");
            fake_replay(&h);
            fake_end(&h);
        }
    }
}

/* A primary becomes a replica, and later a primary again. Windows on a replica do not advance by
 * themselves. The keys that the server received as a replica must expire at the same time as on its
 * former primary, whether they arrived as commands or as change records. */
TEST(bg__windows_go_on_where_another_host_left_them)
{
    const bg_bytes key = { "second", 6 };
    const struct change change = { .op = CHANGE_ADD, .n = 1, .keys = &key };
    for (int as_change = 0; as_change < 2; as_change++) {
        struct fake h;
        fake_begin(&h);
        run(&h, "+OK", "BG.CREATE w WINDOW 10000 CAPACITY 1000 GENERATIONS 2");
        h.now += 10000 - h.now % 10000 + 9900; /* near the end of a period */
        CHECK_STR(fake(&h, "BG.ADD w first"), ":1");
        h.now += 2000;
        h.stepped = h.now;
        if (as_change) {
            CHECK_OK(object_apply(object_named(&h, "w"), &change, NULL));
        } else {
            CHECK_STR(fake(&h, "BG.ADD w second"), ":1");
        }
        h.stepped = 0;
        h.now += 9500;
        CHECK_OK(object_tick(object_named(&h, "w"), &h.host, NULL));
        CHECK_STR(fake(&h, "BG.EXISTS w second"), ":1");
        h.now += 30000;
        CHECK_OK(object_tick(object_named(&h, "w"), &h.host, NULL));
        CHECK_STR(fake(&h, "BG.EXISTS w second"), ":0");
        (void)fake(
            &h, "BG.DROP w"); /* the change was not recorded, so the filter must not be
                                 * replayed */
        fake_end(&h);
    }
}

/* A window advances only while it is in memory, and each restart delays it by at most a fraction of
 * a period. */
TEST(bg__windows_go_on_after_a_restart)
{
    struct fake h;
    fake_begin(&h);
    CHECK_STR(fake(&h, "BG.CREATE w WINDOW 10000 CAPACITY 1000 GENERATIONS 6"), "+OK");
    CHECK_STR(fake(&h, "BG.ADD w first"), ":1");
    uint64_t there = 0;
    while (fake(&h, "BG.EXISTS w first")[1] == '1' && there < 100000) {
        CHECK(there <= 30000);
        for (int i = 0; i < 10; i++) { /* a period is 2000 ms */
            h.now += 100;
            there += 100;
            CHECK_OK(object_tick(object_named(&h, "w"), &h.host, NULL));
        }
        struct object *object = object_named(&h, "w"), *copy = NULL;
        /* as if the window were loaded from a file */
        CHECK_OK(object_copy(object, &copy, NULL));
        h.now += 3600000;
        CHECK_OK(fake_replace(&h.host, (bg_bytes){ "w", 1 }, object, copy, NULL));
    }
    CHECK(there >= 10000);
    fake_end(&h);
}

/* A forged file can contain any time, even one that is too large for the signed integers of the
 * protocols. */
TEST(bg__windows_of_impossible_times)
{
    const uint64_t times[] = { OBJECT_TIME_MAX, OBJECT_TIME_MAX + 1, UINT64_MAX };
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        bg_window_options window = BG_WINDOW_OPTIONS_INIT;
        bg_spec spec = BG_SPEC_INIT;
        bg_filter *filter = NULL;
        struct object_shape shape;
        struct object *object = NULL;
        window.length = 7000;
        spec.kind = BG_KIND_WINDOW;
        spec.items = 100;
        spec.rate = 0.01;
        spec.window = &window;
        CHECK_OK(bg_filter_create(&spec, &filter, NULL));
        CHECK_OK(bg_filter_rotate(filter, times[i], NULL));
        object_shape_of(filter, &shape);
        const bg_err err = object_adopt(&shape, filter, NULL, &object, NULL);
        CHECK_EQ(err, i == 0 ? BG_OK : BG_EFORMAT);
        if (err) {
            bg_filter_free(filter);
        }
        object_free(object);
    }
}

TEST(bg__windows_by_hand)
{
    struct fake h;
    fake_begin(&h);
    CHECK_STR(fake(&h, "BG.CREATE w MANUAL CAPACITY 1000 GENERATIONS 3"), "+OK");
    CHECK_STR(fake(&h, "BG.ADD w a"), ":1");
    run(&h, NULL, "BG.ROTATE w");
    const int64_t period = h.items[0].integer;
    CHECK_STR(fake(&h, "BG.ADD w b"), ":1");
    run(&h, NULL, "BG.ROTATE w");
    CHECK_EQ(h.items[0].integer, period + 1);
    CHECK_STR(fake(&h, "BG.MEXISTS w a b"), "[:1 :1]");
    run(&h, NULL, "BG.ROTATE w");
    CHECK_STR(fake(&h, "BG.MEXISTS w a b"), "[:0 :1]");
    fake_replay(&h);
    CHECK_STR(fake(&h, "BG.CREATE o CAPACITY 10"), "+OK");
    CHECK_STR(fake(&h, "BG.ROTATE o"), "-ERR the filter is not a window");
    CHECK_STR(fake(&h, "BG.ROTATE none"), "-NOFILTER no such filter 'none'");
    h.record_fails = BG_EIO;
    CHECK_STR(fake(&h, "BG.ROTATE w"), "-MISCONF record: simulated failure");
    h.record_fails = BG_OK;
    CHECK_STR(fake(&h, "BG.MEXISTS w b"), "[:1]");
    run(&h, NULL, "BG.INFO w");
    CHECK_STR(field(&h, "window_mode")->bytes, "generations");
    CHECK_EQ(field(&h, "window_generations")->integer, 3);
    fake_end(&h);
}

/* ---- Whole filters ------------------------------------------------------------------------------- */

TEST(bg__merges)
{
    struct fake h;
    fake_begin(&h);
    for (int i = 0; i < 3; i++) {
        run(&h, "+OK", "BG.CREATE s%d KIND blocked CAPACITY 1000", i);
        fill(&h, (const char *[]){ "s0", "s1", "s2" }[i], (size_t)i * 100,
             (size_t)i * 100 + 150);
    }
    CHECK_STR(fake(&h, "BG.MERGE all s0 s1 s2"), "+OK"); /* created */
    CHECK_EQ(h.checkpoints, 1);
    has(&h, "all", 0, 350);
    fake_replay(&h);
    CHECK_STR(fake(&h, "BG.MERGE s0 s1 s2"), "+OK"); /* the target exists */
    has(&h, "s0", 0, 350);
    CHECK(object_named(&h, "s0")->items > 330 && object_named(&h, "s0")->items < 370);
    CHECK_STR(fake(&h, "BG.MERGE s0 s0"), "+OK");
    char digest[40];
    (void)snprintf(digest, sizeof digest, "%s", fake(&h, "BG.DIGEST all"));
    /* filters with the same content have the same digest */
    CHECK_STR(fake(&h, "BG.DIGEST s0"), digest);
    run(&h, NULL, "BG.ADD s0 other");
    CHECK(strcmp(fake(&h, "BG.DIGEST s0"), digest) != 0);
    CHECK_STR(fake(&h, "BG.MERGE s0 none"), "-NOFILTER no such filter 'none'");
    CHECK_STR(fake(&h, "BG.MERGE new none s0"), "-NOFILTER no such filter 'none'");
    CHECK_STR(fake(&h, "BG.MERGE new s0 none"), "-NOFILTER no such filter 'none'");
    CHECK_STR(fake(&h, "BG.CREATE large KIND blocked CAPACITY 5000"), "+OK");
    CHECK(strncmp(fake(&h, "BG.MERGE s0 large"),
                  "-INCOMPATIBLE cannot merge filter 'large' into 's0': ", 53)
          == 0);
    CHECK(strncmp(fake(&h, "BG.MERGE new s0 large"),
                  "-INCOMPATIBLE cannot merge filter 'large' into 'new': ", 54)
          == 0);
    h.create_fails = BG_EQUOTA;
    CHECK_STR(fake(&h, "BG.MERGE new s0 s1"), "-LIMIT create: simulated failure");
    h.create_fails = BG_OK;
    h.checkpoint_fails = BG_EIO;
    CHECK_STR(fake(&h, "BG.MERGE s0 s1"), "-MISCONF checkpoint: simulated failure");
    CHECK_STR(fake(&h, "BG.MERGE new s0 s1"), "-MISCONF checkpoint: simulated failure");
    CHECK_STR(fake(&h, "BG.EXISTS new item-1"), "-NOFILTER no such filter 'new'");
    /* the result of the merge could not be saved, so adding an item that it contains is still
     * recorded */
    const size_t before = h.recorded;
    CHECK_STR(fake(&h, "BG.ADD s0 item-120"), ":0");
    CHECK_EQ(h.recorded, before + 1);
    h.checkpoint_fails = BG_OK;
    CHECK_STR(fake(&h, "BG.MERGE s0 s1"), "+OK");
    CHECK_STR(fake(&h, "BG.ADD s0 item-121"), ":0");
    CHECK_EQ(h.recorded, before + 1);
    fake_end(&h);
}

TEST(bg__merges_counts)
{
    struct fake h;
    fake_begin(&h);
    CHECK_STR(fake(&h, "CF.RESERVE a 100"), "+OK");
    CHECK_STR(fake(&h, "CF.RESERVE b 100"), "+OK");
    for (size_t i = 0; i < 400; i++) {
        run(&h, ":1", "CF.ADD b item-%zu", i);
        run(&h, ":1", "CF.ADD a item-%zu", 2 * i);
    }
    CHECK_STR(fake(&h, "BG.MERGE a b"),
              "+OK"); /* filter `a` grows to hold the items of both filters */
    CHECK_STR(fake(&h, "CF.COUNT a item-10"), ":2");
    CHECK_STR(fake(&h, "CF.COUNT a item-11"), ":1");
    CHECK_STR(fake(&h, "CF.DEBUG a"),
              "$bktsize:2 buckets:486 items:800 deletes:0 filters:1 max_iterations:20 "
              "expansion:1");
    CHECK_STR(
        fake(&h, "BG.MERGE a a"),
        "-INCOMPATIBLE cannot merge filter 'a' into 'a': a filter that counts items "
        "cannot be merged into itself");
    CHECK_STR(fake(&h, "BG.MERGE c a b"), "+OK");
    CHECK_STR(fake(&h, "CF.COUNT c item-10"), ":3");
    CHECK_STR(fake(&h, "CF.DEL c item-10"), ":1");
    fake_end(&h);
}

TEST(bg__folds)
{
    struct fake h;
    fake_begin(&h);
    CHECK_STR(fake(&h, "BG.CREATE f KIND blocked CAPACITY 10000 FOLDS 3 OVERFILL"),
              "+OK");
    fill(&h, "f", 0, 500);
    const uint64_t before = object_bytes(object_named(&h, "f"));
    char expected[32];
    (void)snprintf(expected, sizeof expected, ":%llu", (unsigned long long)before / 2);
    CHECK_STR(fake(&h, "BG.FOLD f"), expected);
    CHECK_EQ(h.checkpoints, 1);
    has(&h, "f", 0, 500);
    (void)snprintf(expected, sizeof expected, ":%llu", (unsigned long long)before / 8);
    CHECK_STR(fake(&h, "BG.FOLD f 2"), expected);
    has(&h, "f", 0, 500);
    fill(&h, "f", 500, 600); /* the folded filter accepts adds */
    has(&h, "f", 0, 600);
    fake_replay(&h);
    CHECK_STR(fake(&h, "BG.FOLD f 0"), "-ERR times must be in the range [1, 20]");
    CHECK_STR(fake(&h, "BG.FOLD f x"), "-ERR times must be in the range [1, 20]");
    CHECK_STR(fake(&h, "BG.FOLD f 1 1"), "-ERR times must be in the range [1, 20]");
    CHECK_STR(fake(&h, "BG.FOLD none"), "-NOFILTER no such filter 'none'");
    CHECK_EQ(fake(&h, "BG.FOLD f 20")[0], '-');
    CHECK_STR(fake(&h, "CF.ADD q a"), ":1");
    CHECK_EQ(fake(&h, "BG.FOLD q")[0], '-');
    CHECK_STR(fake(&h, "BG.CLEAR f"), "+OK"); /* does not shrink */
    CHECK_EQ(object_bytes(object_named(&h, "f")), before / 8);
    CHECK_STR(fake(&h, "BG.EXISTS f item-1"), ":0");
    fill(&h, "f", 0, 10);
    fake_end(&h);
}

TEST(bg__overlaps)
{
    struct fake h;
    fake_begin(&h);
    CHECK_STR(fake(&h, "BG.CREATE a KIND blocked CAPACITY 3000"), "+OK");
    CHECK_STR(fake(&h, "BG.CREATE b KIND blocked CAPACITY 3000"), "+OK");
    CHECK_STR(fake(&h, "BG.CREATE c KIND blocked CAPACITY 9000"), "+OK");
    h.no_keys = true;
    fill(&h, "a", 0, 2000);
    fill(&h, "b", 1000, 3000);
    h.protocol = 3;
    run(&h, NULL, "BG.INTERSECTCARD a b");
    CHECK_EQ(h.items_count, 4);
    CHECK_NEAR(h.items[1].real, 1000, 0.1);
    CHECK(h.items[2].real <= h.items[1].real && h.items[1].real <= h.items[3].real);
    CHECK(h.items[2].real < 1000 && h.items[3].real > 1000);
    run(&h, NULL, "BG.JACCARD a b");
    CHECK_NEAR(h.items[1].real, 1.0 / 3, 0.1);
    run(&h, NULL, "BG.JACCARD a a");
    CHECK_NEAR(h.items[1].real, 1, 0.01);
    CHECK(strncmp(fake(&h, "BG.JACCARD a c"), "-INCOMPATIBLE ", 14) == 0);
    CHECK_STR(fake(&h, "BG.JACCARD a none"), "-NOFILTER no such filter 'none'");
    CHECK_STR(fake(&h, "BG.INTERSECTCARD none a"), "-NOFILTER no such filter 'none'");
    fake_end(&h);
}

/* ---- Statistics ---------------------------------------------------------------------------------- */

TEST(bg__info)
{
    struct fake h;
    fake_begin(&h);
    CHECK_STR(fake(&h, "BG.INFO none"), "-NOFILTER no such filter 'none'");
    CHECK_STR(fake(&h, "BG.CREATE f KIND blocked CAPACITY 2000 ERROR 0.01"), "+OK");
    h.no_keys = true;
    fill(&h, "f", 0, 2000);
    for (int protocol = 2; protocol <= 3; protocol++) {
        h.protocol = protocol;
        run(&h, NULL, "BG.INFO f");
        CHECK_STR(field(&h, "kind")->bytes, "blocked");
        CHECK_STR(field(&h, "family")->bytes, "bg");
        CHECK_EQ(field(&h, "capacity")->integer, 2000);
        CHECK_NEAR(field_real(&h, "estimated_items"), 2000, 0.05);
        CHECK_NEAR(field_real(&h, "target_rate"), 0.01, 0.1);
        CHECK_NEAR(field_real(&h, "predicted_rate"), 0.01, 0.1);
        CHECK_NEAR(field_real(&h, "measured_rate"), 0.01, 0.4);
        CHECK_EQ(field(&h, "observed_rate")->type, '_');
        CHECK_STR(field(&h, "hash")->bytes, "fast");
        CHECK_EQ(field(&h, "degraded")->integer, 0);
        CHECK_EQ(field(&h, "loading")->integer, 0);
        CHECK_EQ(field(&h, "rebuilding")->integer, 0);
    }
    h.protocol = 2;
    CHECK_STR(fake(&h, "CF.ADD c a"), ":1");
    run(&h, NULL, "BG.INFO c");
    CHECK_STR(field(&h, "kind")->bytes, "quotient");
    CHECK_STR(field(&h, "family")->bytes, "cf");
    fake_end(&h);
}

TEST(bg__observes)
{
    static const struct fake_line lines[] = {
        { "BG.CREATE f KIND blocked CAPACITY 200 ERROR 0.2", "+OK" },
        { "BG.OBSERVE none a PRESENT", "-NOFILTER no such filter 'none'" },
        { "BG.OBSERVE f a FOO", "-ERR expected PRESENT or FALSEPOSITIVE" },
        { "BG.ADD f here", ":1" },
        { "BG.OBSERVE f here PRESENT", ":1" },
        { "BG.OBSERVE f nobody FALSEPOSITIVE",
          ":0" }, /* the filter answers "no", so this is not a false positive */
        /* the caller reports that the filter has lost an item */
        { "BG.OBSERVE f nobody PRESENT", ":0" },
    };
    struct fake h;
    size_t wrong = 0;
    fake_begin(&h);
    FAKE_SCRIPT(&h, lines);
    h.no_keys = true;
    fill(&h, "f", 1, 200);
    enum { ASKED = 20000 };
    for (size_t i = 0; i < ASKED; i++) { /* reports every second false positive */
        char line[64];
        (void)snprintf(line, sizeof line, "BG.EXISTS f absent-%zu", i);
        if (strcmp(fake(&h, line), ":1") == 0 && ++wrong % 2 == 0) {
            run(&h, ":1", "BG.OBSERVE f absent-%zu FALSEPOSITIVE", i);
        }
    }
    run(&h, NULL, "BG.INFO f");
    CHECK_EQ(field(&h, "observed_false_positives")->integer, (int64_t)wrong / 2);
    CHECK_EQ(field(&h, "observed_present")->integer, 1);
    CHECK_EQ(field(&h, "observed_missing")->integer, 1);
    CHECK_NEAR(field_real(&h, "observed_rate"), (double)wrong / ASKED, 0.05);
    const struct fake_item *observed = field(&h, "observed_rate");
    CHECK(observed[2].real < (double)wrong / ASKED
          && observed[3].real > (double)wrong / ASKED);
    fake_end(&h);
}

TEST(bg__plans)
{
    struct fake h;
    fake_begin(&h);
    h.protocol = 3;
    run(&h, NULL, "BG.PLAN 1000000 0.01");
    CHECK_EQ(h.items[0].integer, 12); /* all kinds */
    CHECK(strstr(h.text, "$kind $blocked $bytes :") != NULL);
    CHECK(strstr(h.text, "$chosen #t $reason $") != NULL);
    CHECK(!strstr(h.text, "calls_avoided") && !strstr(h.text, "$cost"));
    run(&h, NULL,
        "BG.PLAN 1000000 0.01 KIND quotient QPS 1000 ABSENT 0.9 CALLCOST 1 MEMORYCOST 2");
    CHECK_EQ(h.items[0].integer, 1);
    CHECK_NEAR(field_real(&h, "calls_avoided"), 890, 0.02);
    CHECK(field_real(&h, "cost") > 0);
    CHECK_STR(field(&h, "kind")->bytes, "quotient");
    run(&h, NULL, "BG.PLAN 100 0.01 KIND blocked");
    CHECK_STR(field(&h, "fits_into")->bytes, "L1");
    run(&h, NULL, "BG.PLAN 1e15 0.01 KIND blocked"); /* 1.1 PiB */
    CHECK_STR(field(&h, "fits_into")->bytes, "none");
    run(&h, NULL, "BG.PLAN 1000000 0.01 GROWTH 2 CALLTIME 0.005 LATENCY 0.0001");
    run(&h, NULL, "BG.PLAN 10 1e-9"); /* some kinds cannot */
    CHECK(strstr(h.text, "$error $ERROR: found 1e-09") != NULL);
    static const struct fake_line lines[] = {
        { "BG.PLAN x 0.01", "-ERR bad capacity" },
        { "BG.PLAN 0 0.01", "-ERR bad capacity" },
        { "BG.PLAN 10 x", "-ERR bad error rate" },
        { "BG.PLAN 10 1", "-ERR bad error rate" },
        { "BG.PLAN 10 0.1 FOO 1", "-ERR Unknown argument received: 'FOO'" },
        { "BG.PLAN 10 0.1 KIND foo", "-ERR Unknown argument received: 'KIND'" },
        { "BG.PLAN 10 0.1 ABSENT 2", "-ERR ABSENT must be above 0 and at most 1" },
        { "BG.PLAN 10 0.1 QPS", "-ERR QPS must be above 0 and at most 1e+15" },
        { "BG.PLAN 10 0.1 LATENCY 5",
          "-ERR CALLTIME: found 0, expected a number above 0, because LATENCY is set" },
        { "BG.PLAN 10", "-ERR wrong number of arguments for 'bg.plan' command" },
    };
    FAKE_SCRIPT(&h, lines);
    fake_end(&h);
}

TEST(bg__help)
{
    struct fake h;
    fake_begin(&h);
    run(&h, NULL, "BG.HELP");
    for (const struct command *c = bg_commands; c->name; c++) {
        CHECK(strstr(h.text, c->name) != NULL);
    }
    fake_end(&h);
}

/* ---- Rebuilding ------------------------------------------------------------------------------------ */

TEST(bg__rebuilds)
{
    struct fake h;
    fake_begin(&h);
    CHECK_STR(fake(&h, "BG.CREATE f KIND blocked CAPACITY 100 ERROR 0.001"), "+OK");
    fill(&h, "f", 0, 100);
    CHECK_STR(fake(&h, "BG.REBUILD f STATUS"), "[$rebuilding :0 $keys :0]");
    CHECK_STR(fake(&h, "BG.REBUILD f BEGIN 1000"), "+OK");
    CHECK_STR(fake(&h, "BG.REBUILD f BEGIN 1000"),
              "-ERR a rebuild is already in progress: use COMMIT or ABORT");
    CHECK_STR(fake(&h, "BG.REBUILD f ADD item-50 item-51 item-52"), ":3");
    CHECK_STR(fake(&h, "BG.REBUILD f ADD new-1"), ":4");
    CHECK_STR(fake(&h, "BG.EXISTS f new-1"),
              ":0"); /* the new filter is not queried yet */
    CHECK_STR(fake(&h, "BG.MADD f item-10"), "[:0]"); /* added to both filters */
    has(&h, "f", 0, 100);
    CHECK_STR(fake(&h, "BG.REBUILD f STATUS"), "[$rebuilding :1 $keys :4]");
    run(&h, NULL, "BG.INFO f");
    CHECK_EQ(field(&h, "rebuilding")->integer, 1);
    fake_replay(&h); /* a crash now would restore the old filter */
    const size_t checkpoints = h.checkpoints;
    CHECK_STR(fake(&h, "BG.REBUILD f COMMIT"),
              "[$keys :4 $capacity :1000 $undersized :0]");
    CHECK_EQ(h.checkpoints, checkpoints + 1);
    CHECK_STR(fake(&h, "BG.MEXISTS f item-50 item-51 item-52 new-1 item-10"),
              "[:1 :1 :1 :1 :1]");
    /* this item was not added to the new filter */
    CHECK_STR(fake(&h, "BG.EXISTS f item-99"), ":0");
    fill(&h, "f", 200, 900); /* the new capacity is large enough */
    fake_replay(&h);
    CHECK_STR(fake(&h, "BG.REBUILD f BEGIN 5 ERROR 0.5"), "+OK");
    CHECK_STR(fake(&h, "BG.REBUILD f ADD other"), ":1");
    CHECK_STR(fake(&h, "BG.REBUILD f ABORT"), "+OK"); /* nothing has changed */
    CHECK_STR(fake(&h, "BG.EXISTS f other"), ":0");
    has(&h, "f", 200, 900);
    static const struct fake_line lines[] = {
        { "BG.REBUILD f COMMIT",
          "-ERR no rebuild is in progress: start one with BEGIN" },
        { "BG.REBUILD f ABORT",
          "-ERR no rebuild is in progress: start one with BEGIN" },
        { "BG.REBUILD f ADD x",
          "-ERR no rebuild is in progress: start one with BEGIN" },
        { "BG.REBUILD f ADD",
          "-ERR wrong number of arguments for 'bg.rebuild' command" },
        { "BG.REBUILD f COMMIT x",
          "-ERR wrong number of arguments for 'bg.rebuild' command" },
        { "BG.REBUILD f FOO", "-ERR expected BEGIN, ADD, COMMIT, ABORT or STATUS" },
        { "BG.REBUILD none STATUS", "-NOFILTER no such filter 'none'" },
        { "BG.REBUILD f BEGIN",
          "-ERR expected: BEGIN capacity [ERROR rate], with a capacity above 0 and a rate "
          "above 0 and below 1" },
        { "BG.REBUILD f BEGIN 0",
          "-ERR expected: BEGIN capacity [ERROR rate], with a capacity above 0 and a rate "
          "above 0 and below 1" },
        { "BG.REBUILD f BEGIN 5 ERROR 2",
          "-ERR expected: BEGIN capacity [ERROR rate], with a capacity above 0 and a rate "
          "above 0 and below 1" },
    };
    FAKE_SCRIPT(&h, lines);
    fake_end(&h);
}

TEST(bg__rebuilds_what_deletes)
{
    struct fake h;
    fake_begin(&h);
    CHECK_STR(fake(&h, "CF.RESERVE q 100"), "+OK");
    for (size_t i = 0; i < 300; i++) {
        run(&h, ":1", "CF.ADD q item-%zu", i);
    }
    CHECK_STR(fake(&h, "BG.REBUILD q BEGIN 1000"), "+OK");
    const size_t before = h.recorded;
    CHECK_STR(
        fake(&h, "CF.DEL q item-5"),
        "-ERR cannot delete items while the filter is being rebuilt: commit or abort "
        "the rebuild first");
    CHECK_EQ(h.recorded, before); /* a replay does not delete the item either */
    for (size_t i = 0; i < 250; i++) {
        run(&h, NULL, "BG.REBUILD q ADD item-%zu", i);
    }
    CHECK_STR(fake(&h, "CF.ADD q meanwhile"), ":1");
    run(&h, NULL, "BG.REBUILD q COMMIT");
    has(&h, "q", 0, 250);
    CHECK_STR(fake(&h, "CF.COUNT q meanwhile"), ":1");
    CHECK_STR(fake(&h, "CF.EXISTS q item-299"), ":0");
    CHECK_STR(fake(&h, "CF.DEL q item-5"), ":1");
    for (size_t i = 1000; i < 5000; i++) { /* the filter keeps growing */
        run(&h, ":1", "CF.ADD q item-%zu", i);
    }
    fake_replay(&h);
    /* if the new filter is too small, the old filter is kept */
    CHECK_STR(fake(&h, "BG.REBUILD q BEGIN 10"), "+OK");
    bool full = false;
    for (size_t i = 0; i < 2000 && !full; i++) {
        char line[64];
        (void)snprintf(line, sizeof line, "BG.REBUILD q ADD k-%zu", i);
        full = strcmp(fake(&h, line),
                      "-FULL the new filter has reached its capacity: use ABORT, then "
                      "BEGIN with a larger capacity")
               == 0;
    }
    CHECK(full);
    CHECK_STR(fake(&h, "BG.REBUILD q COMMIT"),
              "-FULL the new filter reached its capacity and was discarded: use BEGIN "
              "with a larger capacity");
    has(&h, "q", 6, 250);
    CHECK_STR(fake(&h, "BG.REBUILD q BEGIN 10"),
              "+OK"); /* an unfinished rebuild is freed with its object */
    fake_end(&h);
}

TEST(bg__rebuilds_every_kind)
{
    static const char *const makes[] = {
        "KIND classic CAPACITY 500 BITS 12", "KIND partitioned CAPACITY 500",
        "KIND blocked BYTES 4096 K 5",       "KIND split CAPACITY 500",
        "KIND register CAPACITY 500",        "KIND counting CAPACITY 500",
        "KIND cuckoo CAPACITY 500",          "KIND quotient CAPACITY 500",
        "KIND scalable CAPACITY 50",         "KIND blocked CAPACITY 500 SHARDS 3",
    };
    struct fake h;
    fake_begin(&h);
    for (size_t m = 0; m < sizeof makes / sizeof *makes; m++) {
        char name[16];
        (void)snprintf(name, sizeof name, "f%zu", m);
        run(&h, "+OK", "BG.CREATE %s %s", name, makes[m]);
        fill(&h, name, 0, 100);
        run(&h, "+OK", "BG.REBUILD %s BEGIN 2000", name);
        for (size_t i = 0; i < 200; i++) {
            run(&h, NULL, "BG.REBUILD %s ADD item-%zu", name, i);
        }
        fill(&h, name, 300, 320);
        run(&h, NULL, "BG.REBUILD %s COMMIT", name);
        has(&h, name, 0, 200);
        has(&h, name, 300, 320);
    }
    fake_end(&h);
}

/* ---- Files ------------------------------------------------------------------------------------------ */

TEST(bg__files)
{
    struct fake h;
    const char *folder = scratch_fresh();
    fake_begin(&h);
    h.folder = folder;
    CHECK_STR(fake(&h, "BG.CREATE f KIND blocked CAPACITY 1000"), "+OK");
    fill(&h, "f", 0, 100);
    run(&h, NULL, "BG.PUBLISH f users.bg");
    CHECK_EQ(strlen(h.items[0].bytes), 32);
    char digest[40];
    (void)snprintf(digest, sizeof digest, "%s", h.text);
    CHECK_STR(fake(&h, "BG.RELOAD copy users.bg"), digest);
    has(&h, "copy", 0, 100);
    CHECK_STR(fake(&h, "BG.ADD copy x"),
              "-ERR the filter does not accept adds: its content is loaded from files");
    CHECK_STR(
        fake(&h, "BG.MERGE copy f"),
        "-INCOMPATIBLE cannot merge filter 'f' into 'copy': the filter does not accept adds: its "
        "content is loaded from files");
    run(&h, NULL, "BG.INFO copy");
    CHECK_EQ(field(&h, "sealed")->integer, 1);
    CHECK_EQ((uint64_t)field(&h, "capacity")->integer, 1000);
    /* a newer file replaces the filter's content */
    fill(&h, "f", 100, 200);
    h.now++;
    run(&h, NULL, "BG.PUBLISH f users.bg");
    run(&h, NULL, "BG.RELOAD copy users.bg");
    has(&h, "copy", 0, 200);
    fake_replay(&h);
    CHECK_STR(fake(&h, "BG.CREATE other KIND classic CAPACITY 1000"), "+OK");
    fill(&h, "other", 0, 5);
    run(&h, NULL, "BG.PUBLISH other classic.bg VERSIONED");
    CHECK(strncmp(fake(&h, "BG.RELOAD copy classic.bg"), "-INCOMPATIBLE ", 14) == 0);
    has(&h, "copy", 0, 200);
    run(&h, NULL, "BG.RELOAD copy classic.bg ANYKIND");
    has(&h, "copy", 0, 5);
    CHECK_EQ(object_named(&h, "copy")->shape.kind, BG_KIND_CLASSIC);
    CHECK_EQ(object_named(&h, "copy")->shape.sealed, 1);
    /* a filter that accepts items is replaced only if DISCARD is specified */
    CHECK(strncmp(fake(&h, "BG.RELOAD f users.bg"), "-INCOMPATIBLE ", 14) == 0);
    CHECK(strncmp(fake(&h, "BG.RELOAD f classic.bg ANYKIND"), "-INCOMPATIBLE ", 14)
          == 0);
    fill(&h, "f", 200, 210);
    run(&h, NULL, "BG.RELOAD f users.bg DISCARD");
    has(&h, "f", 0, 200);
    CHECK_STR(fake(&h, "BG.EXISTS f item-205"), ":0");
    run(&h, NULL, "BG.RELOAD w users.bg WRITABLE");
    CHECK_STR(fake(&h, "BG.ADD w x"), ":1");
    fake_replay(&h);
    static const struct fake_line lines[] = {
        { "BG.PUBLISH none x", "-NOFILTER no such filter 'none'" },
        { "BG.PUBLISH f ../x", "-ERR file: found a path, expected a plain name" },
        { "BG.RELOAD f ../x", "-ERR file: found a path, expected a plain name" },
        { "BG.PUBLISH f x FOO", "-ERR Unknown argument received: 'FOO'" },
        { "BG.RELOAD f x FOO", "-ERR Unknown argument received: 'FOO'" },
        { "BG.VERIFY none", "-NOFILTER no such filter 'none'" },
        { "BG.DIGEST none", "-NOFILTER no such filter 'none'" },
    };
    FAKE_SCRIPT(&h, lines);
    CHECK(strncmp(fake(&h, "BG.RELOAD new missing.bg"), "-ERR ", 5) == 0);
    CHECK_STR(fake(&h, "BG.EXISTS new x"), "-NOFILTER no such filter 'new'");
    /* a damaged file is refused, and the old content stays in use */
    char path[512];
    (void)snprintf(path, sizeof path, "%s/users.bg", folder);
    FILE *file = fopen(path, "r+b");
    CHECK(file != NULL);
    CHECK(fseek(file, 5000, SEEK_SET) == 0);
    const int byte = fgetc(file);
    CHECK(fseek(file, 5000, SEEK_SET) == 0 && fputc(byte ^ 4, file) != EOF);
    CHECK_EQ(fclose(file), 0);
    CHECK_EQ(fake(&h, "BG.RELOAD w users.bg DISCARD")[0], '-');
    CHECK_EQ(fake(&h, "BG.RELOAD w users.bg DISCARD ANYKIND")[0], '-');
    CHECK_EQ(fake(&h, "BG.RELOAD new users.bg")[0], '-');
    has(&h, "w", 0, 200);
    CHECK_STR(fake(&h, "BG.EXISTS w x"), ":1");
    fake_end(&h);
}

/* Files older than the loaded file are refused, no matter which operations have run on the filter
 * since, unless the filter was cleared. */
TEST(bg__no_older_files)
{
    struct fake h;
    fake_begin(&h);
    h.folder = scratch_fresh();
    CHECK_STR(fake(&h, "BG.CREATE f KIND blocked CAPACITY 1000"), "+OK");
    fill(&h, "f", 0, 100);
    run(&h, NULL, "BG.PUBLISH f old.bg");
    h.now++;
    fill(&h, "f", 100, 200);
    run(&h, NULL, "BG.PUBLISH f new.bg");
    run(&h, NULL, "BG.RELOAD copy new.bg"); /* the first file loaded into `copy` */
    static const char *const refused[] = { "BG.RELOAD copy old.bg",
                                           "BG.RELOAD copy old.bg ANYKIND" };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        const char *said = fake(&h, refused[i]);
        CHECK(strncmp(said, "-INCOMPATIBLE the file has generation", 37) == 0);
        CHECK(strstr(said, "use DISCARD to load an older file"));
    }
    has(&h, "copy", 0, 200);
    CHECK_STR(fake(&h, "BG.REBUILD copy BEGIN 1000"), "+OK");
    run(&h, NULL, "BG.REBUILD copy COMMIT");
    CHECK(strncmp(fake(&h, "BG.RELOAD copy old.bg"), "-INCOMPATIBLE ", 14) == 0);
    run(&h, NULL, "BG.RELOAD copy old.bg DISCARD");
    CHECK_STR(fake(&h, "BG.EXISTS copy item-150"), ":0");
    run(&h, NULL, "BG.RELOAD copy new.bg");
    CHECK(strncmp(fake(&h, "BG.RELOAD copy old.bg"), "-INCOMPATIBLE ", 14) == 0);
    has(&h, "copy", 0, 200);
    CHECK_STR(fake(&h, "BG.CLEAR copy"), "+OK");
    run(&h, NULL, "BG.RELOAD copy old.bg"); /* nothing is lost */
    fake_end(&h);
}

TEST(bg__files_tell_how_windows_move)
{
    struct fake h;
    const char *folder = scratch_fresh();
    fake_begin(&h);
    h.folder = folder;
    CHECK_STR(fake(&h, "BG.CREATE w WINDOW 10000 CAPACITY 1000 GENERATIONS 6"), "+OK");
    CHECK_STR(fake(&h, "BG.ADD w a"), ":1");
    run(&h, NULL, "BG.PUBLISH w w.bg");
    run(&h, NULL, "BG.RELOAD v w.bg WRITABLE");
    CHECK_EQ(object_named(&h, "v")->shape.window_length, 10000);
    CHECK_STR(fake(&h, "BG.ADD v c"), ":1");
    CHECK_STR(fake(&h, "BG.EXISTS v a"), ":1");
    h.now += 100000;
    CHECK_STR(fake(&h, "BG.ADD v b"), ":1");
    CHECK_STR(fake(&h, "BG.MEXISTS v a b"), "[:0 :1]");
    fake_end(&h);
}

TEST(bg__digest_is_that_of_a_file)
{
    struct fake h;
    const char *folder = scratch_fresh();
    char path[512];
    fake_begin(&h);
    CHECK_STR(fake(&h, "BG.CREATE f KIND blocked CAPACITY 1000"), "+OK");
    fill(&h, "f", 0, 100);
    bg_pin pin;
    bg_save_options how = BG_SAVE_OPTIONS_INIT;
    bg_file_info about = { .struct_size = sizeof about };
    how.created = 1;
    (void)snprintf(path, sizeof path, "%s/f.bg", folder);
    CHECK_OK(bg_save(object_pin(object_named(&h, "f"), &pin), path, &how, NULL));
    bg_slot_unpin(object_named(&h, "f")->slot, &pin);
    CHECK_OK(bg_file_get_info(path, &about, NULL));
    CHECK_STR(fake(&h, "BG.DIGEST f") + 1, about.digest_text);
    fake_end(&h);
}

/* ---- Gates ------------------------------------------------------------------------------------------- */

TEST(bg__gates)
{
    struct fake h;
    fake_begin(&h);
    static const struct {
        bg_outcome outcome;
        const char *two, *three;
    } cases[] = {
        { BG_OUTCOME_ABSENT_BY_FILTER, "[:0 $absent_by_filter]",
          "[#f $absent_by_filter]" },
        { BG_OUTCOME_ABSENT_BY_CACHE, "[:0 $absent_by_cache]",
          "[#f $absent_by_cache]" },
        { BG_OUTCOME_ABSENT_BY_STORE, "[:0 $absent_by_truth]",
          "[#f $absent_by_truth]" },
        { BG_OUTCOME_PRESENT, "[:1 $present]", "[#t $present]" },
        { BG_OUTCOME_UNKNOWN, "[_ $unknown]", "[_ $unknown]" },
        { BG_OUTCOME_FAILED, "-FAILED the backing store of gate 'gate' did not answer",
          "-FAILED the backing store of gate 'gate' did not answer" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        h.outcome = cases[i].outcome;
        FAKE_BOTH(&h, "BG.LOOKUP gate key", cases[i].two, cases[i].three);
    }
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        h.outcome = cases[i].outcome;
        const char *row =
            h.outcome == BG_OUTCOME_PRESENT ? "[$key $7 $none _ $big $]"
            : h.outcome < BG_OUTCOME_PRESENT
                ? "_"
                : "-FAILED the backing store of gate 'gate' did not answer";
        CHECK_STR(fake(&h, "BG.ROW gate 7"), row);
    }
    h.outcome = BG_OUTCOME_PRESENT;
    h.row_bytes = STORE_ROW_MAX - 11; /* the names and the key have 11 bytes */
    (void)fake(&h, "BG.ROW gate 7");
    CHECK_EQ(h.items[6].n, h.row_bytes);
    h.row_bytes++;
    CHECK_STR(fake(&h, "BG.ROW gate 7"),
              "-LIMIT the row is larger than 1 MiB: select fewer columns in the "
              "gate's `lookup`");
    CHECK_STR(fake(&h, "BG.ROW mute 7"), "-ERR this gate does not return rows");
    CHECK_STR(fake(&h, "BG.ROW other 7"), "-NOGATE no such gate 'other'");
    CHECK_STR(fake(&h, "BG.MLOOKUP gate a b"), "[[:1 $present] [:1 $present]]");
    h.outcome = BG_OUTCOME_FAILED;
    CHECK_STR(fake(&h, "BG.MLOOKUP gate a"),
              "[-FAILED the backing store of gate 'gate' did not answer]");
    CHECK_STR(fake(&h, "BG.LOOKUP other key"), "-NOGATE no such gate 'other'");
    CHECK_STR(fake(&h, "BG.MLOOKUP other a b"), "-NOGATE no such gate 'other'");
    CHECK_STR(fake(&h, "BG.WROTE gate a b"), "+OK");
    CHECK_STR(fake(&h, "BG.WROTE gate  b"), "-ERR another spelling");
    CHECK_STR(fake(&h, "BG.WROTE other a"), "-NOGATE no such gate 'other'");
    static const struct host_ops nothing = { .find = fake_find };
    h.host.ops = &nothing;
    CHECK_STR(fake(&h, "BG.WROTE gate a"),
              "-ERR gates are not available on this server");
    CHECK_STR(fake(&h, "BG.LOOKUP gate key"),
              "-ERR gates are not available on this server");
    CHECK_STR(fake(&h, "BG.RELOAD f x"),
              "-ERR filter files are not available on this server");
    fake_end(&h);
}

/* ---- The table --------------------------------------------------------------------------------------- */

TEST(table__is_complete)
{
    static const struct command *const families[] = { bf_commands, cf_commands,
                                                      bg_commands };
    for (size_t f = 0; f < 3; f++) {
        for (const struct command *c = families[f]; c->name; c++) {
            CHECK(c->run && c->syntax && c->summary && c->complexity && c->since);
            CHECK(c->summary[strlen(c->summary) - 1] != '.');
            CHECK(c->arity != 0 && c->categories != 0);
            const bool writes = c->flags & COMMAND_WRITE,
                       reads = c->flags & COMMAND_READONLY;
            /* a command that only admins may run can be neither, so that +@read excludes it */
            CHECK(writes != reads || (!writes && c->flags & COMMAND_ADMIN));
            const bool fast = c->flags & COMMAND_FAST, slow = c->flags & COMMAND_SLOW;
            CHECK(!fast || !slow);
            CHECK(!c->run_many
                  || c->arity == 3); /* run_many requires requests that differ only in
                                        * argv[2] */
            CHECK(!reads || !(c->flags & COMMAND_DENYOOM));
            CHECK(c->first_key >= 0 && (c->first_key == 0) == (c->key_step == 0));
        }
    }
}
