#include "net/internal.h"

#include <limits.h>

#include "core/alloc.h"
#include "core/monotonic.h"

/* ---- the life of a handle ---- */

static void
link_attempt(ro_attempt *attempt)
{
    ro_net *net = attempt->net;
    attempt->next = net->attempts;
    if (net->attempts != NULL) {
        net->attempts->prev = attempt;
    }
    net->attempts = attempt;
}

static void
unlink_attempt(ro_attempt *attempt)
{
    ro_net *net = attempt->net;
    if (attempt->prev != NULL) {
        attempt->prev->next = attempt->next;
    }
    else if (net->attempts == attempt) {
        net->attempts = attempt->next;
    }
    if (attempt->next != NULL) {
        attempt->next->prev = attempt->prev;
    }
}

static void
stop_timer(ro_attempt *attempt)
{
    if (attempt->timer != NULL) {
        ro_timer_stop(attempt->net, attempt->timer);
        attempt->timer = NULL;
    }
}

static void
free_attempt(ro_attempt *attempt)
{
    stop_timer(attempt);
    unlink_attempt(attempt);
    curl_easy_cleanup(attempt->easy);
    ro_head_free(&attempt->head);
    ro_transfer_release(attempt->transfer);
    ro_free(attempt);
}

ro_net_code
ro_attempt_start(ro_net *net, ro_transfer *transfer)
{
    ro_attempt *attempt = ro_calloc(1, sizeof(*attempt));

    if (attempt == NULL) {
        return RO_NET_NO_MEMORY;
    }
    attempt->net = net;
    attempt->serial = ++net->n_attempts;
    attempt->fd = -1;
    atomic_fetch_add(&transfer->refs, 1);
    attempt->transfer = transfer;
    link_attempt(attempt);
    /* Never one that was used before: libcurl 7.88 keeps a pointer to the
     * last header of the answer before, which it has freed, and a first
     * line that begins with a space makes it follow that. */
    attempt->easy = curl_easy_init();
    if (attempt->easy == NULL) {
        free_attempt(attempt);
        return RO_NET_NO_MEMORY;
    }
    if (!ro_attempt_configure(attempt)) {
        free_attempt(attempt);
        return RO_NET_NO_MEMORY;
    }
    CURLMcode added = curl_multi_add_handle(net->multi, attempt->easy);
    if (added != CURLM_OK) {
        free_attempt(attempt);
        return added == CURLM_OUT_OF_MEMORY ? RO_NET_NO_MEMORY
                                            : RO_NET_INTERNAL;
    }
    transfer->attempt = attempt;
    return RO_NET_OK;
}

void
ro_attempt_finish(ro_attempt *attempt, ro_net_code code)
{
    ro_net *net = attempt->net;
    ro_transfer *transfer = attempt->transfer;

    stop_timer(attempt);
    /* Removing the handle may close its socket, and then ro_attempt_on_close
     * counts what came in. Whether there is another attempt depends on that
     * count. */
    curl_multi_remove_handle(net->multi, attempt->easy);
    bool again = ro_attempt_gets_another(attempt, code);
    /* The attempt's own reference goes with the attempt, and `done` may give
     * the caller's back. */
    atomic_fetch_add(&transfer->refs, 1);
    transfer->attempt = NULL;
    ro_drain_end(attempt, code);
    free_attempt(attempt);
    if (again) {
        ro_transfer_start(transfer);
    }
    else {
        ro_transfer_finish(transfer, code);
    }
    ro_transfer_release(transfer);
}

/* ---- silence ---- */

static void on_silence(void *ctx);

static bool
is_sending(const ro_attempt *attempt)
{
    return (size_t)attempt->up < attempt->transfer->body_len;
}

static void
rearm(ro_attempt *attempt)
{
    const ro_transfer *transfer = attempt->transfer;
    long limit = is_sending(attempt) ? transfer->write_ms : transfer->read_ms;

    stop_timer(attempt);
    if (limit <= 0) {
        return;
    }
    /* Progress only notes the time. A timer that fires too early for it is set
     * again, which is cheaper than moving it with every read. */
    int64_t left = attempt->last_ms + limit - ro_monotonic_ms();
    left = left < 0 ? 0 : left > INT_MAX ? INT_MAX : left;
    attempt->timer
        = ro_net_after(attempt->net, (int)left, on_silence, attempt);
}

void
ro_attempt_touch(ro_attempt *attempt)
{
    attempt->last_ms = ro_monotonic_ms();
    rearm(attempt);
}

static void
on_silence(void *ctx)
{
    ro_attempt *attempt = ctx;
    const ro_transfer *transfer = attempt->transfer;
    bool sending = is_sending(attempt);
    long limit = sending ? transfer->write_ms : transfer->read_ms;

    attempt->timer = NULL;
    if (ro_monotonic_ms() - attempt->last_ms < limit) {
        rearm(attempt);
        return;
    }
    ro_attempt_finish(attempt,
                      sending ? RO_NET_WRITE_TIMEOUT : RO_NET_READ_TIMEOUT);
}

int
ro_attempt_on_progress(void *ctx, curl_off_t down_total, curl_off_t down,
                       curl_off_t up_total, curl_off_t up)
{
    ro_attempt *attempt = ctx;

    (void)down_total;
    (void)up_total;
    ro_attempt_count_ended(attempt);
    if (attempt->draining || attempt->sends == 0
        || (down == attempt->down && up == attempt->up)) {
        return 0;
    }
    bool was_sending = is_sending(attempt);
    attempt->down = down;
    attempt->up = up;
    attempt->last_ms = ro_monotonic_ms();
    if (was_sending && !is_sending(attempt)) {
        rearm(attempt); /* the whole body is out: read_ms from here on */
    }
    return 0;
}

/* ---- libcurl's callbacks ----
 *
 * They must not use the multi handle, so no attempt finishes here. A callback
 * notes why in attempt->code and fails; the attempt finishes once
 * curl_multi_perform has returned. The sink's `done` may come earlier (stop).
 */

static void
stop(ro_attempt *attempt)
{
    stop_timer(attempt); /* the drain has one of its own */
    ro_drain_begin(attempt);
    ro_transfer_finish(attempt->transfer, RO_NET_OK);
}

/* False: the header callback has to fail. */
static bool
give_head(ro_attempt *attempt)
{
    ro_transfer *transfer = attempt->transfer;
    ro_head head;

    attempt->code
        = ro_head_check(&attempt->head, transfer->codings, transfer->raw);
    if (attempt->code != RO_NET_OK) {
        return false;
    }
    ro_head_view(&attempt->head, &head);
    switch (transfer->sink.head(transfer->sink.ctx, &head)) {
    case RO_SINK_MORE:
        return true;
    case RO_SINK_PAUSE:
        /* libcurl pauses bodies alone: the first bytes will be refused. */
        transfer->hold_data = true;
        return true;
    case RO_SINK_STOP:
        stop(attempt);
        return true;
    case RO_SINK_FAIL:
        break;
    }
    attempt->code = RO_NET_SINK;
    return false;
}

size_t
ro_attempt_on_header(char *bytes, size_t one, size_t len, void *ctx)
{
    ro_attempt *attempt = ctx;
    ro_transfer *transfer = attempt->transfer;
    bool was_complete = attempt->head.complete;

    (void)one;
    attempt->last_ms = ro_monotonic_ms();
    attempt->arrival = RO_ARRIVAL_BYTES; /* it is answered: never sent again */
    if (attempt->draining) {
        return ro_drain_discard(attempt, len) ? len : 0;
    }
    if (atomic_load(&transfer->cancelled)) {
        attempt->code = RO_NET_CANCELLED;
        return 0;
    }
    ro_slice line = ro_slice_of(bytes, len);
    if (attempt->sends == 0) { /* the proxy's answer to CONNECT */
        attempt->code
            = ro_head_count(&attempt->head, line, transfer->max_headers);
    }
    else {
        attempt->code
            = ro_head_line(&attempt->head, line, transfer->max_headers);
    }
    if (attempt->code != RO_NET_OK) {
        return 0;
    }
    if (attempt->head.complete && !was_complete && !give_head(attempt)) {
        return 0;
    }
    return len;
}

size_t
ro_attempt_on_body(char *bytes, size_t one, size_t len, void *ctx)
{
    ro_attempt *attempt = ctx;
    ro_transfer *transfer = attempt->transfer;

    (void)one;
    if (attempt->draining) {
        return ro_drain_discard(attempt, len) ? len : 0;
    }
    if (atomic_load(&transfer->cancelled)) {
        attempt->code = RO_NET_CANCELLED;
        return 0;
    }
    if (len == 0) { /* libcurl reports an empty body, too */
        return 0;
    }
    attempt->last_ms = ro_monotonic_ms();
    ro_sink_verdict verdict = RO_SINK_PAUSE;
    if (!transfer->hold_data) {
        verdict = transfer->sink.data(transfer->sink.ctx, bytes, len);
    }
    switch (verdict) {
    case RO_SINK_MORE:
        atomic_fetch_add(&attempt->net->n_bytes_in, len);
        return len;
    case RO_SINK_PAUSE:
        attempt->paused = true;
        stop_timer(attempt);
        return CURL_WRITEFUNC_PAUSE;
    case RO_SINK_STOP:
        atomic_fetch_add(&attempt->net->n_bytes_in, len);
        stop(attempt);
        return len;
    case RO_SINK_FAIL:
        break;
    }
    attempt->code = RO_NET_SINK;
    return 0;
}

void
ro_attempt_resume(ro_attempt *attempt)
{
    attempt->transfer->hold_data = false;
    if (!attempt->paused) {
        return;
    }
    attempt->paused = false;
    ro_attempt_touch(attempt);
    /* Hands over what was kept; an error in there is told here alone. */
    CURLcode code = curl_easy_pause(attempt->easy, CURLPAUSE_CONT);
    if (code != CURLE_OK) {
        ro_attempt_finish(attempt, ro_net_map(attempt, code));
    }
}
