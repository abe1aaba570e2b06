/* JSON-RPC classification, ids, and the bytes that this side writes. */
#include "check.h"

#include "core/alloc.h"
#include "core/json.h"
#include "mcp/rpc.h"

static ro_rpc_kind
classify(const char *text, ro_rpc *rpc)
{
    const ro_json_limits limits = {1u << 20, 64, true};
    CHECK(ro_json_validate(ro_slice_str(text), &limits, NULL) == RO_JSON_OK);
    return ro_rpc_classify(ro_slice_str(text), rpc);
}

static bool
is(ro_slice slice, const char *text)
{
    return ro_slice_equal(slice, ro_slice_str(text));
}

static void
test_kinds(void)
{
    static const struct {
        const char *text;
        ro_rpc_kind kind;
    } cases[] = {
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\"}", RO_RPC_REQUEST},
        {"{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"m\",\"params\":{}}",
         RO_RPC_REQUEST},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":[]}",
         RO_RPC_REQUEST},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":null}",
         RO_RPC_REQUEST},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":1}",
         RO_RPC_INVALID},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":1}", RO_RPC_INVALID},
        {"{\"jsonrpc\":\"2.0\",\"method\":\"m\"}", RO_RPC_NOTIFICATION},
        {"{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"params\":{}}",
         RO_RPC_NOTIFICATION},
        {"{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"id\":null}", RO_RPC_INVALID},
        {" {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}} ", RO_RPC_RESULT},
        {"{\"jsonrpc\":\"2.0\",\"id\":-1,\"result\":null}", RO_RPC_RESULT},
        {"{\"jsonrpc\":\"2\\u002e0\",\"id\":1,\"result\":{}}", RO_RPC_RESULT},
        {"{\"jsonrpc\":\"2.0\",\"\\u0069d\":1,\"result\":{},\"x\":1,\"x\":2}",
         RO_RPC_RESULT},
        {"{\"jsonrpc\":\"2.0\",\"result\":{}}", RO_RPC_INVALID},
        {"{\"jsonrpc\":\"2.0\",\"id\":null,\"result\":{}}", RO_RPC_INVALID},
        {"{\"jsonrpc\":\"2.0\",\"id\":1.0,\"result\":{}}", RO_RPC_INVALID},
        {"{\"jsonrpc\":\"2.0\",\"id\":1e0,\"result\":{}}", RO_RPC_INVALID},
        {"{\"jsonrpc\":\"2.0\",\"id\":true,\"result\":{}}", RO_RPC_INVALID},
        {"{\"jsonrpc\":\"2.0\",\"id\":[1],\"result\":{}}", RO_RPC_INVALID},
        {"{\"jsonrpc\":\"2.0\",\"id\":1}", RO_RPC_INVALID},
        {"{\"jsonrpc\":\"1.0\",\"id\":1,\"result\":{}}", RO_RPC_INVALID},
        {"{\"jsonrpc\":2.0,\"id\":1,\"result\":{}}", RO_RPC_INVALID},
        {"{\"jsonrpc\":\"2.0 \",\"id\":1,\"result\":{}}", RO_RPC_INVALID},
        {"{\"id\":1,\"result\":{}}", RO_RPC_INVALID},
        {"{\"JSONRPC\":\"2.0\",\"id\":1,\"result\":{}}", RO_RPC_INVALID},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{},\"error\":"
         "{\"code\":1,\"message\":\"m\"}}",
         RO_RPC_INVALID},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{},\"method\":\"m\"}",
         RO_RPC_INVALID},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":"
         "{\"code\":-32000,\"message\":\"m\",\"data\":[1]}}",
         RO_RPC_ERROR},
        {"{\"jsonrpc\":\"2.0\",\"error\":{\"code\":1,\"message\":\"m\"}}",
         RO_RPC_INVALID},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":1.5,"
         "\"message\":\"m\"}}",
         RO_RPC_INVALID},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":\"1\","
         "\"message\":\"m\"}}",
         RO_RPC_INVALID},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":1,"
         "\"message\":null}}",
         RO_RPC_INVALID},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":1}}",
         RO_RPC_INVALID},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"message\":\"m\"}}",
         RO_RPC_INVALID},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":1,\"code\":2,"
         "\"message\":\"m\"}}",
         RO_RPC_INVALID},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":\"m\"}", RO_RPC_INVALID},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":null}", RO_RPC_INVALID},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"id\":1,\"result\":{}}",
         RO_RPC_INVALID},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"i\\u0064\":2,\"result\":{}}",
         RO_RPC_INVALID},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{},\"result\":{}}",
         RO_RPC_INVALID},
        {"{\"jsonrpc\":\"2.0\",\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}",
         RO_RPC_INVALID},
        {"[{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}]", RO_RPC_INVALID},
        {"[]", RO_RPC_INVALID},
        {"{}", RO_RPC_INVALID},
        {"\"2.0\"", RO_RPC_INVALID},
        {"null", RO_RPC_INVALID},
        {"7", RO_RPC_INVALID},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ro_rpc rpc;
        ro_rpc_kind kind = classify(cases[i].text, &rpc);
        if (kind != cases[i].kind) {
            fprintf(stderr, "case %zu: %s\n", i, cases[i].text);
        }
        CHECK(kind == cases[i].kind);
        if (kind == RO_RPC_INVALID) {
            CHECK(rpc.id.len == 0 && rpc.method.len == 0 && rpc.params.len == 0
                  && rpc.result.len == 0 && rpc.error.len == 0);
        }
    }
}

static void
test_slices(void)
{
    ro_rpc rpc;
    CHECK(classify(" { \"method\" : \"ping\" , \"params\" : { \"a\" : 1 } ,"
                   " \"id\" : \"x\" , \"jsonrpc\" : \"2.0\" } ",
                   &rpc)
          == RO_RPC_REQUEST);
    CHECK(is(rpc.id, "\"x\""));
    CHECK(is(rpc.method, "\"ping\""));
    CHECK(is(rpc.params, "{ \"a\" : 1 }"));
    CHECK(rpc.result.len == 0 && rpc.error.len == 0);
    CHECK(ro_rpc_method_is(&rpc, "ping"));
    CHECK(!ro_rpc_method_is(&rpc, "pin"));
    CHECK(!ro_rpc_method_is(&rpc, "Ping"));
    CHECK(classify("{\"jsonrpc\":\"2.0\",\"id\":12,\"result\":[1, 2]}", &rpc)
          == RO_RPC_RESULT);
    CHECK(is(rpc.result, "[1, 2]"));
    CHECK(is(rpc.id, "12"));
    CHECK(!ro_rpc_method_is(&rpc, ""));
}

static bool
same(const char *a, const char *b)
{
    return ro_rpc_id_equal(ro_slice_str(a), ro_slice_str(b));
}

static void
test_ids(void)
{
    CHECK(same("1", "1"));
    CHECK(same("\"a\"", "\"a\""));
    CHECK(same("\"a\"", "\"\\u0061\""));
    CHECK(same("\"\\uD83D\\uDE00\"", "\"\xf0\x9f\x98\x80\""));
    CHECK(same("\"\\n\\/\"", "\"\\u000a/\""));
    CHECK(same("\"\"", "\"\""));
    CHECK(!same("\"1\"", "1"));
    CHECK(!same("1", "\"1\""));
    CHECK(!same("1", "10"));
    CHECK(!same("10", "1"));
    CHECK(!same("0", "-0"));
    CHECK(!same("\"a\"", "\"ab\""));
    CHECK(!same("\"ab\"", "\"a\""));
    CHECK(!same("\"a\"", "\"a\\u0000\""));
    CHECK(!same("", ""));
    CHECK(!same("", "1"));
    CHECK(!same("null", "null"));
    CHECK(!same("1.0", "1.0"));
}

static bool
replaced(const char *request, const char *arguments, const char *want)
{
    ro_buf out;
    ro_buf_init(&out, 4096);
    bool good = ro_rpc_replace_arguments(ro_slice_str(request),
                                         ro_slice_str(arguments), &out)
                    == RO_BUF_OK
                && is(ro_buf_slice(&out), want);
    if (!good) {
        fprintf(stderr, "got %.*s\n", (int)out.len, out.data);
    }
    ro_buf_free(&out);
    return good;
}

static void
test_replace(void)
{
    CHECK(replaced("{\"method\":\"tools/call\",\"params\":{\"name\":\"t\","
                   "\"arguments\":{},\"_meta\":{\"p\":1}},\"id\":3}",
                   "{ \"x\" : 1.10 , \"y\":[ 1E400 ] }",
                   "{\"method\":\"tools/call\",\"params\":{\"name\":\"t\","
                   "\"arguments\":{\"x\":1.10,\"y\":[1E400]},"
                   "\"_meta\":{\"p\":1}},\"id\":3}"));
    CHECK(replaced(" { \"params\" : { \"arguments\" : null } } \n", "{}",
                   " { \"params\" : { \"arguments\" : {} } } \n"));
    CHECK(replaced("{\"params\":{\"\\u0061rguments\":{\"a\":1}}}", "{}",
                   "{\"params\":{\"\\u0061rguments\":{}}}"));
    CHECK(replaced("{\"params\":{\"name\":\"t\"}}", "{\"a\":1}",
                   "{\"params\":{\"name\":\"t\",\"arguments\":{\"a\":1}}}"));
    CHECK(
        replaced("{\"params\":{}}", "{}", "{\"params\":{\"arguments\":{}}}"));
    CHECK(replaced("{\"params\":{ }}", "{}",
                   "{\"params\":{ \"arguments\":{}}}"));
    CHECK(replaced("{\"params\":null,\"id\":1}", "{}",
                   "{\"params\":{\"arguments\":{}},\"id\":1}"));
    CHECK(replaced("{\"id\":1}", "{\"a\":1}",
                   "{\"id\":1,\"params\":{\"arguments\":{\"a\":1}}}"));
    CHECK(replaced(" {} ", "{}", " {\"params\":{\"arguments\":{}}} "));
    /* Not those of another object. */
    CHECK(replaced("{\"arguments\":1,\"params\":{\"x\":{\"arguments\":2}}}",
                   "{}",
                   "{\"arguments\":1,\"params\":{\"x\":{\"arguments\":2},"
                   "\"arguments\":{}}}"));
    /* Of two members no reader gets the old one. */
    CHECK(replaced("{\"params\":{\"arguments\":1,\"arguments\":2}}", "{}",
                   "{\"params\":{\"arguments\":{},\"arguments\":{}}}"));
}

static bool
written(ro_buf_code code, ro_buf *out, const char *want)
{
    bool good = code == RO_BUF_OK && is(ro_buf_slice(out), want);
    ro_buf_free(out);
    return good;
}

static bool
answered(const char *request, const char *want)
{
    ro_buf out;
    ro_rpc rpc;
    ro_buf_init(&out, 4096);
    CHECK(classify(request, &rpc) == RO_RPC_REQUEST);
    return written(ro_rpc_write_answer(&out, &rpc), &out, want);
}

static void
test_write(void)
{
    ro_buf out;
    ro_buf_init(&out, 4096);
    CHECK(written(ro_rpc_write_error(&out, ro_slice_str("\"i\\u0064\""),
                                     RO_RPC_INTERNAL_ERROR, "a \"b\" \n"),
                  &out,
                  "{\"jsonrpc\":\"2.0\",\"id\":\"i\\u0064\",\"error\":"
                  "{\"code\":-32603,\"message\":\"a \\\"b\\\" \\n\"}}"));
    CHECK(written(ro_rpc_write_result(&out, ro_slice_str("7"),
                                      ro_slice_str("{\"a\":[]}")),
                  &out,
                  "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"a\":[]}}"));
    CHECK(answered("{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\"}",
                   "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}"));
    CHECK(answered("{\"jsonrpc\":\"2.0\",\"id\":7,"
                   "\"method\":\"sampling/createMessage\",\"params\":{}}",
                   "{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{\"code\":-32600,"
                   "\"message\":\"Sampling not supported\"}}"));
    CHECK(answered("{\"jsonrpc\":\"2.0\",\"id\":7,"
                   "\"method\":\"elicitation/create\",\"params\":{}}",
                   "{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{\"code\":-32600,"
                   "\"message\":\"Elicitation not supported\"}}"));
    CHECK(answered("{\"jsonrpc\":\"2.0\",\"id\":\"r\","
                   "\"method\":\"roots\\/list\"}",
                   "{\"jsonrpc\":\"2.0\",\"id\":\"r\",\"error\":"
                   "{\"code\":-32600,"
                   "\"message\":\"List roots not supported\"}}"));
    CHECK(answered("{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"Ping\"}",
                   "{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{\"code\":-32601,"
                   "\"message\":\"Method not found\"}}"));
    ro_buf_init(&out, 20);
    CHECK(ro_rpc_write_result(&out, ro_slice_str("7"), ro_slice_str("{}"))
          == RO_BUF_TOO_LARGE);
    ro_buf_free(&out);
}

#ifdef RO_TEST_ALLOC
static void
test_no_memory(void)
{
    const ro_slice request = ro_slice_str("{\"id\":1,\"params\":{\"n\":1}}");
    const ro_slice arguments = ro_slice_str("{\"a\":[1,2,3]}");
    size_t live = ro_alloc_live();
    bool done = false;
    for (size_t nth = 1; !done && nth < 50; nth++) {
        ro_buf out;
        ro_buf_init(&out, 4096);
        ro_alloc_fail_at(nth, 0);
        ro_buf_code code = ro_rpc_replace_arguments(request, arguments, &out);
        done = ro_alloc_count() < nth;
        CHECK(code == (done ? RO_BUF_OK : RO_BUF_NO_MEMORY));
        ro_buf_free(&out);
        CHECK(ro_alloc_live() == live);
    }
    CHECK(done);
    ro_alloc_fail_at(0, 0);
}
#endif

int
main(void)
{
    test_kinds();
    test_slices();
    test_ids();
    test_replace();
    test_write();
#ifdef RO_TEST_ALLOC
    test_no_memory();
#endif
    return check_end();
}
