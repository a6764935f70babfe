/*
 * fuzz_server_http.c - parses arbitrary bytes as an HTTP stream, and the header fields and targets
 * in that stream.
 *
 * Input: one byte chooses the maximum body size and the checks to run, and 4 bytes choose how the
 * stream is split; the rest is the stream.
 */
#include "fuzz.h"
#include "fuzz_input.h"
#include "http/fields.h"
#include "http/response.h"
#include "support/http_story.h"

/* These objects keep their memory from one input to the next. */
static struct http_story whole, pieces;
static struct buffer answer;
static struct http_request request;

static void begin(struct http_story *story)
{
    struct buffer kept = story->text;
    buffer_clear(&kept, 1u << 20);
    kept.limit = SIZE_MAX;
    *story = (struct http_story){ .text = kept };
}

static bool within(bg_bytes part, const char *room, size_t n)
{
    const char *data = part.data;
    return data >= room && data <= room + n && part.len <= (size_t)(room + n - data);
}

/* Percent-encodes every byte of a path's segments, and checks that parsing the result returns the
 * same segments. */
static void check_path(void)
{
    static char room[HTTP_LINE_BYTES], again_room[HTTP_LINE_BYTES];
    static char text[HTTP_LINE_BYTES * 3];
    static struct http_request again;
    struct http_path path, path_again;
    int used = snprintf(text, sizeof text, "GET ");
    if (!http_path(&request, room, &path)) {
        return;
    }
    FUZZ_MUST(path.count <= HTTP_SEGMENTS);
    for (size_t i = 0; i < path.count; i++) {
        FUZZ_MUST(within(path.segments[i], room, request.path.len));
        const uint8_t *part = path.segments[i].data;
        text[used++] = '/';
        for (size_t k = 0; k < path.segments[i].len; k++) {
            text[used++] = '%';
            text[used++] = "0123456789abcdef"[part[k] / 16];
            text[used++] = "0123456789ABCDEF"[part[k] % 16];
        }
    }
    used += snprintf(text + used, 32, "%s HTTP/1.0\r\n\r\n", path.count ? "" : "/");
    http_request_reset(&again);
    const enum http_result result = http_parse(&again, text, (size_t)used);
    if (path.count == 1 && path.segments[0].len == 0) {
        return; /* one empty segment is encoded as "/", which has no segments */
    }
    if (result == HTTP_ERROR && again.status == 414) {
        return;
    }
    FUZZ_MUST(result == HTTP_OK && http_path(&again, again_room, &path_again));
    FUZZ_MUST(path_again.count == path.count);
    for (size_t i = 0; i < path.count; i++) {
        FUZZ_MUST(path.segments[i].len == path_again.segments[i].len);
        FUZZ_MUST(memcmp(path.segments[i].data, path_again.segments[i].data,
                         path.segments[i].len)
                  == 0);
    }
}

static void check_query(void)
{
    static char room[HTTP_LINE_BYTES];
    bg_bytes name, value;
    size_t at = 0, last = 0;
    enum http_found found;
    while ((found = http_query_next(&request, &at, room, &name, &value))
           == HTTP_FOUND) {
        FUZZ_MUST(at > last && at <= request.query.len);
        FUZZ_MUST(within(name, room, request.query.len));
        FUZZ_MUST(within(value, room, request.query.len));
        last = at;
    }
    FUZZ_MUST(http_parameter(&request, "limit", room, &value) != HTTP_MALFORMED
              || found == HTTP_MALFORMED);
}

static void check_fields(void)
{
    static char room[HTTP_HEAD_BYTES];
    static const char *const types[] = { "text/plain", "application/json" };
    struct http_credentials who = { 0 };
    bg_bytes value;
    const int plain = http_choose(&request, types, 1);
    const int json = http_choose(&request, types + 1, 1);
    const int chosen = http_choose(&request, types, 2);
    FUZZ_MUST(chosen >= 0 ? (chosen ? json : plain) == 0 : plain < 0 && json < 0);
    const enum http_auth auth = http_authorization(&request, room, &who);
    FUZZ_MUST((auth == HTTP_AUTH_NONE)
              == !http_field(&request, "Authorization", &value));
    if (auth == HTTP_AUTH_BASIC) {
        FUZZ_MUST(within(who.user, room, value.len)
                  && within(who.password, room, value.len));
        FUZZ_MUST(!memchr(who.user.data, ':', who.user.len));
    } else if (auth == HTTP_AUTH_BEARER) {
        FUZZ_MUST(within(who.token, request.head, request.consumed) && who.token.len);
    }
    const enum http_match weak = http_if_none_match(&request, "\"1f\"");
    FUZZ_MUST((weak == HTTP_MATCH_ABSENT)
              == !http_field(&request, "if-none-match", &value));
    (void)http_if_match(&request, "\"1f\"");
}

/* Checks that the value of a header field cannot start a new line in a response. */
static void check_answer(const char *bytes, size_t n)
{
    static char value[257];
    const size_t length = n < 256 ? n : 256;
    memcpy(value, bytes, length);
    value[length] = 0;
    const struct http_extra extra = { "X", value };
    size_t lines = 0;
    buffer_clear(&answer, SIZE_MAX);
    answer.limit = 1u << 20;
    http_response_head(
        &answer,
        &(struct http_response){
            .status = 200, .minor = 1, .type = value, .extra = &extra, .extras = 1 });
    for (size_t i = 0; i < answer.used; i++) {
        lines += answer.data[i] == '\n';
        FUZZ_MUST(answer.data[i] != '\r' || answer.data[i + 1] == '\n');
    }
    FUZZ_MUST(lines == 6 && !answer.overflow);
}

/* Checks that the result does not depend on where the stream is split. */
static void check_pieces(const char *bytes, size_t n, uint64_t limit, uint64_t cuts)
{
    begin(&pieces);
    http_story_tell(&pieces, bytes, n, limit, (struct http_cuts){ 0, cuts });
    FUZZ_MUST(http_story_equal(&whole, &pieces));
}

static void check_parts(const char *bytes, size_t n)
{
    http_request_reset(&request);
    const bool good = http_parse(&request, bytes, n) == HTTP_OK;
    FUZZ_MUST(good == (whole.heads > 0));
    if (good) {
        check_path();
        check_query();
        check_fields();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = { data, size };
    const uint8_t how = fuzz_byte(&in);
    const uint64_t limit = how % 4 == 0 ? UINT64_MAX : how % 4 == 1 ? 10 : 100000;
    const uint64_t cuts = (uint64_t)fuzz_u32(&in) << 8 | 1;
    const char *bytes = in.left ? (const char *)in.data : "";
    if (how / 4 % 8 == 7) {
        check_answer(bytes, in.left);
        return 0;
    }
    begin(&whole);
    http_story_tell(&whole, bytes, in.left, limit, (struct http_cuts){ 0, 0 });
    FUZZ_MUST((whole.status == 0) == (whole.reason == NULL));
    FUZZ_MUST(whole.bodies <= whole.heads && whole.heads <= whole.bodies + 1);
    if (how / 4 % 2) {
        check_pieces(bytes, in.left, limit, cuts);
    } else {
        check_parts(bytes, in.left);
    }
    return 0;
}
