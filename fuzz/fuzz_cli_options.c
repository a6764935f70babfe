/*
 * fuzz_cli_options.c - command lines: parses arbitrary words as arguments of any subcommand,
 * without running the subcommand. Also tests the number parsers.
 *
 * Input: one byte chooses the subcommand; the rest are words, separated by newlines. If the
 * first byte of a word is 0x80 or above, it selects one of the subcommand's options (0x80 selects
 * the first); the rest of the word is appended to the option's name.
 */
#define _POSIX_C_SOURCE 200809L /* open_memstream */

#include "fuzz.h"
#include "fuzz_input.h"
#include "support/streams.h"

#include "command.h"
#include "number.h"
#include "say.h"

#include <math.h>

enum { WORDS = 24, WORD_BYTES = 200 };

struct line {
    char text[WORDS][WORD_BYTES];
    char *words[WORDS];
    size_t count;
};

/* Writes the name of an option as typed (--NAME), or "" if no option has that index. */
static void option_name(const struct option_use *uses, unsigned number, char *to)
{
    *to = 0;
    for (; uses->group; uses++) {
        for (const struct option *o = uses->group->options; o->name; o++) {
            if (number-- == 0) {
                (void)snprintf(to, WORD_BYTES, "--%s", o->name);
                return;
            }
        }
    }
}

static void take_word(const struct option_use *uses, const char *from, size_t n,
                      char *to)
{
    size_t used = 0;
    *to = 0;
    if (n && (unsigned char)*from >= 0x80) {
        option_name(uses, (unsigned char)*from - 0x80u, to);
        used = strlen(to);
        from++;
        n--;
    }
    n = n < WORD_BYTES - 1 - used ? n : WORD_BYTES - 1 - used;
    memcpy(to + used, from, n);
    to[used + n] = 0; /* words end at a NUL, as on a command line */
}

static void take_line(const struct option_use *uses, struct fuzz_input *in,
                      struct line *line)
{
    const char *at = (const char *)in->data, *end = at + in->left;
    line->count = 0;
    while (at < end && line->count < WORDS) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        stop = stop ? stop : end;
        take_word(uses, at, (size_t)(stop - at), line->text[line->count]);
        line->words[line->count] = line->text[line->count];
        line->count++;
        at = stop + (stop < end);
    }
}

/* Checks that a field has a value that its option allows. */
static void check_value(const struct option *o, const char *field)
{
    uint64_t bits;
    double real;
    int choice;
    switch (o->type) {
    case OPTION_CHOICE:
        memcpy(&choice, field, sizeof choice);
        FUZZ_MUST(choice >= 0);
        for (int i = 0; i < choice; i++) {
            FUZZ_MUST(o->choices[i]);
        }
        FUZZ_MUST(o->choices[choice]);
        return;
    case OPTION_RATE:
    case OPTION_REAL:
    case OPTION_SECONDS:
        memcpy(&real, field, sizeof real);
        FUZZ_MUST(isfinite(real) && real >= 0 && (o->type != OPTION_RATE || real < 1));
        return;
    case OPTION_LIST:
        FUZZ_MUST(((const struct option_list *)(const void *)field)->count
                  <= OPTION_LIST_MAX);
        return;
    case OPTION_FLAG: FUZZ_MUST(*field == 0 || *field == 1); return;
    case OPTION_TEXT:
    case OPTION_COUNT:
    case OPTION_BYTES: memcpy(&bits, field, sizeof bits); return;
    }
}

static void check_line(const struct command *command, const struct option_use *uses,
                       struct line *line)
{
    struct arguments left = { NULL, 0 };
    struct stream_capture said;
    char *options = calloc(1, command->size);
    FUZZ_MUST(options);
    stream_begin(&said, &stderr);
    const bool good = option_read(uses, options, line->words, line->count, &left);
    (void)stream_end(&said);
    FUZZ_MUST(good == (said.n == 0)); /* messages are printed only on error */
    FUZZ_MUST(good || strstr(said.text, "--help'.\n"));
    if (good) {
        FUZZ_MUST(left.count <= line->count && left.items == line->words);
        for (; uses->group; uses++) {
            for (const struct option *o = uses->group->options; o->name; o++) {
                check_value(o, options + uses->at + o->at);
            }
        }
    }
    free(said.text);
    free(options);
}

/* An accepted number is within its limits, and plain digits are read as their decimal value. */
static void check_numbers(const char *text)
{
    uint64_t count;
    double real;
    if (number_count(text, &count) && strspn(text, "0123456789") == strlen(text)) {
        FUZZ_MUST(count == strtoull(text, NULL, 10));
    }
    FUZZ_MUST(!number_rate(text, &real) || (real > 0 && real < 1));
    FUZZ_MUST(!number_real(text, &real) || (isfinite(real) && real >= 0));
    FUZZ_MUST(!number_seconds(text, &real) || (isfinite(real) && real >= 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct line line;
    struct option_use uses[COMMAND_USES + 2];
    struct fuzz_input in = { data, size };
    size_t n;
    const struct command *const *all = command_all(&n);
    const struct command *command = all[fuzz_byte(&in) % n];
    command_options(command, uses);
    say_begin(command->name, false, SAY_NEVER);
    take_line(uses, &in, &line);
    for (size_t i = 0; i < line.count; i++) {
        check_numbers(line.words[i]);
    }
    check_line(command, uses, &line);
    return 0;
}
