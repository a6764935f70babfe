/* node_tls.c - see node_tls.h. */
#include "node_tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct node_tls {
    SSL_CTX *context;
    char *name; /* `name` of the options */
};

struct node_secrecy {
    SSL *ssl;
    /* Poll events to wait for before sending or receiving can continue; 0 if none. */
    short sending, receiving;
    /* The node requested a certificate, none is configured, and the node has sent no data since
     * then. */
    bool asked;
    char wrong[NODE_TLS_WHY];
};

/* ---- Contexts -------------------------------------------------------------------------------- */

static int tls_no_password(char *to, int room, int writing, void *context)
{
    (void)writing;
    (void)context;
    if (room > 0) {
        *to = 0;
    }
    return 0; /* never prompt for a passphrase */
}

/* Called when a node requests a certificate and none is configured. It is not yet known whether the
 * node requires a certificate. With TLS 1.3, this may become clear only when the node closes the
 * connection. */
static int tls_no_certificate(SSL *ssl, X509 **certificate, EVP_PKEY **key)
{
    struct node_secrecy *s = SSL_get_app_data(ssl);
    (void)certificate;
    (void)key;
    s->asked = true;
    return 0;
}

static bool tls_bad_file(const char *what, const char *path, char why[NODE_TLS_WHY])
{
    const char *reason = ERR_reason_error_string(ERR_peek_last_error());
    (void)snprintf(why, NODE_TLS_WHY, "%s: %.120s: %s", what, path,
                   reason ? reason : "cannot be read, or is not a PEM file");
    return false;
}

static bool tls_load(SSL_CTX *context, const struct node_tls_options *o,
                     char why[NODE_TLS_WHY])
{
    if (o->ca ? SSL_CTX_load_verify_file(context, o->ca) != 1
              : SSL_CTX_set_default_verify_paths(context) != 1) {
        return tls_bad_file("tls-ca", o->ca ? o->ca : "system certificates", why);
    }
    if (!o->cert != !o->key) {
        (void)snprintf(why, NODE_TLS_WHY,
                       "tls-%s cannot be set alone: set both tls-cert and tls-key",
                       o->cert ? "cert" : "key");
        return false;
    }
    if (o->cert && SSL_CTX_use_certificate_chain_file(context, o->cert) != 1) {
        return tls_bad_file("tls-cert", o->cert, why);
    }
    if (o->key
        && (SSL_CTX_use_PrivateKey_file(context, o->key, SSL_FILETYPE_PEM) != 1
            || SSL_CTX_check_private_key(context) != 1)) {
        return tls_bad_file("tls-key", o->key, why);
    }
    return true;
}

static bool tls_prepare(SSL_CTX *context)
{
    SSL_CTX_set_options(context, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE
                                  | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER
                                  | SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_default_passwd_cb(context, tls_no_password);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_client_cert_cb(context, tls_no_certificate);
    return SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) == 1
           && SSL_CTX_set_cipher_list(context, "ECDHE+AESGCM:ECDHE+CHACHA20") == 1;
}

struct node_tls *node_tls_create(const struct node_tls_options *options,
                                 char why[NODE_TLS_WHY])
{
    struct node_tls *tls = calloc(1, sizeof *tls);
    ERR_clear_error();
    (void)snprintf(why, NODE_TLS_WHY, "TLS: out of memory");
    bool good = tls != NULL;
    if (good) {
        tls->context = SSL_CTX_new(TLS_client_method());
        tls->name = options->name ? strdup(options->name) : NULL;
        good = tls->context && (tls->name || !options->name)
               && tls_prepare(tls->context) && tls_load(tls->context, options, why);
    }
    ERR_clear_error();
    if (!good) {
        node_tls_free(tls);
        return NULL;
    }
    return tls;
}

void node_tls_free(struct node_tls *tls)
{
    if (tls) {
        SSL_CTX_free(tls->context); /* open connections hold references */
        free(tls->name);
        free(tls);
    }
}

/* ---- Connections ----------------------------------------------------------------------------- */

/* Sets the name that the certificate must contain. */
static bool tls_expect(SSL *ssl, const char *name)
{
    unsigned char address[16];
    if (inet_pton(AF_INET, name, address) == 1
        || inet_pton(AF_INET6, name, address) == 1) {
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name) == 1;
    }
    return SSL_set1_host(ssl, name) == 1 && SSL_set_tlsext_host_name(ssl, name) == 1;
}

struct node_secrecy *node_tls_connect(const struct node_tls *tls, const char *host,
                                      int fd)
{
    struct node_secrecy *s = calloc(1, sizeof *s);
    const char *name = tls->name ? tls->name : host;
    ERR_clear_error();
    bool good = s != NULL;
    if (good) {
        s->ssl = SSL_new(tls->context);
        good = s->ssl && SSL_set_app_data(s->ssl, s) == 1 && SSL_set_fd(s->ssl, fd) == 1
               && (strcmp(name, "*") == 0 || tls_expect(s->ssl, name));
    }
    if (!good) {
        node_tls_close(s);
        return NULL;
    }
    SSL_set_connect_state(s->ssl);
    return s;
}

void node_tls_close(struct node_secrecy *s)
{
    if (s) {
        SSL_free(s->ssl);
        free(s);
    }
}

/* Describes why the node's certificate was rejected. */
static void tls_distrusted(struct node_secrecy *s, long verdict)
{
    const bool other = verdict == X509_V_ERR_HOSTNAME_MISMATCH
                       || verdict == X509_V_ERR_IP_ADDRESS_MISMATCH;
    (void)snprintf(s->wrong, sizeof s->wrong,
                   "TLS: certificate rejected: %s; expected %s",
                   X509_verify_cert_error_string(verdict),
                   other ? "a certificate for this host or for tls-name"
                         : "a certificate issued by an authority in tls-ca");
}

static void tls_failed(struct node_secrecy *s)
{
    const long verdict = SSL_get_verify_result(s->ssl);
    const unsigned long code = ERR_peek_error();
    const char *reason = ERR_reason_error_string(code);
    const char *hint =
        ERR_GET_REASON(code) == SSL_R_WRONG_VERSION_NUMBER ? ": is it a TLS port?" : "";
    if (verdict != X509_V_OK) {
        tls_distrusted(s, verdict);
    } else if (s->asked) {
        (void)snprintf(s->wrong, sizeof s->wrong,
                       "TLS: the node requires a client certificate: set tls-cert "
                       "and tls-key");
    } else {
        (void)snprintf(s->wrong, sizeof s->wrong, "TLS: %s%s",
                       reason ? reason : "the node closed the connection", hint);
    }
}

/* Translates the error of a failed OpenSSL call: returns 0 at the end of the stream; otherwise
 * returns -1 and sets errno. */
static int tls_outcome(struct node_secrecy *s, int result, short *waits)
{
    const int before = errno;
    const int why = SSL_get_error(s->ssl, result);
    if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE) {
        *waits = why == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT;
        errno = EAGAIN;
    } else if (why == SSL_ERROR_ZERO_RETURN && !s->asked) {
        return 0;
    } else if (why == SSL_ERROR_SYSCALL && before && ERR_peek_error() == 0
               && !s->asked) {
        errno = before;
    } else {
        tls_failed(s);
        errno = EPROTO;
    }
    return -1;
}

int node_tls_greet(struct node_secrecy *s)
{
    ERR_clear_error();
    errno = 0;
    const int done = SSL_do_handshake(s->ssl);
    if (done == 1) {
        s->receiving = 0;
        return 1;
    }
    if (tls_outcome(s, done, &s->receiving) == 0) {
        (void)snprintf(s->wrong, sizeof s->wrong,
                       "TLS: the node closed the connection");
        errno = EPROTO;
    }
    return -1;
}

ssize_t node_tls_send(struct node_secrecy *s, const void *bytes, size_t n)
{
    size_t done = 0;
    ERR_clear_error();
    errno = 0;
    s->sending = 0;
    const int result = SSL_write_ex(s->ssl, bytes, n, &done);
    if (result == 1) {
        return (ssize_t)done;
    }
    if (tls_outcome(s, result, &s->sending) == 0) {
        errno = EPIPE;
    }
    return -1;
}

ssize_t node_tls_receive(struct node_secrecy *s, void *bytes, size_t n)
{
    size_t done = 0;
    ERR_clear_error();
    errno = 0;
    s->receiving = 0;
    const int result = SSL_read_ex(s->ssl, bytes, n, &done);
    s->asked = s->asked && result != 1;
    return result == 1 ? (ssize_t)done : tls_outcome(s, result, &s->receiving);
}

short node_tls_waits(const struct node_secrecy *s, bool sends)
{
    const bool out = s->receiving == POLLOUT || (sends && s->sending != POLLIN);
    return (short)(POLLIN | (out ? POLLOUT : 0));
}

const char *node_tls_wrong(const struct node_secrecy *s)
{
    return s->wrong;
}
