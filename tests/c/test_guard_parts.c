/* The parts of the guard on their own: what each says when the system refuses
 * or shows something odd, and that it leaves nothing behind. */
#undef _FORTIFY_SOURCE /* a checked readlinkat would not be the one below */
#include "refusing.h"
#include "entries.h"

#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "core/alloc.h"
#include "guard/clock.h"
#include "guard/crash.h"
#include "guard/ending.h"
#include "guard/guard.h"
#include "guard/privacy.h"
#include "guard/procs.h"
#include "guard/signals.h"
#include "guard/sys.h"

REFUSABLE(long, sysconf, (int name), -1, name)
REFUSABLE(pid_t, getpid, (void), 1)
REFUSABLE(int, sem_init, (sem_t * semaphore, int shared, unsigned value), -1,
          semaphore, shared, value)
REFUSABLE(int, pthread_mutex_init,
          (pthread_mutex_t * lock, const pthread_mutexattr_t *attributes),
          errno, lock, attributes)
REFUSABLE(int, getrlimit, (__rlimit_resource_t what, struct rlimit *limit), -1,
          what, limit)
REFUSABLE(int, setrlimit,
          (__rlimit_resource_t what, const struct rlimit *limit), -1, what,
          limit)
REFUSABLE(int, getrusage, (__rusage_who_t who, struct rusage *usage), -1, who,
          usage)
REFUSABLE(int, kill, (pid_t pid, int number), -1, pid, number)
REFUSABLE(int, sigaltstack, (const stack_t *stack, stack_t *before), -1, stack,
          before)

/* What /proc/self leads to. */
static const char *other_self;

ssize_t
readlinkat(int dir, const char *path, char *text, size_t size)
{
    if (other_self == NULL) {
        return REAL(readlinkat)(dir, path, text, size);
    }
    size_t len = strlen(other_self);
    memcpy(text, other_self, len);
    return (ssize_t)len;
}

/* What stands in the files of /proc: in all, in each status, or in the
 * stat that is read behind a status, for the last look at a process. */
static const char *other_file;
static const char *other_status;
static const char *other_stat;
static bool read_status;
static unsigned last_looks;

static bool
ends_with(const char *path, const char *end)
{
    size_t len = strlen(path);
    return len >= strlen(end) && strcmp(path + len - strlen(end), end) == 0;
}

int
openat(int dir, const char *path, int flags, ...)
{
    const char *instead = other_file;
    if (other_status != NULL && ends_with(path, "/status")) {
        instead = other_status;
    }
    if (other_stat != NULL && read_status && ends_with(path, "/stat")) {
        instead = other_stat;
        last_looks++;
    }
    read_status = ends_with(path, "/status");
    return REAL(openat)(dir, instead == NULL ? path : instead, flags);
}

/* A file of its own with that text; its path, until the next call. */
static const char *
file_of(const char *text)
{
    static char path[] = "/tmp/ro-proc-XXXXXX";
    memcpy(path + sizeof(path) - 7, "XXXXXX", 6);
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    CHECK(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    (void)close(fd);
    return path;
}

static void
fault(ro_sys call, size_t nth, int error)
{
    ro_fault_set(call, nth, error, false);
}

static void
no_fault(void)
{
    ro_fault_set(RO_SYS_COUNT, 0, 0, false);
}

/* ---- the clock ---- */

static void
test_a_clock_that_is_not_known(void)
{
    CHECK(ro_clock_boot_ticks() > 0);
    refuse(&refuse_sysconf, 1, EINVAL);
    CHECK(ro_clock_boot_ticks() == 0);
    refuse_none(&refuse_sysconf);
    fault(RO_SYS_CLOCK_BOOTTIME, 1, EINVAL);
    CHECK(ro_clock_boot_ticks() == 0);
    no_fault();

    static const char *const files[] = {"/dev/null", "/proc/self/cmdline"};
    for (size_t i = 0; i < 2; i++) {
        other_file = files[i];
        CHECK(ro_clock_age() == -1);
    }
    other_file = NULL;
    refuse(&refuse_sysconf, 1, EINVAL);
    CHECK(ro_clock_age() == -1);
    refuse_none(&refuse_sysconf);
    CHECK(ro_clock_age() >= 0);
    /* ticks that are finer than a clock can count are not trusted */
    CHECK(ro_clock_age_ms(INT64_MAX - 1, UINT64_MAX, INT64_MAX) == -1);
    CHECK(ro_clock_age_ms(100, 2000000000u, 100) >= 0);
}

/* ---- processes ---- */

static void
test_what_proc_shows(void)
{
    static const struct {
        const char *line;
        bool good;
    } lines[] = {
        {"7 (a) S 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1 0 99 0", true},
        {"7 (a) b) S 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1 0 99 0", true},
        {"7 (a) S 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1 0 99", false},
        {"7 (a)", false},
        {"7 (a) ", false},
        {"7 (a) S", false},
        {"7 (a)S  1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1 0 99 0", false},
        {"7 a S 1", false},
        {"x (a) S 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1 0 99 0", false},
        {"", false},
    };
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        ro_proc proc = {0};
        CHECK(ro_proc_parse_stat(ro_slice_str(lines[i].line), &proc)
              == lines[i].good);
        CHECK(!lines[i].good
              || (proc.pid == 7 && proc.ppid == 1 && proc.start == 99
                  && !proc.dead));
    }

    static const struct {
        const char *text;
        bool good;
        unsigned depth;
        pid_t pid;
    } owners[] = {
        {"Name:\tUid:\nUid:\t5\t6\nNSpid:\t70\t8\n", true, 2, 8},
        {"Name:\ta\nUid: 5\nNSpid:\t70\n", true, 1, 70},
        {"Name:\ta\nUid:\t5\n", true, 0, 0},
        {"Name:\ta\nUid:\t5\nNSpid:\t \n", true, 0, 0},
        {"Name:\ta\nUid:\t5", false, 0, 0},
        {"Name:\ta\nUid:\t\t\n", false, 0, 0},
        {"Name:\ta\nUid:\n", false, 0, 0},
        {"", false, 0, 0},
    };
    for (size_t i = 0; i < sizeof(owners) / sizeof(owners[0]); i++) {
        ro_proc_owner owner = {0};
        CHECK(ro_proc_parse_status(ro_slice_str(owners[i].text), &owner)
              == owners[i].good);
        CHECK(!owners[i].good
              || (owner.uid == 5 && owner.depth == owners[i].depth
                  && owner.pid == owners[i].pid));
    }
}

static void
test_reading_proc(void)
{
    int fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    char text[16];
    ro_proc proc;
    ro_proc_owner owner;
    ro_procs procs;
    static const char longest[]
        = "0123456789012345678901234567890123456789012345678901234567890";

    CHECK(fd >= 0);
    CHECK(ro_proc_read(fd, longest, "stat", text, sizeof(text)) == -1);
    CHECK(ro_proc_read(fd, "self", "stat", text, sizeof(text))
          == sizeof(text)); /* as much as there is room for */
    CHECK(ro_proc_look(fd, getpid(), &proc) && proc.pid == getpid());
    CHECK(ro_proc_look_owner(fd, "self", &owner) && owner.uid == getuid());
    other_file = "/dev/null";
    CHECK(!ro_proc_look(fd, getpid(), &proc));
    CHECK(!ro_proc_look_owner(fd, "self", &owner));
    /* what cannot be read is missing, and that is known */
    CHECK(ro_procs_init(&procs, 4));
    CHECK(ro_procs_read(&procs, fd) && procs.cut && procs.len == 0);
    other_file = NULL;
    CHECK(ro_procs_read(&procs, fd) && !procs.cut && procs.len > 0);
    CHECK(ro_procs_find(&procs, getpid()) != NULL);
    fault(RO_SYS_LSEEK, 1, EIO);
    CHECK(!ro_procs_read(&procs, fd) && procs.len == 0);
    no_fault();
    (void)close(fd);

    static const pid_t pids[] = {5, 3, 9, 1};
    procs.len = 0;
    for (size_t i = 0; i < 4; i++) {
        proc = (ro_proc){.pid = pids[i], .start = (uint64_t)pids[i]};
        CHECK(ro_procs_add(&procs, &proc));
    }
    ro_procs_sort(&procs);
    for (size_t i = 0; i < 4; i++) {
        ro_proc *found = ro_procs_find(&procs, pids[i]);
        CHECK(found != NULL && found->start == (uint64_t)pids[i]);
    }
    CHECK(procs.list[0].pid == 1 && procs.list[3].pid == 9);
    CHECK(ro_procs_find(&procs, 4) == NULL);
    ro_procs_free(&procs);
}

/* ---- what is spared, and whom /proc shows ---- */

static unsigned
begin(ro_ending *ending)
{
    unsigned degraded = 0;
    CHECK(ro_ending_init(ending, &degraded));
    return degraded;
}

/* A /proc that does not show this process is none: its numbers are those of
 * others. */
static void
test_a_proc_of_others(void)
{
    static const char *const selves[] = {"", "0", "-7", "7x", "x", "1"};
    ro_ending ending;
    size_t before = open_descriptors();

    CHECK(begin(&ending) == 0);
    CHECK(ending.proc_fd >= 0 && ending.lineage.self == getpid());
    ro_ending_free(&ending);
    for (size_t i = 0; i < sizeof(selves) / sizeof(selves[0]); i++) {
        other_self = selves[i];
        bool ours = i == 5; /* the number alone is the lineage's */
        CHECK(begin(&ending) == (ours ? 0 : RO_GUARD_NO_PROC));
        CHECK((ending.proc_fd >= 0) == ours);
        ro_ending_free(&ending);
    }
    other_self = NULL;
    refuse_all(&refuse_getpid, 0);
    CHECK(begin(&ending) == RO_GUARD_NO_PROC);
    refuse_none(&refuse_getpid);
    ro_ending_free(&ending);
    other_file = "/dev/null";
    CHECK(begin(&ending) == RO_GUARD_NO_PROC);
    other_file = NULL;
    ro_ending_free(&ending);
    CHECK(open_descriptors() == before);
}

static pid_t
start_child(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        for (;;) {
            (void)pause();
        }
    }
    return pid;
}

static void
end_child(pid_t pid)
{
    (void)kill(pid, SIGKILL);
    CHECK(waitpid(pid, NULL, 0) == pid);
}

/* What was there before is spared by name, or else by its age; where not even
 * that is known, all is. */
static void
test_what_was_there_before(void)
{
    static const struct {
        ro_sys call;
        size_t nth;
        bool sticky;
    } cases[] = {
        {RO_SYS_LSEEK, 1, false},
        {RO_SYS_GETDENTS64, 1, false},
        {RO_SYS_GETDENTS64, 2, false}, /* read in part */
    };
    pid_t child = start_child();
    ro_ending ending;

    CHECK(begin(&ending) == 0);
    CHECK(ending.lineage.spare_before == 0);
    CHECK(ending.spared.len == 1 && ending.spared.list[0].pid == child);
    ro_ending_free(&ending);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        fault(cases[i].call, cases[i].nth, EIO);
        CHECK(begin(&ending) == RO_GUARD_NO_STARTERS);
        no_fault();
        CHECK(ending.lineage.spare_before > 0
              && ending.lineage.spare_before != UINT64_MAX);
        ro_ending_free(&ending);
    }
    /* two lists of room, then what is spared */
    ro_alloc_fail_at(3, 0);
    CHECK(begin(&ending) == RO_GUARD_NO_STARTERS);
    ro_alloc_fail_at(0, 0);
    ro_ending_free(&ending);
    refuse(&refuse_sysconf, 1, EINVAL);
    fault(RO_SYS_LSEEK, 1, EIO);
    CHECK(begin(&ending) == RO_GUARD_NO_STARTERS);
    CHECK(ending.lineage.spare_before == UINT64_MAX);
    no_fault();
    refuse_none(&refuse_sysconf);
    ro_ending_run(&ending, ro_monotonic_ms() + 500);
    CHECK(waitpid(child, NULL, WNOHANG) == 0); /* spared */
    ro_ending_free(&ending);
    end_child(child);
    CHECK(ro_alloc_live() == 0);
}

/* What started later is ended, however the kernel is asked for it. */
static void
test_how_a_child_is_ended(void)
{
    static const struct {
        ro_sys call;
        int error;
    } cases[] = {
        {RO_SYS_COUNT, 0},
        {RO_SYS_PIDFD_OPEN, ENOSYS},
        {RO_SYS_PIDFD_SEND_SIGNAL, ENOSYS},
        {RO_SYS_WAITID, EINTR},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ro_ending ending;
        CHECK(begin(&ending) == 0);
        pid_t child = start_child();
        ro_fault_set(cases[i].call, 1, cases[i].error,
                     cases[i].call != RO_SYS_WAITID);
        ro_ending_run(&ending, ro_monotonic_ms() + 20000);
        no_fault();
        CHECK(waitpid(child, NULL, WNOHANG) == -1 && errno == ECHILD);
        ro_ending_free(&ending);
    }
}

/* The time is over before it began: one round, without stopping first. */
static void
test_no_time_is_left(void)
{
    ro_ending ending;
    CHECK(begin(&ending) == 0);
    pid_t child = start_child();
    ro_ending_run(&ending, ro_monotonic_ms() - 1);
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    ro_ending_free(&ending);
}

static bool
is_alive(pid_t child)
{
    return waitpid(child, NULL, WNOHANG) == 0;
}

/* By kill(): what is out of reach is left, without waiting for it. */
static void
test_a_child_out_of_reach(void)
{
    ro_ending ending;
    CHECK(begin(&ending) == 0);
    pid_t child = start_child();
    ro_fault_set(RO_SYS_PIDFD_OPEN, 1, ENOSYS, true);
    refuse_all(&refuse_kill, EPERM);
    int64_t start = ro_monotonic_ms();
    ro_ending_run(&ending, start + 20000);
    CHECK(ro_monotonic_ms() - start < 10000);
    CHECK(is_alive(child));
    /* what is gone by then has needed none */
    refuse(&refuse_kill, 1, ESRCH);
    ro_ending_run(&ending, ro_monotonic_ms() + 20000);
    refuse_none(&refuse_kill);
    no_fault();
    CHECK(waitpid(child, NULL, WNOHANG) == -1 && errno == ECHILD);
    ro_ending_free(&ending);
}

/* A number that is another process's by now gets no signal. */
static void
test_a_number_that_is_used_again(void)
{
    ro_ending ending;
    char line[128];
    CHECK(begin(&ending) == 0);
    pid_t child = start_child();
    (void)snprintf(line, sizeof(line),
                   "%d (a) S %d 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1 0 7 0\n",
                   (int)child, (int)getpid());
    const char *path = file_of(line);
    last_looks = 0;
    other_stat = path;
    ro_ending_run(&ending, ro_monotonic_ms() + 100);
    CHECK(last_looks > 0 && is_alive(child));
    other_stat = NULL;
    (void)unlink(path);
    ro_ending_run(&ending, ro_monotonic_ms() + 20000);
    CHECK(waitpid(child, NULL, WNOHANG) == -1 && errno == ECHILD);
    ro_ending_free(&ending);
}

/* A kernel that says nothing of namespaces has one number for each; and what
 * belongs to another user is not ours. */
static void
test_a_kernel_without_namespaces(void)
{
    ro_ending ending;
    char text[64];
    (void)snprintf(text, sizeof(text), "Name:\ta\nUid:\t%u\n",
                   (unsigned)getuid());
    other_status = file_of(text);
    CHECK(begin(&ending) == 0);
    CHECK(ending.self.depth == 0 && ending.self.pid == 0);
    pid_t child = start_child();
    ro_ending_run(&ending, ro_monotonic_ms() + 20000);
    CHECK(waitpid(child, NULL, WNOHANG) == -1 && errno == ECHILD);
    (void)unlink(other_status);

    child = start_child();
    pid_t dead = fork();
    if (dead == 0) {
        _exit(0);
    }
    siginfo_t info;
    CHECK(waitid(P_PID, (id_t)dead, &info, WEXITED | WNOWAIT) == 0);
    (void)snprintf(text, sizeof(text), "Name:\ta\nUid:\t%u\n",
                   (unsigned)getuid() + 1);
    other_status = file_of(text);
    ro_ending_run(&ending, ro_monotonic_ms() + 20000);
    CHECK(is_alive(child));
    (void)unlink(other_status);
    other_status = NULL;
    ro_ending_free(&ending);
    end_child(child);
    (void)waitpid(dead, NULL, 0);
}

/* ---- crashes and signals ---- */

static bool
has_default(int number)
{
    struct sigaction action;
    return sigaction(number, NULL, &action) == 0
           && action.sa_handler == SIG_DFL;
}

static void
test_handlers_are_taken_back(void)
{
    ro_crash crash;
    ro_signals signals;

    for (size_t nth = 1; nth <= RO_CRASH_SIGNALS; nth++) {
        for (int i = 0; i < RO_CRASH_SIGNALS; i++) {
            (void)signal(ro_crash_signals[i], SIG_DFL);
        }
        fault(RO_SYS_SIGACTION, nth, EINVAL);
        CHECK(!ro_crash_install(&crash) && errno == EINVAL);
        no_fault();
        CHECK(nth == 1 || !has_default(ro_crash_signals[0]));
        ro_crash_restore(&crash);
        ro_crash_restore(&crash); /* twice is fine */
        for (int i = 0; i < RO_CRASH_SIGNALS; i++) {
            CHECK(has_default(ro_crash_signals[i]));
        }
    }
    refuse(&refuse_sigaltstack, 1, ENOMEM);
    CHECK(!ro_crash_install(&crash));
    refuse_none(&refuse_sigaltstack);
    ro_crash_restore(&crash);
    CHECK(ro_alloc_live() == 0);
    /* each is looked at and then set: two calls a signal */
    for (size_t nth = 1; nth <= 6; nth++) {
        fault(RO_SYS_SIGACTION, nth, EINVAL);
        CHECK(!ro_signals_install(&signals, -1));
        no_fault();
        ro_signals_restore(&signals);
        CHECK(has_default(SIGPROF) && has_default(SIGINT)
              && has_default(SIGTERM));
    }
    CHECK(ro_signals_guard() == NULL); /* this process has none */
}

/* In a child, since a hard limit is for good: whether a warning is set before
 * it, and is gone after the signals are given back. */
static int
warning(rlim_t soft, rlim_t hard, unsigned refused)
{
    pid_t pid = fork();
    if (pid == 0) {
        struct rlimit limit = {soft, hard};
        struct itimerval left = {0};
        ro_signals signals;
        int seen = 0;
        if (setrlimit(RLIMIT_CPU, &limit) != 0) {
            _exit(90);
        }
        refuse(&refuse_getrlimit, refused == 1 ? 1 : 0, EINVAL);
        refuse(&refuse_getrusage, refused == 2 ? 1 : 0, EINVAL);
        if (!ro_signals_install(&signals, -1)) {
            _exit(91);
        }
        (void)getitimer(ITIMER_PROF, &left);
        seen = left.it_value.tv_sec != 0 || left.it_value.tv_usec != 0;
        ro_signals_restore(&signals);
        (void)getitimer(ITIMER_PROF, &left);
        _exit(left.it_value.tv_sec == 0 && left.it_value.tv_usec == 0 ? seen
                                                                      : 92);
    }
    int status = 0;
    CHECK(waitpid(pid, &status, 0) == pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void
test_a_warning_before_the_hard_limit(void)
{
    CHECK(warning(1000, 1000, 0) == 1);
    CHECK(warning(1000, 1001, 0) == 0); /* SIGXCPU warns */
    CHECK(warning(1000, 1000, 1) == 0);
    CHECK(warning(1000, 1000, 2) == 0);
    CHECK(warning((rlim_t)INT32_MAX + 1, (rlim_t)INT32_MAX + 1, 0) == 0);
}

/* ---- privacy ---- */

static void
test_privacy_is_given_back(void)
{
    ro_privacy privacy;
    struct rlimit before;
    struct rlimit now;
    CHECK(getrlimit(RLIMIT_CORE, &before) == 0);
    for (unsigned i = 0; i < 4; i++) {
        refuse(&refuse_getrlimit, i == 1 ? 1 : 0, EINVAL);
        refuse(&refuse_setrlimit, i == 2 ? 1 : 0, EPERM);
        fault(RO_SYS_PRCTL, i == 3 ? 1 : 0, EINVAL);
        CHECK(ro_privacy_close(&privacy) == (i == 0));
        refuse_none(&refuse_getrlimit);
        refuse_none(&refuse_setrlimit);
        no_fault();
        CHECK(privacy.limited == (i == 0 || i == 3));
        CHECK(prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == (i == 3));
        ro_privacy_open(&privacy);
        ro_privacy_open(&privacy); /* the second one does nothing */
        CHECK(prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 1);
        CHECK(getrlimit(RLIMIT_CORE, &now) == 0);
        CHECK(now.rlim_cur == before.rlim_cur);
    }
}

/* ---- the start ---- */

static void
test_options_that_are_none(void)
{
    ro_slice text = ro_slice_str("{}\n");
    ro_slice none = ro_slice_str("");
    const ro_guard_options options[] = {
        {-1, 0, text, text, text}, {0, -1, text, text, text},
        {0, 0, none, text, text},  {0, 0, text, none, text},
        {0, 0, text, text, none},
    };
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        ro_guard_code why = RO_GUARD_OK;
        CHECK(ro_guard_start(&options[i], &why) == NULL);
        CHECK(why == RO_GUARD_BAD_OPTION);
        CHECK(ro_guard_start(&options[i], NULL) == NULL);
    }
    struct refusal *refusals[]
        = {&refuse_sem_init, &refuse_pthread_mutex_init};
    ro_guard_options good = {0, 0, text, text, text};
    for (size_t i = 0; i < 2; i++) {
        ro_guard_code why = RO_GUARD_OK;
        refuse(refusals[i], 1, ENOMEM);
        CHECK(ro_guard_start(&good, &why) == NULL);
        refuse_none(refusals[i]);
        CHECK(why == RO_GUARD_NO_MEMORY);
        CHECK(ro_alloc_live() == 0);
    }
    CHECK(ro_signals_claim()); /* nobody has it */
    CHECK(!ro_signals_claim());
    ro_guard_code why = RO_GUARD_OK;
    CHECK(ro_guard_start(&good, &why) == NULL && why == RO_GUARD_TWICE);
    ro_signals_release();
}

int
main(void)
{
    test_a_clock_that_is_not_known();
    test_what_proc_shows();
    test_reading_proc();
    test_a_proc_of_others();
    test_what_was_there_before();
    test_how_a_child_is_ended();
    test_no_time_is_left();
    test_a_child_out_of_reach();
    test_a_number_that_is_used_again();
    test_a_kernel_without_namespaces();
    test_handlers_are_taken_back();
    test_a_warning_before_the_hard_limit();
    test_privacy_is_given_back();
    test_options_that_are_none();
    return check_end();
}
