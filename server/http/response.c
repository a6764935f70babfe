/* http/response.c - writes the heads and chunks of responses. */
#include "http/response.h"

const char *http_reason(int status)
{
    static const struct {
        int status;
        const char *reason;
    } known[] = {
        { 200, "OK" },
        { 201, "Created" },
        { 202, "Accepted" },
        { 204, "No Content" },
        { 304, "Not Modified" },
        { 400, "Bad Request" },
        { 401, "Unauthorized" },
        { 403, "Forbidden" },
        { 404, "Not Found" },
        { 405, "Method Not Allowed" },
        { 409, "Conflict" },
        { 412, "Precondition Failed" },
        { 413, "Content Too Large" },
        { 414, "URI Too Long" },
        { 415, "Unsupported Media Type" },
        { 417, "Expectation Failed" },
        { 421, "Misdirected Request" },
        { 422, "Unprocessable Content" },
        { 429, "Too Many Requests" },
        { 431, "Request Header Fields Too Large" },
        { 500, "Internal Server Error" },
        { 501, "Not Implemented" },
        { 503, "Service Unavailable" },
        { 505, "HTTP Version Not Supported" },
        { 507, "Insufficient Storage" },
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (known[i].status == status) {
            return known[i].reason;
        }
    }
    return "Status";
}

static void http_response_field(struct buffer *out, const char *name, const char *value)
{
    buffer_text(out, name);
    buffer_put(out, ": ", 2);
    buffer_line(out, value, strlen(value));
    buffer_put(out, "\r\n", 2);
}

/* Returns whether responses with this status have no body and no length. */
static bool http_response_is_bare(int status)
{
    return status < 200 || status == 204 || status == 304;
}

void http_response_head(struct buffer *out, const struct http_response *response)
{
    const bool bare = http_response_is_bare(response->status);
    buffer_put(out, "HTTP/1.1 ", 9);
    buffer_number(out, (uint64_t)response->status);
    buffer_put(out, " ", 1);
    buffer_text(out, http_reason(response->status));
    buffer_put(out, "\r\n", 2);
    if (response->type && !bare) {
        http_response_field(out, "Content-Type", response->type);
    }
    if (!bare) {
        buffer_text(out, "Content-Length: ");
        buffer_number(out, response->length);
        buffer_put(out, "\r\n", 2);
    }
    if (response->close) {
        buffer_text(out, "Connection: close\r\n");
    } else if (response->minor == 0) {
        buffer_text(out, "Connection: keep-alive\r\n");
    }
    buffer_text(out, "X-Content-Type-Options: nosniff\r\n");
    for (size_t i = 0; i < response->extras; i++) {
        http_response_field(out, response->extra[i].name, response->extra[i].value);
    }
    buffer_put(out, "\r\n", 2);
}

void http_response_continue(struct buffer *out)
{
    buffer_text(out, "HTTP/1.1 100 Continue\r\n\r\n");
}
