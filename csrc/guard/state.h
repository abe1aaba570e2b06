/* The guard itself; shared by the files of this directory alone.
 *
 * lock guards deadlines and hook. It is held for a few instructions, never
 * over a call out. A member without a mark is written before the threads
 * start, or by the thread named.
 */
#ifndef RO_GUARD_STATE_H
#define RO_GUARD_STATE_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "guard/crash.h"
#include "guard/deadline.h"
#include "guard/ending.h"
#include "guard/guard.h"
#include "guard/output.h"
#include "guard/privacy.h"
#include "guard/signals.h"

typedef enum ro_claim {
    RO_CLAIM_NONE = 0,
    RO_CLAIM_TAKEN,  /* the winner is writing bytes and exit_code */
    RO_CLAIM_PUBLIC, /* they may be read */
} ro_claim;

struct ro_guard {
    pid_t pid;
    unsigned degraded;
    ro_output output;
    ro_privacy privacy;
    ro_signals signals;
    ro_crash crash;
    ro_ending ending; /* by whoever set killing */
    char *timeout;
    char *interrupted;
    char *failed;
    size_t timeout_len;
    size_t interrupted_len;
    size_t failed_len;

    int signal_fd; /* written by the signal handler */
    int cancel_fd; /* readable from the first deadline on */
    int stop_fd;   /* readable from the claim on */
    int wake_fd;   /* the queue changed: the watcher looks again */

    pthread_mutex_t lock;
    ro_deadlines deadlines;  /* lock */
    ro_guard_exit_hook hook; /* lock */

    atomic_int claim;    /* ro_claim */
    int exit_code;       /* by the winner, before RO_CLAIM_PUBLIC */
    ro_slice bytes;      /* the same */
    sem_t claimed;       /* wakes the finisher */
    atomic_bool begun;   /* somebody writes an envelope */
    atomic_bool written; /* every byte is out */
    atomic_bool killing; /* a thread does the ending; the other one sleeps */
    atomic_bool undo;    /* start failed: the finisher returns */
    atomic_int crashed;  /* the signal that this process is to die by; or 0 */
    atomic_int finisher_id; /* its thread id, for the handler of a crash */

    pthread_t watcher;
    pthread_t finisher;
    bool finisher_runs;
};

/* finish.c */
/* Choose the envelope; false when one is chosen. bytes must stay valid to
 * the end of the process. Does not block. */
bool ro_guard_claim(ro_guard *guard, int exit_code, ro_slice bytes);
/* Descendants, then _exit. Returns only when the other thread is at it. */
void ro_guard_end(ro_guard *guard);
/* The status as things stand. */
_Noreturn void ro_guard_exit(ro_guard *guard);
void *ro_guard_finisher(void *guard);

/* watch.c */
void ro_guard_raise(int event_fd);
void *ro_guard_watcher(void *guard);

#endif
