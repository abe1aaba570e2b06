/* The HTTP requests of a session and of its exchanges. */
#ifndef RO_MCP_REQUEST_H
#define RO_MCP_REQUEST_H

#include "mcp/state.h"

/* Fill in where a session's requests go and how; all else is zero. What is
 * filled in is the session's. */
void ro_session_request(const ro_session *session, ro_request *request);
/* The same with what the exchange sends: method, URL, headers, body. What
 * is filled in is the exchange's. */
void ro_exchange_request(const ro_exchange *exchange, ro_request *request);

/* Whether both send the same bytes to the same destination. */
bool ro_request_is_same(const ro_request *a, const ro_request *b);

/* An auth flow sits above, and the gate has not opened: it sees challenges,
 * and sends requests of its own. */
bool ro_session_may_log_in(const ro_session *session);

/* Callbacks of a sink that wants no answer: enough at once. */
ro_sink_verdict ro_ignore_head(void *ctx, const ro_head *head);
ro_sink_verdict ro_ignore_data(void *ctx, const char *bytes, size_t len);

#endif
