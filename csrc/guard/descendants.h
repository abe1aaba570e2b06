/* Whose process is whose, over one snapshot; no system calls here. The rule
 * is at the end of guard.h. */
#ifndef RO_GUARD_DESCENDANTS_H
#define RO_GUARD_DESCENDANTS_H

#include "guard/procs.h"

typedef struct ro_lineage {
    pid_t self;
    const ro_procs *spared; /* sorted; what existed at start */
    uint64_t spare_before;  /* ticks: what is older is spared; 0: nothing */
} ro_lineage;

/* Mark every process of the sorted snapshot. A parent that is missing, or
 * younger than its child (the pid was used again), leads nowhere: the child
 * has been orphaned since and the next snapshot knows where it went. True
 * when there was such a one. */
bool ro_descendants_mark(ro_procs *procs, const ro_lineage *lineage);

/* Processes that are ours, alive and were not in the snapshot before. */
size_t ro_descendants_fresh(const ro_procs *procs, const ro_procs *before);

#endif
