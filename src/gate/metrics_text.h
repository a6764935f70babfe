/*
 * metrics_text.h - writes text of any length to a sink, through one small buffer. Once the sink
 * has returned false, it is not called again.
 */
#ifndef BGI_METRICS_TEXT_H
#define BGI_METRICS_TEXT_H

#include "bloomgate/metrics.h"

enum {
    METRICS_BUFFER = 4096,
    METRICS_NUMBER = 48 /* more than enough for any number and a NUL */
};

struct metrics_text {
    bg_metrics_sink_fn sink;
    void *context;
    size_t used;
    bool stopped;
    char buffer[METRICS_BUFFER];
};

void metrics_text_begin(struct metrics_text *out, bg_metrics_sink_fn sink,
                        void *context);

/* Flushes the buffer. Returns false if the sink has returned false. */
bool metrics_text_end(struct metrics_text *out);

void metrics_text_put(struct metrics_text *out, const char *text);
void metrics_text_put_some(struct metrics_text *out, const char *bytes, size_t n);
void metrics_text_whole(struct metrics_text *out, uint64_t number);

/* Writes a string in quotes, escaped as a Prometheus label or as JSON. Bytes that are not valid
 * UTF-8 are written in the form "\xff", with an escaped backslash. */
void metrics_text_label(struct metrics_text *out, const char *text);
void metrics_text_json(struct metrics_text *out, const char *text);

/* Writes the shortest decimal that parses to the same number, with a decimal point in every
 * locale. Numbers that are not finite become "NaN", "+Inf" or "-Inf". */
void metrics_number(double number, char text[METRICS_NUMBER]);

#endif
