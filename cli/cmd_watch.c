/*
 * cmd_watch.c - bloomgate watch: shows the state of a filter file as it changes.
 *
 * The file is checked at regular intervals. If the file has been replaced (filter files are never
 * changed in place), it is read, and its values are added to the history. If the file cannot be
 * read, the error is shown, and the values of the last valid file remain on the screen.
 */
#include "command.h"
#include "error_text.h"
#include "filter_file.h"
#include "number.h"
#include "spec_options.h"
#include "stop.h"
#include "text.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

struct watch_options {
    struct common common;
    const char *keyring;
    double interval;
    bool once;
};

#define OPT_STRUCT struct watch_options
static const struct option watch_table[] = {
    OPT_SECONDS("interval", 'i', interval, "TIME",
                "how often to check the file (default: 1s)"),
    OPT_FLAG("once", 0, once, "print the current state and exit"),
    OPT_TEXT("keyring", 0, keyring, "FILE", "file with the secrets of keyed filters"),
    OPT_END,
};

enum { WATCH_HISTORY = 60, WATCH_BAR = 40, WATCH_KEPT = 160 };

struct watch {
    const struct watch_options *options;
    const char *path;
    bg_keyring *ring;
    struct stat identity; /* file status at the last check; zeros if missing */
    bool looked;
    char trouble[512]; /* why the file cannot be read, or "" */
    int code;          /* exit code of that error */

    bool known;         /* whether a valid file has been read */
    bg_file_info about; /* header of the last valid file */
    bool opened;        /* whether the content of that file was read */
    bg_filter_info info;
    time_t changed;
    /* The number of items in each recent version of the file, or the share of set bits if the
     * number is unknown. */
    double history[WATCH_HISTORY];
    size_t changes; /* number of versions of the file read so far */
};

/* ---- Screen ---------------------------------------------------------------------------------- */

/* A terminal is used as a screen, on which each picture replaces the previous one. The original
 * content is restored at the end. All current terminals support the control codes used here. */

enum { SCREEN_TEXT = 16384 };

/* A picture: lines of text, each ending with a newline. */
struct picture {
    char text[SCREEN_TEXT];
    size_t used;
};

static struct {
    bool taken, keys;
    struct termios before;
} screen;

/* Adds text; text that does not fit is dropped. */
__attribute__((format(printf, 2, 3))) static void picture_add(struct picture *picture,
                                                              const char *format, ...)
{
    const size_t room = sizeof picture->text - picture->used;
    va_list arguments;
    va_start(arguments, format);
    const int n = vsnprintf(picture->text + picture->used, room, format, arguments);
    va_end(arguments);
    picture->used += n < 0 ? 0 : (size_t)n < room ? (size_t)n : room - 1;
}

/* Adds untrusted text, and replaces control characters with '?'. */
static void picture_add_text(struct picture *picture, const char *text)
{
    for (; *text; text++) {
        const unsigned char c = (unsigned char)*text;
        picture_add(picture, "%c", c < 0x20 || c == 0x7F ? '?' : *text);
    }
}

/* Does nothing, because the signal only has to interrupt the wait. */
static void screen_changed(int number)
{
    (void)number;
}

static void screen_take_keys(void)
{
    struct termios raw;
    if (!isatty(STDIN_FILENO) || tcgetattr(STDIN_FILENO, &screen.before) != 0) {
        return;
    }
    raw = screen.before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    raw.c_cc[VSUSP] =
        _POSIX_VDISABLE; /* suspending would leave the alternate screen active */
    screen.keys = tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) == 0;
}

/* Starts using stdout as a screen, and stdin for key presses if stdin is also a terminal. */
static void screen_begin(void)
{
    /* Show the alternate screen and hide the cursor. */
    static const char take[] = "\033[?1049h\033[?25l";
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = screen_changed;
    (void)sigaction(SIGWINCH, &action, NULL);
    screen_take_keys();
    screen.taken = out_write_through(take, sizeof take - 1);
}

static void screen_end(void)
{
    static const char give[] = "\033[?25h\033[?1049l";
    if (screen.taken) {
        (void)out_write_through(give, sizeof give - 1);
    }
    if (screen.keys) {
        (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &screen.before);
    }
    screen.taken = screen.keys = false;
}

static struct winsize screen_size(void)
{
    struct winsize size;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || !size.ws_col || !size.ws_row) {
        size = (struct winsize){ .ws_row = 24, .ws_col = 80 };
    }
    return size;
}

/* Returns the width of the terminal in characters, or 80 if stdout is not a terminal. */
static int screen_columns(void)
{
    return screen_size().ws_col;
}

/* Returns the length in bytes of the first `columns` UTF-8 characters of a line. */
static size_t screen_cut(const char *line, size_t n, unsigned columns)
{
    size_t bytes = 0;
    for (unsigned used = 0; bytes < n; bytes++) {
        if (((unsigned char)line[bytes] & 0xC0) != 0x80 && used++ == columns) {
            break;
        }
    }
    return bytes;
}

/* Draws as much of a picture as fits. Returns false on error; see out_code. */
static bool screen_draw(const struct picture *picture)
{
    static struct picture codes;
    const struct winsize size = screen_size();
    const char *line = picture->text;
    codes.used = 0;
    picture_add(&codes, "\033[H");
    for (unsigned row = 0; row < size.ws_row && *line; row++) {
        const size_t n = strcspn(line, "\n");
        picture_add(&codes, "%s%.*s\033[K", row ? "\r\n" : "",
                    (int)screen_cut(line, n, size.ws_col), line);
        line += n + (line[n] == '\n');
    }
    picture_add(&codes, "\033[J");
    return out_write_through(codes.text, codes.used);
}

/* Waits up to this long for a key press. Returns the key's character. Returns 0 if no key was
 * pressed, a stop was requested (stop.h), or the size of the screen has changed. Returns -1 if the
 * terminal was closed or the reader of stdout closed the pipe. */
static int screen_wait(double seconds)
{
    struct pollfd all[] = { { stop_fd(), POLLIN, 0 },
                            { screen.keys ? STDIN_FILENO : -1, POLLIN, 0 },
                            { STDOUT_FILENO, 0, 0 } };
    char key;
    if (stop_wanted() || poll(all, 3, (int)(seconds * 1000)) <= 0 || stop_wanted()) {
        return 0;
    }
    if (all[2].revents & (POLLERR | POLLHUP)) {
        return -1;
    }
    if (!all[1].revents) {
        return 0;
    }
    if (read(STDIN_FILENO, &key, 1) == 1) {
        return (unsigned char)key;
    }
    screen.keys = false; /* the terminal was closed */
    return 0;
}

/* ---- Reading --------------------------------------------------------------------------------- */

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
    (void)snprintf(w->trouble, sizeof w->trouble, "%s", error_text(why, why->code));
}

/* Reads the content, if its secret is available. Returns false if the file is damaged. */
static bool watch_read_content(struct watch *w, const bg_file_info *about, bool *opened,
                               bg_filter_info *content)
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
    *opened = bg_filter_get_info(filter, content) == BG_OK;
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
    bg_filter_info content = { 0 };
    bg_errinfo why;
    bool opened = false;
    w->trouble[0] = 0;
    if (bg_file_get_info(w->path, &about, &why)) {
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

/* Checks the file. Returns whether anything has changed since the last check. */
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
        (void)snprintf(w->trouble, sizeof w->trouble, "%s", text_errno(why));
        w->code = CLI_IO;
    }
    return true;
}

/* ---- Showing --------------------------------------------------------------------------------- */

static const char *watch_ago(uint64_t then, char text[NUMBER_TEXT + 8])
{
    if (then == BG_CREATED_UNKNOWN) {
        return "not recorded";
    }
    const double passed = difftime(time(NULL), (time_t)then);
    (void)snprintf(text, NUMBER_TEXT + 8, "%s ago",
                   SECONDS_TEXT(passed > 0 ? passed : 0));
    return text;
}

static void watch_show_content(const struct watch *w, struct picture *p)
{
    static const char full[] = "########################################";
    static const char empty[] = "........................................";
    const bg_filter_info *i = &w->info;
    if (!w->opened) {
        picture_add(p, "  items       unknown without the secret; use --keyring "
                       "FILE\n");
        return;
    }
    const int width = (int)(i->fill * WATCH_BAR + 0.5);
    const bool limited = i->design_items && i->kind != BG_KIND_SCALABLE;
    if (i->items.high < 1e18) {
        picture_add(p, "  items       about %s%s%s (%s to %s)",
                    COUNT_TEXT((uint64_t)i->items.value), limited ? " of " : "",
                    limited ? COUNT_TEXT(i->design_items) : "",
                    COUNT_TEXT((uint64_t)i->items.low),
                    COUNT_TEXT((uint64_t)i->items.high));
    } else {
        picture_add(p, "  items       too many to estimate, designed for %s",
                    COUNT_TEXT(i->design_items));
    }
    picture_add(p, "\n  fill        [%.*s%.*s] %.1f%%\n", width, full,
                WATCH_BAR - width, empty, 100 * i->fill);
    picture_add(p, "  rate        %s\n", RATE_OF_TEXT(i->rate, i->design_rate));
    /* If the rate is the problem, the line above shows it, and this line fits on the screen. */
    picture_add(p, "  health      %s\n",
                filter_misses_rate(i)
                    ? filter_health_name(filter_health(i))
                    : filter_show_health(i, (char[FILTER_RATE_TEXT]){ "" }));
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

/* Draws a column for each recent change; the height of the column shows the value. */
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

/* Shows the metadata. */
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
    char ago[NUMBER_TEXT + 8];
    p->used = 0;
    p->text[0] = 0;
    picture_add_text(p, w->path);
    picture_add(p, "\n");
    if (*w->trouble) {
        picture_add(p, "  ERROR       ");
        picture_add_text(p, w->trouble);
        picture_add(p, "\n%s",
                    w->known ? "              showing the last good file\n" : "");
    }
    if (!w->known) {
        return;
    }
    picture_add(p, "  kind        %s, hash profile %s\n",
                bg_kind_name((bg_kind)w->about.kind),
                bg_hash_name((bg_hash_profile)w->about.profile));
    watch_show_content(w, p);
    watch_show_history(w, p);
    picture_add(p, "  generation  %" PRIu64 "\n  digest      %s\n", w->about.generation,
                w->about.digest_text);
    picture_add(p, "  created     %s\n", watch_ago(w->about.created, ago));
    picture_add(p, "  file        %s, changed %s\n", BYTES_TEXT(w->about.file_bytes),
                watch_ago((uint64_t)w->changed, ago));
    watch_show_note(w, p);
}

/* ---- Modes ----------------------------------------------------------------------------------- */

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
    char when[40] = "";
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
        picture_add(p, ", about %s items, fill %.1f%%, rate %s, health %s",
                    COUNT_TEXT((uint64_t)w->info.items.value), 100 * w->info.fill,
                    RATE_OF_TEXT(w->info.rate, w->info.design_rate),
                    filter_health_name(filter_health(&w->info)));
    }
    picture_add(p, ", generation %" PRIu64 ", digest %s, %s\n", w->about.generation,
                w->about.digest_text, BYTES_TEXT(w->about.file_bytes));
}

/* Prints one line per change, if stdout is not a terminal. */
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
        picture_add(p, "\n  press q to quit\n");
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
        return say_usage(arguments->count ? "expected only one FILE"
                                          : "missing argument FILE");
    }
    if (strcmp(arguments->items[0], "-") == 0) {
        return say_usage("expected a file, not stdin");
    }
    o->interval = o->interval > 0 ? o->interval : 1;
    if (o->interval < 0.01 || o->interval > 86400) {
        return say_usage("--interval must be from 10ms to 1d");
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
    .summary = "show the state of a filter file as it changes",
    .usage = "[options] FILE",
    .about =
        "Shows the kind, items, fill, rate, generation and age of a filter file on the "
        "terminal, with a short history, and updates them whenever the file is "
        "replaced. FILE may be a pointer file. While the file is missing or damaged, "
        "the error is shown together with the properties of the last good file. Press "
        "q or Ctrl-C to quit.\n\nIf stdout is not a terminal, one line is printed at "
        "the start and one for every change, like a log. --once prints the current "
        "state and exits. For filters with a secret, only the header is shown, unless "
        "--keyring is set.",
    .size = sizeof(struct watch_options),
    .uses = { OPT_GROUP("Watching", watch_table) },
    .examples = { { "bloomgate watch seen.bg", "watch a file until q is pressed" },
                  { "bloomgate watch -i 10s seen.bg >> seen.log",
                    "log one line for every change" } },
    .run = watch_command,
};
