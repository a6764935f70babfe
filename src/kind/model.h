/* model.h - how often a filter says "maybe" to a key that it never saw. See model.c. */
#ifndef BGI_MODEL_H
#define BGI_MODEL_H

#include "kind/kind.h"

/* The expected rate with `items` different keys added (any number, not only whole). */
double bgi_model_rate(const struct bgi_model *model, double items);

/* The expected share of bits set with `items` different keys added. */
double bgi_model_fill(const struct bgi_model *model, double items);

/* The number of keys whose expected fill is `fill` (below 1): the inverse. */
double bgi_model_items(const struct bgi_model *model, double fill);

/* The standard deviation of the number that bgi_model_items finds when `items` keys are
 * in. */
double bgi_model_items_error(const struct bgi_model *model, double items);

/* Items, their error and the rate from `ones` of `of`. A filter with no zero left could
 * hold any number above the one that is most likely to leave half a zero. */
void bgi_model_measure(const struct bgi_model *model, struct bgi_measure *measure);

#endif
