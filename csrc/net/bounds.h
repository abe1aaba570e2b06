/* Sizes of the worker itself. No peer runs into them; the limits that a peer
 * can run into stand in core/limits.h.
 */
#ifndef RO_NET_BOUNDS_H
#define RO_NET_BOUNDS_H

/* bytes: a method */
#define RO_NET_MAX_METHOD 32u
/* headers: one request */
#define RO_NET_MAX_REQUEST_HEADERS 256u
/* destinations: whose way to end streams and connections is remembered */
#define RO_NET_DESTINATIONS 16u
/* connections: idle ones that are kept */
#define RO_NET_POOL 100L
/* bytes: the worker's stack; libcurl keeps 16 KiB buffers on it */
#define RO_NET_STACK (512u * 1024u)

#endif
