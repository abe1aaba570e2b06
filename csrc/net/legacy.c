/* HTTP with SSE (protocol 2024-11-05): one GET stream carries every answer,
 * requests are posted to the endpoint that the stream names first.
 *
 * Worker thread only, but for ro_legacy_new.
 */
#include "net/channel.h"

#include <curl/curl.h>

#include "core/alloc.h"
#include "core/json.h"
#include "core/limits.h"

/* redirects of the stream, or of one message, that are followed */
#define MAX_REDIRECTS 5u

typedef struct ro_legacy {
    ro_transfer *stream;
    bool opened;
    bool over;
    ro_sse sse;
    char *moved; /* where the stream is after a redirect, or NULL */
    unsigned redirects;
    bool again;     /* open it there */
    char *endpoint; /* NULL until the stream names it */
} ro_legacy;

typedef struct posting {
    ro_session *session;
    ro_transfer *transfer;
    ro_exchange *notify; /* replied when the post is taken, or NULL */
    bool taken;
    bool once; /* no redirect is followed */
    unsigned redirects;
    bool again; /* send it to url, where it was redirected */
    char *url;
    ro_header_list headers;
    char *message;
    size_t len;
} posting;

void *
ro_legacy_new(void)
{
    return ro_calloc(1, sizeof(ro_legacy));
}

/* ---- URLs ---- */

static bool
same_origin(CURLU *a, CURLU *b)
{
    static const CURLUPart parts[]
        = {CURLUPART_SCHEME, CURLUPART_HOST, CURLUPART_PORT};
    for (size_t i = 0; i < 3; i++) {
        char *left = NULL;
        char *right = NULL;
        bool same
            = curl_url_get(a, parts[i], &left, CURLU_DEFAULT_PORT) == CURLUE_OK
              && curl_url_get(b, parts[i], &right, CURLU_DEFAULT_PORT)
                     == CURLUE_OK
              && strcmp(left, right) == 0;
        curl_free(left);
        curl_free(right);
        if (!same) {
            return false;
        }
    }
    return true;
}

/* text, an absolute or relative URL, as an absolute one on base's origin, or
 * NULL. */
static char *
resolve(const char *base, ro_slice text)
{
    char *relative = ro_memdup(text.ptr, text.len);
    CURLU *from = curl_url();
    CURLU *to = curl_url();
    char *url = NULL;
    char *copy = NULL;
    if (relative != NULL && from != NULL && to != NULL
        && strlen(relative) == text.len
        && curl_url_set(from, CURLUPART_URL, base, 0) == CURLUE_OK
        && curl_url_set(to, CURLUPART_URL, base, 0) == CURLUE_OK
        && curl_url_set(to, CURLUPART_URL, relative, CURLU_DISALLOW_USER)
               == CURLUE_OK
        && curl_url_set(to, CURLUPART_FRAGMENT, NULL, 0) == CURLUE_OK
        && same_origin(from, to)
        && curl_url_get(to, CURLUPART_URL, &url, 0) == CURLUE_OK) {
        copy = ro_memdup(url, strlen(url));
    }
    curl_free(url);
    curl_url_cleanup(from);
    curl_url_cleanup(to);
    ro_free(relative);
    return copy;
}

/* Where a redirect that keeps the method leads on the same origin, or NULL.
 * get: every redirect of a GET keeps it. */
static char *
redirected(const char *url, const ro_head *head, bool get)
{
    ro_slice where;
    bool keeps = head->status == 307 || head->status == 308
                 || (get
                     && (head->status == 301 || head->status == 302
                         || head->status == 303));
    if (!keeps
        || !ro_header_find(head->headers, head->n_headers, "location",
                           &where)) {
        return NULL;
    }
    return resolve(url, where);
}

/* ---- posts ---- */

static void
posting_free(posting *post)
{
    if (post != NULL) {
        ro_header_list_free(&post->headers);
        ro_free(post->url);
        ro_free(post->message);
        ro_free(post);
    }
}

static ro_sink_verdict
post_head(void *ctx, const ro_head *head)
{
    posting *post = ctx;
    char *next = NULL;
    post->taken = head->status >= 200 && head->status < 300;
    if (!post->once && post->redirects < MAX_REDIRECTS) {
        next = redirected(post->url, head, false);
    }
    if (next != NULL) {
        ro_free(post->url);
        post->url = next;
        post->redirects++;
        post->again = true;
    }
    return RO_SINK_STOP;
}

static ro_sink_verdict
post_data(void *ctx, const char *bytes, size_t len)
{
    (void)ctx;
    (void)bytes;
    (void)len;
    return RO_SINK_STOP;
}

static bool submit_post(posting *post);

static void
post_done(void *ctx, ro_net_code code)
{
    posting *post = ctx;
    ro_session *session = post->session;
    ro_exchange *notify = post->notify;
    bool taken = post->taken && code == RO_NET_OK;
    ro_transfer_release(post->transfer);
    post->transfer = NULL;
    if (post->again && code == RO_NET_OK) {
        post->again = false;
        if (submit_post(post)) {
            return;
        }
    }
    posting_free(post);
    if (notify != NULL) {
        notify->transfer_open = false;
        if (taken) {
            ro_exchange_reply(notify, 202, NULL);
        }
        else {
            ro_exchange_fail(notify, RO_CODE_RUNTIME_FAILURE, "connection");
        }
        ro_exchange_settle(notify);
    }
    else if (!taken) {
        ro_channel_closed(session, "connection");
    }
}

static bool
submit_post(posting *post)
{
    ro_request request;
    ro_sink sink = {post, post_head, post_data, post_done};
    ro_session_request(post->session, &request);
    request.method = "POST";
    request.url = post->url;
    request.headers = post->headers.items;
    request.n_headers = post->headers.count;
    request.body = ro_slice_of(post->message, post->len);
    request.has_body = true;
    return ro_net_submit(post->session->mcp->net, &request, &sink,
                         &post->transfer)
           == RO_NET_OK;
}

/* The SDK's legacy client sends these to the endpoint. */
static bool
post_headers(ro_header_list *list, const ro_header_list *from)
{
    if (!ro_header_list_copy(list, from->items, from->count)
        || !ro_header_list_set(list, ro_slice_str("Accept"),
                               ro_slice_str("*/*"))) {
        return false;
    }
    ro_header_list_drop(list, ro_slice_str("mcp-protocol-version"));
    return true;
}

/* exchange: the one whose message it is, or NULL for an answer. */
static bool
post(ro_session *session, const ro_header_list *from, ro_slice message,
     ro_exchange *exchange)
{
    const ro_legacy *legacy = session->carrier;
    posting *posted = ro_calloc(1, sizeof(*posted));
    if (posted == NULL) {
        return false;
    }
    posted->session = session;
    posted->url = ro_memdup(legacy->endpoint, strlen(legacy->endpoint));
    posted->message = ro_memdup(message.ptr, message.len);
    posted->len = message.len;
    if (exchange != NULL) {
        posted->once = exchange->kind == RO_KIND_CALL;
        posted->notify = exchange->kind == RO_KIND_NOTIFY ? exchange : NULL;
    }
    if (posted->url == NULL || posted->message == NULL
        || !post_headers(&posted->headers, from) || !submit_post(posted)) {
        posting_free(posted);
        return false;
    }
    if (posted->notify != NULL) {
        posted->notify->transfer_open = true;
    }
    return true;
}

static void
post_exchange(ro_exchange *exchange, ro_slice message)
{
    if (!post(exchange->session, &exchange->headers, message, exchange)) {
        ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE, "connection");
    }
}

/* ---- the stream ---- */

static bool
take_endpoint(ro_session *session, ro_slice data)
{
    ro_legacy *legacy = session->carrier;
    if (legacy->endpoint != NULL) {
        return true; /* the first one wins */
    }
    legacy->endpoint = resolve(session->url, data);
    if (legacy->endpoint == NULL) {
        ro_channel_closed(session, "endpoint");
        return false;
    }
    ro_exchange *next;
    for (ro_exchange *each = session->waiting; each != NULL; each = next) {
        next = each->next_waiting;
        post_exchange(each, ro_slice_of(each->body, each->body_len));
        ro_exchange_settle(each);
    }
    return true;
}

static bool
stream_event(void *ctx, const ro_sse_event *event)
{
    ro_session *session = ctx;
    const ro_legacy *legacy = session->carrier;
    if (!event->has_data) {
        return true;
    }
    if (ro_slice_equal(event->type, ro_slice_str("endpoint"))) {
        return take_endpoint(session, event->data);
    }
    if (legacy->endpoint != NULL && event->data.len != 0
        && ro_slice_equal(event->type, ro_slice_str("message"))) {
        ro_channel_message(session, event->data, false);
    }
    return true;
}

static bool
is_event_stream(const ro_head *head)
{
    static const char type[] = "text/event-stream";
    ro_slice value;
    return ro_header_find(head->headers, head->n_headers, "content-type",
                          &value)
           && value.len >= sizeof(type) - 1
           && ro_header_name_is(ro_slice_of(value.ptr, sizeof(type) - 1), type)
           && (value.len == sizeof(type) - 1
               || value.ptr[sizeof(type) - 1] == ';');
}

/* A challenge goes up to the auth flow, which sends its request again. */
static void
pass_challenge(ro_session *session, const ro_head *head)
{
    while (session->waiting != NULL) {
        ro_exchange *exchange = session->waiting;
        if (ro_header_list_copy(&exchange->kept, head->headers,
                                head->n_headers)) {
            ro_header_list_drop(&exchange->kept,
                                ro_slice_str("content-length"));
            ro_header_list_drop(&exchange->kept,
                                ro_slice_str("content-encoding"));
            ro_header_list_drop(&exchange->kept,
                                ro_slice_str("transfer-encoding"));
        }
        ro_exchange_reply(exchange, head->status, NULL);
        ro_exchange_settle(exchange);
    }
}

static const char *
stream_url(const ro_session *session)
{
    const ro_legacy *legacy = session->carrier;
    return legacy->moved != NULL ? legacy->moved : session->url;
}

static ro_sink_verdict
stream_head(void *ctx, const ro_head *head)
{
    ro_session *session = ctx;
    ro_legacy *legacy = session->carrier;
    if (session->auth && (head->status == 401 || head->status == 403)
        && ro_call_gate(session->mcp->call) == RO_GATE_CLOSED) {
        legacy->opened = false; /* the next request opens it again */
        pass_challenge(session, head);
        return RO_SINK_STOP;
    }
    char *next = NULL;
    if (legacy->redirects < MAX_REDIRECTS) {
        next = redirected(stream_url(session), head, true);
    }
    if (next != NULL) {
        ro_free(legacy->moved);
        legacy->moved = next;
        legacy->redirects++;
        legacy->again = true;
        return RO_SINK_STOP;
    }
    if (head->status != 200 || !is_event_stream(head)) {
        ro_channel_closed(session, head->status == 401   ? "http_401"
                                   : head->status == 403 ? "http_403"
                                   : head->status >= 500 ? "http_5xx"
                                   : head->status >= 400 ? "http_4xx"
                                   : head->status >= 300 ? "redirected"
                                                         : "content_type");
        return RO_SINK_STOP;
    }
    return RO_SINK_MORE;
}

static ro_sink_verdict
stream_data(void *ctx, const char *bytes, size_t len)
{
    ro_session *session = ctx;
    ro_legacy *legacy = session->carrier;
    if (legacy->over) {
        return RO_SINK_FAIL;
    }
    ro_channel_count(session, len);
    switch (ro_sse_feed(&legacy->sse, bytes, len)) {
    case RO_SSE_OK:
        return RO_SINK_MORE;
    case RO_SSE_TOO_LARGE:
        ro_channel_too_large(session);
        break;
    case RO_SSE_NO_MEMORY:
        ro_channel_no_memory(session);
        break;
    case RO_SSE_STOPPED: /* by the endpoint, which has told */
        break;
    }
    return RO_SINK_FAIL;
}

static bool open_stream(ro_session *session, const ro_header_list *from);

static void
stream_done(void *ctx, ro_net_code code)
{
    ro_session *session = ctx;
    ro_legacy *legacy = session->carrier;
    bool again = legacy->again && code == RO_NET_OK && !legacy->over;
    ro_transfer_release(legacy->stream);
    legacy->stream = NULL;
    ro_sse_free(&legacy->sse);
    legacy->again = false;
    if (again && open_stream(session, &session->template)) {
        return;
    }
    if (legacy->opened || again) {
        ro_channel_closed(session, "connection");
    }
}

static bool
open_stream(ro_session *session, const ro_header_list *from)
{
    ro_legacy *legacy = session->carrier;
    ro_header_list headers = {NULL, 0, 0};
    ro_request request;
    ro_sink sink = {session, stream_head, stream_data, stream_done};
    bool opened
        = post_headers(&headers, from)
          && ro_header_list_set(&headers, ro_slice_str("Accept"),
                                ro_slice_str("text/event-stream"))
          && ro_header_list_set(&headers, ro_slice_str("Cache-Control"),
                                ro_slice_str("no-store"));
    if (opened) {
        ro_header_list_drop(&headers, ro_slice_str("content-type"));
        ro_sse_init(&legacy->sse, RO_MAX_DISCOVERY, RO_MAX_HEADER_VALUE,
                    stream_event, session);
        ro_session_request(session, &request);
        request.method = "GET";
        request.url = stream_url(session);
        request.headers = headers.items;
        request.n_headers = headers.count;
        opened = ro_net_submit(session->mcp->net, &request, &sink,
                               &legacy->stream)
                 == RO_NET_OK;
    }
    legacy->opened = opened;
    ro_header_list_free(&headers);
    return opened;
}

/* ---- the channel ---- */

static void
legacy_send(ro_session *session, ro_exchange *exchange, ro_slice message)
{
    ro_legacy *legacy = session->carrier;
    ro_header_list_free(&session->template);
    if (!ro_header_list_copy(&session->template, exchange->headers.items,
                             exchange->headers.count)) {
        ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE, "memory");
    }
    else if (legacy->endpoint != NULL) {
        post_exchange(exchange, message);
    }
    else if (!legacy->opened && !open_stream(session, &exchange->headers)) {
        ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE, "connection");
    }
}

static void
legacy_answer(ro_session *session, ro_slice message)
{
    (void)post(session, &session->template, message, NULL);
}

static void
legacy_end(ro_session *session)
{
    ro_legacy *legacy = session->carrier;
    legacy->over = true;
    if (legacy->stream != NULL) {
        ro_transfer_cancel(legacy->stream);
    }
}

static void
legacy_free(ro_session *session)
{
    ro_legacy *legacy = session->carrier;
    ro_sse_free(&legacy->sse);
    ro_free(legacy->moved);
    ro_free(legacy->endpoint);
    ro_free(legacy);
}

const struct ro_channel ro_legacy_channel = {
    .send = legacy_send,
    .answer = legacy_answer,
    .end = legacy_end,
    .free = legacy_free,
};
