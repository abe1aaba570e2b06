/* sources: core/json_lex.c
 * options: --unwind 6 --unwindset strchr.0:11 --object-bits 11
 *
 * The string lexer takes exactly one string of the grammar, says rightly
 * whether there is an escape in it, and reads no byte behind the end: every
 * text of up to 4 bytes. Its parts alone: string_parts.c. */
#include "prove.h"

#include "core/json_lex.h"

#define MOST 4

static bool
is_tail(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

/* Bytes of what stands at the start inside of a string; 0 for a fault. No
 * \uXXXX and no character of four bytes fits beside two quotes. */
static size_t
item(const char *text, size_t len)
{
    unsigned char c = (unsigned char)text[0];
    char next = len > 1 ? text[1] : '\0';

    if (c < 0x20 || c == '"') {
        return 0;
    }
    if (c == '\\') {
        return next == '"' || next == '\\' || next == '/' || next == 'b'
                       || next == 'f' || next == 'n' || next == 'r'
                       || next == 't'
                   ? 2
                   : 0;
    }
    if (c < 0x80) {
        return 1;
    }
    if (c >= 0xc2 && c <= 0xdf) {
        return is_tail(next) ? 2 : 0;
    }
    bool three = c >= 0xe0 && c <= 0xef && len > 2 && is_tail(next)
                 && is_tail(text[2]);
    bool overlong = c == 0xe0 && (unsigned char)next < 0xa0;
    bool surrogate = c == 0xed && (unsigned char)next > 0x9f;
    return three && !overlong && !surrogate ? 3 : 0;
}

static void
prove_length(size_t len)
{
    char *text = any_bytes(len);
    ASSUME(text[0] == '"');
    ro_json_lexer lexer = {.start = text, .ptr = text, .end = text + len};
    bool escaped = false;

    bool taken = ro_json_lex_string(&lexer, &escaped);

    size_t at = 1;
    bool slash = false;
    while (at < len && item(text + at, len - at) > 0) {
        slash = slash || text[at] == '\\';
        at += item(text + at, len - at);
    }
    CLAIM(taken == (at < len && text[at] == '"'));
    CLAIM(!taken || lexer.ptr == text + at + 1);
    CLAIM(!taken || (escaped == slash && !IS_TWIN));
    CLAIM(taken || lexer.error.pos <= len);
    CLAIM(taken
          || (lexer.error.code == RO_JSON_TRUNCATED)
                 == (lexer.error.pos == len));
}

void
prove(void)
{
    for (size_t len = 1; len <= MOST; len++) {
        prove_length(len);
    }
}
