/* HTTP with SSE (protocol 2024-11-05): one GET stream carries every answer,
 * requests are posted to the endpoint that the stream names first.
 */
#ifndef RO_MCP_LEGACY_H
#define RO_MCP_LEGACY_H

#include "mcp/carrier.h"

extern const ro_carrier ro_legacy_carrier;
/* Its state. NULL: out of memory. Any thread. */
void *ro_legacy_new(void);

#endif
