/* options: --unwind 14
 *
 * The parts of the string lexer, each beside the grammar: plain bytes, eight
 * at a time (every text of up to 9 bytes), one character of UTF-8 (every text
 * of up to 4), one escape (every text of up to 12). */
#include "prove.h"

#include "core/json_lex.c"

static void
prove_plain(size_t len)
{
    char *text = any_bytes(len);
    size_t at = 0;

    while (at < len && text[at] >= 0x20 && text[at] != '"'
           && text[at] != '\\') {
        at++;
    }
    CLAIM(skip_plain(text, text + len) == text + at);
}

/* Bytes of the character that begins a text, 0 for none: by its value. */
static size_t
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

static void
prove_character(size_t len)
{
    char *text = any_bytes(len);
    ASSUME((unsigned char)text[0] >= 0x80);
    ro_json_lexer lexer = {.start = text, .ptr = text, .end = text + len};
    size_t right = character(text, len);

    bool taken = lex_utf8(&lexer);

    CLAIM(taken == (right > 0));
    CLAIM(!taken || lexer.ptr == text + right);
    CLAIM(
        taken || lexer.error.code == RO_JSON_UTF8
        || (lexer.error.code == RO_JSON_TRUNCATED && lexer.error.pos == len));
}

/* The value of four hexadecimal digits, or no unit's value. */
static uint32_t
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
static size_t
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

static void
prove_escape(size_t len)
{
    char *text = any_bytes(len);
    ASSUME(text[0] == '\\');
    ro_json_lexer lexer = {.start = text, .ptr = text, .end = text + len};
    size_t right = escape(text, len);

    bool taken = lex_escape(&lexer);

    CLAIM(taken == (right > 0));
    CLAIM(!taken || (lexer.ptr == text + right && !IS_TWIN));
    CLAIM(
        taken || lexer.error.code == RO_JSON_ESCAPE
        || lexer.error.code == RO_JSON_SURROGATE
        || (lexer.error.code == RO_JSON_TRUNCATED && lexer.error.pos == len));
}

void
prove(void)
{
    prove_plain(7);
    prove_plain(8);
    prove_plain(9);
    for (size_t len = 1; len <= 4; len++) {
        prove_character(len);
    }
    for (size_t len = 1; len <= 12; len++) {
        prove_escape(len);
    }
}
