/* A connection made ahead of its request.
 *
 * The warm flight is a real handle for the expected request, stopped in
 * libcurl's pre-request callback: connection and TLS are there, no byte of
 * the request is. The worker waits in the callback, so this is for a
 * moment in which it has nothing else to do; whatever comes ends the wait.
 */
#include "net/internal.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>

static bool
is_same(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

static bool
fits(const ro_flight *flight, const ro_transfer *transfer)
{
    const ro_transfer *expected = flight->template;

    return is_same(expected->method, transfer->method)
           && is_same(expected->url, transfer->url)
           && is_same(expected->origin, transfer->origin)
           && expected->has_body == transfer->has_body
           && expected->body_len == transfer->body_len
           && expected->http2 == transfer->http2
           && expected->raw == transfer->raw
           && !atomic_load(&transfer->cancelled);
}

/* The template's body buffer is what libcurl was given. */
static void
take(ro_flight *flight, ro_transfer *transfer)
{
    ro_transfer *expected = flight->template;

    memcpy(expected->body, transfer->body, transfer->body_len);
    flight->anchor.next = transfer->headers;
    atomic_fetch_add(&transfer->refs, 1);
    transfer->flight = flight;
    expected->flight = NULL;
    ro_transfer_release(flight->transfer);
    flight->transfer = transfer;
    flight->warm = false;
    flight->net->warm = NULL;
    if (flight->timer != NULL) {
        ro_timer_stop(flight->net, flight->timer);
        flight->timer = NULL;
    }
}

bool
ro_warm_adopt(ro_net *net, ro_transfer *transfer)
{
    if (net->warm == NULL || !fits(net->warm, transfer)) {
        return false;
    }
    take(net->warm, transfer);
    return true;
}

static void
on_held(void *ctx)
{
    ro_flight *flight = ctx;
    flight->timer = NULL;
    ro_flight_land(flight, RO_NET_CANCELLED);
}

void
ro_warm_begin(ro_net *net, ro_transfer *expected)
{
    if (net->warm != NULL
        || ro_flight_launch(net, expected, true) != RO_NET_OK) {
        return;
    }
    ro_flight *flight = expected->flight;
    atomic_fetch_add(&expected->refs, 1);
    flight->template = expected;
    flight->hold_until_ms = ro_net_now_ms() + expected->hold_ms;
    flight->timer = ro_net_after(net, expected->hold_ms, on_held, flight);
    net->warm = flight;
}

/* ---- did the peer close while we waited? ---- */

/* libcurl does not name the descriptor before the request is sent. */
static int
find_socket(const ro_flight *flight, int local_port)
{
    for (size_t i = 0; i < flight->n_socks; i++) {
        union {
            struct sockaddr any;
            struct sockaddr_in v4;
            struct sockaddr_in6 v6;
        } name;
        socklen_t len = sizeof(name);
        if (getsockname(flight->socks[i], &name.any, &len) != 0) {
            continue;
        }
        uint16_t port = name.any.sa_family == AF_INET6 ? name.v6.sin6_port
                                                       : name.v4.sin_port;
        if (ntohs(port) == local_port) {
            return flight->socks[i];
        }
    }
    return -1;
}

/* Readable is no sign: TLS 1.3 sends tickets. */
static bool
is_dead(int fd)
{
    struct pollfd state = {.fd = fd, .events = POLLRDHUP};
    return fd < 0 || poll(&state, 1, 0) != 0;
}

/* ---- the wait ---- */

static bool
is_alone(const ro_flight *flight)
{
    return flight->net->flights == flight && flight->next == NULL;
}

/* Milliseconds to wait for a command; 0 when the time is over. */
static int64_t
patience(const ro_flight *flight)
{
    int64_t now = ro_net_now_ms();
    int64_t left = flight->hold_until_ms - now;
    int64_t timer = ro_timers_wait(&flight->net->timers, now);

    if (timer >= 0 && timer < left) {
        left = timer;
    }
    return left > 0 ? left : 0;
}

/* True when a command is there. */
static bool
wait_for_command(ro_net *net, int64_t wait_ms)
{
    struct timespec until;
    int64_t at = ro_net_now_ms() + wait_ms;
    bool there;

    until.tv_sec = (time_t)(at / 1000);
    until.tv_nsec = (long)(at % 1000) * 1000000;
    pthread_mutex_lock(&net->lock);
    net->holding = true;
    while (net->first == NULL && !net->closing
           && pthread_cond_timedwait(&net->pushed, &net->lock, &until) == 0) {
    }
    net->holding = false;
    there = net->first != NULL;
    pthread_mutex_unlock(&net->lock);
    return there;
}

/* Takes the first command when it is the submission that was expected.
 * Functions that wait before it are called: one of them may submit it. They
 * run inside libcurl's callback, which is fine for what they can do here
 * (submit, cancel, timers: all of it queued). */
static ro_transfer *
take_expected(ro_flight *flight)
{
    ro_net *net = flight->net;
    ro_transfer *transfer = NULL;
    unsigned todo = 0;

    ro_net_obey_runs(net);
    pthread_mutex_lock(&net->lock);
    ro_command *command = ro_net_peek_locked(net);
    if (command != NULL && command->todo == RO_DO_SUBMIT && !net->closing
        && fits(flight, (ro_transfer *)command)) {
        transfer = (ro_transfer *)ro_net_pop_locked(net, &todo);
    }
    pthread_mutex_unlock(&net->lock);
    return transfer;
}

bool
ro_warm_hold(ro_flight *flight, int local_port)
{
    ro_transfer *transfer = NULL;
    do {
        if (!is_alone(flight)
            || !wait_for_command(flight->net, patience(flight))) {
            return false;
        }
        transfer = take_expected(flight);
    } while (transfer == NULL && ro_net_is_idle(flight->net));
    if (transfer == NULL) {
        return false;
    }
    take(flight, transfer);
    ro_transfer_release(transfer); /* the queue's reference */
    flight->again = is_dead(find_socket(flight, local_port));
    return true;
}
