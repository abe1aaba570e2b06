/* Transfers as an event loop sees them. */
#include "check.h"
#include "local_server.h"

#include <signal.h>
#include <time.h>

#include "core/alloc.h"
#include "net/port.h"

#define BIG 4194304u

/* "/big": BIG bytes; "/hang": a head and no end; else two bytes. */
static void
serve(struct server *server, int fd, unsigned nth)
{
    static const char block[16384];

    (void)nth;
    while (server_read(server, fd)) {
        if (server_saw(server, "GET /big ")) {
            server_say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 4194304\r\n"
                           "\r\n");
            for (unsigned i = 0; i < BIG / sizeof(block); i++) {
                server_say_bytes(fd, block, sizeof(block));
            }
        }
        else if (server_saw(server, "GET /hang ")) {
            server_say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab");
            (void)server_peer_closes(fd, 4000);
            return;
        }
        else {
            server_say(fd, "HTTP/1.1 207 Two\r\nContent-Length: 2\r\n"
                           "X: y\r\n\r\nab");
        }
    }
}

static ro_net_code
submit(ro_port *port, const struct server *server, const char *path,
       ro_flow **flow)
{
    char url[128];
    ro_request request = {
        .method = "GET",
        .url = url,
        .proxy = "",
        .cafile = "",
        .capath = "",
        .max_headers = 65536,
    };

    snprintf(url, sizeof(url), "http://127.0.0.1:%d%s", server->port, path);
    return ro_port_submit(port, &request, flow);
}

/* News of any flow; false after three seconds. */
static bool
await_news(ro_port *port, uint64_t *ids, size_t max, size_t *n)
{
    struct pollfd state = {.fd = ro_port_fd(port), .events = POLLIN};

    *n = 0;
    if (poll(&state, 1, 3000) != 1) {
        return false;
    }
    *n = ro_port_poll(port, ids, max);
    return true;
}

/* Reads to the end, waiting for news whenever there is nothing. */
static ro_flow_state
read_all(ro_port *port, ro_flow *flow, size_t *total, size_t *largest)
{
    uint64_t ids[8];
    size_t n;
    ro_net_code code;

    *total = 0;
    *largest = 0;
    for (;;) {
        char *bytes = NULL;
        size_t len = 0;
        ro_flow_state state = ro_flow_read(flow, &bytes, &len, &code);
        if (state == RO_FLOW_READY) {
            *total += len;
            *largest = len > *largest ? len : *largest;
            ro_free(bytes);
        }
        else if (state != RO_FLOW_WAITS) {
            return state;
        }
        else if (!await_news(port, ids, 8, &n)) {
            return RO_FLOW_WAITS;
        }
    }
}

static void
test_exchange(struct server *server)
{
    ro_net *net = ro_net_new();
    ro_port *port = ro_port_new(net);
    ro_flow *flow = NULL;
    ro_head head;
    ro_net_code code = RO_NET_OK;
    size_t total;
    size_t largest;

    CHECK(ro_port_poll(port, &(uint64_t){0}, 1) == 0);
    CHECK(submit(port, server, "/", &flow) == RO_NET_OK);
    CHECK(read_all(port, flow, &total, &largest) == RO_FLOW_ENDED);
    CHECK(total == 2);
    CHECK(ro_flow_head(flow, &head, &code) == RO_FLOW_READY);
    CHECK(head.status == 207 && head.n_headers == 2);
    CHECK(ro_slice_equal(head.reason, ro_slice_str("Two")));
    CHECK(ro_slice_equal(head.headers[1].value, ro_slice_str("y")));
    ro_flow_cancel(flow);
    ro_flow_release(flow);

    CHECK(submit(port, server, "/big", &flow) == RO_NET_OK);
    struct timespec pause = {0, 100000000};
    nanosleep(&pause, NULL); /* the queue fills and the transfer pauses */
    CHECK(read_all(port, flow, &total, &largest) == RO_FLOW_ENDED);
    CHECK(total == BIG && largest <= RO_FLOW_QUEUE);
    ro_flow_release(flow);

    CHECK(submit(port, server, "/hang", &flow) == RO_NET_OK);
    ro_flow_cancel(flow);
    CHECK(read_all(port, flow, &total, &largest) == RO_FLOW_FAILED);
    ro_flow_release(flow);
    ro_port_close(port);
    ro_port_close(port);
    CHECK(ro_net_shut_down(net, 2000));
    CHECK(submit(port, server, "/", &flow) == RO_NET_SHUT_DOWN);
    CHECK(flow == NULL);
    ro_port_release(port);
    ro_port_release(NULL);
    ro_flow_release(NULL);
    ro_net_free(net);
}

/* Ids come once per news, and polling in small steps loses none. */
static void
test_many(struct server *server)
{
    ro_net *net = ro_net_new();
    ro_port *port = ro_port_new(net);
    ro_flow *flows[40];
    bool done[40] = {false};
    size_t n_done = 0;
    uint64_t ids[3];
    size_t n = 0;

    for (size_t i = 0; i < 40; i++) {
        CHECK(submit(port, server, "/", &flows[i]) == RO_NET_OK);
        CHECK(ro_flow_id(flows[i]) == i + 1);
    }
    while (n_done < 40 && await_news(port, ids, 3, &n)) {
        for (size_t k = 0; k < n; k++) {
            size_t i = (size_t)ids[k] - 1;
            char *bytes = NULL;
            size_t len = 0;
            ro_net_code code;
            ro_flow_state state;
            while ((state = ro_flow_read(flows[i], &bytes, &len, &code))
                   == RO_FLOW_READY) {
                ro_free(bytes);
            }
            if (state == RO_FLOW_ENDED && !done[i]) {
                done[i] = true;
                n_done++;
            }
        }
    }
    CHECK(n_done == 40);
    for (size_t i = 0; i < 40; i++) {
        ro_flow_release(flows[i]);
    }
    ro_port_close(port);
    ro_port_release(port);
    CHECK(ro_net_shut_down(net, 2000));
    ro_net_free(net);
}

/* Flows and ports may go in any order, at any time. */
static void
test_releases(struct server *server)
{
    ro_net *net = ro_net_new();
    ro_flow *flow = NULL;

    for (int i = 0; i < 200; i++) {
        ro_port *port = ro_port_new(net);
        CHECK(submit(port, server, i % 2 ? "/hang" : "/", &flow) == RO_NET_OK);
        if (i % 5 != 0) {
            struct timespec pause = {0, (long)(i % 50) * 50000};
            nanosleep(&pause, NULL);
        }
        if (i % 3 == 0) {
            ro_port_close(port);
            ro_port_release(port);
            ro_flow_release(flow);
        }
        else {
            ro_flow_release(flow);
            ro_port_close(port);
            ro_port_release(port);
        }
    }
    CHECK(ro_net_shut_down(net, 2000));
    ro_net_free(net);
}

static void
test_memory(struct server *server)
{
    size_t live = ro_alloc_live();
    unsigned succeeded = 0;

    for (size_t nth = 1; nth < 200 && succeeded < 2; nth++) {
        ro_alloc_fail_at(nth, 0);
        ro_net *net = ro_net_new();
        ro_port *port = net != NULL ? ro_port_new(net) : NULL;
        ro_flow *flow = NULL;
        if (port != NULL && submit(port, server, "/", &flow) == RO_NET_OK) {
            size_t total;
            size_t largest;
            ro_flow_state state = read_all(port, flow, &total, &largest);
            CHECK(state == RO_FLOW_ENDED || state == RO_FLOW_FAILED);
        }
        ro_flow_release(flow);
        if (port != NULL) {
            ro_port_close(port);
        }
        ro_port_release(port);
        CHECK(ro_net_shut_down(net, 2000));
        ro_net_free(net);
        CHECK(ro_alloc_live() == live);
        succeeded += ro_alloc_count() < nth;
    }
    ro_alloc_fail_at(0, 0);
    CHECK(succeeded == 2);
}

int
main(void)
{
    signal(SIGPIPE, SIG_IGN); /* the test's own server */
    struct server *server = server_start(serve);
    test_exchange(server);
    test_many(server);
    test_releases(server);
    test_memory(server);
    server_stop(server);
    CHECK(ro_alloc_live() == 0);
    return check_end();
}
