/* input.c - see input.h. */
#include "input.h"

#include "say.h"
#include "stop.h"
#include "unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { INPUT_AHEAD = 1 << 16, INPUT_PIPE = 1 << 20 };

static bool input_is_stdin(const char *path)
{
    return strcmp(path, "-") == 0;
}

const char *input_name(const struct input *input)
{
    const char *path = input->at < input->count ? input->paths[input->at] : "-";
    return input_is_stdin(path) ? "stdin" : path;
}

/* Gets the size of a regular file. Returns false for all other files. */
static bool input_size_of(const char *path, uint64_t *size)
{
    struct stat about;
    if (input_is_stdin(path) ? fstat(STDIN_FILENO, &about) != 0
                             : stat(path, &about) != 0) {
        return false;
    }
    *size = about.st_size > 0 ? (uint64_t)about.st_size : 0;
    return S_ISREG(about.st_mode);
}

size_t input_peek(const char *path, char *to, size_t room)
{
    const bool standard = input_is_stdin(path);
    const int fd = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd >= 0 ? pread(fd, to, room, 0) : 0;
    if (fd >= 0 && !standard) {
        (void)close(fd);
    }
    return n > 0 ? (size_t)n : 0;
}

/* Returns whether a regular file is compressed and will be decompressed while it is read. */
static bool input_is_packed(const char *path)
{
    char first[UNPACK_MAGIC];
    const size_t n = input_peek(path, first, sizeof first);
    return n > 0 && unpack_recognise(first, n) != UNPACK_PLAIN;
}

bool input_is_same_file(const char *a, const char *b)
{
    struct stat first, second;
    return strcmp(a, b) == 0
           || (stat(a, &first) == 0 && stat(b, &second) == 0 && S_ISREG(first.st_mode)
               && first.st_dev == second.st_dev && first.st_ino == second.st_ino);
}

bool input_reads(const struct input *input, const char *path)
{
    size_t i = 0;
    while (i < input->count && !input_is_same_file(input->paths[i], path)) {
        i++;
    }
    return i < input->count;
}

bool input_is_plain(const struct input *input)
{
    for (size_t i = 0; i < input->count; i++) {
        uint64_t size;
        if (input_is_stdin(input->paths[i]) || !input_size_of(input->paths[i], &size)
            || (!input->raw && input_is_packed(input->paths[i]))) {
            return false;
        }
    }
    return true;
}

static void input_sum_sizes(struct input *input)
{
    input->size = 0;
    for (size_t i = 0; i < input->count; i++) {
        uint64_t size;
        if (!input_size_of(input->paths[i], &size)) {
            input->size = 0;
            return;
        }
        input->size += size;
    }
    input->size /= input->part.n;
}

int input_take_stdin(void)
{
    static bool taken;
    if (taken) {
        return say_usage(
            "stdin can be used only once; specify a file for the other input "
            "('-', or no file at all, means stdin)");
    }
    taken = true;
    return CLI_OK;
}

int input_begin(struct input *input, char **paths, size_t count, bool raw,
                struct input_part part)
{
    static char dash[] = "-";
    static char *standard[] = { dash };
    *input = (struct input){ .paths = count ? paths : standard,
                             .count = count ? count : 1,
                             .raw = raw,
                             .part = part.n ? part : (struct input_part){ 0, 1 },
                             .fd = -1 };
    for (size_t i = 0; i < input->count; i++) {
        const int code = input_is_stdin(input->paths[i]) ? input_take_stdin() : CLI_OK;
        if (code) {
            return code;
        }
    }
    input->ahead = malloc(INPUT_AHEAD);
    if (!input->ahead) {
        return say_full("out of memory");
    }
    input_sum_sizes(input);
    return CLI_OK;
}

static void input_close(struct input *input)
{
    if (input->fd > STDIN_FILENO) {
        (void)close(input->fd);
    }
    unpacker_free(input->unpacker);
    input->unpacker = NULL;
    input->fd = -1;
}

void input_next(struct input *input)
{
    input_close(input);
    input->at++;
}

void input_end(struct input *input)
{
    input_close(input);
    free(input->ahead);
    input->ahead = NULL;
}

/* Waits until a pipe has data. Returns false if a stop was requested. */
static bool input_wait(const struct input *input)
{
    struct pollfd both[] = { { input->fd, POLLIN, 0 }, { stop_fd(), POLLIN, 0 } };
    while (!stop_wanted()) {
        if (poll(both, 2, -1) >= 0 || errno != EINTR) {
            return !stop_wanted(); /* read() will report any error */
        }
    }
    errno = EINTR;
    return false;
}

/* Calls read, and repeats the call after a signal that does not request a stop. */
static ssize_t input_get(struct input *input, char *to, size_t room)
{
    ssize_t n;
    do {
        n = input->streams && !input_wait(input) ? -1 : read(input->fd, to, room);
    } while (n < 0 && errno == EINTR && !stop_wanted());
    if (n > 0) {
        input->done += (uint64_t)n;
    }
    return n;
}

static int input_failed(const struct input *input)
{
    return stop_wanted() ? CLI_INTERRUPTED : say_errno(input_name(input));
}

static void input_prepare_stdin(const struct input *input)
{
    if (isatty(input->fd)) {
        say_note("reading from the terminal; press Ctrl-D to end the input");
    }
    (void)fcntl(input->fd, F_SETPIPE_SZ, INPUT_PIPE); /* faster, if permitted */
}

static int input_seek(struct input *input, uint64_t offset)
{
    input->offset = offset;
    input->ahead_used = input->ahead_at = 0;
    return lseek(input->fd, (off_t)offset, SEEK_SET) < 0 ? input_failed(input) : CLI_OK;
}

/* Selects part i of n of a regular file: the lines that start within the part's bytes. Reading
 * starts one byte earlier, because the first line belongs to this part if that byte ends a line. */
static int input_take_part(struct input *input, uint64_t size)
{
    const uint64_t n = input->part.n, i = input->part.i;
    const uint64_t first = size / n * i + size % n * i / n;
    const uint64_t next = size / n * (i + 1) + size % n * (i + 1) / n;
    input->end = i + 1 < n ? next : UINT64_MAX;
    input->cut = first > 0;
    return first > 0 ? input_seek(input, first - 1) : CLI_OK;
}

/* Reads enough bytes to detect the format; a pipe may deliver the bytes one at a time. */
static bool input_look_ahead(struct input *input)
{
    ssize_t n;
    input->ahead_used = input->ahead_at = 0;
    do {
        n = input_get(input, input->ahead + input->ahead_used,
                      INPUT_AHEAD - input->ahead_used);
        input->ahead_used += n > 0 ? (size_t)n : 0;
    } while (n > 0 && !input->raw
             && unpack_may_become(input->ahead, input->ahead_used));
    return n >= 0;
}

/* Returns whether stdout is redirected to an input file, as in `command FILE >> FILE`. In that
 * case, the input would never end. */
static bool input_is_output(const struct input *input)
{
    struct stat in, out;
    if (fstat(input->fd, &in) != 0 || fstat(STDOUT_FILENO, &out) != 0
        || !S_ISREG(in.st_mode) || in.st_dev != out.st_dev || in.st_ino != out.st_ino) {
        return false;
    }
    const int flags = fcntl(STDOUT_FILENO, F_GETFL);
    return (flags >= 0 && (flags & O_ACCMODE) != O_RDONLY && flags & O_APPEND)
           || lseek(input->fd, 0, SEEK_CUR) < lseek(STDOUT_FILENO, 0, SEEK_CUR);
}

/* Opens the next file and examines its first bytes. */
static int input_open(struct input *input)
{
    const char *path = input->paths[input->at];
    uint64_t size = 0;
    input->fd = input_is_stdin(path) ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (input->fd < 0) {
        return input_failed(input);
    }
    if (input_is_output(input)) {
        return say_failed(
            CLI_IO, "%s: this input file is also the output; write to another file",
            input_name(input));
    }
    input->streams = !input_size_of(path, &size);
    if (input->streams) {
        input_prepare_stdin(input);
    } else {
        (void)posix_fadvise(input->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    }
    if (!input_look_ahead(input)) {
        return input_failed(input);
    }
    input->offset = 0;
    input->end = UINT64_MAX;
    input->cut = input->skipped = false;
    const enum unpack_format format =
        input->raw ? UNPACK_PLAIN : unpack_recognise(input->ahead, input->ahead_used);
    const char *why =
        input->raw ? NULL : unpack_why_not(input->ahead, input->ahead_used);
    if (format == UNPACK_PLAIN && why) {
        return say_data("%s: cannot be read as text: %s; to read the bytes unchanged, "
                        "use --raw",
                        input_name(input), why);
    }
    if (format != UNPACK_PLAIN) {
        input->skipped = input->at % input->part.n != input->part.i;
        input->unpacker = unpacker_new(format);
        return input->unpacker ? CLI_OK : say_full("out of memory");
    }
    if (input->part.n > 1) {
        return input->streams ? say_refused("%s: a pipe cannot be divided into parts; "
                                            "use regular files",
                                            input_name(input))
                              : input_take_part(input, size);
    }
    return CLI_OK;
}

/* Reads more compressed bytes if all earlier bytes have been consumed. Returns false on error. */
static bool input_get_packed(struct input *input)
{
    if (input->ahead_at < input->ahead_used) {
        return true;
    }
    const ssize_t got = input_get(input, input->ahead, INPUT_AHEAD);
    input->ahead_used = got > 0 ? (size_t)got : 0;
    input->ahead_at = 0;
    return got >= 0;
}

/* Decompresses until there is output or the compressed data ends. */
static enum input_state input_unpack(struct input *input, char *to, size_t room,
                                     size_t *n, int *code)
{
    for (*n = 0; *n == 0;) {
        if (!input_get_packed(input)) {
            *code = input_failed(input);
            return INPUT_FAILED;
        }
        const bool ends = input->ahead_used == 0;
        if (ends && unpacker_is_whole(input->unpacker)) {
            return INPUT_FILE_END;
        }
        struct unpack_step step = { .from = input->ahead + input->ahead_at,
                                    .n = input->ahead_used - input->ahead_at,
                                    .to = to,
                                    .room = room };
        const bool good = unpacker_run(input->unpacker, &step);
        input->ahead_at += step.used;
        *n = step.made;
        if (good && ends && *n == 0 && unpacker_is_whole(input->unpacker)) {
            return INPUT_FILE_END;
        }
        if (!good || (ends && *n == 0)) {
            *code = say_data("%s: cannot be decompressed: %s", input_name(input),
                             good ? "it is truncated" : step.why);
            return INPUT_FAILED;
        }
    }
    return INPUT_BYTES;
}

/* Refuses archives and files that are compressed twice, after their first bytes have been
 * decompressed. */
static enum input_state input_unpack_text(struct input *input, char *to, size_t room,
                                          size_t *n, int *code)
{
    const enum input_state state = input_unpack(input, to, room, n, code);
    const bool first = state == INPUT_BYTES && input->offset == 0;
    const char *why = !first ? NULL
                      : unpack_recognise(to, *n) != UNPACK_PLAIN
                          ? "it is compressed twice; decompress it first"
                          : unpack_why_no_text(to, *n);
    if (!why) {
        return state;
    }
    *code = say_data("%s: cannot be read as text after decompression: %s",
                     input_name(input), why);
    return INPUT_FAILED;
}

static enum input_state input_plain(struct input *input, char *to, size_t room,
                                    size_t *n, int *code)
{
    if (input->ahead_at < input->ahead_used) {
        *n = input->ahead_used - input->ahead_at;
        *n = *n < room ? *n : room;
        memcpy(to, input->ahead + input->ahead_at, *n);
        input->ahead_at += *n;
    } else {
        const ssize_t got = input_get(input, to, room);
        if (got < 0) {
            *code = input_failed(input);
            return INPUT_FAILED;
        }
        *n = (size_t)got;
    }
    return *n ? INPUT_BYTES : INPUT_FILE_END;
}

enum input_state input_read(struct input *input, char *to, size_t room, size_t *n,
                            int *code)
{
    *n = 0;
    *code = CLI_OK;
    if (input->at == input->count) {
        return INPUT_END;
    }
    if (input->fd < 0) {
        *code = input_open(input);
        if (*code) {
            return INPUT_FAILED;
        }
    }
    const enum input_state state = input->skipped ? INPUT_FILE_END
                                   : input->unpacker
                                       ? input_unpack_text(input, to, room, n, code)
                                       : input_plain(input, to, room, n, code);
    input->offset += *n;
    if (state == INPUT_FILE_END) {
        input_next(input);
    }
    return state;
}

bool input_is_ready(const struct input *input)
{
    struct pollfd ask = { .fd = input->fd, .events = POLLIN };
    return input->fd < 0 || !input->streams || input->ahead_at < input->ahead_used
           || poll(&ask, 1, 0) > 0;
}

int input_go_to(struct input *input, size_t at, uint64_t offset)
{
    input_close(input);
    input->at = at;
    if (at >= input->count || offset == 0) {
        return CLI_OK; /* reading starts at the beginning of the file or part */
    }
    const int code = input_open(input);
    input->cut = false;
    return code ? code : input_seek(input, offset);
}
