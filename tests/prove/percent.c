/* sources: core/percent.c
 * options: --unwind 7
 *
 * Percent decoding never writes more than it reads, leaves no escape behind
 * and leaves text without one alone: every text of up to 5 bytes. */
#include "prove.h"

#include "core/percent.h"

#define MOST 5

static bool
is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')
           || (c >= 'A' && c <= 'F');
}

/* Whether an escape begins at i. */
static bool
is_escape(const char *text, size_t len, size_t i)
{
    return i + 2 < len && text[i] == '%' && is_hex(text[i + 1])
           && is_hex(text[i + 2]);
}

static void
prove_length(size_t len)
{
    char *text = any_bytes(len);
    char *out = malloc(len);
    ASSUME(out != NULL);

    size_t written = ro_percent_decode(ro_slice_of(text, len), out);

    bool plain = true;
    for (size_t i = 0; i < len; i++) {
        plain = plain && !is_escape(text, len, i);
    }
    CLAIM(written <= len);
    CLAIM(plain == (written == len));
    CLAIM((len - written) % 2 == 0);
    for (size_t i = 0; i < written; i++) {
        CLAIM(!is_escape(out, written, i));
        CLAIM(!plain || (out[i] == text[i] && !IS_TWIN));
    }
}

void
prove(void)
{
    for (size_t len = 0; len <= MOST; len++) {
        prove_length(len);
    }
}
