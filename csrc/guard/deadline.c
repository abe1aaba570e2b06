#include "guard/deadline.h"

#include "guard/guard.h"

#define NEVER INT64_MAX

static int
clamp_ms(int64_t ms)
{
    if (ms < 0) {
        return 0;
    }
    return ms > INT32_MAX ? INT32_MAX : (int)ms;
}

/* Only before the first deadline: then neither has come. */
static void
schedule(ro_deadlines *queue, int deadline_ms)
{
    queue->first = queue->start + deadline_ms;
    queue->end = queue->first + queue->grace;
    queue->at[RO_DUE_CANCEL] = queue->first;
    queue->at[RO_DUE_END] = queue->end;
}

void
ro_deadlines_init(ro_deadlines *queue, int64_t start, int deadline_ms,
                  int grace_ms)
{
    queue->start = start;
    queue->grace = grace_ms;
    for (int i = 0; i < RO_DUE_COUNT; i++) {
        queue->at[i] = NEVER;
    }
    schedule(queue, deadline_ms);
}

bool
ro_deadlines_lower(ro_deadlines *queue, int64_t now, int deadline_ms)
{
    int64_t first = queue->start + deadline_ms;
    if (deadline_ms < 0 || now >= queue->first || first >= queue->first) {
        return false;
    }
    schedule(queue, deadline_ms);
    return true;
}

void
ro_deadlines_put(ro_deadlines *queue, ro_due due, int64_t at)
{
    queue->at[due] = at;
}

static ro_due
earliest(const ro_deadlines *queue)
{
    int best = 0;
    for (int i = 1; i < RO_DUE_COUNT; i++) {
        if (queue->at[i] < queue->at[best]) {
            best = i;
        }
    }
    return queue->at[best] == NEVER ? RO_DUE_COUNT : (ro_due)best;
}

ro_due
ro_deadlines_take(ro_deadlines *queue, int64_t now)
{
    ro_due due = earliest(queue);
    if (due == RO_DUE_COUNT || queue->at[due] > now) {
        return RO_DUE_COUNT;
    }
    queue->at[due] = NEVER;
    if (due == RO_DUE_END) {
        /* The rest counts from now and not from when the end was due: a
         * process that was stopped in between still gets its time. */
        queue->end = now;
        queue->at[RO_DUE_TAKEOVER] = now + RO_GUARD_TAKEOVER_MS;
        queue->at[RO_DUE_LAST] = now + RO_GUARD_END_MS;
    }
    return due;
}

int
ro_deadlines_wait(const ro_deadlines *queue, int64_t now)
{
    ro_due due = earliest(queue);
    return due == RO_DUE_COUNT ? -1 : clamp_ms(queue->at[due] - now);
}

int
ro_deadlines_left(const ro_deadlines *queue, int64_t now)
{
    return clamp_ms(queue->first - now);
}
