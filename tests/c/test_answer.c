/* What an answer that came whole becomes: what goes up, or why it does not. */
#include "session_rig.h"

#define OPENED(id, rest) "{\"jsonrpc\":\"2.0\",\"id\":" id "," rest
#define ANSWER(id, rest) OPENED(id, rest "}")

/* A body of a start, pieces with commas between them, and an end. */
struct made {
    const char *start;
    const char *piece;
    size_t count;
    const char *end;
    const char *comma; /* "," when NULL */
};

static const struct made *made;

static char *
make(size_t *len)
{
    const char *comma = made->comma == NULL ? "," : made->comma;
    size_t size = strlen(made->start) + strlen(made->end)
                  + made->count * (strlen(made->piece) + strlen(comma)) + 1;
    char *body = malloc(size);
    char *end = stpcpy(body, made->start);
    for (size_t i = 0; i < made->count; i++) {
        end = stpcpy(end, i == 0 ? "" : comma);
        end = stpcpy(end, made->piece);
    }
    end = stpcpy(end, made->end);
    *len = (size_t)(end - body);
    return body;
}

static bool
say_made(int fd, const char *request, unsigned nth)
{
    size_t len;
    char head[160];
    char *body = make(&len);
    (void)request;
    (void)nth;
    (void)snprintf(head, sizeof(head),
                   "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                   "Mcp-Session-Id: s-1\r\nContent-Length: %zu\r\n\r\n",
                   len);
    server_say(fd, head);
    server_say_bytes(fd, body, len);
    free(body);
    return true;
}

#define DIGITS (RO_MAX_NUMBER - 4) /* beside four of the start */
#define TEXT "{\"type\":\"text\",\"text\":\"\"}"

/* ---- the call ---- */

static const struct {
    struct made made;
    ro_code code;
} calls[] = {
    /* a number that goes up, and one that the SDK's reader refuses */
    {{OPENED("2", "\"result\":{\"content\":[{\"type\":\"text\",\"text\":"
                  "\"\",\"annotations\":{\"priority\":1111"),
      "1", DIGITS, "}}]}}", ""},
     RO_CODE_OK},
    {{OPENED("2", "\"result\":{\"content\":[{\"type\":\"text\",\"text\":"
                  "\"\",\"annotations\":{\"priority\":1111"),
      "1", DIGITS + 1, "}}]}}", ""},
     RO_CODE_MALFORMED_RESULT},
    /* more values than may go up */
    {{OPENED("2", "\"result\":{\"content\":[{\"type\":\"text\",\"text\":"
                  "\"\",\"annotations\":{\"audience\":["),
      "1", RO_MAX_UP_VALUES - 100, "]}}]}}", NULL},
     RO_CODE_OK},
    {{OPENED("2", "\"result\":{\"content\":[{\"type\":\"text\",\"text\":"
                  "\"\",\"annotations\":{\"audience\":["),
      "1", RO_MAX_UP_VALUES, "]}}]}}", NULL},
     RO_CODE_RESULT_TOO_LARGE},
    /* an envelope that cannot fit, whatever is redacted: of strings only the
     * quotes are counted */
    {{OPENED("2", "\"result\":{\"content\":[],\"structuredContent\":{\"a\":["),
      "1", RO_MAX_STDOUT / 4, "]}}}", NULL},
     RO_CODE_OK},
    {{OPENED("2", "\"result\":{\"content\":[],\"structuredContent\":{\"a\":["),
      "1", RO_MAX_STDOUT / 2, "]}}}", NULL},
     RO_CODE_RESULT_TOO_LARGE},
    {{OPENED("2", "\"result\":{\"content\":[],\"structuredContent\":{\"a\":["),
      "\"0123456789\"", RO_MAX_STDOUT / 8, "]}}}", NULL},
     RO_CODE_OK},
    {{OPENED("2", "\"result\":{\"content\":["), TEXT,
      RO_MAX_STDOUT / RO_MIN_BLOCK - 500, "]}}", NULL},
     RO_CODE_OK},
    {{OPENED("2", "\"result\":{\"content\":["), TEXT,
      RO_MAX_STDOUT / RO_MIN_BLOCK + 1, "]}}", NULL},
     RO_CODE_RESULT_TOO_LARGE},
    /* deeper than a document may be */
    {{OPENED("2", "\"result\":{\"content\":[],\"structuredContent\":{\"a\":"),
      "[", 61, "", ""},
     RO_CODE_MALFORMED_RESULT},
};

static void
test_what_the_call_may_bring(void)
{
    static const struct script script = {.answer = {[CALL] = say_made}};
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        struct rig rig;
        bool good = calls[i].code == RO_CODE_OK;
        made = &calls[i].made;
        rig_start(&rig, &script);
        CHECK(rig_reach_call(&rig));
        CHECK(rig_ask(&rig, CALL_BODY, 200, good ? "content" : "\"error\""));
        if (rig_outcome(&rig) != (int)calls[i].code) {
            fprintf(stderr, "call %zu: outcome %d\n", i, rig_outcome(&rig));
        }
        CHECK(rig_outcome(&rig) == (int)calls[i].code);
        rig_stop(&rig);
    }
}

#define WITH_SCHEMA                                                           \
    "{\"name\":\"read\",\"inputSchema\":{\"type\":\"object\"},"               \
    "\"outputSchema\":{\"type\":\"object\"},"                                 \
    "\"annotations\":{\"readOnlyHint\":true}}"

static bool
list_with_schema(int fd, const char *request, unsigned nth)
{
    (void)request;
    (void)nth;
    say_json(fd, "", ANSWER("1", "\"result\":{\"tools\":[" WITH_SCHEMA "]}"));
    return true;
}

static bool
call_without_structure(int fd, const char *request, unsigned nth)
{
    (void)request;
    (void)nth;
    say_json(fd, "", ANSWER("2", "\"result\":{\"content\":[" TEXT "]}"));
    return true;
}

/* The SDK is given structuredContent only where it has a schema for it. */
static void
test_structure_goes_up_with_a_schema(void)
{
    static const struct {
        struct script script;
        bool goes_up;
    } cases[] = {
        {{.answer = {[LIST] = list_with_schema}}, true},
        {{.answer = {0}}, false},
        {{.answer
          = {[LIST] = list_with_schema, [CALL] = call_without_structure}},
         false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rig rig;
        rig_start(&rig, &cases[i].script);
        CHECK(rig_reach_call(&rig));
        ro_reply *reply = rig_wait(&rig, rig_submit(&rig, CALL_BODY), 8000);
        CHECK(reply_has(reply, "\"content\""));
        CHECK(reply_has(reply, "\"structuredContent\":{\"n\":1.10}")
              == cases[i].goes_up);
        CHECK(rig_outcome(&rig) == RO_CODE_OK);
        ro_reply_free(reply);
        rig_stop(&rig);
    }
}

/* ---- discovery ---- */

#define MEETING "\"protocolVersion\":\"2025-06-18\",\"capabilities\":{}"
#define ENTRY                                                                 \
    "{\"name\":\"read\",\"inputSchema\":{\"type\":\"object\"},"               \
    "\"annotations\":{\"readOnlyHint\":true,\"title\":"

static const struct {
    enum kind kind;
    struct made made;
    ro_reason note; /* NONE: it goes up */
} found[] = {
    {INITIALIZE,
     {"{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{" MEETING
      ",\"instructions\":1111",
      "1", DIGITS, "}}", ""},
     RO_REASON_NONE},
    {INITIALIZE,
     {"{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{" MEETING
      ",\"instructions\":1111",
      "1", DIGITS + 1, "}}", ""},
     RO_REASON_NUMBER_TOO_LONG},
    {INITIALIZE,
     {"{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{" MEETING
      ",\"instructions\":[",
      "1", RO_MAX_UP_VALUES, "]}}", NULL},
     RO_REASON_TOO_MANY_VALUES},
    {INITIALIZE,
     {"{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{" MEETING
      ",\"instructions\":",
      "[", 63, "", ""},
     RO_REASON_NOT_JSON},
    {INITIALIZE,
     {ANSWER("0", "\"error\":{\"code\":1,\"message\":\"no\"}"), "", 0, "",
      NULL},
     RO_REASON_REFUSED_REQUEST},
    {INITIALIZE,
     {ANSWER("0", "\"result\":[]"), "", 0, "", NULL},
     RO_REASON_REFUSED_REQUEST},
    {INITIALIZE,
     {ANSWER("1", "\"result\":{}"), "", 0, "", NULL},
     RO_REASON_NOT_AN_ANSWER},
    {INITIALIZE,
     {ANSWER("0", "\"method\":\"ping\""), "", 0, "", NULL},
     RO_REASON_NOT_AN_ANSWER},
    {INITIALIZE, {"{\"id\":0,", "", 0, "", NULL}, RO_REASON_NOT_JSON},
    {LIST,
     {"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"tools\":[" ENTRY "1111",
      "1", DIGITS, "}}]}}", ""},
     RO_REASON_NONE},
    {LIST,
     {"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"tools\":[" ENTRY "1111",
      "1", DIGITS + 1, "}}]}}", ""},
     RO_REASON_NUMBER_TOO_LONG},
    {LIST,
     {"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"tools\":[" ENTRY "[", "1",
      RO_MAX_UP_VALUES, "]}}]}}", NULL},
     RO_REASON_TOO_MANY_VALUES},
    {LIST,
     {"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"tools\":[],"
      "\"nextCursor\":\"",
      "x", RO_MAX_CURSOR - 2, "\"}}", ""},
     RO_REASON_NONE},
    {LIST,
     {"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"tools\":[],"
      "\"nextCursor\":\"",
      "x", RO_MAX_CURSOR + 1, "\"}}", ""},
     RO_REASON_LIST_CURSOR_TOO_LARGE},
};

static void
test_what_discovery_may_bring(void)
{
    for (size_t i = 0; i < sizeof(found) / sizeof(found[0]); i++) {
        struct script script = {.answer = {NULL}};
        bool good = found[i].note == RO_REASON_NONE;
        bool list = found[i].kind == LIST;
        struct rig rig;
        script.answer[found[i].kind] = say_made;
        made = &found[i].made;
        rig_start(&rig, &script);
        CHECK(!list || rig_ask(&rig, INITIALIZE_BODY, 200, "capabilities"));
        CHECK(rig_ask(&rig, list ? LIST_BODY : INITIALIZE_BODY, 200,
                      good ? "\"result\"" : "\"error\""));
        if (rig_noted(&rig) != found[i].note) {
            fprintf(stderr, "discovery %zu: noted %s\n", i,
                    ro_reason_word(rig_noted(&rig)));
        }
        CHECK(rig_noted(&rig) == found[i].note);
        rig_stop(&rig);
    }
}

static bool
say_and_hold(int fd, const char *request, unsigned nth)
{
    size_t len;
    char *body = make(&len);
    (void)request;
    (void)nth;
    server_say(fd, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                   "Connection: close\r\n\r\n");
    server_say_bytes(fd, body, len);
    free(body);
    (void)server_peer_closes(fd, 8000);
    return false;
}

/* A body that is wrong already is not waited for, nor the end of a right one
 * whose length nobody has said. */
static void
test_a_body_without_an_end(void)
{
    static const struct {
        struct made made;
        ro_reason note;
    } cases[] = {
        {{ANSWER("0", "\"result\":{" MEETING "}"), "", 0, "", NULL},
         RO_REASON_NONE},
        {{ANSWER("0", "\"error\":{\"code\":1,\"message\":\"\"}"), "", 0, "",
          NULL},
         RO_REASON_REFUSED_REQUEST},
        {{ANSWER("1", "\"result\":{}"), "", 0, "", NULL},
         RO_REASON_NOT_AN_ANSWER},
        {{ANSWER("0", "\"method\":\"x\""), "", 0, "", NULL},
         RO_REASON_NOT_AN_ANSWER},
        {{"{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":", "[", 70, "", ""},
         RO_REASON_NOT_JSON},
    };
    static const struct script script
        = {.answer = {[INITIALIZE] = say_and_hold}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rig rig;
        made = &cases[i].made;
        rig_start(&rig, &script);
        CHECK(rig_ask(&rig, INITIALIZE_BODY, 200,
                      cases[i].note == RO_REASON_NONE ? "\"result\""
                                                      : "\"error\""));
        CHECK(rig_noted(&rig) == cases[i].note);
        rig_stop(&rig);
    }
}

/* What the server speaks is noted as it was said, if it is a version. */
static void
test_the_version_is_noted(void)
{
    static const struct {
        struct made made;
        const char *noted;
    } cases[] = {
        {{"{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{" MEETING "}}", "", 0, "",
          NULL},
         "\"2025-06-18\""},
        {{"{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{}}", "", 0, "", NULL},
         ""},
        {{"{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{\"protocolVersion\":1}}",
          "", 0, "", NULL},
         ""},
        {{"{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{\"protocolVersion\":\"",
          "x", RO_MAX_VERSION, "\"}}", ""},
         ""},
        {{"{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{\"protocolVersion\":"
          "\"123456789 123456789 123456789 123456789 123456789 "
          "123456789 12",
          "", 0, "\"}}", NULL},
         "\"123456789 123456789 123456789 123456789 123456789 "
         "123456789 12\""},
    };
    static const struct script script = {.answer = {[INITIALIZE] = say_made}};
    _Static_assert(RO_MAX_VERSION == 64, "as long as the last, with quotes");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rig rig;
        made = &cases[i].made;
        rig_start(&rig, &script);
        CHECK(rig_ask(&rig, INITIALIZE_BODY, 200, "\"result\""));
        CHECK(ro_slice_equal(
            ro_discovery_version(rig.discovery, ro_slice_str("srv")),
            ro_slice_str(cases[i].noted)));
        rig_stop(&rig);
    }
}

#define PING "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"ping\"}"

/* Any other method's result goes up as it is. */
static void
test_another_method(void)
{
    static const struct {
        struct made made;
        const char *up;
    } cases[] = {
        {{ANSWER("3", "\"result\":{\"a\":[1.10,{}]}"), "", 0, "", NULL},
         "{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{\"a\":[1.10,{}]}}"},
        {{ANSWER("3", "\"error\":{\"code\":1,\"message\":\"\"}"), "", 0, "",
          NULL},
         "\"error\""},
        {{ANSWER("4", "\"result\":{}"), "", 0, "", NULL}, "\"error\""},
    };
    static const struct script script = {.answer = {[OTHER] = say_made}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rig rig;
        made = &cases[i].made;
        rig_start(&rig, &script);
        CHECK(rig_ask(&rig, PING, 200, cases[i].up));
        CHECK(rig_seen(&rig, OTHER) == 1);
        rig_stop(&rig);
    }
}

/* ---- the session's id ---- */

static size_t id_len;

static bool
say_long_id(int fd, const char *request, unsigned nth)
{
    char head[128];
    char *headers = calloc(1, id_len + 64);
    (void)request;
    (void)nth;
    char *end = stpcpy(headers, "Mcp-Session-Id: ");
    memset(end, 'i', id_len);
    (void)stpcpy(end + id_len, "\r\n");
    (void)snprintf(head, sizeof(head),
                   "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                   "Content-Length: %zu\r\n",
                   strlen(INITIALIZE_ANSWER));
    server_say(fd, head);
    server_say(fd, headers);
    server_say(fd, "\r\n" INITIALIZE_ANSWER);
    free(headers);
    return true;
}

/* One that is too long, or nothing, is none: it does not go up, and no DELETE
 * is sent for it. */
static void
test_an_id_has_a_bound(void)
{
    static const struct {
        size_t len;
        bool is_one;
    } cases[] = {{1, true},
                 {RO_MAX_HEADER_VALUE, true},
                 {RO_MAX_HEADER_VALUE + 1, false},
                 {0, false}};
    static const struct script script
        = {.answer = {[INITIALIZE] = say_long_id}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rig rig;
        id_len = cases[i].len;
        rig_start(&rig, &script);
        ro_reply *reply
            = rig_wait(&rig, rig_submit(&rig, INITIALIZE_BODY), 8000);
        CHECK(reply_has(reply, "capabilities"));
        CHECK(reply != NULL
              && ro_header_count(reply->headers.items, reply->headers.count,
                                 "mcp-session-id")
                     == (id_len <= RO_MAX_HEADER_VALUE));
        ro_reply_free(reply);
        ro_mcp_close(rig.mcp, 5000);
        /* none of them is the id that the DELETE takes from the session */
        CHECK(rig_seen(&rig, DELETE) == cases[i].is_one);
        rig_stop(&rig);
    }
}

/* ---- the audit ---- */

static bool
list_two(int fd, const char *request, unsigned nth)
{
    (void)request;
    (void)nth;
    say_json(fd, "",
             ANSWER("1", "\"result\":{\"tools\":[" GOOD_ENTRY
                         ",{\"name\":\"b\",\"inputSchema\":{}}]}"));
    return true;
}

/* It asks for no tool: every entry is kept, and nothing can be called. */
static void
test_the_audit_keeps_all(void)
{
    static const struct script script = {.answer = {[LIST] = list_two}};
    struct rig rig;
    unsigned entries = 0;
    rig_start(&rig, &script);
    CHECK(rig_close(&rig));
    rig.discovery = ro_discovery_new(ro_slice_str(""));
    rig.gate = NULL;
    rig.record = NULL;
    rig.net = ro_net_new();
    rig.mcp = ro_mcp_new(rig.net, rig.discovery, NULL, NULL);
    rig.session = rig_session(&rig, "srv");
    CHECK(rig_ask(&rig, INITIALIZE_BODY, 200, "capabilities"));
    CHECK(rig_ask(&rig, LIST_BODY, 200, "\"name\":\"b\""));
    for (const ro_entry *each = NULL;
         (each = ro_discovery_next(rig.discovery, ro_slice_str("srv"), each))
         != NULL;) {
        entries++;
    }
    CHECK(entries == 2);
    CHECK(rig_noted(&rig) == RO_REASON_NONE);
    rig_stop(&rig);
}

int
main(void)
{
    test_what_the_call_may_bring();
    test_structure_goes_up_with_a_schema();
    test_what_discovery_may_bring();
    test_a_body_without_an_end();
    test_the_version_is_noted();
    test_another_method();
    test_an_id_has_a_bound();
    test_the_audit_keeps_all();
    return check_end();
}
