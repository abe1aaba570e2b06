/* A conversation that runs ahead of the SDK.
 *
 * While Python still imports the SDK, the worker sends what the SDK is about
 * to send, in its order and bytes, in two sequences beside each other: the
 * discovery session's initialize, notifications/initialized and tools/list,
 * and the call session's initialize and notifications/initialized. Later
 * ones of a sequence go out once the one before was answered with a plain
 * success; after initialize they carry the session's id and the protocol
 * version, as the SDK's do. tools/call is never among them.
 *
 * The call's sequence begins once discovery's initialize was answered like
 * that, so that a server with room for one session gives it to discovery, as
 * it would without. Its connection is opened meanwhile (net/open.h), and
 * closed when discovery is refused.
 *
 * When an exchange sends a request that is byte for byte the next one of its
 * session's sequence (method, destination, headers, body), it takes that over,
 * answered or under way, and everything above (bounds, verdicts, the record)
 * sees what it would have seen. A sequence is used only as far as it went
 * well:
 *
 * - An answer that is no plain success is thrown away, with all that ran
 *   ahead of discovery's or of the call's session; the SDK's own request goes
 *   out, and its answer is the outcome. A redirect, a 401 and a 403
 *   of discovery are taken as they are: they are final, and end both
 *   sequences.
 * - A request that is not the expected one drops both sequences.
 * - A dropped sequence's session, if the server made one, is ended by a
 *   DELETE.
 * - Once a request was taken over while under way, the SDK sets the pace:
 *   nothing more of its sequence is sent ahead.
 *
 * An answer keeps at most RO_MAX_AHEAD bytes; the rest waits on the wire.
 */
#ifndef RO_MCP_AHEAD_H
#define RO_MCP_AHEAD_H

#include "mcp/ahead_plan.h"
#include "mcp/state.h"

/* Start it, once, before the first session. Copies everything. Any thread.
 * False: nothing runs ahead, and nothing else changes. */
bool ro_mcp_run_ahead(ro_mcp *mcp, const ro_ahead_plan *plan);

/* DCode's preflight begins, on a connection of its own. If no session has
 * asked for anything RO_PREFLIGHT_MS later, the server may be busy with our
 * connections: from then on they are closed as soon as they are idle, and the
 * call's sequence is dropped unless it is done. Any thread, once; best effort.
 */
void ro_mcp_await_preflight(ro_mcp *mcp);

typedef struct ro_ahead ro_ahead;

/* Worker thread. An exchange is about to send a request: true when it ran
 * ahead; then all is as after ro_net_submit. False: it is to be sent. */
bool ro_ahead_take(ro_session *session, const ro_request *request,
                   const ro_sink *sink, ro_transfer **out);
/* Worker thread. Drop what nobody took. NULL is fine. */
void ro_ahead_drop(ro_ahead *ahead);
/* The worker is gone. NULL is fine. */
void ro_ahead_free(ro_ahead *ahead);

#endif
