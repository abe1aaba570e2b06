/* MCP sessions (Streamable HTTP, legacy SSE, a child's standard streams),
 * reduced to what the one call needs.
 *
 * ro_mcp ties together a worker, what discovery finds, the one call's gate and
 * record, and the reply queue. A session is one MCP session: each JSON-RPC
 * request that the SDK posts becomes one exchange, and each exchange ends in
 * exactly one reply, which is never a transport error: failures are answered
 * with a JSON-RPC error that carries the request's id. Streams are read here
 * (events, resumption, the server's own requests); the SDK gets one JSON
 * answer.
 *
 * Answered without the network: GET (405), DELETE (200; the real one is
 * sent when the call is over), tools/list of a call session, a tools/call
 * that the gate refuses.
 *
 * Threads: functions without a word may be called from any thread. State of
 * sessions and exchanges is touched on the worker thread only.
 */
#ifndef RO_MCP_SESSION_H
#define RO_MCP_SESSION_H

#include <sys/resource.h>

#include "mcp/discovery.h"
#include "mcp/gate.h"
#include "mcp/record.h"
#include "mcp/replies.h"
#include "net/net.h"

/* mcp/state.h has what is in them */
typedef struct ro_mcp ro_mcp;
typedef struct ro_session ro_session;

/* Borrows all four for its life; gate and record are NULL where nothing is
 * called. NULL: out of memory or descriptors. */
ro_mcp *ro_mcp_new(ro_net *net, ro_discovery *discovery, ro_gate *gate,
                   ro_record *record);
/* Only after ro_net_shut_down(net) returned true. */
void ro_mcp_free(ro_mcp *mcp);
ro_replies *ro_mcp_replies(ro_mcp *mcp);

/* What a stdio session has for a URL: requests to it never reach a network. */
#define RO_STDIO_URL "http://stdio.invalid/"

typedef struct ro_session_options {
    ro_slice server;   /* name in the configuration */
    const char *url;   /* the configured endpoint, no user info */
    const char *proxy; /* as in ro_request */
    const char *cafile;
    const char *capath;
    bool auth;   /* an auth flow sits above: it sees 401 and 403 and
                    may send requests of its own before the gate
                    opens */
    bool legacy; /* HTTP with SSE of 2024-11-05: url is the stream */
    const rlim_t *core_limit; /* a child's soft limit; NULL: as here */
} ro_session_options;

/* A session made while the gate is closed is a discovery session, any later
 * one a call session. Owned by mcp. NULL with errno set: out of memory
 * (ENOMEM), or this is a forked child (EPERM). */
ro_session *ro_mcp_session(ro_mcp *mcp, const ro_session_options *options);
/* The same over a child process's standard streams; options->url names it
 * only. argv[0] is a path, both lists end in NULL. NULL with errno set, also
 * when the child cannot be started. */
ro_session *ro_mcp_stdio_session(ro_mcp *mcp,
                                 const ro_session_options *options,
                                 char *const argv[], char *const envp[]);
/* The SDK is done with the session: a child is asked to end, in the
 * background; a Streamable HTTP session's DELETE waits for the call. */
void ro_session_end(ro_session *session);

/* Take one HTTP request of the SDK; the reply carries the ticket. Copies
 * everything. False when out of memory or the worker is gone: no reply
 * comes. */
bool ro_session_submit(ro_session *session, uint64_t ticket,
                       const char *method, const char *url,
                       const ro_header *headers, size_t n_headers,
                       ro_slice body, bool has_body);

/* Send the DELETE of each session that has an id and none sent yet, stop
 * everything else, wait at most wait_ms for their answers. Not on the
 * worker thread. */
void ro_mcp_close(ro_mcp *mcp, int wait_ms);

#endif
