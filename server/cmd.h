/*
 * cmd.h - what the commands of the service have in common: those that are not about filters but
 * about connections, names and the service itself (cmd_*.c, multi.c, slowlog.c).
 *
 * They answer as Redis 7.2 does, in shape and words, as far as clients look at it.
 */
#ifndef SERVER_CMD_H
#define SERVER_CMD_H

#include "args.h"
#include "resp_reply.h"
#include "session.h"

extern const struct command connection_commands[], client_commands[],
    keyspace_commands[], scan_commands[], admin_commands[], acl_commands[],
    config_commands[], info_commands[], command_commands[];

/* What this answers to who asks for the version of Redis, and of its module of filters. */
#define CMD_REDIS_VERSION "7.2.0"
enum { CMD_MODULE_VERSION = 20612 };

/* A whole number, as Redis reads it: no blanks, no +, no zeros in front. */
bool cmd_integer(bg_bytes argument, int64_t *value);

/* Errors in the words that clients know. */
void cmd_not_integer(
    struct request *request);             /* "ERR value is not an integer or ..." */
void cmd_syntax(struct request *request); /* "ERR syntax error" */
static inline void cmd_arity(struct request *request)
{
    args_arity(request);
}

/* Lower case, cut to fit: "client|list". Returns `text`. */
enum { CMD_NAME = 64 };
const char *cmd_lower(const char *name, char text[CMD_NAME]);

/* What TYPE says of an object. */
const char *cmd_type_name(const struct object *object);

/* A short text that a client gives: printable, without blanks. False: it is not, and that was
 * sent. */
bool cmd_set_text(struct request *request, bg_bytes value, const char *what, char *text,
                  size_t room);

/* The list of modules, as in MODULE LIST: the one whose commands are built in. */
void cmd_tell_modules(const struct reply *reply);

/* The handler of a command that has subcommands; and of HELP, which tells them. */
void cmd_container(struct request *request);
void cmd_help(struct request *request);

#define CMD_HELP(container)                                                            \
    {                                                                                  \
        container "|HELP", 2, COMMAND_LOADING | COMMAND_STALE | COMMAND_SUB, 0, 0, 0,  \
            0, cmd_help, NULL, "", "Tells the subcommands", "O(1)", "0.1.0"            \
    }

/* The last row of an array. */
#define CMD_END                                                                        \
    {                                                                                  \
        NULL, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL                     \
    }

#endif
