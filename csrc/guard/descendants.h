/* Which processes of one snapshot are ours; no system calls here. The rule
 * is in ending.h. */
#ifndef RO_GUARD_DESCENDANTS_H
#define RO_GUARD_DESCENDANTS_H

#include "guard/procs.h"

typedef struct ro_lineage {
    pid_t self;
    const ro_procs *spared; /* sorted: those that existed at start */
    uint64_t spare_before;  /* ticks: older ones are spared; 0: none */
} ro_lineage;

/* Mark every process of the sorted snapshot. True when a process's parent is
 * missing, or younger than its child (the pid was used again): the child has
 * lost its parent since, and the next snapshot knows the new one. */
bool ro_descendants_mark(ro_procs *procs, const ro_lineage *lineage);

/* Processes that are ours, alive and were not in the snapshot before. */
size_t ro_descendants_fresh(const ro_procs *procs, const ro_procs *before);

#endif
