/* A gate's statistics (counts and rates) and the rebuilds that they trigger. */
#include "support/adds.h"
#include "support/gate_world.h"

#include <math.h>
#include <stdio.h>

/* ---- Statistics -------------------------------------------------------------------- */

/* Returns the filter's actual false-positive rate over all absent keys in the test. */
static double true_rate(const struct world *w)
{
    uint64_t hits = 0;
    for (uint64_t key = PRESENT; key < KEYS; key++) {
        hits += maybe(w, key);
    }
    return (double)hits / (KEYS - PRESENT);
}

/* Each key is looked up the same number of times, so the observed rate must be the true rate. */
TEST(gate__observes_the_true_rate_and_avoids_as_planned)
{
    static const double rates[] = { 0.2, 0.05, 0.01 };
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        struct world *w = world_make(rates[i]);
        world_open(w);
        const double rate = true_rate(w);
        const uint64_t absent = 5 * (KEYS - PRESENT);
        for (uint64_t k = 0; k < 5 * KEYS; k++) {
            (void)look(w, k * 7 % KEYS);
        }
        bg_gate_info s = stats_of(w->gate, true);
        CHECK_EQ(s.avoided + s.wasted, absent);
        CHECK_NEAR(s.observed.value, rate, 1e-9);
        CHECK(s.observed.low < rate && rate < s.observed.high);
        CHECK(s.observed.high - s.observed.low < 0.02);
        CHECK_NEAR(s.avoided, (double)absent * (1 - rate), 1e-9);
        CHECK_NEAR(s.avoided, (double)absent * (1 - rates[i]), 0.03);
        CHECK(s.predicted > 0.5 * rates[i] && s.predicted < 1.5 * rates[i]);
        CHECK_EQ(s.drifting, 0);
        world_end(w);
    }
}

/* The interval should include the true rate in 95% of the samples. */
TEST(gate__the_observed_interval_is_one_of_95_percent)
{
    enum { SAMPLES = 300, LOOKS = 1000 };
    struct world *w = world_make(0.05);
    const double rate = true_rate(w);
    int inside = 0, above = 0;
    for (int sample = 0; sample < SAMPLES; sample++) {
        world_open(w);
        for (int k = 0; k < LOOKS; k++) {
            (void)look(w, PRESENT + check_random_below(KEYS - PRESENT));
        }
        const bg_estimate seen = stats_of(w->gate, false).observed;
        inside += seen.low <= rate && rate <= seen.high;
        above += seen.value > rate;
        bg_gate_free(w->gate);
    }
    w->gate = NULL;
    CHECK(inside > SAMPLES * 88 / 100); /* five standard deviations */
    CHECK(inside < SAMPLES);
    CHECK(above > SAMPLES / 3 && above < 2 * SAMPLES / 3);
    world_end(w);
}

TEST(gate__the_observed_rate_is_that_of_the_filter_whatever_else_is_on)
{
    struct world *w = world_make(0.1);
    w->how.audit = 0.5;
    w->how.negative_entries = 10000;
    w->how.flags = BG_GATE_SINGLE_FLIGHT;
    world_open(w);
    for (uint64_t k = 0; k < 5 * KEYS; k++) {
        (void)look(w, k % KEYS);
    }
    bg_gate_info s = stats_of(w->gate, false);
    CHECK(s.negative_hits > 100);
    CHECK(s.audits > 100);
    CHECK_NEAR(s.observed.value, true_rate(w), 1e-9);
    world_end(w);
}

TEST(gate__sees_that_the_rate_is_not_the_predicted_one)
{
    struct world *w = world_make(0.01);
    world_open(w);
    const uint64_t unlucky = absent_key(w, PRESENT, true);
    for (uint64_t key = PRESENT; key < KEYS; key++) {
        (void)look(w, key);
    }
    CHECK_EQ(stats_of(w->gate, true).drifting, 0);
    /* Simulates an attacker that has found a false positive. */
    for (int i = 0; i < 500; i++) {
        (void)look(w, unlucky);
    }
    CHECK_EQ(stats_of(w->gate, true).drifting, 1);
    CHECK_EQ(stats_of(w->gate, false).drifting, 0); /* not requested */

    bg_slot_health known = { .struct_size = sizeof known };
    bg_gate_info s = { .struct_size = sizeof s };
    CHECK_OK(bg_slot_get_health(w->slot, &known));
    CHECK_OK(bg_gate_get_info(w->gate, &known, &s));
    CHECK_EQ(s.drifting, 1);
    CHECK(s.predicted == known.rate);
    known.rate = 1;
    CHECK_OK(bg_gate_get_info(w->gate, &known, &s));
    CHECK_EQ(s.drifting, 0);
    CHECK_OK(bg_gate_get_info(w->gate, NULL, &s));
    CHECK_EQ(s.drifting, 0);
    CHECK_EQ(bg_gate_get_info(NULL, NULL, &s), BG_EINVAL);
    CHECK_EQ(bg_gate_get_info(w->gate, NULL, NULL), BG_EINVAL);
    known.struct_size = 1;
    CHECK_EQ(bg_gate_get_info(w->gate, &known, &s), BG_EINVAL);
    world_end(w);
}

TEST(gate__a_new_base_has_a_rate_of_its_own)
{
    struct world *w = world_make(0.2);
    world_open(w);
    for (uint64_t key = PRESENT; key < KEYS; key++) {
        (void)look(w, key);
    }
    CHECK(stats_of(w->gate, false).observed.low > 0.1);
    CHECK_OK(bg_slot_swap(w->slot, world_filter(0.001), 0, BG_SLOT_DISCARD, NULL));
    CHECK(stats_of(w->gate, false).observed.low < 0.001);
    for (uint64_t key = PRESENT; key < KEYS; key++) {
        (void)look(w, key);
    }
    bg_gate_info s = stats_of(w->gate, false);
    CHECK(s.observed.high < 0.02);
    CHECK_EQ(s.lookups, 2 * (KEYS - PRESENT)); /* other statistics continue */
    world_end(w);
}

TEST(gate__notices_a_new_base_without_being_asked_for_figures)
{
    struct world *w = world_make(0.2);
    world_open(w);
    for (uint64_t key = PRESENT; key < KEYS; key++) {
        (void)look(w, key);
    }
    CHECK_OK(bg_slot_swap(w->slot, world_filter(0.001), 0, BG_SLOT_DISCARD, NULL));
    for (uint64_t key = PRESENT; key < KEYS; key++) {
        (void)look(w, key);
    }
    bg_gate_info s = stats_of(w->gate, false);
    CHECK(s.observed.high < 0.02);
    CHECK(s.wasted > 100);
    world_end(w);
}

TEST(gate__learns_from_reports)
{
    struct world *w = world_make(0.1);
    world_open(w);
    const double rate = true_rate(w);
    uint64_t reports = 0, wrong = 0, passed = 0;
    for (uint64_t key = 0; key < KEYS; key++) {
        if (bg_gate_may_contain(w->gate, &key, sizeof key) && passed++ % 2 == 0) {
            bg_gate_report(w->gate, w->has[key]); /* reports every second result */
            reports++;
            wrong += !w->has[key];
        }
    }
    bg_gate_info s = stats_of(w->gate, false);
    CHECK_EQ(s.lookups, 0);
    CHECK_EQ(s.store_calls, 0);
    CHECK_EQ(s.reported, reports);
    CHECK_EQ(s.wasted, wrong);
    CHECK(s.observed.low <= rate && rate <= s.observed.high);
    CHECK(s.observed.high < 0.2);
    world_end(w);
}

/* Reports about the previous base do not apply to the current one. */
TEST(gate__reports_are_of_the_present_base)
{
    struct world *w = world_make(0.5);
    world_open(w);
    for (uint64_t key = 0; key < KEYS; key++) {
        (void)bg_gate_may_contain(w->gate, &key, sizeof key);
    }
    CHECK_OK(bg_slot_swap(w->slot, world_filter(0.01), 0, BG_SLOT_DISCARD, NULL));
    const double rate = true_rate(w);
    for (uint64_t key = 0; key < KEYS; key++) {
        if (bg_gate_may_contain(w->gate, &key, sizeof key)) {
            bg_gate_report(w->gate, w->has[key]);
        }
    }
    bg_gate_info s = stats_of(w->gate, false);
    CHECK(s.observed.low <= rate && rate <= s.observed.high);
    CHECK(s.observed.high < 0.02);
    world_end(w);
}

/* ---- Maintenance -------------------------------------------------------------------- */

/* A source that returns all keys in the backing store. */
struct reader {
    struct world *w;
    uint64_t at;
    uint64_t keys[64];
    void (*inside)(struct world *w);
};

static bg_err reader_next(void *context, bg_bytes *keys, size_t room, size_t *n,
                          bg_errinfo *info)
{
    struct reader *r = context;
    (void)info;
    *n = 0;
    for (; r->at < KEYS && *n < room && *n < 64; r->at++) {
        if (r->w->has[r->at]) {
            r->keys[*n] = r->at;
            keys[*n] = (bg_bytes){ &r->keys[*n], sizeof r->at };
            ++*n;
        }
    }
    if (r->at == KEYS && r->inside) {
        void (*inside)(struct world *) = r->inside;
        r->inside = NULL;
        inside(r->w);
    }
    return BG_OK;
}

static bg_rebuild_options rebuilding(bg_kind kind)
{
    bg_rebuild_options how = BG_REBUILD_OPTIONS_INIT;
    how.spec.kind = (uint32_t)kind;
    how.spec.items = 2000;
    how.spec.rate = 0.001;
    return how;
}

TEST(gate__is_rebuilt_when_the_observed_rate_is_too_high)
{
    enum { DELETED = 100 };
    struct world *w = world_make(0.01);
    const bg_rebuild_options how = rebuilding(BG_KIND_BLOCKED);
    struct reader reader = { .w = w };
    const bg_source source = { reader_next, NULL, &reader, PRESENT };
    bg_policy policy = BG_POLICY_INIT;
    uint32_t reasons = 99;
    policy.fill = policy.predicted = 0;
    world_open(w);
    CHECK_OK(bg_gate_maintain(w->gate, &policy, &source, &how, &reasons, NULL));
    CHECK_EQ(reasons, 0);
    CHECK_EQ(reader.at, 0);
    const uint64_t unlucky = absent_key(w, PRESENT, true);
    for (int i = 0; i < 5000; i++) {
        (void)look(w, unlucky);
    }
    CHECK_OK(bg_gate_maintain(w->gate, &policy, NULL, NULL, &reasons, NULL));
    CHECK_EQ(reasons, 0); /* repeated lookups of one key count once */
    const uint64_t lucky = absent_key(w, PRESENT, false);
    for (uint64_t key = 0; key < DELETED; key++) {
        w->has[key] = false;
        CHECK_EQ(look(w, key), BG_OUTCOME_ABSENT_BY_STORE);
    }
    for (int i = 0; i < 850; i++) {
        (void)look(w, lucky);
    }
    CHECK_OK(bg_gate_maintain(w->gate, &policy, NULL, NULL, &reasons, NULL));
    CHECK_EQ(reasons, 0); /* too few lookups */
    for (int i = 0; i < 100; i++) {
        (void)look(w, lucky);
    }
    CHECK_OK(bg_gate_maintain(w->gate, &policy, NULL, NULL, &reasons, NULL));
    CHECK_EQ(reasons, BG_REASON_OBSERVED);
    CHECK_OK(bg_gate_maintain(w->gate, &policy, &source, &how, &reasons, NULL));
    CHECK_EQ(reasons, BG_REASON_OBSERVED);
    CHECK_EQ(reader.at, KEYS);
    CHECK_OK(bg_gate_maintain(w->gate, &policy, &source, &how, &reasons, NULL));
    CHECK_EQ(reasons, 0); /* past events do not cause another rebuild */
    for (uint64_t key = DELETED; key < PRESENT; key++) {
        CHECK_EQ(look(w, key), BG_OUTCOME_PRESENT);
    }
    world_end(w);
}

TEST(gate__doubt_is_a_reason_to_rebuild)
{
    struct world *w = world_make(0.05);
    const bg_rebuild_options how = rebuilding(BG_KIND_BLOCKED);
    struct reader reader = { .w = w };
    const bg_source source = { reader_next, NULL, &reader, 2000 };
    uint32_t reasons = 0;
    world_fill(w);
    world_open(w);
    const uint64_t key = refused_key(w);
    CHECK_EQ(put(w, key), BG_EFULL);
    CHECK_OK(bg_gate_maintain(w->gate, NULL, &source, &how, &reasons, NULL));
    CHECK(reasons & BG_REASON_DEGRADED);
    CHECK_EQ(stats_of(w->gate, false).doubtful, 0);
    CHECK_EQ(look(w, key), BG_OUTCOME_PRESENT);
    CHECK_EQ(look(w, absent_key(w, PRESENT, false)), BG_OUTCOME_ABSENT_BY_FILTER);
    world_end(w);
}

/* Opens a gate on a slot that accepts no adds. Returns a key for which the slot answers "no". */
static uint64_t world_seal(struct world *w)
{
    bg_slot_options sealed = BG_SLOT_OPTIONS_INIT;
    sealed.flags = BG_SLOT_SEALED;
    bg_slot_free(w->slot);
    CHECK_OK(bg_slot_create(world_filter(0.05), &sealed, &w->slot, NULL));
    world_open(w);
    return absent_key(w, PRESENT, false);
}

static void write_late(struct world *w)
{
    const uint64_t key = absent_key(w, PRESENT, false);
    CHECK_EQ(put(w, key), BG_ENOTSUP); /* the source has already read past this key */
}

TEST(gate__a_rebuild_under_way_ends_no_doubt)
{
    struct world *w = world_make(0.05);
    const uint64_t key = world_seal(w);
    const bg_rebuild_options how = rebuilding(BG_KIND_BLOCKED);
    struct reader reader = { .w = w, .inside = write_late };
    const bg_source source = { reader_next, NULL, &reader, PRESENT };
    CHECK_OK(bg_slot_rebuild(w->slot, &source, &how, NULL, NULL));
    CHECK(reader.inside == NULL);
    CHECK(!maybe(w, key));
    CHECK_EQ(look(w, key), BG_OUTCOME_PRESENT);
    CHECK_EQ(stats_of(w->gate, false).doubtful, 1);
    reader = (struct reader){ .w = w };
    CHECK_OK(bg_slot_rebuild(w->slot, &source, &how, NULL, NULL));
    CHECK_EQ(stats_of(w->gate, false).doubtful, 0);
    CHECK_EQ(look(w, key), BG_OUTCOME_PRESENT);
    world_end(w);
}

/* A key that is written while a file is being read, or while a filter is being swapped in, may be
 * missing from that file or filter. So the gate stays in doubt about the key, even if the caller
 * passes BG_SLOT_DISCARD. */
static bool write_while_read(void *context, uint64_t done, uint64_t all)
{
    struct world *w = context;
    (void)done;
    (void)all;
    if (w->inside) {
        w->inside = NULL;
        write_late(w);
    }
    return true;
}

static uint64_t write_while_swapped(void *context)
{
    (void)write_while_read(context, 0, 0);
    return 1000;
}

static void nothing(struct world *w, uint64_t key)
{
    (void)w;
    (void)key;
}

TEST(gate__a_write_during_a_replacement_is_in_doubt)
{
    for (int reloads = 0; reloads < 2; reloads++) {
        struct world *w = world_make(0.05);
        const char *path = files_path("during.bg");
        bg_slot_options sealed = BG_SLOT_OPTIONS_INIT;
        bg_filter *filter = world_filter(0.05);
        bg_open_options opening = BG_OPEN_OPTIONS_INIT;
        bg_reload_options how = BG_RELOAD_OPTIONS_INIT;
        bg_slot_free(w->slot);
        sealed.flags = BG_SLOT_SEALED;
        sealed.clock = reloads ? NULL : write_while_swapped;
        sealed.context = w;
        CHECK_OK(bg_slot_create(world_filter(0.05), &sealed, &w->slot, NULL));
        CHECK_OK(bg_save(filter, path, NULL, NULL));
        world_open(w);
        const uint64_t key = absent_key(w, PRESENT, false);
        opening.progress = write_while_read;
        opening.context = w;
        how.opening = &opening;
        how.flags = BG_SLOT_DISCARD;
        w->inside = nothing; /* non-null until the key has been written */
        if (reloads) {
            CHECK_OK(bg_slot_reload(w->slot, path, &how, NULL));
            bg_filter_free(filter);
        } else {
            CHECK_OK(bg_slot_swap(w->slot, filter, 0, BG_SLOT_DISCARD, NULL));
        }
        CHECK(w->has[key] && !maybe(w, key));
        CHECK_EQ(look(w, key), BG_OUTCOME_PRESENT);
        world_end(w);
        files_clean();
    }
}

/* A base that is rebuilt while a file is being read contains the keys that were written in the
 * meantime, which ends the doubt about them. The file is older than this base, so it must not
 * replace the base. */
static bool rebuild_while_read(void *context, uint64_t done, uint64_t all)
{
    struct world *w = context;
    (void)done;
    (void)all;
    if (w->inside) {
        const bg_rebuild_options how = rebuilding(BG_KIND_BLOCKED);
        struct reader reader = { .w = w };
        const bg_source source = { reader_next, NULL, &reader, PRESENT };
        w->inside = NULL;
        write_late(w);
        CHECK_OK(bg_slot_rebuild(w->slot, &source, &how, NULL, NULL));
        CHECK_EQ(stats_of(w->gate, false).doubtful, 0);
    }
    return true;
}

TEST(gate__a_file_does_not_replace_a_newer_base)
{
    struct world *w = world_make(0.05);
    const char *path = files_path("overtaken.bg");
    const uint64_t key = world_seal(w);
    bg_filter *filter = world_filter(0.05);
    bg_open_options opening = BG_OPEN_OPTIONS_INIT;
    bg_reload_options how = BG_RELOAD_OPTIONS_INIT;
    CHECK_OK(bg_save(filter, path, NULL, NULL));
    bg_filter_free(filter);
    opening.progress = rebuild_while_read;
    opening.context = w;
    how.opening = &opening;
    how.flags = BG_SLOT_DISCARD;
    w->inside = nothing; /* non-null until the slot has been rebuilt */
    CHECK_EQ(bg_slot_reload(w->slot, path, &how, NULL), BG_EBUSY);
    CHECK(w->has[key]);
    CHECK_EQ(look(w, key), BG_OUTCOME_PRESENT);
    /* This caller accepts the loss of the key. */
    CHECK_OK(bg_slot_reload(w->slot, path, &how, NULL));
    CHECK(!maybe(w, key));
    world_end(w);
    files_clean();
}

/* Saves a filter to `path`, writes a key that cannot be added, and rebuilds the base, which ends
 * the doubt about the key. Returns the saved filter, which is older than the base. */
static bg_filter *world_older(struct world *w, uint64_t key, const char *path)
{
    const bg_rebuild_options how = rebuilding(BG_KIND_BLOCKED);
    struct reader reader = { .w = w };
    const bg_source source = { reader_next, NULL, &reader, PRESENT };
    bg_filter *older = world_filter(0.05);
    CHECK_OK(bg_save(older, path, NULL, NULL));
    CHECK_EQ(put(w, key), BG_ENOTSUP);
    CHECK_OK(bg_slot_rebuild(w->slot, &source, &how, NULL, NULL));
    return older;
}

/* A key whose add failed is in doubt until a rebuilt base contains it. A file that may predate the
 * failed add cannot replace such a base, unless the caller accepts the loss of the key. */
TEST(gate__a_base_that_ended_a_doubt_stays)
{
    struct world *w = world_make(0.05);
    const char *path = files_path("older.bg");
    const uint64_t key = world_seal(w);
    bg_filter *older = world_older(w, key, path);
    CHECK_EQ(stats_of(w->gate, false).doubtful, 0);
    CHECK_EQ(bg_slot_reload(w->slot, path, NULL, NULL), BG_EINCOMPAT);
    CHECK_EQ(bg_slot_swap(w->slot, older, 0, 0, NULL), BG_EINCOMPAT);
    CHECK_EQ(look(w, key), BG_OUTCOME_PRESENT);
    CHECK_OK(bg_slot_clear(w->slot, NULL)); /* abandons all keys */
    CHECK_OK(bg_slot_reload(w->slot, path, NULL, NULL));
    bg_filter_free(older);
    world_end(w);
    files_clean();
}

/* A lookup can check for doubtful keys, find none, and then query the filter after an attempt to
 * add another key has failed. Such a lookup trusts the filter, so the base must not be replaced by
 * an older one, even while another key is in doubt. */
TEST(gate__a_base_that_ended_a_doubt_stays_in_the_next_doubt)
{
    struct world *w = world_make(0.05);
    const char *path = files_path("older.bg");
    const uint64_t key = world_seal(w);
    bg_filter *older = world_older(w, key, path);
    CHECK_EQ(put(w, key + 1), BG_ENOTSUP);
    CHECK_EQ(stats_of(w->gate, false).doubtful, 1);
    CHECK_EQ(bg_slot_reload(w->slot, path, NULL, NULL), BG_EINCOMPAT);
    CHECK_EQ(bg_slot_swap(w->slot, older, 0, 0, NULL), BG_EINCOMPAT);
    CHECK(maybe(w, key));
    CHECK_OK(bg_slot_clear(w->slot, NULL)); /* discards only the keys in the base */
    CHECK_EQ(stats_of(w->gate, false).doubtful, 1);
    CHECK_OK(bg_slot_swap(w->slot, older, 0, 0, NULL));
    CHECK_EQ(stats_of(w->gate, false).doubtful, 1);
    world_end(w);
    files_clean();
}

TEST(gate__a_base_that_may_be_older_ends_no_doubt)
{
    struct world *w = world_make(0.05);
    const char *path = files_path("older.bg");
    bg_filter *older = world_filter(0.05);
    bg_reload_options how = BG_RELOAD_OPTIONS_INIT;
    bg_spec spec = BG_SPEC_INIT;
    spec.kind = BG_KIND_BLOCKED;
    spec.items = 100;
    spec.rate = 0.05;
    CHECK_OK(bg_save(older, path, NULL, NULL));
    const uint64_t key = world_seal(w);
    CHECK_EQ(put(w, key), BG_ENOTSUP);
    CHECK_OK(bg_slot_swap(w->slot, older, 0, 0, NULL));
    CHECK_EQ(look(w, key), BG_OUTCOME_PRESENT);
    CHECK_OK(bg_slot_reload(w->slot, path, NULL, NULL));
    CHECK_EQ(look(w, key), BG_OUTCOME_PRESENT);
    CHECK_OK(bg_slot_set_delta(w->slot, must_create(&spec), NULL));
    CHECK_EQ(look(w, key), BG_OUTCOME_PRESENT);
    CHECK_OK(bg_slot_begin_migration(w->slot, world_filter(0.01), NULL));
    CHECK_OK(bg_slot_end_migration(w->slot, true, NULL));
    CHECK_EQ(look(w, key), BG_OUTCOME_PRESENT);
    CHECK_EQ(stats_of(w->gate, false).doubtful, 1);
    CHECK(!maybe(w, key));
    how.flags = BG_SLOT_DISCARD; /* the caller declares that the keys may be lost */
    bg_filter *newer = world_filter(0.01);
    bg_save_options saving = BG_SAVE_OPTIONS_INIT;
    saving.generation = 2;
    (void)added(newer, &key, sizeof key);
    CHECK_OK(bg_save(newer, path, &saving, NULL));
    CHECK_OK(bg_slot_reload(w->slot, path, &how, NULL));
    CHECK_EQ(stats_of(w->gate, false).doubtful, 0);
    CHECK_EQ(look(w, key), BG_OUTCOME_PRESENT);
    bg_filter_free(newer);
    world_end(w);
}
