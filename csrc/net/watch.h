/* Descriptors of others that the worker watches beside its own.
 */
#ifndef RO_NET_WATCH_H
#define RO_NET_WATCH_H

#include "net/net.h"

/* The caller's: fn, ctx and fd are filled in, set is false before the first
 * ro_net_watch. */
typedef struct ro_watch {
    void (*fn)(void *ctx, unsigned events); /* EPOLLIN and so on */
    void *ctx;
    int fd;
    bool set;
} ro_watch;

/* Worker thread only: call fn whenever fd is ready for one of events, 0 for
 * errors and hang-ups alone, which always count. Again: changes events.
 * False when the system refuses. fn may watch and unwatch as it likes. At
 * shut-down watches are forgotten. */
bool ro_net_watch(ro_net *net, ro_watch *watch, unsigned events);
/* Worker thread only, before fd is closed. Twice is fine. */
void ro_net_unwatch(ro_net *net, ro_watch *watch);

#endif
