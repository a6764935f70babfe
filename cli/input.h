/*
 * input.h - files, pipes and stdin as one stream of bytes; gzip and zstd are unpacked, which
 * is told by their first bytes. Where one file ends and the next begins stays visible: a last
 * line without a newline ends with its file.
 */
#ifndef CLI_INPUT_H
#define CLI_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Which part of the input is wanted: part i of n, by bytes (or by files, if they are packed
 * or cannot be read from the middle). All: 0 of 1. */
struct input_part {
    uint64_t i, n;
};

struct unpacker;

struct input {
    char **paths; /* "-": stdin */
    size_t count;
    bool raw; /* do not unpack */
    struct input_part part;

    size_t at;       /* which path is open, or is next */
    int fd;          /* -1: none */
    bool streams;    /* what is open cannot be asked for more than it has: a pipe */
    uint64_t offset; /* of the next byte in what is open, unpacked */
    uint64_t end;    /* lines that begin there or later belong to the next part */
    bool cut; /* it begins in the middle: what comes before the next line is not ours */
    bool skipped;              /* packed, and of another part */
    struct unpacker *unpacker; /* or NULL: plain */
    char *ahead; /* the first bytes, read to see what it is; then packed bytes */
    size_t ahead_used, ahead_at;
    uint64_t done, size; /* bytes read of the files; of all files, 0: unknown */
};

/* Begins with the first file. No paths: stdin. Nothing is opened yet. `size` is found out.
 * Returns an exit code. */
int input_begin(struct input *input, char **paths, size_t count, bool raw,
                struct input_part part);
void input_end(struct input *input);

/* Returns whether two paths are equal or lead to the same regular file. */
bool input_is_same_file(const char *a, const char *b);

/* Returns whether `path` leads to one of the input files, so that writing to it would destroy input. */
bool input_reads(const struct input *input, const char *path);

/* Whether all files are plain ones of known size, so that they can be read twice and from the
 * middle. */
bool input_is_plain(const struct input *input);

/* What input_read came to. */
enum input_state {
    INPUT_BYTES,    /* some */
    INPUT_FILE_END, /* none: here a file ends; the next call goes on with the next one */
    INPUT_END,      /* none: the last file has ended */
    INPUT_FAILED    /* it was said; *code */
};

/* Reads up to `room` bytes, as many as come in one go. */
enum input_state input_read(struct input *input, char *to, size_t room, size_t *n,
                            int *code);

/* Whether there is something to read without waiting for it, as far as that can be told. */
bool input_is_ready(const struct input *input);

/* Goes on at a byte of a file, as told by `at` and `offset` before: of plain files only. */
int input_go_to(struct input *input, size_t at, uint64_t offset);

/* Leaves the rest of the file that is open. */
void input_next(struct input *input);

/* The name of what is being read, for people. */
const char *input_name(const struct input *input);

#endif
