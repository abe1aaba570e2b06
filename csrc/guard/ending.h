/* Stops, kills and reaps what is ours. One thread at a time. */
#ifndef RO_GUARD_ENDING_H
#define RO_GUARD_ENDING_H

#include "guard/clock.h"
#include "guard/descendants.h"

typedef struct ro_ending {
    int proc_fd;        /* /proc; -1: none that shows us */
    ro_proc_owner self; /* who is as this process is may be ours */
    ro_lineage lineage; /* in the numbers of /proc, which may be those of an
                           outer pid namespace */
    ro_procs spared;
    ro_procs now;
    ro_procs before;
} ro_ending;

/* Note what exists. Yields RO_GUARD_NO_* flags in *degraded. False when out
 * of memory; free in any case. */
bool ro_ending_init(ro_ending *ending, unsigned *degraded);
void ro_ending_free(ro_ending *ending);

/* Until no descendant of ours is left, or the clock says `until` (ms of
 * ro_clock_now), or what is left has not died for RO_GUARD_KILL_TRY_MS. */
void ro_ending_run(ro_ending *ending, int64_t until);

#endif
