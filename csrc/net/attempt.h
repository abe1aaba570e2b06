/* One easy handle that carries a transfer, and the callbacks that libcurl
 * makes. It outlives its transfer while the rest of the answer is drained
 * (drain.c). Worker thread only.
 */
#ifndef RO_NET_ATTEMPT_H
#define RO_NET_ATTEMPT_H

#include <curl/curl.h>

#include "net/bounds.h"
#include "net/head.h"
#include "net/sockets.h"

typedef struct ro_attempt ro_attempt;

struct ro_attempt {
    ro_attempt *next;
    ro_attempt *prev;
    ro_net *net;
    CURL *easy;
    ro_transfer *transfer; /* counted */
    ro_transfer *waiter;   /* borrowed: wants the connection after a drain */
    ro_head_reader head;
    ro_timer *timer;  /* silence or drain; never both at once */
    ro_net_code code; /* why a callback stopped it; RO_NET_OK: it did not */
    int64_t last_ms;  /* of the last progress */
    curl_off_t down;
    curl_off_t up;
    long drain_left;
    uint64_t serial;
    unsigned sends;
    bool unsent; /* its connection was found closed: nothing was sent */
    bool kept;   /* its connection was there before the request */
    int fd;      /* what it was sent on, while that is open; or -1 */
    ro_socket_count before; /* of fd, when it was sent */
    ro_arrival arrival;     /* on fd, since; only of a kept connection */
    bool paused;
    bool draining;
    char error[CURL_ERROR_SIZE];
};

ro_net_code ro_attempt_start(ro_net *net, ro_transfer *transfer);
/* Takes the handle out of libcurl, tells the transfer and the waiter, frees
 * the attempt. */
void ro_attempt_finish(ro_attempt *attempt, ro_net_code code);
void ro_attempt_resume(ro_attempt *attempt);
/* It has made progress just now. */
void ro_attempt_touch(ro_attempt *attempt);
size_t ro_attempt_on_header(char *bytes, size_t one, size_t len, void *ctx);
size_t ro_attempt_on_body(char *bytes, size_t one, size_t len, void *ctx);
int ro_attempt_on_progress(void *ctx, curl_off_t down_total, curl_off_t down,
                           curl_off_t up_total, curl_off_t up);

/* sending.c */
int ro_attempt_on_prereq(void *ctx, char *ip, char *local_ip, int port,
                         int local_port);
curl_socket_t ro_attempt_on_socket(void *ctx, curlsocktype purpose,
                                   struct curl_sockaddr *address);
/* ctx is the ro_net: a connection outlives its attempts. */
int ro_attempt_on_close(void *ctx, curl_socket_t fd);
/* What came in for requests on kept connections; before libcurl reads. */
void ro_attempts_peek(ro_net *net);
/* The same while libcurl is at it, before it closes TLS itself: the peer's
 * answer to that would hide how the connection ended. */
void ro_attempt_count_ended(ro_attempt *attempt);
/* Asked once, as the attempt finishes: whether its transfer starts another
 * one, on a new connection. */
bool ro_attempt_gets_another(const ro_attempt *attempt, ro_net_code code);
/* Not a kept connection. */
bool ro_transfer_wants_fresh(const ro_transfer *transfer);

/* drain.c */
void ro_drain_begin(ro_attempt *attempt);
/* False when that was more than is drained. */
bool ro_drain_discard(ro_attempt *attempt, size_t len);
/* Called as the attempt finishes, when its handle is out of libcurl. */
void ro_drain_end(ro_attempt *attempt, ro_net_code code);
/* A draining attempt that the transfer should wait for; NULL for none. */
ro_attempt *ro_drain_find(ro_transfer *transfer);
void ro_drain_wait(ro_transfer *transfer, ro_attempt *attempt);
void ro_drain_unwait(ro_transfer *transfer);

#endif
