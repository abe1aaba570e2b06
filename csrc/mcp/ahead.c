#include "mcp/ahead.h"

#include <unistd.h>

#include "core/alloc.h"
#include "core/json.h"
#include "core/limits.h"
#include "mcp/prefetch.h"
#include "mcp/delete.h"
#include "mcp/event_stream.h"
#include "mcp/message.h"
#include "mcp/request.h"
#include "mcp/response.h"

enum { DISCOVERY, CALL, SEQUENCES };

struct sequence;

/* One request that runs ahead. */
typedef struct step {
    struct sequence *sequence;
    ro_prefetch prefetch;
    ro_sse sse;
    bool events; /* the answer is an event stream */
    bool good;   /* answered with a plain success */
} step;

typedef struct sequence {
    ro_ahead *ahead;
    step steps[RO_AHEAD_STEPS];
    unsigned length; /* steps that may run ahead */
    unsigned sent;
    unsigned taken;
    ro_session *session;    /* that has taken its initialize; or NULL */
    ro_header_list headers; /* behind initialize */
    char *id;               /* of the server's session; or NULL */
    size_t id_len;
    ro_deletion deletion;
    bool over;    /* nothing more is sent ahead */
    bool dropped; /* nothing of it is taken any more */
} sequence;

struct ro_ahead {
    ro_mcp *mcp;
    ro_ahead_said said;
    ro_transfer *opening; /* the call's connection; NULL: it is there, or
                             could not be made */
    ro_timer *preflight;  /* or NULL */
    sequence sequences[SEQUENCES];
};

/* ---- life ---- */

static void
init_sequence(ro_ahead *ahead, unsigned index)
{
    sequence *each = &ahead->sequences[index];
    each->ahead = ahead;
    each->length = index == DISCOVERY ? RO_AHEAD_STEPS : RO_AHEAD_LIST;
    for (unsigned i = 0; i < RO_AHEAD_STEPS; i++) {
        each->steps[i].sequence = each;
    }
}

static ro_ahead *
ahead_new(ro_mcp *mcp, const ro_ahead_plan *plan)
{
    ro_ahead *ahead = ro_calloc(1, sizeof(*ahead));
    if (ahead == NULL) {
        return NULL;
    }
    ahead->mcp = mcp;
    for (unsigned i = 0; i < SEQUENCES; i++) {
        init_sequence(ahead, i);
    }
    if (!ro_ahead_said_copy(&ahead->said, plan)) {
        ro_ahead_free(ahead);
        return NULL;
    }
    return ahead;
}

void
ro_ahead_free(ro_ahead *ahead)
{
    if (ahead == NULL) {
        return;
    }
    ro_transfer_release(ahead->opening);
    for (unsigned i = 0; i < SEQUENCES; i++) {
        sequence *each = &ahead->sequences[i];
        for (unsigned n = 0; n < RO_AHEAD_STEPS; n++) {
            ro_prefetch_free(&each->steps[n].prefetch);
            ro_sse_free(&each->steps[n].sse);
        }
        ro_header_list_free(&each->headers);
        ro_free(each->id);
    }
    ro_ahead_said_free(&ahead->said);
    ro_free(ahead);
}

/* ---- requests ---- */

static unsigned
index_of(const step *one)
{
    return (unsigned)(one - one->sequence->steps);
}

static const ro_header_list *
headers_of(const step *one)
{
    return index_of(one) == RO_AHEAD_INITIALIZE
               ? &one->sequence->ahead->said.headers
               : &one->sequence->headers;
}

static void
fill_destination(const ro_ahead *ahead, ro_request *request)
{
    memset(request, 0, sizeof(*request));
    request->url = ahead->said.url;
    request->proxy = ahead->said.proxy;
    request->cafile = ahead->said.cafile;
    request->capath = ahead->said.capath;
    request->max_headers = RO_MAX_HEADERS;
}

static void
fill_request(const step *one, ro_request *request)
{
    const ro_ahead *ahead = one->sequence->ahead;
    const ro_header_list *headers = headers_of(one);
    fill_destination(ahead, request);
    request->method = "POST";
    request->headers = headers->items;
    request->n_headers = headers->count;
    request->body = ro_slice_str(ahead->said.bodies[index_of(one)]);
    request->has_body = true;
    request->sending = RO_SEND_AGAIN;
}

/* ---- dropping ---- */

/* The server has made a session that no ro_session knows of. */
static void
end_session(sequence *of)
{
    const ro_ahead *ahead = of->ahead;
    ro_request destination;
    fill_destination(ahead, &destination);
    if (of->headers.count != 0
        || ro_header_list_copy(&of->headers, ahead->said.headers.items,
                               ahead->said.headers.count)) {
        ro_delete(ahead->mcp, &of->deletion, &destination, &of->headers,
                  ro_slice_of(of->id, of->id_len));
    }
}

static bool
is_discovery(const sequence *of)
{
    return of == &of->ahead->sequences[DISCOVERY];
}

/* A server that serves one connection at a time waits for a request on it. At
 * the end it may be a DELETE's. */
static void
drop_connection(const ro_ahead *ahead)
{
    if (ahead->opening != NULL) {
        ro_transfer_cancel(ahead->opening);
    }
    if (!ahead->mcp->closing) {
        ro_net_close_unused(ahead->mcp->net);
    }
}

/* An initialize without an answer goes on: the session that comes of it has
 * to be ended. */
static void
drop(sequence *of)
{
    if (of->dropped) {
        return;
    }
    of->over = true;
    of->dropped = true;
    for (unsigned i = of->taken; i < of->sent; i++) {
        step *one = &of->steps[i];
        (void)ro_discovery_count(of->ahead->mcp->discovery,
                                 one->prefetch.data.len);
        if (i != RO_AHEAD_INITIALIZE || one->prefetch.has_head) {
            ro_prefetch_cancel(&one->prefetch);
        }
    }
    if (of->session == NULL && of->id != NULL) {
        end_session(of);
    }
    if (!is_discovery(of)) {
        drop_connection(of->ahead);
    }
}

void
ro_ahead_drop(ro_ahead *ahead)
{
    for (unsigned i = 0; ahead != NULL && i < SEQUENCES; i++) {
        drop(&ahead->sequences[i]);
    }
}

/* Nobody opens the call's session when its discovery has failed. */
static void
refuse(sequence *of)
{
    if (is_discovery(of)) {
        ro_ahead_drop(of->ahead);
    }
    else {
        drop(of);
    }
}

/* ---- answers ---- */

static bool
is_plain_text(ro_slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] <= 0x20 || text.ptr[i] >= 0x7f) {
            return false;
        }
    }
    return text.len != 0 && text.len <= RO_MAX_HEADER_VALUE;
}

/* What of the head to initialize decides what follows. A cookie would be in
 * the SDK's next request. False: out of memory. */
static bool
note_session(sequence *of, const ro_head *head)
{
    ro_slice value;
    size_t ids
        = ro_header_count(head->headers, head->n_headers, "mcp-session-id");
    if (ids == 1
        && ro_header_find(head->headers, head->n_headers, "mcp-session-id",
                          &value)
        && is_plain_text(value)) {
        of->id = ro_memdup(value.ptr, value.len);
        of->id_len = value.len;
        return of->id != NULL;
    }
    of->over = of->over || ids != 0;
    return true;
}

static bool
has_object(ro_slice result, const char *key)
{
    ro_slice value;
    return ro_json_find(result, key, &value) == 1
           && ro_json_type_of(value) == RO_JSON_OBJECT;
}

/* The headers behind initialize; false when nothing may follow it. */
static bool
agree(sequence *of, ro_slice result)
{
    const ro_ahead *ahead = of->ahead;
    ro_slice version;
    if (!has_object(result, "capabilities")
        || !has_object(result, "serverInfo")
        || ro_json_find(result, "protocolVersion", &version) != 1
        || ro_json_type_of(version) != RO_JSON_STRING || version.len < 2) {
        return false;
    }
    version = ro_slice_of(version.ptr + 1, version.len - 2);
    return ro_ahead_speaks(&ahead->said, version)
           && ro_header_list_copy(&of->headers, ahead->said.headers.items,
                                  ahead->said.headers.count)
           && (of->id == NULL
               || ro_header_list_add(&of->headers,
                                     ro_slice_str("mcp-session-id"),
                                     ro_slice_of(of->id, of->id_len)))
           && ro_header_list_add(
               &of->headers, ro_slice_str("mcp-protocol-version"), version);
}

/* An answer decides; what the server asks on the way waits for the SDK's
 * exchange. False: no answer. */
static bool
judge(step *one, ro_slice bytes)
{
    ro_message message;
    ro_message asked;
    ro_message_read(bytes, &message);
    if (message.kind != RO_MESSAGE_ANSWER) {
        return false;
    }
    ro_message_read(
        ro_slice_str(one->sequence->ahead->said.bodies[index_of(one)]),
        &asked);
    one->good = ro_rpc_id_equal(message.id, asked.rpc.id)
                && message.rpc.result.len != 0
                && ro_json_type_of(message.rpc.result) == RO_JSON_OBJECT
                && (index_of(one) != RO_AHEAD_INITIALIZE
                    || agree(one->sequence, message.rpc.result));
    return true;
}

static bool
on_event(void *ctx, const ro_sse_event *event)
{
    return !ro_event_is_message(event) || !judge(ctx, event->data);
}

static ro_sink_verdict
on_head(void *ctx, const ro_head *head)
{
    step *one = ctx;
    sequence *of = one->sequence;
    unsigned index = index_of(one);
    bool success = index == RO_AHEAD_INITIALIZED
                       ? head->status >= 200 && head->status < 300
                       : head->status == 200;
    if (index == RO_AHEAD_INITIALIZE && success && !note_session(of, head)) {
        return RO_SINK_FAIL;
    }
    if (of->dropped) {
        if (of->id != NULL) {
            end_session(of);
        }
        return RO_SINK_FAIL; /* its connection ends with it */
    }
    ro_response response = ro_response_of(head);
    if (is_discovery(of)
        && (response == RO_RESPONSE_CHALLENGE
            || response == RO_RESPONSE_REDIRECT)) {
        /* the same to whoever asks: asking again would change nothing */
        one->good = true;
        of->over = true;
        drop(&of->ahead->sequences[CALL]);
        return RO_SINK_STOP;
    }
    if (!success) {
        return RO_SINK_FAIL;
    }
    of->over = of->over
               || ro_header_count(head->headers, head->n_headers, "set-cookie")
                      != 0;
    if (index == RO_AHEAD_INITIALIZED) {
        one->good = true;
        return RO_SINK_STOP;
    }
    one->events = response == RO_RESPONSE_EVENTS;
    if (one->events) {
        ro_sse_init(&one->sse, RO_MAX_AHEAD, RO_MAX_HEADER_VALUE, on_event,
                    one);
    }
    return one->events || response == RO_RESPONSE_JSON ? RO_SINK_MORE
                                                       : RO_SINK_FAIL;
}

static ro_sink_verdict
on_data(void *ctx, const char *bytes, size_t len)
{
    step *one = ctx;
    if (!one->events) {
        return RO_SINK_MORE;
    }
    switch (ro_sse_feed(&one->sse, bytes, len)) {
    case RO_SSE_OK:
        return RO_SINK_MORE;
    case RO_SSE_STOPPED:
        return one->good ? RO_SINK_STOP : RO_SINK_FAIL;
    case RO_SSE_TOO_LARGE:
    case RO_SSE_NO_MEMORY:
        break;
    }
    return RO_SINK_FAIL;
}

static void send_next(sequence *of);

/* A server may have room for one session, or be about to refuse: the call's
 * begins when it would, once discovery's is there. */
static bool
may_begin(const sequence *of)
{
    const ro_ahead *ahead = of->ahead;
    return is_discovery(of)
           || (ahead->sequences[DISCOVERY].steps[RO_AHEAD_INITIALIZE].good
               && ahead->opening == NULL);
}

static void
on_done(void *ctx, ro_net_code code)
{
    step *one = ctx;
    sequence *of = one->sequence;
    ro_sse_free(&one->sse);
    if (of->dropped) {
        return;
    }
    if (code == RO_NET_OK && !one->events && !one->good) {
        (void)judge(one, ro_buf_slice(&one->prefetch.data));
    }
    if (code != RO_NET_OK || !one->good) {
        refuse(of);
        return;
    }
    send_next(of);
    if (is_discovery(of) && index_of(one) == RO_AHEAD_INITIALIZE) {
        send_next(&of->ahead->sequences[CALL]);
    }
}

static void
send_next(sequence *of)
{
    ro_request request;
    if (of->over || of->sent == of->length || !may_begin(of)) {
        return;
    }
    step *one = &of->steps[of->sent];
    ro_sink watcher = {one, on_head, on_data, on_done};
    fill_request(one, &request);
    if (ro_prefetch_begin(&one->prefetch, of->ahead->mcp->net, &request,
                          &watcher, RO_MAX_AHEAD)
        == RO_NET_OK) {
        of->sent++;
    }
    else {
        of->over = true;
    }
}

/* ---- beside the preflight ---- */

static bool
is_done(const sequence *of)
{
    return of->sent == of->length && of->steps[of->length - 1].good;
}

static void
on_preflight(void *ctx)
{
    ro_ahead *ahead = ctx;
    ahead->preflight = NULL;
    if (ahead->mcp->closing) {
        return;
    }
    if (!is_done(&ahead->sequences[CALL])) {
        drop(&ahead->sequences[CALL]);
    }
    ro_net_close_idle(ahead->mcp->net);
    ahead->preflight = ro_net_after(ahead->mcp->net, RO_PREFLIGHT_AGAIN_MS,
                                    on_preflight, ahead);
}

static void
stop_waiting(ro_ahead *ahead)
{
    if (ahead->preflight != NULL) {
        ro_timer_stop(ahead->mcp->net, ahead->preflight);
        ahead->preflight = NULL;
    }
}

static void
await_on_worker(void *ctx)
{
    ro_mcp *mcp = ctx;
    ro_ahead *ahead = mcp->ahead;
    if (ahead != NULL && ahead->preflight == NULL) {
        ahead->preflight
            = ro_net_after(mcp->net, RO_PREFLIGHT_MS, on_preflight, ahead);
    }
}

void
ro_mcp_await_preflight(ro_mcp *mcp)
{
    (void)ro_net_run(mcp->net, await_on_worker, mcp);
}

/* ---- who asks ---- */

/* The sequence that the session's next request may be of; NULL for none. */
static sequence *
sequence_of(ro_ahead *ahead, const ro_session *session)
{
    for (unsigned i = 0; i < SEQUENCES; i++) {
        if (ahead->sequences[i].session == session) {
            return &ahead->sequences[i];
        }
    }
    sequence *one = &ahead->sequences[session->call_phase ? CALL : DISCOVERY];
    return one->session == NULL && !session->auth
                   && ro_slice_equal(session->server,
                                     ro_slice_str(ahead->said.server))
               ? one
               : NULL;
}

static bool
take(sequence *of, ro_session *session, const ro_request *request,
     const ro_sink *sink, ro_transfer **out)
{
    ro_request expected;
    if (of->taken == of->sent) {
        of->over = true; /* the SDK has caught up */
        return false;
    }
    step *one = &of->steps[of->taken];
    fill_request(one, &expected);
    if (!ro_request_is_same(&expected, request)) {
        ro_ahead_drop(of->ahead);
        return false;
    }
    if (!ro_prefetch_take(&one->prefetch, sink, out)) {
        refuse(of);
        return false;
    }
    of->over = of->over || !one->good;
    of->session = session;
    of->taken++;
    return true;
}

bool
ro_ahead_take(ro_session *session, const ro_request *request,
              const ro_sink *sink, ro_transfer **out)
{
    ro_ahead *ahead = session->mcp->ahead;
    if (ahead != NULL) {
        stop_waiting(ahead);
    }
    sequence *of = ahead == NULL ? NULL : sequence_of(ahead, session);
    return of != NULL && !of->dropped && take(of, session, request, sink, out);
}

/* ---- the start ---- */

static void
on_opened(void *ctx, ro_net_code code)
{
    ro_ahead *ahead = ctx;
    (void)code; /* initialize meets the same fault */
    ro_transfer_release(ahead->opening);
    ahead->opening = NULL;
    send_next(&ahead->sequences[CALL]);
}

/* Discovery's connection is busy when the call's sequence begins. */
static void
open_connection(ro_ahead *ahead)
{
    ro_sink sink = {ahead, ro_ignore_head, ro_ignore_data, on_opened};
    ro_request request;
    fill_destination(ahead, &request);
    request.method = "POST";
    request.opens = true;
    request.fresh = true;
    (void)ro_net_submit(ahead->mcp->net, &request, &sink, &ahead->opening);
}

static void
start_on_worker(void *ctx)
{
    ro_ahead *ahead = ctx;
    ro_mcp *mcp = ahead->mcp;
    if (mcp->ahead != NULL || mcp->closing) {
        ro_ahead_free(ahead);
        return;
    }
    mcp->ahead = ahead;
    send_next(&ahead->sequences[DISCOVERY]);
    open_connection(ahead);
}

bool
ro_mcp_run_ahead(ro_mcp *mcp, const ro_ahead_plan *plan)
{
    if (getpid() != mcp->pid) {
        return false;
    }
    ro_ahead *ahead = ahead_new(mcp, plan);
    if (ahead == NULL) {
        return false;
    }
    if (ro_net_run(mcp->net, start_on_worker, ahead) != RO_NET_OK) {
        ro_ahead_free(ahead);
        return false;
    }
    return true;
}
