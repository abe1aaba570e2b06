#include "core/json.h"

#include "core/json_text.h"

static ro_buf_code
minify(const char *ptr, const char *end, ro_buf *out)
{
    const char *run = ptr;
    ro_buf_code code = RO_BUF_OK;

    while (ptr < end) {
        switch (*ptr) {
        case '"':
            ptr = ro_json_string_end(ptr + 1, end);
            break;
        case ' ':
        case '\n':
        case '\r':
        case '\t':
            code = ro_buf_append(out, run, (size_t)(ptr - run));
            if (code != RO_BUF_OK) {
                return code;
            }
            run = ++ptr;
            break;
        default:
            ptr++;
            break;
        }
    }
    return ro_buf_append(out, run, (size_t)(ptr - run));
}

ro_buf_code
ro_json_minify(ro_slice value, ro_buf *out)
{
    size_t before = out->len;
    ro_buf_code code = RO_BUF_OK;

    if (value.len > 0) {
        code = minify(value.ptr, value.ptr + value.len, out);
    }
    if (code != RO_BUF_OK) {
        out->len = before;
    }
    return code;
}

/* ---- strings ---- */

static ro_buf_code
write_unit(ro_buf *out, unsigned unit)
{
    static const char hex[] = "0123456789abcdef";
    const char text[6] = {'\\',
                          'u',
                          hex[unit >> 12 & 15],
                          hex[unit >> 8 & 15],
                          hex[unit >> 4 & 15],
                          hex[unit & 15]};
    return ro_buf_append(out, text, sizeof(text));
}

static ro_buf_code
write_ascii(ro_buf *out, char c)
{
    static const char from[] = "\"\\\b\f\n\r\t";
    static const char to[] = "\"\\bfnrt";
    const char *found = c == '\0' ? NULL : strchr(from, c);

    if (found == NULL) {
        return write_unit(out, (unsigned char)c);
    }
    return ro_buf_append(out, (char[2]){'\\', to[found - from]}, 2);
}

/* One character of two bytes or more at *ptr; moves on. */
static ro_buf_code
write_wide(ro_buf *out, const char **ptr, const char *end)
{
    unsigned lead = (unsigned char)*(*ptr)++;
    unsigned code = lead >= 0xf0   ? lead & 0x07
                    : lead >= 0xe0 ? lead & 0x0f
                                   : lead & 0x1f;
    ro_buf_code done = RO_BUF_OK;

    while (*ptr < end && ((unsigned char)**ptr & 0xc0) == 0x80) {
        code = code << 6 | ((unsigned char)*(*ptr)++ & 0x3f);
    }
    if (code < 0x10000) {
        return write_unit(out, code);
    }
    code -= 0x10000;
    done = write_unit(out, 0xd800 + (code >> 10 & 0x3ff));
    return done == RO_BUF_OK ? write_unit(out, 0xdc00 + (code & 0x3ff)) : done;
}

static inline bool
stands_for_itself(char c)
{
    unsigned char byte = (unsigned char)c;
    return byte >= 0x20 && byte < 0x80 && byte != '"' && byte != '\\';
}

static ro_buf_code
write_text(ro_buf *out, const char *ptr, const char *end)
{
    ro_buf_code code = RO_BUF_OK;

    while (code == RO_BUF_OK && ptr < end) {
        const char *run = ptr;
        while (ptr < end && stands_for_itself(*ptr)) {
            ptr++;
        }
        code = ro_buf_append(out, run, (size_t)(ptr - run));
        if (code != RO_BUF_OK || ptr == end) {
            return code;
        }
        if ((unsigned char)*ptr < 0x80) {
            code = write_ascii(out, *ptr++);
        }
        else {
            code = write_wide(out, &ptr, end);
        }
    }
    return code;
}

ro_buf_code
ro_json_write_string(ro_buf *out, ro_slice utf8)
{
    size_t before = out->len;
    ro_buf_code code = ro_buf_append_char(out, '"');

    if (code == RO_BUF_OK && utf8.len > 0) {
        code = write_text(out, utf8.ptr, utf8.ptr + utf8.len);
    }
    if (code == RO_BUF_OK) {
        code = ro_buf_append_char(out, '"');
    }
    if (code != RO_BUF_OK) {
        out->len = before;
    }
    return code;
}
