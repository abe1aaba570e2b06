#include "core/json_lex.h"

#include <stdint.h>

bool
ro_json_lex_fail(ro_json_lexer *lex, ro_json_code code, const char *where)
{
    lex->error.code = code;
    lex->error.pos = (size_t)(where - lex->start);
    return false;
}

bool
ro_json_lex_fail_at(ro_json_lexer *lex, ro_json_code code, const char *where)
{
    return ro_json_lex_fail(lex, where == lex->end ? RO_JSON_TRUNCATED : code,
                            where);
}

/* ---- strings ---- */

#define ONES (UINT64_MAX / 255)
#define HIGH (ONES * 0x80)

/* The high bit of each of eight bytes that is not plain: a control, a quote,
 * a backslash or part of a longer character. The lowest bit is exact; bytes
 * above it may be flagged by a borrow. */
static inline uint64_t
not_plain(uint64_t word)
{
    uint64_t quote = word ^ (ONES * '"');
    uint64_t slash = word ^ (ONES * '\\');
    return (word | (word - ONES * 0x20) | (quote - ONES) | (slash - ONES))
           & HIGH;
}

static inline bool
is_plain(char c)
{
    unsigned char byte = (unsigned char)c;
    return byte >= 0x20 && byte < 0x80 && byte != '"' && byte != '\\';
}

static inline const char *
skip_plain(const char *p, const char *end)
{
    uint64_t word;
    while (end - p >= 8) {
        memcpy(&word, p, sizeof(word));
        word = not_plain(word);
        if (word != 0) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
            return p + __builtin_ctzll(word) / 8;
#else
            break;
#endif
        }
        p += 8;
    }
    while (p < end && is_plain(*p)) {
        p++;
    }
    return p;
}

/* One character of two bytes or more at lex->ptr. */
static bool
lex_utf8(ro_json_lexer *lex)
{
    const char *p = lex->ptr;
    unsigned char lead = (unsigned char)*p;
    unsigned char low = 0x80;
    unsigned char high = 0xbf;
    int more;

    if (lead < 0xc2 || lead > 0xf4) {
        return ro_json_lex_fail(lex, RO_JSON_UTF8, lex->ptr);
    }
    more = lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : 3;
    switch (lead) {
    case 0xe0: /* overlong */
        low = 0xa0;
        break;
    case 0xed: /* surrogates */
        high = 0x9f;
        break;
    case 0xf0: /* overlong */
        low = 0x90;
        break;
    case 0xf4: /* above U+10FFFF */
        high = 0x8f;
        break;
    default:
        break;
    }
    for (p++; more > 0; p++, more--) {
        if (p == lex->end) {
            return ro_json_lex_fail(lex, RO_JSON_TRUNCATED, p);
        }
        if ((unsigned char)*p < low || (unsigned char)*p > high) {
            return ro_json_lex_fail(lex, RO_JSON_UTF8, lex->ptr);
        }
        low = 0x80;
        high = 0xbf;
    }
    lex->ptr = p;
    return true;
}

/* Four hexadecimal digits at lex->ptr. */
static bool
lex_hex4(ro_json_lexer *lex, unsigned *value)
{
    *value = 0;
    for (int i = 0; i < 4; i++, lex->ptr++) {
        unsigned char c = lex->ptr < lex->end ? (unsigned char)*lex->ptr : 0;
        unsigned digit = c >= '0' && c <= '9'   ? c - '0' + 0u
                         : c >= 'a' && c <= 'f' ? c - 'a' + 10u
                         : c >= 'A' && c <= 'F' ? c - 'A' + 10u
                                                : 16u;
        if (digit == 16) {
            return ro_json_lex_fail_at(lex, RO_JSON_ESCAPE, lex->ptr);
        }
        *value = *value << 4 | digit;
    }
    return true;
}

/* The backslash is at lex->ptr. */
static bool
lex_escape(ro_json_lexer *lex)
{
    const char *slash = lex->ptr++;
    unsigned unit;

    if (lex->ptr == lex->end || *lex->ptr == '\0'
        || strchr("\"\\/bfnrtu", *lex->ptr) == NULL) {
        return ro_json_lex_fail_at(lex, RO_JSON_ESCAPE, lex->ptr);
    }
    if (*lex->ptr++ != 'u') {
        return true;
    }
    if (!lex_hex4(lex, &unit)) {
        return false;
    }
    if (unit < 0xd800 || unit > 0xdfff) {
        return true;
    }
    if (unit > 0xdbff) {
        return ro_json_lex_fail(lex, RO_JSON_SURROGATE, slash);
    }
    for (const char *want = "\\u"; *want != '\0'; want++, lex->ptr++) {
        if (lex->ptr == lex->end) {
            return ro_json_lex_fail(lex, RO_JSON_TRUNCATED, lex->ptr);
        }
        if (*lex->ptr != *want) {
            return ro_json_lex_fail(lex, RO_JSON_SURROGATE, slash);
        }
    }
    if (!lex_hex4(lex, &unit)) {
        return false;
    }
    if (unit < 0xdc00 || unit > 0xdfff) {
        return ro_json_lex_fail(lex, RO_JSON_SURROGATE, slash);
    }
    return true;
}

bool
ro_json_lex_string(ro_json_lexer *lex, bool *escaped)
{
    lex->ptr++;
    for (;;) {
        lex->ptr = skip_plain(lex->ptr, lex->end);
        if (lex->ptr == lex->end) {
            return ro_json_lex_fail(lex, RO_JSON_TRUNCATED, lex->ptr);
        }
        unsigned char c = (unsigned char)*lex->ptr;
        if (c == '"') {
            lex->ptr++;
            return true;
        }
        if (c < 0x20) {
            return ro_json_lex_fail(lex, RO_JSON_CONTROL, lex->ptr);
        }
        if (c == '\\') {
            *escaped = true;
            if (!lex_escape(lex)) {
                return false;
            }
        }
        else {
            do {
                if (!lex_utf8(lex)) {
                    return false;
                }
            } while (lex->ptr < lex->end && (unsigned char)*lex->ptr >= 0x80);
        }
    }
}

/* ---- numbers and literals ---- */

static inline bool
is_digit(const char *p, const char *end)
{
    return p < end && *p >= '0' && *p <= '9';
}

/* At least one digit at lex->ptr. */
static bool
lex_digits(ro_json_lexer *lex)
{
    if (!is_digit(lex->ptr, lex->end)) {
        return ro_json_lex_fail_at(lex, RO_JSON_NUMBER, lex->ptr);
    }
    while (is_digit(lex->ptr, lex->end)) {
        lex->ptr++;
    }
    return true;
}

bool
ro_json_lex_number(ro_json_lexer *lex, bool *integer)
{
    if (*lex->ptr == '-') {
        lex->ptr++;
    }
    if (lex->ptr < lex->end && *lex->ptr == '0') {
        lex->ptr++;
        if (is_digit(lex->ptr, lex->end)) {
            return ro_json_lex_fail(lex, RO_JSON_NUMBER, lex->ptr);
        }
    }
    else if (!lex_digits(lex)) {
        return false;
    }
    *integer = true;
    if (lex->ptr < lex->end && *lex->ptr == '.') {
        *integer = false;
        lex->ptr++;
        if (!lex_digits(lex)) {
            return false;
        }
    }
    if (lex->ptr < lex->end && (*lex->ptr == 'e' || *lex->ptr == 'E')) {
        *integer = false;
        lex->ptr++;
        if (lex->ptr < lex->end && (*lex->ptr == '+' || *lex->ptr == '-')) {
            lex->ptr++;
        }
        return lex_digits(lex);
    }
    return true;
}

bool
ro_json_lex_literal(ro_json_lexer *lex, const char *text)
{
    for (; *text != '\0'; text++, lex->ptr++) {
        if (lex->ptr == lex->end || *lex->ptr != *text) {
            return ro_json_lex_fail_at(lex, RO_JSON_SYNTAX, lex->ptr);
        }
    }
    return true;
}

static bool
begins(const ro_json_lexer *lex, const char *text)
{
    size_t len = strlen(text);
    return (size_t)(lex->end - lex->ptr) >= len
           && memcmp(lex->ptr, text, len) == 0;
}

bool
ro_json_lex_refuse(ro_json_lexer *lex)
{
    bool number = *lex->ptr == '+' || *lex->ptr == '.' || begins(lex, "NaN")
                  || begins(lex, "Infinity");
    return ro_json_lex_fail(lex, number ? RO_JSON_NUMBER : RO_JSON_SYNTAX,
                            lex->ptr);
}
