#include "mcp/http.h"

#include "core/alloc.h"
#include "core/limits.h"
#include "mcp/delete.h"
#include "mcp/ending.h"
#include "mcp/exchange.h"
#include "mcp/post.h"
#include "mcp/push.h"
#include "mcp/request.h"

void *
ro_http_new(void)
{
    return ro_calloc(1, sizeof(ro_http));
}

/* ---- messages ---- */

/* The SDK goes on asking where the server was configured; what follows
 * initialize goes where that was answered, at once. False: out of memory. */
static bool
follow_endpoint(ro_exchange *exchange)
{
    const ro_session *session = exchange->session;
    if (exchange->kind == RO_KIND_INITIALIZE
        || strcmp(exchange->url, session->configured) != 0) {
        return true;
    }
    char *url = ro_memdup(session->url, strlen(session->url));
    if (url == NULL) {
        return false;
    }
    ro_free(exchange->url);
    exchange->url = url;
    return true;
}

static void
open_push(void *ctx)
{
    ro_exchange *exchange = ctx;
    exchange->push_timer = NULL;
    ro_push_open(exchange->session);
}

static void
http_send(ro_exchange *exchange)
{
    ro_http *http = exchange->session->state;
    bool call = exchange->kind == RO_KIND_CALL;
    /* GET and DELETE are made of the headers that the SDK sent last: they then
     * have its session id, protocol version and credentials. */
    ro_header_list_free(&http->template);
    if (!follow_endpoint(exchange)
        || !ro_header_list_copy(&http->template, exchange->headers.items,
                                exchange->headers.count)) {
        ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE, RO_REASON_MEMORY);
        return;
    }
    if (call) {
        exchange->push_timer
            = ro_net_after(exchange->session->mcp->net, RO_GET_STREAM_AFTER_MS,
                           open_push, exchange);
    }
    ro_post_send(exchange);
    /* Not earlier: the DELETEs must not go out before the call. */
    if (call && !exchange->replied) {
        ro_mcp_end_discovery(exchange->session->mcp);
    }
}

/* ---- answers to the server's requests ---- */

typedef struct answer_post {
    ro_transfer *transfer;
} answer_post;

static void
answer_done(void *ctx, ro_net_code code)
{
    answer_post *post = ctx;
    (void)code; /* a server that does not take its answer has none */
    ro_transfer_release(post->transfer);
    ro_free(post);
}

static void
http_answer(ro_session *session, ro_slice message)
{
    const ro_http *http = session->state;
    ro_request request;
    answer_post *post = ro_calloc(1, sizeof(*post));
    if (post == NULL) {
        return;
    }
    ro_sink sink = {post, ro_ignore_head, ro_ignore_data, answer_done};
    ro_session_request(session, &request);
    request.method = "POST";
    request.headers = http->template.items;
    request.n_headers = http->template.count;
    request.body = message;
    request.has_body = true;
    request.sending = RO_SEND_AGAIN;
    if (ro_net_submit(session->mcp->net, &request, &sink, &post->transfer)
        != RO_NET_OK) {
        ro_free(post);
    }
}

/* ---- the end ---- */

/* The DELETE waits until the call is sent, or over: it must not delay it. */
static void
http_end(ro_session *session)
{
    if (session->over || session->mcp->over) {
        ro_push_close(session);
        ro_http_delete(session);
    }
}

static void
http_free(void *state)
{
    ro_http *http = state;
    if (http != NULL) {
        ro_event_stream_free(&http->push);
        ro_header_list_free(&http->template);
        ro_free(http->id);
        ro_free(http);
    }
}

const ro_carrier ro_http_carrier = {
    .send = http_send,
    .answer = http_answer,
    .end = http_end,
    .free = http_free,
};
