/*
 * redis_syntax.c - see redis_syntax.h. This is a recursive-descent parser. The arguments of a list
 * are collected on the stack, and copied to the node array after all of their sub-arguments have
 * been copied.
 */
#include "redis_syntax.h"

#include "letters.h"

#include <string.h>

enum { SYNTAX_WIDTH = 32, SYNTAX_DEPTH = 4 };

struct reader {
    struct redis_syntax *to;
    const char *at;
    size_t depth;
};

typedef struct redis_command_argument node;

static bool reader_list(struct reader *r, const char *ends, node **list, size_t *n);

static void reader_skip(struct reader *r)
{
    r->at += strspn(r->at, " ");
}

static bool reader_is_upper(const char *word, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (word[i] >= 'a' && word[i] <= 'z') {
            return false;
        }
    }
    return n > 0;
}

/* Copies n characters, in lowercase if `small` is set. Returns NULL if there is no space. */
static const char *reader_text(struct reader *r, const char *word, size_t n, bool small)
{
    struct redis_syntax *to = r->to;
    if (n + 1 > SYNTAX_TEXT - to->used_text) {
        return NULL;
    }
    char *copy = to->text + to->used_text;
    for (size_t i = 0; i < n; i++) {
        copy[i] = (char)(small ? letter_lower(word[i]) : word[i]);
    }
    copy[n] = 0;
    to->used_text += n + 1;
    return copy;
}

/* Returns the length of the next word, or 0 if there is none. */
static size_t reader_word(const struct reader *r)
{
    return strcspn(r->at, " []<>|");
}

static enum redis_argument_type reader_type(const char *name)
{
    static const char *const whole[] = { "capacity",   "items",         "bytes",
                                         "k",          "folds",         "width",
                                         "shards",     "seed",          "times",
                                         "count",      "milliseconds",  "expansion",
                                         "bucketsize", "maxiterations", "iterator" };
    static const char *const real[] = { "error_rate", "error",         "rate",
                                        "ratio",      "bits_per_item", "factor",
                                        "queries",    "cost",          "seconds" };
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
        if (strcmp(name, whole[i]) == 0) {
            return REDIS_ARGUMENT_INTEGER;
        }
    }
    for (size_t i = 0; i < sizeof real / sizeof *real; i++) {
        if (strcmp(name, real[i]) == 0) {
            return REDIS_ARGUMENT_DOUBLE;
        }
    }
    return REDIS_ARGUMENT_STRING;
}

/* Parses a word: a value, a token, or a token and its value. */
static bool reader_name(struct reader *r, node *one)
{
    size_t n = reader_word(r);
    *one = (node){ .key_spec_index = -1 };
    if (reader_is_upper(r->at, n)) {
        one->token = reader_text(r, r->at, n, false);
        one->name = reader_text(r, r->at, n, true);
        one->type = REDIS_ARGUMENT_TOKEN;
        r->at += n;
        reader_skip(r);
        n = reader_word(r);
        if (n == 0 || reader_is_upper(r->at, n)) {
            return one->token && one->name;
        }
    }
    one->name = reader_text(r, r->at, n, false);
    one->type = one->name ? reader_type(one->name) : REDIS_ARGUMENT_STRING;
    r->at += n;
    return n > 0 && one->name;
}

/* Copies a list to the node array. */
static bool reader_keep(struct reader *r, const node *list, size_t n, node **kept)
{
    struct redis_syntax *to = r->to;
    if (n + 1 > SYNTAX_NODES - to->used_nodes) {
        return false;
    }
    *kept = to->nodes + to->used_nodes;
    memcpy(*kept, list, n * sizeof *list);
    memset(*kept + n, 0, sizeof **kept);
    to->used_nodes += n + 1;
    return true;
}

/* Combines the arguments of a list into one argument. A single argument is used as it is; several
 * arguments become a block. */
static bool reader_block(node *list, size_t n, node *one)
{
    if (n == 1) {
        *one = list[0];
        return true;
    }
    *one = (node){ .name = list[0].name,
                   .type = REDIS_ARGUMENT_BLOCK,
                   .key_spec_index = -1,
                   .subargs = list };
    return n > 0;
}

/* Parses the text after an opening bracket, up to the closing bracket `end`. */
static bool reader_choice(struct reader *r, char end, node *one)
{
    const char ends[] = { '|', end, 0 };
    node choices[SYNTAX_WIDTH], *list = NULL;
    size_t n = 0, length = 0;
    do {
        if (n == SYNTAX_WIDTH || !reader_list(r, ends, &list, &length)
            || !reader_block(list, length, &choices[n])) {
            return false;
        }
        n++;
    } while (*r->at++ == '|');
    if (n == 1) {
        *one = choices[0];
        return true;
    }
    *one =
        (node){ .name = "choice", .type = REDIS_ARGUMENT_ONE_OF, .key_spec_index = -1 };
    return reader_keep(r, choices, n, &one->subargs);
}

/* Parses "[item ...]" after an item. The opening bracket has already been consumed. */
static bool reader_repeats(struct reader *r)
{
    const char *end =
        r->at + strcspn(r->at, "[]"); /* nested brackets are not allowed */
    if (*end != ']' || end - r->at < 4 || strncmp(end - 3, "...", 3) != 0) {
        return false;
    }
    r->at = end + 1;
    return true;
}

/* Parses a list up to one of the characters in `ends`, which is not consumed. */
static bool reader_list(struct reader *r, const char *ends, node **list, size_t *n)
{
    node found[SYNTAX_WIDTH];
    *n = 0;
    if (r->depth++ == SYNTAX_DEPTH) {
        return false;
    }
    for (reader_skip(r); *r->at && !strchr(ends, *r->at); reader_skip(r)) {
        const bool optional = *r->at == '[', choice = *r->at == '<';
        bool good = *n < SYNTAX_WIDTH;
        r->at += optional || choice;
        if (optional && *n > 0 && reader_repeats(r)) {
            found[*n - 1].flags |= REDIS_ARGUMENT_MULTIPLE;
            continue;
        }
        if (good) {
            good = optional || choice
                       ? reader_choice(r, optional ? ']' : '>', &found[*n])
                       : reader_name(r, &found[*n]);
        }
        if (!good) {
            return false;
        }
        found[*n].flags |= optional ? REDIS_ARGUMENT_OPTIONAL : 0;
        ++*n;
    }
    r->depth--;
    return reader_keep(r, found, *n, list);
}

bool redis_syntax_read(const struct command *command, struct redis_syntax *syntax)
{
    struct reader r = { .to = syntax, .at = command->syntax };
    size_t n = 0;
    syntax->used_nodes = syntax->used_text = 0;
    if (!reader_list(&r, "", &syntax->arguments, &n)) {
        return false;
    }
    for (size_t i = 0; command->first_key && i < n; i++) { /* keys come first */
        if (i == 0 || command->last_key < 0 || (int)i < command->last_key) {
            syntax->arguments[i].type = REDIS_ARGUMENT_KEY;
            syntax->arguments[i].key_spec_index = i > 0 && command->last_key < 0;
        }
    }
    return true;
}
