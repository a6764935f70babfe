/*
 * cmd_watch.c - bloomgate watch: what a filter's file is like, now and as it changes.
 *
 * The file is looked at again and again; when it is another one than before (files are replaced,
 * never written to) it is read, and its figures join the history. If it cannot be read, that is
 * said, and the figures of the last good one stay.
 */
#define _POSIX_C_SOURCE 200809L

#include "command.h"
#include "filter_file.h"
#include "number.h"
#include "out.h"
#include "say.h"
#include "screen.h"
#include "spec_options.h"
#include "stop.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct watch_options {
    struct common common;
    const char *keyring;
    double interval;
    bool once;
};

#define AT(field) offsetof(struct watch_options, field)
static const struct option watch_table[] = {
    { "interval", 'i', OPTION_SECONDS, AT(interval), "TIME",
      "look so often: 1s if not said", NULL },
    { "once", 0, OPTION_FLAG, AT(once), NULL, "print what there is, and end", NULL },
    { "keyring", 0, OPTION_TEXT, AT(keyring), "FILE",
      "secrets of filters that have one", NULL },
    { NULL, 0, OPTION_FLAG, 0, NULL, NULL, NULL },
};
#undef AT
static const struct option_group watch_group = { "Watching", watch_table };

enum { WATCH_HISTORY = 60, WATCH_BAR = 40, WATCH_KEPT = 160 };

struct watch {
    const struct watch_options *options;
    const char *path;
    bg_keyring *ring;
    struct stat identity; /* of what was looked at last; all zero: nothing was there */
    bool looked;
    char trouble[512]; /* why it cannot be read now; "": it can */
    int code;          /* the exit code of that */

    bool known;         /* there was a good one: */
    bg_file_info about; /* its header, */
    bool opened;        /* its content: */
    bg_info info;
    time_t changed;
    double history[WATCH_HISTORY]; /* items, or the fill if they are not known */
    size_t changes;                /* in all */
};

/* ---- Reading ---------------------------------------------------------------------------------- */

static bool watch_going_on(void *context, uint64_t done, uint64_t all)
{
    (void)context;
    (void)done;
    (void)all;
    return !stop_wanted();
}

static void watch_is_bad(struct watch *w, const bg_errinfo *why)
{
    w->code = (int)say_code(why->code);
    (void)snprintf(w->trouble, sizeof w->trouble, "%s",
                   *why->message ? why->message : bg_strerror(why->code));
}

/* The content: false if it is damaged. A secret that is missing leaves it closed. */
static bool watch_read_content(struct watch *w, const bg_file_info *about, bool *opened,
                               bg_info *content)
{
    bg_open_options opening = BG_OPEN_OPTIONS_INIT;
    bg_hash_spec secret = { .profile = about->profile };
    bg_filter *filter = NULL;
    bg_errinfo why;
    *opened = false;
    if (hash_has_secret(about->profile)) {
        if (!w->ring || bg_keyring_find(w->ring, about->key_id, &secret, &why)) {
            return true;
        }
        opening.hash = &secret;
    }
    opening.progress = watch_going_on;
    if (bg_open(w->path, &opening, &filter, &why)) {
        watch_is_bad(w, &why);
        return false;
    }
    content->struct_size = sizeof *content;
    *opened = bg_filter_info(filter, content) == BG_OK;
    bg_filter_free(filter);
    return true;
}

static void watch_remember(struct watch *w)
{
    w->history[w->changes++ % WATCH_HISTORY] = !w->opened ? 0
                                               : isfinite(w->info.items.value)
                                                   ? w->info.items.value
                                                   : w->info.fill;
}

static void watch_read(struct watch *w)
{
    bg_file_info about = { .struct_size = sizeof about };
    bg_info content = { 0 };
    bg_errinfo why;
    bool opened = false;
    w->trouble[0] = 0;
    if (bg_file_about(w->path, &about, &why)) {
        watch_is_bad(w, &why);
    } else if (watch_read_content(w, &about, &opened, &content)) {
        w->about = about;
        w->opened = opened;
        w->info = content;
        w->known = true;
        w->changed = w->identity.st_mtime;
        watch_remember(w);
    }
}

static bool watch_is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size
           && a->st_mtim.tv_sec == b->st_mtim.tv_sec
           && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec
           && a->st_ctim.tv_sec == b->st_ctim.tv_sec
           && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

/* Whether anything is other than at the last look. */
static bool watch_look(struct watch *w)
{
    struct stat now;
    memset(&now, 0, sizeof now);
    const bool there = stat(w->path, &now) == 0;
    const int why = errno;
    if (w->looked && watch_is_same(&now, &w->identity)) {
        return false;
    }
    w->looked = true;
    w->identity = now;
    if (there) {
        watch_read(w);
    } else {
        const char *text =
            strerror(why); /* NOLINT(concurrency-mt-unsafe): one thread */
        (void)snprintf(w->trouble, sizeof w->trouble, "%s", text);
        w->code = CLI_IO;
    }
    return true;
}

/* ---- Showing ----------------------------------------------------------------------------------- */

static const char *watch_ago(time_t then, char text[NUMBER_TEXT + 8])
{
    char seconds[NUMBER_TEXT];
    const double passed = difftime(time(NULL), then);
    (void)snprintf(text, NUMBER_TEXT + 8, "%s ago",
                   number_show_seconds(passed > 0 ? passed : 0, seconds));
    return text;
}

static void watch_show_content(const struct watch *w, struct picture *p)
{
    static const char full[] = "########################################";
    static const char empty[] = "........................................";
    char a[NUMBER_TEXT], b[NUMBER_TEXT], c[NUMBER_TEXT];
    const bg_info *i = &w->info;
    if (!w->opened) {
        picture_add(p, "  items       not known: its keys are hashed with a secret, "
                       "--keyring FILE\n");
        return;
    }
    const int width = (int)(i->fill * WATCH_BAR + 0.5);
    if (i->items.high < 1e18) {
        picture_add(p, "  items       about %s (%s to %s)",
                    number_show((uint64_t)i->items.value, a),
                    number_show((uint64_t)i->items.low, b),
                    number_show((uint64_t)i->items.high, c));
    } else {
        picture_add(p, "  items       more than can be told");
    }
    if (i->design_items) {
        picture_add(p, ", made for %s", number_show(i->design_items, a));
    }
    picture_add(p, "\n  fill        [%.*s%.*s] %.1f %%\n", width, full,
                WATCH_BAR - width, empty, 100 * i->fill);
    picture_add(p, "  rate        %s now", number_show_rate(i->rate, a));
    if (i->design_rate > 0) {
        picture_add(p, ", %s by design", number_show_rate(i->design_rate, b));
    }
    picture_add(p, "\n");
}

static bool watch_may_draw_blocks(void)
{
    static const char *const names[] = { "LC_ALL", "LC_CTYPE", "LANG" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]); /* NOLINT(concurrency-mt-unsafe) */
        if (value && *value) {
            return strstr(value, "UTF-8") || strstr(value, "utf8");
        }
    }
    return false;
}

/* A column for each of the last changes, as high as its figure. */
static void watch_show_history(const struct watch *w, struct picture *p)
{
    static const char *const blocks[] = { "\u2581", "\u2582", "\u2583", "\u2584",
                                          "\u2585", "\u2586", "\u2587", "\u2588" };
    static const char *const letters[] = { "_", ".", ":", "-", "=", "+", "*", "#" };
    const char *const *steps = watch_may_draw_blocks() ? blocks : letters;
    const size_t room = screen_columns() > 40 ? (size_t)screen_columns() - 36 : 4;
    size_t n = w->changes < WATCH_HISTORY ? w->changes : WATCH_HISTORY;
    n = n < room ? n : room;
    double most = 0;
    for (size_t i = w->changes - n; i < w->changes; i++) {
        most = fmax(most, w->history[i % WATCH_HISTORY]);
    }
    if (n < 2 || !(most > 0)) {
        return;
    }
    picture_add(p, "  history     ");
    for (size_t i = w->changes - n; i < w->changes; i++) {
        const double share = w->history[i % WATCH_HISTORY] / most;
        picture_add(p, "%s", steps[(int)(share * 7.999)]);
    }
    picture_add(p, " items, %zu change%s\n", w->changes - 1,
                w->changes == 2 ? "" : "s");
}

/* The first line of a file's metadata that is not ours. */
static void watch_show_note(const struct watch *w, struct picture *p)
{
    for (const char *line = w->about.metadata; *line;) {
        char text[WATCH_KEPT];
        const size_t n = strcspn(line, "\n");
        if (n) {
            (void)snprintf(text, sizeof text, "%.*s", (int)n, line);
            picture_add(p, "  note        ");
            picture_add_text(p, text);
            picture_add(p, "\n");
        }
        line += n + (line[n] == '\n');
    }
}

static void watch_show(const struct watch *w, struct picture *p)
{
    char a[NUMBER_TEXT], ago[NUMBER_TEXT + 8];
    p->used = 0;
    p->text[0] = 0;
    picture_add_text(p, w->path);
    picture_add(p, "\n");
    if (*w->trouble) {
        picture_add(p, "  TROUBLE     ");
        picture_add_text(p, w->trouble);
        picture_add(p, "\n%s",
                    w->known ? "              below: how it was before\n" : "");
    }
    if (!w->known) {
        return;
    }
    picture_add(p, "  kind        %s, keys hashed by %s\n",
                bg_kind_name((bg_kind)w->about.kind),
                bg_hash_name((bg_hash_profile)w->about.profile));
    watch_show_content(w, p);
    watch_show_history(w, p);
    picture_add(p, "  generation  %" PRIu64 "\n  digest      %s\n", w->about.generation,
                w->about.digest_text);
    picture_add(p, "  created     %s\n", watch_ago((time_t)w->about.created, ago));
    picture_add(p, "  file        %s, changed %s\n",
                number_show_bytes(w->about.file_bytes, a), watch_ago(w->changed, ago));
    watch_show_note(w, p);
}

/* ---- Three ways ---------------------------------------------------------------------------------- */

static int watch_once(struct watch *w, struct picture *p)
{
    (void)watch_look(w);
    if (*w->trouble) {
        return say_failed((enum cli_exit)w->code, "%s: %s", w->path, w->trouble);
    }
    watch_show(w, p);
    return out_write(p->text, p->used) ? CLI_OK : out_code();
}

static void watch_line(const struct watch *w, struct picture *p)
{
    char a[NUMBER_TEXT], b[NUMBER_TEXT], when[40] = "";
    const time_t now = time(NULL);
    struct tm parts;
    if (gmtime_r(&now, &parts)) {
        (void)strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &parts);
    }
    p->used = 0;
    picture_add(p, "%s ", when);
    picture_add_text(p, w->path);
    if (*w->trouble) {
        picture_add(p, ": ");
        picture_add_text(p, w->trouble);
        picture_add(p, "\n");
        return;
    }
    picture_add(p, ": %s", bg_kind_name((bg_kind)w->about.kind));
    if (w->opened) {
        picture_add(p, ", about %s items, fill %.1f %%, rate %s",
                    number_show((uint64_t)w->info.items.value, a), 100 * w->info.fill,
                    number_show_rate(w->info.rate, b));
    }
    picture_add(p, ", generation %" PRIu64 ", digest %s, %s\n", w->about.generation,
                w->about.digest_text, number_show_bytes(w->about.file_bytes, a));
}

/* Stdout is no terminal: a line for every change. */
static int watch_log(struct watch *w, struct picture *p)
{
    while (!stop_wanted()) {
        if (watch_look(w)) {
            watch_line(w, p);
            if (!out_write(p->text, p->used)) {
                return out_code();
            }
        }
        if (screen_wait(w->options->interval) < 0) {
            return CLI_PIPE;
        }
    }
    return CLI_INTERRUPTED;
}

static int watch_live(struct watch *w, struct picture *p)
{
    int key = 0;
    bool good = true;
    screen_begin();
    while (good && key >= 0 && key != 'q' && !stop_wanted()) {
        (void)watch_look(w);
        watch_show(w, p);
        picture_add(p, "\n  q ends\n");
        good = screen_draw(p);
        key = screen_wait(w->options->interval);
    }
    screen_end();
    return !good        ? out_code()
           : key < 0    ? CLI_PIPE
           : key == 'q' ? CLI_OK
                        : CLI_INTERRUPTED;
}

static int watch_command(void *options, const struct arguments *arguments)
{
    static struct watch w;
    static struct picture picture;
    struct watch_options *o = options;
    bg_errinfo why;
    if (arguments->count != 1) {
        return say_usage(arguments->count ? "one FILE at a time"
                                          : "which file? FILE is missing");
    }
    o->interval = o->interval > 0 ? o->interval : 1;
    if (o->interval < 0.01 || o->interval > 86400) {
        return say_usage("--interval: from 10ms to 1d");
    }
    w.options = o;
    w.path = arguments->items[0];
    if (o->keyring && bg_keyring_open(o->keyring, &w.ring, &why)) {
        return say_error(o->keyring, &why);
    }
    const int code = o->once                 ? watch_once(&w, &picture)
                     : isatty(STDOUT_FILENO) ? watch_live(&w, &picture)
                                             : watch_log(&w, &picture);
    bg_keyring_free(w.ring);
    return code;
}

const struct command command_watch = {
    .name = "watch",
    .summary = "show what a filter's file is like, and how it changes",
    .usage = "[options] FILE",
    .about =
        "Shows kind, items, fill, rate, generation and age of a filter's file on the terminal, "
        "and again whenever the file is replaced, with a short history. FILE may be a pointer "
        "file. If the file is missing or damaged for a while that is said, and the figures of "
        "the last good one stay. The key q, or Ctrl-C, ends it.\n\n"
        "When stdout is no terminal, a line is printed at first and for every change, as for a "
        "log. --once prints what there is, and ends. Of filters whose keys are hashed with a "
        "secret only the header is shown, unless --keyring has it.",
    .size = sizeof(struct watch_options),
    .uses = { { &watch_group, 0 } },
    .examples = { { "bloomgate watch seen.bg", "until q is pressed" },
                  { "bloomgate watch -i 10s seen.bg >> seen.log",
                    "a line for every change" } },
    .run = watch_command,
};
