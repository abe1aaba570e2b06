/* Whatever a server says: one request has one reply, which the SDK can read,
 * and what is recorded of the call is what the reply says.
 *
 * The first byte chooses the request and how its answer is carried; the rest
 * is the server's bytes. No network: the worker has ended before.
 */
#include <stdint.h>
#include <stdlib.h>

#include "core/alloc.h"
#include "core/json.h"
#include "core/limits.h"
#include "mcp/answer.h"
#include "mcp/event_stream.h"
#include "mcp/exchange.h"
#include "mcp/http.h"
#include "mcp/post.h"
#include "mcp/session.h"
#include "mcp/start.h"
#include "mcp/waiting.h"

#define URL "http://127.0.0.1/mcp"
#define TICKET 77u

static void
require(bool condition)
{
    if (!condition) {
        abort();
    }
}

/* ---- a carrier that keeps nothing ---- */

static void
carry(ro_exchange *exchange)
{
    ro_buf line;
    ro_buf_init(&line, RO_MAX_REQUEST);
    require(!exchange->replied);
    require(ro_waiting_enter(exchange, &line));
    require(memchr(line.data, '\n', line.len) == NULL);
    ro_buf_free(&line);
}

static void
carry_answer(ro_session *session, ro_slice message)
{
    static const ro_json_limits limits
        = {RO_MAX_REQUEST, RO_MAX_DEPTH + RO_LIST_EXTRA_DEPTH + 2, false};
    ro_rpc rpc;
    (void)session;
    require(ro_json_validate(message, &limits, NULL) == RO_JSON_OK);
    ro_rpc_kind kind = ro_rpc_classify(message, &rpc);
    require(kind == RO_RPC_RESULT || kind == RO_RPC_ERROR);
    require(memchr(message.ptr, '\n', message.len) == NULL);
}

static void
end_nothing(ro_session *session)
{
    (void)session;
}

static void
free_state(void *state)
{
    ro_http_carrier.free(state);
}

static const ro_carrier carrier
    = {carry, carry_answer, end_nothing, free_state};

/* ---- the server's bytes ---- */

static bool
on_event(void *ctx, const ro_sse_event *event)
{
    ro_session *session = ctx;
    if (event->has_data && event->data.len != 0) {
        ro_waiting_message(session, event->data);
    }
    return session->waiting != NULL;
}

static void
feed_lines(ro_session *session, ro_slice bytes)
{
    while (bytes.len != 0) {
        const char *feed = memchr(bytes.ptr, '\n', bytes.len);
        size_t len = feed == NULL ? bytes.len : (size_t)(feed - bytes.ptr);
        ro_waiting_count(session, len);
        ro_waiting_message(session, ro_slice_of(bytes.ptr, len));
        len += feed != NULL;
        bytes = ro_slice_of(bytes.ptr + len, bytes.len - len);
    }
}

static bool
parse(void *sse, const char *bytes, size_t len)
{
    return ro_sse_feed(sse, bytes, len) == RO_SSE_OK;
}

static bool
receive(void *stream, const char *bytes, size_t len)
{
    return ro_event_stream_data(stream, bytes, len) == RO_SINK_MORE;
}

/* In chunks, until one is refused. */
static void
feed_stream(bool (*take)(void *ctx, const char *bytes, size_t len), void *ctx,
            ro_slice bytes)
{
    size_t chunk = bytes.len % 13 + 1;
    while (bytes.len != 0) {
        size_t part = bytes.len < chunk ? bytes.len : chunk;
        if (!take(ctx, bytes.ptr, part)) {
            return;
        }
        bytes = ro_slice_of(bytes.ptr + part, bytes.len - part);
    }
}

static void
feed(ro_session *session, unsigned how, ro_slice bytes)
{
    ro_sse sse;
    switch (how % 4) {
    case 0:
        feed_lines(session, bytes);
        break;
    case 1: /* an older server's stream */
        ro_sse_init(&sse, RO_MAX_ANSWER, RO_MAX_HEADER_VALUE, on_event,
                    session);
        feed_stream(parse, &sse, bytes);
        ro_sse_free(&sse);
        break;
    case 2: /* the stream of the exchange itself */
        session->waiting->transfer_open = true; /* keeps it until the end */
        require(ro_post_stream(session->waiting));
        feed_stream(receive, session->waiting->stream, bytes);
        break;
    default: /* a body */
        session->waiting->transfer_open = true;
        ro_exchange_answer(session->waiting, bytes);
        break;
    }
    if (session->mcp->exchanges != NULL) {
        session->mcp->exchanges->transfer_open = false;
    }
}

/* ---- what has to hold ---- */

static void
check_reply(ro_record *record, const ro_reply *reply, ro_slice id,
            bool is_call)
{
    static const ro_json_limits limits
        = {RO_MAX_DISCOVERY, RO_MAX_DEPTH + RO_LIST_EXTRA_DEPTH, true};
    static const ro_json_limits strict = {RO_MAX_ANSWER, RO_MAX_DEPTH, false};
    ro_rpc rpc;
    ro_code code = RO_CODE_OK;
    ro_slice body = ro_slice_of(reply->body, reply->body_len);
    require(reply->ticket == TICKET && reply->next == NULL);
    require(reply->status == 200);
    require(ro_json_validate(body, &limits, NULL) == RO_JSON_OK);
    ro_rpc_kind kind = ro_rpc_classify(body, &rpc);
    require(kind == RO_RPC_RESULT || kind == RO_RPC_ERROR);
    require(ro_rpc_id_equal(rpc.id, id));
    require(ro_record_outcome(record, &code) == is_call);
    if (is_call) {
        ro_slice structured = ro_record_structured(record);
        require((code == RO_CODE_OK) == (kind == RO_RPC_RESULT));
        require(code == RO_CODE_OK || structured.len == 0);
        require(structured.len == 0
                || (ro_json_validate(structured, &strict, NULL) == RO_JSON_OK
                    && ro_json_type_of(structured) == RO_JSON_OBJECT));
    }
}

static const char entry[] = "{\"name\":\"t\",\"outputSchema\":{},"
                            "\"annotations\":{\"readOnlyHint\":true}}";

static const struct {
    const char *method;
    const char *id;
    const char *body;
} requests[] = {
    {"initialize", "0",
     "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\"}"},
    {"tools/list", "\"l\"",
     "{\"jsonrpc\":\"2.0\",\"id\":\"l\",\"method\":\"tools/list\"}"},
    {"tools/call", "2",
     "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\",\"params\":"
     "{\"name\":\"t\"}}"},
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static ro_net *net; /* ended: refuses everything */
    static const ro_session_options options
        = {{"s", 1}, URL, "", "", "", false, false};
    if (size == 0) {
        return 0;
    }
    if (net == NULL) {
        net = ro_net_new();
        require(ro_net_shut_down(net, 5000));
    }
    unsigned which = data[0] % 3u;
    bool is_call = which == 2;
    ro_discovery *discovery = ro_discovery_new(ro_slice_str("s_t"));
    ro_gate *gate = ro_gate_new(ro_slice_str("s_t"));
    ro_record *record = ro_record_new();
    ro_mcp *mcp = ro_mcp_new(net, discovery, gate, record);
    if (is_call) {
        require(ro_discovery_add(discovery, ro_slice_str("s"),
                                 ro_slice_str(entry)));
    }
    ro_session *session = ro_mcp_session(mcp, &options);
    require(session != NULL);
    session->carrier = &carrier;
    require(!is_call
            || ro_gate_open(gate, discovery, ro_slice_str("s"),
                            ro_slice_str("{}")));
    ro_exchange *exchange
        = ro_exchange_new(session, TICKET, "POST", URL, NULL, 0,
                          ro_slice_str(requests[which].body), true);
    require(exchange != NULL);
    ro_exchange_start(exchange);
    require(session->waiting == exchange);
    /* a copy, so that a read behind the end is seen */
    char *bytes = ro_memdup((const char *)data + 1, size - 1);
    feed(session, data[0] / 3u, ro_slice_of(bytes, size - 1));
    ro_waiting_closed(session, RO_REASON_EXITED);
    ro_reply *reply = ro_replies_take(ro_mcp_replies(mcp));
    require(reply != NULL);
    check_reply(record, reply, ro_slice_str(requests[which].id), is_call);
    ro_reply_free(reply);
    ro_free(bytes);
    ro_mcp_free(mcp);
    ro_discovery_free(discovery);
    ro_gate_free(gate);
    ro_record_free(record);
    return 0;
}
