#include "core/redact.h"

#include "core/alloc.h"
#include "core/json.h"
#include "core/json_write.h"
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
    ro_writer to;
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

/* ---- one string ----
 *
 * A string is searched in many readings before a byte of it is written, and
 * what they find overlaps in any way. So a match only leaves a mark where its
 * source begins, and write_marked joins the marks in one pass.
 */

static bool
ready_reach(work *w)
{
    if (w->reach_cap < w->raw.len) {
        ro_free(w->reach);
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
    /* A match may begin or end inside a character, because base64 is matched
     * by bytes. The whole character goes, or the rest would not be UTF-8. The
     * quotes end both loops. */
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

/* The percent-decoded reading of w->text, once or until nothing is left. Both
 * are needed: a secret may hold a percent sign of its own. A reading of the
 * length of the last one is the same reading and is not searched again. */
static bool
search_decoded(work *w, bool fully, size_t *decoded_len)
{
    bool changed;

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
        /* A text that has escapes may itself be the text of JSON. */
        if (!ro_view_unescape(&w->text)) {
            break;
        }
    }
    return true;
}

static void
put_span(work *w, const char *from, const char *until)
{
    ro_write_span(&w->to, ro_slice_of(from, (size_t)(until - from)));
}

/* The raw string with its marked ranges replaced. */
static void
write_marked(work *w)
{
    ro_slice raw = w->raw;
    size_t kept = 0; /* begin of what is not written yet */
    size_t at = 0;

    while (at < raw.len) {
        size_t stop = w->reach[at];
        if (stop == 0) {
            at++;
            continue;
        }
        put_span(w, raw.ptr + kept, raw.ptr + at);
        /* A mark inside the range, or right behind it, makes it longer. */
        for (; at <= stop; at++) {
            stop = w->reach[at] > stop ? w->reach[at] : stop;
        }
        at = kept = stop;
        ro_write_span(&w->to, ro_slice_str(RO_REDACTED));
    }
    put_span(w, raw.ptr + kept, raw.ptr + raw.len);
}

/* False: out of memory for the search. */
static bool
redact_string(work *w, ro_slice raw, bool is_key)
{
    w->raw = raw;
    w->matched = false;
    /* Below the whole attested path nothing is a shape. */
    w->shapes = w->rules->shapes
                && (w->path_len == 0 || w->path_matched < w->path_len);
    /* Nothing that is searched for is shorter than RO_SHAPE_MIN characters
     * or the eight bytes of a secret; two are quotes. */
    if (raw.len >= 10 && !search_string(w)) {
        return false;
    }
    if (!w->matched) {
        ro_write_span(&w->to, raw);
        return true;
    }
    w->key_changed = w->key_changed || is_key;
    write_marked(w);
    return true;
}

/* ---- the value ---- */

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
    ro_json_iter iter = {value.ptr, value.ptr + value.len};
    const char *kept = value.ptr; /* begin of what is not written yet */
    size_t depth = 0;
    ro_slice token;
    ro_slice after;

    while (w->to.code == RO_BUF_OK && ro_json_next_token(&iter, &token)) {
        char c = *token.ptr;
        depth += c == '{' || c == '[';
        depth -= c == '}' || c == ']';
        if (c != '"') {
            continue;
        }
        ro_json_iter rest = iter;
        bool is_key = ro_json_next_token(&rest, &after) && *after.ptr == ':';
        if (is_key) {
            follow_path(w, depth, token);
        }
        put_span(w, kept, token.ptr);
        kept = iter.ptr;
        if (!redact_string(w, token, is_key)) {
            return RO_REDACT_NO_MEMORY;
        }
    }
    put_span(w, kept, value.ptr + value.len);
    return w->to.code == RO_BUF_OK          ? RO_REDACT_OK
           : w->to.code == RO_BUF_TOO_LARGE ? RO_REDACT_TOO_LARGE
                                            : RO_REDACT_NO_MEMORY;
}

/* Two keys that became equal would leave it to the reader which value counts.
 * The value passed this very scan before, so only duplicates can be found. */
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
    work w = {.rules = rules, .to = ro_writer_of(out)};
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
