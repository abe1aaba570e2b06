/* What the files of net/ share. Nobody else includes this.
 *
 * Words: a transfer is what a caller asked for; a flight is one easy handle
 * on its way; a flight carries at most one transfer and is sent at most
 * once. "Worker" below: only the worker thread touches it. One lock,
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
#include "net/flight.h"
#include "net/timer.h"

enum { /* ro_command.todo */
       RO_DO_SUBMIT = 1,
       RO_DO_CANCEL = 2,
       RO_DO_RESUME = 4,
       RO_DO_WARM = 8,
       RO_DO_RUN = 16,
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
    ro_sink sink; /* done is NULL for the template of a warm flight */
    /* the request, constant after the submission */
    char *method;
    char *url;
    char *proxy;
    char *cafile;
    char *capath;
    char *origin; /* what a connection is shared by, as text */
    char *body;
    size_t body_len;
    struct curl_slist *headers; /* n_headers nodes in one block, chained */
    size_t n_headers;
    unsigned codings; /* advertised by the request */
    long connect_ms;
    long read_ms;
    long write_ms;
    size_t max_headers;
    int hold_ms; /* templates only */
    bool has_body;
    bool http2;
    bool fresh;
    bool raw;
    /* worker */
    bool finished;
    bool hold_data; /* head was answered with RO_SINK_PAUSE */
    ro_flight *flight;
    ro_flight *waits_for; /* a draining flight */
    ro_timer *wait_timer;
};

typedef struct ro_origin {
    char *key;
    bool holds; /* keeps streams open behind the answer */
} ro_origin;

struct ro_net {
    pid_t pid;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t pushed; /* a command came while a warm flight holds */
    pthread_cond_t gone;   /* ended was set */
    ro_command *first;     /* lock */
    ro_command *last;      /* lock */
    bool holding;          /* lock */
    bool closing;          /* lock */
    bool ended;            /* lock */
    bool joined;           /* lock */
    int wake_fd;
    atomic_ullong n_transfers;
    atomic_ullong n_connections;
    atomic_ullong n_bytes_in;
    atomic_ullong n_active;
    /* worker */
    CURLM *multi;
    ro_flight *flights;
    ro_flight *warm; /* one at most */
    CURL *spare[RO_NET_SPARE];
    size_t n_spare;
    ro_timers timers;
    ro_origin origins[RO_NET_ORIGINS];
    size_t next_origin;
};

/* global.c: refcounted set-up of libcurl. Any thread. */
bool ro_net_global_init(void);

/* codes.c */
ro_net_code ro_net_map(const ro_flight *flight, CURLcode code);

/* worker.c. Any thread. push takes over nothing; it refuses when the net is
 * closing. */
ro_net_code ro_net_push(ro_net *net, ro_command *command, unsigned todo);
/* Worker: call the functions at the head of the queue, up to a transfer. */
void ro_net_obey_runs(ro_net *net);
/* The queue is empty and the net is not closing. */
bool ro_net_is_idle(ro_net *net);
ro_command *ro_net_peek_locked(ro_net *net);
ro_command *ro_net_pop_locked(ro_net *net, unsigned *todo);

/* request.c: validates and copies; *out has one reference. */
ro_net_code ro_transfer_new(ro_net *net, const ro_request *request,
                            size_t body_len, const ro_sink *sink,
                            ro_transfer **out);
/* options.c: false when out of memory or libcurl refuses. */
bool ro_flight_configure(ro_flight *flight);
/* *base is "scheme://host:port", for ro_free. */
ro_net_code ro_net_check_url(const char *url, char **base);
ro_net_code ro_net_check_proxy(const char *proxy);

/* transfer.c. Worker. */
void ro_transfer_act(ro_transfer *transfer, unsigned todo);
/* Launches a flight, at once. */
void ro_transfer_start(ro_transfer *transfer);
/* Whatever it is doing. */
void ro_transfer_end(ro_transfer *transfer, ro_net_code code);
/* Calls done; only the first call does anything. */
void ro_transfer_finish(ro_transfer *transfer, ro_net_code code);

#endif
