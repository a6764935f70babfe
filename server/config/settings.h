/*
 * settings.h - the settings of the service: one table of options for all interfaces.
 *
 * The table (settings_table.c) defines the command line (--port 6420), the environment
 * (BLOOMGATED_PORT=6420), the file (port 6420), CONFIG GET and SET, --help, the example file
 * (--print-config) and the man page bloomgate.conf(5) (--print-man), so they always agree. The
 * command line overrides the environment, which overrides the file, which overrides the
 * defaults. A warning reports each value in the file that is overridden by a different one,
 * because an operator who edits the file expects the option to take effect.
 *
 *     struct settings_store *store;
 *     int code = settings_from_command_line(argc, argv, families, n, &store);
 *     if (code != SETTINGS_RUN) {
 *         return code;
 *     }
 *     const struct settings *settings = settings_now(store);
 *
 * Threads. A published `struct settings` never changes. A change (CONFIG SET, SIGHUP) creates new
 * settings and publishes their address. A thread calls settings_now once per unit of work, and uses
 * the result only inside a batch (quiet.h). The batch must be tracked by the `readers` that are
 * passed to settings_reclaim. settings_reclaim frees old settings that no thread can still use. The
 * settings from startup are never freed, so callers may keep pointers to options that require a
 * restart.
 *
 * Before new settings become visible, a listener updates the state that depends on them (the
 * users), under the lock that serializes all changes. The state and the settings therefore disagree
 * only briefly, and an older change never overwrites a newer one.
 */
#ifndef SERVER_CONFIG_SETTINGS_H
#define SERVER_CONFIG_SETTINGS_H

#include "command_table.h"
#include "util/quiet.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct gate_settings;

enum {
    SETTINGS_LIST_MAX = 16,
    /* Maximum number of gates, and maximum number of sharded filters. */
    SETTINGS_GATES_MAX = 256,
    SETTINGS_ROWS_MAX = 128, /* of the table */
    SETTINGS_WHY = 1024      /* maximum length of a message */
};

/* Exit codes of the program; SETTINGS_RUN means "continue". */
enum {
    SETTINGS_RUN = -1,
    SETTINGS_DONE = 0,
    SETTINGS_USAGE = 2, /* an error on the command line */
    /* An error in the file, the environment or a combination of options. */
    SETTINGS_BAD = 3
};

struct settings_list {
    const char *items[SETTINGS_LIST_MAX];
    size_t count;
};

/* One line of a repeatable option: the words after the option's name. */
struct settings_line {
    const char *const *words; /* "alice", "on", "~acme:*" */
    size_t count;             /* at least 1 */
    const char *where;        /* for messages: "/etc/bloomgate/bloomgate.conf:12" */
};

struct settings_lines {
    struct settings_line *items;
    size_t count, room;
};

enum settings_fsync { FSYNC_ALWAYS, FSYNC_EVERYSEC, FSYNC_NO };
enum settings_loading { LOADING_MAYBE, LOADING_REFUSE };
enum settings_damaged { DAMAGED_REFUSE, DAMAGED_DOUBT, DAMAGED_FORGET };
enum settings_supervised { SUPERVISED_AUTO, SUPERVISED_NO, SUPERVISED_SYSTEMD };
enum settings_clients { CLIENTS_NO, CLIENTS_OPTIONAL, CLIENTS_YES };

struct settings {
    /* Network */
    struct settings_list bind;
    uint64_t port, tls_port, http_port, https_port;
    const char *unixsocket;
    uint64_t unixsocketperm;
    uint64_t tcp_backlog;
    double tcp_keepalive;
    bool protected_mode;

    /* Threads */
    uint64_t workers, jobs;

    /* Data */
    const char *dir;
    bool appendonly;
    int appendfsync; /* enum settings_fsync */
    double snapshot_interval;
    uint64_t snapshot_journal_size;
    int loading;         /* enum settings_loading */
    int damaged_journal; /* enum settings_damaged */
    double shutdown_grace;

    /* Secrets and users */
    const char *keyring;
    int hash; /* see settings_hash */
    const char *requirepass;
    struct settings_lines users;
    bool http_auth, metrics_auth;
    struct settings_list http_allowed_hosts;
    bool core_dumps;

    /* TLS */
    const char *tls_cert_file, *tls_key_file, *tls_ca_cert_file;
    int tls_auth_clients; /* enum settings_clients */

    /* Limits */
    uint64_t maxclients;
    uint64_t client_query_buffer_limit, proto_max_bulk_len;
    uint64_t client_output_buffer_limit, pipeline_limit;
    double timeout, slow_client_timeout;
    uint64_t maxmemory, max_filter_memory, max_filters;
    uint64_t insert_rate, insert_burst;

    /* Defaults for new filters */
    double bf_error_rate;
    uint64_t bf_initial_size, bf_expansion_factor;
    uint64_t cf_bucket_size, cf_initial_size, cf_max_iterations;
    uint64_t cf_expansion_factor, cf_max_expansions;

    /* Gates */
    struct settings_lines gates; /* see settings_gate */

    /* Clusters */
    struct settings_lines sharded; /* see front_settings.h */

    /* Logs and metrics */
    uint64_t slowlog_from; /* microseconds */
    int log_level;         /* enum log_level */
    int log_format;        /* enum log_format */
    const char *log_file;
    const char *pid_file;
    int supervised; /* enum settings_supervised */
    uint64_t metrics_max_filters;

    /* Not an option, but a unique number for each published version. */
    uint64_t version;
};

struct settings_store;

/* Receives one line of text: an error if `mistake` is true, otherwise a warning. */
typedef void settings_tell(void *context, bool mistake, const char *text);

/*
 * Reads the command line, the environment and the file, and validates the result. Returns
 * SETTINGS_RUN and sets *store if the service should run. Otherwise (for --help, --version,
 * --check-config, --print-config, --print-man or --hash-password, or after an error), prints the
 * requested output or the errors and returns the exit code.
 *
 * `families` are the n arrays of commands (command_table.h) that user rules may refer to.
 * Thread safety: call it from main, before threads are started.
 */
int settings_from_command_line(int argc, char **argv,
                               const struct command *const *families, size_t n,
                               struct settings_store **store);
void settings_store_free(struct settings_store *store); /* NULL is allowed */

/* Reports warnings about valid but questionable settings, such as "protected no", for the
 * log. */
void settings_doubts(const struct settings_store *store, settings_tell *tell,
                     void *context);

/* Called with new settings before they are published; see settings_listen. */
typedef bool settings_apply(void *context, const struct settings *settings, char why[]);

/* The published settings and what is needed to replace them. Only settings.c uses the fields;
 * settings_now is here because every batch of requests calls it. */
enum { SETTINGS_DOUBTS = 16 };
struct settings_kept;
struct settings_store {
    _Atomic(const struct settings *) now;
    pthread_mutex_t changing;
    struct settings_kept *first;   /* settings at startup */
    struct settings_kept *current; /* contains `now` */
    struct settings_kept *retired; /* no longer visible */
    struct settings_kept *waiting; /* not visible since `mark` */
    struct quiet_mark mark;
    uint64_t version;
    settings_apply *apply; /* or NULL */
    void *apply_context;
    /* The following fields are saved because they are needed to reload the settings. */
    const char *file;
    char **arguments;
    int count;
    const struct command *const *families;
    size_t family_count;
    char *doubts[SETTINGS_DOUBTS];
    size_t doubt_count;
};

/* Returns the current settings. Thread safety: MT-Safe. Cost: one load. */
static inline const struct settings *settings_now(const struct settings_store *store)
{
    return atomic_load(&store->now); /* sequentially consistent, as quiet.h requires */
}

/* Sets a function that is called with new settings before they are published. The function runs on
 * the thread that changes the settings, for one change at a time. To reject the change, it stores a
 * reason in `why` and returns false. Call settings_listen only once, before the first change. */
void settings_listen(struct settings_store *store, settings_apply *apply,
                     void *context);

/* Frees old settings that no thread in `readers` can still use. Never blocks: settings that are
 * still in use are freed by a later call. Call it from one thread only, while that thread is not
 * using any settings. */
void settings_reclaim(struct settings_store *store, struct quiet *readers);

/* Formats a message. A message that does not fit ends after a whole word, with "...". */
__attribute__((format(printf, 2, 3))) void settings_explain(char why[SETTINGS_WHY],
                                                            const char *format, ...);

/* Appends a message to others, separated by a semicolon. Leaves out a message that is already
 * there, or does not fit. */
void settings_join(char why[SETTINGS_WHY], const char *message);

/* Parses a line of settings->gates. The caller frees the result with gate_settings_free. On
 * failure, returns false and stores the reasons in `why`. Never fails for lines from published
 * settings. */
bool settings_gate(const struct settings_line *line, struct gate_settings *gate,
                   char why[SETTINGS_WHY]);

/* ---- CONFIG ------------------------------------------------------------------------------ */

/*
 * Calls `visit` with the name and value of every option that matches a pattern (pattern.h,
 * case-insensitive). Secrets are shown as "(hidden)". For users, gates and sharded filters, the
 * value is a list of names.
 */
void settings_get(const struct settings *settings, bg_bytes pattern,
                  void (*visit)(void *context, const char *name, const char *value),
                  void *context);

/*
 * Changes n options, which are passed as alternating names and values. Changes either all options
 * or none. On failure, returns false and stores the reason, without an error code, in `why`. Thread
 * safety: MT-Safe; changes are serialized.
 */
bool settings_set(struct settings_store *store, const bg_bytes *names_and_values,
                  size_t n, char why[SETTINGS_WHY]);

/*
 * Rereads the command line, the environment and the file, as on SIGHUP. In one step, publishes all
 * options that can change at runtime. Calls `tell` with a message for each changed option that
 * requires a restart. If there are errors, reports them, changes nothing and returns false.
 */
bool settings_reload(struct settings_store *store, settings_tell *tell, void *context);

/* ---- Internal parts, also used by tests and fuzzers -------------------------------------- */

enum setting_type {
    SETTING_TEXT,   /* const char * */
    SETTING_SECRET, /* const char *; the value is never shown */
    SETTING_LIST,   /* struct settings_list */
    SETTING_COUNT,  /* uint64_t, parsed by number_count */
    SETTING_BYTES,  /* uint64_t in bytes, parsed by number_count */
    SETTING_MEMORY, /* uint64_t in bytes, or a percentage of the machine's memory, such as 75% */
    SETTING_OCTAL,   /* uint64_t in octal, such as 0700 */
    SETTING_RATE,    /* double, parsed by number_rate */
    SETTING_SECONDS, /* double, parsed by number_seconds */
    SETTING_SWITCH,  /* bool: yes or no */
    SETTING_CHOICE,  /* int, an index in `choices` */
    SETTING_USER,    /* struct settings_lines, as all types below */
    SETTING_GATE,
    SETTING_SHARDED
};

/* When an option can change. */
enum setting_change {
    SETTING_AT_START,  /* at startup only */
    SETTING_AT_RELOAD, /* when the file is reloaded (SIGHUP) */
    SETTING_LIVE       /* when the file is reloaded, or with CONFIG SET */
};

/* A row of the table. A row without a name starts a section. */
struct setting {
    const char *name;
    enum setting_type type;
    size_t at;           /* offset in struct settings */
    const char *initial; /* default in the syntax of the file, or "" if there is none */
    double least, most;  /* range of a numeric option */
    enum setting_change change;
    const char *value; /* placeholder in help: "PORT" */
    const char *const *choices;
    const char *help; /* --help shows only the first sentence */
    const char *section;
};

const struct setting *settings_table(size_t *n);

/* Returns the hash profile for new filters, a bg_hash_profile. `hash` itself is an index in the
 * choices of the setting, which lack some profiles. */
uint32_t settings_hash(const struct settings *settings);

const struct setting *settings_find(const char *name); /* NULL: unknown option */

/* Memory for the strings and lists in settings. A pool is freed as a whole. */
struct settings_pool;
struct settings_pool *settings_pool_create(void); /* NULL: out of memory */
void settings_pool_free(struct settings_pool *pool);
void *settings_pool_take(struct settings_pool *pool, size_t bytes); /* zeroed */

/* Unpublished settings and the memory that they use. */
struct settings_draft {
    struct settings settings;
    struct settings_pool *pool;
    settings_tell *tell; /* receives errors and warnings; may be NULL */
    void *context;
    size_t mistakes;
    uint64_t wrong[2]; /* one bit for each row of the table with an invalid value */
    /* For each row, where its value was set last, such as FILE:LINE. NULL: not set, or the draft
     * has no pool. */
    const char *where[SETTINGS_ROWS_MAX];
    bool alone;   /* `include` is refused */
    int depth;    /* depth of nested includes */
    size_t files; /* number of files read so far */
};

/* Returns whether an option takes several words. */
static inline bool setting_is_list(const struct setting *setting)
{
    return setting->type == SETTING_LIST || setting->type >= SETTING_USER;
}

/* Writes the choices of an option, such as "always, everysec, no", or "" if it has none. */
void settings_choices(const struct setting *setting, char *text, size_t room);

/* Returns the size of a field of this type in struct settings. */
size_t settings_field_bytes(enum setting_type type);

/* Returns whether an option has the same value in `a` and `b`. */
bool settings_same(const struct setting *setting, const struct settings *a,
                   const struct settings *b);

/* Creates a draft in which every option has its default. Returns false if out of memory. */
bool settings_draft_init(struct settings_draft *draft, settings_tell *tell,
                         void *context);
void settings_draft_free(struct settings_draft *draft);

/* Report an error or a warning, preceded by its location: "FILE:LINE: ...". settings_mistake returns
 * false. */
bool settings_mistake(struct settings_draft *draft, const char *where,
                      const char *format, ...) __attribute__((format(printf, 3, 4)));
void settings_doubt(struct settings_draft *draft, const char *where, const char *format,
                    ...) __attribute__((format(printf, 3, 4)));

/* Returns whether no value of an option was invalid. Otherwise, the option has its default, and a
 * check that involves it would report a mistake that is not there. */
bool settings_is_sound(const struct settings_draft *draft, const char *name);

/* Returns the location where the value of an option was set last, or "" if it has its default. */
const char *settings_where(const struct settings_draft *draft, const char *name);

/* Sets one option from words. `where` is the location shown in messages: "FILE:LINE", "--port",
 * "BLOOMGATED_PORT". Returns false after reporting an error. */
bool settings_draft_set(struct settings_draft *draft, const char *where,
                        const char *name, char *const *words, size_t n);

/* Read a configuration file, or text in the same format. Errors are reported and counted, and
 * reading continues. */
void settings_read_file(struct settings_draft *draft, const char *path);
void settings_read_text(struct settings_draft *draft, const char *name,
                        const char *text, size_t n);

/* Validates combinations of options, and reports errors and warnings. If there were errors before,
 * leaves out checks whose result may be a consequence of these errors. settings_check_limits checks
 * only the combinations that CONFIG SET can invalidate. */
bool settings_check(struct settings_draft *draft, const struct command *const *families,
                    size_t n);
void settings_check_limits(struct settings_draft *draft);

/* Reports the problems that a start would have with the data directory, the keyring, the files that
 * the service writes, and the files of sharded filters. Creates and changes nothing. */
void settings_check_files(struct settings_draft *draft);

struct stat;
/* Returns whether a data directory with these attributes is safe. If not, sets `why`. */
bool settings_check_folder(const char *dir, const struct stat *info,
                           char why[SETTINGS_WHY]);

/* Returns whether `address`, a value of the `bind` option, is a loopback address (127.0.0.0/8, ::1
 * or "localhost"). */
bool settings_is_loopback(const char *address);

/* Writes the value of an option as text, truncated to `room`. Returns `text`. */
const char *settings_show(const struct setting *setting, const void *of, char *text,
                          size_t room);

void settings_print_help(FILE *to);
void settings_print_config(FILE *to);
void settings_print_man(FILE *to);

#endif
