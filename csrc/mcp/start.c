#include "mcp/start.h"

#include "core/alloc.h"
#include "core/json.h"
#include "core/limits.h"
#include "mcp/answer.h"
#include "mcp/exchange.h"
#include "mcp/raw.h"
#include "mcp/request.h"

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

/* The origin is compared as text, so what follows it has to end it: another
 * port or host may begin with the same bytes. */
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
    /* bytes: arguments, and a key and brackets around them */
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
    if (!ro_gate_pass(session->mcp->gate, session->server,
                      ro_slice_of(name, len), &arguments)
        || ro_rpc_replace_arguments(
               ro_slice_of(exchange->body, exchange->body_len),
               ro_buf_slice(&arguments), &body)
               != RO_BUF_OK) {
        goto done;
    }
    ro_rpc again; /* the id has to point into the new body */
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
    ro_exchange_reply_list(exchange, RO_MAX_DISCOVERY + RO_UP_FRAME);
    return true;
}

static ro_reason
refuse_reason(ro_exchange *exchange, const ro_rpc *rpc)
{
    ro_session *session = exchange->session;
    if (session->broken) {
        return session->broken_reason;
    }
    if (!same_origin(session, exchange->url)) {
        return RO_REASON_OTHER_ORIGIN;
    }
    if (exchange->kind == RO_KIND_CALL && !pass_gate(exchange, rpc)) {
        return RO_REASON_GATE;
    }
    if (exchange->kind == RO_KIND_LIST && ++session->pages > RO_MAX_PAGES) {
        return RO_REASON_LIST_TOO_MANY_PAGES;
    }
    return RO_REASON_NONE;
}

static void
start_raw(ro_exchange *exchange)
{
    ro_session *session = exchange->session;
    exchange->kind = RO_KIND_RAW;
    /* what is no JSON-RPC message never goes to the endpoint itself */
    if (!ro_session_may_log_in(session)
        || strcmp(exchange->url, session->configured) == 0
        || strcmp(exchange->url, session->url) == 0) {
        ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE, RO_REASON_REFUSED);
        return;
    }
    ro_raw_send(exchange);
}

static void
start_post(ro_exchange *exchange, const ro_rpc *rpc)
{
    ro_session *session = exchange->session;
    if (exchange->kind == RO_KIND_LIST && list_from_discovery(exchange)) {
        return; /* also when the session has ended with the call */
    }
    ro_reason refused = refuse_reason(exchange, rpc);
    if (refused != RO_REASON_NONE) {
        ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE, refused);
        return;
    }
    exchange->cap
        = exchange->kind == RO_KIND_CALL ? RO_MAX_ANSWER : RO_MAX_DISCOVERY;
    ro_buf_init(&exchange->data, exchange->cap);
    session->carrier->send(exchange);
}

void
ro_exchange_start(void *ctx)
{
    ro_exchange *exchange = ctx;
    ro_rpc rpc = {0};
    bool get = strcmp(exchange->method, "GET") == 0;
    bool end = strcmp(exchange->method, "DELETE") == 0;
    ro_exchange_enter(exchange);
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
