/* sources: guard/descendants.c
 * options: --unwind 6
 *
 * Of any snapshot of up to 3 processes, rings of parents and times that do not
 * fit included, exactly those are ours whose parents lead to this process
 * through processes that nothing spares, none of them younger than its child.
 */
#include "prove.h"

#include "guard/descendants.h"

#define MOST 3

/* By the header's contract; the real ones are in procs.c, with its reads. */
ro_proc *
ro_procs_find(const ro_procs *procs, pid_t pid)
{
    for (size_t i = 0; i < procs->len; i++) {
        if (procs->list[i].pid == pid) {
            return &procs->list[i];
        }
    }
    return NULL;
}

bool
ro_procs_has(const ro_procs *procs, const ro_proc *proc)
{
    const ro_proc *found = ro_procs_find(procs, proc->pid);
    return found != NULL && found->start == proc->start;
}

/* By the definition, one step at a time, as many as there are processes. */
static bool
is_ours(const ro_procs *procs, const ro_lineage *lineage, const ro_proc *proc)
{
    for (size_t steps = 0; steps < MOST; steps++) {
        if (proc->start < lineage->spare_before
            || ro_procs_has(lineage->spared, proc)) {
            return false;
        }
        if (proc->ppid == lineage->self) {
            return true;
        }
        const ro_proc *parent = ro_procs_find(procs, proc->ppid);
        if (proc->ppid == 0 || proc->pid == lineage->self || parent == NULL
            || parent->start > proc->start) {
            return false;
        }
        proc = parent;
    }
    return false;
}

void
prove(void)
{
    ro_proc list[MOST];
    ro_proc old;
    ro_procs procs = {.list = list, .len = any_size(MOST), .cap = MOST};
    ro_procs spared = {.list = &old, .len = any_size(1), .cap = 1};
    ro_lineage lineage = {
        .self = (pid_t)any_size(5) + 1,
        .spared = &spared,
        .spare_before = any_size(3),
    };
    old.pid = (pid_t)any_size(6);
    old.start = any_size(3);
    for (size_t i = 0; i < procs.len; i++) {
        list[i].pid = (pid_t)any_size(6);
        list[i].ppid = (pid_t)any_size(6);
        list[i].start = any_size(3);
        list[i].dead = nondet_bool();
        list[i].mark = RO_PROC_OURS; /* of an earlier look */
        ASSUME(list[i].pid > 0 && list[i].pid != list[i].ppid);
        ASSUME(i == 0 || list[i - 1].pid < list[i].pid);
    }

    (void)ro_descendants_mark(&procs, &lineage);

    size_t fresh = 0;
    for (size_t i = 0; i < procs.len; i++) {
        bool ours = is_ours(&procs, &lineage, &list[i]);
        CLAIM((list[i].mark == RO_PROC_OURS) == ours && !(IS_TWIN && ours));
        CLAIM(list[i].mark != RO_PROC_UNKNOWN);
        fresh += ours && !list[i].dead && !ro_procs_has(&spared, &list[i]);
    }
    CLAIM(ro_descendants_fresh(&procs, &spared) == fresh);
}
