/* sources: core/base64.c
 * options: --unwind 10
 *
 * The digits of some bytes inside a base64 text, whatever stands before
 * them, are those that the bits give, and they fit the room that the header
 * promises: every run of up to 4 bytes at every shift. */
#include "prove.h"

#include "core/base64.h"

#define MOST 4

static const char alphabet[]
    = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static void
prove_length(size_t len, unsigned shift)
{
    char *bytes = any_bytes(len);
    size_t room = len * 4 / 3 + IS_TWIN * len;
    char *out = malloc(room);
    ASSUME(out != NULL);

    ro_base64_core core
        = ro_base64_core_of(ro_slice_of(bytes, len), shift, out);

    /* The whole text has `shift` bytes in front, counted in bits. */
    size_t first = 8 * shift;       /* bit where the bytes begin */
    size_t last = first + 8 * len;  /* and end */
    size_t digit = (first + 5) / 6; /* first digit that is all theirs */
    size_t end = last / 6;          /* behind the last such digit */
    size_t whole = end > digit ? end - digit : 0;
    CLAIM(core.len == whole);
    CLAIM(core.len <= room && !(IS_TWIN && len == MOST));
    CLAIM(core.lead == (first % 6 != 0));
    if (whole > 0) {
        CLAIM(core.trail == (last % 6 != 0));
    }
    CLAIM(core.pads == (3 - (shift + len) % 3) % 3);
    for (size_t i = 0; i < whole; i++) {
        unsigned value = 0;
        for (size_t bit = 6 * (digit + i); bit < 6 * (digit + i) + 6; bit++) {
            size_t at = bit - first;
            unsigned byte = (unsigned char)bytes[at / 8];
            value = value << 1 | (byte >> (7 - at % 8) & 1);
        }
        CLAIM(out[i] == alphabet[value]);
    }
}

void
prove(void)
{
    for (size_t len = 0; len <= MOST; len++) {
        for (unsigned shift = 0; shift < 3; shift++) {
            prove_length(len, shift);
        }
    }
}
