#include "net/timer.h"

#include "core/alloc.h"

struct ro_timer {
    int64_t due_ms;
    uint64_t serial; /* of two with the same time the older one is first */
    size_t at;
    void (*fn)(void *ctx);
    void *ctx;
};

static bool
earlier(const ro_timer *a, const ro_timer *b)
{
    if (a->due_ms != b->due_ms) {
        return a->due_ms < b->due_ms;
    }
    return a->serial < b->serial;
}

static void
place(ro_timers *timers, size_t at, ro_timer *timer)
{
    timers->heap[at] = timer;
    timer->at = at;
}

static void
sift_up(ro_timers *timers, size_t at, ro_timer *timer)
{
    while (at > 0) {
        size_t parent = (at - 1) / 2;
        if (!earlier(timer, timers->heap[parent])) {
            break;
        }
        place(timers, at, timers->heap[parent]);
        at = parent;
    }
    place(timers, at, timer);
}

static void
sift_down(ro_timers *timers, size_t at, ro_timer *timer)
{
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= timers->len) {
            break;
        }
        if (child + 1 < timers->len
            && earlier(timers->heap[child + 1], timers->heap[child])) {
            child++;
        }
        if (!earlier(timers->heap[child], timer)) {
            break;
        }
        place(timers, at, timers->heap[child]);
        at = child;
    }
    place(timers, at, timer);
}

ro_timer *
ro_timers_add(ro_timers *timers, int64_t due_ms, void (*fn)(void *ctx),
              void *ctx)
{
    if (timers->len == timers->cap) {
        size_t cap = timers->cap ? timers->cap * 2 : 16;
        ro_timer **heap = ro_realloc(timers->heap, cap * sizeof(*heap));
        if (heap == NULL) {
            return NULL;
        }
        timers->heap = heap;
        timers->cap = cap;
    }
    ro_timer *timer = ro_calloc(1, sizeof(*timer));
    if (timer == NULL) {
        return NULL;
    }
    timer->due_ms = due_ms;
    timer->serial = timers->serial++;
    timer->fn = fn;
    timer->ctx = ctx;
    sift_up(timers, timers->len++, timer);
    return timer;
}

static void
take_out(ro_timers *timers, ro_timer *timer)
{
    size_t at = timer->at;
    ro_timer *last = timers->heap[--timers->len];
    if (last != timer) {
        /* The last one comes from another branch and may belong above. */
        if (at > 0 && earlier(last, timers->heap[(at - 1) / 2])) {
            sift_up(timers, at, last);
        }
        else {
            sift_down(timers, at, last);
        }
    }
    ro_free(timer);
}

void
ro_timers_remove(ro_timers *timers, ro_timer *timer)
{
    take_out(timers, timer);
}

int64_t
ro_timers_wait(const ro_timers *timers, int64_t now_ms)
{
    if (timers->len == 0) {
        return -1;
    }
    int64_t wait = timers->heap[0]->due_ms - now_ms;
    return wait > 0 ? wait : 0;
}

bool
ro_timers_take(ro_timers *timers, int64_t now_ms, void (**fn)(void *ctx),
               void **ctx)
{
    if (ro_timers_wait(timers, now_ms) != 0) {
        return false;
    }
    ro_timer *timer = timers->heap[0];
    /* It is gone before it is called: its function may add and stop timers. */
    *fn = timer->fn;
    *ctx = timer->ctx;
    take_out(timers, timer);
    return true;
}

void
ro_timers_free(ro_timers *timers)
{
    for (size_t i = 0; i < timers->len; i++) {
        ro_free(timers->heap[i]);
    }
    ro_free(timers->heap);
    timers->heap = NULL;
    timers->len = 0;
    timers->cap = 0;
}
