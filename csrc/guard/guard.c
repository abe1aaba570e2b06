#include "guard/guard.h"

#include <errno.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/wake.h"
#include "guard/state.h"
#include "guard/sys.h"

/* bytes: the exit hook's code runs on it too */
#define STACK (512 * 1024)

#define X(id, word) word,
static const char *const code_names[] = {RO_GUARD_CODES(X)};
#undef X

const char *
ro_guard_code_name(ro_guard_code code)
{
    return code_names[code];
}

static bool
copy_envelopes(ro_guard *guard, const ro_guard_options *options)
{
    guard->timeout = ro_memdup(options->timeout.ptr, options->timeout.len);
    guard->timeout_len = options->timeout.len;
    guard->interrupted
        = ro_memdup(options->interrupted.ptr, options->interrupted.len);
    guard->interrupted_len = options->interrupted.len;
    guard->failed = ro_memdup(options->failed.ptr, options->failed.len);
    guard->failed_len = options->failed.len;
    return guard->timeout != NULL && guard->interrupted != NULL
           && guard->failed != NULL;
}

static bool
open_events(ro_guard *guard)
{
    int *fds[] = {&guard->signal_fd, &guard->cancel_fd, &guard->stop_fd,
                  &guard->wake_fd};
    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
        *fds[i] = RO_SYS(EVENTFD, ro_wake_new(), -1);
        if (*fds[i] < 0) {
            return false;
        }
    }
    return true;
}

static void
start_clock(ro_guard *guard, const ro_guard_options *options)
{
    int first
        = options->deadline_ms > 0 ? options->deadline_ms : RO_DEADLINE_MS;
    int grace
        = options->grace_ms > 0 ? options->grace_ms : RO_DEADLINE_GRACE_MS;
    int64_t age = ro_clock_age();
    int64_t now = ro_monotonic_ms(); /* after the age: late, never early */
    if (age < 0) {
        guard->degraded |= RO_GUARD_NO_AGE;
    }
    ro_deadlines_init(&guard->deadlines,
                      ro_clock_start(now, age, RO_DEADLINE_MS), first, grace);
}

static void
adopt_orphans(ro_guard *guard)
{
    if (guard->pid != 1
        && RO_SYS(PRCTL, prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), -1) != 0) {
        guard->degraded |= RO_GUARD_NO_REAPER;
    }
}

/* The finisher first: undo can end it by the semaphore, whereas a watcher
 * that runs may claim the end. So the watcher is the last that can fail. */
static bool
start_threads(ro_guard *guard)
{
    guard->finisher_runs = RO_SYS(PTHREAD_CREATE,
                                  ro_thread_start(&guard->finisher, STACK,
                                                  ro_guard_finisher, guard),
                                  errno)
                           == 0;
    return guard->finisher_runs
           && RO_SYS(PTHREAD_CREATE,
                     ro_thread_start(&guard->watcher, STACK, ro_guard_watcher,
                                     guard),
                     errno)
                  == 0;
}

static ro_guard_code
start(ro_guard *guard, const ro_guard_options *options)
{
    if (!copy_envelopes(guard, options)) {
        return RO_GUARD_NO_MEMORY;
    }
    if (!ro_output_take(&guard->output) || !open_events(guard)) {
        return RO_GUARD_NO_DESCRIPTOR;
    }
    start_clock(guard, options);
    if (!ro_ending_init(&guard->ending, &guard->degraded)) {
        return RO_GUARD_NO_MEMORY;
    }
    adopt_orphans(guard);
    if (!ro_privacy_close(&guard->privacy)) {
        guard->degraded |= RO_GUARD_NOT_PRIVATE;
    }
    ro_signals_set_guard(guard);
    if (!ro_signals_install(&guard->signals, guard->signal_fd)
        || !ro_crash_install(&guard->crash)) {
        return RO_GUARD_NO_SIGNAL;
    }
    if (!start_threads(guard)) {
        return RO_GUARD_NO_THREAD;
    }
    ro_output_keep(&guard->output);
    return RO_GUARD_OK;
}

/* The opposite order of start: no handler may run once what it uses is gone,
 * and standard output is given back last. */
static void
undo(ro_guard *guard)
{
    ro_crash_restore(&guard->crash);
    ro_signals_restore(&guard->signals);
    ro_privacy_open(&guard->privacy);
    atomic_store(&guard->undo, true);
    if (guard->finisher_runs) {
        (void)sem_post(&guard->claimed);
        (void)pthread_join(guard->finisher, NULL);
    }
    ro_ending_free(&guard->ending);
    int fds[]
        = {guard->signal_fd, guard->cancel_fd, guard->stop_fd, guard->wake_fd};
    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
        if (fds[i] >= 0) {
            (void)close(fds[i]);
        }
    }
    ro_output_undo(&guard->output);
    (void)sem_destroy(&guard->claimed);
    (void)pthread_mutex_destroy(&guard->lock);
    ro_free(guard->timeout);
    ro_free(guard->interrupted);
    ro_free(guard->failed);
    ro_free(guard);
}

static ro_guard *
make(void)
{
    ro_guard *guard = ro_calloc(1, sizeof(*guard));
    if (guard == NULL) {
        return NULL;
    }
    guard->pid = getpid();
    guard->signal_fd = guard->cancel_fd = -1;
    guard->stop_fd = guard->wake_fd = -1;
    guard->output.fd = guard->output.error_fd = guard->output.null_fd = -1;
    guard->ending.proc_fd = -1;
    if (sem_init(&guard->claimed, 0, 0) != 0
        || pthread_mutex_init(&guard->lock, NULL) != 0) {
        ro_free(guard); /* neither can fail on Linux */
        return NULL;
    }
    return guard;
}

ro_guard *
ro_guard_start(const ro_guard_options *options, ro_guard_code *why)
{
    ro_guard_code ignored;
    ro_guard *guard = NULL;
    why = why != NULL ? why : &ignored;
    if (options->deadline_ms < 0 || options->grace_ms < 0
        || options->timeout.len == 0 || options->interrupted.len == 0
        || options->failed.len == 0) {
        *why = RO_GUARD_BAD_OPTION;
        return NULL;
    }
    if (!ro_signals_claim()) {
        *why = RO_GUARD_TWICE;
        return NULL;
    }
    guard = make();
    *why = guard == NULL ? RO_GUARD_NO_MEMORY : start(guard, options);
    if (*why != RO_GUARD_OK) {
        if (guard != NULL) {
            undo(guard);
        }
        ro_signals_release();
        return NULL;
    }
    return guard;
}

bool
ro_guard_core_limit(const ro_guard *guard, rlim_t *out)
{
    *out = guard->privacy.core_before;
    return guard->privacy.limited;
}

unsigned
ro_guard_degraded(const ro_guard *guard)
{
    return guard->degraded;
}

int
ro_guard_parse_deadline(const char *text)
{
    int ms = 0;
    if (text[0] == '0') {
        return -1;
    }
    for (const char *at = text; *at != '\0'; at++) {
        /* The bound is looked at before the next digit, so ms cannot
         * overflow, however long the text is. */
        if (*at < '0' || *at > '9' || ms > RO_DEADLINE_MS) {
            return -1;
        }
        ms = ms * 10 + (*at - '0');
    }
    return ms < RO_DEADLINE_MIN_MS || ms > RO_DEADLINE_MS ? -1 : ms;
}

bool
ro_guard_set_deadline(ro_guard *guard, int ms)
{
    pthread_mutex_lock(&guard->lock);
    bool lowered
        = ro_deadlines_lower(&guard->deadlines, ro_monotonic_ms(), ms);
    pthread_mutex_unlock(&guard->lock);
    if (lowered) {
        ro_guard_raise(guard->wake_fd);
    }
    return lowered;
}

int
ro_guard_cancel_fd(const ro_guard *guard)
{
    return guard->cancel_fd;
}

int
ro_guard_ms_left(ro_guard *guard)
{
    pthread_mutex_lock(&guard->lock);
    int left = ro_deadlines_left(&guard->deadlines, ro_monotonic_ms());
    pthread_mutex_unlock(&guard->lock);
    return left;
}

bool
ro_guard_stopping(const ro_guard *guard)
{
    return atomic_load(&guard->claim) != RO_CLAIM_NONE;
}

void
ro_guard_set_exit_hook(ro_guard *guard, void (*hook)(void *, int), void *ctx)
{
    pthread_mutex_lock(&guard->lock);
    guard->hook = (ro_guard_exit_hook){hook, ctx};
    pthread_mutex_unlock(&guard->lock);
}
