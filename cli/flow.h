/*
 * flow.h - processes keys with several threads.
 *
 *     input --> chunk --> split, work --> deliver --> write
 *               in order  in any order    in order    in order
 *
 * Each thread has its own chunk and performs all steps on it. Under a lock, it fills the chunk with
 * the next whole records. In parallel with the other threads, it splits the chunk into keys and
 * processes them. It then waits for its turn and delivers the chunk. Finally, it waits for its turn
 * again and writes the chunk, while the next chunk is being delivered. There are no queues, and
 * each thread needs memory for only one chunk. With one thread, the flow is a plain loop.
 *
 * Delivered chunks are always written, even if a stop is requested in the meantime. deliver and
 * write therefore process the same chunks.
 *
 * Chunks from files are large enough to justify the synchronization, and small enough to fit into
 * the cache. A chunk from a pipe contains all bytes that are available, so that the answer for a
 * line is written without delay. For the same reason, reading and delivering have separate locks,
 * so that delivering never waits for reading. No thread waits for a pipe while other threads are
 * working, because one of those threads may end the flow.
 */
#ifndef CLI_FLOW_H
#define CLI_FLOW_H

#include "input.h"
#include "records.h"
#include "say.h"

#include <pthread.h>

struct flow {
    struct input *input;
    const struct key_format *format;
    unsigned threads;
    struct progress *progress; /* or NULL */
    uint64_t leg;     /* bytes per leg (see flow_run); 0 selects the whole input */
    bool tells_empty; /* report empty lines, because their keys are added to a filter */
    bool silent;      /* do not report odd keys */
    bool resumed;     /* an earlier run has read the first records */
    /* Describes records without the field in messages: "they are not compared". NULL: their keys
     * are empty. */
    const char *keyless;

    /* Processes the keys of a chunk (at least one key) in parallel with other threads. Returns
     * false to stop, with the exit code set by flow_fail. May be NULL. */
    bool (*work)(struct flow *flow, struct chunk *chunk);
    /* Called in input order, for one chunk at a time. May be NULL. */
    bool (*deliver)(struct flow *flow, struct chunk *chunk);
    /* Called once, before all other steps, with the first header (--header), which ends with a
     * separator. May be NULL. */
    bool (*header)(struct flow *flow, const char *bytes, size_t n);
    /* Called after `deliver`, also in input order and for one chunk at a time. May be NULL. */
    bool (*write)(struct flow *flow, struct chunk *chunk);
    void *context;

    /* Private. */
    pthread_mutex_t
        lock;   /* protects the input and the fields below; locked before `turns` */
    char *rest; /* bytes already read from an incomplete record */
    size_t rest_used, rest_room;
    uint64_t chunks, legs_end;
    bool ended; /* the input has ended */
    size_t
        opened; /* number of the current file, counted from 1; 0 before the first file */
    uint64_t line;  /* number of the next line; 0 if it is unknown */
    uint64_t field; /* column in the current file; see chunk.field */
    bool passed;    /* whether a header was passed on */
    bool marked;    /* whether a file starts with a byte-order mark */
    bool headed;    /* a file seems to start with a header, but --header is not set */

    pthread_mutex_t turns;     /* protects the fields below; held briefly */
    pthread_cond_t turned;     /* signaled when one of the fields below changes */
    uint64_t turn, write_turn; /* numbers of the next chunks to deliver and write */
    unsigned busy;             /* number of threads that hold a chunk */
    uint64_t keys;             /* number of keys so far */
    struct key_oddities odd;   /* how many of them are odd */
    bool stopped;              /* all threads must stop, with exit code `code` */
    int code;
};

/* Returns the number of threads to use if `wanted` threads are requested; 0 selects all cores. */
unsigned flow_threads(uint64_t wanted);

/*
 * flow_run processes one leg, which is a section of the input. It returns when the leg or the input
 * ends, or when a step fails. Call flow_begin before the first leg and flow_end after the last leg.
 * Returns an exit code. flow_end reports the numbers of odd keys. It returns `code`, the exit code of
 * the last leg, or CLI_DATA if there are records, but none of them is valid, or none has the field
 * that contains the key.
 */
void flow_begin(struct flow *flow);
int flow_run(struct flow *flow);
int flow_end(struct flow *flow, int code);

/* Process the whole input in one leg, with a progress bar. flow_files also opens and closes
 * the input, which consists of the given files, or of stdin if there are none. Both functions
 * return an exit code. */
int flow_once(struct flow *flow, const char *what);
int flow_files(struct flow *flow, char **paths, size_t count, bool raw,
               const char *what);

/* Counts the records in the files of `input`, which must be regular files. Reads the files from the
 * start, without changing `input`. Uses the format and the number of threads from `like`. Returns
 * an exit code. */
int flow_count(const struct flow *like, const struct input *input, uint64_t *records);

/* After a leg, flow_has_more returns whether there is more input, and flow_offset returns the
 * position from which to continue (input_go_to). */
bool flow_has_more(const struct flow *flow);
uint64_t flow_offset(const struct flow *flow);

/* Values for `header`. Both functions print the header to stdout; flow_print_annotated first prints
 * the name of a column for answers. */
bool flow_print_header(struct flow *flow, const char *bytes, size_t n);
bool flow_print_annotated(struct flow *flow, const char *bytes, size_t n);

/* Ends the flow with an exit code. CLI_OK means that no more input is needed. Call this function
 * from `work` or `deliver`. Returns false. */
bool flow_fail(struct flow *flow, int code);

#endif
