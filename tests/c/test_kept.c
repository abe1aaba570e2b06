/* Kept connections that their server has closed, or closes under a request:
 * what is sent again, and how often a server receives it. */
#include "net_rig.h"

#include <netinet/tcp.h>

#define ANSWER "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

/* How the server's first connection ends. */
struct ending {
    const char *name;
    const char *idle;     /* sent behind the first answer, unasked; or NULL */
    bool at_once;         /* ended behind the first answer */
    bool reset;           /* by RST */
    const char *partial;  /* of the second answer, before the end */
    unsigned connections; /* in all, for one more request of each kind */
    bool repeatable;      /* nothing of the second answer came */
};

static const struct ending endings[] = {
    {"FIN at once", NULL, true, false, NULL, 2, false},
    {"RST at once", NULL, true, true, NULL, 2, false},
    {"a word and FIN", "HTTP/1.1 408 Timeout\r\n\r\n", true, false, NULL, 2,
     false},
    {"a word and open", "HTTP/1.1 408 Timeout\r\n\r\n", false, false, "", 2,
     false},
    {"FIN behind the request", NULL, false, false, "", 2, true},
    {"RST behind the request", NULL, false, true, "", 2, true},
    {"one byte", NULL, false, false, "H", 1, false},
    {"half a head", NULL, false, false, "HTTP/1.1 200 OK\r\nA", 1, false},
    {"a head", NULL, false, false,
     "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", 1, false},
    {"half a body", NULL, false, false,
     "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no", 1, false},
};

static const struct ending *_Atomic ending_now;
static atomic_bool first_is_over; /* as far as it goes unasked */
static atomic_bool second_dies_too;

static void
end_connection(int fd, bool reset)
{
    if (reset) {
        struct linger at_once = {1, 0};
        int nowhere = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
        dup2(nowhere, fd); /* closes the socket; server_stop has the number */
        close(nowhere);
        return;
    }
    shutdown(fd, SHUT_RDWR);
}

static void
serve_ending(struct server *server, int fd, unsigned nth)
{
    const struct ending *ending = atomic_load(&ending_now);

    if (nth > 0) {
        bool dies = nth == 1 && atomic_load(&second_dies_too);
        while (server_read(server, fd) && !dies) {
            server_say(fd, ANSWER);
        }
        return;
    }
    if (!server_read(server, fd)) {
        return;
    }
    server_say(fd, ANSWER);
    if (ending->idle != NULL) {
        server_say(fd, ending->idle);
    }
    if (ending->at_once) {
        end_connection(fd, ending->reset);
        atomic_store(&first_is_over, true);
        return;
    }
    atomic_store(&first_is_over, true);
    if (server_read(server, fd)) {
        server_say(fd, ending->partial);
        end_connection(fd, ending->reset);
    }
}

static bool
wait_for(atomic_bool *flag)
{
    for (int i = 0; i < 5000 && !atomic_load(flag); i++) {
        nap(1);
    }
    return atomic_load(flag);
}

static ro_net_code
send_one(ro_net *net, struct server *server, ro_sending sending,
         struct answer *answer)
{
    char url[128];
    ro_request request = request_of("POST", url_of(server, url, "/"), "body");
    request.sending = sending;
    answer_reset(answer);
    return fetch_with(net, &request, answer);
}

/* One answered request, and the connection at the point where the table has
 * it. */
static void
begin(ro_net **net, struct server **server, const struct ending *ending)
{
    struct answer answer;

    atomic_store(&ending_now, ending);
    atomic_store(&first_is_over, false);
    *server = server_start(serve_ending);
    *net = ro_net_new();
    CHECK(send_one(*net, *server, RO_SEND_ONCE, &answer) == RO_NET_OK);
    CHECK(wait_for(&first_is_over));
}

static void
finish(ro_net *net, struct server *server)
{
    net_end(net);
    server_stop(server);
}

static void
test_endings(void)
{
    static const ro_sending sendings[]
        = {RO_SEND_ONCE, RO_SEND_WARY, RO_SEND_AGAIN};

    for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
        const struct ending *ending = &endings[i];
        for (size_t s = 0; s < 3; s++) {
            struct server *server;
            ro_net *net;
            struct answer answer;
            bool was_sent = ending->partial != NULL && ending->idle == NULL;
            bool again = ending->repeatable && sendings[s] == RO_SEND_AGAIN;
            bool good = !was_sent || again;

            begin(&net, &server, ending);
            ro_net_code code = send_one(net, server, sendings[s], &answer);
            if ((code == RO_NET_OK) != good) {
                fprintf(stderr, "%s, %d: %s\n", ending->name, (int)sendings[s],
                        ro_net_code_text(code));
            }
            CHECK((code == RO_NET_OK) == good);
            CHECK(good || code == RO_NET_REPLAY || code == RO_NET_RECEIVE);
            CHECK(answer.n_done == 1);
            /* sent at most once but for the one that may be repeated */
            CHECK(atomic_load(&server->n_requests) == (again ? 3u : 2u));
            CHECK(connections(net) == (good ? ending->connections : 1u));
            /* and the next one is none the worse */
            CHECK(send_one(net, server, RO_SEND_ONCE, &answer) == RO_NET_OK);
            finish(net, server);
        }
    }
}

/* The repeat is not repeated. */
static void
test_at_most_twice(void)
{
    struct server *server;
    ro_net *net;
    struct answer answer;

    atomic_store(&second_dies_too, true);
    begin(&net, &server, &endings[4]);
    CHECK(send_one(net, server, RO_SEND_AGAIN, &answer) == RO_NET_RECEIVE);
    CHECK(atomic_load(&server->n_requests) == 3);
    CHECK(connections(net) == 2);
    atomic_store(&second_dies_too, false);
    finish(net, server);
}

/* A new connection that dies proves nothing about kept ones. */
static void
test_new_connections(void)
{
    static const struct ending dies_first
        = {"", NULL, false, false, "", 0, false};
    struct server *server;
    ro_net *net = ro_net_new();
    struct answer answer;

    atomic_store(&ending_now, &dies_first);
    atomic_store(&second_dies_too, true);
    server = server_start(serve_ending);
    CHECK(send_one(net, server, RO_SEND_ONCE, &answer) == RO_NET_OK);
    char url[128];
    ro_request request = request_of("POST", url_of(server, url, "/"), "x");
    request.fresh = true;
    request.sending = RO_SEND_AGAIN;
    answer_reset(&answer);
    CHECK(fetch_with(net, &request, &answer) == RO_NET_RECEIVE);
    CHECK(atomic_load(&server->n_requests) == 2);
    atomic_store(&second_dies_too, false);
    finish(net, server);
}

static void
serve_steady(struct server *server, int fd, unsigned nth)
{
    (void)nth;
    while (server_read(server, fd)) {
        server_say(fd, ANSWER);
    }
}

/* The call's own caution: once a server was seen to close kept connections
 * it gets a new one, and no other request does. */
static void
test_wary(void)
{
    struct server *server;
    ro_net *net;
    struct answer answer;

    begin(&net, &server, &endings[0]);
    CHECK(send_one(net, server, RO_SEND_AGAIN, &answer) == RO_NET_OK);
    CHECK(connections(net) == 2);
    CHECK(send_one(net, server, RO_SEND_ONCE, &answer) == RO_NET_OK);
    CHECK(send_one(net, server, RO_SEND_AGAIN, &answer) == RO_NET_OK);
    CHECK(connections(net) == 2);
    CHECK(send_one(net, server, RO_SEND_WARY, &answer) == RO_NET_OK);
    CHECK(connections(net) == 3);
    finish(net, server);

    /* nothing was seen: the kept one is used */
    server = server_start(serve_steady);
    net = ro_net_new();
    CHECK(send_one(net, server, RO_SEND_ONCE, &answer) == RO_NET_OK);
    CHECK(send_one(net, server, RO_SEND_WARY, &answer) == RO_NET_OK);
    CHECK(connections(net) == 1);
    finish(net, server);
}

/* Many kept connections at once, all closed: each of the next requests takes
 * a new one, and none is sent twice. */
enum { MANY = 8 };
static atomic_uint gathered;
static atomic_uint closed;

static void
serve_together(struct server *server, int fd, unsigned nth)
{
    (void)nth;
    bool first = true;
    while (server_read(server, fd)) {
        if (first) {
            atomic_fetch_add(&gathered, 1);
            while (atomic_load(&gathered) % MANY != 0) {
                nap(1);
            }
        }
        first = false;
        server_say(fd, ANSWER);
        shutdown(fd, SHUT_RDWR);
        atomic_fetch_add(&closed, 1);
    }
}

static void
test_many(void)
{
    struct server *server = server_start(serve_together);
    ro_net *net = ro_net_new();
    static struct answer answers[MANY];
    ro_transfer *transfers[MANY];
    char url[128];
    ro_request request = request_of("POST", url_of(server, url, "/"), "x");

    atomic_store(&gathered, 0);
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < MANY; i++) {
            answer_reset(&answers[i]);
            CHECK(submit(net, &request, &answers[i], &transfers[i])
                  == RO_NET_OK);
        }
        for (size_t i = 0; i < MANY; i++) {
            CHECK(answer_await(&answers[i], &answers[i].done));
            CHECK(answers[i].code == RO_NET_OK);
            ro_transfer_release(transfers[i]);
        }
        unsigned all = (unsigned)(round + 1) * MANY;
        for (int i = 0; i < 5000 && atomic_load(&closed) < all; i++) {
            nap(1);
        }
    }
    CHECK(atomic_load(&server->n_requests) == 3 * MANY);
    CHECK(connections(net) == 3 * MANY);
    finish(net, server);
}

int
main(void)
{
    test_endings();
    test_at_most_twice();
    test_new_connections();
    test_wary();
    test_many();
    return check_end();
}
