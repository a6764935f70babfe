/*
 * test_cli_flow.c - tests flow.h, which processes input with several threads. Every record must be
 * delivered exactly once and in order, for different files, thread counts, legs and parts, and
 * errors must stop the flow. A leg is the input that is read between two pauses; a part is one of n
 * sections of the input.
 */
#define _GNU_SOURCE /* memmem */

#include "support/check.h"
#include "support/scratch.h"
#include "support/streams.h"

#include "flow.h"
#include "say.h"

#include <fcntl.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { FILES = 5 };

/* Files that contain lines, and the expected result: all lines, each followed by a newline. */
struct files {
    char *folder;
    char *paths[FILES];
    size_t count;
    char *all;
    size_t n;
};

static const struct key_format lines = { .separator = '\n', .delimiter = '\t' };

static void files_begin(struct files *files)
{
    *files = (struct files){ .folder = scratch_fresh() };
    files->all = malloc(1);
    CHECK(files->all);
}

static void files_end(struct files *files)
{
    for (size_t i = 0; i < files->count; i++) {
        (void)unlink(files->paths[i]);
        free(files->paths[i]);
    }
    free(files->all);
}

static void files_add(struct files *files, const char *bytes, size_t n)
{
    char *path = NULL;
    CHECK(files->count < FILES);
    CHECK(asprintf(&path, "%s/%zu", files->folder, files->count) > 0);
    files->paths[files->count++] = path;
    FILE *f = fopen(path, "wb");
    CHECK(f && fwrite(bytes, 1, n, f) == n && fclose(f) == 0);
    files->all = realloc(files->all, files->n + n + 1);
    CHECK(files->all);
    memcpy(files->all + files->n, bytes, n);
    files->n += n;
    if (n && bytes[n - 1] != '\n') {
        files->all[files->n++] = '\n';
    }
}

/* Adds a file of about `size` bytes that contains random lines. */
static void files_add_random(struct files *files, size_t size, size_t longest)
{
    char *bytes = malloc(size + 1);
    size_t n = 0;
    CHECK(bytes);
    while (n < size) {
        size_t length = check_random_below(longest + 1);
        for (; length > 0 && n < size; length--) {
            bytes[n++] = (char)('a' + check_random_below(26));
        }
        if (n < size) {
            bytes[n++] = '\n';
        }
    }
    n -= n && check_random_below(2) && bytes[n - 1] == '\n'; /* no final newline */
    files_add(files, bytes, n);
    free(bytes);
}

/* ---- A flow that collects the delivered records ------------------------------------------ */

struct collected {
    char *bytes;
    size_t n, room;
    uint64_t next; /* the lowest number that the next chunk can have */
    bool ordered;
    uint64_t fail_at; /* `work` or `deliver` fails at this chunk */
    int fail_work, fail_deliver;
};

static bool collect_work(struct flow *flow, struct chunk *chunk)
{
    struct collected *c = flow->context;
    if (chunk->number % 3 == 1) { /* every third chunk is slow */
        const struct timespec nap = { 0, 200000 };
        (void)nanosleep(&nap, NULL);
    }
    return !(c->fail_work && chunk->number >= c->fail_at)
           || flow_fail(flow, c->fail_work);
}

static bool collect_deliver(struct flow *flow, struct chunk *chunk)
{
    struct collected *c = flow->context;
    c->ordered = c->ordered && chunk->count > 0 && chunk->number >= c->next;
    c->next = chunk->number + 1; /* chunks without records are skipped */
    if (c->fail_deliver && chunk->number >= c->fail_at) {
        return flow_fail(flow, c->fail_deliver < 0 ? CLI_OK : c->fail_deliver);
    }
    for (size_t i = 0; i < chunk->count; i++) {
        const bg_bytes record = chunk_record(flow->format, chunk, i);
        while (c->n + record.len + 1 > c->room) {
            c->room = 2 * c->room + record.len + 1;
            c->bytes = realloc(c->bytes, c->room);
        }
        memcpy(c->bytes + c->n, record.data, record.len);
        c->n += record.len;
        c->bytes[c->n++] = '\n';
    }
    return true;
}

static struct flow flow_of(struct input *input, struct collected *c, unsigned threads)
{
    return (struct flow){ .input = input,
                          .format = &lines,
                          .threads = threads,
                          .work = collect_work,
                          .deliver = collect_deliver,
                          .context = c };
}

/* Runs the flow over one part of the files, in legs of `leg` bytes. If `leg` is 0, there is a
 * single leg. */
static int collect(const struct files *files, struct collected *c, unsigned threads,
                   uint64_t leg, struct input_part part)
{
    struct input input;
    c->ordered = true;
    c->next = 0;
    CHECK_EQ(input_begin(&input, (char **)(uintptr_t)files->paths, files->count, false,
                         part),
             0);
    struct flow flow = flow_of(&input, c, threads);
    flow.leg = leg;
    flow_begin(&flow);
    int code = flow_run(&flow);
    while (!code && leg && flow_has_more(&flow)) {
        code = flow_run(&flow);
    }
    (void)flow_end(&flow, CLI_OK);
    input_end(&input);
    return code;
}

static void check_all(const struct files *files, struct collected *c)
{
    CHECK(c->ordered);
    CHECK_EQ(c->n, files->n);
    CHECK(c->n == 0 || memcmp(c->bytes, files->all, c->n) == 0);
    free(c->bytes);
    *c = (struct collected){ 0 };
}

/* ---- Order -------------------------------------------------------------------------------- */

TEST(flow__every_line_once_and_in_order)
{
    static const unsigned threads[] = { 1, 2, 3, 8, 64 };
    struct files files;
    struct collected c = { 0 };
    files_begin(&files);
    files_add_random(&files, 3000000, 100);
    files_add(&files, "", 0);
    files_add_random(&files, 20, 5);
    files_add(&files, "\n\n\nlast", 7);
    files_add_random(&files, 1000000, 700000); /* records larger than a chunk */
    for (size_t i = 0; i < sizeof threads / sizeof *threads; i++) {
        CHECK_EQ(collect(&files, &c, threads[i], 0, (struct input_part){ 0, 1 }), 0);
        check_all(&files, &c);
    }
    files_end(&files);
}

TEST(flow__legs)
{
    static const uint64_t legs[] = { 1, 1000, 300000, 1000000, 100000000 };
    struct files files;
    struct collected c = { 0 };
    files_begin(&files);
    files_add_random(&files, 1500000, 100);
    files_add_random(&files, 700000, 1000);
    files_add_random(&files, 30, 5);
    for (size_t i = 0; i < sizeof legs / sizeof *legs; i++) {
        CHECK_EQ(collect(&files, &c, 3, legs[i], (struct input_part){ 0, 1 }), 0);
        check_all(&files, &c);
    }
    files_end(&files);
}

/* Runs each leg in a new flow, which continues at the position that the previous flow reported. */
static void check_resumed(const struct files *files, unsigned threads, uint64_t leg,
                          struct input_part part, struct collected *c)
{
    size_t at = 0;
    uint64_t offset = 0;
    bool more = true;
    for (bool first = true; more; first = false) {
        struct input input;
        c->next = 0;
        CHECK_EQ(input_begin(&input, (char **)(uintptr_t)files->paths, files->count,
                             false, part),
                 0);
        if (!first) {
            CHECK_EQ(input_go_to(&input, at, offset), 0);
        }
        struct flow flow = flow_of(&input, c, threads);
        flow.leg = leg;
        flow_begin(&flow);
        CHECK_EQ(flow_run(&flow), 0);
        more = flow_has_more(&flow);
        at = input.at;
        offset = flow_offset(&flow);
        (void)flow_end(&flow, CLI_OK);
        input_end(&input);
    }
}

TEST(flow__goes_on_where_a_leg_ended)
{
    for (int round = 0; round < 6; round++) {
        struct files files;
        struct collected c = { .ordered = true };
        files_begin(&files);
        files_add_random(&files, 600000 + check_random_below(600000), 100);
        files_add_random(&files, check_random_below(2) ? 262144 : 40, 9);
        files_add_random(&files, check_random_below(400000), 1000);
        check_resumed(&files, round % 2 ? 4 : 1, 1 + check_random_below(400000),
                      (struct input_part){ 0, 1 }, &c);
        check_all(&files, &c);
        files_end(&files);
    }
}

/* ---- Parts -------------------------------------------------------------------------------- */

static int compare_lines(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Returns the lines in sorted order. Results are compared in this form, because reading several
 * files in parts changes the order of the lines.
 */
static char *sorted(const char *bytes, size_t n)
{
    char *copy = malloc(n + 1), *result = malloc(n + 1), *rest = copy;
    char **all = malloc((n + 1) * sizeof *all);
    size_t count = 0, used = 0;
    CHECK(copy && result && all);
    memcpy(copy, bytes, n);
    copy[n] = 0;
    for (char *end; (end = strchr(rest, '\n')); rest = end + 1) {
        *end = 0;
        all[count++] = rest;
    }
    qsort(all, count, sizeof *all, compare_lines);
    for (size_t i = 0; i < count; i++) {
        used += (size_t)sprintf(result + used, "%s\n", all[i]);
    }
    free(copy);
    free(all);
    return result;
}

static void check_parts(const struct files *files, uint64_t n, uint64_t leg)
{
    struct collected c = { 0 };
    for (uint64_t i = 0; i < n; i++) {
        const struct input_part part = { i, n };
        CHECK_EQ(collect(files, &c, 1 + i % 2, leg, part), 0);
        CHECK(c.ordered);
    }
    CHECK_EQ(c.n, files->n);
    char *expected = sorted(files->all, files->n),
         *found = sorted(c.bytes ? c.bytes : "", c.n);
    CHECK(memcmp(expected, found, c.n) == 0);
    free(expected);
    free(found);
    free(c.bytes);
}

/* Some files have fewer bytes than there are parts. */
TEST(flow__parts_of_tiny_files)
{
    for (size_t round = 0; round < 300 * check_scale(); round++) {
        struct files files;
        files_begin(&files);
        for (uint64_t i = check_random_below(3) + 1; i > 0; i--) {
            files_add_random(&files, check_random_below(30),
                             1 + check_random_below(12));
        }
        check_parts(&files, 1 + check_random_below(9), 0);
        files_end(&files);
    }
}

TEST(flow__parts_of_larger_files)
{
    for (size_t round = 0; round < 8 * check_scale(); round++) {
        struct files files;
        files_begin(&files);
        files_add_random(&files, check_random_below(2000000),
                         1 + check_random_below(200));
        files_add_random(&files, check_random_below(900000),
                         round % 2 ? 100 : 400000); /* lines longer than a part */
        check_parts(&files, 1 + check_random_below(7), round % 3 ? 0 : 100000);
        files_end(&files);
    }
}

TEST(flow__parts_go_on_where_a_leg_ended)
{
    for (int round = 0; round < 6; round++) {
        struct files files;
        struct collected c = { .ordered = true };
        const uint64_t n = 2 + check_random_below(3);
        files_begin(&files);
        files_add_random(&files, 900000 + check_random_below(900000), 100);
        files_add_random(&files, 900000 + check_random_below(900000), 1000);
        for (uint64_t i = 0; i < n; i++) {
            check_resumed(&files, 2, 100000, (struct input_part){ i, n }, &c);
        }
        CHECK_EQ(c.n, files.n);
        char *expected = sorted(files.all, files.n),
             *found = sorted(c.bytes ? c.bytes : "", c.n);
        CHECK(memcmp(expected, found, c.n) == 0);
        free(expected);
        free(found);
        free(c.bytes);
        files_end(&files);
    }
}

/* ---- Ends --------------------------------------------------------------------------------- */

TEST(flow__errors_end_it)
{
    static const unsigned threads[] = { 1, 2, 8 };
    struct files files;
    files_begin(&files);
    files_add_random(&files, 4000000, 100);
    for (size_t i = 0; i < sizeof threads / sizeof *threads; i++) {
        struct collected c = { .fail_work = CLI_FULL, .fail_at = 3 };
        CHECK_EQ(collect(&files, &c, threads[i], 0, (struct input_part){ 0, 1 }),
                 CLI_FULL);
        CHECK(c.ordered && c.next <= 3 && c.n < files.n);
        CHECK(c.n == 0 || memcmp(c.bytes, files.all, c.n) == 0);
        free(c.bytes);
        c = (struct collected){ .fail_deliver = CLI_IO, .fail_at = 2 };
        CHECK_EQ(collect(&files, &c, threads[i], 0, (struct input_part){ 0, 1 }),
                 CLI_IO);
        CHECK(c.ordered && c.next == 3); /* two delivered chunks and the failed chunk */
        CHECK(memcmp(c.bytes, files.all, c.n) == 0);
        free(c.bytes);
        c = (struct collected){ .fail_deliver = -1,
                                .fail_at = 2 }; /* stop early without an error */
        CHECK_EQ(collect(&files, &c, threads[i], 0, (struct input_part){ 0, 1 }),
                 CLI_OK);
        CHECK(c.ordered && c.next == 3);
        free(c.bytes);
    }
    files_end(&files);
}

/* Runs a flow over readable files and a path that cannot be read. Checks the exit code and the
 * message. */
static void check_unreadable(struct files *files, char *path, int code,
                             const char *message)
{
    struct files both = *files;
    struct stream_capture said;
    struct collected c = { 0 };
    both.paths[both.count++] = path;
    stream_begin(&said, &stderr);
    const int found = collect(&both, &c, 3, 0, (struct input_part){ 0, 1 });
    (void)stream_end(&said);
    CHECK_EQ(found, code);
    CHECK(strstr(said.text, path) && strstr(said.text, message));
    free(said.text);
    free(c.bytes);
}

TEST(flow__what_cannot_be_read)
{
    static const char broken[] = "\x1f\x8b\x08 no gzip, though it begins so";
    struct files files;
    char missing[] = "/no/such/file";
    files_begin(&files);
    files_add(&files, "a\n", 2);
    check_unreadable(&files, missing, CLI_IO, "No such file");
    check_unreadable(&files, files.folder, CLI_IO, "Is a directory");
    files_add(&files, broken, sizeof broken - 1);
    files.count = 1;
    check_unreadable(&files, files.paths[1], CLI_DATA, "cannot be decompressed");
    files.count = 2;
    files_end(&files);
}

/* ---- Pipes -------------------------------------------------------------------------------- */

struct pipe_talk {
    int fd;
    sem_t answered;
    bool answers; /* true if every line was answered before the next line was written */
};

static void *pipe_writer(void *argument)
{
    struct pipe_talk *talk = argument;
    for (int i = 0; i < 20; i++) {
        struct timespec limit;
        talk->answers = talk->answers && write(talk->fd, "ask\n", 4) == 4;
        (void)clock_gettime(CLOCK_REALTIME, &limit);
        limit.tv_sec += 300;
        talk->answers = talk->answers && sem_timedwait(&talk->answered, &limit) == 0;
    }
    (void)close(talk->fd);
    return NULL;
}

static bool pipe_deliver(struct flow *flow, struct chunk *chunk)
{
    struct pipe_talk *talk = flow->context;
    for (size_t i = 0; i < chunk->count; i++) {
        (void)sem_post(&talk->answered);
    }
    return true;
}

static bool pipe_work(struct flow *flow, struct chunk *chunk)
{
    (void)flow;
    (void)chunk;
    return true;
}

/* Runs a flow over the read end of a pipe. */
static int run_pipe(int fd, unsigned threads, struct pipe_talk *talk,
                    bool (*deliver)(struct flow *flow, struct chunk *chunk))
{
    struct input input;
    char path[32], *paths[] = { path };
    (void)snprintf(path, sizeof path, "/dev/fd/%d", fd);
    CHECK_EQ(input_begin(&input, paths, 1, false, (struct input_part){ 0, 1 }), 0);
    struct flow flow = { .input = &input,
                         .format = &lines,
                         .threads = threads,
                         .work = pipe_work,
                         .deliver = deliver,
                         .context = talk };
    flow_begin(&flow);
    const int code = flow_run(&flow);
    (void)flow_end(&flow, CLI_OK);
    input_end(&input);
    return code;
}

TEST(flow__a_pipe_is_answered_line_by_line)
{
    for (unsigned threads = 1; threads <= 4; threads += 3) {
        struct pipe_talk talk = { .answers = true };
        int ends[2];
        pthread_t writer;
        CHECK(pipe(ends) == 0 && sem_init(&talk.answered, 0, 0) == 0);
        talk.fd = ends[1];
        CHECK(pthread_create(&writer, NULL, pipe_writer, &talk) == 0);
        const int code = run_pipe(ends[0], threads, &talk, pipe_deliver);
        (void)pthread_join(writer, NULL);
        CHECK_EQ(code, 0);
        CHECK(talk.answers);
        (void)close(ends[0]);
        (void)sem_destroy(&talk.answered);
    }
}

static bool pipe_enough(struct flow *flow, struct chunk *chunk)
{
    (void)chunk;
    return flow_fail(flow, CLI_OK);
}

/* When no more input is needed, no thread keeps waiting for input from the pipe, even though the
 * pipe is still open. */
TEST(flow__enough_of_a_pipe)
{
    for (unsigned threads = 1; threads <= 4; threads++) {
        struct pipe_talk talk = { 0 };
        int ends[2];
        CHECK(pipe(ends) == 0 && write(ends[1], "a\nb\n", 4) == 4);
        (void)alarm(300); /* ends the test if a thread is still waiting */
        CHECK_EQ(run_pipe(ends[0], threads, &talk, pipe_enough), CLI_OK);
        (void)alarm(0);
        (void)close(ends[0]);
        (void)close(ends[1]);
    }
}

TEST(flow__threads)
{
    CHECK(flow_threads(0) >= 1 && flow_threads(0) <= 64);
    CHECK_EQ(flow_threads(3), 3);
    CHECK_EQ(flow_threads(1000000), 64);
}
