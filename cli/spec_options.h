/*
 * spec_options.h - options that describe a filter and its hash function.
 */
#ifndef CLI_SPEC_OPTIONS_H
#define CLI_SPEC_OPTIONS_H

#include "option.h"
#include "plan_rows.h"

#include "bloomgate/all.h"

struct spec_options {
    int kind; /* index into spec_kinds, which starts with "auto" */
    uint64_t items, bytes, folds, k;
    double rate, bits_per_key;
};
extern const struct option_group spec_options_group;

struct hash_options {
    int choice; /* an index in the list of --hash; 0 is fast */
    uint64_t seed;
    const char *keyring;
};
extern const struct option_group hash_options_group;

/* Reports why a filter cannot be created from a spec, with the names of options. Returns an exit
 * code. */
int spec_refuse(const bg_errinfo *why);

/* The option for each field of a plan request, for plan_explain: --items instead of items. */
extern const struct plan_word spec_words[];

/* Returns whether a bg_hash_profile uses a secret. */
bool hash_has_secret(uint32_t profile);

/* Returns the profile that was chosen. The list of choices lacks `custom`, so an index is not a
 * profile's number. */
bg_hash_profile hash_chosen(const struct hash_options *options);

/* A hash spec, and the keyring that contains its secret, if it needs one. The keyring must stay
 * open as long as the hash spec is in use. */
struct secret {
    bg_keyring *ring;
    bg_hash_spec hash;
    uint8_t key_id[BG_KEY_ID_BYTES];
};

/* spec_fill converts filter options to a filter spec without a hash, and secret_current converts
 * hash options to a hash spec. Both return an exit code. */
int spec_fill(const struct spec_options *options, bg_spec *spec);
int secret_current(const struct hash_options *options, struct secret *secret);
void secret_free(struct secret *secret);

/* Returns whether a file is a keyring that contains secrets. Commands check this in order not to
 * overwrite a keyring, because a filter with a keyed hash cannot be read without its secret. */
bool secret_is_keyring(const char *path);

/*
 * spec_record records the options with which a filter was created, as text for its metadata, except
 * for the kind and the hash, which are in the file header. A resumed build cannot change these
 * options. They cannot be derived from the filter: --bits-per-key 10 and --rate 1% may create the
 * same filter, and canaries increase the number of items.
 *
 * spec_recorded_bytes returns the value of --bytes in a record, or 0.
 *
 * spec_expect checks that every option that is set matches the file and its record. A NULL record
 * means that the file has no record. Reports the first option that differs. Returns an exit code.
 */
enum { SPEC_RECORD = 160 };
void spec_record(const bg_spec *spec, char text[SPEC_RECORD]);
uint64_t spec_recorded_bytes(const char *record);
int spec_expect(const char *path, const bg_file_info *about, const char *record,
                const struct spec_options *spec, const struct hash_options *hash);

#endif
