#include "mcp/request.h"

#include "core/limits.h"

void
ro_session_request(const ro_session *session, ro_request *request)
{
    memset(request, 0, sizeof(*request));
    request->url = session->url;
    request->proxy = session->proxy;
    request->cafile = session->cafile;
    request->capath = session->capath;
    request->max_headers = RO_MAX_HEADERS;
}

void
ro_exchange_request(const ro_exchange *exchange, ro_request *request)
{
    ro_session_request(exchange->session, request);
    request->method = exchange->method;
    request->url = exchange->url;
    request->headers = exchange->headers.items;
    request->n_headers = exchange->headers.count;
    request->body = ro_slice_of(exchange->body, exchange->body_len);
    request->has_body = exchange->has_body;
}

static bool
same_headers(const ro_request *a, const ro_request *b)
{
    if (a->n_headers != b->n_headers) {
        return false;
    }
    for (size_t i = 0; i < a->n_headers; i++) {
        if (!ro_slice_equal(a->headers[i].name, b->headers[i].name)
            || !ro_slice_equal(a->headers[i].value, b->headers[i].value)) {
            return false;
        }
    }
    return true;
}

bool
ro_request_is_same(const ro_request *a, const ro_request *b)
{
    return strcmp(a->method, b->method) == 0 && strcmp(a->url, b->url) == 0
           && strcmp(a->proxy, b->proxy) == 0
           && strcmp(a->cafile, b->cafile) == 0
           && strcmp(a->capath, b->capath) == 0 && a->has_body == b->has_body
           && ro_slice_equal(a->body, b->body) && a->sending == b->sending
           && same_headers(a, b);
}

bool
ro_session_may_log_in(const ro_session *session)
{
    return session->auth
           && ro_gate_state_of(session->mcp->gate) == RO_GATE_CLOSED;
}

ro_sink_verdict
ro_ignore_head(void *ctx, const ro_head *head)
{
    (void)ctx;
    (void)head;
    return RO_SINK_STOP;
}

ro_sink_verdict
ro_ignore_data(void *ctx, const char *bytes, size_t len)
{
    (void)ctx;
    (void)bytes;
    (void)len;
    return RO_SINK_STOP;
}
