/* The worker's own time, and its next turn. */
#ifndef RO_TEST_WORKER_TIME_H
#define RO_TEST_WORKER_TIME_H

#include <semaphore.h>

#include "net/net.h"

struct passing {
    ro_net *net;
    int ms;
    sem_t passed;
};

static inline void
time_has_passed(void *ctx)
{
    struct passing *passing = ctx;
    (void)sem_post(&passing->passed);
}

static inline void
let_time_pass(void *ctx)
{
    struct passing *passing = ctx;
    if (ro_net_after(passing->net, passing->ms, time_has_passed, passing)
        == NULL) {
        time_has_passed(passing);
    }
}

/* Returns when a timer of the worker has fired that was set for ms: every
 * timer that was due before it has fired, too. */
static inline void
worker_passes(ro_net *net, int ms)
{
    struct passing passing = {.net = net, .ms = ms};
    (void)sem_init(&passing.passed, 0, 0);
    if (ro_net_run(net, let_time_pass, &passing) == RO_NET_OK) {
        while (sem_wait(&passing.passed) != 0) {
        }
    }
    (void)sem_destroy(&passing.passed);
}

static inline void
wait_for_post(void *ctx)
{
    while (sem_wait(ctx) != 0) {
    }
}

/* The worker stands still until go is posted: what is asked of it meanwhile
 * is done in one turn, so that no time passes in between. */
static inline void
worker_holds(ro_net *net, sem_t *go)
{
    (void)sem_init(go, 0, 0);
    if (ro_net_run(net, wait_for_post, go) != RO_NET_OK) {
        abort();
    }
}

#endif
