/* What happens to an answer that nobody reads any further.
 *
 * Its connection can be used again once its body has ended, which for a
 * stream is usually one packet behind the last event. Small bounds: an
 * answer that goes on is closed. A request to the same place waits a moment
 * for such a connection, unless that place is known to hold its streams
 * open: then it never waits again.
 */
#include "net/internal.h"

#include "core/alloc.h"

/* ---- what is known of a place ---- */

static ro_origin *
recall(ro_net *net, const char *key)
{
    for (size_t i = 0; i < RO_NET_ORIGINS; i++) {
        if (net->origins[i].key != NULL
            && strcmp(net->origins[i].key, key) == 0) {
            return &net->origins[i];
        }
    }
    return NULL;
}

/* Not remembering, when out of memory, costs one more wait. */
static void
remember(ro_net *net, const char *key, bool holds)
{
    ro_origin *origin = recall(net, key);

    if (origin == NULL) {
        origin = &net->origins[net->next_origin];
        net->next_origin = (net->next_origin + 1) % RO_NET_ORIGINS;
        ro_free(origin->key);
        origin->key = ro_memdup(key, strlen(key));
    }
    origin->holds = holds;
}

/* ---- draining ---- */

static void
on_drain_over(void *ctx)
{
    ro_flight *flight = ctx;

    flight->timer = NULL;
    if (flight->head.version < 20) {
        remember(flight->net, flight->transfer->origin, true);
    }
    ro_flight_land(flight, RO_NET_CANCELLED);
}

void
ro_drain_begin(ro_flight *flight)
{
    /* In HTTP/2 the stream ends alone and the connection goes on. */
    bool shared = flight->head.version >= 20;

    flight->draining = true;
    flight->drain_left = shared ? 0 : RO_NET_DRAIN_BYTES;
    flight->timer = ro_net_after(flight->net, shared ? 0 : RO_NET_DRAIN_MS,
                                 on_drain_over, flight);
    if (flight->timer == NULL) {
        flight->drain_left = 0;
    }
}

bool
ro_drain_eat(ro_flight *flight, size_t len)
{
    if (len > (size_t)flight->drain_left) {
        flight->code = RO_NET_CANCELLED;
        return false;
    }
    flight->drain_left -= (long)len;
    return true;
}

void
ro_drain_end(ro_flight *flight, ro_net_code code)
{
    ro_transfer *waiter = flight->waiter;

    if (flight->draining && code == RO_NET_OK) {
        remember(flight->net, flight->transfer->origin, false);
    }
    if (waiter != NULL) {
        ro_drain_unwait(waiter);
        ro_transfer_start(waiter);
    }
}

/* ---- waiting for it ---- */

ro_flight *
ro_drain_find(ro_transfer *transfer)
{
    ro_net *net = transfer->net;

    if (transfer->fresh || transfer->http2) {
        return NULL;
    }
    for (ro_flight *flight = net->flights; flight != NULL;
         flight = flight->next) {
        if (!flight->draining || flight->waiter != NULL
            || strcmp(flight->transfer->origin, transfer->origin) != 0) {
            continue;
        }
        const ro_origin *origin = recall(net, transfer->origin);
        return origin != NULL && origin->holds ? NULL : flight;
    }
    return NULL;
}

static void
on_waited(void *ctx)
{
    ro_transfer *transfer = ctx;

    transfer->wait_timer = NULL;
    remember(transfer->net, transfer->origin, true);
    ro_drain_unwait(transfer);
    ro_transfer_start(transfer);
}

void
ro_drain_wait(ro_transfer *transfer, ro_flight *flight)
{
    transfer->wait_timer = ro_net_after(transfer->net, RO_NET_DRAIN_WAIT_MS,
                                        on_waited, transfer);
    if (transfer->wait_timer == NULL) {
        ro_transfer_start(transfer);
        return;
    }
    flight->waiter = transfer;
    transfer->waits_for = flight;
}

void
ro_drain_unwait(ro_transfer *transfer)
{
    if (transfer->waits_for != NULL) {
        transfer->waits_for->waiter = NULL;
        transfer->waits_for = NULL;
    }
    if (transfer->wait_timer != NULL) {
        ro_timer_stop(transfer->net, transfer->wait_timer);
        transfer->wait_timer = NULL;
    }
}
