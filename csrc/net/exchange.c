#include "net/exchange.h"

#include "core/alloc.h"
#include "core/json.h"
#include "core/limits.h"
#include "core/result.h"

/* milliseconds between two looks at a body that is still arriving */
#define LOOK_MS 250

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
    exchange->retry_ms = -1;
    exchange->method = ro_memdup(method, strlen(method));
    exchange->url = ro_memdup(url, strlen(url));
    exchange->body = ro_memdup(body.ptr, body.len);
    exchange->body_len = body.len;
    if (exchange->method == NULL || exchange->url == NULL
        || exchange->body == NULL
        || !ro_header_list_copy(&exchange->headers, headers, n_headers)) {
        ro_exchange_free(exchange);
        return NULL;
    }
    ro_header_list_drop(&exchange->headers, ro_slice_str("content-length"));
    ro_header_list_drop(&exchange->headers,
                        ro_slice_str("transfer-encoding"));
    return exchange;
}

void
ro_exchange_free(ro_exchange *exchange)
{
    if (exchange == NULL) {
        return;
    }
    ro_free(exchange->method);
    ro_free(exchange->url);
    ro_free(exchange->body);
    ro_free(exchange->event_id);
    ro_header_list_free(&exchange->headers);
    ro_header_list_free(&exchange->kept);
    ro_buf_free(&exchange->data);
    ro_sse_free(&exchange->sse);
    ro_free(exchange);
}

static void
stop_timer(ro_exchange *exchange, ro_timer **timer)
{
    if (*timer != NULL) {
        ro_timer_stop(exchange->session->mcp->net, *timer);
        *timer = NULL;
    }
}

/* Free what nobody will call again. */
static void
settle(ro_exchange *exchange)
{
    if (exchange->replied && !exchange->transfer_open) {
        ro_exchange_free(exchange);
    }
}

/* ---- ends ---- */

void
ro_exchange_reply(ro_exchange *exchange, long status, ro_slice body)
{
    if (exchange->replied) {
        return;
    }
    exchange->replied = true;
    stop_timer(exchange, &exchange->timer);
    stop_timer(exchange, &exchange->push_timer);
    ro_reply *reply = ro_calloc(1, sizeof(*reply));
    if (reply != NULL) {
        reply->ticket = exchange->ticket;
        reply->status = status;
        reply->headers = exchange->kept;
        memset(&exchange->kept, 0, sizeof(exchange->kept));
        reply->body = ro_memdup(body.ptr, body.len);
        reply->body_len = reply->body == NULL ? 0 : body.len;
        ro_replies_push(exchange->session->mcp->replies, reply);
    }
    else {
        /* without memory for a reply the recorded outcome has to do */
        ro_call_record(exchange->session->mcp->call,
                       RO_CODE_RUNTIME_FAILURE);
        ro_replies_wake(exchange->session->mcp->replies);
    }
}

static void
reply_json(ro_exchange *exchange, ro_slice body)
{
    (void)ro_header_list_set(&exchange->kept, ro_slice_str("content-type"),
                             ro_slice_str("application/json"));
    ro_exchange_reply(exchange, 200, body);
}

void
ro_exchange_fail(ro_exchange *exchange, ro_code code, const char *reason)
{
    ro_session *session = exchange->session;
    if (exchange->replied) {
        return;
    }
    if (exchange->kind == RO_KIND_CALL) {
        ro_call_record(session->mcp->call, code);
    }
    else if (!session->call_phase) {
        ro_call_note(session->mcp->call, session->server, reason);
    }
    if (exchange->kind == RO_KIND_RAW) {
        ro_exchange_reply(exchange, 503, ro_slice_of("", 0));
    }
    else if (exchange->kind == RO_KIND_NOTIFY) {
        session->broken = true;
        ro_exchange_reply(exchange, 202, ro_slice_of("", 0));
    }
    else {
        ro_buf message;
        ro_buf_init(&message, RO_MAX_ANSWER);
        if (ro_rpc_write_error(&message, exchange->id, RO_RPC_INTERNAL_ERROR,
                               "The request failed.")
            != RO_BUF_OK) {
            ro_buf_clear(&message);
        }
        reply_json(exchange, ro_buf_slice(&message));
        ro_buf_free(&message);
    }
    if (exchange->kind == RO_KIND_CALL) {
        ro_mcp_end_sessions(session->mcp);
    }
}

/* ---- answers ---- */

static void
answer_call(ro_exchange *exchange, ro_slice message)
{
    static const ro_json_limits strict = {RO_MAX_ANSWER, RO_MAX_DEPTH, false};
    ro_call *call = exchange->session->mcp->call;
    ro_result result;
    ro_json_code json = ro_json_validate(message, &strict, NULL);
    if (json == RO_JSON_NO_MEMORY) {
        ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE, "memory");
        return;
    }
    if (json != RO_JSON_OK) {
        ro_exchange_fail(exchange, RO_CODE_MALFORMED_RESULT, "malformed");
        return;
    }
    ro_result_code code = ro_result_judge(message, exchange->id, &result);
    if (code != RO_RESULT_OK) {
        ro_exchange_fail(exchange, ro_result_envelope_code(code),
                         "malformed");
        return;
    }
    /* The SDK checks structuredContent against an output schema and the
     * adapter converts the blocks; nothing else of the result is used. */
    ro_buf up;
    ro_buf_init(&up, RO_MAX_ANSWER + 1024);
    ro_buf_code built = ro_buf_append_slice(
        &up, ro_slice_str("{\"jsonrpc\":\"2.0\",\"id\":"));
    if (built == RO_BUF_OK) {
        built = ro_buf_append_slice(&up, exchange->id);
    }
    if (built == RO_BUF_OK) {
        built = ro_buf_append_slice(
            &up, ro_slice_str(",\"result\":{\"content\":"));
    }
    if (built == RO_BUF_OK) {
        built = ro_buf_append_slice(&up, result.content);
    }
    if (built == RO_BUF_OK && result.structured_content.len != 0
        && ro_call_has_output_schema(call, exchange->session->server)) {
        built = ro_buf_append_slice(&up,
                                    ro_slice_str(",\"structuredContent\":"));
        if (built == RO_BUF_OK) {
            built = ro_buf_append_slice(&up, result.structured_content);
        }
    }
    if (built == RO_BUF_OK) {
        built = ro_buf_append_slice(&up, ro_slice_str("}}"));
    }
    if (built != RO_BUF_OK) {
        ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE, "memory");
    }
    else {
        ro_call_record_ok(call, result.structured_content);
        reply_json(exchange, ro_buf_slice(&up));
        ro_mcp_end_sessions(exchange->session->mcp);
    }
    ro_buf_free(&up);
}

static bool
keep_entry(void *arg, ro_slice entry)
{
    const ro_exchange *exchange = arg;
    return ro_call_add_entry(exchange->session->mcp->call,
                             exchange->session->server, entry);
}

static void
answer_list(ro_exchange *exchange, ro_slice message)
{
    ro_session *session = exchange->session;
    ro_list list;
    ro_buf prefix;
    ro_buf up;
    ro_buf_init(&prefix, 65536);
    ro_buf_init(&up, RO_MAX_DISCOVERY + 1024);
    ro_list_query query = {
        .tool = ro_call_tool(session->mcp->call),
        .max_depth = RO_MAX_DEPTH,
        .entry = keep_entry,
        .arg = exchange,
    };
    if (ro_buf_append_slice(&prefix, session->server) != RO_BUF_OK
        || ro_buf_append_char(&prefix, '_') != RO_BUF_OK) {
        ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE, "memory");
        goto done;
    }
    query.prefix = ro_buf_slice(&prefix);
    ro_list_code code = ro_list_reduce(message, &query, &list, &up);
    if (code != RO_LIST_OK || !ro_rpc_id_equal(list.id, exchange->id)) {
        ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE,
                         code == RO_LIST_TOO_DEEP ? "list_too_deep"
                                                  : "list_malformed");
        goto done;
    }
    if (list.next_cursor.len != 0
        && ro_cursors_add(&session->cursors, list.next_cursor)
               != RO_CURSOR_NEW) {
        ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE,
                         "list_cursor_repeated");
        goto done;
    }
    reply_json(exchange, ro_buf_slice(&up));
done:
    ro_buf_free(&prefix);
    ro_buf_free(&up);
}

void
ro_exchange_answer(ro_exchange *exchange, ro_slice message)
{
    if (exchange->replied) {
        return;
    }
    if (exchange->kind == RO_KIND_CALL) {
        answer_call(exchange, message);
        return;
    }
    ro_json_limits loose = {exchange->cap, RO_MAX_DEPTH, true};
    if (exchange->kind == RO_KIND_LIST) {
        loose.max_depth += RO_LIST_EXTRA_DEPTH;
    }
    if (ro_json_validate(message, &loose, NULL) != RO_JSON_OK) {
        ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE, "not_json");
        return;
    }
    if (exchange->kind == RO_KIND_LIST) {
        answer_list(exchange, message);
        return;
    }
    ro_rpc rpc;
    ro_rpc_kind kind = ro_rpc_classify(message, &rpc);
    if ((kind != RO_RPC_RESULT && kind != RO_RPC_ERROR)
        || !ro_rpc_id_equal(rpc.id, exchange->id)) {
        ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE, "not_an_answer");
    }
    else if (kind == RO_RPC_ERROR
             || ro_json_type_of(rpc.result) != RO_JSON_OBJECT) {
        ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE, "refused");
    }
    else {
        reply_json(exchange, ro_json_root(message));
    }
}

/* ---- the transfer ---- */

static void
too_large(ro_exchange *exchange)
{
    ro_exchange_fail(exchange, RO_CODE_RESULT_TOO_LARGE, "too_large");
}

static bool
media_type_is(ro_slice value, const char *type)
{
    size_t len = strlen(type);
    while (value.len != 0 && (*value.ptr == ' ' || *value.ptr == '\t')) {
        value.ptr++;
        value.len--;
    }
    if (value.len < len
        || !ro_header_name_is(ro_slice_of(value.ptr, len), type)) {
        return false;
    }
    return value.len == len || value.ptr[len] == ';' || value.ptr[len] == ','
           || value.ptr[len] == ' ' || value.ptr[len] == '\t';
}

static const char *
status_reason(long status)
{
    switch (status) {
    case 401:
        return "http_401";
    case 403:
        return "http_403";
    case 404:
        return "http_404";
    default:
        return status >= 500 ? "http_5xx"
               : status >= 400 ? "http_4xx"
               : status >= 300 ? "redirected"
                               : "no_answer";
    }
}

static bool
is_redirect(long status)
{
    return status == 301 || status == 302 || status == 303 || status == 307
           || status == 308;
}

/* Hand the head up as it is, for the SDK's redirect rule or an auth flow. */
static ro_sink_verdict
reply_head(ro_exchange *exchange, const ro_head *head)
{
    if (!ro_header_list_copy(&exchange->kept, head->headers,
                             head->n_headers)) {
        ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE, "memory");
        return RO_SINK_FAIL;
    }
    ro_header_list_drop(&exchange->kept, ro_slice_str("content-length"));
    ro_header_list_drop(&exchange->kept, ro_slice_str("content-encoding"));
    ro_header_list_drop(&exchange->kept, ro_slice_str("transfer-encoding"));
    if (exchange->kind == RO_KIND_RAW) {
        return RO_SINK_MORE;
    }
    ro_exchange_reply(exchange, head->status, ro_slice_of("", 0));
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
                && !ro_header_list_add(&exchange->kept,
                                       head->headers[i].name,
                                       head->headers[i].value)) {
                return false;
            }
        }
    }
    return true;
}

static bool
keep_session_id(ro_exchange *exchange, const ro_head *head)
{
    ro_session *session = exchange->session;
    ro_slice id;
    if (exchange->kind != RO_KIND_INITIALIZE || session->id != NULL
        || !ro_header_find(head->headers, head->n_headers, "mcp-session-id",
                           &id)
        || id.len == 0 || id.len > RO_MAX_HEADER_VALUE) {
        return true;
    }
    session->id = ro_memdup(id.ptr, id.len);
    session->id_len = id.len;
    return session->id != NULL;
}

static ro_sink_verdict
head_of_answer(ro_exchange *exchange, const ro_head *head)
{
    ro_slice type = {"", 0};
    if (!keep_headers(exchange, head) || !keep_session_id(exchange, head)) {
        ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE, "memory");
        return RO_SINK_FAIL;
    }
    (void)ro_header_find(head->headers, head->n_headers, "content-type",
                         &type);
    if (media_type_is(type, "text/event-stream")) {
        exchange->events = true;
        ro_sse_free(&exchange->sse);
        ro_sse_init(&exchange->sse, exchange->cap, RO_MAX_HEADER_VALUE,
                    ro_exchange_event, exchange);
        return RO_SINK_MORE;
    }
    if (exchange->resumes == 0 && media_type_is(type, "application/json")) {
        exchange->events = false;
        return RO_SINK_MORE;
    }
    ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE, "content_type");
    return RO_SINK_STOP;
}

static ro_sink_verdict
on_head(void *ctx, const ro_head *head)
{
    ro_exchange *exchange = ctx;
    ro_session *session = exchange->session;
    if (exchange->replied) {
        return RO_SINK_FAIL;
    }
    exchange->status = head->status;
    if (exchange->kind == RO_KIND_RAW) {
        return reply_head(exchange, head);
    }
    if (exchange->kind != RO_KIND_CALL && exchange->resumes == 0) {
        bool challenge = session->auth
                         && (head->status == 401 || head->status == 403)
                         && ro_call_gate(session->mcp->call)
                                == RO_GATE_CLOSED;
        if (is_redirect(head->status) || challenge) {
            return reply_head(exchange, head);
        }
    }
    if (exchange->kind == RO_KIND_NOTIFY && head->status >= 200
        && head->status < 300) {
        if (!keep_headers(exchange, head)) {
            return RO_SINK_FAIL;
        }
        ro_exchange_reply(exchange, 202, ro_slice_of("", 0));
        return RO_SINK_STOP;
    }
    if (head->status < 200 || head->status >= 300 || head->status == 202
        || head->status == 204) {
        ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE,
                         status_reason(head->status));
        return RO_SINK_STOP;
    }
    return head_of_answer(exchange, head);
}

/* A body that is wrong already is not waited for. */
static void
look(void *ctx)
{
    ro_exchange *exchange = ctx;
    exchange->timer = NULL;
    ro_json_limits loose = {exchange->cap, RO_MAX_DEPTH, true};
    if (exchange->kind == RO_KIND_LIST) {
        loose.max_depth += RO_LIST_EXTRA_DEPTH;
    }
    else if (exchange->kind == RO_KIND_CALL) {
        loose.keep_duplicates = false;
    }
    ro_json_code code
        = ro_json_validate(ro_buf_slice(&exchange->data), &loose, NULL);
    if (code != RO_JSON_OK && code != RO_JSON_TRUNCATED
        && code != RO_JSON_EMPTY && code != RO_JSON_NO_MEMORY) {
        ro_exchange_fail(exchange, RO_CODE_MALFORMED_RESULT, "not_json");
        ro_transfer_cancel(exchange->transfer);
        return;
    }
    exchange->looked = true;
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
        ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE, "memory");
        return RO_SINK_FAIL;
    }
    if (exchange->timer == NULL && exchange->kind != RO_KIND_RAW) {
        exchange->timer = ro_net_after(exchange->session->mcp->net, LOOK_MS,
                                       look, exchange);
    }
    return RO_SINK_MORE;
}

static ro_sink_verdict
on_data(void *ctx, const char *bytes, size_t len)
{
    ro_exchange *exchange = ctx;
    if (exchange->replied) {
        return RO_SINK_FAIL;
    }
    exchange->received += len;
    if (exchange->received > exchange->cap
        || !ro_call_count(exchange->session->mcp->call, len)) {
        too_large(exchange);
        return RO_SINK_FAIL;
    }
    if (!exchange->events) {
        return on_json(exchange, bytes, len);
    }
    ro_sse_code code = ro_sse_feed(&exchange->sse, bytes, len);
    if (exchange->replied) {
        return RO_SINK_STOP;
    }
    if (code == RO_SSE_TOO_LARGE) {
        too_large(exchange);
        return RO_SINK_FAIL;
    }
    if (code != RO_SSE_OK) {
        ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE, "memory");
        return RO_SINK_FAIL;
    }
    return RO_SINK_MORE;
}

static const char *
net_reason(ro_net_code code)
{
    switch (code) {
    case RO_NET_TLS:
    case RO_NET_BAD_TRUST:
        return "tls";
    case RO_NET_PROXY:
    case RO_NET_BAD_PROXY:
        return "proxy";
    case RO_NET_RESOLVE:
        return "name_not_found";
    case RO_NET_BAD_HEADER:
        return "bad_header";
    case RO_NET_HEADERS_TOO_LARGE:
        return "headers_too_large";
    case RO_NET_ENCODING:
        return "content_encoding";
    default:
        return "connection";
    }
}

static void
on_done(void *ctx, ro_net_code code)
{
    ro_exchange *exchange = ctx;
    exchange->transfer_open = false;
    ro_transfer_release(exchange->transfer);
    exchange->transfer = NULL;
    if (!exchange->events) {
        stop_timer(exchange, &exchange->timer);
    }
    if (!exchange->replied) {
        if (exchange->events && code != RO_NET_CANCELLED
            && code != RO_NET_SHUT_DOWN) {
            ro_exchange_stream_end(exchange, code);
        }
        else if (code != RO_NET_OK) {
            ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE,
                             net_reason(code));
        }
        else if (exchange->kind == RO_KIND_RAW) {
            ro_exchange_reply(exchange, exchange->status,
                              ro_buf_slice(&exchange->data));
        }
        else {
            ro_exchange_answer(exchange, ro_buf_slice(&exchange->data));
        }
    }
    settle(exchange);
}

/* Send what the exchange holds; for a resumption its method is GET. */
static void
send_request(ro_exchange *exchange, const char *method,
             const ro_header_list *headers, ro_slice body, bool has_body)
{
    ro_session *session = exchange->session;
    ro_sink sink = {exchange, on_head, on_data, on_done};
    ro_request request;
    ro_session_request(session, &request);
    request.method = method;
    request.url = exchange->url;
    request.headers = headers->items;
    request.n_headers = headers->count;
    request.body = body;
    request.has_body = has_body;
    exchange->transfer_open = true;
    ro_net_code code = ro_net_submit(session->mcp->net, &request, &sink,
                                     &exchange->transfer);
    if (code != RO_NET_OK) {
        exchange->transfer_open = false;
        exchange->transfer = NULL;
        ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE,
                         net_reason(code));
    }
}

/* ---- streams ---- */

bool
ro_exchange_event(void *ctx, const ro_sse_event *event)
{
    static const ro_json_limits loose = {
        RO_MAX_DISCOVERY, RO_MAX_DEPTH + RO_LIST_EXTRA_DEPTH, true};
    ro_exchange *exchange = ctx;
    ro_rpc rpc;
    if (event->has_id) {
        ro_free(exchange->event_id);
        exchange->event_id = ro_memdup(event->last_id.ptr,
                                       event->last_id.len);
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
        || !ro_header_list_set(&headers, ro_slice_str("last-event-id"),
                               ro_slice_of(exchange->event_id,
                                           exchange->event_id_len))) {
        ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE, "memory");
    }
    else {
        ro_header_list_drop(&headers, ro_slice_str("content-type"));
        send_request(exchange, "GET", &headers, ro_slice_of("", 0), false);
    }
    ro_header_list_free(&headers);
    settle(exchange);
}

void
ro_exchange_stream_end(ro_exchange *exchange, ro_net_code code)
{
    if (exchange->event_id_len == 0
        || exchange->resumes == RO_MAX_RESUMES) {
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

/* ---- the start ---- */

static void
open_push(void *ctx)
{
    ro_exchange *exchange = ctx;
    exchange->push_timer = NULL;
    ro_session_push_open(exchange->session);
}

/* Fill kind and id from the body; false when it is no JSON-RPC message. */
static bool
read_kind(ro_exchange *exchange, ro_rpc *rpc)
{
    static const ro_json_limits limits = {
        RO_MAX_REQUEST, RO_MAX_DEPTH, false};
    ro_slice body = ro_slice_of(exchange->body, exchange->body_len);
    if (!exchange->has_body
        || ro_json_validate(body, &limits, NULL) != RO_JSON_OK) {
        return false;
    }
    switch (ro_rpc_classify(body, rpc)) {
    case RO_RPC_REQUEST:
        exchange->kind = ro_rpc_method_is(rpc, "initialize")
                             ? RO_KIND_INITIALIZE
                         : ro_rpc_method_is(rpc, "tools/list")
                             ? RO_KIND_LIST
                         : ro_rpc_method_is(rpc, "tools/call")
                             ? RO_KIND_CALL
                             : RO_KIND_REQUEST;
        exchange->id = rpc->id;
        return true;
    case RO_RPC_NOTIFICATION:
    case RO_RPC_RESULT:
    case RO_RPC_ERROR:
        exchange->kind = RO_KIND_NOTIFY;
        return true;
    case RO_RPC_INVALID:
        break;
    }
    return false;
}

static bool
same_origin(const ro_session *session, const char *url)
{
    size_t len = session->origin_len;
    return strncmp(session->url, url, len) == 0
           && (url[len] == '\0' || url[len] == '/' || url[len] == '?');
}

/* Let the one call through with its arguments; false when it may not. */
static bool
pass_gate(ro_exchange *exchange, const ro_rpc *rpc)
{
    ro_session *session = exchange->session;
    ro_slice raw_name;
    ro_buf arguments;
    ro_buf body;
    bool passed = false;
    ro_buf_init(&arguments, RO_MAX_STDIN);
    ro_buf_init(&body, exchange->body_len + RO_MAX_STDIN + 64);
    char *name = NULL;
    if (rpc->params.len == 0
        || ro_json_type_of(rpc->params) != RO_JSON_OBJECT
        || ro_json_find(rpc->params, "name", &raw_name) != 1
        || ro_json_type_of(raw_name) != RO_JSON_STRING) {
        goto done;
    }
    name = ro_malloc(raw_name.len);
    if (name == NULL) {
        goto done;
    }
    size_t len = ro_json_decode(raw_name, name);
    if (!ro_call_pass(session->mcp->call, session->server,
                      ro_slice_of(name, len), &arguments)
        || ro_rpc_replace_arguments(
               ro_slice_of(exchange->body, exchange->body_len),
               ro_buf_slice(&arguments), &body)
               != RO_BUF_OK) {
        goto done;
    }
    ro_rpc again; /* the id's slice has to point into the new body */
    if (ro_rpc_classify(ro_buf_slice(&body), &again) != RO_RPC_REQUEST) {
        goto done;
    }
    exchange->id = again.id;
    ro_free(exchange->body);
    exchange->body = ro_buf_steal(&body, &exchange->body_len);
    passed = true;
done:
    ro_free(name);
    ro_buf_free(&arguments);
    ro_buf_free(&body);
    return passed;
}

/* Answer a list without the network; false when it has to be asked. */
static bool
list_from_discovery(ro_exchange *exchange)
{
    ro_session *session = exchange->session;
    if (!session->call_phase) {
        return false;
    }
    ro_buf up;
    ro_buf_init(&up, RO_MAX_DISCOVERY + 1024);
    if (ro_call_write_list(session->mcp->call, session->server, exchange->id,
                           &up)
        == RO_BUF_OK) {
        reply_json(exchange, ro_buf_slice(&up));
    }
    else {
        ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE, "memory");
    }
    ro_buf_free(&up);
    return true;
}

static const char *
refuse_reason(ro_exchange *exchange, const ro_rpc *rpc)
{
    ro_session *session = exchange->session;
    if (session->broken) {
        return "session_broken";
    }
    if (!same_origin(session, exchange->url)) {
        return "other_origin";
    }
    if (exchange->kind == RO_KIND_CALL && !pass_gate(exchange, rpc)) {
        return "gate";
    }
    if (exchange->kind == RO_KIND_LIST
        && ++session->pages > RO_MAX_PAGES) {
        return "list_too_many_pages";
    }
    return NULL;
}

static void
start_raw(ro_exchange *exchange)
{
    ro_session *session = exchange->session;
    exchange->kind = RO_KIND_RAW;
    exchange->cap = RO_MAX_ANSWER;
    ro_buf_init(&exchange->data, exchange->cap);
    if (!session->auth
        || ro_call_gate(session->mcp->call) != RO_GATE_CLOSED) {
        ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE, "refused");
        return;
    }
    send_request(exchange, exchange->method, &exchange->headers,
                 ro_slice_of(exchange->body, exchange->body_len),
                 exchange->has_body);
}

static void
start_post(ro_exchange *exchange, const ro_rpc *rpc)
{
    ro_session *session = exchange->session;
    const char *refused = refuse_reason(exchange, rpc);
    if (refused != NULL) {
        ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE, refused);
        return;
    }
    if (exchange->kind == RO_KIND_LIST && list_from_discovery(exchange)) {
        return;
    }
    exchange->cap = exchange->kind == RO_KIND_CALL ? RO_MAX_ANSWER
                                                   : RO_MAX_DISCOVERY;
    ro_buf_init(&exchange->data, exchange->cap);
    ro_header_list_free(&session->template);
    if (!ro_header_list_copy(&session->template, exchange->headers.items,
                             exchange->headers.count)) {
        ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE, "memory");
        return;
    }
    if (exchange->kind == RO_KIND_CALL) {
        exchange->push_timer
            = ro_net_after(session->mcp->net, RO_GET_STREAM_AFTER_MS,
                           open_push, exchange);
    }
    send_request(exchange, "POST", &exchange->headers,
                 ro_slice_of(exchange->body, exchange->body_len), true);
}

void
ro_exchange_start(void *ctx)
{
    ro_exchange *exchange = ctx;
    ro_rpc rpc = {0};
    bool get = strcmp(exchange->method, "GET") == 0;
    bool end = strcmp(exchange->method, "DELETE") == 0;
    if (exchange->session->mcp->closing) {
        exchange->kind = RO_KIND_RAW;
        ro_exchange_reply(exchange, 503, ro_slice_of("", 0));
    }
    else if ((get || end)
             && same_origin(exchange->session, exchange->url)
             && ro_header_count(exchange->headers.items,
                                exchange->headers.count, "mcp-session-id")
                    != 0) {
        ro_exchange_reply(exchange, get ? 405 : 200, ro_slice_of("", 0));
    }
    else if (strcmp(exchange->method, "POST") == 0
             && read_kind(exchange, &rpc)) {
        start_post(exchange, &rpc);
    }
    else {
        start_raw(exchange);
    }
    settle(exchange);
}
