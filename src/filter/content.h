/*
 * content.h - how a filter is represented in a file: as numbers and words, from which it can be
 * restored.
 *
 *     recipe    the independent parameters (kind.h)
 *     numbers   state that follows neither from them nor from the words: seeds, counts, periods
 *     words     all bits, in spans of 64-bit words
 *
 * A composed filter is a tree of shards, layers or generations. Its numbers and spans are the
 * numbers and spans of all nodes in sequence, with each node before its parts. The numbers of every
 * node start with their count:
 *
 *     numbers   [ n0 ][ n0 numbers ][ n1 ][ n1 numbers ] ...
 *
 * To restore a filter, call bgi_recipe_make and then bgi_content_restore_parts, which creates the
 * layers of a scalable filter. Then copy the words into the spans and call
 * bgi_content_restore_state. All input is untrusted. Numbers are checked for plausibility, and the
 * amount of memory that is allocated is limited by the size of the words. For kinds that do not
 * allow arbitrary words, the words are checked against the kind's invariants.
 */
#ifndef BGI_CONTENT_H
#define BGI_CONTENT_H

#include "filter/handle.h"

/* Writes the numbers of all nodes to `to` unless `to` is NULL. Returns how many numbers there
 * are. */
uint64_t bgi_content_numbers(const bg_filter *filter, uint64_t *to);

/* Calls `visit` for every filter in the tree that has words, in order, until `visit` returns false.
 * The words start at bgi_filter_words(leaf) and occupy leaf->bytes bytes. */
typedef bool bgi_content_visit(void *context, bg_filter *leaf);
bool bgi_content_each(const bg_filter *filter, bgi_content_visit *visit, void *context);

/* Creates the parts that the numbers describe. `room` is the total size of all words in bytes.
 * Errors: BG_EFORMAT if the numbers do not describe a possible filter; BG_ENOMEM. */
BG_MUST_CHECK bg_err bgi_content_restore_parts(bg_filter *filter,
                                               const uint64_t *numbers, uint64_t n,
                                               uint64_t room);

/* Call this after the words have been copied. Returns false if the words are not valid
 * for the kind. */
bool bgi_content_restore_state(bg_filter *filter, const uint64_t *numbers, uint64_t n);

/* Attaches memory for the words to a filter that was created without words (BGI_BARE). Each leaf's
 * words start at the next multiple of `line` bytes. Returns the size of the words in bytes. */
uint64_t bgi_content_place(bg_filter *filter, unsigned char *words, uint64_t line);

/* Returns whether the words can be read one by one while other threads add keys, because no
 * word depends on another. */
bool bgi_content_is_steady(const bg_filter *filter);

#endif
