/*
 * test_log.c - tests log lines in text and JSON format, log readers that stop reading, and the list
 * of recent events.
 */
#define _GNU_SOURCE

#include "support/check.h"
#include "support/scratch.h"

#include "util/log.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <time.h>

/* ---- A clock that can be set ---------------------------------------------------------------- */

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);

/* if not 0, the monotonic clock is stopped at this second */
static _Atomic time_t clock_stands;

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
    const int code = __real_clock_gettime(clock, now);
    if (clock == CLOCK_MONOTONIC && clock_stands) {
        *now = (struct timespec){ clock_stands, 0 };
    }
    return code;
}

/* ---- A log file ---------------------------------------------------------------------------- */

static void begin(enum log_format format, enum log_level level)
{
    (void)unlink(scratch_path("log"));
    CHECK(log_open(scratch_path("log"), format, level));
}

/* Returns everything that was written to the file. */
static const char *written_to(const char *name)
{
    static char text[1 << 20];
    FILE *file = fopen(scratch_path(name), "re");
    CHECK(file);
    const size_t n = fread(text, 1, sizeof text - 1, file);
    text[n] = 0;
    (void)fclose(file);
    return text;
}

static const char *written(void)
{
    return written_to("log");
}

/* Returns the written line without the time, after checking the time's format. */
static const char *line(void)
{
    static char rest[8192];
    const char *text = written();
    const int front = text[0] == '{' ? 7 : 3;
    static const char shape[] = "0000-00-00T00:00:00.000Z";
    for (size_t i = 0; shape[i]; i++) {
        const char c = text[front + (int)i];
        CHECK(shape[i] == '0' ? c >= '0' && c <= '9' : c == shape[i]);
    }
    (void)snprintf(rest, sizeof rest, "%s",
                   text + front + 24 + (text[0] == '{' ? 2 : 1));
    return rest;
}

/* Messages with the same text address share a rate limit, so each test uses a text with its own
 * address. */
#define LINE(format, level, text, ...)                                                 \
    (begin(LOG_FORMAT_##format, LOG_LEVEL_DEBUG),                                      \
     log_write(LOG_LEVEL_##level, text, __VA_ARGS__), line())

/* ---- Lines --------------------------------------------------------------------------------- */

TEST(line__logfmt)
{
    CHECK_STR(LINE(LOGFMT, INFO, "listening",
                   LOG_FIELDS(log_text("address", "::1"), log_count("port", 6420))),
              "level=info msg=listening address=::1 port=6420\n");
    CHECK_STR(LINE(LOGFMT, ERROR, "two words", LOG_NONE),
              "level=error msg=\"two words\"\n");
    CHECK_STR(LINE(LOGFMT, WARNING, "types",
                   LOG_FIELDS(log_bool("b", true), log_bool("c", false),
                              log_count("n", UINT64_MAX))),
              "level=warning msg=types b=true c=false n=18446744073709551615\n");
}

TEST(line__json)
{
    CHECK_STR(
        LINE(JSON, INFO, "listening",
             LOG_FIELDS(log_text("address", "::1"), log_count("port", 6420),
                        log_bool("tls", false))),
        "\"level\":\"info\",\"msg\":\"listening\",\"address\":\"::1\",\"port\":6420,"
        "\"tls\":false}\n");
    CHECK(strncmp(written(), "{\"ts\":\"20", 9) == 0);
}

/* A message is always a single line that contains only its own fields, no matter what a name
 * contains. */
TEST(line__names_that_are_meant_to_hurt)
{
    static const struct {
        const char *name;
        size_t n;
        const char *logfmt, *json;
    } cases[] = {
        { "", 0, "\"\"", "\"\"" },
        { "a b", 3, "\"a b\"", "\"a b\"" },
        { "a=b", 3, "\"a=b\"", "\"a=b\"" },
        { "a\"b", 3, "\"a\\\"b\"", "\"a\\\"b\"" },
        { "a\\b", 3, "\"a\\\\b\"", "\"a\\\\b\"" },
        { "a\nlevel=error msg=x", 19, "\"a\\nlevel=error msg=x\"",
          "\"a\\nlevel=error msg=x\"" },
        { "\r\t\0\x7F", 4, "\"\\u000d\\u0009\\u0000\\u007f\"",
          "\"\\u000d\\u0009\\u0000\\u007f\"" },
        { "\x1B[2J", 4, "\"\\u001b[2J\"", "\"\\u001b[2J\"" },
        { "\xC3\xA9", 2, "\"\xC3\xA9\"", "\"\xC3\xA9\"" },
        { "\xFF\xC3", 2, "\"\\xff\\xc3\"", "\"\xEF\xBF\xBD\xEF\xBF\xBD\"" },
        { "\xC2\x9B", 2, "\"\\u009b\"", "\"\\u009b\"" },     /* C1 control */
        { "\xE2\x80\xAE", 3, "\"\\u202e\"", "\"\\u202e\"" }, /* RTL override */
        { "\xE2\x80\xA8", 3, "\"\\u2028\"", "\"\\u2028\"" }, /* ends a line */
        { "\xF0\x9F\x98\x80", 4, "\"\xF0\x9F\x98\x80\"", "\"\xF0\x9F\x98\x80\"" },
    };
    char expected[256];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct log_field field =
            log_bytes("filter", (bg_bytes){ cases[i].name, cases[i].n });
        (void)snprintf(expected, sizeof expected, "level=info msg=hurt filter=%s\n",
                       cases[i].logfmt);
        CHECK_STR(LINE(LOGFMT, INFO, "hurt", &field, 1), expected);
        (void)snprintf(expected, sizeof expected,
                       "\"level\":\"info\",\"msg\":\"hurt too\",\"filter\":%s}\n",
                       cases[i].json);
        CHECK_STR(LINE(JSON, INFO, "hurt too", &field, 1), expected);
    }
}

TEST(line__long_ones_are_cut)
{
    static char large[20000];
    for (int format = 0; format < 2; format++) {
        for (int what = 0; what < 3; what++) {
            for (size_t i = 0; i < sizeof large; i++) {
                large[i] = "x\n\xFF"[what];
            }
            begin((enum log_format)format, LOG_LEVEL_DEBUG);
            log_info(format ? "long json" : "long logfmt",
                     LOG_FIELDS(log_bytes("a", (bg_bytes){ large, sizeof large }),
                                log_bytes("b", (bg_bytes){ large, sizeof large }),
                                log_count("c", 1)));
            const char *text = written();
            const size_t n = strlen(text);
            CHECK(n > 2000 && n <= LOG_LINE);
            CHECK(strchr(text, '\n') == text + n - 1);
            CHECK(strstr(text, "...\""));
            if (format) {
                CHECK(text[0] == '{' && text[n - 2] == '}');
            }
        }
    }
    /* If a line has more fields than fit, the fields that fit are complete. */
    struct log_field fields[600];
    for (size_t i = 0; i < 600; i++) {
        fields[i] = log_count("field", 123456789);
    }
    begin(LOG_FORMAT_JSON, LOG_LEVEL_DEBUG);
    log_info("many fields", fields, 600);
    const char *text = written();
    const size_t n = strlen(text);
    CHECK(n <= LOG_LINE && n > LOG_LINE / 2);
    CHECK_STR(text + n - 19, "\"field\":123456789}\n");
}

TEST(line__levels)
{
    begin(LOG_FORMAT_LOGFMT, LOG_LEVEL_WARNING);
    log_write(LOG_LEVEL_DEBUG, "too low", LOG_NONE);
    log_info("too low", LOG_NONE);
    CHECK_STR(written(), "");
    CHECK(!log_has_level(LOG_LEVEL_INFO) && log_has_level(LOG_LEVEL_WARNING));
    log_warning("high enough", LOG_NONE);
    CHECK(strstr(written(), "level=warning msg=\"high enough\""));
    log_set_level(LOG_LEVEL_DEBUG);
    log_set_format(LOG_FORMAT_JSON);
    log_write(LOG_LEVEL_DEBUG, "now as well", LOG_NONE);
    CHECK(strstr(written(), "\"level\":\"debug\",\"msg\":\"now as well\"}"));
}

/* ---- Destinations -------------------------------------------------------------------------- */

TEST(file__is_opened_again)
{
    begin(LOG_FORMAT_LOGFMT, LOG_LEVEL_INFO);
    log_info("before moving", LOG_NONE);
    CHECK(rename(scratch_path("log"), scratch_path("log.1")) == 0);
    log_info("between", LOG_NONE);
    CHECK(log_reopen());
    log_info("after", LOG_NONE);
    CHECK(strstr(written_to("log.1"), "msg=between"));
    CHECK(!strstr(written_to("log.1"), "msg=after"));
    CHECK(strstr(written(), "msg=after"));
    struct stat info;
    CHECK(stat(scratch_path("log"), &info) == 0);
    CHECK_EQ(info.st_mode & 0007, 0);
}

TEST(file__that_cannot_be_opened)
{
    begin(LOG_FORMAT_LOGFMT, LOG_LEVEL_INFO);
    CHECK(!log_open("/nowhere/log", LOG_FORMAT_JSON, LOG_LEVEL_INFO));
    log_info("still there", LOG_NONE);
    CHECK(strstr(written(), "msg=\"still there\""));
    CHECK(mkdir(scratch_path("dir"), 0700) == 0);
    CHECK(!log_open(scratch_path("dir"), LOG_FORMAT_JSON, LOG_LEVEL_INFO));
    CHECK(unlink(scratch_path("log")) == 0);
    CHECK(mkdir(scratch_path("log"), 0700) == 0);
    CHECK(!log_reopen());
    /* still written to the previous file, whose name was deleted */
    log_info("in a file without a name", LOG_NONE);
    CHECK(rmdir(scratch_path("log")) == 0);
    CHECK(log_reopen());
}

/* ---- Repetitions --------------------------------------------------------------------------- */

static size_t count(const char *text, const char *part)
{
    size_t n = 0;
    for (; (text = strstr(text, part)) != NULL; text += strlen(part)) {
        n++;
    }
    return n;
}

TEST(repeated__is_limited_and_told)
{
    static const char message[] = "the same again";
    clock_stands = 500;
    begin(LOG_FORMAT_LOGFMT, LOG_LEVEL_INFO);
    for (unsigned i = 0; i < 1000; i++) {
        log_warning(message, LOG_FIELDS(log_count("i", i)));
    }
    log_warning("another one", LOG_NONE);
    const size_t lines = count(written(), "the same again");
    CHECK_EQ(lines, LOG_BURST);
    CHECK(strstr(written(), "another one"));
    clock_stands = 0;
}

TEST(repeated__is_told_in_the_next_period)
{
    static const char often[] = "often", also[] = "as often";
    clock_stands = 1000000000;
    log_tick(); /* reports the repetitions that other tests left unreported */
    begin(LOG_FORMAT_LOGFMT, LOG_LEVEL_INFO);
    for (unsigned i = 0; i < LOG_BURST + 7; i++) {
        log_warning(often, LOG_NONE);
        log_warning(also, LOG_NONE);
    }
    log_tick(); /* too early */
    CHECK(!strstr(written(), "repeated"));
    clock_stands += LOG_PERIOD;
    log_warning(often, LOG_FIELDS(log_count("x", 1)));
    CHECK(strstr(written(), "msg=often x=1 repeated=7\n"));
    log_tick(); /* reports the repetitions of the message that is no longer logged */
    CHECK(strstr(
        written(),
        "msg=\"repeated messages were suppressed\" message=\"as often\" times=7\n"));
    log_tick();
    log_warning(often, LOG_NONE);
    CHECK_EQ(count(written(), "repeated="), 1);
    CHECK_EQ(count(written(), "were suppressed"), 1);
    clock_stands = 0;
}

/* ---- A stuck reader ------------------------------------------------------------------------ */

/* Redirects stderr, and thus the log, to a descriptor. */
static int stderr_kept = -1;

static void use_stderr(int fd)
{
    (void)fflush(stderr);
    stderr_kept = dup(STDERR_FILENO);
    CHECK(stderr_kept >= 0 && dup2(fd, STDERR_FILENO) == STDERR_FILENO);
    CHECK(log_open(NULL, LOG_FORMAT_LOGFMT, LOG_LEVEL_DEBUG));
}

static void give_back_stderr(void)
{
    CHECK(dup2(stderr_kept, STDERR_FILENO) == STDERR_FILENO);
    (void)close(stderr_kept);
    CHECK(log_open(NULL, LOG_FORMAT_LOGFMT, LOG_LEVEL_INFO));
}

/* Returns a message with a unique address, so that it is not treated as a duplicate. */
static const char *message(size_t i)
{
    static char texts[400][8];
    if (!*texts[i % 400]) {
        (void)snprintf(texts[i % 400], sizeof texts[0], "m%zu", i % 400);
    }
    return texts[i % 400];
}

/* Reads everything that is currently in a pipe or socket. */
static size_t drain(int fd, char *text, size_t room)
{
    size_t n = 0;
    ssize_t got = 0;
    CHECK(fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
    while (n < room - 1 && (got = read(fd, text + n, room - 1 - n)) > 0) {
        n += (size_t)got;
    }
    text[n] = 0;
    return n;
}

static void nobody_reads(const int fds[2])
{
    static char text[4 << 20], large[3000];
    memset(large, 'x', sizeof large);
    const uint64_t before = log_dropped();
    use_stderr(fds[1]);
    /* writes more lines than fit; the calls must not block */
    for (size_t i = 0; i < 390; i++) {
        log_info(message(i),
                 LOG_FIELDS(log_bytes("x", (bg_bytes){ large, sizeof large })));
    }
    const uint64_t lost = log_dropped() - before;
    CHECK(lost > 0 && lost < 390);
    const size_t n = drain(fds[0], text, sizeof text);
    const size_t first = count(text, "msg=m");
    /* the last line may be incomplete */
    CHECK(first <= 390 - lost && first + 1 >= 390 - lost);
    log_info("there is space again", LOG_NONE);
    log_info("and again", LOG_NONE);
    (void)drain(fds[0], text + n, sizeof text - n);
    char expected[64];
    (void)snprintf(expected, sizeof expected,
                   "msg=\"log lines were lost\" lines=%llu\n",
                   (unsigned long long)lost);
    CHECK(strstr(text, expected));
    CHECK(strstr(text, "msg=\"there is space again\"\n"));
    CHECK_EQ(log_dropped() - before, lost);
    CHECK_EQ(count(text, "msg=m"), 390 - lost);
    /* every line is complete */
    for (const char *at = text; *at; at = strchr(at, '\n') + 1) {
        CHECK(strncmp(at, "ts=20", 5) == 0);
        CHECK(strchr(at, '\n'));
    }
    give_back_stderr();
}

TEST(dropped__by_a_full_pipe)
{
    int fds[2];
    CHECK(pipe2(fds, O_CLOEXEC) == 0);
    nobody_reads(fds);
    (void)close(fds[0]);
    (void)close(fds[1]);
}

TEST(dropped__by_a_full_socket)
{
    int fds[2];
    const int room = 20000;
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
    CHECK(setsockopt(fds[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof room) == 0);
    nobody_reads(fds);
    (void)close(fds[0]);
    (void)close(fds[1]);
}

TEST(dropped__is_told_by_the_clock)
{
    int fds[2];
    static char text[1 << 20], large[3000];
    memset(large, 'x', sizeof large);
    CHECK(pipe2(fds, O_CLOEXEC) == 0);
    use_stderr(fds[1]);
    for (size_t i = 0; i < 100; i++) {
        log_info(message(i),
                 LOG_FIELDS(log_bytes("x", (bg_bytes){ large, sizeof large })));
    }
    (void)drain(fds[0], text, sizeof text);
    CHECK(!strstr(text, "log lines were lost"));
    log_tick();
    (void)drain(fds[0], text, sizeof text);
    CHECK(strstr(text, "log lines were lost"));
    log_tick();
    CHECK_EQ(drain(fds[0], text, sizeof text), 0);
    give_back_stderr();
    (void)close(fds[0]);
    (void)close(fds[1]);
}

TEST(dropped__when_the_other_end_is_gone)
{
    int fds[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
    (void)close(fds[0]);
    const uint64_t before = log_dropped();
    use_stderr(fds[1]);
    /* must not raise SIGPIPE, which would terminate the test */
    log_info("to a closed pipe", LOG_NONE);
    CHECK_EQ(log_dropped() - before, 1);
    give_back_stderr();
    (void)close(fds[1]);
}

/* systemd sets $JOURNAL_STREAM to identify the socket of its journal. If the log is written to this
 * socket, each line starts with a priority, which the systemd journal parses. */
TEST(journal__has_priorities)
{
    int fds[2];
    char text[4096], name[64];
    struct stat info;
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
    CHECK(fstat(fds[1], &info) == 0);
    (void)snprintf(name, sizeof name, "%llu:%llu", (unsigned long long)info.st_dev,
                   (unsigned long long)info.st_ino);
    CHECK(setenv("JOURNAL_STREAM", name, 1) == 0);
    use_stderr(fds[1]);
    log_tick(); /* reports the lines that were lost in the previous test */
    (void)drain(fds[0], text, sizeof text);
    log_error("to the journal", LOG_NONE);
    log_info("of lower priority", LOG_NONE);
    (void)drain(fds[0], text, sizeof text);
    CHECK(strncmp(text, "<3>ts=", 6) == 0);
    CHECK(strstr(text, "\n<6>ts="));
    CHECK(setenv("JOURNAL_STREAM", "1:2", 1) == 0);
    CHECK(log_open(NULL, LOG_FORMAT_LOGFMT, LOG_LEVEL_INFO));
    log_error("to another", LOG_NONE);
    (void)drain(fds[0], text, sizeof text);
    CHECK(strncmp(text, "ts=", 3) == 0);
    CHECK(unsetenv("JOURNAL_STREAM") == 0);
    give_back_stderr();
    (void)close(fds[0]);
    (void)close(fds[1]);
}

/* ---- Threads ------------------------------------------------------------------------------- */

static void *log_much(void *number)
{
    char name[8];
    (void)snprintf(name, sizeof name, "t%d", (int)(intptr_t)number);
    for (size_t i = 0; i < 300; i++) {
        log_info(message(i), LOG_FIELDS(log_text("thread", name), log_count("i", i)));
        if (i % 50 == 0) {
            log_event(LOG_EVENT_REBUILD, (bg_bytes){ "f", 1 }, "thread %s step %zu",
                      name, i);
        }
    }
    return NULL;
}

TEST(threads__lines_do_not_mix)
{
    pthread_t threads[4];
    for (size_t i = 0; i < 400; i++) {
        (void)message(i); /* creates all texts before the threads start */
    }
    begin(LOG_FORMAT_LOGFMT, LOG_LEVEL_DEBUG);
    const uint64_t lost = log_dropped();
    for (size_t i = 0; i < 4; i++) {
        CHECK(pthread_create(&threads[i], NULL, log_much, (void *)(intptr_t)i) == 0);
    }
    for (unsigned i = 0; i < 20; i++) {
        CHECK(log_reopen());
        log_set_level(i % 2 ? LOG_LEVEL_INFO : LOG_LEVEL_DEBUG);
        log_tick();
    }
    for (size_t i = 0; i < 4; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
    const char *text = written();
    size_t lines = 0;
    for (const char *at = text; *at; at = strchr(at, '\n') + 1) {
        CHECK(strncmp(at, "ts=20", 5) == 0);
        lines += strncmp(at + 28, "level=info msg=m", 16) == 0;
    }
    CHECK_EQ(count(text, " thread=t"), lines);
    CHECK(lines + (log_dropped() - lost) >= 1200);
}

/* ---- Events -------------------------------------------------------------------------------- */

TEST(events__are_kept)
{
    struct log_event events[LOG_EVENTS + 10];
    begin(LOG_FORMAT_LOGFMT, LOG_LEVEL_INFO);
    uint64_t last = 0;
    size_t n = log_events(0, events, LOG_EVENTS + 10);
    last = n ? events[n - 1].number : 0;
    log_event(LOG_EVENT_START, (bg_bytes){ NULL, 0 }, "version %s", "1.2");
    log_event(LOG_EVENT_REFUSED, (bg_bytes){ "a\nb", 3 }, "%d blocks are damaged", 2);
    n = log_events(last, events, LOG_EVENTS);
    CHECK_EQ(n, 2);
    CHECK_EQ(events[0].number, last + 1);
    CHECK_EQ(events[0].kind, LOG_EVENT_START);
    CHECK_EQ(events[0].filter_len, 0);
    CHECK_STR(events[0].text, "version 1.2");
    CHECK_STR(log_event_name(events[1].kind), "refused");
    CHECK_EQ(events[1].filter_len, 3);
    CHECK(memcmp(events[1].filter, "a\nb", 3) == 0);
    CHECK(events[1].time >= events[0].time && events[0].time > 1700000000000);
    CHECK(strstr(written(), "level=info msg=start text=\"version 1.2\"\n"));
    CHECK(strstr(written(), "level=warning msg=refused text=\"2 blocks are damaged\" "
                            "filter=\"a\\nb\"\n"));
    /* log_events returns the events after the given number, or as many of them as fit. */
    CHECK_EQ(log_events(last + 1, events, 10), 1);
    CHECK_EQ(log_events(last + 2, events, 10), 0);
    CHECK_EQ(log_events(last + 99, events, 10), 0);
    CHECK_EQ(log_events(UINT64_MAX, events, 10), 0);
    CHECK_EQ(log_events(last, events, 1), 1);
    CHECK_EQ(events[0].number, last + 1);
}

TEST(events__of_a_recovery_are_no_warnings)
{
    struct log_event events[LOG_EVENTS];
    begin(LOG_FORMAT_LOGFMT, LOG_LEVEL_INFO);
    const size_t n = log_events(0, events, LOG_EVENTS);
    const uint64_t last = n ? events[n - 1].number : 0;
    log_event(LOG_EVENT_FAILURE, (bg_bytes){ NULL, 0 }, "journal: %s", "disk full");
    log_recovery(LOG_EVENT_FAILURE, (bg_bytes){ NULL, 0 }, "journal: %s", "works");
    CHECK_EQ(log_events(last, events, LOG_EVENTS), 2);
    CHECK_EQ(events[0].level, LOG_LEVEL_ERROR);
    CHECK_EQ(events[1].level, LOG_LEVEL_INFO);
    CHECK_EQ(events[1].kind, LOG_EVENT_FAILURE);
    CHECK(strstr(written(), "level=error msg=failure text=\"journal: disk full\"\n"));
    CHECK(strstr(written(), "level=info msg=failure text=\"journal: works\"\n"));
}

TEST(events__only_the_last_ones)
{
    static struct log_event events[LOG_EVENTS + 10];
    static char large[1000];
    memset(large, 'n', sizeof large);
    begin(LOG_FORMAT_LOGFMT, LOG_LEVEL_ERROR);
    for (unsigned i = 0; i < 3 * LOG_EVENTS; i++) {
        log_event(LOG_EVENT_SNAPSHOT, (bg_bytes){ large, sizeof large }, "%u %0*d", i,
                  LOG_EVENT_TEXT, 0);
    }
    CHECK_STR(written(), ""); /* the events are below the log level, but are kept */
    const size_t n = log_events(0, events, LOG_EVENTS + 10);
    CHECK_EQ(n, LOG_EVENTS);
    for (size_t i = 0; i < n; i++) {
        CHECK_EQ(events[i].number, events[0].number + i);
        CHECK_EQ(events[i].filter_len, LOG_EVENT_NAME);
        CHECK_EQ(strlen(events[i].text), LOG_EVENT_TEXT - 1);
        CHECK_EQ(strtoul(events[i].text, NULL, 10), 2 * LOG_EVENTS + i);
    }
    log_close();
}
