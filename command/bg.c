/*
 * bg.c - the table of BG.* commands, which are specific to Bloomgate and work with filters of all
 * kinds and families.
 */
#include "bg_handlers.h"

#include "dump.h"

#include <stdio.h>
#include <string.h>

#define BG_WRITE     (COMMAND_WRITE | COMMAND_DENYOOM | COMMAND_FAST)
#define BG_ADDS      (BG_WRITE | COMMAND_CLAIMS)
#define BG_READ      (COMMAND_READONLY | COMMAND_FAST)
#define BG_CHANGE    (COMMAND_WRITE | COMMAND_DENYOOM | COMMAND_SLOW)
#define BG_EXAMINE   (COMMAND_READONLY | COMMAND_SLOW)
#define BG_AT_NAME   CATEGORY_GATE, 1, 1, 1
#define BG_AT_FILES  CATEGORY_GATE | CATEGORY_DANGEROUS, 1, 1, 1
/* Not in the category gate, so that +@gate does not grant the command. */
#define BG_AT_SECRET CATEGORY_DANGEROUS, 1, 1, 1
#define BG_NO_NAME   CATEGORY_GATE, 0, 0, 0

const struct command bg_commands[] = {
    { "BG.CREATE", -2, BG_WRITE, BG_AT_NAME, bgc_create, NULL,
      "name [KIND kind] [CAPACITY items] [ERROR rate | BITS bits_per_item | BYTES bytes] [K k] "
      "[FOLDS folds] [WIDTH width] [SHARDS shards] [HASH profile] [SEED seed] "
      "[WINDOW milliseconds | COUNT items | MANUAL] [GENERATIONS generations] [AGED] "
      "[SCATTERED] [ONEWINNER] [OVERFILL]",
      "Creates an empty filter of any kind", "O(1)", "0.1.0", BEHAVIOR_ADDS },
    { "BG.ADD", 3, BG_ADDS, BG_AT_NAME, items_add_one, items_add_many, "name item",
      "Adds an item to an existing filter; returns 1 if the item is definitely new",
      "O(1)", "0.1.0", BEHAVIOR_ADDS_SHARDED },
    { "BG.MADD", -3, BG_ADDS, BG_AT_NAME, items_add_list, NULL, "name item [item ...]",
      "Adds items to an existing filter", "O(N) where N is the number of items",
      "0.1.0", BEHAVIOR_ADDS_SHARDED },
    { "BG.EXISTS", 3, BG_READ | COMMAND_ASKS, BG_AT_NAME, items_exist_one,
      items_exist_many, "name item",
      "Checks whether a filter may contain an item; 0 means definitely not, and a "
      "missing filter is an error",
      "O(1)", "0.1.0", BEHAVIOR_READS_SHARDED },
    { "BG.MEXISTS", -3, BG_READ | COMMAND_ASKS, BG_AT_NAME, items_exist_list, NULL,
      "name item [item ...]",
      "Checks whether a filter may contain each item; a missing filter is an error",
      "O(N) where N is the number of items", "0.1.0", BEHAVIOR_READS_SHARDED },
    { "BG.DEL", -3, COMMAND_WRITE | COMMAND_FAST | COMMAND_CLAIMS, BG_AT_NAME, bgc_del,
      NULL, "name item [IF count]",
      "Deletes one occurrence of an item; delete only items that were added", "O(1)",
      "0.1.0", BEHAVIOR_DELETES },
    { "BG.COUNT", 3, BG_READ | COMMAND_ASKS | COMMAND_COUNTS, BG_AT_NAME, bgc_count,
      NULL, "name item",
      "Returns how many times an item may have been added; 0 or 1 for kinds that do "
      "not count",
      "O(1)", "0.1.0", BEHAVIOR_READS },
    { "BG.OBSERVE", 4, BG_READ, BG_AT_NAME, bgc_observe, NULL,
      "name item <FALSEPOSITIVE | PRESENT>",
      "Records whether an item that the filter may contain is in the backing store, to "
      "measure the observed rate",
      "O(1)", "0.1.0", BEHAVIOR_READS },
    { "BG.CLEAR", 2, BG_CHANGE, BG_AT_NAME, bgc_clear, NULL, "name",
      "Removes all items from a filter and keeps its parameters", "O(1)", "0.1.0",
      BEHAVIOR_TRANSFORMS },
    { "BG.DROP",
      2,
      COMMAND_WRITE | COMMAND_FAST,
      BG_AT_NAME,
      bgc_drop,
      NULL,
      "name",
      "Deletes a filter; returns whether it existed",
      "O(1)",
      "0.1.0",
      { NEEDS_NOTHING, FRONT_REFUSES, EFFECT_DROPS, REPLICATES_COMMAND } },
    { "BG.MERGE", -3, BG_CHANGE, CATEGORY_GATE, 1, -1, 1, bgc_merge, NULL,
      "destination source [source ...]",
      "Merges filters into a destination filter, creating it as a copy of the first "
      "source if it does not exist",
      "O(N) where N is the size in bytes", "0.1.0", BEHAVIOR_TRANSFORMS },
    { "BG.FOLD", -2, BG_CHANGE, BG_AT_NAME, bgc_fold, NULL, "name [times]",
      "Halves the size of a filter, which raises its false-positive rate; returns "
      "the new size in bytes",
      "O(N) where N is the size in bytes", "0.1.0", BEHAVIOR_TRANSFORMS },
    { "BG.INTERSECTCARD", 3, BG_EXAMINE, CATEGORY_GATE, 1, 2, 1, bgc_intersectcard,
      NULL, "name name",
      "Estimates the number of items that two filters have in common; returns the "
      "estimate and its lower and upper bounds",
      "O(N) where N is the size in bytes", "0.1.0", BEHAVIOR_READS },
    { "BG.JACCARD", 3, BG_EXAMINE, CATEGORY_GATE, 1, 2, 1, bgc_jaccard, NULL,
      "name name",
      "Estimates the Jaccard similarity of two filters, from 0 to 1; returns the "
      "estimate and its lower and upper bounds",
      "O(N) where N is the size in bytes", "0.1.0", BEHAVIOR_READS },
    { "BG.ROTATE",
      2,
      BG_CHANGE,
      BG_AT_NAME,
      bgc_rotate,
      NULL,
      "name",
      "Advances a window filter to the current time, or to its next period; returns "
      "the period",
      "O(N) where N is the size of a generation",
      "0.1.0",
      { NEEDS_NOTHING, FRONT_REFUSES, EFFECT_TRANSFORMS, REPLICATES_CHANGES } },
    { "BG.REBUILD",
      -3,
      BG_CHANGE,
      BG_AT_NAME,
      bgc_rebuild,
      NULL,
      "name <BEGIN capacity [ERROR rate] | ADD item [item ...] | COMMIT | ABORT | "
      "STATUS>",
      "Builds a replacement from the items that clients add, while the old filter "
      "stays in use",
      "O(N) where N is the number of items",
      "0.1.0",
      { NEEDS_NOTHING, FRONT_REFUSES, EFFECT_TRANSFORMS, REPLICATES_CONTENT } },
    { "BG.INFO", 2, BG_EXAMINE, BG_AT_NAME, bgc_info, NULL, "name",
      "Returns all information about a filter: geometry, items, fill, rates, state",
      "O(N) where N is the number of parts; reads at most 4 MiB of each part", "0.1.0",
      BEHAVIOR_READS },
    { "BG.VERIFY", 2, BG_EXAMINE, BG_AT_NAME, bgc_verify, NULL, "name",
      "Checks the structure of a filter in memory", "O(N) where N is the size in bytes",
      "0.1.0", BEHAVIOR_READS },
    { "BG.DIGEST", 2, BG_EXAMINE, BG_AT_NAME, bgc_digest, NULL, "name",
      "Returns the digest of a filter; filters with the same parameters and content "
      "have the same digest",
      "O(N) where N is the size in bytes", "0.1.0", BEHAVIOR_READS },
    { "BG.DUMP", -3, BG_EXAMINE | COMMAND_COPIES, BG_AT_NAME, dump_bg_dump, NULL,
      "name cursor [SIZE bytes] [ID id]",
      "Returns the next chunk of a filter, with a checksum; start with cursor 0, then "
      "pass the returned cursor until it is 0",
      "O(N) where N is the size in bytes", "0.1.0", BEHAVIOR_READS },
    { "BG.LOAD", -2, BG_CHANGE, BG_AT_NAME, dump_bg_load, NULL, "name [chunk]",
      "Loads a chunk of a dump, or returns the progress if no chunk is specified; "
      "the last chunk creates the filter",
      "O(N) where N is the size in bytes", "0.1.0", BEHAVIOR_LOADS },
    { "BG.SECRET", 2, COMMAND_ADMIN | COMMAND_NOSCRIPT, BG_AT_SECRET, bgc_secret, NULL,
      "name",
      "Returns the key ID and the secret of a keyed filter, for a keyring; each use is "
      "logged",
      "O(1)", "0.2.0", BEHAVIOR_READS },
    { "BG.PUBLISH",
      -3,
      BG_EXAMINE | COMMAND_ADMIN | COMMAND_WRITES_FILE,
      BG_AT_FILES,
      bgc_publish,
      NULL,
      "name file [VERSIONED]",
      "Writes a filter to a file; returns its digest",
      "O(N) where N is the size in bytes",
      "0.1.0",
      { NEEDS_FILES, FRONT_REFUSES, EFFECT_NONE, REPLICATES_NOTHING } },
    { "BG.RELOAD",
      -3,
      BG_CHANGE | COMMAND_ADMIN | COMMAND_READS_FILE,
      BG_AT_FILES,
      bgc_reload,
      NULL,
      "name file [DISCARD] [ANYKIND] [WRITABLE]",
      "Creates a filter from a file, or replaces the content of an existing filter; "
      "returns the digest",
      "O(N) where N is the size in bytes",
      "0.1.0",
      { NEEDS_FILES, FRONT_REFUSES, EFFECT_LOADS, REPLICATES_CONTENT } },
    { "BG.LOOKUP",
      3,
      COMMAND_READONLY | COMMAND_DEFERS,
      BG_AT_NAME,
      bgc_lookup,
      NULL,
      "gate key",
      "Checks whether a key exists: queries the gate's filter, and the backing store "
      "if the filter may contain the key",
      "O(1), plus a call to the backing store if the filter may contain the key",
      "0.1.0",
      { NEEDS_GATES, FRONT_REFUSES, EFFECT_NONE, REPLICATES_NOTHING } },
    { "BG.ROW",
      3,
      COMMAND_READONLY | COMMAND_DEFERS,
      BG_AT_NAME,
      bgc_row,
      NULL,
      "gate key",
      "Returns the row of a key, or null if the key does not exist; queries the backing "
      "store if the gate's filter may contain the key",
      "O(N) where N is the size of the row, plus a call to the backing store if the "
      "filter may contain the key",
      "0.2.0",
      { NEEDS_GATES, FRONT_REFUSES, EFFECT_NONE, REPLICATES_NOTHING } },
    { "BG.MLOOKUP",
      -3,
      BG_EXAMINE,
      BG_AT_NAME,
      bgc_mlookup,
      NULL,
      "gate key [key ...]",
      "Checks whether each key exists",
      "O(N) where N is the number of keys",
      "0.1.0",
      { NEEDS_GATES, FRONT_REFUSES, EFFECT_NONE, REPLICATES_NOTHING } },
    { "BG.WROTE",
      -3,
      COMMAND_WRITE | COMMAND_FAST | COMMAND_UNRECORDED | COMMAND_LOADING,
      BG_AT_NAME,
      bgc_wrote,
      NULL,
      "gate key [key ...]",
      "Adds keys to a gate's filter after the keys have been committed to its source",
      "O(N) where N is the number of keys",
      "0.1.0",
      { NEEDS_GATES, FRONT_REFUSES, EFFECT_ADDS, REPLICATES_CHANGES } },
    { "BG.PLAN", -3, BG_EXAMINE | COMMAND_LOADING | COMMAND_STALE, BG_NO_NAME, bgc_plan,
      NULL,
      "items rate [KIND kind] [GROWTH factor] [QPS queries] [ABSENT share] [CALLCOST cost] "
      "[MEMORYCOST cost] [CALLTIME seconds] [LATENCY seconds]",
      "Compares the size, rates and cost of all filter kinds for a number of items and "
      "a rate",
      "O(1)", "0.1.0", BEHAVIOR_READS },
    { "BG.SHARDED", -4, COMMAND_READONLY | COMMAND_LOADING | COMMAND_STALE, BG_NO_NAME,
      bgc_sharded, NULL,
      "<KEYS name shards | SHARD name shards item [item ...] | PLAN items rate shards>",
      "For a filter that is sharded over a cluster, returns the shard keys, the shards "
      "of items, or the shard size",
      "O(N) where N is the number of shards or items", "0.1.0", BEHAVIOR_READS },
    { "BG.HELP", 1, BG_READ | COMMAND_LOADING | COMMAND_STALE, BG_NO_NAME, bgc_help,
      NULL, "", "Lists the BG.* commands", "O(1)", "0.1.0", BEHAVIOR_READS },
    { .name = NULL },
};

/* Returns whether the host provides the files or gates that a command needs. */
static bool bgc_help_tells(const struct command *c, const struct host_ops *ops)
{
    switch (c->behavior.needs) {
    case NEEDS_FILES: return ops->path != NULL;
    case NEEDS_GATES: return ops->lookup != NULL && ops->wrote != NULL;
    default: return true;
    }
}

/* Sends the syntax and the summary of the commands whose names start with BG., or counts them if
 * `reply` is NULL. */
static size_t bgc_help_list(const struct command *c, const struct host_ops *ops,
                            struct reply *reply)
{
    char line[600];
    size_t n = 0;
    for (; c && c->name; c++) {
        if (strncmp(c->name, "BG.", 3) != 0 || !bgc_help_tells(c, ops)) {
            continue;
        }
        n++;
        if (reply) {
            (void)snprintf(line, sizeof line, "%s%s%s", c->name,
                           c->syntax[0] ? " " : "", c->syntax);
            reply_text(reply, line);
            (void)snprintf(line, sizeof line, "    %s.", c->summary);
            reply_text(reply, line);
        }
    }
    return n;
}

void bgc_help(struct request *request)
{
    const struct host_ops *ops = request->host->ops;
    const size_t n =
        bgc_help_list(bg_commands, ops, NULL) + bgc_help_list(ops->commands, ops, NULL);
    reply_array(&request->reply, 2 * n);
    (void)bgc_help_list(bg_commands, ops, &request->reply);
    (void)bgc_help_list(ops->commands, ops, &request->reply);
}
