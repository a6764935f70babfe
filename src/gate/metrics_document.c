/*
 * metrics_document.c - writes facts as a document, in three formats.
 *
 *     Prometheus 0.0.4     OpenMetrics 1.0.0           JSON
 *     # HELP x_total ...   # TYPE x counter            "x_total": { "type": "counter",
 *     # TYPE x_total ...   # UNIT x ... (if any)         "unit": ..., "help": ...,
 *     x_total{...} 1       # HELP x ...                  "samples": [ { "labels": {...},
 *                          x_total{...} 1                              "value": 1 } ] }
 *                          # EOF
 *
 * A format is a table of four functions. All formats share the code that iterates over families,
 * facts and values. In OpenMetrics, a counter family's name does not end with _total, and an info
 * family's name does not end with _info. In the other two formats, a family has the same name as
 * its samples. Prometheus has no `info` type, so its info families are gauges.
 *
 * The header of a family is written just before its first sample, so a family without samples is
 * omitted.
 */
#include "gate/metrics.h"
#include "gate/metrics_text.h"

#include "base/errinfo.h"

#include <math.h>
#include <string.h>

struct document {
    struct metrics_text out;
    const struct document_format *format;
    bool any_family; /* another family precedes this one, so a comma is needed */
    bool any_sample; /* of this family */
};

struct document_format {
    void (*head)(struct document *to, const struct metrics_family *family);
    void (*sample)(struct document *to, const struct metrics_family *family,
                   const struct metrics_facts *facts,
                   const struct metrics_value *value);
    void (*foot)(struct document *to);
    const char *begin, *end; /* of the document */
};

static void document_put(struct document *to, const char *text)
{
    metrics_text_put(&to->out, text);
}

/* ---- Values ------------------------------------------------------------------------ */

static const void *document_fact(const struct metrics_facts *facts,
                                 const struct metrics_value *value)
{
    return (const char *)facts + value->offset;
}

static const char *document_string(const struct metrics_facts *facts,
                                   const struct metrics_value *value)
{
    const void *fact = document_fact(facts, value);
    const char *text = fact;
    if (value->form == METRICS_TEXT) {
        memcpy(&text, fact, sizeof text);
    }
    return text ? text : "";
}

/* Writes the value of a sample, which is 1 for an info metric. Numbers that are not finite are
 * replaced with `none`, unless `none` is NULL. */
static void document_number(struct document *to, const struct metrics_family *family,
                            const struct metrics_facts *facts,
                            const struct metrics_value *value, const char *none)
{
    char text[METRICS_NUMBER];
    const void *fact = document_fact(facts, value);
    if (family->type == METRICS_INFO) {
        document_put(to, "1");
    } else if (value->form == METRICS_WHOLE) {
        metrics_text_whole(&to->out, *(const uint64_t *)fact);
    } else {
        double number = *(const double *)fact;
        metrics_number(number, text);
        document_put(to, none && !isfinite(number) ? none : text);
    }
}

/* Writes one label of a sample. `number` is the label's index. */
typedef void document_label(struct document *to, size_t number, const char *name,
                            const char *value);

static size_t document_labels(struct document *to, const struct metrics_family *family,
                              const struct metrics_facts *facts,
                              const struct metrics_value *value, document_label *put)
{
    size_t n = 0;
    if (facts->name) {
        put(to, n++, "filter", facts->name);
    }
    if (family->by) {
        put(to, n++, family->by, value->label);
    }
    if (family->type != METRICS_INFO) {
        return n;
    }
    for (; value->label; value++) {
        const char *text = document_string(facts, value);
        if (*text) { /* an empty label is omitted */
            put(to, n++, value->label, text);
        }
    }
    return n;
}

/* ---- Prometheus and OpenMetrics ---------------------------------------------------- */

static const char *document_type(enum metrics_type type)
{
    switch (type) {
    case METRICS_COUNTER: return "counter";
    case METRICS_GAUGE: return "gauge";
    case METRICS_INFO: return "info";
    }
    return "unknown";
}

static void document_line(struct document *to, const char *what, const char *name,
                          size_t len, const char *text)
{
    document_put(to, what);
    metrics_text_put_some(&to->out, name, len);
    document_put(to, " ");
    document_put(to, text);
    document_put(to, "\n");
}

static void prometheus_head(struct document *to, const struct metrics_family *family)
{
    bool info = family->type == METRICS_INFO;
    size_t len = strlen(family->name);
    document_line(to, "# HELP ", family->name, len, family->help);
    document_line(to, "# TYPE ", family->name, len,
                  info ? "gauge" : document_type(family->type));
}

static void openmetrics_head(struct document *to, const struct metrics_family *family)
{
    size_t len = strlen(family->name);
    len -= family->type == METRICS_COUNTER ? strlen("_total")
           : family->type == METRICS_INFO  ? strlen("_info")
                                           : 0;
    document_line(to, "# TYPE ", family->name, len, document_type(family->type));
    if (*family->unit) {
        document_line(to, "# UNIT ", family->name, len, family->unit);
    }
    document_line(to, "# HELP ", family->name, len, family->help);
}

static void text_label(struct document *to, size_t number, const char *name,
                       const char *value)
{
    document_put(to, number == 0 ? "{" : ",");
    document_put(to, name);
    document_put(to, "=");
    metrics_text_label(&to->out, value);
}

static void text_sample(struct document *to, const struct metrics_family *family,
                        const struct metrics_facts *facts,
                        const struct metrics_value *value)
{
    document_put(to, family->name);
    size_t labels = document_labels(to, family, facts, value, text_label);
    document_put(to, labels > 0 ? "} " : " ");
    document_number(to, family, facts, value, NULL);
    document_put(to, "\n");
}

static void text_foot(struct document *to)
{
    (void)to;
}

/* ---- JSON -------------------------------------------------------------------------- */

static void json_field(struct document *to, const char *name, const char *text)
{
    document_put(to, name);
    metrics_text_json(&to->out, text);
}

static void json_head(struct document *to, const struct metrics_family *family)
{
    document_put(to, to->any_family ? ",\n" : "\n");
    json_field(to, "", family->name);
    json_field(to, ":{\"type\":", document_type(family->type));
    json_field(to, ",\"unit\":", family->unit);
    json_field(to, ",\"help\":", family->help);
    document_put(to, ",\"samples\":[");
}

static void json_label(struct document *to, size_t number, const char *name,
                       const char *value)
{
    document_put(to, number == 0 ? "" : ",");
    json_field(to, "", name);
    json_field(to, ":", value);
}

static void json_sample(struct document *to, const struct metrics_family *family,
                        const struct metrics_facts *facts,
                        const struct metrics_value *value)
{
    document_put(to, to->any_sample ? ",\n{\"labels\":{" : "\n{\"labels\":{");
    (void)document_labels(to, family, facts, value, json_label);
    document_put(to, "},\"value\":");
    document_number(to, family, facts, value, "null");
    document_put(to, "}");
}

static void json_foot(struct document *to)
{
    document_put(to, "]}");
}

/* ---- Documents --------------------------------------------------------------------- */

static const struct document_format *document_format(bg_metrics_format format)
{
    static const struct document_format formats[] = {
        [BG_METRICS_PROMETHEUS] = { prometheus_head, text_sample, text_foot, "", "" },
        [BG_METRICS_OPENMETRICS] = { openmetrics_head, text_sample, text_foot, "",
                                     "# EOF\n" },
        [BG_METRICS_JSON] = { json_head, json_sample, json_foot,
                              "{\"schema\":\"bloomgate-metrics-1\",\"metrics\":{",
                              "\n}}\n" },
    };
    unsigned number = (unsigned)format;
    return number < sizeof formats / sizeof formats[0] ? &formats[number] : NULL;
}

const char *bg_metrics_content_type(bg_metrics_format format)
{
    switch (format) {
    case BG_METRICS_PROMETHEUS: return "text/plain; version=0.0.4; charset=utf-8";
    case BG_METRICS_OPENMETRICS:
        return "application/openmetrics-text; version=1.0.0; charset=utf-8";
    case BG_METRICS_JSON: return "application/json";
    }
    return "application/octet-stream";
}

bg_err metrics_check(bg_metrics_format format, uint32_t flags, bg_metrics_sink_fn sink,
                     bg_errinfo *info)
{
    bgi_err_clear(info);
    if (!document_format(format)) {
        return bgi_err(info, BG_EINVAL, "format", "a bg_metrics_format", "%u",
                       (unsigned)format);
    }
    if (flags & ~(uint32_t)BG_METRICS_CHEAP) {
        return bgi_err(info, BG_EINVAL, "flags", "0 or BG_METRICS_CHEAP", "%#x",
                       (unsigned)flags);
    }
    return sink ? BG_OK : bgi_err(info, BG_EINVAL, "sink", "a function", "NULL");
}

static void document_samples(struct document *to, const struct metrics_family *family,
                             const struct metrics_facts *facts)
{
    size_t count = 0;
    while (family->values[count].label) {
        count++;
    }
    count = family->type == METRICS_INFO ? 1 : count;
    for (size_t i = 0; i < count && !to->out.stopped; i++) {
        if (!to->any_sample) {
            to->format->head(to, family);
        }
        to->format->sample(to, family, facts, &family->values[i]);
        to->any_sample = true;
    }
}

static void document_family(struct document *to, const struct metrics_family *family,
                            const struct metrics_facts *facts, size_t n)
{
    to->any_sample = false;
    for (size_t i = 0; i < n && !to->out.stopped; i++) {
        if (facts[i].has & family->needs) {
            document_samples(to, family, &facts[i]);
        }
    }
    if (to->any_sample) {
        to->format->foot(to);
        to->any_family = true;
    }
}

bg_err metrics_document(const struct metrics_facts *facts, size_t n,
                        bg_metrics_format format, bg_metrics_sink_fn sink,
                        void *context, bg_errinfo *info)
{
    struct document to = { .format = document_format(format) };
    size_t count;
    const struct metrics_family *families = metrics_families(&count);
    bg_err err = metrics_check(format, 0, sink, info);
    if (err) {
        return err;
    }
    metrics_text_begin(&to.out, sink, context);
    document_put(&to, to.format->begin);
    for (size_t i = 0; i < count && !to.out.stopped; i++) {
        document_family(&to, &families[i], facts, n);
    }
    document_put(&to, to.format->end);
    return metrics_text_end(&to.out) ? BG_OK
                                     : bgi_err_state(info, BG_ECANCELED, "sink",
                                                     "the sink canceled the document");
}
