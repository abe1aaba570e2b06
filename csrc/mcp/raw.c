#include "mcp/raw.h"

#include "core/limits.h"
#include "mcp/exchange.h"
#include "mcp/request.h"
#include "mcp/response.h"

static ro_sink_verdict
raw_head(void *ctx, const ro_head *head)
{
    ro_exchange *exchange = ctx;
    exchange->status = head->status;
    if (!exchange->replied && !ro_response_keep(&exchange->kept, head)) {
        ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE, RO_REASON_MEMORY);
    }
    return exchange->replied ? RO_SINK_FAIL : RO_SINK_MORE;
}

static ro_sink_verdict
raw_data(void *ctx, const char *bytes, size_t len)
{
    ro_exchange *exchange = ctx;
    if (exchange->replied) {
        return RO_SINK_FAIL;
    }
    ro_buf_code code
        = ro_discovery_count(exchange->session->mcp->discovery, len)
              ? ro_buf_append(&exchange->data, bytes, len)
              : RO_BUF_TOO_LARGE;
    if (code == RO_BUF_OK) {
        return RO_SINK_MORE;
    }
    ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE,
                     code == RO_BUF_TOO_LARGE ? RO_REASON_TOO_LARGE
                                              : RO_REASON_MEMORY);
    return RO_SINK_FAIL;
}

static void
raw_done(void *ctx, ro_net_code code)
{
    ro_exchange *exchange = ctx;
    code = ro_exchange_transfer_done(exchange, code);
    if (!exchange->replied) {
        if (code == RO_NET_OK) {
            ro_exchange_reply(exchange, exchange->status, &exchange->data);
        }
        else {
            ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE,
                             ro_reason_of_net(code));
        }
    }
    ro_exchange_settle(exchange);
}

void
ro_raw_send(ro_exchange *exchange)
{
    ro_sink sink = {exchange, raw_head, raw_data, raw_done};
    ro_request request;
    ro_exchange_request(exchange, &request);
    /* A POST may be a grant, which is good for one use. */
    request.sending
        = strcmp(exchange->method, "GET") == 0 ? RO_SEND_AGAIN : RO_SEND_ONCE;
    ro_buf_init(&exchange->data, RO_MAX_ANSWER);
    ro_exchange_send(exchange, &request, &sink);
}
