/* What the worker's own manners are limited to; a peer's data are limited by
 * core/limits.h through the request.
 */
#ifndef RO_NET_BOUNDS_H
#define RO_NET_BOUNDS_H

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

#endif
