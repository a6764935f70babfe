/*
 * cmd_build.c - bloomgate build: creates a filter file from keys.
 *
 * Size. --items sets the number of keys. Without it, plain files (regular, uncompressed) are read
 * twice; the first pass counts the keys. All other input, such as a pipe, is read once. By default,
 * its keys are added to a `scalable` filter. If another kind was requested, the keys are collected
 * as 8-byte hashes (bg_builder), and the filter is sized afterward. Static kinds are always built
 * from collected hashes. Kinds that can remove keys count how many times a key was added, so their
 * keys are collected with duplicates (struct build_pile). Without --items, the keys of cuckoo
 * filters are always collected, so that copies can be added last (build_finish_pile).
 *
 * Long builds. With --checkpoint, the work is divided into stages (legs). At the end of each leg,
 * all threads pause while the filter is saved as OUT.partial, with the input position in its
 * metadata. --resume starts from that file. A checkpoint contains every key before its position in
 * the input, so no key is lost. It may also contain keys after that position; adding these keys
 * again changes nothing. A checkpoint also records a number that identifies the files already read
 * (identity.h), as they were when the build started. --resume fails if one of these files has
 * changed.
 */
#include "command.h"
#include "filter_file.h"
#include "flow.h"
#include "identity.h"
#include "number.h"
#include "parts.h"
#include "save_options.h"
#include "spec_options.h"
#include "spool.h"
#include "stop.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct build_options {
    struct common common;
    struct spec_options spec;
    struct hash_options hash;
    struct key_options keys;
    bool force, resume, no_canaries;
    uint64_t threads, generation;
    const char *note, *shard;
    double checkpoint;
};

#define OPT_STRUCT struct build_options
static const struct option build_table[] = {
    OPT_FLAG("force", 'f', force, "overwrite OUT"),
    OPT_COUNT("threads", 't', threads, "N", "number of threads (default: all cores)"),
    OPT_COUNT("generation", 'g', generation, "N",
              "user-defined generation number stored in the file"),
    OPT_TEXT("note", 0, note, "TEXT", "user-defined text stored in the file"),
    OPT_FLAG("no-canaries", 0, no_canaries, "do not embed self-test keys (canaries)"),
    OPT_TEXT("shard", 0, shard, "I/N",
             "read only part I of N of the input (see merge)"),
    OPT_SECONDS("checkpoint", 0, checkpoint, "TIME",
                "checkpoint to OUT.partial at this interval, e.g. 5m"),
    OPT_FLAG("resume", 0, resume, "continue from OUT.partial"),
    OPT_END,
};

/* The capacity of the first layer of a scalable filter if the number of keys is unknown. */
enum { BUILD_FIRST_LAYER = 1 << 20 };

enum { BUILD_CUT = 1024 }; /* maximum length of the text that build_cut writes */

/*
 * Hashes of keys in order of arrival, including duplicates. A bg_builder creates a filter from a
 * set of keys, so a key that occurs twice is added only once. Kinds that can remove keys
 * (BG_TRAIT_REMOVE) count how many times a key was added, and a key is deleted only after it has
 * been removed that many times. Keys for these kinds are therefore collected here.
 */
struct build_pile {
    uint64_t *hashes;
    size_t count, room;
};

struct build {
    const struct build_options *options;
    const char *path;
    struct key_format format;
    struct input input;
    struct secret secret;
    struct flow flow;
    struct progress progress;
    bg_spec spec;
    bg_filter *filter;   /* receives the keys */
    bg_loader *loader;   /* adds the keys to the filter, or NULL */
    bg_builder *builder; /* collects the hashes of the keys, or NULL */
    bool piles;          /* whether hashes are collected in `pile`, with duplicates */
    struct build_pile pile;
    bg_hasher hasher;       /* computes the hashes for `pile` */
    uint64_t *files;        /* identity of each input file for checkpoints, or NULL */
    uint64_t whole;         /* identity of the whole input, if building a part */
    bool refuses;           /* whether filters of this kind can become full */
    bool has_canaries;      /* whether the checkpoint already contains the canaries */
    char made[SPEC_RECORD]; /* filter options, for checkpoints; "" if unknown */
    atomic_bool full;       /* whether the filter is full and the error was reported */
    atomic_uint_fast64_t keys, news;
};

/* ---- Keys ------------------------------------------------------------------------------------ */

static bool build_insert(struct flow *flow, bg_keys keys)
{
    struct build *b = flow->context;
    size_t done = keys.count, news = 0;
    const bg_err err = b->refuses ? filter_insert(b->filter, keys, &done, &news)
                                  : bg_loader_add_many(b->loader, keys, &news);
    atomic_fetch_add(&b->keys, done);
    atomic_fetch_add(&b->news, news);
    if (err && !atomic_exchange(&b->full, true)) {
        (void)say_full("the filter is full after %s keys; increase --items",
                       COUNT_TEXT(atomic_load(&b->keys)));
    }
    return !err || flow_fail(flow, CLI_FULL);
}

static bool build_add(struct flow *flow, struct chunk *chunk)
{
    return build_insert(flow, bg_keys_bytes(chunk->keys, chunk->count));
}

static bool build_add_hashes(struct flow *flow, struct chunk *chunk)
{
    return build_insert(flow, bg_keys_hashes(chunk->hashes, chunk->count));
}

/* Returns false and changes nothing if memory runs out. */
static bool build_pile_add(struct build_pile *pile, const uint64_t *hashes, size_t n)
{
    if (pile->room - pile->count < n) {
        const size_t more = pile->room + pile->room / 2 + 1024;
        const size_t room = n > more - pile->count ? pile->count + n : more;
        uint64_t *grown = room <= SIZE_MAX / sizeof *grown
                              ? realloc(pile->hashes, room * sizeof *grown)
                              : NULL;
        if (!grown) {
            return false;
        }
        pile->hashes = grown;
        pile->room = room;
    }
    memcpy(pile->hashes + pile->count, hashes, n * sizeof *hashes);
    pile->count += n;
    return true;
}

static bool build_hash(struct flow *flow, struct chunk *chunk)
{
    const struct build *b = flow->context;
    if (!chunk_reserve_hashes(chunk, chunk->count)) {
        return flow_fail(flow, CLI_FULL);
    }
    const bg_hasher *hasher = b->filter ? bg_filter_hasher(b->filter) : &b->hasher;
    bg_hash_many(hasher, bg_keys_bytes(chunk->keys, chunk->count), chunk->hashes);
    return true;
}

static bool build_collect(struct flow *flow, struct chunk *chunk)
{
    struct build *b = flow->context;
    if (b->piles ? !build_pile_add(&b->pile, chunk->hashes, chunk->count)
                 : bg_builder_add_many(b->builder,
                                       bg_keys_hashes(chunk->hashes, chunk->count))
                       != BG_OK) {
        return flow_fail(
            flow, say_full("out of memory: collecting keys takes 8 bytes per key; set "
                           "--items to avoid collecting them"));
    }
    atomic_fetch_add(&b->keys, chunk->count);
    return true;
}

/* ---- Size ------------------------------------------------------------------------------------ */

/* Counts the keys, in the first of two passes. */
static int build_count_keys(struct build *b)
{
    const struct flow like = { .format = &b->format,
                               .threads = flow_threads(b->options->threads) };
    const int code = flow_count(&like, &b->input, &b->spec.items);
    b->spec.items = b->spec.items ? b->spec.items : 1;
    return code;
}

static bool build_is_static(bg_kind kind)
{
    return (bg_kind_traits(kind) & BG_TRAIT_STATIC) != 0;
}

/* Returns whether keys are collected before the filter is created. */
static bool build_collects(const struct build *b)
{
    const bg_kind kind = (bg_kind)b->spec.kind;
    return build_is_static(kind)
           || (!b->spec.items && kind != BG_KIND_AUTO && kind != BG_KIND_SCALABLE
               && kind != BG_KIND_WINDOW && !(b->spec.bytes && b->spec.k));
}

/* Returns whether all keys are collected even if the input can be read twice; see
 * build_finish_pile. A checkpoint would have to contain the collected keys. */
static bool build_adds_copies_last(const struct build *b)
{
    return b->spec.kind == BG_KIND_CUCKOO && !(b->options->checkpoint > 0);
}

static int build_size(struct build *b)
{
    int code = CLI_OK;
    if (!(b->spec.rate > 0) && !(b->spec.bits_per_key > 0) && !b->spec.bytes) {
        b->spec.rate = 0.01;
    }
    const bool static_kind = build_is_static((bg_kind)b->spec.kind);
    const bool known = b->spec.items || static_kind || (b->spec.bytes && b->spec.k);
    if (!known && b->input.part.n > 1) {
        return say_usage("--shard requires --items for the whole input, so that all "
                         "parts have the same size and can be merged");
    }
    if (!known && input_is_plain(&b->input) && !build_adds_copies_last(b)) {
        code = build_count_keys(b);
    } else if (!known && b->spec.kind == BG_KIND_WINDOW) {
        return say_usage("a window filter requires --items (the number of distinct "
                         "keys) if the input is not an uncompressed regular file");
    } else if (!known
               && (b->spec.kind == BG_KIND_AUTO || b->spec.kind == BG_KIND_SCALABLE)) {
        b->spec.kind = BG_KIND_SCALABLE;
        b->spec.items = BUILD_FIRST_LAYER;
        if (!(b->spec.rate > 0)) {
            return say_usage("--bits-per-key and --bytes require --items if the input "
                             "is not an uncompressed regular file; set --items, or use "
                             "--rate instead");
        }
    }
    return code;
}

/* Returns whether the order of the keys determines the filter's contents: they go to the layer or
 * generation that is current, or to the slot that is free. Such keys are hashed in parallel, but
 * added in the order of the input, so that builds from the same input are equal. */
static bool build_keeps_order(const struct build *b)
{
    const bg_kind kind = (bg_kind)b->spec.kind;
    return kind == BG_KIND_SCALABLE || kind == BG_KIND_WINDOW
           || (bg_kind_traits(kind) & BG_TRAIT_FILLS_UP) != 0;
}

/* Returns whether each thread can have exclusive use of a part of the filter's memory, or only one
 * thread at a time adds keys. */
static bool build_is_divided(const struct build *b)
{
    return flow_threads(b->options->threads) == 1 || build_keeps_order(b)
           || b->spec.kind == BG_KIND_AUTO || b->spec.kind == BG_KIND_BLOCKED
           || b->spec.kind == BG_KIND_SPLIT;
}

/* A window forgets its canaries, so it has none. */
static bool build_has_canaries(const struct build *b)
{
    return !b->options->no_canaries && b->spec.kind != BG_KIND_WINDOW;
}

static int build_make_filter(struct build *b)
{
    bg_errinfo why;
    b->spec.flags |= build_is_divided(b) ? BG_SPEC_EXCLUSIVE : 0;
    if (bg_filter_create(&b->spec, &b->filter, &why)) {
        return spec_refuse(&why);
    }
    const uint32_t traits = bg_kind_traits(bg_filter_kind(b->filter));
    b->refuses = (traits & BG_TRAIT_FILLS_UP) != 0;
    return CLI_OK;
}

static int build_make(struct build *b)
{
    bg_errinfo why;
    spec_record(&b->spec, b->made);
    b->spec.canaries = build_has_canaries(b) ? BG_CANARY_COUNT : 0;
    b->spec.hash = b->secret.hash;
    if (!build_collects(b)) {
        return build_make_filter(b);
    }
    b->piles = (bg_kind_traits((bg_kind)b->spec.kind) & BG_TRAIT_REMOVE) != 0;
    return bg_hasher_init(&b->hasher, &b->spec.hash, &why)
                   || bg_builder_create(&b->spec, &b->builder, &why)
               ? spec_refuse(&why)
               : CLI_OK;
}

/* ---- Input identity -------------------------------------------------------------------------- */

/* Describes how the input is split into records and fields; the recipe is not included. Options
 * that version 0.1 did not have are appended only if they are set, so that its checkpoints remain
 * valid. */
static void build_cut(const struct build *b, char text[BUILD_CUT])
{
    const struct key_format *f = &b->format;
    const struct key_options *o = &b->options->keys;
    (void)snprintf(text, BUILD_CUT, "%d %d %d %" PRIu64 " %d %d%s%s%s%s%s%s",
                   (int)f->records, f->separator, f->delimiter, f->field, f->crlf,
                   b->input.raw, f->header ? " header" : "",
                   f->blanks ? " whitespace" : "", f->name ? " name " : "",
                   f->name ? f->name : "", o->json ? " json " : "",
                   o->json ? o->json : "");
}

/* Computes a number that identifies the content of all input files and how they are split into
 * records. The number is the same for copies of the files on other machines. */
static int build_identify_whole(const struct build *b, uint64_t *whole)
{
    char text[BUILD_CUT];
    int code = CLI_OK;
    build_cut(b, text);
    *whole = identity_text(text);
    for (size_t i = 0; i < b->input.count && !code; i++) {
        uint64_t one = 0;
        code = identity_find(b->input.paths[i], IDENTITY_CONTENT, &one);
        *whole = identity_mix(*whole, one);
    }
    return code;
}

/* Identifies the input before any key is read, so that changes during the build are detected. */
static int build_identify(struct build *b)
{
    const struct build_options *o = b->options;
    int code = b->input.part.n > 1 ? build_identify_whole(b, &b->whole) : (int)CLI_OK;
    if (code || (!(o->checkpoint > 0) && !o->resume)) {
        return code;
    }
    b->files = calloc(b->input.count, sizeof *b->files);
    if (!b->files) {
        return say_full("out of memory");
    }
    for (size_t i = 0; i < b->input.count && !code; i++) {
        code = identity_find(b->input.paths[i], IDENTITY_FILE, &b->files[i]);
    }
    return code;
}

/* Checks that the input did not change while a part was being built, because parts fit together
 * only if they were all built from the same input. */
static int build_check_part(const struct build *b)
{
    uint64_t now = 0;
    const int code = b->input.part.n > 1 ? build_identify_whole(b, &now) : (int)CLI_OK;
    return code || b->input.part.n <= 1 || now == b->whole
               ? code
               : say_data("the input changed while it was being read; build all parts "
                          "again once the input is complete");
}

/* Returns the number of files read completely or partially up to a position. */
static size_t build_files_read(const struct build *b, size_t at, uint64_t offset)
{
    const size_t n = at + (offset > 0);
    return n < b->input.count ? n : b->input.count;
}

/* Computes a number that identifies the files read up to a position. */
static uint64_t build_input_read(const struct build *b, size_t at, uint64_t offset)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < build_files_read(b, at, offset); i++) {
        sum = identity_mix(sum, b->files[i]);
    }
    return sum;
}

/* ---- Saving ---------------------------------------------------------------------------------- */

static bool build_solving(void *context, double share)
{
    struct build *b = context;
    progress_tick(&b->progress,
                  (uint64_t)(share * (double)(8 * bg_builder_count(b->builder))),
                  8 * bg_builder_count(b->builder));
    return !stop_wanted();
}

enum { BUILD_BATCH = 1 << 16 };

/* Adds the hashes that the filter does not report yet, and keeps only the others in the pile. */
static bg_err build_add_first(struct build *b)
{
    struct build_pile *pile = &b->pile;
    const size_t count = pile->count;
    bg_err err = BG_OK;
    pile->count = 0;
    for (size_t i = 0; i < count && !err; i++) {
        const uint64_t hash = pile->hashes[i];
        if (i % BUILD_BATCH == 0 && stop_wanted()) {
            return BG_ECANCELED;
        }
        if (bg_filter_may_contain_hash(b->filter, hash)) {
            pile->hashes[pile->count++] = hash;
        } else {
            err = bg_filter_add_hash(b->filter, hash, NULL);
        }
    }
    return err;
}

static bg_err build_add_pile(struct build *b)
{
    bg_err err = BG_OK;
    for (size_t at = 0, done = 0, news; at < b->pile.count && !err; at += done) {
        const size_t left = b->pile.count - at;
        const size_t n = left < BUILD_BATCH ? left : BUILD_BATCH;
        if (stop_wanted()) {
            return BG_ECANCELED;
        }
        err = filter_insert(b->filter, bg_keys_hashes(b->pile.hashes + at, n), &done,
                            &news);
    }
    return err;
}

/* Creates the filter from the keys that were collected with duplicates. In a cuckoo filter, the
 * copies of a key share two buckets, and can leave no space for a new key although the filter is
 * large enough for all keys. Copies are therefore added last: a copy that does not fit only makes
 * removes less effective. */
static int build_finish_pile(struct build *b)
{
    const size_t keys = b->pile.count - b->spec.canaries;
    b->spec.items = keys ? keys : 1;
    const int code = build_make_filter(b);
    bg_err err = code ? BG_OK : build_add_first(b);
    err = code || err ? err : build_add_pile(b);
    if (err == BG_ECANCELED) {
        return CLI_INTERRUPTED;
    }
    return code || !err
               ? code
               : say_failed(
                   say_code(err),
                   "the filter became full before all keys were added; increase "
                   "--items");
}

static int build_finish(struct build *b)
{
    bg_errinfo why;
    if (!b->builder) {
        return CLI_OK;
    }
    if (b->piles) {
        return build_finish_pile(b);
    }
    progress_begin(&b->progress, "building");
    bg_builder_on_progress(b->builder, build_solving, b);
    const bg_err err = bg_builder_finish_threaded(
        b->builder, flow_threads(b->options->threads), &b->filter, &why);
    progress_end(&b->progress);
    return err ? say_error(NULL, &why) : CLI_OK;
}

static int build_save(struct build *b, const char *path, const char *note)
{
    bg_save_options how = BG_SAVE_OPTIONS_INIT;
    char metadata[BG_METADATA_MAX], notes[BG_METADATA_MAX], part[PARTS_LINE] = "";
    if (b->input.part.n > 1) {
        parts_line((uint32_t)b->input.part.i, (uint32_t)b->input.part.n, b->whole,
                   part);
    }
    (void)snprintf(notes, sizeof notes, "%s%s%s", part, *part && note ? "\n" : "",
                   note ? note : "");
    filter_metadata(&b->format, *notes ? notes : NULL, metadata);
    how.generation = b->options->generation;
    how.metadata = metadata;
    how.progress = saving_progress;
    how.context = &b->progress;
    memcpy(how.key_id, b->secret.key_id, sizeof how.key_id);
    progress_begin(&b->progress, "saving");
    const int code = filter_save(b->filter, path, &how);
    progress_end(&b->progress);
    return code;
}

static bool build_canary(struct build *b, const uint8_t key[BG_CANARY_BYTES])
{
    if (b->piles) {
        const uint64_t hash = bg_hash_bytes(&b->hasher, key, BG_CANARY_BYTES);
        return build_pile_add(&b->pile, &hash, 1);
    }
    if (b->builder) {
        return bg_builder_add(b->builder, key, BG_CANARY_BYTES) == BG_OK;
    }
    return bg_filter_add(b->filter, key, BG_CANARY_BYTES, NULL) == BG_OK;
}

static bool build_canaries(struct build *b)
{
    bool good = true;
    for (uint32_t i = 0; i < BG_CANARY_COUNT && build_has_canaries(b) && good; i++) {
        uint8_t key[BG_CANARY_BYTES];
        bg_canary(b->options->generation, i, key);
        good = build_canary(b, key);
    }
    return good;
}

/* ---- Checkpoints ----------------------------------------------------------------------------- */

enum { BUILD_PATH = 4096, BUILD_LEG = 64 << 20 };

static const char build_mark[] = "build: "; /* position and command */
static const char build_input_mark[] =
    "build-input: "; /* identity of the files read; not written by version 0.1 */
static const char build_made_mark[] =
    "build-options: "; /* filter options; not written by version 0.1 */

static int build_partial(const struct build *b, char path[BUILD_PATH])
{
    const int n = snprintf(path, BUILD_PATH, "%s.partial", b->path);
    return n > 0 && n < BUILD_PATH ? CLI_OK
                                   : say_refused("%s: path is too long", b->path);
}

/* Computes a number that identifies a build command. It depends on the files and their order, the
 * part of the input to read, and how the input is split into records and fields. */
static uint64_t build_fingerprint(const struct build *b)
{
    uint64_t sum = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    char cut[BUILD_CUT], text[BUILD_CUT + 64];
    build_cut(b, cut);
    (void)snprintf(text, sizeof text, "%s %" PRIu64 "/%" PRIu64 " %zu", cut,
                   b->input.part.i, b->input.part.n, b->input.count);
    for (size_t i = 0; i <= b->input.count; i++) {
        const char *at = i ? b->input.paths[i - 1] : text;
        do {
            sum = (sum ^ (unsigned char)*at) * UINT64_C(0x100000001b3);
        } while (*at++);
    }
    return sum;
}

static int build_checkpoint(struct build *b)
{
    char path[BUILD_PATH], note[512];
    int code = build_partial(b, path);
    (void)snprintf(note, sizeof note,
                   "%s%zu %" PRIu64 " %" PRIuFAST64 " %" PRIu64 " %" PRIu64
                   "\n%s%" PRIu64 "%s%s%s",
                   build_mark, b->input.at, flow_offset(&b->flow),
                   atomic_load(&b->keys), b->input.size, build_fingerprint(b),
                   build_input_mark,
                   build_input_read(b, b->input.at, flow_offset(&b->flow)),
                   *b->made ? "\n" : "", *b->made ? build_made_mark : "", b->made);
    return code ? code : build_save(b, path, note);
}

/* Reads the input position from a checkpoint, which the same command must have written. */
static int build_read_mark(const char *path, const bg_file_info *about, struct build *b,
                           size_t *at, uint64_t *offset)
{
    const char *mark = strstr(about->metadata, build_mark);
    uint64_t numbers[5];
    char *end = mark ? (char *)(uintptr_t)mark + sizeof build_mark - 1 : NULL;
    char was[KEY_RECIPE], now[KEY_RECIPE];
    for (int i = 0; i < 5 && end; i++) {
        char *from = end;
        numbers[i] = strtoull(from, &end, 10);
        end = end == from ? NULL : end;
    }
    if (!end) {
        return say_data("%s: not a build checkpoint", path);
    }
    if (numbers[3] != b->input.size) {
        return say_data("%s: the input has changed: it had %" PRIu64
                        " bytes and now has %" PRIu64
                        "; start over with -f instead of --resume",
                        path, numbers[3], b->input.size);
    }
    filter_read_recipe(about->metadata, was);
    keys_recipe(&b->format, now);
    if (strcmp(was, now) != 0) {
        return say_data("%s: the checkpoint was written with different key options "
                        "('%s', not '%s'); use the same --trim, --lower and --as",
                        path, was, now);
    }
    if (numbers[4] != build_fingerprint(b)) {
        return say_data("%s: the checkpoint was written with different arguments; use "
                        "the same files in the same order, and the same record, field "
                        "and --shard options",
                        path);
    }
    *at = (size_t)numbers[0];
    *offset = numbers[1];
    atomic_store(&b->keys, numbers[2]);
    return CLI_OK;
}

/* Checkpoints from version 0.1 do not record which files were read. For these checkpoints, only
 * changes made after the checkpoint was written can be detected. */
static int build_check_age(const struct build *b, const char *path, size_t files,
                           uint64_t created)
{
    int code = CLI_OK;
    for (size_t i = 0; i < files && !code; i++) {
        time_t changed;
        code = identity_changed(b->input.paths[i], &changed);
        if (!code && (changed < 0 || (uint64_t)changed >= created)) {
            code = say_data("%s: %s may have changed since the checkpoint; start over "
                            "with -f instead of --resume",
                            path, b->input.paths[i]);
        }
    }
    return code;
}

/* Checks that the files read so far are unchanged. */
static int build_check_input(const struct build *b, const char *path,
                             const bg_file_info *about, size_t at, uint64_t offset)
{
    const char *mark = strstr(about->metadata, build_input_mark);
    if (!mark) {
        return build_check_age(b, path, build_files_read(b, at, offset),
                               about->created);
    }
    return strtoull(mark + sizeof build_input_mark - 1, NULL, 10)
                   == build_input_read(b, at, offset)
               ? CLI_OK
               : say_data("%s: files that were already read have changed since the "
                          "checkpoint; start over with -f instead of --resume",
                          path);
}

/* Checks that the options match the options recorded in the checkpoint. */
static int build_check_options(struct build *b, const char *path,
                               const bg_file_info *about)
{
    const char *mark = strstr(about->metadata, build_made_mark);
    const char *made = mark ? mark + sizeof build_made_mark - 1 : NULL;
    if (made) {
        (void)snprintf(b->made, sizeof b->made, "%.*s", (int)strcspn(made, "\n"), made);
    }
    return spec_expect(path, about, made ? b->made : NULL, &b->options->spec,
                       &b->options->hash);
}

static int build_resume(struct build *b)
{
    char path[BUILD_PATH];
    const struct open_options how = { .keyring = b->options->hash.keyring };
    bg_file_info about = { .struct_size = sizeof about };
    struct filter_file file;
    size_t at = 0;
    uint64_t offset = 0;
    int code = build_partial(b, path);
    if (!code
        && !bg_file_get_info(path, &about, NULL)) { /* filter_open reports any error */
        b->spec.kind = about.kind;
    }
    code = code
               ? code
               : filter_open(path, &how,
                             FILTER_OURS | (build_is_divided(b) ? FILTER_EXCLUSIVE : 0),
                             KEY_TEXT, &file);
    if (code) {
        return code;
    }
    code = build_read_mark(path, &file.about, b, &at, &offset);
    code = code ? code : build_check_input(b, path, &file.about, at, offset);
    code = code ? code : build_check_options(b, path, &file.about);
    b->spec.bytes = spec_recorded_bytes(b->made);
    b->filter = file.filter;
    b->refuses = (bg_kind_traits(bg_filter_kind(b->filter)) & BG_TRAIT_FILLS_UP) != 0;
    b->has_canaries = file.about.present_canaries > 0
                      && file.about.canary_generation == b->options->generation;
    memcpy(b->secret.key_id, file.about.key_id, sizeof b->secret.key_id);
    file.filter = NULL;
    filter_close(&file);
    return code ? code : input_go_to(&b->input, at, offset);
}

/* ---- Command --------------------------------------------------------------------------------- */

/* Runs the build in legs. After a leg that took at least half of the requested interval, saves a
 * checkpoint; after a shorter leg, doubles the length of the legs. */
static int build_run_legs(struct build *b)
{
    int code = CLI_OK;
    b->flow.leg = BUILD_LEG;
    while (!code) {
        struct progress watch;
        progress_begin(&watch, NULL);
        code = flow_run(&b->flow);
        if (code || !flow_has_more(&b->flow)) {
            break;
        }
        const double took = progress_seconds(&watch);
        if (took < b->options->checkpoint / 2) {
            b->flow.leg *= 2;
            continue;
        }
        code = build_checkpoint(b);
    }
    return code;
}

static int build_run(struct build *b)
{
    const bool ordered = build_keeps_order(b);
    bg_errinfo why;
    if (b->filter && !b->refuses && bg_loader_create(b->filter, &b->loader, &why)) {
        return say_error(NULL, &why);
    }
    b->flow = (struct flow){ .input = &b->input,
                             .format = &b->format,
                             .threads = flow_threads(b->options->threads),
                             .progress = &b->progress,
                             .tells_empty = true,
                             .resumed = b->options->resume,
                             .work = b->builder || ordered ? build_hash : build_add,
                             .deliver = b->builder ? build_collect
                                        : ordered  ? build_add_hashes
                                                   : NULL,
                             .context = b };
    progress_begin(&b->progress, "reading");
    flow_begin(&b->flow);
    const int code =
        b->options->checkpoint > 0 ? build_run_legs(b) : flow_run(&b->flow);
    progress_end(&b->progress);
    return flow_end(&b->flow, code);
}

/* Refuses a filter whose rate is far above the requested rate, because more keys were read than
 * --items specifies. A smaller difference, or a size that was chosen with --bytes, only causes a
 * warning. Returns an exit code. */
static int build_check_rate(const struct build *b)
{
    bg_filter_info info = { .struct_size = sizeof info };
    const bool sized = b->spec.bytes > 0 || !*b->made; /* or the size is unknown */
    if (sized || bg_filter_get_info(b->filter, &info) || !filter_misses_rate(&info)
        || !filter_rate_is_excessive(info.rate, info.design_rate)) {
        return CLI_OK;
    }
    const struct filter_excess excess = { info.rate, info.design_rate,
                                          info.design_items, atomic_load(&b->keys) };
    return filter_refuse_excess(&excess, b->input.part.n > 1 ? " in the whole input"
                                                             : ", or omit it");
}

static void build_tell(const struct build *b, double seconds)
{
    bg_filter_info info = { .struct_size = sizeof info };
    if (bg_filter_get_info(b->filter, &info)) {
        return;
    }
    const uint64_t keys = atomic_load(&b->keys);
    say_note("%s: %s, %s key%s, %s, false-positive rate %s, %s",
             spool_target_name(b->path), bg_kind_name(bg_filter_kind(b->filter)),
             COUNT_TEXT(keys), keys == 1 ? "" : "s",
             BYTES_TEXT(bg_filter_size_bytes(b->filter)),
             RATE_OF_TEXT(info.rate, info.design_rate), SECONDS_TEXT(seconds));
    saving_warn(&info, b->spec.bytes ? "increase --bytes" : "increase --items");
    if (info.kind == BG_KIND_CUCKOO && info.saturated) {
        say_note("copies of repeated keys that did not fit: %s; removes may have no "
                 "effect; if you remove keys, increase --items or use --kind quotient",
                 COUNT_TEXT(info.saturated));
    }
}

static int build_read_shard(const char *text, struct input_part *part)
{
    char *end = NULL;
    if (!text) {
        return CLI_OK;
    }
    part->i = strtoull(text, &end, 10);
    part->n = *end == '/' ? strtoull(end + 1, &end, 10) : 0;
    if (*end || part->i < 1 || part->i > part->n || part->n > PARTS_MAX) {
        return say_usage("--shard: found '%s', expected I/N such as 1/8, with I at "
                         "most N, and N at most %d",
                         text, PARTS_MAX);
    }
    part->i--;
    return CLI_OK;
}

/* Claims OUT. If OUT exists and is not a filter, the error message does not suggest -f: the
 * arguments may be in the wrong order, and -f would overwrite the key file. */
static int build_may_write(const struct build *b)
{
    struct stat about;
    const bool other = !b->options->force && !spool_is_standard(b->path)
                       && stat(b->path, &about) == 0 && S_ISREG(about.st_mode)
                       && about.st_size > 0 && !filter_looks_ours(b->path);
    return other ? say_usage("%s: already exists and is not a bloomgate filter; OUT "
                             "must come before KEYS",
                             b->path)
                 : filter_claim_output(b->path, b->options->force);
}

/* A note must not contain a line in the format in which bloomgate records the key conversion or an
 * input part, because bloomgate trusts such lines. */
static int build_check_note(const char *note)
{
    char recipe[KEY_RECIPE];
    if (parts_are_in(note)) {
        return say_usage("--note: must not contain a line that starts with "
                         "'bloomgate-part: ', which is reserved for --shard");
    }
    filter_read_recipe(note, recipe);
    return *recipe
               ? say_usage("--note: must not contain a line that starts with 'keys: ', "
                           "which is reserved for --trim, --lower and --as")
               : CLI_OK;
}

/* Checks for errors that can be detected before any input is read. */
static int build_check(const struct build *b)
{
    const int code = build_check_note(b->options->note);
    if (code) {
        return code;
    }
    if (b->input.part.n > 1 && b->format.records != KEY_RECORDS_SEPARATED) {
        return say_usage("--shard requires records that end with a newline or NUL");
    }
    if (!(b->options->checkpoint > 0) && !b->options->resume) {
        return CLI_OK;
    }
    if (spool_is_standard(b->path)) {
        return say_usage("--checkpoint and --resume require a file as OUT, not stdout");
    }
    if (build_is_static((bg_kind)b->spec.kind)) {
        return say_usage("--checkpoint and --resume do not support kind %s, which is "
                         "built from all keys at once; choose another --kind",
                         bg_kind_name((bg_kind)b->spec.kind));
    }
    if (!input_is_plain(&b->input)) {
        return say_usage("--checkpoint and --resume require uncompressed regular files "
                         "as input");
    }
    return CLI_OK;
}

/* Without --resume or -f, refuses to overwrite an existing OUT.partial, in case the user forgot
 * --resume. An input file is never overwritten, even with -f. */
static int build_check_partial(const struct build *b)
{
    const struct build_options *o = b->options;
    char path[BUILD_PATH];
    if (!(o->checkpoint > 0) && !o->resume) {
        return CLI_OK;
    }
    const int code = build_partial(b, path);
    if (!code && input_reads(&b->input, path)) {
        return say_usage("%s: the checkpoint would overwrite this input file; choose "
                         "another OUT",
                         path);
    }
    return code || o->resume || o->force || access(path, F_OK) != 0
               ? code
               : say_refused("%s: already exists; use --resume to continue from it, or "
                             "-f to start over",
                             path);
}

static int build_all(struct build *b, const struct arguments *arguments)
{
    const struct build_options *o = b->options;
    struct progress watch;
    struct input_part part = { 0, 1 };
    progress_begin(&watch, NULL);
    int code = build_read_shard(o->shard, &part);
    code = code ? code : build_may_write(b);
    code = code ? code : keys_format(&o->keys, &b->format);
    code = code ? code : spec_fill(&o->spec, &b->spec);
    code = code ? code : secret_current(&o->hash, &b->secret);
    code = code ? code
                : input_begin(&b->input, arguments->items + 1, arguments->count - 1,
                              o->keys.raw, part);
    code = code ? code : build_check_partial(b);
    code = code ? code : build_check(b);
    code = code ? code : build_identify(b);
    if (o->resume) {
        code = code ? code : build_resume(b);
    } else {
        code = code ? code : build_size(b);
        code = code ? code : build_make(b);
    }
    if (!code && !b->has_canaries && !build_canaries(b)) {
        code = say_full("the filter is too small for its canaries; use a larger size "
                        "or --no-canaries");
    }
    code = code ? code : build_run(b);
    code = code ? code : build_check_part(b);
    code = code ? code : build_finish(b);
    code = code ? code : build_check_rate(b);
    code = code ? code : build_save(b, b->path, o->note);
    if (!code) {
        char path[BUILD_PATH];
        if ((o->checkpoint > 0 || o->resume) && !build_partial(b, path)) {
            (void)unlink(path);
        }
        build_tell(b, progress_seconds(&watch));
    }
    return code;
}

static int build_command(void *options, const struct arguments *arguments)
{
    struct build b = { .options = options, .path = arguments->items[0] };
    b.spec = (bg_spec)BG_SPEC_INIT;
    const int code = build_all(&b, arguments);
    bg_loader_free(b.loader);
    bg_filter_free(b.filter);
    bg_builder_free(b.builder);
    free(b.pile.hashes);
    bg_hasher_wipe(&b.hasher);
    secret_free(&b.secret);
    free(b.files);
    input_end(&b.input);
    return code;
}

const struct command command_build = {
    .name = "build",
    .summary = "create a filter file from keys",
    .usage = "[options] OUT [KEYS...]",
    .about =
        "Reads keys from files, or from stdin, and writes a filter built from them "
        "to OUT. OUT is replaced atomically at the end, or is unchanged if anything "
        "fails.\n\nThe default false-positive rate is 1%. Without --items, "
        "uncompressed regular files are read twice, the first time to count their "
        "keys. Keys from a pipe are added to a scalable filter, which starts with a "
        "capacity of 1,048,576 keys (1.7 MiB at 1%) and grows. If another --kind is set, "
        "keys from a pipe are first collected in memory, which takes 8 bytes per key. "
        "Without --items, the keys of cuckoo filters are collected even from files. "
        "Files compressed with gzip, zstd, xz, bzip2 or lz4 are decompressed.\n\nKey "
        "conversions (--trim, --lower, --as) are recorded in the file, and bloomgate "
        "check applies the same conversions to its input.",
    .size = sizeof(struct build_options),
    .arguments = { 1, COMMAND_ANY, "missing argument OUT" },
    .uses = { OPT_GROUP("Building", build_table),
              { &spec_options_group, offsetof(struct build_options, spec) },
              { &key_options_group, offsetof(struct build_options, keys) },
              { &hash_options_group, offsetof(struct build_options, hash) } },
    .examples = { { "bloomgate build --rate 0.1% seen.bg urls.txt",
                    "build a filter from the lines of a file" },
                  { "zcat logs/*.gz | bloomgate build --field 3 --delimiter ' ' u.bg",
                    "build a filter from the third field of each line in a pipe" } },
    .run = build_command,
};
