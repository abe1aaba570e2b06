/* What happens to an answer that nobody reads any further.
 *
 * Its connection can be used again once its body has ended, which for a
 * stream is usually one packet behind the last event. Small bounds: an
 * answer that goes on is closed. A request to the same destination waits a
 * moment for such a connection, unless that destination is known to hold its
 * streams open: then it never waits again.
 */
#include "net/internal.h"

#include "core/limits.h"

static void
remember(ro_net *net, const char *key, bool holds)
{
    ro_destination *destination = ro_destination_of(&net->destinations, key);

    if (destination != NULL) {
        destination->holds = holds;
    }
}

/* ---- draining ---- */

static void
on_drain_over(void *ctx)
{
    ro_attempt *attempt = ctx;

    attempt->timer = NULL;
    if (attempt->head.version < 20) { /* of HTTP/2 it says nothing */
        remember(attempt->net, attempt->transfer->destination, true);
    }
    ro_attempt_finish(attempt, RO_NET_CANCELLED);
}

void
ro_drain_begin(ro_attempt *attempt)
{
    /* In HTTP/2 the stream ends alone and the connection goes on. */
    bool shared = attempt->head.version >= 20;

    attempt->draining = true;
    attempt->drain_left = shared ? 0 : RO_DRAIN_BYTES;
    attempt->timer = ro_net_after(attempt->net, shared ? 0 : RO_DRAIN_MS,
                                  on_drain_over, attempt);
    if (attempt->timer == NULL) {
        attempt->drain_left = 0;
    }
}

bool
ro_drain_discard(ro_attempt *attempt, size_t len)
{
    if (len > (size_t)attempt->drain_left) {
        attempt->code = RO_NET_CANCELLED;
        return false;
    }
    attempt->drain_left -= (long)len;
    return true;
}

void
ro_drain_end(ro_attempt *attempt, ro_net_code code)
{
    ro_transfer *waiter = attempt->waiter;

    if (attempt->draining && code == RO_NET_OK) {
        remember(attempt->net, attempt->transfer->destination, false);
    }
    if (waiter != NULL) {
        ro_drain_unwait(waiter);
        ro_transfer_start(waiter);
    }
}

/* ---- waiting for it ---- */

ro_attempt *
ro_drain_find(ro_transfer *transfer)
{
    ro_net *net = transfer->net;

    if (transfer->fresh || transfer->http2) {
        return NULL;
    }
    for (ro_attempt *attempt = net->attempts; attempt != NULL;
         attempt = attempt->next) {
        if (!attempt->draining || attempt->waiter != NULL
            || strcmp(attempt->transfer->destination, transfer->destination)
                   != 0) {
            continue;
        }
        const ro_destination *destination
            = ro_destination_find(&net->destinations, transfer->destination);
        return destination != NULL && destination->holds ? NULL : attempt;
    }
    return NULL;
}

static void
on_waited(void *ctx)
{
    ro_transfer *transfer = ctx;

    transfer->wait_timer = NULL;
    remember(transfer->net, transfer->destination, true);
    ro_drain_unwait(transfer);
    ro_transfer_start(transfer);
}

void
ro_drain_wait(ro_transfer *transfer, ro_attempt *attempt)
{
    transfer->wait_timer
        = ro_net_after(transfer->net, RO_DRAIN_WAIT_MS, on_waited, transfer);
    if (transfer->wait_timer == NULL) {
        ro_transfer_start(transfer);
        return;
    }
    attempt->waiter = transfer;
    transfer->waits_for = attempt;
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
