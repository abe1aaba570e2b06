/* What goes up of an answer, shape by shape, and its bounds. */
#include "check.h"

#include "core/alloc.h"
#include "core/json.h"
#include "core/limits.h"
#include "mcp/reduce.h"

#define S(text) ro_slice_str(text)
#define MESSAGE(result) "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":" result "}"

static ro_slice
valid(const char *text)
{
    static const ro_json_limits limits = {1u << 24, 64, true};
    CHECK(ro_json_validate(S(text), &limits, NULL) == RO_JSON_OK);
    return ro_json_root(S(text));
}

/* ---- what is read ---- */

typedef enum answer {
    INITIALIZE,
    TOOL,
    BLOCKS,
} answer;

static ro_reduce_code
reduce(answer kind, const char *text, ro_buf *out)
{
    ro_budget budget = ro_reduce_budget();
    ro_result result = {valid(text), {NULL, 0}};
    ro_shaper up;
    switch (kind) {
    case INITIALIZE:
        return ro_reduce_initialize(S("7"), result.content, out);
    case TOOL:
        up = ro_shaper_of(out);
        ro_reduce_tool(&up, result.content, &budget);
        return ro_shape_done(&up);
    case BLOCKS:
        break;
    }
    return ro_reduce_result(S("7"), &result, false, out);
}

static const struct {
    answer kind;
    const char *given;
    const char *up; /* NULL: as it is given */
} cases[] = {
    {INITIALIZE, "{}", MESSAGE("{}")},
    {INITIALIZE,
     " { \"x\":[1], \"protocolVersion\" : \"v\" , \"capabilities\":{} ,"
     "\"serverInfo\":{\"x\":1,\"version\":\"1\",\"name\":\"n\"}}",
     MESSAGE("{\"protocolVersion\":\"v\",\"capabilities\":{},"
             "\"serverInfo\":{\"name\":\"n\",\"version\":\"1\"}}")},
    /* of a key that stands twice the last, escaped or not */
    {INITIALIZE, "{\"protocolVersion\":\"a\",\"protocol\\u0056ersion\":5}",
     MESSAGE("{\"protocolVersion\":5}")},
    /* a value of another type keeps its type */
    {INITIALIZE,
     "{\"capabilities\":[1],\"serverInfo\":\"abc\",\"instructions\":null,"
     "\"_meta\":{\"a\":1}}",
     MESSAGE("{\"capabilities\":[],\"serverInfo\":\"\",\"instructions\":null,"
             "\"_meta\":{}}")},
    {INITIALIZE,
     "{\"capabilities\":{\"experimental\":{\"a\":{\"b\":1},\"c\":5},"
     "\"logging\":{\"a\":1},\"tools\":{\"listChanged\":\"yes\",\"x\":1},"
     "\"resources\":{\"subscribe\":true},\"prompts\":12,\"completions\":{},"
     "\"tasks\":{\"list\":{\"a\":1},\"cancel\":true,\"requests\":{\"tools\":"
     "{\"call\":{\"a\":1},\"x\":1}}},\"other\":{\"a\":1}}}",
     MESSAGE("{\"capabilities\":{\"experimental\":{\"a\":{},\"c\":0},"
             "\"logging\":{},\"prompts\":0,\"resources\":{\"subscribe\":true},"
             "\"tools\":{\"listChanged\":\"yes\"},\"completions\":{},"
             "\"tasks\":{\"list\":{},\"cancel\":true,\"requests\":{\"tools\":"
             "{\"call\":{}}}}}}")},

    {TOOL, "{\"name\":\"t\",\"inputSchema\":{}}", NULL},
    {TOOL,
     "{\"name\":\"t\",\"title\":5,\"description\":\"d\",\"inputSchema\":"
     "{\"type\":\"object\",\"n\":1.10},\"outputSchema\":{\"a\":[1,{}]},"
     "\"icons\":[{\"src\":\"s\",\"mimeType\":\"m\",\"sizes\":[\"1x1\"]}],"
     "\"annotations\":{\"title\":\"t\",\"readOnlyHint\":true,"
     "\"destructiveHint\":false,\"idempotentHint\":null,"
     "\"openWorldHint\":1},\"_meta\":{},"
     "\"execution\":{\"taskSupport\":\"forbidden\"}}",
     NULL},
    {TOOL,
     "{\"inputSchema\":[1],\"x\":1,\"annotations\":{\"x\":1},"
     "\"icons\":[5,{\"src\":1,\"x\":2}],\"name\":\"a\",\"_meta\":[1],"
     "\"name\":\"t\",\"execution\":{\"x\":1}}",
     "{\"name\":\"t\",\"inputSchema\":[],\"icons\":[0,{\"src\":1}],"
     "\"annotations\":{},\"_meta\":[],\"execution\":{}}"},

    {BLOCKS, "[]", MESSAGE("{\"content\":[]}")},
    {BLOCKS,
     " [ {\"x\":[1], \"text\":\"a b\" ,\"type\":\"te\\u0078t\","
     "\"_meta\":{\"a\":1},\"annotations\":{\"audience\":[\"user\"],"
     "\"priority\":0.5,\"lastModified\":\"now\"}} ] ",
     MESSAGE("{\"content\":[{\"type\":\"te\\u0078t\",\"annotations\":"
             "{\"audience\":[\"user\"],\"priority\":0.5},\"_meta\":{},"
             "\"text\":\"a b\"}]}")},
    {BLOCKS,
     "[{\"type\":\"image\",\"data\":\"a\",\"mimeType\":\"m\",\"text\":\"x\"},"
     "{\"type\":\"resource_link\",\"uri\":\"a:b\",\"name\":\"n\",\"size\":5,"
     "\"text\":\"x\"},{\"type\":\"resource\",\"resource\":{\"uri\":\"a:b\","
     "\"blob\":\"b\",\"text\":5,\"_meta\":{\"a\":1},\"x\":1},\"uri\":\"x\"}]",
     MESSAGE("{\"content\":[{\"type\":\"image\",\"data\":\"a\","
             "\"mimeType\":\"m\"},{\"type\":\"resource_link\","
             "\"uri\":\"a:b\",\"name\":\"n\",\"size\":5},"
             "{\"type\":\"resource\",\"resource\":{\"uri\":\"a:b\","
             "\"text\":5,\"blob\":\"b\",\"_meta\":{}}}]}")},
};

static void
test_what_is_read(void)
{
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *want = cases[i].up == NULL ? cases[i].given : cases[i].up;
        ro_buf out;
        ro_buf_init(&out, 1u << 20);
        bool good = reduce(cases[i].kind, cases[i].given, &out) == RO_REDUCE_OK
                    && ro_slice_equal(ro_buf_slice(&out), S(want));
        CHECK(good);
        if (!good) {
            fprintf(stderr, "case %zu: %.*s\n", i, (int)out.len, out.data);
        }
        ro_buf_free(&out);
    }
}

static void
test_structured_content(void)
{
    const ro_result result
        = {valid("[]"), valid("{ \"a\" : 1.10 , \"b\":[ ] }")};
    ro_buf out;
    ro_buf_init(&out, 1024);
    CHECK(ro_reduce_result(S("7"), &result, true, &out) == RO_REDUCE_OK);
    CHECK(ro_slice_equal(ro_buf_slice(&out),
                         S(MESSAGE("{\"content\":[],\"structuredContent\":"
                                   "{\"a\":1.10,\"b\":[]}}"))));
    ro_buf_clear(&out);
    CHECK(ro_reduce_result(S("\"i\""), &result, false, &out) == RO_REDUCE_OK);
    CHECK(ro_slice_equal(ro_buf_slice(&out),
                         S("{\"jsonrpc\":\"2.0\",\"id\":\"i\",\"result\":"
                           "{\"content\":[]}}")));
    ro_buf_free(&out);
}

/* ---- numbers ---- */

/* before, digits, after: what the models' reader says was measured. */
static bool
is_readable(const char *before, size_t digits, const char *after)
{
    static char text[RO_MAX_NUMBER + 64];
    size_t len = strlen(before);
    memcpy(text, before, len);
    memset(text + len, '7', digits);
    memcpy(text + len + digits, after, strlen(after) + 1);
    return ro_shape_is_readable(valid(text));
}

static void
test_numbers(void)
{
    CHECK(is_readable("", RO_MAX_NUMBER, ""));
    CHECK(!is_readable("", RO_MAX_NUMBER + 1, ""));
    CHECK(is_readable("-", RO_MAX_NUMBER - 1, ""));
    CHECK(!is_readable("-", RO_MAX_NUMBER, ""));
    CHECK(!is_readable("", RO_MAX_NUMBER + 1, ".5"));
    CHECK(!is_readable("", RO_MAX_NUMBER + 1, "E5"));
    CHECK(is_readable("0.", RO_MAX_NUMBER + 1, ""));
    CHECK(is_readable("1e", RO_MAX_NUMBER + 1, ""));
    CHECK(is_readable("\"", RO_MAX_NUMBER + 1, "\""));
    CHECK(!is_readable("{\"a\":[{\"b\":", RO_MAX_NUMBER + 1, "}]}"));
    CHECK(!is_readable("[\"\\\"\",", RO_MAX_NUMBER + 1, "]"));
    CHECK(is_readable("{\"", RO_MAX_NUMBER + 1, "\":1}"));
}

static void
test_what_cannot_be_read_is_refused(void)
{
    static char text[RO_MAX_NUMBER + 256];
    static char digits[RO_MAX_NUMBER + 2];
    static const struct {
        answer kind;
        const char *around;
    } places[] = {
        {INITIALIZE, "{\"x\":%s}"},
        {INITIALIZE, "{\"serverInfo\":{\"version\":%s}}"},
        {TOOL, "{\"name\":\"t\",\"x\":[%s]}"},
        {TOOL, "{\"name\":\"t\",\"inputSchema\":{\"maximum\":%s}}"},
        {TOOL, "{\"name\":\"t\",\"name\":%s,\"name\":\"t\"}"},
        {BLOCKS, "[{\"type\":\"text\",\"text\":\"a\",\"x\":%s}]"},
        {BLOCKS, "[{\"type\":\"text\",\"text\":\"a\",\"_meta\":{\"a\":%s}}]"},
    };
    memset(digits, '7', RO_MAX_NUMBER + 1);
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        for (size_t over = 0; over < 2; over++) {
            ro_buf out;
            ro_buf_init(&out, 1u << 20);
            digits[RO_MAX_NUMBER + over] = '\0';
            (void)snprintf(text, sizeof(text), places[i].around, digits);
            digits[RO_MAX_NUMBER + over] = '7';
            CHECK(reduce(places[i].kind, text, &out)
                  == (over ? RO_REDUCE_UNREADABLE : RO_REDUCE_OK));
            CHECK((out.len == 0) == (over != 0));
            ro_buf_free(&out);
        }
    }
}

/* ---- bounds ---- */

/* begin, count times item with commas between, end. */
static char *
crowd(const char *begin, const char *item, size_t count, const char *end)
{
    size_t each = strlen(item) + 1;
    char *text = malloc(strlen(begin) + each * count + strlen(end) + 1);
    char *to = text + strlen(begin);
    CHECK(text != NULL);
    memcpy(text, begin, strlen(begin));
    for (size_t i = 0; i < count; i++, to += each) {
        memcpy(to, item, each - 1);
        to[each - 1] = ',';
    }
    memcpy(count == 0 ? to : to - 1, end, strlen(end) + 1);
    return text;
}

static bool
is_reduced(answer kind, char *text, ro_reduce_code code, size_t most)
{
    ro_buf out;
    ro_buf_init(&out, 1u << 24);
    bool good = reduce(kind, text, &out) == code && out.len <= most;
    if (!good) {
        fprintf(stderr, "%zu bytes of %zu\n", out.len, strlen(text));
    }
    ro_buf_free(&out);
    free(text);
    return good;
}

static void
test_values(void)
{
    /* what nobody reads is no matter how large */
    CHECK(is_reduced(TOOL, crowd("{\"name\":\"t\",", "\"k\":[1]", 200000, "}"),
                     RO_REDUCE_OK, 12));
    CHECK(is_reduced(TOOL,
                     crowd("{\"annotations\":{", "\"k\":1", 200000, "}}"),
                     RO_REDUCE_OK, 18));
    CHECK(is_reduced(INITIALIZE,
                     crowd("{\"capabilities\":{", "\"k\":{}", 200000, "}}"),
                     RO_REDUCE_OK, 60));
    CHECK(is_reduced(BLOCKS,
                     crowd("[{\"type\":\"text\",\"text\":\"\",\"_meta\":{",
                           "\"k\":1", 100000, "}}]"),
                     RO_REDUCE_OK, 100));
    /* the object and 6 others, key and value: 1 + 2 * n */
    const size_t keys = (RO_MAX_UP_VALUES - 6) / 2;
    CHECK(is_reduced(
        TOOL,
        crowd("{\"name\":\"t\",\"outputSchema\":{", "\"k\":1", keys, "}}"),
        RO_REDUCE_OK, 1u << 20));
    CHECK(is_reduced(
        TOOL,
        crowd("{\"name\":\"t\",\"outputSchema\":{", "\"k\":1", keys + 1, "}}"),
        RO_REDUCE_OVER_BUDGET, 0));
    CHECK(is_reduced(INITIALIZE,
                     crowd("{\"capabilities\":{\"experimental\":{", "\"k\":{}",
                           keys + 1, "}}}"),
                     RO_REDUCE_OVER_BUDGET, 0));
    CHECK(is_reduced(
        TOOL,
        crowd("{\"icons\":[", "{\"src\":\"s\"}", RO_MAX_UP_VALUES / 2, "]}"),
        RO_REDUCE_OVER_BUDGET, 0));
    CHECK(is_reduced(BLOCKS,
                     crowd("[{\"type\":\"text\",\"text\":\"\",\"annotations\":"
                           "{\"audience\":[",
                           "1", RO_MAX_UP_VALUES, "]}}]"),
                     RO_REDUCE_OVER_BUDGET, 0));
}

static void
test_a_large_input_schema(void)
{
    const size_t fit = RO_MAX_SCHEMA_VALUES / 2 - 1; /* the object is 1 */
    CHECK(is_reduced(TOOL, crowd("{\"inputSchema\":{", "\"k\":1", fit, "}}"),
                     RO_REDUCE_OK, 1u << 20));
    CHECK(is_reduced(TOOL,
                     crowd("{\"inputSchema\":{", "\"k\":1", fit + 1, "}}"),
                     RO_REDUCE_OK, 18));
    CHECK(is_reduced(TOOL,
                     crowd("{\"inputSchema\":{\"k\":\"", "a",
                           RO_MAX_SCHEMA_BYTES / 2, "\"}}"),
                     RO_REDUCE_OK, 18));
}

static void
test_bytes(void)
{
    const size_t half = RO_MAX_UP_BYTES / 2;
    CHECK(is_reduced(TOOL, crowd("{\"description\":\"", "a", half - 20, "\"}"),
                     RO_REDUCE_OK, RO_MAX_UP_BYTES));
    CHECK(is_reduced(TOOL, crowd("{\"description\":\"", "a", half, "\"}"),
                     RO_REDUCE_OVER_BUDGET, 0));
    /* white space is none of them */
    CHECK(is_reduced(TOOL,
                     crowd("{\"outputSchema\":{\"a\":[", "  1  ",
                           RO_MAX_UP_VALUES / 2, "]}}"),
                     RO_REDUCE_OK, RO_MAX_UP_VALUES + 64));
    ro_buf out;
    ro_buf_init(&out, 10);
    CHECK(reduce(TOOL, "{\"name\":\"abc\"}", &out) == RO_REDUCE_TOO_LARGE);
    CHECK(out.len == 0);
    ro_buf_free(&out);
}

static size_t
least(const char *content, const char *structured)
{
    ro_result result = {valid(content), {NULL, 0}};
    if (structured != NULL) {
        result.structured_content = valid(structured);
    }
    return ro_reduce_least_envelope(&result);
}

static void
test_the_least_envelope(void)
{
    CHECK(RO_MIN_BLOCK == strlen("{\"type\":\"file\",\"url\":\"\"}"));
    CHECK(least("[]", NULL) == 0);
    CHECK(least("[ {} , {} ]", NULL) == 2 * RO_MIN_BLOCK + 1);
    /* a string may be a secret: its quotes alone stay for sure */
    CHECK(least("[]", "{\"key\" : [ 1.10 , \"long text\" ]}")
          == strlen("{\"\":[1.10,\"\"]}"));
    CHECK(least("[5]", "{}") == RO_MIN_BLOCK + 2);
}

#ifdef RO_TEST_ALLOC
static void
test_no_memory(void)
{
    size_t live = ro_alloc_live();
    size_t nth = 0;
    bool done = false;
    while (!done && nth < 100) {
        ro_buf out;
        ro_buf_init(&out, 4096);
        ro_alloc_fail_at(++nth, 0);
        ro_reduce_code code = reduce(
            INITIALIZE,
            "{\"protocolVersion\":\"a long text that makes it grow, and then "
            "some more of it, so that it grows again\",\"instructions\":"
            "\"more of this\"}",
            &out);
        done = ro_alloc_count() < nth;
        CHECK(code == (done ? RO_REDUCE_OK : RO_REDUCE_NO_MEMORY));
        CHECK(done == (out.len > 0));
        ro_buf_free(&out);
        CHECK(ro_alloc_live() == live);
    }
    CHECK(done && nth > 1);
    ro_alloc_fail_at(0, 0);
}
#endif

int
main(void)
{
    test_what_is_read();
    test_structured_content();
    test_numbers();
    test_what_cannot_be_read_is_refused();
    test_values();
    test_a_large_input_schema();
    test_bytes();
    test_the_least_envelope();
#ifdef RO_TEST_ALLOC
    test_no_memory();
#endif
    return check_end();
}
