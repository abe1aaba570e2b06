#include "core/json_write.h"

#include <stdio.h>

#include "core/json.h"
#include "core/json_text.h"

ro_writer
ro_writer_of(ro_buf *out)
{
    return (ro_writer){out, out->len, RO_BUF_OK};
}

ro_buf_code
ro_write_done(ro_writer *to)
{
    if (to->code != RO_BUF_OK) {
        to->out->len = to->start;
    }
    return to->code;
}

static void
put(ro_writer *to, const char *bytes, size_t len)
{
    if (to->code == RO_BUF_OK) {
        to->code = ro_buf_append(to->out, bytes, len);
    }
}

void
ro_write_span(ro_writer *to, ro_slice bytes)
{
    put(to, bytes.ptr, bytes.len);
}

static bool
is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* The last byte of a value is none of these: a string ends in its quote.
 * White space may end a span. */
void
ro_write_comma(ro_writer *to)
{
    static const char openers[] = {'{', '[', ':', ','};
    size_t at = to->out->len;
    if (to->code != RO_BUF_OK) {
        return;
    }
    while (at > to->start && is_space(to->out->data[at - 1])) {
        at--;
    }
    if (at > to->start
        && memchr(openers, to->out->data[at - 1], sizeof(openers)) == NULL) {
        put(to, ",", 1);
    }
}

void
ro_write_open(ro_writer *to, char bracket)
{
    ro_write_comma(to);
    put(to, &bracket, 1);
}

void
ro_write_close(ro_writer *to, char bracket)
{
    put(to, &bracket, 1);
}

void
ro_write_key(ro_writer *to, const char *name)
{
    ro_write_comma(to);
    put(to, "\"", 1);
    put(to, name, strlen(name));
    put(to, "\":", 2);
}

void
ro_write_raw(ro_writer *to, ro_slice value)
{
    ro_write_comma(to);
    ro_write_span(to, value);
}

void
ro_write_int(ro_writer *to, int number)
{
    char digits[16];
    int len = snprintf(digits, sizeof(digits), "%d", number);
    ro_write_comma(to);
    put(to, digits, (size_t)len);
}

void
ro_write_member(ro_writer *to, const char *name, ro_slice value)
{
    ro_write_key(to, name);
    ro_write_raw(to, value);
}

void
ro_write_member_text(ro_writer *to, const char *name, const char *text)
{
    ro_write_key(to, name);
    ro_write_string(to, ro_slice_str(text));
}

/* ---- minified ---- */

void
ro_write_minified(ro_writer *to, ro_slice value)
{
    const char *ptr = value.ptr;
    const char *end = value.len == 0 ? ptr : ptr + value.len;
    const char *run = ptr;

    ro_write_comma(to);
    while (ptr < end) {
        switch (*ptr) {
        case '"':
            ptr = ro_json_string_end(ptr + 1, end);
            break;
        case ' ':
        case '\n':
        case '\r':
        case '\t':
            put(to, run, (size_t)(ptr - run));
            run = ++ptr;
            break;
        default:
            ptr++;
            break;
        }
    }
    put(to, run, (size_t)(ptr - run));
}

ro_buf_code
ro_json_minify(ro_slice value, ro_buf *out)
{
    ro_writer to = ro_writer_of(out);
    ro_write_minified(&to, value);
    return ro_write_done(&to);
}

/* ---- strings ---- */

static void
put_unit(ro_writer *to, unsigned unit)
{
    static const char hex[] = "0123456789abcdef";
    const char text[6] = {'\\',
                          'u',
                          hex[unit >> 12 & 15],
                          hex[unit >> 8 & 15],
                          hex[unit >> 4 & 15],
                          hex[unit & 15]};
    put(to, text, sizeof(text));
}

static void
put_ascii(ro_writer *to, char c)
{
    static const char from[] = "\"\\\b\f\n\r\t";
    static const char escape[] = "\"\\bfnrt";
    const char *found = c == '\0' ? NULL : strchr(from, c);

    if (found == NULL) {
        put_unit(to, (unsigned char)c);
        return;
    }
    put(to, (char[2]){'\\', escape[found - from]}, 2);
}

/* One character of two bytes or more at *ptr; moves on. */
static void
put_wide(ro_writer *to, const char **ptr, const char *end)
{
    unsigned lead = (unsigned char)*(*ptr)++;
    unsigned code = lead >= 0xf0   ? lead & 0x07
                    : lead >= 0xe0 ? lead & 0x0f
                                   : lead & 0x1f;

    while (*ptr < end && ((unsigned char)**ptr & 0xc0) == 0x80) {
        code = code << 6 | ((unsigned char)*(*ptr)++ & 0x3f);
    }
    if (code < 0x10000) {
        put_unit(to, code);
        return;
    }
    code -= 0x10000;
    put_unit(to, 0xd800 + (code >> 10 & 0x3ff));
    put_unit(to, 0xdc00 + (code & 0x3ff));
}

void
ro_write_ascii(ro_writer *to, ro_slice value)
{
    const char *ptr = value.ptr;
    const char *end = value.len == 0 ? ptr : ptr + value.len;

    ro_write_comma(to);
    while (to->code == RO_BUF_OK && ptr < end) {
        const char *run = ptr;
        while (ptr < end && (unsigned char)*ptr < 0x80) {
            ptr++;
        }
        put(to, run, (size_t)(ptr - run));
        if (ptr < end) {
            put_wide(to, &ptr, end);
        }
    }
}

static inline bool
stands_for_itself(char c)
{
    unsigned char byte = (unsigned char)c;
    return byte >= 0x20 && byte < 0x80 && byte != '"' && byte != '\\';
}

void
ro_write_string(ro_writer *to, ro_slice utf8)
{
    const char *ptr = utf8.ptr;
    const char *end = utf8.len == 0 ? ptr : ptr + utf8.len;

    ro_write_comma(to);
    put(to, "\"", 1);
    while (to->code == RO_BUF_OK && ptr < end) {
        const char *run = ptr;
        while (ptr < end && stands_for_itself(*ptr)) {
            ptr++;
        }
        put(to, run, (size_t)(ptr - run));
        if (ptr == end) {
            break;
        }
        if ((unsigned char)*ptr < 0x80) {
            put_ascii(to, *ptr++);
        }
        else {
            put_wide(to, &ptr, end);
        }
    }
    put(to, "\"", 1);
}

ro_buf_code
ro_json_write_string(ro_buf *out, ro_slice utf8)
{
    ro_writer to = ro_writer_of(out);
    ro_write_string(&to, utf8);
    return ro_write_done(&to);
}
