#include "net/internal.h"

#include <unistd.h>

#include "core/alloc.h"

/* ---- any thread ---- */

ro_net_code
ro_net_submit(ro_net *net, const ro_request *request, const ro_sink *sink,
              ro_transfer **out)
{
    ro_transfer *transfer = NULL;

    *out = NULL;
    if (getpid() != net->pid) {
        return RO_NET_FORKED;
    }
    ro_net_code code
        = ro_transfer_new(net, request, request->body.len, sink, &transfer);
    if (code != RO_NET_OK) {
        return code;
    }
    /* Before the worker can finish it: its own reference, which
     * ro_transfer_finish gives back, and the count. */
    atomic_fetch_add(&transfer->refs, 1);
    atomic_fetch_add(&net->n_active, 1);
    code = ro_net_push(net, &transfer->command, RO_DO_SUBMIT);
    if (code != RO_NET_OK) {
        atomic_fetch_sub(&net->n_active, 1);
        ro_transfer_release(transfer);
        ro_transfer_release(transfer);
        return code;
    }
    atomic_fetch_add(&net->n_transfers, 1);
    *out = transfer;
    return RO_NET_OK;
}

void
ro_net_warm(ro_net *net, const ro_request *expected, size_t body_len,
            int hold_ms)
{
    ro_transfer *template = NULL;

    if (getpid() != net->pid) {
        return;
    }
    if (ro_transfer_new(net, expected, body_len, NULL, &template)
        != RO_NET_OK) {
        return;
    }
    template->hold_ms = hold_ms;
    (void)ro_net_push(net, &template->command, RO_DO_WARM);
    ro_transfer_release(template);
}

void
ro_transfer_cancel(ro_transfer *transfer)
{
    if (getpid() != transfer->net->pid) {
        return;
    }
    atomic_store(&transfer->cancelled, true);
    /* Refused only when everything is being cancelled anyway. */
    (void)ro_net_push(transfer->net, &transfer->command, RO_DO_CANCEL);
}

void
ro_transfer_resume(ro_transfer *transfer)
{
    if (getpid() != transfer->net->pid) {
        return;
    }
    (void)ro_net_push(transfer->net, &transfer->command, RO_DO_RESUME);
}

void
ro_transfer_release(ro_transfer *transfer)
{
    if (transfer == NULL || atomic_fetch_sub(&transfer->refs, 1) > 1) {
        return;
    }
    for (size_t i = 0; i < transfer->n_headers; i++) {
        ro_free(transfer->headers[i].data);
    }
    ro_free(transfer->headers);
    ro_free(transfer->method);
    ro_free(transfer->url);
    ro_free(transfer->proxy);
    ro_free(transfer->cafile);
    ro_free(transfer->capath);
    ro_free(transfer->origin);
    ro_free(transfer->body);
    ro_free(transfer);
}

/* ---- worker ---- */

void
ro_transfer_finish(ro_transfer *transfer, ro_net_code code)
{
    if (transfer->finished) {
        return;
    }
    transfer->finished = true;
    atomic_fetch_sub(&transfer->net->n_active, 1);
    transfer->sink.done(transfer->sink.ctx, code);
    ro_transfer_release(transfer);
}

void
ro_transfer_start(ro_transfer *transfer)
{
    ro_net_code code = ro_flight_launch(transfer->net, transfer, false);
    if (code != RO_NET_OK) {
        ro_transfer_finish(transfer, code);
    }
}

static void
begin(ro_transfer *transfer)
{
    if (ro_warm_adopt(transfer->net, transfer)) {
        return;
    }
    ro_flight *draining = ro_drain_find(transfer);
    if (draining != NULL) {
        ro_drain_wait(transfer, draining);
        return;
    }
    ro_transfer_start(transfer);
}

void
ro_transfer_end(ro_transfer *transfer, ro_net_code code)
{
    if (transfer->finished) {
        return; /* a drain goes on without it */
    }
    ro_drain_unwait(transfer);
    if (transfer->flight != NULL) {
        ro_flight_land(transfer->flight, code);
        return;
    }
    ro_transfer_finish(transfer, code);
}

void
ro_transfer_act(ro_transfer *transfer, unsigned todo)
{
    if (todo & RO_DO_CANCEL) {
        ro_transfer_end(transfer, RO_NET_CANCELLED);
        return;
    }
    if (todo & RO_DO_SUBMIT) {
        begin(transfer);
    }
    if ((todo & RO_DO_RESUME) && transfer->flight != NULL) {
        ro_flight_resume(transfer->flight);
    }
}
