/* HTTP with SSE (2024-11-05): one stream of answers, one endpoint of posts. */
#include "messages.h"
#include "session_rig.h"

#define EVENT(message) "event: message\ndata: " message "\n\n"

/* What the server's stream says: its start, and then what the posts queue. */
struct stream {
    const char *what;
    const char *head;  /* NULL: a stream */
    const char *start; /* NULL: the endpoint */
    const char *call;  /* the answer to the call; NULL: a good one */
    const char *post;  /* the head of the answer to posts; NULL: 202 */
    bool end_at_call;  /* the stream ends instead of an answer */
    int code;          /* of the call; -1: discovery fails */
    ro_reason note;    /* what is noted then */
};

static const struct stream *streaming;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int stream_fd = -1; /* lock */

static void
say_on_stream(const char *text)
{
    (void)pthread_mutex_lock(&lock);
    if (stream_fd >= 0) {
        server_say(stream_fd, text);
    }
    (void)pthread_mutex_unlock(&lock);
}

static void
end_stream(void)
{
    (void)pthread_mutex_lock(&lock);
    if (stream_fd >= 0) {
        (void)shutdown(stream_fd, SHUT_RDWR);
        stream_fd = -1;
    }
    (void)pthread_mutex_unlock(&lock);
}

static bool
hold_stream(int fd, const char *request, unsigned nth)
{
    (void)nth;
    EXPECT(strcasestr(request, "Accept: text/event-stream\r\n") != NULL);
    EXPECT(strcasestr(request, "Content-Type:") == NULL);
    EXPECT(strstr(request, "X-Key: v\r\n") != NULL
           || strstr(request, "X-Key:") == NULL);
    if (streaming->head != NULL) {
        server_say(fd, streaming->head);
        return true;
    }
    say_stream_head(fd);
    /* before the endpoint: whoever knows it may be answered */
    (void)pthread_mutex_lock(&lock);
    stream_fd = fd;
    (void)pthread_mutex_unlock(&lock);
    server_say(fd, streaming->start == NULL
                       ? "event: endpoint\ndata: /post?s=1\n\n"
                       : streaming->start);
    (void)server_peer_closes(fd, 8000);
    (void)pthread_mutex_lock(&lock);
    if (stream_fd == fd) { /* the next session's may be there already */
        stream_fd = -1;
    }
    (void)pthread_mutex_unlock(&lock);
    return false;
}

static bool
take_post(int fd, const char *answer)
{
    server_say(fd, streaming->post == NULL
                       ? "HTTP/1.1 202 OK\r\nContent-Length: 8\r\n\r\n"
                         "Accepted"
                       : streaming->post);
    if (answer != NULL && streaming->post == NULL) {
        say_on_stream(answer);
    }
    return true;
}

static bool
take_initialize(int fd, const char *request, unsigned nth)
{
    (void)nth;
    EXPECT(strncmp(request, "POST /post?s=1 ", 15) == 0);
    EXPECT(strcasestr(request, "Content-Type: application/json\r\n") != NULL);
    return take_post(fd, EVENT(INITIALIZE_ANSWER));
}

static bool
take_list(int fd, const char *request, unsigned nth)
{
    (void)request;
    (void)nth;
    return take_post(fd, EVENT(LIST_ANSWER));
}

static bool
take_call(int fd, const char *request, unsigned nth)
{
    (void)nth;
    EXPECT(strstr(request, "\"arguments\":{\"a\":1.10}") != NULL);
    if (streaming->end_at_call) {
        (void)take_post(fd, NULL);
        end_stream();
        return true;
    }
    return take_post(fd, streaming->call == NULL ? EVENT(CALL_ANSWER)
                                                 : streaming->call);
}

static const struct script script = {
    .answer = {[GET] = hold_stream,
               [INITIALIZE] = take_initialize,
               [LIST] = take_list,
               [CALL] = take_call},
};

static ro_session *
legacy_session(struct rig *rig, bool auth)
{
    ro_session_options options = {
        .server = ro_slice_str("srv"),
        .url = rig->url,
        .proxy = "",
        .cafile = "",
        .capath = "",
        .auth = auth,
        .legacy = true,
    };
    return ro_mcp_session(rig->mcp, &options);
}

static void
open_rig(struct rig *rig, const struct stream *stream)
{
    streaming = stream;
    rig_start(rig, &script);
    rig->session = legacy_session(rig, false);
    CHECK(rig->session != NULL);
}

#define HEAD(status, type)                                                    \
    "HTTP/1.1 " status "\r\nContent-Type: " type                              \
    "\r\nContent-Length: 2\r\n\r\nno"

#define JUNK8                                                                 \
    EVENT("a")                                                                \
    EVENT("b")                                                                \
    EVENT("[]")                                                               \
    EVENT("{}")                                                               \
    EVENT("d") EVENT("e") EVENT("f") EVENT("{\"type\":\"heartbeat\"}")
#define JUNK64 JUNK8 JUNK8 JUNK8 JUNK8 JUNK8 JUNK8 JUNK8 JUNK8

static const struct stream streams[] = {
    {.what = "the whole", .code = RO_CODE_OK},
    {.what = "an absolute endpoint", .code = RO_CODE_OK, .start = "@"},
    {.what = "the first endpoint counts",
     .start = "event: endpoint\ndata: /post?s=1\n\n"
              "event: endpoint\ndata: http://127.0.0.2:1/x\n\n",
     .code = RO_CODE_OK},
    {.what = "a fragment is no part of it",
     .start = "event: endpoint\ndata: /post?s=1#x\n\n",
     .code = RO_CODE_OK},
    {.what = "comments, other events and early answers before it",
     .start = ": hi\n\nevent: x\ndata: y\n\n" EVENT(
         INITIALIZE_ANSWER) "event: endpoint\ndata: /post?s=1\n\n",
     .code = RO_CODE_OK},
    {.what = "another host",
     .start = "event: endpoint\ndata: http://localhost/post?s=1\n\n",
     .code = -1,
     .note = RO_REASON_ENDPOINT},
    {.what = "another port",
     .start = "event: endpoint\ndata: http://127.0.0.1:1/post?s=1\n\n",
     .code = -1,
     .note = RO_REASON_ENDPOINT},
    {.what = "another scheme",
     .start = "event: endpoint\ndata: https://127.0.0.1/post?s=1\n\n",
     .code = -1,
     .note = RO_REASON_ENDPOINT},
    {.what = "another host without a scheme",
     .start = "event: endpoint\ndata: //localhost/post?s=1\n\n",
     .code = -1,
     .note = RO_REASON_ENDPOINT},
    {.what = "user info",
     .start = "event: endpoint\ndata: http://u:p@127.0.0.1/post\n\n",
     .code = -1,
     .note = RO_REASON_ENDPOINT},
    {.what = "a file",
     .start = "event: endpoint\ndata: file:///etc/passwd\n\n",
     .code = -1,
     .note = RO_REASON_ENDPOINT},
    {.what = "404",
     .head = HEAD("404 No", "text/plain"),
     .code = -1,
     .note = RO_REASON_HTTP_404},
    {.what = "401",
     .head = HEAD("401 No", "text/plain"),
     .code = -1,
     .note = RO_REASON_HTTP_401},
    {.what = "503",
     .head = HEAD("503 No", "text/event-stream"),
     .code = -1,
     .note = RO_REASON_HTTP_5XX},
    {.what = "JSON",
     .head = HEAD("200 OK", "application/json"),
     .code = -1,
     .note = RO_REASON_NOT_MCP},
    {.what = "a post that is refused",
     .post = "HTTP/1.1 400 No\r\nContent-Length: 0\r\n\r\n",
     .code = -1,
     .note = RO_REASON_HTTP_4XX},
    {.what = "a wrong id",
     .call = EVENT("{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}"),
     .code = RO_CODE_MALFORMED_RESULT},
    {.what = "a mark before the endpoint",
     .start = "event: endpoint\ndata: " BOM "/post?s=1\n\n",
     .code = RO_CODE_OK},
    {.what = "junk before the endpoint",
     .start = JUNK64 "event: endpoint\ndata: /post?s=1\n\n",
     .code = RO_CODE_OK},
    {.what = "too much junk before the endpoint",
     .start = JUNK64 EVENT("x") "event: endpoint\ndata: /post?s=1\n\n",
     .code = -1,
     .note = RO_REASON_JUNK},
    {.what = "junk before the answer",
     .call = JUNK64 EVENT(CALL_ANSWER),
     .code = RO_CODE_OK},
    {.what = "too much junk before the answer",
     .call = JUNK64 EVENT("x") EVENT(CALL_ANSWER),
     .code = RO_CODE_RUNTIME_FAILURE},
    {.what = "an error",
     .call = EVENT("{\"jsonrpc\":\"2.0\",\"id\":2,\"error\":"
                   "{\"code\":1,\"message\":\"\"}}"),
     .code = RO_CODE_TOOL_FAILED},
    {.what = "requests and notifications before the answer",
     .call = EVENT("{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}")
         EVENT("{\"jsonrpc\":\"2.0\",\"method\":\"x\"}") EVENT(CALL_ANSWER),
     .code = RO_CODE_OK},
    {.what = "the end", .end_at_call = true, .code = RO_CODE_RUNTIME_FAILURE},
};

/* Whether the stream does what it should. */
static bool
plays(struct rig *rig, const struct stream *stream)
{
    if (stream->note != RO_REASON_NONE) {
        ro_reason noted = RO_REASON_NONE;
        if (rig_ask(rig, INITIALIZE_BODY, 200, "\"error\"")) {
            noted = rig_noted(rig);
        }
        return noted == stream->note
               && rig_ask(rig, LIST_BODY, 200, "\"error\"");
    }
    if (!rig_discover(rig) || !rig_open_gate(rig, "{\"a\":1.10}")) {
        return false;
    }
    return rig_ask(rig, CALL_BODY, 200,
                   stream->code == RO_CODE_OK ? "\"content\"" : "\"error\"")
           && rig_outcome(rig) == stream->code && rig_seen(rig, CALL) == 1;
}

static void
test_what_the_stream_says(void)
{
    for (size_t i = 0; i < sizeof(streams) / sizeof(streams[0]); i++) {
        struct rig rig;
        struct stream stream = streams[i];
        char absolute[128];
        open_rig(&rig, &stream);
        if (stream.start != NULL && strcmp(stream.start, "@") == 0) {
            snprintf(absolute, sizeof(absolute),
                     "event: endpoint\ndata: http://127.0.0.1:%d/post?s=1"
                     "\n\n",
                     rig.server->port);
            stream.start = absolute;
        }
        int64_t begin = ro_monotonic_ms();
        bool good = plays(&rig, &stream);
        int took = (int)(ro_monotonic_ms() - begin);
        if (!good || took > PROMPT_MS) {
            ro_reason note = rig_noted(&rig);
            fprintf(stderr, "%s: outcome %d, noted %s, %d ms\n", stream.what,
                    rig_outcome(&rig), ro_reason_word(note), took);
        }
        CHECK(good);
        CHECK(took <= PROMPT_MS);
        CHECK(rig_seen(&rig, GET) == 1);
        ro_mcp_close(rig.mcp, 500);
        CHECK(rig_seen(&rig, DELETE) == 0);
        CHECK(rig_count(&rig, 0) == 0);
        rig_stop(&rig);
    }
}

static void
test_what_is_no_message(void)
{
    for (size_t i = 0; i < SAID; i++) {
        struct rig rig;
        char call[1024];
        struct stream stream = {
            .what = said[i].text,
            .call = call,
            .code = said[i].decides ? RO_CODE_MALFORMED_RESULT : RO_CODE_OK,
        };
        snprintf(call, sizeof(call), "data: %s\n\n" EVENT(CALL_ANSWER),
                 said[i].text);
        open_rig(&rig, &stream);
        bool good = plays(&rig, &stream);
        if (!good) {
            fprintf(stderr, "%s: outcome %d\n", said[i].text,
                    rig_outcome(&rig));
        }
        CHECK(good);
        rig_stop(&rig);
    }
}

/* The stream opens and says nothing: close answers what waits. */
static void
test_a_stream_without_an_endpoint(void)
{
    static const struct stream silent = {.what = "silence", .start = ": x\n"};
    struct rig rig;
    open_rig(&rig, &silent);
    uint64_t first = rig_submit(&rig, INITIALIZE_BODY);
    uint64_t second = rig_submit(&rig, INITIALIZED_BODY);
    CHECK(rig_see(&rig, GET, 1, 2000));
    CHECK(rig_wait(&rig, first, 50) == NULL);
    ro_mcp_close(rig.mcp, 500);
    ro_reply *reply = rig_wait(&rig, first, 500);
    CHECK(reply_has(reply, "error"));
    ro_reply_free(reply);
    reply = rig_wait(&rig, second, 500);
    CHECK(reply != NULL && reply->status == 202);
    ro_reply_free(reply);
    CHECK(rig_seen(&rig, GET) == 1);
    rig_stop(&rig);
}

/* The end of the session, and of the worker, while something waits. */
static void
test_the_end_while_an_answer_is_due(void)
{
    static const struct stream mute = {.what = "mute", .call = ": x\n\n"};
    for (int way = 0; way < 3; way++) {
        size_t live = ro_alloc_live();
        struct rig rig;
        open_rig(&rig, &mute);
        CHECK(rig_discover(&rig));
        CHECK(rig_open_gate(&rig, "{\"a\":1.10}"));
        uint64_t ticket = rig_submit(&rig, CALL_BODY);
        CHECK(rig_see(&rig, CALL, 1, 2000));
        if (way == 0) {
            ro_session_end(rig.session);
        }
        else if (way == 1) {
            ro_mcp_close(rig.mcp, 500);
        }
        else {
            CHECK(ro_net_shut_down(rig.net, 3000));
        }
        ro_reply *reply = rig_wait(&rig, ticket, 1000);
        CHECK(reply_has(reply, "error"));
        ro_reply_free(reply);
        CHECK(rig_outcome(&rig) == RO_CODE_RUNTIME_FAILURE);
        rig_stop(&rig);
        CHECK(ro_alloc_live() == live);
    }
}

/* A challenge is for the auth flow; the next request opens the stream. */
static void
test_a_challenge_goes_up(void)
{
    static struct stream stream;
    struct rig rig;
    stream = (struct stream){
        .what = "a challenge",
        .head = "HTTP/1.1 401 No\r\nWWW-Authenticate: Bearer\r\n"
                "Content-Length: 0\r\n\r\n",
    };
    open_rig(&rig, &stream);
    rig.session = legacy_session(&rig, true);
    ro_reply *reply = rig_wait(&rig, rig_submit(&rig, INITIALIZE_BODY), 2000);
    CHECK(reply != NULL && reply->status == 401);
    CHECK(reply != NULL
          && ro_header_count(reply->headers.items, reply->headers.count,
                             "www-authenticate")
                 == 1);
    ro_reply_free(reply);
    stream.head = NULL;
    CHECK(rig_discover(&rig));
    CHECK(rig_seen(&rig, GET) == 2);
    rig_stop(&rig);
}

/* ---- memory ---- */

static bool
live(struct rig *rig)
{
    static const char *const bodies[]
        = {INITIALIZE_BODY, INITIALIZED_BODY, LIST_BODY, CALL_BODY};
    bool whole = true;
    if (!rig_open(rig)) {
        if (rig->net != NULL) {
            whole = ro_net_shut_down(rig->net, 5000);
            ro_net_free(rig->net);
        }
        rig_free_found(rig);
        return whole;
    }
    rig->session = legacy_session(rig, false);
    for (size_t i = 0; rig->session != NULL && i < 4; i++) {
        if (i == 3) {
            (void)rig_open_gate(rig, "{\"a\":1.10}");
        }
        uint64_t ticket = rig_submit(rig, bodies[i]);
        if (ticket != 0) {
            ro_reply *reply = rig_wait(rig, ticket, 3000);
            whole = reply != NULL && whole;
            ro_reply_free(reply);
            whole = rig_count(rig, ticket) == 0 && whole;
        }
    }
    return rig_close(rig) && whole;
}

static void
test_every_allocation_fails_in_turn(void)
{
    static const struct stream good = {.what = "the whole"};
    struct rig rig;
    bool beyond = false;
    size_t nth = 1;
    open_rig(&rig, &good);
    CHECK(rig_close(&rig));
    CHECK(live(&rig));
    size_t before = ro_alloc_live();
    for (; !beyond && nth < 3000; nth += 2) {
        ro_alloc_fail_at(nth, 0);
        bool whole = live(&rig);
        beyond = ro_alloc_count() < nth;
        ro_alloc_fail_at(0, 0);
        if (!whole || ro_alloc_live() != before) {
            fprintf(stderr, "allocation %zu: %zu blocks left\n", nth,
                    ro_alloc_live() - before);
        }
        CHECK(whole);
        CHECK(ro_alloc_live() == before);
    }
    CHECK(beyond);
    server_stop(rig.server);
}

int
main(void)
{
    test_what_the_stream_says();
    test_what_is_no_message();
    test_a_stream_without_an_endpoint();
    test_the_end_while_an_answer_is_due();
    test_a_challenge_goes_up();
    test_every_allocation_fails_in_turn();
    return check_end();
}
