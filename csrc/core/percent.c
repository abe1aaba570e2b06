#include "core/percent.h"

int
ro_hex_value(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    if (c >= 'A' && c <= 'F') {
        return c - 'A' + 10;
    }
    return -1;
}

bool
ro_percent_collapse(char *out, size_t len)
{
    int high;
    int low;

    if (len < 3 || out[len - 3] != '%') {
        return false;
    }
    high = ro_hex_value(out[len - 2]);
    low = ro_hex_value(out[len - 1]);
    if (high < 0 || low < 0) {
        return false;
    }
    out[len - 3] = (char)(high * 16 + low);
    return true;
}

size_t
ro_percent_decode(ro_slice in, char *out)
{
    size_t len = 0;
    for (size_t i = 0; i < in.len; i++) {
        out[len++] = in.ptr[i];
        /* A resolved byte may be the last digit of an outer escape. */
        while (ro_percent_collapse(out, len)) {
            len -= 2;
        }
    }
    return len;
}
