/*
 * fuzz_server_resp.c - parses arbitrary bytes as a RESP stream.
 *
 * Input: one byte chooses the limits and the checks to run, and 4 bytes choose how the stream is
 * split; the rest is the stream.
 */
#include "fuzz.h"
#include "fuzz_input.h"
#include "support/reference_resp.h"

static const struct resp_limits limits[] = {
    RESP_LIMITS_DEFAULT,
    RESP_LIMITS_STRANGERS,
    { .arguments = 5, .bulk = 9, .line = 20, .request = 40 },
    { .arguments = 100, .bulk = 1000, .line = 4096, .request = 100000 },
};
static const struct resp_limits wide = {
    .arguments = 1u << 20, .bulk = 1u << 20, .line = 1u << 20, .request = 1u << 30
};

/* The recorded requests, whose memory is kept from one input to the next. */
static struct resp_story whole, other;

static void begin(struct resp_story *story)
{
    struct buffer kept = story->requests;
    buffer_clear(&kept, 1u << 20);
    kept.limit = SIZE_MAX;
    *story = (struct resp_story){ .requests = kept, .end = RESP_PARTIAL };
}

/* Checks that the result does not depend on where the stream is split. */
static void check_pieces(const char *bytes, size_t n, const struct resp_limits *chosen,
                         uint64_t cuts)
{
    begin(&other);
    resp_story_tell(&other, bytes, n, chosen, (struct resp_cuts){ 0, cuts });
    FUZZ_MUST(resp_story_equal(&whole, &other));
}

static void check_reference(const char *bytes, size_t n,
                            const struct resp_limits *chosen)
{
    begin(&other);
    reference_resp_tell(&other, bytes, n, chosen);
    FUZZ_MUST(resp_story_equal(&whole, &other));
}

/* Checks that the parser reads the requests that the encoder wrote. */
static void check_again(void)
{
    begin(&other);
    resp_story_tell(&other, whole.count ? whole.requests.data : "", whole.requests.used,
                    &wide, (struct resp_cuts){ 0, 0 });
    whole.end = RESP_PARTIAL;
    whole.error[0] = 0;
    whole.consumed = whole.requests.used;
    FUZZ_MUST(resp_story_equal(&whole, &other));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = { data, size };
    const uint8_t how = fuzz_byte(&in);
    const struct resp_limits *chosen = &limits[how % 4];
    const uint64_t cuts = (uint64_t)fuzz_u32(&in) << 8 | 1;
    const char *bytes = in.left ? (const char *)in.data : "";
    begin(&whole);
    resp_story_tell(&whole, bytes, in.left, chosen, (struct resp_cuts){ 0, 0 });
    FUZZ_MUST((whole.end == RESP_ERROR) == (whole.error[0] != 0));
    switch (how / 4 % 4) {
    case 0:
    case 1: check_pieces(bytes, in.left, chosen, cuts); break;
    case 2: check_reference(bytes, in.left, chosen); break;
    default: check_again(); break;
    }
    return 0;
}
