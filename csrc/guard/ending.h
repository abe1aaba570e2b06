/* Stops, kills and reaps what is ours. One thread at a time. */
#ifndef RO_GUARD_ENDING_H
#define RO_GUARD_ENDING_H

#include "guard/clock.h"
#include "guard/descendants.h"

/* Which processes are ours. A process is ours if this process is one of its
 * ancestors. That includes processes that called setsid or forked twice,
 * because orphans come to the sub-reaper. These are not ours:
 *  - a process that existed at start (a shell's child from before its exec),
 *    and everything below it as long as its parent lives;
 *  - a process whose real uid is another one;
 *  - a process in another pid namespace (its count of NSpid differs);
 *  - a service that another process starts on request (systemd, D-Bus, a
 *    container daemon), because it is never below us.
 * A process that a spared one starts, and that loses its parent after our
 * start, looks like our own orphans. It ends with them. */

typedef struct ro_ending {
    int proc_fd;        /* /proc; -1: none that shows us */
    ro_proc_owner self; /* a process with the same owner may be ours */
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

/* Returns when no descendant of ours is left, or at `until` (ms of
 * ro_monotonic_ms), or when what is left has not died for
 * RO_GUARD_KILL_TRY_MS.
 */
void ro_ending_run(ro_ending *ending, int64_t until);

#endif
