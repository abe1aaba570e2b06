/* Where the deadlines' clock starts. */
#include "check.h"

#include "guard/clock.h"
#include "guard/sys.h"

#include <errno.h>
#include <time.h>

static void
test_age_rule(void)
{
    CHECK(ro_clock_age_ms(1000, 1000, 100) == 0);
    CHECK(ro_clock_age_ms(1000, 1001, 100) == 10);
    CHECK(ro_clock_age_ms(1000, 2500, 100) == 15000);
    CHECK(ro_clock_age_ms(0, 1, 1000) == 1);
    CHECK(ro_clock_age_ms(1, 2, 250) == 4);
    /* a start ahead of now (another time namespace) is unknown */
    CHECK(ro_clock_age_ms(1001, 1000, 100) == -1);
    CHECK(ro_clock_age_ms(1, 2, 0) == -1);
    CHECK(ro_clock_age_ms(1, 2, -1) == -1);
    /* does not wrap */
    CHECK(ro_clock_age_ms(0, UINT64_MAX, 100) > 15000);
    CHECK(ro_clock_age_ms(0, (uint64_t)INT32_MAX * 100, 100)
          == (int64_t)INT32_MAX * 1000);
}

static void
test_start_rule(void)
{
    CHECK(ro_clock_start(50000, 120, 15000) == 49880);
    CHECK(ro_clock_start(50000, 0, 15000) == 50000);
    CHECK(ro_clock_start(50000, 15000, 15000) == 35000);
    /* an image that a long-lived process exec'ed */
    CHECK(ro_clock_start(50000, 15001, 15000) == 50000);
    CHECK(ro_clock_start(50000, INT64_MAX / 1000, 15000) == 50000);
    CHECK(ro_clock_start(50000, -1, 15000) == 50000);
    /* a machine that booted a moment ago */
    CHECK(ro_clock_start(40, 120, 15000) == -80);
}

static void
test_this_process(void)
{
    int64_t before = ro_clock_now();
    int64_t age = ro_clock_age();
    CHECK(age >= 0 && age < 60000);
    ro_clock_nap(30);
    CHECK(ro_clock_now() - before >= 30);
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
    test_this_process();
    test_faults();
    return check_end();
}
