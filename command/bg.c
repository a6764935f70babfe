/*
 * bg.c - the table of BG.*: what no other server has, for filters of all kinds and families.
 */
#include "bg_handlers.h"

#include "dump.h"

#include <stdio.h>

#define BG_WRITE    (COMMAND_WRITE | COMMAND_DENYOOM | COMMAND_FAST)
#define BG_ADDS     (BG_WRITE | COMMAND_CLAIMS)
#define BG_READ     (COMMAND_READONLY | COMMAND_FAST)
#define BG_CHANGE   (COMMAND_WRITE | COMMAND_DENYOOM | COMMAND_SLOW)
#define BG_EXAMINE  (COMMAND_READONLY | COMMAND_SLOW)
#define BG_AT_NAME  CATEGORY_GATE, 1, 1, 1
#define BG_AT_FILES CATEGORY_GATE | CATEGORY_DANGEROUS, 1, 1, 1
#define BG_NO_NAME  CATEGORY_GATE, 0, 0, 0

const struct command bg_commands[] = {
    { "BG.CREATE", -2, BG_WRITE, BG_AT_NAME, bgc_create, NULL,
      "name [KIND kind] [CAPACITY items] [ERROR rate | BITS bits_per_item | BYTES bytes] [K k] "
      "[FOLDS folds] [WIDTH width] [SHARDS shards] [HASH profile] [SEED seed] "
      "[WINDOW milliseconds | COUNT items | MANUAL] [GENERATIONS generations] [AGED] "
      "[SCATTERED] [ONEWINNER] [OVERFILL]",
      "Creates an empty filter of any kind", "O(1)", "0.1.0" },
    { "BG.ADD", 3, BG_ADDS, BG_AT_NAME, bgc_add, bgc_add_many, "name item",
      "Adds an item to a filter that there is; tells whether it is certainly new",
      "O(1)", "0.1.0" },
    { "BG.MADD", -3, BG_ADDS, BG_AT_NAME, bgc_madd, NULL, "name item [item ...]",
      "Adds several items to a filter that there is", "O(N) with N items", "0.1.0" },
    { "BG.EXISTS", 3, BG_READ | COMMAND_ASKS, BG_AT_NAME, bgc_exists, bgc_exists_many,
      "name item",
      "Whether a filter may contain an item; 0 is certain, and a missing filter an error",
      "O(1)", "0.1.0" },
    { "BG.MEXISTS", -3, BG_READ | COMMAND_ASKS, BG_AT_NAME, bgc_mexists, NULL,
      "name item [item ...]",
      "Whether a filter may contain each of several items; a missing filter is an error",
      "O(N) with N items", "0.1.0" },
    { "BG.DEL", -3, COMMAND_WRITE | COMMAND_FAST | COMMAND_CLAIMS, BG_AT_NAME, bgc_del,
      NULL, "name item [IF count]",
      "Takes back one add of an item; only of an item that was added", "O(1)",
      "0.1.0" },
    { "BG.COUNT", 3, BG_READ | COMMAND_ASKS | COMMAND_COUNTS, BG_AT_NAME, bgc_count,
      NULL, "name item",
      "How often an item may have been added; 0 or 1 for kinds that do not count",
      "O(1)", "0.1.0" },
    { "BG.OBSERVE", 4, BG_READ, BG_AT_NAME, bgc_observe, NULL,
      "name item <FALSEPOSITIVE | PRESENT>",
      "Tells what the truth said of an item that the filter may contain, for the observed rate",
      "O(1)", "0.1.0" },
    { "BG.CLEAR", 2, BG_CHANGE, BG_AT_NAME, bgc_clear, NULL, "name",
      "Forgets all items of a filter, which stays as it was made", "O(1)", "0.1.0" },
    { "BG.DROP", 2, COMMAND_WRITE | COMMAND_FAST, BG_AT_NAME, bgc_drop, NULL, "name",
      "Removes a filter; tells whether there was one", "O(1)", "0.1.0" },
    { "BG.MERGE", -3, BG_CHANGE, CATEGORY_GATE, 1, -1, 1, bgc_merge, NULL,
      "destination source [source ...]",
      "Adds all items of some filters to another one, or to a copy of the first of them",
      "O(N) with N bytes", "0.1.0" },
    { "BG.FOLD", -2, BG_CHANGE, BG_AT_NAME, bgc_fold, NULL, "name [times]",
      "Halves the size of a filter, at a higher rate; tells its bytes",
      "O(N) with N bytes", "0.1.0" },
    { "BG.INTERSECTCARD", 3, BG_EXAMINE, CATEGORY_GATE, 1, 2, 1, bgc_intersectcard,
      NULL, "name name",
      "How many items two filters have in common: estimate, low, high",
      "O(N) with N bytes", "0.1.0" },
    { "BG.JACCARD", 3, BG_EXAMINE, CATEGORY_GATE, 1, 2, 1, bgc_jaccard, NULL,
      "name name",
      "How similar the items of two filters are, 0 to 1: estimate, low, high",
      "O(N) with N bytes", "0.1.0" },
    { "BG.ROTATE", 2, BG_CHANGE, BG_AT_NAME, bgc_rotate, NULL, "name",
      "Moves a window to the present time, or to its next period; tells the period",
      "O(N) with N bytes of a generation", "0.1.0" },
    { "BG.REBUILD", -3, BG_CHANGE, BG_AT_NAME, bgc_rebuild, NULL,
      "name <BEGIN capacity [ERROR rate] | ADD item [item ...] | COMMIT | ABORT | STATUS>",
      "Fills a new filter with the items that are handed in, while the old one serves",
      "O(N) with N items", "0.1.0" },
    { "BG.INFO", 2, BG_EXAMINE, BG_AT_NAME, bgc_info, NULL, "name",
      "All that is known of a filter: geometry, items, fill, rates, state",
      "O(N) with N parts, 4 MiB of each at most", "0.1.0" },
    { "BG.VERIFY", 2, BG_EXAMINE, BG_AT_NAME, bgc_verify, NULL, "name",
      "Checks the structure of a filter in memory", "O(N) with N bytes", "0.1.0" },
    { "BG.DIGEST", 2, BG_EXAMINE, BG_AT_NAME, bgc_digest, NULL, "name",
      "A number that is the same for filters of the same make and content",
      "O(N) with N bytes", "0.1.0" },
    { "BG.DUMP", -3, BG_EXAMINE, BG_AT_NAME, dump_bg_dump, NULL,
      "name cursor [SIZE bytes]",
      "Dumps a filter in checked pieces: begin with 0, go on with what comes back, until the one that comes with 0",
      "O(N) with N bytes", "0.1.0" },
    { "BG.LOAD", -2, BG_CHANGE, BG_AT_NAME, dump_bg_load, NULL, "name [chunk]",
      "Loads a piece of a dump, the last one makes the filter; or tells how much has come",
      "O(N) with N bytes", "0.1.0" },
    { "BG.PUBLISH", -3, BG_EXAMINE | COMMAND_ADMIN | COMMAND_WRITES_FILE, BG_AT_FILES,
      bgc_publish, NULL, "name file [VERSIONED]",
      "Writes a filter to a file; tells its digest", "O(N) with N bytes", "0.1.0" },
    { "BG.RELOAD", -3, BG_CHANGE | COMMAND_ADMIN | COMMAND_READS_FILE, BG_AT_FILES,
      bgc_reload, NULL, "name file [DISCARD] [ANYKIND] [WRITABLE]",
      "Makes a filter of a file, or replaces what it has; tells the digest",
      "O(N) with N bytes", "0.1.0" },
    { "BG.LOOKUP", 3, COMMAND_READONLY | COMMAND_DEFERS, BG_AT_NAME, bgc_lookup, NULL,
      "gate key",
      "Whether a key is there: by the filter of a gate, or by the truth behind it",
      "O(1), and a call to the truth if the filter may contain the key", "0.1.0" },
    { "BG.MLOOKUP", -3, BG_EXAMINE, BG_AT_NAME, bgc_mlookup, NULL, "gate key [key ...]",
      "Whether each of several keys is there", "O(N) with N keys", "0.1.0" },
    { "BG.WROTE", -3,
      COMMAND_WRITE | COMMAND_FAST | COMMAND_UNRECORDED | COMMAND_LOADING, BG_AT_NAME,
      bgc_wrote, NULL, "gate key [key ...]",
      "Adds keys that were committed to the source of a gate to its filter",
      "O(N) with N keys", "0.1.0" },
    { "BG.PLAN", -3, BG_EXAMINE | COMMAND_LOADING | COMMAND_STALE, BG_NO_NAME, bgc_plan,
      NULL,
      "items rate [KIND kind] [GROWTH factor] [QPS queries] [ABSENT share] [CALLCOST cost] "
      "[MEMORYCOST cost] [CALLTIME seconds] [LATENCY seconds]",
      "What filter for so many items at that rate, of each kind, and what to expect of it",
      "O(1)", "0.1.0" },
    { "BG.SHARDED", -4, COMMAND_READONLY | COMMAND_LOADING | COMMAND_STALE, BG_NO_NAME,
      bgc_sharded, NULL,
      "<KEYS name shards | SHARD name shards item [item ...] | PLAN items rate shards>",
      "The keys of one filter over a cluster, which of them items belong to, how large they are",
      "O(N) with N shards or items", "0.1.0" },
    { "BG.HELP", 1, BG_READ | COMMAND_LOADING | COMMAND_STALE, BG_NO_NAME, bgc_help,
      NULL, "", "What BG.* there are", "O(1)", "0.1.0" },
    { NULL, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL },
};

/* Whether a host has what a command needs: files, gates. */
static bool bgc_help_tells(const struct command *c, const struct host_ops *ops)
{
    if (c->run == bgc_publish || c->run == bgc_reload) {
        return ops->path != NULL;
    }
    if (c->run == bgc_wrote) {
        return ops->wrote != NULL;
    }
    return (c->run != bgc_lookup && c->run != bgc_mlookup) || ops->lookup != NULL;
}

void bgc_help(struct request *request)
{
    const struct host_ops *ops = request->host->ops;
    size_t n = 0;
    for (const struct command *c = bg_commands; c->name; c++) {
        n += bgc_help_tells(c, ops);
    }
    reply_array(&request->reply, 2 * n);
    for (const struct command *c = bg_commands; c->name; c++) {
        char line[600];
        if (!bgc_help_tells(c, ops)) {
            continue;
        }
        (void)snprintf(line, sizeof line, "%s%s%s", c->name, c->syntax[0] ? " " : "",
                       c->syntax);
        reply_text(&request->reply, line);
        (void)snprintf(line, sizeof line, "    %s.", c->summary);
        reply_text(&request->reply, line);
    }
}
