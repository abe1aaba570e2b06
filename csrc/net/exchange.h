/* One JSON-RPC request of the SDK on its way (private to the session files).
 *
 * Worker thread only, but for ro_exchange_new and ro_exchange_free before
 * the start. An exchange frees itself when its reply is out and nothing
 * will call it again.
 */
#ifndef RO_NET_EXCHANGE_H
#define RO_NET_EXCHANGE_H

#include <pthread.h>

#include "core/rpc.h"
#include "core/sse.h"
#include "core/toollist.h"
#include "net/session.h"

typedef enum ro_kind {
    RO_KIND_RAW, /* an auth flow's own request */
    RO_KIND_INITIALIZE,
    RO_KIND_LIST,
    RO_KIND_CALL,
    RO_KIND_REQUEST, /* any other method that wants an answer */
    RO_KIND_NOTIFY,  /* wants none */
} ro_kind;

struct ro_channel;
struct ro_exchange;

/* The server's own stream of a call session, and what this side posts. */
typedef struct ro_push {
    ro_transfer *transfer;
    ro_timer *timer;
    ro_sse sse;
    bool open;      /* a transfer or a timer is under way */
    bool stopped;   /* never again */
    int retry_ms;   /* the server's wish, or -1 */
    char *event_id; /* the last one, or NULL */
    size_t event_id_len;
} ro_push;

struct ro_session {
    struct ro_session *next;
    ro_mcp *mcp;
    ro_slice server;
    char *server_bytes;
    char *url;         /* after a redirect: where the session id is from */
    size_t origin_len; /* bytes of url up to the path */
    char *proxy;
    char *cafile;
    char *capath;
    bool auth;
    bool call_phase;
    bool broken;               /* nothing more is sent */
    const char *broken_reason; /* static text */
    char *id;                  /* MCP session id or NULL */
    size_t id_len;
    bool ended;              /* its DELETE was started */
    ro_header_list template; /* of the last POST */
    ro_cursors cursors;
    unsigned pages;
    unsigned kept;    /* entries of the tool's name */
    unsigned answers; /* posted to the server's requests */
    unsigned gets;
    int64_t next_get; /* monotonic milliseconds */
    ro_push push;
    const struct ro_channel *channel; /* NULL: Streamable HTTP */
    void *carrier;                    /* the channel's state */
    struct ro_exchange *waiting; /* exchanges of a channel, newest first */
    unsigned junk;               /* lines passed over */
};

struct ro_mcp {
    pid_t pid;
    ro_net *net;
    ro_call *call;
    ro_replies *replies;
    ro_session *sessions;
    struct ro_exchange *exchanges; /* worker only: started, not freed */
    bool closing;                  /* worker only: no new exchange starts */
    unsigned deletes;              /* worker only: DELETEs under way */
    pthread_mutex_t lock;          /* sessions list, pending */
    pthread_cond_t quiet;
    unsigned pending; /* what ro_mcp_close waits for */
    bool close_started;
};

typedef struct ro_exchange {
    ro_session *session;
    struct ro_exchange *next; /* of ro_mcp.exchanges */
    struct ro_exchange *prev;
    struct ro_exchange *next_waiting;
    bool is_waiting;
    uint64_t ticket;
    ro_kind kind;
    char *method;
    char *url;
    ro_header_list headers;
    char *body;
    size_t body_len;
    bool has_body;
    ro_slice id; /* raw, in body */
    ro_transfer *transfer;
    ro_timer *timer; /* resumption, or the next look at a partial body */
    ro_timer *push_timer;
    bool transfer_open; /* done has not come yet */
    ro_reply *reply;    /* made with the exchange, so that there is one */
    bool replied;
    long status;
    bool events;         /* the answer is an event stream */
    ro_header_list kept; /* response headers that go up */
    size_t cap;
    size_t received;
    ro_buf data;
    ro_sse sse;
    int retry_ms;
    char *event_id; /* the last one of the stream, or NULL */
    size_t event_id_len;
    unsigned resumes;
} ro_exchange;

/* NULL: out of memory. */
ro_exchange *ro_exchange_new(ro_session *session, uint64_t ticket,
                             const char *method, const char *url,
                             const ro_header *headers, size_t n_headers,
                             ro_slice body, bool has_body);
void ro_exchange_free(ro_exchange *exchange);
void ro_exchange_start(void *exchange);

/* Free what is replied and will not be called again. */
void ro_exchange_settle(ro_exchange *exchange);
/* Fail every exchange that is under way and stop its transfer. */
void ro_exchange_stop_all(ro_mcp *mcp);
/* Free what the worker's end has left: no reply comes. */
void ro_exchange_free_all(ro_mcp *mcp);
void ro_exchange_stop_timer(ro_exchange *exchange, ro_timer **timer);
/* Submit to the exchange's URL; fails the exchange when that fails. */
void ro_exchange_send(ro_exchange *exchange, const char *method,
                      const ro_header_list *headers, ro_slice body,
                      bool has_body);

/* ---- ends: exactly one reply ---- */

/* Takes the bytes out of body, which may be NULL for none. */
void ro_exchange_reply(ro_exchange *exchange, long status, ro_buf *body);
/* Make the reply's type JSON; false when out of memory. */
bool ro_exchange_be_json(ro_exchange *exchange);
/* A 200 with a JSON body, as ro_exchange_reply; out of memory: an empty 503,
 * which the layer above answers for. */
void ro_exchange_reply_json(ro_exchange *exchange, ro_buf *body);
/* A JSON-RPC error with the request's id; for the call records code. reason
 * is static text, noted for the server during discovery. */
void ro_exchange_fail(ro_exchange *exchange, ro_code code, const char *reason);
/* A tools/list answer of what discovery kept; max is its cap in bytes. */
void ro_exchange_reply_list(ro_exchange *exchange, size_t max);
/* The whole message is there. */
void ro_exchange_answer(ro_exchange *exchange, ro_slice message);

/* ---- streams ---- */

bool ro_exchange_event(void *exchange, const ro_sse_event *event);
/* The stream ended without the answer: resume or fail. */
void ro_exchange_stream_end(ro_exchange *exchange, ro_net_code code);

/* ---- the session's side traffic ---- */

/* Milliseconds until the next GET may go, wanted or later; -1 when the
 * session has had all its GETs. Counts it. */
int ro_session_get_delay(ro_session *session, int wanted_ms);
void ro_session_answer(ro_session *session, const ro_header_list *headers,
                       const ro_rpc *request);
void ro_session_push_open(ro_session *session);
void ro_session_push_close(ro_session *session);
/* ro_mcp_close waits for one thing more, or less. Any thread. */
void ro_mcp_await(ro_mcp *mcp);
void ro_mcp_release(ro_mcp *mcp);
/* Start the DELETEs that are due, end the channels. */
void ro_mcp_end_sessions(ro_mcp *mcp);
void ro_session_request(const ro_session *session, ro_request *request);

#endif
