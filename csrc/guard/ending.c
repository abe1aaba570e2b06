#include "guard/ending.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guard/guard.h"
#include "guard/sys.h"

/* processes: room that is there before the end, when the heap may not be */
#define ROOM 4096
/* milliseconds: the last round, between RO_GUARD_KILL_MS and _END_MS */
#define LAST_KILL_MS 30

/* Whether there is any child, dead or alive. False is certain, and cheap. */
static bool
have_children(void)
{
    siginfo_t info;
    int options = WEXITED | WNOHANG | WNOWAIT | __WALL;
    return RO_SYS(WAITID, waitid(P_ALL, 0, &info, options), -1) == 0
           || errno != ECHILD;
}

/* The number under which /proc shows this process; 0: it does not, since it
 * belongs to a pid namespace that this process is not in. */
static pid_t
number_in(int proc_fd)
{
    char self[24];
    char *end;
    ssize_t len = RO_SYS(
        READLINKAT, readlinkat(proc_fd, "self", self, sizeof(self) - 1), -1);
    if (len <= 0) {
        return 0;
    }
    self[len] = '\0';
    long number = strtol(self, &end, 10);
    return *end == '\0' && number > 0 ? (pid_t)number : 0;
}

static bool
open_proc(ro_ending *ending)
{
    do {
        ending->proc_fd = RO_SYS(
            OPEN, open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC), -1);
    } while (ending->proc_fd < 0 && errno == EINTR);
    if (ending->proc_fd < 0) {
        return false;
    }
    ending->lineage.self = number_in(ending->proc_fd);
    if (ending->lineage.self > 0
        && ro_proc_look_owner(ending->proc_fd, "self", &ending->self)
        && (ending->self.pid != 0 ? ending->self.pid : ending->lineage.self)
               == getpid()) {
        return true;
    }
    (void)close(ending->proc_fd);
    ending->proc_fd = -1;
    return false;
}

/* Everything below this process is spared from here on. */
static bool
note_existing(ro_ending *ending)
{
    if (!have_children()) {
        return true;
    }
    if (!ro_procs_read(&ending->now, ending->proc_fd) || ending->now.cut) {
        return false;
    }
    (void)ro_descendants_mark(&ending->now, &ending->lineage);
    for (size_t i = 0; i < ending->now.len; i++) {
        const ro_proc *proc = &ending->now.list[i];
        if (proc->mark == RO_PROC_OURS
            && !ro_procs_add(&ending->spared, proc)) {
            return false;
        }
    }
    return true;
}

bool
ro_ending_init(ro_ending *ending, unsigned *degraded)
{
    *ending = (ro_ending){.proc_fd = -1};
    ending->lineage.spared = &ending->spared;
    if (!ro_procs_init(&ending->now, ROOM)
        || !ro_procs_init(&ending->before, ROOM)) {
        return false;
    }
    if (!open_proc(ending)) {
        *degraded |= RO_GUARD_NO_PROC;
        return true;
    }
    if (!note_existing(ending)) {
        *degraded |= RO_GUARD_NO_STARTERS;
        /* An unknown time spares all: one of ours may stay rather than
         * another's end. */
        uint64_t ticks = ro_clock_boot_ticks();
        ending->lineage.spare_before = ticks == 0 ? UINT64_MAX : ticks;
    }
    return true;
}

void
ro_ending_free(ro_ending *ending)
{
    if (ending->proc_fd >= 0) {
        (void)close(ending->proc_fd);
    }
    ro_procs_free(&ending->spared);
    ro_procs_free(&ending->now);
    ro_procs_free(&ending->before);
    *ending = (ro_ending){.proc_fd = -1};
}

/* Its pid for this process's system calls; 0: gone, or not ours to end. */
static pid_t
pid_of(const ro_ending *ending, const ro_proc *proc)
{
    char name[24];
    ro_proc_owner owner;
    (void)snprintf(name, sizeof(name), "%ld", (long)proc->pid);
    if (!ro_proc_look_owner(ending->proc_fd, name, &owner)
        || owner.uid != ending->self.uid
        || owner.depth != ending->self.depth) {
        return 0;
    }
    return owner.pid != 0 ? owner.pid : proc->pid;
}

static bool
is_same(const ro_ending *ending, const ro_proc *proc)
{
    ro_proc again;
    return ro_proc_look(ending->proc_fd, proc->pid, &again)
           && again.start == proc->start;
}

/* The pidfd is opened before the last look. If the process is still the same
 * at that look, then it was the same when the descriptor was opened, and a
 * descriptor never moves to another process. kill() after the look has a gap
 * in which the pid may be used again; it is left for kernels without pidfds.
 * False: not ours, or out of reach. A process that is gone counts as one
 * that took the signal. */
static bool
send(const ro_ending *ending, const ro_proc *proc, int number)
{
    pid_t pid = pid_of(ending, proc);
    if (pid == 0) {
        return !is_same(ending, proc);
    }
    bool sent = true;
    int fd = (int)RO_SYS(PIDFD_OPEN, syscall(SYS_pidfd_open, pid, 0), -1);
    if (is_same(ending, proc)) {
        long failed = -1;
        if (fd >= 0) {
            failed = RO_SYS(
                PIDFD_SEND_SIGNAL,
                syscall(SYS_pidfd_send_signal, fd, number, NULL, 0), -1);
        }
        if (fd < 0 || (failed != 0 && errno != ESRCH)) {
            failed = RO_SYS(KILL, kill(pid, number), -1);
        }
        sent = failed == 0 || errno == ESRCH;
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    return sent;
}

/* How many took the signal. The newest comes first: it may be about to fork.
 */
static size_t
send_all(const ro_ending *ending, const ro_procs *procs, int number,
         int64_t until)
{
    size_t sent = 0;
    for (size_t i = procs->len; i > 0; i--) {
        const ro_proc *proc = &procs->list[i - 1];
        if (proc->mark == RO_PROC_OURS && !proc->dead) {
            sent += send(ending, proc, number);
            if (ro_monotonic_ms() >= until) {
                break;
            }
        }
    }
    return sent;
}

/* By pid and not by waitpid(-1): a thread of the process may wait for a child
 * of its own, whose status is then still there for it. */
static void
reap(const ro_ending *ending)
{
    for (size_t i = 0; i < ending->now.len; i++) {
        const ro_proc *proc = &ending->now.list[i];
        if (proc->mark != RO_PROC_OURS || !proc->dead
            || proc->ppid != ending->lineage.self) {
            continue;
        }
        pid_t pid = pid_of(ending, proc);
        if (pid > 0) {
            (void)RO_SYS(WAITPID, waitpid(pid, NULL, WNOHANG | __WALL), -1);
        }
    }
}

static void
reap_all(int64_t until)
{
    while (ro_monotonic_ms() < until) {
        pid_t pid = RO_SYS(WAITPID, waitpid(-1, NULL, WNOHANG | __WALL), -1);
        if (pid == 0 || (pid < 0 && errno != EINTR)) {
            return;
        }
    }
}

static void
swap(ro_procs *a, ro_procs *b)
{
    ro_procs keep = *a;
    *a = *b;
    *b = keep;
}

typedef struct sight {
    bool whole; /* all of /proc was read */
    bool loose; /* some process was between two parents */
    bool alive; /* something of ours is */
    size_t fresh;
} sight;

static sight
look_round(ro_ending *ending)
{
    sight seen = {0};
    swap(&ending->now, &ending->before);
    seen.whole
        = ro_procs_read(&ending->now, ending->proc_fd) && !ending->now.cut;
    seen.loose = ro_descendants_mark(&ending->now, &ending->lineage);
    seen.fresh = ro_descendants_fresh(&ending->now, &ending->before);
    for (size_t i = 0; i < ending->now.len; i++) {
        const ro_proc *proc = &ending->now.list[i];
        seen.alive = seen.alive || (proc->mark == RO_PROC_OURS && !proc->dead);
    }
    return seen;
}

/* Stops all while there is a new process, and kills all once there is none.
 * Where /proc cannot be read to its end, all that was ever seen is killed:
 * nothing may stay behind merely stopped. */
static size_t
act_on(ro_ending *ending, const sight *seen, int64_t until)
{
    if (!seen->whole) {
        return send_all(ending, &ending->now, SIGKILL, until)
               + send_all(ending, &ending->before, SIGKILL, until);
    }
    if (!seen->alive) {
        return 0;
    }
    return send_all(ending, &ending->now, seen->fresh > 0 ? SIGSTOP : SIGKILL,
                    until);
}

/* Stop all until no new one shows itself, then kill all: a stopped process
 * does not fork, and an orphan comes to the sub-reaper. */
static void
run_rounds(ro_ending *ending, int64_t until)
{
    int64_t give_up = ro_monotonic_ms() + RO_GUARD_KILL_TRY_MS;
    int wait_ms = 1;
    int quiet = 0;
    ending->before.len = 0;
    ending->now.len = 0;
    while (have_children()) {
        sight seen = look_round(ending);
        int64_t now = ro_monotonic_ms();
        reap(ending);
        if (now >= until || now >= give_up) {
            seen.whole = false; /* no more stopping: kill all that was seen */
            (void)act_on(ending, &seen, now + LAST_KILL_MS);
            return;
        }
        size_t sent = act_on(ending, &seen, until);
        /* Nothing took a signal, so what is left is not ours. An orphan
         * between two parents is missing from one look: look again. */
        quiet = sent > 0 ? 0 : quiet + 1;
        if (quiet >= (seen.whole && !seen.loose ? 2 : 8)) {
            return;
        }
        if (seen.fresh > 0 && seen.whole) {
            /* no wait: the next look must come before the next fork */
            give_up = ro_monotonic_ms() + RO_GUARD_KILL_TRY_MS;
            wait_ms = 1;
            continue;
        }
        ro_clock_sleep(wait_ms);
        wait_ms = wait_ms < 16 ? wait_ms * 2 : wait_ms;
    }
}

void
ro_ending_run(ro_ending *ending, int64_t until)
{
    if (ending->proc_fd >= 0) {
        run_rounds(ending, until);
    }
    reap_all(until);
}
