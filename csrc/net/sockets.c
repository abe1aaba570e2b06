#include "net/sockets.h"

#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "core/alloc.h"

/* ---- the table ---- */

ro_socket *
ro_sockets_add(ro_sockets *sockets, int fd, uint64_t opener,
               const char *destination)
{
    ro_sockets_drop(sockets, fd); /* an earlier one, closed by others */
    char *copy = ro_memdup(destination, strlen(destination));
    if (copy == NULL) {
        return NULL;
    }
    if (sockets->count == sockets->cap) {
        size_t cap = sockets->cap == 0 ? 8 : sockets->cap * 2;
        ro_socket *items = ro_realloc(sockets->items, cap * sizeof(*items));
        if (items == NULL) {
            ro_free(copy);
            return NULL;
        }
        sockets->items = items;
        sockets->cap = cap;
    }
    ro_socket *added = &sockets->items[sockets->count++];
    *added = (ro_socket){.fd = fd, .opener = opener, .destination = copy};
    return added;
}

void
ro_sockets_drop(ro_sockets *sockets, int fd)
{
    for (size_t i = 0; i < sockets->count; i++) {
        if (sockets->items[i].fd == fd) {
            ro_free(sockets->items[i].destination);
            sockets->items[i] = sockets->items[--sockets->count];
            return;
        }
    }
}

const ro_socket *
ro_sockets_of(const ro_sockets *sockets, int fd)
{
    for (size_t i = 0; i < sockets->count; i++) {
        if (sockets->items[i].fd == fd) {
            return &sockets->items[i];
        }
    }
    return NULL;
}

static int
local_port_of(int fd)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } name = {.v6 = {0}}; /* the largest: no byte is left unset */
    socklen_t len = sizeof(name);

    if (getsockname(fd, &name.any, &len) != 0) {
        return -1;
    }
    return ntohs(name.any.sa_family == AF_INET6 ? name.v6.sin6_port
                                                : name.v4.sin_port);
}

ro_socket *
ro_sockets_find(const ro_sockets *sockets, int local_port)
{
    ro_socket *found = NULL;

    for (size_t i = 0; i < sockets->count; i++) {
        if (local_port_of(sockets->items[i].fd) != local_port) {
            continue;
        }
        if (found != NULL) {
            return NULL;
        }
        found = &sockets->items[i];
    }
    return found;
}

void
ro_sockets_free(ro_sockets *sockets)
{
    while (sockets->count > 0) {
        ro_sockets_drop(sockets, sockets->items[0].fd);
    }
    ro_free(sockets->items);
    memset(sockets, 0, sizeof(*sockets));
}

/* ---- one socket ---- */

static bool
shows(int fd, short events)
{
    struct pollfd state = {.fd = fd, .events = events};
    return poll(&state, 1, 0) != 0;
}

bool
ro_socket_is_quiet(int fd)
{
    return !shows(fd, POLLIN | POLLRDHUP);
}

bool
ro_socket_is_ended(int fd)
{
    return shows(fd, POLLRDHUP);
}

/* bytes: a TLS record's header */
#define RECORD_HEADER 5u
/* A TLS 1.3 record hides its type; an alert's has this length: two bytes, the
 * type, the tag. An answer's first record of that length would have two. */
#define ALERT_LENGTH 19u
enum { TLS_ALERT = 21, TLS_DATA = 23 };

/* Whether the bytes are one alert and nothing more. */
static bool
is_alert(const unsigned char *bytes, size_t len)
{
    if (len < RECORD_HEADER) {
        return false;
    }
    size_t length = (size_t)bytes[3] << 8 | bytes[4];
    return len == RECORD_HEADER + length
           && (bytes[0] == TLS_ALERT
               || (bytes[0] == TLS_DATA && length == ALERT_LENGTH));
}

ro_arrival
ro_socket_peek(int fd, bool tls)
{
    /* one byte more than the longest alert, that of TLS 1.2 with CBC */
    unsigned char bytes[5 + 16 + 64 + 1];
    ssize_t len = recv(fd, bytes, sizeof(bytes), MSG_PEEK | MSG_DONTWAIT);

    /* Not known yet is not the end: the next look decides. */
    if (len < 0 && (errno == EAGAIN || errno == EINTR)) {
        return RO_ARRIVAL_NOTHING;
    }
    if (len <= 0) {
        return RO_ARRIVAL_END;
    }
    return tls && is_alert(bytes, (size_t)len) ? RO_ARRIVAL_END
                                               : RO_ARRIVAL_BYTES;
}

/* The kernel's number for it; netinet/tcp.h, which names it, knows no counts
 * of segments. */
enum { CLOSE_WAIT = 8 };

ro_socket_count
ro_socket_counted(int fd)
{
    ro_socket_count count = {0};
    struct tcp_info info;
    socklen_t len = sizeof(info);

    memset(&info, 0, sizeof(info));
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) == 0
        && len >= offsetof(struct tcp_info, tcpi_data_segs_in)
                      + sizeof(info.tcpi_data_segs_in)) {
        count.segments = info.tcpi_data_segs_in;
        count.bytes = info.tcpi_bytes_received;
        count.ended = info.tcpi_state == CLOSE_WAIT;
    }
    return count;
}

/* The kernel counts the end of the stream as one byte. After a reset it is not
 * known whether an orderly end came too, so either count of bytes passes for
 * an alert. Everything else is taken for an answer. */
ro_arrival
ro_socket_since(int fd, ro_socket_count before, bool tls)
{
    /* bytes: the records of an alert in TLS 1.3, and in TLS 1.2 with GCM */
    static const uint64_t alerts[] = {24, 31};
    ro_socket_count now = ro_socket_counted(fd);

    /* A kernel without counts, or a socket that is closed: in doubt there was
     * an answer, and nothing is sent again. */
    if (before.segments == 0 || now.segments == 0) {
        return RO_ARRIVAL_BYTES;
    }
    if (now.segments == before.segments) {
        return RO_ARRIVAL_END;
    }
    uint64_t came = now.bytes - before.bytes;
    for (size_t i = 0; tls && i < sizeof(alerts) / sizeof(alerts[0]); i++) {
        if (came == alerts[i] + 1 || (came == alerts[i] && !now.ended)) {
            return RO_ARRIVAL_END;
        }
    }
    return RO_ARRIVAL_BYTES;
}
