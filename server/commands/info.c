/*
 * commands/info.c - INFO: statistics grouped in sections, with one statistic per line. Statistics that
 * Redis also reports have the same names here, so that existing tools can read them.
 */
#include "core/server.h"
#include "fronts/fronts.h"
#include "ledger.h"
#include "observe/observer.h"
#include "persist/persist.h"
#include "request/cmd.h"
#include "request/jobs.h"
#include "request/totals.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

static void info_line(struct buffer *out, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void info_line(struct buffer *out, const char *format, ...)
{
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    const int n = vsnprintf(line, sizeof line - 2, format, arguments);
    va_end(arguments);
    if (n > 0) {
        const size_t len = (size_t)n < sizeof line - 2 ? (size_t)n : sizeof line - 3;
        buffer_put(out, line, len);
        buffer_text(out, "\r\n");
    }
}

static unsigned long long info_number(uint64_t n)
{
    return n;
}

static void info_count(struct buffer *out, const char *name, uint64_t value)
{
    info_line(out, "%s:%llu", name, info_number(value));
}

/* Writes a size twice: in bytes, and in Redis's human-readable format (1.50M). */
static void info_bytes(struct buffer *out, const char *name, uint64_t bytes)
{
    static const char units[] = "BKMGTP";
    double amount = (double)bytes;
    size_t unit = 0;
    while (amount >= 1024 && unit + 2 < sizeof units) {
        amount /= 1024;
        unit++;
    }
    info_count(out, name, bytes);
    info_line(out, unit ? "%s_human:%.2f%c" : "%s_human:%.0f%c", name, amount,
              units[unit]);
}

/* ---- Sections -------------------------------------------------------------------------------- */

static void info_server(const struct session *session, struct buffer *out)
{
    const struct server *server = session->server;
    const uint64_t up = (session->now - server->started) / 1000;
    struct utsname system = { .sysname = "" };
    (void)uname(&system);
    info_line(out, "redis_version:%s", CMD_REDIS_VERSION);
    info_line(out, "bloomgate_version:%s", bg_version());
    info_line(out, "server_name:bloomgated");
    info_line(out, "redis_mode:standalone");
    info_line(out, "os:%s %s %s", system.sysname, system.release, system.machine);
    info_line(out, "arch_bits:%zu", 8 * sizeof(void *));
    info_line(out, "multiplexing_api:libevent");
    info_line(out, "process_id:%ld", (long)getpid());
    info_line(out, "run_id:%s", server->run_id);
    info_count(out, "tcp_port", session->from->port);
    info_count(out, "server_time_usec", session->now * 1000);
    info_count(out, "uptime_in_seconds", up);
    info_count(out, "uptime_in_days", up / 86400);
    info_line(out, "io_threads_active:%d", server->workers_count > 1);
    info_line(out, "workers:%zu", server->workers_count);
}

static void info_clients(const struct session *session, struct buffer *out)
{
    info_count(out, "connected_clients", atomic_load(&session->server->clients));
    info_line(out, "cluster_connections:0");
    info_count(out, "maxclients", session->from->maxclients);
    info_line(out, "blocked_clients:0");
    info_line(out, "tracking_clients:0");
    info_line(out, "jobs_waiting:%zu", jobs_waiting(session->server->jobs));
}

static void info_memory(const struct session *session, struct buffer *out)
{
    const uint64_t resident = observer_rss();
    const uint64_t filters = catalog_bytes(session->server->catalog);
    const uint64_t used = ledger_used(), peak = ledger_peak();
    info_bytes(out, "used_memory", used);
    info_bytes(out, "used_memory_rss", resident);
    info_bytes(out, "used_memory_peak", peak > used ? peak : used);
    info_count(out, "used_memory_dataset", filters);
    info_count(out, "used_memory_filters", ledger_used_by(LEDGER_FILTERS));
    info_count(out, "used_memory_objects", ledger_used_by(LEDGER_OBJECTS));
    info_count(out, "used_memory_buffers", ledger_used_by(LEDGER_BUFFERS));
    info_count(out, "used_memory_transfers", ledger_used_by(LEDGER_TRANSFERS));
    info_bytes(out, "total_system_memory",
               (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE));
    info_bytes(out, "maxmemory", session->from->maxmemory);
    info_line(out, "maxmemory_policy:noeviction");
    info_line(out, "mem_fragmentation_ratio:1.00");
    info_line(out, "mem_allocator:libc");
}

static void info_persistence(const struct session *session, struct buffer *out)
{
    const struct server *server = session->server;
    struct persist_stats stats = { .last_snapshot = 0 };
    if (server->persist) {
        persist_about(server->persist, &stats);
    }
    const uint64_t last = stats.last_snapshot ? stats.last_snapshot : server->started;
    const bool saving = stats.snapshotting || atomic_load(&server->saving);
    info_line(out, "loading:%d", atomic_load(&server->phase) <= SERVER_LOADING);
    info_line(out, "async_loading:0");
    info_line(out, "rdb_bgsave_in_progress:%d", saving);
    info_count(out, "rdb_last_save_time", last / 1000);
    info_line(out, "rdb_last_bgsave_status:%s", stats.snapshot_failures ? "err" : "ok");
    info_line(out, "rdb_last_bgsave_time_sec:%.0f", stats.last_snapshot_seconds);
    info_count(out, "rdb_saves", stats.snapshots);
    info_line(out, "aof_enabled:%d", server->persist != NULL);
    info_line(out, "aof_rewrite_in_progress:%d", saving);
    info_line(out, "aof_last_bgrewrite_status:%s",
              stats.snapshot_failures ? "err" : "ok");
    info_line(out, "aof_last_write_status:%s", stats.failed ? "err" : "ok");
    info_count(out, "aof_current_size", stats.journal_bytes);
    info_count(out, "journal_segments", stats.journal_segments);
    info_count(out, "journal_records", stats.frames);
    info_count(out, "journal_syncs", stats.syncs);
    info_count(out, "journal_unsynced", stats.unsynced);
    info_count(out, "load_filters", stats.loaded_filters);
    info_count(out, "load_records", stats.replayed_records);
    info_count(out, "load_torn_bytes", stats.torn_bytes);
    info_count(out, "load_lost_frames", stats.lost_frames);
    info_count(out, "load_files_kept", stats.files_kept);
    info_line(out, "names_in_doubt:%d", stats.names_in_doubt);
    info_line(out, "load_seconds:%.3f", stats.load_seconds);
    if (stats.failed) {
        info_line(out, "journal_failure:%s", stats.failure);
    }
}

/* Writes the counters of the client's own user. */
static void info_user(const struct session *session, struct buffer *out)
{
    struct user_figures figures = { .rate = 0 };
    if (session->client && session->client->user) {
        user_about(session->client->user, &figures);
    }
    info_count(out, "user_queries", figures.queries);
    info_count(out, "user_adds", figures.adds);
}

static void info_stats(const struct session *session, struct buffer *out)
{
    struct server_totals totals;
    server_sum_totals(session->server, &totals);
    info_count(out, "total_connections_received", totals.accepted);
    info_count(out, "total_commands_processed", totals.requests);
    info_count(out, "total_net_input_bytes", totals.bytes_in);
    info_count(out, "total_net_output_bytes", totals.bytes_out);
    info_count(out, "rejected_connections", totals.rejected);
    info_count(out, "total_error_replies", totals.errors);
    info_user(session, out);
    info_line(out, "evicted_keys:0");
    info_line(out, "pubsub_channels:0");
    info_line(out, "pubsub_patterns:0");
    info_count(out, "pipeline_runs", totals.runs);
    info_count(out, "closed_connections", totals.closed);
    info_count(out, "timed_out_connections", totals.timed_out);
    info_count(out, "overflowed_connections", totals.overflowed);
}

static void info_replication(const struct session *session, struct buffer *out)
{
    info_line(out, "role:master");
    info_line(out, "connected_slaves:0");
    info_line(out, "master_failover_state:no-failover");
    info_line(out, "master_replid:%s", session->server->run_id);
    info_line(out, "master_repl_offset:0");
}

static void info_cpu(const struct session *session, struct buffer *out)
{
    struct rusage usage = { .ru_maxrss = 0 };
    (void)session;
    (void)getrusage(RUSAGE_SELF, &usage);
    info_line(out, "used_cpu_sys:%ld.%06ld", (long)usage.ru_stime.tv_sec,
              (long)usage.ru_stime.tv_usec);
    info_line(out, "used_cpu_user:%ld.%06ld", (long)usage.ru_utime.tv_sec,
              (long)usage.ru_utime.tv_usec);
}

static void info_modules(const struct session *session, struct buffer *out)
{
    (void)session;
    info_line(out,
              "module:name=bf,ver=%d,api=1,filters=0,usedby=[],using=[],options=[]",
              CMD_MODULE_VERSION);
}

static void info_cluster(const struct session *session, struct buffer *out)
{
    (void)session;
    info_line(out, "cluster_enabled:0");
}

static void info_keyspace(const struct session *session, struct buffer *out)
{
    const struct catalog *catalog = session->server->catalog;
    const size_t keys = catalog_count(catalog);
    if (keys > 0) {
        info_line(out, "db0:keys=%zu,expires=%zu,avg_ttl=0", keys,
                  catalog_expiring(catalog));
    }
}

struct info_quotas {
    struct buffer *out;
    const struct user *only; /* NULL: all users */
};

static void info_quota(void *context, const struct user *user, const char *const *words,
                       size_t n)
{
    const struct info_quotas *all = context;
    struct user_figures f;
    (void)words;
    (void)n;
    user_about(user, &f);
    if (user_has_quota(user) && (!all->only || all->only == user)) {
        info_line(all->out,
                  "quota_%s:filters=%llu,max_filters=%llu,bytes=%llu,max_bytes=%llu,"
                  "refused=%llu",
                  user_name(user), (unsigned long long)f.filters,
                  (unsigned long long)f.max_filters, (unsigned long long)f.bytes,
                  (unsigned long long)f.max_bytes, (unsigned long long)f.refused_quota);
    }
}

/* Writes the usage of users with a quota. For a user that may not read all filters, writes only
 * the user's own usage. */
static void info_quotas(const struct session *session, struct buffer *out)
{
    const struct user *user = session->client->user;
    struct info_quotas all = { .out = out,
                               .only =
                                   user_may_touch_all(user, USER_READ) ? NULL : user };
    users_each(session->server->users, info_quota, &all);
}

/* Writes the statistics for filters that are distributed across a cluster: items, unanswered items,
 * shards, nodes, and the outcomes of requests to the nodes. */
static void info_sharded(const struct session *session, struct buffer *out)
{
    struct front_facts f;
    for (size_t i = 0; fronts_facts(session->server->fronts, i, &f); i++) {
        if (!user_may_touch(session->client->user, (bg_bytes){ f.name, strlen(f.name) },
                            USER_READ)) {
            continue;
        }
        const uint64_t failed = f.added[FRONT_ADD_REFUSED] + f.added[FRONT_UNKNOWN];
        const uint64_t questions = f.asked[FRONT_MAYBE] + f.asked[FRONT_NO]
                                   + f.asked[FRONT_UNREACHED]
                                   + f.asked[FRONT_ASK_REFUSED];
        info_line(
            out,
            "sharded_%s:shards=%u,state=%s,adds=%llu,failed=%llu,questions=%llu,"
            "unanswered=%llu,adds_unknown=%llu,shards_down=%u,shards_missing=%u,"
            "nodes=%u,nodes_reached=%u,map_age=%.0f,moved=%llu,ask=%llu,"
            "tryagain=%llu,clusterdown=%llu,repeated=%llu,connections_failed=%llu",
            f.name, f.shards, f.state,
            info_number(f.added[FRONT_NEW] + f.added[FRONT_OLD] + failed),
            info_number(failed), info_number(questions),
            info_number(f.asked[FRONT_UNREACHED] + f.asked[FRONT_ASK_REFUSED]),
            info_number(f.added[FRONT_UNKNOWN]), f.states[FRONT_DOWN],
            f.states[FRONT_MISSING], f.nodes, f.reached, f.map_age,
            info_number(f.moved), info_number(f.ask), info_number(f.tryagain),
            info_number(f.clusterdown), info_number(f.repeated),
            info_number(f.unopened + f.broken));
    }
}

static const struct {
    const char *name; /* name in uppercase, for comparison with the request */
    const char *title;
    void (*write)(const struct session *session, struct buffer *out);
} info_sections[] = {
    { "SERVER", "Server", info_server },
    { "CLIENTS", "Clients", info_clients },
    { "MEMORY", "Memory", info_memory },
    { "PERSISTENCE", "Persistence", info_persistence },
    { "STATS", "Stats", info_stats },
    { "REPLICATION", "Replication", info_replication },
    { "CPU", "CPU", info_cpu },
    { "MODULES", "Modules", info_modules },
    { "CLUSTER", "Cluster", info_cluster },
    { "SHARDED", "Sharded", info_sharded },
    { "QUOTAS", "Quotas", info_quotas },
    { "KEYSPACE", "Keyspace", info_keyspace },
};

/* ---- The command ----------------------------------------------------------------------------- */

static bool info_wants(const struct request *request, const char *name)
{
    bool wants = request->argc == 1;
    for (size_t i = 1; i < request->argc && !wants; i++) {
        const bg_bytes word = request->argv[i];
        wants = args_is(word, name) || args_is(word, "ALL") || args_is(word, "DEFAULT")
                || args_is(word, "EVERYTHING");
    }
    return wants;
}

static void info_run(struct request *request)
{
    const struct session *session = session_of(request);
    struct buffer out;
    buffer_init(&out, 1 << 20);
    for (size_t i = 0; i < sizeof info_sections / sizeof *info_sections; i++) {
        if (info_wants(request, info_sections[i].name)) {
            if (buffer_waiting(&out)) {
                buffer_text(&out, "\r\n");
            }
            info_line(&out, "# %s", info_sections[i].title);
            info_sections[i].write(session, &out);
        }
    }
    if (out.overflow) {
        reply_error(&request->reply, "ERR out of memory: cannot build the reply");
    } else {
        resp_reply_verbatim(&request->reply, out.data, buffer_waiting(&out));
    }
    buffer_free(&out);
}

const struct command info_commands[] = {
    { "INFO", -1, COMMAND_LOADING | COMMAND_STALE, CATEGORY_DANGEROUS, 0, 0, 0,
      info_run, NULL, "[section [section ...]]", "Returns statistics about the service",
      "O(1)", "0.1.0", BEHAVIOR_SERVICE },
    CMD_END,
};
