/* What a socket tells about a connection: quiet, ended, how much came. */
#include "check.h"
#include "local_server.h"

#include "net/sockets.h"

struct pair {
    int listener;
    int near; /* looked at */
    int far;
};

static int
port_of(int fd)
{
    struct sockaddr_in name;
    socklen_t len = sizeof(name);
    CHECK(getsockname(fd, (struct sockaddr *)&name, &len) == 0);
    return ntohs(name.sin_port);
}

/* A port that was bound is nobody else's, whereas one that connect has chosen
 * may be the port of another program's connection too, and not free to bind.
 * 0: any port. */
static struct pair
pair_from(int local_port)
{
    struct sockaddr_in here = {.sin_family = AF_INET};
    socklen_t len = sizeof(here);
    struct pair pair = {.listener = socket(AF_INET, SOCK_STREAM, 0)};
    int one = 1;

    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK(bind(pair.listener, (struct sockaddr *)&here, len) == 0);
    CHECK(listen(pair.listener, 1) == 0);
    pair.near = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(pair.near, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    here.sin_port = htons((uint16_t)local_port);
    CHECK(bind(pair.near, (struct sockaddr *)&here, len) == 0);
    CHECK(getsockname(pair.listener, (struct sockaddr *)&here, &len) == 0);
    CHECK(connect(pair.near, (struct sockaddr *)&here, len) == 0);
    pair.far = accept(pair.listener, NULL, NULL);
    CHECK(pair.far >= 0);
    return pair;
}

static void
pair_end(struct pair *pair)
{
    close(pair->near);
    close(pair->far);
    close(pair->listener);
}

/* Loopback delivers before send, shutdown and close return; the loop is for
 * a kernel that does not. */
static bool
becomes_readable(int fd)
{
    struct pollfd state = {.fd = fd, .events = POLLIN};
    return poll(&state, 1, 5000) == 1;
}

static void
end(int fd, bool reset)
{
    struct linger at_once = {1, 0};
    if (reset) {
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    }
    close(fd);
}

static void
test_quiet(void)
{
    struct pair pair = pair_from(0);
    char byte;

    CHECK(ro_socket_is_quiet(pair.near) && !ro_socket_is_ended(pair.near));
    CHECK(ro_socket_peek(pair.near, true) == RO_ARRIVAL_NOTHING);
    server_say(pair.far, "x");
    CHECK(becomes_readable(pair.near));
    CHECK(!ro_socket_is_quiet(pair.near) && !ro_socket_is_ended(pair.near));
    CHECK(recv(pair.near, &byte, 1, 0) == 1);
    CHECK(ro_socket_is_quiet(pair.near));
    shutdown(pair.far, SHUT_WR);
    CHECK(becomes_readable(pair.near));
    CHECK(!ro_socket_is_quiet(pair.near) && ro_socket_is_ended(pair.near));
    pair_end(&pair);
}

#define BYTES(text) text, sizeof(text) - 1
#define TEN "aaaaaaaaaa"

/* What comes behind a request, then the end; and what that was. */
static const struct {
    const char *bytes;
    size_t len;
    ro_arrival plain;
    ro_arrival tls;  /* peeked at */
    ro_arrival late; /* by the kernel's counts alone */
} arrivals[] = {
    {BYTES(""), RO_ARRIVAL_END, RO_ARRIVAL_END, RO_ARRIVAL_END},
    {BYTES("H"), RO_ARRIVAL_BYTES, RO_ARRIVAL_BYTES, RO_ARRIVAL_BYTES},
    {BYTES("HTTP/1.1 200 OK\r\n\r\n"), RO_ARRIVAL_BYTES, RO_ARRIVAL_BYTES,
     RO_ARRIVAL_BYTES},
    /* TLS 1.2: an alert in the clear, with GCM, with ChaCha20 */
    {BYTES("\x15\x03\x03\x00\x02\x01\x00"), RO_ARRIVAL_BYTES, RO_ARRIVAL_END,
     RO_ARRIVAL_BYTES},
    {BYTES("\x15\x03\x03\x00\x1a" TEN TEN "aaaaaa"), RO_ARRIVAL_BYTES,
     RO_ARRIVAL_END, RO_ARRIVAL_END},
    {BYTES("\x15\x03\x03\x00\x12" TEN "aaaaaaaa"), RO_ARRIVAL_BYTES,
     RO_ARRIVAL_END, RO_ARRIVAL_BYTES},
    /* TLS 1.3: an alert; one byte of data; the alert and more */
    {BYTES("\x17\x03\x03\x00\x13" TEN "aaaaaaaaa"), RO_ARRIVAL_BYTES,
     RO_ARRIVAL_END, RO_ARRIVAL_END},
    {BYTES("\x17\x03\x03\x00\x12" TEN "aaaaaaaa"), RO_ARRIVAL_BYTES,
     RO_ARRIVAL_BYTES, RO_ARRIVAL_BYTES},
    {BYTES("\x17\x03\x03\x00\x13" TEN "aaaaaaaaa\x17\x03\x03"),
     RO_ARRIVAL_BYTES, RO_ARRIVAL_BYTES, RO_ARRIVAL_BYTES},
    {BYTES("\x15\x03\x03"), RO_ARRIVAL_BYTES, RO_ARRIVAL_BYTES,
     RO_ARRIVAL_BYTES},
};

static void
test_arrivals(void)
{
    char room[64];

    for (size_t i = 0; i < sizeof(arrivals) / sizeof(arrivals[0]); i++) {
        for (int reset = 0; reset < 2; reset++) {
            struct pair pair = pair_from(0);
            server_say(pair.far, "the first answer");
            CHECK(becomes_readable(pair.near));
            CHECK(recv(pair.near, room, sizeof(room), 0) == 16);
            ro_socket_count before = ro_socket_counted(pair.near);
            CHECK(before.segments == 1 && before.bytes == 16);
            server_say_bytes(pair.far, arrivals[i].bytes, arrivals[i].len);
            if (arrivals[i].len > 0) {
                CHECK(becomes_readable(pair.near));
                CHECK(ro_socket_peek(pair.near, false) == arrivals[i].plain);
                CHECK(ro_socket_peek(pair.near, true) == arrivals[i].tls);
                CHECK(recv(pair.near, room, sizeof(room), 0)
                      == (ssize_t)arrivals[i].len);
            }
            end(pair.far, reset == 1);
            CHECK(becomes_readable(pair.near));
            CHECK(ro_socket_peek(pair.near, true) == RO_ARRIVAL_END);
            CHECK(ro_socket_since(pair.near, before, true)
                  == arrivals[i].late);
            CHECK(ro_socket_since(pair.near, before, false)
                  == arrivals[i].plain);
            /* a kernel that does not count has nothing to say */
            CHECK(ro_socket_since(pair.near, (ro_socket_count){0}, true)
                  == RO_ARRIVAL_BYTES);
            pair.far = -1;
            pair_end(&pair);
        }
    }
}

static void
test_table(void)
{
    ro_sockets sockets = {0};
    struct pair pairs[20];

    CHECK(ro_sockets_find(&sockets, 1) == NULL);
    for (uint64_t i = 0; i < 20; i++) {
        pairs[i] = pair_from(0);
        CHECK(ro_sockets_add(&sockets, pairs[i].near, i, "there"));
    }
    for (uint64_t i = 0; i < 20; i++) {
        const ro_socket *found
            = ro_sockets_find(&sockets, port_of(pairs[i].near));
        CHECK(found != NULL && found->fd == pairs[i].near && found->opener == i
              && !found->used && strcmp(found->destination, "there") == 0);
        CHECK(found == ro_sockets_of(&sockets, pairs[i].near));
    }
    /* the same number again: the old entry is gone */
    CHECK(ro_sockets_add(&sockets, pairs[3].near, 77, "elsewhere"));
    CHECK(sockets.count == 20);
    CHECK(ro_sockets_of(&sockets, pairs[3].near)->opener == 77);
    ro_sockets_drop(&sockets, pairs[3].near);
    ro_sockets_drop(&sockets, pairs[3].near);
    CHECK(sockets.count == 19);
    CHECK(ro_sockets_find(&sockets, port_of(pairs[3].near)) == NULL);
    CHECK(ro_sockets_of(&sockets, pairs[3].near) == NULL);
    /* one local port, two connections: neither is named */
    int port = port_of(pairs[5].near);
    pair_end(&pairs[3]);
    pairs[3] = pair_from(port);
    CHECK(ro_sockets_add(&sockets, pairs[3].near, 78, "there"));
    CHECK(ro_sockets_find(&sockets, port) == NULL);
    CHECK(ro_sockets_find(&sockets, port_of(pairs[6].near)) != NULL);
    ro_sockets_free(&sockets);
    ro_sockets_free(&sockets);
    for (size_t i = 0; i < 20; i++) {
        pair_end(&pairs[i]);
    }
}

int
main(void)
{
    test_quiet();
    test_arrivals();
    test_table();
    return check_end();
}
