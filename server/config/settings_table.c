/*
 * settings_table.c - the table of options, the only place where options are defined.
 *
 * Defaults are written in the syntax of the configuration file and parsed by the same functions. To
 * add an option, add a field to struct settings and a row here. The command-line flag, environment
 * variable, CONFIG, help, man page and example file are all derived from the row.
 */
#include "config/settings.h"

#include "bloomgate/hash.h"

#include "util/log.h"

#include <string.h>

static const char *const fsync_names[] = { "always", "everysec", "no", NULL };
static const char *const loading_names[] = { "maybe", "refuse", NULL };
static const char *const damaged_names[] = { "refuse", "doubt", "forget", NULL };
static const char *const supervised_names[] = { "auto", "no", "systemd", NULL };
static const char *const clients_names[] = { "no", "optional", "yes", NULL };
static const char *const hash_names[] = { "fast",    "fast-int",  "keyed",
                                          "keyed24", "keyed-int", NULL };
static const char *const level_names[] = { "debug", "info", "warning", "error", NULL };
static const char *const format_names[] = { "logfmt", "json", NULL };

#define DAY 86400.0
#define KI  1024.0
#define MI  (1024.0 * 1024)
#define TI  (1024.0 * 1024 * 1024 * 1024)

/* ROW(field, "name", type, "default", minimum, maximum, when it can change, "VALUE", help) */
#define ROW(field, name, type, initial, least, most, change, value, help)              \
    {                                                                                  \
        name, SETTING_##type, offsetof(struct settings, field), initial, least, most,  \
            change, value, NULL, help, NULL                                            \
    }
#define CHOICE(field, name, initial, change, choices, help)                            \
    {                                                                                  \
        name, SETTING_CHOICE, offsetof(struct settings, field), initial, 0, 0, change, \
            "WORD", choices, help, NULL                                                \
    }
#define SWITCH(field, name, initial, change, help)                                     \
    {                                                                                  \
        name, SETTING_SWITCH, offsetof(struct settings, field), initial, 0, 0, change, \
            "yes|no", NULL, help, NULL                                                 \
    }
#define SECTION(title)                                                                 \
    {                                                                                  \
        NULL, SETTING_TEXT, 0, NULL, 0, 0, SETTING_AT_START, NULL, NULL, NULL, title   \
    }

#define START  SETTING_AT_START
#define RELOAD SETTING_AT_RELOAD
#define LIVE   SETTING_LIVE

/* clang-format off */
static const struct setting settings_rows[] = {
    SECTION("Network"),
    ROW(bind, "bind", LIST, "127.0.0.1 -::1", 0, 0, START, "ADDRESS...",
        "Addresses to listen on; * means all IPv4 and IPv6 addresses. An address with a leading - is skipped if this "
        "machine does not have it. Addresses other than loopback require users with passwords: see protected."),
    ROW(port, "port", COUNT, "6420", 0, 65535, START, "PORT",
        "Port for Redis clients (RESP) without TLS (0: none)."),
    ROW(tls_port, "tls-port", COUNT, "0", 0, 65535, START, "PORT",
        "Port for Redis clients with TLS (0: none). Requires tls-cert-file and tls-key-file."),
    ROW(http_port, "http-port", COUNT, "8420", 0, 65535, START, "PORT",
        "Port for HTTP: dashboard, JSON API, metrics and health checks (0: none)."),
    ROW(https_port, "https-port", COUNT, "0", 0, 65535, START, "PORT",
        "Port for HTTP with TLS (0: none). Requires tls-cert-file and tls-key-file."),
    ROW(unixsocket, "unixsocket", TEXT, "", 0, 0, START, "PATH",
        "Path of a Unix socket for Redis clients."),
    ROW(unixsocketperm, "unixsocketperm", OCTAL, "0700", 0, 0777, START, "MODE",
        "Permissions of the Unix socket, as an octal mode."),
    ROW(tcp_backlog, "tcp-backlog", COUNT, "511", 1, 65535, START, "N",
        "Maximum number of connections waiting to be accepted."),
    ROW(tcp_keepalive, "tcp-keepalive", SECONDS, "300s", 0, DAY, LIVE, "TIME",
        "How long a connection may be idle before the kernel sends keepalive probes (0: no probes)."),
    SWITCH(protected_mode, "protected", "yes", START,
        "Refuse to listen on non-loopback addresses while the service can be used without a password. If set to no, "
        "the service listens anyway and logs a warning at every startup."),

    SECTION("Users and secrets"),
    ROW(users, "user", USER, "", 0, 0, RELOAD, "NAME RULE...",
        "Defines a user and its permissions; may be repeated. Rules apply from left to right, starting from no "
        "permissions. See USERS."),
    ROW(requirepass, "requirepass", SECRET, "", 0, 0, RELOAD, "PASSWORD",
        "Password of the default user, hashed (bloomgated --hash-password) or in plain text. Sufficient for a single "
        "user; cannot be combined with a \"user default\" line."),
    SWITCH(http_auth, "http-auth", "yes", RELOAD,
        "Require credentials for HTTP (Basic, or Bearer NAME:PASSWORD) when the default user needs a password. If set "
        "to no, every HTTP request runs as the default user."),
    SWITCH(metrics_auth, "metrics-auth", "yes", RELOAD,
        "Require credentials for /metrics when the default user needs a password. /healthz and /readyz never require "
        "them."),
    ROW(http_allowed_hosts, "http-allowed-hosts", LIST, "", 0, 0, RELOAD, "NAME...",
        "Host names that HTTP requests may use when HTTP requires no password, in addition to localhost and IP "
        "addresses. Requests for other names are refused, which prevents DNS rebinding: a malicious web page cannot "
        "reach the service through a name that its owner controls."),
    ROW(keyring, "keyring", TEXT, "/etc/bloomgate/keyring", 0, 0, START, "PATH",
        "File that holds the secrets for keyed filters; created with a new secret if missing. It must be outside dir, "
        "so that copies of the data do not contain it. The default for non-root users is "
        "$XDG_CONFIG_HOME/bloomgate/keyring. SIGHUP reloads the file. Removed secrets stay in use until a restart; a "
        "file that is damaged, or in which a secret has changed, is refused."),
    CHOICE(hash, "hash", "keyed", RELOAD, hash_names,
        "How new filters hash keys. The keyed variants protect against keys chosen to fill a filter or to cause "
        "false positives; fast and fast-int do not. keyed-int is fast for keys of 8 or 16 bytes."),
    SWITCH(core_dumps, "core-dumps", "no", START,
        "Allow the process to write core dumps, which may contain secrets."),

    SECTION("TLS"),
    ROW(tls_cert_file, "tls-cert-file", TEXT, "", 0, 0, RELOAD, "PATH",
        "Server certificate, followed by its intermediate certificates (PEM)."),
    ROW(tls_key_file, "tls-key-file", TEXT, "", 0, 0, RELOAD, "PATH",
        "Private key of the server certificate (PEM, not encrypted)."),
    ROW(tls_ca_cert_file, "tls-ca-cert-file", TEXT, "", 0, 0, RELOAD, "PATH",
        "CA certificates that client certificates are verified against (PEM)."),
    CHOICE(tls_auth_clients, "tls-auth-clients", "no", RELOAD, clients_names,
        "Whether clients must present a certificate. If set to optional, a client may omit its certificate, but a "
        "certificate that is presented must be valid. A certificate does not replace the password."),

    SECTION("Data"),
    ROW(dir, "dir", TEXT, "/var/lib/bloomgate", 0, 0, START, "PATH",
        "Directory for snapshots and journals; created if missing. Only one service at a time may use it. The "
        "default for non-root users is $XDG_DATA_HOME/bloomgate."),
    SWITCH(appendonly, "appendonly", "yes", START,
        "Write every change to a journal before replying. If set to no, filters exist in memory only: the service "
        "neither loads nor saves data in dir."),
    CHOICE(appendfsync, "appendfsync", "everysec", LIVE, fsync_names,
        "When the journal is flushed to disk. always: before the reply, so no acknowledged change is lost. everysec: "
        "once per second, so a power failure can lose up to one second of changes. no: whenever the OS decides. If "
        "only the service crashes, nothing is lost in any mode."),
    ROW(snapshot_interval, "snapshot-interval", SECONDS, "15m", 0, 30 * DAY, LIVE, "TIME",
        "How often changed filters are written to a snapshot (0: only when the journal reaches "
        "snapshot-journal-size). Shutdown writes no snapshot, because the journal contains all changes; SHUTDOWN SAVE "
        "writes one, which makes the next start faster."),
    ROW(snapshot_journal_size, "snapshot-journal-size", BYTES, "256Mi", MI, TI, LIVE, "SIZE",
        "Journal size at which a snapshot is written. The limit also bounds the startup time."),
    CHOICE(loading, "loading", "maybe", START, loading_names,
        "How to reply to clients while filters are being loaded at startup. maybe: lookups return \"maybe\", which "
        "is never wrong, and changes are refused. refuse: commands fail with a LOADING error."),
    CHOICE(damaged_journal, "damaged-journal", "refuse", START, damaged_names,
        "What to do at startup if the journal is damaged in a way that a crash cannot explain. refuse: report the "
        "damage and exit. doubt: start; filters that may have lost keys, and unknown names that may have been filters, "
        "answer \"maybe\" and accept no adds until they are reloaded or dropped. forget: like doubt for known filters, "
        "but assume that no other filters existed."),
    ROW(shutdown_grace, "shutdown-grace", SECONDS, "10s", 0, 3600, LIVE, "TIME",
        "How long shutdown waits for requests in progress. It then closes all connections and waits for long tasks to "
        "finish. A second SIGTERM or SIGINT, or SHUTDOWN NOW, skips both: tasks that are still running after a second "
        "are interrupted, and no acknowledged change is lost."),

    SECTION("Threads"),
    ROW(workers, "workers", COUNT, "0", 0, 128, START, "N",
        "Number of threads that serve connections (0: one per core)."),
    ROW(jobs, "jobs", COUNT, "4", 1, 64, START, "N",
        "Number of threads for long tasks: password hashing, merging, loading and database lookups."),

    SECTION("Limits"),
    ROW(maxclients, "maxclients", COUNT, "10k", 1, 1e6, LIVE, "N",
        "Maximum number of connections of all kinds; further connections are refused. Raising it above the number "
        "that the open-file limit allowed at startup requires a restart."),
    ROW(client_query_buffer_limit, "client-query-buffer-limit", BYTES, "128Mi", 64 * KI, TI, LIVE, "SIZE",
        "Maximum size of an incomplete request; clients that exceed it are disconnected."),
    ROW(proto_max_bulk_len, "proto-max-bulk-len", BYTES, "64Mi", KI, TI, LIVE, "SIZE",
        "Maximum length of a command argument, and of an HTTP request body other than a filter upload."),
    ROW(client_output_buffer_limit, "client-output-buffer-limit", BYTES, "64Mi", 64 * KI, TI, LIVE, "SIZE",
        "Maximum size of the replies that a client has not read yet; clients that exceed it are disconnected."),
    ROW(pipeline_limit, "pipeline-limit", COUNT, "10k", 1, 1e6, LIVE, "N",
        "Number of pipelined commands from one client that are processed before other clients get a turn. "
        "Further commands are delayed, not refused."),
    ROW(timeout, "timeout", SECONDS, "0", 0, 365 * DAY, LIVE, "TIME",
        "Close connections that are idle for longer than this (0: never)."),
    ROW(slow_client_timeout, "slow-client-timeout", SECONDS, "30s", 0, 365 * DAY, LIVE, "TIME",
        "Close connections that stall for longer than this in a request, in a TLS handshake, or while reading "
        "a reply (0: never)."),
    ROW(maxmemory, "maxmemory", MEMORY, "75%", 0, 1024 * TI, LIVE, "SIZE",
        "Maximum memory, in bytes or as a percentage of the memory of the machine or container (0: no limit). It covers "
        "filters, names, request and reply buffers, and copies made by dumps, loads and verification. Commands "
        "that need more fail with an OOM error. HTTP uploads in progress use at most this much disk space in total."),
    ROW(max_filter_memory, "max-filter-memory", MEMORY, "50%", 0, 1024 * TI, LIVE, "SIZE",
        "Maximum memory per filter (0: no limit)."),
    ROW(max_filters, "max-filters", COUNT, "100k", 1, 1e8, LIVE, "N",
        "Maximum number of filters."),
    ROW(insert_rate, "insert-rate", COUNT, "0", 0, 1e12, LIVE, "N",
        "Maximum adds per second for each user without a rate of its own (0: no limit). Requests over the limit fail "
        "with an error."),
    ROW(insert_burst, "insert-burst", COUNT, "0", 0, 1e12, LIVE, "N",
        "Maximum number of adds in a burst (0: one second's worth)."),

    SECTION("New filters"),
    ROW(bf_error_rate, "bf-error-rate", RATE, "0.01", 0, 1, LIVE, "RATE",
        "False-positive rate of filters created by BF.ADD."),
    ROW(bf_initial_size, "bf-initial-size", COUNT, "100", 1, 1073741824, LIVE, "N",
        "Initial capacity of filters created by BF.ADD."),
    ROW(bf_expansion_factor, "bf-expansion-factor", COUNT, "2", 0, 32768, LIVE, "N",
        "Size of each new layer relative to the previous one, for filters created by BF.ADD (0: filters do not "
        "grow)."),
    ROW(cf_bucket_size, "cf-bucket-size", COUNT, "2", 1, 255, LIVE, "N",
        "Bucket size that CF.INFO reports for filters created by CF.ADD."),
    ROW(cf_initial_size, "cf-initial-size", COUNT, "1024", 2, 1073741824, LIVE, "N",
        "Initial capacity of filters created by CF.ADD; at least twice cf-bucket-size."),
    ROW(cf_max_iterations, "cf-max-iterations", COUNT, "20", 1, 65535, LIVE, "N",
        "Iteration limit that CF.INFO reports for filters created by CF.ADD."),
    ROW(cf_expansion_factor, "cf-expansion-factor", COUNT, "1", 0, 32768, LIVE, "N",
        "Expansion factor of filters created by CF.ADD (0: filters do not grow)."),
    ROW(cf_max_expansions, "cf-max-expansions", COUNT, "32", 1, 65536, LIVE, "N",
        "Maximum number of times that a filter created by CF.ADD can grow."),

    SECTION("Gates"),
    ROW(gates, "gate", GATE, "", 0, 0, START, "NAME WORD...",
        "Defines a filter in front of a database: its name, and settings as NAME=VALUE. See GATES."),

    SECTION("Clusters"),
    ROW(sharded, "sharded", SHARDED, "", 0, 0, START, "NAME WORD...",
        "Defines a filter that is sharded across a Redis Cluster and served by this service: its name, and settings as "
        "NAME=VALUE. nodes=HOST:PORT,... lists some of the cluster's nodes and is required. The other settings, with "
        "their defaults in parentheses, are: shards=N, the number of shards (16); replicas=N, the number of replicas "
        "that must acknowledge an add (0); timeout=TIME, the reply timeout (1s); connect=TIME, the connection timeout "
        "(same as timeout); patience=TIME, how long a failed request is retried (2s); user=NAME, and "
        "password-file=FILE or password=TEXT; tls=yes; tls-ca=FILE, the CA certificates for the nodes (the OS's CA "
        "certificates); tls-cert=FILE and tls-key=FILE, the client certificate and its key; tls-name=NAME, the name in "
        "the certificates of all nodes, or * for any name (the host of each node). Lookups that the cluster does not "
        "answer return \"maybe\"; with fail=closed they fail with an error."),

    SECTION("Logs and metrics"),
    CHOICE(log_level, "log-level", "info", LIVE, level_names,
        "Minimum severity of log lines."),
    CHOICE(log_format, "log-format", "logfmt", LIVE, format_names,
        "Format of log lines. logfmt: name=value pairs. json: one JSON object per line."),
    ROW(slowlog_from, "slowlog-log-slower-than", COUNT, "10000", 0, 3600e6, LIVE, "MICROSECONDS",
        "Requests that take at least this long are recorded for SLOWLOG, which keeps the last 128. Pipelined "
        "requests that are processed together share an entry. 0 records every request."),
    ROW(log_file, "log-file", TEXT, "", 0, 0, START, "PATH",
        "File to write the log to (default: stderr). SIGHUP reopens it."),
    ROW(pid_file, "pid-file", TEXT, "", 0, 0, START, "PATH",
        "File to write the process ID to."),
    CHOICE(supervised, "supervised", "auto", START, supervised_names,
        "Whether to notify the service manager when the service is ready. auto: notify the manager if it requested a "
        "notification. systemd: refuse to start if it did not request one."),
    ROW(metrics_max_filters, "metrics-max-filters", COUNT, "1000", 0, 1e6, LIVE, "N",
        "Maximum number of filters that /metrics reports by name."),
};

/* clang-format on */

enum { SETTINGS_ROWS = sizeof settings_rows / sizeof *settings_rows };

const struct setting *settings_table(size_t *n)
{
    *n = SETTINGS_ROWS;
    return settings_rows;
}

uint32_t settings_hash(const struct settings *settings)
{
    bg_hash_profile profile = BG_HASH_KEYED;
    (void)bg_hash_parse(hash_names[settings->hash], &profile);
    return profile;
}

const struct setting *settings_find(const char *name)
{
    for (size_t i = 0; i < SETTINGS_ROWS; i++) {
        if (settings_rows[i].name && strcmp(settings_rows[i].name, name) == 0) {
            return &settings_rows[i];
        }
    }
    return NULL;
}
