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

#include "core/buf.h"
#include "net/net.h"
#include "net/timer.h"

/* bytes: a URL; the largest that common servers take is far below */
#define RO_NET_MAX_URL 65536u
/* bytes: a method */
#define RO_NET_MAX_METHOD 32u
/* headers: one request */
#define RO_NET_MAX_REQUEST_HEADERS 256u
/* bytes: read off behind a stopped answer to keep its connection */
#define RO_NET_DRAIN_BYTES 65536
/* milliseconds: the same, in time */
#define RO_NET_DRAIN_MS 1000
/* milliseconds: a request waits so long for a connection that drains */
#define RO_NET_DRAIN_WAIT_MS 100
/* origins: whose way to end a stream is remembered */
#define RO_NET_ORIGINS 16u
/* connections: idle ones that are kept */
#define RO_NET_POOL 100L
/* seconds: a connection that was idle for longer is not used again. Servers
 * commonly close after 5; libcurl compares whole seconds, so this is < 4. */
#define RO_NET_IDLE_S 3L
/* handles: kept for the next flights, with their buffers */
#define RO_NET_SPARE 16u
/* sockets: tries at one connection whose descriptor is kept in mind */
#define RO_NET_SOCKS 8u
/* bytes: the worker's stack; libcurl keeps 16 KiB buffers on it */
#define RO_NET_STACK (512u * 1024u)

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

enum { /* content codings */
    RO_CODING_GZIP = 1,
    RO_CODING_DEFLATE = 2,
    RO_CODING_BR = 4,
    RO_CODING_ZSTD = 8,
    RO_CODING_ANY = 15,
};

/* A response head while it arrives; see headers.c. */
typedef struct ro_head_reader {
    ro_buf text;       /* reason, names and values of the current block */
    ro_header *fields; /* until complete, ptr is not set but offset is kept
                          in fields_at */
    struct ro_field_at *fields_at;
    size_t n_fields;
    size_t cap_fields;
    size_t total;      /* bytes of all blocks so far */
    size_t reason_len;
    long status;
    int version;
    bool in_block;    /* a status line was read */
    bool complete;    /* the final head was read */
} ro_head_reader;

typedef struct ro_flight ro_flight;

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

struct ro_flight { /* worker */
    ro_flight *next;
    ro_flight *prev;
    ro_net *net;
    CURL *easy;
    ro_transfer *transfer; /* counted; the template while warm */
    ro_transfer *template; /* counted; of a flight that began warm */
    ro_transfer *waiter;   /* borrowed: wants the connection after a drain */
    struct curl_slist anchor; /* heads the list, so that it can be spliced */
    ro_head_reader head;
    ro_timer *timer;  /* silence, drain or hold; never two at once */
    ro_net_code code; /* why a callback stopped it; RO_NET_OK: it did not */
    int64_t last_ms;  /* of the last progress */
    int64_t hold_until_ms;
    curl_off_t down;
    curl_off_t up;
    long drain_left;
    unsigned sends;
    bool warm;     /* nobody has asked for it yet */
    bool again;    /* connection died while warm: nothing was sent */
    int socks[RO_NET_SOCKS]; /* opened while warm, maybe closed */
    size_t n_socks;
    bool paused;
    bool draining;
    char error[CURL_ERROR_SIZE];
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

/* flight.c. Worker. */
ro_net_code ro_flight_launch(ro_net *net, ro_transfer *transfer, bool warm);
/* Takes the handle down and tells its transfer and its waiter. */
void ro_flight_land(ro_flight *flight, ro_net_code code);
void ro_flight_resume(ro_flight *flight);
int ro_flight_on_prereq(void *ctx, char *ip, char *local_ip, int port,
                        int local_port);
curl_socket_t ro_flight_on_socket(void *ctx, curlsocktype purpose,
                                  struct curl_sockaddr *address);
size_t ro_flight_on_header(char *bytes, size_t one, size_t len, void *ctx);
size_t ro_flight_on_body(char *bytes, size_t one, size_t len, void *ctx);
int ro_flight_on_progress(void *ctx, curl_off_t down_total, curl_off_t down,
                          curl_off_t up_total, curl_off_t up);

/* headers.c */
/* One line as it came, up to its LF; complete is set by the last one. */
ro_net_code ro_head_line(ro_head_reader *head, ro_slice line, size_t max);
/* A line that only counts. */
ro_net_code ro_head_count(ro_head_reader *head, ro_slice line, size_t max);
/* Of a complete head: can its framing and coding be trusted? */
ro_net_code ro_head_check(const ro_head_reader *head, unsigned codings,
                          bool raw);
/* Borrows from the reader. */
void ro_head_view(const ro_head_reader *head, ro_head *view);
void ro_head_free(ro_head_reader *head);
/* Content codings that a field value names, with q above 0. */
unsigned ro_codings_of(ro_slice accept);
bool ro_is_token(ro_slice text);
bool ro_name_is(ro_slice name, const char *lower);

/* drain.c. Worker. */
void ro_drain_begin(ro_flight *flight);
/* False when that was more than is drained. */
bool ro_drain_eat(ro_flight *flight, size_t len);
/* Called as the flight lands, when its handle is down. */
void ro_drain_end(ro_flight *flight, ro_net_code code);
/* A draining flight that the transfer should wait for; NULL for none. */
ro_flight *ro_drain_find(ro_transfer *transfer);
void ro_drain_wait(ro_transfer *transfer, ro_flight *flight);
void ro_drain_unwait(ro_transfer *transfer);

/* warm.c. Worker. */
void ro_warm_begin(ro_net *net, ro_transfer *expected);
/* True when the warm flight took the transfer. */
bool ro_warm_adopt(ro_net *net, ro_transfer *transfer);
/* In the pre-request callback of a warm flight: waits. True when a
 * transfer took the flight. */
bool ro_warm_hold(ro_flight *flight, int local_port);

#endif
