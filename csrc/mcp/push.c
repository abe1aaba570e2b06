#include "mcp/push.h"

#include "core/limits.h"
#include "mcp/allowance.h"
#include "mcp/message.h"
#include "mcp/response.h"

static ro_event_stream *
stream_of(const ro_session *session)
{
    return &((ro_http *)session->state)->push;
}

static ro_sink_verdict
push_head(void *ctx, const ro_head *head)
{
    if (ro_response_of(head) == RO_RESPONSE_EVENTS) {
        return RO_SINK_MORE;
    }
    ro_event_stream_close(stream_of(ctx));
    return RO_SINK_STOP;
}

static bool
push_count(void *ctx, size_t len)
{
    ro_session *session = ctx;
    bool within = ro_discovery_count(session->mcp->discovery, len);
    if (!within) {
        ro_event_stream_close(stream_of(session));
    }
    return within;
}

static ro_sink_verdict
push_event(void *ctx, const ro_sse_event *event)
{
    ro_session *session = ctx;
    ro_message message;
    if (!ro_event_is_message(event)) {
        return RO_SINK_MORE;
    }
    ro_message_read(event->data, &message);
    switch (message.kind) {
    case RO_MESSAGE_REQUEST:
        ro_session_answer(session, &message.rpc);
        return RO_SINK_MORE;
    case RO_MESSAGE_CLAIM: /* answers are not taken from here */
    case RO_MESSAGE_JUNK:
        if (ro_session_pass_over(session)) {
            return RO_SINK_MORE;
        }
        ro_event_stream_close(stream_of(session));
        return RO_SINK_FAIL;
    case RO_MESSAGE_ANSWER: /* to nothing that was asked here */
    case RO_MESSAGE_NOTIFICATION:
    case RO_MESSAGE_NO_MEMORY:
        break;
    }
    return RO_SINK_MORE;
}

static void
push_unreadable(void *ctx, ro_sse_code code)
{
    (void)code; /* the call does not end with it */
    ro_event_stream_close(stream_of(ctx));
}

static void
push_ended(void *ctx, ro_net_code code)
{
    ro_session *session = ctx;
    if (code != RO_NET_CANCELLED && code != RO_NET_SHUT_DOWN
        && !session->mcp->closing) {
        (void)ro_event_stream_again(stream_of(session), -1);
    }
}

static const ro_stream_owner owner = {
    .head = push_head,
    .count = push_count,
    .event = push_event,
    .unreadable = push_unreadable,
    .ended = push_ended,
};

void
ro_push_open(ro_session *session)
{
    const ro_http *http = session->state;
    ro_event_stream *stream = stream_of(session);
    if (http->id == NULL || ro_event_stream_is_open(stream) || stream->stopped
        || session->mcp->closing) {
        return;
    }
    ro_event_stream_free(stream);
    ro_event_stream_init(stream, session, &owner, session, RO_MAX_ANSWER);
    ro_event_stream_aim(stream, session->url, &http->template);
    (void)ro_event_stream_again(stream, 0);
}

void
ro_push_close(ro_session *session)
{
    ro_event_stream_stop(stream_of(session));
}
