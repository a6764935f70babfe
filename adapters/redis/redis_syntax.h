/*
 * redis_syntax.h - converts the syntax of a command, "key item [item ...]", to the tree that
 * COMMAND DOCS requires.
 *
 *     word            a value of that name
 *     WORD            a literal token; before a value, its token
 *     [ ... ]         optional
 *     < a | b >       one of these; [ a | b ] is the optional form
 *     x [x ...]       one or more
 */
#ifndef REDIS_SYNTAX_H
#define REDIS_SYNTAX_H

#include "command_table.h"
#include "redis_api.h"

enum { SYNTAX_NODES = 128, SYNTAX_TEXT = 1024 };

/* The arguments, terminated by an argument whose `name` is NULL, and the memory they point to. */
struct redis_syntax {
    struct redis_command_argument *arguments;
    struct redis_command_argument nodes[SYNTAX_NODES];
    char text[SYNTAX_TEXT];
    size_t used_nodes, used_text;
};

/* Parses the syntax of a command. Returns false if the syntax is invalid or does not fit into the
 * buffers. */
bool redis_syntax_read(const struct command *command, struct redis_syntax *syntax);

#endif
