/*
 * 03_threads.c - several threads share one filter, without a lock.
 *
 * Shows two guarantees from filter.h:
 *   (C1) a thread finds every key whose add happened before its lookup;
 *   (C3) if several threads add the same key at the same time, the add returns true ("new") in at
 *     least one of them, and with BG_SPEC_ONE_WINNER in exactly one.
 * (C1) relies on (C2): once a lookup of a key has returned "maybe", all later lookups of that key
 *   also return "maybe".
 */
#include <bloomgate/bloomgate.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

enum { THREADS = 4, KEYS = 400000 };

/* ---- Several writers add the same keys ------------------------------------------- */

struct adder {
    bg_filter *filter;
    atomic_bool *go;
    size_t told_new; /* number of adds that returned "new" in this thread */
    bool failed;
};

static void *add_all(void *argument)
{
    struct adder *me = argument;
    while (!atomic_load(me->go)) {
    }
    for (uint64_t key = 0; key < KEYS; key++) {
        bool is_new = false;
        me->failed |= bg_filter_add_u64(me->filter, key, &is_new) != BG_OK;
        me->told_new += is_new;
    }
    return NULL;
}

/* All threads add all keys. Returns how many adds returned "new", or 0 if the filter or
 * a thread cannot be created. */
static size_t race(uint32_t flags)
{
    bg_spec spec = BG_SPEC_INIT;
    spec.items = KEYS;
    spec.rate = 1e-5; /* low, so that a new key is rarely a false positive */
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
    bool failed = false;
    for (; started < THREADS; started++) {
        adders[started] = (struct adder){ filter, &go, 0, false };
        if (pthread_create(&threads[started], NULL, add_all, &adders[started]) != 0) {
            break;
        }
    }
    atomic_store(&go, true);
    for (int i = 0; i < started; i++) {
        (void)pthread_join(threads[i], NULL);
        told_new += adders[i].told_new;
        failed |= adders[i].failed;
    }
    printf("%-8s %d threads added the same %d keys; %zu adds returned \"new\".\n",
           bg_kind_name(bg_filter_kind(filter)), started, KEYS, told_new);
    /* pthread_join orders the adds before these lookups, so every key is found (C1). */
    for (uint64_t key = 0; key < KEYS; key++) {
        if (!bg_filter_may_contain_u64(filter, key)) {
            printf("key %d is missing\n", (int)key);
            told_new = 0;
            break;
        }
    }
    bg_filter_free(filter);
    return started == THREADS && !failed ? told_new : 0;
}

/* ---- One writer, one reader -------------------------------------------------------- */

struct pipe {
    bg_filter *filter;
    atomic_uint_fast64_t added; /* keys 0 .. added - 1 have been added */
};

static void *write_all(void *argument)
{
    struct pipe *pipe = argument;
    for (uint64_t key = 0; key < KEYS; key++) {
        if (bg_filter_add_u64(pipe->filter, key, NULL) != BG_OK) {
            break; /* never happens, because a blocked filter accepts every key */
        }
        /* Because of the release ordering, a thread that reads this number with acquire ordering
         * also sees the key's bits. */
        atomic_store_explicit(&pipe->added, key + 1, memory_order_release);
    }
    return NULL;
}

/* Looks up each key as soon as the writer has announced it. */
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
    printf("A reader looked up %d keys right after they were added, and missed %d.\n",
           KEYS, (int)missed);
    return missed == 0;
}

int main(void)
{
    /* Without BG_SPEC_ONE_WINNER, adding a key may return "new" in more than one thread, so only
     * the minimum is checked. A few keys are false positives when they are first added, so they are
     * never reported as new. */
    const size_t least = KEYS - KEYS / 1000;
    size_t some = race(0);
    size_t one = race(BG_SPEC_ONE_WINNER);
    bool good = some >= least && one >= least && one <= KEYS;
    good = reads_behind_the_writer() && good;
    printf("%s\n", good ? "All checks passed." : "A CHECK FAILED");
    return good ? 0 : 1;
}
