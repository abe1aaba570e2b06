/* The end of sessions: DELETEs, close, shut-down, whatever is under way. */
#include "session_rig.h"
#include "entries.h"

static bool
stall(int fd, const char *request, unsigned nth)
{
    (void)request;
    (void)nth;
    (void)server_peer_closes(fd, 8000);
    return false;
}

static bool
stall_in_head(int fd, const char *request, unsigned nth)
{
    server_say(fd, "HTTP/1.1 200 OK\r\nContent-Type: appli");
    return stall(fd, request, nth);
}

static bool
stall_in_body(int fd, const char *request, unsigned nth)
{
    server_say(fd, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                   "Content-Length: 100\r\n\r\n{\"jsonrpc\":");
    return stall(fd, request, nth);
}

static bool
stall_in_stream(int fd, const char *request, unsigned nth)
{
    say_stream_head(fd);
    server_say(fd, "id: 1\nretry: 0\ndata: {\"jsonrpc\":");
    return stall(fd, request, nth);
}

/* A stream that has ended: its resumption waits for its time. */
static bool
end_stream(int fd, const char *request, unsigned nth)
{
    (void)request;
    (void)nth;
    say_stream_head(fd);
    server_say(fd, "id: 1\nretry: 60000\ndata:\n\n");
    return false;
}

static const answer_fn phases[] = {
    stall, stall_in_head, stall_in_body, stall_in_stream, end_stream,
};

/* ---- DELETE ---- */

static void
test_each_session_is_deleted_once(void)
{
    static const struct script script;
    struct rig rig;
    ro_net_stats stats;
    rig_start(&rig, &script);
    for (unsigned i = 0; i < 5; i++) {
        CHECK(rig_ask(&rig, INITIALIZE_BODY, 200, "capabilities"));
        rig.session = rig_session(&rig, "srv");
    }
    for (unsigned i = 0; i < 3; i++) {
        ro_mcp_close(rig.mcp, 2000);
    }
    CHECK(rig_seen(&rig, DELETE) == 5);
    ro_net_get_stats(rig.net, &stats);
    CHECK(stats.connections <= 2);
    /* nothing starts any more */
    ro_reply *reply = rig_wait(&rig, rig_submit(&rig, INITIALIZE_BODY), 2000);
    CHECK(reply != NULL && reply->status == 503);
    ro_reply_free(reply);
    rig_stop(&rig);
}

static bool
without_id(int fd, const char *request, unsigned nth)
{
    (void)request;
    (void)nth;
    say_json(fd, "", INITIALIZE_ANSWER);
    return true;
}

static void
test_no_id_no_delete(void)
{
    static const struct script script
        = {.answer = {[INITIALIZE] = without_id}};
    struct rig rig;
    rig_start(&rig, &script);
    CHECK(rig_ask(&rig, INITIALIZE_BODY, 200, "capabilities"));
    ro_mcp_close(rig.mcp, 2000);
    CHECK(rig_seen(&rig, DELETE) == 0);
    rig_stop(&rig);
}

static void
test_a_delete_that_stalls_holds_up_nothing(void)
{
    static const struct script script = {.answer = {[DELETE] = stall}};
    struct rig rig;
    rig_start(&rig, &script);
    for (unsigned i = 0; i < 2; i++) {
        CHECK(rig_ask(&rig, INITIALIZE_BODY, 200, "capabilities"));
        rig.session = rig_session(&rig, "srv");
    }
    int64_t start = ro_monotonic_ms();
    ro_mcp_close(rig.mcp, RO_DELETE_WAIT_MS);
    int64_t took = ro_monotonic_ms() - start;
    CHECK(took >= RO_DELETE_WAIT_MS && took < RO_DELETE_WAIT_MS + 5000);
    CHECK(rig_seen(&rig, DELETE) == 2); /* the second had its turn */
    rig_stop(&rig);
}

static bool
reset(int fd, const char *request, unsigned nth)
{
    (void)fd;
    (void)request;
    (void)nth;
    return false;
}

static void
test_a_delete_that_fails_gives_the_turn_to_the_next(void)
{
    static const struct script script = {.answer = {[DELETE] = reset}};
    struct rig rig;
    rig_start(&rig, &script);
    for (unsigned i = 0; i < 4; i++) {
        CHECK(rig_ask(&rig, INITIALIZE_BODY, 200, "capabilities"));
        rig.session = rig_session(&rig, "srv");
    }
    ro_mcp_close(rig.mcp, 2000);
    CHECK(rig_seen(&rig, DELETE) == 4);
    rig_stop(&rig);
}

static void
test_a_wait_below_zero_is_none(void)
{
    static const struct script script = {.answer = {[DELETE] = stall}};
    struct rig rig;
    rig_start(&rig, &script);
    CHECK(rig_ask(&rig, INITIALIZE_BODY, 200, "capabilities"));
    int64_t start = ro_monotonic_ms();
    ro_mcp_close(rig.mcp, -5);
    CHECK(ro_monotonic_ms() - start < 5000);
    rig_stop(&rig);
}

/* ---- what is under way ---- */

static void
test_close_answers_what_is_under_way(void)
{
    for (size_t i = 0; i < sizeof(phases) / sizeof(phases[0]); i++) {
        const struct script script
            = {.answer = {[LIST] = phases[i], [OTHER] = phases[i]}};
        struct rig rig;
        rig_start(&rig, &script);
        CHECK(rig_ask(&rig, INITIALIZE_BODY, 200, "capabilities"));
        uint64_t list = rig_submit(&rig, LIST_BODY);
        uint64_t other = rig_submit(
            &rig, "{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"ping\"}");
        CHECK(rig_see(&rig, LIST, 1, 3000));
        CHECK(rig_see(&rig, OTHER, 1, 3000));
        (void)poll(NULL, 0, 20);
        int64_t start = ro_monotonic_ms();
        ro_mcp_close(rig.mcp, 10000);
        CHECK(ro_monotonic_ms() - start < PROMPT_MS);
        ro_reply *reply = rig_wait(&rig, list, 1000);
        CHECK(reply_has(reply, "\"error\"") && reply_has(reply, "\"id\":1"));
        ro_reply_free(reply);
        reply = rig_wait(&rig, other, 1000);
        CHECK(reply_has(reply, "\"error\"") && reply_has(reply, "\"id\":9"));
        ro_reply_free(reply);
        CHECK(rig_count(&rig, 0) == 0);
        CHECK(rig_seen(&rig, DELETE) == 1);
        rig_stop(&rig);
    }
}

static void
test_close_ends_a_call_that_is_under_way(void)
{
    for (size_t i = 0; i < sizeof(phases) / sizeof(phases[0]); i++) {
        const struct script script = {.answer = {[CALL] = phases[i]}};
        struct rig rig;
        rig_start(&rig, &script);
        CHECK(rig_reach_call(&rig));
        uint64_t ticket = rig_submit(&rig, CALL_BODY);
        CHECK(rig_see(&rig, CALL, 1, 3000));
        ro_mcp_close(rig.mcp, 2000);
        ro_reply *reply = rig_wait(&rig, ticket, 1000);
        CHECK(reply_has(reply, "\"error\""));
        ro_reply_free(reply);
        CHECK(rig_outcome(&rig) == RO_CODE_RUNTIME_FAILURE);
        CHECK(rig_seen(&rig, CALL) == 1);
        CHECK(rig_seen(&rig, DELETE) == 2);
        rig_stop(&rig);
    }
}

/* Replies that came out before the worker's end are still there. */
static void
test_shut_down_leaves_nothing_behind(void)
{
    for (size_t i = 0; i < sizeof(phases) / sizeof(phases[0]); i++) {
        const struct script script
            = {.answer = {[LIST] = phases[i], [CALL] = phases[i]}};
        struct rig rig;
        size_t before = open_descriptors();
        size_t live = ro_alloc_live();
        rig_start(&rig, &script);
        CHECK(rig_ask(&rig, INITIALIZE_BODY, 200, "capabilities"));
        uint64_t list = rig_submit(&rig, LIST_BODY);
        uint64_t call = rig_submit(&rig, CALL_BODY); /* refused: the gate */
        CHECK(rig_see(&rig, LIST, 1, 3000));
        if (i % 2 == 0) {
            (void)poll(NULL, 0, 30);
        }
        int64_t start = ro_monotonic_ms();
        CHECK(ro_net_shut_down(rig.net, 10000));
        CHECK(ro_monotonic_ms() - start < PROMPT_MS);
        CHECK(rig_count(&rig, call) == 1);
        CHECK(rig_count(&rig, list) <= 1);
        CHECK(rig_submit(&rig, LIST_BODY) == 0);
        ro_session_end(rig.session);
        ro_mcp_close(rig.mcp, 10000);
        CHECK(ro_monotonic_ms() - start < PROMPT_MS);
        rig_stop(&rig);
        CHECK(ro_alloc_live() == live);
        CHECK(open_descriptors() == before);
    }
}

/* ---- everything at once ---- */

struct flood {
    struct rig *rig;
    ro_session *session;
    atomic_bool stop;
    unsigned taken;
};

static void *
flood(void *arg)
{
    static const char *const bodies[]
        = {INITIALIZE_BODY, LIST_BODY, INITIALIZED_BODY, CALL_BODY};
    struct flood *flood = arg;
    for (uint64_t i = 0; !atomic_load(&flood->stop); i++) {
        if (!ro_session_submit(flood->session, 1000 + i, "POST",
                               flood->rig->url, NULL, 0,
                               ro_slice_str(bodies[i % 4]), true)) {
            break;
        }
        flood->taken++;
        if (i % 8 == 7) {
            (void)poll(NULL, 0, 1);
        }
    }
    return NULL;
}

static void
test_close_while_requests_are_submitted(void)
{
    static const struct script script = {.answer = {[LIST] = stall}};
    for (int round = 0; round < 3; round++) {
        struct rig rig;
        pthread_t thread;
        rig_start(&rig, &script);
        struct flood state = {.rig = &rig, .session = rig.session};
        CHECK(pthread_create(&thread, NULL, flood, &state) == 0);
        (void)poll(NULL, 0, 20 + round * 15);
        ro_mcp_close(rig.mcp, 300);
        (void)poll(NULL, 0, 10);
        atomic_store(&state.stop, true);
        CHECK(pthread_join(thread, NULL) == 0);
        int64_t until = ro_monotonic_ms() + 3000;
        while (rig_count(&rig, 0) < state.taken && ro_monotonic_ms() < until) {
            (void)poll(NULL, 0, 5);
        }
        CHECK(rig_count(&rig, 0) == state.taken);
        rig_stop(&rig);
    }
}

int
main(void)
{
    test_each_session_is_deleted_once();
    test_no_id_no_delete();
    test_a_delete_that_stalls_holds_up_nothing();
    test_a_delete_that_fails_gives_the_turn_to_the_next();
    test_a_wait_below_zero_is_none();
    test_close_answers_what_is_under_way();
    test_close_ends_a_call_that_is_under_way();
    test_shut_down_leaves_nothing_behind();
    test_close_while_requests_are_submitted();
    return check_end();
}
