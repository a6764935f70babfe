/*
 * bg.c - the table of BG.*: what no other server has, for filters of all kinds and families.
 */
#include "args.h"
#include "dump.h"

const struct command bg_commands[] = {
    { "BG.DUMP", -3, COMMAND_READONLY | COMMAND_SLOW, CATEGORY_GATE, 1, 1, 1,
      dump_bg_dump, NULL, "name cursor [SIZE bytes]",
      "Dumps a filter in checked pieces: begin with 0, go on with what comes back, until 0",
      "O(N) with N bytes", "0.1.0" },
    { "BG.LOAD", -2, COMMAND_WRITE | COMMAND_DENYOOM | COMMAND_SLOW, CATEGORY_GATE, 1,
      1, 1, dump_bg_load, NULL, "name [chunk]",
      "Loads a piece of a dump, the last one makes the filter; or tells how much has come",
      "O(N) with N bytes", "0.1.0" },
    { NULL, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL },
};
