/*
 * api/keys.h - limits for keys in HTTP requests.
 */
#ifndef SERVER_API_KEYS_H
#define SERVER_API_KEYS_H

enum { KEYS_MOST = 1 << 20 }; /* maximum number of keys per request */

#endif
