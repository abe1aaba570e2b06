/* The DELETEs of sessions: two at a time, as many as there are connections.
 * Worker thread only.
 */
#ifndef RO_MCP_DELETE_H
#define RO_MCP_DELETE_H

#include "mcp/http_state.h"

/* End the session with that id, once, where destination says, with the headers
 * that its requests had; they get the id. deletion, headers and what
 * destination points to stay until the worker is gone. Best effort. */
void ro_delete(ro_mcp *mcp, ro_deletion *deletion,
               const ro_request *destination, ro_header_list *headers,
               ro_slice id);
/* End a Streamable HTTP session on the server, if it has an id, once. Best
 * effort: the session expires there too. */
void ro_http_delete(ro_session *session);

#endif
