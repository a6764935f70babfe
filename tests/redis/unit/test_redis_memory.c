/*
 * Tests the module's defragmentation without a server. A fake server allocator moves every
 * allocation to another address, with a different offset within a cache line, and overwrites the
 * old allocation. Commands run between defragmentations, and fake_host.h compares all replies at
 * the end.
 */
#include "server/support/fake_host.h"

#include "redis_memory.h"
#include "redis_secret.h"

enum { SLAB = 14 << 10 }; /* the server does not move larger allocations */

struct redis_api redis;

/* A fake defragmentation context, which counts the calls and decides when the server requests a
 * stop. */
struct RedisModuleDefragCtx {
    bool late;
    unsigned long cursor;
    size_t asked, moved;
    bool hurry; /* whether the server requests a stop at every opportunity */
};

static size_t server_live, server_turn;

void redis_secret_leave(struct redis_secret *held)
{
    CHECK(held == NULL);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

/* This header precedes every allocation. Addresses are multiples of 16. */
struct piece {
    void *base;
    size_t bytes;
};

static void *server_take(size_t bytes)
{
    const size_t aside = 16 * (server_turn++ % 5);
    char *base = malloc(sizeof(struct piece) + aside + bytes);
    if (!base) {
        return NULL;
    }
    char *given = base + sizeof(struct piece) + aside;
    const struct piece piece = { base, bytes };
    memcpy(given - sizeof piece, &piece, sizeof piece);
    memset(given, 0xa5, bytes);
    server_live += bytes;
    return given;
}

static struct piece server_piece(const void *given)
{
    struct piece piece;
    memcpy(&piece, (const char *)given - sizeof piece, sizeof piece);
    return piece;
}

static void server_free(void *given)
{
    const struct piece piece = server_piece(given);
    server_live -= piece.bytes;
    memset(given, 0xdd, piece.bytes);
    free(piece.base);
}

static size_t server_size(void *given)
{
    return server_piece(given).bytes;
}

static void *server_move(RedisModuleDefragCtx *ctx, void *given)
{
    const size_t bytes = server_size(given);
    ctx->asked++;
    if (bytes > SLAB) {
        return NULL;
    }
    void *to = server_take(bytes);
    CHECK(to != NULL);
    memcpy(to, given, bytes);
    server_free(given);
    ctx->moved++;
    return to;
}

static int server_stops(RedisModuleDefragCtx *ctx)
{
    return ctx->late && ctx->hurry;
}

static int server_set(RedisModuleDefragCtx *ctx, unsigned long cursor)
{
    ctx->cursor = cursor;
    return ctx->late ? REDIS_OK : REDIS_ERR;
}

static int server_get(RedisModuleDefragCtx *ctx, unsigned long *cursor)
{
    *cursor = ctx->cursor;
    return ctx->late ? REDIS_OK : REDIS_ERR;
}

static void server_begin(struct fake *h)
{
    redis = (struct redis_api){ .TryAlloc = server_take,
                                .Free = server_free,
                                .MallocSize = server_size,
                                .DefragAlloc = server_move,
                                .DefragShouldStop = server_stops,
                                .DefragCursorSet = server_set,
                                .DefragCursorGet = server_get };
    CHECK_EQ(server_live, 0);
    fake_begin(h);
    h->settings.allocator = &redis_allocator;
}

/* ---- Tests ----------------------------------------------------------------------------------- */

static struct fake_entry *entry_of(struct fake *h, const char *name)
{
    struct fake_entry *entry = fake_find_entry(h, (bg_bytes){ name, strlen(name) });
    CHECK(entry != NULL);
    return entry;
}

/* Defragments the way a server does: calls the module until no work remains.
 * Returns the number of calls. */
static size_t defragment(struct fake_entry *entry, RedisModuleDefragCtx *ctx)
{
    size_t calls = 1;
    while (redis_memory_defrag(ctx, &entry->object)) {
        CHECK(ctx->late && calls < 10000);
        calls++;
    }
    CHECK_EQ(pthread_mutex_trylock(&entry->object->writing), 0); /* the lock works */
    CHECK_EQ(pthread_mutex_unlock(&entry->object->writing), 0);
    return calls;
}

TEST(module_memory__objects_of_every_sort_are_moved)
{
    static const struct {
        const char *make, *add;
    } sorts[] = {
        { "BF.RESERVE k 0.01 100", "BF.ADD k %d" },
        { "BF.RESERVE k 0.01 5000 NONSCALING", "BF.ADD k %d" },
        { "CF.RESERVE k 64", "CF.ADD k %d" },
        { "BG.CREATE k KIND cuckoo CAPACITY 5000 ERROR 0.01", "BG.ADD k %d" },
        { "BG.CREATE k KIND counting CAPACITY 5000 ERROR 0.01 SHARDS 8",
          "BG.ADD k %d" },
        { "BG.CREATE k CAPACITY 5000 MANUAL", "BG.ADD k %d" },
    };
    for (size_t s = 0; s < sizeof sorts / sizeof *sorts; s++) {
        struct fake h;
        char line[64];
        size_t moved = 0;
        server_begin(&h);
        CHECK_STR(fake(&h, sorts[s].make), "+OK");
        for (int i = 0; i < 1500; i++) {
            (void)snprintf(line, sizeof line, "%s k %d", sorts[s].add, i);
            (void)fake(&h, line);
            RedisModuleDefragCtx ctx = { .late = i % 2, .hurry = i % 3 == 0 };
            (void)defragment(entry_of(&h, "k"), &ctx);
            moved += ctx.moved;
        }
        CHECK(moved > 3000);
        fake_end(&h);
        CHECK_EQ(server_live, 0);
        CHECK_EQ(redis_memory_used(), 0);
    }
}

/* A filter imported from RedisBloom is allocated with the server's allocator, and can be moved. Its
 * copies also use this allocator. */
TEST(module_memory__filters_of_others_are_moved)
{
    struct fake h;
    const struct object_shape shape = { .family = OBJECT_BF,
                                        .imported = 1,
                                        .expansion = 2,
                                        .foreign = BG_FOREIGN_REDISBLOOM };
    bg_foreign_options how = BG_FOREIGN_OPTIONS_INIT;
    bg_foreign *foreign = NULL;
    struct fake_entry entry = { .object = NULL };
    struct object *copy = NULL;
    server_begin(&h);
    how.allocator = &redis_allocator;
    CHECK_OK(bg_foreign_create(shape.foreign, 100, 0.01, &how, &foreign, NULL));
    CHECK_OK(bg_foreign_add(foreign, "apple", 5, NULL));
    CHECK_OK(object_adopt(&shape, NULL, foreign, &entry.object, NULL));
    for (int i = 0; i < 10; i++) {
        RedisModuleDefragCtx ctx = { .late = false };
        (void)defragment(&entry, &ctx);
        CHECK_EQ(ctx.moved, 2);
        CHECK_EQ(object_count(entry.object, (bg_bytes){ "apple", 5 }), 1);
    }
    const size_t one = redis_memory_of(entry.object);
    CHECK_EQ(server_live, one);
    CHECK_OK(object_copy(entry.object, &copy, NULL));
    CHECK_EQ(server_live, one + redis_memory_of(copy));
    object_free(copy);
    object_free(entry.object);
    fake_end(&h);
    CHECK_EQ(server_live, 0);
}

TEST(module_memory__many_pieces_in_several_calls)
{
    struct fake h;
    RedisModuleDefragCtx once = { .hurry = true },
                         late = { .late = true, .hurry = true };
    server_begin(&h);
    CHECK_STR(fake(&h, "BG.CREATE k KIND blocked CAPACITY 5000 ERROR 0.01 SHARDS 200"),
              "+OK");
    CHECK_EQ(defragment(entry_of(&h, "k"), &once), 1); /* no time limit */
    CHECK(once.moved > 200);
    const uint64_t moves = redis_memory_moves();
    CHECK(defragment(entry_of(&h, "k"), &late) > 10);
    CHECK_EQ(late.moved, once.moved); /* each allocation is moved exactly once */
    CHECK_EQ(redis_memory_moves() - moves, late.moved);
    fake_end(&h);
    CHECK_EQ(server_live, 0);
}

TEST(module_memory__tells_what_the_server_gave)
{
    struct fake h;
    server_begin(&h);
    CHECK_STR(fake(&h, "BF.ADD k apple"), ":1");
    CHECK(server_live > 0);
    CHECK_EQ(redis_memory_of(entry_of(&h, "k")->object), server_live);
    CHECK_STR(fake(&h, "BG.CREATE w CAPACITY 5000 MANUAL"), "+OK");
    CHECK_EQ(redis_memory_of(entry_of(&h, "k")->object)
                 + redis_memory_of(entry_of(&h, "w")->object),
             server_live);
    fake_end(&h);
}

TEST(module_memory__what_is_used_stays)
{
    struct fake h;
    RedisModuleDefragCtx ctx = { .late = false };
    server_begin(&h);
    CHECK_STR(fake(&h, "BG.CREATE k KIND blocked CAPACITY 5000 ERROR 0.01"), "+OK");
    struct fake_entry *entry = entry_of(&h, "k");
    struct object *before = entry->object;

    redis_memory_hold(before);
    (void)defragment(entry, &ctx);
    CHECK(entry->object == before && ctx.asked == 0);
    CHECK_EQ(redis_memory_of(before), 0);
    redis_memory_release(before);

    CHECK_STR(fake(&h, "BG.REBUILD k BEGIN 100"), "+OK");
    (void)defragment(entry, &ctx);
    CHECK(entry->object == before && ctx.asked == 0);
    CHECK_STR(fake(&h, "BG.REBUILD k ABORT"), "+OK");

    redis_memory_let_move(false); /* defragmentation is disabled by the configuration */
    (void)defragment(entry, &ctx);
    CHECK(entry->object == before && ctx.asked == 0);
    redis_memory_let_move(true);

    (void)defragment(entry, &ctx);
    CHECK(entry->object != before && ctx.moved > 0);
    fake_end(&h);
    CHECK_EQ(server_live, 0);
}
