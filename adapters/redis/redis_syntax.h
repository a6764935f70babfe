/*
 * redis_syntax.h - the syntax of a command, "key item [item ...]", as COMMAND DOCS wants it: a tree.
 *
 *     word            a value of that name
 *     WORD            a word to be said; before a value, its token
 *     [ ... ]         may be left out
 *     < a | b >       one of these; so in [ a | b ], too
 *     x [x ...]       one or more
 */
#ifndef REDIS_SYNTAX_H
#define REDIS_SYNTAX_H

#include "command_table.h"
#include "redis_api.h"

enum { SYNTAX_NODES = 128, SYNTAX_TEXT = 1024 };

/* The arguments, ended by one without a name, and room for what they point to. */
struct redis_syntax {
    struct redis_command_argument *arguments;
    struct redis_command_argument nodes[SYNTAX_NODES];
    char text[SYNTAX_TEXT];
    size_t used_nodes, used_text;
};

/* False: it is longer than there is room for, or not such a text. */
bool redis_syntax_read(const struct command *command, struct redis_syntax *syntax);

#endif
