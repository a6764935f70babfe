/*
 * 10_metrics.c - exports a gate's metrics in the Prometheus format.
 *
 * Creates a slot and a gate, looks up some keys, and writes the metrics to a buffer, as an HTTP
 * server would: first all metrics, and then only those that are cheap to compute. It also shows how
 * a sink cancels the output. Prints the complete document, which promtool can check:
 *
 *     example_10_metrics | promtool check metrics
 */
#include <bloomgate/server.h>

#include <stdio.h>
#include <string.h>

enum { USERS = 10000, LOOKUPS = 50000 };

/* The database: user IDs are the even numbers below 2 * USERS. */
static bg_store_answer ask(void *calls, const void *key, size_t len, void *request)
{
    uint64_t user;
    (void)request;
    ++*(unsigned *)calls;
    memcpy(&user, key, len);
    return user % 2 == 0 && user < 2 * USERS ? BG_STORE_PRESENT : BG_STORE_ABSENT;
}

static bg_slot *make_users(void)
{
    bg_spec spec = BG_SPEC_INIT;
    bg_filter *filter = NULL;
    bg_slot *users = NULL;
    spec.items = USERS;
    spec.rate = 0.01;
    if (bg_filter_create(&spec, &filter, NULL) != BG_OK) {
        return NULL;
    }
    for (uint64_t i = 0; i < USERS; i++) {
        uint64_t user = 2 * i;
        if (bg_filter_add(filter, &user, sizeof user, NULL) != BG_OK) {
            return NULL;
        }
    }
    if (bg_slot_create(filter, NULL, &users, NULL) != BG_OK) {
        bg_filter_free(filter);
    }
    return users;
}

/* The body of an HTTP response, up to a fixed size. */
struct body {
    char text[32768];
    size_t len;
};

static bool append(void *context, const char *text, size_t len)
{
    struct body *body = context;
    if (len > sizeof body->text - body->len) {
        return false; /* makes bg_metrics_write return BG_ECANCELED */
    }
    memcpy(body->text + body->len, text, len);
    body->len += len;
    return true;
}

static bool write_metrics(bg_gate *gate)
{
    static struct body whole, cheap;
    bg_metrics_item items[] = { { "users", bg_gate_slot(gate), gate } };
    bg_errinfo why;
    if (bg_metrics_write(items, 1, BG_METRICS_PROMETHEUS, 0, append, &whole, &why)
        || bg_metrics_write(items, 1, BG_METRICS_OPENMETRICS, BG_METRICS_CHEAP, append,
                            &cheap, &why)) {
        (void)fprintf(stderr, "%s\n", why.message);
        return false;
    }
    (void)fprintf(stderr, "%s, %zu bytes\n",
                  bg_metrics_content_type(BG_METRICS_PROMETHEUS), whole.len);
    return fwrite(whole.text, 1, whole.len, stdout) == whole.len
           && cheap.len < whole.len;
}

int main(void)
{
    unsigned calls = 0;
    bg_slot *users = make_users();
    bg_gate *gate = NULL;
    bg_gate_options options = BG_GATE_OPTIONS_INIT;
    options.query = ask;
    options.context = &calls;
    options.audit =
        0.001; /* audits are required for bloomgate_gate_false_negatives_total */
    bool right = users && bg_gate_create(users, &options, &gate, NULL) == BG_OK;
    for (uint64_t i = 0; right && i < LOOKUPS; i++) {
        bg_outcome outcome = bg_gate_lookup(gate, &i, sizeof i, NULL);
        right = (outcome == BG_OUTCOME_PRESENT) == (i % 2 == 0 && i < 2 * USERS);
    }
    right = right && calls < LOOKUPS / 2 && write_metrics(gate);
    bg_gate_free(gate);
    bg_slot_free(users);
    return right ? 0 : 1;
}
