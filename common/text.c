/* text.c - see text.h. */
#define _GNU_SOURCE /* strerrordesc_np */

#include "text.h"

#include <string.h>

size_t text_character(const char *s, size_t n, uint32_t *code)
{
    static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    const unsigned char *b = (const unsigned char *)s;
    const size_t bytes = b[0] < 0x80             ? 1
                         : (b[0] & 0xE0) == 0xC0 ? 2
                         : (b[0] & 0xF0) == 0xE0 ? 3
                         : (b[0] & 0xF8) == 0xF0 ? 4
                                                 : 0;
    if (bytes == 0 || bytes > n) {
        return 0;
    }
    *code = bytes == 1 ? b[0] : b[0] & (0x7Fu >> bytes);
    for (size_t i = 1; i < bytes; i++) {
        if ((b[i] & 0xC0) != 0x80) {
            return 0;
        }
        *code = *code << 6 | (b[i] & 0x3F);
    }
    return *code < least[bytes] || *code > 0x10FFFF || (*code >> 11) == 0x1B ? 0
                                                                             : bytes;
}

void text_xml(FILE *to, const char *text)
{
    for (size_t left = strlen(text), n; left > 0; text += n, left -= n) {
        uint32_t code = 0;
        n = text_character(text, left, &code);
        const char *mark = code == '<'   ? "&lt;"
                           : code == '>' ? "&gt;"
                           : code == '&' ? "&amp;"
                                         : NULL;
        if (n == 0 || code < 0x20 || (code >= 0x7F && code < 0xA0) || code >= 0xFFFE) {
            n = n ? n : 1;
            (void)fputc('?', to);
        } else if (mark) {
            (void)fputs(mark, to);
        } else {
            (void)fwrite(text, 1, n, to);
        }
    }
}

const char *text_errno(int code)
{
    const char *text = strerrordesc_np(code);
    return text ? text : "an unknown error";
}
