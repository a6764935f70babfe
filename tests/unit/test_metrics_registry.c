/*
 * Metrics of registries: their own values, and those of tenants that are in memory. Reading
 * the metrics neither keeps tenants in memory nor loads them.
 */
#include "support/files.h"
#include "support/metrics_reader.h"

#define SECOND UINT64_C(1000000000)

enum { TENANTS = 5, IDLE = 60 };

static struct reader reader;
static uint64_t the_time;

static uint64_t tell_time(void *context)
{
    (void)context;
    return the_time;
}

static bg_store_answer ask(void *context, const void *key, size_t len, void *request)
{
    (void)context;
    (void)key;
    (void)len;
    (void)request;
    return BG_STORE_ABSENT;
}

static bg_registry *make_registry(const bg_gate_options *gate)
{
    bg_registry_options options = BG_REGISTRY_OPTIONS_INIT;
    bg_registry *registry = NULL;
    the_time = 1000 * SECOND;
    options.spec.items = 1000;
    options.spec.rate = 0.01;
    options.clock = tell_time;
    options.directory = files_folder();
    options.idle = IDLE * SECOND;
    options.max_items = 10;
    options.gate = gate;
    CHECK_OK(bg_registry_create(&options, &registry, NULL));
    return registry;
}

static const char *name_of(unsigned i)
{
    static const char *const names[TENANTS] = { "acme", "b\"c", "d\\", "\xC3\xA4",
                                                "\xFF" };
    return names[i];
}

/* Adds n keys to a tenant, up to its quota. */
static void use(bg_registry *registry, const char *name, uint64_t n)
{
    bg_tenant *tenant = NULL;
    CHECK_OK(bg_registry_get(registry, name, BG_REGISTRY_CREATE, &tenant, NULL));
    for (uint64_t i = 0; i < n; i++) {
        bg_err err = bg_tenant_add(tenant, &i, sizeof i, NULL, NULL);
        CHECK(err == BG_OK || err == BG_EQUOTA);
    }
    bg_tenant_release(tenant);
}

static void write_to(bg_registry *registry, size_t most, bg_metrics_format format,
                     uint32_t flags)
{
    bg_errinfo why;
    reader_reset(&reader);
    if (bg_metrics_write_registry(registry, most, format, flags, reader_sink, &reader,
                                  &why)) {
        check_fail(__FILE__, __LINE__, "%s", why.message);
    }
    reader_read(&reader, format);
}

static double own(const char *name, const char *labels)
{
    char whole[READER_NAME];
    (void)snprintf(whole, sizeof whole, "bloomgate_registry_%s", name);
    return reader_number(&reader, whole, labels);
}

TEST(registry__tells_of_itself_and_of_tenants)
{
    bg_registry *registry = make_registry(NULL);
    for (unsigned i = 0; i < TENANTS; i++) {
        use(registry, name_of(i), 3 * i);
    }
    for (unsigned format = 0; format <= BG_METRICS_JSON; format++) {
        write_to(registry, 100, (bg_metrics_format)format, 0);
        CHECK(own("tenants", "state=memory") == TENANTS);
        CHECK(own("tenants", "state=folder") == 0);
        CHECK(own("reported_tenants", "") == TENANTS);
        CHECK(own("created_tenants_total", "") == TENANTS);
        CHECK(own("removed_tenants_total", "") == 0);
        CHECK(own("limited_total", "") == 2);
        CHECK(own("size_bytes", "")
              == TENANTS
                     * reader_number(&reader, "bloomgate_filter_size_bytes",
                                     "filter=acme"));
        CHECK(reader_number(&reader, "bloomgate_tenant_items", "filter=b\"c") == 3);
        CHECK(reader_number(&reader, "bloomgate_tenant_items", "filter=\\xff") == 10);
        CHECK(reader_number(&reader, "bloomgate_tenant_limited_total",
                            "filter=\\xff,reason=items")
              == 2);
        CHECK(reader_number(&reader, "bloomgate_filter_inserts_total",
                            "filter=d\\,result=new")
              == 6);
        CHECK(reader_number(&reader, "bloomgate_filter_capacity_items", "filter=d\\")
              == 1000);
    }
    bg_registry_free(registry);
    files_clean();
}

TEST(registry__tells_of_no_more_tenants_than_asked_for)
{
    bg_registry *registry = make_registry(NULL);
    for (unsigned i = 0; i < TENANTS; i++) {
        use(registry, name_of(i), 1);
    }
    for (size_t most = 0; most < TENANTS + 2; most++) {
        size_t told = most < TENANTS ? most : TENANTS;
        write_to(registry, most, BG_METRICS_PROMETHEUS, BG_METRICS_CHEAP);
        CHECK(own("reported_tenants", "") == (double)told);
        CHECK(own("tenants", "state=memory") == TENANTS);
        size_t samples = 0;
        for (size_t i = 0; i < reader.samples_n; i++) {
            samples +=
                strcmp(reader.samples[i].family->name, "bloomgate_tenant_items") == 0;
        }
        CHECK_EQ(samples, told);
    }
    bg_registry_free(registry);
    files_clean();
}

TEST(registry__looking_is_no_use)
{
    bg_registry *registry = make_registry(NULL);
    size_t evicted = 0;
    use(registry, "acme", 5);
    for (unsigned i = 0; i < 4; i++) {
        the_time += IDLE / 4 * SECOND + SECOND;
        write_to(registry, 100, BG_METRICS_PROMETHEUS, 0);
        CHECK(own("reported_tenants", "") == 1);
    }
    CHECK_OK(bg_registry_tick(registry, &evicted, NULL));
    CHECK_EQ(evicted, 1);
    for (unsigned i = 0; i < 3; i++) {
        write_to(registry, 100, BG_METRICS_PROMETHEUS, 0);
        CHECK(own("tenants", "state=memory") == 0);
        CHECK(own("tenants", "state=folder") == 1);
        CHECK(own("reported_tenants", "") == 0);
        CHECK(own("evictions_total", "") == 1);
        CHECK(own("returns_total", "result=ok") == 0);
    }
    use(registry, "acme", 5);
    write_to(registry, 100, BG_METRICS_PROMETHEUS, 0);
    CHECK(own("returns_total", "result=ok") == 1);
    CHECK(reader_number(&reader, "bloomgate_tenant_returns_total",
                        "filter=acme,result=ok")
          == 1);
    CHECK(reader_number(&reader, "bloomgate_tenant_evictions_total", "filter=acme")
          == 1);
    bg_registry_free(registry);
    files_clean();
}

TEST(registry__tenants_with_gates)
{
    bg_gate_options options = BG_GATE_OPTIONS_INIT;
    bg_tenant *tenant = NULL;
    options.query = ask;
    bg_registry *registry = make_registry(&options);
    use(registry, "acme", 2);
    CHECK_OK(bg_registry_get(registry, "acme", 0, &tenant, NULL));
    (void)bg_gate_lookup(bg_tenant_gate(tenant), "zebra", 5, NULL);
    write_to(registry, 100, BG_METRICS_OPENMETRICS, 0);
    CHECK(reader_number(&reader, "bloomgate_gate_lookups_total",
                        "filter=acme,outcome=absent_by_filter")
              + reader_number(&reader, "bloomgate_gate_lookups_total",
                              "filter=acme,outcome=absent_by_truth")
          == 1);
    bg_tenant_release(tenant);
    bg_registry_free(registry);
    files_clean();
}

static bool refuse(void *context, const char *text, size_t len)
{
    (void)context;
    (void)text;
    (void)len;
    return false;
}

TEST(registry__arguments_and_sinks)
{
    bg_errinfo why;
    bg_registry *registry = make_registry(NULL);
    CHECK(bg_metrics_write_registry(NULL, 1, BG_METRICS_JSON, 0, refuse, NULL, &why)
          == BG_EINVAL);
    CHECK_STR(why.what, "registry");
    CHECK(bg_metrics_write_registry(registry, 1, BG_METRICS_JSON, 0, NULL, NULL, &why)
          == BG_EINVAL);
    CHECK(bg_metrics_write_registry(registry, 1, BG_METRICS_JSON, 8, refuse, NULL, &why)
          == BG_EINVAL);
    CHECK(bg_metrics_write_registry(registry, SIZE_MAX, BG_METRICS_JSON, 0, refuse,
                                    NULL, &why)
          == BG_ECANCELED);
    bg_registry_free(registry);
    files_clean();
}
