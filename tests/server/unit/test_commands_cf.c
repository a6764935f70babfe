/* Tests the CF.* commands: arguments, replies and error messages in both protocols, growth, counts,
 * deletes, and durability. */
#include "server/support/fake_host.h"

TEST(cf__words_and_replies)
{
    static const struct fake_line lines[] = {
        { "CF.RESERVE k 100", "+OK" },
        { "CF.RESERVE k 100", "-ERR item exists" },
        { "CF.RESERVE x abc", "-ERR Bad capacity" },
        { "CF.RESERVE x -1", "-ERR Bad capacity" },
        { "CF.RESERVE x 3",
          "-ERR Capacity must be in the range [2 * BUCKETSIZE, 549755813888]" },
        { "CF.RESERVE x 0",
          "-ERR Capacity must be in the range [2 * BUCKETSIZE, 549755813888]" },
        { "CF.RESERVE x 549755813889",
          "-ERR Capacity must be in the range [2 * BUCKETSIZE, 549755813888]" },
        { "CF.RESERVE x 100 BUCKETSIZE 51",
          "-ERR Capacity must be in the range [2 * BUCKETSIZE, 549755813888]" },
        { "CF.RESERVE x 100 BUCKETSIZE a", "-ERR Couldn't parse BUCKETSIZE" },
        { "CF.RESERVE x 100 BUCKETSIZE", "-ERR Couldn't parse BUCKETSIZE" },
        { "CF.RESERVE x 100 BUCKETSIZE 0",
          "-ERR BUCKETSIZE: value must be in the range [1, 255]" },
        { "CF.RESERVE x 100 BUCKETSIZE 256",
          "-ERR BUCKETSIZE: value must be in the range [1, 255]" },
        { "CF.RESERVE x 100 MAXITERATIONS a", "-ERR Couldn't parse MAXITERATIONS" },
        { "CF.RESERVE x 100 MAXITERATIONS 0",
          "-ERR MAXITERATIONS: value must be in the range [1, 65535]" },
        { "CF.RESERVE x 100 MAXITERATIONS 65536",
          "-ERR MAXITERATIONS: value must be in the range [1, 65535]" },
        { "CF.RESERVE x 100 EXPANSION x", "-ERR Couldn't parse EXPANSION" },
        { "CF.RESERVE x 100 EXPANSION 32769",
          "-ERR EXPANSION: value must be in the range [0, 32768]" },
        { "CF.RESERVE x 100 ERROR nan", "-ERR bad error rate" },
        { "CF.RESERVE x 100 ERROR 1",
          "-ERR error rate must be in the range (0.000000, 1.000000)" },
        { "CF.RESERVE x 100 FOO", "-ERR Unknown argument received" },
        { "CF.RESERVE x 100 CAPACITY 7", "-ERR Unknown argument received" },
        { "CF.RESERVE x", "-ERR wrong number of arguments for 'cf.reserve' command" },
        { "CF.ADD k a", ":1" },
        { "CF.ADD k a", ":1" },
        { "CF.COUNT k a", ":2" },
        { "CF.ADDNX k a", ":0" },
        { "CF.ADDNX k b", ":1" },
        { "CF.EXISTS k b", ":1" },
        { "CF.EXISTS k c", ":0" },
        { "CF.MEXISTS k a b c", "[:1 :1 :0]" },
        { "CF.DEL k a", ":1" },
        { "CF.DEL k a", ":1" },
        { "CF.DEL k a", ":0" },
        { "CF.EXISTS k a", ":0" },
        { "CF.DEL none a", "-ERR Not found" },
        { "CF.COUNT none a", ":0" },
        { "CF.EXISTS none a", ":0" },
        { "CF.MEXISTS none a b", "[:0 :0]" },
        { "CF.COMPACT none", "-ERR Cuckoo filter was not found" },
        { "CF.COMPACT k", "+OK" },
        { "CF.INFO none", "-ERR not found" },
        { "CF.DEBUG none", "-ERR not found" },
        { "CF.DEBUG k",
          "$bktsize:2 buckets:121 items:1 deletes:2 filters:1 max_iterations:20 "
          "expansion:1" },
        { "CF.ADD auto a", ":1" },
        { "CF.INSERT k CAPACITY 3 ITEMS a",
          "-ERR Capacity must be in the range [cf-bucket-size * 2, 549755813888]" },
        { "CF.INSERT k CAPACITY x ITEMS a", "-ERR Bad capacity" },
        { "CF.INSERT k CAPACITY",
          "-ERR wrong number of arguments for 'cf.insert' command" },
        { "CF.INSERT k NOCREATE a b", "-ERR Unknown argument received" },
        { "CF.INSERT k NOCREATE ITEMS",
          "-ERR wrong number of arguments for 'cf.insert' command" },
        { "CF.INSERT k NOCREAT ITEMS a", "-ERR Unknown argument received" },
        { "CF.INSERT none NOCREATE ITEMS a", "-ERR not found" },
        { "CF.INSERTNX none NOCREATE ITEMS a", "-ERR not found" },
        { "CF.INSERT made CAPACITY 1000 ERROR 0.001 ITEMS a a b", "[:1 :1 :1]" },
        { "CF.INSERTNX made ITEMS a c c", "[:0 :1 :0]" },
        { "CF.COUNT made a", ":2" },
    };
    struct fake h;
    fake_begin(&h);
    FAKE_SCRIPT(&h, lines);
    fake_end(&h);
}

TEST(cf__resp3)
{
    struct fake h;
    fake_begin(&h);
    CHECK_STR(fake(&h, "CF.RESERVE k 64 BUCKETSIZE 4 MAXITERATIONS 7 EXPANSION 2"),
              "+OK");
    h.protocol = 3;
    CHECK_STR(fake(&h, "CF.ADD k a"), "#t");
    CHECK_STR(fake(&h, "CF.ADDNX k a"), "#f");
    CHECK_STR(fake(&h, "CF.INSERT k ITEMS a b"), "[#t #t]");
    CHECK_STR(fake(&h, "CF.INSERTNX k ITEMS a c"), "[:0 :1]");
    CHECK_STR(fake(&h, "CF.DEL k c"), "#t");
    FAKE_BOTH(&h, "CF.EXISTS k a", ":1", "#t");
    FAKE_BOTH(&h, "CF.MEXISTS k a z", "[:1 :0]", "[#t #f]");
    FAKE_BOTH(&h, "CF.COUNT k a", ":2", ":2");
    FAKE_BOTH(
        &h, "CF.INFO k",
        "[+Size :2240 +Number of buckets :60 +Number of filters :1 +Number of items "
        "inserted :3 +Number of items deleted :1 +Bucket size :4 +Expansion rate :2 "
        "+Max iterations :7]",
        "{+Size :2240 +Number of buckets :60 +Number of filters :1 +Number of items "
        "inserted :3 +Number of items deleted :1 +Bucket size :4 +Expansion rate :2 "
        "+Max iterations :7}");
    fake_end(&h);
}

TEST(cf__wrong_types)
{
#define WRONG "-WRONGTYPE Operation against a key holding the wrong kind of value"
    static const struct fake_line lines[] = {
        { "BF.ADD b a", ":1" },
        { "CF.ADD b a", WRONG },
        { "CF.ADDNX b a", WRONG },
        { "CF.EXISTS b a", WRONG },
        { "CF.MEXISTS b a", WRONG },
        { "CF.COUNT b a", WRONG },
        { "CF.DEL b a", WRONG },
        { "CF.INFO b", WRONG },
        { "CF.COMPACT b", WRONG },
        { "CF.INSERT b ITEMS a", WRONG },
        { "CF.DEBUG b", WRONG },
        { "CF.SCANDUMP b 0", WRONG },
        { "CF.ADD c a", ":1" },
        { "BF.ADD c a", WRONG },
        { "BF.EXISTS c a", WRONG },
        { "BF.MEXISTS c a", WRONG },
        { "BF.CARD c", WRONG },
        { "BF.INFO c", WRONG },
        { "CF.RESERVE b 100", "-ERR item exists" },
    };
    struct fake h;
    fake_begin(&h);
    FAKE_SCRIPT(&h, lines);
    const bg_bytes items[] = { { "a", 1 }, { "b", 1 } };
    CHECK_STR(fake_pipeline(&h, "CF.EXISTS", "b", items, 2), WRONG " " WRONG);
    CHECK_STR(fake_pipeline(&h, "CF.ADD", "b", items, 2), WRONG " " WRONG);
    CHECK_STR(fake_pipeline(&h, "CF.EXISTS", "none", items, 2), ":0 :0");
    CHECK_STR(fake_pipeline(&h, "CF.ADD", "none", items, 2), ":1 :1");
    CHECK_STR(fake_pipeline(&h, "CF.EXISTS", "none", items, 2), ":1 :1");
    fake_end(&h);
}

/* Whether the last add of each numbered item was refused. */
static bool was_refused[1200000];

/* Adds numbered items in pipelines. Returns the number of refused items. */
static size_t add_numbered(struct fake *h, const char *name, size_t from, size_t to)
{
    enum { BATCH = 1000, DIGITS = 24 };
    static char text[BATCH][DIGITS];
    bg_bytes items[BATCH];
    size_t refused = 0;
    while (from < to) {
        size_t n = 0;
        const size_t first = from;
        for (; n < BATCH && from < to; n++, from++) {
            items[n] = (bg_bytes){ text[n], (size_t)snprintf(text[n], DIGITS,
                                                             "item-%zu", from) };
        }
        (void)fake_pipeline(h, "CF.ADD", name, items, n);
        for (size_t i = 0; i < n; i++) {
            was_refused[first + i] = h->items[i].type == '-';
            refused += was_refused[first + i];
        }
    }
    return refused;
}

static size_t found_numbered(struct fake *h, const char *name, size_t from, size_t to)
{
    char key[24];
    size_t found = 0;
    const struct object *object = fake_find(&h->host, (bg_bytes){ name, strlen(name) });
    for (size_t i = from; i < to; i++) {
        uint64_t maybe = 0;
        const bg_bytes item = { key, (size_t)snprintf(key, sizeof key, "item-%zu", i) };
        found += object_may_contain_many(object, &item, 1, &maybe);
    }
    return found;
}

TEST(cf__grows_far_beyond_its_capacity)
{
    enum { N = 200000 };
    struct fake h;
    fake_begin(&h);
    h.no_keys = true;
    CHECK_STR(fake(&h, "CF.RESERVE k 100"), "+OK");
    CHECK_EQ(add_numbered(&h, "k", 0, N), 0);
    CHECK_EQ(found_numbered(&h, "k", 0, N), N);
    /* growth does not shorten fingerprints, so there are almost no false positives */
    CHECK(found_numbered(&h, "k", N, 2 * N) <= 5);
    const struct object *object = h.entries[0].object;
    CHECK_EQ(atomic_load(&object->expansions), 10);
    CHECK(object_capacity(object) >= N && object_capacity(object) < 3 * N);
    /* deletes half of the items; no other item is lost */
    for (size_t i = 0; i < N / 2; i++) {
        char line[40];
        (void)snprintf(line, sizeof line, "CF.DEL k item-%zu", i);
        CHECK_STR(fake(&h, line), ":1");
    }
    CHECK_EQ(found_numbered(&h, "k", N / 2, N), N / 2);
    CHECK(found_numbered(&h, "k", 0, N / 2) <= 5);
    fake_end(&h);
}

/* object_will_stall returns true before any add that doubles a large filter, and rarely returns
 * true unnecessarily. */
TEST(cf__tells_before_it_doubles)
{
    enum { FEW = 1000, N = 1200000 };
    struct fake h;
    fake_begin(&h);
    h.no_keys = true;
    CHECK_STR(fake(&h, "CF.RESERVE k 100000"), "+OK");
    const struct object *object = h.entries[0].object;
    size_t told = 0, doubled = 0;
    for (size_t i = 0; i < N; i += FEW) {
        const uint64_t before = atomic_load(&object->expansions);
        const bool will = object_will_stall(object, FEW, &h.host);
        const bool large = object_bytes(object) >= 1 << 20;
        CHECK_EQ(add_numbered(&h, "k", i, i + FEW), 0);
        const bool did = atomic_load(&object->expansions) > before;
        CHECK(!did || !large || will);
        CHECK(!will || large);
        told += will;
        doubled += did && large;
    }
    CHECK_EQ(doubled, 2);
    CHECK(told * FEW < N / 20);
    fake_end(&h);
}

TEST(cf__replays_growth)
{
    struct fake h;
    fake_begin(&h);
    CHECK_STR(fake(&h, "CF.RESERVE k 100 ERROR 0.0001"), "+OK");
    CHECK_EQ(add_numbered(&h, "k", 0, 1000), 0);
    fake_replay(&h);
    CHECK_STR(fake(&h, "CF.DEL k item-7"), ":1");
    CHECK_STR(fake(&h, "CF.COMPACT k"), "+OK");
    fake_end(&h);
}

TEST(cf__keeps_the_rate_that_was_asked_for)
{
    static const struct {
        const char *command;
        size_t capacity;
        double rate;
    } cases[] = { { "CF.RESERVE k 5000 ERROR 0.01", 5000, 0.01 },
                  { "CF.RESERVE k 5000 ERROR 0.1", 5000, 0.1 },
                  { "CF.RESERVE k 60000 ERROR 0.0001", 60000, 0.0001 } };
    enum { ASKED = 200000 };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct fake h;
        fake_begin(&h);
        h.no_keys = true;
        CHECK_STR(fake(&h, cases[c].command), "+OK");
        CHECK_EQ(add_numbered(&h, "k", 0, cases[c].capacity), 0);
        CHECK_EQ(found_numbered(&h, "k", 0, cases[c].capacity), cases[c].capacity);
        const size_t wrong = found_numbered(&h, "k", 1000000, 1000000 + ASKED);
        CHECK((double)wrong <= 1.3 * cases[c].rate * ASKED + 10);
        /* the filter grows until its false-positive rate would be too high, and is then reported as
         * full */
        const double most = cases[c].rate > 0.03 ? cases[c].rate : 0.03;
        const size_t refused = add_numbered(&h, "k", cases[c].capacity, 300000);
        for (size_t i = cases[c].capacity; i < 300000; i++) {
            CHECK(was_refused[i] || found_numbered(&h, "k", i, i + 1) == 1);
        }
        const size_t later = found_numbered(&h, "k", 1000000, 1000000 + ASKED);
        CHECK((double)later <= 1.3 * most * ASKED);
        CHECK_EQ(refused > 0, c < 2);
        if (refused) {
            CHECK_STR(fake(&h, "CF.ADD k more"), "-ERR Maximum expansions reached");
            CHECK_STR(fake(&h, "CF.ADDNX k another"),
                      "-ERR Maximum expansions reached");
            CHECK_STR(fake(&h, "CF.INSERT k ITEMS more"), "[:-1]");
            CHECK_STR(fake(&h, "CF.INSERTNX k ITEMS another item-1"), "[:-1 :0]");
            h.protocol = 3;
            CHECK_STR(fake(&h, "CF.INSERT k ITEMS more"), "[#f]");
            CHECK_STR(fake(&h, "CF.INSERTNX k ITEMS another"), "[:-1]");
        }
        fake_end(&h);
    }
}

TEST(cf__bounds_of_growth)
{
    struct fake h;
    fake_begin(&h);
    h.no_keys = true;
    CHECK_STR(fake(&h, "CF.RESERVE k 100 EXPANSION 0"), "+OK");
    CHECK(add_numbered(&h, "k", 0, 1000) > 700);
    CHECK_STR(fake(&h, "CF.ADD k more"), "-ERR Filter is full");
    h.settings.cf_max_expansions = 2;
    CHECK_STR(fake(&h, "CF.RESERVE l 100"), "+OK");
    CHECK(add_numbered(&h, "l", 0, 3000) > 2000 - 70);
    CHECK_STR(fake(&h, "CF.ADD l more"), "-ERR Maximum expansions reached");
    h.settings.cf_max_expansions = 32;
    h.settings.max_filter_bytes = 100000;
    CHECK_STR(fake(&h, "CF.RESERVE m 100"), "+OK");
    CHECK(add_numbered(&h, "m", 0, 100000) > 50000);
    CHECK_STR(
        fake(&h, "CF.ADD m more"),
        "-ERR Insufficient memory: the filter is full and cannot grow: doubling it would "
        "exceed the limit of 100000 bytes");
    CHECK(strncmp(fake(&h, "CF.RESERVE n 10000000"), "-ERR Insufficient memory", 24)
          == 0);
    h.settings.max_filter_bytes = 0;
    fake_end(&h);
}

TEST(cf__copies_take_no_room)
{
    enum { COPIES = 100000 };
    struct fake h;
    fake_begin(&h);
    CHECK_STR(fake(&h, "CF.RESERVE k 1000"), "+OK");
    const uint64_t before = object_bytes(h.entries[0].object);
    bg_bytes items[1000];
    for (size_t i = 0; i < 1000; i++) {
        items[i] = (bg_bytes){ "one", 3 };
    }
    h.no_keys = true;
    for (size_t i = 0; i < COPIES / 1000; i++) {
        (void)fake_pipeline(&h, "CF.ADD", "k", items, 1000);
    }
    CHECK_EQ(object_bytes(h.entries[0].object), before);
    CHECK_STR(fake(&h, "CF.COUNT k one"), ":100000");
    CHECK_STR(fake(&h, "CF.DEL k one"), ":1");
    CHECK_STR(fake(&h, "CF.COUNT k one"), ":99999");
    CHECK_EQ(add_numbered(&h, "k", 0, 900), 0);
    CHECK_EQ(found_numbered(&h, "k", 0, 900), 900);
    fake_end(&h);
}

TEST(cf__compacts)
{
    struct fake h;
    char line[40];
    fake_begin(&h);
    h.no_keys = true;
    CHECK_STR(fake(&h, "CF.RESERVE k 100"), "+OK");
    const uint64_t smallest = object_bytes(h.entries[0].object);
    CHECK_EQ(add_numbered(&h, "k", 0, 5000), 0);
    const uint64_t largest = object_bytes(h.entries[0].object);
    CHECK_STR(fake(&h, "CF.COMPACT k"), "+OK"); /* nothing to free */
    CHECK_EQ(object_bytes(h.entries[0].object), largest);
    CHECK_EQ(h.checkpoints, 0);
    for (size_t i = 100; i < 5000; i++) {
        (void)snprintf(line, sizeof line, "CF.DEL k item-%zu", i);
        CHECK_STR(fake(&h, line), ":1");
    }
    CHECK_STR(fake(&h, "CF.COMPACT k"), "+OK");
    CHECK_EQ(h.checkpoints, 1); /* the compacted filter is saved */
    CHECK_EQ(object_bytes(h.entries[0].object), smallest);
    CHECK_EQ(found_numbered(&h, "k", 0, 100), 100);
    CHECK_EQ(add_numbered(&h, "k", 5000, 9000), 0); /* the filter grows again */
    CHECK_EQ(found_numbered(&h, "k", 5000, 9000), 4000);
    h.checkpoint_fails = BG_EIO;
    for (size_t i = 5000; i < 9000; i++) {
        (void)snprintf(line, sizeof line, "CF.DEL k item-%zu", i);
        CHECK_STR(fake(&h, line), ":1");
    }
    CHECK_STR(fake(&h, "CF.COMPACT k"), "-MISCONF checkpoint: simulated failure");
    CHECK_EQ(found_numbered(&h, "k", 0, 100), 100);
    /* do not replay, because the journal does not contain the compacted filter */
    h.forget = true;
    fake_end(&h);
}

TEST(cf__nothing_happens_that_is_not_recorded)
{
    struct fake h;
    fake_begin(&h);
    CHECK_STR(fake(&h, "CF.ADD k a"), ":1");
    h.record_fails = BG_EIO;
    CHECK_STR(fake(&h, "CF.ADD k b"), "-MISCONF record: simulated failure");
    CHECK_STR(fake(&h, "CF.ADDNX k b"), "-MISCONF record: simulated failure");
    CHECK_STR(fake(&h, "CF.INSERT k ITEMS b c"), "-MISCONF record: simulated failure");
    CHECK_STR(fake(&h, "CF.DEL k a"), "-MISCONF record: simulated failure");
    h.record_fails = BG_EQUOTA;
    CHECK_STR(fake(&h, "CF.ADD k b"), "-LIMIT record: simulated failure");
    h.record_fails = BG_OK;
    CHECK_STR(fake(&h, "CF.MEXISTS k a b c"), "[:1 :0 :0]");
    const size_t before = h.recorded;
    CHECK_STR(fake(&h, "CF.DEL k nobody"), ":0"); /* a change without effect */
    CHECK_STR(fake(&h, "CF.ADDNX k a"), ":0");
    CHECK_EQ(h.recorded, before);
    h.create_fails = BG_EQUOTA;
    CHECK_STR(fake(&h, "CF.ADD new a"), "-LIMIT create: simulated failure");
    CHECK_STR(fake(&h, "CF.RESERVE new 100"), "-LIMIT create: simulated failure");
    fake_end(&h);
}

/* Compares adds, deletes and counts with an exact model. */
TEST(cf__agrees_with_a_model)
{
    enum { KEYS = 200, STEPS = 20000 };
    unsigned counts[KEYS] = { 0 };
    struct fake h;
    char line[64];
    fake_begin(&h);
    CHECK_STR(fake(&h, "CF.RESERVE k 16"), "+OK");
    h.no_keys = true;
    for (int i = 0; i < STEPS; i++) {
        const size_t key = check_random_below(KEYS);
        const bool adds = check_random_below(10) < 6;
        const bool only_new = check_random_below(4) == 0;
        if (adds) {
            (void)snprintf(line, sizeof line, "%s k key-%zu",
                           only_new ? "CF.ADDNX" : "CF.ADD", key);
            CHECK_STR(fake(&h, line), only_new && counts[key] ? ":0" : ":1");
            counts[key] += !only_new || counts[key] == 0;
        } else {
            (void)snprintf(line, sizeof line, "CF.DEL k key-%zu", key);
            CHECK_STR(fake(&h, line), counts[key] ? ":1" : ":0");
            counts[key] -= counts[key] > 0;
        }
    }
    h.no_keys = false;
    for (size_t key = 0; key < KEYS; key++) {
        char expected[24];
        (void)snprintf(line, sizeof line, "CF.COUNT k key-%zu", key);
        (void)snprintf(expected, sizeof expected, ":%u", counts[key]);
        CHECK_STR(fake(&h, line), expected);
    }
    fake_end(&h);
}
