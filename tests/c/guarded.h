/* Runs a guarded process and says what became of it.
 *
 * The test is a sub-reaper: what a guard leaves behind, zombies included,
 * becomes the test's child, where `left` counts (and ends) it.
 */
#ifndef RO_TEST_GUARDED_H
#define RO_TEST_GUARDED_H

#include "guard/clock.h"
#include "guard/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_THREAD__)
/* Ends as fast as it does without. */
const char *__tsan_default_options(void);

__attribute__((visibility("default"))) const char *
__tsan_default_options(void)
{
    return "atexit_sleep_ms=0";
}
#endif

#define TIMEOUT_ENVELOPE "{\"code\":\"timeout\"}\n"
#define INTERRUPTED_ENVELOPE "{\"code\":\"interrupted\"}\n"
#define FAILED_ENVELOPE "{\"code\":\"runtime_failure\"}\n"
/* Milliseconds: only a machine that is busy takes longer than the schedule
 * says, which test_guard_deadline.c proves on a clock of its own. */
#define GUARDED_LATE_MS 10000
#define GUARDED_PATIENCE_MS 60000 /* what takes longer hangs */
#define GUARDED_READY 20          /* descriptor: the body says how far it is */

typedef struct guarded {
    int exit_code; /* -1: killed by a signal, or had to be */
    int signal;    /* that signal, or 0 */
    char out[300000];
    size_t len;
    int64_t ms; /* from fork to the end */
    int left;   /* processes that were left behind */
} guarded;

typedef struct guarded_setup {
    void (*body)(void);
    void (*meanwhile)(pid_t pid, int ready); /* in the test; may be NULL */
    bool deaf; /* standard output is not read before the process ends */
} guarded_setup;

static inline ro_guard_options
guarded_options(int deadline_ms, int grace_ms)
{
    ro_guard_options options
        = {deadline_ms, grace_ms, ro_slice_str(TIMEOUT_ENVELOPE),
           ro_slice_str(INTERRUPTED_ENVELOPE), ro_slice_str(FAILED_ENVELOPE)};
    return options;
}

static inline ro_guard *
guarded_start(int deadline_ms, int grace_ms)
{
    ro_guard_options options = guarded_options(deadline_ms, grace_ms);
    ro_guard_code why;
    ro_guard *guard = ro_guard_start(&options, &why);
    if (guard == NULL) {
        _exit(100 + (int)why);
    }
    return guard;
}

static inline void
guarded_say(char what)
{
    if (write(GUARDED_READY, &what, 1) != 1) {
        _exit(99);
    }
}

static inline char
guarded_hear(int ready)
{
    char what = 0;
    struct pollfd one = {.fd = ready, .events = POLLIN};
    if (poll(&one, 1, GUARDED_PATIENCE_MS) != 1
        || read(ready, &what, 1) != 1) {
        return 0;
    }
    return what;
}

/* The output of the process under test, while it runs. */
static int guarded_output;

/* Whether the process writes until its pipe is full; waits for that. */
static inline bool
guarded_fills(void)
{
    int filled = 0;
    int size = fcntl(guarded_output, F_GETPIPE_SZ);
    for (int waits = 0; filled < size && waits < GUARDED_PATIENCE_MS;
         waits++) {
        if (ioctl(guarded_output, FIONREAD, &filled) != 0) {
            return false;
        }
        ro_clock_sleep(1);
    }
    return filled == size;
}

/* As exec does: what may survive the guard must not hold its output. */
static inline void
guarded_let_go(void)
{
    for (int fd = 0; fd < GUARDED_READY; fd++) {
        (void)close(fd);
    }
}

static inline void
guarded_child(const guarded_setup *setup, const int out[2], const int ready[2])
{
    (void)dup2(out[1], 1);
    (void)dup2(ready[1], GUARDED_READY);
    (void)fcntl(GUARDED_READY, F_SETFD, FD_CLOEXEC);
    int fds[] = {out[0], out[1], ready[0], ready[1]};
    for (int i = 0; i < 4; i++) {
        (void)close(fds[i]);
    }
    setup->body();
    _exit(98);
}

static inline void
guarded_drain(guarded *result, int fd)
{
    ssize_t n;
    struct pollfd one = {.fd = fd, .events = POLLIN};
    while (poll(&one, 1, GUARDED_PATIENCE_MS) == 1
           && (n = read(fd, result->out + result->len,
                        sizeof(result->out) - result->len))
                  > 0) {
        result->len += (size_t)n;
    }
}

static inline int
guarded_count_left(void)
{
    int left = 0;
    for (;;) {
        siginfo_t info = {0};
        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0) {
            return left;
        }
        if (info.si_pid == 0) { /* alive: whose pid is of no interest */
            char path[64];
            long pid = 0;
            (void)snprintf(path, sizeof(path), "/proc/self/task/%ld/children",
                           (long)getpid());
            FILE *file = fopen(path, "r");
            if (file == NULL || fscanf(file, "%ld", &pid) != 1 || pid <= 1) {
                abort();
            }
            (void)fclose(file);
            (void)kill((pid_t)pid, SIGKILL);
            (void)waitpid((pid_t)pid, NULL, 0);
        }
        else {
            (void)waitpid(info.si_pid, NULL, 0);
        }
        left++;
    }
}

static inline void
guarded_run(const guarded_setup *setup, guarded *result)
{
    int out[2];
    int ready[2];
    int status;
    *result = (guarded){.exit_code = -1};
    if (pipe(out) < 0 || pipe(ready) < 0
        || prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0) {
        abort();
    }
    (void)fflush(NULL);
    int64_t start = ro_monotonic_ms();
    pid_t pid = fork();
    if (pid == 0) {
        guarded_child(setup, out, ready);
    }
    (void)close(out[1]);
    (void)close(ready[1]);
    guarded_output = out[0];
    if (setup->meanwhile != NULL) {
        setup->meanwhile(pid, ready[0]);
    }
    if (!setup->deaf) {
        guarded_drain(result, out[0]);
    }
    for (int waits = 0; waitpid(pid, &status, WNOHANG) == 0; waits++) {
        if (waits == GUARDED_PATIENCE_MS / 5) {
            (void)kill(pid, SIGKILL);
        }
        ro_clock_sleep(5);
    }
    result->ms = ro_monotonic_ms() - start;
    result->exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    result->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    if (setup->deaf) {
        guarded_drain(result, out[0]);
    }
    (void)close(out[0]);
    (void)close(ready[0]);
    result->left = guarded_count_left();
}

static inline bool
guarded_wrote(const guarded *result, const char *text)
{
    return result->len == strlen(text)
           && memcmp(result->out, text, result->len) == 0;
}

#endif
