#include "mcp/legacy.h"

#include "core/alloc.h"
#include "core/limits.h"
#include "mcp/exchange.h"
#include "mcp/event_stream.h"
#include "mcp/message.h"
#include "mcp/request.h"
#include "mcp/response.h"
#include "mcp/waiting.h"
#include "net/location.h"

typedef struct ro_legacy {
    ro_header_list template; /* of the last message of the SDK */
    ro_event_stream stream;
    bool opened; /* and not refused with a challenge */
    bool over;
    char *moved; /* where the stream is after a redirect, or NULL */
    unsigned redirects;
    bool again;     /* open it there */
    char *endpoint; /* NULL until the stream names it */
} ro_legacy;

typedef struct message_post {
    ro_session *session;
    ro_transfer *transfer;
    ro_exchange *notify; /* replied when the post is taken, or NULL */
    bool taken;
    long status; /* 0: no answer yet */
    bool once;   /* the call: no redirect is followed, nothing is repeated */
    bool moves;  /* initialize: a redirect moves the endpoint */
    unsigned redirects;
    bool again; /* send it to url, where it was redirected */
    char *url;
    ro_header_list headers;
    char *message;
    size_t len;
} message_post;

void *
ro_legacy_new(void)
{
    return ro_calloc(1, sizeof(ro_legacy));
}

/* ---- posts ---- */

static void
message_post_free(message_post *post)
{
    if (post != NULL) {
        ro_header_list_free(&post->headers);
        ro_free(post->url);
        ro_free(post->message);
        ro_free(post);
    }
}

/* A redirect of initialize moves the endpoint for all that follows. Out of
 * memory leaves it; each message is then redirected, and the call refused. */
static void
move_endpoint(ro_session *session, const char *url)
{
    ro_legacy *legacy = session->state;
    char *copy = ro_memdup(url, strlen(url));
    if (copy != NULL) {
        ro_free(legacy->endpoint);
        legacy->endpoint = copy;
    }
}

static ro_sink_verdict
post_head(void *ctx, const ro_head *head)
{
    message_post *post = ctx;
    char *next = NULL;
    post->status = head->status;
    post->taken = ro_response_is_success(ro_response_of(head));
    if (!post->once && post->redirects < RO_MAX_REDIRECTS) {
        next = ro_response_leads_to(post->url, head, false);
    }
    if (next != NULL) {
        if (post->moves) {
            move_endpoint(post->session, next);
        }
        ro_free(post->url);
        post->url = next;
        post->redirects++;
        post->again = true;
    }
    return RO_SINK_STOP;
}

static bool submit_post(message_post *post);

static void
post_done(void *ctx, ro_net_code code)
{
    message_post *post = ctx;
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
    ro_reason reason = code != RO_NET_OK ? ro_reason_of_net(code)
                                         : ro_reason_of_status(post->status);
    message_post_free(post);
    if (notify != NULL) {
        notify->transfer_open = false;
        if (taken) {
            ro_exchange_reply(notify, 202, NULL);
        }
        else {
            ro_exchange_fail(notify, RO_CODE_RUNTIME_FAILURE, reason);
        }
        ro_exchange_settle(notify);
    }
    else if (!taken) {
        /* Its answer would come on the stream, and never will. */
        ro_waiting_closed(session, reason);
    }
}

static bool
submit_post(message_post *post)
{
    ro_request request;
    ro_sink sink = {post, post_head, ro_ignore_data, post_done};
    ro_session_request(post->session, &request);
    request.method = "POST";
    request.url = post->url;
    request.headers = post->headers.items;
    request.n_headers = post->headers.count;
    request.body = ro_slice_of(post->message, post->len);
    request.has_body = true;
    request.sending = post->once ? RO_SEND_WARY : RO_SEND_AGAIN;
    return ro_net_submit(post->session->mcp->net, &request, &sink,
                         &post->transfer)
           == RO_NET_OK;
}

/* The SDK's legacy client sends these to the endpoint. */
static bool
sse_headers(ro_header_list *list, const ro_header_list *from)
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
    const ro_legacy *legacy = session->state;
    message_post *posted = ro_calloc(1, sizeof(*posted));
    if (posted == NULL) {
        return false;
    }
    posted->session = session;
    /* Copies: the endpoint may move, and the exchange end, meanwhile. */
    posted->url = ro_memdup(legacy->endpoint, strlen(legacy->endpoint));
    posted->message = ro_memdup(message.ptr, message.len);
    posted->len = message.len;
    if (exchange != NULL) {
        posted->once = exchange->kind == RO_KIND_CALL;
        posted->moves = exchange->kind == RO_KIND_INITIALIZE;
        posted->notify = exchange->kind == RO_KIND_NOTIFY ? exchange : NULL;
    }
    if (posted->url == NULL || posted->message == NULL
        || !sse_headers(&posted->headers, from) || !submit_post(posted)) {
        message_post_free(posted);
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
        ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE,
                         RO_REASON_INTERNAL);
    }
}

/* ---- the stream ---- */

static void
take_endpoint(ro_session *session, ro_slice data)
{
    ro_legacy *legacy = session->state;
    if (legacy->endpoint != NULL) {
        return; /* the first one wins */
    }
    legacy->endpoint = ro_location_resolve(session->url, data);
    if (legacy->endpoint == NULL) {
        ro_waiting_closed(session, RO_REASON_ENDPOINT);
        return;
    }
    ro_exchange *next;
    for (ro_exchange *each = session->waiting; each != NULL; each = next) {
        next = each->next_waiting;
        post_exchange(each, ro_slice_of(each->body, each->body_len));
        ro_exchange_settle(each);
    }
}

/* Before the endpoint nothing was asked that could be answered. */
static void
early_message(ro_session *session, ro_slice bytes)
{
    ro_message message;
    ro_message_read(bytes, &message);
    if (message.kind == RO_MESSAGE_JUNK || message.kind == RO_MESSAGE_CLAIM) {
        ro_waiting_pass_over(session);
    }
}

static ro_sink_verdict
stream_event(void *ctx, const ro_sse_event *event)
{
    ro_session *session = ctx;
    const ro_legacy *legacy = session->state;
    if (ro_slice_equal(event->type, ro_slice_str("endpoint"))) {
        take_endpoint(session, ro_message_text(event->data));
    }
    else if (ro_event_is_message(event)) {
        if (legacy->endpoint != NULL) {
            ro_waiting_message(session, event->data);
        }
        else {
            early_message(session, event->data);
        }
    }
    return session->broken ? RO_SINK_FAIL : RO_SINK_MORE;
}

/* A challenge goes up to the auth flow, which sends its request again. */
static void
pass_challenge(ro_session *session, const ro_head *head)
{
    while (session->waiting != NULL) {
        ro_exchange *exchange = session->waiting;
        (void)ro_response_keep(&exchange->kept, head);
        ro_exchange_reply(exchange, head->status, NULL);
        ro_exchange_settle(exchange);
    }
}

static const char *
stream_url(const ro_session *session)
{
    const ro_legacy *legacy = session->state;
    return legacy->moved != NULL ? legacy->moved : session->url;
}

static ro_sink_verdict
stream_head(void *ctx, const ro_head *head)
{
    ro_session *session = ctx;
    ro_legacy *legacy = session->state;
    ro_response response = ro_response_of(head);
    char *next = NULL;
    if (response == RO_RESPONSE_EVENTS) {
        return RO_SINK_MORE;
    }
    if (response == RO_RESPONSE_CHALLENGE && ro_session_may_log_in(session)) {
        legacy->opened = false; /* the next request opens it again */
        pass_challenge(session, head);
        return RO_SINK_STOP;
    }
    if (legacy->redirects < RO_MAX_REDIRECTS) {
        next = ro_response_leads_to(stream_url(session), head, true);
    }
    if (next == NULL) {
        ro_waiting_closed(session, ro_response_reason(head));
        return RO_SINK_STOP;
    }
    ro_free(legacy->moved);
    legacy->moved = next;
    legacy->redirects++;
    legacy->again = true;
    return RO_SINK_STOP;
}

static bool
stream_count(void *ctx, size_t len)
{
    ro_session *session = ctx;
    const ro_legacy *legacy = session->state;
    if (!legacy->over) {
        ro_waiting_count(session, len);
    }
    return !legacy->over;
}

static void
stream_unreadable(void *ctx, ro_sse_code code)
{
    if (code == RO_SSE_TOO_LARGE) {
        ro_waiting_too_large(ctx, RO_REASON_TOO_LARGE);
    }
    else {
        ro_waiting_no_memory(ctx);
    }
}

static bool open_stream(ro_session *session);

static void
stream_ended(void *ctx, ro_net_code code)
{
    ro_session *session = ctx;
    ro_legacy *legacy = session->state;
    bool again = legacy->again && code == RO_NET_OK && !legacy->over;
    legacy->again = false;
    if (again && open_stream(session)) {
        return;
    }
    /* Not after a challenge, which has answered all that waited. */
    if (legacy->opened || again) {
        ro_waiting_closed(session, code == RO_NET_OK ? RO_REASON_STREAM_ENDED
                                                     : ro_reason_of_net(code));
    }
}

static const ro_stream_owner owner = {
    .head = stream_head,
    .count = stream_count,
    .event = stream_event,
    .unreadable = stream_unreadable,
    .ended = stream_ended,
};

static bool
open_stream(ro_session *session)
{
    ro_legacy *legacy = session->state;
    if (legacy->stream.owner == NULL) {
        ro_event_stream_init(&legacy->stream, session, &owner, session,
                             RO_MAX_DISCOVERY);
    }
    ro_event_stream_aim(&legacy->stream, stream_url(session),
                        &legacy->template);
    legacy->opened = ro_event_stream_get(&legacy->stream) == RO_NET_OK;
    return legacy->opened;
}

/* ---- the carrier ---- */

static void
send_message(ro_exchange *exchange, ro_slice message)
{
    ro_legacy *legacy = exchange->session->state;
    ro_header_list_free(&legacy->template);
    if (!sse_headers(&legacy->template, &exchange->headers)) {
        ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE, RO_REASON_MEMORY);
    }
    else if (legacy->endpoint != NULL) {
        post_exchange(exchange, message);
    }
    else if (!legacy->opened && !open_stream(exchange->session)) {
        ro_exchange_fail(exchange, RO_CODE_RUNTIME_FAILURE,
                         RO_REASON_INTERNAL);
    }
}

static void
legacy_send(ro_exchange *exchange)
{
    ro_buf message;
    ro_buf_init(&message, RO_MAX_REQUEST);
    if (ro_waiting_enter(exchange, &message)) {
        send_message(exchange, ro_buf_slice(&message));
    }
    ro_buf_free(&message);
}

static void
legacy_answer(ro_session *session, ro_slice message)
{
    const ro_legacy *legacy = session->state;
    (void)post(session, &legacy->template, message, NULL);
}

static void
legacy_end(ro_session *session)
{
    ro_legacy *legacy = session->state;
    legacy->over = true;
    ro_event_stream_stop(&legacy->stream);
}

static void
legacy_free(void *state)
{
    ro_legacy *legacy = state;
    if (legacy != NULL) {
        ro_header_list_free(&legacy->template);
        ro_event_stream_free(&legacy->stream);
        ro_free(legacy->moved);
        ro_free(legacy->endpoint);
        ro_free(legacy);
    }
}

const ro_carrier ro_legacy_carrier = {
    .send = legacy_send,
    .answer = legacy_answer,
    .end = legacy_end,
    .free = legacy_free,
};
