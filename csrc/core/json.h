/* Strict JSON (RFC 8259, UTF-8) without a tree.
 *
 * ro_json_validate looks at every byte once: grammar, UTF-8, surrogates,
 * depth, size, duplicate keys after unescaping. Everything else in this
 * header reads slices of a document that has passed, so it cannot fail on
 * grammar and does not check it again. Nothing recurses; nothing keeps a
 * pointer past its call except where it says so. Thread safe: no state.
 */
#ifndef RO_CORE_JSON_H
#define RO_CORE_JSON_H

#include "core/buf.h"
#include "core/slice.h"

typedef enum ro_json_code {
    RO_JSON_OK = 0,
    RO_JSON_EMPTY,         /* nothing but white space */
    RO_JSON_TOO_LARGE,     /* more than max_bytes */
    RO_JSON_BOM,           /* begins with U+FEFF */
    RO_JSON_TRUNCATED,     /* ends inside a value */
    RO_JSON_SYNTAX,        /* a byte that cannot stand here */
    RO_JSON_NUMBER,        /* not a number of the grammar, NaN, Infinity */
    RO_JSON_CONTROL,       /* a raw byte below 0x20 inside a string */
    RO_JSON_ESCAPE,        /* not an escape of the grammar */
    RO_JSON_SURROGATE,     /* half of a surrogate pair */
    RO_JSON_UTF8,          /* not UTF-8 (overlong, surrogate, > 10FFFF) */
    RO_JSON_DEPTH,         /* deeper than max_depth */
    RO_JSON_DUPLICATE_KEY, /* a key twice in one object, after unescaping */
    RO_JSON_TRAILING,      /* something behind the value */
    RO_JSON_NOT_OBJECT,    /* set by callers that need an object */
    RO_JSON_NO_MEMORY,
} ro_json_code;

typedef struct ro_json_limits {
    size_t max_bytes;
    unsigned max_depth;   /* the outermost container is 1 */
    bool keep_duplicates; /* do not look for duplicate keys */
} ro_json_limits;

typedef struct ro_json_error {
    ro_json_code code;
    size_t pos; /* byte offset of the first byte that is wrong; of the
                   second key for a duplicate, the backslash for half a
                   pair, the first byte of what is not UTF-8, the bracket
                   too deep; length when empty or truncated */
} ro_json_error;

/* Returns error->code; error may be NULL. Unless duplicates are kept, no
 * document over 4 GiB passes, whatever max_bytes says. Memory: none for
 * small documents, else 14 bytes per key of the objects that are open
 * together and 4 per level beyond 72. */
ro_json_code ro_json_validate(ro_slice doc, const ro_json_limits *limits,
                              ro_json_error *error);

/* One static sentence per code. */
const char *ro_json_code_text(ro_json_code code);

/* ---- reading what has passed ---- */

typedef enum ro_json_type {
    RO_JSON_NULL,
    RO_JSON_FALSE,
    RO_JSON_TRUE,
    RO_JSON_NUMBER_VALUE,
    RO_JSON_STRING,
    RO_JSON_ARRAY,
    RO_JSON_OBJECT,
} ro_json_type;

/* The document without the white space around it. */
ro_slice ro_json_root(ro_slice doc);
/* value is exactly one value, no white space around it (as returned by
 * ro_json_root and the iterators). */
ro_json_type ro_json_type_of(ro_slice value);

typedef struct ro_json_iter {
    const char *ptr;
    const char *end;
} ro_json_iter;

ro_json_iter ro_json_iter_of(ro_slice container);
/* key is the raw string with its quotes. False at the end. */
bool ro_json_next_member(ro_json_iter *iter, ro_slice *key, ro_slice *value);
bool ro_json_next_item(ro_json_iter *iter, ro_slice *value);

/* The tokens from iter->ptr to iter->end, white space passed over: one of
 * the bytes { } [ ] : , or a string with its quotes, a number, a literal. */
bool ro_json_next_token(ro_json_iter *iter, ro_slice *token);

/* Whether the raw string (with quotes) reads as text after unescaping. */
bool ro_json_string_is(ro_slice raw, ro_slice text);
/* Members of that name, exact case, after unescaping; value gets the last.
 * value may be NULL. 0 leaves *value alone. */
size_t ro_json_find(ro_slice object, const char *name, ro_slice *value);
/* The keys of this one object (not of what is inside it).
 * 1 has duplicates, 0 has none, -1 out of memory. */
int ro_json_has_duplicate_keys(ro_slice object);
/* Unescape a raw string into out (room for raw.len bytes); bytes written.
 * May contain NUL bytes. */
size_t ro_json_decode(ro_slice raw, char *out);
/* Number of values in an array or members in an object. */
size_t ro_json_count(ro_slice container);

/* ---- writing ---- */

/* On failure both leave out as it was. */

/* The value, token for token, white space between tokens removed. */
ro_buf_code ro_json_minify(ro_slice value, ro_buf *out);
/* A quoted JSON string of valid UTF-8: ASCII only, lower-case \uxxxx
 * (surrogate pairs above U+FFFF), short escapes for \" \\ \b \f \n \r \t. */
ro_buf_code ro_json_write_string(ro_buf *out, ro_slice utf8);

#endif
