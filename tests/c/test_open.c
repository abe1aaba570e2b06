/* A connection that is opened for a later request: nothing is sent on it, the
 * request takes it, and it closes when none comes. */
#include "net_rig.h"

#define ANSWER "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

static atomic_uint bytes_seen; /* on all connections */
static atomic_bool ends;       /* the server ends it before any request */
static atomic_uint n_ended;

static void
serve(struct server *server, int fd, unsigned nth)
{
    char byte;
    if (nth == 0 && atomic_load(&ends)) {
        shutdown(fd, SHUT_RDWR);
        atomic_fetch_add(&n_ended, 1);
        return;
    }
    while (recv(fd, &byte, 1, MSG_PEEK) == 1) {
        atomic_fetch_add(&bytes_seen, 1);
        if (!server_read(server, fd)) {
            break;
        }
        server_say(fd, ANSWER);
    }
    atomic_fetch_add(&n_ended, 1);
}

static struct server *
start(bool server_ends)
{
    atomic_store(&bytes_seen, 0);
    atomic_store(&n_ended, 0);
    atomic_store(&ends, server_ends);
    return server_start(serve);
}

static ro_net_code
open_one(ro_net *net, const char *url, struct answer *answer)
{
    ro_request request = request_of("POST", url, NULL);
    request.opens = true;
    request.fresh = true;
    answer_reset(answer);
    return fetch_with(net, &request, answer);
}

static void
await_ended(unsigned count)
{
    for (int i = 0; i < 5000 && atomic_load(&n_ended) < count; i++) {
        nap(1);
    }
    CHECK(atomic_load(&n_ended) == count);
}

static void
test_a_request_takes_it(void)
{
    struct server *server = start(false);
    ro_net *net = ro_net_new();
    struct answer answer;
    char url[128];
    CHECK(open_one(net, url_of(server, url, "/x"), &answer) == RO_NET_OK);
    CHECK(!answer.has_head && answer.body_len == 0);
    CHECK(connections(net) == 1);
    CHECK(atomic_load(&bytes_seen) == 0);
    CHECK(fetch(net, server, "POST", "body", &answer) == RO_NET_OK);
    CHECK(answer.status == 200);
    CHECK(fetch(net, server, "POST", "body", &answer) == RO_NET_OK);
    CHECK(connections(net) == 1);
    CHECK(atomic_load(&server->n_requests) == 2);
    CHECK(atomic_load(&n_ended) == 0);
    net_end(net);
    server_stop(server);
}

static void
test_two_are_two(void)
{
    struct server *server = start(false);
    ro_net *net = ro_net_new();
    struct answer answer;
    char url[128];
    CHECK(open_one(net, url_of(server, url, "/x"), &answer) == RO_NET_OK);
    CHECK(open_one(net, url_of(server, url, "/x"), &answer) == RO_NET_OK);
    CHECK(connections(net) == 2);
    CHECK(atomic_load(&bytes_seen) == 0);
    net_end(net);
    server_stop(server);
}

static void
close_unused(void *ctx)
{
    ro_net_close_unused(ctx);
}

/* Only what no request has taken. */
static void
test_it_closes(void)
{
    struct server *server = start(false);
    ro_net *net = ro_net_new();
    struct answer answer;
    char url[128];
    CHECK(fetch(net, server, "POST", "body", &answer) == RO_NET_OK);
    CHECK(open_one(net, url_of(server, url, "/x"), &answer) == RO_NET_OK);
    CHECK(ro_net_run(net, close_unused, net) == RO_NET_OK);
    await_ended(1);
    CHECK(fetch(net, server, "POST", "body", &answer) == RO_NET_OK);
    CHECK(answer.status == 200);
    CHECK(atomic_load(&server->n_requests) == 2);
    net_end(net);
    server_stop(server);
}

static void
close_idle(void *ctx)
{
    ro_net_close_idle(ctx);
}

static void
test_what_is_idle_closes(void)
{
    struct server *server = start(false);
    ro_net *net = ro_net_new();
    struct answer answer;
    char url[128];
    CHECK(fetch(net, server, "POST", "body", &answer) == RO_NET_OK);
    CHECK(open_one(net, url_of(server, url, "/x"), &answer) == RO_NET_OK);
    CHECK(ro_net_run(net, close_idle, net) == RO_NET_OK);
    await_ended(2);
    CHECK(fetch(net, server, "POST", "body", &answer) == RO_NET_OK);
    CHECK(connections(net) == 3);
    /* it was not the server that closed: the call may take a kept one */
    ro_request call = request_of("POST", url_of(server, url, "/x"), "body");
    call.sending = RO_SEND_WARY;
    answer_reset(&answer);
    CHECK(fetch_with(net, &call, &answer) == RO_NET_OK);
    CHECK(answer.status == 200);
    CHECK(connections(net) == 3);
    net_end(net);
    server_stop(server);
}

/* The call must not be lost on it. */
static void
test_the_server_ends_it(void)
{
    struct server *server = start(true);
    ro_net *net = ro_net_new();
    struct answer answer;
    char url[128];
    CHECK(open_one(net, url_of(server, url, "/x"), &answer) == RO_NET_OK);
    await_ended(1);
    CHECK(fetch(net, server, "POST", "body", &answer) == RO_NET_OK);
    CHECK(answer.status == 200);
    CHECK(connections(net) == 2);
    CHECK(atomic_load(&server->n_requests) == 1);
    net_end(net);
    server_stop(server);
}

static void
test_nobody_is_there(void)
{
    ro_net *net = ro_net_new();
    struct answer answer;
    CHECK(open_one(net, "http://127.0.0.1:1/", &answer) == RO_NET_REFUSED);
    CHECK(open_one(net, "ftp://127.0.0.1/", &answer) == RO_NET_BAD_URL);
    net_end(net);
}

int
main(void)
{
    test_a_request_takes_it();
    test_two_are_two();
    test_it_closes();
    test_what_is_idle_closes();
    test_the_server_ends_it();
    test_nobody_is_there();
    return check_end();
}
