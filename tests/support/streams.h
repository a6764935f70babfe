/*
 * streams.h - captures the output to stdout or stderr between two calls. Tests and fuzzers use
 * these functions to check or suppress messages.
 */
#ifndef TESTS_STREAMS_H
#define TESTS_STREAMS_H

#include <stdio.h>
#include <stdlib.h>

struct stream_capture {
    FILE **stream; /* &stdout or &stderr, which are variables in the Linux C library */
    FILE *before;
    char *text; /* the output, set by stream_end; the caller frees it */
    size_t n;
};

static inline void stream_begin(struct stream_capture *capture, FILE **stream)
{
    capture->stream = stream;
    capture->before = *stream;
    capture->text = NULL;
    capture->n = 0;
    FILE *memory = open_memstream(&capture->text, &capture->n);
    if (!memory) {
        abort();
    }
    *stream = memory;
}

static inline const char *stream_end(struct stream_capture *capture)
{
    (void)fclose(*capture->stream);
    *capture->stream = capture->before;
    return capture->text;
}

#endif
