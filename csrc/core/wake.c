#include "core/wake.h"

#include <errno.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

int
ro_wake_new(void)
{
    return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

void
ro_wake_raise(int fd)
{
    uint64_t one = 1;
    /* EAGAIN: the counter is full, so the descriptor is readable. */
    while (write(fd, &one, sizeof(one)) < 0 && errno == EINTR) {
    }
}

void
ro_wake_lower(int fd)
{
    uint64_t count;
    /* EAGAIN: it was not readable. */
    while (read(fd, &count, sizeof(count)) < 0 && errno == EINTR) {
    }
}
