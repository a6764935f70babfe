/*
 * settings_check.c - validates all options together.
 *
 * Individual options are validated when they are read. This file checks combinations of options,
 * and whether they work on this machine: files must be readable, addresses must be valid, and
 * secrets must be outside the data directory. A configuration that would expose the service without
 * a password, or would fail later, is rejected at startup.
 */
#include "config/settings.h"
#include "config/tls.h"
#include "config/users.h"
#include "text.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* ---- Addresses ---------------------------------------------------------------------------- */

/* Strips the leading "-", which marks an address that may be unavailable. */
static const char *settings_check_address(const char *address)
{
    return *address == '-' ? address + 1 : address;
}

bool settings_is_loopback(const char *address)
{
    struct in_addr four;
    struct in6_addr six;
    address = settings_check_address(address);
    if (inet_pton(AF_INET, address, &four) == 1) {
        return ntohl(four.s_addr) >> 24 == 127;
    }
    if (inet_pton(AF_INET6, address, &six) == 1) {
        return IN6_IS_ADDR_LOOPBACK(&six)
               || (IN6_IS_ADDR_V4MAPPED(&six) && six.s6_addr[12] == 127);
    }
    return strcmp(address, "localhost") == 0;
}

static bool settings_check_is_address(const char *address)
{
    struct in6_addr any;
    address = settings_check_address(address);
    return strcmp(address, "*") == 0 || strcmp(address, "localhost") == 0
           || inet_pton(AF_INET, address, &any) == 1
           || inet_pton(AF_INET6, address, &any) == 1;
}

static void settings_check_network(struct settings_draft *draft, bool whole)
{
    const struct settings *s = &draft->settings;
    const struct {
        const char *name;
        uint64_t port;
    } ports[] = { { "port", s->port },
                  { "tls-port", s->tls_port },
                  { "http-port", s->http_port },
                  { "https-port", s->https_port } };
    struct stat info;
    bool any = *s->unixsocket != 0;
    for (size_t i = 0; i < 4; i++) {
        any = any || ports[i].port;
        for (size_t j = i + 1; j < 4; j++) {
            if (ports[i].port && ports[i].port == ports[j].port
                && settings_is_sound(draft, ports[i].name)
                && settings_is_sound(draft, ports[j].name)) {
                settings_mistake(draft, settings_where(draft, ports[j].name),
                                 "%s: port %u is already used by %s", ports[j].name,
                                 (unsigned)ports[j].port, ports[i].name);
            }
        }
    }
    for (size_t i = 0; i < s->bind.count; i++) {
        if (!settings_check_is_address(s->bind.items[i])) {
            settings_mistake(
                draft, settings_where(draft, "bind"),
                "bind: found '%.80s', expected an address such as 127.0.0.1, "
                "::1, 0.0.0.0, :: or *",
                s->bind.items[i]);
        }
    }
    if (strlen(s->unixsocket) >= sizeof((struct sockaddr_un *)0)->sun_path) {
        settings_mistake(draft, settings_where(draft, "unixsocket"),
                         "unixsocket: the path has %zu bytes (maximum: %zu)",
                         strlen(s->unixsocket),
                         sizeof((struct sockaddr_un *)0)->sun_path - 1);
    } else if (*s->unixsocket && stat(s->unixsocket, &info) == 0
               && !S_ISSOCK(info.st_mode)) {
        settings_mistake(draft, settings_where(draft, "unixsocket"),
                         "unixsocket: %s exists and is not a socket", s->unixsocket);
    }
    if (!any && whole) {
        settings_mistake(
            draft, "",
            "nothing to listen on: set port, tls-port, http-port, https-port or "
            "unixsocket");
    }
}

/* ---- Users -------------------------------------------------------------------------------- */

/* If a port is set, returns the first address that other machines can reach; otherwise returns
 * NULL. */
static const char *settings_check_beyond(const struct settings *s)
{
    for (size_t i = 0; i < s->bind.count; i++) {
        if ((s->port || s->tls_port || s->http_port || s->https_port)
            && !settings_is_loopback(s->bind.items[i])) {
            return s->bind.items[i];
        }
    }
    return NULL;
}

/* Returns why the service can be used without a password, or NULL if a password is required. */
static const char *settings_check_open(const struct settings *s,
                                       const struct users *users)
{
    return users_are_open(users) ? "at least one enabled user needs no password"
           : !s->http_auth && (s->http_port || s->https_port)
               ? "http-auth is no, so HTTP needs no password"
               : NULL;
}

/* Returns where the option at the start of a message, such as "tls-key-file: ...", was set. */
static const char *settings_check_where(const struct settings_draft *draft,
                                        const char *message)
{
    char name[64];
    (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(message, ":"), message);
    return settings_find(name) ? settings_where(draft, name) : "";
}

/* Reports each invalid line that defines a user. Returns whether all are valid. */
static bool settings_check_user_lines(struct settings_draft *draft, struct users *users)
{
    const struct settings_lines *lines = &draft->settings.users;
    char why[SETTINGS_WHY];
    const size_t before = draft->mistakes;
    for (size_t i = 0; i < lines->count; i++) {
        if (!users_check_line(users, &lines->items[i], why)) {
            settings_mistake(draft, lines->items[i].where, "%s", why);
        }
    }
    if (draft->mistakes == before && !users_load(users, &draft->settings, why)) {
        settings_mistake(draft, settings_check_where(draft, why), "%s", why);
    }
    return draft->mistakes == before;
}

static void settings_check_users(struct settings_draft *draft,
                                 const struct command *const *families, size_t n,
                                 bool whole)
{
    const struct settings *s = &draft->settings;
    struct users *users = users_create(families, n);
    if (!users) {
        settings_mistake(draft, "", "out of memory");
        return;
    }
    if (!settings_check_user_lines(draft, users) || !whole) {
        users_free(users);
        return;
    }
    const char *beyond = settings_check_beyond(s);
    if (s->users.count && !beyond && users_are_open(users)) {
        settings_doubt(
            draft, s->users.items[0].where,
            "users are defined, but an enabled user needs no password; unless this "
            "is intended, add 'user default off'");
    }
    const char *open = beyond ? settings_check_open(s, users) : NULL;
    if (open && s->protected_mode) {
        settings_mistake(
            draft, settings_where(draft, "bind"),
            "bind: '%.80s' is reachable from other machines, but %s; set requirepass "
            "or define users with passwords, bind only to loopback addresses, or set "
            "protected to no",
            beyond, open);
    } else if (open) {
        settings_doubt(draft, settings_where(draft, "protected"),
                       "protected is no: '%.80s' is reachable from other "
                       "machines, and %s",
                       beyond, open);
    }
    users_free(users);
}

/* ---- Files -------------------------------------------------------------------------------- */

static bool settings_check_readable(struct settings_draft *draft, const char *name,
                                    const char *path)
{
    if (*path && access(path, R_OK) != 0) {
        return settings_mistake(draft, settings_where(draft, name),
                                "%s: cannot read %.400s: %s", name, path,
                                text_errno(errno));
    }
    return *path != 0;
}

static void settings_check_tls(struct settings_draft *draft, bool whole)
{
    const struct settings *s = &draft->settings;
    char why[TLS_FILES][SETTINGS_WHY];
    struct stat info;
    const bool cert = settings_check_readable(draft, "tls-cert-file", s->tls_cert_file);
    const bool key = settings_check_readable(draft, "tls-key-file", s->tls_key_file);
    const bool ca =
        settings_check_readable(draft, "tls-ca-cert-file", s->tls_ca_cert_file);
    if (whole && (s->tls_port || s->https_port)
        && (!*s->tls_cert_file || !*s->tls_key_file)) {
        const char *name = s->tls_port ? "tls-port" : "https-port";
        settings_mistake(draft, settings_where(draft, name),
                         "%s: port %u requires tls-cert-file and tls-key-file", name,
                         (unsigned)(s->tls_port ? s->tls_port : s->https_port));
    }
    if (whole && s->tls_auth_clients != CLIENTS_NO && !*s->tls_ca_cert_file) {
        settings_mistake(draft, settings_where(draft, "tls-auth-clients"),
                         "tls-auth-clients: %s requires tls-ca-cert-file",
                         s->tls_auth_clients == CLIENTS_YES ? "yes" : "optional");
    }
    const bool uses_ca = ca && s->tls_auth_clients != CLIENTS_NO;
    const size_t n = tls_check(cert ? s->tls_cert_file : "", key ? s->tls_key_file : "",
                               uses_ca ? s->tls_ca_cert_file : "", why);
    for (size_t i = 0; i < n; i++) {
        settings_mistake(draft, settings_check_where(draft, why[i]), "%s", why[i]);
    }
    if (cert && *s->tls_cert_file && !tls_is_valid_now(s->tls_cert_file, why[0])) {
        settings_doubt(draft, settings_where(draft, "tls-cert-file"), "%s", why[0]);
    }
    if (key && stat(s->tls_key_file, &info) == 0 && (info.st_mode & (S_IRWXO)) != 0) {
        settings_doubt(draft, settings_where(draft, "tls-key-file"),
                       "tls-key-file: %.400s is accessible to all users (mode %04o)",
                       s->tls_key_file, (unsigned)(info.st_mode & 07777));
    }
}

/* Resolves a path to an absolute path. In the part of the path that exists, symbolic links are
 * resolved as well. */
static bool settings_check_resolve(const char *path, char resolved[PATH_MAX])
{
    char front[PATH_MAX], real[PATH_MAX];
    const int n = snprintf(front, sizeof front, "%s%s", *path == '/' ? "" : "./", path);
    if (n < 0 || (size_t)n >= sizeof front) {
        return false;
    }
    for (char *cut = front + n; cut >= front; cut--) {
        if (*cut != 0 && *cut != '/') {
            continue;
        }
        const char kept = *cut;
        *cut = 0;
        const bool found = realpath(*front ? front : "/", real) != NULL;
        *cut = kept;
        if (found) {
            const char *rest = cut;
            while (*rest == '/') {
                rest++;
            }
            const int length =
                snprintf(resolved, PATH_MAX, "%s%s%s",
                         strcmp(real, "/") == 0 ? "" : real, *rest ? "/" : "", rest);
            return length >= 0 && length < PATH_MAX;
        }
    }
    return false;
}

static void settings_check_secrets(struct settings_draft *draft, bool whole)
{
    const struct settings *s = &draft->settings;
    char dir[PATH_MAX], keyring[PATH_MAX];
    if (whole && settings_hash(s) != BG_HASH_FAST
        && settings_hash(s) != BG_HASH_FAST_INT && !*s->keyring) {
        settings_mistake(draft, settings_where(draft, "keyring"),
                         "keyring: a path is required, because hash is keyed");
    }
    if (!*s->dir) {
        settings_mistake(draft, settings_where(draft, "dir"),
                         "dir: a path is required");
        return;
    }
    if (!*s->keyring || !settings_check_resolve(s->dir, dir)
        || !settings_check_resolve(s->keyring, keyring)) {
        return;
    }
    const size_t n = strlen(dir);
    if (strncmp(keyring, dir, n) == 0
        && (keyring[n] == '/' || keyring[n] == 0 || n == 0)) {
        settings_mistake(draft, settings_where(draft, "keyring"),
                         "keyring: %.400s is inside dir (%.400s); move it elsewhere, "
                         "so that copies of the data do not contain it",
                         s->keyring, s->dir);
    }
}

/* ---- All ---------------------------------------------------------------------------------- */

void settings_check_limits(struct settings_draft *draft)
{
    const struct settings *s = &draft->settings;
    if (s->cf_initial_size < 2 * s->cf_bucket_size
        && settings_is_sound(draft, "cf-initial-size")
        && settings_is_sound(draft, "cf-bucket-size")) {
        settings_mistake(draft, settings_where(draft, "cf-initial-size"),
                         "cf-initial-size: found %llu, expected at least twice "
                         "cf-bucket-size (%llu)",
                         (unsigned long long)s->cf_initial_size,
                         (unsigned long long)s->cf_bucket_size);
    }
    if (s->client_query_buffer_limit < s->proto_max_bulk_len
        && settings_is_sound(draft, "client-query-buffer-limit")
        && settings_is_sound(draft, "proto-max-bulk-len")) {
        settings_mistake(draft, settings_where(draft, "client-query-buffer-limit"),
                         "client-query-buffer-limit: found %llu, expected at least "
                         "proto-max-bulk-len (%llu)",
                         (unsigned long long)s->client_query_buffer_limit,
                         (unsigned long long)s->proto_max_bulk_len);
    }
}

bool settings_check(struct settings_draft *draft, const struct command *const *families,
                    size_t n)
{
    const size_t before = draft->mistakes;
    const bool whole = before == 0;
    settings_check_network(draft, whole);
    settings_check_users(draft, families, n, whole);
    settings_check_tls(draft, whole);
    settings_check_secrets(draft, whole);
    settings_check_limits(draft);
    return draft->mistakes == before;
}
