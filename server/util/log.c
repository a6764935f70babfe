/*
 * log.c - see log.h.
 *
 * A line is assembled on the stack of the calling thread, without a lock, and written under the
 * sink's lock. A thread waits at most LOG_PATIENCE for the lock, because its holder may be blocked
 * in a write to an unresponsive disk. If the wait times out, the line is dropped. Pipes, terminals
 * and sockets are first checked for space (poll), so that the holder does not block. A line is
 * short enough for a pipe to accept all of it at once. A socket may accept only the beginning of a
 * line; the rest is kept and sent before the next line.
 *
 * Repetitions are counted in a table that is indexed by the address of the message. Messages are
 * literals, so there are few different addresses. If no slot is free, repetitions of the message
 * are not limited.
 */
#include "util/log.h"

#include "text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { LOG_PATIENCE = 10 /* ms */, LOG_MESSAGES = 512, LOG_PROBES = 16 };

static const char *const log_levels[] = { "debug", "info", "warning", "error" };

/* ---- Time -------------------------------------------------------------------------------- */

static uint64_t log_clock(clockid_t clock)
{
    struct timespec now;
    (void)clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* ---- Text -------------------------------------------------------------------------------- */

struct log_line {
    size_t used;
    char text[LOG_LINE];
};

/* Appends text to a line, reserving space at the end of the line for the newline and brackets. */
static void log_put(struct log_line *line, const char *text, size_t n)
{
    if (n <= sizeof line->text - 8 - line->used) {
        memcpy(line->text + line->used, text, n);
        line->used += n;
    }
}

static void log_puts(struct log_line *line, const char *text)
{
    log_put(line, text, strlen(text));
}

__attribute__((format(printf, 2, 3))) static void log_printf(struct log_line *line,
                                                             const char *format, ...)
{
    char text[64];
    va_list arguments;
    va_start(arguments, format);
    const int n = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    log_put(line, text, n > 0 && (size_t)n < sizeof text ? (size_t)n : 0);
}

/* Returns whether a character must be escaped. This applies to ASCII and Latin-1 control
 * characters, and to characters that change the text direction or end a line. */
static bool log_is_control(uint32_t code)
{
    return code < 0x20 || (code >= 0x7F && code < 0xA0) || code == 0x2028
           || code == 0x2029 || (code >= 0x202A && code <= 0x202E)
           || (code >= 0x2066 && code <= 0x2069);
}

static void log_quoted(struct log_line *line, bg_bytes bytes, bool json)
{
    const char *s = bytes.data;
    log_puts(line, "\"");
    for (size_t left = bytes.len, n; left > 0; s += n, left -= n) {
        uint32_t code = 0;
        n = text_character(s, left, &code);
        if (line->used > sizeof line->text - 128) {
            log_puts(line, "...");
            break;
        }
        if (n == 0) {
            n = 1;
            if (json) {
                log_puts(line, "\xEF\xBF\xBD");
            } else {
                log_printf(line, "\\x%02x", (unsigned)(unsigned char)*s);
            }
        } else if (code == '"' || code == '\\') {
            log_printf(line, "\\%c", *s);
        } else if (code == '\n') {
            log_puts(line, "\\n");
        } else if (log_is_control(code)) {
            log_printf(line, "\\u%04x", (unsigned)code);
        } else {
            log_put(line, s, n);
        }
    }
    log_puts(line, "\"");
}

/* Returns whether logfmt can print the bytes without quotes. */
static bool log_is_plain(bg_bytes bytes)
{
    const unsigned char *s = bytes.data;
    for (size_t i = 0; i < bytes.len; i++) {
        if (s[i] <= ' ' || s[i] >= 0x7F || s[i] == '"' || s[i] == '=' || s[i] == '\\') {
            return false;
        }
    }
    return bytes.len > 0 && bytes.len < LOG_LINE / 2;
}

static void log_value(struct log_line *line, const struct log_field *field, bool json)
{
    switch (field->type) {
    case LOG_IS_TEXT:
        if (!json && log_is_plain(field->value.text)) {
            log_put(line, field->value.text.data, field->value.text.len);
        } else {
            log_quoted(line, field->value.text, json);
        }
        break;
    case LOG_IS_COUNT: log_printf(line, "%" PRIu64, field->value.count); break;
    case LOG_IS_BOOL: log_puts(line, field->value.boolean ? "true" : "false"); break;
    }
}

static void log_field_put(struct log_line *line, const struct log_field *field,
                          bool json)
{
    if (line->used > sizeof line->text - 256) {
        return;
    }
    if (json) {
        log_printf(line, "%s\"%.40s\":", line->text[line->used - 1] == '{' ? "" : ",",
                   field->name);
    } else {
        log_printf(line, "%s%.40s=",
                   line->used > 0 && line->text[line->used - 1] != '>' ? " " : "",
                   field->name);
    }
    log_value(line, field, json);
}

static const char *log_time(uint64_t ms, char text[40])
{
    const time_t seconds = (time_t)(ms / 1000);
    struct tm utc;
    (void)gmtime_r(&seconds, &utc);
    const size_t n = strftime(text, 40, "%Y-%m-%dT%H:%M:%S", &utc);
    (void)snprintf(text + n, 40 - n, ".%03uZ", (unsigned)(ms % 1000));
    return text;
}

/* ---- The sink ------------------------------------------------------------------------------ */

static struct {
    pthread_mutex_t lock;
    int fd;
    bool owned;           /* `fd` was opened by this module */
    bool socket;          /* `fd` is a socket, which may accept part of a line */
    _Atomic bool journal; /* `fd` is the systemd journal, which reads a level prefix */
    char *path;
    size_t kept_used;
    char kept[LOG_LINE]; /* the rest of a line that a socket did not accept */
    _Atomic uint64_t dropped, dropped_told;
    _Atomic int level, format;
} log_sink = { .lock = PTHREAD_MUTEX_INITIALIZER,
               .fd = STDERR_FILENO,
               .level = LOG_LEVEL_INFO };

static void log_begin(struct log_line *line, enum log_level level, const char *message,
                      bool json)
{
    static const char *const priorities[] = { "<7>", "<6>", "<4>", "<3>" };
    char time[40];
    const struct log_field front[] = {
        log_text("ts", log_time(log_clock(CLOCK_REALTIME), time)),
        log_text("level", log_levels[level]), log_text("msg", message)
    };
    line->used = 0;
    if (log_sink.journal) {
        log_puts(line, priorities[level]);
    }
    if (json) {
        log_puts(line, "{");
    }
    for (size_t i = 0; i < 3; i++) {
        log_field_put(line, &front[i], json);
    }
}

/* Writes as much of the text as possible without blocking. Returns -1 if nothing was written. */
static ssize_t log_send(const char *text, size_t n)
{
    struct pollfd room = { log_sink.fd, POLLOUT, 0 };
    ssize_t sent;
    do {
        if (log_sink.socket) {
            sent = send(log_sink.fd, text, n, MSG_DONTWAIT | MSG_NOSIGNAL);
        } else if (poll(&room, 1, 0) == 1 && (room.revents & POLLOUT)) {
            sent = write(log_sink.fd, text, n);
        } else {
            return -1;
        }
    } while (sent < 0 && errno == EINTR);
    return sent;
}

/* Writes a whole line. The caller holds the lock. Returns false if the line is lost. */
static bool log_out(const char *text, size_t n)
{
    if (log_sink.kept_used > 0) {
        const ssize_t sent = log_send(log_sink.kept, log_sink.kept_used);
        if (sent > 0) {
            log_sink.kept_used -= (size_t)sent;
            memmove(log_sink.kept, log_sink.kept + sent, log_sink.kept_used);
        }
        if (log_sink.kept_used > 0) {
            return false;
        }
    }
    const ssize_t sent = log_send(text, n);
    if (sent > 0 && (size_t)sent < n) {
        log_sink.kept_used = n - (size_t)sent;
        memcpy(log_sink.kept, text + sent, log_sink.kept_used);
    }
    return sent > 0;
}

/* Reports lost lines, if any. Returns false if the report is lost as well. */
static bool log_out_dropped(bool json)
{
    const uint64_t dropped = atomic_load(&log_sink.dropped);
    const uint64_t told = atomic_load(&log_sink.dropped_told);
    if (dropped == told) {
        return true;
    }
    struct log_line line;
    const struct log_field lost = log_count("lines", dropped - told);
    log_begin(&line, LOG_LEVEL_WARNING, "log lines were lost", json);
    log_field_put(&line, &lost, json);
    log_puts(&line, json ? "}\n" : "\n");
    if (!log_out(line.text, line.used)) {
        return false;
    }
    atomic_store(&log_sink.dropped_told, dropped);
    return true;
}

static bool log_lock(void)
{
    struct timespec until;
    if (pthread_mutex_trylock(&log_sink.lock) == 0) {
        return true;
    }
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += LOG_PATIENCE * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    return pthread_mutex_timedlock(&log_sink.lock, &until) == 0;
}

static void log_end(struct log_line *line, bool json)
{
    /* log_put has reserved space for these bytes */
    memcpy(line->text + line->used, "}\n", 2);
    if (!json) {
        line->text[line->used] = '\n';
    }
    line->used += json ? 2 : 1;
    if (!log_lock()) {
        atomic_fetch_add(&log_sink.dropped, 1);
        return;
    }
    if (!log_out_dropped(json) || !log_out(line->text, line->used)) {
        atomic_fetch_add(&log_sink.dropped, 1);
    }
    (void)pthread_mutex_unlock(&log_sink.lock);
}

/* ---- Repetitions ---------------------------------------------------------------------------- */

static struct log_message {
    _Atomic(const char *) message;
    _Atomic uint64_t period; /* index of the period, computed from the clock */
    _Atomic uint32_t written;
    _Atomic uint32_t left_out;
} log_messages[LOG_MESSAGES];

/* Returns the slot of a message, or NULL if no slot is free. */
static struct log_message *log_place(const char *message)
{
    const uintptr_t at = (uintptr_t)message;
    const size_t first = (size_t)(at ^ at >> 9 ^ at >> 18);
    for (size_t i = 0; i < LOG_PROBES; i++) {
        struct log_message *m = &log_messages[(first + i) % LOG_MESSAGES];
        const char *has = NULL;
        if (atomic_load(&m->message) == message
            || atomic_compare_exchange_strong(&m->message, &has, message)
            || has == message) {
            return m;
        }
    }
    return NULL;
}

/* Returns whether a message may be written. Sets *left_out to the number of times the message was
 * suppressed since it was last written. */
static bool log_budget(const char *message, uint32_t *left_out)
{
    const uint64_t period = log_clock(CLOCK_MONOTONIC) / (LOG_PERIOD * 1000ull) + 1;
    struct log_message *m = log_place(message);
    *left_out = 0;
    if (!m) {
        return true;
    }
    uint64_t seen = atomic_load(&m->period);
    if (seen != period && atomic_compare_exchange_strong(&m->period, &seen, period)) {
        atomic_store(&m->written, 0);
    }
    if (atomic_fetch_add(&m->written, 1) >= LOG_BURST) {
        atomic_fetch_sub(&m->written, 1);
        atomic_fetch_add(&m->left_out, 1);
        return false;
    }
    *left_out = atomic_exchange(&m->left_out, 0);
    return true;
}

void log_tick(void)
{
    const uint64_t period = log_clock(CLOCK_MONOTONIC) / (LOG_PERIOD * 1000ull) + 1;
    for (size_t i = 0; i < LOG_MESSAGES; i++) {
        struct log_message *m = &log_messages[i];
        if (atomic_load(&m->period) == period || atomic_load(&m->left_out) == 0) {
            continue;
        }
        const uint32_t left_out = atomic_exchange(&m->left_out, 0);
        if (left_out) {
            log_write(LOG_LEVEL_WARNING, "repeated messages were suppressed",
                      LOG_FIELDS(log_text("message", atomic_load(&m->message)),
                                 log_count("times", left_out)));
        }
    }
    if (atomic_load(&log_sink.dropped) != atomic_load(&log_sink.dropped_told)
        && log_lock()) {
        (void)log_out_dropped(atomic_load(&log_sink.format) == LOG_FORMAT_JSON);
        (void)pthread_mutex_unlock(&log_sink.lock);
    }
}

/* ---- Lines ---------------------------------------------------------------------------------- */

bool log_has_level(enum log_level level)
{
    return (int)level >= atomic_load_explicit(&log_sink.level, memory_order_relaxed);
}

static void log_print(enum log_level level, const char *message,
                      const struct log_field *fields, size_t n, uint32_t left_out)
{
    struct log_line line;
    const bool json = atomic_load(&log_sink.format) == LOG_FORMAT_JSON;
    log_begin(&line, level, message, json);
    for (size_t i = 0; i < n; i++) {
        log_field_put(&line, &fields[i], json);
    }
    if (left_out) {
        const struct log_field repeated = log_count("repeated", left_out);
        log_field_put(&line, &repeated, json);
    }
    log_end(&line, json);
}

void log_write(enum log_level level, const char *message,
               const struct log_field *fields, size_t n)
{
    uint32_t left_out;
    if (log_has_level(level) && log_budget(message, &left_out)) {
        log_print(level, message, fields, n, left_out);
    }
}

/* ---- Opening --------------------------------------------------------------------------------- */

/* Returns whether stderr is the systemd journal, which is identified by device and inode. */
static bool log_is_journal(const struct stat *info)
{
    const char *said = getenv("JOURNAL_STREAM"); /* NOLINT(concurrency-mt-unsafe) */
    char ours[64];
    (void)snprintf(ours, sizeof ours, "%llu:%llu", (unsigned long long)info->st_dev,
                   (unsigned long long)info->st_ino);
    return said && strcmp(said, ours) == 0;
}

/* Sets the destination of log lines. The caller holds the lock. */
static void log_use(int fd, bool owned)
{
    struct stat info;
    const bool known = fstat(fd, &info) == 0;
    if (log_sink.owned) {
        (void)close(log_sink.fd);
    }
    log_sink.fd = fd;
    log_sink.owned = owned;
    log_sink.socket = known && S_ISSOCK(info.st_mode);
    log_sink.journal = known && !owned && log_is_journal(&info);
    log_sink.kept_used = 0;
}

static int log_open_file(const char *path)
{
    return open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0640);
}

bool log_open(const char *path, enum log_format format, enum log_level level)
{
    const bool file = path && *path;
    const int fd = file ? log_open_file(path) : STDERR_FILENO;
    char *copy = file ? strdup(path) : NULL;
    if (fd < 0 || (file && !copy)) {
        if (fd >= 0) {
            (void)close(fd);
        }
        free(copy);
        return false;
    }
    (void)pthread_mutex_lock(&log_sink.lock);
    log_use(fd, file);
    free(log_sink.path);
    log_sink.path = copy;
    (void)pthread_mutex_unlock(&log_sink.lock);
    log_set_format(format);
    log_set_level(level);
    return true;
}

bool log_reopen(void)
{
    bool good = true;
    (void)pthread_mutex_lock(&log_sink.lock);
    if (log_sink.path) {
        const int fd = log_open_file(log_sink.path);
        good = fd >= 0;
        if (good) {
            log_use(fd, true);
        }
    }
    (void)pthread_mutex_unlock(&log_sink.lock);
    return good;
}

void log_close(void)
{
    (void)log_open(NULL, (enum log_format)atomic_load(&log_sink.format),
                   (enum log_level)atomic_load(&log_sink.level));
}

void log_set_level(enum log_level level)
{
    atomic_store(&log_sink.level, (int)level);
}

void log_set_format(enum log_format format)
{
    atomic_store(&log_sink.format, (int)format);
}

uint64_t log_dropped(void)
{
    return atomic_load(&log_sink.dropped);
}

/* ---- Events ---------------------------------------------------------------------------------- */

static struct {
    pthread_mutex_t lock;
    /* number of events so far; event i is stored at (i - 1) % LOG_EVENTS */
    uint64_t count;
    struct log_event events[LOG_EVENTS];
} log_ring = { .lock = PTHREAD_MUTEX_INITIALIZER };

static const struct {
    const char *name;
    enum log_level level;
} log_kinds[] = {
#define LOG_EVENT_ROW(NAME, name, level) { name, LOG_LEVEL_##level },
    LOG_EVENT_KINDS(LOG_EVENT_ROW)
#undef LOG_EVENT_ROW
};

const char *log_event_name(enum log_event_kind kind)
{
    return log_kinds[kind].name;
}

__attribute__((format(printf, 4, 0))) static void
log_keep(enum log_event_kind kind, enum log_level level, bg_bytes filter,
         const char *format, va_list arguments)
{
    struct log_event event = { .time = log_clock(CLOCK_REALTIME),
                               .kind = kind,
                               .level = level };
    (void)vsnprintf(event.text, sizeof event.text, format, arguments);
    event.filter_len = filter.len < LOG_EVENT_NAME ? filter.len : LOG_EVENT_NAME;
    if (event.filter_len) {
        memcpy(event.filter, filter.data, event.filter_len);
    }
    (void)pthread_mutex_lock(&log_ring.lock);
    event.number = ++log_ring.count;
    log_ring.events[(event.number - 1) % LOG_EVENTS] = event;
    (void)pthread_mutex_unlock(&log_ring.lock);
    const struct log_field fields[] = {
        log_text("text", event.text),
        log_bytes("filter", (bg_bytes){ event.filter, event.filter_len })
    };
    const size_t n = event.filter_len ? 2 : 1;
    if (kind == LOG_EVENT_SECRET) {
        log_print(level, log_kinds[kind].name, fields, n, 0);
    } else {
        log_write(level, log_kinds[kind].name, fields, n);
    }
}

void log_event(enum log_event_kind kind, bg_bytes filter, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    log_keep(kind, log_kinds[kind].level, filter, format, arguments);
    va_end(arguments);
}

void log_recovery(enum log_event_kind kind, bg_bytes filter, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    log_keep(kind, LOG_LEVEL_INFO, filter, format, arguments);
    va_end(arguments);
}

size_t log_events(uint64_t after, struct log_event *events, size_t room)
{
    size_t n = 0;
    (void)pthread_mutex_lock(&log_ring.lock);
    const uint64_t oldest =
        log_ring.count > LOG_EVENTS ? log_ring.count - LOG_EVENTS + 1 : 1;
    uint64_t next = after + 1 > oldest ? after + 1 : oldest;
    for (; next <= log_ring.count && after < UINT64_MAX && n < room; next++) {
        events[n++] = log_ring.events[(next - 1) % LOG_EVENTS];
    }
    (void)pthread_mutex_unlock(&log_ring.lock);
    return n;
}
