/* Tests the BF.* commands: arguments, replies and error messages in both protocols, growth, and
 * journal records. */
#include "server/support/fake_host.h"

#include "ledger.h"
#include "support/scratch.h"

TEST(bf__words_and_replies)
{
    static const struct fake_line lines[] = {
        { "BF.RESERVE k 0.01 100", "+OK" },
        { "BF.RESERVE k 0.01 100", "-ERR item exists" },
        { "BF.RESERVE x abc 100", "-ERR bad error rate" },
        { "BF.RESERVE x nan 100", "-ERR bad error rate" },
        { "BF.RESERVE x 0x1 100", "-ERR bad error rate" },
        { "BF.RESERVE x 0 100",
          "-ERR error rate must be in the range (0.000000, 1.000000)" },
        { "BF.RESERVE x 1 100",
          "-ERR error rate must be in the range (0.000000, 1.000000)" },
        { "BF.RESERVE x -0.5 100",
          "-ERR error rate must be in the range (0.000000, 1.000000)" },
        { "BF.RESERVE x 0.01 abc", "-ERR bad capacity" },
        { "BF.RESERVE x 0.01 -1", "-ERR bad capacity" },
        { "BF.RESERVE x 0.01 1.5", "-ERR bad capacity" },
        { "BF.RESERVE x 0.01 1kk", "-ERR bad capacity" },
        { "BF.RESERVE x 1%% 100", "-ERR bad error rate" },
        { "BF.RESERVE x 1/0 100", "-ERR bad error rate" },
        { "BF.RESERVE x 100% 100",
          "-ERR error rate must be in the range (0.000000, 1.000000)" },
        { "BF.RESERVE x 0.01 18446744073709551616", "-ERR bad capacity" },
        { "BF.RESERVE x 0.01 0",
          "-ERR capacity must be in the range [1, 72057594037927936]" },
        { "BF.RESERVE x 0.01 72057594037927937",
          "-ERR capacity must be in the range [1, 72057594037927936]" },
        { "BF.RESERVE x 0.01 10 EXPANSION", "-ERR no expansion" },
        { "BF.RESERVE x 0.01 10 EXPANSION a", "-ERR bad expansion" },
        { "BF.RESERVE x 0.01 10 EXPANSION 32769",
          "-ERR expansion must be in the range [0, 32768]" },
        { "BF.RESERVE x 0.01 10 EXPANSION 2 NONSCALING",
          "-ERR Nonscaling filters cannot expand" },
        { "BF.RESERVE x 0.01 10 FOO", "-ERR Unknown argument received" },
        { "BF.RESERVE x 0.01 10 NOCREATE", "-ERR Unknown argument received" },
        { "BF.RESERVE x 0.01",
          "-ERR wrong number of arguments for 'bf.reserve' command" },
        { "BF.RESERVE half 0.5 10 EXPANSION 4", "+OK" },
        { "bf.add k a", ":1" },
        { "BF.ADD k a", ":0" },
        { "BF.ADD new a", ":1" },
        { "BF.EXISTS k a", ":1" },
        { "BF.EXISTS k b", ":0" },
        { "BF.EXISTS none a", ":0" },
        { "BF.MADD k a b b c", "[:0 :1 :0 :1]" },
        { "BF.MADD made x y", "[:1 :1]" },
        { "BF.MEXISTS k a b z", "[:1 :1 :0]" },
        { "BF.MEXISTS none a b", "[:0 :0]" },
        { "BF.CARD k", ":3" },
        { "BF.CARD none", ":0" },
        { "BF.INFO none", "-ERR not found" },
        { "BF.INFO k nothing", "-ERR Invalid information value" },
        { "BF.INFO k CAPACITY SIZE", "-ERR Invalid information value" },
        { "BF.INFO k items", "[:3]" },
        { "BF.DEBUG none", "-ERR not found" },
    };
    struct fake h;
    fake_begin(&h);
    FAKE_SCRIPT(&h, lines);
    fake_end(&h);
}

TEST(bf__insert)
{
    static const struct fake_line lines[] = {
        { "BF.INSERT none NOCREATE ITEMS a", "-ERR not found" },
        { "BF.INSERT i CAPACITY 1000 ERROR 0.001 EXPANSION 4 ITEMS a b a",
          "[:1 :1 :0]" },
        { "BF.INSERT i ERROR x ITEMS a", "-ERR bad error rate" },
        { "BF.INSERT i CAPACITY x ITEMS a", "-ERR bad capacity" },
        { "BF.INSERT i EXPANSION x ITEMS a", "-ERR bad expansion" },
        { "BF.INSERT i EXPANSION 2 NONSCALING ITEMS a",
          "-ERR Nonscaling filters cannot expand" },
        { "BF.INSERT i Cxx 1 ITEMS a", "-ERR Unknown argument received" },
        { "BF.INSERT i NOCREATE", "[]" },
        { "BF.INSERT none NOCREATE", "-ERR not found" },
        { "BF.INSERT empty CAPACITY 77", "[]" },
        { "BF.INFO empty CAPACITY", "[:77]" },
        { "BF.INFO i ERROR", "[$0.001]" },
        { "BF.INSERT seeded CAPACITY 100 ERROR 0.4 TIGHTENING 0.5 SEED "
          "0123456789abcdef0123456789abcdef EXPANSION 100000 ITEMS a b a",
          "[:1 :1 :0]" },
        { "BF.INFO seeded",
          "[+Capacity :100 +Size :24 +Number of filters :1 +Number of items inserted :2 +Expansion rate :100000]" },
        { "BF.INFO seeded ERROR", "[$0.4]" },
        { "BF.INSERT i SEED 0123456789abcdef", "-ERR invalid seed" },
        { "BF.INSERT i TIGHTENING 1", "-ERR (0 < tightening ratio range < 1)" },
        { "BF.INSERT i TIGHTENING x", "-ERR bad tightening ratio" },
        { "BF.INSERT i EXPANSION 40000",
          "-ERR expansion must be in the range [0, 32768]" },
        { "BF.INSERT i VALIDATESCALETO 1000 NONSCALING",
          "-ERR cannot use NONSCALING and VALIDATESCALETO options together" },
        { "BF.INSERT i NOCREATE ITEMS",
          "-ERR wrong number of arguments for 'bf.insert' command" },
        { "BF.INSERT i CAPACITY",
          "-ERR wrong number of arguments for 'bf.insert' command" },
    };
    struct fake h;
    fake_begin(&h);
    FAKE_SCRIPT(&h, lines);
    fake_end(&h);
}

/* Memory can run out while a command is running. In this case, an add that needs memory is refused,
 * but lookups and adds of existing items still succeed. */
TEST(bf__memory_that_is_used_up_within_a_command)
{
    struct fake h;
    fake_begin(&h);
    CHECK_STR(fake(&h, "BF.ADD k a"), ":1");
    ledger_limit(1 << 20);
    ledger_add(LEDGER_FILTERS, 1 << 20);
    const char *refused = fake(&h, "BF.ADD k b");
    CHECK(strncmp(refused, "-OOM cannot allocate ", 21) == 0);
    CHECK_STR(fake(&h, "BF.ADD k a"), ":0");
    CHECK_STR(fake(&h, "BF.EXISTS k b"), ":0");
    ledger_release(LEDGER_FILTERS, 1 << 20);
    ledger_limit(0);
    CHECK_STR(fake(&h, "BF.ADD k b"), ":1");
    fake_end(&h);
}

TEST(bf__resp3)
{
    struct fake h;
    fake_begin(&h);
    CHECK_STR(fake(&h, "BF.RESERVE k 0.01 100"), "+OK");
    h.protocol = 3;
    CHECK_STR(fake(&h, "BF.ADD k a"), "#t");
    CHECK_STR(fake(&h, "BF.ADD k a"), "#f");
    CHECK_STR(fake(&h, "BF.MADD k a b"), "[#f #t]");
    CHECK_STR(fake(&h, "BF.INSERT k ITEMS a c"), "[#f #t]");
    FAKE_BOTH(&h, "BF.EXISTS k a", ":1", "#t");
    FAKE_BOTH(&h, "BF.MEXISTS k a z", "[:1 :0]", "[#t #f]");
    FAKE_BOTH(&h, "BF.CARD k", ":3", ":3");
    FAKE_BOTH(&h, "BF.INFO k ITEMS", "[:3]", "{+Number of items inserted :3}");
    FAKE_BOTH(&h, "BF.INFO k Capacity", "[:100]", "{+Capacity :100}");
    FAKE_BOTH(
        &h, "BF.INFO k",
        "[+Capacity :100 +Size :2048 +Number of filters :1 +Number of items inserted :3 "
        "+Expansion rate :2]",
        "{+Capacity :100 +Size :2048 +Number of filters :1 +Number of items inserted :3 "
        "+Expansion rate :2}");
    CHECK_STR(fake(&h, "BF.RESERVE n 0.01 100 NONSCALING"), "+OK");
    FAKE_BOTH(&h, "BF.INFO n EXPANSION", "[_]", "{+Expansion rate _}");
    FAKE_BOTH(&h, "BF.DEBUG n",
              "[$size:0 $bytes:128 bits:1024 kind:blocked layers:1 capacity:100 size:0 "
              "ratio:0.01]",
              "[$size:0 $bytes:128 bits:1024 kind:blocked layers:1 capacity:100 size:0 "
              "ratio:0.01]");
    fake_end(&h);
}

TEST(bf__full)
{
    struct fake h;
    fake_begin(&h);
    CHECK_STR(fake(&h, "BF.RESERVE k 0.001 3 NONSCALING"), "+OK");
    CHECK_STR(fake(&h, "BF.MADD k a b c d e"),
              "[:1 :1 :1 -ERR non scaling filter is full]");
    CHECK_STR(fake(&h, "BF.ADD k d"), "-ERR non scaling filter is full");
    CHECK_STR(fake(&h, "BF.MADD k a d"), "[:0 -ERR non scaling filter is full]");
    CHECK_STR(fake(&h, "BF.MADD k d"), "[-ERR non scaling filter is full]");
    CHECK_STR(fake(&h, "BF.ADD k a"), ":0");
    CHECK_STR(fake(&h, "BF.INSERT l NONSCALING CAPACITY 2 ERROR 0.001 ITEMS a b c"),
              "[:1 :1 -ERR non scaling filter is full]");
    CHECK_STR(fake(&h, "BF.RESERVE z 0.001 2 EXPANSION 0"), "+OK");
    const bg_bytes items[] = {
        { "a", 1 }, { "b", 1 }, { "c", 1 }, { "a", 1 }, { "d", 1 }
    };
    CHECK_STR(
        fake_pipeline(&h, "BF.ADD", "z", items, 5),
        ":1 :1 -ERR non scaling filter is full :0 -ERR non scaling filter is full");
    fake_end(&h);
}

TEST(bf__grows)
{
    enum { N = 20000 };
    struct fake h;
    char line[40];
    fake_begin(&h);
    CHECK_STR(fake(&h, "BF.RESERVE k 0.01 100"), "+OK");
    for (size_t i = 0; i < N; i++) {
        (void)snprintf(line, sizeof line, "BF.ADD k key-%zu", i);
        (void)fake(&h, line);
    }
    size_t wrong = 0;
    for (size_t i = 0; i < N; i++) {
        (void)snprintf(line, sizeof line, "BF.EXISTS k key-%zu", i);
        CHECK_STR(fake(&h, line), ":1");
        (void)snprintf(line, sizeof line, "BF.EXISTS k absent-%zu", i);
        wrong += strcmp(fake(&h, line), ":1") == 0;
    }
    /* the requested rate of 1% applies to all layers together */
    CHECK(wrong <= N / 100 + N / 200);
    CHECK(object_layers(h.entries[0].object) > 3);
    fake_end(&h);
}

TEST(bf__records_only_what_changes)
{
    struct fake h;
    fake_begin(&h);
    CHECK_STR(fake(&h, "BF.RESERVE k 0.001 100 NONSCALING"), "+OK");
    CHECK_STR(fake(&h, "BF.MADD k a b c"), "[:1 :1 :1]");
    const size_t before = h.recorded;
    CHECK_STR(fake(&h, "BF.MADD k a b c"), "[:0 :0 :0]");
    CHECK_EQ(h.recorded, before);
    CHECK_STR(fake(&h, "BF.MADD k a d"), "[:0 :1]");
    CHECK_EQ(h.recorded, before + 1);
    h.record_fails = BG_EIO;
    CHECK_STR(fake(&h, "BF.ADD k e"), "-MISCONF record: simulated failure");
    CHECK_STR(fake(&h, "BF.MADD k e f"), "-MISCONF record: simulated failure");
    CHECK_STR(fake(&h, "BF.MADD k a b"), "[:0 :0]"); /* nothing to record */
    CHECK_STR(fake(&h, "BF.MEXISTS k e f"), "[:0 :0]");
    h.record_fails = BG_OK;
    h.create_fails = BG_EQUOTA;
    CHECK_STR(fake(&h, "BF.ADD other a"), "-LIMIT create: simulated failure");
    CHECK_STR(fake(&h, "BF.RESERVE other 0.1 10"), "-LIMIT create: simulated failure");
    fake_end(&h);
}

TEST(bf__limits_memory)
{
    struct fake h;
    fake_begin(&h);
    h.settings.max_filter_bytes = 10000;
    CHECK_STR(fake(&h, "BF.RESERVE k 0.01 1000000"),
              "-ERR Insufficient memory to create filter");
    CHECK_STR(fake(&h, "BF.RESERVE k 0.01 72057594037927936"),
              "-ERR Insufficient memory to create filter");
    CHECK_STR(fake(&h, "BF.RESERVE k 0.01 1000"), "+OK");
    fake_end(&h);
}

TEST(bf__items_of_any_bytes)
{
    struct fake h;
    char large[5000];
    memset(large, 'x', sizeof large);
    const bg_bytes items[] = {
        { "", 0 }, { "\0\n\r", 3 }, { "\xff\xfe", 2 }, { large, 5000 }
    };
    fake_begin(&h);
    CHECK_STR(fake_pipeline(&h, "BF.ADD", "k", items, 4), ":1 :1 :1 :1");
    CHECK_STR(fake_pipeline(&h, "BF.EXISTS", "k", items, 4), ":1 :1 :1 :1");
    const bg_bytes others[] = {
        { "\0", 1 }, { "\0\n", 2 }, { "\xff", 1 }, { large, 4999 }
    };
    CHECK_STR(fake_pipeline(&h, "BF.EXISTS", "k", others, 4), ":0 :0 :0 :0");
    fake_end(&h);
}

TEST(bf__keyed)
{
    struct fake h;
    bg_keyring *ring = NULL;
    const char *path = scratch_path("ring");
    CHECK_OK(bg_keyring_append(path, "first", NULL));
    CHECK_OK(bg_keyring_open(path, &ring, NULL));
    fake_begin(&h);
    h.settings.hash = BG_HASH_KEYED;
    CHECK_STR(fake(&h, "BF.ADD k a"),
              "-ERR hash keyed requires a secret, but no keyring is configured: set "
              "keyring, or use hash fast");
    h.settings.keyring = ring;
    CHECK_STR(fake(&h, "BF.ADD k a"), ":1");
    CHECK_STR(fake(&h, "CF.ADD c a"), ":1");
    CHECK_EQ(h.entries[0].object->shape.hash, BG_HASH_KEYED);
    CHECK_STR((const char *)h.entries[0].object->shape.key_id, "first");
    fake_end(&h);
    bg_keyring_free(ring);
}

/* Creates a keyring with one secret. */
static bg_keyring *ring_with(const char *file, const char *name, uint8_t first)
{
    bg_keyring *ring = NULL;
    uint8_t secret[BG_SECRET_BYTES] = { first, 0xab };
    const char *path = scratch_path(file);
    (void)unlink(path);
    CHECK_OK(bg_keyring_import(path, name, secret, NULL));
    CHECK_OK(bg_keyring_open(path, &ring, NULL));
    return ring;
}

/* BG.SECRET returns the secret that the filter was created with, or an error, and never another
 * secret under the same key ID. */
TEST(bg__secret)
{
    struct fake h;
    bg_keyring *first = NULL, *other = ring_with("other", "first", 7);
    const char *path = scratch_path("first");
    const uint8_t secret[BG_SECRET_BYTES] = { 1, 0xab };
    (void)unlink(path);
    CHECK_OK(bg_keyring_append(path, "now", NULL));
    CHECK_OK(bg_keyring_import(path, "first", secret, NULL));
    CHECK_OK(bg_keyring_open(path, &first, NULL));
    fake_begin(&h);
    CHECK_STR(fake(&h, "BF.ADD open a"), ":1");
    h.settings.hash = BG_HASH_KEYED;
    h.settings.keyring = first;
    CHECK_STR(fake(&h, "BF.ADD k a"), ":1");
    CHECK_STR(fake(&h, "BG.SECRET none"), "-NOFILTER no such filter 'none'");
    CHECK_STR(fake(&h, "BG.SECRET open"),
              "-ERR filter 'open' has no secret, because its hash is not keyed");
    CHECK_EQ(h.disclosed, 0);
    const char *reply = fake(&h, "BG.SECRET k");
    CHECK(strncmp(reply, "[$now $", 7) == 0 && strlen(reply) == 7 + 32 + 1);
    CHECK_EQ(h.disclosed, 1);
    const size_t recorded = h.recorded;

    h.settings.keyring = other;
    CHECK(strstr(fake(&h, "BG.SECRET k"), "no secret in the keyring has"));
    memcpy(h.entries[1].object->shape.key_id, "first", sizeof "first");
    CHECK(strstr(fake(&h, "BG.SECRET k"), "belongs to a different secret"));
    h.settings.keyring = NULL;
    CHECK(strstr(fake(&h, "BG.SECRET k"), "no keyring is configured"));
    memcpy(h.entries[1].object->shape.key_id, "now\0\0", sizeof "first");
    CHECK_EQ(h.disclosed, 1);
    CHECK_EQ(h.recorded, recorded);
    h.settings.keyring = first;
    fake_end(&h);
    bg_keyring_free(first);
    bg_keyring_free(other);
}

TEST(shape__reads_what_it_wrote)
{
    const struct object_shape full = {
        .family = OBJECT_CF,
        .kind = BG_KIND_PARTITIONED,
        .items = UINT64_MAX,
        .rate = 1.2345678901234567e-300,
        .bits_per_key = 1023.9999999999999,
        .bytes = UINT64_MAX,
        .k = UINT32_MAX,
        .folds = UINT32_MAX,
        .flags = UINT32_MAX,
        .width = UINT32_MAX,
        .shards = UINT32_MAX,
        .hash = BG_HASH_KEYED_INT,
        .seed = UINT64_MAX,
        .key_id = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 },
        .expansion = UINT32_MAX,
        .nonscaling = 1,
        .bucket_size = 65535,
        .max_iterations = 65535,
        .max_expansions = 65536,
        .window_mode = UINT32_MAX,
        .window_generations = 64,
        .window_length = UINT64_MAX,
        .window_count = UINT64_MAX,
        .sealed = 1,
        .imported = 1,
        .foreign = UINT32_MAX,
        .limit = UINT64_MAX,
        .check = UINT64_MAX,
        .generation = UINT64_MAX,
    };
    char text[OBJECT_SHAPE_TEXT];
    struct object_shape again;
    const size_t n = object_shape_write(&full, text);
    CHECK_EQ(strlen(text), n);
    CHECK(n < OBJECT_SHAPE_TEXT - 1); /* the longest possible */
    CHECK_OK(object_shape_read(text, n, &again, NULL));
    char text_again[OBJECT_SHAPE_TEXT];
    (void)object_shape_write(&again, text_again);
    CHECK_STR(text_again, text);
    CHECK(again.rate >= full.rate && again.rate <= full.rate);
    static const char *const wrong[] = { "",
                                         "family=xx",
                                         "family=bf kind=x",
                                         "family=bf k=-1",
                                         "family=bf foo=1",
                                         "family=bf  k=1",
                                         "kind=blocked",
                                         "family=bf k=4294967296",
                                         "family=bf rate=nan",
                                         "family=bf key_id=0",
                                         "family=bf k",
                                         "family=bf nonscaling=2",
                                         "family=bg window_generations=65",
                                         "family=cf max_expansions=65537",
                                         "family=bf rate=1x" };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        bg_errinfo info = { 0 };
        CHECK_EQ(object_shape_read(wrong[i], strlen(wrong[i]), &again, &info),
                 BG_EFORMAT);
        CHECK(info.message[0]);
    }
}

/* A filter that cannot grow any further refuses items instead of exceeding its false-positive
 * rate. */
TEST(bf__a_scalable_filter_stops_at_its_limit)
{
    struct fake h;
    char command[64];
    size_t taken = 0;
    fake_begin(&h);
    h.settings.max_filter_bytes = 20000;
    CHECK_STR(fake(&h, "BF.RESERVE k 0.01 1000"), "+OK");
    bool refused = false;
    for (; !refused && taken < 100000; taken += !refused) {
        (void)snprintf(command, sizeof command, "BF.ADD k item%zu", taken);
        refused = strncmp(fake(&h, command), "-ERR Insufficient memory", 24) == 0;
    }
    CHECK(refused);
    CHECK(taken > 5000 && taken < 20000);
    CHECK_STR(fake(&h, "BF.ADD k item0"), ":0"); /* the item already exists */
    CHECK_STR(fake(&h, "BF.EXISTS k item1"), ":1");
    fake_replay(&h);
    h.settings.max_filter_bytes = 1 << 20; /* allows the filter to accept items again */
    /* do not replay, because a replay would use the new limit from the start */
    h.forget = true;
    CHECK(strncmp(fake(&h, "BF.ADD k other"), "-", 1) != 0);
    fake_end(&h);
}
