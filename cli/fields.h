/*
 * fields.h - finds the fields of a record, and the end of a CSV record.
 *
 * Fields are separated by one delimiter, or by runs of spaces and tabs (--whitespace). A CSV field
 * that starts with a quote ends at the next delimiter or newline after the closing quote; two quotes
 * inside stand for one. Anywhere else, quotes are ordinary characters, as in 5ft10". If a row ends
 * with CR LF, the CR does not belong to a quoted last field, even without --crlf.
 */
#ifndef CLI_FIELDS_H
#define CLI_FIELDS_H

#include "records.h"

/* Returns the length of the CSV record at the start of `bytes`, including its newline. Sets *whole
 * to false if the record has no newline, and *open to true if a closing quote is missing. */
size_t csv_record(const struct key_format *format, const char *bytes, size_t n,
                  bool *whole, bool *open);

/* Returns how many of the n bytes form whole CSV records. */
size_t csv_whole(const struct key_format *format, const char *bytes, size_t n);

/* A position in a record: the start of the next field, or NULL after the last field. */
struct field_cursor {
    const char *at, *end;
};

static inline struct field_cursor field_begin(bg_bytes record)
{
    const char *at = record.data;
    return (struct field_cursor){ at, at + record.len };
}

/* Sets *field to the next field. Returns false if there is none. CSV fields keep their quotes. */
bool field_next(const struct key_format *format, struct field_cursor *cursor,
                bg_bytes *field);

/* Returns field `number` (counted from 1) of a record without its separator. A field that the
 * record does not have is empty, and its data is NULL. */
bg_bytes field_get(const struct key_format *format, bg_bytes record, uint64_t number);

/* Writes a CSV field without its enclosing quotes to `to`. Two quotes inside become one. Returns
 * the field unchanged if it is not quoted. */
bg_bytes field_unquote(bg_bytes field, char *to);

#endif
