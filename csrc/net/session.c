#include "net/session.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/limits.h"
#include "net/channel.h"

/* ---- the ro_mcp object ---- */

ro_mcp *
ro_mcp_new(ro_net *net, ro_call *call)
{
    pthread_condattr_t attr;
    ro_mcp *mcp = ro_calloc(1, sizeof(*mcp));
    if (mcp == NULL) {
        return NULL;
    }
    mcp->pid = getpid();
    mcp->net = net;
    mcp->call = call;
    mcp->replies = ro_replies_new();
    if (mcp->replies == NULL) {
        ro_free(mcp);
        return NULL;
    }
    if (pthread_condattr_init(&attr) != 0) {
        goto fail;
    }
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    int failed = pthread_cond_init(&mcp->quiet, &attr);
    (void)pthread_condattr_destroy(&attr);
    if (failed != 0) {
        goto fail;
    }
    if (pthread_mutex_init(&mcp->lock, NULL) != 0) {
        (void)pthread_cond_destroy(&mcp->quiet);
        goto fail;
    }
    return mcp;
fail:
    ro_replies_free(mcp->replies);
    ro_free(mcp);
    return NULL;
}

static void
session_free(ro_session *session)
{
    if (session == NULL) {
        return;
    }
    if (session->channel != NULL) {
        session->channel->free(session);
    }
    ro_sse_free(&session->push.sse);
    ro_free(session->push.event_id);
    ro_header_list_free(&session->template);
    ro_free(session->server_bytes);
    ro_free(session->url);
    ro_free(session->proxy);
    ro_free(session->cafile);
    ro_free(session->capath);
    ro_free(session->id);
    ro_free(session);
}

void
ro_mcp_free(ro_mcp *mcp)
{
    if (mcp == NULL) {
        return;
    }
    ro_exchange_free_all(mcp);
    while (mcp->sessions != NULL) {
        ro_session *next = mcp->sessions->next;
        session_free(mcp->sessions);
        mcp->sessions = next;
    }
    ro_replies_free(mcp->replies);
    (void)pthread_mutex_destroy(&mcp->lock);
    (void)pthread_cond_destroy(&mcp->quiet);
    ro_free(mcp);
}

ro_replies *
ro_mcp_replies(ro_mcp *mcp)
{
    return mcp->replies;
}

/* ---- sessions ---- */

static size_t
origin_length(const char *url)
{
    const char *host = strstr(url, "://");
    return host == NULL ? 0
                        : (size_t)(host - url) + 3 + strcspn(host + 3, "/?#");
}

static char *
copy(const char *text)
{
    return ro_memdup(text, strlen(text));
}

static ro_session *
session_new(ro_mcp *mcp, const ro_session_options *options)
{
    if (getpid() != mcp->pid) {
        errno = EPERM;
        return NULL;
    }
    errno = ENOMEM;
    ro_session *session = ro_calloc(1, sizeof(*session));
    if (session == NULL) {
        return NULL;
    }
    session->mcp = mcp;
    session->auth = options->auth;
    session->server_bytes
        = ro_memdup(options->server.ptr, options->server.len);
    session->server = ro_slice_of(session->server_bytes, options->server.len);
    session->url = copy(options->url);
    session->proxy = copy(options->proxy);
    session->cafile = copy(options->cafile);
    session->capath = copy(options->capath);
    if (session->server_bytes == NULL || session->url == NULL
        || session->proxy == NULL || session->cafile == NULL
        || session->capath == NULL) {
        session_free(session);
        errno = ENOMEM;
        return NULL;
    }
    session->origin_len = origin_length(session->url);
    session->call_phase = ro_call_gate(mcp->call) != RO_GATE_CLOSED;
    return session;
}

static ro_session *
enlist(ro_session *session)
{
    ro_mcp *mcp = session->mcp;
    pthread_mutex_lock(&mcp->lock);
    session->next = mcp->sessions;
    mcp->sessions = session;
    pthread_mutex_unlock(&mcp->lock);
    return session;
}

ro_session *
ro_mcp_session(ro_mcp *mcp, const ro_session_options *options)
{
    ro_session *session = session_new(mcp, options);
    if (session == NULL) {
        return NULL;
    }
    if (options->legacy) {
        session->carrier = ro_legacy_new();
        if (session->carrier == NULL) {
            session_free(session);
            errno = ENOMEM;
            return NULL;
        }
        session->channel = &ro_legacy_channel;
    }
    return enlist(session);
}

ro_session *
ro_mcp_stdio_session(ro_mcp *mcp, const ro_session_options *options,
                     char *const argv[], char *const envp[])
{
    ro_session *session = session_new(mcp, options);
    if (session == NULL) {
        return NULL;
    }
    if (!ro_stdio_start(session, argv, envp)) {
        int failed = errno;
        session_free(session);
        errno = failed;
        return NULL;
    }
    return enlist(session);
}

static void
end_on_worker(void *ctx)
{
    ro_session *session = ctx;
    session->channel->end(session);
}

void
ro_session_end(ro_session *session)
{
    if (session->channel != NULL) {
        /* a worker that is gone has ended everything already */
        (void)ro_net_run(session->mcp->net, end_on_worker, session);
    }
}

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

bool
ro_session_submit(ro_session *session, uint64_t ticket, const char *method,
                  const char *url, const ro_header *headers, size_t n_headers,
                  ro_slice body, bool has_body)
{
    ro_exchange *exchange = ro_exchange_new(
        session, ticket, method, url, headers, n_headers, body, has_body);
    if (exchange == NULL) {
        return false;
    }
    if (ro_net_run(session->mcp->net, ro_exchange_start, exchange)
        != RO_NET_OK) {
        ro_exchange_free(exchange);
        return false;
    }
    return true;
}

/* ---- the end of sessions ---- */

void
ro_mcp_await(ro_mcp *mcp)
{
    pthread_mutex_lock(&mcp->lock);
    mcp->pending++;
    pthread_mutex_unlock(&mcp->lock);
}

void
ro_mcp_release(ro_mcp *mcp)
{
    pthread_mutex_lock(&mcp->lock);
    if (--mcp->pending == 0) {
        (void)pthread_cond_broadcast(&mcp->quiet);
    }
    pthread_mutex_unlock(&mcp->lock);
}

typedef struct farewell {
    ro_mcp *mcp;
    ro_transfer *transfer;
    ro_timer *timer; /* NULL too when there was no memory for one */
    bool passed_on;  /* the next one's turn has come */
} farewell;

static void delete_next(ro_mcp *mcp);

static void
delete_turn(void *ctx)
{
    farewell *end = ctx;
    end->timer = NULL;
    end->passed_on = true;
    delete_next(end->mcp);
}

static ro_sink_verdict
delete_head(void *ctx, const ro_head *head)
{
    (void)ctx;
    (void)head;
    return RO_SINK_STOP;
}

static ro_sink_verdict
delete_data(void *ctx, const char *bytes, size_t len)
{
    (void)ctx;
    (void)bytes;
    (void)len;
    return RO_SINK_STOP;
}

static void
delete_done(void *ctx, ro_net_code code)
{
    farewell *end = ctx;
    ro_mcp *mcp = end->mcp;
    (void)code; /* best effort: the session expires on the server too */
    ro_transfer_release(end->transfer);
    bool my_turn = !end->passed_on;
    if (end->timer != NULL) {
        ro_timer_stop(mcp->net, end->timer);
    }
    ro_free(end);
    if (my_turn) {
        delete_next(mcp);
    }
    mcp->deletes--;
    ro_mcp_release(mcp);
}

static bool
delete_session(ro_session *session)
{
    ro_mcp *mcp = session->mcp;
    ro_request request;
    bool sent = false;
    farewell *end = ro_calloc(1, sizeof(*end));
    session->ended = true;
    if (end == NULL
        || !ro_header_list_set(&session->template,
                               ro_slice_str("mcp-session-id"),
                               ro_slice_of(session->id, session->id_len))) {
        ro_free(end);
        return false;
    }
    end->mcp = mcp;
    ro_session_request(session, &request);
    request.method = "DELETE";
    request.headers = session->template.items;
    request.n_headers = session->template.count;
    request.body = ro_slice_of("", 0);
    ro_sink sink = {end, delete_head, delete_data, delete_done};
    ro_mcp_await(mcp);
    mcp->deletes++;
    end->timer = ro_net_after(mcp->net, RO_DELETE_TURN_MS, delete_turn, end);
    if (ro_net_submit(mcp->net, &request, &sink, &end->transfer)
        == RO_NET_OK) {
        sent = true;
    }
    else {
        if (end->timer != NULL) {
            ro_timer_stop(mcp->net, end->timer);
        }
        ro_free(end);
        mcp->deletes--;
        ro_mcp_release(mcp);
    }
    return sent;
}

/* One after the other, so that they share a connection. */
static void
delete_next(ro_mcp *mcp)
{
    pthread_mutex_lock(&mcp->lock);
    ro_session *session = mcp->sessions;
    pthread_mutex_unlock(&mcp->lock);
    for (; session != NULL; session = session->next) {
        if (session->id != NULL && !session->ended
            && delete_session(session)) {
            return;
        }
    }
}

void
ro_mcp_end_sessions(ro_mcp *mcp)
{
    pthread_mutex_lock(&mcp->lock);
    ro_session *session = mcp->sessions;
    pthread_mutex_unlock(&mcp->lock);
    for (; session != NULL; session = session->next) {
        ro_session_push_close(session);
        if (session->channel != NULL) {
            session->channel->end(session);
        }
    }
    if (mcp->deletes == 0) {
        delete_next(mcp);
    }
}

static void
close_on_worker(void *ctx)
{
    ro_mcp *mcp = ctx;
    mcp->closing = true;
    ro_exchange_stop_all(mcp);
    ro_mcp_end_sessions(mcp);
    pthread_mutex_lock(&mcp->lock);
    mcp->close_started = true;
    (void)pthread_cond_broadcast(&mcp->quiet);
    pthread_mutex_unlock(&mcp->lock);
}

void
ro_mcp_close(ro_mcp *mcp, int wait_ms)
{
    struct timespec until;
    if (ro_net_run(mcp->net, close_on_worker, mcp) != RO_NET_OK) {
        return;
    }
    wait_ms = wait_ms < 0 ? 0 : wait_ms;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += wait_ms / 1000;
    until.tv_nsec += (long)(wait_ms % 1000) * 1000000L;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000L;
    }
    pthread_mutex_lock(&mcp->lock);
    while (!mcp->close_started || mcp->pending != 0) {
        if (pthread_cond_timedwait(&mcp->quiet, &mcp->lock, &until)
            == ETIMEDOUT) {
            break;
        }
    }
    pthread_mutex_unlock(&mcp->lock);
}
