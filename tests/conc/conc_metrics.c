/*
 * Writes metrics while threads look up and add keys and while the slot changes. Checks that the
 * metrics documents are complete and that counters never decrease. Prometheus would interpret a
 * decrease as a restart, and count the whole value as an increase.
 */
#include "support/filters.h"
#include "support/metrics_reader.h"

#include <pthread.h>
#include <stdatomic.h>

enum { WORKERS = 3, KEYS = 4096, DOCUMENTS = CHECK_SANITIZED ? 60 : 300 };

struct shared {
    bg_slot *slot;
    bg_gate *gate;
    atomic_bool stop;
};

static struct reader readers[2];

static bg_store_answer ask(void *context, const void *key, size_t len, void *request)
{
    uint64_t number = 0;
    (void)context;
    (void)request;
    memcpy(&number, key, len < sizeof number ? len : sizeof number);
    return number % 7 == 0   ? BG_STORE_ERROR
           : number % 2 == 0 ? BG_STORE_PRESENT
                             : BG_STORE_ABSENT;
}

static bg_filter *empty_filter(void)
{
    bg_spec spec = BG_SPEC_INIT;
    spec.items = KEYS;
    spec.rate = 0.2; /* high, so that all counters grow quickly */
    return must_create(&spec);
}

static void *work(void *context)
{
    struct shared *shared = context;
    uint64_t state = (uint64_t)(uintptr_t)&state;
    while (!atomic_load(&shared->stop)) {
        uint64_t key = check_random_next(&state) % KEYS;
        (void)bg_gate_lookup(shared->gate, &key, sizeof key, NULL);
        if (key % 2 == 0) {
            CHECK_OK(bg_gate_add(shared->gate, &key, sizeof key));
        }
    }
    return NULL;
}

static void *change(void *context)
{
    struct shared *shared = context;
    while (!atomic_load(&shared->stop)) {
        CHECK_OK(bg_slot_swap(shared->slot, empty_filter(), 0, BG_SLOT_DISCARD, NULL));
    }
    return NULL;
}

/* Returns the next counter in a document, starting at sample *i, and advances *i. Returns NULL at
 * the end. */
static const struct reader_sample *next_counter(const struct reader *reader, size_t *i)
{
    while (*i < reader->samples_n) {
        const struct reader_sample *sample = &reader->samples[(*i)++];
        if (strcmp(sample->family->type, "counter") == 0) {
            return sample;
        }
    }
    return NULL;
}

/* Checks that every counter in a document is at least as high as in the previous document. */
static void compare(const struct reader *before, const struct reader *after)
{
    const struct reader_sample *old, *new;
    size_t counters = 0, i = 0, j = 0;
    while ((new = next_counter(after, &i)) != NULL
           && (old = next_counter(before, &j)) != NULL) {
        CHECK_STR(old->family->name, new->family->name);
        CHECK(reader_same_labels(old, new));
        if (strtod(new->number, NULL) < strtod(old->number, NULL)) {
            check_fail(__FILE__, __LINE__, "%s %s: decreased to %s from %s",
                       new->family->name, new->values[new->labels - 1], new->number,
                       old->number);
        }
        counters++;
    }
    CHECK(counters > 20 && i == after->samples_n && !next_counter(before, &j));
}

static void write_document(const bg_metrics_item *item, size_t i, struct reader *to)
{
    bg_metrics_format format = (bg_metrics_format)(i % 3);
    reader_reset(to);
    CHECK_OK(bg_metrics_write(item, 1, format, i % 5 ? BG_METRICS_CHEAP : 0,
                              reader_sink, to, NULL));
    reader_read(to, format);
}

TEST(metrics__counters_never_go_back)
{
    static struct shared shared; /* static, because threads may outlive a failed test */
    bg_gate_options options = BG_GATE_OPTIONS_INIT;
    pthread_t threads[WORKERS + 1];
    CHECK_OK(bg_slot_create(empty_filter(), NULL, &shared.slot, NULL));
    options.query = ask;
    options.audit = 0.5;
    CHECK_OK(bg_gate_create(shared.slot, &options, &shared.gate, NULL));
    bg_metrics_item item = { "users", shared.slot, shared.gate };
    write_document(&item, 0, &readers[0]);
    for (size_t i = 0; i <= WORKERS; i++) {
        CHECK(pthread_create(&threads[i], NULL, i < WORKERS ? work : change, &shared)
              == 0);
    }
    for (size_t i = 1; i < DOCUMENTS * check_scale(); i++) {
        write_document(&item, i, &readers[i % 2]);
        compare(&readers[(i - 1) % 2], &readers[i % 2]);
    }
    atomic_store(&shared.stop, true);
    for (size_t i = 0; i <= WORKERS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
    bg_gate_free(shared.gate);
    bg_slot_free(shared.slot);
}
