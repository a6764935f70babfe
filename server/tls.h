/*
 * tls.h - TLS certificates and keys, which can be replaced while connections are open.
 *
 * Supports TLS 1.2 and 1.3 with forward-secret ciphers only. Compression, renegotiation, session tickets and the
 * session cache are disabled, because connections are long-lived, and a stolen ticket key could be used to decrypt
 * their traffic. Client certificates are requested according to tls-auth-clients.
 *
 * This header manages contexts only; connections call SSL_read and SSL_write themselves.
 */
#ifndef SERVER_TLS_H
#define SERVER_TLS_H

#include "settings.h"

#include <openssl/ssl.h>

struct tls;

/* Reads the files named in the settings. On failure, returns NULL and sets `why`. */
struct tls *tls_create(const struct settings *settings, char why[SETTINGS_WHY]);
/* `tls` may be NULL; connections may outlive the object. */
void tls_free(struct tls *tls);

/* Reads the files again for new connections; existing connections keep their certificates. On failure, returns false,
 * sets `why` and changes nothing. Thread safety: MT-Safe. */
bool tls_reload(struct tls *tls, const struct settings *settings,
                char why[SETTINGS_WHY]);

/* Creates a server-side connection without a socket; NULL if out of memory. Thread safety: MT-Safe. */
SSL *tls_connection(struct tls *tls);

/* Returns when the current certificate expires, in seconds since 1970, for the metrics; 0 if unknown. */
int64_t tls_expiry(struct tls *tls);

#endif
