/* Sessions whose answers come apart from their requests: a stdio server, a
 * legacy SSE server (private to the session files).
 *
 * The session keeps the exchanges that wait; a channel carries messages. All
 * of it on the worker thread.
 */
#ifndef RO_NET_CHANNEL_H
#define RO_NET_CHANNEL_H

#include "net/exchange.h"

struct ro_channel {
    /* Carry one message, in one line, for the exchange. When it cannot, it
     * has failed the exchange, or calls ro_channel_closed later. */
    void (*send)(ro_session *session, ro_exchange *exchange, ro_slice message);
    /* Carry this side's answer to a request of the server. Best effort. */
    void (*answer)(ro_session *session, ro_slice message);
    /* The session is over: end the carrier, in the background. Runs
     * possibly more than once. */
    void (*end)(ro_session *session);
    /* Free the state; the worker is gone. */
    void (*free)(ro_session *session);
};

/* Carry the exchange's body and, when it wants one, wait for the answer. */
void ro_channel_send(ro_exchange *exchange);
/* One message came. junk: whether something that is no JSON-RPC message is
 * passed over (within RO_MAX_JUNK_LINES) or fails what waits. */
void ro_channel_message(ro_session *session, ro_slice message, bool junk);
/* Count bytes of the carrier against every exchange that waits. */
void ro_channel_count(ro_session *session, size_t bytes);
/* A message passed the carrier's bound. */
void ro_channel_too_large(ro_session *session);
/* A message was lost for want of memory. */
void ro_channel_no_memory(ro_session *session);
/* Nothing will come any more. reason is static text; the first one stays. */
void ro_channel_closed(ro_session *session, const char *reason);

extern const struct ro_channel ro_stdio_channel;
extern const struct ro_channel ro_legacy_channel;

/* Start the child; false when it cannot be, with errno set. Any thread,
 * before the session's first submit. argv and envp end in NULL; argv[0] is
 * a path. */
bool ro_stdio_start(ro_session *session, char *const argv[],
                    char *const envp[]);
/* NULL: out of memory. */
void *ro_legacy_new(void);

#endif
