/* HTTP transfers: one worker thread, one curl multi handle.
 *
 * Threads: every function says where it may be called. Sink callbacks,
 * ro_net_run and timer callbacks run on the worker thread, one at a time,
 * with no lock held; they must not block. Submitting, cancelling and
 * resuming from inside a callback is fine.
 *
 * Ownership: ro_net_submit copies the request; the caller keeps what it
 * passed. On success *out carries one reference for the caller, to be given
 * back with ro_transfer_release; on failure *out is NULL and no callback is
 * ever made. After success `done` is called exactly once, also when the
 * worker is shut down; `head` at most once, before any `data`. It may be
 * called before ro_net_submit returns.
 *
 * A request is sent at most once, or twice as net/sending.h allows it; where
 * libcurl would repeat it, the transfer ends with RO_NET_REPLAY. Redirects
 * are answers like any other.
 *
 * After fork() every function refuses with RO_NET_FORKED in the child.
 */
#ifndef RO_NET_NET_H
#define RO_NET_NET_H

#include <stdint.h>

#include "core/slice.h"
#include "net/codes.h"
#include "net/sending.h"

typedef struct ro_net ro_net;
typedef struct ro_transfer ro_transfer;
typedef struct ro_timer ro_timer;

const char *ro_net_library(void); /* "libcurl/8.5.0 OpenSSL/3.0", or NULL */

typedef struct ro_header {
    ro_slice name;
    ro_slice value;
} ro_header;

typedef struct ro_request {
    const char *method;       /* "GET", "POST", ... */
    const char *url;          /* absolute http or https, no user info; ASCII */
    const ro_header *headers; /* sent as given, in this order, and no others
                                 but what HTTP framing needs. One Host at
                                 most (it goes first). Content-Length only
                                 with the body's own; no Transfer-Encoding */
    size_t n_headers;
    ro_slice body;
    bool has_body;      /* Content-Length is sent, also for 0 bytes */
    const char *proxy;  /* http or https URL, user info percent-encoded, or
                           "" for none; an https one is verified by the
                           same trust */
    const char *cafile; /* path or "" */
    const char *capath; /* path or ""; one of the two for https */
    long connect_ms;    /* 0: no limit; resolve, TCP, TLS and CONNECT */
    long read_ms;       /* 0: no limit; between two reads */
    long write_ms;      /* 0: no limit; between two writes */
    size_t max_headers; /* bytes, all header blocks of the transfer */
    bool http2;         /* offer HTTP/2 by ALPN; HTTP/1.1 otherwise */
    bool fresh;         /* do not reuse a connection */
    bool raw;           /* data gets the content-coded bytes as they came;
                           otherwise only codings that the request's own
                           Accept-Encoding names are accepted, and undone */
    ro_sending sending;
    bool opens; /* open the connection for a later request and send nothing:
                   RO_NET_OK without a head. Where libcurl cannot (net/open.h)
                   RO_NET_INTERNAL, at once */
} ro_request;

typedef struct ro_head {
    long status; /* the final one, never 1xx */
    int version; /* 10, 11, 20 */
    ro_slice reason;
    const ro_header *headers; /* in order, raw; valid during the callback */
    size_t n_headers;
} ro_head;

typedef enum ro_sink_verdict {
    RO_SINK_MORE,
    RO_SINK_PAUSE, /* these bytes are not taken: the same bytes come again
                      after ro_transfer_resume. From head: no data before
                      it. libcurl holds one read's worth back (16 KiB, or
                      what they expand to unless raw). read_ms stands
                      still */
    RO_SINK_STOP,  /* enough: done(RO_NET_OK) follows at once; the rest of
                      the body is drained within small bounds so that the
                      connection can be used again */
    RO_SINK_FAIL,  /* done(RO_NET_SINK) follows, the connection is closed */
} ro_sink_verdict;

typedef struct ro_sink {
    void *ctx;
    ro_sink_verdict (*head)(void *ctx, const ro_head *head);
    /* body bytes, 1 to 65536; Content-Encoding is undone unless raw */
    ro_sink_verdict (*data)(void *ctx, const char *bytes, size_t len);
    void (*done)(void *ctx, ro_net_code code);
} ro_sink;

/* Any thread. Starts the worker. NULL when out of memory or threads. */
ro_net *ro_net_new(void);
/* Any thread but the worker: cancels everything (done callbacks come with
 * RO_NET_SHUT_DOWN), waits at most wait_ms for the worker to end. True when
 * it ended. May run twice. */
bool ro_net_shut_down(ro_net *net, int wait_ms);
/* After ro_net_shut_down returned true frees everything; otherwise leaves
 * the worker and its memory alone (the process is about to end). */
void ro_net_free(ro_net *net);

/* Any thread. */
ro_net_code ro_net_submit(ro_net *net, const ro_request *request,
                          const ro_sink *sink, ro_transfer **out);
/* done(RO_NET_CANCELLED) follows, unless done was called; no head or data
 * call begins any more. */
void ro_transfer_cancel(ro_transfer *transfer);
void ro_transfer_resume(ro_transfer *transfer);
/* Never cancels. The only call that is allowed once the net is freed. */
void ro_transfer_release(ro_transfer *transfer);

/* Any thread: call fn(ctx) on the worker thread soon, once, also when a
 * shut-down comes first. When the worker is going or gone returns
 * RO_NET_SHUT_DOWN and never calls. */
ro_net_code ro_net_run(ro_net *net, void (*fn)(void *ctx), void *ctx);
/* Worker thread only: call fn(ctx) after ms. NULL: out of memory. The timer
 * is owned by the net and gone before the call or after ro_timer_stop (worker
 * thread only). Timers that are pending at shut-down are dropped without a
 * call. */
ro_timer *ro_net_after(ro_net *net, int ms, void (*fn)(void *ctx), void *ctx);
void ro_timer_stop(ro_net *net, ro_timer *timer);

/* Worker thread only: close what was opened for a later request that has not
 * come. */
void ro_net_close_unused(ro_net *net);
/* Worker thread only: close every connection that no transfer is on. */
void ro_net_close_idle(ro_net *net);

/* Counters, any thread, for tests and bench. */
typedef struct ro_net_stats {
    uint64_t transfers;   /* submitted */
    uint64_t connections; /* TCP connections opened */
    uint64_t bytes_in;    /* body bytes after decoding */
    uint64_t active;      /* not done yet */
} ro_net_stats;
void ro_net_get_stats(ro_net *net, ro_net_stats *stats);

#endif
