#include "core/json.h"

#include "core/alloc.h"
#include "core/json_keys.h"

/* Containers that need no heap; more than any bound of the product. */
#define FEW_FRAMES 72u
/* A frame is the object's base in the key stack, or this. */
#define ARRAY_FRAME UINT32_MAX

typedef enum state {
    WANT_VALUE,
    WANT_FIRST_ITEM, /* a value or the end of the array */
    WANT_FIRST_KEY,  /* a key or the end of the object */
    WANT_KEY,
    HAVE_VALUE,
} state;

typedef struct scan {
    const char *start;
    const char *ptr;
    const char *end;
    const ro_json_limits *limits;
    uint32_t *frames;
    size_t depth;
    size_t frame_cap;
    ro_json_error error;
    uint32_t few_frames[FEW_FRAMES];
    ro_json_keys keys;
} scan;

static bool
fail(scan *s, ro_json_code code, const char *where)
{
    s->error.code = code;
    s->error.pos = (size_t)(where - s->start);
    return false;
}

/* A wrong byte, or none left. */
static bool
fail_at(scan *s, ro_json_code code, const char *where)
{
    return fail(s, where == s->end ? RO_JSON_TRUNCATED : code, where);
}

static inline void
skip_space(scan *s)
{
    const char *p = s->ptr;
    while (p < s->end
           && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t')) {
        p++;
    }
    s->ptr = p;
}

/* ---- strings ---- */

#define ONES (UINT64_MAX / 255)
#define HIGH (ONES * 0x80)

/* Nonzero when one of eight bytes is not plain: a control, a quote, a
 * backslash or the start of a longer character. */
static inline uint64_t
not_plain(uint64_t word)
{
    uint64_t quote = word ^ (ONES * '"');
    uint64_t slash = word ^ (ONES * '\\');
    return (word | (word - ONES * 0x20) | (quote - ONES) | (slash - ONES))
           & HIGH;
}

static inline bool
is_plain(char c)
{
    unsigned char byte = (unsigned char)c;
    return byte >= 0x20 && byte < 0x80 && byte != '"' && byte != '\\';
}

static inline const char *
skip_plain(const char *p, const char *end)
{
    uint64_t word = 0;
    while (end - p >= 8) {
        memcpy(&word, p, sizeof(word));
        if (not_plain(word)) {
            break;
        }
        p += 8;
    }
    while (p < end && is_plain(*p)) {
        p++;
    }
    return p;
}

/* One character of two bytes or more at s->ptr. */
static bool
scan_utf8(scan *s)
{
    const char *p = s->ptr;
    unsigned char lead = (unsigned char)*p;
    unsigned char low = 0x80;
    unsigned char high = 0xbf;
    int more = 0;

    if (lead < 0xc2 || lead > 0xf4) {
        return fail(s, RO_JSON_UTF8, s->ptr);
    }
    more = lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : 3;
    switch (lead) {
    case 0xe0: /* overlong */
        low = 0xa0;
        break;
    case 0xed: /* surrogates */
        high = 0x9f;
        break;
    case 0xf0: /* overlong */
        low = 0x90;
        break;
    case 0xf4: /* above U+10FFFF */
        high = 0x8f;
        break;
    }
    for (p++; more > 0; p++, more--) {
        if (p == s->end) {
            return fail(s, RO_JSON_TRUNCATED, p);
        }
        if ((unsigned char)*p < low || (unsigned char)*p > high) {
            return fail(s, RO_JSON_UTF8, s->ptr);
        }
        low = 0x80;
        high = 0xbf;
    }
    s->ptr = p;
    return true;
}

/* Four hexadecimal digits at s->ptr. */
static bool
scan_hex4(scan *s, unsigned *value)
{
    *value = 0;
    for (int i = 0; i < 4; i++, s->ptr++) {
        unsigned char c = s->ptr < s->end ? (unsigned char)*s->ptr : 0;
        unsigned digit = c >= '0' && c <= '9'   ? c - '0' + 0u
                         : c >= 'a' && c <= 'f' ? c - 'a' + 10u
                         : c >= 'A' && c <= 'F' ? c - 'A' + 10u
                                                : 16u;
        if (digit == 16) {
            return fail_at(s, RO_JSON_ESCAPE, s->ptr);
        }
        *value = *value << 4 | digit;
    }
    return true;
}

/* The backslash is at s->ptr. */
static bool
scan_escape(scan *s)
{
    const char *slash = s->ptr++;
    unsigned unit = 0;

    if (s->ptr == s->end || *s->ptr == '\0'
        || strchr("\"\\/bfnrtu", *s->ptr) == NULL) {
        return fail_at(s, RO_JSON_ESCAPE, s->ptr);
    }
    if (*s->ptr++ != 'u') {
        return true;
    }
    if (!scan_hex4(s, &unit)) {
        return false;
    }
    if (unit < 0xd800 || unit > 0xdfff) {
        return true;
    }
    if (unit > 0xdbff) {
        return fail(s, RO_JSON_SURROGATE, slash);
    }
    for (const char *want = "\\u"; *want != '\0'; want++, s->ptr++) {
        if (s->ptr == s->end) {
            return fail(s, RO_JSON_TRUNCATED, s->ptr);
        }
        if (*s->ptr != *want) {
            return fail(s, RO_JSON_SURROGATE, slash);
        }
    }
    if (!scan_hex4(s, &unit)) {
        return false;
    }
    if (unit < 0xdc00 || unit > 0xdfff) {
        return fail(s, RO_JSON_SURROGATE, slash);
    }
    return true;
}

/* The opening quote is at s->ptr. */
static bool
scan_string(scan *s, bool *escaped)
{
    s->ptr++;
    for (;;) {
        unsigned char c = 0;
        s->ptr = skip_plain(s->ptr, s->end);
        if (s->ptr == s->end) {
            return fail(s, RO_JSON_TRUNCATED, s->ptr);
        }
        c = (unsigned char)*s->ptr;
        if (c == '"') {
            s->ptr++;
            return true;
        }
        if (c < 0x20) {
            return fail(s, RO_JSON_CONTROL, s->ptr);
        }
        if (c == '\\') {
            *escaped = true;
            if (!scan_escape(s)) {
                return false;
            }
        }
        else {
            do {
                if (!scan_utf8(s)) {
                    return false;
                }
            } while (s->ptr < s->end && (unsigned char)*s->ptr >= 0x80);
        }
    }
}

/* ---- numbers and literals ---- */

static inline bool
is_digit(const char *p, const char *end)
{
    return p < end && *p >= '0' && *p <= '9';
}

/* At least one digit at s->ptr. */
static bool
scan_digits(scan *s)
{
    if (!is_digit(s->ptr, s->end)) {
        return fail_at(s, RO_JSON_NUMBER, s->ptr);
    }
    while (is_digit(s->ptr, s->end)) {
        s->ptr++;
    }
    return true;
}

static bool
scan_number(scan *s)
{
    if (*s->ptr == '-') {
        s->ptr++;
    }
    if (s->ptr < s->end && *s->ptr == '0') {
        s->ptr++;
        if (is_digit(s->ptr, s->end)) {
            return fail(s, RO_JSON_NUMBER, s->ptr);
        }
    }
    else if (!scan_digits(s)) {
        return false;
    }
    if (s->ptr < s->end && *s->ptr == '.') {
        s->ptr++;
        if (!scan_digits(s)) {
            return false;
        }
    }
    if (s->ptr < s->end && (*s->ptr == 'e' || *s->ptr == 'E')) {
        s->ptr++;
        if (s->ptr < s->end && (*s->ptr == '+' || *s->ptr == '-')) {
            s->ptr++;
        }
        return scan_digits(s);
    }
    return true;
}

static bool
scan_literal(scan *s, const char *text)
{
    for (; *text != '\0'; text++, s->ptr++) {
        if (s->ptr == s->end || *s->ptr != *text) {
            return fail_at(s, RO_JSON_SYNTAX, s->ptr);
        }
    }
    return true;
}

static bool
begins(const scan *s, const char *text)
{
    size_t len = strlen(text);
    return (size_t)(s->end - s->ptr) >= len && memcmp(s->ptr, text, len) == 0;
}

/* A byte that begins no value; what looks like a number is called one. */
static bool
fail_value(scan *s)
{
    bool number = *s->ptr == '+' || *s->ptr == '.' || begins(s, "NaN")
                  || begins(s, "Infinity");
    return fail(s, number ? RO_JSON_NUMBER : RO_JSON_SYNTAX, s->ptr);
}

/* ---- structure ---- */

static bool
grow_frames(scan *s)
{
    uint32_t *old = s->frames == s->few_frames ? NULL : s->frames;
    size_t cap = s->frame_cap * 2;
    uint32_t *frames = ro_realloc(old, cap * sizeof(*frames));

    if (frames == NULL) {
        return fail(s, RO_JSON_NO_MEMORY, s->ptr);
    }
    if (old == NULL) {
        memcpy(frames, s->few_frames, sizeof(s->few_frames));
    }
    s->frames = frames;
    s->frame_cap = cap;
    return true;
}

static bool
open_container(scan *s, uint32_t frame)
{
    if (s->depth >= s->limits->max_depth) {
        return fail(s, RO_JSON_DEPTH, s->ptr);
    }
    if (s->depth == s->frame_cap && !grow_frames(s)) {
        return false;
    }
    s->frames[s->depth++] = frame;
    s->ptr++;
    return true;
}

static void
close_container(scan *s)
{
    uint32_t frame = s->frames[--s->depth];
    if (frame != ARRAY_FRAME && !s->limits->keep_duplicates) {
        ro_json_keys_drop(&s->keys, frame);
    }
    s->ptr++;
}

static bool
scan_value(scan *s, state *next)
{
    bool escaped = false;

    *next = HAVE_VALUE;
    switch (*s->ptr) {
    case '{':
        *next = WANT_FIRST_KEY;
        return open_container(
            s, s->limits->keep_duplicates ? 0 : s->keys.count);
    case '[':
        *next = WANT_FIRST_ITEM;
        return open_container(s, ARRAY_FRAME);
    case '"':
        return scan_string(s, &escaped);
    case 't':
        return scan_literal(s, "true");
    case 'f':
        return scan_literal(s, "false");
    case 'n':
        return scan_literal(s, "null");
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
        return scan_number(s);
    default:
        return fail_value(s);
    }
}

static bool
scan_key(scan *s)
{
    const char *key = s->ptr;
    bool escaped = false;

    if (*key != '"') {
        return fail(s, RO_JSON_SYNTAX, key);
    }
    if (!scan_string(s, &escaped)) {
        return false;
    }
    if (!s->limits->keep_duplicates) {
        ro_json_code code = ro_json_keys_add(
            &s->keys, s->frames[s->depth - 1],
            ro_slice_of(key, (size_t)(s->ptr - key)), escaped);
        if (code != RO_JSON_OK) {
            return fail(s, code, key);
        }
    }
    skip_space(s);
    if (s->ptr == s->end || *s->ptr != ':') {
        return fail_at(s, RO_JSON_SYNTAX, s->ptr);
    }
    s->ptr++;
    return true;
}

/* Behind a value inside a container. */
static bool
scan_behind(scan *s, state *next)
{
    bool array = s->frames[s->depth - 1] == ARRAY_FRAME;

    if (*s->ptr == ',') {
        s->ptr++;
        *next = array ? WANT_VALUE : WANT_KEY;
        return true;
    }
    if (*s->ptr != (array ? ']' : '}')) {
        return fail(s, RO_JSON_SYNTAX, s->ptr);
    }
    close_container(s);
    *next = HAVE_VALUE;
    return true;
}

static bool
step(scan *s, state *now)
{
    switch (*now) {
    case WANT_FIRST_ITEM:
        if (*s->ptr == ']') {
            close_container(s);
            *now = HAVE_VALUE;
            return true;
        }
        return scan_value(s, now);
    case WANT_VALUE:
        return scan_value(s, now);
    case WANT_FIRST_KEY:
        if (*s->ptr == '}') {
            close_container(s);
            *now = HAVE_VALUE;
            return true;
        }
        *now = WANT_VALUE;
        return scan_key(s);
    case WANT_KEY:
        *now = WANT_VALUE;
        return scan_key(s);
    case HAVE_VALUE:
        return scan_behind(s, now);
    }
    return false;
}

static void
scan_document(scan *s)
{
    state now = WANT_VALUE;

    skip_space(s);
    if (s->ptr == s->end) {
        fail(s, RO_JSON_EMPTY, s->ptr);
        return;
    }
    while (now != HAVE_VALUE || s->depth > 0) {
        if (s->ptr == s->end) {
            fail(s, RO_JSON_TRUNCATED, s->ptr);
            return;
        }
        if (!step(s, &now)) {
            return;
        }
        skip_space(s);
    }
    if (s->ptr != s->end) {
        fail(s, RO_JSON_TRAILING, s->ptr);
    }
}

static void
scan_bounded(ro_slice doc, const ro_json_limits *limits,
             ro_json_error *error)
{
    scan s;

    s.start = s.ptr = doc.ptr;
    s.end = doc.ptr + doc.len;
    s.limits = limits;
    s.frames = s.few_frames;
    s.depth = 0;
    s.frame_cap = FEW_FRAMES;
    s.error = (ro_json_error){.code = RO_JSON_OK};
    if (!limits->keep_duplicates) {
        ro_json_keys_init(&s.keys, doc);
    }
    scan_document(&s);
    if (!limits->keep_duplicates) {
        ro_json_keys_free(&s.keys);
    }
    if (s.frames != s.few_frames) {
        ro_free(s.frames);
    }
    *error = s.error;
}

ro_json_code
ro_json_validate(ro_slice doc, const ro_json_limits *limits,
                 ro_json_error *error)
{
    ro_json_error found = {.code = RO_JSON_OK};
    size_t most = limits->max_bytes;

    if (!limits->keep_duplicates && most > RO_JSON_KEYS_MAX_DOC) {
        most = RO_JSON_KEYS_MAX_DOC;
    }
    if (doc.len > most) {
        found = (ro_json_error){RO_JSON_TOO_LARGE, most};
    }
    else if (doc.len == 0) {
        found.code = RO_JSON_EMPTY;
    }
    else if (doc.len >= 3 && memcmp(doc.ptr, "\xef\xbb\xbf", 3) == 0) {
        found.code = RO_JSON_BOM;
    }
    else {
        scan_bounded(doc, limits, &found);
    }
    if (error != NULL) {
        *error = found;
    }
    return found.code;
}

const char *
ro_json_code_text(ro_json_code code)
{
    switch (code) {
    case RO_JSON_OK:
        return "The document is strict JSON.";
    case RO_JSON_EMPTY:
        return "The document is empty.";
    case RO_JSON_TOO_LARGE:
        return "The document is larger than its bound.";
    case RO_JSON_BOM:
        return "The document begins with a byte order mark.";
    case RO_JSON_TRUNCATED:
        return "The document ends inside a value.";
    case RO_JSON_SYNTAX:
        return "A byte cannot stand where it stands.";
    case RO_JSON_NUMBER:
        return "A number is not one of the grammar.";
    case RO_JSON_CONTROL:
        return "A string holds a raw control byte.";
    case RO_JSON_ESCAPE:
        return "A string holds an unknown escape.";
    case RO_JSON_SURROGATE:
        return "A string holds half of a surrogate pair.";
    case RO_JSON_UTF8:
        return "A string is not UTF-8.";
    case RO_JSON_DEPTH:
        return "Containers are nested deeper than the bound.";
    case RO_JSON_DUPLICATE_KEY:
        return "An object has the same key twice.";
    case RO_JSON_TRAILING:
        return "Something stands behind the value.";
    case RO_JSON_NOT_OBJECT:
        return "The value is not an object.";
    case RO_JSON_NO_MEMORY:
        return "Out of memory.";
    }
    return "Unknown code.";
}
