/*
 * foreign_file.h - filters of other software back into files.
 */
#ifndef CLI_FOREIGN_FILE_H
#define CLI_FOREIGN_FILE_H

#include "bloomgate/bloomgate.h"

#include <stdbool.h>

/* Writes it to a file, in one step. Exit code. */
int foreign_save(const bg_foreign *foreign, const char *path);

/*
 * Whether the file that it was read from has nothing but it: a table or a Parquet file has
 * more, which saving over it would destroy. Exit code.
 */
int foreign_is_alone(const bg_foreign *foreign, const char *path, bool *alone);

/* Its format. */
bg_foreign_format foreign_format(const bg_foreign *foreign);

#endif
