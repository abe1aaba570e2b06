/* sources: core/json_lex.c
 * options: --unwind 6 --unwindset strchr.0:11 --object-bits 11
 *
 * The string lexer takes exactly one string of the grammar, says rightly
 * whether there is an escape in it, and reads no byte behind the end: every
 * text of up to 4 bytes. Its parts alone: string_parts.c. */
#include "string_grammar.h"

#include "core/json_lex.h"

#define MOST 4

/* Bytes of what stands at the start inside of a string; 0 for a fault. */
static size_t
item(const char *text, size_t len)
{
    unsigned char c = (unsigned char)text[0];

    if (c < 0x20 || c == '"') {
        return 0;
    }
    if (c == '\\') {
        return escape(text, len);
    }
    return c < 0x80 ? 1 : character(text, len);
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
