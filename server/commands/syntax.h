/*
 * syntax.h - parses the syntax line of a command into a tree of arguments for COMMAND DOCS. An
 * example of a syntax line:
 *
 *     key [EXPANSION expansion] [NX | XX] ITEMS item [item ...]
 *
 * Lowercase words are values. Uppercase words are literal tokens, which belong to the value or the <group> that follows
 * them. [ ] encloses optional arguments, and | separates alternatives. "item [item ...]" and "a b [a b ...]" mean that
 * the preceding arguments can be repeated.
 */
#ifndef SERVER_COMMANDS_SYNTAX_H
#define SERVER_COMMANDS_SYNTAX_H

#include <stdbool.h>
#include <stddef.h>

enum syntax_type {
    SYNTAX_STRING,
    SYNTAX_INTEGER,
    SYNTAX_DOUBLE,
    SYNTAX_PATTERN,
    SYNTAX_TIME,  /* seconds or milliseconds since 1970 */
    SYNTAX_TOKEN, /* a literal token without a value */
    SYNTAX_ONEOF,
    SYNTAX_BLOCK
};

enum { SYNTAX_NODES = 96, SYNTAX_NAME = 32, SYNTAX_DEPTH = 6 };

struct syntax_node {
    enum syntax_type type;
    char name[SYNTAX_NAME];  /* name in lowercase */
    char token[SYNTAX_NAME]; /* "" if there is none */
    bool optional, multiple;
    struct syntax_node *first, *next; /* child, sibling */
};

struct syntax {
    struct syntax_node *first; /* NULL: no arguments */
    struct syntax_node nodes[SYNTAX_NODES];
    size_t used;
};

/* Parses a line. Returns false if the line is malformed or too long. The tree contains pointers to itself, so it must
 * not be copied. */
bool syntax_parse(struct syntax *syntax, const char *line);

const char *syntax_type_name(enum syntax_type type); /* "pure-token" */

#endif
