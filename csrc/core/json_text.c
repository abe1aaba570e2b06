#include "core/json_text.h"

#include "core/json.h"
#include "core/percent.h"

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

size_t
ro_json_encode(uint32_t point, char out[4])
{
    if (point < 0x80) {
        out[0] = (char)point;
        return 1;
    }
    if (point < 0x800) {
        out[0] = (char)(0xc0 | point >> 6);
        out[1] = (char)(0x80 | (point & 0x3f));
        return 2;
    }
    if (point < 0x10000) {
        out[0] = (char)(0xe0 | point >> 12);
        out[1] = (char)(0x80 | (point >> 6 & 0x3f));
        out[2] = (char)(0x80 | (point & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | point >> 18);
    out[1] = (char)(0x80 | (point >> 12 & 0x3f));
    out[2] = (char)(0x80 | (point >> 6 & 0x3f));
    out[3] = (char)(0x80 | (point & 0x3f));
    return 4;
}

static bool
hex4(const char *digits, uint32_t *value)
{
    *value = 0;
    for (int i = 0; i < 4; i++) {
        int digit = ro_hex_value(digits[i]);
        if (digit < 0) {
            return false;
        }
        *value = *value << 4 | (uint32_t)digit;
    }
    return true;
}

size_t
ro_json_escape(const char *ptr, size_t left, uint32_t *point)
{
    static const char names[] = "\"\\/bfnrt";
    static const char values[] = "\"\\/\b\f\n\r\t";
    uint32_t low = 0;

    if (left < 2) {
        return 0;
    }
    if (ptr[1] != 'u') {
        const char *name = memchr(names, ptr[1], sizeof(names) - 1);
        if (name == NULL) {
            return 0;
        }
        *point = (unsigned char)values[name - names];
        return 2;
    }
    if (left < 6 || !hex4(ptr + 2, point)) {
        return 0;
    }
    if (*point < 0xd800 || *point > 0xdbff || left < 12 || ptr[6] != '\\'
        || ptr[7] != 'u' || !hex4(ptr + 8, &low) || low < 0xdc00
        || low > 0xdfff) {
        return 6;
    }
    *point = 0x10000 + ((*point - 0xd800) << 10) + (low - 0xdc00);
    return 12;
}

size_t
ro_json_read_char(const char **ptr, char out[4])
{
    uint32_t point = 0;

    if (**ptr != '\\') {
        out[0] = *(*ptr)++;
        return 1;
    }
    /* A valid escape is complete, so that no more is read than is there. */
    *ptr += ro_json_escape(*ptr, 12, &point);
    return ro_json_encode(point, out);
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
