/* Where the deadlines' clock starts. */
#include "check.h"

#include "guard/clock.h"
#include "guard/sys.h"

#include <errno.h>
#include <time.h>

#define MS UINT64_C(1000000)
#define TICK (10 * MS)
#define SECOND (1000 * MS)

static void
test_age_rule(void)
{
    /* counted from the end of the start's tick */
    CHECK(ro_clock_age_ms(1000, 1000 * TICK, 100) == 0);
    CHECK(ro_clock_age_ms(1000, 1001 * TICK + 1, 100) == 0);
    CHECK(ro_clock_age_ms(1000, 1001 * TICK + MS, 100) == 0);
    CHECK(ro_clock_age_ms(1000, 1001 * TICK + MS + 1, 100) == 1);
    CHECK(ro_clock_age_ms(1000, 2501 * TICK + 1, 100) == 15000);
    CHECK(ro_clock_age_ms(0, 2 * MS + 1, 1000) == 1);
    CHECK(ro_clock_age_ms(1, 12 * MS + 1, 250) == 4);
    /* a tick that is no whole number of nanoseconds */
    CHECK(ro_clock_age_ms(1023, SECOND + MS, 1024) == 0);
    CHECK(ro_clock_age_ms(1023, SECOND + MS + 1, 1024) == 1);
    /* a start ahead of now (another time namespace) is unknown */
    CHECK(ro_clock_age_ms(1001, 1001 * TICK - 1, 100) == -1);
    CHECK(ro_clock_age_ms(1001, 1001 * TICK, 100) == 0);
    CHECK(ro_clock_age_ms(UINT64_MAX, UINT64_MAX, 1) == -1);
    CHECK(ro_clock_age_ms(1, 2 * TICK, 0) == -1);
    CHECK(ro_clock_age_ms(1, 2 * TICK, -1) == -1);
    /* does not wrap */
    CHECK(ro_clock_age_ms(0, UINT64_MAX, 100) > 15000);
    CHECK(ro_clock_age_ms(UINT64_MAX / SECOND * 100, UINT64_MAX, 100) >= 0);
}

static void
test_start_rule(void)
{
    CHECK(ro_clock_start(50000, 120, 15000) == 49881);
    CHECK(ro_clock_start(50000, 0, 15000) == 50001);
    CHECK(ro_clock_start(50000, 15000, 15000) == 35001);
    /* an image that a long-lived process exec'ed */
    CHECK(ro_clock_start(50000, 15001, 15000) == 50001);
    CHECK(ro_clock_start(50000, INT64_MAX / 1000, 15000) == 50001);
    CHECK(ro_clock_start(50000, -1, 15000) == 50001);
    /* a machine that booted a moment ago */
    CHECK(ro_clock_start(40, 120, 15000) == -79);
}

/* The first deadline on a clock that the test moves: the kernel's tick and
 * both clocks' phases are whatever they are, the end comes no sooner than
 * 15 s after the true start and at most a tick and 2 ms later. */
static void
test_never_early(void)
{
    static const long rates[] = {24, 100, 128, 250, 1000, 1024};
    static const uint64_t ages[] = {0, 1, 9 * MS, 150 * MS, 14999 * MS};
    /* what CLOCK_MONOTONIC is behind CLOCK_BOOTTIME: time asleep */
    static const uint64_t behind[] = {0, 1, 999999, 12345678901};
    int64_t least = INT64_MAX;
    for (size_t r = 0; r < 6; r++) {
        uint64_t hz = (uint64_t)rates[r];
        int64_t most = (int64_t)(SECOND / hz + 2 * MS);
        for (uint64_t step = 0; step < 997; step++) {
            uint64_t born = 77 * SECOND + step * 1234567;
            uint64_t ticks = born / SECOND * hz + born % SECOND * hz / SECOND;
            for (size_t a = 0; a < 5; a++) {
                for (size_t b = 0; b < 4; b++) {
                    uint64_t now = born + ages[a];
                    int64_t age = ro_clock_age_ms(ticks, now, rates[r]);
                    int64_t start = ro_clock_start(
                        (int64_t)((now - behind[b]) / MS), age, 15000);
                    int64_t due = (start + 15000) * (int64_t)MS;
                    int64_t late = due - (int64_t)(born - behind[b])
                                   - (int64_t)(15000 * MS);
                    CHECK(age >= 0);
                    CHECK(late >= 0 && late <= most);
                    least = late < least ? late : least;
                }
            }
        }
    }
    CHECK(least < (int64_t)MS); /* the bound is not met by a margin */
}

static void
test_this_process(void)
{
    int64_t before = ro_monotonic_ms();
    int64_t age = ro_clock_age();
    CHECK(age >= 0 && age < 60000);
    ro_clock_sleep(30);
    CHECK(ro_monotonic_ms() - before >= 30);
    CHECK(ro_clock_age() >= age + 10);
    CHECK(ro_clock_boot_ticks() > 0);
}

static void
test_faults(void)
{
    static const ro_sys calls[]
        = {RO_SYS_CLOCK_BOOTTIME, RO_SYS_OPENAT, RO_SYS_READ};
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        ro_fault_set(calls[i], 1, EIO, true);
        CHECK(ro_clock_age() == -1);
        CHECK(ro_fault_count(calls[i]) > 0);
    }
    ro_fault_set(RO_SYS_READ, 1, EINTR, false);
    CHECK(ro_clock_age() >= 0);
    ro_fault_set(RO_SYS_OPENAT, 1, EINTR, false);
    CHECK(ro_clock_age() >= 0);
    ro_fault_set(RO_SYS_COUNT, 0, 0, false);
}

int
main(void)
{
    test_age_rule();
    test_start_rule();
    test_never_early();
    test_this_process();
    test_faults();
    return check_end();
}
