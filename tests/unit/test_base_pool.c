/* The blocks in the pool of hidden memory are aligned, zeroed, disjoint and excluded from core
 * files. Slabs that become empty are unmapped. */
#include "base/pool.h"

#include "support/check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct piece {
    unsigned char *at;
    size_t bytes;
    unsigned char mark;
};

static void piece_take(struct piece *piece, size_t bytes, unsigned mark)
{
    *piece = (struct piece){ bgi_pool_take(bytes), bytes, (unsigned char)(mark | 1) };
    CHECK(piece->at != NULL);
    CHECK_EQ((uintptr_t)piece->at % 64, 0);
    size_t zeros = 0;
    for (size_t i = 0; i < bgi_pool_size(bytes); i++) {
        zeros += piece->at[i] == 0;
    }
    CHECK_EQ(zeros, bgi_pool_size(bytes));
    memset(piece->at, piece->mark, bytes);
}

static void piece_give(struct piece *piece)
{
    size_t same = 0;
    for (size_t i = 0; i < piece->bytes; i++) {
        same += piece->at[i] == piece->mark;
    }
    CHECK_EQ(same, piece->bytes);
    bgi_pool_give(piece->at, piece->bytes);
    piece->at = NULL;
}

TEST(pool__sizes_are_close)
{
    size_t before = 0;
    for (size_t bytes = 0; bytes <= BGI_POOL_MAX; bytes++) {
        const size_t size = bgi_pool_size(bytes);
        CHECK(size >= bytes && size % 64 == 0 && size >= before);
        CHECK(size <= 64 + bytes + bytes / 4 && size <= BGI_POOL_MAX);
        before = size;
    }
}

/* Allocates and frees blocks at random. Each thread has its own blocks. */
static void *pool_churn(void *seed)
{
    enum { PIECES = 400 };
    struct piece *pieces = calloc(PIECES, sizeof *pieces);
    uint64_t state = *(uint64_t *)seed;
    for (size_t round = 0; round < 5000 * check_scale(); round++) {
        const uint64_t random = check_random_next(&state);
        struct piece *piece = &pieces[random % PIECES];
        if (piece->at) {
            piece_give(piece);
        } else {
            const size_t most = BGI_POOL_MAX >> (random >> 20) % 15;
            piece_take(piece, (size_t)(random >> 32) % (most + 1), (unsigned)round);
        }
    }
    for (size_t i = 0; i < PIECES; i++) {
        if (pieces[i].at) {
            piece_give(&pieces[i]);
        }
    }
    free(pieces);
    return NULL;
}

TEST(pool__pieces_are_apart)
{
    pthread_t threads[3];
    uint64_t seeds[3];
    for (size_t i = 0; i < 3; i++) {
        seeds[i] = check_random();
        CHECK_EQ(pthread_create(&threads[i], NULL, pool_churn, &seeds[i]), 0);
    }
    for (size_t i = 0; i < 3; i++) {
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    }
}

static void *pool_turn(void *stop)
{
    while (!atomic_load((_Atomic bool *)stop)) {
        bgi_pool_give(bgi_pool_take(1000), 1000);
    }
    return NULL;
}

/* A forked child can use the pool, even if another thread was using it during the fork. */
TEST(pool__children_of_fork_can_take)
{
    _Atomic bool stop = false;
    pthread_t threads[2];
    for (size_t i = 0; i < 2; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, pool_turn, &stop), 0);
    }
    for (int i = 0; i < 300; i++) {
        int status = -1;
        const pid_t child = fork();
        if (child == 0) {
            (void)alarm(300); /* fail instead of hanging on a deadlock */
            bgi_pool_give(bgi_pool_take(1000), 1000);
            _exit(0);
        }
        CHECK_EQ(waitpid(child, &status, 0), child);
        CHECK_EQ(status, 0);
    }
    atomic_store(&stop, true);
    for (size_t i = 0; i < 2; i++) {
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    }
}

static size_t slabs_of(unsigned char **pieces, size_t n)
{
    size_t slabs = 0;
    for (size_t i = 0; i < n; i++) {
        slabs += i == 0 || (uintptr_t)pieces[i] >> 18 != (uintptr_t)pieces[i - 1] >> 18;
    }
    return slabs;
}

TEST(pool__pieces_fill_slabs)
{
    enum { PIECES = 4000, BYTES = 1000 }; /* about 4 MiB, so 16 slabs of 256 KiB */
    static unsigned char *pieces[PIECES];
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < PIECES; i++) {
            pieces[i] = bgi_pool_take(BYTES);
            CHECK(pieces[i] != NULL);
        }
        CHECK(slabs_of(pieces, PIECES) <= 17);
        for (size_t i = 0; i < PIECES; i++) {
            bgi_pool_give(pieces[i * 1001 % PIECES], BYTES);
        }
    }
}
