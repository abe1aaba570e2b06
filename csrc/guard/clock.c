#include "guard/clock.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "guard/procs.h"
#include "guard/sys.h"

int64_t
ro_clock_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void
ro_clock_nap(int ms)
{
    struct timespec wait = {ms / 1000, (ms % 1000) * 1000000L};
    (void)nanosleep(&wait, NULL);
}

uint64_t
ro_clock_boot_ticks(void)
{
    struct timespec now;
    long hz = sysconf(_SC_CLK_TCK);
    if (hz <= 0
        || RO_SYS(CLOCK_BOOTTIME, clock_gettime(CLOCK_BOOTTIME, &now), -1)
               != 0) {
        return 0;
    }
    return (uint64_t)now.tv_sec * (uint64_t)hz
           + (uint64_t)now.tv_nsec / (1000000000u / (uint64_t)hz);
}

int64_t
ro_clock_age(void)
{
    char stat[1024];
    ro_proc self;
    uint64_t boot = ro_clock_boot_ticks();
    ssize_t len
        = ro_proc_read(AT_FDCWD, "/proc/self", "stat", stat, sizeof(stat));
    if (boot == 0 || len <= 0
        || !ro_proc_parse_stat(ro_slice_of(stat, (size_t)len), &self)) {
        return -1;
    }
    return ro_clock_age_ms(self.start, boot, sysconf(_SC_CLK_TCK));
}

int64_t
ro_clock_age_ms(uint64_t start_ticks, uint64_t boot_ticks,
                long ticks_per_second)
{
    if (start_ticks > boot_ticks || ticks_per_second <= 0) {
        return -1;
    }
    uint64_t ticks = boot_ticks - start_ticks;
    uint64_t hz = (uint64_t)ticks_per_second;
    if (ticks / hz > INT32_MAX) {
        return INT64_MAX / 1000; /* long-lived by any measure */
    }
    return (int64_t)(ticks * 1000 / hz);
}

int64_t
ro_clock_start(int64_t now, int64_t age_ms, int64_t max_age_ms)
{
    if (age_ms < 0 || age_ms > max_age_ms) {
        return now;
    }
    return now - age_ms;
}
