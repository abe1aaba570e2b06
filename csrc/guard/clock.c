#include "guard/clock.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "guard/procs.h"
#include "guard/sys.h"

#define NS_PER_S 1000000000u
#define NS_PER_MS 1000000u

void
ro_clock_sleep(int ms)
{
    struct timespec wait = {ms / 1000, (ms % 1000) * 1000000L};
    (void)nanosleep(&wait, NULL);
}

static bool
boot_time(struct timespec *now)
{
    return RO_SYS(CLOCK_BOOTTIME, clock_gettime(CLOCK_BOOTTIME, now), -1) == 0;
}

uint64_t
ro_clock_boot_ticks(void)
{
    struct timespec now;
    long hz = sysconf(_SC_CLK_TCK);
    if (hz <= 0 || !boot_time(&now)) {
        return 0;
    }
    return (uint64_t)now.tv_sec * (uint64_t)hz
           + (uint64_t)now.tv_nsec / (NS_PER_S / (uint64_t)hz);
}

int64_t
ro_clock_age(void)
{
    char stat[1024];
    ro_proc self;
    struct timespec now;
    ssize_t len
        = ro_proc_read(AT_FDCWD, "/proc/self", "stat", stat, sizeof(stat));
    /* The time comes last: the caller reads the other clock next. */
    if (len <= 0 || !ro_proc_parse_stat(ro_slice_of(stat, (size_t)len), &self)
        || !boot_time(&now)) {
        return -1;
    }
    uint64_t boot_ns = (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
    return ro_clock_age_ms(self.start, boot_ns, sysconf(_SC_CLK_TCK));
}

int64_t
ro_clock_age_ms(uint64_t start_ticks, uint64_t boot_ns, long ticks_per_second)
{
    if (ticks_per_second <= 0) {
        return -1;
    }
    uint64_t hz = (uint64_t)ticks_per_second;
    uint64_t seconds = start_ticks / hz;
    uint64_t rest = start_ticks % hz;
    if (seconds > boot_ns / NS_PER_S || rest > UINT64_MAX / NS_PER_S - 1) {
        return -1;
    }
    uint64_t since_second = boot_ns - seconds * NS_PER_S;
    if (rest * NS_PER_S / hz > since_second) {
        return -1;
    }
    /* the next tick, rounded up: the process started before it */
    uint64_t tick_end = (rest + 1) * NS_PER_S / hz + 1;
    return tick_end >= since_second
               ? 0
               : (int64_t)((since_second - tick_end) / NS_PER_MS);
}

int64_t
ro_clock_start(int64_t now, int64_t age_ms, int64_t max_age_ms)
{
    if (age_ms < 0 || age_ms > max_age_ms) {
        return now + 1;
    }
    return now + 1 - age_ms;
}
