/* When the process started, and what time it is. */
#ifndef RO_GUARD_CLOCK_H
#define RO_GUARD_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

/* Milliseconds of CLOCK_MONOTONIC. */
int64_t ro_clock_now(void);

/* Wait that long; a signal may end it early. */
void ro_clock_nap(int ms);

/* Clock ticks since boot, the unit of a process's start; 0: unknown. */
uint64_t ro_clock_boot_ticks(void);

/* Milliseconds since the process started, by /proc/self/stat and
 * CLOCK_BOOTTIME; -1: unknown. */
int64_t ro_clock_age(void);

/* The rule: age in ticks (10 ms as a rule, so start may lie that much
 * late), negative when the start is ahead of now. */
int64_t ro_clock_age_ms(uint64_t start_ticks, uint64_t boot_ticks,
                        long ticks_per_second);

/* Where the deadlines' clock starts on the clock of `now`: age_ms ago, or
 * now when the age is unknown or over max_age_ms (an image that a
 * long-lived process exec'ed). */
int64_t ro_clock_start(int64_t now, int64_t age_ms, int64_t max_age_ms);

#endif
