/*
 * content.h - a filter as a file keeps it: taken apart, and put together again.
 *
 *     recipe    the independent parameters (kind.h)
 *     numbers   what follows neither from them nor from the words: seeds, counts, periods
 *     words     all bits, in spans of 64-bit words
 *
 * A composed filter is a tree: shards, layers, generations. Its numbers and spans are
 * those of its nodes, each node before its parts. Every node tells first how many numbers
 * it has:
 *
 *     numbers   [ n0 ][ n0 numbers ][ n1 ][ n1 numbers ] ...
 *
 * Putting it together: bgi_recipe_make, bgi_content_restore_parts (which makes the layers
 * of a scalable filter), the words into the spans, bgi_content_restore_state. Everything
 * may come from a stranger: numbers are compared with what there can be, memory with the
 * words that there are, and words of kinds that not every word suits with their
 * invariants.
 */
#ifndef BGI_CONTENT_H
#define BGI_CONTENT_H

#include "filter/handle.h"

/* How many numbers there are in all; written to `to` unless that is NULL. */
uint64_t bgi_content_numbers(const bg_filter *filter, uint64_t *to);

/* Calls `visit` for every filter in the tree that has words, in order, until it says
 * false: bgi_filter_words, ->bytes of them. */
typedef bool bgi_content_visit(void *context, bg_filter *leaf);
bool bgi_content_each(const bg_filter *filter, bgi_content_visit *visit, void *context);

/* Creates the parts that the numbers describe; `room` is the number of bytes of all words.
 * Errors: BG_EFORMAT if no such filter exists; BG_ENOMEM. */
BG_MUST_CHECK bg_err bgi_content_restore_parts(bg_filter *filter,
                                               const uint64_t *numbers, uint64_t n,
                                               uint64_t room);

/* Once the words are in: false when they are not such as the kind writes. */
bool bgi_content_restore_state(bg_filter *filter, const uint64_t *numbers, uint64_t n);

/* Gives a filter that was made bare (BGI_BARE) its words, each leaf's at the next multiple
 * of `line` bytes; returns how many bytes they take. */
uint64_t bgi_content_place(bg_filter *filter, unsigned char *words, uint64_t line);

/* Whether its words may be read one by one while others add: no word depends on another. */
bool bgi_content_is_steady(const bg_filter *filter);

#endif
