#include "core/json_text.h"

#include "core/json.h"

#include <stdint.h>

const char *
ro_json_string_end(const char *ptr, const char *end)
{
    for (;;) {
        const char *quote = memchr(ptr, '"', (size_t)(end - ptr));
        const char *run = quote;

        if (quote == NULL) {
            return end;
        }
        while (run > ptr && run[-1] == '\\') {
            run--;
        }
        if ((quote - run) % 2 == 0) {
            return quote + 1;
        }
        ptr = quote + 1;
    }
}

static uint32_t
hex4(const char *digits)
{
    uint32_t value = 0;
    for (int i = 0; i < 4; i++) {
        uint32_t c = (unsigned char)digits[i];
        /* Letters of either case have bit 6 set and end in 1 to 6. */
        value = value << 4 | ((c & 0xf) + (c >> 6) * 9);
    }
    return value;
}

static size_t
encode_utf8(uint32_t code, char out[4])
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (char)(0xc0 | code >> 6);
        out[1] = (char)(0x80 | (code & 0x3f));
        return 2;
    }
    if (code < 0x10000) {
        out[0] = (char)(0xe0 | code >> 12);
        out[1] = (char)(0x80 | (code >> 6 & 0x3f));
        out[2] = (char)(0x80 | (code & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | code >> 18);
    out[1] = (char)(0x80 | (code >> 12 & 0x3f));
    out[2] = (char)(0x80 | (code >> 6 & 0x3f));
    out[3] = (char)(0x80 | (code & 0x3f));
    return 4;
}

size_t
ro_json_read_char(const char **ptr, char out[4])
{
    const char *p = *ptr;
    uint32_t code = 0;

    if (*p != '\\') {
        out[0] = *p;
        *ptr = p + 1;
        return 1;
    }
    *ptr = p + 2;
    switch (p[1]) {
    case 'b':
        out[0] = '\b';
        return 1;
    case 'f':
        out[0] = '\f';
        return 1;
    case 'n':
        out[0] = '\n';
        return 1;
    case 'r':
        out[0] = '\r';
        return 1;
    case 't':
        out[0] = '\t';
        return 1;
    case 'u':
        break;
    default: /* quote, backslash, slash */
        out[0] = p[1];
        return 1;
    }
    code = hex4(p + 2);
    *ptr = p + 6;
    if (code >= 0xd800 && code < 0xdc00) {
        code = 0x10000 + ((code - 0xd800) << 10) + (hex4(p + 8) - 0xdc00);
        *ptr = p + 12;
    }
    return encode_utf8(code, out);
}

bool
ro_json_same_text(const char *a, const char *b)
{
    char x[4];
    char y[4];
    size_t x_len = 0;
    size_t y_len = 0;
    size_t x_at = 0;
    size_t y_at = 0;

    for (;;) {
        if (x_at == x_len && *a != '"') {
            x_len = ro_json_read_char(&a, x);
            x_at = 0;
        }
        if (y_at == y_len && *b != '"') {
            y_len = ro_json_read_char(&b, y);
            y_at = 0;
        }
        if (x_at == x_len || y_at == y_len) {
            return x_at == x_len && y_at == y_len;
        }
        if (x[x_at++] != y[y_at++]) {
            return false;
        }
    }
}

bool
ro_json_string_is(ro_slice raw, ro_slice text)
{
    const char *ptr = raw.ptr + 1;
    const char *end = raw.ptr + raw.len - 1;
    size_t at = 0;

    /* An escape is never shorter than what it stands for. */
    if (text.len > raw.len - 2) {
        return false;
    }
    if (memchr(ptr, '\\', raw.len - 2) == NULL) {
        return ro_slice_equal(ro_slice_of(ptr, raw.len - 2), text);
    }
    while (ptr < end) {
        char bytes[4];
        size_t len = ro_json_read_char(&ptr, bytes);
        if (len > text.len - at || memcmp(text.ptr + at, bytes, len) != 0) {
            return false;
        }
        at += len;
    }
    return at == text.len;
}

size_t
ro_json_decode(ro_slice raw, char *out)
{
    const char *ptr = raw.ptr + 1;
    const char *end = raw.ptr + raw.len - 1;
    char *start = out;

    while (ptr < end) {
        const char *slash = memchr(ptr, '\\', (size_t)(end - ptr));
        size_t plain = (size_t)((slash ? slash : end) - ptr);
        char bytes[4];
        size_t len = 0;

        memcpy(out, ptr, plain);
        out += plain;
        ptr += plain;
        while (ptr < end && *ptr == '\\') {
            len = ro_json_read_char(&ptr, bytes);
            memcpy(out, bytes, len);
            out += len;
        }
    }
    return (size_t)(out - start);
}
