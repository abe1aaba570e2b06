#include "core/view.h"

#include "core/alloc.h"
#include "core/base64.h"
#include "core/percent.h"

void
ro_view_free(ro_view *view)
{
    ro_free(view->text);
    ro_free(view->start);
    ro_free(view->stop);
    memset(view, 0, sizeof(*view));
}

/* Old content is lost: every caller writes the view from its start. */
static bool
reserve(ro_view *view, size_t cap)
{
    if (view->text != NULL && cap <= view->cap) {
        return true;
    }
    if (cap < 2 * view->cap) {
        cap = 2 * view->cap;
    }
    ro_view_free(view);
    view->text = ro_malloc(cap + 1);
    view->start = ro_malloc((cap + 1) * sizeof(*view->start));
    view->stop = ro_malloc((cap + 1) * sizeof(*view->stop));
    if (view->text == NULL || view->start == NULL || view->stop == NULL) {
        ro_view_free(view);
        return false;
    }
    view->cap = cap;
    return true;
}

static void
push(ro_view *view, char c, uint32_t start, uint32_t stop)
{
    view->text[view->len] = c;
    view->start[view->len] = start;
    view->stop[view->len] = stop;
    view->len++;
}

/* The four hexadecimal digits at text[at], or -1. */
static int32_t
hex4(const char *text, size_t len, size_t at)
{
    int32_t value = 0;
    if (len < 4 || at > len - 4) {
        return -1;
    }
    for (size_t i = at; i < at + 4; i++) {
        int digit = ro_hex_value(text[i]);
        if (digit < 0) {
            return -1;
        }
        value = value * 16 + digit;
    }
    return value;
}

static void
push_code_point(ro_view *view, uint32_t point, uint32_t start, uint32_t stop)
{
    if (point < 0x80) {
        push(view, (char)point, start, stop);
        return;
    }
    if (point < 0x800) {
        push(view, (char)(0xC0 | point >> 6), start, stop);
    }
    else if (point < 0x10000) {
        push(view, (char)(0xE0 | point >> 12), start, stop);
        push(view, (char)(0x80 | (point >> 6 & 0x3F)), start, stop);
    }
    else {
        push(view, (char)(0xF0 | point >> 18), start, stop);
        push(view, (char)(0x80 | (point >> 12 & 0x3F)), start, stop);
        push(view, (char)(0x80 | (point >> 6 & 0x3F)), start, stop);
    }
    push(view, (char)(0x80 | (point & 0x3F)), start, stop);
}

/* The length of the escape at text[at] (a backslash) and what it stands
 * for; 0 when it is none. */
static size_t
escape_at(const char *text, size_t len, size_t at, uint32_t *point)
{
    static const char names[] = "\"\\/bfnrt";
    static const char values[] = "\"\\/\b\f\n\r\t";
    const char *name;
    int32_t high;
    int32_t low;

    if (len - at < 2) {
        return 0;
    }
    if (text[at + 1] != 'u') {
        name = memchr(names, text[at + 1], sizeof(names) - 1);
        if (name == NULL) {
            return 0;
        }
        *point = (unsigned char)values[name - names];
        return 2;
    }
    high = hex4(text, len, at + 2);
    if (high < 0) {
        return 0;
    }
    *point = (uint32_t)high;
    if (high < 0xD800 || high > 0xDBFF || len - at < 12 || text[at + 6] != '\\'
        || text[at + 7] != 'u') {
        return 6;
    }
    low = hex4(text, len, at + 8);
    if (low < 0xDC00 || low > 0xDFFF) {
        return 6;
    }
    *point = 0x10000 + (((uint32_t)high - 0xD800) << 10)
             + ((uint32_t)low - 0xDC00);
    return 12;
}

bool
ro_view_of_string(ro_view *view, ro_slice raw)
{
    size_t end = raw.len - 1; /* the closing quote */
    size_t at = 1;

    if (!reserve(view, raw.len)) {
        return false;
    }
    view->len = 0;
    while (at < end) {
        uint32_t point = 0;
        size_t used = 0;
        if (raw.ptr[at] == '\\') {
            used = escape_at(raw.ptr, end, at, &point);
        }
        if (used == 0) {
            push(view, raw.ptr[at], (uint32_t)at, (uint32_t)at + 1);
            used = 1;
        }
        else {
            push_code_point(view, point, (uint32_t)at, (uint32_t)(at + used));
        }
        at += used;
    }
    return true;
}

bool
ro_view_unescape(ro_view *view)
{
    size_t len = view->len;
    size_t at = 0;

    if (len == 0 || memchr(view->text, '\\', len) == NULL) {
        return false;
    }
    view->len = 0;
    while (at < len) {
        uint32_t point = 0;
        size_t used = 0;
        if (view->text[at] == '\\') {
            used = escape_at(view->text, len, at, &point);
        }
        if (used == 0) {
            push(view, view->text[at], view->start[at], view->stop[at]);
            used = 1;
        }
        else {
            push_code_point(view, point, view->start[at],
                            view->stop[at + used - 1]);
        }
        at += used;
    }
    return view->len != len;
}

static bool
collapse(ro_view *view)
{
    if (!ro_percent_collapse(view->text, view->len)) {
        return false;
    }
    view->stop[view->len - 3] = view->stop[view->len - 1];
    view->len -= 2;
    return true;
}

bool
ro_view_percent(const ro_view *in, bool fully, ro_view *out, bool *changed)
{
    size_t fixed = 0; /* bytes of out that an escape may not begin in */

    if (!reserve(out, in->len)) {
        return false;
    }
    out->len = 0;
    *changed = false;
    for (size_t i = 0; i < in->len; i++) {
        push(out, in->text[i], in->start[i], in->stop[i]);
        if (!fully && out->len < fixed + 3) {
            continue;
        }
        if (!collapse(out)) {
            continue;
        }
        *changed = true;
        fixed = out->len;
        /* A resolved byte may be the last digit of an outer escape. */
        while (fully && collapse(out)) {
        }
    }
    return true;
}

bool
ro_view_base64(const ro_view *in, ro_view *out)
{
    size_t len = in->len;

    if (out != in && !reserve(out, len)) {
        return false;
    }
    out->len = 0;
    for (size_t i = 0; i < len; i++) {
        char c = in->text[i];
        if (c != '\n' && c != '\r' && c != ' ' && c != '\t') {
            push(out, ro_base64_standard(c), in->start[i], in->stop[i]);
        }
    }
    return true;
}
