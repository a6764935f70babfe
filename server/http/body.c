/*
 * http/body.c - reads the body of a request, which either has a Content-Length or is chunked.
 *
 *     4;name=value\r\n  Wiki\r\n  0\r\n  Trailer: value\r\n  \r\n
 *
 * A state machine reads the framing byte by byte and passes on data as it arrives, so nothing is
 * buffered. Lines must end with CRLF. A chunk line may be up to 256 bytes long, and all trailers
 * together up to 8192 bytes.
 */
#include "http/http.h"
#include "letters.h"

enum { BODY_CHUNK_LINE = 256, BODY_TRAILERS = 8192 };

static enum http_body_result http_body_fail(struct http_body *b, int status,
                                            const char *reason)
{
    b->status = status;
    b->reason = reason;
    b->state = BODY_FAILED;
    return HTTP_BODY_ERROR;
}

bool http_body_begin(struct http_body *b, const struct http_request *r, uint64_t limit)
{
    *b = (struct http_body){ .limit = limit, .state = BODY_END };
    if (r->body == HTTP_BODY_LENGTH) {
        b->state = BODY_DATA;
        b->left = r->length;
        if (b->left > limit) {
            (void)http_body_fail(b, 413, "the body exceeds the size limit");
            return false;
        }
    } else if (r->body == HTTP_BODY_CHUNKED) {
        b->state = BODY_SIZE_FIRST;
    }
    return true;
}

static enum http_body_result http_body_size(struct http_body *b, char c)
{
    const int digit = hex_digit(c);
    if (++b->line > BODY_CHUNK_LINE) {
        return http_body_fail(b, 400, "a chunk-size line exceeds 256 bytes");
    }
    if (b->state != BODY_EXTENSION && digit >= 0) {
        const bool huge = b->left >> 60 != 0;
        b->left = b->left * 16 + (unsigned)digit;
        b->state = BODY_SIZE;
        if (huge || b->left > b->limit - b->total) {
            return http_body_fail(b, 413, "the body exceeds the size limit");
        }
    } else if (b->state != BODY_SIZE_FIRST && c == '\r') {
        b->state = BODY_SIZE_LF;
    } else if (b->state == BODY_SIZE && c == ';') {
        b->state = BODY_EXTENSION;
    } else if (b->state != BODY_EXTENSION || !http_is_text(c)) {
        return http_body_fail(b, 400, "a chunk size is malformed");
    }
    return HTTP_BODY_MORE;
}

static enum http_body_result http_body_trailer(struct http_body *b, char c)
{
    if (++b->line > BODY_TRAILERS) {
        return http_body_fail(b, 431, "the trailers exceed 8192 bytes");
    }
    if (c == '\r') {
        b->state = b->state == BODY_TRAILER_FIRST ? BODY_LAST_LF : BODY_TRAILER_LF;
    } else if (http_is_text(c)) {
        b->state = BODY_TRAILER;
    } else {
        return http_body_fail(b, 400, "the trailers contain a control character");
    }
    return HTTP_BODY_MORE;
}

/* Checks that the byte is the CR or LF that the state requires, and enters the next state. */
static enum http_body_result http_body_expect(struct http_body *b, char c)
{
    const bool cr = b->state == BODY_CHUNK_CR;
    if (c != (cr ? '\r' : '\n')) {
        return http_body_fail(b, 400, "a line or a chunk does not end with CRLF");
    }
    switch (b->state) {
    case BODY_SIZE_LF:
        b->state = b->left ? BODY_CHUNK : BODY_TRAILER_FIRST;
        b->line = 0;
        break;
    case BODY_CHUNK_CR: b->state = BODY_CHUNK_LF; break;
    case BODY_CHUNK_LF: b->state = BODY_SIZE_FIRST; break;
    case BODY_TRAILER_LF: b->state = BODY_TRAILER_FIRST; break;
    default: b->state = BODY_END; return HTTP_BODY_END;
    }
    return HTTP_BODY_MORE;
}

static enum http_body_result http_body_frame(struct http_body *b, char c)
{
    switch (b->state) {
    case BODY_SIZE_FIRST:
    case BODY_SIZE:
    case BODY_EXTENSION: return http_body_size(b, c);
    case BODY_TRAILER_FIRST:
    case BODY_TRAILER: return http_body_trailer(b, c);
    default: return http_body_expect(b, c);
    }
}

static void http_body_take(struct http_body *b, size_t n)
{
    b->left -= n;
    b->total += n;
    if (b->left == 0) {
        b->state = b->state == BODY_CHUNK ? BODY_CHUNK_CR : BODY_END;
    }
}

enum http_body_result http_body_read(struct http_body *b, const char *bytes, size_t n,
                                     bg_bytes *data, size_t *consumed)
{
    *consumed = 0;
    *data = (bg_bytes){ NULL, 0 };
    for (size_t i = 0; i < n; i++) {
        if (b->state == BODY_DATA || b->state == BODY_CHUNK) {
            const size_t piece = n - i < b->left ? n - i : (size_t)b->left;
            *data = (bg_bytes){ bytes + i, piece };
            *consumed = i + piece;
            http_body_take(b, piece);
            return HTTP_BODY_DATA;
        }
        if (b->state == BODY_END || b->state == BODY_FAILED) {
            break;
        }
        const enum http_body_result result = http_body_frame(b, bytes[i]);
        *consumed = i + 1;
        if (result != HTTP_BODY_MORE) {
            return result;
        }
    }
    return b->state == BODY_END      ? HTTP_BODY_END
           : b->state == BODY_FAILED ? HTTP_BODY_ERROR
                                     : HTTP_BODY_MORE;
}
