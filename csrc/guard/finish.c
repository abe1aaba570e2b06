#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "guard/state.h"
#include "guard/sys.h"

/* Two steps: the compare-and-swap picks the winner, and only then may the
 * winner write exit_code and bytes. RO_CLAIM_PUBLIC tells the readers that
 * they are whole. Everything here may run in a signal handler (a crash). */
bool
ro_guard_claim(ro_guard *guard, int exit_code, ro_slice bytes)
{
    int none = RO_CLAIM_NONE;
    if (!atomic_compare_exchange_strong(&guard->claim, &none,
                                        RO_CLAIM_TAKEN)) {
        return false;
    }
    guard->exit_code = exit_code;
    guard->bytes = bytes;
    atomic_store(&guard->claim, RO_CLAIM_PUBLIC);
    ro_guard_raise(guard->stop_fd);
    (void)sem_post(&guard->claimed);
    return true;
}

_Noreturn void
ro_guard_exit(ro_guard *guard)
{
    bool whole = atomic_load(&guard->written);
    int crashed = atomic_load(&guard->crashed);
    /* The parent must see the crash even when the envelope came out whole. */
    if (crashed != 0) {
        ro_signals_die(crashed);
    }
    _exit(whole ? guard->exit_code : 1);
}

_Noreturn static void
sleep_for_ever(void)
{
    for (;;) {
        (void)pause();
    }
}

void
ro_guard_end(ro_guard *guard)
{
    /* Finisher and watcher both come here when the finisher is late. One of
     * them does the work; ro_ending is for one thread at a time. */
    if (atomic_exchange(&guard->killing, true)) {
        return;
    }
    /* The process may have used up its descriptors, and reading /proc needs
     * some. The output and the null device have done their work. */
    (void)close(guard->output.null_fd);
    pthread_mutex_lock(&guard->lock);
    int64_t until = guard->deadlines.end + RO_GUARD_KILL_MS;
    pthread_mutex_unlock(&guard->lock);
    ro_ending_run(&guard->ending, until);
    ro_guard_exit(guard);
}

static void
call_hook(ro_guard *guard)
{
    int64_t now = ro_monotonic_ms();
    pthread_mutex_lock(&guard->lock);
    ro_guard_exit_hook hook = guard->hook;
    int64_t left = guard->deadlines.end - now;
    int wait_ms = left < 0 ? 0
                           : (left < RO_DELETE_WAIT_MS ? (int)left
                                                       : RO_DELETE_WAIT_MS);
    guard->hook.hook = NULL; /* it runs once */
    /* The watcher must know of the overrun before the hook starts: this
     * thread cannot say anything while it hangs there. */
    if (hook.hook != NULL) {
        ro_deadlines_put(&guard->deadlines, RO_DUE_HOOK,
                         now + wait_ms + RO_GUARD_HOOK_SLACK_MS);
    }
    pthread_mutex_unlock(&guard->lock);
    if (hook.hook != NULL) {
        ro_guard_raise(guard->wake_fd);
        hook.hook(hook.ctx, wait_ms);
    }
}

static bool
write_out(ro_guard *guard)
{
    if (guard->output.fd < 0) {
        return false;
    }
    pthread_mutex_lock(&guard->lock);
    int64_t until = guard->deadlines.end + RO_GUARD_WRITE_MS;
    pthread_mutex_unlock(&guard->lock);
    if (atomic_exchange(&guard->begun, true)) {
        return false; /* the thread that crashed has written meanwhile */
    }
    bool whole = ro_output_write(guard->output.fd, guard->bytes, until);
    /* Some file systems report a full disk at close alone. Linux closes the
     * descriptor also when it says EINTR. */
    int closed = RO_SYS(CLOSE, close(guard->output.fd), -1);
    return whole && (closed == 0 || errno == EINTR);
}

void *
ro_guard_finisher(void *arg)
{
    ro_guard *guard = arg;
    atomic_store(&guard->finisher_id, (int)syscall(SYS_gettid));
    while (sem_wait(&guard->claimed) != 0) {
    }
    if (atomic_load(&guard->undo)) {
        return NULL;
    }
    if (write_out(guard)) {
        atomic_store(&guard->written, true);
    }
    if (atomic_load(&guard->crashed) == 0) {
        call_hook(guard); /* it needs other threads in good order */
    }
    ro_guard_end(guard);
    sleep_for_ever();
}

/* No guard: no private output, no deadline but the default one. */
_Noreturn static void
finish_bare(int exit_code, ro_slice bytes)
{
    sigset_t pipe; /* a reader that has gone is exit status 1, no signal */
    (void)sigemptyset(&pipe);
    (void)sigaddset(&pipe, SIGPIPE);
    (void)pthread_sigmask(SIG_BLOCK, &pipe, NULL);
    bool whole = ro_output_write(1, bytes, ro_monotonic_ms() + RO_DEADLINE_MS);
    _exit(whole ? exit_code : 1);
}

_Noreturn void
ro_guard_finish(ro_guard *guard, int exit_code, ro_slice bytes)
{
    if (guard == NULL) {
        finish_bare(exit_code, bytes);
    }
    /* A forked child has neither of the threads, and its parent's envelope
     * is not its own to write. */
    if (getpid() != guard->pid) {
        _exit(1);
    }
    (void)ro_guard_claim(guard, exit_code, bytes);
    sleep_for_ever();
}
