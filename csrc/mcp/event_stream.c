#include "mcp/event_stream.h"

#include "core/alloc.h"
#include "core/limits.h"
#include "mcp/allowance.h"
#include "mcp/request.h"

void
ro_event_stream_init(ro_event_stream *stream, ro_session *session,
                     const ro_stream_owner *owner, void *ctx, size_t max_data)
{
    *stream = (ro_event_stream){
        .session = session,
        .owner = owner,
        .ctx = ctx,
        .max_data = max_data,
        .retry_ms = -1,
    };
}

void
ro_event_stream_free(ro_event_stream *stream)
{
    ro_sse_free(&stream->sse);
    ro_free(stream->last_id);
    stream->last_id = NULL;
    stream->last_id_len = 0;
}

/* ---- bodies ---- */

/* Out of memory forgets the id: then nothing is resumed. */
static void
keep_id(ro_event_stream *stream, ro_slice id)
{
    ro_free(stream->last_id);
    stream->last_id = ro_memdup(id.ptr, id.len);
    stream->last_id_len = stream->last_id == NULL ? 0 : id.len;
}

static bool
on_event(void *ctx, const ro_sse_event *event)
{
    ro_event_stream *stream = ctx;
    if (event->has_id) {
        keep_id(stream, event->last_id);
    }
    if (event->retry_ms >= 0) {
        stream->retry_ms = event->retry_ms;
    }
    if (event->has_data) {
        stream->verdict = stream->owner->event(stream->ctx, event);
    }
    return stream->verdict == RO_SINK_MORE;
}

void
ro_event_stream_begin(ro_event_stream *stream)
{
    stream->verdict = RO_SINK_MORE;
    ro_sse_free(&stream->sse);
    ro_sse_init(&stream->sse, stream->max_data, RO_MAX_HEADER_VALUE, on_event,
                stream);
}

ro_sink_verdict
ro_event_stream_data(ro_event_stream *stream, const char *bytes, size_t len)
{
    if (!stream->owner->count(stream->ctx, len)) {
        return RO_SINK_FAIL;
    }
    ro_sse_code code = ro_sse_feed(&stream->sse, bytes, len);
    if (code == RO_SSE_OK) {
        return RO_SINK_MORE;
    }
    if (code == RO_SSE_STOPPED) {
        return stream->verdict;
    }
    stream->owner->unreadable(stream->ctx, code);
    return RO_SINK_FAIL;
}

bool
ro_event_is_message(const ro_sse_event *event)
{
    return event->has_data && event->data.len != 0
           && ro_slice_equal(event->type, ro_slice_str("message"));
}

/* ---- GETs ---- */

static ro_sink_verdict
get_head(void *ctx, const ro_head *head)
{
    ro_event_stream *stream = ctx;
    return stream->owner->head(stream->ctx, head);
}

static ro_sink_verdict
get_data(void *ctx, const char *bytes, size_t len)
{
    return ro_event_stream_data(ctx, bytes, len);
}

static void
get_done(void *ctx, ro_net_code code)
{
    ro_event_stream *stream = ctx;
    ro_transfer_release(stream->transfer);
    stream->transfer = NULL;
    ro_sse_free(&stream->sse);
    stream->owner->ended(stream->ctx, code);
}

static bool
fill_headers(const ro_event_stream *stream, ro_header_list *list)
{
    ro_slice last = ro_slice_of(stream->last_id, stream->last_id_len);
    if (!ro_header_list_copy(list, stream->headers->items,
                             stream->headers->count)
        || !ro_header_list_set(list, ro_slice_str("accept"),
                               ro_slice_str("text/event-stream"))
        || !ro_header_list_set(list, ro_slice_str("cache-control"),
                               ro_slice_str("no-store"))
        || (last.len != 0
            && !ro_header_list_set(list, ro_slice_str("last-event-id"),
                                   last))) {
        return false;
    }
    ro_header_list_drop(list, ro_slice_str("content-type"));
    return true;
}

void
ro_event_stream_aim(ro_event_stream *stream, const char *url,
                    const ro_header_list *headers)
{
    stream->url = url;
    stream->headers = headers;
}

ro_net_code
ro_event_stream_get(ro_event_stream *stream)
{
    ro_header_list headers = {NULL, 0, 0};
    ro_sink sink = {stream, get_head, get_data, get_done};
    ro_request request;
    ro_net_code code = RO_NET_NO_MEMORY;
    ro_event_stream_begin(stream);
    if (fill_headers(stream, &headers)) {
        ro_session_request(stream->session, &request);
        request.method = "GET";
        request.url = stream->url;
        request.headers = headers.items;
        request.n_headers = headers.count;
        request.sending = RO_SEND_AGAIN;
        code = ro_net_submit(stream->session->mcp->net, &request, &sink,
                             &stream->transfer);
    }
    ro_header_list_free(&headers);
    return code;
}

static void
get_now(void *ctx)
{
    ro_event_stream *stream = ctx;
    stream->timer = NULL;
    ro_net_code code = ro_event_stream_get(stream);
    if (code != RO_NET_OK) {
        stream->stopped = true;
        stream->owner->ended(stream->ctx, code);
    }
}

bool
ro_event_stream_again(ro_event_stream *stream, int wanted_ms)
{
    if (wanted_ms < 0) {
        wanted_ms
            = stream->retry_ms >= 0 ? stream->retry_ms : RO_DEFAULT_RETRY_MS;
    }
    /* Each GET counts for the session, whichever of its streams it is for. */
    int delay = stream->stopped
                    ? -1
                    : ro_session_get_delay(stream->session, wanted_ms);
    if (delay >= 0) {
        stream->resumed++;
        stream->timer
            = ro_net_after(stream->session->mcp->net, delay, get_now, stream);
    }
    return stream->timer != NULL;
}

bool
ro_event_stream_is_open(const ro_event_stream *stream)
{
    return stream->transfer != NULL || stream->timer != NULL;
}

void
ro_event_stream_close(ro_event_stream *stream)
{
    stream->stopped = true;
    if (stream->timer != NULL) {
        ro_timer_stop(stream->session->mcp->net, stream->timer);
        stream->timer = NULL;
    }
}

void
ro_event_stream_stop(ro_event_stream *stream)
{
    ro_event_stream_close(stream);
    if (stream->transfer != NULL) {
        ro_transfer_cancel(stream->transfer);
    }
}
