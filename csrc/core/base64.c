#include "core/base64.h"

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                             "abcdefghijklmnopqrstuvwxyz0123456789+/";

bool
ro_base64_is_digit(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z')
           || (c >= '0' && c <= '9') || c == '+' || c == '/';
}

char
ro_base64_standard(char c)
{
    if (c == '-') {
        return '+';
    }
    return (char)(c == '_' ? '/' : c);
}

ro_base64_core
ro_base64_core_of(ro_slice bytes, unsigned shift, char *out)
{
    ro_base64_core core = {0};
    size_t bits = 8 * bytes.len;
    /* Bits of the first digit that belong to what stands before. */
    size_t before = shift == 0 ? 0 : shift == 1 ? 4 : 2;
    size_t bit;

    /* Only digits whose six bits all come from the bytes: the others depend
     * on what stands around them. */
    for (bit = before; bit + 6 <= bits; bit += 6) {
        size_t at = bit / 8;
        unsigned pair = (unsigned)(unsigned char)bytes.ptr[at] << 8;
        if (at + 1 < bytes.len) {
            pair |= (unsigned char)bytes.ptr[at + 1];
        }
        out[core.len++] = digits[pair >> (10 - bit % 8) & 63];
    }
    core.lead = before != 0;
    core.trail = bit < bits;
    core.pads = (unsigned)((3 - (shift + bytes.len) % 3) % 3);
    return core;
}
