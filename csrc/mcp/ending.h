/* How sessions end, and what the end of the process waits for. */
#ifndef RO_MCP_ENDING_H
#define RO_MCP_ENDING_H

#include "mcp/state.h"

/* ro_mcp_close waits for one thing more, or less. Any thread. */
void ro_mcp_await(ro_mcp *mcp);
void ro_mcp_release(ro_mcp *mcp);
/* The call is under way: end what discovery opened. Worker thread. */
void ro_mcp_end_discovery(ro_mcp *mcp);
/* The call is over: end every session. Worker thread; more than once is
 * fine. */
void ro_mcp_end_sessions(ro_mcp *mcp);

#endif
