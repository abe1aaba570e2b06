/* What one session lets its server do beside answering: events that are no
 * message, requests of its own, streams that are opened again. Worker thread
 * only.
 */
#ifndef RO_MCP_ALLOWANCE_H
#define RO_MCP_ALLOWANCE_H

#include "mcp/state.h"

/* Count what is no JSON-RPC message; false when it was one too many. */
bool ro_session_pass_over(ro_session *session);
/* Answer a request of the server, as often as a session does. */
void ro_session_answer(ro_session *session, const ro_rpc *request);
/* Milliseconds until the next GET may go, wanted or later; -1 when the
 * session has had all its GETs. Counts it. */
int ro_session_get_delay(ro_session *session, int wanted_ms);

#endif
