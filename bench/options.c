/*
 * options.c - command-line parsing for bgbench.
 */
#include "options.h"

#include "bloomgate/all.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char OPTIONS_HELP[] =
    "usage: bgbench SUBCOMMAND [options]\n"
    "\n"
    "  limit        memory limit: time per random 64-byte cache line\n"
    "  hash         hash profiles on keys of 8 to 64 bytes\n"
    "  kinds        memory, false-positive rate and speed of each Bloom kind\n"
    "  others       kinds that remove, count or expire keys, grow, or are immutable\n"
    "  batch        batch adds and lookups compared with the memory limit\n"
    "  single       one call per key\n"
    "  concurrency  locks, shards and atomics, from 1 thread to 2 per core\n"
    "  peers        other libraries, at equal size and at equal rate\n"
    "  files        saving, opening, mapping and verifying a file\n"
    "  scale        filters from cache-sized to much larger than the caches\n"
    "  oplog        the operation log compared with write(), by sync policy\n"
    "  slot         reading a filter while it is swapped or rebuilt\n"
    "  gate         overhead of a gate, and its effect in front of SQLite\n"
    "  admission    cache hit ratios with and without a bouncer; --n: number of requests\n"
    "  registry     looking up tenants by name; --n: number of tenants\n"
    "  all          run every subcommand\n"
    "\n"
    "  --n LIST        numbers of keys: 1e5,1e6,1e7,1e8\n"
    "  --bytes LIST    table sizes for `limit`, file size for `files`: 12Mi,1Gi\n"
    "  --rate P        false-positive rate: 0.01 or 1%\n"
    "  --kind K        measure one kind only: blocked, counting, ...\n"
    "  --peer NAME     measure one peer only: libbloom, RocksDB or LevelDB\n"
    "  --bits B        measure peers at B bits per key only\n"
    "  --lookups-only  do not measure how long peers take to build a filter\n"
    "  --cpu NAME      instruction set: scalar, avx2, avx512 or neon\n"
    "  --seconds S     time per table cell (default: 0.2)\n"
    "  --core C        core to pin to (default: first allowed core)\n"
    "  --json          print one JSON object per line\n"
    "  --help          print this help\n"
    "\n"
    "Examples\n"
    "  bgbench batch --kind blocked --n 1e5,1e8\n"
    "  bgbench peers --n 1e6 --json > peers.jsonl\n"
    "  bgbench limit --bytes 1Mi,128Mi --seconds 1\n"
    "\n"
    "Times are nanoseconds per key: the 5th percentile of many short passes, followed\n"
    "by the best and the median pass. Exit codes: 0 success, 1 a wrong answer was\n"
    "detected, 2 invalid options, 3 other errors, such as out of memory.\n";

_Noreturn void bgb_options_refuse(const char *what, const char *found,
                                  const char *expected)
{
    (void)fprintf(stderr, "bgbench: %s: found %s, expected %s\nTry bgbench --help.\n",
                  what, found, expected);
    exit(2); /* NOLINT(concurrency-mt-unsafe): only one thread is running */
}

/* Parses a number with an optional suffix: 1e6, 10k, 5M, 128Ki, 12Mi, 1Gi. Returns a pointer to the
 * character after the number, or NULL if `text` does not start with a number. */
static const char *options_number(const char *text, double *value)
{
    static const struct {
        const char *suffix;
        double factor;
    } suffixes[] = { { "Ki", 1024.0 }, { "Mi", 1048576.0 }, { "Gi", 1073741824.0 },
                     { "k", 1e3 },     { "M", 1e6 },        { "G", 1e9 } };
    char *end;
    *value = strtod(text, &end);
    if (end == text || !isfinite(*value)) {
        return NULL;
    }
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        size_t len = strlen(suffixes[i].suffix);
        if (strncmp(end, suffixes[i].suffix, len) == 0) {
            *value *= suffixes[i].factor;
            return end + len;
        }
    }
    return end;
}

static size_t options_list(const char *what, const char *text, double least,
                           uint64_t out[BGB_SIZES_MAX])
{
    size_t count = 0;
    for (const char *p = text; count < BGB_SIZES_MAX;) {
        double value;
        p = options_number(p, &value);
        if (!p || value < least || value > 1e12 || (*p != ',' && *p != '\0')) {
            break;
        }
        out[count++] = (uint64_t)llround(value);
        if (*p == '\0') {
            return count;
        }
        p++;
    }
    bgb_options_refuse(what, text, "a list of up to 32 numbers such as 1e5,1e6");
}

static double options_real(const char *what, const char *text, double above,
                           double below)
{
    char *end;
    double value = strtod(text, &end);
    if (*end == '%') {
        value /= 100;
        end++;
    }
    if (end == text || *end != '\0' || !(value > above && value < below)) {
        char expected[80];
        (void)snprintf(expected, sizeof expected, "a number above %g and below %g",
                       above, below);
        bgb_options_refuse(what, text, expected);
    }
    return value;
}

static uint32_t options_kind(const char *text)
{
    bg_kind kind = BG_KIND_AUTO;
    if (!bg_kind_parse(text, &kind)) {
        bgb_options_refuse("--kind", text,
                           "the name of a filter kind: blocked, counting, ...");
    }
    return (uint32_t)kind;
}

static void options_cpu(const char *text)
{
    static const bg_cpu cpus[] = {
#define OPTIONS_CPU(NAME, number, name) BG_CPU_##NAME,
        BG_CPUS(OPTIONS_CPU)
#undef OPTIONS_CPU
    };
    for (size_t i = 0; i < sizeof cpus / sizeof *cpus; i++) {
        if (strcmp(text, bg_cpu_name(cpus[i])) == 0) {
            if (bg_cpu_select(cpus[i]) != BG_OK) {
                bgb_options_refuse("--cpu", text,
                                   "an instruction set that this CPU supports");
            }
            return;
        }
    }
    bgb_options_refuse("--cpu", text, "scalar, avx2, avx512 or neon");
}

/* Stores the value of one option. */
static void options_take(struct bgb_options *o, const char *name, const char *value)
{
    if (strcmp(name, "--n") == 0) {
        o->n_count = options_list(name, value, 1000, o->n);
    } else if (strcmp(name, "--bytes") == 0) {
        o->bytes_count = options_list(name, value, 4096, o->bytes);
    } else if (strcmp(name, "--seconds") == 0) {
        o->seconds = options_real(name, value, 0, 3600);
    } else if (strcmp(name, "--rate") == 0) {
        o->rate = options_real(name, value, 0, 1);
    } else if (strcmp(name, "--kind") == 0) {
        o->kind = options_kind(value);
    } else if (strcmp(name, "--peer") == 0) {
        o->peer = value;
    } else if (strcmp(name, "--bits") == 0) {
        o->bits = options_real(name, value, 1, 64);
    } else if (strcmp(name, "--cpu") == 0) {
        options_cpu(value);
    } else if (strcmp(name, "--core") == 0) {
        o->core = (int)options_real(name, value, -1, 4096);
    } else {
        bgb_options_refuse("option", name, "an option listed by --help");
    }
}

void bgb_options_read(struct bgb_options *o, int argc, char **argv)
{
    memset(o, 0, sizeof *o);
    o->seconds = 0.2;
    o->core = -1;
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i];
        if (strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0) {
            (void)fputs(OPTIONS_HELP, stdout);
            exit(0); /* NOLINT(concurrency-mt-unsafe): only one thread is running */
        }
        if (strcmp(arg, "--json") == 0) {
            o->json = true;
        } else if (strcmp(arg, "--lookups-only") == 0) {
            o->lookups_only = true;
        } else if (arg[0] != '-') {
            if (o->command) {
                bgb_options_refuse("subcommand", arg, "only one");
            }
            o->command = arg;
        } else if (i + 1 < argc) {
            options_take(o, arg, argv[++i]);
        } else {
            bgb_options_refuse(arg, "no value", "a value");
        }
    }
    if (!o->command) {
        (void)fputs(OPTIONS_HELP, stderr);
        exit(2); /* NOLINT(concurrency-mt-unsafe): only one thread is running */
    }
}

size_t bgb_options_sizes(const struct bgb_options *options, const uint64_t *defaults,
                         size_t count, uint64_t out[BGB_SIZES_MAX])
{
    if (options->n_count) {
        defaults = options->n;
        count = options->n_count;
    }
    memcpy(out, defaults, count * sizeof *out);
    return count;
}

bool bgb_options_wants(const struct bgb_options *options, uint32_t kind)
{
    return options->kind == BG_KIND_AUTO || options->kind == kind;
}
