#include "core/json_scan.h"

#include "core/alloc.h"
#include "core/table.h"

/* A frame is the object's base in the key stack, or this. The scanner keeps
 * its own stack, so that depth costs four bytes a level and no recursion. */
#define ARRAY_FRAME UINT32_MAX

enum {
    WANT_VALUE,
    WANT_FIRST_ITEM, /* a value or the end of the array */
    WANT_FIRST_KEY,  /* a key or the end of the object */
    WANT_KEY,
    HAVE_VALUE,
    STOPPED,
};

static bool
grow_frames(ro_json_scan *s)
{
    uint32_t *old = s->frames == s->few_frames ? NULL : s->frames;
    size_t cap = s->frame_cap * 2;
    uint32_t *frames = ro_realloc(old, cap * sizeof(*frames));

    if (frames == NULL) {
        return ro_json_lex_fail(&s->lexer, RO_JSON_NO_MEMORY, s->lexer.ptr);
    }
    if (old == NULL) {
        memcpy(frames, s->few_frames, sizeof(s->few_frames));
    }
    s->frames = frames;
    s->frame_cap = cap;
    return true;
}

static bool
open_container(ro_json_scan *s, uint32_t frame, int next)
{
    if (s->depth >= s->limits.max_depth) {
        return ro_json_lex_fail(&s->lexer, RO_JSON_DEPTH, s->lexer.ptr);
    }
    if (s->depth == s->frame_cap && !grow_frames(s)) {
        return false;
    }
    s->frames[s->depth++] = frame;
    s->lexer.ptr++;
    s->state = next;
    return true;
}

static bool
close_container(ro_json_scan *s)
{
    uint32_t frame = s->frames[--s->depth];
    if (frame != ARRAY_FRAME && s->tracks_keys) {
        ro_json_keys_drop(&s->keys, frame);
    }
    s->lexer.ptr++;
    s->state = HAVE_VALUE;
    return true;
}

static bool
scan_value(ro_json_scan *s, ro_json_token *token)
{
    s->state = HAVE_VALUE;
    switch (*s->lexer.ptr) {
    case '{':
        return open_container(s, s->tracks_keys ? s->keys.count : 0,
                              WANT_FIRST_KEY);
    case '[':
        return open_container(s, ARRAY_FRAME, WANT_FIRST_ITEM);
    case '"':
        return ro_json_lex_string(&s->lexer, &token->escaped);
    case 't':
        return ro_json_lex_literal(&s->lexer, "true");
    case 'f':
        return ro_json_lex_literal(&s->lexer, "false");
    case 'n':
        return ro_json_lex_literal(&s->lexer, "null");
    case '-':
    case '0':
    case '1':
    case '2':
    case '3':
    case '4':
    case '5':
    case '6':
    case '7':
    case '8':
    case '9':
        return ro_json_lex_number(&s->lexer, &token->integer);
    default:
        return ro_json_lex_refuse(&s->lexer);
    }
}

static bool
scan_key(ro_json_scan *s, ro_json_token *token)
{
    const char *key = s->lexer.ptr;

    if (*key != '"') {
        return ro_json_lex_fail(&s->lexer, RO_JSON_SYNTAX, key);
    }
    if (!ro_json_lex_string(&s->lexer, &token->escaped)) {
        return false;
    }
    if (s->tracks_keys) {
        ro_json_code code = ro_json_keys_add(
            &s->keys, s->frames[s->depth - 1],
            ro_slice_of(key, (size_t)(s->lexer.ptr - key)), token->escaped);
        if (code != RO_JSON_OK) {
            return ro_json_lex_fail(&s->lexer, code, key);
        }
    }
    token->is_key = true;
    s->state = WANT_VALUE;
    return true;
}

/* The colon between a key and its value. */
static bool
pass_colon(ro_json_scan *s)
{
    ro_json_lex_space(&s->lexer);
    if (s->lexer.ptr == s->lexer.end || *s->lexer.ptr != ':') {
        return ro_json_lex_fail_at(&s->lexer, RO_JSON_SYNTAX, s->lexer.ptr);
    }
    s->lexer.ptr++;
    return true;
}

/* A comma, or a bracket that closes, behind a value in a container. Sets
 * *closed for the latter. */
static bool
scan_behind(ro_json_scan *s, bool *closed)
{
    bool array = s->frames[s->depth - 1] == ARRAY_FRAME;

    if (*s->lexer.ptr == ',') {
        s->lexer.ptr++;
        s->state = array ? WANT_VALUE : WANT_KEY;
        return true;
    }
    if (*s->lexer.ptr != (array ? ']' : '}')) {
        return ro_json_lex_fail(&s->lexer, RO_JSON_SYNTAX, s->lexer.ptr);
    }
    *closed = true;
    return close_container(s);
}

/* A value, a key or a bracket at a byte that is no white space. */
static bool
scan_token(ro_json_scan *s, ro_json_token *token)
{
    switch (s->state) {
    case WANT_FIRST_ITEM:
        return *s->lexer.ptr == ']' ? close_container(s)
                                    : scan_value(s, token);
    case WANT_FIRST_KEY:
        return *s->lexer.ptr == '}' ? close_container(s) : scan_key(s, token);
    case WANT_KEY:
        return scan_key(s, token);
    default:
        return scan_value(s, token);
    }
}

static bool
stop(ro_json_scan *s)
{
    s->state = STOPPED;
    return false;
}

/* Behind the outermost value. */
static bool
scan_end(ro_json_scan *s)
{
    ro_json_lex_space(&s->lexer);
    if (s->lexer.ptr != s->lexer.end) {
        ro_json_lex_fail(&s->lexer, RO_JSON_TRAILING, s->lexer.ptr);
    }
    return stop(s);
}

bool
ro_json_scan_next(ro_json_scan *s, ro_json_token *token)
{
    const char *start = NULL;
    bool found = false;

    if (s->state == STOPPED) {
        return false;
    }
    if (s->state == HAVE_VALUE && s->depth == 0) {
        return scan_end(s);
    }
    *token = (ro_json_token){.is_key = false};
    while (!found) {
        ro_json_lex_space(&s->lexer);
        start = s->lexer.ptr;
        if (start == s->lexer.end) {
            ro_json_lex_fail(&s->lexer, RO_JSON_TRUNCATED, start);
            return stop(s);
        }
        if (s->state != HAVE_VALUE) {
            found = scan_token(s, token);
            if (!found) {
                return stop(s);
            }
        }
        else if (!scan_behind(s, &found)) {
            return stop(s);
        }
    }
    token->raw = ro_slice_of(start, (size_t)(s->lexer.ptr - start));
    return !token->is_key || pass_colon(s) || stop(s);
}

/* Faults that show before the first token. The length comes first: what is too
 * large is not looked at. */
static ro_json_error
first_error(ro_slice doc, const ro_json_limits *limits)
{
    size_t most = limits->max_bytes;

    if (!limits->keep_duplicates && most > RO_JSON_KEYS_MAX_DOC) {
        most = RO_JSON_KEYS_MAX_DOC;
    }
    if (doc.len > most) {
        return (ro_json_error){RO_JSON_TOO_LARGE, most};
    }
    if (ro_json_root(doc).len == 0) {
        return (ro_json_error){RO_JSON_EMPTY, doc.len};
    }
    if (doc.len >= 3 && memcmp(doc.ptr, "\xef\xbb\xbf", 3) == 0) {
        return (ro_json_error){RO_JSON_BOM, 0};
    }
    return (ro_json_error){RO_JSON_OK, 0};
}

void
ro_json_scan_open(ro_json_scan *s, ro_slice doc, const ro_json_limits *limits)
{
    s->lexer.start = s->lexer.ptr = doc.ptr;
    s->lexer.end = doc.len > 0 ? doc.ptr + doc.len : doc.ptr;
    s->lexer.error = first_error(doc, limits);
    s->limits = *limits;
    s->state = s->lexer.error.code == RO_JSON_OK ? WANT_VALUE : STOPPED;
    s->tracks_keys = s->state != STOPPED && !limits->keep_duplicates;
    s->frames = s->few_frames;
    s->depth = 0;
    s->frame_cap = RO_JSON_FEW_FRAMES;
    if (s->tracks_keys) {
        ro_json_keys_init(&s->keys, doc);
    }
}

void
ro_json_scan_close(ro_json_scan *s)
{
    if (s->tracks_keys) {
        ro_json_keys_free(&s->keys);
    }
    if (s->frames != s->few_frames) {
        ro_free(s->frames);
    }
    s->tracks_keys = false;
    s->frames = s->few_frames;
    s->state = STOPPED;
}

ro_json_code
ro_json_validate(ro_slice doc, const ro_json_limits *limits,
                 ro_json_error *error)
{
    ro_json_scan scan;
    ro_json_token token;
    ro_json_code code = RO_JSON_OK;

    ro_json_scan_open(&scan, doc, limits);
    while (ro_json_scan_next(&scan, &token)) {
    }
    code = scan.lexer.error.code;
    if (error != NULL) {
        *error = scan.lexer.error;
    }
    ro_json_scan_close(&scan);
    return code;
}

#define X(id, word, text) {word, text},
static const struct {
    const char *word;
    const char *text;
} codes[] = {RO_JSON_CODES(X)};
#undef X

static size_t
row_of(ro_json_code code)
{
    return ro_row((unsigned)code, RO_JSON_CODE_COUNT, RO_JSON_SYNTAX);
}

const char *
ro_json_code_word(ro_json_code code)
{
    return codes[row_of(code)].word;
}

const char *
ro_json_code_text(ro_json_code code)
{
    return codes[row_of(code)].text;
}
