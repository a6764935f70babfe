/*
 * Tests dumping and loading filters in chunks. A dumped filter can be loaded again if all chunks
 * arrive in order and pass verification. Any other data is refused with the error messages that
 * clients expect. During a load, the filter never reports a key as absent.
 */
#include "server/support/fake_host.h"

#include "bytes.h"
#include "dump_stream.h"
#include "ledger.h"
#include "support/filters.h"

/* ---- Helpers ---------------------------------------------------------------------------------- */

struct piece {
    uint64_t iterator;
    void *bytes;
    size_t n;
};

struct pieces {
    struct piece of[64];
    size_t count;
};

static void pieces_free(struct pieces *pieces)
{
    for (size_t i = 0; i < pieces->count; i++) {
        free(pieces->of[i].bytes);
    }
    pieces->count = 0;
}

/* Dumps a filter with SCANDUMP into pairs of an iterator and data, which LOADCHUNK accepts. */
static void scan(struct fake *h, const char *command, const char *name,
                 struct pieces *to)
{
    uint64_t iterator = 0;
    char line[64];
    to->count = 0;
    do {
        (void)snprintf(line, sizeof line, "%s %s %llu", command, name,
                       (unsigned long long)iterator);
        (void)fake(h, line);
        CHECK_EQ(h->items_count, 3);
        CHECK_EQ(h->items[1].type, ':');
        iterator = (uint64_t)h->items[1].integer;
        if (iterator) {
            CHECK(to->count < 64);
            to->of[to->count++] =
                (struct piece){ iterator, fake_copy(h->items[2].bytes, h->items[2].n),
                                h->items[2].n };
        } else {
            CHECK_EQ(h->items[2].n, 0);
        }
    } while (iterator);
}

static const char *load(struct fake *h, const char *command, const char *name,
                        const struct piece *piece)
{
    char text[32];
    const bg_bytes argv[] = {
        { command, strlen(command) },
        { name, strlen(name) },
        { text, (size_t)snprintf(text, sizeof text, "%llu",
                                 (unsigned long long)piece->iterator) },
        { piece->bytes, piece->n },
    };
    return fake_argv(h, argv, 4);
}

static const char *bg_load(struct fake *h, const char *name, const void *bytes,
                           size_t n)
{
    const bg_bytes argv[] = { { "BG.LOAD", 7 }, { name, strlen(name) }, { bytes, n } };
    return fake_argv(h, argv, 3);
}

/* Dumps a filter with BG.DUMP in chunks of a given size. */
static void bg_dump(struct fake *h, const char *name, unsigned size, struct pieces *to)
{
    uint64_t cursor = 0;
    char line[96];
    to->count = 0;
    do {
        (void)snprintf(line, sizeof line, "BG.DUMP %s %llu SIZE %u", name,
                       (unsigned long long)cursor, size);
        (void)fake(h, line);
        CHECK_EQ(h->items_count, 3);
        CHECK(to->count < 64);
        cursor = (uint64_t)h->items[1].integer;
        to->of[to->count++] =
            (struct piece){ cursor, fake_copy(h->items[2].bytes, h->items[2].n),
                            h->items[2].n };
    } while (cursor);
}

static void fill(struct fake *h, const char *command, const char *name, size_t n)
{
    char line[64];
    for (size_t i = 0; i < n; i++) {
        (void)snprintf(line, sizeof line, "%s %s item-%zu", command, name, i);
        CHECK_STR(fake(h, line), ":1");
    }
}

/* Checks that two filters return the same answers for added keys and for absent keys. */
static void same_answers(struct fake *h, const char *a, const char *b, size_t n)
{
    const struct object *x = fake_find(&h->host, (bg_bytes){ a, strlen(a) });
    const struct object *y = fake_find(&h->host, (bg_bytes){ b, strlen(b) });
    char key[32];
    CHECK(x && y);
    for (size_t i = 0; i < 3 * n; i++) {
        const bg_bytes item = { key, (size_t)snprintf(key, sizeof key, "item-%zu", i) };
        CHECK_EQ(object_count(x, item), object_count(y, item));
        CHECK(i >= n || object_count(y, item) > 0);
    }
}

/* ---- Bloomgate's own dumps --------------------------------------------------------------------- */

TEST(dump__bf_round_trip)
{
    struct fake h;
    struct pieces pieces;
    fake_begin(&h);
    CHECK_STR(fake(&h, "BF.RESERVE k 0.01 300 EXPANSION 4"), "+OK");
    fill(&h, "BF.ADD", "k", 200);
    scan(&h, "BF.SCANDUMP", "k", &pieces);
    /* the dump is freed once it has been read to the end */
    CHECK(h.entries[0].object->dump == NULL);
    CHECK_EQ(atomic_load(&h.entries[0].object->dumped), 0);
    for (size_t i = 0; i < pieces.count; i++) {
        CHECK_STR(load(&h, "BF.LOADCHUNK", "copy", &pieces.of[i]), "+OK");
    }
    CHECK_EQ(h.checkpoints, 1);
    same_answers(&h, "k", "copy", 200);
    CHECK_STR(
        fake(&h, "BF.INFO copy"),
        "[+Capacity :300 +Size :2048 +Number of filters :1 +Number of items inserted :200 "
        "+Expansion rate :4]");
    CHECK_STR(fake(&h, "BF.ADD copy other"), ":1"); /* the copy accepts adds */
    CHECK_STR(load(&h, "BF.LOADCHUNK", "copy", &pieces.of[0]), "-ERR item exists");
    pieces_free(&pieces);
    fake_end(&h);
}

TEST(dump__cf_round_trip)
{
    struct fake h;
    struct pieces pieces;
    fake_begin(&h);
    CHECK_STR(fake(&h, "CF.RESERVE k 100"), "+OK");
    FAKE_BOTH(&h, "CF.SCANDUMP k 0", "[:0 _]", "[:0 _]"); /* an empty filter */
    fill(&h, "CF.ADD", "k", 2000);
    fill(&h, "CF.ADD", "k", 10);
    CHECK_STR(fake(&h, "CF.DEL k item-3"), ":1");
    scan(&h, "CF.SCANDUMP", "k", &pieces);
    for (size_t i = 0; i < pieces.count; i++) {
        CHECK_STR(load(&h, "CF.LOADCHUNK", "copy", &pieces.of[i]), "+OK");
    }
    same_answers(&h, "k", "copy", 2000);
    char info[512];
    (void)snprintf(info, sizeof info, "%s", fake(&h, "CF.INFO k"));
    CHECK_STR(fake(&h, "CF.INFO copy"), info);
    CHECK_STR(fake(&h, "CF.DEL copy item-1"), ":1");
    CHECK_STR(fake(&h, "CF.COUNT copy item-1"), ":1");
    for (size_t i = 2000; i < 5000; i++) { /* the copy keeps growing */
        char line[40];
        (void)snprintf(line, sizeof line, "CF.ADD copy item-%zu", i);
        CHECK_STR(fake(&h, line), ":1");
    }
    /* a dump from one family cannot be loaded into another family */
    CHECK(strncmp(load(&h, "BF.LOADCHUNK", "other", &pieces.of[0]),
                  "-ERR received bad data: the dump contains a filter", 50)
          == 0);
    pieces_free(&pieces);
    fake_end(&h);
}

TEST(dump__words)
{
    static const struct fake_line lines[] = {
        { "BF.SCANDUMP none 0", "-ERR not found" },
        { "BF.SCANDUMP none x", "-ERR Second argument must be numeric" },
        { "BF.SCANDUMP none -1", "-ERR Second argument must be numeric" },
        { "CF.SCANDUMP none 0", "-ERR not found" },
        { "BF.LOADCHUNK none x data", "-ERR Second argument must be numeric" },
        { "BF.LOADCHUNK none 2 data", "-ERR not found" },
        { "BF.LOADCHUNK none 0 data", "-ERR invalid offset - no link found" },
        { "BF.LOADCHUNK none 1 data",
          "-ERR received bad data: the header has an invalid size: 4 bytes" },
        { "CF.LOADCHUNK none x data", "-ERR Invalid position" },
        { "CF.LOADCHUNK none 0 data", "-ERR Invalid position" },
        { "CF.LOADCHUNK none 2 data", "-ERR Invalid position" },
        { "CF.LOADCHUNK none 1 data",
          "-ERR Invalid header: the header has 4 bytes, expected 38 or 46" },
        { "BG.DUMP none 0", "-NOFILTER no such filter 'none'" },
        { "BG.LOAD none", "-NOFILTER no such filter 'none'" },
        { "BG.LOAD none data",
          "-ERR received bad data: the data is not a chunk of a dump" },
        { "BG.LOAD none data x",
          "-ERR wrong number of arguments for 'bg.load' command" },
        { "BF.ADD k a", ":1" },
        { "BF.SCANDUMP k 1",
          "-ERR no dump is in progress, or the dump has expired: start again with 0" },
        { "BF.LOADCHUNK k 2 data", "-ERR invalid offset - no link found" },
        { "BG.DUMP k x", "-ERR cursor must be 0 or a returned cursor" },
        { "BG.DUMP k 0 SIZE", "-ERR SIZE must be in the range [1, 268435456] bytes" },
        { "BG.DUMP k 0 SIZE 0", "-ERR SIZE must be in the range [1, 268435456] bytes" },
        { "BG.DUMP k 0 SIZE 268435457",
          "-ERR SIZE must be in the range [1, 268435456] bytes" },
        { "BG.DUMP k 0 FOO 1", "-ERR SIZE must be in the range [1, 268435456] bytes" },
        { "BG.DUMP k 7",
          "-ERR no dump is in progress, or the dump has expired: start again with 0" },
        { "BG.LOAD k", "-ERR no load of this filter is in progress" },
    };
    struct fake h;
    fake_begin(&h);
    FAKE_SCRIPT(&h, lines);
    CHECK_EQ(h.entries_count, 1); /* invalid data does not create a filter */
    (void)fake(&h, "BF.SCANDUMP k 0");
    CHECK_STR(fake(&h, "BF.SCANDUMP k 99999999"),
              "-ERR invalid offset - no link found");
    CHECK_STR(fake(&h, "BG.DUMP k 99999999"),
              "-ERR cursor is beyond the end of the dump");
    fake_end(&h);
}

TEST(dump__any_size_of_chunk)
{
    static const unsigned sizes[] = { 200, 4096, 1000000 };
    for (size_t s = 0; s < 3; s++) {
        struct fake h;
        struct pieces pieces;
        fake_begin(&h);
        CHECK_STR(fake(&h, "BF.RESERVE k 0.01 100 NONSCALING"), "+OK");
        fill(&h, "BF.ADD", "k", 50);
        CHECK_OK(bg_slot_require_generation(h.entries[0].object->slot, 9, NULL));
        bg_dump(&h, "k", sizes[s], &pieces);
        CHECK(h.entries[0].object->dump == NULL);
        for (size_t i = 0; i < pieces.count; i++) {
            uint64_t done = 0, total = 0;
            (void)bg_load(&h, "copy", pieces.of[i].bytes, pieces.of[i].n);
            CHECK_EQ(h.items[0].type, '[');
            done = (uint64_t)h.items[1].integer;
            total = (uint64_t)h.items[2].integer;
            CHECK_EQ(done == total, i + 1 == pieces.count);
            if (i + 1 < pieces.count) {
                CHECK_EQ(done, pieces.of[i].iterator);
                (void)fake(&h, "BG.LOAD copy"); /* query the progress */
                CHECK_EQ((uint64_t)h.items[1].integer, done);
            }
        }
        same_answers(&h, "k", "copy", 50);
        CHECK_STR(fake(&h, "BF.INFO copy ITEMS"), "[:50]");
        const struct object *copy = fake_find(&h.host, (bg_bytes){ "copy", 4 });
        CHECK_EQ(bg_slot_generation(copy->slot), 9);
        pieces_free(&pieces);
        fake_end(&h);
    }
}

/* Checks the fields `loading` and `lost` in the reply to BG.INFO. */
static void check_state(struct fake *h, const char *name, bool loading, bool lost)
{
    char expected[64], request[64];
    (void)snprintf(request, sizeof request, "BG.INFO %s", name);
    (void)snprintf(expected, sizeof expected, "$loading :%d $lost :%d", loading, lost);
    CHECK(strstr(fake(h, request), expected));
}

TEST(dump__unfinished_answers_maybe)
{
    struct fake h;
    struct pieces pieces;
    fake_begin(&h);
    fill(&h, "BF.ADD", "k", 50);
    bg_dump(&h, "k", 1000, &pieces);
    CHECK(pieces.count > 3);
    (void)bg_load(&h, "copy", pieces.of[0].bytes, pieces.of[0].n);
    check_state(&h, "copy", true, false);
    CHECK_STR(fake(&h, "BF.MEXISTS copy item-1 item-2 absent"), "[:1 :1 :1]");
    static const char *const changes[] = { "BF.ADD copy x", "BF.MADD copy x y",
                                           "CF.DEL copy x", "CF.ADDNX copy x" };
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        CHECK_STR(
            fake(&h, changes[i]),
            "-ERR the filter is not available: it is being loaded, or its content was "
            "lost. Load it completely, or drop it");
    }
    CHECK_STR(fake(&h, "BG.DUMP copy 0"),
              "-ERR the filter is not available: it is being loaded, or its content "
              "was lost. Load it completely, or drop it");
    fake_replay(&h); /* the content is still unknown after a crash */
    /* loads chunks that are out of order, repeated, or from another dump */
    CHECK_STR(
        bg_load(&h, "copy", pieces.of[2].bytes, pieces.of[2].n),
        "-ERR this chunk does not follow the previous one: load the chunks in order");
    (void)bg_load(&h, "copy", pieces.of[0].bytes, pieces.of[0].n);
    CHECK_EQ(h.items[0].type, '[');
    check_state(&h, "copy", true, false);
    CHECK_STR(fake(&h, "BF.ADD k more"), ":1");
    struct pieces others;
    bg_dump(&h, "k", 1000, &others);
    CHECK_STR(
        bg_load(&h, "copy", others.of[1].bytes, others.of[1].n),
        "-ERR this chunk does not follow the previous one: load the chunks in order");
    /* the first chunk of another dump restarts the load */
    for (size_t i = 0; i < others.count; i++) {
        (void)bg_load(&h, "copy", others.of[i].bytes, others.of[i].n);
        CHECK_EQ(h.items[0].type, '[');
    }
    same_answers(&h, "k", "copy", 50);
    check_state(&h, "copy", false, false);
    CHECK_STR(fake(&h, "BF.EXISTS copy more"), ":1");
    CHECK_STR(bg_load(&h, "copy", others.of[0].bytes, others.of[0].n),
              "-ERR item exists");
    CHECK_STR(
        bg_load(&h, "copy", others.of[1].bytes, others.of[1].n),
        "-ERR this chunk does not follow the previous one: load the chunks in order");
    pieces_free(&pieces);
    pieces_free(&others);
    fake_end(&h);
}

TEST(dump__every_flipped_bit_is_noticed)
{
    struct fake h;
    struct pieces pieces;
    fake_begin(&h);
    h.no_keys = true;
    CHECK_STR(fake(&h, "BF.RESERVE k 0.1 10 NONSCALING"), "+OK");
    fill(&h, "BF.ADD", "k", 5);
    bg_dump(&h, "k", 1000000, &pieces);
    CHECK_EQ(pieces.count, 1);
    uint8_t *bytes = pieces.of[0].bytes;
    for (size_t bit = 0; bit < 8 * pieces.of[0].n; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        (void)bg_load(&h, "copy", bytes, pieces.of[0].n);
        CHECK_EQ(h.items[0].type, '-');
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    for (size_t n = 0; n < pieces.of[0].n; n++) {
        (void)bg_load(&h, "copy", bytes, n);
        CHECK_EQ(h.items[0].type, '-');
    }
    CHECK_EQ(h.entries_count, 1);
    (void)bg_load(&h, "copy", bytes, pieces.of[0].n);
    CHECK_EQ(h.items[0].type, '[');
    same_answers(&h, "k", "copy", 5);
    pieces_free(&pieces);
    fake_end(&h);
}

/* Loads a chunk of arbitrary bytes with a valid checksum. */
static const char *load_forged(struct fake *h, const char *name, uint64_t stream,
                               uint64_t offset, uint64_t total, const void *bytes,
                               size_t n)
{
    static uint8_t room[1 << 16];
    const struct dump_chunk chunk = { stream, offset, total, bytes, n };
    CHECK(n + DUMP_HEADER <= sizeof room);
    dump_chunk_write(&chunk, room);
    return bg_load(h, name, room, n + DUMP_HEADER);
}

TEST(dump__forged_chunks)
{
    struct fake h;
    struct pieces pieces;
    static uint8_t stream[1 << 16];
    fake_begin(&h);
    h.no_keys = true;
    h.settings.max_filter_bytes = 1 << 20;
    CHECK_STR(fake(&h, "BF.RESERVE k 0.1 10 NONSCALING"), "+OK");
    bg_dump(&h, "k", 1000000, &pieces);
    const size_t n = pieces.of[0].n - DUMP_HEADER;
    memcpy(stream, (uint8_t *)pieces.of[0].bytes + DUMP_HEADER, n);
    /* a size above the limit is refused before any memory is allocated */
    CHECK(strncmp(load_forged(&h, "x", 1, 0, UINT64_C(1) << 60, "a", 1),
                  "-ERR Insufficient memory: the dump's size of 1152921504606846976",
                  60)
          == 0);
    CHECK_STR(load_forged(&h, "x", 1, 5, 5, "a", 1),
              "-ERR received bad data: the chunk extends beyond the end of its dump");
    CHECK_STR(load_forged(&h, "x", 1, UINT64_MAX, 5, "a", 1),
              "-ERR received bad data: the chunk extends beyond the end of its dump");
    CHECK_EQ(h.entries_count, 1);
    /* memory grows with the received bytes, not with the announced size */
    (void)load_forged(&h, "x", 1, 0, 1 << 20, "a", 1);
    CHECK_EQ(h.items[0].type, '[');
    CHECK(object_bytes(h.entries[1].object) <= 64 << 10);
    check_state(&h, "x", true, false);
    /* the dump as a whole is invalid, so the content stays unknown and can be loaded again */
    CHECK_STR(
        load_forged(&h, "x", 2, 0, 1, "a", 1),
        "-ERR received bad data: the chunks do not match the checksum of the dump: "
        "dump the filter again");
    check_state(&h, "x", false, true);
    CHECK_STR(
        load_forged(&h, "x", dump_checksum("a\n", 2), 0, 2, "a\n", 2),
        "-ERR received bad data: the dump does not start with a description line");
    static const char *const lines[] = {
        "bloomgate dump 1 \n",
        "bloomgate dump 1 family=bf\n",
        "bloomgate dump 1 family=bf;\n",
        "bloomgate dump 1 family=bf;1 2\n",
        "bloomgate dump 1 family=bf;1 2 3 4\n",
        "bloomgate dump 1 family=bf;1 2 3\n",
        "bloomgate dump 1 family=bf kind=blocked;1 2 3\nx",
        "bloomgate dump 1 family=bf foreign=1;1 2 3\n",
        "bloomgate dump 1 family=bf foreign=5;1 2 3\n",
        "bloomgate dump 1 family=cf hash=keyed;1 2 3\n",
        "bloomgate dump 1 family=zz;1 2 3\n"
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        const size_t length = strlen(lines[i]);
        const char *got = load_forged(&h, "x", dump_checksum(lines[i], length), 0,
                                      length, lines[i], length);
        CHECK(strncmp(got, "-ERR received bad data: ", 24) == 0);
        CHECK_STR(fake(&h, "BF.EXISTS x anything"), ":1");
    }
    /* a blocked filter whose description states that it is a CF filter */
    char *end = memchr(stream, '\n', n);
    static uint8_t forged[1 << 16];
    const size_t used =
        (size_t)snprintf((char *)forged, sizeof forged,
                         "bloomgate dump 1 family=cf kind=quotient;0 0 0\n");
    const size_t rest = n - (size_t)(end + 1 - (char *)stream);
    memcpy(forged + used, end + 1, rest);
    CHECK_STR(
        load_forged(&h, "x", dump_checksum(forged, used + rest), 0, used + rest, forged,
                    used + rest),
        "-ERR received bad data: the dump contains a filter of kind blocked, which does not "
        "match the description line: dump the filter again");
    pieces_free(&pieces);
    fake_end(&h);
}

/* A load counts the memory that it occupies, which is more than the bytes that have arrived. */
TEST(dump__started_loads_are_counted)
{
    static const struct {
        uint64_t total, least, most;
    } cases[] = { { 100, 100, 4096 },
                  { 500000, 500000, 504096 },
                  { 16 << 20, 8192, 1 << 20 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fake h;
        fake_begin(&h);
        const uint64_t before = ledger_used_by(LEDGER_TRANSFERS);
        (void)load_forged(&h, "x", 1, 0, cases[i].total, "a", 1);
        CHECK_EQ(h.items[0].type, '[');
        struct object *object = h.entries[0].object;
        const uint64_t bytes = object_bytes(object);
        CHECK(bytes >= cases[i].least && bytes < cases[i].most);
        CHECK_EQ(ledger_used_by(LEDGER_TRANSFERS) - before, bytes);
        load_forget(object);
        CHECK_EQ(ledger_used_by(LEDGER_TRANSFERS), before);
        CHECK_EQ(object_bytes(object), 0);
        fake_end(&h);
    }
}

TEST(dump__started_loads_are_refused_without_memory)
{
    struct fake h;
    fake_begin(&h);
    ledger_limit(1 << 20);
    CHECK(strncmp(load_forged(&h, "x", 1, 0, 1000000, "a", 1),
                  "-OOM cannot allocate 1000", 25)
          == 0);
    ledger_limit(0);
    CHECK_EQ(object_bytes(h.entries[0].object), 0);
    check_state(&h, "x", true, false);
    (void)load_forged(&h, "x", 1, 0, 1000000, "a", 1);
    CHECK_EQ(h.items[0].type, '[');
    fake_end(&h);
}

TEST(dump__copies_expire)
{
    struct fake h;
    fake_begin(&h);
    fill(&h, "BF.ADD", "k", 10);
    struct object *object = h.entries[0].object;
    const uint64_t bytes = object_bytes(object);
    (void)fake(&h, "BF.SCANDUMP k 0");
    CHECK(object->dump != NULL && atomic_load(&object->dumped) > bytes);
    CHECK_EQ(object_bytes(object), bytes);
    dump_expire(object, h.now + DUMP_KEPT);
    CHECK(object->dump != NULL);
    dump_expire(object, h.now + DUMP_KEPT + 1);
    CHECK(object->dump == NULL && atomic_load(&object->dumped) == 0);
    (void)fake(&h, "BF.SCANDUMP k 0");
    h.now += DUMP_KEPT + 1;
    CHECK_STR(
        fake(&h, "BF.SCANDUMP k 100"),
        "-ERR no dump is in progress, or the dump has expired: start again with 0");
    CHECK(object->dump == NULL);
    (void)fake(&h, "BF.SCANDUMP k 0"); /* the dump is freed with its object */
    fake_end(&h);
}

/* The copy for a dump and the received chunks are allocated by the object's own allocator. */
TEST(dump__memory_is_the_objects)
{
    struct counting c;
    struct pieces pieces;
    struct fake h;
    counting_start(&c);
    fake_begin(&h);
    h.settings.allocator = &c.hooks;
    CHECK_STR(fake(&h, "BF.RESERVE k 0.01 1000"), "+OK");
    CHECK_STR(fake(&h, "BF.ADD k a"), ":1");
    const size_t before = c.live;
    (void)fake(&h, "BF.SCANDUMP k 0");
    CHECK_EQ(c.live, before + 1); /* the copy */
    scan(&h, "BF.SCANDUMP", "k", &pieces);
    CHECK_EQ(c.live, before);
    (void)fake(&h, "BG.VERIFY k");
    CHECK_EQ(c.live, before);
    for (size_t i = 0; i < pieces.count; i++) {
        CHECK_STR(load(&h, "BF.LOADCHUNK", "l", &pieces.of[i]), "+OK");
    }
    CHECK_STR(fake(&h, "BF.EXISTS l a"), ":1");
    pieces_free(&pieces);
    (void)fake(&h, "BF.SCANDUMP l 0"); /* never continued */
    fake_end(&h);
    CHECK_EQ(c.live, 0);
    CHECK_EQ(c.mistakes, 0);
}

TEST(dump__is_of_one_moment)
{
    struct fake h;
    struct pieces pieces;
    fake_begin(&h);
    fill(&h, "BF.ADD", "k", 10);
    (void)fake(&h, "BG.DUMP k 0 SIZE 100");
    const uint64_t cursor = (uint64_t)h.items[1].integer;
    CHECK_STR(fake(&h, "BF.ADD k later"), ":1");
    pieces.count = 1;
    char line[64];
    (void)snprintf(line, sizeof line, "BG.DUMP k %llu SIZE 100000",
                   (unsigned long long)cursor);
    (void)fake(
        &h,
        "BG.DUMP k 0 SIZE 100"); /* a new dump replaces the copy for the previous dump */
    pieces.of[0] =
        (struct piece){ 0, fake_copy(h.items[2].bytes, h.items[2].n), h.items[2].n };
    (void)fake(&h, line);
    (void)bg_load(&h, "copy", pieces.of[0].bytes, pieces.of[0].n);
    free(pieces.of[0].bytes);
    (void)fake(&h, "BG.DUMP k 0 SIZE 100");
    (void)fake(&h, line);
    pieces.of[0] =
        (struct piece){ 0, fake_copy(h.items[2].bytes, h.items[2].n), h.items[2].n };
    (void)bg_load(&h, "copy", pieces.of[0].bytes, pieces.of[0].n);
    CHECK_EQ(h.items[0].type, '[');
    CHECK_STR(fake(&h, "BF.EXISTS copy later"), ":1");
    pieces_free(&pieces);
    fake_end(&h);
}

TEST(dump__failing_hosts)
{
    struct fake h;
    struct pieces pieces;
    fake_begin(&h);
    fill(&h, "BF.ADD", "k", 10);
    bg_dump(&h, "k", 1000000, &pieces);
    h.create_fails = BG_EQUOTA;
    CHECK_STR(bg_load(&h, "copy", pieces.of[0].bytes, pieces.of[0].n),
              "-LIMIT create: simulated failure");
    h.create_fails = BG_OK;
    h.checkpoint_fails =
        BG_EIO; /* the content of a filter that cannot be saved stays unknown */
    CHECK_STR(bg_load(&h, "copy", pieces.of[0].bytes, pieces.of[0].n),
              "-MISCONF checkpoint: simulated failure");
    CHECK(!object_is_whole(h.entries[1].object));
    CHECK_STR(fake(&h, "BF.EXISTS copy absent"), ":1");
    fake_replay(&h);
    h.checkpoint_fails = BG_OK;
    (void)bg_load(&h, "copy", pieces.of[0].bytes, pieces.of[0].n);
    CHECK_EQ(h.items[0].type, '[');
    same_answers(&h, "k", "copy", 10);
    pieces_free(&pieces);
    fake_end(&h);
}

/* ---- RedisBloom -------------------------------------------------------------------------------- */

/* Creates a RedisBloom dump with the library, which writes the same bytes as RedisBloom (see
 * tests/foreign). */
static void redis_dump(size_t capacity, double rate, size_t items, struct pieces *to)
{
    bg_foreign *foreign = NULL;
    char key[32];
    size_t n = 0, used = 0;
    CHECK_OK(
        bg_foreign_create(BG_FOREIGN_REDISBLOOM, capacity, rate, NULL, &foreign, NULL));
    for (size_t i = 0; i < items; i++) {
        CHECK_OK(bg_foreign_add(
            foreign, key, (size_t)snprintf(key, sizeof key, "item-%zu", i), NULL));
    }
    CHECK_OK(bg_foreign_encode(foreign, NULL, 0, &n, NULL));
    uint8_t *bytes = malloc(n);
    CHECK(bytes != NULL);
    CHECK_OK(bg_foreign_encode(foreign, bytes, n, &n, NULL));
    to->count = 0;
    while (used < n) {
        const size_t length = (size_t)bytes_load64(bytes + used + 8);
        to->of[to->count++] =
            (struct piece){ bytes_load64(bytes + used),
                            fake_copy(bytes + used + 16, length), length };
        used += 16 + length;
    }
    free(bytes);
    bg_foreign_free(foreign);
}

static void same_pieces(const struct pieces *a, const struct pieces *b)
{
    CHECK_EQ(a->count, b->count);
    for (size_t i = 0; i < a->count; i++) {
        CHECK_EQ(a->of[i].iterator, b->of[i].iterator);
        CHECK_EQ(a->of[i].n, b->of[i].n);
        CHECK(memcmp(a->of[i].bytes, b->of[i].bytes, a->of[i].n) == 0);
    }
}

TEST(dump__redisbloom_round_trip)
{
    struct fake h;
    struct pieces pieces, again;
    fake_begin(&h);
    redis_dump(100, 0.01, 500, &pieces); /* three links */
    CHECK_EQ(pieces.count, 4);
    CHECK_STR(load(&h, "BF.LOADCHUNK", "k", &pieces.of[0]), "+OK");
    /* the content is unknown until all chunks are loaded */
    CHECK_STR(fake(&h, "BF.MEXISTS k item-1 nobody"), "[:1 :1]");
    CHECK(strncmp(fake(&h, "BF.ADD k x"), "-ERR the filter is not available", 32) == 0);
    fake_replay(&h);
    /* a chunk can be loaded in parts, and a part can be repeated */
    struct piece half = pieces.of[1];
    half.n = 50;
    half.iterator -= pieces.of[1].n - 50;
    CHECK_STR(load(&h, "BF.LOADCHUNK", "k", &half), "+OK");
    CHECK_STR(load(&h, "BF.LOADCHUNK", "k", &half), "+OK");
    CHECK_STR(load(&h, "BF.LOADCHUNK", "k", &pieces.of[1]),
              "-ERR invalid offset - no link found");
    half.bytes = (char *)half.bytes + 50;
    half.n = pieces.of[1].n - 50;
    half.iterator = pieces.of[1].iterator;
    CHECK_STR(load(&h, "BF.LOADCHUNK", "k", &half), "+OK");
    CHECK_STR(load(&h, "BF.LOADCHUNK", "k", &pieces.of[3]),
              "-ERR invalid offset - no link found");
    struct piece long_one = { pieces.of[2].iterator + 1, NULL, pieces.of[2].n + 1 };
    long_one.bytes = calloc(1, long_one.n);
    CHECK_STR(load(&h, "BF.LOADCHUNK", "k", &long_one),
              "-ERR invalid chunk - Too big for current filter");
    free(long_one.bytes);
    CHECK_STR(load(&h, "BF.LOADCHUNK", "k", &pieces.of[2]), "+OK");
    CHECK_STR(load(&h, "BF.LOADCHUNK", "k", &pieces.of[3]), "+OK");
    CHECK_EQ(h.checkpoints, 1);
    for (size_t i = 0; i < 500; i++) {
        char line[40];
        (void)snprintf(line, sizeof line, "BF.EXISTS k item-%zu", i);
        CHECK_STR(fake(&h, line), ":1");
    }
    CHECK_STR(fake(&h, "BF.INFO k"),
              "[+Capacity :700 +Size :1152 +Number of filters :3 +Number "
              "of items inserted :497 +Expansion rate :2]");
    scan(&h, "BF.SCANDUMP", "k", &again);
    same_pieces(&pieces, &again);
    pieces_free(&again);
    /* the filter keeps growing as it would in RedisBloom */
    for (size_t i = 500; i < 900; i++) {
        char line[40];
        (void)snprintf(line, sizeof line, "BF.ADD k item-%zu", i);
        (void)fake(&h, line);
    }
    pieces_free(&pieces);
    redis_dump(100, 0.01, 900, &pieces);
    scan(&h, "BF.SCANDUMP", "k", &again);
    same_pieces(&pieces, &again);
    pieces_free(&again);
    /* the filter can be dumped with BG.DUMP */
    bg_dump(&h, "k", 777, &again);
    for (size_t i = 0; i < again.count; i++) {
        (void)bg_load(&h, "copy", again.of[i].bytes, again.of[i].n);
        CHECK_EQ(h.items[0].type, '[');
    }
    pieces_free(&again);
    scan(&h, "BF.SCANDUMP", "copy", &again);
    same_pieces(&pieces, &again);
    pieces_free(&again);
    pieces_free(&pieces);
    fake_end(&h);
}

TEST(dump__redisbloom_that_does_not_scale)
{
    struct fake h;
    struct pieces pieces = { .count = 0 };
    fake_begin(&h);
    redis_dump(100, 0.02, 99, &pieces);
    uint8_t *header = pieces.of[0].bytes;
    header[12] |= 8; /* does not scale */
    header[16] = 0;
    for (size_t i = 0; i < pieces.count; i++) {
        CHECK_STR(load(&h, "BF.LOADCHUNK", "k", &pieces.of[i]), "+OK");
    }
    CHECK_STR(fake(&h, "BF.ADD k one-more"), ":1");
    const size_t before = h.recorded;
    CHECK_STR(fake(&h, "BF.ADD k too-many"), "-ERR non scaling filter is full");
    CHECK_EQ(h.recorded, before);
    CHECK_STR(fake(&h, "BF.INFO k EXPANSION"), "[_]");
    pieces_free(&pieces);
    fake_end(&h);
}

TEST(dump__redisbloom_forged)
{
    static const struct {
        const char *what;
        size_t at;
        uint8_t bytes[8];
        size_t n;
        bool early; /* the error is detected from the header alone */
    } forgeries[] = {
        { "no links", 8, { 0, 0, 0, 0 }, 4, true },
        { "2^32 - 1 links", 8, { 255, 255, 255, 255 }, 4, true },
        { "two links", 8, { 2, 0, 0, 0 }, 4, true },
        { "unknown options", 12, { 64, 0, 0, 0 }, 4, false },
        { "growth 40000", 16, { 0x40, 0x9c, 0, 0 }, 4, false },
        { "a link of 0 bytes", 20, { 0 }, 8, true },
        { "a link of 2^64 - 1 bytes",
          20,
          { 255, 255, 255, 255, 255, 255, 255, 255 },
          8,
          true },
        { "a size in bits that does not match the bytes", 28, { 1 }, 8, false },
        { "a different size", 36, { 255, 255 }, 8, false },
        { "NaN error rate", 44, { 0, 0, 0, 0, 0, 0, 0xf8, 0x7f }, 8, false },
        { "infinite error rate", 44, { 0, 0, 0, 0, 0, 0, 0xf0, 0x7f }, 8, false },
        { "NaN bits per entry", 52, { 0, 0, 0, 0, 0, 0, 0xf8, 0xff }, 8, false },
        { "hashes 2^31 - 1", 60, { 255, 255, 255, 127 }, 4, false },
        { "entries 0", 64, { 0 }, 8, false },
        { "entries 2^64 - 1",
          64,
          { 255, 255, 255, 255, 255, 255, 255, 255 },
          8,
          false },
        { "n2 above 63", 72, { 64 }, 1, false },
    };
    for (size_t f = 0; f < sizeof forgeries / sizeof *forgeries; f++) {
        struct fake h;
        struct pieces pieces;
        fake_begin(&h);
        h.settings.max_filter_bytes = 1 << 20;
        redis_dump(100, 0.01, 50, &pieces);
        memcpy((uint8_t *)pieces.of[0].bytes + forgeries[f].at, forgeries[f].bytes,
               forgeries[f].n);
        const char *got = load(&h, "BF.LOADCHUNK", "k", &pieces.of[0]);
        if (forgeries[f].early) {
            CHECK_EQ(got[0], '-');
            CHECK_EQ(h.entries_count, 0);
        } else {
            CHECK_STR(got, "+OK");
            got = load(&h, "BF.LOADCHUNK", "k", &pieces.of[1]);
            CHECK(strncmp(got, "-ERR received bad data: ", 24) == 0);
            CHECK_STR(fake(&h, "BF.EXISTS k item-1"), ":1");
            CHECK_STR(load(&h, "BF.LOADCHUNK", "k", &pieces.of[1]),
                      "-ERR invalid offset - no link found");
        }
        pieces_free(&pieces);
        fake_end(&h);
    }
}
