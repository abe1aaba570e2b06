#include "net/internal.h"

#include <limits.h>
#include <sys/socket.h>

#include "core/alloc.h"

/* ---- the life of a handle ---- */

static void
link_flight(ro_flight *flight)
{
    ro_net *net = flight->net;
    flight->next = net->flights;
    if (net->flights != NULL) {
        net->flights->prev = flight;
    }
    net->flights = flight;
}

static void
unlink_flight(ro_flight *flight)
{
    ro_net *net = flight->net;
    if (flight->prev != NULL) {
        flight->prev->next = flight->next;
    }
    else if (net->flights == flight) {
        net->flights = flight->next;
    }
    if (flight->next != NULL) {
        flight->next->prev = flight->prev;
    }
    if (net->warm == flight) {
        net->warm = NULL;
    }
}

static void
stop_timer(ro_flight *flight)
{
    if (flight->timer != NULL) {
        ro_timer_stop(flight->net, flight->timer);
        flight->timer = NULL;
    }
}

static CURL *
take_handle(ro_net *net)
{
    if (net->n_spare > 0) {
        return net->spare[--net->n_spare];
    }
    return curl_easy_init();
}

static void
give_back(ro_net *net, CURL *easy)
{
    if (easy == NULL) {
        return;
    }
    if (net->n_spare < RO_NET_SPARE) {
        curl_easy_reset(easy);
        net->spare[net->n_spare++] = easy;
        return;
    }
    curl_easy_cleanup(easy);
}

static void
free_flight(ro_flight *flight)
{
    stop_timer(flight);
    unlink_flight(flight);
    give_back(flight->net, flight->easy);
    ro_head_free(&flight->head);
    ro_transfer_release(flight->transfer);
    ro_transfer_release(flight->template);
    ro_free(flight);
}

ro_net_code
ro_flight_launch(ro_net *net, ro_transfer *transfer, bool warm)
{
    ro_flight *flight = ro_calloc(1, sizeof(*flight));

    if (flight == NULL) {
        return RO_NET_NO_MEMORY;
    }
    flight->net = net;
    flight->warm = warm;
    atomic_fetch_add(&transfer->refs, 1);
    flight->transfer = transfer;
    link_flight(flight);
    flight->easy = take_handle(net);
    if (flight->easy == NULL) {
        free_flight(flight);
        return RO_NET_NO_MEMORY;
    }
    /* Never sent: a header without a value, so that the list has a head
     * to which a warm flight's late headers can be tied. */
    flight->anchor.data = (char *)"Proxy-Connection:";
    flight->anchor.next = transfer->headers;
    if (!ro_flight_configure(flight)) {
        free_flight(flight);
        return RO_NET_NO_MEMORY;
    }
    CURLMcode added = curl_multi_add_handle(net->multi, flight->easy);
    if (added != CURLM_OK) {
        free_flight(flight);
        return added == CURLM_OUT_OF_MEMORY ? RO_NET_NO_MEMORY
                                            : RO_NET_INTERNAL;
    }
    transfer->flight = flight;
    return RO_NET_OK;
}

void
ro_flight_land(ro_flight *flight, ro_net_code code)
{
    ro_net *net = flight->net;
    ro_transfer *transfer = flight->transfer;
    bool wanted = !flight->warm;
    bool again = flight->again && code == RO_NET_REPLAY;

    stop_timer(flight);
    curl_multi_remove_handle(net->multi, flight->easy);
    atomic_fetch_add(&transfer->refs, 1);
    transfer->flight = NULL;
    ro_drain_end(flight, code);
    free_flight(flight);
    if (again) {
        ro_transfer_start(transfer);
    }
    else if (wanted) {
        ro_transfer_finish(transfer, code);
    }
    ro_transfer_release(transfer);
}

/* ---- silence ---- */

static void on_silence(void *ctx);

static bool
is_sending(const ro_flight *flight)
{
    return (size_t)flight->up < flight->transfer->body_len;
}

static void
rearm(ro_flight *flight)
{
    const ro_transfer *transfer = flight->transfer;
    long limit = is_sending(flight) ? transfer->write_ms : transfer->read_ms;

    stop_timer(flight);
    if (limit <= 0) {
        return;
    }
    int64_t left = flight->last_ms + limit - ro_net_now_ms();
    left = left < 0 ? 0 : left > INT_MAX ? INT_MAX : left;
    flight->timer = ro_net_after(flight->net, (int)left, on_silence, flight);
}

static void
on_silence(void *ctx)
{
    ro_flight *flight = ctx;
    const ro_transfer *transfer = flight->transfer;
    bool sending = is_sending(flight);
    long limit = sending ? transfer->write_ms : transfer->read_ms;

    flight->timer = NULL;
    if (ro_net_now_ms() - flight->last_ms < limit) {
        rearm(flight);
        return;
    }
    ro_flight_land(flight,
                   sending ? RO_NET_WRITE_TIMEOUT : RO_NET_READ_TIMEOUT);
}

int
ro_flight_on_progress(void *ctx, curl_off_t down_total, curl_off_t down,
                      curl_off_t up_total, curl_off_t up)
{
    ro_flight *flight = ctx;

    (void)down_total;
    (void)up_total;
    if (flight->draining || flight->sends == 0
        || (down == flight->down && up == flight->up)) {
        return 0;
    }
    bool was_sending = is_sending(flight);
    flight->down = down;
    flight->up = up;
    flight->last_ms = ro_net_now_ms();
    if (was_sending && !is_sending(flight)) {
        rearm(flight);
    }
    return 0;
}

/* ---- libcurl's callbacks ---- */

static int
refuse(ro_flight *flight, ro_net_code code)
{
    flight->code = code;
    return CURL_PREREQFUNC_ABORT;
}

/* Not inherited by children, which libcurl does not see to; and none for a
 * second try at a request that was sent. */
curl_socket_t
ro_flight_on_socket(void *ctx, curlsocktype purpose,
                    struct curl_sockaddr *address)
{
    ro_flight *flight = ctx;

    if (purpose != CURLSOCKTYPE_IPCXN || flight->sends > 0) {
        flight->code = RO_NET_REPLAY;
        return CURL_SOCKET_BAD;
    }
    int fd = socket(address->family, address->socktype | SOCK_CLOEXEC,
                    address->protocol);
    if (flight->warm && fd >= 0 && flight->n_socks < RO_NET_SOCKS) {
        flight->socks[flight->n_socks++] = fd;
    }
    return fd >= 0 ? fd : CURL_SOCKET_BAD;
}

/* Called before every sending of the request, also when libcurl repeats
 * one on its own (connection found dead, stream refused): the second one
 * is refused before a byte of it is out. */
int
ro_flight_on_prereq(void *ctx, char *ip, char *local_ip, int port,
                    int local_port)
{
    ro_flight *flight = ctx;
    long connects = 0;

    (void)ip;
    (void)local_ip;
    (void)port;
    if (flight->warm && !ro_warm_hold(flight, local_port)) {
        return refuse(flight, RO_NET_CANCELLED);
    }
    if (flight->again) {
        return refuse(flight, RO_NET_REPLAY);
    }
    if (atomic_load(&flight->transfer->cancelled)) {
        return refuse(flight, RO_NET_CANCELLED);
    }
    if (flight->sends > 0) {
        return refuse(flight, RO_NET_REPLAY);
    }
    flight->sends++;
    curl_easy_getinfo(flight->easy, CURLINFO_NUM_CONNECTS, &connects);
    if (connects > 0) {
        atomic_fetch_add(&flight->net->n_connections,
                         (unsigned long long)connects);
    }
    flight->last_ms = ro_net_now_ms();
    rearm(flight);
    return CURL_PREREQFUNC_OK;
}

static void
stop(ro_flight *flight)
{
    stop_timer(flight);
    ro_drain_begin(flight);
    ro_transfer_finish(flight->transfer, RO_NET_OK);
}

/* False: the header callback has to fail. */
static bool
give_head(ro_flight *flight)
{
    ro_transfer *transfer = flight->transfer;
    ro_head head;

    flight->code
        = ro_head_check(&flight->head, transfer->codings, transfer->raw);
    if (flight->code != RO_NET_OK) {
        return false;
    }
    ro_head_view(&flight->head, &head);
    switch (transfer->sink.head(transfer->sink.ctx, &head)) {
    case RO_SINK_MORE:
        return true;
    case RO_SINK_PAUSE:
        transfer->hold_data = true;
        return true;
    case RO_SINK_STOP:
        stop(flight);
        return true;
    case RO_SINK_FAIL:
        break;
    }
    flight->code = RO_NET_SINK;
    return false;
}

size_t
ro_flight_on_header(char *bytes, size_t one, size_t len, void *ctx)
{
    ro_flight *flight = ctx;
    ro_transfer *transfer = flight->transfer;
    bool was_complete = flight->head.complete;

    (void)one;
    flight->last_ms = ro_net_now_ms();
    if (flight->draining) {
        return ro_drain_eat(flight, len) ? len : 0;
    }
    if (atomic_load(&transfer->cancelled)) {
        flight->code = RO_NET_CANCELLED;
        return 0;
    }
    ro_slice line = ro_slice_of(bytes, len);
    if (flight->sends == 0) { /* the proxy's answer to CONNECT */
        flight->code
            = ro_head_count(&flight->head, line, transfer->max_headers);
    }
    else {
        flight->code
            = ro_head_line(&flight->head, line, transfer->max_headers);
    }
    if (flight->code != RO_NET_OK) {
        return 0;
    }
    if (flight->head.complete && !was_complete && !give_head(flight)) {
        return 0;
    }
    return len;
}

size_t
ro_flight_on_body(char *bytes, size_t one, size_t len, void *ctx)
{
    ro_flight *flight = ctx;
    ro_transfer *transfer = flight->transfer;

    (void)one;
    if (flight->draining) {
        return ro_drain_eat(flight, len) ? len : 0;
    }
    if (atomic_load(&transfer->cancelled)) {
        flight->code = RO_NET_CANCELLED;
        return 0;
    }
    if (len == 0) {
        return 0;
    }
    flight->last_ms = ro_net_now_ms();
    ro_sink_verdict verdict = RO_SINK_PAUSE;
    if (!transfer->hold_data) {
        verdict = transfer->sink.data(transfer->sink.ctx, bytes, len);
    }
    switch (verdict) {
    case RO_SINK_MORE:
        atomic_fetch_add(&flight->net->n_bytes_in, len);
        return len;
    case RO_SINK_PAUSE:
        flight->paused = true;
        stop_timer(flight);
        return CURL_WRITEFUNC_PAUSE;
    case RO_SINK_STOP:
        atomic_fetch_add(&flight->net->n_bytes_in, len);
        stop(flight);
        return len;
    case RO_SINK_FAIL:
        break;
    }
    flight->code = RO_NET_SINK;
    return 0;
}

void
ro_flight_resume(ro_flight *flight)
{
    flight->transfer->hold_data = false;
    if (!flight->paused) {
        return;
    }
    flight->paused = false;
    flight->last_ms = ro_net_now_ms();
    rearm(flight);
    /* Hands over what was kept; an error in there is told here alone. */
    CURLcode code = curl_easy_pause(flight->easy, CURLPAUSE_CONT);
    if (code != CURLE_OK) {
        ro_flight_land(flight, ro_net_map(flight, code));
    }
}
