#include "core/view.h"

#include "core/alloc.h"
#include "core/base64.h"
#include "core/json_text.h"
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

/* Never more bytes than the escape has: 1 of 2 for \n, 3 of 6 for \uxxxx, 4 of
 * 12 for a pair. All of them come from the whole escape, since a part of it
 * cannot be replaced in the source. Half a pair, which only a text inside a
 * string can hold, becomes three bytes that are no UTF-8. They are only
 * searched, never written. */
static void
push_point(ro_view *view, uint32_t point, uint32_t start, uint32_t stop)
{
    char bytes[4];
    size_t len = ro_json_encode(point, bytes);
    for (size_t i = 0; i < len; i++) {
        push(view, bytes[i], start, stop);
    }
}

static size_t
escape_at(const char *text, size_t len, size_t at, uint32_t *point)
{
    return text[at] == '\\' ? ro_json_escape(text + at, len - at, point) : 0;
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
        size_t used = escape_at(raw.ptr, end, at, &point);
        if (used == 0) {
            push(view, raw.ptr[at], (uint32_t)at, (uint32_t)at + 1);
            used = 1;
        }
        else {
            push_point(view, point, (uint32_t)at, (uint32_t)(at + used));
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
    view->len = 0; /* writing never overtakes reading: see push_point */
    while (at < len) {
        uint32_t point = 0;
        size_t used = escape_at(view->text, len, at, &point);
        if (used == 0) {
            push(view, view->text[at], view->start[at], view->stop[at]);
            used = 1;
        }
        else {
            push_point(view, point, view->start[at],
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
    /* The one byte that is left stands for the whole escape. */
    view->stop[view->len - 3] = view->stop[view->len - 1];
    view->len -= 2;
    return true;
}

bool
ro_view_percent(const ro_view *in, bool fully, ro_view *out, bool *changed)
{
    size_t fixed = 0; /* bytes of out that begin no escape in this pass: in
                         "%2541" the sign that "%25" gives is one */

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

/* White space goes because encoders break their lines. What stands in other
 * words becomes a run of digits by that, too; it is searched and no more. */
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
