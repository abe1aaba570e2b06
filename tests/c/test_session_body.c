/* Where a JSON body ends: at its length, its last chunk, or with its document.
 */
#include "session_rig.h"

#define HEAD "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"

/* What the server says to the call; then it keeps the connection open. */
struct body {
    const char *name;
    const char *framing; /* the last lines of the head */
    const char *before;  /* of the answer; NULL: there is no answer */
    const char *after;
    const char *flood; /* follows for as long as it is taken */
    bool close;        /* the server closes behind them */
    int code;          /* -1: it is waited for */
};

static const struct body *body_now;

static void
say_body(int fd, const struct body *body)
{
    server_say(fd, HEAD);
    server_say(fd, body->framing);
    server_say(fd, "\r\n");
    if (body->before != NULL) {
        server_say(fd, body->before);
        server_say(fd, CALL_ANSWER);
    }
    server_say(fd, body->after);
    while (body->flood != NULL && !server_peer_closes(fd, 0)) {
        server_say(fd, body->flood);
    }
}

static bool
say_and_hold(int fd, const char *request, unsigned nth)
{
    (void)request;
    (void)nth;
    say_body(fd, body_now);
    if (!body_now->close) {
        (void)server_peer_closes(fd, 8000);
    }
    return false;
}

/* CALL_ANSWER as one chunk. */
static char one_chunk[16];

static const struct body bodies[] = {
    {.name = "no last chunk",
     .framing = "Transfer-Encoding: chunked\r\n",
     .before = one_chunk,
     .after = "\r\n",
     .code = RO_CODE_OK},
    {.name = "a trailer that stands still",
     .framing = "Transfer-Encoding: chunked\r\n",
     .before = one_chunk,
     .after = "\r\n0\r\nX-Trailer: 1\r\nX-Tra",
     .code = RO_CODE_OK},
    {.name = "a trailer without end",
     .framing = "Transfer-Encoding: chunked\r\n",
     .before = one_chunk,
     .after = "\r\n0\r\n",
     .flood = "X-Trailer: and another one of a few bytes\r\n",
     .code = RO_CODE_OK},
    {.name = "a trailer's line without end",
     .framing = "Transfer-Encoding: chunked\r\n",
     .before = one_chunk,
     .after = "\r\n0\r\nX-Trailer: ",
     .flood = "and on it goes, with some more bytes of the same line",
     .code = RO_CODE_OK},
    {.name = "a cut document, and a trailer's line without end",
     .framing = "Transfer-Encoding: chunked\r\n",
     .after = "3\r\n{\"a\r\n0\r\nX-Trailer: ",
     .flood = "and on it goes, with some more bytes of the same line",
     .code = RO_CODE_MALFORMED_RESULT},
    {.name = "a connection that is not closed",
     .framing = "Connection: close\r\n",
     .before = "",
     .after = "",
     .code = RO_CODE_OK},
    {.name = "the document alone is cut",
     .framing = "Transfer-Encoding: chunked\r\n",
     .after = "3\r\n{\"a\r\n",
     .code = -1},
    {.name = "a length that says more",
     .framing = "Content-Length: 4000\r\n",
     .before = "",
     .after = "",
     .code = -1},
    {.name = "cut before its length",
     .framing = "Content-Length: 4000\r\n",
     .before = "",
     .after = "",
     .close = true,
     .code = RO_CODE_RUNTIME_FAILURE},
    {.name = "bytes behind the document",
     .framing = "Transfer-Encoding: chunked\r\n",
     .before = one_chunk,
     .after = "\r\n1\r\n}\r\n0\r\nX-Tra",
     .code = RO_CODE_MALFORMED_RESULT},
};

static void
test_a_document_is_judged_when_it_is_whole(void)
{
    static const struct script script = {.answer = {[CALL] = say_and_hold}};
    snprintf(one_chunk, sizeof(one_chunk), "%zx\r\n", strlen(CALL_ANSWER));
    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        struct rig rig;
        body_now = &bodies[i];
        rig_start(&rig, &script);
        CHECK(rig_reach_call(&rig));
        int64_t begin = ro_monotonic_ms();
        uint64_t ticket = rig_submit(&rig, CALL_BODY);
        int patience = body_now->code < 0 ? 600 : 8000; /* the look: 250 */
        ro_reply *reply = rig_wait(&rig, ticket, patience);
        int64_t took = ro_monotonic_ms() - begin;
        if (body_now->code < 0) {
            CHECK(reply == NULL);
        }
        else {
            bool good = reply != NULL && rig_outcome(&rig) == body_now->code;
            if (!good || took > PROMPT_MS) {
                fprintf(stderr, "%s: outcome %d after %d ms\n", body_now->name,
                        rig_outcome(&rig), (int)took);
            }
            CHECK(good && took <= PROMPT_MS);
        }
        CHECK(rig_seen(&rig, CALL) == 1);
        ro_reply_free(reply);
        rig_stop(&rig);
    }
}

static bool
say_list_and_hold(int fd, const char *request, unsigned nth)
{
    char size[16];
    (void)request;
    (void)nth;
    snprintf(size, sizeof(size), "%zx\r\n", strlen(LIST_ANSWER));
    server_say(fd, HEAD "Transfer-Encoding: chunked\r\n\r\n");
    server_say(fd, size);
    server_say(fd, LIST_ANSWER "\r\n0\r\n");
    (void)server_peer_closes(fd, 8000);
    return false;
}

/* And the session goes on, on another connection. */
static void
test_so_is_a_list(void)
{
    static const struct script script
        = {.answer = {[LIST] = say_list_and_hold}};
    struct rig rig;
    rig_start(&rig, &script);
    int64_t begin = ro_monotonic_ms();
    CHECK(rig_reach_call(&rig));
    CHECK(ro_monotonic_ms() - begin <= PROMPT_MS);
    CHECK(rig_ask(&rig, CALL_BODY, 200, "content"));
    CHECK(rig_outcome(&rig) == RO_CODE_OK);
    rig_stop(&rig);
}

int
main(void)
{
    test_a_document_is_judged_when_it_is_whole();
    test_so_is_a_list();
    return check_end();
}
