/* model.h - predicts how often a filter answers "maybe" for a key that was never added. See
 * model.c. */
#ifndef BGI_MODEL_H
#define BGI_MODEL_H

#include "kind/kind.h"

/* Returns the expected rate with `items` distinct keys added (`items` need not be a whole
 * number). */
double bgi_model_rate(const struct bgi_model *model, double items);

/* Returns the expected fraction of bits set with `items` distinct keys added. */
double bgi_model_fill(const struct bgi_model *model, double items);

/* Returns the number of keys at which the expected fill is `fill`, which must be below 1. This is
 * the inverse of bgi_model_fill. */
double bgi_model_items(const struct bgi_model *model, double fill);

/* Returns the standard deviation of bgi_model_items' estimate for a filter with `items` distinct
 * keys. */
double bgi_model_items_error(const struct bgi_model *model, double items);

/* Computes the number of items, its error and the rate from the number of set bits (`ones`) out of
 * all bits (`of`). A filter whose bits are all set is measured as if half a bit were unset; the
 * true number of keys may be arbitrarily larger. */
void bgi_model_measure(const struct bgi_model *model, struct bgi_measure *measure);

#endif
