/* The system calls that the guard's tests can make fail.
 *
 * RO_SYS(NAME, call, failed) is the call; a build with -DRO_TEST_FAULT asks
 * the test first, and when that says so sets errno and yields `failed`
 * without calling. MONOTONIC time is no such call: it cannot fail.
 */
#ifndef RO_GUARD_SYS_H
#define RO_GUARD_SYS_H

typedef enum ro_sys {
    RO_SYS_FCNTL,
    RO_SYS_OPEN,
    RO_SYS_OPENAT,
    RO_SYS_READLINKAT,
    RO_SYS_DUP2,
    RO_SYS_EVENTFD,
    RO_SYS_SIGACTION,
    RO_SYS_PTHREAD_CREATE,
    RO_SYS_READ,
    RO_SYS_WRITE,
    RO_SYS_CLOSE,
    RO_SYS_POLL,
    RO_SYS_GETDENTS64,
    RO_SYS_LSEEK,
    RO_SYS_PRCTL,
    RO_SYS_CLOCK_BOOTTIME,
    RO_SYS_PIDFD_OPEN,
    RO_SYS_PIDFD_SEND_SIGNAL,
    RO_SYS_KILL,
    RO_SYS_WAITID,
    RO_SYS_WAITPID,
    RO_SYS_COUNT,
} ro_sys;

#ifdef RO_TEST_FAULT

#include <stdbool.h>
#include <stddef.h>

/* True when this call has to fail; errno is set. Any thread. */
bool ro_fault_hit(ro_sys call);
/* The Nth `call` from now on (1 is the next) fails with `error`, and all
 * behind it when sticky; nth 0: none fails. Resets all counters. */
void ro_fault_set(ro_sys call, size_t nth, int error, bool sticky);
/* Calls of that kind since the last ro_fault_set. */
size_t ro_fault_count(ro_sys call);

#define RO_SYS(name, call, failed)                                            \
    (ro_fault_hit(RO_SYS_##name) ? (failed) : (call))

#else
#define RO_SYS(name, call, failed) (call)
#endif

#endif
