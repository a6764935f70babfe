/*
 * header.h - header records. With --header, the first record of each file contains the names of the
 * columns. --field NAME selects a column by its name, which may be in a different place in each
 * file.
 */
#ifndef CLI_HEADER_H
#define CLI_HEADER_H

#include "records.h"

/* Returns the length of the record at the start of a file, including its separator. Returns n if it
 * has no separator. */
size_t header_length(const struct key_format *format, const char *bytes, size_t n);

/* Sets *field to the number of the column that `format` names, counted from 1. Reports a missing or
 * ambiguous name. Returns an exit code. */
int header_find(const struct key_format *format, const char *path, const char *bytes,
                size_t n, uint64_t *field);

/* Like header_find, but reads the header from a regular file. Used for later parts of the file. */
int header_read(const struct key_format *format, const char *path, uint64_t *field);

/* Returns whether the first of the records looks like a header, although --header is not set: all
 * its fields look like names, and a field of the second record does not. */
bool header_is_likely(const struct key_format *format, const char *bytes, size_t n);

/* Returns whether the bytes start with a UTF-8 byte-order mark. */
enum { HEADER_MARK = 3 };
bool header_has_mark(const char *bytes, size_t n);

/* Returns the length of the byte-order mark at the start of a CSV file, which belongs to no field,
 * or 0. Quotes after it open a quoted field. */
size_t header_mark(const struct key_format *format, const char *bytes, size_t n);

#endif
