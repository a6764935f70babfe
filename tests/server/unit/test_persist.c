/*
 * Tests persistence. Random command sequences are compared with an exact model, and the
 * directory is reopened after every few commands, either after an orderly shutdown or after a
 * simulated kill -9. Other tests make the disk fail or fill up at each call in turn, kill the
 * process at each call in turn, and add keys from several threads during snapshots.
 *
 * For each filter name, the model records the minimum count of each key. A command that failed, or
 * whose success was not durable when the process died, may or may not have taken effect.
 */
#define _GNU_SOURCE

#include "persist/state.h"
#include "support/faulty_disk.h"
#include "support/scratch.h"
#include "support/service_world.h"

#include <sys/mman.h>
#include <sys/wait.h>

enum { NAMES = 6, KEYS = 48, GENERATIONS = 4 };

/* ---- The model ------------------------------------------------------------------------------- */

/* The ways in which filters are created. Filters whose `counts` is true support removals. */
static const struct make {
    const char *command, *options;
    bool counts, window;
} makes[] = {
    { "BF.RESERVE", "0.001 20", false, false },
    { "BF.RESERVE", "0.001 400 NONSCALING", false, false },
    { "CF.RESERVE", "16", true, false },
    { "BG.CREATE", "KIND register CAPACITY 400 ERROR 0.001 FOLDS 2", false, false },
    { "BG.CREATE", "KIND counting CAPACITY 4000 ERROR 0.0001 WIDTH 8", true, false },
    { "BG.CREATE", "KIND classic CAPACITY 400 ERROR 0.001 HASH fast", false, false },
    { "BG.CREATE", "KIND window CAPACITY 400 ERROR 0.001 MANUAL GENERATIONS 4", false,
      true },
};
enum { MAKES = sizeof makes / sizeof *makes }; /* MAKES itself: unknown */

struct filter {
    bool there, maybe; /* whether the filter exists, and whether that is uncertain */
    unsigned make;
    uint32_t count[KEYS]; /* minimum count */
    uint32_t moved[KEYS]; /* window rotations since the key was added */
    uint64_t expires;     /* 0: never; 1: unknown */
};

static bool counts(const struct filter *f)
{
    return f->make < MAKES && makes[f->make].counts;
}

static bool is_window(const struct filter *f)
{
    return f->make < MAKES && makes[f->make].window;
}

struct model {
    struct filter filters[NAMES];
    uint64_t random;
};

static uint64_t model_random(struct model *m, uint64_t n)
{
    return check_random_next(&m->random) % n;
}

static const char *name_of(unsigned i)
{
    static const char *const names[NAMES] = { "a", "b", "c", "d", "e", "f" };
    return names[i];
}

/* ---- Commands ----------------------------------------------------------------------------------- */

enum op {
    OP_CREATE,
    OP_ADD,
    OP_MADD,
    OP_REMOVE,
    OP_DROP,
    OP_RENAME,
    OP_COPY,
    OP_MERGE,
    OP_FOLD,
    OP_CLEAR,
    OP_REBUILD,
    OP_ROTATE,
    OP_EXPIRE,
    OP_COMPACT,
    OP_SAVE,
    OPS
};

struct step {
    enum op op;
    unsigned a, b, make, key, n;
    uint64_t expires;
};

/* Returns a random step. Most steps are adds. */
static struct step step_any(struct model *m)
{
    const uint64_t dice = model_random(m, 60);
    struct step step = { .op = dice < OPS ? (enum op)dice
                               : dice % 3 ? OP_ADD
                                          : OP_MADD,
                         .a = (unsigned)model_random(m, NAMES),
                         .b = (unsigned)model_random(m, NAMES),
                         .make = (unsigned)model_random(m, MAKES),
                         .key = (unsigned)model_random(m, KEYS),
                         .n = 1 + (unsigned)model_random(m, 8),
                         .expires = model_random(m, 2) ? 4000000000000 : 0 };
    step.n = step.op == OP_MADD ? step.n : 1;
    const struct filter *f = &m->filters[step.a];
    if (!f->there) {
        step.op = OP_CREATE;
    } else if (step.op == OP_REMOVE && (!counts(f) || f->count[step.key] == 0)) {
        step.op = OP_ADD;
    } else if (step.op == OP_REBUILD && (counts(f) || is_window(f))) {
        step.op = OP_ADD;
    } else if (step.op == OP_ROTATE && !is_window(f)) {
        step.op = OP_SAVE;
    }
    return step;
}

/* Returns a command that consists of the given words, followed by the keys of the step or, if
 * `step` is NULL, all keys in the filter. */
static const char *step_keys(const char *before, const struct filter *f,
                             const struct step *step)
{
    static char text[2048];
    size_t used = (size_t)snprintf(text, sizeof text, "%s", before);
    for (unsigned k = 0; k < KEYS; k++) {
        const bool wanted =
            step ? (k + KEYS - step->key) % KEYS < step->n : f->count[k] > 0;
        if (wanted) {
            used += (size_t)snprintf(text + used, sizeof text - used, " k%u", k);
        }
    }
    return text;
}

static bool good(const char *reply)
{
    return reply[0] != '-';
}

static bool step_rebuild(struct world *w, const char *name, const struct filter *f)
{
    char before[64];
    bool done = good(world_ask(w, "BG.REBUILD %s BEGIN 400", name));
    (void)snprintf(before, sizeof before, "BG.REBUILD %s ADD", name);
    const char *keys = step_keys(before, f, NULL);
    if (done && strcmp(keys, before) != 0) {
        done = good(world_ask(w, "%s", keys));
    }
    done = done && good(world_ask(w, "BG.REBUILD %s COMMIT", name));
    if (!done) {
        (void)world_ask(w, "BG.REBUILD %s ABORT", name);
    }
    return done;
}

/* Runs a step and returns whether it succeeded. */
static bool step_do(struct world *w, const struct model *m, const struct step *step)
{
    const struct filter *f = &m->filters[step->a];
    const char *a = name_of(step->a), *b = name_of(step->b);
    char text[128];
    switch (step->op) {
    case OP_CREATE:
        return good(world_ask(w, "%s %s %s", makes[step->make].command, a,
                              makes[step->make].options));
    case OP_ADD: return good(world_ask(w, "BG.ADD %s k%u", a, step->key));
    case OP_MADD:
        (void)snprintf(text, sizeof text, "BG.MADD %s", a);
        return !strchr(world_ask(w, "%s", step_keys(text, f, step)), '-');
    case OP_REMOVE: return good(world_ask(w, "BG.DEL %s k%u", a, step->key));
    case OP_DROP: return good(world_ask(w, "DEL %s", a));
    case OP_RENAME: return good(world_ask(w, "RENAME %s %s", a, b));
    case OP_COPY: return strcmp(world_ask(w, "COPY %s %s REPLACE", a, b), ":1") == 0;
    case OP_MERGE: return good(world_ask(w, "BG.MERGE %s %s", a, b));
    case OP_FOLD: return good(world_ask(w, "BG.FOLD %s", a));
    case OP_CLEAR: return good(world_ask(w, "BG.CLEAR %s", a));
    case OP_REBUILD: return step_rebuild(w, a, f);
    case OP_ROTATE: return good(world_ask(w, "BG.ROTATE %s", a));
    case OP_EXPIRE:
        return good(step->expires ? world_ask(w, "PEXPIREAT %s %llu", a,
                                              (unsigned long long)step->expires)
                                  : world_ask(w, "PERSIST %s", a));
    case OP_COMPACT: return good(world_ask(w, "CF.COMPACT %s", a));
    case OP_SAVE: return good(world_ask(w, "SAVE"));
    case OPS: break;
    }
    return false;
}

/* ---- Effects on the model ------------------------------------------------------------------------- */

static void filter_add(struct filter *f, unsigned key)
{
    f->count[key] = counts(f) ? f->count[key] + 1 : 1;
    f->moved[key] = 0;
}

static void filter_rotate(struct filter *f)
{
    for (unsigned k = 0; k < KEYS; k++) {
        if (++f->moved[k] >= GENERATIONS - 1) {
            f->count[k] = 0;
        }
    }
}

static void filter_merge(struct filter *f, const struct filter *from)
{
    for (unsigned k = 0; k < KEYS; k++) {
        f->count[k] =
            counts(f) ? f->count[k] + from->count[k] : f->count[k] | from->count[k];
        f->moved[k] = from->moved[k] > f->moved[k] ? from->moved[k] : f->moved[k];
    }
}

/* Applies a step that took effect. */
static void model_done(struct model *m, const struct step *step)
{
    struct filter *f = &m->filters[step->a], *other = &m->filters[step->b];
    switch (step->op) {
    case OP_CREATE: *f = (struct filter){ .there = true, .make = step->make }; break;
    case OP_ADD:
    case OP_MADD:
        for (unsigned i = 0; i < step->n; i++) {
            filter_add(f, (step->key + i) % KEYS);
        }
        break;
    case OP_REMOVE: f->count[step->key]--; break;
    case OP_DROP: *f = (struct filter){ .there = false }; break;
    case OP_RENAME:
    case OP_COPY:
        if (f != other) {
            *other = *f;
            *f = step->op == OP_RENAME ? (struct filter){ .there = false } : *f;
        }
        break;
    case OP_MERGE:
        if (f != other) {
            filter_merge(f, other);
        }
        break;
    case OP_CLEAR: memset(f->count, 0, sizeof f->count); break;
    case OP_ROTATE: filter_rotate(f); break;
    case OP_EXPIRE: f->expires = step->expires; break;
    case OP_REBUILD:
    case OP_FOLD:
    case OP_COMPACT:
    case OP_SAVE:
    case OPS: break;
    }
}

/* `f` and `other` are two possible states of the same filter. Keeps in `f` only the facts that hold
 * in both states. */
static void filter_doubt(struct filter *f, const struct filter *other)
{
    f->maybe = f->maybe || other->maybe || f->there != other->there;
    f->there = f->there || other->there;
    f->expires = f->expires == other->expires ? f->expires : 1;
    for (unsigned k = 0; k < KEYS; k++) {
        f->count[k] = f->count[k] < other->count[k] ? f->count[k] : other->count[k];
        f->moved[k] = f->moved[k] > other->moved[k] ? f->moved[k] : other->moved[k];
    }
}

/* Applies a step that may have taken effect. */
static void model_doubt(struct model *m, const struct step *step)
{
    struct model other = *m;
    model_done(&other, step);
    for (unsigned i = 0; i < NAMES; i++) {
        struct filter *f = &m->filters[i];
        const struct filter *g = &other.filters[i];
        /* the filter may exist now, with unknown content */
        if (!f->there && g->there) {
            const unsigned make = g->make;
            *f = (struct filter){ .make = make, .expires = 1 };
            f->there = f->maybe = true;
        } else if (f->there && g->there && f->make != g->make) {
            memset(f->count, 0, sizeof f->count);
            /* the kind is unknown, so the next check drops the filter */
            f->make = MAKES;
            f->expires = 1;
        } else {
            filter_doubt(f, g);
        }
    }
}

/* ---- Comparing ------------------------------------------------------------------------------------- */

/* The number of lookups of never-added keys that answered "no", and the total number of these
 * lookups. */
static uint64_t denied, asked;

static void filter_check(struct world *w, unsigned i, struct filter *f)
{
    const char *name = name_of(i);
    const bool exists = strcmp(world_ask(w, "EXISTS %s", name), ":1") == 0;
    if (!f->maybe) {
        CHECK_EQ(exists, f->there);
    }
    if (!exists) {
        *f = (struct filter){ .there = false };
        return;
    }
    for (unsigned k = 0; k < KEYS; k++) {
        if (f->count[k] > 0) {
            const char *reply = world_ask(w, "BG.COUNT %s k%u", name, k);
            const unsigned long count = strtoul(reply + 1, NULL, 10);
            const unsigned long least = counts(f) ? f->count[k] : 1;
            if (reply[0] != ':' || count < least) {
                check_fail(__FILE__, __LINE__, "%s k%u: %s, expected %lu", name, k,
                           reply, least);
            }
        }
    }
    if (f->expires != 1) {
        const long long when =
            strtoll(world_ask(w, "PEXPIRETIME %s", name) + 1, NULL, 10);
        CHECK_EQ(when, f->expires ? (long long)f->expires : -1);
    }
    asked++;
    denied += strcmp(world_ask(w, "BG.EXISTS %s nobody-added-this", name), ":0") == 0;
    f->maybe = false;
    if (f->make == MAKES) {
        CHECK_STR(world_ask(w, "DEL %s", name), ":1");
        *f = (struct filter){ .there = false };
    }
}

/* Compares the service with the model, and resolves steps whose outcome was unknown. */
static void model_check(struct world *w, struct model *m)
{
    unsigned n = 0;
    for (unsigned i = 0; i < NAMES; i++) {
        filter_check(w, i, &m->filters[i]);
        n += m->filters[i].there;
    }
    CHECK_EQ(strtoul(world_ask(w, "DBSIZE") + 1, NULL, 10), n);
}

/* Returns the number of filter files whose names end in `ending`, or of all filter files if
 * `ending` is NULL. */
static unsigned count_files(const char *folder, const char *ending)
{
    char path[600];
    unsigned n = 0;
    (void)snprintf(path, sizeof path, "%s/filters", folder);
    DIR *files = opendir(path);
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): a private directory */
    for (const struct dirent *entry; files && (entry = readdir(files)) != NULL;) {
        const char *dot = strrchr(entry->d_name, '.');
        n += entry->d_name[0] != '.' && (!ending || (dot && strcmp(dot, ending) == 0));
    }
    if (files) {
        (void)closedir(files);
    }
    return n;
}

static void empty(const char *folder)
{
    char path[600];
    (void)snprintf(path, sizeof path, "%s/filters", folder);
    (void)mkdir(folder, 0700);
    disk_empty_folder(path);
    disk_empty_folder(folder);
}

static const char *policy_line(unsigned i)
{
    return i % 2 ? "appendfsync always\n" : "appendfsync everysec\n";
}

/* ---- Random sequences -------------------------------------------------------------------------------- */

static struct world w;
/* Whether snapshots write packs (pack.h) instead of one file per filter. */
static bool packing;

static void must_open(const char *folder, const char *lines)
{
    /* skips syncs, because this test does not simulate power loss */
    disk.patient = true;
    if (!world_open(&w, folder, lines)) {
        check_fail(__FILE__, __LINE__, "%s", w.why.message);
    }
    if (packing) {
        w.server.persist->pack_from = 1;
    }
}

/* Runs a step without injected faults. */
static void step_well(struct model *m)
{
    const struct step step = step_any(m);
    const bool done = step_do(&w, m, &step);
    CHECK(world_ack(&w));
    if (done) {
        model_done(m, &step);
    } else { /* the step was refused, but not because of a disk error */
        CHECK(strncmp(w.said, "-MISCONF", 8) != 0 && strncmp(w.said, "-IOERR", 6) != 0);
    }
}

static void end_somehow(struct model *m, bool in_order)
{
    if (in_order) {
        world_close(&w);
    } else {
        const struct step last = step_any(m); /* the process dies before it replies */
        (void)step_do(&w, m, &last);
        model_doubt(m, &last);
        world_crash(&w);
    }
}

TEST(persist__any_sequence_comes_back)
{
    const char *folder = scratch_path("any");
    denied = asked = 0;
    for (unsigned round = 0; round < (CHECK_SANITIZED ? 7 : 20) * check_scale();
         round++) {
        struct model m = { .random = check_random() };
        packing = round % 4 > 1;
        empty(folder);
        must_open(folder, policy_line(round));
        for (unsigned i = 0; i < 300; i++) {
            step_well(&m);
            const uint64_t dice = model_random(&m, 20);
            if (dice < 2) {
                end_somehow(&m, dice == 0);
                must_open(folder, policy_line(round + (unsigned)dice));
                model_check(&w, &m);
            }
        }
        CHECK_STR(world_ask(&w, "SAVE"), "+OK");
        CHECK(count_files(folder, NULL) <= NAMES);
        world_close(&w);
    }
    /* A filter that always replies "maybe" would pass the other checks. */
    CHECK(denied > asked * 9 / 10);
}

/* ---- Packs ------------------------------------------------------------------------------------------- */

enum { MANY = 200 };

static void many_check(unsigned from, unsigned to, const char *key, const char *reply)
{
    for (unsigned i = from; i < to; i++) {
        CHECK_STR(world_ask(&w, "BF.EXISTS f%u %s", i, key), reply);
    }
}

static void many_add(unsigned from, unsigned to, const char *key)
{
    for (unsigned i = from; i < to; i++) {
        CHECK_STR(world_ask(&w, "BF.ADD f%u %s", i, key), ":1");
    }
}

/* Many small filters share a pack file, which is deleted when none of them needs it. */
TEST(persist__small_filters_share_a_pack)
{
    const char *folder = scratch_path("packs");
    packing = false;
    empty(folder);
    must_open(folder, "");
    many_add(0, MANY, "a");
    CHECK_STR(world_ask(&w, "CF.RESERVE large 200000"), "+OK");
    CHECK_STR(world_ask(&w, "CF.ADD large a"), ":1");
    CHECK_STR(world_ask(&w, "SAVE"), "+OK");
    CHECK_EQ(count_files(folder, ".pack"), 1);
    CHECK_EQ(count_files(folder, ".bg"), 1);
    /* the cleanup at startup keeps the pack */
    for (unsigned again = 0; again < 2; again++) {
        world_crash(&w);
        must_open(folder, "");
        many_check(0, MANY, "a", ":1");
        many_check(0, MANY, "b", ":0");
        CHECK_EQ(count_files(folder, ".pack"), 1);
    }
    many_add(0, MANY / 4, "b"); /* more than half of the pack is in use */
    CHECK_STR(world_ask(&w, "SAVE"), "+OK");
    CHECK_EQ(count_files(folder, ".pack"), 1 + (MANY / 4 >= 64));
    many_add(MANY / 4, MANY - 4, "b"); /* the last four filters stay unchanged */
    CHECK_STR(world_ask(&w, "SAVE"), "+OK");
    CHECK_STR(world_ask(&w, "SAVE"), "+OK"); /* the last four filters are saved again */
    CHECK_EQ(count_files(folder, ".pack"), 1);
    world_crash(&w);
    must_open(folder, "");
    many_check(0, MANY, "a", ":1");
    many_check(0, MANY - 4, "b", ":1");
    many_check(MANY - 4, MANY, "b", ":0");
    for (unsigned i = 0; i < MANY; i++) {
        CHECK_STR(world_ask(&w, "DEL f%u", i), ":1");
    }
    CHECK_STR(world_ask(&w, "SAVE"), "+OK");
    CHECK_EQ(count_files(folder, ".pack"), 0);
    world_close(&w);
}

/* After a crash, the replies to these commands must be the same as before, provided that no keys
 * were added during a snapshot. */
static const char *const about[] = { "BF.INFO a",   "BF.INFO b",   "CF.INFO c",
                                     "CF.DEBUG c",  "BF.CARD a",   "BG.DIGEST a",
                                     "BG.DIGEST b", "BG.DIGEST c", "BG.DIGEST d" };
enum { ABOUT = sizeof about / sizeof *about };

/* Fills four filters while taking the given number of snapshots. */
static void figures_make(int snapshots)
{
    for (unsigned i = 0; i < 4; i++) {
        CHECK_STR(
            world_ask(&w, "%s %s %s", makes[i].command, name_of(i), makes[i].options),
            "+OK");
    }
    for (unsigned i = 0; i < 300; i++) {
        for (unsigned f = 0; f < 4; f++) {
            CHECK(good(world_ask(&w, "BG.ADD %s k%u", name_of(f), i)));
        }
        if (i % 3 == 0) {
            CHECK_STR(world_ask(&w, "CF.DEL c k%u", i), ":1");
        }
        if ((i == 150 && snapshots > 0) || (i == 299 && snapshots > 1)) {
            CHECK_STR(world_ask(&w, "SAVE"), "+OK");
        }
    }
    CHECK(world_ack(&w));
}

static void figures_compare(char before[ABOUT][4096])
{
    for (unsigned i = 0; i < ABOUT; i++) {
        if (strcmp(world_ask(&w, "%s", about[i]), before[i]) != 0) {
            check_fail(__FILE__, __LINE__, "%s: %s, expected %s", about[i], w.said,
                       before[i]);
        }
    }
}

TEST(persist__figures_come_back)
{
    static char before[ABOUT][4096];
    const char *folder = scratch_path("figures");
    for (int snapshots = 0; snapshots < 3; snapshots++) {
        empty(folder);
        must_open(folder, "");
        figures_make(snapshots);
        for (unsigned i = 0; i < ABOUT; i++) {
            (void)snprintf(before[i], sizeof before[i], "%s",
                           world_ask(&w, "%s", about[i]));
        }
        for (int again = 0; again < 2; again++) {
            world_crash(&w);
            must_open(folder, "");
            figures_compare(before);
        }
        world_close(&w);
    }
}

/* ---- A disk that fails ---------------------------------------------------------------------------------- */

enum { STORY = 40 };

/* Runs SAVE until changes are accepted again. */
static void heal(void)
{
    char why[BG_ERR_MESSAGE_MAX];
    (void)world_ack(&w);
    for (int i = 0; i < 3 && !persist_works(w.server.persist, why); i++) {
        (void)world_ask(&w, "SAVE");
        (void)world_ack(&w);
    }
    CHECK(persist_works(w.server.persist, why));
}

/* Runs a sequence in which call number `at` fails. Returns whether that call was reached. */
static bool faulty_story(const char *folder, enum disk_fault fault, unsigned long at,
                         unsigned policy)
{
    struct model m = { .random = 7 + policy };
    empty(folder);
    must_open(folder, policy_line(policy));
    disk.calls = 0;
    disk.at = at;
    disk.fault = fault;
    for (unsigned i = 0; i < STORY; i++) {
        const struct step step = step_any(&m);
        const bool done = step_do(&w, &m, &step), safe = world_ack(&w);
        if (done && safe) {
            model_done(&m, &step);
        } else {
            model_doubt(&m, &step);
        }
        if (i % 10 == 9) { /* resolves steps whose outcome is unknown */
            heal();
            model_check(&w, &m);
        }
    }
    const bool happened = disk.calls >= at;
    disk.at = 0;
    world_crash(&w);
    must_open(folder, "");
    model_check(&w, &m);
    for (unsigned i = 0; i < 10; i++) { /* the service continues */
        step_well(&m);
    }
    world_crash(&w);
    must_open(folder, "");
    model_check(&w, &m);
    world_close(&w);
    return happened;
}

/* Returns the interval at which calls are tested: 3 tests every third call. `make soak` tests every
 * call. */
static unsigned long stride(void)
{
    return check_scale() > 1 ? 1 : CHECK_SANITIZED ? 11 : 3;
}

static void fail_everywhere(enum disk_fault fault)
{
    const char *folder = scratch_path("faulty");
    denied = asked = 0;
    for (unsigned policy = 0; policy < 2; policy++) {
        bool happened = true;
        packing = policy == 1;
        for (unsigned long at = 1 + check_random_below(stride()); happened;
             at += stride()) {
            happened = faulty_story(folder, fault, at, policy);
        }
    }
    CHECK(denied > asked * 9 / 10);
}

TEST(persist__a_call_fails)
{
    fail_everywhere(DISK_EIO);
}

TEST(persist__the_disk_is_full)
{
    fail_everywhere(DISK_ENOSPC);
}

TEST(persist__the_disk_is_full_in_the_midst)
{
    fail_everywhere(DISK_HALF_FULL);
}

/* ---- Stopping ------------------------------------------------------------------------------------------ */

/* A running snapshot does not delay shutdown, and nothing is lost if the snapshot is
 * interrupted. */
static void stopping_story(const char *folder)
{
    must_open(folder, "");
    many_add(0, MANY, "a");
    server_stop(false);
    const bool cut = strncmp(world_ask(&w, "SAVE"), "-", 1) == 0;
    _exit(cut && world_ack(&w) ? 0 : 3);
}

TEST(persist__stopping_cuts_a_snapshot_short)
{
    const char *folder = scratch_path("stopping");
    int status = 0;
    empty(folder);
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        stopping_story(folder);
    }
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    must_open(folder, "");
    many_check(0, MANY, "a", ":1");
    world_close(&w);
}

/* ---- Crashes --------------------------------------------------------------------------------------------- */

/* Runs the steps in a child process, and reports in `safe` which steps are durable. */
static void dying_story(const char *folder, enum disk_fault fault, unsigned long at,
                        unsigned policy, unsigned *safe)
{
    struct model m = { .random = 7 + policy };
    must_open(folder, policy_line(policy));
    disk.calls = 0;
    disk.at = at;
    disk.fault = fault;
    for (unsigned i = 0; i < STORY; i++) {
        const struct step step = step_any(&m);
        const bool done = step_do(&w, &m, &step);
        if (!world_ack(&w)) {
            _exit(3);
        }
        if (done) {
            model_done(&m, &step);
        }
        safe[1 + i] = done;
        safe[0] = i + 1;
    }
    _exit(0); /* exits without closing anything */
}

static bool die_at(const char *folder, enum disk_fault fault, unsigned long at,
                   unsigned policy, unsigned *safe)
{
    int status = 0;
    struct model m = { .random = 7 + policy };
    memset(safe, 0, (1 + STORY) * sizeof *safe);
    empty(folder);
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        dying_story(folder, fault, at, policy, safe);
    }
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
    for (unsigned i = 0; i < safe[0]; i++) {
        const struct step step = step_any(&m);
        if (safe[1 + i]) {
            model_done(&m, &step);
        }
    }
    if (safe[0] < STORY) {
        const struct step last = step_any(&m);
        model_doubt(&m, &last);
    }
    must_open(folder, "");
    model_check(&w, &m);
    for (unsigned i = 0; i < 5; i++) {
        step_well(&m);
    }
    world_crash(&w);
    must_open(folder, "");
    model_check(&w, &m);
    world_close(&w);
    return WIFSIGNALED(status);
}

static void die_everywhere(enum disk_fault fault)
{
    const char *folder = scratch_path("dying");
    unsigned *safe =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(safe != MAP_FAILED);
    for (unsigned policy = 0; policy < 2; policy++) {
        bool died = true;
        packing = policy == 1;
        for (unsigned long at = 1 + check_random_below(stride()); died;
             at += stride()) {
            died = die_at(folder, fault, at, policy, safe);
        }
    }
    (void)munmap(safe, 4096);
}

TEST(persist__the_process_dies_before_a_call)
{
    die_everywhere(DISK_STOP_BEFORE);
}

TEST(persist__the_process_dies_after_a_call)
{
    die_everywhere(DISK_STOP_AFTER);
}

/* ---- Threads ------------------------------------------------------------------------------------------------ */

enum { ADDERS = 3, ADDS = 3000 };

struct adder {
    pthread_t thread;
    struct session session;
    struct client client;
    unsigned number;
};

static _Atomic bool adding_ends;

/* Adds keys in batches of several requests, as a worker does. */
static void *adder_run(void *argument)
{
    struct adder *a = argument;
    char text[64];
    struct buffer out;
    buffer_init(&out, 1 << 20);
    const struct reply reply = resp_reply_to(&out, 2);
    for (unsigned i = 0; i < ADDS; i += 4) {
        session_begin(&a->session);
        for (unsigned k = i; k < i + 4; k++) {
            (void)snprintf(text, sizeof text, "k%u-%u", a->number, k);
            const bg_bytes argv[3] = { k % 8 == 7 ? (bg_bytes){ "CF.ADD", 6 }
                                                  : (bg_bytes){ "BF.ADD", 6 },
                                       k % 8 == 7   ? (bg_bytes){ "cf", 2 }
                                       : k % 2 == 0 ? (bg_bytes){ "even", 4 }
                                                    : (bg_bytes){ "odd", 3 },
                                       { text, strlen(text) } };
            do { /* retries while a snapshot is copying the filter */
                session_run(&a->session, &a->client, argv, 3, &reply);
            } while (a->session.deferred);
        }
        session_end(&a->session);
        buffer_clear(&out, 4096);
    }
    buffer_free(&out);
    return NULL;
}

static void *saver_run(void *unused)
{
    (void)unused;
    while (!atomic_load(&adding_ends)) {
        CHECK_OK(persist_snapshot(w.server.persist, NULL));
        catalog_reap(w.server.catalog);
    }
    return NULL;
}

/* Creates, changes and drops filters, with and without content, while other threads add keys and
 * take snapshots. */
static void *churn_run(void *argument)
{
    struct adder *a = argument;
    static const char *const lines[] = {
        "BF.ADD x a", "RENAME x y",  "COPY y x REPLACE",
        "DEL y",      "BG.CLEAR x",  "COPY odd x REPLACE",
        "DEL x",      "BG.FOLD odd", "BG.MERGE x odd",
        "DEL x"
    };
    struct buffer out;
    buffer_init(&out, 1 << 20);
    const struct reply reply = resp_reply_to(&out, 2);
    for (unsigned i = 0; !atomic_load(&adding_ends); i++) {
        char text[64];
        bg_bytes argv[4];
        size_t argc = 0;
        char *rest = text;
        (void)snprintf(text, sizeof text, "%s",
                       lines[i % (sizeof lines / sizeof *lines)]);
        for (char *word; (word = strsep(&rest, " ")) != NULL;) {
            argv[argc++] = (bg_bytes){ word, strlen(word) };
        }
        session_begin(&a->session);
        session_run(&a->session, &a->client, argv, argc, &reply);
        session_end(&a->session);
        buffer_clear(&out, 4096);
    }
    buffer_free(&out);
    return NULL;
}

static void adders_check(void)
{
    for (unsigned a = 0; a < ADDERS; a++) {
        for (unsigned k = 0; k < ADDS; k++) {
            const char *reply = k % 8 == 7 ? world_ask(&w, "CF.EXISTS cf k%u-%u", a, k)
                                           : world_ask(&w, "BF.EXISTS %s k%u-%u",
                                                       k % 2 ? "odd" : "even", a, k);
            if (strcmp(reply, ":1") != 0) {
                check_fail(__FILE__, __LINE__, "k%u-%u is lost: %s", a, k, reply);
            }
        }
    }
}

static void adders_prepare(struct adder *a, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        a[i].number = i;
        a[i].client = w.client;
        CHECK(session_init(&a[i].session, &w.server, i == ADDERS));
    }
}

TEST(persist__adds_while_snapshots_are_made)
{
    const char *folder = scratch_path("threads");
    for (unsigned round = 0; round < 8 * check_scale(); round++) {
        static struct adder adders[ADDERS + 1];
        pthread_t saver;
        empty(folder);
        must_open(folder, "");
        adders_prepare(adders, ADDERS + 1);
        atomic_store(&adding_ends, false);
        CHECK_STR(world_ask(&w,
                            "BG.CREATE odd KIND blocked CAPACITY 100000 ERROR 0.0001 "
                            "FOLDS 6 OVERFILL"),
                  "+OK");
        CHECK_EQ(pthread_create(&saver, NULL, saver_run, NULL), 0);
        CHECK_EQ(
            pthread_create(&adders[ADDERS].thread, NULL, churn_run, &adders[ADDERS]),
            0);
        for (unsigned i = 0; i < ADDERS; i++) {
            CHECK_EQ(pthread_create(&adders[i].thread, NULL, adder_run, &adders[i]), 0);
        }
        for (unsigned i = 0; i < ADDERS; i++) {
            CHECK_EQ(pthread_join(adders[i].thread, NULL), 0);
        }
        atomic_store(&adding_ends, true);
        CHECK_EQ(pthread_join(saver, NULL), 0);
        CHECK_EQ(pthread_join(adders[ADDERS].thread, NULL), 0);
        for (unsigned i = 0; i < ADDERS + 1; i++) {
            session_fini(&adders[i].session);
        }
        adders_check();
        CHECK(world_ack(&w));
        world_crash(&w);
        must_open(folder, "");
        adders_check();
        /* the next snapshot must not lose keys */
        CHECK_STR(world_ask(&w, "SAVE"), "+OK");
        CHECK(world_ack(&w));
        world_crash(&w);
        must_open(folder, "");
        adders_check();
        world_close(&w);
    }
}
