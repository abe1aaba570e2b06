/* How the messages of a session are carried: Streamable HTTP (mcp/http.h),
 * HTTP with SSE (mcp/legacy.h), a child's standard streams (mcp/stdio.h).
 *
 * A session is made with a carrier and its state, which is then its own
 * (session->state). Whoever asks knows no carrier by name. Worker thread,
 * but for free.
 */
#ifndef RO_MCP_CARRIER_H
#define RO_MCP_CARRIER_H

#include "core/slice.h"

typedef struct ro_mcp ro_mcp;
typedef struct ro_session ro_session;
typedef struct ro_exchange ro_exchange;

typedef struct ro_carrier {
    /* Carry the exchange's body, which has passed the gate, and bring its
     * answer, a 202 for one that wants none, or its failure. */
    void (*send)(ro_exchange *exchange);
    /* Carry this side's answer to a request of the server. Best effort. */
    void (*answer)(ro_session *session, ro_slice message);
    /* The SDK is done with the session, or session->over or mcp->over says
     * that it is to end: end what is carried, in the background. May run more
     * than once, before the first send and after the last. */
    void (*end)(ro_session *session);
    /* Free the state; the worker is gone, or never saw it. NULL is fine. */
    void (*free)(void *state);
} ro_carrier;

#endif
