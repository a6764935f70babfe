/*
 * flow.h - keys through several threads.
 *
 *     input --> chunk --> split, work --> deliver --> write
 *               in order  in any order    in order    in order
 *
 * Each thread has a chunk of its own and does all steps with it: it fills the chunk with
 * the next whole records, under a lock; splits it into keys and works on them, beside the
 * others; waits for its turn, and delivers; waits for its turn again, and writes, while the
 * next chunk is delivered. There are no queues, memory is a chunk per thread, and with one
 * thread it is a plain loop.
 *
 * What was delivered is written, whoever asks to stop meanwhile: so the two agree on which
 * chunks there were.
 *
 * Chunks of files are large enough to be worth a turn, and small enough for the cache. From a
 * pipe a chunk is what there is: whoever waits for the answer to a line gets it at once. So
 * what is delivered does not wait for who reads (two locks), and nobody waits for a pipe as
 * long as others work, who may find that it was enough.
 */
#ifndef CLI_FLOW_H
#define CLI_FLOW_H

#include "input.h"
#include "progress.h"
#include "records.h"

#include <pthread.h>

struct flow {
    struct input *input;
    const struct key_format *format;
    unsigned threads;
    struct progress *progress; /* or NULL */
    uint64_t
        leg; /* stop when so many bytes have been read, to go on later; 0: at the end */

    /* The keys of a chunk, one at least; beside other threads. False: stop; the exit code is
     * flow_fail's. */
    bool (*work)(struct flow *flow, struct chunk *chunk);
    /* In the order of the input, one at a time; or NULL. */
    bool (*deliver)(struct flow *flow, struct chunk *chunk);
    /* The same, after deliver; or NULL. */
    bool (*write)(struct flow *flow, struct chunk *chunk);
    void *context;

    /* Inside. */
    pthread_mutex_t lock; /* of the input, and what follows; taken before the other */
    char *rest;           /* the beginning of a record, read already */
    size_t rest_used, rest_room;
    uint64_t chunks, legs_end;
    bool ended; /* the input has */

    pthread_mutex_t turns;     /* of what follows; held shortly */
    pthread_cond_t turned;     /* one of these has changed */
    uint64_t turn, write_turn; /* the chunks that are delivered and written next */
    unsigned busy;             /* threads that have a chunk */
    bool stopped;              /* nobody goes on: code says why, 0: it was enough */
    int code;
};

/* How many threads there may be: of `wanted`, 0: as many as processors. */
unsigned flow_threads(uint64_t wanted);

/*
 * Runs until the input or the leg ends, or something fails. Call flow_begin before the first
 * leg and flow_end after the last. Exit code.
 */
void flow_begin(struct flow *flow);
int flow_run(struct flow *flow);
void flow_end(struct flow *flow);

/* All of the input in one go, with a progress bar; `when` is an enum say_when, as options have
 * it. The second opens the input, which are these files, or stdin if there are none, and closes
 * it again. Exit codes. */
int flow_once(struct flow *flow, const char *what, int when);
int flow_files(struct flow *flow, char **paths, size_t count, bool raw,
               const char *what, int when);

/* Counts the records of plain files, which are read from the start; `input` is not changed. Uses the
 * format and the threads of `like`. Returns an exit code. */
int flow_count(const struct flow *like, const struct input *input, int when,
               uint64_t *records);

/* After a leg: whether there is more; and where, for input_go_to. */
bool flow_has_more(const struct flow *flow);
uint64_t flow_offset(const struct flow *flow);

/* For `work` and `deliver`: ends it with an exit code, CLI_OK when it was enough; returns
 * false. */
bool flow_fail(struct flow *flow, int code);

#endif
