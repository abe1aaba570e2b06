/* Tokens of strict JSON, one at a time; inner header of the scanner.
 *
 * Every ro_json_lex_* that takes a token begins at lexer->ptr, leaves it
 * behind the token and returns true, or notes the error and returns false.
 */
#ifndef RO_CORE_JSON_LEX_H
#define RO_CORE_JSON_LEX_H

#include "core/json.h"

typedef struct ro_json_lexer {
    const char *start;
    const char *ptr;
    const char *end;
    ro_json_error error;
} ro_json_lexer;

static inline void
ro_json_lex_space(ro_json_lexer *lexer)
{
    const char *p = lexer->ptr;
    while (p < lexer->end
           && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t')) {
        p++;
    }
    lexer->ptr = p;
}

/* The opening quote is there. Sets *escaped when there is a backslash. */
bool ro_json_lex_string(ro_json_lexer *lexer, bool *escaped);
/* A minus or a digit is there. *integer: no fraction and no exponent. */
bool ro_json_lex_number(ro_json_lexer *lexer, bool *integer);
bool ro_json_lex_literal(ro_json_lexer *lexer, const char *text);

/* These note an error and return false. */
bool ro_json_lex_fail(ro_json_lexer *lexer, ro_json_code code,
                      const char *where);
/* As above, but RO_JSON_TRUNCATED when where is the end. */
bool ro_json_lex_fail_at(ro_json_lexer *lexer, ro_json_code code,
                         const char *where);
/* The byte there begins no value. The error is RO_JSON_NUMBER if it looks like
 * the start of a number. */
bool ro_json_lex_refuse(ro_json_lexer *lexer);

#endif
