/*
 * tls.h - TLS certificates and keys, which can be replaced while connections are open.
 *
 * Supports TLS 1.2 and 1.3 with forward-secret ciphers only. Compression and renegotiation are disabled. Session
 * tickets and the session cache are also disabled, because long-lived connections gain little from them, and a
 * stolen ticket key could be used to decrypt traffic. Client certificates are requested according to
 * tls-auth-clients.
 *
 * This module manages contexts only; connections call SSL_read and SSL_write themselves.
 */
#ifndef SERVER_CONFIG_TLS_H
#define SERVER_CONFIG_TLS_H

#include "config/settings.h"

#include <openssl/ssl.h>

struct tls;

/* Reads the files named in the settings. On failure, returns NULL and sets `why`. */
struct tls *tls_create(const struct settings *settings, char why[SETTINGS_WHY]);

/* Checks the files that are not "", without using them: whether each is what it should be, and the key belongs to the
 * certificate. Sets the first messages in `why`, and returns their number. */
enum { TLS_FILES = 3 };
size_t tls_check(const char *cert, const char *key, const char *ca,
                 char why[TLS_FILES][SETTINGS_WHY]);

/* Returns false and sets `why` if a readable certificate is expired or not valid yet; otherwise
 * returns true. */
bool tls_is_valid_now(const char *cert, char why[SETTINGS_WHY]);

/* Connections may outlive `tls`, which may be NULL. */
void tls_free(struct tls *tls);

/* Reads the files again for new connections; existing connections keep their certificates. On failure, returns false,
 * sets `why` and changes nothing. Thread safety: MT-Safe. */
bool tls_reload(struct tls *tls, const struct settings *settings,
                char why[SETTINGS_WHY]);

/* Creates a server-side connection without a socket. Returns NULL if out of memory. Thread safety:
 * MT-Safe. */
SSL *tls_connection(struct tls *tls);

#endif
