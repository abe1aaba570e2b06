/* Each allocation of a piece of work fails in turn. */
#ifndef RO_TEST_FAILING_H
#define RO_TEST_FAILING_H

#include <stdbool.h>

#include "check.h"
#include "core/alloc.h"

/* Runs work(ctx), true for a whole run, until one passes in which nothing
 * failed; nothing may be left behind by any. How many runs that took. */
static inline size_t
check_failing(bool (*work)(void *ctx), void *ctx)
{
    size_t live_before = ro_alloc_live();
    size_t nth = 0;
    bool whole = false;
    while (!whole && nth < 200) {
        ro_alloc_fail_at(++nth, 0);
        whole = work(ctx);
        whole = whole && ro_alloc_count() < nth;
        ro_alloc_fail_at(0, 0);
        CHECK(ro_alloc_live() == live_before);
    }
    CHECK(whole);
    return nth;
}

#endif
