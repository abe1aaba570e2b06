/* options: --unwind 14
 *
 * The parts of the string lexer, each beside the grammar: plain bytes, eight
 * at a time (every text of up to 9 bytes), one character of UTF-8 (every text
 * of up to 4), one escape (every text of up to 12). */
#include "string_grammar.h"

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
