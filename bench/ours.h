/*
 * ours.h - Bloomgate's filters as subjects of the harness.
 *
 * Adds need fresh keys, or they would find every bit set already. So a filter for adds
 * lives in memory of its own that was touched before (bg_filter_init_at), is filled
 * with n / 2 keys, and that state is kept aside. Every visit first copies it back and
 * then adds keys that were never added: no page faults, no clearing, and a fill between
 * half and full, as in real use. Such rows are called "add". "re-add" adds keys that
 * are present. "build" is a whole life: clear, then add all n keys; it pays for the
 * pages that clearing gave back to the system.
 */
#ifndef BGB_OURS_H
#define BGB_OURS_H

#include "harness.h"
#include "keys.h"
#include "region.h"

#include "bloomgate/bloomgate.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A filter in memory of its own, and a state that it can be brought back to. */
struct bgb_arena {
    struct bgb_region region;
    struct bgb_region saved;
    bg_filter *filter;
};

/* Creates the filter and fills it with `fill` present keys; no `fill`, no saved state.
 * It begins `skew` bytes (a multiple of 64) behind a page's beginning: many filters at
 * the same place of their pages would drive each other out of the cache. Ends the
 * program on an error. */
void bgb_arena_make(struct bgb_arena *arena, const bg_spec *spec, uint64_t fill,
                    size_t skew);
void bgb_arena_save(struct bgb_arena *arena);
void bgb_arena_rewind(struct bgb_arena *arena);
void bgb_arena_free(struct bgb_arena *arena);

/* A filter in the library's own memory with n present keys, or the end of the program.
 * */
bg_filter *bgb_filter_make(const bg_spec *spec, uint64_t n);

/* A spec of a kind for n keys at a rate. */
bg_spec bgb_spec(uint32_t kind, uint64_t n, double rate, uint32_t flags);

/* How keys are handed over. Bytes are (pointer, length) pairs of records; fixed are the
 * same records, one after another. */
enum bgb_form {
    BGB_FORM_HASH,
    BGB_FORM_U64,
    BGB_FORM_BYTES,
    BGB_FORM_FIXED,
    BGB_FORMS
};

/* Which keys, and whether they are added or asked for. */
enum bgb_load {
    BGB_LOAD_ABSENT,
    BGB_LOAD_PRESENT,
    BGB_LOAD_MIXED,
    BGB_LOAD_ADD,
    BGB_LOAD_READD
};

/* How many per call: one, 32 (what RocksDB's batches take), or the whole pass. */
enum bgb_grain { BGB_GRAIN_ONE, BGB_GRAIN_32, BGB_GRAIN_ALL };

struct bgb_ours {
    bg_filter *filter;
    struct bgb_arena *arena; /* for adds only */
    const uint64_t *words;   /* hashes or integers */
    const bg_bytes *bytes;
    uint64_t *bitmap;
};

/* What is to become a subject. */
struct bgb_ours_what {
    enum bgb_form form;
    enum bgb_load load;
    enum bgb_grain grain;
};

/*
 * Makes a subject of `filter` (or of `arena`, for adds), with the share of positives
 * that its rate allows. `state` must stay where it is while the subject is in use.
 * Adds are checked once right here: every key added must be answered "maybe".
 */
void bgb_ours_prepare(struct bgb_ours *state, struct bgb_subject *subject,
                      const struct bgb_keys *keys, struct bgb_ours_what what,
                      bg_filter *filter, struct bgb_arena *arena);
void bgb_ours_free(struct bgb_ours *state);

/* The share of absent keys that are answered "maybe", over `trials` keys, as hits. */
uint64_t bgb_ours_false_positives(const bg_filter *filter, uint64_t trials);

/* Bits per key of a filter. */
double bgb_ours_bits_per_key(const bg_filter *filter, uint64_t n);

#endif
