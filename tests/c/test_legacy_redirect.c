/* HTTP with SSE whose stream and messages are redirected inside the origin. */
#include "session_rig.h"

#define EVENT(message) "event: message\ndata: " message "\n\n"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int stream_fd = -1; /* lock */
static atomic_bool call_moves;
static atomic_bool loops;

static void
say_on_stream(const char *text)
{
    (void)pthread_mutex_lock(&lock);
    if (stream_fd >= 0) {
        server_say(stream_fd, text);
    }
    (void)pthread_mutex_unlock(&lock);
}

static bool
move(int fd, const char *status, const char *where)
{
    char head[256];
    snprintf(head, sizeof(head),
             "HTTP/1.1 %s\r\nLocation: %s\r\nContent-Length: 5\r\n\r\nmoved",
             status, where);
    server_say(fd, head);
    return true;
}

static bool
take_stream(int fd, const char *request, unsigned nth)
{
    (void)nth;
    EXPECT(strcasestr(request, "Accept: text/event-stream\r\n") != NULL);
    if (strncmp(request, "GET /mcp ", 9) == 0) {
        return move(fd, "302 Found", "mcp/");
    }
    if (strncmp(request, "GET /mcp/ ", 10) == 0) {
        return move(fd, "307 Moved", atomic_load(&loops) ? "/mcp" : "/s?x=1");
    }
    EXPECT(strncmp(request, "GET /s?x=1 ", 11) == 0);
    say_stream_head(fd);
    /* before the endpoint: whoever knows it may be answered */
    (void)pthread_mutex_lock(&lock);
    stream_fd = fd;
    (void)pthread_mutex_unlock(&lock);
    server_say(fd, "event: endpoint\ndata: /post\n\n");
    (void)server_peer_closes(fd, 8000);
    (void)pthread_mutex_lock(&lock);
    if (stream_fd == fd) { /* the next session's may be there already */
        stream_fd = -1;
    }
    (void)pthread_mutex_unlock(&lock);
    return false;
}

/* A message at its first place moves on; at its second it is taken. */
static bool
take_post(int fd, const char *request, const char *answer)
{
    if (strncmp(request, "POST /post ", 11) == 0) {
        return move(fd, "308 Moved", "/post/");
    }
    EXPECT(strncmp(request, "POST /post/ ", 12) == 0);
    server_say(fd, "HTTP/1.1 202 OK\r\nContent-Length: 0\r\n\r\n");
    if (answer != NULL) {
        say_on_stream(answer);
    }
    return true;
}

static bool
take_initialize(int fd, const char *request, unsigned nth)
{
    (void)nth;
    return take_post(fd, request, EVENT(INITIALIZE_ANSWER));
}

static bool
take_initialized(int fd, const char *request, unsigned nth)
{
    (void)nth;
    return take_post(fd, request, NULL);
}

static bool
take_list(int fd, const char *request, unsigned nth)
{
    (void)nth;
    return take_post(fd, request, EVENT(LIST_ANSWER));
}

static bool
take_call(int fd, const char *request, unsigned nth)
{
    (void)nth;
    EXPECT(strncmp(request, "POST /post/ ", 12) == 0);
    if (atomic_load(&call_moves)) {
        return move(fd, "307 Moved", "/post");
    }
    server_say(fd, "HTTP/1.1 202 OK\r\nContent-Length: 0\r\n\r\n");
    say_on_stream(EVENT(CALL_ANSWER));
    return true;
}

static const struct script script = {
    .answer = {[GET] = take_stream,
               [INITIALIZE] = take_initialize,
               [INITIALIZED] = take_initialized,
               [LIST] = take_list,
               [CALL] = take_call},
};

static ro_session *
legacy_session(struct rig *rig)
{
    ro_session_options options = {
        .server = ro_slice_str("srv"),
        .url = rig->url,
        .proxy = "",
        .cafile = "",
        .capath = "",
        .legacy = true,
    };
    return ro_mcp_session(rig->mcp, &options);
}

static void
open_rig(struct rig *rig)
{
    rig_start(rig, &script);
    rig->session = legacy_session(rig);
    CHECK(rig->session != NULL);
}

/* A redirect of initialize moves the endpoint: what follows goes there at
 * once. The call is sent once and goes nowhere else. */
static void
test_the_call(bool moves)
{
    struct rig rig;
    atomic_store(&call_moves, moves);
    open_rig(&rig);
    CHECK(rig_discover(&rig));
    CHECK(rig_open_gate(&rig, "{}"));
    CHECK(rig_ask(&rig, CALL_BODY, 200, moves ? "\"error\"" : "\"content\""));
    CHECK(rig_outcome(&rig) == (moves ? RO_CODE_RUNTIME_FAILURE : RO_CODE_OK));
    CHECK(atomic_load(&rig.seen[CALL]) == 1);
    CHECK(atomic_load(&rig.seen[GET]) == 3);
    CHECK(atomic_load(&rig.seen[INITIALIZE]) == 2);
    CHECK(atomic_load(&rig.seen[INITIALIZED]) == 1);
    CHECK(atomic_load(&rig.seen[LIST]) == 1);
    rig_stop(&rig);
    atomic_store(&call_moves, false);
}

static void
test_a_loop(void)
{
    struct rig rig;
    atomic_store(&loops, true);
    open_rig(&rig);
    CHECK(rig_ask(&rig, INITIALIZE_BODY, 200, "\"error\""));
    ro_reason noted = rig_noted(&rig);
    CHECK(noted == RO_REASON_REDIRECTED);
    CHECK(atomic_load(&rig.seen[GET]) == 6);
    rig_stop(&rig);
    atomic_store(&loops, false);
}

/* Every request has its one reply; true when none is missing. */
static bool
live(struct rig *rig)
{
    static const char *const bodies[]
        = {INITIALIZE_BODY, INITIALIZED_BODY, LIST_BODY};
    bool whole = true;
    if (!rig_open(rig)) {
        ro_mcp_free(rig->mcp);
        if (rig->net != NULL) {
            whole = ro_net_shut_down(rig->net, 5000);
            ro_net_free(rig->net);
        }
        rig_free_found(rig);
        return whole;
    }
    rig->session = legacy_session(rig);
    for (size_t i = 0; rig->session != NULL && i < 3; i++) {
        uint64_t ticket = rig_submit(rig, bodies[i]);
        if (ticket != 0) {
            ro_reply *reply = rig_wait(rig, ticket, 3000);
            whole = reply != NULL && whole;
            ro_reply_free(reply);
        }
    }
    return rig_close(rig) && whole;
}

static void
test_every_allocation_fails_in_turn(void)
{
    struct rig rig;
    bool beyond = false;
    open_rig(&rig);
    CHECK(rig_close(&rig));
    CHECK(live(&rig));
    size_t before = ro_alloc_live();
    for (size_t nth = 1; !beyond && nth < 3000; nth += 2) {
        ro_alloc_fail_at(nth, 0);
        bool whole = live(&rig);
        beyond = ro_alloc_count() < nth;
        ro_alloc_fail_at(0, 0);
        CHECK(whole);
        CHECK(ro_alloc_live() == before);
    }
    CHECK(beyond);
    server_stop(rig.server);
    CHECK(atomic_load(&rig_unexpected) == 0);
}

int
main(void)
{
    test_the_call(false);
    test_the_call(true);
    test_a_loop();
    test_every_allocation_fails_in_turn();
    return check_end();
}
