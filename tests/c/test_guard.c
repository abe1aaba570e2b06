/* Whole guards: who wins, what comes out, when it ends. */
#include "check.h"
#include "guarded.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

#define ANSWER "{\"ok\":true}\n"

static guarded result; /* too large for a stack */

#define RUN(...)                                                              \
    do {                                                                      \
        guarded_setup setup_ = {__VA_ARGS__};                                 \
        guarded_run(&setup_, &result);                                        \
        CHECK(result.left == 0);                                              \
    } while (0)

_Noreturn static void
hang(void)
{
    for (;;) {
        (void)pause();
    }
}

/* ---- codes and refusals ---- */

static int code_to_use;

static void
body_finish(void)
{
    ro_guard *guard = guarded_start(0, 0);
    ro_guard_finish(guard, code_to_use, ro_slice_str(ANSWER));
}

static void
test_codes(void)
{
    static const int codes[] = {0, 1, 2, 130};
    for (int i = 0; i < 4; i++) {
        code_to_use = codes[i];
        RUN(.body = body_finish);
        CHECK(result.exit_code == codes[i]);
        CHECK(guarded_wrote(&result, ANSWER));
        CHECK(result.ms < GUARDED_LATE_MS);
    }
}

static void
body_state(void)
{
    ro_guard *guard = guarded_start(0, 0);
    ro_guard_options options = guarded_options(0, 0);
    ro_guard_code why;
    struct pollfd cancel = {.fd = ro_guard_cancel_fd(guard), .events = POLLIN};
    bool good = ro_guard_degraded(guard) == 0 && !ro_guard_stopping(guard)
                && ro_guard_ms_left(guard) > 10000
                /* the first millisecond ends no sooner than it does */
                && ro_guard_ms_left(guard) <= 15001 && poll(&cancel, 1, 0) == 0
                && ro_guard_start(&options, &why) == NULL
                && why == RO_GUARD_TWICE;
    good = good && !ro_guard_set_deadline(guard, 15000)
           && ro_guard_set_deadline(guard, 100) && poll(&cancel, 1, 5000) == 1
           && poll(&cancel, 1, 0) == 1 && ro_guard_ms_left(guard) == 0
           && !ro_guard_set_deadline(guard, 50);
    ro_guard_finish(guard, good ? 0 : 1, ro_slice_str(ANSWER));
}

static void
test_state(void)
{
    RUN(.body = body_state);
    CHECK(result.exit_code == 0 && guarded_wrote(&result, ANSWER));
}

static void
body_refused(void)
{
    ro_guard_options options = guarded_options(-1, 0);
    ro_guard_code why = RO_GUARD_OK;
    bool good
        = ro_guard_start(&options, &why) == NULL && why == RO_GUARD_BAD_OPTION;
    options = guarded_options(0, -1);
    good = good && ro_guard_start(&options, NULL) == NULL;
    options = guarded_options(0, 0);
    options.timeout.len = 0;
    good = good && ro_guard_start(&options, &why) == NULL
           && why == RO_GUARD_BAD_OPTION;
    /* no guard: still one envelope */
    ro_guard_finish(NULL, good ? 7 : 1, ro_slice_str(ANSWER));
}

static void
body_bare_gone(void)
{
    int fds[2];
    (void)signal(SIGPIPE, SIG_DFL);
    if (pipe(fds) < 0 || dup2(fds[1], 1) != 1 || close(fds[0]) < 0) {
        _exit(97);
    }
    ro_guard_finish(NULL, 0, ro_slice_str(ANSWER));
}

static void
test_refused(void)
{
    RUN(.body = body_refused);
    CHECK(result.exit_code == 7 && guarded_wrote(&result, ANSWER));
    RUN(.body = body_bare_gone);
    CHECK(result.exit_code == 1 && result.len == 0);
    CHECK(strcmp(ro_guard_code_name(RO_GUARD_NO_THREAD), "no_thread") == 0);
}

/* ---- deadline ---- */

static void
body_hang(void)
{
    (void)guarded_start(100, 150);
    hang();
}

static void
body_burn(void)
{
    (void)guarded_start(100, 150);
    for (volatile unsigned i = 0;; i++) {
    }
}

static void
test_deadline(void)
{
    RUN(.body = body_hang);
    CHECK(result.exit_code == 1 && guarded_wrote(&result, TIMEOUT_ENVELOPE));
    CHECK(result.ms >= 230 && result.ms < GUARDED_LATE_MS);
    RUN(.body = body_burn);
    CHECK(result.exit_code == 1 && guarded_wrote(&result, TIMEOUT_ENVELOPE));
}

/* ---- signals ---- */

static int signal_to_send;

static void
body_wait_for_signal(void)
{
    (void)guarded_start(0, 0);
    guarded_say('r');
    hang();
}

static void
send_signal(pid_t pid, int ready)
{
    CHECK(guarded_hear(ready) == 'r');
    CHECK(kill(pid, signal_to_send) == 0);
}

static void
send_signals(pid_t pid, int ready)
{
    CHECK(guarded_hear(ready) == 'r');
    for (int i = 0; i < 50; i++) {
        (void)kill(pid, i % 2 ? SIGINT : SIGTERM);
    }
}

static void
body_ignoring(void)
{
    (void)signal(SIGHUP, SIG_IGN);
    ro_guard *guard = guarded_start(0, 0);
    bool good = raise(SIGHUP) == 0 && !ro_guard_stopping(guard)
                && signal(SIGHUP, SIG_IGN) == SIG_IGN;
    ro_guard_finish(guard, good ? 0 : 1, ro_slice_str(ANSWER));
}

/* ThreadSanitizer calls no handler in a child that was forked by a process
 * with threads; a coverage build would write its counts there, under a lock
 * that fork may hold. */
#if defined(__SANITIZE_THREAD__) || defined(RO_TEST_COUNTS)
#define CHILD_ENDS SIGKILL
#else
#define CHILD_ENDS SIGTERM
#endif

/* A child between fork and exec dies of the signal; we do not notice. */
static void
body_forked_child(void)
{
    int status = 0;
    ro_guard *guard = guarded_start(0, 0);
    pid_t pid = fork();
    if (pid == 0) {
        hang();
    }
    bool good = kill(pid, CHILD_ENDS) == 0 && waitpid(pid, &status, 0) == pid
                && WIFSIGNALED(status) && WTERMSIG(status) == CHILD_ENDS;
    pid = fork();
    if (pid == 0) {
        ro_guard_finish(guard, 0, ro_slice_str("child\n"));
    }
    good = good && waitpid(pid, &status, 0) == pid && WIFEXITED(status)
           && WEXITSTATUS(status) == 1;
    pid = fork();
    if (pid == 0) {
        ro_guard_options options = guarded_options(0, 0);
        ro_guard_code why;
        _exit(ro_guard_start(&options, &why) == NULL ? (int)why : 99);
    }
    good = good && waitpid(pid, &status, 0) == pid && WIFEXITED(status)
           && WEXITSTATUS(status) == (int)RO_GUARD_TWICE;
    ro_clock_sleep(20);
    good = good && !ro_guard_stopping(guard);
    ro_guard_finish(guard, good ? 0 : 1, ro_slice_str(ANSWER));
}

static void
body_mask(void)
{
    sigset_t before;
    sigset_t after;
    sigset_t some;
    (void)sigemptyset(&some);
    (void)sigaddset(&some, SIGWINCH); /* none of ours: stays */
    (void)sigaddset(&some, SIGUSR2);
    (void)sigprocmask(SIG_SETMASK, &some, &before);
    ro_guard *guard = guarded_start(0, 0);
    (void)sigprocmask(SIG_SETMASK, NULL, &after);
    bool good = sigismember(&after, SIGWINCH) == 1;
    for (int i = 1; i < 32; i++) {
        good = good && (i == SIGWINCH || sigismember(&after, i) == 0);
    }
    ro_guard_finish(guard, good ? 0 : 1, ro_slice_str(ANSWER));
}

/* Blocked by a launcher, and one that came while it was. */
static void
body_blocked(void)
{
    sigset_t all;
    (void)sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, NULL);
    if (raise(SIGUSR1) != 0) {
        _exit(97);
    }
    (void)guarded_start(0, 0);
    hang();
}

/* Processor time is limited to a second, the limit that can be reached and
 * the one that kills being the same. */
static void
body_out_of_time(void)
{
    struct rlimit limit = {1, 1};
    (void)setrlimit(RLIMIT_CPU, &limit);
    (void)guarded_start(GUARDED_PATIENCE_MS, 0); /* others may have it */
    for (;;) {
        (void)ro_monotonic_ms(); /* a call: ThreadSanitizer waits for one */
    }
}

static void
body_soft_limit(void)
{
    struct rlimit limit = {1, 60};
    (void)setrlimit(RLIMIT_CPU, &limit);
    (void)guarded_start(GUARDED_PATIENCE_MS, 0); /* others may have it */
    for (;;) {
        (void)ro_monotonic_ms(); /* a call: ThreadSanitizer waits for one */
    }
}

static void
test_signals(void)
{
    const int numbers[] = {SIGINT,  SIGTERM, SIGHUP,    SIGQUIT,   SIGALRM,
                           SIGUSR1, SIGUSR2, SIGPROF,   SIGVTALRM, SIGIO,
                           SIGXCPU, SIGPWR,  SIGSTKFLT, SIGRTMIN,  SIGRTMAX};
    static void (*const bodies[])(void)
        = {body_blocked, body_out_of_time, body_soft_limit};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        signal_to_send = numbers[i];
        RUN(.body = body_wait_for_signal, .meanwhile = send_signal);
        CHECK(result.exit_code == 130);
        CHECK(guarded_wrote(&result, INTERRUPTED_ENVELOPE));
    }
    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        RUN(.body = bodies[i]);
        CHECK(result.exit_code == 130);
        CHECK(guarded_wrote(&result, INTERRUPTED_ENVELOPE));
    }
    RUN(.body = body_wait_for_signal, .meanwhile = send_signals);
    CHECK(result.exit_code == 130);
    CHECK(guarded_wrote(&result, INTERRUPTED_ENVELOPE));
    RUN(.body = body_ignoring);
    CHECK(result.exit_code == 0 && guarded_wrote(&result, ANSWER));
    RUN(.body = body_forked_child);
    CHECK(result.exit_code == 0 && guarded_wrote(&result, ANSWER));
    RUN(.body = body_mask);
    CHECK(result.exit_code == 0 && guarded_wrote(&result, ANSWER));
}

/* ---- one winner ---- */

static ro_guard *shared_guard;
static char documents[8][20000];

static void *
finish_one(void *arg)
{
    char *document = arg;
    ro_guard_finish(shared_guard, document[0] - 'a',
                    ro_slice_of(document, sizeof(documents[0])));
}

static void
body_race(void)
{
    shared_guard = guarded_start(0, 0);
    for (int i = 0; i < 8; i++) {
        pthread_t thread;
        memset(documents[i], 'a' + i, sizeof(documents[0]));
        if (pthread_create(&thread, NULL, finish_one, documents[i]) != 0) {
            _exit(97);
        }
    }
    (void)raise(SIGTERM);
    finish_one(documents[0]);
}

static void
test_race(void)
{
    for (int round = 0; round < 5; round++) {
        RUN(.body = body_race);
        if (result.exit_code == 130) {
            CHECK(guarded_wrote(&result, INTERRUPTED_ENVELOPE));
            continue;
        }
        CHECK(result.len == sizeof(documents[0]));
        CHECK(result.exit_code == result.out[0] - 'a');
        size_t same = 1;
        while (same < result.len && result.out[same] == result.out[0]) {
            same++;
        }
        CHECK(same == result.len); /* one document */
    }
}

/* ---- output that does not take it ---- */

static char large[200000];

static void
body_large(void)
{
    ro_guard *guard = guarded_start(300, 100);
    ro_guard_finish(guard, 0, ro_slice_of(large, sizeof(large)));
}

static void
drain_late(pid_t pid, int ready)
{
    (void)pid;
    (void)ready;
    CHECK(guarded_fills());
}

static void
body_signal_in_write(void)
{
    ro_guard *guard = guarded_start(0, 0);
    guarded_say('r');
    ro_guard_finish(guard, 0, ro_slice_of(large, sizeof(large)));
}

static void
signal_in_write(pid_t pid, int ready)
{
    CHECK(guarded_hear(ready) == 'r');
    CHECK(guarded_fills());
    CHECK(kill(pid, SIGTERM) == 0);
    ro_clock_sleep(50);
}

static void
body_reader_gone(void)
{
    int fds[2];
    if (pipe(fds) < 0 || dup2(fds[1], 1) != 1 || close(fds[0]) < 0) {
        _exit(97);
    }
    ro_guard_finish(guarded_start(0, 0), 0, ro_slice_str(ANSWER));
}

static void
body_dev_full(void)
{
    int fd = open("/dev/full", O_WRONLY);
    if (fd < 0 || dup2(fd, 1) != 1) {
        _exit(97);
    }
    ro_guard_finish(guarded_start(0, 0), 0, ro_slice_str(ANSWER));
}

static void
body_read_only_stdout(void)
{
    int fd = open("/dev/null", O_RDONLY);
    if (fd < 0 || dup2(fd, 1) != 1) {
        _exit(97);
    }
    ro_guard_finish(guarded_start(0, 0), 0, ro_slice_str(ANSWER));
}

/* A socket's write blocks although poll saw room for a byte. */
static void
body_socket(void)
{
    int fds[2];
    int small = 1;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) < 0
        || setsockopt(fds[1], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)) < 0
        || dup2(fds[1], 1) != 1) {
        _exit(97);
    }
    ro_guard *guard = guarded_start(200, 100);
    pid_t pid = fork();
    if (pid == 0) {
        hang();
    }
    ro_guard_finish(guard, 0, ro_slice_of(large, sizeof(large)));
}

static bool
all_large(void)
{
    return memcmp(result.out, large, result.len) == 0;
}

static void
test_output(void)
{
    memset(large, 'x', sizeof(large));
    RUN(.body = body_large, .meanwhile = drain_late);
    CHECK(result.exit_code == 0);
    CHECK(result.len == sizeof(large) && all_large());
    RUN(.body = body_large, .deaf = true);
    CHECK(result.exit_code == 1);
    CHECK(result.len > 0 && result.len < sizeof(large) && all_large());
    CHECK(result.ms >= 350 && result.ms < GUARDED_LATE_MS);
    RUN(.body = body_signal_in_write, .meanwhile = signal_in_write);
    CHECK(result.exit_code == 0);
    CHECK(result.len == sizeof(large) && all_large());
    RUN(.body = body_reader_gone);
    CHECK(result.exit_code == 1 && result.len == 0
          && result.ms < GUARDED_LATE_MS);
    RUN(.body = body_dev_full);
    CHECK(result.exit_code == 1 && result.len == 0
          && result.ms < GUARDED_LATE_MS);
    RUN(.body = body_read_only_stdout);
    CHECK(result.exit_code == 1 && result.len == 0);
    RUN(.body = body_socket);
    CHECK(result.exit_code == 1);
    CHECK(result.ms >= 250 && result.ms < GUARDED_LATE_MS);
}

/* ---- descriptors 0 to 2 ---- */

static unsigned closed_mask;

static void
body_closed(void)
{
    for (int fd = 0; fd < 3; fd++) {
        if (closed_mask & (1u << fd)) {
            (void)close(fd);
        }
    }
    ro_guard *guard = guarded_start(0, 0);
    bool good = true;
    for (int fd = 0; fd < 3; fd++) {
        int flags = fcntl(fd, F_GETFD);
        good = good && flags == 0;
    }
    /* what a library prints goes nowhere */
    good = good && write(1, "noise", 5) == 5 && write(2, "noise", 5) == 5;
    int next = open("/dev/null", O_RDONLY);
    good = good && next > 2;
    ro_guard_finish(guard, good ? 0 : 3, ro_slice_str(ANSWER));
}

/* Python has opened some file into the gap: it was not inherited. */
static void
body_squatter(void)
{
    (void)close(1);
    int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
    ro_guard *guard = guarded_start(0, 0);
    bool good = fd == 1 && write(1, "noise", 5) == 5;
    ro_guard_finish(guard, good ? 0 : 3, ro_slice_str(ANSWER));
}

static void
test_closed(void)
{
    for (closed_mask = 0; closed_mask < 8; closed_mask++) {
        RUN(.body = body_closed);
        if (closed_mask & 2) {
            CHECK(result.exit_code == 1 && result.len == 0);
        }
        else {
            CHECK(result.exit_code == 0 && guarded_wrote(&result, ANSWER));
        }
    }
    RUN(.body = body_squatter);
    CHECK(result.exit_code == 1 && result.len == 0);
}

/* ---- exit hook ---- */

static void
note_hook(void *ctx, int wait_ms)
{
    guarded_say(wait_ms == *(int *)ctx ? 'h' : '!');
}

static void
slow_hook(void *ctx, int wait_ms)
{
    (void)ctx;
    guarded_say('h');
    (void)wait_ms;
    hang();
}

static int expected_wait;

static void
body_hook(void)
{
    ro_guard *guard = guarded_start(0, 0);
    ro_guard_set_exit_hook(guard, slow_hook, NULL);
    ro_guard_set_exit_hook(guard, note_hook, &expected_wait);
    ro_guard_finish(guard, 0, ro_slice_str(ANSWER));
}

static void
body_hook_at_end(void)
{
    ro_guard *guard = guarded_start(0, 50);
    ro_guard_set_exit_hook(guard, note_hook, &expected_wait);
    (void)ro_guard_set_deadline(guard, 100); /* now there is a hook */
    hang();
}

static void
body_hook_hangs(void)
{
    ro_guard *guard = guarded_start(0, 0);
    if (fork() == 0) {
        hang();
    }
    ro_guard_set_exit_hook(guard, slow_hook, NULL);
    ro_guard_finish(guard, 5, ro_slice_str(ANSWER));
}

static void
body_hook_hangs_at_end(void)
{
    ro_guard *guard = guarded_start(0, 50);
    ro_guard_set_exit_hook(guard, slow_hook, NULL);
    (void)ro_guard_set_deadline(guard, 100); /* now there is a hook */
    hang();
}

static void
body_hook_cleared(void)
{
    ro_guard *guard = guarded_start(0, 0);
    ro_guard_set_exit_hook(guard, slow_hook, NULL);
    ro_guard_set_exit_hook(guard, NULL, NULL);
    ro_guard_finish(guard, 0, ro_slice_str(ANSWER));
}

static void
hear_hook(pid_t pid, int ready)
{
    (void)pid;
    CHECK(guarded_hear(ready) == 'h');
}

static void
test_hook(void)
{
    expected_wait = RO_DELETE_WAIT_MS;
    RUN(.body = body_hook, .meanwhile = hear_hook);
    CHECK(result.exit_code == 0 && guarded_wrote(&result, ANSWER));
    expected_wait = 0;
    RUN(.body = body_hook_at_end, .meanwhile = hear_hook);
    CHECK(result.exit_code == 1 && guarded_wrote(&result, TIMEOUT_ENVELOPE));
    RUN(.body = body_hook_hangs, .meanwhile = hear_hook);
    CHECK(result.exit_code == 5 && guarded_wrote(&result, ANSWER));
    CHECK(result.ms >= 450 && result.ms < GUARDED_LATE_MS);
    RUN(.body = body_hook_hangs_at_end, .meanwhile = hear_hook);
    CHECK(result.exit_code == 1 && guarded_wrote(&result, TIMEOUT_ENVELOPE));
    CHECK(result.ms < GUARDED_LATE_MS);
    RUN(.body = body_hook_cleared);
    CHECK(result.exit_code == 0 && guarded_wrote(&result, ANSWER));
}

int
main(void)
{
    test_codes();
    test_state();
    test_refused();
    test_deadline();
    test_signals();
    test_race();
    test_output();
    test_closed();
    test_hook();
    return check_end();
}
