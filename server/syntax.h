/*
 * syntax.h - the arguments of a command as a tree, from the line that describes them:
 *
 *     key [EXPANSION expansion] [NX | XX] ITEMS item [item ...]
 *
 * Words in small letters are values, those in capitals stand for themselves and belong to the
 * value or the <group> behind them; [ ] may be left out, | divides alternatives, and "item [item
 * ...]" or "a b [a b ...]" says that what comes before may be repeated. COMMAND DOCS is made of it.
 */
#ifndef SERVER_SYNTAX_H
#define SERVER_SYNTAX_H

#include <stdbool.h>
#include <stddef.h>

enum syntax_type {
    SYNTAX_STRING,
    SYNTAX_INTEGER,
    SYNTAX_DOUBLE,
    SYNTAX_PATTERN,
    SYNTAX_TIME,  /* seconds or milliseconds since 1970 */
    SYNTAX_TOKEN, /* a word that stands for itself, without a value */
    SYNTAX_ONEOF,
    SYNTAX_BLOCK
};

enum { SYNTAX_NODES = 96, SYNTAX_NAME = 32, SYNTAX_DEPTH = 6 };

struct syntax_node {
    enum syntax_type type;
    char name[SYNTAX_NAME];  /* in small letters */
    char token[SYNTAX_NAME]; /* "": none */
    bool optional, multiple;
    struct syntax_node *first, *next; /* child, sibling */
};

struct syntax {
    struct syntax_node *first; /* NULL: no arguments */
    struct syntax_node nodes[SYNTAX_NODES];
    size_t used;
};

/* False: the line is not of that form, or too long. The tree points into itself. */
bool syntax_parse(struct syntax *syntax, const char *line);

const char *syntax_type_name(enum syntax_type type); /* "pure-token" */

#endif
