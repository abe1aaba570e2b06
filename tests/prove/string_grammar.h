/* What RFC 8259 takes inside of a string, for the harnesses of its lexer. */
#ifndef RO_PROVE_STRING_GRAMMAR_H
#define RO_PROVE_STRING_GRAMMAR_H

#include "prove.h"

/* Bytes of the character that begins a text, 0 for none: by its value. */
static inline size_t
character(const char *text, size_t len)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    unsigned char lead = (unsigned char)text[0];
    size_t n = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 0;
    uint32_t value = lead & (0x7fu >> n);

    if (n == 0 || n > len || lead >= 0xf8) {
        return 0;
    }
    for (size_t i = 1; i < n; i++) {
        if (((unsigned char)text[i] & 0xc0) != 0x80) {
            return 0;
        }
        value = value << 6 | ((unsigned char)text[i] & 0x3f);
    }
    bool surrogate = value >= 0xd800 && value <= 0xdfff;
    return value < least[n] || value > 0x10ffff || surrogate ? 0 : n;
}

/* The value of four hexadecimal digits, or no unit's value. */
static inline uint32_t
unit_at(const char *text, size_t len, size_t at)
{
    uint32_t value = 0;
    for (size_t i = at; i < at + 4; i++) {
        char c = i < len ? text[i] : 'x';
        bool digit = c >= '0' && c <= '9';
        char letter = (char)(c | 0x20);
        if (!digit && (letter < 'a' || letter > 'f')) {
            return UINT32_MAX;
        }
        value = value * 16 + (uint32_t)(digit ? c - '0' : letter - 'a' + 10);
    }
    return value;
}

/* Bytes of the escape that begins a text, 0 for none. */
static inline size_t
escape(const char *text, size_t len)
{
    if (len < 2) {
        return 0;
    }
    char c = text[1];
    if (c == '"' || c == '\\' || c == '/' || c == 'b' || c == 'f' || c == 'n'
        || c == 'r' || c == 't') {
        return 2;
    }
    uint32_t first = c == 'u' ? unit_at(text, len, 2) : UINT32_MAX;
    if (first == UINT32_MAX || (first >= 0xdc00 && first <= 0xdfff)) {
        return 0;
    }
    if (first < 0xd800 || first > 0xdfff) {
        return 6;
    }
    uint32_t second = len > 7 && text[6] == '\\' && text[7] == 'u'
                          ? unit_at(text, len, 8)
                          : UINT32_MAX;
    return second >= 0xdc00 && second <= 0xdfff ? 12 : 0;
}

#endif
