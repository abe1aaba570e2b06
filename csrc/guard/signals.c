#include "guard/signals.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include "guard/sys.h"

/* microseconds of processor time that the end takes */
#define PROCESSOR_MARGIN_US 300000

#define PROF_AT 0
static const int numbers[RO_NAMED_SIGNALS] = {[PROF_AT] = SIGPROF,
                                              SIGINT,
                                              SIGTERM,
                                              SIGHUP,
                                              SIGQUIT,
                                              SIGALRM,
                                              SIGUSR1,
                                              SIGUSR2,
                                              SIGVTALRM,
                                              SIGIO,
                                              SIGXCPU,
                                              SIGPWR,
                                              SIGSTKFLT};

/* How many there are; SIGRTMIN and SIGRTMAX are known at run time only. */
static int
count_signals(void)
{
    int count = RO_NAMED_SIGNALS + SIGRTMAX - SIGRTMIN + 1;
    return count < RO_SIGNALS ? count : RO_SIGNALS;
}

static int
number_at(int i)
{
    return i < RO_NAMED_SIGNALS ? numbers[i] : SIGRTMIN + i - RO_NAMED_SIGNALS;
}

/* The one mutable file-scope variable: what handlers have to know. */
static struct {
    atomic_int pid; /* the guarded process; 0: none */
    atomic_int fd;
    _Atomic(struct ro_guard *) guard;
} ro_guard_signal_target;

_Noreturn void
ro_signals_die(int number)
{
    struct sigaction action = {.sa_handler = SIG_DFL};
    sigset_t one;
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(number, &action, NULL);
    (void)sigemptyset(&one);
    (void)sigaddset(&one, number);
    (void)pthread_sigmask(SIG_UNBLOCK, &one, NULL);
    (void)raise(number);
    _exit(128 + number); /* PID 1 does not die by its own signals */
}

static bool
is_this_process(void)
{
    return atomic_load(&ro_guard_signal_target.pid) == (int)getpid();
}

static void
on_signal(int number)
{
    int keep = errno;
    if (!is_this_process()) {
        /* a child between fork and exec: it dies as if we were not there */
        ro_signals_die(number);
    }
    uint64_t one = 1;
    ssize_t n
        = write(atomic_load(&ro_guard_signal_target.fd), &one, sizeof(one));
    (void)n;      /* full: the watcher has not looked yet, and will */
    errno = keep; /* the code that was interrupted may be about to read it */
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
    atomic_store(&ro_guard_signal_target.guard, NULL);
    atomic_store(&ro_guard_signal_target.pid, 0);
}

void
ro_signals_set_guard(struct ro_guard *guard)
{
    atomic_store(&ro_guard_signal_target.guard, guard);
}

struct ro_guard *
ro_signals_guard(void)
{
    return is_this_process() ? atomic_load(&ro_guard_signal_target.guard)
                             : NULL;
}

/* A launcher may have left them blocked, and a mask outlives exec: nothing
 * would end the command. */
static bool
unblock(ro_signals *signals)
{
    sigset_t ours;
    (void)sigemptyset(&ours);
    for (int i = 0; i < count_signals(); i++) {
        if (signals->installed[i]) {
            (void)sigaddset(&ours, number_at(i));
        }
    }
    errno = pthread_sigmask(SIG_UNBLOCK, &ours, &signals->mask_before);
    signals->unblocked = errno == 0;
    return signals->unblocked;
}

/* The kernel kills a process at its hard limit of processor time. Where the
 * soft limit equals it, SIGXCPU gives no warning, so SIGPROF is made to come
 * a little earlier. */
static void
watch_processor_time(ro_signals *signals, bool has_handler)
{
    struct rlimit limit;
    struct rusage used;
    if (!has_handler || getrlimit(RLIMIT_CPU, &limit) != 0
        || getrusage(RUSAGE_SELF, &used) != 0
        || limit.rlim_cur < limit.rlim_max || limit.rlim_max > INT32_MAX) {
        return;
    }
    int64_t left_us = (int64_t)limit.rlim_max * 1000000 - PROCESSOR_MARGIN_US
                      - used.ru_utime.tv_sec * 1000000 - used.ru_utime.tv_usec
                      - used.ru_stime.tv_sec * 1000000 - used.ru_stime.tv_usec;
    left_us = left_us < 1 ? 1 : left_us;
    struct itimerval timer
        = {.it_value = {left_us / 1000000, left_us % 1000000}};
    signals->timed = setitimer(ITIMER_PROF, &timer, NULL) == 0;
}

bool
ro_signals_install(ro_signals *signals, int fd)
{
    *signals = (ro_signals){0};
    atomic_store(&ro_guard_signal_target.fd, fd);
    struct sigaction action
        = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    (void)sigemptyset(&action.sa_mask);
    for (int i = 0; i < count_signals(); i++) {
        struct sigaction *before = &signals->before[i];
        if (RO_SYS(SIGACTION, sigaction(number_at(i), NULL, before), -1) < 0) {
            return false;
        }
        if (before->sa_handler == SIG_IGN) {
            continue; /* nohup has ignored it: it stays ignored */
        }
        if (RO_SYS(SIGACTION, sigaction(number_at(i), &action, NULL), -1)
            < 0) {
            return false;
        }
        signals->installed[i] = true;
    }
    watch_processor_time(signals, signals->installed[PROF_AT]);
    return unblock(signals);
}

void
ro_signals_restore(ro_signals *signals)
{
    if (signals->timed) {
        struct itimerval none = {0};
        (void)setitimer(ITIMER_PROF, &none, NULL);
        signals->timed = false;
    }
    /* What was blocked before is blocked again first: by its old action, which
     * the loop below restores, it might end the process. */
    if (signals->unblocked) {
        (void)pthread_sigmask(SIG_SETMASK, &signals->mask_before, NULL);
        signals->unblocked = false;
    }
    for (int i = 0; i < count_signals(); i++) {
        if (signals->installed[i]) {
            (void)sigaction(number_at(i), &signals->before[i], NULL);
            signals->installed[i] = false;
        }
    }
}
