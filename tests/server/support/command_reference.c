/*
 * command_reference.c - prints the list of commands for docs/commands.md from the tables that the
 * dispatcher uses. tools/check_commands.py compares the list with the page, or updates the page.
 */
#define _GNU_SOURCE /* locks */

#include "core/server.h"
#include "main/run.h"
#include "request/cmd.h"
#include "request/multi.h"
#include "request/slowlog.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *title;
    const struct command *commands;
    bool explained; /* false: list only names, because Redis documents the rest */
} reference_families[] = {
    { "Bloom filters: BF.*", bf_commands, true },
    { "Filters with deletion: CF.*", cf_commands, true },
    { "Every kind of filter: BG.*", bg_commands, true },
    { "Names", keyspace_commands, false },
    { "Listing names", scan_commands, false },
    { "Connections", connection_commands, false },
    { "Clients", client_commands, false },
    { "Transactions", multi_commands, false },
    { "Users", acl_commands, false },
    { "Settings", config_commands, false },
    { "Information", info_commands, false },
    { "Commands", command_commands, false },
    { "Slow log", slowlog_commands, false },
    { "Administration", admin_commands, false },
};

enum { REFERENCE_FAMILIES = sizeof reference_families / sizeof *reference_families };

/* Returns whether every command family of the service has a title in this file. */
static bool reference_is_whole(void)
{
    for (size_t i = 0; i < server_families_count; i++) {
        size_t f = 0;
        while (f < REFERENCE_FAMILIES
               && reference_families[f].commands != server_families[i]) {
            f++;
        }
        if (f == REFERENCE_FAMILIES) {
            fprintf(stderr, "%s: this command family has no title\n",
                    server_families[i]->name);
            return false;
        }
    }
    return true;
}

/* Prints the flags that matter to readers; COMMAND INFO reports all of them. */
static void reference_flags(const struct command *command)
{
    const bool slow = command->flags & COMMAND_SLOW;
    const bool admin = command->flags & COMMAND_ADMIN;
    if (slow || admin) {
        printf(" (%s%s%s)", slow ? "slow" : "", slow && admin ? ", " : "",
               admin ? "admin" : "");
    }
}

/* Returns whether a command needs no entry, because it is HELP or only a container for
 * subcommands. */
static bool reference_is_obvious(const struct command *command)
{
    const char *bar = strchr(command->name, '|');
    return bar ? strcmp(bar, "|HELP") == 0
               : command->flags & COMMAND_CONTAINER && command->arity < -1;
}

/* Prints an entry: a list item, or part of a comma-separated row if `explained` is false. */
static void reference_entry(const struct command *command, bool explained,
                            const char *before)
{
    char name[64];
    (void)snprintf(name, sizeof name, "%s", command->name);
    char *bar = strchr(name, '|');
    if (bar) {
        *bar = ' ';
    }
    const bool own = explained || strncmp(name, "BG.", 3) == 0;
    const char *syntax = own ? command->syntax : "";
    printf("%s`%s%s%s`%s%s", before, name, syntax[0] ? " " : "", syntax,
           explained ? ": " : "", explained ? command->summary : "");
    reference_flags(command);
}

int main(void)
{
    if (!reference_is_whole()) {
        return 1;
    }
    for (size_t f = 0; f < REFERENCE_FAMILIES; f++) {
        const bool explained = reference_families[f].explained;
        const char *before = explained ? "- " : "";
        printf("### %s\n\n", reference_families[f].title);
        for (const struct command *c = reference_families[f].commands; c->name; c++) {
            if (!reference_is_obvious(c)) {
                reference_entry(c, explained, before);
                printf("%s", explained ? ".\n" : "");
                before = explained ? "- " : ",\n";
            }
        }
        printf("\n%s", explained ? "" : "\n");
    }
    return 0;
}
