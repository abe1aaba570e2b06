#include "guard/signals.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <unistd.h>

#include "guard/sys.h"

static const int numbers[RO_SIGNALS] = {SIGINT, SIGTERM, SIGHUP};

/* The one mutable file-scope variable: what the handler has to know. */
static struct {
    atomic_int pid; /* the guarded process; 0: none */
    atomic_int fd;
} ro_guard_signal_target;

static void
on_signal(int number)
{
    int keep = errno;
    if (atomic_load(&ro_guard_signal_target.pid) == (int)getpid()) {
        uint64_t one = 1;
        ssize_t n = write(atomic_load(&ro_guard_signal_target.fd), &one,
                          sizeof(one));
        (void)n; /* full: the watcher has not looked yet, and will */
    }
    else {
        /* a child between fork and exec: it dies as if we were not there */
        (void)signal(number, SIG_DFL);
        (void)raise(number);
    }
    errno = keep;
}

bool
ro_signals_claim(void)
{
    int none = 0;
    return atomic_compare_exchange_strong(&ro_guard_signal_target.pid, &none,
                                          (int)getpid());
}

void
ro_signals_release(void)
{
    atomic_store(&ro_guard_signal_target.pid, 0);
}

bool
ro_signals_install(ro_signals *signals, int fd)
{
    *signals = (ro_signals){0};
    atomic_store(&ro_guard_signal_target.fd, fd);
    struct sigaction action
        = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    (void)sigemptyset(&action.sa_mask);
    for (int i = 0; i < RO_SIGNALS; i++) {
        struct sigaction *before = &signals->before[i];
        if (RO_SYS(SIGACTION, sigaction(numbers[i], NULL, before), -1) < 0) {
            return false;
        }
        if (before->sa_handler == SIG_IGN) {
            continue;
        }
        if (RO_SYS(SIGACTION, sigaction(numbers[i], &action, NULL), -1) < 0) {
            return false;
        }
        signals->installed[i] = true;
    }
    return true;
}

void
ro_signals_restore(ro_signals *signals)
{
    for (int i = 0; i < RO_SIGNALS; i++) {
        if (signals->installed[i]) {
            (void)sigaction(numbers[i], &signals->before[i], NULL);
            signals->installed[i] = false;
        }
    }
}
