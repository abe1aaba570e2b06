#include "core/thread.h"

#include <errno.h>

#include "core/alloc.h"

const int ro_crash_signals[RO_CRASH_SIGNALS]
    = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGSYS, SIGTRAP};

typedef struct start {
    void *(*run)(void *);
    void *arg;
} start;

/* The signal stack is the first thing on the thread's own stack. A stack
 * overflows at its other end, so this part is sound when the handler of the
 * overflow needs it. */
static void *
begin(void *arg)
{
    char space[RO_SIGNAL_STACK];
    start how = *(start *)arg;
    stack_t mine = {.ss_sp = space, .ss_size = sizeof(space)};
    stack_t before;
    ro_free(arg);
    int failed = sigaltstack(&mine, &before);
    void *result = how.run(how.arg);
    if (failed == 0) {
        (void)sigaltstack(&before, NULL); /* a sanitizer's, or none */
    }
    return result;
}

static int
create(pthread_t *thread, size_t stack, start *how)
{
    pthread_attr_t attributes;
    int failed = pthread_attr_init(&attributes);
    if (failed != 0) {
        return failed;
    }
    if (stack != 0) {
        failed
            = pthread_attr_setstacksize(&attributes, stack + RO_SIGNAL_STACK);
    }
    if (failed == 0) {
        failed = pthread_create(thread, &attributes, begin, how);
    }
    (void)pthread_attr_destroy(&attributes);
    return failed;
}

int
ro_thread_start(pthread_t *thread, size_t stack, void *(*run)(void *),
                void *arg)
{
    sigset_t blocked;
    sigset_t before;
    start *how = ro_malloc(sizeof(*how));
    if (how == NULL) {
        return ENOMEM;
    }
    *how = (start){run, arg};
    (void)sigfillset(&blocked);
    for (size_t i = 0; i < RO_CRASH_SIGNALS; i++) {
        (void)sigdelset(&blocked, ro_crash_signals[i]);
    }
    /* A thread inherits the mask of its maker. Blocked before the start, no
     * signal can meet the new thread before it blocks them itself. */
    int failed = pthread_sigmask(SIG_SETMASK, &blocked, &before);
    if (failed == 0) {
        failed = create(thread, stack, how);
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    if (failed != 0) {
        ro_free(how);
    }
    return failed;
}
