/*
 * settings_table.c - the table of options: the one place where they are.
 *
 * Defaults are written as one would write them in the file, and read by the same functions. A
 * new option is a field of struct settings and a row here; flag, variable, CONFIG, help, man
 * page and example file follow.
 */
#include "settings.h"

#include "log.h"

#include <string.h>

static const char *const fsync_names[] = { "always", "everysec", "no", NULL };
static const char *const loading_names[] = { "maybe", "refuse", NULL };
static const char *const damaged_names[] = { "refuse", "doubt", "forget", NULL };
static const char *const supervised_names[] = { "auto", "no", "systemd", NULL };
static const char *const clients_names[] = { "no", "optional", "yes", NULL };
static const char *const hash_names[] = { "fast", "keyed", "keyed24", "keyed-int",
                                          NULL };
static const char *const level_names[] = { "debug", "info", "warning", "error", NULL };
static const char *const format_names[] = { "logfmt", "json", NULL };

#define DAY 86400.0
#define KI  1024.0
#define MI  (1024.0 * 1024)
#define TI  (1024.0 * 1024 * 1024 * 1024)

/* ROW(field, "name", type, "default", least, most, when it can change, "VALUE", help) */
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
        "The addresses to listen on; * stands for all, of IPv4 and IPv6. An address behind a - may be missing "
        "on this machine. Addresses other than those of the machine itself need users with passwords: "
        "see protected."),
    ROW(port, "port", COUNT, "6420", 0, 65535, START, "PORT",
        "The port for clients of Redis (RESP), without TLS; 0 for none."),
    ROW(tls_port, "tls-port", COUNT, "0", 0, 65535, START, "PORT",
        "The port for clients of Redis with TLS; 0 for none. Needs tls-cert-file and tls-key-file."),
    ROW(http_port, "http-port", COUNT, "8420", 0, 65535, START, "PORT",
        "The port for HTTP: dashboard, JSON, metrics, health; 0 for none."),
    ROW(https_port, "https-port", COUNT, "0", 0, 65535, START, "PORT",
        "The same with TLS; 0 for none."),
    ROW(unixsocket, "unixsocket", TEXT, "", 0, 0, START, "PATH",
        "A unix socket for clients of Redis."),
    ROW(unixsocketperm, "unixsocketperm", OCTAL, "0700", 0, 0777, START, "MODE",
        "The permissions of the unix socket, as chmod has them."),
    ROW(tcp_backlog, "tcp-backlog", COUNT, "511", 1, 65535, START, "N",
        "How many connections may wait to be accepted."),
    ROW(tcp_keepalive, "tcp-keepalive", SECONDS, "300s", 0, DAY, LIVE, "TIME",
        "How long a silent connection is left alone before the system asks whether the other side is there; "
        "0 never asks."),
    SWITCH(protected_mode, "protected", "yes", START,
        "Refuses to listen beyond this machine as long as somebody without a password can use the service. "
        "With no it does so, and says so in its log at every start."),

    SECTION("Users and secrets"),
    ROW(users, "user", USER, "", 0, 0, RELOAD, "NAME RULE...",
        "A user and what he may do, a line each; the rules are read from left to right, and begin with a user "
        "who may nothing. See USERS."),
    ROW(requirepass, "requirepass", SECRET, "", 0, 0, RELOAD, "PASSWORD",
        "The password of the user default, hashed (bloomgated --hash-password) or in clear. For one user this "
        "is all that is needed; not together with a line for default."),
    SWITCH(http_auth, "http-auth", "yes", RELOAD,
        "Whether HTTP asks for a user (Basic, or Bearer NAME:PASSWORD) when the user default needs a password. "
        "With no it acts as default, whoever asks."),
    SWITCH(metrics_auth, "metrics-auth", "yes", RELOAD,
        "The same for /metrics. /healthz and /readyz never ask."),
    ROW(http_allowed_hosts, "http-allowed-hosts", LIST, "", 0, 0, RELOAD, "NAME...",
        "Names of this machine that may be in the address bar of a browser when HTTP asks for no password, "
        "beside localhost and addresses. Other names are refused, so that no page of a stranger can reach the "
        "service by a name of its own."),
    ROW(keyring, "keyring", TEXT, "/etc/bloomgate/keyring", 0, 0, START, "PATH",
        "The file with the secrets of keyed filters; made with a new secret if it is missing. It may not lie "
        "in dir: a copy of the data must not carry it. When not run by root, without being said: "
        "$XDG_CONFIG_HOME/bloomgate/keyring."),
    CHOICE(hash, "hash", "keyed", RELOAD, hash_names,
        "How new filters hash keys. The keyed ones protect against keys that were chosen to fill a filter or to "
        "be false positives; fast does not. keyed-int is fast for keys of 8 or 16 bytes."),
    SWITCH(core_dumps, "core-dumps", "no", START,
        "Whether the process may leave core files, in which secrets could be found."),

    SECTION("TLS"),
    ROW(tls_cert_file, "tls-cert-file", TEXT, "", 0, 0, RELOAD, "PATH",
        "The certificate, with those between it and the root behind it (PEM)."),
    ROW(tls_key_file, "tls-key-file", TEXT, "", 0, 0, RELOAD, "PATH",
        "Its private key (PEM, without a password)."),
    ROW(tls_ca_cert_file, "tls-ca-cert-file", TEXT, "", 0, 0, RELOAD, "PATH",
        "The authorities that certificates of clients must come from (PEM)."),
    CHOICE(tls_auth_clients, "tls-auth-clients", "no", RELOAD, clients_names,
        "Whether clients have to show a certificate. With optional, one that is shown must be good. A "
        "certificate does not replace the password."),

    SECTION("Data"),
    ROW(dir, "dir", TEXT, "/var/lib/bloomgate", 0, 0, START, "PATH",
        "The folder for snapshots and journals; made if it is missing. One service at a time may use it. When "
        "not run by root, without being said: $XDG_DATA_HOME/bloomgate."),
    SWITCH(appendonly, "appendonly", "yes", START,
        "Whether every change is written to a journal before it is answered. With no, a crash loses what came "
        "after the last snapshot."),
    CHOICE(appendfsync, "appendfsync", "everysec", LIVE, fsync_names,
        "When the journal is forced to the disk. With always it is before the answer, so nothing that was "
        "answered is lost; with everysec once per second, so a power failure loses a second; with no when the "
        "system likes. A crash of the service alone loses nothing with any of them."),
    ROW(snapshot_interval, "snapshot-interval", SECONDS, "15m", 0, 30 * DAY, LIVE, "TIME",
        "How often filters that changed are written as a whole; 0 only by size of the journal and when the "
        "service stops."),
    ROW(snapshot_journal_size, "snapshot-journal-size", BYTES, "256Mi", MI, TI, LIVE, "SIZE",
        "Writes a snapshot when the journal has become so large. It bounds the time that a start takes."),
    CHOICE(loading, "loading", "maybe", START, loading_names,
        "What clients get while filters are being read at the start. maybe answers look-ups with \"maybe\", "
        "which is never wrong, and refuses changes; refuse answers with the error LOADING."),
    CHOICE(damaged_journal, "damaged-journal", "refuse", START, damaged_names,
        "What to do at startup if the journal is damaged in a way that no crash explains. refuse: report the damage "
        "and exit. doubt: start; filters that may have lost keys, and unknown names that may have been filters, answer "
        "\"maybe\" and accept no adds until they are reloaded or dropped. forget: the same for known filters, but "
        "assume that no other filters existed."),
    ROW(shutdown_grace, "shutdown-grace", SECONDS, "10s", 0, 3600, LIVE, "TIME",
        "How long a stop waits for requests that have begun."),

    SECTION("Threads"),
    ROW(workers, "workers", COUNT, "0", 0, 128, START, "N",
        "Threads that serve connections; 0 for as many as there are processors."),
    ROW(jobs, "jobs", COUNT, "4", 1, 64, START, "N",
        "Threads for what takes long: passwords, merging, loading, look-ups in databases."),

    SECTION("Limits"),
    ROW(maxclients, "maxclients", COUNT, "10k", 1, 1e6, LIVE, "N",
        "Connections at once, of all kinds; more are refused. Raising it beyond what the system allowed at the "
        "start needs a restart."),
    ROW(client_query_buffer_limit, "client-query-buffer-limit", BYTES, "128Mi", 64 * KI, TI, LIVE, "SIZE",
        "What one client may have sent without it being a whole request; beyond it, it is disconnected."),
    ROW(proto_max_bulk_len, "proto-max-bulk-len", BYTES, "64Mi", KI, TI, LIVE, "SIZE",
        "The longest argument of a command, and the longest body of HTTP that is no upload of a filter."),
    ROW(client_output_buffer_limit, "client-output-buffer-limit", BYTES, "64Mi", 64 * KI, TI, LIVE, "SIZE",
        "What may wait for a client that does not read its answers; beyond it, it is disconnected."),
    ROW(pipeline_limit, "pipeline-limit", COUNT, "10k", 1, 1e6, LIVE, "N",
        "How many commands of one client are answered before others have their turn. More of them are no "
        "error: they wait."),
    ROW(timeout, "timeout", SECONDS, "0", 0, 365 * DAY, LIVE, "TIME",
        "Disconnects clients that send nothing for so long; 0 never."),
    ROW(slow_client_timeout, "slow-client-timeout", SECONDS, "30s", 0, 365 * DAY, LIVE, "TIME",
        "Disconnects clients that have begun a request, a log-in by TLS or the reading of an answer and "
        "take longer than this to get on with it; 0 never."),
    ROW(maxmemory, "maxmemory", MEMORY, "75%", 0, 1024 * TI, LIVE, "SIZE",
        "Maximum memory, in bytes or as a percentage of the memory of the machine or container (0: no limit). It covers "
        "filters, names, buffers of requests and replies, and copies made by dumps, loads and verification. Commands "
        "that need more fail with an OOM error. HTTP uploads in progress use at most this much disk space in total."),
    ROW(max_filter_memory, "max-filter-memory", MEMORY, "50%", 0, 1024 * TI, LIVE, "SIZE",
        "What one filter may take; 0 for no limit."),
    ROW(max_filters, "max-filters", COUNT, "100k", 1, 1e8, LIVE, "N",
        "How many filters there may be."),
    ROW(insert_rate, "insert-rate", COUNT, "0", 0, 1e12, LIVE, "N",
        "Adds per second of each user who has no rate of his own; 0 for no limit. Who is over it gets an error."),
    ROW(insert_burst, "insert-burst", COUNT, "0", 0, 1e12, LIVE, "N",
        "How many adds may come at once; 0 for those of one second."),

    SECTION("New filters"),
    ROW(bf_error_rate, "bf-error-rate", RATE, "0.01", 0, 1, LIVE, "RATE",
        "The rate of filters that BF.ADD makes."),
    ROW(bf_initial_size, "bf-initial-size", COUNT, "100", 1, 1073741824, LIVE, "N",
        "Their capacity before they grow."),
    ROW(bf_expansion_factor, "bf-expansion-factor", COUNT, "2", 0, 32768, LIVE, "N",
        "By how much each layer is larger than the one before; 0 for filters that do not grow."),
    ROW(cf_bucket_size, "cf-bucket-size", COUNT, "2", 1, 255, LIVE, "N",
        "What CF.INFO says of filters that CF.ADD makes."),
    ROW(cf_initial_size, "cf-initial-size", COUNT, "1024", 2, 1073741824, LIVE, "N",
        "Their capacity before they grow; at least twice cf-bucket-size."),
    ROW(cf_max_iterations, "cf-max-iterations", COUNT, "20", 1, 65535, LIVE, "N",
        "What CF.INFO says."),
    ROW(cf_expansion_factor, "cf-expansion-factor", COUNT, "1", 0, 32768, LIVE, "N",
        "0 for filters that do not grow."),
    ROW(cf_max_expansions, "cf-max-expansions", COUNT, "32", 1, 65536, LIVE, "N",
        "How often they may grow."),

    SECTION("Gates"),
    ROW(gates, "gate", GATE, "", 0, 0, START, "NAME WORD...",
        "Defines a filter in front of a database: its name, and settings as NAME=VALUE. See GATES."),

    SECTION("Clusters"),
    ROW(sharded, "sharded", SHARDED, "", 0, 0, START, "NAME WORD...",
        "A filter in shards over a Redis Cluster, a line each, for which the service answers: a name, nodes=HOST:PORT,... "
        "of some of its nodes, and if need be shards=N (16), replicas=N that must have an add (0), connect=TIME for a "
        "connection and timeout=TIME for an answer (1s), patience=TIME to try again (2s); user=NAME, password-file=FILE or "
        "password=TEXT; tls=yes, tls-ca=FILE of those who may vouch for the nodes (the system's), tls-cert=FILE and "
        "tls-key=FILE for nodes that ask for them, tls-name=NAME that all nodes have in their certificates, or * for any "
        "(the host of each). Questions that the cluster does not answer are answered \"maybe\", or with fail=closed are "
        "an error."),

    SECTION("Logs and metrics"),
    CHOICE(log_level, "log-level", "info", LIVE, level_names,
        "The least important lines that are written."),
    CHOICE(log_format, "log-format", "logfmt", LIVE, format_names,
        "Lines as name=value, or as JSON."),
    ROW(slowlog_from, "slowlog-log-slower-than", COUNT, "10000", 0, 3600e6, LIVE, "MICROSECONDS",
        "Requests that took so long are kept for SLOWLOG, the last 128 of them; 0 keeps every one that is run alone."),
    ROW(log_file, "log-file", TEXT, "", 0, 0, START, "PATH",
        "Where they go; stderr if it is not said. SIGHUP opens it again."),
    ROW(pid_file, "pid-file", TEXT, "", 0, 0, START, "PATH",
        "A file to write the number of the process to."),
    CHOICE(supervised, "supervised", "auto", START, supervised_names,
        "Whether the service manager is told when the service is ready. auto does so if there is one that "
        "asked for it, systemd refuses to start without."),
    ROW(metrics_max_filters, "metrics-max-filters", COUNT, "1000", 0, 1e6, LIVE, "N",
        "How many filters /metrics tells of by their names."),
};

/* clang-format on */

enum { SETTINGS_ROWS = sizeof settings_rows / sizeof *settings_rows };

const struct setting *settings_table(size_t *n)
{
    *n = SETTINGS_ROWS;
    return settings_rows;
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
