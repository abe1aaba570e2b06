#include "core/redact.h"

#include "core/alloc.h"
#include "core/json.h"
#include "core/limits.h"
#include "core/shapes.h"
#include "core/view.h"

const char *const ro_redact_attestation[] = {
    "qualification",
    "output_attestation",
    NULL,
};

typedef struct work {
    const ro_redact_rules *rules;
    ro_buf *out;
    ro_view text;    /* the string, then unescaped again and again */
    ro_view derived; /* one reading of it */
    ro_secrets_scratch scratch;
    /* For each byte of the raw string the end of the longest replacement
     * that begins there, or 0; zeroed at the string's first match. */
    uint32_t *reach;
    size_t reach_cap;
    /* About the string at hand */
    ro_slice raw;
    bool shapes;
    bool matched;
    bool failed; /* out of memory inside a callback */
    /* About the whole value */
    bool key_changed;
    size_t path_len;     /* names in rules->attested */
    size_t path_matched; /* of them, where the scan stands */
} work;

/* ---- one string ---- */

static bool
ready_reach(work *w)
{
    if (w->reach_cap < w->raw.len) {
        ro_free(w->reach);
        w->reach_cap = 0;
        w->reach = ro_malloc(w->raw.len * sizeof(*w->reach));
        if (w->reach == NULL) {
            return false;
        }
        w->reach_cap = w->raw.len;
    }
    memset(w->reach, 0, w->raw.len * sizeof(*w->reach));
    return true;
}

static bool
is_continuation(char c)
{
    return ((unsigned char)c & 0xC0) == 0x80;
}

static void
mark(work *w, const ro_view *view, size_t first, size_t end)
{
    size_t start = view->start[first];
    size_t stop = view->stop[end - 1];

    if (w->failed) {
        return;
    }
    if (!w->matched && !ready_reach(w)) {
        w->failed = true;
        return;
    }
    w->matched = true;
    /* Bytes that are no whole characters: the characters they are part of,
     * or the rest would not be UTF-8. The quotes end both loops. */
    while (is_continuation(w->raw.ptr[start])) {
        start--;
    }
    while (is_continuation(w->raw.ptr[stop])) {
        stop++;
    }
    if (w->reach[start] < stop) {
        w->reach[start] = (uint32_t)stop;
    }
}

static void
mark_text(void *context, size_t first, size_t end)
{
    work *w = context;
    mark(w, &w->text, first, end);
}

static void
mark_derived(void *context, size_t first, size_t end)
{
    work *w = context;
    mark(w, &w->derived, first, end);
}

static bool
search_view(work *w, const ro_view *view, ro_secrets_form form)
{
    ro_slice text = ro_slice_of(view->text, view->len);
    ro_match_fn found = view == &w->text ? mark_text : mark_derived;

    if (!ro_secrets_search(w->rules->secrets, form, text, &w->scratch, found,
                           w)) {
        return false;
    }
    if (w->shapes && form == RO_SECRETS_TEXT) {
        ro_shapes_search(text, found, w);
    }
    return !w->failed;
}

/* The percent-decoded reading of w->text, once or until nothing is left. */
static bool
search_decoded(work *w, bool fully, size_t *decoded_len)
{
    bool changed = false;

    if (!ro_view_percent(&w->text, fully, &w->derived, &changed)) {
        return false;
    }
    if (!changed || w->derived.len == *decoded_len) {
        return true;
    }
    *decoded_len = w->derived.len;
    return search_view(w, &w->derived, RO_SECRETS_TEXT)
           && ro_view_base64(&w->derived, &w->derived)
           && search_view(w, &w->derived, RO_SECRETS_BASE64);
}

static bool
search_string(work *w)
{
    if (!ro_view_of_string(&w->text, w->raw)) {
        return false;
    }
    for (unsigned level = 0; level <= RO_MAX_NESTED_TEXTS; level++) {
        size_t decoded_len = SIZE_MAX;

        if (!search_view(w, &w->text, RO_SECRETS_TEXT)
            || !ro_view_base64(&w->text, &w->derived)
            || !search_view(w, &w->derived, RO_SECRETS_BASE64)) {
            return false;
        }
        if (memchr(w->text.text, '%', w->text.len) != NULL
            && (!search_decoded(w, false, &decoded_len)
                || !search_decoded(w, true, &decoded_len))) {
            return false;
        }
        if (!ro_view_unescape(&w->text)) {
            break;
        }
    }
    return true;
}

static ro_redact_code
of_buf_code(ro_buf_code code)
{
    switch (code) {
    case RO_BUF_OK:
        return RO_REDACT_OK;
    case RO_BUF_TOO_LARGE:
        return RO_REDACT_TOO_LARGE;
    case RO_BUF_NO_MEMORY:
        break;
    }
    return RO_REDACT_NO_MEMORY;
}

/* The raw string with its marked ranges replaced. */
static ro_buf_code
write_marked(work *w)
{
    ro_slice raw = w->raw;
    size_t kept = 0; /* begin of what is not written yet */
    size_t at = 0;
    ro_buf_code code = RO_BUF_OK;

    while (code == RO_BUF_OK && at < raw.len) {
        size_t stop = w->reach[at];
        if (stop == 0) {
            at++;
            continue;
        }
        code = ro_buf_append(w->out, raw.ptr + kept, at - kept);
        for (; at <= stop; at++) {
            stop = w->reach[at] > stop ? w->reach[at] : stop;
        }
        at = kept = stop;
        if (code == RO_BUF_OK) {
            code = ro_buf_append(w->out, RO_REDACTED, sizeof(RO_REDACTED) - 1);
        }
    }
    if (code == RO_BUF_OK) {
        code = ro_buf_append(w->out, raw.ptr + kept, raw.len - kept);
    }
    return code;
}

static ro_redact_code
redact_string(work *w, ro_slice raw, bool is_key)
{
    w->raw = raw;
    w->matched = false;
    w->shapes = w->rules->shapes
                && (w->path_len == 0 || w->path_matched < w->path_len);
    /* Nothing that is searched for is shorter than RO_SHAPE_MIN characters
     * or the eight bytes of a secret; two are quotes. */
    if (raw.len >= 10 && !search_string(w)) {
        return RO_REDACT_NO_MEMORY;
    }
    if (!w->matched) {
        return of_buf_code(ro_buf_append_slice(w->out, raw));
    }
    w->key_changed = w->key_changed || is_key;
    return of_buf_code(write_marked(w));
}

/* ---- the value ---- */

static bool
is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* The byte behind the string that opens at `at`. */
static size_t
string_end(ro_slice value, size_t at)
{
    for (at++; value.ptr[at] != '"'; at++) {
        at += value.ptr[at] == '\\';
    }
    return at + 1;
}

static bool
is_followed_by_colon(ro_slice value, size_t at)
{
    while (at < value.len && is_space(value.ptr[at])) {
        at++;
    }
    return at < value.len && value.ptr[at] == ':';
}

/* A key in a container of that depth: where does the scan stand now? The
 * names before it matched if path_matched reached them; a key of a level
 * that never matched (an array between) cannot. */
static void
follow_path(work *w, size_t depth, ro_slice key)
{
    if (depth > w->path_len || w->path_matched < depth - 1) {
        return;
    }
    w->path_matched = depth - 1;
    if (ro_json_string_is(key, ro_slice_str(w->rules->attested[depth - 1]))) {
        w->path_matched = depth;
    }
}

static ro_redact_code
redact_tokens(work *w, ro_slice value)
{
    ro_redact_code code = RO_REDACT_OK;
    size_t depth = 0;
    size_t kept = 0; /* begin of what is not written yet */
    size_t at = 0;

    while (at < value.len) {
        char c = value.ptr[at];
        size_t end;
        bool is_key;
        if (c != '"') {
            depth += c == '{' || c == '[';
            depth -= c == '}' || c == ']';
            at++;
            continue;
        }
        end = string_end(value, at);
        is_key = is_followed_by_colon(value, end);
        if (is_key) {
            follow_path(w, depth, ro_slice_of(value.ptr + at, end - at));
        }
        code = of_buf_code(ro_buf_append(w->out, value.ptr + kept, at - kept));
        if (code == RO_REDACT_OK) {
            code = redact_string(w, ro_slice_of(value.ptr + at, end - at),
                                 is_key);
        }
        if (code != RO_REDACT_OK) {
            return code;
        }
        at = kept = end;
    }
    return of_buf_code(
        ro_buf_append(w->out, value.ptr + kept, value.len - kept));
}

static ro_redact_code
check_keys(ro_slice written)
{
    ro_json_limits limits = {
        .max_bytes = SIZE_MAX,
        .max_depth = UINT32_MAX,
    };

    switch (ro_json_validate(written, &limits, NULL)) {
    case RO_JSON_OK:
        return RO_REDACT_OK;
    case RO_JSON_NO_MEMORY:
        return RO_REDACT_NO_MEMORY;
    default: /* nothing else can have become of valid JSON */
        return RO_REDACT_KEYS_COLLIDE;
    }
}

ro_redact_code
ro_redact(ro_slice value, const ro_redact_rules *rules, ro_buf *out)
{
    work w = {.rules = rules, .out = out};
    size_t before = out->len;
    ro_redact_code code;

    if (value.len >= UINT32_MAX) {
        return RO_REDACT_TOO_LARGE;
    }
    while (rules->attested != NULL && rules->attested[w.path_len] != NULL) {
        w.path_len++;
    }
    code = redact_tokens(&w, value);
    if (code == RO_REDACT_OK && w.key_changed) {
        code = check_keys(ro_slice_of(out->data + before, out->len - before));
    }
    if (code != RO_REDACT_OK) {
        out->len = before;
    }
    ro_view_free(&w.text);
    ro_view_free(&w.derived);
    ro_secrets_scratch_free(&w.scratch);
    ro_free(w.reach);
    return code;
}
