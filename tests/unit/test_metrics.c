/*
 * Metrics of real slots and gates, read with the public functions. In all three formats, the values
 * match those of the objects themselves, and unknown values are omitted. The text format is tested
 * in test_metrics_document.c, and registries are tested in test_metrics_registry.c.
 */
#include "support/files.h"
#include "support/metrics_reader.h"

enum { KEYS = 500, ABSENT = 2000 };

static struct reader reader;

static void write_items(const bg_metrics_item *items, size_t n,
                        bg_metrics_format format, uint32_t flags)
{
    bg_errinfo why;
    reader_reset(&reader);
    if (bg_metrics_write(items, n, format, flags, reader_sink, &reader, &why)) {
        check_fail(__FILE__, __LINE__, "%s", why.message);
    }
    reader_read(&reader, format);
}

static void write_slot(const bg_slot *slot, uint32_t flags)
{
    bg_metrics_item item = { "users", slot, NULL };
    write_items(&item, 1, BG_METRICS_PROMETHEUS, flags);
}

static bool has_family(const char *name)
{
    for (size_t i = 0; i < reader.families_n; i++) {
        if (strcmp(reader.families[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

/* Returns the value of bloomgate_NAME{filter="users"LABELS}. */
static double users(const char *name, const char *labels)
{
    char whole[READER_NAME + 16], all[READER_NAME + 16];
    (void)snprintf(whole, sizeof whole, "bloomgate_%s", name);
    (void)snprintf(all, sizeof all, "filter=users%s", labels);
    return reader_number(&reader, whole, all);
}

/* ---- Slots ------------------------------------------------------------------------- */

static bg_filter *empty_filter(void)
{
    bg_spec spec = BG_SPEC_INIT;
    spec.kind = BG_KIND_BLOCKED;
    spec.items = 2 * KEYS;
    spec.rate = 0.01;
    return must_create(&spec);
}

static bg_slot *make_slot(bg_filter *filter, const bg_slot_options *options)
{
    bg_slot *slot = NULL;
    CHECK_OK(bg_slot_create(filter, options, &slot, NULL));
    return slot;
}

/* Creates a slot with keys 0 .. KEYS - 1. */
static bg_slot *make_users(void)
{
    bg_slot *slot = make_slot(empty_filter(), NULL);
    for (uint64_t i = 0; i < KEYS; i++) {
        CHECK_OK(bg_slot_add(slot, &i, sizeof i, NULL));
    }
    return slot;
}

TEST(slot__counts_what_was_done)
{
    bg_slot *slot = make_users();
    bg_slot_info stats = { .struct_size = sizeof stats };
    size_t maybes = 0;
    for (uint64_t i = 0; i < KEYS; i++) {
        CHECK_OK(bg_slot_add(slot, &i, sizeof i, NULL)); /* again */
    }
    for (uint64_t i = 0; i < KEYS + ABSENT; i++) {
        maybes += bg_slot_may_contain(slot, &i, sizeof i);
    }
    CHECK_OK(bg_slot_get_info(slot, &stats));
    write_slot(slot, 0);
    CHECK(users("filter_queries_total", ",result=maybe") == (double)maybes);
    CHECK(users("filter_queries_total", ",result=no")
          == (double)(KEYS + ABSENT - maybes));
    CHECK(users("filter_inserts_total", ",result=new") == (double)stats.news);
    CHECK(users("filter_inserts_total", ",result=maybe_present")
          == (double)(2 * KEYS - stats.news));
    CHECK(users("filter_inserts_total", ",result=rejected") == 0);
    CHECK(stats.news > KEYS / 2 && stats.news <= KEYS);
    bg_slot_free(slot);
}

TEST(slot__tells_its_health)
{
    bg_slot *slot = make_users();
    bg_slot_health health = { .struct_size = sizeof health };
    CHECK_OK(bg_slot_get_health(slot, &health));
    write_slot(slot, 0);
    CHECK(users("filter_capacity_items", "") == 2 * KEYS);
    CHECK(users("filter_items", "") == health.items.value);
    CHECK(users("filter_low_items", "") == health.items.low);
    CHECK(users("filter_high_items", "") == health.items.high);
    CHECK(users("filter_low_items", "") <= KEYS
          && users("filter_high_items", "") >= KEYS);
    CHECK(users("filter_fill_ratio", "") == health.fill);
    CHECK(users("filter_target_fpr_ratio", "") == health.target);
    CHECK_NEAR(users("filter_target_fpr_ratio", ""), 0.01, 0.2);
    CHECK(users("filter_predicted_fpr_ratio", "") == health.rate);
    CHECK(users("filter_predicted_fpr_ratio", "") < 0.01);
    CHECK(users("filter_fpr_health", "") == BG_HEALTH_FINE);
    CHECK(users("filter_ones_per_insert", "") == health.bits_per_insert);
    CHECK(users("filter_honest_ones_per_insert", "") == health.honest_per_insert);
    CHECK(users("filter_size_bytes", "") == (double)health.bytes);
    CHECK(users("filter_degraded", "") == 0);
    CHECK(users("filter_overflowed", "") == 0);
    CHECK(users("filter_polluted", "") == 0);
    CHECK(users("filter_layers", "") == 1);
    bg_slot_free(slot);
}

TEST(slot__cheap_reads_no_filter)
{
    static const char *const left_out[] = {
        "capacity_items",
        "items",
        "low_items",
        "high_items",
        "fill_ratio",
        "target_fpr_ratio",
        "overflowed",
        "polluted",
        "predicted_fpr_ratio",
        "fpr_health",
        "measured_fpr_ratio",
        "measured_low_fpr_ratio",
        "measured_high_fpr_ratio",
        "ones_per_insert",
        "honest_ones_per_insert",
    };
    bg_slot *slot = make_users();
    write_slot(slot, 0);
    size_t all = reader.families_n;
    write_slot(slot, BG_METRICS_CHEAP);
    CHECK_EQ(reader.families_n, all - sizeof left_out / sizeof left_out[0]);
    for (size_t i = 0; i < sizeof left_out / sizeof left_out[0]; i++) {
        char name[READER_NAME];
        (void)snprintf(name, sizeof name, "bloomgate_filter_%s", left_out[i]);
        CHECK(!has_family(name));
    }
    CHECK(users("filter_size_bytes", "") > 0);
    bg_slot_free(slot);
}

TEST(slot__figures_that_are_known_are_told)
{
    bg_slot *slot = make_users();
    const bg_metrics_item item = { "users", slot, NULL };
    const bg_slot_health known = { .struct_size = sizeof known,
                                   .items = { 17, 16, 18 },
                                   .fill = 0.25,
                                   .rate = 0.125 };
    const bg_slot_health *const healths[] = { &known };
    bg_errinfo why;
    reader_reset(&reader);
    CHECK_EQ(bg_metrics_write_known(&item, healths, 1, BG_METRICS_PROMETHEUS,
                                    reader_sink, &reader, &why),
             BG_OK);
    reader_read(&reader, BG_METRICS_PROMETHEUS);
    CHECK(users("filter_items", "") == 17);
    CHECK(users("filter_high_items", "") == 18);
    CHECK(users("filter_fill_ratio", "") == 0.25);
    CHECK(users("filter_predicted_fpr_ratio", "") == 0.125);
    bg_slot_free(slot);
}

TEST(slot__says_what_it_is)
{
    char labels[READER_NAME];
    bg_slot *slot = make_users();
    write_slot(slot, BG_METRICS_CHEAP);
    CHECK(users("filter_info", ",kind=blocked,hash=fast") == 1);
    (void)snprintf(labels, sizeof labels, "version=%s,cpu=%s", bg_version(),
                   bg_cpu_name(bg_cpu_current()));
    CHECK(reader_number(&reader, "bloomgate_build_info", labels) == 1);
    CHECK(!has_family("bloomgate_gate_lookups_total"));
    CHECK(!has_family("bloomgate_tenant_items"));
    CHECK(!has_family("bloomgate_registry_tenants"));
    CHECK(!has_family("bloomgate_filter_last_failure_info"));
    bg_slot_free(slot);
}

TEST(slot__without_a_filter)
{
    bg_slot *slot = make_slot(NULL, NULL);
    write_slot(slot, 0);
    CHECK(users("filter_info", ",kind=none,hash=none") == 1);
    CHECK(users("filter_layers", "") == 0);
    CHECK(users("filter_size_bytes", "") == 0);
    CHECK(users("filter_predicted_fpr_ratio", "") == 1);
    CHECK(!has_family("bloomgate_filter_base_age_seconds"));
    bg_slot_free(slot);
}

static uint64_t test_clock(void *context)
{
    return *(const uint64_t *)context;
}

TEST(slot__tells_its_age)
{
    uint64_t now = 5000000000;
    bg_slot_options options = BG_SLOT_OPTIONS_INIT;
    options.clock = test_clock;
    options.context = &now;
    options.complete = 77;
    bg_slot *slot = make_slot(empty_filter(), &options);
    now += 90500000000;
    write_slot(slot, BG_METRICS_CHEAP);
    CHECK(users("filter_base_age_seconds", "") == 90.5);
    CHECK(users("filter_complete_sequence", "") == 77);
    CHECK_OK(bg_slot_swap(slot, empty_filter(), 78, BG_SLOT_DISCARD, NULL));
    now += 1000000;
    write_slot(slot, BG_METRICS_CHEAP);
    CHECK_NEAR(users("filter_base_age_seconds", ""), 0.001, 1e-12);
    CHECK(users("filter_complete_sequence", "") == 78);
    CHECK(users("filter_swaps_total", "") == 1);
    bg_slot_free(slot);
}

TEST(slot__of_several_filters)
{
    bg_slot *slot = make_users();
    write_slot(slot, BG_METRICS_CHEAP);
    double one = users("filter_size_bytes", "");
    CHECK_OK(bg_slot_set_delta(slot, empty_filter(), NULL));
    write_slot(slot, 0);
    CHECK(users("filter_layers", "") == 2);
    CHECK(users("filter_size_bytes", "") == 2 * one);
    CHECK(users("filter_capacity_items", "") == 4 * KEYS);
    CHECK(users("filter_migrating", "") == 0);
    bg_slot_free(slot);

    slot = make_users();
    CHECK_OK(bg_slot_begin_migration(slot, empty_filter(), NULL));
    write_slot(slot, 0);
    CHECK(users("filter_layers", "") == 2);
    CHECK(users("filter_migrating", "") == 1);
    CHECK(users("filter_items", "") > KEYS * 0.5);
    bg_slot_free(slot);
}

/* ---- Files and sources ------------------------------------------------------------- */

/* Flips a bit in the middle of a file. */
static void damage(const char *path)
{
    FILE *file = fopen(path, "r+b");
    CHECK(file && fseek(file, 0, SEEK_END) == 0);
    long middle = ftell(file) / 2;
    CHECK(fseek(file, middle, SEEK_SET) == 0);
    int byte = fgetc(file);
    CHECK(fseek(file, middle, SEEK_SET) == 0 && fputc(byte ^ 1, file) != EOF);
    CHECK(fclose(file) == 0);
}

TEST(file__of_a_slot)
{
    const char *path = files_path("users.bg");
    char labels[READER_NAME];
    bg_slot_options options = BG_SLOT_OPTIONS_INIT;
    bg_save_options saving = BG_SAVE_OPTIONS_INIT;
    bg_slot_info stats = { .struct_size = sizeof stats };
    bg_filter *filter = files_make(2, 12);
    options.flags = BG_SLOT_SEALED;
    saving.generation = 12;
    CHECK_OK(bg_save(filter, path, &saving, NULL));
    bg_filter_free(filter);
    bg_slot *slot = make_slot(NULL, &options);
    CHECK_OK(bg_slot_reload(slot, path, NULL, NULL));
    CHECK_OK(bg_slot_reload(slot, path, NULL, NULL));
    CHECK(bg_slot_reload(slot, files_path("missing"), NULL, NULL) == BG_EIO);
    CHECK_OK(bg_slot_get_info(slot, &stats));
    write_slot(slot, BG_METRICS_CHEAP);
    (void)snprintf(labels, sizeof labels, ",kind=blocked,hash=fast,digest=%s",
                   stats.digest);
    CHECK(users("filter_info", labels) == 1);
    CHECK(users("filter_generation", "") == 12);
    CHECK(users("filter_reloads_total", ",result=ok") == 1);
    CHECK(users("filter_reloads_total", ",result=unchanged") == 1);
    CHECK(users("filter_reloads_total", ",result=failed") == 1);
    CHECK(users("filter_last_failure_info", ",error=BG_EIO") == 1);
    bg_slot_free(slot);
    files_clean();
}

TEST(file__damaged_is_told_even_cheaply)
{
    const char *path = files_path("users.bg");
    bg_open_options anyway = BG_OPEN_OPTIONS_INIT;
    bg_spec spec = BG_SPEC_INIT;
    /* The filter is so large that the middle of the file contains filter data. */
    spec.items = 50000;
    spec.rate = 0.01;
    bg_filter *filter = must_create(&spec);
    CHECK_OK(bg_save(filter, path, NULL, NULL));
    bg_filter_free(filter);
    damage(path);
    anyway.flags = BG_FILE_TOLERATE_DAMAGE;
    CHECK_OK(bg_open(path, &anyway, &filter, NULL));
    bg_slot *slot = make_slot(filter, NULL);
    write_slot(slot, BG_METRICS_CHEAP);
    CHECK(users("filter_degraded", "") == 1);
    write_slot(slot, 0);
    CHECK(users("filter_degraded", "") == 1);
    bg_slot_free(slot);
    files_clean();
}

static bg_err no_keys(void *context, bg_bytes *keys, size_t room, size_t *n,
                      bg_errinfo *info)
{
    (void)keys;
    (void)room;
    (void)info;
    *n = 0;
    return *(bg_err *)context;
}

TEST(source__rebuilds_are_counted)
{
    bg_slot *slot = make_users();
    bg_err answer = BG_EIO;
    bg_source source = { .next = no_keys, .context = &answer, .count = 10 };
    bg_rebuild_options how = BG_REBUILD_OPTIONS_INIT;
    CHECK(bg_slot_rebuild(slot, &source, &how, NULL, NULL) == BG_EIO);
    answer = BG_OK;
    CHECK_OK(bg_slot_rebuild(slot, &source, &how, NULL, NULL));
    write_slot(slot, BG_METRICS_CHEAP);
    CHECK(users("filter_rebuilds_total", ",result=ok") == 1);
    CHECK(users("filter_rebuilds_total", ",result=failed") == 1);
    CHECK(users("filter_rebuilding", "") == 0);
    bg_slot_free(slot);
}

/* ---- Gates ------------------------------------------------------------------------- */

static bg_store_answer ask(void *context, const void *key, size_t len, void *request)
{
    uint64_t number;
    bool *down = context;
    (void)request;
    CHECK_EQ(len, sizeof number);
    memcpy(&number, key, sizeof number);
    return *down ? BG_STORE_ERROR : number < KEYS ? BG_STORE_PRESENT : BG_STORE_ABSENT;
}

struct gated {
    bg_slot *slot;
    bg_gate *gate;
    bool down;
};

static void look_up(const struct gated *gated, uint64_t from, uint64_t to)
{
    for (uint64_t i = from; i < to; i++) {
        (void)bg_gate_lookup(gated->gate, &i, sizeof i, NULL);
    }
}

/* Creates a gate, uses it, and then simulates a failure of its store. */
static void make_gated(struct gated *gated)
{
    bg_gate_options options = BG_GATE_OPTIONS_INIT;
    gated->slot = make_users();
    gated->down = false;
    options.query = ask;
    options.context = &gated->down;
    options.audit = 0.5;
    options.breaker_failures = 3;
    options.breaker_rest = UINT64_C(3600000000000);
    options.negative_entries = 1000;
    options.negative_ttl = UINT64_C(3600000000000);
    CHECK_OK(bg_gate_create(gated->slot, &options, &gated->gate, NULL));
    look_up(gated, 0, KEYS + ABSENT);
    look_up(gated, KEYS, KEYS + ABSENT); /* the cache answers for false positives */
    bg_gate_report(gated->gate, true);
    gated->down = true;
    look_up(gated, 0, 10);
}

TEST(gate__tells_its_figures)
{
    struct gated gated;
    make_gated(&gated);
    bg_gate_info stats = { .struct_size = sizeof stats };
    bg_metrics_item item = { "users", NULL, gated.gate }; /* its own slot */
    bg_slot_health health = { .struct_size = sizeof health };
    CHECK_OK(bg_slot_get_health(bg_gate_slot(gated.gate), &health));
    CHECK_OK(bg_gate_get_info(gated.gate, &health, &stats));
    write_items(&item, 1, BG_METRICS_PROMETHEUS, 0);
    double all = 0;
    for (unsigned i = 0; i < BG_OUTCOME_PENDING; i++) {
        char labels[READER_NAME];
        (void)snprintf(labels, sizeof labels, ",outcome=%s",
                       bg_outcome_name((bg_outcome)i));
        CHECK(users("gate_lookups_total", labels) == (double)stats.outcomes[i]);
        all += (double)stats.outcomes[i];
    }
    CHECK(all == KEYS + 2 * ABSENT + 10);
    CHECK(users("gate_truth_calls_total", "") == (double)stats.store_calls);
    CHECK(users("gate_truth_errors_total", "") == 3);
    CHECK_NEAR(users("gate_truth_seconds_total", ""),
               (double)stats.store_nanoseconds / 1e9, 1e-12);
    CHECK(users("gate_avoided_calls_total", "") == (double)stats.avoided);
    CHECK(users("gate_wasted_calls_total", "") == (double)stats.wasted);
    CHECK(users("gate_audits_total", "") == (double)stats.audits);
    CHECK(stats.audits > ABSENT / 2 && stats.avoided > ABSENT / 2);
    CHECK(users("gate_false_negatives_total", "") == 0);
    CHECK(users("gate_reports_total", "") == 1);
    CHECK(users("gate_negative_cache_entries", "") == (double)stats.negative_entries);
    CHECK(users("gate_negative_cache_hits_total", "") == (double)stats.negative_hits);
    CHECK(users("gate_observed_fpr_ratio", "") == stats.observed.value);
    CHECK(users("gate_observed_low_fpr_ratio", "") == stats.observed.low);
    CHECK(users("gate_observed_high_fpr_ratio", "") == stats.observed.high);
    CHECK(stats.observed.low < stats.observed.high);
    CHECK(users("gate_drifting", "") == stats.drifting);
    CHECK(users("filter_layers", "") == 1);
    bg_gate_free(gated.gate);
    bg_slot_free(gated.slot);
}

TEST(gate__breaker_and_writes)
{
    struct gated gated;
    make_gated(&gated);
    uint64_t key = 3;
    bg_metrics_item item = { "users", gated.slot, gated.gate };
    CHECK_OK(bg_gate_add(gated.gate, &key, sizeof key));
    write_items(&item, 1, BG_METRICS_PROMETHEUS, BG_METRICS_CHEAP);
    CHECK(users("gate_breaker_state", "") == 1);
    CHECK(users("gate_breaker_opened_total", "") == 1);
    CHECK(users("gate_breaker_spared_calls_total", "") == 7);
    CHECK(users("gate_lookups_total", ",outcome=unknown") == 10);
    CHECK(users("gate_writes_total", "") == 1);
    CHECK(users("gate_write_errors_total", "") == 0);
    CHECK(users("gate_shared_lookups_total", "") == 0);
    CHECK(users("gate_doubtful", "") == 0);
    /* Only the cheap metrics are included. */
    CHECK(!has_family("bloomgate_gate_drifting"));
    CHECK(has_family("bloomgate_gate_observed_fpr_ratio"));
    bg_gate_free(gated.gate);
    bg_slot_free(gated.slot);
}

TEST(gate__false_negatives_are_told)
{
    struct gated gated;
    bg_gate_options options = BG_GATE_OPTIONS_INIT;
    bg_metrics_item item;
    /* The filter is empty, although the store contains keys. */
    gated.slot = make_slot(empty_filter(), NULL);
    gated.down = false;
    options.query = ask;
    options.context = &gated.down;
    options.audit = 1;
    CHECK_OK(bg_gate_create(gated.slot, &options, &gated.gate, NULL));
    look_up(&gated, 0, 5);
    item = (bg_metrics_item){ "users", NULL, gated.gate };
    write_items(&item, 1, BG_METRICS_PROMETHEUS, BG_METRICS_CHEAP);
    CHECK(users("gate_false_negatives_total", "") == 5);
    bg_gate_free(gated.gate);
    bg_slot_free(gated.slot);
}

/* ---- Documents --------------------------------------------------------------------- */

TEST(document__of_several_items_in_three_formats)
{
    struct gated gated;
    make_gated(&gated);
    bg_slot *other = make_slot(NULL, NULL);
    bg_metrics_item items[] = { { "users", gated.slot, gated.gate },
                                { "a \"b\"\n", other, NULL },
                                { "", gated.slot, NULL } };
    for (unsigned format = 0; format <= BG_METRICS_JSON; format++) {
        write_items(items, 3, (bg_metrics_format)format, BG_METRICS_CHEAP);
        CHECK(users("filter_layers", "") == 1);
        CHECK(reader_number(&reader, "bloomgate_filter_layers", "filter=a \"b\"\n")
              == 0);
        CHECK(reader_number(&reader, "bloomgate_filter_layers", "filter=") == 1);
        CHECK(users("gate_audits_total", "") > 0);
        CHECK(!reader_find(&reader, "bloomgate_gate_audits_total", "filter="));
    }
    write_items(NULL, 0, BG_METRICS_JSON, 0);
    CHECK_EQ(reader.samples_n, 1); /* the build */
    bg_gate_free(gated.gate);
    bg_slot_free(gated.slot);
    bg_slot_free(other);
}

/* Tests the example in metrics.h. */
TEST(document__reads_as_promised)
{
    bg_slot *slot = make_slot(empty_filter(), NULL);
    write_slot(slot, 0);
    CHECK(strstr(reader.text,
                 "\n# HELP bloomgate_filter_items Estimated number of distinct keys in "
                 "the filter.\n# TYPE bloomgate_filter_items gauge\n"
                 "bloomgate_filter_items{filter=\"users\"} 0\n"));
    bg_slot_free(slot);
}

static bool refuse(void *context, const char *text, size_t len)
{
    (void)text;
    (void)len;
    ++*(unsigned *)context;
    return false;
}

TEST(document__stops_when_the_sink_says_so)
{
    unsigned calls = 0;
    bg_errinfo why;
    bg_slot *slot = make_users();
    bg_metrics_item item = { "users", slot, NULL };
    CHECK(bg_metrics_write(&item, 1, BG_METRICS_JSON, 0, refuse, &calls, &why)
          == BG_ECANCELED);
    CHECK_EQ(why.code, BG_ECANCELED);
    CHECK_EQ(calls, 1);
    bg_slot_free(slot);
}

static bool use_the_slot(void *context, const char *text, size_t len)
{
    (void)text;
    (void)len;
    return bg_slot_swap(context, empty_filter(), 0, BG_SLOT_DISCARD, NULL) == BG_OK;
}

/* Nothing is pinned or locked while the sink is running. */
TEST(document__sink_may_change_the_slot)
{
    bg_slot *slot = make_users();
    bg_metrics_item item = { "users", slot, NULL };
    CHECK_OK(
        bg_metrics_write(&item, 1, BG_METRICS_PROMETHEUS, 0, use_the_slot, slot, NULL));
    write_slot(slot, BG_METRICS_CHEAP);
    CHECK(users("filter_swaps_total", "") >= 1);
    bg_slot_free(slot);
}

static bg_err write_wrong(const bg_metrics_item *items, size_t n, bg_errinfo *why)
{
    reader_reset(&reader);
    bg_err err =
        bg_metrics_write(items, n, BG_METRICS_PROMETHEUS, 0, reader_sink, &reader, why);
    CHECK_EQ(reader.len, 0);
    CHECK_EQ(why->code, err);
    return err;
}

TEST(arguments__are_checked)
{
    bg_errinfo why;
    bg_slot *slot = make_slot(NULL, NULL);
    bg_metrics_item items[] = { { "a", slot, NULL }, { NULL, slot, NULL } };
    CHECK(write_wrong(NULL, 1, &why) == BG_EINVAL);
    CHECK_STR(why.what, "items");
    CHECK(write_wrong(items, 2, &why) == BG_EINVAL);
    CHECK_STR(why.what, "name");
    items[1] = (bg_metrics_item){ "b", NULL, NULL };
    CHECK(write_wrong(items, 2, &why) == BG_EINVAL);
    CHECK_STR(why.what, "item");
    CHECK(
        bg_metrics_write(items, 1, (bg_metrics_format)9, 0, reader_sink, &reader, NULL)
        == BG_EINVAL);
    CHECK(bg_metrics_write(items, 1, BG_METRICS_JSON, 4, reader_sink, &reader, NULL)
          == BG_EINVAL);
    CHECK(bg_metrics_write(items, 1, BG_METRICS_JSON, 0, NULL, NULL, NULL)
          == BG_EINVAL);
    CHECK_OK(
        bg_metrics_write(items, 1, BG_METRICS_JSON, 0, reader_sink, &reader, NULL));
    bg_slot_free(slot);
}
