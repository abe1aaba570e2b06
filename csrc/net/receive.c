/* The transfer of an exchange: its head, its body, its end. */
#include "net/exchange.h"

#include "core/alloc.h"
#include "core/json.h"
#include "core/limits.h"
#include "core/result.h"

/* milliseconds between two looks at a body that is still arriving */
#define LOOK_MS 250

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
        return status >= 500   ? "http_5xx"
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
    char *url = ro_memdup(exchange->url, strlen(exchange->url));
    char *copy = ro_memdup(id.ptr, id.len);
    if (url == NULL || copy == NULL) {
        ro_free(url);
        ro_free(copy);
        return false;
    }
    ro_free(session->url);
    session->url = url;
    session->id = copy;
    session->id_len = id.len;
    return true;
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
                         && ro_call_gate(session->mcp->call) == RO_GATE_CLOSED;
        if (is_redirect(head->status) || challenge) {
            return reply_head(exchange, head);
        }
    }
    if (exchange->kind == RO_KIND_NOTIFY && head->status >= 200
        && head->status < 300) {
        if (!keep_headers(exchange, head)) {
            return RO_SINK_FAIL;
        }
        ro_exchange_reply(exchange, 202, NULL);
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

/* Why the body is wrong already; NULL when it may become right. */
static const char *
wrong_already(const ro_exchange *exchange)
{
    ro_json_limits loose = {exchange->cap, RO_MAX_DEPTH, true};
    if (exchange->kind == RO_KIND_LIST) {
        loose.max_depth += RO_LIST_EXTRA_DEPTH;
    }
    else if (exchange->kind == RO_KIND_CALL) {
        loose.keep_duplicates = false;
    }
    ro_slice body = ro_buf_slice(&exchange->data);
    switch (ro_json_validate(body, &loose, NULL)) {
    case RO_JSON_OK:
        return is_no_answer(exchange, body) ? "not_an_answer" : NULL;
    case RO_JSON_TRUNCATED:
    case RO_JSON_EMPTY:
    case RO_JSON_NO_MEMORY: /* the end will tell */
        return NULL;
    default:
        return "not_json";
    }
}

/* A body that is wrong already is not waited for. */
static void
look(void *ctx)
{
    ro_exchange *exchange = ctx;
    exchange->timer = NULL;
    const char *reason = wrong_already(exchange);
    if (reason != NULL) {
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
        ro_exchange_stop_timer(exchange, &exchange->timer);
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
            ro_exchange_reply(exchange, exchange->status, &exchange->data);
        }
        else {
            ro_exchange_answer(exchange, ro_buf_slice(&exchange->data));
        }
    }
    ro_exchange_settle(exchange);
}

void
ro_exchange_send(ro_exchange *exchange, const char *method,
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
        ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE, net_reason(code));
    }
}
