#include "guard/output.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "guard/clock.h"
#include "guard/sys.h"

/* bytes: what a pipe that polls writable takes without blocking (PIPE_BUF).
 * The descriptor itself stays blocking, because its flags are shared with
 * whoever else has it open. */
#define CHUNK 4096
/* milliseconds: between two looks when poll is no help */
#define RETRY_MS 5

static int
open_null(int flags)
{
    int fd;
    do {
        fd = RO_SYS(OPEN, open("/dev/null", O_RDWR | flags), -1);
    } while (fd == -1 && errno == EINTR);
    return fd;
}

static int
point(int from, int to)
{
    int fd;
    do {
        fd = RO_SYS(DUP2, dup2(from, to), -1);
    } while (fd == -1 && (errno == EINTR || errno == EBUSY));
    return fd;
}

static int
copy_high(int fd)
{
    return RO_SYS(FCNTL, fcntl(fd, F_DUPFD_CLOEXEC, RO_OUTPUT_LOWEST), -1);
}

/* Opens the null device where the descriptor is closed, or else the next
 * socket of the process would become descriptor 1. Children may inherit it.
 * A descriptor that exec would close did not come with exec: something in
 * this process was opened into the gap, and the stream itself was closed. */
static bool
settle(int fd, bool *closed)
{
    int flags = RO_SYS(FCNTL, fcntl(fd, F_GETFD), -1);
    if (flags != -1) {
        *closed = (flags & FD_CLOEXEC) != 0;
        return true;
    }
    if (errno != EBADF) {
        return false;
    }
    *closed = true;
    int null = open_null(0);
    if (null == -1 || null == fd) {
        return null != -1;
    }
    bool pointed = point(null, fd) == fd;
    (void)close(null);
    return pointed;
}

bool
ro_output_take(ro_output *output)
{
    *output = (ro_output){.fd = -1, .error_fd = -1, .null_fd = -1};
    for (int fd = 0; fd < 3; fd++) {
        if (!settle(fd, &output->closed[fd])) {
            return false;
        }
    }
    output->null_fd = open_null(O_CLOEXEC);
    if (output->null_fd == -1) {
        return false;
    }
    if (!output->closed[1]) {
        output->fd = copy_high(1);
        if (output->fd == -1) {
            return false;
        }
    }
    if (!output->closed[2]) {
        output->error_fd = copy_high(2);
        if (output->error_fd == -1) {
            return false;
        }
    }
    return point(output->null_fd, 1) == 1 && point(output->null_fd, 2) == 2;
}

static void
drop(int *fd)
{
    if (*fd != -1) {
        (void)close(*fd);
        *fd = -1;
    }
}

void
ro_output_undo(ro_output *output)
{
    if (output->fd != -1) {
        (void)dup2(output->fd, 1);
    }
    if (output->error_fd != -1) {
        (void)dup2(output->error_fd, 2);
    }
    drop(&output->fd);
    drop(&output->error_fd);
    drop(&output->null_fd);
}

void
ro_output_keep(ro_output *output)
{
    drop(&output->error_fd);
}

bool
ro_output_write(int fd, ro_slice bytes, int64_t until)
{
    size_t done = 0;
    while (done < bytes.len) {
        int64_t left = until - ro_monotonic_ms();
        struct pollfd ready = {.fd = fd, .events = POLLOUT};
        if (left <= 0) {
            return false;
        }
        int timeout = left > INT32_MAX ? INT32_MAX : (int)left;
        int polled = RO_SYS(POLL, poll(&ready, 1, timeout), -1);
        if (polled == 0) {
            continue;
        }
        if (polled == -1) {
            /* write may block now, and the watcher knows */
            ro_clock_sleep(RETRY_MS);
        }
        size_t len = bytes.len - done < CHUNK ? bytes.len - done : CHUNK;
        ssize_t n = RO_SYS(WRITE, write(fd, bytes.ptr + done, len), -1);
        if (n == -1 && errno != EAGAIN && errno != EINTR) {
            return false;
        }
        if (n > 0) {
            done += (size_t)n;
        }
        else {
            ro_clock_sleep(1); /* someone else was faster */
        }
    }
    return true;
}
