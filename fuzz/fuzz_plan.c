/*
 * fuzz_plan.c - computes plans from arbitrary numbers. No request may cause a crash, a hang or an
 * overflow. If a request is refused, the error must state a reason. A plan respects the limits, its
 * values are in range, and the spec derived from the plan results in the same geometry.
 */
#include "bloomgate/all.h"
#include "fuzz.h"
#include "fuzz_input.h"

#include <math.h>

/* For true rates below 1e-10, the model uses a different method, which overestimates the rate. For
 * the smallest filters, the result can be as high as small_rate. Below small_rate, rates need not
 * be monotonic. */
static const double small_rate = 1e-4;

static double take_number(struct fuzz_input *in)
{
    static const double usual[] = { 0, 0.5, 1, 1e-3, 1e-9, 10, 1e6, 1e300 };
    uint8_t how = fuzz_byte(in);
    return how & 1 ? fuzz_double(in) : how & 2 ? usual[how / 4 % 8] : 0;
}

static void take_spec(struct fuzz_input *in, bg_spec *spec)
{
    uint8_t how = fuzz_byte(in);
    spec->kind = fuzz_byte(in) % 7;
    spec->items = fuzz_any(in);
    spec->rate = how & 1 ? (1 + fuzz_byte(in)) / 260.0 : how & 2 ? fuzz_double(in) : 0;
    spec->bits_per_key = how & 4 ? take_number(in) : 0;
    spec->bytes = how & 8 ? fuzz_any(in) : 0;
    spec->k = how & 16 ? fuzz_byte(in) % 70 : 0;
    spec->folds = how & 32 ? fuzz_byte(in) % 24 : 0;
    spec->flags = how & 64 ? fuzz_byte(in) % 16 : 0;
    spec->max_bytes = how & 128 ? fuzz_any(in) : 0;
}

static bg_plan_request take_request(struct fuzz_input *in)
{
    bg_plan_request ask = BG_PLAN_REQUEST_INIT;
    take_spec(in, &ask.spec);
    ask.growth = take_number(in);
    ask.queries_per_second = take_number(in);
    ask.absent_share = take_number(in);
    ask.call_cost = take_number(in);
    ask.memory_cost = take_number(in);
    ask.call_seconds = take_number(in);
    ask.latency_objective = take_number(in);
    uint8_t damage = fuzz_byte(in);
    if (damage >= 0xf0) {
        ask.struct_size = fuzz_u32(in);
        ask.reserved = fuzz_byte(in);
        ask.spec.struct_size = fuzz_u32(in);
        ask.spec.width = fuzz_byte(in);
    }
    return ask;
}

static bool is_share(double x)
{
    return x >= 0 && x <= 1;
}

static void check_plan(const bg_plan_request *ask, const bg_plan *p)
{
    const bg_spec *spec = &ask->spec;
    FUZZ_MUST(p->kind != BG_KIND_AUTO && bg_kind_name(p->kind)[0] != 'u');
    FUZZ_MUST(!spec->kind || (uint32_t)p->kind == spec->kind);
    FUZZ_MUST(!spec->k || p->k == spec->k);
    FUZZ_MUST(p->k >= 1 && p->k <= 64 && p->units >= 1 && p->bytes >= p->units);
    FUZZ_MUST(p->bytes % p->units == 0);
    FUZZ_MUST(p->units % (UINT64_C(1) << spec->folds) == 0);
    FUZZ_MUST(!spec->max_bytes || p->bytes <= spec->max_bytes);
    FUZZ_MUST(!spec->bytes || p->bytes <= spec->bytes);
    FUZZ_MUST(p->items >= spec->items);
    FUZZ_MUST(is_share(p->rate) && is_share(p->rate_2x) && is_share(p->rate_10x));
    FUZZ_MUST(is_share(p->fill));
    FUZZ_MUST(!(spec->rate > 0) || p->rate <= spec->rate);
    FUZZ_MUST(p->rate < small_rate || p->rate <= p->rate_2x * (1 + 1e-9));
    FUZZ_MUST(p->rate_2x < small_rate || p->rate_2x <= p->rate_10x * (1 + 1e-9));
    FUZZ_MUST(p->cache_level >= 1 && p->cache_level <= 4 && p->lines_per_lookup >= 1);
    FUZZ_MUST(p->calls_wasted >= 0 && p->calls_avoided >= 0 && p->cost >= 0);
    FUZZ_MUST(p->bits_per_key >= 0 && isfinite(p->bits_per_key));
    FUZZ_MUST(p->reason[0] && memchr(p->reason, 0, sizeof p->reason));
}

/* Checks that the spec derived from a plan results in the same plan. If the planned filter is
 * small, also creates it, and checks its kind and size. */
static void check_round_trip(const bg_plan_request *ask, const bg_plan *p)
{
    bg_plan_request again = BG_PLAN_REQUEST_INIT;
    bg_plan q;
    bg_plan_to_spec(p, ask, &again.spec);
    FUZZ_MUST(again.spec.max_bytes == ask->spec.max_bytes);
    FUZZ_MUST(again.spec.flags == ask->spec.flags);
    FUZZ_MUST(bg_plan_compute(&again, &q, NULL) == BG_OK);
    FUZZ_MUST(q.kind == p->kind && q.k == p->k && q.units == p->units);
    FUZZ_MUST(q.bytes == p->bytes && q.items == p->items && q.rate == p->rate);
    if (p->bytes <= 1 << 16) {
        bg_filter *filter = NULL;
        bg_spec planned;
        bg_plan_to_spec(p, ask, &planned);
        FUZZ_MUST(bg_filter_create(&planned, &filter, NULL) == BG_OK);
        FUZZ_MUST(bg_filter_size_bytes(filter) == p->bytes);
        FUZZ_MUST(bg_filter_kind(filter) == p->kind);
        bg_filter_free(filter);
    }
}

static void check_predictions(struct fuzz_input *in)
{
    bg_kind kind = (bg_kind)(fuzz_byte(in) % 7);
    uint64_t bytes = fuzz_any(in), items = fuzz_any(in);
    uint32_t k = fuzz_byte(in) % 70;
    double rate = bg_predict_rate(kind, bytes, k, items);
    FUZZ_MUST(isnan(rate) || is_share(rate));
    uint64_t trials = fuzz_any(in), hits = trials ? fuzz_any(in) % trials : 0;
    bg_estimate e = bg_observed_rate(hits, trials);
    FUZZ_MUST(is_share(e.low) && is_share(e.high) && e.low <= e.value * (1 + 1e-12));
    FUZZ_MUST(e.value <= e.high * (1 + 1e-12));
}

/* Parses a machine description: the rest of the input, or a list of parts that its bytes
 * select. */
static void check_machine(struct fuzz_input *in)
{
    static const char *const parts[] = { "l1=", "l2=",   "l3=", "memory=", "cpus=",
                                         ",",   "1",     "9",   "Ki",      "Mi",
                                         "Pi",  "65536", "0",   "B",       "x" };
    char text[128] = "";
    size_t used = 0;
    const bool raw = fuzz_byte(in) & 1;
    while (in->left && used < sizeof text - 16) {
        const uint8_t byte = fuzz_byte(in);
        const char *part = parts[byte % (sizeof parts / sizeof *parts)];
        const size_t bytes = raw ? 1 : strlen(part);
        memcpy(text + used, raw ? (const char *)&byte : part, bytes);
        used += bytes;
    }
    bg_machine machine, detected, own;
    bg_errinfo why;
    bg_machine_detect(&detected);
    FUZZ_MUST(detected.cpus >= 1);
    FUZZ_MUST(bg_machine_read(NULL, &own, NULL) == BG_OK);
    const bg_err err = bg_machine_read(text, &machine, &why);
    FUZZ_MUST(err == BG_OK || (err == BG_EINVAL && why.message[0]));
    FUZZ_MUST(!err || memcmp(&machine, &own, sizeof machine) == 0);
    FUZZ_MUST(machine.cpus >= 1 && machine.cpus <= 65536);
    FUZZ_MUST(machine.memory_bytes <= UINT64_C(1) << 56);
    for (int i = 0; i < 3; i++) {
        FUZZ_MUST(machine.cache_bytes[i] <= UINT64_C(1) << 36);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = { data, size };
    bg_plan_request ask = take_request(&in);
    bg_plan plan, before;
    bg_errinfo why;
    memset(&plan, 0x5a, sizeof plan);
    before = plan;
    bg_err err = bg_plan_compute(&ask, &plan, &why);
    FUZZ_MUST(why.code == err && (err == BG_OK) == (why.message[0] == 0));
    if (err) {
        FUZZ_MUST(err == BG_EINVAL || err == BG_ENOMEM || err == BG_ENOTSUP);
        FUZZ_MUST(memcmp(&plan, &before, sizeof plan) == 0);
    } else {
        check_plan(&ask, &plan);
        check_round_trip(&ask, &plan);
    }
    check_predictions(&in);
    check_machine(&in);
    return 0;
}
