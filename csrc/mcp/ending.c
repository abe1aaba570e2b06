#include "mcp/ending.h"

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

/* End the sessions; those of the call only when all are to. */
static void
end_sessions(ro_mcp *mcp, bool all)
{
    /* new sessions are put in front, so the rest of the list stays */
    pthread_mutex_lock(&mcp->lock);
    ro_session *session = mcp->sessions;
    pthread_mutex_unlock(&mcp->lock);
    for (; session != NULL; session = session->next) {
        if (all || !session->call_phase) {
            session->over = true;
            session->carrier->end(session);
        }
    }
}

void
ro_mcp_end_discovery(ro_mcp *mcp)
{
    end_sessions(mcp, false);
}

void
ro_mcp_end_sessions(ro_mcp *mcp)
{
    mcp->over = true;
    end_sessions(mcp, true);
}
