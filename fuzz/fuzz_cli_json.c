/*
 * fuzz_cli_json.c - finds a value at an arbitrary path in an arbitrary JSON text, and compares the
 * result with that of a reference implementation. Also splits the text into JSON records.
 *
 * Input: a byte with the length of the path, the path, and the text.
 */
#define _POSIX_C_SOURCE 200809L /* open_memstream */

#include "fuzz.h"
#include "fuzz_input.h"
#include "support/reference_json.h"
#include "support/streams.h"

#include "records.h"

/* Splits a copy of the text into records. Checks that the split either succeeds and the keys are
 * within bounds, or fails with a message. */
static void split(const struct key_format *f, const char *bytes, size_t n)
{
    struct chunk chunk = { .path = "input", .line = 1 };
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
    FUZZ_MUST(code == 0 || !f->skip_invalid);
    size_t end = 0;
    for (size_t i = 0; code == 0 && i < chunk.count; i++) {
        FUZZ_MUST(chunk.ends[i] > end);
        end = chunk.ends[i];
        FUZZ_MUST(chunk.keys[i].len <= n);
    }
    FUZZ_MUST(code || (end == chunk.used && end <= n));
    free(said.text);
    chunk_free(&chunk);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = { data, size };
    struct key_format f = { .separator = '\n' };
    char path[256] = "";
    const size_t length = fuzz_byte(&in);
    fuzz_take(&in, path, length < in.left ? length : in.left);
    if (!json_path_parse(path, &f.json)) {
        FUZZ_MUST(json_path_parse(".a", &f.json));
    }
    const char *text = in.left ? (const char *)in.data : "";
    FUZZ_MUST(reference_json_agrees(&f.json, text, in.left));
    split(&f, text, in.left);
    f.skip_invalid = true;
    split(&f, text, in.left);
    return 0;
}
