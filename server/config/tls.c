/*
 * tls.c - see tls.h. There is one current context. It is protected by a lock, which is held while a connection is
 * created from the context. OpenSSL counts references, so an old context is freed together with its last connection.
 */
#include "config/tls.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

struct tls {
    pthread_mutex_t lock;
    SSL_CTX *context;
};

/* ---- Contexts ---------------------------------------------------------------------------- */

/* Rejects keys that are encrypted with a password, because the service cannot prompt for the
 * password. */
static int tls_no_password(char *to, int room, int writing, void *context)
{
    (void)writing;
    (void)context;
    if (room > 0) {
        *to = 0;
    }
    return 0;
}

/* Reports OpenSSL's first error, which is the most specific one. Returns false. */
static bool tls_wrong(const char *what, const char *path, const char *expected,
                      char why[SETTINGS_WHY])
{
    const char *reason = ERR_reason_error_string(ERR_peek_error());
    (void)snprintf(why, SETTINGS_WHY, "%s: %.400s: expected %s (%s)", what, path,
                   expected, reason ? reason : "rejected by OpenSSL");
    ERR_clear_error();
    return false;
}

static bool tls_load_cert(SSL_CTX *context, const char *path, char why[SETTINGS_WHY])
{
    return SSL_CTX_use_certificate_chain_file(context, path) == 1
           || tls_wrong("tls-cert-file", path, "a certificate in PEM format", why);
}

/* If the context already has a certificate, the key must belong to it. */
static bool tls_load_key(SSL_CTX *context, const char *path, char why[SETTINGS_WHY])
{
    return (SSL_CTX_use_PrivateKey_file(context, path, SSL_FILETYPE_PEM) == 1
            && (!SSL_CTX_get0_certificate(context)
                || SSL_CTX_check_private_key(context) == 1))
           || tls_wrong("tls-key-file", path,
                        "the certificate's private key in PEM format, without a "
                        "password",
                        why);
}

static bool tls_load_ca(SSL_CTX *context, const char *path, char why[SETTINGS_WHY])
{
    STACK_OF(X509_NAME) *names = SSL_load_client_CA_file(path);
    if (!names || SSL_CTX_load_verify_file(context, path) != 1) {
        sk_X509_NAME_pop_free(names, X509_NAME_free);
        return tls_wrong("tls-ca-cert-file", path, "certificates in PEM format", why);
    }
    SSL_CTX_set_client_CA_list(context, names);
    return true;
}

static bool tls_load(SSL_CTX *context, const struct settings *s, char why[SETTINGS_WHY])
{
    if (!tls_load_cert(context, s->tls_cert_file, why)
        || !tls_load_key(context, s->tls_key_file, why)) {
        return false;
    }
    if (s->tls_auth_clients == CLIENTS_NO) {
        return true;
    }
    if (!tls_load_ca(context, s->tls_ca_cert_file, why)) {
        return false;
    }
    SSL_CTX_set_verify(context,
                       SSL_VERIFY_PEER
                           | (s->tls_auth_clients == CLIENTS_YES
                                  ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT
                                  : 0),
                       NULL);
    return true;
}

static bool tls_prepare(SSL_CTX *context)
{
    SSL_CTX_set_options(
        context, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET
                     | SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA);
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE
                                  | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER
                                  | SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_default_passwd_cb(context, tls_no_password);
    return SSL_CTX_set_num_tickets(context, 0) == 1
           && SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) == 1
           && SSL_CTX_set_cipher_list(context, "ECDHE+AESGCM:ECDHE+CHACHA20") == 1;
}

size_t tls_check(const char *cert, const char *key, const char *ca,
                 char why[TLS_FILES][SETTINGS_WHY])
{
    size_t n = 0;
    ERR_clear_error();
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());
    if (!context || !tls_prepare(context)) {
        (void)tls_wrong("TLS", "OpenSSL", "a usable configuration", why[n++]);
    } else {
        n += *cert && !tls_load_cert(context, cert, why[n]);
        n += *key && !tls_load_key(context, key, why[n]);
        n += *ca && !tls_load_ca(context, ca, why[n]);
    }
    SSL_CTX_free(context);
    return n;
}

bool tls_is_valid_now(const char *cert, char why[SETTINGS_WHY])
{
    BIO *file = BIO_new_file(cert, "r");
    X509 *x509 = file ? PEM_read_bio_X509(file, NULL, tls_no_password, NULL) : NULL;
    const ASN1_TIME *from = x509 ? X509_get0_notBefore(x509) : NULL;
    const ASN1_TIME *until = x509 ? X509_get0_notAfter(x509) : NULL;
    const bool early = from && X509_cmp_current_time(from) > 0;
    const bool late = until && X509_cmp_current_time(until) < 0;
    if (early || late) {
        struct tm tm = { 0 };
        char day[32] = "?";
        if (ASN1_TIME_to_tm(early ? from : until, &tm) == 1) {
            (void)strftime(day, sizeof day, "%Y-%m-%d %H:%M UTC", &tm);
        }
        (void)snprintf(why, SETTINGS_WHY,
                       "tls-cert-file: %.400s %s %s; clients will reject it", cert,
                       early ? "is not valid before" : "expired on", day);
    }
    X509_free(x509);
    BIO_free(file);
    ERR_clear_error();
    return !early && !late;
}

/* Creates a context from the files named in the settings. On failure, returns NULL and sets
 * `why`. */
static SSL_CTX *tls_context(const struct settings *settings, char why[SETTINGS_WHY])
{
    ERR_clear_error();
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());
    if (!context || !tls_prepare(context)) {
        (void)tls_wrong("TLS", "OpenSSL", "a usable configuration", why);
    } else if (tls_load(context, settings, why)) {
        return context;
    }
    SSL_CTX_free(context);
    return NULL;
}

/* ---- Life -------------------------------------------------------------------------------- */

struct tls *tls_create(const struct settings *settings, char why[SETTINGS_WHY])
{
    struct tls *tls = calloc(1, sizeof *tls);
    if (!tls) {
        (void)snprintf(why, SETTINGS_WHY, "out of memory");
        return NULL;
    }
    tls->context = tls_context(settings, why);
    if (!tls->context) {
        free(tls);
        return NULL;
    }
    (void)pthread_mutex_init(&tls->lock, NULL);
    return tls;
}

void tls_free(struct tls *tls)
{
    if (tls) {
        SSL_CTX_free(tls->context);
        (void)pthread_mutex_destroy(&tls->lock);
        free(tls);
    }
}

bool tls_reload(struct tls *tls, const struct settings *settings,
                char why[SETTINGS_WHY])
{
    SSL_CTX *fresh = tls_context(settings, why);
    if (!fresh) {
        return false;
    }
    (void)pthread_mutex_lock(&tls->lock);
    SSL_CTX *old = tls->context;
    tls->context = fresh;
    (void)pthread_mutex_unlock(&tls->lock);
    SSL_CTX_free(old);
    return true;
}

SSL *tls_connection(struct tls *tls)
{
    (void)pthread_mutex_lock(&tls->lock);
    SSL *ssl = SSL_new(tls->context);
    (void)pthread_mutex_unlock(&tls->lock);
    if (ssl) {
        SSL_set_accept_state(ssl);
    }
    return ssl;
}
