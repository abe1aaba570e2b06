/* Whatever the bytes are: a verdict with a position inside them. When they
 * pass, every reader and writer agrees with every other. */
#include "core/alloc.h"
#include "core/json.h"
#include "core/json_scan.h"

#include <stdint.h>
#include <stdlib.h>

#define DEPTH 80u

#define REQUIRE(condition)                                                    \
    do {                                                                      \
        if (!(condition)) {                                                   \
            abort();                                                          \
        }                                                                     \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static ro_json_limits
limits_for(size_t size, bool keep_duplicates)
{
    ro_json_limits limits = {size, DEPTH, keep_duplicates};
    return limits;
}

/* Decoded and written again, a string still reads the same. */
static void
check_string(ro_slice raw)
{
    ro_json_limits limits = limits_for(SIZE_MAX, false);
    ro_slice text = {ro_malloc(raw.len), 0};
    ro_buf written;

    REQUIRE(text.ptr != NULL);
    text.len = ro_json_decode(raw, (char *)text.ptr);
    REQUIRE(text.len <= raw.len - 2);
    REQUIRE(ro_json_string_is(raw, text));
    ro_buf_init(&written, 2 + 6 * text.len);
    REQUIRE(ro_json_write_string(&written, text) == RO_BUF_OK);
    REQUIRE(ro_json_validate(ro_buf_slice(&written), &limits, NULL)
            == RO_JSON_OK);
    REQUIRE(ro_json_string_is(ro_buf_slice(&written), text));
    for (size_t i = 0; i < written.len; i++) {
        REQUIRE(written.data[i] >= 0x20);
    }
    ro_buf_free(&written);
    ro_free((char *)text.ptr);
}

static void
check_find(ro_slice object, ro_slice key, ro_slice value)
{
    char *name = ro_calloc(key.len, 1);
    ro_slice last;
    size_t len = 0;

    REQUIRE(name != NULL);
    len = ro_json_decode(key, name);
    if (memchr(name, '\0', len) == NULL) {
        REQUIRE(ro_json_find(object, name, &last) >= 1);
        REQUIRE(last.ptr >= value.ptr);
    }
    ro_free(name);
}

/* One value; what is in it is pushed by the caller. */
static void
check_value(ro_slice value)
{
    REQUIRE(value.len > 0);
    REQUIRE(ro_slice_equal(ro_json_root(value), value));
    if (ro_json_type_of(value) == RO_JSON_STRING) {
        check_string(value);
    }
}

/* Walks by the iterators; whether any object has a key twice. */
static bool
walk(ro_slice root)
{
    struct {
        ro_slice container;
        ro_json_iter iter;
        size_t left;
    } stack[DEPTH + 1];
    size_t depth = 0;
    bool duplicates = false;
    ro_slice value = root;
    ro_slice key;

    for (;;) {
        ro_json_type type = ro_json_type_of(value);
        check_value(value);
        if (type == RO_JSON_OBJECT || type == RO_JSON_ARRAY) {
            REQUIRE(depth < DEPTH);
            stack[depth].container = value;
            stack[depth].iter = ro_json_iter_of(value);
            stack[depth].left = ro_json_count(value);
            depth++;
            if (type == RO_JSON_OBJECT) {
                duplicates |= ro_json_has_duplicate_keys(value) == 1;
            }
        }
        while (depth > 0) {
            ro_slice container = stack[depth - 1].container;
            bool more = false;
            if (ro_json_type_of(container) == RO_JSON_OBJECT) {
                more = ro_json_next_member(&stack[depth - 1].iter, &key,
                                           &value);
                if (more) {
                    check_string(key);
                    check_find(container, key, value);
                }
            }
            else {
                more = ro_json_next_item(&stack[depth - 1].iter, &value);
            }
            REQUIRE(more == (stack[depth - 1].left > 0));
            if (more) {
                stack[depth - 1].left--;
                break;
            }
            depth--;
        }
        if (depth == 0) {
            return duplicates;
        }
    }
}

/* The scanner's tokens are the reader's, without commas and colons. */
static void
check_tokens(ro_slice doc)
{
    ro_json_limits limits = limits_for(doc.len, true);
    ro_json_iter iter = {doc.ptr, doc.ptr + doc.len};
    ro_json_scan scan;
    ro_json_token token;
    ro_slice read;

    ro_json_scan_open(&scan, doc, &limits);
    while (ro_json_scan_next(&scan, &token)) {
        do {
            REQUIRE(ro_json_next_token(&iter, &read));
        } while (*read.ptr == ',' || *read.ptr == ':');
        REQUIRE(read.ptr == token.raw.ptr && read.len == token.raw.len);
        REQUIRE(!token.is_key || *read.ptr == '"');
        if (*read.ptr == '"') {
            REQUIRE(token.escaped
                    == (memchr(read.ptr, '\\', read.len) != NULL));
        }
    }
    REQUIRE(scan.lexer.error.code == RO_JSON_OK);
    REQUIRE(!ro_json_next_token(&iter, &read));
    ro_json_scan_close(&scan);
}

/* Minified: no longer, the same tokens, the same verdict, and a fixed
 * point. */
static void
check_minified(ro_slice doc, ro_json_code verdict)
{
    ro_json_limits limits = limits_for(doc.len, false);
    ro_json_iter before = {doc.ptr, doc.ptr + doc.len};
    ro_json_iter after;
    ro_slice a;
    ro_slice b;
    ro_buf once;
    ro_buf twice;

    ro_buf_init(&once, doc.len);
    ro_buf_init(&twice, doc.len);
    REQUIRE(ro_json_minify(ro_json_root(doc), &once) == RO_BUF_OK);
    REQUIRE(ro_json_validate(ro_buf_slice(&once), &limits, NULL) == verdict);
    REQUIRE(ro_json_minify(ro_buf_slice(&once), &twice) == RO_BUF_OK);
    REQUIRE(ro_slice_equal(ro_buf_slice(&once), ro_buf_slice(&twice)));
    after = (ro_json_iter){once.data, once.data + once.len};
    while (ro_json_next_token(&before, &a)) {
        REQUIRE(ro_json_next_token(&after, &b) && ro_slice_equal(a, b));
    }
    REQUIRE(!ro_json_next_token(&after, &b));
    ro_buf_free(&once);
    ro_buf_free(&twice);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ro_slice doc = {(const char *)data, size};
    ro_json_limits strict = limits_for(size, false);
    ro_json_limits loose = limits_for(size, true);
    ro_json_error strict_error;
    ro_json_error loose_error;

    ro_json_validate(doc, &strict, &strict_error);
    ro_json_validate(doc, &loose, &loose_error);
    REQUIRE(strict_error.pos <= size && loose_error.pos <= size);
    if (strict_error.code != RO_JSON_DUPLICATE_KEY) {
        REQUIRE(strict_error.code == loose_error.code);
        REQUIRE(strict_error.pos == loose_error.pos);
    }
    else {
        REQUIRE(loose_error.code == RO_JSON_OK
                || loose_error.pos > strict_error.pos);
    }
    if (loose_error.code == RO_JSON_OK) {
        REQUIRE(walk(ro_json_root(doc))
                == (strict_error.code == RO_JSON_DUPLICATE_KEY));
        check_tokens(doc);
        check_minified(doc, strict_error.code);
    }
    return 0;
}
