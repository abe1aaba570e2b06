/* From a whole message to the one reply: what is recorded, what goes up.
 * Worker thread only.
 */
#ifndef RO_MCP_ANSWER_H
#define RO_MCP_ANSWER_H

#include "mcp/state.h"

/* The whole message is there. Nothing happens when the reply is out. */
void ro_exchange_answer(ro_exchange *exchange, ro_slice message);
/* A tools/list answer of what discovery kept; max is its cap in bytes. */
void ro_exchange_reply_list(ro_exchange *exchange, size_t max);

#endif
