/* What a request of the SDK is, and whether it may go: the one call's gate,
 * bounds, origins. What needs no server is answered here. Worker thread.
 */
#ifndef RO_MCP_START_H
#define RO_MCP_START_H

/* exchange: a ro_exchange. It may be gone when this returns. */
void ro_exchange_start(void *exchange);

#endif
