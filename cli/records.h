/*
 * records.h - splits input into records and extracts their keys.
 *
 * A record is delimited by separators (newline or NUL), is preceded by its length (binary), or is a
 * CSV row, which may contain quoted newlines. The key is the record, one of its fields, or a value
 * in a JSON record, after the conversions that the options specify, such as trimming, lowercasing
 * or conversion to a number. The conversion is recorded in the filter file (keys_recipe) and
 * applied again when the filter is queried, so that building and querying use the same keys.
 *
 * Records are processed in chunks (struct chunk): blocks of memory that contain whole records and
 * fit into the CPU cache, unless a single record is larger. keys_split finds the keys in a chunk;
 * several threads process chunks in parallel.
 */
#ifndef CLI_RECORDS_H
#define CLI_RECORDS_H

#include "json_path.h"
#include "option.h"

#include "bloomgate/all.h"

/* The option values. */
struct key_options {
    bool nul, prefixed, csv, whitespace, header, crlf, trim, lower, raw, skip_invalid;
    const char *field;     /* a number or a name; NULL selects the whole record */
    const char *json;      /* a path, or NULL */
    const char *delimiter; /* NULL selects a tab, or a comma for CSV */
    int as;                /* enum key_form */
};

extern const struct option_group key_options_group;

enum key_form { KEY_TEXT, KEY_INT64, KEY_INT32, KEY_HEX, KEY_UTF16 };

/* The validated option values. */
struct key_format {
    enum { KEY_RECORDS_SEPARATED, KEY_RECORDS_PREFIXED, KEY_RECORDS_CSV } records;
    char separator;   /* between records */
    char delimiter;   /* between fields */
    bool blanks;      /* fields are separated by runs of spaces and tabs instead */
    bool header;      /* the first record of each file is a header (header.h) */
    uint64_t field;   /* counted from 1; 0 selects the whole record */
    const char *name; /* the column that the header names, or NULL */
    struct json_path json;
    bool crlf, trim, lower;
    bool skip_invalid;
    enum key_form form;
};

/* Validates options. Reports errors. Returns an exit code. */
int keys_format(const struct key_options *options, struct key_format *format);

/* A recipe such as "trim,lower,int64" describes how the text of a record is converted to a key; ""
 * means that the text is unchanged. keys_follow adopts a recipe, unless options specify a
 * conversion. keys_follow returns false if the recipe contains an unknown word. */
enum { KEY_RECIPE = 64 };
void keys_recipe(const struct key_format *format, char recipe[KEY_RECIPE]);
bool keys_follow(const char *recipe, struct key_format *format);

/* Numbers of keys that may be due to an incorrect option. */
struct key_oddities {
    uint64_t
        cr; /* keys that end with CR, although --crlf is not set; includes skipped keys */
    uint64_t missing; /* records that do not have the field */
    uint64_t empty;   /* other empty keys */
    uint64_t skipped; /* invalid records without keys, with --skip-invalid */
};

/* Whole records and their keys. */
struct chunk {
    char *bytes; /* CHUNK_PAD bytes after `used` are also readable */
    size_t used, room;
    size_t mark;      /* length of a byte-order mark before the first record, in CSV */
    const char *path; /* source file; messages show it with `offset` */
    uint64_t offset;
    size_t file;    /* index of the source file */
    uint64_t line;  /* number of the first line; 0 if it is unknown */
    uint64_t field; /* number of the column that the format names; 0 if it names none */
    uint64_t number; /* position in the sequence of chunks */

    size_t count; /* number of records */
    struct key_oddities odd;
    size_t
        *ends; /* record i is bytes[ends[i - 1] .. ends[i]), including the separator */
    bg_bytes *keys; /* pointers into `bytes` or `arena` */
    size_t places;  /* capacity of `ends` and `keys` */
    char *arena;
    size_t arena_room;

    uint64_t *hashes, *answers; /* one hash and one answer bit per record */
    size_t hashes_room, answers_room;
    char *out; /* output; see chunk_reserve_out */
    size_t out_used, out_room;
    size_t selected; /* number of selected records */
};

enum { CHUNK_PAD = 64 };

void chunk_free(struct chunk *chunk);

/* Ensure that a chunk has space for this many bytes of input, bytes of output, hashes or answer
 * bits. Return false if out of memory. */
bool chunk_reserve(struct chunk *chunk, size_t bytes);
bool chunk_reserve_out(struct chunk *chunk, size_t bytes);
bool chunk_reserve_hashes(struct chunk *chunk, size_t n);
bool chunk_reserve_answers(struct chunk *chunk, size_t n); /* bits */

/* Returns whether every key consists of decimal digits. */
bool chunk_has_only_numbers(const struct chunk *chunk);

/* Counts the newlines in n bytes of a chunk. */
uint64_t chunk_lines(const struct chunk *chunk, size_t from, size_t n);

/* Returns how many of the n bytes form whole records. The remaining bytes are the start of a record
 * that may continue in the bytes that follow. */
size_t keys_whole(const struct key_format *format, const char *bytes, size_t n);

/* Returns whether keys are unconverted records, so that no key can be invalid. */
bool keys_are_records(const struct key_format *format);

/* Finds the records and keys of a chunk, and counts the odd keys. Removes records without keys:
 * invalid records with --skip-invalid, and blank lines of JSON. Reports errors. Returns an exit
 * code. */
int keys_split(const struct key_format *format, struct chunk *chunk);

/* Returns whether record i does not have the field that contains the key. */
bool keys_are_missing(const struct chunk *chunk, size_t i);

/* Copies the records whose bit in `answers` is set (or not set, if `others` is true) to `to`, which
 * may be the chunk's own bytes. `to` needs space for one byte more than the records, because a
 * newline is added to the last line if it does not have one. Returns the number of bytes copied. */
size_t chunk_select(const struct key_format *format, const struct chunk *chunk,
                    bool others, char *to);

/* Returns record i without its separator and byte-order mark. */
bg_bytes chunk_record(const struct key_format *format, const struct chunk *chunk,
                      size_t i);

#endif
