/*
 * fuzz_cli_records.c - parses arbitrary bytes as records of any format, and compares the result
 * with a simple reference implementation. Also decompresses arbitrary bytes as gzip, zstd,
 * xz, bzip2 or lz4.
 *
 * Input: 4 bytes choose the format, and a fifth chooses where the bytes are split; the rest is
 * the data.
 */
#define _POSIX_C_SOURCE 200809L /* open_memstream */

#include "fuzz.h"
#include "fuzz_input.h"
#include "support/reference_keys.h"
#include "support/streams.h"

#include "unpack.h"

static struct key_format take_format(struct fuzz_input *in)
{
    const uint8_t how = fuzz_byte(in), form = fuzz_byte(in);
    struct key_format f = { .separator = how & 4 ? 0 : '\n',
                            .delimiter = '\t',
                            .crlf = how & 16,
                            .trim = how & 32,
                            .lower = how & 64,
                            .form = (enum key_form)(form % 5) };
    if (!(how & 8)) {
        fuzz_take(in, &f.delimiter, 1);
    }
    f.field = fuzz_byte(in) % 6;
    f.records = how % 4 == 1   ? KEY_RECORDS_PREFIXED
                : how % 4 == 2 ? KEY_RECORDS_CSV
                               : KEY_RECORDS_SEPARATED;
    if (f.records == KEY_RECORDS_PREFIXED) { /* same adjustments as in keys_format */
        f.field = 0;
        f.crlf = false;
    } else if (f.records == KEY_RECORDS_CSV) {
        f.separator = '\n';
        if (f.delimiter == '"' || f.delimiter == '\n') {
            f.delimiter = ',';
        }
        f.field += f.field == 0;
    } else {
        f.blanks = how & 128;
    }
    return f;
}

/* Splits a copy of the data into records. An error message must end with a newline. */
static void split(const struct key_format *f, const char *bytes, size_t n)
{
    struct chunk chunk = { .path = "input" };
    struct stream_capture said;
    FUZZ_MUST(chunk_reserve(&chunk, n));
    if (n) {
        memcpy(chunk.bytes, bytes, n);
    }
    chunk.used = n;
    stream_begin(&said, &stderr);
    const int code = keys_split(f, &chunk);
    (void)stream_end(&said);
    FUZZ_MUST((code == 0) == (said.n == 0));
    FUZZ_MUST(code == 0 || said.text[said.n - 1] == '\n');
    FUZZ_MUST(reference_agrees(f, &chunk, code));
    for (size_t i = 0; code == 0 && i < chunk.count; i++) {
        const bg_bytes record = chunk_record(f, &chunk, i);
        FUZZ_MUST((const char *)record.data >= chunk.bytes);
        FUZZ_MUST((const char *)record.data + record.len <= chunk.bytes + n);
    }
    free(said.text);
    chunk_free(&chunk);
}

/* Decompresses bytes in chunks of up to `piece` bytes. The output must stay within its buffer. */
static void unpack(enum unpack_format format, const char *bytes, size_t n, size_t piece)
{
    char room[512];
    struct unpacker *unpacker = unpacker_new(format);
    size_t at = 0, idle = 0;
    bool good = true;
    FUZZ_MUST(unpacker);
    for (size_t steps = 0; good && idle < 2 && steps < 2000; steps++) {
        const size_t left = n - at < piece ? n - at : piece;
        struct unpack_step step = {
            .from = bytes + at, .n = left, .to = room, .room = 1 + piece % sizeof room
        };
        good = unpacker_run(unpacker, &step);
        FUZZ_MUST(step.used <= step.n && step.made <= step.room);
        FUZZ_MUST(good || step.why);
        at += step.used;
        idle = step.used || step.made ? 0 : idle + 1;
    }
    (void)unpacker_is_whole(unpacker);
    unpacker_free(unpacker);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = { data, size };
    const struct key_format f = take_format(&in);
    const size_t cut_at = fuzz_byte(&in);
    const char *bytes = in.left ? (const char *)in.data : "";
    const size_t n = in.left, cut = n ? cut_at * 257 % (n + 1) : 0;
    const size_t whole = keys_whole(&f, bytes, cut);
    FUZZ_MUST(whole == reference_whole(&f, bytes, cut));
    split(&f, bytes, n);
    split(&f, bytes, whole);
    split(&f, bytes + whole, n - whole);
    const enum unpack_format format = unpack_recognise(bytes, n);
    if (format != UNPACK_PLAIN) {
        unpack(format, bytes, n, 1 + cut_at);
    }
    return 0;
}
