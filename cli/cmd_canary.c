/*
 * cmd_canary.c - bloomgate canary: tests a filter with keys for which the correct answers are
 * known.
 *
 * Present canaries were added when the filter was created, so all 16 must be found. Absent canaries
 * are never added, so the share of the 4096 absent canaries for which the filter answers "maybe" is
 * the measured false-positive rate. Both sets of canaries are derived from the generation
 * (docs/format.md, section 8).
 */
#include "command.h"
#include "filter_file.h"
#include "json.h"
#include "number.h"
#include "spool.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

struct canary_options {
    struct common common;
    struct open_options open;
    const char *generation;
    bool keys, json;
};

#define OPT_STRUCT struct canary_options
static const struct option canary_table[] = {
    OPT_FLAG("keys", 0, keys, "print the 16 canaries in hexadecimal, for --as hex"),
    OPT_TEXT("generation", 'g', generation, "N",
             "generation of the canaries (default: that of the file's canaries)"),
    OPT_FLAG("json", 0, json, "print a JSON object (bloomgate.canary.1)"),
    OPT_END,
};

enum { CANARY_ABSENT = 4096, CANARY_KIND = 10 }; /* position of "p" or "a" in a key */

/*
 * These limits determine how many "maybe" answers for absent canaries raise an alarm. Two
 * random effects can make the number differ from the prediction, and neither of them should raise
 * an alarm for an intact filter:
 *
 *   - The prediction is the mean over filters with the same number of set bits. In a filter with a
 *     small number of keys n, the bits may be spread unevenly over the cache lines, which
 *     multiplies the rate by about exp(k z / sqrt(n)), where z is normally distributed. A deviation
 *     of up to 4 standard deviations is allowed. Fingerprint kinds (cuckoo, quotient, static kinds)
 *     are not affected.
 *   - The 4096 keys are only a sample. An alarm is raised only if the probability of this many
 *     "maybe" answers is below 1 in a million at the allowed rate.
 */
static const double canary_tolerated = 1.5, canary_deviations = 4,
                    canary_improbable = 1e-6;

/* Above this rate, finding the present canaries proves nothing. */
static const double canary_too_much = 0.5;

struct canary_answers {
    uint64_t generation;
    size_t present; /* found, out of BG_CANARY_COUNT */
    size_t absent;  /* number of "maybe" answers, out of CANARY_ABSENT */
    bg_estimate measured;
    double predicted; /* false-positive rate predicted from the fill */
    double requested; /* the rate that the filter was created for; 0 if unknown */
    /* Standard deviation of the logarithm of the rate, caused by unevenly spread bits. */
    double deviation;
    bool hurt;         /* degraded or overflowed, so some parts always answer "maybe" */
    const char *fault; /* why the filter failed the test; NULL if it passed */
};

static void canary_print_keys(uint64_t generation)
{
    for (uint32_t i = 0; i < BG_CANARY_COUNT; i++) {
        uint8_t key[BG_CANARY_BYTES];
        bg_canary(generation, i, key);
        for (size_t b = 0; b < sizeof key; b++) {
            printf("%02x", key[b]);
        }
        (void)putchar('\n');
    }
}

/* Absent canary i is present canary 0 with "a" instead of "p", and i in its last 4 bytes. */
static void canary_absent(uint64_t generation, uint32_t i, uint8_t key[BG_CANARY_BYTES])
{
    bg_canary(generation, 0, key);
    key[CANARY_KIND] = 'a';
    for (int b = 0; b < 4; b++) {
        key[BG_CANARY_BYTES - 4 + b] = (uint8_t)(i >> (8 * b));
    }
}

static bool canary_ask_one(const struct filter_file *file,
                           const uint8_t key[BG_CANARY_BYTES])
{
    const bg_bytes bytes = { key, BG_CANARY_BYTES };
    uint64_t maybe = 0;
    return filter_ask(file, &bytes, 1, &maybe) == 1;
}

static double canary_deviation(uint32_t k, double items)
{
    return items > 0 ? k / sqrt(items) : 0;
}

static void canary_predict(const struct filter_file *file, struct canary_answers *a)
{
    bg_filter_info info = { .struct_size = sizeof info };
    bg_foreign_info foreign = { .struct_size = sizeof foreign };
    a->predicted = 1;
    if (file->filter && !bg_filter_get_info(file->filter, &info)) {
        a->predicted = info.rate;
        a->requested = info.design_rate;
        a->hurt = info.degraded || info.overflowed;
        if (!(bg_kind_traits(info.kind) & (BG_TRAIT_FILLS_UP | BG_TRAIT_STATIC))) {
            a->deviation = canary_deviation(info.k, info.items.value);
        }
    } else if (file->foreign && !bg_foreign_get_info(file->foreign, &foreign)) {
        a->predicted = foreign.rate;
        a->deviation =
            foreign.k ? canary_deviation(foreign.k, (double)foreign.ones / foreign.k)
                      : 0;
    }
}

/* Returns whether the filter answers "maybe" for more absent canaries than chance can explain. Uses
 * Chernoff's bound for a Poisson distribution, P(X >= x) <= exp(x - m) (m / x)^x for x > m. */
static bool canary_lets_too_much(const struct canary_answers *a)
{
    const double allowed =
        canary_tolerated * a->predicted * exp(canary_deviations * a->deviation);
    const double mean = CANARY_ABSENT * allowed, seen = (double)a->absent;
    return seen > mean
           && seen - mean + seen * log(mean / seen) < log(canary_improbable);
}

static const char *canary_fault(const struct canary_answers *a)
{
    return a->present == 0 ? "the filter has no canaries of this generation"
           : a->present != BG_CANARY_COUNT ? "canaries are missing"
           : a->hurt ? "the filter is damaged, or had no space for "
                       "some keys"
           : a->measured.value > canary_too_much
               ? "the filter answers \"maybe\" for almost all keys"
           : canary_lets_too_much(a) ? "the false-positive rate is higher than the "
                                       "fill predicts"
                                     : NULL;
}

static void canary_ask(const struct filter_file *file, struct canary_answers *a)
{
    uint8_t key[BG_CANARY_BYTES];
    for (uint32_t i = 0; i < BG_CANARY_COUNT; i++) {
        bg_canary(a->generation, i, key);
        a->present += canary_ask_one(file, key);
    }
    for (uint32_t i = 0; i < CANARY_ABSENT; i++) {
        canary_absent(a->generation, i, key);
        a->absent += canary_ask_one(file, key);
    }
    a->measured = bg_observed_rate(a->absent, CANARY_ABSENT);
    canary_predict(file, a);
    a->fault = canary_fault(a);
}

static void canary_print(const struct canary_answers *a)
{
    printf("generation   %" PRIu64 "\n", a->generation);
    printf("present      %zu of %d found\n", a->present, BG_CANARY_COUNT);
    printf("absent       %zu of %d reported as \"maybe\": %s (%s to %s), predicted "
           "%s\n",
           a->absent, CANARY_ABSENT, RATE_TEXT(a->measured.value),
           RATE_TEXT(a->measured.low), RATE_TEXT(a->measured.high),
           RATE_OF_TEXT(a->predicted, a->requested));
    printf("verdict      %s%s\n", a->fault ? "failed: " : "passed",
           a->fault ? a->fault : "");
}

static void canary_json(const struct canary_answers *a, const char *path)
{
    struct json json;
    json_begin(&json, "bloomgate.canary.1");
    json_text(&json, "file", path);
    json_count(&json, "generation", a->generation);
    json_count(&json, "present", a->present);
    json_count(&json, "present_of", BG_CANARY_COUNT);
    json_count(&json, "absent", a->absent);
    json_count(&json, "absent_of", CANARY_ABSENT);
    json_object(&json, "rate");
    json_real(&json, "value", a->measured.value);
    json_real(&json, "low", a->measured.low);
    json_real(&json, "high", a->measured.high);
    json_close(&json, '}');
    json_real(&json, "predicted_rate", a->predicted);
    json_bool(&json, "good", !a->fault);
    if (a->fault) {
        json_text(&json, "fault", a->fault);
    }
    json_end(&json);
}

static int canary_file(const struct canary_options *o, const char *path,
                       uint64_t generation)
{
    static struct filter_file file;
    struct canary_answers a = { .generation = generation };
    const int code = filter_open(path, &o->open, 0, KEY_TEXT, &file);
    if (code) {
        return code;
    }
    if (!o->generation && file.filter) {
        a.generation = file.about.canary_generation;
    }
    canary_ask(&file, &a);
    if (o->json) {
        canary_json(&a, path);
    } else if (!say_is_quiet()) {
        canary_print(&a);
        if (!a.fault) { /* the answers are right, but many of them are false positives */
            filter_note_rate(&file);
        }
    }
    filter_close(&file);
    return out_finish(a.fault ? CLI_NO : CLI_OK);
}

/* Prints the canaries of a file, which depend only on its header. */
static int canary_keys(const struct canary_options *o,
                       const struct arguments *arguments, uint64_t generation)
{
    bg_errinfo why;
    bg_file_info about = { .struct_size = sizeof about };
    if (arguments->count == 0 && !o->generation) {
        return say_usage("expected FILTER or --generation");
    }
    if (arguments->count == 1 && !o->generation) {
        const int code = filter_expect_ours(arguments->items[0]);
        if (code) {
            return code;
        }
        if (bg_file_get_info(spool_path(arguments->items[0]), &about, &why)) {
            return say_error(arguments->items[0], &why);
        }
        generation = about.canary_generation;
    }
    canary_print_keys(generation);
    return out_finish(CLI_OK);
}

static int canary_command(void *options, const struct arguments *arguments)
{
    const struct canary_options *o = options;
    uint64_t generation = 0;
    if (o->generation && !number_count(o->generation, &generation)) {
        return say_usage("--generation: found '%s', expected a whole number",
                         o->generation);
    }
    if (arguments->count > 1) {
        return say_usage("expected one FILTER");
    }
    if (o->keys) {
        return canary_keys(o, arguments, generation);
    }
    return arguments->count == 1 ? canary_file(o, arguments->items[0], generation)
                                 : say_usage("missing argument FILTER");
}

const struct command command_canary = {
    .name = "canary",
    .summary = "test a filter with keys whose answers are known",
    .usage = "[options] FILTER",
    .about =
        "Looks up the 16 keys that bloomgate build adds to every filter, and 4096 "
        "keys that are never added. All 16 added keys must be found. The share of "
        "the 4096 absent keys for which the filter answers \"maybe\" is the measured "
        "false-positive rate. Exit code: 0 if all canaries are found and the "
        "measured rate is acceptable (below one half, and not significantly higher "
        "than the filter's fill predicts), 1 if not, higher on errors.\n\nOther "
        "software can also add canaries: --keys prints them, 24 bytes each, in "
        "hexadecimal. bloomgate canary --generation N then looks them up in a filter "
        "of any format whose keys are byte strings.",
    .size = sizeof(struct canary_options),
    .uses = { OPT_GROUP("Canaries", canary_table),
              { &open_options_group, offsetof(struct canary_options, open) } },
    .examples = { { "bloomgate canary seen.bg", "test whether the filter works" },
                  { "bloomgate canary --keys -g 7 | bloomgate add --as hex f.bf",
                    "add canaries to a filter in another format" } },
    .run = canary_command,
};
