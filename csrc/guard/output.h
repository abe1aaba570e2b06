/* Descriptors 0 to 2, and bytes onto the private standard output. */
#ifndef RO_GUARD_OUTPUT_H
#define RO_GUARD_OUTPUT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/slice.h"

/* The private copy lies at or above this, clear of what shells hand down. */
#define RO_OUTPUT_LOWEST 10

typedef struct ro_output {
    bool closed[3]; /* at start */
    int fd;         /* private standard output; -1: closed at start */
    int error_fd;   /* standard error as it was, for an undo; or -1 */
    int null_fd;    /* also a descriptor to give back at the end; or -1 */
} ro_output;

/* Steps 1 and 2 of ro_guard_start. False with errno; then, and only then, undo
 * before anything else. */
bool ro_output_take(ro_output *output);
/* Point 1 and 2 back to where they were; the null device stays where they
 * were closed. Closes the rest. */
void ro_output_undo(ro_output *output);
/* Start succeeded: standard error is not needed again. */
void ro_output_keep(ro_output *output);

/* Poll and write, at most 4,096 bytes at a time, until all is out. False
 * after an error or when it is `until` (ms of ro_monotonic_ms). May block for
 * longer in write itself (terminals, sockets, another writer on the pipe). */
bool ro_output_write(int fd, ro_slice bytes, int64_t until);

#endif
