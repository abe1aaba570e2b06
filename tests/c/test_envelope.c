/* The exact bytes, messages and exit codes of every envelope. */
#include "check.h"

#include "core/alloc.h"
#include "core/envelope.h"
#include "core/limits.h"

#define HEAD                                                                  \
    "{\"schema_version\":1,\"command\":\"tools call-read-only\",\"data\":"
#define ORACLE "deepagents_ro/qualify/lab/codes.txt"
#define MAX_LINE 512

static bool
is(const ro_buf *buf, const char *text)
{
    return ro_slice_equal(ro_buf_slice(buf), ro_slice_str(text));
}

/* Each line of the oracle: code, exit status and message, with tabs between;
 * the codes in the order of the enum. */
static void
test_errors(void)
{
    FILE *file = fopen(ORACLE, "r");
    char line[MAX_LINE];
    int index = 0;

    CHECK(file != NULL);
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        const char *name = strtok(line, "\t");
        const char *status = strtok(NULL, "\t");
        const char *message = strtok(NULL, "\n");
        char text[MAX_LINE];
        ro_code code = RO_CODE_OK;
        ro_buf out;

        CHECK(name != NULL && status != NULL && message != NULL);
        CHECK(ro_code_of_name(ro_slice_str(name), &code));
        CHECK((int)code == ++index);
        CHECK(strcmp(ro_code_name(code), name) == 0);
        CHECK(ro_code_exit(code) == atoi(status));
        ro_buf_init(&out, RO_MAX_STDOUT);
        CHECK(ro_envelope_error(code, &out) == RO_BUF_OK);
        snprintf(text, sizeof(text),
                 HEAD "{\"ok\":false,\"status\":\"error\",\"code\":\"%s\","
                      "\"message\":\"%s\"}}",
                 name, message);
        CHECK(is(&out, text));
        ro_buf_free(&out);
    }
    CHECK(index == RO_CODES - 1);
    if (file != NULL) {
        fclose(file);
    }
}

static void
test_names(void)
{
    ro_code code = RO_CODE_TIMEOUT;
    ro_buf out;
    CHECK(ro_code_of_name(ro_slice_str("ok"), &code) && code == RO_CODE_OK);
    CHECK(ro_code_exit(RO_CODE_OK) == 0);
    CHECK(!ro_code_of_name(ro_slice_str(""), &code));
    CHECK(!ro_code_of_name(ro_slice_str("Timeout"), &code));
    CHECK(!ro_code_of_name(ro_slice_str("timeout "), &code));
    CHECK(code == RO_CODE_OK);
    CHECK(strcmp(ro_code_name((ro_code)77), "runtime_failure") == 0);
    CHECK(ro_code_exit((ro_code)77) == 1);
    ro_buf_init(&out, RO_MAX_STDOUT);
    CHECK(ro_envelope_error(RO_CODE_OK, &out) == RO_BUF_OK);
    CHECK(strstr(out.data, "runtime_failure") != NULL);
    ro_buf_free(&out);
}

static ro_buf_code
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
          == RO_BUF_OK);
    CHECK(is(&out, HEAD "{\"ok\":true,\"status\":\"ok\",\"tool\":\"s_t\","
                        "\"content\":[{\"type\":\"text\","
                        "\"text\":\"\\u00e4\"}]}}"));
    ro_buf_clear(&out);
    CHECK(ok("[]", "{\"a\":1.10,\"b\":\"\\u0000\xc3\xa4\",\"c\":1E400}", &out,
             RO_MAX_STDOUT)
          == RO_BUF_OK);
    CHECK(is(&out, HEAD "{\"ok\":true,\"status\":\"ok\",\"tool\":\"s_t\","
                        "\"content\":[],\"structured_content\":"
                        "{\"a\":1.10,\"b\":\"\\u0000\xc3\xa4\","
                        "\"c\":1E400}}}"));
    ro_buf_clear(&out);
    CHECK(ro_envelope_ok(ro_slice_str("a\"\xc3\xa4"), ro_slice_str("[]"),
                         ro_slice_of(NULL, 0), &out, RO_MAX_STDOUT)
          == RO_BUF_OK);
    CHECK(strstr(out.data, "\"tool\":\"a\\\"\\u00e4\"") != NULL);
    ro_buf_clear(&out);
    CHECK(ok("[\"\\u00E4\xc3\xa4\x7f\xe2\x82\xac\xf0\x9f\x98\x80\"]",
             "{\"a\":\"\xc3\xa4\"}", &out, RO_MAX_STDOUT)
          == RO_BUF_OK);
    CHECK(strstr(out.data, "[\"\\u00E4\\u00e4\x7f\\u20ac\\ud83d\\ude00\"],"
                           "\"structured_content\":{\"a\":\"\xc3\xa4\"}}}")
          != NULL);
    ro_buf_free(&out);
}

/* max counts the whole document, and nothing is appended beyond it. */
static void
test_bound(void)
{
    ro_buf out;
    ro_buf_init(&out, RO_MAX_STDOUT);
    CHECK(ok("[]", "{}", &out, RO_MAX_STDOUT) == RO_BUF_OK);
    size_t len = out.len;
    CHECK(ok("[]", "{}", &out, len) == RO_BUF_OK);
    CHECK(out.len == 2 * len);
    for (size_t max = 0; max < len; max++) {
        CHECK(ok("[]", "{}", &out, max) == RO_BUF_TOO_LARGE);
        CHECK(out.len == 2 * len);
    }
    ro_buf_free(&out);
    ro_buf_init(&out, len - 1);
    CHECK(ok("[]", "{}", &out, RO_MAX_STDOUT) == RO_BUF_TOO_LARGE);
    CHECK(out.len == 0);
    CHECK(ro_envelope_error(RO_CODE_TIMEOUT, &out) == RO_BUF_TOO_LARGE);
    CHECK(out.len == 0);
    ro_buf_free(&out);
}

#ifdef RO_TEST_ALLOC
static ro_buf_code
build_error(ro_buf *out)
{
    return ro_envelope_error(RO_CODE_TIMEOUT, out);
}

static ro_buf_code
build_ok(ro_buf *out)
{
    return ok("[\"\xc3\xa4\"]", "{\"a\":1}", out, RO_MAX_STDOUT);
}

static void
test_no_memory(ro_buf_code (*build)(ro_buf *out), int sticky)
{
    size_t live = ro_alloc_live();
    size_t nth = 0;
    bool done = false;
    while (!done && nth < 500) {
        ro_buf out;
        ro_buf_init(&out, RO_MAX_STDOUT);
        ro_alloc_fail_at(++nth, sticky);
        ro_buf_code code = build(&out);
        done = ro_alloc_count() < nth;
        CHECK(code == (done ? RO_BUF_OK : RO_BUF_NO_MEMORY));
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
