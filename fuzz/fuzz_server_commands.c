/*
 * fuzz_server_commands.c - runs sequences of commands on real filter objects in a fake host
 * (fake_host.h).
 *
 * An input is a program. Each step runs a command built from a template, or any command with
 * arguments from a dictionary. Arguments can also be chunks of earlier dumps, complete or damaged.
 * In all cases, the following must hold:
 *   - a command sends exactly one reply, a pipeline sends one reply for each item, and errors
 *     have codes;
 *   - objects keep their state when they are moved between commands (object_relocate);
 *   - no lookup answers "no" for an item that was added, unless the item was deleted or its filter
 *     was cleared, replaced or dropped; this also holds for objects restored from the journal.
 */
#define _GNU_SOURCE /* locks, strsep */

#define CHECK_H /* skips check.h, because CHECK must call FUZZ_MUST here */
#include "fuzz.h"
#define CHECK(condition) FUZZ_MUST(condition)
#define CHECK_EQ(a, b)   FUZZ_MUST((uint64_t)(a) == (uint64_t)(b))
#define CHECK_OK(err)    FUZZ_MUST((err) == 0)
#define check_fail(file, line, ...)                                                    \
    do {                                                                               \
        fprintf(stderr, __VA_ARGS__);                                                  \
        abort();                                                                       \
    } while (0)

#include "server/support/fake_host.h"

#include "fuzz_input.h"
#include "fuzz_move.h"

enum { NAMES = 3, ITEMS = 12, STEPS = 48, WORDS = 12 };

static const char *const names[NAMES] = { "a", "b", "c" };

/* %n is a name, %i an item, %c a count, %r a rate, %w any word, %p a chunk of a dump and %s its
 * number; %h is the header of a RedisBloom dump, %b its chunk of bits and %t the number of
 * that chunk. */
static const char *const templates[] = {
    "BF.RESERVE %n %r %c",
    "BF.RESERVE %n %r %c NONSCALING",
    "BF.RESERVE %n %r %c EXPANSION %c",
    "BF.ADD %n %i",
    "BF.ADD %n %i",
    "BF.MADD %n %i %i %i",
    "BF.INSERT %n CAPACITY %c ITEMS %i %i",
    "BF.INSERT %n %w %c ITEMS %i",
    "BF.EXISTS %n %i",
    "BF.MEXISTS %n %i %i",
    "BF.INFO %n",
    "BF.CARD %n",
    "BF.DEBUG %n",
    "CF.RESERVE %n %c",
    "CF.RESERVE %n %c ERROR %r",
    "CF.RESERVE %n %c %w %c",
    "CF.ADD %n %i",
    "CF.ADD %n %i",
    "CF.ADDNX %n %i",
    "CF.INSERT %n ITEMS %i %i %i",
    "CF.INSERTNX %n ITEMS %i %i",
    "CF.DEL %n %i",
    "CF.COUNT %n %i",
    "CF.EXISTS %n %i",
    "CF.COMPACT %n",
    "CF.INFO %n",
    "BF.SCANDUMP %n 0",
    "BF.SCANDUMP %n %s",
    "CF.SCANDUMP %n 0",
    "CF.SCANDUMP %n %s",
    "BF.LOADCHUNK %n %s %p",
    "CF.LOADCHUNK %n %s %p",
    "BF.LOADCHUNK %n 1 %p",
    "BG.DUMP %n 0",
    "BG.DUMP %n 0 SIZE %c",
    "BG.DUMP %n %s SIZE %c",
    "BG.LOAD %n %p",
    "BG.LOAD %n %p",
    "BG.LOAD %n",
    "BG.CREATE %n",
    "BG.CREATE %n CAPACITY %c",
    "BG.CREATE %n KIND %w CAPACITY %c",
    "BG.CREATE %n KIND %w CAPACITY %c ERROR %r",
    "BG.CREATE %n KIND %w CAPACITY %c %w %c",
    "BG.CREATE %n CAPACITY %c FOLDS 3 OVERFILL",
    "BG.CREATE %n WINDOW %c CAPACITY %c",
    "BG.ADD %n %i",
    "BG.ADD %n %i",
    "BG.MADD %n %i %i %i",
    "BG.EXISTS %n %i",
    "BG.MEXISTS %n %i %i",
    "BG.DEL %n %i",
    "BG.DEL %n %i IF %c",
    "BG.COUNT %n %i",
    "BG.OBSERVE %n %i PRESENT",
    "BG.OBSERVE %n %i FALSEPOSITIVE",
    "BG.CLEAR %n",
    "BG.DROP %n",
    "BG.MERGE %n %n",
    "BG.MERGE %n %n %n",
    "BG.FOLD %n",
    "BG.FOLD %n %c",
    "BG.INTERSECTCARD %n %n",
    "BG.JACCARD %n %n",
    "BG.ROTATE %n",
    "BG.REBUILD %n BEGIN %c",
    "BG.REBUILD %n BEGIN %c ERROR %r",
    "BG.REBUILD %n ADD %i %i",
    "BG.REBUILD %n COMMIT",
    "BG.REBUILD %n ABORT",
    "BG.REBUILD %n STATUS",
    "BG.INFO %n",
    "BG.VERIFY %n",
    "BG.DIGEST %n",
    "BG.PLAN %c %r",
    "BG.PLAN %c %r %w %r",
    "BG.LOOKUP gate %i",
    "BF.LOADCHUNK %n 1 %h",
    "BF.LOADCHUNK %n %t %b",
    "BG.MLOOKUP %w %i %i",
    "BG.WROTE %w %i %i",
    "BF.INSERT %n CAPACITY %c ERROR %r TIGHTENING %r SEED 0123456789abcdef0123456789abcdef ITEMS %i",
    "BF.INSERT %n SEED 0123456789abcdef0123456789abcdef EXPANSION %c %w %c ITEMS %i",
    "BF.INSERT %n CAPACITY %c VALIDATESCALETO %c",
};
enum { TEMPLATES = sizeof templates / sizeof *templates };

static const char *const words[] = {
    "KIND",          "CAPACITY",  "ERROR",       "BITS",     "BYTES",     "K",
    "FOLDS",         "WIDTH",     "SHARDS",      "HASH",     "SEED",      "WINDOW",
    "COUNT",         "MANUAL",    "GENERATIONS", "AGED",     "SCATTERED", "ONEWINNER",
    "OVERFILL",      "EXPANSION", "NONSCALING",  "NOCREATE", "ITEMS",     "BUCKETSIZE",
    "MAXITERATIONS", "SIZE",      "IF",          "GROWTH",   "QPS",       "ABSENT",
    "LATENCY",       "CALLTIME",  "BEGIN",       "ADD",      "classic",   "partitioned",
    "blocked",       "split",     "register",    "counting", "cuckoo",    "quotient",
    "fuse",          "scalable",  "window",      "auto",     "fast",      "xxh64",
    "keyed",         "",          "-1",          "nan",      "1e999",     "0x10",
    "\xff\r\n",
};

static const char *const counts[] = {
    "0",
    "1",
    "2",
    "3",
    "5",
    "8",
    "10",
    "64",
    "100",
    "300",
    "1000",
    "5000",
    "1000000",
    "4294967296",
    "1073741824",
    "72057594037927936",
    "18446744073709551615",
    "18446744073709551616",
    "-5",
    "7.5",
};

static const char *const rates[] = { "0.1", "0.01", "0.001", "1e-9",
                                     "0.5", "0",    "1",     "1e-300" };

#define PICK(in, list) ((list)[fuzz_byte(in) % (sizeof(list) / sizeof *(list))])

struct world {
    struct fake host;
    struct fuzz_input in;
    /* The minimum count of each item; 0 if the item need not be present. */
    uint32_t counts[NAMES][ITEMS];
    uint8_t *piece; /* the most recent chunk of a dump */
    size_t piece_bytes;
    uint64_t number; /* the number returned with the chunk */
};

/* ---- Arguments -------------------------------------------------------------------------------------- */

struct arguments {
    bg_bytes argv[WORDS];
    char text[WORDS][40];
    uint8_t *changed; /* a chunk with one byte changed */
    size_t argc;
};

static void put_text(struct arguments *to, const char *text)
{
    (void)snprintf(to->text[to->argc], sizeof to->text[0], "%s", text);
    to->argv[to->argc] = (bg_bytes){ to->text[to->argc], strlen(to->text[to->argc]) };
    to->argc++;
}

/* Appends a chunk as an argument: complete, truncated, with one byte changed, or replaced with
 * bytes from the input. */
static void put_piece(struct world *w, struct arguments *to, bg_bytes bytes)
{
    const uint8_t how = fuzz_byte(&w->in);
    if (how % 8 == 0 || !bytes.data) {
        bytes = (bg_bytes){ w->in.data, w->in.left < 200 ? w->in.left : 200 };
    } else if (how % 8 == 1 && !to->changed) {
        to->changed = fake_copy(bytes.data, bytes.len);
        to->changed[fuzz_u32(&w->in) % (bytes.len ? bytes.len : 1)] ^= how | 1;
        bytes.data = to->changed;
    } else if (how % 8 == 2) {
        bytes.len = fuzz_u32(&w->in) % (bytes.len + 1);
    }
    to->argv[to->argc++] = bytes;
}

/* Returns a chunk from the dump of a RedisBloom filter with one item: the header, or the
 * bits of the filter's only link. */
static bg_bytes redis_piece(bool bits)
{
    static uint8_t dump[4096];
    static size_t used;
    if (!used) {
        bg_foreign *foreign = NULL;
        FUZZ_MUST(
            !bg_foreign_create(BG_FOREIGN_REDISBLOOM, 20, 0.01, NULL, &foreign, NULL));
        FUZZ_MUST(!bg_foreign_add(foreign, "item-1", 6, NULL));
        FUZZ_MUST(!bg_foreign_encode(foreign, dump, sizeof dump, &used, NULL));
        bg_foreign_free(foreign);
    }
    const size_t header = 20 + 53, record = 16;
    return bits ? (bg_bytes){ dump + header + 2 * record, used - header - 2 * record }
                : (bg_bytes){ dump + record, header };
}

static void put_word(struct world *w, struct arguments *to, char what)
{
    char text[32];
    switch (what) {
    case 'n': put_text(to, names[fuzz_byte(&w->in) % NAMES]); break;
    case 'i':
        (void)snprintf(text, sizeof text, "item-%u", fuzz_byte(&w->in) % ITEMS);
        put_text(to, text);
        break;
    case 'c': put_text(to, PICK(&w->in, counts)); break;
    case 'r': put_text(to, PICK(&w->in, rates)); break;
    case 's':
        (void)snprintf(text, sizeof text, "%llu", (unsigned long long)w->number);
        put_text(to, text);
        break;
    case 'p': put_piece(w, to, (bg_bytes){ w->piece, w->piece_bytes }); break;
    case 'h':
    case 'b': put_piece(w, to, redis_piece(what == 'b')); break;
    case 't':
        (void)snprintf(text, sizeof text, "%zu", 1 + redis_piece(true).len);
        put_text(to, text);
        break;
    default: put_text(to, PICK(&w->in, words)); break;
    }
}

static void make_arguments(struct world *w, struct arguments *to)
{
    const uint8_t choice = fuzz_byte(&w->in);
    const char *line = choice < 240 ? templates[choice % TEMPLATES] : NULL;
    char copy[128], *rest = copy, *word = NULL;
    if (line) {
        (void)snprintf(copy, sizeof copy, "%s", line);
        while ((word = strsep(&rest, " ")) != NULL) {
            if (word[0] == '%') {
                put_word(w, to, word[1]);
            } else {
                put_text(to, word);
            }
        }
        return;
    }
    const struct command *c =
        command_at(w->host.table, fuzz_byte(&w->in) % command_count(w->host.table));
    const size_t n = fuzz_byte(&w->in) % (WORDS - 1);
    put_text(to, c->name);
    for (size_t i = 0; i < n; i++) {
        put_word(w, to, "nicrwps"[fuzz_byte(&w->in) % 7]);
    }
}

/* ---- The model ------------------------------------------------------------------------------------- */

static int name_number(bg_bytes name)
{
    return name.len == 1 && *(const char *)name.data >= 'a'
                   && *(const char *)name.data <= 'c'
               ? *(const char *)name.data - 'a'
               : -1;
}

static int item_number(bg_bytes item)
{
    for (int i = 0; i < ITEMS; i++) {
        char text[16];
        const size_t n = (size_t)snprintf(text, sizeof text, "item-%d", i);
        if (item.len == n && memcmp(item.data, text, n) == 0) {
            return i;
        }
    }
    return -1;
}

static void model_forget(struct world *w, int name)
{
    memset(w->counts[name], 0, sizeof w->counts[name]);
}

static void model_add(struct world *w, int name, bg_bytes item)
{
    const int i = item_number(item);
    if (i >= 0) {
        w->counts[name][i]++;
    }
}

/* Records the removal of an item. If the item was a false positive, another item may have been
 * removed, so nothing in this filter need be present anymore. */
static void model_delete(struct world *w, int name, bg_bytes item)
{
    const int i = item_number(item);
    if (i >= 0 && w->counts[name][i]) {
        w->counts[name][i]--;
    } else {
        model_forget(w, name);
    }
}

/* Adds to the model the items that the reply reports as present or, if `only_new` is true, as newly
 * added. The items start at argv[first]. */
static void model_add_list(struct world *w, int name, const struct arguments *a,
                           size_t first, bool only_new)
{
    const struct fake_item *items = w->host.items;
    for (size_t i = 0; i < (size_t)items[0].integer && first + i < a->argc; i++) {
        const struct fake_item *one = &items[1 + i];
        if (one->type != '-' && one->integer >= (only_new ? 1 : 0)) {
            model_add(w, name, a->argv[first + i]);
        }
    }
}

static void model_merge(struct world *w, int name, const struct arguments *a)
{
    for (size_t s = 2; s < a->argc; s++) {
        const int from = name_number(a->argv[s]);
        for (int i = 0; from >= 0 && from != name && i < ITEMS; i++) {
            w->counts[name][i] += w->counts[from][i];
        }
    }
}

static size_t items_word(const struct arguments *a)
{
    size_t i = 2;
    while (i < a->argc && !args_is(a->argv[i], "ITEMS")) {
        i++;
    }
    return i + 1;
}

/* Applies the effect of a successful command to the model. */
static void model_follow(struct world *w, const struct arguments *a)
{
    const struct fake_item *reply = w->host.items;
    const int name = a->argc > 1 ? name_number(a->argv[1]) : -1;
    const bg_bytes c = a->argv[0];
    if (name < 0 || reply->type == '-') {
        return;
    }
    if (args_is(c, "BF.ADD") || args_is(c, "CF.ADD") || args_is(c, "BG.ADD")) {
        model_add(w, name, a->argv[2]);
    } else if (args_is(c, "CF.ADDNX") && reply->integer == 1) {
        model_add(w, name, a->argv[2]);
    } else if (args_is(c, "BF.MADD") || args_is(c, "BG.MADD")) {
        model_add_list(w, name, a, 2, false);
    } else if (args_is(c, "BF.INSERT")) {
        model_add_list(w, name, a, items_word(a), false);
    } else if (args_is(c, "CF.INSERT") || args_is(c, "CF.INSERTNX")) {
        model_add_list(w, name, a, items_word(a), true);
    } else if ((args_is(c, "CF.DEL") || args_is(c, "BG.DEL")) && reply->integer == 1) {
        model_delete(w, name, a->argv[2]);
    } else if (args_is(c, "BG.MERGE")) {
        model_merge(w, name, a);
    } else if (args_is(c, "BG.CLEAR") || args_is(c, "BG.DROP")
               || (args_is(c, "BG.REBUILD") && args_is(a->argv[2], "COMMIT"))) {
        model_forget(w, name);
    }
}

/* Checks that the objects contain every item that must be present. */
static void model_check(struct world *w)
{
    for (int name = 0; name < NAMES; name++) {
        const struct object *object =
            fake_find(&w->host.host, (bg_bytes){ names[name], 1 });
        if (!object || object->shape.kind == BG_KIND_WINDOW) {
            model_forget(w, name); /* dropped, or a window, whose keys expire */
            continue;
        }
        for (int i = 0; i < ITEMS; i++) {
            char text[16];
            const bg_bytes item = { text,
                                    (size_t)snprintf(text, sizeof text, "item-%d", i) };
            uint64_t maybe = 0;
            (void)object_may_contain_many(object, &item, 1, &maybe);
            FUZZ_MUST(maybe || !w->counts[name][i]);
        }
    }
}

/* ---- Steps ----------------------------------------------------------------------------------------- */

/* Stores the reply to a dump command. */
static void keep_piece(struct world *w)
{
    const struct fake_item *items = w->host.items;
    if (w->host.items_count == 3 && items[1].type == ':' && items[2].type == '$') {
        w->number = (uint64_t)items[1].integer;
        if (items[2].n) {
            free(w->piece);
            w->piece = fake_copy(items[2].bytes, items[2].n);
            w->piece_bytes = items[2].n;
        }
    }
}

static void step_pipeline(struct world *w)
{
    static const char *const commands[] = { "BF.ADD",    "CF.ADD",    "BG.ADD",
                                            "BF.EXISTS", "CF.EXISTS", "BG.EXISTS" };
    const char *command = PICK(&w->in, commands);
    const int name = fuzz_byte(&w->in) % NAMES;
    const size_t n = 1 + fuzz_byte(&w->in) % 40;
    static char text[40][16];
    bg_bytes items[40];
    for (size_t i = 0; i < n; i++) {
        const int length =
            snprintf(text[i], sizeof text[i], "item-%u", fuzz_byte(&w->in) % ITEMS);
        items[i] = (bg_bytes){ text[i], (size_t)length };
    }
    (void)fake_pipeline(&w->host, command, names[name], items, n);
    for (size_t i = 0; strstr(command, "ADD") && i < n; i++) {
        if (w->host.items[i].type != '-') {
            model_add(w, name, items[i]);
        }
    }
}

/* Prints the command and its reply if FUZZ_SHOW is set in the environment. */
static void show(const struct world *w, const struct arguments *a)
{
    if (!getenv("FUZZ_SHOW")) {
        return;
    }
    for (size_t i = 0; i < a->argc; i++) {
        char text[64];
        fprintf(stderr, "%s ", args_show(a->argv[i], text));
    }
    fprintf(stderr, "-> %.60s\n", w->host.text);
}

static void step(struct world *w)
{
    struct arguments a = { .argc = 0 };
    if (fuzz_byte(&w->in) % 16 == 0) {
        step_pipeline(w);
        return;
    }
    make_arguments(w, &a);
    (void)fake_argv(&w->host, a.argv, a.argc);
    show(w, &a);
    if (memmem(a.argv[0].data, a.argv[0].len, "DUMP", 4)) {
        keep_piece(w);
    }
    model_follow(w, &a);
    free(a.changed);
}

/* Moves objects between commands, as the module does when its server defragments memory. */
static void move_all(struct fake *host)
{
    for (size_t i = 0; i < host->entries_count; i++) {
        if (host->entries[i].object) {
            object_relocate(&host->entries[i].object, &fuzz_mover);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct world w;
    w = (struct world){ .in = { data, size } };
    fake_begin(&w.host);
    w.host.settings.max_filter_bytes = 1 << 18;
    const uint8_t mode = fuzz_byte(&w.in);
    w.host.protocol = mode & 1 ? 3 : 2;
    w.host.settings.allocator = mode & 2 ? &fuzz_memory : NULL;
    for (int i = 0; i < STEPS && w.in.left; i++) {
        const uint8_t weather = fuzz_byte(&w.in);
        w.host.now += weather; /* occasionally, the disk fails */
        w.host.record_fails = weather == 255 ? BG_EIO : BG_OK;
        w.host.checkpoint_fails = weather == 254 ? BG_EIO : BG_OK;
        w.host.create_fails = weather == 253 ? BG_EQUOTA : BG_OK;
        w.host.forget = w.host.forget || weather == 254 || weather == 255;
        step(&w);
        move_all(&w.host);
        model_check(&w);
    }
    fake_end(&w.host);
    free(w.piece);
    return 0;
}
