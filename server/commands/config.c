/*
 * commands/config.c - CONFIG: the options of settings.h, and a few Redis options that clients query. The
 * Redis options have constant values here.
 */
#include "core/server.h"
#include "letters.h"
#include "pattern.h"
#include "request/cmd.h"
#include "request/totals.h"
#include "util/log.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name, *value;
} config_facts[] = {
    { "databases", "1" },
    { "save", "" },
    { "maxmemory-policy", "noeviction" },
    { "cluster-enabled", "no" },
    { "slowlog-log-slower-than", "10000" },
    { "slowlog-max-len", "128" },
};

/* ---- GET ------------------------------------------------------------------------------------- */

/* Names and values found so far, each followed by a NUL. */
struct config_found {
    const struct request *request;
    size_t pattern; /* index of the argument being matched */
    struct buffer text;
    size_t count;
};

static bool config_matches(bg_bytes pattern, const char *name)
{
    return pattern_matches_nocase(pattern.data, pattern.len, name, strlen(name));
}

/* Collects an option, unless an earlier pattern has already matched it. */
static void config_visit(void *context, const char *name, const char *value)
{
    struct config_found *found = context;
    for (size_t i = 2; i < found->pattern; i++) {
        if (config_matches(found->request->argv[i], name)) {
            return;
        }
    }
    buffer_put(&found->text, name, strlen(name) + 1);
    buffer_put(&found->text, value, strlen(value) + 1);
    found->count++;
}

static void config_get(struct request *request)
{
    const struct session *session = session_of(request);
    struct config_found found = { .request = request };
    buffer_init(&found.text, 1 << 20);
    for (size_t i = 2; i < request->argc; i++) {
        found.pattern = i;
        settings_get(session->from, request->argv[i], config_visit, &found);
        for (size_t f = 0; f < sizeof config_facts / sizeof *config_facts; f++) {
            if (config_matches(request->argv[i], config_facts[f].name)) {
                config_visit(&found, config_facts[f].name, config_facts[f].value);
            }
        }
    }
    if (found.text.overflow) {
        reply_error(&request->reply, "ERR out of memory");
    } else {
        const char *at = found.text.data;
        reply_map(&request->reply, found.count);
        for (size_t i = 0; i < 2 * found.count; i++) {
            reply_text(&request->reply, at);
            at += strlen(at) + 1;
        }
    }
    buffer_free(&found.text);
}

/* ---- SET ------------------------------------------------------------------------------------- */

static bool config_is_known(bg_bytes name)
{
    char text[64];
    if (name.len >= sizeof text) {
        return false;
    }
    letters_lower(text, sizeof text, name.data, name.len);
    return settings_find(text) != NULL;
}

/* Logs the names of changed options, but not the values, which may be secret. */
static void config_log(const struct request *request)
{
    char text[256] = "", word[64];
    size_t n = 0;
    for (size_t i = 2; i < request->argc && n < sizeof text - 70; i += 2) {
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", n ? ", " : "",
                              args_show(request->argv[i], word));
    }
    log_event(LOG_EVENT_CONFIG, (bg_bytes){ NULL, 0 }, "CONFIG SET by %s: %s",
              session_of(request)->client->address, text);
}

static void config_set(struct request *request)
{
    struct server *server = session_of(request)->server;
    char why[SETTINGS_WHY], word[64];
    if (request->argc % 2) {
        cmd_syntax(request);
        return;
    }
    for (size_t i = 2; i < request->argc; i += 2) {
        if (!config_is_known(request->argv[i])) {
            reply_errorf(
                &request->reply,
                "ERR Unknown option or number of arguments for CONFIG SET - '%s'",
                args_show(request->argv[i], word));
            return;
        }
    }
    if (!settings_set(server->store, request->argv + 2, (request->argc - 2) / 2, why)) {
        reply_errorf(&request->reply, "ERR CONFIG SET failed - %s", why);
        return;
    }
    config_log(request);
    reply_ok(&request->reply);
}

static void config_rewrite(struct request *request)
{
    reply_error(&request->reply,
                "ERR CONFIG REWRITE is not supported: edit the configuration file "
                "and send SIGHUP, or restart");
}

static void config_resetstat(struct request *request)
{
    server_reset_totals(session_of(request)->server);
    reply_ok(&request->reply);
}

#define CONFIG_FLAGS (COMMAND_ADMIN | COMMAND_LOADING | COMMAND_STALE | COMMAND_SUB)

const struct command config_commands[] = {
    { "CONFIG", -2, COMMAND_CONTAINER | COMMAND_LOADING | COMMAND_STALE, 0, 0, 0, 0,
      cmd_container, NULL, "", "Reads and changes options", "Depends on subcommand",
      "0.1.0", BEHAVIOR_SERVICE },
    { "CONFIG|GET", -3, CONFIG_FLAGS, 0, 0, 0, 0, config_get, NULL,
      "parameter [parameter ...]",
      "Returns the options whose names match a pattern, with their values",
      "O(N) where N is the number of options", "0.1.0", BEHAVIOR_SERVICE },
    { "CONFIG|SET", -4, CONFIG_FLAGS | COMMAND_SLOW, 0, 0, 0, 0, config_set, NULL,
      "parameter value [parameter value ...]",
      "Changes the given options until the next restart; if one is invalid, changes "
      "none of them",
      "O(N) where N is the number of options", "0.1.0", BEHAVIOR_SERVICE },
    { "CONFIG|RESETSTAT", 2, CONFIG_FLAGS, 0, 0, 0, 0, config_resetstat, NULL, "",
      "Resets the counters in the Stats section of INFO; metrics are not reset", "O(1)",
      "0.1.0", BEHAVIOR_SERVICE },
    { "CONFIG|REWRITE", 2, CONFIG_FLAGS, 0, 0, 0, 0, config_rewrite, NULL, "",
      "Not supported", "O(1)", "0.1.0", BEHAVIOR_SERVICE },
    CMD_HELP("CONFIG"),
    CMD_END,
};
