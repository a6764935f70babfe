/*
 * records.h - from bytes to keys.
 *
 * A record is what stands between separators (lines, or NUL), what a length in front says
 * (binary), or a line of CSV, which may have newlines in quotes. The key is the record, or
 * a field of it, after what the options say: trimmed, in lower case, as a number. How keys
 * are made is written into the file of a filter (keys_recipe), and taken from there when the
 * filter is asked, so that both sides do the same.
 *
 * Records come in chunks (struct chunk): a piece of memory with whole records, as large as
 * fits a processor's cache, or larger for a record that is. keys_split finds the keys in one;
 * several threads do that at once.
 */
#ifndef CLI_RECORDS_H
#define CLI_RECORDS_H

#include "option.h"

#include "bloomgate/bloomgate.h"

/* What the options say. */
struct key_options {
    bool nul, prefixed, csv, crlf, trim, lower, raw;
    uint64_t field;        /* from 1; 0: the whole record */
    const char *delimiter; /* NULL: a tab, in CSV a comma */
    int as;                /* enum key_form */
};

extern const struct option_group key_options_group;

enum key_form { KEY_TEXT, KEY_INT64, KEY_INT32, KEY_HEX, KEY_UTF16 };

/* The same, checked. */
struct key_format {
    enum { KEY_RECORDS_SEPARATED, KEY_RECORDS_PREFIXED, KEY_RECORDS_CSV } records;
    char separator; /* of records */
    char delimiter; /* of fields */
    uint64_t field;
    bool crlf, trim, lower;
    enum key_form form;
};

/* Exit code; a mistake was said. */
int keys_format(const struct key_options *options, struct key_format *format);

/* "trim,lower,int64": what is done to a record's text to make the key; "" for nothing. The
 * second takes such a recipe over, unless the options said something: false if it does not
 * know a word of it. */
enum { KEY_RECIPE = 64 };
void keys_recipe(const struct key_format *format, char recipe[KEY_RECIPE]);
bool keys_follow(const char *recipe, struct key_format *format);

/* Some whole records, and their keys. */
struct chunk {
    char *bytes; /* with CHUNK_PAD bytes behind `used` that may be read */
    size_t used, room;
    const char *path; /* where it comes from, and from which byte on; for messages */
    uint64_t offset;
    uint64_t number; /* of chunks, in order */

    size_t count; /* records */
    size_t
        *ends; /* record i is bytes[ends[i - 1] .. ends[i]), its separator included */
    bg_bytes *keys; /* in `bytes`, or in `arena` */
    size_t places;  /* for how many records these two have room */
    char *arena;
    size_t arena_room;

    uint64_t *hashes,
        *answers; /* for whoever works on it: chunk_hashes, chunk_answers */
    size_t hashes_room, answers_room;
    char *out; /* what it gives: chunk_out */
    size_t out_used, out_room;
    size_t selected; /* records, for whoever delivers it */
};

enum { CHUNK_PAD = 64 };

void chunk_free(struct chunk *chunk);

/* Room for so many bytes; false: no memory. */
bool chunk_reserve(struct chunk *chunk, size_t bytes);
bool chunk_reserve_out(struct chunk *chunk, size_t bytes);
bool chunk_reserve_hashes(struct chunk *chunk, size_t n);
bool chunk_reserve_answers(struct chunk *chunk, size_t n); /* bits */

/* How many of n bytes are whole records, if more may come; the rest is the beginning of one. */
size_t keys_whole(const struct key_format *format, const char *bytes, size_t n);

/* Finds records and keys of a chunk. Returns an exit code; what is wrong was said. */
int keys_split(const struct key_format *format, struct chunk *chunk);

/* Copies the records whose bit in `answers` is set (`others`: is not) to `to`, which may be
 * the chunk's own bytes, and has room for one byte more than these: a last line without a
 * newline gets one. Returns how many bytes that are. */
size_t chunk_select(const struct key_format *format, const struct chunk *chunk,
                    bool others, char *to);

/* Record i without its separator. */
bg_bytes chunk_record(const struct key_format *format, const struct chunk *chunk,
                      size_t i);

#endif
