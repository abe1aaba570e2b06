#include "mcp/post.h"

#include "core/alloc.h"
#include "core/json.h"
#include "core/limits.h"
#include "mcp/ahead.h"
#include "mcp/allowance.h"
#include "mcp/answer.h"
#include "mcp/exchange.h"
#include "mcp/event_stream.h"
#include "mcp/message.h"
#include "mcp/request.h"
#include "mcp/response.h"
#include "mcp/result.h"

static void
too_large(ro_exchange *exchange)
{
    ro_exchange_fail(exchange, RO_CODE_RESULT_TOO_LARGE, RO_REASON_TOO_LARGE);
}

/* ---- the answer as an event stream ---- */

static bool
count(void *ctx, size_t len)
{
    ro_exchange *exchange = ctx;
    if (exchange->replied) {
        return false;
    }
    exchange->received += len;
    if (exchange->received > exchange->cap
        || !ro_discovery_count(exchange->session->mcp->discovery, len)) {
        too_large(exchange);
        return false;
    }
    return true;
}

static ro_sink_verdict
pass_over(ro_exchange *exchange)
{
    if (ro_session_pass_over(exchange->session)) {
        return RO_SINK_MORE;
    }
    ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE, RO_REASON_JUNK);
    return RO_SINK_STOP;
}

static ro_sink_verdict
stream_event(void *ctx, const ro_sse_event *event)
{
    ro_exchange *exchange = ctx;
    ro_message message;
    if (!ro_event_is_message(event)) {
        return RO_SINK_MORE;
    }
    ro_message_read(event->data, &message);
    switch (message.kind) {
    case RO_MESSAGE_REQUEST:
        ro_session_answer(exchange->session, &message.rpc);
        return RO_SINK_MORE;
    case RO_MESSAGE_NOTIFICATION:
        return RO_SINK_MORE;
    case RO_MESSAGE_ANSWER:
        break;
    case RO_MESSAGE_CLAIM:
        if (ro_rpc_id_equal(message.id, exchange->id)) {
            break;
        }
        return pass_over(exchange);
    case RO_MESSAGE_JUNK:
        return pass_over(exchange);
    case RO_MESSAGE_NO_MEMORY:
        ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE, RO_REASON_MEMORY);
        return RO_SINK_STOP;
    }
    ro_exchange_answer(exchange, message.text);
    return RO_SINK_STOP;
}

static void
stream_unreadable(void *ctx, ro_sse_code code)
{
    ro_exchange *exchange = ctx;
    if (code == RO_SSE_TOO_LARGE) {
        too_large(exchange);
    }
    else {
        ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE, RO_REASON_MEMORY);
    }
}

/* A body of the stream ended without the answer: resume or fail. */
static void
resume(ro_exchange *exchange, ro_net_code code)
{
    ro_event_stream *stream = exchange->stream;
    ro_reason reason
        = code == RO_NET_OK ? RO_REASON_STREAM_ENDED : ro_reason_of_net(code);
    if (code != RO_NET_CANCELLED && code != RO_NET_SHUT_DOWN
        && !stream->stopped && stream->last_id_len != 0
        && stream->resumed < RO_MAX_RESUMES) {
        if (ro_event_stream_again(stream, -1)) {
            return;
        }
        reason = RO_REASON_STREAM_ENDED;
    }
    ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE, reason);
}

static void
get_ended(void *ctx, ro_net_code code)
{
    ro_exchange *exchange = ctx;
    if (!exchange->replied) {
        resume(exchange, code);
    }
    ro_exchange_settle(exchange);
}

static ro_sink_verdict get_head(void *ctx, const ro_head *head);

static const ro_stream_owner owner = {
    .head = get_head,
    .count = count,
    .event = stream_event,
    .unreadable = stream_unreadable,
    .ended = get_ended,
};

bool
ro_post_stream(ro_exchange *exchange)
{
    exchange->stream = ro_calloc(1, sizeof(*exchange->stream));
    if (exchange->stream == NULL) {
        ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE, RO_REASON_MEMORY);
        return false;
    }
    ro_event_stream_init(exchange->stream, exchange->session, &owner, exchange,
                         exchange->cap);
    ro_event_stream_aim(exchange->stream, exchange->url, &exchange->headers);
    ro_event_stream_begin(exchange->stream);
    return true;
}

/* ---- heads ---- */

/* Hand the head up as it is, for the SDK's redirect rule or an auth flow. */
static ro_sink_verdict
reply_head(ro_exchange *exchange, const ro_head *head)
{
    if (!ro_response_keep(&exchange->kept, head)) {
        ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE, RO_REASON_MEMORY);
        return RO_SINK_FAIL;
    }
    ro_exchange_reply(exchange, head->status, NULL);
    return RO_SINK_STOP;
}

/* Response headers that the SDK reads. */
static bool
keep_headers(ro_exchange *exchange, const ro_head *head)
{
    static const char *const names[] = {"mcp-session-id", "set-cookie"};
    for (size_t i = 0; i < head->n_headers; i++) {
        for (size_t n = 0; n < 2; n++) {
            if (ro_header_name_is(head->headers[i].name, names[n])
                && head->headers[i].value.len <= RO_MAX_HEADER_VALUE
                && !ro_header_list_add(&exchange->kept, head->headers[i].name,
                                       head->headers[i].value)) {
                return false;
            }
        }
    }
    return true;
}

/* What the answer to a session's own initialize settles: its id, and its
 * endpoint, which redirects on the way have moved. */
static bool
keep_session(ro_exchange *exchange, const ro_head *head)
{
    ro_session *session = exchange->session;
    ro_http *http = session->state;
    ro_slice id;
    if (exchange->kind != RO_KIND_INITIALIZE || http->id != NULL) {
        return true;
    }
    char *url = ro_memdup(exchange->url, strlen(exchange->url));
    if (url == NULL) {
        return false;
    }
    ro_free(session->url);
    session->url = url;
    if (!ro_header_find(head->headers, head->n_headers, "mcp-session-id", &id)
        || id.len == 0 || id.len > RO_MAX_HEADER_VALUE) {
        return true;
    }
    http->id = ro_memdup(id.ptr, id.len);
    http->id_len = http->id == NULL ? 0 : id.len;
    return http->id != NULL;
}

/* Keep what every success brings. */
static bool
keep(ro_exchange *exchange, const ro_head *head)
{
    if (keep_headers(exchange, head) && keep_session(exchange, head)) {
        return true;
    }
    ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE, RO_REASON_MEMORY);
    return false;
}

static ro_sink_verdict
no_answer(ro_exchange *exchange, const ro_head *head)
{
    ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE,
                     ro_response_reason(head));
    return RO_SINK_STOP;
}

/* The head of a GET that resumes the stream. */
static ro_sink_verdict
get_head(void *ctx, const ro_head *head)
{
    ro_exchange *exchange = ctx;
    if (exchange->replied) {
        return RO_SINK_FAIL;
    }
    if (ro_response_of(head) != RO_RESPONSE_EVENTS) {
        return no_answer(exchange, head);
    }
    return keep(exchange, head) ? RO_SINK_MORE : RO_SINK_FAIL;
}

/* The SDK judges a redirect and an auth flow a challenge, but neither of the
 * call. */
static bool
goes_up(const ro_exchange *exchange, ro_response response)
{
    return exchange->kind != RO_KIND_CALL
           && (response == RO_RESPONSE_REDIRECT
               || (response == RO_RESPONSE_CHALLENGE
                   && ro_session_may_log_in(exchange->session)));
}

static ro_sink_verdict
on_head(void *ctx, const ro_head *head)
{
    ro_exchange *exchange = ctx;
    ro_response response = ro_response_of(head);
    ro_slice length;
    if (exchange->replied) {
        return RO_SINK_FAIL;
    }
    if (goes_up(exchange, response)) {
        return reply_head(exchange, head);
    }
    /* The status is all that the SDK reads of a notification's answer. */
    if (exchange->kind == RO_KIND_NOTIFY && ro_response_is_success(response)) {
        if (!keep_headers(exchange, head)) {
            return RO_SINK_FAIL;
        }
        ro_exchange_reply(exchange, 202, NULL);
        return RO_SINK_STOP;
    }
    if (response <= RO_RESPONSE_EMPTY) { /* refused, or taken for good */
        return no_answer(exchange, head);
    }
    if (!keep(exchange, head)) {
        return RO_SINK_FAIL;
    }
    if (response == RO_RESPONSE_EVENTS) {
        return ro_post_stream(exchange) ? RO_SINK_MORE : RO_SINK_FAIL;
    }
    if (response != RO_RESPONSE_JSON) {
        return no_answer(exchange, head);
    }
    /* Then a document that is whole may still be followed by more of it. */
    exchange->sized = ro_header_find(head->headers, head->n_headers,
                                     "content-length", &length);
    return RO_SINK_MORE;
}

/* ---- the answer as one JSON document ---- */

/* Whether a whole document cannot become the answer, whatever follows. */
static bool
is_no_answer(const ro_exchange *exchange, ro_slice document)
{
    ro_rpc rpc;
    if (exchange->kind == RO_KIND_CALL) {
        return ro_result_judge(document, exchange->id, NULL)
               == RO_RESULT_MALFORMED;
    }
    ro_rpc_kind kind = ro_rpc_classify(document, &rpc);
    return (kind != RO_RPC_RESULT && kind != RO_RPC_ERROR)
           || !ro_rpc_id_equal(rpc.id, exchange->id);
}

/* Why the body is wrong already; NONE when it may become right, or is right
 * with what there is of it (*whole). */
static ro_reason
wrong_already(const ro_exchange *exchange, bool *whole)
{
    ro_json_limits loose = {exchange->cap, RO_MAX_DEPTH, true};
    if (exchange->kind == RO_KIND_LIST) {
        loose.max_depth += RO_LIST_EXTRA_DEPTH;
    }
    else if (exchange->kind == RO_KIND_CALL) {
        loose.keep_duplicates = false;
    }
    ro_slice body = ro_buf_slice(&exchange->data);
    *whole = false;
    switch (ro_json_validate(body, &loose, NULL)) {
    case RO_JSON_OK:
        *whole = !is_no_answer(exchange, body);
        return *whole ? RO_REASON_NONE : RO_REASON_NOT_AN_ANSWER;
    case RO_JSON_TRUNCATED:
    case RO_JSON_EMPTY:
    case RO_JSON_NO_MEMORY: /* the end will tell */
        return RO_REASON_NONE;
    case RO_JSON_DEPTH:
        return exchange->kind == RO_KIND_LIST ? RO_REASON_LIST_TOO_DEEP
                                              : RO_REASON_NOT_JSON;
    default:
        return RO_REASON_NOT_JSON;
    }
}

/* A body that is wrong already is not waited for. Nor is the end of one that
 * is whole, unless its length says that more of it comes: a last chunk, a
 * trailer or the close of a connection may never come. */
static void
look(void *ctx)
{
    ro_exchange *exchange = ctx;
    bool whole;
    exchange->timer = NULL;
    ro_reason reason = wrong_already(exchange, &whole);
    if (whole && !exchange->sized) {
        ro_exchange_answer(exchange, ro_buf_slice(&exchange->data));
        ro_transfer_cancel(exchange->transfer);
    }
    else if (reason != RO_REASON_NONE) {
        ro_exchange_fail(exchange, RO_CODE_MALFORMED_RESULT, reason);
        ro_transfer_cancel(exchange->transfer);
    }
}

static ro_sink_verdict
on_json(ro_exchange *exchange, const char *bytes, size_t len)
{
    ro_buf_code code = ro_buf_append(&exchange->data, bytes, len);
    if (code == RO_BUF_TOO_LARGE) {
        too_large(exchange);
        return RO_SINK_FAIL;
    }
    if (code != RO_BUF_OK) {
        ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE, RO_REASON_MEMORY);
        return RO_SINK_FAIL;
    }
    if (exchange->timer == NULL) {
        exchange->timer = ro_net_after(exchange->session->mcp->net,
                                       RO_BODY_LOOK_MS, look, exchange);
    }
    return RO_SINK_MORE;
}

/* ---- the POST ---- */

static ro_sink_verdict
on_data(void *ctx, const char *bytes, size_t len)
{
    ro_exchange *exchange = ctx;
    if (exchange->stream != NULL) {
        return ro_event_stream_data(exchange->stream, bytes, len);
    }
    return count(exchange, len) ? on_json(exchange, bytes, len) : RO_SINK_FAIL;
}

static void
on_done(void *ctx, ro_net_code code)
{
    ro_exchange *exchange = ctx;
    code = ro_exchange_transfer_done(exchange, code);
    ro_exchange_stop_timer(exchange, &exchange->timer);
    if (exchange->replied) {
        /* whatever came after it */
    }
    else if (exchange->stream != NULL) {
        resume(exchange, code);
    }
    else if (code != RO_NET_OK) {
        ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE,
                         ro_reason_of_net(code));
    }
    else {
        ro_exchange_answer(exchange, ro_buf_slice(&exchange->data));
    }
    ro_exchange_settle(exchange);
}

void
ro_post_send(ro_exchange *exchange)
{
    ro_sink sink = {exchange, on_head, on_data, on_done};
    ro_request request;
    ro_exchange_request(exchange, &request);
    /* The call must not reach the server twice; the rest may. */
    request.sending
        = exchange->kind == RO_KIND_CALL ? RO_SEND_WARY : RO_SEND_AGAIN;
    exchange->transfer_open = ro_ahead_take(exchange->session, &request, &sink,
                                            &exchange->transfer);
    if (!exchange->transfer_open) {
        ro_exchange_send(exchange, &request, &sink);
    }
}
