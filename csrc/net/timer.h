/* A queue of deadlines: a binary heap that knows no clock and no thread. */
#ifndef RO_NET_TIMER_H
#define RO_NET_TIMER_H

#include "net/net.h"

typedef struct ro_timers {
    ro_timer **heap;
    size_t len;
    size_t cap;
    uint64_t serial;
} ro_timers;

/* NULL when out of memory. The queue owns the timer. */
ro_timer *ro_timers_add(ro_timers *timers, int64_t due_ms,
                        void (*fn)(void *ctx), void *ctx);
/* The timer must still be in the queue; it is freed. */
void ro_timers_remove(ro_timers *timers, ro_timer *timer);
/* Milliseconds until the first is due, 0 when one is; -1: no timer. */
int64_t ro_timers_wait(const ro_timers *timers, int64_t now_ms);
/* Takes out the first one that is due; false when none is. */
bool ro_timers_take(ro_timers *timers, int64_t now_ms, void (**fn)(void *ctx),
                    void **ctx);
void ro_timers_free(ro_timers *timers);

#endif
