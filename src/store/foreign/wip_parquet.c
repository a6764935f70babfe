/* Only so that the library links; goes with its commit. */
#include "store/foreign/foreign.h"

const struct foreign_format foreign_parquet = { .id = BG_FOREIGN_PARQUET,
                                                .name = "parquet" };
