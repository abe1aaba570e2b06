/* The end by a crash: one envelope, nothing left behind, death by the signal.
 */
#ifndef RO_GUARD_CRASH_H
#define RO_GUARD_CRASH_H

#include <signal.h>
#include <stdbool.h>

#include "core/thread.h"

/* milliseconds after a crash: its thread stops waiting for the finisher, which
 * may wait for a reader or for what the thread holds */
#define RO_CRASH_WAIT_MS 1000
/* milliseconds after a crash: killing stops, whoever does it */
#define RO_CRASH_KILL_MS 3000

typedef struct ro_crash {
    bool installed[RO_CRASH_SIGNALS];
    struct sigaction before[RO_CRASH_SIGNALS];
    char *stack; /* of the main thread's handlers */
    bool stacked;
    stack_t stack_before;
} ro_crash;

/* Handlers for the signals of a crash, ignored or not, and a signal stack for
 * the calling thread; threads of core/thread.h have theirs. Whoever had set
 * handlers (faulthandler) is not asked any more. False with errno: restore. */
bool ro_crash_install(ro_crash *crash);
/* On the thread that installed them. Twice is fine. */
void ro_crash_restore(ro_crash *crash);

#endif
