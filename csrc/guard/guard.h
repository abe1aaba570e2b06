/* One envelope, one end, whatever the rest of the process does.
 *
 * A guard owns standard output, the deadline, the interrupting signals and
 * the descendants of one process. It has two threads with every signal
 * blocked: a watcher that never blocks on anything but its own descriptors,
 * and a finisher that writes, calls the exit hook, kills and exits. The
 * finisher may hang (a terminal, a socket, a hook); the watcher then ends
 * the process without it. Neither thread asks for the GIL, nor for the heap
 * unless there are thousands of processes.
 *
 * System calls that may fail, each of which a test build (-DRO_TEST_FAULT,
 * guard/sys.h) makes fail in turn:
 *   fcntl open openat dup2 eventfd sigaction pthread_create
 *                                   start is refused and undone
 *   read write poll                 retried, or the end of what they serve
 *   close (of standard output)      exit status 1
 *   prctl clock_gettime(BOOTTIME) readlinkat, and /proc's open, openat, read
 *                                   see ro_guard_degraded
 *   pidfd_open pidfd_send_signal    kill after a second look at /proc
 *   kill waitid waitpid getdents64 lseek    the next round tries again
 */
#ifndef RO_GUARD_GUARD_H
#define RO_GUARD_GUARD_H

#include <sys/resource.h>

#include "core/buf.h"
#include "core/limits.h"
#include "core/slice.h"
#include "guard/codes.h"

typedef struct ro_guard ro_guard;

typedef struct ro_guard_options {
    int deadline_ms;      /* first deadline; 0: RO_DEADLINE_MS */
    int grace_ms;         /* from there to the end; 0: the default */
    ro_slice timeout;     /* envelope and newline; copied */
    ro_slice interrupted; /* envelope and newline; copied */
    ro_slice failed;      /* the same, for a crash; copied */
} ro_guard_options;

/* What start could not do, although the guard works without it; see
 * ro_guard_degraded. */
enum {
    RO_GUARD_NO_AGE = 1,      /* process age unknown: the clock starts now */
    RO_GUARD_NO_PROC = 2,     /* no /proc that shows us: the only
                                 descendants that end are those that the
                                 kernel ends with PID 1 */
    RO_GUARD_NO_REAPER = 4,   /* orphans of our children escape */
    RO_GUARD_NO_STARTERS = 8, /* the list of children at start is cut short:
                                what is older than the guard is spared */
    RO_GUARD_NOT_PRIVATE = 16 /* it stays dumpable */
};

/* Once per process, from the main thread, before any other thread starts.
 * In this order:
 *  1. the null device is opened into each closed descriptor of 0 to 2. A
 *     close-on-exec one counts as closed: it cannot be inherited, so it is
 *     some file that this process opened there.
 *  2. standard output is copied to a private close-on-exec descriptor >= 10;
 *     1 and 2 point at the null device from here on.
 *  3. the clock: it starts with the process (/proc/self/stat against
 *     CLOCK_BOOTTIME; kept on CLOCK_MONOTONIC, so neither suspend nor a
 *     jump of the wall clock moves a deadline). A process older than
 *     RO_DEADLINE_MS is an image that a long-lived process exec'ed: its
 *     clock starts now.
 *  4. the descendants that exist are noted; they will be spared.
 *  5. child sub-reaper, unless PID 1.
 *  6. not dumpable, no core (guard/privacy.h).
 *  7. handlers for the signals that interrupt (guard/signals.h): what was
 *     ignored stays ignored, what was blocked is not blocked any more; and
 *     for those of a crash (guard/crash.h). Nothing else may set handlers for
 *     any of them.
 *  8. the threads.
 * Returns NULL after a failure, with *why set and everything undone: 1 and 2
 * are what they were (the null device where they were closed), so the caller
 * can still print by ro_guard_finish(NULL, ...). The guard is never freed.
 * why may be NULL. */
ro_guard *ro_guard_start(const ro_guard_options *options, ro_guard_code *why);

/* RO_GUARD_NO_* flags of a guard that started. */
unsigned ro_guard_degraded(const ro_guard *guard);

/* What the soft limit of core files was, for children; false when it was not
 * changed. */
bool ro_guard_core_limit(const ro_guard *guard, rlim_t *out);

/* Milliseconds, or -1. Only digits without a leading zero, from
 * RO_DEADLINE_MIN_MS to RO_DEADLINE_MS: no sign, space, or fraction. */
int ro_guard_parse_deadline(const char *text);

/* Move the first deadline to ms after the clock's start, and the end to
 * grace_ms behind it; only ever earlier. False (and nothing changes) when
 * that is not earlier or the first deadline has come. Any thread. */
bool ro_guard_set_deadline(ro_guard *guard, int ms);

/* Readable from the first deadline on; never read it. Owned by the guard. */
int ro_guard_cancel_fd(const ro_guard *guard);

/* Milliseconds to the first deadline, rounded up; 0 when it has come. */
int ro_guard_ms_left(ro_guard *guard);

/* An envelope is chosen; the process is about to end. Any thread. */
bool ro_guard_stopping(const ro_guard *guard);

typedef enum ro_guard_input {
    RO_INPUT_OK = 0,
    RO_INPUT_MISSING,   /* terminal, closed at start, empty: input_required */
    RO_INPUT_TOO_LARGE, /* max + 1 bytes came: input_too_large */
    RO_INPUT_TIMEOUT,   /* the first deadline came: timeout */
    RO_INPUT_BROKEN,    /* directory, write-only, reset: invalid_input */
    RO_INPUT_STOPPING,  /* another thread finishes: say nothing */
    RO_INPUT_NO_MEMORY, /* runtime_failure */
} ro_guard_input;

/* Read descriptor 0 to its end, at most max + 1 bytes of it. out must be
 * initialised with a cap of at least max; it holds bytes only after
 * RO_INPUT_OK, and is the caller's after any return. Never changes the
 * descriptor's flags (they are shared). Blocks; one thread at a time. A
 * process that steals bytes from the same pipe can block it past the first
 * deadline, not past the end. */
ro_guard_input ro_guard_read_stdin(ro_guard *guard, size_t max, ro_buf *out);

/* Called once on the finisher's thread, without locks, after the envelope is
 * out and before children are killed. wait_ms is the time it may take: at
 * most RO_DELETE_WAIT_MS, 0 at the end. When it overruns by
 * RO_GUARD_HOOK_SLACK_MS it is abandoned where it stands. */
typedef struct ro_guard_exit_hook {
    void (*hook)(void *ctx, int wait_ms);
    void *ctx; /* must stay valid to the end of the process */
} ro_guard_exit_hook;

/* The PyCapsule name of a pointer to a ro_guard_exit_hook. */
#define RO_GUARD_EXIT_HOOK_CAPSULE "deepagents_ro.exit_hook"

/* Replaces the one before; a NULL hook is none. Any thread. */
void ro_guard_set_exit_hook(ro_guard *guard, void (*hook)(void *, int),
                            void *ctx);

/* The end: exactly one call per process (or the watcher, which finishes with
 * the interrupted envelope and 130 after a signal, with the timeout envelope
 * and 1 at the end; or a thread that crashed, with the failed envelope and its
 * signal) is the winner; every other caller sleeps until the process is
 * gone. The finisher writes the winner's bytes to the private standard output,
 * closes it, calls the hook, ends and reaps the descendants (guard/ending.h
 * says which), and leaves by _exit(exit_code), without atexit handlers. The
 * status is 1 instead when not every byte was taken: closed at start, reader
 * gone, ENOSPC, nobody reading until the end. Once a byte is out no other
 * envelope begins. All is over RO_GUARD_END_MS after the end at the latest.
 *
 * guard NULL (start was refused): bytes go to descriptor 1, then _exit.
 * In a child that was forked off the process: _exit(1), nothing written. */
_Noreturn void ro_guard_finish(ro_guard *guard, int exit_code, ro_slice bytes);

/* exit status: a signal ended the process */
#define RO_GUARD_INTERRUPTED 130

/* milliseconds after the end (first deadline and grace): */
#define RO_GUARD_WRITE_MS 100    /* a write may still go on */
#define RO_GUARD_TAKEOVER_MS 150 /* the watcher stops waiting for it */
#define RO_GUARD_KILL_MS 380     /* killing stops */
#define RO_GUARD_END_MS 430      /* the process is gone */
/* milliseconds: a hook that does not return is abandoned */
#define RO_GUARD_HOOK_SLACK_MS 250
/* milliseconds: killing what does not die (uninterruptible sleep) */
#define RO_GUARD_KILL_TRY_MS 2500

#endif
