/* Descendants of every kind, and those that are not ours. */
#include "check.h"
#include "guarded.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/syscall.h>

#define ANSWER "{\"ok\":true}\n"

static guarded result;

#define RUN(...)                                                              \
    do {                                                                      \
        guarded_setup setup_ = {__VA_ARGS__};                                 \
        guarded_run(&setup_, &result);                                        \
    } while (0)

#define ENDS_WELL()                                                           \
    do {                                                                      \
        CHECK(result.exit_code == 0);                                         \
        CHECK(guarded_wrote(&result, ANSWER));                                \
        CHECK(result.left == 0);                                              \
    } while (0)

_Noreturn static void
hang(void)
{
    for (;;) {
        (void)pause();
    }
}

static pid_t
start(void (*life)(void))
{
    pid_t pid = fork();
    if (pid < 0) {
        _exit(97);
    }
    if (pid == 0) {
        life();
        hang();
    }
    return pid;
}

static void
hear(pid_t pid, int ready)
{
    (void)pid;
    CHECK(guarded_hear(ready) == 'r');
}

_Noreturn static void
finish(ro_guard *guard)
{
    ro_guard_finish(guard, 0, ro_slice_str(ANSWER));
}

/* ---- kinds ---- */

static void
life_plain(void)
{
}

static void
life_stubborn(void)
{
    for (int number = 1; number < 32; number++) {
        (void)signal(number, SIG_IGN);
    }
}

static void
life_dead(void)
{
    _exit(0);
}

static void
life_stopped(void)
{
    (void)raise(SIGSTOP);
}

/* setsid, double fork, its parent gone: comes to the sub-reaper */
static void
life_daemon(void)
{
    (void)setsid();
    if (fork() != 0) {
        _exit(0);
    }
    life_stubborn();
    (void)start(life_stubborn);
}

static void
life_family(void)
{
    (void)start(life_plain);
    (void)start(life_daemon);
    (void)start(life_dead);
    (void)start(life_stopped);
}

static void
body_kinds(void)
{
    ro_guard *guard = guarded_start(0, 0);
    static void (*const lives[])(void)
        = {life_plain,   life_stubborn, life_dead,
           life_stopped, life_daemon,   life_family};
    for (size_t i = 0; i < sizeof(lives) / sizeof(lives[0]); i++) {
        (void)start(lives[i]);
    }
    ro_clock_sleep(50);
    finish(guard);
}

/* Nothing has settled when the end begins. */
static void
body_early(void)
{
    ro_guard *guard = guarded_start(0, 0);
    (void)start(life_family);
    finish(guard);
}

static void
body_at_end(void)
{
    (void)guarded_start(100, 50);
    (void)start(life_family);
    hang();
}

static void
body_interrupted(void)
{
    (void)guarded_start(0, 0);
    (void)start(life_family);
    (void)raise(SIGTERM);
    hang();
}

static void
body_write_hangs(void)
{
    static char large[200000];
    ro_guard *guard = guarded_start(200, 50);
    (void)start(life_family);
    ro_guard_finish(guard, 0, ro_slice_of(large, sizeof(large)));
}

static void
test_kinds(void)
{
    RUN(.body = body_kinds);
    ENDS_WELL();
    CHECK(result.ms < GUARDED_LATE_MS);
    for (int i = 0; i < 5; i++) {
        RUN(.body = body_early);
        ENDS_WELL();
    }
    RUN(.body = body_at_end);
    CHECK(result.exit_code == 1 && result.left == 0);
    CHECK(guarded_wrote(&result, TIMEOUT_ENVELOPE));
    RUN(.body = body_interrupted);
    CHECK(result.exit_code == 130 && result.left == 0);
    CHECK(guarded_wrote(&result, INTERRUPTED_ENVELOPE));
    RUN(.body = body_write_hangs, .deaf = true);
    CHECK(result.exit_code == 1 && result.left == 0);
    CHECK(result.ms < GUARDED_LATE_MS);
}

/* ---- forks in a loop ---- */

/* One at a time: each forks and is gone, pids move on. */
static void
life_chain(void)
{
    for (;;) {
        if (fork() != 0) {
            _exit(0);
        }
        (void)setsid();
    }
}

/* Each forks two in a while and lives on, to a bound. */
static void
life_tree(void)
{
    for (int depth = 0; depth < 6; depth++) {
        (void)fork();
        ro_clock_sleep(1);
    }
}

static void
life_breeder(void)
{
    for (;;) {
        if (fork() == 0) {
            ro_clock_sleep(20);
            _exit(0);
        }
        ro_clock_sleep(1);
        while (waitpid(-1, NULL, WNOHANG) > 0) {
        }
    }
}

static void
body_loops(void)
{
    ro_guard *guard = guarded_start(0, 0);
    (void)start(life_chain);
    (void)start(life_breeder);
    (void)start(life_tree);
    ro_clock_sleep(20);
    finish(guard);
}

static void
test_loops(void)
{
    for (int i = 0; i < 3; i++) {
        RUN(.body = body_loops);
        ENDS_WELL();
        CHECK(result.ms < GUARDED_LATE_MS);
    }
}

/* ---- not ours ---- */

/* A byte comes when a child is what it is to be, and has said so: the end
 * may come to it at once. */
static int settled[2];

static void
open_settled(void)
{
    int fds[2];
    if (pipe(fds) < 0) {
        _exit(97);
    }
    for (int i = 0; i < 2; i++) {
        /* where guarded_let_go does not close it */
        settled[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, GUARDED_READY + 1);
        (void)close(fds[i]);
    }
}

static void
settle(void)
{
    if (write(settled[1], "s", 1) != 1) {
        _exit(97);
    }
}

static void
await_settled(void)
{
    char one;
    if (read(settled[0], &one, 1) != 1) {
        _exit(97);
    }
}

/* A child from before the guard; on a word it forks once more. */
static void
body_existing(void)
{
    int words[2];
    char word;
    open_settled();
    if (pipe(words) < 0) {
        _exit(97);
    }
    pid_t old = fork();
    if (old == 0) {
        (void)close(1); /* or the test waits for it */
        if (read(words[0], &word, 1) == 1) {
            (void)fork();
        }
        guarded_say('r');
        settle();
        hang();
    }
    siginfo_t info; /* a zombie that we inherit */
    if (waitid(P_PID, (id_t)start(life_dead), &info, WEXITED | WNOWAIT) != 0) {
        _exit(97);
    }
    ro_guard *guard = guarded_start(0, 0);
    (void)start(life_plain);
    if (write(words[1], "x", 1) != 1) {
        _exit(97);
    }
    await_settled(); /* the old child */
    await_settled(); /* and its new one */
    finish(guard);
}

static void
life_other_user(void)
{
    guarded_let_go();
    if (setgid(65534) < 0 || setuid(65534) < 0) {
        _exit(97);
    }
    guarded_say('r');
    settle();
}

static void
body_other_user(void)
{
    open_settled();
    ro_guard *guard = guarded_start(0, 0);
    (void)start(life_other_user);
    (void)start(life_plain);
    await_settled();
    finish(guard);
}

static void
life_namespace(void)
{
    guarded_let_go();
    if (unshare(CLONE_NEWPID) < 0) {
        guarded_say('!');
        settle();
        hang();
    }
    (void)start(life_plain); /* PID 1 over there */
    guarded_say('r');
    settle();
}

static void
body_namespace(void)
{
    open_settled();
    ro_guard *guard = guarded_start(0, 0);
    (void)start(life_namespace);
    await_settled();
    finish(guard);
}

static void
test_others(void)
{
    RUN(.body = body_existing, .meanwhile = hear);
    CHECK(result.exit_code == 0 && guarded_wrote(&result, ANSWER));
    CHECK(result.left == 2); /* the old child and its new one */
    CHECK(result.ms < GUARDED_LATE_MS);
    if (getuid() != 0) {
        return; /* the rest needs root */
    }
    RUN(.body = body_other_user, .meanwhile = hear);
    CHECK(result.exit_code == 0 && result.left == 1);
    CHECK(result.ms < GUARDED_LATE_MS);
}

/* ---- PID 1 ---- */

static bool may_unshare;
static bool mount_proc;
static bool below_init;
static int signal_to_raise;

/* PID 1 is someone else, who fails when anything is left at the end. */
static void
relay_for_ever(void)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        return;
    }
    if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status)
        || waitpid(-1, NULL, WNOHANG) != -1) {
        _exit(92);
    }
    _exit(WEXITSTATUS(status));
}

/* The guard is PID 1 of a new pid namespace; the code is passed on. */
static void
body_init(void)
{
    int status;
    if (unshare(CLONE_NEWPID | CLONE_NEWNS) < 0
        || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
        _exit(97);
    }
    pid_t pid = fork();
    if (pid == 0) {
        if (mount_proc && mount("proc", "/proc", "proc", 0, NULL) < 0) {
            _exit(96);
        }
        if (below_init) {
            relay_for_ever();
        }
        ro_guard *guard = guarded_start(0, 0);
        if ((getpid() == 1) == below_init || ro_guard_degraded(guard) != 0) {
            _exit(95);
        }
        (void)start(life_family);
        (void)start(life_daemon);
        ro_clock_sleep(30);
        if (signal_to_raise != 0) {
            (void)kill(1, signal_to_raise);
            hang();
        }
        finish(guard);
    }
    if (waitpid(pid, &status, 0) != pid) {
        _exit(94);
    }
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 93);
}

/* In a user namespace where root is not to be had. */
static void
body_probe(void)
{
    _exit(unshare(CLONE_NEWPID | CLONE_NEWNS) == 0 ? 0 : 1);
}

static void
test_init(void)
{
    RUN(.body = body_probe);
    may_unshare = result.exit_code == 0;
    if (!may_unshare) {
        return; /* forbidden here */
    }
    mount_proc = true;
    RUN(.body = body_init);
    ENDS_WELL();
    signal_to_raise = SIGTERM;
    RUN(.body = body_init);
    CHECK(result.exit_code == 130 && result.left == 0);
    CHECK(guarded_wrote(&result, INTERRUPTED_ENVELOPE));
    signal_to_raise = SIGABRT; /* which PID 1 does not die by */
    RUN(.body = body_init);
    CHECK(result.exit_code == 128 + SIGABRT && result.left == 0);
    CHECK(guarded_wrote(&result, FAILED_ENVELOPE));
    signal_to_raise = 0;
    mount_proc = false; /* the numbers in that /proc are not ours */
    RUN(.body = body_init);
    ENDS_WELL();
    below_init = true;
    RUN(.body = body_init);
    ENDS_WELL();
    RUN(.body = body_namespace, .meanwhile = hear);
    CHECK(result.exit_code == 0 && guarded_wrote(&result, ANSWER));
    CHECK(result.left == 1); /* PID 1 over there */
}

int
main(void)
{
    test_kinds();
    test_loops();
    test_others();
    test_init();
    return check_end();
}
