#include "guard/sys.h"

#ifdef RO_TEST_FAULT

#include <errno.h>
#include <stdatomic.h>

/* Test builds only. */
static atomic_size_t fault_counts[RO_SYS_COUNT];
static atomic_int fault_call = RO_SYS_COUNT;
static atomic_size_t fault_nth;
static atomic_int fault_errno;
static atomic_bool fault_sticky;

bool
ro_fault_hit(ro_sys call)
{
    size_t count = atomic_fetch_add(&fault_counts[call], 1) + 1;
    size_t nth = atomic_load(&fault_nth);
    if (nth == 0 || (int)call != atomic_load(&fault_call)) {
        return false;
    }
    if (count != nth && !(count > nth && atomic_load(&fault_sticky))) {
        return false;
    }
    errno = atomic_load(&fault_errno);
    return true;
}

void
ro_fault_set(ro_sys call, size_t nth, int error, bool sticky)
{
    atomic_store(&fault_nth, 0);
    for (int i = 0; i < RO_SYS_COUNT; i++) {
        atomic_store(&fault_counts[i], 0);
    }
    atomic_store(&fault_call, (int)call);
    atomic_store(&fault_errno, error);
    atomic_store(&fault_sticky, sticky);
    atomic_store(&fault_nth, nth);
}

size_t
ro_fault_count(ro_sys call)
{
    return atomic_load(&fault_counts[call]);
}

#else
/* ISO C wants one declaration in a file. */
typedef int ro_fault_unused;
#endif
