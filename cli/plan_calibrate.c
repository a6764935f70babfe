/*
 * plan_calibrate.c - measures the filters that plans describe (plan_output.h). Each filter is
 * created as planned or, if that would take too long, with the same parameters but fewer keys. The
 * result includes the number of keys used.
 */
#include "plan_output.h"

#include "say.h"
#include "stop.h"

#include <math.h>

enum {
    CALIBRATE_KEYS = 8000000,
    CALIBRATE_STATIC = 4000000,
    CALIBRATE_ASKED = 1 << 19
};
static const double calibrate_bytes = 64 << 20;

static uint64_t calibrate_keys(const bg_plan *plan)
{
    const bool solved = (bg_kind_traits(plan->kind) & BG_TRAIT_STATIC) != 0;
    double keys = fmin((double)plan->items, solved ? CALIBRATE_STATIC : CALIBRATE_KEYS);
    if (plan->bits_per_key > 0) {
        keys = fmin(keys, 8 * calibrate_bytes / plan->bits_per_key);
    }
    return keys < 1 ? 1 : (uint64_t)keys;
}

static uint64_t calibrate_size(const struct plan_row *row)
{
    return row->err ? 0
                    : (uint64_t)((double)calibrate_keys(&row->plan)
                                 * row->plan.bits_per_key / 8);
}

static int calibrate_row(const struct plan_rows *plans, const struct plan_row *row,
                         struct measured *speed, bool *measured)
{
    bg_errinfo why;
    const uint64_t keys = calibrate_keys(&row->plan);
    bg_window_options window = BG_WINDOW_OPTIONS_INIT;
    struct measure_task task = { .spec = plans->ask.spec,
                                 .present = { NULL, 0, (size_t)keys },
                                 .absent = { NULL, UINT64_C(1) << 62, CALIBRATE_ASKED },
                                 .build_passes = 1,
                                 .lookup_passes = 5 };
    task.spec.kind = (uint32_t)row->kind;
    task.spec.items = keys;
    task.spec.rate = row->plan.target;
    task.spec.bytes = 0;
    task.spec.bits_per_key = row->plan.target > 0 ? 0 : row->plan.bits_per_key;
    if (row->kind == BG_KIND_WINDOW) { /* make the window large enough for all keys */
        window.count = keys;
        task.spec.window = &window;
    }
    const bg_err err = measure_kind(&task, speed, &why);
    *measured = !err;
    if (err == BG_ECANCELED) {
        return CLI_INTERRUPTED;
    }
    if (err) {
        char words[PLAN_TEXT];
        plan_words(&why, words);
        say_warning("%s could not be measured: %s", bg_kind_name(row->kind), words);
    }
    return *measured && speed->lost
               ? say_failed(CLI_DATA, "%s: %llu keys were lost; please report this bug",
                            bg_kind_name(row->kind), (unsigned long long)speed->lost)
               : CLI_OK;
}

int plan_calibrate(const struct plan_rows *plans, struct plan_speeds *speeds)
{
    int code = CLI_OK;
    uint64_t all = 0, done = 0; /* total size of all filters, and of finished ones */
    struct progress progress;
    bg_plan hashing = { .kind = BG_KIND_AUTO };
    for (size_t i = 0; i < plans->count; i++) {
        all += calibrate_size(&plans->rows[i]);
    }
    progress_begin(&progress, "measuring");
    for (size_t i = 0; i < plans->count && !code; i++) {
        if (!plans->rows[i].err) {
            code = stop_wanted()
                       ? (int)CLI_INTERRUPTED
                       : calibrate_row(plans, &plans->rows[i], &speeds->rows[i].speed,
                                       &speeds->rows[i].measured);
        }
        done += calibrate_size(&plans->rows[i]);
        progress_tick(&progress, done, all);
    }
    progress_end(&progress);
    bg_plan_calibrate(&hashing);
    speeds->keyed_hash_ns = hashing.keyed_hash_ns;
    speeds->calibrated = true;
    return code;
}
