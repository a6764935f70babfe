/*
 * spec_options.h - options that say which filter is wanted, and how keys are hashed.
 */
#ifndef CLI_SPEC_OPTIONS_H
#define CLI_SPEC_OPTIONS_H

#include "option.h"

#include "bloomgate/bloomgate.h"

struct spec_options {
    int kind; /* index in spec_kinds: "auto" first, then by number */
    uint64_t items, bytes, folds, k;
    double rate, bits_per_key;
};
extern const struct option_group spec_options_group;

struct hash_options {
    int profile; /* a bg_hash_profile; custom ones are not for the command line */
    uint64_t seed;
    const char *keyring;
};
extern const struct option_group hash_options_group;

/* Whether a bg_hash_profile has a secret. */
bool hash_has_secret(uint32_t profile);

/* The secret in use: a ring stays open as long as what came out of it. */
struct secret {
    bg_keyring *ring;
    bg_hash_spec hash;
    uint8_t key_id[BG_KEY_ID_BYTES];
};

/* Fill in what the options say. Exit codes. The first leaves the hash alone. */
int spec_fill(const struct spec_options *options, bg_spec *spec);
int secret_current(const struct hash_options *options, struct secret *secret);
void secret_free(struct secret *secret);

/* Returns whether a file is a keyring that contains secrets. Filters cannot be read without their
 * secrets, so no command overwrites such a file. */
bool secret_is_keyring(const char *path);

#endif
