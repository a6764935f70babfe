/*
 * http_story.h - the "story" of an HTTP stream as the parser reads it: the requests with
 * their bodies, and how the stream ended. The parser gets the stream in chunks of any size. The
 * unparsed bytes move between calls and are stored at the end of an allocation, so that a sanitizer
 * detects reads beyond them.
 */
#ifndef TESTS_HTTP_STORY_H
#define TESTS_HTTP_STORY_H

#include "http/http.h"
#include "util/buffer.h"

#include <stdlib.h>

struct http_story {
    struct buffer text;   /* all requests */
    size_t heads, bodies; /* number of complete heads and bodies */
    int status;           /* status of the error that ended the stream, or 0 */
    const char *reason;
    size_t consumed;
};

/* The size of the first chunk, and the seed for random sizes of the other chunks. If both are 0,
 * there is only one chunk. */
struct http_cuts {
    size_t first;
    uint64_t random;
};

struct http_teller {
    struct http_request request;
    struct http_body body;
    bool in_body;
    uint64_t limit; /* maximum body size */
};

static inline void http_story_init(struct http_story *story)
{
    *story = (struct http_story){ 0 };
    buffer_init(&story->text, SIZE_MAX);
}

static inline void http_story_free(struct http_story *story)
{
    buffer_free(&story->text);
}

static inline void http_story_part(struct http_story *story, const char *name,
                                   bg_bytes part)
{
    buffer_text(&story->text, name);
    buffer_put(&story->text, part.data, part.len);
    buffer_text(&story->text, "\n");
}

static inline void http_story_number(struct http_story *story, const char *name,
                                     uint64_t value)
{
    buffer_text(&story->text, name);
    buffer_number(&story->text, value);
    buffer_text(&story->text, "\n");
}

static inline void http_story_head(struct http_story *story,
                                   const struct http_request *r)
{
    http_story_part(story, "method ", http_part(r, r->method));
    http_story_part(story, "path ", http_part(r, r->path));
    http_story_part(story, r->has_query ? "query " : "no query",
                    http_part(r, r->query));
    http_story_number(story, "minor ", (uint64_t)r->minor);
    for (size_t i = 0; i < r->field_count; i++) {
        http_story_part(story, "name ", http_part(r, r->fields[i].name));
        http_story_part(story, "value ", http_part(r, r->fields[i].value));
    }
    http_story_number(story, "body ", r->body);
    http_story_number(story, "length ", r->length);
    http_story_number(story, "keep ", r->keep_alive);
    http_story_number(story, "continue ", r->expects_continue);
    buffer_text(&story->text, "data ");
    story->heads++;
}

static inline bool http_story_equal(const struct http_story *a,
                                    const struct http_story *b)
{
    return a->heads == b->heads && a->bodies == b->bodies && a->status == b->status
           && a->reason == b->reason && a->consumed == b->consumed
           && a->text.used == b->text.used
           && (a->text.used == 0
               || memcmp(a->text.data, b->text.data, a->text.used) == 0);
}

static inline bool http_story_end(struct http_story *story, int status,
                                  const char *reason)
{
    story->status = status;
    story->reason = reason;
    return false;
}

/* Parses a request head. Returns false on an error or if more bytes are needed. */
static inline bool http_story_step_head(struct http_story *story, struct http_teller *t,
                                        const char *bytes, size_t n, size_t *done)
{
    const enum http_result result = http_parse(&t->request, bytes, n);
    if (result == HTTP_ERROR) {
        return http_story_end(story, t->request.status, t->request.reason);
    }
    if (result == HTTP_PARTIAL) {
        return false;
    }
    http_story_head(story, &t->request);
    *done += t->request.consumed;
    t->in_body = true;
    return http_body_begin(&t->body, &t->request, t->limit)
           || http_story_end(story, t->body.status, t->body.reason);
}

static inline bool http_story_step_body(struct http_story *story, struct http_teller *t,
                                        const char *bytes, size_t n, size_t *done)
{
    bg_bytes data;
    size_t consumed;
    const enum http_body_result result =
        http_body_read(&t->body, bytes, n, &data, &consumed);
    *done += consumed;
    if (result == HTTP_BODY_ERROR) {
        return http_story_end(story, t->body.status, t->body.reason);
    }
    buffer_put(&story->text, data.data, data.len);
    if (result == HTTP_BODY_END) {
        http_story_number(story, "\ntotal ", t->body.total);
        story->bodies++;
        t->in_body = false;
        http_request_reset(&t->request);
    }
    return result != HTTP_BODY_MORE;
}

static inline size_t http_cuts_next(struct http_cuts *cuts, size_t left)
{
    size_t piece = left;
    if (cuts->first) {
        piece = cuts->first;
        cuts->first = 0;
    } else if (cuts->random) { /* one byte, or at most 32 + left / 8 bytes */
        cuts->random = cuts->random * 6364136223846793005u + 1442695040888963407u;
        piece = 1
                + (size_t)(cuts->random >> 40) % (32 + left / 8)
                      * (size_t)(cuts->random >> 63);
    }
    return piece < left ? piece : left;
}

/* Returns an allocation of at least n bytes, which later calls reuse. Sets *room to its size. */
static inline char *http_story_block(size_t n, size_t *room)
{
    static char *block;
    static size_t block_room;
    if (n > block_room) {
        free(block);
        block_room = n + 1000;
        block = malloc(block_room);
    }
    *room = block_room;
    return block;
}

/* Writes the story of a stream in which each body can have up to `limit` bytes. */
static inline void http_story_tell(struct http_story *story, const char *bytes,
                                   size_t n, uint64_t limit, struct http_cuts cuts)
{
    /* The state is not cleared between calls, because parsing a request does not require that. */
    static struct http_teller t;
    size_t held = 0, read = 0, room;
    char *block = http_story_block(n + 1, &room);
    http_request_reset(&t.request);
    t.in_body = false;
    t.limit = limit;
    while (block && read < n && !story->status) {
        const size_t piece = http_cuts_next(&cuts, n - read);
        char *at = block + room - held - piece;
        size_t done = 0;
        memmove(at, block + room - held, held);
        memcpy(at + held, bytes + read, piece);
        read += piece;
        held += piece;
        bool more = true;
        while (more && done < held) {
            more = t.in_body
                       ? http_story_step_body(story, &t, at + done, held - done, &done)
                       : http_story_step_head(story, &t, at + done, held - done, &done);
        }
        /* The end of a body can be detected without reading another byte. */
        if (t.in_body && more) {
            (void)http_story_step_body(story, &t, at + done, 0, &done);
        }
        held -= done;
        story->consumed += done;
    }
}

#endif
