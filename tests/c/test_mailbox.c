/* Transfers as an event loop sees them. */
#include "check.h"
#include "local_server.h"

#include <signal.h>
#include <time.h>

#include "core/alloc.h"
#include "core/limits.h"
#include "net/mailbox.h"

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
submit(ro_mailbox *mailbox, const struct server *server, const char *path,
       ro_download **download)
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
    return ro_mailbox_submit(mailbox, &request, download);
}

/* News of any download; false after three seconds. */
static bool
await_news(ro_mailbox *mailbox, uint64_t *ids, size_t max, size_t *n)
{
    struct pollfd state = {.fd = ro_mailbox_fd(mailbox), .events = POLLIN};

    *n = 0;
    if (poll(&state, 1, 3000) != 1) {
        return false;
    }
    *n = ro_mailbox_poll(mailbox, ids, max);
    return true;
}

/* Reads to the end, waiting for news whenever there is nothing. */
static ro_download_state
read_all(ro_mailbox *mailbox, ro_download *download, size_t *total,
         size_t *largest)
{
    uint64_t ids[8];
    size_t n;
    ro_net_code code;

    *total = 0;
    *largest = 0;
    for (;;) {
        char *bytes = NULL;
        size_t len = 0;
        ro_download_state state
            = ro_download_read(download, &bytes, &len, &code);
        if (state == RO_DOWNLOAD_READY) {
            *total += len;
            *largest = len > *largest ? len : *largest;
            ro_free(bytes);
        }
        else if (state != RO_DOWNLOAD_WAITS) {
            return state;
        }
        else if (!await_news(mailbox, ids, 8, &n)) {
            return RO_DOWNLOAD_WAITS;
        }
    }
}

static void
test_exchange(struct server *server)
{
    ro_net *net = ro_net_new();
    ro_mailbox *mailbox = ro_mailbox_new(net);
    ro_download *download = NULL;
    ro_head head;
    ro_net_code code = RO_NET_OK;
    size_t total;
    size_t largest;

    CHECK(ro_mailbox_poll(mailbox, &(uint64_t){0}, 1) == 0);
    CHECK(submit(mailbox, server, "/", &download) == RO_NET_OK);
    CHECK(read_all(mailbox, download, &total, &largest) == RO_DOWNLOAD_ENDED);
    CHECK(total == 2);
    CHECK(ro_download_head(download, &head, &code) == RO_DOWNLOAD_READY);
    CHECK(head.status == 207 && head.n_headers == 2);
    CHECK(ro_slice_equal(head.reason, ro_slice_str("Two")));
    CHECK(ro_slice_equal(head.headers[1].value, ro_slice_str("y")));
    ro_download_cancel(download);
    ro_download_release(download);

    CHECK(submit(mailbox, server, "/big", &download) == RO_NET_OK);
    struct timespec pause = {0, 100000000};
    nanosleep(&pause, NULL); /* the queue fills and the transfer pauses */
    CHECK(read_all(mailbox, download, &total, &largest) == RO_DOWNLOAD_ENDED);
    CHECK(total == BIG && largest <= RO_MAX_DOWNLOAD_QUEUE);
    ro_download_release(download);

    CHECK(submit(mailbox, server, "/hang", &download) == RO_NET_OK);
    ro_download_cancel(download);
    CHECK(read_all(mailbox, download, &total, &largest) == RO_DOWNLOAD_FAILED);
    ro_download_release(download);
    ro_mailbox_close(mailbox);
    ro_mailbox_close(mailbox);
    CHECK(ro_net_shut_down(net, 2000));
    CHECK(submit(mailbox, server, "/", &download) == RO_NET_SHUT_DOWN);
    CHECK(download == NULL);
    ro_mailbox_release(mailbox);
    ro_mailbox_release(NULL);
    ro_download_release(NULL);
    ro_net_free(net);
}

/* Ids come once per news, and polling in small steps loses none. */
static void
test_many(struct server *server)
{
    ro_net *net = ro_net_new();
    ro_mailbox *mailbox = ro_mailbox_new(net);
    ro_download *downloads[40];
    bool done[40] = {false};
    size_t n_done = 0;
    uint64_t ids[3];
    size_t n = 0;

    for (size_t i = 0; i < 40; i++) {
        CHECK(submit(mailbox, server, "/", &downloads[i]) == RO_NET_OK);
        CHECK(ro_download_id(downloads[i]) == i + 1);
    }
    while (n_done < 40 && await_news(mailbox, ids, 3, &n)) {
        for (size_t k = 0; k < n; k++) {
            size_t i = (size_t)ids[k] - 1;
            char *bytes = NULL;
            size_t len = 0;
            ro_net_code code;
            ro_download_state state;
            while (
                (state = ro_download_read(downloads[i], &bytes, &len, &code))
                == RO_DOWNLOAD_READY) {
                ro_free(bytes);
            }
            if (state == RO_DOWNLOAD_ENDED && !done[i]) {
                done[i] = true;
                n_done++;
            }
        }
    }
    CHECK(n_done == 40);
    for (size_t i = 0; i < 40; i++) {
        ro_download_release(downloads[i]);
    }
    ro_mailbox_close(mailbox);
    ro_mailbox_release(mailbox);
    CHECK(ro_net_shut_down(net, 2000));
    ro_net_free(net);
}

/* Downloads and mailboxes may go in any order, at any time. */
static void
test_releases(struct server *server)
{
    ro_net *net = ro_net_new();
    ro_download *download = NULL;

    for (int i = 0; i < 200; i++) {
        ro_mailbox *mailbox = ro_mailbox_new(net);
        CHECK(submit(mailbox, server, i % 2 ? "/hang" : "/", &download)
              == RO_NET_OK);
        if (i % 5 != 0) {
            struct timespec pause = {0, (long)(i % 50) * 50000};
            nanosleep(&pause, NULL);
        }
        if (i % 3 == 0) {
            ro_mailbox_close(mailbox);
            ro_mailbox_release(mailbox);
            ro_download_release(download);
        }
        else {
            ro_download_release(download);
            ro_mailbox_close(mailbox);
            ro_mailbox_release(mailbox);
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
        ro_mailbox *mailbox = net != NULL ? ro_mailbox_new(net) : NULL;
        ro_download *download = NULL;
        if (mailbox != NULL
            && submit(mailbox, server, "/", &download) == RO_NET_OK) {
            size_t total;
            size_t largest;
            ro_download_state state
                = read_all(mailbox, download, &total, &largest);
            CHECK(state == RO_DOWNLOAD_ENDED || state == RO_DOWNLOAD_FAILED);
        }
        ro_download_release(download);
        if (mailbox != NULL) {
            ro_mailbox_close(mailbox);
        }
        ro_mailbox_release(mailbox);
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
