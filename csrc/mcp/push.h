/* The server's own stream of a call session: a GET that stays open. Worker
 * thread only.
 */
#ifndef RO_MCP_PUSH_H
#define RO_MCP_PUSH_H

#include "mcp/http_state.h"

/* Open it, if the session has an id. */
void ro_push_open(ro_session *session);
/* Never open it again. */
void ro_push_close(ro_session *session);

#endif
