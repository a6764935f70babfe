/*
 * records.c - see records.h. The fast path is for lines that are used as keys without conversion:
 * separators are found 64 bytes at a time, and keys point into the chunk. keys_make handles all
 * other formats.
 */
#include "records.h"

#include "bytes.h"
#include "fields.h"
#include "json_read.h"
#include "letters.h"
#include "number.h"
#include "say.h"
#include "text.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* ---- Options --------------------------------------------------------------------------------- */

static const char *const key_forms[] = {
    "text", "int64", "int32", "hex", "utf16", NULL
};

#define OPT_STRUCT struct key_options
static const struct option key_options_table[] = {
    OPT_FLAG("null", '0', nul, "records end with NUL instead of newline"),
    OPT_FLAG("length-prefixed", 0, prefixed, "records start with a 4-byte length"),
    OPT_FLAG("csv", 0, csv, "records are rows of CSV, with optional quotes"),
    OPT_TEXT("json", 0, json, "PATH",
             "records are JSON; the key is at PATH, such as .user.id"),
    OPT_TEXT("field", 0, field, "FIELD",
             "field to use as the key: a number or a column name"),
    OPT_FLAG("header", 0, header,
             "the first record of each file is a header, not a key"),
    OPT_TEXT("delimiter", 0, delimiter, "C",
             "field delimiter (default: tab; with --csv: comma)"),
    OPT_FLAG("whitespace", 0, whitespace,
             "fields are separated by runs of spaces and tabs"),
    OPT_FLAG("crlf", 0, crlf, "lines may end with CR LF"),
    OPT_FLAG("trim", 0, trim, "remove whitespace around the key"),
    OPT_FLAG("lower", 0, lower, "convert A-Z to a-z"),
    OPT_CHOICE("as", 0, as, "FORM", "form of the key: text, int64, int32, hex or utf16",
               key_forms),
    OPT_FLAG("skip-invalid", 0, skip_invalid,
             "skip records with invalid keys instead of failing"),
    OPT_FLAG("raw", 0, raw, "do not decompress input"),
    OPT_END,
};

const struct option_group key_options_group = { "Keys", key_options_table };

static int keys_delimiter(const char *text, char *delimiter)
{
    if (strcmp(text, "\\t") == 0) {
        *delimiter = '\t';
        return CLI_OK;
    }
    if (strlen(text) != 1) {
        return say_usage("--delimiter: found '%s', expected one character or \\t",
                         text);
    }
    *delimiter = text[0];
    return CLI_OK;
}

/* Parses --field: a number, or the name of a column. */
static int keys_read_field(const char *text, struct key_format *format)
{
    const bool number = *text && strspn(text, "0123456789") == strlen(text);
    if (!*text || (number && (!number_count(text, &format->field) || !format->field))) {
        return say_usage("--field: found '%s', expected a number of at least 1, or the "
                         "name of a column",
                         text);
    }
    format->name = number ? NULL : text;
    format->header = format->header || format->name;
    return CLI_OK;
}

static int keys_check_delimiter(const struct key_options *o, struct key_format *format)
{
    const int code =
        o->delimiter ? keys_delimiter(o->delimiter, &format->delimiter) : CLI_OK;
    if (!code && o->csv && (format->delimiter == '"' || format->delimiter == '\n')) {
        return say_usage("--delimiter: must not be a quote or a newline with --csv");
    }
    return code;
}

/* Refuses options that contradict each other. */
static int keys_check(const struct key_options *o)
{
    if (o->nul + o->prefixed + o->csv > 1) {
        return say_usage("--null, --length-prefixed and --csv are mutually exclusive");
    }
    if (o->prefixed && (o->crlf || o->field || o->header || o->whitespace)) {
        return say_usage("--length-prefixed cannot be combined with --crlf, --field, "
                         "--header or --whitespace");
    }
    if (o->json && (o->csv || o->field || o->delimiter || o->whitespace || o->header)) {
        return say_usage("--json cannot be combined with --csv, --field, --delimiter, "
                         "--whitespace or --header");
    }
    if (o->whitespace && (o->csv || o->delimiter)) {
        return say_usage("--whitespace cannot be combined with --csv or --delimiter");
    }
    return CLI_OK;
}

int keys_format(const struct key_options *o, struct key_format *format)
{
    *format = (struct key_format){ .separator = o->nul ? 0 : '\n',
                                   .delimiter = o->csv ? ',' : '\t',
                                   .blanks = o->whitespace,
                                   .header = o->header,
                                   .field = o->csv || o->whitespace,
                                   .crlf = o->crlf,
                                   .trim = o->trim,
                                   .lower = o->lower,
                                   .skip_invalid = o->skip_invalid,
                                   .form = (enum key_form)o->as };
    format->records = o->prefixed ? KEY_RECORDS_PREFIXED
                      : o->csv    ? KEY_RECORDS_CSV
                                  : KEY_RECORDS_SEPARATED;
    int code = keys_check(o);
    if (!code && o->json && !json_path_parse(o->json, &format->json)) {
        code = say_usage("--json: found '%s', expected a path such as .user.id, "
                         ".tags[0] or .[\"a.b\"]",
                         o->json);
    }
    code = code || !o->field ? code : keys_read_field(o->field, format);
    return code ? code : keys_check_delimiter(o, format);
}

void keys_recipe(const struct key_format *format, char recipe[KEY_RECIPE])
{
    (void)snprintf(recipe, KEY_RECIPE, "%s%s%s%s", format->trim ? ",trim" : "",
                   format->lower ? ",lower" : "", format->form ? "," : "",
                   format->form ? key_forms[format->form] : "");
    if (*recipe) {
        memmove(recipe, recipe + 1, strlen(recipe));
    }
}

static bool keys_follow_word(const char *word, size_t n, struct key_format *format)
{
    if (n == 4 && memcmp(word, "trim", n) == 0) {
        format->trim = true;
        return true;
    }
    if (n == 5 && memcmp(word, "lower", n) == 0) {
        format->lower = true;
        return true;
    }
    for (int i = 1; key_forms[i]; i++) {
        if (strlen(key_forms[i]) == n && memcmp(word, key_forms[i], n) == 0) {
            format->form = format->form ? format->form : (enum key_form)i;
            return true;
        }
    }
    return false;
}

bool keys_follow(const char *recipe, struct key_format *format)
{
    while (*recipe) {
        const size_t n = strcspn(recipe, ",");
        if (!keys_follow_word(recipe, n, format)) {
            return false;
        }
        recipe += n + (recipe[n] == ',');
    }
    return true;
}

/* ---- Memory ---------------------------------------------------------------------------------- */

/* Ensures that a block of memory has space for n elements of `size` bytes each, and preserves its
 * content. If the space has to grow, it grows by at least 50%. */
static bool keys_grow(void *pointer, size_t *room, size_t n, size_t size)
{
    void **memory = pointer;
    if (n <= *room) {
        return true;
    }
    const size_t more = *room + *room / 2;
    const size_t want = n > more ? n : more;
    void *grown = want <= (SIZE_MAX - CHUNK_PAD) / size
                      ? realloc(*memory, want * size + CHUNK_PAD)
                      : NULL;
    if (!grown) {
        (void)say_full("out of memory: cannot allocate a record or chunk of %zu bytes",
                       n);
        return false;
    }
    *memory = grown;
    *room = want;
    return true;
}

bool chunk_reserve(struct chunk *chunk, size_t bytes)
{
    return keys_grow(&chunk->bytes, &chunk->room, bytes, 1);
}

bool chunk_reserve_out(struct chunk *chunk, size_t bytes)
{
    return keys_grow(&chunk->out, &chunk->out_room, bytes, 1);
}

bool chunk_reserve_hashes(struct chunk *chunk, size_t n)
{
    return keys_grow(&chunk->hashes, &chunk->hashes_room, n, sizeof *chunk->hashes);
}

bool chunk_reserve_answers(struct chunk *chunk, size_t n)
{
    return keys_grow(&chunk->answers, &chunk->answers_room, BG_BITMAP_WORDS(n),
                     sizeof *chunk->answers);
}

static bool keys_is_number(bg_bytes key)
{
    const char *digits = key.data;
    size_t n = 0;
    while (n < key.len && digits[n] >= '0' && digits[n] <= '9') {
        n++;
    }
    return n > 0 && n == key.len;
}

bool chunk_has_only_numbers(const struct chunk *chunk)
{
    size_t i = 0;
    while (i < chunk->count && keys_is_number(chunk->keys[i])) {
        i++;
    }
    return i == chunk->count;
}

static bool keys_reserve_records(struct chunk *chunk, size_t n)
{
    size_t places = chunk->places;
    return keys_grow(&chunk->ends, &places, n, sizeof *chunk->ends)
           && keys_grow(&chunk->keys, &chunk->places, n, sizeof *chunk->keys);
}

void chunk_free(struct chunk *chunk)
{
    free(chunk->bytes);
    free(chunk->ends);
    free(chunk->keys);
    free(chunk->arena);
    free(chunk->hashes);
    free(chunk->answers);
    free(chunk->out);
    *chunk = (struct chunk){ 0 };
}

/* ---- Records --------------------------------------------------------------------------------- */

enum { KEY_PREFIX = 4 };

static size_t keys_prefix(const char *bytes)
{
    return bytes_load32((const unsigned char *)bytes);
}

static size_t keys_whole_prefixed(const char *bytes, size_t n)
{
    size_t at = 0;
    while (n - at >= KEY_PREFIX && n - at - KEY_PREFIX >= keys_prefix(bytes + at)) {
        at += KEY_PREFIX + keys_prefix(bytes + at);
    }
    return at;
}

size_t keys_whole(const struct key_format *format, const char *bytes, size_t n)
{
    if (format->records == KEY_RECORDS_PREFIXED) {
        return keys_whole_prefixed(bytes, n);
    }
    if (format->records == KEY_RECORDS_CSV) {
        return csv_whole(format, bytes, n);
    }
    const char *last = memrchr(bytes, format->separator, n);
    return last ? (size_t)(last - bytes) + 1 : 0;
}

/* Returns a mask for 64 bytes: bit i is set if byte i is the separator. */
static uint64_t keys_mask(const char *bytes, char separator)
{
#ifdef __SSE2__
    const __m128i wanted = _mm_set1_epi8(separator);
    uint64_t mask = 0;
    for (int i = 0; i < 4; i++) {
        const __m128i here =
            _mm_loadu_si128((const __m128i *)(const void *)(bytes + 16 * i));
        mask |= (uint64_t)(unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(here, wanted))
                << (16 * i);
    }
    return mask;
#else
    uint64_t mask = 0;
    for (int i = 0; i < 64; i++) {
        mask |= (uint64_t)(bytes[i] == separator) << i;
    }
    return mask;
#endif
}

uint64_t chunk_lines(const struct chunk *chunk, size_t from, size_t n)
{
    uint64_t lines = 0;
    for (size_t at = 0; at < n; at += 64) {
        const uint64_t mask = keys_mask(chunk->bytes + from + at, '\n');
        lines += (uint64_t)__builtin_popcountll(
            n - at < 64 ? mask & ((UINT64_C(1) << (n - at)) - 1) : mask);
    }
    return lines;
}

/* Stores the end offsets of the records whose separators are set in `mask`. Lines are usually at
 * least 20 bytes long, so 64 bytes rarely contain more than four separators. The first four ends
 * are stored without branching, because a branch would be mispredicted for every other mask. If
 * `mask` has fewer than four separators, the surplus entries are overwritten by the ends for the
 * next mask. */
static size_t keys_note_ends(uint64_t mask, size_t at, size_t *ends, size_t count)
{
    const uint64_t top = UINT64_C(1) << 63; /* __builtin_ctzll(0) is undefined */
    for (int i = 0; i < 4; i++) {
        ends[count] = at + (size_t)__builtin_ctzll(mask | top);
        count += mask != 0;
        mask &= mask - 1;
    }
    for (; mask; mask &= mask - 1) {
        ends[count++] = at + (size_t)__builtin_ctzll(mask);
    }
    return count;
}

/* Finds the ends of all records. The last record may have no separator. */
static bool keys_find_separated(struct chunk *chunk, char separator)
{
    size_t count = 0;
    for (size_t at = 0; at < chunk->used; at += 64) {
        uint64_t mask = keys_mask(chunk->bytes + at, separator);
        if (chunk->used - at < 64) {
            mask &= (UINT64_C(1) << (chunk->used - at)) - 1;
        }
        if (count + 64 > chunk->places && !keys_reserve_records(chunk, count + 64)) {
            return false;
        }
        count = keys_note_ends(mask, at + 1, chunk->ends, count);
    }
    if (chunk->used > 0 && (count == 0 || chunk->ends[count - 1] < chunk->used)) {
        if (!keys_reserve_records(chunk, count + 1)) {
            return false;
        }
        chunk->ends[count++] = chunk->used;
    }
    chunk->count = count;
    return true;
}

/* Finds the ends of binary or CSV records. `next` returns the end of the record at `at`. */
static bool keys_find_others(const struct key_format *format, struct chunk *chunk,
                             size_t (*next)(const struct key_format *format,
                                            const struct chunk *chunk, size_t at))
{
    chunk->count = 0;
    for (size_t at = 0; at < chunk->used;) {
        at = next(format, chunk, at);
        if (chunk->count == chunk->places
            && !keys_reserve_records(chunk, chunk->count + 64)) {
            return false;
        }
        chunk->ends[chunk->count++] = at;
    }
    return true;
}

/* A record that is truncated at the end of the input ends at the end of the chunk. */
static size_t keys_next_prefixed(const struct key_format *format,
                                 const struct chunk *chunk, size_t at)
{
    (void)format;
    const size_t left = chunk->used - at;
    if (left < KEY_PREFIX || left - KEY_PREFIX < keys_prefix(chunk->bytes + at)) {
        return chunk->used;
    }
    return at + KEY_PREFIX + keys_prefix(chunk->bytes + at);
}

static size_t keys_next_csv(const struct key_format *format, const struct chunk *chunk,
                            size_t at)
{
    bool whole, open;
    at = at ? at : chunk->mark;
    return at + csv_record(format, chunk->bytes + at, chunk->used - at, &whole, &open);
}

/* CSV records without any quotes are lines. */
static bool keys_find_csv(const struct key_format *format, struct chunk *chunk)
{
    return chunk->used && memchr(chunk->bytes, '"', chunk->used)
               ? keys_find_others(format, chunk, keys_next_csv)
               : keys_find_separated(chunk, '\n');
}

static bool keys_find(const struct key_format *format, struct chunk *chunk)
{
    switch (format->records) {
    case KEY_RECORDS_SEPARATED: return keys_find_separated(chunk, format->separator);
    case KEY_RECORDS_PREFIXED:
        return keys_find_others(format, chunk, keys_next_prefixed);
    case KEY_RECORDS_CSV: return keys_find_csv(format, chunk);
    }
    return false;
}

/* Copies records `first` to `last` to `to`. Returns the number of bytes copied. */
static size_t keys_move(const struct chunk *chunk, size_t first, size_t last, char *to)
{
    const size_t begin = first ? chunk->ends[first - 1] : 0;
    const size_t n = chunk->ends[last] - begin;
    memmove(to, chunk->bytes + begin, n);
    return n;
}

size_t chunk_select(const struct key_format *format, const struct chunk *chunk,
                    bool others, char *to)
{
    size_t used = 0;
    for (size_t base = 0; base < chunk->count; base += 64) {
        const size_t here = chunk->count - base < 64 ? chunk->count - base : 64;
        uint64_t bits = chunk->answers[base / 64] ^ (others ? ~UINT64_C(0) : 0);
        bits &= here < 64 ? (UINT64_C(1) << here) - 1 : ~UINT64_C(0);
        while (bits) { /* copy one run of adjacent records at a time */
            const unsigned first = (unsigned)__builtin_ctzll(bits);
            const uint64_t behind = ~(bits >> first);
            const unsigned n = behind ? (unsigned)__builtin_ctzll(behind) : 64;
            used += keys_move(chunk, base + first, base + first + n - 1, to + used);
            bits = first + n < 64 ? bits & (~UINT64_C(0) << (first + n)) : 0;
        }
    }
    if (format->records != KEY_RECORDS_PREFIXED && used
        && to[used - 1] != format->separator) {
        to[used++] = format->separator;
    }
    return used;
}

bg_bytes chunk_record(const struct key_format *format, const struct chunk *chunk,
                      size_t i)
{
    const size_t begin = i ? chunk->ends[i - 1] : chunk->mark;
    size_t end = chunk->ends[i];
    if (format->records == KEY_RECORDS_PREFIXED) {
        const size_t skip = end - begin < KEY_PREFIX ? end - begin : KEY_PREFIX;
        return (bg_bytes){ chunk->bytes + begin + skip, end - begin - skip };
    }
    end -= end > begin && chunk->bytes[end - 1] == format->separator;
    /* The last record may have no separator, or only the first half of CR LF. */
    end -= format->crlf && end > begin && chunk->bytes[end - 1] == '\r';
    return (bg_bytes){ chunk->bytes + begin, end - begin };
}

/* ---- Keys ------------------------------------------------------------------------------------ */

static bg_bytes keys_trim(bg_bytes text)
{
    const char *data = text.data;
    while (text.len && isspace((unsigned char)data[text.len - 1])) {
        text.len--;
    }
    while (text.len && isspace((unsigned char)*data)) {
        data++;
        text.len--;
    }
    return (bg_bytes){ data, text.len };
}

/* keys_integer, keys_hex and keys_utf16 convert text to another key form and write the result to
 * `to`. They return false if the text is invalid. */
static bool keys_integer(bg_bytes text, bool wide, char *to, bg_bytes *key)
{
    const char *data = text.data;
    const bool negative = text.len && data[0] == '-';
    uint64_t value = 0;
    const size_t width = wide ? 8 : 4;
    const uint64_t most = (wide ? UINT64_MAX : UINT32_MAX);
    const uint64_t least = (UINT64_C(1) << (8 * width - 1));
    if (text.len == (size_t)negative) {
        return false;
    }
    for (size_t i = negative; i < text.len; i++) {
        const unsigned digit = (unsigned)(unsigned char)data[i] - '0';
        if (digit > 9 || value > (most - digit) / 10) {
            return false;
        }
        value = value * 10 + digit;
    }
    if (negative && value > least) {
        return false;
    }
    value = negative ? 0 - value : value;
    for (size_t i = 0; i < width; i++) {
        to[i] = (char)(value >> (8 * i));
    }
    *key = (bg_bytes){ to, width };
    return true;
}

static bool keys_hex(bg_bytes text, char *to, bg_bytes *key)
{
    const char *data = text.data;
    for (size_t i = 0; i + 1 < text.len; i += 2) {
        const int high = hex_digit(data[i]), low = hex_digit(data[i + 1]);
        if (high < 0 || low < 0) {
            return false;
        }
        to[i / 2] = (char)(high << 4 | low);
    }
    *key = (bg_bytes){ to, text.len / 2 };
    return text.len % 2 == 0;
}

static bool keys_utf16(bg_bytes text, char *to, bg_bytes *key)
{
    const char *s = text.data;
    size_t n = 0;
    for (size_t i = 0, step; i < text.len; i += step) {
        uint32_t code = 0;
        step = text_character(s + i, text.len - i, &code);
        if (step == 0) {
            return false;
        }
        if (code >= 0x10000) {
            const uint32_t high = 0xD800 + ((code - 0x10000) >> 10);
            to[n++] = (char)high;
            to[n++] = (char)(high >> 8);
            code = 0xDC00 + ((code - 0x10000) & 0x3FF);
        }
        to[n++] = (char)code;
        to[n++] = (char)(code >> 8);
    }
    *key = (bg_bytes){ to, n };
    return true;
}

static bool keys_convert(enum key_form form, bg_bytes text, char *to, bg_bytes *key)
{
    switch (form) {
    case KEY_TEXT: *key = text; return true;
    case KEY_INT64:
    case KEY_INT32: return keys_integer(text, form == KEY_INT64, to, key);
    case KEY_HEX: return keys_hex(text, to, key);
    case KEY_UTF16: return keys_utf16(text, to, key);
    }
    return false;
}

/* The result of keys_make. */
enum key_result {
    KEY_MADE,
    KEY_NONE, /* the record has no key, and is not an error: a blank line of JSON */
    KEY_INVALID
};

/* Describes an invalid key. */
struct key_fault {
    const char *what;   /* "not valid " */
    const char *wanted; /* "int64" */
    size_t column;      /* position in the record, counted from 1; 0 if it is unknown */
    bool cr;            /* the text of the key ends with CR */
};

static bool keys_is_cut_off(const struct key_format *format, bg_bytes record)
{
    return format->records == KEY_RECORDS_PREFIXED
           && (record.len < KEY_PREFIX
               || record.len - KEY_PREFIX != keys_prefix(record.data));
}

/* Returns whether a quoted field is still open at the end of the input. Such a field contains all
 * records after its opening quote. */
static bool keys_is_open(const struct key_format *format, bg_bytes record)
{
    bool whole, open = false;
    if (format->records == KEY_RECORDS_CSV) {
        (void)csv_record(format, record.data, record.len, &whole, &open);
    }
    return open;
}

/* Writes the start of a record to `shown`. The record is untrusted, so control characters are
 * replaced. */
enum { KEY_SHOWN = 41 };
static const char *keys_show(bg_bytes record, char shown[KEY_SHOWN + 3])
{
    size_t n = 0;
    for (; n < record.len && n + 1 < KEY_SHOWN; n++) {
        const unsigned char c = ((const unsigned char *)record.data)[n];
        shown[n] = (char)(c < 0x20 || c >= 0x7F ? '?' : c);
    }
    (void)snprintf(shown + n, 4, "%s", record.len > n ? "..." : "");
    return shown;
}

/* Describes a position: "line 7", or "at byte 100" if the line is unknown. `line` is the number of
 * lines before the position in the chunk, and `offset` the number of bytes. */
enum { KEY_PLACE = 48 };
static const char *keys_place(const struct chunk *chunk, uint64_t line, size_t offset,
                              char place[KEY_PLACE])
{
    if (chunk->line) {
        (void)snprintf(place, KEY_PLACE, "line %" PRIu64, chunk->line + line);
    } else {
        (void)snprintf(place, KEY_PLACE, "at byte %" PRIu64, chunk->offset + offset);
    }
    return place;
}

static bool keys_may_end_with_cr(const struct key_format *format)
{
    return format->records != KEY_RECORDS_PREFIXED && format->separator == '\n'
           && !format->crlf && !format->json.set;
}

/* Returns whether a key ends with CR, which is probably part of the line ending. */
static bool keys_ends_with_cr(const struct key_format *format, bg_bytes text)
{
    return text.len > 0 && ((const char *)text.data)[text.len - 1] == '\r'
           && keys_may_end_with_cr(format);
}

/* Decodes a JSON string. The result is never longer than the string. */
static bool keys_decode(const struct json_value *value, char *to, bg_bytes *text)
{
    struct json_reader reader;
    struct json_span decoded;
    if (value->simple) {
        *text = (bg_bytes){ value->at + 1, value->len - 2 };
        return true;
    }
    memcpy(to, value->at, value->len);
    json_read_begin(&reader, to, value->len);
    if (!json_read_string(&reader, &decoded)) {
        return false;
    }
    *text = (bg_bytes){ decoded.bytes, decoded.len };
    return true;
}

/* Sets *text to the value that --json selects; its data is NULL if there is no value. */
static enum key_result keys_json(const struct key_format *format, bg_bytes *text,
                                 char *to, struct key_fault *fault)
{
    const char *first = text->data;
    const struct json_value value = json_path_find(&format->json, first, text->len);
    const size_t column = (size_t)(value.at - first) + 1;
    switch (value.kind) {
    case JSON_ABSENT: *text = (bg_bytes){ NULL, 0 }; return KEY_MADE;
    case JSON_PLAIN: *text = (bg_bytes){ value.at, value.len }; return KEY_MADE;
    case JSON_BLANK: return KEY_NONE;
    case JSON_INVALID:
        *fault =
            (struct key_fault){ "not valid JSON, expected ", value.why, column, false };
        return KEY_INVALID;
    case JSON_CONTAINER:
        *fault = (struct key_fault){ "found an object or list, expected ",
                                     "a string or number at the path", column, false };
        return KEY_INVALID;
    case JSON_STRING: break;
    }
    *fault = (struct key_fault){ "found a lone surrogate or invalid UTF-8, expected ",
                                 "a Unicode string", column, false };
    return keys_decode(&value, to, text) ? KEY_MADE : KEY_INVALID;
}

/* Marks the empty key of a record that does not have the field: its data points here. */
static const char keys_none[1] = "";

bool keys_are_missing(const struct chunk *chunk, size_t i)
{
    return chunk->keys[i].data == keys_none;
}

/* Creates the key of record i. `to` has space for the largest possible result. */
static enum key_result keys_make(const struct key_format *format, struct chunk *chunk,
                                 size_t i, char *to, struct key_fault *fault)
{
    bg_bytes text = chunk_record(format, chunk, i);
    /* The converted key is written after the space for the whole record, because the text may be
     * anywhere in that space after quotes and blanks have been removed. */
    char *formed = to + text.len;
    const uint64_t field = chunk->field ? chunk->field : format->field;
    if (format->json.set) {
        const enum key_result found = keys_json(format, &text, to, fault);
        if (found != KEY_MADE) {
            return found;
        }
    } else if (field) {
        text = field_get(format, text, field);
    }
    const bool missing = !text.data;
    text = missing ? (bg_bytes){ to, 0 } : text;
    text = format->records == KEY_RECORDS_CSV ? field_unquote(text, to) : text;
    text = format->trim ? keys_trim(text) : text;
    if (format->lower) {
        const char *from = text.data;
        for (size_t j = 0; j < text.len; j++) {
            to[j] = letter_lower(from[j]);
        }
        text.data = to;
    }
    *fault = (struct key_fault){ "not valid ",
                                 format->form == KEY_UTF16 ? "UTF-8"
                                                           : key_forms[format->form],
                                 0, keys_ends_with_cr(format, text) };
    if (!keys_convert(format->form, text, formed, &chunk->keys[i])) {
        return KEY_INVALID;
    }
    if (missing) {
        chunk->keys[i] = (bg_bytes){ keys_none, 0 };
    }
    chunk->odd.cr += fault->cr;
    chunk->odd.missing += missing;
    chunk->odd.empty += !missing && text.len == 0;
    return KEY_MADE;
}

static int keys_refuse(const struct chunk *chunk, const char *place, bg_bytes record,
                       const struct key_fault *fault)
{
    char shown[KEY_SHOWN + 3], column[32] = "";
    if (fault->column) {
        (void)snprintf(column, sizeof column, ", column %zu", fault->column);
    }
    return say_data("%s: %s%s: %s%s: '%s'; %s", chunk->path, place, column, fault->what,
                    fault->wanted, keys_show(record, shown),
                    fault->cr ? "it ends with CR; if lines end with CR LF, use --crlf"
                              : "to skip such records, use --skip-invalid");
}

/* Reports a record that is incomplete at the end of the input. --skip-invalid does not skip it,
 * because the input may be truncated. */
static int keys_refuse_cut(const struct key_format *format, const struct chunk *chunk,
                           const char *place, bg_bytes record)
{
    char shown[KEY_SHOWN + 3];
    record.len -= record.len && ((const char *)record.data)[record.len - 1] == '\n';
    return format->records == KEY_RECORDS_PREFIXED
               ? say_data("%s: %s: the last record is truncated", chunk->path, place)
               : say_data("%s: %s: the record has unclosed quotes: '%s'", chunk->path,
                          place, keys_show(record, shown));
}

/* Creates the keys of all records. Removes records without keys and moves the following records
 * into their place. The loop reads the old values of `ends` and overwrites them with the new
 * ones. */
static int keys_make_all(const struct key_format *format, struct chunk *chunk)
{
    const size_t count = chunk->count;
    size_t kept = 0, filled = 0, begin = 0;
    uint64_t dropped = 0; /* lines of removed records */
    for (size_t i = 0, used = 0, end; i < count; i++, begin = end) {
        end = chunk->ends[i];
        const size_t n = end - begin;
        char place[KEY_PLACE];
        struct key_fault fault = { NULL, NULL, 0, false };
        const size_t mark = i ? 0 : chunk->mark;
        const bg_bytes record = { chunk->bytes + begin + mark, n - mark };
        if (keys_is_cut_off(format, record)
            || (i + 1 == count && keys_is_open(format, record))) {
            (void)keys_place(chunk, dropped + chunk_lines(chunk, 0, filled), begin,
                             place);
            return keys_refuse_cut(format, chunk, place, record);
        }
        if (filled < begin) {
            memmove(chunk->bytes + filled, chunk->bytes + begin, n);
        }
        chunk->ends[kept] = filled + n;
        const enum key_result made =
            keys_make(format, chunk, kept, chunk->arena + used, &fault);
        if (made == KEY_INVALID && !format->skip_invalid) {
            (void)keys_place(chunk, dropped + chunk_lines(chunk, 0, filled), begin,
                             place);
            return keys_refuse(chunk, place, chunk_record(format, chunk, kept), &fault);
        }
        chunk->odd.skipped += made == KEY_INVALID;
        chunk->odd.cr += made == KEY_INVALID && fault.cr;
        dropped += made == KEY_MADE ? 0 : chunk_lines(chunk, filled, n);
        chunk->mark = kept == 0 && made != KEY_MADE ? 0 : chunk->mark;
        if (made == KEY_MADE) {
            kept++;
            filled += n;
            /* Space for the text, twice that for its UTF-16 form, and 8 bytes for a number. */
            used += 3 * n + 8;
        }
    }
    chunk->count = kept;
    chunk->used = filled;
    return CLI_OK;
}

bool keys_are_records(const struct key_format *format)
{
    return format->records == KEY_RECORDS_SEPARATED && !format->field && !format->name
           && !format->json.set && !format->crlf && !format->trim && !format->lower
           && format->form == KEY_TEXT;
}

int keys_split(const struct key_format *format, struct chunk *chunk)
{
    chunk->odd = (struct key_oddities){ 0 };
    if (!keys_find(format, chunk)) {
        return CLI_FULL;
    }
    if (!keys_are_records(format)) {
        return keys_grow(&chunk->arena, &chunk->arena_room,
                         3 * chunk->used + 8 * chunk->count, 1)
                   ? keys_make_all(format, chunk)
                   : CLI_FULL;
    }
    size_t begin = 0, empty = 0, cr = 0;
    for (size_t i = 0; i < chunk->count; i++) {
        const size_t end = chunk->ends[i] - 1;
        chunk->keys[i] = (bg_bytes){ chunk->bytes + begin, end - begin };
        empty += end == begin;
        cr += end > begin && chunk->bytes[end - 1] == '\r';
        begin = chunk->ends[i];
    }
    if (chunk->count && chunk->bytes[chunk->used - 1] != format->separator) {
        bg_bytes *last = &chunk->keys[chunk->count - 1]; /* it has no separator */
        empty -= last->len == 0 ? 1 : 0;
        cr -= last->len > 0 && chunk->bytes[chunk->used - 2] == '\r' ? 1 : 0;
        last->len++;
    }
    chunk->odd = (struct key_oddities){ .cr = keys_may_end_with_cr(format) ? cr : 0,
                                        .empty = empty };
    return CLI_OK;
}
