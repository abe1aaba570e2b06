/* Descriptors 0 to 2 and the private standard output, each case in a process
 * of its own: what was open, what was closed, what a call refused. */
#include "check.h"

#include "core/monotonic.h"
#include "guard/output.h"
#include "guard/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

/* Descriptors of a case, clear of 0 to 2 and of the private ones. */
#define READER 200
#define WRITER 201
#define ERROR_WRITER 202

/* bytes that are written at once; see output.c */
#define CHUNK 4096

/* ---- a process with standard streams of its own ---- */

static unsigned closed_mask;

static void
move(int from, int to)
{
    if (dup2(from, to) != to || close(from) < 0) {
        abort();
    }
}

/* Standard output is a pipe that READER reads, standard error another one;
 * the streams of the mask are closed. */
static void
set_up(void)
{
    int out[2];
    int error[2];
    if (pipe(out) < 0 || pipe(error) < 0) {
        abort();
    }
    for (int fd = 3; fd < READER; fd++) { /* what the test has inherited */
        if (fd != out[0] && fd != out[1] && fd != error[0] && fd != error[1]) {
            (void)close(fd);
        }
    }
    move(out[0], READER);
    move(out[1], WRITER);
    move(error[1], ERROR_WRITER);
    if (dup2(error[0], 0) != 0 || close(error[0]) < 0 || dup2(WRITER, 1) != 1
        || dup2(ERROR_WRITER, 2) != 2) {
        abort();
    }
    for (int fd = 0; fd < 3; fd++) {
        if (closed_mask & (1u << fd)) {
            (void)close(fd);
        }
    }
}

static bool
is_closed(unsigned fd)
{
    return (closed_mask & (1u << fd)) != 0;
}

/* What the body says is the exit status: 0, or the line that was wrong. */
static int
run(int (*body)(void))
{
    int status = 0;
    (void)fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        set_up();
        int line = body();
        _exit(line % 256 == 0 && line != 0 ? 255 : line % 256);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid) {
        abort();
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

#define WANT(condition)                                                       \
    do {                                                                      \
        if (!(condition)) {                                                   \
            return __LINE__;                                                  \
        }                                                                     \
    } while (0)

static bool
same_file(int one, int two)
{
    struct stat a;
    struct stat b;
    return fstat(one, &a) == 0 && fstat(two, &b) == 0 && a.st_dev == b.st_dev
           && a.st_ino == b.st_ino;
}

static bool
is_null(int fd)
{
    struct stat seen;
    return fstat(fd, &seen) == 0 && S_ISCHR(seen.st_mode)
           && seen.st_rdev == makedev(1, 3)
           && (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDWR;
}

static bool
is_private(int fd)
{
    return fd >= RO_OUTPUT_LOWEST && fcntl(fd, F_GETFD) == FD_CLOEXEC;
}

static bool
is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

/* Descriptors that are open below READER. */
static int
count_open(void)
{
    int count = 0;
    for (int fd = 0; fd < READER; fd++) {
        count += is_open(fd);
    }
    return count;
}

/* ---- taking them ---- */

static int
body_take(void)
{
    ro_output output;
    WANT(ro_output_take(&output));
    for (unsigned fd = 0; fd < 3; fd++) {
        WANT(output.closed[fd] == is_closed(fd));
        /* a child gets them, whatever was there */
        WANT(fcntl((int)fd, F_GETFD) == 0);
    }
    WANT(is_null(0) == is_closed(0) && is_null(1) && is_null(2));
    WANT(is_closed(1) ? output.fd == -1
                      : is_private(output.fd) && same_file(output.fd, WRITER));
    WANT(is_closed(2) ? output.error_fd == -1
                      : is_private(output.error_fd)
                            && same_file(output.error_fd, ERROR_WRITER));
    WANT(fcntl(output.null_fd, F_GETFD) == FD_CLOEXEC);
    WANT(output.null_fd > 2 && is_null(output.null_fd));
    WANT(count_open() == 4 + !is_closed(1) + !is_closed(2));
    return 0;
}

static int
body_undo(void)
{
    ro_output output;
    WANT(ro_output_take(&output));
    ro_output_undo(&output);
    WANT(is_closed(1) ? is_null(1) : same_file(1, WRITER));
    WANT(is_closed(2) ? is_null(2) : same_file(2, ERROR_WRITER));
    WANT(output.fd == -1 && output.error_fd == -1 && output.null_fd == -1);
    WANT(count_open() == 3);
    return 0;
}

static int
body_keep(void)
{
    ro_output output;
    WANT(ro_output_take(&output));
    int before = count_open();
    ro_output_keep(&output);
    WANT(output.error_fd == -1);
    WANT(count_open() == before - !is_closed(2));
    WANT(is_closed(1) || same_file(output.fd, WRITER));
    WANT(is_null(output.null_fd));
    return 0;
}

/* Whatever was opened into a gap is not the stream that was closed: it would
 * not have survived exec. */
static int
body_squatter(void)
{
    for (int fd = 0; fd < 3; fd++) {
        (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    }
    ro_output output;
    WANT(ro_output_take(&output));
    WANT(output.closed[0] && output.closed[1] && output.closed[2]);
    WANT(output.fd == -1 && output.error_fd == -1);
    WANT(is_null(1) && is_null(2) && !is_null(0));
    return 0;
}

static void
test_taking(void)
{
    for (closed_mask = 0; closed_mask < 8; closed_mask++) {
        CHECK(run(body_take) == 0);
        CHECK(run(body_undo) == 0);
        CHECK(run(body_keep) == 0);
    }
    closed_mask = 0;
    CHECK(run(body_squatter) == 0);
}

/* ---- what a call refused ---- */

static ro_sys call_to_fail;
static size_t nth_to_fail;
static int error_to_have;

/* A refusal leaves all as it was once it is undone. */
static int
body_refused(void)
{
    ro_output output;
    ro_fault_set(call_to_fail, nth_to_fail, error_to_have, false);
    WANT(!ro_output_take(&output));
    WANT(errno == error_to_have);
    ro_fault_set(RO_SYS_COUNT, 0, 0, false);
    ro_output_undo(&output);
    WANT(is_closed(0) || is_open(0));
    WANT(is_closed(1) || same_file(1, WRITER));
    WANT(is_closed(2) || same_file(2, ERROR_WRITER));
    WANT(output.fd == -1 && output.error_fd == -1 && output.null_fd == -1);
    return 0;
}

static int
body_repeated(void)
{
    ro_output output;
    ro_fault_set(call_to_fail, nth_to_fail, error_to_have, false);
    WANT(ro_output_take(&output));
    WANT(ro_fault_count(call_to_fail) > nth_to_fail);
    ro_fault_set(RO_SYS_COUNT, 0, 0, false);
    WANT(is_null(1) && is_null(2) && output.null_fd > 2);
    return 0;
}

static size_t
calls_in_all(ro_sys call)
{
    ro_output output;
    ro_fault_set(RO_SYS_COUNT, 0, 0, false);
    return ro_output_take(&output) ? ro_fault_count(call) : 0;
}

static int
body_count(void)
{
    return (int)calls_in_all(call_to_fail);
}

static void
test_refusals(void)
{
    static const struct {
        ro_sys call;
        int refuses;
        int repeats; /* 0: none */
    } rows[] = {
        {RO_SYS_FCNTL, EMFILE, 0},
        {RO_SYS_OPEN, ENFILE, EINTR},
        {RO_SYS_DUP2, EIO, EINTR},
        {RO_SYS_DUP2, EIO, EBUSY},
    };
    for (size_t i = 0; i < 8 * sizeof(rows) / sizeof(rows[0]); i++) {
        closed_mask = (unsigned)i % 8;
        call_to_fail = rows[i / 8].call;
        size_t calls = (size_t)run(body_count);
        CHECK(calls > 0 && calls < 10);
        for (nth_to_fail = 1; nth_to_fail <= calls; nth_to_fail++) {
            error_to_have = rows[i / 8].refuses;
            CHECK(run(body_refused) == 0);
            error_to_have = rows[i / 8].repeats;
            CHECK(error_to_have == 0 || run(body_repeated) == 0);
        }
    }
    closed_mask = 0;
}

/* ---- writing ---- */

static char large[3 * CHUNK + 1];

static bool
arrived(size_t len)
{
    static char seen[sizeof(large)];
    size_t got = 0;
    while (got < len) {
        ssize_t n = read(READER, seen + got, len - got);
        if (n <= 0) {
            return false;
        }
        got += (size_t)n;
    }
    return got == len && memcmp(seen, large, len) == 0;
}

static int64_t
soon(void)
{
    return ro_monotonic_ms() + 20000;
}

/* As few writes as chunks, none longer than a pipe takes at once. */
static int
body_chunks(void)
{
    static const struct {
        size_t len;
        size_t writes;
    } rows[] = {
        {0, 0},         {1, 1},         {CHUNK, 1},
        {CHUNK + 1, 2}, {2 * CHUNK, 2}, {sizeof(large), 4},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ro_fault_set(RO_SYS_COUNT, 0, 0, false);
        ro_slice bytes = ro_slice_of(large, rows[i].len);
        WANT(ro_output_write(WRITER, bytes, soon()));
        WANT(ro_fault_count(RO_SYS_WRITE) == rows[i].writes);
        WANT(ro_fault_count(RO_SYS_POLL) == rows[i].writes);
        WANT(arrived(rows[i].len));
    }
    return 0;
}

/* What is no failure of the descriptor is tried again, the same bytes. */
static int
body_again(void)
{
    static const struct {
        ro_sys call;
        int error;
    } rows[] = {
        {RO_SYS_WRITE, EINTR},
        {RO_SYS_WRITE, EAGAIN},
        {RO_SYS_POLL, EINTR},
        {RO_SYS_POLL, ENOMEM},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (size_t nth = 1; nth <= 4; nth++) {
            ro_fault_set(rows[i].call, nth, rows[i].error, false);
            WANT(ro_output_write(WRITER, ro_slice_of(large, sizeof(large)),
                                 soon()));
            WANT(arrived(sizeof(large)));
            /* after a poll that failed it writes all the same */
            bool twice = rows[i].call == RO_SYS_WRITE;
            WANT(ro_fault_count(RO_SYS_POLL) == (twice ? 5 : 4));
        }
    }
    return 0;
}

static int
body_failing(void)
{
    ro_fault_set(RO_SYS_WRITE, 2, EIO, false);
    WANT(!ro_output_write(WRITER, ro_slice_of(large, sizeof(large)), soon()));
    WANT(ro_fault_count(RO_SYS_WRITE) == 2);
    WANT(arrived(CHUNK));
    return 0;
}

/* No time, no byte; and a reader that does not read costs the time alone. */
static int
body_out_of_time(void)
{
    ro_slice bytes = ro_slice_of(large, 1);
    ro_fault_set(RO_SYS_COUNT, 0, 0, false);
    WANT(!ro_output_write(WRITER, bytes, ro_monotonic_ms()));
    WANT(!ro_output_write(WRITER, bytes, ro_monotonic_ms() - 1));
    WANT(ro_fault_count(RO_SYS_WRITE) == 0);

    int64_t until = ro_monotonic_ms() + 100;
    while (ro_output_write(WRITER, ro_slice_of(large, CHUNK), until)) {
    }
    WANT(ro_monotonic_ms() >= until);
    size_t writes = ro_fault_count(RO_SYS_WRITE);
    WANT(writes > 0);
    for (size_t i = 0; i < writes; i++) {
        WANT(arrived(CHUNK));
    }
    return 0;
}

/* A time further away than poll can wait. */
static int
body_far(void)
{
    WANT(ro_output_write(WRITER, ro_slice_of(large, 1), INT64_MAX));
    WANT(arrived(1));
    return 0;
}

static void
test_writing(void)
{
    for (size_t i = 0; i < sizeof(large); i++) {
        large[i] = (char)('a' + i % 23);
    }
    CHECK(run(body_chunks) == 0);
    CHECK(run(body_again) == 0);
    CHECK(run(body_failing) == 0);
    CHECK(run(body_out_of_time) == 0);
    CHECK(run(body_far) == 0);
}

int
main(void)
{
    (void)signal(SIGPIPE, SIG_IGN);
    test_taking();
    test_refusals();
    test_writing();
    return check_end();
}
