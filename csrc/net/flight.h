/* One easy handle on its way, with the callbacks that libcurl makes, and the
 * two odd states of one: draining behind its transfer (drain.c), and warm
 * ahead of it (warm.c). Worker thread only.
 */
#ifndef RO_NET_FLIGHT_H
#define RO_NET_FLIGHT_H

#include <curl/curl.h>

#include "net/bounds.h"
#include "net/head.h"

typedef struct ro_flight ro_flight;

struct ro_flight {
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
    bool warm;               /* nobody has asked for it yet */
    bool again;              /* connection died while warm: nothing was sent */
    int socks[RO_NET_SOCKS]; /* opened while warm, maybe closed */
    size_t n_socks;
    bool paused;
    bool draining;
    char error[CURL_ERROR_SIZE];
};

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

/* drain.c */
void ro_drain_begin(ro_flight *flight);
/* False when that was more than is drained. */
bool ro_drain_eat(ro_flight *flight, size_t len);
/* Called as the flight lands, when its handle is down. */
void ro_drain_end(ro_flight *flight, ro_net_code code);
/* A draining flight that the transfer should wait for; NULL for none. */
ro_flight *ro_drain_find(ro_transfer *transfer);
void ro_drain_wait(ro_transfer *transfer, ro_flight *flight);
void ro_drain_unwait(ro_transfer *transfer);

/* warm.c */
void ro_warm_begin(ro_net *net, ro_transfer *expected);
/* True when the warm flight took the transfer. */
bool ro_warm_adopt(ro_net *net, ro_transfer *transfer);
/* In the pre-request callback of a warm flight: waits. True when a
 * transfer took the flight. */
bool ro_warm_hold(ro_flight *flight, int local_port);

#endif
