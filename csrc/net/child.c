#include "net/child.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

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

/* Descriptors that a program would inherit: what is not close-on-exec. */
static int
close_inherited(posix_spawn_file_actions_t *actions)
{
    int failed = 0;
    DIR *dir = opendir("/proc/self/fd");
    if (dir == NULL) {
        return errno;
    }
    const struct dirent *entry;
    while (failed == 0 && (entry = readdir(dir)) != NULL) {
        char *end;
        long fd = strtol(entry->d_name, &end, 10);
        if (*end != '\0' || end == entry->d_name || fd <= STDERR_FILENO
            || fd == dirfd(dir)) {
            continue;
        }
        int flags = fcntl((int)fd, F_GETFD);
        if (flags >= 0 && (flags & FD_CLOEXEC) == 0) {
            failed = posix_spawn_file_actions_addclose(actions, (int)fd);
        }
    }
    (void)closedir(dir);
    return failed;
}

static int
fill_actions(posix_spawn_file_actions_t *actions, int in, int out)
{
    int failed = posix_spawn_file_actions_adddup2(actions, in, STDIN_FILENO);
    if (failed == 0) {
        failed = posix_spawn_file_actions_adddup2(actions, out, STDOUT_FILENO);
    }
    if (failed == 0) {
        failed = posix_spawn_file_actions_addopen(actions, STDERR_FILENO,
                                                  "/dev/null", O_WRONLY, 0);
    }
    return failed == 0 ? close_inherited(actions) : failed;
}

static int
fill_attributes(posix_spawnattr_t *attributes)
{
    sigset_t none;
    sigset_t defaults;
    (void)sigemptyset(&none);
    (void)sigemptyset(&defaults);
    (void)sigaddset(&defaults, SIGPIPE);
    (void)sigaddset(&defaults, SIGXFSZ);
    int failed = posix_spawnattr_setsigmask(attributes, &none);
    if (failed == 0) {
        failed = posix_spawnattr_setsigdefault(attributes, &defaults);
    }
    if (failed == 0) {
        failed = posix_spawnattr_setflags(
            attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK
                            | POSIX_SPAWN_SETSIGDEF);
    }
    return failed;
}

static int
spawn(ro_child *child, char *const argv[], char *const envp[], int in, int out)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int failed = posix_spawn_file_actions_init(&actions);
    if (failed != 0) {
        return failed;
    }
    failed = posix_spawnattr_init(&attributes);
    if (failed == 0) {
        failed = fill_actions(&actions, in, out);
        if (failed == 0) {
            failed = fill_attributes(&attributes);
        }
        if (failed == 0) {
            failed = posix_spawn(&child->pid, argv[0], &actions, &attributes,
                                 argv, envp);
        }
        (void)posix_spawnattr_destroy(&attributes);
    }
    (void)posix_spawn_file_actions_destroy(&actions);
    return failed;
}

static bool
set_nonblocking(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0;
}

bool
ro_child_spawn(ro_child *child, char *const argv[], char *const envp[])
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
        failed = spawn(child, argv, envp, in[0], out[1]);
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
        (void)kill(-child->pid, signal);
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
