/* On which connection a request goes out, and whether it goes out again.
 *
 * One rule: what may have reached the server is sent once more only if its
 * caller allows that, its connection was a kept one, and that ended before a
 * byte of the answer. What was not sent goes to another connection.
 */
#include "net/internal.h"

#include <sys/socket.h>
#include <unistd.h>

/* ---- sockets ---- */

/* Children must not inherit it, which libcurl does not see to. A request that
 * was sent gets no further connection in the same attempt. */
curl_socket_t
ro_attempt_on_socket(void *ctx, curlsocktype purpose,
                     struct curl_sockaddr *address)
{
    ro_attempt *attempt = ctx;

    if (purpose != CURLSOCKTYPE_IPCXN || attempt->sends > 0) {
        attempt->code = RO_NET_REPLAY;
        return CURL_SOCKET_BAD;
    }
    int fd = socket(address->family, address->socktype | SOCK_CLOEXEC,
                    address->protocol);
    if (fd < 0) {
        return CURL_SOCKET_BAD;
    }
    ro_socket *added
        = ro_sockets_add(&attempt->net->sockets, fd, attempt->serial,
                         attempt->transfer->destination);
    if (added == NULL) {
        close(fd);
        attempt->code = RO_NET_NO_MEMORY;
        return CURL_SOCKET_BAD;
    }
    added->early = attempt->transfer->opens;
    return fd;
}

static bool
uses_tls(const ro_transfer *transfer)
{
    return strncmp(transfer->destination, "https:", 6) == 0
           || strncmp(transfer->proxy, "https:", 6) == 0;
}

static void
remember_closing(ro_net *net, const char *key)
{
    ro_destination *destination = ro_destination_of(&net->destinations, key);

    if (destination != NULL) {
        destination->closes = true;
    }
}

static bool
is_unanswered(const ro_attempt *attempt)
{
    return attempt->kept && attempt->fd >= 0
           && attempt->arrival == RO_ARRIVAL_NOTHING;
}

static void
count(ro_attempt *attempt)
{
    if (is_unanswered(attempt)) {
        attempt->arrival = ro_socket_since(attempt->fd, attempt->before,
                                           uses_tls(attempt->transfer));
    }
}

void
ro_attempt_count_ended(ro_attempt *attempt)
{
    if (is_unanswered(attempt) && ro_socket_is_ended(attempt->fd)) {
        count(attempt);
    }
}

/* Called for idle connections, too, which libcurl itself has found closed. */
int
ro_attempt_on_close(void *ctx, curl_socket_t fd)
{
    ro_net *net = ctx;
    const ro_socket *found = ro_sockets_of(&net->sockets, fd);
    bool idle = true;

    for (ro_attempt *attempt = net->attempts; attempt != NULL;
         attempt = attempt->next) {
        if (attempt->fd != fd) {
            continue;
        }
        idle = false;
        count(attempt);
        attempt->fd = -1;
    }
    /* Nobody used it and its peer has ended it: a destination that closes what
     * it could have kept. One that was never used was no offer. */
    if (idle && found != NULL && found->used && ro_socket_is_ended(fd)) {
        remember_closing(net, found->destination);
    }
    ro_sockets_drop(&net->sockets, fd);
    return close(fd);
}

/* libcurl reads what came and tells of whole header lines only, so the worker
 * looks at the sockets first. Only the kernel's counts know of what comes and
 * ends between this look and the reading. */
void
ro_attempts_peek(ro_net *net)
{
    for (ro_attempt *attempt = net->attempts; attempt != NULL;
         attempt = attempt->next) {
        if (is_unanswered(attempt)) {
            attempt->arrival
                = ro_socket_peek(attempt->fd, uses_tls(attempt->transfer));
        }
    }
}

/* ---- before the request ---- */

static int
refuse(ro_attempt *attempt, ro_net_code code)
{
    attempt->code = code;
    return CURL_PREREQFUNC_ABORT;
}

/* By HTTP/2 another attempt's answer is on its way: then bytes mean nothing.
 */
static bool
is_shared(const ro_attempt *attempt, int fd)
{
    for (const ro_attempt *other = attempt->net->attempts; other != NULL;
         other = other->next) {
        if (attempt->transfer->http2 && other != attempt && other->fd == fd) {
            return true;
        }
    }
    return false;
}

/* On one that was opened early TLS 1.3 may have left its tickets. */
static bool
is_stale(const ro_socket *kept)
{
    return kept->early ? ro_socket_is_ended(kept->fd)
                       : !ro_socket_is_quiet(kept->fd);
}

/* False: the connection is not to be used. */
static bool
choose(ro_attempt *attempt, int local_port)
{
    ro_net *net = attempt->net;
    ro_socket *found = ro_sockets_find(&net->sockets, local_port);

    /* Two connections have that port, so it is not known which one this is.
     * Only a transfer that was promised a new connection may go on. */
    if (found == NULL) {
        return attempt->transfer->renewed;
    }
    /* Opened for this request: it cannot have been closed while idle, and may
     * be readable all the same, since TLS 1.3 sends tickets. */
    if (found->opener == attempt->serial) {
        found->used = true;
        attempt->fd = found->fd;
        return true;
    }
    if (is_stale(found) && !is_shared(attempt, found->fd)) {
        if (found->used) {
            remember_closing(net, found->destination);
        }
        return false;
    }
    /* Counted now, so that what comes later is this request's answer. */
    found->used = true;
    found->early = false;
    attempt->kept = true;
    attempt->fd = found->fd;
    attempt->before = ro_socket_counted(found->fd);
    return true;
}

/* Called before every sending of the request, also when libcurl repeats
 * one on its own (connection found dead, stream refused): the second one
 * is refused before a byte of it is out. */
int
ro_attempt_on_prereq(void *ctx, char *ip, char *local_ip, int port,
                     int local_port)
{
    ro_attempt *attempt = ctx;
    long connects = 0;

    (void)ip;
    (void)local_ip;
    (void)port;
    if (atomic_load(&attempt->transfer->cancelled)) {
        return refuse(attempt, RO_NET_CANCELLED);
    }
    if (attempt->sends > 0) {
        return refuse(attempt, RO_NET_REPLAY);
    }
    if (!attempt->transfer->opens && !choose(attempt, local_port)) {
        attempt->unsent = true;
        return refuse(attempt, RO_NET_REPLAY);
    }
    attempt->sends += !attempt->transfer->opens;
    curl_easy_getinfo(attempt->easy, CURLINFO_NUM_CONNECTS, &connects);
    if (connects > 0) {
        atomic_fetch_add(&attempt->net->n_connections,
                         (unsigned long long)connects);
    }
    ro_attempt_touch(attempt);
    return CURL_PREREQFUNC_OK;
}

/* ---- once more ---- */

/* Whether it ended with its connection, before a byte of the answer. In HTTP/2
 * a head comes whole or not at all, the socket says nothing of one stream, and
 * a stream that GOAWAY leaves out ends in libcurl's word for broken framing.
 */
static bool
is_lost(const ro_attempt *attempt, ro_net_code code)
{
    bool ended = code == RO_NET_REPLAY || code == RO_NET_RECEIVE
                 || code == RO_NET_SEND;

    if (attempt->sends == 0 || !attempt->kept || attempt->head.total > 0) {
        return false;
    }
    if (attempt->transfer->http2) {
        return ended || code == RO_NET_PROTOCOL;
    }
    return ended && attempt->arrival == RO_ARRIVAL_END;
}

bool
ro_attempt_gets_another(const ro_attempt *attempt, ro_net_code code)
{
    ro_transfer *transfer = attempt->transfer;

    if (attempt->draining || transfer->finished
        || atomic_load(&transfer->cancelled)) {
        return false;
    }
    if (attempt->unsent && code == RO_NET_REPLAY) {
        transfer->renewed = true;
        return true;
    }
    if (!is_lost(attempt, code)) {
        return false;
    }
    remember_closing(attempt->net, transfer->destination);
    if (transfer->sending != RO_SEND_AGAIN || transfer->repeated) {
        return false;
    }
    transfer->renewed = true;
    transfer->repeated = true;
    return true;
}

bool
ro_transfer_wants_fresh(const ro_transfer *transfer)
{
    const ro_destination *destination = ro_destination_find(
        &transfer->net->destinations, transfer->destination);

    return transfer->fresh || transfer->renewed
           || (transfer->sending == RO_SEND_WARY && destination != NULL
               && destination->closes);
}
