#include "core/monotonic.h"

#include <time.h>

int64_t
ro_monotonic_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int
ro_cond_init(pthread_cond_t *condition)
{
    pthread_condattr_t monotonic;
    int failed = pthread_condattr_init(&monotonic);
    if (failed != 0) {
        return failed;
    }
    failed = pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    if (failed == 0) {
        failed = pthread_cond_init(condition, &monotonic);
    }
    (void)pthread_condattr_destroy(&monotonic);
    return failed;
}

bool
ro_cond_wait_until(pthread_cond_t *condition, pthread_mutex_t *lock,
                   int64_t at_ms)
{
    const struct timespec at
        = {(time_t)(at_ms / 1000), (long)(at_ms % 1000) * 1000000};
    return pthread_cond_timedwait(condition, lock, &at) == 0;
}
