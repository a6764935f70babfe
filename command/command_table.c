/*
 * command_table.c - the list of commands, indexed by name with open addressing. The number of
 * buckets is a power of two, and at most a quarter of the buckets are used, so most lookups need
 * one comparison.
 */
#include "command_table.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct command_table {
    size_t count;
    size_t mask;
    const struct command **commands; /* ordered by family */
    const struct command *places[];
};

/* The hash ignores the bit in which uppercase and lowercase letters differ. */
static size_t table_hash(const char *name, size_t n)
{
    enum { CASE = 0x20 };
    uint32_t hash = 2166136261U;
    for (size_t i = 0; i < n; i++) {
        hash = (hash ^ ((unsigned char)name[i] & ~(uint32_t)CASE)) * 16777619U;
    }
    return hash ^ hash >> 15;
}

static bool table_same(const struct command *command, bg_bytes name)
{
    return strlen(command->name) == name.len
           && strncasecmp(command->name, name.data, name.len) == 0;
}

/* Returns what a row does not declare, or NULL if it is complete. */
static const char *table_missing(const struct command_behavior *b)
{
    return !b->needs         ? "what the command needs from its host"
           : !b->front       ? "what fronts do with the command"
           : !b->effect      ? "the effect of the command on a filter"
           : !b->replication ? "how the command is replicated"
                             : NULL;
}

bool command_table_check(const struct command *const *families, size_t n,
                         char why[COMMAND_WHY])
{
    for (size_t f = 0; f < n; f++) {
        for (const struct command *c = families[f]; c->name; c++) {
            const char *missing = table_missing(&c->behavior);
            if (missing) {
                (void)snprintf(why, COMMAND_WHY, "the table does not declare %s: %s",
                               missing, c->name);
                return false;
            }
        }
    }
    return true;
}

struct command_table *command_table_create(const struct command *const *families,
                                           size_t n)
{
    size_t count = 0, places = 4;
    for (size_t f = 0; f < n; f++) {
        for (const struct command *c = families[f]; c->name; c++) {
            count++;
        }
    }
    while (places < 4 * count) {
        places *= 2;
    }
    struct command_table *table =
        calloc(1, sizeof *table + (places + count) * sizeof(void *));
    if (!table) {
        return NULL;
    }
    table->mask = places - 1;
    table->commands = table->places + places;
    for (size_t f = 0; f < n; f++) {
        for (const struct command *c = families[f]; c->name; c++) {
            assert(!(c->flags & COMMAND_SUB) == !strchr(c->name, '|'));
            size_t at = table_hash(c->name, strlen(c->name)) & table->mask;
            while (table->places[at]) {
                assert(strcmp(table->places[at]->name, c->name) != 0);
                at = (at + 1) & table->mask;
            }
            table->places[at] = c;
            table->commands[table->count++] = c;
        }
    }
    return table;
}

void command_table_free(struct command_table *table)
{
    free(table);
}

const struct command *command_find(const struct command_table *table, bg_bytes name)
{
    size_t at = table_hash(name.data, name.len) & table->mask;
    while (table->places[at] && !table_same(table->places[at], name)) {
        at = (at + 1) & table->mask;
    }
    return table->places[at];
}

const struct command *command_find_sub(const struct command_table *table,
                                       const struct command *container, bg_bytes name)
{
    char whole[64];
    const size_t n = strlen(container->name);
    if (name.len >= sizeof whole - n) {
        return NULL;
    }
    memcpy(whole, container->name, n);
    whole[n] = '|';
    if (name.len) {
        memcpy(whole + n + 1, name.data, name.len);
    }
    return command_find(table, (bg_bytes){ whole, n + 1 + name.len });
}

const struct command *command_next_sub(const struct command_table *table,
                                       const struct command *container, size_t *i)
{
    const size_t n = strlen(container->name);
    while (*i < table->count) {
        const struct command *command = table->commands[(*i)++];
        if (strncmp(command->name, container->name, n) == 0
            && command->name[n] == '|') {
            return command;
        }
    }
    return NULL;
}

size_t command_count(const struct command_table *table)
{
    return table->count;
}

const struct command *command_at(const struct command_table *table, size_t i)
{
    return i < table->count ? table->commands[i] : NULL;
}

/* The categories. A command belongs to a category if it has any of the flags or categories in the
 * category's row. */
static const struct {
    const char *name;
    uint32_t flags, categories;
} command_categories[] = {
    { "all", 0, 0 },  /* these two are */
    { "slow", 0, 0 }, /* handled separately */
    { "fast", COMMAND_FAST, 0 },
    { "read", COMMAND_READONLY, 0 },
    { "write", COMMAND_WRITE, 0 },
    { "admin", COMMAND_ADMIN, 0 },
    { "dangerous", COMMAND_ADMIN, CATEGORY_DANGEROUS },
    { "keyspace", 0, CATEGORY_KEYSPACE },
    { "connection", 0, CATEGORY_CONNECTION },
    { "bloom", 0, CATEGORY_BLOOM },
    { "cuckoo", 0, CATEGORY_CUCKOO },
    { "gate", 0, CATEGORY_GATE },
};

enum {
    CATEGORY_ALL = 0,
    CATEGORY_SLOW = 1,
    CATEGORIES = sizeof command_categories / sizeof *command_categories
};

const char *command_category_name(size_t i)
{
    return i < CATEGORIES ? command_categories[i].name : NULL;
}

bool command_in_category(const struct command *command, size_t i)
{
    return i == CATEGORY_ALL || (i == CATEGORY_SLOW && !(command->flags & COMMAND_FAST))
           || (i < CATEGORIES
               && (command->flags & command_categories[i].flags
                   || command->categories & command_categories[i].categories));
}

bool command_arity_fits(const struct command *command, size_t argc)
{
    return command->arity >= 0 ? argc == (size_t)command->arity
                               : argc >= (size_t)-command->arity;
}
