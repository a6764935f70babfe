/*
 * 13_crawler.c - a crawler's frontier without duplicates.
 *
 * Each worker processes its part of the links with its own filter, so threads never wait for each
 * other; at the end, the filters are merged. A "no" is certain: the link is new and goes to the
 * frontier without a database query. For one new link in a thousand, the filter wrongly answers
 * "maybe". After a "maybe", the worker therefore queries the store, so that no page is lost.
 */
#include <bloomgate/bloomgate.h>
#include <bloomgate/combine.h>

#include <pthread.h>
#include <stdio.h>

enum { WORKERS = 4, PAGES = 20000, LINKS = 400000 };

struct worker {
    pthread_t thread;
    bg_filter *seen;
    unsigned number, found;
    unsigned long asked; /* number of store queries */
    unsigned frontier[PAGES];
    bool stored[PAGES]; /* the store: a database that is slow to query */
};

/* Returns the page that link i leads to; most links lead to a few pages. */
static unsigned link_to(uint64_t i)
{
    uint64_t x = (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
    x ^= x >> 29;
    return (unsigned)((x % PAGES) * (x / PAGES % PAGES) / PAGES);
}

static size_t url_of(unsigned page, char url[64])
{
    return (size_t)snprintf(url, 64, "https://example.org/%u.html", page);
}

static void *work(void *argument)
{
    struct worker *me = argument;
    char url[64];
    for (uint64_t i = me->number; i < LINKS; i += WORKERS) {
        unsigned page = link_to(i);
        bool is_new = false;
        if (bg_filter_add(me->seen, url, url_of(page, url), &is_new) != BG_OK) {
            break;
        }
        me->asked += !is_new;
        if (is_new
            || !me->stored[page]) { /* the store is queried only after a "maybe" */
            me->stored[page] = true;
            me->frontier[me->found++] = page;
        }
    }
    return NULL;
}

/* Waits for a worker, then merges its frontier and its filter with those of the previous workers.
 * Returns the number of pages that those workers have also found. */
static unsigned unite(struct worker *worker, bg_filter *all, bool fetched[PAGES])
{
    char url[64];
    unsigned twice = 0;
    (void)pthread_join(worker->thread, NULL);
    for (unsigned i = 0; i < worker->found; i++) {
        unsigned page = worker->frontier[i];
        twice += bg_filter_may_contain(all, url, url_of(page, url)) && fetched[page];
        fetched[page] = true; /* fetch the page here, unless it was already fetched */
    }
    return bg_filter_merge(all, worker->seen, NULL) == BG_OK ? twice : LINKS;
}

int main(void)
{
    static struct worker workers[WORKERS];
    static bool fetched[PAGES];
    bg_spec spec = BG_SPEC_INIT; /* all filters need the same spec to be merged */
    spec.items = PAGES;
    spec.rate = 0.001;
    bg_filter *all = NULL;
    bool right = bg_filter_create(&spec, &all, NULL) == BG_OK;
    spec.flags = BG_SPEC_EXCLUSIVE; /* each filter is used by one thread */
    for (unsigned w = 0; right && w < WORKERS; w++) {
        workers[w].number = w;
        right = bg_filter_create(&spec, &workers[w].seen, NULL) == BG_OK
                && pthread_create(&workers[w].thread, NULL, work, &workers[w]) == 0;
    }
    unsigned long asked = 0, found = 0, twice = 0;
    for (int w = 0; right && w < WORKERS; w++) {
        twice += unite(&workers[w], all, fetched);
        asked += workers[w].asked;
        found += workers[w].found;
        bg_filter_free(workers[w].seen);
    }
    char url[64];
    for (uint64_t i = 0; right && i < LINKS; i++) { /* checks that no page is lost */
        unsigned page = link_to(i);
        right = fetched[page] && bg_filter_may_contain(all, url, url_of(page, url));
    }
    printf(
        "%d links: dropped %lu duplicates within workers and %lu across workers; avoided "
        "%lu store queries\n",
        LINKS, LINKS - found, twice, LINKS - asked);
    bg_filter_free(all);
    return right && twice < found && LINKS - found > found ? 0 : 1;
}
