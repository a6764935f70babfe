/* flow.c - see flow.h. */
#include "flow.h"

#include "header.h"
#include "number.h"
#include "say.h"
#include "stop.h"

#include "bloomgate/machine.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FLOW_CHUNK = 256 * 1024,
    FLOW_RECORD = 512 << 20, /* maximum length of a record */
    FLOW_THREADS = 64,
    FLOW_WHAT = 256
};

unsigned flow_threads(uint64_t wanted)
{
    bg_machine machine;
    if (wanted) {
        return wanted < FLOW_THREADS ? (unsigned)wanted : FLOW_THREADS;
    }
    /* BLOOMGATE_MACHINE has no effect, because the order in which threads add keys determines the
     * contents of some filters. */
    bg_machine_detect(&machine);
    return machine.cpus < FLOW_THREADS ? machine.cpus : FLOW_THREADS;
}

void flow_begin(struct flow *flow)
{
    (void)pthread_mutex_init(&flow->lock, NULL);
    (void)pthread_mutex_init(&flow->turns, NULL);
    (void)pthread_cond_init(&flow->turned, NULL);
}

static void flow_count_odd(struct flow *flow, const struct chunk *chunk)
{
    (void)pthread_mutex_lock(&flow->turns);
    flow->keys += chunk->count;
    flow->odd.cr += chunk->odd.cr;
    flow->odd.missing += chunk->odd.missing;
    flow->odd.empty += chunk->odd.empty;
    flow->odd.skipped += chunk->odd.skipped;
    (void)pthread_mutex_unlock(&flow->turns);
}

/* Returns whether keys are whole records, and not one of their fields or values. */
static bool keys_are_whole(const struct key_format *format)
{
    return !format->field && !format->name && !format->json.set;
}

/* Reports records without the field. If no record has the field, an option is probably wrong, so
 * this is an error. Returns an exit code. */
static int flow_report_missing(const struct flow *flow)
{
    const struct key_format *format = flow->format;
    const bool all = flow->odd.missing == flow->keys && !flow->resumed;
    const char *check = format->json.set ? "the path"
                        : format->blanks ? "--field"
                                         : "--field and --delimiter";
    char what[FLOW_WHAT] = "a value at the --json path";
    if (!format->json.set) {
        char number[NUMBER_TEXT]; /* without separators, as the user wrote it */
        (void)snprintf(number, sizeof number, "%" PRIu64, (uint64_t)format->field);
        (void)snprintf(what, sizeof what, "field %s",
                       format->name ? format->name : number);
    }
    if (all) {
        return say_data("no record has %s (records read: %s); check %s", what,
                        COUNT_TEXT(flow->keys), check);
    }
    say_warning("records without %s: %s of %s; %s; check %s", what,
                COUNT_TEXT(flow->odd.missing), COUNT_TEXT(flow->keys),
                flow->keyless ? flow->keyless : "their keys are empty", check);
    return CLI_OK;
}

/* Reports records that were skipped. If no record is valid, an option is wrong. Returns an exit
 * code. */
static int flow_report_skipped(const struct flow *flow)
{
    const struct key_oddities *odd = &flow->odd;
    if (flow->keys == 0 && !flow->resumed) {
        return say_data("none of the records (%s) is valid; %s",
                        COUNT_TEXT(odd->skipped),
                        odd->cr                  ? "use --crlf"
                        : flow->format->json.set ? "check the path"
                                                 : "check --as");
    }
    say_note("invalid records skipped: %s of %s", COUNT_TEXT(odd->skipped),
             COUNT_TEXT(flow->keys + odd->skipped));
    return CLI_OK;
}

/* Reports keys that may be due to an incorrect option. Empty lines are common in text, so they are
 * reported only where they matter. Returns an exit code. */
static int flow_report_odd(const struct flow *flow)
{
    const struct key_oddities *odd = &flow->odd;
    int code = CLI_OK;
    if (odd->cr) {
        say_note("keys that end with CR: %s of %s; if lines end with CR LF, use --crlf",
                 COUNT_TEXT(odd->cr), COUNT_TEXT(flow->keys + odd->skipped));
    }
    if (odd->missing) {
        code = flow_report_missing(flow);
    }
    if (odd->skipped && !code) {
        code = flow_report_skipped(flow);
    }
    if (flow->headed) {
        say_note("the first record seems to be a header; if it is not a key, use "
                 "--header");
    }
    if (flow->marked) {
        say_note(
            "the input starts with a UTF-8 byte-order mark, which became part of the "
            "first key; remove the mark from the input unless it belongs to the key");
    }
    if (odd->empty && (flow->tells_empty || !keys_are_whole(flow->format))) {
        say_note("empty keys: %s of %s; if they are not keys, remove them from the "
                 "input",
                 COUNT_TEXT(odd->empty), COUNT_TEXT(flow->keys));
    }
    return code;
}

int flow_end(struct flow *flow, int code)
{
    (void)pthread_mutex_destroy(&flow->lock);
    (void)pthread_mutex_destroy(&flow->turns);
    (void)pthread_cond_destroy(&flow->turned);
    free(flow->rest);
    flow->rest = NULL;
    const int odd = flow->silent ? (int)CLI_OK : flow_report_odd(flow);
    return code ? code : odd;
}

bool flow_has_more(const struct flow *flow)
{
    return !flow->ended && !flow->stopped;
}

uint64_t flow_offset(const struct flow *flow)
{
    /* Between two files, the position is the start of the next file. */
    return flow->input->fd < 0 ? 0 : flow->input->offset - flow->rest_used;
}

bool flow_fail(struct flow *flow, int code)
{
    (void)pthread_mutex_lock(&flow->turns);
    flow->code = flow->stopped ? flow->code : code;
    flow->stopped = true;
    (void)pthread_cond_broadcast(&flow->turned);
    (void)pthread_mutex_unlock(&flow->turns);
    return false;
}

static bool flow_is_stopped(struct flow *flow)
{
    (void)pthread_mutex_lock(&flow->turns);
    const bool stopped = flow->stopped;
    (void)pthread_mutex_unlock(&flow->turns);
    return stopped;
}

static void flow_count_busy(struct flow *flow, bool begins)
{
    (void)pthread_mutex_lock(&flow->turns);
    flow->busy = begins ? flow->busy + 1 : flow->busy - 1;
    (void)pthread_cond_broadcast(&flow->turned);
    (void)pthread_mutex_unlock(&flow->turns);
}

/* ---- Filling chunks, with the lock held ------------------------------------------------------ */

/* Returns the size of a chunk that needs `wanted` bytes, which is a power of two. */
static size_t flow_room(size_t wanted)
{
    size_t room = FLOW_CHUNK;
    while (room < wanted && room < FLOW_RECORD) {
        room *= 2;
    }
    return room;
}

/* Enlarges a chunk that contains no whole record. Compressed input of a few KiB may decompress to a
 * record that does not fit into memory, so the length of a record is limited. */
static bool flow_enlarge(struct flow *flow, struct chunk *chunk)
{
    if (chunk->room >= FLOW_RECORD) {
        return flow_fail(flow, say_data("%s: at byte %" PRIu64
                                        ": the record is longer than %s; check the "
                                        "input and the record format (-0, "
                                        "--length-prefixed)",
                                        chunk->path, flow->input->offset - chunk->used,
                                        BYTES_TEXT(FLOW_RECORD)));
    }
    return chunk_reserve(chunk, flow_room(2 * chunk->room))
           || flow_fail(flow, CLI_FULL);
}

/* Moves the bytes left over from the previous chunk to the start of this chunk. */
static bool flow_take_rest(struct flow *flow, struct chunk *chunk)
{
    chunk->used = 0;
    if (!chunk_reserve(chunk, flow_room(2 * flow->rest_used))) {
        return flow_fail(flow, CLI_FULL);
    }
    if (flow->rest_used) { /* `rest` may be NULL if no bytes are left over */
        memcpy(chunk->bytes, flow->rest, flow->rest_used);
    }
    chunk->used = flow->rest_used;
    flow->rest_used = 0;
    return true;
}

/* Leaves the bytes starting at `whole` for the next chunk. */
static bool flow_leave_rest(struct flow *flow, struct chunk *chunk, size_t whole)
{
    const size_t n = chunk->used - whole;
    if (n > flow->rest_room) {
        char *grown = realloc(flow->rest, n);
        if (!grown) {
            return flow_fail(flow, say_full("out of memory"));
        }
        flow->rest = grown;
        flow->rest_room = n;
    }
    if (n) {
        memcpy(flow->rest, chunk->bytes + whole, n);
    }
    flow->rest_used = n;
    chunk->used = whole;
    return true;
}

/* Removes a partial line at the start of a part, because that line belongs to the previous part.
 * Returns false if more bytes have to be read to find the end of that line. */
static bool flow_cut_front(struct flow *flow, struct chunk *chunk)
{
    const char *end = memchr(chunk->bytes, flow->format->separator, chunk->used);
    const size_t n = end ? (size_t)(end - chunk->bytes) + 1 : chunk->used;
    memmove(chunk->bytes, chunk->bytes + n, chunk->used - n);
    chunk->used -= n;
    flow->input->cut = !end;
    return end != NULL;
}

/* A part ends with the last line that starts before the part's end offset. Returns the number of
 * bytes in the chunk that belong to this part; these bytes always form whole lines. */
static size_t flow_cut_back(struct flow *flow, const struct chunk *chunk, size_t whole,
                            bool *last)
{
    const uint64_t end = flow->input->end;
    const uint64_t first = flow->input->offset - chunk->used; /* of the chunk */
    if (end == UINT64_MAX || first + whole < end) {
        return whole;
    }
    *last = true;
    if (first >= end) {
        return 0;
    }
    /* The last line of this part starts before `end`; its separator is at end - 1 or later. */
    const size_t at = (size_t)(end - 1 - first);
    const char *stop = memchr(chunk->bytes + at, flow->format->separator, whole - at);
    return stop ? (size_t)(stop - chunk->bytes) + 1 : whole;
}

/* If the input is a pipe without available data, waits until the other threads have delivered their
 * chunks. Returns false if another thread has ended the flow. */
static bool flow_await_others(struct flow *flow)
{
    if (input_is_ready(flow->input)) {
        return true;
    }
    (void)pthread_mutex_lock(&flow->turns);
    while (flow->busy > 0 && !flow->stopped) {
        (void)pthread_cond_wait(&flow->turned, &flow->turns);
    }
    const bool good = !flow->stopped;
    (void)pthread_mutex_unlock(&flow->turns);
    return good;
}

/* Returns the total length of the complete records in a chunk. The bytes before `searched` are
 * known not to contain the end of a line, so a record of many megabytes that arrives through a pipe
 * in small reads is not searched from the start after each read. For records other than lines, the
 * search cannot be resumed in the middle, so a chunk larger than FLOW_CHUNK is searched only when
 * its buffer is full. A byte-order mark at the start of a file is no part of a CSV record. */
static size_t flow_whole(const struct flow *flow, const struct chunk *chunk,
                         size_t *searched)
{
    const bool lines = flow->format->records == KEY_RECORDS_SEPARATED;
    if (!lines && chunk->used > FLOW_CHUNK && chunk->used < chunk->room) {
        return 0;
    }
    const bool first = flow->input->offset == chunk->used; /* of the file */
    const size_t mark =
        first ? header_mark(flow->format, chunk->bytes, chunk->used) : 0;
    const size_t from = lines && *searched < chunk->used ? *searched : mark;
    const size_t whole =
        keys_whole(flow->format, chunk->bytes + from, chunk->used - from);
    *searched = chunk->used;
    return whole ? from + whole : 0;
}

/* Reads until the chunk contains enough whole records or the input has ended. */
static bool flow_fill(struct flow *flow, struct chunk *chunk)
{
    struct input *input = flow->input;
    size_t whole = 0, searched = 0, n;
    int code;
    if (!flow_take_rest(flow, chunk)) {
        return false;
    }
    chunk->path = input_name(input);
    chunk->file = input->at;
    for (;;) {
        if (chunk->used == chunk->room && !flow_enlarge(flow, chunk)) {
            return false;
        }
        if (!flow_await_others(flow)) {
            return false;
        }
        const enum input_state state = input_read(input, chunk->bytes + chunk->used,
                                                  chunk->room - chunk->used, &n, &code);
        if (state == INPUT_FAILED) {
            return flow_fail(flow, code);
        }
        chunk->used += n;
        flow->ended = state == INPUT_END;
        if (state != INPUT_BYTES) { /* the last record may have no separator */
            if (chunk->used || flow->ended) {
                bool cut = false;
                chunk->offset = input->offset - chunk->used;
                chunk->used = flow_cut_back(flow, chunk, chunk->used, &cut);
                return true;
            }
            chunk->path = input_name(input);
            chunk->file = input->at;
            continue;
        }
        if (input->cut && !flow_cut_front(flow, chunk)) {
            continue;
        }
        if (chunk->used < chunk->room && !input->streams) {
            continue; /* reading a file never blocks, so fill the chunk */
        }
        whole = flow_whole(flow, chunk, &searched);
        if (whole) {
            break;
        }
    }
    chunk->offset = input->offset - chunk->used;
    bool last = false;
    whole = flow_cut_back(flow, chunk, whole, &last);
    if (!flow_leave_rest(flow, chunk, whole)) {
        return false;
    }
    if (last) {
        flow->rest_used = 0;
        input_next(input);
    }
    return true;
}

/* ---- Starts of files, with the lock held ----------------------------------------------------- */

bool flow_print_header(struct flow *flow, const char *bytes, size_t n)
{
    return out_write(bytes, n) || flow_fail(flow, out_code());
}

bool flow_print_annotated(struct flow *flow, const char *bytes, size_t n)
{
    static const char column[] = "answer\t";
    return flow_print_header(flow, column, sizeof column - 1)
           && flow_print_header(flow, bytes, n);
}

/* Removes the first n bytes of a chunk. */
static void flow_remove(struct chunk *chunk, size_t n)
{
    memmove(chunk->bytes, chunk->bytes + n, chunk->used - n);
    chunk->used -= n;
    chunk->offset += n;
}

/* Passes the first header to flow->header. A header without a separator is the whole
 * chunk; a separator is then appended in the space that is reserved after the chunk. */
static bool flow_pass_header(struct flow *flow, struct chunk *chunk, size_t n)
{
    if (!flow->header
        || flow->passed) { /* files before the first header may be empty */
        return true;
    }
    flow->passed = true;
    if (chunk->bytes[n - 1] != flow->format->separator) {
        chunk->bytes[n++] = flow->format->separator;
    }
    return flow->header(flow, chunk->bytes, n);
}

/* Removes the header of a file, and finds the column that contains the keys. */
static bool flow_take_header(struct flow *flow, struct chunk *chunk)
{
    const struct key_format *format = flow->format;
    const size_t n = header_length(format, chunk->bytes, chunk->used);
    const int code =
        format->name ? header_find(format, chunk->path, chunk->bytes, n, &flow->field)
                     : (int)CLI_OK;
    if (code) {
        return flow_fail(flow, code);
    }
    const bool good = flow_pass_header(flow, chunk, n);
    flow->line += chunk_lines(chunk, 0, n);
    flow_remove(chunk, n);
    return good;
}

/* Examines the first records of a file. */
static bool flow_start_file(struct flow *flow, struct chunk *chunk)
{
    const struct key_format *format = flow->format;
    const bool fields = format->field && format->records != KEY_RECORDS_PREFIXED;
    flow->line = 1;
    if (format->header) {
        return flow_take_header(flow, chunk);
    }
    if (format->json.set && header_has_mark(chunk->bytes, chunk->used)) {
        flow_remove(chunk, HEADER_MARK);
        return true;
    }
    chunk->mark = header_mark(format, chunk->bytes, chunk->used);
    if (chunk->mark == chunk->used) { /* the file has no records */
        flow_remove(chunk, chunk->mark);
    }
    flow->marked = flow->marked
                   || (format->records == KEY_RECORDS_SEPARATED
                       && header_has_mark(chunk->bytes, chunk->used));
    flow->headed = flow->headed
                   || (fields && !flow->silent
                       && header_is_likely(format, chunk->bytes, chunk->used));
    return true;
}

/* Sets the chunk's column and line number, which depend on its file. If the input is a part of a
 * file without its start (--shard), line numbers are unknown, and the header is read separately. */
static bool flow_place(struct flow *flow, struct chunk *chunk)
{
    const struct key_format *format = flow->format;
    bool good = true;
    chunk->mark = 0;
    if (flow->opened != chunk->file + 1) {
        flow->opened = chunk->file + 1;
        flow->line = flow->field = 0;
        if (chunk->offset == 0) {
            good = flow_start_file(flow, chunk);
        } else if (format->name) {
            const int code =
                header_read(format, flow->input->paths[chunk->file], &flow->field);
            good = code == CLI_OK || flow_fail(flow, code);
        }
    }
    chunk->field = flow->field;
    chunk->line = 0;
    if (flow->line && !keys_are_records(format) && format->separator == '\n'
        && format->records != KEY_RECORDS_PREFIXED) {
        chunk->line = flow->line;
        flow->line += chunk_lines(chunk, 0, chunk->used);
    }
    return good;
}

/* Fills the next chunk. Returns false if there is no more input. */
static bool flow_take(struct flow *flow, struct chunk *chunk)
{
    (void)pthread_mutex_lock(&flow->lock);
    bool good = !flow->ended && !flow_is_stopped(flow)
                && (!flow->leg || flow->input->done < flow->legs_end);
    if (good && stop_wanted()) {
        good = flow_fail(flow, CLI_INTERRUPTED);
    }
    do {
        good = good && flow_fill(flow, chunk)
               && (chunk->used == 0 || flow_place(flow, chunk));
    } while (good && chunk->used == 0 && !flow->ended); /* a part without lines */
    if (good && chunk->used) {
        chunk->number = flow->chunks++;
        flow_count_busy(flow, true);
        if (flow->progress) {
            progress_tick(flow->progress, flow->input->done, flow->input->size);
        }
    } else {
        good = false;
    }
    (void)pthread_mutex_unlock(&flow->lock);
    return good;
}

/* ---- Processing ------------------------------------------------------------------------------ */

/* Passes the turn to the next chunk. */
static void flow_pass(struct flow *flow, uint64_t *turn)
{
    (void)pthread_mutex_lock(&flow->turns);
    ++*turn;
    (void)pthread_cond_broadcast(&flow->turned);
    (void)pthread_mutex_unlock(&flow->turns);
}

static bool flow_deliver(struct flow *flow, struct chunk *chunk)
{
    (void)pthread_mutex_lock(&flow->turns);
    while (flow->turn != chunk->number && !flow->stopped) {
        (void)pthread_cond_wait(&flow->turned, &flow->turns);
    }
    const bool mine = flow->turn == chunk->number && !flow->stopped;
    (void)pthread_mutex_unlock(&flow->turns);
    if (!mine || (chunk->count > 0 && !flow->deliver(flow, chunk))) {
        return flow_fail(flow, CLI_DATA); /* keeps an exit code that is already set */
    }
    flow_pass(flow, &flow->turn);
    return true;
}

/* Waits for the chunk's turn and writes the chunk. All earlier chunks have been delivered, so the
 * threads that hold them also reach this function, and no thread waits forever. */
static bool flow_write(struct flow *flow, struct chunk *chunk)
{
    (void)pthread_mutex_lock(&flow->turns);
    while (flow->write_turn != chunk->number) {
        (void)pthread_cond_wait(&flow->turned, &flow->turns);
    }
    (void)pthread_mutex_unlock(&flow->turns);
    const bool good = chunk->count == 0 || flow->write(flow, chunk);
    flow_pass(flow, &flow->write_turn);
    return good;
}

static void *flow_thread(void *argument)
{
    struct flow *flow = argument;
    struct chunk chunk = { 0 };
    bool good = true;
    while (good && flow_take(flow, &chunk)) {
        const int code = keys_split(flow->format, &chunk);
        flow_count_odd(flow, &chunk);
        good = code ? flow_fail(flow, code)
                    : chunk.count == 0 || !flow->work || flow->work(flow, &chunk);
        good = good && (!flow->deliver || flow_deliver(flow, &chunk));
        good = good && (!flow->write || flow_write(flow, &chunk));
        flow_count_busy(flow, false);
    }
    if (!good) {
        (void)flow_fail(flow, CLI_DATA);
    }
    chunk_free(&chunk);
    return NULL;
}

int flow_run(struct flow *flow)
{
    pthread_t threads[FLOW_THREADS];
    unsigned started = 1;
    flow->legs_end = flow->input->done + flow->leg;
    for (; started < flow->threads && started < FLOW_THREADS; started++) {
        if (pthread_create(&threads[started], NULL, flow_thread, flow) != 0) {
            break; /* continue with fewer threads */
        }
    }
    (void)flow_thread(flow);
    for (unsigned i = 1; i < started; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    return flow->code;
}

int flow_once(struct flow *flow, const char *what)
{
    struct progress progress;
    progress_begin(&progress, what);
    flow->progress = &progress;
    flow_begin(flow);
    const int code = flow_run(flow);
    flow->progress = NULL;
    progress_end(&progress);
    return flow_end(flow, code);
}

int flow_files(struct flow *flow, char **paths, size_t count, bool raw,
               const char *what)
{
    struct input input;
    int code = input_begin(&input, paths, count, raw, (struct input_part){ 0, 1 });
    if (code) {
        return code;
    }
    flow->input = &input;
    code = flow_once(flow, what);
    flow->input = NULL;
    input_end(&input);
    return code;
}

static bool flow_count_chunk(struct flow *flow, struct chunk *chunk)
{
    atomic_uint_fast64_t *records = flow->context;
    (void)atomic_fetch_add(records, chunk->count);
    return true;
}

int flow_count(const struct flow *like, const struct input *input, uint64_t *records)
{
    atomic_uint_fast64_t counted = 0;
    struct flow flow = { .format = like->format,
                         .threads = like->threads,
                         .silent = true,
                         .work = flow_count_chunk,
                         .context = &counted };
    const int code =
        flow_files(&flow, input->paths, input->count, input->raw, "counting");
    *records = counted;
    return code;
}
