/* spec_record.c - see spec_record.h. */
#include "spec_record.h"

#include "say.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { RECORD_VALUES = 6, RECORD_VALUE = 24 };

static const char *const record_names[RECORD_VALUES] = { "items", "bytes",
                                                         "bits",  "folds",
                                                         "rate",  "bits-per-key" };
static const char record_unset[] = "0";

static void record_values(const bg_spec *spec, char values[RECORD_VALUES][RECORD_VALUE])
{
    const uint64_t counts[] = { spec->items, spec->bytes, spec->k, spec->folds };
    const double reals[] = { spec->rate, spec->bits_per_key };
    for (size_t i = 0; i < RECORD_VALUES; i++) {
        if (i < 4) {
            (void)snprintf(values[i], RECORD_VALUE, "%" PRIu64, counts[i]);
        } else {
            (void)snprintf(values[i], RECORD_VALUE, "%.9g", reals[i - 4]);
        }
    }
}

void spec_record(const bg_spec *spec, char text[SPEC_RECORD])
{
    char values[RECORD_VALUES][RECORD_VALUE];
    size_t used = 0;
    record_values(spec, values);
    for (size_t i = 0; i < RECORD_VALUES; i++) {
        const int n =
            snprintf(text + used, SPEC_RECORD - used, "%s%s", i ? " " : "", values[i]);
        used += n > 0 ? (size_t)n : 0;
    }
}

/* Reports that an option is now `now`, although the filter was created with `then` or without the
 * option. */
static int record_differs(const char *path, const char *name, const char *then,
                          const char *now)
{
    return strcmp(then, record_unset) != 0
               ? say_failed(CLI_DATA,
                            "%s: created with --%s %s, not %s; use that value or omit "
                            "the option, or start over with -f instead of --resume",
                            path, name, then, now)
               : say_failed(CLI_DATA,
                            "%s: created without --%s %s; omit the option, "
                            "or start over with -f instead of --resume",
                            path, name, now);
}

static int record_expect_hash(const char *path, const bg_file_info *about,
                              const struct hash_options *hash)
{
    char then[RECORD_VALUE], now[RECORD_VALUE];
    (void)snprintf(then, sizeof then, "%" PRIu64, about->seed);
    (void)snprintf(now, sizeof now, "%" PRIu64, hash->seed);
    if (hash->profile && (uint32_t)hash->profile != about->profile) {
        return record_differs(path, "hash",
                              bg_hash_name((bg_hash_profile)about->profile),
                              bg_hash_name((bg_hash_profile)hash->profile));
    }
    if (hash->keyring && !hash_has_secret(about->profile)) {
        return record_differs(path, "keyring", record_unset, hash->keyring);
    }
    return hash->seed && hash->seed != about->seed
               ? record_differs(path, "seed", then, now)
               : CLI_OK;
}

int spec_expect(const char *path, const bg_file_info *about, const char *record,
                const struct spec_options *spec, const struct hash_options *hash)
{
    char values[RECORD_VALUES][RECORD_VALUE], then[RECORD_VALUE];
    bg_spec now = BG_SPEC_INIT;
    int code = record_expect_hash(path, about, hash);
    code = code ? code : spec_fill(spec, &now);
    if (!code && now.kind && now.kind != about->kind) {
        code = record_differs(path, "kind", bg_kind_name((bg_kind)about->kind),
                              bg_kind_name((bg_kind)now.kind));
    }
    record_values(&now, values);
    for (size_t i = 0; i < RECORD_VALUES && record && !code; i++) {
        const size_t n = strcspn(record, " \n");
        (void)snprintf(then, sizeof then, "%.*s", (int)n, record);
        if (strcmp(values[i], record_unset) != 0 && strcmp(values[i], then) != 0) {
            code = record_differs(path, record_names[i], then, values[i]);
        }
        record += n + (record[n] == ' ');
    }
    return code;
}
