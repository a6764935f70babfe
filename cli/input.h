/*
 * input.h - presents files, pipes and stdin as one stream of bytes. Data compressed with gzip,
 * zstd, xz, bzip2 or lz4 is detected by its first bytes and decompressed. The boundaries between
 * files are preserved: if the last line of a file has no newline, it ends at the end of the file.
 */
#ifndef CLI_INPUT_H
#define CLI_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The part of the input to read: part i of n. Each uncompressed file is split into n ranges of
 * bytes; each compressed file belongs completely to one part. The whole input is part 0 of 1. */
struct input_part {
    uint64_t i, n;
};

struct unpacker;

struct input {
    char **paths; /* "-": stdin */
    size_t count;
    bool raw; /* do not decompress */
    struct input_part part;

    size_t at;       /* index of the path that is open or will be opened next */
    int fd;          /* -1 if no file is open */
    bool streams;    /* the file is a pipe, so reading may block */
    uint64_t offset; /* offset of the next byte in the decompressed file */
    uint64_t end; /* lines that start at this offset or later belong to the next part */
    bool cut;     /* the bytes up to the first separator belong to the previous part */
    bool skipped; /* the file is compressed and belongs to another part */
    struct unpacker *unpacker; /* NULL if not compressed */
    char *ahead; /* bytes read to detect the format; later, compressed bytes */
    size_t ahead_used, ahead_at;
    uint64_t done, size; /* bytes read so far; expected total, or 0 if unknown */
};

/* Records that stdin is used, which is possible only once. Reports a second use. Returns an exit
 * code. */
int input_take_stdin(void);

/* Prepares to read the first file, or stdin if there are no paths. Determines `size`, but does not
 * open the files yet. Returns an exit code. */
int input_begin(struct input *input, char **paths, size_t count, bool raw,
                struct input_part part);
void input_end(struct input *input);

/* Returns whether two paths are equal or refer to the same regular file. */
bool input_is_same_file(const char *a, const char *b);

/* Reads the first bytes of a regular file. Returns their number, or 0 on error. */
size_t input_peek(const char *path, char *to, size_t room);

/* Returns whether `path` is one of the input files, so that writing to it would destroy input. */
bool input_reads(const struct input *input, const char *path);

/* Returns whether all files are regular, uncompressed, and of known size. Such files can be read
 * more than once, and from any position. */
bool input_is_plain(const struct input *input);

/* Result of input_read. */
enum input_state {
    INPUT_BYTES,    /* data was read */
    INPUT_FILE_END, /* a file ended; the next call continues with the next file */
    INPUT_END,      /* the last file ended */
    INPUT_FAILED    /* the error was reported; the exit code is in *code */
};

/* Reads up to `room` bytes; from a pipe, waits for data and reads only the available bytes. */
enum input_state input_read(struct input *input, char *to, size_t room, size_t *n,
                            int *code);

/* Returns whether data can be read without waiting. Returns true if no file is open. */
bool input_is_ready(const struct input *input);

/* Continues at a position given by earlier values of `at` and `offset`. Regular files only. */
int input_go_to(struct input *input, size_t at, uint64_t offset);

/* Skips the rest of the open file. */
void input_next(struct input *input);

/* Returns the name of the open file, for messages. */
const char *input_name(const struct input *input);

#endif
