/* test_gates.c - tests the service's gates with a SQLite source: settings, life cycle, trust and
 * threads. */
#define _GNU_SOURCE /* mkdtemp, nanosleep */

#include "server/support/source_world.h"

#include "gates/gates.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>

/* ---- Helpers ------------------------------------------------------------------------------- */

enum { LOG_EVENTS = 1024 };

/* The events reported by the gates. */
struct diary {
    pthread_mutex_t lock;
    int kinds[LOG_EVENTS];
    uint64_t keys[LOG_EVENTS];
    size_t n;
    char last[16][128]; /* text of the last event of each kind */
};

static void diary_event(void *context, const struct gate_event *event)
{
    struct diary *diary = context;
    (void)pthread_mutex_lock(&diary->lock);
    if (diary->n < LOG_EVENTS) {
        diary->kinds[diary->n] = (int)event->kind;
        diary->keys[diary->n++] = event->keys;
    }
    (void)snprintf(diary->last[event->kind], sizeof diary->last[0], "%s", event->text);
    (void)pthread_mutex_unlock(&diary->lock);
}

static size_t diary_count(struct diary *diary, enum gate_event_kind kind)
{
    size_t n = 0;
    (void)pthread_mutex_lock(&diary->lock);
    for (size_t i = 0; i < diary->n; i++) {
        n += diary->kinds[i] == (int)kind;
    }
    (void)pthread_mutex_unlock(&diary->lock);
    return n;
}

static void moment(void)
{
    static const struct timespec short_time = { 0, 500000 };
    (void)nanosleep(&short_time, NULL);
}

/* Waits until the condition is true, and checks it every 0.5 ms. Only tests that fail reach the timeout. */
#define AWAIT(condition)                                                               \
    do {                                                                               \
        const uint64_t until_ = source_now() + UINT64_C(300000000000);                 \
        bool holds_ = (condition);                                                     \
        while (!holds_ && source_now() < until_) {                                     \
            moment();                                                                  \
            holds_ = (condition);                                                      \
        }                                                                              \
        if (!holds_) {                                                                 \
            check_fail(__FILE__, __LINE__, "still false after five minutes: %s",       \
                       #condition);                                                    \
        }                                                                              \
    } while (0)

static bg_bytes text(const char *s)
{
    return (bg_bytes){ s, strlen(s) };
}

static const bg_bytes NAME = { "products", 8 };

static void copy_about(void *context, const struct gate_about *about)
{
    *(struct gate_about *)context = *about;
}

static struct gate_about about_of(struct gates *gates, bg_bytes name)
{
    struct gate_about a = { .name = NULL };
    CHECK_OK(gates_about(gates, name, copy_about, &a, NULL));
    return a;
}

static struct gate_about about(struct gates *gates)
{
    return about_of(gates, NAME);
}

static bg_outcome look(struct gates *gates, const char *key)
{
    bg_outcome outcome = BG_OUTCOME_PENDING;
    CHECK_OK(gates_lookup(gates, NAME, text(key), NULL, &outcome, NULL));
    return outcome;
}

/* Returns whether every change committed before `since` has been reported to the gate. */
static bool has_caught_up(struct gates *gates, uint64_t since)
{
    const struct gate_about a = about(gates);
    return a.lag >= 0 && source_now() - (uint64_t)(a.lag * 1e9) > since + 1000;
}

static void await_caught_up(struct gates *gates)
{
    const uint64_t now = source_now();
    AWAIT(has_caught_up(gates, now));
}

static void set(struct gate_settings *settings, const char *key, const char *value)
{
    bg_errinfo why;
    if (gate_settings_set(settings, key, value, &why)) {
        check_fail(__FILE__, __LINE__, "%s", why.message);
    }
}

static void usual_of(const char *name, struct gate_settings *settings,
                     const struct world *w)
{
    CHECK_OK(gate_settings_init(settings, name, NULL));
    set(settings, "source", w->url);
    set(settings, "keys", "products(sku)");
    set(settings, "lookup", "SELECT name FROM products WHERE sku = ?");
    set(settings, "follow", "changes");
    set(settings, "poll", "2ms");
    set(settings, "timeout", "20s");
    set(settings, "max-lag", "100s");
}

static void usual(struct gate_settings *settings, const struct world *w)
{
    usual_of("products", settings, w);
}

static struct gates *begin(struct diary *diary)
{
    const struct gates_options options = { .event = diary ? diary_event : NULL,
                                           .context = diary };
    struct gates *gates;
    if (diary) {
        memset(diary, 0, sizeof *diary);
        (void)pthread_mutex_init(&diary->lock, NULL);
    }
    CHECK_OK(gates_create(&options, &gates, NULL));
    return gates;
}

static void add(struct gates *gates, struct gate_settings *settings)
{
    bg_errinfo why;
    if (gates_add(gates, settings, &why)) {
        check_fail(__FILE__, __LINE__, "%s", why.message);
    }
    gate_settings_free(settings);
}

/* Looks up the keys PREFIX-FIRST to PREFIX-(LAST-1). Returns the number of keys whose outcome is
 * not BG_OUTCOME_PRESENT. */
static size_t missing(struct gates *gates, const char *prefix, size_t first,
                      size_t last)
{
    size_t n = 0;
    char key[64];
    for (size_t i = first; i < last; i++) {
        (void)snprintf(key, sizeof key, "%s-%zu", prefix, i);
        n += look(gates, key) != BG_OUTCOME_PRESENT;
    }
    return n;
}

/* ---- Settings ------------------------------------------------------------------------------ */

TEST(gate_settings__all_can_be_set)
{
    struct gate_settings s, copy;
    CHECK_OK(gate_settings_init(&s, "a.b-c_1", NULL));
    for (size_t i = 0; gate_settings_name(i); i++) {
        const char *fallback = gate_settings_default(i);
        CHECK(*gate_settings_summary(i));
        if (fallback && *fallback) {
            CHECK_OK(gate_settings_set(&s, gate_settings_name(i), fallback, NULL));
        }
    }
    set(&s, "source", "postgres://me:secret@host/db");
    set(&s, "rate", "0.1%");
    set(&s, "capacity", "5M");
    set(&s, "poll", "250ms");
    set(&s, "fail", "closed");
    set(&s, "kind", "classic");
    set(&s, "install", "no");
    CHECK_NEAR(s.rate, 0.001, 1e-9);
    CHECK_EQ(s.capacity, 5000000);
    CHECK_NEAR(s.poll, 0.25, 1e-9);
    CHECK_EQ(s.fail, GATE_FAIL_CLOSED);
    CHECK_EQ(s.kind, BG_KIND_CLASSIC);
    CHECK(!s.install);
    CHECK_OK(gate_settings_copy(&copy, &s));
    gate_settings_free(&s);
    CHECK_STR(copy.source, "postgres://me:secret@host/db");
    gate_settings_free(&copy);
}

TEST(gate_settings__say_what_they_expect)
{
    static const char *const bad[][2] = {
        { "rate", "0" },         { "rate", "2" },
        { "rate", "x" },         { "kind", "cuckoo" },
        { "kind", "" },          { "poll", "0" },
        { "poll", "often" },     { "timeout", "1day" },
        { "connections", "0" },  { "connections", "1000" },
        { "audit", "1.5" },      { "single-flight", "perhaps" },
        { "install", "maybe" },  { "headroom", "0.5" },
        { "capacity", "0" },     { "max-lag", "0" },
        { "rebuild-fill", "-1" }
    };
    struct gate_settings s;
    bg_errinfo why;
    CHECK_OK(gate_settings_init(&s, "g", NULL));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK_EQ(gate_settings_set(&s, bad[i][0], bad[i][1], &why), BG_EINVAL);
        CHECK_STR(why.what, bad[i][0]);
        CHECK(*why.expected);
    }
    CHECK_EQ(gate_settings_set(&s, "colour", "red", &why), BG_ENOTFOUND);
    CHECK_STR(why.found, "colour");
    gate_settings_free(&s);
    CHECK_EQ(gate_settings_init(&s, "", &why), BG_EINVAL);
    CHECK_EQ(gate_settings_init(&s, "a b", &why), BG_EINVAL);
    CHECK_EQ(gate_settings_init(&s, "a-name-that-is-much-too-long-for-a-gate-41", &why),
             BG_EINVAL);
}

TEST(gate_settings__refuse_what_is_incomplete)
{
    static const char *const needed[][2] = { { "source", "sqlite:x.db" },
                                             { "keys", "t(k)" },
                                             { "follow", "changes" } };
    struct gate_settings s;
    bg_errinfo why;
    CHECK_OK(gate_settings_init(&s, "g", NULL));
    for (size_t i = 0; i < 3; i++) {
        CHECK_EQ(gate_settings_check(&s, &why), BG_EINVAL);
        CHECK_STR(why.what, needed[i][0]);
        set(&s, needed[i][0], needed[i][1]);
    }
    CHECK_OK(gate_settings_check(&s, &why));
    set(&s, "follow", "logical");
    CHECK_EQ(gate_settings_check(&s, &why), BG_EINVAL);
    CHECK_STR(why.what, "follow");
    set(&s, "follow", "none");
    CHECK_EQ(gate_settings_check(&s, &why), BG_EINVAL);
    CHECK_STR(why.what, "promise");
    set(&s, "promise", "read-only");
    CHECK_OK(gate_settings_check(&s, &why));
    set(&s, "promise", "");
    set(&s, "follow", "changes");
    set(&s, "poll", "6s"); /* more than half of max-lag, which is 10 seconds */
    CHECK_EQ(gate_settings_check(&s, &why), BG_EINVAL);
    CHECK_STR(why.what, "max-lag");
    gate_settings_free(&s);
}

/* ---- Life cycle ---------------------------------------------------------------------------- */

TEST(gates__a_life)
{
    struct world w;
    struct diary diary;
    struct gate_settings settings;
    struct gates *gates = begin(&diary);
    char data[64];
    struct store_row row = STORE_ROW_INIT;
    bg_outcome outcome;
    bg_errinfo why;
    world_begin(&w, false);
    world_products(&w, 2000);
    usual(&settings, &w);
    add(gates, &settings);
    CHECK_EQ(gates_count(gates), 1);
    CHECK_EQ(look(gates, "sku-1999"), BG_OUTCOME_PRESENT); /* before the build */
    AWAIT(about(gates).trusted);
    CHECK_EQ(about(gates).phase, GATE_SERVING);
    CHECK_EQ(about(gates).build_keys, 2000);
    CHECK_EQ(missing(gates, "sku", 0, 2000), 0);
    CHECK(missing(gates, "no", 0, 2000) == 2000);
    bg_gate_info stats = { .struct_size = sizeof stats };
    CHECK_OK(bg_gate_get_info(about(gates).gate, NULL, &stats));
    CHECK(stats.avoided > 1900);

    CHECK_OK(gates_lookup(gates, NAME, text("sku-7"), &row, &outcome, NULL));
    CHECK_EQ(outcome, BG_OUTCOME_PRESENT);
    world_first(&row, data);
    CHECK_STR(data, "name 7");
    store_row_free(&row);
    CHECK_EQ(gates_lookup(gates, text("other"), text("x"), NULL, &outcome, &why),
             BG_ENOTFOUND);
    CHECK_STR(why.message, "gate: there is no gate 'other'");

    world_do(&w, "INSERT INTO products (sku) VALUES ('past the gate')");
    await_caught_up(gates);
    CHECK_EQ(look(gates, "past the gate"), BG_OUTCOME_PRESENT);
    CHECK_EQ(about(gates).position, 2); /* the change table starts with an empty row */

    CHECK_OK(gates_rebuild(gates, NAME, NULL));
    AWAIT(about(gates).builds == 2);
    CHECK_EQ(missing(gates, "sku", 0, 2000), 0);
    CHECK_EQ(look(gates, "past the gate"), BG_OUTCOME_PRESENT);
    AWAIT(diary_count(&diary, GATE_EVENT_BUILD_ENDED) == 2);
    CHECK_EQ(diary_count(&diary, GATE_EVENT_BUILD_BEGAN), 2);
    CHECK_STR(diary.last[GATE_EVENT_BUILD_BEGAN], "on request");
    CHECK_EQ(diary_count(&diary, GATE_EVENT_SOURCE_BACK), 0); /* it was never lost */
    CHECK_EQ(about(gates).restarts, 1);

    usual(&settings, &w);
    CHECK_EQ(gates_add(gates, &settings, &why), BG_EBUSY);
    gate_settings_free(&settings);
    CHECK_EQ(gates_count(gates), 1);
    gates_free(gates);
    world_end(&w);
}

TEST(gates__look_ups_in_two_halves)
{
    struct world w;
    struct gate_settings settings;
    struct gates *gates = begin(NULL);
    struct gates_ticket ticket = { .gate = NULL };
    char data[64];
    struct store_row row = STORE_ROW_INIT;
    bg_outcome outcome;
    world_begin(&w, false);
    world_products(&w, 100);
    usual(&settings, &w);
    set(&settings, "audit", "1");
    add(gates, &settings);
    AWAIT(about(gates).trusted);
    CHECK_OK(gates_begin(gates, NAME, text("sku-5"), &ticket, &outcome, NULL));
    CHECK_EQ(outcome, BG_OUTCOME_PENDING);
    CHECK(ticket.gate);
    CHECK_EQ(gates_finish(&ticket, &row), BG_OUTCOME_PRESENT);
    world_first(&row, data);
    CHECK_STR(data, "name 5");
    CHECK(!ticket.gate);
    CHECK_EQ(gates_finish(&ticket, &row), BG_OUTCOME_UNKNOWN); /* already finished */
    store_row_free(&row);
    size_t audits = 0;
    for (int i = 0; i < 50; i++) {
        char key[32];
        (void)snprintf(key, sizeof key, "no-%d", i);
        CHECK_OK(gates_begin(gates, NAME, text(key), &ticket, &outcome, NULL));
        CHECK(outcome == BG_OUTCOME_ABSENT_BY_FILTER || outcome == BG_OUTCOME_PENDING);
        CHECK(ticket.gate); /* every "no" from the filter is audited */
        audits += outcome == BG_OUTCOME_ABSENT_BY_FILTER;
        const bg_outcome late = gates_finish(&ticket, NULL);
        CHECK(late == BG_OUTCOME_ABSENT_BY_FILTER
              || late == BG_OUTCOME_ABSENT_BY_STORE);
    }
    CHECK(audits > 40);
    CHECK_EQ(gates_begin(gates, text("x"), text("y"), &ticket, &outcome, NULL),
             BG_ENOTFOUND);
    gates_free(gates);
    world_end(&w);
}

TEST(gates__a_source_that_is_broken_stops_nobody)
{
    struct world w;
    struct diary diary;
    struct gate_settings settings;
    struct gates *gates = begin(&diary);
    bg_outcome outcome;
    char moved[512];
    world_begin(&w, false);
    world_products(&w, 50);
    (void)sqlite3_close(w.db);
    (void)snprintf(moved, sizeof moved, "%s/moved", w.folder);
    CHECK(rename(w.path, moved) == 0);
    usual(&settings, &w);
    add(gates, &settings);
    usual_of("closed", &settings, &w);
    set(&settings, "fail", "closed");
    add(gates, &settings);
    CHECK_EQ(look(gates, "sku-1"), BG_OUTCOME_UNKNOWN);
    CHECK_OK(gates_lookup(gates, text("closed"), text("sku-1"), NULL, &outcome, NULL));
    CHECK_EQ(outcome, BG_OUTCOME_FAILED);
    AWAIT(diary_count(&diary, GATE_EVENT_SOURCE_LOST) == 2);
    CHECK_EQ(about(gates).phase, GATE_WAITING);
    CHECK(!about(gates).source_up && strstr(about(gates).source_text, "no file"));

    CHECK(rename(moved, w.path) == 0);
    world_open(&w);
    AWAIT(about(gates).trusted);
    AWAIT(look(gates, "sku-1") == BG_OUTCOME_PRESENT);
    AWAIT(about(gates).source_up);
    AWAIT(diary_count(&diary, GATE_EVENT_SOURCE_BACK) == 2);
    gates_free(gates);
    world_end(&w);
}

TEST(gates__a_failed_lookup_does_not_count_after_a_recovery)
{
    struct world w;
    struct diary diary;
    struct gate_settings settings;
    struct gates *gates = begin(&diary);
    world_begin(&w, true);
    world_products(&w, 5);
    usual(&settings, &w);
    set(&settings, "timeout", "100ms");
    add(gates, &settings);
    AWAIT(about(gates).trusted);
    world_do(&w, "BEGIN EXCLUSIVE");
    AWAIT(diary_count(&diary, GATE_EVENT_SOURCE_LOST) == 1);
    CHECK_EQ(look(gates, "sku-1"), BG_OUTCOME_UNKNOWN);
    world_do(&w, "COMMIT");
    AWAIT(diary_count(&diary, GATE_EVENT_SOURCE_BACK) == 1);
    CHECK(about(gates).source_up);
    CHECK_EQ(about(gates).builds, 1);
    gates_free(gates);
    world_end(&w);
}

TEST(gates__a_lookup_does_not_hide_why_the_follower_fails)
{
    struct world w;
    struct gate_settings settings;
    struct gates *gates = begin(NULL);
    char moved[512];
    world_begin(&w, false);
    world_products(&w, 5);
    world_do(&w, "CREATE TRIGGER hides AFTER INSERT ON products BEGIN"
                 " SELECT RAISE(IGNORE); END");
    (void)sqlite3_close(w.db);
    (void)snprintf(moved, sizeof moved, "%s/moved", w.folder);
    CHECK(rename(w.path, moved) == 0);
    usual(&settings, &w);
    add(gates, &settings);
    CHECK_EQ(look(gates, "sku-1"), BG_OUTCOME_UNKNOWN);
    CHECK(rename(moved, w.path) == 0);
    world_open(&w);
    AWAIT(look(gates, "sku-1") == BG_OUTCOME_PRESENT);
    AWAIT(strstr(about(gates).source_text, "RAISE(IGNORE)"));
    CHECK_EQ(look(gates, "sku-1"), BG_OUTCOME_PRESENT);
    CHECK(!about(gates).source_up && about(gates).source_text[0]);

    /* Another lookup fails and succeeds. */
    world_do(&w, "ALTER TABLE products RENAME TO away");
    AWAIT(look(gates, "sku-1") == BG_OUTCOME_UNKNOWN);
    world_do(&w, "ALTER TABLE away RENAME TO products");
    AWAIT(look(gates, "sku-1") == BG_OUTCOME_PRESENT);
    AWAIT(strstr(about(gates).source_text, "RAISE(IGNORE)"));
    gates_free(gates);
    world_end(&w);
}

TEST(gates__failures_count_together_when_trust_is_lost)
{
    struct world w;
    struct diary diary;
    struct gate_settings settings;
    struct gates *gates = begin(&diary);
    bg_gate_info with = { .struct_size = sizeof with }, blind = with;
    world_begin(&w, false);
    world_products(&w, 50);
    usual(&settings, &w);
    set(&settings, "poll", "1s");
    set(&settings, "breaker-failures", "4");
    set(&settings, "breaker-rest", "1000s");
    add(gates, &settings);
    AWAIT(about(gates).trusted);
    world_do(&w, "DROP TABLE products");
    for (int i = 0; i < 3; i++) { /* normally with the filter */
        CHECK_EQ(look(gates, "sku-1"), BG_OUTCOME_UNKNOWN);
    }
    CHECK_EQ(diary_count(&diary, GATE_EVENT_BREAKER_OPEN), 0);
    AWAIT(!about(gates).trusted);
    CHECK_EQ(look(gates, "sku-1"), BG_OUTCOME_UNKNOWN); /* without the filter */
    CHECK_EQ(diary_count(&diary, GATE_EVENT_BREAKER_OPEN), 1);
    CHECK_EQ(look(gates, "sku-1"), BG_OUTCOME_UNKNOWN);
    CHECK_OK(bg_gate_get_info(about(gates).gate, NULL, &with));
    CHECK_OK(bg_gate_get_info(about(gates).blind, NULL, &blind));
    CHECK(with.breaker == 1 && blind.breaker == 1);
    CHECK_EQ(with.store_errors + blind.store_errors, 4);
    CHECK_EQ(with.spared_by_breaker + blind.spared_by_breaker, 1);
    gates_free(gates);
    world_end(&w);
}

TEST(gates__builds_that_fail_are_retried)
{
    struct world w;
    struct diary diary;
    struct gate_settings settings;
    struct gates *gates = begin(&diary);
    world_begin(&w, false);
    world_products(&w, 50);
    usual(&settings, &w);
    set(&settings, "keys", "copies(sku)");
    set(&settings, "follow", "none");
    set(&settings, "promise", "read-only");
    add(gates, &settings);
    AWAIT(diary_count(&diary, GATE_EVENT_BUILD_FAILED) >= 1);
    CHECK(strstr(diary.last[GATE_EVENT_BUILD_FAILED], "copies"));
    CHECK_EQ(look(gates, "sku-1"), BG_OUTCOME_PRESENT);
    CHECK_EQ(look(gates, "none"), BG_OUTCOME_ABSENT_BY_STORE);
    world_do(&w, "CREATE TABLE copies AS SELECT sku FROM products");
    AWAIT(about(gates).trusted);
    CHECK_EQ(missing(gates, "sku", 0, 50), 0);
    gates_free(gates);
    world_end(&w);
}

TEST(gates__a_filter_that_may_lack_keys_is_not_trusted)
{
    struct world w, other;
    struct diary diary;
    struct gate_settings settings;
    struct gates *gates = begin(&diary);
    world_begin(&w, false);
    world_products(&w, 500);
    usual(&settings, &w);
    set(&settings, "max-lag", "500ms");
    add(gates, &settings);
    AWAIT(about(gates).trusted);

    /* If no proof arrives within max-lag, the filter's "no" is not trusted. On a busy machine, a proof can be late even
     * though the file is there, so the events may occur more than once. */
    char moved[512];
    (void)snprintf(moved, sizeof moved, "%s/moved", w.folder);
    CHECK(rename(w.path, moved) == 0);
    AWAIT(!about(gates).trusted);
    AWAIT(diary_count(&diary, GATE_EVENT_STALE) >= 1);
    CHECK_EQ(missing(gates, "no", 0, 20), 20);
    CHECK_EQ(look(gates, "no-1"), BG_OUTCOME_UNKNOWN);

    /* Replaces the database with another file that has different keys for the same row IDs. */
    world_begin(&other, false);
    world_products(&other, 500);
    world_do(&other, "UPDATE products SET sku = 'new-' || id");
    world_do(&other, "PRAGMA wal_checkpoint(TRUNCATE)");
    CHECK(rename(other.path, w.path) == 0);
    AWAIT(about(gates).trusted);
    CHECK_EQ(about(gates).restarts, 2);
    AWAIT(look(gates, "new-1") == BG_OUTCOME_PRESENT); /* the breaker is closed again */
    CHECK_EQ(missing(gates, "new", 1, 501), 0);
    AWAIT(diary_count(&diary, GATE_EVENT_FRESH) >= 1);
    CHECK_EQ(diary_count(&diary, GATE_EVENT_RESTARTED), 1);
    gates_free(gates);

    /* The filter is not reported as answering lookups again before it has been rebuilt. */
    size_t built = 0, fresh = 0;
    for (size_t i = 0; i < diary.n; i++) {
        built = diary.kinds[i] == GATE_EVENT_BUILD_ENDED ? i : built;
        fresh = diary.kinds[i] == GATE_EVENT_FRESH ? i : fresh;
    }
    CHECK(fresh > built);
    world_end(&w);
    world_end(&other);
}

/* An event handler that starts a new epoch during the first build. */
struct meddler {
    struct world *w;
    struct gates *gates;
    _Atomic int begun;
};

static void meddle(void *context, const struct gate_event *event)
{
    struct meddler *meddler = context;
    if (event->kind == GATE_EVENT_BUILD_BEGAN
        && atomic_fetch_add(&meddler->begun, 1) == 0) {
        world_do(meddler->w, "CREATE INDEX more ON products (name)");
        AWAIT(about(meddler->gates).restarts == 2);
    }
}

TEST(gates__a_build_that_was_overtaken_is_not_enough)
{
    struct world w;
    struct meddler meddler = { .w = &w };
    struct gate_settings settings;
    const struct gates_options options = { .event = meddle, .context = &meddler };
    world_begin(&w, false);
    world_products(&w, 100);
    CHECK_OK(gates_create(&options, &meddler.gates, NULL));
    usual(&settings, &w);
    add(meddler.gates, &settings);
    AWAIT(about(meddler.gates).trusted);
    CHECK_EQ(about(meddler.gates).builds, 2);
    gates_free(meddler.gates);
    world_end(&w);
}

/* Looks up n deleted keys, from sku-FIRST on. A rebuild may remove them from the filter meanwhile. */
static void look_at_deleted(struct gates *gates, int first, int n)
{
    for (int i = first; i < first + n; i++) {
        char key[32];
        (void)snprintf(key, sizeof key, "sku-%d", i);
        const bg_outcome outcome = look(gates, key);
        CHECK(outcome == BG_OUTCOME_ABSENT_BY_STORE
              || outcome == BG_OUTCOME_ABSENT_BY_FILTER);
    }
}

TEST(gates__rebuilds_for_the_observed_rate_are_limited)
{
    struct world w;
    struct diary diary;
    struct gate_settings settings;
    struct gates *gates = begin(&diary);
    static const struct timespec pause = { 0, 500000000 };
    world_begin(&w, false);
    world_products(&w, 6000);
    usual(&settings, &w);
    set(&settings, "maintain", "10ms");
    add(gates, &settings);
    AWAIT(about(gates).trusted);
    world_do(&w, "DELETE FROM products WHERE id <= 2000");
    await_caught_up(gates);
    for (int i = 0; i < 2000; i++) { /* one false positive proves nothing */
        look_at_deleted(gates, 0, 1);
    }
    (void)nanosleep(&pause, NULL);
    CHECK_EQ(about(gates).builds, 1);
    look_at_deleted(gates, 1, 1500);
    AWAIT(about(gates).builds == 2);
    CHECK_STR(diary.last[GATE_EVENT_BUILD_BEGAN],
              "the observed false-positive rate is too high");
    AWAIT(about(gates).trusted && about(gates).phase == GATE_SERVING);
    world_do(&w, "DELETE FROM products WHERE id <= 4000");
    await_caught_up(gates);
    look_at_deleted(gates, 2000, 2000); /* not again within an hour */
    (void)nanosleep(&pause, NULL);
    CHECK_EQ(about(gates).builds, 2);
    world_do(&w, "INSERT INTO products (sku) WITH RECURSIVE c (i) AS (SELECT 0 UNION "
                 "ALL SELECT i + 1 FROM c WHERE i < 12000) SELECT 'more-' || i FROM c");
    AWAIT(about(gates).builds == 3); /* other reasons are not affected */
    gates_free(gates);
    world_end(&w);
}

TEST(gates__rebuilds_when_the_policy_says_so)
{
    struct world w;
    struct diary diary;
    struct gate_settings settings;
    struct gates *gates = begin(&diary);
    world_begin(&w, false);
    world_products(&w, 100);
    usual(&settings, &w);
    set(&settings, "capacity", "100");
    set(&settings, "headroom", "1.5");
    set(&settings, "maintain", "10ms");
    add(gates, &settings);
    AWAIT(about(gates).trusted);
    world_do(&w, "INSERT INTO products (sku) SELECT 'more-' || (id - 1) FROM products");
    AWAIT(about(gates).builds >= 2);
    CHECK(strstr(diary.last[GATE_EVENT_BUILD_BEGAN], "full"));
    CHECK_EQ(missing(gates, "sku", 0, 100), 0);
    CHECK_EQ(missing(gates, "more", 0, 100), 0);
    AWAIT(about(gates).build_keys == 200);
    gates_free(gates);
    world_end(&w);
}

/* ---- Writes that bypass the gate ----------------------------------------------------------- */

TEST(gates__audits_find_what_nobody_follows)
{
    struct world w;
    struct diary diary;
    struct gate_settings settings;
    struct gates *gates = begin(&diary);
    world_begin(&w, false);
    world_products(&w, 100);
    usual(&settings, &w);
    set(&settings, "follow", "none");
    set(&settings, "promise", "writers-report");
    set(&settings, "audit", "100%");
    set(&settings, "rate", "1/100000");
    add(gates, &settings);
    AWAIT(about(gates).trusted);
    CHECK(about(gates).lag < 0);
    world_do(&w, "INSERT INTO products (sku) VALUES ('told')");
    CHECK_OK(gates_wrote(gates, NAME, text("told"), NULL));
    CHECK_EQ(look(gates, "told"), BG_OUTCOME_PRESENT);
    CHECK_EQ(diary_count(&diary, GATE_EVENT_FALSE_NEGATIVE), 0);
    world_do(&w, "INSERT INTO products (sku) VALUES ('untold')");
    CHECK_EQ(look(gates, "untold"), BG_OUTCOME_PRESENT); /* the audit found the key */
    CHECK_EQ(diary_count(&diary, GATE_EVENT_FALSE_NEGATIVE), 1);
    AWAIT(about(gates).builds == 2); /* the filter is rebuilt */
    gates_free(gates);
    world_end(&w);
}

/* After a false negative, the rebuilt filter is saved, even though no change was recorded. */
TEST(gates__saves_again_after_a_false_negative)
{
    struct world w;
    struct gate_settings settings;
    struct gates *gates = NULL;
    char dir[] = "/tmp/bloomgate-gates-XXXXXX", file[64];
    CHECK(mkdtemp(dir) != NULL);
    const struct gates_options options = { .dir = dir };
    CHECK_OK(gates_create(&options, &gates, NULL));
    world_begin(&w, false);
    world_products(&w, 100);
    usual(&settings, &w);
    set(&settings, "audit", "1");
    set(&settings, "rate", "1/100000");
    add(gates, &settings);
    AWAIT(about(gates).saves == 1);
    CHECK(sqlite3_db_config(w.db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL)
          == SQLITE_OK);
    world_do(&w, "INSERT INTO products (sku) VALUES ('hidden')");
    await_caught_up(gates);
    CHECK_EQ(look(gates, "hidden"), BG_OUTCOME_PRESENT); /* the audit found the key */
    AWAIT(about(gates).saves == 2);
    (void)snprintf(file, sizeof file, "%s/gates/products.bg", dir);
    CHECK(access(file, F_OK) == 0);
    gates_free(gates);
    CHECK(unlink(file) == 0);
    (void)snprintf(file, sizeof file, "%s/gates/instance", dir);
    CHECK(unlink(file) == 0);
    (void)snprintf(file, sizeof file, "%s/gates", dir);
    CHECK(rmdir(file) == 0 && rmdir(dir) == 0);
    world_end(&w);
}

TEST(gates__audits_wait_for_the_follower)
{
    struct world w;
    struct diary diary;
    struct gate_settings settings;
    struct gates *gates = begin(&diary);
    world_begin(&w, false);
    world_products(&w, 100);
    usual(&settings, &w);
    set(&settings, "poll", "1h"); /* this gate polls only on request */
    set(&settings, "max-lag", "2h");
    set(&settings, "audit", "1");
    add(gates, &settings);
    AWAIT(about(gates).trusted);
    for (int i = 0; i < 20; i++) {
        char key[32];
        (void)snprintf(key, sizeof key, "new-%d", i);
        world_do(&w, "INSERT INTO products (sku) VALUES ('%s')", key);
        CHECK_EQ(look(gates, key), BG_OUTCOME_PRESENT);
    }
    CHECK_EQ(diary_count(&diary, GATE_EVENT_FALSE_NEGATIVE), 0);
    gates_free(gates);
    world_end(&w);
}

TEST(gates__negative_answers_are_forgotten_when_the_key_comes)
{
    struct world w;
    struct gate_settings settings;
    struct gates *gates = begin(NULL);
    world_begin(&w, false);
    world_products(&w, 1000);
    usual(&settings, &w);
    set(&settings, "rate", "0.5"); /* many false positives */
    set(&settings, "capacity", "1000");
    set(&settings, "headroom", "1");
    set(&settings, "negative-entries", "1000");
    set(&settings, "negative-ttl", "1h");
    add(gates, &settings);
    AWAIT(about(gates).trusted);
    char key[32] = "";
    for (int i = 0; look(gates, key) != BG_OUTCOME_ABSENT_BY_CACHE; i++) {
        (void)snprintf(key, sizeof key, "absent-%d", i / 2);
        CHECK(i < 1000);
    }
    world_do(&w, "INSERT INTO products (sku) VALUES ('%s')", key);
    await_caught_up(gates);
    CHECK_EQ(look(gates, key), BG_OUTCOME_PRESENT);
    gates_free(gates);
    world_end(&w);
}

/* ---- Another process writes ---------------------------------------------------------------- */

/* Inserts w-0, w-1, ... and writes the number of rows to the pipe `tell` after each commit, until
 * the process is killed. */
static void write_for_ever(const char *path, int tell)
{
    sqlite3 *db;
    if (sqlite3_open(path, &db) != SQLITE_OK) {
        _exit(1);
    }
    (void)sqlite3_busy_timeout(db, 30000);
    (void)sqlite3_exec(db, "PRAGMA synchronous = OFF", NULL, NULL, NULL);
    for (uint32_t i = 0;;) {
        char sql[512];
        const uint32_t rows = 1 + i % 3; /* rows per transaction */
        size_t n = (size_t)snprintf(sql, sizeof sql, "BEGIN IMMEDIATE;");
        for (uint32_t k = 0; k < rows; k++, i++) {
            n += (size_t)snprintf(sql + n, sizeof sql - n,
                                  "INSERT INTO products (sku) VALUES ('w-%u');", i);
        }
        (void)snprintf(sql + n, sizeof sql - n, "COMMIT");
        if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK
            || write(tell, &i, sizeof i) != sizeof i) {
            _exit(1);
        }
    }
}

struct scribe {
    pid_t process;
    int told;
    uint32_t written;
};

static void scribe_start(struct scribe *scribe, struct world *w)
{
    int ends[2];
    CHECK(pipe(ends) == 0);
    scribe->written = 0;
    scribe->process = fork();
    CHECK(scribe->process >= 0);
    if (scribe->process == 0) {
        (void)close(ends[0]); /* if this process exits, SIGPIPE terminates the child */
        write_for_ever(w->path, ends[1]);
    }
    (void)close(ends[1]);
    scribe->told = ends[0];
}

/* Returns a number of rows that are known to be committed. Each call returns a larger number than
 * the previous call. */
static uint32_t scribe_progress(struct scribe *scribe)
{
    uint32_t lots[256];
    const ssize_t got = read(scribe->told, lots, sizeof lots);
    CHECK(got >= (ssize_t)sizeof *lots);
    scribe->written = lots[(size_t)got / sizeof *lots - 1];
    return scribe->written;
}

static void scribe_stop(struct scribe *scribe)
{
    int status;
    (void)kill(scribe->process, SIGKILL);
    (void)waitpid(scribe->process, &status, 0);
    (void)close(scribe->told);
}

TEST(gates__no_wrong_no_while_another_process_writes)
{
    struct world w;
    struct scribe scribe;
    struct gate_settings settings;
    world_begin(&w, false);
    world_products(&w, 50000); /* building the first filter takes a while */
    (void)sqlite3_close(w.db); /* SQLite connections must not be open during a fork */
    scribe_start(&scribe, &w);
    world_open(&w);
    struct gates *gates = begin(NULL);
    usual(&settings, &w);
    set(&settings, "capacity", "1");
    set(&settings, "headroom", "1.2");
    set(&settings, "maintain", "20ms");
    set(&settings, "audit", "0.01");
    add(gates, &settings);
    bg_gate_info stats = { .struct_size = sizeof stats };
    AWAIT(about(gates).trusted);
    CHECK_OK(bg_gate_get_info(about(gates).gate, NULL, &stats));
    CHECK_EQ(stats.doubtful, 0); /* no key was missed during the first build */
    const size_t rounds = 30 * check_scale();
    for (size_t round = 0, checked = 0; round < rounds; round++) {
        const uint32_t written = scribe_progress(&scribe);
        if (round % 10 == 5) {
            CHECK_OK(gates_rebuild(gates, NAME, NULL));
        }
        await_caught_up(gates);
        CHECK_EQ(missing(gates, "w", checked, written), 0);
        checked = written;
        CHECK_EQ(missing(gates, "sku", round * 90 % 3000, round * 90 % 3000 + 50), 0);
    }
    AWAIT(about(gates).builds >= 3);
    const uint32_t written = scribe_progress(&scribe);
    await_caught_up(gates);
    CHECK(about(gates).trusted);
    CHECK_EQ(missing(gates, "w", 0, written), 0);
    CHECK_OK(bg_gate_get_info(about(gates).gate, NULL, &stats));
    CHECK_EQ(stats.false_negatives, 0);
    CHECK_EQ(about(gates).restarts, 1);
    gates_free(gates);
    scribe_stop(&scribe);
    world_end(&w);
}

/* ---- Threads ------------------------------------------------------------------------------- */

struct reader {
    struct gates *gates;
    atomic_bool *stop;
    _Atomic size_t *lookups; /* the number of lookups by all readers */
    size_t wrong;
    pthread_t thread;
};

static void *read_on(void *context)
{
    struct reader *reader = context;
    char key[32];
    for (size_t i = 0; !atomic_load(reader->stop); i++) {
        bg_outcome outcome;
        (void)snprintf(key, sizeof key, "sku-%zu", i % 300);
        if (gates_lookup(reader->gates, NAME, text(key), NULL, &outcome, NULL)
            == BG_OK) {
            (void)atomic_fetch_add(reader->lookups, 1);
            /* A lookup that takes too long returns BG_OUTCOME_UNKNOWN. */
            reader->wrong +=
                outcome != BG_OUTCOME_PRESENT && outcome != BG_OUTCOME_UNKNOWN;
        }
    }
    return NULL;
}

/* A gate can be stopped in every phase of its life. */
TEST(gates__come_and_go_around_look_ups)
{
    enum { READERS = 3 };
    struct world w;
    struct reader readers[READERS];
    struct gate_settings settings;
    world_begin(&w, false);
    world_products(&w, 300);
    for (size_t round = 0; round < 15; round++) {
        struct gates *gates = begin(NULL);
        atomic_bool stop;
        _Atomic size_t lookups;
        atomic_init(&stop, false);
        atomic_init(&lookups, 0);
        for (size_t i = 0; i < READERS; i++) {
            readers[i] =
                (struct reader){ .gates = gates, .stop = &stop, .lookups = &lookups };
            CHECK(pthread_create(&readers[i].thread, NULL, read_on, &readers[i]) == 0);
        }
        usual(&settings, &w);
        add(gates, &settings);
        if (round % 3) {
            AWAIT(about(gates).trusted);
            AWAIT(atomic_load(&lookups) > 10);
        }
        if (round % 2) {
            CHECK_OK(gates_rebuild(gates, NAME, NULL));
        }
        atomic_store(&stop, true);
        for (size_t i = 0; i < READERS; i++) {
            (void)pthread_join(readers[i].thread, NULL);
            CHECK_EQ(readers[i].wrong, 0);
        }
        gates_free(gates);
    }
    world_end(&w);
}

static void count_one(void *context, const struct gate_about *a)
{
    size_t *n = context;
    *n += a->name[0] == 'a' + (int)*n;
}

TEST(gates__are_listed_in_their_order)
{
    struct world w;
    struct gates *gates = begin(NULL);
    size_t n = 0;
    world_begin(&w, false);
    world_products(&w, 10);
    static const char *const names[] = { "a", "b", "c", "d", "e" };
    for (size_t i = 0; i < 5; i++) {
        struct gate_settings settings;
        usual_of(names[i], &settings, &w);
        add(gates, &settings);
    }
    gates_each(gates, count_one, &n);
    CHECK_EQ(n, 5);
    CHECK_STR(gate_event_name(GATE_EVENT_STALE), "stale");
    CHECK_STR(gate_event_name((enum gate_event_kind)99), "unknown");
    gates_free(gates);
    gates_free(NULL);
    world_end(&w);
}

TEST(gate_settings__are_all_in_the_documents)
{
    static char page[1 << 17];
    FILE *f = fopen(CHECK_FOLDER "/../docs/sources.md", "r");
    CHECK(f);
    const size_t n = fread(page, 1, sizeof page - 1, f);
    (void)fclose(f);
    page[n] = 0;
    for (size_t i = 0; gate_settings_name(i); i++) {
        const char *fallback = gate_settings_default(i);
        const char *tick = fallback && *fallback ? "`" : "";
        char row[512];
        (void)snprintf(row, sizeof row, "\n| `%s` | %s%s%s | %s |\n",
                       gate_settings_name(i), tick, fallback ? fallback : "required",
                       tick, gate_settings_summary(i));
        if (!strstr(page, row)) {
            check_fail(__FILE__, __LINE__,
                       "docs/sources.md does not contain this row:%s", row);
        }
    }
}

TEST(gates__the_example_works)
{
    struct world w;
    struct gate_settings settings;
    struct gates *gates = begin(NULL);
    static char script[1 << 16];
    world_begin(&w, false);
    FILE *f = fopen(CHECK_FOLDER "/../ops/example/catalog.sql", "r");
    CHECK(f);
    script[fread(script, 1, sizeof script - 1, f)] = 0;
    (void)fclose(f);
    world_do_on(w.db, script);
    usual(&settings, &w);
    set(&settings, "audit", "1%");
    add(gates, &settings);
    AWAIT(about(gates).trusted);
    CHECK_EQ(about(gates).build_keys, 5000);
    CHECK_EQ(look(gates, "BG-000042-6"), BG_OUTCOME_PRESENT);
    CHECK(look(gates, "BG-000042-7") != BG_OUTCOME_PRESENT);
    gates_free(gates);
    world_end(&w);
}
