/*
 * plan_rows.h - planning: one plan per kind, the recommended kind, and hints on when a different
 * kind is better. Used by bloomgate plan (tables, JSON, charts) and the HTTP API (JSON), which use
 * different option names.
 *
 * Thread safety: one thread per struct plan_rows.
 */
#ifndef COMMAND_PLAN_ROWS_H
#define COMMAND_PLAN_ROWS_H

#include "bloomgate/all.h"

#include <stdbool.h>
#include <stddef.h>

#define PLAN_ONE(NAME, number, name) +1
enum { PLAN_KINDS = 0 BG_KINDS(PLAN_ONE), PLAN_TEXT = 1024 };
#undef PLAN_ONE

/* The option name for a field of bg_spec or bg_plan_request, such as --items for items. A list ends
 * with an entry whose `field` is NULL. */
struct plan_word {
    const char *field, *word;
};

struct plan_row {
    bg_kind kind;
    bg_err err;          /* why there is no plan, or BG_OK */
    char why[PLAN_TEXT]; /* describes the error with option names */
    bg_plan plan;
};

struct plan_rows {
    bg_plan_request ask;
    const struct plan_word *words;
    struct plan_row rows[PLAN_KINDS];
    size_t count;
    struct plan_row best;      /* the requested kind, or `automatic` */
    struct plan_row automatic; /* the kind that auto selects */
};

/* Creates a plan for each kind, or for the requested kind. Set `ask` and `words` before the call.
 * If no plan is possible, returns false and sets best.why to the reason. */
bool plan_make_all(struct plan_rows *plans);

/* Returns the option name for a field, or the field name itself if the list has no entry for it. */
const char *plan_word(const struct plan_word *words, const char *field);

/* Copies a text, replacing field names with option names. An underscore identifies a field name,
 * because no English word contains an underscore. */
void plan_translate(const struct plan_word *words, const char *from, char *to,
                    size_t room);

/* Writes a library error to `text`, with option names instead of field names. */
void plan_explain(const struct plan_word *words, const bg_errinfo *why,
                  char text[PLAN_TEXT]);

/* Return whether the request specifies a query rate (plan_has_queries), costs (plan_has_costs), or
 * enough to determine a filter's size (plan_is_sized). */
bool plan_has_queries(const struct plan_rows *plans);
bool plan_has_costs(const struct plan_rows *plans);
bool plan_is_sized(const bg_plan_request *ask);

/* Returns whether a kind accepts more keys than planned, given the rate predicted for that many
 * keys. The predicted rate is 1 if a kind that can become full has no space for that many keys. */
bool plan_takes_more(const struct plan_row *row, double rate_then);

/* Returns whether a filter is larger than the memory of the machine, if that is known.
 * ask->machine must be set. */
bool plan_exceeds(const bg_plan_request *ask, const bg_plan *plan);

/* Returns the smallest memory that holds the whole filter: L1, L2, L3, memory, or none. */
const char *plan_fits_into(const bg_plan_request *ask, const bg_plan *plan);

/* Returns the row for a kind, or NULL if the kind has no plan. */
const struct plan_row *plan_find(const struct plan_rows *plans, bg_kind kind);

/* Returns the false-positive rate with `times` times as many keys as planned, or NaN if the filter
 * does not accept that many keys. */
double plan_rate_at(const struct plan_rows *plans, const struct plan_row *row,
                    double times);

/* Creates a plan for a kind at a different false-positive rate. Returns false if that is not
 * possible. */
bool plan_for_rate(const struct plan_rows *plans, bg_kind kind, double rate,
                   bg_plan *plan);

/* Writes hint `number`, counting from 0: a sentence that describes when a different kind or a
 * larger plan is better than the recommendation. Returns false if there is no such hint
 * (plan_hints.c). */
bool plan_hint(const struct plan_rows *plans, size_t number, char text[PLAN_TEXT]);

#endif
