/* The event stream of an exchange: events, the server's requests between
 * them, resumption. */
#include "net/exchange.h"

#include "core/alloc.h"
#include "core/json.h"
#include "core/limits.h"

bool
ro_exchange_event(void *ctx, const ro_sse_event *event)
{
    static const ro_json_limits loose
        = {RO_MAX_DISCOVERY, RO_MAX_DEPTH + RO_LIST_EXTRA_DEPTH, true};
    ro_exchange *exchange = ctx;
    ro_rpc rpc;
    if (event->has_id) {
        ro_free(exchange->event_id);
        exchange->event_id = ro_memdup(event->last_id.ptr, event->last_id.len);
        exchange->event_id_len
            = exchange->event_id == NULL ? 0 : event->last_id.len;
    }
    if (event->retry_ms >= 0) {
        exchange->retry_ms = event->retry_ms;
    }
    if (!event->has_data || event->data.len == 0
        || !ro_slice_equal(event->type, ro_slice_str("message"))) {
        return true;
    }
    ro_json_code json = ro_json_validate(event->data, &loose, NULL);
    if (json != RO_JSON_OK) {
        ro_exchange_fail(exchange,
                         json == RO_JSON_NO_MEMORY ? RO_CODE_RUNTIME_FAILURE
                                                   : RO_CODE_MALFORMED_RESULT,
                         "not_json");
        return false;
    }
    switch (ro_rpc_classify(event->data, &rpc)) {
    case RO_RPC_REQUEST:
        ro_session_answer(exchange->session, &exchange->headers, &rpc);
        return true;
    case RO_RPC_NOTIFICATION:
        return true;
    case RO_RPC_RESULT:
    case RO_RPC_ERROR:
    case RO_RPC_INVALID:
        break;
    }
    ro_exchange_answer(exchange, event->data);
    return false;
}

static void
resume(void *ctx)
{
    ro_exchange *exchange = ctx;
    ro_header_list headers = {NULL, 0, 0};
    exchange->timer = NULL;
    if (!ro_header_list_copy(&headers, exchange->headers.items,
                             exchange->headers.count)
        || !ro_header_list_set(&headers, ro_slice_str("accept"),
                               ro_slice_str("text/event-stream"))
        || !ro_header_list_set(&headers, ro_slice_str("cache-control"),
                               ro_slice_str("no-store"))
        || !ro_header_list_set(
            &headers, ro_slice_str("last-event-id"),
            ro_slice_of(exchange->event_id, exchange->event_id_len))) {
        ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE, "memory");
    }
    else {
        ro_header_list_drop(&headers, ro_slice_str("content-type"));
        ro_exchange_send(exchange, "GET", &headers, ro_slice_of("", 0), false);
    }
    ro_header_list_free(&headers);
    ro_exchange_settle(exchange);
}

void
ro_exchange_stream_end(ro_exchange *exchange, ro_net_code code)
{
    if (exchange->event_id_len == 0 || exchange->resumes == RO_MAX_RESUMES) {
        ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE,
                         code == RO_NET_OK ? "stream_ended" : "connection");
        return;
    }
    int wanted = exchange->retry_ms >= 0 ? exchange->retry_ms : 1000;
    int delay = ro_session_get_delay(exchange->session, wanted);
    exchange->resumes++;
    if (delay >= 0) {
        exchange->timer = ro_net_after(exchange->session->mcp->net, delay,
                                       resume, exchange);
    }
    if (exchange->timer == NULL) {
        ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE, "stream_ended");
    }
}
