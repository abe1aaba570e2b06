#include "net/exchange.h"

#include "core/alloc.h"
#include "core/json.h"
#include "core/limits.h"
#include "net/channel.h"

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
    ro_free(exchange->event_id);
    ro_header_list_free(&exchange->headers);
    ro_header_list_free(&exchange->kept);
    ro_buf_free(&exchange->data);
    ro_sse_free(&exchange->sse);
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

static void
link_exchange(ro_exchange *exchange)
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
    if (exchange->replied && !exchange->transfer_open) {
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
        ro_exchange_fail(each, RO_CODE_RUNTIME_FAILURE, "stopped");
        if (each->transfer != NULL) {
            ro_transfer_cancel(each->transfer);
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
        ro_exchange_reply(exchange, 503, NULL);
    }
    else if (exchange->kind == RO_KIND_NOTIFY) {
        session->broken = true;
        session->broken_reason = reason;
        ro_exchange_reply(exchange, 202, NULL);
    }
    else {
        ro_buf message;
        ro_buf_init(&message, RO_MAX_ANSWER);
        if (ro_rpc_write_error(&message, exchange->id, RO_RPC_INTERNAL_ERROR,
                               "The request failed.")
            == RO_BUF_OK) {
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
    static const ro_json_limits limits = {RO_MAX_REQUEST, RO_MAX_DEPTH, false};
    ro_slice body = ro_slice_of(exchange->body, exchange->body_len);
    if (!exchange->has_body
        || ro_json_validate(body, &limits, NULL) != RO_JSON_OK) {
        return false;
    }
    switch (ro_rpc_classify(body, rpc)) {
    case RO_RPC_REQUEST:
        exchange->kind
            = ro_rpc_method_is(rpc, "initialize")   ? RO_KIND_INITIALIZE
              : ro_rpc_method_is(rpc, "tools/list") ? RO_KIND_LIST
              : ro_rpc_method_is(rpc, "tools/call") ? RO_KIND_CALL
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
    if (rpc->params.len == 0 || ro_json_type_of(rpc->params) != RO_JSON_OBJECT
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
    ro_exchange_reply_list(exchange, RO_MAX_DISCOVERY + 1024);
    return true;
}

static const char *
refuse_reason(ro_exchange *exchange, const ro_rpc *rpc)
{
    ro_session *session = exchange->session;
    if (session->broken) {
        return session->broken_reason;
    }
    if (!same_origin(session, exchange->url)) {
        return "other_origin";
    }
    if (exchange->kind == RO_KIND_CALL && !pass_gate(exchange, rpc)) {
        return "gate";
    }
    if (exchange->kind == RO_KIND_LIST && ++session->pages > RO_MAX_PAGES) {
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
    /* what is no JSON-RPC message never goes to the endpoint itself */
    if (!session->auth || ro_call_gate(session->mcp->call) != RO_GATE_CLOSED
        || strcmp(exchange->url, session->url) == 0) {
        ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE, "refused");
        return;
    }
    ro_exchange_send(exchange, exchange->method, &exchange->headers,
                     ro_slice_of(exchange->body, exchange->body_len),
                     exchange->has_body);
}

static void
start_post(ro_exchange *exchange, const ro_rpc *rpc)
{
    ro_session *session = exchange->session;
    if (exchange->kind == RO_KIND_LIST && list_from_discovery(exchange)) {
        return; /* also when the session has ended with the call */
    }
    const char *refused = refuse_reason(exchange, rpc);
    if (refused != NULL) {
        ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE, refused);
        return;
    }
    exchange->cap
        = exchange->kind == RO_KIND_CALL ? RO_MAX_ANSWER : RO_MAX_DISCOVERY;
    ro_buf_init(&exchange->data, exchange->cap);
    if (session->channel != NULL) {
        ro_channel_send(exchange);
        return;
    }
    ro_header_list_free(&session->template);
    if (!ro_header_list_copy(&session->template, exchange->headers.items,
                             exchange->headers.count)) {
        ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE, "memory");
        return;
    }
    if (exchange->kind == RO_KIND_CALL) {
        exchange->push_timer = ro_net_after(
            session->mcp->net, RO_GET_STREAM_AFTER_MS, open_push, exchange);
    }
    ro_exchange_send(exchange, "POST", &exchange->headers,
                     ro_slice_of(exchange->body, exchange->body_len), true);
}

void
ro_exchange_start(void *ctx)
{
    ro_exchange *exchange = ctx;
    ro_rpc rpc = {0};
    bool get = strcmp(exchange->method, "GET") == 0;
    bool end = strcmp(exchange->method, "DELETE") == 0;
    link_exchange(exchange);
    if (exchange->session->mcp->closing) {
        exchange->kind = RO_KIND_RAW;
        ro_exchange_reply(exchange, 503, NULL);
    }
    else if ((get || end) && same_origin(exchange->session, exchange->url)
             && ro_header_count(exchange->headers.items,
                                exchange->headers.count, "mcp-session-id")
                    != 0) {
        ro_exchange_reply(exchange, get ? 405 : 200, NULL);
    }
    else if (strcmp(exchange->method, "POST") == 0
             && read_kind(exchange, &rpc)) {
        start_post(exchange, &rpc);
    }
    else {
        start_raw(exchange);
    }
    ro_exchange_settle(exchange);
}
