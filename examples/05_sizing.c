/*
 * 05_sizing.c - how large must a filter be, and what will its false-positive rate be?
 *
 * Shows the information that a plan provides before anything is allocated: a comparison of all
 * Bloom kinds; the rate for a given amount of memory; the cheapest size if memory and wasted calls
 * have a price; a size that allows for growth; and the rate required by a latency objective.
 * Finally, the example checks that a filter created from a plan behaves as planned.
 */
#include <bloomgate/bloomgate.h>
#include <bloomgate/inspect.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

enum { MILLION = 1000000 };

static bool plan(const bg_plan_request *ask, bg_plan *found)
{
    bg_errinfo why;
    if (bg_plan_compute(ask, found, &why) != BG_OK) {
        fprintf(stderr, "%s\n", why.message);
        return false;
    }
    return true;
}

/* Plans every Bloom kind for 10 million keys, at two rates. */
static bool table_of_kinds(void)
{
    static const bg_kind kinds[] = {
#define SIZING_KIND(NAME, number, name) BG_KIND_##NAME,
        BG_BLOOM_KINDS(SIZING_KIND)
#undef SIZING_KIND
    };
    printf(
        "10 million keys   rate     k  bits/key    MiB  lines  rate at twice the keys\n");
    for (int i = 0; i < 2; i++) {
        for (size_t j = 0; j < sizeof kinds / sizeof *kinds; j++) {
            bg_plan_request ask = BG_PLAN_REQUEST_INIT;
            bg_plan p;
            ask.spec.kind = (uint32_t)kinds[j];
            ask.spec.items = 10 * MILLION;
            ask.spec.rate = i == 0 ? 0.01 : 0.001;
            if (!plan(&ask, &p) || p.rate > ask.spec.rate) {
                return false;
            }
            printf("  %-12s %6.2f%%  %4" PRIu32 "  %8.2f  %5.1f  %5" PRIu32
                   "  %6.2f%%\n",
                   bg_kind_name(p.kind), 100 * p.rate, p.k, p.bits_per_key,
                   (double)p.bytes / 1048576, p.lines_per_lookup, 100 * p.rate_2x);
        }
    }
    return true;
}

/* If the memory is fixed, what is the best rate? */
static bool what_memory_gives(void)
{
    bg_plan_request ask = BG_PLAN_REQUEST_INIT;
    bg_plan p;
    ask.spec.items = 10 * MILLION;
    ask.spec.bytes = 8 << 20;
    if (!plan(&ask, &p)) {
        return false;
    }
    printf("\n8 MiB for 10 million keys: %s, k = %" PRIu32 ", rate %.2f%%.\n",
           bg_kind_name(p.kind), p.k, 100 * p.rate);
    printf("(%s.)\n", p.reason);
    return p.bytes <= ask.spec.bytes && p.rate > 0.03 && p.rate < 0.06;
}

/* If memory and wasted calls have prices, which size minimizes the total cost?
 * memory_cost is the price of 1 GiB for one second, and call_cost is the price of one
 * call, in the same unit. In this example, the unit is the price of 1 GiB for one
 * second. */
static bool cheapest(void)
{
    bg_plan_request ask = BG_PLAN_REQUEST_INIT;
    bg_plan best, other;
    ask.spec.items = 200 * (uint64_t)MILLION;
    ask.queries_per_second = 50000;
    ask.absent_share = 0.8; /* fraction of lookups that are for absent keys */
    ask.memory_cost = 1.0;
    ask.call_cost = 0.0005; /* 2000 wasted calls cost as much as 1 GiB for one second */
    if (!plan(&ask, &best)) {
        return false;
    }
    printf(
        "\nCheapest plan for 200 million keys at these prices: rate %.3f%%, %.0f MiB,\n"
        "%.0f calls avoided and %.0f wasted per second, cost %.3f.\n",
        100 * best.rate, (double)best.bytes / 1048576, best.calls_avoided,
        best.calls_wasted, best.cost);
    bool good = true;
    const double factors[] = { 0.3, 0.6, 1.6, 3 };
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++) {
        ask.spec.rate = best.rate * factors[i];
        good = good && plan(&ask, &other) && other.cost > best.cost;
        printf("  at a rate of %.3f%% the cost is %.3f\n", 100 * other.rate,
               other.cost);
    }
    return good;
}

/* Plans for a key set that doubles in size before the filter is rebuilt. */
static bool room_to_grow(void)
{
    bg_plan_request ask = BG_PLAN_REQUEST_INIT;
    bg_plan now, later;
    ask.spec.items = 10 * MILLION;
    ask.spec.rate = 0.01;
    if (!plan(&ask, &now)) {
        return false;
    }
    ask.growth = 2;
    if (!plan(&ask, &later)) {
        return false;
    }
    double today = bg_predict_rate(later.kind, later.bytes, later.k, ask.spec.items);
    printf(
        "\nA filter sized for today has a rate of %.1f%% after the keys double. Sized for "
        "growth 2, it takes\n%.1f MiB instead of %.1f, and its rate rises from %.3f%% to "
        "%.2f%%.\n",
        100 * now.rate_2x, (double)later.bytes / 1048576, (double)now.bytes / 1048576,
        100 * today, 100 * later.rate);
    return later.items == 2 * ask.spec.items && later.rate <= 0.01 && today < later.rate
           && now.rate_2x > 0.05;
}

/* Plans for a latency objective: a lookup of an absent key may take 20 microseconds on
 * average, and a call to the backing store takes 4 ms. */
static bool latency(void)
{
    bg_plan_request ask = BG_PLAN_REQUEST_INIT;
    bg_plan p;
    ask.spec.items = 10 * MILLION;
    ask.call_seconds = 4e-3;
    ask.latency_objective = 20e-6;
    if (!plan(&ask, &p)) {
        return false;
    }
    printf("\nFor 20 us per absent key with calls of 4 ms: rate %.2f%%, %.1f bits per "
           "key.\n",
           100 * p.rate, p.bits_per_key);
    return p.rate * ask.call_seconds <= ask.latency_objective;
}

/* Creates a filter from a plan, and checks that it behaves as planned. */
static bool as_planned(void)
{
    bg_plan_request ask = BG_PLAN_REQUEST_INIT;
    bg_plan p;
    bg_filter *filter;
    ask.spec.items = MILLION;
    ask.spec.rate = 0.005;
    if (!plan(&ask, &p)) {
        return false;
    }
    bg_spec spec;
    bg_plan_to_spec(&p, &ask, &spec);
    if (bg_filter_create(&spec, &filter, NULL) != BG_OK) {
        return false;
    }
    bool good = true;
    uint64_t maybe = 0;
    for (uint64_t key = 0; key < MILLION; key++) {
        good = bg_filter_add_u64(filter, key, NULL) == BG_OK && good;
    }
    for (uint64_t key = MILLION; key < 5 * MILLION; key++) {
        maybe += bg_filter_may_contain_u64(filter, key);
    }
    bg_estimate seen = bg_observed_rate(maybe, 4 * MILLION);
    good = good && bg_filter_size_bytes(filter) == p.bytes
           && fabs(seen.value - p.rate) < 0.05 * p.rate;
    printf("\nPlanned rate %.4f%%, measured %.4f%% (95%%: %.4f to %.4f).\n",
           100 * p.rate, 100 * seen.value, 100 * seen.low, 100 * seen.high);
    bg_filter_free(filter);
    return good;
}

int main(void)
{
    bool good = table_of_kinds() && what_memory_gives() && cheapest() && room_to_grow()
                && latency() && as_planned();
    printf("%s\n", good ? "All checks passed." : "A CHECK FAILED");
    return good ? 0 : 1;
}
