/* The time, and the time at which the process started. */
#ifndef RO_GUARD_CLOCK_H
#define RO_GUARD_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "core/monotonic.h"

/* Wait that long; a signal may end it early. */
void ro_clock_sleep(int ms);

/* Clock ticks since boot, the unit of a process's start; 0: unknown. */
uint64_t ro_clock_boot_ticks(void);

/* Milliseconds since the process started, by /proc/self/stat and
 * CLOCK_BOOTTIME; never more than the true age. -1: unknown. Read
 * ro_monotonic_ms right after it. */
int64_t ro_clock_age(void);

/* The rule of ro_clock_age. The kernel tells the tick in which the process
 * started (10 ms as a rule), so the age counts from that tick's end: at most
 * a tick and 1 ms too little, never too much. boot_ns: CLOCK_BOOTTIME. -1
 * for a start ahead of it. */
int64_t ro_clock_age_ms(uint64_t start_ticks, uint64_t boot_ns,
                        long ticks_per_second);

/* The time at which the deadlines' clock starts, on the clock of `now`. `now`
 * is cut to a whole millisecond; the clock starts age_ms before the end of
 * that millisecond, so never before the process did. If the age is unknown or
 * over max_age_ms (an image that a long-lived process exec'ed), the clock
 * starts at that end. */
int64_t ro_clock_start(int64_t now, int64_t age_ms, int64_t max_age_ms);

#endif
