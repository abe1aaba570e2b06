/* An auth flow above a session: challenges go up, and its own requests go
 * out, up to the verdict and never to the endpoint. */
#include "failing.h"
#include "session_rig.h"

static ro_session *
auth_session(struct rig *rig, bool auth)
{
    ro_session_options options = {
        .server = ro_slice_str("srv"),
        .url = rig->url,
        .proxy = "",
        .cafile = "",
        .capath = "",
        .auth = auth,
    };
    return ro_mcp_session(rig->mcp, &options);
}

static const char *
at(const struct rig *rig, const char *path)
{
    static char url[128];
    snprintf(url, sizeof(url), "http://127.0.0.1:%d%s", rig->server->port,
             path);
    return url;
}

/* A request without the headers of a session; NULL: it was not taken. */
static ro_reply *
ask(struct rig *rig, const char *method, const char *url, const char *body)
{
    ro_header header = {ro_slice_str("Accept"), ro_slice_str("*/*")};
    uint64_t ticket = ++rig->ticket;
    if (!ro_session_submit(rig->session, ticket, method, url, &header, 1,
                           ro_slice_str(body == NULL ? "" : body),
                           body != NULL)) {
        return NULL;
    }
    ro_reply *reply = rig_wait(rig, ticket, 8000);
    CHECK(reply != NULL && rig_count(rig, ticket) == 0);
    return reply;
}

static bool
answers(struct rig *rig, const char *method, const char *url, const char *body,
        long status, const char *text)
{
    ro_reply *reply = ask(rig, method, url, body);
    bool good = reply != NULL && reply->status == status
                && (text == NULL ? reply->body_len == 0
                                 : reply->body_len == strlen(text)
                                       && reply_has(reply, text));
    ro_reply_free(reply);
    return good;
}

static void
start(struct rig *rig, const struct script *script)
{
    rig_start(rig, script);
    rig->session = auth_session(rig, true);
    CHECK(rig->session != NULL);
}

/* ---- what the flow asks itself ---- */

#define GRANT "grant_type=authorization_code&code=c"
#define TOKEN "{\"access_token\":\"t\"}"

static bool
say_token(int fd, const char *request, unsigned nth)
{
    (void)nth;
    EXPECT(strncmp(request, "POST /token HTTP/1.1\r\n", 22) == 0);
    EXPECT(strstr(request, "\r\n\r\n" GRANT) != NULL);
    server_say(
        fd, "HTTP/1.1 201 Made\r\nX-A: 1\r\nContent-Length: 20\r\n\r\n" TOKEN);
    return true;
}

static bool
say_nothing_is_there(int fd, const char *request, unsigned nth)
{
    (void)nth;
    EXPECT(strncmp(request, "GET /.well-known/x HTTP/1.1\r\n", 29) == 0);
    server_say(fd, "HTTP/1.1 404 No\r\nContent-Length: 4\r\n\r\nnone");
    return true;
}

/* They go up as they came, but for what frames them. */
static void
test_its_requests_go_out(void)
{
    static const struct script script
        = {.answer = {[OTHER] = say_token, [GET] = say_nothing_is_there}};
    struct rig rig;
    start(&rig, &script);
    CHECK(answers(&rig, "GET", at(&rig, "/.well-known/x"), NULL, 404, "none"));
    ro_reply *reply = ask(&rig, "POST", at(&rig, "/token"), GRANT);
    CHECK(reply != NULL && reply->status == 201 && reply_has(reply, TOKEN));
    CHECK(reply != NULL && reply->headers.count == 1
          && ro_slice_equal(reply->headers.items[0].name, ro_slice_str("X-A"))
          && ro_slice_equal(reply->headers.items[0].value, ro_slice_str("1")));
    ro_reply_free(reply);
    CHECK(rig_noted(&rig) == RO_REASON_NONE);
    rig_stop(&rig);
}

/* What is no JSON-RPC message never goes to the endpoint; without an auth
 * flow it goes nowhere, and after the verdict nothing but the call's session
 * goes out. */
static void
test_what_it_may_not_ask(void)
{
    static const struct script script = {.answer = {[OTHER] = say_token}};
    struct rig rig;
    start(&rig, &script);
    CHECK(answers(&rig, "POST", rig.url, GRANT, 503, NULL));
    CHECK(answers(&rig, "GET", rig.url, NULL, 503, NULL));
    CHECK(rig_noted(&rig) == RO_REASON_REFUSED);
    CHECK(answers(&rig, "POST", at(&rig, "/token"), GRANT, 201, TOKEN));
    rig.session = auth_session(&rig, false);
    CHECK(answers(&rig, "POST", at(&rig, "/token"), GRANT, 503, NULL));
    rig.session = auth_session(&rig, true);
    CHECK(rig_discover(&rig));
    CHECK(rig_open_gate(&rig, "{}"));
    CHECK(answers(&rig, "POST", at(&rig, "/token"), GRANT, 503, NULL));
    CHECK(rig_seen(&rig, OTHER) == 1 && rig_seen(&rig, GET) == 0);
    rig_stop(&rig);
}

static bool
move(int fd, const char *request, unsigned nth)
{
    if (nth == 0) {
        server_say(fd, "HTTP/1.1 307 Elsewhere\r\nLocation: /moved\r\n"
                       "Content-Length: 0\r\n\r\n");
        return true;
    }
    EXPECT(strncmp(request, "POST /moved ", 12) == 0);
    return answer_by_default(INITIALIZE, fd);
}

/* Nor to where the endpoint has moved. */
static void
test_a_moved_endpoint_is_the_endpoint(void)
{
    static const struct script script
        = {.answer = {[INITIALIZE] = move, [OTHER] = say_token}};
    struct rig rig;
    start(&rig, &script);
    CHECK(rig_ask(&rig, INITIALIZE_BODY, 307, NULL));
    CHECK(answers(&rig, "POST", at(&rig, "/token"), GRANT, 201, TOKEN));
    ro_reply *reply
        = rig_wait(&rig,
                   rig_submit_to(&rig, rig.session, "POST", at(&rig, "/moved"),
                                 INITIALIZE_BODY),
                   8000);
    CHECK(reply != NULL && reply->status == 200);
    ro_reply_free(reply);
    CHECK(answers(&rig, "POST", at(&rig, "/moved"), GRANT, 503, NULL));
    CHECK(answers(&rig, "POST", rig.url, GRANT, 503, NULL));
    CHECK(answers(&rig, "POST", at(&rig, "/token"), GRANT, 201, TOKEN));
    CHECK(rig_seen(&rig, OTHER) == 2);
    rig_stop(&rig);
}

static size_t document_size;

static bool
say_document(int fd, const char *request, unsigned nth)
{
    char head[128];
    char *bytes = calloc(1, document_size);
    (void)request;
    (void)nth;
    memset(bytes, 'x', document_size);
    snprintf(head, sizeof(head),
             "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", document_size);
    server_say(fd, head);
    server_say_bytes(fd, bytes, document_size);
    free(bytes);
    return true;
}

static void
test_its_answers_have_a_bound(void)
{
    static const struct script script = {.answer = {[GET] = say_document}};
    for (int over = 0; over <= 1; over++) {
        struct rig rig;
        document_size = RO_MAX_ANSWER + (size_t)over;
        start(&rig, &script);
        ro_reply *reply = ask(&rig, "GET", at(&rig, "/x"), NULL);
        CHECK(reply != NULL && reply->status == (over ? 503 : 200));
        CHECK(reply != NULL && reply->body_len == (over ? 0 : document_size));
        CHECK(rig_noted(&rig)
              == (over ? RO_REASON_TOO_LARGE : RO_REASON_NONE));
        ro_reply_free(reply);
        rig_stop(&rig);
    }
    /* and count for all that one process reads */
    for (int over = 0; over <= 1; over++) {
        struct rig rig;
        document_size = 100;
        start(&rig, &script);
        CHECK(ro_discovery_count(rig.discovery,
                                 RO_MAX_TOTAL - 100 + (size_t)over));
        ro_reply *reply = ask(&rig, "GET", at(&rig, "/x"), NULL);
        CHECK(reply != NULL && reply->status == (over ? 503 : 200));
        CHECK(rig_noted(&rig)
              == (over ? RO_REASON_TOO_LARGE : RO_REASON_NONE));
        ro_reply_free(reply);
        rig_stop(&rig);
    }
}

static void
test_a_failure_is_noted(void)
{
    static const struct script script;
    struct rig rig;
    start(&rig, &script);
    CHECK(answers(&rig, "GET", "http://127.0.0.1:1/x", NULL, 503, NULL));
    CHECK(rig_noted(&rig) == RO_REASON_REFUSED_PORT);
    CHECK(answers(&rig, "GET", "ftp://127.0.0.1/x", NULL, 503, NULL));
    rig_stop(&rig);
}

/* Answers the first request of a connection, and ends at the second. */
static bool
answer_once(int fd, const char *request, unsigned nth)
{
    (void)request;
    if (nth == 1) {
        return false;
    }
    server_say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    return true;
}

/* A grant is good for one use: unlike a GET it is not sent again when its
 * connection has ended. */
static void
test_a_grant_is_sent_once(void)
{
    static const struct script script
        = {.answer = {[OTHER] = answer_once, [GET] = answer_once}};
    struct rig rig;
    start(&rig, &script);
    CHECK(answers(&rig, "POST", at(&rig, "/token"), GRANT, 200, "ok"));
    CHECK(answers(&rig, "POST", at(&rig, "/token"), GRANT, 503, NULL));
    CHECK(rig_seen(&rig, OTHER) == 2);
    CHECK(rig_noted(&rig) == RO_REASON_CLOSED_BY_SERVER);
    CHECK(answers(&rig, "GET", at(&rig, "/x"), NULL, 200, "ok"));
    CHECK(answers(&rig, "GET", at(&rig, "/x"), NULL, 200, "ok"));
    CHECK(rig_seen(&rig, GET) == 3);
    rig_stop(&rig);
}

/* ---- challenges ---- */

static bool
challenge(int fd, const char *request, unsigned nth)
{
    (void)request;
    (void)nth;
    server_say(fd, "HTTP/1.1 401 No\r\nWWW-Authenticate: Bearer x\r\n"
                   "Content-Length: 0\r\n\r\n");
    return true;
}

static bool
has_challenge(const ro_reply *reply)
{
    ro_slice value;
    return reply != NULL && reply->status == 401
           && ro_header_find(reply->headers.items, reply->headers.count,
                             "www-authenticate", &value)
           && ro_slice_equal(value, ro_slice_str("Bearer x"));
}

/* To the flow, and to nobody else: there it is the request's failure. Once the
 * gate is open nothing can log in any more. */
static void
test_a_challenge_goes_up(void)
{
    static const struct script script
        = {.answer = {[INITIALIZE] = challenge, [CALL] = challenge}};
    struct rig rig;
    start(&rig, &script);
    ro_reply *reply = rig_wait(&rig, rig_submit(&rig, INITIALIZE_BODY), 8000);
    CHECK(has_challenge(reply));
    ro_reply_free(reply);
    CHECK(rig_noted(&rig) == RO_REASON_NONE);
    CHECK(rig_ask(&rig, LIST_BODY, 200, "readOnlyHint"));
    CHECK(rig_open_gate(&rig, "{}"));
    rig.session = auth_session(&rig, true);
    CHECK(rig_ask(&rig, INITIALIZE_BODY, 200, "\"error\""));
    rig_stop(&rig);

    start(&rig, &script);
    rig.session = auth_session(&rig, false);
    CHECK(rig_ask(&rig, INITIALIZE_BODY, 200, "\"error\""));
    CHECK(rig_noted(&rig) == RO_REASON_HTTP_401);
    rig_stop(&rig);
}

/* ---- out of memory, and the end ---- */

/* One conversation; true when each request had its whole answer. */
static bool
log_in(void *ctx)
{
    struct rig *rig = ctx;
    bool whole = rig_open(rig);
    if (whole) {
        rig->session = auth_session(rig, true);
        whole = rig->session != NULL;
    }
    if (whole) {
        ro_reply *reply = ask(rig, "GET", at(rig, "/x"), NULL);
        CHECK(reply == NULL || reply->status == 200 || reply->status == 503);
        whole = reply != NULL && reply->status == 200
                && reply->body_len == document_size;
        CHECK(whole || reply == NULL || reply->body_len == 0);
        ro_reply_free(reply);
    }
    if (whole) {
        uint64_t ticket = rig_submit(rig, INITIALIZE_BODY);
        ro_reply *reply = ticket == 0 ? NULL : rig_wait(rig, ticket, 8000);
        CHECK(ticket == 0
              || (reply != NULL
                  && (has_challenge(reply) || reply->status == 503
                      || reply_has(reply, "\"error\""))));
        whole = has_challenge(reply);
        ro_reply_free(reply);
    }
    if (rig->mcp == NULL) {
        CHECK(rig->net == NULL || ro_net_shut_down(rig->net, 5000));
        ro_net_free(rig->net);
        rig->net = NULL;
        rig_free_found(rig);
        return false;
    }
    CHECK(rig_close(rig));
    return whole;
}

static void
test_every_allocation_fails_in_turn(void)
{
    static const struct script script
        = {.answer = {[GET] = say_document, [INITIALIZE] = challenge}};
    struct rig rig;
    document_size = 3000;
    rig_start(&rig, &script);
    CHECK(rig_close(&rig));
    CHECK(log_in(&rig)); /* what is kept for good is made by now */
    CHECK(check_failing(log_in, &rig) > 40);
    server_stop(rig.server);
}

static bool
never_answer(int fd, const char *request, unsigned nth)
{
    (void)request;
    (void)nth;
    (void)server_peer_closes(fd, 8000);
    return false;
}

static bool
answer_in_part(int fd, const char *request, unsigned nth)
{
    (void)request;
    (void)nth;
    server_say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\npart");
    (void)server_peer_closes(fd, 8000);
    return false;
}

static void
test_the_end_answers_what_is_under_way(void)
{
    static const struct script script
        = {.answer = {[GET] = answer_in_part, [OTHER] = never_answer}};
    static const char *const methods[] = {"GET", "POST"};
    static const enum kind kinds[] = {GET, OTHER};
    for (size_t i = 0; i < 2; i++) {
        struct rig rig;
        ro_header header = {ro_slice_str("Accept"), ro_slice_str("*/*")};
        start(&rig, &script);
        CHECK(ro_session_submit(rig.session, 7, methods[i], at(&rig, "/x"),
                                &header, 1, ro_slice_str(i == 0 ? "" : GRANT),
                                i == 1));
        CHECK(rig_see(&rig, kinds[i], 1, 5000));
        ro_mcp_close(rig.mcp, 2000);
        ro_reply *reply = rig_wait(&rig, 7, 5000);
        CHECK(reply != NULL && reply->status == 503 && reply->body_len == 0);
        ro_reply_free(reply);
        /* nothing begins any more */
        CHECK(answers(&rig, "GET", at(&rig, "/x"), NULL, 503, NULL));
        CHECK(rig_seen(&rig, kinds[i]) == 1);
        rig_stop(&rig);
    }
}

int
main(void)
{
    test_its_requests_go_out();
    test_what_it_may_not_ask();
    test_a_moved_endpoint_is_the_endpoint();
    test_its_answers_have_a_bound();
    test_a_failure_is_noted();
    test_a_grant_is_sent_once();
    test_a_challenge_goes_up();
    test_every_allocation_fails_in_turn();
    test_the_end_answers_what_is_under_way();
    return check_end();
}
