#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include "guard/state.h"
#include "guard/sys.h"

/* bytes: one read */
#define CHUNK 65536
/* milliseconds: between two looks when poll is no help */
#define RETRY_MS 5

typedef enum wait_result {
    WAIT_DATA,
    WAIT_TIMEOUT,
    WAIT_STOPPING,
} wait_result;

/* Until descriptor 0 has bytes or its end, or for a moment when poll fails. */
static wait_result
wait_for_input(ro_guard *guard)
{
    for (;;) {
        struct pollfd fds[] = {
            {.fd = STDIN_FILENO, .events = POLLIN},
            {.fd = guard->cancel_fd, .events = POLLIN},
            {.fd = guard->stop_fd, .events = POLLIN},
        };
        /* No timeout: cancel_fd becomes readable when the deadline comes. */
        int ready = RO_SYS(POLL, poll(fds, 3, -1), -1);
        if (ro_guard_stopping(guard)) {
            return WAIT_STOPPING;
        }
        if (ro_guard_ms_left(guard) == 0) {
            return WAIT_TIMEOUT;
        }
        if (ready > 0 && fds[0].revents != 0) {
            return WAIT_DATA;
        }
        if (ready < 0) {
            ro_clock_sleep(RETRY_MS);
        }
    }
}

static ro_guard_input
read_all(ro_guard *guard, size_t max, ro_buf *out, char *chunk)
{
    for (;;) {
        wait_result waited = wait_for_input(guard);
        if (waited != WAIT_DATA) {
            return waited == WAIT_TIMEOUT ? RO_INPUT_TIMEOUT
                                          : RO_INPUT_STOPPING;
        }
        /* One byte over the bound is read, to tell "as much as is allowed"
         * from "too much". */
        size_t room = max - out->len + 1;
        size_t want = room < CHUNK ? room : CHUNK;
        ssize_t n = RO_SYS(READ, read(STDIN_FILENO, chunk, want), -1);
        if (n == 0) {
            return out->len == 0 ? RO_INPUT_MISSING : RO_INPUT_OK;
        }
        if (n < 0) {
            if (errno != EINTR && errno != EAGAIN) {
                return RO_INPUT_BROKEN;
            }
            if (errno == EAGAIN) {
                ro_clock_sleep(1); /* someone else was faster */
            }
            continue;
        }
        if ((size_t)n == room) {
            return RO_INPUT_TOO_LARGE;
        }
        switch (ro_buf_append(out, chunk, (size_t)n)) {
        case RO_BUF_OK:
            break;
        case RO_BUF_TOO_LARGE:
            return RO_INPUT_TOO_LARGE;
        case RO_BUF_NO_MEMORY:
            return RO_INPUT_NO_MEMORY;
        }
    }
}

ro_guard_input
ro_guard_read_stdin(ro_guard *guard, size_t max, ro_buf *out)
{
    char chunk[CHUNK];
    ro_buf_clear(out);
    if (guard->output.closed[STDIN_FILENO] || isatty(STDIN_FILENO)) {
        return RO_INPUT_MISSING;
    }
    ro_guard_input result = read_all(guard, max, out, chunk);
    if (result != RO_INPUT_OK) {
        ro_buf_clear(out);
    }
    return result;
}
