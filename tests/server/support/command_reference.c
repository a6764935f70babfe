/*
 * command_reference.c - prints the list of commands for docs/commands.md, from the tables that the
 * dispatcher uses. tools/check_commands.py compares, or puts it there.
 */
#define _GNU_SOURCE /* locks */

#include "cmd.h"
#include "multi.h"
#include "server.h"
#include "slowlog.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *title;
    const struct command *commands;
} reference_families[] = {
    { "Bloom filters: BF.*", bf_commands },
    { "Filters that delete: CF.*", cf_commands },
    { "All filters: BG.*", bg_commands },
    { "Names", keyspace_commands },
    { "Lists of names", scan_commands },
    { "Connections", connection_commands },
    { "Clients", client_commands },
    { "Transactions", multi_commands },
    { "Users", acl_commands },
    { "Settings", config_commands },
    { "What there is", info_commands },
    { "Commands", command_commands },
    { "Slow commands", slowlog_commands },
    { "The service", admin_commands },
};

enum { REFERENCE_FAMILIES = sizeof reference_families / sizeof *reference_families };

/* Whether every family that the service knows has its title here. */
static bool reference_is_whole(void)
{
    for (size_t i = 0; i < server_families_count; i++) {
        size_t f = 0;
        while (f < REFERENCE_FAMILIES
               && reference_families[f].commands != server_families[i]) {
            f++;
        }
        if (f == REFERENCE_FAMILIES) {
            fprintf(stderr, "%s: a family without a title\n", server_families[i]->name);
            return false;
        }
    }
    return true;
}

static void reference_flags(const struct command *command)
{
    static const struct {
        uint32_t flag;
        const char *name;
    } flags[] = { { COMMAND_WRITE, "write" },     { COMMAND_READONLY, "readonly" },
                  { COMMAND_DENYOOM, "denyoom" }, { COMMAND_FAST, "fast" },
                  { COMMAND_SLOW, "slow" },       { COMMAND_ADMIN, "admin" },
                  { COMMAND_NOAUTH, "no-auth" } };
    const char *between = "; ";
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        if (command->flags & flags[i].flag) {
            printf("%s%s", between, flags[i].name);
            between = ", ";
        }
    }
}

int main(void)
{
    if (!reference_is_whole()) {
        return 1;
    }
    for (size_t f = 0; f < REFERENCE_FAMILIES; f++) {
        printf("### %s\n\n", reference_families[f].title);
        for (const struct command *c = reference_families[f].commands; c->name; c++) {
            char name[64];
            (void)snprintf(name, sizeof name, "%s", c->name);
            char *bar = strchr(name, '|');
            if (bar) {
                *bar = ' ';
            }
            printf("**`%s%s%s`**  \n%s. %s", name, c->syntax[0] ? " " : "", c->syntax,
                   c->summary, c->complexity);
            reference_flags(c);
            printf(".\n\n");
        }
    }
    return 0;
}
