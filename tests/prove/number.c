/* sources: core/json_lex.c
 * options: --unwind 11
 *
 * The number lexer takes exactly the longest prefix that RFC 8259 calls a
 * number, says rightly whether it is an integer, and reads no byte behind
 * the end: every text of up to 8 bytes. */
#include "prove.h"

#include "core/json_lex.h"

#define MOST 8

/* The grammar as an automaton; states that may end a number are even. */
enum state {
    INT = 0,
    ZERO = 2,
    FRACTION = 4,
    EXPONENT = 6,
    START = 1,
    MINUS = 3,
    POINT = 5,
    E = 7,
    SIGN = 9,
    NO = 11,
};

static enum state
next(enum state state, char c)
{
    bool digit = c >= '0' && c <= '9';
    bool e = c == 'e' || c == 'E';
    switch (state) {
    case START:
        return c == '-' ? MINUS : c == '0' ? ZERO : digit ? INT : NO;
    case MINUS:
        return c == '0' ? ZERO : digit ? INT : NO;
    case INT:
        return digit ? INT : c == '.' ? POINT : e ? E : NO;
    case ZERO:
        return c == '.' ? POINT : e ? E : NO;
    case POINT:
    case FRACTION:
        return digit ? FRACTION : e && state == FRACTION ? E : NO;
    case E:
        return c == '+' || c == '-' ? SIGN : digit ? EXPONENT : NO;
    case SIGN:
    case EXPONENT:
        return digit ? EXPONENT : NO;
    case NO:
        break;
    }
    return NO;
}

static void
prove_length(size_t len)
{
    char *text = any_bytes(len);
    ASSUME(text[0] == '-' || (text[0] >= '0' && text[0] <= '9'));

    ro_json_lexer lexer = {.start = text, .ptr = text, .end = text + len};
    bool integer = nondet_bool();
    bool taken = ro_json_lex_number(&lexer, &integer);

    enum state state = START;
    size_t at = 0;
    while (at < len && next(state, text[at]) != NO) {
        state = next(state, text[at++]);
    }
    bool right = state % 2 == 0
                 && !(state == ZERO && at < len && text[at] >= '0'
                      && text[at] <= '9'); /* 01 is no number and a rest */
    CLAIM(taken == right);
    if (taken) {
        CLAIM(lexer.ptr == text + at);
        CLAIM(integer == (state == INT || state == ZERO) && !IS_TWIN);
    }
    else {
        CLAIM(lexer.error.code == RO_JSON_NUMBER
              || lexer.error.code == RO_JSON_TRUNCATED);
        CLAIM((lexer.error.code == RO_JSON_TRUNCATED)
              == (lexer.error.pos == len));
        CLAIM(lexer.error.pos <= len);
    }
}

void
prove(void)
{
    for (size_t len = 1; len <= MOST; len++) {
        prove_length(len);
    }
}
