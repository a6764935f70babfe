/*
 * test_command_table.c - the checks of the command tables: a row that does not declare its behavior
 * is refused, and every row of the service and of the module declares it.
 */
#define _GNU_SOURCE /* locks */

#include "core/server.h"
#include "main/run.h"
#include "support/check.h"

#include <string.h>

static bool accepted(struct command_behavior behavior, char why[COMMAND_WHY])
{
    const struct command rows[] = { { .name = "GOOD", .behavior = BEHAVIOR_READS },
                                    { .name = "NEW", .behavior = behavior },
                                    { .name = NULL } };
    const struct command *const families[] = { rows };
    return command_table_check(families, 1, why);
}

TEST(command_table__refuses_rows_without_behavior)
{
    const struct command_behavior whole = BEHAVIOR_ADDS_SHARDED;
    const struct command_behavior none = { .needs = NEEDS_UNDECLARED };
    struct command_behavior part = whole;
    char why[COMMAND_WHY] = "";
    CHECK(accepted(whole, why));
    CHECK(!accepted(none, why));
    CHECK_STR(why,
              "the table does not declare what the command needs from its host: NEW");
    part.front = FRONT_UNDECLARED;
    CHECK(!accepted(part, why));
    CHECK_STR(why, "the table does not declare what fronts do with the command: NEW");
    part = whole;
    part.effect = EFFECT_UNDECLARED;
    CHECK(!accepted(part, why));
    CHECK_STR(why,
              "the table does not declare the effect of the command on a filter: NEW");
    part = whole;
    part.replication = REPLICATES_UNDECLARED;
    CHECK(!accepted(part, why));
    CHECK_STR(why, "the table does not declare how the command is replicated: NEW");
}

TEST(command_table__all_rows_declare_their_behavior)
{
    char why[COMMAND_WHY] = "";
    CHECK(command_table_check(server_families, server_families_count, why));
    CHECK_STR(why, "");
}

/* Returns whether the flags and keys of a row agree with its behavior. */
static bool agrees(const struct command *c)
{
    const struct command_behavior *b = &c->behavior;
    const bool writes = c->flags & COMMAND_WRITE;
    const bool forwards = b->front == FRONT_FORWARDS;
    return b->needs == NEEDS_SERVICE
           || (writes == (b->effect != EFFECT_NONE)
               && writes == (b->replication != REPLICATES_NOTHING)
               && (!forwards || (c->first_key == 1 && c->last_key == 1))
               && (!forwards || b->effect == (writes ? EFFECT_ADDS : EFFECT_NONE)));
}

TEST(command_table__behavior_agrees_with_flags)
{
    for (size_t f = 0; f < server_families_count; f++) {
        for (const struct command *c = server_families[f]; c->name; c++) {
            CHECK_STR(agrees(c) ? "" : c->name, "");
        }
    }
}
