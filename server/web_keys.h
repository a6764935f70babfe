/*
 * web_keys.h - keys in requests over HTTP.
 */
#ifndef SERVER_WEB_KEYS_H
#define SERVER_WEB_KEYS_H

enum { KEYS_MOST = 1 << 20 }; /* of one request */

#endif
