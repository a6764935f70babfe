/*
 * cmd.h - declarations shared by the commands for connections, names and the service itself
 * (cmd_*.c, multi.c, slowlog.c).
 *
 * Their replies match those of Redis 7.2 in structure and wording wherever clients depend on them.
 */
#ifndef SERVER_REQUEST_CMD_H
#define SERVER_REQUEST_CMD_H

#include "args.h"
#include "request/session.h"
#include "resp/resp.h"

extern const struct command connection_commands[], client_commands[],
    keyspace_commands[], scan_commands[], admin_commands[], acl_commands[],
    config_commands[], info_commands[], command_commands[];

/* The versions of Redis and of its filter module that the service reports. */
#define CMD_REDIS_VERSION "7.2.0"
enum { CMD_MODULE_VERSION = 20612 };

/* Parses an integer as Redis does: it must not contain spaces, a plus sign or leading zeros. */
bool cmd_integer(bg_bytes argument, int64_t *value);

/* Send errors with the texts that Redis clients expect, and return false. */
bool cmd_not_integer(
    struct request *request);             /* "ERR value is not an integer or ..." */
bool cmd_syntax(struct request *request); /* "ERR syntax error" */
static inline void cmd_arity(struct request *request)
{
    args_arity(request);
}

/* Converts a command name such as "client|list" to lowercase, and truncates it if necessary.
 * Returns `text`. */
enum { CMD_NAME = 64 };
const char *cmd_lower(const char *name, char text[CMD_NAME]);

/* Returns the TYPE reply for an object. */
const char *cmd_type_name(const struct object *object);

/* Copies a short string from a client if it is printable and contains no spaces. Otherwise sends an
 * error and returns false. */
bool cmd_set_text(struct request *request, bg_bytes value, const char *what, char *text,
                  size_t room);

/* Write an entry of a map: a name and its value. */
static inline void cmd_tell_text(const struct reply *reply, const char *name,
                                 const char *value)
{
    reply_text(reply, name);
    reply_text(reply, value);
}

static inline void cmd_tell_integer(const struct reply *reply, const char *name,
                                    int64_t value)
{
    reply_text(reply, name);
    reply_integer(reply, value);
}

/* Strings that are collected for a reply, because their number must be sent first. */
struct cmd_list {
    struct buffer text; /* each string follows its length */
    size_t count;
};
void cmd_list_add(struct cmd_list *list, const void *bytes, size_t n);

/* Sends the strings as an array, or the error if they did not fit, and frees them. */
void cmd_list_send(struct request *request, struct cmd_list *list, const char *error);

/* Sends the list of modules, as MODULE LIST does. The list contains one entry: the module whose
 * commands are built in. */
void cmd_tell_modules(const struct reply *reply);

/* Handlers for a command that has subcommands, and for its HELP subcommand, which lists them. */
void cmd_container(struct request *request);
void cmd_help(struct request *request);

#define CMD_HELP(container)                                                            \
    {                                                                                  \
        container "|HELP", 2, COMMAND_LOADING | COMMAND_STALE | COMMAND_SUB, 0, 0, 0,  \
            0, cmd_help, NULL, "", "Lists the subcommands", "O(1)", "0.1.0",           \
            BEHAVIOR_SERVICE                                                           \
    }

/* The last row of an array of commands. */
#define CMD_END                                                                        \
    {                                                                                  \
        .name = NULL                                                                   \
    }

#endif
