/* Event streams: of an exchange, resumed, and the server's own. */
#include "messages.h"
#include "session_rig.h"
#include "worker_time.h"

#define DATA(message) "event: message\ndata: " message "\n\n"
#define CALL_DATA DATA(CALL_ANSWER)
#define ERROR_DATA                                                            \
    DATA("{\"jsonrpc\":\"2.0\",\"id\":2,\"error\":"                           \
         "{\"code\":1,\"message\":\"no\"}}")

struct stream {
    const char *what;
    const char *events;
    bool hold;     /* the server keeps the stream open behind them */
    ro_code code;  /* what is recorded */
    unsigned gets; /* resumptions that the server sees */
    unsigned answers;
};

static const struct stream *streaming;

static bool
say_stream(int fd, const char *request, unsigned nth)
{
    (void)request;
    (void)nth;
    say_stream_head(fd);
    server_say(fd, streaming->events);
    if (streaming->hold) {
        (void)server_peer_closes(fd, 8000);
    }
    return false;
}

static const struct stream streams[] = {
    {"the answer", CALL_DATA, false, RO_CODE_OK, 0, 0},
    {"the answer, held open", CALL_DATA, true, RO_CODE_OK, 0, 0},
    {"a BOM and CRLF",
     "\xef\xbb\xbf"
     "data: " CALL_ANSWER "\r\n\r\n",
     true, RO_CODE_OK, 0, 0},
    {"comments and an event without data",
     ": hello\n\n: again\nevent: message\n\nid: 5\n\n:\n" CALL_DATA, true,
     RO_CODE_OK, 0, 0},
    {"an empty event", "data:\n\n" CALL_DATA, true, RO_CODE_OK, 0, 0},
    {"other events, whatever they hold",
     "event: news\ndata: no JSON\n\nevent: Message\ndata: {}\n\n" CALL_DATA,
     true, RO_CODE_OK, 0, 0},
    {"notifications",
     DATA("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\"}")
         DATA("{\"jsonrpc\":\"2.0\",\"method\":\"x\"}") CALL_DATA,
     true, RO_CODE_OK, 0, 0},
    {"requests of the server",
     DATA("{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}")
         DATA("{\"jsonrpc\":\"2.0\",\"id\":\"s\","
              "\"method\":\"sampling/createMessage\"}")
             DATA("{\"jsonrpc\":\"2.0\",\"id\":8,\"method\":\"x\"}") CALL_DATA,
     true, RO_CODE_OK, 0, 3},
    {"an answer of two data lines",
     "data: {\"jsonrpc\":\"2.0\",\"id\":2,\n"
     "data: \"result\":{\"content\":[]}}\n\n",
     true, RO_CODE_OK, 0, 0},
    {"the first answer counts", ERROR_DATA CALL_DATA, true,
     RO_CODE_TOOL_FAILED, 0, 0},
    {"a wrong id first",
     DATA("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}") CALL_DATA, true,
     RO_CODE_MALFORMED_RESULT, 0, 0},
    {"an id of another type first",
     DATA("{\"jsonrpc\":\"2.0\",\"id\":\"2\",\"result\":{}}") CALL_DATA, true,
     RO_CODE_MALFORMED_RESULT, 0, 0},
    {"a key twice",
     DATA("{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"content\":[],"
          "\"a\":1,\"a\":1}}"),
     true, RO_CODE_MALFORMED_RESULT, 0, 0},
    {"the end", "", false, RO_CODE_RUNTIME_FAILURE, 0, 0},
    {"an event that is cut off", "data: " CALL_ANSWER "\n", false,
     RO_CODE_RUNTIME_FAILURE, 0, 0},
    {"the end behind a retry", "retry: 0\n\n", false, RO_CODE_RUNTIME_FAILURE,
     0, 0},
    {"the end behind an empty id", "id\nretry: 0\ndata:\n\n", false,
     RO_CODE_RUNTIME_FAILURE, 0, 0},
    {"an id in a block that is cut off", "id: 1\n", false,
     RO_CODE_RUNTIME_FAILURE, 0, 0},
};

static void
check_stream(const struct stream *stream, const struct script *script,
             int prompt_ms)
{
    struct rig rig;
    streaming = stream;
    rig_start(&rig, script);
    CHECK(rig_reach_call(&rig));
    int64_t start = ro_monotonic_ms();
    uint64_t ticket = rig_submit(&rig, CALL_BODY);
    ro_reply *reply = rig_wait(&rig, ticket, 8000);
    int took = (int)(ro_monotonic_ms() - start);
    bool good = reply != NULL && reply->status == 200
                && reply_has(reply, stream->code == RO_CODE_OK ? "\"content\""
                                                               : "\"error\"")
                && rig_outcome(&rig) == (int)stream->code && took < prompt_ms
                && rig_see(&rig, PING_ANSWER, stream->answers, 2000)
                && rig_seen(&rig, GET) == stream->gets
                && rig_seen(&rig, CALL) == 1;
    if (!good) {
        fprintf(stderr, "%s: outcome %d, %u GETs, %u answers, %d ms\n",
                stream->what, rig_outcome(&rig), rig_seen(&rig, GET),
                rig_seen(&rig, PING_ANSWER), took);
    }
    CHECK(good);
    ro_reply_free(reply);
    CHECK(rig_count(&rig, ticket) == 0);
    rig_stop(&rig);
}

static void
test_what_a_stream_holds(void)
{
    static const struct script script = {.answer = {[CALL] = say_stream}};
    for (size_t i = 0; i < sizeof(streams) / sizeof(streams[0]); i++) {
        check_stream(&streams[i], &script, PROMPT_MS);
    }
}

static void
test_what_is_no_message(void)
{
    static const struct script script = {.answer = {[CALL] = say_stream}};
    for (size_t i = 0; i < SAID; i++) {
        char events[1024];
        struct stream stream = {
            said[i].text,
            events,
            true,
            said[i].decides ? RO_CODE_MALFORMED_RESULT : RO_CODE_OK,
            0,
            0,
        };
        snprintf(events, sizeof(events), "data: %s\n\n" CALL_DATA,
                 said[i].text);
        check_stream(&stream, &script, PROMPT_MS);
    }
}

/* ---- bounds ---- */

#define JUNK8                                                                 \
    DATA("a")                                                                 \
    DATA("b")                                                                 \
    DATA("[]")                                                                \
    DATA("{}") DATA("d") DATA("e") DATA("f") DATA("{\"type\":\"heartbeat\"}")
#define JUNK64 JUNK8 JUNK8 JUNK8 JUNK8 JUNK8 JUNK8 JUNK8 JUNK8

static void
test_so_much_junk_is_passed_over(void)
{
    static const struct script script = {.answer = {[CALL] = say_stream}};
    static const struct stream cases[] = {
        {"as many as there may be", JUNK64 CALL_DATA, true, RO_CODE_OK, 0, 0},
        {"one too many", JUNK64 DATA("x") CALL_DATA, true,
         RO_CODE_RUNTIME_FAILURE, 0, 0},
        {"messages do not count",
         JUNK64 DATA(
             "{\"jsonrpc\":\"2.0\",\"method\":\"x\"}") "data:\n\nevent: "
                                                       "x\ndata: "
                                                       "y\n\n" CALL_DATA,
         true, RO_CODE_OK, 0, 0},
    };
    _Static_assert(RO_MAX_JUNK == 64, "as many as JUNK64");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        check_stream(&cases[i], &script, PROMPT_MS);
    }
}

static size_t stream_size;

/* A comment line that fills the stream up to its bound, then the answer. */
static bool
say_filled_stream(int fd, const char *request, unsigned nth)
{
    size_t pad = stream_size - strlen(CALL_DATA) - 3;
    char *comment = malloc(pad);
    (void)request;
    (void)nth;
    memset(comment, 'x', pad);
    say_stream_head(fd);
    server_say(fd, ":");
    server_say_bytes(fd, comment, pad);
    server_say(fd, "\n\n" CALL_DATA);
    free(comment);
    (void)server_peer_closes(fd, 8000);
    return false;
}

static void
test_the_bound_of_a_stream(void)
{
    static const struct script script
        = {.answer = {[CALL] = say_filled_stream}};
    for (int over = -1; over <= 1; over++) {
        struct stream stream
            = {"a stream at its bound",
               "",
               true,
               over > 0 ? RO_CODE_RESULT_TOO_LARGE : RO_CODE_OK,
               0,
               0};
        stream_size = (size_t)((int)RO_MAX_ANSWER + over);
        check_stream(&stream, &script, 3000);
    }
}

static bool
ping_for_ever(int fd, const char *request, unsigned nth)
{
    (void)request;
    (void)nth;
    say_stream_head(fd);
    while (!server_peer_closes(fd, 0)) {
        server_say(fd,
                   DATA("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}"));
    }
    return false;
}

static void
test_a_storm_of_pings_ends(void)
{
    static const struct script script = {.answer = {[CALL] = ping_for_ever}};
    struct rig rig;
    rig_start(&rig, &script);
    CHECK(rig_reach_call(&rig));
    CHECK(rig_ask(&rig, CALL_BODY, 200, "error"));
    CHECK(rig_outcome(&rig) == RO_CODE_RESULT_TOO_LARGE);
    CHECK(rig_see(&rig, PING_ANSWER, RO_MAX_ANSWERS_SENT, 20000));
    (void)poll(NULL, 0, 50);
    CHECK(rig_seen(&rig, PING_ANSWER) == RO_MAX_ANSWERS_SENT);
    rig_stop(&rig);
}

/* ---- resumption ---- */

static const char *const *resumed; /* what each GET gets; NULL: 500 */

static bool
say_resumed(int fd, const char *request, unsigned nth)
{
    static const char *const expected[]
        = {"Last-Event-Id: 7\r\n", "Last-Event-Id: 8\r\n"};
    EXPECT(nth < 2);
    EXPECT(nth >= 2 || strcasestr(request, expected[nth]) != NULL);
    EXPECT(strcasestr(request, "Accept: text/event-stream\r\n") != NULL);
    EXPECT(strcasestr(request, "Content-Type:") == NULL);
    EXPECT(strstr(request, "X-Key: v\r\n") != NULL);
    if (nth >= 2 || resumed[nth] == NULL) {
        server_say(fd, "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n");
        return true;
    }
    say_stream_head(fd);
    server_say(fd, resumed[nth]);
    return false;
}

static void
test_a_stream_is_resumed_twice(void)
{
    static const struct script script
        = {.answer = {[CALL] = say_stream, [GET] = say_resumed}};
    static const struct {
        struct stream stream;
        const char *then[2];
    } cases[] = {
        {{"one resumption", "id: 7\nretry: 0\ndata:\n\n", false, RO_CODE_OK, 1,
          0},
         {CALL_DATA, NULL}},
        {{"two resumptions", "id: 7\nretry: 1\ndata:\n\n", false, RO_CODE_OK,
          2, 0},
         {"id: 8\ndata:\n\n", CALL_DATA}},
        {{"three ends", "id: 7\nretry: 0\ndata:\n\n", false,
          RO_CODE_RUNTIME_FAILURE, 2, 0},
         {"id: 8\ndata:\n\n", "id: 9\ndata:\n\n"}},
        {{"a refused resumption", "id: 7\nretry: 0\ndata:\n\n", false,
          RO_CODE_RUNTIME_FAILURE, 1, 0},
         {NULL, NULL}},
        {{"an error in a resumed stream", "id: 7\nretry: 0\ndata:\n\n", false,
          RO_CODE_TOOL_FAILED, 1, 0},
         {ERROR_DATA, NULL}},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        resumed = cases[i].then;
        check_stream(&cases[i].stream, &script, 2500);
    }
}

static bool
resume_as_json(int fd, const char *request, unsigned nth)
{
    (void)request;
    (void)nth;
    say_json(fd, "", CALL_ANSWER);
    return true;
}

static void
test_a_resumption_is_a_stream(void)
{
    static const struct script script
        = {.answer = {[CALL] = say_stream, [GET] = resume_as_json}};
    static const struct stream stream = {"JSON for a GET",
                                         "id: 7\nretry: 0\ndata:\n\n",
                                         false,
                                         RO_CODE_RUNTIME_FAILURE,
                                         1,
                                         0};
    check_stream(&stream, &script, 1500);
}

/* ---- the server's own stream ---- */

#define STORM 7 /* GETs */

/* The call's answer, once the server has seen them, or after 7 s. */
static bool
answer_in_a_storm(int fd, const char *request, unsigned nth)
{
    (void)request;
    (void)nth;
    (void)rig_see(rig_now, GET, STORM, 7000);
    return answer_by_default(CALL, fd);
}

static bool
say_retry_storm(int fd, const char *request, unsigned nth)
{
    EXPECT(strcasestr(request, "Mcp-Session-Id: s-1\r\n") != NULL);
    say_stream_head(fd);
    server_say(fd, nth == 0 ? "id: 4\nretry: 0\ndata:\n\n" : "retry: 0\n\n");
    return false;
}

/* Each GET begins so long after the one before, however short the pause is
 * that the server wishes. A machine that is busy only makes them later. */
static void
test_a_storm_of_retries_is_slow(void)
{
    static const struct script script
        = {.answer = {[CALL] = answer_in_a_storm, [GET] = say_retry_storm}};
    struct rig rig;
    rig_start(&rig, &script);
    CHECK(rig_reach_call(&rig));
    int64_t start = ro_monotonic_ms();
    CHECK(rig_ask(&rig, CALL_BODY, 200, "content"));
    unsigned gets = rig_seen(&rig, GET);
    CHECK(gets >= STORM);
    for (unsigned i = 0; i + 1 < gets && i < RIG_TIMES; i++) {
        CHECK(atomic_load(&rig.at[GET][i]) - start
              >= RO_GET_STREAM_AFTER_MS + (int)i * RO_MIN_RETRY_MS - 5);
    }
    worker_passes(rig.net, 2 * RO_MIN_RETRY_MS);
    CHECK(rig_seen(&rig, GET) <= gets + 1); /* it ended with the call */
    rig_stop(&rig);
}

static atomic_bool answered;

/* The call's answer, once flag is set, or after 4 s. */
static bool
answer_after(const atomic_bool *flag, int fd)
{
    for (int i = 0; i < 400 && !atomic_load(flag); i++) {
        (void)poll(NULL, 0, 10);
    }
    return answer_by_default(CALL, fd);
}

static bool
answer_when_told(int fd, const char *request, unsigned nth)
{
    (void)request;
    (void)nth;
    return answer_after(&answered, fd);
}

static bool
ask_on_own_stream(int fd, const char *request, unsigned nth)
{
    (void)request;
    (void)nth;
    say_stream_head(fd);
    server_say(fd,
               JUNK64 "event: message\ndata: " BOM
                      "{\"jsonrpc\":\"2.0\",\"id\":6,\"method\":\"ping\"}\n\n"
                      "data: {\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}\n\n"
                      "data: {\"jsonrpc\":\"2.0\",\"id\":5,"
                      "\"method\":\"ping\"}\n\n");
    (void)server_peer_closes(fd, 5000);
    return false;
}

static atomic_uint pings_answered;

/* The two answers go out on connections of their own: either comes first. */
static bool
take_answer(int fd, const char *request, unsigned nth)
{
    (void)nth;
    unsigned which = strstr(request, "\"id\":6,\"result\":{}") != NULL   ? 1u
                     : strstr(request, "\"id\":5,\"result\":{}") != NULL ? 2u
                                                                         : 0u;
    unsigned before = atomic_fetch_or(&pings_answered, which);
    EXPECT(which != 0 && (before & which) == 0);
    if ((before | which) == 3u) {
        atomic_store(&answered, true);
    }
    return answer_by_default(OTHER, fd);
}

static void
test_requests_on_the_own_stream_are_answered(void)
{
    static const struct script script
        = {.answer = {[CALL] = answer_when_told,
                      [GET] = ask_on_own_stream,
                      [PING_ANSWER] = take_answer}};
    struct rig rig;
    rig_start(&rig, &script);
    CHECK(rig_reach_call(&rig));
    CHECK(rig_ask(&rig, CALL_BODY, 200, "content"));
    CHECK(rig_outcome(&rig) == RO_CODE_OK);
    CHECK(rig_seen(&rig, GET) == 1);
    CHECK(rig_seen(&rig, PING_ANSWER) == 2);
    rig_stop(&rig);
}

static atomic_bool own_stream_ended;

static bool
junk_on_own_stream(int fd, const char *request, unsigned nth)
{
    (void)request;
    (void)nth;
    say_stream_head(fd);
    server_say(fd, JUNK64 DATA("x"));
    EXPECT(server_peer_closes(fd, 3000));
    atomic_store(&own_stream_ended, true);
    return false;
}

static bool
answer_when_ended(int fd, const char *request, unsigned nth)
{
    (void)request;
    (void)nth;
    return answer_after(&own_stream_ended, fd);
}

/* The stream that brings one too many ends, for good; the call's own answer
 * comes on another. */
static void
test_junk_on_the_own_stream_ends_it(void)
{
    static const struct script script
        = {.answer = {[CALL] = answer_when_ended, [GET] = junk_on_own_stream}};
    struct rig rig;
    rig_start(&rig, &script);
    CHECK(rig_reach_call(&rig));
    CHECK(rig_ask(&rig, CALL_BODY, 200, "content"));
    CHECK(rig_outcome(&rig) == RO_CODE_OK);
    CHECK(rig_seen(&rig, GET) == 1);
    rig_stop(&rig);
}

static bool
say_too_much(int fd, const char *request, unsigned nth)
{
    static char line[RO_MAX_ANSWER + 16];
    (void)request;
    (void)nth;
    memset(line, 'x', sizeof(line));
    memcpy(line, "data: ", 6);
    say_stream_head(fd);
    server_say_bytes(fd, line, sizeof(line));
    EXPECT(server_peer_closes(fd, 8000));
    atomic_store(&own_stream_ended, true);
    return false;
}

static bool
say_some(int fd, const char *request, unsigned nth)
{
    (void)request;
    (void)nth;
    say_stream_head(fd);
    server_say(fd, ": more than is left\n\n");
    EXPECT(server_peer_closes(fd, 8000));
    atomic_store(&own_stream_ended, true);
    return false;
}

static bool
refuse_stream(int fd, const char *request, unsigned nth)
{
    (void)answer_by_default(GET, fd);
    (void)request;
    (void)nth;
    atomic_store(&own_stream_ended, true);
    return true;
}

/* Each ends it for good, and the call's answer comes on another. Only the
 * bytes of all answers together are the call's as well. */
static void
test_what_ends_the_own_stream(void)
{
    static const struct {
        answer_fn get;
        size_t left; /* bytes that may still be read; 0: as ever */
        ro_code code;
    } cases[] = {
        {refuse_stream, 0, RO_CODE_OK},
        {say_too_much, 0, RO_CODE_OK},
        {say_some, 10, RO_CODE_RESULT_TOO_LARGE},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct script script
            = {.answer = {[CALL] = answer_when_ended, [GET] = cases[i].get}};
        struct rig rig;
        atomic_store(&own_stream_ended, false);
        rig_start(&rig, &script);
        CHECK(rig_reach_call(&rig));
        size_t so_far = 2 * strlen(INITIALIZE_ANSWER) + strlen(LIST_ANSWER);
        CHECK(cases[i].left == 0
              || ro_discovery_count(rig.discovery,
                                    RO_MAX_TOTAL - so_far - cases[i].left));
        CHECK(rig_ask(&rig, CALL_BODY, 200,
                      cases[i].code == RO_CODE_OK ? "content" : "error"));
        CHECK(rig_outcome(&rig) == (int)cases[i].code);
        CHECK(rig_seen(&rig, GET) == 1);
        rig_stop(&rig);
    }
}

static bool
meet_without_id(int fd, const char *request, unsigned nth)
{
    (void)request;
    (void)nth;
    say_json(fd, "", INITIALIZE_ANSWER);
    return true;
}

/* A server without sessions has no stream of its own. */
static void
test_no_session_no_own_stream(void)
{
    static const struct script script = {
        .answer = {[INITIALIZE] = meet_without_id, [CALL] = answer_when_told}};
    struct rig rig;
    atomic_store(&answered, false);
    rig_start(&rig, &script);
    CHECK(rig_reach_call(&rig));
    uint64_t ticket = rig_submit(&rig, CALL_BODY);
    CHECK(rig_see(&rig, CALL, 1, 5000));
    worker_passes(rig.net, RO_GET_STREAM_AFTER_MS);
    worker_passes(rig.net, 0); /* what it would have sent is out */
    CHECK(rig_seen(&rig, GET) == 0);
    atomic_store(&answered, true);
    ro_reply *reply = rig_wait(&rig, ticket, 8000);
    CHECK(reply_has(reply, "content"));
    ro_reply_free(reply);
    CHECK(rig_seen(&rig, GET) == 0);
    rig_stop(&rig);
}

int
main(void)
{
    test_what_a_stream_holds();
    test_what_is_no_message();
    test_so_much_junk_is_passed_over();
    test_the_bound_of_a_stream();
    test_a_storm_of_pings_ends();
    test_a_stream_is_resumed_twice();
    test_a_resumption_is_a_stream();
    test_a_storm_of_retries_is_slow();
    test_requests_on_the_own_stream_are_answered();
    test_junk_on_the_own_stream_ends_it();
    test_what_ends_the_own_stream();
    test_no_session_no_own_stream();
    return check_end();
}
