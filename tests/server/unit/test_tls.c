/*
 * test_tls.c - tests TLS contexts: certificates created by the test, handshakes in memory, and
 * replacing certificates while connections are open.
 */
#define _GNU_SOURCE

#include "support/check.h"
#include "support/scratch.h"

#include "config/tls.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

/* ---- Certificates --------------------------------------------------------------------------- */

struct identity {
    EVP_PKEY *key;
    X509 *certificate;
};

/* Creates a certificate for a name, signed by `by` or, if that is NULL, self-signed. */
static struct identity identity(const char *name, const struct identity *by,
                                long serial)
{
    struct identity made = { EVP_EC_gen("P-256"), X509_new() };
    CHECK(made.key && made.certificate);
    X509_NAME *subject = X509_get_subject_name(made.certificate);
    CHECK(X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                                     (const unsigned char *)name, -1, -1, 0)
          == 1);
    CHECK(X509_set_version(made.certificate, 2) == 1);
    CHECK(ASN1_INTEGER_set(X509_get_serialNumber(made.certificate), serial) == 1);
    CHECK(X509_gmtime_adj(X509_getm_notBefore(made.certificate), -60) != NULL);
    CHECK(X509_gmtime_adj(X509_getm_notAfter(made.certificate), 1000 * serial) != NULL);
    CHECK(X509_set_pubkey(made.certificate, made.key) == 1);
    CHECK(X509_set_issuer_name(made.certificate,
                               by ? X509_get_subject_name(by->certificate) : subject)
          == 1);
    if (!by) {
        X509_EXTENSION *ca =
            X509V3_EXT_conf_nid(NULL, NULL, NID_basic_constraints, "critical,CA:TRUE");
        CHECK(ca && X509_add_ext(made.certificate, ca, -1) == 1);
        X509_EXTENSION_free(ca);
    }
    CHECK(X509_sign(made.certificate, by ? by->key : made.key, EVP_sha256()) > 0);
    return made;
}

static void forget(struct identity *one)
{
    EVP_PKEY_free(one->key);
    X509_free(one->certificate);
}

/* Writes the files NAME.crt and NAME.key. */
static void save(const struct identity *one, const char *name, const char *password)
{
    char file[64];
    (void)snprintf(file, sizeof file, "%s.crt", name);
    FILE *to = fopen(scratch_path(file), "we");
    CHECK(to && PEM_write_X509(to, one->certificate) == 1 && fclose(to) == 0);
    (void)snprintf(file, sizeof file, "%s.key", name);
    to = fopen(scratch_path(file), "we");
    CHECK(to
          && PEM_write_PrivateKey(to, one->key, password ? EVP_aes_128_cbc() : NULL,
                                  (const unsigned char *)password,
                                  password ? (int)strlen(password) : 0, NULL, NULL)
                 == 1
          && fclose(to) == 0);
}

static char paths[3][512];

static struct settings settings_of(const char *cert, const char *key, const char *ca,
                                   int clients)
{
    (void)snprintf(paths[0], sizeof paths[0], "%s", scratch_path(cert));
    (void)snprintf(paths[1], sizeof paths[1], "%s", scratch_path(key));
    (void)snprintf(paths[2], sizeof paths[2], "%s", scratch_path(ca));
    return (struct settings){ .tls_cert_file = paths[0],
                              .tls_key_file = paths[1],
                              .tls_ca_cert_file = paths[2],
                              .tls_auth_clients = clients };
}

static struct identity authority, server, second, client, stranger;
static char why[SETTINGS_WHY];

static void make_all(void)
{
    if (authority.key) {
        return;
    }
    authority = identity("authority", NULL, 100);
    server = identity("server", &authority, 7);
    second = identity("second", &authority, 9);
    client = identity("client", &authority, 11);
    stranger = identity("stranger", NULL, 13);
    save(&authority, "authority", NULL);
    save(&server, "server", NULL);
    save(&second, "second", NULL);
    save(&stranger, "stranger", NULL);
    save(&second, "locked", "pear");
}

/* ---- Handshakes ------------------------------------------------------------------------------ */

struct pair {
    SSL_CTX *context;
    SSL *client, *server;
};

static SSL_CTX *client_context(const struct identity *as, int most)
{
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    CHECK(context);
    CHECK(SSL_CTX_load_verify_file(context, scratch_path("authority.crt")) == 1);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    if (most) {
        CHECK(SSL_CTX_set_max_proto_version(context, most) == 1);
        SSL_CTX_set_security_level(context, 0);
    }
    if (as) {
        CHECK(SSL_CTX_use_certificate(context, as->certificate) == 1);
        CHECK(SSL_CTX_use_PrivateKey(context, as->key) == 1);
    }
    return context;
}

/* Runs both sides in turn, until the handshake succeeds or one side fails. */
static bool handshake(struct tls *tls, const struct identity *as, int most,
                      struct pair *pair)
{
    BIO *one, *other;
    pair->context = client_context(as, most);
    pair->client = SSL_new(pair->context);
    pair->server = tls_connection(tls);
    CHECK(pair->client && pair->server);
    CHECK(BIO_new_bio_pair(&one, 0, &other, 0) == 1);
    SSL_set_bio(pair->client, one, one);
    SSL_set_bio(pair->server, other, other);
    SSL_set_connect_state(pair->client);
    for (int i = 0; i < 20; i++) {
        const int c = SSL_do_handshake(pair->client),
                  s = SSL_do_handshake(pair->server);
        if (c == 1 && s == 1) {
            return true;
        }
        if ((c != 1 && SSL_get_error(pair->client, c) == SSL_ERROR_SSL)
            || (s != 1 && SSL_get_error(pair->server, s) == SSL_ERROR_SSL)) {
            return false;
        }
    }
    return false;
}

static void end(struct pair *pair)
{
    SSL_free(pair->client);
    SSL_free(pair->server);
    SSL_CTX_free(pair->context);
}

static bool says(SSL *from, SSL *to, const char *text)
{
    char got[64];
    const int n = (int)strlen(text);
    return SSL_write(from, text, n) == n && SSL_read(to, got, (int)sizeof got) == n
           && memcmp(got, text, (size_t)n) == 0;
}

/* Returns the serial number of the server's certificate. */
static long serial_of(SSL *connection)
{
    X509 *peer = SSL_get1_peer_certificate(connection);
    const long serial = peer ? ASN1_INTEGER_get(X509_get0_serialNumber(peer)) : -1;
    X509_free(peer);
    return serial;
}

/* ---- Tests ----------------------------------------------------------------------------------- */

TEST(tls__connects)
{
    struct pair pair;
    make_all();
    const struct settings s = settings_of("server.crt", "server.key", "", CLIENTS_NO);
    struct tls *tls = tls_create(&s, why);
    CHECK(tls);
    CHECK(handshake(tls, NULL, 0, &pair));
    CHECK(says(pair.client, pair.server, "hello")
          && says(pair.server, pair.client, "hi"));
    CHECK_EQ(serial_of(pair.client), 7);
    CHECK_STR(SSL_get_version(pair.client), "TLSv1.3");
    CHECK(!SSL_session_reused(pair.client));
    end(&pair);
    CHECK(handshake(tls, NULL, TLS1_2_VERSION, &pair));
    CHECK_STR(SSL_get_version(pair.client), "TLSv1.2");
    CHECK(strstr(SSL_get_cipher_name(pair.client), "ECDHE")); /* forward secrecy */
    end(&pair);
    CHECK(!handshake(tls, NULL, TLS1_1_VERSION, &pair));
    end(&pair);
    tls_free(tls);
    tls_free(NULL);
}

TEST(tls__certificates_of_clients)
{
    static const struct {
        int clients;
        bool without, with, strange;
    } cases[] = {
        { CLIENTS_NO, true, true, true },
        { CLIENTS_OPTIONAL, true, true, false },
        { CLIENTS_YES, false, true, false },
    };
    struct pair pair;
    make_all();
    for (size_t i = 0; i < 3; i++) {
        const struct settings s =
            settings_of("server.crt", "server.key", "authority.crt", cases[i].clients);
        struct tls *tls = tls_create(&s, why);
        CHECK(tls);
        CHECK_EQ(handshake(tls, NULL, TLS1_2_VERSION, &pair), cases[i].without);
        end(&pair);
        CHECK_EQ(handshake(tls, &client, TLS1_2_VERSION, &pair), cases[i].with);
        CHECK(i == 0 || serial_of(pair.server) == 11);
        end(&pair);
        CHECK_EQ(handshake(tls, &stranger, TLS1_2_VERSION, &pair), cases[i].strange);
        end(&pair);
        CHECK_EQ(handshake(tls, &client, 0, &pair), cases[i].with);
        end(&pair);
        tls_free(tls);
    }
}

TEST(tls__mistakes)
{
    make_all();
    scratch_write("no.crt", "this is no certificate\n");
    static const struct {
        const char *cert, *key, *ca, *what;
        int clients;
    } cases[] = {
        { "missing.crt", "server.key", "", "tls-cert-file: ", CLIENTS_NO },
        { "no.crt", "server.key", "", "tls-cert-file: ", CLIENTS_NO },
        { "server.crt", "missing.key", "", "tls-key-file: ", CLIENTS_NO },
        { "server.crt", "server.crt", "", "tls-key-file: ", CLIENTS_NO },
        { "server.crt", "second.key", "", "tls-key-file: ", CLIENTS_NO },
        { "second.crt", "locked.key", "",
          "tls-key-file: ", CLIENTS_NO }, /* no passphrase prompt */
        { "server.crt", "server.key", "no.crt", "tls-ca-cert-file: ", CLIENTS_YES },
        { "server.crt", "server.key", "missing.crt",
          "tls-ca-cert-file: ", CLIENTS_OPTIONAL },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct settings s =
            settings_of(cases[i].cert, cases[i].key, cases[i].ca, cases[i].clients);
        *why = 0;
        CHECK(!tls_create(&s, why));
        CHECK(strncmp(why, cases[i].what, strlen(cases[i].what)) == 0);
        CHECK(strlen(why) > strlen(cases[i].what) + 10);
    }
}

TEST(tls__exchanges_certificates)
{
    struct pair old = { NULL, NULL, NULL }, new = { NULL, NULL, NULL };
    make_all();
    struct settings s = settings_of("server.crt", "server.key", "", CLIENTS_NO);
    struct tls *tls = tls_create(&s, why);
    CHECK(tls && handshake(tls, NULL, 0, &old));
    s = settings_of("second.crt", "server.key", "", CLIENTS_NO); /* do not match */
    CHECK(!tls_reload(tls, &s, why));
    CHECK(strstr(why, "tls-key-file"));
    CHECK(handshake(tls, NULL, 0, &new));
    CHECK_EQ(serial_of(new.client), 7);
    end(&new);
    s = settings_of("second.crt", "second.key", "", CLIENTS_NO);
    CHECK(tls_reload(tls, &s, why));
    CHECK(handshake(tls, NULL, 0, &new));
    CHECK_EQ(serial_of(new.client), 9);
    CHECK(says(old.client, old.server, "still there"));
    CHECK_EQ(serial_of(old.client), 7);
    tls_free(tls); /* connections outlive the context */
    CHECK(says(old.server, old.client, "still")
          && says(new.client, new.server, "there"));
    end(&old);
    end(&new);
}

#if CHECK_SANITIZED
/* OpenSSL is not built with ThreadSanitizer, which therefore does not see the reference counts that order the last use
 * and the freeing of a context. Accesses made by OpenSSL itself are ignored. */
const char *
__tsan_default_suppressions(void);            /* NOLINT(bugprone-reserved-identifier) */
const char *__tsan_default_suppressions(void) /* NOLINT(bugprone-reserved-identifier) */
{
    return "called_from_lib:libcrypto.so\ncalled_from_lib:libssl.so\n";
}
#endif

static struct tls *shared;
static _Atomic bool connecting_ends;

static void *connect_often(void *unused)
{
    (void)unused;
    size_t failed = 0;
    while (!atomic_load(&connecting_ends)) {
        SSL *ssl = tls_connection(shared);
        failed += !ssl;
        SSL_free(ssl);
        (void)
            sched_yield(); /* otherwise, the thread that reloads may never get the lock */
    }
    return failed ? (void *)1 : NULL;
}

TEST(tls__exchanges_while_others_connect)
{
    pthread_t threads[2];
    make_all();
    struct settings s = settings_of("server.crt", "server.key", "", CLIENTS_NO);
    shared = tls_create(&s, why);
    CHECK(shared);
    atomic_store(&connecting_ends, false);
    for (size_t i = 0; i < 2; i++) {
        CHECK(pthread_create(&threads[i], NULL, connect_often, NULL) == 0);
    }
    for (unsigned i = 0; i < 30; i++) {
        s = i % 2 ? settings_of("server.crt", "server.key", "", CLIENTS_NO)
                  : settings_of("second.crt", "second.key", "", CLIENTS_NO);
        CHECK(tls_reload(shared, &s, why));
    }
    atomic_store(&connecting_ends, true);
    for (size_t i = 0; i < 2; i++) {
        void *wrong;
        CHECK(pthread_join(threads[i], &wrong) == 0);
        CHECK(!wrong);
    }
    tls_free(shared);
    forget(&authority);
    forget(&server);
    forget(&second);
    forget(&client);
    forget(&stranger);
    authority.key = NULL;
}

TEST(tls__certificates_that_are_not_valid_now)
{
    struct identity one = identity("late", NULL, 1);
    save(&one, "late", NULL);
    CHECK(tls_is_valid_now(scratch_path("late.crt"), why));
    CHECK(X509_gmtime_adj(X509_getm_notAfter(one.certificate), -30) != NULL);
    save(&one, "late", NULL);
    CHECK(!tls_is_valid_now(scratch_path("late.crt"), why));
    CHECK(strstr(why, "late.crt expired on 20") != NULL);
    CHECK(X509_gmtime_adj(X509_getm_notAfter(one.certificate), 9000) != NULL);
    CHECK(X509_gmtime_adj(X509_getm_notBefore(one.certificate), 3600) != NULL);
    save(&one, "late", NULL);
    CHECK(!tls_is_valid_now(scratch_path("late.crt"), why));
    CHECK(strstr(why, "late.crt is not valid before 20") != NULL);
    forget(&one);
}
