/* postgres_changes.c - placeholder. */
#include "source_inside.h"

const struct source_mode postgres_changes_mode = { .keys_open = NULL };
