#include "check.h"
#include "core/alloc.h"
#include "core/json.h"
#include "core/json_write.h"

#define S(text) ro_slice_str(text)

static bool
is(const ro_buf *out, const char *want)
{
    return ro_slice_equal(ro_buf_slice(out), S(want));
}

/* Everything that a document is made of. */
static void
write_all(ro_writer *to)
{
    ro_write_open(to, '{');
    ro_write_member(to, "a", S("1.10"));
    ro_write_member_text(to, "b", "\xc3\xa4\"\n{");
    ro_write_key(to, "c");
    ro_write_open(to, '[');
    ro_write_int(to, -32603);
    ro_write_minified(to, S("{ \"x y\" : [ ] }"));
    ro_write_open(to, '[');
    ro_write_close(to, ']');
    ro_write_string(to, S("["));
    ro_write_raw(to, S("null"));
    ro_write_close(to, ']');
    ro_write_key(to, "d");
    ro_write_open(to, '{');
    ro_write_close(to, '}');
    ro_write_close(to, '}');
}

static const char all[]
    = "{\"a\":1.10,\"b\":\"\\u00e4\\\"\\n{\",\"c\":[-32603,"
      "{\"x y\":[]},[],\"[\",null],\"d\":{}}";

static void
test_a_document(void)
{
    static const ro_json_limits limits = {4096, 64, false};
    ro_buf out;
    ro_buf_init(&out, 4096);
    ro_writer to = ro_writer_of(&out);
    write_all(&to);
    CHECK(ro_write_done(&to) == RO_BUF_OK);
    CHECK(is(&out, all));
    CHECK(ro_json_validate(ro_buf_slice(&out), &limits, NULL) == RO_JSON_OK);
    ro_buf_free(&out);
}

/* Bytes that were there are no part of the document. */
static void
test_a_document_behind_another(void)
{
    ro_buf out;
    ro_buf_init(&out, 64);
    CHECK(ro_buf_append_char(&out, '1') == RO_BUF_OK);
    ro_writer to = ro_writer_of(&out);
    ro_write_open(&to, '[');
    ro_write_close(&to, ']');
    CHECK(ro_write_done(&to) == RO_BUF_OK);
    CHECK(is(&out, "1[]"));
    ro_buf_free(&out);
}

/* Members go into a document that is there, whatever its white space. */
static void
test_commas_behind_spans(void)
{
    static const struct {
        const char *span;
        const char *want;
    } cases[] = {
        {"{", "{\"k\":1"},
        {"{ \n\t\r", "{ \n\t\r\"k\":1"},
        {"{\"a\":\"{\"", "{\"a\":\"{\",\"k\":1"},
        {"{\"a\":[] ", "{\"a\":[] ,\"k\":1"},
        {"{\"a\":1,", "{\"a\":1,\"k\":1"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ro_buf out;
        ro_buf_init(&out, 64);
        ro_writer to = ro_writer_of(&out);
        ro_write_span(&to, S(cases[i].span));
        ro_write_key(&to, "k");
        ro_write_raw(&to, S("1"));
        CHECK(ro_write_done(&to) == RO_BUF_OK);
        CHECK(is(&out, cases[i].want));
        ro_buf_free(&out);
    }
}

/* Whatever byte is one too many, nothing of the document stays. */
static void
test_the_bound_at_each_byte(void)
{
    for (size_t max = 0; max <= sizeof(all); max++) {
        ro_buf out;
        ro_buf_init(&out, max + 1);
        CHECK(ro_buf_append_char(&out, 'x') == RO_BUF_OK);
        ro_writer to = ro_writer_of(&out);
        write_all(&to);
        bool fits = max >= sizeof(all) - 1;
        CHECK(ro_write_done(&to) == (fits ? RO_BUF_OK : RO_BUF_TOO_LARGE));
        CHECK(out.len == (fits ? sizeof(all) : 1));
        ro_buf_free(&out);
    }
}

static void
test_no_memory(void)
{
    size_t live = ro_alloc_live();
    size_t nth = 0;
    bool done = false;
    char long_text[1024];
    memset(long_text, 'x', sizeof(long_text));
    long_text[sizeof(long_text) - 1] = '\0';
    while (!done && nth < 20) {
        ro_buf out;
        ro_buf_init(&out, 8192);
        ro_alloc_fail_at(++nth, 0);
        ro_writer to = ro_writer_of(&out);
        write_all(&to);
        ro_write_string(&to, S(long_text));
        ro_buf_code code = ro_write_done(&to);
        done = ro_alloc_count() < nth;
        ro_alloc_fail_at(0, 0);
        CHECK(code == (done ? RO_BUF_OK : RO_BUF_NO_MEMORY));
        CHECK(done == (out.len != 0));
        ro_buf_free(&out);
        CHECK(ro_alloc_live() == live);
    }
    CHECK(done && nth > 2);
}

int
main(void)
{
    test_a_document();
    test_a_document_behind_another();
    test_commas_behind_spans();
    test_the_bound_at_each_byte();
    test_no_memory();
    return check_end();
}
