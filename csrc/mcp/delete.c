#include "mcp/delete.h"

#include "core/alloc.h"
#include "core/limits.h"
#include "mcp/ending.h"
#include "mcp/request.h"

/* A DELETE under way. It has its turn until it is answered, or for
 * RO_DELETE_TURN_MS: then the next one need not wait for its connection. */
typedef struct sent_delete {
    ro_mcp *mcp;
    ro_transfer *transfer;
    ro_timer *timer; /* NULL too when there was no memory for one */
    bool turn_given; /* the next one may go */
} sent_delete;

static void delete_next(ro_mcp *mcp);

static void
give_turn_on(sent_delete *sent)
{
    if (!sent->turn_given) {
        sent->turn_given = true;
        sent->mcp->deleting--;
        delete_next(sent->mcp);
    }
}

static void
on_turn(void *ctx)
{
    sent_delete *sent = ctx;
    sent->timer = NULL;
    give_turn_on(sent);
}

static void
free_sent(sent_delete *sent)
{
    if (sent->timer != NULL) {
        ro_timer_stop(sent->mcp->net, sent->timer);
    }
    ro_free(sent);
}

static void
on_done(void *ctx, ro_net_code code)
{
    sent_delete *sent = ctx;
    ro_mcp *mcp = sent->mcp;
    (void)code; /* best effort: the session expires on the server too */
    ro_transfer_release(sent->transfer);
    give_turn_on(sent);
    free_sent(sent);
    ro_mcp_release(mcp);
}

static bool
submit(sent_delete *sent, ro_deletion *deletion)
{
    ro_sink sink = {sent, ro_ignore_head, ro_ignore_data, on_done};
    if (!ro_header_list_set(deletion->headers, ro_slice_str("mcp-session-id"),
                            deletion->id)) {
        return false;
    }
    deletion->request.method = "DELETE";
    deletion->request.headers = deletion->headers->items;
    deletion->request.n_headers = deletion->headers->count;
    deletion->request.body = ro_slice_of("", 0);
    return ro_net_submit(sent->mcp->net, &deletion->request, &sink,
                         &sent->transfer)
           == RO_NET_OK;
}

static bool
start(ro_deletion *deletion)
{
    ro_mcp *mcp = deletion->mcp;
    sent_delete *sent = ro_calloc(1, sizeof(*sent));
    if (sent == NULL) {
        return false;
    }
    sent->mcp = mcp;
    sent->timer = ro_net_after(mcp->net, RO_DELETE_TURN_MS, on_turn, sent);
    ro_mcp_await(mcp);
    if (!submit(sent, deletion)) {
        free_sent(sent);
        ro_mcp_release(mcp);
        return false;
    }
    return true;
}

static void
delete_next(ro_mcp *mcp)
{
    while (mcp->to_delete != NULL && mcp->deleting < RO_MAX_DELETES) {
        ro_deletion *next = mcp->to_delete;
        mcp->to_delete = next->next;
        mcp->deleting += start(next);
    }
}

void
ro_delete(ro_mcp *mcp, ro_deletion *deletion, const ro_request *destination,
          ro_header_list *headers, ro_slice id)
{
    ro_deletion **link = &mcp->to_delete;
    if (deletion->started) {
        return;
    }
    deletion->started = true;
    deletion->mcp = mcp;
    deletion->request = *destination;
    deletion->headers = headers;
    deletion->id = id;
    while (*link != NULL) {
        link = &(*link)->next;
    }
    *link = deletion;
    delete_next(mcp);
}

void
ro_http_delete(ro_session *session)
{
    ro_http *http = session->state;
    ro_request destination;
    if (http->id != NULL) {
        ro_session_request(session, &destination);
        ro_delete(session->mcp, &http->deletion, &destination, &http->template,
                  ro_slice_of(http->id, http->id_len));
    }
}
