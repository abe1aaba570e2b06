/* The handler of a crash. It makes async-signal-safe calls alone and takes no
 * lock and no memory: the thread may have crashed inside the heap, or with
 * any lock held.
 *
 * The finisher writes and kills, as it does for everybody else, unless it is
 * the thread that crashed. The thread that crashed waits for the finisher
 * within a bound. If the handler itself crashes, the kernel ends the process
 * at once, because the handler blocks every signal.
 */
#include "guard/crash.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/alloc.h"
#include "guard/state.h"
#include "guard/sys.h"

static int
thread_id(void)
{
    return (int)syscall(SYS_gettid);
}

static void
sleep_until(int64_t until)
{
    while (ro_monotonic_ms() < until) {
        ro_clock_sleep(5);
    }
}

/* Takes the claim, unless somebody has it, so that no other envelope is
 * chosen any more. If an envelope was begun, it stays as it is. */
static void
write_here(ro_guard *guard)
{
    int none = RO_CLAIM_NONE;
    (void)atomic_compare_exchange_strong(&guard->claim, &none, RO_CLAIM_TAKEN);
    if (!atomic_exchange(&guard->begun, true) && guard->output.fd >= 0) {
        (void)ro_output_write(guard->output.fd,
                              ro_slice_of(guard->failed, guard->failed_len),
                              ro_monotonic_ms() + RO_CRASH_WAIT_MS);
    }
}

static void
on_crash(int number)
{
    ro_guard *guard = ro_signals_guard();
    int none = 0;
    if (guard == NULL) {
        ro_signals_die(number); /* a child between fork and exec */
    }
    if (!atomic_compare_exchange_strong(&guard->crashed, &none, number)) {
        for (;;) { /* another thread was first and ends the process */
            (void)pause();
        }
    }
    int64_t now = ro_monotonic_ms();
    if (atomic_load(&guard->finisher_id) == thread_id()) {
        write_here(guard);
    }
    else {
        (void)ro_guard_claim(guard, 1,
                             ro_slice_of(guard->failed, guard->failed_len));
        sleep_until(now + RO_CRASH_WAIT_MS);
        write_here(guard); /* the finisher may hang on what we hold */
    }
    /* Two threads never kill at a time. If the other one is at it, it ends
     * the process, and the bound is for the case that it hangs. */
    if (atomic_exchange(&guard->killing, true)) {
        sleep_until(now + RO_CRASH_KILL_MS);
    }
    else {
        ro_ending_run(&guard->ending, now + RO_CRASH_KILL_MS);
    }
    ro_signals_die(number);
}

static bool
set_stack(ro_crash *crash)
{
    crash->stack = ro_malloc(RO_SIGNAL_STACK);
    if (crash->stack == NULL) {
        return false;
    }
    stack_t stack = {.ss_sp = crash->stack, .ss_size = RO_SIGNAL_STACK};
    crash->stacked = sigaltstack(&stack, &crash->stack_before) == 0;
    return crash->stacked;
}

bool
ro_crash_install(ro_crash *crash)
{
    struct sigaction action = {.sa_handler = on_crash, .sa_flags = SA_ONSTACK};
    sigset_t crash_set;
    *crash = (ro_crash){0};
    if (!set_stack(crash)) {
        return false;
    }
    (void)sigfillset(&action.sa_mask); /* a crash in there ends at once */
    (void)sigemptyset(&crash_set);
    for (int i = 0; i < RO_CRASH_SIGNALS; i++) {
        if (RO_SYS(SIGACTION,
                   sigaction(ro_crash_signals[i], &action, &crash->before[i]),
                   -1)
            < 0) {
            return false;
        }
        crash->installed[i] = true;
        (void)sigaddset(&crash_set, ro_crash_signals[i]);
    }
    /* The kernel kills a process that raises a blocked one, and asks no
     * handler. */
    errno = pthread_sigmask(SIG_UNBLOCK, &crash_set, NULL);
    return errno == 0;
}

void
ro_crash_restore(ro_crash *crash)
{
    for (int i = 0; i < RO_CRASH_SIGNALS; i++) {
        if (crash->installed[i]) {
            (void)sigaction(ro_crash_signals[i], &crash->before[i], NULL);
            crash->installed[i] = false;
        }
    }
    if (crash->stacked) {
        (void)sigaltstack(&crash->stack_before, NULL);
        crash->stacked = false;
    }
    ro_free(crash->stack);
    crash->stack = NULL;
}
