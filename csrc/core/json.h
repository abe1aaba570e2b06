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

/* Each: id, word, sentence. */
#define RO_JSON_CODES(X)                                                      \
    X(OK, "ok", "The document is strict JSON.")                               \
    X(EMPTY, "empty", "The document is empty.")                               \
    X(TOO_LARGE, "too_large", "The document is larger than its bound.")       \
    X(BOM, "bom", "The document begins with a byte order mark.")              \
    X(TRUNCATED, "truncated", "The document ends inside a value.")            \
    X(SYNTAX, "syntax", "A byte cannot stand where it stands.")               \
    /* NaN and Infinity too */                                                \
    X(NUMBER, "number", "A number is not one of the grammar.")                \
    X(CONTROL, "control", "A string holds a raw control byte.")               \
    X(ESCAPE, "escape", "A string holds an unknown escape.")                  \
    X(SURROGATE, "surrogate", "A string holds half of a surrogate pair.")     \
    /* overlong, a surrogate, over 10FFFF */                                  \
    X(UTF8, "utf8", "A string is not UTF-8.")                                 \
    X(DEPTH, "depth", "Containers are nested deeper than the bound.")         \
    /* after unescaping */                                                    \
    X(DUPLICATE_KEY, "duplicate_key", "An object has the same key twice.")    \
    X(TRAILING, "trailing", "Something stands behind the value.")             \
    /* set by callers that need an object */                                  \
    X(NOT_OBJECT, "not_object", "The value is not an object.")                \
    X(NO_MEMORY, "no_memory", "Out of memory.")

#define X(id, ...) RO_JSON_##id,
typedef enum ro_json_code { RO_JSON_CODES(X) } ro_json_code;
#undef X
#define RO_JSON_CODE_COUNT (RO_JSON_NO_MEMORY + 1)

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

/* Static texts. */
const char *ro_json_code_word(ro_json_code code);
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

/* ---- writing: core/json_write.h on a buffer ---- */

ro_buf_code ro_json_minify(ro_slice value, ro_buf *out);
ro_buf_code ro_json_write_string(ro_buf *out, ro_slice utf8);

#endif
