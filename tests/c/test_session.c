/* Streamable HTTP sessions: one exchange at a time, the gate, the list. */
#include "session_rig.h"

#define MESSAGE(id, rest) "{\"jsonrpc\":\"2.0\",\"id\":" id "," rest "}"

/* ---- the whole call ---- */

static atomic_uint exact_arguments;

static bool
call_with_exact_arguments(int fd, const char *request, unsigned nth)
{
    if (strstr(request, "\"params\":{\"name\":\"read\",\"arguments\":"
                        "{\"a\":1.10}}}")
        != NULL) {
        atomic_fetch_add(&exact_arguments, 1);
    }
    (void)nth;
    return answer_by_default(CALL, fd);
}

static void
test_a_call_from_start_to_end(void)
{
    static const struct script script
        = {.answer = {[CALL] = call_with_exact_arguments}};
    struct rig rig;
    ro_net_stats stats;
    rig_start(&rig, &script);
    CHECK(rig_reach_call(&rig));
    ro_reply *reply = rig_wait(&rig, rig_submit(&rig, CALL_BODY), 5000);
    CHECK(reply != NULL && reply->status == 200);
    /* no output schema, so the SDK has nothing to check */
    CHECK(reply_has(reply, "{\"content\":[]}"));
    ro_reply_free(reply);
    CHECK(rig_outcome(&rig) == RO_CODE_OK);
    CHECK(ro_slice_equal(ro_record_structured(rig.record),
                         ro_slice_str("{\"n\":1.10}")));
    CHECK(atomic_load(&exact_arguments) == 1);
    CHECK(rig_ask(&rig, LIST_BODY, 200, "readOnlyHint"));
    CHECK(rig_seen(&rig, LIST) == 1);
    CHECK(rig_see(&rig, DELETE, 2, 2000)); /* one a session */
    ro_mcp_close(rig.mcp, 250);
    CHECK(rig_seen(&rig, DELETE) == 2);
    CHECK(rig_count(&rig, 0) == 0);
    ro_net_get_stats(rig.net, &stats);
    CHECK(stats.connections <= 2);
    CHECK(stats.active == 0);
    rig_stop(&rig);
}

static void
test_what_never_reaches_the_network(void)
{
    static const struct script script;
    struct rig rig;
    rig_start(&rig, &script);
    ro_session *session = rig.session;
    struct {
        const char *method;
        const char *url;
        const char *body;
        long status;
    } cases[] = {
        {"GET", rig.url, NULL, 405},
        {"DELETE", rig.url, NULL, 200},
        {"PUT", rig.url, "{}", 503},
        {"POST", rig.url, "no message", 503},
        {"POST", rig.url, "[" INITIALIZE_BODY "]", 503},
        {"POST", rig.url, NULL, 503},
        {"POST", "http://127.0.0.1:1/mcp", INITIALIZED_BODY, 202},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ro_reply *reply
            = rig_wait(&rig,
                       rig_submit_to(&rig, session, cases[i].method,
                                     cases[i].url, cases[i].body),
                       2000);
        CHECK(reply != NULL && reply->status == cases[i].status);
        ro_reply_free(reply);
    }
    /* the notification that went nowhere has broken the session */
    CHECK(rig_ask(&rig, INITIALIZE_BODY, 200, "error"));
    CHECK(rig_noted(&rig) == RO_REASON_REFUSED);
    for (int kind = 0; kind < KINDS; kind++) {
        CHECK(rig_seen(&rig, (enum kind)kind) == 0);
    }
    rig_stop(&rig);
}

/* ---- one exchange that fails ---- */

enum after { CLOSE, HOLD, RESET };

struct failure {
    const char *what;
    const char *head;
    const char *body;
    enum after after;
    ro_code code;
};

static const struct failure *failing;

static bool
say_failure(int fd, const char *request, unsigned nth)
{
    (void)request;
    (void)nth;
    server_say(fd, failing->head);
    server_say(fd, failing->body);
    if (failing->after == HOLD) {
        (void)server_peer_closes(fd, 5000);
    }
    if (failing->after == RESET) {
        struct linger now = {1, 0};
        (void)poll(NULL, 0, 30);
        (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
        int null = socket(AF_INET, SOCK_STREAM, 0);
        (void)dup2(null, fd); /* closes it now, with a reset */
        (void)close(null);
    }
    return false;
}

#define JSON_HEAD                                                             \
    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"                   \
    "Connection: close\r\n\r\n"
#define TYPED(type)                                                           \
    "HTTP/1.1 200 OK\r\nContent-Type: " type "\r\nConnection: close\r\n\r\n"
#define STATUS(line) "HTTP/1.1 " line "\r\nContent-Length: 0\r\n\r\n"

static const struct failure failures[] = {
    {"500", STATUS("500 No"), "", HOLD, RO_CODE_RUNTIME_FAILURE},
    {"404", STATUS("404 No"), "", HOLD, RO_CODE_RUNTIME_FAILURE},
    {"401",
     "HTTP/1.1 401 No\r\nWWW-Authenticate: Bearer\r\n"
     "Content-Length: 0\r\n\r\n",
     "", HOLD, RO_CODE_RUNTIME_FAILURE},
    {"408", STATUS("408 No"), "", CLOSE, RO_CODE_RUNTIME_FAILURE},
    {"417", STATUS("417 No"), "", HOLD, RO_CODE_RUNTIME_FAILURE},
    {"503", "HTTP/1.1 503 No\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n",
     "", HOLD, RO_CODE_RUNTIME_FAILURE},
    {"302", "HTTP/1.1 302 No\r\nLocation: /mcp\r\nContent-Length: 0\r\n\r\n",
     "", HOLD, RO_CODE_RUNTIME_FAILURE},
    {"307", "HTTP/1.1 307 No\r\nLocation: /mcp\r\nContent-Length: 0\r\n\r\n",
     "", HOLD, RO_CODE_RUNTIME_FAILURE},
    {"202", STATUS("202 OK"), "", HOLD, RO_CODE_RUNTIME_FAILURE},
    {"204", "HTTP/1.1 204 OK\r\n\r\n", "", HOLD, RO_CODE_RUNTIME_FAILURE},
    {"no type", "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", CALL_ANSWER,
     CLOSE, RO_CODE_RUNTIME_FAILURE},
    {"text/html", TYPED("text/html"), "<html>", HOLD, RO_CODE_RUNTIME_FAILURE},
    {"application/jsonx", TYPED("application/jsonx"), CALL_ANSWER, CLOSE,
     RO_CODE_RUNTIME_FAILURE},
    {"nothing", "", "", CLOSE, RO_CODE_RUNTIME_FAILURE},
    {"reset", "", "", RESET, RO_CODE_RUNTIME_FAILURE},
    {"half a head", "HTTP/1.1 200 O", "", CLOSE, RO_CODE_RUNTIME_FAILURE},
    {"truncated",
     "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
     "Content-Length: 4000\r\n\r\n",
     CALL_ANSWER, CLOSE, RO_CODE_RUNTIME_FAILURE},
    {"truncated by a reset",
     "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
     "Content-Length: 4000\r\n\r\n",
     CALL_ANSWER, RESET, RO_CODE_RUNTIME_FAILURE},
    {"no JSON", JSON_HEAD, "no JSON", CLOSE, RO_CODE_MALFORMED_RESULT},
    {"empty", JSON_HEAD, "", CLOSE, RO_CODE_MALFORMED_RESULT},
    {"half", JSON_HEAD, "{\"jsonrpc\":\"2.0\",\"id\":2,", CLOSE,
     RO_CODE_MALFORMED_RESULT},
    {"no JSON, and goes on", JSON_HEAD, "{\"id\":2,\"result\":no", HOLD,
     RO_CODE_MALFORMED_RESULT},
    {"NaN, and goes on", JSON_HEAD,
     "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"a\":NaN", HOLD,
     RO_CODE_MALFORMED_RESULT},
    {"a key twice, and goes on", JSON_HEAD,
     "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"a\":1,\"\\u0061\":2", HOLD,
     RO_CODE_MALFORMED_RESULT},
    {"a lone surrogate, and goes on", JSON_HEAD,
     "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"a\":\"\\ud800x", HOLD,
     RO_CODE_MALFORMED_RESULT},
    {"wrong id", JSON_HEAD, MESSAGE("3", "\"result\":{\"content\":[]}"), CLOSE,
     RO_CODE_MALFORMED_RESULT},
    {"wrong id, and goes on", JSON_HEAD,
     MESSAGE("3", "\"result\":{\"content\":[]}") " ", HOLD,
     RO_CODE_MALFORMED_RESULT},
    {"neither, and goes on", JSON_HEAD, MESSAGE("2", "\"results\":{}"), HOLD,
     RO_CODE_MALFORMED_RESULT},
    {"an id of another type", JSON_HEAD,
     MESSAGE("\"2\"", "\"result\":{\"content\":[]}"), CLOSE,
     RO_CODE_MALFORMED_RESULT},
    {"a batch", JSON_HEAD, "[" CALL_ANSWER "]", CLOSE,
     RO_CODE_MALFORMED_RESULT},
    {"a request", JSON_HEAD, MESSAGE("2", "\"method\":\"ping\""), CLOSE,
     RO_CODE_MALFORMED_RESULT},
    {"content is no list", JSON_HEAD,
     MESSAGE("2", "\"result\":{\"content\":{}}"), CLOSE,
     RO_CODE_MALFORMED_RESULT},
    {"structuredContent is no object", JSON_HEAD,
     MESSAGE("2", "\"result\":{\"content\":[],\"structuredContent\":[]}"),
     CLOSE, RO_CODE_MALFORMED_RESULT},
    {"isError", JSON_HEAD,
     MESSAGE("2", "\"result\":{\"content\":[],\"isError\":true}"), CLOSE,
     RO_CODE_TOOL_FAILED},
    {"error", JSON_HEAD,
     MESSAGE("2", "\"error\":{\"code\":1,\"message\":\"no\"}"), CLOSE,
     RO_CODE_TOOL_FAILED},
};

static void
test_each_failure_is_one_answer_and_one_code(void)
{
    static const struct script script = {.answer = {[CALL] = say_failure}};
    for (size_t i = 0; i < sizeof(failures) / sizeof(failures[0]); i++) {
        struct rig rig;
        failing = &failures[i];
        rig_start(&rig, &script);
        CHECK(rig_reach_call(&rig));
        int64_t start = ro_monotonic_ms();
        uint64_t ticket = rig_submit(&rig, CALL_BODY);
        ro_reply *reply = rig_wait(&rig, ticket, 4000);
        bool good = reply != NULL && reply->status == 200
                    && reply_has(reply, "\"id\":2")
                    && reply_has(reply, "\"error\"")
                    && rig_outcome(&rig) == (int)failing->code
                    && ro_monotonic_ms() - start < PROMPT_MS;
        if (!good) {
            fprintf(stderr, "%s: outcome %d after %d ms\n", failing->what,
                    rig_outcome(&rig), (int)(ro_monotonic_ms() - start));
        }
        CHECK(good);
        ro_reply_free(reply);
        CHECK(rig_count(&rig, ticket) == 0);
        CHECK(rig_seen(&rig, CALL) == 1);
        CHECK(ro_gate_state_of(rig.gate) == RO_GATE_USED);
        rig_stop(&rig);
    }
}

#define LIST_OF "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"tools\":["
#define LEVELS_8 "[[[[[[[["
#define LEVELS_64                                                             \
    LEVELS_8 LEVELS_8 LEVELS_8 LEVELS_8 LEVELS_8 LEVELS_8 LEVELS_8 LEVELS_8

/* The same at discovery: an error for the SDK, a note for the audit. */
static void
test_a_failed_discovery_is_noted(void)
{
    static const struct script script = {.answer = {[LIST] = say_failure}};
    static const struct {
        struct failure failure;
        ro_reason note;
    } cases[] = {
        {{"500", STATUS("500 No"), "", HOLD, 0}, RO_REASON_HTTP_5XX},
        {{"401", STATUS("401 No"), "", HOLD, 0}, RO_REASON_HTTP_401},
        {{"300", STATUS("300 No"), "", HOLD, 0}, RO_REASON_REDIRECTED},
        {{"307 to nowhere", STATUS("307 No"), "", HOLD, 0},
         RO_REASON_REDIRECTED},
        {{"html", TYPED("text/html"), "", HOLD, 0}, RO_REASON_NOT_MCP},
        {{"close", "", "", CLOSE, 0}, RO_REASON_CLOSED_BY_SERVER},
        {{"no JSON", JSON_HEAD, "{\"a\":no", HOLD, 0}, RO_REASON_NOT_JSON},
        {{"wrong id", JSON_HEAD, MESSAGE("7", "\"result\":{\"tools\":[]}"),
          CLOSE, 0},
         RO_REASON_LIST_MALFORMED},
        {{"wrong id", JSON_HEAD, MESSAGE("7", "\"result\":{\"tools\":[]}"),
          HOLD, 0},
         RO_REASON_NOT_AN_ANSWER},
        {{"no tools", JSON_HEAD, MESSAGE("1", "\"result\":{}"), CLOSE, 0},
         RO_REASON_LIST_MALFORMED},
        {{"error", JSON_HEAD,
          MESSAGE("1", "\"error\":{\"code\":1,\"message\":\"\"}"), CLOSE, 0},
         RO_REASON_LIST_MALFORMED},
        {{"too deep", JSON_HEAD, LIST_OF LEVELS_64 "[", HOLD, 0},
         RO_REASON_LIST_TOO_DEEP},
        {{"too deep", JSON_HEAD, LIST_OF LEVELS_64 "[", CLOSE, 0},
         RO_REASON_LIST_TOO_DEEP},
        {{"as deep", JSON_HEAD, LIST_OF LEVELS_64, CLOSE, 0},
         RO_REASON_NOT_JSON},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rig rig;
        failing = &cases[i].failure;
        rig_start(&rig, &script);
        CHECK(rig_ask(&rig, INITIALIZE_BODY, 200, "capabilities"));
        int64_t start = ro_monotonic_ms();
        CHECK(rig_ask(&rig, LIST_BODY, 200, "\"error\""));
        CHECK(ro_monotonic_ms() - start < PROMPT_MS);
        ro_reason note = rig_noted(&rig);
        bool noted = note == cases[i].note;
        if (!noted) {
            fprintf(stderr, "%s: noted %s\n", failing->what,
                    ro_reason_word(note));
        }
        CHECK(noted);
        CHECK(rig_outcome(&rig) == -1);
        rig_stop(&rig);
    }
}

/* ---- redirects and challenges ---- */

static bool
redirect(int fd, const char *request, unsigned nth)
{
    if (nth == 0) {
        server_say(fd, "HTTP/1.1 307 Elsewhere\r\nLocation: /mcp/\r\n"
                       "Content-Length: 0\r\n\r\n");
        return true;
    }
    EXPECT(strncmp(request, "POST /mcp/ ", 11) == 0);
    return answer_by_default(INITIALIZE, fd);
}

/* Everything behind initialize is for the place that it was moved to. */
static bool
answer_at(enum kind kind, int fd, const char *request)
{
    EXPECT(strncmp(request, "POST /mcp/ ", 11) == 0);
    return answer_by_default(kind, fd);
}

static bool
initialized_there(int fd, const char *request, unsigned nth)
{
    (void)nth;
    return answer_at(INITIALIZED, fd, request);
}

static bool
list_there(int fd, const char *request, unsigned nth)
{
    (void)nth;
    return answer_at(LIST, fd, request);
}

static bool
call_there(int fd, const char *request, unsigned nth)
{
    (void)nth;
    return answer_at(CALL, fd, request);
}

static bool
redirect_without_id(int fd, const char *request, unsigned nth)
{
    if (nth % 2 == 0) {
        EXPECT(strncmp(request, "POST /mcp ", 10) == 0);
        return redirect(fd, request, 0);
    }
    EXPECT(strncmp(request, "POST /mcp/ ", 11) == 0);
    say_json(fd, "", INITIALIZE_ANSWER);
    return true;
}

/* As the SDK does it: each session asks at the configured place, follows the
 * redirect of its initialize, and goes on at the configured place. */
static void
begin_redirected(struct rig *rig)
{
    const char *paths[] = {"/mcp", "/mcp/"};
    for (size_t i = 0; i < 2; i++) {
        snprintf(rig->url, sizeof(rig->url), "http://127.0.0.1:%d%s",
                 rig->server->port, paths[i]);
        ro_reply *reply
            = rig_wait(rig, rig_submit(rig, INITIALIZE_BODY), 3000);
        CHECK(reply != NULL && reply->status == (i == 0 ? 307 : 200));
        ro_reply_free(reply);
    }
    snprintf(rig->url, sizeof(rig->url), "http://127.0.0.1:%d/mcp",
             rig->server->port);
    ro_reply *reply = rig_wait(rig, rig_submit(rig, INITIALIZED_BODY), 3000);
    CHECK(reply != NULL && reply->status == 202);
    ro_reply_free(reply);
}

static void
test_a_redirected_initialize_moves_the_session(void)
{
    static const struct script script
        = {.answer = {[INITIALIZE] = redirect_without_id,
                      [INITIALIZED] = initialized_there,
                      [LIST] = list_there,
                      [CALL] = call_there}};
    struct rig rig;
    rig_start(&rig, &script);
    begin_redirected(&rig);
    CHECK(rig_ask(&rig, LIST_BODY, 200, "read"));
    CHECK(rig_open_gate(&rig, "{}"));
    rig.session = rig_session(&rig, "srv");
    begin_redirected(&rig);
    CHECK(rig_ask(&rig, CALL_BODY, 200, "content"));
    CHECK(rig_seen(&rig, INITIALIZE) == 4 && rig_seen(&rig, INITIALIZED) == 2);
    CHECK(rig_seen(&rig, LIST) == 1 && rig_seen(&rig, CALL) == 1);
    rig_stop(&rig);
}

static atomic_uint deletes_at_home;

static bool
delete_at_home(int fd, const char *request, unsigned nth)
{
    (void)nth;
    if (strncmp(request, "DELETE /mcp/ ", 13) == 0) {
        atomic_fetch_add(&deletes_at_home, 1);
    }
    return answer_by_default(DELETE, fd);
}

static void
test_a_redirected_session_ends_where_it_began(void)
{
    static const struct script script
        = {.answer = {[INITIALIZE] = redirect, [DELETE] = delete_at_home}};
    struct rig rig;
    rig_start(&rig, &script);
    ro_reply *reply = rig_wait(&rig, rig_submit(&rig, INITIALIZE_BODY), 3000);
    CHECK(reply != NULL && reply->status == 307);
    CHECK(reply != NULL
          && ro_header_count(reply->headers.items, reply->headers.count,
                             "location")
                 == 1);
    ro_reply_free(reply);
    snprintf(rig.url, sizeof(rig.url), "http://127.0.0.1:%d/mcp/",
             rig.server->port);
    CHECK(rig_ask(&rig, INITIALIZE_BODY, 200, "capabilities"));
    ro_mcp_close(rig.mcp, 2000);
    CHECK(rig_seen(&rig, DELETE) == 1);
    CHECK(atomic_load(&deletes_at_home) == 1);
    rig_stop(&rig);
}

/* ---- bounds ---- */

static size_t padded_size;
static const char *padded_start;
static const char *padded_end;

static bool
say_padded(int fd, const char *request, unsigned nth)
{
    char head[256];
    size_t fixed = strlen(padded_start) + strlen(padded_end);
    char *pad = malloc(padded_size - fixed);
    (void)request;
    (void)nth;
    memset(pad, 'x', padded_size - fixed);
    snprintf(head, sizeof(head),
             "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
             "Content-Length: %zu\r\n\r\n",
             padded_size);
    server_say(fd, head);
    server_say(fd, padded_start);
    server_say_bytes(fd, pad, padded_size - fixed);
    server_say(fd, padded_end);
    free(pad);
    return true;
}

static void
test_the_bound_of_the_call(void)
{
    static const struct script script = {.answer = {[CALL] = say_padded}};
    padded_start = "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"content\":[],"
                   "\"structuredContent\":{\"a\":\"";
    padded_end = "\"}}}";
    for (int over = -1; over <= 1; over++) {
        struct rig rig;
        padded_size = (size_t)((int)RO_MAX_ANSWER + over);
        rig_start(&rig, &script);
        CHECK(rig_reach_call(&rig));
        CHECK(rig_ask(&rig, CALL_BODY, 200, over > 0 ? "error" : "content"));
        CHECK(rig_outcome(&rig)
              == (over > 0 ? RO_CODE_RESULT_TOO_LARGE : RO_CODE_OK));
        rig_stop(&rig);
    }
}

static void
test_the_bound_of_a_list(void)
{
    static const struct script script = {.answer = {[LIST] = say_padded}};
    padded_start
        = "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"tools\":[" GOOD_ENTRY
          "],\"a\":\"";
    padded_end = "\"}}";
    for (int over = -1; over <= 1; over++) {
        struct rig rig;
        padded_size = (size_t)((int)RO_MAX_DISCOVERY + over);
        rig_start(&rig, &script);
        CHECK(rig_ask(&rig, LIST_BODY, 200,
                      over > 0 ? "error" : "readOnlyHint"));
        ro_reason note = rig_noted(&rig);
        CHECK(over > 0 ? note == RO_REASON_TOO_LARGE : note == RO_REASON_NONE);
        rig_stop(&rig);
    }
}

static void
test_the_bound_of_everything(void)
{
    static const struct script script;
    for (int over = 0; over <= 1; over++) {
        struct rig rig;
        rig_start(&rig, &script);
        CHECK(rig_reach_call(&rig));
        size_t so_far = 2 * strlen(INITIALIZE_ANSWER) + strlen(LIST_ANSWER);
        CHECK(ro_discovery_count(rig.discovery, RO_MAX_TOTAL - so_far
                                                    - strlen(CALL_ANSWER)
                                                    + (size_t)over));
        CHECK(rig_ask(&rig, CALL_BODY, 200, over ? "error" : "content"));
        CHECK(rig_outcome(&rig)
              == (over ? RO_CODE_RESULT_TOO_LARGE : RO_CODE_OK));
        rig_stop(&rig);
    }
}

static bool
say_without_end(int fd, const char *request, unsigned nth)
{
    static const char chunk[] = "8000\r\n";
    static char space[0x8000];
    (void)request;
    (void)nth;
    memset(space, ' ', sizeof(space));
    server_say(fd, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                   "Transfer-Encoding: chunked\r\n\r\n");
    while (!server_peer_closes(fd, 0)) {
        server_say(fd, chunk);
        server_say_bytes(fd, space, sizeof(space));
        server_say(fd, "\r\n");
    }
    return false;
}

static void
test_an_endless_body_ends_at_the_bound(void)
{
    static const struct script script = {.answer = {[CALL] = say_without_end}};
    struct rig rig;
    ro_net_stats stats;
    rig_start(&rig, &script);
    CHECK(rig_reach_call(&rig));
    CHECK(rig_ask(&rig, CALL_BODY, 200, "error"));
    CHECK(rig_outcome(&rig) == RO_CODE_RESULT_TOO_LARGE);
    ro_net_get_stats(rig.net, &stats);
    CHECK(stats.bytes_in < RO_MAX_ANSWER + 65536);
    rig_stop(&rig);
}

/* ---- the gate ---- */

static void
test_nothing_is_called_before_the_verdict(void)
{
    static const struct script script;
    struct rig rig;
    rig_start(&rig, &script);
    CHECK(rig_discover(&rig));
    CHECK(rig_ask(&rig, CALL_BODY, 200, "error"));
    CHECK(rig_outcome(&rig) == RO_CODE_RUNTIME_FAILURE);
    CHECK(rig_seen(&rig, CALL) == 0);
    rig_stop(&rig);
}

static void
test_only_the_tool_is_called(void)
{
    static const char *const bodies[] = {
        "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\","
        "\"params\":{\"name\":\"write\",\"arguments\":{}}}",
        "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\","
        "\"params\":{\"name\":\"srv_read\"}}",
        "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\","
        "\"params\":{\"name\":5}}",
        "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\","
        "\"params\":[\"read\"]}",
        "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\"}",
        "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools\\/call\"}",
    };
    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        static const struct script script;
        struct rig rig;
        rig_start(&rig, &script);
        CHECK(rig_reach_call(&rig));
        CHECK(rig_ask(&rig, bodies[i], 200, "error"));
        CHECK(rig_outcome(&rig) == RO_CODE_RUNTIME_FAILURE);
        CHECK(rig_seen(&rig, CALL) == 0 && rig_seen(&rig, OTHER) == 0);
        rig_stop(&rig);
    }
}

static void
test_another_server_cannot_use_the_gate(void)
{
    static const struct script script;
    struct rig rig;
    rig_start(&rig, &script);
    CHECK(rig_reach_call(&rig));
    rig.session = rig_session(&rig, "other");
    CHECK(rig_ask(&rig, CALL_BODY, 200, "error"));
    CHECK(rig_seen(&rig, CALL) == 0);
    rig_stop(&rig);
}

static bool
say_called(int fd, const char *request, unsigned nth)
{
    (void)request;
    (void)nth;
    return answer_by_default(CALL, fd);
}

/* Nor can a method that is written with escapes get a second call. */
static void
test_an_escaped_name_is_the_same_name(void)
{
    static const struct script script = {.answer = {[OTHER] = say_called}};
    struct rig rig;
    rig_start(&rig, &script);
    CHECK(rig_reach_call(&rig));
    CHECK(rig_ask(&rig,
                  "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":"
                  "\"tools\\u002fcall\",\"params\":{\"name\":\"re\\u0061d\"}}",
                  200, "content"));
    CHECK(rig_ask(&rig, CALL_BODY, 200, "error"));
    CHECK(rig_seen(&rig, CALL) + rig_seen(&rig, OTHER) == 1);
    CHECK(rig_outcome(&rig) == RO_CODE_OK);
    rig_stop(&rig);
}

struct caller {
    struct rig *rig;
    pthread_barrier_t *start;
    uint64_t first;
    unsigned taken;
};

static void *
call_often(void *arg)
{
    struct caller *caller = arg;
    struct rig *rig = caller->rig;
    (void)pthread_barrier_wait(caller->start);
    for (uint64_t i = 0; i < 25; i++) {
        caller->taken += ro_session_submit(rig->session, caller->first + i,
                                           "POST", rig->url, NULL, 0,
                                           ro_slice_str(CALL_BODY), true);
    }
    return NULL;
}

static bool
call_slowly(int fd, const char *request, unsigned nth)
{
    (void)request;
    (void)nth;
    (void)poll(NULL, 0, 100);
    return answer_by_default(CALL, fd);
}

static void
test_many_submits_make_one_call(void)
{
    enum { THREADS = 4 };
    static const struct script script = {.answer = {[CALL] = call_slowly}};
    struct rig rig;
    pthread_barrier_t start;
    pthread_t threads[THREADS];
    struct caller callers[THREADS];
    unsigned taken = 0;
    rig_start(&rig, &script);
    CHECK(rig_reach_call(&rig));
    (void)pthread_barrier_init(&start, NULL, THREADS);
    for (unsigned i = 0; i < THREADS; i++) {
        callers[i] = (struct caller){&rig, &start, 1000 * (i + 1), 0};
        (void)pthread_create(&threads[i], NULL, call_often, &callers[i]);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        (void)pthread_join(threads[i], NULL);
        taken += callers[i].taken;
    }
    (void)pthread_barrier_destroy(&start);
    CHECK(taken == THREADS * 25);
    int64_t until = ro_monotonic_ms() + 3000;
    while (rig_count(&rig, 0) < taken && ro_monotonic_ms() < until) {
        (void)poll(NULL, 0, 5);
    }
    CHECK(rig_count(&rig, 0) == taken);
    for (unsigned i = 0; i < THREADS * 25; i++) {
        CHECK(rig_count(&rig, 1000 * (i / 25 + 1) + i % 25) == 1);
    }
    CHECK(rig_seen(&rig, CALL) == 1);
    CHECK(rig_outcome(&rig) == RO_CODE_RUNTIME_FAILURE); /* the second one */
    rig_stop(&rig);
}

/* ---- the list ---- */

static bool
say_page(int fd, const char *request, unsigned nth)
{
    char body[512];
    const char *id = strstr(request, "\"id\":");
    snprintf(body, sizeof(body),
             "{\"jsonrpc\":\"2.0\",\"id\":%lu,\"result\":{\"tools\":[],"
             "\"nextCursor\":\"%u\"}}",
             id == NULL ? 0 : strtoul(id + 5, NULL, 10), nth);
    say_json(fd, "", body);
    return true;
}

static void
test_a_list_has_so_many_pages(void)
{
    static const struct script script = {.answer = {[LIST] = say_page}};
    struct rig rig;
    rig_start(&rig, &script);
    for (unsigned page = 0; page < RO_MAX_PAGES; page++) {
        CHECK(rig_ask(&rig, LIST_BODY, 200, "nextCursor"));
    }
    CHECK(rig_ask(&rig, LIST_BODY, 200, "error"));
    CHECK(rig_seen(&rig, LIST) == RO_MAX_PAGES);
    CHECK(rig_noted(&rig) == RO_REASON_LIST_TOO_MANY_PAGES);
    rig_stop(&rig);
}

static bool
say_same_page(int fd, const char *request, unsigned nth)
{
    return say_page(fd, request, nth % 3);
}

static void
test_a_cursor_that_comes_again_is_an_error(void)
{
    static const struct script script = {.answer = {[LIST] = say_same_page}};
    struct rig rig;
    rig_start(&rig, &script);
    for (unsigned page = 0; page < 3; page++) {
        CHECK(rig_ask(&rig, LIST_BODY, 200, "nextCursor"));
    }
    CHECK(rig_ask(&rig, LIST_BODY, 200, "error"));
    CHECK(rig_noted(&rig) == RO_REASON_LIST_CURSOR_REPEATED);
    rig_stop(&rig);
}

static bool
say_many_alike(int fd, const char *request, unsigned nth)
{
    enum { COUNT = 5000 };
    size_t each = strlen(GOOD_ENTRY) + 1;
    char *body = malloc(COUNT * each + 256);
    (void)request;
    (void)nth;
    static const char start[]
        = "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"tools\":[";
    size_t len = sizeof(start) - 1;
    memcpy(body, start, len);
    for (int i = 0; i < COUNT; i++) {
        memcpy(body + len, i == 0 ? " " : ",", 1);
        memcpy(body + len + 1, GOOD_ENTRY, each - 1);
        len += each;
    }
    static const char end[] = "],\"nextCursor\":\"x\"}}";
    memcpy(body + len, end, sizeof(end));
    say_json(fd, "", body);
    free(body);
    return true;
}

static void
test_a_crowd_of_one_name_is_cut(void)
{
    static const struct script script = {.answer = {[LIST] = say_many_alike}};
    struct rig rig;
    unsigned found = 0;
    rig_start(&rig, &script);
    ro_reply *reply = rig_wait(&rig, rig_submit(&rig, LIST_BODY), 3000);
    CHECK(reply_has(reply, "readOnlyHint"));
    CHECK(!reply_has(reply, "nextCursor"));
    for (const char *at = reply == NULL ? NULL : reply->body;
         at != NULL
         && (at = memmem(at, reply->body_len - (size_t)(at - reply->body),
                         "\"name\"", 6))
                != NULL;
         at++) {
        found++;
    }
    CHECK(found == RO_MAX_ALIKE);
    ro_reply_free(reply);
    found = 0;
    for (const ro_entry *each = NULL;
         (each = ro_discovery_next(rig.discovery, ro_slice_str("srv"), each))
         != NULL;) {
        found++;
    }
    CHECK(found == RO_MAX_ALIKE);
    CHECK(!rig_open_gate(&rig, "{}"));
    rig_stop(&rig);
}

int
main(void)
{
    test_a_call_from_start_to_end();
    test_what_never_reaches_the_network();
    test_each_failure_is_one_answer_and_one_code();
    test_a_failed_discovery_is_noted();
    test_a_redirected_session_ends_where_it_began();
    test_a_redirected_initialize_moves_the_session();
    test_the_bound_of_the_call();
    test_the_bound_of_a_list();
    test_the_bound_of_everything();
    test_an_endless_body_ends_at_the_bound();
    test_nothing_is_called_before_the_verdict();
    test_only_the_tool_is_called();
    test_another_server_cannot_use_the_gate();
    test_an_escaped_name_is_the_same_name();
    test_many_submits_make_one_call();
    test_a_list_has_so_many_pages();
    test_a_cursor_that_comes_again_is_an_error();
    test_a_crowd_of_one_name_is_cut();
    return check_end();
}
