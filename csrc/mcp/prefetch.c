#include "mcp/prefetch.h"

/* bytes: data of a sink at a time, as net/net.h says */
#define CHUNK 65536u

static ro_sink_verdict
on_head(void *ctx, const ro_head *head)
{
    ro_prefetch *prefetch = ctx;
    if (prefetch->ended) {
        return RO_SINK_FAIL;
    }
    if (prefetch->live) {
        return prefetch->taker.head(prefetch->taker.ctx, head);
    }
    prefetch->status = head->status;
    prefetch->version = head->version;
    prefetch->has_head = true;
    if (!ro_header_list_copy(&prefetch->headers, head->headers,
                             head->n_headers)) {
        prefetch->has_head = false;
        return RO_SINK_FAIL;
    }
    return prefetch->taken
               ? RO_SINK_MORE
               : prefetch->watcher.head(prefetch->watcher.ctx, head);
}

static ro_sink_verdict
on_data(void *ctx, const char *bytes, size_t len)
{
    ro_prefetch *prefetch = ctx;
    if (prefetch->ended) {
        return RO_SINK_FAIL;
    }
    if (prefetch->live) {
        return prefetch->taker.data(prefetch->taker.ctx, bytes, len);
    }
    switch (ro_buf_append(&prefetch->data, bytes, len)) {
    case RO_BUF_OK:
        break;
    case RO_BUF_TOO_LARGE:
        prefetch->held = true;
        return RO_SINK_PAUSE;
    case RO_BUF_NO_MEMORY:
        return RO_SINK_FAIL;
    }
    return prefetch->taken
               ? RO_SINK_MORE
               : prefetch->watcher.data(prefetch->watcher.ctx, bytes, len);
}

static void
tell_end(ro_prefetch *prefetch, ro_net_code code)
{
    prefetch->ended = true;
    prefetch->taker.done(prefetch->taker.ctx, code);
}

static void
on_done(void *ctx, ro_net_code code)
{
    ro_prefetch *prefetch = ctx;
    prefetch->done = true;
    prefetch->code = code;
    if (prefetch->ended) {
        return;
    }
    if (prefetch->live) {
        tell_end(prefetch, code);
    }
    else if (!prefetch->taken) {
        prefetch->watcher.done(prefetch->watcher.ctx, code);
    }
}

ro_net_code
ro_prefetch_begin(ro_prefetch *prefetch, ro_net *net,
                  const ro_request *request, const ro_sink *watcher,
                  size_t max)
{
    ro_sink sink = {prefetch, on_head, on_data, on_done};
    memset(prefetch, 0, sizeof(*prefetch));
    prefetch->net = net;
    prefetch->watcher = *watcher;
    ro_buf_init(&prefetch->data, max);
    ro_net_code code = ro_net_submit(net, request, &sink, &prefetch->transfer);
    prefetch->begun = code == RO_NET_OK;
    return code;
}

static ro_sink_verdict
replay_head(ro_prefetch *prefetch)
{
    ro_head head = {.status = prefetch->status,
                    .version = prefetch->version,
                    .headers = prefetch->headers.items,
                    .n_headers = prefetch->headers.count};
    return prefetch->has_head
               ? prefetch->taker.head(prefetch->taker.ctx, &head)
               : RO_SINK_MORE;
}

/* Tell the taker what was kept, in the order in which it came. */
static void
replay(void *ctx)
{
    ro_prefetch *prefetch = ctx;
    const ro_sink *taker = &prefetch->taker;
    ro_sink_verdict verdict = replay_head(prefetch);
    for (size_t at = 0; verdict == RO_SINK_MORE && at < prefetch->data.len;) {
        size_t len = prefetch->data.len - at;
        len = len < CHUNK ? len : CHUNK;
        verdict = taker->data(taker->ctx, prefetch->data.data + at, len);
        at += len;
    }
    ro_buf_free(&prefetch->data);
    if (verdict == RO_SINK_MORE && !prefetch->done) {
        prefetch->live = true;
        if (prefetch->held) {
            ro_transfer_resume(prefetch->transfer);
        }
        return;
    }
    if (!prefetch->done) {
        ro_transfer_cancel(prefetch->transfer);
    }
    tell_end(prefetch, verdict == RO_SINK_MORE   ? prefetch->code
                       : verdict == RO_SINK_FAIL ? RO_NET_SINK
                                                 : RO_NET_OK);
}

bool
ro_prefetch_take(ro_prefetch *prefetch, const ro_sink *taker,
                 ro_transfer **out)
{
    /* Not now: done must not come before the taker has its transfer. */
    if (ro_net_run(prefetch->net, replay, prefetch) != RO_NET_OK) {
        return false;
    }
    prefetch->taker = *taker;
    prefetch->taken = true;
    *out = prefetch->transfer;
    return true;
}

void
ro_prefetch_cancel(ro_prefetch *prefetch)
{
    if (prefetch->begun && !prefetch->taken && !prefetch->done) {
        ro_transfer_cancel(prefetch->transfer);
    }
}

void
ro_prefetch_free(ro_prefetch *prefetch)
{
    if (prefetch->begun && !prefetch->taken) {
        ro_transfer_release(prefetch->transfer);
        prefetch->begun = false;
    }
    ro_header_list_free(&prefetch->headers);
    ro_buf_free(&prefetch->data);
}
