/*
 * log.h - the log: one line per message, for people (logfmt) or programs (JSON). Also keeps the
 * latest events in memory for the dashboard.
 *
 *     log_info("listening", LOG_FIELDS(log_text("address", "::1"), log_count("port", 6420)));
 *     ts=2026-11-16T07:21:30.123Z level=info msg=listening address=::1 port=6420
 *
 * Each line is written with one system call. Callers never block for long: if the pipe or
 * socket is full, or another thread is blocked in a write, the line is dropped and counted. The
 * next successful write is preceded by a line that reports the number of lost lines. A message that
 * is repeated more than LOG_BURST times in LOG_PERIOD seconds is suppressed for the rest of the
 * period; the next line with that message reports how many times it was suppressed.
 *
 * Filter and user names are escaped so that they cannot split a line. Keys, passwords and
 * secrets are never passed to these functions.
 *
 * Thread safety: all functions are MT-Safe, except log_open and log_close. None of them is
 * async-signal-safe.
 */
#ifndef SERVER_UTIL_LOG_H
#define SERVER_UTIL_LOG_H

#include "bloomgate/all.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum log_level { LOG_LEVEL_DEBUG, LOG_LEVEL_INFO, LOG_LEVEL_WARNING, LOG_LEVEL_ERROR };
enum log_format { LOG_FORMAT_LOGFMT, LOG_FORMAT_JSON };

enum {
    LOG_LINE = 4096,   /* maximum length of a line, which a pipe accepts in one write */
    LOG_BURST = 20,    /* maximum number of repetitions of a message per period */
    LOG_PERIOD = 10,   /* period to which LOG_BURST applies, in seconds */
    LOG_EVENTS = 1024, /* number of events kept in memory */
    LOG_EVENT_NAME = 128,
    LOG_EVENT_TEXT = 640
};

/* ---- Lines --------------------------------------------------------------------------------- */

struct log_field {
    const char *name; /* letters, digits and _ */
    enum { LOG_IS_TEXT, LOG_IS_COUNT, LOG_IS_BOOL } type;
    union {
        bg_bytes text;
        uint64_t count;
        bool boolean;
    } value;
};

static inline struct log_field log_bytes(const char *name, bg_bytes value)
{
    return (struct log_field){ name, LOG_IS_TEXT, { .text = value } };
}

static inline struct log_field log_text(const char *name, const char *value)
{
    return log_bytes(name, (bg_bytes){ value, strlen(value) });
}

static inline struct log_field log_count(const char *name, uint64_t value)
{
    return (struct log_field){ name, LOG_IS_COUNT, { .count = value } };
}

static inline struct log_field log_bool(const char *name, bool value)
{
    return (struct log_field){ name, LOG_IS_BOOL, { .boolean = value } };
}

/* LOG_FIELDS expands to two arguments: an array of fields and its size. LOG_NONE is for lines
 * without fields. */
#define LOG_FIELDS(...)                                                                \
    (const struct log_field[]){ __VA_ARGS__ },                                         \
        sizeof((struct log_field[]){ __VA_ARGS__ }) / sizeof(struct log_field)
#define LOG_NONE NULL, 0

/* Writes a line. `message` is a literal; variable parts belong in the fields. */
void log_write(enum log_level level, const char *message,
               const struct log_field *fields, size_t n);

static inline void log_info(const char *message, const struct log_field *fields,
                            size_t n)
{
    log_write(LOG_LEVEL_INFO, message, fields, n);
}

static inline void log_warning(const char *message, const struct log_field *fields,
                               size_t n)
{
    log_write(LOG_LEVEL_WARNING, message, fields, n);
}

static inline void log_error(const char *message, const struct log_field *fields,
                             size_t n)
{
    log_write(LOG_LEVEL_ERROR, message, fields, n);
}

/* ---- Destination ------------------------------------------------------------------------- */

/* Opens the log. `path` NULL or "" selects stderr. On failure, returns false and sets errno; lines
 * are then still written to the previous destination. Until the first call, lines of level info and
 * above are written to stderr in logfmt. */
bool log_open(const char *path, enum log_format format, enum log_level level);
void log_close(void);

/* Reopens the log file after log rotation has moved it (SIGHUP). */
bool log_reopen(void);

/* These functions may be called while the service is running. */
void log_set_level(enum log_level level);
void log_set_format(enum log_format format);
/* Returns whether lines of this level are written. */
bool log_has_level(enum log_level level);

/* Reports suppressed and lost lines that have not been reported yet; call it every few
 * seconds. */
void log_tick(void);

/* Returns the number of lines dropped because they could not be written. */
uint64_t log_dropped(void);

/* ---- Events ------------------------------------------------------------------------------- */

/* X(NAME, "name", level): the events that the dashboard shows. */
#define LOG_EVENT_KINDS(X)                                                             \
    X(START, "start", INFO)                                                            \
    X(STOP, "stop", INFO)                                                              \
    X(CONFIG, "config", INFO)      /* settings, users or certificates changed */       \
    X(LOAD, "load", INFO)          /* filters were loaded at startup */                \
    X(SNAPSHOT, "snapshot", INFO)  /* a snapshot was written */                        \
    X(REBUILD, "rebuild", INFO)    /* a rebuild started, completed or was aborted */   \
    X(RELOAD, "reload", INFO)      /* a filter was replaced with a file */             \
    X(SECRET, "secret", WARNING)   /* a client received a filter's secret */           \
    X(REFUSED, "refused", WARNING) /* a file was refused */                            \
    X(SOURCE, "source", WARNING)   /* a gate's database or a cluster is unavailable */ \
    X(LIMIT, "limit", WARNING)     /* a memory, rate or client limit was reached */    \
    X(FAILURE, "failure", ERROR)   /* the disk or the journal failed */                \
    X(ALARM, "alarm", ERROR)       /* a false negative or damage was detected */

enum log_event_kind {
#define LOG_EVENT_ENUM(NAME, name, level) LOG_EVENT_##NAME,
    LOG_EVENT_KINDS(LOG_EVENT_ENUM)
#undef LOG_EVENT_ENUM
};

struct log_event {
    uint64_t number; /* consecutive, starting at 1 */
    uint64_t time;   /* milliseconds since 1970 */
    enum log_event_kind kind;
    enum log_level level;
    size_t filter_len;
    char filter[LOG_EVENT_NAME]; /* raw bytes, truncated to this size */
    char text[LOG_EVENT_TEXT];
};

const char *log_event_name(enum log_event_kind kind);

/* Stores an event and logs it at the level that belongs to its kind. `filter` may be empty. Events of
 * kind SECRET are an audit trail: they are logged at every log level and are never suppressed as
 * repetitions. */
void log_event(enum log_event_kind kind, bg_bytes filter, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Stores an event and logs it at level info. For the end of a condition whose start was logged with
 * log_event. */
void log_recovery(enum log_event_kind kind, bg_bytes filter, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Copies up to `room` events with numbers above `after`, oldest first. Returns the number of copied
 * events. */
size_t log_events(uint64_t after, struct log_event *events, size_t room);

#endif
