/* The last resort: the process ends when whoever ends it hangs. And a crash
 * that is a child's between fork and exec. */
#include "refusing.h"

#include "check.h"
#include "guarded.h"

#include "core/wake.h"
#include "guard/state.h"
#include "guard/sys.h"

#define ANSWER "{\"ok\":true}\n"

REFUSABLE(int, sem_wait, (sem_t * semaphore), -1, semaphore)

static guarded result;

_Noreturn static void
hang(void)
{
    for (;;) {
        (void)pause();
    }
}

/* ---- the finisher hangs ---- */

/* Reading /proc never comes to an end, as it does not where the kernel hangs;
 * there is a child, so that it is read. */
static void
begin_to_hang(ro_guard **guard)
{
    *guard = guarded_start(300, 100);
    if (fork() == 0) {
        guarded_let_go();
        hang();
    }
    ro_fault_set(RO_SYS_GETDENTS64, 1, EINTR, true);
}

static void
body_finish(void)
{
    ro_guard *guard;
    begin_to_hang(&guard);
    ro_guard_finish(guard, 7, ro_slice_str(ANSWER));
}

static void
body_timeout(void)
{
    ro_guard *guard;
    begin_to_hang(&guard);
    hang();
}

/* The output was closed before: nothing came out whole. */
static void
body_unwritten(void)
{
    (void)close(1);
    body_finish();
}

/* The watcher, which leaves the end to the finisher once that is at it, takes
 * the process down. What was said stays said. */
static void
test_the_finisher_hangs(void)
{
    static const struct {
        void (*body)(void);
        int exit_code;
        const char *said;
    } cases[] = {
        {body_finish, 7, ANSWER},
        {body_timeout, 1, TIMEOUT_ENVELOPE},
        {body_unwritten, 1, ""},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        guarded_setup setup = {.body = cases[i].body};
        guarded_run(&setup, &result);
        CHECK(result.exit_code == cases[i].exit_code && result.signal == 0);
        CHECK(guarded_wrote(&result, cases[i].said));
        CHECK(result.left == 1); /* nobody came to it */
        CHECK(result.ms >= 400 + RO_GUARD_END_MS - 10);
        CHECK(result.ms < GUARDED_LATE_MS);
    }
}

/* A signal that meets the finisher as it waits is no reason to finish. */
static void
body_interrupted_wait(void)
{
    refuse(&refuse_sem_wait, 1, EINTR);
    ro_guard *guard = guarded_start(0, 0);
    while (atomic_load(&refuse_sem_wait.calls) < 2) {
        ro_clock_sleep(1);
    }
    bool goes_on = !ro_guard_stopping(guard);
    ro_guard_finish(guard, goes_on ? 7 : 9, ro_slice_str(ANSWER));
}

static void
test_an_interrupted_wait(void)
{
    guarded_setup setup = {.body = body_interrupted_wait};
    guarded_run(&setup, &result);
    CHECK(result.exit_code == 7 && guarded_wrote(&result, ANSWER));
}

/* ---- a child before exec ---- */

static int raised;

/* Its parent's handlers of a crash are still in it, and are not for it: it
 * dies as if they were not there, and the parent goes on. */
static void
body_child(void)
{
    ro_guard *guard = guarded_start(0, 0);
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        (void)raise(raised);
        _exit(0);
    }
    bool died = waitpid(pid, &status, 0) == pid && WIFSIGNALED(status)
                && WTERMSIG(status) == raised;
    bool goes_on = !ro_guard_stopping(guard);
    ro_guard_finish(guard, died && goes_on ? 0 : 9, ro_slice_str(ANSWER));
}

static void
test_a_child_before_exec(void)
{
#ifdef __SANITIZE_ADDRESS__
    return; /* in the handler it takes the heap's lock, which another thread
               may have held when the child was made */
#endif
    static const int numbers[] = {SIGSEGV, SIGABRT, SIGTRAP};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        guarded_setup setup = {.body = body_child};
        raised = numbers[i];
        guarded_run(&setup, &result);
        CHECK(result.exit_code == 0 && guarded_wrote(&result, ANSWER));
        CHECK(result.left == 0);
    }
}

/* ---- events ---- */

/* A write that fails for a passing reason is tried again; one that is not to
 * be, no longer than a moment. */
static void
test_raising_an_event(void)
{
    static const struct {
        int error;
        bool sticky;
        size_t writes;
        bool readable;
    } cases[] = {
        {0, false, 1, true},     {EINTR, false, 2, true},
        {EIO, false, 2, true},   {EAGAIN, false, 1, false},
        {EIO, true, 100, false}, {EINTR, true, 100, false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int fd = ro_wake_new();
        struct pollfd state = {.fd = fd, .events = POLLIN};
        ro_fault_set(RO_SYS_WRITE, cases[i].error == 0 ? 0 : 1, cases[i].error,
                     cases[i].sticky);
        ro_guard_raise(fd);
        CHECK(ro_fault_count(RO_SYS_WRITE) == cases[i].writes);
        ro_fault_set(RO_SYS_COUNT, 0, 0, false);
        CHECK((poll(&state, 1, 0) == 1) == cases[i].readable);
        (void)close(fd);
    }
}

/* ---- input ---- */

/* Whoever reads it has less room than the bound. */
static void
body_small_room(void)
{
    int fds[2];
    ro_buf input;
    ro_guard *guard = guarded_start(0, 0);
    if (pipe(fds) < 0 || write(fds[1], "0123456789", 10) != 10
        || dup2(fds[0], 0) != 0 || close(fds[1]) < 0) {
        _exit(97);
    }
    ro_buf_init(&input, raised == 0 ? 9 : 10);
    ro_guard_input code = ro_guard_read_stdin(guard, 100, &input);
    bool good = raised == 0 ? code == RO_INPUT_TOO_LARGE && input.len == 0
                            : code == RO_INPUT_OK && input.len == 10;
    ro_guard_finish(guard, good ? 0 : 9, ro_slice_str(ANSWER));
}

static void
test_input_for_a_small_room(void)
{
    for (raised = 0; raised < 2; raised++) {
        guarded_setup setup = {.body = body_small_room};
        guarded_run(&setup, &result);
        CHECK(result.exit_code == 0 && guarded_wrote(&result, ANSWER));
    }
}

int
main(void)
{
    test_the_finisher_hangs();
    test_an_interrupted_wait();
    test_a_child_before_exec();
    test_raising_an_event();
    test_input_for_a_small_room();
    return check_end();
}
