/*
 * web_keys.h - limits for keys in HTTP requests.
 */
#ifndef SERVER_WEB_KEYS_H
#define SERVER_WEB_KEYS_H

enum { KEYS_MOST = 1 << 20 }; /* maximum number of keys per request */

#endif
