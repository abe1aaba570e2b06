/* Keeps other processes of the same user out of this one. */
#ifndef RO_GUARD_PRIVACY_H
#define RO_GUARD_PRIVACY_H

#include <stdbool.h>
#include <sys/resource.h>

typedef struct ro_privacy {
    bool closed;        /* it was dumpable, and is not now */
    bool limited;       /* core_before is what the limit was */
    rlim_t core_before; /* bytes: soft limit of a core file */
} ro_privacy;

/* Not dumpable: without CAP_SYS_PTRACE nobody, a child least of all, opens
 * this process's descriptors, memory or environment under /proc, attaches to
 * it or gets its core. It still reads its own /proc/self/fd, stat, status and
 * maps, but as an unprivileged user not its own environ, auxv or io. exec
 * makes a child dumpable again; the core limit, which it inherits, is its
 * parent's to give back. False when the kernel refuses. */
bool ro_privacy_close(ro_privacy *privacy);
void ro_privacy_open(ro_privacy *privacy);

#endif
