/*
 * resp_story.h - the "story" of a RESP stream as the parser reads it: the requests, and how the
 * stream ended. The parser gets the stream in chunks of any size. In each call, the unparsed bytes
 * are at a different address, and they always extend to the end of an allocation, so that a
 * sanitizer detects reads beyond them.
 */
#ifndef TESTS_RESP_STORY_H
#define TESTS_RESP_STORY_H

#include "resp/resp.h"

#include <stdlib.h>

struct resp_story {
    struct buffer requests; /* requests, each as an array of strings */
    size_t count;
    enum resp_result end; /* RESP_PARTIAL, RESP_ERROR */
    char error[RESP_ERROR_TEXT];
    size_t consumed;
};

/* The size of the first chunk, and the seed for random sizes of the other chunks. If both are 0,
 * there is only one chunk. */
struct resp_cuts {
    size_t first;
    uint64_t random;
};

static inline void resp_story_init(struct resp_story *story)
{
    *story = (struct resp_story){ .end = RESP_PARTIAL };
    buffer_init(&story->requests, SIZE_MAX);
}

static inline void resp_story_free(struct resp_story *story)
{
    buffer_free(&story->requests);
}

static inline void resp_story_add(struct resp_story *story, const bg_bytes *argv,
                                  size_t argc)
{
    const struct reply r = resp_reply_to(&story->requests, 2);
    reply_array(&r, argc);
    for (size_t i = 0; i < argc; i++) {
        reply_bulk(&r, argv[i].data, argv[i].len);
    }
    story->count++;
}

static inline bool resp_story_equal(const struct resp_story *a,
                                    const struct resp_story *b)
{
    return a->count == b->count && a->end == b->end && a->consumed == b->consumed
           && strcmp(a->error, b->error) == 0 && a->requests.used == b->requests.used
           && (a->requests.used == 0
               || memcmp(a->requests.data, b->requests.data, a->requests.used) == 0);
}

static inline size_t resp_cuts_next(struct resp_cuts *cuts, size_t left)
{
    size_t piece = left;
    if (cuts->first) {
        piece = cuts->first;
        cuts->first = 0;
    } else if (cuts->random) { /* about half of the chunks are single bytes */
        cuts->random = cuts->random * 6364136223846793005u + 1442695040888963407u;
        piece = 1
                + (size_t)(cuts->random >> 40) % (32 + left / 8)
                      * (size_t)(cuts->random >> 63);
    }
    return piece < left ? piece : left;
}

/* Returns an allocation of at least n bytes, which later calls reuse. Sets *room to its size. */
static inline char *resp_story_block(size_t n, size_t *room)
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

/* Parses all complete requests in bytes[0..n) and adds them to the story. Returns the number of
 * bytes consumed. */
static inline size_t resp_story_drain(struct resp_story *story, struct resp_parser *p,
                                      char *bytes, size_t n)
{
    size_t done = 0;
    do {
        story->end = resp_parse(p, bytes + done, n - done);
        done += p->consumed;
        if (story->end == RESP_OK) {
            resp_story_add(story, p->argv, p->argc);
        }
    } while (story->end == RESP_OK);
    story->consumed += done;
    return done;
}

/* Parses a stream in chunks and records its story. */
static inline void resp_story_tell(struct resp_story *story, const char *bytes,
                                   size_t n, const struct resp_limits *limits,
                                   struct resp_cuts cuts)
{
    struct resp_parser p;
    size_t held = 0, read = 0, room;
    char *block = resp_story_block(n + 1, &room);
    resp_parser_init(&p, limits);
    while (block && read < n && story->end != RESP_ERROR) {
        const size_t piece = resp_cuts_next(&cuts, n - read);
        char *at = block + room - held - piece;
        memmove(at, block + room - held, held);
        memcpy(at + held, bytes + read, piece);
        read += piece;
        held += piece;
        held -= resp_story_drain(story, &p, at, held);
    }
    if (story->end == RESP_ERROR) {
        memcpy(story->error, p.error, sizeof story->error);
    }
    resp_parser_free(&p);
}

#endif
