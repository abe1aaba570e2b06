#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include "guard/state.h"
#include "guard/sys.h"

/* milliseconds: between two looks when poll fails */
#define RETRY_MS 5

/* An eventfd keeps what is added until it is read: a write that fails for
 * any passing reason is tried again. */
void
ro_guard_raise(int event_fd)
{
    uint64_t one = 1;
    for (int tries = 0; tries < 100; tries++) {
        ssize_t n = RO_SYS(WRITE, write(event_fd, &one, sizeof(one)), -1);
        if (n == (ssize_t)sizeof(one) || errno == EAGAIN) {
            return; /* EAGAIN: the counter is full, so it is readable */
        }
        if (errno != EINTR) {
            ro_clock_sleep(1);
        }
    }
}

static bool
lower_event(int event_fd)
{
    uint64_t count;
    return RO_SYS(READ, read(event_fd, &count, sizeof(count)), -1)
           == (ssize_t)sizeof(count);
}

static ro_due
take_due(ro_guard *guard, int *wait_ms)
{
    pthread_mutex_lock(&guard->lock);
    int64_t now = ro_monotonic_ms();
    ro_due due = ro_deadlines_take(&guard->deadlines, now);
    *wait_ms = ro_deadlines_wait(&guard->deadlines, now);
    pthread_mutex_unlock(&guard->lock);
    return due;
}

static void
act(ro_guard *guard, ro_due due)
{
    switch (due) {
    case RO_DUE_CANCEL:
        ro_guard_raise(guard->cancel_fd);
        break;
    case RO_DUE_END:
        (void)ro_guard_claim(guard, 1,
                             ro_slice_of(guard->timeout, guard->timeout_len));
        break;
    case RO_DUE_TAKEOVER:
    case RO_DUE_HOOK:
        ro_guard_end(guard); /* returns when the finisher is at it */
        break;
    case RO_DUE_LAST:
        ro_guard_exit(guard);
    case RO_DUE_COUNT:
        break;
    }
}

void *
ro_guard_watcher(void *arg)
{
    ro_guard *guard = arg;
    for (;;) {
        int wait_ms;
        ro_due due = take_due(guard, &wait_ms);
        if (due != RO_DUE_COUNT) {
            act(guard, due);
            continue;
        }
        struct pollfd fds[] = {
            {.fd = guard->signal_fd, .events = POLLIN},
            {.fd = guard->wake_fd, .events = POLLIN},
        };
        /* The reads say what came, whatever poll says: a poll that fails
         * must not lose a signal. */
        int ready = RO_SYS(POLL, poll(fds, 2, wait_ms), -1);
        bool woken = lower_event(guard->wake_fd);
        bool signalled = lower_event(guard->signal_fd);
        if (signalled) {
            (void)ro_guard_claim(
                guard, RO_GUARD_INTERRUPTED,
                ro_slice_of(guard->interrupted, guard->interrupted_len));
        }
        if (ready != 0 && !woken && !signalled) {
            ro_clock_sleep(RETRY_MS); /* poll or read fails: no busy loop */
        }
    }
}
