/*
 * 16_cluster_crawl.c - several crawlers share one filter in a Redis Cluster.
 *
 *     example_16_cluster_crawl HOST:PORT[,HOST:PORT...]
 *
 * Each worker has a local filter that contains the pages it has encountered, and can query this
 * filter without using the network. Links arrive in batches. For each batch, a worker first drops
 * links that are in its local filter. With one query of the shared filter, it then drops pages that
 * other workers have fetched. It fetches the remaining pages, and adds them to the shared filter at
 * the end of the batch. A batch therefore costs two round trips. A page is fetched twice only if
 * two workers first encounter it in concurrent batches, so longer batches cause more duplicate
 * fetches.
 *
 * The number of duplicate fetches can be predicted. Suppose a link leads to page j with probability
 * q. A worker encounters the page in a batch of B links with probability a = 1 - (1 - q)^B. In the
 * first round in which any of W workers encounters the page, W a / (1 - (1 - a)^W) workers
 * encounter it on average, and all but one of them fetch it unnecessarily.
 *
 * The cluster client is in the cluster/ directory; sharded_filter.h is its interface.
 */
#define _XOPEN_SOURCE 700

#include "sharded_filter.h"

#include <bloomgate/bloomgate.h>

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    WORKERS = 4,
    PAGES = 50000,
    LINKS = 400000,
    SHARDS = 16,
    BATCH_MAX = 8000,
    URL = 48
};

struct crawl {
    const char *nodes;
    char name[32]; /* name of the shared filter */
    unsigned batch;
    pthread_barrier_t round; /* all workers finish querying before any worker adds */
    atomic_uint fetched[PAGES];
};

struct worker {
    pthread_t thread;
    struct crawl *crawl;
    unsigned number;
    unsigned long local, shared,
        requests; /* links dropped by the local filter, links dropped by the shared filter, and
                     * requests sent */
    bool failed;
    char urls[BATCH_MAX][URL];
    unsigned pages[BATCH_MAX];
};

/* ---- The web: most links lead to a few pages --------------------------------------------------- */

static double popularity[PAGES + 1]; /* cumulative sums of q */

static void web_make(void)
{
    for (unsigned j = 0; j < PAGES; j++) {
        popularity[j + 1] = popularity[j] + 1 / (j + 30.0);
    }
    for (unsigned j = 0; j < PAGES; j++) {
        popularity[j + 1] /= popularity[PAGES];
    }
}

/* Returns the page that link i leads to. */
static unsigned web_link(uint64_t i)
{
    uint64_t x = (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    const double at = (double)((x ^ x >> 31) >> 11) * 0x1p-53;
    unsigned low = 0, high = PAGES;
    while (high - low > 1) {
        const unsigned middle = (low + high) / 2;
        *(popularity[middle] <= at ? &low : &high) = middle;
    }
    return low;
}

/* Returns the predicted number of unnecessary fetches, using the formula above. */
static double web_predict(unsigned batch)
{
    double twice = 0;
    for (unsigned j = 0; j < PAGES; j++) {
        const double q = popularity[j + 1] - popularity[j];
        const double a = -expm1(batch * log1p(-q)), ever = -expm1(LINKS * log1p(-q));
        twice += ever * (WORKERS * a / -expm1(WORKERS * log1p(-a)) - 1);
    }
    return twice;
}

/* ---- A worker ----------------------------------------------------------------------------------- */

/* Collects the links of a batch that are not in the local filter, and adds them to it. */
static unsigned worker_read(struct worker *me, bg_filter *known, uint64_t first,
                            bg_bytes *urls)
{
    unsigned n = 0;
    for (unsigned i = 0; i < me->crawl->batch; i++) {
        const uint64_t link = (first + i) * WORKERS + me->number;
        const unsigned page = web_link(link);
        if (link >= LINKS) {
            break;
        }
        const int length =
            snprintf(me->urls[n], URL, "https://example.org/%u.html", page);
        bool is_new = false;
        if (bg_filter_add(known, me->urls[n], (size_t)length, &is_new) == BG_OK
            && is_new) {
            me->pages[n] = page;
            urls[n] = (bg_bytes){ me->urls[n], (size_t)length };
            n++;
        } else {
            me->local++;
        }
    }
    return n;
}

/* Queries the shared filter, fetches the pages that it does not contain, and adds them
 * to it. */
static bool worker_batch(struct worker *me, struct sharded *shared, bg_bytes *urls,
                         unsigned n)
{
    uint64_t maybe[BG_BITMAP_WORDS(BATCH_MAX)], added[BG_BITMAP_WORDS(BATCH_MAX)],
        is_new[BG_BITMAP_WORDS(BATCH_MAX)];
    unsigned fetched = 0;
    bool good = !sharded_ask(shared, urls, n, NULL, maybe, NULL);
    (void)pthread_barrier_wait(&me->crawl->round);
    for (unsigned i = 0; i < n; i++) {
        if (maybe[i / 64] >> i % 64 & 1) {
            me->shared++; /* another worker has fetched the page */
        } else {
            atomic_fetch_add(&me->crawl->fetched[me->pages[i]], 1);
            urls[fetched++] = urls[i];
        }
    }
    good = !sharded_add(shared, urls, fetched, added, is_new, NULL) && good;
    (void)pthread_barrier_wait(&me->crawl->round);
    me->requests += 2;
    return good;
}

static void *worker_run(void *argument)
{
    struct worker *me = argument;
    const struct cluster_options how = { .nodes = me->crawl->nodes, .stop_fd = -1 };
    bg_spec spec = BG_SPEC_INIT;
    spec.items = PAGES;
    spec.rate = 1e-4;
    spec.flags = BG_SPEC_EXCLUSIVE;
    struct cluster *cluster = NULL;
    struct sharded shared = { 0 };
    bg_filter *known = NULL;
    bg_bytes urls[BATCH_MAX];
    me->failed = bg_filter_create(&spec, &known, NULL)
                 || cluster_open(&how, &cluster, NULL)
                 || sharded_open(cluster, me->crawl->name, SHARDS, &shared, NULL);
    const unsigned share = LINKS / WORKERS, batch = me->crawl->batch;
    for (unsigned first = 0; first < share; first += batch) {
        if (me->failed) { /* the other workers wait at the barrier */
            (void)pthread_barrier_wait(&me->crawl->round);
            (void)pthread_barrier_wait(&me->crawl->round);
        } else {
            const unsigned n = worker_read(me, known, first, urls);
            me->failed = !worker_batch(me, &shared, urls, n);
        }
    }
    sharded_close(&shared);
    cluster_close(cluster);
    bg_filter_free(known);
    return NULL;
}

/* ---- The crawl ---------------------------------------------------------------------------------- */

static void told(void *context, uint32_t shard, bg_bytes reply)
{
    (void)shard;
    *(unsigned *)context += *(const char *)reply.data != '-';
}

/* Sends a command to all shards of the shared filter. Returns whether the command succeeded on all
 * shards. */
static bool crawl_order(const struct crawl *crawl, const char *const *texts, size_t n)
{
    const struct cluster_options how = { .nodes = crawl->nodes, .stop_fd = -1 };
    struct cluster *cluster = NULL;
    struct sharded shared = { 0 };
    bg_bytes words[8];
    unsigned done = 0;
    for (size_t i = 0; i < n; i++) {
        words[i] = (bg_bytes){ texts[i], strlen(texts[i]) };
    }
    const struct sharded_order order = {
        .words = words, .count = n, .write = true, .told = told, .context = &done
    };
    if (!cluster_open(&how, &cluster, NULL)
        && !sharded_open(cluster, crawl->name, SHARDS, &shared, NULL)) {
        (void)sharded_each(&shared, &order, NULL);
    }
    sharded_close(&shared);
    cluster_close(cluster);
    return done == SHARDS;
}

/* Prints the results. Returns whether the results match the prediction. */
static bool crawl_tell(const struct crawl *crawl, const struct worker *workers)
{
    static bool linked[PAGES];
    unsigned long pages = 0, twice = 0, missed = 0, local = 0, shared = 0;
    for (uint64_t i = 0; i < LINKS; i++) {
        linked[web_link(i)] = true;
    }
    for (unsigned j = 0; j < PAGES; j++) {
        const unsigned times = atomic_load(&crawl->fetched[j]);
        pages += linked[j];
        missed += linked[j] && times == 0;
        twice += times > 1 ? times - 1 : 0;
    }
    for (unsigned w = 0; w < WORKERS; w++) {
        local += workers[w].local;
        shared += workers[w].shared;
    }
    const double predicted = web_predict(crawl->batch);
    printf("%6u  %9lu  %7lu  %7lu  %7lu  %9.1f  %6lu\n", crawl->batch,
           WORKERS * workers[0].requests, local, shared, twice, predicted, missed);
    /* Pages are missed only because of false positives. Both filters, local and shared, have a
     * false-positive rate of at most 1e-4. */
    return fabs((double)twice - predicted) < 5 * sqrt(predicted) + 5
           && (double)missed < 2e-4 * (double)pages + 15;
}

static bool crawl_run(const char *nodes, unsigned batch)
{
    static struct worker workers[WORKERS];
    static struct crawl crawl;
    char capacity[24];
    const char *create[] = { "BG.CREATE", "CAPACITY", capacity, "ERROR", "0.0001" };
    const char *drop[] = { "BG.DROP" };
    memset(&crawl, 0, sizeof crawl);
    memset(workers, 0, sizeof workers);
    crawl.nodes = nodes;
    crawl.batch = batch;
    (void)snprintf(crawl.name, sizeof crawl.name, "crawl-%u", batch);
    (void)snprintf(capacity, sizeof capacity, "%llu",
                   (unsigned long long)shard_capacity(PAGES, SHARDS));
    bool right = crawl_order(&crawl, create, 5)
                 && !pthread_barrier_init(&crawl.round, NULL, WORKERS);
    for (unsigned w = 0; right && w < WORKERS; w++) {
        workers[w].crawl = &crawl;
        workers[w].number = w;
        if (pthread_create(&workers[w].thread, NULL, worker_run, &workers[w])) {
            abort(); /* the other workers would wait forever */
        }
    }
    for (unsigned w = 0; right && w < WORKERS; w++) {
        (void)pthread_join(workers[w].thread, NULL);
    }
    for (unsigned w = 0; w < WORKERS; w++) {
        right = right && !workers[w].failed;
    }
    right = right && crawl_tell(&crawl, workers);
    (void)crawl_order(&crawl, drop, 1);
    return right;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s HOST:PORT[,HOST:PORT...]\n", argv[0]);
        return 2;
    }
    web_make();
    printf(
        "%d workers, %d links to %d pages: links dropped by the local and the shared "
        "filter, pages fetched twice and missed\n",
        WORKERS, LINKS, PAGES);
    printf(" batch   requests    local   shared    twice  predicted  missed\n");
    const bool right =
        crawl_run(argv[1], 500) && crawl_run(argv[1], 2000) && crawl_run(argv[1], 8000);
    return right ? 0 : 1;
}
