/* Transfers over plain TCP against a server whose bytes are known. */
#include "net_rig.h"
#include "entries.h"

#include <dirent.h>
#include <netdb.h>
#include <signal.h>
#include <sys/wait.h>

#include "core/alloc.h"
#include "core/monotonic.h"

/* A thread that was joined may be listed for a moment more. */
static bool
has_no_more_threads(size_t than)
{
    int64_t until = ro_monotonic_ms() + 5000;
    while (entries("/proc/self/task") > than) {
        if (ro_monotonic_ms() > until) {
            return false;
        }
        (void)poll(NULL, 0, 1);
    }
    return true;
}

/* ---- plain exchanges ---- */

static void
serve_small(struct server *server, int fd, unsigned nth)
{
    (void)nth;
    while (server_read(server, fd)) {
        server_say(fd, "HTTP/1.1 200 Fine\r\nX-A: 1\r\nContent-Length: 5\r\n"
                       "x-a:2  \r\n\r\nhello");
    }
}

static void
test_plain(void)
{
    struct server *server = server_start(serve_small);
    ro_net *net = ro_net_new();
    struct answer answer;
    char url[128];
    char expected[512];

    CHECK(net != NULL);
    CHECK(fetch(net, server, "GET", NULL, &answer) == RO_NET_OK);
    CHECK(answer.status == 200 && answer.version == 11);
    CHECK(strcmp(answer.reason, "Fine") == 0);
    CHECK(strcmp(answer.headers, "X-A=1\nContent-Length=5\nx-a=2\n") == 0);
    CHECK(answer.body_len == 5 && memcmp(answer.body, "hello", 5) == 0);

    ro_header headers[] = {
        {ro_slice_str("Host"), ro_slice_str("example.test:1")},
        {ro_slice_str("accept"), ro_slice_str("a/b")},
        {ro_slice_str("X-Empty"), ro_slice_str("")},
        {ro_slice_str("X-Raw"), ro_slice_str("  \xe4;  a:b  ")},
        {ro_slice_str("X-Raw"), ro_slice_str("again")},
        {ro_slice_str("Content-Length"), ro_slice_str("4")},
        {ro_slice_str("Content-Type"), ro_slice_str("text/x")},
    };
    ro_request request
        = request_of("POST", url_of(server, url, "/a/../b?c=%20d#e"), "body");
    request.headers = headers;
    request.n_headers = sizeof(headers) / sizeof(headers[0]);
    answer_reset(&answer);
    CHECK(fetch_with(net, &request, &answer) == RO_NET_OK);
    snprintf(expected, sizeof(expected),
             "POST /a/../b?c=%%20d HTTP/1.1\r\nHost: example.test:1\r\n"
             "accept: a/b\r\nX-Empty:\r\nX-Raw:   \xe4;  a:b  \r\n"
             "X-Raw: again\r\nContent-Length: 4\r\nContent-Type: text/x\r\n"
             "\r\nbody");
    CHECK(server_saw_only(server, expected));

    CHECK(fetch(net, server, "POST", "", &answer) == RO_NET_OK);
    snprintf(expected, sizeof(expected),
             "POST /x HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n"
             "Content-Length: 0\r\n\r\n",
             server->port);
    CHECK(server_saw_only(server, expected));
    CHECK(fetch(net, server, "DELETE", NULL, &answer) == RO_NET_OK);
    CHECK(server_saw(server, "DELETE /x HTTP/1.1\r\n"));
    CHECK(connections(net) == 1);
    CHECK(ro_net_shut_down(net, 2000));
    CHECK(ro_net_shut_down(net, 2000));
    CHECK(fetch(net, server, "GET", NULL, &answer) == RO_NET_SHUT_DOWN);
    ro_net_free(net);
    ro_net_free(NULL);
    server_stop(server);
}

static void
test_refused(void)
{
    ro_net *net = ro_net_new();
    struct answer answer;
    static const char *const urls[] = {
        "",
        "http://",
        "ftp://h/",
        "http://u@h/",
        "http://u:p@h/",
        "http://h:0/",
        "http://h:99999/",
        "http://h/a b",
        "http://h/\n",
        "file:///etc/passwd",
        "//h/",
        "h",
    };
    static const char *const proxies[] = {
        "socks5://h:1", "socks5h://h", "h:1",
        "http://",      "http://h:0",  "http://u%0a@h:1",
    };
    static const struct {
        const char *name;
        const char *value;
        size_t len;
    } headers[] = {
        {"X", "a\r\nY: b", 7},
        {"X", "a\nb", 3},
        {"X", "a\0b", 3},
        {"X:", "a", 1},
        {"X Y", "a", 1},
        {"", "a", 1},
        {"X", "\r", 1},
        {"X", "  ", 2},
        {"Content-Length", "5", 1},
        {"Transfer-Encoding", "chunked", 7},
    };

    for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++) {
        ro_request request = request_of("GET", urls[i], NULL);
        answer_reset(&answer);
        CHECK(fetch_with(net, &request, &answer) == RO_NET_BAD_URL);
        CHECK(answer.n_done == 0);
    }
    for (size_t i = 0; i < sizeof(proxies) / sizeof(proxies[0]); i++) {
        ro_request request = request_of("GET", "http://127.0.0.1:9/", NULL);
        request.proxy = proxies[i];
        answer_reset(&answer);
        CHECK(fetch_with(net, &request, &answer) == RO_NET_BAD_PROXY);
    }
    for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
        ro_request request = request_of("POST", "http://127.0.0.1:9/", "1234");
        ro_header header = {ro_slice_str(headers[i].name),
                            ro_slice_of(headers[i].value, headers[i].len)};
        request.headers = &header;
        request.n_headers = 1;
        answer_reset(&answer);
        CHECK(fetch_with(net, &request, &answer) == RO_NET_BAD_HEADER);
    }
    char *long_value = calloc(1, RO_MAX_HEADER_VALUE + 2);
    memset(long_value, 'a', RO_MAX_HEADER_VALUE + 1);
    ro_header header = {ro_slice_str("X"), ro_slice_str(long_value)};
    ro_request request = request_of("GET", "http://127.0.0.1:9/", NULL);
    request.headers = &header;
    request.n_headers = 1;
    answer_reset(&answer);
    CHECK(fetch_with(net, &request, &answer) == RO_NET_BAD_HEADER);
    free(long_value);
    request = request_of("GE T", "http://127.0.0.1:9/", NULL);
    answer_reset(&answer);
    CHECK(fetch_with(net, &request, &answer) == RO_NET_BAD_HEADER);
    request = request_of("GET", "http://127.0.0.1:1/", NULL);
    answer_reset(&answer);
    CHECK(fetch_with(net, &request, &answer) == RO_NET_REFUSED);
    request = request_of("GET", "http://name.invalid/", NULL);
    answer_reset(&answer);
    CHECK(fetch_with(net, &request, &answer) == RO_NET_RESOLVE);
    net_end(net);
}

/* ---- heads and bodies ---- */

static const char *_Atomic script; /* what serve_script answers */
static atomic_size_t script_len;

static void
serve_script(struct server *server, int fd, unsigned nth)
{
    (void)nth;
    if (server_read(server, fd)) {
        server_say_bytes(fd, atomic_load(&script), atomic_load(&script_len));
    }
}

static ro_net_code
fetch_script(ro_net *net, struct server *server, const char *text,
             struct answer *answer)
{
    char url[128];
    ro_request request = request_of("GET", url_of(server, url, "/"), NULL);

    request.fresh = true; /* the server closes without a word */
    atomic_store(&script, text);
    atomic_store(&script_len, strlen(text));
    answer_reset(answer);
    return fetch_with(net, &request, answer);
}

static void
test_heads(void)
{
    struct server *server = server_start(serve_script);
    ro_net *net = ro_net_new();
    struct answer answer;
    static const struct {
        const char *text;
        ro_net_code code;
        const char *headers;
        const char *body;
    } cases[] = {
        {"HTTP/1.1 100 Continue\r\nX: 0\r\n\r\n"
         "HTTP/1.1 103 Early\r\nX: 1\r\n\r\n"
         "HTTP/1.0 200 OK\r\nX: 2\r\n\r\nb",
         RO_NET_OK, "X=2\n", "b"},
        {"HTTP/1.1 200\r\nA: 1\r\n 2\r\n\t 3 \r\nB:\r\n\r\n", RO_NET_OK,
         "A=1 2 3\nB=\n", ""},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
         "3;x=y\r\nabc\r\n0\r\nTrailer: t\r\n\r\n",
         RO_NET_OK, "Transfer-Encoding=chunked\n", "abc"},
        {"HTTP/1.1 200 OK\nA:1\n\nabc", RO_NET_OK, "A=1\n", "abc"},
        {"HTTP/1.1 101 Switching\r\n\r\n", RO_NET_PROTOCOL, NULL, NULL},
        {"HTTP/1.1 200 OK\r\nNo colon\r\n\r\n", RO_NET_PROTOCOL, NULL, NULL},
        {"HTTP/1.1 200 OK\r\nA : 1\r\n\r\n", RO_NET_PROTOCOL, NULL, NULL},
        {"HTTP/1.1 200 OK\r\n: 1\r\n\r\n", RO_NET_PROTOCOL, NULL, NULL},
        {"HTTP/1.1 200 OK\r\n folded\r\n\r\n", RO_NET_PROTOCOL, NULL, NULL},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding:\r\n chunked\r\n\r\n",
         RO_NET_PROTOCOL, NULL, NULL},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
         RO_NET_PROTOCOL, NULL, NULL},
        {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
         RO_NET_PROTOCOL, NULL, NULL},
        {"HTTP/1.1 200 OK\r\nContent-Length: "
         "00000000000000000000002\r\n\r\nab",
         RO_NET_PROTOCOL, NULL, NULL},
        {"HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775808\r\n\r\nab",
         RO_NET_PROTOCOL, NULL, NULL},
        {"HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775807\r\n\r\nab",
         RO_NET_RECEIVE, "Content-Length=9223372036854775807\n", "ab"},
        {"HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nab", RO_NET_PROTOCOL,
         NULL, NULL},
        {"HTTP/1.1 200 OK\r\nContent-Length: 2a\r\n\r\nab", RO_NET_PROTOCOL,
         NULL, NULL},
        {"HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nab", RO_NET_PROTOCOL,
         NULL, NULL},
        {"HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\nab", RO_NET_PROTOCOL, NULL,
         NULL},
        {"HTTP/1.1 200 OK\r\nContent-Length: 02\r\n\r\nab", RO_NET_OK,
         "Content-Length=02\n", "ab"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n"
         "ab",
         RO_NET_OK, "Content-Length=2\nContent-Length=2\n", "ab"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n"
         "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
         RO_NET_PROTOCOL, NULL, NULL},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\nab",
         RO_NET_PROTOCOL, NULL, NULL},
        {"HTTP/1.1 200 OK\r\n A: 1\r\nB: 2\r\n\r\n", RO_NET_PROTOCOL, NULL,
         NULL},
        {"HTTP/1.1 2x0 OK\r\n\r\n", RO_NET_PROTOCOL, NULL, NULL},
        {"SSH-2.0-OpenSSH\r\n\r\n", RO_NET_PROTOCOL, NULL, NULL},
        {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc", RO_NET_RECEIVE,
         "Content-Length=5\n", "abc"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
         RO_NET_RECEIVE, "Transfer-Encoding=chunked\n", "abc"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n",
         RO_NET_PROTOCOL, "Transfer-Encoding=chunked\n", ""},
        {"", RO_NET_RECEIVE, NULL, NULL},
        {"HTTP/1.1 200 OK\r\nA: 1", RO_NET_RECEIVE, NULL, NULL},
        {"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\nabc",
         RO_NET_ENCODING, NULL, NULL},
        {"HTTP/1.1 200 OK\r\nContent-Encoding: identity\r\n\r\nabc", RO_NET_OK,
         "Content-Encoding=identity\n", "abc"},
        {"HTTP/1.1 204 None\r\n\r\n", RO_NET_OK, "", ""},
        {"HTTP/1.1 302 Found\r\nLocation: /y\r\nContent-Length: 0\r\n\r\n",
         RO_NET_OK, "Location=/y\nContent-Length=0\n", ""},
        {"HTTP/1.1 401 No\r\nWWW-Authenticate: Basic\r\n"
         "Content-Length: 0\r\n\r\n",
         RO_NET_OK, "WWW-Authenticate=Basic\nContent-Length=0\n", ""},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ro_net_code code = fetch_script(net, server, cases[i].text, &answer);
        if (code != cases[i].code) {
            fprintf(stderr, "case %zu: %d\n", i, (int)code);
        }
        CHECK(code == cases[i].code);
        CHECK(answer.n_done == 1);
        CHECK(answer.has_head == (cases[i].headers != NULL));
        if (cases[i].headers != NULL) {
            CHECK(strcmp(answer.headers, cases[i].headers) == 0);
            CHECK(strcmp(answer.body, cases[i].body) == 0);
        }
    }
    CHECK(atomic_load(&server->n_requests)
          == sizeof(cases) / sizeof(cases[0]));
    net_end(net);
    server_stop(server);
}

static void
serve_endless_head(struct server *server, int fd, unsigned nth)
{
    static char line[1002];
    if (!server_read(server, fd)) {
        return;
    }
    memset(line, 'a', sizeof(line));
    memcpy(line, "X: ", 3);
    memcpy(line + 1000, "\r\n", 2);
    for (unsigned i = 0; i < 2000 && !server_peer_closes(fd, 0); i++) {
        if (nth == 0 && i % 2 == 0) { /* many small blocks, all 1xx */
            server_say(fd, "HTTP/1.1 103 E\r\n");
        }
        else if (i == 0) {
            server_say(fd, "HTTP/1.1 200 OK\r\n");
        }
        server_say_bytes(fd, line, nth == 2 ? 1000 : 1002);
        if (nth == 0 && i % 2 == 1) {
            server_say(fd, "\r\n");
        }
    }
}

static void
test_header_bounds(void)
{
    struct server *server = server_start(serve_endless_head);
    ro_net *net = ro_net_new();
    struct answer answer;

    for (int i = 0; i < 3; i++) {
        CHECK(fetch(net, server, "GET", NULL, &answer)
              == RO_NET_HEADERS_TOO_LARGE);
        CHECK(!answer.has_head);
    }
    net_end(net);
    server_stop(server);
}

/* ---- content codings ---- */

#define CODED(coding, bytes)                                                  \
    "HTTP/1.1 200 OK\r\nContent-Encoding: " coding "\r\n\r\n" bytes

/* "hello" */
#define GZIP                                                                  \
    "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xcb\x48\xcd\xc9\xc9\x07\x00"    \
    "\x86"                                                                    \
    "\xa6\x10\x36\x05\x00\x00\x00"
#define DEFLATE "\x78\x9c\xcb\x48\xcd\xc9\xc9\x07\x00\x06\x2c\x02\x15"
#define BR "\x0b\x02\x80hello\x03"

static void
test_codings(void)
{
    static const struct {
        const char *accept;
        const char *text;
        size_t len;
        ro_net_code code;
    } cases[] = {
#define CASE(accept, text, code) {accept, text, sizeof(text) - 1, code}
        CASE("gzip", CODED("gzip", GZIP), RO_NET_OK),
        CASE("x, GZip ;q=0.5", CODED("x-GZIP", GZIP), RO_NET_OK),
        CASE("gzip, deflate", CODED("deflate", DEFLATE), RO_NET_OK),
        CASE("*", CODED("gzip", GZIP), RO_NET_OK),
        CASE("br", CODED("br", BR), RO_NET_OK),
        CASE("gzip", CODED("identity", "hello"), RO_NET_OK),
        CASE("gzip", CODED("", "hello"), RO_NET_OK),
        CASE("gzip", CODED("br", BR), RO_NET_ENCODING),
        CASE("gzip;q=0, br", CODED("gzip", GZIP), RO_NET_ENCODING),
        CASE("*, gzip;q=0.000", CODED("gzip", GZIP), RO_NET_ENCODING),
        CASE("identity", CODED("gzip", GZIP), RO_NET_ENCODING),
        CASE("gzip", CODED("gzip, rot13", GZIP), RO_NET_ENCODING),
        CASE("gzip", CODED("*", GZIP), RO_NET_ENCODING),
        CASE("gzip", CODED("gzip", "hello world, no gzip"), RO_NET_ENCODING),
        CASE("gzip", CODED("gzip", GZIP "more"), RO_NET_ENCODING),
#undef CASE
    };
    struct server *server = server_start(serve_script);
    ro_net *net = ro_net_new();
    struct answer answer;
    char url[128];
    char line[64];

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ro_header header
            = {ro_slice_str("Accept-Encoding"), ro_slice_str(cases[i].accept)};
        ro_request request = request_of("GET", url_of(server, url, "/"), NULL);
        request.headers = &header;
        request.n_headers = 1;
        atomic_store(&script, cases[i].text);
        atomic_store(&script_len, cases[i].len);
        answer_reset(&answer);
        ro_net_code code = fetch_with(net, &request, &answer);
        if (code != cases[i].code) {
            fprintf(stderr, "case %zu: %d\n", i, (int)code);
        }
        CHECK(code == cases[i].code);
        if (code == RO_NET_OK) {
            CHECK(answer.body_len == 5
                  && memcmp(answer.body, "hello", 5) == 0);
        }
        snprintf(line, sizeof(line), "\r\nAccept-Encoding: %s\r\n",
                 cases[i].accept);
        CHECK(server_saw(server, line));

        request.raw = true;
        answer_reset(&answer);
        CHECK(fetch_with(net, &request, &answer) == RO_NET_OK);
        CHECK(answer.body_len
              == cases[i].len
                     - (size_t)(strstr(cases[i].text, "\r\n\r\n") + 4
                                - cases[i].text));
    }
    net_end(net);
    server_stop(server);
}

/* ---- sent once ---- */

static void
serve_one_then_drop(struct server *server, int fd, unsigned nth)
{
    (void)nth;
    if (!server_read(server, fd)) {
        return;
    }
    server_say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    (void)server_read(server, fd);
}

static void
serve_drop(struct server *server, int fd, unsigned nth)
{
    (void)nth;
    (void)server_read(server, fd);
}

static void
serve_417(struct server *server, int fd, unsigned nth)
{
    (void)nth;
    while (server_read(server, fd)) {
        server_say(fd, "HTTP/1.1 417 No\r\nContent-Length: 0\r\n\r\n");
    }
}

static void
test_sent_once(void)
{
    static const char *const bodies[] = {"body", NULL, ""};
    struct answer answer;

    for (size_t i = 0; i < 3; i++) {
        const char *method = bodies[i] != NULL ? "POST" : "GET";
        struct server *server = server_start(serve_one_then_drop);
        ro_net *net = ro_net_new();
        CHECK(fetch(net, server, method, bodies[i], &answer) == RO_NET_OK);
        CHECK(fetch(net, server, method, bodies[i], &answer) == RO_NET_REPLAY);
        CHECK(connections(net) == 1);
        net_end(net);
        server_end(server);
        CHECK(atomic_load(&server->n_requests) == 2);
        server_stop(server);
    }
    struct server *server = server_start(serve_drop);
    ro_net *net = ro_net_new();
    CHECK(fetch(net, server, "POST", "x", &answer) == RO_NET_RECEIVE);
    CHECK(atomic_load(&server->n_requests) == 1);
    server_stop(server);

    server = server_start(serve_417);
    char url[128];
    ro_header header = {ro_slice_str("Expect"), ro_slice_str("100-continue")};
    ro_request request = request_of("POST", url_of(server, url, "/"), "x");
    request.headers = &header;
    request.n_headers = 1;
    answer_reset(&answer);
    ro_net_code code = fetch_with(net, &request, &answer);
    CHECK(code == RO_NET_REPLAY
          || (code == RO_NET_OK && answer.status == 417));
    CHECK(atomic_load(&server->n_requests) == 1);
    net_end(net);
    server_stop(server);
}

/* ---- pause, stop, drain ---- */

static atomic_size_t flood_sent;

static void
serve_flood(struct server *server, int fd, unsigned nth)
{
    static const char block[4096];
    (void)nth;
    if (!server_read(server, fd)) {
        return;
    }
    server_say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 8388608\r\n\r\n");
    for (int i = 0; i < 2048; i++) {
        server_say_bytes(fd, block, sizeof(block));
        atomic_fetch_add(&flood_sent, sizeof(block));
    }
}

static void
test_pause(void)
{
    struct server *server = server_start(serve_flood);
    ro_net *net = ro_net_new();
    struct answer answer;
    ro_transfer *transfer = NULL;
    char url[128];
    ro_request request = request_of("GET", url_of(server, url, "/"), NULL);

    request.read_ms = 150; /* does not run while paused */
    answer_reset(&answer);
    answer.pause_at = 1;
    CHECK(submit(net, &request, &answer, &transfer) == RO_NET_OK);
    CHECK(answer_await(&answer, &answer.paused));
    while (server_may_say(server->connections[0].fd)) {
        nap(1);
    }
    worker_passes(net, 400);
    CHECK(!server_may_say(server->connections[0].fd));
    CHECK(atomic_load(&flood_sent) < 8388608);
    CHECK(answer_waits(&answer, 65536));
    ro_transfer_resume(transfer);
    CHECK(answer_await(&answer, &answer.done));
    CHECK(answer.code == RO_NET_OK && answer.body_len == 8388608);
    ro_transfer_resume(transfer);
    ro_transfer_cancel(transfer);
    ro_transfer_release(transfer);

    answer_reset(&answer);
    answer.on_head = RO_SINK_PAUSE;
    CHECK(submit(net, &request, &answer, &transfer) == RO_NET_OK);
    CHECK(answer_await(&answer, &answer.has_head));
    worker_passes(net, 50);
    CHECK(answer_waits(&answer, 0));
    ro_transfer_resume(transfer);
    CHECK(answer_await(&answer, &answer.done));
    CHECK(answer.code == RO_NET_OK && answer.body_len == 8388608);
    ro_transfer_release(transfer);

    answer_reset(&answer);
    answer.on_data = RO_SINK_FAIL;
    CHECK(fetch_with(net, &request, &answer) == RO_NET_SINK);
    answer_reset(&answer);
    answer.on_head = RO_SINK_FAIL;
    CHECK(fetch_with(net, &request, &answer) == RO_NET_SINK);
    net_end(net);
    server_stop(server);
}

/* Ends 20 ms behind the event on even connections. On odd ones, never. */
static void
serve_event(struct server *server, int fd, unsigned nth)
{
    while (server_read(server, fd)) {
        server_say(fd, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                       "5\r\nevent\r\n");
        if (server_saw(server, "hold") || nth > 1000) {
            (void)server_peer_closes(fd, 4000);
            return;
        }
        nap(20);
        server_say(fd, "0\r\n\r\n");
    }
}

static int64_t
stop_at_once(ro_net *net, const char *url)
{
    struct answer answer;
    ro_request request = request_of("POST", url, "{}");
    int64_t start = ro_monotonic_ms();
    answer_reset(&answer);
    answer.on_data = RO_SINK_STOP;
    CHECK(fetch_with(net, &request, &answer) == RO_NET_OK);
    CHECK(answer.body_len == 5 && answer.n_done == 1);
    return ro_monotonic_ms() - start;
}

static void
stop_at_head(ro_net *net, const char *url)
{
    struct answer answer;
    ro_request request = request_of("POST", url, "{}");
    answer_reset(&answer);
    answer.on_head = RO_SINK_STOP;
    CHECK(fetch_with(net, &request, &answer) == RO_NET_OK);
    CHECK(answer.has_head && answer.body_len == 0 && answer.n_done == 1);
}

static void
test_drain(void)
{
    struct server *server = server_start(serve_event);
    ro_net *net = ro_net_new();
    char url[128];
    char hold[128];

    url_of(server, url, "/");
    for (int i = 0; i < 5; i++) {
        stop_at_once(net, url);
    }
    for (int i = 0; i < 5; i++) {
        stop_at_head(net, url);
    }
    CHECK(connections(net) == 1);
    url_of(server, hold, "/hold");
    stop_at_once(net, hold);
    CHECK(stop_at_once(net, hold) >= 90);
    /* Whoever waits does so for 100 ms each time: the quickest tells. */
    int64_t quickest = INT64_MAX;
    for (int i = 0; i < 5; i++) {
        int64_t took = stop_at_once(net, hold);
        quickest = took < quickest ? took : quickest;
    }
    CHECK(quickest < 90);
    CHECK(connections(net) == 7);
    /* A waiting transfer can be cancelled, also by the end of the net. */
    net_end(net);

    net = ro_net_new();
    stop_at_once(net, hold);
    ro_request request = request_of("POST", url, "{}");
    struct answer waiting[2];
    ro_transfer *transfers[2];
    for (int i = 0; i < 2; i++) {
        answer_reset(&waiting[i]);
        CHECK(submit(net, &request, &waiting[i], &transfers[i]) == RO_NET_OK);
        if (i == 0) {
            ro_transfer_cancel(transfers[i]);
            CHECK(answer_await(&waiting[i], &waiting[i].done));
            CHECK(waiting[i].code == RO_NET_CANCELLED);
        }
    }
    CHECK(ro_net_shut_down(net, 2000));
    CHECK(waiting[1].n_done == 1 && waiting[1].code == RO_NET_SHUT_DOWN);
    ro_transfer_release(transfers[0]);
    ro_transfer_release(transfers[1]);
    ro_net_free(net);
    server_stop(server);
}

/* An answer that goes on is not drained for ever. */
static void
test_drain_bounds(void)
{
    struct server *server = server_start(serve_flood);
    ro_net *net = ro_net_new();
    struct answer answer;
    char url[128];
    ro_request request = request_of("GET", url_of(server, url, "/"), NULL);

    atomic_store(&flood_sent, 0);
    answer_reset(&answer);
    answer.on_data = RO_SINK_STOP;
    CHECK(fetch_with(net, &request, &answer) == RO_NET_OK);
    CHECK(connections(net) == 1);
    CHECK(server_peer_closes(server->connections[0].fd, 20000));
    net_end(net);
    server_stop(server);
}

/* ---- time ---- */

static void
serve_silence(struct server *server, int fd, unsigned nth)
{
    if (nth % 2 == 0) {
        (void)server_peer_closes(fd, 4000);
        return;
    }
    if (server_read(server, fd)) {
        server_say(fd, "HTTP/1.1 200 OK\r\n\r\n");
        for (int i = 0; i < 4; i++) {
            nap(100); /* a quarter of the silence that is too long */
            server_say(fd, "x");
        }
        (void)server_peer_closes(fd, 4000);
    }
}

static void
test_timeouts(void)
{
    struct server *server = server_start(serve_silence);
    ro_net *net = ro_net_new();
    struct answer answer;
    char url[128];
    ro_request request = request_of("POST", url_of(server, url, "/"), "x");

    request.read_ms = 400;
    int64_t start = ro_monotonic_ms();
    answer_reset(&answer);
    CHECK(fetch_with(net, &request, &answer) == RO_NET_READ_TIMEOUT);
    CHECK(ro_monotonic_ms() - start >= 395);
    start = ro_monotonic_ms();
    answer_reset(&answer);
    CHECK(fetch_with(net, &request, &answer) == RO_NET_READ_TIMEOUT);
    CHECK(answer.body_len == 4);
    CHECK(ro_monotonic_ms() - start >= 790);

    size_t big = 32u << 20;
    char *body = calloc(1, big);
    request.body = ro_slice_of(body, big);
    request.write_ms = 120;
    request.read_ms = 0;
    start = ro_monotonic_ms();
    answer_reset(&answer);
    CHECK(fetch_with(net, &request, &answer) == RO_NET_WRITE_TIMEOUT);
    CHECK(ro_monotonic_ms() - start >= 115);
    free(body);
    net_end(net);
    server_stop(server);
}

/* ---- cancellation ---- */

static void
serve_slow(struct server *server, int fd, unsigned nth)
{
    (void)nth;
    while (server_read(server, fd)) {
        nap(2);
        server_say(fd, "HTTP/1.1 200 OK\r\n");
        nap(1);
        server_say(fd, "Content-Length: 4\r\n\r\nab");
        nap(2);
        server_say(fd, "cd");
    }
}

static void
test_cancel(void)
{
    struct server *server = server_start(serve_slow);
    ro_net *net = ro_net_new();
    char url[128];
    ro_request request = request_of("POST", url_of(server, url, "/"), "x");
    unsigned cancelled = 0;

    for (int i = 0; i < 240; i++) {
        struct answer pair[2];
        ro_transfer *transfers[2];
        for (int k = 0; k < 2; k++) {
            answer_reset(&pair[k]);
            CHECK(submit(net, &request, &pair[k], &transfers[k]) == RO_NET_OK);
        }
        if (i % 8 != 0) {
            struct timespec time = {0, (long)(i % 80) * 100000};
            nanosleep(&time, NULL);
        }
        for (int k = 0; k <= i % 2; k++) {
            ro_transfer_cancel(transfers[k]);
            if (i % 3 == 0) {
                ro_transfer_cancel(transfers[k]);
            }
        }
        for (int k = 0; k < 2; k++) {
            CHECK(answer_await(&pair[k], &pair[k].done));
            CHECK(pair[k].n_done == 1);
            CHECK(pair[k].code == RO_NET_OK
                  || (pair[k].code == RO_NET_CANCELLED && k <= i % 2));
            cancelled += pair[k].code == RO_NET_CANCELLED;
            ro_transfer_release(transfers[k]);
        }
    }
    CHECK(cancelled > 100);
    ro_net_stats stats;
    ro_net_get_stats(net, &stats);
    CHECK(stats.active == 0 && stats.transfers == 480);
    net_end(net);
    server_stop(server);
}

/* ---- a name server that does not answer ---- */

static atomic_bool resolver_stuck;
static atomic_uint resolver_calls;

/* Takes the place of the C library's for this program and libcurl. */
__attribute__((visibility("default"))) int
getaddrinfo(const char *restrict node, const char *restrict service,
            const struct addrinfo *restrict hints,
            struct addrinfo **restrict result)
{
    (void)service;
    (void)hints;
    (void)result;
    atomic_fetch_add(&resolver_calls, 1);
    while (strcmp(node, "stuck.test") == 0 && atomic_load(&resolver_stuck)) {
        nap(5);
    }
    atomic_fetch_sub(&resolver_calls, 1);
    return EAI_NONAME;
}

static void
test_stuck_resolver(void)
{
    ro_net *net = ro_net_new();
    ro_request request = request_of("GET", "http://stuck.test/", NULL);
    struct answer answers[3];
    ro_transfer *transfers[3];

    atomic_store(&resolver_stuck, true);
    for (int i = 0; i < 3; i++) {
        request.connect_ms = i == 1 ? 100 : 5000;
        answer_reset(&answers[i]);
        CHECK(submit(net, &request, &answers[i], &transfers[i]) == RO_NET_OK);
    }
    while (atomic_load(&resolver_calls) == 0) {
        nap(1);
    }
    ro_transfer_cancel(transfers[0]);
    CHECK(answer_await(&answers[0], &answers[0].done));
    CHECK(answers[0].code == RO_NET_CANCELLED);
    CHECK(answer_await(&answers[1], &answers[1].done));
    CHECK(answers[1].code == RO_NET_CONNECT_TIMEOUT);
    CHECK(ro_net_shut_down(net, 2000));
    /* The worker has ended, and the resolver is still stuck. */
    CHECK(answers[2].n_done == 1 && answers[2].code == RO_NET_SHUT_DOWN);
    CHECK(atomic_load(&resolver_calls) > 0);
    for (int i = 0; i < 3; i++) {
        ro_transfer_release(transfers[i]);
    }
    ro_net_free(net);
    atomic_store(&resolver_stuck, false);
    while (atomic_load(&resolver_calls) > 0) {
        nap(1);
    }
    nap(20);
}

/* ---- the worker ---- */

struct ticks {
    ro_net *net;
    pthread_mutex_t lock;
    char order[16];
    size_t n;
    ro_timer *stopped;
};

static void
tick(struct ticks *ticks, char c)
{
    pthread_mutex_lock(&ticks->lock);
    ticks->order[ticks->n++] = c;
    pthread_mutex_unlock(&ticks->lock);
}

static void
tick_a(void *ctx)
{
    tick(ctx, 'a');
}

static void
tick_b(void *ctx)
{
    struct ticks *ticks = ctx;
    ro_timer_stop(ticks->net, ticks->stopped);
    tick(ticks, 'b');
}

static void
tick_c(void *ctx)
{
    tick(ctx, 'c');
}

static void
set_timers(void *ctx)
{
    struct ticks *ticks = ctx;
    ro_net_after(ticks->net, 40, tick_c, ticks);
    ro_net_after(ticks->net, 20, tick_b, ticks);
    ticks->stopped = ro_net_after(ticks->net, 30, tick_a, ticks);
    ro_net_after(ticks->net, 20, tick_a, ticks);
    ro_net_after(ticks->net, 60000, tick_a, ticks);
}

static void
test_run(void)
{
    ro_net *net = ro_net_new();
    struct ticks ticks = {.net = net};

    pthread_mutex_init(&ticks.lock, NULL);
    CHECK(ro_net_run(net, set_timers, &ticks) == RO_NET_OK);
    worker_passes(net, 60);
    pthread_mutex_lock(&ticks.lock);
    CHECK(strcmp(ticks.order, "bac") == 0);
    pthread_mutex_unlock(&ticks.lock);
    for (int i = 0; i < 3; i++) {
        CHECK(ro_net_run(net, tick_c, &ticks) == RO_NET_OK);
    }
    CHECK(ro_net_shut_down(net, 2000));
    CHECK(strcmp(ticks.order, "bacccc") == 0);
    CHECK(ro_net_run(net, tick_c, &ticks) == RO_NET_SHUT_DOWN);
    ro_net_free(net);
}

static void
serve_never(struct server *server, int fd, unsigned nth)
{
    (void)server;
    (void)nth;
    (void)server_peer_closes(fd, 4000);
}

static void
test_shut_down(void)
{
    struct server *server = server_start(serve_never);
    ro_net *net = ro_net_new();
    struct answer answers[10];
    ro_transfer *transfers[10];
    char url[128];
    ro_request request = request_of("GET", url_of(server, url, "/"), NULL);

    for (int i = 0; i < 10; i++) {
        answer_reset(&answers[i]);
        CHECK(submit(net, &request, &answers[i], &transfers[i]) == RO_NET_OK);
    }
    CHECK(ro_net_shut_down(net, 2000));
    for (int i = 0; i < 10; i++) {
        CHECK(answers[i].n_done == 1 && answers[i].code == RO_NET_SHUT_DOWN);
        ro_transfer_cancel(transfers[i]);
        ro_transfer_resume(transfers[i]);
        ro_transfer_release(transfers[i]);
    }
    ro_net_free(net);
    server_stop(server);
}

static void
test_fork(void)
{
    ro_net *net = ro_net_new();
    pid_t child = fork();

    if (child == 0) {
        struct answer answer;
        ro_request request = request_of("GET", "http://127.0.0.1:9/", NULL);
        answer_reset(&answer);
        bool ok = fetch_with(net, &request, &answer) == RO_NET_FORKED
                  && ro_net_run(net, tick_a, NULL) == RO_NET_FORKED
                  && !ro_net_shut_down(net, 1000);
        ro_net_free(net);
        _exit(ok ? 0 : 1);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    net_end(net);
}

/* Threads of this process that leave SIGTERM to others. */
static unsigned
deaf_threads(void)
{
    char path[64];
    char line[256];
    unsigned blocked = 0;
    DIR *dir = opendir("/proc/self/task");

    for (struct dirent *entry = readdir(dir); entry != NULL;
         entry = readdir(dir)) {
        snprintf(path, sizeof(path), "/proc/self/task/%.20s/status",
                 entry->d_name);
        FILE *file = fopen(path, "r");
        while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
            unsigned long long mask = 0;
            if (sscanf(line, "SigBlk: %llx", &mask) == 1
                && (mask & (1ull << (SIGTERM - 1))) != 0) {
                blocked++;
            }
        }
        if (file != NULL) {
            fclose(file);
        }
    }
    closedir(dir);
    return blocked;
}

static void
test_no_signals(void)
{
    unsigned before = deaf_threads();
    ro_net *net = ro_net_new();

    worker_passes(net, 0);
    CHECK(deaf_threads() == before + 1);
    net_end(net);
}

/* ---- out of memory ---- */

#ifdef RO_TEST_ALLOC
static void
test_memory(void)
{
    struct server *server = server_start(serve_event);
    size_t live = ro_alloc_live();
    unsigned succeeded = 0;
    char url[128];
    ro_header header = {ro_slice_str("X"), ro_slice_str("y")};
    ro_request request = request_of("POST", url_of(server, url, "/"), "{}");

    request.headers = &header;
    request.n_headers = 1;
    for (size_t nth = 1; nth < 200 && succeeded < 3; nth++) {
        ro_alloc_fail_at(nth, 0);
        ro_net *net = ro_net_new();
        if (net == NULL) {
            continue;
        }
        ro_net_code code = RO_NET_OK;
        for (int i = 0; i < 2 && code == RO_NET_OK; i++) {
            struct answer answer;
            answer_reset(&answer);
            answer.on_data = RO_SINK_STOP;
            code = fetch_with(net, &request, &answer);
            CHECK(code == RO_NET_OK || code == RO_NET_NO_MEMORY);
        }
        net_end(net);
        CHECK(ro_alloc_live() == live);
        succeeded += ro_alloc_count() < nth;
    }
    CHECK(succeeded == 3);
    ro_alloc_fail_at(0, 0);
    server_stop(server);
}
#endif

int
main(void)
{
    signal(SIGPIPE, SIG_IGN);     /* the test's own server */
    ro_net *first = ro_net_new(); /* what libcurl opens once */
    CHECK(ro_net_shut_down(first, 2000));
    ro_net_free(first);
    size_t fds = open_descriptors();
    size_t threads = entries("/proc/self/task");

    test_plain();
    test_refused();
    test_heads();
    test_header_bounds();
    test_codings();
    test_sent_once();
    test_pause();
    test_drain();
    test_drain_bounds();
    test_timeouts();
    test_cancel();
    test_stuck_resolver();
    test_run();
    test_shut_down();
    test_fork();
    test_no_signals();
#ifdef RO_TEST_ALLOC
    test_memory();
#endif
    CHECK(open_descriptors() == fds);
    CHECK(has_no_more_threads(threads));
    return check_end();
}
