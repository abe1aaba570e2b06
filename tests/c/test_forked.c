/* What a child of fork may not use, and objects for which the system has no
 * lock or descriptor. */
#include "refusing.h"

#include <pthread.h>

#include "mcp/ahead.h"
#include "net/mailbox.h"
#include "session_rig.h"
#include "worker_time.h"

REFUSABLE(pid_t, getpid, (void), 1)
REFUSABLE(int, eventfd, (unsigned count, int flags), -1, count, flags)
REFUSABLE(int, pthread_mutex_init,
          (pthread_mutex_t * lock, const pthread_mutexattr_t *attributes),
          errno, lock, attributes)
REFUSABLE(int, pthread_condattr_init, (pthread_condattr_t * attributes), errno,
          attributes)

/* From here on this is another process than the one that made the objects. */
static void
be_forked(void)
{
    refuse_all(&refuse_getpid, 0);
}

static void
be_the_parent(void)
{
    refuse_none(&refuse_getpid);
}

/* ---- downloads ---- */

static void
serve(struct server *server, int fd, unsigned nth)
{
    (void)nth;
    while (server_read(server, fd)) {
        server_say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    }
}

static ro_request
request_to(const char *url)
{
    return (ro_request){.method = "GET",
                        .url = url,
                        .proxy = "",
                        .cafile = "",
                        .capath = "",
                        .max_headers = RO_MAX_HEADERS};
}

/* Until the download is done; its news are taken. */
static bool
await_end(ro_mailbox *mailbox, ro_download *download, char **bytes,
          size_t *len)
{
    ro_net_code code;
    ro_download_state state = RO_DOWNLOAD_WAITS;
    while (state == RO_DOWNLOAD_WAITS) {
        uint64_t ids[4];
        struct pollfd news = {.fd = ro_mailbox_fd(mailbox), .events = POLLIN};
        if (poll(&news, 1, 10000) != 1) {
            return false;
        }
        (void)ro_mailbox_poll(mailbox, ids, 4);
        state = ro_download_read(download, bytes, len, &code);
    }
    return state == RO_DOWNLOAD_READY;
}

static void
test_a_mailbox_in_a_child(void)
{
    struct server *server = server_start(serve);
    ro_net *net = ro_net_new();
    ro_mailbox *mailbox = ro_mailbox_new(net);
    ro_download *download = NULL;
    ro_download *second = NULL;
    ro_head head;
    char *bytes = NULL;
    size_t len = 0;
    uint64_t ids[4];
    ro_net_code code = RO_NET_OK;
    char url[64];
    (void)snprintf(url, sizeof(url), "http://127.0.0.1:%d/", server->port);
    ro_request request = request_to(url);

    CHECK(ro_mailbox_submit(mailbox, &request, &download) == RO_NET_OK);
    be_forked();
    CHECK(ro_mailbox_submit(mailbox, &request, &second) == RO_NET_FORKED);
    CHECK(second == NULL);
    CHECK(ro_mailbox_poll(mailbox, ids, 4) == 0);
    CHECK(ro_download_head(download, &head, &code) == RO_DOWNLOAD_FAILED);
    CHECK(code == RO_NET_FORKED);
    code = RO_NET_OK;
    CHECK(ro_download_read(download, &bytes, &len, &code)
          == RO_DOWNLOAD_FAILED);
    CHECK(code == RO_NET_FORKED && bytes == NULL);
    ro_download_cancel(download);
    ro_download_release(download);
    ro_mailbox_close(mailbox);
    ro_net_free(net);
    be_the_parent();
    /* nothing of that has touched what the parent has */
    CHECK(await_end(mailbox, download, &bytes, &len));
    CHECK(len == 2 && memcmp(bytes, "ok", 2) == 0);
    ro_free(bytes);
    CHECK(ro_download_head(download, &head, &code) == RO_DOWNLOAD_READY);
    CHECK(head.status == 200);
    ro_download_release(download);
    ro_mailbox_close(mailbox);
    ro_mailbox_release(mailbox);
    CHECK(ro_net_shut_down(net, 5000));
    ro_net_free(net);
    server_stop(server);
}

static void
note_end(void *ctx, ro_net_code code)
{
    atomic_store((atomic_int *)ctx, (int)code);
}

static ro_sink_verdict
stop_at_head(void *ctx, const ro_head *head)
{
    (void)ctx;
    (void)head;
    return RO_SINK_STOP;
}

static ro_sink_verdict
stop_at_data(void *ctx, const char *bytes, size_t len)
{
    (void)ctx;
    (void)bytes;
    (void)len;
    return RO_SINK_STOP;
}

static void
serve_held(struct server *server, int fd, unsigned nth)
{
    (void)nth;
    if (server_read(server, fd)) {
        (void)server_peer_closes(fd, 10000);
    }
}

static void
test_a_transfer_in_a_child(void)
{
    struct server *server = server_start(serve_held);
    ro_net *net = ro_net_new();
    ro_transfer *transfer = NULL;
    atomic_int ended;
    char url[64];
    atomic_init(&ended, -1);
    ro_sink sink = {&ended, stop_at_head, stop_at_data, note_end};
    (void)snprintf(url, sizeof(url), "http://127.0.0.1:%d/", server->port);
    ro_request request = request_to(url);

    CHECK(ro_net_submit(net, &request, &sink, &transfer) == RO_NET_OK);
    be_forked();
    ro_transfer_cancel(transfer);
    ro_transfer_resume(transfer);
    be_the_parent();
    int64_t until = ro_monotonic_ms() + 5000;
    while (atomic_load(&server->n_requests) < 1 && ro_monotonic_ms() < until) {
        (void)poll(NULL, 0, 1);
    }
    CHECK(atomic_load(&ended) == -1); /* it goes on */
    ro_transfer_cancel(transfer);
    until = ro_monotonic_ms() + 5000;
    while (atomic_load(&ended) == -1 && ro_monotonic_ms() < until) {
        (void)poll(NULL, 0, 1);
    }
    CHECK(atomic_load(&ended) == (int)RO_NET_CANCELLED);
    CHECK(ro_net_shut_down(net, 5000));
    ro_transfer_release(transfer);
    ro_net_free(net);
    server_stop(server);
}

/* ---- sessions ---- */

static void
test_sessions_in_a_child(void)
{
    static const struct script script;
    struct rig rig;
    char *argv[] = {(char *)(size_t) "/bin/true", NULL};
    ro_session_options options = {
        .server = ro_slice_str("srv"),
        .url = RO_STDIO_URL,
        .proxy = "",
        .cafile = "",
        .capath = "",
    };
    rig_start(&rig, &script);
    const ro_ahead_plan plan = {
        .server = ro_slice_str("srv"),
        .url = rig.url,
        .proxy = "",
        .cafile = "",
        .capath = "",
        .versions = "2025-06-18",
        .initialize = ro_slice_str(INITIALIZE_BODY),
        .initialized = ro_slice_str(INITIALIZED_BODY),
        .list = ro_slice_str(LIST_BODY),
    };
    CHECK(rig_discover(&rig));
    be_forked();
    errno = 0;
    CHECK(rig_session(&rig, "other") == NULL && errno == EPERM);
    errno = 0;
    CHECK(ro_mcp_stdio_session(rig.mcp, &options, argv, argv + 1) == NULL);
    CHECK(errno == EPERM);
    CHECK(!ro_mcp_run_ahead(rig.mcp, &plan));
    CHECK(rig_submit(&rig, LIST_BODY) == 0);
    CHECK(ro_replies_take(ro_mcp_replies(rig.mcp)) == NULL);
    be_the_parent();
    CHECK(rig_ask(&rig, LIST_BODY, 200, "readOnlyHint"));
    CHECK(rig_session(&rig, "other") != NULL);
    CHECK(rig_seen(&rig, LIST) == 2 && rig_seen(&rig, INITIALIZE) == 1);
    rig_stop(&rig);
}

/* ---- objects that cannot be made ---- */

static ro_net *
make_net(void)
{
    static ro_net *net;
    if (net == NULL) {
        net = ro_net_new();
    }
    return net;
}

static bool
make_discovery(void)
{
    ro_discovery *made = ro_discovery_new(ro_slice_str("t"));
    ro_discovery_free(made);
    return made != NULL;
}

static bool
make_gate(void)
{
    ro_gate *made = ro_gate_new(ro_slice_str("t"));
    ro_gate_free(made);
    return made != NULL;
}

static bool
make_record(void)
{
    ro_record *made = ro_record_new();
    ro_record_free(made);
    return made != NULL;
}

static bool
make_replies(void)
{
    ro_replies *made = ro_replies_new();
    ro_replies_free(made);
    return made != NULL;
}

static bool
make_mcp(void)
{
    ro_mcp *made = ro_mcp_new(make_net(), NULL, NULL, NULL);
    ro_mcp_free(made);
    return made != NULL;
}

static bool
make_mailbox(void)
{
    ro_mailbox *made = ro_mailbox_new(make_net());
    ro_mailbox_release(made);
    return made != NULL;
}

static void
test_objects_that_cannot_be_made(void)
{
    static const struct {
        bool (*make)(void);
        struct refusal *refusal;
        unsigned nth;
    } cases[] = {
        {make_discovery, &refuse_pthread_mutex_init, 1},
        {make_gate, &refuse_pthread_mutex_init, 1},
        {make_record, &refuse_pthread_mutex_init, 1},
        {make_replies, &refuse_pthread_mutex_init, 1},
        {make_replies, &refuse_eventfd, 1},
        {make_mailbox, &refuse_eventfd, 1},
        {make_mcp, &refuse_eventfd, 1},
        {make_mcp, &refuse_pthread_mutex_init, 1}, /* of its replies */
        {make_mcp, &refuse_pthread_mutex_init, 2},
        {make_mcp, &refuse_pthread_condattr_init, 1},
    };
    worker_passes(make_net(), 0); /* it has what it needs */
    size_t live = ro_alloc_live();
    int lowest = dup(0);
    (void)close(lowest);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        refuse(cases[i].refusal, cases[i].nth, ENOMEM);
        CHECK(!cases[i].make());
        refuse_none(cases[i].refusal);
        CHECK(ro_alloc_live() == live);
        int now = dup(0);
        CHECK(now == lowest); /* no descriptor is left open */
        (void)close(now);
        CHECK(cases[i].make());
    }
    ro_replies_free(NULL);
    CHECK(ro_net_shut_down(make_net(), 5000));
    ro_net_free(make_net());
}

int
main(void)
{
    test_a_mailbox_in_a_child();
    test_a_transfer_in_a_child();
    test_sessions_in_a_child();
    test_objects_that_cannot_be_made();
    return check_end();
}
