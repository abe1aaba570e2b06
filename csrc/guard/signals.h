/* The signals that interrupt a command become a readable eventfd. */
#ifndef RO_GUARD_SIGNALS_H
#define RO_GUARD_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

/* All that end a process by default and are no crash, but KILL, and PIPE and
 * XFSZ, which the interpreter ignores: INT, TERM, HUP, QUIT, ALRM, USR1, USR2,
 * VTALRM, PROF, IO, XCPU, PWR, STKFLT, and the real-time ones, 31 at most */
#define RO_NAMED_SIGNALS 13
#define RO_SIGNALS (RO_NAMED_SIGNALS + 31)

typedef struct ro_signals {
    bool installed[RO_SIGNALS];
    struct sigaction before[RO_SIGNALS];
    bool unblocked;
    bool timed; /* of processor time */
    sigset_t mask_before;
} ro_signals;

struct ro_guard;

/* The right to be the guard of this process; false when it is taken, or was
 * before a fork. */
bool ro_signals_claim(void);
void ro_signals_release(void);
/* What handlers find: the guard of this very process, or NULL. */
void ro_signals_set_guard(struct ro_guard *guard);
struct ro_guard *ro_signals_guard(void);

/* Handlers for those that are not ignored, and an end to what the calling
 * thread has blocked of them. The fd must be non-blocking and stay open.
 * False with errno: restore. */
bool ro_signals_install(ro_signals *signals, int fd);
/* On the thread that installed them. */
void ro_signals_restore(ro_signals *signals);

/* Default action and end, by that signal. Also between vfork and exec. */
_Noreturn void ro_signals_die(int number);

#endif
