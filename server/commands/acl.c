/*
 * commands/acl.c - ACL: lists users, and the commands in each category. Users are changed in the
 * settings file (users.h), so there is no SETUSER. Passwords and their hashes are never sent.
 */
#include "config/users.h"
#include "core/server.h"
#include "request/cmd.h"

#include <strings.h>

static void acl_whoami(struct request *request)
{
    reply_text(&request->reply, user_name(session_of(request)->client->user));
}

/* ---- All users ----------------------------------------------------------------------------- */

struct acl_lines {
    struct cmd_list list;
    bool names; /* list only the names */
};

static void acl_add_word(struct buffer *line, const char *word)
{
    if (*word == '>' || *word == '$') {
        buffer_text(line, *word == '>' ? " >(hidden)" : " $(hidden)");
    } else {
        buffer_text(line, " ");
        buffer_text(line, word);
    }
}

static void acl_visit(void *context, const struct user *user, const char *const *words,
                      size_t n)
{
    (void)user;
    struct acl_lines *lines = context;
    struct buffer line;
    buffer_init(&line, 1 << 20);
    if (lines->names) {
        buffer_text(&line, words[0]);
    } else {
        buffer_text(&line, "user ");
        buffer_text(&line, words[0]);
        for (size_t i = 1; i < n; i++) {
            acl_add_word(&line, words[i]);
        }
    }
    cmd_list_add(&lines->list, line.data, buffer_waiting(&line));
    buffer_free(&line);
}

static void acl_tell(struct request *request, bool names)
{
    const struct session *session = session_of(request);
    struct acl_lines lines = { .names = names };
    buffer_init(&lines.list.text, session->from->client_output_buffer_limit);
    users_each(session->server->users, acl_visit, &lines);
    cmd_list_send(request, &lines.list,
                  "ERR out of memory, or the reply exceeds client-output-buffer-limit");
}

static void acl_list(struct request *request)
{
    acl_tell(request, false);
}

static void acl_users(struct request *request)
{
    acl_tell(request, true);
}

/* ---- Categories ---------------------------------------------------------------------------- */

static void acl_tell_categories(const struct reply *reply)
{
    size_t n = 0;
    while (command_category_name(n)) {
        n++;
    }
    reply_array(reply, n - 1); /* excludes "all" */
    for (size_t i = 1; i < n; i++) {
        reply_text(reply, command_category_name(i));
    }
}

static void acl_tell_commands(const struct reply *reply,
                              const struct command_table *table, size_t category)
{
    char name[CMD_NAME];
    size_t n = 0;
    for (size_t i = 0; i < command_count(table); i++) {
        n += command_in_category(command_at(table, i), category);
    }
    reply_array(reply, n);
    for (size_t i = 0; i < command_count(table); i++) {
        if (command_in_category(command_at(table, i), category)) {
            reply_text(reply, cmd_lower(command_at(table, i)->name, name));
        }
    }
}

static void acl_cat(struct request *request)
{
    const struct command_table *table = session_of(request)->server->commands;
    if (request->argc == 2) {
        acl_tell_categories(&request->reply);
        return;
    }
    if (request->argc > 3) {
        reply_error(&request->reply,
                    "ERR unknown subcommand or wrong number of arguments "
                    "for 'CAT'. Try ACL HELP.");
        return;
    }
    const bg_bytes wanted = request->argv[2];
    for (size_t i = 0; command_category_name(i); i++) {
        const char *name = command_category_name(i);
        if (wanted.len == strlen(name)
            && strncasecmp(wanted.data, name, wanted.len) == 0) {
            acl_tell_commands(&request->reply, table, i);
            return;
        }
    }
    char text[64];
    reply_errorf(&request->reply, "ERR Unknown category '%s'", args_show(wanted, text));
}

#define ACL_FLAGS (COMMAND_LOADING | COMMAND_STALE | COMMAND_SUB)

const struct command acl_commands[] = {
    { "ACL", -2, COMMAND_CONTAINER | COMMAND_LOADING | COMMAND_STALE, 0, 0, 0, 0,
      cmd_container, NULL, "", "Container for ACL commands", "Depends on subcommand",
      "0.1.0", BEHAVIOR_SERVICE },
    { "ACL|WHOAMI", 2, ACL_FLAGS, 0, 0, 0, 0, acl_whoami, NULL, "",
      "Returns the name of the current user", "O(1)", "0.1.0", BEHAVIOR_SERVICE },
    { "ACL|CAT", -2, ACL_FLAGS, 0, 0, 0, 0, acl_cat, NULL, "[category]",
      "Lists the categories, or the commands in one category", "O(1)", "0.1.0",
      BEHAVIOR_SERVICE },
    { "ACL|LIST", 2, ACL_FLAGS | COMMAND_ADMIN, 0, 0, 0, 0, acl_list, NULL, "",
      "Lists the rules of all users, without passwords",
      "O(N) where N is the number of users", "0.1.0", BEHAVIOR_SERVICE },
    { "ACL|USERS", 2, ACL_FLAGS | COMMAND_ADMIN, 0, 0, 0, 0, acl_users, NULL, "",
      "Lists the names of all users", "O(N) where N is the number of users", "0.1.0",
      BEHAVIOR_SERVICE },
    CMD_HELP("ACL"),
    CMD_END,
};
