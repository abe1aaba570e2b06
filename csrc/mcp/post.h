/* The POST of an exchange: its head, its body, its event stream with
 * resumptions. Worker thread only.
 */
#ifndef RO_MCP_POST_H
#define RO_MCP_POST_H

#include "mcp/http_state.h"

/* Send the exchange's body to its URL and bring the answer. */
void ro_post_send(ro_exchange *exchange);
/* Its answer is an event stream from here on: exchange->stream. False when it
 * has failed for want of memory. */
bool ro_post_stream(ro_exchange *exchange);

#endif
