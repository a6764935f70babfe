/*
 * bgbench - how fast is Bloomgate, compared with the limits of the machine?
 *
 * This file finds the subcommand and runs it. The subcommands are in bench_<name>.c. harness.h
 * describes the method, and limit.h describes the memory limit.
 */
#include "bench.h"
#include "harness.h"
#include "machine.h"
#include "options.h"
#include "output.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    void (*run)(const struct bgb_options *options);
} bgbench_commands[] = {
    { "limit", bgb_bench_limit },       { "hash", bgb_bench_hash },
    { "kinds", bgb_bench_kinds },       { "batch", bgb_bench_batch },
    { "single", bgb_bench_single },     { "concurrency", bgb_bench_concurrency },
    { "peers", bgb_bench_peers },       { "scale", bgb_bench_scale },
    { "others", bgb_bench_others },     { "files", bgb_bench_files },
    { "oplog", bgb_bench_oplog },       { "slot", bgb_bench_slot },
    { "gate", bgb_bench_gate },         { "admission", bgb_bench_admission },
    { "registry", bgb_bench_registry },
};

enum { BGBENCH_COMMANDS = sizeof bgbench_commands / sizeof *bgbench_commands };

/* Returns whether `command` selects the i-th subcommand, by name or with "all". */
static int bgbench_named(const char *command, int i)
{
    return strcmp(command, "all") == 0
           || strcmp(command, bgbench_commands[i].name) == 0;
}

int main(int argc, char **argv)
{
    struct bgb_options options;
    bgb_options_read(&options, argc, argv);
    int found = 0;
    for (int i = 0; i < BGBENCH_COMMANDS; i++) {
        found += bgbench_named(options.command, i);
    }
    if (!found) {
        (void)fprintf(stderr, "bgbench: unknown subcommand %s\nTry bgbench --help.\n",
                      options.command);
        return 2;
    }
    bgb_out_begin(options.json);
    bgb_machine_print();
    unsigned first = bgb_machine_core(0);
    bgb_machine_pin(options.core < 0 ? first : (unsigned)options.core);
    for (int i = 0; i < BGBENCH_COMMANDS; i++) {
        if (bgbench_named(options.command, i)) {
            bgbench_commands[i].run(&options);
        }
    }
    bgb_machine_warn();
    return bgb_broken_count() ? 1 : 0;
}
