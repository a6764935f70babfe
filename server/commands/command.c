/*
 * commands/command.c - COMMAND: describes the commands as Redis 7 does. Clients use the arity, flags,
 * key positions and arguments.
 */
#include "commands/syntax.h"
#include "core/server.h"
#include "pattern.h"
#include "request/cmd.h"

#include <strings.h>

static const struct command_table *command_table_of(const struct request *request)
{
    return session_of(request)->server->commands;
}

static bool command_is_module(const struct command *command)
{
    return (command->categories & (CATEGORY_BLOOM | CATEGORY_CUCKOO | CATEGORY_GATE))
           != 0;
}

/* Returns the index of the last key among `argc` arguments, or 0 if there are no keys. */
static size_t command_last_key(const struct command *command, size_t argc)
{
    if (command->first_key <= 0) {
        return 0;
    }
    return command->last_key < 0 ? argc - (size_t)-command->last_key
                                 : (size_t)command->last_key;
}

static size_t command_count_top(const struct command_table *table)
{
    size_t n = 0;
    for (size_t i = 0; i < command_count(table); i++) {
        n += !(command_at(table, i)->flags & COMMAND_SUB);
    }
    return n;
}

static size_t command_count_subs(const struct command_table *table,
                                 const struct command *command)
{
    size_t n = 0, i = 0;
    while (command->flags & COMMAND_CONTAINER && command_next_sub(table, command, &i)) {
        n++;
    }
    return n;
}

/* ---- COMMAND INFO ---------------------------------------------------------------------------- */

static const struct {
    uint32_t flag;
    const char *name;
} command_flags[] = {
    { COMMAND_WRITE, "write" },       { COMMAND_READONLY, "readonly" },
    { COMMAND_DENYOOM, "denyoom" },   { COMMAND_ADMIN, "admin" },
    { COMMAND_LOADING, "loading" },   { COMMAND_STALE, "stale" },
    { COMMAND_FAST, "fast" },         { COMMAND_NOAUTH, "no_auth" },
    { COMMAND_NOSCRIPT, "noscript" },
};

static void command_tell_flags(const struct reply *reply, const struct command *command)
{
    const size_t most = sizeof command_flags / sizeof *command_flags;
    const bool module = command_is_module(command);
    size_t n = module;
    for (size_t i = 0; i < most; i++) {
        n += (command->flags & command_flags[i].flag) != 0;
    }
    reply_set(reply, n);
    for (size_t i = 0; i < most; i++) {
        if (command->flags & command_flags[i].flag) {
            reply_status(reply, command_flags[i].name);
        }
    }
    if (module) {
        reply_status(reply, "module");
    }
}

static void command_tell_categories(const struct reply *reply,
                                    const struct command *command)
{
    size_t n = 0;
    char text[CMD_NAME + 1] = "@";
    for (size_t i = 1; command_category_name(i); i++) {
        n += command_in_category(command, i);
    }
    reply_set(reply, n);
    for (size_t i = 1; command_category_name(i); i++) {
        if (command_in_category(command, i)) {
            (void)cmd_lower(command_category_name(i), text + 1);
            reply_status(reply, text);
        }
    }
}

static void command_tell_key_flags(const struct reply *reply,
                                   const struct command *command)
{
    const bool writes = command->flags & COMMAND_WRITE;
    reply_set(reply, writes ? 3 : 2);
    reply_status(reply, writes ? "RW" : "RO");
    reply_status(reply, "access");
    if (writes) {
        reply_status(reply, "update");
    }
}

static void command_tell_key_spec(const struct reply *reply,
                                  const struct command *command)
{
    if (command->first_key <= 0) {
        reply_array(reply, 0);
        return;
    }
    reply_array(reply, 1);
    reply_map(reply, 3);
    reply_text(reply, "flags");
    command_tell_key_flags(reply, command);
    reply_text(reply, "begin_search");
    reply_map(reply, 2);
    cmd_tell_text(reply, "type", "index");
    reply_text(reply, "spec");
    reply_map(reply, 1);
    cmd_tell_integer(reply, "index", command->first_key);
    reply_text(reply, "find_keys");
    reply_map(reply, 2);
    cmd_tell_text(reply, "type", "range");
    reply_text(reply, "spec");
    reply_map(reply, 3);
    /* relative to the first key, unless counted from the end */
    cmd_tell_integer(reply, "lastkey",
                     command->last_key < 0 ? command->last_key
                                           : command->last_key - command->first_key);
    cmd_tell_integer(reply, "keystep", command->key_step);
    cmd_tell_integer(reply, "limit", 0);
}

static void command_tell(const struct reply *reply, const struct command_table *table,
                         const struct command *command)
{
    const struct command *sub = NULL;
    char name[CMD_NAME];
    size_t i = 0;
    reply_array(reply, 10);
    reply_text(reply, cmd_lower(command->name, name));
    reply_integer(reply, command->arity);
    command_tell_flags(reply, command);
    reply_integer(reply, command->first_key);
    reply_integer(reply, command->last_key);
    reply_integer(reply, command->key_step);
    command_tell_categories(reply, command);
    reply_array(reply, 0); /* no tips */
    command_tell_key_spec(reply, command);
    reply_array(reply, command_count_subs(table, command));
    while (command->flags & COMMAND_CONTAINER
           && (sub = command_next_sub(table, command, &i)) != NULL) {
        command_tell(reply, table, sub);
    }
}

static void command_tell_all(const struct reply *reply,
                             const struct command_table *table)
{
    reply_array(reply, command_count_top(table));
    for (size_t i = 0; i < command_count(table); i++) {
        const struct command *command = command_at(table, i);
        if (!(command->flags & COMMAND_SUB)) {
            command_tell(reply, table, command);
        }
    }
}

static void command_all(struct request *request)
{
    command_tell_all(&request->reply, command_table_of(request));
}

static void command_info(struct request *request)
{
    const struct command_table *table = command_table_of(request);
    if (request->argc == 2) {
        command_tell_all(&request->reply, table);
        return;
    }
    reply_array(&request->reply, request->argc - 2);
    for (size_t i = 2; i < request->argc; i++) {
        const struct command *command = command_find(table, request->argv[i]);
        if (command) {
            command_tell(&request->reply, table, command);
        } else {
            reply_null(&request->reply);
        }
    }
}

static void command_count_run(struct request *request)
{
    reply_integer(&request->reply,
                  (int64_t)command_count_top(command_table_of(request)));
}

/* ---- COMMAND DOCS ---------------------------------------------------------------------------- */

/* State for writing the documentation of a command's arguments. The position is tracked because
 * arguments at key positions are documented as keys. */
struct docs {
    const struct reply *reply;
    const struct command *command;
    size_t place; /* position of the next top-level argument */
};

static bool docs_is_key(const struct docs *docs)
{
    const struct command *command = docs->command;
    return command->first_key > 0 && docs->place >= (size_t)command->first_key
           && (command->last_key < 0 || docs->place <= (size_t)command->last_key);
}

static void docs_tell_arguments(struct docs *docs, const struct syntax_node *first,
                                bool top);

static void docs_tell_argument(struct docs *docs, const struct syntax_node *node,
                               bool top)
{
    const struct reply *reply = docs->reply;
    const bool key = top && !node->token[0] && !node->first && docs_is_key(docs);
    const size_t flags = (size_t)node->optional + node->multiple;
    reply_map(reply, 2 + (size_t)key + (node->token[0] != 0) + (flags > 0)
                         + (node->first != NULL));
    cmd_tell_text(reply, "name", node->name);
    cmd_tell_text(reply, "type", key ? "key" : syntax_type_name(node->type));
    if (key) {
        cmd_tell_integer(reply, "key_spec_index", 0);
    }
    if (node->token[0]) {
        cmd_tell_text(reply, "token", node->token);
    }
    if (flags) {
        reply_text(reply, "flags");
        reply_set(reply, flags);
        if (node->optional) {
            reply_status(reply, "optional");
        }
        if (node->multiple) {
            reply_status(reply, "multiple");
        }
    }
    if (node->first) {
        reply_text(reply, "arguments");
        docs_tell_arguments(docs, node->first, false);
    }
}

static void docs_tell_arguments(struct docs *docs, const struct syntax_node *first,
                                bool top)
{
    size_t n = 0;
    for (const struct syntax_node *node = first; node; node = node->next) {
        n++;
    }
    reply_array(docs->reply, n);
    for (const struct syntax_node *node = first; node; node = node->next) {
        docs_tell_argument(docs, node, top);
        docs->place += top;
    }
}

static const char *docs_group(const struct command *command)
{
    if (command_is_module(command)) {
        return "module";
    }
    if (command->categories & CATEGORY_KEYSPACE) {
        return "generic";
    }
    return command->categories & CATEGORY_CONNECTION ? "connection" : "server";
}

/* Writes a name and its documentation: two replies that form a map entry. */
static void docs_tell(const struct reply *reply, const struct command_table *table,
                      const struct command *command)
{
    struct syntax syntax;
    struct docs docs = { reply, command, command->flags & COMMAND_SUB ? 2 : 1 };
    const struct command *sub = NULL;
    const size_t subs = command_count_subs(table, command);
    const bool module = command_is_module(command);
    const bool arguments = syntax_parse(&syntax, command->syntax) && syntax.first;
    char name[CMD_NAME];
    size_t i = 0;
    reply_text(reply, cmd_lower(command->name, name));
    reply_map(reply, 4 + (size_t)module + arguments + (subs > 0));
    cmd_tell_text(reply, "summary", command->summary);
    cmd_tell_text(reply, "since", command->since);
    cmd_tell_text(reply, "group", docs_group(command));
    cmd_tell_text(reply, "complexity", command->complexity);
    if (module) {
        cmd_tell_text(reply, "module", "bf");
    }
    if (arguments) {
        reply_text(reply, "arguments");
        docs_tell_arguments(&docs, syntax.first, true);
    }
    if (subs > 0) {
        reply_text(reply, "subcommands");
        reply_map(reply, subs);
        while ((sub = command_next_sub(table, command, &i)) != NULL) {
            docs_tell(reply, table, sub);
        }
    }
}

static void command_docs(struct request *request)
{
    const struct command_table *table = command_table_of(request);
    const struct reply *reply = &request->reply;
    size_t n = 0;
    if (request->argc == 2) {
        reply_map(reply, command_count_top(table));
        for (size_t i = 0; i < command_count(table); i++) {
            if (!(command_at(table, i)->flags & COMMAND_SUB)) {
                docs_tell(reply, table, command_at(table, i));
            }
        }
        return;
    }
    for (size_t i = 2; i < request->argc; i++) {
        n += command_find(table, request->argv[i]) != NULL;
    }
    reply_map(reply, n);
    for (size_t i = 2; i < request->argc; i++) {
        const struct command *command = command_find(table, request->argv[i]);
        if (command) {
            docs_tell(reply, table, command);
        }
    }
}

/* ---- COMMAND LIST ---------------------------------------------------------------------------- */

/* FILTERBY MODULE name | ACLCAT category | PATTERN pattern */
struct filterby {
    const bg_bytes *module, *category, *pattern;
    size_t category_number;
    bool nothing; /* matches no command: the module or category is unknown */
};

static bool filterby_read(struct request *request, struct filterby *by)
{
    const bg_bytes *argv = request->argv;
    if (request->argc == 2) {
        return true;
    }
    if (request->argc != 5 || !args_is(argv[2], "FILTERBY")) {
        return false;
    }
    if (args_is(argv[3], "MODULE")) {
        by->module = &argv[4];
        by->nothing = !args_is(argv[4], "BF");
    } else if (args_is(argv[3], "PATTERN")) {
        by->pattern = &argv[4];
    } else if (args_is(argv[3], "ACLCAT")) {
        const char *name = NULL;
        by->category = &argv[4];
        while ((name = command_category_name(by->category_number)) != NULL
               && (argv[4].len != strlen(name)
                   || strncasecmp(argv[4].data, name, argv[4].len) != 0)) {
            by->category_number++;
        }
        by->nothing = !name;
    } else {
        return false;
    }
    return true;
}

static bool filterby_takes(const struct filterby *by, const struct command *command)
{
    char name[CMD_NAME];
    (void)cmd_lower(command->name, name);
    return !by->nothing && !(by->module && !command_is_module(command))
           && !(by->category && !command_in_category(command, by->category_number))
           && !(by->pattern
                && !pattern_matches_nocase(by->pattern->data, by->pattern->len, name,
                                           strlen(name)))
           && !(!by->module && !by->category && !by->pattern
                && command->flags & COMMAND_SUB);
}

static void command_list(struct request *request)
{
    const struct command_table *table = command_table_of(request);
    struct filterby by = { .nothing = false };
    char name[CMD_NAME];
    size_t n = 0;
    if (!filterby_read(request, &by)) {
        cmd_syntax(request);
        return;
    }
    for (size_t i = 0; i < command_count(table); i++) {
        n += filterby_takes(&by, command_at(table, i));
    }
    reply_array(&request->reply, n);
    for (size_t i = 0; i < command_count(table); i++) {
        if (filterby_takes(&by, command_at(table, i))) {
            reply_text(&request->reply, cmd_lower(command_at(table, i)->name, name));
        }
    }
}

/* ---- COMMAND GETKEYS ------------------------------------------------------------------------- */

/* Returns the command that argv[2] and the following arguments would run. Returns NULL if
 * there is none, or after sending an error. */
static const struct command *getkeys_command(struct request *request)
{
    const struct command_table *table = command_table_of(request);
    const size_t argc = request->argc - 2;
    const struct command *command = command_find(table, request->argv[2]);
    if (command && command->flags & COMMAND_CONTAINER && argc > 1) {
        command = command_find_sub(table, command, request->argv[3]);
    }
    if (!command || command->flags & COMMAND_CONTAINER) {
        reply_error(&request->reply, "ERR Invalid command specified");
    } else if (command->first_key <= 0) {
        reply_error(&request->reply, "ERR The command has no key arguments");
    } else if (!command_arity_fits(command, argc)) {
        reply_error(&request->reply,
                    "ERR Invalid number of arguments specified for command");
    } else {
        return command;
    }
    return NULL;
}

static void getkeys_run(struct request *request, bool flags)
{
    const struct command *command = getkeys_command(request);
    if (!command) {
        return;
    }
    const size_t argc = request->argc - 2, first = (size_t)command->first_key;
    const size_t step = (size_t)command->key_step;
    size_t last = command_last_key(command, argc);
    last = last < argc ? last : argc - 1;
    reply_array(&request->reply, last < first ? 0 : (last - first) / step + 1);
    for (size_t i = first; i <= last; i += step) {
        const bg_bytes key = request->argv[2 + i];
        if (flags) {
            reply_array(&request->reply, 2);
        }
        reply_bulk(&request->reply, key.data, key.len);
        if (flags) {
            command_tell_key_flags(&request->reply, command);
        }
    }
}

static void command_getkeys(struct request *request)
{
    getkeys_run(request, false);
}

static void command_getkeysandflags(struct request *request)
{
    getkeys_run(request, true);
}

#define COMMAND_FLAGS (COMMAND_LOADING | COMMAND_STALE | COMMAND_SUB)

const struct command command_commands[] = {
    { "COMMAND", -1, COMMAND_CONTAINER | COMMAND_LOADING | COMMAND_STALE,
      CATEGORY_CONNECTION, 0, 0, 0, command_all, NULL, "",
      "Lists the service's commands", "O(N) where N is the number of commands", "0.1.0",
      BEHAVIOR_SERVICE },
    { "COMMAND|COUNT", 2, COMMAND_FLAGS, CATEGORY_CONNECTION, 0, 0, 0,
      command_count_run, NULL, "", "Returns the number of commands", "O(1)", "0.1.0",
      BEHAVIOR_SERVICE },
    { "COMMAND|INFO", -2, COMMAND_FLAGS, CATEGORY_CONNECTION, 0, 0, 0, command_info,
      NULL, "[command-name [command-name ...]]",
      "Returns the arity, flags and keys of "
      "commands",
      "O(N) where N is the number of commands", "0.1.0", BEHAVIOR_SERVICE },
    { "COMMAND|DOCS", -2, COMMAND_FLAGS, CATEGORY_CONNECTION, 0, 0, 0, command_docs,
      NULL, "[command-name [command-name ...]]",
      "Returns documentation for commands and their arguments",
      "O(N) where N is the number of commands", "0.1.0", BEHAVIOR_SERVICE },
    { "COMMAND|LIST", -2, COMMAND_FLAGS, CATEGORY_CONNECTION, 0, 0, 0, command_list,
      NULL, "[FILTERBY <MODULE module-name | ACLCAT category | PATTERN pattern>]",
      "Returns the names of commands", "O(N) where N is the number of commands",
      "0.1.0", BEHAVIOR_SERVICE },
    { "COMMAND|GETKEYS", -3, COMMAND_FLAGS, CATEGORY_CONNECTION, 0, 0, 0,
      command_getkeys, NULL, "command [arg [arg ...]]",
      "Returns the filter names among the arguments of a command",
      "O(N) where N is the number of arguments", "0.1.0", BEHAVIOR_SERVICE },
    { "COMMAND|GETKEYSANDFLAGS", -3, COMMAND_FLAGS, CATEGORY_CONNECTION, 0, 0, 0,
      command_getkeysandflags, NULL, "command [arg [arg ...]]",
      "Returns the filter names among the arguments of a command, with access flags",
      "O(N) where N is the number of arguments", "0.1.0", BEHAVIOR_SERVICE },
    CMD_HELP("COMMAND"),
    CMD_END,
};
