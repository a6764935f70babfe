/*
 * metrics_sample.c - prints metrics documents for scripts that read them with other software:
 * tools/check_ops.py and tests/metrics/.
 *
 *     metrics_sample made prometheus|openmetrics|json
 *
 *         every metric of the table, with made-up numbers. The JSON document is the table
 *         itself: names, types, units, labels, help.
 *
 *     metrics_sample real ...
 *
 *         a slot without a filter, and a slot with a gate that was used.
 */
#include "gate/metrics.h"

#include <stdio.h>
#include <string.h>

static bool print(void *context, const char *text, size_t len)
{
    return fwrite(text, 1, len, context) == len;
}

static void make_value(struct metrics_facts *facts, const struct metrics_value *value,
                       uint64_t number)
{
    char *at = (char *)facts + value->offset;
    double real = (double)number / 64;
    switch (value->form) {
    case METRICS_WHOLE: memcpy(at, &number, sizeof number); break;
    case METRICS_REAL: memcpy(at, &real, sizeof real); break;
    case METRICS_TEXT: memcpy(at, &value->label, sizeof value->label); break;
    case METRICS_CHARS:
        (void)snprintf(at, BG_DIGEST_TEXT_BYTES, "%s", value->label);
        break;
    }
}

static bg_err made(bg_metrics_format format, bg_errinfo *why)
{
    struct metrics_facts facts[3] = {
        { .has = METRICS_PROCESS },
        { .has = METRICS_REGISTRY },
        { .name = "a \"name\"\\\n\xC3\xA4\xFF",
          .has = METRICS_EVERYTHING & ~(METRICS_PROCESS | METRICS_REGISTRY) },
    };
    size_t count;
    const struct metrics_family *families = metrics_families(&count);
    for (size_t i = 0; i < count * METRICS_VALUES * 3; i++) {
        const struct metrics_family *family = &families[i / 3 / METRICS_VALUES];
        const struct metrics_value *value = &family->values[i / 3 % METRICS_VALUES];
        if (value->label) {
            make_value(&facts[i % 3], value, i);
        }
    }
    return metrics_document(facts, 3, format, print, stdout, why);
}

static bg_store_answer ask(void *context, const void *key, size_t len, void *request)
{
    (void)context;
    (void)request;
    return len > 0 && *(const char *)key == 'a' ? BG_STORE_PRESENT : BG_STORE_ABSENT;
}

/* A fixed time, because documents from several runs are compared. */
static uint64_t tell_time(void *context)
{
    (void)context;
    return 1000000007;
}

/* Writes the metrics of `slots[0]`, and of a gate over `slots[1]`. */
static bg_err real_gate(bg_slot *const slots[2], bg_metrics_format format,
                        bg_errinfo *why)
{
    bg_gate *gate = NULL;
    bg_gate_options options = BG_GATE_OPTIONS_INIT;
    options.query = ask;
    options.clock = tell_time;
    bg_err err = bg_gate_create(slots[1], &options, &gate, why);
    for (char key[2] = "b"; !err && *key < 'z'; ++*key) {
        (void)bg_gate_lookup(gate, key, 1, NULL);
    }
    err = err ? err : bg_gate_add(gate, "a", 1);
    (void)bg_gate_lookup(gate, "a", 1, NULL);
    bg_metrics_item items[] = { { "none", slots[0], NULL }, { "letters", NULL, gate } };
    err = err ? err : bg_metrics_write(items, 2, format, 0, print, stdout, why);
    bg_gate_free(gate);
    return err;
}

static bg_err real(bg_metrics_format format, bg_errinfo *why)
{
    bg_spec spec = BG_SPEC_INIT;
    bg_filter *filter = NULL;
    bg_slot *slots[2] = { NULL, NULL };
    bg_slot_options options = BG_SLOT_OPTIONS_INIT;
    options.clock = tell_time;
    spec.items = 100;
    spec.rate = 0.01;
    bg_err err = bg_filter_create(&spec, &filter, why);
    err = err ? err : bg_slot_create(NULL, &options, &slots[0], why);
    err = err ? err : bg_slot_create(filter, &options, &slots[1], why);
    err = err ? err : real_gate(slots, format, why);
    bg_slot_free(slots[0]);
    bg_slot_free(slots[1]);
    return err;
}

int main(int argc, char **argv)
{
    static const char *const formats[] = { "prometheus", "openmetrics", "json" };
    bg_errinfo why = { .code = BG_OK };
    for (unsigned i = 0; argc == 3 && i < sizeof formats / sizeof formats[0]; i++) {
        bool is_real = strcmp(argv[1], "real") == 0;
        if ((is_real || strcmp(argv[1], "made") == 0)
            && strcmp(argv[2], formats[i]) == 0) {
            bg_metrics_format format = (bg_metrics_format)i;
            bg_err err = is_real ? real(format, &why) : made(format, &why);
            (void)fputs(why.message, stderr);
            return err ? 1 : 0;
        }
    }
    (void)fputs("usage: metrics_sample made|real prometheus|openmetrics|json\n",
                stderr);
    return 2;
}
