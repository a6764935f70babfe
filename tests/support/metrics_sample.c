/*
 * metrics_sample.c - prints documents of metrics, for the scripts that read them with other
 * software: tools/check_ops.py and tests/metrics/.
 *
 *     metrics_sample made prometheus|openmetrics|json
 *
 *         every metric of the table, with numbers that are made up. As JSON that is the
 *         table itself: names, types, units, labels, help.
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
    case METRICS_CHARS: (void)snprintf(at, BG_DIGEST_TEXT, "%s", value->label); break;
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

int main(int argc, char **argv)
{
    static const char *const formats[] = { "prometheus", "openmetrics", "json" };
    bg_errinfo why = { .code = BG_OK };
    for (unsigned i = 0; argc == 3 && i < sizeof formats / sizeof formats[0]; i++) {
        if (strcmp(argv[1], "made") == 0 && strcmp(argv[2], formats[i]) == 0) {
            bg_err err = made((bg_metrics_format)i, &why);
            (void)fputs(why.message, stderr);
            return err ? 1 : 0;
        }
    }
    (void)fputs("usage: metrics_sample made prometheus|openmetrics|json\n", stderr);
    return 2;
}
