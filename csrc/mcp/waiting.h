/* Exchanges whose answers come apart from their requests: over legacy SSE, or
 * a child's standard streams. The session keeps them; a carrier brings what
 * the server says. Worker thread only.
 */
#ifndef RO_MCP_WAITING_H
#define RO_MCP_WAITING_H

#include "mcp/state.h"

/* Wait for the exchange's answer, and append its message to line, minified:
 * it then holds no raw line feed. False when it has failed for want of
 * memory. */
bool ro_waiting_enter(ro_exchange *exchange, ro_buf *line);
/* One message came: see mcp/message.h for what it can be. */
void ro_waiting_message(ro_session *session, ro_slice bytes);
/* Something that is no JSON-RPC message came; one too many closes. */
void ro_waiting_pass_over(ro_session *session);
/* Count bytes of the carrier against every exchange that waits. */
void ro_waiting_count(ro_session *session, size_t bytes);
/* A message passed the carrier's bound. */
void ro_waiting_too_large(ro_session *session, ro_reason reason);
/* A message was lost for want of memory. */
void ro_waiting_no_memory(ro_session *session);
/* Nothing will come any more. The first reason stays. */
void ro_waiting_closed(ro_session *session, ro_reason reason);

#endif
