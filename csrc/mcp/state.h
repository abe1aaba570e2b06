/* What the files of a session share: the three objects, and no function.
 *
 * Worker thread only, but for what says otherwise. Who may write a member:
 * the file that its comment names, else session.c before the first exchange.
 */
#ifndef RO_MCP_STATE_H
#define RO_MCP_STATE_H

#include <pthread.h>

#include "mcp/carrier.h"
#include "mcp/discovery.h"
#include "mcp/gate.h"
#include "mcp/record.h"
#include "mcp/replies.h"
#include "mcp/rpc.h"
#include "mcp/toollist.h"

typedef enum ro_kind {
    RO_KIND_RAW, /* an auth flow's own request */
    RO_KIND_INITIALIZE,
    RO_KIND_LIST,
    RO_KIND_CALL,
    RO_KIND_REQUEST, /* any other method that wants an answer */
    RO_KIND_NOTIFY,  /* wants none */
} ro_kind;

struct ro_ahead;
struct ro_deletion;

struct ro_mcp {
    pid_t pid;
    ro_net *net;
    ro_discovery *discovery;
    ro_gate *gate; /* both NULL where nothing is called */
    ro_record *record;
    ro_replies *replies;
    ro_session *sessions;          /* lock */
    ro_exchange *exchanges;        /* started, not freed: exchange.c */
    bool closing;                  /* no new exchange starts */
    bool over;                     /* every session is to end: ending.c */
    struct ro_ahead *ahead;        /* or NULL: ahead.c */
    struct ro_deletion *to_delete; /* first of the next DELETEs: delete.c */
    unsigned deleting;             /* that have the turn: delete.c */
    pthread_mutex_t lock;          /* sessions, and what is below */
    pthread_cond_t quiet;
    unsigned pending; /* what ro_mcp_close waits for: ending.c */
    bool close_started;
};

struct ro_session {
    ro_session *next;
    ro_mcp *mcp;
    const ro_carrier *carrier;
    void *state; /* the carrier's own */
    ro_slice server;
    char *server_bytes;
    char *configured;  /* what the SDK knows the endpoint by */
    char *url;         /* where initialize was answered: post.c */
    size_t origin_len; /* bytes of url up to the path */
    char *proxy;
    char *cafile;
    char *capath;
    bool auth;
    bool call_phase;
    bool over;   /* it is to end: ending.c */
    bool broken; /* nothing more is sent */
    ro_reason broken_reason;
    ro_cursors cursors;   /* answer.c */
    unsigned pages;       /* start.c */
    unsigned kept;        /* entries of the tool's name: answer.c */
    ro_budget budget;     /* of what its lists hand up: answer.c */
    unsigned answers;     /* to the server's requests: allowance.c */
    unsigned junk;        /* events or lines passed over: allowance.c */
    unsigned gets;        /* allowance.c */
    int64_t next_get;     /* monotonic milliseconds: allowance.c */
    ro_exchange *waiting; /* newest first: waiting.c */
};

/* One JSON-RPC request of the SDK on its way, or an auth flow's request. */
struct ro_exchange {
    ro_session *session;
    ro_exchange *next; /* of ro_mcp.exchanges */
    ro_exchange *prev;
    ro_exchange *next_waiting;
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
    ro_timer *timer; /* the next look at a partial body */
    ro_timer *push_timer;
    bool transfer_open; /* done has not come yet */
    ro_reply *reply;    /* made with the exchange, so that there is one */
    bool replied;
    long status;
    struct ro_event_stream *stream; /* the answer is one: post.c */
    bool sized;                     /* its head says how long the answer is */
    ro_header_list kept;            /* response headers that go up */
    size_t cap;
    size_t received;
    ro_buf data;
};

#endif
