/*
 * 03_threads.c - several threads on one filter, without a lock.
 *
 * Shows the three promises of filter.h at work:
 *   (C1) what one thread has added, another one that is told so finds;
 *   (C3) of threads that add the same keys at the same time, at least one is told that
 *        a key is new; in a filter made with BG_ONE_WINNER exactly one is.
 * (C2), a "maybe" stays a "maybe", is what C1 rests on.
 */
#include <bloomgate/bloomgate.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

enum { THREADS = 4, KEYS = 400000 };

/* ---- Many writers: all add the same keys ------------------------------------------ */

struct adder {
    bg_filter *filter;
    atomic_bool *go;
    size_t told_new; /* how many keys this thread was told are new */
};

static void *add_all(void *argument)
{
    struct adder *me = argument;
    while (!atomic_load(me->go)) {
    }
    for (uint64_t key = 0; key < KEYS; key++) {
        me->told_new += bg_filter_add_u64(me->filter, key);
    }
    return NULL;
}

/* Lets all threads add all keys. Returns how often one of them was told "new", or 0 when
 * the filter or the threads cannot be made. */
static size_t race(uint32_t flags)
{
    bg_spec spec = BG_SPEC_INIT;
    spec.items = KEYS;
    spec.rate = 1e-5; /* low, so that a new key is hardly ever taken for an old one */
    spec.flags = flags;
    bg_errinfo why;
    bg_filter *filter;
    if (bg_filter_create(&spec, &filter, &why) != BG_OK) {
        fprintf(stderr, "%s\n", why.message);
        return 0;
    }
    atomic_bool go = false;
    struct adder adders[THREADS];
    pthread_t threads[THREADS];
    int started = 0;
    size_t told_new = 0;
    for (; started < THREADS; started++) {
        adders[started] = (struct adder){ filter, &go, 0 };
        if (pthread_create(&threads[started], NULL, add_all, &adders[started]) != 0) {
            break;
        }
    }
    atomic_store(&go, true);
    for (int i = 0; i < started; i++) {
        (void)pthread_join(threads[i], NULL);
        told_new += adders[i].told_new;
    }
    printf("%-8s %d threads added the same %d keys; \"new\" was said %zu times.\n",
           bg_kind_name(bg_filter_kind(filter)), started, KEYS, told_new);
    /* The joins order the adds before these look-ups: every key is there (C1). */
    for (uint64_t key = 0; key < KEYS; key++) {
        if (!bg_filter_may_contain_u64(filter, key)) {
            printf("key %d is missing\n", (int)key);
            told_new = 0;
            break;
        }
    }
    bg_filter_free(filter);
    return started == THREADS ? told_new : 0;
}

/* ---- One writer, one reader -------------------------------------------------------- */

struct pipe {
    bg_filter *filter;
    atomic_uint_fast64_t added; /* keys 0 .. added - 1 are in */
};

static void *write_all(void *argument)
{
    struct pipe *pipe = argument;
    for (uint64_t key = 0; key < KEYS; key++) {
        bg_filter_add_u64(pipe->filter, key);
        /* Release: whoever reads this number also sees the bits of the key. */
        atomic_store_explicit(&pipe->added, key + 1, memory_order_release);
    }
    return NULL;
}

/* Follows the writer and asks for each key as soon as it is announced. */
static bool reads_behind_the_writer(void)
{
    bg_spec spec = BG_SPEC_INIT;
    spec.items = KEYS;
    spec.rate = 0.01;
    struct pipe pipe = { .added = 0 };
    pthread_t writer;
    if (bg_filter_create(&spec, &pipe.filter, NULL) != BG_OK) {
        return false;
    }
    if (pthread_create(&writer, NULL, write_all, &pipe) != 0) {
        bg_filter_free(pipe.filter);
        return false;
    }
    uint64_t asked = 0, missed = 0;
    while (asked < KEYS) {
        uint64_t added = atomic_load_explicit(&pipe.added, memory_order_acquire);
        for (; asked < added; asked++) {
            missed += !bg_filter_may_contain_u64(pipe.filter, asked);
        }
    }
    (void)pthread_join(writer, NULL);
    bg_filter_free(pipe.filter);
    printf("A reader asked for %d keys right behind the writer and missed %d.\n", KEYS,
           (int)missed);
    return missed == 0;
}

int main(void)
{
    /* Without the flag a race may have two winners, so "new" is said at least once per
     * key. A few keys are taken for old ones by chance: that is the filter's rate. */
    const size_t least = KEYS - KEYS / 1000;
    size_t some = race(0);
    size_t one = race(BG_ONE_WINNER);
    bool good = some >= least && one >= least && one <= KEYS;
    good = reads_behind_the_writer() && good;
    printf("%s\n", good ? "All of that held." : "SOMETHING ABOVE DOES NOT HOLD");
    return good ? 0 : 1;
}
