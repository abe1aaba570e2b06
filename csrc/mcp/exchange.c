#include "mcp/exchange.h"

#include "core/alloc.h"
#include "core/limits.h"
#include "mcp/ending.h"
#include "mcp/event_stream.h"

/* ---- life ---- */

ro_exchange *
ro_exchange_new(ro_session *session, uint64_t ticket, const char *method,
                const char *url, const ro_header *headers, size_t n_headers,
                ro_slice body, bool has_body)
{
    ro_exchange *exchange = ro_calloc(1, sizeof(*exchange));
    if (exchange == NULL) {
        return NULL;
    }
    exchange->session = session;
    exchange->ticket = ticket;
    exchange->has_body = has_body;
    exchange->reply = ro_calloc(1, sizeof(*exchange->reply));
    exchange->method = ro_memdup(method, strlen(method));
    exchange->url = ro_memdup(url, strlen(url));
    exchange->body = ro_memdup(body.ptr, body.len);
    exchange->body_len = body.len;
    if (exchange->reply == NULL || exchange->method == NULL
        || exchange->url == NULL || exchange->body == NULL
        || !ro_header_list_copy(&exchange->headers, headers, n_headers)) {
        ro_exchange_free(exchange);
        return NULL;
    }
    /* Whoever sends it frames the body, which the gate may have changed. */
    ro_header_list_drop(&exchange->headers, ro_slice_str("content-length"));
    ro_header_list_drop(&exchange->headers, ro_slice_str("transfer-encoding"));
    return exchange;
}

void
ro_exchange_free(ro_exchange *exchange)
{
    if (exchange == NULL) {
        return;
    }
    ro_reply_free(exchange->reply);
    ro_free(exchange->method);
    ro_free(exchange->url);
    ro_free(exchange->body);
    ro_header_list_free(&exchange->headers);
    ro_header_list_free(&exchange->kept);
    ro_buf_free(&exchange->data);
    if (exchange->stream != NULL) {
        ro_event_stream_free(exchange->stream);
        ro_free(exchange->stream);
    }
    ro_free(exchange);
}

void
ro_exchange_stop_timer(ro_exchange *exchange, ro_timer **timer)
{
    if (*timer != NULL) {
        ro_timer_stop(exchange->session->mcp->net, *timer);
        *timer = NULL;
    }
}

void
ro_exchange_enter(ro_exchange *exchange)
{
    ro_mcp *mcp = exchange->session->mcp;
    exchange->next = mcp->exchanges;
    if (exchange->next != NULL) {
        exchange->next->prev = exchange;
    }
    mcp->exchanges = exchange;
}

static void
unlink_exchange(ro_exchange *exchange)
{
    if (exchange->prev != NULL) {
        exchange->prev->next = exchange->next;
    }
    else {
        exchange->session->mcp->exchanges = exchange->next;
    }
    if (exchange->next != NULL) {
        exchange->next->prev = exchange->prev;
    }
}

void
ro_exchange_settle(ro_exchange *exchange)
{
    bool streams = exchange->stream != NULL
                   && ro_event_stream_is_open(exchange->stream);
    if (exchange->replied && !exchange->transfer_open && !streams) {
        unlink_exchange(exchange);
        ro_exchange_free(exchange);
    }
}

void
ro_exchange_stop_all(ro_mcp *mcp)
{
    ro_exchange *next;
    for (ro_exchange *each = mcp->exchanges; each != NULL; each = next) {
        next = each->next;
        ro_exchange_fail(each, RO_CODE_RUNTIME_FAILURE, RO_REASON_STOPPED);
        if (each->transfer != NULL) {
            ro_transfer_cancel(each->transfer);
        }
        if (each->stream != NULL) {
            ro_event_stream_stop(each->stream);
        }
        ro_exchange_settle(each);
    }
}

void
ro_exchange_free_all(ro_mcp *mcp)
{
    while (mcp->exchanges != NULL) {
        ro_exchange *next = mcp->exchanges->next;
        ro_exchange_free(mcp->exchanges);
        mcp->exchanges = next;
    }
}

/* ---- the transfer ---- */

void
ro_exchange_send(ro_exchange *exchange, const ro_request *request,
                 const ro_sink *sink)
{
    ro_net *net = exchange->session->mcp->net;
    exchange->transfer_open = true;
    ro_net_code code = ro_net_submit(net, request, sink, &exchange->transfer);
    if (code != RO_NET_OK) {
        exchange->transfer_open = false;
        exchange->transfer = NULL;
        ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE,
                         ro_reason_of_net(code));
    }
}

ro_net_code
ro_exchange_transfer_done(ro_exchange *exchange, ro_net_code code)
{
    exchange->transfer_open = false;
    ro_transfer_release(exchange->transfer);
    exchange->transfer = NULL;
    /* Trailers come behind the last chunk: then the body is whole. */
    return code == RO_NET_HEADERS_TOO_LARGE && exchange->data.len != 0
               ? RO_NET_OK
               : code;
}

/* ---- ends ---- */

static void
leave_waiting(ro_exchange *exchange)
{
    ro_exchange **link = &exchange->session->waiting;
    if (!exchange->is_waiting) {
        return;
    }
    while (*link != exchange) {
        link = &(*link)->next_waiting;
    }
    *link = exchange->next_waiting;
    exchange->is_waiting = false;
}

void
ro_exchange_reply(ro_exchange *exchange, long status, ro_buf *body)
{
    ro_reply *reply = exchange->reply;
    if (exchange->replied) {
        return;
    }
    exchange->replied = true;
    exchange->reply = NULL;
    leave_waiting(exchange);
    ro_exchange_stop_timer(exchange, &exchange->timer);
    ro_exchange_stop_timer(exchange, &exchange->push_timer);
    if (exchange->stream != NULL) {
        ro_event_stream_close(exchange->stream);
    }
    reply->ticket = exchange->ticket;
    reply->status = status;
    reply->headers = exchange->kept;
    memset(&exchange->kept, 0, sizeof(exchange->kept));
    if (body != NULL) {
        reply->body = ro_buf_steal(body, &reply->body_len);
    }
    ro_replies_push(exchange->session->mcp->replies, reply);
}

bool
ro_exchange_be_json(ro_exchange *exchange)
{
    return ro_header_list_set(&exchange->kept, ro_slice_str("content-type"),
                              ro_slice_str("application/json"));
}

void
ro_exchange_reply_json(ro_exchange *exchange, ro_buf *body)
{
    if (ro_exchange_be_json(exchange)) {
        ro_exchange_reply(exchange, 200, body);
    }
    else {
        ro_exchange_reply(exchange, 503, NULL);
    }
}

void
ro_exchange_fail(ro_exchange *exchange, ro_code code, ro_reason reason)
{
    ro_session *session = exchange->session;
    if (exchange->replied) {
        return;
    }
    if (exchange->kind == RO_KIND_CALL) {
        ro_record_failure(session->mcp->record, code);
    }
    else if (!session->call_phase) {
        ro_discovery_note(session->mcp->discovery, session->server, reason);
    }
    if (exchange->kind == RO_KIND_RAW) {
        ro_exchange_reply(exchange, 503, NULL);
    }
    else if (exchange->kind == RO_KIND_NOTIFY) {
        /* Nobody waits for its answer: the next request reports the reason. */
        session->broken = true;
        session->broken_reason = reason;
        ro_exchange_reply(exchange, 202, NULL);
    }
    else {
        ro_buf message;
        ro_buf_init(&message, RO_MAX_ANSWER);
        if (ro_rpc_write_failure(&message, exchange->id) == RO_BUF_OK) {
            ro_exchange_reply_json(exchange, &message);
        }
        else {
            ro_exchange_reply(exchange, 503, NULL);
        }
        ro_buf_free(&message);
    }
    if (exchange->kind == RO_KIND_CALL) {
        ro_mcp_end_sessions(session->mcp);
    }
}
