/* service_link.c - see service_link.h. */
#include "service_link.h"

#include "say.h"
#include "stop.h"

#include <stdlib.h>
#include <string.h>

enum { SERVICE_TIMEOUT = 60000, SERVICE_CLEANUP = 3000 }; /* milliseconds */

/* ---- Options --------------------------------------------------------------------------------- */

#define OPT_STRUCT struct login_options
static const struct option login_table[] = {
    OPT_SECONDS("connect-timeout", 0, connect, "T",
                "connect timeout (default: --timeout)"),
    OPT_TEXT("user", 0, user, "NAME",
             "user name; set the password in BLOOMGATE_PASSWORD"),
    OPT_TEXT("password-file", 0, password_file, "FILE",
             "file whose first line is the password"),
    OPT_FLAG("tls", 0, tls, "connect with TLS"),
    OPT_TEXT("tls-ca", 0, tls_ca, "FILE",
             "trusted CA certificates (default: OS trust store)"),
    OPT_TEXT("tls-cert", 0, tls_cert, "FILE", "client certificate"),
    OPT_TEXT("tls-key", 0, tls_key, "FILE", "private key of the client certificate"),
    OPT_TEXT("tls-name", 0, tls_name, "NAME",
             "expected certificate name (default: host; *: any)"),
    OPT_END,
};
#undef OPT_STRUCT
const struct option_group login_options_group = { "Connection", login_table };

#define OPT_STRUCT struct service_options
static const struct option service_table[] = {
    OPT_TEXT("service", 'S', service, "HOST:PORT",
             "address of the service's port for Redis clients"),
    OPT_SECONDS("timeout", 0, timeout, "T", "reply timeout (default: 60s)"),
    OPT_SECONDS("patience", 0, patience, "T",
                "how long to retry after the last reply (default: 60s)"),
    OPT_END,
};
#undef OPT_STRUCT
const struct option_group service_options_group = { "Service", service_table };

uint32_t login_milliseconds(double seconds)
{
    const double most = 1e9;
    return seconds <= 0            ? 0
           : seconds > most / 1000 ? (uint32_t)most
           : seconds < 0.001       ? 1
                                   : (uint32_t)(seconds * 1000);
}

int login_read(const struct login_options *o, struct cluster_options *how)
{
    const char *password =
        getenv("BLOOMGATE_PASSWORD"); /* NOLINT(concurrency-mt-unsafe) */
    if (!o->tls && (o->tls_ca || o->tls_cert || o->tls_key || o->tls_name)) {
        return say_usage(
            "--tls-ca, --tls-cert, --tls-key and --tls-name require --tls");
    }
    how->user = o->user;
    how->password = password;
    how->password_file = o->password_file;
    how->tls = (struct node_tls_options){ .on = o->tls,
                                          .ca = o->tls_ca,
                                          .cert = o->tls_cert,
                                          .key = o->tls_key,
                                          .name = o->tls_name };
    how->connect = login_milliseconds(o->connect);
    how->stop_fd = stop_fd();
    return CLI_OK;
}

/* ---- Requests -------------------------------------------------------------------------------- */

static void service_answered(struct cluster_ask *ask, bg_bytes reply)
{
    struct service_link *link = ask->context;
    link->full = false;
    if (reply.len > link->room) {
        char *bytes = realloc(link->bytes, reply.len);
        if (!bytes) {
            link->full = true;
            return;
        }
        link->bytes = bytes;
        link->room = reply.len;
    }
    memcpy(link->bytes, reply.data, reply.len);
    link->used = reply.len;
}

int service_request(struct service_link *link, const bg_bytes *argv, size_t argc,
                    bg_bytes *reply)
{
    struct cluster_ask ask = {
        .argv = argv, .argc = argc, .answered = service_answered, .context = link
    };
    bg_errinfo why;
    if (cluster_call(link->cluster, &ask, 1, &why)) {
        return why.code == BG_ECANCELED ? (int)CLI_INTERRUPTED
                                        : say_error(link->how.nodes, &why);
    }
    *reply = (bg_bytes){ link->bytes, link->used };
    return link->full ? say_full("out of memory") : CLI_OK;
}

bg_bytes service_field(bg_bytes info, const char *name)
{
    const char *at = info.data, *end = at + info.len;
    const size_t n = strlen(name);
    while (at < end) {
        const char *stop = memchr(at, '\r', (size_t)(end - at));
        stop = stop ? stop : end;
        if ((size_t)(stop - at) > n && memcmp(at, name, n) == 0 && at[n] == ':') {
            return (bg_bytes){ at + n + 1, (size_t)(stop - at) - n - 1 };
        }
        at = stop + 2;
    }
    return (bg_bytes){ "", 0 };
}

int service_refused(const char *about, bg_bytes text)
{
    const bool denied = reply_begins(text, "NOPERM");
    return say_failed(
        reply_begins(text, "OOM") ? CLI_FULL : CLI_DATA, "%s: %.*s%s", about,
        (int)(text.len < 500 ? text.len : 500), (const char *)text.data,
        denied ? "; use a user that may run the command on all filters (--user)" : "");
}

/* ---- Opening --------------------------------------------------------------------------------- */

/* Returns an error if the server is not bloomgated. If the user may not run INFO, the server is
 * accepted. */
static int service_check(struct service_link *link)
{
    const bg_bytes words[] = { link_word("INFO"), link_word("server") };
    bg_bytes reply = { NULL, 0 };
    const int code = service_request(link, words, 2, &reply);
    if (code) {
        return code;
    }
    const struct reply_item item = reply_first(reply);
    if (item.type == '$' && service_field(item.text, "bloomgate_version").len == 0) {
        return say_data("%s: the server is not bloomgated", link->how.nodes);
    }
    return CLI_OK;
}

static int service_connect(struct service_link *link)
{
    bg_errinfo why;
    return cluster_open(&link->how, &link->cluster, &why)
               ? why.code == BG_ECANCELED ? (int)CLI_INTERRUPTED : say_error(NULL, &why)
               : CLI_OK;
}

int service_open(const struct service_options *o, struct service_link *link)
{
    *link = (struct service_link){ .how = { .nodes = o->service, .single = true } };
    if (!o->service) {
        return say_usage("missing option --service HOST:PORT");
    }
    if (strchr(o->service, ',')) {
        return say_usage("--service: found '%s', expected one HOST:PORT", o->service);
    }
    link->how.timeout =
        o->timeout > 0 ? login_milliseconds(o->timeout) : SERVICE_TIMEOUT;
    link->how.patience =
        o->patience > 0 ? login_milliseconds(o->patience) : SERVICE_TIMEOUT;
    int code = login_read(&o->login, &link->how);
    code = code ? code : service_connect(link);
    return code ? code : service_check(link);
}

int service_reopen(struct service_link *link)
{
    cluster_close(link->cluster);
    link->cluster = NULL;
    link->how.stop_fd = -1;
    link->how.timeout = link->how.patience = SERVICE_CLEANUP;
    return service_connect(link);
}

void service_close(struct service_link *link)
{
    cluster_close(link->cluster);
    free(link->bytes);
    *link = (struct service_link){ .cluster = NULL };
}
