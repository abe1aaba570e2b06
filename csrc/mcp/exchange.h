/* The life of an exchange, and its ends: exactly one reply.
 *
 * Worker thread only, but for ro_exchange_new, and ro_exchange_free before
 * the start. An exchange frees itself when its reply is out and nothing will
 * call it again.
 */
#ifndef RO_MCP_EXCHANGE_H
#define RO_MCP_EXCHANGE_H

#include "mcp/state.h"

/* ---- life ---- */

/* NULL: out of memory. */
ro_exchange *ro_exchange_new(ro_session *session, uint64_t ticket,
                             const char *method, const char *url,
                             const ro_header *headers, size_t n_headers,
                             ro_slice body, bool has_body);
void ro_exchange_free(ro_exchange *exchange);
/* It is under way from now on: the worker's end finds it. */
void ro_exchange_enter(ro_exchange *exchange);
/* Free what is replied and will not be called again. */
void ro_exchange_settle(ro_exchange *exchange);
/* Fail every exchange that is under way and stop its transfer. */
void ro_exchange_stop_all(ro_mcp *mcp);
/* Free what the worker's end has left: no reply comes. */
void ro_exchange_free_all(ro_mcp *mcp);
void ro_exchange_stop_timer(ro_exchange *exchange, ro_timer **timer);

/* ---- the transfer ---- */

/* Send the request to the exchange's URL; fails the exchange when that
 * fails. The sink's done clears transfer_open, and settles. */
void ro_exchange_send(ro_exchange *exchange, const ro_request *request,
                      const ro_sink *sink);
/* done has come. What it means: the bytes that came are all of them, too,
 * when only the lines behind a body were too many. */
ro_net_code ro_exchange_transfer_done(ro_exchange *exchange, ro_net_code code);

/* ---- ends ---- */

/* Takes the bytes out of body, which may be NULL for none. */
void ro_exchange_reply(ro_exchange *exchange, long status, ro_buf *body);
/* Make the reply's type JSON; false when out of memory. */
bool ro_exchange_be_json(ro_exchange *exchange);
/* A 200 with a JSON body; out of memory: a 503 that is answered above. */
void ro_exchange_reply_json(ro_exchange *exchange, ro_buf *body);
/* A JSON-RPC error with the request's id; for the call records code. reason
 * is noted for the server during discovery. */
void ro_exchange_fail(ro_exchange *exchange, ro_code code, ro_reason reason);

#endif
