/* Who may free what. A transfer is counted, and the last reference frees it:
 * one of the caller, from ro_net_submit to ro_transfer_release; one of the
 * worker, from the submission to `done`; one of the queue while a command for
 * it waits; one of each attempt that carries it. Both threads can hold the
 * last one, so ro_transfer_release touches nothing but the transfer's own
 * memory.
 */
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
    ro_net_code code = ro_transfer_new(net, request, sink, &transfer);
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
        ro_transfer_release(transfer); /* the worker's */
        ro_transfer_release(transfer); /* the caller's */
        return code;
    }
    atomic_fetch_add(&net->n_transfers, 1);
    *out = transfer;
    return RO_NET_OK;
}

void
ro_transfer_cancel(ro_transfer *transfer)
{
    if (getpid() != transfer->net->pid) {
        return;
    }
    /* The flag is seen at once, by callbacks that run before the command. */
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
    ro_free(transfer->destination);
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
    ro_net_code code = ro_attempt_start(transfer->net, transfer);
    if (code != RO_NET_OK) {
        ro_transfer_finish(transfer, code);
    }
}

static void
begin(ro_transfer *transfer)
{
    ro_attempt *draining = ro_drain_find(transfer);
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
    if (transfer->attempt != NULL) {
        ro_attempt_finish(transfer->attempt, code);
        return;
    }
    ro_transfer_finish(transfer, code);
}

void
ro_transfer_act(ro_transfer *transfer, unsigned todo)
{
    /* Commands for one transfer are merged while they wait in the queue, so
     * one that was cancelled before it began never begins. */
    if (todo & RO_DO_CANCEL) {
        ro_transfer_end(transfer, RO_NET_CANCELLED);
        return;
    }
    if (todo & RO_DO_SUBMIT) {
        begin(transfer);
    }
    if ((todo & RO_DO_RESUME) && transfer->attempt != NULL) {
        ro_attempt_resume(transfer->attempt);
    }
}
