/* postgres_logical.c - placeholder. */
#include "source_inside.h"

const struct source_mode postgres_logical_mode = { .keys_open = NULL };
