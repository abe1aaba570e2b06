/* The exact bytes, messages and exit codes of every envelope. */
#include "check.h"

#include "core/alloc.h"
#include "core/doc.h"
#include "core/envelope.h"
#include "core/limits.h"

#define HEAD                                                                  \
    "{\"schema_version\":1,\"command\":\"tools call-read-only\",\"data\":"
#define FAILED HEAD "{\"ok\":false,\"status\":\"error\",\"code\":"

static const struct {
    ro_code code;
    int exit_code;
    const char *name;
    const char *text;
} cases[] = {
    {RO_CODE_INVALID_COMMAND, 2, "invalid_command",
     FAILED "\"invalid_command\",\"message\":"
            "\"Use: dcode tools call-read-only TOOL --json\"}}"},
    {RO_CODE_INVALID_TOOL_NAME, 2, "invalid_tool_name",
     FAILED "\"invalid_tool_name\",\"message\":"
            "\"The MCP tool name is invalid.\"}}"},
    {RO_CODE_INTERRUPTED, 130, "interrupted",
     FAILED "\"interrupted\",\"message\":"
            "\"The MCP tool call was interrupted.\"}}"},
    {RO_CODE_TIMEOUT, 1, "timeout",
     FAILED "\"timeout\",\"message\":"
            "\"The managed MCP tool call exceeded its time limit.\"}}"},
    {RO_CODE_INPUT_REQUIRED, 1, "input_required",
     FAILED "\"input_required\",\"message\":"
            "\"A JSON object is required on standard input.\"}}"},
    {RO_CODE_INPUT_TOO_LARGE, 1, "input_too_large",
     FAILED "\"input_too_large\",\"message\":"
            "\"The JSON input exceeds the managed size limit.\"}}"},
    {RO_CODE_INVALID_INPUT, 1, "invalid_input",
     FAILED "\"invalid_input\",\"message\":"
            "\"Standard input must be one JSON object.\"}}"},
    {RO_CODE_RUNTIME_FAILURE, 1, "runtime_failure",
     FAILED "\"runtime_failure\",\"message\":"
            "\"The managed MCP tool call failed.\"}}"},
    {RO_CODE_NOT_MCP_TOOL, 1, "not_mcp_tool",
     FAILED "\"not_mcp_tool\",\"message\":"
            "\"The selected tool is not an MCP tool.\"}}"},
    {RO_CODE_TOOL_NOT_FOUND, 1, "tool_not_found",
     FAILED "\"tool_not_found\",\"message\":"
            "\"The exact MCP tool is unavailable.\"}}"},
    {RO_CODE_AMBIGUOUS_TOOL, 1, "ambiguous_tool",
     FAILED "\"ambiguous_tool\",\"message\":"
            "\"The exact MCP tool name is ambiguous.\"}}"},
    {RO_CODE_TOOL_NOT_READ_ONLY, 1, "tool_not_read_only",
     FAILED "\"tool_not_read_only\",\"message\":"
            "\"The selected MCP tool is not coherently read-only.\"}}"},
    {RO_CODE_RESULT_TOO_LARGE, 1, "result_too_large",
     FAILED "\"result_too_large\",\"message\":"
            "\"The MCP tool result exceeds the managed size limit.\"}}"},
    {RO_CODE_MALFORMED_RESULT, 1, "malformed_result",
     FAILED "\"malformed_result\",\"message\":"
            "\"The MCP tool returned an unsupported result.\"}}"},
    {RO_CODE_TOOL_FAILED, 1, "tool_failed",
     FAILED "\"tool_failed\",\"message\":"
            "\"The MCP tool reported a failure.\"}}"},
};

static bool
is(const ro_buf *buf, const char *text)
{
    return ro_slice_equal(ro_buf_slice(buf), ro_slice_str(text));
}

static void
test_errors(void)
{
    CHECK(sizeof(cases) / sizeof(cases[0]) == RO_CODES - 1);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ro_buf out;
        ro_code code = RO_CODE_OK;
        ro_buf_init(&out, RO_MAX_STDOUT);
        CHECK((size_t)cases[i].code == i + 1);
        CHECK(ro_envelope_error(cases[i].code, &out) == RO_ENVELOPE_BUILT);
        CHECK(is(&out, cases[i].text));
        CHECK(ro_code_exit(cases[i].code) == cases[i].exit_code);
        CHECK(strcmp(ro_code_name(cases[i].code), cases[i].name) == 0);
        CHECK(strstr(cases[i].text, ro_code_message(cases[i].code)) != NULL);
        CHECK(ro_code_of_name(ro_slice_str(cases[i].name), &code));
        CHECK(code == cases[i].code);
        ro_buf_free(&out);
    }
}

static void
test_names(void)
{
    ro_code code = RO_CODE_TIMEOUT;
    ro_buf out;
    CHECK(ro_code_of_name(ro_slice_str("ok"), &code) && code == RO_CODE_OK);
    CHECK(ro_code_exit(RO_CODE_OK) == 0);
    CHECK(ro_code_message(RO_CODE_OK)[0] == '\0');
    CHECK(!ro_code_of_name(ro_slice_str(""), &code));
    CHECK(!ro_code_of_name(ro_slice_str("Timeout"), &code));
    CHECK(!ro_code_of_name(ro_slice_str("timeout "), &code));
    CHECK(code == RO_CODE_OK);
    CHECK(strcmp(ro_code_name((ro_code)77), "runtime_failure") == 0);
    CHECK(ro_code_exit((ro_code)77) == 1);
    ro_buf_init(&out, RO_MAX_STDOUT);
    CHECK(ro_envelope_error(RO_CODE_OK, &out) == RO_ENVELOPE_BUILT);
    CHECK(strstr(out.data, "runtime_failure") != NULL);
    ro_buf_free(&out);
}

static ro_envelope_code
ok(const char *content, const char *structured, ro_buf *out, size_t max)
{
    return ro_envelope_ok(ro_slice_str("s_t"), ro_slice_str(content),
                          ro_slice_str(structured), out, max);
}

static void
test_ok(void)
{
    ro_buf out;
    ro_buf_init(&out, RO_MAX_STDOUT);
    CHECK(ok("[{\"type\":\"text\",\"text\":\"\\u00e4\"}]", "", &out,
             RO_MAX_STDOUT)
          == RO_ENVELOPE_BUILT);
    CHECK(is(&out, HEAD "{\"ok\":true,\"status\":\"ok\",\"tool\":\"s_t\","
                        "\"content\":[{\"type\":\"text\","
                        "\"text\":\"\\u00e4\"}]}}"));
    ro_buf_clear(&out);
    CHECK(ok("[]", "{\"a\":1.10,\"b\":\"\\u0000\xc3\xa4\",\"c\":1E400}", &out,
             RO_MAX_STDOUT)
          == RO_ENVELOPE_BUILT);
    CHECK(is(&out, HEAD "{\"ok\":true,\"status\":\"ok\",\"tool\":\"s_t\","
                        "\"content\":[],\"structured_content\":"
                        "{\"a\":1.10,\"b\":\"\\u0000\xc3\xa4\","
                        "\"c\":1E400}}}"));
    ro_buf_clear(&out);
    CHECK(ro_envelope_ok(ro_slice_str("a\"\xc3\xa4"), ro_slice_str("[]"),
                         ro_slice_of(NULL, 0), &out, RO_MAX_STDOUT)
          == RO_ENVELOPE_BUILT);
    CHECK(strstr(out.data, "\"tool\":\"a\\\"\\u00e4\"") != NULL);
    ro_buf_free(&out);
}

/* max counts the whole document, and nothing is appended beyond it. */
static void
test_bound(void)
{
    ro_buf out;
    ro_buf_init(&out, RO_MAX_STDOUT);
    CHECK(ok("[]", "{}", &out, RO_MAX_STDOUT) == RO_ENVELOPE_BUILT);
    size_t len = out.len;
    CHECK(ok("[]", "{}", &out, len) == RO_ENVELOPE_BUILT);
    CHECK(out.len == 2 * len);
    for (size_t max = 0; max < len; max++) {
        CHECK(ok("[]", "{}", &out, max) == RO_ENVELOPE_TOO_LARGE);
        CHECK(out.len == 2 * len);
    }
    ro_buf_free(&out);
    ro_buf_init(&out, len - 1);
    CHECK(ok("[]", "{}", &out, RO_MAX_STDOUT) == RO_ENVELOPE_TOO_LARGE);
    CHECK(out.len == 0);
    CHECK(ro_envelope_error(RO_CODE_TIMEOUT, &out) == RO_ENVELOPE_TOO_LARGE);
    CHECK(out.len == 0);
    ro_buf_free(&out);
}

#ifdef RO_TEST_ALLOC
static ro_envelope_code
build_error(ro_buf *out)
{
    return ro_envelope_error(RO_CODE_TIMEOUT, out);
}

static ro_envelope_code
build_ok(ro_buf *out)
{
    return ok("[1]", "{\"a\":1}", out, RO_MAX_STDOUT);
}

static void
test_no_memory(ro_envelope_code (*build)(ro_buf *out), int sticky)
{
    size_t live = ro_alloc_live();
    size_t nth = 0;
    bool done = false;
    while (!done && nth < 500) {
        ro_buf out;
        ro_buf_init(&out, RO_MAX_STDOUT);
        ro_alloc_fail_at(++nth, sticky);
        ro_envelope_code code = build(&out);
        done = ro_alloc_count() < nth;
        CHECK(code == (done ? RO_ENVELOPE_BUILT : RO_ENVELOPE_NO_MEMORY));
        CHECK(done == (out.len > 0));
        ro_buf_free(&out);
        CHECK(ro_alloc_live() == live);
    }
    CHECK(done && nth > 10);
    ro_alloc_fail_at(0, 0);
}
#endif

int
main(void)
{
#ifdef RO_TEST_ALLOC
    ro_doc_use_alloc();
#endif
    test_errors();
    test_names();
    test_ok();
    test_bound();
#ifdef RO_TEST_ALLOC
    test_no_memory(build_error, 0);
    test_no_memory(build_error, 1);
    test_no_memory(build_ok, 0);
    test_no_memory(build_ok, 1);
#endif
    return check_end();
}
