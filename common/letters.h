/* hex.h - decodes hexadecimal digits. */
#ifndef SERVER_UTIL_HEX_H
#define SERVER_UTIL_HEX_H

/* Returns the value of a hexadecimal digit, or -1 for any other character. */
static inline int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

#endif
