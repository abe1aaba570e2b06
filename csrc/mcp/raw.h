/* An auth flow's own request: sent as it is, answered as it comes, bounded.
 * Worker thread only.
 */
#ifndef RO_MCP_RAW_H
#define RO_MCP_RAW_H

#include "mcp/state.h"

void ro_raw_send(ro_exchange *exchange);

#endif
