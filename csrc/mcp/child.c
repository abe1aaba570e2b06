#include "mcp/child.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/alloc.h"

static void
close_fd(int *fd)
{
    if (*fd >= 0) {
        (void)close(*fd);
        *fd = -1;
    }
}

void
ro_child_close(ro_child *child)
{
    close_fd(&child->in_fd);
    close_fd(&child->out_fd);
    close_fd(&child->pidfd);
}

/* What the child needs between vfork and exec. It runs in this process's
 * memory while the thread that made it stands still, and other threads may
 * hold any lock. So all of this is made before, and the child makes system
 * calls alone.
 */
typedef struct plan {
    char *const *argv;
    char *const *envp;
    const rlim_t *core_limit;
    pid_t parent;
    int in;
    int out;
    int failed; /* written to when exec fails; closed by one that does not */
    int *inherited;
    size_t n_inherited;
} plan;

/* Descriptors without close-on-exec, which the program would inherit. They are
 * listed here and closed by the child: this process's own must stay open. */
static bool
list_inherited(plan *how)
{
    DIR *dir = opendir("/proc/self/fd");
    const struct dirent *entry;
    bool listed = dir != NULL;
    while (listed && (entry = readdir(dir)) != NULL) {
        char *end;
        long fd = strtol(entry->d_name, &end, 10);
        if (*end != '\0' || end == entry->d_name || fd <= STDERR_FILENO) {
            continue;
        }
        int flags = fcntl((int)fd, F_GETFD);
        if (flags < 0 || (flags & FD_CLOEXEC) != 0) {
            continue;
        }
        int *more = ro_realloc(how->inherited,
                               (how->n_inherited + 1) * sizeof(*more));
        listed = more != NULL;
        if (listed) {
            how->inherited = more;
            how->inherited[how->n_inherited++] = (int)fd;
        }
    }
    int keep = listed ? 0 : (dir == NULL ? errno : ENOMEM);
    if (dir != NULL) {
        (void)closedir(dir);
    }
    errno = keep;
    return listed;
}

static bool
put_at(int fd, int place)
{
    if (fd == place) {
        return fcntl(fd, F_SETFD, 0) == 0;
    }
    return dup2(fd, place) == place;
}

/* Ends with the command: the kernel sends SIGKILL when the thread that made it
 * is gone, and what went before this call shows in its parent. */
static bool
tie_to_parent(const plan *how)
{
    return prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == 0
           && getppid() == how->parent;
}

static void
restore_core_limit(const rlim_t *soft)
{
    struct rlimit limit;
    if (soft != NULL && getrlimit(RLIMIT_CORE, &limit) == 0) {
        limit.rlim_cur = *soft;
        (void)setrlimit(RLIMIT_CORE, &limit);
    }
}

/* exec resets handlers, but a signal before it would run one of this process
 * in the child. So every signal is blocked until the handlers are gone. A
 * signal that was ignored at start stays ignored, as for any child, but for
 * the two that Python ignores on its own. */
static void
settle_signals(void)
{
    static const int ignored_here[] = {SIGPIPE, SIGXFSZ}; /* by Python */
    struct sigaction action = {.sa_handler = SIG_DFL};
    struct sigaction set;
    sigset_t none;
    for (int number = 1; number < NSIG; number++) {
        if (sigaction(number, NULL, &set) == 0 && set.sa_handler != SIG_IGN
            && set.sa_handler != SIG_DFL) {
            (void)sigaction(number, &action, NULL);
        }
    }
    for (size_t i = 0; i < 2; i++) {
        (void)sigaction(ignored_here[i], &action, NULL);
    }
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

/* The child's side: system calls alone. */
_Noreturn static void
become(const plan *how)
{
    int null = -1;
    if (setsid() >= 0 && tie_to_parent(how) && put_at(how->in, STDIN_FILENO)
        && put_at(how->out, STDOUT_FILENO)) {
        null = open("/dev/null", O_WRONLY);
    }
    if (null >= 0 && put_at(null, STDERR_FILENO)) {
        if (null != STDERR_FILENO) {
            (void)close(null);
        }
        for (size_t i = 0; i < how->n_inherited; i++) {
            (void)close(how->inherited[i]);
        }
        restore_core_limit(how->core_limit);
        settle_signals();
        (void)execve(how->argv[0], how->argv, how->envp);
    }
    int failed = errno;
    (void)!write(how->failed, &failed, sizeof(failed));
    _exit(127);
}

/* Not inlined: the child uses the stack of the caller, and must not overwrite
 * what the caller keeps in the same frame. posix_spawn cannot tie the child to
 * this thread (PR_SET_PDEATHSIG) or give its core limit back; fork copies the
 * tables of a large process. `become` makes system calls alone. */
static __attribute__((noinline)) pid_t
start_one(const plan *how)
{
    /* NOLINTNEXTLINE(*-unsafe-functions,cert-msc*,*insecureAPI.vfork) */
    pid_t pid = vfork();
    if (pid == 0) {
        become(how); /* NOLINT(*unix.Vfork): as said above */
    }
    return pid;
}

/* 0, or why it did not become the program; it is reaped then. */
static int
outcome(pid_t pid, int fd)
{
    int failed = 0;
    ssize_t got;
    do {
        got = read(fd, &failed, sizeof(failed));
    } while (got < 0 && errno == EINTR);
    if (got == 0) {
        return 0;
    }
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
    }
    return got == (ssize_t)sizeof(failed) && failed != 0 ? failed : EAGAIN;
}

static int
spawn(ro_child *child, plan *how)
{
    int told[2];
    sigset_t all;
    sigset_t before;
    if (!list_inherited(how) || pipe2(told, O_CLOEXEC) != 0) {
        return errno;
    }
    how->parent = getpid();
    how->failed = told[1];
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    child->pid = start_one(how);
    int failed = child->pid < 0 ? errno : 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)close(told[1]);
    if (failed == 0) {
        failed = outcome(child->pid, told[0]);
    }
    (void)close(told[0]);
    if (failed != 0) {
        child->pid = -1;
    }
    return failed;
}

static bool
set_nonblocking(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0;
}

bool
ro_child_spawn(ro_child *child, char *const argv[], char *const envp[],
               const rlim_t *core_limit)
{
    int in[2] = {-1, -1};
    int out[2] = {-1, -1};
    int failed = 0;
    *child = (ro_child){.pid = -1, .pidfd = -1, .in_fd = -1, .out_fd = -1};
    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0
        || !set_nonblocking(in[1]) || !set_nonblocking(out[0])) {
        failed = errno;
    }
    else {
        plan how = {.argv = argv,
                    .envp = envp,
                    .core_limit = core_limit,
                    .in = in[0],
                    .out = out[1]};
        failed = spawn(child, &how);
        ro_free(how.inherited);
    }
    close_fd(&in[0]);
    close_fd(&out[1]);
    if (failed != 0) {
        close_fd(&in[1]);
        close_fd(&out[0]);
        errno = failed;
        return false;
    }
    child->in_fd = in[1];
    child->out_fd = out[0];
#ifdef SYS_pidfd_open
    child->pidfd = (int)syscall(SYS_pidfd_open, child->pid, 0);
    if (child->pidfd >= 0) {
        (void)fcntl(child->pidfd, F_SETFD, FD_CLOEXEC);
    }
#endif
    return true;
}

void
ro_child_signal(const ro_child *child, int signal)
{
    if (child->pid > 0) {
        (void)kill(-child->pid, signal); /* its group: setsid made it one */
    }
}

bool
ro_child_reap(ro_child *child)
{
    pid_t got;
    if (child->pid <= 0) {
        return true;
    }
    do {
        got = waitpid(child->pid, NULL, WNOHANG);
    } while (got < 0 && errno == EINTR);
    if (got == 0) {
        return false;
    }
    child->pid = -1; /* reaped, or somebody else did */
    return true;
}
