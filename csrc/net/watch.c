/* Descriptors of others, in one epoll set. curl_multi_poll passes no hang-up
 * on, but to it the set is one descriptor that becomes readable.
 * The set is made with the first of them, so that a net without any is not
 * slower.
 */
#include "net/internal.h"

#include <sys/epoll.h>

bool
ro_net_watch(ro_net *net, ro_watch *watch, unsigned events)
{
    struct epoll_event event = {.events = events, .data.ptr = watch};
    if (net->watch_fd < 0) {
        net->watch_fd = epoll_create1(EPOLL_CLOEXEC);
    }
    if (net->watch_fd < 0
        || epoll_ctl(net->watch_fd, watch->set ? EPOLL_CTL_MOD : EPOLL_CTL_ADD,
                     watch->fd, &event)
               != 0) {
        return false;
    }
    net->n_watches += !watch->set;
    watch->set = true;
    return true;
}

void
ro_net_unwatch(ro_net *net, ro_watch *watch)
{
    if (watch->set) {
        (void)epoll_ctl(net->watch_fd, EPOLL_CTL_DEL, watch->fd, NULL);
        net->n_watches--;
        watch->set = false;
    }
}

/* One event at a time, since a call may end the watch of the next one. The
 * kernel puts what it has reported behind the others. */
void
ro_net_run_watches(ro_net *net)
{
    struct epoll_event event;
    for (unsigned left = net->n_watches;
         left != 0 && epoll_wait(net->watch_fd, &event, 1, 0) == 1; left--) {
        const ro_watch *watch = event.data.ptr;
        watch->fn(watch->ctx, event.events);
    }
}
