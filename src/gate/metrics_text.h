/*
 * metrics_text.h - text on its way to a sink: through one small buffer, however long it
 * gets. Once the sink has said stop it hears nothing more.
 */
#ifndef BGI_METRICS_TEXT_H
#define BGI_METRICS_TEXT_H

#include "bloomgate/metrics.h"

enum {
    METRICS_BUFFER = 4096,
    METRICS_NUMBER = 48 /* more than enough for any number, with its NUL */
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

/* Hands the rest over. False: the sink has said stop. */
bool metrics_text_end(struct metrics_text *out);

void metrics_text_put(struct metrics_text *out, const char *text);
void metrics_text_put_some(struct metrics_text *out, const char *bytes, size_t n);
void metrics_text_whole(struct metrics_text *out, uint64_t number);

/* Puts a string in quotes, escaped as a label of Prometheus, or as JSON has it. Bytes that
 * are not UTF-8 become "\xff" and so on, each written with a backslash that is escaped. */
void metrics_text_label(struct metrics_text *out, const char *text);
void metrics_text_json(struct metrics_text *out, const char *text);

/* The shortest decimal that is read back as the same number, with a point whatever the
 * locale says; "NaN", "+Inf" and "-Inf". */
void metrics_number(double number, char text[METRICS_NUMBER]);

#endif
