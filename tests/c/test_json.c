/* The strict JSON scanner: every fault at its byte, every bound from both
 * sides, every allocation failed in turn; then the readers and writers. */
#include "core/alloc.h"
#include "core/json.h"
#include "core/json_write.h"
#include "core/json_lex.h"
#include "core/json_scan.h"
#include "core/limits.h"

#include "check.h"

static const ro_json_limits product = {RO_MAX_STDIN, RO_MAX_DEPTH, false};

typedef struct sample {
    const char *doc;
    ro_json_code code;
    size_t pos;
} sample;

/* No token comes with an error or after one, and the first error stays. */
static void
check_last(ro_slice doc, const sample *want)
{
    ro_json_scan scan;
    ro_json_token token;
    ro_json_scan_open(&scan, doc, &product);
    while (ro_json_scan_next(&scan, &token)) {
        CHECK(scan.lexer.error.code == RO_JSON_OK);
    }
    CHECK(!ro_json_scan_next(&scan, &token));
    CHECK(scan.lexer.error.code == want->code);
    CHECK(scan.lexer.error.pos == want->pos);
    ro_json_scan_close(&scan);
}

static void
check_samples(const sample *samples, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const sample *want = &samples[i];
        /* An exact copy, so that a sanitizer sees a read behind it. */
        size_t len = strlen(want->doc);
        char *doc = malloc(len ? len : 1);
        ro_json_error got = {RO_JSON_OK, 0};
        if (doc == NULL) {
            abort();
        }
        memcpy(doc, want->doc, len);
        ro_json_validate(ro_slice_of(doc, len), &product, &got);
        CHECK(got.code == want->code && got.pos == want->pos);
        if (got.code != want->code || got.pos != want->pos) {
            fprintf(stderr, "  %s: %d at %zu\n", want->doc, (int)got.code,
                    got.pos);
        }
        check_last(ro_slice_of(doc, len), want);
        free(doc);
    }
}

#define CHECK_SAMPLES(samples)                                                \
    check_samples(samples, sizeof(samples) / sizeof(*(samples)))

static void
test_accept(void)
{
    static const sample samples[] = {
        {"null", RO_JSON_OK, 0},
        {"true", RO_JSON_OK, 0},
        {"false", RO_JSON_OK, 0},
        {"0", RO_JSON_OK, 0},
        {"-0", RO_JSON_OK, 0},
        {"-0.0e-0", RO_JSON_OK, 0},
        {"10.01E+400", RO_JSON_OK, 0},
        {"12345678901234567890123", RO_JSON_OK, 0},
        {"\"\"", RO_JSON_OK, 0},
        {" \t\r\n[ ] \t\r\n", RO_JSON_OK, 0},
        {"{}", RO_JSON_OK, 0},
        {"{ \"a\" : [ 1 , { } , \"b\" ] , \"\" : null }", RO_JSON_OK, 0},
        {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0000\\uFfFf\"", RO_JSON_OK, 0},
        {"\"\\u0123\\u4567\\u89ab\\ucdef\\uABCD\\uEF09\"", RO_JSON_OK, 0},
        {"\"\\ud83d\\uDE00\\udbff\\udfff\"", RO_JSON_OK, 0},
        {"\"\\ud800\\udc00 \\ud7ff \\ue000\"", RO_JSON_OK, 0},
        {"\"\x7f \xc2\x80 \xdf\xbf \xe0\xa0\x80 \xed\x9f\xbf\"", RO_JSON_OK,
         0},
        {"\"\xee\x80\x80 \xef\xbf\xbf \xf0\x90\x80\x80\"", RO_JSON_OK, 0},
        {"\"\xf4\x8f\xbf\xbf \xef\xbb\xbf\"", RO_JSON_OK, 0},
        {"{\"a\":{\"a\":{\"a\":1}},\"b\":{\"a\":1}}", RO_JSON_OK, 0},
        {"[{\"a\":1},{\"a\":1}]", RO_JSON_OK, 0},
        {"{\"a\":1,\"A\":2,\"\\u00e1\":3,\"a\\u0000\":4}", RO_JSON_OK, 0},
    };
    CHECK_SAMPLES(samples);
}

/* A fraction or an exponent makes a number no integer. */
static void
test_integers(void)
{
    static const struct {
        const char *text;
        bool integer;
    } rows[]
        = {{"0", true},      {"-12", true},    {"1.0", false},  {"1e5", false},
           {"1E400", false}, {"-0e-0", false}, {"1.5e1", false}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *text = rows[i].text;
        ro_json_lexer lexer
            = {.start = text, .ptr = text, .end = text + strlen(text)};
        bool integer = !rows[i].integer;
        CHECK(ro_json_lex_number(&lexer, &integer));
        CHECK(integer == rows[i].integer && lexer.ptr == lexer.end);
    }
}

static void
test_structure(void)
{
    static const sample samples[] = {
        {"", RO_JSON_EMPTY, 0},
        {" \n\t", RO_JSON_EMPTY, 3},
        {"\xef\xbb\xbf{}", RO_JSON_BOM, 0},
        {"\xef\xbb\xbf", RO_JSON_BOM, 0},
        {"\xef\xbb", RO_JSON_SYNTAX, 0},
        {"\xef\xbb\xbe{}", RO_JSON_SYNTAX, 0},
        {"{", RO_JSON_TRUNCATED, 1},
        {"[1,", RO_JSON_TRUNCATED, 3},
        {"[1 ", RO_JSON_TRUNCATED, 3},
        {"{\"a\"", RO_JSON_TRUNCATED, 4},
        {"{\"a\": ", RO_JSON_TRUNCATED, 6},
        {"{\"a\":1,", RO_JSON_TRUNCATED, 7},
        {"tru", RO_JSON_TRUNCATED, 3},
        {"trux", RO_JSON_SYNTAX, 3},
        {"nulL", RO_JSON_SYNTAX, 3},
        {"x", RO_JSON_SYNTAX, 0},
        {"\xff", RO_JSON_SYNTAX, 0},
        {"[,1]", RO_JSON_SYNTAX, 1},
        {"[1,]", RO_JSON_SYNTAX, 3},
        {"[1 2]", RO_JSON_SYNTAX, 3},
        {"[1}", RO_JSON_SYNTAX, 2},
        {"{]", RO_JSON_SYNTAX, 1},
        {"{\"a\":1]", RO_JSON_SYNTAX, 6},
        {"{\"a\":1,}", RO_JSON_SYNTAX, 7},
        {"{\"a\" 1}", RO_JSON_SYNTAX, 5},
        {"{\"a\":}", RO_JSON_SYNTAX, 5},
        {"{1:2}", RO_JSON_SYNTAX, 1},
        {"{'a':1}", RO_JSON_SYNTAX, 1},
        {"[\v]", RO_JSON_SYNTAX, 1},
        {"[\xc2\xa0]", RO_JSON_SYNTAX, 1},
        {"[/**/]", RO_JSON_SYNTAX, 1},
        {"]", RO_JSON_SYNTAX, 0},
        {"1 2", RO_JSON_TRAILING, 2},
        {"{}\n{}", RO_JSON_TRAILING, 3},
        {"{}]", RO_JSON_TRAILING, 2},
        {"\"a\"\"", RO_JSON_TRAILING, 3},
    };
    CHECK_SAMPLES(samples);
}

static void
test_numbers(void)
{
    static const sample samples[] = {
        {"NaN", RO_JSON_NUMBER, 0},       {"[Infinity]", RO_JSON_NUMBER, 1},
        {"-Infinity", RO_JSON_NUMBER, 1}, {"Na", RO_JSON_SYNTAX, 0},
        {"+1", RO_JSON_NUMBER, 0},        {".5", RO_JSON_NUMBER, 0},
        {"01", RO_JSON_NUMBER, 1},        {"-01", RO_JSON_NUMBER, 2},
        {"[1.]", RO_JSON_NUMBER, 3},      {"[1.e5]", RO_JSON_NUMBER, 3},
        {"[1e]", RO_JSON_NUMBER, 3},      {"[1e+]", RO_JSON_NUMBER, 4},
        {"[-]", RO_JSON_NUMBER, 2},       {"[--1]", RO_JSON_NUMBER, 2},
        {"-", RO_JSON_TRUNCATED, 1},      {"1.", RO_JSON_TRUNCATED, 2},
        {"1e", RO_JSON_TRUNCATED, 2},     {"1e-", RO_JSON_TRUNCATED, 3},
        {"[0x10]", RO_JSON_SYNTAX, 2},    {"[1_0]", RO_JSON_SYNTAX, 2},
        {"1.5.2", RO_JSON_TRAILING, 3},
    };
    CHECK_SAMPLES(samples);
}

static void
test_strings(void)
{
    static const sample samples[] = {
        {"\"", RO_JSON_TRUNCATED, 1},
        {"\"abcdefghijklm", RO_JSON_TRUNCATED, 14},
        {"\"\\", RO_JSON_TRUNCATED, 2},
        {"\"\\\"", RO_JSON_TRUNCATED, 3},
        {"\"\\u12", RO_JSON_TRUNCATED, 5},
        {"\"\\ud800", RO_JSON_TRUNCATED, 7},
        {"\"\\ud800\\", RO_JSON_TRUNCATED, 8},
        {"\"\\ud800\\udc0", RO_JSON_TRUNCATED, 12},
        {"\"\xc3\xa9", RO_JSON_TRUNCATED, 3},
        {"\"\xf0\x9f\x98", RO_JSON_TRUNCATED, 4},
        {"\"a\nb\"", RO_JSON_CONTROL, 2},
        {"\"abcdefgh\x1f\"", RO_JSON_CONTROL, 9},
        {"{\"\t\":1}", RO_JSON_CONTROL, 2},
        {"\"\\x\"", RO_JSON_ESCAPE, 2},
        {"\"\\U0041\"", RO_JSON_ESCAPE, 2},
        {"\"\\u00g0\"", RO_JSON_ESCAPE, 5},
        {"\"\\u004\"", RO_JSON_ESCAPE, 6},
        {"\"\\ud800\\udc0g\"", RO_JSON_ESCAPE, 12},
        {"\"\\u 041\"", RO_JSON_ESCAPE, 3},
        {"\"\\'\"", RO_JSON_ESCAPE, 2},
        {"\"ab\\ud800\"", RO_JSON_SURROGATE, 3},
        {"\"\\udc00\"", RO_JSON_SURROGATE, 1},
        {"\"\\ud800\\n\"", RO_JSON_SURROGATE, 1},
        {"\"\\ud800\\u0041\"", RO_JSON_SURROGATE, 1},
        {"\"\\ud800\\ud800\"", RO_JSON_SURROGATE, 1},
        {"\"\\ud83d\\ude00\\udfff\"", RO_JSON_SURROGATE, 13},
        {"{\"\\ud800\":1}", RO_JSON_SURROGATE, 2},
        {"\"a\x80\"", RO_JSON_UTF8, 2},
        {"\"\xc0\x80\"", RO_JSON_UTF8, 1},
        {"\"\xc1\xbf\"", RO_JSON_UTF8, 1},
        {"\"\xc3\"", RO_JSON_UTF8, 1},
        {"\"\xe0\x9f\xbf\"", RO_JSON_UTF8, 1},
        {"\"\xed\xa0\x80\"", RO_JSON_UTF8, 1},
        {"\"\xe2\x82\"", RO_JSON_UTF8, 1},
        {"\"\xf0\x8f\xbf\xbf\"", RO_JSON_UTF8, 1},
        {"\"\xf4\x90\x80\x80\"", RO_JSON_UTF8, 1},
        {"\"\xf5\x80\x80\x80\"", RO_JSON_UTF8, 1},
        {"\"\xc3\xa9\xff\"", RO_JSON_UTF8, 3},
    };
    CHECK_SAMPLES(samples);
}

static void
test_duplicates(void)
{
    static const sample samples[] = {
        {"{\"a\":1,\"a\":2}", RO_JSON_DUPLICATE_KEY, 7},
        {"{\"\":1,\"\":1}", RO_JSON_DUPLICATE_KEY, 6},
        {"{\"o\":1,\"\\u006f\":2}", RO_JSON_DUPLICATE_KEY, 7},
        {"{\"\\u006F\":1,\"\\u006f\":2}", RO_JSON_DUPLICATE_KEY, 12},
        {"{\"/\":1,\"\\/\":2}", RO_JSON_DUPLICATE_KEY, 7},
        {"{\"\xc3\xa9\":1,\"\\u00e9\":2}", RO_JSON_DUPLICATE_KEY, 8},
        {"{\"\xf0\x9f\x98\x80\":1,\"\\ud83d\\ude00\":2}",
         RO_JSON_DUPLICATE_KEY, 10},
        {"{\"12345678\":1,\"1234567\\u0038\":2}", RO_JSON_DUPLICATE_KEY, 14},
        {"{\"a\\u0000b\":1,\"a\\u0000b\":2}", RO_JSON_DUPLICATE_KEY, 14},
        {"{\"a\":{\"b\":1},\"a\":2}", RO_JSON_DUPLICATE_KEY, 13},
        {"{\"a\":{\"a\":1,\"b\":2,\"a\":3}}", RO_JSON_DUPLICATE_KEY, 18},
        {"[{\"a\":1},{\"b\":1,\"b\":1}]", RO_JSON_DUPLICATE_KEY, 16},
        {"{\"a\":1,\"a\":x", RO_JSON_DUPLICATE_KEY, 7},
    };
    const ro_json_limits keep = {100, 5, true};

    CHECK_SAMPLES(samples);
    for (size_t i = 0; i + 1 < sizeof(samples) / sizeof(*samples); i++) {
        ro_slice doc = ro_slice_str(samples[i].doc);
        CHECK(ro_json_validate(doc, &keep, NULL) == RO_JSON_OK);
    }
}

static void
test_bounds(void)
{
    char text[400];
    ro_json_limits limits = {100, 64, false};
    ro_json_error error;

    for (size_t len = 99; len <= 101; len++) {
        memset(text, 'a', len);
        text[0] = text[len - 1] = '"';
        ro_json_validate(ro_slice_of(text, len), &limits, &error);
        CHECK(error.code == (len > 100 ? RO_JSON_TOO_LARGE : RO_JSON_OK));
        CHECK(error.pos == (len > 100 ? 100u : 0u));
    }
    limits.max_bytes = sizeof(text);
    for (size_t depth = 63; depth <= 65; depth++) {
        for (int object = 0; object <= 1; object++) {
            char *at = text;
            for (size_t i = 0; i < depth; i++) {
                memcpy(at, object ? "{\"\":" : "[", object ? 4 : 1);
                at += object ? 4 : 1;
            }
            *at++ = '1';
            memset(at, object ? '}' : ']', depth);
            ro_json_validate(ro_slice_of(text, (size_t)(at - text) + depth),
                             &limits, &error);
            CHECK(error.code == (depth > 64 ? RO_JSON_DEPTH : RO_JSON_OK));
            CHECK(error.pos == (depth <= 64 ? 0u : object ? 64u * 4u : 64u));
        }
    }
    limits.max_depth = 0;
    CHECK(ro_json_validate(ro_slice_str("1"), &limits, NULL) == RO_JSON_OK);
    CHECK(ro_json_validate(ro_slice_str("[]"), &limits, NULL)
          == RO_JSON_DEPTH);
    /* Keys are looked for in what has offsets of 32 bits; what is too large
     * is not looked at. */
    limits.max_bytes = SIZE_MAX;
    ro_json_validate(ro_slice_of(text, (size_t)UINT32_MAX + 1), &limits,
                     &error);
    CHECK(error.code == RO_JSON_TOO_LARGE && error.pos == UINT32_MAX);
    limits.max_bytes = 0;
    CHECK(ro_json_validate(ro_slice_str(""), &limits, NULL) == RO_JSON_EMPTY);
    CHECK(ro_json_validate(ro_slice_of(NULL, 0), &limits, NULL)
          == RO_JSON_EMPTY);
}

/* Every cut of a document is truncated at its end, except where what is
 * left is empty or whole. */
static void
test_cuts(void)
{
    static const char doc[]
        = " {\"key\\u0041\\ud83d\\ude00\xe2\x82\xac\":[-1.5e+10,true,false,"
          "null,\"a long enough string\",{}]}";
    ro_json_error error;

    for (size_t len = 0; len < sizeof(doc) - 1; len++) {
        ro_json_validate(ro_slice_of(doc, len), &product, &error);
        CHECK(error.code == (len < 2 ? RO_JSON_EMPTY : RO_JSON_TRUNCATED));
        CHECK(error.pos == len);
    }
    CHECK(ro_json_validate(ro_slice_of(doc, sizeof(doc) - 1), &product, NULL)
          == RO_JSON_OK);
}

static void
test_codes(void)
{
    for (int i = RO_JSON_OK; i <= RO_JSON_NO_MEMORY; i++) {
        for (int j = RO_JSON_OK; j < i; j++) {
            CHECK(strcmp(ro_json_code_text((ro_json_code)i),
                         ro_json_code_text((ro_json_code)j))
                  != 0);
        }
    }
}

/* An object of count members, "k<i>":<depth times nested 0>; the caller
 * frees. */
static ro_slice
many_members(size_t count, const char *more)
{
    ro_buf buf;
    char member[32];
    size_t len = 0;
    char *data = NULL;

    ro_buf_init(&buf, count * sizeof(member) + strlen(more) + 2);
    ro_buf_append_char(&buf, '{');
    for (size_t i = 0; i < count; i++) {
        int made = snprintf(member, sizeof(member), "\"k%zu\":%c,", i,
                            (char)('0' + i % 10));
        ro_buf_append(&buf, member, (size_t)made);
    }
    ro_buf_append(&buf, more, strlen(more));
    ro_buf_append_char(&buf, '}');
    data = ro_buf_steal(&buf, &len);
    if (data == NULL) {
        abort();
    }
    return ro_slice_of(data, len);
}

static void
test_many_keys(void)
{
    static const size_t counts[]
        = {1, 62, 63, 64, 65, 127, 128, 129, 500, 4096};
    const ro_json_limits limits = {64u << 20, 4, false};
    ro_json_error error;

    for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
        ro_slice once = many_members(counts[i], "\"x\":{\"k0\":1}");
        ro_slice first = many_members(counts[i], "\"k0\":1");
        ro_slice inner = many_members(counts[i], "\"x\":[{\"k0\":1,\"\":{},"
                                                 "\"\\u006b0\":1}]");
        CHECK(ro_json_validate(once, &limits, NULL) == RO_JSON_OK);
        CHECK(ro_json_has_duplicate_keys(once) == 0);
        CHECK(ro_json_validate(first, &limits, &error)
              == RO_JSON_DUPLICATE_KEY);
        CHECK(error.pos == first.len - 7);
        CHECK(ro_json_has_duplicate_keys(first) == 1);
        CHECK(ro_json_validate(inner, &limits, &error)
              == RO_JSON_DUPLICATE_KEY);
        CHECK(error.pos == inner.len - 14);
        CHECK(ro_json_has_duplicate_keys(inner) == 0);
        CHECK(ro_json_count(once) == counts[i] + 1);
        CHECK(ro_json_find(once, "x", NULL) == 1);
        ro_free((char *)once.ptr);
        ro_free((char *)first.ptr);
        ro_free((char *)inner.ptr);
    }
}

/* Objects that open and close inside a large one leave it whole. */
static void
test_nested_keys(void)
{
    const ro_json_limits limits = {1u << 20, 100, false};
    ro_buf buf;
    char member[64];
    ro_json_error error;

    ro_buf_init(&buf, limits.max_bytes);
    ro_buf_append_char(&buf, '{');
    for (int i = 0; i < 2000; i++) {
        int made = snprintf(member, sizeof(member),
                            "\"%d\":{\"%d\":0,\"x\":{\"%d\":[{}]}},", i, i, i);
        ro_buf_append(&buf, member, (size_t)made);
    }
    ro_buf_append(&buf, "\"1\":0}", 6);
    ro_json_validate(ro_buf_slice(&buf), &limits, &error);
    CHECK(error.code == RO_JSON_DUPLICATE_KEY);
    CHECK(error.pos == buf.len - 6);
    buf.data[buf.len - 5] = 'x';
    ro_json_validate(ro_buf_slice(&buf), &limits, &error);
    CHECK(error.code == RO_JSON_OK);
    ro_buf_free(&buf);
}

/* ---- readers ---- */

static bool
is(ro_slice slice, const char *text)
{
    return ro_slice_equal(slice, ro_slice_str(text));
}

static void
test_root_and_type(void)
{
    CHECK(is(ro_json_root(ro_slice_str(" \r\n\t[ 1 ] \n")), "[ 1 ]"));
    CHECK(is(ro_json_root(ro_slice_str("1")), "1"));
    CHECK(ro_json_root(ro_slice_of(NULL, 0)).len == 0);
    CHECK(ro_json_type_of(ro_slice_str("null")) == RO_JSON_NULL);
    CHECK(ro_json_type_of(ro_slice_str("true")) == RO_JSON_TRUE);
    CHECK(ro_json_type_of(ro_slice_str("false")) == RO_JSON_FALSE);
    CHECK(ro_json_type_of(ro_slice_str("-1")) == RO_JSON_NUMBER_VALUE);
    CHECK(ro_json_type_of(ro_slice_str("0")) == RO_JSON_NUMBER_VALUE);
    CHECK(ro_json_type_of(ro_slice_str("\"\"")) == RO_JSON_STRING);
    CHECK(ro_json_type_of(ro_slice_str("[]")) == RO_JSON_ARRAY);
    CHECK(ro_json_type_of(ro_slice_str("{}")) == RO_JSON_OBJECT);
}

static void
test_iterate(void)
{
    ro_slice object = ro_slice_str(
        "{ \"a\\\\\" : \"}]\\\"\" , \"b\":[ {\"]\":1} , [] ],\"c\":-1.5 }");
    ro_slice array = ro_slice_str("[ 1,\"a,b\" ,{\"x\":[1,2]} , null ]");
    ro_json_iter iter = ro_json_iter_of(object);
    ro_slice key;
    ro_slice value;

    CHECK(ro_json_next_member(&iter, &key, &value));
    CHECK(is(key, "\"a\\\\\"") && is(value, "\"}]\\\"\""));
    CHECK(ro_json_next_member(&iter, &key, &value));
    CHECK(is(key, "\"b\"") && is(value, "[ {\"]\":1} , [] ]"));
    CHECK(ro_json_next_member(&iter, &key, &value));
    CHECK(is(key, "\"c\"") && is(value, "-1.5"));
    CHECK(!ro_json_next_member(&iter, &key, &value));
    CHECK(!ro_json_next_member(&iter, &key, &value));
    iter = ro_json_iter_of(array);
    CHECK(ro_json_next_item(&iter, &value) && is(value, "1"));
    CHECK(ro_json_next_item(&iter, &value) && is(value, "\"a,b\""));
    CHECK(ro_json_next_item(&iter, &value) && is(value, "{\"x\":[1,2]}"));
    CHECK(ro_json_next_item(&iter, &value) && is(value, "null"));
    CHECK(!ro_json_next_item(&iter, &value));
    /* What is no container holds nothing, an array has no members. */
    iter = ro_json_iter_of(ro_slice_str("\"[1]\""));
    CHECK(!ro_json_next_item(&iter, &value));
    iter = ro_json_iter_of(array);
    CHECK(!ro_json_next_member(&iter, &key, &value));
    CHECK(ro_json_count(object) == 3 && ro_json_count(array) == 4);
    CHECK(ro_json_count(ro_slice_str("[ ]")) == 0);
    CHECK(ro_json_count(ro_slice_str("{}")) == 0);
    CHECK(ro_json_count(ro_slice_str("12")) == 0);
}

static void
test_tokens(void)
{
    static const char *const want[]
        = {"{", "\"a\"", ":",     "[", "1", ",", "true",
           "]", ",",     "\"}\"", ":", "{", "}", "}"};
    ro_slice doc = ro_slice_str(" {\"a\" : [1, true],\"}\":{ } } ");
    ro_json_iter iter = {doc.ptr, doc.ptr + doc.len};
    ro_slice token;

    for (size_t i = 0; i < sizeof(want) / sizeof(*want); i++) {
        CHECK(ro_json_next_token(&iter, &token) && is(token, want[i]));
    }
    CHECK(!ro_json_next_token(&iter, &token));
}

static void
test_scan(void)
{
    static const char *const want[]
        = {"{", "\"a\\n\"", "[", "1", "1.5", "]", "\"b\"", "\"\"", "}"};
    ro_slice doc = ro_slice_str("{\"a\\n\":[1,1.5],\"b\" : \"\"} ");
    ro_json_scan scan;
    ro_json_token token;

    ro_json_scan_open(&scan, doc, &product);
    for (size_t i = 0; i < sizeof(want) / sizeof(*want); i++) {
        CHECK(ro_json_scan_next(&scan, &token) && is(token.raw, want[i]));
        CHECK(token.is_key == (i == 1 || i == 6));
        CHECK(token.escaped == (i == 1));
        CHECK(token.integer == (i == 3));
    }
    CHECK(!ro_json_scan_next(&scan, &token));
    CHECK(scan.lexer.error.code == RO_JSON_OK);
    ro_json_scan_close(&scan);
    ro_json_scan_close(&scan);
    CHECK(!ro_json_scan_next(&scan, &token));
    ro_json_scan_open(&scan, ro_slice_str("[1,x"), &product);
    CHECK(ro_json_scan_next(&scan, &token));
    CHECK(ro_json_scan_next(&scan, &token));
    CHECK(!ro_json_scan_next(&scan, &token));
    CHECK(!ro_json_scan_next(&scan, &token));
    CHECK(scan.lexer.error.code == RO_JSON_SYNTAX);
    CHECK(scan.lexer.error.pos == 3);
    ro_json_scan_close(&scan);
}

/* What is on the heap is freed once, and the scan is as closed as a small one,
 * at its end and in the middle. */
static void
test_close(void)
{
    enum { LEVELS = RO_JSON_FEW_FRAMES + 1 };
    const ro_json_limits limits = {1u << 20, LEVELS, false};
    char deep[2 * LEVELS];
    ro_slice wide = many_members(RO_JSON_FEW_KEYS, "\"x\":1");
    const ro_slice docs[] = {ro_slice_of(deep, sizeof(deep)), wide};
    const size_t all[] = {sizeof(deep), 2 * RO_JSON_FEW_KEYS + 4};
    ro_json_scan scan;
    ro_json_token token;

    memset(deep, '[', LEVELS);
    memset(deep + LEVELS, ']', LEVELS);
    for (size_t i = 0; i < 2; i++) {
        for (size_t left = 0; left <= all[i]; left++) {
            size_t tokens = 0;
            ro_json_scan_open(&scan, docs[i], &limits);
            while (tokens < all[i] - left
                   && ro_json_scan_next(&scan, &token)) {
                tokens++;
            }
            CHECK(tokens == all[i] - left);
            CHECK(left != 0 || !ro_json_scan_next(&scan, &token));
            CHECK(scan.lexer.error.code == RO_JSON_OK);
            ro_json_scan_close(&scan);
            CHECK(!ro_json_scan_next(&scan, &token));
            ro_json_scan_close(&scan);
        }
    }
    ro_free((char *)wide.ptr);
}

static void
test_find(void)
{
    ro_slice object = ro_slice_str("{\"ab\":1,\"A\":2,\"\\u0061b\":[3],"
                                   "\"x\":{\"ab\":4},\"a\\u0000b\":5}");
    ro_slice value = ro_slice_str("before");

    CHECK(ro_json_find(object, "zz", &value) == 0 && is(value, "before"));
    CHECK(ro_json_find(object, "a", &value) == 0 && is(value, "before"));
    CHECK(ro_json_find(object, "ab", &value) == 2 && is(value, "[3]"));
    CHECK(ro_json_find(object, "A", NULL) == 1);
    CHECK(ro_json_find(ro_slice_str("[\"ab\",1]"), "ab", &value) == 0);
    CHECK(ro_json_has_duplicate_keys(object) == 1);
    CHECK(ro_json_has_duplicate_keys(ro_slice_str("{}")) == 0);
    CHECK(ro_json_has_duplicate_keys(ro_slice_str("{\"a\":{\"b\":1,\"b\":1}}"))
          == 0);
}

static void
test_decode(void)
{
    static const char raw[]
        = "\"a\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\\u00e9\\u20AC\\ud83d\\ude00"
          "\\u0000z\xc3\xa9\"";
    static const char text[]
        = "a\"\\/\b\f\n\r\tA\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\0z\xc3\xa9";
    char out[sizeof(raw)];
    ro_slice doc = ro_slice_of(raw, sizeof(raw) - 1);
    ro_slice want = ro_slice_of(text, sizeof(text) - 1);
    size_t len = ro_json_decode(doc, out);

    CHECK(ro_slice_equal(ro_slice_of(out, len), want));
    CHECK(ro_json_string_is(doc, want));
    CHECK(!ro_json_string_is(doc, ro_slice_of(text, sizeof(text) - 2)));
    CHECK(!ro_json_string_is(doc, ro_slice_of(text, sizeof(text))));
    CHECK(ro_json_decode(ro_slice_str("\"\""), out) == 0);
    CHECK(ro_json_string_is(ro_slice_str("\"\""), ro_slice_of(NULL, 0)));
    CHECK(!ro_json_string_is(ro_slice_str("\"ab\""), ro_slice_str("Ab")));
    CHECK(!ro_json_string_is(ro_slice_str("\"\\u0041\""), ro_slice_str("a")));
    CHECK(
        !ro_json_string_is(ro_slice_str("\"\\u00e9\""), ro_slice_str("\xc3")));
}

/* ---- writers ---- */

static void
test_minify(void)
{
    static const char spaced[]
        = "{ \"a b\" :\t[ 1.10 , 1E400,\r\n\"\\u0041 \\\" x\" ] , \"c\":{ } }";
    static const char tight[]
        = "{\"a b\":[1.10,1E400,\"\\u0041 \\\" x\"],\"c\":{}}";
    ro_buf buf;

    ro_buf_init(&buf, sizeof(tight) + 2);
    ro_buf_append(&buf, "<", 1);
    CHECK(ro_json_minify(ro_slice_str(spaced), &buf) == RO_BUF_OK);
    CHECK(is(ro_slice_of(buf.data + 1, buf.len - 1), tight));
    CHECK(ro_json_minify(ro_slice_str("[ 1, 2]"), &buf) == RO_BUF_TOO_LARGE);
    CHECK(buf.len == sizeof(tight));
    ro_buf_clear(&buf);
    CHECK(ro_json_minify(ro_slice_str(tight), &buf) == RO_BUF_OK);
    CHECK(is(ro_buf_slice(&buf), tight));
    ro_buf_free(&buf);
}

static void
test_write_string(void)
{
    static const char text[] = "a\"\\/\b\f\n\r\t\x01\x1f\x7f\xc3\xa9"
                               "\xe2\x82\xac\xef\xbf\xbf\xf0\x9f\x98\x80"
                               "\xf4\x8f\xbf\xbf\0z";
    static const char want[]
        = "\"a\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\\u001f\x7f\\u00e9"
          "\\u20ac\\uffff\\ud83d\\ude00\\udbff\\udfff\\u0000z\"";
    ro_slice slice = ro_slice_of(text, sizeof(text) - 1);
    ro_buf buf;

    ro_buf_init(&buf, sizeof(want) - 1);
    CHECK(ro_json_write_string(&buf, slice) == RO_BUF_OK);
    CHECK(is(ro_buf_slice(&buf), want));
    CHECK(ro_json_string_is(ro_buf_slice(&buf), slice));
    ro_buf_free(&buf);
    for (size_t max = 0; max < sizeof(want) - 1; max++) {
        ro_buf_init(&buf, max);
        CHECK(ro_json_write_string(&buf, slice) == RO_BUF_TOO_LARGE);
        CHECK(buf.len == 0);
        ro_buf_free(&buf);
    }
    ro_buf_init(&buf, 2);
    CHECK(ro_json_write_string(&buf, ro_slice_of(NULL, 0)) == RO_BUF_OK);
    CHECK(is(ro_buf_slice(&buf), "\"\""));
    ro_buf_free(&buf);
}

static ro_buf_code
write_ascii(ro_buf *out, ro_slice value)
{
    ro_writer to = ro_writer_of(out);
    ro_write_ascii(&to, value);
    return ro_write_done(&to);
}

static void
test_write_ascii(void)
{
    static const char value[] = "{\"\\u00E9\xc3\xa9\x7f\": "
                                "[\"\xe2\x82\xac\xf0\x9f\x98\x80\", 1e2]}";
    static const char want[] = "{\"\\u00E9\\u00e9\x7f\": "
                               "[\"\\u20ac\\ud83d\\ude00\", 1e2]}";
    ro_buf buf;

    for (size_t max = 0; max < sizeof(want); max++) {
        bool fits = max == sizeof(want) - 1;
        ro_buf_init(&buf, max);
        CHECK(write_ascii(&buf, ro_slice_str(value))
              == (fits ? RO_BUF_OK : RO_BUF_TOO_LARGE));
        CHECK(is(ro_buf_slice(&buf), fits ? want : ""));
        ro_buf_free(&buf);
    }
    ro_buf_init(&buf, 0);
    CHECK(write_ascii(&buf, ro_slice_of(NULL, 0)) == RO_BUF_OK);
    CHECK(buf.len == 0);
    ro_buf_free(&buf);
}

#ifdef RO_TEST_ALLOC
/* The Nth allocation fails, for every N, alone and with all behind it: one
 * clear code, nothing kept, and the next try is as good as ever. */
static void
test_no_memory(void)
{
    const ro_json_limits limits = {1u << 20, 1000, false};
    ro_slice wide = many_members(1000, "\"x\":1");
    char deep[600];
    ro_slice docs[2] = {wide, ro_slice_of(deep, sizeof(deep))};
    size_t live = ro_alloc_live();

    memset(deep, '[', sizeof(deep) / 2);
    memset(deep + sizeof(deep) / 2, ']', sizeof(deep) / 2);
    for (size_t d = 0; d < 2; d++) {
        for (int sticky = 0; sticky <= 1; sticky++) {
            ro_json_error error = {RO_JSON_NO_MEMORY, 0};
            size_t tries = 0;
            for (size_t n = 1; error.code != RO_JSON_OK && n < 100; n++) {
                ro_alloc_fail_at(n, sticky);
                ro_json_validate(docs[d], &limits, &error);
                CHECK(error.code == RO_JSON_OK
                      || error.code == RO_JSON_NO_MEMORY);
                CHECK(error.pos < docs[d].len);
                CHECK(ro_alloc_live() == live);
                tries = n;
            }
            CHECK(error.code == RO_JSON_OK && tries > 2);
        }
    }
    ro_alloc_fail_at(1, 1);
    CHECK(ro_json_has_duplicate_keys(wide) == -1);
    ro_alloc_fail_at(0, 0);
    CHECK(ro_json_has_duplicate_keys(wide) == 0);
    CHECK(ro_alloc_live() == live);
    ro_free((char *)wide.ptr);
}

/* Small documents, whatever their length, touch no heap; the check for
 * duplicates costs as many blocks as doublings, none when they are kept. */
static void
test_heap_use(void)
{
    ro_json_limits limits = {1u << 20, 64, false};
    ro_slice few = many_members(62, "\"x\":{}");
    ro_slice more = many_members(1000, "\"x\":{}");
    ro_buf objects;

    ro_buf_init(&objects, limits.max_bytes);
    ro_alloc_fail_at(0, 0);
    CHECK(ro_json_validate(few, &limits, NULL) == RO_JSON_OK);
    CHECK(ro_alloc_count() == 0);
    CHECK(ro_json_validate(more, &limits, NULL) == RO_JSON_OK);
    CHECK(ro_alloc_count() > 0 && ro_alloc_count() <= 10);
    /* the keys of an object that is closed take no room */
    ro_buf_append_char(&objects, '[');
    for (int i = 0; i < 200; i++) {
        ro_buf_append(&objects, "{\"a\":1},", 8);
    }
    ro_buf_append(&objects, "{}]", 3);
    ro_alloc_fail_at(0, 0);
    CHECK(ro_json_validate(ro_buf_slice(&objects), &limits, NULL)
          == RO_JSON_OK);
    CHECK(ro_alloc_count() == 0);
    ro_buf_free(&objects);
    limits.keep_duplicates = true;
    CHECK(ro_json_validate(more, &limits, NULL) == RO_JSON_OK);
    CHECK(ro_alloc_count() == 0);
    ro_free((char *)few.ptr);
    ro_free((char *)more.ptr);
    CHECK(ro_alloc_live() == 0);
}
#endif

int
main(void)
{
    test_accept();
    test_integers();
    test_structure();
    test_numbers();
    test_strings();
    test_duplicates();
    test_bounds();
    test_cuts();
    test_codes();
    test_many_keys();
    test_nested_keys();
    test_root_and_type();
    test_iterate();
    test_tokens();
    test_scan();
    test_close();
    test_find();
    test_decode();
    test_minify();
    test_write_string();
    test_write_ascii();
#ifdef RO_TEST_ALLOC
    test_no_memory();
    test_heap_use();
#endif
    return check_end();
}
