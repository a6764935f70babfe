/* key_form.h - placeholder until the canonical spellings are merged. */
#ifndef SERVER_KEY_FORM_H
#define SERVER_KEY_FORM_H

#include "bloomgate/bloomgate.h"

enum key_form { KEY_FORM_BYTES, KEY_FORM_UNKNOWN };

enum key_spelling { KEY_CANONICAL, KEY_OTHER };

static inline size_t key_form_normalize(enum key_form form, const char *value, size_t len)
{
    (void)form;
    (void)value;
    return len;
}

static inline enum key_spelling key_form_spelling(enum key_form form, bg_bytes *key)
{
    (void)key;
    return form == KEY_FORM_UNKNOWN ? KEY_OTHER : KEY_CANONICAL;
}

#endif
