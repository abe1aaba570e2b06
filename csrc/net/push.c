/* What a session does beside its exchanges: the server's own stream (GET)
 * and the answers to the server's own requests. */
#include "net/exchange.h"

#include "core/alloc.h"
#include "core/json.h"
#include "core/limits.h"

int
ro_session_get_delay(ro_session *session, int wanted_ms)
{
    int64_t now = ro_net_now_ms();
    int64_t when = now + wanted_ms;
    if (session->gets == RO_MAX_GETS) {
        return -1;
    }
    if (when < session->next_get) {
        when = session->next_get;
    }
    session->gets++;
    session->next_get = when + RO_MIN_RETRY_MS;
    return when - now > RO_DEADLINE_MS ? RO_DEADLINE_MS : (int)(when - now);
}

/* ---- answers to the server's requests ---- */

typedef struct posting {
    ro_transfer *transfer;
} posting;

static ro_sink_verdict
posting_head(void *ctx, const ro_head *head)
{
    (void)ctx;
    (void)head;
    return RO_SINK_STOP;
}

static ro_sink_verdict
posting_data(void *ctx, const char *bytes, size_t len)
{
    (void)ctx;
    (void)bytes;
    (void)len;
    return RO_SINK_STOP;
}

static void
posting_done(void *ctx, ro_net_code code)
{
    posting *post = ctx;
    (void)code; /* a server that does not take its answer has none */
    ro_transfer_release(post->transfer);
    ro_free(post);
}

void
ro_session_answer(ro_session *session, const ro_header_list *headers,
                  const ro_rpc *rpc)
{
    ro_request request;
    ro_buf body;
    posting *post = NULL;
    if (session->answers >= RO_MAX_ANSWERS_SENT) {
        return;
    }
    session->answers++;
    ro_buf_init(&body, RO_MAX_REQUEST);
    if (ro_rpc_write_answer(&body, rpc) == RO_BUF_OK) {
        post = ro_calloc(1, sizeof(*post));
    }
    if (post != NULL) {
        ro_sink sink = {post, posting_head, posting_data, posting_done};
        ro_session_request(session, &request);
        request.method = "POST";
        request.headers = headers->items;
        request.n_headers = headers->count;
        request.body = ro_buf_slice(&body);
        request.has_body = true;
        if (ro_net_submit(session->mcp->net, &request, &sink, &post->transfer)
            != RO_NET_OK) {
            ro_free(post);
        }
    }
    ro_buf_free(&body);
}

/* ---- the GET stream ---- */

static bool
push_event(void *ctx, const ro_sse_event *event)
{
    static const ro_json_limits loose = {RO_MAX_ANSWER, RO_MAX_DEPTH, true};
    ro_session *session = ctx;
    ro_rpc rpc;
    if (event->has_id) {
        ro_free(session->push.event_id);
        session->push.event_id
            = ro_memdup(event->last_id.ptr, event->last_id.len);
        session->push.event_id_len
            = session->push.event_id == NULL ? 0 : event->last_id.len;
    }
    if (event->retry_ms >= 0) {
        session->push.retry_ms = event->retry_ms;
    }
    if (event->has_data && ro_slice_equal(event->type, ro_slice_str("message"))
        && ro_json_validate(event->data, &loose, NULL) == RO_JSON_OK
        && ro_rpc_classify(event->data, &rpc) == RO_RPC_REQUEST) {
        ro_session_answer(session, &session->template, &rpc);
    }
    return true;
}

static ro_sink_verdict
push_head(void *ctx, const ro_head *head)
{
    ro_session *session = ctx;
    ro_slice type;
    if (head->status != 200
        || !ro_header_find(head->headers, head->n_headers, "content-type",
                           &type)
        || type.len < 17
        || !ro_header_name_is(ro_slice_of(type.ptr, 17),
                              "text/event-stream")) {
        session->push.stopped = true;
        return RO_SINK_STOP;
    }
    return RO_SINK_MORE;
}

static ro_sink_verdict
push_data(void *ctx, const char *bytes, size_t len)
{
    ro_session *session = ctx;
    if (!ro_call_count(session->mcp->call, len)
        || ro_sse_feed(&session->push.sse, bytes, len) != RO_SSE_OK) {
        session->push.stopped = true;
        return RO_SINK_FAIL;
    }
    return RO_SINK_MORE;
}

static void push_send(void *ctx);

static void
push_again(ro_session *session, int wanted_ms)
{
    ro_push *push = &session->push;
    push->open = false;
    if (push->stopped || session->mcp->closing) {
        return;
    }
    int delay = ro_session_get_delay(session, wanted_ms);
    if (delay < 0) {
        return;
    }
    push->timer = ro_net_after(session->mcp->net, delay, push_send, session);
    push->open = push->timer != NULL;
}

static void
push_done(void *ctx, ro_net_code code)
{
    ro_session *session = ctx;
    ro_transfer_release(session->push.transfer);
    session->push.transfer = NULL;
    if (code == RO_NET_CANCELLED || code == RO_NET_SHUT_DOWN) {
        session->push.stopped = true;
    }
    push_again(session,
               session->push.retry_ms >= 0 ? session->push.retry_ms : 1000);
}

static void
push_send(void *ctx)
{
    ro_session *session = ctx;
    ro_push *push = &session->push;
    ro_header_list headers = {NULL, 0, 0};
    ro_request request;
    ro_sink sink = {session, push_head, push_data, push_done};
    ro_slice last = ro_slice_of(push->event_id, push->event_id_len);
    push->timer = NULL;
    ro_sse_free(&push->sse);
    ro_sse_init(&push->sse, RO_MAX_ANSWER, RO_MAX_HEADER_VALUE, push_event,
                session);
    bool ready = ro_header_list_copy(&headers, session->template.items,
                                     session->template.count)
                 && ro_header_list_set(&headers, ro_slice_str("accept"),
                                       ro_slice_str("text/event-stream"))
                 && ro_header_list_set(&headers, ro_slice_str("cache-control"),
                                       ro_slice_str("no-store"))
                 && (last.len == 0
                     || ro_header_list_set(
                         &headers, ro_slice_str("last-event-id"), last));
    if (ready) {
        ro_header_list_drop(&headers, ro_slice_str("content-type"));
        ro_session_request(session, &request);
        request.method = "GET";
        request.headers = headers.items;
        request.n_headers = headers.count;
        ready = ro_net_submit(session->mcp->net, &request, &sink,
                              &push->transfer)
                == RO_NET_OK;
    }
    if (!ready) {
        push->open = false;
        push->stopped = true;
    }
    ro_header_list_free(&headers);
}

void
ro_session_push_open(ro_session *session)
{
    ro_push *push = &session->push;
    if (session->id == NULL || push->open || push->stopped) {
        return;
    }
    push->retry_ms = -1;
    push_again(session, 0);
}

void
ro_session_push_close(ro_session *session)
{
    ro_push *push = &session->push;
    push->stopped = true;
    if (push->timer != NULL) {
        ro_timer_stop(session->mcp->net, push->timer);
        push->timer = NULL;
        push->open = false;
    }
    if (push->transfer != NULL) {
        ro_transfer_cancel(push->transfer);
    }
}
