/* bench_report.c - prints the results of bloomgate bench as a table, JSON and charts
 * (bench_rows.h). */
#include "bench_rows.h"

#include "chart.h"
#include "columns.h"
#include "json.h"
#include "number.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static double bench_bits(const struct bench_row *row)
{
    return 8 * (double)row->result.bytes / (double)row->result.keys;
}

/* ---- Table ---------------------------------------------------------------------------------- */

static void bench_heading(const struct bench_rows *bench)
{
    char keys[NUMBER_TEXT], records[NUMBER_TEXT], rate[NUMBER_TEXT];
    printf("%s distinct keys from %s%s records, %.1f bytes on average; hash profile "
           "%s; false-positive rate %s\n"
           "times in nanoseconds of CPU time per key, one thread, median of %d "
           "passes\n\n",
           number_show(bench->keys, keys), bench->cut ? "the first " : "",
           number_show(bench->records, records), bench->key_bytes, bench->hash,
           number_show_rate(bench->rate, rate), BENCH_PASSES);
}

static void bench_line(const struct bench_row *row, struct columns *table)
{
    const struct measured *m = &row->result;
    char text[NUMBER_TEXT];
    columns_row(table);
    columns_set(table, bg_kind_name(row->kind));
    columns_set(table, number_show_bytes(m->bytes, text));
    columns_real(table, 1, bench_bits(row));
    columns_real(table, 1, m->build_ns);
    columns_real(table, 1, m->present_ns);
    columns_real(table, 1, m->absent_ns);
    columns_real(table, 1, m->single_ns);
    columns_set(table, number_show_rate(m->predicted, text));
    columns_set(table, number_show_rate(m->rate.value, text));
}

static void bench_refused(const struct bench_rows *bench)
{
    bool any = false;
    for (size_t i = 0; i < bench->count; i++) {
        const struct bench_row *row = &bench->rows[i];
        if (row->err) {
            char name[COLUMNS_CELL];
            (void)snprintf(name, sizeof name, "  %s", bg_kind_name(row->kind));
            printf("%s", any ? ""
                             : "\n"
                               "Not possible:\n");
            columns_paragraph(name, 15, row->why);
            any = true;
        }
    }
}

void bench_print(const struct bench_rows *bench)
{
    static struct columns table;
    bench_heading(bench);
    columns_add(&table, "", "kind", true);
    columns_add(&table, "", "size", false);
    columns_add(&table, "bits", "/key", false);
    columns_add(&table, "", "build", false);
    columns_add(&table, "batches,", "present", false);
    columns_add(&table, "batches,", "absent", false);
    columns_add(&table, "one", "by one", false);
    columns_add(&table, "rate,", "predicted", false);
    columns_add(&table, "rate,", "measured", false);
    for (size_t i = 0; i < bench->count; i++) {
        if (!bench->rows[i].err) {
            bench_line(&bench->rows[i], &table);
        }
    }
    columns_print(&table);
    bench_refused(bench);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void bench_json_row(struct json *json, const struct bench_row *row)
{
    const struct measured *m = &row->result;
    json_object(json, NULL);
    json_text(json, "kind", bg_kind_name(row->kind));
    json_bool(json, "possible", !row->err);
    if (row->err) {
        json_text(json, "why", row->why);
    } else {
        json_count(json, "bytes", m->bytes);
        json_real(json, "bits_per_key", bench_bits(row));
        json_real(json, "build_ns", m->build_ns);
        json_real(json, "batch_present_ns", m->present_ns);
        json_real(json, "batch_absent_ns", m->absent_ns);
        json_real(json, "single_ns", m->single_ns);
        json_real(json, "predicted_rate", m->predicted);
        json_real(json, "rate", m->rate.value);
        json_real(json, "rate_low", m->rate.low);
        json_real(json, "rate_high", m->rate.high);
        json_count(json, "lost", m->lost);
    }
    json_close(json, '}');
}

void bench_print_json(const struct bench_rows *bench)
{
    struct json json;
    json_begin(&json, "bloomgate.bench.1");
    json_count(&json, "records", bench->records);
    json_count(&json, "keys", bench->keys);
    json_count(&json, "absent_keys", bench->absent);
    json_bool(&json, "cut", bench->cut);
    json_real(&json, "key_bytes", bench->key_bytes);
    json_real(&json, "rate", bench->rate);
    json_text(&json, "hash", bench->hash);
    json_text(&json, "cpu", bg_cpu_name(bg_cpu_current()));
    json_count(&json, "passes", BENCH_PASSES);
    json_list(&json, "kinds");
    for (size_t i = 0; i < bench->count; i++) {
        bench_json_row(&json, &bench->rows[i]);
    }
    json_close(&json, ']');
    json_end(&json);
}

/* ---- Charts ------------------------------------------------------------------------------------ */

int bench_plot(const struct bench_rows *bench, const char *path)
{
    static const char *const series[] = { "batches, present", "batches, absent",
                                          "one by one" };
    const char *names[BENCH_KINDS];
    double times[3 * BENCH_KINDS], bits[BENCH_KINDS];
    struct chart_page page;
    size_t n = 0;
    char below[160], keys[NUMBER_TEXT], rate[NUMBER_TEXT];
    for (size_t i = 0; i < bench->count; i++) {
        const struct bench_row *row = &bench->rows[i];
        if (!row->err) {
            names[n] = bg_kind_name(row->kind);
            times[3 * n] = row->result.present_ns;
            times[3 * n + 1] = row->result.absent_ns;
            times[3 * n + 2] = row->result.single_ns;
            bits[n++] = bench_bits(row);
        }
    }
    (void)snprintf(below, sizeof below,
                   "%s keys of %.1f bytes on average, false-positive rate %s; one "
                   "thread, median of %d passes",
                   number_show(bench->keys, keys), bench->key_bytes,
                   number_show_rate(bench->rate, rate), BENCH_PASSES);
    chart_begin(&page, "Measured filters", below);
    chart_add_bars(&page, &(struct chart_bars){ "Lookup time", "nanoseconds", names, n,
                                                series, 3, times });
    chart_add_bars(&page, &(struct chart_bars){ "Memory", "bits per key", names, n,
                                                series, 1, bits });
    return chart_save(&page, path);
}
