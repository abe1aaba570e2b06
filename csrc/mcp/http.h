/* Streamable HTTP: each message is a POST that brings its own answer, one
 * GET stream beside a call that takes long, a DELETE at the end.
 */
#ifndef RO_MCP_HTTP_H
#define RO_MCP_HTTP_H

#include "mcp/carrier.h"

extern const ro_carrier ro_http_carrier;
/* Its state. NULL: out of memory. Any thread. */
void *ro_http_new(void);

#endif
