/* What libcurl is told, and what becomes of a request when it refuses. */
#include "refusing.h"

#include <signal.h>
#include <stdarg.h>

#include "core/alloc.h"
#include "net/internal.h"
#include "net/location.h"
#include "net_rig.h"

/* Every option of libcurl is one word: a number or a pointer. */
static struct refusal refuse_setopt;

#undef curl_easy_setopt
CURLcode
curl_easy_setopt(CURL *easy, CURLoption option, ...)
{
    va_list arguments;
    va_start(arguments, option);
    void *value = va_arg(arguments, void *);
    va_end(arguments);
    return refusal_hits(&refuse_setopt)
               ? CURLE_OUT_OF_MEMORY
               : REAL(curl_easy_setopt)(easy, option, value);
}

static struct refusal refuse_multi_setopt;

#undef curl_multi_setopt
CURLMcode
curl_multi_setopt(CURLM *multi, CURLMoption option, ...)
{
    va_list arguments;
    va_start(arguments, option);
    void *value = va_arg(arguments, void *);
    va_end(arguments);
    return refusal_hits(&refuse_multi_setopt)
               ? CURLM_OUT_OF_MEMORY
               : REAL(curl_multi_setopt)(multi, option, value);
}

REFUSABLE(CURL *, curl_easy_init, (void), NULL)
REFUSABLE(CURLM *, curl_multi_init, (void), NULL)
REFUSABLE(CURLMcode, curl_multi_add_handle, (CURLM * multi, CURL *easy),
          (CURLMcode)errno, multi, easy)
REFUSABLE(CURLcode, curl_global_init, (long flags), CURLE_FAILED_INIT, flags)
REFUSABLE(CURLU *, curl_url, (void), NULL)
REFUSABLE(CURLUcode, curl_url_set,
          (CURLU * url, CURLUPart part, const char *text, unsigned flags),
          CURLUE_OUT_OF_MEMORY, url, part, text, flags)
REFUSABLE(CURLUcode, curl_url_get,
          (CURLU * url, CURLUPart part, char **text, unsigned flags),
          CURLUE_OUT_OF_MEMORY, url, part, text, flags)
REFUSABLE(int, eventfd, (unsigned count, int flags), -1, count, flags)
REFUSABLE(int, socket, (int domain, int type, int protocol), -1, domain, type,
          protocol)
REFUSABLE(int, pthread_create,
          (pthread_t * thread, const pthread_attr_t *attributes,
           void *(*run)(void *), void *ctx),
          errno, thread, attributes, run, ctx)

/* A libcurl of another release, or made without what ours has. */
static curl_version_info_data other_libcurl;

#undef curl_version_info
curl_version_info_data *
curl_version_info(CURLversion now)
{
    return other_libcurl.version_num != 0 ? &other_libcurl
                                          : REAL(curl_version_info)(now);
}

/* ---- URLs ---- */

static void
test_urls(void)
{
    static const struct {
        const char *url;
        const char *base; /* NULL: it cannot be used */
    } urls[] = {
        {"http://h/", "http://h:80"},
        {"https://h", "https://h:443"},
        {"HTTP://H:8080/a?b#c", "http://H:8080"},
        {"http://[::1]:9/", "http://[::1]:9"},
        {"http://h/~!$&'()*+,;=:@%20", "http://h:80"},
        {"", NULL},
        {"h", NULL},
        {"http://", NULL},
        {"http://h:0/", NULL},
        {"http://h:65536/", NULL},
        {"http://h /", NULL},
        {"http://h/\x7f", NULL},
        {"http://h/\x1f", NULL},
        {"http://h/\xc3\xa9", NULL},
        {"ftp://h/", NULL},
        {"http://u@h/", NULL},
        {"http://:p@h/", NULL},
        {"http://u%zz@h/", NULL},
        {"http://u%00@h/", NULL},
    };
    char *base = NULL;

    for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++) {
        ro_net_code code = ro_net_check_url(urls[i].url, &base);
        CHECK(code == (urls[i].base == NULL ? RO_NET_BAD_URL : RO_NET_OK));
        CHECK((base == NULL) == (urls[i].base == NULL));
        CHECK(base == NULL || strcmp(base, urls[i].base) == 0);
        ro_free(base);
    }
    char url[RO_MAX_URL + 2] = "http://h/";
    memset(url + 9, 'a', sizeof(url) - 10);
    CHECK(ro_net_check_url(url, &base) == RO_NET_BAD_URL);
    url[RO_MAX_URL] = '\0';
    CHECK(ro_net_check_url(url, &base) == RO_NET_OK);
    ro_free(base);
}

static void
test_proxies(void)
{
    static const struct {
        const char *proxy;
        ro_net_code code;
    } proxies[] = {
        {"", RO_NET_OK},
        {"http://h", RO_NET_OK},
        {"https://h:1/", RO_NET_OK},
        {"http://user:pass%20word@h:1", RO_NET_OK},
        {"socks5://h:1", RO_NET_BAD_PROXY},
        {"h:1", RO_NET_BAD_PROXY},
        {"http://h:0", RO_NET_BAD_PROXY},
        {"http://u%0a@h:1", RO_NET_BAD_PROXY},
        {"http://u:p%0d@h:1", RO_NET_BAD_PROXY},
    };

    for (size_t i = 0; i < sizeof(proxies) / sizeof(proxies[0]); i++) {
        CHECK(ro_net_check_proxy(proxies[i].proxy) == proxies[i].code);
    }
}

/* Out of memory is never taken for a bad URL. */
static void
test_a_url_without_memory(void)
{
    struct refusal *refusals[]
        = {&refuse_curl_url, &refuse_curl_url_set, &refuse_curl_url_get};
    static const unsigned calls[] = {1, 1, 5};
    char *base = NULL;

    for (size_t i = 0; i < 3; i++) {
        for (unsigned nth = 1; nth <= calls[i]; nth++) {
            refuse(refusals[i], nth, 0);
            CHECK(ro_net_check_url("http://h/", &base) == RO_NET_NO_MEMORY);
            CHECK(base == NULL);
            refuse(refusals[i], nth, 0);
            CHECK(ro_net_check_proxy("http://h/") == RO_NET_NO_MEMORY);
        }
        refuse(refusals[i], calls[i] + 1, 0);
        CHECK(ro_net_check_url("http://h/", &base) == RO_NET_OK);
        refuse_none(refusals[i]);
        ro_free(base);
    }
}

/* Of a URL that a peer names nothing comes then, and nothing stays. */
static void
test_a_location_without_memory(void)
{
    static const char base[] = "http://h:1/a/b";
    struct refusal *refusals[]
        = {&refuse_curl_url, &refuse_curl_url_set, &refuse_curl_url_get};
    static const unsigned calls[] = {2, 4, 7};

    for (size_t i = 0; i < 3; i++) {
        for (unsigned nth = 1; nth <= calls[i] + 1; nth++) {
            refuse(refusals[i], nth, 0);
            char *url = ro_location_resolve(base, ro_slice_str("c#d"));
            refuse_none(refusals[i]);
            CHECK((url != NULL) == (nth > calls[i]));
            CHECK(url == NULL || strcmp(url, "http://h:1/a/c") == 0);
            ro_free(url);
        }
    }
    /* a text with a NUL in it is no URL, nor is a base that is none */
    CHECK(ro_location_resolve(base, ro_slice_of("c\0d", 3)) == NULL);
    CHECK(ro_location_resolve("", ro_slice_str("c")) == NULL);
    CHECK(ro_alloc_live() == 0);
}

/* ---- proxies ---- */

static void
serve_small(struct server *server, int fd, unsigned nth)
{
    (void)nth;
    while (server_read(server, fd)) {
        server_say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    }
}

static void
test_user_and_password_of_a_proxy(void)
{
    static const struct {
        const char *user;
        const char *sent; /* base64 of what is decoded */
    } users[] = {
        {"", NULL},
        {"user:pass@", "dXNlcjpwYXNz"},
        {"us%65r:p%3Aw%40@", "dXNlcjpwOndA"},
        {"user@", "dXNlcjo="},
        {":pass@", "OnBhc3M="},
    };
    struct server *server = server_start(serve_small);
    ro_net *net = ro_net_new();

    for (size_t i = 0; i < sizeof(users) / sizeof(users[0]); i++) {
        char proxy[128];
        char line[128];
        struct answer answer;
        ro_request request = request_of("GET", "http://example.test/x", NULL);
        (void)snprintf(proxy, sizeof(proxy), "http://%s127.0.0.1:%d",
                       users[i].user, server->port);
        request.proxy = proxy;
        answer_reset(&answer);
        CHECK(fetch_with(net, &request, &answer) == RO_NET_OK);
        CHECK(answer.status == 200);
        CHECK(server_saw(server, "GET http://example.test/x HTTP/1.1\r\n"
                                 "Host: example.test\r\n"));
        (void)snprintf(line, sizeof(line),
                       "\r\nProxy-Authorization: Basic %s\r\n",
                       users[i].sent == NULL ? "" : users[i].sent);
        CHECK(server_saw(server, "Proxy-Authorization")
              == (users[i].sent != NULL));
        CHECK(server_saw(server, line) == (users[i].sent != NULL));
    }
    net_end(net);
    server_stop(server);
}

static atomic_bool endless;

static void
serve_connect(struct server *server, int fd, unsigned nth)
{
    (void)nth;
    if (!server_read(server, fd)) {
        return;
    }
    if (!atomic_load(&endless)) {
        server_say(fd, "HTTP/1.1 407 No\r\nContent-Length: 0\r\n\r\n");
        return;
    }
    server_say(fd, "HTTP/1.1 200 OK\r\n");
    while (!server_peer_closes(fd, 0)) {
        server_say(fd, "X-Long: 0123456789012345678901234567890123456789\r\n");
    }
}

/* The answer to CONNECT is the proxy's: its status is none of the server's,
 * and its headers count as well. */
static void
test_a_tunnel_that_is_refused(void)
{
    struct server *server = server_start(serve_connect);
    ro_net *net = ro_net_new();
    struct answer answer;
    char proxy[128];

    (void)snprintf(proxy, sizeof(proxy), "http://127.0.0.1:%d", server->port);
    for (int i = 0; i < 2; i++) {
        ro_request request
            = request_of("POST", "https://example.test/x", "body");
        request.proxy = proxy;
        request.cafile = "/dev/null";
        request.max_headers = 4096; /* libcurl reads them byte by byte */
        atomic_store(&endless, i == 1);
        answer_reset(&answer);
        CHECK(fetch_with(net, &request, &answer)
              == (i == 0 ? RO_NET_PROXY : RO_NET_HEADERS_TOO_LARGE));
        CHECK(!answer.has_head && answer.n_done == 1);
        CHECK(server_saw(server, "CONNECT example.test:443 HTTP/1.1\r\n"));
        CHECK(!server_saw(server, "body"));
    }
    net_end(net);
    server_stop(server);
}

/* ---- a libcurl that refuses ---- */

static ro_net_code
send_one(ro_net *net, struct server *server, ro_request *request)
{
    char url[128];
    struct answer answer;
    request->url = url_of(server, url, "/x");
    answer_reset(&answer);
    ro_net_code code = fetch_with(net, request, &answer);
    CHECK(answer.n_done <= 1 && answer.has_head == (answer.status == 200));
    return code;
}

/* Each option in turn. Every one of them is a promise, so that a request with
 * one of them missing does not go out. */
static void
test_each_option_is_refused(void)
{
    struct server *server = server_start(serve_small);
    ro_net *net = ro_net_new();
    ro_request requests[] = {
        request_of("GET", "", NULL),  request_of("HEAD", "", NULL),
        request_of("POST", "", "{}"), request_of("POST", "", NULL),
        request_of("GET", "", NULL),
    };
    char proxy[128];
    unsigned sent = 0;

    (void)snprintf(proxy, sizeof(proxy), "http://user:pass@127.0.0.1:%d",
                   server->port);
    requests[3].opens = true;
    requests[4].proxy = proxy;
    for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
        ro_net_code code = RO_NET_NO_MEMORY;
        unsigned nth = 0;
        while (code != RO_NET_OK && nth < 100) {
            CHECK(code == RO_NET_NO_MEMORY);
            CHECK(atomic_load(&server->n_requests) == sent);
            refuse(&refuse_setopt, ++nth, 0);
            code = send_one(net, server, &requests[i]);
        }
        CHECK(code == RO_NET_OK && nth > 40);
        refuse_none(&refuse_setopt);
        sent += !requests[i].opens;
        CHECK(atomic_load(&server->n_requests) == sent);
    }
    net_end(net);
    server_stop(server);
}

static void
test_a_request_without_memory(void)
{
    static const struct {
        struct refusal *refusal;
        unsigned nth;
        int error;
        ro_net_code code;
    } cases[] = {
        {&refuse_curl_easy_init, 1, 0, RO_NET_NO_MEMORY},
        {&refuse_curl_multi_add_handle, 1, CURLM_OUT_OF_MEMORY,
         RO_NET_NO_MEMORY},
        {&refuse_curl_multi_add_handle, 1, CURLM_INTERNAL_ERROR,
         RO_NET_INTERNAL},
        {&refuse_curl_url, 1, 0, RO_NET_NO_MEMORY},
        /* at its submission one for the URL, one for the proxy; the third is
         * the worker's, for the proxy again */
        {&refuse_curl_url, 3, 0, RO_NET_NO_MEMORY},
        {&refuse_socket, 1, EMFILE, RO_NET_CONNECT},
    };
    struct server *server = server_start(serve_small);
    ro_net *net = ro_net_new();
    ro_request request = request_of("GET", "", NULL);
    char proxy[128];

    (void)snprintf(proxy, sizeof(proxy), "http://127.0.0.1:%d", server->port);
    request.proxy = proxy;
    request.fresh = true;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        refuse(cases[i].refusal, cases[i].nth, cases[i].error);
        CHECK(send_one(net, server, &request) == cases[i].code);
        refuse_none(cases[i].refusal);
        CHECK(atomic_load(&server->n_requests) == i);
        CHECK(send_one(net, server, &request) == RO_NET_OK);
    }
    net_end(net);
    server_stop(server);
}

static void
test_a_worker_that_cannot_be_made(void)
{
    struct refusal *refusals[]
        = {&refuse_curl_global_init, &refuse_curl_multi_init,
           &refuse_multi_setopt, &refuse_eventfd, &refuse_pthread_create};
    size_t live = ro_alloc_live();

    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        refuse(refusals[i], 1, EAGAIN);
        CHECK(ro_net_new() == NULL);
        refuse_none(refusals[i]);
        CHECK(ro_alloc_live() == live);
        ro_net *net = ro_net_new();
        CHECK(net != NULL);
        net_end(net);
    }
}

/* ---- the library ---- */

static void
test_the_library(void)
{
    CHECK(ro_net_library() != NULL);
    CHECK(strncmp(ro_net_library(), "libcurl/", 8) == 0);
    refuse(&refuse_curl_global_init, 1, 0);
    CHECK(ro_net_library() == NULL);
    refuse_none(&refuse_curl_global_init);
}

/* Where connections cannot be opened early, asking for one is refused before
 * anything is done. */
static void
test_what_another_libcurl_opens(void)
{
    struct server *server = server_start(serve_small);
    ro_net *net = ro_net_new();
    ro_request request = request_of("POST", "", NULL);

    request.opens = true;
    other_libcurl.version_num = 0x080000;
    CHECK(!ro_open_is_possible());
    CHECK(send_one(net, server, &request) == RO_NET_INTERNAL);
    CHECK(connections(net) == 0);
    request.opens = false;
    CHECK(send_one(net, server, &request) == RO_NET_OK);
    other_libcurl.version_num = 0x07ffff;
    CHECK(ro_open_is_possible());
    other_libcurl.version_num = 0;
    net_end(net);
    server_stop(server);
}

/* A coding that this libcurl cannot undo is as if it were not offered. */
static void
test_codings_of_another_libcurl(void)
{
    static const struct {
        int features;
        const char *coding;
        ro_net_code code;
    } cases[] = {
        {CURL_VERSION_LIBZ, "gzip", RO_NET_OK},
        {CURL_VERSION_LIBZ, "deflate", RO_NET_OK},
        {CURL_VERSION_LIBZ, "br", RO_NET_ENCODING},
        {CURL_VERSION_LIBZ, "zstd", RO_NET_ENCODING},
        {CURL_VERSION_BROTLI, "br", RO_NET_OK},
        {CURL_VERSION_BROTLI, "gzip", RO_NET_ENCODING},
        {CURL_VERSION_ZSTD, "zstd", RO_NET_OK},
        {0, "gzip", RO_NET_ENCODING},
        {0, "identity", RO_NET_OK},
        {CURL_VERSION_LIBZ, "gzip, , identity", RO_NET_OK},
        {CURL_VERSION_LIBZ, "gzip, br", RO_NET_ENCODING},
        {CURL_VERSION_LIBZ, "*", RO_NET_ENCODING},
        {CURL_VERSION_LIBZ, "rot13", RO_NET_ENCODING},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ro_header field = {ro_slice_str("Content-Encoding"),
                           ro_slice_str(cases[i].coding)};
        ro_head_reader head = {.fields = &field, .n_fields = 1};
        other_libcurl.version_num = 1;
        other_libcurl.features = cases[i].features;
        CHECK(ro_head_check(&head, RO_CODING_ANY, false) == cases[i].code);
        /* whoever takes the bytes as they come undoes them */
        CHECK(ro_head_check(&head, RO_CODING_ANY, true) == RO_NET_OK);
    }
    other_libcurl.version_num = 0;
}

/* Keys of TLS are written to no file, whatever the environment says, and the
 * environment stays as it was. */
static void
test_the_key_log(void)
{
    char name[] = "/tmp/ro-key-log-XXXXXX";
    int fd = mkstemp(name);
    CHECK(fd >= 0 && close(fd) == 0 && unlink(name) == 0);
    CHECK(setenv("SSLKEYLOGFILE", name, 1) == 0);
    const char *before = getenv("SSLKEYLOGFILE");
    ro_net *net = ro_net_new();
    CHECK(net != NULL);
    CHECK(access(name, F_OK) != 0);
    CHECK(getenv("SSLKEYLOGFILE") == before && strcmp(before, name) == 0);
    net_end(net);
    (void)unsetenv("SSLKEYLOGFILE");
}

int
main(void)
{
    signal(SIGPIPE, SIG_IGN); /* the test's own server */
    test_the_key_log();       /* first: libcurl is set up once */
    test_urls();
    test_proxies();
    test_a_url_without_memory();
    test_a_location_without_memory();
    test_user_and_password_of_a_proxy();
    test_a_tunnel_that_is_refused();
    test_each_option_is_refused();
    test_a_request_without_memory();
    test_a_worker_that_cannot_be_made();
    test_the_library();
    test_what_another_libcurl_opens();
    test_codings_of_another_libcurl();
    CHECK(ro_alloc_live() == 0);
    return check_end();
}
