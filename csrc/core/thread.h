/* Threads of ours: their signals and their stacks.
 *
 * A thread of ours blocks every signal but those that its own instructions
 * raise. It has a second stack for their handlers (guard/crash.h), because the
 * thread may have used up its own.
 */
#ifndef RO_CORE_THREAD_H
#define RO_CORE_THREAD_H

#include <pthread.h>
#include <signal.h>
#include <stddef.h>

/* Bytes of a signal stack: the kernel's frame (up to 12 KiB where there are
 * matrix registers) and the handler's, which reads /proc. */
#define RO_SIGNAL_STACK (48u * 1024u)

/* What a crash raises: SEGV, BUS, FPE, ILL, ABRT, SYS, TRAP. */
#define RO_CRASH_SIGNALS 7
extern const int ro_crash_signals[RO_CRASH_SIGNALS];

/* Start run(arg) on a thread with a stack of that many bytes beside the signal
 * stack; 0: the default. From the thread's first instruction on every signal
 * but those of a crash is blocked. Returns 0 or an errno. pthread_join gives
 * what run returns. */
int ro_thread_start(pthread_t *thread, size_t stack, void *(*run)(void *),
                    void *arg);

#endif
