/* SIGINT, SIGTERM and SIGHUP become a readable eventfd. */
#ifndef RO_GUARD_SIGNALS_H
#define RO_GUARD_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

#define RO_SIGNALS 3

typedef struct ro_signals {
    bool installed[RO_SIGNALS];
    struct sigaction before[RO_SIGNALS];
} ro_signals;

/* The right to be the guard of this process; false when it is taken, or was
 * before a fork. */
bool ro_signals_claim(void);
void ro_signals_release(void);

/* Handlers for those that are not ignored; the mask is left alone. The fd
 * must be non-blocking and stay open. False with errno: restore. */
bool ro_signals_install(ro_signals *signals, int fd);
void ro_signals_restore(ro_signals *signals);

#endif
