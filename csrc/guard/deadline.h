/* The guard's schedule: a small queue of points in time on a clock that the
 * caller reads. Milliseconds of CLOCK_MONOTONIC in the product. Not thread
 * safe. */
#ifndef RO_GUARD_DEADLINE_H
#define RO_GUARD_DEADLINE_H

#include <stdbool.h>
#include <stdint.h>

typedef enum ro_due {
    RO_DUE_CANCEL,   /* first deadline: the work is cancelled */
    RO_DUE_END,      /* the timeout envelope, if no other was chosen */
    RO_DUE_TAKEOVER, /* queued when the end comes: the watcher waits no
                        longer for the finisher */
    RO_DUE_LAST,     /* queued when the end comes: the process goes,
                        whatever it is doing */
    RO_DUE_HOOK,     /* the exit hook overran; queued when it starts */
    RO_DUE_COUNT,
} ro_due;

typedef struct ro_deadlines {
    int64_t start; /* when the clock started */
    int64_t first; /* RO_DUE_CANCEL's time, also after it came */
    int64_t end;   /* RO_DUE_END's time; after it came, the time at which
                      it was taken */
    int64_t grace;
    int64_t at[RO_DUE_COUNT]; /* INT64_MAX: not queued */
} ro_deadlines;

void ro_deadlines_init(ro_deadlines *queue, int64_t start, int deadline_ms,
                       int grace_ms);
/* See ro_guard_set_deadline. */
bool ro_deadlines_lower(ro_deadlines *queue, int64_t now, int deadline_ms);
void ro_deadlines_put(ro_deadlines *queue, ro_due due, int64_t at);
/* The earliest that is due, out of the queue; RO_DUE_COUNT: none is. */
ro_due ro_deadlines_take(ro_deadlines *queue, int64_t now);
/* Milliseconds to the next, 0 when one is due, -1 when the queue is empty.
 * Never more than INT32_MAX. */
int ro_deadlines_wait(const ro_deadlines *queue, int64_t now);
/* Milliseconds to the first deadline, never negative. */
int ro_deadlines_left(const ro_deadlines *queue, int64_t now);

#endif
