/* What the files of net/ share. Nobody else includes this.
 *
 * Words: a transfer is what a caller asked for. An attempt is one easy handle
 * for it, which sends the request at most once. A transfer has a second
 * attempt when the first sent nothing, or when it may be sent again.
 * "Worker" below: only the worker thread touches it. One lock,
 * net->lock; it guards the fields so marked and is never held across a
 * callback or a call into libcurl.
 */
#ifndef RO_NET_INTERNAL_H
#define RO_NET_INTERNAL_H

#include <curl/curl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "net/bounds.h"
#include "net/attempt.h"
#include "net/destinations.h"
#include "net/open.h"
#include "net/sockets.h"
#include "net/timer.h"
#include "net/watch.h"

enum { /* ro_command.todo */
       RO_DO_SUBMIT = 1,
       RO_DO_CANCEL = 2,
       RO_DO_RESUME = 4,
       RO_DO_RUN = 8,
};

typedef struct ro_command {
    struct ro_command *next; /* lock */
    unsigned todo;           /* lock; 0: not in the queue */
} ro_command;

struct ro_transfer {
    ro_command command; /* first: the queue casts */
    atomic_uint refs;
    atomic_bool cancelled;
    ro_net *net;
    ro_sink sink;
    /* the request, constant after the submission */
    char *method;
    char *url;
    char *proxy;
    char *cafile;
    char *capath;
    char *destination; /* see destinations.h */
    char *body;
    size_t body_len;
    struct curl_slist *headers; /* n_headers nodes in one block, chained */
    size_t n_headers;
    unsigned codings; /* advertised by the request */
    long connect_ms;
    long read_ms;
    long write_ms;
    size_t max_headers;
    bool has_body;
    bool http2;
    bool fresh;
    bool raw;
    bool opens;
    ro_sending sending;
    /* worker */
    bool renewed;  /* it has a new connection to itself from now on */
    bool repeated; /* it was sent, and may have been received, before */
    bool finished;
    bool hold_data; /* head was answered with RO_SINK_PAUSE */
    ro_attempt *attempt;
    ro_attempt *waits_for; /* a draining attempt */
    ro_timer *wait_timer;
};

struct ro_net {
    pid_t pid;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t gone; /* ended was set */
    ro_command *first;   /* lock */
    ro_command *last;    /* lock */
    bool closing;        /* lock */
    bool ended;          /* lock */
    bool joined;         /* lock */
    int wake_fd;
    int watch_fd;       /* worker; -1 before the first watch */
    unsigned n_watches; /* worker */
    atomic_ullong n_transfers;
    atomic_ullong n_connections;
    atomic_ullong n_bytes_in;
    atomic_ullong n_active;
    /* worker */
    CURLM *multi;
    ro_attempt *attempts;
    ro_timers timers;
    ro_destinations destinations;
    ro_sockets sockets;
    uint64_t n_attempts; /* ever */
};

/* global.c: refcounted set-up of libcurl. Any thread. */
bool ro_net_global_init(void);

/* codes.c */
ro_net_code ro_net_map(const ro_attempt *attempt, CURLcode code);

/* worker.c. Any thread. push takes over nothing; it refuses when the net is
 * closing. */
ro_net_code ro_net_push(ro_net *net, ro_command *command, unsigned todo);
/* watch.c. Worker: call the functions of watches that are ready. */
void ro_net_run_watches(ro_net *net);

/* request.c: validates and copies; *out has one reference. */
ro_net_code ro_transfer_new(ro_net *net, const ro_request *request,
                            const ro_sink *sink, ro_transfer **out);
/* options.c: false when out of memory or libcurl refuses. */
bool ro_attempt_configure(ro_attempt *attempt);
/* *base is "scheme://host:port", for ro_free. */
ro_net_code ro_net_check_url(const char *url, char **base);
ro_net_code ro_net_check_proxy(const char *proxy);

/* transfer.c. Worker. */
void ro_transfer_act(ro_transfer *transfer, unsigned todo);
/* Starts an attempt, at once. */
void ro_transfer_start(ro_transfer *transfer);
/* Ends it, whatever it is doing. */
void ro_transfer_end(ro_transfer *transfer, ro_net_code code);
/* Calls done; only the first call does anything. */
void ro_transfer_finish(ro_transfer *transfer, ro_net_code code);

#endif
