/* A conversation that runs ahead: what is taken over, what is dropped, and
 * that nobody above can tell. */
#include "refusing.h"

#include <curl/curl.h>
#include <stdarg.h>

#include "mcp/ahead.h"
#include "session_rig.h"
#include "worker_time.h"

/* A connection that is idle for longer than RO_IDLE_S is not used again. Here
 * none is too old, however slow the machine. */
#undef curl_easy_setopt
CURLcode
curl_easy_setopt(CURL *easy, CURLoption option, ...)
{
    va_list arguments;
    va_start(arguments, option);
    void *value = va_arg(arguments, void *);
    va_end(arguments);
    return option == CURLOPT_MAXAGE_CONN
               ? REAL(curl_easy_setopt)(easy, option, 3600L)
               : REAL(curl_easy_setopt)(easy, option, value);
}

#define VERSIONS "2024-11-05 2025-06-18"
#define VERSION "2025-06-18"
#define MEETING                                                               \
    "{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{\"protocolVersion\":"          \
    "\"" VERSION "\",\"capabilities\":{},\"serverInfo\":{\"name\":\"n\"}}}"

static const ro_header base[] = {
    {{"Accept", 6}, {"application/json, text/event-stream", 35}},
    {{"Content-Type", 12}, {"application/json", 16}},
};

static bool
run_ahead(struct rig *rig)
{
    const ro_ahead_plan plan = {
        .server = ro_slice_str("srv"),
        .url = rig->url,
        .proxy = "",
        .cafile = "",
        .capath = "",
        .versions = VERSIONS,
        .headers = base,
        .n_headers = 2,
        .initialize = ro_slice_str(INITIALIZE_BODY),
        .initialized = ro_slice_str(INITIALIZED_BODY),
        .list = ro_slice_str(LIST_BODY),
    };
    return ro_mcp_run_ahead(rig->mcp, &plan);
}

/* The SDK's request: id of the server's session, "" for none, NULL for the
 * headers of initialize. */
static uint64_t
submit(struct rig *rig, const char *id, const char *body)
{
    ro_header headers[4] = {base[0], base[1]};
    size_t count = 2;
    if (id != NULL && id[0] != '\0') {
        headers[count].name = ro_slice_str("mcp-session-id");
        headers[count++].value = ro_slice_str(id);
    }
    if (id != NULL) {
        headers[count].name = ro_slice_str("mcp-protocol-version");
        headers[count++].value = ro_slice_str(VERSION);
    }
    uint64_t ticket = ++rig->ticket;
    CHECK(ro_session_submit(rig->session, ticket, "POST", rig->url, headers,
                            count, ro_slice_str(body), true));
    return ticket;
}

static ro_reply *
ask(struct rig *rig, const char *id, const char *body)
{
    return rig_wait(rig, submit(rig, id, body), 8000);
}

static bool
is_answered(struct rig *rig, const char *id, const char *body, long status,
            const char *text)
{
    ro_reply *reply = ask(rig, id, body);
    bool good = reply != NULL && reply->status == status
                && (text == NULL || reply_has(reply, text));
    ro_reply_free(reply);
    return good;
}

static unsigned
connections(struct rig *rig)
{
    ro_net_stats stats;
    ro_net_get_stats(rig->net, &stats);
    return (unsigned)stats.connections;
}

/* Each session gets an id of its own: s-0, s-1, ... */
static atomic_uint sessions;

static void
say_meeting(int fd, const char *headers)
{
    char text[256];
    snprintf(text, sizeof(text), "Mcp-Session-Id: s-%u\r\n%s",
             atomic_fetch_add(&sessions, 1), headers);
    say_json(fd, text, MEETING);
}

static bool
meet(int fd, const char *request, unsigned nth)
{
    (void)request;
    (void)nth;
    say_meeting(fd, "");
    return true;
}

static const struct script good = {.answer = {[INITIALIZE] = meet}};

static void
start(struct rig *rig, const struct script *script)
{
    atomic_store(&sessions, 0);
    rig_start(rig, script);
}

static void
start_ahead(struct rig *rig, const struct script *script)
{
    start(rig, script);
    CHECK(run_ahead(rig));
}

/* Nothing is under way any more. */
static void
await_answers(struct rig *rig)
{
    int64_t until = ro_monotonic_ms() + 4000;
    ro_net_stats stats;
    do {
        (void)poll(NULL, 0, 1);
        ro_net_get_stats(rig->net, &stats);
    } while (stats.active != 0 && ro_monotonic_ms() < until);
    CHECK(stats.active == 0);
}

/* All five requests are at the server. */
static void
await_all(struct rig *rig)
{
    CHECK(rig_see(rig, INITIALIZE, 2, 4000));
    CHECK(rig_see(rig, INITIALIZED, 2, 4000));
    CHECK(rig_see(rig, LIST, 1, 4000));
}

/* The id that the server gave in the answer to initialize, to be used until
 * the next call. Frees the reply. */
static const char *
met_as(ro_reply *reply)
{
    static char id[32];
    ro_slice value = {NULL, 0};
    CHECK(reply != NULL && reply->status == 200 && reply_has(reply, VERSION));
    id[0] = '\0';
    if (reply != NULL
        && ro_header_find(reply->headers.items, reply->headers.count,
                          "mcp-session-id", &value)) {
        snprintf(id, sizeof(id), "%.*s", (int)value.len, value.ptr);
    }
    ro_reply_free(reply);
    return id;
}

static const char *
meet_as(struct rig *rig)
{
    return met_as(ask(rig, NULL, INITIALIZE_BODY));
}

/* What follows initialize. */
static void
go_on(struct rig *rig, const char *id)
{
    CHECK(is_answered(rig, id, INITIALIZED_BODY, 202, NULL));
    CHECK(is_answered(rig, id, LIST_BODY, 200, "readOnlyHint"));
}

static void
discover(struct rig *rig)
{
    go_on(rig, meet_as(rig));
}

static void
call(struct rig *rig)
{
    CHECK(rig_open_gate(rig, "{\"a\":1.10}"));
    rig->session = rig_session(rig, "srv");
    const char *id = meet_as(rig);
    CHECK(is_answered(rig, id, INITIALIZED_BODY, 202, NULL));
    CHECK(is_answered(rig, id, CALL_BODY, 200, "content"));
    CHECK(rig_outcome(rig) == RO_CODE_OK);
}

/* ---- the good case ---- */

static void
test_a_call_sends_nothing_twice(bool waits)
{
    struct rig rig;
    start_ahead(&rig, &good);
    if (waits) {
        await_all(&rig);
        await_answers(&rig);
    }
    discover(&rig);
    call(&rig);
    ro_mcp_close(rig.mcp, 8000);
    CHECK(rig_seen(&rig, INITIALIZE) == 2);
    CHECK(rig_seen(&rig, INITIALIZED) == 2);
    CHECK(rig_seen(&rig, LIST) == 1);
    CHECK(rig_seen(&rig, CALL) == 1);
    CHECK(rig_seen(&rig, DELETE) == 2);
    /* the server's own stream is one more, when the call takes a second */
    CHECK(connections(&rig) == 2
          || (connections(&rig) == 3 && rig_seen(&rig, GET) != 0));
    rig_stop(&rig);
}

static bool
meet_in_a_stream(int fd, const char *request, unsigned nth)
{
    (void)request;
    (void)nth;
    say_stream_head(fd);
    server_say(fd, ": hello\n\nid: 1\ndata:\n\nevent: message\ndata: " MEETING
                   "\n\n");
    return false;
}

static bool
list_in_a_stream(int fd, const char *request, unsigned nth)
{
    (void)request;
    (void)nth;
    say_stream_head(fd);
    server_say(fd, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/"
                   "message\"}\n\ndata: " LIST_ANSWER "\n\n");
    return false;
}

static void
test_streams_and_no_id(void)
{
    static const struct script script
        = {.answer
           = {[INITIALIZE] = meet_in_a_stream, [LIST] = list_in_a_stream}};
    struct rig rig;
    start_ahead(&rig, &script);
    await_all(&rig);
    discover(&rig);
    call(&rig);
    ro_mcp_close(rig.mcp, 8000);
    CHECK(rig_seen(&rig, INITIALIZE) == 2);
    CHECK(rig_seen(&rig, LIST) == 1);
    CHECK(rig_seen(&rig, CALL) == 1);
    CHECK(rig_seen(&rig, DELETE) == 0);
    rig_stop(&rig);
}

/* ---- what is not the expected request ---- */

static void
test_other_bytes_drop_all(void)
{
    struct rig rig;
    start_ahead(&rig, &good);
    await_all(&rig);
    CHECK(is_answered(&rig, NULL,
                      "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":"
                      "\"initialize\",\"params\":{\"a\":1}}",
                      200, VERSION));
    CHECK(rig_see(&rig, DELETE, 2, 4000));
    CHECK(rig_seen(&rig, INITIALIZE) == 3);
    ro_mcp_close(rig.mcp, 8000);
    CHECK(rig_seen(&rig, DELETE) == 3);
    rig_stop(&rig);
}

static void
test_other_headers_behind_initialize(void)
{
    struct rig rig;
    start_ahead(&rig, &good);
    await_all(&rig);
    (void)meet_as(&rig);
    CHECK(is_answered(&rig, "another", INITIALIZED_BODY, 202, NULL));
    CHECK(is_answered(&rig, "another", LIST_BODY, 200, "readOnlyHint"));
    CHECK(rig_seen(&rig, INITIALIZE) == 2);
    CHECK(rig_seen(&rig, INITIALIZED) == 3);
    CHECK(rig_seen(&rig, LIST) == 2);
    /* what the dropped list brought is not kept */
    CHECK(ro_discovery_judge(rig.discovery, ro_slice_str("srv"))
          == RO_HINTS_READ_ONLY);
    CHECK(rig_see(&rig, DELETE, 1, 4000)); /* the call's line */
    ro_mcp_close(rig.mcp, 8000);
    CHECK(rig_seen(&rig, DELETE) == 2);
    rig_stop(&rig);
}

static void
test_another_server_is_another_conversation(void)
{
    struct rig rig;
    start_ahead(&rig, &good);
    await_all(&rig);
    rig.session = rig_session(&rig, "other");
    (void)meet_as(&rig);
    CHECK(rig_seen(&rig, INITIALIZE) == 3);
    CHECK(rig_seen(&rig, DELETE) == 0);
    ro_mcp_close(rig.mcp, 8000);
    CHECK(rig_seen(&rig, DELETE) == 3);
    rig_stop(&rig);
}

static void
test_nobody_comes(void)
{
    struct rig rig;
    start_ahead(&rig, &good);
    CHECK(run_ahead(&rig)); /* the second one does nothing */
    await_all(&rig);
    await_answers(&rig);
    ro_mcp_close(rig.mcp, 8000);
    CHECK(rig_seen(&rig, INITIALIZE) == 2);
    CHECK(rig_seen(&rig, DELETE) == 2);
    CHECK(connections(&rig) == 2);
    rig_stop(&rig);
}

/* Until the server has seen so many connections end. */
static bool
see_ends(const struct rig *rig, unsigned count)
{
    int64_t until = ro_monotonic_ms() + 8000;
    while (atomic_load(&rig->server->n_ended) < count) {
        if (ro_monotonic_ms() > until) {
            return false;
        }
        (void)poll(NULL, 0, 2);
    }
    return true;
}

/* DCode's preflight has its own connection: it gets one when it waits for it,
 * and what was answered is used all the same. */
static void
test_the_preflight_is_let_in(bool waits)
{
    struct rig rig;
    sem_t go;
    start_ahead(&rig, &good);
    await_all(&rig);
    await_answers(&rig);
    worker_holds(rig.net, &go);
    ro_mcp_await_preflight(rig.mcp);
    ro_mcp_await_preflight(rig.mcp); /* the second one does nothing */
    uint64_t asked = waits ? 0 : submit(&rig, NULL, INITIALIZE_BODY);
    (void)sem_post(&go);
    worker_passes(rig.net, RO_PREFLIGHT_MS);
    CHECK(!waits || see_ends(&rig, 2));
    CHECK(waits || atomic_load(&rig.server->n_ended) == 0);
    go_on(&rig, waits ? meet_as(&rig) : met_as(rig_wait(&rig, asked, 8000)));
    call(&rig);
    CHECK(waits ? connections(&rig) > 2
                : connections(&rig) == 2 || rig_seen(&rig, GET) != 0);
    CHECK(rig_seen(&rig, INITIALIZE) == 2);
    CHECK(rig_seen(&rig, LIST) == 1);
    CHECK(rig_seen(&rig, CALL) == 1);
    rig_stop(&rig);
    (void)sem_destroy(&go);
}

/* Where nothing runs ahead nothing waits for a preflight, and what is closed
 * begins no more. */
static void
test_no_conversation_ahead(void)
{
    struct rig rig;
    start(&rig, &good);
    ro_mcp_await_preflight(rig.mcp);
    discover(&rig);
    CHECK(connections(&rig) >= 1 && rig_seen(&rig, INITIALIZE) == 1);
    ro_mcp_close(rig.mcp, 8000);
    CHECK(run_ahead(&rig));
    worker_passes(rig.net, 0);
    CHECK(rig_seen(&rig, INITIALIZE) == 1);
    rig_stop(&rig);
}

static void
test_only_what_the_plan_is_for(void)
{
    struct rig rig;
    ro_ahead_plan plan = {
        .server = ro_slice_str("srv"),
        .url = "http://127.0.0.1:1/",
        .proxy = "",
        .cafile = "",
        .capath = "",
        .versions = VERSIONS,
        .initialize = ro_slice_str(INITIALIZE_BODY),
        .initialized = ro_slice_str(INITIALIZED_BODY),
        .list = ro_slice_str(CALL_BODY),
    };
    start(&rig, &good);
    CHECK(!ro_mcp_run_ahead(rig.mcp, &plan));
    plan.list = ro_slice_str(LIST_ANSWER);
    CHECK(!ro_mcp_run_ahead(rig.mcp, &plan));
    plan.list = ro_slice_str("");
    CHECK(!ro_mcp_run_ahead(rig.mcp, &plan));
    rig_stop(&rig);
}

/* ---- answers that are no plain success ---- */

static bool
refuse_first(int fd, const char *request, unsigned nth)
{
    if (nth < 1) {
        server_say(fd, "HTTP/1.1 503 No\r\nMcp-Session-Id: x\r\n"
                       "Content-Length: 0\r\n\r\n");
        return true;
    }
    return meet(fd, request, nth);
}

static bool
drop_first(int fd, const char *request, unsigned nth)
{
    return nth >= 1 && meet(fd, request, nth);
}

static bool
speak_otherwise_first(int fd, const char *request, unsigned nth)
{
    if (nth < 1) {
        say_json(fd, "",
                 "{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{"
                 "\"protocolVersion\":\"2025-06\",\"capabilities\":{},"
                 "\"serverInfo\":{}}}");
        return true;
    }
    return meet(fd, request, nth);
}

static bool
fail_first(int fd, const char *request, unsigned nth)
{
    if (nth < 1) {
        say_json(fd, "",
                 "{\"jsonrpc\":\"2.0\",\"id\":0,\"error\":{\"code\":1,"
                 "\"message\":\"m\"}}");
        return true;
    }
    return meet(fd, request, nth);
}

static void
test_a_failure_ahead_is_no_outcome(void)
{
    static const answer_fn bad[]
        = {refuse_first, drop_first, speak_otherwise_first, fail_first};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct script script = {.answer = {[INITIALIZE] = bad[i]}};
        struct rig rig;
        start_ahead(&rig, &script);
        CHECK(rig_see(&rig, INITIALIZE, 1, 4000));
        await_answers(&rig);
        discover(&rig);
        call(&rig);
        CHECK(rig_noted(&rig) == RO_REASON_NONE);
        CHECK(rig_seen(&rig, INITIALIZE) == 3);
        CHECK(rig_seen(&rig, INITIALIZED) == 2);
        CHECK(rig_seen(&rig, CALL) == 1);
        rig_stop(&rig);
    }
}

#define RESULT(text) "{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{" text "}}"
#define SPOKEN "\"protocolVersion\":\"" VERSION "\""

static const char *first_body;
static bool first_is_stream;

static bool
say_first_body(int fd, const char *request, unsigned nth)
{
    if (nth >= 1) {
        return meet(fd, request, nth);
    }
    if (!first_is_stream) {
        say_json(fd, "", first_body);
        return true;
    }
    say_stream_head(fd);
    server_say(fd, "data: ");
    server_say(fd, first_body);
    server_say(fd, "\n\n");
    return false;
}

/* What the SDK would not go on with, nothing runs ahead of; it asks itself. */
static void
test_a_meeting_that_is_none(void)
{
    static const char *const bodies[] = {
        RESULT(SPOKEN ",\"serverInfo\":{}"),
        RESULT(SPOKEN ",\"capabilities\":[],\"serverInfo\":{}"),
        RESULT(SPOKEN ",\"capabilities\":{}"),
        RESULT(SPOKEN ",\"capabilities\":{},\"serverInfo\":1"),
        RESULT("\"capabilities\":{},\"serverInfo\":{}"),
        RESULT("\"protocolVersion\":1,\"capabilities\":{},"
               "\"serverInfo\":{}"),
        RESULT("\"protocolVersion\":\"\",\"capabilities\":{},"
               "\"serverInfo\":{}"),
        "{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":[]}",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{" SPOKEN
        ",\"capabilities\":{},\"serverInfo\":{}}}",
        "no JSON",
    };
    static const struct script script
        = {.answer = {[INITIALIZE] = say_first_body}};
    for (size_t i = 0; i < 2 * sizeof(bodies) / sizeof(bodies[0]); i++) {
        struct rig rig;
        first_body = bodies[i / 2];
        first_is_stream = i % 2 == 1;
        start_ahead(&rig, &script);
        CHECK(rig_see(&rig, INITIALIZE, 1, 4000));
        await_answers(&rig);
        CHECK(rig_seen(&rig, INITIALIZE) == 1);
        CHECK(rig_seen(&rig, INITIALIZED) == 0);
        discover(&rig);
        CHECK(rig_noted(&rig) == RO_REASON_NONE);
        CHECK(rig_seen(&rig, INITIALIZE) == 2);
        CHECK(rig_seen(&rig, INITIALIZED) == 1);
        rig_stop(&rig);
    }
}

static bool
redirect(int fd, const char *request, unsigned nth)
{
    (void)request;
    (void)nth;
    server_say(fd, "HTTP/1.1 307 Go\r\nLocation: /other\r\n"
                   "Content-Length: 0\r\n\r\n");
    return true;
}

static bool
challenge(int fd, const char *request, unsigned nth)
{
    (void)request;
    (void)nth;
    server_say(fd, "HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n");
    return true;
}

/* Once, and never again. */
static void
test_what_is_final_is_taken(void)
{
    static const struct {
        answer_fn answer;
        long status;
        ro_reason reason;
    } finals[] = {
        {redirect, 307, RO_REASON_NONE},
        {challenge, 200, RO_REASON_HTTP_401},
    };
    for (size_t i = 0; i < sizeof(finals) / sizeof(finals[0]); i++) {
        struct script script = {.answer = {[INITIALIZE] = finals[i].answer}};
        struct rig rig;
        start_ahead(&rig, &script);
        CHECK(rig_see(&rig, INITIALIZE, 1, 4000));
        CHECK(rig_noted(&rig) == RO_REASON_NONE);
        CHECK(
            is_answered(&rig, NULL, INITIALIZE_BODY, finals[i].status, NULL));
        CHECK(rig_noted(&rig) == finals[i].reason);
        CHECK(rig_seen(&rig, INITIALIZE) == 1);
        CHECK(rig_seen(&rig, INITIALIZED) == 0);
        rig_stop(&rig);
    }
}

static bool
refuse_second(int fd, const char *request, unsigned nth)
{
    if (nth == 1) {
        server_say(fd, "HTTP/1.1 400 No\r\nContent-Length: 0\r\n\r\n");
        return true;
    }
    return meet(fd, request, nth);
}

/* One session at a time: it is discovery's, and the call's is asked for once
 * more by the SDK. */
static void
test_the_call_is_refused(void)
{
    static const struct script script
        = {.answer = {[INITIALIZE] = refuse_second}};
    struct rig rig;
    start_ahead(&rig, &script);
    CHECK(rig_see(&rig, INITIALIZE, 2, 4000));
    discover(&rig);
    await_answers(&rig); /* a refusal under way would be taken */
    CHECK(rig_seen(&rig, INITIALIZE) == 2);
    call(&rig);
    CHECK(rig_seen(&rig, INITIALIZE) == 3);
    CHECK(rig_seen(&rig, CALL) == 1);
    ro_mcp_close(rig.mcp, 8000);
    CHECK(rig_seen(&rig, DELETE) == atomic_load(&sessions));
    rig_stop(&rig);
}

static bool
meet_with_a_cookie(int fd, const char *request, unsigned nth)
{
    (void)request;
    (void)nth;
    say_meeting(fd, "Set-Cookie: a=b\r\n");
    return true;
}

static void
test_nothing_runs_ahead_of_a_cookie(void)
{
    static const struct script script
        = {.answer = {[INITIALIZE] = meet_with_a_cookie}};
    struct rig rig;
    start_ahead(&rig, &script);
    CHECK(rig_see(&rig, INITIALIZE, 2, 4000));
    CHECK(rig_seen(&rig, INITIALIZED) == 0);
    discover(&rig);
    CHECK(rig_seen(&rig, INITIALIZE) == 2);
    CHECK(rig_seen(&rig, INITIALIZED) == 1);
    rig_stop(&rig);
}

static const char *odd_headers;

static bool
meet_oddly(int fd, const char *request, unsigned nth)
{
    (void)request;
    (void)nth;
    say_json(fd, odd_headers, MEETING);
    return true;
}

/* Nor of an id that the SDK may read otherwise. */
static void
test_nothing_runs_ahead_of_an_odd_id(void)
{
    static const char *const headers[] = {
        "Mcp-Session-Id: a\r\nMcp-Session-Id: b\r\n",
        "Mcp-Session-Id:\r\n",
        "Mcp-Session-Id: a b\r\n",
        "Mcp-Session-Id: \xc3\xa9\r\n",
    };
    static const struct script script
        = {.answer = {[INITIALIZE] = meet_oddly}};
    for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
        struct rig rig;
        odd_headers = headers[i];
        start_ahead(&rig, &script);
        CHECK(rig_see(&rig, INITIALIZE, 2, 4000));
        await_answers(&rig);
        CHECK(rig_seen(&rig, INITIALIZED) == 0);
        discover(&rig);
        CHECK(rig_seen(&rig, INITIALIZE) == 2);
        CHECK(rig_seen(&rig, INITIALIZED) == 1);
        rig_stop(&rig);
    }
}

#define HALF (sizeof(MEETING) / 2)

/* An event that comes in two reads. */
static bool
meet_in_two_parts(int fd, const char *request, unsigned nth)
{
    ro_net_stats before;
    ro_net_stats now;
    (void)request;
    (void)nth;
    ro_net_get_stats(rig_now->net, &before);
    say_stream_head(fd);
    server_say(fd, "data: ");
    server_say_bytes(fd, MEETING, HALF);
    int64_t until = ro_monotonic_ms() + 4000;
    do {
        (void)poll(NULL, 0, 1);
        ro_net_get_stats(rig_now->net, &now);
    } while (now.bytes_in < before.bytes_in + 6 + HALF
             && ro_monotonic_ms() < until);
    server_say(fd, &MEETING[HALF]);
    server_say(fd, "\n\n");
    return false;
}

static void
test_an_answer_in_two_parts(void)
{
    static const struct script script
        = {.answer = {[INITIALIZE] = meet_in_two_parts}};
    struct rig rig;
    start_ahead(&rig, &script);
    await_all(&rig);
    discover(&rig);
    CHECK(rig_seen(&rig, INITIALIZE) == 2 && rig_seen(&rig, LIST) == 1);
    rig_stop(&rig);
}

/* ---- answers under way ---- */

static atomic_int held; /* descriptors that wait, as a count */
static atomic_bool let_go;

static bool
hold(int fd, const char *request, unsigned nth)
{
    (void)request;
    (void)nth;
    server_say(fd, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                   "Mcp-Session-Id: s\r\n");
    atomic_fetch_add(&held, 1);
    while (!atomic_load(&let_go) && !server_peer_closes(fd, 5)) {
    }
    char rest[512];
    snprintf(rest, sizeof(rest), "Content-Length: %zu\r\n\r\n%s",
             strlen(MEETING), MEETING);
    server_say(fd, rest);
    return true;
}

/* Discovery's initialize is at the server, which answers when let_go is set.
 */
static void
start_held(struct rig *rig)
{
    static const struct script script = {.answer = {[INITIALIZE] = hold}};
    atomic_store(&held, 0);
    atomic_store(&let_go, false);
    start_ahead(rig, &script);
    CHECK(rig_see(rig, INITIALIZE, 1, 4000));
}

static void
test_an_answer_under_way_is_taken(void)
{
    struct rig rig;
    start_held(&rig);
    uint64_t ticket = ++rig.ticket;
    CHECK(ro_session_submit(rig.session, ticket, "POST", rig.url, base, 2,
                            ro_slice_str(INITIALIZE_BODY), true));
    CHECK(rig_count(&rig, ticket) == 0);
    atomic_store(&let_go, true);
    ro_reply *reply = rig_wait(&rig, ticket, 4000);
    CHECK(reply_has(reply, VERSION));
    ro_reply_free(reply);
    CHECK(is_answered(&rig, "s", INITIALIZED_BODY, 202, NULL));
    CHECK(is_answered(&rig, "s", LIST_BODY, 200, "readOnlyHint"));
    CHECK(rig_seen(&rig, INITIALIZE) == 1);
    CHECK(rig_seen(&rig, LIST) == 1);
    rig_stop(&rig);
}

/* Its connection is there, and nothing is asked on it. */
static void
test_the_call_waits_for_discovery(void)
{
    struct rig rig;
    start_held(&rig);
    int64_t until = ro_monotonic_ms() + 4000;
    while (connections(&rig) < 2 && ro_monotonic_ms() < until) {
    }
    CHECK(connections(&rig) == 2);
    CHECK(rig_seen(&rig, INITIALIZE) == 1);
    atomic_store(&let_go, true);
    await_all(&rig);
    CHECK(connections(&rig) == 2);
    rig_stop(&rig);
}

/* Whatever is under way when the end comes, asked for or not. */
static bool
hold_second(int fd, const char *request, unsigned nth)
{
    return nth == 1 ? hold(fd, request, nth) : meet(fd, request, nth);
}

/* The call's sequence is not done when the preflight has waited for a second:
 * it is dropped, and the session that still comes of it is ended. */
static void
test_the_preflight_comes_first(void)
{
    static const struct script script
        = {.answer = {[INITIALIZE] = hold_second}};
    struct rig rig;
    atomic_store(&held, 0);
    atomic_store(&let_go, false);
    start_ahead(&rig, &script);
    CHECK(rig_see(&rig, INITIALIZE, 2, 4000));
    CHECK(rig_see(&rig, LIST, 1, 4000));
    ro_mcp_await_preflight(rig.mcp);
    worker_passes(rig.net, RO_PREFLIGHT_MS);
    CHECK(rig_seen(&rig, DELETE) == 0);
    atomic_store(&let_go, true);
    CHECK(rig_see(&rig, DELETE, 1, 8000));
    discover(&rig);
    CHECK(rig_seen(&rig, INITIALIZE) == 2);
    call(&rig);
    CHECK(rig_seen(&rig, INITIALIZE) == 3);
    CHECK(rig_seen(&rig, INITIALIZED) == 2);
    rig_stop(&rig);
}

static void
test_the_end_comes_first(bool asked)
{
    struct rig rig;
    start_held(&rig);
    uint64_t ticket = ++rig.ticket;
    if (asked) {
        CHECK(ro_session_submit(rig.session, ticket, "POST", rig.url, base, 2,
                                ro_slice_str(INITIALIZE_BODY), true));
    }
    ro_mcp_close(rig.mcp, 100);
    if (asked) {
        ro_reply *reply = rig_wait(&rig, ticket, 4000);
        CHECK(reply_has(reply, "error") || reply->status == 503);
        ro_reply_free(reply);
    }
    rig_stop(&rig);
}

#define LARGE (3u * 1024u * 1024u)

static bool
list_at_length(int fd, const char *request, unsigned nth)
{
    (void)request;
    (void)nth;
    static char text[LARGE];
    static const char front[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{"
                                "\"tools\":[" GOOD_ENTRY ",{\"name\":\"";
    char head[128];
    memset(text, 'x', sizeof(text));
    memcpy(text, front, sizeof(front) - 1);
    memcpy(text + LARGE - 7, "\"}]}}\0", 6);
    snprintf(head, sizeof(head),
             "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
             "Content-Length: %u\r\n\r\n",
             LARGE - 2);
    server_say(fd, head);
    size_t at = 0;
    while (at < LARGE - 2) {
        ssize_t sent = send(fd, text + at, LARGE - 2 - at, MSG_NOSIGNAL);
        if (sent <= 0) {
            return false;
        }
        at += (size_t)sent;
    }
    return true;
}

/* More than is kept waits on the wire until it is asked for. */
static void
test_a_large_list(void)
{
    static const struct script script
        = {.answer = {[INITIALIZE] = meet, [LIST] = list_at_length}};
    struct rig rig;
    ro_net_stats stats;
    start_ahead(&rig, &script);
    await_all(&rig);
    const char *id = meet_as(&rig);
    CHECK(is_answered(&rig, id, INITIALIZED_BODY, 202, NULL));
    ro_net_get_stats(rig.net, &stats);
    CHECK(stats.bytes_in <= RO_MAX_AHEAD + 4096);
    CHECK(is_answered(&rig, id, LIST_BODY, 200, "readOnlyHint"));
    CHECK(rig_seen(&rig, LIST) == 1);
    ro_net_get_stats(rig.net, &stats);
    CHECK(stats.bytes_in >= LARGE - 2);
    rig_stop(&rig);
}

/* ---- out of memory ---- */

/* Whichever allocation fails: the call is made once, or fails as it may. */
static void
test_out_of_memory(void)
{
    for (unsigned nth = 1; nth < 80; nth++) {
        struct rig rig;
        start(&rig, &good);
        ro_alloc_fail_at(nth, 0);
        bool started = run_ahead(&rig);
        if (started) {
            (void)rig_see(&rig, INITIALIZE, 1, 50); /* or it is given up */
        }
        ro_alloc_fail_at(0, 0);
        discover(&rig);
        CHECK(rig_seen(&rig, LIST) >= 1);
        ro_mcp_close(rig.mcp, 8000);
        CHECK(rig_seen(&rig, DELETE) <= rig_seen(&rig, INITIALIZE));
        rig_stop(&rig);
    }
}

int
main(void)
{
    test_a_call_sends_nothing_twice(true);
    test_a_call_sends_nothing_twice(false);
    test_streams_and_no_id();
    test_other_bytes_drop_all();
    test_other_headers_behind_initialize();
    test_another_server_is_another_conversation();
    test_nobody_comes();
    test_the_preflight_is_let_in(true);
    test_the_preflight_is_let_in(false);
    test_no_conversation_ahead();
    test_only_what_the_plan_is_for();
    test_a_failure_ahead_is_no_outcome();
    test_a_meeting_that_is_none();
    test_what_is_final_is_taken();
    test_the_call_is_refused();
    test_the_call_waits_for_discovery();
    test_nothing_runs_ahead_of_a_cookie();
    test_nothing_runs_ahead_of_an_odd_id();
    test_an_answer_in_two_parts();
    test_an_answer_under_way_is_taken();
    test_the_preflight_comes_first();
    test_the_end_comes_first(false);
    test_the_end_comes_first(true);
    test_a_large_list();
    test_out_of_memory();
    return check_end();
}
