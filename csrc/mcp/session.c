#include "mcp/session.h"

#include <errno.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/limits.h"
#include "core/monotonic.h"
#include "mcp/ahead.h"
#include "mcp/ending.h"
#include "mcp/exchange.h"
#include "mcp/http.h"
#include "mcp/legacy.h"
#include "mcp/reduce.h"
#include "mcp/start.h"
#include "mcp/stdio.h"

/* ---- the ro_mcp object ---- */

ro_mcp *
ro_mcp_new(ro_net *net, ro_discovery *discovery, ro_gate *gate,
           ro_record *record)
{
    ro_mcp *mcp = ro_calloc(1, sizeof(*mcp));
    if (mcp == NULL) {
        return NULL;
    }
    mcp->pid = getpid();
    mcp->net = net;
    mcp->discovery = discovery;
    mcp->gate = gate;
    mcp->record = record;
    mcp->replies = ro_replies_new();
    if (mcp->replies == NULL) {
        ro_free(mcp);
        return NULL;
    }
    if (ro_cond_init(&mcp->quiet) != 0) {
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
    session->carrier->free(session->state);
    ro_free(session->server_bytes);
    ro_free(session->configured);
    ro_free(session->url);
    ro_free(session->proxy);
    ro_free(session->cafile);
    ro_free(session->capath);
    ro_free(session);
}

void
ro_mcp_free(ro_mcp *mcp)
{
    if (mcp == NULL) {
        return;
    }
    ro_exchange_free_all(mcp);
    ro_ahead_free(mcp->ahead);
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

static bool
copy_options(ro_session *session, const ro_session_options *options)
{
    session->auth = options->auth;
    session->server_bytes
        = ro_memdup(options->server.ptr, options->server.len);
    session->server = ro_slice_of(session->server_bytes, options->server.len);
    session->configured = copy(options->url);
    session->url = copy(options->url);
    session->proxy = copy(options->proxy);
    session->cafile = copy(options->cafile);
    session->capath = copy(options->capath);
    return session->server_bytes != NULL && session->configured != NULL
           && session->url != NULL && session->proxy != NULL
           && session->cafile != NULL && session->capath != NULL;
}

/* Takes the carrier's state, which is NULL with errno set when there was
 * none; frees it on failure. */
static ro_session *
session_new(ro_mcp *mcp, const ro_session_options *options,
            const ro_carrier *carrier, void *state)
{
    if (state == NULL) {
        return NULL;
    }
    ro_session *session = ro_calloc(1, sizeof(*session));
    if (session == NULL) {
        carrier->free(state);
        errno = ENOMEM;
        return NULL;
    }
    session->mcp = mcp;
    session->carrier = carrier;
    session->state = state;
    if (!copy_options(session, options)) {
        session_free(session);
        errno = ENOMEM;
        return NULL;
    }
    session->budget = ro_reduce_budget();
    session->origin_len = origin_length(session->url);
    /* The verdict opens the gate before the call's session is made. */
    session->call_phase = ro_gate_state_of(mcp->gate) != RO_GATE_CLOSED;
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
    if (getpid() != mcp->pid) {
        errno = EPERM;
        return NULL;
    }
    errno = ENOMEM;
    ro_session *session
        = options->legacy
              ? session_new(mcp, options, &ro_legacy_carrier, ro_legacy_new())
              : session_new(mcp, options, &ro_http_carrier, ro_http_new());
    return session == NULL ? NULL : enlist(session);
}

ro_session *
ro_mcp_stdio_session(ro_mcp *mcp, const ro_session_options *options,
                     char *const argv[], char *const envp[])
{
    if (getpid() != mcp->pid) {
        errno = EPERM;
        return NULL;
    }
    ro_session *session
        = session_new(mcp, options, &ro_stdio_carrier,
                      ro_stdio_new(argv, envp, options->core_limit));
    if (session != NULL && !ro_stdio_start(session)) {
        int failed = errno;
        session_free(session);
        errno = failed;
        return NULL;
    }
    return session == NULL ? NULL : enlist(session);
}

static void
end_on_worker(void *ctx)
{
    ro_session *session = ctx;
    session->carrier->end(session);
}

void
ro_session_end(ro_session *session)
{
    /* a worker that is gone has ended everything already */
    (void)ro_net_run(session->mcp->net, end_on_worker, session);
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

static void
close_on_worker(void *ctx)
{
    ro_mcp *mcp = ctx;
    mcp->closing = true;
    ro_exchange_stop_all(mcp);
    ro_ahead_drop(mcp->ahead);
    ro_mcp_end_sessions(mcp);
    pthread_mutex_lock(&mcp->lock);
    mcp->close_started = true;
    (void)pthread_cond_broadcast(&mcp->quiet);
    pthread_mutex_unlock(&mcp->lock);
}

void
ro_mcp_close(ro_mcp *mcp, int wait_ms)
{
    if (ro_net_run(mcp->net, close_on_worker, mcp) != RO_NET_OK) {
        return;
    }
    wait_ms = wait_ms < 0 ? 0 : wait_ms;
    int64_t until = ro_monotonic_ms() + wait_ms;
    pthread_mutex_lock(&mcp->lock);
    while ((!mcp->close_started || mcp->pending != 0)
           && ro_cond_wait_until(&mcp->quiet, &mcp->lock, until)) {
    }
    pthread_mutex_unlock(&mcp->lock);
}
