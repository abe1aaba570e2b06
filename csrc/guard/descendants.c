#include "guard/descendants.h"

static bool
is_spared(const ro_lineage *lineage, const ro_proc *proc)
{
    return proc->start < lineage->spare_before
           || ro_procs_has(lineage->spared, proc);
}

/* Up from proc to the first one whose mark is known or decides it; *steps
 * is how many parents that took. */
static ro_proc_mark
decide(const ro_procs *procs, const ro_lineage *lineage, const ro_proc *proc,
       size_t *steps, bool *loose)
{
    /* Nobody is further up than there are processes: a longer way is a ring
     * of entries that were read at different times. */
    for (*steps = 0; *steps < procs->len; (*steps)++) {
        if (proc->mark != RO_PROC_UNKNOWN) {
            return proc->mark;
        }
        if (is_spared(lineage, proc)) {
            return RO_PROC_OTHER;
        }
        if (proc->ppid == lineage->self) {
            return RO_PROC_OURS;
        }
        if (proc->ppid == 0 || proc->pid == lineage->self) {
            return RO_PROC_OTHER;
        }
        const ro_proc *parent = ro_procs_find(procs, proc->ppid);
        /* A parent that is younger than its child took over the pid of the
         * one that has died. */
        if (parent == NULL || parent->start > proc->start) {
            *loose = true;
            return RO_PROC_OTHER;
        }
        proc = parent;
    }
    *loose = true;
    return RO_PROC_OTHER;
}

bool
ro_descendants_mark(ro_procs *procs, const ro_lineage *lineage)
{
    bool loose = false;
    for (size_t i = 0; i < procs->len; i++) {
        procs->list[i].mark = RO_PROC_UNKNOWN;
    }
    for (size_t i = 0; i < procs->len; i++) {
        size_t steps;
        ro_proc *proc = &procs->list[i];
        ro_proc_mark mark = decide(procs, lineage, proc, &steps, &loose);
        /* the whole way up shares the answer, and a long chain its cost */
        for (; proc != NULL && proc->mark == RO_PROC_UNKNOWN; steps--) {
            proc->mark = mark;
            proc = steps > 0 ? ro_procs_find(procs, proc->ppid) : NULL;
        }
    }
    return loose;
}

size_t
ro_descendants_fresh(const ro_procs *procs, const ro_procs *before)
{
    size_t fresh = 0;
    for (size_t i = 0; i < procs->len; i++) {
        const ro_proc *proc = &procs->list[i];
        if (proc->mark == RO_PROC_OURS && !proc->dead
            && !ro_procs_has(before, proc)) {
            fresh++;
        }
    }
    return fresh;
}
