/* Transfers for an event loop: what the worker receives waits in bounded
 * queues, and one eventfd a port says that something waits.
 *
 * Any thread, except that the calls on one flow are made by one thread at a
 * time. Ports and flows are counted; a flow keeps its port. The net must
 * live until the last flow is done, that is until ro_net_shut_down. In a
 * forked child everything refuses and nothing is freed.
 */
#ifndef RO_NET_PORT_H
#define RO_NET_PORT_H

#include "net/net.h"

/* bytes: received and not read yet, one flow; more waits in the kernel */
#define RO_FLOW_QUEUE 65536u

typedef struct ro_port ro_port;
typedef struct ro_flow ro_flow;

/* Borrows net. NULL: out of memory or descriptors. */
ro_port *ro_port_new(ro_net *net);
/* To be called before the maker's ro_port_release: there will be no more
 * polling, and no flow is kept for it. Twice is fine. */
void ro_port_close(ro_port *port);
void ro_port_release(ro_port *port);
/* Readable while ro_port_poll would return something. Owned by the port. */
int ro_port_fd(const ro_port *port);
/* Ids of flows with news since they were last returned, at most max; the
 * descriptor stays readable when there are more. */
size_t ro_port_poll(ro_port *port, uint64_t *ids, size_t max);

/* As ro_net_submit; *out carries one reference. */
ro_net_code ro_port_submit(ro_port *port, const ro_request *request,
                           ro_flow **out);
/* Cancels what is not done. NULL is fine. */
void ro_flow_release(ro_flow *flow);
void ro_flow_cancel(ro_flow *flow);
uint64_t ro_flow_id(const ro_flow *flow);

typedef enum ro_flow_state {
    RO_FLOW_WAITS, /* nothing yet */
    RO_FLOW_READY, /* something was returned */
    RO_FLOW_ENDED, /* the answer was complete */
    RO_FLOW_FAILED,
} ro_flow_state;

/* READY, WAITS or FAILED; *head is valid as long as the flow. */
ro_flow_state ro_flow_head(ro_flow *flow, ro_head *head, ro_net_code *code);
/* All bytes that wait, in a block for ro_free when READY. A failure is
 * returned once the bytes before it are read. */
ro_flow_state ro_flow_read(ro_flow *flow, char **bytes, size_t *len,
                           ro_net_code *code);

#endif
