/* Every allocation fails in turn, alone and with all that follow: a submit
 * is refused or has exactly one reply, and nothing is left behind. */
#include "session_rig.h"

static bool
say_and_ask(int fd, const char *request, unsigned nth)
{
    (void)request;
    (void)nth;
    say_stream_head(fd);
    server_say(fd, "id: 7\nretry: 0\ndata: {\"jsonrpc\":\"2.0\",\"id\":5,"
                   "\"method\":\"ping\"}\n\n");
    return false;
}

static bool
say_answer_event(int fd, const char *request, unsigned nth)
{
    (void)request;
    (void)nth;
    say_stream_head(fd);
    server_say(fd, "data: " CALL_ANSWER "\n\n");
    return false;
}

static const struct script plain;
static const struct script stream
    = {.answer = {[CALL] = say_and_ask, [GET] = say_answer_event}};

/* Whether the ticket has come to the end that it must have. */
static bool
is_answered(struct rig *rig, uint64_t ticket)
{
    if (ticket == 0) {
        return true; /* refused */
    }
    ro_reply *reply = rig_wait(rig, ticket, 3000);
    bool answered
        = reply != NULL
          && (reply->status == 202 || reply->status == 503
              || (reply->status == 200 && reply_has(reply, "\"jsonrpc\"")
                  && ro_header_count(reply->headers.items,
                                     reply->headers.count, "content-type")
                         == 1));
    ro_reply_free(reply);
    return answered && rig_count(rig, ticket) == 0;
}

/* All that a command does; false when something was left open. */
static bool
live(struct rig *rig)
{
    static const char *const discovery[]
        = {INITIALIZE_BODY, INITIALIZED_BODY, LIST_BODY};
    bool whole = true;
    if (!rig_open(rig)) {
        if (rig->mcp == NULL && rig->net != NULL) {
            whole = ro_net_shut_down(rig->net, 5000);
            ro_net_free(rig->net);
        }
        rig_free_found(rig);
        return whole;
    }
    for (int phase = 0; phase < 2; phase++) {
        rig->session = rig_session(rig, "srv");
        for (size_t i = 0; rig->session != NULL && i < 3; i++) {
            whole = is_answered(rig, rig_submit(rig, discovery[i])) && whole;
        }
        (void)rig_open_gate(rig, "{\"a\":1}");
    }
    bool open = ro_gate_state_of(rig->gate) == RO_GATE_OPEN;
    if (rig->session != NULL) {
        uint64_t ticket = rig_submit(rig, CALL_BODY);
        whole = is_answered(rig, ticket) && whole;
        whole = (ticket == 0 || rig_outcome(rig) != -1) && whole;
        whole = (open || rig_outcome(rig) != RO_CODE_OK) && whole;
    }
    ro_mcp_close(rig->mcp, 250);
    return rig_close(rig) && whole;
}

static void
test_with(const struct script *script, int sticky, size_t step)
{
    struct rig rig;
    size_t nth = 1;
    bool beyond = false;
    rig_start(&rig, script);
    CHECK(rig_close(&rig));
    CHECK(live(&rig)); /* what is kept for good is made by now */
    size_t before = ro_alloc_live();
    for (; !beyond && nth < 5000; nth += step) {
        ro_alloc_fail_at(nth, sticky);
        bool whole = live(&rig);
        beyond = ro_alloc_count() < nth;
        ro_alloc_fail_at(0, 0);
        if (!whole || ro_alloc_live() != before) {
            fprintf(stderr, "allocation %zu%s: %zu blocks left\n", nth,
                    sticky ? " and all behind it" : "",
                    ro_alloc_live() - before);
        }
        CHECK(whole);
        CHECK(ro_alloc_live() == before);
        CHECK(rig_seen(&rig, CALL) <= 1);
        atomic_store(&rig.seen[CALL], 0);
    }
    CHECK(beyond);
    CHECK(nth > 200);
    server_stop(rig.server);
}

int
main(void)
{
    test_with(&plain, 0, 1);
    test_with(&plain, 1, 5);
    test_with(&stream, 0, 3);
    return check_end();
}
