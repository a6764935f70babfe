/*
 * fuzz_server_pgoutput.c - parses arbitrary bytes as messages in PostgreSQL's replication stream,
 * as markers in that stream, and as a saved mark (a position at which to resume; see
 * postgres/marker.h).
 *
 * Input: one byte chooses how the rest is interpreted.
 */
#include "fuzz.h"
#include "fuzz_input.h"
#include "postgres/marker.h"
#include "postgres/pgoutput.h"

static bool lies_in(bg_bytes part, bg_bytes whole)
{
    const char *begin = part.data, *from = whole.data;
    return begin >= from && part.len <= whole.len
           && (size_t)(begin - from) <= whole.len - part.len;
}

static void check_row(struct pgoutput_message row, bg_bytes bytes)
{
    struct pgoutput_value value;
    const uint16_t columns = row.columns;
    uint16_t n = 0;
    while (pgoutput_value_next(&row, &value)) {
        FUZZ_MUST(value.state != PGOUTPUT_TEXT || lies_in(value.text, bytes));
        n++;
    }
    FUZZ_MUST(n == columns);
    FUZZ_MUST(row.list.len == 0);
}

static void check_message(bg_bytes bytes)
{
    struct pgoutput_message message, shorter;
    uint16_t number;
    if (!pgoutput_parse(bytes, &message)) {
        return;
    }
    switch (message.kind) {
    case PGOUTPUT_IGNORED: return;
    case PGOUTPUT_ROW: check_row(message, bytes); break;
    case PGOUTPUT_RELATION:
        FUZZ_MUST(!pgoutput_column(&message, "id", &number)
                  || number < message.columns);
        break;
    case PGOUTPUT_MESSAGE:
        FUZZ_MUST(lies_in(message.prefix, bytes) && lies_in(message.content, bytes));
        break;
    default: break;
    }
    FUZZ_MUST(!pgoutput_parse((bg_bytes){ bytes.data, bytes.len - 1 }, &shorter));
}

static void check_marker(bg_bytes bytes)
{
    struct postgres_marker marker;
    if (postgres_marker_parse("gate", bytes, &marker)) {
        FUZZ_MUST(strlen(marker.nonce) == PG_NONCE - 1);
    }
}

/* Printing an accepted mark must produce the same text. */
static void check_mark(bg_bytes bytes)
{
    struct postgres_mark mark;
    char *text = malloc(bytes.len + 1), again[SOURCE_MARK];
    FUZZ_MUST(text);
    memcpy(text, bytes.data, bytes.len);
    text[bytes.len] = 0;
    if (postgres_mark_parse(text, &mark)) {
        postgres_mark_print(&mark, again);
        FUZZ_MUST(strcmp(text, again) == 0);
    }
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = { data, size };
    const uint8_t what = fuzz_byte(&in);
    struct pgoutput_frame frame;
    /* The copy has exactly the size of the input, so that reads beyond its end are detected. */
    char *copy = malloc(in.left ? in.left : 1);
    FUZZ_MUST(copy);
    if (in.left) {
        memcpy(copy, in.data, in.left);
    }
    const bg_bytes bytes = { copy, in.left };
    switch (what % 4) {
    case 0:
        if (pgoutput_frame_parse(bytes, &frame) && !frame.is_keepalive) {
            check_message(frame.payload);
        }
        break;
    case 1: check_message(bytes); break;
    case 2: check_marker(bytes); break;
    default: check_mark(bytes); break;
    }
    free(copy);
    return 0;
}
