/* The sockets of a net's connections: which attempt opened one, whether an
 * idle one may still be used, and what came in on it behind a request.
 *
 * libcurl names a connection by its local port alone, and takes one whose
 * peer has closed TLS (close_notify) for alive; so the descriptors are
 * kept here. Worker thread only; no state but the table.
 */
#ifndef RO_NET_SOCKETS_H
#define RO_NET_SOCKETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ro_socket {
    int fd;
    uint64_t opener;   /* the attempt that it was opened for */
    char *destination; /* where to, as in destinations.h */
    bool early;        /* opened for a later request, which has not come */
    bool used;         /* a request went out on it, and we have not ended it */
} ro_socket;

typedef struct ro_sockets {
    ro_socket *items;
    size_t count;
    size_t cap;
} ro_sockets;

/* Copies destination. NULL when out of memory. Good until the next change. */
ro_socket *ro_sockets_add(ro_sockets *sockets, int fd, uint64_t opener,
                          const char *destination);
void ro_sockets_drop(ro_sockets *sockets, int fd);
/* NULL when no socket, or more than one, has that local port. */
ro_socket *ro_sockets_find(const ro_sockets *sockets, int local_port);
/* NULL when it is not there. */
const ro_socket *ro_sockets_of(const ro_sockets *sockets, int fd);
void ro_sockets_free(ro_sockets *sockets);

/* Nothing to be read, no end, no error: what an idle connection must be. */
bool ro_socket_is_quiet(int fd);
/* The peer has ended or reset the connection. */
bool ro_socket_is_ended(int fd);

/* What came in on a connection behind a request. */
typedef enum ro_arrival {
    RO_ARRIVAL_NOTHING, /* so far */
    RO_ARRIVAL_END,     /* the connection's end, and nothing before it */
    RO_ARRIVAL_BYTES,   /* a byte of an answer, or what may be one */
} ro_arrival;

/* What waits to be read; takes nothing out. tls: an alert is an end. */
ro_arrival ro_socket_peek(int fd, bool tls);

/* How much came in so far, as the kernel counts. */
typedef struct ro_socket_count {
    uint32_t segments; /* with data; 0: not known */
    uint64_t bytes;    /* the end of the stream counts as one */
    bool ended;        /* by the peer, orderly, and nothing after that */
} ro_socket_count;

ro_socket_count ro_socket_counted(int fd);
/* Of a connection that has ended: what came since `before` was counted. */
ro_arrival ro_socket_since(int fd, ro_socket_count before, bool tls);

#endif
