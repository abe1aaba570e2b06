/* A child process with a pipe to its standard input and one from its
 * standard output. Any thread; no state.
 */
#ifndef RO_MCP_CHILD_H
#define RO_MCP_CHILD_H

#include <stdbool.h>
#include <sys/resource.h>
#include <sys/types.h>

typedef struct ro_child {
    pid_t pid;
    int pidfd;  /* readable when it has exited; -1 where there is none */
    int in_fd;  /* written to its standard input; non-blocking */
    int out_fd; /* read from its standard output; non-blocking */
} ro_child;

/* Start argv[0] (a path) in a session of its own, standard error to the null
 * device, every other descriptor closed, an empty signal mask, SIGPIPE and
 * SIGXFSZ at their defaults, and the soft limit of core files that is given,
 * if one is. It is killed when the calling thread ends, the process being
 * killed included; what it starts itself is not. False with errno set when it
 * cannot be started, and then nothing is left open. */
bool ro_child_spawn(ro_child *child, char *const argv[], char *const envp[],
                    const rlim_t *core_limit);
/* Send a signal to the child's process group. */
void ro_child_signal(const ro_child *child, int signal);
/* Reap it if it has exited; true when it is gone. */
bool ro_child_reap(ro_child *child);
/* Close what is open; does not end the child. Twice is fine. */
void ro_child_close(ro_child *child);

#endif
