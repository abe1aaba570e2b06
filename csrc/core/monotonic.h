/* The monotonic clock, and waiting by it. */
#ifndef RO_CORE_MONOTONIC_H
#define RO_CORE_MONOTONIC_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Milliseconds since some start. */
int64_t ro_monotonic_ms(void);

/* 0, or an errno. ro_cond_wait_until needs a condition made here. */
int ro_cond_init(pthread_cond_t *condition);
/* As pthread_cond_wait, until that time at the latest; false when it has
 * come. Wakes up for nothing, too. */
bool ro_cond_wait_until(pthread_cond_t *condition, pthread_mutex_t *lock,
                        int64_t at_ms);

#endif
