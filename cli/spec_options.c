/* spec_options.c - see spec_options.h. */
#include "spec_options.h"

#include "say.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const spec_kinds[] = { "auto",
#define SPEC_KIND(NAME, number, name) #name,
                                          BG_KINDS(SPEC_KIND)
#undef SPEC_KIND
                                              NULL };

#define OPT_STRUCT struct spec_options
static const struct option spec_table[] = {
    OPT_CHOICE("kind", 'k', kind, "KIND",
               "such as classic or fuse (default: auto = blocked)", spec_kinds),
    OPT_COUNT("items", 'n', items, "N", "expected number of distinct keys"),
    OPT_RATE("rate", 'p', rate, "P", "false-positive rate, such as 0.01, 1e-3 or 0.1%"),
    OPT_REAL("bits-per-key", 0, bits_per_key, "B", "bits per key instead of --rate"),
    OPT_BYTES("bytes", 0, bytes, "SIZE",
              "size instead of --rate, such as 64k, 512M or 2Gi"),
    OPT_COUNT("bits", 0, k, "K", "bits set for each key, or bits per fingerprint"),
    OPT_COUNT("folds", 0, folds, "N", "allow the filter to be halved N times later"),
    OPT_END,
};
#undef OPT_STRUCT
const struct option_group spec_options_group = { "Filter", spec_table };

static const char *const hash_names[] = { "fast",      "fast-int", "keyed", "keyed24",
                                          "keyed-int", "xxh64",    NULL };

#define OPT_STRUCT struct hash_options
static const struct option hash_table[] = {
    OPT_CHOICE("hash", 0, choice, "PROFILE",
               "fast (default), or keyed for untrusted keys", hash_names),
    OPT_COUNT("seed", 0, seed, "N", "seed for fast, fast-int and xxh64"),
    OPT_TEXT("keyring", 0, keyring, "FILE", "file with the secrets of keyed filters"),
    OPT_END,
};
#undef OPT_STRUCT
const struct option_group hash_options_group = { "Hashing", hash_table };

const struct plan_word spec_words[] = {
    { "rate, bits_per_key, bytes", "--rate, --bits-per-key, --bytes" },
    { "bits_per_key, bytes", "--bits-per-key, --bytes" },
    { "items", "--items" },
    { "rate", "--rate" },
    { "bits_per_key", "--bits-per-key" },
    { "bytes", "--bytes" },
    { "k", "--bits" },
    { "folds", "--folds" },
    { "folds, width", "--folds" },
    { "growth", "--growth" },
    { "queries_per_second", "--queries-per-second" },
    { "absent_share", "--absent-share" },
    { "call_cost", "--call-cost" },
    { "memory_cost", "--memory-cost" },
    { "call_seconds", "--call-time" },
    { "latency_objective", "--latency" },
    { "machine", "--machine" },
    { NULL, NULL },
};

int spec_fill(const struct spec_options *options, bg_spec *spec)
{
    if ((options->rate > 0) + (options->bits_per_key > 0) + (options->bytes > 0) > 1) {
        return say_usage("--rate, --bits-per-key and --bytes are mutually exclusive");
    }
    if (options->k > UINT32_MAX || options->folds > UINT32_MAX) {
        return say_usage("--bits and --folds must be below 2^32");
    }
    spec->kind = (uint32_t)options->kind;
    spec->items = options->items;
    spec->rate = options->rate;
    spec->bits_per_key = options->bits_per_key;
    spec->bytes = options->bytes;
    spec->k = (uint32_t)options->k;
    spec->folds = (uint32_t)options->folds;
    return CLI_OK;
}

int spec_refuse(const bg_errinfo *why)
{
    char text[PLAN_TEXT];
    plan_explain(spec_words, why, text);
    return say_failed(say_code(why->code), "%s", text);
}

bool hash_has_secret(uint32_t profile)
{
    switch ((bg_hash_profile)profile) {
#define HASH_CASE(NAME, number, text, secret)                                          \
    case BG_HASH_##NAME: return secret;
        BG_HASHES(HASH_CASE)
#undef HASH_CASE
    }
    return false;
}

bg_hash_profile hash_chosen(const struct hash_options *options)
{
    bg_hash_profile profile = BG_HASH_FAST;
    (void)bg_hash_parse(hash_names[options->choice], &profile);
    return profile;
}

int secret_current(const struct hash_options *options, struct secret *secret)
{
    bg_errinfo why;
    const bg_hash_profile profile = hash_chosen(options);
    const bool keyed = hash_has_secret(profile);
    *secret = (struct secret){ .hash = { .profile = profile, .seed = options->seed } };
    if (!options->keyring) {
        return keyed ? say_usage("--hash %s requires a secret: use --keyring FILE",
                                 bg_hash_name(profile))
                     : CLI_OK;
    }
    if (!keyed && profile != BG_HASH_FAST) {
        return say_usage("--hash %s does not use a secret; omit --keyring",
                         bg_hash_name(profile));
    }
    if (bg_keyring_open(options->keyring, &secret->ring, &why)) {
        return say_error(options->keyring, &why);
    }
    if (!keyed) {
        secret->hash.profile = BG_HASH_KEYED;
    }
    if (bg_keyring_current(secret->ring, &secret->hash, secret->key_id, &why)) {
        return say_error(options->keyring, &why);
    }
    return CLI_OK;
}

void secret_free(struct secret *secret)
{
    bg_keyring_free(secret->ring);
    secret->ring = NULL;
}

bool secret_is_keyring(const char *path)
{
    bg_keyring *ring = NULL;
    char *real = realpath(path, NULL); /* bg_keyring_open refuses symbolic links */
    const bool is_keyring =
        real && !bg_keyring_open(real, &ring, NULL) && bg_keyring_count(ring) > 0;
    bg_keyring_free(ring);
    free(real);
    return is_keyring;
}

/* ---- Records --------------------------------------------------------------------------------- */

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

uint64_t spec_recorded_bytes(const char *record)
{
    return strtoull(record + strcspn(record, " "), NULL, 10); /* the second value */
}

/* Reports that an option is now `now`, but was `then` or not set when the filter was created. */
static int record_differs(const char *path, const char *name, const char *then,
                          const char *now)
{
    return strcmp(then, record_unset) != 0
               ? say_data("%s: created with --%s %s, not %s; use that value or omit "
                          "the option, or start over with -f instead of --resume",
                          path, name, then, now)
               : say_data("%s: created without --%s %s; omit the option, or start over "
                          "with -f instead of --resume",
                          path, name, now);
}

static int record_expect_hash(const char *path, const bg_file_info *about,
                              const struct hash_options *hash)
{
    char then[RECORD_VALUE], now[RECORD_VALUE];
    (void)snprintf(then, sizeof then, "%" PRIu64, about->seed);
    (void)snprintf(now, sizeof now, "%" PRIu64, hash->seed);
    const bg_hash_profile profile = hash_chosen(hash);
    if (profile != BG_HASH_FAST && profile != about->profile) {
        return record_differs(path, "hash",
                              bg_hash_name((bg_hash_profile)about->profile),
                              bg_hash_name(profile));
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
