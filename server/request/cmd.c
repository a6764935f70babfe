/* cmd.c - see cmd.h. */
#include "request/cmd.h"

#include "core/server.h"
#include "letters.h"

#include <stdio.h>
#include <string.h>

bool cmd_integer(bg_bytes argument, int64_t *value)
{
    const char *digits = argument.data;
    const bool minus = argument.len > 1 && digits[0] == '-';
    const bg_bytes rest = { digits + minus, argument.len - minus };
    uint64_t n = 0;
    if (rest.len == 0 || !args_count(rest, &n)
        || (digits[minus] == '0' && (rest.len > 1 || minus))) {
        return false;
    }
    if (n > (uint64_t)INT64_MAX + minus) {
        return false;
    }
    *value = minus ? (int64_t)(0 - n) : (int64_t)n;
    return true;
}

bool cmd_not_integer(struct request *request)
{
    return reply_error(&request->reply, "ERR value is not an integer or out of range");
}

bool cmd_syntax(struct request *request)
{
    return reply_error(&request->reply, "ERR syntax error");
}

const char *cmd_lower(const char *name, char text[CMD_NAME])
{
    letters_lower(text, CMD_NAME, name, strlen(name));
    return text;
}

void cmd_list_add(struct cmd_list *list, const void *bytes, size_t n)
{
    buffer_put(&list->text, &n, sizeof n);
    buffer_put(&list->text, bytes, n);
    list->count++;
}

void cmd_list_send(struct request *request, struct cmd_list *list, const char *error)
{
    if (list->text.overflow) {
        reply_error(&request->reply, error);
    } else {
        reply_array(&request->reply, list->count);
        for (size_t at = list->text.begin; at < list->text.used;) {
            size_t n = 0;
            memcpy(&n, list->text.data + at, sizeof n);
            at += sizeof n;
            reply_bulk(&request->reply, list->text.data + at, n);
            at += n;
        }
    }
    buffer_free(&list->text);
}

void cmd_container(struct request *request)
{
    /* Called only if the subcommand is missing, because the session runs subcommands itself. */
    cmd_arity(request);
}

void cmd_help(struct request *request)
{
    const struct command_table *table = session_of(request)->server->commands;
    const struct reply *reply = &request->reply;
    const struct command *container = command_find(table, request->argv[0]),
                         *sub = NULL;
    const size_t n = strlen(container->name) + 1;
    size_t i = 0, lines = 1;
    char text[512];
    while (command_next_sub(table, container, &i)) {
        lines += 2;
    }
    reply_array(reply, lines);
    (void)snprintf(
        text, sizeof text,
        "%s <subcommand> [<arg> [value] [opt] ...]. Subcommands are:", container->name);
    reply_status(reply, text);
    for (i = 0; (sub = command_next_sub(table, container, &i)) != NULL;) {
        (void)snprintf(text, sizeof text, "%s%s%s", sub->name + n,
                       *sub->syntax ? " " : "", sub->syntax);
        reply_status(reply, text);
        (void)snprintf(text, sizeof text, "    %s.", sub->summary);
        reply_status(reply, text);
    }
}
