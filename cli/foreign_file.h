/*
 * foreign_file.h - writes filters in the formats of other software to files.
 */
#ifndef CLI_FOREIGN_FILE_H
#define CLI_FOREIGN_FILE_H

#include "bloomgate/all.h"

#include <stdbool.h>

/* Writes the filter to a file atomically. Returns an exit code. */
int foreign_save(const bg_foreign *foreign, const char *path);

/*
 * Sets *alone to true if the file from which the filter was read contains only the filter, and to
 * false otherwise. A database table or a Parquet file also contains other data, which would be lost
 * if the filter were saved to the same file. Returns an exit code.
 */
int foreign_is_alone(const bg_foreign *foreign, const char *path, bool *alone);

/* Returns the format of the filter. */
bg_foreign_format foreign_format(const bg_foreign *foreign);

#endif
