/* Standard input: to its end, to the bound, to the deadline. */
#include "check.h"
#include "guarded.h"
#include "guard/sys.h"

#include "core/alloc.h"

#include <pthread.h>
#include <stdlib.h>

#define MAX 100000

static guarded result;
static size_t bytes_to_send;
static bool close_after;
static int deadline_ms;
static char sent[300000];

#define RUN(...)                                                              \
    do {                                                                      \
        guarded_setup setup_ = {__VA_ARGS__};                                 \
        guarded_run(&setup_, &result);                                        \
        CHECK(result.left == 0);                                              \
    } while (0)

/* Reads and exits with 10 + the code; what was read is the document. */
_Noreturn static void
read_and_finish(ro_guard *guard, size_t max)
{
    ro_buf out;
    ro_buf_init(&out, max);
    ro_guard_input code = ro_guard_read_stdin(guard, max, &out);
    ro_guard_finish(guard, 10 + (int)code,
                    out.len > 0 ? ro_buf_slice(&out) : ro_slice_str("-"));
}

static void
feed(int fd)
{
    size_t done = 0;
    (void)signal(SIGPIPE, SIG_IGN);
    while (done < bytes_to_send) {
        size_t left = bytes_to_send - done;
        ssize_t n = write(fd, sent + done, left < 777 ? left : 777);
        if (n <= 0) {
            break;
        }
        done += (size_t)n;
    }
    while (!close_after) {
        (void)pause(); /* until the reader's process ends it */
    }
    _exit(0);
}

/* A pipe on 0, fed by the test's other child. */
static void
body_pipe(void)
{
    int fds[2];
    if (pipe(fds) < 0) {
        _exit(97);
    }
    pid_t pid = fork();
    if (pid == 0) {
        (void)close(fds[0]);
        feed(fds[1]);
    }
    (void)dup2(fds[0], 0);
    (void)close(fds[0]);
    (void)close(fds[1]);
    ro_guard *guard = guarded_start(deadline_ms, 3000);
    /* it existed before: spared, so end it here to leave nothing */
    ro_buf out;
    ro_buf_init(&out, MAX);
    ro_guard_input code = ro_guard_read_stdin(guard, MAX, &out);
    if (out.len == 0 && code == RO_INPUT_OK) {
        _exit(97);
    }
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
    ro_guard_finish(guard, 10 + (int)code,
                    out.len > 0 ? ro_buf_slice(&out) : ro_slice_str("-"));
}

static void
expect(size_t bytes, bool closes, ro_guard_input code)
{
    bytes_to_send = bytes;
    close_after = closes;
    /* only what ends by it has to be early */
    deadline_ms = code == RO_INPUT_TIMEOUT ? 300 : 15000;
    RUN(.body = body_pipe);
    CHECK(result.exit_code == 10 + (int)code);
    if (code == RO_INPUT_OK) {
        CHECK(result.len == bytes && memcmp(result.out, sent, bytes) == 0);
    }
    else {
        CHECK(guarded_wrote(&result, "-"));
    }
}

static void
test_pipe(void)
{
    for (size_t i = 0; i < sizeof(sent); i++) {
        sent[i] = (char)('a' + i % 23);
    }
    expect(1, true, RO_INPUT_OK);
    expect(MAX - 1, true, RO_INPUT_OK);
    expect(MAX, true, RO_INPUT_OK);
    expect(MAX + 1, true, RO_INPUT_TOO_LARGE);
    expect(MAX + 1, false, RO_INPUT_TOO_LARGE); /* without waiting for more */
    expect(sizeof(sent), true, RO_INPUT_TOO_LARGE);
    expect(0, true, RO_INPUT_MISSING);
    expect(0, false, RO_INPUT_TIMEOUT);
    CHECK(result.ms >= 280);
    expect(MAX, false, RO_INPUT_TIMEOUT);
    CHECK(result.ms >= 280);
}

static const char *path;
static int open_flags;

static void
body_file(void)
{
    (void)close(0);
    if (open(path, open_flags) != 0) {
        _exit(97);
    }
    read_and_finish(guarded_start(0, 0), MAX);
}

static void
body_closed(void)
{
    (void)close(0);
    read_and_finish(guarded_start(0, 0), MAX);
}

static void
body_zero_max(void)
{
    (void)close(0);
    if (open("/dev/null", O_RDONLY) != 0) {
        _exit(97);
    }
    read_and_finish(guarded_start(0, 0), 0);
}

static void
body_terminal(void)
{
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    if (master < 0 || grantpt(master) < 0 || unlockpt(master) < 0) {
        _exit(97);
    }
    (void)close(0);
    if (open(ptsname(master), O_RDONLY | O_NOCTTY) != 0) {
        _exit(97);
    }
    read_and_finish(guarded_start(0, 0), MAX);
}

static void
file(const char *name, int flags, ro_guard_input code)
{
    path = name;
    open_flags = flags;
    RUN(.body = body_file);
    CHECK(result.exit_code == 10 + (int)code);
}

static void
test_files(void)
{
    file("/dev/null", O_RDONLY, RO_INPUT_MISSING);
    file("/dev/zero", O_RDONLY, RO_INPUT_TOO_LARGE);
    file("/", O_RDONLY, RO_INPUT_BROKEN);
    file("/dev/null", O_WRONLY, RO_INPUT_BROKEN);
    file("/proc/self/stat", O_RDONLY, RO_INPUT_OK);
    RUN(.body = body_closed);
    CHECK(result.exit_code == 10 + (int)RO_INPUT_MISSING);
    RUN(.body = body_zero_max);
    CHECK(result.exit_code == 10 + (int)RO_INPUT_MISSING);
    RUN(.body = body_terminal);
    CHECK(result.exit_code == 10 + (int)RO_INPUT_MISSING);
}

/* Another process has set O_NONBLOCK on the shared description. */
static void
body_nonblocking(void)
{
    int fds[2];
    if (pipe(fds) < 0 || dup2(fds[0], 0) != 0
        || fcntl(0, F_SETFL, O_NONBLOCK) < 0 || write(fds[1], "{}", 2) != 2) {
        _exit(97);
    }
    (void)close(fds[0]);
    (void)fcntl(fds[1], F_SETFD, FD_CLOEXEC);
    read_and_finish(guarded_start(200, 3000), MAX);
}

static ro_guard *guard_to_stop;

static void
hold_end(void *ctx, int wait_ms)
{
    (void)ctx;
    ro_clock_sleep(wait_ms);
}

static void *
stop_soon(void *arg)
{
    (void)arg;
    ro_clock_sleep(50);
    ro_guard_finish(guard_to_stop, 3, ro_slice_str("stopped\n"));
}

static void
body_stopping(void)
{
    int fds[2];
    pthread_t thread;
    ro_buf out;
    if (pipe(fds) < 0 || dup2(fds[0], 0) != 0) {
        _exit(97);
    }
    guard_to_stop = guarded_start(0, 0);
    /* time for the reader to say what it saw */
    ro_guard_set_exit_hook(guard_to_stop, hold_end, NULL);
    ro_buf_init(&out, MAX);
    if (pthread_create(&thread, NULL, stop_soon, NULL) != 0) {
        _exit(97);
    }
    ro_guard_input code = ro_guard_read_stdin(guard_to_stop, MAX, &out);
    guarded_say(code == RO_INPUT_STOPPING ? 's' : '!');
    ro_guard_finish(guard_to_stop, 4, ro_slice_str("lost\n"));
}

static void
hear_stop(pid_t pid, int ready)
{
    (void)pid;
    CHECK(guarded_hear(ready) == 's');
}

static void
body_memory(void)
{
    (void)close(0);
    if (open("/proc/self/stat", O_RDONLY) != 0) {
        _exit(97);
    }
    ro_guard *guard = guarded_start(0, 0);
    ro_alloc_fail_at(1, 1);
    read_and_finish(guard, MAX);
}

static int read_error;

/* The first read of standard input fails: nothing else reads by then. */
static void
body_failing_read(void)
{
    (void)close(0);
    if (open("/proc/self/stat", O_RDONLY) != 0) {
        _exit(97);
    }
    ro_guard *guard = guarded_start(0, 0);
    ro_fault_set(RO_SYS_READ, 1, read_error, false);
    read_and_finish(guard, MAX);
}

/* What says nothing about the stream is tried again; a real error is one. */
static void
test_failing_read(void)
{
    static const struct {
        int error;
        ro_guard_input code;
    } rows[] = {
        {EINTR, RO_INPUT_OK},
        {EAGAIN, RO_INPUT_OK},
        {EIO, RO_INPUT_BROKEN},
        {ECONNRESET, RO_INPUT_BROKEN},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        read_error = rows[i].error;
        RUN(.body = body_failing_read);
        CHECK(result.exit_code == 10 + (int)rows[i].code);
        CHECK((rows[i].code == RO_INPUT_OK) == (result.len > 1));
    }
}

static void
test_others(void)
{
    RUN(.body = body_nonblocking);
    CHECK(result.exit_code == 10 + (int)RO_INPUT_TIMEOUT);
    RUN(.body = body_stopping, .meanwhile = hear_stop);
    CHECK(result.exit_code == 3 && guarded_wrote(&result, "stopped\n"));
    RUN(.body = body_memory);
    CHECK(result.exit_code == 10 + (int)RO_INPUT_NO_MEMORY);
}

int
main(void)
{
    test_pipe();
    test_files();
    test_failing_read();
    test_others();
    return check_end();
}
