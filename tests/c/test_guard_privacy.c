/* What others of the same user see of a guarded process, and what it sees of
 * itself: as whoever runs the test, as root without capabilities, and as an
 * unprivileged user. */
#include "check.h"
#include "guarded.h"

#include <dirent.h>
#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#define ANSWER "{\"ok\":true}\n"
#define NOBODY 65534

static guarded result;
static bool unprivileged; /* else this user without capabilities */

/* What a change of user makes undumpable is made dumpable again, as exec does.
 */
static bool
give_up_privileges(void)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct none[2] = {{0}};
    if (unprivileged && setresuid(NOBODY, NOBODY, NOBODY) != 0) {
        return false;
    }
    return syscall(SYS_capset, &header, none) == 0
           && prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0;
}

static bool
opens(const char *name, pid_t pid, int flags)
{
    char path[64];
    (void)snprintf(path, sizeof(path), name, (long)pid);
    int fd = open(path, flags | O_CLOEXEC);
    if (fd >= 0) {
        (void)close(fd);
    }
    return fd >= 0;
}

static bool
lists(const char *name, pid_t pid)
{
    char path[64];
    (void)snprintf(path, sizeof(path), name, (long)pid);
    DIR *dir = opendir(path);
    if (dir != NULL) {
        (void)closedir(dir);
    }
    return dir != NULL;
}

/* How many of its parent's secrets a child of the same user gets at. */
static int
spy(pid_t parent, int fd)
{
    char name[32];
    int got = 0;
    int status = 0;
    (void)snprintf(name, sizeof(name), "/proc/%%ld/fd/%d", fd);
    pid_t pid = fork();
    if (pid == 0) {
        got += opens(name, parent, O_RDWR);
        got += opens("/proc/%ld/environ", parent, O_RDONLY);
        got += opens("/proc/%ld/mem", parent, O_RDWR);
        _exit(got);
    }
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status)
               ? WEXITSTATUS(status)
               : -1;
}

static void
body(void)
{
    struct rlimit core = {4096, 8192};
    rlim_t before = 0;
    if (setrlimit(RLIMIT_CORE, &core) != 0 || !give_up_privileges()) {
        _exit(97);
    }
    int file = (int)syscall(SYS_memfd_create, "mcp", 1u /* close-on-exec */);
    if (spy(getpid(), file) != 3) {
        _exit(96); /* the test sees nothing */
    }
    ro_guard *guard = guarded_start(0, 0);
    char own[32];
    (void)snprintf(own, sizeof(own), "/proc/self/fd/%d", file);
    /* what the command and DCode read of themselves */
    bool reads = opens(own, 0, O_RDONLY) && opens(own, 0, O_RDWR)
                 && lists("/proc/self/fd", 0)
                 && opens("/proc/self/stat", 0, O_RDONLY)
                 && opens("/proc/self/status", 0, O_RDONLY)
                 && opens("/proc/self/maps", 0, O_RDONLY);
    bool limited = ro_guard_core_limit(guard, &before) && before == 4096
                   && getrlimit(RLIMIT_CORE, &core) == 0 && core.rlim_cur == 0
                   && core.rlim_max == 8192;
    int code = ro_guard_degraded(guard) != 0 ? 1
               : spy(getpid(), file) != 0    ? 2
               : !reads                      ? 3
               : !limited                    ? 4
                                             : 0;
    ro_guard_finish(guard, code, ro_slice_str(ANSWER));
}

static void
run(void)
{
    guarded_setup setup = {.body = body};
    guarded_run(&setup, &result);
    if (result.exit_code != 0) {
        fprintf(stderr, "exit %d\n", result.exit_code);
    }
    CHECK(result.exit_code == 0 && guarded_wrote(&result, ANSWER));
}

int
main(void)
{
    run();
    if (getuid() == 0) {
        unprivileged = true;
        run();
    }
    return check_end();
}
