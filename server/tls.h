/*
 * tls.h - certificates and keys for TLS, which can be exchanged while connections go on.
 *
 * TLS 1.2 and 1.3, ciphers with forward secrecy only, no compression, no renegotiation, no tickets
 * and no cache of sessions: connections live long, and a stolen ticket key would open them.
 * Client certificates are asked for if tls-auth-clients says so.
 *
 * This is about contexts; connections call SSL_read and SSL_write themselves.
 */
#ifndef SERVER_TLS_H
#define SERVER_TLS_H

#include "settings.h"

#include <openssl/ssl.h>

struct tls;

/* Reads the files that settings name. NULL: `why` says what is wrong. */
struct tls *tls_create(const struct settings *settings, char why[SETTINGS_WHY]);
void tls_free(struct tls *tls); /* NULL is allowed; connections may outlive it */

/* Reads them again: new connections have what is in them now, old ones keep what they have.
 * False: `why`, and nothing changes. Thread safety: MT-Safe. */
bool tls_reload(struct tls *tls, const struct settings *settings,
                char why[SETTINGS_WHY]);

/* A new connection, for a server, without a socket; NULL: no memory. Thread safety: MT-Safe. */
SSL *tls_connection(struct tls *tls);

/* When the certificate in use ends, in seconds since 1970; 0: not known. For the metrics. */
int64_t tls_expiry(struct tls *tls);

#endif
