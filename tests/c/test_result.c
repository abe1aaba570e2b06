/* The verdict on the call's answer. */
#include "check.h"

#include "core/json.h"
#include "mcp/result.h"

#define ANSWER(result) "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":" result "}"
#define CONTENT(blocks) ANSWER("{\"content\":[" blocks "]}")

static const struct {
    const char *message;
    ro_result_code code;
} cases[] = {
    {CONTENT(""), RO_RESULT_OK},
    {CONTENT("{\"type\":\"text\",\"text\":\"a\"}"), RO_RESULT_OK},
    {ANSWER("{\"content\":[],\"isError\":false}"), RO_RESULT_OK},
    {ANSWER("{\"content\":[],\"structuredContent\":{\"a\":1}}"), RO_RESULT_OK},
    {ANSWER("{\"content\":[],\"_meta\":{},\"x\":1}"), RO_RESULT_OK},

    /* not one answer with our id */
    {"{\"jsonrpc\":\"2.0\",\"id\":8,\"result\":{\"content\":[]}}",
     RO_RESULT_MALFORMED},
    {"{\"jsonrpc\":\"2.0\",\"id\":\"7\",\"result\":{\"content\":[]}}",
     RO_RESULT_MALFORMED},
    {"{\"jsonrpc\":\"2.0\",\"id\":7.0,\"result\":{\"content\":[]}}",
     RO_RESULT_MALFORMED},
    {"{\"jsonrpc\":\"2.0\",\"id\":7}", RO_RESULT_MALFORMED},
    {"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\"}",
     RO_RESULT_MALFORMED},
    {"{\"jsonrpc\":\"2.0\",\"method\":\"x\"}", RO_RESULT_MALFORMED},
    {"[" CONTENT("") "]", RO_RESULT_MALFORMED},
    {"{\"jsonrpc\":\"2.0\",\"id\":8,\"error\":{\"code\":1,"
     "\"message\":\"m\"}}",
     RO_RESULT_MALFORMED},
    {"{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":1,"
     "\"message\":\"m\"}}",
     RO_RESULT_MALFORMED},
    {"{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{\"code\":\"1\","
     "\"message\":\"m\"}}",
     RO_RESULT_MALFORMED},

    /* members of the result */
    {ANSWER("null"), RO_RESULT_MALFORMED},
    {ANSWER("[]"), RO_RESULT_MALFORMED},
    {ANSWER("\"x\""), RO_RESULT_MALFORMED},
    {ANSWER("{}"), RO_RESULT_MALFORMED},
    {ANSWER("{\"content\":null}"), RO_RESULT_MALFORMED},
    {ANSWER("{\"content\":{}}"), RO_RESULT_MALFORMED},
    {ANSWER("{\"content\":\"x\"}"), RO_RESULT_MALFORMED},
    {ANSWER("{\"content\":[],\"isError\":null}"), RO_RESULT_MALFORMED},
    {ANSWER("{\"content\":[],\"isError\":1}"), RO_RESULT_MALFORMED},
    {ANSWER("{\"content\":[],\"isError\":\"true\"}"), RO_RESULT_MALFORMED},
    {ANSWER("{\"content\":[],\"structuredContent\":null}"),
     RO_RESULT_MALFORMED},
    {ANSWER("{\"content\":[],\"structuredContent\":[]}"), RO_RESULT_MALFORMED},
    {ANSWER("{\"content\":[],\"structuredContent\":1}"), RO_RESULT_MALFORMED},
    {ANSWER("{\"content\":[],\"structuredContent\":[],\"isError\":true}"),
     RO_RESULT_MALFORMED},
    {ANSWER("{\"isError\":true}"), RO_RESULT_MALFORMED},

    /* the tool failed */
    {"{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{\"code\":1,"
     "\"message\":\"m\"}}",
     RO_RESULT_TOOL_FAILED},
    {ANSWER("{\"content\":[],\"isError\":true}"), RO_RESULT_TOOL_FAILED},
    {ANSWER("{\"content\":[5,{\"type\":\"?\"}],\"isError\":true}"),
     RO_RESULT_TOOL_FAILED},
    {ANSWER("{\"content\":[{\"type\":\"audio\"}],\"isError\":true}"),
     RO_RESULT_TOOL_FAILED},

    /* blocks */
    {CONTENT("5"), RO_RESULT_MALFORMED},
    {CONTENT("null"), RO_RESULT_MALFORMED},
    {CONTENT("\"text\""), RO_RESULT_MALFORMED},
    {CONTENT("{}"), RO_RESULT_MALFORMED},
    {CONTENT("{\"text\":\"a\"}"), RO_RESULT_MALFORMED},
    {CONTENT("{\"type\":null,\"text\":\"a\"}"), RO_RESULT_MALFORMED},
    {CONTENT("{\"type\":5,\"text\":\"a\"}"), RO_RESULT_MALFORMED},
    {CONTENT("[\"type\",\"text\"]"), RO_RESULT_MALFORMED},
    {CONTENT("{\"type\":\"Text\",\"text\":\"a\"}"), RO_RESULT_MALFORMED},
    {CONTENT("{\"type\":\"text\\u0000\",\"text\":\"a\"}"),
     RO_RESULT_MALFORMED},
    {CONTENT("{\"type\":\"video\",\"data\":\"\",\"mimeType\":\"a\"}"),
     RO_RESULT_MALFORMED},
    {CONTENT("{\"type\":\"tool_use\",\"name\":\"a\",\"id\":\"b\","
             "\"input\":{}}"),
     RO_RESULT_MALFORMED},
    {CONTENT("{\"type\":\"text\"}"), RO_RESULT_MALFORMED},
    {CONTENT("{\"type\":\"text\",\"text\":null}"), RO_RESULT_MALFORMED},
    {CONTENT("{\"type\":\"text\",\"text\":1}"), RO_RESULT_MALFORMED},
    {CONTENT("{\"type\":\"te\\u0078t\",\"text\":\"a\",\"x\":1}"),
     RO_RESULT_OK},
    {CONTENT("{\"type\":\"text\",\"text\":\"a\",\"annotations\":null,"
             "\"_meta\":null}"),
     RO_RESULT_OK},
    {CONTENT("{\"type\":\"text\",\"text\":\"a\",\"annotations\":"
             "{\"audience\":[\"user\"]},\"_meta\":{\"a\":1}}"),
     RO_RESULT_OK},
    {CONTENT("{\"type\":\"text\",\"text\":\"a\",\"annotations\":[]}"),
     RO_RESULT_MALFORMED},
    {CONTENT("{\"type\":\"text\",\"text\":\"a\",\"_meta\":\"\"}"),
     RO_RESULT_MALFORMED},

    {CONTENT("{\"type\":\"image\",\"data\":\"\",\"mimeType\":\"i/p\"}"),
     RO_RESULT_OK},
    {CONTENT("{\"type\":\"image\",\"data\":\"not base64\","
             "\"mimeType\":\"\"}"),
     RO_RESULT_OK},
    {CONTENT("{\"type\":\"image\",\"data\":\"\"}"), RO_RESULT_MALFORMED},
    {CONTENT("{\"type\":\"image\",\"mimeType\":\"i/p\"}"),
     RO_RESULT_MALFORMED},
    {CONTENT("{\"type\":\"image\",\"data\":1,\"mimeType\":\"i/p\"}"),
     RO_RESULT_MALFORMED},
    {CONTENT("{\"type\":\"image\",\"data\":\"\",\"mimeType\":null}"),
     RO_RESULT_MALFORMED},

    {CONTENT("{\"type\":\"audio\",\"data\":\"\",\"mimeType\":\"a/w\"}"),
     RO_RESULT_UNSUPPORTED},
    {CONTENT("{\"type\":\"audio\",\"data\":\"\"}"), RO_RESULT_MALFORMED},
    {CONTENT("{\"type\":\"audio\",\"data\":\"\",\"mimeType\":\"a/w\"},"
             "{\"type\":\"text\",\"text\":\"a\"}"),
     RO_RESULT_UNSUPPORTED},
    {CONTENT("{\"type\":\"audio\",\"data\":\"\",\"mimeType\":\"a/w\"},"
             "{\"type\":\"text\"}"),
     RO_RESULT_MALFORMED},

    {CONTENT("{\"type\":\"resource_link\",\"uri\":\"x:y\","
             "\"name\":\"n\"}"),
     RO_RESULT_OK},
    {CONTENT("{\"type\":\"resource_link\",\"uri\":\"x:y\",\"name\":\"n\","
             "\"mimeType\":null}"),
     RO_RESULT_OK},
    {CONTENT("{\"type\":\"resource_link\",\"uri\":\"x:y\",\"name\":\"n\","
             "\"mimeType\":1}"),
     RO_RESULT_MALFORMED},
    {CONTENT("{\"type\":\"resource_link\",\"uri\":\"x:y\"}"),
     RO_RESULT_MALFORMED},
    {CONTENT("{\"type\":\"resource_link\",\"name\":\"n\"}"),
     RO_RESULT_MALFORMED},
    {CONTENT("{\"type\":\"resource_link\",\"uri\":1,\"name\":\"n\"}"),
     RO_RESULT_MALFORMED},

    {CONTENT("{\"type\":\"resource\",\"resource\":{\"uri\":\"x:y\","
             "\"text\":\"t\"}}"),
     RO_RESULT_OK},
    {CONTENT("{\"type\":\"resource\",\"resource\":{\"uri\":\"x:y\","
             "\"blob\":\"t\",\"mimeType\":\"a/b\",\"_meta\":{}}}"),
     RO_RESULT_OK},
    {CONTENT("{\"type\":\"resource\",\"resource\":{\"uri\":\"x:y\","
             "\"blob\":\"t\",\"text\":5}}"),
     RO_RESULT_OK},
    {CONTENT("{\"type\":\"resource\",\"resource\":{\"uri\":\"x:y\"}}"),
     RO_RESULT_MALFORMED},
    {CONTENT("{\"type\":\"resource\",\"resource\":{\"text\":\"t\"}}"),
     RO_RESULT_MALFORMED},
    {CONTENT("{\"type\":\"resource\",\"resource\":{\"uri\":\"x:y\","
             "\"text\":5}}"),
     RO_RESULT_MALFORMED},
    {CONTENT("{\"type\":\"resource\",\"resource\":{\"uri\":\"x:y\","
             "\"text\":\"t\",\"mimeType\":5}}"),
     RO_RESULT_MALFORMED},
    {CONTENT("{\"type\":\"resource\",\"resource\":{\"uri\":\"x:y\","
             "\"text\":\"t\",\"_meta\":5}}"),
     RO_RESULT_MALFORMED},
    {CONTENT("{\"type\":\"resource\",\"resource\":\"x\"}"),
     RO_RESULT_MALFORMED},
    {CONTENT("{\"type\":\"resource\"}"), RO_RESULT_MALFORMED},
};

static void
test_table(void)
{
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const ro_json_limits limits = {1u << 20, 64, false};
        ro_slice message = ro_slice_str(cases[i].message);
        ro_result result;
        CHECK(ro_json_validate(message, &limits, NULL) == RO_JSON_OK);
        ro_result_code code
            = ro_result_judge(message, ro_slice_str("7"), &result);
        if (code != cases[i].code) {
            fprintf(stderr, "%s: %d\n", cases[i].message, (int)code);
        }
        CHECK(code == cases[i].code);
        CHECK(ro_result_judge(message, ro_slice_str("7"), NULL) == code);
        CHECK((result.content.len > 0) == (code == RO_RESULT_OK));
        CHECK(result.structured_content.len == 0 || code == RO_RESULT_OK);
    }
}

static void
test_slices(void)
{
    ro_slice message
        = ro_slice_str(ANSWER("{\"structuredContent\" : { \"a\" : 1.10 } ,"
                              " \"content\" : [ ] }"));
    ro_result result;
    CHECK(ro_result_judge(message, ro_slice_str("7"), &result)
          == RO_RESULT_OK);
    CHECK(ro_slice_equal(result.content, ro_slice_str("[ ]")));
    CHECK(ro_slice_equal(result.structured_content,
                         ro_slice_str("{ \"a\" : 1.10 }")));
    message
        = ro_slice_str("{\"jsonrpc\":\"2.0\",\"id\":\"\\u0061\",\"result\":"
                       "{\"content\":[]}}");
    CHECK(ro_result_judge(message, ro_slice_str("\"a\""), &result)
          == RO_RESULT_OK);
    CHECK(result.structured_content.len == 0);
    CHECK(ro_result_judge(message, ro_slice_of(NULL, 0), &result)
          == RO_RESULT_MALFORMED);
}

static void
test_codes(void)
{
    CHECK(ro_result_envelope_code(RO_RESULT_OK) == RO_CODE_OK);
    CHECK(ro_result_envelope_code(RO_RESULT_MALFORMED)
          == RO_CODE_MALFORMED_RESULT);
    CHECK(ro_result_envelope_code(RO_RESULT_TOOL_FAILED)
          == RO_CODE_TOOL_FAILED);
    CHECK(ro_result_envelope_code(RO_RESULT_UNSUPPORTED)
          == RO_CODE_RUNTIME_FAILURE);
}

int
main(void)
{
    test_table();
    test_slices();
    test_codes();
    return check_end();
}
