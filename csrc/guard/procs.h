/* Processes as /proc shows them. Reading takes memory only to grow the list.
 */
#ifndef RO_GUARD_PROCS_H
#define RO_GUARD_PROCS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/slice.h"

typedef enum ro_proc_mark {
    RO_PROC_UNKNOWN = 0,
    RO_PROC_OURS,
    RO_PROC_OTHER,
} ro_proc_mark;

typedef struct ro_proc {
    uint64_t start; /* clock ticks after boot: with pid it is an identity */
    pid_t pid;
    pid_t ppid;
    bool dead;         /* zombie with no thread left */
    ro_proc_mark mark; /* by guard/descendants.h */
} ro_proc;

/* Sorted by pid after a read. */
typedef struct ro_procs {
    ro_proc *list;
    size_t len;
    size_t cap;
    bool cut; /* out of memory or unreadable: processes are missing */
} ro_procs;

/* False when out of memory. Free with ro_procs_free. */
bool ro_procs_init(ro_procs *procs, size_t cap);
void ro_procs_free(ro_procs *procs);
/* False when out of memory. Keeps the order only if pid is the largest. */
bool ro_procs_add(ro_procs *procs, const ro_proc *proc);
void ro_procs_sort(ro_procs *procs);
/* NULL when there is none. The list must be sorted. */
ro_proc *ro_procs_find(const ro_procs *procs, pid_t pid);
/* The same process, not only the same pid. */
bool ro_procs_has(const ro_procs *procs, const ro_proc *proc);

/* One line of /proc/PID/stat. The command may hold any byte. */
bool ro_proc_parse_stat(ro_slice stat, ro_proc *out);
/* Whose process it is, from /proc/PID/status. */
typedef struct ro_proc_owner {
    uid_t uid;      /* real */
    unsigned depth; /* pid namespaces in which it has a pid, from that of
                       /proc on; 0: the kernel does not say */
    pid_t pid;      /* in the innermost of them; 0: the same */
} ro_proc_owner;

bool ro_proc_parse_status(ro_slice status, ro_proc_owner *out);

/* At most size bytes of proc_fd's PID/name. -1 when it is not there. */
ssize_t ro_proc_read(int proc_fd, const char *pid, const char *name,
                     char *buffer, size_t size);
/* As above for one process. */
bool ro_proc_look(int proc_fd, pid_t pid, ro_proc *out);
bool ro_proc_look_owner(int proc_fd, const char *pid, ro_proc_owner *out);
/* Forget what was there and read all. False when the directory cannot be read
 * at all; cut is set when reading ended early. */
bool ro_procs_read(ro_procs *procs, int proc_fd);

#endif
