/* How often a request may be sent.
 *
 * The worker looks at a kept connection before a request goes out on it. A
 * connection that is readable while idle was closed by its peer, or is out of
 * step; the worker then opens another one, since nothing was sent. It cannot
 * see a peer that closes just then. If the connection ends after the request
 * and before a byte of the answer, a RO_SEND_AGAIN request is sent once more
 * on a new connection; any other ends in RO_NET_REPLAY, RO_NET_RECEIVE or
 * RO_NET_SEND. Nothing else is ever sent twice: libcurl's own repeats are
 * refused. csrc/connections.md has the reasons.
 */
#ifndef RO_NET_SENDING_H
#define RO_NET_SENDING_H

typedef enum ro_sending {
    RO_SEND_ONCE,
    RO_SEND_WARY, /* once, and on a new connection where the server was seen
                     to close kept ones: the race is not run there */
    RO_SEND_AGAIN,
} ro_sending;

#endif
