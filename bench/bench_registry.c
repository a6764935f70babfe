/*
 * bench_registry.c - what does it cost to find a tenant by name, compared with querying
 * its filter?
 *
 * Each tenant has a small filter (100 keys at 1%). Every request looks up an absent key in a
 * random tenant. The lookup is done in three ways: directly in the filter, by pointer; in a tenant
 * that the thread already holds; and by name, which gets the tenant, queries it and releases it. A
 * fourth row only gets the tenant by name and releases it. All rows run with one thread, and with
 * two threads that share all tenants. The ratio is the bare filter's time divided by the row's
 * time, at the same thread count. Names are stored in request order, as they would be in requests
 * that have just arrived, but tenants are accessed in random order. --n sets the tenant counts.
 */
#include "bench.h"
#include "bench_adds.h"
#include "keys.h"
#include "output.h"
#include "team.h"

#include "bloomgate/all.h"

#include <stdio.h>
#include <stdlib.h>

enum { REGISTRY_POOL = 1 << 16, REGISTRY_KEYS = 100, REGISTRY_THREADS = 2 };

enum registry_way {
    REGISTRY_FILTER,
    REGISTRY_HELD,
    REGISTRY_NAMED,
    REGISTRY_FOUND,
    REGISTRY_WAYS
};

static const char *const registry_names[REGISTRY_WAYS] = {
    "filter by pointer",
    "held tenant",
    "tenant by name",
    "name only: get, release",
};

/* A request: a key, and its tenant as a name, as a handle and as a bare filter. */
struct registry_request {
    char name[32];
    bg_tenant *tenant;
    const bg_filter *filter;
    uint64_t key;
};

struct registry_count {
    _Alignas(128) uint64_t positives;
};

/* A subject: one way of finding a tenant, with a thread count. */
struct registry_state {
    enum registry_way way;
    bg_registry *registry;
    const struct registry_request *requests;
    struct bgb_team *team; /* NULL: one thread */
    size_t first, n;
    uint64_t ns;
    struct registry_count counts[REGISTRY_THREADS];
};

static bool registry_ask_by_name(bg_registry *registry,
                                 const struct registry_request *r, bool asks)
{
    bg_tenant *tenant = NULL;
    if (bg_registry_get(registry, r->name, 0, &tenant, NULL)) {
        bgb_die("no tenant %s", r->name);
    }
    bool maybe = asks && bg_tenant_may_contain(tenant, &r->key, sizeof r->key);
    bg_tenant_release(tenant);
    return maybe;
}

static uint64_t registry_ask(const struct registry_state *s, size_t first, size_t n)
{
    uint64_t found = 0;
    for (size_t i = first; i < first + n; i++) {
        const struct registry_request *r = &s->requests[i];
        switch (s->way) {
        case REGISTRY_FILTER:
            found += bg_filter_may_contain(r->filter, &r->key, sizeof r->key);
            break;
        case REGISTRY_HELD:
            found += bg_tenant_may_contain(r->tenant, &r->key, sizeof r->key);
            break;
        default:
            found += registry_ask_by_name(s->registry, r, s->way == REGISTRY_NAMED);
            break;
        }
    }
    return found;
}

static void registry_work(void *arg, unsigned i)
{
    struct registry_state *s = arg;
    size_t part = s->n / REGISTRY_THREADS;
    s->counts[i].positives = registry_ask(s, s->first + i * part, part);
}

static uint64_t registry_pass(void *state, size_t first, size_t n)
{
    struct registry_state *s = state;
    uint64_t start = bgb_now_ns(), found = 0;
    if (!s->team) {
        found = registry_ask(s, first, n);
        s->ns = bgb_now_ns() - start;
        return found;
    }
    s->first = first;
    s->n = n;
    s->ns = bgb_team_run(s->team, registry_work, s);
    for (unsigned i = 0; i < REGISTRY_THREADS; i++) {
        found += s->counts[i].positives;
    }
    return found;
}

/* ---- Tenants -------------------------------------------------------------------------- */

/* A tenant, and a bare filter with the same keys. */
struct registry_pair {
    bg_tenant *tenant;
    bg_filter *filter;
};

struct registry_world {
    bg_registry *registry;
    struct registry_pair *pairs;
    struct registry_request *requests;
    uint64_t n;
};

static void registry_name(char name[32], uint64_t i)
{
    (void)snprintf(name, 32, "tenant-%llu", (unsigned long long)i);
}

static void registry_populate(struct registry_world *w, const bg_spec *spec)
{
    char name[32];
    for (uint64_t i = 0; i < w->n; i++) {
        registry_name(name, i);
        if (bg_registry_get(w->registry, name, BG_REGISTRY_CREATE, &w->pairs[i].tenant,
                            NULL)
            || bg_filter_create(spec, &w->pairs[i].filter, NULL)) {
            bgb_die("no tenant %s", name);
        }
        for (uint64_t j = 0; j < REGISTRY_KEYS; j++) {
            uint64_t key = bgb_key(BGB_SET_PRESENT, i * REGISTRY_KEYS + j);
            (void)added(w->pairs[i].filter, &key, sizeof key);
            if (bg_tenant_add(w->pairs[i].tenant, &key, sizeof key, NULL, NULL)) {
                bgb_die("tenant %s is full", name);
            }
        }
    }
}

static void registry_begin(struct registry_world *w, uint64_t n)
{
    bg_registry_options options = BG_REGISTRY_OPTIONS_INIT;
    bg_errinfo why;
    options.spec.items = REGISTRY_KEYS;
    options.spec.rate = 0.01;
    options.max_tenants = (uint32_t)n;
    *w = (struct registry_world){ .n = n };
    if (bg_registry_create(&options, &w->registry, &why)) {
        bgb_die("%s", why.message);
    }
    w->pairs = bgb_alloc(n, sizeof *w->pairs);
    w->requests = bgb_alloc(REGISTRY_POOL, sizeof *w->requests);
    registry_populate(w, &options.spec);
    for (uint64_t i = 0; i < REGISTRY_POOL; i++) {
        struct registry_request *r = &w->requests[i];
        uint64_t t = bgb_key(BGB_SET_PRESENT, i) % n;
        registry_name(r->name, t);
        r->tenant = w->pairs[t].tenant;
        r->filter = w->pairs[t].filter;
        r->key = bgb_key(BGB_SET_ABSENT, i);
    }
}

static void registry_end(struct registry_world *w)
{
    for (uint64_t i = 0; i < w->n; i++) {
        bg_tenant_release(w->pairs[i].tenant);
        bg_filter_free(w->pairs[i].filter);
    }
    bg_registry_free(w->registry);
    free(w->requests);
    free(w->pairs);
}

/* ---- The table ------------------------------------------------------------------------ */

static void registry_prepare(struct registry_state *s, struct bgb_subject *subject,
                             const struct registry_world *w, enum registry_way way,
                             struct bgb_team *team)
{
    *s = (struct registry_state){
        .way = way, .registry = w->registry, .requests = w->requests, .team = team
    };
    *subject = (struct bgb_subject){ .pass = registry_pass,
                                     .state = s,
                                     .pool = REGISTRY_POOL,
                                     .chunk = REGISTRY_POOL / 4,
                                     .most = 0.05,
                                     .own_ns = &s->ns };
    (void)snprintf(subject->name, sizeof subject->name, "%s", registry_names[way]);
}

static void registry_run(const struct bgb_options *options, uint64_t n)
{
    enum { ROWS = 2 * REGISTRY_WAYS };
    static struct registry_state states[ROWS];
    struct bgb_subject subjects[ROWS];
    struct registry_world world;
    struct bgb_team *team = bgb_team_start(REGISTRY_THREADS);
    registry_begin(&world, n);
    for (int i = 0; i < ROWS; i++) {
        registry_prepare(&states[i], &subjects[i], &world,
                         (enum registry_way)(i % REGISTRY_WAYS),
                         i < REGISTRY_WAYS ? NULL : team);
    }
    bgb_table("registry", "a registry with %llu tenants, absent keys",
              (unsigned long long)n);
    bgb_run(subjects, ROWS, options->seconds);
    for (int i = 0; i < ROWS; i++) {
        const struct bgb_subject *s = &subjects[i];
        const struct bgb_subject *bare = &subjects[i - i % REGISTRY_WAYS];
        bgb_row_begin();
        bgb_cell_text("subject", "subject", -26, s->name);
        bgb_cell_count("tenants", "tenants", 8, n);
        bgb_cell_count("threads", "threads", 8,
                       i < REGISTRY_WAYS ? 1 : REGISTRY_THREADS);
        bgb_cell_real("ns_p5", "ns p5", 9, 1, s->p5);
        bgb_cell_real("ns_best", "best", 9, 1, s->best);
        bgb_cell_real("ns_median", "median", 9, 1, s->median);
        bgb_cell_real("over", "over", 9, 1, s->p5 - bare->p5);
        bgb_cell_real("ratio", "ratio", 9, 3, bare->p5 / s->p5);
        bgb_row_end();
    }
    bgb_team_stop(team);
    registry_end(&world);
}

void bgb_bench_registry(const struct bgb_options *options)
{
    static const uint64_t usual[] = { 10, 1000, 100000 };
    uint64_t sizes[BGB_SIZES_MAX];
    size_t count = bgb_options_sizes(options, usual, 3, sizes);
    for (size_t i = 0; i < count; i++) {
        registry_run(options, sizes[i]);
    }
    bgb_note(
        "ns: wall time / requests of all threads; ratio: speed vs. the bare filter "
        "at the same thread count");
}
